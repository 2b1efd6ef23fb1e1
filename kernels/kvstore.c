/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kvstore.c - pages of the physical KV cache: append, trim, views, bytes (kernels.md 2).
 *
 *     alloc = pages in use * P * row                      row = (dim_k + dim_v) * element
 *     meta  = pages in use * (P * 4 [+ 4 mask bits]) + heads * (table_cap + 1) * 4
 *
 * The `sorted` bytes, the free list and the scratch of unsorted heads are the host's and
 * not counted (2.4). Table rows grow in steps of 8 pages and shrink in trim, so that meta
 * depends on what the store held, not on how it was called. */
#include "kernels/kvstore_impl.h"

#include "kernels/cpu/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { P = KVA_PAGE, TABLE_STEP = 8, SLOTS = 1024 /* of one list on the stack */ };

static size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

/* max(granularity, 2 MiB, a 512th of the cap rounded up to a power of two),
 * kernels.md 2.3 */
static size_t chunk_for(size_t cap_bytes, size_t granule)
{
    size_t chunk = (size_t)2 << 20;

    while (chunk < cap_bytes / 512)
        chunk *= 2;
    return chunk < granule ? granule : chunk;
}

/* A read of a freed slot must show. */
static void poison(struct kva_kvstore *s, int32_t page, int from, int to)
{
#ifdef KVA_POISON
    s->mem->poison(s->pages, page, from, to);
#else
    (void)s;
    (void)page;
    (void)from;
    (void)to;
#endif
}

enum kva_status kva_kvstore_new(struct kva_ops *ops, const struct kva_kvshape *shape,
                                size_t page_cap, enum kva_kv_mode mode,
                                struct kva_kvstore **store, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    struct kva_kvstore *s = NULL;
    size_t element = shape->type == KVA_F16 ? 2 : 4, bytes;

    if (shape->layers < 1 || shape->kv_heads < 1 || shape->dim_k < 1 ||
        shape->dim_v < 1 || shape->layers > INT32_MAX / shape->kv_heads ||
        shape->dim_k > 1 << 20 || shape->dim_v > 1 << 20)
        return KVA_FAIL(err, KVA_EINVALID,
                        "KV store of %d layers, %d heads, dims %d and %d", shape->layers,
                        shape->kv_heads, shape->dim_k, shape->dim_v);
    if (shape->type != KVA_F16 && shape->type != KVA_F32)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "KV store of type %d", (int)shape->type);
    if (mode != KVA_KV_PHYSICAL && mode != KVA_KV_MASK)
        return KVA_FAIL(err, KVA_EINVALID, "KV store mode %d", (int)mode);
    s = kva_calloc(1, sizeof *s);
    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "KV store");
    s->ops = ops;
    s->mem = ops ? ops->pages : &kva_cpu_pages;
    s->shape = *shape;
    s->mode = mode;
    s->layout.copies = 1;
    s->heads = shape->layers * shape->kv_heads;
    s->k_bytes = (size_t)shape->dim_k * element;
    s->v_bytes = (size_t)shape->dim_v * element;
    s->row_bytes = s->k_bytes + s->v_bytes;
    s->page_bytes = P * s->row_bytes;
    s->page_cap = page_cap;
    if (page_cap < 1 || page_cap > INT32_MAX / 2 ||
        __builtin_mul_overflow(page_cap, s->page_bytes, &bytes) || bytes > SIZE_MAX / 4) {
        rc = KVA_FAIL(err, KVA_EINVALID, "KV store with a cap of %zu pages", page_cap);
        goto out;
    }
    s->chunk_bytes = chunk_for(bytes, s->mem->granule(ops));
    s->reserved_bytes = round_up(bytes, s->chunk_bytes);
    s->pos_bytes = round_up(page_cap * P * sizeof *s->pos, kva_mem_granule());
    KVA_GO(s->mem->create(ops, shape, page_cap, s->reserved_bytes, s->chunk_bytes,
                          &s->pages, err));
    s->pos = kva_mem_reserve(s->pos_bytes);
    s->free_ids = kva_calloc(page_cap, sizeof *s->free_ids);
    s->len = kva_calloc((size_t)s->heads, sizeof *s->len);
    s->n_live = kva_calloc((size_t)s->heads, sizeof *s->n_live);
    s->sorted = kva_calloc((size_t)s->heads, 1);
    if (mode == KVA_KV_MASK)
        s->live = kva_calloc(page_cap, sizeof *s->live);
    if (!s->pos || kva_mem_commit(s->pos, s->pos_bytes) != 0 || !s->free_ids || !s->len ||
        !s->n_live || !s->sorted || (mode == KVA_KV_MASK && !s->live)) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "KV store with a cap of %zu pages", page_cap);
        goto out;
    }
    memset(s->sorted, 1, (size_t)s->heads);
    KVA_GO(kva_kvstore_reserve_tables(s, 1, false, err));
    kva_kvstore_note_peak(s);
    *store = s;
    s = NULL;
