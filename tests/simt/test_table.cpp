/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weights, products and row operations as the rest of the program calls them: through the
 * table of the device backend, on the device in ordinary memory. */
#include "tests/simt/rt_host.h"
#include "tests/simt/table.h"

#include <algorithm>

static bool same(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() &&
           memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

static float bf16(float f)
{
    uint32_t u = kva_bits(f);

    return kva_bits_float((u + 0x7fffu + (u >> 16 & 1)) & 0xffff0000u);
}

static std::vector<double> reference(const file_weight &w, const std::vector<float> &x,
                                     const std::vector<int32_t> &row_of, bool rounded)
{
    size_t rows = x.size() / (size_t)w.in;
    std::vector<double> y(rows * (size_t)w.out);

    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < (size_t)w.out; o++)
            for (size_t i = 0; i < (size_t)w.in; i++) {
                float a = x[r * (size_t)w.in + i],
                      b = w.value[(size_t)row_of[o] * (size_t)w.in + i];

                y[r * (size_t)w.out + o] +=
                    rounded ? (double)bf16(a) * (double)bf16(b) : (double)a * (double)b;
            }
    return y;
}

static std::vector<int32_t> permutation(int n)
{
    std::vector<int32_t> p((size_t)n);

    for (int i = 0; i < n; i++)
        p[(size_t)i] = i;
    for (int i = n; i > 1; i--)
        std::swap(p[(size_t)(i - 1)], p[(size_t)random_below(i)]);
    return p;
}

TEST(products_of_every_type_and_phase_with_rows_in_another_order)
{
    for (const char *numerics : {"f32", "bf16"}) {
        table t(numerics);

        for (kva_type type : all_types) {
            int in = row_lengths(type).back(), out = 150, rows = 5;
            file_weight w = random_weight(type, out, in);
            std::vector<int32_t> row_of = permutation(out);
            kva_weight *d = load(t.ops, w, row_of.data());
            on_device x(t.ops, random_floats((size_t)(rows * in)));
            std::vector<float> host = x.read();

            for (bool context : {false, true}) {
                bool rounded = context && strcmp(numerics, "bf16") == 0;
                on_device y(t.ops, std::vector<float>((size_t)(rows * out), NAN));
                std::vector<double> want = reference(w, host, row_of, rounded);

                t.ops->context = context;
                t.ops->matmul(t.ops, d, x.p, rows, y.p, out);
                std::vector<float> all = y.read();
                CHECK_CLOSE(all.data(), want.data(), all.size(), 4e-6);
                /* host memory, rows of y apart; then one row alone */
                std::vector<float> apart((size_t)(rows * (out + 3)), 7.0f);
                t.ops->matmul(t.ops, d, host.data(), rows, apart.data(), out + 3);
                for (int r = 0; r < rows; r++)
                    for (int o = 0; o < out + 3; o++)
                        CHECK(apart[(size_t)(r * (out + 3) + o)] ==
                              (o < out ? all[(size_t)(r * out + o)] : 7.0f));
                on_device one(t.ops, std::vector<float>((size_t)out, NAN));
                t.ops->matmul(t.ops, d, x.p + 3 * in, 1, one.p, out);
                CHECK(same(one.read(), std::vector<float>(all.begin() + 3 * out,
                                                          all.begin() + 4 * out)));
            }
            t.ops->context = false;
            t.ops->weight_free(t.ops, d);
        }
        CHECK(strlen(t.ops->choices(t.ops)) > 0);
        CHECK_OK(kva_rt_status(kva_cuda_of(t.ops)->rt, err));
    }
}

TEST(an_embedding_is_the_row_of_the_file_that_the_order_names)
{
    table t("f32");
    const int32_t ids[] = {3, 0, 6};

    for (kva_type type : all_types) {
        int in = row_lengths(type)[0];
        file_weight w = random_weight(type, 7, in);
        std::vector<int32_t> row_of = permutation(7);
        kva_weight *d = load(t.ops, w, row_of.data());
        std::vector<float> x((size_t)(3 * in), NAN);
        on_device there(t.ops, x);

        t.ops->embed(t.ops, d, ids, 3, 0.5f, x.data());
        t.ops->embed(t.ops, d, ids, 3, 0.5f, there.p);
        CHECK(same(there.read(), x));
        for (int r = 0; r < 3; r++)
            for (int i = 0; i < in; i++)
                CHECK(x[(size_t)(r * in + i)] ==
                      0.5f * w.value[(size_t)(row_of[(size_t)ids[r]] * in + i)]);
        t.ops->weight_free(t.ops, d);
    }
}

