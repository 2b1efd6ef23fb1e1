/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stats_tests.c - McNemar, sign flip, Wilcoxon, sign test, Mann-Whitney (reports.md 4.4).
 *
 * Two-sided p values. Exact where counting is possible; GSL has none of these tests.
 *   McNemar, sign test: min(1, 2 P(X <= min(b, c))), X ~ Bin(b + c, 1/2)
 *   sign flip:  share of sign patterns with |sum +-w_i d_i| >= |sum w_i d_i| - 1e-12
 *   Wilcoxon:   2 min(P(W <= w), P(W >= w)), W counted over all 2^n sign patterns
 *   Mann-Whitney: the same over all choices of na among na + nb midranks, ties included
 */
#include "metrics/stats_internal.h"
#include "metrics/stats_random.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>

#define MAX_FLIP     20 /* exact sign flip: 2^20 patterns */
#define MAX_WILCOXON 50 /* counts below 2^53 */
#define MAX_WHITNEY  50
#define SLACK        1e-12

/* ---- binomial ---- */

double kva_stat_mcnemar(uint64_t b, uint64_t c, double *mid)
{
    uint64_t n = b + c, k = b < c ? b : c;
    double cdf;

    if (mid)
        *mid = 1;
    if (n == 0)
        return 1;
    if (n > UINT_MAX) /* far beyond any count of samples; GSL's limit */
        return (double)NAN;
    kva_stat_init();
    cdf = gsl_cdf_binomial_P((unsigned)k, 0.5, (unsigned)n);
    if (mid)
        *mid = fmin(1, 2 * cdf - gsl_ran_binomial_pdf((unsigned)k, 0.5, (unsigned)n));
    return fmin(1, 2 * cdf);
}

double kva_stat_signtest(uint64_t wins, uint64_t losses)
{
    return kva_stat_mcnemar(wins, losses, NULL);
}

/* ---- sign flip ---- */

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

/* All sums +-d[0] +-d[1] ..., ascending; 2^n of them. */
static void all_sums(const double *d, size_t n, double *sum)
{
    size_t have = 1;

    sum[0] = 0;
    for (size_t i = 0; i < n; i++, have *= 2)
        for (size_t k = 0; k < have; k++) {
            sum[have + k] = sum[k] - d[i];
            sum[k] += d[i];
        }
    qsort(sum, have, sizeof *sum, ascending);
}

/* Share of the sign patterns whose sum reaches the limit in absolute value: the sums of
 * two halves, each sorted, met from both ends. NaN: out of memory. */
static double flip_all(const double *d, size_t n, double limit)
{
    size_t na = n / 2, nb = n - na, ea = (size_t)1 << na, eb = (size_t)1 << nb, j = eb;
    double *a = kva_calloc(ea + eb, sizeof *a), *b = a ? a + ea : NULL;
    uint64_t above = 0;

    if (!a)
        return (double)NAN;
    all_sums(d, na, a);
    all_sums(d + na, nb, b);
    for (size_t i = 0; i < ea; i++) {
        while (j > 0 && a[i] + b[j - 1] >= limit)
            j--;
        above += eb - j;
    }
    free(a);
    /* patterns come in mirrored pairs */
    return limit <= 0 ? 1 : 2 * (double)above / ldexp(1, (int)n);
}

/* Eight units at a time: table[k][byte] is the sum of units 8k.. with the signs of the
 * byte's bits, so a pattern costs one look-up for eight units. */
static double flip_at_random(const double *d, size_t n, double limit, uint32_t seed,
                             int flips)
{
    size_t blocks = (n + 31) / 32 * 4;
    double(*table)[256] = kva_calloc(blocks, sizeof *table);
    struct kva_mt rng;
    uint64_t hits = 0;

    if (!table)
        return (double)NAN;
    for (size_t k = 0; k < blocks; k++)
        for (size_t i = 8 * k; i < 8 * k + 8 && i < n; i++)
            for (unsigned byte = 0; byte < 256; byte++)
                table[k][byte] += byte >> i % 8 & 1 ? d[i] : -d[i];
    kva_mt_set(&rng, seed ? seed : 4357);
    for (int f = 0; f < flips; f++) {
        double s[4] = {0, 0, 0, 0};

        for (size_t k = 0; k < blocks; k += 4) {
            uint32_t bits = kva_mt_get(&rng); /* 32 fair bits */

            for (size_t i = 0; i < 4; i++)
                s[i] += table[k + i][bits >> 8 * i & 255];
        }
        hits += fabs(s[0] + s[1] + s[2] + s[3]) >= limit;
    }
    free(table);
    return (double)(1 + hits) / ((double)flips + 1);
}

double kva_stat_signflip(const struct kva_stratum *s, size_t n_strata, uint32_t seed,
                         int flips)
{
    struct kva_stat_units u;
    size_t total = 0, n = 0;
    double *d, sum = 0, p;

    for (size_t t = 0; t < n_strata; t++) {
        if (s[t].n == 0)
            return (double)NAN;
        total += s[t].n;
    }
    d = kva_calloc(total, sizeof *d);
    if (!d || n_strata == 0 || !kva_stat_units_init(&u, total)) {
        free(d);
        return (double)NAN;
    }
    for (size_t t = 0; t < n_strata; t++) {
        kva_stat_group(&s[t], &u);
        for (size_t c = 0; c < u.n; c++) {
            double part = 0;

            for (size_t i = u.first[c]; i < u.first[c + 1]; i++)
                part += s[t].a[u.member[i]] - s[t].b[u.member[i]];
            part /= (double)n_strata * (double)s[t].n;
            sum += part;
            if (part != 0)
                d[n++] = part;
        }
    }
    kva_stat_units_release(&u);
    if (n == 0)
        p = 1;
    else if (n <= MAX_FLIP)
        p = flip_all(d, n, fabs(sum) - SLACK);
    else
        p = flip_at_random(d, n, fabs(sum) - SLACK, seed, flips);
    free(d);
    return p;
}

