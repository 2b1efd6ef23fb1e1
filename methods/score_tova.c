/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_tova.c - keep what the last token looks at.
 *
 *     s_j = mean over all query heads of the layer of A[a][last][j]
 *
 * One ranking for all KV heads of a layer. When an allocator has made the KV heads
 * ragged, "all query heads" are, for the entry at position p, those whose KV head still
 * holds p: the score belongs to the position, so two KV heads that both hold p still
 * agree on it.
 *
 * The last token itself is protected under `oneshot` (as in kvpress) and competes under a
 * block schedule (as published): parameter protect_last. */
#include "methods/method.h"

#include <string.h>

#include "methods/window.h"

enum { PROTECT_LAST, RECENT, SINKS };

static const struct kva_param params_table[] = {
    {.name = "protect_last",
     .help = "1: the newest entry always stays",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 0,
     .max = 1},
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

static int window(const struct kva_params *params)
{
    (void)params;
    return 1;
}

static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    (void)view;
    if (params->value[PROTECT_LAST] > 0 && p->recent < 1)
        p->recent = 1;
}

/* Whether all KV heads hold the same positions. */
static bool alike(const struct kva_layer_view *view)
{
    size_t n = view->off[1];

    for (int h = 1; h < view->kv_heads; h++)
        if (view->off[h + 1] - view->off[h] != n ||
            memcmp(view->pos + view->off[h], view->pos, n * sizeof *view->pos) != 0)
            return false;
    return true;
}

/* The mean over all query heads is that of one KV head that has them all. */
static enum kva_status score_alike(const struct kva_layer_view *view, float *s,
                                   struct kva_error *err)
{
    size_t n = view->off[1], off[2] = {0, n};
    struct kva_pool_heads mean = {
        .heads = view->heads, .kv_heads = 1, .off = off, .n = &n, .kernel = 1};
    struct kva_window w;

    KVA_TRY(kva_window_attend(view, 1, false, &w, err));
    mean.m = w.m;
    mean.a_off = w.off;
    view->ops->pool_heads(view->ops, &mean, s);
    for (int h = 1; h < view->kv_heads; h++)
        view->ops->copy(view->ops, s + view->off[h], s, n * sizeof *s);
    return KVA_OK;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    const size_t n = view->off[view->kv_heads];
    struct kva_window w;
    size_t positions = 0;
    double *sum;
    float *mean;
    int *count;

    (void)params;
    if (alike(view))
        return score_alike(view, s, err);
    KVA_TRY(kva_window_attend(view, 1, true, &w, err));
    for (size_t j = 0; j < n; j++) {
        if ((size_t)view->pos[j] >= positions)
            positions = (size_t)view->pos[j] + 1;
    }
    sum = kva_arena_alloc(view->scratch, positions, sizeof *sum);
    count = kva_arena_alloc(view->scratch, positions, sizeof *count);
    mean = kva_arena_alloc(view->scratch, n, sizeof *mean);
    if (sum == NULL || count == NULL || mean == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "tova scores of %zu positions", positions);
    for (int a = 0; a < view->heads; a++) {
        int h = a / (view->heads / view->kv_heads);
        const int32_t *pos = view->pos + view->off[h];
        size_t held = view->off[h + 1] - view->off[h];

        for (size_t j = 0; j < held; j++) {
            sum[pos[j]] += (double)w.m[w.off[a] + j];
            count[pos[j]]++;
        }
    }
    for (size_t j = 0; j < n; j++)
        mean[j] = (float)(sum[view->pos[j]] / count[view->pos[j]]);
    view->ops->copy(view->ops, s, mean, n * sizeof *s);
    return KVA_OK;
}

const struct kva_scorer kva_score_tova = {
    .name = "tova",
    .summary = "attention of the last token, mean over all query heads of a layer",
    .source = "TOVA, arXiv 2401.06104",
    .storage = "uniform",
    .deviates = "The official code lets the last token compete; under oneshot "
                "it is protected here, as in kvpress (protect_last).",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES,
    .version = 1,
    .attention = true,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .window = window,
    .protect = protect,
    .score = score,
    .by_ops = true,
};
