/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_stats_basic.c - means, spreads and intervals of a single arm. */
#include "tests/metrics/stats_fixture.h"

static void mean_and_sd_are_the_textbook_ones(void **state)
{
    const double x[] = {2, 4, 4, 4, 5, 5, 7, 9};

    (void)state;
    NEAR(kva_stat_mean(x, 8), 5, 0);
    NEAR(kva_stat_sd(x, 8), sqrt(32.0 / 7), 1e-15);
    NEAR(kva_stat_sd(x, 1), 0, 0);
    assert_true(isnan(kva_stat_mean(x, 0)));
}

static void the_noise_floor_example_is_283_ten_thousandths(void **state)
{
    const double means[] = {0.90, 0.92, 0.91};

    (void)state;
    NEAR(kva_stat_sd(means, 3), 0.01, 1e-12);
    NEAR(2 * sqrt(2) * kva_stat_sd(means, 3), 0.0283, 5e-5);
}

static void wilson_agrees_with_published_values(void **state)
{
    struct kva_interval ci;

    (void)state;
    ci = kva_stat_wilson(81, 263); /* Newcombe 1998, table I, method 3 */
    NEAR(ci.lo, 0.2553, 5e-5);
    NEAR(ci.hi, 0.3662, 5e-5);
    ci = kva_stat_wilson(15, 148);
    NEAR(ci.lo, 0.0624, 5e-5);
    NEAR(ci.hi, 0.1605, 5e-5);
    ci = kva_stat_wilson(0, 20);
    assert_true(ci.lo == 0);
    NEAR(ci.hi, 0.1611, 5e-5);
    ci = kva_stat_wilson(1, 29);
    NEAR(ci.lo, 0.0061, 5e-5);
    NEAR(ci.hi, 0.1718, 5e-5);
    ci = kva_stat_wilson(20, 20);
    assert_true(ci.hi == 1 && ci.lo < 1);
    assert_true(kva_stat_wilson(2.5, 5).ok); /* k need not be whole */
    assert_false(kva_stat_wilson(0, 0).ok);
    assert_false(kva_stat_wilson(3, 2).ok);
    assert_false(kva_stat_wilson((double)NAN, 2).ok);
}

static struct kva_interval arm(const double *x, size_t n)
{
    struct kva_stratum s = {"", x, NULL, NULL, n};

    return kva_stat_arm(&s, 1);
}

/* {0.2, 0.4, 0.6}: sum of squares 0.08 + 0.1 (0.16 + 0.36) = 0.132 over 9 times 3/2.2. */
static void a_fraction_gets_wilsons_form_at_its_effective_size(void **state)
{
    const double x[] = {0.2, 0.4, 0.6}, wide[] = {0, 0.5, 1};
    struct kva_interval ci = arm(x, 3);
    double n = 0.4 * 0.6 / (0.132 / 9 * 3 / 2.2), z = 4.302652729911275; /* t of df 2 */
    double mid = (0.4 + z * z / (2 * n)) / (1 + z * z / n);
    double half = z * sqrt(0.4 * 0.6 / n + z * z / (4 * n * n)) / (1 + z * z / n);

    (void)state;
    assert_true(ci.ok);
    NEAR(ci.lo, mid - half, 1e-9);
    NEAR(ci.hi, mid + half, 1e-9);
    ci = arm(wide, 3);
    assert_true(ci.lo >= 0 && ci.lo < 0.1 && ci.hi > 0.9 && ci.hi <= 1);
}

static void independent_samples_right_or_wrong_get_wilsons_interval(void **state)
{
    const double x[] = {1, 0, 1, 1, 0, 1}, drawn[] = {1, 0, 1, 1, 0, 0.875};
    const int alone[] = {5, 4, 3, 2, 1, 0}, pair[] = {5, 4, 3, 2, 1, 1};
    struct kva_interval w = kva_stat_wilson(4, 6), ci = arm(x, 6);
    struct kva_stratum s = {"", x, NULL, alone, 6};

    (void)state;
    NEAR(ci.lo, w.lo, 1e-15);
    NEAR(ci.hi, w.hi, 1e-15);
    ci = kva_stat_arm(&s, 1); /* one sample a context */
    NEAR(ci.lo, w.lo, 1e-15);
    s.cluster = pair;
    assert_true(fabs(kva_stat_arm(&s, 1).lo - w.lo) > 1e-3);
    /* the mean of eight draws of the last problem: it is not right or wrong */
    assert_true(fabs(arm(drawn, 6).lo - kva_stat_wilson(3.875, 6).lo) > 1e-3);
}

static void no_interval_of_a_single_arm_has_width_zero(void **state)
{
    double same[7];

    (void)state;
    for (int k = 0; k <= 10; k++)
        for (size_t n = 1; n <= 7; n++) {
            struct kva_interval ci;

            for (size_t i = 0; i < n; i++)
                same[i] = k * 0.1 > 1 ? 1 : k * 0.1;
            ci = arm(same, n);
            assert_true(ci.ok);
            assert_true(ci.hi - ci.lo > 0.1);
            assert_true(ci.lo >= 0 && ci.hi <= 1);
        }
    assert_false(arm(same, 0).ok);
}

