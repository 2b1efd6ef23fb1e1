/* SPDX-License-Identifier: GPL-3.0-or-later */
/* project.c - mean norm of the projected values over the query heads of a group. */
#include "methods/project.h"

enum kva_status kva_project_mean(const struct kva_layer_view *view, int norm, float *w,
                                 struct kva_error *err)
{
    int group = view->heads / view->kv_heads;
    size_t *off = kva_arena_alloc(view->scratch, (size_t)view->heads + 1, sizeof *off);
    float *each;

    if (off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "projected norms");
    for (int a = 0; a < view->heads; a++)
        off[a + 1] = off[a] + view->off[a / group + 1] - view->off[a / group];
    each = kva_arena_alloc(view->scratch, off[view->heads], sizeof *each);
    if (each == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "projected norms of %zu entries",
                        off[view->heads]);
    KVA_TRY(view->lend->project_norm(view->lend->ctx, view->layer, view->v, norm, off,
                                     each, err));
    for (int h = 0; h < view->kv_heads; h++) {
        size_t n = view->off[h + 1] - view->off[h];

        for (size_t j = 0; j < n; j++) {
            double sum = 0;

            for (int a = h * group; a < (h + 1) * group; a++)
                sum += (double)each[off[a] + j];
            w[view->off[h] + j] = (float)(sum / group);
        }
    }
    return KVA_OK;
}
