/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_scorers.cpp - kernels of the scorers against double references and against the
 * CPU's numerics f32: geometry, moments, window weights, projected norms, pooling. */
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/pool.h"
#include "kernels/cuda/project.h"
#include "kernels/cuda/window.h"
#include "kernels/kernels.h"
#include "tests/simt/parity.h"

#include <algorithm>

namespace
{

/* KV heads of these many rows: one of a single entry, one across a page's end, one empty
 */
const std::vector<size_t> RAGGED = {1, 31, 0, 33, 64, 300};

struct ragged {
    std::vector<size_t> off;
    std::vector<float> data;
    int heads, dim;
    ragged(const std::vector<size_t> &n, int d) : off(1, 0), heads((int)n.size()), dim(d)
    {
        for (size_t x : n)
            off.push_back(off.back() + x);
        data = random_floats(off.back() * (size_t)d);
    }
    size_t n(int h) const
    {
        return off[(size_t)h + 1] - off[(size_t)h];
    }
    const float *row(int h, size_t j) const
    {
        return data.data() + (off[(size_t)h] + j) * (size_t)dim;
    }
    struct kva_dev_rows dev() const
    {
        size_t most = 0;

        for (int h = 0; h < heads; h++)
            most = std::max(most, n(h));
        return {data.data(), off.data(), heads, dim, most};
    }
    struct kva_rows host()
    {
        return {data.data(), off.data(), heads, dim};
    }
};

double dot(const float *a, const float *b, int n)
{
    double s = 0;

    for (int i = 0; i < n; i++)
        s += (double)a[i] * (double)b[i];
    return s;
}

struct cpu_ops {
    struct kva_ops *ops = nullptr;
    cpu_ops()
    {
        CHECK_OK(kva_ops_open("cpu", "f32", 1, &ops, err));
    }
    ~cpu_ops()
    {
        kva_ops_close(ops);
    }
};

} // namespace

TEST(lengths_distances_and_angles_are_those_of_a_double_reference)
{
    cpu_ops cpu;

    for (int dim : {1, 33, 64, 96, 128, 256, 300}) {
        ragged x(RAGGED, dim);
        std::vector<float> c = random_floats((size_t)(x.heads * dim)), here(x.off.back());

        std::fill_n(x.data.begin() + (long)x.off[3] * dim, dim, 0.0f); /* a zero row */
        std::fill_n(c.begin() + 4 * dim, dim, 0.0f);                   /* a zero centre */
        for (int what = 0; what < 4; what++) {
            std::vector<double> want(x.off.back());
            auto got = in_orders([&] {
                std::vector<float> s(x.off.back(), NAN);
                struct kva_dev_rows d = x.dev();

                kva_dev_row_measure(&d, (enum kva_measure)what, c.data(), s.data(), NULL);
                return s;
            });
            struct kva_rows rows = x.host();

            for (int h = 0; h < x.heads; h++)
                for (size_t j = 0; j < x.n(h); j++) {
                    const float *r = x.row(h, j), *o = c.data() + h * dim;
                    double two = 0, one = 0, away = 0, cc = sqrt(dot(o, o, dim)), rr;

                    for (int d = 0; d < dim; d++) {
                        one += fabs((double)r[d]);
                        away += ((double)r[d] - o[d]) * ((double)r[d] - o[d]);
                    }
                    two = sqrt(dot(r, r, dim));
                    rr = two > 0 && cc > 0 ? dot(r, o, dim) / (two * cc) : 0;
                    want[x.off[(size_t)h] + j] = what == KVA_NORM2      ? two
                                                 : what == KVA_NORM1    ? one
                                                 : what == KVA_DISTANCE ? sqrt(away)
                                                                        : rr;
                }
            CHECK_CLOSE(got.data(), want.data(), want.size(), 1e-7);
            if (what == KVA_NORM2)
                cpu.ops->row_norm(cpu.ops, &rows, here.data());
            else if (what == KVA_NORM1)
                cpu.ops->row_abs(cpu.ops, &rows, here.data());
            else if (what == KVA_DISTANCE)
                cpu.ops->row_distance(cpu.ops, &rows, c.data(), here.data());
            else
                cpu.ops->row_cosine(cpu.ops, &rows, c.data(), here.data());
            CHECK_CLOSE(got.data(), here.data(), here.size(), 4e-6);
        }
    }
}

