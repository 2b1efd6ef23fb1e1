/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_valuediff_norm.c - long values stay; worked example E2. */
#include "tests/methods/methods_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    for (int j = 0; j < c->n; j++) {
        double sum = 0;

        for (int x = 0; x < f->dim; x++)
            sum += pow((double)c->v[j * f->dim + x], 2);
        s[j] = sqrt(sum);
    }
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("valuediff_norm", "valuediff_norm:recent=7,sinks=2", naive,
                 (struct kva_protect){0, 0}, (struct kva_protect){2, 7});
}

static void lengths_of_E2_keep_2_and_3(void **state)
{
    const double want[] = {1, 1, 1.4142, 4.4721};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_scores sc = score_of(&f, "valuediff_norm", ONESHOT);
    struct kva_decision d = select_of(&sc, "valuediff_norm", 2);

    (void)state;
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-4);
    assert_keeps(d, 0, 2, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(lengths_of_E2_keep_2_and_3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
