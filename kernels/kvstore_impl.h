/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kvstore_impl.h - the inside of a store, shared by kvstore.c (pages, append, trim,
 * bytes) and kvstore_evict.c (keep, fork, replace, rewind). Nobody else includes it.
 *
 * Invariants, all verified by kva_kvstore_check:
 *   - every page id below `top` is either in exactly one table row or in free_ids;
 *   - KV head c holds ceil(len[c] / P) pages, its other table entries are -1;
 *   - pos is -1 in every slot behind len, and >= 0 and unique per KV head before it;
 *   - sorted[c] = 1 only while pos ascends with the slot;
 *   - mask mode: n_live[c] bits are set, none behind len; physical mode: n_live = len. */
#ifndef KVA_KVSTORE_IMPL_H
#define KVA_KVSTORE_IMPL_H

#include "kernels/pages.h"

struct kva_kvstore {
    struct kva_ops *ops;
    const struct kva_page_ops *mem; /* of ops; ordinary memory without one */
    struct kva_kvshape shape;
    enum kva_kv_mode mode;
    int heads; /* layers * kv_heads; KV head c = layer * kv_heads + head */
    size_t k_bytes, v_bytes, row_bytes, page_bytes;

    size_t page_cap, chunk_bytes;
    struct kva_pages *pages; /* the backend's: rows of keys and values */
    size_t reserved_bytes, committed_bytes;
    int32_t *pos; /* [page_cap][P], resident as far as pages were used */
    size_t pos_bytes;
    uint32_t *live; /* [page_cap], mask mode only */

    int32_t *free_ids;  /* [page_cap], last in first out */
    size_t n_free, top; /* ids below top have been handed out; in use: top - n_free */

    int32_t *table; /* [heads][table_cap] */
    int table_cap;
    uint64_t tables;       /* changes of any table row since creation */
    int32_t *len, *n_live; /* [heads] */
    uint8_t *sorted;

    uint64_t *keys; /* [2][table_cap * P], see kva_kvstore_rank_keys; NULL while all is
                       sorted */
    uint64_t peak_bytes, copied_bytes;
    struct kva_kv_layout layout;
};

static inline size_t pages_of(size_t entries)
{
    return (entries + KVA_PAGE - 1) / KVA_PAGE;
}

static inline int32_t page_at(const struct kva_kvstore *s, int c, int slot)
{
    return s->table[(size_t)c * (size_t)s->table_cap + (size_t)(slot / KVA_PAGE)];
}

static inline int32_t *pos_at(const struct kva_kvstore *s, int c, int slot)
{
    return s->pos + (size_t)page_at(s, c, slot) * KVA_PAGE + slot % KVA_PAGE;
}

static inline bool is_live(const struct kva_kvstore *s, int c, int slot)
{
    return !s->live || (s->live[page_at(s, c, slot)] >> (slot % KVA_PAGE) & 1);
}

/* Room in the tables for `pages` pages per KV head and, when order scratch exists or is
 * asked for, for its keys. Changes nothing on failure. */
enum kva_status kva_kvstore_reserve_tables(struct kva_kvstore *s, size_t pages, bool keys,
                                           struct kva_error *err);
/* Commits memory for `pages` pages more than now in use; the cap is checked by the
 * caller. */
enum kva_status kva_kvstore_commit_pages(struct kva_kvstore *s, size_t pages,
                                         struct kva_error *err);
/* Appends empty pages to the table row of c until it holds `entries` slots. Needs both of
 * the above. Does not change len. */
void kva_kvstore_take_pages(struct kva_kvstore *s, int c, int entries);
/* Forgets the slots from n on: positions, mask bits, pages; sets len. n_live is the
 * caller's. */
void kva_kvstore_truncate(struct kva_kvstore *s, int c, int n);
void kva_kvstore_note_peak(struct kva_kvstore *s);
/* Pages in use as the layout counts them. */
uint64_t kva_kvstore_pages_held(const struct kva_kvstore *s);
/* Live entries of c by ascending position, as pos << 32 | slot, in the store's own
 * scratch. */
const uint64_t *kva_kvstore_rank_keys(const struct kva_kvstore *s, int c);

#endif
