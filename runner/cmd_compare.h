/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_compare.h - what `kvaudit compare` and `kvaudit compare --gate` share: the words of
 * the command line and the data behind them. */
#ifndef KVA_CMD_COMPARE_H
#define KVA_CMD_COMPARE_H

#include "reports/compare.h"
#include "runner/commands.h"
#include "runner/select.h"

/* Options of --gate. */
struct kva_gate_args {
    const char *gates, *non_inferiority, *cell, *pin, *junit, *figures, *bisect, *repo;
    int exact, allow_removed, github, suggest, force;
    struct kva_opt_list confirm, history;
};
struct kva_compare_args {
    const char *a, *b;  /* selectors; NULL: not given (only with --gate) */
    const char *gate;   /* FILE of --gate; NULL: none */
    const char *format; /* "text", "json", "csv", "markdown" */
    const char *match, *ties, *epsilon, *alpha, *metric, *missing; /* NULL: default */
    struct kva_gate_args night;
};

/* Both sides, loaded. A selector without db= reads what --db (or the default) names; one
 * that names files reads those. Sides of the same files share one load. */
struct kva_compare_sides {
    struct kva_select select[2];
    struct kva_data data[2];         /* [1] is unused when shared */
    struct kva_compare_side side[2]; /* ready for reports/ */
    unsigned free; /* enum kva_compare_key: named by one side, or by both differently */
    bool *mark[4]; /* owned: cells and runs of each side */
    bool shared, loaded[2];
};
/* a, b: selectors; NULL: everything of the default database. Release in any case. */
enum kva_status kva_compare_load(const char *a, const char *b,
                                 struct kva_compare_sides *out, struct kva_error *err);
void kva_compare_sides_release(struct kva_compare_sides *s);

/* cmd_compare_gate.c: the nightly regression; exit code. */
int kva_cmd_compare_gate(const struct kva_compare_args *args);

#endif
