/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_cpu_attend.c - attention over pages against a naive double softmax, and what must
 * not change a bit of it: instruction set, threads, other rows, later entries, garbage in
 * free slots. */
#include "tests/kernels/cpu_help.h"

struct shape {
    int kv_heads, group, dim_k, dim_v, len[4], gap;
    enum kva_type type;
};

static const struct shape shapes[] = {
    {3, 3, 64, 64, {70, 33, 1, 0}, 1, KVA_F16},
    {3, 3, 64, 64, {96, 64, 32, 0}, 1, KVA_F32},
    {1, 1, 16, 32, {45, 0, 0, 0}, 2, KVA_F16},
    {2, 4, 128, 128, {31, 65, 0, 0}, 1, KVA_F16},
    {1, 8, 256, 256, {40, 0, 0, 0}, 3, KVA_F16},
    {2, 2, 7, 13, {35, 66, 0, 0}, 1, KVA_F32},
    {1, 2, 1, 1, {50, 0, 0, 0}, 1, KVA_F16},
    {1, 3, 20, 36, {129, 0, 0, 0}, 1, KVA_F16},
    {1, 1, 1024, 1024, {34, 0, 0, 0}, 1, KVA_F32},
};

struct call {
    struct cache c;
    struct kva_attn a;
    float *q, *out;
    int32_t *pos;
    size_t out_n;
};

/* rows queries at positions first, first + step, ...; strides wider than needed */
static void call_make(struct call *t, struct kva_rng *r, const struct shape *s, int rows,
                      int first, int step)
{
    int heads = s->kv_heads * s->group;

    cache_make(&t->c, r, s->kv_heads, s->dim_k, s->dim_v, s->type, s->len, s->gap);
    t->a = (struct kva_attn){.kv = &t->c.view,
                             .rows = rows,
                             .heads = heads,
                             .q_stride = heads * s->dim_k + 3,
                             .out_stride = heads * s->dim_v + 5,
                             .scale = 1.7f / sqrtf((float)s->dim_k)};
    t->q = floats(r, (size_t)rows * t->a.q_stride);
    for (int i = 0; i < rows * t->a.q_stride; i++)
        t->q[i] *= 3;
    t->out_n = (size_t)rows * t->a.out_stride;
    t->out = calloc(t->out_n, sizeof *t->out);
    t->pos = calloc((size_t)rows, sizeof *t->pos);
    for (int i = 0; i < rows; i++)
        t->pos[i] = first + i * step;
    t->a.q = t->q;
    t->a.pos = t->pos;
    t->a.out = t->out;
}

static void call_free(struct call *t)
{
    cache_free(&t->c);
    free(t->q);
    free(t->out);
    free(t->pos);
}

/* softmax in long double over live entries with pos <= the row's */
static void naive(const struct call *t, float *out)
{
    const struct kva_attn *a = &t->a;
    const struct kva_kv_view *v = a->kv;

    for (int r = 0; r < a->rows; r++)
        for (int h = 0; h < a->heads; h++) {
            int kh = h / (a->heads / v->kv_heads);
            const float *q = a->q + (size_t)r * a->q_stride + h * v->dim_k;
            float *o = out + (size_t)r * a->out_stride + h * v->dim_v;
            long double sum = 0, acc[1024] = {0};

            for (int j = 0; j < v->len[kh]; j++) {
                long double s = 0, p;

                if (*cache_pos(&t->c, kh, j) > a->pos[r] || !cache_live(&t->c, kh, j))
                    continue;
                for (int d = 0; d < v->dim_k; d++)
                    s += (long double)q[d] *
                         (long double)cache_get(&t->c, false, kh, j, d);
                p = expl(s * (long double)a->scale);
                sum += p;
                for (int d = 0; d < v->dim_v; d++)
                    acc[d] += p * (long double)cache_get(&t->c, true, kh, j, d);
            }
            for (int d = 0; d < v->dim_v; d++)
                o[d] = sum > 0 ? (float)(acc[d] / sum) : 0.0f;
        }
}

/* fixed tree over sixteen lanes */
static float tree(const float *p)
{
    float t[16];

    for (int i = 0; i < 16; i++)
        t[i] = p[i] + p[i + 16];
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] = t[i] + t[i + half];
    return t[0];
}

