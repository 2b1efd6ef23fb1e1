/* SPDX-License-Identifier: GPL-3.0-or-later */
/* session.c - one timeline: a KV store, how many tokens it saw, and its last queries.
 *
 * Positions are tokens seen, never entries held: a session that lost entries goes on
 * where it was. The query window is a ring per layer of the last post-RoPE queries, in
 * the backend's memory: a device that reads a prompt has nobody to wait for. It shrinks
 * when the session is rewound, since what was overwritten is gone, and it is turned into
 * ascending order when a scorer asks. A failed session stays failed. */
#include "models/model_impl.h"

#include <stdlib.h>
#include <string.h>

static size_t query_width(const struct kva_session *s)
{
    return (size_t)s->m->arch.heads * (size_t)s->m->arch.head_dim;
}

static int32_t *layer_positions(const struct kva_session *s, int layer)
{
    return s->q_pos + (size_t)layer * (size_t)s->q_window;
}

/* The rings' memory. The host's is not touched before it is used. */
static bool new_window(struct kva_session *s)
{
    struct kva_ops *ops = s->m->ops;
    const size_t layers = (size_t)s->m->arch.layers, window = (size_t)s->q_window,
                 one = window * query_width(s);

    s->ring = kva_calloc(layers, sizeof *s->ring);
    s->q_pos = kva_calloc(layers * window, sizeof *s->q_pos);
    if (ops->host) {
        s->q = kva_calloc(layers * one, sizeof *s->q);
    } else {
        s->order = kva_calloc(window, sizeof *s->order);
        if (s->order)
            s->q = ops->alloc(ops, (layers + 1) * one * sizeof *s->q, KVA_MEM_DEVICE);
    }
    if (!s->ring || !s->q_pos || !s->q)
        return false;
    for (size_t l = 0; l < layers; l++)
        s->ring[l].q = s->q + l * one;
    s->spare = s->order ? s->q + layers * one : NULL;
    return true;
}

/* A session without a store. */
static enum kva_status new_session(struct kva_model *m,
                                   const struct kva_session_opts *opts,
                                   struct kva_session **out, struct kva_error *err)
{
    struct kva_session *s;

    if (opts->q_window < 0)
        return KVA_FAIL(err, KVA_EINVALID, "a query window of %d tokens", opts->q_window);
    s = kva_calloc(1, sizeof *s);
    if (!s)
        goto nomem;
    s->m = m;
    s->q_window = opts->q_window;
    if (s->q_window && !new_window(s))
        goto nomem;
    s->collecting = true;
    s->collect = kva_calloc((size_t)opts->n_collect + 1, sizeof(struct kva_collector *));
    s->sums = kva_calloc((size_t)opts->n_collect * (size_t)m->arch.kv_heads + 1,
                         sizeof(float *));
    if (!s->collect || !s->sums)
        goto nomem;
    for (int i = 0; i < opts->n_collect; i++) {
        if (kva_collector_new(m, &opts->collect[i], &s->collect[i], err) != KVA_OK)
            goto nomem;
        s->n_collect++;
    }
    *out = s;
    return KVA_OK;
nomem:
    kva_session_free(s);
    return kva_ops_reason(m->ops,
                          KVA_FAIL(err, KVA_ENOMEM,
                                   "out of memory for a session with %d queries a layer",
                                   opts->q_window),
                          err);
}

enum kva_status kva_session_new(struct kva_model *m, const struct kva_session_opts *opts,
                                struct kva_session **out, struct kva_error *err)
{
    const struct kva_arch *a = &m->arch;
    struct kva_kvshape shape = {.layers = a->layers,
                                .kv_heads = a->kv_heads,
                                .dim_k = a->head_dim,
                                .dim_v = a->v_dim,
                                .type = opts->kv};
    struct kva_session *s = NULL;
    enum kva_status rc;

    if (strcmp(m->ops->numerics, "ref") == 0)
        shape.type = KVA_F32;
    else if (opts->kv != KVA_F16 && opts->kv != KVA_F32)
        return KVA_FAIL(err, KVA_EINVALID, "a cache of type %s; f16 or f32",
                        kva_type_name((uint32_t)opts->kv));
    KVA_GO(new_session(m, opts, &s, err));
    KVA_GO(kva_kvstore_new(m->ops, &shape, opts->page_cap, opts->mode, &s->store, err));
    *out = s;
    return KVA_OK;
out:
    kva_session_free(s);
    return rc;
}

