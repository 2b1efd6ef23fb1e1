/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_lagkv.c - lags measured against the next one; worked example E14. */
#include "tests/methods/methods_test.h"

static int lag, sinks;
static bool cross, recursive;

/* The lag an entry belongs to; -1: a sink. */
static int lag_of(const struct cell *c, int j)
{
    int at = (recursive ? c->pos[j] : j) - sinks;

    return at < 0 ? -1 : at / lag;
}

/* Deviation over the channels of row j, rescaled by the rows of lag `ref`. */
static double spread(const struct cell *c, const float *rows, int dim, int j, int ref)
{
    double x[64], mean = 0, sum = 0;

    for (int i = 0; i < dim; i++) {
        double low = INFINITY, high = -INFINITY;

        for (int r = 0; r < c->n; r++)
            if (lag_of(c, r) == ref) {
                low = fmin(low, (double)rows[r * dim + i]);
                high = fmax(high, (double)rows[r * dim + i]);
            }
        x[i] = high > low ? ((double)rows[j * dim + i] - low) / (high - low) : 0;
        mean += x[i] / dim;
    }
    for (int i = 0; i < dim; i++)
        sum += pow(x[i] - mean, 2);
    return sqrt(sum / (dim - 1));
}

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    int full = ((recursive ? f->tokens : c->n) - sinks) / lag;
    double *z = calloc((size_t)c->n, sizeof *z), *u = calloc((size_t)c->n, sizeof *u);

    for (int j = 0; j < c->n; j++) {
        int own = lag_of(c, j);

        s[j] = 1;
        for (int side = 0; own >= 0 && own < full - 1 && side < 2; side++) {
            const float *rows = side ? c->v : c->k;
            double sum = 0;

            for (int i = 0; i < c->n; i++)
                if (lag_of(c, i) == own)
                    sum += exp(spread(c, rows, f->dim, i, own + 1));
            z[j] += exp(spread(c, rows, f->dim, j, own + 1)) / sum / 2;
        }
    }
    for (int j = 0; j < c->n; j++) {
        int better = 0;

        if (lag_of(c, j) < 0 || lag_of(c, j) >= full - 1)
            continue;
        for (int i = 0; i < c->n; i++)
            better += lag_of(c, i) == lag_of(c, j) && z[i] > z[j];
        s[j] = cross ? z[j] : (double)((float)(lag - 1 - better) / (float)lag);
    }
    free(z);
    free(u);
}

/* 150 entries: 9 lags of 16 behind 4 sinks, the tail has 16 + 2. Positions to 170: 10
 * lags, the tail begins at 4 + 9 * 16. */
static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    lag = 16;
    sinks = 4;
    for (int c = 0; c < 2; c++) {
        struct fixture even = fixture_new(2, 3, 3, 24, 150, 1, false, 1);
        struct fixture ragged = fixture_new(3, 2, 2, 16, 170, 1, true, 2);

        cross = c == 1;
        recursive = false;
        check_kept(&even, cross ? "lagkv:cross=1,lag=16" : "lagkv:lag=16", ONESHOT, naive,
                   (struct kva_protect){4, 18});
        recursive = true;
        check_kept(&ragged, cross ? "lagkv:cross=1,lag=16" : "lagkv:lag=16", BLOCK128,
                   naive, (struct kva_protect){4, 22});
        fixture_release(&even);
        fixture_release(&ragged);
    }
}

/* Lags of what is held, in a cache that has lost entries. */
static void lags_of_entries_held_score_like_the_plain_form(void **state)
{
    struct fixture f = fixture_new(2, 2, 1, 8, 170, 1, true, 4);
    struct kva_scores sc = score_of(&f, "lagkv:lag=8,recursive=0,sinks=3", BLOCK128);

    (void)state;
    lag = 8;
    sinks = 3;
    cross = recursive = false;
    for (int i = 0; i < 4; i++) {
        struct cell c = cell_read(&f, i / 2, i % 2);
        double *s = calloc((size_t)c.n, sizeof *s);

        naive(&f, &c, s);
        for (int j = sinks; j < c.n; j++)
            assert_near(sc.s[sc.off[i] + (size_t)j], s[j], 1e-7);
        free(s);
        cell_release(&c);
    }
    kva_scores_release(&sc);
    fixture_release(&f);
}

