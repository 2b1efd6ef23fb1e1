/* SPDX-License-Identifier: GPL-3.0-or-later */
/* regress_out.c - the verdicts of a night as text, JSON (kvaudit.gate/1), JUnit XML and
 * for GitHub (reports.md 7.7). Rows come sorted, worst first. */
#include "reports/internal.h"
#include "reports/regress.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ANNOTATIONS 10 /* of each kind and step that the service shows */

static const char *const WORD[] = {"FAIL",    "MISSING", "INCOMPARABLE", "QUARANTINED",
                                   "warning", "better",  "pass"};

static int total(const struct kva_regress *r, enum kva_regress_verdict v)
{
    int n = 0;

    for (int g = 0; g < KVA_REGRESS_GATES; g++)
        n += r->count[g][v];
    return n;
}

static const char *outcome_word(const struct kva_regress *r)
{
    int code = kva_regress_exit(r);

    return code == 0 ? "pass" : code == 1 ? "fail" : "undecided";
}

/* "model/... (suite) against NAME" */
static void name_row(const struct kva_regress_row *row, struct kva_buf *out)
{
    kva_buf_puts(out, row->slug);
    if (strcmp(row->what, "task") != 0 && strcmp(row->what, "bytes") != 0)
        kva_buf_printf(out, " (%s)", row->what);
    kva_buf_printf(out, " against %s", row->against);
}

/* ---- text ---- */

/* What a cell of the fewest contexts can show, in a sentence. */
static void sight(const struct kva_regress *r, struct kva_buf *out)
{
    int n = 0;
    const char *what = "samples";
    double mde;

    for (int i = 0; i < r->n_row; i++) {
        const struct kva_regress_row *x = &r->row[i];

        if (strcmp(x->what, "task") == 0 && !isnan(x->p) && (n == 0 || x->units < n)) {
            n = x->units;
            what = x->units < x->n ? "contexts" : "samples";
        }
    }
    if (n == 0 || r->n_comparisons == 0)
        return;
    mde = kva_regress_mde(n, 0.1, r->opts.alpha, r->n_comparisons);
    kva_buf_printf(out, "With %d %s of which 10 %% differ ", n, what);
    if (isnan(mde))
        kva_buf_puts(out, "no drop of a single task is");
    else
        kva_buf_printf(out, "a drop of %.1f points of a single task is", 100 * mde);
    kva_buf_printf(out, " found with probability 0.8 among %d comparisons.\n",
                   r->n_comparisons);
}

void kva_regress_text(const struct kva_regress *r, bool all, struct kva_buf *out)
{
    int code = kva_regress_exit(r);

    for (int i = 0; i < r->n_row; i++) {
        const struct kva_regress_row *row = &r->row[i];
        bool news = row->verdict != KVA_REGRESS_PASS || strcmp(row->what, "cell") == 0;

        if (!all && !news)
            continue;
        kva_buf_printf(out, "%-12s %-6s ", WORD[row->verdict],
                       kva_regress_gate_names[row->gate]);
        name_row(row, out);
        kva_buf_printf(out, "\n             %s%s%s\n", row->message,
                       row->reason ? "; quarantined: " : "",
                       row->reason ? row->reason : "");
    }
    if (out->len)
        kva_buf_putc(out, '\n');
    kva_buf_printf(out, "%-8s", "gate");
    for (int v = 0; v < KVA_REGRESS_VERDICTS; v++)
        kva_buf_printf(out, " %6s", kva_regress_verdict_names[v]);
    for (int g = 0; g < KVA_REGRESS_GATES; g++) {
        if (!r->opts.gate[g])
            continue;
        kva_buf_printf(out, "\n%-8s", kva_regress_gate_names[g]);
        for (int v = 0; v < KVA_REGRESS_VERDICTS; v++)
            kva_buf_printf(out, " %*d",
                           (int)fmax(6, (int)strlen(kva_regress_verdict_names[v])),
                           r->count[g][v]);
    }
    kva_buf_printf(out,
                   "\n\n%d pairs of cells. Scores: %d comparisons, %d more in which no "
                   "sample differs.",
                   r->n_cells, r->n_comparisons, r->n_unchanged);
    if (r->n_tokens)
        kva_buf_printf(out, " On the exact CPU backend %d of %d answers changed.",
                       r->n_tokens_changed, r->n_tokens);
    kva_buf_putc(out, '\n');
    sight(r, out);
    kva_buf_puts(out,
                 code == 0   ? "The gate holds.\n"
                 : code == 1 ? "The gate fails.\n"
                 : r->n_cells
                     ? "The gate cannot decide: results are missing or incomparable.\n"
                     : "The gate cannot decide: no cell is in both.\n");
}

