/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_budget.c - budgets in integers; worked example E1 and exact totals. */
#include "tests/methods/methods_test.h"

/* E1 counts what is removed; here the argument is what is kept. */
static void kept_counts_of_E1(void **state)
{
    (void)state;
    assert_int_equal(kva_budget_keep(1000, 2000), 200);
    assert_int_equal(kva_budget_keep(10, 1000), 1);
    assert_int_equal(kva_budget_keep(4096, 2000), 819);
    assert_int_equal(kva_budget_keep(5, 2000), 1);
    assert_int_equal(kva_budget_keep(4097, 10000), 4097);
    assert_int_equal(kva_budget_keep(1, 1), 1);
    assert_int_equal(kva_budget_keep(INT64_C(4000000000000000000), 2500),
                     INT64_C(1000000000000000000));
}

static uint64_t total(enum kva_budget_kind kind, int64_t value, int64_t tokens)
{
    struct kva_budget b = {kind, value};

    return kva_budget_total(&b, tokens, 90, 256);
}

static void totals_run_over_all_kv_heads(void **state)
{
    (void)state;
    assert_int_equal(total(KVA_BUDGET_DENSE, 0, 1000), 90000);
    assert_int_equal(total(KVA_BUDGET_KEEP, 2500, 1001), 90 * 250);
    assert_int_equal(total(KVA_BUDGET_TOKENS, 128, 1000), 90 * 128);
    assert_int_equal(total(KVA_BUDGET_BYTES, 256 * 1000 + 255, 1000), 1000);
}

static void texts_are_the_shortest_decimals(void **state)
{
    const struct {
        struct kva_budget b;
        const char *text;
    } rows[] = {
        {{KVA_BUDGET_DENSE, 0}, "dense"},
        {{KVA_BUDGET_KEEP, 2500}, "keep=0.25"},
        {{KVA_BUDGET_KEEP, 1}, "keep=0.0001"},
        {{KVA_BUDGET_KEEP, 1000}, "keep=0.1"},
        {{KVA_BUDGET_KEEP, 9999}, "keep=0.9999"},
        {{KVA_BUDGET_KEEP, 10000}, "keep=1"},
        {{KVA_BUDGET_TOKENS, 256}, "tokens=256"},
        {{KVA_BUDGET_BYTES, 1048576}, "bytes=1048576"},
    };
    char out[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kva_budget_text(&rows[i].b, out);
        assert_string_equal(out, rows[i].text);
    }
}

static void uniform_hands_the_remainder_to_lower_heads(void **state)
{
    const int n[] = {10, 10, 10, 10};
    int b[4];

    (void)state;
    kva_budget_uniform(22, n, 4, b);
    assert_int_equal(b[0], 6);
    assert_int_equal(b[1], 6);
    assert_int_equal(b[2], 5);
    assert_int_equal(b[3], 5);
}

static void uniform_caps_and_hands_the_overflow_on(void **state)
{
    const int n[] = {2, 10, 10, 1};
    int b[4];

    (void)state;
    /* 5 5 5 5, the caps free 3 + 4, two live heads get 4 and 3 */
    kva_budget_uniform(20, n, 4, b);
    assert_int_equal(b[0], 2);
    assert_int_equal(b[1], 9);
    assert_int_equal(b[2], 8);
    assert_int_equal(b[3], 1);
    kva_budget_uniform(1000, n, 4, b);
    for (int c = 0; c < 4; c++)
        assert_int_equal(b[c], n[c]);
}

static void uniform_totals_are_exact_for_random_caps(void **state)
{
    struct kva_rng r = {7};

    (void)state;
    for (int round = 0; round < 2000; round++) {
        int c = 1 + (int)kva_rng_below(&r, 40), n[40], b[40];
        uint64_t held = 0, want, sum = 0;
        int level = 0;

        for (int i = 0; i < c; i++)
            held += (uint64_t)(n[i] = 1 + (int)kva_rng_below(&r, 100));
        want = kva_rng_below(&r, held * 5 / 4) + 1;
        kva_budget_uniform(want, n, c, b);
        for (int i = 0; i < c; i++) {
            assert_true(b[i] >= 0 && b[i] <= n[i]);
            sum += (uint64_t)b[i];
            level = b[i] > level ? b[i] : level;
        }
        assert_int_equal(sum, want < held ? want : held);
        /* nobody below the level has room, but for remainders handed out while caps
         * filled */
        for (int i = 0; i < c; i++)
            assert_true(b[i] == n[i] || b[i] >= level - 1 - c);
    }
}

