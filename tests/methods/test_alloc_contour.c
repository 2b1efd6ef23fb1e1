/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_contour.c - one dropped mass for all; worked examples E11 and C3. */
#include "tests/methods/alloc_test.h"

/* Hundredths in keep order: the first is that of the one recent position, so it goes last
 * and the others ahead of it. */
static struct kva_scores in_keep_order(int cells, int n, const float *p)
{
    float s[64];

    for (int c = 0; c < cells; c++)
        for (int j = 0; j < n; j++)
            s[c * n + (j + n - 1) % n] = p[c * n + j];
    return scores_of(cells, 1, n, s);
}

static const float E11[] = {70, 20, 5,  3,  1,  1,  30, 20, 15,
                            15, 10, 10, 50, 30, 10, 5,  3,  2};
static const float C3[] = {70, 20, 5, 3, 2, 30, 25, 20, 15, 10, 50, 20, 15, 10, 5};

static void check(const struct kva_scores *sc, const char *rule, uint64_t total, int b0,
                  int b1, int b2)
{
    char text[64];
    struct kva_decision d;

    snprintf(text, sizeof text, "snapkv+contour:rule=%s", rule);
    d = divide(sc, text, NULL, NULL, total);
    assert_budgets(d, b0, b1, b2);
    assert_int_equal(d.protect.recent, 1);
    assert_false(d.fallback);
    kva_decision_release(&d);
}

static void budgets_of_E11(void **state)
{
    struct kva_scores sc = in_keep_order(3, 6, E11);

    (void)state;
    check(&sc, "level", 6, 1, 3, 2);
    check(&sc, "sum", 6, 2, 2, 2);
    check(&sc, "level", 9, 2, 5, 2);
    check(&sc, "sum", 9, 2, 5, 2);
    check(&sc, "level", 12, 3, 6, 3);
    check(&sc, "sum", 12, 3, 6, 3);
    kva_scores_release(&sc);
}

static void budgets_of_C3(void **state)
{
    struct kva_scores sc = in_keep_order(3, 5, C3);

    (void)state;
    check(&sc, "level", 6, 1, 3, 2);
    check(&sc, "level", 7, 2, 3, 2);
    check(&sc, "level", 8, 2, 3, 3);
    check(&sc, "sum", 6, 2, 3, 1);
    check(&sc, "sum", 7, 2, 3, 2);
    check(&sc, "sum", 8, 2, 4, 2);
    /* weights at s = 2: .10, .45, .30; three entries: .35, 1.59, 1.06 */
    check(&sc, "propmass", 6, 1, 3, 2);
    kva_scores_release(&sc);
}

static void the_flat_ones_share_what_the_others_leave(void **state)
{
    struct kva_scores sc = in_keep_order(3, 5, C3);

    (void)state;
    /* at s = 3: drops .05, .25, .15; flat from .10: the second and third; the first is at
     * .10 with two, the others share 7 of 9, the remainder to the lower */
    check(&sc, "fixed", 9, 2, 4, 3);
    check(&sc, "fixed,theta=0.2", 9, 2, 4, 3); /* .30 -> .15 at 3 and 9 - 2 - 3 */
    /* none flat: in proportion to the drops */
    check(&sc, "fixed,theta=0.5", 6, 1, 3, 2);
    kva_scores_release(&sc);
}

static void the_floor_of_newest_entries_follows_the_budget(void **state)
{
    const struct {
        uint64_t total;
        int r;
    } rows[] = {{2, 1}, {8, 1}, {80, 10}, {256, 32}, {390, 32}};
    struct kva_scores sc = flat_scores(1, 2, 200);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kva_decision d = divide(&sc, "snapkv+contour", NULL, NULL, rows[i].total);

        assert_int_equal(d.protect.recent, rows[i].r);
        kva_decision_release(&d);
    }
    /* the scorer's own window is larger; above the budget it is cut */
    sc.protect.recent = 50;
    {
        struct kva_decision d = divide(&sc, "snapkv+contour", NULL, NULL, 80);

        assert_int_equal(d.protect.recent, 50);
        assert_true(d.fallback && d.protect_overflow);
        assert_budgets(d, 40, 40);
        kva_decision_release(&d);
    }
    kva_scores_release(&sc);
}

/* The definition over again: the smallest lambda among the drops that fits, then one by
 * one. */
static void level_is_the_smallest_lambda(void **state)
{
    struct kva_rng r = {11};
    enum { CELLS = 6, N = 40 };
    float s[CELLS * N];

    (void)state;
    for (int trial = 0; trial < 40; trial++) {
        double drop[CELLS][N + 1], best = 2;
        int b[CELLS], total = CELLS + (int)kva_rng_below(&r, CELLS * (N - 1)), left;
        struct kva_scores sc;
        struct kva_decision d;

        for (int i = 0; i < CELLS * N; i++)
            s[i] = (float)pow(kva_rng_unit(&r), 1 + i / N);
        sc = scores_of(3, 2, N, s);
        d = divide(&sc, "snapkv+contour:floor=1", NULL, NULL, (uint64_t)total);
        for (int c = 0; c < CELLS; c++) {
            double sum = 0, at = 0;
            struct ranked k[N];

            for (int j = 0; j < N; j++) {
                k[j] = (struct ranked){
                    .cls = j == N - 1, .score = (double)s[c * N + j], .pos = j};
                sum += k[j].score;
            }
            qsort(k, N, sizeof k[0], ranked_cmp);
            for (int j = 0; j <= N; j++) {
                drop[c][j] = 1 - at / sum;
                at += j < N ? k[j].score : 0;
            }
        }
        for (int c = 0; c < CELLS; c++)
            for (int j = 1; j <= N; j++) {
                int need = 0;

                for (int x = 0; x < CELLS; x++) {
                    int y = 1;

                    while (y < N && drop[x][y] > drop[c][j] + 1e-12)
                        y++;
                    need += y;
                }
                if (need <= total && drop[c][j] < best)
                    best = drop[c][j];
            }
        left = total;
        for (int c = 0; c < CELLS; c++) {
            b[c] = 1;
            while (best < 2 && b[c] < N && drop[c][b[c]] > best + 1e-12)
                b[c]++;
            left -= b[c];
        }
        for (; left > 0; left--) {
            int top = -1;

            for (int c = 0; c < CELLS; c++)
                if (b[c] < N && (top < 0 || drop[c][b[c]] > drop[top][b[top]]))
                    top = c;
            b[top]++;
        }
        for (int c = 0; c < CELLS; c++)
            assert_int_equal(d.budget[c], b[c]);
        kva_decision_release(&d);
        kva_scores_release(&sc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_of_E11),
        cmocka_unit_test(budgets_of_C3),
        cmocka_unit_test(the_flat_ones_share_what_the_others_leave),
        cmocka_unit_test(the_floor_of_newest_entries_follows_the_budget),
        cmocka_unit_test(level_is_the_smallest_lambda),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
