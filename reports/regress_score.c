/* SPDX-License-Identifier: GPL-3.0-or-later */
/* regress_score.c - the score gate (reports.md 7.2): are scores worse than the base's?
 *
 * Two levels. Task: a cell against its partner, paired by sample. Suite: cells that
 * differ in nothing but the task, at one context length, two tasks or more; unweighted
 * mean of task means. p      one binary task, one rep, no repeated context: exact
 * McNemar; else sign flip. "Worse" is one-sided: both null distributions are symmetric,
 * so P(S* <= -|S|) = P(|S*| >= |S|) / 2 exactly, and random flips count with their
 *          negations. Without a drop p lies above 1/2 and decides nothing.
 *   fail   Holm-adjusted p < alpha, drop > threshold, drop > noise floor
 *   floor  2 sqrt(2) s, s = standard deviation of the means of >= 3 reps of dense in the
 *          base (4.6); the exact CPU backend has none
 * Blind runs are compared token by token only: their score is no quality. */
#include "reports/regress_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>

#define MIN_COVERAGE 0.95 /* reports.md 4.1 */
#define FLIPS        10000
#define MAX_FLIPS    4000000

/* A pair of cells, ready to be tested. Arm a is now, arm b the base. */
struct scored {
    struct kva_stratum s;
    int cell, group, planned;
    bool valid, binary, same;
    uint64_t only_base, only_now;
};

/* ---- from outcomes to pairs ---- */

/* Mean over the ok reps of the sample whose outcomes start at o. */
static int mean_reps(const struct kva_regress_side *s, int o, double *mean)
{
    const struct kva_data_outcome *x = &s->d->outcomes[o];
    double sum = 0;
    int n = 0;

    for (int i = o; i < s->d->n_outcomes && s->d->outcomes[i].cell == x->cell &&
                    s->d->outcomes[i].sample == x->sample;
         i++)
        if (kva_regress_ok(&s->d->outcomes[i])) {
            sum += s->d->outcomes[i].score;
            n++;
        }
    *mean = n ? sum / n : (double)NAN;
    return n;
}

static enum kva_status pair_scores(struct kva_regress_work *w, int cell, struct scored *x,
                                   struct kva_error *err)
{
    const struct kva_data *d = w->base.d;
    int from = w->base.first[cell], to = w->base.first[cell + 1], planned[2], last = -1;
    const struct kva_data_task *t = &d->tasks[d->cells[cell].task];
    double *a = kva_arena_alloc(&w->scratch, (size_t)(to - from), sizeof *a);
    double *b = kva_arena_alloc(&w->scratch, (size_t)(to - from), sizeof *b);
    int *cluster = kva_arena_alloc(&w->scratch, (size_t)(to - from), sizeof *cluster);
    bool whole = true, clustered = w->clustered[d->cells[cell].task];
    size_t n = 0;

    if (!a || !b || !cluster)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    kva_regress_enter(w, cell);
    for (int o = from; o < to; o++) {
        int s = d->outcomes[o].sample, nb, nn;

        if (s == last)
            continue;
        last = s;
        if (w->slot[s] < 0)
            continue;
        nb = mean_reps(&w->base, o, &b[n]);
        nn = mean_reps(&w->now, w->slot[s], &a[n]);
        if (nb == 0 || nn == 0)
            continue;
        whole &=
            nb == 1 && nn == 1 && (a[n] == 0 || a[n] == 1) && (b[n] == 0 || b[n] == 1);
        x->only_base += b[n] > a[n];
        x->only_now += a[n] > b[n];
        cluster[n++] = w->cluster[s];
    }
    kva_regress_leave(w, cell);
    planned[0] = kva_planned_samples(w->base.d, w->base.first, cell);
    planned[1] = kva_planned_samples(w->now.d, w->now.first, w->partner[cell]);
    x->planned = planned[0] > planned[1] ? planned[0] : planned[1];
    x->s = (struct kva_stratum){.name = w->base.d->cells[cell].slug,
                                .a = a,
                                .b = b,
                                .cluster = clustered ? cluster : NULL,
                                .n = n};
    x->cell = cell;
    x->valid = n > 0 && (double)n >= MIN_COVERAGE * x->planned;
    x->binary = t->binary && whole && !clustered;
    x->same = x->only_base + x->only_now == 0;
    return KVA_OK;
}