static enum kva_status status_of(const struct kva_session *s, struct kva_error *err)
{
    if (s->error.code != KVA_OK && err && err->code == KVA_OK)
        *err = s->error;
    return s->error.code;
}

static struct kva_collector *collector(const struct kva_session *s,
                                       const struct kva_collect *want)
{
    for (int i = 0; i < s->n_collect; i++)
        if (kva_collect_same(kva_collector_want(s->collect[i]), want))
            return s->collect[i];
    return NULL;
}

/* What dst is to know of src beside the store: queries and sums of what stays. */
static enum kva_status copy_seen(struct kva_session *dst, const struct kva_session *src,
                                 const struct kva_keep *keep, struct kva_error *err)
{
    size_t width = query_width(src);

    dst->seen = src->seen;
    for (int l = 0; dst->q_window && src->q_window && l < dst->m->arch.layers; l++) {
        const struct kva_query_ring *r = &src->ring[l];
        int i = r->count > dst->q_window ? r->count - dst->q_window : 0;

        while (i < r->count) { /* up to the end of the ring, then the rest */
            int slot = (r->start + i) % src->q_window, n = src->q_window - slot;

            n = r->count - i < n ? r->count - i : n;
            kva_session_push_queries(dst, l, layer_positions(src, l) + slot,
                                     r->q + (size_t)slot * width, n);
            i += n;
        }
    }
    for (int i = 0; i < dst->n_collect; i++) {
        const struct kva_collect *want = kva_collector_want(dst->collect[i]);
        const struct kva_collector *from = collector(src, want);

        if (from == NULL)
            return KVA_FAIL(err, KVA_EINVALID,
                            "sums over the prompt that the session does not collect");
        KVA_TRY(kva_collector_copy(dst->collect[i], from, src->store, keep, err));
    }
    return KVA_OK;
}

enum kva_status kva_session_fork(const struct kva_session *src,
                                 const struct kva_keep *keep,
                                 const struct kva_session_opts *opts,
                                 struct kva_session **dst, struct kva_error *err)
{
    struct kva_session *s = NULL;
    enum kva_status rc;

    if (src->in_step)
        return KVA_FAIL(err, KVA_EINVALID, "a session cannot be copied inside a step");
    KVA_GO(status_of(src, err));
    KVA_GO(new_session(src->m, opts, &s, err));
    KVA_GO(
        kva_kvstore_fork(src->store, keep, opts->page_cap, opts->mode, &s->store, err));
    KVA_GO(copy_seen(s, src, keep, err));
    *dst = s;
    return KVA_OK;
out:
    kva_session_free(s);
    return rc;
}

enum kva_status kva_session_copy(const struct kva_session *src, struct kva_session **dst,
                                 struct kva_error *err)
{
    struct kva_collect *want = kva_calloc((size_t)src->n_collect + 1, sizeof *want);
    struct kva_session_opts opts = {
        .q_window = src->q_window, .collect = want, .n_collect = src->n_collect};
    struct kva_session *s = NULL;
    enum kva_status rc;

    if (want == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a copy of a session");
    if (src->in_step) {
        rc = KVA_FAIL(err, KVA_EINVALID, "a session cannot be copied inside a step");
        goto out;
    }
    for (int i = 0; i < src->n_collect; i++)
        want[i] = *kva_collector_want(src->collect[i]);
    KVA_GO(status_of(src, err));
    KVA_GO(new_session(src->m, &opts, &s, err));
    KVA_GO(kva_kvstore_copy(src->store, &s->store, err));
    KVA_GO(copy_seen(s, src, NULL, err));
    *dst = s;
    s = NULL;
out:
    kva_session_free(s);
    free(want);
    return rc;
}

void kva_session_free(struct kva_session *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_collect; i++)
        kva_collector_free(s->collect[i]);
    free(s->collect);
    free(s->sums);
    kva_kvstore_free(s->store);
    if (s->order && s->q)
        s->m->ops->release(s->m->ops, s->q, KVA_MEM_DEVICE);
    else
        free(s->q);
    free(s->order);
    free(s->q_pos);
    free(s->ring);
    free(s);
}

struct kva_kvstore *kva_session_store(struct kva_session *s)
{
    return s->store;
}

int32_t kva_session_seen(const struct kva_session *s)
{
    return s->seen;
}

const struct kva_error *kva_session_error(const struct kva_session *s)
{
    return &s->error;
}

uint64_t kva_session_window_bytes(const struct kva_session *s)
{
    return (uint64_t)s->m->arch.layers * (uint64_t)s->q_window *
           (query_width(s) * sizeof *s->q + sizeof *s->q_pos);
}