/* Sinks 4, g 128. Scored entries are those below 1. */
static void check_lengths(int n, int tail, int scored)
{
    struct fixture f = fixture_new(1, 1, 1, 4, n, 1, false, 6);
    struct kva_scores sc = score_of(&f, "lagkv", ONESHOT);
    int below = 0;

    assert_int_equal(sc.protect.sinks, 4);
    assert_int_equal(sc.protect.recent, tail);
    for (int j = 0; j < n; j++)
        below += sc.s[j] < 1;
    assert_int_equal(below, scored * 128);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void lengths_of_E14_have_its_tails_and_lags(void **state)
{
    struct fixture f = fixture_new(1, 1, 1, 4, 259, 1, false, 6);
    struct kva_scores sc = score_of(&f, "lagkv", ONESHOT);

    (void)state;
    check_lengths(1000, 228, 6);
    check_lengths(300, 168, 1);
    check_lengths(260, 128, 1);
    /* 259: recency only */
    assert_int_equal(sc.protect.sinks, 0);
    assert_int_equal(sc.protect.recent, 0);
    for (int j = 1; j < 259; j++)
        assert_true(sc.s[j] > sc.s[j - 1]);
    kva_scores_release(&sc);
    sc = score_of(&f, "lagkv:compat=1", ONESHOT);
    assert_int_equal(sc.protect.sinks, 4);
    kva_scores_release(&sc);
    fixture_release(&f);
}

/* Rescaled (0,0) (1,2), deviations 0 and .7071; the values are alike, so cross=1 shows
 * the softmax itself. */
static void deviations_of_E14_are_0_and_7071(void **state)
{
    const float k[] = {0, 0, 2, 4, 0, 0, 2, 2};
    struct fixture f = fixture_of(k, k, 4);
    struct kva_scores sc = score_of(&f, "lagkv:cross=1,lag=2,sinks=0", ONESHOT);
    double e = exp(sqrt(0.5));

    (void)state;
    assert_near(sc.s[0], 1 / (1 + e), 1e-6);
    assert_near(sc.s[1], e / (1 + e), 1e-6);
    assert_near(sc.s[2], 1, 0);
    kva_scores_release(&sc);
    sc = score_of(&f, "lagkv:lag=2,sinks=0", ONESHOT);
    assert_near(sc.s[0], 0, 0);
    assert_near(sc.s[1], 0.5, 0);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void a_flat_channel_counts_as_zero(void **state)
{
    const float k[] = {1, 9, 2, 9, 3, 5, 4, 5};
    struct fixture f = fixture_of(k, k, 4);
    struct kva_scores sc = score_of(&f, "lagkv:cross=1,lag=2,sinks=0", ONESHOT);
    double e = exp((2 - 1) / sqrt(2)); /* rescaled (-2,0) (-1,0) */

    (void)state;
    assert_int_equal(sc.nonfinite, 0);
    assert_near(sc.s[0], e / (1 + e), 1e-6);
    assert_near(sc.s[1], 1 / (1 + e), 1e-6);
    kva_scores_release(&sc);
    fixture_release(&f);
}

/* Lags 0 and 1 keep what they have when a third is complete and half of each may stay. */
static void what_a_thinned_lag_kept_stays(void **state)
{
    struct fixture f = fixture_new(1, 1, 1, 8, 36, 1, false, 8);
    const struct kva_schedule chunked = {KVA_CHUNKED, 12, 0};
    struct kva_method m = parse("lagkv:lag=12,sinks=0", chunked);
    struct kva_decide_in in = fixture_in(&f, BLOCK128);
    struct kva_rng r = {99};
    struct kva_scores sc;
    struct kva_decision d;
    int32_t pos[64], later[64];

    (void)state;
    /* 36 tokens: lags 0 and 1 to 6 each, the tail 12 */
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_ok(kva_method_select(&m, &sc, NULL, 24, &d, &test_error));
    assert_ok(kva_kvstore_keep(f.store, &d.keep, &test_error));
    kva_kvstore_positions(f.store, 0, 0, pos);
    assert_true(pos[5] < 12 && pos[6] >= 12 && pos[11] < 24 && pos[12] == 24);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    /* 12 more: lag 2 to 6, the others as they were */
    fixture_append(&f, &r, 36, 12);
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_ok(kva_method_select(&m, &sc, NULL, 30, &d, &test_error));
    assert_ok(kva_kvstore_keep(f.store, &d.keep, &test_error));
    kva_kvstore_positions(f.store, 0, 0, later);
    assert_memory_equal(pos, later, 12 * sizeof *pos);
    assert_true(later[17] < 36 && later[18] == 36);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(lags_of_entries_held_score_like_the_plain_form),
        cmocka_unit_test(lengths_of_E14_have_its_tails_and_lags),
        cmocka_unit_test(deviations_of_E14_are_0_and_7071),
        cmocka_unit_test(a_flat_channel_counts_as_zero),
        cmocka_unit_test(what_a_thinned_lag_kept_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
