/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_lukv.c - budgets of the KV heads from a profile made offline (methods/lukv.h).
 *
 * The file (kind "lukv") has for each KV head 99 shares to be *removed*, column i for a
 * global share removed of (i + 1) / 100:
 *
 *     r       = 1 - total / (KV heads * S)         S: tokens of the prompt
 *     i       = round(100 r) - 1, within 0 .. 98
 *     ideal_c = (1 - Phi[c][i]) S, scaled to sum to the total
 *
 * Ideals become integers by largest remainder over all KV heads of the model. compat=1:
 * as in kvpress, each layer by itself: the rounded sum of its ideals, floors, one more to
 * the largest fractions; then the total is put right. `sinks` and `window` are protected
 * besides what the scorer protects. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/layers.h"
#include "methods/lukv.h"

enum { COMPAT, PROFILE, SINKS, WINDOW };

static const struct kva_param params_table[] = {
    {.name = "compat",
     .help = "1: rounded in each layer by itself, as kvpress does",
     .type = KVA_PARAM_INT,
     .max = 1},
    {.name = "profile",
     .help = "file of shares to be removed (kind lukv, 99 columns)",
     .type = KVA_PARAM_FILE},
    KVA_PARAM_SINKS(4),
    {.name = "window",
     .help = "newest entries that always stay",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .max = 1 << 20},
    {.name = NULL},
};

static void protect(const struct kva_params *params, uint64_t total, int cells,
                    struct kva_protect *p)
{
    (void)total;
    (void)cells;
    if (p->sinks < (int)params->value[SINKS])
        p->sinks = (int)params->value[SINKS];
    if (p->recent < (int)params->value[WINDOW])
        p->recent = (int)params->value[WINDOW];
}

/* ideal[c]: unscaled. */
static enum kva_status ideals(const struct kva_alloc_in *in, int c, double *ideal,
                              struct kva_error *err)
{
    const struct kva_table *t = in->table;
    double tokens = kva_alloc_tokens(in), r = 1 - (double)in->total / (c * tokens);
    int column = (int)nearbyint(100 * r) - 1;

    if (t == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "lukv needs a file: profile=PATH");
    if (t->columns != KVA_LUKV_COLUMNS)
        return KVA_FAIL(err, KVA_EINVALID, "lukv: the file has %d columns instead of %d",
                        t->columns, KVA_LUKV_COLUMNS);
    column = column < 0 ? 0 : column > 98 ? 98 : column;
    for (int i = 0; i < c; i++) {
        double phi = t->data[i * KVA_LUKV_COLUMNS + column];

        if (!(phi >= 0 && phi <= 1))
            return KVA_FAIL(err, KVA_EINVALID,
                            "lukv: share removed %g of KV head %d of layer %d", phi,
                            i % t->kv_heads, i / t->kv_heads);
        ideal[i] = (1 - phi) * tokens;
    }
    return KVA_OK;
}

/* One layer as kvpress rounds it. */
static void round_layer(const double *ideal, const int *n, int heads, int *b)
{
    double sum = 0;
    int64_t want, have = 0, most = 0;

    for (int h = 0; h < heads; h++) {
        sum += ideal[h];
        most += n[h];
        b[h] = (int)floor(ideal[h]);
        have += b[h];
    }
    want = (int64_t)nearbyint(sum);
    want = want < heads ? heads : want > most ? most : want;
    /* one each to the largest fractions, equal ones to the lower head */
    for (int64_t left = want - have < heads ? want - have : heads; left > 0; left--) {
        int best = -1;
        double part = -1;

        for (int h = 0; h < heads; h++) {
            double own = ideal[h] - floor(ideal[h]);

            if (b[h] <= (int)floor(ideal[h]) && own > part) {
                best = h;
                part = own;
            }
        }
        b[best]++;
    }
    for (int h = 0; h < heads; h++)
        b[h] = b[h] < 1 ? 1 : b[h] > n[h] ? n[h] : b[h];
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    int layers = in->scores->layers, heads = in->scores->kv_heads, c = layers * heads;
    double *ideal = kva_calloc((size_t)c, sizeof *ideal);
    int *n = kva_alloc_held(in), *lo = kva_calloc((size_t)c, sizeof *lo);
    enum kva_status rc;

    if (ideal == NULL || n == NULL || lo == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", c);
        goto out;
    }
    KVA_GO(ideals(in, c, ideal, err));
    if (params->value[COMPAT] > 0) {
        for (int l = 0; l < layers; l++)
            round_layer(ideal + l * heads, n + l * heads, heads, b + l * heads);
        kva_alloc_settle(in->total, n, c, b);
    } else {
        rc = kva_alloc_shares(ideal, in->total, lo, n, c, b, err);
    }
out:
    free(ideal);
    free(n);
    free(lo);
    return rc;
}

const struct kva_allocator kva_alloc_lukv = {
    .name = "lukv",
    .summary = "budgets of KV heads from a profile of their losses, made offline",
    .source = "LU-KV, arXiv 2602.08585",
    .storage = "mask",
    .deviates =
        "kvpress rounds each layer, so that its total drifts by up to half an entry a "
        "layer, and between two columns of the profile it keeps what the column says; "
        "here the ideals are scaled and rounded to the exact total. It masks, fetches "
        "one "
        "profile for one model over the network, and decides per layer; here a profile "
        "is "
        "a file made for the model at hand.",
    .version = 1,
    .table_kind = "lukv",
    .params = params_table,
    .protect = protect,
    .allocate = allocate,
};
