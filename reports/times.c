/* SPDX-License-Identifier: GPL-3.0-or-later */
/* times.c - what a method costs in time at each context length (T-TIME, data of F3).
 *
 * Times come from cells that ran alone (ruling R12) and from repetitions in one sitting
 * (perf_rep); where a cell has repetitions they stand for it. Median and quartiles over
 * the values of all cells of (model, method, budget, context). The yardstick is the
 * geometric mean of the medians of the fixed work timed in the same runs. */
#include "reports/internal.h"
#include "reports/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_statistics_double.h>

struct bag {
    double *v;
    int n, cap;
};

static void put(struct bag *b, double v)
{
    if (b->n < b->cap)
        b->v[b->n++] = v;
}

static int cmp_double(const void *p, const void *q)
{
    double a = *(const double *)p, b = *(const double *)q;

    return a < b ? -1 : a > b;
}

static struct kva_quartiles quartiles(struct bag *b)
{
    struct kva_quartiles q = {(double)NAN, (double)NAN, (double)NAN, b->n};
    size_t n = (size_t)b->n;

    if (b->n == 0)
        return q;
    qsort(b->v, n, sizeof *b->v, cmp_double);
    q.mid = gsl_stats_quantile_from_sorted_data(b->v, 1, n, 0.5);
    q.lo = gsl_stats_quantile_from_sorted_data(b->v, 1, n, 0.25);
    q.hi = gsl_stats_quantile_from_sorted_data(b->v, 1, n, 0.75);
    return q;
}

enum { B_TTFT, B_STEP, B_EVICT, B_GEMM, B_COPY, N_BAGS };
static const char *const PHASE[N_BAGS] = {"ttft", "decode", "evict", "calib_gemm",
                                          "calib_copy"};

/* Repetitions of one cell in milliseconds (decode: a token); how many of TTFT. */
static int from_reps(const struct kva_data *d, int cell, struct bag *bag)
{
    int from, to, n = 0;

    kva_perf_range(d, cell, &from, &to);
    for (int i = from; i < to; i++)
        for (int k = 0; k < N_BAGS; k++)
            if (strcmp(d->perfs[i].phase, PHASE[k]) == 0 &&
                !isnan(kva_perf_ms(&d->perfs[i]))) {
                put(&bag[k], kva_perf_ms(&d->perfs[i]));
                n += k == B_TTFT;
            }
    return n;
}

static void from_outcomes(const struct kva_data *d, const struct kva_cells *c, int cell,
                          struct bag *bag)
{
    for (int i = c->first_outcome[cell]; i < c->first_outcome[cell + 1]; i++) {
        const struct kva_db_timing *t = &d->outcomes[i].timing;

        if (!d->outcomes[i].has_timing)
            continue;
        if (t->ttft_ns >= 0)
            put(&bag[B_TTFT], (double)t->ttft_ns / 1e6);
        if (t->decode_p50_ns > 0)
            put(&bag[B_STEP], (double)t->decode_p50_ns / 1e6);
        if (t->score_ns >= 0 && t->evict_ns >= 0)
            put(&bag[B_EVICT], (double)(t->score_ns + t->evict_ns) / 1e6);
    }
}

static bool timed(const struct kva_data *d, const struct kva_cells *c, int cell)
{
    const struct kva_data_cell *x = &d->cells[cell];

    return !c->left_out[cell] && strcmp(x->method, "blind") != 0 &&
           (strcmp(x->enforce, "physical") == 0 || strcmp(x->enforce, "dense") == 0);
}

static bool same_row(const struct kva_data *d, int a, int b)
{
    const struct kva_data_cell *x = &d->cells[a], *y = &d->cells[b];

    return x->model == y->model && d->tasks[x->task].ctx == d->tasks[y->task].ctx &&
           x->budget == y->budget && strcmp(x->budget_kind, y->budget_kind) == 0 &&
           strcmp(x->method, y->method) == 0 && strcmp(x->schedule, y->schedule) == 0 &&
           strcmp(x->kv, y->kv) == 0;
}

