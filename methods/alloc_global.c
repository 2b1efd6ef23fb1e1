/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_global.c - all KV heads of all layers compete for one total.
 *
 * Every KV head is sure of its `floor` best entries (protected ones count inside); all
 * others of the model are ranked together by (score, position, lower layer, lower head)
 * and the best survive. The full cache must be held until the last layer is scored, so
 * the peak does not fall. */
#include "methods/method.h"

#include <stdlib.h>

#include "methods/rank.h"

enum { FLOOR, NORM };

static const struct kva_param params_table[] = {
    {.name = "floor",
     .help = "entries every KV head keeps",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .min = 1,
     .max = 1 << 20},
    KVA_PARAM_NORM,
    {.name = NULL},
};

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    const struct kva_scores *sc = in->scores;
    int c = sc->layers * sc->kv_heads, least = (int)params->value[FLOOR];
    int32_t newest = kva_rank_newest(sc);
    int *reserve = kva_calloc((size_t)c, sizeof *reserve);
    enum kva_status rc;

    if (reserve == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", c);
    for (int i = 0; i < c; i++) {
        int lead, tail;

        kva_rank_protected(sc, i, newest, &lead, &tail);
        reserve[i] = least - lead - tail;
    }
    rc = kva_rank_flat(sc, 1, &in->total, reserve, (enum kva_norm)params->value[NORM], b,
                       err);
    free(reserve);
    return rc;
}

const struct kva_allocator kva_alloc_global = {
    .name = "global",
    .summary = "all KV heads of the model compete for one total",
    .source = "KVzip, arXiv 2505.23416; Layer-DefensiveKV, arXiv 2510.13334",
    .storage = "mask; ragged",
    .deviates = "KVzip drops every entry that ties at its threshold and may "
                "hold more than heads * N; here the total is exact and every "
                "KV head keeps `floor`.",
    .version = 1,
    .compares_heads = true,
    .compares_layers = true,
    .cross_layer = true,
    .params = params_table,
    .allocate = allocate,
};
