/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nightly.h - what the files of `kvaudit compare --gate` share: loading a side, other
 * nights, hints where to look, one step of a bisection. */
#ifndef KVA_NIGHTLY_H
#define KVA_NIGHTLY_H

#include "reports/history.h"
#include "runner/cmd_compare.h"
#include "runner/gate_file.h"

/* ---- a side: cmd_compare_gate.c ---- */
struct kva_night {
    struct kva_compare_sides sides;
    struct kva_data *data; /* only the outcomes that were selected */
};
/* selector NULL: everything of --db. Release in any case. */
enum kva_status kva_night_load(const char *selector, struct kva_night *n,
                               struct kva_error *err);
/* The baseline of this name, else the selector itself; NULL: out of memory. */
const char *kva_night_selector(struct kva_arena *a, const struct kva_gate_file *g,
                               const char *name);
void kva_night_release(struct kva_night *n);

/* ---- other nights: nightly_past.c ---- */
struct kva_past_night {
    int64_t ms;
    const char *commit;
    struct kva_map failed; /* row (gate, digest, what) -> 1 it failed, 0 it did not */
};
struct kva_past {
    struct kva_history history;
    struct kva_past_night *night; /* by time after kva_past_load */
    int n;
    struct kva_arena arena;
};
/* Every database against the base by the thresholds of o; then now's verdicts `r`. */
enum kva_status kva_past_load(const char *const *db, int n, const struct kva_data *base,
                              const struct kva_regress *r, const struct kva_data *now,
                              struct kva_past *p, struct kva_error *err);
void kva_past_release(struct kva_past *p);
/* The last night before the row's first failure, and that night; NULL: not known. */
void kva_past_narrow(const struct kva_past *p, const struct kva_regress_row *row,
                     const struct kva_past_night **good,
                     const struct kva_past_night **fails);
/* How often the verdict changed in the last `last` nights; *seen: in how many it was. */
int kva_past_flips(const struct kva_past *p, const struct kva_regress_row *row, int last,
                   int *seen);

/* ---- where to look: nightly_hints.c ---- */
struct kva_hints {
    const char *gate_path, *repo; /* repo NULL: here */
    const char *base_commit, *now_commit;
    const struct kva_gate_file *file;
    const struct kva_past *past; /* NULL: none given */
};
/* Sentences for people, appended to `text`, and "bisect" of the JSON (may be NULL).
 * Nothing when no row failed. Missing git or an unknown commit is said, no error. */
enum kva_status kva_hints_make(const struct kva_regress *r, const struct kva_hints *h,
                               struct kva_buf *text, json_t **json,
                               struct kva_error *err);
/* Rows whose verdict flipped at least 3 times in the last 10 nights while no file of
 * their code paths changed. */
enum kva_status kva_hints_quarantine(const struct kva_regress *r,
                                     const struct kva_hints *h, struct kva_buf *text,
                                     struct kva_error *err);

/* Times that failed and were not measured again: the command that measures their cells,
 * and the one that judges with what it found. */
enum kva_status kva_hints_again(const struct kva_regress *r, const struct kva_data *now,
                                const struct kva_gate_file *g,
                                const struct kva_compare_args *args, struct kva_buf *text,
                                struct kva_error *err);

/* ---- one step of `git bisect run`: nightly_bisect.c ---- */
/* 0 good, 1 bad, 125 cannot be tested, 128 wrong use (ends the bisection). */
/* A cell as `run --only` selects it. */
void kva_night_only(const struct kva_data *d, int cell, struct kva_buf *out);
int kva_bisect_step(const struct kva_gate_file *g, const char *cell, const char *base,
                    const char *repo);

#endif
