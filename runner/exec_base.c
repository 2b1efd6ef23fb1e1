/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_base.c - stores that nothing was evicted from, and what methods saw in them.
 *
 * One-shot cells share one prefill of the context per visibility:
 *   agnostic  the context alone
 *   aware     a fork of the intact store that has also read the question
 *   full      a fork that has read the whole prompt
 * On each of these a scorer runs once, a wrapper once on each scorer, and an allocator
 * looks at the layers once; every cell selects from the results (ruling R5). What is
 * shared is known by its canonical text, the seed, and the share that stays where a
 * scorer reads it. */
#include "runner/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/replay.h"

/* Wrapped scores of a base are let go of when they take more than this. */
#define WRAPPED_BYTES ((size_t)256 << 20)

static void forget(struct kva_scored_list *list)
{
    for (int i = 0; i < list->n; i++) {
        kva_scores_release(&list->at[i]->scores);
        free(list->at[i]->stat);
        free(list->at[i]);
    }
    free(list->at);
    *list = (struct kva_scored_list){0};
}

void kva_base_release(struct kva_base *b)
{
    forget(&b->scored);
    forget(&b->wrapped);
    forget(&b->observed);
    free(b->replayed);
    free(b->logits);
    kva_session_free(b->session);
    memset(b, 0, sizeof *b);
}

static void base_measure(struct kva_base *b)
{
    struct kva_kv_bytes bytes;

    kva_kvstore_bytes(kva_session_store(b->session), &bytes);
    b->alloc_bytes = bytes.alloc_bytes;
    b->held_bytes = bytes.alloc_bytes + bytes.meta_bytes;
}

static struct kva_session_opts opts(const struct kva_unit_state *st, size_t cap)
{
    return (struct kva_session_opts){.kv = st->u.unit->kv,
                                     .mode = KVA_KV_PHYSICAL,
                                     .page_cap = cap,
                                     .q_window = st->window,
                                     .collect = st->want,
                                     .n_collect = st->n_want};
}

enum kva_status kva_base_open(struct kva_unit_state *st, struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    struct kva_base *b = &st->base;
    int n = (int)u->prompt.context.n;
    struct kva_session *s = NULL;
    struct kva_session_opts o;
    enum kva_status rc;

    if (b->session != NULL)
        return KVA_OK;
    o = opts(st, kva_page_cap(u->info, NULL, n, 0));
    KVA_TRY(kva_session_new(u->model, &o, &s, err));
    KVA_GO(kva_unit_feed(u, s, u->prompt.context.id, n, NULL, err));
    b->session = s; /* only a whole prefill may be shared */
    b->n = n;
    base_measure(b);
    return KVA_OK;
out:
    kva_session_free(s);
    return rc;
}

enum kva_status kva_base_seen(struct kva_unit_state *st, int q, struct kva_base *b, int n,
                              struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    struct kva_session *s = NULL;
    struct kva_session_opts o;
    enum kva_status rc;

    if (b->session != NULL)
        return KVA_OK;
    KVA_TRY(kva_base_open(st, err));
    if (st->sampled && b->logits == NULL) {
        b->logits = kva_calloc((size_t)u->info->vocab, sizeof *b->logits);
        if (b->logits == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "logits of %d ids", u->info->vocab);
    }
    o = opts(st, kva_page_cap(u->info, NULL, st->base.n, n));
    KVA_TRY(kva_session_fork(st->base.session, NULL, &o, &s, err));
    b->last = (struct kva_row){.logits = n == (int)u->questions[q].ids.n,
                               .target = u->gold[q].n > 0 ? u->gold[q].id[0] : -1,
                               .forbid = u->ends[q].forbid,
                               .n_forbid = u->ends[q].n_forbid,
                               .keep_logits = b->logits};
    KVA_GO(kva_unit_feed(u, s, u->questions[q].ids.id, n, &b->last, err));
    b->session = s;
    b->n = st->base.n + n;
    b->question = n;
    b->asked = q;
    base_measure(b);
    return KVA_OK;
out:
    kva_session_free(s);
    return rc;
}

/* ---- what was seen ---- */

static void decide_in(const struct kva_unit_run *u, const struct kva_base *b,
                      const struct kva_cell *cell, uint64_t total,
                      struct kva_decide_in *in)
{
    uint64_t kvheads = (uint64_t)(u->info->layers * u->info->kv_heads);

    memset(in, 0, sizeof *in);
    kva_session_decide_in(b->session, in);
    in->seed = kva_unit_seed(u, cell);
    in->block_len = b->n;
    in->question = b->question;
    in->prompt = b->n;
    in->keep = kva_decide_keep(&cell->method, total, (uint64_t)b->n * kvheads);
}

