/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_math_data.c - the 500 problems of MATH-500 and the 110 judged pairs, from the
 * shared folder: golds, solutions, vectors, and every gold against every other. */
#include "tests/metrics/math_test.h"

struct golds {
    char *text[512];
    int n, lines;
};

static void add_gold(const json_t *line, void *ctx)
{
    struct golds *g = ctx;
    const char *gold = math_field(line, "answer");

    g->lines++;
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->text[i], gold) == 0)
            return;
    assert_true(g->n < 512);
    g->text[g->n++] = strdup(gold);
}

static void a_vector_is_judged_right(const json_t *line, void *ctx)
{
    int *n = ctx;

    want_equal(math_field(line, "pred"), math_field(line, "gold"),
               json_is_true(json_object_get(line, "equal")), __FILE__, __LINE__);
    *n += 1;
}

static void every_vector_is_judged_right(void **state)
{
    int n = 0;

    (void)state;
    math_lines(math_shared("equiv-vectors.jsonl"), a_vector_is_judged_right, &n);
    assert_int_equal(n, 110);
}

static void a_solution_is_right(const json_t *line, void *ctx)
{
    const char *solution = math_field(line, "solution"),
               *gold = math_field(line, "answer");
    struct kva_metric_out out = {0};
    int *n = ctx;

    if (math_score("math500", solution, gold, &out) != 1 ||
        math_score("math500_boxed", solution, gold, &out) != 1)
        fail_msg("the solution of \"%s\" is refused", gold);
    assert_string_equal(out.how, "boxed");
    *n += 1;
}

static void every_solution_is_graded_right(void **state)
{
    int n = 0;

    (void)state;
    math_lines(math_shared("test.jsonl"), a_solution_is_right, &n);
    assert_int_equal(n, 500);
}

/* The end of B.7: prediction, gold. */
static const char *const intended[][2] = {
    {"10,\\!080", "10080"},
    {"30^\\circ", "30"},
    {"36^\\circ", "36"},
    {"90^\\circ", "90"},
    {"120^\\circ", "120"},
    {"\\$36", "36"},
    {"\\$36", "36^\\circ"},
    {"15\\mbox{ cm}^2", "15"},
    {"2 \\sqrt{5}", "2\\sqrt{5}"},
    {"\\frac14", "\\frac{1}{4}"},
    {"x=5", "5"},
    {"1,-2", "-2,1"},
    {NULL, NULL},
    {"(-2,1)", "-2,1"}, /* one way only */
    {"(-2,1)", "1,-2"},
    {"-2,1", "(-2,1)"},
    {"40", "40_9"},
};

static bool is_intended(const char *p, const char *g)
{
    bool both = true;

    for (size_t i = 0; i < sizeof intended / sizeof *intended; i++) {
        const char *a = intended[i][0], *b = intended[i][1];

        if (!a)
            both = false;
        else if ((strcmp(p, a) == 0 && strcmp(g, b) == 0) ||
                 (both && strcmp(p, b) == 0 && strcmp(g, a) == 0))
            return true;
    }
    return false;
}

static void different_golds_are_equal_only_where_intended(void **state)
{
    const struct kva_math_value *value[512];
    struct golds g = {.n = 0};
    struct kva_arena arena;
    struct kva_math m;
    int wrong = 0, found = 0;

    (void)state;
    math_lines(math_shared("test.jsonl"), add_gold, &g);
    assert_int_equal(g.lines, 500);
    assert_int_equal(g.n, 301);
    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    for (int i = 0; i < g.n; i++) {
        m.work = MATH_WORK;
        value[i] = kva_math_read(&m, kva_math_span_of(g.text[i]));
        if (value[i]->kind == KVA_MATH_UNREADABLE)
            fail_msg("\"%s\" is unreadable", g.text[i]);
    }
    for (int i = 0; i < g.n; i++)
        for (int k = 0; k < g.n; k++) {
            bool want = i == k || is_intended(g.text[i], g.text[k]), got;

            m.work = MATH_WORK;
            got = kva_math_equal(&m, value[i], value[k]);
            found += got && i != k;
            if (got != want) {
                print_error("\"%s\" against the gold \"%s\": %s\n", g.text[i], g.text[k],
                            got ? "accepted" : "refused");
                wrong++;
            }
        }
    assert_int_equal(wrong, 0);
    assert_int_equal(found, 28); /* 12 pairs both ways and 4 one way */
    kva_arena_release(&arena);
    for (int i = 0; i < g.n; i++)
        free(g.text[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_vector_is_judged_right),
        TEST(every_solution_is_graded_right),
        TEST(different_golds_are_equal_only_where_intended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
