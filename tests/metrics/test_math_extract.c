/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_math_extract.c - the table of tasks-longbench-math.md B.4, ruling B.6.1.11, and
 * texts that never end. */
#include "tests/metrics/math_test.h"

/* "how answer|joined" of a text. */
static const char *found_in(const char *text, size_t n)
{
    static char out[8192];
    struct kva_arena arena;
    struct kva_math m;
    struct kva_math_answer a;

    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    a = kva_math_extract(&m, text, n);
    assert_false(m.nomem);
    snprintf(out, sizeof out, "%s %.*s%s%.*s", kva_math_how_name(a.how), (int)a.answer.n,
             a.answer.s, a.joined.n ? "|" : "", (int)a.joined.n,
             a.joined.n ? a.joined.s : "");
    kva_arena_release(&arena);
    return out;
}

static void finds(const char *text, const char *want)
{
    const char *got = found_in(text, strlen(text));

    if (strcmp(got, want) != 0)
        fail_msg("in \"%s\" found \"%s\", wanted \"%s\"", text, got, want);
}

static void the_published_table_is_reproduced(void **state)
{
    (void)state;
    finds("first \\boxed{3} then \\boxed{5}", "boxed 5");
    finds("<think>\\boxed{1}</think> The answer is \\boxed{2}.", "boxed 2");
    finds("<think> so \\boxed{7} ... wait", "boxed 7");
    finds("\\boxed{\\left(3,\\frac{\\pi}{2}\\right)} and done",
          "boxed \\left(3,\\frac{\\pi}{2}\\right)");
    finds("\\boxed{\\{1\\pm\\sqrt{5},-2\\}}", "boxed \\{1\\pm\\sqrt{5},-2\\}");
    finds("\\boxed{4} ... \\boxed{\\frac{1}{2", "boxed 4");
    finds("\\boxed{\\frac{1}{2", "number 2");
    finds("\\boxed{\\boxed{9}}", "boxed 9");
    finds("\\boxed 5$", "boxed 5");
    finds("$\\boxed{1}$ and $\\boxed{-2}$", "boxed -2|1,-2");
    finds("\\boxed{15\\frac{39}{40}} \\text{ or } \\boxed{\\frac{639}{40}}",
          "boxed \\frac{639}{40}");
    finds("Final answer: 42.", "phrase 42");
    finds("we need 3 apples and 12 pears", "number 12");
}

static void a_box_behind_the_thoughts_counts_first(void **state)
{
    (void)state;
    finds("<think>\\boxed{1}</think>a</think>\\boxed{2} b", "boxed 2");
    finds("<think>\\boxed{1}</think> the answer is 3", "boxed 1");
    finds("\\boxed{1}</think>\\boxed{2", "boxed 1");
    finds("</think>", "none ");
}

static void a_box_may_hold_anything_but_nothing(void **state)
{
    (void)state;
    finds("\\boxed{}", "none ");
    finds("\\boxed{ } so 7", "number 7");
    finds("\\boxed{2} or \\boxed{}", "boxed 2");
    finds("\\boxed {5}", "boxed 5");
    finds("\\boxed\n{5}", "boxed 5");
    finds("\\fbox{5}", "boxed 5");
    finds("\\\\boxed{5}", "boxed 5");
    finds("\\boxed{a}b}", "boxed a");
    finds("\\boxed{\\}}", "boxed \\}");
    finds("} \\boxed{5} {", "boxed 5");
    finds("{{{ \\boxed{5}", "boxed 5");
    finds("\\boxedx{5}", "number 5");
    finds("\\boxed", "none ");
    finds("\\boxed\\frac12", "number 12");
    finds("\\boxed 5", "boxed 5");
}

static void neighbouring_boxes_are_a_second_candidate(void **state)
{
    (void)state;
    finds("$\\boxed{1}$, $\\boxed{2}$, and $\\boxed{3}$", "boxed 3|1,2,3");
    finds("\\(\\boxed{1}\\);\\(\\boxed{2}\\)", "boxed 2|1,2");
    finds("\\boxed{1}\\text{ and }\\boxed{2}", "boxed 2|1,2");
    finds("\\boxed{1},\\quad\\boxed{2}", "boxed 2|1,2");
    finds("\\boxed{1} \\boxed{2}", "boxed 2");
    finds("\\boxed{1}, or \\boxed{2}", "boxed 2");
    finds("\\boxed{0} so \\boxed{1}, \\boxed{2}", "boxed 2|1,2");
}

static void a_phrase_gives_the_rest_of_its_line(void **state)
{
    (void)state;
    finds("The answer is: 5", "phrase 5");
    finds("**Final answer:** 42", "phrase 42");
    finds("THE FINAL ANSWER IS $\\frac12$.\nBye 7", "phrase $\\frac12$");
    finds("answer: 1\nanswer: 2", "phrase 2");
    finds("answer is **42**.", "phrase 42");
    finds("answer: x\r\n", "phrase x");
    finds("the answer is", "none ");
    finds("I have 4. The answer is\n", "number 4");
}

static void a_number_is_the_last_resort(void **state)
{
    (void)state;
    finds("1,234,567.5", "number 1,234,567.5");
    finds("-3/4 x", "number -3/4");
    finds("from 5-3", "number -3");
    finds("5. Then", "number 5");
    finds("a - b", "none ");
    finds("", "none ");
    finds("x/2/3", "number 2/3");
}

static void a_nul_is_a_byte_like_any_other(void **state)
{
    (void)state;
    assert_string_equal(found_in("\0\\boxed{5}\0", 11), "boxed 5");
}

static void long_texts_take_linear_time(void **state)
{
    enum { N = 100000 };
    static const char *const unit[] = {"{",           "}",  "\\boxed{", "\\boxed ",  "\\",
                                       "1,",          "1/", "answer:",  "\\fbox{",   "a",
                                       "\\boxed{1},", "-",  "</think>", "\\boxed{{}"};
    char *text = malloc(N + 1);

    (void)state;
    for (size_t k = 0; k < sizeof unit / sizeof *unit; k++) {
        size_t n = strlen(unit[k]);
        uint64_t begin = kva_cpu_ns();

        for (size_t i = 0; i < N; i++)
            text[i] = unit[k][i % n];
        text[N] = '\0';
        (void)math_score("math500", text, "1,2", NULL);
        if (kva_cpu_ns() - begin > 100 * 1000000ULL) /* quadratic: seconds */
            fail_msg("100 kB of \"%s\" take too long", unit[k]);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_published_table_is_reproduced),
        TEST(a_box_behind_the_thoughts_counts_first),
        TEST(a_box_may_hold_anything_but_nothing),
        TEST(neighbouring_boxes_are_a_second_candidate),
        TEST(a_phrase_gives_the_rest_of_its_line),
        TEST(a_number_is_the_last_resort),
        TEST(a_nul_is_a_byte_like_any_other),
        TEST(long_texts_take_linear_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
