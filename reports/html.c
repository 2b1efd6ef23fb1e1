/* SPDX-License-Identifier: GPL-3.0-or-later */
/* html.c - one self-contained page: tables, drawings, one inline script whose hash the
 * content security policy names, no request to anywhere.
 *
 * The page is complete without script: sorted by rank, everything shown. The script adds
 * sorting, filters and the theme switch. It is also well-formed XML, so that a plain
 * parser can check it. */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__asm__(".pushsection .rodata\n"
        "kva_report_css: .incbin \"reports/templates/page.css\"\n.byte 0\n"
        "kva_report_js: .incbin \"reports/templates/page.js\"\n.byte 0\n"
        ".popsection\n");
extern const char kva_report_css[], kva_report_js[];

static void base64(const uint8_t *p, size_t n, struct kva_buf *out)
{
    static const char abc[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)p[i] << 16;

        v |= i + 1 < n ? (unsigned)p[i + 1] << 8 : 0;
        v |= i + 2 < n ? p[i + 2] : 0;
        kva_buf_putc(out, abc[v >> 18]);
        kva_buf_putc(out, abc[v >> 12 & 63]);
        kva_buf_putc(out, i + 1 < n ? abc[v >> 6 & 63] : '=');
        kva_buf_putc(out, i + 2 < n ? abc[v & 63] : '=');
    }
}

/* ---- head ---- */

