/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_kvzip.c - keep what the model looks at when it is asked to repeat the context.
 *
 *     s_j = max over the queries of the replay and the group's query heads of the weight
 *           of entry j, softmax over sinks | chunk | replay
 *
 * The replay is a second prefill in chunks (models/replay.h), done once for a context;
 * here its result is read. plus=1 divides each row by the norm of the attention input and
 * multiplies each entry by the norm of its projected value (KVzip+). The maximum over the
 * group is a maximum, not a mean (E21).
 *
 * The chat prefix is in no chunk. It is protected, as in the authors' code; with compat=1
 * it scores 0 and only the first `sinks` entries are protected, as in kvpress. */
#include "methods/method.h"

enum { CHUNK, COMPAT, PLUS, RECENT, SINKS };

static const struct kva_param params_table[] = {
    {.name = "chunk",
     .help = "tokens repeated at a time",
     .type = KVA_PARAM_INT,
     .def = 2000,
     .def_block = 2000,
     .min = 1,
     .max = 1 << 20},
    {.name = "compat",
     .help = "1: the chat prefix behind the sinks goes first, as in kvpress",
     .type = KVA_PARAM_INT,
     .max = 1},
    {.name = "plus",
     .help = "1: KVzip+, normed by attention input and projected value",
     .type = KVA_PARAM_INT,
     .max = 1},
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(4),
    {.name = NULL},
};

static void collect(const struct kva_params *params, struct kva_collect *want)
{
    *want = (struct kva_collect){.kind = KVA_COLLECT_REPLAY,
                                 .chunk = (int)params->value[CHUNK],
                                 .start = (int)params->value[SINKS],
                                 .plus = params->value[PLUS] > 0};
}

/* Entries before the first chunk, the same in every KV head. */
static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    size_t n = 0;

    if (params->value[COMPAT] > 0)
        return;
    while (n < view->off[1] && view->side[n] < 0)
        n++;
    if (n > 0 && p->sinks < view->pos[n - 1] + 1)
        p->sinks = view->pos[n - 1] + 1;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    (void)params;
    (void)err;
    for (size_t j = 0; j < view->off[view->kv_heads]; j++)
        s[j] = view->side[j] < 0 ? 0.0f : view->side[j];
    return KVA_OK;
}

const struct kva_scorer kva_score_kvzip = {
    .name = "kvzip",
    .summary = "largest attention weight while the model repeats the context",
    .source = "KVzip, arXiv 2505.23416",
    .storage = "ragged; mask",
    .deviates = "Published with one budget over all layers: kvzip+global. Counts are "
                "exact where the official threshold drops every tie at the cut. Peak: "
                "the full cache and the replay of a chunk beside it, which an audit "
                "counts (K7). Official evaluations retain the full cache and kvpress "
                "masks; here entries go. Official code sets a blank before the 8 tokens "
                "a later prompt names.",
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .oneshot_only = true,
    .params = params_table,
    .collect = collect,
    .protect = protect,
    .score = score,
};
