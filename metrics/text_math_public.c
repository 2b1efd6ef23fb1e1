/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_math_public.c - MATH-500 as other suites grade it, for numbers beside published
 * ones (tasks-longbench-math.md B.7). Their errors are part of them.
 *
 *   math500_kvpress    between the first "boxed{" and the next "}", as a string
 *   aime_kvpress       the same of the last "boxed{"
 *   math500_hendrycks  the last box, string rules (math_hendrycks.c)
 *   math500_minerva    "Final Answer: The final answer is .. I hope it is correct.", else
 *                      the last box; string rules and sympy (math_minerva.c)
 *
 * The harness gives 0 to a text without Minerva's phrase; chat models never write it, so
 * here the box counts then. Hendrycks' box is that of the harness: braces are counted
 * without regard to backslashes, and "\boxed " wins over "\boxed{". */
#include "metrics/math_public.h"

#include <string.h>

typedef struct kva_math_span (*extract)(struct kva_math_span text,
                                        enum kva_math_how *how);
typedef bool (*judge)(struct kva_math *m, struct kva_math_span answer,
                      struct kva_math_span gold);

static enum kva_status grade(extract find, judge equal, const struct kva_metric_in *in,
                             struct kva_metric_out *out, struct kva_error *err)
{
    enum kva_math_how how = KVA_MATH_NONE;
    struct kva_math_span answer =
        find((struct kva_math_span){in->prediction, in->n}, &how);
    struct kva_arena arena;
    struct kva_math m;
    enum kva_status rc;

    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    out->score = 0;
    out->how = kva_math_how_name(how);
    for (int i = 0; i < in->n_answers && how != KVA_MATH_NONE && out->score == 0; i++) {
        m.work = MATH_WORK;
        out->score = equal(&m, answer, kva_math_span_of(in->answers[i])) ? 1 : 0;
    }
    KVA_GO(kva_math_status(&m, err));
    if (out->extracted && how != KVA_MATH_NONE) {
        kva_buf_add(out->extracted, answer.s, answer.n);
        KVA_GO(kva_buf_status(out->extracted, err));
    }
out:
    kva_arena_release(&arena);
    return rc;
}

static const char *last(struct kva_math_span t, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = t.n >= n ? t.n - n + 1 : 0; i-- > 0;)
        if (memcmp(t.s + i, word, n) == 0)
            return t.s + i;
    return NULL;
}

/* ---- kvpress ---- */

static struct kva_math_span up_to_brace(struct kva_math_span t, const char *box,
                                        enum kva_math_how *how)
{
    struct kva_math_span answer = {t.s, 0};

    if (!box)
        return answer;
    *how = KVA_MATH_BOXED;
    answer.s = box + strlen("boxed{");
    while (answer.s + answer.n < t.s + t.n && answer.s[answer.n] != '}')
        answer.n++;
    return answer;
}

static struct kva_math_span first_box(struct kva_math_span t, enum kva_math_how *how)
{
    return up_to_brace(t, t.n ? memmem(t.s, t.n, "boxed{", 6) : NULL, how);
}

static struct kva_math_span last_box(struct kva_math_span t, enum kva_math_how *how)
{
    return up_to_brace(t, last(t, "boxed{"), how);
}

static bool same_bytes(struct kva_math *m, struct kva_math_span answer,
                       struct kva_math_span gold)
{
    (void)m;
    return answer.n == gold.n && memcmp(answer.s, gold.s, gold.n) == 0;
}

/* ---- hendrycks ---- */

/* last_boxed_only_string and remove_boxed of the harness; an \fbox fails there. */
static struct kva_math_span harness_box(struct kva_math_span t, enum kva_math_how *how)
{
    struct kva_math_span answer = {t.s, 0};
    const char *box = last(t, "\\boxed "), *end = t.s + t.n, *p;
    int depth = 0;

    if (box) {
        answer.s = box + strlen("\\boxed ");
        while (answer.s + answer.n < end && answer.s[answer.n] != '$')
            answer.n++;
        *how = KVA_MATH_BOXED;
        return answer;
    }
    box = last(t, "\\boxed");
    if (!box || end - box < 7 || box[6] != '{')
        return answer;
    for (p = box + 6; p < end; p++) {
        depth += *p == '{';
        depth -= *p == '}';
        if (depth == 0)
            break;
    }
    if (p == end)
        return answer;
    *how = KVA_MATH_BOXED;
    return (struct kva_math_span){box + 7, (size_t)(p - box) - 7};
}