static void head(const struct kva_report *r, struct kva_buf *out)
{
    uint8_t digest[32];

    kva_sha256_of(kva_report_js, strlen(kva_report_js), digest);
    kva_buf_puts(
        out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'; img-src data:; script-src 'sha256-");
    base64(digest, 32, out);
    kva_buf_puts(out, "'; base-uri 'none'; form-action 'none'\"/>\n"
                      "<meta name=\"viewport\" content=\"width=device-width, "
                      "initial-scale=1\"/>\n<title>");
    kva_report_escape(out, r->title);
    kva_buf_puts(out, "</title>\n<style>\n");
    kva_buf_puts(out, kva_report_css);
    kva_buf_puts(
        out, "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the "
             "tables</a>\n");
}

static int rows_of(const struct kva_report *r, int view)
{
    int n = 0;

    for (int i = 0; i < r->n_tab; i++)
        n += r->tab[i].view == view ? r->tab[i].n_row : 0;
    return n;
}

static bool has_view(const struct kva_report *r, int view)
{
    return rows_of(r, view) > 0;
}

/* What the page opens with: leaderboards, published numbers, or a device. */
static int first_view(const struct kva_report *r)
{
    return r->view == KVA_VIEW_PAPER || r->view == KVA_VIEW_DEVICE ? r->view
                                                                   : KVA_VIEW_LEADERBOARD;
}

static const char *first_heading(const struct kva_report *r)
{
    return r->view == KVA_VIEW_PAPER    ? "Published numbers"
           : r->view == KVA_VIEW_DEVICE ? "On a device"
                                        : "Leaderboard";
}

static void page_header(const struct kva_report *r, struct kva_buf *out)
{
    const char *model = NULL;
    bool several = false;

    for (int i = 0; i < r->n_board; i++) {
        several |= model && strcmp(model, r->board[i].model) != 0;
        model = r->board[i].model;
    }
    kva_buf_puts(out,
                 "<div class=\"wrap\">\n<header class=\"page\">\n<div class=\"top\"><div>"
                 "<h1>KV-cache eviction");
    if (model && !several) {
        kva_buf_puts(out, ": ");
        kva_report_escape(out, model);
    }
    kva_buf_puts(out, "</h1>\n<p class=\"sub\">kvaudit " KVA_VERSION ", results up to ");
    kva_report_escape(out, r->generated);
    if (r->n_label) {
        kva_buf_printf(out, ", label%s <strong class=\"label\">",
                       r->n_label > 1 ? "s" : "");
        kva_report_escape(out, r->label);
        kva_buf_printf(out, "</strong>%s", r->limit);
    }
    kva_buf_puts(
        out,
        "</p></div>\n<div class=\"theme js\" role=\"group\" aria-label=\"Colours\" "
        "hidden=\"\">"
        "<button type=\"button\" value=\"auto\" aria-pressed=\"true\">auto</button>"
        "<button type=\"button\" value=\"light\" aria-pressed=\"false\">light</button>"
        "<button type=\"button\" value=\"dark\" aria-pressed=\"false\">dark</button>"
        "</div></div>\n</header>\n<nav class=\"toc\" aria-label=\"Contents\"><ul>");
    kva_buf_printf(out, "<li><a href=\"#leaderboard\">%s</a></li>", first_heading(r));
    if (r->n_figure)
        kva_buf_puts(out, "<li><a href=\"#figures\">Figures</a></li>");
    if (has_view(r, KVA_VIEW_RETENTION))
        kva_buf_puts(out, "<li><a href=\"#retention\">Budgets</a></li>");
    if (has_view(r, KVA_VIEW_TASKS))
        kva_buf_puts(out, "<li><a href=\"#tasks\">Tasks</a></li>");
    if (has_view(r, KVA_VIEW_PAIRS))
        kva_buf_puts(out, "<li><a href=\"#pairs\">Pairs</a></li>");
    if (has_view(r, KVA_VIEW_SURVIVAL))
        kva_buf_puts(out, "<li><a href=\"#survival\">Survival</a></li>");
    if (has_view(r, KVA_VIEW_ANSWERS))
        kva_buf_puts(out, "<li><a href=\"#answers\">Answers</a></li>");
    if (has_view(r, KVA_VIEW_MEMORY))
        kva_buf_puts(out, "<li><a href=\"#memory\">Memory</a></li>");
    if (has_view(r, KVA_VIEW_TIMING))
        kva_buf_puts(out, "<li><a href=\"#timing\">Timing</a></li>");
    if (has_view(r, KVA_VIEW_COVERAGE))
        kva_buf_puts(out, "<li><a href=\"#coverage-all\">Coverage</a></li>");
    kva_buf_puts(out, "<li><a href=\"#reading\">How to read</a></li>");
    if (has_view(r, KVA_VIEW_ABOUT))
        kva_buf_puts(out, "<li><a href=\"#runs-all\">Methods and runs</a></li>");
    kva_buf_puts(out, "</ul></nav>\n");
}

static void summary(const struct kva_report *r, struct kva_buf *out)
{
    bool list = false;

    for (int i = 0; i < r->n_summary; i++) {
        bool part = strncmp(r->summary[i], "At ", 3) == 0;
        bool lead = i + 1 < r->n_summary && strncmp(r->summary[i + 1], "At ", 3) == 0;

        if (part && !list)
            kva_buf_puts(out, "<ul class=\"points\">\n");
        if (!part && list)
            kva_buf_puts(out, "</ul>\n");
        list = part;
        kva_buf_puts(out, part   ? "<li>"
                          : lead ? "<p class=\"lead\">"
                                 : "<p class=\"aside\">");
        kva_report_escape(out, r->summary[i]);
        kva_buf_puts(out, part ? "</li>\n" : "</p>\n");
    }
    if (list)
        kva_buf_puts(out, "</ul>\n");
}

/* ---- filters ---- */

static int cmp_text(const void *p, const void *q)
{
    return strcmp(*(const char *const *)p, *(const char *const *)q);
}

/* A box for each value, sorted; many of them are folded, one alone needs none. */
static void checks(const char *key, const char *legend, const char **v, int n,
                   struct kva_buf *out)
{
    int m = 0;

    if (n)
        qsort(v, (size_t)n, sizeof *v, cmp_text);
    for (int i = 0; i < n; i++)
        if (m == 0 || strcmp(v[i], v[m - 1]) != 0)
            v[m++] = v[i];
    if (m < 2)
        return;
    if (m > 12)
        kva_buf_printf(out, "<details><summary>%s (%d)</summary>", legend, m);
    kva_buf_printf(out, "<fieldset><legend>%s</legend>", legend);
    for (int i = 0; i < m; i++) {
        kva_buf_printf(
            out, "<label><input type=\"checkbox\" checked=\"\" name=\"%s\" value=\"",
            key);
        kva_report_escape(out, v[i]);
        kva_buf_puts(out, "\"/> ");
        kva_report_escape(out, v[i]);
        kva_buf_puts(out, "</label>");
    }
    kva_buf_puts(out, m > 12 ? "</fieldset></details>" : "</fieldset>");
}

/* Suites of all tables, each once a table, in `text`. */
static int suites_of(const struct kva_report *r, const char **v, struct kva_buf *text)
{
    int n = 0;

    for (int i = 0; i < r->n_board; i++)
        for (int t = 0; t < r->board[i].n_task; t++) {
            const char *label = r->board[i].task_label[t];

            kva_buf_add(text, label, strcspn(label, "/"));
            kva_buf_putc(text, 0);
            n++;
        }
    for (size_t k = 0, i = 0; !text->failed && i < (size_t)n; i++) {
        v[i] = text->data + k;
        k += strlen(v[i]) + 1;
    }
    return text->failed ? 0 : n;
}

static void filters(const struct kva_report *r, struct kva_buf *out)
{
    struct kva_buf text;
    const char **v;
    int n = 0, most = 0;

    for (int i = 0; i < r->n_board; i++)
        most += r->board[i].n_arm + r->board[i].n_task + 1;
    v = kva_calloc((size_t)most + 1, sizeof *v);
    if (!v) {
        out->failed = true;
        return;
    }
    kva_buf_init(&text, 0);
    kva_buf_puts(
        out, "<div class=\"tools js\" hidden=\"\"><input id=\"filter\" type=\"search\" "
             "placeholder=\"filter rows\" aria-label=\"Filter rows\"/>"
             "<span id=\"filter-count\" role=\"status\"></span>");
    for (int i = 0; i < r->n_board; i++)
        v[n++] = r->board[i].model;
    checks("model", "models", v, n, out);
    checks("suite", "suites", v, suites_of(r, v, &text), out);
    n = 0;
    for (int i = 0; i < r->n_board; i++)
        for (int k = 0; k < r->board[i].n_arm; k++)
            if (r->board[i].arm[k].role == KVA_ARM_METHOD)
                v[n++] = r->board[i].arm[k].name;
    checks("method", "methods", v, n, out);
    kva_buf_puts(out, "</div>\n");
    out->failed |= text.failed;
    kva_buf_release(&text);
    free(v);
}

/* ---- tables ---- */

/* Columns for exports stay out, and those in which no row has a value. */
static bool on_page(const struct kva_tab *t, int c)
{
    return t->col[c].keep < 99 && (t->col[c].keep == 0 || kva_tab_has(t, c));
}

static int method_col(const struct kva_tab *t)
{
    for (int c = 0; c < t->n_col; c++)
        if (strcmp(t->col[c].id, "method") == 0)
            return c;
    return 0;
}

static bool is_text(const struct kva_col *c)
{
    return c->kind == KVA_COL_TEXT && strcmp(c->id, "keep") != 0 &&
           strcmp(c->id, "coverage") != 0 && strcmp(c->id, "wtl") != 0;
}

static void th(const struct kva_tab *t, int c, bool stick, struct kva_buf *out)
{
    const struct kva_col *col = &t->col[c];

    kva_buf_puts(out, "<th scope=\"col\" aria-sort=\"none\"");
    if (stick || is_text(col))
        kva_buf_printf(out, " class=\"%s\"", stick ? "t stick" : "t");
    if (col->help && col->help[0]) {
        kva_buf_puts(out, " title=\"");
        kva_report_escape(out, col->help);
        kva_buf_putc(out, '"');
    }
    kva_buf_puts(out, "><button type=\"button\">");
    kva_report_escape(out, col->label);
    if (col->unit[0]) {
        kva_buf_puts(out, " <small>");
        kva_report_escape(out, col->unit);
        kva_buf_puts(out, "</small>");
    }
    kva_buf_puts(out, "</button></th>");
}

/* A share of something from 0 to 1 with its interval is also drawn. */
static bool has_bar(const struct kva_tab *t, const struct kva_row *row, int c)
{
    const struct kva_val *v = &row->cell[c];

    return t->col[c].interval && t->col[c].kind == KVA_COL_PERCENT && !v->text &&
           !isnan(v->v) && strcmp(t->col[c].unit, "points") != 0;
}

static double clip(double v)
{
    return v < 0 ? 0 : v > 100 ? 100 : v;
}

/* Number and interval; the style sheet draws the bar. */
static void interval(const struct kva_col *c, const struct kva_val *v,
                     struct kva_buf *out)
{
    double lo = 100 * v->lo, hi = 100 * v->hi;

    kva_buf_printf(out, "%.*f", c->digits, v->v * 100);
    if (!isnan(v->lo))
        kva_buf_printf(out, "<small>%.1f\xe2\x80\x93%.1f</small>",
                       lo < 0 && lo > -0.05 ? 0.0 : lo, hi);
}

static void bar_style(const struct kva_val *v, struct kva_buf *out)
{
    bool has = !isnan(v->lo);

    kva_buf_printf(out, " style=\"--v:%.1f;--l:%.1f;--h:%.1f\"", clip(100 * v->v),
                   clip(100 * (has ? v->lo : v->v)), clip(100 * (has ? v->hi : v->v)));
}

static double p_of(const struct kva_tab *t, const struct kva_row *row)
{
    for (int c = 0; c < t->n_col; c++)
        if (strcmp(t->col[c].id, "p") == 0)
            return row->cell[c].v;
    return (double)NAN;
}

/* The difference to dense: symbol and word besides colour. */
static void delta(const struct kva_report *r, const struct kva_tab *t,
                  const struct kva_row *row, const struct kva_col *c,
                  const struct kva_val *v, struct kva_buf *out)
{
    double p = p_of(t, row);
    bool sure = p < r->opts.alpha;
    struct kva_buf text;

    kva_buf_init(&text, 0);
    kva_val_format(c, v, &text);
    if (sure && v->v < 0)
        kva_buf_puts(
            out, "<span class=\"down\">\xe2\x96\xbc<span class=\"vh\"> loss </span> ");
    else if (sure && v->v > 0)
        kva_buf_puts(out,
                     "<span class=\"up\">\xe2\x96\xb2<span class=\"vh\"> win </span> ");
    else
        kva_buf_puts(out, "<span>\xe2\x97\x8f<span class=\"vh\"> tie </span> ");
    kva_report_escape(out, text.data);
    kva_buf_puts(out, "</span>");
    out->failed |= text.failed;
    kva_buf_release(&text);
}

static void lower(const char *s, struct kva_buf *out)
{
    for (; *s; s++)
        if (*s >= 'A' && *s <= 'Z')
            kva_buf_putc(out, (char)(*s - 'A' + 'a'));
}

static void content(const struct kva_report *r, const struct kva_tab *t,
                    const struct kva_row *row, int c, struct kva_buf *out)
{
    const struct kva_col *col = &t->col[c];
    const struct kva_val *v = &row->cell[c];
    struct kva_buf text;

    if (strncmp(col->id, "audit", 5) == 0 && v->text) { /* of a row, or of its sides */
        kva_buf_puts(out, "<span class=\"badge b-");
        lower(v->text, out);
        kva_buf_puts(out, "\">");
        kva_report_escape(out, v->text);
        kva_buf_puts(out, "</span>");
        return;
    }
    if (has_bar(t, row, c)) {
        interval(col, v, out);
        return;
    }
    if (strcmp(col->id, "delta") == 0 && !v->text && !isnan(v->v)) {
        delta(r, t, row, col, v, out);
        return;
    }
    kva_buf_init(&text, 0);
    kva_val_format(col, v, &text);
    kva_report_escape(out, text.data);
    out->failed |= text.failed;
    kva_buf_release(&text);
}

/* The shortest text that reads back as the same number. */
static void shortest(double v, char text[32])
{
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, 32, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            return;
    }
}

