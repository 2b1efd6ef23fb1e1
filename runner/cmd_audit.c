/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_audit.c - `kvaudit audit SUITE`: measure the arms, probe, judge, show the grid. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "reports/report.h"
#include "runner/audit.h"
#include "runner/commands.h"
#include "runner/sweep_args.h"

static struct {
    int dry_run, exact, probes;
} opt = {.probes = -1};

const struct kva_opt *kva_cmd_audit_options(void)
{
    static const struct kva_opt table[] = {
        {"dry-run", 'n', KVA_OPT_FLAG, &opt.dry_run, NULL,
         "print the plan with all arms; run nothing", 0, 0},
        {"exact", 0, KVA_OPT_FLAG, &opt.exact, NULL,
         "probe in numerics ref: every logit of masked and physical twins, bit by bit", 0,
         0},
        {"probes", 0, KVA_OPT_INT, &opt.probes, "N",
         "samples a task whose logits and kept sets are probed (default 2, with --exact "
         "1; 0: none)",
         0, 1000},
        KVA_SWEEP_CELLS,
        KVA_SWEEP_MEANS,
        {0}};

    return table;
}

/* ---- suite, arms, plan ---- */

static enum kva_status load(const char *path, struct kva_suite *s, struct kva_error *err)
{
    int audited = 0;
    enum kva_status rc = kva_sweep_suite(path, s, err);

    if (rc == KVA_OK)
        rc = kva_audit_arms(s, &audited, err);
    if (rc == KVA_OK && audited == 0)
        rc = KVA_FAIL(err, KVA_EINVALID,
                      "%s: nothing to audit: no method under enforcement physical", path);
    return rc;
}

static enum kva_status probe(const char *path, const struct kva_sweep_opts *o,
                             struct kva_probes *p, struct kva_error *err)
{
    int n = opt.probes >= 0 ? opt.probes : opt.exact ? 1 : 2;

    if (n == 0)
        return KVA_OK;
    p->exact = opt.exact != 0;
    KVA_TRY(load(path, &p->suite, err));
    p->suite.backend = kva_sweep_args.backend;
    kva_audit_probes(&p->suite, n, p->exact);
    KVA_TRY(kva_plan_new(&p->suite, NULL, o->threads > o->jobs ? o->threads : o->jobs,
                         &p->plan, err));
    if (!kva_common.quiet)
        fprintf(stderr, "kvaudit: probing %d cells on %d contexts\n", p->plan.n_cells,
                p->plan.n_units);
    return kva_probes_run(p, &kva_interrupted, err);
}

/* ---- what was found ---- */

static json_t *real(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

static json_t *claims_json(const struct kva_audit_row *r)
{
    json_t *o = json_object();

    for (int k = 0; k < KVA_CLAIMS; k++) {
        const struct kva_claim_result *c = &r->claim[k];

        json_object_set_new(o, kva_claim_ids[k],
                            json_pack("{s:s, s:s, s:s?, s:o, s:o, s:o, s:o, s:s%}",
                                      "claim", kva_claim_names[k], "verdict",
                                      kva_finding_text(c->verdict), "reason", c->reason,
                                      "value", real(c->value), "threshold",
                                      real(c->threshold), "lo", real(c->lo), "hi",
                                      real(c->hi), "note", c->note, strlen(c->note)));
    }
    return o;
}

static json_t *facts_json(const struct kva_audit_row *r)
{
    json_t *o = json_object();

    for (int k = 0; k < r->n_fact; k++)
        json_object_set_new(o, r->fact[k].name,
                            json_pack("{s:o, s:o, s:o}", "value", real(r->fact[k].value),
                                      "lo", real(r->fact[k].lo), "hi",
                                      real(r->fact[k].hi)));
    return o;
}

static enum kva_status print_json(const struct kva_audit *a, const struct kva_plan *p,
                                  int code, struct kva_error *err)
{
    json_t *rows = json_array(), *o;
    char *text;
    enum kva_status rc;

    for (int i = 0; i < a->n_row; i++) {
        const struct kva_audit_row *r = &a->row[i];
        const struct kva_cell *c = &p->cells[r->cell];
        char budget[32], schedule[48];

        kva_budget_text(&c->budget, budget);
        kva_schedule_text(&c->schedule, schedule);
        json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "model",
                      p->models[c->model].suite->id, "method", c->method.spec, "id",
                      c->method_id, "budget", budget, "schedule", schedule, "visibility",
                      kva_visibility_name(c->visibility), "enforce",
                      kva_arm_enforce(r->arm), "verdict", kva_finding_text(r->headline),
                      "claims", claims_json(r), "facts", facts_json(r)));
    }
    o = json_pack("{s:s, s:i, s:i, s:i, s:o}", "schema", "kvaudit.audit/1", "refuted",
                  a->refuted, "undecided", a->undecided, "exit", code, "rows", rows);
    text = o != NULL ? json_dumps(o, JSON_INDENT(1)) : NULL;
    rc = text == NULL ? KVA_FAIL(err, KVA_ENOMEM, "the audit as JSON")
                      : kva_command_out(text, strlen(text), err);
    if (rc == KVA_OK)
        rc = kva_command_out("\n", 1, err);
    free(text);
    json_decref(o);
    return rc;
}

