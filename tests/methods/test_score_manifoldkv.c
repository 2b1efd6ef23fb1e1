/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_manifoldkv.c - keys far from their centre stay; worked example E2. */
#include "tests/methods/methods_test.h"

static int width; /* entries that share a centre */

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    for (int from = 0; from < c->n; from += width) {
        int to = from + width < c->n ? from + width : c->n;
        double mean[64] = {0};

        for (int j = from * f->dim; j < to * f->dim; j++)
            mean[j % f->dim] += (double)c->k[j] / (to - from);
        for (int j = from; j < to; j++) {
            double sum = 0;

            for (int x = 0; x < f->dim; x++)
                sum += pow((double)c->k[j * f->dim + x] - mean[x], 2);
            s[j] = sqrt(sum);
        }
    }
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    width = 1000;
    check_scorer("manifoldkv", "manifoldkv:recent=7,sinks=2", naive,
                 (struct kva_protect){0, 0}, (struct kva_protect){2, 7});
}

static void windows_have_centres_of_their_own(void **state)
{
    (void)state;
    width = 40;
    check_scorer("manifoldkv:centroid_window=40", "manifoldkv:centroid_window=40", naive,
                 (struct kva_protect){0, 0}, (struct kva_protect){0, 0});
}

static void a_window_that_holds_everything_changes_nothing(void **state)
{
    struct fixture f = fixture_new(2, 2, 1, 8, 60, 1, true, 3);
    struct kva_scores a = score_of(&f, "manifoldkv", ONESHOT);
    struct kva_scores b = score_of(&f, "manifoldkv:centroid_window=60", ONESHOT);

    (void)state;
    assert_memory_equal(a.s, b.s, a.off[4] * sizeof *a.s);
    kva_scores_release(&a);
    kva_scores_release(&b);
    fixture_release(&f);
}

static void distances_of_E2_keep_1_and_3(void **state)
{
    const double want[] = {1.8028, 2.0616, 1.1180, 2.5};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_scores sc = score_of(&f, "manifoldkv", ONESHOT);
    struct kva_decision d = select_of(&sc, "manifoldkv", 2);

    (void)state;
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-4);
    assert_keeps(d, 0, 1, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(windows_have_centres_of_their_own),
        cmocka_unit_test(a_window_that_holds_everything_changes_nothing),
        cmocka_unit_test(distances_of_E2_keep_1_and_3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
