/* SPDX-License-Identifier: GPL-3.0-or-later */
/* regress_internal.h - what the files of the nightly gate share. */
#ifndef KVA_REGRESS_INTERNAL_H
#define KVA_REGRESS_INTERNAL_H

#include "metrics/metric.h"
#include "reports/internal.h"
#include "reports/regress.h"

/* A database with the places of each cell's rows: outcomes first[i] .. first[i + 1] - 1,
 * repetitions perf[i] .. perf[i + 1] - 1. */
struct kva_regress_side {
    const struct kva_data *d;
    int *first, *perf;
};
/* One comparison of two databases while rows are made. */
struct kva_regress_work {
    struct kva_regress *r;
    struct kva_regress_side base, now;
    int *partner;        /* per base cell: the cell of now with its digest, -1 */
    int *sample;         /* per now sample: the base sample with its digest, -1 */
    int *slot;           /* per base sample: its first outcome in the cell at hand, -1 */
    int *cluster;        /* per base sample: number of its context */
    bool *clustered;     /* per base task: some context has several samples */
    const char **method; /* per base cell: short name, for suites */
    const char *against;
    double scale;
    struct kva_arena scratch;
};

enum kva_status kva_regress_score(struct kva_regress_work *w, struct kva_error *err);
enum kva_status kva_regress_time(struct kva_regress_work *w, struct kva_error *err);
enum kva_status kva_regress_memory(struct kva_regress_work *w, struct kva_error *err);
/* Verdict and sentence of a score row once the family is adjusted. */
void kva_regress_judge_score(struct kva_regress *r, struct kva_regress_row *row);

/* A new row of a pair of cells, verdict PASS; NULL: out of memory. The pointer holds
 * until the next row is added. */
struct kva_regress_row *kva_regress_row(struct kva_regress_work *w,
                                        enum kva_regress_gate gate, const char *what,
                                        int base_cell);
/* Did both cells of the pair run on the CPU backend, which is exact? */
bool kva_regress_exact(const struct kva_regress_work *w, int base_cell);
/* Is this base cell to be compared: has a partner, is the one asked for? */
bool kva_regress_wanted(const struct kva_regress_work *w, int base_cell);
/* Outcomes of now's partner cell become findable through slot, and are let go again. */
void kva_regress_enter(struct kva_regress_work *w, int base_cell);
void kva_regress_leave(struct kva_regress_work *w, int base_cell);
/* The outcome of now with the sample and rep of base outcome o, NULL: none. Between enter
 * and leave. */
const struct kva_data_outcome *kva_regress_twin(const struct kva_regress_work *w,
                                                const struct kva_data_outcome *o);
static inline bool kva_regress_ok(const struct kva_data_outcome *o)
{
    return o->status[0] == 'o' && o->status[1] == 'k' && o->score == o->score;
}

#endif