out:
    kva_kvstore_free(s);
    return rc;
}

void kva_kvstore_free(struct kva_kvstore *s)
{
    if (!s)
        return;
    s->mem->destroy(s->pages);
    kva_mem_release(s->pos, s->pos_bytes);
    free(s->live);
    free(s->free_ids);
    free(s->table);
    free(s->len);
    free(s->n_live);
    free(s->sorted);
    free(s->keys);
    free(s);
}

bool kva_kvstore_resident(const struct kva_kvstore *s)
{
    return s->pages->resident;
}

const struct kva_kvshape *kva_kvstore_shape(const struct kva_kvstore *s)
{
    return &s->shape;
}

/* ---- pages ---- */

/* New tables of `cap` pages a row with the old content. */
static enum kva_status resize_tables(struct kva_kvstore *s, size_t cap, bool keys,
                                     struct kva_error *err)
{
    size_t rows = (size_t)s->heads, old = (size_t)s->table_cap;
    uint64_t *new_keys = NULL;
    int32_t *table;

    table = cap > INT32_MAX / P ? NULL : kva_calloc(rows * cap, sizeof *table);
    if (!table)
        return KVA_FAIL(err, KVA_ENOMEM, "page tables of %zu entries", rows * cap);
    if (keys) {
        new_keys = kva_calloc(2 * cap * P, sizeof *new_keys);
        if (!new_keys) {
            free(table);
            return KVA_FAIL(err, KVA_ENOMEM, "order of %zu entries", cap * P);
        }
    }
    memset(table, 0xff, rows * cap * sizeof *table);
    for (size_t c = 0; c < rows && old; c++)
        memcpy(table + c * cap, s->table + c * old,
               (cap < old ? cap : old) * sizeof *table);
    free(s->table);
    free(s->keys);
    s->table = table;
    s->keys = new_keys;
    s->table_cap = (int)cap;
    s->tables++;
    return KVA_OK;
}

enum kva_status kva_kvstore_reserve_tables(struct kva_kvstore *s, size_t pages, bool keys,
                                           struct kva_error *err)
{
    size_t cap = round_up(pages, TABLE_STEP);

    keys = keys || s->keys;
    if (cap < (size_t)s->table_cap)
        cap = (size_t)s->table_cap;
    if (cap == (size_t)s->table_cap && keys == !!s->keys)
        return KVA_OK;
    return resize_tables(s, cap, keys, err);
}

enum kva_status kva_kvstore_commit_pages(struct kva_kvstore *s, size_t pages,
                                         struct kva_error *err)
{
    size_t top, want;

    if (pages <= s->n_free)
        return KVA_OK;
    top = s->top + pages - s->n_free;
    want = round_up(top * s->page_bytes, s->chunk_bytes);
    if (want <= s->committed_bytes)
        return KVA_OK;
    KVA_TRY(s->mem->commit(s->pages, s->committed_bytes, want - s->committed_bytes, err));
    s->committed_bytes = want;
    return KVA_OK;
}

void kva_kvstore_take_pages(struct kva_kvstore *s, int c, int entries)
{
    int32_t *row = s->table + (size_t)c * (size_t)s->table_cap;
    size_t have = pages_of((size_t)s->len[c]), want = pages_of((size_t)entries);

    for (; have < want; have++) {
        int32_t id = s->n_free ? s->free_ids[--s->n_free] : (int32_t)s->top++;

        row[have] = id;
        s->tables++;
        memset(s->pos + (size_t)id * P, 0xff, P * sizeof *s->pos);
        if (s->live)
            s->live[id] = 0;
        poison(s, id, 0, P);
    }
}

