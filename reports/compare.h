/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare.h - two selections of cells, paired: win, tie and loss with tests and intervals
 * (reports.md 4.5).
 *
 * Built once, then rendered by the functions of report.h: the result is a report whose
 * tables are the tally, the cells of each pair and what has no partner. */
#ifndef KVA_COMPARE_H
#define KVA_COMPARE_H

#include "metrics/metric.h"
#include "reports/report.h"

/* Columns of a cell in which a pair may differ, bits. Those of neither side agree. */
enum kva_compare_key {
    KVA_COMPARE_MODEL = 1,
    KVA_COMPARE_METHOD = 2,
    KVA_COMPARE_TASK = 4,
    KVA_COMPARE_BUDGET = 8,
    KVA_COMPARE_ENFORCE = 16,
    KVA_COMPARE_SCHEDULE = 32,
    KVA_COMPARE_VISIBILITY = 64,
    KVA_COMPARE_NUMERICS = 128,
    KVA_COMPARE_KV = 256
};

/* One side. Both may share `data`. */
struct kva_compare_side {
    const struct kva_data *data;
    const bool *cell;  /* per cell of data: selected */
    const bool *run;   /* per run: outcomes of these only; NULL: all */
    const char *label; /* as the user wrote it */
};

#endif
