/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shard.h - which part of a sweep one of several machines measures (reports.md 9.2).
 *
 * What is shared out are contexts: one (model, task, context) with all its questions,
 * cells and repetitions, so that paired comparisons never cross machines. The assignment
 * is a function of the suite alone: not of a database, a machine or the order in which
 * shards run. Every context belongs to exactly one shard; a shard may be empty. */
#ifndef KVA_SHARD_H
#define KVA_SHARD_H

#include "kva.h"

enum kva_balance {
    KVA_BALANCE_COST, /* longest processing time first */
    KVA_BALANCE_MOD   /* position modulo the number of shards */
};
/* Part i of n; n 0 (all zero bytes): the whole. */
struct kva_shard {
    int i, n;
    enum kva_balance balance;
};
/* "2/7": 0 <= i < n, n <= 10000. KVA_EINVALID says what is wrong. */
enum kva_status kva_shard_parse(const char *text, struct kva_shard *s,
                                struct kva_error *err);
/* "cost" or "mod"; NULL: cost. */
enum kva_status kva_balance_parse(const char *text, enum kva_balance *b,
                                  struct kva_error *err);
const char *kva_balance_name(enum kva_balance b);

struct kva_shard_item {
    uint8_t model[32], task[32]; /* digests */
    int idx;                     /* first sample of the context */
    double cost;
    int shard; /* out: 0..n-1 */
};
/* Cost of `jobs` outcomes on a context of n_ctx tokens: the same arithmetic on every
 * machine. */
double kva_shard_cost(int jobs, double n_ctx, int max_new_tokens);
/* Gives every item its shard. Keys (model, task, idx) are ascending bytes and numbers.
 * COST: by cost descending, then key ascending, each to the least loaded shard, the
 * lowest index on ties. MOD: by key, position mod n. The order of `items` is kept and
 * does not matter. */
enum kva_status kva_shard_assign(struct kva_shard_item *items, size_t n_items, int n,
                                 enum kva_balance balance, struct kva_error *err);

#endif
