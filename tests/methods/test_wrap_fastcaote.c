/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_wrap_fastcaote.c - E3 against the plain mean; with equal weights, valuediff. */
#include "tests/methods/caote_test.h"

static void scores_give_the_worked_example(void **state)
{
    static const double fast[] = {1.1180, 0.375, 0.125, 0.2992};
    float s[4];

    (void)state;
    rescore("snapkv+fastcaote", E2_V, H, 4, s);
    for (int j = 0; j < 4; j++)
        assert_near(s[j], fast[j], 1e-4);
    check_order("snapkv+fastcaote", (const int[]){2, 3, 1, 0});
}

static void equal_weights_give_valuediff_over_n_less_one(void **state)
{
    static const double valuediff[] = {1.1180, 1.5, 0.5, 2.6926};
    const float same[] = {0.25f, 0.25f, 0.25f, 0.25f}, none[4] = {0};
    float s[4], z[4];

    (void)state;
    rescore("snapkv+fastcaote", E2_V, same, 4, s);
    for (int j = 0; j < 4; j++)
        assert_near(s[j], valuediff[j] / 3, 1e-4);
    rescore("snapkv+fastcaote", E2_V, none, 4, z); /* no weight at all: all the same */
    for (int j = 0; j < 4; j++)
        assert_near(z[j], s[j], 1e-6);
    rescore("snapkv+caote", E2_V, none, 4, z); /* the mean is the output then */
    for (int j = 0; j < 4; j++)
        assert_near(z[j], s[j], 1e-6);
}

static void an_entry_with_all_the_weight_stays(void **state)
{
    (void)state;
    check_ends("snapkv+fastcaote");
}

static void what_has_no_meaning_is_refused(void **state)
{
    (void)state;
    refused("knorm+fastcaote", "negative ones cannot");
    refused("snapkv+fastcaote+global", "no common unit");
    parse("valuediff+fastcaote", ONESHOT);
}

static void counts_are_exact_whatever_the_scores(void **state)
{
    (void)state;
    check_counts("snapkv+fastcaote", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_give_the_worked_example),
        cmocka_unit_test(equal_weights_give_valuediff_over_n_less_one),
        cmocka_unit_test(an_entry_with_all_the_weight_stays),
        cmocka_unit_test(what_has_no_meaning_is_refused),
        cmocka_unit_test(counts_are_exact_whatever_the_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
