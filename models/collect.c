/* SPDX-License-Identifier: GPL-3.0-or-later */
/* collect.c - column sums, chunk attention and query statistics of a session.
 *
 *     columns  side[j] += sum over rows i and the group's heads a of A[a][i][j]
 *     chunks   side[j]  = 1/G sum_a sum_i softmax_j(q_i . k_j), i and j of one chunk
 *     queries  mean = 1/n sum q,  cov = 1/n sum q q' - mean mean'      (pre-RoPE, double)
 *
 * Columns are added up where their weights arise, in attention, row by row. The queries
 * of a chunk wait in a tile; a chunk ends after `chunk` tokens, at a decision, or at the
 * end of the prompt. None of that depends on how the prompt was cut. The sum over a tile
 * is its size times the mean that the backend's window attention gives. */
#include "models/collect.h"

#include "models/model_impl.h"

#include <stdlib.h>
#include <string.h>

struct sums {
    float *x;
    int n, cap;
    float *slots; /* COLUMNS: the same in slot order while they are not sorted */
    int32_t *index;
    int slots_cap;
    bool apart; /* attention adds to `slots`, until kva_collector_end */
};

struct kva_collector {
    struct kva_model *m;
    struct kva_collect want;
    int32_t added; /* behind the last query that is in the sums for good */
    /* COLUMNS, CHUNKS, REPLAY */
    struct sums *head; /* [layers * kv_heads] rank order */
    int rows;          /* capacity of a tile; 0: no tiles */
    float *tile;       /* [layers][rows][heads * head_dim] queries not yet added */
    int32_t *tile_pos; /* [layers][rows] */
    int *tile_n;       /* [layers] */
    bool set;          /* REPLAY: somebody has set the sums */
    float *side;       /* what kva_collector_side hands out */
    size_t side_cap;
    /* QUERIES: sums in the backend's memory, the statistics of one layer in the host's */
    double *sum;    /* [layers][heads][dim] */
    double *square; /* [layers][heads][dim][dim], lower triangle */
    int64_t *count; /* [layers] */
    double *mean, *cov;
    struct kva_query_stats stats;
};

static size_t width(const struct kva_collector *c)
{
    return (size_t)c->m->arch.heads * (size_t)c->m->arch.head_dim;
}

bool kva_collect_same(const struct kva_collect *a, const struct kva_collect *b)
{
    return a->kind == b->kind && a->chunk == b->chunk && a->start == b->start &&
           a->restart == b->restart && a->plus == b->plus && a->pad == b->pad;
}

const struct kva_collect *kva_collector_want(const struct kva_collector *c)
{
    return &c->want;
}

/* Sums of queries, all 0. False: no memory. */
static bool new_queries(struct kva_collector *c)
{
    const struct kva_arch *a = &c->m->arch;
    struct kva_ops *ops = c->m->ops;
    const size_t layers = (size_t)a->layers, d = (size_t)a->head_dim,
                 n = (size_t)a->heads * d, one = n * sizeof *c->sum;

    c->count = kva_calloc(layers, sizeof *c->count);
    c->mean = kva_calloc(n, sizeof *c->mean);
    c->cov = kva_calloc(n * d, sizeof *c->cov);
    c->sum = ops->alloc(ops, layers * one, KVA_MEM_DEVICE);
    c->square = ops->alloc(ops, layers * one * d, KVA_MEM_DEVICE);
    if (!c->count || !c->mean || !c->cov || !c->sum || !c->square)
        return false;
    for (size_t l = 0; l < layers; l++) {
        ops->copy(ops, c->sum + l * n, c->mean, one);
        ops->copy(ops, c->square + l * n * d, c->cov, one * d);
    }
    return true;
}

enum kva_status kva_collector_new(struct kva_model *m, const struct kva_collect *want,
                                  struct kva_collector **out, struct kva_error *err)
{
    const struct kva_arch *a = &m->arch;
    size_t layers = (size_t)a->layers, heads = (size_t)a->heads, d = (size_t)a->head_dim;
    struct kva_collector *c = kva_calloc(1, sizeof *c);

