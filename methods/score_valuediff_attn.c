/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_valuediff_attn.c - valuediff weighed by the attention of the last queries.
 *
 *     a_j = mean over the W' last queries and the group of A_j, normalised to sum 1
 *     s_j = a_j / (1 - a_j) * || v_j - mean(v) ||_2        per KV head
 *
 * Softmax and mean run over all entries held, window included; the W' entries of the
 * window (window.h), which later queries could not judge, are protected. An entry with
 * all the weight stays above everything finite. This is FastCAOTE on unpooled window
 * attention; the ValueDiff paper reports the weights as harmful. */
#include "methods/room.h"
#include "methods/window.h"

#include <float.h>

enum { RECENT, SINKS, WINDOW };

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = "window",
     .help = "last queries that vote; their entries always stay",
     .type = KVA_PARAM_INT,
     .def = 64,
     .def_block = 64,
     .min = 1,
     .max = 4096},
    {.name = NULL},
};

static int window(const struct kva_params *params)
{
    return (int)params->value[WINDOW];
}

static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    int rows = kva_window_rows(view, window(params));

    if (p->recent < rows)
        p->recent = rows;
}

/* s of one KV head holds the distances; `weight` is scratch of n. */
static void weigh(const struct kva_window *w, int a0, int group, size_t n, double *weight,
                  float *s)
{
    double total = 0;

    for (size_t j = 0; j < n; j++) {
        weight[j] = 0;
        for (int a = a0; a < a0 + group; a++)
            weight[j] += (double)w->m[w->off[a] + j];
        total += weight[j];
    }
    for (size_t j = 0; j < n; j++) {
        double rest = total - weight[j], c = (double)FLT_MAX;

        if (rest > 0)
            c = weight[j] / rest * (double)s[j];
        s[j] = c > (double)FLT_MAX ? FLT_MAX : (float)c; /* NaN stays NaN */
    }
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    size_t n = view->off[view->kv_heads], heads = (size_t)view->kv_heads;
    float *mean = kva_room_floats(view, heads * (size_t)view->v_dim);
    double *weight = kva_arena_alloc(view->scratch, n, sizeof *weight);
    int group = view->heads / view->kv_heads;
    struct kva_window w;

    if (mean == NULL || weight == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "valuediff_attn of %zu entries", n);
    KVA_TRY(
        kva_window_attend(view, kva_window_rows(view, window(params)), true, &w, err));
    view->ops->row_mean(view->ops, view->v, 0, mean);
    view->ops->row_distance(view->ops, view->v, mean, s);
    for (int h = 0; h < view->kv_heads; h++)
        weigh(&w, h * group, group, view->off[h + 1] - view->off[h], weight,
              s + view->off[h]);
    return KVA_OK;
}

const struct kva_scorer kva_score_valuediff_attn = {
    .name = "valuediff_attn",
    .summary = "valuediff weighed by the attention of the last queries",
    .source = "ValueDiff, attention-weighted variant; CAOTE, arXiv 2504.14051",
    .storage = "ours",
    .deviates = "The paper does not say which attention it weighs with; "
                "here it is the mean of the last window of queries, "
                "unpooled, and the window stays.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_VALUES | KVA_NEEDS_QUERIES,
    .version = 1,
    .nonneg = true,
    .params = params_table,
    .window = window,
    .protect = protect,
    .score = score,
};
