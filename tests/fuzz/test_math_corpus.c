/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_math_corpus.c - answers of mathematical problems: stored ones, seeded edits of
 * them, and strings put together from pieces of LaTeX.
 *
 * Every metric takes any bytes and gives 0 or 1, twice the same; a string equals itself;
 * what is read is read in bounded time (work), whatever it is. */
#include "tests/fuzz/fuzz.h"

#include "metrics/math_public.h"

static const char *const words[] = {"\\frac",
                                    "\\frac12",
                                    "\\dfrac{",
                                    "\\sqrt",
                                    "\\sqrt[3]{",
                                    "\\boxed{",
                                    "\\boxed ",
                                    "\\text{",
                                    "\\text{ and }",
                                    "\\mbox{",
                                    "\\mathrm{i}",
                                    "\\left(",
                                    "\\right]",
                                    "\\left.",
                                    "\\{",
                                    "\\}",
                                    "\\\\",
                                    "\\ ",
                                    "\\,",
                                    "\\!",
                                    ",\\!",
                                    "{,}",
                                    "\\begin{pmatrix}",
                                    "\\end{pmatrix}",
                                    "\\begin{array}{cc}",
                                    "\\end{array}",
                                    "&",
                                    "\\cup",
                                    "\\in",
                                    "\\infty",
                                    "\\pm",
                                    "\\mp",
                                    "\\le",
                                    ">=",
                                    "<",
                                    "=",
                                    "\\approx",
                                    "\\pi",
                                    "\\theta",
                                    "\\cdot",
                                    "\\times",
                                    "\\div",
                                    "/",
                                    "^",
                                    "**",
                                    "^{",
                                    "^\\circ",
                                    "!",
                                    "_",
                                    "_{",
                                    "\\sin",
                                    "\\cos^{-1}",
                                    "\\log_2",
                                    "\\ln",
                                    "\\binom{5}{2}",
                                    "|",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    "{",
                                    "}",
                                    "$",
                                    "$$",
                                    "%",
                                    "\\%",
                                    "+",
                                    "-",
                                    ",",
                                    ";",
                                    ".",
                                    "0.",
                                    ".5",
                                    "1e9",
                                    "9",
                                    "12",
                                    "1,000",
                                    "99999999999999999999999999999999999999",
                                    "0.\\overline{3}",
                                    "x",
                                    "i",
                                    "e",
                                    "pi",
                                    "sqrt(",
                                    " ",
                                    "\n",
                                    " and ",
                                    " or ",
                                    " cm",
                                    " degrees",
                                    "^2",
                                    "x_1",
                                    "f(x)",
                                    "AB",
                                    "</think>",
                                    "answer is",
                                    "Answer:",
                                    "####",
                                    "**",
                                    "I hope it is correct.",
                                    "Final Answer: The final answer is ",
                                    "\\emptyset",
                                    "\xe2\x88\x9a",
                                    "\xc2\xb0",
                                    "\xe2\x88\x92",
                                    "\xff",
                                    "\xe2\x82",
                                    NULL};

static const char *const metrics[] = {
    "math500",         "math500_boxed", "math500_kvpress", "math500_hendrycks",
    "math500_minerva", "aime",          "aime_kvpress",    "gsm8k"};

/* One pair through everything; true when it is equal. */
static bool judge(struct kva_arena *arena, const char *p, size_t n, const char *gold)
{
    struct kva_math m;
    struct kva_math_span a = {p, n}, b = kva_math_span_of(gold);
    const struct kva_math_value *v, *w;
    bool yes;

    kva_arena_reset(arena);
    kva_math_init(&m, arena);
    v = kva_math_read(&m, a);
    w = kva_math_read(&m, b);
    yes = kva_math_equal(&m, v, w);
    if (yes != kva_math_equal(&m, v, w) && m.work > 0)
        fail_msg("not the same twice: \"%.*s\", \"%s\"", (int)n, p, gold);
    m.work = MATH_WORK;
    if (v->plain.n && !kva_math_equal(&m, v, v))
        fail_msg("not equal to itself: \"%.*s\"", (int)n, p);
    m.work = MATH_WORK;
    (void)kva_math_minerva_same(&m, kva_math_minerva_normal(&m, a),
                                kva_math_minerva_normal(&m, b));
    (void)kva_math_hendrycks_normal(&m, a, &(struct kva_math_span){0});
    assert_false(m.nomem);
    return yes;
}