TEST(the_table_says_what_it_holds)
{
    table t("bf16");

    CHECK_INT(t.ops->most_dim, 256);
    CHECK(t.ops->chunk > 256);
    CHECK(strcmp(t.ops->numerics, "bf16") == 0);
}

TEST(weights_that_cannot_be_are_refused_and_leave_no_memory)
{
    table t("f32");
    kva_error err = {};
    kva_weight *d = nullptr;
    file_weight w = random_weight(KVA_Q4_0, 4, 64);
    int32_t beyond[] = {0, 1, 4, 2}, below[] = {0, -1, 2, 3};
    size_t used = kva_rt_host_used();
    auto refused = [&](int type, int out, int in, const int32_t *row_of) {
        err = {};
        return t.ops->weight_new(t.ops, (kva_type)type, w.file.data(), out, in, row_of,
                                 &d, &err);
    };

    CHECK_INT(refused(77, 4, 64, nullptr), KVA_EUNSUPPORTED);
    CHECK_INT(refused(KVA_Q4_0, 4, 63, nullptr), KVA_EINVALID);
    CHECK_INT(refused(KVA_Q4_K, 4, 64, nullptr), KVA_EINVALID);
    CHECK_INT(refused(KVA_Q4_0, 0, 64, nullptr), KVA_EINVALID);
    CHECK_INT(refused(KVA_Q4_0, 4, 64, beyond), KVA_EINVALID);
    CHECK_INT(refused(KVA_Q4_0, 4, 64, below), KVA_EINVALID);
    CHECK(d == nullptr);
    kva_rt_host_size(used + 256);
    if (kva_rt_is_host) {
        CHECK_INT(refused(KVA_Q4_0, 4, 64, nullptr), KVA_ENOMEM);
        if (!strstr(err.text, "4 x 64"))
            FAIL("%s", err.text);
    }
    kva_rt_host_size((size_t)64 << 30);
    CHECK(d == nullptr);
    CHECK_INT(kva_rt_host_used(), used);
    d = load(t.ops, w, nullptr);
    CHECK(t.ops->weight_bytes(d) >= 4 * 256 / 2); /* a chunk of four bits a row */
    CHECK(kva_rt_host_used() > used || !kva_rt_is_host);
    t.ops->weight_free(t.ops, d);
    CHECK_INT(kva_rt_host_used(), used);
    t.ops->weight_free(t.ops, nullptr);
}

/* One row through a layer's operations: in device memory without a wait, the same bits
 * as from host memory. */
TEST(row_operations_take_memory_of_either_side_and_do_not_wait)
{
    table t("f32");
    const int dim = 64, rows = 3, heads = 2, half = 16, in = 64;
    file_weight fw = random_weight(KVA_Q8_0, dim, in);
    kva_weight *w = load(t.ops, fw, nullptr);
    size_t n = (size_t)(rows * dim);
    std::vector<float> x = random_floats(n), norm = random_floats((size_t)dim),
                       freq = random_floats((size_t)half), cs((size_t)(rows * 2 * half)),
                       h(n), g(n);
    const int32_t pos[] = {5, 900, 7};
    kva_ops *o = t.ops;
    on_device dx(o, x), dnorm(o, norm), dfreq(o, freq), dcs(o, cs), dh(o, h), dg(o, g);
    auto layer = [&](float *px, const float *pnorm, const float *pfreq, float *pcs,
                     float *ph, float *pg) {
        o->rope_table(o, pos, rows, pfreq, half, 1.0f, pcs);
        o->rmsnorm(o, px, pnorm, 1e-5f, rows, dim, ph);
        o->matmul(o, w, ph, rows, pg, dim);
        o->rope(o, pg, dim, rows, heads, dim / heads, pcs, half);
        o->silu_mul(o, pg, ph, n, pg);
        o->add(o, px, pg, n);
        o->rmsnorm(o, px, pnorm, 1e-5f, rows, dim, px);
    };

    layer(dx.p, dnorm.p, dfreq.p, dcs.p, dh.p, dg.p); /* scratch grows here, perhaps */
    o->copy(o, dx.p, x.data(), n * sizeof(float));
    size_t waits = kva_rt_host_waits();
    layer(dx.p, dnorm.p, dfreq.p, dcs.p, dh.p, dg.p);
    CHECK_INT(kva_rt_host_waits(), waits);
    layer(x.data(), norm.data(), freq.data(), cs.data(), h.data(), g.data());
    CHECK(same(dx.read(), x));
    CHECK(same(dg.read(), g));
    o->weight_free(o, w);
}

