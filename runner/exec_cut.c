/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_cut.c - from a job to a session whose cache is decided.
 *
 * One-shot cells share one prefill of the context per visibility:
 *   agnostic  the context alone
 *   aware     a fork of the intact store that has also read the question
 *   full      a fork that has read the whole prompt
 * On each of these stores a scorer runs once; every budget and allocator of that scorer
 * selects from the same scores, and the cell takes its own copy of what stays (ruling
 * R6). Block cells prefill alone and join the wave; the blind cell has no context. In a
 * conversation the cache is decided once, with its first question. */
#include "runner/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kva_base_release(struct kva_base *b)
{
    for (int i = 0; i < b->n_scored; i++)
        kva_scores_release(&b->scored[i].scores);
    free(b->scored);
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
static int gold_rows(const struct kva_live *l)
{
    int n = l->rc.n_gold > l->most_gold ? l->rc.n_gold : l->most_gold;

    if (l->rc.cell->schedule.decode == 0 || own_window(l->rc.cell) == 0)
        return 0;
    return n > 1 ? n - 1 : 0;
}

static enum kva_status open_base(struct kva_unit_state *st, struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    struct kva_base *b = &st->base;
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
static enum kva_status open_seen(struct kva_unit_state *st, int q, struct kva_base *b,
                                 int n, struct kva_error *err)
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
                               .target = u->gold[q].n > 0 ? u->gold[q].id[0] : -1,
                               .forbid = u->ends[q].forbid,
                               .n_forbid = u->ends[q].n_forbid};
    KVA_GO(kva_unit_feed(u, s, u->questions[q].ids.id, n, &b->last, err));
    b->session = s;
    b->n = st->base.n + n;
    base_measure(b);
    return KVA_OK;
out:
    kva_session_free(s);
    return rc;
}

static void decide_in(const struct kva_unit_run *u, const struct kva_base *b,
                      const struct kva_cell *cell, struct kva_decide_in *in)
{
    memset(in, 0, sizeof *in);
    kva_session_decide_in(b->session, in);
    in->seed = kva_unit_seed(u, cell);
    in->block_len = b->n;
    in->is_block = false;
}

