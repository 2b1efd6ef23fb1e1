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

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    struct kva_window w;
    size_t positions = 0;
    double *sum;
    int *count;

    (void)params;
    KVA_TRY(kva_window_attend(view, 1, &w, err));
    for (size_t j = 0; j < view->off[view->kv_heads]; j++) {
        if ((size_t)view->pos[j] >= positions)
            positions = (size_t)view->pos[j] + 1;
    }
    sum = kva_arena_alloc(view->scratch, positions, sizeof *sum);
    count = kva_arena_alloc(view->scratch, positions, sizeof *count);
    if (sum == NULL || count == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "tova scores of %zu positions", positions);
    for (int a = 0; a < view->heads; a++) {
        int h = a / (view->heads / view->kv_heads);
        const int32_t *pos = view->pos + view->off[h];
        size_t n = view->off[h + 1] - view->off[h];

        for (size_t j = 0; j < n; j++) {
            sum[pos[j]] += (double)w.m[w.off[a] + j];
            count[pos[j]]++;
        }
    }
    for (size_t j = 0; j < view->off[view->kv_heads]; j++)
        s[j] = (float)(sum[view->pos[j]] / count[view->pos[j]]);
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
};
