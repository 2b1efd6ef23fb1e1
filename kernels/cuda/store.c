/* SPDX-License-Identifier: GPL-3.0-or-later */
/* store.c - pages of a store on the device (pages.h), and its layers as kernels see them.
 *
 * Two ranges grow and shrink together: rows of keys and values, and the positions of the
 * slots, which the kernels write and move with the rows. Tables and lengths are the
 * host's; a block of device memory per layer mirrors them and is sent again when a view
 * finds that they changed:
 *
 *     int32 len[kv_heads] | uint8 sorted[kv_heads] padded to 4 | int32
 * table[kv_heads][cap]
 *
 * Moves are collected over KV heads and run as one launch, one block a head, before
 * anything else looks at pages. */
#include "kernels/cuda/cuda.h"

#include "kernels/cuda/kv.h"
#include "kernels/cuda/mutant.h"

#include <stdlib.h>
#include <string.h>

enum { P = KVA_PAGE };

struct store {
    struct kva_pages p; /* first */
    struct kva_cuda *cu;
    struct kva_rt_range rows, pos;
    volatile int *bad; /* set by kernels: a number was not finite */

    /* the mirror */
    int32_t *block; /* device, [layers] blocks of `room` ints */
    size_t room;
    uint64_t *seen;    /* [layers] table changes that the block has; 0: none */
    int32_t *head_now; /* [layers][small] lengths and sorted bytes that the block has */
    int32_t *staged;   /* [room] a block being put together */
    uint32_t *live, *live_now; /* mask mode: device, and what it has */
};

/* Moves of one pair of stores that wait for their launch. */
struct kva_cuda_moves {
    struct store *to;
    const struct store *from;
    bool together; /* in place and stable */
    struct kva_dev_move *move;
    int heads, cap_heads, longest;
    int32_t *list; /* slots and pages of all of them */
    size_t n, cap;
};

static struct store *store_of(const struct kva_pages *p)
{
    return (struct store *)(uintptr_t)p;
}

static struct kva_dev_pages pages_of(const struct store *s)
{
    return (struct kva_dev_pages){.base = s->rows.base,
                                  .page_bytes = s->p.page_bytes,
                                  .pos = (int32_t *)(void *)s->pos.base,
                                  .dim_k = s->p.shape.dim_k,
                                  .dim_v = s->p.shape.dim_v,
                                  .f16 = s->p.shape.type == KVA_F16};
}

/* Ints of a layer's lengths and sorted bytes. */
static size_t small_ints(const struct store *s)
{
    size_t heads = (size_t)s->p.shape.kv_heads;

    return heads + (heads + 3) / 4;
}

static void lost(struct kva_cuda *cu, const char *what)
{
    struct kva_error err = {0};

    (void)KVA_FAIL(&err, KVA_ENOMEM, "KV store: %s", what);
    kva_cuda_fail(cu, &err);
}

/* ---- moves ---- */

void kva_cuda_moves_free(struct kva_cuda *cu)
{
    if (cu->moves) {
        free(cu->moves->move);
        free(cu->moves->list);
        free(cu->moves);
    }
    cu->moves = NULL;
}

static void flush(struct kva_cuda *cu)
{
    struct kva_cuda_moves *q = cu->moves;
    struct kva_cuda_list l[2];

    if (q == NULL || q->heads == 0)
        return;
    l[0] = (struct kva_cuda_list){q->move, (size_t)q->heads * sizeof *q->move, NULL};
    l[1] = (struct kva_cuda_list){q->list, q->n * sizeof *q->list, NULL};
    kva_cuda_lists(cu, l, 2);
    if (!cu->failed)
        kva_kv_move(pages_of(q->to), pages_of(q->from), l[0].device, l[1].device,
                    q->heads, q->longest, q->together, cu->stream);
    q->heads = 0;
    q->longest = 0;
    q->n = 0;
}

