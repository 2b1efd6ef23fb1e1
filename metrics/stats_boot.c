/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stats_boot.c - paired stratified bootstrap of a ratio and a difference
 * (reports.md 4.3).
 *
 * A = unweighted mean of task means. Each replicate draws, task by task in bytewise name
 * order, as many units (samples, or clusters of them) as the task has, with replacement,
 * the same ones for both arms; the interval is the 2.5 and 97.5 % quantile of A*(a)/A*(b)
 * and A*(a) - A*(b). Generator gsl_rng_mt19937, index gsl_rng_uniform_int, seeded from
 * the pair alone, never from the environment. The upper quantile is the negated lower
 * quantile of the negated replicates, so that the interval of (b, a) is exactly the
 * mirror of (a, b).
 *
 * Resampling needs enough units that say something: with fewer than 30 units in which
 * the arms differ, or one task of fewer than 30, the percentile interval is too narrow
 * (91 % instead of 95 % for 50 samples, coverage.md). Then the linearised interval:
 *   u = a - R b,  SE^2 = sum_t V_t / (T mean b)^2,  R -+ t_{0.975,df} SE
 *   V_t = C/(C-1+2w) (sum_c e_c^2 + 2w (n/C)^2 (s^2 + mean(u)^2)) / n^2
 * with e_c, C and df as in stats_basic.c, the difference likewise with R = 1 and without
 * the division. w of an observation at +s and at -s stands for the differences that few
 * samples have not shown yet, s^2 = largest difference seen times the range of the
 * values, over the root of the samples a cluster; w = 0 is the textbook interval. (With w
 * = 1 and binary scores it would be that of Bonett and Price 2012, which is made for the
 * worst p and is too wide on average.)
 *
 * Arms that differ by the same amount everywhere would give width zero. Then the share of
 * samples that could still differ is bounded by Wilson's interval for 0 of n units, and
 * the difference by that share of the range: 1, or the largest nats seen.
 *
 * Smallest visible difference: sqrt(K) = 2.80 standard errors (w = 0; K as in
 * stats_verdict.c), as far apart as the units are, draws and contexts included. Not less
 * than where all that differ fall to one side, delta^2 = K (s delta - delta^2) / n, s the
 * size of the differences seen, or 1: where few units differ the standard error is small,
 * but no test finds anything. The formula of 4.7 for plans ends at the same point. */
#include "metrics/stats_internal.h"
#include "metrics/stats_random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_statistics_double.h>

#define SMALL       30
#define FAR_WEIGHT  0.1  /* w above */
#define DENSE_FLOOR 0.05 /* a ratio to less than this is not defined (4.2) */
#define MAX_DROPPED 0.01

uint32_t kva_stat_boot_seed(const uint8_t a[32], const uint8_t b[32], uint64_t user_seed)
{
    bool a_first = memcmp(a, b, 32) <= 0;
    struct kva_sha256 h;
    uint8_t out[32];
    char decimal[24];
    uint32_t seed;
    int n = snprintf(decimal, sizeof decimal, "%llu", (unsigned long long)user_seed);

    kva_sha256_init(&h);
    kva_sha256_add(&h, "kvaudit-boot-1", 14);
    kva_sha256_add(&h, a_first ? a : b, 32);
    kva_sha256_add(&h, a_first ? b : a, 32);
    kva_sha256_add(&h, decimal, (size_t)n);
    kva_sha256_end(&h, out);
    seed = (uint32_t)out[0] | (uint32_t)out[1] << 8 | (uint32_t)out[2] << 16 |
           (uint32_t)out[3] << 24;
    return seed ? seed : 1; /* GSL treats seed 0 as 4357 */
}

/* A stratum as sums per unit: what a draw adds. */
struct arm_sums {
    size_t n_units, n;
    double *a, *b; /* per unit */
    size_t *size;
    struct kva_mt_below below; /* draws a unit */
};

struct plan {
    struct arm_sums *t; /* in name order */
    size_t n_strata, n_units;
    double *storage;
    size_t *sizes;
};

struct named {
    const struct kva_stratum *s;
    size_t pos;
};