/* The value that the script sorts by, where the text shown does not say it in full;
 * empty: missing. */
static void data_v(const struct kva_tab *t, const struct kva_row *row, int c,
                   struct kva_buf *out)
{
    const struct kva_col *col = &t->col[c];
    const struct kva_val *v = &row->cell[c];
    const char *id = strcmp(col->id, "keep") == 0       ? "budget"
                     : strcmp(col->id, "coverage") == 0 ? "n_ok"
                     : strcmp(col->id, "wtl") == 0      ? "wins"
                                                        : NULL;
    char text[32] = "";

    for (int k = 0; id && k < t->n_col; k++) /* text shown, number sorted by */
        if (strcmp(t->col[k].id, id) == 0) {
            if (!isnan(row->cell[k].v))
                shortest(row->cell[k].v, text);
            kva_buf_printf(out, " data-v=\"%s\"", text);
            return;
        }
    if (is_text(col) || (v->text && !v->text[0] && isnan(v->v)) ||
        (col->kind == KVA_COL_INT && !v->text && !isnan(v->v)))
        return;
    if (!isnan(v->v))
        shortest(v->v, text);
    kva_buf_printf(out, " data-v=\"%s\"", text);
}

static void td(const struct kva_report *r, const struct kva_tab *t,
               const struct kva_row *row, int c, bool stick, struct kva_buf *out)
{
    static const char *const wide[] = {"method_spec", "reason", "compiler"};
    const struct kva_val *v = &row->cell[c];
    bool bar = has_bar(t, row, c), is_wide = false;
    bool none = isnan(v->v) && t->col[c].kind != KVA_COL_TEXT && (!v->text || v->text[0]);
    const char *klass = stick                 ? "stick"
                        : is_text(&t->col[c]) ? "t"
                        : bar                 ? "iv"
                        : none                ? "na"
                                              : "";

    for (int i = 0; i < 3; i++)
        is_wide |= strcmp(t->col[c].id, wide[i]) == 0;
    kva_buf_puts(out, stick ? "<th scope=\"row\"" : "<td");
    if (klass[0] || v->strong || is_wide)
        kva_buf_printf(out, " class=\"%s%s%s\"", klass,
                       v->strong ? klass[0] ? " first" : "first" : "",
                       is_wide ? " wide" : "");
    if (bar)
        bar_style(v, out);
    /* specifications stand in the table of methods; the leaderboard has them at hand */
    if (v->title && (t->view == KVA_VIEW_LEADERBOARD || !stick)) {
        kva_buf_puts(out, " title=\"");
        kva_report_escape(out, v->title);
        kva_buf_putc(out, '"');
    }
    data_v(t, row, c, out);
    kva_buf_putc(out, '>');
    content(r, t, row, c, out);
    kva_buf_puts(out, stick ? "</th>" : "</td>");
}

