/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kvstore_test.h - what the tests of the KV store share: stores filled with values that
 * follow from the position, lists of ranks, comparisons of slots, ranks and rows. */
#ifndef KVSTORE_TEST_H
#define KVSTORE_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kvstore.h"

enum { P = KVA_PAGE };

#define OK(expr) assert_int_equal((expr), KVA_OK)

/* Entry (position, KV head, dim) has a value of its own, exact in f16. */
static inline float k_of(int32_t pos, int c, int i)
{
    return (float)((pos * 7 + c * 3 + i) % 2048) * 0.5f;
}

static inline float v_of(int32_t pos, int c, int i)
{
    return -(float)((pos * 5 + c * 11 + i * 2) % 2048) * 0.25f;
}

static inline struct kva_kvstore *store_new(int layers, int heads, int dk, int dv,
                                            enum kva_type type, size_t cap,
                                            enum kva_kv_mode mode)
{
    struct kva_kvshape shape = {layers, heads, dk, dv, type};
    struct kva_kvstore *s = NULL;

    OK(kva_kvstore_new(NULL, &shape, cap, mode, &s, NULL));
    return s;
}

static inline enum kva_status try_append(struct kva_kvstore *s, int layer, int32_t from,
                                         int tokens, struct kva_error *err)
{
    const struct kva_kvshape *sh = kva_kvstore_shape(s);
    int kw = sh->kv_heads * sh->dim_k + 3, vw = sh->kv_heads * sh->dim_v + 1;
    float *k = calloc((size_t)(tokens * kw), sizeof *k);
    float *v = calloc((size_t)(tokens * vw), sizeof *v);
    int32_t *pos = calloc((size_t)tokens, sizeof *pos);
    enum kva_status rc;

    for (int t = 0; t < tokens; t++) {
        pos[t] = from + t;
        for (int h = 0; h < sh->kv_heads; h++) {
            int c = layer * sh->kv_heads + h;

            for (int i = 0; i < sh->dim_k; i++)
                k[t * kw + h * sh->dim_k + i] = k_of(pos[t], c, i);
            for (int i = 0; i < sh->dim_v; i++)
                v[t * vw + h * sh->dim_v + i] = v_of(pos[t], c, i);
        }
        /* what lies between the rows is not the store's */
        k[t * kw + kw - 1] = v[t * vw + vw - 1] = NAN;
    }
    rc = kva_kvstore_append(s, layer, k, kw, v, vw, pos, tokens, err);
    free(k);
    free(v);
    free(pos);
    return rc;
}

static inline void fill(struct kva_kvstore *s, int32_t from, int tokens)
{
    for (int l = 0; l < kva_kvstore_shape(s)->layers; l++)
        OK(try_append(s, l, from, tokens, NULL));
}

/* The same list for every KV head. */
static inline struct kva_keep same_list(const struct kva_kvstore *s, const int32_t *rank,
                                        size_t n)
{
    const struct kva_kvshape *sh = kva_kvstore_shape(s);
    size_t heads = (size_t)(sh->layers * sh->kv_heads);
    struct kva_keep keep = {sh->layers, sh->kv_heads,
                            calloc(heads * n + 1, sizeof *keep.rank),
                            calloc(heads + 1, sizeof *keep.off)};

    for (size_t c = 0; c < heads; c++) {
        memcpy(keep.rank + c * n, rank, n * sizeof *rank);
        keep.off[c + 1] = (c + 1) * n;
    }
    return keep;
}

static inline struct kva_keep first_ranks(const struct kva_kvstore *s, int n)
{
    int32_t rank[8192];

    for (int i = 0; i < n; i++)
        rank[i] = i;
    return same_list(s, rank, (size_t)n);
}

