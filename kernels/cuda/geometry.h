/* SPDX-License-Identifier: GPL-3.0-or-later */
/* geometry.h - what keys and values look like: lengths, means, distances, angles, moments
 * (kernels.md 3.3 #8, #9).
 *
 * Rows are ragged as in struct kva_rows: row j of head h at data + (off[h] + j) * dim.
 * All pointers are device memory. A launcher neither waits nor allocates. Sums run in
 * double, lanes first, then lanes pairwise, then parts of KVA_MEAN_PART rows ascending:
 * an order that depends on the shape alone. */
#ifndef KVA_CUDA_GEOMETRY_H
#define KVA_CUDA_GEOMETRY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kva_dev_rows {
    const float *data;
    const size_t *off; /* [heads + 1], on the device */
    int heads, dim;
    size_t most; /* rows of the longest head */
};

/* What row_measure writes at s[off[h] + j]. Distance and cosine compare with
 * c[heads][dim].
 */
enum kva_measure { KVA_NORM2, KVA_NORM1, KVA_DISTANCE, KVA_COSINE };
void kva_dev_row_measure(const struct kva_dev_rows *x, enum kva_measure what,
                         const float *c, float *s, void *stream);

/* mean[h][dim] of the rows, or with `unit` of the rows over their norms (a zero row
 * counts as zero). part: kva_dev_row_mean_scratch bytes. */
#define KVA_MEAN_PART 256
size_t kva_dev_row_mean_scratch(const struct kva_dev_rows *x);
void kva_dev_row_mean(const struct kva_dev_rows *x, int unit, void *part, float *mean,
                      void *stream);

/* Adds rows (row r, head h at x + r * stride + h * dim) to sum[heads][dim] and their
 * products to the lower triangles of square[heads][dim][dim], rows ascending: a product
 * of two floats is exact in double, so these are the bits of the CPU. */
void kva_dev_row_moments(const float *x, size_t stride, int rows, int heads, int dim,
                         double *sum, double *square, void *stream);

#ifdef __cplusplus
}
#endif
#endif
