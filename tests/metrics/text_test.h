/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_test.h - what the tests of text metrics share: one call per score. */
#ifndef KVA_TESTS_TEXT_TEST_H
#define KVA_TESTS_TEXT_TEST_H

#include "metrics/metric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline double score_in(const char *metric, const struct kva_metric_in *in)
{
    const struct kva_metric *m = kva_metric_find(metric);
    struct kva_metric_out out = {0};
    struct kva_error err = {0};

    assert_non_null(m);
    if (kva_metric_score(m, in, &out, &err) != KVA_OK)
        fail_msg("%s: %s", metric, err.text);
    assert_true(out.score >= 0 && out.score <= 1);
    return out.score;
}

static inline double score_of(const char *metric, const char *prediction,
                              const char *answer)
{
    const char *const answers[] = {answer};

    return score_in(metric, &(struct kva_metric_in){.prediction = prediction,
                                                    .n = strlen(prediction),
                                                    .answers = answers,
                                                    .n_answers = 1});
}

struct text_row {
    const char *prediction, *answer;
    double score;
};

/* Every row to the last bit. */
static inline void check_rows(const char *metric, const struct text_row *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double got = score_of(metric, row[i].prediction, row[i].answer);

        if (got != row[i].score)
            fail_msg("%s('%s', '%s') is %.17g, not %.17g", metric, row[i].prediction,
                     row[i].answer, got, row[i].score);
    }
}

/* n bytes of `pattern` over and over; free(). */
static inline char *repeat(const char *pattern, size_t n)
{
    size_t len = strlen(pattern);
    char *s = malloc(n + 1);

    assert_non_null(s);
    for (size_t i = 0; i < n; i++)
        s[i] = pattern[i % len];
    s[n] = '\0';
    return s;
}

/* Random words and full stops, n bytes; free(). */
static inline char *random_text(uint64_t seed, size_t n, const char *alphabet)
{
    struct kva_rng r = {seed};
    char *s = malloc(n + 1);

    assert_non_null(s);
    for (size_t i = 0; i < n; i++)
        s[i] = alphabet[kva_rng_below(&r, strlen(alphabet))];
    s[n] = '\0';
    return s;
}

/* The score, and that it took less than a second of processor time. */
static inline double timed_score(const char *metric, const char *prediction,
                                 const char *answer)
{
    for (int tries = 1;; tries++) {
        uint64_t begin = kva_cpu_ns();
        double score = score_of(metric, prediction, answer);
        double seconds = (double)(kva_cpu_ns() - begin) / 1e9;

        if (seconds < 1)
            return score;
        if (tries == 2)
            fail_msg("%s took %.2f s", metric, seconds);
    }
}

#endif
