/* SPDX-License-Identifier: GPL-3.0-or-later */
/* noncausal.h - internal to methods/: what the tokens of a chunk give each other when the
 * mask is left out (methods.md 6.6, compactor). */
#ifndef KVA_METHODS_NONCAUSAL_H
#define KVA_METHODS_NONCAUSAL_H

#include "methods/method.h"

/* s[j] = mean over three neighbours (zeros beyond the ends) of side[j], times ||v_j||_2
 * when `norm` is not NULL, for n entries of one KV head. */
void kva_noncausal_rows(const float *side, const float *norm, size_t n, float *s);

#endif
