/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_code.c - LongBench's code similarity, on difflib and on python-Levenshtein.
 *
 * Of the output the first line is taken that holds no backtick, no # and no //, leading
 * line feeds aside; none: the empty line. Blanks count, a line of blanks too. Then
 *
 *     score = round(100 r) / 100,  halves to even,
 *
 * as fuzzywuzzy's fuzz.ratio: r is difflib's ratio where python-Levenshtein is not
 * installed (the published numbers), else the indel ratio, which is never below it. Equal
 * lines give 1, one empty line gives 0. Lines are compared up to 4,096 code points. */
#include "metrics/text.h"

#include <math.h>
#include <string.h>

enum { MOST = 4096 };

static bool is_code(const char *line, size_t n)
{
    return !memchr(line, '`', n) && !memchr(line, '#', n) && !memmem(line, n, "//", 2);
}

/* Also true for an empty first line of an output that has none. */
static bool first_code_line(const char *s, size_t n, const char **line, size_t *len)
{
    const char *end = s + n;

    while (s < end && *s == '\n')
        s++;
    for (;;) {
        const char *feed = memchr(s, '\n', (size_t)(end - s));

        *line = s;
        *len = (size_t)((feed ? feed : end) - s);
        if (is_code(s, *len))
            return true;
        if (!feed)
            break;
        s = feed + 1;
    }
    *len = 0;
    return false;
}

typedef enum kva_status (*ratio_fn)(const struct kva_text *a, const struct kva_text *b,
                                    double *ratio, struct kva_error *err);

static enum kva_status difflib(const struct kva_text *a, const struct kva_text *b,
                               double *ratio, struct kva_error *err)
{
    return kva_difflib_ratio(a, b, true, ratio, err);
}

static void cut(struct kva_text *t)
{
    t->n = t->n < MOST ? t->n : MOST;
}

static enum kva_status similarity(const struct kva_metric_in *in, ratio_fn ratio,
                                  struct kva_metric_out *out, struct kva_error *err)
{
    struct kva_text a = {0}, b = {0};
    const char *line;
    size_t n;
    enum kva_status rc;

    out->how = first_code_line(in->prediction, in->n, &line, &n) ? "line" : "none";
    if (out->extracted) {
        kva_buf_add(out->extracted, line, n);
        KVA_TRY(kva_buf_status(out->extracted, err));
    }
    KVA_GO(kva_text_read(&a, line, n, err));
    cut(&a);
    for (int i = 0; i < in->n_answers; i++) {
        const char *gold = in->answers[i];
        size_t m = strlen(gold);
        double r = 0;

        if (n == m && memcmp(line, gold, n) == 0) {
            r = 1;
        } else if (n && m) {
            KVA_GO(kva_text_read(&b, gold, m, err));
            cut(&b);
            KVA_GO(ratio(&a, &b, &r, err));
        }
        out->score = fmax(out->score, rint(100.0 * r) / 100);
    }
out:
    kva_text_release(&a);
    kva_text_release(&b);
    return rc;
}

static enum kva_status code_sim(const struct kva_metric_in *in,
                                struct kva_metric_out *out, struct kva_error *err)
{
    return similarity(in, difflib, out, err);
}

static enum kva_status code_sim_indel(const struct kva_metric_in *in,
                                      struct kva_metric_out *out, struct kva_error *err)
{
    return similarity(in, kva_indel_ratio, out, err);
}

const struct kva_metric kva_text_code_sim = {
    .name = "code_sim",
    .summary = "likeness of the first line of code, difflib ratio",
    .source = "LongBench, LongBench/metrics.py, code_sim_score (fuzzywuzzy on difflib)",
    .version = 1,
    .score = code_sim,
};

const struct kva_metric kva_text_code_sim_indel = {
    .name = "code_sim_indel",
    .summary = "likeness of the first line of code, indel ratio",
    .source = "LongBench, code_sim_score where python-Levenshtein is installed",
    .version = 1,
    .score = code_sim_indel,
};