static void an_unbounded_quantity_needs_two_different_values(void **state)
{
    const double x[] = {1, 2, 3, 4}, same[] = {0.1, 0.1, 0.1};
    struct kva_interval ci = kva_stat_t(x, 4);

    (void)state;
    NEAR(ci.lo, 2.5 - 3.182446305284263 * kva_stat_sd(x, 4) / 2, 1e-9);
    NEAR(ci.hi, 2.5 + 3.182446305284263 * kva_stat_sd(x, 4) / 2, 1e-9);
    assert_false(kva_stat_t(x, 1).ok);
    assert_false(kva_stat_t(same, 3).ok);
}

/* scipy 1.17.1: ttest_ind(a, b, equal_var=False).confidence_interval(0.95) */
static void welchs_interval_agrees_with_scipy(void **state)
{
    const double a[] = {1, 1, 0.5, 1, 0.75, 0.25}, b[] = {0.5, 0, 0.25, 0.25};
    const double same[] = {1, 1, 1};
    struct kva_interval ci = kva_stat_welch(a, 6, b, 4);

    (void)state;
    assert_true(ci.ok);
    NEAR(ci.lo, 0.12047450058282849, 1e-12);
    NEAR(ci.hi, 0.8795254994171715, 1e-12);
    ci = kva_stat_welch(b, 4, a, 6);
    NEAR(ci.hi, -0.12047450058282849, 1e-12);
    assert_true(kva_stat_welch(a, 6, same, 3).ok); /* one side without spread */
    assert_false(kva_stat_welch(same, 3, same, 3).ok);
    assert_false(kva_stat_welch(a, 6, b, 1).ok);
}

static void a_suite_weighs_tasks_equally_whatever_their_size(void **state)
{
    const double a[] = {0, 1, 0, 1}, b[] = {1, 0.5, 0.75, 0.25, 0, 1, 0.5, 0.5};
    struct kva_stratum s[] = {{"a", a, NULL, NULL, 4}, {"b", b, NULL, NULL, 8}};
    struct kva_interval ci = kva_stat_arm(s, 2), one;
    double mean = (0.5 + 0.5625) / 2;

    (void)state;
    assert_true(ci.ok && ci.lo < mean && mean < ci.hi);
    /* the same numbers many times over: the interval closes around the mean of means, not
     * around the mean of all twelve */
    {
        double many_a[400], many_b[4000];

        for (size_t i = 0; i < 4000; i++)
            many_b[i] = b[i % 8];
        for (size_t i = 0; i < 400; i++)
            many_a[i] = a[i % 4];
        s[0] = (struct kva_stratum){"a", many_a, NULL, NULL, 400};
        s[1] = (struct kva_stratum){"b", many_b, NULL, NULL, 4000};
        one = kva_stat_arm(s, 2);
        assert_true(one.lo < mean && mean < one.hi && one.hi < 0.5625);
        assert_true(one.hi - one.lo < (ci.hi - ci.lo) / 5);
    }
    s[0] = (struct kva_stratum){"a", a, NULL, NULL, 4};
    assert_false(kva_stat_arm(s, 0).ok);
    s[1].n = 0;
    assert_false(kva_stat_arm(s, 2).ok);
}

static void a_suite_without_any_spread_still_has_an_interval(void **state)
{
    const double ones[] = {1, 1, 1, 1, 1};
    struct kva_stratum s[] = {{"a", ones, NULL, NULL, 5}, {"b", ones, NULL, NULL, 5}};
    struct kva_interval ci = kva_stat_arm(s, 2);

    (void)state;
    assert_true(ci.ok && ci.hi == 1);
    NEAR(ci.lo, kva_stat_wilson(10, 10).lo, 1e-12);
}

static void clusters_widen_the_interval(void **state)
{
    /* two sources, three questions each, all answers of a source alike: two observations
     */
    const double x[] = {1, 0, 1, 0, 1, 0};
    const int source[] = {7, 3, 7, 3, 7, 3};
    struct kva_stratum plain = {"a", x, NULL, NULL, 6},
                       clustered = {"a", x, NULL, source, 6};
    struct kva_interval p = kva_stat_arm(&plain, 1), c = kva_stat_arm(&clustered, 1);

    (void)state;
    assert_true(c.hi - c.lo > p.hi - p.lo);
    /* two observations, one of them 0 and one 1: nearly nothing is known */
    assert_true(c.lo < 0.01 && c.hi > 0.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_and_sd_are_the_textbook_ones),
        cmocka_unit_test(the_noise_floor_example_is_283_ten_thousandths),
        cmocka_unit_test(wilson_agrees_with_published_values),
        cmocka_unit_test(a_fraction_gets_wilsons_form_at_its_effective_size),
        cmocka_unit_test(independent_samples_right_or_wrong_get_wilsons_interval),
        cmocka_unit_test(no_interval_of_a_single_arm_has_width_zero),
        cmocka_unit_test(an_unbounded_quantity_needs_two_different_values),
        cmocka_unit_test(welchs_interval_agrees_with_scipy),
        cmocka_unit_test(a_suite_weighs_tasks_equally_whatever_their_size),
        cmocka_unit_test(a_suite_without_any_spread_still_has_an_interval),
        cmocka_unit_test(clusters_widen_the_interval),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
