/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_valuediff_dir.c - valuediff by direction alone.
 *
 *     s_j = 1 - cos(v_j, mean(v))        per KV head; a zero value has cosine 0 */
#include "methods/room.h"

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

/* A cosine may round to above 1. */
static float angle(float cosine)
{
    return cosine > 1 ? 0 : 1 - cosine;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    size_t dim = (size_t)view->v_dim;
    float *mean = kva_room_floats(view, (size_t)view->kv_heads * dim);

    (void)params;
    if (mean == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "valuediff_dir means");
    view->ops->row_mean(view->ops, view->v, 0, mean);
    view->ops->row_cosine(view->ops, view->v, mean, s);
    return KVA_OK;
}

const struct kva_scorer kva_score_valuediff_dir = {
    .name = "valuediff_dir",
    .summary = "angle between each value vector and the mean of the cache",
    .source = "ValueDiff, ablation of the direction",
    .storage = "ours",
    .needs = KVA_NEEDS_VALUES,
    .version = 1,
    .nonneg = true,
    .params = params_table,
    .score = score,
    .by_ops = true,
    .each = angle,
};
