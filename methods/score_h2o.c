/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_h2o.c - heavy hitters: what all queries so far have looked at most.
 *
 *     s_j = sum over all queries i seen so far and the group's heads a of A[a][i][j]
 *
 * Half of the budget goes by score, half to the newest entries (recent_share). The sums
 * follow their entries through evictions and go on; h2o_block begins them anew. With all
 * queries of a prompt, early entries win by having more viewers; viewers=1 divides that
 * out (the scorer `observed`). */
#include "methods/columns.h"

enum { RECENT, SHARE, REDUCE, SINKS, VIEWERS };

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,   KVA_PARAM_RECENT_SHARE(0.5), KVA_PARAM_REDUCE(KVA_COLUMNS_SUM),
    KVA_PARAM_SINKS(0), KVA_PARAM_VIEWERS(0),        {.name = NULL},
};

static void collect(const struct kva_params *params, struct kva_collect *want)
{
    (void)params;
    want->kind = KVA_COLLECT_COLUMNS;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    return kva_columns_score(view, (int)params->value[REDUCE] == KVA_COLUMNS_MEAN,
                             params->value[VIEWERS] > 0, s, err);
}

const struct kva_scorer kva_score_h2o = {
    .name = "h2o",
    .summary = "attention of all queries so far, half of the budget to the newest",
    .source = "H2O, arXiv 2306.14048",
    .storage = "uniform; query head",
    .deviates = "Official code sizes the heavy and the recent part apart and ranks per "
                "query head; here each is half of the budget and the group is summed. "
                "Codes that rank by the last query alone are not this method.",
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .collect = collect,
    .score = score,
};