/* Scores of one scorer on a base: computed once. */
static enum kva_status base_scores(const struct kva_unit_run *u, struct kva_base *b,
                                   const struct kva_cell *cell,
                                   const struct kva_scored **out, struct kva_error *err)
{
    struct kva_decide_in in;
    struct kva_scored *s;
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
static enum kva_status check_effect(struct kva_live *l, struct kva_session *s, int n_cut,
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
static size_t cut_cap(const struct kva_unit_run *u, const struct kva_live *l,
                      const struct kva_keep *keep, int n, int extra)
{
    const struct kva_cell *cell = l->rc.cell;

    if (keep != NULL && cell->schedule.decode > 0 &&
        cell->method.allocator->compares_heads)
        return kva_block_cap(u, cell, l->rc.budget_total, n, extra);
    return kva_page_cap(u->info, keep, n, extra);
}

/* What the session will hold beside the cut prompt. */
static int extra_tokens(const struct kva_live *l, int n_left)
{
    return kva_extra_tokens(l->rc.cell, n_left, l->rc.n_gold, l->rc.max_new) + l->later;
}

static enum kva_status cut_from(struct kva_unit_state *st, struct kva_base *b,
                                struct kva_live *l, int n_left, struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = l->rc.cell;
    const struct kva_scored *sc = NULL;
    struct kva_decision d = {0};
    struct kva_session_opts o;
    enum kva_kv_mode mode = cell->enforce == KVA_MASK ? KVA_KV_MASK : KVA_KV_PHYSICAL;
    int extra = extra_tokens(l, n_left);
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
    l->rc.protect = d.protect;
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
                                  uint64_t total, struct kva_block_out *out,
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
        out->score_ns += kva_now_ns() - t0;
        t0 = kva_now_ns();
        if (rc == KVA_OK && bad > 0)
            rc = KVA_FAIL(err, KVA_ENONFINITE, "%llu scores are not finite numbers",
                          (unsigned long long)bad);
        if (rc == KVA_OK && !d.nothing_to_do)
            rc = kva_session_keep(s, &d.keep, err);
        if (rc == KVA_OK)
            rc = kva_kvstore_trim(store, err);
        out->evict_ns += kva_now_ns() - t0;
        out->protect = d.protect;
        kva_decision_release(&d);
        KVA_TRY(rc);
    }
    return KVA_OK;
}

/* The stream of a block cell before its answer: context, and what visibility adds. */
static enum kva_status open_block(struct kva_unit_state *st, struct kva_live *l,
                                  struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = l->rc.cell;
    int q = l->job->question,
        nq = kva_seen_question(u, u->questions, q, cell->visibility);
    int n = (int)u->prompt.context.n + nq;
    int32_t *ids = kva_calloc((size_t)n, sizeof *ids);
    struct kva_row last = {.logits = nq == (int)u->questions[q].ids.n,
                           .target = u->gold[q].n > 0 ? u->gold[q].id[0] : -1,
                           .forbid = u->ends[q].forbid,
                           .n_forbid = u->ends[q].n_forbid};
    struct kva_block_out out = {0};
    struct kva_session_opts o;
    enum kva_status rc = KVA_OK;

    if (ids == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d token ids", n);
    memcpy(ids, u->prompt.context.id, u->prompt.context.n * sizeof *ids);
    memcpy(ids + u->prompt.context.n, u->questions[q].ids.id, (size_t)nq * sizeof *ids);
    l->rc.budget_total = kva_cell_total(u, cell, n);
    o = session_opts(
        u, cell->enforce == KVA_MASK ? KVA_KV_MASK : KVA_KV_PHYSICAL,
        kva_block_cap(u, cell, l->rc.budget_total, n, extra_tokens(l, l->rc.n_ids)),
        own_window(cell) + gold_rows(l));
    KVA_GO(kva_session_new(u->model, &o, &l->rc.session, err));
    KVA_GO(kva_block_prefill(u, l->rc.session, cell, ids, n, l->rc.budget_total, &out,
                             last.logits ? &last : NULL, err));
    l->rc.protect = out.protect;
    if (last.logits) {
        l->rc.next = last.argmax;
        l->rc.first_nll = last.nll;
        l->rc.first_ok = last.finite;
    }
    l->result.timing = (struct kva_db_timing){KVA_EXEC_SHARED,
                                              -1,
                                              (int64_t)out.score_ns,
                                              (int64_t)out.evict_ns,
                                              -1,
                                              -1,
                                              -1,
                                              -1,
                                              -1,
                                              "monotonic"};
    l->result.has_timing = true;
    KVA_GO(check_effect(l, l->rc.session, n, u, err));
    l->result.n_cut = n;
    kva_memory_fill(u, &l->rc, n, 0, &l->result.memory);
out:
    free(ids);
    return rc;
}

static enum kva_status open_blind(struct kva_unit_state *st, struct kva_live *l,
                                  struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    int n = (int)u->blind.context.n;
    struct kva_session_opts o =
        session_opts(u, KVA_KV_PHYSICAL,
                     kva_page_cap(u->info, NULL, n, extra_tokens(l, l->rc.n_ids)), 0);

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

enum kva_status kva_live_begin(struct kva_unit_state *st, const struct kva_job *job,
                               struct kva_live *l, struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = &u->plan->cells[job->cell];
    const struct kva_question *q = &u->questions[job->question];
    int prompt;

    memset(l, 0, sizeof *l);
    l->job = job;
    l->result.unit = u->unit_no;
    l->result.question = job->question;
    l->result.idx = u->items[job->question].idx;
    l->result.cell = job->cell;
    l->result.rep = job->rep;
    l->rc.cell = cell;
    l->rc.seed = kva_unit_seed(u, cell);
    l->rc.ends = &u->ends[job->question];
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
    prompt = l->result.n_ctx + l->result.n_question;
    KVA_TRY(kva_unit_max_new(u, job->question, prompt, &l->rc.max_new, err));
    if (l->rc.n_gold - 1 > u->info->ctx_train - prompt)
        l->rc.n_gold = 0; /* a gold answer that does not fit only costs the nats */
    l->rc.gen = kva_calloc((size_t)l->rc.max_new + 1, sizeof *l->rc.gen);
    if (l->rc.gen == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "generation of %d tokens", l->rc.max_new);
    return KVA_OK;
}

enum kva_status kva_live_open(struct kva_unit_state *st, struct kva_live *l,
                              struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = l->rc.cell;
    int q = l->job->question,
        seen = kva_seen_question(u, u->questions, q, cell->visibility);
    struct kva_base *b = &st->base;
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

void kva_live_finish(struct kva_unit_state *st, struct kva_live *l)
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

void kva_live_release(struct kva_live *l)
{
    kva_session_free(l->rc.session);
    free(l->rc.gen);
    kva_result_release(&l->result);
    memset(l, 0, sizeof *l);
}
