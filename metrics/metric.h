/* SPDX-License-Identifier: GPL-3.0-or-later */
/* metric.h - scores of generated text, and the statistics of scores.
 *
 * Plain values and arrays in, plain values out; nothing owned, no state, thread-safe.
 * Text metrics are descriptors in metrics.def (one file text_x.c, one line). Statistics:
 * stats_*.c; formulas and worked numbers in the file headers. Scores are reals in [0, 1].
 */
#ifndef KVA_METRIC_H
#define KVA_METRIC_H

#include "kva.h"

/* What is done to an output before it is scored (tasks-longbench-math.md A.6). White
 * space is that of A.7. */
enum kva_post {
    KVA_POST_NONE,
    KVA_POST_FIRST_LINE, /* leading line feeds off, then up to the first line feed */
    KVA_POST_STRIP,      /* leading white space off (kvpress) */
    KVA_POST_STRIP_FIRST_LINE, /* leading white space off, then the first line (kvpress)
                                */
    KVA_POST_NO_CONTROL        /* bytes 0x00-0x1f deleted (kvpress's RULER) */
};
/* By enum kva_post: "none", "first_line", ...; NULL-terminated. */
extern const char *const kva_post_names[];

struct kva_metric_in {
    const char *prediction; /* n bytes, then a NUL; meant to be UTF-8: invalid bytes count
                             * as U+FFFD. May hold NULs */
    size_t n;
    const char *const *answers; /* references, valid UTF-8; the score is the best over
                                 * them unless the metric says otherwise */
    int n_answers;
    const char *const *classes; /* `classification`: all class names; else unused */
    int n_classes;
    enum kva_post post;
};
struct kva_metric_out {
    double score;    /* [0, 1] */
    const char *how; /* how the answer was found: "boxed", "phrase", "number", "line",
                      * "none"; NULL where nothing is extracted */
    struct kva_buf *extracted; /* in: initialised, or NULL when not wanted. Receives what
                                * was read out of the output, where the metric does so */
};
struct kva_metric {
    const char *name, *summary, *source;
    int version;
    bool binary; /* per-sample scores are 0 or 1 only when there is one reference */
    /* `in` is post-processed already (post is KVA_POST_NONE). Never fails on any bytes;
     * KVA_ENOMEM only. At most a second for any input: texts above a stated length are
     * cut, see the metric's file. */
    enum kva_status (*score)(const struct kva_metric_in *in, struct kva_metric_out *out,
                             struct kva_error *err);
};
const struct kva_metric *kva_metric_find(const char *name); /* NULL: unknown */
const struct kva_metric *const *kva_metrics(void);          /* NULL-terminated */
/* Post-processes and scores. No answers, or a NULL among them: 0. */
enum kva_status kva_metric_score(const struct kva_metric *m,
                                 const struct kva_metric_in *in,
                                 struct kva_metric_out *out, struct kva_error *err);

/* ---- statistics (reports.md 4) ---- */

struct kva_interval {
    double lo, hi;
    bool ok; /* false: not defined (n/a) */
};

double kva_stat_mean(const double *x, size_t n);
double kva_stat_sd(const double *x, size_t n); /* n - 1; 0 for n < 2 */
/* Wilson, 95 %; k need not be whole. */
struct kva_interval kva_stat_wilson(double k, double n);
/* Difference of the means of two independent samples: Welch's t interval with the degrees
 * of freedom of Satterthwaite; not ok when one has n < 2 or neither has any spread. */
struct kva_interval kva_stat_welch(const double *a, size_t na, const double *b,
                                   size_t nb);
/* Unbounded quantity such as nats: mean +- t*sd/sqrt(n); not ok for n < 2. */
struct kva_interval kva_stat_t(const double *x, size_t n);

/* One task's paired values: a[i] and b[i] belong to the same sample. cluster NULL: none;
 * else cluster[i] numbers the source context of sample i.
 *
 * Values are scores in [0, 1], or nats. Answer nats (gold_nll, lower is better) enter as
 * gains over the blind run: a[i] = blind[i] - method[i], b[i] = blind[i] - dense[i]. Then
 * A(a)/A(b) = (blind - method)/(blind - dense) is the nats retention, A(a) - A(b) =
 * dense - method what the method gains over dense, and every function below holds for
 * both. */
struct kva_stratum {
    const char *name; /* strata are drawn in bytewise name order */
    const double *a, *b;
    const int *cluster;
    size_t n;
};
/* Independent units of all strata: contexts, or samples where there are no clusters. 0:
 * out of memory. */
size_t kva_stat_units(const struct kva_stratum *s, size_t n_strata);
/* Interval of arm a, the unweighted mean of its task means, values in [0,1]: Wilson where
 * one task's samples are independent and right or wrong; else, for fractions, means of
 * draws, clusters and several tasks, Wilson's form at the effective size with the t
 * quantile that the observed spread gives (stats_basic.c). Never of width zero. b is not
 * read. Not ok: a task without samples, or out of memory. */
struct kva_interval kva_stat_arm(const struct kva_stratum *s, size_t n_strata);
/* Seed of a pair: SHA-256("kvaudit-boot-1" | lower digest | higher digest | decimal user
 * seed). */
