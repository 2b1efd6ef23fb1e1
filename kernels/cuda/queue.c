/* SPDX-License-Identifier: GPL-3.0-or-later */
/* queue.c - the queue of held work and the graphs it becomes. */
#include "kernels/cuda/queue.h"

#include <stdlib.h>
#include <string.h>

/* ---- the queue ---- */

/* Room for `more` elements of `size` bytes behind n. */
static bool grow(void **p, size_t *cap, size_t n, size_t more, size_t size)
{
    size_t want = *cap ? *cap : 64;
    void *to;

    if (more <= *cap - n)
        return true;
    while (want - n < more)
        want *= 2;
    to = kva_realloc(*p, want, size);
    if (to == NULL)
        return false;
    *p = to;
    *cap = want;
    return true;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* A new item with room for `bytes` of data and n offsets; all zero, so that items compare
 * as memory. */
static struct kva_queue_item *append(struct kva_queue *q, size_t bytes, size_t n)
{
    struct kva_queue_item *it;

    if (!grow((void **)&q->item, &q->cap, q->n, 1, sizeof *q->item) ||
        !grow((void **)&q->data, &q->data_cap, q->used, rounded(bytes), 1) ||
        !grow((void **)&q->offset, &q->offset_cap, q->n_offsets, n, sizeof *q->offset))
        return NULL;
    it = &q->item[q->n++];
    memset(it, 0, sizeof *it);
    it->at = q->used;
    it->bytes = bytes;
    it->arg = q->n_offsets;
    it->n_args = n;
    if (bytes > 0)
        memset(q->data + q->used, 0, rounded(bytes));
    q->used += rounded(bytes);
    q->n_offsets += n;
    return it;
}

bool kva_queue_kernel(struct kva_queue *q, const void *kernel, const void *extra,
                      const unsigned grid[3], const unsigned block[3], size_t shared,
                      const void *const *arg, const size_t *size, size_t n)
{
    struct kva_queue_item *it;
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += rounded(size[i]);
    it = append(q, bytes, n);
    if (it == NULL)
        return false;
    it->kind = KVA_QUEUE_KERNEL;
    it->kernel = kernel;
    it->extra = extra;
    memcpy(it->grid, grid, sizeof it->grid);
    memcpy(it->block, block, sizeof it->block);
    it->shared = shared;
    bytes = it->at;
    for (size_t i = 0; i < n; i++) {
        q->offset[it->arg + i] = bytes;
        memcpy(q->data + bytes, arg[i], size[i]);
        bytes += rounded(size[i]);
    }
    return true;
}

bool kva_queue_copy(struct kva_queue *q, enum kva_queue_kind kind, void *to,
                    const void *from, int byte, size_t bytes)
{
    struct kva_queue_item *it = append(q, kind == KVA_QUEUE_UPLOAD ? bytes : 0, 0);

    if (it == NULL)
        return false;
    it->kind = kind;
    it->to = to;
    it->byte = byte;
    it->bytes = bytes;
    if (kind == KVA_QUEUE_UPLOAD)
        memcpy(q->data + it->at, from, bytes);
    else
        it->from = from;
    return true;
}

void kva_queue_clear(struct kva_queue *q)
{
    q->n = q->used = q->n_offsets = 0;
}

void kva_queue_release(struct kva_queue *q)
{
    free(q->item);
    free(q->data);
    free(q->offset);
    memset(q, 0, sizeof *q);
}

/* ---- comparing ---- */

/* Kinds, kernels and how their arguments lie, as one number: what a graph cannot change.
 */
static uint64_t shape_of(const struct kva_queue *q)
{
    uint64_t h = kva_mix64(q->n);

    for (size_t i = 0; i < q->n; i++) {
        const struct kva_queue_item *it = &q->item[i];

        h = kva_mix64(h ^ (uint64_t)it->kind);
        if (it->kind == KVA_QUEUE_KERNEL)
            h = kva_mix64(h ^ (uint64_t)(uintptr_t)it->kernel ^ it->bytes << 48);
    }
    return h;
}

static bool fits(const struct kva_replay *r, const struct kva_queue *q)
{
    if (r->made.n != q->n)
        return false;
    for (size_t i = 0; i < q->n; i++) {
        const struct kva_queue_item *a = &r->made.item[i], *b = &q->item[i];

        if (a->kind != b->kind || a->kernel != b->kernel || a->n_args != b->n_args)
            return false;
        if (a->kind == KVA_QUEUE_KERNEL && a->bytes != b->bytes)
            return false;
        if (a->kind == KVA_QUEUE_UPLOAD && b->bytes > r->room[i])
            return false;
    }
    return true;
}

/* Whether item i of the queue asks of the graph what it does already. Uploaded bytes are
 * no part of the graph. */
static bool same(const struct kva_queue *a, const struct kva_queue *b, size_t i)
{
    const struct kva_queue_item *x = &a->item[i], *y = &b->item[i];

    if (x->kind == KVA_QUEUE_KERNEL)
        return memcmp(x->grid, y->grid, sizeof x->grid) == 0 &&
               memcmp(x->block, y->block, sizeof x->block) == 0 &&
               x->shared == y->shared && x->extra == y->extra &&
               memcmp(a->data + x->at, b->data + y->at, x->bytes) == 0;
    return x->to == y->to && x->from == y->from && x->byte == y->byte &&
           x->bytes == y->bytes;
}

/* ---- replays ---- */

static void replay_free(struct kva_replay *r, const struct kva_replayer *by)
{
    if (r == NULL)
        return;
    if (r->graph != NULL)
        by->destroy(by->ctx, r->graph);
    if (r->host != NULL)
        by->host_free(by->ctx, r->host);
    kva_queue_release(&r->made);
    free(r->slot);
    free(r->room);
    free(r);
}

static void fill_host(struct kva_replay *r)
{
    for (size_t i = 0; i < r->made.n; i++)
        if (r->made.item[i].kind == KVA_QUEUE_UPLOAD && r->made.item[i].bytes > 0)
            memcpy(r->host + r->slot[i], r->made.data + r->made.item[i].at,
                   r->made.item[i].bytes);
}

/* Takes the queue over. NULL: the queue is untouched. */
static struct kva_replay *replay_new(const struct kva_replayer *by, struct kva_queue *q)
{
    struct kva_replay *r = kva_calloc(1, sizeof *r);
    size_t total = 0;

    if (r == NULL)
        return NULL;
    r->slot = kva_calloc(q->n, sizeof *r->slot);
    r->room = kva_calloc(q->n, sizeof *r->room);
    if (r->slot == NULL || r->room == NULL)
        goto refused;
    for (size_t i = 0; i < q->n; i++) {
        if (q->item[i].kind != KVA_QUEUE_UPLOAD)
            continue;
        r->slot[i] = total;
        for (r->room[i] = 64; r->room[i] < q->item[i].bytes;)
            r->room[i] *= 2;
        total += r->room[i];
    }
    r->host = by->host_new(by->ctx, total > 0 ? total : 64);
    if (r->host == NULL)
        goto refused;
    r->made = *q;
    fill_host(r);
    r->graph = by->build(by->ctx, r);
    if (r->graph == NULL) {
        memset(&r->made, 0, sizeof r->made); /* still the caller's */
        goto refused;
    }
    memset(q, 0, sizeof *q);
    return r;
refused:
    replay_free(r, by);
    return NULL;
}

/* The graph becomes the queue's: what changed is patched. False: a patch was refused. */
static bool update(struct kva_replays *rs, const struct kva_replayer *by,
                   struct kva_replay *r, struct kva_queue *q)
{
    struct kva_queue old = r->made;
    bool fine = true;

    r->made = *q;
    *q = old; /* its memory serves the next step */
    for (size_t i = 0; i < r->made.n && fine; i++)
        if (!same(&r->made, &old, i)) {
            fine = by->patch(by->ctx, r, i);
            rs->patched++;
        }
    if (fine)
        fill_host(r);
    return fine;
}

static void drop(struct kva_replays *rs, const struct kva_replayer *by, int i)
{
    replay_free(rs->kept[i], by);
    rs->kept[i] = rs->kept[--rs->n];
}

/* A place for one more: the least recently used goes. */
static void make_place(struct kva_replays *rs, const struct kva_replayer *by)
{
    int least = 0;

    if (rs->n < KVA_REPLAYS)
        return;
    for (int i = 1; i < rs->n; i++)
        if (rs->kept[i]->last < rs->kept[least]->last)
            least = i;
    drop(rs, by, least);
}

static bool seen_before(struct kva_replays *rs, uint64_t shape)
{
    for (int i = 0; i < KVA_REPLAYS; i++)
        if (rs->seen[i] == shape)
            return true;
    rs->seen[rs->flushes % KVA_REPLAYS] = shape;
    return false;
}

static struct kva_replay *find(struct kva_replays *rs, const struct kva_replayer *by,
                               struct kva_queue *q)
{
    for (int i = 0; i < rs->n; i++) {
        struct kva_replay *r = rs->kept[i];

        if (!fits(r, q))
            continue;
        by->wait(by->ctx, r); /* it may still be reading what is about to change */
        if (update(rs, by, r, q)) {
            rs->replayed++;
            return r;
        }
        /* the graph is half the old one: nobody may launch it again */
        kva_queue_release(q);
        *q = r->made;
        memset(&r->made, 0, sizeof r->made);
        drop(rs, by, i);
        return NULL;
    }
    if (!seen_before(rs, shape_of(q)))
        return NULL;
    make_place(rs, by);
    struct kva_replay *r = replay_new(by, q);

    if (r != NULL) {
        rs->built++;
        rs->kept[rs->n++] = r;
    }
    return r;
}

void kva_replays_flush(struct kva_replays *rs, const struct kva_replayer *by,
                       struct kva_queue *q)
{
    struct kva_replay *r;

    if (q->n == 0)
        return;
    rs->flushes++;
    r = find(rs, by, q);
    if (r != NULL) {
        r->last = rs->flushes;
        by->launch(by->ctx, r);
    } else {
        by->issue(by->ctx, q);
    }
    kva_queue_clear(q);
}

void kva_replays_release(struct kva_replays *rs, const struct kva_replayer *by)
{
    while (rs->n > 0)
        drop(rs, by, 0);
}
