/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lukv.h - offline budget profiles: what each KV head may lose at each global share
 * removed (LU-KV, arXiv 2602.08585; analysis.md 5.3, methods.md 7).
 *
 * For one question and one KV head, `gain` is what an entry was worth to the answer
 * (oracle importance) and `score` how the scorer ranks it. In the order of the scorer the
 * gains are not monotone; their convex relaxation is. Entries are discarded one by one,
 * the one of least relaxed gain in the whole model first. */
#ifndef KVA_METHODS_LUKV_H
#define KVA_METHODS_LUKV_H

#include "methods/method.h"

#define KVA_LUKV_COLUMNS 99

/* Non-increasing isotonic regression, unit weights, by pooling adjacent violators: a
 * block is merged with the one before it while that one's mean is smaller. The running
 * sum of the result is the least concave majorant of that of `gain`. n may be 0; hull may
 * be gain. block: scratch of n. */
void kva_hull_gains(const double *gain, size_t n, size_t *block, double *hull);

/* Discards entries of all cells by ascending hull gain; equal: the lower cell first, in a
 * cell the last entry first, so that a started block is finished. Entry i of cell c is at
 * hull[off[c] + i]; the first least[c] of a cell are never discarded. left[t * cells +
 * c]: entries of the cell that stay when gone[t] are discarded, or all that may be;
 * gone[] ascends. */
enum kva_status kva_hull_discard(const double *hull, const size_t *off, int cells,
                                 const int *least, const uint64_t *gone, int targets,
                                 int *left, struct kva_error *err);

/* One question on one context, full attention. */
struct kva_lukv_question {
    int layers, kv_heads, tokens;
    const float *score; /* [layers * kv_heads][tokens], higher stays; the gains
                           themselves: the ablation without a gap */
    const float *gain;  /* [layers * kv_heads][tokens], not negative */
    int sinks, window;  /* of every KV head, always kept and never ranked */
};

/* The mean over questions of the shares removed, columns for (1 .. 99) / 100 removed from
 * the whole. A KV head never falls below max(round(tokens / 100), sinks + window); where
 * that stops everything the columns stay what they were. Scores rank as everywhere: equal
 * ones newest first. *out is of the kind "lukv", ready for kva_table_write; the caller
 * releases it. KVA_EINVALID: shapes differ, nothing to rank, a gain that is negative or
 * no number. */
enum kva_status kva_lukv_profile(const struct kva_lukv_question *q, int questions,
                                 struct kva_table *out, struct kva_error *err);

#endif
