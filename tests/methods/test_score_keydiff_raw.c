/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_keydiff_raw.c - the anchor of keys as they are; worked example E2. */
#include "tests/methods/methods_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    double anchor[64] = {0}, length = 0;

    for (int j = 0; j < c->n * f->dim; j++)
        anchor[j % f->dim] += (double)c->k[j];
    for (int x = 0; x < f->dim; x++)
        length += anchor[x] * anchor[x];
    for (int j = 0; j < c->n; j++) {
        double dot = 0, norm = 0;

        for (int x = 0; x < f->dim; x++) {
            dot += anchor[x] * (double)c->k[j * f->dim + x];
            norm += pow((double)c->k[j * f->dim + x], 2);
        }
        s[j] = -dot / sqrt(norm * length);
    }
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("keydiff_raw", "keydiff_raw:recent=7,sinks=2", naive,
                 (struct kva_protect){0, 0}, (struct kva_protect){2, 7});
}

/* keydiff evicts 2 then 3 */
static void cosines_of_E2_evict_3_then_2(void **state)
{
    const double want[] = {-0.8, -0.6, -0.9899, -1.0};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_scores sc = score_of(&f, "keydiff_raw", ONESHOT);
    struct kva_decision d = select_of(&sc, "keydiff_raw", 3);

    (void)state;
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-4);
    assert_keeps(d, 0, 0, 1, 2);
    kva_decision_release(&d);
    d = select_of(&sc, "keydiff_raw", 2);
    assert_keeps(d, 0, 0, 1);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(cosines_of_E2_evict_3_then_2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
