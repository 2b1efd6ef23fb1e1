/* SPDX-License-Identifier: GPL-3.0-or-later */
/* replay.c - the replay of a context in chunks: what to feed, and the largest attention
 * weight each entry gets.
 *
 * The step runs layer by layer. Behind each layer the queries of the replay are at hand
 * (struct kva_tap) and its keys are in the copy's store, so the weights over
 * sinks | chunk | replay are taken there and then, and the next layer reuses the memory.
 * The step is given up behind the last layer, which takes its entries out again. */
#include "models/replay.h"

#include "models/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST "\n\nRepeat the previous context exactly."
#define LATER "\n\nRepeat the part of the previous context exactly, starting with"
#define TAIL  8 /* tokens of the chunk before that a later prompt names */

/* ---- what is fed ---- */

static enum kva_status encode(const struct kva_prompt *p, const char *text,
                              struct kva_tokens *out, struct kva_error *err)
{
    struct kva_tokenizer *tok = NULL;
    enum kva_status rc;

    KVA_GO(kva_tokenizer_clone(p->tok, &tok, err));
    KVA_GO(kva_tokenizer_encode(tok, text, strlen(text), false, out, err));
out:
    kva_tokenizer_free(tok);
    return rc;
}

static void put(struct kva_replay_chunk *c, const int32_t *ids, size_t n)
{
    if (n > 0)
        memcpy(c->ids + c->n, ids, n * sizeof *ids);
    c->n += (int)n;
}

enum kva_status kva_replay_ids(const struct kva_model *m, const struct kva_feed *feed,
                               const struct kva_prompt *p, const int32_t *ids, int n,
                               int chunk, struct kva_replay *out, struct kva_error *err)
{
    struct kva_tokens first = {0}, later = {0};
    struct kva_question suffix = {0};
    int prefix = 0;
    enum kva_status rc = KVA_OK;

    *out = (struct kva_replay){0};
    if (chunk < 1)
        return KVA_FAIL(err, KVA_EINVALID, "a replay in chunks of %d tokens", chunk);
    while (prefix < n && (size_t)prefix < p->context.n &&
           p->context.begin[prefix] < p->context_at)
        prefix++;
    if (prefix == n)
        return KVA_OK;
    KVA_GO(encode(p, FIRST, &first, err));
    KVA_GO(encode(p, LATER, &later, err));
    KVA_GO(kva_prompt_question(m, feed, p, "", "", &suffix, err));
    out->chunk = kva_calloc((size_t)((n - prefix - 1) / chunk + 1), sizeof *out->chunk);
    if (out->chunk == NULL)
        goto nomem;
    for (int at = prefix; at < n; at += chunk) {
        struct kva_replay_chunk *c = &out->chunk[out->n++];
        int back = at - prefix < TAIL ? at - prefix : TAIL;

        c->from = at;
        c->to = n - at < chunk ? n : at + chunk;
        c->ids = kva_calloc(first.n + later.n + TAIL + suffix.ids.n +
                                (size_t)(c->to - c->from),
                            sizeof *c->ids);
        if (c->ids == NULL)
            goto nomem;
        if (at == prefix)
            put(c, first.id, first.n);
        else
            put(c, later.id, later.n);
        put(c, ids + at - back, (size_t)back);
        put(c, suffix.ids.id, suffix.ids.n);
        put(c, ids + at, (size_t)(c->to - c->from));
    }
out:
    kva_tokens_release(&first);
    kva_tokens_release(&later);
    kva_question_release(&suffix);
    if (rc != KVA_OK)
        kva_replay_release(out);
    return rc;
nomem:
    rc = KVA_FAIL(err, KVA_ENOMEM, "replay of %d tokens", n);
    goto out;
}

void kva_replay_release(struct kva_replay *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->chunk[i].ids);
    free(r->chunk);
    *r = (struct kva_replay){0};
}

/* ---- scores ---- */

