/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_expected_attention.c - keep what queries still to come can be expected to look
 * at.
 *
 *     logit_j = scale mu.kt_j + scale^2 / 2  kt_j' Sigma kt_j        per query head
 *     s_j     = (mean over the group of softmax(logit)_j + eps) ||v_j||_2
 *
 * mu and Sigma are mean and covariance of the head's queries before the rotation, over
 * the prompt from position `sinks` on. Future queries are such queries turned by the mean
 * rotation R of the next `future` positions; kt = R' k turns the key back instead, which
 * is the same number and needs no product of d x d matrices (methods.md 6.6). For
 * Gaussian queries the logit is that of the expectation of exp(scale q.k). Softmax runs
 * over the entries behind the sinks, which are protected. */
#include "methods/method.h"

#include <math.h>
#include <string.h>

enum { COV, EPS, FUTURE, RECENT, SINKS, VNORM };

static const struct kva_param params_table[] = {
    {.name = "cov",
     .help = "1: the covariance of the queries counts",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .max = 1},
    {.name = "eps",
     .help = "added to the expected weight before the value norm",
     .type = KVA_PARAM_REAL,
     .def = 0.01,
     .def_block = 0.01,
     .max = 1},
    {.name = "future",
     .help = "positions after the prompt that are averaged over",
     .type = KVA_PARAM_INT,
     .def = 512,
     .def_block = 512,
     .min = 1,
     .max = 1 << 20},
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(4),
    {.name = "vnorm",
     .help = "1: times the norm of the value",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .max = 1},
    {.name = NULL},
};

static void collect(const struct kva_params *params, struct kva_collect *want)
{
    *want = (struct kva_collect){.kind = KVA_COLLECT_QUERIES,
                                 .start = (int)params->value[SINKS]};
}

/* Arrays of one decision; n is the largest number of entries of a KV head. */
struct work {
    double *c, *s; /* mean rotation, [half] */
    float *kt, *y; /* [n][head_dim] */
    float *cov;    /* [head_dim][head_dim] */
    double *z, *p; /* [n] logits, weights */
    int half;
};

/* kt holds n keys k and gets R' k, pairs (m, m + half); what is not rotated stays. */
static void turn_back(const struct work *w, size_t n, int dim)
{
    for (size_t j = 0; j < n; j++) {
        float *k = w->kt + j * (size_t)dim;

        for (int m = 0; m < w->half; m++) {
            double k1 = (double)k[m], k2 = (double)k[m + w->half];

            k[m] = (float)(w->c[m] * k1 + w->s[m] * k2);
            k[m + w->half] = (float)(w->c[m] * k2 - w->s[m] * k1);
        }
    }
}

/* Logits of query head a over the n rows of kt, to z. Rows are summed side by side: one
 * alone would wait for each of its sums. */
#define SIDE 4
static enum kva_status logits(const struct kva_layer_view *view,
                              const struct kva_params *params, const struct work *w,
                              int a, size_t n, struct kva_error *err)
{
    const size_t d = (size_t)view->head_dim;
    const double *mean = view->q_stats->mean + (size_t)a * d;
    const double *cov = view->q_stats->cov + (size_t)a * d * d;
    const double scale = (double)view->scale;
    struct kva_weight *sigma = NULL;

    memset(w->y, 0, n * d * sizeof *w->y);
    if (params->value[COV] > 0) {
        for (size_t i = 0; i < d * d; i++)
            w->cov[i] = (float)cov[i];
        KVA_TRY(view->ops->weight_new(view->ops, KVA_F32, w->cov, view->head_dim,
                                      view->head_dim, NULL, &sigma, err));
        view->ops->matmul(view->ops, sigma, w->kt, (int)n, w->y, view->head_dim);
        view->ops->weight_free(view->ops, sigma);
    }
    for (size_t j = 0; j < n; j += SIDE) {
        double linear[SIDE] = {0}, square[SIDE] = {0};
        const float *kt[SIDE], *y[SIDE];

        for (size_t r = 0; r < SIDE; r++) {
            size_t at = j + r < n ? j + r : n - 1; /* the last row again behind it */

            kt[r] = w->kt + at * d;
            y[r] = w->y + at * d;
        }
        for (size_t i = 0; i < d; i++)
#pragma GCC unroll 4
            for (int r = 0; r < SIDE; r++) {
                linear[r] += mean[i] * (double)kt[r][i];
                square[r] += (double)y[r][i] * (double)kt[r][i];
            }
        for (size_t r = 0; r < SIDE && j + r < n; r++)
            w->z[j + r] = scale * linear[r] + scale * scale / 2 * square[r];
    }
    return KVA_OK;
}