/* ---- JSON ---- */

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *row_json(const struct kva_regress_row *row)
{
    char hex[65];

    kva_hex(row->digest, 32, hex);
    return json_pack("{s:s,s:s,s:s,s:s,s:f,s:s,s:s,s:s,s:s,s:s,s:s,s:b,s:i,s:o,s:o,s:o,s:"
                     "o,s:o,s:o,s:o,s:"
                     "o,s:o,s:s,s:s?}",
                     "gate", kva_regress_gate_names[row->gate], "verdict",
                     kva_regress_verdict_names[row->verdict], "what", row->what,
                     "against", row->against, "scale", row->scale, "slug", row->slug,
                     "digest", hex, "model", row->model, "suite", row->suite, "task",
                     row->task, "method", row->method, "exact", (int)row->exact_cpu, "n",
                     row->n, "base", number(row->base), "new", number(row->now), "delta",
                     number(row->delta), "lo", number(row->lo), "hi", number(row->hi),
                     "p", number(row->p), "p_adjusted", number(row->p_adj), "tolerated",
                     number(row->limit), "noise_floor",
                     row->floor_known ? number(row->floor) : json_null(), "message",
                     row->message, "reason", row->reason);
}

static json_t *counts_json(const struct kva_regress *r)
{
    json_t *all = json_object();

    for (int g = 0; all && g < KVA_REGRESS_GATES; g++) {
        json_t *one = json_object();

        if (!r->opts.gate[g]) {
            json_decref(one);
            continue;
        }
        for (int v = 0; v < KVA_REGRESS_VERDICTS; v++)
            if (json_object_set_new(one, kva_regress_verdict_names[v],
                                    json_integer(r->count[g][v])) != 0) {
                json_decref(one);
                one = NULL;
                break;
            }
        if (json_object_set_new(all, kva_regress_gate_names[g], one) != 0) {
            json_decref(all);
            all = NULL;
        }
    }
    return all;
}

struct json_t *kva_regress_json(const struct kva_regress *r)
{
    const struct kva_regress_opts *o = &r->opts;
    json_t *rows = json_array(), *root;

    for (int i = 0; rows && i < r->n_row; i++)
        if (json_array_append_new(rows, row_json(&r->row[i])) != 0) {
            json_decref(rows);
            rows = NULL;
        }
    root =
        json_pack("{s:s,s:s,s:i,s:i,s:i,s:i,s:{s:i,s:i},s:o}", "schema", "kvaudit.gate/1",
                  "verdict", outcome_word(r), "exit", kva_regress_exit(r), "cells",
                  r->n_cells, "comparisons", r->n_comparisons, "unchanged",
                  r->n_unchanged, "tokens", "compared", r->n_tokens, "changed",
                  r->n_tokens_changed, "counts", counts_json(r));
    if (root &&
        json_object_set_new(
            root, "thresholds",
            json_pack("{s:f,s:f,s:f,s:f,s:b,s:b,s:o,s:f,s:i,s:f,s:f,s:f,s:I,s:f}",
                      "alpha", o->alpha, "warn_p", o->warn_p, "task_drop", o->task_drop,
                      "suite_drop", o->suite_drop, "exact", (int)o->exact,
                      "allow_removed", (int)o->allow_removed, "non_inferiority",
                      o->non_inferiority > 0 ? number(o->non_inferiority) : json_null(),
                      "time_p", o->time_p, "min_reps", o->min_reps, "tau_cpu", o->tau_cpu,
                      "tau_cuda", o->tau_cuda, "min_ms", o->min_ms, "peak_bytes",
                      (json_int_t)o->peak_bytes, "peak_share", o->peak_share)) != 0) {
        json_decref(root);
        root = NULL;
    }
    if (!root || json_object_set_new(root, "rows", rows) != 0) {
        if (!root)
            json_decref(rows);
        json_decref(root);
        return NULL;
    }
    return root;
}