static void shares_are_proportional_with_largest_remainders(void **state)
{
    const double w[] = {1, 2, 3};
    const int lo[] = {0, 0, 0}, hi[] = {100, 100, 100};
    int b[3];

    (void)state;
    /* ideals 1.667 3.333 5: the whole parts leave one, the largest fraction takes it */
    assert_int_equal(kva_budget_shares(w, 10, lo, hi, 3, b), 10);
    assert_int_equal(b[0], 2);
    assert_int_equal(b[1], 3);
    assert_int_equal(b[2], 5);
}

/* E15: CAKE H=[4,9,16], V=[1,4,1], tau 2,2 gives weights 2, 6, 4. */
static void shares_of_E15_are_20_60_40(void **state)
{
    const double w[] = {sqrt(4) * sqrt(1), sqrt(9) * sqrt(4), sqrt(16) * sqrt(1)};
    const int lo[] = {0, 0, 0}, hi[] = {1000, 1000, 1000};
    int b[3];

    (void)state;
    kva_budget_shares(w, 120, lo, hi, 3, b);
    assert_int_equal(b[0], 20);
    assert_int_equal(b[1], 60);
    assert_int_equal(b[2], 40);
}

static void shares_redistribute_what_a_cap_refuses(void **state)
{
    const double w[] = {8, 1, 1}, none[] = {0, 0, 0}, bad[] = {NAN, -1, 1};
    const int lo[] = {1, 1, 1}, hi[] = {5, 20, 20};
    int b[3];

    (void)state;
    kva_budget_shares(w, 20, lo, hi, 3, b);
    assert_int_equal(b[0], 5);
    assert_int_equal(b[1], 8);
    assert_int_equal(b[2], 7);
    kva_budget_shares(none, 10, lo, hi, 3, b); /* no weight at all: equal parts */
    assert_int_equal(b[0], 4);
    assert_int_equal(b[1], 3);
    assert_int_equal(b[2], 3);
    kva_budget_shares(bad, 10, lo, hi, 3, b);
    assert_int_equal(b[0], 1);
    assert_int_equal(b[1], 1);
    assert_int_equal(b[2], 8);
    assert_int_equal(kva_budget_shares(w, 2, lo, hi, 3, b),
                     3); /* clamped to the floors */
    assert_int_equal(kva_budget_shares(w, 200, lo, hi, 3, b), 45);
    assert_int_equal(b[0], 5);
}

static void shares_are_exact_for_random_totals(void **state)
{
    struct kva_rng r = {11};

    (void)state;
    for (int round = 0; round < 3000; round++) {
        int n = 1 + (int)kva_rng_below(&r, 60), lo[60], hi[60], b[60];
        double w[60];
        uint64_t least = 0, most = 0, want, sum = 0;

        for (int i = 0; i < n; i++) {
            lo[i] = (int)kva_rng_below(&r, 5);
            hi[i] = lo[i] + (int)kva_rng_below(&r, 200);
            w[i] = kva_rng_below(&r, 5) == 0 ? 0 : pow(kva_rng_unit(&r), 8);
            least += (uint64_t)lo[i];
            most += (uint64_t)hi[i];
        }
        want = least + (most > least ? kva_rng_below(&r, most - least + 1) : 0);
        assert_int_equal(kva_budget_shares(w, want, lo, hi, n, b), want);
        for (int i = 0; i < n; i++) {
            assert_true(b[i] >= lo[i] && b[i] <= hi[i]);
            sum += (uint64_t)b[i];
        }
        assert_int_equal(sum, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_counts_of_E1),
        cmocka_unit_test(totals_run_over_all_kv_heads),
        cmocka_unit_test(texts_are_the_shortest_decimals),
        cmocka_unit_test(uniform_hands_the_remainder_to_lower_heads),
        cmocka_unit_test(uniform_caps_and_hands_the_overflow_on),
        cmocka_unit_test(uniform_totals_are_exact_for_random_caps),
        cmocka_unit_test(shares_are_proportional_with_largest_remainders),
        cmocka_unit_test(shares_of_E15_are_20_60_40),
        cmocka_unit_test(shares_redistribute_what_a_cap_refuses),
        cmocka_unit_test(shares_are_exact_for_random_totals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
