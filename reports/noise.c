/* SPDX-License-Identifier: GPL-3.0-or-later */
/* noise.c - what repeating a run changes by itself (reports.md 4.6): T-NOISE, and the
 * floor below which a difference of scores is a tie.
 *
 * K repetitions of the full cache on one kind of machine (env.perf_digest), K >= 3:
 *   flip   share of samples whose score differs between two repetitions, mean of pairs
 *   regen  share whose generated tokens differ
 *   s      standard deviation of the K means of the task, or of the suite
 *   floor  2 sqrt(2) s
 * Draws of sampled answers repeat nothing: cells of them are left out. A repetition
 * counts when it has as many samples as the fullest one. Several kinds of machine: each
 * has a row, the largest floor is used. */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_REPS 3

/* One cell's repetitions on one kind of machine. */
struct reps {
    double *mean; /* per rep */
    int *n;       /* per rep: samples */
    int most, n_rep;
    double flip, regen; /* NaN: no two repetitions */
};

static bool same_machine(const struct kva_data *d, int run, const uint8_t perf[32])
{
    return run >= 0 && run < d->n_runs && memcmp(d->runs[run].perf_digest, perf, 32) == 0;
}

static bool counts(const struct kva_data *d, const struct kva_data_outcome *o,
                   const uint8_t perf[32])
{
    return strcmp(o->status, "ok") == 0 && !isnan(o->score) &&
           same_machine(d, o->run, perf);
}

/* Pairs of repetitions of one sample, and how many differ in score and tokens. */
static void compare_reps(const struct kva_data *d, int from, int to,
                         const uint8_t perf[32], double n[3])
{
    for (int i = from; i < to; i++)
        for (int j = i + 1; j < to; j++) {
            const struct kva_data_outcome *x = &d->outcomes[i], *y = &d->outcomes[j];

            if (!counts(d, x, perf) || !counts(d, y, perf))
                continue;
            n[0]++;
            n[1] += x->score != y->score;
            n[2] += x->gen_key != y->gen_key;
        }
}

/* false: out of memory. Release r->mean. */
static bool reps_of(const struct kva_data *d, const int *first_outcome, int cell,
                    const uint8_t perf[32], struct reps *r)
{
    int from = first_outcome[cell], to = first_outcome[cell + 1];
    double n[3] = {0};

    *r = (struct reps){.flip = (double)NAN, .regen = (double)NAN};
    if (d->cells[cell].sampling)
        return true;
    for (int o = from; o < to; o++)
        if (d->outcomes[o].rep + 1 > r->n_rep)
            r->n_rep = d->outcomes[o].rep + 1;
    r->mean = kva_calloc((size_t)r->n_rep + 1, sizeof *r->mean);
    r->n = kva_calloc((size_t)r->n_rep + 1, sizeof *r->n);
    if (!r->mean || !r->n)
        return false;
    for (int o = from; o < to; o++)
        if (counts(d, &d->outcomes[o], perf)) {
            r->mean[d->outcomes[o].rep] += d->outcomes[o].score;
            r->n[d->outcomes[o].rep]++;
        }
    for (int k = 0; k < r->n_rep; k++) {
        r->mean[k] /= r->n[k] ? r->n[k] : 1;
        r->most = r->n[k] > r->most ? r->n[k] : r->most;
    }
    for (int o = from, end; o < to; o = end) {
        for (end = o + 1; end < to && d->outcomes[end].sample == d->outcomes[o].sample;)
            end++;
        compare_reps(d, o, end, perf, n);
    }
    if (n[0] > 0) {
        r->flip = n[1] / n[0];
        r->regen = n[2] / n[0];
    }
    return true;
}

static void release(struct reps *r)
{
    free(r->mean);
    free(r->n);
}

static bool full(const struct reps *r, int k)
{
    return k < r->n_rep && r->n[k] > 0 && r->n[k] == r->most;
}