/* One replay; arrays hold one layer. */
struct replay {
    struct kva_model *m;
    struct kva_session *copy;
    const struct kva_collect *want;
    const struct kva_replay_chunk *chunk;
    int32_t seen; /* tokens of the context */
    int rows;     /* queries tapped so far in this layer */
    float *q;     /* [chunk->n][heads * head_dim] */
    float *by;    /* [chunk->n] 1 / || attention input || */
    int32_t *pos; /* [chunk->n] */
    float *sum;   /* [layers][kv_heads][seen] */
};

static void tapped(void *ctx, const float *h, const float *q, const int32_t *pos, int n)
{
    struct replay *r = ctx;
    const struct kva_arch *a = &r->m->arch;
    const size_t width = (size_t)a->heads * (size_t)a->head_dim, dim = (size_t)a->dim;

    memcpy(r->q + (size_t)r->rows * width, q, (size_t)n * width * sizeof *q);
    for (int i = 0; i < n; i++) {
        double square = 0;

        for (size_t x = 0; x < dim; x++)
            square += (double)h[(size_t)i * dim + x] * (double)h[(size_t)i * dim + x];
        r->by[r->rows + i] = square > 0 ? (float)(1 / sqrt(square)) : 0.0f;
        r->pos[r->rows + i] = pos[i];
    }
    r->rows += n;
}

/* Keys over sinks | chunk | replay of every KV head, and the values of the chunk. */
struct part {
    struct kva_rows k, v;
    int32_t *k_pos;
    size_t *k_off, *v_off; /* of the KV heads */
    size_t *a_off, *n_off; /* of the query heads: in weights, in projected norms */
    float *weight, *norm;
    int sinks, n; /* keys before the chunk, keys of a KV head */
};

static enum kva_status part_new(const struct replay *r, struct kva_arena *arena,
                                struct part *p, struct kva_error *err)
{
    const struct kva_arch *a = &r->m->arch;
    const size_t kv = (size_t)a->kv_heads, heads = (size_t)a->heads;
    const size_t c = (size_t)(r->chunk->to - r->chunk->from);
    size_t n;

    p->sinks = r->want->start < r->chunk->from ? r->want->start : r->chunk->from;
    p->n = p->sinks + (int)c + r->chunk->n;
    n = (size_t)p->n;
    p->k_off = kva_arena_alloc(arena, kv + 1, sizeof *p->k_off);
    p->v_off = kva_arena_alloc(arena, kv + 1, sizeof *p->v_off);
    p->a_off = kva_arena_alloc(arena, heads + 1, sizeof *p->a_off);
    p->n_off = kva_arena_alloc(arena, heads + 1, sizeof *p->n_off);
    p->k_pos = kva_arena_alloc(arena, kv * n, sizeof *p->k_pos);
    p->weight = kva_arena_alloc(arena, heads * n, sizeof *p->weight);
    p->norm = kva_arena_alloc(arena, r->want->plus ? heads * c : 1, sizeof *p->norm);
    p->k = (struct kva_rows){
        kva_arena_alloc(arena, kv * n * (size_t)a->head_dim, sizeof(float)), p->k_off,
        a->kv_heads, a->head_dim};
    p->v = (struct kva_rows){
        kva_arena_alloc(arena, kv * c * (size_t)a->v_dim, sizeof(float)), p->v_off,
        a->kv_heads, a->v_dim};
    if (!p->k_off || !p->v_off || !p->a_off || !p->n_off || !p->k_pos || !p->weight ||
        !p->norm || !p->k.data || !p->v.data)
        return KVA_FAIL(err, KVA_ENOMEM, "replay over %zu keys", n);
    for (size_t h = 0; h <= kv; h++) {
        p->k_off[h] = h * n;
        p->v_off[h] = h * c;
    }
    for (size_t h = 0; h <= heads; h++) {
        p->a_off[h] = h * n;
        p->n_off[h] = h * c;
    }
    return KVA_OK;
}

/* Fills the part from the copy's store, where rank is position. */
static enum kva_status part_read(const struct replay *r, int layer,
                                 struct kva_arena *arena, struct part *p,
                                 struct kva_error *err)
{
    const struct kva_arch *a = &r->m->arch;
    const size_t d = (size_t)a->head_dim, dv = (size_t)a->v_dim;
    const size_t all = (size_t)(r->seen + r->chunk->n);
    const int32_t from = r->chunk->from, to = r->chunk->to;
    float *k = kva_arena_alloc(arena, all * d, sizeof *k);
    float *v = kva_arena_alloc(arena, all * dv, sizeof *v);

