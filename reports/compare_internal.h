/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare_internal.h - a comparison while it is built: both sides as one set of data. */
#ifndef KVA_REPORTS_COMPARE_INTERNAL_H
#define KVA_REPORTS_COMPARE_INTERNAL_H

#include "reports/duel.h"

/* Cells of both sides with their outcomes; models, tasks and samples that are the same
 * are one; the full cache comes along for its noise. A cell that both sides select from
 * one database is one, too: it never meets itself. Strings are those of the sides. */
struct kva_sides {
    struct kva_data d;
    int *cell[2], n[2]; /* cells of each side, ascending */
};
enum kva_status kva_sides_join(const struct kva_compare_side side[2], bool missing_zero,
                               struct kva_sides *out, struct kva_error *err);
void kva_sides_release(struct kva_sides *j);

struct kva_compare {
    struct kva_report *r;
    const struct kva_compare_opts *opts; /* defaults filled in */
    const struct kva_data *d;
    const struct kva_cells *c;
    const char *label[2]; /* cleaned */
    struct kva_duel_rules rules;
    struct kva_duels duels[2]; /* nominal, bytes */
    struct kva_tally tally[2];
    bool done[2];
    int n_cells[2];     /* selected */
    bool other_backend; /* some outcomes were not measured on the CPU backend */
};
/* Tables, then words and the head of the JSON object. */
enum kva_status kva_compare_tables(struct kva_compare *x, struct kva_error *err);
enum kva_status kva_compare_words(struct kva_compare *x, struct kva_error *err);

#endif