static int by_name(const void *x, const void *y)
{
    const struct named *a = x, *b = y;
    int c = strcmp(a->s->name ? a->s->name : "", b->s->name ? b->s->name : "");

    return c ? c : (a->pos < b->pos ? -1 : a->pos > b->pos);
}

static void plan_release(struct plan *p)
{
    free(p->t);
    free(p->storage);
    free(p->sizes);
}

static bool plan_init(struct plan *p, const struct kva_stratum *s, size_t n_strata)
{
    struct kva_stat_units u = {0, NULL, NULL};
    struct named *order = kva_calloc(n_strata, sizeof *order);
    size_t total = 0, at = 0;
    bool ok = false;

    memset(p, 0, sizeof *p);
    for (size_t i = 0; i < n_strata; i++)
        total += s[i].n;
    p->t = kva_calloc(n_strata, sizeof *p->t);
    p->storage = kva_calloc(2 * total, sizeof *p->storage);
    p->sizes = kva_calloc(total, sizeof *p->sizes);
    if (!order || !p->t || !p->storage || !p->sizes || !kva_stat_units_init(&u, total))
        goto out;
    for (size_t i = 0; i < n_strata; i++)
        order[i] = (struct named){&s[i], i};
    qsort(order, n_strata, sizeof *order, by_name);
    for (size_t i = 0; i < n_strata; i++) {
        const struct kva_stratum *st = order[i].s;
        struct arm_sums *t = &p->t[i];

        kva_stat_group(st, &u);
        t->n_units = u.n;
        t->n = st->n;
        t->a = p->storage + at;
        t->b = p->storage + total + at;
        t->size = p->sizes + at;
        for (size_t c = 0; c < u.n; c++)
            for (size_t k = u.first[c]; k < u.first[c + 1]; k++) {
                t->a[c] += st->a[u.member[k]];
                t->b[c] += st->b[u.member[k]];
                t->size[c]++;
            }
        at += st->n;
        p->n_units += u.n;
        t->below = kva_mt_below(u.n);
    }
    p->n_strata = n_strata;
    ok = true;
out:
    kva_stat_units_release(&u);
    free(order);
    if (!ok)
        plan_release(p);
    return ok;
}

static void point(const struct plan *p, double *a, double *b)
{
    *a = *b = 0;
    for (size_t i = 0; i < p->n_strata; i++) {
        const struct arm_sums *t = &p->t[i];
        double sa = 0, sb = 0;

        for (size_t c = 0; c < t->n_units; c++) {
            sa += t->a[c];
            sb += t->b[c];
        }
        *a += sa / (double)t->n;
        *b += sb / (double)t->n;
    }
    *a /= (double)p->n_strata;
    *b /= (double)p->n_strata;
}

static void replicate(const struct plan *p, struct kva_mt *rng, double *a, double *b)
{
    *a = *b = 0;
    for (size_t i = 0; i < p->n_strata; i++) {
        const struct arm_sums *t = &p->t[i];
        double sa = 0, sb = 0;
        size_t n = 0;

        if (t->n == t->n_units) /* one sample a unit */
            for (n = 0; n < t->n_units; n++) {
                size_t c = kva_mt_index(rng, &t->below);

                sa += t->a[c];
                sb += t->b[c];
            }
        else
            for (size_t k = 0; k < t->n_units; k++) {
                size_t c = kva_mt_index(rng, &t->below);

                sa += t->a[c];
                sb += t->b[c];
                n += t->size[c];
            }
        *a += sa / (double)n;
        *b += sb / (double)n;
    }
    *a /= (double)p->n_strata;
    *b /= (double)p->n_strata;
}

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

static struct kva_interval percentile(double *x, size_t n)
{
    struct kva_interval ci = {0, 0, n > 0};

    if (n == 0)
        return ci;
    qsort(x, n, sizeof *x, ascending);
    ci.lo = gsl_stats_quantile_from_sorted_data(x, 1, n, 0.025);
    for (size_t i = 0; i < n; i++)
        x[i] = -x[i];
    for (size_t i = 0; i < n / 2; i++) {
        double swap = x[i];

        x[i] = x[n - 1 - i];
        x[n - 1 - i] = swap;
    }
    ci.hi = -gsl_stats_quantile_from_sorted_data(x, 1, n, 0.025);
    return ci;
}

