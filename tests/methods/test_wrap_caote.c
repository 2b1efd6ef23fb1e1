/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_wrap_caote.c - E3, the exact change of the output, the ends of the range. */
#include "tests/methods/wrap_test.h"

/* One KV head with values v[n][2] and base scores h, rescored by the wrapper. */
static void rescore(const char *text, const float *v, const float *h, int n, float *out)
{
    struct kva_method m = parse(text, ONESHOT);
    const size_t off[2] = {0, (size_t)n};
    float *copy = kva_calloc((size_t)(2 * n), sizeof *copy);
    struct kva_rows rows = {copy, off, 1, 2};
    struct kva_arena arena;
    struct kva_layer_view view = {
        .scratch = &arena, .kv_heads = 1, .heads = 1, .v_dim = 2, .v = &rows, .off = off};

    memcpy(copy, v, (size_t)(2 * n) * sizeof *v);
    memcpy(out, h, (size_t)n * sizeof *out);
    kva_arena_init(&arena);
    assert_ok(m.wrapper->rescore(&view, &m.wrapper_params, h, out, NULL, &test_error));
    kva_arena_release(&arena);
    free(copy);
}

static const float H[] = {0.5f, 0.2f, 0.2f, 0.1f};

static void scores_give_the_worked_example(void **state)
{
    static const double caote[] = {0.6083, 0.2926, 0.1031, 0.3578};
    static const double fast[] = {1.1180, 0.375, 0.125, 0.2992};
    const float thrice[] = {1.5f, 0.6f, 0.6f, 0.3f};
    float s[4];

    (void)state;
    rescore("snapkv+caote", E2_V, H, 4, s);
    for (int j = 0; j < 4; j++)
        assert_near(s[j], caote[j], 1e-4);
    rescore("snapkv+caote", E2_V, thrice, 4, s); /* the scale of the base drops out */
    for (int j = 0; j < 4; j++)
        assert_near(s[j], caote[j], 1e-4);
    rescore("snapkv+fastcaote", E2_V, H, 4, s);
    for (int j = 0; j < 4; j++)
        assert_near(s[j], fast[j], 1e-4);
}

/* From the definition: the output without j, renormalised. */
static void the_score_is_the_change_of_the_output(void **state)
{
    struct kva_rng r = {12};
    float v[40], h[20], s[20];

    (void)state;
    for (int i = 0; i < 40; i++)
        v[i] = normal(&r);
    for (int j = 0; j < 20; j++)
        h[j] = (float)kva_rng_unit(&r);
    rescore("tova+caote", v, h, 20, s);
    for (int out = 0; out < 20; out++) {
        double x[2] = {0}, y[2] = {0}, sum = 0, rest = 0;

        for (int j = 0; j < 20; j++) {
            sum += (double)h[j];
            rest += j == out ? 0 : (double)h[j];
        }
        for (int j = 0; j < 20; j++)
            for (int i = 0; i < 2; i++) {
                x[i] += (double)h[j] / sum * (double)v[2 * j + i];
                y[i] += j == out ? 0 : (double)h[j] / rest * (double)v[2 * j + i];
            }
        assert_near(s[out],
                    sqrt((x[0] - y[0]) * (x[0] - y[0]) + (x[1] - y[1]) * (x[1] - y[1])),
                    1e-6);
    }
}

static void equal_weights_give_valuediff_over_n_less_one(void **state)
{
    static const double valuediff[] = {1.1180, 1.5, 0.5, 2.6926};
    const float same[] = {0.25f, 0.25f, 0.25f, 0.25f}, none[4] = {0};
    float s[4], z[4];

    (void)state;
    rescore("snapkv+fastcaote", E2_V, same, 4, s);
    for (int j = 0; j < 4; j++)
        assert_near(s[j], valuediff[j] / 3, 1e-4);
    rescore("snapkv+fastcaote", E2_V, none, 4, z); /* no weight at all: all the same */
    for (int j = 0; j < 4; j++)
        assert_near(z[j], s[j], 1e-6);
    rescore("snapkv+caote", E2_V, none, 4, z); /* the mean is the output then */
    for (int j = 0; j < 4; j++)
        assert_near(z[j], s[j], 1e-6);
}

