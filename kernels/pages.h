/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pages.h - the memory behind a store, as a backend holds it. Internal to kernels/.
 *
 * The store (kvstore*.c) decides which page and slot an entry lives in and keeps the
 * books: tables, lengths, positions, bytes. A backend owns the memory: it reserves a
 * range, commits it in chunks, gives it back, and moves rows in it. Where the memory is
 * not the host's it also mirrors the positions of the entries, which move with them.
 *
 * A page table row lists page ids; slot j of a KV head is slot j % KVA_PAGE of page
 * table[j / KVA_PAGE]. All lists are host memory, read during the call. Rows of floats
 * are memory of `alloc` or the host's. Calls take effect in their order. */
#ifndef KVA_PAGES_H
#define KVA_PAGES_H

#include "kernels/kvstore.h"

struct kva_pages {
    struct kva_ops *ops;
    struct kva_kvshape shape;
    size_t k_bytes, v_bytes, page_bytes, page_cap, reserved_bytes;
    uint8_t *base; /* of page 0; the host may touch it only when ops->host */
    bool resident; /* decommit really gives memory back */
};

/* The next `tokens` entries of `heads` KV heads: row t of head h at k + t*k_stride +
 * h*dim_k (v alike) goes to slot len[h] + t of head h, whose pages are in the table. */
struct kva_page_write {
    const float *k, *v;
    int k_stride, v_stride, heads, tokens;
    const int32_t *table; /* [heads][table_cap] */
    int table_cap;
    const int32_t *len; /* [heads], before the write */
    const int32_t *pos; /* [tokens] */
};

/* Entries of one KV head: slot from[i] of the source becomes slot to[i] of the
 * destination, in ascending i. to NULL: 0 .. n-1, where from[i] >= i, so source and
 * destination may be the same pages. from NULL: 0 .. n-1. With `to`, no slot is both read
 * and written. */
struct kva_page_move {
    const int32_t *to_table, *from_table, *to, *from;
    int n;
};

/* Entries of one KV head: slots slot[i] (NULL: first + i), i below n. */
struct kva_page_read {
    const int32_t *table, *slot;
    int first, n;
};

struct kva_page_ops {
    size_t (*granule)(struct kva_ops *); /* commits are multiples of it */
    /* Reserves for page_cap pages, commits nothing. reserved_bytes and whatever is
     * committed and given back are multiples of chunk_bytes, and that one of the granule.
     */
    enum kva_status (*create)(struct kva_ops *, const struct kva_kvshape *,
                              size_t page_cap, size_t reserved_bytes, size_t chunk_bytes,
                              struct kva_pages **, struct kva_error *err);
    void (*destroy)(struct kva_pages *); /* NULL allowed */
    enum kva_status (*commit)(struct kva_pages *, size_t from, size_t bytes,
                              struct kva_error *err);
    void (*decommit)(struct kva_pages *, size_t from, size_t bytes);
    /* False: a value would not be finite in the pages' type; nothing was written. A
     * backend that cannot tell without waiting says true and remembers (`sound`). */
    bool (*fits)(const struct kva_pages *, const struct kva_page_write *);
    void (*write)(struct kva_pages *, const struct kva_page_write *);
    /* Whether all that was written is finite. May wait. */
    bool (*sound)(const struct kva_pages *);
    void (*move)(struct kva_pages *to, const struct kva_pages *from,
                 const struct kva_page_move *, int heads);
    /* As rows of floats, one head's behind the other's; k or v may be NULL. */
    void (*read)(const struct kva_pages *, const struct kva_page_read *, int heads,
                 float *k, float *v);
    /* New keys and positions of slots slot[i] (NULL: i). `fits` is the caller's. */
    void (*write_keys)(struct kva_pages *, const int32_t *table, const int32_t *slot,
                       int n, const float *k, const int32_t *pos);
    /* Page from[i] is copied to page to[i]; no page is in both lists. */
    void (*copy)(struct kva_pages *, const int32_t *from, const int32_t *to, size_t n);
    /* Slots [slot, end) of a page read as NaN from now on (debug builds). */
    void (*poison)(struct kva_pages *, int32_t page, int slot, int end);
};

/* Largest number that is finite in the type, exclusive. f16: 65520 is the first that
 * rounds to infinity. */
float kva_pages_limit(const struct kva_pages *);

extern const struct kva_page_ops kva_cpu_pages; /* kernels/cpu/pages.c */

#endif
