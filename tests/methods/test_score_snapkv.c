/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_snapkv.c - window attention, cut, pooled, averaged; worked example E5. */
#include "tests/methods/methods_test.h"

/* What the naive scorer below is asked to do. */
static int rows_wanted = 16, kernel_wanted = 5;
static bool max_wanted, before_wanted;

static double pooled(const double *x, int n, int j)
{
    double sum = 0, best = -INFINITY;

    for (int i = j - kernel_wanted / 2; i <= j + kernel_wanted / 2; i++) {
        sum += i >= 0 && i < n ? x[i] : 0;
        best = i >= 0 && i < n && x[i] > best ? x[i] : best;
    }
    return max_wanted ? best : sum / kernel_wanted;
}

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    int group = f->heads / f->kv_heads, n = 0;
    double *row = kva_calloc((size_t)c->n, sizeof *row);
    double *m = kva_calloc((size_t)c->n, sizeof *m);
    double *all = kva_calloc((size_t)c->n, sizeof *all);

    while (n < c->n && c->pos[n] < f->tokens - rows_wanted)
        n++;
    for (int j = 0; j < c->n; j++)
        s[j] = 0;
    for (int a = c->head * group; a < (c->head + 1) * group; a++) {
        memset(m, 0, (size_t)c->n * sizeof *m);
        for (int i = f->nq - rows_wanted; i < f->nq; i++) {
            naive_row(f, c, i, a, row);
            for (int j = 0; j < n; j++)
                m[j] += row[j] / rows_wanted;
        }
        for (int j = 0; j < n; j++) {
            all[j] += m[j] / group;
            s[j] += pooled(m, n, j) / group;
        }
    }
    for (int j = 0; j < n && before_wanted; j++)
        s[j] = pooled(all, n, j);
    free(row);
    free(m);
    free(all);
}

static void check(const char *text, int rows, int kernel, bool max, bool before)
{
    rows_wanted = rows;
    kernel_wanted = kernel;
    max_wanted = max;
    before_wanted = before;
    check_scorer(text, text, naive, (struct kva_protect){0, rows},
                 (struct kva_protect){0, rows});
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check("snapkv:window=16", 16, 5, false, false);
    check("snapkv:window=9,kernel=1", 9, 1, false, false);
    check("snapkv:window=16,kernel=3,pool=max", 16, 3, true, false);
    check("snapkv:window=16,pool=max,group=before", 16, 5, true, true);
    check("snapkv32", 32, 7, true, false);
}

/* ---- E5: the window attention is scripted
 * ------------------------------------------------ */

static void scripted_window(struct kva_ops *ops, const float *q, const int32_t *q_pos,
                            int nq, int heads, const struct kva_rows *k,
                            const int32_t *k_pos, float scale, float *m,
                            const size_t *a_off)
{
    /* two query heads, two rows, four prefix keys; the two window columns hold what is
     * left */
    const double rows[2][2][4] = {{{.1, .5, .1, .1}, {.2, .3, .2, .1}},
                                  {{0, .1, .1, .6}, {.1, .1, .1, .4}}};

    (void)ops, (void)q, (void)q_pos, (void)k, (void)k_pos, (void)scale;
    assert_int_equal(nq, 2);
    assert_int_equal(heads, 2);
    for (int a = 0; a < 2; a++) {
        assert_int_equal(a_off[a + 1] - a_off[a], 6);
        for (size_t j = 0; j < 6; j++)
            m[a_off[a] + j] = j < 4 ? (float)((rows[a][0][j] + rows[a][1][j]) / 2)
                                    : 9.0f; /* must be cut */
    }
}

static void check_e5(const char *text, const double *want)
{
    struct fixture f = fixture_new(1, 1, 2, 8, 6, 2, false, 4);
    struct kva_ops ops = *f.ops;
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;

    ops.window_mean = scripted_window;
    in.ops = &ops;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.protect.recent, 2);
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-4);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void orders_of_reduction_give_the_numbers_of_E5(void **state)
{
    const double avg[] = {.1167, .1583, .2250, .1417};
    const double max_mean[] = {.25, .25, .45, .325};
    const double mean_max[] = {.25, .25, .30, .30};

    (void)state;
    check_e5("snapkv:window=2,kernel=3", avg);
    check_e5("snapkv:window=2,kernel=3,group=before", avg);
    check_e5("snapkv:window=2,kernel=3,pool=max", max_mean);
    check_e5("snapkv:window=2,kernel=3,pool=max,group=before", mean_max);
}

/* ---- the window that is used
 * ---------------------------------------------------------------- */

static int recent_of(int tokens, int nq, const char *text, int block_len)
{
    struct fixture f = fixture_new(1, 1, 1, 8, tokens, nq, false, 4);
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;
    int recent;

    in.block_len = block_len;
    in.is_block = block_len != tokens;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    recent = sc.protect.recent;
    kva_scores_release(&sc);
    fixture_release(&f);
    return recent;
}

static void a_context_not_longer_than_the_window_uses_half_of_it(void **state)
{
    (void)state;
    assert_int_equal(recent_of(200, 64, "snapkv", 200), 64);
    assert_int_equal(recent_of(65, 64, "snapkv", 65), 64);
    assert_int_equal(recent_of(64, 64, "snapkv", 64), 32);
    assert_int_equal(recent_of(21, 21, "snapkv", 21), 10);
    assert_int_equal(recent_of(1, 1, "snapkv", 1), 1);
}

static void a_block_shorter_than_the_window_limits_it(void **state)
{
    (void)state;
    assert_int_equal(recent_of(300, 64, "snapkv", 44), 44);
    assert_int_equal(recent_of(300, 64, "snapkv", 128), 64);
    assert_int_equal(recent_of(300, 64, "snapkv:window=8", 44), 8);
    assert_int_equal(recent_of(300, 64, "snapkv:recent=90", 44), 90);
}

static int no_queries(void *ctx, int layer, const float **q, const int32_t **q_pos)
{
    (void)ctx;
    (void)layer;
    (void)q;
    (void)q_pos;
    return 0;
}

static void a_session_without_queries_is_refused(void **state)
{
    struct fixture f = fixture_new(1, 1, 1, 8, 30, 1, false, 4);
    struct kva_method m = parse("snapkv", ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;
    struct kva_error err = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        in.queries = i == 0 ? NULL : no_queries;
        err = (struct kva_error){0};
        assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &err), KVA_EINVALID);
        assert_string_equal(err.text, "snapkv needs queries and the session keeps none");
        assert_null(sc.s);
    }
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(orders_of_reduction_give_the_numbers_of_E5),
        cmocka_unit_test(a_context_not_longer_than_the_window_uses_half_of_it),
        cmocka_unit_test(a_block_shorter_than_the_window_limits_it),
        cmocka_unit_test(a_session_without_queries_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