TEST(means_of_rows_and_of_directions_are_those_of_a_double_reference)
{
    cpu_ops cpu;

    for (int dim : {1, 64, 96, 300})
        for (int unit = 0; unit < 2; unit++) {
            ragged x({1, 31, 0, 257, 600}, dim);
            std::vector<double> want((size_t)(x.heads * dim));
            std::vector<float> here(want.size());
            struct kva_rows rows = x.host();

            std::fill_n(x.data.begin() + (long)x.off[3] * dim, dim, 0.0f);
            auto got = in_orders([&] {
                struct kva_dev_rows d = x.dev();
                std::vector<float> mean(want.size(), NAN);
                std::vector<double> part(kva_dev_row_mean_scratch(&d) / sizeof(double));

                kva_dev_row_mean(&d, unit, part.data(), mean.data(), NULL);
                return mean;
            });
            for (int h = 0; h < x.heads; h++)
                for (size_t j = 0; j < x.n(h); j++) {
                    const float *r = x.row(h, j);
                    double norm = unit ? sqrt(dot(r, r, dim)) : 1;

                    for (int d = 0; d < dim && norm > 0; d++)
                        want[(size_t)(h * dim + d)] += r[d] / norm / (double)x.n(h);
                }
            CHECK_CLOSE(got.data(), want.data(), want.size(), 1e-6);
            cpu.ops->row_mean(cpu.ops, &rows, unit, here.data());
            CHECK_CLOSE(got.data(), here.data(), here.size(), 1e-6);
        }
}

/* Products of floats are exact in double and rows ascend: the very bits of the CPU, in
 * one call or in several. */
TEST(moments_have_the_bits_of_the_cpu_however_rows_are_cut)
{
    cpu_ops cpu;

    for (int dim : {1, 31, 64})
        for (int rows : {1, 33, 70}) {
            const int heads = 3;
            size_t n = (size_t)(heads * dim), stride = n + 5;
            std::vector<float> x = random_floats(stride * (size_t)rows);
            std::vector<double> want(n + n * (size_t)dim, 0.25);

            cpu.ops->row_moments(cpu.ops, x.data(), (int)stride, rows, heads, dim,
                                 want.data(), want.data() + n);
            for (int cut : {rows, 16}) {
                auto got = in_orders([&] {
                    std::vector<double> y(n + n * (size_t)dim, 0.25);

                    for (int r = 0; r < rows; r += cut)
                        kva_dev_row_moments(x.data() + (size_t)r * stride, stride,
                                            std::min(cut, rows - r), heads, dim, y.data(),
                                            y.data() + n, NULL);
                    return y;
                });
                for (size_t i = 0; i < n; i++)
                    CHECK(got[i] == want[i]);
                for (int h = 0; h < heads; h++)
                    for (int i = 0; i < dim; i++)
                        for (int j = 0; j <= i; j++) {
                            size_t at = n + (size_t)((h * dim + i) * dim + j);

                            CHECK(got[at] == want[at]);
                        }
            }
        }
}

/* ---- windows ---- */

