/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_perf.c - a sitting: cells of one unit timed again and again (reports.md 7.3).
 *
 * Each cell is run until three successive runs differ by less than 3 %, or ten times.
 * Then come the timed runs, all cells of the unit in the order A B B A A B B A ..., so
 * that a machine that grows slower does so for all of them. Before and after stand the
 * yardsticks. TTFT starts when the token ids are handed over and includes scoring and
 * eviction. What is measured leaves as one group, so that half a sitting is never
 * stored. */
#include "runner/exec_internal.h"
#include "runner/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_MOST = 10, STABLE = 3, YARDSTICKS = 5, PHASES = 4 };

struct arm {
    const struct kva_job *job;
    const struct kva_cell *cell;
    int32_t *ids; /* the answer of its first run */
    int n_gen;
    bool out; /* failed, and told so */
};
struct sitting {
    struct kva_unit_state *st;
    struct arm *arms;
    int n, ord;
    struct kva_perf_row *rows;
    int n_rows;
};

static void add_row(struct sitting *s, const struct arm *a, const char *phase, int rep,
                    int64_t ns, int64_t work)
{
    struct kva_perf_row *r = &s->rows[s->n_rows++];

    r->cell = a->job->cell;
    r->rep = rep;
    r->ord = s->ord;
    snprintf(r->phase, sizeof r->phase, "%s", phase);
    r->ns = ns;
    r->work = work;
    r->temp_c = kva_machine_temp();
    r->clock_mhz = kva_machine_clock_mhz();
}

static int64_t total_of(const struct kva_db_timing *t)
{
    return t->ttft_ns + (t->decode_ns > 0 ? t->decode_ns : 0);
}

/* A cell that fails, or says something else than before, leaves the sitting. */
static enum kva_status run_once(struct sitting *s, struct arm *a, struct kva_result *r,
                                struct kva_error *err)
{
    struct kva_error why = {0};
    enum kva_status rc = kva_exec_alone(&s->st->u, a->job, r, &why);

    if (rc == KVA_OK && a->ids == NULL) {
        a->ids = kva_calloc((size_t)r->n_gen + 1, sizeof *a->ids);
        if (a->ids == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "an answer of %d tokens", r->n_gen);
        memcpy(a->ids, r->ids, (size_t)r->n_gen * sizeof *a->ids);
        a->n_gen = r->n_gen;
    } else if (rc == KVA_OK &&
               (r->n_gen != a->n_gen ||
                memcmp(r->ids, a->ids, (size_t)a->n_gen * sizeof *a->ids) != 0)) {
        rc = KVA_FAIL(&why, KVA_ECONFLICT, "%s: a repetition said other tokens",
                      a->cell->slug);
    }
    if (rc == KVA_OK)
        return KVA_OK;
    if (rc == KVA_EINTERRUPTED)
        return KVA_FAIL(err, rc, "%s", why.text);
    a->out = true;
    kva_result_fail(r, &why);
    return s->st->u.sink->results(s->st->u.sink->ctx, r, 1, err);
}

/* max < 1.03 min */
static bool stable(const int64_t last[STABLE])
{
    int64_t lo = last[0], hi = last[0];

    for (int i = 1; i < STABLE; i++) {
        lo = last[i] < lo ? last[i] : lo;
        hi = last[i] > hi ? last[i] : hi;
    }
    return (double)hi < 1.03 * (double)lo;
}

static enum kva_status warm_up(struct sitting *s, struct arm *a, struct kva_error *err)
{
    int64_t last[STABLE];

    for (int i = 0; i < WARM_MOST && !a->out; i++) {
        struct kva_result r = {0};
        enum kva_status rc = run_once(s, a, &r, err);

        last[i % STABLE] = a->out ? 0 : total_of(&r.timing);
        kva_result_release(&r);
        KVA_TRY(rc);
        if (i + 1 >= STABLE && stable(last))
            break;
    }
    return KVA_OK;
}

