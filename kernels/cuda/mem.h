/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem.h - launchers of mem.cu: rows gathered and scattered. */
#ifndef KVA_CUDA_MEM_H
#define KVA_CUDA_MEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y[j] = x[row[j]] and y[row[j]] = x[j], rows of `width` floats; all device memory. */
void kva_rows_gather(const float *x, size_t width, const int32_t *row, int m, float *y,
                     void *stream);
void kva_rows_scatter(const float *x, size_t width, const int32_t *row, int m, float *y,
                      void *stream);

#ifdef __cplusplus
}
#endif
#endif
