/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_duo.c - retrieval heads keep everything, streaming heads sinks and the newest.
 *
 *     gate_c       of the file, one number a KV head (kind "duo"), or looked up here:
 *     gate[l][h] = mean over the group of 1/T sum_t sum_{u <= t} w_u,
 *     w          = softmax over t < T of scale * R(T-1) q . R(t) k,  T = 500
 *
 * q: mean of the last queries before rotation, k: mean of the held keys before rotation.
 * A head that looks at far positions has its mass early and a large area under the
 * cumulated weights; a local one a small area (methods.md 9).
 *
 * The heads with the largest gates keep everything, as many as the budget affords; the
 * last of them takes what is left over. With the scorer `streaming` the others keep its
 * sinks and their newest entries, which is the published method. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>

#include "methods/full_or_recent.h"
#include "methods/room.h"
#include "methods/window.h"

enum { PROFILE, RECENT };
enum { POSITIONS = 500, QUERIES = 64, MAX_HEADS = 64 };

static const struct kva_param params_table[] = {
    {.name = "profile",
     .help = "file of gates, one a KV head; none: gates of the cache at hand",
     .type = KVA_PARAM_FILE},
    {.name = "recent",
     .help = "newest entries that a streaming head keeps",
     .type = KVA_PARAM_INT,
     .def = 256,
     .def_block = 256,
     .max = 1 << 20},
    {.name = NULL},
};

static int window(const struct kva_params *params)
{
    (void)params;
    return QUERIES;
}

/* Mean of n rows of `dim` floats to out[dim]. */
static void mean_row(const float *x, size_t n, size_t dim, float *out)
{
    for (size_t d = 0; d < dim; d++) {
        double sum = 0;

        for (size_t i = 0; i < n; i++)
            sum += (double)x[i * dim + d];
        out[d] = (float)(sum / (double)n);
    }
}

/* Area under the cumulated weights of logits z[POSITIONS]. */
static double area(const double *z)
{
    double top = z[0], sum = 0, run = 0, all = 0;

    for (int t = 1; t < POSITIONS; t++)
        top = z[t] > top ? z[t] : top;
    for (int t = 0; t < POSITIONS; t++)
        sum += exp(z[t] - top);
    for (int t = 0; t < POSITIONS; t++) {
        run += exp(z[t] - top) / sum;
        all += run;
    }
    return all / POSITIONS;
}

struct gates {
    const float *last;     /* [rows][heads][dim] the last queries */
    float *q, *mean_q, *k; /* [rows][dim], [dim], [POSITIONS][dim] */
    int32_t *back, *up;    /* rotations of q and k */
};

static double gate(const struct kva_layer_view *view, const struct gates *g, int rows,
                   int h)
{
    const int group = view->heads / view->kv_heads, dim = view->head_dim;
    const size_t d = (size_t)dim, q_off[2] = {0, (size_t)rows}, one[2] = {0, 1},
                 k_off[2] = {0, POSITIONS},
                 n_off[2] = {0, view->off[h + 1] - view->off[h]};
    struct kva_rows q = {g->q, q_off, 1, dim}, last = {g->mean_q, one, 1, dim},
                    k = {g->k, k_off, 1, dim},
                    held = {view->k_raw->data + view->off[h] * d, n_off, 1, dim};
    const struct kva_lend *lend = view->lend;
    const int32_t turn = POSITIONS - 1;
    double sum = 0, z[POSITIONS];

    view->ops->row_mean(view->ops, &held, 0, g->k);
    for (int t = 1; t < POSITIONS; t++)
        for (size_t x = 0; x < d; x++)
            g->k[(size_t)t * d + x] = g->k[x];
    lend->rotate(lend->ctx, view->layer, &k, g->up);
    for (int a = h * group; a < (h + 1) * group; a++) {
        for (int i = 0; i < rows; i++)
            for (size_t x = 0; x < d; x++)
                g->q[(size_t)i * d + x] =
                    g->last[((size_t)i * view->heads + (size_t)a) * d + x];
        lend->rotate(lend->ctx, view->layer, &q, g->back);
        mean_row(g->q, (size_t)rows, d, g->mean_q);
        lend->rotate(lend->ctx, view->layer, &last, &turn);
        for (int t = 0; t < POSITIONS; t++) {
            z[t] = 0;
            for (size_t x = 0; x < d; x++)
                z[t] += (double)g->mean_q[x] * (double)g->k[(size_t)t * d + x];
            z[t] *= (double)view->scale;
        }
        sum += area(z);
    }
    return sum / group;
}

static enum kva_status observe(const struct kva_layer_view *view,
                               const struct kva_params *params, double *stat,
                               struct kva_error *err)
{
    size_t d = (size_t)view->head_dim;
    int rows = kva_window_rows(view, window(params));
    struct gates g;

    if (view->table != NULL)
        return KVA_OK;
    if (view->kv_heads > MAX_HEADS)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "gates of %d KV heads", view->kv_heads);
    g.q = kva_arena_alloc(view->scratch, ((size_t)rows + 1 + POSITIONS) * d, sizeof *g.q);
    g.back = kva_arena_alloc(view->scratch, (size_t)rows + POSITIONS, sizeof *g.back);
    g.last = kva_room_queries(view, rows);
    if (g.q == NULL || g.back == NULL || g.last == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "gates of layer %d", view->layer);
    g.mean_q = g.q + (size_t)rows * d;
    g.k = g.mean_q + d;
    g.up = g.back + rows;
    for (int i = 0; i < rows; i++)
        g.back[i] = -view->q_pos[view->nq - rows + i];
    for (int t = 0; t < POSITIONS; t++)
        g.up[t] = t;
    for (int h = 0; h < view->kv_heads; h++)
        stat[h] = gate(view, &g, rows, h);
    return KVA_OK;
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    int heads = in->scores->kv_heads, cells = in->scores->layers * heads;
    double *want = kva_calloc((size_t)cells, sizeof *want);
    enum kva_status rc;

    if (want == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "gates of %d KV heads", cells);
    for (int c = 0; c < cells; c++)
        want[c] = in->table != NULL
                      ? in->table->data[(size_t)c * (size_t)in->table->columns]
                      : in->seen_stat[c / heads * MAX_HEADS + c % heads];
    rc = kva_full_or_recent(in, want, cells, 1, (int)params->value[RECENT], b, err);
    free(want);
    return rc;
}

const struct kva_allocator kva_alloc_duo = {
    .name = "duo",
    .summary = "retrieval heads keep everything, the others the newest",
    .source = "DuoAttention, arXiv 2410.10819",
    .storage = "ragged; mask",
    .deviates =
        "Published code turns a fixed share of the heads to streaming and takes "
        "the ratio as it comes; here the budget says how many keep everything. "
        "Gates without a file are those of the cache at hand instead of 50 texts.",
    .version = 1,
    .cross_layer = true,
    .needs = KVA_NEEDS_RAW_KEYS | KVA_NEEDS_QUERIES | KVA_NEEDS_LEND,
    .n_stat = MAX_HEADS,
    .table_kind = "duo",
    .table_optional = true,
    .params = params_table,
    .window = window,
    .observe = observe,
    .allocate = allocate,
};
