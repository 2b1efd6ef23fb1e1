/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_f1.c - LongBench's qa_f1: overlap of words, the best over the references.
 *
 *     same = sum over distinct words of min(count in output, count in reference)
 *     P = same / words of output, R = same / words of reference, F = 2 P R / (P + R)
 *
 * Both sides in lower case, without the 32 ASCII punctuation marks (deleted, not
 * replaced), without the words a, an, the; split at white space. same = 0: 0, also when
 * both are empty. n log n in the number of words. */
#include "metrics/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_punct(uint32_t c)
{
    return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) ||
           (c >= 0x5b && c <= 0x60) || (c >= 0x7b && c <= 0x7e);
}

static void delete_punctuation(struct kva_text *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        if (!is_punct(t->c[i]))
            t->c[n++] = t->c[i];
    t->n = n;
}

static bool is_article(const uint32_t *c, size_t n)
{
    static const char *const articles[] = {"a", "an", "the"};

    for (size_t k = 0; k < 3; k++) {
        size_t i = 0;

        while (i < n && articles[k][i] && c[i] == (unsigned char)articles[k][i])
            i++;
        if (i == n && !articles[k][i])
            return true;
    }
    return false;
}

/* \b(a|an|the)\b: a run of letters and digits, both ends of which are its own. */
static void blank_articles(struct kva_text *t)
{
    for (size_t i = 0, n; i < t->n; i += n ? n : 1) {
        for (n = 0; i + n < t->n && kva_text_is_alnum(t->c[i + n]);)
            n++;
        if (is_article(t->c + i, n))
            for (size_t k = 0; k < n; k++)
                t->c[i + k] = ' ';
    }
}

struct word {
    const uint32_t *c;
    size_t n;
};
/* The words of a text, sorted. */
struct words {
    struct kva_text text;
    struct word *v;
    size_t n;
};

static int compare(const void *a, const void *b)
{
    const struct word *x = a, *y = b;

    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return memcmp(x->c, y->c, x->n * sizeof x->c[0]);
}

static enum kva_status normalise(struct words *w, const char *s, size_t n,
                                 struct kva_error *err)
{
    struct kva_text *t = &w->text;
    struct word *grown;

    w->n = 0;
    KVA_TRY(kva_text_read_lower(t, s, n, err));
    delete_punctuation(t);
    blank_articles(t);
    grown = kva_realloc(w->v, t->n / 2 + 1, sizeof grown[0]);
    if (!grown)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for the words of a text");
    w->v = grown;
    for (size_t i = 0, len; i < t->n; i += len + 1) {
        for (len = 0; i + len < t->n && !kva_text_is_space(t->c[i + len]);)
            len++;
        if (len)
            w->v[w->n++] = (struct word){t->c + i, len};
    }
    qsort(w->v, w->n, sizeof w->v[0], compare);
    return KVA_OK;
}

static double f1(const struct words *a, const struct words *b)
{
    size_t same = 0;
    double p, r;

    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        int order = compare(&a->v[i], &b->v[j]);

        same += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    if (same == 0)
        return 0;
    p = 1.0 * (double)same / (double)a->n;
    r = 1.0 * (double)same / (double)b->n;
    return (2 * p * r) / (p + r);
}

static void release(struct words *w)
{
    kva_text_release(&w->text);
    free(w->v);
}

static enum kva_status qa_f1(const struct kva_metric_in *in, struct kva_metric_out *out,
                             struct kva_error *err)
{
    struct words a = {0}, b = {0};
    enum kva_status rc;

    KVA_GO(normalise(&a, in->prediction, in->n, err));
    for (int i = 0; i < in->n_answers; i++) {
        KVA_GO(normalise(&b, in->answers[i], strlen(in->answers[i]), err));
        out->score = fmax(out->score, f1(&a, &b));
    }
out:
    release(&a);
    release(&b);
    return rc;
}

const struct kva_metric kva_text_qa_f1 = {
    .name = "qa_f1",
    .summary = "F1 over the words of output and reference, the best reference",
    .source = "LongBench, LongBench/metrics.py, qa_f1_score",
    .version = 1,
    .score = qa_f1,
};
