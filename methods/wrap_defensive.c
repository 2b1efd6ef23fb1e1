/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wrap_defensive.c - worst case over the window's rows where others take the mean.
 *
 *     A[a][i][j]   weights of the last W' queries, window columns cut
 *     r[a][i]      mean of 5 neighbours of A[a][i], scaled back to the sum of A[a][i]
 *     m_j   = max over the group's heads a and the rows i of r[a][i][j]
 *     p_j   = max(m_j, mean over the KV head's entries of m)             the prior
 *     s_j   = p_j w_j / sum over KV heads of w,  w_j = mean over the group || W_O^a v_j
 * ||_1
 *
 * Stage 1, for a known budget: in each KV head the entries in order of their mean weight,
 * as long as their cumulative share stays below mass - bias and fewer than (nominal
 * budget - W') are taken, rank above all others; the window ranks above those. bias is
 * the mean weight on the window itself.
 *
 * The published code takes the bias after the window's columns were cut, so that it
 * measures the W keys before the window (fix_bias=0), and forces entries to the largest
 * score, where they tie with real ones; here they are above it. In a cache that has
 * evicted before, the sum over KV heads takes the mean of those that still hold the
 * position for the others. The base scorer gives protection only. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/project.h"
#include "methods/rank.h"
#include "methods/window.h"

enum { FIX_BIAS, KERNEL, MASS, WINDOW };
enum { SHARE, BIAS, WIDE }; /* of aux: mean weight, -1 in the window; bias of the layer */

static const struct kva_param params_table[] = {
    {.name = "fix_bias",
     .help = "0: bias from the keys before the window, as in the published code",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .max = 1},
    {.name = "kernel",
     .help = "width of the mean over neighbours, odd",
     .type = KVA_PARAM_INT,
     .def = 5,
     .def_block = 5,
     .min = 1,
     .max = 255,
     .odd = true},
    {.name = "mass",
     .help = "share of the attention that stage 1 covers",
     .type = KVA_PARAM_REAL,
     .def = 0.9,
     .def_block = 0.9,
     .max = 1},
    {.name = "window",
     .help = "last queries that vote; their entries stay",
     .type = KVA_PARAM_INT,
     .def = 32,
     .def_block = 32,
     .min = 1,
     .max = 4096},
    {.name = NULL},
};

static int window(const struct kva_params *params)
{
    return (int)params->value[WINDOW];
}

static const char *refuse(const struct kva_scorer *s, const struct kva_allocator *a)
{
    (void)a;
    return s->attention
               ? NULL
               : "defensive is the worst case of the window's attention and takes the "
                 "place of its mean; give it a scorer of window attention (snapkv, tova)";
}

static int wide(const struct kva_params *params, const struct kva_layer_view *view)
{
    (void)params;
    (void)view;
    return WIDE;
}

/* Sums over the rows and heads of one layer. */
struct rows {
    int rows, kernel;
    bool fix_bias;
    double *x, *y;        /* scratch, one row */
    double *worst, *mean; /* of the entries of one KV head */
    double bias;
};

/* One row of weights w[n], the first `cut` before the window. */
static void add_row(struct rows *r, const float *w, size_t n, size_t cut)
{
    double before = 0, after = 0, scale;
    size_t half = (size_t)r->kernel / 2, end = r->fix_bias ? n : cut;
    size_t first = cut > (size_t)r->rows ? cut - (size_t)r->rows : 0;
    double *x = r->x + half; /* zeros on both sides */

    for (size_t j = r->fix_bias ? cut : first; j < end; j++)
        r->bias += (double)w[j];
    for (size_t j = 0; j < half; j++)
        r->x[j] = x[cut + j] = 0;
    for (size_t j = 0; j < cut; j++) {
        x[j] = (double)w[j];
        r->mean[j] += x[j];
    }
    for (size_t j = 0; j < cut; j++) {
        const double *near = r->x + j;
        double sum = near[0];

        if (half == 2) { /* the published width, without a loop */
            sum = near[0] + near[1] + near[2] + near[3] + near[4];
        } else {
            for (size_t k = 1; k <= 2 * half; k++)
                sum += near[k];
        }
        r->y[j] = sum;
        before += near[half]; /* beside the other sum, each waits for itself only */
        after += sum;
    }
    scale = after > 0 ? before / after : 0; /* the kernel's 1 / width drops out */
    for (size_t j = 0; j < cut; j++) {
        double y = r->y[j] * scale;

        r->worst[j] = y > r->worst[j] ? y : r->worst[j];
    }
}

/* Worst case and mean weight of every entry before the window; worst and mean are ragged
 * like the view, zeroed. */
static enum kva_status attend(const struct kva_layer_view *view, struct rows *r,
                              const size_t *cut, double *worst, double *mean,
                              struct kva_error *err)
{
    int group = view->heads / view->kv_heads;
    size_t most = 0;
    float *w;

    for (int h = 0; h < view->kv_heads; h++)
        most = view->off[h + 1] - view->off[h] > most ? view->off[h + 1] - view->off[h]
                                                      : most;
    most = most * (size_t)r->rows;
    w = kva_arena_alloc(view->scratch, most, sizeof *w);
    if (w == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "window attention of %zu weights", most);
    for (int a = 0; a < view->heads; a++) {
        struct kva_attend_rows at = kva_window_head(view, r->rows, a);
        int h = a / group;

        at.w = w;
        view->ops->attend_rows(view->ops, &at);
        r->worst = worst + view->off[h];
        r->mean = mean + view->off[h];
        for (int u = 0; u < r->rows; u++)
            add_row(r, w + (size_t)u * at.n, at.n, cut[h]);
    }
    r->bias /= (double)view->heads * r->rows;
    return KVA_OK;
}

/* w[j] becomes its share over the KV heads of its position. */
static enum kva_status share_norms(const struct kva_layer_view *view, float *w,
                                   struct kva_error *err)
{
    int heads = view->kv_heads;
    size_t *at = kva_arena_alloc(view->scratch, (size_t)heads, sizeof *at);

    if (at == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "projected norms");
    for (int h = 0; h < heads; h++)
        at[h] = view->off[h];
    for (;;) {
        int32_t pos = INT32_MAX;
        double sum = 0;
        int holders = 0;

        for (int h = 0; h < heads; h++)
            if (at[h] < view->off[h + 1] && view->pos[at[h]] < pos)
                pos = view->pos[at[h]];
        if (pos == INT32_MAX)
            return KVA_OK;
        for (int h = 0; h < heads; h++)
            if (at[h] < view->off[h + 1] && view->pos[at[h]] == pos) {
                sum += (double)w[at[h]];
                holders++;
            }
        sum *= (double)heads / holders;
        for (int h = 0; h < heads; h++)
            if (at[h] < view->off[h + 1] && view->pos[at[h]] == pos) {
                w[at[h]] = sum > 0 ? (float)((double)w[at[h]] / sum) : 1 / (float)heads;
                at[h]++;
            }
    }
}

static enum kva_status rescore(const struct kva_layer_view *view,
                               const struct kva_params *params, const float *base,
                               float *s, float *aux, struct kva_error *err)
{
    size_t n = view->off[view->kv_heads];
    struct rows r = {.rows = kva_window_rows(view, (int)params->value[WINDOW]),
                     .kernel = (int)params->value[KERNEL],
                     .fix_bias = params->value[FIX_BIAS] > 0};
    size_t *cut = kva_arena_alloc(view->scratch, (size_t)view->kv_heads, sizeof *cut);
    double *worst =
        kva_arena_alloc(view->scratch, 4 * n + (size_t)r.kernel, sizeof *worst);
    float *w = kva_arena_alloc(view->scratch, n, sizeof *w);

    (void)base;
    if (cut == NULL || worst == NULL || w == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "defensive scores of %zu entries", n);
    memset(worst, 0, 2 * n * sizeof *worst);
    r.y = worst + 2 * n;
    r.x = worst + 3 * n; /* with kernel / 2 zeros on each side */
    for (int h = 0; h < view->kv_heads; h++) {
        const int32_t *pos = view->pos + view->off[h];

        for (cut[h] = 0; cut[h] < view->off[h + 1] - view->off[h] &&
                         pos[cut[h]] < view->q_pos[view->nq - r.rows];)
            cut[h]++;
    }
    KVA_TRY(attend(view, &r, cut, worst, worst + n, err));
    KVA_TRY(kva_project_mean(view, 1, w, err));
    KVA_TRY(share_norms(view, w, err));
    for (int h = 0; h < view->kv_heads; h++) {
        double prior = 0;

        for (size_t j = view->off[h]; j < view->off[h] + cut[h]; j++)
            prior += worst[j] / (double)cut[h];
        for (size_t j = view->off[h]; j < view->off[h + 1]; j++) {
            bool before = j < view->off[h] + cut[h];
            double p = worst[j] > prior ? worst[j] : prior;

            s[j] = before ? (float)(p * (double)w[j]) : 0;
            aux[j * WIDE + SHARE] = before ? (float)worst[n + j] : -1;
            aux[j * WIDE + BIAS] = (float)r.bias;
        }
    }
    return KVA_OK;
}

/* How many of key[n], sorted best first, stage 1 takes. */
static int stage_one(const struct kva_params *params, const float *aux,
                     const uint64_t *order, int n, int most)
{
    double total = 0, sum = 0;
    int take = 0;

    for (int i = 0; i < n; i++)
        total += (double)aux[(order[i] & UINT32_MAX) * WIDE + SHARE];
    while (total > 0 && take < n && take < most) {
        const float *at = aux + (order[take] & UINT32_MAX) * WIDE;

        sum += (double)at[SHARE] / total;
        if (sum >= params->value[MASS] - (double)at[BIAS])
            break;
        take++;
    }
    return take;
}

static int best_first(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x > *y ? -1 : *x < *y;
}

static enum kva_status promote(const struct kva_params *params,
                               const struct kva_scores *sc, const int *share, float *s,
                               struct kva_error *err)
{
    size_t most = 0, all = sc->off[sc->layers * sc->kv_heads];
    uint64_t *order;
    float top = 0;

    for (size_t j = 0; j < all; j++)
        top = s[j] > top ? s[j] : top;
    for (int c = 0; c < sc->layers * sc->kv_heads; c++)
        most = sc->off[c + 1] - sc->off[c] > most ? sc->off[c + 1] - sc->off[c] : most;
    order = kva_calloc(most, sizeof *order);
    if (order == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "defensive over %zu entries", most);
    for (int c = 0; c < sc->layers * sc->kv_heads; c++) {
        const float *aux = sc->aux + sc->off[c] * WIDE;
        int n = (int)(sc->off[c + 1] - sc->off[c]), before = 0, take;

        /* ranks ascend with positions: the newer of equal ones comes first */
        for (; before < n && aux[before * WIDE + SHARE] >= 0; before++)
            order[before] = kva_rank_key(aux[before * WIDE + SHARE], before);
        qsort(order, (size_t)before, sizeof *order, best_first);
        take = stage_one(params, aux, order, before, share[c] - (n - before));
        for (int i = 0; i < take; i++)
            s[sc->off[c] + (order[i] & UINT32_MAX)] = 2 * top + 1;
        for (int j = before; j < n; j++)
            s[sc->off[c] + (size_t)j] = 4 * top + 2;
    }
    free(order);
    return KVA_OK;
}

const struct kva_wrapper kva_wrap_defensive = {
    .name = "defensive",
    .summary = "largest weight of any query of the window, times projected norms",
    .source = "DefensiveKV, arXiv 2510.13334",
    .storage = "ragged",
    .deviates = "The published bias of stage 1 measures the keys before the window, and "
                "forced entries tie with the best real one; here they stand above it. "
                "fix_bias=0 restores the bias.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_VALUES | KVA_NEEDS_QUERIES | KVA_NEEDS_LEND,
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .window = window,
    .refuse = refuse,
    .wide = wide,
    .rescore = rescore,
    .promote = promote,
};
