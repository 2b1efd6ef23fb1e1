/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_scores_table.cpp - the scorers' functions of the device backend's table: the same
 * from memory of the host, of the device and shared; those of the CPU within rounding. */
#include "kernels/kernels.h"
#include "tests/simt/parity.h"

#include <algorithm>

namespace
{

struct tables {
    struct kva_ops *cpu = nullptr, *dev = nullptr;
    tables()
    {
        CHECK_OK(kva_ops_open("cpu", "f32", 1, &cpu, err));
        CHECK_OK(kva_ops_open("cuda", "f32", 1, &dev, err));
    }
    ~tables()
    {
        kva_ops_close(dev);
        kva_ops_close(cpu);
    }
};

/* An array of floats or doubles in host memory, or in the backend's. */
enum place { HOST, DEVICE, SHARED };
template <typename T> struct array {
    struct kva_ops *ops;
    place where;
    std::vector<T> host;
    T *p;
    array(struct kva_ops *o, place w, const std::vector<T> &v) : ops(o), where(w), host(v)
    {
        p = host.data();
        if (where != HOST) {
            p = (T *)ops->alloc(ops, host.size() * sizeof(T) + 1, memory());
            CHECK(p != nullptr);
            ops->copy(ops, p, host.data(), host.size() * sizeof(T));
        }
    }
    enum kva_mem memory() const
    {
        return where == SHARED ? KVA_MEM_SHARED : KVA_MEM_DEVICE;
    }
    std::vector<T> get()
    {
        if (where != HOST)
            ops->copy(ops, host.data(), p, host.size() * sizeof(T));
        return host;
    }
    ~array()
    {
        if (where != HOST)
            ops->release(ops, p, memory());
    }
    array(const array &) = delete;
};

/* f(place) in every place: the same bits; returns the first. */
template <typename F> auto everywhere(F f)
{
    auto first = f(HOST);

    for (place w : {DEVICE, SHARED}) {
        auto v = f(w);

        CHECK_INT(v.size(), first.size());
        for (size_t i = 0; i < v.size(); i++)
            CHECK(memcmp(&v[i], &first[i], sizeof v[i]) == 0);
    }
    return first;
}

void join(std::vector<float> &to, const std::vector<float> &v)
{
    to.insert(to.end(), v.begin(), v.end());
}

} // namespace

TEST(geometry_from_any_memory_is_that_of_the_cpu)
{
    tables t;
    const int dim = 64, heads = 4;
    const std::vector<size_t> off = {3, 4, 37, 37, 101}; /* rows before the first stay */
    std::vector<float> x = random_floats(off.back() * dim),
                       c = random_floats(heads * dim);
    auto run = [&](struct kva_ops *ops, place w) {
        array<float> data(ops, w, x), centre(ops, w, c);
        struct kva_rows rows = {data.p, off.data(), heads, dim};
        std::vector<float> all;

        for (int f = 0; f < 6; f++) {
            array<float> s(ops, w,
                           std::vector<float>(std::max<size_t>(off.back(), 256), 7));

            if (f == 0)
                ops->row_norm(ops, &rows, s.p);
            else if (f == 1)
                ops->row_abs(ops, &rows, s.p);
            else if (f == 2)
                ops->row_distance(ops, &rows, centre.p, s.p);
            else if (f == 3)
                ops->row_cosine(ops, &rows, centre.p, s.p);
            else
                ops->row_mean(ops, &rows, f - 4, s.p);
            join(all, s.get());
        }
        return all;
    };
    auto got = everywhere([&](place w) { return run(t.dev, w); });
    auto want = run(t.cpu, HOST);

    for (size_t i = 0; i < 6 * 256; i += 256) /* each function by its own size */
        CHECK_CLOSE(got.data() + i, want.data() + i, 256, 1e-6);
}

TEST(moments_from_any_memory_have_the_bits_of_the_cpu)
{
    tables t;
    const int dim = 20, heads = 3, rows = 37, stride = 70;
    std::vector<float> x = random_floats(rows * stride);
    auto run = [&](struct kva_ops *ops, place w) {
        array<float> data(ops, w, x);
        array<double> sum(ops, w, std::vector<double>(heads * dim, 1)),
            square(ops, w, std::vector<double>(heads * dim * dim, 2));

        ops->row_moments(ops, data.p, stride, rows - 10, heads, dim, sum.p, square.p);
        ops->row_moments(ops, data.p + 27 * stride, stride, 10, heads, dim, sum.p,
                         square.p);
        auto all = sum.get(), more = square.get();
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < dim; i++)
                for (int j = 0; j <= i; j++)
                    all.push_back(more[(size_t)((h * dim + i) * dim + j)]);
        return all;
    };
    auto got = everywhere([&](place w) { return run(t.dev, w); });

    CHECK(got == run(t.cpu, HOST));
}

