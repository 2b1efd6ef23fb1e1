/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_compare_gate.c - `kvaudit compare --gate FILE [A [B]]`: is the new run worse?
 *
 * A: a baseline's name or a selector (default: "base" of the file); B: a selector
 * (default: --db). reports/regress.h decides; here stand files and exit codes. */
#include "runner/nightly.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUMMARY_BYTES (1u << 20) /* the service's limit for a step */

/* ---- sides ---- */

static void keep_selected(struct kva_data *d, const struct kva_compare_side *s)
{
    int n = 0;

    for (int i = 0; i < d->n_outcomes; i++) {
        const struct kva_data_outcome *o = &d->outcomes[i];

        if (s->cell[o->cell] && (!s->run || s->run[o->run]))
            d->outcomes[n++] = *o;
    }
    d->n_outcomes = n;
    n = 0;
    for (int i = 0; i < d->n_perfs; i++) {
        const struct kva_data_perf *p = &d->perfs[i];

        if (s->cell[p->cell] && (!s->run || s->run[p->run]))
            d->perfs[n++] = *p;
    }
    d->n_perfs = n;
}

enum kva_status kva_night_load(const char *selector, struct kva_night *n,
                               struct kva_error *err)
{
    memset(n, 0, sizeof *n);
    KVA_TRY(kva_compare_load(selector, selector, &n->sides, err));
    n->data = &n->sides.data[0];
    keep_selected(n->data, &n->sides.side[0]);
    return KVA_OK;
}

void kva_night_release(struct kva_night *n)
{
    kva_compare_sides_release(&n->sides);
}

const char *kva_night_selector(struct kva_arena *a, const struct kva_gate_file *g,
                               const char *name)
{
    const struct kva_gate_baseline *b = kva_gate_file_find(g, name);
    char *s;

    if (!b)
        return name;
    s = kva_arena_printf(a, "db=%s", b->db);
    for (int i = 0; s && i < b->n_run; i++)
        s = kva_arena_printf(a, "%s,run=%s", s, b->run[i]);
    return s;
}

/* ---- options over the file ---- */

static enum kva_status apply_options(const struct kva_gate_args *a,
                                     struct kva_regress_opts *o, struct kva_error *err)
{
    double points;

    o->exact |= a->exact != 0;
    o->allow_removed |= a->allow_removed != 0;
    if (a->non_inferiority) {
        if (!kva_parse_f64(a->non_inferiority, &points) || !(points > 0) || points > 100)
            return KVA_FAIL(err, KVA_EINVALID,
                            "--non-inferiority %s: points above 0, at most 100",
                            a->non_inferiority);
        o->non_inferiority = points / 100;
    }
    o->only = a->cell;
    if (!a->gates)
        return KVA_OK;
    if (!a->gates[0]) /* a gate of nothing would hold */
        return KVA_FAIL(err, KVA_EINVALID, "--gates names no gate: score, time, memory");
    memset(o->gate, 0, sizeof o->gate);
    for (const char *s = a->gates; *s;) {
        size_t n = strcspn(s, ",");
        int g = 0;

        while (kva_regress_gate_names[g] &&
               (strlen(kva_regress_gate_names[g]) != n ||
                strncmp(kva_regress_gate_names[g], s, n) != 0))
            g++;
        if (!kva_regress_gate_names[g])
            return KVA_FAIL(err, KVA_EINVALID,
                            "--gates: '%.*s' is no gate: score, time, memory", (int)n, s);
        o->gate[g] = true;
        s += n;
        s += *s == ',';
    }
    return KVA_OK;
}

/* SOURCE_DATE_EPOCH stands for the clock, so that a verdict can be repeated. */
static int64_t now_ms(void)
{
    const char *v = getenv("SOURCE_DATE_EPOCH");
    int64_t s;

    return v && kva_parse_i64(v, &s) && s >= 0 && s < INT64_MAX / 1000 ? 1000 * s
                                                                       : kva_wall_ms();
}

/* ---- quarantine ---- */

static enum kva_status decide(struct kva_regress *r, struct kva_gate_file *g,
                              struct kva_error *err)
{
    struct kva_regress_quarantine *q = kva_calloc((size_t)g->n_entry + 1, sizeof *q);
    enum kva_status rc = KVA_OK;

