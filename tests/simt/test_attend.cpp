/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_attend.cpp - attention over ragged pages on the device: every kernel against a
 * double reference and against the CPU's numerics f32; what may not depend on what, bit
 * by bit. */
#include "kernels/cuda/attend.h"
#include "kernels/kvstore.h"
#include "tests/simt/parity.h"

#include <algorithm>
#include <memory>

namespace
{

enum kernel { CONTEXT, ANSWER, PLAIN };
const kernel KERNELS[] = {CONTEXT, ANSWER, PLAIN};

/* One layer of one store as kernels see it, pages scattered over a pool that is NaN
 * wherever no entry lies. */
struct store {
    bool f16;
    int kv_heads, dim_k, dim_v, cap;
    std::vector<int32_t> len, table, pos;
    std::vector<uint8_t> pool, sorted;
    std::vector<uint32_t> live;
    std::vector<std::vector<float>> k, v; /* of a KV head: as the kernels read them */
    std::vector<std::vector<int32_t>> at; /* positions */

    store(kernel how, std::vector<int32_t> n, int dk, int dv, int spread = 1)
        : f16(how != PLAIN), kv_heads((int)n.size()), dim_k(dk), dim_v(dv), cap(0),
          len(n), sorted(n.size(), 1), k(n.size()), v(n.size()), at(n.size())
    {
        size_t pages = 3;
        int longest = *std::max_element(n.begin(), n.end());

        cap = (longest + 31) / 32 + 2;
        for (int32_t x : n)
            pages += ((size_t)x + 31) / 32;
        table.assign((size_t)kv_heads * (size_t)cap, -1);
        pos.assign(pages * 32, 7); /* stale */
        pool.assign(pages * page_bytes(), 0xff);
        std::vector<int32_t> id(pages);
        for (size_t i = 0; i < pages; i++)
            id[i] = (int32_t)i;
        for (size_t i = pages; i > 1; i--)
            std::swap(id[i - 1], id[(size_t)random_below((int)i)]);
        /* the last one is in use: what is read behind it is seen by a sanitizer */
        std::iter_swap(id.begin(), std::max_element(id.begin(), id.end()));
        size_t next = 0;
        for (int h = 0; h < kv_heads; h++)
            for (int j = 0; j < n[(size_t)h]; j++) {
                if (j % 32 == 0)
                    table[(size_t)(h * cap + j / 32)] = id[next++];
                at[(size_t)h].push_back(j * spread);
                std::vector<float> x = random_floats((size_t)dim_k),
                                   y = random_floats((size_t)dim_v);
                put(h, j, x.data(), y.data());
            }
    }
    size_t page_bytes() const
    {
        return (size_t)32 * (size_t)(dim_k + dim_v) * (f16 ? 2 : 4);
    }
    /* Entry j of KV head h takes key x, value y and position at[h][j]. */
    void put(int h, int j, const float *x, const float *y)
    {
        size_t page = (size_t)table[(size_t)(h * cap + j / 32)], s = (size_t)j % 32;
        uint8_t *p = pool.data() + page * page_bytes();

        pos[page * 32 + s] = at[(size_t)h][(size_t)j];
        k[(size_t)h].resize((size_t)len[(size_t)h] * (size_t)dim_k);
        v[(size_t)h].resize((size_t)len[(size_t)h] * (size_t)dim_v);
        for (int d = 0; d < dim_k; d++)
            k[(size_t)h][(size_t)(j * dim_k + d)] =
                write(p, s * (size_t)dim_k + (size_t)d, x[d]);
        for (int d = 0; d < dim_v; d++)
            v[(size_t)h][(size_t)(j * dim_v + d)] = write(
                p, (size_t)32 * (size_t)dim_k + s * (size_t)dim_v + (size_t)d, y[d]);
    }
    float write(uint8_t *page, size_t i, float x)
    {
        uint16_t b = kva_f32_to_f16(x);

        if (f16)
            memcpy(page + 2 * i, &b, 2);
        else
            memcpy(page + 4 * i, &x, 4);
        return f16 ? kva_f16_to_f32(b) : x;
    }
    /* Positions in no order, as after decode-time eviction. */
    void shuffle()
    {
        for (int h = 0; h < kv_heads; h++) {
            size_t n = (size_t)len[(size_t)h];

            for (size_t i = n; i > 1; i--)
                std::swap(at[(size_t)h][i - 1],
                          at[(size_t)h][(size_t)random_below((int)i)]);
            for (size_t j = 0; j < n; j++)
                pos[(size_t)table[(size_t)h * (size_t)cap + j / 32] * 32 + j % 32] =
                    at[(size_t)h][j];
            sorted[(size_t)h] = 0;
        }
    }
    /* Masks about every third entry, never the first. */
    void mask()
    {
        live.assign(pos.size() / 32, 0);
        for (int h = 0; h < kv_heads; h++)
            for (int j = 0; j < len[(size_t)h]; j++)
                if (j == 0 || random_below(3))
                    live[(size_t)table[(size_t)(h * cap + j / 32)]] |= 1u << j % 32;
    }
    bool is_live(int h, int j) const
    {
        return live.empty() ||
               live[(size_t)table[(size_t)(h * cap + j / 32)]] >> j % 32 & 1;
    }
    struct kva_dev_view view()
    {
        struct kva_dev_view d = {};

