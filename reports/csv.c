/* SPDX-License-Identifier: GPL-3.0-or-later */
/* csv.c - RFC 4180 with one line per row of every table of the view.
 *
 * UTF-8 without BOM, "\n", header, decimal point, empty = missing. A text that starts
 * with = + - or @ and is no number is prefixed with ' so that no spreadsheet runs it. */
#include "reports/internal.h"

#include <math.h>
#include <string.h>

void kva_csv_field(struct kva_buf *out, const char *s)
{
    double number;
    bool guard = s[0] && strchr("=+-@\t\r", s[0]) && !kva_parse_f64(s, &number);

    if (!guard && !strpbrk(s, ",\"\n\r")) {
        kva_buf_puts(out, s);
        return;
    }
    kva_buf_putc(out, '"');
    if (guard)
        kva_buf_putc(out, '\'');
    for (; *s; s++) {
        if (*s == '"')
            kva_buf_putc(out, '"');
        kva_buf_putc(out, *s);
    }
    kva_buf_putc(out, '"');
}

void kva_csv_number(struct kva_buf *out, double v)
{
    if (!isfinite(v))
        return;
    if (v == floor(v) && fabs(v) < 1e15)
        kva_buf_printf(out, "%.0f", v == 0 ? 0.0 : v);
    else
        kva_buf_printf(out, "%.10g", v);
}

static void header(const struct kva_tab *t, struct kva_buf *out)
{
    kva_buf_puts(out, "table,caption,role");
    for (int c = 0; c < t->n_col; c++) {
        kva_buf_printf(out, ",%s", t->col[c].id);
        if (t->col[c].interval)
            kva_buf_printf(out, ",%s_lo,%s_hi", t->col[c].id, t->col[c].id);
    }
    kva_buf_putc(out, '\n');
}

void kva_csv_table(const struct kva_tab *t, bool with_header, struct kva_buf *out)
{
    static const char *const role[] = {"row", "reference", "incomplete"};

    if (with_header)
        header(t, out);
    for (int k = 0; k < t->n_row; k++) {
        kva_buf_printf(out, "%s,", t->id);
        kva_csv_field(out, t->caption);
        kva_buf_printf(out, ",%s", role[t->row[k].role]);
        for (int c = 0; c < t->n_col; c++) {
            const struct kva_val *v = &t->row[k].cell[c];

            kva_buf_putc(out, ',');
            if (t->col[c].kind == KVA_COL_TEXT)
                kva_csv_field(out, v->text ? v->text : "");
            else
                kva_csv_number(out, v->v);
            if (t->col[c].interval) {
                kva_buf_putc(out, ',');
                kva_csv_number(out, v->lo);
                kva_buf_putc(out, ',');
                kva_csv_number(out, v->hi);
            }
        }
        kva_buf_putc(out, '\n');
    }
}

enum kva_status kva_report_csv(const struct kva_report *r, struct kva_buf *out,
                               struct kva_error *err)
{
    const struct kva_col *last = NULL;

    for (int i = 0; i < r->n_tab; i++) {
        const struct kva_tab *t = &r->tab[i];

        if (t->view != r->view)
            continue;
        kva_csv_table(t, t->col != last, out);
        last = t->col;
    }
    return kva_buf_status(out, err);
}
