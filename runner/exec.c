/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec.c - one unit of work: shared prefill, shared scores, a physical copy per cell,
 * waves.
 *
 * One-shot cells share one prefill of the context per visibility:
 *   agnostic  the context alone
 *   aware     a fork of the intact store that has also read the question
 *   full      a fork that has read the whole prompt
 * On each of these stores a scorer runs once; every budget and allocator of that scorer
 * selects from the same scores, and the cell takes its own copy of what stays (ruling
 * R6). Block cells prefill alone and join the wave; the blind cell has no context. */
#include "runner/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WAVE 64

struct scored {
    char spec[192];
    struct kva_scores scores;
    uint64_t ns, scratch;
};

/* A store that nothing was evicted from, and the scores taken on it. */
struct base {
    struct kva_session *session;
    int n;               /* tokens processed */
    struct kva_row last; /* result of its last row (visibility full) */
    uint64_t prefill_ns, alloc_bytes, held_bytes;
    struct scored *scored;
    int n_scored;
};

struct live {
    const struct kva_job *job;
    struct kva_run_cell rc;
    struct kva_result result;
    struct kva_error why; /* it could not be opened */
    bool sent;
};

struct unit_state {
    struct kva_unit_run u;
    struct base base, aware, full; /* the last two per question */
    int window;                    /* joined over all live methods (ruling R5) */
};

static void base_release(struct base *b)
{
    for (int i = 0; i < b->n_scored; i++)
        kva_scores_release(&b->scored[i].scores);
    free(b->scored);
    kva_session_free(b->session);
    memset(b, 0, sizeof *b);
}

static void base_measure(struct base *b)
{
    struct kva_kv_bytes bytes;

    kva_kvstore_bytes(kva_session_store(b->session), &bytes);
    b->alloc_bytes = bytes.alloc_bytes;
    b->held_bytes = bytes.alloc_bytes + bytes.meta_bytes;
}

static struct kva_session_opts session_opts(const struct kva_unit_run *u,
                                            enum kva_kv_mode mode, size_t cap, int window)
{
    return (struct kva_session_opts){
        .kv = u->unit->kv, .mode = mode, .page_cap = cap, .q_window = window};
}

static int own_window(const struct kva_cell *c)
{
    int w = 0;

    (void)kva_method_needs(&c->method, &w);
    return w;
}

/* Queries the ring of a cell holds beside its window: gold rows are fed and rewound, and
 * must not push out what the cuts of `+decode:E` still read. */
static int gold_rows(const struct live *l)
{
    if (l->rc.cell->schedule.decode == 0 || own_window(l->rc.cell) == 0)
        return 0;
    return l->rc.n_gold > 1 ? l->rc.n_gold - 1 : 0;
}

static enum kva_status open_base(struct unit_state *st, struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    struct base *b = &st->base;
    int n = (int)u->prompt.context.n;
    struct kva_session *s = NULL;
    struct kva_session_opts o;
    enum kva_status rc;
    uint64_t t0 = kva_now_ns();

    if (b->session != NULL)
        return KVA_OK;
    o = session_opts(u, KVA_KV_PHYSICAL, kva_page_cap(u->info, NULL, n, 0), st->window);
    KVA_TRY(kva_session_new(u->model, &o, &s, err));
    KVA_GO(kva_unit_feed(u, s, u->prompt.context.id, n, NULL, err));
    b->session = s; /* only a whole prefill may be shared */
    b->n = n;
    b->prefill_ns = kva_now_ns() - t0;
    base_measure(b);
    return KVA_OK;
out:
    kva_session_free(s);
    return rc;
}

