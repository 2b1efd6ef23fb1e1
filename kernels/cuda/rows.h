/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rows.h - launchers of the row operations; device memory, no wait, no allocation. What
 * each computes is said in kernels.h. */
#ifndef KVA_CUDA_ROWS_H
#define KVA_CUDA_ROWS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void kva_dev_rmsnorm(const float *x, const float *w, float eps, int rows, int dim,
                     float *y, void *stream);
void kva_dev_rope_table(const int32_t *pos, int rows, const float *inv_freq, int half,
                        float mscale, float *cos_sin, void *stream);
void kva_dev_rope(float *x, int stride, int rows, int heads, int dim,
                  const float *cos_sin, int half, void *stream);
void kva_dev_silu_mul(const float *gate, const float *up, size_t n, float *y,
                      void *stream);
void kva_dev_add(float *x, const float *y, size_t n, void *stream);

/* Of each row: argmax (ties: lowest id; a NaN orders as -inf), finite, and -log softmax
 * at target where that is >= 0. target and nll may be NULL. */
void kva_dev_logits_stats(const float *logits, int n, int rows, const int32_t *target,
                          int32_t *argmax, double *nll, uint8_t *finite, void *stream);

/* Draws one id of each row. Of the ids by falling logit (equal: lowest id first) stay the
 * first top_k (0: all), of these the shortest run that holds top_p of their mass exp((l -
 * max) / temperature); the id drawn is where the mass of what stays, summed over
 * ascending ids, passes u[r] * total, u in [0, 1). Masses are multiples of 2^-32, so
 * sums are exact and no order changes the draw. temperature > 0. */
void kva_dev_sample(const float *logits, int n, int rows, float temperature, int top_k,
                    float top_p, const double *u, int32_t *id, void *stream);

#ifdef __cplusplus
}
#endif
#endif
