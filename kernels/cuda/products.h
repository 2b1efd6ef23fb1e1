/* SPDX-License-Identifier: GPL-3.0-or-later */
/* products.h - launchers over weights; device memory, no wait, no allocation. */
#ifndef KVA_CUDA_PRODUCTS_H
#define KVA_CUDA_PRODUCTS_H

#include "kernels/cuda/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[r][o] = sum_i x[r][i] W[o][i], in f32, y row stride `y_stride`. One order of the sum
 * for every number of rows and for each row of them: the inputs of a lane ascend, then
 * the eight lanes of a chunk by a tree, then four sets of chunks in turn. */
void kva_dev_skinny(const struct kva_dev_weight *w, const float *x, int rows, float *y,
                    int y_stride, void *stream);
/* x[r] = scale * W[ids[r]] */
void kva_dev_embed(const struct kva_dev_weight *w, const int32_t *ids, int rows,
                   float scale, float *x, void *stream);
/* Rows row0 .. row0+rows-1, exact: to f32 [rows][in], or rounded to bf16. */
void kva_dev_dequant(const struct kva_dev_weight *w, int row0, int rows, float *to,
                     void *stream);
void kva_dev_dequant_bf16(const struct kva_dev_weight *w, int row0, int rows,
                          uint16_t *to, void *stream);
/* What the table's weights hold (cuda_products.c). */
const struct kva_dev_weight *kva_cuda_weight(const struct kva_weight *w);
/* n floats, then zeros up to `total`: to bf16 (nearest even), or as they are. */
void kva_dev_to_bf16(const float *x, size_t n, size_t total, uint16_t *y, void *stream);
void kva_dev_pad(const float *x, size_t n, size_t total, float *y, void *stream);
/* `width` floats of each row, in x and y `stride` apart. */
void kva_dev_put_rows(const float *x, int rows, int width, int stride, float *y,
                      void *stream);

#ifdef __cplusplus
}
#endif
#endif