    if (!q)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    for (int i = 0; i < g->n_entry; i++)
        q[i] = g->entry[i].q;
    KVA_GO(kva_regress_decide(r, q, g->n_entry, now_ms(), err));
    for (int i = 0; i < g->n_entry; i++) {
        const struct kva_gate_entry *e = &g->entry[i];

        if (q[i].refused) {
            rc = KVA_FAIL(err, KVA_EINVALID,
                          "%s: the %s gate of %s cannot be quarantined: its cells run on "
                          "the exact CPU backend",
                          e->at, kva_regress_gate_names[e->q.gate], e->q.cell);
            goto out;
        }
        if (q[i].expired)
            kva_log(KVA_LOG_WARN, "%s: expired on %s, gates again: %s (%s)", e->at,
                    e->expires, e->q.cell, e->q.owner);
        else if (!q[i].matched)
            kva_log(KVA_LOG_WARN, "%s: no cell is meant by %s", e->at, e->q.cell);
    }
out:
    free(q);
    return rc;
}

/* ---- output ---- */

static enum kva_status write_junit(const struct kva_regress *r, const char *path,
                                   struct kva_error *err)
{
    struct kva_buf b;
    enum kva_status rc;

    kva_buf_init(&b, 0);
    kva_regress_junit(r, &b);
    rc = kva_buf_status(&b, err);
    if (rc == KVA_OK)
        rc = kva_write_file(path, b.data, b.len, err);
    kva_buf_release(&b);
    return rc;
}

static enum kva_status write_github(const struct kva_regress *r, bool json,
                                    struct kva_error *err)
{
    const char *path = getenv("GITHUB_STEP_SUMMARY");
    struct stat st;
    struct kva_buf b;
    size_t there;
    FILE *f;
    enum kva_status rc;

    if (!path || !*path)
        return KVA_FAIL(err, KVA_EINVALID, "--github: GITHUB_STEP_SUMMARY is not set");
    there = stat(path, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
    kva_buf_init(&b, 0);
    kva_regress_github(r, there < SUMMARY_BYTES ? SUMMARY_BYTES - there : 0, &b);
    KVA_GO(kva_buf_status(&b, err));
    f = fopen(path, "a");
    if (!f || (b.len && fwrite(b.data, 1, b.len, f) != b.len)) {
        if (f)
            (void)fclose(f);
        rc = KVA_FAIL(err, KVA_EIO, "cannot write %s", path);
        goto out;
    }
    if (fclose(f) != 0) {
        rc = KVA_FAIL(err, KVA_EIO, "cannot write %s", path);
        goto out;
    }
    b.len = 0;
    kva_regress_annotations(r, &b);
    KVA_GO(kva_buf_status(&b, err));
    /* the service reads both streams; JSON stays alone on the first */
    if (b.len && json)
        fputs(b.data, stderr);
    else if (b.len)
        rc = kva_command_out(b.data, b.len, err);
out:
    kva_buf_release(&b);
    return rc;
}

static bool wants_json(const struct kva_compare_args *args)
{
    return kva_common.json || (args->format && strcmp(args->format, "json") == 0);
}

static enum kva_status print(const struct kva_regress *r, const struct kva_buf *more,
                             json_t *bisect, const struct kva_compare_args *args,
                             struct kva_error *err)
{
    struct kva_buf b;
    enum kva_status rc;

