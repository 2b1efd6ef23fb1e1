/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_cake.c - mean and variance of window rows: by hand, and a second opinion. */
#include "tests/methods/rows_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    int n = c->n, group = f->heads / f->kv_heads, rows = 32, older = 0;
    double *w = kva_calloc((size_t)(rows * n), sizeof *w);
    double *x = kva_calloc((size_t)n, sizeof *x);

    memset(s, 0, (size_t)n * sizeof *s);
    for (int a = c->head * group; a < (c->head + 1) * group; a++) {
        older = naive_rows(f, c, rows, a, w);
        for (int j = 0; j < n; j++) {
            double sum = 0, square = 0;

            for (int i = 0; i < rows; i++) {
                sum += w[i * n + j];
                square += w[i * n + j] * w[i * n + j];
            }
            x[j] = sum / rows + 200 * (square - sum * sum / rows) / (rows - 1);
        }
        for (int j = 0; j < older; j++)
            s[j] += naive_pool(x, older, j, 5, false) / group;
    }
    free(w);
    free(x);
}

static void kept_sets_agree_with_a_second_opinion(void **state)
{
    const struct kva_protect window = {.recent = 32};

    (void)state;
    check_scorer("cake", "cake", naive, window, window);
}

/* Rows (.1, .5) and (.3, .5) over two entries: means .2 and .5, variances .02 and 0. */
static void variance_is_unbiased(void **state)
{
    const float w[] = {0.1f, 0.5f, 0.4f, 0, 0.3f, 0.5f, 0.1f, 0.1f};
    const float k[8] = {0}, v[8] = {0};
    struct fixture f = fixture_of(k, v, 4);
    struct kva_ops ops = *f.ops;
    struct kva_method m = parse("cake:gamma=10,kernel=1,window=2", ONESHOT);
    struct kva_decide_in in;
    struct kva_scores sc;

    (void)state;
    ops.attend_rows = scripted_rows;
    f.nq = 2;
    f.q = kva_calloc(4, sizeof *f.q);
    f.q_pos = kva_calloc(2, sizeof *f.q_pos);
    f.q_pos[0] = 2;
    f.q_pos[1] = 3;
    script.w = w;
    script.rows = 2;
    script.n = 4;
    script.call = 0;
    in = fixture_in(&f, ONESHOT);
    in.ops = &ops;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_near(sc.s[0], 0.2 + 10 * 0.02, 1e-6);
    assert_near(sc.s[1], 0.5, 1e-6);
    assert_int_equal(sc.protect.recent, 2);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void one_row_has_no_variance(void **state)
{
    struct fixture f = fixture_new(1, 1, 1, 8, 20, 1, false, 4);
    struct kva_scores a = score_of(&f, "cake:window=1", ONESHOT);
    struct kva_scores b = score_of(&f, "cake:gamma=0,window=1", ONESHOT);

    (void)state;
    assert_int_equal(a.nonfinite, 0);
    assert_memory_equal(a.s, b.s, 20 * sizeof *a.s);
    kva_scores_release(&a);
    kva_scores_release(&b);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_agree_with_a_second_opinion),
        cmocka_unit_test(variance_is_unbiased),
        cmocka_unit_test(one_row_has_no_variance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
