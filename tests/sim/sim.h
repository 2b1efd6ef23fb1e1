/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sim.h - drawn scores with a known truth: how often does an interval hold it, how often
 * does a test find what is not there? Shared by coverage.c (the committed table) and the
 * small version among the tests.
 *
 * Scores of one arm have mean p. A second arm keeps a sample's score with probability
 * `keep` and draws it anew otherwise, as two methods on the same prompts do: from mean
 * `lower` p or, under the null, from the same p. */
#ifndef KVA_TESTS_SIM_H
#define KVA_TESTS_SIM_H

#include "metrics/metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>

enum sim_shape {
    SIM_BINARY,   /* right or wrong */
    SIM_QUARTERS, /* four values asked for: 0, 1/4, ... 1 */
    SIM_RIDGE,    /* one hump, as ROUGE: Beta(6p, 6(1-p)) */
    SIM_BATHTUB,  /* mass at both ends: Beta(p/2, (1-p)/2) */
    SIM_SPIKED,   /* as F1: half of the samples all or nothing, the others a hump */
    SIM_SHAPES
};
static const char *const sim_names[SIM_SHAPES] = {
    "binary", "quarters", "ridge (ROUGE-like)", "bathtub", "spiked (F1-like)"};

enum { SIM_MAX_TASKS = 5, SIM_MAX_N = 800 };
#define SIM_KEEP  0.7
#define SIM_LOWER 0.8

static inline double sim_draw(gsl_rng *g, enum sim_shape shape, double p)
{
    switch (shape) {
    case SIM_BINARY:
        return gsl_rng_uniform(g) < p;
    case SIM_QUARTERS:
        return gsl_ran_binomial(g, p, 4) / 4.0;
    case SIM_RIDGE:
        return gsl_ran_beta(g, 6 * p, 6 * (1 - p));
    case SIM_BATHTUB:
        return gsl_ran_beta(g, p / 2, (1 - p) / 2);
    default:
        return gsl_rng_uniform(g) < 0.5 ? gsl_rng_uniform(g) < p
                                        : gsl_ran_beta(g, 6 * p, 6 * (1 - p));
    }
}

/* Questions on one context share its difficulty: its own mean, Beta with sd about 0.2. */
static inline double sim_context(gsl_rng *g, double p)
{
    return gsl_ran_beta(g, 4 * p, 4 * (1 - p));
}

struct sim_data {
    double a[SIM_MAX_TASKS][SIM_MAX_N], b[SIM_MAX_TASKS][SIM_MAX_N];
    int cluster[SIM_MAX_N];
    struct kva_stratum s[SIM_MAX_TASKS];
};
struct sim_case {
    enum sim_shape shape;
    int tasks, n;    /* n units a task: samples, or contexts */
    int questions;   /* on a context; 1: no clusters */
    double p, lower; /* mean of b; redrawn scores of a have mean lower * p */
    double keep;
};

/* Tasks of a suite differ: p - 0.04 .. p + 0.04. */
static inline double sim_task_p(const struct sim_case *c, int t)
{
    return c->tasks == 1 ? c->p : c->p + 0.02 * (t - (c->tasks - 1) / 2.0);
}

static inline void sim_fill(gsl_rng *g, const struct sim_case *c, struct sim_data *d)
{
    static const char *const names[SIM_MAX_TASKS] = {"t0", "t1", "t2", "t3", "t4"};
    int n = c->n * c->questions;

    for (int t = 0; t < c->tasks; t++) {
        double p = sim_task_p(c, t), q = p;

        for (int i = 0; i < n; i++) {
            if (c->questions > 1 && i % c->questions == 0)
                q = sim_context(g, p);
            d->cluster[i] = i / c->questions;
            d->b[t][i] = sim_draw(g, c->shape, q);
            d->a[t][i] = gsl_rng_uniform(g) < c->keep
                             ? d->b[t][i]
                             : sim_draw(g, c->shape, c->lower * q);
        }
        d->s[t] = (struct kva_stratum){names[t], d->a[t], d->b[t],
                                       c->questions > 1 ? d->cluster : NULL, (size_t)n};
    }
}

/* What is true of A(b), A(a)/A(b), A(a) - A(b). */
static inline double sim_ratio(const struct sim_case *c)
{
    return c->keep + (1 - c->keep) * c->lower;
}

