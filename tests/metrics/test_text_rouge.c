/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_rouge.c - rouge_l on the table of tasks-longbench-math.md A.7.2, and its
 * edges. */
#include "tests/metrics/text_test.h"

static void the_published_table_is_reproduced(void **state)
{
    static const struct text_row row[] = {
        {"the cat sat on the mat", "the cat sat on the mat", 0.999999995},
        {"the cat sat. on the mat", "the cat sat on the mat", 0.999999995},
        {"police killed the gunman", "police kill the gunman", 0.749999995},
        {"the gunman kill police", "police kill the gunman", 0.4999999950000001},
        {"a b a b a b", "a b", 0.999999995},
        {"w1 w2 w6 w7 w8. w1 w3 w8 w9 w5", "w1 w2 w3 w4 w5", 0.6153846106508877},
        {"b a", "a b", 0.4999999950000001},
        {"a b c", "c a b", 0.6666666616666668},
        {"Emilia is angry", "Emilia is still angry.", 0.8571428522448981},
        {"Dr. Smith paid $3.50 today.", "Dr. Smith paid $3.50.", 0.9090909041322315},
        {"x. ", "y. ", 0.4999999950000001},
        {"x y. ", "x z. ", 0.6666666616666668},
        {"", "abc", 0},
        {".", "abc", 0},
        {" ", "abc", 0},
    };

    (void)state;
    check_rows("rouge_l", row, sizeof row / sizeof row[0]);
}

static void both_sides_may_be_empty(void **state)
{
    static const struct text_row row[] = {
        {"", "", 0},
        {"...", "..", 0},
        {"abc", "", 0},
        {" ", " ", 0.999999995}, /* one empty word each */
        {"\u00a0.\u3000", "\n", 0.999999995},
        {"X", "x", 0},
        {"x,", "x", 0},
    };

    (void)state;
    check_rows("rouge_l", row, sizeof row / sizeof row[0]);
}

static void the_best_reference_counts(void **state)
{
    static const char *const answers[] = {"x", "b a", "a b c d"};

    (void)state;
    assert_true(score_in("rouge_l", &(struct kva_metric_in){.prediction = "a b",
                                                            .n = 3,
                                                            .answers = answers,
                                                            .n_answers = 3}) ==
                2.0 * ((1.0 * 0.5) / (1.0 + 0.5 + 1e-8)));
}

/* One sentence of 65 and more words: the table has rows of several machine words. */
static void long_sentences_carry_over(void **state)
{
    char text[2048], turned[2048];
    size_t n = 0, m = 0;

    (void)state;
    for (int i = 0; i < 200; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "w%d ", i);
    for (int i = 100; i < 300; i++)
        m += (size_t)snprintf(turned + m, sizeof turned - m, "w%d ", i % 200);
    assert_true(score_of("rouge_l", text, text) == 0.999999995);
    /* the first half behind the second: one of them is common */
    assert_true(score_of("rouge_l", turned, text) == 0.4999999950000001);
}

static void words_beyond_the_limit_are_not_read(void **state)
{
    char *a = repeat("x y ", 32768), *b = malloc(32768 + 16);

    (void)state; /* 16,384 words; the first 8,192 are x and y */
    memcpy(b, a, 32769);
    assert_true(score_of("rouge_l", a, b) == 0.999999995);
    memcpy(b + 16384, "zzz", 3);
    assert_true(score_of("rouge_l", a, b) == 0.999999995);
    memcpy(b + 16384 - 4, "zzz", 3);
    assert_true(score_of("rouge_l", a, b) < 0.9);
    free(a);
    free(b);
}

static void megabytes_take_less_than_a_second(void **state)
{
    enum { N = 1000000 };
    char *same = repeat("x ", N), *dots = repeat("x.", N), *pairs = repeat("x y. ", N),
         *turned = repeat("y x. ", N), *a = random_text(1, N, "abcd "),
         *b = random_text(2, N, "abcd "), *c = random_text(3, N, "abc .. "),
         *d = random_text(4, N, "abc .. ");

    (void)state;
    assert_true(timed_score("rouge_l", same, same) == 0.999999995);
    assert_true(timed_score("rouge_l", dots, dots) == 0.999999995);
    assert_true(timed_score("rouge_l", pairs, turned) > 0);
    assert_true(timed_score("rouge_l", same, dots) == 0.999999995);
    assert_true(timed_score("rouge_l", a, b) > 0);
    assert_true(timed_score("rouge_l", c, d) > 0.3);
    assert_true(timed_score("rouge_l", a, d) > 0);
    free(same);
    free(dots);
    free(pairs);
    free(turned);
    free(a);
    free(b);
    free(c);
    free(d);
}

/* Pairs of sentences with a common word that no subsequence takes: every pair has to be
 * looked at. */
static void pairs_that_add_nothing_are_cheap(void **state)
{
    struct kva_buf x, y;

    (void)state;
    kva_buf_init(&x, 0);
    kva_buf_init(&y, 0);
    for (int i = 0; i < 4000; i++) {
        kva_buf_puts(&x, "a p q r.");
        kva_buf_puts(&y, "p q r a.");
    }
    assert_true(timed_score("rouge_l", x.data, y.data) > 0.7);
    kva_buf_release(&x);
    kva_buf_release(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_table_is_reproduced),
        cmocka_unit_test(both_sides_may_be_empty),
        cmocka_unit_test(the_best_reference_counts),
        cmocka_unit_test(long_sentences_carry_over),
        cmocka_unit_test(words_beyond_the_limit_are_not_read),
        cmocka_unit_test(megabytes_take_less_than_a_second),
        cmocka_unit_test(pairs_that_add_nothing_are_cheap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