        d.base = pool.data();
        d.page_bytes = page_bytes();
        d.pos = pos.data();
        d.table = table.data();
        d.len = len.data();
        d.sorted = sorted.data();
        d.live = live.empty() ? nullptr : live.data();
        d.table_cap = cap;
        d.kv_heads = kv_heads;
        d.dim_k = dim_k;
        d.dim_v = dim_v;
        d.f16 = f16;
        d.longest = *std::max_element(len.begin(), len.end());
        return d;
    }
};

/* Query rows over a store, and what comes out. */
struct rows {
    store *s;
    int n, group, heads, stride;
    std::vector<float> q, out, lse, acc, ml, sink;
    std::vector<int32_t> pos;
    float scale, softcap = 0;
    int window = 0, halves = 2;
    std::vector<std::vector<float>> sums; /* [KV head] */
    std::vector<float *> sum_at;
    uint8_t *base = nullptr; /* of another pool than the store's */
    const int32_t *far_pos = nullptr;

    rows(store *st, int count, int g, int32_t first)
        : s(st), n(count), group(g), heads(g * st->kv_heads),
          stride(heads * st->dim_k + 6), q(random_floats((size_t)(count * stride), 2)),
          scale(1 / sqrtf((float)st->dim_k))
    {
        for (int i = 0; i < n; i++)
            pos.push_back(first + i);
    }
    int out_stride() const
    {
        return heads * s->dim_v + 2;
    }
    struct kva_cuda_attend_item item(int row0, int count, int runs, bool wanted)
    {
        struct kva_cuda_attend_item it = {};
        size_t units = (size_t)runs * (size_t)count * (size_t)heads;