/* ---- noise floor ---- */

/* The full cache beside a cell of the base; -1: none. */
static int dense_of(const struct kva_data *d, int cell)
{
    for (int i = 0; i < d->n_cells; i++)
        if (strcmp(d->cells[i].method, "dense") == 0 &&
            memcmp(d->cells[i].dense_key, d->cells[cell].dense_key, 32) == 0)
            return i;
    return -1;
}

/* What repeating the base changes by itself; nothing on an exact backend. */
static enum kva_status noise(struct kva_regress_work *w, struct kva_regress_row *row,
                             const struct scored *const *x, int n, struct kva_error *err)
{
    int *cell = kva_arena_alloc(&w->scratch, (size_t)n, sizeof *cell);
    bool *used = kva_arena_alloc(&w->scratch, (size_t)n, sizeof *used);
    struct kva_noise floor;

    row->floor_known = row->exact_cpu;
    if (row->exact_cpu)
        return KVA_OK;
    if (!cell || !used)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    for (int i = 0; i < n; i++) {
        cell[i] = dense_of(w->base.d, x[i]->cell);
        used[i] = true;
    }
    KVA_TRY(kva_noise_of(w->base.d, w->base.first, cell, used, n, &floor, err));
    row->floor_known = floor.known;
    row->floor = floor.floor;
    return KVA_OK;
}

/* ---- suites ---- */

/* What cells of one suite share: everything but the task. */
static bool group_key(struct kva_buf *key, const struct kva_data *d, int cell)
{
    const struct kva_data_cell *c = &d->cells[cell];
    json_t *spec = json_loads(c->spec_json ? c->spec_json : "{}", 0, NULL);
    char *rest = NULL;

    if (spec) {
        json_object_del(spec, "task");
        rest = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
        json_decref(spec);
    }
    key->len = 0;
    kva_buf_printf(key, "%s %d %s %d %s %s %.17g %s %s %s %s %s",
                   d->models[c->model].name, c->model, d->tasks[c->task].suite,
                   d->tasks[c->task].ctx, c->method, c->budget_kind, c->budget,
                   c->schedule, c->enforce, c->visibility, c->numerics, c->kv);
    kva_buf_printf(key, " %s", rest ? rest : "");
    free(rest);
    return !key->failed;
}

static enum kva_status make_groups(const struct kva_regress_work *w, struct scored *x,
                                   int n, int *n_group, struct kva_error *err)
{
    struct kva_map seen;
    struct kva_buf key;
    enum kva_status rc = KVA_OK;

    *n_group = 0;
    kva_map_init(&seen);
    kva_buf_init(&key, 0);
    for (int i = 0; i < n; i++) {
        int64_t at;

        if (!group_key(&key, w->base.d, x[i].cell)) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
            goto out;
        }
        if (!kva_map_get(&seen, key.data, key.len, &at)) {
            at = (*n_group)++;
            KVA_GO(kva_map_put(&seen, key.data, key.len, at, NULL, err));
        }
        x[i].group = (int)at;
    }
out:
    kva_buf_release(&key);
    kva_map_release(&seen);
    return rc;
}

