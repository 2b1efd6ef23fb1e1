/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_metric_texts.c - the text metrics on random pairs of texts and edits of them.
 *
 * Any bytes give a score in [0, 1], twice the same, and what must hold between scores
 * holds: of a text with itself, of a pair turned round, of a metric and its stricter
 * sister. */
#include "tests/fuzz/fuzz.h"

#include "metrics/metric.h"

#include <math.h>

static const char *const words[] = {"a",
                                    "the",
                                    "an",
                                    "cat",
                                    "sat on ",
                                    "x.",
                                    ". ",
                                    " . ",
                                    ".",
                                    "..",
                                    " ",
                                    "\n",
                                    "\t",
                                    "Paragraph 12",
                                    "12",
                                    "3",
                                    "#",
                                    "//",
                                    "`",
                                    "    return ",
                                    "self.x = 1",
                                    "it's",
                                    "Dr. ",
                                    "New York ",
                                    "\0",
                                    "\xff",
                                    "\xc3",
                                    "\xe2\x82",
                                    "\xc2\xa0",
                                    "\xce\xa3",
                                    "\xcf\x83",
                                    "\xcf\x82",
                                    "\xc4\xb0",
                                    "\xe3\x80\x80",
                                    "\xd9\xa1",
                                    "\xf0\x9f\x98\x80",
                                    "abababababababababababababababab",
                                    NULL};

/* Texts to begin with; the edits do the rest. */
static const char *const seeds[] = {
    "The cat sat on the mat. It was a well-known cat, wasn't it?",
    "Paragraph 19, not 3 but 19",
    "\n\n# comment\n    for (i = 0; i < n; i++) sum += self.x[i]\nreturn",
    "w1 w2 w6 w7 w8. w1 w3 w8 w9 w5. w1 w2 w3 w4 w5",
    "xyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyz"
    "xyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyz"
    "xyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxyz",
    "\xce\x9f\xce\x94\xce\x9f\xce\xa3 caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac",
    ".",
};
enum { N_SEEDS = sizeof seeds / sizeof seeds[0], MOST = 600 };

struct text {
    uint8_t *bytes; /* FUZZ_ROOM of them */
    size_t n;
};

static double score(const char *metric, const struct text *prediction, const char *answer)
{
    const char *const answers[] = {answer};
    const struct kva_metric_in in = {.prediction = (const char *)prediction->bytes,
                                     .n = prediction->n,
                                     .answers = answers,
                                     .n_answers = 1,
                                     .classes = answers,
                                     .n_classes = 1};
    struct kva_metric_out out = {0}, again = {0};
    struct kva_error err = {0};

    assert_int_equal(kva_metric_score(kva_metric_find(metric), &in, &out, &err), KVA_OK);
    assert_int_equal(kva_metric_score(kva_metric_find(metric), &in, &again, &err),
                     KVA_OK);
    if (!(out.score >= 0 && out.score <= 1) || out.score != again.score)
        fail_msg("%s gives %.17g and %.17g", metric, out.score, again.score);
    return out.score;
}

/* The next pair: seeds, edited up to eight times, ended by a NUL that does not count. */
static void draw(struct kva_rng *r, struct text *a, struct text *b)
{
    const char *seed = seeds[kva_rng_below(r, N_SEEDS)];
    struct kva_buf clean;

    a->n = strlen(seed);
    memcpy(a->bytes, seed, a->n);
    for (uint64_t k = kva_rng_below(r, 3); k > 0; k--)
        a->n = fuzz_edit(r, a->bytes, a->n, words);
    a->n = a->n < MOST ? a->n : MOST;
    memcpy(b->bytes, a->bytes, a->n);
    b->n = a->n;
    for (uint64_t k = kva_rng_below(r, 4); k > 0; k--)
        b->n = fuzz_edit(r, b->bytes, b->n, words);
    b->n = b->n < MOST ? b->n : MOST;
    a->bytes[a->n] = b->bytes[b->n] = '\0';
    /* a reference ends at a NUL and comes from a file that was checked */
    kva_buf_init(&clean, FUZZ_ROOM);
    kva_utf8_clean((const char *)b->bytes, strlen((const char *)b->bytes), &clean);
    memcpy(b->bytes, clean.data, clean.len + 1);
    b->n = clean.len;
    kva_buf_release(&clean);
}

static void rouge(const struct text *a, const struct text *b)
{
    const char *answer = (const char *)b->bytes;
    double own = score("rouge_l", b, answer);

    score("rouge_l", a, answer);
    assert_true(own == 0.999999995 || strspn(answer, ".") == b->n);
}

static void code(const struct text *a, const struct text *b)
{
    const char *answer = (const char *)b->bytes;
    double difflib = score("code_sim", a, answer),
           indel = score("code_sim_indel", a, answer);

    /* never below, but for the rounding of halves */
    if (indel < difflib - 0.0100001)
        fail_msg("difflib %.2f, indel %.2f", difflib, indel);
}

static void f1(const struct text *a, const struct text *b)
{
    double f = score("qa_f1", a, (const char *)b->bytes);
    struct kva_buf scratch;

    kva_buf_init(&scratch, FUZZ_ROOM);

    if (strlen((const char *)a->bytes) == a->n &&
        kva_utf8_clean((const char *)a->bytes, a->n, &scratch) == 0)
        assert_true(fabs(f - score("qa_f1", b, (const char *)a->bytes)) < 1e-12);
    f = score("qa_f1", b, (const char *)b->bytes);
    assert_true(f == 1 || f == 0);
    kva_buf_release(&scratch);
}

static void others(const struct text *a, const struct text *b)
{
    const char *answer = (const char *)b->bytes;
    double all = score("match_all", a, answer);

    assert_true(score("word_match", a, answer) <= all);
    assert_true(score("match_part", a, answer) == all);
    score("retrieval", a, answer);
    score("count", a, answer);
    score("classification", a, answer);
}

static void any_texts_give_scores_and_what_must_hold_holds(void **state)
{
    struct text a = {.bytes = malloc(FUZZ_ROOM + 1)},
                b = {.bytes = malloc(FUZZ_ROOM + 1)};
    uint64_t begin = kva_now_ns();
    struct kva_rng r = {20240606};
    long tries = 0;

    (void)state;
    assert_non_null(a.bytes);
    assert_non_null(b.bytes);
    for (; fuzz_goes_on(tries, 20000, begin); tries++) {
        draw(&r, &a, &b);
        rouge(&a, &b);
        code(&a, &b);
        f1(&a, &b);
        others(&a, &b);
    }
    print_message("%ld pairs\n", tries);
    free(a.bytes);
    free(b.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_texts_give_scores_and_what_must_hold_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