        out.resize((size_t)(n * out_stride()), 5);
        lse.resize((size_t)(n * heads), 5);
        acc.assign(units * (size_t)s->dim_v, NAN);
        ml.assign(units * 2, NAN);
        it.view = s->view();
        if (base) {
            it.view.base = base;
            it.view.pos = far_pos;
        }
        it.q = q.data() + row0 * stride;
        it.pos = pos.data() + row0;
        it.rows = count;
        it.heads = heads;
        it.q_stride = stride;
        it.out_stride = out_stride();
        it.scale = scale;
        it.softcap = softcap;
        it.window = window;
        it.sink = sink.empty() ? nullptr : sink.data();
        it.out = out.data() + row0 * out_stride();
        it.lse = lse.data() + row0 * heads;
        it.acc = acc.data();
        it.ml = ml.data();
        if (wanted) {
            if (sums.empty())
                for (int32_t x : s->len)
                    sums.push_back(std::vector<float>((size_t)x, 0.25f));
            sum_at.clear();
            for (auto &y : sums)
                sum_at.push_back(y.data());
            it.sums = sum_at.data();
            it.n_sums = 1;
        }
        return it;
    }
    bool sees(int h, int row, int j) const
    {
        int32_t p = s->at[(size_t)h][(size_t)j], r = pos[(size_t)row];

        return s->is_live(h, j) && p <= r && (window == 0 || r - p < window);
    }
    /* out, lse and sums in double */
    void reference(std::vector<double> &o, std::vector<double> &l,
                   std::vector<std::vector<double>> &w) const
    {
        o.assign((size_t)(n * heads * s->dim_v), 0);
        l.assign((size_t)(n * heads), -HUGE_VAL);
        w.clear();
        for (int32_t x : s->len)
            w.push_back(std::vector<double>((size_t)x, 0.25));
        for (int r = 0; r < n; r++)
            for (int a = 0; a < heads; a++)
                one(r, a, &o[(size_t)((r * heads + a) * s->dim_v)],
                    l[(size_t)(r * heads + a)], w[(size_t)(a / group)]);
    }
    void one(int r, int a, double *o, double &l, std::vector<double> &w) const
    {
        int h = a / group, len = s->len[(size_t)h];
        std::vector<double> x((size_t)len, -HUGE_VAL);
        double top = sink.empty() ? -HUGE_VAL : (double)sink[(size_t)a], sum = 0;

        for (int j = 0; j < len; j++)
            if (sees(h, r, j)) {
                double d = 0;

                for (int i = 0; i < s->dim_k; i++)
                    d += (double)q[(size_t)(r * stride + a * s->dim_k + i)] *
                         (double)s->k[(size_t)h][(size_t)(j * s->dim_k + i)];
                d *= (double)scale;
                x[(size_t)j] =
                    softcap > 0 ? (double)softcap * tanh(d / (double)softcap) : d;
                top = fmax(top, x[(size_t)j]);
            }
        if (top == -HUGE_VAL)
            return;
        for (double y : x)
            sum += exp(y - top);
        if (!sink.empty())
            sum += exp((double)sink[(size_t)a] - top);
        l = top + log(sum);
        for (int j = 0; j < len; j++)
            for (int i = 0; i < s->dim_v; i++)
                o[i] += exp(x[(size_t)j] - l) *
                        (double)s->v[(size_t)h][(size_t)(j * s->dim_v + i)];
        for (int j = 0; j < len; j++)
            w[(size_t)j] += exp(x[(size_t)j] - l);
    }
};

struct kva_cuda_attend launch_of(const store &s, const rows &r)
{
    struct kva_cuda_attend a = {};

