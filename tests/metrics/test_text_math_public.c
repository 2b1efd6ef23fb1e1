/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_math_public.c - the graders of other suites against what the originals say
 * (tests/golden/metrics/math-graders.jsonl), and our own grader on the same pairs. */
#include "tests/metrics/math_test.h"

#include "metrics/math_public.h"

static const char *golden = "tests/golden/metrics/math-graders.jsonl";

struct tally {
    int pairs, wrong;
    int minerva_yes_only, minerva_no_only;
};

static bool is_true(const json_t *line, const char *key)
{
    return json_is_true(json_object_get(line, key));
}

static void our_verdict(const json_t *line, void *ctx)
{
    struct tally *t = ctx;

    if (!json_object_get(line, "gold"))
        return;
    t->pairs++;
    if (math_equal(math_field(line, "pred"), math_field(line, "gold")) !=
        is_true(line, "equal")) {
        print_error("%s: \"%s\" against the gold \"%s\"\n", math_field(line, "from"),
                    math_field(line, "pred"), math_field(line, "gold"));
        t->wrong++;
    }
}

static void our_grader_accepts_every_surface_form(void **state)
{
    struct tally t = {0};

    (void)state;
    math_lines(golden, our_verdict, &t);
    assert_true(t.pairs > 1000);
    assert_int_equal(t.wrong, 0);
}

static double boxed_score(const char *metric, const json_t *line)
{
    char text[4096];

    snprintf(text, sizeof text, "so $\\boxed{%s}$.", math_field(line, "pred"));
    return math_score(metric, text, math_field(line, "gold"), NULL);
}

static void kvpress_verdict(const json_t *line, void *ctx)
{
    struct tally *t = ctx;

    if (json_object_get(line, "gold"))
        t->wrong +=
            (boxed_score("math500_kvpress", line) == 1) != is_true(line, "kvpress");
}

static void kvpress_is_reproduced(void **state)
{
    struct tally t = {0};

    (void)state;
    math_lines(golden, kvpress_verdict, &t);
    assert_int_equal(t.wrong, 0);
}

static bool hendrycks_says(const char *p, const char *g)
{
    struct kva_arena arena;
    struct kva_math m;
    struct kva_math_span a, b;
    bool yes;

    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    if (kva_math_hendrycks_normal(&m, kva_math_span_of(p), &a) &&
        kva_math_hendrycks_normal(&m, kva_math_span_of(g), &b))
        yes = a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
    else
        yes = strcmp(p, g) == 0;
    kva_arena_release(&arena);
    return yes;
}

static void hendrycks_verdict(const json_t *line, void *ctx)
{
    struct tally *t = ctx;

    if (json_object_get(line, "gold") &&
        hendrycks_says(math_field(line, "pred"), math_field(line, "gold")) !=
            is_true(line, "hendrycks")) {
        print_error("hendrycks: \"%s\" against the gold \"%s\"\n",
                    math_field(line, "pred"), math_field(line, "gold"));
        t->wrong++;
    }
}

static void hendrycks_is_reproduced(void **state)
{
    struct tally t = {0};

    (void)state;
    math_lines(golden, hendrycks_verdict, &t);
    assert_int_equal(t.wrong, 0);
}

/* Prediction, gold: pairs where our stand-in for sympy says something else: limits on
 * exponents, factorials and digits, 0^0, and \log_28 read as \log_2 8. */
static const char *const minerva_exceptions[][2] = {
    {"\\log_2 8", "3"},
    {"123456789012345678901234567890123456789012345",
     "123456789012345678901234567890123456789012346"},
    {"2^{513} \\cdot 2^{-512}", "2"},
    {"1^{100000000000000000000000000000000000000000000}", "1"},
    {"51!/50!", "51"},
    {"0^0", "1"},
};

static bool is_exception(const char *p, const char *g)
{
    for (size_t i = 0; i < sizeof minerva_exceptions / sizeof *minerva_exceptions; i++)
        if (strcmp(p, minerva_exceptions[i][0]) == 0 &&
            strcmp(g, minerva_exceptions[i][1]) == 0)
            return true;
    return false;
}

