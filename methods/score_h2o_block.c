/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_h2o_block.c - heavy hitters of the last block alone.
 *
 *     s_j = sum over the queries i since the last decision and the group's heads a of
 *           A[a][i][j]
 *
 * h2o whose sums begin anew after every decision; without evictions between, the same.
 * Which of the two the published baselines under block processing are is not known
 * (methods.md 4.2). */
#include "methods/columns.h"

enum { RECENT, SHARE, REDUCE, SINKS };

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    KVA_PARAM_RECENT_SHARE(0.5),
    KVA_PARAM_REDUCE(KVA_COLUMNS_SUM),
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

static void collect(const struct kva_params *params, struct kva_collect *want)
{
    (void)params;
    want->kind = KVA_COLLECT_COLUMNS;
    want->restart = true;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    return kva_columns_score(view, (int)params->value[REDUCE] == KVA_COLUMNS_MEAN, false,
                             s, err);
}

const struct kva_scorer kva_score_h2o_block = {
    .name = "h2o_block",
    .summary = "h2o whose sums begin anew after every eviction",
    .source = "H2O, arXiv 2306.14048, as a block-wise baseline",
    .storage = "uniform",
    .deviates = "No published definition of the block-wise form: sums restart at every "
                "decision here and go on in h2o.",
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .collect = collect,
    .score = score,
};