void kva_cuda_moves_flush(struct kva_cuda *cu)
{
    flush(cu);
    kva_cuda_done(cu);
}

/* Room for one head more and `ints` of lists. */
static bool room_for(struct kva_cuda_moves *q, size_t ints)
{
    struct kva_dev_move *move;
    int32_t *list;

    if (q->heads == q->cap_heads) {
        int cap = 2 * q->cap_heads + 64;

        move = kva_realloc(q->move, (size_t)cap, sizeof *move);
        if (move == NULL)
            return false;
        q->move = move;
        q->cap_heads = cap;
    }
    if (ints > q->cap - q->n) {
        size_t cap = 2 * q->cap + ints;

        list = kva_realloc(q->list, cap, sizeof *list);
        if (list == NULL)
            return false;
        q->list = list;
        q->cap = cap;
    }
    return true;
}

static int64_t put(struct kva_cuda_moves *q, const int32_t *x, size_t n)
{
    int64_t at = (int64_t)q->n;

    if (x == NULL)
        return -1;
    memcpy(q->list + q->n, x, n * sizeof *x);
    q->n += n;
    return at;
}

static int32_t largest(const int32_t *slot, int n)
{
    int32_t most = n - 1;

    for (int i = 0; slot && i < n; i++)
        most = slot[i] > most ? slot[i] : most;
    return most;
}

/* Whether moves of the head whose first page this is wait already. */
static bool waits(const struct kva_cuda_moves *q, int32_t page)
{
    for (int h = 0; h < q->heads; h++)
        if (q->list[q->move[h].to_pages] == page)
            return true;
    return false;
}

static bool queue(struct kva_cuda *cu, struct store *to, const struct store *from,
                  const struct kva_page_move *m)
{
    struct kva_cuda_moves *q = cu->moves;
    bool together = to == from && m->to == NULL;
    size_t n = (size_t)m->n, src = (size_t)largest(m->from, m->n) / P + 1,
           dst = (size_t)largest(m->to, m->n) / P + 1;
    struct kva_dev_move d = {.n = m->n};

    if (q == NULL)
        q = cu->moves = kva_calloc(1, sizeof *q);
    if (q == NULL)
        return false;
    if (q->to != to || q->from != from || q->together != together ||
        waits(q, m->to_table[0]))
        flush(cu);
    if (!room_for(q, 2 * n + src + dst))
        return false;
    q->to = to;
    q->from = from;
    q->together = together;
    if (together) { /* entries that stay where they are, tile by tile */
        int stay = 0;

        while (stay < m->n && (m->from == NULL || m->from[stay] == stay))
            stay++;
        if (stay == m->n)
            return true;
        d.start = stay / P * P;
    }
    d.from = put(q, m->from, n);
    d.to = put(q, m->to, n);
    d.from_pages = put(q, m->from_table, src);
    d.to_pages = put(q, m->to_table, dst);
    q->move[q->heads++] = d;
    q->longest = m->n > q->longest ? m->n : q->longest;
    return true;
}

static void move_rows(struct kva_pages *to, const struct kva_pages *from,
                      const struct kva_page_move *m, int heads)
{
    struct kva_cuda *cu = store_of(to)->cu;

    for (int h = 0; h < heads; h++)
        if (m[h].n > 0 && !queue(cu, store_of(to), store_of(from), &m[h]))
            lost(cu, "lists of moved entries");
}

/* ---- life ---- */

static size_t granule(struct kva_ops *ops)
{
    return kva_rt_granule(kva_cuda_of(ops)->rt);
}

static void mirror_free(struct store *s)
{
    kva_cuda_give(s->cu, s->block,
                  (size_t)s->p.shape.layers * s->room * sizeof *s->block);
    s->block = NULL;
    s->room = 0;
}

