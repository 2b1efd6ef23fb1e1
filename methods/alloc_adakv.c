/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_adakv.c - the KV heads of a layer compete for the layer's entries.
 *
 * Each layer keeps its uniform total. Ahead of the competition, in each of its KV heads:
 * protected entries, and the best floor(alpha * nk) of the others (nk = layer total / KV
 * heads), at least one entry in all. The rest of the layer's entries are ranked together
 * by (score, position, lower head) and the best survive. Protected entries count inside
 * the layer's total.
 *
 * compat=1: protected entries count inside the safeguard, as in kvpress 0.5.5, so that it
 * reserves nothing beyond a window of alpha * nk entries or more. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>

#include "methods/rank.h"

enum { ALPHA, COMPAT, NORM };

static const struct kva_param params_table[] = {
    {.name = "alpha",
     .help = "share of the nominal budget that each KV head is sure of",
     .type = KVA_PARAM_REAL,
     .def = 0.2,
     .def_block = 0.2,
     .max = 1},
    {.name = "compat",
     .help = "1: protected entries count inside the safeguard, as in kvpress",
     .type = KVA_PARAM_INT,
     .max = 1},
    KVA_PARAM_NORM,
    {.name = NULL},
};

/* Nominal total of each layer: the parts of the uniform division before any cap, then
 * capped at what the layer holds. Overflow stays inside a layer as long as the layer has
 * room, so that ragged KV heads of one layer do not move entries to another. */
static void layer_totals(const struct kva_alloc_in *in, const int *held, int *total)
{
    uint64_t heads = (uint64_t)in->scores->kv_heads;
    uint64_t c = (uint64_t)in->scores->layers * heads;
    uint64_t q = in->total / c, r = in->total % c, given = 0;

    for (int l = 0; l < in->scores->layers; l++) {
        uint64_t first = (uint64_t)l * heads;
        uint64_t extra = r <= first ? 0 : r - first > heads ? heads : r - first;
        uint64_t want = q * heads + extra;

        total[l] = want > (uint64_t)held[l] ? held[l] : (int)want;
        given += (uint64_t)total[l];
    }
    kva_budget_fill(in->total - given, held, in->scores->layers, total);
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    const struct kva_scores *sc = in->scores;
    int32_t newest = kva_rank_newest(sc);
    int heads = sc->kv_heads;
    int *held = kva_calloc((size_t)sc->layers, sizeof *held);
    int *total = kva_calloc((size_t)sc->layers, sizeof *total);
    uint64_t *totals = kva_calloc((size_t)sc->layers, sizeof *totals);
    int *reserve = kva_calloc((size_t)sc->layers * (size_t)heads, sizeof *reserve);
    enum kva_status rc;

    if (held == NULL || total == NULL || totals == NULL || reserve == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "budgets of %d layers", sc->layers);
        goto out;
    }
    for (int l = 0; l < sc->layers; l++)
        held[l] = (int)(sc->off[(l + 1) * heads] - sc->off[l * heads]);
    layer_totals(in, held, total);
    for (int l = 0; l < sc->layers; l++) {
        bool inside = params->value[COMPAT] > 0;
        /* alpha is a decimal number: 0.29 of 100 is 29, although the product is a hair
         * less, which kvpress truncates */
        int sure =
            (int)floor(params->value[ALPHA] * (total[l] / heads) + (inside ? 0 : 1e-9));

        totals[l] = (uint64_t)total[l];
        for (int c = l * heads; c < (l + 1) * heads; c++) {
            int lead, tail;

            kva_rank_protected(sc, c, newest, &lead, &tail);
            reserve[c] = sure > 0 || lead + tail > 0 ? sure : 1;
            reserve[c] -= inside ? lead + tail : 0;
        }
    }
    rc = kva_rank_flat(sc, sc->layers, totals, reserve,
                       (enum kva_norm)params->value[NORM], b, err);
out:
    free(held);
    free(total);
    free(totals);
    free(reserve);
    return rc;
}

const struct kva_allocator kva_alloc_adakv = {
    .name = "adakv",
    .summary = "KV heads of a layer compete, with a safeguard for each",
    .source = "AdaKV, arXiv 2407.11550",
    .storage = "mask; query head; ragged",
    .deviates = "Protected entries count beside the safeguard, in kvpress "
                "inside it: a head that the window fills is sure of alpha "
                "more entries here. The official code rounds each head, so "
                "its total drifts; here it is exact.",
    .version = 1,
    .compares_heads = true,
    .params = params_table,
    .allocate = allocate,
};
