/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_lukv.c - offline profiles: hulls, the greedy sweep, worked examples E10 and O3. */
#include "tests/methods/alloc_test.h"

#include "methods/lukv.h"

static void check_hull(size_t n, const double *gain, const double *want)
{
    double hull[8];
    size_t block[8];

    kva_hull_gains(gain, n, block, hull);
    for (size_t i = 0; i < n; i++)
        assert_near(hull[i], want[i], 1e-12);
    memcpy(hull, gain, n * sizeof *gain); /* in place */
    kva_hull_gains(hull, n, block, hull);
    for (size_t i = 0; i < n; i++)
        assert_near(hull[i], want[i], 1e-12);
}

static void hulls_of_the_examples(void **state)
{
    (void)state;
    check_hull(5, (double[]){5, 1, 4, 2, 0}, (double[]){5, 2.5, 2.5, 2, 0});
    check_hull(5, (double[]){3, 3, 0, 6, 1}, (double[]){3, 3, 3, 3, 1});
    check_hull(5, (double[]){1, 5, 2, 4.5, .5},
               (double[]){3.125, 3.125, 3.125, 3.125, .5});
    check_hull(5, (double[]){3, 2.5, 2, .3, .2}, (double[]){3, 2.5, 2, .3, .2});
    check_hull(2, (double[]){2, 2}, (double[]){2, 2});
    check_hull(0, (double[]){0}, (double[]){0});
    check_hull(1, (double[]){7}, (double[]){7});
    check_hull(4, (double[]){1, 2, 3, 4}, (double[]){2.5, 2.5, 2.5, 2.5});
}

static void hulls_are_the_least_concave_majorant(void **state)
{
    struct kva_rng r = {3};
    enum { N = 40 };

    (void)state;
    for (int trial = 0; trial < 50; trial++) {
        double g[N], hull[N], sum[N + 1] = {0}, top[N + 1] = {0};
        size_t block[N];

        for (int i = 0; i < N; i++) {
            g[i] = kva_rng_unit(&r);
            sum[i + 1] = sum[i] + g[i];
        }
        kva_hull_gains(g, N, block, hull);
        for (int i = 0; i < N; i++) {
            top[i + 1] = top[i] + hull[i];
            assert_true(i == 0 || hull[i] <= hull[i - 1]);
        }
        for (int i = 0; i <= N; i++) {
            double best = 0; /* the largest chord over i */

            for (int a = 0; a <= i; a++)
                for (int b = i; b <= N; b++) {
                    double y =
                        a == b ? sum[i] : sum[a] + (sum[b] - sum[a]) * (i - a) / (b - a);

                    best = y > best ? y : best;
                }
            assert_near(top[i], best, 1e-12);
        }
    }
}

/* Entries of two cells that stay for totals n .. 0, from gains in scorer order. */
static void sweep(const double *gain, int n, int left[][2])
{
    double hull[16];
    size_t off[3] = {0, (size_t)n, (size_t)(2 * n)}, block[16];
    uint64_t gone[17];
    int least[2] = {0, 0};

    for (int c = 0; c < 2; c++)
        kva_hull_gains(gain + c * n, (size_t)n, block, hull + c * n);
    for (int t = 0; t <= 2 * n; t++)
        gone[t] = (uint64_t)t;
    assert_ok(
        kva_hull_discard(hull, off, 2, least, gone, 2 * n + 1, left[0], &test_error));
}

static double loss(const double *gain, int n, int keep)
{
    double sum = 0;

    for (int i = keep; i < n; i++)
        sum += gain[i];
    return sum;
}

/* The least true loss of two cells at a total. */
static double exact(const double *a, const double *b, int n, int total)
{
    double best = INFINITY;

    for (int i = 0; i <= total && i <= n; i++)
        if (total - i <= n)
            best = fmin(best, loss(a, n, i) + loss(b, n, total - i));
    return best;
}