/* A fork of the intact store that has also read the first n question tokens. */
static enum kva_status open_seen(struct unit_state *st, int q, struct base *b, int n,
                                 struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    struct kva_session *s = NULL;
    struct kva_session_opts o;
    enum kva_status rc;

    if (b->session != NULL)
        return KVA_OK;
    KVA_TRY(open_base(st, err));
    o = session_opts(u, KVA_KV_PHYSICAL, kva_page_cap(u->info, NULL, st->base.n, n),
                     st->window);
    KVA_TRY(kva_session_fork(st->base.session, NULL, &o, &s, err));
    b->last = (struct kva_row){.logits = n == (int)u->questions[q].ids.n,
                               .target = u->gold[q].n > 0 ? u->gold[q].id[0] : -1};
    KVA_GO(kva_unit_feed(u, s, u->questions[q].ids.id, n, &b->last, err));
    b->session = s;
    b->n = st->base.n + n;
    base_measure(b);
    return KVA_OK;
out:
    kva_session_free(s);
    return rc;
}

static void decide_in(const struct kva_unit_run *u, const struct base *b,
                      const struct kva_cell *cell, struct kva_decide_in *in)
{
    memset(in, 0, sizeof *in);
    kva_session_decide_in(b->session, in);
    in->seed = kva_unit_seed(u, cell);
    in->block_len = b->n;
    in->is_block = false;
}

/* Scores of one scorer on a base: computed once. */
static enum kva_status base_scores(const struct kva_unit_run *u, struct base *b,
                                   const struct kva_cell *cell, const struct scored **out,
                                   struct kva_error *err)
{
    struct kva_decide_in in;
    struct scored *s;
    uint64_t t0 = kva_now_ns();

    for (int i = 0; i < b->n_scored; i++)
        if (strcmp(b->scored[i].spec, cell->method.scorer_spec) == 0) {
            *out = &b->scored[i];
            return KVA_OK;
        }
    s = kva_realloc(b->scored, (size_t)b->n_scored + 1, sizeof *s);
    if (s == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "scores of %s", cell->method.scorer_spec);
    b->scored = s;
    s = &b->scored[b->n_scored];
    memset(s, 0, sizeof *s);
    snprintf(s->spec, sizeof s->spec, "%s", cell->method.scorer_spec);
    decide_in(u, b, cell, &in);
    KVA_TRY(kva_method_score(&cell->method, &in, &s->scores, &s->scratch, err));
    s->ns = kva_now_ns() - t0;
    b->n_scored++;
    *out = s;
    return KVA_OK;
}

/* The decision reached the store: what stays is what was budgeted, and something did go.
 */
static enum kva_status check_effect(struct live *l, struct kva_session *s, int n_cut,
                                    const struct kva_unit_run *u, struct kva_error *err)
{
    uint64_t held = (uint64_t)n_cut * (uint64_t)(u->info->layers * u->info->kv_heads);
    struct kva_kv_bytes b;

    kva_kvstore_bytes(kva_session_store(s), &b);
    if (l->rc.budget_total < held && b.entries_kept >= held)
        return KVA_FAIL(err, KVA_ENOEFFECT,
                        "%s kept all %llu entries although its budget is %llu",
                        l->rc.cell->method.spec, (unsigned long long)held,
                        (unsigned long long)l->rc.budget_total);
    if (b.entries_kept > l->rc.budget_total)
        return KVA_FAIL(err, KVA_EBUDGET, "%s holds %llu entries, its budget is %llu",
                        l->rc.cell->method.spec, (unsigned long long)b.entries_kept,
                        (unsigned long long)l->rc.budget_total);
    return KVA_OK;
}

/* Decode-time cuts of an allocator that compares heads move entries between KV heads: its
 * cap is the ragged bound, not the sum of the first decision's pages. */
static size_t cut_cap(const struct kva_unit_run *u, const struct live *l,
                      const struct kva_keep *keep, int n, int extra)
{
    const struct kva_cell *cell = l->rc.cell;

    if (keep != NULL && cell->schedule.decode > 0 &&
        cell->method.allocator->compares_heads)
        return kva_block_cap(u, cell, l->rc.budget_total, n, extra);
    return kva_page_cap(u->info, keep, n, extra);
}

