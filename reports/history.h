/* SPDX-License-Identifier: GPL-3.0-or-later */
/* history.h - scores over the nights, with what the gate said (figure F13).
 *
 * Nights cannot be loaded into one set of results: the same cell has another outcome in
 * each. So every night is judged against the base by itself and leaves a few numbers. */
#ifndef KVA_HISTORY_H
#define KVA_HISTORY_H

#include "reports/regress.h"

struct kva_history_point {
    int night;
    double score, lo, hi; /* 0..1, 95 %; NaN: not measured */
    bool fail;
};
struct kva_history_series {
    const char *name; /* of a suite, else of a cell */
    struct kva_history_point *point;
    int n, n_fail;
};
struct kva_history_night {
    int64_t ms; /* when its last run started */
    const char *commit;
};
/* Zero, then add the nights in any order, then close. */
struct kva_history {
    struct kva_arena arena;
    struct kva_history_night *night; /* by time after close */
    int n_night;
    struct kva_history_series *series; /* most failures first, then by name */
    int n_series;
    bool suites; /* series are suites; false: cells */
};
void kva_history_init(struct kva_history *h);
void kva_history_release(struct kva_history *h);
/* Score rows of a decided night. `now` gives its date and commit. Suites where the night
 * has any, else cells. */
enum kva_status kva_history_add(struct kva_history *h, const struct kva_regress *r,
                                const struct kva_data *now, struct kva_error *err);
enum kva_status kva_history_close(struct kva_history *h, struct kva_error *err);
/* history.tsv, .gp, .svg, .png into dir; KVA_ETOOL without gnuplot (data and source are
 * there all the same). */
enum kva_status kva_history_write(const struct kva_history *h, const char *dir,
                                  struct kva_error *err);
struct kva_report;
void kva_figure_history(struct kva_report *r, const struct kva_history *h); /* F13 */
/* When the newest run of the data started, and its commit ("" unknown). */
int64_t kva_data_when(const struct kva_data *d, const char **commit);

#endif
