/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text.c - tables for a terminal: aligned columns; what the width does not hold follows
 * below, the columns of least weight last. */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLS = 48 };

static void pad(struct kva_buf *out, int n)
{
    for (; n > 0; n--)
        kva_buf_putc(out, ' ');
}

static void put_cell(struct kva_buf *out, const char *s, int width, bool right)
{
    int n = width - kva_utf8_columns(s);

    if (right)
        pad(out, n);
    kva_buf_puts(out, s);
    if (!right)
        pad(out, n);
}

/* Wraps at blanks. */
static void paragraph(struct kva_buf *out, const char *s, int width, const char *first,
                      const char *rest)
{
    int at = kva_utf8_columns(first);

    kva_buf_puts(out, first);
    for (bool start = true; *s; start = false) {
        size_t len = strcspn(s, " ");
        char word[1024];
        int w;

        if (len >= sizeof word)
            len = sizeof word - 1;
        memcpy(word, s, len);
        word[len] = 0;
        w = kva_utf8_columns(word);
        if (!start && at + 1 + w > width) {
            kva_buf_printf(out, "\n%s", rest);
            at = kva_utf8_columns(rest);
            start = true;
        }
        if (!start) {
            kva_buf_putc(out, ' ');
            at++;
        }
        kva_buf_puts(out, word);
        at += w;
        s += len;
        s += *s == ' ';
    }
    kva_buf_putc(out, '\n');
}

enum { MAX_LABEL = 48 };

static void label_of(const struct kva_col *c, char out[MAX_LABEL])
{
    bool unit = c->unit[0] && (c->kind == KVA_COL_REAL || c->kind == KVA_COL_INT);

    (void)snprintf(out, MAX_LABEL, "%.30s%s%.12s", c->label, unit ? " " : "",
                   unit ? c->unit : "");
}

struct layout {
    const struct kva_tab *t;
    char **text; /* rows x columns */
    int width[MAX_COLS];
    bool show[MAX_COLS], left[MAX_COLS], right[MAX_COLS];
    char label[MAX_COLS][MAX_LABEL];
};

static int total(const struct layout *l)
{
    int sum = -2;

    for (int c = 0; c < l->t->n_col; c++)
        sum += l->show[c] ? l->width[c] + 2 : 0;
    return sum;
}

/* What names a row: repeated when a table goes on with its further columns. */
static bool names_row(const struct kva_tab *t, int c)
{
    return t->col[c].keep == 0 &&
           (t->col[c].kind == KVA_COL_TEXT || strcmp(t->col[c].id, "rank") == 0);
}

/* Columns still to print: all but the silent ones and those without any value. */
static void pending(struct layout *l, bool details)
{
    for (int c = 0; c < l->t->n_col; c++)
        l->left[c] = l->t->col[c].keep < (details ? 99 : KVA_KEEP_DETAIL) &&
                     (l->t->col[c].keep == 0 || kva_tab_has(l->t, c));
}

/* Takes as many of the columns left as the width holds, at least one, those of least
 * weight last. False when none is left. */
static bool choose(struct layout *l, int width)
{
    int n = 0;

    for (int c = 0; c < l->t->n_col; c++) {
        l->show[c] = l->left[c] || names_row(l->t, c);
        n += l->left[c];
    }
    if (n == 0)
        return false;
    for (; n > 1 && total(l) > width; n--) {
        int drop = -1;

        for (int c = 0; c < l->t->n_col; c++)
            if (l->show[c] && l->t->col[c].keep > 0 &&
                (drop < 0 || l->t->col[c].keep > l->t->col[drop].keep))
                drop = c;
        if (drop < 0)
            break;
        l->show[drop] = false;
    }
    for (int c = 0; c < l->t->n_col; c++)
        l->left[c] = l->left[c] && !l->show[c];
    return true;
}