static void drop_queries(struct kva_session *s, int32_t from)
{
    for (int l = 0; s->q_window && l < s->m->arch.layers; l++) {
        struct kva_query_ring *r = &s->ring[l];

        while (r->count &&
               layer_positions(s, l)[(r->start + r->count - 1) % s->q_window] >= from)
            r->count--;
    }
}

enum kva_status kva_session_rewind(struct kva_session *s, int32_t seen,
                                   struct kva_error *err)
{
    if (s->in_step)
        return KVA_FAIL(err, KVA_EINVALID, "a session cannot be rewound inside a step");
    KVA_TRY(status_of(s, err));
    if (seen < 0 || seen > s->seen)
        return KVA_FAIL(err, KVA_EINVALID, "cannot rewind to %d of %d tokens", seen,
                        s->seen);
    if (seen == s->seen)
        return KVA_OK;
    for (int i = 0; i < s->n_collect; i++)
        if (seen < kva_collector_added(s->collect[i]))
            return KVA_FAIL(err, KVA_EINVALID,
                            "cannot rewind to %d tokens: the sums over the prompt hold "
                            "queries up to %d",
                            seen, kva_collector_added(s->collect[i]));
    KVA_TRY(kva_kvstore_rewind(s->store, seen, err));
    drop_queries(s, seen);
    for (int i = 0; i < s->n_collect; i++)
        kva_collector_rewind(s->collect[i], s->store, seen);
    s->seen = seen;
    return KVA_OK;
}

enum kva_status kva_session_keep(struct kva_session *s, const struct kva_keep *keep,
                                 struct kva_error *err)
{
    for (int i = 0; i < s->n_collect; i++)
        KVA_TRY(kva_collector_keep(s->collect[i], s->store, keep, err));
    return kva_kvstore_keep(s->store, keep, err);
}

enum kva_status kva_session_replace(struct kva_session *s, const struct kva_keep *victims,
                                    struct kva_error *err)
{
    for (int i = 0; i < s->n_collect; i++)
        KVA_TRY(kva_collector_drop(s->collect[i], s->store, victims, err));
    return kva_kvstore_replace(s->store, victims, err);
}

/* Turns the keys of one KV head to positions 0 .. n-1. keys: the backend's memory for as
 * many. */
static enum kva_status rerotate_head(struct kva_session *s, int layer, int head,
                                     float *keys, struct kva_error *err)
{
    int n = kva_kvstore_live(s->store, layer, head), dim = s->m->arch.head_dim;
    const size_t off[2] = {0, (size_t)n};
    struct kva_rows rows = {.data = keys, .off = off, .heads = 1, .dim = dim};
    int32_t *pos = kva_calloc(2 * (size_t)n, sizeof *pos), *delta = pos + n;
    bool moved = false;
    enum kva_status rc = KVA_OK;

    if (pos == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "rotation of %d keys", n);
    kva_kvstore_positions(s->store, layer, head, pos);
    for (int j = 0; j < n; j++) {
        delta[j] = j - pos[j];
        moved = moved || delta[j] != 0;
        pos[j] = j;
    }
    if (!moved)
        goto out;
    KVA_GO(kva_kvstore_gather(s->store, layer, head, rows.data, NULL, err));
    s->m->lend.rotate(s->m->lend.ctx, layer, &rows, delta);
    rc = kva_kvstore_renumber(s->store, layer, head, rows.data, pos, err);
out:
    free(pos);
    return rc;
}

/* The last queries are those of the newest entries: they move by as much. */
static enum kva_status turn_queries(struct kva_session *s, int32_t by,
                                    struct kva_error *err)
{
    const size_t heads = (size_t)s->m->arch.heads, off[2] = {0, heads};
    int32_t *delta = kva_calloc(heads, sizeof *delta);

    if (delta == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "rotation of queries");
    for (size_t a = 0; a < heads; a++)
        delta[a] = by;
    for (int l = 0; s->q_window && by != 0 && l < s->m->arch.layers; l++) {
        struct kva_query_ring *r = &s->ring[l];

        for (int i = 0; i < r->count; i++) {
            size_t slot = (size_t)((r->start + i) % s->q_window);
            struct kva_rows rows = {.data = r->q + slot * query_width(s),
                                    .off = off,
                                    .heads = 1,
                                    .dim = s->m->arch.head_dim};

            s->m->lend.rotate(s->m->lend.ctx, l, &rows, delta);
            layer_positions(s, l)[slot] += by;
        }
        while (r->count && layer_positions(s, l)[r->start] < 0) {
            r->start = (r->start + 1) % s->q_window;
            r->count--;
        }
    }
    free(delta);
    return KVA_OK;
}

