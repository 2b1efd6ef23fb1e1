/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report.h - leaderboards from stored outcomes: text, JSON, CSV, Markdown, HTML, figures.
 *
 * A report reads `struct kva_data` (db/db.h) and nothing else: no model, no runner.
 * Building computes every number once (retention, intervals, tests, ranks); renderers
 * only format. The same databases and options give the same bytes: times come from the
 * database, rows are sorted by explicit keys. Physical and mask rows never share a table;
 * a row that is not ranked says why; the counts under each table add up. */
#ifndef KVA_REPORT_H
#define KVA_REPORT_H

#include "db/db.h"
#include "kva.h"

/* Views: one table of them (table.c), ended by a NULL name. */
struct kva_view {
    const char *name, *summary;
    int bit;
};
extern const struct kva_view kva_views[];
enum { KVA_MAX_VIEWS = 32 };
void kva_view_names(const char *name[KVA_MAX_VIEWS]); /* NULL-terminated */

struct kva_report_opts {
    const char *view; /* a name of kva_views; NULL: leaderboard */
    const char
        *only; /* key=glob[,key=glob]: model, method, task, budget, enforce; NULL: all */
    const char *reference; /* of the view "pairs": a specification, short name or glob;
                            * NULL: the full cache and the best method */
    uint64_t seed;         /* of bootstrap and sign flips; default 0 */
    int replicates;        /* 0: 10,000 */
    double alpha;          /* 0: 0.05 */
    bool color;            /* text only */
    int width;             /* text only; 0: 100 */
    bool details;          /* text only: the columns that few ask for, too */
    bool by_task;          /* retention, its table and figure, task by task as well */
    bool one_view; /* only what kva_report_text, _json, _csv or _markdown show of `view`
                    * is  computed: no page, no directory may be made of the report */
    bool brief;    /* of a paper's numbers only the measured ones: for people */
    bool require_figures; /* KVA_ETOOL when gnuplot is missing */
    int threads;          /* of the statistics; 0: as many as cores. Changes no number */
    const char *command;  /* for the footer; no paths of the machine */
};

struct kva_report; /* built tables and figure data */

enum kva_status kva_report_build(const struct kva_data *data,
                                 const struct kva_report_opts *opts,
                                 struct kva_report **r, struct kva_error *err);
void kva_report_free(struct kva_report *r);

enum kva_status kva_report_text(const struct kva_report *r, struct kva_buf *out,
                                struct kva_error *err);
enum kva_status kva_report_json(const struct kva_report *r, struct kva_buf *out,
                                struct kva_error *err);
enum kva_status kva_report_csv(const struct kva_report *r, struct kva_buf *out,
                               struct kva_error *err);
enum kva_status kva_report_markdown(const struct kva_report *r, struct kva_buf *out,
                                    struct kva_error *err);
enum kva_status kva_report_latex(const struct kva_report *r, struct kva_buf *out,
                                 struct kva_error *err);
/* figures_dir: where the SVGs to embed were written, NULL: none. */
enum kva_status kva_report_html(const struct kva_report *r, const char *figures_dir,
                                struct kva_buf *out, struct kva_error *err);
/* gnuplot sources, data and SVG/PNG of F1, F2, F4 into dir. KVA_ETOOL when gnuplot is
 * missing (sources and data are written all the same). Text on why a figure has no data
 * goes to the placeholder. */
enum kva_status kva_report_figures(const struct kva_report *r, const char *dir,
                                   struct kva_error *err);
/* index.html, figures/, tables/, report.json in a temporary directory beside `dir`,
 * synced, renamed. An existing dir is replaced only with force. A failure leaves the old
 * report intact. */
enum kva_status kva_report_write(const struct kva_report *r, const char *dir, bool force,
                                 struct kva_error *err);

/* ---- flat exports: stored rows, nothing computed but means of cells ---- */

/* what: "outcomes", "cells", "memory", "timing", "heads"; one JSON object a line, or CSV.
 * Keys and order: flat.c. KVA_EINVALID for another word, KVA_EMISSING when the database
 * holds nothing. Only `only` of the options is read. */
enum kva_status kva_report_flat(const struct kva_data *data,
                                const struct kva_report_opts *opts, const char *what,
                                bool csv, struct kva_buf *out, struct kva_error *err);
/* What viewers of lm-evaluation-harness read: per model, method and budget one directory
 * in `dir` with results_DATE.json and samples_TASK_DATE.jsonl. A directory that is there
 * already is an error without force; with it files of the same names are replaced. */
enum kva_status kva_report_lme(const struct kva_data *data, struct kva_db *const *dbs,
                               const struct kva_report_opts *opts, const char *dir,
                               bool force, struct kva_error *err);

/* ---- published beside measured ---- */

/* Writes the canonical form of a method's text under a schedule; false when it has none
 * (an unknown name, a file that is not there). Reports know no methods: who asks for the
 * table does. */
typedef bool (*kva_paper_canonical)(const char *method, const char *schedule,
                                    struct kva_buf *out);
struct kva_paper_result {
    int n, n_match, n_off, n_na, n_missing, n_outside; /* printed numbers, by flag */
};
/* A report of the known tables, of one of them ("S-CK/1"), and of what the published
 * numbers say about themselves. Data may be NULL: nothing measured. Renderers and
 * kva_report_write take them as any other. */
enum kva_status kva_paper_list(const struct kva_report_opts *opts, struct kva_report **r,
                               struct kva_error *err);
enum kva_status kva_paper_build(const struct kva_data *data,
                                const struct kva_report_opts *opts, const char *id,
                                kva_paper_canonical canonical,
                                struct kva_paper_result *result, struct kva_report **r,
                                struct kva_error *err);
/* *n_bad: figures that were not reproduced. */
enum kva_status kva_paper_selftest(const struct kva_report_opts *opts, int *n_bad,
                                   struct kva_report **r, struct kva_error *err);

/* ---- a machine with a GPU ---- */

struct kva_device_result {
    int n_met, n_missed, n_missing; /* targets of the first run on a device */
};
/* What tests/device/run.sh wrote ("kvaudit/device-1", n bytes of `name`): the targets,
 * the card, the parts, times with their share of its ceilings, memory given back. json
 * NULL: every figure is "not measured". KVA_EFORMAT with the place when the file is not
 * as the script writes it. */
enum kva_status kva_device_report(const char *json, size_t n, const char *name,
                                  const struct kva_report_opts *opts,
                                  struct kva_device_result *result, struct kva_report **r,
                                  struct kva_error *err);

#endif
