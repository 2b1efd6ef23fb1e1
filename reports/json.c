/* SPDX-License-Identifier: GPL-3.0-or-later */
/* json.c - "kvaudit.report/1" (schema/report-1.json): columns with their meaning, rows
 * with unrounded values.
 *
 * Scores and ratios are 0..1 here; only people get them times 100. An interval column ID
 * has two more keys, ID_lo and ID_hi. Missing numbers are null. */
#include "reports/internal.h"

#include <math.h>
#include <string.h>

void kva_json_string(struct kva_buf *out, const char *s)
{
    kva_buf_putc(out, '"');
    for (; s && *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            kva_buf_printf(out, "\\%c", c);
        else if (c < 0x20)
            kva_buf_printf(out, "\\u%04x", c);
        else
            kva_buf_putc(out, (char)c);
    }
    kva_buf_putc(out, '"');
}

void kva_json_number(struct kva_buf *out, double v)
{
    if (!isfinite(v))
        kva_buf_puts(out, "null");
    else if (v == floor(v) && fabs(v) < 1e15)
        kva_buf_printf(out, "%.0f", v == 0 ? 0.0 : v);
    else
        kva_buf_printf(out, "%.17g", v);
}

static const char *kind_name(enum kva_col_kind k)
{
    static const char *const name[] = {"text",  "count", "real",
                                       "share", "bytes", "probability"};

    return name[k];
}

static void columns(const struct kva_tab *t, struct kva_buf *out)
{
    bool any = false;

    kva_buf_puts(out, "\"columns\":[");
    for (int i = 0; i < t->n_col; i++) {
        const struct kva_col *c = &t->col[i];
        static const char *const suffix[] = {"", "_lo", "_hi"};

        for (int k = 0; k < (c->interval ? 3 : 1); k++) {
            kva_buf_printf(out, "%s\n   {\"id\":\"%s%s\",\"label\":", any ? "," : "",
                           c->id, suffix[k]);
            kva_json_string(out, c->label);
            kva_buf_puts(out, ",\"unit\":");
            kva_json_string(out, c->unit);
            kva_buf_printf(out, ",\"kind\":\"%s\",\"digits\":%d}", kind_name(c->kind),
                           c->digits);
            any = true;
        }
    }
    kva_buf_puts(out, "]");
}

static void value(const struct kva_col *c, const struct kva_val *v, struct kva_buf *out)
{
    if (c->kind == KVA_COL_TEXT)
        kva_json_string(out, v->text);
    else
        kva_json_number(out, v->v);
}

void kva_json_row(const struct kva_tab *t, const struct kva_row *row, struct kva_buf *out)
{
    static const char *const role[] = {"row", "reference", "incomplete"};

    kva_buf_printf(out, "{\"role\":\"%s\"", role[row->role]);
    for (int i = 0; i < t->n_col; i++) {
        const struct kva_col *c = &t->col[i];

        kva_buf_printf(out, ",\"%s\":", c->id);
        value(c, &row->cell[i], out);
        if (c->interval) {
            kva_buf_printf(out, ",\"%s_lo\":", c->id);
            kva_json_number(out, row->cell[i].lo);
            kva_buf_printf(out, ",\"%s_hi\":", c->id);
            kva_json_number(out, row->cell[i].hi);
        }
    }
    kva_buf_putc(out, '}');
}

void kva_json_strings(const char *key, const char *const *s, int n, struct kva_buf *out)
{
    kva_buf_printf(out, "\"%s\":[", key);
    for (int i = 0; i < n; i++) {
        kva_buf_puts(out, i ? ",\n  " : "\n  ");
        kva_json_string(out, s[i]);
    }
    kva_buf_putc(out, ']');
}

/* A table without its braces. */
static void members(const struct kva_tab *t, struct kva_buf *out)
{
    kva_buf_printf(out, "\"id\":\"%s\",\"view\":\"%s\",\"caption\":", t->id,
                   kva_view_name(t->view));
    kva_json_string(out, t->caption);
    kva_buf_puts(out, ",\"model\":");
    kva_json_string(out, t->model);
    kva_buf_puts(out, ",\"class\":");
    kva_json_string(out, t->klass);
    kva_buf_puts(out, ",\n  ");
    columns(t, out);
    kva_buf_puts(out, ",\n  \"rows\":[");
    for (int k = 0; k < t->n_row; k++) {
        kva_buf_puts(out, k ? ",\n   " : "\n   ");
        kva_json_row(t, &t->row[k], out);
    }
    kva_buf_puts(out, "],\n  ");
    kva_json_strings("notes", t->note, t->n_note, out);
}

void kva_json_table(const struct kva_tab *t, struct kva_buf *out)
{
    kva_buf_puts(out, "{\"schema\":\"kvaudit.table/1\",");
    members(t, out);
    kva_buf_puts(out, "}\n");
}

enum kva_status kva_report_json(const struct kva_report *r, struct kva_buf *out,
                                struct kva_error *err)
{
    return kva_json_tables(r, false, out, err);
}

enum kva_status kva_json_tables(const struct kva_report *r, bool all, struct kva_buf *out,
                                struct kva_error *err)
{
    bool any = false;

    kva_buf_puts(out, "{\"schema\":\"kvaudit.report/1\",\"version\":\"" KVA_VERSION
                      "\",\"generated\":");
    kva_json_string(out, r->generated);
    kva_buf_puts(out, ",\"label\":");
    kva_json_string(out, r->label);
    kva_buf_putc(out, ',');
    kva_json_strings("labels", r->labels, r->n_label, out);
    kva_buf_printf(out, ",\"view\":\"%s\",\n", all ? "all" : kva_view_name(r->view));
    kva_buf_printf(out, "\"statistics\":{\"replicates\":%d,\"seed\":%llu,\"alpha\":",
                   r->opts.replicates, (unsigned long long)r->opts.seed);
    kva_json_number(out, r->opts.alpha);
    kva_buf_puts(out, ",\"ties\":\"stat\",\"noise_floor\":0},\n");
    kva_json_strings("summary", r->summary, r->n_summary, out);
    kva_buf_puts(out, ",\n\"tables\":[");
    for (int i = 0; i < r->n_tab; i++) {
        const struct kva_tab *t = &r->tab[i];

        if (!all && !kva_tab_shown(r, t))
            continue;
        kva_buf_puts(out, any ? ",\n {" : "\n {");
        any = true;
        members(t, out);
        kva_buf_putc(out, '}');
    }
    kva_buf_puts(out, "],\n");
    kva_json_strings("footer", r->footer, r->n_footer, out);
    kva_buf_puts(out, "}\n");
    return kva_buf_status(out, err);
}