/* p[n] += softmax(z) / group; z is used up */
static void add_softmax(double *z, size_t n, int group, double *p)
{
    double top = -INFINITY, sum = 0;

    for (size_t j = 0; j < n; j++)
        top = z[j] > top ? z[j] : top;
    for (size_t j = 0; j < n; j++) {
        z[j] = exp(z[j] - top);
        sum += z[j];
    }
    for (size_t j = 0; j < n; j++)
        p[j] += z[j] / sum / group;
}

static enum kva_status score_head(const struct kva_layer_view *view,
                                  const struct kva_params *params, const struct work *w,
                                  int h, const float *norm, float *s,
                                  struct kva_error *err)
{
    const int group = view->heads / view->kv_heads;
    const int32_t *pos = view->pos + view->off[h];
    size_t held = view->off[h + 1] - view->off[h], d = (size_t)view->head_dim, first = 0,
           n;

    while (first < held && pos[first] < (int32_t)params->value[SINKS])
        s[first++] = 0; /* protected, not read */
    n = held - first;
    if (n == 0)
        return KVA_OK;
    view->ops->copy(view->ops, w->kt, view->k->data + (view->off[h] + first) * d,
                    n * d * sizeof *w->kt);
    turn_back(w, n, view->head_dim);
    memset(w->p, 0, n * sizeof *w->p);
    for (int a = h * group; a < (h + 1) * group; a++) {
        KVA_TRY(logits(view, params, w, a, n, err));
        add_softmax(w->z, n, group, w->p);
    }
    for (size_t j = 0; j < n; j++) {
        double v = params->value[VNORM] > 0 ? (double)norm[first + j] : 1;

        s[first + j] = (float)((w->p[j] + params->value[EPS]) * v);
    }
    return KVA_OK;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    const size_t d = (size_t)view->head_dim, all = view->off[view->kv_heads];
    struct kva_arena *arena = view->scratch;
    float *norm = kva_arena_alloc(arena, all + 1, sizeof *norm);
    size_t most = 1;
    struct work w;

    for (int h = 0; h < view->kv_heads; h++)
        if (view->off[h + 1] - view->off[h] > most)
            most = view->off[h + 1] - view->off[h];
    w = (struct work){.c = kva_arena_alloc(arena, d, sizeof *w.c),
                      .s = kva_arena_alloc(arena, d, sizeof *w.s),
                      .kt = kva_arena_alloc(arena, most * d, sizeof *w.kt),
                      .y = kva_arena_alloc(arena, most * d, sizeof *w.y),
                      .cov = kva_arena_alloc(arena, d * d, sizeof *w.cov),
                      .z = kva_arena_alloc(arena, most, sizeof *w.z),
                      .p = kva_arena_alloc(arena, most, sizeof *w.p)};
    if (!norm || !w.c || !w.s || !w.kt || !w.y || !w.cov || !w.z || !w.p)
        return KVA_FAIL(err, KVA_ENOMEM, "expected attention over %zu entries", all);
    w.half = view->lend->rope_mean(view->lend->ctx, view->layer, view->seen,
                                   (int)params->value[FUTURE], w.c, w.s);
    if (params->value[VNORM] > 0)
        view->ops->row_norm(view->ops, view->v, norm);
    for (int h = 0; h < view->kv_heads; h++)
        KVA_TRY(
            score_head(view, params, &w, h, norm + view->off[h], s + view->off[h], err));
    return KVA_OK;
}

const struct kva_scorer kva_score_expected_attention = {
    .name = "expected_attention",
    .summary = "attention that later queries are expected to pay, times value norm",
    .source = "Expected Attention, arXiv 2510.00636",
    .storage = "uniform; mask",
    .deviates = "The mean rotation is applied to the key, which gives the same number; "
                "the model's own score scale instead of 1/sqrt(d). Under a block "
                "schedule the statistics run over all tokens read so far. kvpress's "
                "class has eps=0, its leaderboard 0.01 with adakv, which masks.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_VALUES | KVA_NEEDS_LEND,
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .collect = collect,
    .score = score,
};
