/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_report.c - `kvaudit report [VIEW]`: tables, exports and pages of what a database
 * holds. */
#include "runner/commands.h"

#include "db/db.h"
#include "reports/report.h"
#include "runner/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
    const char *format, *dir, *only, *sample;
    int force, require_figures;
} opt;

const struct kva_opt *kva_cmd_report_options(void)
{
    static const struct kva_opt table[] = {
        {"format", 'f', KVA_OPT_STR, &opt.format, "FORMAT",
         "text, json, csv, markdown or html to standard output (default text)", 0, 0},
        {"output", 'o', KVA_OPT_STR, &opt.dir, "DIR",
         "write index.html, figures, tables and report.json into DIR", 0, 0},
        {"force", 0, KVA_OPT_FLAG, &opt.force, NULL, "replace an existing DIR", 0, 0},
        {"only", 0, KVA_OPT_STR, &opt.only, "KEY=GLOB,...",
         "rows of these only; keys model, method, task, budget, enforce", 0, 0},
        {"require-figures", 0, KVA_OPT_FLAG, &opt.require_figures, NULL,
         "exit 6 when gnuplot is missing", 0, 0},
        {"sample", 0, KVA_OPT_STR, &opt.sample, "ID",
         "one prompt, its answers and what stayed: TASK#IDX or a digest", 0, 0},
        {0},
    };

    return table;
}

/* Opens every --db (or the default) for reading. */
static enum kva_status open_all(struct kva_db ***dbs, int *n, struct kva_error *err)
{
    int want = kva_common.db.n ? kva_common.db.n : 1;

    *dbs = kva_calloc((size_t)want, sizeof **dbs);
    if (!*dbs)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    for (*n = 0; *n < want; (*n)++)
        KVA_TRY(kva_db_open(kva_common.db.n ? kva_common.db.v[*n] : kva_db_default(),
                            KVA_DB_READ, &(*dbs)[*n], err));
    return KVA_OK;
}

static enum kva_status render(const struct kva_report *r, struct kva_buf *out,
                              struct kva_error *err)
{
    const char *f = kva_common.json ? "json" : opt.format ? opt.format : "text";

    if (strcmp(f, "text") == 0)
        return kva_report_text(r, out, err);
    if (strcmp(f, "json") == 0)
        return kva_report_json(r, out, err);
    if (strcmp(f, "csv") == 0)
        return kva_report_csv(r, out, err);
    if (strcmp(f, "markdown") == 0)
        return kva_report_markdown(r, out, err);
    return kva_report_html(r, NULL, out, err);
}

static enum kva_status emit(const struct kva_data *data, const char *view,
                            struct kva_error *err)
{
    struct kva_report_opts o = {
        .view = view, .only = opt.only, .require_figures = opt.require_figures != 0};
    bool html = opt.format && strcmp(opt.format, "html") == 0;
    struct winsize ws;
    struct kva_report *r = NULL;
    struct kva_buf out, command;
    const char *nc = getenv("NO_COLOR");
    enum kva_status rc;

    if (isatty(STDOUT_FILENO)) {
        o.color = !kva_common.no_color && !(nc && nc[0]);
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
            o.width = ws.ws_col;
    }
    kva_buf_init(&out, 0);
    /* for the footer: what was asked, not where the files lie */
    kva_buf_init(&command, 0);
    kva_buf_printf(&command, "kvaudit report %s", view);
    if (opt.only)
        kva_buf_printf(&command, " --only '%s'", opt.only);
    o.command = command.data;
    o.one_view = !opt.dir && !html;
    KVA_GO(kva_buf_status(&command, err));
    KVA_GO(kva_report_build(data, &o, &r, err));
    if (opt.dir) {
        KVA_GO(kva_report_write(r, opt.dir, opt.force != 0, err));
        if (!kva_common.quiet)
            fprintf(stderr, "kvaudit: wrote %s/index.html\n", opt.dir);
    }
    if (!opt.dir || opt.format || kva_common.json) {
        KVA_GO(render(r, &out, err));
        KVA_GO(kva_buf_status(&out, err));
        KVA_GO(kva_command_out(out.data ? out.data : "", out.len, err));
    }
out:
    kva_buf_release(&out);
    kva_buf_release(&command);
    kva_report_free(r);
    return rc;
}

int kva_cmd_report(int argc, char **argv)
{
    static const char *const formats[] = {"text",     "json", "csv",
                                          "markdown", "html", NULL};
    const char *views[KVA_MAX_VIEWS];
    struct kva_error err = {0};
    struct kva_data data;
    struct kva_db **dbs = NULL;
    const char *near;
    bool loaded = false;
    int n = 0, i;
    enum kva_status rc;

    if (argc > 1)
        return kva_command_usage("report", "one view at a time, not '%s'", argv[1]);
    kva_view_names(views);
    for (i = 0; argc && views[i] && strcmp(views[i], argv[0]) != 0; i++)
        ;
    if (argc && !views[i]) {
        near = kva_nearest(argv[0], views);
        return kva_command_usage("report", "unknown view '%s'%s%s%s", argv[0],
                                 near ? "; did you mean '" : "", near ? near : "",
                                 near ? "'?" : "");
    }
    for (i = 0; opt.format && formats[i] && strcmp(formats[i], opt.format) != 0; i++)
        ;
    if (opt.format && !formats[i]) {
        near = kva_nearest(opt.format, formats);
        return kva_command_usage("report", "unknown format '%s'%s%s%s", opt.format,
                                 near ? "; did you mean '" : "", near ? near : "",
                                 near ? "'?" : "");
    }
    KVA_GO(open_all(&dbs, &n, &err));
    KVA_GO(kva_data_load(dbs, n, &data, &err));
    loaded = true;
    if (opt.sample)
        rc = kva_cmd_report_sample(opt.sample, dbs, n, &data, &err);
    else
        rc = emit(&data, argc ? argv[0] : "leaderboard", &err);
out:
    if (loaded)
        kva_data_release(&data);
    for (i = 0; dbs && i <= n; i++)
        if (i < (kva_common.db.n ? kva_common.db.n : 1))
            kva_db_close(dbs[i]);
    free(dbs);
    return rc == KVA_OK ? 0 : kva_command_fail(&err);
}
