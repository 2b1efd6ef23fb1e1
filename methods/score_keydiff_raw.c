/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_keydiff_raw.c - keydiff with an anchor of keys as they are.
 *
 *     anchor = mean of k_j                  per KV head, over the entries held now
 *     s_j    = -cos(k_j, anchor)            a zero key has cosine 0
 *
 * Long keys pull this anchor, and the order differs from keydiff's (methods.md 12, E2).
 */
#include "methods/keydiff.h"

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    (void)params;
    return kva_keydiff_score(view, 0, s, err);
}

const struct kva_scorer kva_score_keydiff_raw = {
    .name = "keydiff_raw",
    .summary = "keydiff with the mean of keys that are not normalised first",
    .source = "variant of KeyDiff, arXiv 2504.15364",
    .storage = "ours",
    .needs = KVA_NEEDS_KEYS,
    .version = 1,
    .params = params_table,
    .score = score,
    .by_ops = true,
    .each = kva_negative,
};