static void attribute(const char *name, const char *value, struct kva_buf *out)
{
    if (!value[0])
        return;
    kva_buf_printf(out, " %s=\"", name);
    kva_report_escape(out, value);
    kva_buf_putc(out, '"');
}

static void rows(const struct kva_report *r, const struct kva_tab *t, int m,
                 struct kva_buf *out)
{
    static const char *const role[] = {"", "ref", "part"};

    for (int k = 0; k < t->n_row; k++) {
        const struct kva_row *row = &t->row[k];

        kva_buf_puts(out, "<tr");
        if (row->role != KVA_ROW_PLAIN || row->group)
            kva_buf_printf(out, " class=\"%s%s\"", role[row->role],
                           row->group ? " rule" : "");
        kva_buf_putc(out, '>');
        td(r, t, row, m, true, out);
        for (int c = 0; c < t->n_col; c++)
            if (c != m && on_page(t, c))
                td(r, t, row, c, false, out);
        kva_buf_puts(out, "</tr>\n");
    }
}

static void note_list(const struct kva_tab *t, int from, int to, struct kva_buf *out)
{
    kva_buf_puts(out, "<ul class=\"notes\">");
    for (int i = from; i < to; i++) {
        kva_buf_puts(out, "<li>");
        kva_report_escape(out, t->note[i]);
        kva_buf_puts(out, "</li>");
    }
    kva_buf_puts(out, "</ul>\n");
}