void kva_kvstore_truncate(struct kva_kvstore *s, int c, int n)
{
    int32_t *row = s->table + (size_t)c * (size_t)s->table_cap;
    size_t have = pages_of((size_t)s->len[c]), want = pages_of((size_t)n);

    /* backwards: the page that was taken first is the first to be taken again */
    while (have > want) {
        int32_t id = row[--have];

        row[have] = -1;
        s->tables++;
        poison(s, id, 0, P);
        s->free_ids[s->n_free++] = id;
    }
    if (n % P && n < s->len[c]) {
        int32_t id = row[want - 1];

        memset(s->pos + (size_t)id * P + n % P, 0xff,
               (size_t)(P - n % P) * sizeof *s->pos);
        if (s->live)
            s->live[id] &= (1u << n % P) - 1;
        poison(s, id, n % P, P);
    }
    s->len[c] = n;
    if (n == 0)
        s->sorted[c] = 1;
}

size_t kva_kvstore_pages_for(const struct kva_kvstore *s, int tokens)
{
    size_t pages = 0;

    for (int c = 0; c < s->heads; c++)
        pages +=
            pages_of((size_t)s->len[c] + (size_t)tokens) - pages_of((size_t)s->len[c]);
    return pages;
}

/* ---- append ---- */

/* Largest position held by c, -1 when empty. */
static int32_t last_pos(const struct kva_kvstore *s, int c)
{
    int32_t most = -1;
    int n = s->len[c];

    if (n && s->sorted[c])
        return *pos_at(s, c, n - 1);
    for (int j = 0; j < n; j += P) {
        const int32_t *pos = pos_at(s, c, j);

        for (int i = 0; i < P; i++) /* free slots hold -1 */
            most = pos[i] > most ? pos[i] : most;
    }
    return most;
}

static enum kva_status check_append(const struct kva_kvstore *s, int layer,
                                    const int32_t *pos, int tokens, struct kva_error *err)
{
    if (layer < 0 || layer >= s->shape.layers || tokens < 0)
        return KVA_FAIL(err, KVA_EINVALID, "append of %d tokens to layer %d", tokens,
                        layer);
    for (int t = 0; t < tokens; t++)
        if (pos[t] < 0 || (t && pos[t] <= pos[t - 1]))
            return KVA_FAIL(err, KVA_EINVALID, "append: position %d is not ascending",
                            pos[t]);
    for (int h = 0; h < s->shape.kv_heads && tokens; h++) {
        int c = layer * s->shape.kv_heads + h;

        if (pos[0] <= last_pos(s, c))
            return KVA_FAIL(
                err, KVA_EINVALID,
                "append: position %d is not behind the last of layer %d head %d", pos[0],
                layer, h);
        if (s->len[c] > INT32_MAX - P - tokens)
            return KVA_FAIL(err, KVA_EINVALID, "append of %d tokens to layer %d", tokens,
                            layer);
    }
    return KVA_OK;
}

/* The books of one KV head: the backend has written the rows. */
static void count_in(struct kva_kvstore *s, int c, const int32_t *pos, int tokens)
{
    int n = s->len[c];

    for (int t = 0; t < tokens; t++) {
        int32_t page = page_at(s, c, n + t);
        int slot = (n + t) % P;

        s->pos[(size_t)page * P + (size_t)slot] = pos[t];
        if (s->live)
            s->live[page] |= 1u << slot;
    }
    s->len[c] += tokens;
    s->n_live[c] += tokens;
}

enum kva_status kva_kvstore_append(struct kva_kvstore *s, int layer, const float *k,
                                   int k_stride, const float *v, int v_stride,
                                   const int32_t *pos, int tokens, struct kva_error *err)
{
    int first, heads = s->shape.kv_heads;
    size_t need = 0, most = 0, used = s->top - s->n_free;
    struct kva_page_write w = {.k = k,
                               .v = v,
                               .k_stride = k_stride,
                               .v_stride = v_stride,
                               .heads = heads,
                               .tokens = tokens,
                               .pos = pos};

    KVA_TRY(check_append(s, layer, pos, tokens, err));
    first = layer * heads;
    for (int c = first; c < first + heads; c++) {
        size_t after = pages_of((size_t)s->len[c] + (size_t)tokens);

        need += after - pages_of((size_t)s->len[c]);
        most = after > most ? after : most;
    }
    if (need > s->page_cap - used)
        return KVA_FAIL(err, KVA_EBUDGET,
                        "layer %d needs %zu KV pages more, %zu of %zu are in use", layer,
                        need, used, s->page_cap);
    if (!s->mem->fits(s->pages, &w))
        return KVA_FAIL(err, KVA_ENONFINITE,
                        "layer %d: a key or value is not a finite %s", layer,
                        s->shape.type == KVA_F16 ? "f16" : "f32");
    KVA_TRY(kva_kvstore_reserve_tables(s, most, false, err));
    KVA_TRY(kva_kvstore_commit_pages(s, need, err));
    for (int c = first; c < first + heads; c++)
        kva_kvstore_take_pages(s, c, s->len[c] + tokens);
    w.table = s->table + (size_t)first * (size_t)s->table_cap;
    w.table_cap = s->table_cap;
    w.len = s->len + first;
    s->mem->write(s->pages, &w);
    for (int c = first; c < first + heads; c++)
        count_in(s, c, pos, tokens);
    kva_kvstore_note_peak(s);
    return KVA_OK;
}