/* The entry of `spec` under the seed and share of `in`; NULL: none yet. */
static struct kva_scored *find(const struct kva_scored_list *list, const char *spec,
                               const struct kva_decide_in *in)
{
    for (int i = 0; i < list->n; i++) {
        struct kva_scored *s = list->at[i];

        if (s->seed == in->seed && s->keep >= in->keep && s->keep <= in->keep &&
            strcmp(s->spec, spec) == 0)
            return s;
    }
    return NULL;
}

static enum kva_status add(struct kva_scored_list *list, const char *spec,
                           const struct kva_decide_in *in, struct kva_scored **out,
                           struct kva_error *err)
{
    struct kva_scored **grown =
        kva_realloc(list->at, (size_t)list->n + 1, sizeof(struct kva_scored *));
    struct kva_scored *s;

    if (grown != NULL)
        list->at = grown;
    s = grown != NULL ? kva_calloc(1, sizeof *s) : NULL;
    if (s == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "scores of %s", spec);
    snprintf(s->spec, sizeof s->spec, "%s", spec);
    s->seed = in->seed;
    s->keep = in->keep;
    list->at[list->n++] = s;
    *out = s;
    return KVA_OK;
}

/* What could not be made must not be found again. */
static void drop_last(struct kva_scored_list *list)
{
    free(list->at[--list->n]);
}

static enum kva_status all_finite(const struct kva_scored *s, struct kva_error *err)
{
    if (s->scores.nonfinite == 0)
        return KVA_OK;
    return KVA_FAIL(err, KVA_ENONFINITE, "%llu scores of %s are not finite numbers",
                    (unsigned long long)s->scores.nonfinite, s->spec);
}

enum kva_status kva_unit_replay(const struct kva_unit_run *u, struct kva_session *s,
                                const struct kva_collect *want, const int32_t *ids, int n,
                                uint64_t *scratch, struct kva_error *err)
{
    struct kva_replay r = {0};
    enum kva_status rc;

    if (want->kind != KVA_COLLECT_REPLAY)
        return KVA_OK;
    KVA_GO(kva_replay_ids(u->model, &u->items[0].feed, &u->prompt, ids, n, want->chunk,
                          &r, err));
    rc = kva_replay(u->model, s, want, &r, scratch, err);
out:
    kva_replay_release(&r);
    return rc;
}

/* Once for a base and a want. */
static enum kva_status replay_base(const struct kva_unit_run *u, struct kva_base *b,
                                   const struct kva_method *m, uint64_t *scratch,
                                   struct kva_error *err)
{
    struct kva_collect want = kva_method_collect(m), *grown;
    size_t n = u->prompt.context.n;
    int32_t *ids = NULL;
    enum kva_status rc = KVA_OK;

    if (want.kind != KVA_COLLECT_REPLAY)
        return KVA_OK;
    for (int i = 0; i < b->n_replayed; i++)
        if (kva_collect_same(&b->replayed[i], &want))
            return KVA_OK;
    grown = kva_realloc(b->replayed, (size_t)b->n_replayed + 1, sizeof *grown);
    b->replayed = grown != NULL ? grown : b->replayed;
    ids = kva_calloc((size_t)b->n + 1, sizeof *ids);
    if (grown == NULL || ids == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "replay of %d tokens", b->n);
        goto out;
    }
    memcpy(ids, u->prompt.context.id, n * sizeof *ids);
    memcpy(ids + n, u->questions[b->asked].ids.id, (size_t)b->question * sizeof *ids);
    KVA_GO(kva_unit_replay(u, b->session, &want, ids, b->n, scratch, err));
    b->replayed[b->n_replayed++] = want;
out:
    free(ids);
    return rc;
}

static enum kva_status scores_of(const struct kva_unit_run *u, struct kva_base *b,
                                 const struct kva_method *m,
                                 const struct kva_decide_in *in, struct kva_scored **out,
                                 struct kva_error *err)
{
    struct kva_parts parts;
    uint64_t replay = 0;
    enum kva_status rc;

    *out = find(&b->scored, m->scorer_spec, in);
    if (*out != NULL)
        return all_finite(*out, err);
    kva_parts_begin(&parts, kva_model_ops(u->model), KVA_PART_SCORE);
    KVA_TRY(replay_base(u, b, m, &replay, err));
    KVA_TRY(add(&b->scored, m->scorer_spec, in, out, err));
    rc = kva_method_score(m, in, &(*out)->scores, &(*out)->scratch, err);
    if (replay > (*out)->scratch)
        (*out)->scratch = replay;
    kva_parts_end(&parts);
    (*out)->ns = parts.ns[KVA_PART_SCORE];
    if (rc != KVA_OK)
        drop_last(&b->scored);
    return rc == KVA_OK ? all_finite(*out, err) : rc;
}

