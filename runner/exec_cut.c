/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_cut.c - from a job to a session whose cache is decided.
 *
 * One-shot cells select from what was seen in a shared base (exec_base.c), and each takes
 * its own copy of what stays (ruling R6). Cells that evict as they read prefill alone
 * (exec_prefill.c) and join the wave; the blind cell has no context. In a conversation
 * the cache is decided once, with its first question. */
#include "runner/cheats.h"
#include "runner/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool masks(const struct kva_cell *cell)
{
    return kva_enforce_hides(cell->enforce) || KVA_CHEATS(KVA_CHEAT_MASK);
}

struct kva_session_opts kva_cell_opts(const struct kva_unit_run *u,
                                      const struct kva_cell *cell, size_t cap, int window,
                                      struct kva_collect *want)
{
    *want = kva_method_collect(&cell->method);
    return (struct kva_session_opts){.kv = u->unit->kv,
                                     .mode = masks(cell) ? KVA_KV_MASK : KVA_KV_PHYSICAL,
                                     .page_cap = cap,
                                     .q_window = window,
                                     .collect = want,
                                     .n_collect = want->kind != KVA_COLLECT_NONE};
}

enum kva_status kva_cell_layout(const struct kva_unit_run *u, const struct kva_cell *cell,
                                struct kva_session *s, struct kva_error *err)
{
    struct kva_kv_layout layout = {
        .padded = cell->enforce == KVA_PADDED,
        .copies = cell->enforce == KVA_QHEAD ? u->info->heads / u->info->kv_heads : 1};

    return kva_kvstore_set_layout(kva_session_store(s), &layout, err);
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

/* The decision reached the store: what stays is what was decided, and something did go.
 */
static enum kva_status check_effect(const struct kva_live *l, int n_cut, uint64_t decided,
                                    const struct kva_unit_run *u, struct kva_error *err)
{
    uint64_t held = (uint64_t)n_cut * (uint64_t)(u->info->layers * u->info->kv_heads);
    struct kva_kv_bytes b;

    kva_kvstore_bytes(kva_session_store(l->rc.session), &b);
    if (decided < held && b.entries_kept >= held)
        return KVA_FAIL(err, KVA_ENOEFFECT,
                        "%s kept all %llu entries although %llu were "
                        "to stay",
                        l->rc.cell->method.spec, (unsigned long long)held,
                        (unsigned long long)decided);
    if (b.entries_kept > decided)
        return KVA_FAIL(err, KVA_EBUDGET, "%s holds %llu entries, %llu were to stay",
                        l->rc.cell->method.spec, (unsigned long long)b.entries_kept,
                        (unsigned long long)decided);
    return KVA_OK;
}

/* Decode-time cuts may move entries between KV heads: the cap is that of any split, not
 * the sum of the first decision's pages. */
static size_t cut_cap(const struct kva_unit_run *u, const struct kva_live *l,
                      const struct kva_keep *keep, int n, int extra)
{
    const struct kva_cell *cell = l->rc.cell;

    if (keep != NULL && cell->schedule.decode > 0 &&
        (!kva_even_shares(&cell->method) || cell->enforce == KVA_UNION))
        return kva_moving_cap(u, cell, l->rc.budget_total, n, extra);
    return kva_page_cap(u->info, keep, n, extra);
}

/* What the session will hold beside the cut prompt. */
static int extra_tokens(const struct kva_live *l, int n_left)
{
    return kva_extra_tokens(l->rc.cell, n_left, l->rc.n_gold, l->rc.max_new) + l->later;
}

static struct kva_db_timing shared_timing(const struct kva_unit_run *u, uint64_t score_ns,
                                          const struct kva_parts *parts)
{
    return (struct kva_db_timing){KVA_EXEC_SHARED,
                                  -1,
                                  (int64_t)(score_ns + parts->ns[KVA_PART_SCORE]),
                                  (int64_t)parts->ns[KVA_PART_EVICT],
                                  -1,
                                  -1,
                                  -1,
                                  -1,
                                  -1,
                                  kva_parts_clock(kva_model_ops(u->model))};
}

static enum kva_status cut_from(struct kva_unit_state *st, struct kva_base *b,
                                struct kva_live *l, int n_left, struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    const struct kva_cell *cell = l->rc.cell;
    struct kva_decide_cost cost = {0};
    struct kva_decision d = {0};
    struct kva_session_opts o;
    struct kva_collect want;
    int extra = extra_tokens(l, n_left);
    bool dense = cell->method.scorer == NULL;
    struct kva_parts parts;
    uint64_t peak, decided = l->rc.budget_total = kva_cell_total(u, cell, b->n);
    enum kva_status rc = KVA_OK;

    if (!dense) {
        if (KVA_CHEATS(KVA_CHEAT_HOLD))
            decided += decided / 4;
        KVA_GO(kva_base_decide(u, b, cell, decided, &d, &cost, err));
        decided = d.total;
    }
    l->rc.protect = d.protect;
    kva_note(&l->rc.noted, &d);
    dense = dense || d.nothing_to_do;
    o = kva_cell_opts(
        u, cell, cut_cap(u, l, dense || masks(cell) ? NULL : &d.keep, b->n, extra),
        cell->schedule.decode > 0 ? own_window(cell) + gold_rows(l) : 0, &want);
    if (cell->schedule.decode == 0)
        o.n_collect = 0;
    kva_parts_begin(&parts, kva_model_ops(u->model), KVA_PART_EVICT);
    KVA_GO(kva_session_fork(b->session, dense ? NULL : &d.keep, &o, &l->rc.session, err));
    KVA_GO(kva_cell_layout(u, cell, l->rc.session, err));
    kva_parts_end(&parts);
    l->result.timing = shared_timing(u, cost.score_ns, &parts);
    l->result.has_timing = true;
    KVA_GO(check_effect(l, b->n, decided, u, err));
    l->result.n_cut = l->rc.prompt = b->n;
    l->rc.scratch_bytes = cost.scratch;
    if (!kva_keeps_state(cell))
        l->rc.scratch_bytes += kva_state_bytes(u, cell, b->session);
    kva_memory_fill(u, &l->rc, b->n, dense ? 0 : b->alloc_bytes, &l->result.memory);
    /* alone, this cell would have held the whole prefill at its peak */
    peak = b->held_bytes;
    if (cell->enforce == KVA_QHEAD)
        peak *= (uint64_t)(u->info->heads / u->info->kv_heads);
    if ((int64_t)peak > l->result.memory.kv_peak_bytes)
        l->result.memory.kv_peak_bytes = (int64_t)peak;
out:
    kva_decision_release(&d);
    return rc;
}

/* A cell that evicts as it reads: context, and what visibility adds. */
static enum kva_status open_own(struct kva_unit_state *st, struct kva_live *l,
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
                           .n_forbid = u->ends[q].n_forbid,
                           .keep_logits = l->rc.logits};
    struct kva_stream in = {.cell = cell, .ids = ids, .n = n, .n_question = nq};
    struct kva_prefill_out out;
    struct kva_parts parts;
    struct kva_session_opts o;
    struct kva_collect want;
    enum kva_status rc = KVA_OK;