/* As everywhere, but interval bounds without decimals: width is scarce here. */
static void format(const struct kva_col *c, const struct kva_val *v, struct kva_buf *out)
{
    struct kva_val plain = *v;

    if (!c->interval || c->kind != KVA_COL_PERCENT || v->text || isnan(v->v) ||
        isnan(v->lo)) {
        kva_val_format(c, v, out);
        return;
    }
    plain.lo = plain.hi = (double)NAN;
    kva_val_format(c, &plain, out);
    kva_buf_printf(out, " [%.0f, %.0f]", 100 * v->lo + 0.0, 100 * v->hi + 0.0);
}

static enum kva_status lay_out(struct layout *l, struct kva_error *err)
{
    const struct kva_tab *t = l->t;

    l->text = kva_calloc((size_t)t->n_row * (size_t)t->n_col + 1, sizeof *l->text);
    if (!l->text || t->n_col > MAX_COLS)
        return KVA_FAIL(err, KVA_ENOMEM, "report: text: out of memory");
    for (int c = 0; c < t->n_col; c++) {
        label_of(&t->col[c], l->label[c]);
        l->width[c] = kva_utf8_columns(l->label[c]);
        l->right[c] = t->col[c].kind != KVA_COL_TEXT ||
                      strcmp(t->col[c].id, "keep") == 0 ||
                      strcmp(t->col[c].id, "coverage") == 0;
    }
    for (int k = 0; k < t->n_row; k++)
        for (int c = 0; c < t->n_col; c++) {
            struct kva_buf b;
            const struct kva_val *v = &t->row[k].cell[c];
            int w;

            kva_buf_init(&b, 0);
            format(&t->col[c], v, &b);
            l->text[k * t->n_col + c] = b.failed ? NULL : strdup(b.data ? b.data : "");
            kva_buf_release(&b);
            if (!l->text[k * t->n_col + c])
                return KVA_FAIL(err, KVA_ENOMEM, "report: text: out of memory");
            w = kva_utf8_columns(l->text[k * t->n_col + c]);
            if (w > l->width[c])
                l->width[c] = w;
        }
    return KVA_OK;
}

static void print_row(const struct kva_report *r, const struct layout *l, int k,
                      struct kva_buf *out)
{
    const struct kva_tab *t = l->t;
    bool any = false;
    size_t start = out->len;
    const char *on = "";

    if (r->opts.color && k >= 0)
        on = t->row[k].role == KVA_ROW_REFERENCE    ? "\x1b[2m"
             : t->row[k].role == KVA_ROW_INCOMPLETE ? "\x1b[33m"
             : t->row[k].cell[0].strong             ? "\x1b[1m"
                                                    : "";
    kva_buf_puts(out, on);
    for (int c = 0; c < t->n_col; c++) {
        if (!l->show[c])
            continue;
        if (any)
            kva_buf_puts(out, "  ");
        put_cell(out, k < 0 ? l->label[c] : l->text[k * t->n_col + c], l->width[c],
                 l->right[c]);
        any = true;
    }
    while (!out->failed && out->len > start && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
    if (on[0])
        kva_buf_puts(out, "\x1b[0m");
    kva_buf_putc(out, '\n');
}

static void rule(struct kva_buf *out, int n)
{
    for (; n > 0; n--)
        kva_buf_puts(out, "\xe2\x94\x80");
    kva_buf_putc(out, '\n');
}

static void print_columns(const struct kva_report *r, const struct layout *l,
                          struct kva_buf *out)
{
    int wide = total(l);

    print_row(r, l, -1, out);
    rule(out, wide);
    for (int k = 0; k < l->t->n_row; k++) {
        if (k > 0 && l->t->row[k].group)
            rule(out, wide);
        print_row(r, l, k, out);
    }
    kva_buf_putc(out, '\n');
}

/* A table wider than the terminal goes on below with its further columns. */
static enum kva_status table(const struct kva_report *r, const struct kva_tab *t,
                             struct kva_buf *out, struct kva_error *err)
{
    struct layout l = {.t = t};
    enum kva_status rc;

