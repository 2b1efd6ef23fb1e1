/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_valuediff.c - values away from the mean of the cache stay; worked example
 * E2. */
#include "tests/methods/methods_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    double mean[64] = {0};

    for (int j = 0; j < c->n * f->dim; j++)
        mean[j % f->dim] += (double)c->v[j] / c->n;
    for (int j = 0; j < c->n; j++) {
        double sum = 0;

        for (int x = 0; x < f->dim; x++)
            sum += pow((double)c->v[j * f->dim + x] - mean[x], 2);
        s[j] = sqrt(sum);
    }
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("valuediff", "valuediff:recent=7,sinks=2", naive,
                 (struct kva_protect){0, 0}, (struct kva_protect){2, 7});
}

/* Proposition 3.1: squared change of a uniform average when j is dropped, (s / (n -
 * 1))^2. */
static void distances_of_E2_keep_1_and_3(void **state)
{
    const double want[] = {1.1180, 1.5, 0.5, 2.6926};
    const double change[] = {0.1389, 0.25, 0.0278, 0.8056};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_scores sc = score_of(&f, "valuediff", ONESHOT);
    struct kva_decision d = select_of(&sc, "valuediff", 2);

    (void)state;
    for (int j = 0; j < 4; j++) {
        assert_near(sc.s[j], want[j], 1e-4);
        assert_near((double)sc.s[j] * (double)sc.s[j] / 9, change[j], 1e-4);
    }
    assert_keeps(d, 0, 1, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

/* The order of E2 is that of one set of scores; the cache mean moves when entries go, so
 * scoring anew may differ from it. */
static void entries_of_E2_go_in_the_order_2_0_1_3(void **state)
{
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_scores sc = score_of(&f, "valuediff", ONESHOT);
    struct kva_decision d = select_of(&sc, "valuediff", 3);

    (void)state;
    assert_keeps(d, 0, 0, 1, 3);
    kva_decision_release(&d);
    d = select_of(&sc, "valuediff", 1);
    assert_keeps(d, 0, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

/* style.md 6: v = (0,0) (3,0) (0,4) (1,0), mean (1,1). */
static void four_values_around_one_one_keep_1_and_2(void **state)
{
    const float v[] = {0, 0, 3, 0, 0, 4, 1, 0};
    const double want[] = {1.41421, 2.23607, 3.16228, 1};
    struct fixture f = fixture_of(v, v, 4);
    struct kva_scores sc = score_of(&f, "valuediff", ONESHOT);
    struct kva_decision d = select_of(&sc, "valuediff", 2);

    (void)state;
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-5);
    assert_keeps(d, 0, 1, 2);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void the_mean_moves_with_each_eviction(void **state)
{
    const float v[] = {0, 0, 1, 0, 2, 0, 10, 0};
    struct fixture f = fixture_of(v, v, 4);
    int order[4];

    (void)state;
    /* mean 3.25: 2 goes; mean 11/3: 1 goes (2.67 against 3.67); mean 5, a tie: the older
     * goes */
    evict_order(&f, "valuediff", order);
    assert_int_equal(order[0], 2);
    assert_int_equal(order[1], 1);
    assert_int_equal(order[2], 0);
    assert_int_equal(order[3], 3);
    fixture_release(&f);
}

static void equal_values_keep_the_newest(void **state)
{
    const float v[] = {1, 2, 1, 2, 1, 2, 1, 2};
    struct fixture f = fixture_of(v, v, 4);
    struct kva_scores sc = score_of(&f, "valuediff", ONESHOT);
    struct kva_decision d = select_of(&sc, "valuediff", 2);

    (void)state;
    assert_keeps(d, 0, 2, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(distances_of_E2_keep_1_and_3),
        cmocka_unit_test(entries_of_E2_go_in_the_order_2_0_1_3),
        cmocka_unit_test(four_values_around_one_one_keep_1_and_2),
        cmocka_unit_test(the_mean_moves_with_each_eviction),
        cmocka_unit_test(equal_values_keep_the_newest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
