/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_scores_table.cpp - the scorers' functions of the device backend's table: the same
 * from memory of the host, of the device and shared; those of the CPU within rounding. */
#include "kernels/kernels.h"
#include "tests/simt/parity.h"

#include "tests/simt/rt_host.h"

#include <algorithm>
#include <tuple>
extern "C" {
#include "methods/rank.h"
}

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

TEST(pooled_windows_from_any_memory_have_the_bits_of_the_cpu)
{
    tables t;
    const std::vector<size_t> off = {2, 3, 34, 34, 140}, n = {1, 20, 0, 106};
    const int kv = 4, group = 2;

    for (int form = 0; form < 4; form++)
        for (int kernel : {1, 5}) {
            std::vector<size_t> a_off;
            size_t end = 1;

            for (int a = 0; a < kv * group; a++) {
                a_off.push_back(end);
                end += off[(size_t)(a / group) + 1] - off[(size_t)(a / group)] + 1;
            }
            std::vector<float> m = random_floats(end);
            auto run = [&](struct kva_ops *ops, place w) {
                array<float> dm(ops, w, m), s(ops, w, std::vector<float>(off.back(), 7));
                struct kva_pool_heads p = {dm.p,   a_off.data(),    kv * group,
                                           kv,     off.data(),      n.data(),
                                           kernel, (form & 1) != 0, (form & 2) != 0};

                ops->pool_heads(ops, &p, s.p);
                return s.get();
            };
            auto got = everywhere([&](place w) { return run(t.dev, w); });

            CHECK(got[0] == 7 && got[1] == 7 && got[2] != 7);
            if (t.cpu->pool_heads)
                CHECK(memcmp(got.data(), run(t.cpu, HOST).data(), off.back() * 4) == 0);
        }
}

/* ---- selection ---- */

namespace
{

/* Host-side waits while f runs: `want`, where they can be counted. */
template <typename F> void check_waits(size_t want, F f)
{
    size_t before = kva_rt_host_waits();

    f();
    if (kva_rt_is_host)
        CHECK_INT(kva_rt_host_waits() - before, want);
}

/* KV heads with ties, NaN and protected ends. */
struct selection {
    std::vector<size_t> off = {3}; /* what lies before is not theirs */
    std::vector<float> s = std::vector<float>(3, 99);
    std::vector<int32_t> pos = std::vector<int32_t>(3);
    std::vector<int> lead, tail;
    selection(const std::vector<int> &cells, bool gaps)
    {
        for (int n : cells) {
            int first = random_below(n / 4 + 1), last = random_below(n / 4 + 1);
            int32_t at = (int32_t)random_below(3);

            off.push_back(off.back() + (size_t)n);
            lead.push_back(first);
            tail.push_back(random_below(6) ? last : n - first);
            for (int j = 0; j < n; j++) {
                int v = random_below(30);

                s.push_back(v == 0   ? -0.0f
                            : v == 1 ? NAN
                            : v == 2 ? -INFINITY
                                     : (float)(v - 15) * 0.3f);
                pos.push_back(at += 1 + (gaps ? random_below(2) : 0));
            }
        }
    }
    int cells() const
    {
        return (int)lead.size();
    }
    int n(int c) const
    {
        return (int)(off[(size_t)c + 1] - off[(size_t)c]);
    }
    int closed(int c) const
    {
        return lead[(size_t)c] + tail[(size_t)c];
    }
    struct kva_contest contest(const float *scores) const
    {
        return {scores, pos.data(), off.data(), cells(), lead.data(), tail.data()};
    }
    /* The rest of a cell, best first. */
    std::vector<std::pair<uint64_t, int>> ranking(int c) const
    {
        std::vector<std::pair<uint64_t, int>> all;

        for (int j = lead[(size_t)c]; j < n(c) - tail[(size_t)c]; j++) {
            size_t at = off[(size_t)c] + (size_t)j;

            all.push_back({kva_rank_key(isnan(s[at]) ? -INFINITY : s[at], pos[at]), j});
        }
        std::sort(all.rbegin(), all.rend());
        return all;
    }
};

} // namespace

