/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Row operations of the device: those that the CPU rounds the same way must give its
 * bits, the others a double reference within rounding. */
#include "kernels/cuda/rows.h"
#include "kernels/kernels.h"
#include "tests/simt/parity.h"
#ifdef KVA_HOST_SIMT
#include "kernels/cuda/exp.cuh"
#endif

#include <algorithm>

struct cpu_table {
    kva_ops *ops = nullptr;
    cpu_table()
    {
        CHECK_OK(kva_ops_open("cpu", "f32", 1, &ops, err));
    }
    ~cpu_table()
    {
        kva_ops_close(ops);
    }
};

static bool same(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* a NaN equals a NaN */
static bool same_or_nan(const std::vector<float> &a, const std::vector<float> &b)
{
    for (size_t i = 0; i < a.size(); i++)
        if (kva_bits(a[i]) != kva_bits(b[i]) && !(a[i] != a[i] && b[i] != b[i]))
            return false;
    return true;
}

#ifdef KVA_HOST_SIMT /* a function of kernels */
TEST(the_exponential_has_the_bits_of_the_cpu)
{
    for (int i = 0; i < 400000; i++) {
        float x = kva_bits_float((uint32_t)(random_bits() >> 32));

        if (fabsf(x) > 1e4f)
            x = 110 * random_float();
        float a = kva_exp(x), b = kva_expf(x);
        if (kva_bits(a) != kva_bits(b) && (a == a || b == b))
            FAIL("exp(%a): %a, should be %a", (double)x, (double)a, (double)b);
    }
    CHECK(kva_exp(0.0f) == 1.0f);
    CHECK(kva_exp(-INFINITY) == 0.0f);
    CHECK(kva_exp(INFINITY) == INFINITY);
    CHECK(kva_exp(NAN) != kva_exp(NAN));
}
#endif

TEST(a_norm_is_the_norm)
{
    for (int dim : {1, 31, 32, 33, 576, 1000}) {
        int rows = 3;
        size_t n = (size_t)(rows * dim);
        std::vector<float> x = random_floats(n), w = random_floats((size_t)dim);
        std::vector<double> want(n);

        for (int r = 0; r < rows; r++) {
            double s = 0;

            for (int i = 0; i < dim; i++)
                s += (double)x[(size_t)(r * dim + i)] * (double)x[(size_t)(r * dim + i)];
            s = 1 / sqrt(s / dim + 1e-5);
            for (int i = 0; i < dim; i++)
                want[(size_t)(r * dim + i)] =
                    x[(size_t)(r * dim + i)] * s * (double)w[(size_t)i];
        }
        auto y = in_orders([&] {
            std::vector<float> to(n, NAN);

            kva_dev_rmsnorm(x.data(), w.data(), 1e-5f, rows, dim, to.data(), nullptr);
            return to;
        });
        CHECK_CLOSE(y.data(), want.data(), n, 1e-6);
        /* in place, and a row alone */
        std::vector<float> z = x;
        kva_dev_rmsnorm(z.data(), w.data(), 1e-5f, rows, dim, z.data(), nullptr);
        CHECK(same(z.data(), y.data(), n));
        z = x;
        kva_dev_rmsnorm(z.data() + dim, w.data(), 1e-5f, 1, dim, z.data() + dim, nullptr);
        CHECK(same(z.data() + dim, y.data() + dim, (size_t)dim));
    }
}

TEST(angles_are_those_of_the_cpu_to_one_unit_in_the_last_place)
{
    cpu_table cpu;
    std::vector<int32_t> pos = {0, 1, 2, 31, 32, 8191, 131071, 1048576, INT32_MAX};
    const int half = 64;
    std::vector<float> freq((size_t)half);
    int other = 0;

    for (int i = 0; i < 40; i++)
        pos.push_back(random_below(INT32_MAX));
    for (size_t i = 0, n = pos.size(); i < n; i++)
        pos.push_back(-pos[i]); /* back, where an entry's place changes */
    for (int i = 0; i < half; i++)
        freq[(size_t)i] = (float)pow(500000.0, -i / 64.0);
    size_t n = pos.size() * 2 * half;
    std::vector<float> want(n);
    cpu.ops->rope_table(cpu.ops, pos.data(), (int)pos.size(), freq.data(), half, 1.25f,
                        want.data());
    auto y = in_orders([&] {
        std::vector<float> to(n, NAN);

        kva_dev_rope_table(pos.data(), (int)pos.size(), freq.data(), half, 1.25f,
                           to.data(), nullptr);
        return to;
    });
    for (size_t i = 0; i < n; i++) {
        float a = y[i], b = want[i];

        if (a != b && nextafterf(a, b) != b)
            FAIL("pair %zu of position %d: %.9g, should be %.9g", i % (2 * half) / 2,
                 pos[i / (2 * half)], (double)a, (double)b);
        other += a != b;
    }
    CHECK(other <= 2);
}

TEST(rotations_have_the_bits_of_the_cpu)
{
    cpu_table cpu;

    for (int half : {8, 32}) /* part of a head of 64, and all of it */
        for (int rows : {1, 2, 5}) {
            const int heads = 3, dim = 64, stride = heads * dim + 5;
            std::vector<float> x = random_floats((size_t)(rows * stride)), want = x;
            std::vector<float> cs = random_floats((size_t)(rows * 2 * half));

            cpu.ops->rope(cpu.ops, want.data(), stride, rows, heads, dim, cs.data(),
                          half);
            auto y = in_orders([&] {
                std::vector<float> to = x;

                kva_dev_rope(to.data(), stride, rows, heads, dim, cs.data(), half,
                             nullptr);
                return to;
            });
            CHECK(same(y.data(), want.data(), y.size()));
        }
}

TEST(activations_and_sums_have_the_bits_of_the_cpu)
{
    cpu_table cpu;

    for (size_t n : {(size_t)1, (size_t)255, (size_t)256, (size_t)1000}) {
        std::vector<float> g = random_floats(n, 30), u = random_floats(n), want(n);

        g[0] = n == 1 ? -INFINITY : n == 255 ? NAN : 100;
        g[n - 1] = n == 256 ? -100 : n == 1000 ? INFINITY : g[n - 1];
        cpu.ops->silu_mul(cpu.ops, g.data(), u.data(), n, want.data());
        auto y = in_orders([&] {
            std::vector<float> to(n, 7);

            kva_dev_silu_mul(g.data(), u.data(), n, to.data(), nullptr);
            for (float &f : to)
                f = f == f ? f : 12345.0f;
            return to;
        });
        for (float &f : want)
            f = f == f ? f : 12345.0f;
        CHECK(same(y.data(), want.data(), n));
        std::vector<float> z = g;
        kva_dev_silu_mul(z.data(), u.data(), n, z.data(), nullptr);
        for (float &f : z)
            f = f == f ? f : 12345.0f;
        CHECK(same(z.data(), y.data(), n));

        std::vector<float> a = u, b = u;
        cpu.ops->add(cpu.ops, a.data(), g.data(), n);
        kva_dev_add(b.data(), g.data(), n, nullptr);
        CHECK(same_or_nan(a, b));
    }
}

/* ---- logits ---- */

struct stats {
    std::vector<int32_t> argmax;
    std::vector<double> nll;
    std::vector<uint8_t> finite;
};

static stats device_stats(const std::vector<float> &z, int n, const int32_t *target)
{
    size_t rows = z.size() / (size_t)n;
    stats s = {std::vector<int32_t>(rows, -7), std::vector<double>(rows, -7),
               std::vector<uint8_t>(rows, 7)};

    kva_dev_logits_stats(z.data(), n, (int)rows, target, s.argmax.data(),
                         target ? s.nll.data() : nullptr, s.finite.data(), nullptr);
    return s;
}

static void compare_stats(cpu_table &cpu, const std::vector<float> &z, int n,
                          const std::vector<int32_t> &target, bool orders = false)
{
    size_t rows = target.size();
    std::vector<int32_t> argmax(rows);
    std::vector<double> nll(rows, -7);
    bool finite[16];

    cpu.ops->logits_stats(cpu.ops, z.data(), n, (int)rows, target.data(), argmax.data(),
                          nll.data(), finite);
    auto all = [&] {
        stats s = device_stats(z, n, target.data());
        std::vector<double> v = s.nll;

        v.insert(v.end(), s.argmax.begin(), s.argmax.end());
        v.insert(v.end(), s.finite.begin(), s.finite.end());
        return v;
    };
    auto both = orders ? in_orders(all) : all();
    for (size_t r = 0; r < rows; r++) {
        CHECK_INT(both[rows + r], argmax[r]);
        CHECK_INT(both[2 * rows + r], finite[r]);
        if (nll[r] != nll[r])
            CHECK(both[r] != both[r]);
        else if (both[r] != nll[r]) /* equal infinities */
            CHECK_NEAR(both[r], nll[r], 1e-12 * (1 + fabs(nll[r])));
        std::vector<float> row(z.begin() + (long)(r * (size_t)n),
                               z.begin() + (long)((r + 1) * (size_t)n));
        stats one = device_stats(row, n, &target[r]);
        CHECK(memcmp(&one.nll[0], &both[r], sizeof(double)) == 0);
        CHECK_INT(one.argmax[0], argmax[r]);
    }
}

TEST(statistics_of_logits_are_those_of_the_cpu)
{
    cpu_table cpu;

    for (int n : {1, 31, 32, 33, 64, 1000, 1025, 3000}) {
        std::vector<float> z = random_floats((size_t)(3 * n), 20);
        int last = n - 1;

        compare_stats(cpu, z, n, {0, -1, last}, n == 33 || n == 3000);
        z[(size_t)(n + random_below(n))] = NAN;
        z[(size_t)(2 * n + random_below(n))] = -INFINITY;
        compare_stats(cpu, z, n, {last, 0, random_below(n)});
        z[(size_t)random_below(n)] = INFINITY;
        compare_stats(cpu, z, n, {random_below(n), -1, -1});
        /* many equal ones: the lowest id */
        for (float &f : z)
            f = (float)random_below(3);
        compare_stats(cpu, z, n, {0, 0, last}, n == 1025);
        compare_stats(cpu, std::vector<float>((size_t)n, NAN), n, {0});
        compare_stats(cpu, std::vector<float>((size_t)n, -INFINITY), n, {last});
        compare_stats(cpu, std::vector<float>((size_t)n, 0.0f), n, {last});
    }
}

/* models.md: -log softmax([0, ln 2, ln 5]) = ln 8, ln 4, ln 1.6 */
TEST(worked_negative_log_probabilities)
{
    std::vector<float> z = {0,       logf(2), logf(5), 0,      logf(2),
                            logf(5), 0,       logf(2), logf(5)};
    const std::vector<int32_t> target = {0, 1, 2};
    stats s = device_stats(z, 3, target.data());

    CHECK_NEAR(s.nll[0], 2.0794415, 1e-6);
    CHECK_NEAR(s.nll[1], 1.3862944, 1e-6);
    CHECK_NEAR(s.nll[2], 0.4700036, 1e-6);
    CHECK_INT(s.argmax[1], 2);
    CHECK_INT(device_stats(z, 9, nullptr).argmax[0], 2);
}

/* ---- draws: the definition of rows.h, by sorting ---- */

static int32_t drawn(const float *z, int n, float temperature, int top_k, float top_p,
                     double u)
{
    std::vector<int> id;
    std::vector<uint64_t> mass((size_t)n, 0);
    float top = -INFINITY, inverse = 1.0f / temperature;
    auto at = [&](int i) { return z[i] == z[i] ? z[i] : -INFINITY; };

    for (int i = 0; i < n; i++) {
        id.push_back(i);
        top = fmaxf(top, at(i));
    }
    if (top == -INFINITY)
        return 0;
    std::stable_sort(id.begin(), id.end(), [&](int a, int b) { return at(a) > at(b); });
    if (top_k > 0 && top_k < n)
        id.resize((size_t)top_k);
    uint64_t total = 0, sum = 0;
    for (int i : id) {
        float e = z[i] == top    ? 1.0f
                  : z[i] == z[i] ? kva_expf((z[i] - top) * inverse)
                                 : 0;

        mass[(size_t)i] = (uint64_t)((double)e * 4294967296.0 + 0.5);
        total += mass[(size_t)i];
    }
    if (top_p < 1) {
        uint64_t need = std::max<uint64_t>((uint64_t)((double)top_p * (double)total), 1);
        size_t k = 0;

        while (sum < need)
            sum += mass[(size_t)id[k++]];
        id.resize(k);
        total = sum;
    }
    uint64_t point = std::min((uint64_t)(u * (double)total), total - 1);
    std::sort(id.begin(), id.end());
    sum = 0;
    for (int i : id)
        if ((sum += mass[(size_t)i]) > point)
            return i;
    return -1;
}

TEST(a_draw_is_the_draw_of_its_definition)
{
    /* the last one's share is less than the smallest mass: one id all the same */
    struct {
        float temperature, top_p;
        int top_k;
    } how[] = {{1, 1, 0},        {0.7f, 0.9f, 0}, {1.3f, 1, 5},  {1, 0.5f, 40},
               {0.1f, 0.95f, 1}, {2, 0.01f, 0},   {1, 1e-12f, 0}};

    for (int n : {1, 31, 257, 1000})
        for (auto &h : how)
            for (int kind = 0; kind < 5; kind++) {
                const int rows = 3;
                std::vector<float> z = random_floats((size_t)(rows * n), 8);
                std::vector<double> u = {0.0, (double)(random_bits() >> 11) * 0x1p-53,
                                         0x1.fffffffffffffp-1};

                if (kind == 1) /* heavy ties */
                    for (float &f : z)
                        f = (float)random_below(4) * 0.5f - 1;
                if (kind == 2)
                    for (int i = 0; i < n; i += 3)
                        z[(size_t)i] = i % 2 ? NAN : -INFINITY;
                if (kind == 3) /* both zeros, one key */
                    for (float &f : z)
                        f = f > 0 ? 0.0f : -0.0f;
                if (kind == 4) /* ties of keys that differ in their last digit alone */
                    for (float &f : z)
                        f = 1 + (float)random_below(6) * 0x1p-23f;
                auto draw = [&] {
                    std::vector<int32_t> id((size_t)rows, -7);

                    kva_dev_sample(z.data(), n, rows, h.temperature, h.top_k, h.top_p,
                                   u.data(), id.data(), nullptr);
                    return id;
                };
                auto got = n == 257 ? in_orders(draw) : draw();
                for (int r = 0; r < rows; r++) {
                    int32_t want = drawn(z.data() + r * n, n, h.temperature, h.top_k,
                                         h.top_p, u[(size_t)r]);

                    if (got[(size_t)r] != want)
                        FAIL("n %d, temperature %g, top_k %d, top_p %g, kind %d, row %d: "
                             "%d, should be %d",
                             n, (double)h.temperature, h.top_k, (double)h.top_p, kind, r,
                             got[(size_t)r], want);
                }
            }
}

/* probabilities 1/8, 2/8, 5/8 */
TEST(worked_draws)
{
    std::vector<float> z = {0, logf(2), logf(5)};
    auto draw = [&](double u, int top_k, float top_p) {
        const std::vector<double> at = {u};
        std::vector<int32_t> id = {-7};

        kva_dev_sample(z.data(), 3, 1, 1, top_k, top_p, at.data(), id.data(), nullptr);
        return id[0];
    };

    CHECK_INT(draw(0.12, 0, 1), 0);
    CHECK_INT(draw(0.13, 0, 1), 1);
    CHECK_INT(draw(0.37, 0, 1), 1);
    CHECK_INT(draw(0.38, 0, 1), 2);
    CHECK_INT(draw(0.28, 2, 1), 1); /* of 2/7, 5/7 */
    CHECK_INT(draw(0.29, 2, 1), 2);
    CHECK_INT(draw(0.0, 0, 0.6f), 2); /* 5/8 alone holds it */
    CHECK_INT(draw(0.0, 0, 0.63f), 1);
    CHECK_INT(draw(0.0, 1, 1), 2);
}

PARITY_MAIN
