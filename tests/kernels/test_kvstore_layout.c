/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kvstore_layout.c - bytes of published cache layouts, by hand: analysis.md 6.2
 * (example M1), reports.md 5.2 (repeated query heads), unions of positions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/kvstore.h"

#include <stdlib.h>
#include <string.h>

#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s", #expr, err->text);                                        \
    } while (0)
static struct kva_error test_error;

static struct kva_kvstore *filled(const struct kva_kvshape *shape, int n,
                                  enum kva_kv_mode mode)
{
    int width = shape->kv_heads * shape->dim_k;
    float *rows = calloc((size_t)(n * width), sizeof *rows);
    int32_t *pos = calloc((size_t)n, sizeof *pos);
    struct kva_kvstore *s = NULL;

    for (int i = 0; i < n; i++)
        pos[i] = i;
    OK(kva_kvstore_new(NULL, shape, 8192, mode, &s, err));
    for (int l = 0; l < shape->layers; l++)
        OK(kva_kvstore_append(s, l, rows, width, rows, width, pos, n, err));
    free(rows);
    free(pos);
    return s;
}

/* The first b[c] ranks of every KV head. */
static void first(struct kva_keep *keep, const struct kva_kvshape *shape, const int *b)
{
    int heads = shape->layers * shape->kv_heads;
    size_t n = 0;

    *keep = (struct kva_keep){.layers = shape->layers, .kv_heads = shape->kv_heads};
    keep->off = calloc((size_t)heads + 1, sizeof *keep->off);
    keep->rank = calloc(8192, sizeof *keep->rank);
    for (int c = 0; c < heads; c++) {
        for (int r = 0; r < b[c]; r++)
            keep->rank[n++] = r;
        keep->off[c + 1] = n;
    }
}

/* Entry 256 B; kept (40,10),(30,20) of 100: the numbers of the example for entries, and
 * for pages of 32 those that follow: 2+1 and 1+1 pages of 8,192 B. */
static void example_m1(void **state)
{
    const struct kva_kvshape shape = {2, 2, 64, 64, KVA_F16};
    const int b[] = {40, 10, 30, 20};
    struct kva_kvstore *full = filled(&shape, 100, KVA_KV_PHYSICAL), *s = NULL;
    struct kva_kv_layout padded = {true, 1};
    struct kva_keep keep;
    struct kva_kv_bytes x;

    (void)state;
    first(&keep, &shape, b);
    kva_kvstore_bytes(full, &x);
    assert_int_equal(x.row_bytes, 256);
    assert_int_equal(x.live_bytes, 102400);
    OK(kva_kvstore_fork(full, &keep, 8192, KVA_KV_PHYSICAL, &s, err));
    kva_kvstore_bytes(s, &x);
    assert_int_equal(x.live_bytes, 25600); /* nominal, and kept */
    assert_int_equal(x.alloc_bytes, 5 * 8192);
    OK(kva_kvstore_set_layout(s, &padded, err));
    kva_kvstore_bytes(s, &x);
    assert_int_equal(x.live_bytes, 25600);
    assert_int_equal(x.alloc_bytes, 6 * 8192);
    assert_true(x.peak_bytes >= x.alloc_bytes + x.meta_bytes);
    assert_int_equal((40 + 40 + 30 + 30) * 256, 35840); /* pages of one entry */
    kva_kvstore_free(s);
    OK(kva_kvstore_fork(full, &keep, 8192, KVA_KV_MASK, &s, err));
    kva_kvstore_bytes(s, &x);
    assert_int_equal((x.entries_kept + x.entries_masked) * x.row_bytes, 102400);
    assert_int_equal(x.live_bytes, 25600);
    kva_kvstore_free(s);
    kva_kvstore_free(full);
    kva_keep_release(&keep);
}

/* One layer of Llama-3.1-8B at 4,096 tokens: 8 KV heads, 32 query heads, keep 0.25. */
static void repeated_query_heads_hold_what_a_dense_cache_holds(void **state)
{
    const struct kva_kvshape shape = {1, 8, 128, 128, KVA_F16};
    const int b[] = {1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024};
    struct kva_kvstore *s = filled(&shape, 4096, KVA_KV_PHYSICAL);
    struct kva_kv_layout qhead = {false, 4}, none = {false, 0};
    struct kva_keep keep;
    struct kva_kv_bytes dense, x;
    struct kva_error why = {0};

    (void)state;
    kva_kvstore_bytes(s, &dense);
    assert_int_equal(dense.alloc_bytes, 536870912 / 32);
    first(&keep, &shape, b);
    OK(kva_kvstore_keep(s, &keep, err));
    kva_kvstore_bytes(s, &x);
    assert_int_equal(x.alloc_bytes * 4, dense.alloc_bytes);
    OK(kva_kvstore_set_layout(s, &qhead, err));
    kva_kvstore_bytes(s, &x);
    assert_int_equal(x.alloc_bytes, dense.alloc_bytes);
    assert_int_equal(x.live_bytes, dense.live_bytes);
    assert_int_equal(kva_kvstore_set_layout(s, &none, &why), KVA_EINVALID);
    kva_kvstore_free(s);
    kva_keep_release(&keep);
}

static void a_union_keeps_what_any_head_of_the_layer_keeps(void **state)
{
    const struct kva_kvshape shape = {2, 2, 4, 4, KVA_F32};
    struct kva_kvstore *s = filled(&shape, 6, KVA_KV_PHYSICAL);
    /* head 0 of layer 0 has lost position 1 before */
    int32_t before[] = {0, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0,
                        1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5};
    size_t before_off[] = {0, 5, 11, 17, 23};
    const struct kva_keep lost = {2, 2, before, before_off};
    int32_t rank[] = {0, 3, 1, 4, 2, 5};
    size_t off[] = {0, 2, 4, 5, 6};
    /* positions {0, 4} and {1, 4}: 0, 1, 4 where they live; layer 1 is left alone */
    static const int32_t want[] = {0, 3, 0, 1, 4, 2, 5};
    static const size_t want_off[] = {0, 2, 5, 6, 7};
    struct kva_keep keep = {.layers = 2, .kv_heads = 2};

    (void)state;
    OK(kva_kvstore_keep(s, &lost, err));
    keep.rank = malloc(sizeof rank);
    keep.off = malloc(sizeof off);
    memcpy(keep.rank, rank, sizeof rank);
    memcpy(keep.off, off, sizeof off);
    OK(kva_kvstore_unite(s, 0, 1, &keep, err));
    assert_memory_equal(keep.off, want_off, sizeof want_off);
    assert_memory_equal(keep.rank, want, sizeof want);
    OK(kva_kvstore_unite(s, 0, 2, &keep, err)); /* again, and the other layer, too */
    assert_int_equal(keep.off[2], 5);
    assert_int_equal(keep.off[4], 9);
    OK(kva_kvstore_keep(s, &keep, err));
    OK(kva_kvstore_check(s, err));
    kva_keep_release(&keep);
    kva_kvstore_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_m1),
        cmocka_unit_test(repeated_query_heads_hold_what_a_dense_cache_holds),
        cmocka_unit_test(a_union_keeps_what_any_head_of_the_layer_keeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