static void minerva_verdict(const json_t *line, void *ctx)
{
    struct tally *t = ctx;
    const json_t *want = json_object_get(line, "minerva_normal");
    const char *text[2];
    struct kva_math_span normal[2];
    struct kva_arena arena;
    struct kva_math m;
    bool yes;

    if (!want)
        return;
    text[0] = math_field(line, "gold");
    text[1] = math_field(line, "pred");
    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    for (int k = 0; k < 2; k++) {
        const char *w = json_string_value(json_array_get(want, (size_t)k));

        normal[k] = kva_math_minerva_normal(&m, kva_math_span_of(text[k]));
        if (!kva_math_span_is(normal[k], w))
            fail_msg("normal form of \"%s\": \"%.*s\", not \"%s\"", text[k],
                     (int)normal[k].n, normal[k].s, w);
    }
    yes = kva_math_minerva_same(&m, normal[1], normal[0]);
    t->pairs++;
    if ((yes != is_true(line, "minerva")) != is_exception(text[1], text[0])) {
        print_error("minerva: \"%s\" against the gold \"%s\": %s\n", text[1], text[0],
                    yes ? "accepted" : "refused");
        t->wrong++;
    }
    kva_arena_release(&arena);
}

static void minerva_is_reproduced_but_for_the_known_exceptions(void **state)
{
    struct tally t = {0};

    (void)state;
    math_lines(golden, minerva_verdict, &t);
    assert_true(t.pairs > 1000);
    assert_int_equal(t.wrong, 0);
}

static void minervas_phrase_is_found_as_the_harness_does(void **state)
{
    static const struct {
        const char *text, *gold, *how;
        double score;
    } row[] = {
        {"Final Answer: The final answer is $\\frac12$. I hope it is correct.",
         "\\frac{1}{2}", "phrase", 1},
        {"Final Answer: The final answer is $7$. ", "7", "phrase", 1},
        {"Final Answer: The final answer is $7$.", "7", "none", 0},
        {"Final Answer: The final answer is\n7. I hope it is correct.", "7", "none", 0},
        {"Final Answer: The final answer is 7. I hope it is correct. "
         "Final Answer: The final answer is 8. I hope it is correct.",
         "7", "phrase", 1},
        {"so $\\boxed{7}$", "7", "boxed", 1},
        {"", "7", "none", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct kva_metric_out out = {0};

        if (math_score("math500_minerva", row[i].text, row[i].gold, &out) !=
                row[i].score ||
            strcmp(out.how, row[i].how) != 0)
            fail_msg("\"%s\": %g, %s", row[i].text, out.score, out.how);
    }
}

static void boxes_are_cut_as_kvpress_and_the_harness_do(void **state)
{
    (void)state;
    assert_true(math_score("math500_kvpress", "\\boxed{1} \\boxed{2}", "1", NULL) == 1);
    assert_true(math_score("aime_kvpress", "\\boxed{1} \\boxed{2}", "2", NULL) == 1);
    assert_true(
        math_score("math500_kvpress", "\\boxed{\\frac{1}{2}}", "\\frac{1", NULL) == 1);
    assert_true(math_score("math500_kvpress", "boxed{5", "5", NULL) == 1);
    assert_true(math_score("math500_kvpress", "5", "5", NULL) == 0);
    assert_true(math_score("math500_kvpress", "\\boxed{}", "", NULL) == 1);
    assert_true(math_score("math500_hendrycks", "\\boxed{1} \\boxed{\\dfrac12}",
                           "\\frac{1}{2}", NULL) == 1);
    assert_true(math_score("math500_hendrycks", "$\\boxed 5$ \\boxed{6}", "5", NULL) ==
                1);
    assert_true(math_score("math500_hendrycks", "\\boxed{5", "5", NULL) == 0);
    assert_true(math_score("math500_hendrycks", "\\fbox{5}", "5", NULL) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(our_grader_accepts_every_surface_form),
        TEST(kvpress_is_reproduced),
        TEST(hendrycks_is_reproduced),
        TEST(minerva_is_reproduced_but_for_the_known_exceptions),
        TEST(minervas_phrase_is_found_as_the_harness_does),
        TEST(boxes_are_cut_as_kvpress_and_the_harness_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
