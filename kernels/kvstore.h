/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kvstore.h - the physical KV cache: pages per (layer, KV head), hard cap, real release.
 *
 * The structural promise of the program lives here: a method answers which entries stay;
 * only this store moves or frees them, and it alone reports bytes.
 *
 * Layout (kernels.md 2.1). A page holds KVA_PAGE entries of one KV head: K[P][dim_k] then
 * V[P][dim_v], row-major, f16 or f32. Pages come from one virtual range of `page_cap`
 * pages; memory is committed in chunks from the bottom and given back by `trim`. Entry j
 * of a KV head sits in page table[j / P], slot j % P; its original position lies in
 * pos[page][slot] and moves with it. Positions are absolute: the next token's position is
 * tokens seen, never entries held.
 *
 * Modes: PHYSICAL frees evicted entries. MASK keeps them and clears a bit; kernels skip
 * them. Mask mode exists for audits only and reports dense bytes. It also stands for
 * published caches that overwrite evicted keys by fake ones (enforcement `fakekey` of the
 * runner): all is held, and the weights of the overwritten entries underflow to 0.
 *
 * Not thread-safe; one session owns one store. `KVA_EBUDGET` and `KVA_EINVALID` leave the
 * store unchanged. Freed slots are refilled with NaN in debug builds (-DKVA_POISON). */
#ifndef KVA_KVSTORE_H
#define KVA_KVSTORE_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_PAGE 32 /* entries of a page, the only size of the store */

enum kva_kv_mode { KVA_KV_PHYSICAL, KVA_KV_MASK };

struct kva_kvshape {
    int layers, kv_heads, dim_k, dim_v;
    enum kva_type type; /* KVA_F16 or KVA_F32 */
};

struct kva_kvstore;

/* Which entries stay: for kvhead c = layer * kv_heads + head an ascending list of ranks
 * at rank[off[c] .. off[c+1]). A rank is an index into the *live* entries of that KV head
 * in ascending position order, 0 .. live-1: the same number in both modes and after any
 * decode-time hole filling. Owned by whoever built it: kva_keep_release. */
struct kva_keep {
    int layers, kv_heads;
    int32_t *rank;
    size_t *off; /* [layers * kv_heads + 1] */
};
void kva_keep_release(struct kva_keep *keep);

/* Pointers for kernels, one layer; dies at the next change of the store. */
struct kva_kv_view {
    int kv_heads, dim_k, dim_v;
    enum kva_type type;
    size_t page_bytes;
    uint8_t *base; /* page i at base + i * page_bytes; read by the backend */
    const struct kva_pages *pages; /* the backend's (pages.h) */
    const int32_t *pos;            /* slot s of page i at pos[i * KVA_PAGE + s] */
    const int32_t *table;          /* [kv_heads][table_cap] page ids in slot order */
    int table_cap, layer;
    uint64_t tables;    /* grows with every change of a table of the store */
    const int32_t *len; /* [kv_heads] entries held (masked ones included in mask mode) */
    const uint8_t *sorted; /* [kv_heads] 1 while pos ascends with the slot */
    const uint32_t *live;  /* mask mode: bit s of live[page] = readable; NULL: all are */
};

struct kva_kv_bytes {
    uint64_t live_bytes;      /* entries attention can read * row bytes */
    uint64_t alloc_bytes;     /* pages in use * page bytes */
    uint64_t meta_bytes;      /* positions of pages in use, tables, lengths, mask bits */
    uint64_t committed_bytes; /* chunks committed * chunk bytes */
    uint64_t peak_bytes;      /* largest alloc + meta since creation */
    uint64_t entries_kept;    /* live entries over all KV heads */
    uint64_t entries_masked;  /* held but unreadable */
    uint64_t copied_bytes;    /* moved by every operation but append since creation */
    uint64_t row_bytes;       /* (dim_k + dim_v) * element */
};

/* page_cap: hard limit in pages over all KV heads. ops NULL: pages in ordinary memory. */
enum kva_status kva_kvstore_new(struct kva_ops *ops, const struct kva_kvshape *shape,
                                size_t page_cap, enum kva_kv_mode mode,
                                struct kva_kvstore **store, struct kva_error *err);
void kva_kvstore_free(struct kva_kvstore *store); /* NULL allowed */
const struct kva_kvshape *kva_kvstore_shape(const struct kva_kvstore *store);

/* Pages that `tokens` more entries in every KV head need from now (0 when they fit the
 * last pages); a cap for a fresh store of n entries per head is
 * layers*kv_heads*ceil(n/P). */
size_t kva_kvstore_pages_for(const struct kva_kvstore *store, int tokens);

/* Appends `tokens` entries at positions pos[0..tokens-1] (ascending) to every KV head of
 * the layer. k row t head h at k + t*k_stride + h*dim_k, v alike. KVA_EBUDGET over the
 * cap, the store unchanged. KVA_ENONFINITE when a value is not finite after conversion to
 * the store's type. */
enum kva_status kva_kvstore_append(struct kva_kvstore *store, int layer, const float *k,
                                   int k_stride, const float *v, int v_stride,
                                   const int32_t *pos, int tokens, struct kva_error *err);

/* Evicts everything not listed, in place, all layers; bulk, stable. A KV head whose list
 * names all its live entries is not touched (no byte copied). An empty list is
 * KVA_EINVALID. */
enum kva_status kva_kvstore_keep(struct kva_kvstore *store, const struct kva_keep *keep,
                                 struct kva_error *err);
