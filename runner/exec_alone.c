/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_alone.c - a cell by itself, in place: the only source of TTFT, decode speed and
 * peak memory.
 *
 * TTFT runs from token ids to the first generated id: prefill, scoring, allocation,
 * eviction, trim and question pass. The cache is cut in place, so the peak is what a
 * server would hold; counters that are not ours witness it (witness.h). */
#include "runner/cheats.h"
#include "runner/exec_internal.h"
#include "runner/witness.h"

#include <stdlib.h>
#include <string.h>

static int by_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

struct alone {
    struct kva_run_cell rc;
    uint64_t t0;
    struct kva_parts parts;
    int n_cut;
    uint64_t before_alloc;
    struct kva_witness witness;
    struct kva_result *r;
    const struct kva_unit_run *u;
    int question;
};

static enum kva_status ended(void *ctx, struct kva_run_cell **cells, int n,
                             struct kva_error *err)
{
    (void)ctx;
    (void)cells;
    (void)n;
    (void)err;
    return KVA_OK;
}

/* Prefill and decision of every schedule, in place. */
static enum kva_status prefill_alone(struct kva_unit_run *u, struct alone *a,
                                     const struct kva_stream *in, struct kva_error *err)
{
    const struct kva_cell *cell = a->rc.cell;
    struct kva_session *s = a->rc.session;
    struct kva_row last = {.logits = a->rc.n_ids == 0,
                           .target = -1,
                           .forbid = a->rc.ends->forbid,
                           .n_forbid = a->rc.ends->n_forbid};
    struct kva_row *want = last.logits ? &last : NULL;
    struct kva_own own = {.method = &cell->method,
                          .total = in->total,
                          .seed = a->rc.seed,
                          .block_len = in->n,
                          .question = in->n_question,
                          .prompt = in->n,
                          .united = cell->enforce == KVA_UNION};
    const struct kva_collect collect = kva_method_collect(&cell->method);
    struct kva_prefill_out out = {0};
    struct kva_decision d = {0};
    struct kva_kv_bytes b;
    enum kva_status rc = KVA_OK;

    if (kva_prefills_own(cell)) {
        KVA_GO(kva_prefill_own(u, s, in, &out, want, err));
        goto out;
    }
    if (in->n > 0)
        KVA_GO(kva_unit_feed(u, s, in->ids, in->n, want, err));
    if (cell->method.scorer == NULL)
        goto out;
    kva_kvstore_bytes(kva_session_store(s), &b);
    a->before_alloc = b.alloc_bytes;
    own.held = b.entries_kept;
    kva_parts_enter(u->parts, KVA_PART_SCORE);
    KVA_GO(kva_unit_replay(u, s, &collect, in->ids, in->n, &own.scratch, err));
    KVA_GO(kva_decide_own(s, &own, &d, err));
    kva_parts_enter(u->parts, KVA_PART_EVICT);
    out.scratch = own.scratch;
    out.noted = own.noted;
    KVA_CHEAT_EVICTING(s, &d.keep);
    if (!d.nothing_to_do)
        KVA_GO(kva_session_keep(s, &d.keep, err));
    KVA_GO(kva_kvstore_trim(kva_session_store(s), err));
out:
    kva_parts_enter(u->parts, KVA_PART_NONE);
    a->rc.scratch_bytes = out.scratch;
    a->rc.noted = out.noted;
    if (!kva_keeps_state(cell))
        a->rc.scratch_bytes += kva_state_bytes(u, cell, s);
    if (rc == KVA_OK && want != NULL) {
        a->rc.next = last.argmax;
        a->rc.first_ok = last.finite;
    }
    kva_decision_release(&d);
    return rc;
}

static enum kva_status rotate_alone(struct alone *a, struct kva_error *err)
{
    if (!kva_method_rotates(&a->rc.cell->method))
        return KVA_OK;
    kva_parts_enter(&a->parts, KVA_PART_EVICT);
    KVA_TRY(kva_session_rerotate(a->rc.session, err));
    kva_parts_enter(&a->parts, KVA_PART_NONE);
    return KVA_OK;
}

static void timing_fill(struct alone *a, struct kva_db_timing *t)
{
    const uint64_t *ns = a->parts.ns;
    uint64_t sum = 0;
    int n = a->rc.n_steps;

    *t = (struct kva_db_timing){.exec = KVA_EXEC_ALONE,
                                .prefill_ns = (int64_t)ns[KVA_PART_PREFILL],
                                .score_ns = (int64_t)ns[KVA_PART_SCORE],
                                .evict_ns = (int64_t)ns[KVA_PART_EVICT],
                                .question_ns = (int64_t)ns[KVA_PART_QUESTION],
                                .ttft_ns = (int64_t)(a->rc.first_ns - a->t0),
                                .decode_ns = -1,
                                .decode_p50_ns = -1,
                                .decode_p99_ns = -1,
                                .clock = kva_parts_clock(kva_model_ops(a->u->model))};
    if (n == 0)
        return;
    for (int i = 0; i < n; i++)
        sum += a->rc.step_ns[i];
    qsort(a->rc.step_ns, (size_t)n, sizeof *a->rc.step_ns, by_ns);
    t->decode_ns = (int64_t)sum;
    /* nearest rank, ceil(q * n) */
    t->decode_p50_ns = (int64_t)a->rc.step_ns[(n + 1) / 2 - 1];
    t->decode_p99_ns = (int64_t)a->rc.step_ns[(99 * n + 99) / 100 - 1];
}

