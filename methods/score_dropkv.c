/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_dropkv.c - the exact change of each row's output when one entry goes.
 *
 *     s_j = sum over the window rows i and the group's heads a of
 *           (A / (1 - A))^2 || v_j - o_i ||^2
 *
 * The score of caote squared, row by row instead of on the mean of the rows. An entry
 * with all of a row's weight leaves nothing behind: the largest float. */
#include "methods/method.h"

#include <float.h>

#include "methods/outputs.h"
#include "methods/window.h"

enum { KERNEL, RECENT, SINKS, WINDOW };

static const struct kva_param params_table[] = {
    KVA_PARAM_KERNEL(1),  KVA_PARAM_RECENT, KVA_PARAM_SINKS(0),
    KVA_PARAM_WINDOW(32), {.name = NULL},
};

static int window(const struct kva_params *params)
{
    return (int)params->value[WINDOW];
}

static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    kva_window_protect(kva_window_rows(view, window(params)), p);
}

static double term(const struct kva_output *e)
{
    double rest = 1 - e->a;

    return rest > 0 ? e->a / rest * (e->a / rest) * e->dd : (double)FLT_MAX;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    return kva_output_scores(view, kva_window_rows(view, window(params)),
                             (int)params->value[KERNEL], term, s, err);
}

const struct kva_scorer kva_score_dropkv = {
    .name = "dropkv",
    .summary = "exact change of the window's outputs when one entry goes",
    .source = "DropKV, kvpress pull request 284",
    .storage = "uniform",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_VALUES | KVA_NEEDS_QUERIES,
    .version = 1,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .window = window,
    .protect = protect,
    .score = score,
};
