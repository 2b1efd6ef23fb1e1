/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_stats_tests.c - p values to the printed digits of reports.md 4.4. */
#include "tests/metrics/stats_fixture.h"

static const double D[] = {3, -1, 2, 0, 5, -2, 4, 4, 1, 6};
static const double ZERO[64];

static void sign_test_examples(void **state)
{
    (void)state;
    NEAR(kva_stat_signtest(93, 22), 1.407e-11, 5e-15);
    NEAR(kva_stat_signtest(88, 2), 6.6e-24, 5e-26);
    NEAR(kva_stat_signtest(6, 0), 0.03125, 1e-15);
    NEAR(kva_stat_signtest(0, 5), 0.0625,
         1e-15); /* fewer than six can never be significant */
    NEAR(kva_stat_signtest(4, 4), 1, 0);
    NEAR(kva_stat_signtest(0, 0), 1, 0);
}

static void mcnemar_example(void **state)
{
    double mid;

    (void)state;
    NEAR(kva_stat_mcnemar(9, 2, &mid), 0.065430, 5e-7);
    NEAR(mid, 0.038574, 5e-7);
    NEAR(kva_stat_mcnemar(2, 9, NULL), kva_stat_mcnemar(9, 2, NULL), 0);
    NEAR(kva_stat_mcnemar(0, 0, &mid), 1, 0);
    NEAR(mid, 1, 0);
    NEAR(kva_stat_mcnemar(5, 5, &mid), 1, 0);
    NEAR(mid, 1, 1e-12);
}

static void wilcoxon_example(void **state)
{
    const double tied[] = {1, 1, 1, -1, 2}, zeros[] = {0, 0};

    (void)state;
    NEAR(kva_stat_wilcoxon(D, 10), 0.042969, 5e-7);
    NEAR(kva_stat_wilcoxon(D, 10), 22.0 / 512, 1e-15);
    /* ranks 2.5 2.5 2.5 2.5 5, W- = 2.5: P(W <= 2.5) = 5/32 */
    NEAR(kva_stat_wilcoxon(tied, 5), 10.0 / 32, 1e-15);
    NEAR(kva_stat_wilcoxon(zeros, 2), 1, 0);
    NEAR(kva_stat_wilcoxon(NULL, 0), 1, 0);
}

static void wilcoxon_beyond_fifty_meets_the_exact_value(void **state)
{
    double d[52];
    struct kva_rng rng = {12};

    (void)state;
    for (int i = 0; i < 51; i++)
        d[i] = kva_rng_unit(&rng) - 0.4;
    /* one difference more switches from counting to the normal curve */
    NEAR(kva_stat_wilcoxon(d, 51), kva_stat_wilcoxon(d, 50), 0.05);
    d[51] = 0;
    NEAR(kva_stat_wilcoxon(d, 52), kva_stat_wilcoxon(d, 51), 0); /* zeros are dropped */
    for (int i = 0; i < 51; i++)
        d[i] = i + 1;
    assert_true(kva_stat_wilcoxon(d, 51) < 1e-9);
    assert_true(kva_stat_wilcoxon(d, 50) == ldexp(1, -49));
}

static void sign_flip_example(void **state)
{
    struct kva_stratum s = {"t", D, ZERO, NULL, 10};

    (void)state;
    NEAR(kva_stat_mean(D, 10), 2.2, 1e-15);
    NEAR(kva_stat_signflip(&s, 1, 1, 10000), 0.042969, 5e-7);
    NEAR(kva_stat_signflip(&s, 1, 99, 1), 0.042969,
         5e-7); /* exact: the seed does not matter */
    s.a = ZERO;
    NEAR(kva_stat_signflip(&s, 1, 1, 10), 1, 0);
    s.b = D;
    NEAR(kva_stat_signflip(&s, 1, 1, 10000), 0.042969, 5e-7); /* mirrored */
    s.n = 0;
    assert_true(isnan(kva_stat_signflip(&s, 1, 1, 10)));
}

static void sign_flip_weighs_tasks_equally(void **state)
{
    /* one task of one difference 1, one task of four differences 1/4 each (sum weights
     * 1/2, 1/8): |S| is the largest of all 2^5 patterns, reached by it and its mirror */
    const double a[] = {1}, b[] = {0.25, 0.25, 0.25, 0.25};
    struct kva_stratum s[] = {{"a", a, ZERO, NULL, 1}, {"b", b, ZERO, NULL, 4}};
    /* with the signs of b split 3:1 the second task counts half as much */
    const double c[] = {0.25, 0.25, 0.25, -0.25};
    struct kva_stratum r[] = {{"a", a, ZERO, NULL, 1}, {"c", c, ZERO, NULL, 4}};

    (void)state;
    NEAR(kva_stat_signflip(s, 2, 1, 10), 2.0 / 32, 1e-15);
    NEAR(kva_stat_signflip(r, 2, 1, 10), 10.0 / 32, 1e-15);
}

