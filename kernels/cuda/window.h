/* SPDX-License-Identifier: GPL-3.0-or-later */
/* window.h - attention weights of a few query rows over gathered keys (kernels.md 3.3 #7,
 * 3.4d), without a matrix in memory unless it is what was asked for.
 *
 *     z[i][j] = scale * q_i.k_j,   w[i][j] = softmax_j(z[i]) over k_pos[j] <= q_pos[i]
 *
 * Two passes: first the maximum and the sum of every row, by parts of KVA_WINDOW_PART
 * keys combined in order, then the weights from the logits computed again. All pointers
 * are device memory; a launcher neither waits nor allocates. */
#ifndef KVA_CUDA_WINDOW_H
#define KVA_CUDA_WINDOW_H

#include "kernels/cuda/geometry.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_WINDOW_PART 1024

struct kva_dev_window {
    const float *q; /* row i of query head a at q + i * q_stride + a * dim */
    size_t q_stride;
    const int32_t *q_pos; /* [nq]; NULL with k_pos NULL: all is visible */
    int nq, heads;        /* heads = group * k.heads */
    struct kva_dev_rows k;
    const int32_t *k_pos; /* ragged like k */
    float scale;
    const size_t *a_off; /* [heads], where a query head's results begin, in entries */
    const float *by;     /* max: factor of each row; NULL: 1 */
};

enum kva_window_what {
    KVA_WINDOW_MEAN, /* out[a_off[a] + j] = mean over the rows */
    KVA_WINDOW_MAX,  /* out[a_off[a] + j] = max over the rows of by[i] w[i][j] */
    KVA_WINDOW_ROWS, /* out[nq * a_off[a] + i * n_a + j] = w[i][j] */
};
size_t kva_dev_window_scratch(const struct kva_dev_window *w);
/* z: of ROWS, the logits in the layout of the weights, 0 where not visible; NULL: not
 * wanted. out NULL: only z. */
void kva_dev_window(const struct kva_dev_window *w, enum kva_window_what what,
                    void *scratch, float *out, float *z, void *stream);

/* o[nq][v_dim] = w[nq][n] v[n][v_dim], by parts of KVA_WINDOW_PART entries added in
 * order.
 */
size_t kva_dev_window_values_scratch(int nq, size_t n, int v_dim);
void kva_dev_window_values(const float *w, int nq, size_t n, const float *v, int v_dim,
                           void *scratch, float *o, void *stream);

#ifdef __cplusplus
}
#endif
#endif