/* The definition of tier f32 for one row and head, an entry at a time: tiles of 32 live
 * entries in slot order, one accumulator per output, a running maximum per tile. */
static void defined(const struct call *t, int row, int h, float *out)
{
    const struct kva_attn *a = &t->a;
    const struct kva_kv_view *v = a->kv;
    int kh = h / (a->heads / v->kv_heads);
    const float *q = a->q + (size_t)row * a->q_stride + h * v->dim_k;
    float m = -INFINITY, l = 0;

    memset(out, 0, (size_t)v->dim_v * sizeof *out);
    for (int next = 0; next < v->len[kh];) {
        float s[KVA_PAGE], p[KVA_PAGE] = {0}, top = -INFINITY;
        bool seen[KVA_PAGE] = {false};
        int entry[KVA_PAGE], n = 0;

        for (; n < KVA_PAGE && next < v->len[kh]; next++)
            if (cache_live(&t->c, kh, next))
                entry[n++] = next;
        for (int j = 0; j < n; j++) {
            if (*cache_pos(&t->c, kh, entry[j]) > a->pos[row])
                continue;
            seen[j] = true;
            s[j] = 0.0f;
            for (int d = 0; d < v->dim_k; d++)
                s[j] = fmaf(q[d], cache_get(&t->c, false, kh, entry[j], d), s[j]);
            s[j] *= a->scale;
            top = s[j] > top ? s[j] : top;
        }
        if (top > m) {
            float alpha = kva_expf(m - top);

            m = top;
            l *= alpha;
            for (int d = 0; d < v->dim_v; d++)
                out[d] *= alpha;
        }
        for (int j = 0; j < KVA_PAGE; j++) {
            if (!seen[j])
                continue;
            p[j] = kva_expf(s[j] - m);
            for (int d = 0; d < v->dim_v; d++)
                out[d] = fmaf(p[j], cache_get(&t->c, true, kh, entry[j], d), out[d]);
        }
        l += tree(p);
    }
    for (int d = 0; d < v->dim_v; d++)
        out[d] = l > 0 ? out[d] * (1.0f / l) + 0.0f : 0.0f;
}

static float *attend_with(struct call *t, const char *numerics, const char *isa,
                          int threads)
{
    struct kva_ops *ops = open_ops(numerics, isa, threads);
    float *out = calloc(t->out_n, sizeof *out);

    t->a.out = out;
    ops->attend(ops, &t->a, 1);
    t->a.out = t->out;
    kva_ops_close(ops);
    return out;
}

static void check_all(struct call *t, double ref_bound, double f32_bound)
{
    const char *const *isas = kva_cpu_isas();
    float *want = calloc(t->out_n, sizeof *want), *ref, *first = NULL;

    naive(t, want);
    ref = attend_with(t, "ref", NULL, 1);
    assert_true(worst(ref, want, t->out_n) <= ref_bound);
    for (int i = 0; isas[i]; i++)
        for (int threads = 1; threads <= 3; threads++) {
            float *out = attend_with(t, "f32", isas[i], threads);

            assert_true(worst(out, want, t->out_n) <= f32_bound);
            if (first) {
                assert_true(same_bits(out, first, t->out_n));
                free(out);
            } else {
                first = out;
            }
        }
    free(first);
    free(ref);
    free(want);
}

static void every_shape_is_softmax_attention_with_the_same_bits_everywhere(void **state)
{
    struct kva_rng r = {1};

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++)
        for (int rows = 1; rows <= 30; rows += 29) {
            struct call t;

            call_make(&t, &r, &shapes[i], rows, shapes[i].len[0] * shapes[i].gap - rows,
                      1);
            check_all(&t, 2e-7, 4e-6);
            call_free(&t);
        }
}

static void every_bit_is_the_one_the_definition_gives(void **state)
{
    struct kva_rng r = {10};

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++) {
        struct call t;
        const struct shape *s = &shapes[i];
        float want[1024], *out;

        call_make(&t, &r, s, 9, s->len[0] * s->gap - 12, 1);
        for (int n = 0; n < 9 && s->len[0] > 8; n++)
            cache_swap(&t.c, 0, n, s->len[0] - 1 - 2 * n > n ? s->len[0] - 1 - 2 * n : n);
        cache_masked(&t.c);
        cache_kill(&t.c, 0, s->len[0] / 2);
        out = attend_with(&t, "f32", NULL, 1);
        for (int row = 0; row < 9; row++)
            for (int h = 0; h < t.a.heads; h++) {
                defined(&t, row, h, want);
                assert_true(same_bits(out + (size_t)row * t.a.out_stride + h * s->dim_v,
                                      want, (size_t)s->dim_v));
            }
        free(out);
        call_free(&t);
    }
}