    KVA_GO(lay_out(&l, err));
    if (r->opts.color)
        kva_buf_puts(out, "\x1b[1m");
    paragraph(out, t->caption, r->opts.width, "", "");
    if (r->opts.color)
        kva_buf_puts(out, "\x1b[0m");
    kva_buf_putc(out, '\n');
    pending(&l, r->opts.details);
    while (t->n_row > 0 && choose(&l, r->opts.width))
        print_columns(r, &l, out);
    for (int i = 0; i < t->n_note; i++)
        paragraph(out, t->note[i], r->opts.width, "  ", "  ");
    kva_buf_putc(out, '\n');
out:
    for (int i = 0; l.text && i < t->n_row * t->n_col; i++)
        free(l.text[i]);
    free(l.text);
    return rc;
}

/* Columns that were left away, by name: each once. */
static void details(const struct kva_report *r, struct kva_buf *out)
{
    const char *seen[MAX_COLS];
    int n = 0;
    struct kva_buf s;

    kva_buf_init(&s, 0);
    kva_buf_puts(&s, "With -v also:");
    for (int i = 0; i < r->n_tab; i++)
        for (int c = 0; kva_tab_shown(r, &r->tab[i]) && c < r->tab[i].n_col; c++) {
            const struct kva_col *col = &r->tab[i].col[c];
            char name[MAX_LABEL];
            int k = 0;

            if (col->keep < KVA_KEEP_DETAIL || col->keep >= 99 ||
                !kva_tab_has(&r->tab[i], c))
                continue;
            while (k < n && strcmp(seen[k], col->id) != 0)
                k++;
            if (k < n || n == MAX_COLS)
                continue;
            label_of(col, name);
            kva_buf_printf(&s, "%s %s", n ? "," : "", name);
            seen[n++] = col->id;
        }
    kva_buf_putc(&s, '.');
    out->failed |= s.failed;
    if (n && !s.failed)
        paragraph(out, s.data, r->opts.width, "", "  ");
    kva_buf_release(&s);
}

/* What the suite says of its results goes first: "short" is no ranking at full length. */
static void label(const struct kva_report *r, struct kva_buf *out)
{
    struct kva_buf s;

    kva_buf_init(&s, 0);
    kva_buf_printf(&s, "Label%s of the suite: %s%s", r->n_label > 1 ? "s" : "", r->label,
                   r->limit);
    out->failed |= s.failed;
    if (!s.failed)
        paragraph(out, s.data, r->opts.width, "", "  ");
    kva_buf_putc(out, '\n');
    kva_buf_release(&s);
}

enum kva_status kva_report_text(const struct kva_report *r, struct kva_buf *out,
                                struct kva_error *err)
{
    bool any = false;

    if (r->n_label)
        label(r, out);
    if (r->view == KVA_VIEW_LEADERBOARD) {
        for (int i = 0; i < r->n_summary; i++) {
            bool part = strncmp(r->summary[i], "At ", 3) == 0;

            paragraph(out, r->summary[i], r->opts.width, part ? "  " : "",
                      part ? "    " : "  ");
        }
        kva_buf_putc(out, '\n');
    }
    for (int i = 0; i < r->n_tab; i++) {
        const struct kva_tab *t = &r->tab[i];

        if (!kva_tab_shown(r, t) || (t->n_row == 0 && t->n_note == 0) ||
            (t->view == KVA_VIEW_ABOUT && strcmp(t->id, "methods") != 0))
            continue;
        KVA_TRY(table(r, t, out, err));
        any = true;
    }
    if (!any)
        kva_buf_printf(out, "nothing to show in this view%s\n\n",
                       r->view == KVA_VIEW_AUDIT
                           ? ": 'kvaudit audit SUITE' makes its rows"
                       : r->view == KVA_VIEW_GRID ? ": the task niah/grid makes its rows"
                                                  : "");
    if (!r->opts.details)
        details(r, out);
    for (int i = 0; i < r->n_footer; i++)
        paragraph(out, r->footer[i], r->opts.width, "", "  ");
    return kva_buf_status(out, err);
}
