/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_math.c - math500, math500_boxed, aime and gsm8k as metrics: what they give
 * back, which references count, and that memory may run out anywhere. */
#include "tests/metrics/math_test.h"

static void grades(const char *metric, const char *output, const char *gold, double score,
                   const char *how, const char *extracted)
{
    struct kva_buf found;
    struct kva_metric_out out = {.extracted = &found};

    kva_buf_init(&found, 0);
    if (math_score(metric, output, gold, &out) != score || strcmp(out.how, how) != 0 ||
        strcmp(found.data ? found.data : "", extracted) != 0)
        fail_msg("%s of \"%s\" for \"%s\": %g, %s, \"%s\"", metric, output, gold,
                 out.score, out.how, found.data ? found.data : "");
    kva_buf_release(&found);
}

static void an_answer_is_found_and_compared(void **state)
{
    (void)state;
    grades("math500", "so $\\boxed{\\dfrac{1}{2}}$.", "0.5", 1, "boxed", "\\dfrac{1}{2}");
    grades("math500", "The answer is 0.5.", "\\frac12", 1, "phrase", "0.5");
    grades("math500", "I get 1/2", "\\frac12", 1, "number", "1/2");
    grades("math500", "I give up", "\\frac12", 0, "none", "");
    grades("math500", "\\boxed{2}", "\\frac12", 0, "boxed", "2");
    grades("math500", "", "", 0, "none", "");
}

static void the_strict_metric_wants_a_box(void **state)
{
    (void)state;
    grades("math500_boxed", "\\boxed{1/2}", "\\frac12", 1, "boxed", "1/2");
    grades("math500_boxed", "The answer is 1/2.", "\\frac12", 0, "phrase", "1/2");
    grades("math500_boxed", "1/2", "\\frac12", 0, "number", "1/2");
}

static void boxes_of_one_list_count_only_for_lists(void **state)
{
    (void)state;
    grades("math500", "$\\boxed{1}$ and $\\boxed{-2}$", "1,-2", 1, "boxed", "1,-2");
    grades("math500", "$\\boxed{1}$ and $\\boxed{-2}$", "\\{-2,1\\}", 1, "boxed", "1,-2");
    grades("math500", "$\\boxed{1}$ and $\\boxed{-2}$", "-2", 1, "boxed", "-2");
    grades("math500", "$\\boxed{1}$ and $\\boxed{-2}$", "(1,-2)", 0, "boxed", "-2");
    grades("math500", "$\\boxed{1+\\sqrt2}$, $\\boxed{1-\\sqrt2}$", "1 \\pm \\sqrt{2}", 1,
           "boxed", "1+\\sqrt2,1-\\sqrt2");
    grades("math500", "$\\boxed{1}$ or $\\boxed{-2}$", "1,-2", 0, "boxed", "-2");
}

static void the_best_reference_counts(void **state)
{
    static const char *const answers[] = {"3", "1/2"};
    struct kva_metric_in in = {
        .prediction = "\\boxed{0.5}", .n = 11, .answers = answers, .n_answers = 2};
    struct kva_metric_out out = {0};

    (void)state;
    assert_int_equal(kva_metric_score(kva_metric_find("math500"), &in, &out, NULL),
                     KVA_OK);
    assert_true(out.score == 1);
    in.n_answers = 1;
    assert_int_equal(kva_metric_score(kva_metric_find("math500"), &in, &out, NULL),
                     KVA_OK);
    assert_true(out.score == 0);
}

static void aime_wants_the_exact_integer(void **state)
{
    (void)state;
    grades("aime", "\\boxed{073}", "73", 1, "boxed", "073");
    grades("aime", "\\boxed{m+n = 73}", "73", 0, "boxed", "m+n = 73");
    grades("aime", "\\boxed{x = 73}", "73", 1, "boxed", "x = 73");
    grades("aime", "\\boxed{73.000000001}", "73", 0, "boxed", "73.000000001");
    grades("aime", "\\boxed{73^\\circ}", "73", 1, "boxed", "73^\\circ");
    grades("aime", "\\boxed{\\sqrt{5329}}", "73", 0, "boxed", "\\sqrt{5329}");
    grades("aime", "it is 73", "73", 1, "number", "73");
    grades("aime", "\\boxed{1/2}", "1/2", 0, "boxed", "1/2");
    grades("aime", "\\boxed{}", "0", 0, "none", "");
}

