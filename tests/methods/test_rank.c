/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_rank.c - rank keys and exact cuts. */
#include "tests/methods/methods_test.h"

#include "methods/rank.h"

static void keys_order_like_scores_then_positions(void **state)
{
    const float up[] = {-INFINITY, -3e38f, -1, -1e-44f, 0, 1e-44f, 1, 3e38f};

    (void)state;
    for (int i = 1; i < 8; i++)
        assert_true(kva_rank_key(up[i], 0) > kva_rank_key(up[i - 1], INT32_MAX));
    assert_true(kva_rank_key(-0.0f, 7) == kva_rank_key(0.0f, 7));
    assert_true(kva_rank_key(1, 8) > kva_rank_key(1, 7));
}

static int descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x > y ? -1 : x < y;
}

static void cuts_agree_with_a_sort(void **state)
{
    struct kva_rng r = {3};

    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + kva_rng_below(&r, 80), m = 1 + kva_rng_below(&r, n), above = 0,
               equal = 0;
        uint64_t sorted[80], keys[80];
        struct kva_cut cut;
        /* few distinct values, spread over high or low digits */
        uint64_t range = kva_rng_below(&r, 2) ? 5 : UINT64_MAX;
        int shift = (int)kva_rng_below(&r, 60);

        for (size_t i = 0; i < n; i++)
            keys[i] = sorted[i] = kva_rng_below(&r, range) << shift;
        qsort(sorted, n, sizeof *sorted, descending);
        cut = kva_rank_cut(keys, n, m);
        assert_true(cut.key == sorted[m - 1]);
        for (size_t i = 0; i < n; i++) {
            above += sorted[i] > cut.key;
            equal += sorted[i] == cut.key;
        }
        assert_int_equal(above + cut.equal, m);
        assert_true(cut.equal <= equal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_order_like_scores_then_positions),
        cmocka_unit_test(cuts_agree_with_a_sort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
