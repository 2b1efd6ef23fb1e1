/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_rouge.c - ROUGE-L as the Python package rouge 1.0.1 computes it (summary level).
 *
 * Sentences end at every full stop; empty ones fall away, one of only white space stays
 * as a sentence of one empty word. For each pair of a reference sentence x and an output
 * sentence y the words of one longest common subsequence are taken into one set U: from
 * the end of the table back, equal words are taken, else up if T[i-1][j] > T[i][j-1],
 * else left. With m and n the distinct words of reference and output
 *
 *     P = |U| / n,  R = |U| / m,  F = 2 (P R / (P + R + 1e-8)).
 *
 * No lower case, punctuation stays. A side without sentences: 0. The score is the best
 * over the references. The package's recursion limit (about 1,000 words in one pair of
 * sentences) is not imitated. Texts are read up to 8,192 words a side, so that the worst
 * pair takes less than a second. */
#include "metrics/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8192 };

/* A text as numbers of words, sentence s being word[end[s-1] .. end[s]). */
struct side {
    uint32_t *word;
    size_t *end;
    size_t n, n_sentences;
    size_t longest; /* words in a sentence */
    size_t distinct;
};

struct rouge {
    struct kva_map numbers; /* word -> its number */
    struct side ref, hyp;
    uint32_t *seen; /* of a word: 1 + the reference sentence at hand that holds it */
    bool *taken;    /* of a word: is it in U? */
    struct kva_lcs lcs;
};

static enum kva_status add_word(struct rouge *g, struct side *s, const char *word,
                                size_t n, struct kva_error *err)
{
    int64_t id = (int64_t)g->numbers.count;

    if (!kva_map_get(&g->numbers, word, n, &id))
        KVA_TRY(kva_map_put(&g->numbers, word, n, id, NULL, err));
    s->word[s->n++] = (uint32_t)id;
    return KVA_OK;
}

/* One piece between full stops. */
static enum kva_status add_sentence(struct rouge *g, struct side *s, const char *text,
                                    size_t n, struct kva_error *err)
{
    size_t begin = s->n, from = 0, len;

    for (size_t i = 0; i <= n && s->n < MOST; i += len) {
        len = 1;
        if (i < n && !kva_text_is_space(kva_text_decode(text + i, n - i, &len)))
            continue;
        if (i > from)
            KVA_TRY(add_word(g, s, text + from, i - from, err));
        from = i + len;
    }
    if (s->n == begin)
        KVA_TRY(add_word(g, s, "", 0, err));
    s->end[s->n_sentences++] = s->n;
    if (s->n - begin > s->longest)
        s->longest = s->n - begin;
    return KVA_OK;
}

static enum kva_status read_side(struct rouge *g, struct side *s, const char *text,
                                 size_t n, struct kva_error *err)
{
    const char *end = text + n;
    size_t room = n < MOST ? n : MOST; /* a word takes a byte, an empty one its blank */

    s->word = kva_calloc(room + 1, sizeof s->word[0]);
    s->end = kva_calloc(room + 1, sizeof s->end[0]);
    if (!s->word || !s->end)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for the words of a text");
    while (text < end && s->n < MOST) {
        const char *stop = memchr(text, '.', (size_t)(end - text));
        size_t len = (size_t)((stop ? stop : end) - text);

        if (len)
            KVA_TRY(add_sentence(g, s, text, len, err));
        text += len + 1;
    }
    return KVA_OK;
}

static void count_distinct(struct side *s, uint32_t *seen, uint32_t mark)
{
    for (size_t i = 0; i < s->n; i++) {
        s->distinct += seen[s->word[i]] != mark;
        seen[s->word[i]] = mark;
    }
}

/* Has y a word that x (marked in seen) holds too and U does not? If not, the pair can
 * add nothing. */
static bool can_add(const struct rouge *g, uint32_t mark, const uint32_t *y, size_t m)
{
    for (size_t j = 0; j < m; j++)
        if (g->seen[y[j]] == mark && !g->taken[y[j]])
            return true;
    return false;
}

static void take(struct rouge *g, const uint32_t *x, size_t n, const uint32_t *y,
                 size_t m)
{
    kva_lcs_run(&g->lcs, x, n, y, m);
    while (n && m) {
        if (x[n - 1] == y[m - 1]) {
            g->taken[x[n - 1]] = true;
            n--;
            m--;
        } else if (kva_lcs_at(&g->lcs, n - 1, m) > kva_lcs_at(&g->lcs, n, m - 1)) {
            n--;
        } else {
            m--;
        }
    }
}

static void take_all(struct rouge *g)
{
    for (size_t r = 0, b = 0; r < g->ref.n_sentences; b = g->ref.end[r++]) {
        const uint32_t *x = g->ref.word + b;
        size_t n = g->ref.end[r] - b;
        uint32_t mark = (uint32_t)r + 1;

        for (size_t i = 0; i < n; i++)
            g->seen[x[i]] = mark;
        for (size_t h = 0, c = 0; h < g->hyp.n_sentences; c = g->hyp.end[h++]) {
            const uint32_t *y = g->hyp.word + c;
            size_t m = g->hyp.end[h] - c;

            if (can_add(g, mark, y, m))
                take(g, x, n, y, m);
        }
    }
}

static double f_score(const struct rouge *g)
{
    size_t u = 0;
    double p, r;

    for (size_t i = 0; i < g->numbers.count; i++)
        u += g->taken[i];
    p = (double)u / (double)g->hyp.distinct;
    r = (double)u / (double)g->ref.distinct;
    return 2.0 * ((p * r) / (p + r + 1e-8));
}

static void release_side(struct side *s)
{
    free(s->word);
    free(s->end);
}

static enum kva_status rouge_of(const struct kva_metric_in *in, const char *answer,
                                double *score, struct kva_error *err)
{
    struct rouge g = {0};
    enum kva_status rc;

    *score = 0;
    kva_map_init(&g.numbers);
    KVA_GO(read_side(&g, &g.ref, answer, strlen(answer), err));
    KVA_GO(read_side(&g, &g.hyp, in->prediction, in->n, err));
    if (!g.ref.n || !g.hyp.n)
        goto out;
    g.seen = kva_calloc(g.numbers.count, sizeof g.seen[0]);
    g.taken = kva_calloc(g.numbers.count, sizeof g.taken[0]);
    if (!g.seen || !g.taken) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory for %zu words", g.numbers.count);
        goto out;
    }
    KVA_GO(kva_lcs_init(&g.lcs, g.numbers.count, g.ref.longest, g.hyp.longest, err));
    count_distinct(&g.ref, g.seen, UINT32_MAX);
    count_distinct(&g.hyp, g.seen, UINT32_MAX - 1);
    take_all(&g);
    *score = f_score(&g);
out:
    kva_lcs_release(&g.lcs);
    free(g.seen);
    free(g.taken);
    release_side(&g.ref);
    release_side(&g.hyp);
    kva_map_release(&g.numbers);
    return rc;
}

static enum kva_status rouge_l(const struct kva_metric_in *in, struct kva_metric_out *out,
                               struct kva_error *err)
{
    for (int i = 0; i < in->n_answers; i++) {
        double f;

        KVA_TRY(rouge_of(in, in->answers[i], &f, err));
        out->score = fmax(out->score, f);
    }
    return KVA_OK;
}

const struct kva_metric kva_text_rouge_l = {
    .name = "rouge_l",
    .summary = "ROUGE-L F over sentences, distinct words, the best reference",
    .source = "LongBench, rouge_score; package rouge 1.0.1, Rouge.get_scores",
    .version = 1,
    .score = rouge_l,
};