/* ---- JUnit ---- */

/* Escaped text without the two non-characters that XML 1.0 forbids beside controls. */
static void xml(struct kva_buf *out, const char *s)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    for (; *s; s++) {
        const unsigned char *u = (const unsigned char *)s;

        if (u[0] == 0xef && u[1] == 0xbf && u[2] >= 0xbe) {
            kva_buf_puts(&b, "\xef\xbf\xbd");
            s += 2;
        } else {
            kva_buf_putc(&b, *s);
        }
    }
    kva_report_escape(out, b.data ? b.data : "");
    out->failed |= b.failed;
    kva_buf_release(&b);
}

static void junit_case(const struct kva_regress_row *row, struct kva_buf *out)
{
    static const char *const tag[] = {"failure", "error", "skipped", "skipped"};
    const char *gate = kva_regress_gate_names[row->gate];
    struct kva_buf name;

    kva_buf_init(&name, 0);
    name_row(row, &name);
    kva_buf_printf(out, "    <testcase classname=\"kvaudit.%s.", gate);
    xml(out, row->model);
    kva_buf_putc(out, '.');
    xml(out, row->suite);
    kva_buf_puts(out, "\" name=\"");
    xml(out, name.data ? name.data : "");
    kva_buf_puts(out, "\" time=\"0\"");
    out->failed |= name.failed;
    kva_buf_release(&name);
    if (row->verdict <= KVA_REGRESS_QUARANTINED) {
        kva_buf_printf(out, "><%s", tag[row->verdict]);
        if (row->verdict <= KVA_REGRESS_MISSING)
            kva_buf_printf(out, " type=\"%s\"", gate);
        kva_buf_puts(out, " message=\"");
        if (row->reason) {
            kva_buf_puts(out, "quarantined: ");
            xml(out, row->reason);
            kva_buf_puts(out, "; ");
        }
        xml(out, row->message);
        kva_buf_puts(out, "\"/></testcase>\n");
    } else if (row->message[0]) {
        kva_buf_printf(out, "><system-out>%s: ", WORD[row->verdict]);
        xml(out, row->message);
        kva_buf_puts(out, "</system-out></testcase>\n");
    } else {
        kva_buf_puts(out, "/>\n");
    }
}

void kva_regress_junit(const struct kva_regress *r, struct kva_buf *out)
{
    kva_buf_printf(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites name=\"kvaudit\" tests=\"%d\" failures=\"%d\" errors=\"%d\" "
        "skipped=\"%d\">\n",
        r->n_row, total(r, KVA_REGRESS_FAIL), total(r, KVA_REGRESS_MISSING),
        total(r, KVA_REGRESS_INCOMPARABLE) + total(r, KVA_REGRESS_QUARANTINED));
    for (int g = 0; g < KVA_REGRESS_GATES; g++) {
        const int *c = r->count[g];
        int n = 0;

        for (int v = 0; v < KVA_REGRESS_VERDICTS; v++)
            n += c[v];
        if (!r->opts.gate[g] && n == 0)
            continue;
        kva_buf_printf(out,
                       "  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" "
                       "errors=\"%d\" skipped=\"%d\">\n",
                       kva_regress_gate_names[g], n, c[KVA_REGRESS_FAIL],
                       c[KVA_REGRESS_MISSING],
                       c[KVA_REGRESS_INCOMPARABLE] + c[KVA_REGRESS_QUARANTINED]);
        for (int i = 0; i < r->n_row; i++)
            if (r->row[i].gate == (enum kva_regress_gate)g)
                junit_case(&r->row[i], out);
        kva_buf_puts(out, "  </testsuite>\n");
    }
    kva_buf_puts(out, "</testsuites>\n");
}