static void destroy(struct kva_pages *p)
{
    struct store *s = p ? store_of(p) : NULL;

    if (s == NULL)
        return;
    if (s->cu->moves && (s->cu->moves->to == s || s->cu->moves->from == s)) {
        kva_cuda_moves_flush(s->cu);
        s->cu->moves->to = NULL;
        s->cu->moves->from = NULL;
    }
    kva_cuda_watch(s->cu);
    s->cu->pages -= s->rows.committed;
    kva_rt_release(s->cu->rt, &s->rows);
    s->cu->taken -= s->pos.committed;
    kva_rt_release(s->cu->rt, &s->pos);
    kva_rt_flag_free(s->cu->rt, (int *)(uintptr_t)s->bad);
    mirror_free(s);
    kva_cuda_give(s->cu, s->live, s->p.page_cap * sizeof *s->live);
    free(s->live_now);
    free(s->seen);
    free(s->head_now);
    free(s->staged);
    free(s);
}

static size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

static enum kva_status create(struct kva_ops *ops, const struct kva_kvshape *shape,
                              size_t page_cap, size_t reserved_bytes, size_t chunk_bytes,
                              struct kva_pages **pages, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t element = shape->type == KVA_F16 ? 2 : 4, step = kva_rt_granule(cu->rt);
    struct store *s = kva_calloc(1, sizeof *s);

    if (s == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "pages of a KV store");
    s->cu = cu;
    s->p.ops = ops;
    s->p.shape = *shape;
    s->p.k_bytes = (size_t)shape->dim_k * element;
    s->p.v_bytes = (size_t)shape->dim_v * element;
    s->p.page_bytes = P * (s->p.k_bytes + s->p.v_bytes);
    s->p.page_cap = page_cap;
    s->p.reserved_bytes = reserved_bytes;
    s->seen = kva_calloc((size_t)shape->layers, sizeof *s->seen);
    s->head_now = kva_calloc((size_t)shape->layers * small_ints(s), sizeof *s->head_now);
    s->bad = kva_rt_flag_new(cu->rt);
    if (!s->seen || !s->head_now || !s->bad) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "pages of a KV store");
        goto out;
    }
    KVA_GO(kva_rt_reserve(cu->rt, reserved_bytes, chunk_bytes, &s->rows, err));
    KVA_GO(kva_rt_reserve(cu->rt, round_up(page_cap * P * sizeof(int32_t), step), step,
                          &s->pos, err));
    s->p.base = s->rows.base;
    s->p.resident = s->rows.resident && s->pos.resident;
    *pages = &s->p;
    s = NULL;
out:
    kva_context(err, "KV store");
    destroy(s ? &s->p : NULL);
    return kva_ops_reason(ops, rc, err);
}

/* Bytes of positions that `bytes` of rows need. */
static size_t pos_bytes(const struct store *s, size_t bytes)
{
    size_t pages = (bytes + s->p.page_bytes - 1) / s->p.page_bytes, need;

    pages = pages < s->p.page_cap ? pages : s->p.page_cap;
    need = round_up(pages * P * sizeof(int32_t), s->pos.chunk);
    return need < s->pos.bytes ? need : s->pos.bytes;
}

static enum kva_status commit(struct kva_pages *p, size_t from, size_t bytes,
                              struct kva_error *err)
{
    struct store *s = store_of(p);
    size_t have = s->pos.committed, want = pos_bytes(s, from + bytes),
           rows = s->rows.committed;
    enum kva_status rc = KVA_OK;

    if (want > have)
        KVA_GO(kva_rt_commit(s->cu->rt, &s->pos, have, want - have, err));
    rc = kva_rt_commit(s->cu->rt, &s->rows, from, bytes, err);
    if (rc != KVA_OK && want > have)
        kva_rt_decommit(s->cu->rt, &s->pos, have, want - have);
    s->cu->taken += s->pos.committed - have;
    s->cu->pages += s->rows.committed - rows;
out:
    kva_context(err, "KV store");
    return rc;
}

