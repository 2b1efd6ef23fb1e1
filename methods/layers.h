/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layers.h - internal to methods/: real shares of a total become integers, over layers or
 * KV heads (methods.md 3 and 7). */
#ifndef KVA_METHODS_LAYERS_H
#define KVA_METHODS_LAYERS_H

#include "methods/method.h"

/* Tokens of the prompt: as announced, else those read so far. Budgets that are fixed once
 * for a prompt (methods.md 4.6) follow from it. */
int32_t kva_alloc_tokens(const struct kva_alloc_in *in);
/* Entries held by each kvhead, [C]; the caller frees. NULL: out of memory. */
int *kva_alloc_held(const struct kva_alloc_in *in);

/* Brings budgets within 1 .. n whose sum is near `total` to it exactly: what is missing
 * goes one by one to those with room, the lower first; what is too much is taken one by
 * one, the higher first. */
void kva_alloc_settle(uint64_t total, const int *n, int cells, int *b);

/* As kva_budget_shares, and nobody is left with nothing: a share below one entry becomes
 * one, the others divide the rest. total >= n, lo >= 0, hi >= 1. */
enum kva_status kva_alloc_shares(const double *weight, uint64_t total, const int *lo,
                                 const int *hi, int n, int *b, struct kva_error *err);

/* Shares of layers, the same in every KV head of a layer: `base` entries a KV head ahead,
 * the rest of in->total in proportion to weight[layers]. What a KV head cannot hold stays
 * in its layer while that has room; a remainder below the number of KV heads goes to the
 * lower ones. b[C] sums to the total exactly. When the bases alone exceed the total every
 * kvhead gets its uniform share and *in->fallback is set. */
enum kva_status kva_alloc_layers(const struct kva_alloc_in *in, const double *weight,
                                 int base, int *b, struct kva_error *err);

#endif
