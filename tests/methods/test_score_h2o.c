/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_h2o.c - worked example E18, and budgets that are half recent. */
#include "tests/methods/columns_test.h"

/* E18: N = 2, B = 2; block 1 rows (1), (.6, .4), block 2 rows (.5, .2, .3),
 * (.2, .1, .3, .4) */
static const float E18[] = {2.3f, 0.7f, 0.6f, 0.4f};

static void recent_half_of_E18_is_protected(void **state)
{
    struct columns c = {.sum = E18};
    struct kva_scores sc = columns_scores("h2o", BLOCK128, 1, 1, 4, 4, &c);
    struct kva_decision d = select_of(&sc, "h2o", 2);

    (void)state;
    assert_int_equal(c.want.kind, KVA_COLLECT_COLUMNS);
    assert_false(c.want.restart);
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], E18[j], 1e-7);
    assert_keeps(d, 0, 0, 3);
    assert_int_equal(d.protect.recent, 1);
    assert_false(d.protect_overflow);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void without_recency_E18_keeps_the_oldest(void **state)
{
    struct columns c = {.sum = E18};
    struct kva_scores sc = columns_scores("h2o:recent_share=0", BLOCK128, 1, 1, 4, 4, &c);
    struct kva_decision d = select_of(&sc, "h2o:recent_share=0", 2);

    (void)state;
    assert_keeps(d, 0, 0, 1);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void viewers_make_it_observed(void **state)
{
    const float want[] = {0.575f, 0.2333333f, 0.3f, 0.4f};
    struct columns c = {.sum = E18};
    struct kva_scores sc =
        columns_scores("h2o:recent_share=0,viewers=1", BLOCK128, 1, 1, 4, 4, &c);

    (void)state;
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-6);
    kva_scores_release(&sc);
}

/* One scoring serves every budget: the protected half follows it, head by head. */
static void the_recent_half_follows_the_budget(void **state)
{
    float sum[2 * 20];
    struct columns c = {.sum = sum};
    struct kva_scores sc;

    (void)state;
    for (int j = 0; j < 40; j++)
        sum[j] = (float)(20 - j % 20);
    sc = columns_scores("h2o", ONESHOT, 2, 2, 20, 20, &c);
    for (int total = 2; total < 40; total++) {
        struct kva_decision d = select_of(&sc, "h2o", (uint64_t)total);

        for (int h = 0; h < 2; h++) {
            int b = total / 2 + (h == 0 && total % 2);
            const int32_t *rank = d.keep.rank + d.keep.off[h];

            assert_int_equal(d.keep.off[h + 1] - d.keep.off[h], b);
            for (int j = 0; j < b; j++)
                assert_int_equal(rank[j], j < b - b / 2 ? j : 20 - b + j);
        }
        assert_false(d.protect_overflow);
        kva_decision_release(&d);
    }
    kva_scores_release(&sc);
}

static void more_recent_entries_may_be_asked_for_in_numbers(void **state)
{
    const float sum[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    struct columns c = {.sum = sum};
    struct kva_scores sc = columns_scores("h2o:recent=3", ONESHOT, 1, 1, 10, 10, &c);
    struct kva_decision d = select_of(&sc, "h2o:recent=3", 4);

    (void)state;
    assert_keeps(d, 0, 0, 7, 8, 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* Under an allocator the nominal share counts: no head falls below its recent half. */
static void adakv_leaves_every_head_its_recent_half(void **state)
{
    float sum[2 * 20];
    struct columns c = {.sum = sum};
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    for (int j = 0; j < 40; j++)
        sum[j] = j < 20 ? (float)(100 - j) : 1e-3f;
    sc = columns_scores("h2o", ONESHOT, 2, 2, 20, 20, &c);
    d = select_of(&sc, "h2o+adakv:alpha=0", 20);
    assert_int_equal(d.keep.off[1], 15);
    assert_keeps(d, 1, 15, 16, 17, 18, 19);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void equal_sums_keep_the_newest_and_a_nan_goes(void **state)
{
    const float sum[] = {1, 1, NAN, 1, -0.0f, 1};
    struct columns c = {.sum = sum};
    struct kva_scores sc = columns_scores("h2o:recent_share=0", ONESHOT, 1, 1, 6, 6, &c);
    struct kva_decision d = select_of(&sc, "h2o:recent_share=0", 2),
                        e = select_of(&sc, "h2o:recent_share=0", 5);

    (void)state;
    assert_int_equal(sc.nonfinite, 1);
    assert_keeps(d, 0, 3, 5);
    assert_keeps(e, 0, 0, 1, 3, 4, 5);
    kva_decision_release(&d);
    kva_decision_release(&e);
    kva_scores_release(&sc);
}

static void a_single_entry_stays(void **state)
{
    const float sum[] = {1};
    struct columns c = {.sum = sum};
    struct kva_scores sc = columns_scores("h2o", ONESHOT, 1, 1, 1, 1, &c);
    struct kva_decision d = select_of(&sc, "h2o", 1);

    (void)state;
    assert_true(d.nothing_to_do);
    assert_keeps(d, 0, 0);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recent_half_of_E18_is_protected),
        cmocka_unit_test(without_recency_E18_keeps_the_oldest),
        cmocka_unit_test(viewers_make_it_observed),
        cmocka_unit_test(the_recent_half_follows_the_budget),
        cmocka_unit_test(more_recent_entries_may_be_asked_for_in_numbers),
        cmocka_unit_test(adakv_leaves_every_head_its_recent_half),
        cmocka_unit_test(equal_sums_keep_the_newest_and_a_nan_goes),
        cmocka_unit_test(a_single_entry_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
