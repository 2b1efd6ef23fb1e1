/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sweep_args.h - options of the commands that measure a suite: `run` and `audit`. */
#ifndef KVA_SWEEP_ARGS_H
#define KVA_SWEEP_ARGS_H

#include "runner/options.h"
#include "runner/sweep.h"

struct kva_sweep_args {
    int limit, jobs, threads, wave;
    struct kva_opt_list only, set, data;
    const char *backend, *progress, *label;
};
extern struct kva_sweep_args kva_sweep_args;

/* Rows of a command's table: which cells, and by what means. */
/* clang-format off */
#define KVA_SWEEP_CELLS                                                                  \
    {"only", 0, KVA_OPT_LIST, &kva_sweep_args.only, "KEY=GLOB[,...]",                    \
     "only cells that match (model, method, task, budget, ...); repeatable", 0, 0},      \
    {"set", 0, KVA_OPT_LIST, &kva_sweep_args.set, "KEY=VALUE",                           \
     "override a key of the suite, such as defaults.n=10; repeatable", 0, 0},            \
    {"data", 0, KVA_OPT_LIST, &kva_sweep_args.data, "NAME=PATH",                         \
     "where a data set of yours is, over the suite's \"data\"; repeatable", 0, 0},       \
    {"limit", 0, KVA_OPT_INT, &kva_sweep_args.limit, "N", "at most N samples a cell", 1, \
     1000000}
#define KVA_SWEEP_MEANS                                                                  \
    {"backend", 0, KVA_OPT_STR, &kva_sweep_args.backend, "NAME",                         \
     "cpu (default) or cuda, which runs one job in this process", 0, 0},                 \
    {"jobs", 'j', KVA_OPT_INT, &kva_sweep_args.jobs, "N",                                \
     "worker processes (default $KVAUDIT_JOBS, else one a core)", 1, 64},                \
    {"threads", 0, KVA_OPT_INT, &kva_sweep_args.threads, "N",                            \
     "threads inside a step (default $KVAUDIT_THREADS, else 1)", 1, 64},                 \
    {"wave", 0, KVA_OPT_INT, &kva_sweep_args.wave, "N",                                  \
     "most cells that advance together (default 64; 1: one at a time)", 1, 4096},        \
    {"progress", 0, KVA_OPT_STR, &kva_sweep_args.progress, "MODE",                       \
     "auto, bar, plain, json or none", 0, 0},                                            \
    {"label", 0, KVA_OPT_STR, &kva_sweep_args.label, "TEXT", "a name for this run", 0, 0}
/* clang-format on */

/* The suite of a command line; what is wrong with it goes to standard error. */
enum kva_status kva_sweep_suite(const char *path, struct kva_suite *s,
                                struct kva_error *err);
/* How `command` measures the suite at `path` with these options and the environment. */
struct kva_sweep_opts kva_sweep_means(const char *command, const char *path);
/* A dry run: the plan to standard output. threads, probe: as kva_forecast. */
enum kva_status kva_sweep_show(const struct kva_plan *plan, struct kva_db *db,
                               int threads, bool probe, struct kva_error *err);

#endif
