/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_simlayerkv.c - lazy layers keep the first and the newest entries. */
#include "tests/methods/alloc_test.h"

static void the_least_lazy_layers_keep_everything(void **state)
{
    const double lazy[] = {0.9, 0.2, 0.5};
    struct kva_scores sc = flat_scores(3, 2, 100);
    struct kva_decision d;

    (void)state;
    sc.protect.sinks = 4;
    /* 14 each, and what is above goes to layer 1, then to layer 2 */
    d = divide(&sc, "streaming+simlayerkv:recent=10", NULL, lazy, 6 * 14);
    assert_budgets(d, 14, 14, 14, 14, 14, 14);
    kva_decision_release(&d);
    d = divide(&sc, "streaming+simlayerkv:recent=10", NULL, lazy, 6 * 14 + 171);
    assert_budgets(d, 14, 14, 100, 99, 14, 14);
    kva_decision_release(&d);
    d = divide(&sc, "streaming+simlayerkv:recent=10", NULL, lazy, 6 * 14 + 172 + 21);
    assert_budgets(d, 14, 14, 100, 100, 25, 24);
    assert_false(d.fallback);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* kvpress keeps 1024 - n_last recent entries; here it is what is asked for. */
static void a_lazy_layer_keeps_exactly_first_and_recent(void **state)
{
    const double lazy[] = {0.9, 0.2};
    float s[2 * 60];
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    for (int j = 0; j < 120; j++)
        s[j] = (float)(j % 60);
    sc = scores_of(2, 1, 60, s);
    sc.protect.sinks = 4;
    d = divide(&sc, "streaming+simlayerkv:recent=3", NULL, lazy, 67);
    assert_budgets(d, 7, 60);
    assert_keeps(d, 0, 0, 1, 2, 3, 57, 58, 59);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void less_than_first_and_recent_is_shared_equally(void **state)
{
    const double lazy[] = {0.9, 0.2};
    struct kva_scores sc = flat_scores(2, 1, 60);
    struct kva_decision d;

    (void)state;
    sc.protect.sinks = 4;
    d = divide(&sc, "streaming+simlayerkv", NULL, lazy, 41);
    assert_budgets(d, 21, 20);
    assert_true(d.fallback);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* Laziness of a layer over again from its rows. */
static void laziness_is_the_last_querys_attention_on_both_ends(void **state)
{
    struct fixture f = fixture_new(2, 2, 3, 16, 80, 10, false, 31);
    struct kva_method m = parse("streaming+simlayerkv:first=3,recent=20", ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;
    struct kva_arena arena;
    double *stat, row[80];

    (void)state;
    kva_arena_init(&arena);
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_ok(kva_method_observe(&m, &in, &sc, &arena, &stat, &test_error));
    for (int l = 0; l < 2; l++) {
        double want = 0;

        for (int a = 0; a < 6; a++) {
            struct cell c = cell_read(&f, l, a / 3);

            naive_row(&f, &c, 9, a, row);
            for (int j = 0; j < 80; j++)
                want += j < 3 || j >= 60 ? row[j] / 6 : 0;
            cell_release(&c);
        }
        assert_near(stat[l], want, 1e-5);
    }
    kva_scores_release(&sc);
    kva_arena_release(&arena);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_lazy_layers_keep_everything),
        cmocka_unit_test(a_lazy_layer_keeps_exactly_first_and_recent),
        cmocka_unit_test(less_than_first_and_recent_is_shared_equally),
        cmocka_unit_test(laziness_is_the_last_querys_attention_on_both_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
