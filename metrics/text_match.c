/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_match.c - RULER's string_match_all and string_match_part, and a stricter third.
 *
 *     match_all  = mean over references of [lower(reference) in lower(post(prediction))]
 *     match_part = max  over references of the same
 *     word_match = match_all, but the reference must stand there without a letter or
 *                  digit on either side ("hen" is not in "then")
 *
 * post: strip white space, replace each control character (0x00-0x1f) by a line feed,
 * strip. The reference is lowered and nothing else. lower: Python's str.lower(). An empty
 * reference stands everywhere. */
#include "metrics/text.h"

#include <stdlib.h>
#include <string.h>

/* Steps of post: control characters become line feeds between two strips, so at the ends
 * all of them go. */
static enum kva_status post(const char *s, size_t n, struct kva_buf *out,
                            struct kva_error *err)
{
    size_t first = n, last = 0, len;

    for (size_t i = 0; i < n; i += len) {
        uint32_t c = kva_text_decode(s + i, n - i, &len);

        if (c < 0x20 || kva_text_is_space(c))
            continue;
        if (first == n)
            first = i;
        last = i + len;
    }
    for (size_t i = first; i < last; i++)
        kva_buf_putc(out, (unsigned char)s[i] < 0x20 ? '\n' : s[i]);
    return kva_buf_status(out, err);
}

/* Knuth, Morris and Pratt: fail[i] is the length of the longest proper border of the
 * first i + 1 code points. Linear whatever the texts are. */
static enum kva_status borders(const struct kva_text *word, size_t **fail,
                               struct kva_error *err)
{
    *fail = kva_calloc(word->n + 1, sizeof **fail);
    if (!*fail)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for a reference");
    for (size_t i = 1, k = 0; i < word->n; i++) {
        while (k && word->c[i] != word->c[k])
            k = (*fail)[k - 1];
        k += word->c[i] == word->c[k];
        (*fail)[i] = k;
    }
    return KVA_OK;
}

/* Does text[b..e) stand there as a word? */
static bool apart(const struct kva_text *text, size_t b, size_t e)
{
    return (b == 0 || !kva_text_is_alnum(text->c[b - 1])) &&
           (e == text->n || !kva_text_is_alnum(text->c[e]));
}

static enum kva_status find(const struct kva_text *text, const struct kva_text *word,
                            bool whole, bool *found, struct kva_error *err)
{
    size_t *fail, k = 0;

    *found = word->n == 0;
    if (word->n == 0 || word->n > text->n)
        return KVA_OK;
    KVA_TRY(borders(word, &fail, err));
    for (size_t i = 0; i < text->n && !*found; i++) {
        while (k && text->c[i] != word->c[k])
            k = fail[k - 1];
        k += text->c[i] == word->c[k];
        if (k == word->n) {
            *found = !whole || apart(text, i + 1 - k, i + 1);
            k = fail[k - 1];
        }
    }
    free(fail);
    return KVA_OK;
}

/* How many of the references stand in the prediction. */
static enum kva_status count(const struct kva_metric_in *in, bool whole, int *hits,
                             struct kva_error *err)
{
    struct kva_text text = {0}, word = {0};
    struct kva_buf own;
    enum kva_status rc;

    *hits = 0;
    kva_buf_init(&own, 0);
    KVA_GO(post(in->prediction, in->n, &own, err));
    KVA_GO(kva_text_read_lower(&text, own.data, own.len, err));
    for (int i = 0; i < in->n_answers; i++) {
        const char *answer = in->answers[i];
        bool found;

        KVA_GO(kva_text_read_lower(&word, answer, strlen(answer), err));
        KVA_GO(find(&text, &word, whole, &found, err));
        *hits += found;
    }
out:
    kva_text_release(&word);
    kva_text_release(&text);
    kva_buf_release(&own);
    return rc;
}

static enum kva_status share(const struct kva_metric_in *in, bool whole, double *score,
                             struct kva_error *err)
{
    int hits;

    KVA_TRY(count(in, whole, &hits, err));
    *score = (double)hits / in->n_answers;
    return KVA_OK;
}

static enum kva_status match_all(const struct kva_metric_in *in,
                                 struct kva_metric_out *out, struct kva_error *err)
{
    return share(in, false, &out->score, err);
}

static enum kva_status word_match(const struct kva_metric_in *in,
                                  struct kva_metric_out *out, struct kva_error *err)
{
    return share(in, true, &out->score, err);
}

static enum kva_status match_part(const struct kva_metric_in *in,
                                  struct kva_metric_out *out, struct kva_error *err)
{
    int hits;

    KVA_TRY(count(in, false, &hits, err));
    out->score = hits > 0;
    return KVA_OK;
}

const struct kva_metric kva_text_match_all = {
    .name = "match_all",
    .summary = "share of the references that stand in the output, case ignored",
    .source = "RULER, scripts/eval/synthetic/constants.py, string_match_all",
    .version = 2,
    .binary = true,
    .score = match_all,
};

const struct kva_metric kva_text_match_part = {
    .name = "match_part",
    .summary = "1 when any reference stands in the output, case ignored",
    .source = "RULER, scripts/eval/synthetic/constants.py, string_match_part",
    .version = 2,
    .binary = true,
    .score = match_part,
};

const struct kva_metric kva_text_word_match = {
    .name = "word_match",
    .summary = "match_all without a letter or digit on either side",
    .source = "this project: RULER's match_all takes \"hen\" for found in \"then\"",
    .version = 1,
    .binary = true,
    .score = word_match,
};
