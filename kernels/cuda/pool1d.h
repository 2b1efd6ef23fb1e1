/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pool1d.h - centred pooling over the neighbours of an entry, as methods/window.c has it:
 * the mean with zeros beyond the ends, or the maximum of what is there. */
#ifndef KVA_CUDA_POOL1D_H
#define KVA_CUDA_POOL1D_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_POOL_WIDTH 1025 /* the widest kernel */

/* y like x, ragged: entry j of cell c at off[c] + j; x and y apart. kernel odd, from 1 to
 * KVA_POOL_WIDTH. most: the longest cell. Device memory. */
void kva_dev_pool1d(const float *x, const size_t *off, int cells, size_t most, int kernel,
                    bool max, float *y, void *stream);

#ifdef __cplusplus
}
#endif
#endif
