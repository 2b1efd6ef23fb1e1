/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lt.h - large products by a library: cuBLASLt (lt_cuda.c), plain loops in the tests.
 *
 * One algorithm for each (m, k, operands), chosen once for 512 rows and used for every
 * number of rows, among those that sum an output's inputs in one piece. So where a
 * context is cut into calls, and how long it is, changes no bit. */
#ifndef KVA_CUDA_LT_H
#define KVA_CUDA_LT_H

#include "kva.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kva_lt;

enum kva_status kva_lt_open(struct kva_lt **lt, struct kva_error *err);
void kva_lt_close(struct kva_lt *lt); /* NULL allowed */
/* What a product may use beside its operands, and how many bytes of weights should be
 * unpacked at a time. */
size_t kva_lt_workspace(const struct kva_lt *lt);
size_t kva_lt_slab(const struct kva_lt *lt);
/* One line a choice: "m 4096 k 4096 bf16: algorithm 66 tile 21 stages 0 ...". Grows. */
const char *kva_lt_choices(const struct kva_lt *lt);

/* y[j][i] = sum_l x[j][l] w[i][l]; i < m, j < n, l < k; rows of w `w_stride` elements
 * apart, of x `x_stride`, of y `y_stride`; w and x both f32 or both bf16, sums and y f32.
 * Does not wait. */
struct kva_lt_product {
    int m, n, k;
    bool bf16;
    const void *w, *x;
    float *y;
    int w_stride, x_stride, y_stride;
    void *workspace;
};
enum kva_status kva_lt_product(struct kva_lt *lt, const struct kva_lt_product *p,
                               void *stream, struct kva_error *err);

#ifdef __cplusplus
}
#endif
#endif