static int by_digest(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

/* Slug and digest of a suite row, made from the cells of its group. */
static bool name_suite(struct kva_regress_work *w, struct kva_regress_row *row,
                       const struct scored *const *member, int n)
{
    const struct kva_data *d = w->base.d;
    const struct kva_data_cell *c = &d->cells[member[0]->cell];
    const struct kva_data_task *t = &d->tasks[c->task];
    uint8_t(*all)[32] = kva_arena_alloc(&w->scratch, (size_t)n, sizeof *all);
    char budget[64];

    if (!all)
        return false;
    for (int i = 0; i < n; i++)
        memcpy(all[i], d->cells[member[i]->cell].digest, 32);
    qsort(all, (size_t)n, 32, by_digest);
    kva_sha256_of(all, 32 * (size_t)n, row->digest);
    if (strcmp(c->budget_kind, "dense") == 0)
        (void)snprintf(budget, sizeof budget, "dense");
    else
        (void)snprintf(budget, sizeof budget, "%s%.10g", c->budget_kind, c->budget);
    row->slug = kva_arena_printf(&w->r->arena, "%s/%s/%s/%s.%d/%s",
                                 d->models[c->model].name, w->method[member[0]->cell],
                                 budget, t->suite, t->ctx, c->visibility);
    row->slug = row->slug ? kva_report_clean(&w->r->arena, row->slug) : NULL;
    row->task = kva_arena_printf(&w->r->arena, "%d tasks", n);
    return row->slug && row->task;
}

/* ---- tests ---- */

/* Two-sided p of the strata; more flips where the family leaves no room for few. */
static double flip_p(const struct kva_stratum *s, size_t n, uint32_t seed, int family)
{
    double p = kva_stat_signflip(s, n, seed, FLIPS);
    long more = 400L * (family < 1 ? 1 : family);

    if (!(p < 0.02) || more <= FLIPS)
        return p;
    return kva_stat_signflip(s, n, seed, (int)(more < MAX_FLIPS ? more : MAX_FLIPS));
}

static enum kva_status test_row(struct kva_regress_work *w, struct kva_regress_row *row,
                                const struct scored *const *x, int n, int family,
                                struct kva_error *err)
{
    struct kva_stratum *s = kva_arena_alloc(&w->scratch, (size_t)n, sizeof *s);
    double p;
    struct kva_interval alone;
    struct kva_boot boot;
    uint32_t seed = kva_stat_boot_seed(row->digest, row->digest, w->r->opts.seed);
    bool same = true;

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    row->base = row->now = 0;
    for (int i = 0; i < n; i++) {
        s[i] = x[i]->s;
        row->n += (int)s[i].n;
        row->base += kva_stat_mean(s[i].b, s[i].n) / n;
        row->now += kva_stat_mean(s[i].a, s[i].n) / n;
        same &= x[i]->same;
    }
    row->units = (int)kva_stat_units(s, (size_t)n);
    if (row->units == 0 && row->n > 0)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    alone = kva_stat_arm(s, (size_t)n);
    if (alone.ok) {
        row->now_lo = alone.lo;
        row->now_hi = alone.hi;
    }
    row->same = same;
    row->delta = same ? 0 : row->now - row->base;
    row->limit =
        w->scale * (n > 1 || strcmp(row->what, "suite") == 0 ? w->r->opts.suite_drop
                                                             : w->r->opts.task_drop);
    KVA_TRY(noise(w, row, x, n, err));
    if (same) {
        row->p = row->p_better = 1;
    } else {
        p = n == 1 && x[0]->binary
                ? kva_stat_mcnemar(x[0]->only_now, x[0]->only_base, NULL)
                : flip_p(s, (size_t)n, seed, family);
        if (isnan(p)) /* without its test the gate would hold */
            return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
        row->p = row->delta < 0 ? p / 2 : row->delta > 0 ? 1 - p / 2 : 1;
        row->p_better = row->delta > 0 ? p / 2 : row->delta < 0 ? 1 - p / 2 : 1;
    }
    if (!same || w->r->opts.non_inferiority > 0) {
        KVA_TRY(kva_stat_bootstrap(s, (size_t)n, seed, w->r->opts.replicates, false,
                                   &boot, err));
        if (boot.diff_ci.ok) {
            row->lo = fmax(-1, boot.diff_ci.lo);
            row->hi = fmin(1, boot.diff_ci.hi);
        }
    }
    return KVA_OK;
}

static enum kva_status no_test(struct kva_regress_work *w, struct kva_regress_row *row,
                               const struct scored *x, struct kva_error *err)
{
    row->verdict = KVA_REGRESS_MISSING;
    row->n = (int)x->s.n;
    row->message =
        kva_arena_printf(&w->r->arena, "only %zu of %d planned samples are in both runs",
                         x->s.n, x->planned);
    return row->message ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
}

static enum kva_status suite_row(struct kva_regress_work *w, const struct scored *all,
                                 int n_all, int group, int family, struct kva_error *err)
{
    const struct scored **member =
        kva_arena_alloc(&w->scratch, (size_t)n_all, sizeof *member);
    struct kva_regress_row *row;
    int n = 0, valid = 0;

    if (!member)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    for (int i = 0; i < n_all; i++)
        if (all[i].group == group) {
            member[n++] = &all[i];
            valid += all[i].valid;
        }
    if (n < 2) /* it would be the task once more */
        return KVA_OK;
    row = kva_regress_row(w, KVA_REGRESS_SCORE, "suite", member[0]->cell);
    if (!row || !name_suite(w, row, member, n))
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    if (valid == n)
        return test_row(w, row, member, n, family, err);
    row->verdict = KVA_REGRESS_MISSING;
    row->message =
        kva_arena_printf(&w->r->arena, "%d of %d tasks cannot be compared", n - valid, n);
    return row->message ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
}

/* ---- tokens ---- */

static enum kva_status tokens_row(struct kva_regress_work *w, int cell,
                                  struct kva_error *err)
{
    const struct kva_data *d = w->base.d;
    struct kva_regress_row *row;
    int n = 0, changed = 0;

    kva_regress_enter(w, cell);
    for (int o = w->base.first[cell]; o < w->base.first[cell + 1]; o++) {
        const struct kva_data_outcome *y = kva_regress_twin(w, &d->outcomes[o]);

        if (!y || !d->outcomes[o].gen_key || !y->gen_key)
            continue;
        n++;
        changed += y->gen_key != d->outcomes[o].gen_key;
    }
    kva_regress_leave(w, cell);
    if (n == 0 || !kva_regress_exact(w, cell))
        return KVA_OK;
    w->r->n_tokens += n;
    w->r->n_tokens_changed += changed;
    if (changed == 0)
        return KVA_OK;
    row = kva_regress_row(w, KVA_REGRESS_SCORE, "tokens", cell);
    if (!row)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    row->n = n;
    row->delta = changed;
    row->verdict = w->r->opts.exact ? KVA_REGRESS_FAIL : KVA_REGRESS_WARN;
    row->message = kva_arena_printf(&w->r->arena,
                                    "the tokens of %d of %d answers changed on the exact "
                                    "CPU backend",
                                    changed, n);
    return row->message ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
}

/* The base's cells name suites, so that a suite has one name in all nights. */
static enum kva_status short_names(struct kva_regress_work *w, struct kva_error *err)
{
    const struct kva_data *d = w->base.d;
    size_t n = (size_t)d->n_cells + 1;
    const char **spec = kva_arena_alloc(&w->scratch, n, sizeof *spec);

    w->method = kva_arena_alloc(&w->scratch, n, sizeof *w->method);
    if (!spec || !w->method)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    for (int i = 0; i < d->n_cells; i++)
        spec[i] = d->cells[i].method;
    return kva_report_short_names(&w->scratch, spec, d->n_cells, w->method, err);
}

enum kva_status kva_regress_score(struct kva_regress_work *w, struct kva_error *err)
{
    const struct kva_data *d = w->base.d;
    struct scored *x = kva_calloc((size_t)d->n_cells + 1, sizeof *x);
    int n = 0, n_group = 0, family;
    enum kva_status rc = KVA_OK;

    if (!x)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    KVA_GO(short_names(w, err));
    for (int i = 0; i < d->n_cells; i++) {
        if (!kva_regress_wanted(w, i))
            continue;
        KVA_GO(tokens_row(w, i, err));
        if (strcmp(d->cells[i].method, "blind") == 0)
            continue;
        KVA_GO(pair_scores(w, i, &x[n++], err));
    }
    KVA_GO(make_groups(w, x, n, &n_group, err));
    family = w->r->n_family + n + n_group;
    for (int i = 0; i < n; i++) {
        const struct scored *one = &x[i];
        struct kva_regress_row *row =
            kva_regress_row(w, KVA_REGRESS_SCORE, "task", one->cell);

        if (!row) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
            goto out;
        }
        KVA_GO(one->valid ? test_row(w, row, &one, 1, family, err)
                          : no_test(w, row, one, err));
    }
    for (int g = 0; g < n_group; g++)
        KVA_GO(suite_row(w, x, n, g, family, err));
    w->r->n_family = family;
out:
    free(x);
    return rc;
}

