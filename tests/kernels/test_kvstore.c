/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kvstore.c - the physical KV store: bytes, cap, eviction, copies, memory given
 * back. */
#include "kernels/kvstore.h"

#include <setjmp.h>
#include <cmocka.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { P = KVA_PAGE };

#define OK(expr) assert_int_equal((expr), KVA_OK)

/* ---- helpers: entry (position, KV head, dim) has a value of its own, exact in f16 ----
 */

static float k_of(int32_t pos, int c, int i)
{
    return (float)((pos * 7 + c * 3 + i) % 2048) * 0.5f;
}

static float v_of(int32_t pos, int c, int i)
{
    return -(float)((pos * 5 + c * 11 + i * 2) % 2048) * 0.25f;
}

static struct kva_kvstore *store_new(int layers, int heads, int dk, int dv,
                                     enum kva_type type, size_t cap,
                                     enum kva_kv_mode mode)
{
    struct kva_kvshape shape = {layers, heads, dk, dv, type};
    struct kva_kvstore *s = NULL;

    OK(kva_kvstore_new(NULL, &shape, cap, mode, &s, NULL));
    return s;
}

static enum kva_status try_append(struct kva_kvstore *s, int layer, int32_t from,
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

static void fill(struct kva_kvstore *s, int32_t from, int tokens)
{
    for (int l = 0; l < kva_kvstore_shape(s)->layers; l++)
        OK(try_append(s, l, from, tokens, NULL));
}

/* The same list for every KV head. */
static struct kva_keep same_list(const struct kva_kvstore *s, const int32_t *rank,
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

static struct kva_keep first_ranks(const struct kva_kvstore *s, int n)
{
    int32_t rank[8192];

    for (int i = 0; i < n; i++)
        rank[i] = i;
    return same_list(s, rank, (size_t)n);
}

#define LIST(s, ...)                                                                     \
    same_list((s), (const int32_t[]){__VA_ARGS__},                                       \
              sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void keep_now(struct kva_kvstore *s, struct kva_keep keep)
{
    OK(kva_kvstore_keep(s, &keep, NULL));
    kva_keep_release(&keep);
    OK(kva_kvstore_check(s, NULL));
}

static void replace_now(struct kva_kvstore *s, struct kva_keep victims)
{
    OK(kva_kvstore_replace(s, &victims, NULL));
    kva_keep_release(&victims);
    OK(kva_kvstore_check(s, NULL));
}

/* Positions in slot order. */
static void slots_are(const struct kva_kvstore *s, int layer, int head,
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

static void ranks_are(const struct kva_kvstore *s, int layer, int head,
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
static void rows_are_right(const struct kva_kvstore *s)
{
    const struct kva_kvshape *sh = kva_kvstore_shape(s);

    for (int l = 0; l < sh->layers; l++)
        for (int h = 0; h < sh->kv_heads; h++) {
            int n = kva_kvstore_live(s, l, h), c = l * sh->kv_heads + h;
            int32_t *pos = calloc((size_t)n + 1, sizeof *pos);
            float *k = calloc((size_t)(n * sh->dim_k) + 1, sizeof *k);
            float *v = calloc((size_t)(n * sh->dim_v) + 1, sizeof *v);

            kva_kvstore_positions(s, l, h, pos);
            kva_kvstore_gather(s, l, h, k, v);
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

static struct kva_kv_bytes bytes_of(const struct kva_kvstore *s)
{
    struct kva_kv_bytes b;

    kva_kvstore_bytes(s, &b);
    return b;
}

/* Two stores hold the same: lengths, sorted flags, positions and rows slot by slot, mask
 * bits. */
static void stores_equal(const struct kva_kvstore *a, const struct kva_kvstore *b)
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

/* ---- bytes ---- */

static void worked_example_of_the_byte_accounting(void **state)
{
    /* kernels.md 2.4: SmolLM2-135M, S = 300, N = 100, block 128 */
    struct kva_kvstore *s = store_new(30, 3, 64, 64, KVA_F16, 90 * 8, KVA_KV_PHYSICAL);
    struct kva_kv_bytes b;

    (void)state;
    fill(s, 0, 128);
    keep_now(s, first_ranks(s, 100));
    fill(s, 128, 128);
    b = bytes_of(s);
    assert_int_equal(b.alloc_bytes, 5898240);
    assert_int_equal(b.meta_bytes, 92160 + 3240);
    keep_now(s, first_ranks(s, 100));
    fill(s, 256, 44);
    keep_now(s, first_ranks(s, 100));
    OK(kva_kvstore_trim(s, NULL));
    b = bytes_of(s);
    assert_int_equal(b.row_bytes, 256);
    assert_int_equal(b.live_bytes, 2304000);
    assert_int_equal(b.alloc_bytes, 2949120);
    assert_int_equal(b.meta_bytes, 49320);
    assert_int_equal(b.peak_bytes, 5993640);
    assert_int_equal(b.entries_kept, 9000);
    assert_int_equal(b.entries_masked, 0);
    assert_true(b.committed_bytes >= b.alloc_bytes);
    assert_true(b.committed_bytes < b.alloc_bytes + (2 << 20));
    assert_true(fabs((double)(b.alloc_bytes + b.meta_bytes) / 6912000 - 0.43380) < 5e-6);
    rows_are_right(s);
    kva_kvstore_free(s);
}

static void bytes_of_a_budget_in_pages_of_16_and_32(void **state)
{
    /* reports.md 5.2: Llama-3.1-8B, 4,096 tokens, keep 0.2 */
    struct kva_kvshape llama = {32, 8, 128, 128, KVA_F16};
    struct kva_kvshape odd = {1, 1, 3, 5, KVA_F32};

    (void)state;
    assert_int_equal(kva_kv_alloc_for(&llama, 1, 1), 131072);
    assert_int_equal(kva_kv_alloc_for(&llama, 4096, 16), 536870912);
    assert_int_equal(kva_kv_alloc_for(&llama, 819, 1), 107347968);
    assert_int_equal(kva_kv_alloc_for(&llama, 819, 16), 109051904);
    assert_int_equal(kva_kv_alloc_for(&llama, 819, 32), 109051904);
    assert_int_equal(kva_kv_alloc_for(&llama, 817, 32), 109051904);
    assert_int_equal(kva_kv_alloc_for(&llama, 0, 32), 0);
    assert_int_equal(kva_kv_alloc_for(&odd, 33, 32), 64 * 8 * 4);
    /* 128k tokens of 80 layers do not fit 32 bits */
    llama.layers = 80;
    assert_true(kva_kv_alloc_for(&llama, 131072, 32) == 42949672960ULL);
}

static void a_new_store_holds_nothing(void **state)
{
    struct kva_kvstore *s = store_new(2, 2, 4, 4, KVA_F32, 16, KVA_KV_PHYSICAL);
    struct kva_kv_bytes b = bytes_of(s);

    (void)state;
    assert_int_equal(b.alloc_bytes, 0);
    assert_int_equal(b.committed_bytes, 0);
    assert_int_equal(b.live_bytes, 0);
    assert_int_equal(b.peak_bytes, b.meta_bytes);
    assert_int_equal(kva_kvstore_live(s, 1, 1), 0);
    assert_int_equal(kva_kvstore_pages_for(s, 0), 0);
    assert_int_equal(kva_kvstore_pages_for(s, 32), 4);
    assert_int_equal(kva_kvstore_pages_for(s, 33), 8);
    OK(kva_kvstore_trim(s, NULL));
    OK(kva_kvstore_rewind(s, 0, NULL));
    OK(kva_kvstore_check(s, NULL));
    kva_kvstore_free(s);
    kva_kvstore_free(NULL);
}

static void impossible_shapes_are_refused(void **state)
{
    struct kva_kvshape good = {1, 1, 4, 4, KVA_F16}, bad = good;
    struct kva_kvstore *s = NULL;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_kvstore_new(NULL, &good, 0, KVA_KV_PHYSICAL, &s, &err),
                     KVA_EINVALID);
    bad.layers = 0;
    assert_int_equal(kva_kvstore_new(NULL, &bad, 1, KVA_KV_PHYSICAL, &s, NULL),
                     KVA_EINVALID);
    bad = good;
    bad.dim_v = -1;
    assert_int_equal(kva_kvstore_new(NULL, &bad, 1, KVA_KV_PHYSICAL, &s, NULL),
                     KVA_EINVALID);
    bad = good;
    bad.type = KVA_Q8_0;
    assert_int_equal(kva_kvstore_new(NULL, &bad, 1, KVA_KV_PHYSICAL, &s, NULL),
                     KVA_EUNSUPPORTED);
    assert_int_equal(kva_kvstore_new(NULL, &good, 1, (enum kva_kv_mode)9, &s, NULL),
                     KVA_EINVALID);
    assert_null(s);
}

/* ---- append ---- */

static void append_over_the_cap_changes_nothing(void **state)
{
    /* kernels.md 2.7: page_cap = C * 1, N = 32, block 33 */
    struct kva_kvstore *s = store_new(1, 3, 8, 8, KVA_F16, 3, KVA_KV_PHYSICAL), *copy;
    struct kva_kv_bytes before, after;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(try_append(s, 0, 0, 33, &err), KVA_EBUDGET);
    assert_int_equal(bytes_of(s).alloc_bytes, 0);
    OK(try_append(s, 0, 0, 30, NULL));
    OK(kva_kvstore_fork(s, NULL, 3, KVA_KV_PHYSICAL, &copy, NULL));
    before = bytes_of(s);
    assert_int_equal(try_append(s, 0, 30, 3, NULL), KVA_EBUDGET);
    after = bytes_of(s);
    assert_memory_equal(&before, &after, sizeof before);
    OK(kva_kvstore_check(s, NULL));
    stores_equal(s, copy);
    OK(try_append(s, 0, 30, 2, NULL));
    rows_are_right(s);
    kva_kvstore_free(copy);
    kva_kvstore_free(s);
}

static void values_that_are_not_finite_in_f16_are_refused(void **state)
{
    const float bad[] = {INFINITY, -INFINITY, NAN, 65520.0f, -65520.0f, 1e30f};
    struct kva_kvstore *s = store_new(1, 2, 11, 5, KVA_F16, 8, KVA_KV_PHYSICAL);
    float k[3 * 22] = {0}, v[3 * 10] = {0}, got[33];
    int32_t pos[3] = {0, 1, 2};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int where = 0; where < 66; where++) {
            k[where] = bad[i];
            assert_int_equal(kva_kvstore_append(s, 0, k, 22, v, 10, pos, 3, NULL),
                             KVA_ENONFINITE);
            k[where] = 0;
            if (where < 30) {
                v[where] = bad[i];
                assert_int_equal(kva_kvstore_append(s, 0, k, 22, v, 10, pos, 3, NULL),
                                 KVA_ENONFINITE);
                v[where] = 0;
            }
        }
    assert_int_equal(kva_kvstore_live(s, 0, 0), 0);
    assert_int_equal(bytes_of(s).alloc_bytes, 0);
    k[0] = 65519.0f; /* rounds to the largest f16 */
    k[1] = -65519.0f;
    OK(kva_kvstore_append(s, 0, k, 22, v, 10, pos, 3, NULL));
    kva_kvstore_gather(s, 0, 0, got, NULL);
    assert_true(got[0] == 65504.0f && got[1] == -65504.0f);
    kva_kvstore_free(s);
}

static void f32_stores_take_every_finite_number(void **state)
{
    struct kva_kvstore *s = store_new(1, 1, 2, 1, KVA_F32, 8, KVA_KV_PHYSICAL);
    float k[2] = {3.4028235e38f, -1e-40f}, v[1] = {-3.4028235e38f}, kk[2], vv[1];
    int32_t pos = 4;

    (void)state;
    OK(kva_kvstore_append(s, 0, k, 2, v, 1, &pos, 1, NULL));
    kva_kvstore_gather(s, 0, 0, kk, vv);
    assert_memory_equal(k, kk, sizeof k);
    assert_memory_equal(v, vv, sizeof v);
    k[1] = INFINITY;
    pos = 5;
    assert_int_equal(kva_kvstore_append(s, 0, k, 2, v, 1, &pos, 1, NULL), KVA_ENONFINITE);
    k[1] = NAN;
    assert_int_equal(kva_kvstore_append(s, 0, k, 2, v, 1, &pos, 1, NULL), KVA_ENONFINITE);
    kva_kvstore_free(s);
}

static void bulk_conversion_rounds_like_the_single_one(void **state)
{
    enum { N = 8192 };
    struct kva_kvstore *s = store_new(1, 1, N + 3, 1, KVA_F16, 1, KVA_KV_PHYSICAL);
    float *k = calloc(N + 3, sizeof *k), *got = calloc(N + 3, sizeof *got), v = 0;
    struct kva_rng r = {5};

    (void)state;
    for (int32_t pos = 0; pos < 32; pos++) {
        for (int i = 0; i < N + 3; i++) {
            union {
                uint32_t u;
                float f;
            } x;

            do
                x.u = (uint32_t)kva_rng_next(&r) &
                      (i % 2 ? 0xffffffff : 0xffffe000 | 0x1000);
            while (!(fabsf(x.f) < 65520.0f));
            k[i] = x.f;
        }
        OK(kva_kvstore_append(s, 0, k, N + 3, &v, 1, &pos, 1, NULL));
        kva_kvstore_gather(s, 0, 0, got, NULL);
        for (int i = 0; i < N + 3; i++) {
            float want = kva_f16_to_f32(kva_f32_to_f16(k[i]));

            assert_memory_equal(&got[i], &want, sizeof want);
        }
        OK(kva_kvstore_rewind(s, 0, NULL));
    }
    free(k);
    free(got);
    kva_kvstore_free(s);
}

static void positions_must_ascend_and_lie_behind_what_is_held(void **state)
{
    struct kva_kvstore *s = store_new(1, 1, 1, 1, KVA_F32, 8, KVA_KV_PHYSICAL);
    float x[3] = {1, 2, 3};
    int32_t twice[3] = {5, 6, 6}, negative[3] = {-1, 0, 1}, gaps[3] = {5, 9, 100};

    (void)state;
    assert_int_equal(kva_kvstore_append(s, 0, x, 1, x, 1, twice, 3, NULL), KVA_EINVALID);
    assert_int_equal(kva_kvstore_append(s, 0, x, 1, x, 1, negative, 3, NULL),
                     KVA_EINVALID);
    assert_int_equal(kva_kvstore_append(s, 1, x, 1, x, 1, gaps, 3, NULL), KVA_EINVALID);
    assert_int_equal(kva_kvstore_append(s, 0, x, 1, x, 1, gaps, -1, NULL), KVA_EINVALID);
    OK(kva_kvstore_append(s, 0, x, 1, x, 1, gaps, 0, NULL));
    OK(kva_kvstore_append(s, 0, x, 1, x, 1, gaps, 3, NULL));
    assert_int_equal(kva_kvstore_append(s, 0, x, 1, x, 1, gaps + 2, 1, NULL),
                     KVA_EINVALID);
    RANKS(s, 0, 0, 5, 9, 100);
    kva_kvstore_free(s);
}

/* ---- eviction ---- */

static void stable_compaction_keeps_order_and_frees_pages(void **state)
{
    /* kernels.md 2.7 with its P = 4; one position there is 8 here, so pages count alike
     */
    struct kva_kvstore *s = store_new(1, 2, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL);
    struct kva_keep keep;
    int32_t rank[40];
    int n = 0;
    uint64_t page = bytes_of(s).row_bytes * P;

    (void)state;
    fill(s, 0, 8);
    keep_now(s, LIST(s, 0, 1, 4, 6, 7));
    SLOTS(s, 0, 0, 0, 1, 4, 6, 7);
    SLOTS(s, 0, 1, 0, 1, 4, 6, 7);
    keep_now(s, LIST(s, 0, 1, 2));
    SLOTS(s, 0, 0, 0, 1, 4);
    rows_are_right(s);
    OK(kva_kvstore_rewind(s, 0, NULL));

    fill(s, 0, 64);
    for (int i = 0; i < 64; i++)
        if (i / 8 == 0 || i / 8 == 1 || i / 8 == 4 || i / 8 == 6 || i / 8 == 7)
            rank[n++] = i;
    assert_int_equal(bytes_of(s).alloc_bytes, 2 * 2 * page);
    keep = same_list(s, rank, (size_t)n);
    keep_now(s, keep);
    assert_int_equal(bytes_of(s).alloc_bytes, 2 * 2 * page);
    keep_now(s, first_ranks(s, 24));
    assert_int_equal(bytes_of(s).alloc_bytes, 2 * 1 * page);
    rows_are_right(s);
    kva_kvstore_free(s);
}

static void holes_are_filled_by_the_newest_lowest_hole_first(void **state)
{
    /* kernels.md 2.7 */
    struct kva_kvstore *s = store_new(1, 2, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL);
    struct kva_kv_view view;

    (void)state;
    fill(s, 0, 8);
    replace_now(s, LIST(s, 2, 5));
    SLOTS(s, 0, 0, 0, 1, 7, 3, 4, 6);
    RANKS(s, 0, 0, 0, 1, 3, 4, 6, 7);
    kva_kvstore_view(s, 0, &view);
    assert_int_equal(view.sorted[0], 0);
    rows_are_right(s);
    /* rank 5 is position 7 now, and the newest in the tail is 6 */
    replace_now(s, LIST(s, 5));
    SLOTS(s, 0, 0, 0, 1, 6, 3, 4);
    /* an append is newest again; it fills the hole of position 1 */
    fill(s, 8, 1);
    replace_now(s, LIST(s, 1));
    SLOTS(s, 0, 0, 0, 8, 6, 3, 4);
    rows_are_right(s);
    kva_kvstore_free(s);
}

static void a_victim_at_the_end_only_shortens(void **state)
{
    struct kva_kvstore *s = store_new(1, 1, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL);
    struct kva_kv_view view;

    (void)state;
    fill(s, 0, 8);
    replace_now(s, LIST(s, 6, 7));
    SLOTS(s, 0, 0, 0, 1, 2, 3, 4, 5);
    kva_kvstore_view(s, 0, &view);
    assert_int_equal(view.sorted[0], 1);
    assert_int_equal(bytes_of(s).copied_bytes, 0);
    kva_kvstore_free(s);
}

static void the_table_grows_by_a_page_and_gives_it_back(void **state)
{
    /* kernels.md 2.7: len 32, append 1, victim 7 */
    struct kva_kvstore *s = store_new(1, 1, 4, 4, KVA_F16, 2, KVA_KV_PHYSICAL);
    struct kva_kv_view view;

    (void)state;
    fill(s, 0, 32);
    assert_int_equal(bytes_of(s).alloc_bytes, 32 * 16);
    assert_int_equal(kva_kvstore_pages_for(s, 1), 1);
    fill(s, 32, 1);
    assert_int_equal(bytes_of(s).alloc_bytes, 2 * 32 * 16);
    replace_now(s, LIST(s, 7));
    assert_int_equal(bytes_of(s).alloc_bytes, 32 * 16);
    kva_kvstore_view(s, 0, &view);
    assert_int_equal(view.len[0], 32);
    assert_int_equal(view.pos[view.table[0] * P + 7], 32);
    assert_int_equal(view.table[1], -1);
    rows_are_right(s);
    kva_kvstore_free(s);
}

static void keeping_everything_copies_no_byte(void **state)
{
    struct kva_kvstore *s = store_new(2, 2, 8, 8, KVA_F16, 16, KVA_KV_PHYSICAL), *before;
    struct kva_keep keep;

    (void)state;
    fill(s, 0, 70);
    OK(kva_kvstore_fork(s, NULL, 16, KVA_KV_PHYSICAL, &before, NULL));
    keep = first_ranks(s, 70);
    OK(kva_kvstore_keep(s, &keep, NULL));
    assert_int_equal(bytes_of(s).copied_bytes, 0);
    /* one KV head less: the others are still not copied, nor is what stays in its place
     */
    keep.off[4] -= 3;
    OK(kva_kvstore_keep(s, &keep, NULL));
    assert_int_equal(bytes_of(s).copied_bytes, 0);
    assert_int_equal(kva_kvstore_live(s, 1, 1), 67);
    assert_int_equal(bytes_of(before).copied_bytes, 4 * 70 * 32);
    kva_keep_release(&keep);
    kva_kvstore_free(before);
    kva_kvstore_free(s);
}

static void a_kept_entry_is_copied_at_most_once(void **state)
{
    struct kva_kvstore *s = store_new(1, 1, 8, 8, KVA_F16, 16, KVA_KV_PHYSICAL);

    (void)state;
    fill(s, 0, 100);
    keep_now(s, LIST(s, 0, 1, 50, 51, 99));
    assert_int_equal(bytes_of(s).copied_bytes, 3 * 32);
    kva_kvstore_free(s);
}

static void bad_lists_are_refused_and_change_nothing(void **state)
{
    struct kva_kvstore *s = store_new(1, 2, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL), *copy,
                       *none;
    struct kva_keep keep;
    struct kva_error err = {0};

    (void)state;
    fill(s, 0, 10);
    OK(kva_kvstore_fork(s, NULL, 8, KVA_KV_PHYSICAL, &copy, NULL));
    none = NULL;
    keep = LIST(s, 1, 2, 3);
    keep.off[1] = 0; /* the first KV head would be empty */
    assert_int_equal(kva_kvstore_keep(s, &keep, &err), KVA_EINVALID);
    assert_string_equal(err.text, "layer 0 head 0: nothing would stay");
    assert_int_equal(kva_kvstore_fork(s, &keep, 8, KVA_KV_PHYSICAL, &none, NULL),
                     KVA_EINVALID);
    assert_null(none);
    keep.off[1] = 3;
    keep.rank[1] = 1;
    assert_int_equal(kva_kvstore_keep(s, &keep, NULL), KVA_EINVALID);
    assert_int_equal(kva_kvstore_replace(s, &keep, NULL), KVA_EINVALID);
    keep.rank[1] = 10;
    assert_int_equal(kva_kvstore_keep(s, &keep, NULL), KVA_EINVALID);
    keep.rank[1] = -1;
    assert_int_equal(kva_kvstore_keep(s, &keep, NULL), KVA_EINVALID);
    keep.layers = 2;
    assert_int_equal(kva_kvstore_keep(s, &keep, NULL), KVA_EINVALID);
    kva_keep_release(&keep);
    keep = first_ranks(s, 10); /* all victims */
    assert_int_equal(kva_kvstore_replace(s, &keep, NULL), KVA_EINVALID);
    kva_keep_release(&keep);
    stores_equal(s, copy);
    kva_kvstore_free(copy);
    kva_kvstore_free(s);
}

static void kv_heads_that_hold_nothing_take_empty_lists(void **state)
{
    struct kva_kvstore *s = store_new(2, 1, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL), *copy;
    struct kva_keep keep;

    (void)state;
    OK(try_append(s, 0, 0, 10, NULL));
    keep = LIST(s, 0, 5);
    keep.off[2] = 2;
    OK(kva_kvstore_fork(s, &keep, 8, KVA_KV_PHYSICAL, &copy, NULL));
    keep_now(s, keep);
    RANKS(s, 0, 0, 0, 5);
    assert_int_equal(kva_kvstore_live(s, 1, 0), 0);
    stores_equal(s, copy);
    kva_kvstore_free(copy);
    kva_kvstore_free(s);
}

static void bulk_keep_of_an_unsorted_head_keeps_slot_order(void **state)
{
    struct kva_kvstore *s = store_new(1, 1, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL), *copy;
    struct kva_kv_view view;
    struct kva_keep keep;

    (void)state;
    fill(s, 0, 8);
    replace_now(s, LIST(s, 2, 5)); /* slots 0 1 7 3 4 6 */
    keep = LIST(s, 1, 3, 4, 5);    /* positions 1 4 6 7 */
    OK(kva_kvstore_fork(s, &keep, 8, KVA_KV_PHYSICAL, &copy, NULL));
    keep_now(s, keep);
    SLOTS(s, 0, 0, 1, 7, 4, 6);
    RANKS(s, 0, 0, 1, 4, 6, 7);
    kva_kvstore_view(s, 0, &view);
    assert_int_equal(view.sorted[0], 0);
    stores_equal(s, copy);
    rows_are_right(s);
    OK(kva_kvstore_rewind(s, 7, NULL));
    SLOTS(s, 0, 0, 1, 4, 6);
    OK(kva_kvstore_check(s, NULL));
    assert_int_equal(try_append(s, 0, 6, 1, NULL), KVA_EINVALID);
    fill(s, 7, 2);
    SLOTS(s, 0, 0, 1, 4, 6, 7, 8);
    rows_are_right(s);
    OK(kva_kvstore_rewind(s, 0, NULL));
    kva_kvstore_view(s, 0, &view);
    assert_int_equal(view.sorted[0], 1);
    kva_kvstore_free(copy);
    kva_kvstore_free(s);
}

static void rewind_drops_the_question(void **state)
{
    struct kva_kvstore *s = store_new(2, 2, 4, 4, KVA_F16, 16, KVA_KV_PHYSICAL), *copy;

    (void)state;
    fill(s, 0, 40);
    keep_now(s, LIST(s, 0, 9, 38, 39));
    OK(kva_kvstore_fork(s, NULL, 16, KVA_KV_PHYSICAL, &copy, NULL));
    fill(s, 40, 50);
    OK(kva_kvstore_rewind(s, 40, NULL));
    OK(kva_kvstore_check(s, NULL));
    stores_equal(s, copy);
    fill(s, 40, 50);
    rows_are_right(s);
    kva_kvstore_free(copy);
    kva_kvstore_free(s);
}

static void freed_pages_are_reused_last_in_first_out(void **state)
{
    struct kva_kvstore *s = store_new(1, 2, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL);
    struct kva_kv_view view;
    int32_t a, b;

    (void)state;
    fill(s, 0, 96);
    kva_kvstore_view(s, 0, &view);
    a = view.table[1];
    b = view.table[view.table_cap + 1];
    keep_now(s, first_ranks(s, 32));
    fill(s, 96, 1);
    kva_kvstore_view(s, 0, &view);
    assert_int_equal(view.table[0 + 1], b);
    assert_int_equal(view.table[view.table_cap + 1], b + 1);
    assert_true(a != b);
    OK(kva_kvstore_check(s, NULL));
    kva_kvstore_free(s);
}

static void freed_slots_are_poisoned_where_asked(void **state)
{
    struct kva_kvstore *s = store_new(1, 1, 4, 2, KVA_F32, 8, KVA_KV_PHYSICAL);
    struct kva_kv_view view;
    const uint8_t *page;
    float x;

    (void)state;
#ifndef KVA_POISON
    kva_kvstore_free(s);
    printf("SKIP: built without KVA_POISON\n");
    skip();
#endif
    fill(s, 0, 40);
    kva_kvstore_view(s, 0, &view);
    page = view.base + (size_t)view.table[1] * view.page_bytes;
    memcpy(&x, page + 8 * 16, sizeof x);
    assert_true(isnan(x));
    memcpy(&x, page, sizeof x);
    assert_false(isnan(x));
    keep_now(s, first_ranks(s, 5));
    memcpy(&x, page, sizeof x);
    assert_true(isnan(x));
    page = view.base + (size_t)view.table[0] * view.page_bytes;
    memcpy(&x, page + 32 * 16 + 5 * 8, sizeof x);
    assert_true(isnan(x));
    memcpy(&x, page + 32 * 16 + 4 * 8, sizeof x);
    assert_false(isnan(x));
    kva_kvstore_free(s);
}

/* ---- mask mode ---- */

static void mask_mode_clears_bits_and_frees_nothing(void **state)
{
    struct kva_kvstore *s = store_new(1, 2, 4, 4, KVA_F16, 8, KVA_KV_MASK);
    struct kva_kv_view view;
    struct kva_kv_bytes b;
    uint64_t alloc;

    (void)state;
    fill(s, 0, 40);
    alloc = bytes_of(s).alloc_bytes;
    assert_int_equal(bytes_of(s).meta_bytes, 4 * (32 * 4 + 4) + 2 * 8 * 4 + 2 * 4);
    keep_now(s, LIST(s, 3, 31, 32, 39));
    kva_kvstore_view(s, 0, &view);
    assert_int_equal(view.len[0], 40);
    assert_int_equal(view.live[view.table[0]], 1u << 3 | 1u << 31);
    assert_int_equal(view.live[view.table[1]], 1u << 0 | 1u << 7);
    b = bytes_of(s);
    assert_int_equal(b.alloc_bytes, alloc);
    assert_int_equal(b.entries_kept, 8);
    assert_int_equal(b.entries_masked, 72);
    assert_int_equal(b.live_bytes, 8 * 16);
    assert_int_equal(b.copied_bytes, 0);
    RANKS(s, 0, 1, 3, 31, 32, 39);
    rows_are_right(s);
    fill(s, 40, 2);
    RANKS(s, 0, 1, 3, 31, 32, 39, 40, 41);
    replace_now(s, LIST(s, 1, 4));
    RANKS(s, 0, 1, 3, 32, 39, 41);
    OK(kva_kvstore_rewind(s, 39, NULL));
    OK(kva_kvstore_check(s, NULL));
    RANKS(s, 0, 0, 3, 32);
    assert_int_equal(bytes_of(s).entries_masked, 2 * 37);
    fill(s, 39, 1);
    RANKS(s, 0, 0, 3, 32, 39);
    rows_are_right(s);
    kva_kvstore_free(s);
}

static void a_mask_fork_holds_everything_and_masks_the_unlisted(void **state)
{
    struct kva_kvstore *s = store_new(1, 2, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL), *m,
                       *again, *phys, *back;
    struct kva_keep keep;

    (void)state;
    fill(s, 0, 40);
    keep = LIST(s, 3, 31, 32, 39);
    OK(kva_kvstore_fork(s, &keep, 8, KVA_KV_MASK, &m, NULL));
    OK(kva_kvstore_fork(s, &keep, 8, KVA_KV_PHYSICAL, &phys, NULL));
    assert_int_equal(kva_kvstore_live(s, 0, 0), 40);
    assert_int_equal(bytes_of(m).entries_masked, 72);
    assert_int_equal(bytes_of(m).alloc_bytes, bytes_of(s).alloc_bytes);
    RANKS(m, 0, 0, 3, 31, 32, 39);
    assert_true(kva_kvstore_kept_fnv(m) == kva_kvstore_kept_fnv(phys));
    assert_true(kva_kvstore_kept_fnv(m) != kva_kvstore_kept_fnv(s));
    /* mask -> physical leaves the live ones; mask -> mask all with their bits */
    OK(kva_kvstore_fork(m, NULL, 8, KVA_KV_PHYSICAL, &back, NULL));
    stores_equal(back, phys);
    OK(kva_kvstore_fork(m, NULL, 8, KVA_KV_MASK, &again, NULL));
    stores_equal(again, m);
    kva_keep_release(&keep);
    kva_kvstore_free(back);
    keep = LIST(m, 0, 2);
    OK(kva_kvstore_fork(m, &keep, 8, KVA_KV_PHYSICAL, &back, NULL));
    RANKS(back, 0, 1, 3, 32);
    rows_are_right(back);
    OK(kva_kvstore_check(back, NULL));
    OK(kva_kvstore_check(m, NULL));
    OK(kva_kvstore_check(again, NULL));
    kva_keep_release(&keep);
    kva_kvstore_free(back);
    kva_kvstore_free(again);
    kva_kvstore_free(phys);
    kva_kvstore_free(m);
    kva_kvstore_free(s);
}

static void a_mask_fork_of_an_unsorted_store_reads_the_same(void **state)
{
    struct kva_kvstore *s = store_new(1, 1, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL), *m;
    struct kva_keep keep;

    (void)state;
    fill(s, 0, 8);
    replace_now(s, LIST(s, 2, 5)); /* slots 0 1 7 3 4 6 */
    keep = LIST(s, 0, 2, 5);
    OK(kva_kvstore_fork(s, &keep, 8, KVA_KV_MASK, &m, NULL));
    kva_keep_release(&keep);
    SLOTS(m, 0, 0, 0, 1, 7, 3, 4, 6);
    RANKS(m, 0, 0, 0, 3, 7);
    rows_are_right(m);
    OK(kva_kvstore_check(m, NULL));
    OK(kva_kvstore_rewind(m, 4, NULL));
    SLOTS(m, 0, 0, 0, 1, 3);
    RANKS(m, 0, 0, 0, 3);
    OK(kva_kvstore_check(m, NULL));
    kva_kvstore_free(m);
    kva_kvstore_free(s);
}

/* ---- copies ---- */

static void a_fork_equals_keep_in_place(void **state)
{
    struct kva_rng r = {77};

    (void)state;
    for (int type = 0; type < 2; type++)
        for (int round = 0; round < 20; round++) {
            struct kva_kvstore *s = store_new(2, 3, 6, 10, type ? KVA_F16 : KVA_F32, 100,
                                              KVA_KV_PHYSICAL),
                               *copy;
            struct kva_keep keep;
            size_t n = 0;

            fill(s, 0, 150);
            keep = first_ranks(s, 150);
            for (int c = 0; c < 6; c++) {
                uint64_t odds = 1 + kva_rng_below(&r, 10);

                keep.off[c] = n;
                keep.rank[n++] = 0;
                for (int j = 1; j < 150; j++)
                    if (kva_rng_below(&r, 10) < odds)
                        keep.rank[n++] = j;
            }
            keep.off[6] = n;
            OK(kva_kvstore_fork(s, &keep, 100, KVA_KV_PHYSICAL, &copy, NULL));
            OK(kva_kvstore_check(copy, NULL));
            assert_int_equal(bytes_of(copy).entries_kept, n);
            assert_int_equal(bytes_of(copy).copied_bytes, n * bytes_of(s).row_bytes);
            keep_now(s, keep);
            OK(kva_kvstore_trim(s, NULL));
            stores_equal(s, copy);
            assert_int_equal(bytes_of(s).alloc_bytes, bytes_of(copy).alloc_bytes);
            assert_int_equal(bytes_of(s).meta_bytes, bytes_of(copy).meta_bytes);
            assert_int_equal(bytes_of(copy).peak_bytes,
                             bytes_of(copy).alloc_bytes + bytes_of(copy).meta_bytes);
            rows_are_right(copy);
            kva_kvstore_free(copy);
            kva_kvstore_free(s);
        }
}

static void a_fork_over_its_cap_is_refused(void **state)
{
    struct kva_kvstore *s = store_new(1, 2, 4, 4, KVA_F16, 8, KVA_KV_PHYSICAL),
                       *copy = NULL;
    struct kva_keep keep;

    (void)state;
    fill(s, 0, 40);
    assert_int_equal(kva_kvstore_fork(s, NULL, 3, KVA_KV_PHYSICAL, &copy, NULL),
                     KVA_EBUDGET);
    keep = first_ranks(s, 32);
    assert_int_equal(kva_kvstore_fork(s, &keep, 2, KVA_KV_MASK, &copy, NULL),
                     KVA_EBUDGET);
    assert_null(copy);
    OK(kva_kvstore_fork(s, &keep, 2, KVA_KV_PHYSICAL, &copy, NULL));
    kva_keep_release(&keep);
    kva_kvstore_free(copy);
    kva_kvstore_free(s);
}

static void the_kept_digest_is_over_layer_head_and_positions(void **state)
{
    struct kva_kvstore *s = store_new(1, 2, 1, 1, KVA_F32, 8, KVA_KV_PHYSICAL);
    const uint8_t bytes[] = {0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 6,   0,   0, 0,
                             0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 'a', 'b', 1, 0};
    uint8_t want[32];

    (void)state;
    fill(s, 4, 3);
    keep_now(s, LIST(s, 0, 2));
    memcpy(want, bytes, sizeof want);
    memcpy(want + 28, (const uint8_t[]){6, 0, 0, 0}, 4);
    assert_true(kva_kvstore_kept_fnv(s) == kva_fnv1a64(want, 32));
    kva_kvstore_free(s);
}

/* ---- memory given back ---- */

static size_t resident_bytes(void)
{
    unsigned long total, resident;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &total, &resident), 2);
    fclose(f);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void resident_moved(size_t from, int64_t want)
{
    int64_t moved = (int64_t)resident_bytes() - (int64_t)from;
    int64_t slack = want < 0 ? -want / 50 : want / 50;

    if (slack < 2 << 20)
        slack = 2 << 20;
    if (moved < want - slack || moved > want + slack)
        print_message("resident set moved by %lld, not %lld\n", (long long)moved,
                      (long long)want);
    assert_true(moved >= want - slack && moved <= want + slack);
}

static void trim_gives_memory_back_to_the_system(void **state)
{
    /* 8 KV heads of 4096 entries of 512 bytes: 16 MiB a layer, 8 layers */
    struct kva_kvstore *s = store_new(8, 8, 128, 128, KVA_F16, 64 * 128, KVA_KV_PHYSICAL);
    struct kva_kv_bytes full, b;
    size_t start, high;

    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    kva_kvstore_free(s);
    printf("SKIP: the sanitizer's own memory hides the resident set\n");
    skip();
#endif
    /* the rows this test makes are to leave the process when they are freed */
    assert_int_equal(mallopt(M_MMAP_THRESHOLD, 64 << 10), 1);
    start = resident_bytes();
    for (int32_t at = 0; at < 4096; at += 512)
        fill(s, at, 512);
    full = bytes_of(s);
    assert_int_equal(full.alloc_bytes, 128 << 20);
    assert_int_equal(full.committed_bytes, 128 << 20);
    resident_moved(start, (int64_t)(full.committed_bytes + full.meta_bytes));
    high = resident_bytes();

    keep_now(s, first_ranks(s, 819));
    OK(kva_kvstore_trim(s, NULL));
    OK(kva_kvstore_check(s, NULL));
    b = bytes_of(s);
    assert_int_equal(b.alloc_bytes, 64 * 26 * 32 * 512);
    assert_true(b.committed_bytes >= b.alloc_bytes);
    assert_true(b.committed_bytes < b.alloc_bytes + (2 << 20));
    resident_moved(high, (int64_t)(b.committed_bytes + b.meta_bytes) -
                             (int64_t)(full.committed_bytes + full.meta_bytes));
    resident_moved(start, (int64_t)(b.alloc_bytes + b.meta_bytes));
    rows_are_right(s);
    /* it grows again afterwards */
    fill(s, 4096, 512);
    rows_are_right(s);
    OK(kva_kvstore_check(s, NULL));
    kva_kvstore_free(s);
    resident_moved(start, 0);
}

static void trim_moves_only_the_pages_that_must_move(void **state)
{
    /* pages of 32 KiB, chunks of 2 MiB = 64 pages */
    struct kva_kvstore *s = store_new(1, 4, 256, 256, KVA_F16, 400, KVA_KV_PHYSICAL);
    struct kva_keep keep;
    size_t n = 0;

    (void)state;
    fill(s, 0, 80 * 32); /* 320 pages, five chunks; each KV head a quarter of them */
    assert_int_equal(bytes_of(s).committed_bytes, 5 * 2 << 20);
    keep = first_ranks(s, 80 * 32);
    for (int c = 0; c < 4; c++) {
        keep.off[c] = n;
        for (int32_t j = 0; j < (c == 3 ? 40 * 32 : 32); j++)
            keep.rank[n++] = j;
    }
    keep.off[4] = n;
    keep_now(s, keep);
    assert_int_equal(bytes_of(s).copied_bytes, 0);
    OK(kva_kvstore_trim(s, NULL)); /* 43 pages: one chunk */
    OK(kva_kvstore_check(s, NULL));
    assert_int_equal(bytes_of(s).committed_bytes, 2 << 20);
    assert_int_equal(bytes_of(s).copied_bytes, 42 * 32768); /* all but head 0's */
    rows_are_right(s);
    OK(kva_kvstore_trim(s, NULL));
    assert_int_equal(bytes_of(s).copied_bytes, 42 * 32768);
    kva_kvstore_free(s);
}

static void pages_that_straddle_chunks_survive_trim(void **state)
{
    /* 32 * 39 * 4 = 4,992 bytes: no divisor of a chunk */
    struct kva_kvstore *s = store_new(2, 2, 19, 20, KVA_F32, 3000, KVA_KV_MASK), *p;
    struct kva_keep keep;

    (void)state;
    for (int32_t at = 0; at < 16000; at += 1000)
        fill(s, at, 1000);
    keep = first_ranks(s, 5000);
    OK(kva_kvstore_fork(s, NULL, 3000, KVA_KV_PHYSICAL, &p, NULL));
    keep_now(p, keep);
    OK(kva_kvstore_trim(p, NULL));
    OK(kva_kvstore_check(p, NULL));
    rows_are_right(p);
    assert_true(bytes_of(p).committed_bytes < bytes_of(p).alloc_bytes + (2 << 20));
    OK(kva_kvstore_rewind(s, 6000, NULL));
    OK(kva_kvstore_trim(s, NULL));
    OK(kva_kvstore_check(s, NULL));
    rows_are_right(s);
    kva_kvstore_free(p);
    kva_kvstore_free(s);
}

/* ---- running out of memory ---- */

static void failing_allocations_are_reported_and_leave_the_store(void **state)
{
    struct kva_kvshape shape = {2, 2, 4, 4, KVA_F16};
    struct kva_kvstore *s = NULL, *copy = NULL, *before;
    struct kva_keep keep;
    enum kva_status rc;
    long at;

    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        for (at = 1;; at++) {
            struct kva_error err = {0};

            kva_alloc_fail_at(at);
            rc = kva_kvstore_new(NULL, &shape, 4000, (enum kva_kv_mode)mode, &s, &err);
            if (rc == KVA_OK)
                break;
            assert_int_equal(rc, KVA_ENOMEM);
            assert_int_equal(err.code, KVA_ENOMEM);
            assert_null(s);
        }
        assert_true(at > 4);
        kva_alloc_fail_at(0);
        fill(s, 0, 200);
        OK(kva_kvstore_fork(s, NULL, 4000, (enum kva_kv_mode)mode, &before, NULL));

        kva_alloc_fail_at(1); /* the tables */
        rc = try_append(s, 0, 200, 57, NULL);
        assert_int_equal(rc, KVA_ENOMEM);
        stores_equal(s, before);

        keep = LIST(s, 0, 7, 9, 150);
        for (at = 1;; at++) {
            kva_alloc_fail_at(at);
            rc = kva_kvstore_fork(s, &keep, 4000, (enum kva_kv_mode)mode, &copy, NULL);
            if (rc == KVA_OK)
                break;
            assert_int_equal(rc, KVA_ENOMEM);
            assert_null(copy);
        }
        assert_true(at > 5);
        for (at = 1;; at++) {
            kva_alloc_fail_at(at);
            rc = kva_kvstore_replace(s, &keep, NULL);
            if (rc == KVA_OK)
                break;
            assert_int_equal(rc, KVA_ENOMEM);
            kva_alloc_fail_at(0);
            OK(kva_kvstore_check(s, NULL));
            stores_equal(s, before);
        }
        assert_true(at > 1);
        kva_alloc_fail_at(1);
        assert_int_equal(kva_kvstore_keep(s, &keep, NULL), KVA_ENOMEM);
        kva_alloc_fail_at(1);
        assert_int_equal(kva_kvstore_rewind(s, 3, NULL), KVA_ENOMEM);
        kva_alloc_fail_at(1);
        assert_int_equal(kva_kvstore_check(s, NULL), KVA_ENOMEM);
        kva_alloc_fail_at(0);
        OK(kva_kvstore_check(s, NULL));
        kva_keep_release(&keep);
        kva_kvstore_free(before);
        kva_kvstore_free(copy);
        kva_kvstore_free(s);
        s = copy = NULL;
    }
}

static void a_refused_address_range_is_out_of_memory(void **state)
{
    struct kva_kvshape shape = {32, 8, 128, 128, KVA_F16};
    struct kva_kvstore *s = NULL;
    struct rlimit old, tight;
    enum kva_status rc;

    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    printf("SKIP: the sanitizer needs the address space\n");
    skip();
#endif
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    tight = old;
    tight.rlim_cur = (rlim_t)1 << 30;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    rc =
        kva_kvstore_new(NULL, &shape, 256 * 4096, KVA_KV_PHYSICAL, &s, NULL); /* 16 GiB */
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(rc, KVA_ENOMEM);
    assert_null(s);
}

/* ---- speed, printed only ---- */

static void copying_smollm2_at_4096_takes_milliseconds(void **state)
{
    struct kva_kvstore *s = store_new(30, 3, 64, 64, KVA_F16, 90 * 128, KVA_KV_PHYSICAL),
                       *copy;
    struct kva_keep keep;
    struct kva_rng r = {3};
    uint64_t t0, fork_ns, keep_ns, gather_ns;
    float *rows = malloc(4096 * 64 * sizeof *rows);
    size_t n = 0;

    (void)state;
    for (int32_t at = 0; at < 4096; at += 512)
        fill(s, at, 512);
    keep = first_ranks(s, 4096);
    for (int c = 0; c < 90; c++) {
        keep.off[c] = n;
        keep.rank[n++] = 0;
        for (int32_t j = 1; j < 4096; j++)
            if (kva_rng_below(&r, 5) == 0)
                keep.rank[n++] = j;
    }
    keep.off[90] = n;
    t0 = kva_now_ns();
    OK(kva_kvstore_fork(s, &keep, 90 * 40, KVA_KV_PHYSICAL, &copy, NULL));
    fork_ns = kva_now_ns() - t0;
    t0 = kva_now_ns();
    for (int l = 0; l < 30; l++)
        for (int h = 0; h < 3; h++)
            kva_kvstore_gather(s, l, h, rows, NULL);
    gather_ns = kva_now_ns() - t0;
    t0 = kva_now_ns();
    OK(kva_kvstore_keep(s, &keep, NULL));
    OK(kva_kvstore_trim(s, NULL));
    keep_ns = kva_now_ns() - t0;
    stores_equal(s, copy);
    print_message("fork %.1f ms, keep and trim %.1f ms, gather of all keys %.1f ms\n",
                  (double)fork_ns * 1e-6, (double)keep_ns * 1e-6,
                  (double)gather_ns * 1e-6);
    free(rows);
    kva_keep_release(&keep);
    kva_kvstore_free(copy);
    kva_kvstore_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trim_gives_memory_back_to_the_system),
        cmocka_unit_test(worked_example_of_the_byte_accounting),
        cmocka_unit_test(bytes_of_a_budget_in_pages_of_16_and_32),
        cmocka_unit_test(a_new_store_holds_nothing),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(append_over_the_cap_changes_nothing),
        cmocka_unit_test(values_that_are_not_finite_in_f16_are_refused),
        cmocka_unit_test(f32_stores_take_every_finite_number),
        cmocka_unit_test(bulk_conversion_rounds_like_the_single_one),
        cmocka_unit_test(positions_must_ascend_and_lie_behind_what_is_held),
        cmocka_unit_test(stable_compaction_keeps_order_and_frees_pages),
        cmocka_unit_test(holes_are_filled_by_the_newest_lowest_hole_first),
        cmocka_unit_test(a_victim_at_the_end_only_shortens),
        cmocka_unit_test(the_table_grows_by_a_page_and_gives_it_back),
        cmocka_unit_test(keeping_everything_copies_no_byte),
        cmocka_unit_test(a_kept_entry_is_copied_at_most_once),
        cmocka_unit_test(bad_lists_are_refused_and_change_nothing),
        cmocka_unit_test(kv_heads_that_hold_nothing_take_empty_lists),
        cmocka_unit_test(bulk_keep_of_an_unsorted_head_keeps_slot_order),
        cmocka_unit_test(rewind_drops_the_question),
        cmocka_unit_test(freed_pages_are_reused_last_in_first_out),
        cmocka_unit_test(freed_slots_are_poisoned_where_asked),
        cmocka_unit_test(mask_mode_clears_bits_and_frees_nothing),
        cmocka_unit_test(a_mask_fork_holds_everything_and_masks_the_unlisted),
        cmocka_unit_test(a_mask_fork_of_an_unsorted_store_reads_the_same),
        cmocka_unit_test(a_fork_equals_keep_in_place),
        cmocka_unit_test(a_fork_over_its_cap_is_refused),
        cmocka_unit_test(the_kept_digest_is_over_layer_head_and_positions),
        cmocka_unit_test(trim_moves_only_the_pages_that_must_move),
        cmocka_unit_test(pages_that_straddle_chunks_survive_trim),
        cmocka_unit_test(failing_allocations_are_reported_and_leave_the_store),
        cmocka_unit_test(a_refused_address_range_is_out_of_memory),
        cmocka_unit_test(copying_smollm2_at_4096_takes_milliseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