/* V_t above. */
static double linear_variance(const struct arm_sums *t, double r, double far2, double w)
{
    double mean = 0, sum = 0, units = (double)t->n_units, n = (double)t->n;

    for (size_t c = 0; c < t->n_units; c++)
        mean += t->a[c] - r * t->b[c];
    mean /= n;
    for (size_t c = 0; c < t->n_units; c++) {
        double d = t->a[c] - r * t->b[c] - mean * (double)t->size[c];

        sum += d * d;
    }
    sum += 2 * w * (n / units) * (n / units) * (far2 * sqrt(units / n) + mean * mean);
    return sum / (n * n) * units / (units - 1 + 2 * w);
}

static double visible(const struct plan *p)
{
    double square = 0, unit = 0, size = 0, tasks = (double)p->n_strata, k, var = 0;

    for (size_t i = 0; i < p->n_strata; i++) {
        const struct arm_sums *t = &p->t[i];
        double share = 1 / ((double)t->n * tasks);

        if (t->n_units < 2)
            return (double)NAN;
        for (size_t c = 0; c < t->n_units; c++) {
            double d = share * (t->a[c] - t->b[c]);

            square += d * d;
            size += fabs(d);
            unit += share * share * (double)t->size[c] * (double)t->size[c];
        }
        var += linear_variance(t, 1, 0, 0);
    }
    k = kva_stat_power();
    return fmax(sqrt(k * var) / tasks,
                k * (size > 0 ? square / size : unit) / (1 + k * unit));
}

/* t quantile times standard error of A(a) - r A(b). */
static double linear_half(const struct plan *p, double r, double far2, double w)
{
    double var = 0, below = 0;

    for (size_t i = 0; i < p->n_strata; i++) {
        double v = linear_variance(&p->t[i], r, far2, w);

        var += v;
        below += v * v / (p->t[i].n_units > 1 ? (double)(p->t[i].n_units - 1) : 1);
    }
    if (!(var > 0))
        return 0;
    return kva_stat_t975(var * var / below) * sqrt(var) / (double)p->n_strata;
}

/* What the units look like. */
struct shape {
    double range;   /* 1, or the largest value */
    double largest; /* largest difference of the arms */
    size_t differ;  /* units in which they differ */
    bool equal;     /* the same difference in all */
};

static struct shape shape_of(const struct plan *p)
{
    struct shape f = {.range = 1, .equal = true};
    double first = 0;

    for (size_t i = 0; i < p->n_strata; i++)
        for (size_t c = 0; c < p->t[i].n_units; c++) {
            const struct arm_sums *t = &p->t[i];
            double a = t->a[c] / (double)t->size[c], b = t->b[c] / (double)t->size[c];

            if (i == 0 && c == 0)
                first = a - b;
            f.equal &= fabs(a - b - first) < 1e-12;
            f.range = fmax(f.range, fmax(fabs(a), fabs(b)));
            f.largest = fmax(f.largest, fabs(a - b));
            f.differ += a != b;
        }
    return f;
}

static struct kva_interval around(double mid, double half)
{
    return (struct kva_interval){mid - half, mid + half, isfinite(half) && half > 1e-15};
}

static void linearised(const struct plan *p, const struct shape *f, double b, double w,
                       struct kva_boot *out)
{
    double far2 = f->largest * f->range;

    out->linearised = true;
    if (f->equal)
        return; /* no spread at all: `widen` */
    out->diff_ci = around(out->diff, linear_half(p, 1, far2, w));
    if (!isnan(out->ratio))
        out->ratio_ci = around(out->ratio, linear_half(p, out->ratio, far2, w) / b);
}

static enum kva_status resample(const struct plan *p, uint32_t seed, int replicates,
                                struct kva_boot *out, struct kva_error *err)
{
    size_t n = (size_t)replicates, n_ratio = 0;
    double *diff = kva_calloc(2 * n, sizeof *diff), *ratio = diff ? diff + n : NULL;
    struct kva_mt rng;