    if (k == NULL || v == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "replay over %zu entries", all);
    for (int h = 0; h < a->kv_heads; h++) {
        float *rows = p->k.data + p->k_off[h] * d;
        int32_t *pos = p->k_pos + p->k_off[h];
        int n = 0;

        KVA_TRY(kva_kvstore_gather(r->copy->store, layer, h, k, v, err));
        for (int32_t t = 0; t < (int32_t)all; t++) {
            if (!(t < p->sinks || (t >= from && t < to) || t >= r->seen))
                continue;
            memcpy(rows + (size_t)n * d, k + (size_t)t * d, d * sizeof *k);
            pos[n++] = t;
        }
        memcpy(p->v.data + p->v_off[h] * dv, v + (size_t)from * dv,
               (size_t)(to - from) * dv * sizeof *v);
    }
    return KVA_OK;
}

/* Scores of the chunk in one layer, from the queries tapped. */
static enum kva_status score_layer(struct replay *r, int layer, struct kva_arena *arena,
                                   struct kva_error *err)
{
    const struct kva_arch *a = &r->m->arch;
    const int group = a->heads / a->kv_heads, c = r->chunk->to - r->chunk->from;
    const struct kva_lend *lend = &r->m->lend;
    struct part p;

    KVA_TRY(part_new(r, arena, &p, err));
    KVA_TRY(part_read(r, layer, arena, &p, err));
    r->m->ops->window_max(r->m->ops, r->q, r->pos, r->rows, a->heads, &p.k, p.k_pos,
                          a->score_scale, r->want->plus ? r->by : NULL, p.weight,
                          p.a_off);
    if (r->want->plus)
        KVA_TRY(lend->project_norm(lend->ctx, layer, &p.v, 2, p.n_off, p.norm, err));
    for (int h = 0; h < a->heads; h++) {
        float *sum =
            r->sum +
            ((size_t)layer * (size_t)a->kv_heads + (size_t)(h / group)) * (size_t)r->seen;
        const float *w = p.weight + p.a_off[h] + p.sinks, *norm = p.norm + p.n_off[h];

        for (int j = 0; j < c; j++) {
            float s = r->want->plus ? w[j] * norm[j] : w[j];
            float *to = &sum[r->chunk->from + j];

            *to = s > *to ? s : *to;
        }
    }
    return KVA_OK;
}

static enum kva_status replay_chunk(struct replay *r, struct kva_arena *arena,
                                    struct kva_error *err)
{
    const int n = r->chunk->n;
    struct kva_row *rows = kva_calloc((size_t)n, sizeof *rows);
    struct kva_step_state *step = NULL;
    enum kva_status rc = KVA_OK;

    if (rows == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "replay of %d tokens", n);
    for (int i = 0; i < n; i++)
        rows[i] =
            (struct kva_row){.session = r->copy, .token = r->chunk->ids[i], .target = -1};
    KVA_GO(kva_step_begin(r->m, rows, n, &step, err));
    for (int l = 0; l < r->m->arch.layers && r->copy->error.code == KVA_OK; l++) {
        r->rows = 0;
        KVA_GO(kva_step_layer(step, l, err));
        if (r->copy->error.code != KVA_OK)
            break;
        kva_arena_reset(arena);
        KVA_GO(score_layer(r, l, arena, err));
    }
out:
    if (step != NULL)
        kva_step_cancel(step);
    free(rows);
    if (rc == KVA_OK && r->copy->error.code != KVA_OK) {
        rc = r->copy->error.code;
        if (err != NULL)
            *err = r->copy->error;
    }
    return rc;
}

static enum kva_status check(const struct kva_session *s, const struct kva_replay *r,
                             struct kva_error *err)
{
    const struct kva_arch *a = &s->m->arch;