/* Over the used cells on one kind of machine. */
static bool on_machine(const struct kva_data *d, const int *first_outcome,
                       const int *cell, const bool *used, int n_task,
                       const uint8_t perf[32], struct kva_noise *out)
{
    struct reps *r = kva_calloc((size_t)n_task + 1, sizeof *r);
    double *mean = NULL;
    int n = 0, n_rep = 0;
    bool ok = r != NULL, all = true;

    memset(out, 0, sizeof *out);
    for (int t = 0; t < n_task && ok; t++)
        if (used[t] && cell[t] >= 0) {
            ok = reps_of(d, first_outcome, cell[t], perf, &r[t]);
            n_rep = r[t].n_rep > n_rep ? r[t].n_rep : n_rep;
            out->flip += r[t].flip;
            out->regen += r[t].regen;
            out->n += r[t].most;
            n++;
        } else {
            all &= !used[t];
        }
    mean = kva_calloc((size_t)n_rep + 1, sizeof *mean);
    ok &= mean != NULL;
    for (int k = 0; ok && all && n && k < n_rep; k++) {
        double sum = 0;
        bool whole = true;

        for (int t = 0; t < n_task; t++)
            if (used[t]) {
                whole &= full(&r[t], k);
                sum += whole ? r[t].mean[k] : 0;
            }
        if (whole)
            mean[out->reps++] = sum / n;
    }
    if (ok) {
        out->flip /= n;
        out->regen /= n;
        out->s = kva_stat_sd(mean, (size_t)out->reps);
        out->known = out->reps >= MIN_REPS;
        out->floor = out->known ? 2 * sqrt(2) * out->s : 0;
    }
    for (int t = 0; r && t < n_task; t++)
        release(&r[t]);
    free(r);
    free(mean);
    return ok;
}

/* Is run i the first one of its kind of machine? */
static bool first_of_kind(const struct kva_data *d, int i)
{
    for (int k = 0; k < i; k++)
        if (same_machine(d, k, d->runs[i].perf_digest))
            return false;
    return true;
}

enum kva_status kva_noise_of(const struct kva_data *d, const int *first_outcome,
                             const int *cell, const bool *used, int n_task,
                             struct kva_noise *out, struct kva_error *err)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < d->n_runs; i++) {
        struct kva_noise one;

        if (!first_of_kind(d, i))
            continue;
        if (!on_machine(d, first_outcome, cell, used, n_task, d->runs[i].perf_digest,
                        &one))
            return KVA_FAIL(err, KVA_ENOMEM, "report: noise floor: out of memory");
        if (one.known && (!out->known || one.floor > out->floor))
            *out = one;
    }
    return KVA_OK;
}

/* ---- T-NOISE ---- */

enum {
    N_TASK,
    N_MODEL,
    N_BACKEND,
    N_MACHINE,
    N_REPS,
    N_N,
    N_FLIP,
    N_REGEN,
    N_S,
    N_FLOOR,
    N_VERDICT,
    N_COLS
};
static const struct kva_col NOISE[N_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false,
     "task, or the mean of several"},
    {"model", "model", "", KVA_COL_TEXT, 0, false, 3, false, ""},
    {"backend", "backend", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"machine", "machine", "", KVA_COL_TEXT, 0, false, 4, false,
     "runs on equal machines and builds are repetitions of each other"},
    {"reps", "K", "", KVA_COL_INT, 0, false, 0, false, "repetitions of the full cache"},
    {"n", "n", "", KVA_COL_INT, 0, false, 2, false, "samples of a repetition"},
    {"flip", "flip", "%", KVA_COL_PERCENT, 2, false, 0, false,
     "samples whose score differs between two repetitions"},
    {"regen", "regen", "%", KVA_COL_PERCENT, 2, false, 0, false,
     "samples whose generated tokens differ"},
    {"s", "s", "points", KVA_COL_PERCENT, 2, false, 1, false,
     "standard deviation of the K means"},
    {"floor", "floor", "points", KVA_COL_PERCENT, 2, false, 0, false,
     "2 sqrt(2) s: smaller differences are ties"},
    {"verdict", "verdict", "", KVA_COL_TEXT, 0, false, 0, false,
     "exact: no token differs; the CPU backend must be exact"},
};