enum kva_status kva_kvstore_sound(const struct kva_kvstore *s, struct kva_error *err)
{
    if (s->mem->sound(s->pages))
        return KVA_OK;
    return KVA_FAIL(err, KVA_ENONFINITE, "a key or value is not a finite %s",
                    s->shape.type == KVA_F16 ? "f16" : "f32");
}

enum kva_status kva_kvstore_renumber(struct kva_kvstore *s, int layer, int head,
                                     const float *k, const int32_t *pos,
                                     struct kva_error *err)
{
    int c = layer * s->shape.kv_heads + head, n = s->len[c], dim = s->shape.dim_k;
    const int32_t *table = s->table + (size_t)c * (size_t)s->table_cap;
    const uint64_t *order = s->sorted[c] ? NULL : kva_kvstore_rank_keys(s, c);
    struct kva_page_write w = {.k = k, .k_stride = dim, .heads = 1, .tokens = n};
    int32_t slot[SLOTS];

    if (s->mode == KVA_KV_MASK)
        return KVA_FAIL(err, KVA_EINVALID,
                        "a masked cache holds evicted entries and cannot be renumbered");
    for (int i = 0; i < n; i++)
        if (pos[i] < 0 || (i > 0 && pos[i] <= pos[i - 1]))
            return KVA_FAIL(err, KVA_EINVALID, "new positions do not ascend");
    if (!s->mem->fits(s->pages, &w))
        return KVA_FAIL(err, KVA_ENONFINITE, "layer %d: a key is not a finite %s", layer,
                        s->shape.type == KVA_F16 ? "f16" : "f32");
    for (int i = 0, m; i < n; i += m) {
        m = n - i < SLOTS ? n - i : SLOTS;
        for (int j = 0; j < m; j++)
            slot[j] = order ? (int32_t)(uint32_t)order[i + j] : i + j;
        s->mem->write_keys(s->pages, table, slot, m, k + (size_t)i * (size_t)dim,
                           pos + i);
        for (int j = 0; j < m; j++)
            *pos_at(s, c, slot[j]) = pos[i + j];
    }
    s->copied_bytes += (uint64_t)n * s->k_bytes;
    return KVA_OK;
}

/* ---- trim ---- */

/* Pages from[i] become pages to[i]: rows by the backend, the books here. */
static void move_pages(struct kva_kvstore *s, const int32_t *from, const int32_t *to,
                       size_t n)
{
    s->mem->copy(s->pages, from, to, n);
    for (size_t i = 0; i < n; i++) {
        memcpy(s->pos + (size_t)to[i] * P, s->pos + (size_t)from[i] * P,
               P * sizeof *s->pos);
        if (s->live)
            s->live[to[i]] = s->live[from[i]];
    }
    s->copied_bytes += n * s->page_bytes;
}

enum kva_status kva_kvstore_trim(struct kva_kvstore *s, struct kva_error *err)
{
    size_t used = s->top - s->n_free, keep, most = 1, n = 0, granule = kva_mem_granule();
    size_t old_top = s->top, from, moves = 0;
    int32_t src[SLOTS], dst[SLOTS];

    /* the tables first: the only step that can fail */
    for (int c = 0; c < s->heads; c++)
        if (pages_of((size_t)s->len[c]) > most)
            most = pages_of((size_t)s->len[c]);
    most = round_up(most, TABLE_STEP);
    if (most < (size_t)s->table_cap)
        KVA_TRY(resize_tables(s, most, s->keys != NULL, err));