    if (ids == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d token ids", n);
    memcpy(ids, u->prompt.context.id, u->prompt.context.n * sizeof *ids);
    if (nq > 0)
        memcpy(ids + u->prompt.context.n, u->questions[q].ids.id,
               (size_t)nq * sizeof *ids);
    in.total = l->rc.budget_total = kva_cell_total(u, cell, n);
    o = kva_cell_opts(u, cell,
                      kva_moving_cap(u, cell, in.total, n, extra_tokens(l, l->rc.n_ids)),
                      own_window(cell) + gold_rows(l), &want);
    KVA_GO(kva_session_new(u->model, &o, &l->rc.session, err));
    KVA_GO(kva_cell_layout(u, cell, l->rc.session, err));
    kva_parts_begin(&parts, kva_model_ops(u->model), KVA_PART_PREFILL);
    u->parts = &parts;
    rc = kva_prefill_own(u, l->rc.session, &in, &out, last.logits ? &last : NULL, err);
    u->parts = NULL;
    kva_parts_end(&parts);
    if (rc != KVA_OK)
        goto out;
    l->rc.protect = out.protect;
    l->rc.noted = out.noted;
    if (last.logits) {
        l->rc.next = last.argmax;
        l->rc.first_nll = last.nll;
        l->rc.first_ok = last.finite;
    }
    l->result.timing = shared_timing(u, 0, &parts);
    l->result.has_timing = true;
    KVA_GO(check_effect(l, n, out.decided, u, err));
    l->result.n_cut = l->rc.prompt = n;
    l->rc.scratch_bytes = out.scratch;
    if (!kva_keeps_state(cell))
        l->rc.scratch_bytes += kva_state_bytes(u, cell, l->rc.session);
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
    struct kva_collect want;
    struct kva_session_opts o = kva_cell_opts(
        u, l->rc.cell, kva_page_cap(u->info, NULL, n, extra_tokens(l, l->rc.n_ids)), 0,
        &want);

    KVA_TRY(kva_session_new(u->model, &o, &l->rc.session, err));
    if (n > 0)
        KVA_TRY(kva_unit_feed(u, l->rc.session, u->blind.context.id, n, NULL, err));
    l->result.n_cut = l->rc.prompt = n;
    l->rc.budget_total = kva_cell_total(u, l->rc.cell, n);
    kva_memory_fill(u, &l->rc, n, 0, &l->result.memory);
    return KVA_OK;
}

/* ---- one cell: from job to decided session ---- */

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
    l->rc.draw_seed =
        kva_draw_seed(cell->seed, u->samples[job->question].digest, job->rep);
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
    enum kva_visibility sees =
        KVA_CHEATS(KVA_CHEAT_QUESTION) ? KVA_AWARE : cell->visibility;
    int q = l->job->question, seen = kva_seen_question(u, u->questions, q, sees);
    struct kva_base *b = &st->base;
    int all = l->rc.n_ids;

