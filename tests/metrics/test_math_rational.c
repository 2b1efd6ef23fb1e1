/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_math_rational.c - exact fractions: lowest terms, and no overflow unseen. */
#include "tests/metrics/math_test.h"

static struct kva_rational make(kva_math_int n, kva_math_int d)
{
    struct kva_rational r;

    assert_true(kva_rational_make(n, d, &r));
    return r;
}

static void is(struct kva_rational r, kva_math_int n, kva_math_int d)
{
    assert_true(r.n == n && r.d == d);
}

static const kva_math_int most = (kva_math_int)1 << 126;

static void fractions_are_in_lowest_terms(void **state)
{
    struct kva_rational r;

    (void)state;
    is(make(6, -4), -3, 2);
    is(make(0, -5), 0, 1);
    assert_true(kva_rational_add(make(1, 6), make(1, 3), &r));
    is(r, 1, 2);
    assert_true(kva_rational_mul(make(2, 3), make(-9, 4), &r));
    is(r, -3, 2);
    assert_true(kva_rational_mul(make(0, 1), make(7, 5), &r));
    is(r, 0, 1);
    assert_true(kva_rational_inverse(make(-2, 3), &r));
    is(r, -3, 2);
    assert_true(kva_rational_power(make(-2, 3), -3, &r));
    is(r, -27, 8);
    assert_true(kva_rational_power(make(5, 3), 0, &r));
    is(r, 1, 1);
}

static void what_does_not_fit_is_refused_and_changes_nothing(void **state)
{
    struct kva_rational r = make(7, 1), big = make(most - 1, 1);

    (void)state;
    assert_false(kva_rational_make(1, 0, &r));
    assert_false(kva_rational_make(most, 1, &r));
    assert_false(kva_rational_make(-most, 1, &r));
    assert_false(kva_rational_add(big, make(1, 1), &r));
    assert_false(kva_rational_mul(big, make(2, 1), &r));
    assert_false(kva_rational_mul(big, big, &r));
    assert_false(kva_rational_inverse(make(0, 1), &r));
    assert_false(kva_rational_power(make(2, 1), 126, &r));
    assert_false(kva_rational_power(make(0, 1), -1, &r));
    is(r, 7, 1);
    assert_true(kva_rational_power(make(2, 1), 125, &r));
    is(r, (kva_math_int)1 << 125, 1);
    assert_true(kva_rational_add(big, make(-1, 1), &r));
    is(r, most - 2, 1);
    assert_true(kva_rational_mul(big, make(1, 1), &r));
    is(r, most - 1, 1);
}

static void the_field_laws_hold_on_random_fractions(void **state)
{
    struct kva_rng rng = {7};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct kva_rational x[3], a, b, c;

        for (int k = 0; k < 3; k++)
            x[k] = make((kva_math_int)kva_rng_below(&rng, 2000001) - 1000000,
                        (kva_math_int)kva_rng_below(&rng, 1000000) + 1);
        assert_true(kva_rational_add(x[0], x[1], &a) && kva_rational_mul(a, x[2], &a));
        assert_true(kva_rational_mul(x[0], x[2], &b) &&
                    kva_rational_mul(x[1], x[2], &c) && kva_rational_add(b, c, &b));
        assert_true(kva_rational_same(a, b));
        if (x[0].n) {
            assert_true(kva_rational_inverse(x[0], &a) && kva_rational_mul(a, x[0], &a));
            is(a, 1, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fractions_are_in_lowest_terms),
        TEST(what_does_not_fit_is_refused_and_changes_nothing),
        TEST(the_field_laws_hold_on_random_fractions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
