/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_labels.c - classification, retrieval and count on the tables of
 * tasks-longbench-math.md A.7.3 to A.7.5, and their edges. */
#include "tests/metrics/text_test.h"

static double classify(const char *prediction, const char *gold,
                       const char *const *classes)
{
    struct kva_metric_in in = {.prediction = prediction,
                               .n = strlen(prediction),
                               .answers = &gold,
                               .n_answers = 1,
                               .classes = classes};

    while (classes[in.n_classes])
        in.n_classes++;
    return score_in("classification", &in);
}

static void the_published_classes_are_reproduced(void **state)
{
    static const char *const plain[] = {"Food", "Date", "Individual", NULL},
                             *const nested[] = {"A", "B", "C", "ABC", NULL},
                             *const city[] = {"City", "of", "London", "City of London",
                                              NULL};

    (void)state;
    assert_true(classify("Individual", "Individual", plain) == 1);
    assert_true(classify("Individual or Food", "Individual", plain) == 0.5);
    assert_true(classify("individual", "Individual", plain) == 0);
    assert_true(classify("ABC", "ABC", nested) == 0.5);
    assert_true(classify("City of London", "City of London", city) == 0.5);
}

static void classes_may_be_absent_or_twice(void **state)
{
    static const char *const none[] = {NULL}, *const twice[] = {"A", "A", NULL},
                             *const inner[] = {"A", "A", "AB", NULL};

    (void)state;
    assert_true(classify("A", "A", none) == 0);
    assert_true(classify("A", "A", twice) == 0.5);
    assert_true(classify("A", "B", twice) == 0);
    assert_true(classify("AB", "AB", inner) == 0.5); /* the second A is passed over */
    assert_true(classify("", "A", twice) == 0);
}

static void the_published_paragraphs_are_reproduced(void **state)
{
    static const struct text_row row[] = {
        {"Paragraph 19", "Paragraph 19", 1.0},
        {"19", "Paragraph 19", 1.0},
        {"Paragraph 19, not 3", "Paragraph 19", 0.5},
        {"19 19 2", "Paragraph 19", 0.6666666666666666},
        {"Paragraph 019", "Paragraph 19", 0.0},
        {"Paragraph 1", "Paragraph 19", 0.0},
        {"", "Paragraph 19", 0.0},
        {"19", "19", 0.0}, /* a reference without a paragraph */
        {"19", "Paragraph x", 0.0},
        {"19", "Paragraph x, Paragraph 19", 1.0},
        {"\u0661\u0669", "Paragraph \u0661\u0669", 1.0}, /* Arabic digits are digits */
        {"19\u0669", "Paragraph 19", 0.0},
        {"19\u00b2", "Paragraph 19", 1.0}, /* a raised two is none */
    };

    (void)state;
    check_rows("retrieval", row, sizeof row / sizeof row[0]);
}

static void the_published_counts_are_reproduced(void **state)
{
    static const struct text_row row[] = {
        {"46", "46", 1.0},       {"46 paragraphs out of 50", "46", 0.5},
        {"4.6", "46", 0.0},      {"046", "46", 0.0},
        {"11\n\n12", "11", 0.5}, {"", "11", 0.0},
        {"none", "", 0.0},       {"11", "", 0.0},
        {"1", "one", 0.0},
    };

    (void)state;
    check_rows("count", row, sizeof row / sizeof row[0]);
}

static void megabytes_take_less_than_a_second(void **state)
{
    enum { N = 1000000 };
    char *digits = repeat("1", N), *runs = repeat("1 ", N),
         *words = repeat("Paragraph ", N);

    (void)state;
    assert_true(timed_score("count", digits, digits) == 1);
    assert_true(timed_score("count", runs, digits) == 0);
    assert_true(timed_score("retrieval", runs, words) == 0);
    assert_true(timed_score("retrieval", runs, "Paragraph 1") == 1);
    free(digits);
    free(runs);
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_classes_are_reproduced),
        cmocka_unit_test(classes_may_be_absent_or_twice),
        cmocka_unit_test(the_published_paragraphs_are_reproduced),
        cmocka_unit_test(the_published_counts_are_reproduced),
        cmocka_unit_test(megabytes_take_less_than_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