    *out = NULL;
    if (c == NULL)
        goto nomem;
    c->m = m;
    c->want = *want;
    if (want->kind == KVA_COLLECT_QUERIES) {
        if (!new_queries(c))
            goto nomem;
    } else {
        c->rows = want->kind == KVA_COLLECT_CHUNKS ? want->chunk : 0;
        c->head = kva_calloc(layers * (size_t)a->kv_heads, sizeof *c->head);
        c->tile_n = kva_calloc(layers, sizeof *c->tile_n);
        c->tile_pos = kva_calloc(layers * (size_t)c->rows + 1, sizeof *c->tile_pos);
        c->tile = kva_calloc(layers * (size_t)c->rows * heads * d + 1, sizeof *c->tile);
        if (!c->head || !c->tile_n || !c->tile_pos || !c->tile)
            goto nomem;
    }
    *out = c;
    return KVA_OK;
nomem:
    kva_collector_free(c);
    return KVA_FAIL(err, KVA_ENOMEM, "sums over the prompt: out of memory");
}

void kva_collector_free(struct kva_collector *c)
{
    if (c == NULL)
        return;
    for (int i = 0; c->head && i < c->m->arch.layers * c->m->arch.kv_heads; i++) {
        free(c->head[i].x);
        free(c->head[i].slots);
        free(c->head[i].index);
    }
    free(c->head);
    free(c->tile);
    free(c->tile_pos);
    free(c->tile_n);
    free(c->side);
    c->m->ops->release(c->m->ops, c->sum, KVA_MEM_DEVICE);
    c->m->ops->release(c->m->ops, c->square, KVA_MEM_DEVICE);
    free(c->count);
    free(c->mean);
    free(c->cov);
    free(c);
}

uint64_t kva_collector_bytes(const struct kva_collector *c)
{
    const struct kva_arch *a = &c->m->arch;
    uint64_t layers = (uint64_t)a->layers, d = (uint64_t)a->head_dim, bytes = 0;

    if (c->want.kind == KVA_COLLECT_QUERIES)
        return layers * (uint64_t)a->heads * (d + d * d) * sizeof(double);
    for (int i = 0; i < a->layers * a->kv_heads; i++)
        bytes += (uint64_t)c->head[i].n * sizeof(float) +
                 (uint64_t)c->head[i].slots_cap * (sizeof(float) + sizeof(int32_t));
    return bytes + layers * (uint64_t)c->rows * (width(c) * sizeof(float) + 4);
}

/* ---- sums follow the store ---- */

/* As many sums as the KV head has live entries: new ones are 0, the newest go first. */
static enum kva_status sync_head(struct kva_collector *c, const struct kva_kvstore *store,
                                 int layer, int head, struct kva_error *err)
{
    struct sums *s = &c->head[layer * c->m->arch.kv_heads + head];
    int n = kva_kvstore_live(store, layer, head);

    if (n > s->cap) {
        int cap = n + n / 4 + 64;
        float *grown = kva_realloc(s->x, (size_t)cap, sizeof *grown);

        if (grown == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "sums of %d entries", n);
        s->x = grown;
        s->cap = cap;
    }
    if (n > s->n)
        memset(s->x + s->n, 0, (size_t)(n - s->n) * sizeof *s->x);
    s->n = n;
    return KVA_OK;
}

static enum kva_status sync_layer(struct kva_collector *c,
                                  const struct kva_kvstore *store, int layer,
                                  struct kva_error *err)
{
    for (int h = 0; h < c->m->arch.kv_heads; h++)
        KVA_TRY(sync_head(c, store, layer, h, err));
    return KVA_OK;
}

/* ---- tiles ---- */

/* Keys of a layer at positions [lo, hi); which[h] is the rank of the first. */
static enum kva_status layer_keys(const struct kva_collector *c,
                                  const struct kva_kvstore *store, int layer, int32_t lo,
                                  int32_t hi, struct kva_arena *arena,
                                  struct kva_rows *rows, int32_t **pos, int **which,
                                  struct kva_error *err)
{
    const struct kva_arch *a = &c->m->arch;
    size_t *off = kva_arena_alloc(arena, (size_t)a->kv_heads + 1, sizeof *off);
    size_t all = 0, used = 0;