static size_t bytes_of(const struct kva_scores *sc)
{
    size_t n = sc->off != NULL ? sc->off[sc->layers * sc->kv_heads] : 0;

    return n * (sizeof *sc->s + sizeof *sc->pos + (size_t)sc->wide * sizeof *sc->aux);
}

/* NULL where there is nothing to wrap. */
static enum kva_status wrapped_of(struct kva_base *b, const struct kva_method *m,
                                  const struct kva_decide_in *in,
                                  const struct kva_scored *base, struct kva_scored **out,
                                  struct kva_error *err)
{
    struct kva_parts parts;
    size_t held = 0;
    enum kva_status rc;

    *out = NULL;
    if (m->wrapper == NULL || m->wrapper->rescore == NULL)
        return KVA_OK;
    *out = find(&b->wrapped, m->wrapped_spec, in);
    if (*out != NULL)
        return all_finite(*out, err);
    kva_parts_begin(&parts, in->ops, KVA_PART_SCORE);
    for (int i = 0; i < b->wrapped.n; i++)
        held += bytes_of(&b->wrapped.at[i]->scores);
    if (held > WRAPPED_BYTES)
        forget(&b->wrapped);
    KVA_TRY(add(&b->wrapped, m->wrapped_spec, in, out, err));
    rc = kva_method_wrap(m, in, &base->scores, &(*out)->scores, &(*out)->scratch, err);
    kva_parts_end(&parts);
    (*out)->ns = parts.ns[KVA_PART_SCORE];
    if (rc != KVA_OK)
        drop_last(&b->wrapped);
    return rc == KVA_OK ? all_finite(*out, err) : rc;
}

/* NULL where the allocator looks at nothing. */
static enum kva_status observed_of(struct kva_base *b, const struct kva_method *m,
                                   const struct kva_decide_in *in,
                                   const struct kva_scored *base, struct kva_scored **out,
                                   struct kva_error *err)
{
    size_t n = (size_t)base->scores.layers * (size_t)m->allocator->n_stat;
    struct kva_arena arena;
    struct kva_parts parts;
    double *stat = NULL;
    enum kva_status rc = KVA_OK;

    *out = NULL;
    if (m->allocator->observe == NULL)
        return KVA_OK;
    *out = find(&b->observed, m->allocator_spec, in);
    if (*out != NULL)
        return KVA_OK;
    kva_parts_begin(&parts, in->ops, KVA_PART_SCORE);
    kva_arena_init(&arena);
    KVA_GO(kva_method_observe(m, in, &base->scores, &arena, &stat, err));
    KVA_GO(add(&b->observed, m->allocator_spec, in, out, err));
    (*out)->stat = kva_calloc(n, sizeof *stat);
    if ((*out)->stat == NULL) {
        drop_last(&b->observed);
        rc = KVA_FAIL(err, KVA_ENOMEM, "%s over %zu numbers", m->allocator->name, n);
        goto out;
    }
    memcpy((*out)->stat, stat, n * sizeof *stat);
    kva_parts_end(&parts);
    (*out)->ns = parts.ns[KVA_PART_SCORE];
out:
    kva_arena_release(&arena);
    return rc;
}

enum kva_status kva_base_decide(const struct kva_unit_run *u, struct kva_base *b,
                                const struct kva_cell *cell, uint64_t total,
                                struct kva_decision *d, struct kva_decide_cost *cost,
                                struct kva_error *err)
{
    const struct kva_method *m = &cell->method;
    struct kva_scored *made[3] = {NULL, NULL, NULL};
    struct kva_decide_in in;

    decide_in(u, b, cell, total, &in);
    KVA_TRY(scores_of(u, b, m, &in, &made[0], err));
    KVA_TRY(wrapped_of(b, m, &in, made[0], &made[1], err));
    KVA_TRY(observed_of(b, m, &in, made[0], &made[2], err));
    for (int i = 0; i < 3; i++) {
        if (made[i] == NULL)
            continue;
        cost->score_ns += made[i]->ns;
        if (made[i]->scratch > cost->scratch)
            cost->scratch = made[i]->scratch;
    }
    KVA_TRY(kva_method_select(m, made[1] != NULL ? &made[1]->scores : &made[0]->scores,
                              made[2] != NULL ? made[2]->stat : NULL, total, d, err));
    return cell->enforce == KVA_UNION ? kva_decide_unite(in.store, 0, 0, d, err) : KVA_OK;
}