/* ---- GitHub ---- */

static void markdown(struct kva_buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '&')
            kva_buf_puts(out, "&amp;");
        else if (*s == '<')
            kva_buf_puts(out, "&lt;");
        else if (strchr("\\`*_[]|#~>", *s)) {
            kva_buf_putc(out, '\\');
            kva_buf_putc(out, *s);
        } else
            kva_buf_putc(out, *s);
    }
}

static void github_row(const struct kva_regress_row *row, struct kva_buf *out)
{
    struct kva_buf name;

    kva_buf_init(&name, 0);
    name_row(row, &name);
    kva_buf_printf(out, "| %s | %s | ", WORD[row->verdict],
                   kva_regress_gate_names[row->gate]);
    markdown(out, name.data ? name.data : "");
    kva_buf_puts(out, " | ");
    markdown(out, row->message);
    if (row->reason) {
        kva_buf_puts(out, "; quarantined: ");
        markdown(out, row->reason);
    }
    kva_buf_puts(out, " |\n");
    out->failed |= name.failed;
    kva_buf_release(&name);
}

void kva_regress_github(const struct kva_regress *r, size_t ceiling, struct kva_buf *out)
{
    const size_t room = 80; /* for the closing sentence */
    size_t start = out->len;
    struct kva_buf line;
    int i;

    kva_buf_init(&line, 0);
    kva_buf_printf(&line, "### kvaudit gate: %s\n\n| gate |", outcome_word(r));
    for (int v = 0; v < KVA_REGRESS_VERDICTS; v++)
        kva_buf_printf(&line, " %s |", kva_regress_verdict_names[v]);
    kva_buf_puts(&line, "\n|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int g = 0; g < KVA_REGRESS_GATES; g++) {
        if (!r->opts.gate[g])
            continue;
        kva_buf_printf(&line, "| %s |", kva_regress_gate_names[g]);
        for (int v = 0; v < KVA_REGRESS_VERDICTS; v++)
            kva_buf_printf(&line, " %d |", r->count[g][v]);
        kva_buf_putc(&line, '\n');
    }
    kva_buf_puts(&line, "\n| verdict | gate | cell | what |\n|---|---|---|---|\n");
    if (line.len + room <= ceiling)
        kva_buf_add(out, line.data, line.len);
    else
        ceiling = 0;
    for (i = 0; i < r->n_row && ceiling; i++) {
        line.len = 0;
        github_row(&r->row[i], &line);
        if (out->len - start + line.len + room > ceiling)
            break;
        kva_buf_add(out, line.data, line.len);
    }
    if (ceiling && i < r->n_row)
        kva_buf_printf(out, "\n%d more rows were left out, the worst are above.\n",
                       r->n_row - i);
    out->failed |= line.failed;
    kva_buf_release(&line);
}

/* Of a workflow command: the service ends its fields at these. */
static void command(struct kva_buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '%' || *s == '\r' || *s == '\n')
            kva_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*s);
        else
            kva_buf_putc(out, *s);
    }
}

void kva_regress_annotations(const struct kva_regress *r, struct kva_buf *out)
{
    int n = 0;

    for (int i = 0; i < r->n_row && n < MAX_ANNOTATIONS; i++) {
        const struct kva_regress_row *row = &r->row[i];
        struct kva_buf name;

        if (row->verdict == KVA_REGRESS_QUARANTINED || row->verdict > KVA_REGRESS_WARN)
            continue;
        kva_buf_init(&name, 0);
        name_row(row, &name);
        kva_buf_printf(out, "::%s title=kvaudit %s gate::",
                       row->verdict <= KVA_REGRESS_MISSING ? "error" : "warning",
                       kva_regress_gate_names[row->gate]);
        command(out, name.data ? name.data : "");
        kva_buf_puts(out, ": ");
        command(out, row->message);
        kva_buf_putc(out, '\n');
        out->failed |= name.failed;
        kva_buf_release(&name);
        n++;
    }
}
