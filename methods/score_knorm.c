/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_knorm.c - keep keys of small norm.
 *
 *     s_j = -|| k_j ||_2
 *
 * Rotation does not change the norm. All layers are scored; some ports leave out the
 * first two. */
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
    view->ops->row_norm(view->ops, view->k, s);
    return KVA_OK;
}

const struct kva_scorer kva_score_knorm = {
    .name = "knorm",
    .summary = "small key norm stays",
    .source = "arXiv 2406.11430",
    .storage = "uniform",
    .deviates = "Computed in float for every model: in bf16 about three "
                "quarters of the norms tie. Some ports leave out the first "
                "two layers; all are scored here.",
    .needs = KVA_NEEDS_KEYS,
    .version = 1,
    .params = params_table,
    .score = score,
    .by_ops = true,
    .each = kva_negative,
};