static inline bool sim_holds(struct kva_interval ci, double truth)
{
    return ci.ok && ci.lo <= truth + 1e-12 && truth <= ci.hi + 1e-12;
}

/* The test of a leaderboard. */
static inline double sim_p(const struct sim_case *c, const struct sim_data *d, int flips,
                           uint32_t seed)
{
    uint64_t x = 0, y = 0;

    if (c->shape != SIM_BINARY || c->tasks > 1 || c->questions > 1)
        return kva_stat_signflip(d->s, (size_t)c->tasks, seed, flips);
    for (int k = 0; k < c->n; k++) {
        x += d->a[0][k] > d->b[0][k];
        y += d->a[0][k] < d->b[0][k];
    }
    return kva_stat_mcnemar(x, y, NULL);
}

/* Shares of `trials` in which the interval held the truth; share of p below 0.05. */
struct sim_result {
    double single, ratio, diff, p_below;
    int defined; /* trials with a ratio: the others had a dense score under 0.05 */
};

static inline struct sim_result sim_run(const struct sim_case *c, int trials,
                                        int replicates, bool pairs, bool test,
                                        uint32_t seed)
{
    static struct sim_data d;
    struct sim_result r = {0};
    gsl_rng *g = gsl_rng_alloc(gsl_rng_mt19937);

    gsl_rng_set(g, seed);
    for (int i = 0; i < trials; i++) {
        struct kva_boot boot;

        sim_fill(g, c, &d);
        for (int t = 0; t < c->tasks; t++) /* the single arm is b */
            d.s[t].a = d.b[t];
        r.single += sim_holds(kva_stat_arm(d.s, (size_t)c->tasks), c->p);
        for (int t = 0; t < c->tasks; t++)
            d.s[t].a = d.a[t];
        if (pairs) {
            (void)kva_stat_bootstrap(d.s, (size_t)c->tasks, (uint32_t)i + 1, replicates,
                                     false, &boot, NULL);
            r.ratio += sim_holds(boot.ratio_ci, sim_ratio(c));
            r.defined += !isnan(boot.ratio);
            r.diff += sim_holds(boot.diff_ci, (sim_ratio(c) - 1) * c->p);
        }
        if (test)
            r.p_below += sim_p(c, &d, replicates, (uint32_t)i + 1) < 0.05;
    }
    gsl_rng_free(g);
    r.single /= trials;
    r.ratio /= r.defined ? r.defined : 1;
    r.diff /= trials;
    r.p_below /= trials;
    return r;
}

/* ---- power at the smallest visible effect ---- */

/* Variance of a score of mean p over p(1-p). */
static const double sim_var[SIM_SHAPES] = {1, 1 / 4.0, 1 / 7.0, 1 / 1.5, 4 / 7.0};

/* The true difference b - a when redrawn scores have mean l times b's: its mean, and its
 * mean square over units, a question or the mean of a context's questions. q is the mean
 * of a context, E q^2 = p^2 + p(1-p)/5. together: as if the questions of a context were
 * one. */
static inline void sim_moments(const struct sim_case *c, double l, bool together,
                               double *mean, double *square)
{
    double k = 1 - c->keep, shared = k * k * (1 - l) * (1 - l), sum = 0;

    *mean = k * (1 - l) * c->p;
    for (int t = 0; t < c->tasks; t++) {
        double p = sim_task_p(c, t), qq = p * p + (c->questions > 1) * p * (1 - p) / 5;
        double one = k * (sim_var[c->shape] * (p - qq + l * p - l * l * qq) +
                          (1 - l) * (1 - l) * qq);

        sum += shared * qq + (one - shared * qq) / (together ? 1 : c->questions);
    }
    *square = sum / c->tasks;
}

struct sim_power {
    double found, mde; /* share of trials with p < 0.05; mean of what they call visible
                        * over what is */
};
/* Of a true difference of the smallest visible size, `together`: that of plans. NaN where
 * even scores of 0 differ less. Changes c->lower. */
