/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_turns.c - conversations: question after question in one cache (tasks-ruler.md
 * 10.3, point 3).
 *
 * A cell's context is cut once. Turn t is fed behind question t-1 and what the model said
 * to it: the last token of that answer, which nothing has read yet (an end token is left
 * to the template), the template's opening of a user turn, the question. These tokens
 * count against the budget only where the schedule evicts while decoding. All cells go
 * from turn to turn together, as waves. */
#include "runner/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One cell's conversation. */
struct chain {
    struct kva_job job; /* the turn at hand */
    int turns;          /* up to the last one that is not stored */
    bool *missing;      /* [n_idx] */
    int32_t *ids;       /* rows of the turn at hand */
    struct kva_live live;
};

struct talk {
    struct kva_unit_state *st;
    struct chain *chain;
    int n, turn;
};

bool kva_unit_talks(const struct kva_unit_run *u)
{
    const struct kva_task_info *info = kva_task_info(u->task->task);

    return info->conversation && !info->golden;
}

static const struct kva_question *questions_of(const struct kva_unit_run *u,
                                               const struct kva_cell *cell)
{
    return cell->method.blind ? u->blind_questions : u->questions;
}

static void release(struct chain *chain, int n)
{
    for (int i = 0; i < n; i++) {
        kva_live_release(&chain[i].live);
        free(chain[i].missing);
        free(chain[i].ids);
    }
}

/* Chains in the order of the jobs; a turn without a job is stored already. */
static enum kva_status find_chains(const struct kva_unit *un, struct chain *chain, int *n,
                                   struct kva_error *err)
{
    for (int i = 0; i < un->n_jobs; i++) {
        const struct kva_job *job = &un->jobs[i];
        int k = 0;

        if (job->perf)
            continue;
        while (k < *n && (chain[k].job.cell != job->cell || chain[k].job.rep != job->rep))
            k++;
        if (k == *n) {
            chain[k].job = *job;
            chain[k].missing = kva_calloc((size_t)un->n_idx, sizeof(bool));
            if (chain[k].missing == NULL)
                return KVA_FAIL(err, KVA_ENOMEM, "%d turns", un->n_idx);
            ++*n;
        }
        chain[k].missing[job->question] = true;
        if (chain[k].turns <= job->question)
            chain[k].turns = job->question + 1;
    }
    return KVA_OK;
}