    *which = kva_arena_alloc(arena, (size_t)a->kv_heads, sizeof **which);
    for (int h = 0; h < a->kv_heads; h++)
        all += (size_t)kva_kvstore_live(store, layer, h);
    *pos = kva_arena_alloc(arena, all, sizeof **pos);
    if (!off || !*which || !*pos)
        goto nomem;
    for (int h = 0; h < a->kv_heads; h++) {
        int n = kva_kvstore_live(store, layer, h), first = 0, last = n;
        int32_t *p = *pos + used;

        kva_kvstore_positions(store, layer, h, p);
        while (first < n && p[first] < lo)
            first++;
        while (last > first && p[last - 1] >= hi)
            last--;
        memmove(p, p + first, (size_t)(last - first) * sizeof *p);
        (*which)[h] = first;
        used += (size_t)(last - first);
        off[h + 1] = used;
    }
    *rows = (struct kva_rows){.off = off, .heads = a->kv_heads, .dim = a->head_dim};
    rows->data = kva_arena_alloc(arena, used * (size_t)a->head_dim, sizeof *rows->data);
    if (!rows->data)
        goto nomem;
    return kva_kvstore_gather_layer(store, layer, *which, off, rows->data, NULL, err);
nomem:
    return KVA_FAIL(err, KVA_ENOMEM, "keys of %zu entries", all);
}

/* Puts `extra` zero rows behind the rows of every KV head. */
static enum kva_status pad_keys(struct kva_rows *rows, int32_t **pos, size_t extra,
                                struct kva_arena *arena, struct kva_error *err)
{
    const size_t d = (size_t)rows->dim, heads = (size_t)rows->heads;
    const size_t n = rows->off[heads] + heads * extra;
    size_t *off = kva_arena_alloc(arena, heads + 1, sizeof *off);
    float *data = kva_arena_alloc(arena, n * d, sizeof *data);

    *pos = kva_arena_alloc(arena, n, sizeof **pos);
    if (!off || !data || !*pos)
        return KVA_FAIL(err, KVA_ENOMEM, "keys of %zu entries", n);
    memset(data, 0, n * d * sizeof *data);
    for (size_t h = 0; h < heads; h++) {
        size_t held = rows->off[h + 1] - rows->off[h];

        off[h + 1] = off[h] + held + extra;
        memcpy(data + off[h] * d, rows->data + rows->off[h] * d, held * d * sizeof *data);
    }
    rows->data = data;
    rows->off = off;
    return KVA_OK;
}

/* Adds a layer's tile to to[kv_heads], arrays in rank order; the tile stays. */
static enum kva_status add_tile(const struct kva_collector *c,
                                const struct kva_kvstore *store, int layer,
                                float *const *to, struct kva_error *err)
{
    const struct kva_arch *a = &c->m->arch;
    const int n = c->tile_n[layer], group = a->heads / a->kv_heads;
    const int extra = c->want.pad && n > 0 ? c->want.chunk - n : 0;
    float *q = c->tile + (size_t)layer * (size_t)c->rows * width(c);
    int32_t *pos = c->tile_pos + (size_t)layer * (size_t)c->rows, *k_pos;
    struct kva_arena arena;
    struct kva_rows keys;
    size_t *off;
    float *m;
    int *which;
    enum kva_status rc;

    if (n == 0)
        return KVA_OK;
    kva_arena_init(&arena);
    KVA_GO(layer_keys(c, store, layer, pos[0], pos[n - 1] + 1, &arena, &keys, &k_pos,
                      &which, err));
    if (extra > 0)
        KVA_GO(pad_keys(&keys, &k_pos, (size_t)extra, &arena, err));
    off = kva_arena_alloc(&arena, (size_t)a->heads + 1, sizeof *off);
    if (off == NULL)
        goto nomem;
    for (int i = 0; i < a->heads; i++)
        off[i + 1] = off[i] + keys.off[i / group + 1] - keys.off[i / group];
    m = kva_arena_alloc(&arena, off[a->heads] + 1, sizeof *m);
    if (m == NULL)
        goto nomem;
    for (size_t j = 0; j < keys.off[a->kv_heads]; j++)
        k_pos[j] = 0; /* a chunk sees itself whole */
    c->m->ops->window_mean(c->m->ops, q, pos, n, a->heads, &keys, k_pos, 1.0f, m, off);
    for (int i = 0; i < a->heads; i++) {
        float *x = to[i / group] + which[i / group];
        const float by = (float)n / (float)group;
        /* zero queries see a chunk evenly */
        const float even =
            extra > 0 ? (float)extra / (float)(c->want.chunk * group) : 0.0f;

        for (size_t j = off[i]; j < off[i + 1] - (size_t)extra; j++)
            x[j - off[i]] += by * m[j] + even;
    }
out:
    kva_arena_release(&arena);
    return rc;
nomem:
    rc = KVA_FAIL(err, KVA_ENOMEM, "attention of %d queries", n);
    goto out;
}