namespace
{

struct window {
    ragged k;
    int nq, heads;
    std::vector<float> q, by;
    std::vector<int32_t> q_pos, k_pos;
    std::vector<size_t> a_off;
    float scale;
    window(const std::vector<size_t> &n, int dim, int group, int rows)
        : k(n, dim), nq(rows), heads(group * k.heads), a_off(1, 0),
          scale(1 / sqrtf((float)dim))
    {
        q = random_floats((size_t)(nq * heads * dim), 3);
        for (int h = 0; h < k.heads; h++)
            for (size_t j = 0; j < k.n(h); j++)
                k_pos.push_back((int32_t)j * 2);
        /* entries in no order, as after hole filling */
        for (int h = 0; h < k.heads; h += 2)
            for (size_t j = k.n(h); j > 1; j--)
                std::swap(k_pos[k.off[(size_t)h] + j - 1],
                          k_pos[k.off[(size_t)h] + (size_t)random_below((int)j)]);
        for (int i = 0; i < nq; i++) { /* row 0 may see nothing where 0 was evicted */
            q_pos.push_back(i == 0 ? -1 : random_below(2 * 300));
            by.push_back(fabsf(random_float()));
        }
        for (int a = 0; a < heads; a++)
            a_off.push_back(a_off.back() + k.n(a / group));
    }
    struct kva_dev_window dev(bool visible) const
    {
        return {q.data(),
                (size_t)(heads * k.dim),
                visible ? nullptr : q_pos.data(),
                nq,
                heads,
                k.dev(),
                visible ? nullptr : k_pos.data(),
                scale,
                a_off.data(),
                by.data()};
    }
    /* weights and logits of every row, [heads of nq x n] */
    void reference(bool visible, std::vector<double> &w, std::vector<double> &z) const
    {
        w.assign(a_off.back() * (size_t)nq, 0);
        z = w;
        for (int a = 0; a < heads; a++)
            for (int i = 0; i < nq; i++) {
                int h = a / (heads / k.heads);
                size_t n = k.n(h), at = a_off[(size_t)a] * (size_t)nq + (size_t)i * n;
                const float *row = q.data() + (size_t)((i * heads + a) * k.dim);
                double top = -INFINITY, sum = 0;
                auto seen = [&](size_t j) {
                    return visible || k_pos[k.off[(size_t)h] + j] <= q_pos[(size_t)i];
                };

                for (size_t j = 0; j < n; j++)
                    if (seen(j)) {
                        z[at + j] = (double)scale * dot(row, k.row(h, j), k.dim);
                        top = fmax(top, z[at + j]);
                    }
                for (size_t j = 0; j < n; j++)
                    if (seen(j))
                        sum += w[at + j] = exp(z[at + j] - top);
                for (size_t j = 0; j < n; j++)
                    w[at + j] = sum > 0 ? w[at + j] / sum : 0;
            }
    }
    /* mean or max over the rows */
    std::vector<double> over_rows(const std::vector<double> &w, bool max) const
    {
        std::vector<double> y(a_off.back());

        for (int a = 0; a < heads; a++)
            for (int i = 0; i < nq; i++)
                for (size_t n = a_off[(size_t)a + 1] - a_off[(size_t)a], j = 0; j < n;
                     j++) {
                    double v = w[a_off[(size_t)a] * (size_t)nq + (size_t)i * n + j];
                    double &to = y[a_off[(size_t)a] + j];

                    to = max ? fmax(to, v * (double)by[(size_t)i]) : to + v / nq;
                }
        return y;
    }
};

std::vector<float> run(const struct kva_dev_window &w, enum kva_window_what what,
                       size_t n, bool logits = false)
{
    std::vector<float> out(n, NAN), z(logits ? n : 0, NAN);
    std::vector<float> scratch(kva_dev_window_scratch(&w) / sizeof(float));

    kva_dev_window(&w, what, scratch.data(), out.data(), logits ? z.data() : NULL, NULL);
    out.insert(out.end(), z.begin(), z.end());
    return out;
}

} // namespace

