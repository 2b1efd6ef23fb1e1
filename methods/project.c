/* SPDX-License-Identifier: GPL-3.0-or-later */
/* project.c - mean norm of the projected values over the query heads of a group. */
#include "methods/project.h"

#include "methods/room.h"

enum kva_status kva_project_mean(const struct kva_layer_view *view, int norm, float *w,
                                 struct kva_error *err)
{
    int group = view->heads / view->kv_heads;
    size_t *off = kva_arena_alloc(view->scratch, (size_t)view->heads + 1, sizeof *off);
    size_t *n = kva_arena_alloc(view->scratch, (size_t)view->kv_heads, sizeof *n);
    struct kva_pool_heads mean = {.a_off = off,
                                  .heads = view->heads,
                                  .kv_heads = view->kv_heads,
                                  .off = view->off,
                                  .n = n,
                                  .kernel = 1};
    float *each;

    if (off == NULL || n == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "projected norms");
    for (int a = 0; a < view->heads; a++)
        off[a + 1] = off[a] + view->off[a / group + 1] - view->off[a / group];
    each = kva_room_floats(view, off[view->heads]);
    if (each == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "projected norms of %zu entries",
                        off[view->heads]);
    KVA_TRY(view->lend->project_norm(view->lend->ctx, view->layer, view->v, norm, off,
                                     each, err));
    for (int h = 0; h < view->kv_heads; h++)
        n[h] = view->off[h + 1] - view->off[h];
    mean.m = each;
    view->ops->pool_heads(view->ops, &mean, w);
    return KVA_OK;
}
