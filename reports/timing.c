/* SPDX-License-Identifier: GPL-3.0-or-later */
/* timing.c - medians and quartiles of timed repetitions, and their ratio to the full
 * cache.
 *
 * Quartiles: linear between order statistics, h = (n - 1) q (type 7 of Hyndman and Fan).
 * Nothing is left out: outliers are counted (modified z > 14.826). Times of one sitting
 * were taken in turns (A B B A), so that their ratio needs no yardstick; across runs the
 * yardsticks stand for the machine. */
#include "reports/timing.h"
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_statistics_double.h>

/* Repetitions of one phase in one run. */
struct reps {
    double *x;
    size_t n;
};

double kva_perf_ms(const struct kva_data_perf *p)
{
    double ms = (double)p->ns / 1e6;

    if (strcmp(p->phase, "decode") != 0)
        return ms;
    return p->work > 0 ? ms / (double)p->work : (double)NAN;
}

void kva_perf_range(const struct kva_data *d, int cell, int *from, int *to)
{
    int lo = 0, hi = d->n_perfs;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (d->perfs[mid].cell < cell)
            lo = mid + 1;
        else
            hi = mid;
    }
    *from = lo;
    while (lo < d->n_perfs && d->perfs[lo].cell == cell)
        lo++;
    *to = lo;
}

static bool newer(const struct kva_data_run *a, const struct kva_data_run *b)
{
    if (a->started_ms != b->started_ms)
        return a->started_ms > b->started_ms;
    return strcmp(a->uuid, b->uuid) < 0;
}

static int newest_run(const struct kva_data *d, int cell, const char *phase)
{
    int from, to, run = -1;

    kva_perf_range(d, cell, &from, &to);
    for (int i = from; i < to; i++) {
        const struct kva_data_perf *p = &d->perfs[i];

        if (strcmp(p->phase, phase) == 0 && p->run != run &&
            (run < 0 || newer(&d->runs[p->run], &d->runs[run])))
            run = p->run;
    }
    return run;
}

static enum kva_status collect(const struct kva_data *d, int cell, int run,
                               const char *phase, struct reps *out, struct kva_error *err)
{
    int from, to;

    kva_perf_range(d, cell, &from, &to);
    out->n = 0;
    out->x = kva_calloc((size_t)(to - from) + 1, sizeof *out->x);
    if (!out->x)
        return KVA_FAIL(err, KVA_ENOMEM, "times: out of memory");
    for (int i = from; i < to; i++) {
        const struct kva_data_perf *p = &d->perfs[i];

        if (p->run == run && strcmp(p->phase, phase) == 0 && !isnan(kva_perf_ms(p)))
            out->x[out->n++] = kva_perf_ms(p);
    }
    return KVA_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

enum kva_status kva_yardstick_of(const struct kva_data *d, int run, const char *phase,
                                 double unit, double *median, int64_t *work,
                                 struct kva_error *err)
{
    double *x = kva_calloc((size_t)d->n_perfs + 1, sizeof *x);
    size_t n = 0;

    if (!x)
        return KVA_FAIL(err, KVA_ENOMEM, "times: out of memory");
    for (int i = 0; i < d->n_perfs; i++)
        if (d->perfs[i].run == run && strcmp(d->perfs[i].phase, phase) == 0) {
            x[n++] = (double)d->perfs[i].ns / unit;
            if (work)
                *work = d->perfs[i].work;
        }
    *median = kva_stat_median(x, n);
    free(x);
    if (n > 0 && isnan(*median))
        return KVA_FAIL(err, KVA_ENOMEM, "times: out of memory");
    return KVA_OK;
}

enum kva_status kva_timing_of(const struct kva_data *d, int cell, int base,
                              const char *phase, uint32_t seed, int replicates,
                              struct kva_timing *t, struct kva_error *err)
{
    struct reps mine = {0}, other = {0};
    const double nan = (double)NAN;
    double gemm, copy;
    enum kva_status rc = KVA_OK;

    *t = (struct kva_timing){.median = nan,
                             .q1 = nan,
                             .q3 = nan,
                             .yards = nan,
                             .ratio = nan,
                             .ci = {nan, nan},
                             .run = newest_run(d, cell, phase)};
    if (t->run < 0)
        return KVA_OK;
    KVA_GO(collect(d, cell, t->run, phase, &mine, err));
    t->n = (int)mine.n;
    if (mine.n == 0)
        goto out;
    qsort(mine.x, mine.n, sizeof *mine.x, ascending);
    t->median = kva_stat_median(mine.x, mine.n);
    t->q1 = gsl_stats_quantile_from_sorted_data(mine.x, 1, mine.n, 0.25);
    t->q3 = gsl_stats_quantile_from_sorted_data(mine.x, 1, mine.n, 0.75);
    t->outliers = (int)kva_stat_outliers(mine.x, mine.n);
    KVA_GO(kva_yardstick_of(d, t->run, "calib_gemm", 1e6, &gemm, NULL, err));
    KVA_GO(kva_yardstick_of(d, t->run, "calib_copy", 1e6, &copy, NULL, err));
    if (gemm > 0 && copy > 0)
        t->yards = t->median / sqrt(gemm * copy);
    if (base < 0 || base == cell)
        goto out;
    KVA_GO(collect(d, base, t->run, phase, &other, err));
    if (other.n > 0 && kva_stat_median(other.x, other.n) > 0)
        KVA_GO(kva_stat_median_ratio(other.x, other.n, mine.x, mine.n, seed, replicates,
                                     &t->ratio, &t->ci, err));
out:
    free(mine.x);
    free(other.x);
    return rc;
}

/* ---- T-TIME ---- */

enum {
    T_METHOD,
    T_KEEP,
    T_TASK,
    T_PHASE,
    T_MEDIAN,
    T_Q1,
    T_Q3,
    T_RATIO,
    T_YARDS,
    T_N,
    T_OUTLIERS,
    T_SPEC,
    T_COLS
};
static const struct kva_col COLS[T_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, false, "nominal budget"},
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, "its first sample"},
    {"phase", "phase", "", KVA_COL_TEXT, 0, false, 0, false,
     "ttft: token ids to first token; evict: scores and eviction in it; decode: a token; "
     "total: token ids to last token"},
    {"median_ms", "median", "ms", KVA_COL_REAL, 3, false, 0, false, "of n repetitions"},
    {"q1_ms", "quartile 1", "ms", KVA_COL_REAL, 3, false, 1, false, ""},
    {"q3_ms", "quartile 3", "ms", KVA_COL_REAL, 3, false, 1, false, ""},
    {"ratio", "/ dense", "", KVA_COL_REAL, 3, true, 0, false,
     "ratio of medians to the full cache of the same sitting, bootstrap interval"},
    {"yards", "yardsticks", "", KVA_COL_REAL, 2, false, 2, false,
     "median over the geometric mean of the run's fixed product and copy"},
    {"n", "n", "", KVA_COL_INT, 0, false, 0, false, "repetitions"},
    {"outliers", "outliers", "", KVA_COL_INT, 0, false, 3, false,
     "modified z above 14.826; counted all the same"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
};
static const char *const PHASE[] = {"ttft", "evict", "decode", "total"};