/* A cell's own copy of what stays (ruling R6): new store of `mode` and `page_cap`
 * holding, in slot order (ascending positions), the listed live entries of src (keep
 * NULL: all live ones). With mode MASK the copy holds *every* entry of src and masks the
 * unlisted. src is unchanged. Byte for byte what `keep` in place would leave. */
enum kva_status kva_kvstore_fork(const struct kva_kvstore *src,
                                 const struct kva_keep *keep, size_t page_cap,
                                 enum kva_kv_mode mode, struct kva_kvstore **dst,
                                 struct kva_error *err);
/* A second store like src, masks, cap, layout and recorded peak included. */
enum kva_status kva_kvstore_copy(const struct kva_kvstore *src, struct kva_kvstore **dst,
                                 struct kva_error *err);
/* Decode-time eviction: `victims` lists, like kva_keep, the ranks to drop of each KV head
 * (none is allowed; all is KVA_EINVALID); the newest survivors fill the holes, lowest
 * hole first (kernels.md 2.7), so `sorted` falls. Mask mode clears the bits. */
enum kva_status kva_kvstore_replace(struct kva_kvstore *store,
                                    const struct kva_keep *victims,
                                    struct kva_error *err);
/* Replaces the keys and positions of a KV head's entries, in rank order: k[live][dim_k],
 * pos[live] ascending from 0 or more. Values stay. For methods that move what they keep
 * to contiguous positions. KVA_EINVALID in mask mode, KVA_ENONFINITE as for append. */
enum kva_status kva_kvstore_renumber(struct kva_kvstore *store, int layer, int head,
                                     const float *k, const int32_t *pos,
                                     struct kva_error *err);
/* Drops every entry with position >= pos (masked ones too); other questions on one
 * context. */
enum kva_status kva_kvstore_rewind(struct kva_kvstore *store, int32_t pos,
                                   struct kva_error *err);
/* Moves pages down and gives chunks back to the system (madvise). */
enum kva_status kva_kvstore_trim(struct kva_kvstore *store, struct kva_error *err);

void kva_kvstore_view(const struct kva_kvstore *store, int layer,
                      struct kva_kv_view *view);
void kva_kvstore_bytes(const struct kva_kvstore *store, struct kva_kv_bytes *bytes);
/* Bytes of `entries` over all KV heads held in pages of `page` entries, heads equal:
 * pages * page * row. kernels.md 2.4; the page size is an argument here only (ruling R9).
 */
uint64_t kva_kv_alloc_for(const struct kva_kvshape *shape, uint64_t entries_per_head,
                          int page);

/* What the entries would take in a cache laid out otherwise (kvstore_layout.c): counted
 * in live, alloc and peak bytes from now on. A fresh store is not padded and has one
 * copy. */
struct kva_kv_layout {
    bool padded; /* every KV head of a layer counts the pages of its longest */
    int copies;  /* of every page: the query heads of a KV head */
};
enum kva_status kva_kvstore_set_layout(struct kva_kvstore *store,
                                       const struct kva_kv_layout *layout,
                                       struct kva_error *err);
/* Widens the lists of layers [layer0, layer1) so that every KV head keeps each live
 * position that any KV head of its layer keeps. The other lists stay. */
enum kva_status kva_kvstore_unite(const struct kva_kvstore *store, int layer0, int layer1,
                                  struct kva_keep *keep, struct kva_error *err);

/* Sets the recorded peak back to `peak_bytes` of an earlier kva_kvstore_bytes, not below
 * what is held now: for rows fed and rewound that no cell alone would feed (gold
 * answers). */
void kva_kvstore_forget_peak(struct kva_kvstore *store, uint64_t peak_bytes);
/* False: what `trim` gives back stays taken (pages.h). */
bool kva_kvstore_resident(const struct kva_kvstore *store);
/* Live entries of one KV head. */
int kva_kvstore_live(const struct kva_kvstore *store, int layer, int head);
/* Positions of the live entries in rank order (ascending); out holds kva_kvstore_live()
 * items. */
void kva_kvstore_positions(const struct kva_kvstore *store, int layer, int head,
                           int32_t *out);
/* Where the entries stand: index[r] is the number, among the live entries in slot order,
 * of the one with rank r. False, and nothing written, when that is r for all of them. */
bool kva_kvstore_slot_order(const struct kva_kvstore *store, int layer, int head,
                            int32_t *index);
/* Live entries as contiguous f32 rows in rank order; k or v may be NULL. */
enum kva_status kva_kvstore_gather(const struct kva_kvstore *store, int layer, int head,
                                   float *k, float *v, struct kva_error *err);
/* The same of a layer at once: off[h + 1] - off[h] entries of KV head h, from rank
 * first[h] (NULL: 0) on, one head's rows behind the other's. */
enum kva_status kva_kvstore_gather_layer(const struct kva_kvstore *store, int layer,
                                         const int *first, const size_t *off, float *k,
                                         float *v, struct kva_error *err);
/* FNV-1a 64 over (layer, head, live positions ascending), each a little-endian int32. */
uint64_t kva_kvstore_kept_fnv(const struct kva_kvstore *store);
/* KVA_ENONFINITE when a key or value was not finite in the store's type. A backend with
 * its own memory finds out late: append has not refused it. May wait. */
enum kva_status kva_kvstore_sound(const struct kva_kvstore *store, struct kva_error *err);
/* Internal consistency (tests, audits): KVA_ECONFLICT names the first contradiction. */
enum kva_status kva_kvstore_check(const struct kva_kvstore *store, struct kva_error *err);

#ifdef __cplusplus
}
#endif
#endif