    kva_buf_init(&b, 0);
    if (wants_json(args)) {
        json_t *o = kva_regress_json(r);
        char *text;

        if (o && bisect)
            (void)json_object_set(o, "bisect", bisect);
        text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
        json_decref(o);
        kva_buf_puts(&b, text ? text : "");
        b.failed |= !text;
        free(text);
        kva_buf_putc(&b, '\n');
    } else {
        kva_regress_text(r, kva_common.verbose != 0, &b);
        kva_buf_puts(&b, more->data ? more->data : "");
    }
    rc = kva_buf_status(&b, err);
    if (rc == KVA_OK)
        rc = kva_command_out(b.data, b.len, err);
    kva_buf_release(&b);
    return rc;
}

/* ---- pinning ---- */

static enum kva_status pin(struct kva_gate_file *g, const char *name,
                           const struct kva_night *n, struct kva_error *err)
{
    const struct kva_data *d = n->data;
    const char *db = NULL, *commit;
    const char **run = kva_arena_alloc(&g->arena, (size_t)d->n_runs + 1, sizeof *run);
    bool *used = kva_arena_alloc(&g->arena, (size_t)d->n_runs + 1, sizeof *used);
    int k = 0;

    if (!run || !used)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    for (int i = 0; i < n->sides.select[0].n; i++)
        if (n->sides.select[0].term[i].key == KVA_SELECT_DB) {
            if (db)
                return KVA_FAIL(err, KVA_EINVALID,
                                "--pin: one database is pinned; merge them first");
            db = n->sides.select[0].term[i].value;
        }
    if (!db && kva_common.db.n > 1)
        return KVA_FAIL(err, KVA_EINVALID,
                        "--pin: one database is pinned; merge them first");
    for (int o = 0; o < d->n_outcomes; o++)
        used[d->outcomes[o].run] = true;
    for (int i = 0; i < d->n_runs; i++)
        if (used[i])
            run[k++] = d->runs[i].uuid;
    if (k == 0)
        return KVA_FAIL(err, KVA_EMISSING, "--pin: nothing was measured");
    (void)kva_data_when(d, &commit);
    KVA_TRY(kva_gate_file_pin(g, name, db ? db : kva_db_default(), run, k,
                              commit[0] ? commit : NULL, err));
    if (!kva_common.quiet)
        fprintf(stderr, "kvaudit: %s: baseline %s is now commit %s\n", g->path, name,
                commit[0] ? commit : "unknown");
    return KVA_OK;
}

/* ---- the night ---- */

struct night {
    const struct kva_compare_args *args;
    struct kva_gate_file file;
    struct kva_night now, base, anchor;
    struct kva_regress r;
    struct kva_past past;
    bool has_past;
};

static enum kva_status compare_all(struct night *x, const char *base_name,
                                   struct kva_error *err)
{
    struct kva_gate_file *g = &x->file;
    const struct kva_gate_args *a = &x->args->night;
    const char *sel = kva_night_selector(&g->arena, g, base_name);
    bool anchor = g->anchor && strcmp(g->anchor, base_name) != 0 && !x->args->a;

    if (!sel)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    KVA_TRY(kva_night_load(sel, &x->base, err));
    KVA_TRY(kva_regress_add(&x->r, x->base.data, x->now.data, base_name, 1, err));
    if (anchor) {
        sel = kva_night_selector(&g->arena, g, g->anchor);
        if (!sel)
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        KVA_TRY(kva_night_load(sel, &x->anchor, err));
        KVA_TRY(kva_regress_add(&x->r, x->anchor.data, x->now.data, g->anchor, 2, err));
    }
    for (int i = 0; i < a->confirm.n; i++) {
        struct kva_night again;
        enum kva_status rc;

        sel = kva_arena_printf(&g->arena, "db=%s", a->confirm.v[i]);
        if (!sel)
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        rc = kva_night_load(sel, &again, err);
        if (rc == KVA_OK)
            rc = kva_regress_confirm(&x->r, x->base.data, again.data, base_name, 1, err);
        if (rc == KVA_OK && anchor)
            rc =
                kva_regress_confirm(&x->r, x->anchor.data, again.data, g->anchor, 2, err);
        kva_night_release(&again);
        KVA_TRY(rc);
    }
    return decide(&x->r, g, err);
}

static enum kva_status tell(struct night *x, struct kva_error *err)
{
    const struct kva_gate_args *a = &x->args->night;
    struct kva_hints h = {.gate_path = x->args->gate,
                          .repo = a->repo,
                          .file = &x->file,
                          .past = x->has_past ? &x->past : NULL};
    struct kva_error figure = {0};
    struct kva_buf more;
    json_t *bisect = NULL;
    enum kva_status rc;

