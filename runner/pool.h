/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pool.h - forked workers run units, the parent hears of samples, results and ends.
 *
 * Workers are forked after models were opened (weights are shared copy-on-write) and get
 * one unit at a time; which worker runs which unit changes no result. Only the parent
 * writes the database. A worker that dies costs its unit: the jobs not yet reported come
 * back as failures, and another worker takes its place. A stop request ends every worker
 * after its current step.
 *
 * On a device (suite->backend "cuda") the one worker is a thread: a process that has
 * opened a device must not fork (ruling R8). */
#ifndef KVA_POOL_H
#define KVA_POOL_H

#include "runner/exec.h"

struct kva_pool_events {
    void *ctx;
    enum kva_status (*sample)(void *ctx, const struct kva_sample_row *s,
                              struct kva_error *err);
    /* Results of one step; `n` belong into one commit. */
    enum kva_status (*results)(void *ctx, const struct kva_result *r, int n,
                               struct kva_error *err);
    enum kva_status (*unit_done)(void *ctx, int unit, int64_t ns, int64_t rows,
                                 int n_results, struct kva_error *err);
    enum kva_status (*perf)(void *ctx, const struct kva_perf_row *rows, int n,
                            struct kva_error *err);
    /* True: the unit is not handed out (any more). May be NULL. */
    bool (*skip)(void *ctx, int unit);
    void (*tick)(void *ctx); /* several times a second, for progress; may be NULL */
};

/* Runs the perf jobs or the others of every unit that has some. Returns KVA_EINTERRUPTED
 * after a stop, when all workers have ended. */
enum kva_status kva_pool_run(struct kva_plan *plan, int jobs, bool perf,
                             const struct kva_exec_opts *exec,
                             const struct kva_pool_events *events, struct kva_error *err);

#endif
