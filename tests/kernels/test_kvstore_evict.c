/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kvstore_evict.c - eviction in the KV store: bulk keep, hole filling, lists of
 * ranks, mask mode, copies. */
#include "tests/kernels/kvstore_test.h"

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
            OK(kva_kvstore_gather(s, l, h, rows, NULL, NULL));
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
        cmocka_unit_test(stable_compaction_keeps_order_and_frees_pages),
        cmocka_unit_test(holes_are_filled_by_the_newest_lowest_hole_first),
        cmocka_unit_test(a_victim_at_the_end_only_shortens),
        cmocka_unit_test(the_table_grows_by_a_page_and_gives_it_back),
        cmocka_unit_test(keeping_everything_copies_no_byte),
        cmocka_unit_test(a_kept_entry_is_copied_at_most_once),
        cmocka_unit_test(bad_lists_are_refused_and_change_nothing),
        cmocka_unit_test(kv_heads_that_hold_nothing_take_empty_lists),
        cmocka_unit_test(bulk_keep_of_an_unsorted_head_keeps_slot_order),
        cmocka_unit_test(mask_mode_clears_bits_and_frees_nothing),
        cmocka_unit_test(a_mask_fork_holds_everything_and_masks_the_unlisted),
        cmocka_unit_test(a_mask_fork_of_an_unsorted_store_reads_the_same),
        cmocka_unit_test(a_fork_equals_keep_in_place),
        cmocka_unit_test(a_fork_over_its_cap_is_refused),
        cmocka_unit_test(copying_smollm2_at_4096_takes_milliseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
