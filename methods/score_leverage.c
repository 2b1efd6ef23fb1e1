/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_leverage.c - keep keys that the directions of the other keys do not explain.
 *
 *     s_j = z( x_j' Phi (Phi' X'X Phi + ridge I)^-1 Phi' x_j )
 *
 * X: the keys before rotation, their mean subtracted, per KV head over the entries held
 * now; Phi: dim x sketch, entries N(0, 1/sketch), drawn once for each (seed, layer,
 * head). The z-score runs over the layer. The published code draws Phi anew at every
 * call, so its sets cannot be repeated. */
#include "methods/leverage.h"

enum { RECENT, RIDGE, SEED, SINKS, SKETCH };

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    {.name = "ridge",
     .help = "added to the diagonal before the factorisation",
     .type = KVA_PARAM_REAL,
     .def = 0.01,
     .def_block = 0.01,
     .min = 1e-9,
     .max = 1e9},
    {.name = "seed",
     .help = "another sketch with another number",
     .type = KVA_PARAM_INT,
     .max = 2147483647},
    KVA_PARAM_SINKS(0),
    {.name = "sketch",
     .help = "columns of the sketch",
     .type = KVA_PARAM_INT,
     .def = 48,
     .def_block = 48,
     .min = 1,
     .max = 1024},
    {.name = NULL},
};

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    int k = (int)params->value[SKETCH], dim = view->head_dim;
    uint64_t seed = kva_mix64(view->seed) ^ (uint64_t)params->value[SEED];
    float *phi = kva_arena_alloc(view->scratch, (size_t)k * (size_t)dim, sizeof *phi);

    if (phi == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "leverage sketch");
    for (int h = 0; h < view->kv_heads; h++) {
        size_t at = view->off[h];

        kva_leverage_sketch(seed, view->layer, h, k, dim, phi);
        KVA_TRY(kva_leverage_rows(
            view->ops, view->scratch, view->k_raw->data + at * (size_t)dim,
            view->off[h + 1] - at, dim, phi, k, params->value[RIDGE], s + at, err));
    }
    kva_leverage_standard(s, view->off[view->kv_heads]);
    return KVA_OK;
}

const struct kva_scorer kva_score_leverage = {
    .name = "leverage",
    .summary = "statistical leverage of the unrotated keys, by a Gaussian sketch",
    .source = "Compactor, arXiv 2507.08143",
    .storage = "uniform",
    .deviates = "kvpress draws a new sketch at every call, so that its sets "
                "cannot be repeated; here it is fixed by seed, layer and "
                "head.",
    .needs = KVA_NEEDS_RAW_KEYS | KVA_NEEDS_HOST,
    .version = 1,
    .params = params_table,
    .score = score,
};
