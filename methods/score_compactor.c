/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_compactor.c - leverage of the key and attention inside chunks, blended.
 *
 *     s = beta z(leverage) + z(noncausal)
 *
 * Leverage of the keys before the rotation under a Gaussian sketch, in runs of lev_chunk
 * entries (0: all at once); noncausal as in score_noncausal.c. z subtracts the mean and
 * divides by the deviation, over all KV heads of the layer together. The first `sinks`
 * and last `recent` entries are protected and take no part in means, sketches or sums of
 * neighbours (methods.md 6.6).
 *
 * Defaults are those of the authors' port; compactor_kp are kvpress's, where beta is the
 * share removed (beta=-1): the ranking then depends on the budget. */
#include "methods/leverage.h"
#include "methods/noncausal.h"
#include "methods/room.h"

enum { BETA, CHUNK, COMPAT, LEV_CHUNK, RECENT, RIDGE, SINKS, SKETCH, VNORM };

static const struct kva_param params_table[] = {
    {.name = "beta",
     .help = "weight of the leverage; -1: the share that is removed",
     .type = KVA_PARAM_REAL,
     .def = 0.5,
     .def_block = 0.5,
     .min = -1,
     .max = 100},
    {.name = "chunk",
     .help = "tokens that see each other",
     .type = KVA_PARAM_INT,
     .def = 128,
     .def_block = 128,
     .min = 1,
     .max = 4096},
    {.name = "compat",
     .help = "1: the last chunk is filled up with zeros that take part, as in kvpress",
     .type = KVA_PARAM_INT,
     .max = 1},
    {.name = "lev_chunk",
     .help = "entries of one leverage; 0: all",
     .type = KVA_PARAM_INT,
     .def = 512,
     .def_block = 512,
     .max = 1 << 20},
    {.name = "recent",
     .help = "newest entries that always stay",
     .type = KVA_PARAM_INT,
     .def = 64,
     .def_block = 64,
     .max = 1 << 20},
    {.name = "ridge",
     .help = "added to the diagonal",
     .type = KVA_PARAM_REAL,
     .def = 5e-3,
     .def_block = 5e-3,
     .min = 1e-9,
     .max = 1e6},
    KVA_PARAM_SINKS(16),
    {.name = "sketch",
     .help = "columns of the random sketch",
     .type = KVA_PARAM_INT,
     .def = 48,
     .def_block = 48,
     .min = 1,
     .max = 512},
    {.name = "vnorm",
     .help = "1: attention times the norm of the value",
     .type = KVA_PARAM_INT,
     .max = 1},
    {.name = NULL},
};

static void collect(const struct kva_params *params, struct kva_collect *want)
{
    *want = (struct kva_collect){.kind = KVA_COLLECT_CHUNKS,
                                 .chunk = (int)params->value[CHUNK],
                                 .start = (int)params->value[SINKS],
                                 .pad = params->value[COMPAT] > 0};
}

/* Entries of KV head h that are not protected: [*first, *last) of its own. */
static void ordinary(const struct kva_layer_view *view, const struct kva_params *params,
                     int h, size_t *first, size_t *last)
{
    const int32_t *pos = view->pos + view->off[h];
    const int32_t recent = view->seen - (int32_t)params->value[RECENT];

    *first = 0;
    *last = view->off[h + 1] - view->off[h];
    while (*first < *last && pos[*first] < (int32_t)params->value[SINKS])
        ++*first;
    while (*last > *first && pos[*last - 1] >= recent)
        --*last;
}

static enum kva_status leverage(const struct kva_layer_view *view,
                                const struct kva_params *params, int h, const float *x,
                                size_t n, float *phi, float *s, struct kva_error *err)
{
    const size_t step =
        params->value[LEV_CHUNK] > 0 ? (size_t)params->value[LEV_CHUNK] : n;
    const int k = (int)params->value[SKETCH];

    kva_leverage_sketch(view->seed, view->layer, h, k, view->head_dim, phi);
    for (size_t at = 0; at < n; at += step)
        KVA_TRY(kva_leverage_rows(view->ops, view->scratch,
                                  x + at * (size_t)view->head_dim,
                                  n - at < step ? n - at : step, view->head_dim, phi, k,
                                  params->value[RIDGE], s + at, err));
    return KVA_OK;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    const size_t all = view->off[view->kv_heads], d = (size_t)view->head_dim;
    const double beta = params->value[BETA] < 0 ? 1 - view->keep : params->value[BETA];
    float *norm = kva_arena_alloc(view->scratch, all + 1, sizeof *norm);
    float *attention = kva_arena_alloc(view->scratch, all + 1, sizeof *attention);
    float *lever = kva_arena_alloc(view->scratch, all + 1, sizeof *lever);
    float *phi =
        kva_arena_alloc(view->scratch, (size_t)params->value[SKETCH] * d, sizeof *phi);
    const float *k = kva_room_read(view, view->k_raw);
    size_t used = 0, first, last;

    if (!norm || !attention || !lever || !phi || !k)
        return KVA_FAIL(err, KVA_ENOMEM, "compactor over %zu entries", all);
    if (params->value[VNORM] > 0)
        view->ops->row_norm(view->ops, view->v, norm);
    for (int h = 0; h < view->kv_heads; h++) {
        size_t at;

        ordinary(view, params, h, &first, &last);
        at = view->off[h] + first;
        kva_noncausal_rows(view->side + at, params->value[VNORM] > 0 ? norm + at : NULL,
                           last - first, attention + used);
        KVA_TRY(
            leverage(view, params, h, k + at * d, last - first, phi, lever + used, err));
        used += last - first;
    }
    kva_leverage_standard(attention, used);
    kva_leverage_standard(lever, used);
    used = 0;
    for (int h = 0; h < view->kv_heads; h++) {
        float *to = s + view->off[h];

        ordinary(view, params, h, &first, &last);
        for (size_t j = 0; j < view->off[h + 1] - view->off[h]; j++) {
            to[j] = 0; /* protected, not read */
            if (j < first || j >= last)
                continue;
            to[j] = (float)(beta * (double)lever[used] + (double)attention[used]);
            used++;
        }
    }
    return KVA_OK;
}

const struct kva_scorer kva_score_compactor = {
    .name = "compactor",
    .summary = "leverage of keys blended with attention inside chunks",
    .source = "Compactor, arXiv 2507.08143",
    .storage = "ragged; mask",
    .deviates = "The port ranks (token, head) pairs of a layer: compactor+adakv:alpha=0. "
                "One fixed sketch for each seed, layer and head where published code "
                "draws anew; kvpress's sums leave out the last protected entries, here "
                "they vote. Under a block schedule a chunk ends with its block and old "
                "entries keep their sums, not their z-scores.",
    .needs = KVA_NEEDS_VALUES | KVA_NEEDS_RAW_KEYS,
    .version = 1,
    .budget_dependent = true,
    .params = params_table,
    .collect = collect,
    .score = score,
};
