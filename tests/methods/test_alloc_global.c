/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_global.c - all KV heads of the model compete for one total. */
#include "tests/methods/methods_test.h"

static void the_best_of_the_model_survive(void **state)
{
    const float s[] = {.9f, .8f, .7f, .6f, .1f, .2f, .3f, .4f, .5f, .55f, .05f, .06f};
    struct kva_scores sc = scores_of(3, 1, 4, s);
    struct kva_decision d = select_of(&sc, "snapkv+global", 6);

    (void)state;
    assert_keeps(d, 0, 0, 1, 2, 3);
    assert_keeps(d, 1, 3); /* its floor */
    assert_keeps(d, 2, 1);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+global:floor=2", 7);
    assert_keeps(d, 0, 0, 1, 2);
    assert_keeps(d, 1, 2, 3);
    assert_keeps(d, 2, 0, 1);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void protected_entries_count_inside_floor_and_total(void **state)
{
    const float s[] = {.9f, .8f, .7f, .6f, .1f, .2f, .3f, .4f};
    struct kva_scores sc = scores_of(2, 1, 4, s);
    struct kva_decision d;

    (void)state;
    sc.protect.sinks = 1;
    d = select_of(&sc, "snapkv+global", 4);
    assert_keeps(d, 0, 0, 1, 2);
    assert_keeps(d, 1, 0);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+global:floor=2", 4);
    assert_keeps(d, 0, 0, 1);
    assert_keeps(d, 1, 0, 3);
    kva_decision_release(&d);
    /* floors above the total: the uniform shares */
    d = select_of(&sc, "snapkv+global:floor=4", 5);
    assert_keeps(d, 0, 0, 1, 2);
    assert_keeps(d, 1, 0, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void equal_scores_go_to_the_newest_then_to_the_lower_layer(void **state)
{
    const float s[] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct kva_scores sc = scores_of(2, 2, 2, s);
    struct kva_decision d = select_of(&sc, "snapkv+global", 5);

    (void)state;
    assert_keeps(d, 0, 0, 1);
    assert_keeps(d, 1, 1);
    assert_keeps(d, 2, 1);
    assert_keeps(d, 3, 1);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void the_kept_set_is_the_top_of_one_sort(void **state)
{
    struct fixture f = fixture_new(2, 3, 2, 8, 100, 8, true, 17);
    struct kva_scores sc = score_of(&f, "random", BLOCK128);
    size_t n = sc.off[6];
    struct ranked *all = kva_calloc(n, sizeof *all);

    (void)state;
    for (int c = 0; c < 6; c++) {
        for (size_t j = sc.off[c]; j < sc.off[c + 1]; j++)
            all[j] = (struct ranked){
                .score = (double)sc.s[j], .pos = sc.pos[j], .head = c, .rank = (int)j};
    }
    qsort(all, n, sizeof *all, ranked_cmp);
    for (int tenth = 1; tenth <= 9; tenth++) {
        size_t total = n * (size_t)tenth / 10, hits = 0;
        struct kva_decision d = select_of(&sc, "random+global", total);

        for (int c = 0; c < 6; c++) {
            for (size_t j = d.keep.off[c]; j < d.keep.off[c + 1]; j++) {
                int at = (int)sc.off[c] + d.keep.rank[j];

                for (size_t i = 0; i < total; i++)
                    hits += all[i].rank == at;
            }
        }
        assert_int_equal(hits, total);
        kva_decision_release(&d);
    }
    free(all);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_the_model_survive),
        cmocka_unit_test(protected_entries_count_inside_floor_and_total),
        cmocka_unit_test(equal_scores_go_to_the_newest_then_to_the_lower_layer),
        cmocka_unit_test(the_kept_set_is_the_top_of_one_sort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