/* The last two (how many samples, how many cells) always; many others are folded. */
static void notes(const struct kva_tab *t, struct kva_buf *out)
{
    int folded = t->n_note > 5 ? t->n_note - 2 : 0;

    if (t->n_note > folded)
        note_list(t, folded, t->n_note, out);
    if (folded) {
        kva_buf_printf(out, "<details class=\"notes\"><summary>%d more notes</summary>\n",
                       folded);
        note_list(t, 0, folded, out);
        kva_buf_puts(out, "</details>\n");
    }
}

static void table(const struct kva_report *r, const struct kva_tab *t,
                  struct kva_buf *out)
{
    int m = method_col(t);

    kva_buf_puts(out, "<section class=\"block\"");
    attribute("data-model", t->model, out);
    attribute("data-suite", t->suites, out);
    kva_buf_printf(out, " id=\"%s\">\n", t->id);
    if (t->n_row > 0) {
        kva_buf_puts(out, "<div class=\"scroll\" role=\"region\" tabindex=\"0\"");
        attribute("aria-label", t->caption, out);
        kva_buf_printf(out, "><table class=\"sortable%s\"><caption><span>",
                       t->n_col && strcmp(t->col[m].id, "method") == 0 ? " by-method"
                                                                       : "");
        kva_report_escape(out, t->caption);
        kva_buf_puts(out, "</span></caption>\n<thead><tr>");
        th(t, m, true, out);
        for (int c = 0; c < t->n_col; c++)
            if (c != m && on_page(t, c))
                th(t, c, false, out);
        kva_buf_puts(out, "</tr></thead>\n<tbody>\n");
        rows(r, t, m, out);
        kva_buf_puts(out, "</tbody></table></div>\n");
    } else {
        kva_buf_puts(out, "<p class=\"aside\">");
        kva_report_escape(out, t->caption);
        kva_buf_puts(out, ": nothing to show.</p>\n");
    }
    notes(t, out);
    kva_buf_puts(out, "</section>\n");
}

