/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lukv.c - offline budget profiles of LU-KV: relaxed losses, one greedy sweep.
 *
 * The greedy is optimal for the relaxed losses at every total, and for the true ones when
 * every KV head stands at the end of a block; in between it can lose (worked example E10,
 * four entries: 14 instead of 12). */
#include "methods/lukv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/rank.h"

void kva_hull_gains(const double *gain, size_t n, size_t *block, double *hull)
{
    size_t blocks = 0;

    /* hull[b] is the mean of block b, block[b] its end */
    for (size_t i = 0; i < n; i++) {
        double mean = gain[i], size = 1;

        while (blocks > 0 && hull[blocks - 1] < mean) {
            size_t from = blocks > 1 ? block[blocks - 2] : 0;
            double own = (double)(block[blocks - 1] - from);

            mean = (hull[blocks - 1] * own + mean * size) / (own + size);
            size += own;
            blocks--;
        }
        hull[blocks] = mean;
        block[blocks++] = i + 1;
    }
    for (size_t end = n; blocks > 0; blocks--) {
        double mean = hull[blocks - 1];
        size_t from = blocks > 1 ? block[blocks - 2] : 0;

        while (end > from)
            hull[--end] = mean;
    }
}

/* An entry that may go. */
struct spare {
    double gain;
    int32_t cell, rank;
};

static int spare_cmp(const void *a, const void *b)
{
    const struct spare *x = a, *y = b;

    if (x->gain < y->gain || x->gain > y->gain)
        return x->gain < y->gain ? -1 : 1;
    if (x->cell != y->cell)
        return x->cell - y->cell;
    return y->rank - x->rank;
}

enum kva_status kva_hull_discard(const double *hull, const size_t *off, int cells,
                                 const int *least, const uint64_t *gone, int targets,
                                 int *left, struct kva_error *err)
{
    struct spare *s = kva_calloc(off[cells] + 1, sizeof *s);
    int *now = kva_calloc((size_t)cells, sizeof *now);
    size_t n = 0, at = 0;
    enum kva_status rc = KVA_OK;

    if (s == NULL || now == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "losses of %zu entries", off[cells]);
        goto out;
    }
    for (int c = 0; c < cells; c++) {
        now[c] = (int)(off[c + 1] - off[c]);
        for (int i = least[c]; i < now[c]; i++)
            s[n++] = (struct spare){hull[off[c] + (size_t)i], c, i};
    }
    qsort(s, n, sizeof *s, spare_cmp);
    for (int t = 0; t < targets; t++) {
        for (; at < n && at < gone[t]; at++)
            now[s[at].cell]--;
        memcpy(left + (size_t)t * (size_t)cells, now, (size_t)cells * sizeof *now);
    }
out:
    free(s);
    free(now);
    return rc;
}

/* Working memory of one question. */
struct sweep {
    int cells, ranked, least; /* ranked: entries a cell outside sinks and window */
    size_t *block;
    uint64_t *key, gone[KVA_LUKV_COLUMNS];
    double *hull;
    size_t *off;
    int *floor, *left;
};

static void sweep_release(struct sweep *w)
{
    free(w->key);
    free(w->block);
    free(w->hull);
    free(w->off);
    free(w->floor);
    free(w->left);
}

static enum kva_status sweep_new(struct sweep *w, const struct kva_lukv_question *q,
                                 struct kva_error *err)
{
    size_t cells = (size_t)q->layers * (size_t)q->kv_heads;
    int kept = q->sinks + q->window, floor_n;
    double all = (double)cells * q->tokens;

    w->cells = (int)cells;
    w->ranked = q->tokens - kept;
    floor_n = (int)nearbyint(0.01 * q->tokens);
    w->least = floor_n > kept ? floor_n - kept : 0; /* below `ranked`: 1 % of all */
    w->key = kva_calloc((size_t)w->ranked, sizeof *w->key);
    w->block = kva_calloc((size_t)w->ranked, sizeof *w->block);
    w->hull = kva_calloc(cells * (size_t)w->ranked, sizeof *w->hull);
    w->off = kva_calloc(cells + 1, sizeof *w->off);
    w->floor = kva_calloc(cells, sizeof *w->floor);
    w->left = kva_calloc(cells * KVA_LUKV_COLUMNS, sizeof *w->left);
    if (w->key == NULL || w->block == NULL || w->hull == NULL || w->off == NULL ||
        w->floor == NULL || w->left == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "profile of %d KV heads", w->cells);
    for (int c = 0; c < w->cells; c++) {
        w->off[c + 1] = w->off[c] + (size_t)w->ranked;
        w->floor[c] = w->least;
    }
    for (int i = 0; i < KVA_LUKV_COLUMNS; i++)
        w->gone[i] = (uint64_t)nearbyint((i + 1) / 100.0 * all);
    return KVA_OK;
}

