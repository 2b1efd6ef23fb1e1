/* SPDX-License-Identifier: GPL-3.0-or-later */
/* window.c - attention of the last queries, the primitive under tova and snapkv. */
#include "methods/window.h"

#include "methods/room.h"

int kva_window_rows(const struct kva_layer_view *view, int window)
{
    int seen = view->nq > 0 ? view->q_pos[view->nq - 1] + 1 : 0, rows = window;

    if (rows > view->block_len)
        rows = view->block_len;
    if (seen <= rows)
        rows = seen / 2;
    if (rows > view->nq)
        rows = view->nq;
    return rows < 1 ? 1 : rows;
}

enum kva_status kva_window_attend(const struct kva_layer_view *view, int rows,
                                  bool follow, struct kva_window *w,
                                  struct kva_error *err)
{
    size_t *off = kva_arena_alloc(view->scratch, (size_t)view->heads + 1, sizeof *off);
    int group = view->heads / view->kv_heads, skip = view->nq - rows;
    size_t stride = (size_t)view->heads * (size_t)view->head_dim;
    float *m;

    if (off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "window attention");
    for (int a = 0; a < view->heads; a++)
        off[a + 1] = off[a] + view->off[a / group + 1] - view->off[a / group];
    m = follow ? kva_arena_alloc(view->scratch, off[view->heads], sizeof *m)
               : kva_room_floats(view, off[view->heads]);
    if (m == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "window attention over %zu entries",
                        off[view->heads]);
    view->ops->window_mean(view->ops, view->q + (size_t)skip * stride, view->q_pos + skip,
                           rows, view->heads, view->k, view->pos, view->scale, m, off);
    *w = (struct kva_window){.m = m, .off = off, .first_pos = view->q_pos[skip]};
    return KVA_OK;
}

struct kva_attend_rows kva_window_head(const struct kva_layer_view *view, int rows, int a)
{
    int skip = view->nq - rows, h = a / (view->heads / view->kv_heads);
    size_t dim = (size_t)view->head_dim, stride = (size_t)view->heads * dim;

    return (struct kva_attend_rows){
        .q = view->q + (size_t)skip * stride + (size_t)a * dim,
        .q_stride = stride,
        .q_pos = view->q_pos + skip,
        .nq = rows,
        .k = view->k->data + view->off[h] * dim,
        .k_pos = view->pos + view->off[h],
        .n = view->off[h + 1] - view->off[h],
        .dim = view->head_dim,
        .scale = view->scale,
    };
}

size_t kva_window_older(const struct kva_layer_view *view, int rows, int h)
{
    const int32_t *pos = view->pos + view->off[h];
    size_t held = view->off[h + 1] - view->off[h], n = 0;

    while (n < held && pos[n] < view->q_pos[view->nq - rows])
        n++;
    return n;
}

size_t kva_window_most(const struct kva_layer_view *view)
{
    size_t most = 0;

    for (int h = 0; h < view->kv_heads; h++)
        if (view->off[h + 1] - view->off[h] > most)
            most = view->off[h + 1] - view->off[h];
    return most;
}

void kva_window_protect(int rows, struct kva_protect *p)
{
    if (p->recent < rows)
        p->recent = rows;
}

void kva_window_pool(const double *x, size_t n, int kernel, bool max, double *out)
{
    size_t half = (size_t)kernel / 2;

    for (size_t j = 0; j < n; j++) {
        size_t begin = j < half ? 0 : j - half, end = j + half < n ? j + half + 1 : n;
        double best = x[begin], sum = 0;

        for (size_t i = begin; i < end; i++) {
            best = x[i] > best ? x[i] : best;
            sum += x[i];
        }
        out[j] = max ? best : sum / kernel;
    }
}