static void an_entry_with_all_the_weight_stays(void **state)
{
    const float all[] = {0, 0, 3, 0}, bad[] = {1, -INFINITY, 1, 1};
    float s[4];

    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        const char *text = fast ? "snapkv+fastcaote" : "snapkv+caote";

        rescore(text, E2_V, all, 4, s);
        assert_true(isfinite(s[2]) && s[2] > 1e38f);
        assert_near(s[0], 0, 0);
        rescore(text, E2_V, H, 1, s); /* alone */
        assert_true(isfinite(s[0]) && s[0] > 1e38f);
        rescore(text, E2_V, bad, 4, s); /* no number: last, and no harm to the others */
        assert_true(s[1] < -1e38f && isfinite(s[0]) && isfinite(s[2]) && isfinite(s[3]));
    }
}

static void eviction_follows_the_worked_example(void **state)
{
    float c[4], f[4];
    struct kva_scores sc;
    static const int order[2][4] = {{2, 1, 3, 0}, {2, 3, 1, 0}};

    (void)state;
    rescore("snapkv+caote", E2_V, H, 4, c);
    rescore("snapkv+fastcaote", E2_V, H, 4, f);
    for (int fast = 0; fast < 2; fast++) {
        sc = scores_of(1, 1, 4, fast ? f : c);
        for (int b = 1; b < 4; b++) {
            struct kva_decision d =
                select_of(&sc, fast ? "snapkv+fastcaote" : "snapkv+caote", (uint64_t)b);

            for (int i = 0; i < b; i++)
                for (int gone = 0; gone < 4 - b; gone++)
                    assert_int_not_equal(d.keep.rank[i], order[fast][gone]);
            kva_decision_release(&d);
        }
        kva_scores_release(&sc);
    }
}

/* Through a store, ragged, and the needs joined. */
static void a_whole_decision_is_made(void **state)
{
    struct fixture f = fixture_new(2, 2, 2, 16, 90, 20, true, 21);
    struct wrapped w = wrap_of(&f, NULL, "tova+caote", BLOCK128);

    (void)state;
    assert_int_equal(kva_method_needs(&w.m, NULL),
                     KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES | KVA_NEEDS_VALUES);
    for (int c = 0; c < 4; c++) {
        struct cell cell = cell_read(&f, c / 2, c % 2);
        const float *h = w.base.s + w.base.off[c];
        double sum = 0, x[16] = {0};

        for (int j = 0; j < cell.n; j++)
            sum += (double)h[j];
        for (int j = 0; j < cell.n; j++)
            for (int i = 0; i < 16; i++)
                x[i] += (double)h[j] / sum * (double)cell.v[j * 16 + i];
        for (int j = 0; j < cell.n; j++) {
            double apart = 0;

            for (int i = 0; i < 16; i++)
                apart += pow(x[i] - (double)cell.v[j * 16 + i], 2);
            assert_near(w.out.s[w.out.off[c] + (size_t)j],
                        (double)h[j] / (sum - (double)h[j]) * sqrt(apart), 1e-5);
        }
        cell_release(&cell);
    }
    wrapped_release(&w);
    fixture_release(&f);
}

static void what_has_no_meaning_is_refused(void **state)
{
    (void)state;
    refused("keydiff+caote", "negative ones cannot");
    refused("knorm+fastcaote", "negative ones cannot");
    refused("snapkv+caote+fastcaote", "two wrappers");
    refused("snapkv+caote+global", "no common unit");
    parse("snapkv+caote+global:norm=z", ONESHOT);
    parse("snapkv+caote+adakv", ONESHOT);
}

static void counts_are_exact_whatever_the_scores(void **state)
{
    (void)state;
    check_counts("snapkv+caote", 0);
    check_counts("snapkv+fastcaote", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_give_the_worked_example),
        cmocka_unit_test(the_score_is_the_change_of_the_output),
        cmocka_unit_test(equal_weights_give_valuediff_over_n_less_one),
        cmocka_unit_test(an_entry_with_all_the_weight_stays),
        cmocka_unit_test(eviction_follows_the_worked_example),
        cmocka_unit_test(a_whole_decision_is_made),
        cmocka_unit_test(what_has_no_meaning_is_refused),
        cmocka_unit_test(counts_are_exact_whatever_the_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
