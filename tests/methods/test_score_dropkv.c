/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_dropkv.c - DropKV of worked example E3, and removal done for real. */
#include "tests/methods/rows_test.h"

/* The change of each row's output when entry j goes and the others share its weight,
 * squared: by removing it. */
static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    int n = c->n, d = f->dim, group = f->heads / f->kv_heads, rows = 32, older = 0;
    double *w = kva_calloc((size_t)(rows * n), sizeof *w);
    double *o = kva_calloc((size_t)d, sizeof *o);

    memset(s, 0, (size_t)n * sizeof *s);
    for (int a = c->head * group; a < (c->head + 1) * group; a++) {
        older = naive_rows(f, c, rows, a, w);
        for (int i = 0; i < rows; i++) {
            memset(o, 0, (size_t)d * sizeof *o);
            for (int j = 0; j < n; j++)
                for (int y = 0; y < d; y++)
                    o[y] += w[i * n + j] * (double)c->v[j * d + y];
            for (int j = 0; j < older; j++)
                for (int y = 0; y < d; y++) {
                    double out = w[i * n + j];
                    double less = (o[y] - out * (double)c->v[j * d + y]) / (1 - out);

                    s[j] += (o[y] - less) * (o[y] - less);
                }
        }
    }
    for (int j = older; j < n; j++)
        s[j] = 0;
    free(w);
    free(o);
}

static void kept_sets_agree_with_entries_removed_for_real(void **state)
{
    const struct kva_protect window = {.recent = 32};

    (void)state;
    check_scorer("dropkv", "dropkv", naive, window, window);
}

static struct kva_scores scripted(const float *w, const float *o)
{
    const float z[5] = {0}, k[10] = {0}, v[] = {1, 0, 0, 1, 1, 1, 4, 2, 0, 0};
    struct fixture f = fixture_of(k, v, 5);
    struct kva_ops ops = *f.ops;
    struct kva_method m = parse("dropkv:window=1", ONESHOT);
    struct kva_decide_in in;
    struct kva_scores sc;

    ops.attend_rows = scripted_rows;
    f.nq = 1;
    f.q = kva_calloc(2, sizeof *f.q);
    f.q_pos = kva_calloc(1, sizeof *f.q_pos);
    f.q_pos[0] = 4;
    script.w = w;
    script.z = z;
    script.o = o;
    script.rows = 1;
    script.n = 5;
    script.v_dim = 2;
    script.call = 0;
    in = fixture_in(&f, ONESHOT);
    in.ops = &ops;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    fixture_release(&f);
    return sc;
}

static void one_row_of_E3_is_caote_squared(void **state)
{
    const float w[] = {0.5f, 0.2f, 0.2f, 0.1f, 0}, o[] = {1.1f, 0.6f};
    const double want[] = {0.37, 0.0856, 0.0106, 0.1280};
    struct kva_scores sc = scripted(w, o);

    (void)state;
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 5e-5);
    kva_scores_release(&sc);
}

/* Nothing would be left: the entry stays, and the score is a number. */
static void an_entry_with_all_the_weight_ranks_first(void **state)
{
    const float w[] = {0, 0, 1, 0, 0}, o[] = {1, 1};
    struct kva_scores sc = scripted(w, o);

    (void)state;
    assert_int_equal(sc.nonfinite, 0);
    assert_true(sc.s[2] > 1e38f);
    assert_true(sc.s[0] < 1e-6f);
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_agree_with_entries_removed_for_real),
        cmocka_unit_test(one_row_of_E3_is_caote_squared),
        cmocka_unit_test(an_entry_with_all_the_weight_ranks_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