static void decommit(struct kva_pages *p, size_t from, size_t bytes)
{
    struct store *s = store_of(p);
    size_t have = s->pos.committed, want = pos_bytes(s, from), rows = s->rows.committed;

    kva_cuda_moves_flush(s->cu);
    kva_cuda_watch(s->cu);
    kva_rt_decommit(s->cu->rt, &s->rows, from, bytes);
    if (want < have)
        kva_rt_decommit(s->cu->rt, &s->pos, want, have - want);
    s->cu->taken -= have - s->pos.committed;
    s->cu->pages -= rows - s->rows.committed;
}

/* ---- rows ---- */

static bool fits(const struct kva_pages *p, const struct kva_page_write *w)
{
    (void)p;
    (void)w;
    return true; /* `sound` tells, later */
}

static bool sound(const struct kva_pages *p)
{
    const struct store *s = store_of(p);

    kva_cuda_moves_flush(s->cu);
    (void)kva_rt_sync(s->cu->rt, NULL);
    return *s->bad == 0;
}

/* The pages that each head writes to, from the one that holds its next slot. */
static void write_rows(struct kva_pages *p, const struct kva_page_write *w)
{
    struct store *s = store_of(p);
    struct kva_cuda *cu = s->cu;
    size_t heads = (size_t)w->heads, tokens = (size_t)w->tokens;
    size_t span = (tokens + 2 * P - 2) / P, n = heads * (1 + span) + tokens;
    struct kva_dev_append a = {.k_stride = w->k_stride,
                               .v_stride = w->v_stride,
                               .heads = w->heads,
                               .tokens = w->tokens,
                               .span = (int)span,
                               .bad = (int *)(uintptr_t)s->bad};
    int32_t *list;
    const int32_t *at;

    if (tokens == 0)
        return;
    flush(cu);
    list = kva_calloc(n, sizeof *list);
    if (list == NULL) {
        lost(cu, "list of written pages");
        return;
    }
    for (size_t h = 0; h < heads; h++) {
        const int32_t *row = w->table + h * (size_t)w->table_cap;
        int first = w->len[h] / P, last = (w->len[h] + w->tokens - 1) / P;

        list[h] = w->len[h] % P;
        for (int i = first; i <= last; i++)
            list[heads + h * span + (size_t)(i - first)] = row[i];
    }
    memcpy(list + heads * (1 + span), w->pos, tokens * sizeof *list);
    at = kva_cuda_list(cu, list, n * sizeof *list);
    free(list);
    a.first = at;
    a.pages = at + heads;
    a.pos = at + heads * (1 + span);
    a.k = kva_cuda_in(
        cu, w->k, (tokens - 1) * (size_t)w->k_stride + heads * (size_t)p->shape.dim_k);
    a.v = kva_cuda_in(
        cu, w->v, (tokens - 1) * (size_t)w->v_stride + heads * (size_t)p->shape.dim_v);
    if (!cu->failed)
        kva_kv_append(pages_of(s), a, cu->stream);
    kva_cuda_done(cu);
}

/* Pages that the slots reach. */
static size_t pages_reached(const struct kva_page_read *r)
{
    int last = r->slot ? largest(r->slot, r->n) : r->first + r->n - 1;

    return r->n > 0 ? (size_t)last / P + 1 : 0;
}