static enum kva_status cut_from(struct unit_state *st, struct base *b, struct live *l,
                                int n_left, struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = l->rc.cell;
    const struct scored *sc = NULL;
    struct kva_decision d = {0};
    struct kva_session_opts o;
    enum kva_kv_mode mode = cell->enforce == KVA_MASK ? KVA_KV_MASK : KVA_KV_PHYSICAL;
    int extra = kva_extra_tokens(cell, n_left, l->rc.n_gold, l->rc.max_new);
    bool dense = cell->method.scorer == NULL;
    uint64_t t0;
    enum kva_status rc = KVA_OK;

    l->rc.budget_total = kva_cell_total(u, cell, b->n);
    if (!dense) {
        KVA_GO(base_scores(u, b, cell, &sc, err));
        if (sc->scores.nonfinite > 0) {
            rc = KVA_FAIL(err, KVA_ENONFINITE, "%llu scores of %s are not finite numbers",
                          (unsigned long long)sc->scores.nonfinite,
                          cell->method.scorer_spec);
            goto out;
        }
    }
    t0 = kva_now_ns();
    if (!dense) {
        struct kva_decide_in in;

        decide_in(u, b, cell, &in);
        KVA_GO(kva_method_decide(&cell->method, &in, &sc->scores, l->rc.budget_total, &d,
                                 NULL, err));
    }
    dense = dense || d.nothing_to_do;
    o = session_opts(
        u, mode,
        cut_cap(u, l, dense || mode == KVA_KV_MASK ? NULL : &d.keep, b->n, extra),
        cell->schedule.decode > 0 ? own_window(cell) + gold_rows(l) : 0);
    KVA_GO(kva_session_fork(b->session, dense ? NULL : &d.keep, &o, &l->rc.session, err));
    l->result.timing = (struct kva_db_timing){.exec = KVA_EXEC_SHARED,
                                              -1,
                                              sc != NULL ? (int64_t)sc->ns : 0,
                                              (int64_t)(kva_now_ns() - t0),
                                              -1,
                                              -1,
                                              -1,
                                              -1,
                                              -1,
                                              "monotonic"};
    l->result.has_timing = true;
    KVA_GO(check_effect(l, l->rc.session, b->n, u, err));
    l->result.n_cut = b->n;
    kva_memory_fill(u, &l->rc, b->n, dense ? 0 : b->alloc_bytes, &l->result.memory);
    /* alone, this cell would have held the whole prefill at its peak */
    if ((int64_t)b->held_bytes > l->result.memory.kv_peak_bytes)
        l->result.memory.kv_peak_bytes = (int64_t)b->held_bytes;
out:
    kva_decision_release(&d);
    return rc;
}

enum kva_status kva_block_prefill(struct kva_unit_run *u, struct kva_session *s,
                                  const struct kva_cell *cell, const int32_t *ids, int n,
                                  uint64_t total, uint64_t *score_ns, uint64_t *evict_ns,
                                  struct kva_row *last, struct kva_error *err)
{
    struct kva_kvstore *store = kva_session_store(s);

    for (int at = 0; at < n; at += cell->schedule.block) {
        int len = n - at < cell->schedule.block ? n - at : cell->schedule.block;
        struct kva_decision d = {0};
        struct kva_kv_bytes b;
        uint64_t bad = 0, t0;
        enum kva_status rc;

        KVA_TRY(kva_unit_feed(u, s, ids + at, len, at + len == n ? last : NULL, err));
        kva_kvstore_bytes(store, &b);
        if (b.entries_kept <= total)
            continue;
        t0 = kva_now_ns();
        rc = kva_decide_own(s, &cell->method, total, kva_unit_seed(u, cell), len, true,
                            &d, &bad, NULL, err);
        *score_ns += kva_now_ns() - t0;
        t0 = kva_now_ns();
        if (rc == KVA_OK && bad > 0)
            rc = KVA_FAIL(err, KVA_ENONFINITE, "%llu scores are not finite numbers",
                          (unsigned long long)bad);
        if (rc == KVA_OK && !d.nothing_to_do)
            rc = kva_session_keep(s, &d.keep, err);
        if (rc == KVA_OK)
            rc = kva_kvstore_trim(store, err);
        *evict_ns += kva_now_ns() - t0;
        kva_decision_release(&d);
        KVA_TRY(rc);
    }
    return KVA_OK;
}

