/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stats_verdict.c - many comparisons, verdicts, power, fronts (reports.md 4.4 to 4.8).
 *
 *   Benjamini-Hochberg: p_(i) -> min_{j >= i} M p_(j) / j;  Holm: max_{j <= i} (M - j +
 * 1) p_(j) MDE = sqrt(K pi / (n + K)), n = K (pi - d^2) / d^2, K = (z_0.975 + z_0.8)^2,
 * pi = share of discordant pairs; undefined when the effect is above pi. */
#include "metrics/stats_internal.h"

#include <math.h>
#include <stdlib.h>

#include <gsl/gsl_cdf.h>

#define EXACT_TIE 5e-13

struct entry {
    double x, y;
    size_t pos;
};

static int by_x(const void *l, const void *r)
{
    const struct entry *a = l, *b = r;

    if (a->x != b->x)
        return a->x < b->x ? -1 : 1;
    if (a->y != b->y) /* y descending */
        return a->y > b->y ? -1 : 1;
    return a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* The entries that are numbers, sorted; NULL when out of memory. */
static struct entry *sorted(const double *x, const double *y, size_t n, size_t *m)
{
    struct entry *e = kva_calloc(n + 1, sizeof *e);

    *m = 0;
    if (!e)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]) && !(y && isnan(y[i])))
            e[(*m)++] = (struct entry){x[i], y ? y[i] : 0, i};
    qsort(e, *m, sizeof *e, by_x);
    return e;
}

static void all_nan(double *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (double)NAN;
}

void kva_stat_bh(double *p, size_t n)
{
    size_t m;
    struct entry *e = sorted(p, NULL, n, &m);
    double best = 1;

    if (!e) {
        all_nan(p, n); /* an unadjusted p must not pass for an adjusted one */
        return;
    }
    for (size_t i = m; i-- > 0;) {
        best = fmin(best, e[i].x * (double)m / (double)(i + 1));
        p[e[i].pos] = best;
    }
    free(e);
}

void kva_stat_holm(double *p, size_t n)
{
    size_t m;
    struct entry *e = sorted(p, NULL, n, &m);
    double worst = 0;

    if (!e) {
        all_nan(p, n);
        return;
    }
    for (size_t i = 0; i < m; i++) {
        worst = fmax(worst, fmin(1, e[i].x * (double)(m - i)));
        p[e[i].pos] = worst;
    }
    free(e);
}

enum kva_verdict kva_stat_verdict(enum kva_tie_mode mode, double delta, double p_adj,
                                  double epsilon, double alpha, bool valid)
{
    double limit = mode == KVA_TIE_EXACT ? EXACT_TIE : epsilon;

    if (!valid || isnan(delta) || (mode == KVA_TIE_STAT && isnan(p_adj)))
        return KVA_INVALID;
    if (mode == KVA_TIE_STAT && !(p_adj < alpha))
        return KVA_TIE;
    if (delta > limit)
        return KVA_WIN;
    return delta < -limit ? KVA_LOSS : KVA_TIE;
}

double kva_stat_power(void)
{
    double z;

    kva_stat_init();
    z = gsl_cdf_ugaussian_Pinv(0.975) + gsl_cdf_ugaussian_Pinv(0.8);
    return z * z; /* 7.8489 */
}

double kva_stat_mde(double n, double discordant)
{
    double k = kva_stat_power(), mde;

    if (!(n > 0) || !(discordant > 0) || discordant > 1)
        return (double)NAN;
    mde = sqrt(k * discordant / (n + k));
    return mde > discordant ? (double)NAN : mde;
}

double kva_stat_required_n(double effect, double discordant)
{
    if (!(effect > 0) || !(discordant > 0) || discordant > 1 || effect > discordant)
        return (double)NAN;
    return ceil(kva_stat_power() * (discordant - effect * effect) / (effect * effect));
}

void kva_stat_pareto(const double *x, const double *y, size_t n, uint8_t *front)
{
    size_t m;
    struct entry *e = sorted(x, y, n, &m);
    double best = -(double)INFINITY, best_x = 0;

    for (size_t i = 0; i < n; i++)
        front[i] = 0;
    for (size_t i = 0; e && i < m; i++) {
        if (e[i].y > best) {
            best = e[i].y;
            best_x = e[i].x;
            front[e[i].pos] = 1;
        } else if (e[i].y == best && e[i].x == best_x) {
            front[e[i].pos] = 1; /* an exact duplicate of a point on the front */
        }
    }
    free(e);
}

double kva_stat_mean_retention(const double *x, const double *y, size_t n)
{
    size_t m;
    struct entry *e = sorted(x, y, n, &m);
    double area = 0, range, mean = (double)NAN;

    if (e && m == n && n > 0 && e[0].x > 0) {
        range = log2(e[m - 1].x) - log2(e[0].x);
        for (size_t i = 1; i < m; i++)
            area += (log2(e[i].x) - log2(e[i - 1].x)) * (e[i].y + e[i - 1].y) / 2;
        mean = range > 0 ? area / range : kva_stat_mean(y, n);
    }
    free(e);
    return mean;
}

double kva_stat_budget_at(const double *x, const double *y, size_t n, double level,
                          bool *monotone)
{
    size_t m;
    struct entry *e = sorted(x, y, n, &m);
    double at = (double)NAN;

    if (monotone)
        *monotone = true;
    for (size_t i = 0; e && i < m; i++) {
        if (i && monotone && e[i].y < e[i - 1].y)
            *monotone = false;
        if (!isnan(at) || e[i].y < level)
            continue;
        at = e[i].x;
        if (i && e[i - 1].x > 0 && e[i].y > e[i - 1].y) {
            double share = (level - e[i - 1].y) / (e[i].y - e[i - 1].y);

            at = exp2(log2(e[i - 1].x) + share * (log2(e[i].x) - log2(e[i - 1].x)));
        }
    }
    free(e);
    return at;
}
