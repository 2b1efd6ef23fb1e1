/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topk.h - the entries that stay, on the device: exact, in any group of KV heads
 * (kernels.md 3.4f, 3.4g).
 *
 * The order is that of methods/rank.c: class (2 protected, 1 ordinary, 0 must go), score,
 * position, larger stays; over several KV heads the lower one is first among the rest.
 * It is one unsigned number of 64 bits: the score's bits made ascending (-0 as +0, a NaN
 * as -inf), all ones for class 2, 0 for class 0, above the position. Radix selection
 * finds the m-th largest: eight passes of 8 bits, the last four only where scores tie at
 * the cut. Positions decide, not slots, so unsorted cells need nothing else.
 *
 * First the cut and the counts of every cell (kva_dev_topk_cut), then their sums, then
 * the slots that stay, ascending. A cell is a KV head of a layer; a group is one cell
 * (uniform budgets), a layer (AdaKV) or everything (global). All pointers are device
 * memory; a launcher neither waits nor allocates. */
#ifndef KVA_CUDA_TOPK_H
#define KVA_CUDA_TOPK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kva_dev_scores { /* ragged: entry j of cell c at off[c] + j */
    const float *s;
    const int32_t *pos;  /* unique in a cell; NULL: j */
    const uint8_t *rank; /* class 0..2; NULL: all ordinary */
    const size_t *off;   /* [cells + 1] */
    int cells;
};

/* What of a cell stays: keys above (score, pos), and of equal ones `equal`. */
struct kva_cut_at {
    uint32_t score, pos;
    uint32_t equal, count;
};

/* Group g holds cells first[g] .. first[g + 1] - 1 (first NULL: cell g alone) and keeps
 * its m[g] best, all when it has no more. cut[cells]. */
void kva_dev_topk_cut(const struct kva_dev_scores *x, const int32_t *first, int groups,
                      const size_t *m, struct kva_cut_at *cut, void *stream);
/* to[cells + 1] */
void kva_dev_topk_offsets(const struct kva_cut_at *cut, int cells, size_t *to,
                          void *stream);
void kva_dev_topk_list(const struct kva_dev_scores *x, const struct kva_cut_at *cut,
                       const size_t *to, int32_t *slot, void *stream);
/* The entry that goes first: victim[cells], -1 where all are protected. */
void kva_dev_topk_victim(const struct kva_dev_scores *x, int32_t *victim, void *stream);

#ifdef __cplusplus
}
#endif
#endif
