/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_stats_verdict.c - adjusted p values, tallies, power, fronts. */
#include "tests/metrics/stats_fixture.h"

static void adjusted_p_values_of_the_example(void **state)
{
    static const double P[] = {.001, .008, .039, .041, .042, .06, .074, .205};
    static const double BH[] = {.008, .032, .0672, .0672, .0672, .08, .084571, .205};
    static const double HOLM[] = {.008, .056, .234, .234, .234, .234, .234, .234};
    double bh[8], holm[8];

    (void)state;
    for (int i = 0; i < 8; i++)
        bh[i] = holm[i] = P[i];
    kva_stat_bh(bh, 8);
    kva_stat_holm(holm, 8);
    for (int i = 0; i < 8; i++) {
        NEAR(bh[i], BH[i], 5e-7);
        NEAR(holm[i], HOLM[i], 5e-7);
    }
}

static void invalid_comparisons_are_not_counted_and_order_does_not_matter(void **state)
{
    double p[] = {.04, (double)NAN, .9, .01}, h[] = {.04, (double)NAN, .9, .01};

    (void)state;
    kva_stat_bh(p, 4);
    kva_stat_holm(h, 4);
    NEAR(p[0], .06, 1e-15);
    assert_true(isnan(p[1]) && isnan(h[1]));
    NEAR(p[2], .9, 1e-15);
    NEAR(p[3], .03, 1e-15);
    NEAR(h[0], .08, 1e-15);
    NEAR(h[2], .9, 1e-15);
    NEAR(h[3], .03, 1e-15);
    h[0] = .7;
    h[3] = .8;
    kva_stat_holm(h, 4);
    assert_true(h[0] == 1 && h[2] == 1 && h[3] == 1); /* capped */
    kva_stat_bh(p, 0);
}

struct tally {
    int w, t, l, i;
};

static struct tally count(enum kva_tie_mode mode, const double *delta, const double *p,
                          int n, double epsilon, double sign)
{
    struct tally c = {0, 0, 0, 0};

    for (int k = 0; k < n; k++)
        switch (kva_stat_verdict(mode, sign * delta[k], p[k], epsilon, 0.05,
                                 !isnan(delta[k]))) {
        case KVA_WIN:
            c.w++;
            break;
        case KVA_TIE:
            c.t++;
            break;
        case KVA_LOSS:
            c.l++;
            break;
        case KVA_INVALID:
            c.i++;
            break;
        }
    return c;
}

static void the_tally_of_four_pairs(void **state)
{
    static const double DELTA[] = {0.04, 0, -0.002, (double)NAN};
    static const double P[] = {0.01, 1, 0.6, (double)NAN};
    struct tally c;

    (void)state;
    c = count(KVA_TIE_STAT, DELTA, P, 4, 0.01, 1);
    assert_true(c.w == 1 && c.t == 2 && c.l == 0 && c.i == 1);
    c = count(KVA_TIE_EXACT, DELTA, P, 4, 0.01, 1);
    assert_true(c.w == 1 && c.t == 1 && c.l == 1 && c.i == 1);
    c = count(KVA_TIE_EPSILON, DELTA, P, 4, 0.005, 1);
    assert_true(c.w == 1 && c.t == 2 && c.l == 0 && c.i == 1);
}

static void tallies_sum_to_n_and_mirror(void **state)
{
    struct kva_rng rng = {1};
    int wins = 0, losses = 0;

    (void)state;
    for (int round = 0; round < 200; round++)
        for (int mode = KVA_TIE_EXACT; mode <= KVA_TIE_STAT; mode++) {
            double delta[30], p[30];
            struct tally a, b;

            for (int i = 0; i < 30; i++) {
                delta[i] = (kva_rng_unit(&rng) - 0.5) / 10;
                if (kva_rng_below(&rng, 5) == 0)
                    delta[i] = 0;
                if (kva_rng_below(&rng, 7) == 0)
                    delta[i] = (double)NAN;
                p[i] = kva_rng_unit(&rng) / 5;
            }
            a = count((enum kva_tie_mode)mode, delta, p, 30, 0.005, 1);
            b = count((enum kva_tie_mode)mode, delta, p, 30, 0.005, -1);
            assert_int_equal(a.w + a.t + a.l + a.i, 30);
            assert_true(a.w == b.l && a.l == b.w && a.t == b.t && a.i == b.i);
            wins += a.w;
            losses += a.l;
        }
    assert_true(wins > 1000 && losses > 1000);
}

static void verdicts_at_their_limits(void **state)
{
    (void)state;
    assert_int_equal(kva_stat_verdict(KVA_TIE_EXACT, 5e-13, 0, 0, 0, true), KVA_TIE);
    assert_int_equal(kva_stat_verdict(KVA_TIE_EXACT, 6e-13, 1, 9, 0, true), KVA_WIN);
    assert_int_equal(kva_stat_verdict(KVA_TIE_EPSILON, -0.005, 0, 0.005, 0, true),
                     KVA_TIE);
    assert_int_equal(kva_stat_verdict(KVA_TIE_STAT, 0.5, 0.05, 0, 0.05, true), KVA_TIE);
    assert_int_equal(kva_stat_verdict(KVA_TIE_STAT, -0.5, 0.049, 0, 0.05, true),
                     KVA_LOSS);
    assert_int_equal(kva_stat_verdict(KVA_TIE_STAT, 0.01, 0.001, 0.01, 0.05, true),
                     KVA_TIE);
    assert_int_equal(kva_stat_verdict(KVA_TIE_STAT, 0.5, (double)NAN, 0, 0.05, true),
                     KVA_INVALID);
    assert_int_equal(kva_stat_verdict(KVA_TIE_EXACT, 0.5, 0, 0, 0, false), KVA_INVALID);
}

