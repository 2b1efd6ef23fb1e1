/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_lava.c - layers share by the entropy of their scores, KV heads compete inside.
 *
 *     p   = scores of all ordinary entries of the layer, all KV heads together, over
 *           their sum
 *     e_l = - sum of p log p / log(entries)
 *
 * Protected entries are outside the division; the rest of the total goes to the layers in
 * proportion to e. Inside a layer the entries of all KV heads are ranked together, each
 * KV head sure of its best floor(alpha * layer total / KV heads) ordinary entries, as
 * with adakv. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>

#include "methods/layers.h"
#include "methods/rank.h"

enum { ALPHA, NORM };

static const struct kva_param params_table[] = {
    {.name = "alpha",
     .help = "share of the layer's mean that each KV head is sure of",
     .type = KVA_PARAM_REAL,
     .def = 0.2,
     .def_block = 0.2,
     .max = 1},
    KVA_PARAM_NORM,
    {.name = NULL},
};

/* Of one layer: held entries, protected ones, and the normalised entropy of the others.
 */
static double layer_entropy(const struct kva_scores *sc, int layer, int32_t newest,
                            int *held, int *ahead)
{
    double sum = 0, entropy = 0;
    int n = 0;

    *held = *ahead = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int c = layer * sc->kv_heads; c < (layer + 1) * sc->kv_heads; c++) {
            int lead, tail, own = (int)(sc->off[c + 1] - sc->off[c]);
            const float *s = sc->s + sc->off[c];

            kva_rank_protected(sc, c, newest, &lead, &tail);
            for (int j = lead; j < own - tail; j++) {
                double x = s[j] > 0 && isfinite(s[j]) ? (double)s[j] : 0;

                if (pass == 0)
                    sum += x;
                else if (x > 0)
                    entropy -= x / sum * log(x / sum);
            }
            if (pass == 0) {
                *held += own;
                *ahead += lead + tail;
                n += own - lead - tail;
            }
        }
    }
    /* without mass every entry is as good as another */
    return n < 2 ? 0 : sum > 0 ? entropy / log(n) : 1;
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    const struct kva_scores *sc = in->scores;
    int layers = sc->layers, heads = sc->kv_heads;
    int32_t newest = kva_rank_newest(sc);
    double *entropy = kva_calloc((size_t)layers, sizeof *entropy);
    int *held = kva_calloc((size_t)layers, 3 * sizeof *held), *lo = held + layers,
        *total = lo + layers,
        *reserve = kva_calloc((size_t)layers * (size_t)heads, sizeof *reserve);
    uint64_t sure = 0, *totals = kva_calloc((size_t)layers, sizeof *totals);
    enum kva_status rc = KVA_OK;

    if (entropy == NULL || held == NULL || reserve == NULL || totals == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "budgets of %d layers", layers);
        goto out;
    }
    for (int l = 0; l < layers; l++) {
        entropy[l] = layer_entropy(sc, l, newest, &held[l], &lo[l]);
        lo[l] = lo[l] > heads ? lo[l] : heads; /* nobody is left with nothing */
        sure += (uint64_t)lo[l];
    }
    if (sure > in->total) { /* rule 3.4: the uniform division */
        *in->fallback = true;
        for (int i = 0; i < layers * heads; i++)
            b[i] = in->base[i];
        goto out;
    }
    kva_budget_shares(entropy, in->total, lo, held, layers, total);
    for (int l = 0; l < layers; l++) {
        int alpha = (int)floor(params->value[ALPHA] * (total[l] / heads) + 1e-9);

        totals[l] = (uint64_t)total[l];
        for (int c = l * heads; c < (l + 1) * heads; c++) {
            int lead, tail;

            kva_rank_protected(sc, c, newest, &lead, &tail);
            reserve[c] = alpha > 0 || lead + tail > 0 ? alpha : 1;
        }
    }
    rc = kva_rank_flat(sc, layers, totals, reserve, (enum kva_norm)params->value[NORM], b,
                       err);
out:
    free(totals);
    free(entropy);
    free(held);
    free(reserve);
    return rc;
}

const struct kva_allocator kva_alloc_lava = {
    .name = "lava",
    .summary = "layers share by entropy of their scores, KV heads compete inside",
    .source = "LAVa, arXiv 2509.09754",
    .storage = "ragged",
    .deviates =
        "The published code blends each head's count with its floor (0.8 of what it won "
        "plus 0.2 of the mean, rounded, so the total drifts) and cuts layers again as "
        "later ones arrive; here the floor is a safeguard as with adakv, the total is "
        "exact and each layer is cut once.",
    .version = 1,
    .compares_heads = true,
    .cross_layer = true,
    .nonneg = true,
    .params = params_table,
    .allocate = allocate,
};