/* The stream a block cell reads before its answer: context, and what visibility adds. */
static int seen_question(const struct kva_unit_run *u, int q, enum kva_visibility v)
{
    if (v == KVA_AWARE)
        return u->questions[q].n_visible;
    return v == KVA_FULL ? (int)u->questions[q].ids.n : 0;
}

static enum kva_status open_block(struct unit_state *st, struct live *l,
                                  struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = l->rc.cell;
    int q = l->job->question, nq = seen_question(u, q, cell->visibility);
    int n = (int)u->prompt.context.n + nq;
    int32_t *ids = kva_calloc((size_t)n, sizeof *ids);
    struct kva_row last = {.logits = nq == (int)u->questions[q].ids.n,
                           .target = u->gold[q].n > 0 ? u->gold[q].id[0] : -1};
    uint64_t score_ns = 0, evict_ns = 0;
    struct kva_session_opts o;
    enum kva_status rc = KVA_OK;

    if (ids == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d token ids", n);
    memcpy(ids, u->prompt.context.id, u->prompt.context.n * sizeof *ids);
    memcpy(ids + u->prompt.context.n, u->questions[q].ids.id, (size_t)nq * sizeof *ids);
    l->rc.budget_total = kva_cell_total(u, cell, n);
    o = session_opts(
        u, cell->enforce == KVA_MASK ? KVA_KV_MASK : KVA_KV_PHYSICAL,
        kva_block_cap(u, cell, l->rc.budget_total, n,
                      kva_extra_tokens(cell, l->rc.n_ids, l->rc.n_gold, l->rc.max_new)),
        own_window(cell) + gold_rows(l));
    KVA_GO(kva_session_new(u->model, &o, &l->rc.session, err));
    KVA_GO(kva_block_prefill(u, l->rc.session, cell, ids, n, l->rc.budget_total,
                             &score_ns, &evict_ns, last.logits ? &last : NULL, err));
    if (last.logits) {
        l->rc.next = last.argmax;
        l->rc.first_nll = last.nll;
        l->rc.first_ok = last.finite;
    }
    l->result.timing = (struct kva_db_timing){
        KVA_EXEC_SHARED, -1, (int64_t)score_ns, (int64_t)evict_ns, -1, -1, -1, -1, -1,
        "monotonic"};
    l->result.has_timing = true;
    KVA_GO(check_effect(l, l->rc.session, n, u, err));
    l->result.n_cut = n;
    kva_memory_fill(u, &l->rc, n, 0, &l->result.memory);
out:
    free(ids);
    return rc;
}

static enum kva_status open_blind(struct unit_state *st, struct live *l,
                                  struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    int n = (int)u->blind.context.n;
    struct kva_session_opts o =
        session_opts(u, KVA_KV_PHYSICAL,
                     kva_page_cap(u->info, NULL, n,
                                  kva_extra_tokens(l->rc.cell, l->rc.n_ids, l->rc.n_gold,
                                                   l->rc.max_new)),
                     0);

    KVA_TRY(kva_session_new(u->model, &o, &l->rc.session, err));
    if (n > 0)
        KVA_TRY(kva_unit_feed(u, l->rc.session, u->blind.context.id, n, NULL, err));
    l->result.n_cut = n;
    l->rc.budget_total = kva_cell_total(u, l->rc.cell, n);
    kva_memory_fill(u, &l->rc, n, 0, &l->result.memory);
    return KVA_OK;
}

/* ---- one cell: from job to decided session
 * ---------------------------------------------------- */

/* A prompt and its answer must fit the model's context (ruling R28); a gold answer that
 * does not only costs the nats. */
static enum kva_status fits(const struct kva_unit_run *u, struct live *l,
                            struct kva_error *err)
{
    int prompt = l->result.n_ctx + l->result.n_question,
        room = u->info->ctx_train - prompt;

    if (l->rc.n_gold - 1 > room)
        l->rc.n_gold = 0;
    if (l->rc.max_new <= room)
        return KVA_OK;
    return KVA_FAIL(
        err, KVA_ETRUNCATED,
        "prompt of %d tokens and %d to generate exceed the model's context of %d", prompt,
        l->rc.max_new, u->info->ctx_train);
}

static enum kva_status live_begin(struct unit_state *st, const struct kva_job *job,
                                  struct live *l, struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = &u->plan->cells[job->cell];
    const struct kva_question *q = &u->questions[job->question];

    memset(l, 0, sizeof *l);
    l->job = job;
    l->result.unit = u->unit_no;
    l->result.question = job->question;
    l->result.idx = u->items[job->question].idx;
    l->result.cell = job->cell;
    l->result.rep = job->rep;
    l->rc.cell = cell;
    l->rc.seed = kva_unit_seed(u, cell);
    l->rc.max_new = u->items[job->question].max_new_tokens;
    l->rc.gold = u->gold[job->question].id;
    l->rc.n_gold = (int)u->gold[job->question].n;
    if (u->bad[job->question].code != KVA_OK)
        return KVA_FAIL(err, u->bad[job->question].code, "%s",
                        u->bad[job->question].text);
    if (cell->method.blind) {
        KVA_TRY(kva_unit_blind(u, job->question, err));
        q = &u->blind_questions[job->question];
    }
    l->rc.tok = q->tok;
    l->rc.ids = q->ids.id;
    l->rc.n_ids = (int)q->ids.n;
    l->result.n_ctx =
        (int)(cell->method.blind ? u->blind.context.n : u->prompt.context.n);
    l->result.n_question = l->rc.n_ids;
    l->rc.gen = kva_calloc((size_t)l->rc.max_new + 1, sizeof *l->rc.gen);
    l->rc.step_ns = kva_calloc((size_t)l->rc.max_new + 1, sizeof *l->rc.step_ns);
    if (l->rc.gen == NULL || l->rc.step_ns == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "generation of %d tokens", l->rc.max_new);
    return fits(u, l, err);
}

static enum kva_status live_open(struct unit_state *st, struct live *l,
                                 struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = l->rc.cell;
    int q = l->job->question, seen = seen_question(u, q, cell->visibility);
    struct base *b = &st->base;
    int all = l->rc.n_ids;

    if (cell->method.blind) {
        KVA_TRY(open_blind(st, l, err));
        goto decided;
    }
    l->rc.ids += seen;
    l->rc.n_ids -= seen;
    if (cell->schedule.kind == KVA_BLOCK && cell->method.scorer != NULL) {
        KVA_TRY(open_block(st, l, err));
        goto decided;
    }
    KVA_TRY(open_base(st, err));
    if (cell->visibility != KVA_AGNOSTIC) {
        b = cell->visibility == KVA_AWARE ? &st->aware : &st->full;
        KVA_TRY(open_seen(st, q, b, seen, err));
    }
    KVA_TRY(cut_from(st, b, l, l->rc.n_ids, err));
    if (seen == all) {
        l->rc.next = b->last.argmax;
        l->rc.first_nll = b->last.nll;
        l->rc.first_ok = b->last.finite;
    }
decided:
    l->result.has_memory = true;
    l->result.kept_fnv = kva_kvstore_kept_fnv(kva_session_store(l->rc.session));
    if (!cell->method.blind)
        KVA_TRY(kva_unit_spans(u, q, l->rc.session, &l->result, err));
    if (l->result.idx < u->opts->trace_kept && !cell->method.blind)
        KVA_TRY(kva_unit_bits(u, l->rc.session, l->result.n_cut, &l->result, err));
    return KVA_OK;
}

static void live_finish(struct unit_state *st, struct live *l)
{
    struct kva_error why = {0};

    if (l->rc.failed.code != KVA_OK) {
        kva_result_fail(&l->result, &l->rc.failed);
        return;
    }
    kva_memory_end(l->rc.session, &l->rc, &l->result.memory);
    if (kva_unit_score(&st->u, l->job->question, &l->rc, &l->result, &why) != KVA_OK)
        kva_result_fail(&l->result, &why);
}

static void live_release(struct live *l)
{
    kva_session_free(l->rc.session);
    free(l->rc.gen);
    free(l->rc.step_ns);
    kva_result_release(&l->result);
    memset(l, 0, sizeof *l);
}

/* ---- waves
 * ---------------------------------------------------------------------------------------
 */

struct ended_ctx {
    struct unit_state *st;
    struct live *lives;
    int n;
};

static enum kva_status ended(void *ctx, struct kva_run_cell **cells, int n,
                             struct kva_error *err)
{
    struct ended_ctx *e = ctx;
    struct kva_result *out = kva_calloc((size_t)n, sizeof *out);
    enum kva_status rc;

    if (out == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "results of %d cells", n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < e->n; j++)
            if (&e->lives[j].rc == cells[i]) {
                live_finish(e->st, &e->lives[j]);
                e->lives[j].sent = true;
                out[i] = e->lives[j].result; /* borrowed */
            }
    rc = e->st->u.sink->results(e->st->u.sink->ctx, out, n, err);
    free(out);
    /* their pages are not needed any more */
    for (int j = 0; j < e->n; j++)
        if (e->lives[j].sent && e->lives[j].rc.session != NULL && e->lives[j].rc.done) {
            kva_session_free(e->lives[j].rc.session);
            e->lives[j].rc.session = NULL;
        }
    return rc;
}

static enum kva_status send_failed(struct unit_state *st, struct live *l,
                                   const struct kva_error *why, struct kva_error *err)
{
    kva_result_fail(&l->result, why);
    l->sent = true;
    return st->u.sink->results(st->u.sink->ctx, &l->result, 1, err);
}

static enum kva_status run_wave(struct unit_state *st, struct live *lives, int n,
                                struct kva_error *err)
{
    struct kva_run_cell **cells = kva_calloc((size_t)n, sizeof(struct kva_run_cell *));
    struct ended_ctx e = {st, lives, n};
    int k = 0;
    enum kva_status rc = KVA_OK;

    if (cells == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a wave of %d cells", n);
    for (int i = 0; i < n; i++)
        if (!lives[i].sent)
            cells[k++] = &lives[i].rc;
    if (k > 0)
        rc = kva_wave_run(st->u.model, cells, k, st->u.chunk, st->u.opts->stop, ended, &e,
                          st->u.rows, err);
    free(cells);
    return rc;
}

/* Opens every cell; failures stay with their cell until it is sure that all fit. */
static enum kva_status open_all(struct unit_state *st, const struct kva_job *const *jobs,
                                struct live *lives, int n, struct kva_error *err)
{
    for (int i = 0; i < n; i++) {
        struct kva_error *why = &lives[i].why;

        if (st->u.opts->stop != NULL && *st->u.opts->stop != 0)
            return KVA_FAIL(err, KVA_EINTERRUPTED, "stopped between two cells");
        if (live_begin(st, jobs[i], &lives[i], why) == KVA_OK)
            (void)live_open(st, &lives[i], why);
        if (why->code == KVA_EINTERRUPTED || (why->code == KVA_ENOMEM && n > 1))
            return KVA_FAIL(err, why->code, "%s", why->text);
    }
    for (int i = 0; i < n; i++)
        if (lives[i].why.code != KVA_OK)
            KVA_TRY(send_failed(st, &lives[i], &lives[i].why, err));
    return KVA_OK;
}

static bool any_sent(const struct live *lives, int n)
{
    for (int i = 0; i < n; i++)
        if (lives[i].sent)
            return true;
    return false;
}

/* A group that does not fit into memory is tried in halves, as long as nothing of it was
 * stored: what a cell gives must not depend on its neighbours (ruling R7). */
static enum kva_status run_group(struct unit_state *st, const struct kva_job *const *jobs,
                                 int n, struct kva_error *err)
{
    struct live *lives = kva_calloc((size_t)n, sizeof *lives);
    struct kva_error why = {0};
    enum kva_status rc;
    bool halve;

    if (lives == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a wave of %d cells", n);
    rc = open_all(st, jobs, lives, n, &why);
    if (rc == KVA_OK)
        rc = run_wave(st, lives, n, &why);
    halve = rc == KVA_ENOMEM && n > 1 && !any_sent(lives, n);
    for (int i = 0; i < n; i++)
        live_release(&lives[i]);
    free(lives);
    if (halve) {
        KVA_TRY(run_group(st, jobs, n / 2, err));
        return run_group(st, jobs + n / 2, n - n / 2, err);
    }
    if (rc != KVA_OK)
        return KVA_FAIL(err, why.code != KVA_OK ? why.code : rc, "%s", why.text);
    return KVA_OK;
}

static enum kva_status run_shared(struct unit_state *st, struct kva_error *err)
{
    const struct kva_unit *un = st->u.unit;
    int limit =
        kva_wave_limit(&st->u, st->u.opts->wave > 0 ? st->u.opts->wave : DEFAULT_WAVE);
    const struct kva_job **jobs = kva_calloc((size_t)un->n_jobs, sizeof *jobs);
    enum kva_status rc = KVA_OK;

    if (jobs == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d jobs", un->n_jobs);
    for (int q = 0; q < un->n_idx; q++) {
        int n = 0;

        for (int i = 0; i < un->n_jobs; i++)
            if (!un->jobs[i].perf && un->jobs[i].question == q)
                jobs[n++] = &un->jobs[i];
        for (int at = 0; at < n; at += limit)
            KVA_GO(run_group(st, jobs + at, n - at < limit ? n - at : limit, err));
        base_release(&st->aware);
        base_release(&st->full);
    }
out:
    free(jobs);
    return rc;
}

static enum kva_status alone_once(struct unit_state *st, const struct kva_job *job,
                                  bool record, struct kva_error *err)
{
    struct kva_result r = {0};
    struct kva_error why = {0};
    enum kva_status rc = kva_exec_alone(&st->u, job, &r, &why);

    if (rc == KVA_EINTERRUPTED)
        KVA_FAIL(err, rc, "%s", why.text);
    else if (rc != KVA_OK)
        kva_result_fail(&r, &why);
    if (rc != KVA_EINTERRUPTED)
        rc = record ? st->u.sink->results(st->u.sink->ctx, &r, 1, err) : KVA_OK;
    kva_result_release(&r);
    return rc;
}

/* The first job of a unit runs once unrecorded: it would pay for page faults of weights,
 * activations and kernel scratch, in time and in the resident set. */
static enum kva_status run_alone(struct unit_state *st, struct kva_error *err)
{
    const struct kva_unit *un = st->u.unit;
    bool warm = false;

    for (int i = 0; i < un->n_jobs; i++) {
        if (!un->jobs[i].perf)
            continue;
        if (!warm)
            KVA_TRY(alone_once(st, &un->jobs[i], false, err));
        warm = true;
        KVA_TRY(alone_once(st, &un->jobs[i], true, err));
    }
    return KVA_OK;
}

enum kva_status kva_exec_unit(struct kva_plan *plan, int unit, bool perf,
                              const struct kva_exec_opts *opts,
                              const struct kva_sink *sink, int64_t *rows,
                              struct kva_error *err)
{
    struct unit_state st;
    enum kva_status rc;

    memset(&st, 0, sizeof st);
    rc = kva_unit_open(plan, unit, opts, sink, &st.u, err);
    if (rc != KVA_OK)
        goto out;
    st.u.rows = rows;
    for (int i = 0; i < st.u.unit->n_jobs; i++) {
        int w = own_window(&plan->cells[st.u.unit->jobs[i].cell]);

        if (w > st.window)
            st.window = w;
    }
    for (int q = 0; q < st.u.unit->n_idx && sink->sample != NULL; q++)
        KVA_GO(sink->sample(sink->ctx, &st.u.samples[q], err));
    rc = perf ? run_alone(&st, err) : run_shared(&st, err);
out:
    base_release(&st.base);
    base_release(&st.aware);
    base_release(&st.full);
    kva_unit_close(&st.u);
    return rc;
}
