/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_keydiff.c - keep keys that point away from the others.
 *
 *     anchor = mean of k_j / ||k_j||        per KV head, over the entries held now
 *     s_j    = -cos(k_j, anchor)            a zero key has cosine 0
 *
 * The anchor is taken over everything held, never over the newest block alone. */
#include "methods/keydiff.h"

#include "methods/room.h"

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

enum kva_status kva_keydiff_score(const struct kva_layer_view *view, int unit, float *s,
                                  struct kva_error *err)
{
    size_t dim = (size_t)view->head_dim;
    float *anchor = kva_room_floats(view, (size_t)view->kv_heads * dim);

    if (anchor == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "keydiff anchors");
    view->ops->row_mean(view->ops, view->k, unit, anchor);
    view->ops->row_cosine(view->ops, view->k, anchor, s);
    return KVA_OK;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    (void)params;
    return kva_keydiff_score(view, 1, s, err);
}

const struct kva_scorer kva_score_keydiff = {
    .name = "keydiff",
    .summary = "keys that point away from the mean direction stay",
    .source = "KeyDiff, arXiv 2504.15364",
    .storage = "uniform",
    .deviates = "The anchor runs over everything held, not over the newest "
                "block as in a vLLM port. Equal scores keep the newer entry.",
    .needs = KVA_NEEDS_KEYS,
    .version = 1,
    .params = params_table,
    .score = score,
    .by_ops = true,
    .each = kva_negative,
};