    if (!diff)
        return KVA_FAIL(err, KVA_ENOMEM, "bootstrap of %d replicates: out of memory",
                        replicates);
    kva_mt_set(&rng, seed ? seed : 4357);
    for (size_t i = 0; i < n; i++) {
        double a, b;

        replicate(p, &rng, &a, &b);
        diff[i] = a - b;
        if (b > 0)
            ratio[n_ratio++] = a / b;
    }
    out->dropped = (double)(n - n_ratio) / (double)n;
    out->diff_ci = percentile(diff, n);
    if (!isnan(out->ratio) && out->dropped <= MAX_DROPPED)
        out->ratio_ci = percentile(ratio, n_ratio);
    free(diff);
    return KVA_OK;
}

/* Gives an interval of width zero the width that n_units equal differences leave open. */
static void widen(const struct plan *p, const struct shape *f, double b,
                  struct kva_boot *out)
{
    double open = kva_stat_wilson(0, (double)p->n_units).hi * f->range;

    if (!out->diff_ci.ok || out->diff_ci.hi - out->diff_ci.lo <= 1e-15)
        out->diff_ci = around(out->diff, open);
    if (!isnan(out->ratio) && out->dropped <= MAX_DROPPED &&
        (!out->ratio_ci.ok || out->ratio_ci.hi - out->ratio_ci.lo <= 1e-15))
        out->ratio_ci = around(out->ratio, open / b);
}

/* Point estimates, and what both kinds of interval need. */
static enum kva_status prepare(struct plan *p, const struct kva_stratum *s,
                               size_t n_strata, double *b, struct kva_boot *out,
                               bool *defined, struct kva_error *err)
{
    double a;

    memset(out, 0, sizeof *out);
    out->ratio = out->diff = out->mde = (double)NAN;
    *defined = n_strata > 0;
    for (size_t i = 0; i < n_strata; i++)
        *defined &= s[i].n > 0; /* a missing task makes the aggregate undefined */
    if (!*defined)
        return KVA_OK;
    if (!plan_init(p, s, n_strata))
        return KVA_FAIL(err, KVA_ENOMEM, "bootstrap: out of memory");
    point(p, &a, b);
    out->diff = a - *b;
    if (*b >= DENSE_FLOOR)
        out->ratio = a / *b;
    return KVA_OK;
}

enum kva_status kva_stat_bootstrap(const struct kva_stratum *s, size_t n_strata,
                                   uint32_t seed, int replicates, bool force_boot,
                                   struct kva_boot *out, struct kva_error *err)
{
    struct plan p;
    struct shape f;
    double b;
    bool defined;
    enum kva_status rc;

    if (replicates < 1)
        return KVA_FAIL(err, KVA_EINVALID, "a bootstrap needs at least one replicate");
    rc = prepare(&p, s, n_strata, &b, out, &defined, err);
    if (rc != KVA_OK || !defined)
        return rc;
    f = shape_of(&p);
    out->mde = visible(&p);
    if (p.n_units > n_strata ||
        p.n_units >= SMALL) { /* else one unit a task: no spread */
        if (!force_boot && (f.differ < SMALL || (n_strata == 1 && p.n_units < SMALL)))
            linearised(&p, &f, b, FAR_WEIGHT, out);
        else
            rc = resample(&p, seed, replicates, out, err);
        if (rc == KVA_OK)
            widen(&p, &f, b, out);
    }
    plan_release(&p);
    return rc;
}

enum kva_status kva_stat_linearised(const struct kva_stratum *s, size_t n_strata,
                                    double w, struct kva_boot *out, struct kva_error *err)
{
    struct plan p;
    struct shape f;
    double b;
    bool defined;
    enum kva_status rc = prepare(&p, s, n_strata, &b, out, &defined, err);

    if (rc != KVA_OK || !defined)
        return rc;
    f = shape_of(&p);
    out->mde = visible(&p);
    linearised(&p, &f, b, w, out);
    plan_release(&p);
    return rc;
}
