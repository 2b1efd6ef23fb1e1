/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pool.h - attention of query heads made scores of KV heads: struct kva_pool_heads
 * (kernels.h) on the device, with the CPU's sums: equal weights give equal bits. */
#ifndef KVA_CUDA_POOL_H
#define KVA_CUDA_POOL_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_POOL_WIDTH 255 /* the widest kernel */

struct kva_dev_pool { /* as struct kva_pool_heads, lists on the device */
    const float *m;
    const size_t *a_off, *off, *n;
    int heads, kv_heads;
    size_t most; /* the longest off[h + 1] - off[h] */
    int kernel;  /* odd, 1 .. KVA_POOL_WIDTH */
    bool max, before;
};
/* All pointers are device memory; the launcher neither waits nor allocates. */
void kva_dev_pool_heads(const struct kva_dev_pool *p, float *s, void *stream);

#ifdef __cplusplus
}
#endif
#endif
