/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_f1.c - qa_f1 on the table of tasks-longbench-math.md A.7.1, and its edges. */
#include "tests/metrics/text_test.h"

static void the_published_table_is_reproduced(void **state)
{
    static const struct text_row row[] = {
        {"The Bob Dylan.", "Bob Dylan", 1.0},
        {"Bob Dylan and George Harrison", "Bob Dylan", 0.5714285714285715},
        {"New York New York", "New York", 0.6666666666666666},
        {"an apple, a day", "apple day", 1.0},
        {"well-known", "well known", 0},
        {"It\u2019s 5%", "its 5", 0.5},
        {"1,268 tweets", "1268 tweets", 1.0},
        {"the", "the", 0},
        {"A  B\u00a0C", "b c", 1.0},
        {"thea", "a", 0},
    };

    (void)state;
    check_rows("qa_f1", row, sizeof row / sizeof row[0]);
}

static void words_end_where_python_ends_them(void **state)
{
    static const struct text_row row[] = {
        {"", "", 0},
        {"", "x", 0},
        {"x", "", 0},
        {"a\u2019b", "\u2019b", 1.0}, /* a mark outside ASCII ends the article */
        {"an\u00b2 x", "x", 2.0 / 3}, /* a raised two is a digit: no article */
        {"x\xc2\x85y\u2003z", "z y x", 1.0},
        {"x\u200by", "x y", 0},                      /* a zero-width blank is none */
        {"\u0130", "i\u0307", 1.0},                  /* full lower case */
        {"\u039f\u03a3 x", "\u03bf\u03c2", 2.0 / 3}, /* final sigma */
        {"_a_ x", "x", 1.0}, /* marks go first, then the article */
    };

    (void)state;
    check_rows("qa_f1", row, sizeof row / sizeof row[0]);
}

static void the_best_reference_counts(void **state)
{
    static const char *const answers[] = {"nobody", "Bob Dylan", "Bob"};

    (void)state;
    assert_true(score_in("qa_f1", &(struct kva_metric_in){.prediction = "bob dylan",
                                                          .n = 9,
                                                          .answers = answers,
                                                          .n_answers = 3}) == 1);
}

static void a_nul_is_a_character_of_a_word(void **state)
{
    static const char *const answers[] = {"x y"};

    (void)state;
    assert_true(score_in("qa_f1", &(struct kva_metric_in){.prediction = "x\0 y",
                                                          .n = 4,
                                                          .answers = answers,
                                                          .n_answers = 1}) == 0.5);
}

static void megabytes_take_less_than_a_second(void **state)
{
    enum { N = 1000000 };
    char *a = random_text(1, N, "abcdef "), *b = random_text(2, N, "abcdef "),
         *c = repeat("x ", N), *d = repeat("the, ", N);

    (void)state;
    assert_true(timed_score("qa_f1", a, b) > 0.3);
    assert_true(timed_score("qa_f1", c, c) == 1);
    assert_true(timed_score("qa_f1", c, a) == 0);
    assert_true(timed_score("qa_f1", d, d) == 0);
    free(a);
    free(b);
    free(c);
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_table_is_reproduced),
        cmocka_unit_test(words_end_where_python_ends_them),
        cmocka_unit_test(the_best_reference_counts),
        cmocka_unit_test(a_nul_is_a_character_of_a_word),
        cmocka_unit_test(megabytes_take_less_than_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
