/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_math.c - MATH-500, AIME and GSM8K: the answer is extracted (math_extract.c) and
 * compared as a typed value (math_equal.c), or as an exact number.
 *
 *   math500        the answer, however it was found, equals the gold; or the boxes that
 *                  form one list do, when the gold is a list
 *   math500_boxed  the same, and it stood in a box
 *   aime           exact integers, leading zeros and dress off
 *   gsm8k          exact rationals; of the gold what follows the last ####
 *
 * Texts of any length are read in linear time; of an answer 4,096 code points. */
#include "metrics/math.h"

#include <string.h>

typedef bool (*judge)(struct kva_math *m, const struct kva_math_answer *found,
                      struct kva_math_span gold, struct kva_math_span *used);

/* Grades against every reference; extracted is what was right, else the answer. */
static enum kva_status grade(judge f, const struct kva_metric_in *in,
                             struct kva_metric_out *out, struct kva_error *err)
{
    struct kva_arena arena;
    struct kva_math m;
    struct kva_math_answer found;
    struct kva_math_span used;
    enum kva_status rc;

    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    found = kva_math_extract(&m, in->prediction, in->n);
    used = found.answer;
    out->score = 0;
    out->how = kva_math_how_name(found.how);
    for (int i = 0; i < in->n_answers && out->score == 0 && !m.nomem; i++) {
        m.work = MATH_WORK;
        if (f(&m, &found, kva_math_span_of(in->answers[i]), &used))
            out->score = 1;
    }
    KVA_GO(kva_math_status(&m, err));
    if (out->extracted) {
        kva_buf_add(out->extracted, used.s, used.n);
        KVA_GO(kva_buf_status(out->extracted, err));
    }
out:
    kva_arena_release(&arena);
    return rc;
}

static bool takes_many(const struct kva_math_value *v)
{
    return v->kind == KVA_MATH_LIST || v->kind == KVA_MATH_SET ||
           v->kind == KVA_MATH_UNION ||
           (v->kind == KVA_MATH_EXPRESSION && v->expr->has_pm);
}

static bool typed(struct kva_math *m, const struct kva_math_answer *found,
                  struct kva_math_span gold, struct kva_math_span *used)
{
    const struct kva_math_value *g = kva_math_read(m, gold);

    if (found->how == KVA_MATH_NONE)
        return false;
    if (kva_math_equal(m, kva_math_read(m, found->answer), g))
        return true;
    if (found->joined.n == 0 || !takes_many(g) ||
        !kva_math_equal(m, kva_math_read(m, found->joined), g))
        return false;
    *used = found->joined;
    return true;
}

static bool typed_boxed(struct kva_math *m, const struct kva_math_answer *found,
                        struct kva_math_span gold, struct kva_math_span *used)
{
    return found->how == KVA_MATH_BOXED && typed(m, found, gold, used);
}

static bool rational(struct kva_math *m, const struct kva_math_answer *found,
                     struct kva_math_span gold, struct kva_math_span *used)
{
    struct kva_rational p, g;

    (void)used;
    for (size_t i = gold.n; i-- > 0;)
        if (gold.n - i >= 4 && memcmp(gold.s + i, "####", 4) == 0) {
            gold = (struct kva_math_span){gold.s + i + 4, gold.n - i - 4};
            break;
        }
    return found->how != KVA_MATH_NONE && kva_math_rational(m, gold, &g) &&
           kva_math_rational(m, found->answer, &p) && kva_rational_same(p, g);
}

static bool integer(struct kva_math *m, const struct kva_math_answer *found,
                    struct kva_math_span gold, struct kva_math_span *used)
{
    struct kva_rational g;

    return kva_math_rational(m, gold, &g) && g.d == 1 && rational(m, found, gold, used);
}

static enum kva_status score_math500(const struct kva_metric_in *in,
                                     struct kva_metric_out *out, struct kva_error *err)
{
    return grade(typed, in, out, err);
}

static enum kva_status score_boxed(const struct kva_metric_in *in,
                                   struct kva_metric_out *out, struct kva_error *err)
{
    return grade(typed_boxed, in, out, err);
}

static enum kva_status score_aime(const struct kva_metric_in *in,
                                  struct kva_metric_out *out, struct kva_error *err)
{
    return grade(integer, in, out, err);
}

static enum kva_status score_gsm8k(const struct kva_metric_in *in,
                                   struct kva_metric_out *out, struct kva_error *err)
{
    return grade(rational, in, out, err);
}

const struct kva_metric kva_text_math500 = {
    .name = "math500",
    .summary = "the answer equals the gold as a typed mathematical value",
    .source = "kvaudit; problems of MATH-500, arXiv 2305.20050",
    .version = 1,
    .binary = true,
    .score = score_math500,
};

const struct kva_metric kva_text_math500_boxed = {
    .name = "math500_boxed",
    .summary = "as math500, and the answer must stand in a box",
    .source = "kvaudit; problems of MATH-500, arXiv 2305.20050",
    .version = 1,
    .binary = true,
    .score = score_boxed,
};

const struct kva_metric kva_text_aime = {
    .name = "aime",
    .summary = "the answer is the gold integer, exactly",
    .source = "AIME 2025, hub math-ai/aime25",
    .version = 1,
    .binary = true,
    .score = score_aime,
};

const struct kva_metric kva_text_gsm8k = {
    .name = "gsm8k",
    .summary = "the answer is the gold number behind ####, exactly",
    .source = "GSM8K, arXiv 2110.14168",
    .version = 1,
    .binary = true,
    .score = score_gsm8k,
};
