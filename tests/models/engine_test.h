/* SPDX-License-Identifier: GPL-3.0-or-later */
/* engine_test.h - what the tests of models, sessions and steps share: cmocka, short
 * set-up, and the golden numbers of the tiny llama (models.md 9.2). */
#ifndef KVA_ENGINE_TEST_H
#define KVA_ENGINE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/model_impl.h"

enum { TINY_TOKENS = 24, TINY_VOCAB = 260 };

/* Fails the test with the message when something that must work does not. */
#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        enum kva_status ok_rc_ = (expr);                                                 \
        if (ok_rc_ != KVA_OK)                                                            \
            fail_msg("%s: %s", #expr, err->text);                                        \
    } while (0)
static struct kva_error test_error;

static inline int32_t tiny_token(int i)
{
    return (37 * i + 11) % 251;
}

static inline struct kva_model *open_model(const char *path, const char *numerics)
{
    struct kva_model *m = NULL;

    OK(kva_model_open(path, &(struct kva_model_opts){.numerics = numerics}, &m, err));
    return m;
}

static inline struct kva_session *open_session(struct kva_model *m, enum kva_type kv,
                                               int q_window)
{
    struct kva_session *s = NULL;

    OK(kva_session_new(
        m, &(struct kva_session_opts){.kv = kv, .page_cap = 16384, .q_window = q_window},
        &s, err));
    return s;
}

/* Feeds ids in chunks, all logits into out[n][vocab]. */
static inline void feed(struct kva_model *m, struct kva_session *s, const int32_t *ids,
                        int n, int chunk, float *out)
{
    struct kva_row rows[64];

    for (int at = 0; at < n; at += chunk) {
        int c = n - at < chunk ? n - at : chunk;

        assert_true(c <= 64);
        for (int i = 0; i < c; i++)
            rows[i] = (struct kva_row){
                .session = s, .token = ids[at + i], .logits = out != NULL, .target = -1};
        OK(kva_step(m, rows, c,
                    out ? out + (size_t)at * (size_t)kva_model_info(m)->vocab : NULL,
                    err));
        assert_int_equal(kva_session_error(s)->code, KVA_OK);
    }
}

static inline float *new_logits(const struct kva_model *m, int rows)
{
    float *p = calloc((size_t)rows * (size_t)kva_model_info(m)->vocab, sizeof *p);

    assert_non_null(p);
    return p;
}

/* Largest difference over max(1, largest logit of the reference). */
static inline double gap(const float *have, const float *want, size_t n)
{
    double most = 0, top = 1;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)have[i] - (double)want[i]);

        most = d > most || isnan(d) ? d : most;
        top = fabs((double)want[i]) > top ? fabs((double)want[i]) : top;
    }
    return most / top;
}

static inline int best(const float *x, int n)
{
    int b = 0;

    for (int i = 1; i < n; i++)
        if (x[i] > x[b])
            b = i;
    return b;
}

/* All 24 rows against the row `llama` of models.md 9.2; returns the largest error over
 * the tolerance 2e-4 * max(1, max|logit|). */
static inline double tiny_golden_error(const float *l)
{
    static const double first[6] = {-12.001321, 3.838134, -6.424703,
                                    4.495554,   -1.79774, -0.341707};
    const float *r23 = l + 23 * TINY_VOCAB;
    double sum = 0, worst = 0, tol = 2e-4 * 19.544716, d;

    for (int i = 0; i < 6; i++) {
        d = fabs((double)r23[i] - first[i]);
        worst = d > worst ? d : worst;
    }
    for (int i = 0; i < TINY_VOCAB; i++)
        sum += (double)r23[i];
    d = fabs(sum - 132.58648) / sqrt(260.0); /* a sum of 260 rounding errors */
    worst = d > worst ? d : worst;
    d = fabs((double)r23[53] - 15.747543);
    worst = d > worst ? d : worst;
    d = fabs((double)l[59] - 19.544716);
    worst = d > worst ? d : worst;
    d = fabs((double)l[8 * TINY_VOCAB + 222] - 17.823887);
    worst = d > worst ? d : worst;
    if (best(r23, TINY_VOCAB) != 53 || best(l, TINY_VOCAB) != 59 ||
        best(l + 8 * TINY_VOCAB, TINY_VOCAB) != 222)
        worst = 1e9;
    return worst / tol;
}

static inline void tiny_ids(int32_t ids[TINY_TOKENS])
{
    for (int i = 0; i < TINY_TOKENS; i++)
        ids[i] = tiny_token(i);
}

#endif
