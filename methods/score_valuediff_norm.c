/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_valuediff_norm.c - valuediff by length alone.
 *
 *     s_j = || v_j ||_2 */
#include "methods/method.h"

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    (void)params;
    (void)err;
    view->ops->row_norm(view->ops, view->v, s);
    return KVA_OK;
}

const struct kva_scorer kva_score_valuediff_norm = {
    .name = "valuediff_norm",
    .summary = "length of each value vector",
    .source = "ValueDiff, ablation of the length",
    .storage = "ours",
    .needs = KVA_NEEDS_VALUES,
    .version = 1,
    .nonneg = true,
    .params = params_table,
    .score = score,
    .by_ops = true,
};
