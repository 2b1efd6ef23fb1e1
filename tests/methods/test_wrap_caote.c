/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_wrap_caote.c - E3, the exact change of the output, the ends of the range. */
#include "tests/methods/caote_test.h"

static void scores_give_the_worked_example(void **state)
{
    static const double caote[] = {0.6083, 0.2926, 0.1031, 0.3578};
    const float thrice[] = {1.5f, 0.6f, 0.6f, 0.3f};
    float s[4];

    (void)state;
    rescore("snapkv+caote", E2_V, H, 4, s);
    for (int j = 0; j < 4; j++)
        assert_near(s[j], caote[j], 1e-4);
    rescore("snapkv+caote", E2_V, thrice, 4, s); /* the scale of the base drops out */
    for (int j = 0; j < 4; j++)
        assert_near(s[j], caote[j], 1e-4);
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

static void no_weight_at_all_weighs_the_same(void **state)
{
    const float same[] = {0.25f, 0.25f, 0.25f, 0.25f}, none[4] = {0};
    float s[4], z[4];

    (void)state;
    rescore("snapkv+caote", E2_V, same, 4, s);
    rescore("snapkv+caote", E2_V, none, 4, z);
    for (int j = 0; j < 4; j++)
        assert_near(z[j], s[j], 1e-6);
}

static void an_entry_with_all_the_weight_stays(void **state)
{
    (void)state;
    check_ends("snapkv+caote");
}

static void eviction_follows_the_worked_example(void **state)
{
    (void)state;
    check_order("snapkv+caote", (const int[]){2, 1, 3, 0});
}

/* Through a store, ragged, and the needs joined. */
static void a_whole_decision_is_made(void **state)
{
    struct fixture f = fixture_new(2, 2, 2, 16, 90, 20, true, 21);
    struct wrapped w = wrap_of(&f, NULL, "tova+caote", BLOCK128);

    (void)state;
    assert_int_equal(kva_method_needs(&w.m, NULL), KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES |
                                                       KVA_NEEDS_VALUES | KVA_NEEDS_HOST);
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
    refused("snapkv+caote+fastcaote", "two wrappers");
    refused("snapkv+caote+global", "no common unit");
    parse("snapkv+caote+global:norm=z", ONESHOT);
    parse("snapkv+caote+adakv", ONESHOT);
}

static void counts_are_exact_whatever_the_scores(void **state)
{
    (void)state;
    check_counts("snapkv+caote", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_give_the_worked_example),
        cmocka_unit_test(the_score_is_the_change_of_the_output),
        cmocka_unit_test(no_weight_at_all_weighs_the_same),
        cmocka_unit_test(an_entry_with_all_the_weight_stays),
        cmocka_unit_test(eviction_follows_the_worked_example),
        cmocka_unit_test(a_whole_decision_is_made),
        cmocka_unit_test(what_has_no_meaning_is_refused),
        cmocka_unit_test(counts_are_exact_whatever_the_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
