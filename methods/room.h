/* SPDX-License-Identifier: GPL-3.0-or-later */
/* room.h - internal to methods/: arrays of one layer in the backend's memory, which only
 * functions of the table follow: rows of keys and values, weights on their way to scores.
 *
 * Where all memory is the host's, view->room is NULL and they are pieces of the arena. On
 * a device the i-th array of a layer lies where the i-th of the layer before lay, if it
 * fits there, so that a decision asks the device for memory a few times in all. */
#ifndef KVA_METHODS_ROOM_H
#define KVA_METHODS_ROOM_H

#include "methods/method.h"

#define KVA_ROOM_ARRAYS 8 /* of one layer */

struct kva_room {
    struct kva_ops *ops;
    struct kva_room_array {
        float *p;
        size_t bytes;
    } array[KVA_ROOM_ARRAYS];
    int used;             /* since the reset */
    uint64_t bytes, most; /* held now, and ever: part of a decision's scratch */
};

void kva_room_reset(struct kva_room *room); /* for the next layer */
void kva_room_release(struct kva_room *room);

/* n floats that die with what view->scratch gives. Content unspecified. NULL: no memory.
 */
float *kva_room_floats(const struct kva_layer_view *view, size_t n);
/* The numbers of view->k, v or k_raw where the method may follow them itself: in their
 * place, or copied to view->scratch. NULL: no memory. KVA_NEEDS_HOST is for a method that
 * follows all it reads. */
const float *kva_room_read(const struct kva_layer_view *view,
                           const struct kva_rows *rows);
/* The last `rows` of view->q, likewise. */
const float *kva_room_queries(const struct kva_layer_view *view, int rows);

#endif