static void score_all(const char *text, size_t n, const char *gold)
{
    for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) {
        const struct kva_metric *metric = kva_metric_find(metrics[k]);
        struct kva_metric_in in = {
            .prediction = text, .n = n, .answers = &gold, .n_answers = 1};
        struct kva_buf found;
        struct kva_metric_out out = {.extracted = &found};

        kva_buf_init(&found, 0);
        assert_int_equal(kva_metric_score(metric, &in, &out, NULL), KVA_OK);
        assert_true(out.score == 0 || out.score == 1);
        assert_non_null(out.how);
        assert_true(found.len <= n + 64);
        kva_buf_release(&found);
    }
}

/* Lines of the stored file: an answer each. */
struct answers {
    char *line[512];
    int n;
    struct kva_buf text;
};

static void load(struct answers *a)
{
    kva_buf_init(&a->text, 0);
    assert_int_equal(kva_read_file("tests/fuzz/math/ok-answers", 0, &a->text, NULL),
                     KVA_OK);
    a->n = 0;
    for (char *p = a->text.data; *p && a->n < 512;) {
        char *end = strchr(p, '\n');

        assert_non_null(end);
        *end = '\0';
        a->line[a->n++] = p;
        p = end + 1;
    }
    assert_true(a->n > 50);
}

static void every_stored_answer_is_read(void **state)
{
    struct answers a;
    struct kva_arena arena;

    (void)state;
    load(&a);
    kva_arena_init(&arena);
    for (int i = 0; i < a.n; i++) {
        assert_true(judge(&arena, a.line[i], strlen(a.line[i]), a.line[i]));
        score_all(a.line[i], strlen(a.line[i]), a.line[i]);
    }
    kva_arena_release(&arena);
    kva_buf_release(&a.text);
}

static size_t compose(struct kva_rng *r, char *b, size_t room)
{
    uint64_t n_words = 0, pieces = 1 + kva_rng_below(r, 24);
    size_t n = 0;

    while (words[n_words])
        n_words++;
    for (; pieces > 0; pieces--) {
        const char *w = words[kva_rng_below(r, n_words)];
        /* now and then many of one kind */
        uint64_t times = kva_rng_below(r, 8000) == 0 ? 1 + kva_rng_below(r, 3000) : 1;

        for (; times > 0 && n + strlen(w) < room; times--) {
            memcpy(b + n, w, strlen(w));
            n += strlen(w);
        }
    }
    return n;
}

static void edited_and_composed_answers_are_judged(void **state)
{
    struct answers a;
    struct kva_arena arena;
    struct kva_rng r = {20250712};
    uint64_t begin = kva_now_ns();
    long tries = 0, equal = 0;
    char *b = malloc(FUZZ_ROOM + 1);

    (void)state;
    load(&a);
    kva_arena_init(&arena);
    for (; fuzz_goes_on(tries, 20000, begin); tries++) {
        const char *gold = a.line[kva_rng_below(&r, (uint64_t)a.n)];
        size_t n = strlen(gold);

        if (kva_rng_below(&r, 2)) {
            memcpy(b, gold, n);
            n = fuzz_edit(&r, (uint8_t *)b, n, words);
        } else {
            n = compose(&r, b, FUZZ_ROOM);
        }
        b[n] = '\0';
        equal += judge(&arena, b, n, gold);
        if (tries % 16 == 0)
            score_all(b, n, gold);
    }
    print_message("%ld answers, %ld equal\n", tries, equal);
    assert_true(equal > 0 && equal < tries);
    free(b);
    kva_arena_release(&arena);
    kva_buf_release(&a.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_answer_is_read),
        cmocka_unit_test(edited_and_composed_answers_are_judged),
    };

    kva_log_set(fuzz_quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