enum kva_status kva_session_rerotate(struct kva_session *s, struct kva_error *err)
{
    const struct kva_kvshape *shape = kva_kvstore_shape(s->store);
    struct kva_ops *ops = s->m->ops;
    struct kva_kv_view view;
    int32_t longest = 0;
    size_t bytes;
    float *keys = NULL;
    enum kva_status rc = KVA_OK;

    if (s->in_step)
        return KVA_FAIL(err, KVA_EINVALID,
                        "a session cannot be renumbered inside a step");
    KVA_TRY(status_of(s, err));
    kva_kvstore_view(s->store, 0, &view);
    if (view.live != NULL)
        return KVA_FAIL(err, KVA_EINVALID,
                        "a masked cache holds evicted entries and cannot be renumbered");
    for (int i = 0; i < s->n_collect; i++)
        KVA_GO(kva_collector_settle(s->collect[i], s->store, err));
    for (int l = 0; l < shape->layers; l++)
        for (int h = 0; h < shape->kv_heads; h++) {
            int n = kva_kvstore_live(s->store, l, h);

            longest = n > longest ? n : longest;
        }
    bytes = (size_t)longest * (size_t)shape->dim_k * sizeof *keys;
    keys = ops->alloc(ops, bytes > 0 ? bytes : 1, KVA_MEM_DEVICE);
    if (keys == NULL) {
        rc = kva_ops_reason(
            ops, KVA_FAIL(err, KVA_ENOMEM, "rotation of %d keys", longest), err);
        goto out;
    }
    for (int l = 0; l < shape->layers; l++)
        for (int h = 0; h < shape->kv_heads; h++)
            KVA_GO(rerotate_head(s, l, h, keys, err));
    KVA_GO(turn_queries(s, longest - s->seen, err));
    s->seen = longest;
out: /* some keys have moved and others not: nothing goes on from here */
    ops->release(ops, keys, KVA_MEM_DEVICE);
    if (rc != KVA_OK && s->error.code == KVA_OK && err != NULL)
        s->error = *err;
    return rc;
}

void kva_session_collecting(struct kva_session *s, bool on)
{
    s->collecting = on;
}

uint64_t kva_session_collect_bytes(const struct kva_session *s)
{
    uint64_t bytes = 0;

    for (int i = 0; i < s->n_collect; i++)
        bytes += kva_collector_bytes(s->collect[i]);
    return bytes;
}

uint64_t kva_session_want_bytes(const struct kva_session *s,
                                const struct kva_collect *want)
{
    const struct kva_collector *c = collector(s, want);

    return c != NULL ? kva_collector_bytes(c) : 0;
}

enum kva_status kva_session_collect_set(struct kva_session *s,
                                        const struct kva_collect *want, int layer,
                                        int head, const float *sum, struct kva_error *err)
{
    struct kva_collector *c = collector(s, want);

    if (c == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "sums that the session does not collect");
    return kva_collector_set(c, s->store, layer, head, sum, err);
}

enum kva_status kva_session_collected(struct kva_session *s, int layer, const float *raw,
                                      const float *q, const int32_t *pos, int n,
                                      struct kva_error *err)
{
    for (int i = 0; s->collecting && i < s->n_collect; i++)
        KVA_TRY(kva_collector_rows(s->collect[i], s->store, layer, raw, q, pos, n, err));
    return KVA_OK;
}

bool kva_session_follows(const struct kva_session *s)
{
    for (int i = 0; s->collecting && i < s->n_collect; i++)
        if (kva_collector_follows(s->collect[i]))
            return true;
    return false;
}

bool kva_session_sums(const struct kva_session *s)
{
    for (int i = 0; s->collecting && i < s->n_collect; i++)
        if (kva_collector_columns(s->collect[i]))
            return true;
    return false;
}

int kva_session_sums_begin(struct kva_session *s, int layer, float *const **sums)
{
    int n = 0;

    for (int i = 0; s->collecting && i < s->n_collect; i++)
        if (kva_collector_columns(s->collect[i]))
            kva_collector_begin(s->collect[i], layer,
                                s->sums + n++ * s->m->arch.kv_heads);
    *sums = s->sums;
    return n;
}

