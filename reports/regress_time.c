/* SPDX-License-Identifier: GPL-3.0-or-later */
/* regress_time.c - the time gate (reports.md 7.3): is anything slower?
 *
 * Repetitions are those of perf_rep; where a cell has none, the samples that ran alone
 * (first token, eviction, median step). r = median(now) / median(base).
 *   comparable  all runs involved have one perf_digest
 *   yardsticks  calib_gemm and calib_copy of a run: every time is divided by the
 * geometric mean of their medians; shown scaled back to the base's yardsticks fail
 * Mann-Whitney p < 0.01, >= 6 repetitions an arm, lower bound of the interval of r above
 * 1 + tau warn        r above 1 + tau without that, or a significant slow-down within tau
 */
#include "reports/regress_internal.h"
#include "reports/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TTFT, DECODE, EVICT, TOTAL, N_PHASES };
static const char *const PHASE[N_PHASES] = {"ttft", "decode", "evict", "total"};

/* Repetitions of one arm, in ms. */
struct arm {
    double *x;
    int n, run, cap;      /* run: the last one used, -1 */
    bool mixed, unscaled; /* runs of several perf digests; some run has no yardsticks */
};

static bool same_speed(const struct kva_data *d, int run, const struct kva_data *e,
                       int other)
{
    return run >= 0 && other >= 0 &&
           memcmp(d->runs[run].perf_digest, e->runs[other].perf_digest, 32) == 0;
}

struct yard {
    double ns; /* geometric mean; NaN: not measured, -1: out of memory */
    int64_t gemm, copy;
};

static struct yard yard_of(const struct kva_data *d, int run)
{
    struct yard y = {(double)NAN, 0, 0};
    double gemm, copy;

    if (kva_yardstick_of(d, run, "calib_gemm", 1, &gemm, &y.gemm, NULL) != KVA_OK ||
        kva_yardstick_of(d, run, "calib_copy", 1, &copy, &y.copy, NULL) != KVA_OK)
        y.ns = -1;
    else if (gemm > 0 && copy > 0)
        y.ns = sqrt(gemm * copy);
    return y;
}

static struct yard *yards_of(const struct kva_data *d)
{
    struct yard *y = kva_calloc((size_t)d->n_runs + 1, sizeof *y);

    for (int i = 0; y && i < d->n_runs; i++) {
        y[i] = yard_of(d, i);
        if (y[i].ns < 0) { /* not the same as a run without yardsticks */
            free(y);
            return NULL;
        }
    }
    return y;
}

static double alone_ms(const struct kva_data_outcome *o, int phase)
{
    int64_t ns = -1;

    if (!o->has_timing)
        return (double)NAN;
    if (phase == TTFT)
        ns = o->timing.ttft_ns;
    else if (phase == DECODE)
        ns = o->timing.decode_p50_ns;
    else if (phase == EVICT && o->timing.evict_ns >= 0)
        ns = o->timing.evict_ns + (o->timing.score_ns > 0 ? o->timing.score_ns : 0);
    return ns >= 0 ? (double)ns / 1e6 : (double)NAN;
}

static void take(struct arm *a, const struct kva_data *d, const struct yard *y, int run,
                 double ms)
{
    if (isnan(ms) || a->n == a->cap)
        return;
    a->mixed |= a->run >= 0 && !same_speed(d, a->run, d, run);
    a->unscaled |= isnan(y[run].ns);
    a->run = run;
    a->x[a->n++] = ms;
}

/* scale > 0: each time over the yardsticks of its run, times scale. */
static bool gather(const struct kva_regress_side *s, const struct yard *y, int cell,
                   int phase, bool reps, double scale, struct arm *a)
{
    const struct kva_data *d = s->d;

    a->cap =
        reps ? s->perf[cell + 1] - s->perf[cell] : s->first[cell + 1] - s->first[cell];
    a->x = kva_calloc((size_t)a->cap + 1, sizeof *a->x);
    a->run = -1;
    a->n = 0;
    if (!a->x)
        return false;
    for (int i = s->perf[cell]; reps && i < s->perf[cell + 1]; i++) {
        const struct kva_data_perf *p = &d->perfs[i];

        if (strcmp(p->phase, PHASE[phase]) == 0)
            take(a, d, y, p->run,
                 kva_perf_ms(p) * (scale > 0 ? scale / y[p->run].ns : 1));
    }
    for (int o = s->first[cell]; !reps && o < s->first[cell + 1]; o++)
        take(a, d, y, d->outcomes[o].run,
             alone_ms(&d->outcomes[o], phase) *
                 (scale > 0 ? scale / y[d->outcomes[o].run].ns : 1));
    return true;
}

static bool has_reps(const struct kva_regress_side *s, int cell)
{
    for (int i = s->perf[cell]; i < s->perf[cell + 1]; i++)
        if (strncmp(s->d->perfs[i].phase, "calib_", 6) != 0)
            return true;
    return false;
}

static double tau_of(const struct kva_regress_work *w, int run)
{
    const char *backend = run >= 0 ? w->base.d->runs[run].backend : NULL;
    bool cuda = backend && strcmp(backend, "cuda") == 0;

    return w->scale * (cuda ? w->r->opts.tau_cuda : w->r->opts.tau_cpu);
}