    kva_buf_init(&more, 0);
    (void)kva_data_when(x->base.data, &h.base_commit);
    (void)kva_data_when(x->now.data, &h.now_commit);
    KVA_GO(kva_hints_make(&x->r, &h, &more, &bisect, err));
    KVA_GO(kva_hints_again(&x->r, x->now.data, &x->file, x->args, &more, err));
    if (a->suggest && x->has_past)
        KVA_GO(kva_hints_quarantine(&x->r, &h, &more, err));
    KVA_GO(print(&x->r, &more, bisect, x->args, err));
    if (a->junit)
        KVA_GO(write_junit(&x->r, a->junit, err));
    if (a->github)
        KVA_GO(write_github(&x->r, wants_json(x->args), err));
    if (a->figures && x->has_past) {
        rc = kva_history_write(&x->past.history, a->figures, &figure);
        if (rc == KVA_ETOOL) { /* data and source are there */
            kva_log(KVA_LOG_WARN, "%s", figure.text);
            rc = KVA_OK;
        } else if (rc != KVA_OK)
            rc = KVA_FAIL(err, rc, "%s", figure.text);
    }
out:
    kva_buf_release(&more);
    json_decref(bisect);
    return rc;
}

/* Exit code of the verdict, or of what went wrong. */
static int night(struct night *x, struct kva_error *err)
{
    const struct kva_compare_args *args = x->args;
    const struct kva_gate_args *a = &args->night;
    struct kva_gate_file *g = &x->file;
    const char *base = args->a ? args->a : g->base;
    bool first = base && !args->a && !kva_gate_file_find(g, base);
    enum kva_status rc;
    int code = 0;

    if (!base)
        return kva_command_usage("compare", "%s names no \"base\"; give A", g->path);
    if (first && !a->pin)
        return kva_command_usage("compare",
                                 "%s has no baseline '%s' yet; --pin %s makes one",
                                 g->path, base, base);
    KVA_GO(kva_night_load(args->b, &x->now, err));
    if (first) {
        fprintf(stderr, "kvaudit: no baseline '%s' yet: nothing to compare with\n", base);
        KVA_GO(pin(g, a->pin, &x->now, err));
        return 0;
    }
    KVA_GO(compare_all(x, base, err));
    if (a->history.n) {
        x->has_past = true;
        KVA_GO(kva_past_load(a->history.v, a->history.n, x->base.data, &x->r, x->now.data,
                             &x->past, err));
    }
    KVA_GO(tell(x, err));
    code = kva_regress_exit(&x->r);
    if (a->pin && (code == 0 || a->force))
        KVA_GO(pin(g, a->pin, &x->now, err));
    else if (a->pin)
        fprintf(stderr, "kvaudit: baseline %s stays as it is\n", a->pin);
out:
    return rc == KVA_OK ? code : kva_command_fail(err);
}

int kva_cmd_compare_gate(const struct kva_compare_args *args)
{
    const struct kva_gate_args *a = &args->night;
    struct kva_error err = {0};
    struct kva_buf report;
    struct night x;
    int code;

    memset(&x, 0, sizeof x);
    x.args = args;
    kva_buf_init(&report, 0);
    if (args->format && strcmp(args->format, "text") != 0 &&
        strcmp(args->format, "json") != 0)
        return kva_command_usage("compare", "--gate prints text or json, not %s",
                                 args->format);
    if (args->match || args->ties || args->epsilon || args->alpha || args->metric ||
        args->missing)
        return kva_command_usage(
            "compare", "--gate judges by its file: --match, --ties, --epsilon, --alpha, "
                       "--metric and --missing do not go with it");
    if (kva_gate_file_load(args->gate, &x.file, &report, &err) != KVA_OK ||
        apply_options(a, &x.file.opts, &err) != KVA_OK) {
        fputs(report.data ? report.data : "", stderr);
        code = kva_command_fail(&err);
        code = a->bisect ? 128 : code;
        goto out;
    }
    if (a->bisect) {
        code = kva_bisect_step(&x.file, a->bisect, args->a, a->repo);
        goto out;
    }
    kva_regress_init(&x.r, &x.file.opts);
    code = night(&x, &err);
out:
    kva_buf_release(&report);
    kva_past_release(&x.past);
    kva_regress_release(&x.r);
    kva_night_release(&x.now);
    kva_night_release(&x.base);
    kva_night_release(&x.anchor);
    kva_gate_file_release(&x.file);
    return code;
}