void kva_session_sums_end(struct kva_session *s, int layer)
{
    for (int i = 0; s->collecting && i < s->n_collect; i++)
        if (kva_collector_columns(s->collect[i]))
            kva_collector_end(s->collect[i], layer);
}

void kva_session_undo(struct kva_session *s, int32_t pos0)
{
    struct kva_error err = {0};

    if (kva_kvstore_rewind(s->store, pos0, &err) != KVA_OK && s->error.code == KVA_OK)
        s->error = err;
    drop_queries(s, pos0);
    for (int i = 0; i < s->n_collect; i++)
        kva_collector_rewind(s->collect[i], s->store, pos0);
}

void kva_session_fail(struct kva_session *s, const struct kva_error *why, int32_t pos0)
{
    if (s->error.code == KVA_OK)
        s->error = *why;
    kva_session_undo(s, pos0);
}

void kva_session_push_queries(struct kva_session *s, int layer, const int32_t *pos,
                              const float *q, int n)
{
    struct kva_query_ring *r = &s->ring[layer];
    const size_t width = query_width(s);

    while (n > 0) { /* up to the end of the ring, then from its beginning */
        int slot = (r->start + r->count) % s->q_window, c = s->q_window - slot, over;

        c = n < c ? n : c;
        memcpy(layer_positions(s, layer) + slot, pos, (size_t)c * sizeof *pos);
        s->m->ops->copy(s->m->ops, r->q + (size_t)slot * width, q,
                        (size_t)c * width * sizeof *q);
        over = r->count + c > s->q_window ? r->count + c - s->q_window : 0;
        r->start = (r->start + over) % s->q_window;
        r->count += c - over;
        pos += c;
        q += (size_t)c * width;
        n -= c;
    }
}

static void reverse(float *q, int32_t *pos, size_t width, int lo, int hi)
{
    for (hi--; lo < hi; lo++, hi--) {
        float *a = q + (size_t)lo * width, *b = q + (size_t)hi * width;
        int32_t p = pos[lo];

        pos[lo] = pos[hi];
        pos[hi] = p;
        for (size_t i = 0; i < width; i++) {
            float t = a[i];

            a[i] = b[i];
            b[i] = t;
        }
    }
}

/* Puts the ring of a layer in order: in place, or in the spare memory, whose place it
 * then takes. */
static void put_in_order(struct kva_session *s, int layer)
{
    struct kva_query_ring *r = &s->ring[layer];
    int32_t *pos = layer_positions(s, layer);
    size_t width = query_width(s);

    if (s->spare != NULL && r->count > 0) {
        float *sorted = s->spare;

        for (int i = 0; i < r->count; i++)
            s->order[i] = (r->start + i) % s->q_window;
        s->m->ops->rows_get(s->m->ops, r->q, width, s->order, r->count, sorted);
        s->spare = r->q;
        r->q = sorted;
    }
    width = s->spare != NULL ? 0 : width; /* then only positions are left to turn */
    reverse(r->q, pos, width, 0, r->start);
    reverse(r->q, pos, width, r->start, s->q_window);
    reverse(r->q, pos, width, 0, s->q_window);
    r->start = 0;
}

/* Queries of a layer in ascending order of position. */
static int queries(void *ctx, int layer, const float **q, const int32_t **q_pos)
{
    struct kva_session *s = ctx;

    if (s->ring[layer].start != 0)
        put_in_order(s, layer);
    *q = s->ring[layer].q;
    *q_pos = layer_positions(s, layer);
    return s->ring[layer].count;
}

static const float *side(void *ctx, const struct kva_collect *want, int layer)
{
    struct kva_session *s = ctx;
    struct kva_collector *c = collector(s, want);

    return c != NULL ? kva_collector_side(c, s->store, layer) : NULL;
}

static const struct kva_query_stats *
query_stats(void *ctx, const struct kva_collect *want, int layer)
{
    struct kva_session *s = ctx;
    struct kva_collector *c = collector(s, want);

    return c != NULL ? kva_collector_stats(c, layer) : NULL;
}

void kva_session_decide_in(struct kva_session *s, struct kva_decide_in *in)
{
    in->side = side;
    in->query_stats = query_stats;
    in->side_ctx = s;
    in->seen = s->seen;
    in->lend = &s->m->lend;
    in->ops = s->m->ops;
    in->store = s->store;
    in->heads = s->m->arch.heads;
    in->head_dim = s->m->arch.head_dim;
    in->v_dim = s->m->arch.v_dim;
    in->scale = s->m->arch.score_scale;
    in->queries = s->q_window ? queries : NULL;
    in->queries_ctx = s;
}