TEST(statistics_leave_rows_without_a_target_as_they_were)
{
    table t("f32");
    std::vector<float> z = random_floats(3 * 50);
    on_device dz(t.ops, z);
    const int32_t target[] = {4, -1, 49};
    int32_t argmax[3], again[3];
    double nll[3] = {-7, -7, -7}, most[3] = {-7, -7, -7};
    bool finite[3] = {false, false, false};

    t.ops->logits_stats(t.ops, dz.p, 50, 3, target, argmax, nll, finite);
    t.ops->logits_stats(t.ops, z.data(), 50, 3, target, again, most, finite);
    CHECK(nll[0] > 0 && nll[1] == -7 && nll[2] > 0);
    CHECK(memcmp(nll, most, sizeof nll) == 0);
    CHECK(memcmp(argmax, again, sizeof again) == 0);
    CHECK(finite[0] && finite[1] && finite[2]);
    nll[0] = -7;
    t.ops->logits_stats(t.ops, dz.p, 50, 3, nullptr, argmax, nullptr, finite);
    CHECK(nll[0] == -7);
    for (int r = 0; r < 3; r++)
        CHECK_INT(argmax[r],
                  std::max_element(z.begin() + r * 50, z.begin() + r * 50 + 50) -
                      (z.begin() + r * 50));
}

TEST(the_device_is_described)
{
    table t("f32");
    const struct kva_rt_info *info = kva_rt_info(kva_cuda_of(t.ops)->rt);
    const kva_device *d = t.ops->device;

    CHECK(d != nullptr && !t.ops->host);
    CHECK(strcmp(d->name, info->name) == 0 && d->name[0] != '\0');
    CHECK_INT(d->major, info->major);
    CHECK_INT(d->minor, info->minor);
    CHECK_INT(d->driver, info->driver);
    CHECK_INT(d->runtime, info->runtime);
    CHECK(d->total_bytes == info->total_bytes && d->total_bytes > 0);
}

/* From logits on either side; what is not finite is in them, and many are equal. */
TEST(a_draw_is_that_of_the_cpu_from_the_same_logits)
{
    table t("f32");
    kva_ops *cpu = nullptr;
    struct {
        float temperature, top_p;
        int top_k;
    } how[] = {
        {0.6f, 0.95f, 0}, {1, 1, 0}, {0.7f, 0.8f, 20}, {2, 1, 3}, {0.05f, 0.5f, 1}};
    const int rows = 7;

    CHECK_OK(kva_ops_open("cpu", "f32", 2, &cpu, err));
    for (int n : {1, 300, 5000})
        for (auto &h : how)
            for (int kind = 0; kind < 3; kind++) {
                std::vector<float> z = random_floats((size_t)(rows * n), 6);
                std::vector<double> u(rows);
                int32_t want[rows], got[rows], again[rows];

                for (double &x : u)
                    x = (double)(random_bits() >> 11) * 0x1p-53;
                if (kind == 1)
                    for (float &f : z)
                        f = (float)random_below(9) * 0.25f;
                if (kind == 2)
                    for (size_t i = 0; i < z.size(); i += 5)
                        z[i] = i % 2 ? NAN : -INFINITY;
                on_device dz(t.ops, z);
                cpu->draw(cpu, z.data(), n, rows, h.temperature, h.top_k, h.top_p,
                          u.data(), want);
                t.ops->draw(t.ops, z.data(), n, rows, h.temperature, h.top_k, h.top_p,
                            u.data(), got);
                t.ops->draw(t.ops, dz.p, n, rows, h.temperature, h.top_k, h.top_p,
                            u.data(), again);
                CHECK(memcmp(got, want, sizeof want) == 0);
                CHECK(memcmp(again, want, sizeof want) == 0);
            }
    kva_ops_close(cpu);
}

PARITY_MAIN