    for (int i = 0; i < a->layers * a->kv_heads; i++)
        if (kva_kvstore_live(s->store, i / a->kv_heads, i % a->kv_heads) != s->seen)
            return KVA_FAIL(err, KVA_EINVALID,
                            "a replay needs the whole cache; layer %d head %d holds %d "
                            "of %d entries",
                            i / a->kv_heads, i % a->kv_heads,
                            kva_kvstore_live(s->store, i / a->kv_heads, i % a->kv_heads),
                            s->seen);
    for (int i = 0; i < r->n; i++)
        if (r->chunk[i].from < 0 || r->chunk[i].from >= r->chunk[i].to ||
            r->chunk[i].to > s->seen || r->chunk[i].n < 1)
            return KVA_FAIL(err, KVA_EINVALID,
                            "replay of tokens %d to %d of a session that read %d",
                            r->chunk[i].from, r->chunk[i].to, s->seen);
    return KVA_OK;
}

/* Copies the session with room for the longest chunk. */
static enum kva_status copy_session(struct replay *r, const struct kva_session *s,
                                    int most, struct kva_error *err)
{
    const struct kva_arch *a = &r->m->arch;
    const size_t pages = ((size_t)s->seen + (size_t)most) / KVA_PAGE + 1;

    return kva_session_fork(
        s, NULL,
        &(struct kva_session_opts){.kv = kva_kvstore_shape(s->store)->type,
                                   .mode = KVA_KV_PHYSICAL,
                                   .page_cap =
                                       pages * (size_t)a->layers * (size_t)a->kv_heads},
        &r->copy, err);
}

enum kva_status kva_replay(struct kva_model *m, struct kva_session *s,
                           const struct kva_collect *want, const struct kva_replay *all,
                           uint64_t *scratch_bytes, struct kva_error *err)
{
    const struct kva_arch *a = &m->arch;
    const size_t width = (size_t)a->heads * (size_t)a->head_dim;
    const size_t heads = (size_t)a->layers * (size_t)a->kv_heads;
    struct replay r = {.m = m, .want = want, .seen = s->seen};
    const struct kva_tap tap = {tapped, &r};
    struct kva_kv_bytes bytes = {0};
    struct kva_arena arena;
    int most = 0;
    enum kva_status rc;

    kva_arena_init(&arena);
    KVA_GO(check(s, all, err));
    for (int i = 0; i < all->n; i++)
        most = all->chunk[i].n > most ? all->chunk[i].n : most;
    r.q = kva_calloc((size_t)most * width + 1, sizeof *r.q);
    r.by = kva_calloc((size_t)most + 1, sizeof *r.by);
    r.pos = kva_calloc((size_t)most + 1, sizeof *r.pos);
    r.sum = kva_calloc(heads * (size_t)r.seen + 1, sizeof *r.sum);
    if (!r.q || !r.by || !r.pos || !r.sum) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "replay of %d tokens", r.seen);
        goto out;
    }
    for (size_t j = 0; j < heads * (size_t)r.seen; j++)
        r.sum[j] = -1.0f;
    KVA_GO(copy_session(&r, s, most, err));
    r.copy->tap = &tap;
    for (int i = 0; i < all->n; i++) {
        r.chunk = &all->chunk[i];
        KVA_GO(replay_chunk(&r, &arena, err));
    }
    for (size_t i = 0; i < heads; i++)
        KVA_GO(kva_session_collect_set(s, want, (int)i / a->kv_heads,
                                       (int)i % a->kv_heads, r.sum + i * (size_t)r.seen,
                                       err));
    kva_kvstore_bytes(r.copy->store, &bytes);
    if (scratch_bytes != NULL)
        *scratch_bytes +=
            bytes.peak_bytes + arena.peak_bytes +
            (uint64_t)most * (width * sizeof *r.q + sizeof *r.by + sizeof *r.pos) +
            heads * (uint64_t)r.seen * sizeof *r.sum;
out:
    kva_session_free(r.copy);
    kva_arena_release(&arena);
    free(r.q);
    free(r.by);
    free(r.pos);
    free(r.sum);
    return rc;
}
