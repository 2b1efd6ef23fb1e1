/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_manifoldkv.c - keep keys far from the centre of all keys.
 *
 *     s_j = || k_j - mean(k) ||_2        per KV head, over the entries held now
 *
 * With centroid_window > 0 the entries held are cut, oldest first, into windows of that
 * many, and each is measured from the centre of its own window (the published form for
 * long inputs, 4096). */
#include "methods/room.h"

enum { CENTROID_WINDOW, RECENT, SINKS };

static const struct kva_param params_table[] = {
    {.name = "centroid_window",
     .help = "entries that share one centre; 0: all",
     .type = KVA_PARAM_INT,
     .max = 1 << 24},
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

/* Borders of the windows of every KV head, one list: off[*n + 1]. */
static size_t *windows(const struct kva_layer_view *view, size_t width, int *n)
{
    size_t count = 0, *off;

    for (int h = 0; h < view->kv_heads; h++)
        count += (view->off[h + 1] - view->off[h] + width - 1) / width;
    off = kva_arena_alloc(view->scratch, count + 1, sizeof *off);
    if (off == NULL)
        return NULL;
    *n = 0;
    for (int h = 0; h < view->kv_heads; h++)
        for (size_t j = view->off[h]; j < view->off[h + 1]; j += width)
            off[(*n)++] = j;
    off[*n] = view->off[view->kv_heads];
    return off;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    size_t width = (size_t)params->value[CENTROID_WINDOW], dim = (size_t)view->head_dim;
    struct kva_rows rows = *view->k;
    float *mean;

    if (width > 0) {
        rows.off = windows(view, width, &rows.heads);
        if (rows.off == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "manifoldkv windows");
    }
    mean = kva_room_floats(view, (size_t)rows.heads * dim);
    if (mean == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "manifoldkv centres");
    view->ops->row_mean(view->ops, &rows, 0, mean);
    view->ops->row_distance(view->ops, &rows, mean, s);
    return KVA_OK;
}

const struct kva_scorer kva_score_manifoldkv = {
    .name = "manifoldkv",
    .summary = "distance of each key from the mean of the cache",
    .source = "ManifoldKV, arXiv 2602.08343",
    .storage = "uniform; mask",
    .deviates = "Published numbers stand under AdaKV budgets, which kvpress "
                "only masks; uniform is the default here. Windows are cut "
                "from what is held, not from original positions.",
    .needs = KVA_NEEDS_KEYS,
    .version = 1,
    .nonneg = true,
    .params = params_table,
    .score = score,
    .by_ops = true,
};