/* Adds the tile to the sums and empties it. */
static enum kva_status end_tile(struct kva_collector *c, const struct kva_kvstore *store,
                                int layer, struct kva_error *err)
{
    const int heads = c->m->arch.kv_heads;
    int32_t last;
    float **to;
    enum kva_status rc;

    KVA_TRY(sync_layer(c, store, layer, err));
    if (c->tile_n[layer] == 0)
        return KVA_OK;
    to = kva_calloc((size_t)heads, sizeof(float *));
    if (to == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "sums of %d KV heads", heads);
    for (int h = 0; h < heads; h++)
        to[h] = c->head[layer * heads + h].x;
    last = c->tile_pos[(size_t)layer * (size_t)c->rows + (size_t)c->tile_n[layer] - 1];
    c->added = last >= c->added ? last + 1 : c->added;
    rc = add_tile(c, store, layer, to, err);
    c->tile_n[layer] = 0;
    free(to);
    return rc;
}

/* ---- columns ---- */

bool kva_collector_columns(const struct kva_collector *c)
{
    return c->want.kind == KVA_COLLECT_COLUMNS;
}

/* Room for the sums of the layer, and for their slot order where that is another. */
static enum kva_status prepare_columns(struct kva_collector *c,
                                       const struct kva_kvstore *store, int layer,
                                       int32_t last, struct kva_error *err)
{
    const int heads = c->m->arch.kv_heads;
    struct kva_kv_view view;

    KVA_TRY(sync_layer(c, store, layer, err));
    kva_kvstore_view(store, layer, &view);
    for (int h = 0; h < heads; h++) {
        struct sums *s = &c->head[layer * heads + h];

        if (s->n > KVA_SUM_ENTRIES)
            return KVA_FAIL(err, KVA_EINVALID,
                            "sums of attention over %d entries; at "
                            "most %d",
                            s->n, KVA_SUM_ENTRIES);
        if (view.sorted[h])
            continue;
        if (s->n > s->slots_cap) {
            int cap = s->n + s->n / 4 + 64;
            float *slots = kva_realloc(s->slots, (size_t)cap, sizeof *slots);
            int32_t *index;

            s->slots = slots != NULL ? slots : s->slots;
            index =
                slots == NULL ? NULL : kva_realloc(s->index, (size_t)cap, sizeof *index);
            if (index == NULL)
                return KVA_FAIL(err, KVA_ENOMEM, "sums of %d entries", s->n);
            s->index = index;
            s->slots_cap = cap;
        }
        s->apart = kva_kvstore_slot_order(store, layer, h, s->index);
        for (int r = 0; s->apart && r < s->n; r++)
            s->slots[s->index[r]] = s->x[r];
    }
    c->added = last >= c->added ? last + 1 : c->added;
    return KVA_OK;
}

void kva_collector_begin(struct kva_collector *c, int layer, float **sums)
{
    const int heads = c->m->arch.kv_heads;

    for (int h = 0; h < heads; h++) {
        struct sums *s = &c->head[layer * heads + h];

        sums[h] = s->apart ? s->slots : s->x;
    }
}

void kva_collector_end(struct kva_collector *c, int layer)
{
    const int heads = c->m->arch.kv_heads;

    for (int h = 0; h < heads; h++) {
        struct sums *s = &c->head[layer * heads + h];

        for (int r = 0; s->apart && r < s->n; r++)
            s->x[r] = s->slots[s->index[r]];
        s->apart = false;
    }
}

/* ---- queries ---- */

bool kva_collector_follows(const struct kva_collector *c)
{
    return c->rows > 0;
}

static void add_queries(struct kva_collector *c, int layer, const float *raw,
                        const int32_t *pos, int n)
{
    const struct kva_arch *a = &c->m->arch;
    const size_t d = (size_t)a->head_dim, at = (size_t)layer * (size_t)a->heads;
    int skip = 0;

    while (skip < n && pos[skip] < c->want.start)
        skip++;
    if (skip == n)
        return;
    c->m->ops->row_moments(c->m->ops, raw + (size_t)skip * width(c), (int)width(c),
                           n - skip, a->heads, a->head_dim, c->sum + at * d,
                           c->square + at * d * d);
    c->count[layer] += n - skip;
    c->added = n > skip && pos[n - 1] >= c->added ? pos[n - 1] + 1 : c->added;
}