static bool dense(const struct kva_time *t)
{
    return strcmp(t->spec, "dense") == 0;
}

/* Model, context, dense first, then name and budget from large to small. */
static int cmp_row(const void *p, const void *q)
{
    const struct kva_time *a = p, *b = q;
    int by = strcmp(a->model, b->model);

    by = by ? by : a->ctx - b->ctx;
    by = by ? by : dense(b) - dense(a);
    by = by ? by : strcmp(a->spec, b->spec);
    by = by ? by : strcmp(a->schedule, b->schedule);
    by = by ? by : (a->budget < b->budget) - (a->budget > b->budget);
    return by ? by : a->cell - b->cell;
}

static void measure(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c, int first, bool *done, struct bag *bag,
                    struct kva_time *t)
{
    const struct kva_data_cell *x = &d->cells[first];
    struct kva_quartiles gemm, copy;

    *t = (struct kva_time){.cell = first,
                           .model = kva_report_clean(&r->arena, d->models[x->model].name),
                           .name = c->name[first],
                           .spec = kva_report_clean(&r->arena, x->method),
                           .schedule = kva_report_clean(&r->arena, x->schedule),
                           .budget_text =
                               kva_report_budget(&r->arena, x->budget_kind, x->budget),
                           .budget = x->budget,
                           .ctx = d->tasks[x->task].ctx};
    for (int k = 0; k < N_BAGS; k++)
        bag[k].n = 0;
    for (int i = first; i < d->n_cells; i++) {
        int reps;

        if (done[i] || !timed(d, c, i) || !same_row(d, first, i))
            continue;
        done[i] = true;
        reps = from_reps(d, i, bag);
        t->reps += reps;
        if (reps == 0)
            from_outcomes(d, c, i, bag);
    }
    t->ttft = quartiles(&bag[B_TTFT]);
    t->step = quartiles(&bag[B_STEP]);
    t->evict = quartiles(&bag[B_EVICT]);
    gemm = quartiles(&bag[B_GEMM]);
    copy = quartiles(&bag[B_COPY]);
    t->yardstick = sqrt(gemm.mid * copy.mid);
    r->nomem |= !t->model || !t->spec || !t->schedule || !t->budget_text;
}

int kva_times_of(struct kva_report *r, const struct kva_data *d,
                 const struct kva_cells *c, struct kva_time **out)
{
    int cap = d->n_perfs + d->n_outcomes + 1, n = 0;
    bool *done = kva_calloc((size_t)d->n_cells + 1, sizeof *done);
    double *values = kva_calloc((size_t)cap * N_BAGS, sizeof *values);
    struct bag bag[N_BAGS];

    *out = kva_arena_alloc(&r->arena, (size_t)d->n_cells + 1, sizeof **out);
    if (!done || !values || !*out) {
        r->nomem = true;
        free(done);
        free(values);
        return 0;
    }
    for (int k = 0; k < N_BAGS; k++)
        bag[k] = (struct bag){values + (size_t)k * (size_t)cap, 0, cap};
    for (int i = 0; i < d->n_cells && !r->nomem; i++) {
        if (done[i] || !timed(d, c, i))
            continue;
        measure(r, d, c, i, done, bag, &(*out)[n]);
        n += (*out)[n].ttft.n > 0 || (*out)[n].step.n > 0;
    }
    free(done);
    free(values);
    if (r->nomem)
        return 0;
    if (n)
        qsort(*out, (size_t)n, sizeof **out, cmp_row);
    return n;
}

/* ---- the table ---- */

