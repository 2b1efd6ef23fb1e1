/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_valuediff_dir.c - values of another direction stay; worked example E2. */
#include "tests/methods/methods_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    double mean[64] = {0}, length = 0;

    for (int j = 0; j < c->n * f->dim; j++)
        mean[j % f->dim] += (double)c->v[j];
    for (int x = 0; x < f->dim; x++)
        length += mean[x] * mean[x];
    for (int j = 0; j < c->n; j++) {
        double dot = 0, norm = 0;

        for (int x = 0; x < f->dim; x++) {
            dot += mean[x] * (double)c->v[j * f->dim + x];
            norm += pow((double)c->v[j * f->dim + x], 2);
        }
        s[j] = 1 - dot / sqrt(norm * length);
    }
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("valuediff_dir", "valuediff_dir:recent=7,sinks=2", naive,
                 (struct kva_protect){0, 0}, (struct kva_protect){2, 7});
}

static void angles_of_E2_keep_0_and_1(void **state)
{
    const double want[] = {0.1679, 0.4453, 0.0194, 0.0077};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_scores sc = score_of(&f, "valuediff_dir", ONESHOT);
    struct kva_decision d = select_of(&sc, "valuediff_dir", 2);

    (void)state;
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-4);
    assert_keeps(d, 0, 0, 1);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void a_zero_value_scores_one_and_none_scores_below_zero(void **state)
{
    const float v[] = {0.3f, 0.1f, 0, 0, 0.3f, 0.1f, 0.6f, 0.2f};
    struct fixture f = fixture_of(v, v, 4);
    struct kva_scores sc = score_of(&f, "valuediff_dir", ONESHOT);

    (void)state;
    assert_near(sc.s[1], 1, 0);
    for (int j = 0; j < 4; j++)
        assert_true(sc.s[j] >= 0);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(angles_of_E2_keep_0_and_1),
        cmocka_unit_test(a_zero_value_scores_one_and_none_scores_below_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