static enum kva_status print_text(const struct kva_data *data, struct kva_error *err)
{
    struct kva_report_opts o = {
        .view = "audit", .one_view = true, .command = "kvaudit report audit"};
    struct kva_report *r = NULL;
    struct winsize ws;
    const char *nc = getenv("NO_COLOR");
    struct kva_buf out;
    enum kva_status rc;

    if (isatty(STDOUT_FILENO)) {
        o.color = !kva_common.no_color && !(nc && nc[0]);
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
            o.width = ws.ws_col;
    }
    kva_buf_init(&out, 0);
    KVA_GO(kva_report_build(data, &o, &r, err));
    KVA_GO(kva_report_text(r, &out, err));
    KVA_GO(kva_buf_status(&out, err));
    KVA_GO(kva_command_out(out.data != NULL ? out.data : "", out.len, err));
out:
    kva_buf_release(&out);
    kva_report_free(r);
    return rc;
}

/* The exit codes of ruling R21, of several the first of 2, 3, 4, 1, 5. */
static int exit_of(int sweep, const struct kva_audit *a)
{
    if (sweep != 0 && sweep != 1 && sweep != 5)
        return sweep;
    return sweep == 1 || a->refuted > 0 ? 1 : sweep == 5 || a->undecided > 0 ? 5 : 0;
}

static enum kva_status judge(struct kva_plan *plan, struct kva_db *db,
                             const struct kva_probes *probes,
                             const struct kva_sweep_opts *o, int *code,
                             struct kva_error *err)
{
    struct kva_data data = {0};
    struct kva_audit a = {0};
    struct kva_db *dbs[] = {db};
    int64_t run = 0;
    enum kva_status rc = KVA_OK;

    KVA_GO(kva_data_load(dbs, 1, &data, err));
    KVA_GO(kva_audit_judge(plan, &data, probes->cell != NULL ? probes : NULL, &a, err));
    *code = exit_of(*code, &a);
    KVA_GO(kva_sweep_start(db, plan, o, &run, err));
    KVA_GO(kva_plan_write(plan, db, run, err));
    KVA_GO(kva_audit_store(&a, plan, probes, db, run, err));
    KVA_GO(kva_db_end_run(db, run, "done", *code, err));
    kva_data_release(&data);
    KVA_GO(kva_data_load(dbs, 1, &data, err));
    if (kva_common.json)
        KVA_GO(print_json(&a, plan, *code, err));
    else
        KVA_GO(print_text(&data, err));
    fflush(stdout); /* the verdict comes after its tables */
    if (!kva_common.quiet)
        fprintf(stderr,
                "kvaudit: %d of the methods held here are refuted, %d claims "
                "undecided\n",
                a.refuted, a.undecided);
out:
    kva_audit_release(&a);
    kva_data_release(&data);
    return rc;
}

int kva_cmd_audit(int argc, char **argv)
{
    struct kva_suite suite = {0};
    struct kva_plan plan = {0};
    struct kva_probes probes = {0};
    struct kva_db *db = NULL;
    struct kva_error err = {0};
    static const char *const not_repeated[] = {"progress", NULL};
    struct kva_sweep_opts o = kva_sweep_means("audit", argv[0]);
    struct kva_buf words;
    enum kva_status rc = KVA_OK;
    bool fresh = access(kva_db_default(), F_OK) != 0;
    int code = 0;

    if (argc != 1)
        return kva_command_usage("audit", "one suite file is expected");
    kva_buf_init(&words, 0);
    kva_options_words(kva_cmd_audit_options(), not_repeated, &words);
    o.words = words.data;
    o.keep_going = true; /* a score at the floor does not make bytes unknown */
    kva_command_signals();
    KVA_GO(load(argv[0], &suite, &err));
    KVA_GO(kva_sweep_backend(kva_sweep_args.backend, &suite, &o, &err));
    if (!opt.dry_run || !fresh)
        KVA_GO(kva_db_open(kva_db_default(), opt.dry_run ? KVA_DB_READ : KVA_DB_WRITE,
                           &db, &err));
    KVA_GO(kva_plan_new(&suite, db, o.threads, &plan, &err));
    if (opt.dry_run) {
        KVA_GO(kva_sweep_show(&plan, db, o.threads, false, &err));
        goto out;
    }
    code = kva_sweep(&plan, db, &o);
    if (code != 0 && code != 1 && code != 4 && code != 5)
        goto out; /* interrupted, or it could not */
    KVA_GO(probe(argv[0], &o, &probes, &err));
    KVA_GO(judge(&plan, db, &probes, &o, &code, &err));
    KVA_GO(kva_db_checkpoint(db, &err));
out:
    if (rc != KVA_OK)
        code = kva_command_fail(&err);
    kva_buf_release(&words);
    kva_probes_release(&probes);
    kva_plan_release(&plan);
    kva_suite_release(&suite);
    if (rc != KVA_OK)
        kva_db_drop_unused(db);
    else
        kva_db_close(db);
    return code;
}
