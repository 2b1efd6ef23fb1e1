/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kv.h - launchers of kv.cu: rows written to, moved in and read from the pages of a
 * store.
 *
 * All pointers are device memory. Slot j of a KV head is slot j % 32 of the page that its
 * own short list of pages names at j / 32. */
#ifndef KVA_CUDA_KV_H
#define KVA_CUDA_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pages that a kernel may write: as struct kva_dev_view (view.h), but of a whole store.
 */
struct kva_dev_pages {
    uint8_t *base;
    size_t page_bytes;
    int32_t *pos; /* [pages][32] */
    int dim_k, dim_v, f16;
};

/* Entry t of KV head h, its key at k + t*k_stride + h*dim_k (values alike), goes to slot
 * first[h] + t of pages[h][..span], with position pos[t]. bad becomes 1 when a number is
 * not finite in the pages' type. */
struct kva_dev_append {
    const float *k, *v;
    int k_stride, v_stride, heads, tokens, span;
    const int32_t *first; /* [heads] 0 .. 31 */
    const int32_t *pages; /* [heads][span] */
    const int32_t *pos;   /* [tokens] */
    int *bad;
};
void kva_kv_append(struct kva_dev_pages to, struct kva_dev_append a, void *stream);

/* Rows of one KV head: entry i of [start, n) goes from slot from[i] (from NULL: i) of the
 * source to slot to[i] (to NULL: i) of the destination. Offsets are into `list`. */
struct kva_dev_move {
    int n, start;     /* start: a multiple of 32; what lies before stays in place */
    int64_t from, to; /* of the slot lists, -1: NULL */
    int64_t from_pages, to_pages;
};
/* together: source and destination are the same pages and to is NULL, from[i] >= i: one
 * block a head moves 32 entries at a time, all read before any is written. Otherwise no
 * slot is both read and written and `longest` (the largest n) is spread over blocks. */
void kva_kv_move(struct kva_dev_pages to, struct kva_dev_pages from,
                 const struct kva_dev_move *move, const int32_t *list, int heads,
                 int longest, bool together, void *stream);

/* Entries of one KV head: row `row` + i of k and v (NULL: not wanted) becomes that of
 * slot slot[i] (-1: first + i). Offsets are into `list`. */
struct kva_dev_read {
    size_t row;
    int64_t slot, pages;
    int first, n;
};
void kva_kv_read(struct kva_dev_pages from, const struct kva_dev_read *read,
                 const int32_t *list, int heads, int longest, float *k, float *v,
                 void *stream);
/* New keys and positions of slots slot[i] (NULL: i). */
void kva_kv_keys(struct kva_dev_pages to, const int32_t *pages, const int32_t *slot,
                 int n, const float *k, const int32_t *pos, int *bad, void *stream);
/* Page from[i], with its positions, is copied to page to[i]. */
void kva_kv_copy(struct kva_dev_pages pages, const int32_t *from, const int32_t *to,
                 size_t n, void *stream);
/* Slots [slot, end) of a page read as NaN. */
void kva_kv_poison(struct kva_dev_pages pages, int32_t page, int slot, int end,
                   void *stream);

#ifdef __cplusplus
}
#endif
#endif