uint32_t kva_stat_boot_seed(const uint8_t a[32], const uint8_t b[32], uint64_t user_seed);
struct kva_boot {
    double ratio, diff; /* A(a)/A(b); A(a)-A(b), A = unweighted mean of task means */
    struct kva_interval ratio_ci, diff_ci;
    double dropped; /* share of replicates with A*(b) <= 0 */
    double mde; /* smallest difference that so many units, as far apart as these, show at
                 * power 0.8 and alpha 0.05; NaN: one unit in a task */
    bool linearised; /* under 30 units that differ, or one task of under 30 units: t
                      * interval of the linearised ratio (stats_boot.c) */
};
/* Paired stratified bootstrap, percentile 95 %. ratio is NaN and ratio_ci not ok when
 * A(b) < 0.05; nothing is defined when a stratum is empty. Arms that differ by the same
 * amount everywhere get the width that n units leave open, never zero. force_boot:
 * percentile even where few units differ. */
enum kva_status kva_stat_bootstrap(const struct kva_stratum *s, size_t n_strata,
                                   uint32_t seed, int replicates, bool force_boot,
                                   struct kva_boot *out, struct kva_error *err);

/* The linearised interval alone; w: weight of the differences not seen yet, 0 is the t
 * interval of 4.3. */
enum kva_status kva_stat_linearised(const struct kva_stratum *s, size_t n_strata,
                                    double w, struct kva_boot *out,
                                    struct kva_error *err);

/* McNemar exact; b = only A right, c = only B right. mid may be NULL. */
double kva_stat_mcnemar(uint64_t b, uint64_t c, double *mid);
/* Paired sign flip on sum_t mean_i(d)/T over strata; exact up to 20 non-zero differences,
 * else `flips` random ones. Clusters flip together. */
double kva_stat_signflip(const struct kva_stratum *s, size_t n_strata, uint32_t seed,
                         int flips);
double kva_stat_wilcoxon(const double *d, size_t n); /* signed rank, two-sided */
double kva_stat_signtest(uint64_t wins, uint64_t losses);
double kva_stat_mannwhitney(const double *a, size_t na, const double *b, size_t nb);
/* Repetitions of a time: median (NaN: none), how many lie more than 14.826 median
 * absolute deviations from it, and median(now) / median(base) with its bootstrap
 * interval. */
double kva_stat_median(const double *x, size_t n);
size_t kva_stat_outliers(const double *x, size_t n);
enum kva_status kva_stat_median_ratio(const double *base, size_t nb, const double *now,
                                      size_t nn, uint32_t seed, int replicates,
                                      double *ratio, struct kva_interval *ci,
                                      struct kva_error *err);
/* In place: p becomes adjusted. NaN entries are not comparisons and stay. */
void kva_stat_bh(double *p, size_t n);
void kva_stat_holm(double *p, size_t n);

enum kva_tie_mode { KVA_TIE_EXACT, KVA_TIE_EPSILON, KVA_TIE_STAT };
enum kva_verdict { KVA_WIN, KVA_TIE, KVA_LOSS, KVA_INVALID };
/* valid = false gives INVALID. p_adj is read in STAT mode only. */
enum kva_verdict kva_stat_verdict(enum kva_tie_mode mode, double delta, double p_adj,
                                  double epsilon, double alpha, bool valid);
/* Smallest paired effect that n units show at power 0.8, alpha 0.05, when a share
 * `discordant` of their samples differ; NaN when undefined. For plans: the units are
 * contexts, since questions of one may all be right or wrong together. Data say how far
 * they are (kva_boot.mde), and it is never more than this. */
double kva_stat_mde(double n, double discordant);
double kva_stat_required_n(double effect, double discordant);
/* front[i] = 1 when point i is on the Pareto front (small x, large y). */
void kva_stat_pareto(const double *x, const double *y, size_t n, uint8_t *front);
/* Trapezoid of y over log2(x), divided by the range; points in any order. */
double kva_stat_mean_retention(const double *x, const double *y, size_t n);
/* Smallest x with y >= level, linear in log2(x); NaN: never; *monotone may be NULL. */
double kva_stat_budget_at(const double *x, const double *y, size_t n, double level,
                          bool *monotone);

/* Interval of the mean of n independent estimates x with intervals ci: square-and-add of
 * the distances to either side (MOVER, Zou and Donner 2008). Not ok when one is not. */
struct kva_interval kva_stat_mean_interval(const double *x, const struct kva_interval *ci,
                                           size_t n);

/* ---- several samples of one problem (tasks-longbench-math.md B.3) ---- */

/* avg@k: mean over problems of correct/samples, the estimate of pass@1. NaN when there is
 * no problem, a problem has no sample or more right ones than samples. */
double kva_stat_avg_at(const int *correct, const int *samples, size_t problems);
/* Unbiased pass@j: mean of 1 - C(n-c, j)/C(n, j). NaN as above, and when a problem has
 * fewer than j samples. */
double kva_stat_pass_at(const int *correct, const int *samples, size_t problems, int j);
/* maj@k: *winner is the first sample of the most frequent class of answers (equality of
 * math500), ties to the class that appears first; *votes its size. Samples without an
 * answer do not vote; -1 and 0: none has one. The problem's maj@k is the winner's score.
 * output[i] holds n[i] bytes. */
enum kva_status kva_stat_majority(const char *const *output, const size_t *n, int k,
                                  int *winner, int *votes, struct kva_error *err);
/* The same of answers that were extracted before; NULL: none. */
enum kva_status kva_stat_vote(const char *const *answer, int k, int *winner, int *votes,
                              struct kva_error *err);

#endif
