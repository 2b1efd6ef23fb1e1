/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wrap_chunk.c - neighbours stay or go together, the same in every KV head of a layer.
 *
 *     t_p   = sum over the KV heads of s at position p
 *     chunk = positions [i chunk, (i + 1) chunk), scored by the mean of its t_p
 *
 * Whole chunks stay, best first, newer ones on ties; of the chunk that does not fit the
 * best entries by t_p, so that the budget is met exactly. Borders are original positions:
 * a chunk that lost entries keeps its others as one unit. Protected entries stay ahead of
 * the chunks and count in none.
 *
 * exact=0 is kvpress 0.5.5: max(1, floor(chunks * kept share)) whole chunks, so that the
 * budget is missed by up to a chunk, and protected entries count in their chunks with a
 * score of 1 above all of the layer. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>

enum { CHUNK, EXACT };

static const struct kva_param params_table[] = {
    {.name = "chunk",
     .help = "positions of a chunk",
     .type = KVA_PARAM_INT,
     .def = 20,
     .def_block = 20,
     .min = 1,
     .max = 1 << 20},
    {.name = "exact",
     .help = "1: the budget to the entry; 0: whole chunks, as published",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .max = 1},
    {.name = NULL},
};

static const char *refuse(const struct kva_scorer *s, const struct kva_allocator *a)
{
    (void)s;
    return a->even ? NULL
                   : "chunk keeps the same positions in all KV heads of a layer, so they "
                     "need the same budget; use uniform";
}

/* A position some KV head of the layer holds. */
struct place {
    int32_t pos, chunk;
    bool sure;           /* protected */
    double score, whole; /* t_p, mean of the chunk */
};

/* best first: protected, then chunk by chunk */
static int by_chunk(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->sure != y->sure)
        return x->sure ? -1 : 1;
    if (!x->sure && (x->whole > y->whole || x->whole < y->whole))
        return x->whole > y->whole ? -1 : 1;
    if (!x->sure && x->chunk != y->chunk)
        return x->chunk > y->chunk ? -1 : 1;
    if (!x->sure && (x->score > y->score || x->score < y->score))
        return x->score > y->score ? -1 : 1;
    return x->pos > y->pos ? -1 : x->pos < y->pos;
}

static double top_score(const struct kva_pick *pick, int heads)
{
    double top = 0;

    for (int h = 0; h < heads; h++)
        for (int j = pick[h].lead; j < pick[h].n - pick[h].tail; j++)
            top = (double)pick[h].s[j] > top ? (double)pick[h].s[j] : top;
    return top;
}

/* The positions of the layer, ascending, to p[sum of n]; returns their number. at[heads]
 * is scratch. */
static int places(const struct kva_params *params, const struct kva_pick *pick, int heads,
                  int *at, struct place *p)
{
    int chunk = (int)params->value[CHUNK], m = 0;
    bool exact = params->value[EXACT] > 0;
    double lift = exact ? 0 : top_score(pick, heads) + 1;

    for (int h = 0; h < heads; h++)
        at[h] = 0;
    for (;; m++) {
        int32_t pos = INT32_MAX;

        for (int h = 0; h < heads; h++)
            if (at[h] < pick[h].n && pick[h].pos[at[h]] < pos)
                pos = pick[h].pos[at[h]];
        if (pos == INT32_MAX)
            break;
        p[m] = (struct place){.pos = pos, .chunk = pos / chunk};
        for (int h = 0; h < heads; h++) {
            int j = at[h];
            bool sure = j < pick[h].lead || j >= pick[h].n - pick[h].tail;

            if (j >= pick[h].n || pick[h].pos[j] != pos)
                continue;
            p[m].score += sure && !exact ? lift : (double)pick[h].s[j];
            p[m].sure = p[m].sure || (sure && exact);
            at[h]++;
        }
    }
    return m;
}