    a.heads = r.heads;
    a.kv_heads = s.kv_heads;
    a.dim_k = s.dim_k;
    a.dim_v = s.dim_v;
    a.f16 = s.f16;
    a.halves = r.halves;
    return a;
}

/* Rows [row0, row0 + count) of each (all: count < 0), in one launch; all that came out.
 */
std::vector<float> run(kernel how, const std::vector<rows *> &all, bool sums = false,
                       int row0 = 0, int count = -1)
{
    struct kva_cuda_attend a = launch_of(*all[0]->s, *all[0]);
    std::vector<struct kva_cuda_attend_item> item;
    std::vector<float> got;

    for (rows *r : all) {
        int n = count < 0 ? r->n : std::min(count, r->n - row0);
        int longest = r->s->view().longest;
        int runs =
            kva_attend_runs(kva_cuda_attend_cut(&a, how == CONTEXT), (longest + 31) / 32);

        item.push_back(r->item(row0, n, runs, sums));
        a.rows = std::max(a.rows, n);
        a.entries = std::max(a.entries, longest);
    }
    a.item = item.data();
    a.items = (int)item.size();
    kva_cuda_attend_launch(&a, how == CONTEXT, nullptr);
    if (sums)
        kva_cuda_attend_sums(&a, nullptr);
    for (rows *r : all) {
        got.insert(got.end(), r->out.begin(), r->out.end());
        got.insert(got.end(), r->lse.begin(), r->lse.end());
        for (const auto &y : r->sums)
            got.insert(got.end(), y.begin(), y.end());
    }
    return got;
}

/* What `run` left in r against the reference. */
void check(const rows &r, double tolerance = 2e-6)
{
    std::vector<double> o, l;
    std::vector<std::vector<double>> w;
    std::vector<float> got;

    r.reference(o, l, w);
    for (int i = 0; i < r.n; i++)
        for (int j = 0; j < r.heads * r.s->dim_v; j++)
            got.push_back(r.out[(size_t)(i * r.out_stride() + j)]);
    CHECK_CLOSE(got.data(), o.data(), o.size(), tolerance);
    for (size_t i = 0; i < l.size(); i++)
        if (l[i] == -HUGE_VAL)
            CHECK(r.lse[i] == -INFINITY);
        else
            CHECK_NEAR(r.lse[i], l[i], tolerance * (1 + fabs(l[i])));
    for (int i = 0; i < r.n; i++)
        CHECK(r.out[(size_t)(i * r.out_stride() + r.heads * r.s->dim_v)] == 5);
    for (size_t h = 0; h < r.sums.size(); h++)
        CHECK_CLOSE(r.sums[h].data(), w[h].data(), w[h].size(), 4 * tolerance);
}

TEST(runs_cover_every_page_once_and_begin_where_they_begin_for_any_length)
{
    for (struct kva_attend_cut c :
         {kva_attend_cut{32, 1}, kva_attend_cut{4, 16}, kva_attend_cut{1, 1}})
        for (int pages = 0; pages < 5000; pages += 1 + pages / 50) {
            int n = kva_attend_runs(c, pages), next = 0, first, held;

            for (int i = 0; i < n; i++) {
                kva_attend_run(c, i, &first, &held);
                CHECK_INT(first, next);
                CHECK(held >= c.unit && first < pages);
                next = first + held;
            }
            CHECK(next >= pages);
        }
    CHECK_INT(kva_attend_runs({4, 16}, 1024), 80); /* 32k entries */
    CHECK_INT(kva_attend_runs({32, 1}, 1024), 6);
}

TEST(parts_combine_as_the_specification_computes_with_and_without_a_sink)
{
    /* scores [1, 2] and [3], values 1, 2, 3 (kernels.md 3.4c) */
    store s(PLAIN, {64}, 2, 1);
    rows r(&s, 1, 1, 100);
    struct kva_cuda_attend a = launch_of(s, r);

    for (bool sink : {false, true}) {
        if (sink)
            r.sink = {3};
        auto it = on_heap(r.item(0, 1, 2, false));
        const float ml[] = {2, 1.36787944f, 3, 1}, acc[] = {2.36787944f, 3};

        std::copy(ml, ml + 4, r.ml.begin());
        std::copy(acc, acc + 2, r.acc.begin());
        a.item = it.data();
        a.items = a.rows = 1;
        kva_cuda_attend_combine(&a, {1, 1}, nullptr);
        CHECK_NEAR(r.out[0], sink ? 1.546449 : 2.575210, 1e-6);
        CHECK_NEAR(r.lse[0], 3 + log(sink ? 2.503215 : 1.503215), 1e-6);
    }
}

TEST(sums_of_weights_are_those_of_the_specification)
{
    /* row 0 sees logits [0, ln 2], row 1 sees [0, 0, ln 2] (kernels.md 3.4d) */
    for (kernel how : KERNELS) {
        const float l2 = 0.693147182f, k[3][2] = {{0, 0}, {l2, 0}, {0, l2}},
                    v[2] = {1, 2};
        store s(how, {3}, 2, 2);
        rows r(&s, 2, 1, 1);

        for (int j = 0; j < 3; j++)
            s.put(0, j, k[j], v);
        r.scale = 1;
        for (int i = 0; i < 2; i++)
            for (int d = 0; d < 2; d++)
                r.q[(size_t)(i * r.stride + d)] = i == d;
        r.sums = {{0, 0, 0}};
        in_orders([&] {
            r.sums[0].assign(3, 0);
            return run(how, {&r}, true);
        });
        double e = how == PLAIN ? 1e-6 : 1e-4; /* ln 2 in f16 */
        CHECK_NEAR(r.sums[0][0], 0.583333, e);
        CHECK_NEAR(r.sums[0][1], 0.916667, e);
        CHECK_NEAR(r.sums[0][2], 0.5, e);
    }
}

TEST(every_kernel_agrees_with_the_double_reference)
{
    struct {
        std::vector<int32_t> len;
        int dim_k, dim_v, rows, group;
    } cases[] = {
        {{0, 0}, 64, 64, 2, 1},     {{1}, 64, 64, 1, 1},
        {{31, 64}, 64, 64, 2, 3},   {{32, 33, 1}, 128, 128, 1, 4},
        {{300, 33}, 64, 64, 65, 1}, {{64, 97}, 128, 128, 3, 7},
        {{40}, 256, 256, 5, 4},     {{70, 200}, 96, 96, 9, 3},
        {{150}, 16, 16, 63, 2},     {{64}, 80, 40, 64, 1},
        {{65}, 2, 1, 4, 16},        {{129}, 10, 7, 3, 1},
    };

    for (const auto &c : cases)
        for (kernel how : KERNELS) {
            store s(how, c.len, c.dim_k, c.dim_v);
            int longest = *std::max_element(c.len.begin(), c.len.end());
            rows r(&s, c.rows, c.group, std::max(longest - c.rows, 0));

            run(how, {&r}, c.rows < 10);
            check(r);
        }
}

TEST(orders_of_threads_and_blocks_change_nothing)
{
    for (kernel how : KERNELS) {
        store s(how, {150, 31}, 64, 64);
        rows r(&s, 23, 3,
               135); /* 69 units: more than a block of any kernel has at once */

        in_orders([&] {
            r.sums.clear();
            return run(how, {&r}, true);
        });
        check(r);
    }
}

/* Queries and weights of 11 bits: a score is off by 2^-11 of scale * sum |q_i k_i|, a
 * weight by twice the worst of its row and 2^-11 of itself. */
TEST(one_half_is_as_good_as_eleven_bits)
{
    struct {
        int32_t len;
        int dim, rows, group;
    } cases[] = {{97, 64, 23, 3},
                 {70, 96, 9, 4},
                 {150, 128, 33, 2},
                 {40, 256, 9, 4},
                 {33, 80, 1, 1}};

    for (const auto &c : cases) {
        store s(CONTEXT, {c.len, 1}, c.dim, c.dim);
        rows r(&s, c.rows, c.group, std::max(c.len - c.rows, 0));
        std::vector<float> two = run(CONTEXT, {&r}, true), one;
        double worst = 0;

        r.halves = 1;
        r.sums.clear();
        one = in_orders([&] {
            r.sums.clear();
            return run(CONTEXT, {&r}, true);
        });
        CHECK(memcmp(one.data(), two.data(), one.size() * sizeof(float)) != 0 ||
              c.len == 1);
        for (int row = 0; row < r.n; row++)
            for (int a = 0; a < r.heads; a++)
                for (int j = 0; j < s.len[(size_t)(a / r.group)]; j++) {
                    double d = 0;

                    for (int i = 0; i < c.dim; i++)
                        d += fabs(
                            (double)r.q[(size_t)(row * r.stride + a * c.dim + i)] *
                            (double)s.k[(size_t)(a / r.group)][(size_t)(j * c.dim + i)]);
                    worst = fmax(worst, d * (double)r.scale);
                }
        /* values and the largest output are about 1; sums have many terms of either sign
         */
        check(r, 0x1p-11 * (2 * worst + 1));
    }
}

TEST(a_long_cell_is_read_in_runs)
{
    for (kernel how : KERNELS) {
        store s(how, {2500, 1}, 64, 64);
        rows r(&s, 2, 2, 2400);

        run(how, {&r}, true);
        check(r);
    }
}

TEST(entries_in_no_order_windows_and_masks_are_told_apart_by_position)
{
    for (kernel how : KERNELS)
        for (int window : {0, 5, 40})
            for (int first : {55, 190}) /* these see nothing of the first tiles */
                for (int kind = 0; kind < 3; kind++) {
                    store s(how, {100, 33}, 64, 64, 2);
                    rows r(&s, 6, 2, first);

                    r.window = window;
                    if (kind == 1)
                        s.shuffle();
                    if (kind == 2)
                        s.mask();
                    run(how, {&r}, kind != 2);
                    check(r);
                }
}

TEST(sums_of_a_masked_store_have_an_element_for_each_live_entry)
{
    for (kernel how : KERNELS) {
        store s(how, {100, 33}, 64, 64);
        rows r(&s, 3, 2, 97);
        std::vector<double> o, l;
        std::vector<std::vector<double>> w;

        s.mask();
        run(how, {&r}, true);
        r.reference(o, l, w);
        for (int h = 0; h < 2; h++) {
            size_t to = 0;

            for (int j = 0; j < s.len[(size_t)h]; j++)
                if (s.is_live(h, j))
                    CHECK_NEAR(r.sums[(size_t)h][to++], w[(size_t)h][(size_t)j], 1e-5);
            for (; to < r.sums[(size_t)h].size(); to++)
                CHECK(r.sums[(size_t)h][to] == 0.25f);
        }
    }
}

TEST(a_row_that_sees_nothing_gives_zero_and_minus_infinity)
{
    for (kernel how : KERNELS) {
        store s(how, {40}, 64, 64, 3);
        rows r(&s, 4, 2, 130);

        r.window = 4; /* the last entry is at 117: of rows 130 .. 133 none sees it */
        run(how, {&r}, true);
        check(r);
        CHECK(r.lse[0] == -INFINITY && r.out[0] == 0);
        for (float y : r.sums[0])
            CHECK(y == 0.25f);
    }
}

TEST(sinks_and_a_soft_cap_enter_the_weights)
{
    for (kernel how : KERNELS) {
        store s(how, {70, 40}, 64, 64);
        rows r(&s, 3, 2, 60);

        r.softcap = 0.5f;
        r.sink = {1, -2, 0.5f, 3};
        run(how, {&r}, true);
        check(r);
    }
}

TEST(large_and_small_queries_lose_no_digits)
{
    for (kernel how : KERNELS)
        for (float by : {1e-6f, 3e4f, 1e8f}) {
            store s(how, {50}, 64, 64);
            rows r(&s, 2, 2, 49);

            for (float &x : r.q)
                x *= by;
            r.scale /= by;
            run(how, {&r});
            check(r);
        }
}

TEST(alone_in_a_wave_and_in_chunks_give_the_same_bits)
{
    for (kernel how : KERNELS) {
        std::vector<std::unique_ptr<store>> s;
        std::vector<std::unique_ptr<rows>> r;
        std::vector<rows *> all;
        const std::vector<std::vector<int32_t>> len = {{33, 1}, {180, 64}, {31, 97}};
        const int n[] = {1, 11, 4};

        for (size_t i = 0; i < 3; i++) {
            s.push_back(std::make_unique<store>(how, len[i], 64, 64));
            r.push_back(std::make_unique<rows>(s[i].get(), n[i], 3, 25 + 10 * (int)i));
            all.push_back(r[i].get());
        }
        std::vector<float> wave = run(how, all, true), alone, chunks;
        for (rows *x : all) {
            x->sums.clear();
            std::vector<float> y = run(how, {x}, true);
            alone.insert(alone.end(), y.begin(), y.end());
        }
        for (rows *x : all) {
            std::vector<float> y;

            x->sums.clear();
            std::fill(x->out.begin(), x->out.end(), 5.0f);
            for (int i = 0; i < x->n; i += 3)
                y = run(how, {x}, true, i, 3);
            chunks.insert(chunks.end(), y.begin(), y.end());
        }
        CHECK_INT(alone.size(), wave.size());
        CHECK(memcmp(alone.data(), wave.data(), wave.size() * sizeof(float)) == 0);
        CHECK(memcmp(chunks.data(), wave.data(), wave.size() * sizeof(float)) == 0);
    }
}

TEST(entries_that_come_later_change_no_bit_of_earlier_rows)
{
    for (kernel how : KERNELS) {
        store s(how, {140}, 64, 64);
        rows r(&s, 5, 2, 60);
        std::vector<float> whole = run(how, {&r});

        s.len[0] = 66;
        std::vector<float> early = run(how, {&r});
        CHECK(memcmp(whole.data(), early.data(), whole.size() * sizeof(float)) == 0);
    }
}

TEST(pages_beyond_4_GiB_are_found)
{
    for (kernel how : KERNELS) {
        store s(how, {40}, 64, 64);
        rows r(&s, 1, 2, 39);
        std::vector<float> near = run(how, {&r});
        /* the same pages, their ids moved up; the range is not resident but for them */
        const size_t up = ((size_t)9 << 29) / s.page_bytes(), pages = s.pos.size() / 32;
        const size_t bytes = (up + pages) * s.page_bytes(), ints = (up + pages) * 32 * 4;
        uint8_t *base = (uint8_t *)parity_range(bytes),
                *pos = (uint8_t *)parity_range(ints);
        CHECK(base && pos);
        memcpy(base + up * s.page_bytes(), s.pool.data(), s.pool.size());
        memcpy(pos + up * 32 * 4, s.pos.data(), s.pos.size() * 4);
        for (int32_t &id : s.table)
            id += id < 0 ? 0 : (int32_t)up;
        r.base = base;
        r.far_pos = (const int32_t *)(const void *)pos;
        std::vector<float> far = run(how, {&r});
        parity_range_free(base, bytes);
        parity_range_free(pos, ints);
        CHECK(memcmp(near.data(), far.data(), near.size() * sizeof(float)) == 0);
    }
}

/* ---- the function of the table, against the CPU's ---- */

struct backend {
    struct kva_ops *ops = nullptr;
    struct kva_kvstore *store[2] = {};