static void read_rows(const struct kva_pages *p, const struct kva_page_read *r, int heads,
                      float *k, float *v)
{
    struct store *s = store_of(p);
    struct kva_cuda *cu = s->cu;
    struct kva_dev_read *d = kva_calloc((size_t)heads, sizeof *d);
    size_t rows = 0, n = 0;
    int longest = 0;
    int32_t *list;
    struct kva_cuda_list l[2];

    for (int h = 0; h < heads; h++)
        n += pages_reached(&r[h]) + (r[h].slot ? (size_t)r[h].n : 0);
    list = kva_calloc(n, sizeof *list);
    if (d == NULL || list == NULL) {
        lost(cu, "lists of entries read");
        goto out;
    }
    n = 0;
    for (int h = 0; h < heads; h++) {
        size_t pages = pages_reached(&r[h]), slots = r[h].slot ? (size_t)r[h].n : 0;

        d[h] = (struct kva_dev_read){.row = rows,
                                     .slot = r[h].slot ? (int64_t)(n + pages) : -1,
                                     .pages = (int64_t)n,
                                     .first = r[h].first,
                                     .n = r[h].n};
        memcpy(list + n, r[h].table, pages * sizeof *list);
        if (slots > 0)
            memcpy(list + n + pages, r[h].slot, slots * sizeof *list);
        n += pages + slots;
        rows += (size_t)r[h].n;
        longest = r[h].n > longest ? r[h].n : longest;
    }
    if (rows == 0)
        goto out;
    flush(cu);
    l[0] = (struct kva_cuda_list){d, (size_t)heads * sizeof *d, NULL};
    l[1] = (struct kva_cuda_list){list, n * sizeof *list, NULL};
    kva_cuda_lists(cu, l, 2);
    k = kva_cuda_out(cu, k, rows * (size_t)p->shape.dim_k);
    v = kva_cuda_out(cu, v, rows * (size_t)p->shape.dim_v);
    if (!cu->failed)
        kva_kv_read(pages_of(s), l[0].device, l[1].device, heads, longest, k, v,
                    cu->stream);
    kva_cuda_done(cu);
out:
    free(d);
    free(list);
}

static void write_keys(struct kva_pages *p, const int32_t *table, const int32_t *slot,
                       int n, const float *k, const int32_t *pos)
{
    struct store *s = store_of(p);
    struct kva_cuda *cu = s->cu;
    struct kva_cuda_list l[3] = {
        {table, ((size_t)largest(slot, n) / P + 1) * sizeof *table, NULL},
        {slot, (size_t)n * sizeof *slot, NULL},
        {pos, (size_t)n * sizeof *pos, NULL},
    };
    const float *from;

    if (n == 0)
        return;
    flush(cu);
    kva_cuda_lists(cu, l, 3);
    from = kva_cuda_in(cu, k, (size_t)n * (size_t)p->shape.dim_k);
    if (!cu->failed)
        kva_kv_keys(pages_of(s), l[0].device, l[1].device, n, from, l[2].device,
                    (int *)(uintptr_t)s->bad, cu->stream);
    kva_cuda_done(cu);
}

static void copy_pages(struct kva_pages *p, const int32_t *from, const int32_t *to,
                       size_t n)
{
    struct store *s = store_of(p);
    struct kva_cuda *cu = s->cu;
    struct kva_cuda_list l[2] = {{from, n * sizeof *from, NULL},
                                 {to, n * sizeof *to, NULL}};

    if (n == 0)
        return;
    flush(cu);
    kva_cuda_lists(cu, l, 2);
    if (!cu->failed)
        kva_kv_copy(pages_of(s), l[0].device, l[1].device, n, cu->stream);
    kva_cuda_done(cu);
}

static void poison(struct kva_pages *p, int32_t page, int slot, int end)
{
    struct store *s = store_of(p);

    flush(s->cu);
    if (!s->cu->failed)
        kva_kv_poison(pages_of(s), page, slot, end, s->cu->stream);
    kva_cuda_done(s->cu);
}

const struct kva_page_ops kva_cuda_pages = {
    .granule = granule,
    .create = create,
    .destroy = destroy,
    .commit = commit,
    .decommit = decommit,
    .fits = fits,
    .write = write_rows,
    .sound = sound,
    .move = move_rows,
    .read = read_rows,
    .write_keys = write_keys,
    .copy = copy_pages,
    .poison = poison,
};

/* ---- views ---- */

