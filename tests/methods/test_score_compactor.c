/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_compactor.c - the blend of leverage and chunk attention against its
 * definition in double. The sums over the prompt are given by hand; how they are taken is
 * tested in tests/models/test_collect.c, leverage in test_score_leverage.c. */
#include "methods/leverage.h"
#include "tests/methods/methods_test.h"

enum { LAYERS = 2, KV = 2, DIM = 8, N = 60 };

static float sums[KV * N];
static struct kva_collect wanted;

static const float *side(void *ctx, const struct kva_collect *want, int layer)
{
    (void)ctx;
    (void)layer;
    wanted = *want;
    return sums;
}

/* The sketch sees keys as they are: no rotation here. */
static void rotate(void *ctx, int layer, struct kva_rows *rows, const int32_t *delta)
{
    (void)ctx;
    (void)layer;
    (void)rows;
    (void)delta;
}

static const struct kva_lend lend = {.rotate = rotate};

static struct kva_decide_in decide_in(struct fixture *f)
{
    struct kva_decide_in in = fixture_in(f, ONESHOT);

    in.side = side;
    in.lend = &lend;
    in.seen = f->tokens;
    in.keep = 0.25;
    return in;
}

static void fill_sums(uint64_t seed)
{
    struct kva_rng r = {seed};

    for (int j = 0; j < KV * N; j++)
        sums[j] = (float)(kva_rng_unit(&r) * 3);
}

static double norm_of(const float *v)
{
    double sum = 0;

    for (int x = 0; x < DIM; x++)
        sum += (double)v[x] * (double)v[x];
    return sqrt(sum);
}

/* Pooled sums of entries [lo, hi) of a cell whose sums begin at `at`. */
static void pooled(const struct cell *c, int at, int lo, int hi, bool vnorm, double *out)
{
    for (int j = lo; j < hi; j++) {
        out[j] = 0;
        for (int i = j - 1; i <= j + 1; i++)
            if (i >= lo && i < hi)
                out[j] +=
                    (double)sums[at + i] * (vnorm ? norm_of(c->v + i * DIM) : 1) / 3;
    }
}

static void z(double *x, int n)
{
    double mean = 0, square = 0;

    for (int j = 0; j < n; j++)
        mean += x[j] / n;
    for (int j = 0; j < n; j++)
        square += (x[j] - mean) * (x[j] - mean);
    for (int j = 0; j < n; j++)
        x[j] = (x[j] - mean) / sqrt(square / (n - 1));
}

static void compare(const char *text, int sinks, int recent, int run, double ridge,
                    double beta, bool vnorm)
{
    struct fixture f = fixture_new(LAYERS, KV, 2, DIM, N, 1, false, 21);
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decide_in in = decide_in(&f);
    const int per = N - sinks - recent;
    struct kva_scores sc;

    fill_sums(4);
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.protect.sinks, sinks);
    assert_int_equal(sc.protect.recent, recent);
    assert_int_equal(wanted.start, sinks);
    for (int l = 0; l < LAYERS; l++) {
        double attention[KV * N], lever[KV * N], row[N];

        for (int h = 0; h < KV; h++) {
            struct cell c = cell_read(&f, l, h);
            struct kva_arena arena;
            float phi[6 * DIM], s[N];

            kva_arena_init(&arena);
            kva_leverage_sketch(42, l, h, 6, DIM, phi);
            pooled(&c, h * N, sinks, N - recent, vnorm, row);
            for (int at = 0; at < per; at += run)
                assert_ok(kva_leverage_rows(f.ops, &arena, c.k + (sinks + at) * DIM,
                                            (size_t)(per - at < run ? per - at : run),
                                            DIM, phi, 6, ridge, s + at, &test_error));
            for (int j = 0; j < per; j++) {
                attention[h * per + j] = row[sinks + j];
                lever[h * per + j] = (double)s[j];
            }
            kva_arena_release(&arena);
            cell_release(&c);
        }
        z(attention, KV * per);
        z(lever, KV * per);
        for (int h = 0; h < KV; h++)
            for (int j = 0; j < per; j++)
                assert_near(sc.s[sc.off[l * KV + h] + (size_t)(sinks + j)],
                            beta * lever[h * per + j] + attention[h * per + j], 1e-4);
    }
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void the_blend_follows_its_definition(void **state)
{
    (void)state;
    compare("compactor:recent=7,sinks=5,sketch=6", 5, 7, 512, 5e-3, 0.5, false);
    compare("compactor:beta=2,lev_chunk=20,recent=0,ridge=0.5,sinks=0,sketch=6,vnorm=1",
            0, 0, 20, 0.5, 2, true);
}

/* keep 0.25: three quarters are removed. */
static void the_preset_of_kvpress_blends_by_the_share_removed(void **state)
{
    struct kva_method m = parse("compactor_kp", ONESHOT);

    (void)state;
    assert_string_equal(m.spec,
                        "compactor:beta=-1,chunk=256,compat=1,lev_chunk=0,recent=4,"
                        "ridge=0.01,sinks=8,sketch=48,vnorm=1+uniform");
    assert_true(m.scorer->budget_dependent);
    compare("compactor:beta=-1,lev_chunk=0,recent=4,ridge=0.01,sinks=8,sketch=6,vnorm=1",
            8, 4, 1000, 0.01, 0.75, true);
}

static void everything_protected_or_equal_scores_without_a_nan(void **state)
{
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_method m = parse("compactor", ONESHOT);
    struct kva_decide_in in = decide_in(&f);
    struct kva_scores sc;

    (void)state;
    for (int j = 0; j < N; j++)
        sums[j] = 1;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.nonfinite, 0);
    kva_scores_release(&sc);
    m = parse("compactor:recent=0,sinks=3", ONESHOT); /* one entry is left */
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.nonfinite, 0);
    kva_scores_release(&sc);
    sums[1] = NAN;
    m = parse("compactor:recent=0,sinks=0", ONESHOT);
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.nonfinite, 4);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_blend_follows_its_definition),
        cmocka_unit_test(the_preset_of_kvpress_blends_by_the_share_removed),
        cmocka_unit_test(everything_protected_or_equal_scores_without_a_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