TEST(weights_of_a_window_are_those_of_a_double_reference)
{
    const struct {
        int dim, group, rows;
        bool visible;
    } cases[] = {{64, 1, 1, false},   {64, 3, 31, false},  {96, 4, 33, true},
                 {128, 7, 2, false},  {256, 2, 65, false}, {20, 1, 63, false},
                 {128, 3, 32, false}, {20, 4, 64, true}};
    cpu_ops cpu;

    for (const auto &c : cases) {
        window w(c.group > 4 ? std::vector<size_t>{1, 70}
                             : std::vector<size_t>{1, 31, 130},
                 c.dim, c.group, c.rows);
        std::vector<double> want, z;
        size_t all = w.a_off.back(), n = all * (size_t)w.nq;
        struct kva_rows keys = w.k.host();
        std::vector<float> here(n);

        w.reference(c.visible, want, z);
        auto rows =
            in_orders([&] { return run(w.dev(c.visible), KVA_WINDOW_ROWS, n, true); });
        CHECK_CLOSE(rows.data(), want.data(), n, 5e-6);
        CHECK_CLOSE(rows.data() + n, z.data(), n, 5e-6);
        auto mean =
            in_orders([&] { return run(w.dev(c.visible), KVA_WINDOW_MEAN, all); });
        CHECK_CLOSE(mean.data(), w.over_rows(want, false).data(), all, 5e-6);
        auto max = in_orders([&] { return run(w.dev(c.visible), KVA_WINDOW_MAX, all); });
        CHECK_CLOSE(max.data(), w.over_rows(want, true).data(), all, 5e-6);
        if (c.visible)
            continue;
        cpu.ops->window_mean(cpu.ops, w.q.data(), w.q_pos.data(), w.nq, w.heads, &keys,
                             w.k_pos.data(), w.scale, here.data(), w.a_off.data());
        CHECK_CLOSE(mean.data(), here.data(), all, 5e-6);
        cpu.ops->window_max(cpu.ops, w.q.data(), w.q_pos.data(), w.nq, w.heads, &keys,
                            w.k_pos.data(), w.scale, w.by.data(), here.data(),
                            w.a_off.data());
        CHECK_CLOSE(max.data(), here.data(), all, 5e-6);
    }
}

/* Rows and keys beyond one tile and one part: the parts of a row meet in order. */
TEST(a_window_over_several_parts_adds_up)
{
    window w({2 * KVA_WINDOW_PART + 100}, 8, 1, 3);
    std::vector<double> want, z;
    size_t n = w.a_off.back();

    w.reference(true, want, z);
    auto got = run(w.dev(true), KVA_WINDOW_ROWS, n * 3);
    CHECK_CLOSE(got.data(), want.data(), n * 3, 4e-6);
    for (size_t i = 0; i < 3; i++) {
        double sum = 0;

        for (size_t j = 0; j < n; j++)
            sum += (double)got[i * n + j];
        CHECK_NEAR(sum, 1, 1e-6);
    }
}

/* kernels.md 3.4d: row 0 sees two keys with logits [0, ln 2], row 1 three with [0, 0, ln
 * 2]. */
TEST(worked_sums_of_columns)
{
    const float l2 = logf(2);
    const std::vector<float> k = {0, 0, 1, 0, 0, 1}, q = {l2, 0, 0, l2};
    const std::vector<size_t> off = {0, 3}, a_off = {0};
    const std::vector<int32_t> k_pos = {0, 1, 2}, q_pos = {1, 2};
    struct kva_dev_window w = {
        q.data(),     2, q_pos.data(), 2,      1, {k.data(), off.data(), 1, 2, 3},
        k_pos.data(), 1, a_off.data(), nullptr};
    auto got = in_orders([&] { return run(w, KVA_WINDOW_MEAN, 3); });

    CHECK_NEAR(2 * got[0], 0.583333, 1e-6);
    CHECK_NEAR(2 * got[1], 0.916667, 1e-6);
    CHECK_NEAR(2 * got[2], 0.5, 1e-6);
}

TEST(values_are_added_up_under_the_weights)
{
    for (size_t n : {(size_t)1, (size_t)33, (size_t)KVA_WINDOW_PART + 70})
        for (int dim : {1, 64, 96})
            for (int nq : {1, 33}) {
                std::vector<float> w = random_floats(n * (size_t)nq),
                                   v = random_floats(n * (size_t)dim);
                for (float &x : w) /* sums do not cancel */
                    x = fabsf(x);
                for (float &x : v)
                    x += 1.5f;
                std::vector<double> want((size_t)(nq * dim));
                /* of terms of one sign each addition errs by 2^-24 of the sum at most */
                const double most =
                    0x1p-24 * (double)(n < KVA_WINDOW_PART ? n + 1 : KVA_WINDOW_PART + 2);

                auto run_values = [&] {
                    std::vector<float> o((size_t)(nq * dim), NAN);
                    std::vector<float> part(kva_dev_window_values_scratch(nq, n, dim) /
                                            4);

                    kva_dev_window_values(w.data(), nq, n, v.data(), dim, part.data(),
                                          o.data(), NULL);
                    return o;
                };
                auto got = n > 100 ? run_values() : in_orders(run_values);
                for (size_t i = 0; i < (size_t)nq; i++)
                    for (size_t j = 0; j < n; j++)
                        for (size_t d = 0; d < (size_t)dim; d++)
                            want[i * (size_t)dim + d] +=
                                (double)w[i * n + j] * (double)v[j * (size_t)dim + d];
                for (size_t i = 0; i < want.size(); i++)
                    CHECK_NEAR(got[i], want[i], most * want[i]);
            }
}