static void a_long_run_of_rows_is_cut_without_changing_bits(void **state)
{
    const struct shape s = {2, 8, 256, 256, {300, 270, 0, 0}, 1, KVA_F16};
    struct kva_rng r = {2};
    struct call t;

    (void)state;
    call_make(&t, &r, &s, 100, 150,
              1); /* 800 units of 512 floats: more than one scratch */
    check_all(&t, 2e-7, 4e-6);
    call_free(&t);
}

static void unsorted_slots_and_masked_entries_are_handled(void **state)
{
    struct kva_rng r = {3};

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++) {
        struct call t;
        const struct shape *s = &shapes[i];

        call_make(&t, &r, s, 5, s->len[0] * s->gap / 2, s->gap);
        for (int h = 0; h < s->kv_heads; h++)
            for (int n = 0; n < 20 && s->len[h] > 1; n++)
                cache_swap(&t.c, h, (int)kva_rng_below(&r, (uint64_t)s->len[h]),
                           (int)kva_rng_below(&r, (uint64_t)s->len[h]));
        check_all(&t, 2e-7, 4e-6);
        cache_masked(&t.c);
        for (int h = 0; h < s->kv_heads; h++)
            for (int j = 0; j < s->len[h]; j++)
                if (j / 32 == 1 || j % 3 == 0) /* one page entirely */
                    cache_kill(&t.c, h, j);
        check_all(&t, 2e-7, 4e-6);
        call_free(&t);
    }
}

static void a_row_alone_equals_the_row_inside_a_call(void **state)
{
    const char *const *isas = kva_cpu_isas();
    const int counts[] = {1, 2, 5, 6, 7, 12, 13, 64};
    struct kva_rng r = {4};
    const struct shape s = {3, 3, 64, 64, {150, 97, 40, 0}, 1, KVA_F16};

    (void)state;
    for (int i = 0; isas[i]; i++)
        for (int n = 0; n < COUNT(counts); n++) {
            struct kva_ops *ops = open_ops("f32", isas[i], 1);
            struct call t;
            int rows = counts[n];

            call_make(&t, &r, &s, rows, 100, 1);
            ops->attend(ops, &t.a, 1);
            for (int row = 0; row < rows; row++) {
                float one[9 * 64];
                struct kva_attn a = t.a;

                a.q = t.q + (size_t)row * a.q_stride;
                a.pos = t.pos + row;
                a.rows = 1;
                a.out = one;
                ops->attend(ops, &a, 1);
                assert_true(same_bits(one, t.out + (size_t)row * a.out_stride, 9 * 64));
            }
            call_free(&t);
            kva_ops_close(ops);
        }
}

static void later_entries_change_no_bit_of_an_earlier_row(void **state)
{
    struct kva_rng r = {5};
    const char *const numerics[] = {"ref", "f32"};
    const struct shape s = {1, 3, 64, 64, {200, 0, 0, 0}, 1, KVA_F16};

    (void)state;
    for (int n = 0; n < 2; n++)
        for (int at = 0; at < 200; at += 37) {
            struct kva_ops *ops = open_ops(numerics[n], NULL, 1);
            struct call t;
            float *all;

            call_make(&t, &r, &s, 1, at, 1);
            all = attend_with(&t, numerics[n], NULL, 1);
            t.c.len[0] = at + 1;
            ops->attend(ops, &t.a, 1);
            assert_true(same_bits(all, t.out, 3 * 64));
            free(all);
            call_free(&t);
            kva_ops_close(ops);
        }
}

