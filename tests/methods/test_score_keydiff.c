/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_keydiff.c - keys away from the mean direction stay; worked example E2. */
#include "tests/methods/methods_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    double anchor[64] = {0}, length = 0;

    for (int j = 0; j < c->n; j++) {
        double norm = 0;

        for (int x = 0; x < f->dim; x++)
            norm += pow((double)c->k[j * f->dim + x], 2);
        s[j] = sqrt(norm);
        for (int x = 0; x < f->dim; x++)
            anchor[x] += (double)c->k[j * f->dim + x] / s[j] / c->n;
    }
    for (int x = 0; x < f->dim; x++)
        length += anchor[x] * anchor[x];
    for (int j = 0; j < c->n; j++) {
        double dot = 0;

        for (int x = 0; x < f->dim; x++)
            dot += anchor[x] * (double)c->k[j * f->dim + x];
        s[j] = -dot / s[j] / sqrt(length);
    }
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("keydiff", "keydiff:recent=7,sinks=2", naive, (struct kva_protect){0, 0},
                 (struct kva_protect){2, 7});
}

static void cosines_of_E2_evict_2_then_3(void **state)
{
    const double want[] = {-0.7358, -0.6771, -0.9991, -0.9950};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_scores sc = score_of(&f, "keydiff", ONESHOT);
    struct kva_decision d = select_of(&sc, "keydiff", 3);

    (void)state;
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-4);
    assert_keeps(d, 0, 0, 1, 3);
    kva_decision_release(&d);
    d = select_of(&sc, "keydiff", 2);
    assert_keeps(d, 0, 0, 1);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void a_zero_key_has_cosine_zero(void **state)
{
    const float k[] = {1, 0, 0, 0, 2, 1};
    struct fixture f = fixture_of(k, k, 3);
    struct kva_scores sc = score_of(&f, "keydiff", ONESHOT);

    (void)state;
    assert_int_equal(sc.nonfinite, 0);
    assert_near(sc.s[1], 0, 0);
    assert_true(sc.s[0] < 0 && sc.s[2] < 0);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(cosines_of_E2_evict_2_then_3),
        cmocka_unit_test(a_zero_key_has_cosine_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
