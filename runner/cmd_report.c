/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_report.c - `kvaudit report [VIEW]`: tables, exports and pages of what a database
 * holds. */
#include "runner/commands.h"

#include "db/db.h"
#include "methods/method.h"
#include "reports/report.h"
#include "runner/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
    const char *format, *dir, *only, *sample, *paper, *what, *reference, *by, *device;
    int force, require_figures, strict, selftest;
} opt;

const struct kva_opt *kva_cmd_report_options(void)
{
    static const struct kva_opt table[] = {
        {"format", 'f', KVA_OPT_STR, &opt.format, "FORMAT",
         "text, json, csv, markdown, latex or html to standard output (default text); "
         "jsonl or csv with --what; lme with -o: files for viewers of "
         "lm-evaluation-harness",
         0, 0},
        {"output", 'o', KVA_OPT_STR, &opt.dir, "DIR",
         "write index.html, figures, tables and report.json into DIR; with --what the "
         "rows into that file",
         0, 0},
        {"force", 0, KVA_OPT_FLAG, &opt.force, NULL,
         "with --output: replace an existing DIR", 0, 0},
        {"only", 0, KVA_OPT_STR, &opt.only, "KEY=GLOB,...",
         "rows of these only; keys model, method, task, budget, enforce", 0, 0},
        {"by", 0, KVA_OPT_STR, &opt.by, "task",
         "retention, its table and figure, task by task as well", 0, 0},
        {"reference", 0, KVA_OPT_STR, &opt.reference, "METHOD",
         "of the view pairs: against whom (default the full cache and the best method)",
         0, 0},
        {"require-figures", 0, KVA_OPT_FLAG, &opt.require_figures, NULL,
         "exit 6 when gnuplot is missing", 0, 0},
        {"sample", 0, KVA_OPT_STR, &opt.sample, "ID",
         "one prompt, its answers and what stayed: TASK#IDX or a digest", 0, 0},
        {"what", 0, KVA_OPT_STR, &opt.what, "ROWS",
         "stored rows instead of tables: outcomes, cells, memory, timing or heads (-f "
         "jsonl, or csv)",
         0, 0},
        {"paper", 0, KVA_OPT_WORD, &opt.paper, "[ID]",
         "a published table, what was measured, and the difference; without ID the list",
         0, 0},
        {"device", 0, KVA_OPT_WORD, &opt.device, "[FILE]",
         "what tests/device/run.sh measured (its device.json); without FILE what it "
         "would",
         0, 0},
        {"strict", 0, KVA_OPT_FLAG, &opt.strict, NULL,
         "with --paper or --device: exit 1 when a number is off or not measured", 0, 0},
        {"selftest", 0, KVA_OPT_FLAG, &opt.selftest, NULL,
         "with --paper: compute the printed averages again from the printed numbers", 0,
         0},
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
    if (strcmp(f, "latex") == 0)
        return kva_report_latex(r, out, err);
    return kva_report_html(r, NULL, out, err);
}

/* To standard output, into a directory, or both. */
static enum kva_status deliver(const struct kva_report *r, struct kva_error *err)
{
    struct kva_buf out;
    enum kva_status rc = KVA_OK;

    kva_buf_init(&out, 0);
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
    return rc;
}

static struct kva_report_opts basic_options(void)
{
    struct kva_report_opts o = {.only = opt.only,
                                .reference = opt.reference,
                                .require_figures = opt.require_figures != 0,
                                .by_task = opt.by != NULL,
                                .details = kva_common.verbose != 0};
    struct winsize ws;
    const char *nc = getenv("NO_COLOR");

    if (isatty(STDOUT_FILENO)) {
        o.color = !kva_common.no_color && !(nc && nc[0]);
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
            o.width = ws.ws_col;
    }
    return o;
}

static enum kva_status emit(const struct kva_data *data, const char *view,
                            struct kva_error *err)
{
    struct kva_report_opts o = basic_options();
    bool html = opt.format && strcmp(opt.format, "html") == 0;
    struct kva_report *r = NULL;
    struct kva_buf command;
    enum kva_status rc;

    /* for the footer: what was asked, not where the files lie */
    kva_buf_init(&command, 0);
    kva_buf_printf(&command, "kvaudit report %s", view);
    if (opt.only)
        kva_buf_printf(&command, " --only '%s'", opt.only);
    if (opt.reference)
        kva_buf_printf(&command, " --reference '%s'", opt.reference);
    if (opt.by)
        kva_buf_puts(&command, " --by task");
    o.view = view;
    o.command = command.data;
    o.one_view = !opt.dir && !html;
    KVA_GO(kva_buf_status(&command, err));
    KVA_GO(kva_report_build(data, &o, &r, err));
    rc = deliver(r, err);
out:
    kva_buf_release(&command);
    kva_report_free(r);
    return rc;
}

/* ---- --paper ---- */

static bool canonical(const char *method, const char *schedule, struct kva_buf *out)
{
    struct kva_method *m = kva_calloc(1, sizeof *m);
    struct kva_schedule s;
    bool ok = m && kva_schedule_parse(schedule, &s, NULL) == KVA_OK &&
              kva_method_parse(method, &s, m, NULL) == KVA_OK;

    if (ok) {
        kva_buf_puts(out, m->spec);
        kva_method_release(m);
    }
    free(m);
    return ok;
}

/* data NULL: nothing was measured. */
static enum kva_status paper(const struct kva_data *data, struct kva_error *err)
{
    struct kva_report_opts o = basic_options();
    const char *f = kva_common.json ? "json" : opt.format ? opt.format : "text";
    struct kva_paper_result res = {0};
    struct kva_report *r = NULL;
    int n_bad = 0;
    enum kva_status rc;

    o.brief = !opt.dir && strcmp(f, "json") != 0 && strcmp(f, "csv") != 0;
    if (opt.selftest)
        rc = kva_paper_selftest(&o, &n_bad, &r, err);
    else if (!opt.paper || !opt.paper[0] || strcmp(opt.paper, "list") == 0)
        rc = kva_paper_list(&o, &r, err);
    else
        rc = kva_paper_build(data, &o, opt.paper, canonical, &res, &r, err);
    if (rc == KVA_OK)
        rc = deliver(r, err);
    kva_report_free(r);
    if (rc == KVA_OK && n_bad)
        rc = KVA_FAIL(err, KVA_ENO, "%d figures were not reproduced", n_bad);
    if (rc == KVA_OK && opt.strict && (res.n_off || res.n_na || res.n_missing))
        rc = KVA_FAIL(err, KVA_ENO,
                      "%s: %d numbers are off, %d not comparable, %d not measured",
                      opt.paper, res.n_off, res.n_na, res.n_missing);
    return rc;
}

/* ---- --device ---- */

static enum kva_status device(struct kva_error *err)
{
    struct kva_report_opts o = basic_options();
    struct kva_device_result res = {0};
    struct kva_report *r = NULL;
    struct kva_buf text;
    bool given = opt.device[0] != 0;
    enum kva_status rc = KVA_OK;

    kva_buf_init(&text, 0);
    if (given)
        KVA_GO(kva_read_file(opt.device, 64 << 20, &text, err));
    KVA_GO(kva_device_report(given ? (text.data ? text.data : "") : NULL, text.len,
                             opt.device, &o, &res, &r, err));
    KVA_GO(deliver(r, err));
    if (opt.strict && (res.n_missed || res.n_missing))
        rc = KVA_FAIL(err, KVA_ENO, "%d targets are missed, %d not measured, %d met",
                      res.n_missed, res.n_missing, res.n_met);
out:
    kva_report_free(r);
    kva_buf_release(&text);
    return rc;
}

/* ---- --what and lme ---- */

static enum kva_status flat(const struct kva_data *data, struct kva_error *err)
{
    struct kva_report_opts o = basic_options();
    struct kva_buf out;
    enum kva_status rc;

    kva_buf_init(&out, (size_t)16 << 30);
    rc = kva_report_flat(data, &o, opt.what ? opt.what : "outcomes",
                         opt.format && strcmp(opt.format, "csv") == 0, &out, err);
    if (rc == KVA_OK && opt.dir)
        rc = kva_write_file(opt.dir, out.data ? out.data : "", out.len, err);
    else if (rc == KVA_OK)
        rc = kva_command_out(out.data ? out.data : "", out.len, err);
    kva_buf_release(&out);
    return rc;
}

static bool format_is(const char *name)
{
    return opt.format && strcmp(opt.format, name) == 0;
}

/* Options that do not go together: the exit code, 0 when all is well. */
static int misused(int argc, char **argv)
{
    static const char *const formats[] = {"text", "json", "csv",   "markdown", "latex",
                                          "html", "lme",  "jsonl", NULL};
    bool jsonl = format_is("jsonl"), is_paper = opt.paper || opt.selftest;
    const char *near;
    int i = 0;

    if (argc > 1)
        return kva_command_usage("report", "one view at a time, not '%s'", argv[1]);
    while (opt.format && formats[i] && strcmp(formats[i], opt.format) != 0)
        i++;
    if (opt.format && !formats[i]) {
        near = kva_nearest(opt.format, formats);
        if (near)
            return kva_command_usage("report", "unknown format '%s'; did you mean '%s'?",
                                     opt.format, near);
        return kva_command_usage("report",
                                 "unknown format '%s'; text, json, csv, markdown, "
                                 "latex, html, jsonl or lme",
                                 opt.format);
    }
    if (opt.by && strcmp(opt.by, "task") != 0)
        return kva_command_usage("report", "--by task, not '%s'", opt.by);
    if (format_is("lme") && (!opt.dir || is_paper || opt.what))
        return kva_command_usage("report", "-f lme writes a directory of files: -o DIR");
    if (opt.what && opt.format && !jsonl && !format_is("csv"))
        return kva_command_usage("report", "--what is written as jsonl or csv, not %s",
                                 opt.format);
    if (opt.what && kva_common.json)
        return kva_command_usage("report", "--what is many objects: -f jsonl");
    if ((opt.what || jsonl) && (is_paper || opt.sample))
        return kva_command_usage("report", "--what shows stored rows, not %s",
                                 is_paper ? "--paper" : "--sample");
    if (opt.device && (is_paper || opt.what || opt.sample || argc || jsonl ||
                       format_is("lme") || opt.only || opt.by || opt.reference))
        return kva_command_usage("report", "--device shows one file, and nothing else");
    if ((argc || opt.sample) && (opt.what || is_paper))
        return kva_command_usage("report", "%s is no view",
                                 opt.what ? "--what" : "--paper");
    if (opt.strict && opt.paper && (opt.selftest || !opt.paper[0]))
        return kva_command_usage("report", "--strict wants a table: --paper ID --strict");
    return 0;
}

static int view_misused(const char *view)
{
    const char *views[KVA_MAX_VIEWS], *near;

    kva_view_names(views);
    for (int i = 0; views[i]; i++)
        if (strcmp(views[i], view) == 0)
            return 0;
    near = kva_nearest(view, views);
    if (near)
        return kva_command_usage("report", "unknown view '%s'; did you mean '%s'?", view,
                                 near);
    return kva_command_usage("report",
                             "unknown view '%s'; 'kvaudit list views' names them", view);
}

/* A published table is worth showing without any result; a database that was named must
 * be there. */
static bool nothing_to_open(void)
{
    const char *env = getenv("KVAUDIT_DB");

    if (opt.selftest || (opt.paper && !opt.paper[0]))
        return true;
    return opt.paper && !kva_common.db.n && !(env && env[0]) &&
           access(kva_db_default(), F_OK) != 0;
}

static enum kva_status show(const struct kva_data *data, struct kva_db **dbs, int n,
                            const char *view, struct kva_error *err)
{
    struct kva_report_opts o = basic_options();

    if (opt.sample)
        return kva_cmd_report_sample(opt.sample, dbs, n, data, err);
    if (opt.paper)
        return paper(data, err);
    if (opt.what || format_is("jsonl"))
        return flat(data, err);
    if (format_is("lme"))
        return kva_report_lme(data, dbs, &o, opt.dir, opt.force != 0, err);
    return emit(data, view, err);
}

int kva_cmd_report(int argc, char **argv)
{
    struct kva_error err = {0};
    struct kva_data data;
    struct kva_db **dbs = NULL;
    bool loaded = false;
    int n = 0, bad = misused(argc, argv);
    enum kva_status rc;

    if (!bad && argc)
        bad = view_misused(argv[0]);
    if (bad)
        return bad;
    if (opt.device || nothing_to_open()) {
        rc = opt.device ? device(&err) : paper(NULL, &err);
        return rc == KVA_OK ? 0 : kva_command_fail(&err);
    }
    KVA_GO(open_all(&dbs, &n, &err));
    KVA_GO(kva_data_load(dbs, n, &data, &err));
    loaded = true;
    rc = show(&data, dbs, n, argc ? argv[0] : "leaderboard", &err);
out:
    if (loaded)
        kva_data_release(&data);
    for (int i = 0; dbs && i <= n; i++)
        if (i < (kva_common.db.n ? kva_common.db.n : 1))
            kva_db_close(dbs[i]);
    free(dbs);
    return rc == KVA_OK ? 0 : kva_command_fail(&err);
}