static int key_down(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* Gains of one cell in the order of its scorer; relaxed behind the floor, so that no cell
 * starts inside a block. */
static enum kva_status relax(struct sweep *w, const struct kva_lukv_question *q, int c,
                             struct kva_error *err)
{
    const float *score = q->score + (size_t)c * (size_t)q->tokens;
    const float *gain = q->gain + (size_t)c * (size_t)q->tokens;
    double *hull = w->hull + w->off[c];

    for (int j = 0; j < w->ranked; j++) {
        float x = score[q->sinks + j];

        w->key[j] = kva_rank_key(isfinite(x) ? x : -INFINITY, q->sinks + j);
    }
    qsort(w->key, (size_t)w->ranked, sizeof *w->key, key_down);
    for (int j = 0; j < w->ranked; j++) {
        uint32_t at = (uint32_t)(w->key[j] & UINT32_MAX);

        if (!isfinite(gain[at]) || gain[at] < 0)
            return KVA_FAIL(err, KVA_EINVALID, "gain %g of entry %u, KV head %d",
                            (double)gain[at], (unsigned)at, c);
        hull[j] = (double)gain[at];
    }
    kva_hull_gains(hull + w->least, (size_t)(w->ranked - w->least), w->block,
                   hull + w->least);
    return KVA_OK;
}

static enum kva_status add_question(const struct kva_lukv_question *q, double share,
                                    struct kva_table *out, struct kva_error *err)
{
    struct sweep w = {0};
    enum kva_status rc;

    KVA_GO(sweep_new(&w, q, err));
    for (int c = 0; c < w.cells; c++)
        KVA_GO(relax(&w, q, c, err));
    KVA_GO(kva_hull_discard(w.hull, w.off, w.cells, w.floor, w.gone, KVA_LUKV_COLUMNS,
                            w.left, err));
    for (int c = 0; c < w.cells; c++)
        for (int i = 0; i < KVA_LUKV_COLUMNS; i++)
            out->data[c * KVA_LUKV_COLUMNS + i] +=
                share * (w.ranked - w.left[i * w.cells + c]) / q->tokens;
out:
    sweep_release(&w);
    return rc;
}

enum kva_status kva_lukv_profile(const struct kva_lukv_question *q, int questions,
                                 struct kva_table *out, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;

    *out = (struct kva_table){.kind = "lukv", .columns = KVA_LUKV_COLUMNS};
    if (questions < 1)
        return KVA_FAIL(err, KVA_EINVALID, "a profile of no question");
    out->layers = q[0].layers;
    out->kv_heads = q[0].kv_heads;
    for (int i = 0; i < questions; i++) {
        if (q[i].layers != q[0].layers || q[i].kv_heads != q[0].kv_heads ||
            q[i].layers < 1 || q[i].kv_heads < 1 || q[i].sinks < 0 || q[i].window < 0 ||
            (int64_t)q[i].tokens <= (int64_t)q[i].sinks + q[i].window)
            return KVA_FAIL(err, KVA_EINVALID,
                            "question %d: %d layers of %d KV heads, %d tokens, of which "
                            "%d are protected",
                            i, q[i].layers, q[i].kv_heads, q[i].tokens,
                            q[i].sinks + q[i].window);
    }
    out->data = kva_calloc((size_t)out->layers * (size_t)out->kv_heads * KVA_LUKV_COLUMNS,
                           sizeof *out->data);
    if (out->data == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "profile of %d layers", out->layers);
    for (int i = 0; i < questions; i++)
        KVA_GO(add_question(&q[i], 1.0 / questions, out, err));
out:
    if (rc != KVA_OK)
        kva_table_release(out);
    return rc;
}