static void values_that_a_row_cannot_see_may_be_anything(void **state)
{
    const char *const *isas = kva_cpu_isas();
    const struct shape s = {1, 2, 64, 48, {90, 0, 0, 0}, 1, KVA_F32};
    struct kva_rng r = {6};

    (void)state;
    for (int i = 0; isas[i]; i++) {
        struct kva_ops *ops = open_ops("f32", isas[i], 1);
        struct call t;
        float *clean;

        call_make(&t, &r, &s, 30, 20, 1);
        cache_masked(&t.c);
        cache_kill(&t.c, 0, 11);
        clean = attend_with(&t, "f32", isas[i], 1);
        for (int j = 50; j < 90; j++)
            for (int d = 0; d < 48; d++) {
                cache_set(&t.c, true, 0, j, d, d % 2 ? NAN : INFINITY);
                cache_set(&t.c, false, 0, j, d, NAN);
                cache_set(&t.c, true, 0, 11, d, NAN);
                cache_set(&t.c, false, 0, 11, d, INFINITY);
            }
        ops->attend(ops, &t.a, 1); /* rows 20..49 */
        assert_true(same_bits(clean, t.out, t.out_n));
        t.pos[29] = 50; /* and this one sees it */
        ops->attend(ops, &t.a, 1);
        assert_true(same_bits(clean, t.out, (size_t)29 * t.a.out_stride));
        assert_true(isnan(t.out[29 * t.a.out_stride]));
        free(clean);
        call_free(&t);
        kva_ops_close(ops);
    }
}

static void a_row_that_sees_nothing_is_zero(void **state)
{
    const char *const numerics[] = {"ref", "f32"};
    const struct shape s = {2, 3, 64, 64, {40, 0, 0, 0}, 1, KVA_F16};
    struct kva_rng r = {7};

    (void)state;
    for (int n = 0; n < 2; n++) {
        struct call t;
        float *out;

        call_make(&t, &r, &s, 3, 5, 1);
        for (int j = 0; j < 40; j++)
            *cache_pos(&t.c, 0, j) += 6; /* rows 0 at 5 sees nothing, head 1 is empty */
        out = attend_with(&t, numerics[n], NULL, 1);
        for (int d = 0; d < 6 * 64; d++)
            assert_true(out[d] == 0.0f);
        assert_true(out[t.a.out_stride] != 0.0f);
        assert_true(out[t.a.out_stride + 3 * 64] == 0.0f);
        free(out);
        call_free(&t);
    }
}

/* Drops what is masked and moves the rest together, in slot order. */
static void compact_cache(struct cache *c)
{
    for (int h = 0; h < c->view.kv_heads; h++) {
        int kept = 0;

        for (int j = 0; j < c->len[h]; j++)
            if (cache_live(c, h, j)) {
                uint32_t *live = c->live;

                c->live = NULL;
                if (kept != j)
                    cache_swap(c, h, kept, j);
                c->live = live;
                kept++;
            }
        c->len[h] = kept;
    }
    free(c->live);
    c->view.live = c->live = NULL;
}

static void a_masked_cache_gives_the_bits_of_the_compacted_one(void **state)
{
    const char *const *isas = kva_cpu_isas();
    struct kva_rng r = {18};

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++)
        for (int k = 0; isas[k]; k++) {
            struct call t;
            const struct shape *s = &shapes[i];
            float *masked, *compact;

            call_make(&t, &r, s, 9, s->len[0] * s->gap / 2, s->gap);
            cache_masked(&t.c);
            for (int h = 0; h < s->kv_heads; h++)
                for (int j = 0; j < s->len[h]; j++)
                    if (j % 3 == 1 || (j > 34 && j < 60))
                        cache_kill(&t.c, h, j);
            masked = attend_with(&t, "f32", isas[k], 1);
            compact_cache(&t.c);
            compact = attend_with(&t, "f32", isas[k], 1);
            assert_true(same_bits(masked, compact, t.out_n));
            free(masked);
            free(compact);
            call_free(&t);
        }
}

