/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_stats_boot.c - the paired stratified bootstrap. */
#include "metrics/stats_random.h"
#include "tests/metrics/stats_fixture.h"

#include <gsl/gsl_rng.h>

static const double M[] = {0.8, 0.6, 1.0, 0.0, 0.5, 0.9, 1.0, 0.7};
static const double F[] = {1.0, 0.8, 1.0, 0.5, 0.5, 1.0, 0.9, 0.8};

static struct kva_boot boot(const struct kva_stratum *s, size_t n, uint32_t seed,
                            int replicates, bool force)
{
    struct kva_boot out;
    struct kva_error err = {0};

    assert_int_equal(kva_stat_bootstrap(s, n, seed, replicates, force, &out, &err),
                     KVA_OK);
    return out;
}

static void the_generator_draws_the_published_indexes(void **state)
{
    static const unsigned WANT[] = {1, 2, 0, 5, 2, 4, 2, 4, 1, 2, 5, 6};
    gsl_rng *r = gsl_rng_alloc(gsl_rng_mt19937);

    (void)state;
    gsl_rng_set(r, 20260801);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(gsl_rng_uniform_int(r, 8), WANT[i]);
    gsl_rng_free(r);
}

static void our_generator_is_that_of_gsl_draw_by_draw(void **state)
{
    static const size_t below[] = {1, 2, 3, 7, 200, 624, 65536, 1000003, 2147483647};
    gsl_rng *g = gsl_rng_alloc(gsl_rng_mt19937);
    static struct kva_mt mt;

    (void)state;
    for (uint32_t seed = 1; seed < 4000000000u; seed += 799999999u)
        for (size_t k = 0; k < sizeof below / sizeof below[0]; k++) {
            struct kva_mt_below b = kva_mt_below(below[k]);

            gsl_rng_set(g, seed);
            kva_mt_set(&mt, seed);
            for (int i = 0; i < 2000; i++) {
                assert_int_equal(kva_mt_get(&mt), gsl_rng_get(g));
                assert_int_equal(kva_mt_index(&mt, &b), gsl_rng_uniform_int(g, below[k]));
            }
        }
    gsl_rng_free(g);
}

static void the_worked_example_comes_out_to_the_printed_digits(void **state)
{
    struct kva_stratum s = {"t", M, F, NULL, 8};
    struct kva_boot b = boot(&s, 1, 20260801, 2000, true);

    (void)state;
    assert_false(b.linearised);
    NEAR(b.ratio, 0.846153846, 5e-10);
    NEAR(b.ratio_ci.lo, 0.655723573, 5e-10);
    NEAR(b.ratio_ci.hi, 0.984848485, 5e-10);
    NEAR(b.diff, -0.125, 1e-15);
    NEAR(b.diff_ci.lo, -0.25, 1e-12);
    NEAR(b.diff_ci.hi, -0.0125, 1e-12);
    assert_true(b.ratio_ci.ok && b.diff_ci.ok && b.dropped == 0);
}

static void the_worked_linearised_interval_comes_out_to_the_printed_digits(void **state)
{
    struct kva_stratum s = {"t", M, F, NULL, 8};
    struct kva_boot b;

    (void)state;
    assert_int_equal(kva_stat_linearised(&s, 1, 0, &b, NULL), KVA_OK);
    assert_true(b.linearised);
    NEAR((b.ratio_ci.hi - b.ratio) / 2.364624251592785, 0.086549027, 5e-9); /* SE */
    NEAR(b.ratio_ci.lo, 0.641498, 5e-7);
    NEAR(b.ratio_ci.hi, 1.050810, 5e-7);
    assert_true(b.diff_ci.lo < b.diff && b.diff < b.diff_ci.hi);
}

static void few_units_that_differ_use_the_linearised_interval(void **state)
{
    struct kva_stratum s = {"t", M, F, NULL, 8};
    struct kva_boot b = boot(&s, 1, 20260801, 2000, false), plain;
    double x[100], y[100];

    (void)state;
    assert_true(b.linearised);
    (void)kva_stat_linearised(&s, 1, 0, &plain, NULL);
    assert_true(b.ratio_ci.lo < plain.ratio_ci.lo && b.ratio_ci.hi > plain.ratio_ci.hi);
    assert_true(b.ratio == plain.ratio);
    for (int differ = 29; differ <= 30; differ++) {
        for (int i = 0; i < 100; i++) {
            y[i] = 1;
            x[i] = i >= differ;
        }
        s = (struct kva_stratum){"t", x, y, NULL, 100};
        assert_true(boot(&s, 1, 1, 100, false).linearised == (differ == 29));
    }
}

