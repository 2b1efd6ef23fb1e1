/* SPDX-License-Identifier: GPL-3.0-or-later */
/* room.c - arrays of a layer in the backend's memory, used again for the next layer. */
#include "methods/room.h"

void kva_room_reset(struct kva_room *room)
{
    room->used = 0;
}

static void drop(struct kva_room *room, struct kva_room_array *a)
{
    room->ops->release(room->ops, a->p, KVA_MEM_DEVICE);
    room->bytes -= a->bytes;
    *a = (struct kva_room_array){0};
}

void kva_room_release(struct kva_room *room)
{
    for (int i = 0; i < KVA_ROOM_ARRAYS; i++)
        if (room->array[i].p != NULL)
            drop(room, &room->array[i]);
    room->used = 0;
}

static float *take(struct kva_room *room, size_t bytes)
{
    struct kva_room_array *a;

    if (room->used == KVA_ROOM_ARRAYS)
        return NULL;
    a = &room->array[room->used++];
    if (a->p != NULL && a->bytes < bytes)
        drop(room, a);
    if (a->p == NULL) {
        a->p = room->ops->alloc(room->ops, bytes, KVA_MEM_DEVICE);
        if (a->p == NULL)
            return NULL;
        a->bytes = bytes;
        room->bytes += bytes;
        room->most = room->bytes > room->most ? room->bytes : room->most;
    }
    return a->p;
}

float *kva_room_floats(const struct kva_layer_view *view, size_t n)
{
    if (view->room == NULL)
        return kva_arena_alloc(view->scratch, n, sizeof(float));
    return take(view->room, n * sizeof(float));
}

static const float *read_floats(const struct kva_layer_view *view, const float *x,
                                size_t n)
{
    float *copy;

    if (view->room == NULL)
        return x;
    copy = kva_arena_alloc(view->scratch, n, sizeof *copy);
    if (copy != NULL)
        view->ops->copy(view->ops, copy, x, n * sizeof *copy);
    return copy;
}

const float *kva_room_read(const struct kva_layer_view *view, const struct kva_rows *rows)
{
    return read_floats(view, rows->data, rows->off[rows->heads] * (size_t)rows->dim);
}

const float *kva_room_queries(const struct kva_layer_view *view, int rows)
{
    const size_t width = (size_t)view->heads * (size_t)view->head_dim;

    return read_floats(view, view->q + (size_t)(view->nq - rows) * width,
                       (size_t)rows * width);
}