    if (kva_sampled(&cell->sampling)) {
        l->rc.logits = kva_calloc((size_t)u->info->vocab, sizeof *l->rc.logits);
        if (l->rc.logits == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "logits of %d ids", u->info->vocab);
    }
    if (cell->method.blind) {
        KVA_TRY(open_blind(st, l, err));
        goto decided;
    }
    l->rc.ids += seen;
    l->rc.n_ids -= seen;
    if (kva_prefills_own(cell)) {
        KVA_TRY(open_own(st, l, err));
        goto decided;
    }
    KVA_TRY(kva_base_open(st, err));
    if (sees != KVA_AGNOSTIC) {
        b = sees == KVA_AWARE ? &st->aware : &st->full;
        KVA_TRY(kva_base_seen(st, q, b, seen, err));
    }
    KVA_TRY(cut_from(st, b, l, l->rc.n_ids, err));
    if (seen == all) {
        l->rc.next = b->last.argmax;
        l->rc.first_nll = b->last.nll;
        l->rc.first_ok = b->last.finite;
        if (l->rc.logits != NULL && b->logits != NULL)
            memcpy(l->rc.logits, b->logits,
                   (size_t)u->info->vocab * sizeof *l->rc.logits);
    }
decided:
    l->result.has_memory = true;
    l->result.kept_fnv = kva_kvstore_kept_fnv(kva_session_store(l->rc.session));
    if (!cell->method.blind)
        KVA_TRY(kva_unit_spans(u, q, l->rc.session, &l->result, err));
    if (l->result.idx < u->opts->trace_kept && !cell->method.blind)
        KVA_TRY(kva_unit_bits(u, l->rc.session, l->result.n_cut, &l->result, err));
    /* from here on no position says which token it was */
    if (kva_method_rotates(&cell->method))
        KVA_TRY(kva_session_rerotate(l->rc.session, err));
    return KVA_OK;
}

/* Spans and bitmaps are facts of the decision, which both share. */
static enum kva_status copy_kept(struct kva_result *to, const struct kva_result *from,
                                 struct kva_error *err)
{
    size_t heads = (size_t)from->layers * (size_t)from->kv_heads;
    size_t bits = heads * (((size_t)from->bits_tok + 7) / 8);

    to->layers = from->layers;
    to->kv_heads = from->kv_heads;
    if (from->n_spans > 0)
        to->spans = kva_calloc((size_t)from->n_spans, sizeof *to->spans);
    if (from->n_spans > 0 && to->spans == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d spans", from->n_spans);
    for (; to->n_spans < from->n_spans; to->n_spans++) {
        struct kva_result_span *s = &to->spans[to->n_spans];

        *s = from->spans[to->n_spans];
        s->kept = kva_calloc(heads, sizeof *s->kept);
        if (s->kept == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "%d spans", from->n_spans);
        memcpy(s->kept, from->spans[to->n_spans].kept, heads * sizeof *s->kept);
    }
    if (from->bits == NULL)
        return KVA_OK;
    to->bits = kva_calloc(bits, 1);
    if (to->bits == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "kept entries of %d tokens", from->bits_tok);
    memcpy(to->bits, from->bits, bits);
    to->bits_tok = from->bits_tok;
    return KVA_OK;
}

enum kva_status kva_live_follow(struct kva_live *l, struct kva_live *lead,
                                struct kva_error *err)
{
    struct kva_result *r = &l->result;
    const struct kva_result *from = &lead->result;
    const struct kva_run_cell *c = &lead->rc;

    l->rc.leader = &lead->rc;
    l->rc.ids = c->ids;
    l->rc.n_ids = c->n_ids;
    l->rc.n_gold = c->n_gold;
    l->rc.protect = c->protect;
    l->rc.prompt = c->prompt;
    l->rc.budget_total = c->budget_total;
    l->rc.state_bytes = c->state_bytes;
    l->rc.scratch_bytes = c->scratch_bytes;
    r->n_cut = from->n_cut;
    r->kept_fnv = from->kept_fnv;
    r->has_memory = from->has_memory;
    r->memory = from->memory;
    r->has_timing = from->has_timing;
    r->timing = from->timing;
    return copy_kept(r, from, err);
}

void kva_live_finish(struct kva_unit_state *st, struct kva_live *l)
{
    struct kva_error why = {0};

    l->result.flags = kva_noted_flags(&l->rc.noted);
    if (l->rc.failed.code != KVA_OK) {
        kva_result_fail(&l->result, &l->rc.failed);
        return;
    }
    kva_memory_end(&st->u, &l->rc, &l->result.memory);
    if (kva_unit_score(&st->u, l->job->question, &l->rc, &l->result, &why) != KVA_OK)
        kva_result_fail(&l->result, &why);
}

void kva_live_release(struct kva_live *l)
{
    kva_session_free(l->rc.session);
    free(l->rc.gen);
    free(l->rc.logits);
    kva_result_release(&l->result);
    memset(l, 0, sizeof *l);
}