static void the_environment_does_not_change_a_result(void **state)
{
    struct kva_stratum s = {"t", M, F, NULL, 8};
    struct kva_boot a = boot(&s, 1, 5, 500, true), b;

    (void)state;
    setenv("GSL_RNG_SEED", "7", 1);
    setenv("GSL_RNG_TYPE", "taus", 1);
    b = boot(&s, 1, 5, 500, true);
    assert_true(a.ratio_ci.lo == b.ratio_ci.lo && a.ratio_ci.hi == b.ratio_ci.hi);
    assert_true(a.diff_ci.lo == b.diff_ci.lo && a.diff_ci.hi == b.diff_ci.hi);
    b = boot(&s, 1, 6, 500, true);
    assert_true(a.ratio_ci.lo != b.ratio_ci.lo || a.ratio_ci.hi != b.ratio_ci.hi);
}

static void swapping_the_arms_mirrors_the_interval_exactly(void **state)
{
    struct kva_rng rng = {3};
    double x[3][40], y[3][40];
    struct kva_stratum ab[3], ba[3];

    (void)state;
    for (int round = 0; round < 10; round++)
        for (size_t n = 5; n <= 40; n += 35) {
            for (int t = 0; t < 3; t++) {
                for (size_t i = 0; i < n; i++) {
                    x[t][i] = kva_rng_unit(&rng);
                    y[t][i] = kva_rng_unit(&rng);
                }
                ab[t] = (struct kva_stratum){"t", x[t], y[t], NULL, n};
                ba[t] = (struct kva_stratum){"t", y[t], x[t], NULL, n};
            }
            for (size_t t = 1; t <= 3; t += 2) {
                struct kva_boot p = boot(ab, t, 9, 200, false),
                                q = boot(ba, t, 9, 200, false);

                assert_true(p.linearised == (n == 5));
                assert_true(p.diff == -q.diff);
                assert_true(p.diff_ci.lo == -q.diff_ci.hi &&
                            p.diff_ci.hi == -q.diff_ci.lo);
            }
        }
}

static void the_seed_of_a_pair_ignores_its_order_and_nothing_else(void **state)
{
    uint8_t a[32] = {1}, b[32] = {2}, text[14 + 64 + 2], hash[32];
    uint32_t seed = kva_stat_boot_seed(a, b, 42);

    (void)state;
    memcpy(text, "kvaudit-boot-1", 14);
    memcpy(text + 14, a, 32);
    memcpy(text + 46, b, 32);
    memcpy(text + 78, "42", 2);
    kva_sha256_of(text, sizeof text, hash);
    assert_int_equal(seed, (uint32_t)hash[0] | (uint32_t)hash[1] << 8 |
                               (uint32_t)hash[2] << 16 | (uint32_t)hash[3] << 24);
    assert_int_equal(seed, kva_stat_boot_seed(b, a, 42));
    assert_int_not_equal(seed, kva_stat_boot_seed(a, b, 43));
    assert_int_not_equal(seed, kva_stat_boot_seed(a, a, 42));
}

static void strata_are_drawn_in_name_order_whatever_their_order(void **state)
{
    struct kva_stratum s[] = {
        {"b", M, F, NULL, 8}, {"a", F, M, NULL, 5}, {"B", M, F, NULL, 3}};
    struct kva_stratum r[] = {s[1], s[2], s[0]};
    struct kva_boot p = boot(s, 3, 11, 300, false), q = boot(r, 3, 11, 300, false);

    (void)state;
    assert_true(p.ratio_ci.lo == q.ratio_ci.lo && p.diff_ci.hi == q.diff_ci.hi);
    NEAR(p.diff, (-0.125 + 0.18 - 0.4 / 3) / 3, 1e-12); /* unweighted over tasks */
}

