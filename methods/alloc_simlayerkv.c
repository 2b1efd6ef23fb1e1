/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_simlayerkv.c - lazy layers keep the first and the newest entries.
 *
 *     lazy_l = mean over the last `last` queries and all query heads of the attention on
 *              the first `first` and the newest `recent` positions
 *
 * The least lazy layers keep everything, as many as the budget affords; the last of them
 * takes what is left over. The others keep the scorer's sinks and their `recent` newest
 * entries. With the scorer `streaming` that is the published method (methods.md 9). */
#include "methods/method.h"

#include <stdlib.h>

#include "methods/full_or_recent.h"
#include "methods/window.h"

enum { FIRST, LAST, RECENT };

static const struct kva_param params_table[] = {
    {.name = "first",
     .help = "first positions whose attention makes a layer lazy",
     .type = KVA_PARAM_INT,
     .def = 4,
     .def_block = 4,
     .max = 1 << 20},
    {.name = "last",
     .help = "last queries that are looked at",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .min = 1,
     .max = 4096},
    {.name = "recent",
     .help = "newest entries that count, and that a lazy layer keeps",
     .type = KVA_PARAM_INT,
     .def = 1024,
     .def_block = 1024,
     .max = 1 << 20},
    {.name = NULL},
};

static int window(const struct kva_params *params)
{
    return (int)params->value[LAST];
}

static enum kva_status observe(const struct kva_layer_view *view,
                               const struct kva_params *params, double *stat,
                               struct kva_error *err)
{
    int rows = kva_window_rows(view, window(params)),
        group = view->heads / view->kv_heads;
    int32_t next = view->nq > 0 ? view->q_pos[view->nq - 1] + 1 : 0;
    int32_t first = (int32_t)params->value[FIRST];
    int32_t recent = next - (int32_t)params->value[RECENT];
    struct kva_window w;
    double sum = 0;

    KVA_TRY(kva_window_attend(view, rows, true, &w, err));
    for (int a = 0; a < view->heads; a++) {
        const int32_t *pos = view->pos + view->off[a / group];

        for (size_t j = 0; j < w.off[a + 1] - w.off[a]; j++)
            if (pos[j] < first || pos[j] >= recent)
                sum += (double)w.m[w.off[a] + j];
    }
    *stat = sum / view->heads;
    return KVA_OK;
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    int layers = in->scores->layers;
    double *want = kva_calloc((size_t)layers, sizeof *want);
    enum kva_status rc;

    if (want == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d layers", layers);
    for (int l = 0; l < layers; l++)
        want[l] = -in->seen_stat[l];
    rc = kva_full_or_recent(in, want, layers, in->scores->kv_heads,
                            (int)params->value[RECENT], b, err);
    free(want);
    return rc;
}

const struct kva_allocator kva_alloc_simlayerkv = {
    .name = "simlayerkv",
    .summary = "lazy layers keep the newest entries, the others everything",
    .source = "SimLayerKV, arXiv 2410.13846",
    .storage = "layer",
    .deviates = "Published code calls a layer lazy above a threshold tuned for a model "
                "family and takes the ratio as it comes; here the budget says how many "
                "layers are, the laziest first. kvpress keeps one recent entry too few.",
    .version = 1,
    .even = true,
    .cross_layer = true,
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES,
    .n_stat = 1,
    .params = params_table,
    .window = window,
    .observe = observe,
    .allocate = allocate,
};