static const char *verdict(const struct kva_noise *n, const char *backend)
{
    if (n->reps < MIN_REPS)
        return "not measured: fewer than 3 repetitions";
    if (n->regen == 0)
        return "exact";
    return strcmp(backend, "cpu") == 0 ? "NOT EXACT: the CPU backend must be"
                                       : "measured";
}

static void noise_row(struct kva_report *r, const struct kva_data *d, struct kva_tab *t,
                      const struct kva_board *b, const char *task, int run,
                      const struct kva_noise *n)
{
    const struct kva_data_run *x = &d->runs[run];
    const char *backend = kva_report_clean(&r->arena, x->backend ? x->backend : "cpu");
    struct kva_row *row = kva_tab_row(r, t);
    struct kva_val *v;

    if (!row)
        return;
    v = row->cell;
    v[N_TASK] = kva_val_text(task);
    v[N_MODEL] = kva_val_text(b->model);
    v[N_BACKEND] = kva_val_text(backend);
    v[N_MACHINE] = kva_val_text(
        kva_report_clean(&r->arena, x->gpu_name ? x->gpu_name : x->cpu_model));
    v[N_REPS] = kva_val_number(n->reps);
    v[N_N] = kva_val_number(n->n);
    v[N_FLIP] = kva_val_number(n->flip);
    v[N_REGEN] = kva_val_number(n->regen);
    if (n->known) {
        v[N_S] = kva_val_number(n->s);
        v[N_FLOOR] = kva_val_number(n->floor);
    }
    v[N_VERDICT] = kva_val_text(verdict(n, backend ? backend : ""));
}

/* Is this dense cell row already there? Boards of several schedules or enforcements share
 * their dense cells only when they share a dense_key. */
static bool new_dense(const struct kva_report *r, int board)
{
    const struct kva_board *b = &r->board[board];

    for (int i = 0; i < board; i++) {
        const struct kva_board *x = &r->board[i];

        if (x->dense >= 0 && x->n_task == b->n_task &&
            memcmp(x->arm[x->dense].cell, b->arm[b->dense].cell,
                   (size_t)b->n_task * sizeof(int)) == 0)
            return false;
    }
    return true;
}

enum kva_status kva_noise_table(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, struct kva_error *err)
{
    struct kva_tab *t = kva_tab_add(r, "noise", KVA_VIEW_NOISE, NOISE, N_COLS);

    if (t)
        t->heading = t->caption =
            "Noise floor: what repeating the full cache changes by itself";
    for (int i = 0; t && i < r->n_board; i++) {
        const struct kva_board *b = &r->board[i];

        if (b->dense < 0 || !new_dense(r, i))
            continue;
        for (int k = 0; k < d->n_runs; k++) {
            struct kva_noise n;

            if (!first_of_kind(d, k))
                continue;
            if (!on_machine(d, c->first_outcome, b->arm[b->dense].cell, b->used,
                            b->n_task, d->runs[k].perf_digest, &n))
                return KVA_FAIL(err, KVA_ENOMEM, "report: noise floor: out of memory");
            if (n.reps >= 2)
                noise_row(r, d, t, b,
                          b->n_task == 1
                              ? b->task_label[0]
                              : kva_arena_printf(&r->arena, "mean of %d task%s",
                                                 b->n_used ? b->n_used : b->n_task,
                                                 b->n_used == 1 ? "" : "s"),
                          k, &n);
        }
    }
    if (t && t->n_row == 0)
        kva_tab_note(r, t,
                     "noise floor not measured: it takes at least 3 repetitions of the "
                     "full cache (suite key reps).");
    if (!t || r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "report: tables: out of memory");
    return KVA_OK;
}
