/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wrap_test.h - what the tests of wrappers share: an output projection made of numbers,
 * one KV head given by hand, and properties every wrapper has. */
#ifndef KVA_WRAP_TEST_H
#define KVA_WRAP_TEST_H

#include "tests/methods/methods_test.h"

/* W_O^a of one layer: w[heads][out][dim]. */
struct projection {
    int heads, kv_heads, out, dim;
    float *w;
};

static double projected_norm(const struct projection *p, int a, const float *v, int norm)
{
    double sum = 0;

    for (int o = 0; o < p->out; o++) {
        double y = 0;

        for (int i = 0; i < p->dim; i++)
            y += (double)p->w[(a * p->out + o) * p->dim + i] * (double)v[i];
        sum += norm == 1 ? fabs(y) : y * y;
    }
    return norm == 1 ? sum : sqrt(sum);
}

static enum kva_status lend_norm(void *ctx, int layer, const struct kva_rows *v, int norm,
                                 const size_t *a_off, float *out, struct kva_error *err)
{
    const struct projection *p = ctx;

    (void)layer;
    (void)err;
    for (int a = 0; a < p->heads; a++) {
        int h = a / (p->heads / p->kv_heads);

        for (size_t j = 0; j < v->off[h + 1] - v->off[h]; j++)
            out[a_off[a] + j] = (float)projected_norm(
                p, a, v->data + (v->off[h] + j) * (size_t)v->dim, norm);
    }
    return KVA_OK;
}

static struct projection projection_new(const struct fixture *f, int out, uint64_t seed)
{
    struct projection p = {f->heads, f->kv_heads, out, f->dim, NULL};
    struct kva_rng r = {seed};

    p.w = kva_calloc((size_t)(f->heads * out * f->dim), sizeof *p.w);
    for (int i = 0; i < f->heads * out * f->dim; i++)
        p.w[i] = normal(&r) * (float)(1 + i / (out * f->dim) % 3);
    return p;
}

/* Base scores and what the wrapper makes of them; `p` NULL: nothing is lent. */
struct wrapped {
    struct kva_method m;
    struct kva_scores base, out;
};

static struct wrapped wrap_of(struct fixture *f, struct projection *p, const char *text,
                              struct kva_schedule schedule)
{
    struct kva_lend lend = {.ctx = p, .project_norm = lend_norm};
    struct kva_decide_in in = fixture_in(f, schedule);
    struct wrapped w = {.m = parse(text, schedule)};
    float *before;
    size_t n;

    in.lend = p != NULL ? &lend : NULL;
    assert_ok(kva_method_score(&w.m, &in, &w.base, NULL, &test_error));
    n = w.base.off[f->layers * f->kv_heads];
    before = kva_calloc(n, sizeof *before);
    memcpy(before, w.base.s, n * sizeof *before);
    assert_ok(kva_method_wrap(&w.m, &in, &w.base, &w.out, NULL, &test_error));
    /* the scorer's scores serve other methods too */
    assert_memory_equal(before, w.base.s, n * sizeof *before);
    assert_int_equal(w.out.nonfinite, 0);
    free(before);
    return w;
}

static void wrapped_release(struct wrapped *w)
{
    kva_scores_release(&w->base);
    kva_scores_release(&w->out);
}

/* The ranks a wrapper picks from one KV head of n <= 64 entries at positions 0 .. n-1. */
static void pick_of(const char *text, struct kva_pick in, int32_t *rank)
{
    struct kva_method m = parse(text, ONESHOT);
    int32_t pos[64];

    for (int j = 0; j < in.n; j++)
        pos[j] = j;
    in.pos = pos;
    assert_ok(m.wrapper->pick(&m.wrapper_params, &in, rank, &test_error));
}

#define assert_ranks(rank, ...)                                                          \
    do {                                                                                 \
        const int want_[] = {__VA_ARGS__};                                               \
        for (size_t i_ = 0; i_ < sizeof want_ / sizeof want_[0]; i_++)                   \
            assert_int_equal((rank)[i_], want_[i_]);                                     \
    } while (0)

static void refused(const char *text, const char *why)
{
    struct kva_method m;

    test_error = (struct kva_error){0};
    assert_int_equal(kva_method_parse(text, &ONESHOT, &m, &test_error), KVA_EINVALID);
    if (strstr(test_error.text, why) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", text, test_error.text, why);
}

/* One token per KV head, constant and negative-zero scores, NaN, every budget: the total
 * is exact (unless the wrapper resizes), lists ascend, nobody is empty, and a permutation
 * of the KV heads permutes the decision. `fill` makes aux from the scores, wide numbers
 * an entry. */
static void check_counts(const char *text, int wide)
{
    struct kva_method m = parse(text, ONESHOT);
    struct kva_rng r = {5};

    for (int n = 1; n <= 40; n += n < 8 ? 1 : 13) {
        for (int kind = 0; kind < 4; kind++) {
            float *s = kva_calloc((size_t)(4 * n), sizeof *s);
            struct kva_scores sc, turned;

            for (int j = 0; j < 4 * n; j++)
                s[j] = kind == 0   ? fabsf(normal(&r))
                       : kind == 1 ? 0.25f
                       : kind == 2 ? (j % 2 ? -0.0f : 0.0f)
                       : j % 5     ? fabsf(normal(&r))
                                   : -INFINITY;
            sc = scores_of(2, 2, n, s);
            turned = scores_of(2, 2, n, s);
            sc.wide = turned.wide = wide;
            if (wide > 0) {
                sc.aux = kva_calloc((size_t)(4 * n * wide), sizeof *sc.aux);
                turned.aux = kva_calloc((size_t)(4 * n * wide), sizeof *sc.aux);
                for (int j = 0; j < 4 * n * wide; j++)
                    sc.aux[j] = fabsf(normal(&r)) / (float)n;
            }
            for (int c = 0; c < 4; c++) {
                int d = c ^ 1;

                memcpy(turned.s + turned.off[d], sc.s + sc.off[c],
                       (size_t)n * sizeof *sc.s);
                if (wide > 0)
                    memcpy(turned.aux + d * n * wide, sc.aux + c * n * wide,
                           (size_t)(n * wide) * sizeof *sc.aux);
            }
            sc.protect.recent = turned.protect.recent = n % 4;
            for (int b = 1; b <= n; b++) {
                struct kva_decision d, t;

                assert_ok(
                    kva_method_select(&m, &sc, NULL, (uint64_t)(4 * b), &d, &test_error));
                assert_ok(kva_method_select(&m, &turned, NULL, (uint64_t)(4 * b), &t,
                                            &test_error));
                if (m.wrapper->resize == NULL)
                    assert_int_equal(d.total, 4 * b);
                assert_int_equal(d.total, d.keep.off[4]);
                for (int c = 0; c < 4; c++) {
                    size_t at = d.keep.off[c], end = d.keep.off[c + 1];

                    assert_true(end > at && end - at <= (size_t)n);
                    /* equal scores of different heads: the lower head goes first; and
                     * what is lifted above all is equal */
                    if ((kind > 0 || n % 4 > 0) && m.allocator->compares_heads)
                        continue;
                    assert_int_equal(end - at,
                                     t.keep.off[(c ^ 1) + 1] - t.keep.off[c ^ 1]);
                    assert_memory_equal(d.keep.rank + at, t.keep.rank + t.keep.off[c ^ 1],
                                        (end - at) * sizeof *d.keep.rank);
                }
                kva_decision_release(&d);
                kva_decision_release(&t);
            }
            kva_scores_release(&sc);
            kva_scores_release(&turned);
            free(s);
        }
    }
}

#endif
