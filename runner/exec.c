/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec.c - one unit of work: the cells of each question as waves, or one by one.
 *
 * exec_cut.c brings each cell from its job to a decided cache, wave.c lets it answer,
 * exec_score.c scores it; exec_turns.c does the same for conversations, exec_alone.c for
 * cells that are timed. */
#include "runner/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WAVE 64

/* ---- waves ---- */

struct ended_ctx {
    struct kva_unit_state *st;
    struct kva_live *lives;
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
                kva_live_finish(e->st, &e->lives[j]);
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

static enum kva_status send_failed(struct kva_unit_state *st, struct kva_live *l,
                                   const struct kva_error *why, struct kva_error *err)
{
    kva_result_fail(&l->result, why);
    l->sent = true;
    return st->u.sink->results(st->u.sink->ctx, &l->result, 1, err);
}

static enum kva_status run_wave(struct kva_unit_state *st, struct kva_live *lives, int n,
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

/* The cell that job i of a group is another draw of; NULL: none, or it failed. */
static struct kva_live *leader(const struct kva_unit_state *st,
                               const struct kva_job *const *jobs, struct kva_live *lives,
                               int i)
{
    int k = i;

    if (!kva_sampled(&st->u.plan->cells[jobs[i]->cell].sampling))
        return NULL;
    while (k > 0 && jobs[k - 1]->cell == jobs[i]->cell &&
           jobs[k - 1]->question == jobs[i]->question)
        k--;
    return k < i && lives[k].why.code == KVA_OK ? &lives[k] : NULL;
}

/* Opens every cell; failures stay with their cell until it is sure that all fit. */
static enum kva_status open_all(struct kva_unit_state *st,
                                const struct kva_job *const *jobs, struct kva_live *lives,
                                int n, struct kva_error *err)
{
    for (int i = 0; i < n; i++) {
        struct kva_error *why = &lives[i].why;
        struct kva_live *lead = leader(st, jobs, lives, i);

        if (st->u.opts->stop != NULL && *st->u.opts->stop != 0)
            return KVA_FAIL(err, KVA_EINTERRUPTED, "stopped between two cells");
        if (kva_live_begin(st, jobs[i], &lives[i], why) == KVA_OK)
            (void)(lead != NULL ? kva_live_follow(&lives[i], lead, why)
                                : kva_live_open(st, &lives[i], why));
        if (why->code == KVA_EINTERRUPTED || (why->code == KVA_ENOMEM && n > 1))
            return KVA_FAIL(err, why->code, "%s", why->text);
    }
    for (int i = 0; i < n; i++)
        if (lives[i].why.code != KVA_OK)
            KVA_TRY(send_failed(st, &lives[i], &lives[i].why, err));
    return KVA_OK;
}

static bool any_sent(const struct kva_live *lives, int n)
{
    for (int i = 0; i < n; i++)
        if (lives[i].sent)
            return true;
    return false;
}

/* A group that does not fit into memory is tried in halves, as long as nothing of it was
 * stored: what a cell gives must not depend on its neighbours (ruling R7). */
static enum kva_status run_group(struct kva_unit_state *st,
                                 const struct kva_job *const *jobs, int n,
                                 struct kva_error *err)
{
    struct kva_live *lives = kva_calloc((size_t)n, sizeof *lives);
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
        kva_live_release(&lives[i]);
    free(lives);
    if (halve) {
        KVA_TRY(run_group(st, jobs, n / 2, err));
        return run_group(st, jobs + n / 2, n - n / 2, err);
    }
    if (rc != KVA_OK)
        return KVA_FAIL(err, why.code != KVA_OK ? why.code : rc, "%s", why.text);
    return KVA_OK;
}

static enum kva_status run_shared(struct kva_unit_state *st, struct kva_error *err)
{
    const struct kva_unit *un = st->u.unit;
    int limit =
        kva_wave_limit(&st->u, st->u.opts->wave > 0 ? st->u.opts->wave : DEFAULT_WAVE);
    const struct kva_job **jobs;
    enum kva_status rc = KVA_OK;

    if (kva_unit_talks(&st->u))
        return kva_run_turns(st, limit, err);
    jobs = kva_calloc((size_t)un->n_jobs, sizeof *jobs);
    if (jobs == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d jobs", un->n_jobs);
    for (int q = 0; q < un->n_idx; q++) {
        int n = 0;

        for (int i = 0; i < un->n_jobs; i++)
            if (!un->jobs[i].perf && un->jobs[i].question == q)
                jobs[n++] = &un->jobs[i];
        for (int at = 0; at < n; at += limit)
            KVA_GO(run_group(st, jobs + at, n - at < limit ? n - at : limit, err));
        kva_base_release(&st->aware);
        kva_base_release(&st->full);
    }
out:
    free(jobs);
    return rc;
}

static enum kva_status alone_once(struct kva_unit_state *st, const struct kva_job *job,
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
 * activations and kernel scratch, in time and in the resident set. So does the first of a
 * method that the model lends projections to, which it makes then and keeps. */
static enum kva_status run_alone(struct kva_unit_state *st, struct kva_error *err)
{
    const struct kva_unit *un = st->u.unit;
    const struct kva_method *lent = NULL;
    bool warm = false;

    for (int i = 0; i < un->n_jobs; i++) {
        const struct kva_method *m = &st->u.plan->cells[un->jobs[i].cell].method;
        bool lends = (kva_method_needs(m, &(int){0}) & KVA_NEEDS_LEND) != 0;

        if (!un->jobs[i].perf)
            continue;
        if (!warm ||
            (lends && (lent == NULL || strcmp(lent->wrapped_spec, m->wrapped_spec) != 0)))
            KVA_TRY(alone_once(st, &un->jobs[i], false, err));
        warm = true;
        lent = lends ? m : lent;
        KVA_TRY(alone_once(st, &un->jobs[i], true, err));
    }
    return kva_exec_sitting(st, err);
}

/* What all methods that share the prefill need of it. */
static enum kva_status join_needs(struct kva_unit_state *st, struct kva_error *err)
{
    const struct kva_unit *un = st->u.unit;

    st->want = kva_calloc((size_t)un->n_jobs + 1, sizeof *st->want);
    if (st->want == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "needs of %d jobs", un->n_jobs);
    for (int i = 0; i < un->n_jobs; i++) {
        const struct kva_cell *cell = &st->u.plan->cells[un->jobs[i].cell];
        struct kva_collect want = kva_method_collect(&cell->method);
        int w = 0, k = 0;

        st->sampled = st->sampled || kva_sampled(&cell->sampling);
        if (un->jobs[i].perf || kva_prefills_own(cell))
            continue;
        (void)kva_method_needs(&cell->method, &w);
        st->window = w > st->window ? w : st->window;
        while (k < st->n_want && !kva_collect_same(&st->want[k], &want))
            k++;
        if (k == st->n_want && want.kind != KVA_COLLECT_NONE)
            st->want[st->n_want++] = want;
    }
    return KVA_OK;
}

enum kva_status kva_exec_unit(struct kva_plan *plan, int unit, bool perf,
                              const struct kva_exec_opts *opts,
                              const struct kva_sink *sink, int64_t *rows,
                              struct kva_error *err)
{
    struct kva_unit_state st;
    enum kva_status rc;

    memset(&st, 0, sizeof st);
    rc = kva_unit_open(plan, unit, opts, sink, &st.u, err);
    if (rc != KVA_OK)
        goto out;
    st.u.rows = rows;
    KVA_GO(join_needs(&st, err));
    for (int q = 0; q < st.u.unit->n_idx && sink->sample != NULL; q++)
        KVA_GO(sink->sample(sink->ctx, &st.u.samples[q], err));
    rc = opts->probe != NULL ? opts->probe(opts->probe_ctx, &st, err)
         : perf              ? run_alone(&st, err)
                             : run_shared(&st, err);
out:
    kva_base_release(&st.base);
    kva_base_release(&st.aware);
    kva_base_release(&st.full);
    free(st.want);
    kva_unit_close(&st.u);
    return rc;
}