static bool hendrycks(struct kva_math *m, struct kva_math_span answer,
                      struct kva_math_span gold)
{
    struct kva_math_span p, g;

    if (!kva_math_hendrycks_normal(m, answer, &p) ||
        !kva_math_hendrycks_normal(m, gold, &g))
        return same_bytes(m, answer, gold);
    return same_bytes(m, p, g);
}

/* ---- minerva ---- */

/* Final Answer: The final answer is(.*?). I hope it is correct.   on one line, where the
 * points match any character. The harness adds "I hope it is correct." to the text. */
static struct kva_math_span minerva_answer(struct kva_math_span t, enum kva_math_how *how)
{
    static const char begin[] = "Final Answer: The final answer is",
                      end[] = " I hope it is correct";
    const size_t n_begin = sizeof begin - 1, n_end = sizeof end - 1;

    for (size_t i = 0; t.n >= n_begin && i <= t.n - n_begin; i++) {
        size_t from = i + n_begin, k = from;

        if (t.s[i] != 'F' || memcmp(t.s + i, begin, n_begin) != 0)
            continue;
        for (; k < t.n && t.s[k] != '\n'; k++) {
            /* what the harness adds may complete the phrase: "is 5. " + "I hope .." */
            size_t left = t.n - k - 1 < n_end ? t.n - k - 1 : n_end, cut = k;

            if (memcmp(t.s + k + 1, end, left) != 0 || (left != n_end && left != 1) ||
                (k + 1 + n_end < t.n && t.s[k + 1 + n_end] == '\n'))
                continue;
            while (cut > from && ((unsigned char)t.s[cut] & 0xc0) == 0x80)
                cut--; /* a point of several bytes */
            *how = KVA_MATH_PHRASE;
            return kva_math_trim((struct kva_math_span){t.s + from, cut - from});
        }
        i = k - 1; /* nor can a later one on this line */
    }
    return harness_box(t, how);
}

static bool minerva(struct kva_math *m, struct kva_math_span answer,
                    struct kva_math_span gold)
{
    return kva_math_minerva_same(m, kva_math_minerva_normal(m, answer),
                                 kva_math_minerva_normal(m, gold));
}

static enum kva_status score_kvpress(const struct kva_metric_in *in,
                                     struct kva_metric_out *out, struct kva_error *err)
{
    return grade(first_box, same_bytes, in, out, err);
}

static enum kva_status score_aime_kvpress(const struct kva_metric_in *in,
                                          struct kva_metric_out *out,
                                          struct kva_error *err)
{
    return grade(last_box, same_bytes, in, out, err);
}

static enum kva_status score_hendrycks(const struct kva_metric_in *in,
                                       struct kva_metric_out *out, struct kva_error *err)
{
    return grade(harness_box, hendrycks, in, out, err);
}

static enum kva_status score_minerva(const struct kva_metric_in *in,
                                     struct kva_metric_out *out, struct kva_error *err)
{
    return grade(minerva_answer, minerva, in, out, err);
}

const struct kva_metric kva_text_math500_kvpress = {
    .name = "math500_kvpress",
    .summary = "kvpress: first boxed{, up to the next }, string equality",
    .source = "NVIDIA/kvpress, evaluation/benchmarks/math500",
    .version = 1,
    .binary = true,
    .score = score_kvpress,
};

const struct kva_metric kva_text_aime_kvpress = {
    .name = "aime_kvpress",
    .summary = "kvpress: last boxed{, up to the next }, string equality",
    .source = "NVIDIA/kvpress, evaluation/benchmarks/aime25",
    .version = 1,
    .binary = true,
    .score = score_aime_kvpress,
};

const struct kva_metric kva_text_math500_hendrycks = {
    .name = "math500_hendrycks",
    .summary = "hendrycks/math: last box, equal after string rules",
    .source = "arXiv 2103.03874; lm-evaluation-harness 0.4.9.1, hendrycks_math",
    .version = 1,
    .binary = true,
    .score = score_hendrycks,
};

const struct kva_metric kva_text_math500_minerva = {
    .name = "math500_minerva",
    .summary = "Minerva: string rules, then sympy's reading, difference 0",
    .source = "arXiv 2206.14858; lm-evaluation-harness 0.4.9.1, minerva_math",
    .version = 1,
    .binary = true,
    .score = score_minerva,
};
