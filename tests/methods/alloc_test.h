/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_test.h - what the tests of allocators share: tables and statistics given by hand,
 * ragged random scores, and what every division must satisfy. */
#ifndef KVA_ALLOC_TEST_H
#define KVA_ALLOC_TEST_H

#include "tests/methods/methods_test.h"

/* One row a KV head; the caller releases with kva_table_release. */
static struct kva_table table_of(const char *kind, int layers, int kv_heads, int columns,
                                 const double *data)
{
    struct kva_table t = {.layers = layers, .kv_heads = kv_heads, .columns = columns};
    size_t n = (size_t)(layers * kv_heads * columns);

    snprintf(t.kind, sizeof t.kind, "%s", kind);
    t.data = kva_calloc(n, sizeof *t.data);
    memcpy(t.data, data, n * sizeof *data);
    return t;
}

/* Selects with a table and what `observe` would have seen, both borrowed; NULL: none. */
static enum kva_status try_divide(const struct kva_scores *sc, const char *text,
                                  struct kva_table *table, const double *stat,
                                  uint64_t total, struct kva_decision *d,
                                  struct kva_error *err)
{
    struct kva_method m = parse(text, ONESHOT);

    m.table = table;
    *err = (struct kva_error){0};
    return kva_method_select(&m, sc, stat, total, d, err);
}

static struct kva_decision divide(const struct kva_scores *sc, const char *text,
                                  struct kva_table *table, const double *stat,
                                  uint64_t total)
{
    struct kva_decision d;

    assert_ok(try_divide(sc, text, table, stat, total, &d, &test_error));
    return d;
}

#define assert_budgets(d, ...)                                                           \
    do {                                                                                 \
        const int want_[] = {__VA_ARGS__};                                               \
        for (size_t i_ = 0; i_ < sizeof want_ / sizeof want_[0]; i_++)                   \
            if ((d).budget[i_] != want_[i_])                                             \
                fail_msg("KV head %zu gets %d instead of %d", i_, (d).budget[i_],        \
                         want_[i_]);                                                     \
    } while (0)

/* Constant scores in `cells` KV heads of n entries each, one layer a KV head unless
 * `heads` says more. */
static struct kva_scores flat_scores(int layers, int heads, int n)
{
    size_t all = (size_t)(layers * heads * n);
    float *s = kva_calloc(all, sizeof *s);
    struct kva_scores sc;

    for (size_t i = 0; i < all; i++)
        s[i] = 1;
    sc = scores_of(layers, heads, n, s);
    free(s);
    return sc;
}

/* Random scores, not negative, 1 .. most entries a KV head at random ascending positions
 * below 2 * most. */
static struct kva_scores ragged_scores(struct kva_rng *r, int layers, int heads, int most)
{
    int c = layers * heads;
    struct kva_scores sc = {.layers = layers, .kv_heads = heads};

    sc.off = kva_calloc((size_t)c + 1, sizeof *sc.off);
    sc.s = kva_calloc((size_t)(c * most), sizeof *sc.s);
    sc.pos = kva_calloc((size_t)(c * most), sizeof *sc.pos);
    for (int i = 0; i < c; i++) {
        int n = 1 + (int)kva_rng_below(r, (uint64_t)most), p = 0;

        sc.off[i + 1] = sc.off[i] + (size_t)n;
        for (int j = 0; j < n; j++) {
            sc.pos[sc.off[i] + (size_t)j] = p;
            p += 1 + (int)kva_rng_below(r, 2);
            sc.s[sc.off[i] + (size_t)j] = (float)kva_rng_unit(r);
        }
    }
    return sc;
}

#endif
