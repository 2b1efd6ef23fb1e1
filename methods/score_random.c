/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_random.c - the control: every entry draws a fixed lot.
 *
 *     s_j = U(0,1) keyed by (suite seed, seed, layer, head, position)
 *
 * Counter-based, so the lot of an entry is the same for every schedule, order and
 * backend. The parameter `seed` gives several controls in one suite. */
#include "methods/method.h"

enum { RECENT, SEED, SINKS };

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    {.name = "seed",
     .help = "another draw with another number",
     .type = KVA_PARAM_INT,
     .max = 2147483647},
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    uint64_t layer = kva_mix64(view->seed);

    (void)err;
    layer = kva_mix64(layer ^ (uint64_t)params->value[SEED]);
    layer = kva_mix64(layer ^ (uint64_t)view->layer);
    for (int h = 0; h < view->kv_heads; h++) {
        uint64_t head = kva_mix64(layer ^ (uint64_t)h);

        for (size_t j = view->off[h]; j < view->off[h + 1]; j++) {
            uint64_t lot = kva_mix64(head ^ (uint64_t)view->pos[j]);

            s[j] = (float)(lot >> 40) * 0x1p-24f; /* 24 bits: exact in float */
        }
    }
    return KVA_OK;
}

const struct kva_scorer kva_score_random = {
    .name = "random",
    .summary = "a fixed lot per entry: the control every method must beat",
    .source = "control; see also arXiv 2609.03430",
    .storage = "ours",
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .score = score,
};
