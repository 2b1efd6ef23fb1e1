/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_streaming.c - keep the first positions and the newest.
 *
 *     s_j = position, the first `sinks` positions protected
 *
 * Positions stay absolute, as in kvpress. rotate=1 (alias streaming_rot) is the paper's:
 * positions are those inside the cache, kept keys are turned to them and the next token
 * stands at the number of entries held (methods.md 8.5). */
#include "methods/method.h"

enum { ROTATE, SINKS };

static const struct kva_param params_table[] = {
    {.name = "rotate",
     .help = "1: kept keys are rotated to contiguous positions",
     .type = KVA_PARAM_INT,
     .max = 1},
    KVA_PARAM_SINKS(4),
    {.name = NULL},
};

static bool rotates(const struct kva_params *params)
{
    return params->value[ROTATE] > 0;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    (void)params;
    (void)err;
    /* exact in float up to 2^24 positions; beyond, the position inside the rank key
     * decides */
    for (size_t j = 0; j < view->off[view->kv_heads]; j++)
        s[j] = (float)view->pos[j];
    return KVA_OK;
}

const struct kva_scorer kva_score_streaming = {
    .name = "streaming",
    .summary = "attention sinks and the newest entries",
    .source = "StreamingLLM, arXiv 2309.17453",
    .storage = "uniform",
    .deviates = "The official code rotates kept keys to contiguous positions; "
                "here positions stay, as in kvpress, and rotate=1 (alias "
                "streaming_rot) rotates. KVCache-Factory keeps thousands of "
                "first tokens under this name.",
    .version = 1,
    .nonneg = true,
    .positional = true,
    .params = params_table,
    .rotates = rotates,
    .score = score,
};
