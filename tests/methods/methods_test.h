/* SPDX-License-Identifier: GPL-3.0-or-later */
/* methods_test.h - what the tests of methods/ share: a small cache of random tensors, a
 * slow second opinion in double for every decision, and a table of operations with a
 * scripted window. */
#ifndef KVA_METHODS_TEST_H
#define KVA_METHODS_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "methods/method.h"

#pragma GCC diagnostic ignored "-Wunused-function"

static const struct kva_schedule ONESHOT = {KVA_ONESHOT, 0, 0};
static const struct kva_schedule BLOCK128 = {KVA_BLOCK, 128, 0};

/* Fails the test with the message of a failure nobody expected. */
#define assert_ok(expr)                                                                  \
    do {                                                                                 \
        struct kva_error *e_ = &test_error;                                              \
        *e_ = (struct kva_error){0};                                                     \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s", #expr, e_->text);                                         \
    } while (0)
static struct kva_error test_error;

static struct kva_method parse(const char *text, struct kva_schedule schedule)
{
    struct kva_method m;

    assert_ok(kva_method_parse(text, &schedule, &m, &test_error));
    return m;
}

static float normal(struct kva_rng *r)
{
    double u = kva_rng_unit(r) + 1e-300, v = kva_rng_unit(r);

    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* ---- a cache
 * ------------------------------------------------------------------------------ */

/* Values a test wants exactly: k and v rows of one layer, one head after another,
 * [heads][n][dim]. */
struct fixture {
    struct kva_ops *ops;
    struct kva_kvstore *store;
    int layers, kv_heads, heads, dim, tokens, nq;
    float *q; /* [layers][nq][heads][dim] */
    int32_t *q_pos;
};

static int fixture_queries(void *ctx, int layer, const float **q, const int32_t **q_pos)
{
    struct fixture *f = ctx;

    *q = f->q + (size_t)layer * (size_t)(f->nq * f->heads * f->dim);
    *q_pos = f->q_pos;
    return f->nq;
}

static void fixture_append(struct fixture *f, struct kva_rng *r, int first, int tokens)
{
    size_t row = (size_t)(f->kv_heads * f->dim), n = row * (size_t)tokens;
    float *k = kva_calloc(n, sizeof *k), *v = kva_calloc(n, sizeof *v);
    int32_t *pos = kva_calloc((size_t)tokens, sizeof *pos);

    for (int t = 0; t < tokens; t++)
        pos[t] = first + t;
    for (int l = 0; l < f->layers; l++) {
        for (size_t i = 0; i < n; i++) {
            k[i] = normal(r) + (float)(i % 3);
            v[i] = normal(r) * 2 - 0.5f;
        }
        assert_ok(kva_kvstore_append(f->store, l, k, (int)row, v, (int)row, pos, tokens,
                                     &test_error));
    }
    free(k);
    free(v);
    free(pos);
}

/* Random subset of each KV head, of different sizes. */
static void fixture_thin(struct fixture *f, struct kva_rng *r)
{
    int c = f->layers * f->kv_heads;
    struct kva_keep keep = {.layers = f->layers, .kv_heads = f->kv_heads};

    keep.off = kva_calloc((size_t)c + 1, sizeof *keep.off);
    keep.rank = kva_calloc((size_t)(c * f->tokens), sizeof *keep.rank);
    for (int i = 0; i < c; i++) {
        int n = kva_kvstore_live(f->store, i / f->kv_heads, i % f->kv_heads);
        size_t at = keep.off[i];

        for (int j = 0; j < n; j++) {
            if (j == n / 2 || kva_rng_below(r, 10) < (uint64_t)(4 + i % 5))
                keep.rank[at++] = j;
        }
        keep.off[i + 1] = at;
    }
    assert_ok(kva_kvstore_keep(f->store, &keep, &test_error));
    kva_keep_release(&keep);
}

/* `ragged`: the first half of the tokens is thinned out before the second half arrives.
 */
static struct fixture fixture_new(int layers, int kv_heads, int group, int dim,
                                  int tokens, int nq, bool ragged, uint64_t seed)
{
    struct fixture f = {.layers = layers,
                        .kv_heads = kv_heads,
                        .heads = kv_heads * group,
                        .dim = dim,
                        .tokens = tokens,
                        .nq = nq};
    struct kva_kvshape shape = {layers, kv_heads, dim, dim, KVA_F32};
    struct kva_rng r = {seed};
    size_t nfloats = (size_t)(layers * nq * f.heads * dim);

    assert_ok(kva_ops_open("cpu", "f32", 1, &f.ops, &test_error));
    assert_ok(kva_kvstore_new(f.ops, &shape,
                              (size_t)(layers * kv_heads * (tokens / KVA_PAGE + 2)),
                              KVA_KV_PHYSICAL, &f.store, &test_error));
    fixture_append(&f, &r, 0, ragged ? tokens / 2 : tokens);
    if (ragged) {
        fixture_thin(&f, &r);
        fixture_append(&f, &r, tokens / 2, tokens - tokens / 2);
    }
    f.q = kva_calloc(nfloats, sizeof *f.q);
    f.q_pos = kva_calloc((size_t)nq, sizeof *f.q_pos);
    for (size_t i = 0; i < nfloats; i++)
        f.q[i] = normal(&r);
    for (int i = 0; i < nq; i++)
        f.q_pos[i] = tokens - nq + i;
    return f;
}

/* A rotation of the pairs (x, x + dim / 2), as a model lends it. */
static void fixture_rotate(void *ctx, int layer, struct kva_rows *rows,
                           const int32_t *delta)
{
    int half = rows->dim / 2;

    (void)ctx;
    for (size_t j = 0; j < rows->off[rows->heads]; j++)
        for (int x = 0; x < half; x++) {
            float *u = rows->data + j * (size_t)rows->dim + x, *v = u + half, old = *u;
            double angle = delta[j] * 0.5 / (x + 1 + layer);
            float c = (float)cos(angle), s = (float)sin(angle);

            *u = old * c - *v * s;
            *v = old * s + *v * c;
        }
}

static const struct kva_lend fixture_lend = {.rotate = fixture_rotate};

static struct kva_decide_in fixture_in(struct fixture *f, struct kva_schedule schedule)
{
    return (struct kva_decide_in){
        .ops = f->ops,
        .store = f->store,
        .heads = f->heads,
        .head_dim = f->dim,
        .v_dim = f->dim,
        .scale = 1 / sqrtf((float)f->dim),
        .queries = fixture_queries,
        .queries_ctx = f,
        .lend = &fixture_lend,
        .seed = 42,
        .block_len = schedule.kind == KVA_BLOCK ? f->tokens - f->tokens / 2 : f->tokens,
        .is_block = schedule.kind == KVA_BLOCK,
        .seen = f->tokens,
    };
}

static void fixture_release(struct fixture *f)
{
    free(f->q);
    free(f->q_pos);
    kva_kvstore_free(f->store);
    kva_ops_close(f->ops);
}

/* ---- the second opinion
 * -------------------------------------------------------------------- */

/* One KV head as plain numbers. */
struct cell {
    int n, layer, head;
    int32_t *pos;
    float *k, *v;
};

static struct cell cell_read(const struct fixture *f, int layer, int head)
{
    struct cell c = {
        .n = kva_kvstore_live(f->store, layer, head), .layer = layer, .head = head};
    size_t n = (size_t)c.n * (size_t)f->dim;

    c.pos = kva_calloc((size_t)c.n, sizeof *c.pos);
    c.k = kva_calloc(n, sizeof *c.k);
    c.v = kva_calloc(n, sizeof *c.v);
    kva_kvstore_positions(f->store, layer, head, c.pos);
    assert_int_equal(kva_kvstore_gather(f->store, layer, head, c.k, c.v, NULL), KVA_OK);
    return c;
}

static void cell_release(struct cell *c)
{
    free(c->pos);
    free(c->k);
    free(c->v);
}

/* softmax weights of query head a, window row i, over the entries of the cell; out[n] */
static void naive_row(const struct fixture *f, const struct cell *c, int i, int a,
                      double *out)
{
    const float *q =
        f->q +
        (((size_t)c->layer * (size_t)f->nq + (size_t)i) * (size_t)f->heads + (size_t)a) *
            (size_t)f->dim;
    double scale = 1 / sqrt((double)f->dim), top = -INFINITY, sum = 0;

    for (int j = 0; j < c->n; j++) {
        out[j] = -INFINITY;
        if (c->pos[j] > f->q_pos[i])
            continue;
        out[j] = 0;
        for (int x = 0; x < f->dim; x++)
            out[j] += (double)q[x] * (double)c->k[j * f->dim + x];
        out[j] *= scale;
        top = out[j] > top ? out[j] : top;
    }
    for (int j = 0; j < c->n; j++) {
        out[j] = exp(out[j] - top);
        sum += out[j];
    }
    for (int j = 0; j < c->n; j++)
        out[j] /= sum;
}

/* A scorer written down again: scores of the cell in double. */
typedef void (*naive_fn)(const struct fixture *f, const struct cell *c, double *s);

struct ranked {
    int cls, rank, head;
    double score;
    int32_t pos;
};

/* best first: class, score, newest, lower head */
static int ranked_cmp(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->cls != y->cls)
        return x->cls > y->cls ? -1 : 1;
    if (x->score > y->score || x->score < y->score)
        return x->score > y->score ? -1 : 1;
    if (x->pos != y->pos)
        return x->pos > y->pos ? -1 : 1;
    return x->head - y->head;
}

static int int_cmp(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The b ranks of a cell that a plain sort keeps, ascending, in want[b]. Returns the gap
 * in score at the cut, relative to the largest score; INFINITY when the cut is not
 * between ordinary entries. */
static double naive_kept(const struct cell *c, const double *s, struct kva_protect p,
                         int32_t newest, int b, int *want)
{
    struct ranked *r = kva_calloc((size_t)c->n, sizeof *r);
    double gap = INFINITY, scale = 0;

    for (int j = 0; j < c->n; j++) {
        bool sink = c->pos[j]<p.sinks, recent = c->pos[j]> newest - p.recent;

        /* rule 3.4: among the protected, sinks before all, the oldest first, then the
         * newest */
        r[j] = (struct ranked){.cls = sink     ? 3
                                      : recent ? 2
                                               : 1,
                               .rank = j,
                               .pos = sink ? -c->pos[j] : c->pos[j],
                               .score = sink || recent ? 0 : s[j]};
        if (isfinite(r[j].score) && fabs(r[j].score) > scale)
            scale = fabs(r[j].score);
    }
    qsort(r, (size_t)c->n, sizeof *r, ranked_cmp);
    if (b < c->n && r[b - 1].cls == 1 && r[b].cls == 1)
        gap = (r[b - 1].score - r[b].score) / scale;
    for (int j = 0; j < b; j++)
        want[j] = r[j].rank;
    qsort(want, (size_t)b, sizeof *want, int_cmp);
    free(r);
    return gap;
}

/* Scores once, then selects at budgets 0.1 .. 0.9 of what is held and compares every KV
 * head with the naive scorer and a plain sort. A head whose scores differ by less than
 * float rounding at the cut is left out; few may be. Only for the uniform allocator. */
static void check_kept(struct fixture *f, const char *text, struct kva_schedule schedule,
                       naive_fn naive, struct kva_protect protect)
{
    struct kva_method m = parse(text, schedule);
    struct kva_decide_in in = fixture_in(f, schedule);
    struct kva_scores sc;
    int cells = f->layers * f->kv_heads, skipped = 0, compared = 0;
    double *s = kva_calloc((size_t)f->tokens, sizeof *s);
    int *want = kva_calloc((size_t)f->tokens, sizeof *want);

    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.nonfinite, 0);
    assert_int_equal(sc.protect.sinks, protect.sinks);
    assert_int_equal(sc.protect.recent, protect.recent);
    for (int tenth = 1; tenth <= 9; tenth++) {
        uint64_t total = sc.off[cells] * (uint64_t)tenth / 10;
        struct kva_decision d;

        assert_ok(kva_method_select(&m, &sc, NULL, total, &d, &test_error));
        assert_false(d.nothing_to_do);
        assert_int_equal(d.total, total);
        assert_int_equal(d.keep.off[cells], total);
        for (int i = 0; i < cells; i++) {
            struct cell c = cell_read(f, i / f->kv_heads, i % f->kv_heads);
            int b = (int)(d.keep.off[i + 1] - d.keep.off[i]);
            double gap;

            naive(f, &c, s);
            gap = naive_kept(&c, s, protect, f->tokens - 1, b, want);
            if (gap > 0 && gap < 2e-6) { /* an exact tie is compared: the newer stays */
                skipped++;
            } else {
                for (int j = 0; j < b; j++) {
                    if (d.keep.rank[d.keep.off[i] + (size_t)j] != want[j])
                        fail_msg(
                            "%s at %d/10: layer %d head %d entry %d: %d instead of %d",
                            text, tenth, c.layer, c.head, j,
                            (int)d.keep.rank[d.keep.off[i] + (size_t)j], want[j]);
                }
                compared++;
            }
            cell_release(&c);
        }
        kva_decision_release(&d);
    }
    assert_true(skipped * 20 <= compared);
    kva_scores_release(&sc);
    free(s);
    free(want);
}

/* check_kept on an even cache and on a ragged one, in their schedules. */
static void check_scorer(const char *oneshot, const char *block, naive_fn naive,
                         struct kva_protect protect, struct kva_protect protect_block)
{
    struct fixture even = fixture_new(2, 3, 3, 24, 150, 40, false, 1);
    struct fixture ragged = fixture_new(3, 2, 2, 16, 170, 40, true, 2);

    check_kept(&even, oneshot, ONESHOT, naive, protect);
    check_kept(&ragged, block, BLOCK128, naive, protect_block);
    fixture_release(&even);
    fixture_release(&ragged);
}

/* ---- scores given by hand
 * ------------------------------------------------------------------ */

/* One layer of `heads` KV heads with n scores each, positions 0 .. n-1. */
static struct kva_scores scores_of(int layers, int heads, int n, const float *s)
{
    int c = layers * heads;
    struct kva_scores sc = {.layers = layers, .kv_heads = heads};

    sc.off = kva_calloc((size_t)c + 1, sizeof *sc.off);
    sc.s = kva_calloc((size_t)(c * n), sizeof *sc.s);
    sc.pos = kva_calloc((size_t)(c * n), sizeof *sc.pos);
    for (int i = 0; i < c; i++)
        sc.off[i + 1] = (size_t)((i + 1) * n);
    for (int i = 0; i < c * n; i++) {
        sc.s[i] = s[i];
        sc.pos[i] = i % n;
    }
    return sc;
}

/* Asserts that kvhead c keeps exactly the listed ranks. */
#define assert_keeps(d, c, ...)                                                          \
    do {                                                                                 \
        const int want_[] = {__VA_ARGS__};                                               \
        const struct kva_keep *k_ = &(d).keep;                                           \
        int n_ = (int)(sizeof want_ / sizeof want_[0]);                                  \
        assert_int_equal(k_->off[(c) + 1] - k_->off[c], n_);                             \
        for (int i_ = 0; i_ < n_; i_++)                                                  \
            assert_int_equal(k_->rank[k_->off[c] + (size_t)i_], want_[i_]);              \
    } while (0)

#define assert_near(got, want, tol)                                                      \
    do {                                                                                 \
        double g_ = (double)(got), w_ = (double)(want);                                  \
        if (!(fabs(g_ - w_) <= (tol)))                                                   \
            fail_msg("%s: %.9g instead of %.9g", #got, g_, w_);                          \
    } while (0)

/* One KV head with chosen keys and values of two dimensions, from the worked examples. */
static struct fixture fixture_of(const float *k, const float *v, int tokens)
{
    struct fixture f = {
        .layers = 1, .kv_heads = 1, .heads = 1, .dim = 2, .tokens = tokens, .nq = 0};
    struct kva_kvshape shape = {1, 1, 2, 2, KVA_F32};
    int32_t pos[64];

    for (int t = 0; t < tokens; t++)
        pos[t] = t;
    assert_ok(kva_ops_open("cpu", "f32", 1, &f.ops, &test_error));
    assert_ok(kva_kvstore_new(f.ops, &shape, 4, KVA_KV_PHYSICAL, &f.store, &test_error));
    assert_ok(kva_kvstore_append(f.store, 0, k, 2, v, 2, pos, tokens, &test_error));
    return f;
}

/* Scores of a method on a fixture. */
static struct kva_scores score_of(struct fixture *f, const char *text,
                                  struct kva_schedule schedule)
{
    struct kva_method m = parse(text, schedule);
    struct kva_decide_in in = fixture_in(f, schedule);
    struct kva_scores sc;

    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    return sc;
}

static struct kva_decision select_of(const struct kva_scores *sc, const char *text,
                                     uint64_t total)
{
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decision d;

    assert_ok(kva_method_select(&m, sc, NULL, total, &d, &test_error));
    return d;
}

/* Evicts one by one, scoring anew each time, and writes the positions in the order they
 * go. */
static void evict_order(struct fixture *f, const char *text, int *order)
{
    for (int left = f->tokens; left > 1; left--) {
        struct kva_scores sc = score_of(f, text, BLOCK128);
        struct kva_decision d = select_of(&sc, text, (uint64_t)left - 1);
        int gone = 0;

        while (gone < left - 1 && d.keep.rank[gone] == gone)
            gone++;
        order[f->tokens - left] = sc.pos[gone];
        assert_ok(kva_kvstore_keep(f->store, &d.keep, &test_error));
        kva_decision_release(&d);
        kva_scores_release(&sc);
    }
    {
        int32_t last;

        kva_kvstore_positions(f->store, 0, 0, &last);
        order[f->tokens - 1] = last;
    }
}

/* E2 */
static const float E2_K[] = {3, 0, 0, 2, 1, 1, 4, 3};
static const float E2_V[] = {1, 0, 0, 1, 1, 1, 4, 2};

#endif