/* The first turn: opened like any job, with room for the others. */
static enum kva_status open_chain(struct kva_unit_state *st, struct chain *c,
                                  struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    struct kva_live *l = &c->live;
    int most_new = 0, most_ids = 0;
    int32_t *gen;

    c->job.question = 0;
    KVA_TRY(kva_live_begin(st, &c->job, l, err));
    if (l->rc.cell->method.blind)
        KVA_TRY(kva_unit_blind(u, c->turns - 1, err));
    for (int t = 0; t < c->turns; t++) {
        int n_ids = 1 + (int)questions_of(u, l->rc.cell)[t].ids.n;
        int n_gold = (int)u->gold[t].n, n_new = u->items[t].max_new_tokens;

        most_new = n_new > most_new ? n_new : most_new;
        most_ids = n_ids > most_ids ? n_ids : most_ids;
        l->most_gold = n_gold > l->most_gold ? n_gold : l->most_gold;
        if (t > 0)
            l->later += n_ids + (n_gold > n_new ? n_gold : n_new);
    }
    gen = kva_realloc(l->rc.gen, (size_t)most_new + 1, sizeof *gen);
    if (gen == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "generation of %d tokens", most_new);
    l->rc.gen = gen;
    c->ids = kva_calloc((size_t)most_ids, sizeof *c->ids);
    if (c->ids == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a question of %d tokens", most_ids);
    return kva_live_open(st, l, err);
}

/* The result of turn t takes over what the decision left and starts empty otherwise. */
static void name_result(const struct kva_unit_run *u, struct kva_live *l, int t)
{
    struct kva_result old = l->result, *r = &l->result;

    kva_result_release(&l->result);
    *r = (struct kva_result){.unit = old.unit,
                             .question = t,
                             .idx = u->items[t].idx,
                             .cell = old.cell,
                             .rep = old.rep,
                             .n_ctx = old.n_ctx,
                             .n_cut = old.n_cut,
                             .kept_fnv = old.kept_fnv,
                             .has_memory = old.has_memory,
                             .memory = old.memory};
}

static enum kva_status next_turn(struct kva_unit_state *st, struct chain *c, int t,
                                 struct kva_error *err)
{
    struct kva_unit_run *u = &st->u;
    struct kva_live *l = &c->live;
    struct kva_run_cell *rc = &l->rc;
    const struct kva_question *q = &questions_of(u, rc->cell)[t];
    int32_t last = rc->n_gen > 0 ? rc->gen[rc->n_gen - 1] : -1;
    int seen = kva_session_seen(rc->session), n = 0;

    name_result(u, l, t);
    c->job.question = t;
    rc->draw_seed = kva_draw_seed(rc->cell->seed, u->samples[t].digest, l->result.rep);
    if (u->bad[t].code != KVA_OK)
        return KVA_FAIL(err, u->bad[t].code, "%s", u->bad[t].text);
    if (last >= 0 && !kva_tokenizer_is_eog(rc->tok, last))
        c->ids[n++] = last;
    memcpy(c->ids + n, q->ids.id, q->ids.n * sizeof *c->ids);
    rc->ids = c->ids;
    rc->n_ids = n + (int)q->ids.n;
    rc->tok = q->tok;
    rc->ends = &u->ends[t];
    rc->n_before = seen - l->result.n_cut;
    l->result.n_question = seen + rc->n_ids - l->result.n_ctx;
    KVA_TRY(kva_unit_max_new(u, t, seen + rc->n_ids, &rc->max_new, err));
    rc->gold = u->gold[t].id;
    rc->n_gold = (int)u->gold[t].n;
    if (rc->n_gold - 1 > u->info->ctx_train - seen - rc->n_ids)
        rc->n_gold = 0;
    rc->next = -1;
    rc->first_ok = rc->has_gold = rc->done = false;
    rc->first_nll = rc->gold_sum = 0;
    rc->n_gen = rc->n_steps = 0;
    rc->stop = NULL;
    if (rc->cell->method.blind)
        return KVA_OK;
    return kva_unit_spans(u, t, rc->session, &l->result, err);
}

/* Reports the results of the cells that ended, where they are missing. */
static enum kva_status ended(void *ctx, struct kva_run_cell **cells, int n,
                             struct kva_error *err)
{
    struct talk *talk = ctx;
    const struct kva_sink *sink = talk->st->u.sink;
    struct kva_result *out = kva_calloc((size_t)n, sizeof *out);
    int k = 0;
    enum kva_status rc = KVA_OK;

    if (out == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "results of %d cells", n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < talk->n; j++) {
            struct chain *c = &talk->chain[j];

            if (&c->live.rc != cells[i])
                continue;
            kva_live_finish(talk->st, &c->live);
            if (c->live.rc.failed.code != KVA_OK)
                (void)KVA_FAIL(&c->live.why, c->live.rc.failed.code, "turn %d: %s",
                               talk->turn, c->live.rc.failed.text);
            c->live.sent = true;
            if (c->missing[talk->turn])
                out[k++] = c->live.result; /* borrowed */
        }
    if (k > 0)
        rc = sink->results(sink->ctx, out, k, err);
    free(out);
    return rc;
}

/* A turn that cannot be asked fails, and those behind it with the same reason. */
static enum kva_status tell_failed(struct talk *talk, struct chain *c,
                                   struct kva_error *err)
{
    const struct kva_sink *sink = talk->st->u.sink;

    if (talk->turn > 0)
        name_result(&talk->st->u, &c->live, talk->turn);
    kva_session_free(c->live.rc.session);
    c->live.rc.session = NULL;
    if (!c->missing[talk->turn])
        return KVA_OK;
    kva_result_fail(&c->live.result, &c->live.why);
    return sink->results(sink->ctx, &c->live.result, 1, err);
}

static enum kva_status run_turn(struct talk *talk, struct kva_run_cell **cells,
                                struct kva_error *err)
{
    struct kva_unit_run *u = &talk->st->u;
    int k = 0;

    for (int i = 0; i < talk->n; i++) {
        struct chain *c = &talk->chain[i];

        if (talk->turn >= c->turns)
            continue;
        c->live.sent = false;
        if (c->live.why.code == KVA_OK && talk->turn > 0)
            (void)next_turn(talk->st, c, talk->turn, &c->live.why);
        if (c->live.why.code == KVA_OK)
            cells[k++] = &c->live.rc;
        else
            KVA_TRY(tell_failed(talk, c, err));
    }
    if (k > 0)
        KVA_TRY(kva_wave_run(u->model, cells, k, u->chunk, u->opts->stop, ended, talk,
                             u->rows, err));
    for (int i = 0; i < talk->n; i++)
        if (talk->chain[i].turns == talk->turn + 1) { /* its pages are needed no more */
            kva_session_free(talk->chain[i].live.rc.session);
            talk->chain[i].live.rc.session = NULL;
        }
    return KVA_OK;
}

/* Like the waves of single questions: a group that does not fit into memory is tried in
 * halves, as long as nothing of it was reported. */
static enum kva_status run_chains(struct kva_unit_state *st, struct chain *chain, int n,
                                  struct kva_error *err)
{
    struct kva_run_cell **cells = kva_calloc((size_t)n, sizeof(struct kva_run_cell *));
    struct talk talk = {st, chain, n, 0};
    int most = 0;
    bool halve = false;
    enum kva_status rc = KVA_OK;

    if (cells == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a wave of %d cells", n);
    for (int i = 0; i < n && !halve; i++) {
        struct kva_error *why = &chain[i].live.why;

        if (st->u.opts->stop != NULL && *st->u.opts->stop != 0) {
            rc = KVA_FAIL(err, KVA_EINTERRUPTED, "stopped between two cells");
            goto out;
        }
        (void)open_chain(st, &chain[i], why);
        if (why->code == KVA_EINTERRUPTED) {
            rc = KVA_FAIL(err, why->code, "%s", why->text);
            goto out;
        }
        halve = why->code == KVA_ENOMEM && n > 1;
        most = chain[i].turns > most ? chain[i].turns : most;
    }
    for (talk.turn = 0; talk.turn < most && !halve; talk.turn++)
        KVA_GO(run_turn(&talk, cells, err));
out:
    free(cells);
    for (int i = 0; i < n; i++) {
        kva_live_release(&chain[i].live);
        free(chain[i].ids);
        chain[i].ids = NULL;
    }
    if (!halve)
        return rc;
    KVA_TRY(run_chains(st, chain, n / 2, err));
    return run_chains(st, chain + n / 2, n - n / 2, err);
}

enum kva_status kva_run_turns(struct kva_unit_state *st, int limit, struct kva_error *err)
{
    const struct kva_unit *un = st->u.unit;
    struct chain *chain = kva_calloc((size_t)un->n_jobs + 1, sizeof *chain);
    int n = 0;
    enum kva_status rc;

    if (chain == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d conversations", un->n_jobs);
    KVA_GO(find_chains(un, chain, &n, err));
    for (int at = 0; at < n; at += limit)
        KVA_GO(run_chains(st, chain + at, n - at < limit ? n - at : limit, err));
out:
    release(chain, n);
    free(chain);
    return rc;
}
