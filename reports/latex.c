/* SPDX-License-Identifier: GPL-3.0-or-later */
/* latex.c - tables for a paper: booktabs, plain numbers, everything escaped.
 *
 * A fragment to \input; the document needs \usepackage{booktabs} and nothing else. What
 * is not ASCII becomes the nearest LaTeX, or its number (U+4E2D): pdflatex without fonts
 * for it still compiles. */
#include "reports/internal.h"

#include <string.h>

static const struct {
    unsigned code;
    const char *tex;
} SYMBOLS[] = {
    {0xa0, "~"},
    {0xb1, "$\\pm$"},
    {0xb2, "$^2$"},
    {0xb7, "$\\cdot$"},
    {0xd7, "$\\times$"},
    {0x394, "$\\Delta$"},
    {0x3b1, "$\\alpha$"},
    {0x3b4, "$\\delta$"},
    {0x3b5, "$\\varepsilon$"},
    {0x3c0, "$\\pi$"},
    {0x3c3, "$\\sigma$"},
    {0x3c4, "$\\tau$"},
    {0x2013, "--"},
    {0x2014, "---"},
    {0x2018, "`"},
    {0x2019, "'"},
    {0x201c, "``"},
    {0x201d, "''"},
    {0x2026, "\\ldots{}"},
    {0x2192, "$\\to$"},
    {0x2212, "$-$"},
    {0x2248, "$\\approx$"},
    {0x2260, "$\\neq$"},
    {0x2264, "$\\leq$"},
    {0x2265, "$\\geq$"},
    {0x25b2, "$\\triangle$"},
    {0x25bc, "$\\nabla$"},
    {0x25cf, "$\\bullet$"},
    {0x2713, "$\\surd$"},
    {0x2717, "$\\times$"},
};

/* One code point of clean UTF-8; its bytes. */
static int decode(const char *s, unsigned *code)
{
    const unsigned char *p = (const unsigned char *)s;
    int n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    *code = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) { /* not clean: one byte at a time */
            *code = 0xfffd;
            return 1;
        }
        *code = *code << 6 | (p[i] & 0x3fu);
    }
    return n;
}

void kva_latex_escape(struct kva_buf *out, const char *s)
{
    unsigned code;

    for (; s && *s; s += decode(s, &code)) {
        const char *tex = NULL;

        (void)decode(s, &code);
        if (strchr("#$%&_{}", *s)) {
            kva_buf_printf(out, "\\%c", *s);
            continue;
        }
        switch (code) {
        case '~':
            tex = "\\textasciitilde{}";
            break;
        case '^':
            tex = "\\textasciicircum{}";
            break;
        case '\\':
            tex = "\\textbackslash{}";
            break;
        case '<': /* OT1 has other glyphs there */
            tex = "$<$";
            break;
        case '>':
            tex = "$>$";
            break;
        case '|':
            tex = "$|$";
            break;
        case '"':
            tex = "''";
            break;
        case '[': /* a row that begins with it would be an argument of \\ */
            tex = "{[}";
            break;
        case ']':
            tex = "{]}";
            break;
        case '*':
            tex = "{*}";
            break;
        default:
            break;
        }
        for (size_t i = 0; !tex && i < sizeof SYMBOLS / sizeof SYMBOLS[0]; i++)
            if (SYMBOLS[i].code == code)
                tex = SYMBOLS[i].tex;
        if (tex)
            kva_buf_puts(out, tex);
        else if (code < 0x80)
            kva_buf_putc(out, code < 0x20 ? ' ' : (char)code);
        else
            kva_buf_printf(out, "U+%04X", code);
    }
}

static bool shown(const struct kva_tab *t, int c)
{
    if (t->col[c].keep >= 99)
        return false;
    for (int k = 0; k < t->n_row; k++)
        if (t->row[k].cell[c].text ? t->row[k].cell[c].text[0] != 0
                                   : t->row[k].cell[c].v == t->row[k].cell[c].v)
            return true;
    return t->n_row == 0;
}

static void cell(const struct kva_col *c, const struct kva_val *v, struct kva_buf *out)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    kva_val_format(c, v, &b);
    if (v->strong)
        kva_buf_puts(out, "\\textbf{");
    kva_latex_escape(out, b.data);
    if (v->strong)
        kva_buf_putc(out, '}');
    out->failed |= b.failed;
    kva_buf_release(&b);
}

void kva_latex_table(const struct kva_tab *t, struct kva_buf *out)
{
    bool first = true;

    kva_buf_puts(out, "\\begin{table}\n\\centering\n\\caption{");
    kva_latex_escape(out, t->caption);
    kva_buf_printf(out, "}\n\\label{tab:%s}\n\\begin{tabular}{", t->id);
    for (int c = 0; c < t->n_col; c++)
        if (shown(t, c))
            kva_buf_putc(out, t->col[c].kind == KVA_COL_TEXT ? 'l' : 'r');
    kva_buf_puts(out, "}\n\\toprule\n");
    for (int c = 0; c < t->n_col; c++) {
        if (!shown(t, c))
            continue;
        kva_buf_puts(out, first ? "" : " & ");
        first = false;
        kva_latex_escape(out, t->col[c].label);
        if (t->col[c].unit[0]) {
            kva_buf_puts(out, t->col[c].label[0] ? " " : "");
            kva_latex_escape(out, t->col[c].unit);
        }
    }
    kva_buf_puts(out, " \\\\\n\\midrule\n");
    for (int k = 0; k < t->n_row; k++) {
        if (k && t->row[k].group)
            kva_buf_puts(out, "\\midrule\n");
        first = true;
        for (int c = 0; c < t->n_col; c++) {
            if (!shown(t, c))
                continue;
            kva_buf_puts(out, first ? "" : " & ");
            first = false;
            cell(&t->col[c], &t->row[k].cell[c], out);
        }
        kva_buf_puts(out, " \\\\\n");
    }
    kva_buf_puts(out, "\\bottomrule\n\\end{tabular}\n");
    for (int i = 0; i < t->n_note; i++) {
        kva_buf_puts(out, "\\par\\footnotesize ");
        kva_latex_escape(out, t->note[i]);
        kva_buf_putc(out, '\n');
    }
    kva_buf_puts(out, "\\end{table}\n");
}

enum kva_status kva_report_latex(const struct kva_report *r, struct kva_buf *out,
                                 struct kva_error *err)
{
    kva_buf_puts(out,
                 "% made by kvaudit " KVA_VERSION "; needs \\usepackage{booktabs}\n");
    for (int i = 0; i < r->n_tab; i++)
        if (kva_tab_shown(r, &r->tab[i])) {
            kva_buf_putc(out, '\n');
            kva_latex_table(&r->tab[i], out);
        }
    return kva_buf_status(out, err);
}
