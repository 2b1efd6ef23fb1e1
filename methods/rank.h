/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rank.h - internal to methods/: the rank order (class, score, position) and exact cuts
 * in it. */
#ifndef KVA_METHODS_RANK_H
#define KVA_METHODS_RANK_H

#include "methods/method.h"

/* Larger stays: the score as an unsigned number of the same order (-0 as +0, a NaN as
 * -inf) above the position. Unique within a KV head, because positions are. */
uint64_t kva_rank_key(float score, int32_t pos);

/* The m best of n keys, 1 <= m <= n: everything above `key`, and `equal` of those that
 * equal it. */
struct kva_cut {
    uint64_t key;
    size_t equal;
};
/* Radix selection, linear in n; `keys` is reordered. */
struct kva_cut kva_rank_cut(uint64_t *keys, size_t n, size_t m);

/* `choose` and `share` of the table (kernels.h): the backend's own where ops has one,
 * else here, which gives the same. ops NULL: here. */
enum kva_status kva_rank_choose(struct kva_ops *ops, const struct kva_contest *in,
                                const int *b, const size_t *to, int32_t *rank,
                                struct kva_error *err);
enum kva_status kva_rank_share(struct kva_ops *ops, const struct kva_contest *in,
                               const int *reserve, int groups, const uint64_t *total,
                               int *b, struct kva_error *err);

/* The newest position any KV head holds: at a decision this is the last token seen. */
int32_t kva_rank_newest(const struct kva_scores *sc);
/* Is kvhead c of a layer that is decided? */
bool kva_rank_decided(const struct kva_scores *sc, int c);
/* Protected entries of kvhead c: the first `lead` and the last `tail` in position order.
 */
void kva_rank_protected(const struct kva_scores *sc, int c, int32_t newest, int *lead,
                        int *tail);

enum kva_norm { KVA_NORM_NONE, KVA_NORM_CELL_SUM, KVA_NORM_Z };
extern const char *const kva_norm_names[];
#define KVA_PARAM_NORM                                                                   \
    {                                                                                    \
        .name = "norm",                                                                  \
        .help = "scores of a KV head before they are compared with other heads",         \
        .type = KVA_PARAM_CHOICE, .choices = kva_norm_names                              \
    }

/* Budgets of all kvheads, those of each group (equally many: all, or a layer's) from one
 * ranking over their entries: protected entries and the reserve[c] best others of each
 * kvhead stay ahead of everything else, of the rest the best until total[g] stay, of
 * equal score and position the lower kvhead's. When those ahead exceed the total, or none
 * of the group is decided, every kvhead has its uniform share. */
enum kva_status kva_rank_flat(const struct kva_scores *sc, int groups,
                              const uint64_t *total, const int *reserve,
                              enum kva_norm norm, int *b, struct kva_error *err);

/* Hands `left` more to whoever is below its cap, equally, the remainder to lower indices,
 * until nothing is left or everyone is full. */
void kva_budget_fill(uint64_t left, const int *cap, int n, int *b);

#endif