/* ---- projections ---- */

TEST(norms_of_projected_values_are_those_of_a_double_reference)
{
    const struct {
        int dim, group, out;
    } cases[] = {{64, 3, 70},  {128, 1, 64}, {96, 4, 100},
                 {256, 1, 33}, {20, 7, 65},  {16, 2, 300}};

    for (const auto &c : cases)
        for (int norm = 1; norm <= 2; norm++) {
            ragged v({1, 33, 65}, c.dim);
            int heads = v.heads * c.group;
            size_t in = (size_t)(heads * c.dim), n = 0;
            std::vector<float> w = random_floats(in * (size_t)c.out);
            std::vector<size_t> a_off;
            std::vector<double> want;

            for (int a = 0; a < heads; a++) {
                a_off.push_back(n);
                n += v.n(a / c.group);
            }
            for (int a = 0; a < heads; a++)
                for (size_t j = 0; j < v.n(a / c.group); j++) {
                    double sum = 0;

                    for (int o = 0; o < c.out; o++) {
                        double y = dot(w.data() + (size_t)o * in + (size_t)(a * c.dim),
                                       v.row(a / c.group, j), c.dim);

                        sum += norm == 1 ? fabs(y) : y * y;
                    }
                    want.push_back(norm == 1 ? sum : sqrt(sum));
                }
            auto got = in_orders([&] {
                std::vector<float> s(n, NAN);
                struct kva_dev_project p = {v.dev(),       heads, w.data(),
                                            (size_t)c.dim, in,    c.out,
                                            a_off.data(),  false, false};

                kva_dev_project(&p, norm, s.data(), NULL);
                return s;
            });
            CHECK_CLOSE(got.data(), want.data(), n, 1e-6);
        }
}

/* kernels.md 3.4e in small: two query heads of a group, W^0 = [[1, -1], [2, 0]], W^1 =
 * [[0, 3], [1, 1]], v = (1, 2): W^0 v = (-1, 2), W^1 v = (6, 3). */
TEST(worked_norm_of_a_projection)
{
    const std::vector<float> w = {1, -1, 0, 3, 2, 0, 1, 1}, v = {1, 2};
    const std::vector<size_t> off = {0, 1}, a_off = {0, 1};
    struct kva_dev_project p = {{v.data(), off.data(), 1, 2, 1},
                                2,
                                w.data(),
                                2,
                                4,
                                2,
                                a_off.data(),
                                false,
                                false};
    std::vector<float> s(2);

    kva_dev_project(&p, 1, s.data(), NULL);
    CHECK_NEAR((s[0] + s[1]) / 2, 6, 0); /* the mean over the group */
    kva_dev_project(&p, 2, s.data(), NULL);
    CHECK_NEAR(s[0], sqrt(5), 1e-7);
    CHECK_NEAR(s[1], sqrt(45), 1e-6);
}

/* The outputs in slabs; and the Euclidean norm through the factor of the Gram matrix,
 * here of a matrix with an empty and two equal columns in each head. */