    keep = round_up(used * s->page_bytes, s->chunk_bytes);
    if (keep >= s->committed_bytes)
        return KVA_OK;
    /* pages at or above `from` lie at least partly in a chunk that goes; there are enough
     * free ones below, since used <= from */
    from = keep / s->page_bytes;
    for (size_t i = 0; i < s->n_free; i++)
        if ((size_t)s->free_ids[i] < from)
            s->free_ids[n++] = s->free_ids[i];
    s->n_free = n;
    for (size_t i = 0; i < (size_t)s->heads * (size_t)s->table_cap; i++)
        if (s->table[i] >= 0 && (size_t)s->table[i] >= from) {
            src[moves] = s->table[i];
            dst[moves] = s->table[i] = s->free_ids[--s->n_free];
            s->tables++;
            if (++moves == SLOTS) {
                move_pages(s, src, dst, moves);
                moves = 0;
            }
        }
    move_pages(s, src, dst, moves);
    if (s->top > from)
        s->top = from;
    s->mem->decommit(s->pages, keep, s->committed_bytes - keep);
    s->committed_bytes = keep;
    from = round_up(s->top * P * sizeof *s->pos, granule);
    keep = round_up(old_top * P * sizeof *s->pos, granule);
    if (keep > from)
        kva_mem_clear((uint8_t *)s->pos + from, keep - from);
    return KVA_OK;
}

/* ---- what it holds ---- */

void kva_kvstore_view(const struct kva_kvstore *s, int layer, struct kva_kv_view *view)
{
    size_t first = (size_t)layer * (size_t)s->shape.kv_heads;

    view->kv_heads = s->shape.kv_heads;
    view->dim_k = s->shape.dim_k;
    view->dim_v = s->shape.dim_v;
    view->type = s->shape.type;
    view->page_bytes = s->page_bytes;
    view->base = s->pages->base;
    view->pages = s->pages;
    view->pos = s->pos;
    view->table = s->table + first * (size_t)s->table_cap;
    view->table_cap = s->table_cap;
    view->layer = layer;
    view->tables = s->tables;
    view->len = s->len + first;
    view->sorted = s->sorted + first;
    view->live = s->live;
}

static uint64_t meta_bytes(const struct kva_kvstore *s)
{
    uint64_t used = s->top - s->n_free, per_page = P * sizeof *s->pos;

    if (s->live)
        per_page += sizeof *s->live;
    return used * per_page +
           (uint64_t)s->heads * ((uint64_t)s->table_cap + 1) * sizeof *s->table;
}

void kva_kvstore_forget_peak(struct kva_kvstore *s, uint64_t peak_bytes)
{
    s->peak_bytes = peak_bytes;
    kva_kvstore_note_peak(s);
}

void kva_kvstore_note_peak(struct kva_kvstore *s)
{
    uint64_t now = kva_kvstore_pages_held(s) * s->page_bytes + meta_bytes(s);

    if (now > s->peak_bytes)
        s->peak_bytes = now;
}

void kva_kvstore_bytes(const struct kva_kvstore *s, struct kva_kv_bytes *b)
{
    uint64_t kept = 0, held = 0;

    for (int c = 0; c < s->heads; c++) {
        kept += (uint64_t)s->n_live[c];
        held += (uint64_t)s->len[c];
    }
    memset(b, 0, sizeof *b);
    b->row_bytes = s->row_bytes;
    b->entries_kept = kept;
    b->entries_masked = held - kept;
    b->live_bytes = kept * s->row_bytes * (uint64_t)s->layout.copies;
    b->alloc_bytes = kva_kvstore_pages_held(s) * s->page_bytes;
    b->meta_bytes = meta_bytes(s);
    b->committed_bytes = s->committed_bytes;
    b->peak_bytes = s->peak_bytes;
    b->copied_bytes = s->copied_bytes;
}

uint64_t kva_kv_alloc_for(const struct kva_kvshape *shape, uint64_t entries_per_head,
                          int page)
{
    uint64_t p = (uint64_t)page, pages = (entries_per_head + p - 1) / p;
    uint64_t element = shape->type == KVA_F16 ? 2 : 4;

    return (uint64_t)shape->layers * (uint64_t)shape->kv_heads * pages * p *
           (uint64_t)(shape->dim_k + shape->dim_v) * element;
}

int kva_kvstore_live(const struct kva_kvstore *s, int layer, int head)
{
    return s->n_live[layer * s->shape.kv_heads + head];
}

void kva_kvstore_positions(const struct kva_kvstore *s, int layer, int head, int32_t *out)
{
    int c = layer * s->shape.kv_heads + head, n = 0;

    if (!s->sorted[c]) {
        const uint64_t *keys = kva_kvstore_rank_keys(s, c);

        for (int i = 0; i < s->n_live[c]; i++)
            out[i] = (int32_t)(keys[i] >> 32);
        return;
    }
    for (int j = 0; j < s->len[c]; j++)
        if (is_live(s, c, j))
            out[n++] = *pos_at(s, c, j);
}