/* Means of the chunks; returns how many chunks there are. */
static int score_chunks(struct place *p, int m)
{
    int chunks = 0;

    for (int first = 0, end; first < m; first = end, chunks++) {
        double sum = 0;
        int n = 0;

        for (end = first; end < m && p[end].chunk == p[first].chunk; end++) {
            sum += p[end].sure ? 0 : p[end].score;
            n += !p[end].sure;
        }
        for (int i = first; i < end; i++)
            p[i].whole = n > 0 ? sum / n : 0;
    }
    return chunks;
}

/* Positions of the layer, best first, to *out (the caller frees). */
static enum kva_status ordered(const struct kva_params *params,
                               const struct kva_pick *pick, int heads, struct place **out,
                               int *m, int *chunks, struct kva_error *err)
{
    int at[64];
    size_t n = 0;

    for (int h = 0; h < heads; h++)
        n += (size_t)pick[h].n;
    *out = kva_calloc(n, sizeof **out);
    if (*out == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "chunks of %zu entries", n);
    *m = places(params, pick, heads, at, *out);
    *chunks = score_chunks(*out, *m);
    qsort(*out, (size_t)*m, sizeof **out, by_chunk);
    return KVA_OK;
}

static int rank_at(const struct kva_pick *in, int32_t pos)
{
    int lo = 0, hi = in->n;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (in->pos[mid] < pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < in->n && in->pos[lo] == pos ? lo : -1;
}

static int ascending(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static enum kva_status pick_layer(const struct kva_params *params,
                                  const struct kva_pick *pick, int kv_heads,
                                  int32_t *const *rank, struct kva_error *err)
{
    struct place *p = NULL;
    int m, chunks;
    enum kva_status rc;

    KVA_GO(ordered(params, pick, kv_heads, &p, &m, &chunks, err));
    for (int h = 0; h < kv_heads; h++) {
        int out = 0;

        for (int i = 0; i < m && out < pick[h].b; i++) {
            int at = rank_at(&pick[h], p[i].pos);

            if (at >= 0)
                rank[h][out++] = at;
        }
        qsort(rank[h], (size_t)out, sizeof **rank, ascending);
    }
out:
    free(p);
    return rc;
}

/* exact=0: the entries of the chunks that stay. With less than one full chunk the budget
 * stands. */
static enum kva_status resize(const struct kva_params *params,
                              const struct kva_pick *pick, int kv_heads, int *b,
                              struct kva_error *err)
{
    struct place *p = NULL;
    int m, chunks, stay, seen = 0;
    enum kva_status rc = KVA_OK;

    if (params->value[EXACT] > 0 || pick[0].n < (int)params->value[CHUNK])
        return KVA_OK;
    KVA_GO(ordered(params, pick, kv_heads, &p, &m, &chunks, err));
    stay = (int)((int64_t)chunks * pick[0].b / pick[0].n);
    stay = stay < 1 ? 1 : stay;
    for (int h = 0; h < kv_heads; h++)
        b[h] = 0;
    for (int i = 0; i < m; i++) {
        seen += i == 0 || p[i].chunk != p[i - 1].chunk;
        for (int h = 0; seen <= stay && h < kv_heads; h++)
            b[h] += rank_at(&pick[h], p[i].pos) >= 0;
    }
    for (int h = 0; h < kv_heads; h++) /* of a ragged cache: no KV head is left empty */
        b[h] = b[h] < 1 ? 1 : b[h];
out:
    free(p);
    return rc;
}

const struct kva_wrapper kva_wrap_chunk = {
    .name = "chunk",
    .summary = "whole chunks of neighbours, the same positions in all KV heads",
    .source = "ChunkKV, arXiv 2502.00299",
    .storage = "uniform",
    .deviates = "The published form keeps whole chunks and misses its budget by up to "
                "one; here the last chunk is cut to the entry, and protected entries "
                "count in no chunk. exact=0 restores it.",
    .version = 1,
    .keeps_unit = true,
    .same_positions = true,
    .params = params_table,
    .refuse = refuse,
    .pick_layer = pick_layer,
    .resize = resize,
};