static void gsm8k_compares_exact_numbers_behind_the_marks(void **state)
{
    (void)state;
    grades("gsm8k", "\\boxed{1234}", "12 + 1 = 13\n#### 1,234", 1, "boxed", "1234");
    grades("gsm8k", "She pays $1,234.", "1,234", 1, "number", "1,234");
    grades("gsm8k", "48 / 2 = 24\n#### 72", "x\n#### 72", 1, "number", "72");
    grades("gsm8k", "The answer is 7.50 dollars.", "#### 7.5", 1, "phrase",
           "7.50 dollars");
    grades("gsm8k", "\\boxed{\\$18}", "#### 18", 1, "boxed", "\\$18");
    grades("gsm8k", "18.0000001", "#### 18", 0, "number", "18.0000001");
    grades("gsm8k", "-3", "#### 3", 0, "number", "-3");
    grades("gsm8k", "no idea", "#### 3", 0, "none", "");
    grades("gsm8k", "3", "####", 0, "number", "3");
}

static void memory_may_run_out_anywhere(void **state)
{
    static const char *const metrics[] = {"math500",
                                          "math500_boxed",
                                          "math500_kvpress",
                                          "math500_hendrycks",
                                          "math500_minerva",
                                          "aime",
                                          "gsm8k"};
    static const char output[] = "$\\boxed{\\frac{x}{3}}$, $\\boxed{(1,\\sqrt2)}$, "
                                 "$\\boxed{\\begin{pmatrix}1\\\\2\\end{pmatrix}}$";
    static const char *const gold = "\\{\\frac x3,(1,\\sqrt{2}),5\\}";
    struct kva_metric_in in = {
        .prediction = output, .n = sizeof output - 1, .answers = &gold, .n_answers = 1};

    (void)state;
    for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) {
        enum kva_status rc = KVA_ENOMEM;
        int failed = 0;

        for (long n = 1; rc != KVA_OK && n < 1000; n++) {
            struct kva_error err = {0};
            struct kva_buf found;
            struct kva_metric_out out = {.extracted = &found};

            kva_buf_init(&found, 0);
            kva_alloc_fail_at(n);
            rc = kva_metric_score(kva_metric_find(metrics[k]), &in, &out, &err);
            kva_alloc_fail_at(0);
            if (rc != KVA_OK) {
                assert_int_equal(rc, KVA_ENOMEM);
                assert_true(err.text[0] != '\0');
                failed++;
            }
            kva_buf_release(&found);
        }
        assert_int_equal(rc, KVA_OK);
        assert_true(failed >= 2);
    }
}

static void a_majority_may_run_out_of_memory(void **state)
{
    static const char *const output[] = {"\\boxed{1}", "\\boxed{1.0}", "\\boxed{x}"};
    static const size_t n[] = {9, 11, 9};
    enum kva_status rc = KVA_ENOMEM;
    int winner, votes;

    (void)state;
    for (long at = 1; rc != KVA_OK && at < 1000; at++) {
        kva_alloc_fail_at(at);
        rc = kva_stat_majority(output, n, 3, &winner, &votes, NULL);
        kva_alloc_fail_at(0);
        assert_true(rc == KVA_OK || rc == KVA_ENOMEM);
    }
    assert_int_equal(rc, KVA_OK);
    assert_int_equal(winner, 0);
    assert_int_equal(votes, 2);
}

static void no_metric_takes_a_second(void **state)
{
    enum { N = 200000 };
    static const char *const unit[] = {
        "\\boxed{",   "Final Answer: The final answer is 1 ",
        "f(",         "x^",
        "\\sqrt",     "\\frac",
        "boxed{}",    "\\boxed x^x^",
        "answer is ", "f(f(f(",
        "\\sin ",     "\\boxed{1},"};
    static const char *const metrics[] = {
        "math500", "math500_kvpress", "math500_hendrycks", "math500_minerva", "aime",
        "gsm8k"};
    char *text = malloc(N + 64);

    (void)state;
    for (size_t k = 0; k < sizeof unit / sizeof *unit; k++) {
        size_t n = strlen(unit[k]);

        for (int boxed = 0; boxed < 2; boxed++) {
            size_t at = boxed ? 7 : 0;

            memcpy(text, "\\boxed{", 7);
            for (size_t i = at; i < N; i++)
                text[i] = unit[k][(i - at) % n];
            memcpy(text + N, "}", 2);
            for (size_t j = 0; j < sizeof metrics / sizeof *metrics; j++) {
                uint64_t begin = kva_cpu_ns();

                (void)math_score(metrics[j], text, "x^2", NULL);
                if (kva_cpu_ns() - begin > 1000000000ULL)
                    fail_msg("%s of 200 kB \"%s\" takes %.1f s", metrics[j], unit[k],
                             (double)(kva_cpu_ns() - begin) / 1e9);
            }
        }
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_is_found_and_compared),
        TEST(the_strict_metric_wants_a_box),
        TEST(boxes_of_one_list_count_only_for_lists),
        TEST(the_best_reference_counts),
        TEST(aime_wants_the_exact_integer),
        TEST(gsm8k_compares_exact_numbers_behind_the_marks),
        TEST(memory_may_run_out_anywhere),
        TEST(a_majority_may_run_out_of_memory),
        TEST(no_metric_takes_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
