/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_math_normalise.c - step 1 of tasks-longbench-math.md B.6, rule by rule, and the
 * comparison of spellings. */
#include "tests/metrics/math_test.h"

static void becomes(const char *text, const char *want)
{
    struct kva_arena arena;
    struct kva_math m;
    struct kva_math_span got;

    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    got = kva_math_normalise(&m, kva_math_span_of(text));
    if (!kva_math_span_is(got, want))
        fail_msg("\"%s\" becomes \"%.*s\", not \"%s\"", text, (int)got.n, got.s, want);
    kva_arena_release(&arena);
}

static void outer_wrappers_go_repeatedly(void **state)
{
    (void)state;
    becomes(" $$ \\( **5** \\) $$ ", "5");
    becomes("\\[x\\]", "x");
    becomes("$x$ and $y$", "x and y");
    becomes("**", "**");
    becomes("$", "");
}

static void unicode_gets_its_latex_names(void **state)
{
    (void)state;
    becomes("\xe2\x88\x92\xe2\x80\x93", "--");
    becomes("2\xc3\x97\x33\xc2\xb7\x34", "2\\times 3\\cdot 4");
    becomes("\xcf\x80\xe2\x88\x9e\xc2\xb0", "\\pi \\infty ^\\circ");
    becomes("a\xe2\x88\xaa"
            "b\xe2\x89\xa4\xe2\x89\xa5\xc2\xb1",
            "a\\cup b\\le \\ge \\pm");
    becomes("\xe2\x88\x9ax", "\\sqrt x");
    becomes("a\nb\tc\r\nd\xc2\xa0"
            "e",
            "a b c  d e");
    becomes("\xff\xe2\x82", "\xff\xe2\x82");
}

static void thousands_marks_go_between_a_digit_and_three(void **state)
{
    (void)state;
    becomes("10,\\!080", "10080");
    becomes("11,\\! 111,\\! 111", "11111111");
    becomes("32{,}348", "32348");
    becomes("32{,}3489", "32{,}3489");
    becomes("58,500", "58500");
    becomes("-1,234,567.8 x", "-1234567.8 x");
    becomes("3, 5, 7", "3, 5, 7");
    becomes("100, 200", "100, 200");
    becomes("1,234,56", "1,234,56");
    becomes("1234,567", "1234,567");
    becomes("1,234,", "1,234,");
    becomes("12 345 678", "12345678");
    becomes("12 345/678", "12 345/678");
    becomes("x = 58,500", "x =58500");
    becomes("(x,y) = 58,500", "(x,y) = 58,500");
}

static void sizes_and_styles_go(void **state)
{
    (void)state;
    becomes("\\left(\\bigl[x\\Biggr]\\right.", "([x]");
    becomes("\\left. x \\right|", "x |");
    becomes("\\displaystyle\\dfrac12", "\\frac12");
    becomes("\\tfrac12\\cfrac34", "\\frac12\\frac34");
    becomes("\\leftarrow", "\\leftarrow");
}

static void blanks_are_one_and_row_breaks_stay(void **state)
{
    (void)state;
    becomes("a\\quad b\\,c\\;d\\:e\\!f\\ g~h", "a  b c d e f g h");
    becomes("1 \\\\ 2", "1 \\\\ 2");
    becomes("1\\\\2", "1\\\\2");
    becomes("1\\\\\\ 2", "1\\\\ 2");
}

static void wrappers_become_text(void **state)
{
    (void)state;
    becomes("\\mathrm{i}\\text{e}\\mathbf{i}", "iei");
    becomes("\\mbox{a}\\textbf{b}\\operatorname{c}", "\\text{a}\\text{b}\\text{c}");
    becomes("\\operatorname{arctan} x", "\\arctan  x");
    becomes("\\mathbf v", "v");
    becomes("\\text {a}", "\\text{a}");
    becomes("\\textbf", "");
}

static void marks_get_one_name(void **state)
{
    (void)state;
    becomes("\\$5 \\% $x", "5  %  x");
    becomes("\\{1\\}", "\\lbrace 1\\rbrace");
    becomes("a\\leq b\\leqslant c\\geq d\\lt e\\gt f\\neq g",
            "a\\le  b\\le  c\\ge  d< e> f\\ne  g");
    becomes("a<=b>=c", "a\\le b\\ge c");
    becomes("5\\degree", "5^\\circ");
    becomes("5.", "5");
    becomes("\\", "\\");
}

static bool same(const char *a, const char *b, bool fold)
{
    return kva_math_same_text(kva_math_span_of(a), kva_math_span_of(b), fold);
}

static void spellings_are_equal_but_for_blanks(void **state)
{
    (void)state;
    assert_true(same("a + b", "a+b", false));
    assert_true(same(" a", "a ", false));
    assert_true(same("", " ", false));
    assert_false(same("a", "A", false));
    assert_true(same("\\A$b", "aB", true));
    assert_false(same("{a}", "a", true));
    assert_false(same("1 2", "12", false));
    assert_false(same("12", "1 2", true));
    assert_true(same("1 2", "1  2", false));
    assert_true(same("x 2", "x2", false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(outer_wrappers_go_repeatedly),
        TEST(unicode_gets_its_latex_names),
        TEST(thousands_marks_go_between_a_digit_and_three),
        TEST(sizes_and_styles_go),
        TEST(blanks_are_one_and_row_breaks_stay),
        TEST(wrappers_become_text),
        TEST(marks_get_one_name),
        TEST(spellings_are_equal_but_for_blanks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
