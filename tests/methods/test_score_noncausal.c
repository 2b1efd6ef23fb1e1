/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_noncausal.c - sums inside chunks, smoothed over three entries and weighted
 * by the value norm, by hand. How the sums are taken: tests/models/test_collect.c. */
#include "tests/methods/methods_test.h"

static float sums[64];
static struct kva_collect wanted;

static const float *side(void *ctx, const struct kva_collect *want, int layer)
{
    (void)ctx;
    (void)layer;
    wanted = *want;
    return sums;
}

/* Values with the norms 5, 1, 2, 10. */
static const float V[] = {3, 4, 0, 1, 2, 0, 6, 8};

static struct kva_scores scored(const char *text)
{
    struct fixture f = fixture_of(E2_K, V, 4);
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;

    in.side = side;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    fixture_release(&f);
    return sc;
}

static void sums_are_weighted_and_smoothed_over_three_entries(void **state)
{
    const float s[] = {1, 2, 4, .5f};
    const double with[] = {7. / 3, 15. / 3, 15. / 3, 13. / 3},
                 without[] = {1, 7. / 3, 6.5 / 3, 1.5};
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    memcpy(sums, s, sizeof s);
    sc = scored("noncausal");
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], with[j], 1e-6);
    d = select_of(&sc, "noncausal", 1); /* 1 and 2 are equal: the newer stays */
    assert_keeps(d, 0, 2);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    sc = scored("noncausal:vnorm=0");
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], without[j], 1e-6);
    kva_scores_release(&sc);
}

static void the_parameters_say_what_is_summed(void **state)
{
    struct kva_scores sc = scored("noncausal");

    (void)state;
    assert_int_equal(wanted.kind, KVA_COLLECT_CHUNKS);
    assert_int_equal(wanted.chunk, 256);
    assert_int_equal(wanted.start, 0);
    assert_false(wanted.pad);
    kva_scores_release(&sc);
    sc = scored("noncausal:chunk=20,compat=1,sinks=2");
    assert_int_equal(wanted.chunk, 20);
    assert_int_equal(wanted.start, 0); /* protected entries vote */
    assert_true(wanted.pad);
    kva_scores_release(&sc);
}

static void sums_that_are_not_finite_are_counted(void **state)
{
    struct kva_scores sc;

    (void)state;
    memset(sums, 0, sizeof sums);
    sums[0] = NAN;
    sc = scored("noncausal");
    assert_int_equal(sc.nonfinite, 2); /* itself and its neighbour */
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_weighted_and_smoothed_over_three_entries),
        cmocka_unit_test(the_parameters_say_what_is_summed),
        cmocka_unit_test(sums_that_are_not_finite_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