/* Sums of the call, [2][kv_heads][longest]: the first two arrays of each KV head. */
static float *sums_with(struct call *t, const char *numerics, const char *isa,
                        int threads, int cut)
{
    struct kva_ops *ops = open_ops(numerics, isa, threads);
    const struct kva_kv_view *v = t->a.kv;
    const size_t heads = (size_t)v->kv_heads, longest = 400;
    float *sum = calloc(2 * heads * longest, sizeof *sum), **at, *out;
    const struct kva_attn all = t->a;

    at = calloc(2 * heads, sizeof *at);
    out = calloc(t->out_n, sizeof *out);
    assert_true(sum && at && out);
    for (size_t i = 0; i < 2 * heads; i++) {
        at[i] = sum + i * longest;
        at[i][0] = i < heads ? 0.0f : 2.5f; /* added to what is there */
    }
    t->a.sums = at;
    t->a.n_sums = 2;
    t->a.out = out;
    for (int first = 0; first < all.rows; first += cut) {
        t->a.q = all.q + (size_t)first * (size_t)all.q_stride;
        t->a.pos = all.pos + first;
        t->a.rows = all.rows - first < cut ? all.rows - first : cut;
        t->a.out = out + (size_t)first * (size_t)all.out_stride;
        ops->attend(ops, &t->a, 1);
    }
    t->a = all;
    kva_ops_close(ops);
    if (strcmp(numerics, "f32") == 0) { /* what attention gives is the same */
        float *bare = attend_with(t, numerics, isa, 1);

        assert_true(same_bits(out, bare, t->out_n));
        free(bare);
    }
    free(at);
    free(out);
    return sum;
}

static void naive_sums(const struct call *t, double *sum)
{
    const struct kva_attn *a = &t->a;
    const struct kva_kv_view *v = a->kv;
    int group = a->heads / v->kv_heads;

    for (int r = 0; r < a->rows; r++)
        for (int h = 0; h < a->heads; h++) {
            double w[400], all = 0, *to = sum + (size_t)(h / group) * 400;
            const float *q = a->q + (size_t)r * a->q_stride + h * v->dim_k;
            int n = 0;

            for (int j = 0; j < v->len[h / group]; j++) {
                double s = 0;

                if (!cache_live(&t->c, h / group, j))
                    continue;
                w[n] = 0;
                for (int d = 0; d < v->dim_k; d++)
                    s += (double)q[d] * (double)cache_get(&t->c, false, h / group, j, d);
                if (*cache_pos(&t->c, h / group, j) <= a->pos[r])
                    all += w[n] = exp(s * (double)a->scale);
                n++;
            }
            for (int j = 0; j < n && all > 0; j++)
                to[j] += w[j] / all;
        }
}

static void
sums_of_weights_are_those_of_every_row_with_the_same_bits_however_cut(void **state)
{
    const char *const *isas = kva_cpu_isas();
    struct kva_rng r = {21};

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++) {
        struct call t;
        const struct shape *s = &shapes[i];
        size_t n = (size_t)s->kv_heads * 400;
        double *want = calloc(n, sizeof *want);
        float *first = NULL;

        call_make(&t, &r, s, 60, -1, s->gap); /* the first row sees nothing */
        for (int h = 0; h < s->kv_heads; h++)
            for (int k = 0; k < 9 && s->len[h] > 1 && i % 2; k++)
                cache_swap(&t.c, h, (int)kva_rng_below(&r, (uint64_t)s->len[h]),
                           (int)kva_rng_below(&r, (uint64_t)s->len[h]));
        if (i % 3 == 1) {
            cache_masked(&t.c);
            for (int h = 0; h < s->kv_heads; h++)
                for (int j = 2; j < s->len[h]; j += 3)
                    cache_kill(&t.c, h, j);
        }
        naive_sums(&t, want);
        for (int k = -1; k < 0 || isas[k]; k++)
            for (int cut = 60; cut > 0; cut = cut == 60 ? 17 : cut == 17 ? 1 : 0) {
                float *got = sums_with(&t, k < 0 ? "ref" : "f32", k < 0 ? NULL : isas[k],
                                       1 + (cut == 17), cut);

                for (size_t j = 0; j < n; j++)
                    assert_true(fabs((double)got[j] - want[j]) <= 3e-5 * (1 + want[j]));
                for (size_t j = 0; j < n; j++)
                    assert_true(fabs((double)got[n + j] - want[j] -
                                     (j % 400 == 0 ? 2.5 : 0)) <= 3e-5 * (1 + want[j]));
                if (k >= 0 && first == NULL) {
                    first = got;
                    continue;
                }
                if (k >= 0)
                    assert_true(same_bits(got, first, 2 * n));
                free(got);
            }
        if (t.c.view.live) {
            float *got;

            compact_cache(&t.c);
            got = sums_with(&t, "f32", isas[0], 1, 60);
            assert_true(same_bits(got, first, 2 * n));
            free(got);
        }
        free(first);
        free(want);
        call_free(&t);
    }
}

