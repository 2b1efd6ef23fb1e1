/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_valuediff_attn.c - distance of the values times the odds of being looked at.
 */
#include "tests/methods/methods_test.h"

enum { ROWS = 10 };

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    int group = f->heads / f->kv_heads;
    double *row = calloc((size_t)c->n, sizeof *row), mean[64] = {0};

    for (int j = 0; j < c->n; j++)
        s[j] = 0;
    for (int i = f->nq - ROWS; i < f->nq; i++)
        for (int a = c->head * group; a < (c->head + 1) * group; a++) {
            naive_row(f, c, i, a, row);
            for (int j = 0; j < c->n; j++)
                s[j] += row[j] / (ROWS * group);
        }
    for (int j = 0; j < c->n * f->dim; j++)
        mean[j % f->dim] += (double)c->v[j] / c->n;
    for (int j = 0; j < c->n; j++) {
        double sum = 0;

        for (int x = 0; x < f->dim; x++)
            sum += pow((double)c->v[j * f->dim + x] - mean[x], 2);
        s[j] *= sqrt(sum) / (1 - s[j]);
    }
    free(row);
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("valuediff_attn:window=10", "valuediff_attn:sinks=2,window=10", naive,
                 (struct kva_protect){0, ROWS}, (struct kva_protect){2, ROWS});
}

/* Equal weights: FastCAOTE with h = 1/4 is valuediff / 3 (methods.md 12, E3). */
static void equal_attention_gives_a_third_of_valuediff(void **state)
{
    const double want[] = {1.1180 / 3, 1.5 / 3, 0.5 / 3, 2.6926 / 3};
    float q[] = {0, 0};
    int32_t q_pos[] = {3};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_scores sc;

    (void)state;
    f.nq = 1;
    f.q = q;
    f.q_pos = q_pos;
    sc = score_of(&f, "valuediff_attn", ONESHOT);
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-4);
    assert_int_equal(sc.protect.recent, 1);
    kva_scores_release(&sc);
    f.q = NULL;
    f.q_pos = NULL;
    fixture_release(&f);
}

static void one_entry_has_all_the_weight_and_a_finite_score(void **state)
{
    struct fixture f = fixture_new(1, 2, 2, 8, 1, 1, false, 5);
    struct kva_scores sc = score_of(&f, "valuediff_attn", ONESHOT);

    (void)state;
    assert_int_equal(sc.nonfinite, 0);
    assert_true(sc.s[0] > 1e30f);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(equal_attention_gives_a_third_of_valuediff),
        cmocka_unit_test(one_entry_has_all_the_weight_and_a_finite_score),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
