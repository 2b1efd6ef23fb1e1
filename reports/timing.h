/* SPDX-License-Identifier: GPL-3.0-or-later */
/* timing.h - numbers of repeated timing (perf_rep, reports.md 7.3), for tables and
 * figures of time. */
#ifndef KVA_TIMING_H
#define KVA_TIMING_H

#include "db/db.h"
#include "metrics/metric.h"

/* One phase of one cell: "ttft", "evict", "total" in ms; "decode" in ms a token. NaN:
 * none. */
struct kva_timing {
    int n, outliers; /* repetitions; those that lie far off, which are counted all the
                      * same */
    double median, q1, q3;
    double yards;           /* median over the geometric mean of the yardsticks, both of
                             * the same run: compares machines roughly */
    double ratio;           /* median over that of `base` in the same sitting */
    struct kva_interval ci; /* of ratio: bootstrap, both arms resampled */
    int run;                /* index of the run, -1 none */
};
/* Of the newest run that has the cell (of those that started together the first by uuid).
 * base: the cell the ratio is to, -1 none; its repetitions count only if they are of the
 * same run, since only those were taken in turns. */
enum kva_status kva_timing_of(const struct kva_data *d, int cell, int base,
                              const char *phase, uint32_t seed, int replicates,
                              struct kva_timing *t, struct kva_error *err);

/* Repetitions of a cell: [*from, *to) of d->perfs, which are sorted by cell. */
void kva_perf_range(const struct kva_data *d, int cell, int *from, int *to);
/* What one repetition took, ms; decode: a token. NaN: no token was decoded. */
double kva_perf_ms(const struct kva_data_perf *p);
/* Median of a run's yardstick ("calib_gemm", "calib_copy") in `unit` nanoseconds, under
 * whichever of its cells it is stored; NaN: not timed. *work, if wanted: what it worked
 * on. */
enum kva_status kva_yardstick_of(const struct kva_data *d, int run, const char *phase,
                                 double unit, double *median, int64_t *work,
                                 struct kva_error *err);

struct kva_report;
struct kva_board;
/* T-TIME of repetitions: a row per arm, task and phase; none where nothing was
 * repeated. */
void kva_timing_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_board *b);

#endif
