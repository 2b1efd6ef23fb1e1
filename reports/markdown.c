/* SPDX-License-Identifier: GPL-3.0-or-later */
/* markdown.c - GitHub tables: numbers to the right, pipes escaped, leaders bold (all of
 * them when they are tied). */
#include "reports/internal.h"

#include <stdlib.h>
#include <string.h>

static void escaped(struct kva_buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '|' || *s == '\\' || *s == '`' || *s == '*' || *s == '_' || *s == '[' ||
            *s == ']')
            kva_buf_putc(out, '\\');
        if (*s == '<')
            kva_buf_puts(out, "&lt;");
        else if (*s == '>')
            kva_buf_puts(out, "&gt;");
        else if (*s == '&')
            kva_buf_puts(out, "&amp;");
        else
            kva_buf_putc(out, *s);
    }
}

static bool shown(const struct kva_col *c)
{
    return c->keep < 99;
}

void kva_markdown_table(const struct kva_tab *t, struct kva_buf *out)
{
    kva_buf_puts(out, "### ");
    escaped(out, t->caption);
    kva_buf_puts(out, "\n\n");
    for (int c = 0; c < t->n_col; c++)
        if (shown(&t->col[c])) {
            kva_buf_puts(out, "| ");
            escaped(out, t->col[c].label);
            if (t->col[c].unit[0]) {
                kva_buf_putc(out, ' ');
                escaped(out, t->col[c].unit);
            }
            kva_buf_putc(out, ' ');
        }
    kva_buf_puts(out, "|\n");
    for (int c = 0; c < t->n_col; c++)
        if (shown(&t->col[c]))
            kva_buf_puts(out, t->col[c].kind == KVA_COL_TEXT ? "| --- " : "| ---: ");
    kva_buf_puts(out, "|\n");
    for (int k = 0; k < t->n_row; k++) {
        for (int c = 0; c < t->n_col; c++) {
            struct kva_buf b;
            const struct kva_val *v = &t->row[k].cell[c];

            if (!shown(&t->col[c]))
                continue;
            kva_buf_init(&b, 0);
            kva_val_format(&t->col[c], v, &b);
            kva_buf_puts(out, v->strong ? "| **" : "| ");
            escaped(out, b.data ? b.data : "");
            kva_buf_puts(out, v->strong ? "** " : " ");
            out->failed |= b.failed;
            kva_buf_release(&b);
        }
        kva_buf_puts(out, "|\n");
    }
    kva_buf_putc(out, '\n');
    for (int i = 0; i < t->n_note; i++) {
        kva_buf_puts(out, "- ");
        escaped(out, t->note[i]);
        kva_buf_putc(out, '\n');
    }
    if (t->n_note)
        kva_buf_putc(out, '\n');
}

enum kva_status kva_report_markdown(const struct kva_report *r, struct kva_buf *out,
                                    struct kva_error *err)
{
    kva_buf_puts(out, "## ");
    escaped(out, r->title);
    kva_buf_puts(out, "\n\n");
    if (r->n_label) {
        kva_buf_printf(out, "Label%s of the suite: **", r->n_label > 1 ? "s" : "");
        escaped(out, r->label);
        kva_buf_printf(out, "**%s\n\n", r->limit);
    }
    for (int i = 0; i < r->n_summary; i++) {
        kva_buf_puts(out, strncmp(r->summary[i], "At ", 3) == 0 ? "  - " : "- ");
        escaped(out, r->summary[i]);
        kva_buf_putc(out, '\n');
    }
    kva_buf_putc(out, '\n');
    for (int i = 0; i < r->n_tab; i++)
        if (kva_tab_shown(r, &r->tab[i]))
            kva_markdown_table(&r->tab[i], out);
    for (int i = 0; i < r->n_footer; i++) {
        kva_buf_puts(out, "> ");
        escaped(out, r->footer[i]);
        kva_buf_puts(out, i + 1 < r->n_footer ? "\n>\n" : "\n");
    }
    return kva_buf_status(out, err);
}
