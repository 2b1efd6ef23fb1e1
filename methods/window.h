/* SPDX-License-Identifier: GPL-3.0-or-later */
/* window.h - internal to methods/: attention of the last queries (methods.md 6.0). */
#ifndef KVA_METHODS_WINDOW_H
#define KVA_METHODS_WINDOW_H

#include "methods/method.h"

/* Window rows a decision uses: `window`, no more than the last block and what the session
 * has, which is a query at least; a context not longer than that uses half of its tokens,
 * at least one (methods.md 3.10). */
int kva_window_rows(const struct kva_layer_view *view, int window);

/* Mean over the last `rows` queries of their attention weights, per query head over the
 * entries of its own KV head. Softmax runs over all visible entries, those of the window
 * included. */
struct kva_window {
    const float *m;    /* weights of query head a: m[off[a] .. off[a + 1]) */
    const size_t *off; /* [heads + 1] */
    int32_t first_pos; /* position of the oldest query used: entries from here on are the
                          window */
};
/* `follow`: the method reads m itself; else it is the backend's memory (room.h). The rest
 * from view->scratch. */
enum kva_status kva_window_attend(const struct kva_layer_view *view, int rows,
                                  bool follow, struct kva_window *w,
                                  struct kva_error *err);
/* Row by row: the last `rows` queries of query head a against the entries of its KV head,
 * for ops->attend_rows. What is wanted of it (w, z, v and o) is for the caller to set. */
struct kva_attend_rows kva_window_head(const struct kva_layer_view *view, int rows,
                                       int a);
/* Entries of KV head h older than the last `rows` queries: those that compete. */
size_t kva_window_older(const struct kva_layer_view *view, int rows, int h);
/* The most entries of a KV head. */
size_t kva_window_most(const struct kva_layer_view *view);
/* Protects the window's own entries. */
void kva_window_protect(int rows, struct kva_protect *p);
#define KVA_PARAM_WINDOW(n)                                                              \
    {                                                                                    \
        .name = "window", .help = "last queries that vote; their entries always stay",   \
        .type = KVA_PARAM_INT, .def = (n), .def_block = (n), .min = 1, .max = 4096       \
    }
#define KVA_PARAM_KERNEL(n)                                                              \
    {                                                                                    \
        .name = "kernel", .help = "width of the pooling, odd", .type = KVA_PARAM_INT,    \
        .def = (n), .def_block = (n), .min = 1, .max = 255, .odd = true                  \
    }
/* Centred pooling of x[n] with an odd kernel into out[n]: the mean, zeros counted beyond
 * the ends, or the maximum of what exists. */
void kva_window_pool(const double *x, size_t n, int kernel, bool max, double *out);

#endif