bool kva_kvstore_slot_order(const struct kva_kvstore *s, int layer, int head,
                            int32_t *index)
{
    int c = layer * s->shape.kv_heads + head;
    const uint64_t *keys;

    if (s->sorted[c])
        return false;
    keys = kva_kvstore_rank_keys(s, c);
    for (int r = 0; r < s->n_live[c]; r++) {
        int slot = (int)(uint32_t)keys[r], dead = 0;

        for (int j = 0; s->n_live[c] < s->len[c] && j < slot; j++)
            dead += !is_live(s, c, j);
        index[r] = slot - dead;
    }
    return true;
}

/* Slots of the live entries of ranks first .. first + n - 1. */
static void live_slots(const struct kva_kvstore *s, int c, int first, int n,
                       int32_t *slot)
{
    const uint64_t *keys = s->sorted[c] ? NULL : kva_kvstore_rank_keys(s, c);

    for (int i = 0; keys && i < n; i++)
        slot[i] = (int32_t)(uint32_t)keys[first + i];
    for (int j = 0, i = -first; !keys && i < n; j++)
        if (is_live(s, c, j) && i++ >= 0)
            slot[i - 1] = j;
}

static bool rank_is_slot(const struct kva_kvstore *s, int c)
{
    return s->sorted[c] && s->n_live[c] == s->len[c];
}

/* Of KV heads c0 .. c0 + heads - 1, see kva_kvstore_gather_layer. */
static enum kva_status gather(const struct kva_kvstore *s, int c0, int heads,
                              const int *first, const size_t *off, float *k, float *v,
                              struct kva_error *err)
{
    struct kva_page_read *r = kva_calloc((size_t)heads, sizeof *r);
    int32_t *slot = NULL, *next;
    size_t listed = 0;
    enum kva_status rc = KVA_OK;

    for (int h = 0; h < heads; h++)
        listed += rank_is_slot(s, c0 + h) ? 0 : off[h + 1] - off[h];
    slot = kva_calloc(listed, sizeof *slot);
    if (r == NULL || slot == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "KV store: lists of %zu entries", listed);
        goto out;
    }
    next = slot;
    for (int h = 0; h < heads; h++) {
        int c = c0 + h;

        r[h] =
            (struct kva_page_read){.table = s->table + (size_t)c * (size_t)s->table_cap,
                                   .first = first ? first[h] : 0,
                                   .n = (int)(off[h + 1] - off[h])};
        if (rank_is_slot(s, c))
            continue;
        live_slots(s, c, r[h].first, r[h].n, next);
        r[h].slot = next;
        next += r[h].n;
    }
    s->mem->read(s->pages, r, heads, k, v);
out:
    free(r);
    free(slot);
    return rc;
}

enum kva_status kva_kvstore_gather(const struct kva_kvstore *s, int layer, int head,
                                   float *k, float *v, struct kva_error *err)
{
    const size_t off[2] = {0, (size_t)kva_kvstore_live(s, layer, head)};

    return gather(s, layer * s->shape.kv_heads + head, 1, NULL, off, k, v, err);
}

enum kva_status kva_kvstore_gather_layer(const struct kva_kvstore *s, int layer,
                                         const int *first, const size_t *off, float *k,
                                         float *v, struct kva_error *err)
{
    return gather(s, layer * s->shape.kv_heads, s->shape.kv_heads, first, off, k, v, err);
}

static uint64_t fnv_i32(uint64_t h, int32_t x)
{
    uint32_t u = (uint32_t)x;
    uint8_t b[4] = {(uint8_t)u, (uint8_t)(u >> 8), (uint8_t)(u >> 16),
                    (uint8_t)(u >> 24)};

    return kva_fnv1a64_more(h, b, sizeof b);
}

uint64_t kva_kvstore_kept_fnv(const struct kva_kvstore *s)
{
    uint64_t h = KVA_FNV_OFFSET;

    for (int c = 0; c < s->heads; c++) {
        h = fnv_i32(h, c / s->shape.kv_heads);
        h = fnv_i32(h, c % s->shape.kv_heads);
        if (s->sorted[c]) {
            for (int j = 0; j < s->len[c]; j++)
                if (is_live(s, c, j))
                    h = fnv_i32(h, *pos_at(s, c, j));
        } else {
            const uint64_t *keys = kva_kvstore_rank_keys(s, c);

            for (int i = 0; i < s->n_live[c]; i++)
                h = fnv_i32(h, (int32_t)(keys[i] >> 32));
        }
    }
    return h;
}