static void the_greedy_of_E10_is_exact_except_at_four(void **state)
{
    const double gain[] = {5, 1, 4, 2, 0, 3, 3, 0, 6, 1};
    const int want[11][2] = {{0, 0}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4},
                             {2, 4}, {3, 4}, {4, 4}, {4, 5}, {5, 5}};
    int left[11][2];

    (void)state;
    sweep(gain, 5, left);
    for (int total = 0; total <= 10; total++) {
        const int *keep = left[10 - total];
        double got = loss(gain, 5, keep[0]) + loss(gain + 5, 5, keep[1]);
        double best = exact(gain, gain + 5, 5, total);

        assert_int_equal(keep[0], want[total][0]);
        assert_int_equal(keep[1], want[total][1]);
        assert_near(best, total == 4 ? 12 : got, 1e-12);
        assert_true(total != 4 || (got > 13.9 && got < 14.1));
    }
}

static void losses_of_O3(void **state)
{
    const double gain[] = {1, 5, 2, 4.5, .5, 3, 2.5, 2, .3, .2};
    const double greedy[] = {21, 20, 15, 13, 8.5, 5.5, 3, 1},
                 dp[] = {21, 18, 15, 12, 8.5, 5.5, 3, 1};
    int left[11][2];

    (void)state;
    sweep(gain, 5, left);
    for (int total = 1; total <= 7; total++) {
        const int *keep = left[10 - total];

        assert_near(loss(gain, 5, keep[0]) + loss(gain + 5, 5, keep[1]), greedy[total],
                    1e-12);
        assert_near(exact(gain, gain + 5, 5, total), dp[total], 1e-12);
    }
}

/* Relaxed losses: the greedy equals a dynamic program at every total. */
static void the_greedy_is_exact_on_relaxed_losses(void **state)
{
    enum { CELLS = 4, N = 12, ALL = CELLS * N };
    struct kva_rng r = {8};

    (void)state;
    for (int trial = 0; trial < 20; trial++) {
        double hull[ALL], dp[CELLS + 1][ALL + 1];
        size_t off[CELLS + 1], block[N];
        uint64_t gone[ALL + 1];
        int least[CELLS] = {0}, left[ALL + 1][CELLS];

        for (int c = 0; c <= CELLS; c++)
            off[c] = (size_t)(c * N);
        for (int c = 0; c < CELLS; c++) {
            for (int i = 0; i < N; i++)
                hull[c * N + i] = (double)kva_rng_below(&r, 9); /* many ties */
            kva_hull_gains(hull + c * N, N, block, hull + c * N);
        }
        for (int t = 0; t <= ALL; t++) {
            gone[t] = (uint64_t)t;
            dp[0][t] = t == 0 ? 0 : INFINITY;
        }
        for (int c = 0; c < CELLS; c++)
            for (int t = 0; t <= ALL; t++) {
                dp[c + 1][t] = INFINITY;
                for (int i = 0; i <= N && i <= t; i++)
                    dp[c + 1][t] =
                        fmin(dp[c + 1][t], dp[c][t - i] + loss(hull + c * N, N, i));
            }
        assert_ok(kva_hull_discard(hull, off, CELLS, least, gone, ALL + 1, left[0],
                                   &test_error));
        for (int t = 0; t <= ALL; t++) {
            double sum = 0;
            int kept = 0, open = 0;

            for (int c = 0; c < CELLS; c++) {
                int k = left[ALL - t][c];

                sum += loss(hull + c * N, N, k);
                kept += k;
                open += k > 0 && k < N && hull[c * N + k - 1] <= hull[c * N + k];
            }
            assert_int_equal(kept, t);
            assert_near(sum, dp[CELLS][t], 1e-9);
            assert_true(open <= 1); /* a started block is finished first */
        }
    }
}

static void floors_are_never_passed(void **state)
{
    const double hull[] = {3, 2, 1, 9, 8, 7};
    const size_t off[] = {0, 3, 6};
    const int least[] = {2, 1};
    const uint64_t gone[] = {0, 1, 2, 99};
    int left[4][2];

    (void)state;
    assert_ok(kva_hull_discard(hull, off, 2, least, gone, 4, left[0], &test_error));
    assert_int_equal(left[1][0], 2);
    assert_int_equal(left[1][1], 3);
    assert_int_equal(left[2][0], 2);
    assert_int_equal(left[2][1], 2);
    assert_int_equal(left[3][0], 2);
    assert_int_equal(left[3][1], 1);
}

