/* SPDX-License-Identifier: GPL-3.0-or-later */
/* env_row.c - the machine and build a run happened on, as the database's env row.
 *
 * perf_digest covers only what may change speed: reports of time are compared inside one
 * of it. The host name is stored but never shown by a report. */
#include "runner/env_row.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/commands.h"

static void cpu_model(char *out, size_t n)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];

    snprintf(out, n, "unknown");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            colon[1 + strcspn(colon + 1, "\n")] = '\0';
            snprintf(out, n, "%s", colon + 1 + strspn(colon + 1, " "));
            break;
        }
    }
    if (f != NULL)
        (void)fclose(f);
}

/* 13010: "13.1" */
static void version_text(int version, char out[16])
{
    snprintf(out, 16, "%d.%d", version / 1000 % 10000, version % 1000 / 10);
}

void kva_device_text(const struct kva_device *d, char *out, size_t n)
{
    char driver[16], runtime[16];

    version_text(d->driver, driver);
    version_text(d->runtime, runtime);
    snprintf(out, n, "%s (%d.%d), %.1f GiB, CUDA driver %s, runtime %s", d->name,
             d->major, d->minor, (double)d->total_bytes / (double)(1u << 30), driver,
             runtime);
}

/* What is known of a device may change its speed: all of it belongs to `perf`. */
static bool add_device(struct kva_env_row *e, const struct kva_device *d, json_t *perf)
{
    char capability[32];

    snprintf(e->gpu, sizeof e->gpu, "%s", d->name);
    version_text(d->driver, e->driver);
    version_text(d->runtime, e->runtime);
    snprintf(capability, sizeof capability, "%d.%d", d->major, d->minor);
    e->row.gpu_name = e->gpu;
    e->row.driver = e->driver;
    e->row.cuda_runtime = e->runtime;
    e->row.gpu_count = 1;
    e->row.gpu_bytes = (int64_t)d->total_bytes;
    return json_object_set_new(perf, "device",
                               json_pack("{s:s, s:s, s:s, s:s, s:I}", "name", e->gpu,
                                         "capability", capability, "driver", e->driver,
                                         "runtime", e->runtime, "bytes",
                                         (json_int_t)d->total_bytes)) == 0;
}

enum kva_status kva_env_row(const char *backend, const struct kva_ops *ops, int threads,
                            struct kva_env_row *e, struct kva_error *err)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const char *isa = ops != NULL ? ops->isa : "";
    json_t *perf, *all;
    char *perf_text, *all_text;
    enum kva_status rc = KVA_OK;

    memset(e, 0, sizeof *e);
    if (gethostname(e->host, sizeof e->host - 1) != 0)
        snprintf(e->host, sizeof e->host, "unknown");
    cpu_model(e->cpu, sizeof e->cpu);
    e->row.backend = backend != NULL ? backend : "cpu";
    e->row.host = e->host;
    e->row.cpu_model = e->cpu;
    e->row.compiler = kva_version_compiler();
    e->row.cflags = kva_version_cflags();
    e->row.git_commit = kva_version_commit();
    e->row.git_dirty = kva_version_dirty();
    e->row.cpu_logical = (int)sysconf(_SC_NPROCESSORS_ONLN);
    e->row.ram_bytes = pages > 0 && page > 0 ? (int64_t)pages * page : 0;
    perf = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:i}", "cpu", e->cpu, "count",
                     e->row.cpu_logical, "compiler", e->row.compiler, "cflags",
                     e->row.cflags, "backend", e->row.backend, "isa", isa, "threads",
                     threads);
    if (perf != NULL && ops != NULL && ops->device != NULL &&
        !add_device(e, ops->device, perf))
        rc = KVA_FAIL(err, KVA_ENOMEM, "the environment row");
    all = json_pack("{s:O, s:s, s:s, s:i, s:I}", "perf", perf, "host", e->host, "commit",
                    e->row.git_commit, "dirty", e->row.git_dirty, "ram",
                    (json_int_t)e->row.ram_bytes);
    perf_text = perf != NULL ? json_dumps(perf, JSON_COMPACT) : NULL;
    all_text = all != NULL ? json_dumps(all, JSON_COMPACT) : NULL;
    if (rc == KVA_OK && (perf_text == NULL || all_text == NULL))
        rc = KVA_FAIL(err, KVA_ENOMEM, "the environment row");
    if (rc == KVA_OK)
        rc = kva_json_digest(perf_text, e->row.perf_digest, err);
    if (rc == KVA_OK)
        rc = kva_json_digest(all_text, e->row.digest, err);
    snprintf(e->detail, sizeof e->detail, "%s", perf_text != NULL ? perf_text : "{}");
    e->row.detail_json = e->detail;
    free(perf_text);
    free(all_text);
    json_decref(perf);
    json_decref(all);
    return rc;
}