/* Room for tables of `cap` pages a row: a larger mirror forgets what the smaller had. */
static bool grow(struct store *s, size_t ints)
{
    size_t layers = (size_t)s->p.shape.layers, room = 2 * s->room;
    int32_t *staged;

    if (ints <= s->room)
        return true;
    room = room > ints ? room : ints;
    staged = kva_realloc(s->staged, room, sizeof *staged);
    if (staged == NULL)
        return false;
    s->staged = staged;
    mirror_free(s);
    memset(s->seen, 0, layers * sizeof *s->seen);
    s->block = kva_cuda_take(s->cu, layers * room * sizeof *s->block, false);
    if (s->block == NULL)
        return false;
    s->room = room;
    return true;
}

static void send_layer(struct store *s, const struct kva_kv_view *v, int32_t *block)
{
    size_t heads = (size_t)v->kv_heads, small = small_ints(s),
           table = heads * (size_t)v->table_cap;
    int32_t *now = s->head_now + (size_t)v->layer * small;
    bool whole = s->seen[v->layer] != v->tables && !(KVA_MUT(13) && s->seen[v->layer]);

    if (!whole && memcmp(now, v->len, heads * sizeof *now) == 0 &&
        memcmp(now + heads, v->sorted, heads) == 0)
        return;
    memcpy(now, v->len, heads * sizeof *now);
    memcpy(now + heads, v->sorted, heads);
    memcpy(s->staged, now, small * sizeof *now);
    if (whole)
        memcpy(s->staged + small, v->table, table * sizeof *now);
    kva_rt_upload(s->cu->rt, block, s->staged,
                  (small + (whole ? table : 0)) * sizeof *block);
    s->seen[v->layer] = v->tables;
}

/* The changed part of the mask, over all pages that have memory. */
static bool send_live(struct store *s, const struct kva_kv_view *v)
{
    size_t pages = s->rows.committed / s->p.page_bytes, first = 0;

    pages = pages < s->p.page_cap ? pages : s->p.page_cap;
    if (s->live == NULL) {
        s->live_now = kva_calloc(s->p.page_cap, sizeof *s->live_now);
        s->live = kva_cuda_take(s->cu, s->p.page_cap * sizeof *s->live, false);
        if (s->live == NULL || s->live_now == NULL)
            return false;
        kva_rt_fill(s->cu->rt, s->live, 0, s->p.page_cap * sizeof *s->live);
    }
    while (first < pages && s->live_now[first] == v->live[first])
        first++;
    while (pages > first && s->live_now[pages - 1] == v->live[pages - 1])
        pages--;
    if (pages > first) {
        memcpy(s->live_now + first, v->live + first, (pages - first) * sizeof *s->live);
        kva_rt_upload(s->cu->rt, s->live + first, v->live + first,
                      (pages - first) * sizeof *s->live);
    }
    return true;
}

struct kva_dev_view kva_cuda_view(struct kva_cuda *cu, const struct kva_kv_view *v)
{
    struct store *s = store_of(v->pages);
    size_t heads = (size_t)v->kv_heads, small = small_ints(s);
    struct kva_dev_view d = {.base = s->rows.base,
                             .page_bytes = v->page_bytes,
                             .pos = (const int32_t *)(const void *)s->pos.base,
                             .table_cap = v->table_cap,
                             .kv_heads = v->kv_heads,
                             .dim_k = v->dim_k,
                             .dim_v = v->dim_v,
                             .f16 = v->type == KVA_F16};
    int32_t *block;

    flush(cu);
    for (int h = 0; h < v->kv_heads; h++)
        d.longest = v->len[h] > d.longest ? v->len[h] : d.longest;
    if (cu->failed)
        return d;
    if (!grow(s, small + heads * (size_t)v->table_cap) || (v->live && !send_live(s, v))) {
        lost(cu, "tables on the device");
        return d;
    }
    block = s->block + (size_t)v->layer * s->room;
    send_layer(s, v, block);
    d.len = block;
    d.sorted = (const uint8_t *)(block + heads);
    d.table = block + small;
    d.live = s->live;
    return d;
}