/* ---- verdicts ---- */

static const char *interval_text(struct kva_regress *r, const struct kva_regress_row *row)
{
    if (isnan(row->lo))
        return "";
    return kva_arena_printf(&r->arena, " [%+.1f, %+.1f]", 100 * row->lo, 100 * row->hi);
}

static void judge_non_inferior(struct kva_regress *r, struct kva_regress_row *row)
{
    double d = r->opts.non_inferiority * row->scale;
    const char *ci = interval_text(r, row);

    row->limit = d;
    if (isnan(row->lo)) {
        row->verdict = KVA_REGRESS_INCOMPARABLE;
        row->message = "too few samples for an interval";
        return;
    }
    row->verdict = row->lo > -d   ? KVA_REGRESS_PASS
                   : row->hi < -d ? KVA_REGRESS_FAIL
                                  : KVA_REGRESS_INCOMPARABLE;
    row->message =
        kva_arena_printf(&r->arena, "%+.1f points%s: %s by %.1f points or more, n %d",
                         100 * row->delta, ci ? ci : "",
                         row->verdict == KVA_REGRESS_PASS   ? "not worse"
                         : row->verdict == KVA_REGRESS_FAIL ? "worse"
                                                            : "undecided whether worse",
                         100 * d, row->n);
}

void kva_regress_judge_score(struct kva_regress *r, struct kva_regress_row *row)
{
    double size = fabs(row->delta), limit = fmax(row->limit, row->floor);
    const char *ci = interval_text(r, row), *why = "";
    bool beyond = size > row->limit + 5e-13 && size > row->floor + 5e-13;

    if (r->opts.non_inferiority > 0) {
        judge_non_inferior(r, row);
        return;
    }
    if (row->delta == 0) {
        row->message =
            kva_arena_printf(&r->arena, "%.1f, unchanged, n %d", 100 * row->base, row->n);
        return;
    }
    row->verdict = KVA_REGRESS_PASS;
    if (beyond && row->delta < 0 && row->p_adj < r->opts.alpha)
        row->verdict = KVA_REGRESS_FAIL;
    else if (beyond && row->delta > 0 && row->p_better_adj < r->opts.alpha)
        row->verdict = KVA_REGRESS_BETTER;
    else if (row->p < r->opts.warn_p)
        row->verdict = KVA_REGRESS_WARN;
    if (row->verdict == KVA_REGRESS_WARN)
        why = beyond ? "; not significant among all comparisons"
                     : "; within what is tolerated";
    row->message = kva_arena_printf(
        &r->arena,
        "%.1f to %.1f: %+.1f points%s, p %.2g, adjusted %.2g, tolerated %.1f%s%s, n %d",
        100 * row->base, 100 * row->now, 100 * row->delta, ci ? ci : "",
        row->delta < 0 ? row->p : row->p_better,
        row->delta < 0 ? row->p_adj : row->p_better_adj, 100 * limit, why,
        row->floor_known ? "" : "; noise floor not measured", row->n);
}

