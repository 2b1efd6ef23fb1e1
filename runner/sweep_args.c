/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sweep_args.c - what `run` and `audit` make of the options they share. */
#include "runner/sweep_args.h"

#include <stdio.h>
#include <unistd.h>

#include "runner/commands.h"
#include "runner/data_args.h"

struct kva_sweep_args kva_sweep_args;

enum kva_status kva_sweep_suite(const char *path, struct kva_suite *s,
                                struct kva_error *err)
{
    const struct kva_sweep_args *a = &kva_sweep_args;
    struct kva_suite_opts o = {.set = a->set.v,
                               .n_set = a->set.n,
                               .only = a->only.v,
                               .n_only = a->only.n,
                               .limit = a->limit};
    struct kva_buf report;
    struct kva_arena arena;
    enum kva_status rc;

    kva_buf_init(&report, 0);
    kva_arena_init(&arena);
    rc = kva_data_args(&a->data, &arena, &o.data, &o.n_data, err);
    if (rc == KVA_OK)
        rc = kva_suite_load(path, &o, s, &report, err);
    if (report.len > 0)
        fputs(report.data, stderr);
    kva_buf_release(&report);
    kva_arena_release(&arena);
    return rc;
}

static int given_or(int given, const char *name, long otherwise)
{
    return given > 0 ? given : (int)kva_env_int(name, 1, 64, otherwise);
}

struct kva_sweep_opts kva_sweep_means(const char *command, const char *path)
{
    const struct kva_sweep_args *a = &kva_sweep_args;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return (struct kva_sweep_opts){
        .command = command,
        .path = path,
        .jobs = given_or(a->jobs, "KVAUDIT_JOBS", cores > 0 ? cores : 1),
        .threads = given_or(a->threads, "KVAUDIT_THREADS", 1),
        .wave = a->wave,
        .limit = a->limit,
        .progress = a->progress,
        .label = a->label,
        .set = a->set.v,
        .n_set = a->set.n};
}

enum kva_status kva_sweep_show(const struct kva_plan *plan, struct kva_db *db,
                               int threads, bool probe, struct kva_error *err)
{
    struct kva_buf out;
    enum kva_status rc;

    kva_buf_init(&out, 0);
    rc = kva_plan_print(plan, db, threads, probe, kva_common.json != 0, &out, err);
    if (rc == KVA_OK)
        rc = kva_command_out(out.data, out.len, err);
    kva_buf_release(&out);
    return rc;
}