TEST(windows_from_any_memory_are_those_of_the_cpu)
{
    tables t;
    const int dim = 64, kv = 3, group = 2, heads = kv * group, nq = 9, vd = 32;
    const std::vector<size_t> off = {0, 1, 34, 104};
    std::vector<size_t> a_off; /* a gap behind each query head */
    std::vector<float> q = random_floats(nq * heads * dim, 3),
                       k = random_floats(off.back() * dim),
                       v = random_floats(off.back() * vd), by = random_floats(nq);
    std::vector<int32_t> q_pos, k_pos;
    size_t end = 0;

    for (int a = 0; a < heads; a++) {
        a_off.push_back(end);
        end += off[(size_t)(a / group) + 1] - off[(size_t)(a / group)] + 2;
    }
    for (float &b : by)
        b = fabsf(b);
    for (int i = 0; i < nq; i++)
        q_pos.push_back(random_below(104));
    for (size_t j = 0; j < off.back(); j++)
        k_pos.push_back(random_below(104));
    auto run = [&](struct kva_ops *ops, place w) {
        array<float> dq(ops, w, q), dk(ops, w, k), dv(ops, w, v), dby(ops, w, by);
        array<float> mean(ops, w, std::vector<float>(end, 7)),
            max(ops, w, std::vector<float>(end, 7)),
            plain(ops, w, std::vector<float>(end, 7));
        struct kva_rows keys = {dk.p, off.data(), kv, dim};
        std::vector<float> all;

        ops->window_mean(ops, dq.p, q_pos.data(), nq, heads, &keys, k_pos.data(), 0.125f,
                         mean.p, a_off.data());
        ops->window_max(ops, dq.p, q_pos.data(), nq, heads, &keys, k_pos.data(), 0.125f,
                        dby.p, max.p, a_off.data());
        ops->window_max(ops, dq.p, q_pos.data(), nq, heads, &keys, k_pos.data(), 0.125f,
                        NULL, plain.p, a_off.data());
        join(all, mean.get());
        join(all, max.get());
        join(all, plain.get());
        for (int form = 0; form < 4; form++) { /* all; w; z of all that is; w and o */
            size_t n = off[3] - off[2];
            array<float> z(ops, w, std::vector<float>(nq * n)),
                wt(ops, w, std::vector<float>(nq * n)),
                o(ops, w, std::vector<float>(nq * vd));
            struct kva_attend_rows r = {};

            r.q = dq.p + 3 * dim;
            r.q_stride = (size_t)(heads * dim);
            r.q_pos = form == 2 ? NULL : q_pos.data();
            r.nq = nq;
            r.k = dk.p + off[2] * dim;
            r.k_pos = form == 2 ? NULL : k_pos.data() + off[2];
            r.n = n;
            r.dim = dim;
            r.scale = 0.125f;
            r.v = dv.p + off[2] * vd;
            r.v_dim = vd;
            r.z = form == 0 || form == 2 ? z.p : NULL;
            r.w = form != 2 ? wt.p : NULL;
            r.o = form == 0 || form == 3 ? o.p : NULL;
            ops->attend_rows(ops, &r);
            join(all, z.get());
            join(all, wt.get());
            join(all, o.get());
        }
        return all;
    };
    auto got = everywhere([&](place w) { return run(t.dev, w); });
    auto want = run(t.cpu, HOST);

    CHECK_INT(got.size(), want.size());
    CHECK_CLOSE(got.data(), want.data(), 3 * end, 3e-7);
    CHECK_CLOSE(got.data() + 3 * end, want.data() + 3 * end, got.size() - 3 * end, 1e-6);
}

/* Norms of a projection, from weights as a file holds them: in one slab and in place. */
TEST(projected_norms_are_those_of_a_double_reference)
{
    tables t;
    const int dim = 32, kv = 2, group = 4, heads = kv * group, out = 150,
              in = heads * dim;
    const std::vector<size_t> off = {0, 33, 34};

    for (enum kva_type type : {KVA_F32, KVA_F16, KVA_Q8_0}) {
        const struct kva_type_info *info = kva_type_get(type);
        size_t blocks = (size_t)(out * in / info->block_elements);
        std::vector<uint8_t> data(blocks * (size_t)info->block_bytes);
        std::vector<float> w((size_t)(out * in)), v = random_floats(off.back() * dim);
        std::vector<size_t> a_off;
        struct kva_weight *o;
        size_t end = 0;

        for (uint8_t &b : data)
            b = (uint8_t)random_bits();
        for (size_t b = 0; b < blocks; b++) { /* plain scales and numbers */
            uint8_t *at = data.data() + b * (size_t)info->block_bytes;
            float f = random_float();
            uint16_t h = kva_f32_to_f16(f);

            if (type == KVA_F32)
                memcpy(at, &f, sizeof f);
            else
                memcpy(at, &h, sizeof h);
        }
        kva_dequant(type, data.data(), w.size(), w.data());
        CHECK_OK(t.dev->weight_new(t.dev, type, data.data(), out, in, NULL, &o, err));
        for (int a = 0; a < heads; a++) {
            a_off.push_back(end);
            end += off[(size_t)(a / group) + 1] - off[(size_t)(a / group)];
        }
        for (int norm = 1; norm <= 2; norm++) {
            std::vector<double> want(end);
            auto got = everywhere([&](place p) {
                array<float> dv(t.dev, p, v), s(t.dev, p, std::vector<float>(end, NAN));
                struct kva_rows rows = {dv.p, off.data(), kv, dim};

                t.dev->project_norm(t.dev, o, heads, &rows, norm, a_off.data(), s.p);
                return s.get();
            });

            for (int a = 0; a < heads; a++)
                for (size_t h = (size_t)(a / group), j = 0; j < off[h + 1] - off[h];
                     j++) {
                    double sum = 0;

                    for (int x = 0; x < out; x++) {
                        double y = 0;

                        for (int d = 0; d < dim; d++)
                            y += (double)w[(size_t)(x * in + a * dim + d)] *
                                 (double)v[(off[h] + j) * dim + (size_t)d];
                        sum += norm == 1 ? fabs(y) : y * y;
                    }
                    want[a_off[(size_t)a] + j] = norm == 1 ? sum : sqrt(sum);
                }
            CHECK_CLOSE(got.data(), want.data(), end, 1e-6);
        }
        t.dev->weight_free(t.dev, o);
    }
    CHECK_OK(t.dev->sync(t.dev, err));
}

PARITY_MAIN
