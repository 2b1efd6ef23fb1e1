/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_headkv.c - KV heads that retrieve get more, by importances from a file.
 *
 *     base = floor(total / KV heads) - window
 *     min  = base - floor(base / beta)
 *     b_c  = window + min + imp_c / sum(imp) * what is left of the total
 *
 * The file (kind "headkv") has one importance, not negative, for each KV head. `window`
 * is raised to what the scorer protects. Budgets of at most the window are uniform. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/layers.h"

enum { BETA, PROFILE, WINDOW };

static const struct kva_param params_table[] = {
    {.name = "beta",
     .help = "1 / beta of the budget is divided by importance, the rest equally",
     .type = KVA_PARAM_REAL,
     .def = 1.5,
     .def_block = 1.5,
     .min = 1,
     .max = 1e6},
    {.name = "profile",
     .help = "file of importances (kind headkv)",
     .type = KVA_PARAM_FILE},
    {.name = "window",
     .help = "entries of each KV head outside the division",
     .type = KVA_PARAM_INT,
     .def = 32,
     .def_block = 32,
     .max = 1 << 20},
    {.name = NULL},
};

static enum kva_status check(const struct kva_table *t, int c, struct kva_error *err)
{
    if (t == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "headkv needs a file: profile=PATH");
    if (t->columns != 1)
        return KVA_FAIL(err, KVA_EINVALID,
                        "headkv: the file has %d columns instead of one importance",
                        t->columns);
    for (int i = 0; i < c; i++) {
        if (!isfinite(t->data[i]) || t->data[i] < 0)
            return KVA_FAIL(err, KVA_EINVALID,
                            "headkv: importance %g of KV head %d of layer %d", t->data[i],
                            i % t->kv_heads, i / t->kv_heads);
    }
    return KVA_OK;
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    const struct kva_protect *p = &in->scores->protect;
    int c = in->scores->layers * in->scores->kv_heads, *hi, *lo;
    int window = (int)params->value[WINDOW], base;
    enum kva_status rc = KVA_OK;

    KVA_TRY(check(in->table, c, err));
    window = window > p->recent + p->sinks ? window : p->recent + p->sinks;
    base = (int)(in->total / (uint64_t)c) - window;
    if (base <= 0) {
        *in->fallback = true;
        memcpy(b, in->base, (size_t)c * sizeof *b);
        return KVA_OK;
    }
    hi = kva_alloc_held(in);
    lo = kva_calloc((size_t)c, sizeof *lo);
    if (hi == NULL || lo == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", c);
        goto out;
    }
    for (int i = 0; i < c; i++) {
        lo[i] = window + base - (int)floor(base / params->value[BETA]);
        lo[i] = lo[i] < hi[i] ? lo[i] : hi[i];
    }
    rc = kva_alloc_shares(in->table->data, in->total, lo, hi, c, b, err);
out:
    free(hi);
    free(lo);
    return rc;
}

const struct kva_allocator kva_alloc_headkv = {
    .name = "headkv",
    .summary = "KV heads divide part of the budget by importances from a file",
    .source = "HeadKV, arXiv 2410.19258",
    .storage = "ragged; query head",
    .deviates =
        "The official code rounds each head, so its total drifts; here it is exact. "
        "Published importances exist for two models and are reused for others by name; "
        "here a file names its model and any other is refused. beta was swept from 1.005 "
        "to 10 in the paper: its best row is not this default.",
    .version = 1,
    .table_kind = "headkv",
    .params = params_table,
    .allocate = allocate,
};
