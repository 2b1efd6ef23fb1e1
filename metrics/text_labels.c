/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_labels.c - LongBench's scores of short answers: a class, a paragraph, a count.
 *
 *     classification  the classes that occur in the output, case sensitive, in order; of
 *                     them those inside the reference are removed while iterating, so
 *                     that behind each removal one is passed over. 1 / how many are left
 *                     when the reference is among them, else 0
 *     retrieval       share of the output's numbers (maximal runs of digits) that are, as
 *                     text, the number behind the first "Paragraph " of the reference
 *     count           the same with the reference itself
 *
 * No number: 0. A digit is what \d is in Python: any decimal digit of Unicode. */
#include "metrics/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- classification ---- */

static bool contains(const char *s, size_t n, const char *word)
{
    return memmem(s, n, word, strlen(word)) != NULL;
}

static void drop(const char **list, size_t *n, const char *word)
{
    size_t i = 0;

    while (strcmp(list[i], word) != 0)
        i++;
    memmove(list + i, list + i + 1, (--*n - i) * sizeof list[0]);
}

/* `found` holds n classes and is used up. */
static double class_score(const char **found, size_t n, const char *gold)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(found[i], gold) != 0 && strstr(gold, found[i]))
            drop(found, &n, found[i]);
    for (size_t i = 0; i < n; i++)
        if (strcmp(found[i], gold) == 0)
            return 1.0 / (double)n;
    return 0;
}

static enum kva_status classification(const struct kva_metric_in *in,
                                      struct kva_metric_out *out, struct kva_error *err)
{
    size_t cap = (size_t)(in->n_classes > 0 ? in->n_classes : 0), n = 0;
    const char **found = kva_calloc(2 * cap + 1, sizeof found[0]);

    if (!found)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for %zu classes", cap);
    for (size_t i = 0; i < cap; i++)
        if (contains(in->prediction, in->n, in->classes[i]))
            found[n++] = in->classes[i];
    for (int i = 0; i < in->n_answers; i++) {
        const char **left = found + cap;

        memcpy(left, found, n * sizeof found[0]);
        out->score = fmax(out->score, class_score(left, n, in->answers[i]));
    }
    free(found);
    return KVA_OK;
}

/* ---- numbers ---- */

static size_t digits(const struct kva_text *t, size_t from)
{
    size_t n = 0;

    while (from + n < t->n && kva_text_is_digit(t->c[from + n]))
        n++;
    return n;
}

/* Share of the runs of digits in `t` that are the n code points at `want`. */
static double share(const struct kva_text *t, const uint32_t *want, size_t n)
{
    size_t runs = 0, equal = 0, len;

    for (size_t i = 0; i < t->n; i += len ? len : 1) {
        len = digits(t, i);
        if (len == 0)
            continue;
        runs++;
        equal += len == n && memcmp(t->c + i, want, n * sizeof want[0]) == 0;
    }
    return runs ? (double)equal / (double)runs : 0;
}

/* The digits behind the first "Paragraph " that has some; false: there is none. */
static bool paragraph(const struct kva_text *gold, size_t *first, size_t *n)
{
    static const char word[] = "Paragraph ";
    size_t len = sizeof word - 1;

    for (size_t i = 0; i + len < gold->n; i++) {
        size_t k = 0;

        while (k < len && gold->c[i + k] == (unsigned char)word[k])
            k++;
        *first = i + len;
        *n = k == len ? digits(gold, i + len) : 0;
        if (*n)
            return true;
    }
    return false;
}

static enum kva_status numbers(const struct kva_metric_in *in, bool by_paragraph,
                               double *score, struct kva_error *err)
{
    struct kva_text text = {0}, gold = {0};
    enum kva_status rc;

    KVA_GO(kva_text_read(&text, in->prediction, in->n, err));
    for (int i = 0; i < in->n_answers; i++) {
        size_t first = 0, n;

        KVA_GO(kva_text_read(&gold, in->answers[i], strlen(in->answers[i]), err));
        n = gold.n;
        if (!by_paragraph || paragraph(&gold, &first, &n))
            *score = fmax(*score, share(&text, gold.c + first, n));
    }
out:
    kva_text_release(&text);
    kva_text_release(&gold);
    return rc;
}

static enum kva_status retrieval(const struct kva_metric_in *in,
                                 struct kva_metric_out *out, struct kva_error *err)
{
    return numbers(in, true, &out->score, err);
}

static enum kva_status count(const struct kva_metric_in *in, struct kva_metric_out *out,
                             struct kva_error *err)
{
    return numbers(in, false, &out->score, err);
}

const struct kva_metric kva_text_classification = {
    .name = "classification",
    .summary = "1 / classes named in the output when the right one is among them",
    .source = "LongBench, LongBench/metrics.py, classification_score",
    .version = 1,
    .score = classification,
};

const struct kva_metric kva_text_retrieval = {
    .name = "retrieval",
    .summary = "share of the output's numbers that name the right paragraph",
    .source = "LongBench, LongBench/metrics.py, retrieval_score",
    .version = 1,
    .score = retrieval,
};

const struct kva_metric kva_text_count = {
    .name = "count",
    .summary = "share of the output's numbers that are the right count",
    .source = "LongBench, LongBench/metrics.py, count_score",
    .version = 1,
    .score = count,
};