static void a_row_whose_weights_fill_the_scratch_is_summed_like_any_other(void **state)
{
    const struct shape s = {1, 2, 64, 64, {390, 0, 0, 0}, 1, KVA_F16};
    struct kva_rng r = {22};
    struct call t;
    double want[400] = {0};
    float *got;

    (void)state;
    call_make(&t, &r, &s, 2000, -1000, 1); /* 52 kB a row and query head: cut often */
    naive_sums(&t, want);
    got = sums_with(&t, "f32", NULL, 1, 2000);
    for (int j = 0; j < 400; j++)
        assert_true(fabs((double)got[j] - want[j]) <= 3e-5 * (1 + want[j]));
    free(got);
    call_free(&t);
}

static void ref_gives_the_same_bits_masked_unsorted_or_compact(void **state)
{
    const struct shape s = {1, 2, 64, 64, {100, 0, 0, 0}, 1, KVA_F32};
    struct kva_rng r = {8};
    struct call t;
    float *masked, *compact, *shuffled;
    int kept = 0;

    (void)state;
    call_make(&t, &r, &s, 4, 90, 3);
    cache_masked(&t.c);
    for (int j = 0; j < 100; j++)
        if (j % 3 == 1)
            cache_kill(&t.c, 0, j);
    masked = attend_with(&t, "ref", NULL, 1);
    for (int j = 0; j < 100; j++)
        if (j % 3 != 1) {
            if (kept != j)
                cache_swap(&t.c, 0, kept, j);
            kept++;
        }
    free(t.c.live);
    t.c.view.live = t.c.live = NULL;
    t.c.len[0] = kept;
    t.c.sorted[0] = 1;
    compact = attend_with(&t, "ref", NULL, 2);
    assert_true(same_bits(masked, compact, t.out_n));
    for (int n = 0; n < 50; n++)
        cache_swap(&t.c, 0, (int)kva_rng_below(&r, (uint64_t)kept),
                   (int)kva_rng_below(&r, (uint64_t)kept));
    shuffled = attend_with(&t, "ref", NULL, 1);
    assert_true(same_bits(masked, shuffled, t.out_n));
    {
        struct kva_ops *ops = open_ops("ref", NULL, 1);

        kva_alloc_fail_at(1); /* no memory for the order: searched instead */
        ops->attend(ops, &t.a, 1);
        kva_alloc_fail_at(0);
        assert_true(same_bits(masked, t.out, t.out_n));
        kva_ops_close(ops);
    }
    free(masked);
    free(compact);
    free(shuffled);
    call_free(&t);
}

static void one_entry_returns_its_value_exactly(void **state)
{
    const char *const *isas = kva_cpu_isas();
    const struct shape s = {1, 1, 64, 64, {1, 0, 0, 0}, 1, KVA_F16};
    struct kva_rng r = {9};

    (void)state;
    for (int i = 0; isas[i]; i++) {
        struct call t;
        float *out;

        call_make(&t, &r, &s, 1, 0, 1);
        out = attend_with(&t, "f32", isas[i], 1);
        for (int d = 0; d < 64; d++)
            assert_true(out[d] == cache_get(&t.c, true, 0, 0, d));
        free(out);
        call_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_softmax_attention_with_the_same_bits_everywhere),
        cmocka_unit_test(every_bit_is_the_one_the_definition_gives),
        cmocka_unit_test(a_long_run_of_rows_is_cut_without_changing_bits),
        cmocka_unit_test(unsorted_slots_and_masked_entries_are_handled),
        cmocka_unit_test(a_row_alone_equals_the_row_inside_a_call),
        cmocka_unit_test(later_entries_change_no_bit_of_an_earlier_row),
        cmocka_unit_test(values_that_a_row_cannot_see_may_be_anything),
        cmocka_unit_test(a_row_that_sees_nothing_is_zero),
        cmocka_unit_test(a_masked_cache_gives_the_bits_of_the_compacted_one),
        cmocka_unit_test(
            sums_of_weights_are_those_of_every_row_with_the_same_bits_however_cut),
        cmocka_unit_test(a_row_whose_weights_fill_the_scratch_is_summed_like_any_other),
        cmocka_unit_test(ref_gives_the_same_bits_masked_unsorted_or_compact),
        cmocka_unit_test(one_entry_returns_its_value_exactly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
