/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collect.h - sums over the prompt that scorers cannot make afterwards (internal to
 * models/).
 *
 * A session owns one collector for each distinct want (struct kva_collect). Sums of
 * entries are kept in rank order and follow the store: new entries begin with 0, evicted
 * ones take their sum with them. Column sums come from attention itself, which adds its
 * weights to them (struct kva_attn); for the others the engine hands over the queries of
 * every layer. The cut of the prompt into steps changes no bit. */
#ifndef KVA_MODELS_COLLECT_H
#define KVA_MODELS_COLLECT_H

#include "models/model.h"

struct kva_collector;

enum kva_status kva_collector_new(struct kva_model *m, const struct kva_collect *want,
                                  struct kva_collector **out, struct kva_error *err);
void kva_collector_free(struct kva_collector *c); /* NULL allowed */
const struct kva_collect *kva_collector_want(const struct kva_collector *c);
uint64_t kva_collector_bytes(const struct kva_collector *c);

/* Does it read rotated queries itself? */
bool kva_collector_follows(const struct kva_collector *c);
/* n query rows of one layer at ascending positions, stride heads * head_dim; `raw` before
 * the rotation, in the backend's memory, `q` after it, in the host's if the collector
 * follows it. Their entries are in the store already. */
enum kva_status kva_collector_rows(struct kva_collector *c,
                                   const struct kva_kvstore *store, int layer,
                                   const float *raw, const float *q, const int32_t *pos,
                                   int n, struct kva_error *err);
/* Does attention add to it? Then after kva_collector_rows `begin` gives the arrays,
 * sums[kv_heads] in slot order, and `end` takes what was added. */
bool kva_collector_columns(const struct kva_collector *c);
void kva_collector_begin(struct kva_collector *c, int layer, float **sums);
void kva_collector_end(struct kva_collector *c, int layer);
/* The store is about to keep these ranks, or to drop these victims. */
enum kva_status kva_collector_keep(struct kva_collector *c,
                                   const struct kva_kvstore *store,
                                   const struct kva_keep *keep, struct kva_error *err);
enum kva_status kva_collector_drop(struct kva_collector *c,
                                   const struct kva_kvstore *store,
                                   const struct kva_keep *victims, struct kva_error *err);
/* Entries and queries are about to get other positions: what is open is added up. */
enum kva_status kva_collector_settle(struct kva_collector *c,
                                     const struct kva_kvstore *store,
                                     struct kva_error *err);
/* Position behind the last query whose weights cannot be taken back: sums of an ended
 * tile, statistics of queries. */
int32_t kva_collector_added(const struct kva_collector *c);
/* The store was rewound to `pos`, not below kva_collector_added: newest entries are gone,
 * queries from there on too. */
void kva_collector_rewind(struct kva_collector *c, const struct kva_kvstore *store,
                          int32_t pos);
/* Sums of what `keep` lists (NULL: everything) of a collector of the same want. */
enum kva_status kva_collector_copy(struct kva_collector *to,
                                   const struct kva_collector *from,
                                   const struct kva_kvstore *store,
                                   const struct kva_keep *keep, struct kva_error *err);
/* Ragged sums of a layer, complete up to the last query; valid until the next call. NULL
 * without memory, and for REPLAY before anything was set. */
const float *kva_collector_side(struct kva_collector *c, const struct kva_kvstore *store,
                                int layer);
const struct kva_query_stats *kva_collector_stats(struct kva_collector *c, int layer);
/* Sets the sums of one KV head (REPLAY). */
enum kva_status kva_collector_set(struct kva_collector *c,
                                  const struct kva_kvstore *store, int layer, int head,
                                  const float *sum, struct kva_error *err);

#endif
