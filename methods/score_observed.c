/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_observed.c - the attention an entry gets from the average query that sees it.
 *
 *     s_j = 1 / ((n - j) G) sum over the queries i >= j and the group's heads a of
 *           A[a][i][j]
 *
 * n tokens were read; n - j queries have seen position j, its own included. Nothing is
 * protected, so that the newest entries, seen by few and by themselves, rank high. */
#include "methods/columns.h"

enum { RECENT, SHARE, REDUCE, SINKS, VIEWERS };

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,   KVA_PARAM_RECENT_SHARE(0), KVA_PARAM_REDUCE(KVA_COLUMNS_MEAN),
    KVA_PARAM_SINKS(0), KVA_PARAM_VIEWERS(1),      {.name = NULL},
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

const struct kva_scorer kva_score_observed = {
    .name = "observed",
    .summary = "mean attention over all queries that see an entry",
    .source = "ObservedAttention, kvpress 0.5.5",
    .storage = "uniform",
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .collect = collect,
    .score = score,
};