static void judge(struct kva_regress *r, struct kva_regress_row *row, int outliers,
                  bool scaled)
{
    const struct kva_regress_opts *o = &r->opts;
    double tau = row->limit;
    bool enough = row->n >= o->min_reps, sure = enough && row->p < o->time_p;
    bool seen = fabs(row->now - row->base) > o->min_ms * row->scale;
    const char *say = "no slower";

    if (sure && seen && row->lo > 1 + tau) {
        row->verdict = KVA_REGRESS_FAIL;
        say = "slower";
    } else if (!enough) {
        row->verdict = KVA_REGRESS_INCOMPARABLE;
        say = "too few repetitions to tell";
    } else if (!seen) {
        say = "no difference that matters";
    } else if (row->delta > 1 + tau) {
        row->verdict = KVA_REGRESS_WARN;
        say = "perhaps slower";
    } else if (sure && row->lo > 1) {
        row->verdict = KVA_REGRESS_WARN;
        say = "slower, within what is tolerated";
    } else if (sure && row->hi < 1 / (1 + tau)) {
        row->verdict = KVA_REGRESS_BETTER;
        say = "faster";
    }
    row->message = kva_arena_printf(
        &r->arena,
        "%s: %.4g to %.4g ms%s, r %.3f [%.3f, %.3f], p %.2g, tolerated %.0f %%, n %d%s%s",
        say, row->base, row->now, strcmp(row->what, "decode") == 0 ? " a token" : "",
        row->delta, row->lo, row->hi, row->p, 100 * tau, row->n,
        scaled ? "" : "; no yardsticks, raw times", outliers ? "; outliers (kept)" : "");
}

static bool not_comparable(struct kva_regress_work *w, struct kva_regress_row *row,
                           const struct arm *a, const struct arm *b,
                           const struct yard *ya, const struct yard *yb)
{
    const char *why = NULL;

    if (a->n == 0 || b->n == 0)
        why = a->n == 0 ? "not timed in the base" : "not timed in the new run";
    else if (a->mixed || b->mixed || !same_speed(w->base.d, a->run, w->now.d, b->run))
        why = "measured on machines or builds of different speed";
    else if (!a->unscaled && !b->unscaled &&
             (ya[a->run].gemm != yb[b->run].gemm || ya[a->run].copy != yb[b->run].copy))
        why = "yardsticks of different versions";
    if (!why)
        return false;
    row->n = a->n < b->n ? a->n : b->n;
    row->verdict = KVA_REGRESS_INCOMPARABLE;
    row->message = why;
    return true;
}

static enum kva_status compare(struct kva_regress_work *w, const struct yard *ya,
                               const struct yard *yb, int cell, int phase, bool reps,
                               bool *found, struct kva_error *err)
{
    struct arm a = {0}, b = {0};
    struct kva_regress_row *row;
    struct kva_interval ci;
    uint8_t other[32];
    double scale = 0;
    enum kva_status rc = KVA_OK;

    if (!gather(&w->base, ya, cell, phase, reps, 0, &a) ||
        !gather(&w->now, yb, w->partner[cell], phase, reps, 0, &b)) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
        goto out;
    }
    if (a.n == 0 && b.n == 0)
        goto out;
    *found = true;
    row = kva_regress_row(w, KVA_REGRESS_TIME, PHASE[phase], cell);
    if (!row) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
        goto out;
    }
    if (not_comparable(w, row, &a, &b, ya, yb))
        goto out;
    if (!a.unscaled && !b.unscaled) {
        scale = ya[a.run].ns;
        free(a.x);
        free(b.x);
        a.x = b.x = NULL; /* the second may not be reached */
        if (!gather(&w->base, ya, cell, phase, reps, scale, &a) ||
            !gather(&w->now, yb, w->partner[cell], phase, reps, scale, &b)) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
            goto out;
        }
    }
    row->n = a.n < b.n ? a.n : b.n;
    row->base = kva_stat_median(a.x, (size_t)a.n);
    row->now = kva_stat_median(b.x, (size_t)b.n);
    row->limit = tau_of(w, a.run);
    row->p = kva_stat_mannwhitney(a.x, (size_t)a.n, b.x, (size_t)b.n);
    if (isnan(row->base) || isnan(row->now) || isnan(row->p)) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
        goto out; /* without its test the gate would hold */
    }
    kva_sha256_of(PHASE[phase], strlen(PHASE[phase]), other);
    KVA_GO(kva_stat_median_ratio(a.x, (size_t)a.n, b.x, (size_t)b.n,
                                 kva_stat_boot_seed(row->digest, other, w->r->opts.seed),
                                 w->r->opts.replicates, &row->delta, &ci, err));
    if (ci.ok) {
        row->lo = ci.lo;
        row->hi = ci.hi;
    }
    judge(w->r, row,
          kva_stat_outliers(a.x, (size_t)a.n) + kva_stat_outliers(b.x, (size_t)b.n) > 0,
          scale > 0);
out:
    free(a.x);
    free(b.x);
    return rc;
}

enum kva_status kva_regress_time(struct kva_regress_work *w, struct kva_error *err)
{
    struct yard *ya = yards_of(w->base.d), *yb = yards_of(w->now.d);
    struct kva_regress_row *row;
    int first = -1;
    bool found = false;
    enum kva_status rc = KVA_OK;

    if (!ya || !yb) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
        goto out;
    }
    for (int i = 0; i < w->base.d->n_cells; i++) {
        bool reps;

        if (!kva_regress_wanted(w, i))
            continue;
        first = first < 0 ? i : first;
        reps = has_reps(&w->base, i) || has_reps(&w->now, w->partner[i]);
        for (int k = 0; k < N_PHASES; k++)
            KVA_GO(compare(w, ya, yb, i, k, reps, &found, err));
    }
    if (first >= 0 && !found) {
        row = kva_regress_row(w, KVA_REGRESS_TIME, "ttft", first);
        if (!row) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
            goto out;
        }
        row->verdict = KVA_REGRESS_INCOMPARABLE;
        row->message = "no cell was timed in either run (suite keys perf, perf_reps)";
    }
out:
    free(ya);
    free(yb);
    return rc;
}
