/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kvstore.c - the physical KV store: bytes, cap, append, pages, rewind, memory given
 * back, out of memory. */
#include "tests/kernels/kvstore_test.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

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
    OK(kva_kvstore_gather(s, 0, 0, got, NULL, NULL));
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
    OK(kva_kvstore_gather(s, 0, 0, kk, vv, NULL));
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
        OK(kva_kvstore_gather(s, 0, 0, got, NULL, NULL));
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

/* ---- pages and rewind ---- */

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

/* ---- the digest of what is kept ---- */

static void the_kept_digest_is_over_layer_head_and_positions(void **state)
{
    struct kva_kvstore *s = store_new(2, 2, 1, 1, KVA_F32, 8, KVA_KV_PHYSICAL);
    const int32_t first = 0x01020304;
    int32_t want[4][4]; /* layer, head, positions: little-endian */

    (void)state;
    fill(s, first, 3);
    keep_now(s, LIST(s, 0, 2));
    for (int c = 0; c < 4; c++)
        memcpy(want[c], (const int32_t[]){c / 2, c % 2, first, first + 2}, 16);
    assert_true(kva_kvstore_kept_fnv(s) == kva_fnv1a64(want, sizeof want));
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
        cmocka_unit_test(rewind_drops_the_question),
        cmocka_unit_test(freed_pages_are_reused_last_in_first_out),
        cmocka_unit_test(freed_slots_are_poisoned_where_asked),
        cmocka_unit_test(the_kept_digest_is_over_layer_head_and_positions),
        cmocka_unit_test(trim_moves_only_the_pages_that_must_move),
        cmocka_unit_test(pages_that_straddle_chunks_survive_trim),
        cmocka_unit_test(failing_allocations_are_reported_and_leave_the_store),
        cmocka_unit_test(a_refused_address_range_is_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
