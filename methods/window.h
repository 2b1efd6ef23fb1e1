/* SPDX-License-Identifier: GPL-3.0-or-later */
/* window.h - internal to methods/: attention of the last queries (methods.md 6.0). */
#ifndef KVA_METHODS_WINDOW_H
#define KVA_METHODS_WINDOW_H

#include "methods/method.h"

/* Window rows a decision uses: `window`, no more than the last block and what the session
 * has; a context not longer than that uses half of its tokens, at least one
 * (methods.md 3.10). */
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
/* Memory from view->scratch. KVA_EINVALID when the view has fewer queries. */
enum kva_status kva_window_attend(const struct kva_layer_view *view, int rows,
                                  struct kva_window *w, struct kva_error *err);
/* Centred pooling of x[n] with an odd kernel into out[n]: the mean, zeros counted beyond
 * the ends, or the maximum of what exists. */
void kva_window_pool(const double *x, size_t n, int kernel, bool max, double *out);

#endif