static inline struct sim_power sim_power(struct sim_case *c, bool together, int trials,
                                         int flips, uint32_t seed)
{
    static struct sim_data d;
    struct sim_power r = {0, 0};
    double hi = 1, mean, square;
    int defined = 0;
    gsl_rng *g;

    c->lower = 0;
    for (int i = 0; i < 50; i++) {
        double l = (c->lower + hi) / 2;

        sim_moments(c, l, together, &mean, &square);
        if (mean > sqrt(7.8488797 * square / (c->n * c->tasks + 7.8488797)))
            c->lower = l;
        else
            hi = l;
    }
    if (!(c->lower > 0))
        return (struct sim_power){(double)NAN, (double)NAN};
    sim_moments(c, c->lower, together, &mean, &square);
    g = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_rng_set(g, seed);
    for (int i = 0; i < trials; i++) {
        struct kva_boot boot;

        sim_fill(g, c, &d);
        r.found += sim_p(c, &d, flips, (uint32_t)i + 1) < 0.05;
        (void)kva_stat_bootstrap(d.s, (size_t)c->tasks, 1, 1, false, &boot, NULL);
        if (!isnan(boot.mde)) {
            r.mde += boot.mde / mean;
            defined++;
        }
    }
    gsl_rng_free(g);
    r.found /= trials;
    r.mde /= defined ? defined : 1;
    return r;
}

/* Share of trials whose interval holds the true nats retention 0.8: dense gains
 * Gamma(3, 1) nats, the method loses Gamma(1/2, 1.2) of them. */
static inline double sim_nats(int tasks, int n, int trials, int replicates, uint32_t seed)
{
    static struct sim_data d;
    gsl_rng *g = gsl_rng_alloc(gsl_rng_mt19937);
    int held = 0;

    gsl_rng_set(g, seed);
    for (int i = 0; i < trials; i++) {
        struct kva_boot boot;

        for (int t = 0; t < tasks; t++) {
            for (int k = 0; k < n; k++) {
                d.b[t][k] = gsl_ran_gamma(g, 3, 1);
                d.a[t][k] = d.b[t][k] - gsl_ran_gamma(g, 0.5, 1.2);
            }
            d.s[t] = (struct kva_stratum){"t", d.a[t], d.b[t], NULL, (size_t)n};
        }
        (void)kva_stat_bootstrap(d.s, (size_t)tasks, (uint32_t)i + 1, replicates, false,
                                 &boot, NULL);
        held += sim_holds(boot.ratio_ci, 0.8);
    }
    gsl_rng_free(g);
    return (double)held / trials;
}

/* Share of tables of 8 equal methods (p = 0.6, one task) in which some method ranks
 * behind another: all pairs tested, adjusted together, as a leaderboard does. */
static inline double sim_ranks(enum sim_shape shape, int n, int trials, int flips,
                               uint32_t seed)
{
    enum { METHODS = 8, PAIRS = METHODS * (METHODS - 1) / 2 };
    static double x[METHODS][SIM_MAX_N];
    gsl_rng *g = gsl_rng_alloc(gsl_rng_mt19937);
    int wrong = 0;

    gsl_rng_set(g, seed);
    for (int i = 0; i < trials; i++) {
        double p[PAIRS];
        int m = 0;
        bool any = false;

        for (int k = 0; k < n; k++) {
            double shared = sim_draw(g, shape, 0.6);

            for (int j = 0; j < METHODS; j++)
                x[j][k] =
                    gsl_rng_uniform(g) < SIM_KEEP ? shared : sim_draw(g, shape, 0.6);
        }
        for (int a = 0; a < METHODS; a++)
            for (int b = a + 1; b < METHODS; b++) {
                struct kva_stratum s = {"t", x[a], x[b], NULL, (size_t)n};
                uint64_t only_a = 0, only_b = 0;

                for (int k = 0; k < n; k++) {
                    only_a += x[a][k] > x[b][k];
                    only_b += x[a][k] < x[b][k];
                }
                p[m++] = shape == SIM_BINARY
                             ? kva_stat_mcnemar(only_a, only_b, NULL)
                             : kva_stat_signflip(&s, 1, (uint32_t)i + 1, flips);
            }
        kva_stat_bh(p, PAIRS);
        for (int k = 0; k < PAIRS; k++)
            any |= p[k] < 0.05;
        wrong += any;
    }
    gsl_rng_free(g);
    return (double)wrong / trials;
}

#endif
