/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare.h - two selections of cells, paired: win, tie and loss with tests and intervals
 * (reports.md 4.5, style.md 12).
 *
 * Built once, then rendered by kva_report_text, _csv and _markdown of report.h and by
 * kva_compare_json ("kvaudit.compare/1"). Tables: the tally, the cells that met, the
 * named means, the cells without a partner. A - B everywhere, and a win is A's. The same
 * data give the same bytes; exchanging A and B exchanges wins and losses. */
#ifndef KVA_COMPARE_H
#define KVA_COMPARE_H

#include "metrics/metric.h"
#include "reports/report.h"

/* Columns of a cell in which a pair may differ, bits. In the others it agrees. */
enum kva_compare_key {
    KVA_COMPARE_MODEL = 1,
    KVA_COMPARE_METHOD = 2,
    KVA_COMPARE_TASK = 4,
    KVA_COMPARE_BUDGET = 8,
    KVA_COMPARE_ENFORCE = 16,
    KVA_COMPARE_SCHEDULE = 32,
    KVA_COMPARE_VISIBILITY = 64,
    KVA_COMPARE_NUMERICS = 128,
    KVA_COMPARE_KV = 256,
    KVA_COMPARE_SAMPLING = 512
};

/* One side. Both may share `data`. */
struct kva_compare_side {
    const struct kva_data *data;
    const bool *cell;  /* per cell of data: selected */
    const bool *run;   /* per run: outcomes of these only; NULL: all */
    const char *label; /* as the user wrote it */
};

enum kva_compare_match { KVA_COMPARE_NOMINAL = 1, KVA_COMPARE_BYTES = 2 };
struct kva_compare_opts {
    unsigned free;          /* enum kva_compare_key: what the sides name differently */
    int match;              /* bits of enum kva_compare_match; 0: what makes sense */
    enum kva_tie_mode ties; /* of the tables and the words */
    double epsilon;         /* 0..1; nats with gold_nll */
    double alpha;           /* 0: 0.05 */
    bool nats;              /* compare gold_nll (lower is better), not the score */
    bool missing_zero;      /* failed outcomes score 0 */
    bool list_all;          /* tables of both matchings and of cells without a partner */
    uint64_t seed;
    int replicates; /* 0: 10,000 */
    bool color;     /* text only */
    int width;      /* text only; 0: 100 */
};
/* *valid: pairs that could be judged, over all matchings asked. KVA_EINVALID when a cell
 * has several partners, KVA_EMISSING when no cell has one. */
enum kva_status kva_compare_build(const struct kva_compare_side side[2],
                                  const struct kva_compare_opts *opts,
                                  struct kva_report **r, int *valid,
                                  struct kva_error *err);
enum kva_status kva_compare_json(const struct kva_report *r, struct kva_buf *out,
                                 struct kva_error *err);

#endif
