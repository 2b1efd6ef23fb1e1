/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_leverage.c - leverage of the unrotated keys; worked example E16. */
#include "tests/methods/methods_test.h"

#include "methods/leverage.h"

enum { SKETCH = 8 };

/* Solves g x = b in place by elimination; g is symmetric and positive. */
static void solve(double g[SKETCH][SKETCH], double *b)
{
    for (int i = 0; i < SKETCH; i++)
        for (int r = i + 1; r < SKETCH; r++) {
            double t = g[r][i] / g[i][i];

            for (int c = i; c < SKETCH; c++)
                g[r][c] -= t * g[i][c];
            b[r] -= t * b[i];
        }
    for (int i = SKETCH - 1; i >= 0; i--) {
        for (int c = i + 1; c < SKETCH; c++)
            b[i] -= g[i][c] * b[c];
        b[i] /= g[i][i];
    }
}

/* Keys turned back, centred, sketched; y' G^-1 y one by one. The z-score of the layer
 * changes no order. */
static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    size_t off[] = {0, (size_t)c->n};
    struct kva_rows rows = {.data = c->k, .off = off, .heads = 1, .dim = f->dim};
    int32_t *back = calloc((size_t)c->n, sizeof *back);
    double(*y)[SKETCH] = calloc((size_t)c->n, sizeof *y), mean[64] = {0};
    double gram[SKETCH][SKETCH] = {{0}};
    float phi[SKETCH * 64];

    for (int j = 0; j < c->n; j++)
        back[j] = -c->pos[j];
    fixture_rotate(NULL, c->layer, &rows, back);
    kva_leverage_sketch(kva_mix64(42), c->layer, c->head, SKETCH, f->dim, phi);
    for (int j = 0; j < c->n * f->dim; j++)
        mean[j % f->dim] += (double)c->k[j] / c->n;
    for (int j = 0; j < c->n; j++)
        for (int i = 0; i < SKETCH; i++)
            for (int x = 0; x < f->dim; x++)
                y[j][i] += ((double)c->k[j * f->dim + x] - mean[x]) *
                           (double)phi[i * f->dim + x];
    for (int i = 0; i < SKETCH; i++) {
        gram[i][i] = 0.01;
        for (int j = 0; j < c->n; j++)
            for (int x = 0; x < SKETCH; x++)
                gram[i][x] += y[j][i] * y[j][x];
    }
    for (int j = 0; j < c->n; j++) {
        double g[SKETCH][SKETCH], b[SKETCH];

        memcpy(g, gram, sizeof g);
        memcpy(b, y[j], sizeof b);
        solve(g, b);
        s[j] = 0;
        for (int i = 0; i < SKETCH; i++)
            s[j] += b[i] * y[j][i];
    }
    free(y);
    free(back);
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("leverage:sketch=8", "leverage:recent=7,sinks=2,sketch=8", naive,
                 (struct kva_protect){0, 0}, (struct kva_protect){2, 7});
}

static void four_numbers_have_the_leverage_of_E16(void **state)
{
    const float x[] = {-2, -1, 1, 2}, one = 1;
    const double want[2][4] = {{.4, .1, .1, .4}, {.3996, .0999, .0999, .3996}};
    struct kva_ops *ops;
    struct kva_arena arena;
    float s[4];

    (void)state;
    kva_arena_init(&arena);
    assert_ok(kva_ops_open("cpu", "f32", 1, &ops, &test_error));
    for (int i = 0; i < 2; i++) {
        assert_ok(
            kva_leverage_rows(ops, &arena, x, 4, 1, &one, 1, i * 0.01, s, &test_error));
        for (int j = 0; j < 4; j++)
            assert_near(s[j], want[i][j], 5e-5);
    }
    kva_arena_release(&arena);
    kva_ops_close(ops);
}

static void scores_of_a_layer_have_mean_zero_and_deviation_one(void **state)
{
    struct fixture f = fixture_new(1, 3, 1, 24, 80, 1, true, 9);
    struct kva_scores sc = score_of(&f, "leverage", ONESHOT);
    size_t n = sc.off[3];
    double mean = 0, square = 0;

    (void)state;
    for (size_t j = 0; j < n; j++)
        mean += (double)sc.s[j] / (double)n;
    for (size_t j = 0; j < n; j++)
        square += pow((double)sc.s[j] - mean, 2) / (double)(n - 1);
    assert_near(mean, 0, 1e-6);
    assert_near(square, 1, 1e-5);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void the_sketch_is_fixed_by_seed_layer_and_head(void **state)
{
    float a[48 * 64], b[48 * 64];
    double sum = 0, square = 0;

    (void)state;
    kva_leverage_sketch(7, 2, 1, 48, 64, a);
    kva_leverage_sketch(7, 2, 1, 48, 64, b);
    assert_memory_equal(a, b, sizeof a);
    for (int i = 0; i < 3; i++) {
        kva_leverage_sketch(7 + (i == 0), 2 + (i == 1), 1 + (i == 2), 48, 64, b);
        assert_memory_not_equal(a, b, sizeof a);
    }
    for (int i = 0; i < 48 * 64; i++) {
        sum += (double)a[i];
        square += (double)a[i] * (double)a[i];
    }
    assert_near(sum / (48 * 64), 0, 0.01);
    assert_near(square / 64, 1, 0.1); /* columns of variance 1/48 */
}

static void rows_that_are_no_numbers_have_no_leverage(void **state)
{
    const float x[] = {1, 2, NAN, 4}, phi[] = {1, 0, 0, 1};
    struct kva_ops *ops;
    struct kva_arena arena;
    float s[2] = {0, 0};

    (void)state;
    kva_arena_init(&arena);
    assert_ok(kva_ops_open("cpu", "f32", 1, &ops, &test_error));
    assert_ok(kva_leverage_rows(ops, &arena, x, 2, 2, phi, 2, 0.01, s, &test_error));
    assert_true(isnan(s[0]) && isnan(s[1]));
    kva_arena_release(&arena);
    kva_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(four_numbers_have_the_leverage_of_E16),
        cmocka_unit_test(scores_of_a_layer_have_mean_zero_and_deviation_one),
        cmocka_unit_test(the_sketch_is_fixed_by_seed_layer_and_head),
        cmocka_unit_test(rows_that_are_no_numbers_have_no_leverage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