static void sign_flip_by_chance_agrees_with_counting(void **state)
{
    double d[20], padded[21];
    struct kva_rng rng = {5};
    struct kva_stratum exact = {"t", d, ZERO, NULL, 20},
                       random = {"t", padded, ZERO, NULL, 21};
    double p, q;

    (void)state;
    for (int i = 0; i < 20; i++)
        padded[i] = d[i] = kva_rng_unit(&rng) - 0.35;
    padded[20] = 1e-9; /* one too many to enumerate, too small to matter */
    p = kva_stat_signflip(&exact, 1, 1, 10000);
    q = kva_stat_signflip(&random, 1, 1, 10000);
    assert_true(p > 0.005 && p < 0.9);
    NEAR(q, p, 4 * sqrt(p * (1 - p) / 10000));
    assert_true(q == kva_stat_signflip(&random, 1, 1, 10000)); /* same seed, same value */
    NEAR(q * 10001, round(q * 10001), 1e-6);                   /* (1 + hits) / (B + 1) */
    assert_true(q >= 1.0 / 10001);
}

static void clusters_flip_together(void **state)
{
    double d[12];
    int source[12];
    struct kva_stratum s = {"t", d, ZERO, source, 12};

    (void)state;
    for (int i = 0; i < 12; i++) {
        d[i] = 1;
        source[i] = i % 3;
    }
    NEAR(kva_stat_signflip(&s, 1, 1, 10), 2.0 / 8, 1e-15);
    s.cluster = NULL;
    NEAR(kva_stat_signflip(&s, 1, 1, 10), 2.0 / 4096, 1e-15);
}

static void mann_whitney_smallest_values(void **state)
{
    static const double LOW[] = {1, 2, 3, 4, 5, 6}, HIGH[] = {11, 12, 13, 14, 15, 16};

    (void)state;
    NEAR(kva_stat_mannwhitney(LOW, 3, HIGH, 3), 0.100, 1e-12);
    NEAR(kva_stat_mannwhitney(LOW, 4, HIGH, 4), 0.0286, 5e-5);
    NEAR(kva_stat_mannwhitney(LOW, 5, HIGH, 5), 0.0079, 5e-5);
    NEAR(kva_stat_mannwhitney(LOW, 6, HIGH, 6), 0.0022, 5e-5);
    NEAR(kva_stat_mannwhitney(HIGH, 6, LOW, 6), 2.0 / 924, 1e-12);
    NEAR(kva_stat_mannwhitney(LOW, 1, HIGH, 1), 1, 1e-12);
    assert_true(isnan(kva_stat_mannwhitney(LOW, 0, HIGH, 3)));
}

static void mann_whitney_counts_ties_exactly(void **state)
{
    /* the time gate's example of 7.3 */
    static const double BASE[] = {100, 101, 99, 102, 98, 100};
    static const double NEW[] = {110, 111, 109, 112, 108, 110};
    static const double A[] = {1, 2}, B[] = {2, 3};
    double same[5] = {7, 7, 7, 7, 7};

    (void)state;
    NEAR(kva_stat_mannwhitney(BASE, 6, NEW, 6), 2.0 / 924, 1e-12);
    /* midranks 1 2.5 2.5 4; sums of two: 3.5 3.5 5 5 6.5 6.5; observed 3.5 */
    NEAR(kva_stat_mannwhitney(A, 2, B, 2), 4.0 / 6, 1e-12);
    NEAR(kva_stat_mannwhitney(same, 5, same, 5), 1, 0);
}

static void mann_whitney_beyond_fifty_meets_the_exact_value(void **state)
{
    double a[26], b[26];
    struct kva_rng rng = {8};

    (void)state;
    for (int i = 0; i < 26; i++) {
        a[i] = kva_rng_unit(&rng);
        b[i] = kva_rng_unit(&rng) + 0.1;
    }
    a[25] = 0.5;
    b[25] = 0.5001;
    NEAR(kva_stat_mannwhitney(a, 26, b, 26), kva_stat_mannwhitney(a, 25, b, 25), 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sign_test_examples),
        cmocka_unit_test(mcnemar_example),
        cmocka_unit_test(wilcoxon_example),
        cmocka_unit_test(wilcoxon_beyond_fifty_meets_the_exact_value),
        cmocka_unit_test(sign_flip_example),
        cmocka_unit_test(sign_flip_weighs_tasks_equally),
        cmocka_unit_test(sign_flip_by_chance_agrees_with_counting),
        cmocka_unit_test(clusters_flip_together),
        cmocka_unit_test(mann_whitney_smallest_values),
        cmocka_unit_test(mann_whitney_counts_ties_exactly),
        cmocka_unit_test(mann_whitney_beyond_fifty_meets_the_exact_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