enum {
    T_METHOD,
    T_MODEL,
    T_KEEP,
    T_CTX,
    T_TTFT,
    T_TTFT_RATIO,
    T_EVICT,
    T_STEP,
    T_STEP_RATIO,
    T_N,
    T_REPS,
    T_YARDSTICK,
    T_SPEC,
    T_BUDGET,
    T_COLS
};
static const struct kva_col TIMES[T_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"model", "model", "", KVA_COL_TEXT, 0, false, 9, false, ""},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"ctx", "context", "tokens", KVA_COL_INT, 0, false, 0, false, ""},
    {"ttft_ms", "TTFT", "ms", KVA_COL_REAL, 1, true, 0, false,
     "time to first token with scoring and eviction: median and quartiles"},
    {"ttft_ratio", "TTFT", "\xc3\x97 dense", KVA_COL_REAL, 2, false, 1, false,
     "median over the median of dense at this context"},
    {"evict_ms", "eviction", "ms", KVA_COL_REAL, 2, true, 2, false,
     "scores and eviction: median and quartiles"},
    {"step_ms", "decode", "ms/token", KVA_COL_REAL, 2, true, 0, false,
     "median and quartiles"},
    {"step_ratio", "decode", "\xc3\x97 dense", KVA_COL_REAL, 2, false, 1, false,
     "time of a token over that of dense at this context"},
    {"n", "n", "", KVA_COL_INT, 0, false, 0, false, "timed values of the first token"},
    {"n_reps", "reps", "", KVA_COL_INT, 0, false, 3, false,
     "of them repetitions in one sitting, arms in turns"},
    {"yardstick_ms", "yardstick", "ms", KVA_COL_REAL, 3, false, 4, false,
     "fixed work timed in the same runs; divide by it to compare machines"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

static struct kva_val spread(struct kva_quartiles q)
{
    return kva_val_interval(q.mid,
                            (struct kva_interval){.lo = q.lo, .hi = q.hi, .ok = q.n > 1});
}

void kva_time_table(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c)
{
    struct kva_time *row, *base = NULL;
    int n = kva_times_of(r, d, c, &row);
    struct kva_tab *t =
        n ? kva_tab_add(r, "times", KVA_VIEW_TIMING, TIMES, T_COLS) : NULL;

    if (!t)
        return;
    t->heading = t->caption = "Times by context length";
    for (int i = 0; i < n; i++) {
        struct kva_row *to = kva_tab_row(r, t);
        struct kva_val *v;

        if (!to)
            return;
        if (base && (strcmp(base->model, row[i].model) != 0 || base->ctx != row[i].ctx))
            base = NULL;
        base = dense(&row[i]) ? &row[i] : base;
        v = to->cell;
        v[T_METHOD] = kva_val_text(row[i].name);
        v[T_METHOD].title = row[i].spec;
        v[T_MODEL] = kva_val_text(row[i].model);
        v[T_KEEP] = kva_val_text(row[i].budget_text);
        v[T_CTX] = kva_val_number(row[i].ctx);
        v[T_TTFT] = spread(row[i].ttft);
        v[T_EVICT] = spread(row[i].evict);
        v[T_STEP] = spread(row[i].step);
        if (base && base->ttft.mid > 0)
            v[T_TTFT_RATIO] = kva_val_number(row[i].ttft.mid / base->ttft.mid);
        if (base && base->step.mid > 0)
            v[T_STEP_RATIO] = kva_val_number(row[i].step.mid / base->step.mid);
        v[T_N] = kva_val_number(row[i].ttft.n);
        v[T_REPS] = kva_val_number(row[i].reps);
        v[T_YARDSTICK] = kva_val_number(row[i].yardstick);
        v[T_SPEC] = kva_val_text(row[i].spec);
        v[T_BUDGET] = kva_val_number(row[i].budget);
        to->role = dense(&row[i]) ? KVA_ROW_REFERENCE : KVA_ROW_PLAIN;
        to->group = i > 0 && dense(&row[i]);
    }
    kva_tab_note(
        r, t,
        "From cells that ran alone; repetitions in one sitting replace them where "
        "there are any. Batch 1. Compare rows of one machine only.");
}