/* ---- what the gate can see ---- */

/* Power of the one-sided exact test at level a: the number of discordant samples is
 * Bin(n, pi); of m of them X ~ Bin(m, (pi + d) / 2 pi) favour the base; the test rejects
 * from the smallest x with P(Bin(m, 1/2) >= x) <= a. */
static double power_of(int n, double pi, double d, double a)
{
    double q = fmin(1, (pi + d) / (2 * pi)), power = 0;

    for (int m = 1; m <= n; m++) {
        double weight = gsl_ran_binomial_pdf((unsigned)m, pi, (unsigned)n), tail = 0;
        int x = m;

        if (weight < 1e-12)
            continue;
        /* tail holds P(X > x); step down while adding P(X = x) keeps it in the level */
        while (x >= 0) {
            double more = gsl_ran_binomial_pdf((unsigned)x, 0.5, (unsigned)m);

            if (tail + more > a)
                break;
            tail += more;
            x--;
        }
        if (x < m)
            power +=
                weight * gsl_cdf_binomial_Q((unsigned)(x < 0 ? 0 : x), q, (unsigned)m);
    }
    return power;
}

double kva_regress_mde(int n, double discordant, double alpha, int comparisons)
{
    double a = alpha / (comparisons < 1 ? 1 : comparisons), lo = 0, hi = discordant;

    if (n < 1 || !(discordant > 0) || discordant > 1 ||
        power_of(n, discordant, discordant, a) < 0.8)
        return (double)NAN;
    for (int i = 0; i < 40; i++) {
        double mid = (lo + hi) / 2;

        if (power_of(n, discordant, mid, a) < 0.8)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}