TEST(lists_from_any_memory_are_those_of_the_methods_order)
{
    tables t;

    /* bits: victims or not; lists in one piece or not; some that nobody asks for */
    for (int form = 0; form < 8; form++) {
        selection x({1, 40, 7, 300, 64, 1}, true);
        std::vector<int> b;
        std::vector<size_t> to(x.lead.size());
        size_t end = 2;

        for (int c = 0; c < x.cells(); c++) {
            int rest = x.n(c) - x.closed(c);

            b.push_back(x.closed(c) +
                        (form & 1 ? rest - (rest > 0 && c % 2) : random_below(rest + 1)));
            if (form & 4 && c % 4 == 0)
                b.back() = 0;
        }
        for (int i = 0; i < x.cells(); i++) { /* apart: and not even in order */
            size_t c = (size_t)(form & 2 ? x.cells() - 1 - i : i);

            to[c] = b[c] > 0 ? end : SIZE_MAX / 8;
            end += (size_t)b[c] + (form & 2 ? 1 : 0);
        }
        auto got = everywhere([&](place w) {
            array<float> s(t.dev, w, x.s);
            std::vector<int32_t> rank(end + 1, -7);
            struct kva_contest k = x.contest(s.p);

            check_waits(
                1, [&] { t.dev->choose(t.dev, &k, b.data(), to.data(), rank.data()); });
            return rank;
        });
        std::vector<int32_t> want(end + 1, -7);
        for (int c = 0; c < x.cells(); c++) {
            auto all = x.ranking(c);
            std::vector<int32_t> keep;

            if (b[(size_t)c] == 0)
                continue;
            for (int j = 0; j < x.n(c); j++)
                if (j < x.lead[(size_t)c] || j >= x.n(c) - x.tail[(size_t)c])
                    keep.push_back(j);
            for (int i = 0; i < b[(size_t)c] - x.closed(c); i++)
                keep.push_back(all[(size_t)i].second);
            std::sort(keep.begin(), keep.end());
            std::copy(keep.begin(), keep.end(), want.begin() + (long)to[(size_t)c]);
        }
        CHECK(got == want);
    }
    CHECK_OK(t.dev->sync(t.dev, err));
}

TEST(budgets_from_any_memory_are_those_of_the_methods_order)
{
    tables t;

    for (int round = 0; round < 24; round++) {
        const int groups = 1 + round % 3;
        selection x({1, 40, 7, 300, 64, 1}, round % 2);
        std::vector<int> reserve, want;
        std::vector<uint64_t> total;
        bool asks = false;

        for (int c = 0; c < x.cells(); c++) {
            int rest = x.n(c) - x.closed(c);

            reserve.push_back(round < 8    ? 0
                              : round < 16 ? random_below(rest / 2 + 1)
                                           : random_below(2 * rest + 2));
        }
        for (int c = 0, each = x.cells() / groups; c < x.cells(); c += each) {
            std::vector<std::tuple<uint64_t, int>> all;
            uint64_t ahead = 0;

            for (int i = c; i < c + each; i++) {
                auto ranking = x.ranking(i);
                size_t sure = std::min((size_t)reserve[(size_t)i], ranking.size());

                want.push_back(x.closed(i) + (int)sure);
                ahead += (uint64_t)want.back();
                for (; sure < ranking.size(); sure++)
                    all.push_back({ranking[sure].first, -i});
            }
            if (all.empty() || (groups > 1 && round % 4 == 1 && c == 0)) {
                total.push_back(0); /* nobody asks */
                std::fill(want.end() - each, want.end(), -1);
                continue;
            }
            size_t more =
                round % 4 == 3 ? all.size() : 1 + (size_t)random_below((int)all.size());
            asks = asks || more < all.size(); /* all stay: nothing to ask */
            total.push_back(ahead + more);
            std::sort(all.rbegin(), all.rend());
            for (size_t i = 0; i < more; i++)
                want[(size_t)-std::get<1>(all[i])]++;
        }
        auto got = everywhere([&](place w) {
            array<float> s(t.dev, w, x.s);
            std::vector<int> got(x.lead.size(), -1);
            struct kva_contest k = x.contest(s.p);

            check_waits(asks, [&] {
                t.dev->share(t.dev, &k, reserve.data(), groups, total.data(), got.data());
            });
            return got;
        });
        CHECK(got == want);
    }
    CHECK_OK(t.dev->sync(t.dev, err));
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