enum kva_status kva_collector_rows(struct kva_collector *c,
                                   const struct kva_kvstore *store, int layer,
                                   const float *raw, const float *q, const int32_t *pos,
                                   int n, struct kva_error *err)
{
    if (c->want.kind == KVA_COLLECT_QUERIES) {
        add_queries(c, layer, raw, pos, n);
        return KVA_OK;
    }
    if (c->want.kind == KVA_COLLECT_COLUMNS)
        return prepare_columns(c, store, layer, pos[n - 1], err);
    for (int i = 0; c->rows > 0 && i < n; i++) {
        int *used = &c->tile_n[layer];
        size_t at = (size_t)layer * (size_t)c->rows;

        if (pos[i] < c->want.start)
            continue;
        if (*used == c->want.chunk) {
            KVA_TRY(end_tile(c, store, layer, err));
        }
        at += (size_t)(*used)++;
        c->tile_pos[at] = pos[i];
        memcpy(c->tile + at * width(c), q + (size_t)i * width(c), width(c) * sizeof *q);
    }
    return KVA_OK;
}

/* Brings the sums of every layer up to date for good: a decision ends a tile. */
static enum kva_status flush(struct kva_collector *c, const struct kva_kvstore *store,
                             struct kva_error *err)
{
    for (int l = 0; l < c->m->arch.layers; l++) {
        KVA_TRY(end_tile(c, store, l, err));
    }
    return KVA_OK;
}

enum kva_status kva_collector_keep(struct kva_collector *c,
                                   const struct kva_kvstore *store,
                                   const struct kva_keep *keep, struct kva_error *err)
{
    if (c->want.kind == KVA_COLLECT_QUERIES)
        return KVA_OK;
    KVA_TRY(flush(c, store, err));
    for (int i = 0; i < keep->layers * keep->kv_heads; i++) {
        struct sums *s = &c->head[i];
        int n = 0;

        for (size_t j = keep->off[i]; j < keep->off[i + 1]; j++)
            s->x[n++] = c->want.restart ? 0 : s->x[keep->rank[j]];
        s->n = n;
    }
    return KVA_OK;
}

enum kva_status kva_collector_drop(struct kva_collector *c,
                                   const struct kva_kvstore *store,
                                   const struct kva_keep *victims, struct kva_error *err)
{
    if (c->want.kind == KVA_COLLECT_QUERIES)
        return KVA_OK;
    KVA_TRY(flush(c, store, err));
    for (int i = 0; i < victims->layers * victims->kv_heads; i++) {
        struct sums *s = &c->head[i];
        size_t v = victims->off[i];
        int n = 0;

        for (int j = 0; j < s->n; j++) {
            if (v < victims->off[i + 1] && victims->rank[v] == j)
                v++;
            else
                s->x[n++] = c->want.restart ? 0 : s->x[j];
        }
        s->n = n;
    }
    return KVA_OK;
}

enum kva_status kva_collector_settle(struct kva_collector *c,
                                     const struct kva_kvstore *store,
                                     struct kva_error *err)
{
    return c->want.kind == KVA_COLLECT_QUERIES ? KVA_OK : flush(c, store, err);
}

int32_t kva_collector_added(const struct kva_collector *c)
{
    return c->added;
}

void kva_collector_rewind(struct kva_collector *c, const struct kva_kvstore *store,
                          int32_t pos)
{
    if (c->want.kind == KVA_COLLECT_QUERIES)
        return;
    for (int l = 0; l < c->m->arch.layers; l++) {
        int32_t *p = c->tile_pos + (size_t)l * (size_t)c->rows;

        while (c->tile_n[l] > 0 && p[c->tile_n[l] - 1] >= pos)
            c->tile_n[l]--;
        for (int h = 0; h < c->m->arch.kv_heads; h++) {
            struct sums *s = &c->head[l * c->m->arch.kv_heads + h];
            int n = kva_kvstore_live(store, l, h);

            s->n = s->n > n ? n : s->n;
        }
    }
}

