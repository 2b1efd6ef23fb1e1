/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stats_ratio.c - medians of times and their ratio (reports.md 7.3).
 *
 *   r = median(new) / median(base); 95 % percentile interval from resamples of both arms,
 * drawn apart because times are not paired. Generator gsl_rng_mt19937, base drawn first.
 *   modified z of an outlier: |x - median| / MAD, MAD = median |x - median|; above 14.826
 * (ten standard deviations of a normal, 1.4826 MAD each, as hyperfine counts). */
#include "metrics/stats_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_rng.h>
#include <gsl/gsl_statistics_double.h>

#define OUTLIER_Z 14.826

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

/* Sorts x: repetitions are few, so mostly by insertion. */
static double median_of(double *x, size_t n)
{
    if (n > 64) {
        qsort(x, n, sizeof *x, ascending);
    } else {
        for (size_t i = 1; i < n; i++) {
            double v = x[i];
            size_t k = i;

            for (; k > 0 && x[k - 1] > v; k--)
                x[k] = x[k - 1];
            x[k] = v;
        }
    }
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double kva_stat_median(const double *x, size_t n)
{
    double *copy = kva_calloc(n + 1, sizeof *copy), m = (double)NAN;

    if (copy && n > 0) {
        memcpy(copy, x, n * sizeof *x);
        m = median_of(copy, n);
    }
    free(copy);
    return m;
}

size_t kva_stat_outliers(const double *x, size_t n)
{
    double *dev = kva_calloc(n + 1, sizeof *dev), mid = kva_stat_median(x, n), mad;
    size_t found = 0;

    for (size_t i = 0; dev && i < n; i++)
        dev[i] = fabs(x[i] - mid);
    mad = dev ? kva_stat_median(dev, n) : (double)NAN;
    for (size_t i = 0; dev && i < n && mad > 0; i++)
        found += dev[i] / mad > OUTLIER_Z;
    free(dev);
    return found;
}

enum kva_status kva_stat_median_ratio(const double *base, size_t nb, const double *now,
                                      size_t nn, uint32_t seed, int replicates,
                                      double *ratio, struct kva_interval *ci,
                                      struct kva_error *err)
{
    size_t draws = (size_t)replicates, m = 0;
    double *r, *draw;
    gsl_rng *rng;

    *ratio = (double)NAN;
    *ci = (struct kva_interval){0, 0, false};
    if (nb == 0 || nn == 0 || replicates < 1)
        return KVA_OK;
    kva_stat_init();
    r = kva_calloc(draws + (nb > nn ? nb : nn), sizeof *r);
    rng = gsl_rng_alloc(gsl_rng_mt19937);
    if (!r || !rng) {
        free(r);
        if (rng)
            gsl_rng_free(rng);
        return KVA_FAIL(err, KVA_ENOMEM, "ratio of medians: out of memory");
    }
    draw = r + draws;
    gsl_rng_set(rng, seed);
    for (size_t i = 0; i < draws; i++) {
        double below;

        for (size_t k = 0; k < nb; k++)
            draw[k] = base[gsl_rng_uniform_int(rng, nb)];
        below = median_of(draw, nb);
        for (size_t k = 0; k < nn; k++)
            draw[k] = now[gsl_rng_uniform_int(rng, nn)];
        if (below > 0)
            r[m++] = median_of(draw, nn) / below;
    }
    gsl_rng_free(rng);
    memcpy(draw, now, nn * sizeof *now);
    *ratio = median_of(draw, nn);
    memcpy(draw, base, nb * sizeof *base);
    *ratio /= median_of(draw, nb);
    if (m > 0 && isfinite(*ratio)) {
        qsort(r, m, sizeof *r, ascending);
        ci->lo = gsl_stats_quantile_from_sorted_data(r, 1, m, 0.025);
        ci->hi = gsl_stats_quantile_from_sorted_data(r, 1, m, 0.975);
        ci->ok = true;
    }
    free(r);
    return KVA_OK;
}