/* 200 questions, four on each of 50 contexts: 50 units. At 20 % discordant the table has
 * 8.7 points for 200 of one context each; these show sqrt(7.8489 * 0.2 / 57.8489). */
static void questions_of_one_context_are_one_unit(void **state)
{
    double a[200], b[200];
    int context[200];
    struct kva_stratum s[2] = {{"t", a, b, NULL, 200}, {"u", a, b, NULL, 40}};

    (void)state;
    for (int i = 0; i < 200; i++) {
        a[i] = b[i] = 1;
        context[i] = i * 7 % 200 / 4;
    }
    assert_int_equal(kva_stat_units(s, 1), 200);
    NEAR(kva_stat_mde((double)kva_stat_units(s, 1), 0.2), 0.0869, 5e-5);
    s[0].cluster = context;
    assert_int_equal(kva_stat_units(s, 1), 50);
    NEAR(kva_stat_mde((double)kva_stat_units(s, 1), 0.2), 0.164730, 1e-6);
    assert_int_equal(kva_stat_units(s, 2), 90);
    assert_int_equal(kva_stat_units(s, 0), 0);
}

static void the_table_of_detectable_effects(void **state)
{
    static const struct {
        double n, mde[3]; /* points at 5, 10, 20 % discordant; 0: undefined */
    } ROW[] = {{100, {0, 8.5, 12.1}},
               {200, {4.4, 6.2, 8.7}},
               {500, {2.8, 3.9, 5.6}},
               {1300, {1.7, 2.5, 3.5}}};
    static const double PI[] = {.05, .10, .20};
    /* The printed 4.4 and 6.2 of n = 200 are 4.345 and 6.145 rounded twice. */
    const double rounding = 0.056;

    (void)state;
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 3; c++) {
            double mde = kva_stat_mde(ROW[r].n, PI[c]);

            if (ROW[r].mde[c] > 0)
                NEAR(100 * mde, ROW[r].mde[c], rounding);
            else
                assert_true(isnan(mde));
        }
    NEAR(kva_stat_mde(200, .05), sqrt(7.8489 * .05 / 207.8489), 1e-6);
    NEAR(kva_stat_required_n(0.01, 0.1), 7842, 0);
    NEAR(kva_stat_required_n(0.02, 0.1), 1955, 0);
    NEAR(kva_stat_required_n(0.03, 0.1), 865, 0);
    NEAR(kva_stat_required_n(0.05, 0.1), 307, 0);
    assert_true(isnan(kva_stat_required_n(0.2, 0.1)));
    assert_true(isnan(kva_stat_required_n(0, 0.1)));
    assert_true(isnan(kva_stat_mde(0, 0.1)));
    assert_true(isnan(kva_stat_mde(100, 0)));
}

static void the_front_of_six_points(void **state)
{
    /*                         A    B   C   D   E   F */
    static const double X[] = {100, 50, 50, 25, 30, 100}, Y[] = {90, 85, 80, 60, 58, 90};
    static const uint8_t WANT[] = {1, 1, 0, 1, 0, 1};
    static const double U[] = {1, 2, (double)NAN}, V[] = {5, 5, 9};
    uint8_t front[6];

    (void)state;
    kva_stat_pareto(X, Y, 6, front);
    assert_memory_equal(front, WANT, 6);
    kva_stat_pareto(U, V, 3,
                    front); /* dominated by equal quality at less cost; NaN never */
    assert_true(front[0] == 1 && front[1] == 0 && front[2] == 0);
}

static void mean_retention_and_the_budget_at_95_percent(void **state)
{
    static const double X[] = {0.4, 0.1, 0.2}, R[] = {.97, .80, .90},
                        DIP[] = {.97, .95, .90};
    bool monotone;

    (void)state;
    NEAR(kva_stat_mean_retention(X, R, 3), 0.8925, 1e-12);
    NEAR(kva_stat_budget_at(X, R, 3, 0.95, &monotone), 0.328, 5e-4);
    assert_true(monotone);
    assert_true(isnan(kva_stat_budget_at(X, R, 3, 0.98, NULL))); /* "> max" */
    NEAR(kva_stat_budget_at(X, R, 3, 0.80, NULL), 0.1, 1e-15);
    NEAR(kva_stat_budget_at(X, DIP, 3, 0.95, &monotone), 0.1, 1e-15);
    assert_false(monotone);
    NEAR(kva_stat_mean_retention(X, R, 1), .97, 1e-15);
    assert_true(isnan(kva_stat_mean_retention(X, R, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjusted_p_values_of_the_example),
        cmocka_unit_test(invalid_comparisons_are_not_counted_and_order_does_not_matter),
        cmocka_unit_test(the_tally_of_four_pairs),
        cmocka_unit_test(tallies_sum_to_n_and_mirror),
        cmocka_unit_test(verdicts_at_their_limits),
        cmocka_unit_test(the_table_of_detectable_effects),
        cmocka_unit_test(questions_of_one_context_are_one_unit),
        cmocka_unit_test(the_front_of_six_points),
        cmocka_unit_test(mean_retention_and_the_budget_at_95_percent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
