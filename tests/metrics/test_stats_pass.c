/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_stats_pass.c - avg@k, unbiased pass@k and maj@k: the worked example of
 * tasks-longbench-math.md B.3 and their edges. */
#include "tests/metrics/stats_fixture.h"

static void the_worked_example_is_reproduced(void **state)
{
    static const int correct[] = {3, 0}, samples[] = {4, 4};

    (void)state;
    NEAR(kva_stat_avg_at(correct, samples, 2), 0.375, 0);
    NEAR(kva_stat_pass_at(correct, samples, 2, 2), 0.5, 1e-15);
    NEAR(kva_stat_pass_at(correct, samples, 2, 1), 0.375, 1e-15);
}

/* C(n, k) as a double, for small n. */
static double choose(int n, int k)
{
    double r = 1;

    for (int i = 1; i <= k; i++)
        r = r * (n - k + i) / i;
    return k > n ? 0 : r;
}

static void pass_at_is_the_share_of_draws_with_a_right_one(void **state)
{
    (void)state;
    for (int n = 1; n <= 20; n++)
        for (int c = 0; c <= n; c++)
            for (int j = 1; j <= n; j++)
                NEAR(kva_stat_pass_at(&c, &n, 1, j), 1 - choose(n - c, j) / choose(n, j),
                     1e-12);
}

static void pass_at_one_is_avg(void **state)
{
    static const int correct[] = {3, 0, 64, 17}, samples[] = {4, 7, 64, 1000};

    (void)state;
    NEAR(kva_stat_pass_at(correct, samples, 4, 1), kva_stat_avg_at(correct, samples, 4),
         1e-15);
}

static void large_counts_do_not_overflow(void **state)
{
    static const int correct = 100, samples = 100000;

    (void)state;
    NEAR(kva_stat_pass_at(&correct, &samples, 1, 50000), 1, 1e-12);
    /* 1 - (1 - c/n)^j for j much smaller than n */
    NEAR(kva_stat_pass_at(&correct, &samples, 1, 10), 1 - pow(1 - 0.001, 10), 1e-6);
}

static void what_is_not_defined_is_nan(void **state)
{
    static const int two = 2, one = 1, zero = 0, minus = -1;

    (void)state;
    assert_true(isnan(kva_stat_avg_at(NULL, NULL, 0)));
    assert_true(isnan(kva_stat_avg_at(&zero, &zero, 1)));
    assert_true(isnan(kva_stat_avg_at(&two, &one, 1)));
    assert_true(isnan(kva_stat_avg_at(&minus, &one, 1)));
    assert_true(isnan(kva_stat_pass_at(NULL, NULL, 0, 1)));
    assert_true(isnan(kva_stat_pass_at(&one, &one, 1, 2)));
    assert_true(isnan(kva_stat_pass_at(&one, &one, 1, 0)));
    assert_true(isnan(kva_stat_pass_at(&two, &one, 1, 1)));
}

static void elects(const char *const *output, int k, int winner, int votes)
{
    size_t n[16];
    int w, v;

    for (int i = 0; i < k; i++)
        n[i] = strlen(output[i]);
    assert_int_equal(kva_stat_majority(output, n, k, &w, &v, NULL), KVA_OK);
    assert_int_equal(w, winner);
    assert_int_equal(v, votes);
}

static void the_most_frequent_class_wins(void **state)
{
    static const char *const output[] = {"\\boxed{3}",   "\\boxed{\\frac12}",
                                         "\\boxed{0.5}", "no idea",
                                         "\\boxed{1/2}", "the answer is 3"};

    (void)state;
    elects(output, 6, 1, 3);
}

static void extracted_answers_vote_as_outputs_do(void **state)
{
    static const char *const answer[] = {"3", "\\frac12", "0.5", NULL, "1/2", "3"};
    int w, v;

    (void)state;
    assert_int_equal(kva_stat_vote(answer, 6, &w, &v, NULL), KVA_OK);
    assert_int_equal(w, 1);
    assert_int_equal(v, 3);
    assert_int_equal(kva_stat_vote(answer + 3, 1, &w, &v, NULL), KVA_OK);
    assert_int_equal(w, -1);
    assert_int_equal(v, 0);
}

static void ties_go_to_the_class_that_appears_first(void **state)
{
    static const char *const output[] = {"\\boxed{2}", "\\boxed{7}", "\\boxed{7.0}",
                                         "\\boxed{2}"};

    (void)state;
    elects(output, 4, 0, 2);
    elects(output + 1, 3, 0, 2);
    elects(output, 2, 0, 1);
}

static void samples_without_an_answer_do_not_vote(void **state)
{
    static const char *const output[] = {"", "well", "\\boxed{2}"};

    (void)state;
    elects(output, 3, 2, 1);
    elects(output, 2, -1, 0);
    elects(output, 0, -1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_is_reproduced),
        cmocka_unit_test(pass_at_is_the_share_of_draws_with_a_right_one),
        cmocka_unit_test(pass_at_one_is_avg),
        cmocka_unit_test(large_counts_do_not_overflow),
        cmocka_unit_test(what_is_not_defined_is_nan),
        cmocka_unit_test(the_most_frequent_class_wins),
        cmocka_unit_test(extracted_answers_vote_as_outputs_do),
        cmocka_unit_test(ties_go_to_the_class_that_appears_first),
        cmocka_unit_test(samples_without_an_answer_do_not_vote),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