enum kva_status kva_collector_copy(struct kva_collector *to,
                                   const struct kva_collector *from,
                                   const struct kva_kvstore *store,
                                   const struct kva_keep *keep, struct kva_error *err)
{
    const struct kva_arch *a = &to->m->arch;
    size_t layers = (size_t)a->layers, heads = (size_t)a->heads, d = (size_t)a->head_dim;

    to->added = from->added;
    if (to->want.kind == KVA_COLLECT_QUERIES) {
        struct kva_ops *ops = to->m->ops;
        const size_t bytes = layers * heads * d * sizeof *to->sum;

        ops->copy(ops, to->sum, from->sum, bytes);
        ops->copy(ops, to->square, from->square, bytes * d);
        memcpy(to->count, from->count, layers * sizeof *to->count);
        return KVA_OK;
    }
    to->set = from->set;
    memcpy(to->tile, from->tile,
           layers * (size_t)to->rows * width(to) * sizeof *to->tile);
    memcpy(to->tile_pos, from->tile_pos,
           layers * (size_t)to->rows * sizeof *to->tile_pos);
    memcpy(to->tile_n, from->tile_n, layers * sizeof *to->tile_n);
    for (int l = 0; l < a->layers; l++) {
        KVA_TRY(sync_layer(to, store, l, err));
        for (int h = 0; h < a->kv_heads; h++) {
            const struct sums *f = &from->head[l * a->kv_heads + h];
            struct sums *t = &to->head[l * a->kv_heads + h];

            /* entries without a sum yet are the newest ones */
            if (f->n > 0)
                memcpy(t->x, f->x, (size_t)(f->n < t->n ? f->n : t->n) * sizeof *t->x);
        }
    }
    return keep != NULL ? kva_collector_keep(to, store, keep, err) : KVA_OK;
}

const float *kva_collector_side(struct kva_collector *c, const struct kva_kvstore *store,
                                int layer)
{
    const int heads = c->m->arch.kv_heads;
    struct kva_error err = {0};
    size_t n = 0, at = 0;
    float **to;
    enum kva_status rc;

    if ((c->want.kind == KVA_COLLECT_REPLAY && !c->set) ||
        sync_layer(c, store, layer, &err) != KVA_OK)
        return NULL;
    for (int h = 0; h < heads; h++)
        n += (size_t)c->head[layer * heads + h].n;
    if (n > c->side_cap) {
        float *grown = kva_realloc(c->side, n, sizeof *grown);

        if (grown == NULL)
            return NULL;
        c->side = grown;
        c->side_cap = n;
    }
    to = kva_calloc((size_t)heads, sizeof(float *));
    if (to == NULL)
        return NULL;
    for (int h = 0; h < heads; h++) {
        const struct sums *s = &c->head[layer * heads + h];

        to[h] = c->side + at;
        if (s->n > 0)
            memcpy(to[h], s->x, (size_t)s->n * sizeof *s->x);
        at += (size_t)s->n;
    }
    /* a tile that is not full counts here and stays open: whoever reads on from this
     * state goes on with it, whether or not somebody looked */
    rc = add_tile(c, store, layer, to, &err);
    free(to);
    return rc == KVA_OK ? c->side : NULL;
}

const struct kva_query_stats *kva_collector_stats(struct kva_collector *c, int layer)
{
    const size_t d = (size_t)c->m->arch.head_dim, heads = (size_t)c->m->arch.heads,
                 one = heads * d * sizeof *c->mean;
    struct kva_ops *ops = c->m->ops;
    double n = (double)(c->count[layer] > 0 ? c->count[layer] : 1);

    ops->copy(ops, c->mean, c->sum + (size_t)layer * heads * d, one);
    ops->copy(ops, c->cov, c->square + (size_t)layer * heads * d * d, one * d);
    for (size_t i = 0; i < heads * d; i++)
        c->mean[i] /= n;
    for (size_t h = 0; h < heads; h++)
        for (size_t x = 0; x < d; x++)
            for (size_t y = 0; y <= x; y++) {
                double *cov = c->cov + h * d * d;

                cov[x * d + y] =
                    cov[x * d + y] / n - c->mean[h * d + x] * c->mean[h * d + y];
                cov[y * d + x] = cov[x * d + y];
            }
    c->stats = (struct kva_query_stats){c->mean, c->cov, c->count[layer]};
    return &c->stats;
}

enum kva_status kva_collector_set(struct kva_collector *c,
                                  const struct kva_kvstore *store, int layer, int head,
                                  const float *sum, struct kva_error *err)
{
    struct sums *s = &c->head[layer * c->m->arch.kv_heads + head];

    KVA_TRY(sync_head(c, store, layer, head, err));
    memcpy(s->x, sum, (size_t)s->n * sizeof *sum);
    c->set = true;
    return KVA_OK;
}
