/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topk.h - the entries that stay, on the device: exact, per KV head and over many of them
 * (kernels.md 3.4f, 3.4g).
 *
 * The order is that of methods/rank.c: score, then position, larger stays; over several
 * cells (KV heads) the lower one is first among the rest. Score and position are one
 * unsigned number of 64 bits: the score's bits made ascending (-0 as +0, a NaN as -inf)
 * above the position. Radix selection finds the one where the count from above reaches
 * what is wanted: six digits of 11, 11 and 10 bits twice, the last three only where
 * scores tie at the cut. Protected entries never compete.
 *
 * All pointers are device memory; a launcher neither waits nor allocates. */
#ifndef KVA_CUDA_TOPK_H
#define KVA_CUDA_TOPK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A cell: entries s[first .. first + n). Its first `lead` and those behind `lead + rest`
 * stay; the `rest` compete, and `want` of them stay, all when there are no more. */
struct kva_dev_cell {
    size_t first, to; /* to: where its list of those that stay begins */
    int32_t n, lead, rest, want;
    int32_t pos, unused; /* of the first entry, where positions are consecutive */
};

struct kva_dev_contest {
    const float *s;
    const int32_t *pos; /* like s, unique in a cell; NULL: cell.pos + j */
    const struct kva_dev_cell *cell;
    int cells, most; /* most: the largest `rest` */
};

/* Keys above `key` stay, and of those that equal it `equal`. While it is looked for: the
 * digits found so far, and how many of the keys that begin so are wanted. */
struct kva_dev_cut {
    uint64_t key;
    uint32_t equal, found;
};

/* cut[cells] */
void kva_dev_topk_cut(const struct kva_dev_contest *x, struct kva_dev_cut *cut,
                      void *stream);
/* The same where no cell loses more than one: the entry that goes, in one sweep. */
void kva_dev_topk_victim(const struct kva_dev_contest *x, struct kva_dev_cut *cut,
                         void *stream);
/* Ascending indices, protected ones included, to slot[cell.to] and on. */
void kva_dev_topk_list(const struct kva_dev_contest *x, const struct kva_dev_cut *cut,
                       int32_t *slot, void *stream);

/* One cut over the cells of each of `groups` groups, equally many after each other. What
 * `ahead` lets stay (NULL: nothing; else the cuts of kva_dev_topk_cut) does not compete.
 * state[g] = {0, wanted, 0} with 1 <= wanted < those of group g that compete; where none
 * do, KVA_SHARE_NONE. counts, all 0 at first, is KVA_SHARE_COUNTS of uint32_t: at
 * KVA_SHARE_ABOVE[cells] how many of each are above its cut, behind them [cells] how many
 * equal it, behind those [groups] how many of these stay, lower cells first. */
enum { KVA_SHARE_PASSES = 6, KVA_SHARE_BINS = 2048 };
#define KVA_SHARE_NONE                                                                   \
    {                                                                                    \
        UINT64_MAX, 0, 1                                                                 \
    }
#define KVA_SHARE_ABOVE(groups)                                                          \
    ((size_t)(groups) * (size_t)(KVA_SHARE_PASSES * KVA_SHARE_BINS))
#define KVA_SHARE_COUNTS(cells, groups)                                                  \
    (KVA_SHARE_ABOVE(groups) + 2 * (size_t)(cells) + (size_t)(groups))
void kva_dev_share(const struct kva_dev_contest *x, int groups,
                   const struct kva_dev_cut *ahead,
                   struct kva_dev_cut *state /*[KVA_SHARE_PASSES + 1][groups]*/,
                   uint32_t *counts, void *stream);

#ifdef __cplusplus
}
#endif
#endif
