/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gate_file.h - the file that says what the nightly gate tolerates: thresholds,
 * baselines, quarantine (ruling R21; format in configs/README.md).
 *
 * Reading reports every error of the file with line, column and JSON pointer. Paths are
 * relative to the file. Only pinning a baseline writes it. */
#ifndef KVA_GATE_FILE_H
#define KVA_GATE_FILE_H

#include "reports/regress.h"

#include <jansson.h>

struct kva_gate_baseline {
    const char *name, *db, *commit, *note; /* db: resolved; commit, note: NULL none */
    const char **run;                      /* starts of UUIDs; none: all of the file */
    int n_run;
};
struct kva_gate_entry {
    struct kva_regress_quarantine q;
    const char *since,
        *expires;   /* as written, YYYY-MM-DD; holds to the end of that day */
    const char *at; /* "FILE:LINE:COL: /quarantine/0" for messages */
};
struct kva_gate_file {
    const char *path;
    struct kva_regress_opts opts;
    const char *base, *anchor; /* names of baselines; NULL: none */
    struct kva_gate_baseline *baseline;
    int n_baseline;
    struct kva_gate_entry *entry;
    int n_entry;
    const char *paths; /* file of path groups, resolved; NULL: none */
    /* what bisecting needs; NULL: not given */
    const char *suite, *program, **build;
    struct kva_arena arena;
    json_t *root;
};
/* KVA_EINVALID: errors are in `report`, one a line. Release in any case. */
enum kva_status kva_gate_file_load(const char *path, struct kva_gate_file *g,
                                   struct kva_buf *report, struct kva_error *err);
/* The same of a text; name stands in messages, dir is where paths start. */
enum kva_status kva_gate_file_parse(const char *text, const char *name, const char *dir,
                                    struct kva_gate_file *g, struct kva_buf *report,
                                    struct kva_error *err);
void kva_gate_file_release(struct kva_gate_file *g);
const struct kva_gate_baseline *kva_gate_file_find(const struct kva_gate_file *g,
                                                   const char *name);
/* Sets baseline NAME and writes the file beside itself, then renames it. run: UUIDs. */
enum kva_status kva_gate_file_pin(struct kva_gate_file *g, const char *name,
                                  const char *db, const char *const *run, int n_run,
                                  const char *commit, struct kva_error *err);
/* Days since 1970-01-01 of YYYY-MM-DD; false: no such day. */
bool kva_parse_day(const char *s, int64_t *day);

#endif
