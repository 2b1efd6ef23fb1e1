/* SPDX-License-Identifier: GPL-3.0-or-later */
/* leverage.h - internal to methods/: approximate statistical leverage (methods.md 6.3).
 *
 *     Y = (X - mean X) Phi           X [n][dim], Phi dim x k
 *     s_j = y_j' (Y'Y + ridge I)^-1 y_j = || L^-1 y_j ||^2,   L L' = Y'Y + ridge I
 *
 * How far a row stands out of the directions the others span. Never negative; their sum
 * is at most k. */
#ifndef KVA_METHODS_LEVERAGE_H
#define KVA_METHODS_LEVERAGE_H

#include "methods/method.h"

/* Phi transposed, phi[k][dim], entries N(0, 1/k): one fixed draw for each (seed, layer,
 * head), so that a decision can be repeated. */
void kva_leverage_sketch(uint64_t seed, int layer, int head, int k, int dim, float *phi);
/* Leverage of x[n][dim] under phi[k][dim], to s[n]. Scratch from `arena`. Rows that are
 * not finite make every s NaN. */
enum kva_status kva_leverage_rows(struct kva_ops *ops, struct kva_arena *arena,
                                  const float *x, size_t n, int dim, const float *phi,
                                  int k, double ridge, float *s, struct kva_error *err);
/* s becomes (s - mean) / max(deviation, 1e-6); the deviation divides by n - 1. */
void kva_leverage_standard(float *s, size_t n);

#endif
