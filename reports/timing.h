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

struct kva_report;
struct kva_board;
/* T-TIME of repetitions: a row per arm, task and phase; none where nothing was
 * repeated. */
void kva_timing_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_board *b);

#endif