TEST(slabs_and_the_factor_give_the_norms_of_the_whole)
{
    const int dim = 33, heads = 3, out = 70;
    const size_t in = (size_t)(heads * dim);
    ragged v({40, 5, 1}, dim);
    std::vector<float> w = random_floats(in * (size_t)out);
    std::vector<size_t> a_off = {0, 40, 45};
    struct kva_dev_project p = {};

    for (int o = 0; o < out; o++)
        for (int a = 0; a < heads; a++) {
            float *row = w.data() + (size_t)o * in + (size_t)(a * dim);

            row[3] = 0;
            row[9] = row[7];
        }
    p.v = v.dev();
    p.heads = heads;
    p.a_off = a_off.data();
    auto norms = [&](int norm, int cut) {
        std::vector<float> s(v.off.back(), NAN);

        p.w_head = (size_t)dim;
        p.w_stride = in;
        for (int o = 0; o < out; o += cut) {
            p.w = w.data() + (size_t)o * in;
            p.out = std::min(cut, out - o);
            p.more_before = o > 0;
            p.more_after = o + cut < out;
            kva_dev_project(&p, norm, s.data(), NULL);
        }
        return s;
    };
    auto factored = in_orders([&] {
        std::vector<double> sum(in), gram(in * (size_t)dim);
        std::vector<float> r(in * (size_t)dim, NAN), s(v.off.back(), NAN);

        kva_dev_row_moments(w.data(), in, out, heads, dim, sum.data(), gram.data(), NULL);
        kva_dev_factor(gram.data(), heads, dim, r.data(), NULL);
        p.w = r.data();
        p.w_head = (size_t)(dim * dim);
        p.w_stride = (size_t)dim;
        p.out = dim;
        p.more_before = p.more_after = false;
        kva_dev_project(&p, 2, s.data(), NULL);
        return s;
    });

    for (int norm = 1; norm <= 2; norm++)
        CHECK_CLOSE(norms(norm, 32).data(), norms(norm, out).data(), v.off.back(), 1e-6);
    CHECK_CLOSE(factored.data(), norms(2, out).data(), v.off.back(), 1e-6);
}

/* ---- pooling ---- */

namespace
{

/* The sums of the CPU, one after the other. */
double pooled(const std::vector<double> &x, int j, int kernel, bool max)
{
    int n = (int)x.size(), from = std::max(j - kernel / 2, 0);
    double best = x[(size_t)from], sum = 0;

    for (int i = from; i < n && i <= j + kernel / 2; i++) {
        best = x[(size_t)i] > best ? x[(size_t)i] : best;
        sum += x[(size_t)i];
    }
    return max ? best : sum / kernel;
}

} // namespace

TEST(pooling_has_the_bits_of_the_methods)
{
    const std::vector<size_t> held = {1, 2, 255, 256, 0, 300, 40};
    const int kv = (int)held.size();

    for (int group : {1, 3})
        for (int kernel : {1, 3, 7, 63, 255})
            for (int form = 0; form < 4; form++) {
                bool max = form & 1, before = form & 2;
                std::vector<size_t> off = {5}, n, a_off; /* with gaps */
                std::vector<float> m(3), want(5, 9);

                for (size_t h : held) {
                    off.push_back(off.back() + h);
                    n.push_back(random_below(3) ? (size_t)random_below((int)h + 1) : h);
                    for (int a = 0; a < group; a++) {
                        a_off.push_back(m.size());
                        for (size_t j = 0; j < h; j++)
                            m.push_back(random_below(7)   ? random_float()
                                        : random_below(2) ? 0.0f
                                                          : -0.0f);
                    }
                }
                for (int h = 0; h < kv; h++)
                    for (int j = 0; j < (int)held[(size_t)h]; j++) {
                        std::vector<double> mean(n[(size_t)h]);
                        double sum = 0;

                        for (int a = h * group; a < (h + 1) * group; a++) {
                            auto first = m.begin() + (long)a_off[(size_t)a];
                            std::vector<double> x(first, first + (long)n[(size_t)h]);

                            for (size_t i = 0; i < x.size(); i++)
                                mean[i] += x[i];
                            if (j < (int)n[(size_t)h])
                                sum += pooled(x, j, kernel, max);
                        }
                        for (double &x : mean)
                            x /= group;
                        want.push_back(j >= (int)n[(size_t)h] ? 0.0f
                                       : before ? (float)pooled(mean, j, kernel, max)
                                                : (float)(sum / group));
                    }
                auto got = in_orders([&] {
                    std::vector<float> s(off.back(), 9);
                    struct kva_dev_pool p = {
                        m.data(), a_off.data(), off.data(), n.data(), kv * group,
                        kv,       300,          kernel,     max,      before};

                    kva_dev_pool_heads(&p, s.data(), NULL);
                    return s;
                });
                for (size_t i = 0; i < want.size(); i++)
                    CHECK_INT(kva_bits(got[i]), kva_bits(want[i]));
            }
}

PARITY_MAIN