static void section(const struct kva_report *r, int view, const char *id,
                    const char *title, bool folded, struct kva_buf *out)
{
    if (!has_view(r, view))
        return;
    kva_buf_printf(out, "<h2 id=\"%s\">%s</h2>\n", id, title);
    for (int i = 0; i < r->n_tab; i++) {
        if (r->tab[i].view != view)
            continue;
        if (folded) {
            kva_buf_puts(out, "<details><summary>");
            kva_report_escape(out, r->tab[i].caption);
            kva_buf_puts(out, "</summary>\n");
        }
        table(r, &r->tab[i], out);
        if (folded)
            kva_buf_puts(out, "</details>\n");
    }
}

/* ---- figures ---- */

static enum kva_status figures(const struct kva_report *r, const char *dir,
                               struct kva_buf *out, struct kva_error *err)
{
    if (r->n_figure == 0)
        return KVA_OK;
    kva_buf_puts(out, "<h2 id=\"figures\">Figures</h2>\n");
    for (int i = 0; i < r->n_figure; i++) {
        const struct kva_figure *f = &r->figure[i];
        struct kva_buf path, svg;
        struct kva_error none = {0};
        enum kva_status rc = KVA_EMISSING;
        char prefix[16]; /* ids inside: thousands of references */

        (void)snprintf(prefix, sizeof prefix, "f%d", i + 1);
        kva_buf_init(&path, 0);
        kva_buf_init(&svg, 0);
        if (dir && !f->empty) {
            kva_buf_printf(&path, "%s/%s.svg", dir, f->id);
            rc = path.failed ? KVA_ENOMEM
                             : kva_read_file(path.data, 64u << 20, &svg, &none);
        }
        kva_buf_printf(out, "<figure id=\"fig-%s\">", f->id);
        if (rc == KVA_OK) {
            kva_buf_puts(out, "<div class=\"scroll plot\" role=\"region\" tabindex=\"0\" "
                              "aria-label=\"");
            kva_report_escape(out, f->title);
            kva_buf_puts(out, "\">");
            rc = kva_svg_inline(svg.data, svg.len, prefix, f->title, out, err);
            kva_buf_puts(out, "</div>");
        } else {
            kva_buf_puts(out, "<p class=\"empty\">");
            if (f->empty)
                kva_report_escape(out, f->empty);
            else if (dir)
                kva_buf_printf(
                    out,
                    "Not drawn: gnuplot was missing, too old or failed. Its source "
                    "and data are "
                    "<a href=\"figures/%s.gp\">%s.gp</a> and "
                    "<a href=\"figures/%s.tsv\">%s.tsv</a>.",
                    f->id, f->id, f->id, f->id);
            else
                kva_buf_puts(
                    out, "Drawn only in a report directory (report -o DIR); the numbers "
                         "are in the <a href=\"#leaderboard\">tables</a>.");
            kva_buf_puts(out, "</p>");
            rc = KVA_OK;
        }
        kva_buf_puts(out, "<figcaption><strong>");
        kva_report_escape(out, f->title);
        kva_buf_puts(out, ".</strong> ");
        kva_report_escape(out, f->caption);
        kva_buf_puts(out, "</figcaption></figure>\n");
        kva_buf_release(&path);
        kva_buf_release(&svg);
        KVA_TRY(rc);
    }
    return KVA_OK;
}