static void equal_arms_do_not_give_an_interval_of_width_zero(void **state)
{
    double ones[100], zeros[100];
    int one_source[100] = {0};
    struct kva_stratum s = {"t", F, F, NULL, 8};
    struct kva_boot b = boot(&s, 1, 1, 200, false);

    (void)state;
    assert_true(b.diff == 0 && b.ratio == 1);
    assert_true(b.diff_ci.ok && b.diff_ci.lo < 0 && b.diff_ci.hi > 0);
    assert_true(b.ratio_ci.ok && b.ratio_ci.lo < 1 && b.ratio_ci.hi > 1);
    NEAR(b.diff_ci.hi, kva_stat_wilson(0, 8).hi, 1e-12);
    for (int i = 0; i < 100; i++) {
        ones[i] = 1;
        zeros[i] = 0;
    }
    s = (struct kva_stratum){"t", ones, ones, NULL, 100};
    b = boot(&s, 1, 1, 200, false);
    NEAR(b.ratio_ci.hi - b.ratio_ci.lo, 2 * kva_stat_wilson(0, 100).hi, 1e-12);
    s.b = zeros;
    b = boot(&s, 1, 1, 200, false);
    assert_true(b.diff == 1 && b.diff_ci.lo < 1);
    s.b = ones;
    s.cluster = one_source; /* one observation: nothing can be said */
    b = boot(&s, 1, 1, 200, false);
    assert_false(b.diff_ci.ok);
    assert_false(b.ratio_ci.ok);
}

static void a_ratio_to_almost_nothing_is_not_defined(void **state)
{
    double a[40] = {0}, b[40] = {0};
    struct kva_stratum s = {"t", a, b, NULL, 40};
    struct kva_boot r;

    (void)state;
    a[0] = a[1] = b[1] = 1; /* A(b) = 0.025 */
    r = boot(&s, 1, 1, 500, true);
    assert_true(isnan(r.ratio));
    assert_false(r.ratio_ci.ok);
    assert_true(r.diff_ci.ok);
    NEAR(r.diff, 0.025, 1e-15);
    assert_true(r.dropped > 0.2); /* (39/40)^40 of the replicates miss the one */
    b[2] = b[3] =
        1; /* 0.075: defined, but 4.4 % of the replicates have nothing to divide by */
    r = boot(&s, 1, 1, 2000, true);
    assert_false(isnan(r.ratio));
    assert_true(r.dropped > 0.01);
    assert_false(r.ratio_ci.ok);
}

static void an_empty_stratum_makes_nothing_defined(void **state)
{
    struct kva_stratum s[] = {{"a", M, F, NULL, 8}, {"b", M, F, NULL, 0}};
    struct kva_boot b = boot(s, 2, 1, 100, false), none = boot(s, 0, 1, 100, false);
    struct kva_error err = {0};

    (void)state;
    assert_true(isnan(b.diff) && isnan(b.ratio) && !b.diff_ci.ok && !b.ratio_ci.ok);
    assert_true(isnan(none.diff) && !none.diff_ci.ok);
    assert_int_equal(kva_stat_bootstrap(s, 1, 1, 0, false, &b, &err), KVA_EINVALID);
}

static void clusters_are_drawn_whole(void **state)
{
    double a[60], b[60];
    int source[60];
    struct kva_stratum s = {"t", a, b, NULL, 60};
    struct kva_boot plain, clustered;

    (void)state;
    for (int i = 0; i < 60; i++) {
        source[i] = 100 - i / 2; /* 30 sources of two questions that agree */
        a[i] = i / 2 % 3 == 0;
        b[i] = 0.5;
    }
    plain = boot(&s, 1, 4, 4000, true);
    s.cluster = source;
    clustered = boot(&s, 1, 4, 4000, true);
    NEAR((clustered.diff_ci.hi - clustered.diff_ci.lo) /
             (plain.diff_ci.hi - plain.diff_ci.lo),
         sqrt(2), 0.1);
    assert_true(clustered.diff == plain.diff);
}

/* 200 questions, four on each of 50 contexts: together they are 50 samples, by themselves
 * nearly 200. */
