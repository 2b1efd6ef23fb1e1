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

#include "kernels/kernels.h"
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

enum kva_status kva_env_row(const char *backend, const char *isa, int threads,
                            struct kva_env_row *e, struct kva_error *err)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
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
    all = json_pack("{s:O, s:s, s:s, s:i, s:I}", "perf", perf, "host", e->host, "commit",
                    e->row.git_commit, "dirty", e->row.git_dirty, "ram",
                    (json_int_t)e->row.ram_bytes);
    perf_text = perf != NULL ? json_dumps(perf, JSON_COMPACT) : NULL;
    all_text = all != NULL ? json_dumps(all, JSON_COMPACT) : NULL;
    if (perf_text == NULL || all_text == NULL)
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
