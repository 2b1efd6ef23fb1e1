/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_lagkv.c - keep what the tokens behind it do not foresee.
 *
 * Behind the sinks the entries are cut into lags of g. The last full lag and what follows
 * it are the tail, which stays. A lag is measured against the next one:
 *
 *     x_jc = (k_jc - min_c) / (max_c - min_c)     min, max of channel c in the next lag;
 *                                                 0 where they are equal
 *     u_j  = softmax over the lag of std_c(x_jc)  unbiased, over the channels
 *     z_j  = (u_j of keys + u_j of values) / 2
 *     s_j  = (g - 1 - entries of the lag that z puts before j) / g,  or z_j with cross=1
 *
 * Ranks give every lag the same share. Tail and sinks have the score 1.
 *
 * recursive=0 cuts the entries held, oldest first. recursive=1 cuts the original
 * positions, as the authors' cache does: a lag is thinned once the next one is complete,
 * and because ranks count from the best of g, what a thinned lag kept stays as long as
 * its share does not shrink. In a cache that never evicted both are the same.
 *
 * Fewer than sinks + 2 g entries: the newest stay. kvpress keeps the sinks there, too:
 * compat=1. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>

enum { COMPAT, CROSS, LAG, RECENT, RECURSIVE, SINKS };

static const struct kva_param params_table[] = {
    {.name = "compat",
     .help = "1: sinks stay in a context too short for two lags, as in kvpress",
     .type = KVA_PARAM_INT,
     .max = 1},
    {.name = "cross",
     .help = "1: lags are compared with each other, not ranked within themselves",
     .type = KVA_PARAM_INT,
     .max = 1},
    {.name = "lag",
     .help = "entries of a lag",
     .type = KVA_PARAM_INT,
     .def = 128,
     .def_block = 128,
     .min = 1,
     .max = 1 << 20},
    KVA_PARAM_RECENT,
    {.name = "recursive",
     .help = "1: lags are cut by original position, as they arrive",
     .type = KVA_PARAM_INT,
     .def_block = 1,
     .max = 1},
    KVA_PARAM_SINKS(4),
    {.name = NULL},
};

struct cutting {
    int sinks, lag;
    bool recursive;
    int32_t seen; /* recursive: tokens so far */
};

static struct cutting cutting_of(const struct kva_params *params,
                                 const struct kva_layer_view *view)
{
    struct cutting c = {.sinks = (int)params->value[SINKS],
                        .lag = (int)params->value[LAG],
                        .recursive = params->value[RECURSIVE] > 0};

    for (int h = 0; h < view->kv_heads; h++)
        if (view->pos[view->off[h + 1] - 1] >= c.seen)
            c.seen = view->pos[view->off[h + 1] - 1] + 1;
    return c;
}

/* Where lag t begins in a KV head's list of n entries: the first index that is not before
 * it. */
static int lag_begin(const struct cutting *c, const int32_t *pos, int n, int t)
{
    int64_t at = c->sinks + (int64_t)t * c->lag;
    int low = 0, high = n;

    if (!c->recursive)
        return at < n ? (int)at : n;
    while (low < high) {
        int mid = low + (high - low) / 2;

        if (pos[mid] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Full lags of a KV head, the reference in the tail included; below 2 nothing is scored.
 */
static int full_lags(const struct cutting *c, int n)
{
    int all = c->recursive ? c->seen : n;

    return all > c->sinks ? (all - c->sinks) / c->lag : 0;
}

static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    struct cutting c = cutting_of(params, view);
    int32_t tail = c.seen;
    bool brief = true;

    for (int h = 0; h < view->kv_heads; h++) {
        const int32_t *pos = view->pos + view->off[h];
        int n = (int)(view->off[h + 1] - view->off[h]), full = full_lags(&c, n), first;

        if (full < 2) {
            tail = 0;
            continue;
        }
        brief = false;
        first = lag_begin(&c, pos, n, full - 1);
        if (first == n)
            tail = 0;
        else if (c.seen - pos[first] < tail)
            tail = c.seen - pos[first];
    }
    if (p->recent < tail)
        p->recent = tail;
    if (brief && params->value[COMPAT] <= 0)
        p->sinks = 0;
}

/* Adds half the softmax over rows [b0, b1) of the deviation of their channels, rescaled
 * by the ranges of rows [r0, r1). range: scratch of 2 dim, x: of dim, u: of b1 - b0. */
static void add_lag(const float *rows, int dim, int b0, int b1, int r0, int r1,
                    double *range, double *x, double *u, double *z)
{
    double *low = range, *scale = range + dim, top = -INFINITY, sum = 0;

    for (int i = 0; i < dim; i++)
        low[i] = scale[i] = (double)rows[(size_t)r0 * (size_t)dim + (size_t)i];
    for (int j = r0 + 1; j < r1; j++) {
        const float *row = rows + (size_t)j * (size_t)dim;

        for (int i = 0; i < dim; i++) {
            double v = (double)row[i];

            low[i] = v < low[i] ? v : low[i];
            scale[i] = v > scale[i] ? v : scale[i];
        }
    }
    for (int i = 0; i < dim; i++)
        scale[i] = scale[i] > low[i] ? 1 / (scale[i] - low[i]) : 0;
    for (int j = b0; j < b1; j++) {
        const float *row = rows + (size_t)j * (size_t)dim;
        double mean = 0, square = 0;

        for (int i = 0; i < dim; i++) {
            x[i] = ((double)row[i] - low[i]) * scale[i];
            mean += x[i];
        }
        mean /= dim;
        for (int i = 0; i < dim; i++)
            square += (x[i] - mean) * (x[i] - mean);
        u[j - b0] = dim > 1 ? sqrt(square / (dim - 1)) : 0;
        top = u[j - b0] > top ? u[j - b0] : top;
    }
    for (int j = b0; j < b1; j++) {
        u[j - b0] = exp(u[j - b0] - top);
        sum += u[j - b0];
    }
    for (int j = b0; j < b1; j++)
        z[j] += u[j - b0] / sum / 2;
}

struct place {
    double z;
    int j;
};

/* Best first; equal ones: the newer. */
static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->z > y->z || x->z < y->z)
        return x->z > y->z ? -1 : 1;
    return y->j - x->j;
}