static void the_smallest_effect_is_what_the_units_show(void **state)
{
    static double a[200], b[200];
    static int context[200];
    struct kva_stratum s[2] = {{"t", a, b, NULL, 200}, {"u", a, b, NULL, 50}};
    const double k = 7.8488797;

    (void)state;
    NEAR(boot(s, 1, 1, 1, false).mde, k / (200 + k), 1e-8); /* nothing differs */
    for (int i = 0; i < 200; i++) {
        context[i] = i / 4;
        a[i] = i / 4 % 5 == 0; /* 40 of 200, 10 of 50 contexts */
    }
    NEAR(boot(s, 1, 1, 1, false).mde, sqrt(k * 0.16 / 199), 1e-8);
    s[0].cluster = context;
    NEAR(boot(s, 1, 1, 1, false).mde, sqrt(k * 0.16 / 49), 1e-8);
    for (int i = 0; i < 200; i++)
        a[i] = i % 5 == 0; /* 40 contexts with one of four */
    NEAR(boot(s, 1, 1, 1, false).mde, sqrt(k * 0.16 / 16 / 49), 1e-8);
    s[0].cluster = NULL;
    /* two tasks weigh the same whatever their size */
    NEAR(boot(s, 2, 1, 1, false).mde, sqrt(k * 0.16 * (1.0 / 199 + 1.0 / 49)) / 2, 1e-8);
    s[0].n = 1;
    assert_true(isnan(boot(s, 2, 1, 1, false).mde));
}

/* Few samples differ, all to one side: the standard error says 2.8 points for one of 100,
 * but six must differ before any test finds it. 4.7's formula ends there, too. */
static void few_differences_do_not_make_small_ones_visible(void **state)
{
    static double a[100], b[100];
    struct kva_stratum s = {"t", a, b, NULL, 100};
    const double k = 7.8488797, least = k / (100 + k);

    (void)state;
    for (int n = 0; n < 9; n++) {
        double se = sqrt(n / 100.0 * (1 - n / 100.0) / 99);

        NEAR(boot(&s, 1, 1, 1, false).mde, fmax(least, sqrt(k) * se), 1e-8);
        assert_true((sqrt(k) * se < least) == (n < 8));
        a[n] = 1;
    }
    NEAR(kva_stat_mde(100, least + 1e-9), least, 1e-8);
    assert_true(isnan(kva_stat_mde(100, least - 1e-9)));
    for (int i = 0; i < 100; i++)
        a[i] *= 0.25; /* small differences are seen earlier */
    a[0] = 0.25;
    NEAR(boot(&s, 1, 1, 1, false).mde, fmax(least, sqrt(k * 0.09 * 0.91 / 99)) / 4, 1e-8);
}

static void running_out_of_memory_is_an_error_not_a_number(void **state)
{
    struct kva_stratum s = {"t", M, F, NULL, 8};
    struct kva_boot b;
    int failures = 0;

    (void)state;
    for (long n = 1; n < 50; n++) {
        struct kva_error err = {0};
        enum kva_status rc;

        kva_alloc_fail_at(n);
        rc = kva_stat_bootstrap(&s, 1, 1, 50, true, &b, &err);
        kva_alloc_fail_at(0);
        if (rc == KVA_OK)
            break;
        assert_int_equal(rc, KVA_ENOMEM);
        failures++;
    }
    assert_in_range(failures, 4, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_draws_the_published_indexes),
        cmocka_unit_test(our_generator_is_that_of_gsl_draw_by_draw),
        cmocka_unit_test(the_worked_example_comes_out_to_the_printed_digits),
        cmocka_unit_test(the_worked_linearised_interval_comes_out_to_the_printed_digits),
        cmocka_unit_test(few_units_that_differ_use_the_linearised_interval),
        cmocka_unit_test(the_environment_does_not_change_a_result),
        cmocka_unit_test(swapping_the_arms_mirrors_the_interval_exactly),
        cmocka_unit_test(the_seed_of_a_pair_ignores_its_order_and_nothing_else),
        cmocka_unit_test(strata_are_drawn_in_name_order_whatever_their_order),
        cmocka_unit_test(equal_arms_do_not_give_an_interval_of_width_zero),
        cmocka_unit_test(a_ratio_to_almost_nothing_is_not_defined),
        cmocka_unit_test(an_empty_stratum_makes_nothing_defined),
        cmocka_unit_test(clusters_are_drawn_whole),
        cmocka_unit_test(the_smallest_effect_is_what_the_units_show),
        cmocka_unit_test(few_differences_do_not_make_small_ones_visible),
        cmocka_unit_test(running_out_of_memory_is_an_error_not_a_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
