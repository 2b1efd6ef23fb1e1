/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lt.h - large products by a library: cuBLASLt (lt_cuda.c), plain loops in the tests.
 *
 * One algorithm for each (m, k, operands), chosen once and used for every number of rows,
 * among those that sum an output's inputs in one piece. It need not take every number:
 * rows come in whole buckets of KVA_LT_ROWS, at most KVA_LT_MOST at a time, at aligned
 * addresses, and the caller fills up (kernels.md 3.2). So where a context is cut into
 * calls, and how long it is, changes no bit.
 *
 * 64 rows: the least tile height that the library offers for every type in use, so it
 * asks for no algorithm that only few rows would have; what the zeros of a last bucket
 * cost is less than reading the weights once, which any number of rows does. */
#ifndef KVA_CUDA_LT_H
#define KVA_CUDA_LT_H

#include "kva.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_LT_ROWS  64
#define KVA_LT_MOST  4096 /* a multiple of it */
#define KVA_LT_ALIGN 16   /* bytes; of w, x and y */

struct kva_lt;

enum kva_status kva_lt_open(struct kva_lt **lt, struct kva_error *err);
void kva_lt_close(struct kva_lt *lt); /* NULL allowed */
/* What a product may use beside its operands, and how many bytes of weights should be
 * unpacked at a time. */
size_t kva_lt_workspace(const struct kva_lt *lt);
size_t kva_lt_slab(const struct kva_lt *lt);
/* One line a choice: "m 4096 k 4096 bf16: algorithm 66 tile 21 stages 0 ...". Grows. */
const char *kva_lt_choices(const struct kva_lt *lt);

/* y[j][i] = sum_l x[j][l] w[i][l]; i < m, j < n, l < k; n buckets; rows of w `w_stride`
 * elements apart, of x `x_stride`, of y `y_stride`; w and x both f32 or both bf16, sums
 * and y f32. Does not wait. KVA_EINVALID: rows or addresses that are not as said above.
 */
struct kva_lt_product {
    int m, n, k;
    bool bf16;
    const void *w, *x;
    float *y;
    int w_stride, x_stride, y_stride;
    void *workspace;
};
static inline enum kva_status kva_lt_check(const struct kva_lt_product *p,
                                           struct kva_error *err)
{
    if (p->n < 1 || p->n % KVA_LT_ROWS != 0 || p->n > KVA_LT_MOST ||
        ((uintptr_t)p->w | (uintptr_t)p->x | (uintptr_t)p->y) % KVA_LT_ALIGN != 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "a product of %d rows at addresses %p, %p, %p: not in buckets of "
                        "%d, or not aligned",
                        p->n, p->w, p->x, (void *)p->y, KVA_LT_ROWS);
    return KVA_OK;
}
enum kva_status kva_lt_product(struct kva_lt *lt, const struct kva_lt_product *p,
                               void *stream, struct kva_error *err);

#ifdef __cplusplus
}
#endif
#endif
