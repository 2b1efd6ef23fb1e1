/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_math_expr.c - what an expression is, and its values: exact where they can be. */
#include "tests/metrics/math_test.h"

#include <math.h>

static struct kva_arena arena;
static struct kva_math math;

static int begin(void **state)
{
    (void)state;
    kva_arena_init(&arena);
    kva_math_init(&math, &arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    kva_arena_release(&arena);
    return 0;
}

static const struct kva_math_expr *expr(const char *text)
{
    return kva_math_expr_read(&math, kva_math_span_of(text));
}

static void exactly(const char *text, int n, int d)
{
    const struct kva_math_expr *e = expr(text);

    if (!e || !e->at[0][0].ok || !e->at[0][0].exact || e->at[0][0].r.n != n ||
        e->at[0][0].r.d != d)
        fail_msg("\"%s\" is not %d/%d", text, n, d);
}

static void about(const char *text, double re, double im)
{
    const struct kva_math_expr *e = expr(text);

    if (!e || !e->at[0][0].ok || e->at[0][0].exact ||
        cabsl(e->at[0][0].z - CMPLXL(re, im)) > 1e-12L)
        fail_msg("\"%s\" is not %g + %g i", text, re, im);
}

static void rational_arithmetic_is_exact(void **state)
{
    (void)state;
    exactly("1+2*3-4/8", 13, 2);
    exactly("-2^2", -4, 1);
    exactly("(-2)^2", 4, 1);
    exactly("2^{-2}", 1, 4);
    exactly("2^2^3", 64, 1);
    exactly("1/2/3", 1, 6);
    exactly("1/2(3)", 3, 2);
    exactly("\\frac{1}{2}3", 3, 2);
    exactly("\\frac12 + .5", 1, 1);
    exactly("\\frac{1}{2 + \\frac{1}{3}}", 3, 7);
    exactly("4!/2", 12, 1);
    exactly("\\binom 52", 10, 1);
    exactly("\\binom{2}{5}", 0, 1);
    exactly("|1-3|", 2, 1);
    exactly("||1-3|-5|", 3, 1);
    exactly("3 - -2", 5, 1);
    exactly("2 \\cdot -3", -6, 1);
    exactly("0.\\overline{9}", 1, 1);
    exactly("1.2e-1", 3, 25);
    exactly("2\\frac13", 7, 3);
    exactly("5^\\circ", 5, 1);
}

static void other_values_are_close(void **state)
{
    (void)state;
    about("\\sqrt2", sqrt(2), 0);
    about("\\sqrt23", 3 * sqrt(2), 0);
    about("\\sqrt{-1}", 0, 1);
    about("i^3 + \\pi - \\pi", 0, -1);
    about("\\sqrt[4]{16}", 2, 0);
    about("(-8)^{1/3}", 1, sqrt(3));
    about("\\sin^2 2", sin(2) * sin(2), 0);
    about("\\sin^{-1} \\frac12", asin(0.5), 0);
    about("\\exp(i\\pi)", -1, 0);
    about("\\ln(-1)", 0, acos(-1));
    about("\\log_2 10", log2(10), 0);
    about("\\csc 90^\\circ", 1, 0);
    about("2\\sin 1\\cos 1", sin(2), 0);
    about("\\cosh 1 - \\sinh 1", exp(-1), 0);
}

static void what_is_no_expression_is_refused(void **state)
{
    static const char *const text[] = {
        "",      "1 2",   "1+",      "*2",  "(1",          "1)",   "{1",  "\\frac12}",
        "x^",    "\\foo", "1..2",    "|1",  "\\frac{}{2}", "a=b",  "1,2", "#",
        "\\sin", "1 2^3", "\\infty", "[1)", "--1",         "1.2.3"};

    (void)state;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (expr(text[i]))
            fail_msg("\"%s\" is read", text[i]);
}

static void equal_names_have_equal_values_everywhere(void **state)
{
    const struct kva_math_expr *a = expr("x_{12}"), *b = expr("1 \\cdot x_{12} + 0");
    const struct kva_math_expr *c = expr("x");

    (void)state;
    for (int i = 0; i < MATH_POINTS; i++) {
        long double x = creall(a->at[0][i].z);

        assert_true(x >= 0.3L && x <= 2.7L && cimagl(a->at[0][i].z) == 0);
        assert_true(cabsl(a->at[0][i].z - b->at[0][i].z) < 1e-15L);
        assert_true(cabsl(a->at[0][i].z - c->at[0][i].z) > 1e-6L);
        for (int k = 0; k < i; k++)
            assert_true(x != creall(a->at[0][k].z));
    }
}

static void plus_minus_turns_all_signs_together(void **state)
{
    const struct kva_math_expr *e = expr("1 \\pm 2 \\mp 5");

    (void)state;
    assert_true(e->has_pm);
    assert_true(e->at[0][0].exact && e->at[0][0].r.n == -2);
    assert_true(e->at[1][0].exact && e->at[1][0].r.n == 4);
}

static void cancelled_terms_leave_noise_that_is_known(void **state)
{
    const struct kva_math_expr *e = expr("\\sin^2 3 + \\cos^2 3 - 1");

    (void)state;
    assert_true(cabsl(e->at[0][0].z) <= 16 * e->at[0][0].noise);
    assert_true(e->at[0][0].noise < 1e-15L);
}

static void plain_decimals_know_their_places(void **state)
{
    (void)state;
    assert_int_equal(expr("1.250")->decimals, 3);
    assert_int_equal(expr("-.5")->decimals, 1);
    assert_int_equal(expr("12")->decimals, 0);
    assert_int_equal(expr("1.5x")->decimals, -1);
    assert_int_equal(expr("1.5e3")->decimals, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rational_arithmetic_is_exact),
        TEST(other_values_are_close),
        TEST(what_is_no_expression_is_refused),
        TEST(equal_names_have_equal_values_everywhere),
        TEST(plus_minus_turns_all_signs_together),
        TEST(cancelled_terms_leave_noise_that_is_known),
        TEST(plain_decimals_know_their_places),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
