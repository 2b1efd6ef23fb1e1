/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sweep.h - measures what a database lacks of a plan: what `run` and `audit` share. */
#ifndef KVA_SWEEP_H
#define KVA_SWEEP_H

#include "runner/plan.h"

struct kva_sweep_opts {
    const char *command; /* the word of the command line: "run", "audit" */
    const char *path;    /* suite file as given, for messages */
    const char *words;   /* options that shape the work, quoted, each after a blank */
    int jobs, threads, wave, chunk, trace_kept, limit;
    bool keep_going, prompts;
    const char *progress, *label; /* NULL: the defaults */
    const char *const *set;       /* as given, for the run's row */
    int n_set;
    bool json; /* a summary of what was done to standard output */
};

/* --backend: NULL is the suite as it stands, on the CPU. A device runs one job. */
enum kva_status kva_sweep_backend(const char *name, struct kva_suite *s,
                                  struct kva_sweep_opts *o, struct kva_error *err);
/* A row for this run: environment, command line, the suite's resolved text. */
enum kva_status kva_sweep_start(struct kva_db *db, const struct kva_plan *plan,
                                const struct kva_sweep_opts *o, int64_t *run_id,
                                struct kva_error *err);
/* Measures what is missing, stores it under a run of its own, tells on standard error.
 * The exit code of `kvaudit run` (ruling R21). */
int kva_sweep(struct kva_plan *plan, struct kva_db *db, const struct kva_sweep_opts *o);

#endif