static void phase_row(struct kva_report *r, struct kva_tab *t, const struct kva_arm *a,
                      const char *task, const char *phase, const struct kva_timing *x)
{
    struct kva_row *row = kva_tab_row(r, t);
    struct kva_val *v;

    if (!row)
        return;
    v = row->cell;
    v[T_METHOD] = kva_val_text(a->name);
    v[T_METHOD].title = a->spec;
    v[T_KEEP] = kva_val_text(a->budget_text);
    v[T_TASK] = kva_val_text(task);
    v[T_PHASE] = kva_val_text(phase);
    v[T_MEDIAN] = kva_val_number(x->median);
    v[T_Q1] = kva_val_number(x->q1);
    v[T_Q3] = kva_val_number(x->q3);
    v[T_RATIO] = kva_val_interval(x->ratio, x->ci);
    v[T_YARDS] = kva_val_number(x->yards);
    v[T_N] = kva_val_number(x->n);
    v[T_OUTLIERS] = kva_val_number(x->outliers);
    v[T_SPEC] = kva_val_text(a->spec);
    row->group =
        t->n_row > 1 && strcmp(t->row[t->n_row - 2].cell[T_PHASE].text, phase) != 0;
    row->role = a->role == KVA_ARM_DENSE ? KVA_ROW_REFERENCE : KVA_ROW_PLAIN;
}

void kva_timing_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_board *b)
{
    const struct kva_arm *dense = b->dense >= 0 ? &b->arm[b->dense] : NULL;
    struct kva_tab *t = NULL;
    struct kva_error err = {0};

    for (int task = 0; task < b->n_task; task++)
        for (size_t p = 0; p < sizeof PHASE / sizeof PHASE[0]; p++)
            for (int k = 0; k < b->n_arm; k++) {
                const struct kva_arm *a = &b->arm[k];
                /* the full cache evicts nothing: no ratio to that */
                int cell = a->cell[task], base = dense && strcmp(PHASE[p], "evict") != 0
                                                     ? dense->cell[task]
                                                     : -1;
                struct kva_timing x;
                uint32_t seed;

                if (cell < 0)
                    continue;
                seed = kva_stat_boot_seed(d->cells[base < 0 ? cell : base].digest,
                                          d->cells[cell].digest, r->opts.seed);
                if (kva_timing_of(d, cell, base, PHASE[p], seed, r->opts.replicates, &x,
                                  &err) != KVA_OK) {
                    r->nomem = true;
                    return;
                }
                if (x.n == 0)
                    continue;
                if (!t)
                    t = kva_board_tab(r, b, "reps", KVA_VIEW_TIMING, COLS, T_COLS);
                if (!t)
                    return;
                phase_row(r, t, a, b->task_label[task], PHASE[p], &x);
            }
    if (t)
        kva_tab_note(r, t,
                     "Repetitions of one sample after a warm-up, the cells of a context "
                     "in turns (A B B A), one process on the machine of the run.");
}