static enum kva_status timed_run(struct sitting *s, struct arm *a, int rep,
                                 struct kva_error *err)
{
    struct kva_result r = {0};
    const struct kva_db_timing *t = &r.timing;
    enum kva_status rc = run_once(s, a, &r, err);

    if (rc == KVA_OK && !a->out) {
        int64_t prompt = r.n_ctx + r.n_question, steps = r.n_gen > 1 ? r.n_gen - 1 : 0;

        add_row(s, a, "ttft", rep, t->ttft_ns, prompt);
        add_row(s, a, "evict", rep, t->score_ns + t->evict_ns, r.n_cut);
        if (t->decode_ns >= 0)
            add_row(s, a, "decode", rep, t->decode_ns, steps);
        add_row(s, a, "total", rep, total_of(t), prompt + steps);
    }
    s->ord++;
    kva_result_release(&r);
    return rc;
}

/* Under the first cell: a run's yardsticks are those of all its cells. */
static enum kva_status yardsticks(struct sitting *s, int first, struct kva_error *err)
{
    for (int i = 0; i < YARDSTICKS; i++, s->ord++) {
        int64_t gemm, copy;

        KVA_TRY(kva_yardstick(&gemm, &copy, err));
        add_row(s, &s->arms[0], "calib_gemm", first + i, gemm, KVA_YARDSTICK_VERSION);
        add_row(s, &s->arms[0], "calib_copy", first + i, copy, KVA_YARDSTICK_VERSION);
    }
    return KVA_OK;
}

static enum kva_status take_times(struct sitting *s, struct kva_error *err)
{
    int most = 0;

    for (int i = 0; i < s->n; i++)
        most = s->arms[i].cell->perf_reps > most ? s->arms[i].cell->perf_reps : most;
    s->rows = kva_calloc((size_t)s->n * (size_t)most * PHASES + 4 * YARDSTICKS,
                         sizeof *s->rows);
    if (s->rows == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d repetitions of %d cells", most, s->n);
    for (int i = 0; i < s->n; i++)
        KVA_TRY(warm_up(s, &s->arms[i], err));
    KVA_TRY(yardsticks(s, 0, err));
    for (int rep = 0; rep < most; rep++)
        for (int i = 0; i < s->n; i++) {
            struct arm *a = &s->arms[rep % 2 == 0 ? i : s->n - 1 - i];

            if (!a->out && rep < a->cell->perf_reps)
                KVA_TRY(timed_run(s, a, rep, err));
        }
    return yardsticks(s, YARDSTICKS, err);
}

/* Rows of a cell that left later on are not stored. */
static int drop_failed(struct sitting *s)
{
    int n = 0;

    for (int i = 0; i < s->n_rows; i++) {
        bool calib = strncmp(s->rows[i].phase, "calib_", 6) == 0, out = false;

        for (int k = 0; k < s->n && !calib; k++)
            out |= s->arms[k].out && s->arms[k].job->cell == s->rows[i].cell;
        if (!out)
            s->rows[n++] = s->rows[i];
    }
    return n;
}

enum kva_status kva_exec_sitting(struct kva_unit_state *st, struct kva_error *err)
{
    const struct kva_unit *un = st->u.unit;
    struct sitting s = {.st = st};
    enum kva_status rc = KVA_OK;

    s.arms = kva_calloc((size_t)un->n_jobs + 1, sizeof *s.arms);
    if (s.arms == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d jobs", un->n_jobs);
    for (int i = 0; i < un->n_jobs; i++)
        if (un->jobs[i].repeat)
            s.arms[s.n++] = (struct arm){.job = &un->jobs[i],
                                         .cell = &st->u.plan->cells[un->jobs[i].cell]};
    if (s.n == 0 || st->u.sink->perf == NULL)
        goto out;
    KVA_GO(take_times(&s, err));
    s.n_rows = drop_failed(&s);
    rc = st->u.sink->perf(st->u.sink->ctx, s.rows, s.n_rows, err);
out:
    for (int i = 0; i < s.n; i++)
        free(s.arms[i].ids);
    free(s.arms);
    free(s.rows);
    return rc;
}
