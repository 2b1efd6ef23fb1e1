/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_valuediff.c - keep the tokens whose value vector stands apart.
 *
 *     s_j = || v_j - mean(v) ||_2        per KV head, high = keep
 *
 * The mean runs over the entries the cache holds now, not over every token ever seen, so
 * it moves after each eviction. No query and no attention is read: the score is the same
 * whatever is asked later. Subtracted first, then squared: the expanded form cancels near
 * the mean. */
#include "methods/room.h"

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    size_t dim = (size_t)view->v_dim;
    float *mean = kva_room_floats(view, (size_t)view->kv_heads * dim);

    (void)params;
    if (mean == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "valuediff means");
    view->ops->row_mean(view->ops, view->v, 0, mean);
    view->ops->row_distance(view->ops, view->v, mean, s);
    return KVA_OK;
}

const struct kva_scorer kva_score_valuediff = {
    .name = "valuediff",
    .summary = "distance of each value vector from the mean of the cache",
    .source = "ValueDiff, Proposition 3.1",
    .storage = "uniform",
    .deviates = "No published code: the formula is that of Proposition 3.1. "
                "The mean runs over the entries held now.",
    .needs = KVA_NEEDS_VALUES,
    .version = 1,
    .nonneg = true,
    .params = params_table,
    .score = score,
    .by_ops = true,
};