/* ---- ranks ---- */

struct ranked {
    double key;
    size_t pos;
};

static int by_key(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* rank2[i] = twice the average rank of key i, a whole number; *ties = sum of t^3 - t. */
static bool double_ranks(const double *key, size_t n, size_t *rank2, double *ties)
{
    struct ranked *r = kva_calloc(n, sizeof *r);

    if (!r)
        return false;
    for (size_t i = 0; i < n; i++)
        r[i] = (struct ranked){key[i], i};
    qsort(r, n, sizeof *r, by_key);
    *ties = 0;
    for (size_t i = 0, j; i < n; i = j) {
        double t;

        for (j = i + 1; j < n && r[j].key == r[i].key; j++)
            ;
        for (size_t k = i; k < j; k++)
            rank2[r[k].pos] = i + 1 + j; /* (i+1 + j)/2 doubled */
        t = (double)(j - i);
        *ties += t * t * t - t;
    }
    free(r);
    return true;
}

static double two_sided_normal(double deviation, double variance)
{
    double z;

    if (!(variance > 0))
        return 1;
    kva_stat_init();
    z = fmax(0, fabs(deviation) - 0.5) / sqrt(variance); /* continuity */
    return fmin(1, 2 * gsl_cdf_ugaussian_Q(z));
}

/* p from counts[0..top] of a statistic and its observed value. */
static double two_sided_count(const double *counts, size_t top, size_t observed)
{
    double below = 0, above = 0, all = 0;

    for (size_t i = 0; i <= top; i++) {
        all += counts[i];
        if (i <= observed)
            below += counts[i];
        if (i >= observed)
            above += counts[i];
    }
    return fmin(1, 2 * fmin(below, above) / all);
}

double kva_stat_wilcoxon(const double *d, size_t n)
{
    double *size = kva_calloc(n + 1, sizeof *size), *counts = NULL, ties, p = (double)NAN;
    size_t *rank2 = kva_calloc(n + 1, sizeof *rank2), m = 0, w2 = 0, top = 0, k = 0;

    if (!size || !rank2)
        goto out;
    for (size_t i = 0; i < n; i++)
        if (d[i] != 0)
            size[m++] = fabs(d[i]);
    if (m == 0) {
        p = 1;
        goto out;
    }
    if (!double_ranks(size, m, rank2, &ties))
        goto out;
    for (size_t i = 0; i < n; i++)
        if (d[i] != 0) {
            top += rank2[k];
            w2 += d[i] > 0 ? rank2[k] : 0;
            k++;
        }
    if (m > MAX_WILCOXON) {
        double dm = (double)m;

        p = two_sided_normal((double)w2 / 2 - dm * (dm + 1) / 4,
                             dm * (dm + 1) * (2 * dm + 1) / 24 - ties / 48);
        goto out;
    }
    counts = kva_calloc(top + 1, sizeof *counts);
    if (!counts)
        goto out;
    counts[0] = 1;
    for (size_t i = 0; i < m; i++)
        for (size_t v = top + 1; v-- > rank2[i];)
            counts[v] += counts[v - rank2[i]];
    p = two_sided_count(counts, top, w2);
out:
    free(size);
    free(rank2);
    free(counts);
    return p;
}

/* counts[k][v]: ways to choose k of the ranks with sum v; the row k = na answers. */
static double whitney_exact(const size_t *rank2, size_t na, size_t n, size_t observed)
{
    size_t top = n * (n + 1), row = top + 1;
    double *counts = kva_calloc((na + 1) * row, sizeof *counts), p;

    if (!counts)
        return (double)NAN;
    counts[0] = 1;
    for (size_t i = 0; i < n; i++)
        for (size_t k = na; k > 0; k--)
            for (size_t v = top + 1; v-- > rank2[i];)
                counts[k * row + v] += counts[(k - 1) * row + v - rank2[i]];
    p = two_sided_count(counts + na * row, top, observed);
    free(counts);
    return p;
}

double kva_stat_mannwhitney(const double *a, size_t na, const double *b, size_t nb)
{
    size_t n = na + nb, *rank2 = kva_calloc(n + 1, sizeof *rank2), observed = 0;
    double *all = kva_calloc(n + 1, sizeof *all), ties, p = (double)NAN;

    if (!rank2 || !all || na == 0 || nb == 0)
        goto out;
    memcpy(all, a, na * sizeof *a);
    memcpy(all + na, b, nb * sizeof *b);
    if (!double_ranks(all, n, rank2, &ties))
        goto out;
    for (size_t i = 0; i < na; i++)
        observed += rank2[i];
    if (n <= MAX_WHITNEY) {
        p = whitney_exact(rank2, na, n, observed);
    } else {
        double da = (double)na, db = (double)nb, dn = (double)n;

        p = two_sided_normal((double)observed / 2 - da * (dn + 1) / 2,
                             da * db / 12 * (dn + 1 - ties / (dn * (dn - 1))));
    }
out:
    free(rank2);
    free(all);
    return p;
}