#define LIST(s, ...)                                                                     \
    same_list((s), (const int32_t[]){__VA_ARGS__},                                       \
              sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static inline void keep_now(struct kva_kvstore *s, struct kva_keep keep)
{
    OK(kva_kvstore_keep(s, &keep, NULL));
    kva_keep_release(&keep);
    OK(kva_kvstore_check(s, NULL));
}

static inline void replace_now(struct kva_kvstore *s, struct kva_keep victims)
{
    OK(kva_kvstore_replace(s, &victims, NULL));
    kva_keep_release(&victims);
    OK(kva_kvstore_check(s, NULL));
}

/* Positions in slot order. */
static inline void slots_are(const struct kva_kvstore *s, int layer, int head,
                             const int32_t *want, int n)
{
    struct kva_kv_view view;

    kva_kvstore_view(s, layer, &view);
    assert_int_equal(view.len[head], n);
    for (int j = 0; j < n; j++) {
        int32_t page = view.table[head * view.table_cap + j / P];

        assert_int_equal(view.pos[page * P + j % P], want[j]);
    }
}

#define SLOTS(s, l, h, ...)                                                              \
    slots_are((s), (l), (h), (const int32_t[]){__VA_ARGS__},                             \
              (int)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

static inline void ranks_are(const struct kva_kvstore *s, int layer, int head,
                             const int32_t *want, int n)
{
    int32_t got[8192];

    assert_int_equal(kva_kvstore_live(s, layer, head), n);
    kva_kvstore_positions(s, layer, head, got);
    for (int j = 0; j < n; j++)
        assert_int_equal(got[j], want[j]);
}

#define RANKS(s, l, h, ...)                                                              \
    ranks_are((s), (l), (h), (const int32_t[]){__VA_ARGS__},                             \
              (int)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

/* Every live row of every KV head is the one its position says. */
static inline void rows_are_right(const struct kva_kvstore *s)
{
    const struct kva_kvshape *sh = kva_kvstore_shape(s);

    for (int l = 0; l < sh->layers; l++)
        for (int h = 0; h < sh->kv_heads; h++) {
            int n = kva_kvstore_live(s, l, h), c = l * sh->kv_heads + h;
            int32_t *pos = calloc((size_t)n + 1, sizeof *pos);
            float *k = calloc((size_t)(n * sh->dim_k) + 1, sizeof *k);
            float *v = calloc((size_t)(n * sh->dim_v) + 1, sizeof *v);

            kva_kvstore_positions(s, l, h, pos);
            OK(kva_kvstore_gather(s, l, h, k, v, NULL));
            for (int j = 0; j < n; j++) {
                for (int i = 0; i < sh->dim_k; i++)
                    assert_true(k[j * sh->dim_k + i] == k_of(pos[j], c, i));
                for (int i = 0; i < sh->dim_v; i++)
                    assert_true(v[j * sh->dim_v + i] == v_of(pos[j], c, i));
            }
            free(pos);
            free(k);
            free(v);
        }
}

static inline struct kva_kv_bytes bytes_of(const struct kva_kvstore *s)
{
    struct kva_kv_bytes b;

    kva_kvstore_bytes(s, &b);
    return b;
}

/* Two stores hold the same: lengths, sorted flags, positions and rows slot by slot, mask
 * bits. */
static inline void stores_equal(const struct kva_kvstore *a, const struct kva_kvstore *b)
{
    const struct kva_kvshape *sh = kva_kvstore_shape(a);
    size_t e = sh->type == KVA_F16 ? 2 : 4;

    for (int l = 0; l < sh->layers; l++) {
        struct kva_kv_view x, y;

        kva_kvstore_view(a, l, &x);
        kva_kvstore_view(b, l, &y);
        assert_int_equal(!!x.live, !!y.live);
        for (int h = 0; h < sh->kv_heads; h++) {
            assert_int_equal(x.len[h], y.len[h]);
            assert_int_equal(x.sorted[h], y.sorted[h]);
            for (int j = 0; j < x.len[h]; j++) {
                int32_t p = x.table[h * x.table_cap + j / P];
                int32_t q = y.table[h * y.table_cap + j / P];
                size_t kb = (size_t)sh->dim_k * e, vb = (size_t)sh->dim_v * e;
                size_t slot = (size_t)(j % P);

                assert_int_equal(x.pos[p * P + j % P], y.pos[q * P + j % P]);
                assert_memory_equal(x.base + (size_t)p * x.page_bytes + slot * kb,
                                    y.base + (size_t)q * y.page_bytes + slot * kb, kb);
                assert_memory_equal(
                    x.base + (size_t)p * x.page_bytes + P * kb + slot * vb,
                    y.base + (size_t)q * y.page_bytes + P * kb + slot * vb, vb);
                if (x.live)
                    assert_int_equal(x.live[p] >> slot & 1, y.live[q] >> slot & 1);
            }
        }
    }
    assert_true(kva_kvstore_kept_fnv(a) == kva_kvstore_kept_fnv(b));
}

#endif