/* Figures whose data nobody has made yet, and what makes them. */
static void absent_figures(const struct kva_report *r, struct kva_buf *out)
{
    if (r->n_absent == 0)
        return;
    kva_buf_puts(
        out,
        "<details class=\"absent\"><summary>Figures and tables without data</summary>"
        "<ul class=\"notes\">");
    for (int i = 0; i < r->n_absent; i++) {
        kva_buf_puts(out, "<li>");
        kva_report_escape(out, r->absent[i]);
        kva_buf_puts(out, "</li>");
    }
    kva_buf_puts(out, "</ul></details>\n");
}

static void column_help(const struct kva_tab *t, struct kva_buf *out)
{
    for (int c = 0; c < t->n_col; c++) {
        if (!on_page(t, c) || !t->col[c].help[0])
            continue;
        kva_buf_puts(out, "<dt>");
        kva_report_escape(out, t->col[c].label);
        kva_buf_puts(out, "</dt><dd>");
        kva_report_escape(out, t->col[c].help);
        kva_buf_puts(out, "</dd>");
    }
}

/* Tables of one view have the same columns, but those of a device. */
static void reading(const struct kva_report *r, struct kva_buf *out)
{
    bool device = r->view == KVA_VIEW_DEVICE, any = false;

    kva_buf_puts(out, "<h2 id=\"reading\">How to read</h2>\n<dl>");
    for (int i = 0; i < r->n_tab && (device || !any); i++)
        if (r->tab[i].view == first_view(r)) {
            column_help(&r->tab[i], out);
            any = true;
        }
    if (!device)
        kva_buf_puts(
            out, "<dt>\xe2\x96\xbc \xe2\x97\x8f \xe2\x96\xb2</dt><dd>significantly below "
                 "dense, not distinguishable from it, significantly above it</dd>"
                 "<dt>dense, blind</dt><dd>the full cache, and the question without its "
                 "context: the two ends of the scale, never ranked</dd>");
    kva_buf_puts(out, "</dl>\n");
}

enum kva_status kva_report_html(const struct kva_report *r, const char *figures_dir,
                                struct kva_buf *out, struct kva_error *err)
{
    int tasks = 0;

    if (r->opts.one_view)
        return KVA_FAIL(err, KVA_EINVALID, "report: built for one view, not for a page");
    for (int i = 0; i < r->n_tab; i++)
        tasks += r->tab[i].view == KVA_VIEW_TASKS;
    head(r, out);
    page_header(r, out);
    kva_buf_puts(out, "<main id=\"main\">\n");
    summary(r, out);
    kva_buf_printf(out, "<h2 id=\"leaderboard\">%s</h2>\n", first_heading(r));
    filters(r, out);
    for (int i = 0; i < r->n_tab; i++)
        if (r->tab[i].view == first_view(r))
            table(r, &r->tab[i], out);
    KVA_TRY(figures(r, figures_dir, out, err));
    absent_figures(r, out);
    section(r, KVA_VIEW_RETENTION, "retention", "Budget by budget", false, out);
    section(r, KVA_VIEW_TASKS, "tasks", "Task by task", tasks > 4, out);
    section(r, KVA_VIEW_PAIRS, "pairs", "Method against method",
            rows_of(r, KVA_VIEW_PAIRS) > 24, out);
    section(r, KVA_VIEW_SURVIVAL, "survival", "What survives",
            rows_of(r, KVA_VIEW_SURVIVAL) > 40, out);
    section(r, KVA_VIEW_ANSWERS, "answers", "Answers", true, out);
    section(r, KVA_VIEW_MEMORY, "memory", "Memory", false, out);
    section(r, KVA_VIEW_AUDIT, "audit", "Audit", false, out);
    section(r, KVA_VIEW_TIMING, "timing", "Timing", false, out);
    section(r, KVA_VIEW_NOISE, "noise-all", "Noise floor", true, out);
    section(r, KVA_VIEW_COVERAGE, "coverage-all", "Coverage", true, out);
    reading(r, out);
    section(r, KVA_VIEW_ABOUT, "runs-all", "Methods and runs", false, out);
    kva_buf_puts(out, "</main>\n<footer class=\"page\">\n");
    for (int i = 0; i < r->n_footer; i++) {
        kva_buf_puts(out, "<p>");
        kva_report_escape(out, r->footer[i]);
        kva_buf_puts(out, "</p>\n");
    }
    kva_buf_puts(out, "</footer>\n</div>\n<script>");
    kva_buf_puts(out, kva_report_js);
    kva_buf_puts(out, "</script>\n</body>\n</html>\n");
    return kva_buf_status(out, err);
}