/* `again`: the witness asks for another look, which is the `last`. */
static enum kva_status run_alone(struct kva_unit_run *u, const struct kva_job *job,
                                 bool last, bool *again, struct kva_result *r,
                                 struct kva_error *err)
{
    const struct kva_cell *cell = &u->plan->cells[job->cell];
    const struct kva_question *q = &u->questions[job->question];
    const struct kva_prompt *p = &u->prompt;
    struct alone a = {.r = r, .u = u, .question = job->question};
    struct kva_run_cell *cells[1] = {&a.rc};
    struct kva_stream in = {.cell = cell};
    struct kva_session_opts o;
    struct kva_collect want;
    int32_t *ids = NULL;
    int seen, n, window = 0, extra;
    enum kva_status rc = KVA_OK;

    *again = false;
    r->unit = u->unit_no;
    r->question = job->question;
    r->idx = u->items[job->question].idx;
    r->cell = job->cell;
    r->rep = job->rep;
    r->perf = true;
    if (u->bad[job->question].code != KVA_OK) {
        rc = KVA_FAIL(err, u->bad[job->question].code, "%s", u->bad[job->question].text);
        goto out;
    }
    if (cell->method.blind) {
        KVA_GO(kva_unit_blind(u, job->question, err));
        q = &u->blind_questions[job->question];
        p = &u->blind;
    }
    seen = kva_seen_question(u, cell->method.blind ? u->blind_questions : u->questions,
                             job->question, cell->visibility);
    n = (int)p->context.n + seen;
    r->n_ctx = (int)p->context.n;
    r->n_question = (int)q->ids.n;
    r->n_cut = n;
    a.rc = (struct kva_run_cell){.cell = cell,
                                 .ids = q->ids.id + seen,
                                 .n_ids = (int)q->ids.n - seen,
                                 .ends = &u->ends[job->question],
                                 .tok = q->tok,
                                 .seed = kva_unit_seed(u, cell),
                                 .prompt = n,
                                 .timed = true};
    KVA_GO(kva_unit_max_new(u, job->question, n + a.rc.n_ids, &a.rc.max_new, err));
    ids = kva_calloc((size_t)n + 1, sizeof *ids);
    a.rc.gen = kva_calloc((size_t)a.rc.max_new + 1, sizeof *a.rc.gen);
    a.rc.step_ns = kva_calloc((size_t)a.rc.max_new + 1, sizeof *a.rc.step_ns);
    if (ids == NULL || a.rc.gen == NULL || a.rc.step_ns == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "a prompt of %d tokens", n);
        goto out;
    }
    memcpy(ids, p->context.id, p->context.n * sizeof *ids);
    memcpy(ids + p->context.n, q->ids.id, (size_t)seen * sizeof *ids);
    (void)kva_method_needs(&cell->method, &window);
    in.ids = ids;
    in.n = n;
    in.n_question = seen;
    in.total = a.rc.budget_total = kva_cell_total(u, cell, n);
    extra = kva_extra_tokens(cell, a.rc.n_ids, 0, a.rc.max_new);
    o = kva_cell_opts(u, cell,
                      kva_prefills_own(cell) ? kva_moving_cap(u, cell, in.total, n, extra)
                                             : kva_page_cap(u->info, NULL, n, extra),
                      window, &want);
    kva_witness_begin(&a.witness, u);
    KVA_GO(kva_model_ops(u->model)->sync(kva_model_ops(u->model), err));
    a.t0 = kva_now_ns();
    kva_parts_begin(&a.parts, kva_model_ops(u->model), KVA_PART_PREFILL);
    u->parts = &a.parts;
    KVA_GO(kva_session_new(u->model, &o, &a.rc.session, err));
    KVA_GO(kva_cell_layout(u, cell, a.rc.session, err));
    KVA_GO(prefill_alone(u, &a, &in, err));
    r->kept_fnv = kva_kvstore_kept_fnv(kva_session_store(a.rc.session));
    KVA_GO(rotate_alone(&a, err));
    kva_memory_fill(u, &a.rc, n, a.before_alloc, &r->memory);
    r->memory.exec = KVA_EXEC_ALONE;
    kva_witness_look(&a.witness, u, &a.rc, &r->memory);
    a.rc.parts = &a.parts;
    KVA_GO(kva_wave_run(u->model, cells, 1, u->chunk, u->opts->stop, ended, NULL, u->rows,
                        err));
    r->flags = kva_noted_flags(&a.rc.noted);
    if (a.rc.failed.code != KVA_OK) {
        rc = KVA_FAIL(err, a.rc.failed.code, "%s", a.rc.failed.text);
        goto out;
    }
    r->memory.host_peak_bytes = kva_witness_host_peak();
    kva_memory_end(u, &a.rc, &r->memory);
    r->has_memory = r->has_timing = true;
    kva_parts_end(&a.parts);
    timing_fill(&a, &r->timing);
    KVA_GO(kva_unit_score(u, job->question, &a.rc, r, err));
    kva_session_free(a.rc.session);
    a.rc.session = NULL;
    *again = kva_witness_end(&a.witness, last, &r->memory);
out:
    u->parts = NULL;
    kva_session_free(a.rc.session);
    free(a.rc.gen);
    free(a.rc.step_ns);
    free(ids);
    return rc;
}

enum kva_status kva_exec_alone(struct kva_unit_run *u, const struct kva_job *job,
                               struct kva_result *r, struct kva_error *err)
{
    bool again;

    KVA_TRY(run_alone(u, job, false, &again, r, err));
    if (!again)
        return KVA_OK;
    kva_result_release(r);
    return run_alone(u, job, true, &again, r, err);
}
