/* SPDX-License-Identifier: GPL-3.0-or-later */
/* columns.c - column sums of the attention, as collected, turned into scores. */
#include "methods/columns.h"

const char *const kva_columns_reduce_names[] = {"sum", "mean", NULL};

enum kva_status kva_columns_score(const struct kva_layer_view *view, bool mean,
                                  bool viewers, float *s, struct kva_error *err)
{
    int group = view->heads / view->kv_heads;

    for (size_t j = 0; j < view->off[view->kv_heads]; j++) {
        double x = (double)view->side[j];

        if (mean)
            x /= group;
        if (viewers) {
            if (view->seen <= view->pos[j])
                return KVA_FAIL(err, KVA_EINVALID,
                                "an entry at position %d after %d tokens", view->pos[j],
                                view->seen);
            x /= view->seen - view->pos[j];
        }
        s[j] = (float)x;
    }
    return KVA_OK;
}