/* Two heads of 400 tokens: head 0 is worth ten times head 1, in the order of the scores.
 */
static void question_of(float *score, float *gain, int n, float worth)
{
    for (int c = 0; c < 2; c++)
        for (int j = 0; j < n; j++) {
            score[c * n + j] = (float)((j * 7) % n);
            gain[c * n + j] = score[c * n + j] * (c == 0 ? worth : 1);
        }
}

static void a_profile_keeps_totals_floors_and_worth(void **state)
{
    enum { N = 401 }; /* prime to 7 */
    float score[2 * N], gain[2 * N];
    struct kva_lukv_question q = {1, 2, N, score, gain, 4, 1};
    struct kva_table t;

    (void)state;
    question_of(score, gain, N, 10);
    assert_ok(kva_lukv_profile(&q, 1, &t, &test_error));
    assert_string_equal(t.kind, "lukv");
    assert_int_equal(t.columns, 99);
    for (int i = 0; i < 99; i++) {
        double a = t.data[i], b = t.data[99 + i];
        double gone = nearbyint((i + 1) / 100.0 * 2 * N);

        if (gone <= 2 * (N - 5)) /* 4 sinks and one recent of each stay */
            assert_near((a + b) * N, gone, 1e-6);
        assert_true(a <= b + 1e-12);
        assert_true(a <= (N - 5) / (double)N + 1e-12);
    }
    /* at a half head 1 has lost all it may above the tenth of its best gain */
    assert_true(t.data[99 + 49] > 0.85 && t.data[49] < 0.15);
    kva_table_release(&t);
}

static void questions_are_averaged(void **state)
{
    enum { N = 401 };
    float score[2][2 * N], gain[2][2 * N];
    struct kva_lukv_question q[2] = {{1, 2, N, score[0], gain[0], 4, 32},
                                     {1, 2, N, score[1], gain[1], 4, 32}};
    struct kva_table one, other, both;

    (void)state;
    question_of(score[0], gain[0], N, 10);
    question_of(score[1], gain[1], N, 0.5f);
    assert_ok(kva_lukv_profile(q, 1, &one, &test_error));
    assert_ok(kva_lukv_profile(q + 1, 1, &other, &test_error));
    assert_ok(kva_lukv_profile(q, 2, &both, &test_error));
    for (int i = 0; i < 2 * 99; i++)
        assert_near(both.data[i], (one.data[i] + other.data[i]) / 2, 1e-12);
    kva_table_release(&one);
    kva_table_release(&other);
    kva_table_release(&both);
}

static void questions_that_make_no_sense_are_refused(void **state)
{
    enum { N = 40 };
    float score[2 * N], gain[2 * N];
    struct kva_lukv_question q = {1, 2, N, score, gain, 4, 36}, two[2];
    struct kva_table t;

    (void)state;
    question_of(score, gain, N, 1);
    assert_int_equal(kva_lukv_profile(&q, 0, &t, &test_error), KVA_EINVALID);
    assert_int_equal(kva_lukv_profile(&q, 1, &t, &test_error), KVA_EINVALID);
    q.window = 1;
    two[0] = two[1] = q;
    two[1].kv_heads = 1;
    assert_int_equal(kva_lukv_profile(two, 2, &t, &test_error), KVA_EINVALID);
    score[9] = NAN; /* a score that is no number ranks last, a gain is refused */
    assert_ok(kva_lukv_profile(&q, 1, &t, &test_error));
    kva_table_release(&t);
    gain[9] = NAN;
    assert_int_equal(kva_lukv_profile(&q, 1, &t, &test_error), KVA_EINVALID);
    assert_null(t.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hulls_of_the_examples),
        cmocka_unit_test(hulls_are_the_least_concave_majorant),
        cmocka_unit_test(the_greedy_of_E10_is_exact_except_at_four),
        cmocka_unit_test(losses_of_O3),
        cmocka_unit_test(the_greedy_is_exact_on_relaxed_losses),
        cmocka_unit_test(floors_are_never_passed),
        cmocka_unit_test(a_profile_keeps_totals_floors_and_worth),
        cmocka_unit_test(questions_are_averaged),
        cmocka_unit_test(questions_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