    backend(const char *name, enum kva_type type, enum kva_kv_mode mode,
            const char *numerics = "f32")
    {
        const struct kva_kvshape shape = {1, 2, 64, 64, type};

        CHECK_OK(kva_ops_open(name, numerics, 1, &ops, err));
        for (auto &s : store)
            CHECK_OK(kva_kvstore_new(ops, &shape, 40, mode, &s, err));
    }
    ~backend()
    {
        for (auto s : store)
            kva_kvstore_free(s);
        kva_ops_close(ops);
    }
    void append(int i, const std::vector<float> &kv, int from, int n)
    {
        std::vector<int32_t> pos;

        for (int j = 0; j < n; j++)
            pos.push_back(from + j);
        CHECK_OK(kva_kvstore_append(store[i], 0, kv.data() + from * 256, 256,
                                    kv.data() + from * 256 + 128, 256, pos.data(), n,
                                    err));
    }
    /* Rows at positions `first` on over both stores in one call; sums of the first. */
    std::vector<float> attend(const std::vector<float> &q, int rows, int32_t first,
                              bool context, bool device)
    {
        const int heads = 6, width = heads * 64;
        std::vector<float> out((size_t)(2 * rows * width)), got;
        std::vector<int32_t> pos;
        struct kva_kv_view view[2];
        struct kva_attn a[2] = {};
        std::vector<float> sums[2];
        float *sum_at[2];
        float *dq = nullptr, *dout = nullptr;

        for (int i = 0; i < rows; i++)
            pos.push_back(first + i);
        if (device) {
            dq = (float *)ops->alloc(ops, q.size() * 4, KVA_MEM_DEVICE);
            dout = (float *)ops->alloc(ops, out.size() * 4, KVA_MEM_DEVICE);
            ops->copy(ops, dq, q.data(), q.size() * 4);
        }
        for (int i = 0; i < 2; i++) {
            kva_kvstore_view(store[i], 0, &view[i]);
            a[i].kv = &view[i];
            a[i].q = (device ? dq : q.data()) + i * rows * width;
            a[i].pos = pos.data();
            a[i].rows = rows;
            a[i].heads = heads;
            a[i].q_stride = a[i].out_stride = width;
            a[i].scale = 0.125f;
            a[i].out = (device ? dout : out.data()) + i * rows * width;
            sums[i].assign((size_t)kva_kvstore_live(store[0], 0, i), 0.5f);
            sum_at[i] = sums[i].data();
        }
        a[0].sums = sum_at;
        a[0].n_sums = 1;
        ops->context = context;
        ops->attend(ops, a, 2);
        if (device) {
            ops->copy(ops, out.data(), dout, out.size() * 4);
            ops->release(ops, dq, KVA_MEM_DEVICE);
            ops->release(ops, dout, KVA_MEM_DEVICE);
        }
        CHECK_OK(ops->sync(ops, err));
        for (const auto *v : {&out, &sums[0], &sums[1]})
            got.insert(got.end(), v->begin(), v->end());
        return got;
    }
};

TEST(the_table_attends_as_the_cpu_does_over_the_same_stores)
{
    const int N = 75, rows = 5;

    for (enum kva_type type : {KVA_F16, KVA_F32})
        for (enum kva_kv_mode mode : {KVA_KV_PHYSICAL, KVA_KV_MASK}) {
            backend cpu("cpu", type, mode), cuda("cuda", type, mode),
                half("cuda", type, mode, "bf16");
            const std::vector<float> kv = random_floats((size_t)N * 256, 2),
                                     q = random_floats((size_t)(2 * rows * 6 * 64), 2);
            /* ranks 3 and 40 leave, and of the second KV head 0: holes are filled */
            int32_t rank[] = {3, 40, 0};
            size_t off[] = {0, 2, 3};
            const struct kva_keep victims = {1, 2, rank, off};

            for (backend *b : {&cpu, &cuda, &half}) {
                b->append(0, kv, 0, N);
                b->append(1, kv, 0, 33);
                CHECK_OK(kva_kvstore_replace(b->store[0], &victims, err));
            }
            for (bool context : {true, false}) {
                std::vector<float> want = cpu.attend(q, rows, N - rows, context, false);
                std::vector<float> host = cuda.attend(q, rows, N - rows, context, false);
                std::vector<float> device = cuda.attend(q, rows, N - rows, context, true);

                std::vector<float> eleven = half.attend(q, rows, N - rows, context, true);

                /* 22 bits of a query: 2^-22 of the sum of 64 |q k| at most, twice as
                 * much after the softmax, of values up to 2 */
                CHECK_CLOSE(host.data(), want.data(), want.size(), 6e-6);
                CHECK_CLOSE(eleven.data(), want.data(), want.size(), 0x1p-9);
                /* of the outputs, those of contexts over f16 caches have another form */
                const size_t out_bytes = (size_t)(2 * rows * 6 * 64) * sizeof(float);
                CHECK((memcmp(eleven.data(), host.data(), out_bytes) != 0) ==
                      (context && type == KVA_F16));
                CHECK(memcmp(host.data(), device.data(), host.size() * 4) == 0);
            }
        }
}

} // namespace

PARITY_MAIN
