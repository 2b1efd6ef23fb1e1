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

const float *kva_room_read(const struct kva_layer_view *view, const struct kva_rows *rows)
{
    size_t n = rows->off[rows->heads] * (size_t)rows->dim;
    float *copy;

    if (view->room == NULL)
        return rows->data;
    copy = kva_arena_alloc(view->scratch, n, sizeof *copy);
    if (copy != NULL)
        view->ops->copy(view->ops, copy, rows->data, n * sizeof *copy);
    return copy;
}
