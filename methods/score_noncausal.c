/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_noncausal.c - keep what the tokens around it look at, later ones included.
 *
 *     c_j = mean over the group of sum_i softmax_j(q_i . k_j)    i, j of one chunk, no
 *                                                                mask and no scale
 *     s_j = mean over j-1 .. j+1 of c ||v||_2
 *
 * The attention part of Compactor by itself (methods.md 6.6). The sums are taken while
 * the prompt is read, each chunk as soon as it is complete. */
#include "methods/noncausal.h"

enum { CHUNK, COMPAT, RECENT, SINKS, VNORM };

static const struct kva_param params_table[] = {
    {.name = "chunk",
     .help = "tokens that see each other",
     .type = KVA_PARAM_INT,
     .def = 256,
     .def_block = 256,
     .min = 1,
     .max = 4096},
    {.name = "compat",
     .help = "1: the last chunk is filled up with zeros that take part, as in kvpress",
     .type = KVA_PARAM_INT,
     .max = 1},
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = "vnorm",
     .help = "1: times the norm of the value",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .max = 1},
    {.name = NULL},
};

static void collect(const struct kva_params *params, struct kva_collect *want)
{
    *want = (struct kva_collect){.kind = KVA_COLLECT_CHUNKS,
                                 .chunk = (int)params->value[CHUNK],
                                 .pad = params->value[COMPAT] > 0};
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    const size_t *off = view->off;
    float *norm = NULL;

    if (params->value[VNORM] > 0) {
        norm = kva_arena_alloc(view->scratch, off[view->kv_heads] + 1, sizeof *norm);
        if (norm == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "value norms of %zu entries",
                            off[view->kv_heads]);
        view->ops->row_norm(view->ops, view->v, norm);
    }
    for (int h = 0; h < view->kv_heads; h++)
        kva_noncausal_rows(view->side + off[h], norm != NULL ? norm + off[h] : NULL,
                           off[h + 1] - off[h], s + off[h]);
    return KVA_OK;
}

const struct kva_scorer kva_score_noncausal = {
    .name = "noncausal",
    .summary = "attention inside chunks without mask or scale, times value norm",
    .source = "Compactor, arXiv 2507.08143, attention part",
    .storage = "uniform",
    .deviates = "kvpress lets the zeros that fill up the last chunk take part "
                "(compat=1) and z-normalises, which changes no order. Under a block "
                "schedule a chunk ends with its block.",
    .needs = KVA_NEEDS_VALUES,
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .collect = collect,
    .score = score,
};