/* Ranks of entries [b0, b1), the best (lag - 1) / lag. What is no number stays one. */
static void rank_lag(const double *z, int b0, int b1, int lag, struct place *place,
                     float *s)
{
    for (int j = b0; j < b1; j++)
        place[j - b0] = (struct place){isnan(z[j]) ? -1 : z[j], j};
    qsort(place, (size_t)(b1 - b0), sizeof *place, by_place);
    for (int i = 0; i < b1 - b0; i++)
        s[place[i].j] = place[i].z < 0 ? NAN : (float)(lag - 1 - i) / (float)lag;
}

struct scratch {
    double *range, *x, *u, *z;
    struct place *place;
};

static void score_head(const struct cutting *c, bool cross,
                       const struct kva_layer_view *view, int h, const struct scratch *t,
                       float *s)
{
    const int32_t *pos = view->pos + view->off[h];
    const float *k = view->k->data + view->off[h] * (size_t)view->head_dim;
    const float *v = view->v->data + view->off[h] * (size_t)view->v_dim;
    int n = (int)(view->off[h + 1] - view->off[h]), full = full_lags(c, n);

    for (int j = 0; j < n; j++)
        s[j] = full < 2 ? (float)(j + 1) / (float)n : 1;
    for (int l = 0; l < full - 1; l++) {
        int b0 = lag_begin(c, pos, n, l), b1 = lag_begin(c, pos, n, l + 1), r1 = b1;

        /* lags that lost every entry have no range: the next one that has any */
        for (int next = l + 2; r1 == b1 && next <= full; next++)
            r1 = lag_begin(c, pos, n, next);
        if (b0 == b1)
            continue;
        for (int j = b0; j < b1; j++)
            t->z[j] = 0;
        if (r1 > b1) {
            add_lag(k, view->head_dim, b0, b1, b1, r1, t->range, t->x, t->u, t->z);
            add_lag(v, view->v_dim, b0, b1, b1, r1, t->range, t->x, t->u, t->z);
        }
        for (int j = b0; cross && j < b1; j++)
            s[j] = (float)t->z[j];
        if (!cross)
            rank_lag(t->z, b0, b1, c->lag, t->place, s);
    }
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    struct cutting c = cutting_of(params, view);
    size_t all = view->off[view->kv_heads];
    size_t dim = (size_t)(view->head_dim > view->v_dim ? view->head_dim : view->v_dim);
    struct scratch t = {
        .range = kva_arena_alloc(view->scratch, 3 * dim, sizeof *t.range),
        .u = kva_arena_alloc(view->scratch, 2 * all, sizeof *t.u),
        .place = kva_arena_alloc(view->scratch, all, sizeof *t.place),
    };

    if (t.range == NULL || t.u == NULL || t.place == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "lagkv scores of %zu entries", all);
    t.x = t.range + 2 * dim;
    t.z = t.u + all;
    for (int h = 0; h < view->kv_heads; h++)
        score_head(&c, params->value[CROSS] > 0, view, h, &t, s + view->off[h]);
    return KVA_OK;
}

const struct kva_scorer kva_score_lagkv = {
    .name = "lagkv",
    .summary = "spread of each entry against the range of the next lag of entries",
    .source = "LagKV, arXiv 2504.04704",
    .storage = "uniform",
    .deviates = "A channel of one value counts as 0; kvpress divides by 0 "
                "there. Contexts too short for two lags keep the newest "
                "entries, kvpress the sinks too (compat=1). Equal ranks of "
                "different lags keep the newer entry, not an arbitrary one. "
                "The authors' cache gives each lag floor(ratio * lag); here "
                "the ranks meet an exact budget.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_VALUES | KVA_NEEDS_HOST,
    .version = 1,
    .nonneg = true,
    .params = params_table,
    .protect = protect,
    .score = score,
};
