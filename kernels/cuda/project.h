/* SPDX-License-Identifier: GPL-3.0-or-later */
/* project.h - norms of projected values, || W^a v_j ||_1 or _2 for each query head a and
 * each entry j of its KV head (kernels.md 3.4e), without the n x heads x out numbers that
 * a projection in memory would take. The Euclidean norm goes through a factor: with R'R =
 * W^a' W^a it is || R v ||, out / dim times cheaper. All pointers are device memory; a
 * launcher neither waits nor allocates. */
#ifndef KVA_CUDA_PROJECT_H
#define KVA_CUDA_PROJECT_H

#include "kernels/cuda/geometry.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_PROJECT_DIM 1024 /* the most dims a value may have */

struct kva_dev_project {
    struct kva_dev_rows v;
    int heads; /* group * v.heads */
    /* row o of W^a at w + a * w_head + o * w_stride, v.dim floats. An output projection
     * [out][heads * dim] has w_head = dim, w_stride = heads * dim. */
    const float *w;
    size_t w_head, w_stride;
    int out;
    const size_t *a_off; /* [heads]: result j of head a at a_off[a] + j */
    /* W may come in slabs of outputs: all but the first add to s, which until the last
     * holds sums. */
    bool more_before, more_after;
};
/* norm 1 or 2; v.dim <= KVA_PROJECT_DIM */
void kva_dev_project(const struct kva_dev_project *p, int norm, float *s, void *stream);

/* R[heads][dim][dim], upper triangular with R'R = G, from the lower triangles of
 * g[heads][dim][dim] (kva_dev_row_moments of the rows of W), which are used up. A
 * direction without length gives a row of zeros. */
void kva_dev_factor(double *g, int heads, int dim, float *r, void *stream);

#ifdef __cplusplus
}
#endif
#endif
