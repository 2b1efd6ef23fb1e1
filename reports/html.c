/* SPDX-License-Identifier: GPL-3.0-or-later */
/* html.c - one self-contained page: tables, drawings, one inline script whose hash the
 * content security policy names, no request to anywhere.
 *
 * The page is complete without script: sorted by rank, everything shown. The script adds
 * sorting, filters and the theme switch. It is also well-formed XML, so that a plain
 * parser can check it. */
#include "reports/internal.h"

#include <math.h>
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
    kva_buf_puts(out, "<li><a href=\"#leaderboard\">Leaderboard</a></li>");
    if (r->n_figure)
        kva_buf_puts(out, "<li><a href=\"#figures\">Figures</a></li>");
    if (has_view(r, KVA_VIEW_TASKS))
        kva_buf_puts(out, "<li><a href=\"#tasks\">Tasks</a></li>");
    if (has_view(r, KVA_VIEW_SURVIVAL))
        kva_buf_puts(out, "<li><a href=\"#survival\">Survival</a></li>");
    if (has_view(r, KVA_VIEW_ANSWERS))
        kva_buf_puts(out, "<li><a href=\"#answers\">Answers</a></li>");
    kva_buf_puts(out, "<li><a href=\"#memory\">Memory</a></li>");
    if (has_view(r, KVA_VIEW_TIMING))
        kva_buf_puts(out, "<li><a href=\"#timing\">Timing</a></li>");
    kva_buf_puts(out, "<li><a href=\"#coverage-all\">Coverage</a></li>"
                      "<li><a href=\"#reading\">How to read</a></li>"
                      "<li><a href=\"#runs-all\">Methods and runs</a></li></ul></nav>\n");
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

static void checks(const char *key, const char *legend, const char **v, int n,
                   struct kva_buf *out)
{
    int seen = 0;

    if (n)
        qsort(v, (size_t)n, sizeof *v, cmp_text);
    for (int i = 1; i < n; i++)
        seen += strcmp(v[i], v[i - 1]) != 0;
    if (n == 0 || seen == 0)
        return;
    kva_buf_printf(out, "<fieldset><legend>%s</legend>", legend);
    for (int i = 0; i < n; i++) {
        if (i && strcmp(v[i], v[i - 1]) == 0)
            continue;
        kva_buf_printf(
            out, "<label><input type=\"checkbox\" checked=\"\" name=\"%s\" value=\"",
            key);
        kva_report_escape(out, v[i]);
        kva_buf_puts(out, "\"/> ");
        kva_report_escape(out, v[i]);
        kva_buf_puts(out, "</label>");
    }
    kva_buf_puts(out, "</fieldset>");
}

static void filters(const struct kva_report *r, struct kva_buf *out)
{
    const char **v;
    int n = 0, arms = 0;

    for (int i = 0; i < r->n_board; i++)
        arms += r->board[i].n_arm + 1;
    v = kva_calloc((size_t)arms + 1, sizeof *v);
    if (!v) {
        out->failed = true;
        return;
    }
    kva_buf_puts(
        out, "<div class=\"tools js\" hidden=\"\"><input id=\"filter\" type=\"search\" "
             "placeholder=\"filter rows\" aria-label=\"Filter rows\"/>");
    for (int i = 0; i < r->n_board; i++)
        v[n++] = r->board[i].model;
    checks("model", "models", v, n, out);
    n = 0;
    for (int i = 0; i < r->n_board; i++)
        for (int k = 0; k < r->board[i].n_arm; k++)
            if (r->board[i].arm[k].role == KVA_ARM_METHOD)
                v[n++] = r->board[i].arm[k].name;
    checks("method", "methods", v, n, out);
    kva_buf_puts(out, "<span id=\"filter-count\" role=\"status\"></span></div>\n");
    free(v);
}

/* ---- tables ---- */

static bool on_page(const struct kva_col *c)
{
    return c->keep < 99;
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
           strcmp(c->id, "coverage") != 0;
}

static void th(const struct kva_tab *t, int c, bool stick, struct kva_buf *out)
{
    const struct kva_col *col = &t->col[c];

    kva_buf_printf(out, "<th scope=\"col\" aria-sort=\"none\" class=\"%s%s\"",
                   is_text(col) ? "t" : "n", stick ? " stick" : "");
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

static double clip(double v)
{
    return v < 0 ? 0 : v > 100 ? 100 : v;
}

/* Number, interval and a bar from 0 to 100 that shows both. */
static void interval(const struct kva_col *c, const struct kva_val *v,
                     struct kva_buf *out)
{
    double lo = 100 * v->lo, hi = 100 * v->hi;
    bool has = !isnan(v->lo);

    kva_buf_printf(out, "%.*f", c->digits, v->v * 100);
    if (has)
        kva_buf_printf(out, "<span class=\"ci\">%.1f\xe2\x80\x93%.1f</span>",
                       lo < 0 && lo > -0.05 ? 0.0 : lo, hi);
    kva_buf_puts(out, "<span class=\"bar\">");
    if (has)
        kva_buf_printf(out, "<i style=\"left:%.1f%%;width:%.1f%%\"></i>", clip(lo),
                       clip(hi) - clip(lo));
    kva_buf_printf(out, "<b style=\"left:%.1f%%\"></b></span>", clip(100 * v->v));
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

    if (strcmp(col->id, "audit") == 0 && v->text) {
        kva_buf_puts(out, "<span class=\"badge b-");
        lower(v->text, out);
        kva_buf_puts(out, "\">");
        kva_report_escape(out, v->text);
        kva_buf_puts(out, "</span>");
        return;
    }
    if (col->interval && col->kind == KVA_COL_PERCENT && !v->text && !isnan(v->v)) {
        interval(col, v, out);
        return;
    }
    if (strcmp(col->id, "delta") == 0 && !v->text && !isnan(v->v)) {
        delta(r, t, row, col, v, out);
        return;
    }
    kva_buf_init(&text, 0);
    kva_val_format(col, v, &text);
    if (isnan(v->v) && col->kind != KVA_COL_TEXT) {
        kva_buf_puts(out, "<span class=\"na\">");
        kva_report_escape(out, text.data);
        kva_buf_puts(out, "</span>");
    } else {
        kva_report_escape(out, text.data);
    }
    out->failed |= text.failed;
    kva_buf_release(&text);
}

static void data_v(const struct kva_tab *t, const struct kva_row *row, int c,
                   struct kva_buf *out)
{
    const struct kva_col *col = &t->col[c];
    const struct kva_val *v = &row->cell[c];
    const char *id = strcmp(col->id, "keep") == 0       ? "budget"
                     : strcmp(col->id, "coverage") == 0 ? "n_ok"
                                                        : NULL;

    for (int k = 0; id && k < t->n_col; k++) /* text shown, number sorted by */
        if (strcmp(t->col[k].id, id) == 0) {
            kva_buf_printf(out, " data-v=\"%.17g\"", row->cell[k].v);
            return;
        }
    kva_buf_puts(out, " data-v=\"");
    if (col->kind == KVA_COL_TEXT)
        kva_report_escape(out, v->text);
    else if (!isnan(v->v))
        kva_buf_printf(out, "%.17g", v->v);
    kva_buf_putc(out, '"');
}

static void td(const struct kva_report *r, const struct kva_tab *t,
               const struct kva_row *row, int c, bool stick, struct kva_buf *out)
{
    const struct kva_val *v = &row->cell[c];
    bool wide = strcmp(t->col[c].id, "method_spec") == 0 ||
                strcmp(t->col[c].id, "reason") == 0 ||
                strcmp(t->col[c].id, "compiler") == 0;

    kva_buf_printf(
        out, stick ? "<th scope=\"row\" class=\"stick%s%s%s\"" : "<td class=\"%s%s%s\"",
        stick                 ? ""
        : is_text(&t->col[c]) ? "t"
                              : "n",
        v->strong ? " first" : "", wide ? " wide" : "");
    if (v->title) {
        kva_buf_puts(out, " title=\"");
        kva_report_escape(out, v->title);
        kva_buf_putc(out, '"');
    }
    data_v(t, row, c, out);
    kva_buf_putc(out, '>');
    content(r, t, row, c, out);
    kva_buf_puts(out, stick ? "</th>" : "</td>");
}

static void table(const struct kva_report *r, const struct kva_tab *t,
                  struct kva_buf *out)
{
    static const char *const role[] = {"", "ref", "part"};
    int m = method_col(t);
    bool methods = t->n_col > 0 && strcmp(t->col[m].id, "method") == 0;

    kva_buf_puts(out, "<section class=\"block\"");
    if (t->model[0]) {
        kva_buf_puts(out, " data-model=\"");
        kva_report_escape(out, t->model);
        kva_buf_putc(out, '"');
    }
    kva_buf_printf(out, " id=\"%s\">\n", t->id);
    if (t->n_row > 0) {
        kva_buf_puts(
            out, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
        kva_report_escape(out, t->caption);
        kva_buf_puts(out, "\"><table class=\"sortable\"><caption><span>");
        kva_report_escape(out, t->caption);
        kva_buf_puts(out, "</span></caption>\n<thead><tr>");
        th(t, m, true, out);
        for (int c = 0; c < t->n_col; c++)
            if (c != m && on_page(&t->col[c]))
                th(t, c, false, out);
        kva_buf_puts(out, "</tr></thead>\n<tbody>\n");
        for (int k = 0; k < t->n_row; k++) {
            const struct kva_row *row = &t->row[k];

            kva_buf_printf(out, "<tr class=\"%s%s\"", role[row->role],
                           row->group ? " rule" : "");
            if (methods && row->role != KVA_ROW_REFERENCE && row->cell[m].text) {
                kva_buf_puts(out, " data-method=\"");
                kva_report_escape(out, row->cell[m].text);
                kva_buf_putc(out, '"');
            }
            kva_buf_putc(out, '>');
            td(r, t, row, m, true, out);
            for (int c = 0; c < t->n_col; c++)
                if (c != m && on_page(&t->col[c]))
                    td(r, t, row, c, false, out);
            kva_buf_puts(out, "</tr>\n");
        }
        kva_buf_puts(out, "</tbody></table></div>\n");
    } else {
        kva_buf_puts(out, "<p class=\"aside\">");
        kva_report_escape(out, t->caption);
        kva_buf_puts(out, ": nothing to show.</p>\n");
    }
    if (t->n_note) {
        kva_buf_puts(out, "<ul class=\"notes\">");
        for (int i = 0; i < t->n_note; i++) {
            kva_buf_puts(out, "<li>");
            kva_report_escape(out, t->note[i]);
            kva_buf_puts(out, "</li>");
        }
        kva_buf_puts(out, "</ul>\n");
    }
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
            rc = kva_svg_inline(svg.data, svg.len, f->id, f->title, out, err);
            kva_buf_puts(out, "</div>");
        } else {
            kva_buf_puts(out, "<p class=\"empty\">");
            if (f->empty)
                kva_report_escape(out, f->empty);
            else if (dir)
                kva_buf_printf(out,
                               "Not drawn: gnuplot was missing. Its source and data are "
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

static void reading(const struct kva_report *r, struct kva_buf *out)
{
    const struct kva_tab *t = NULL;

    for (int i = 0; i < r->n_tab && !t; i++)
        if (r->tab[i].view == KVA_VIEW_LEADERBOARD)
            t = &r->tab[i];
    kva_buf_puts(out, "<h2 id=\"reading\">How to read</h2>\n<dl>");
    for (int c = 0; t && c < t->n_col; c++) {
        if (!on_page(&t->col[c]) || !t->col[c].help[0])
            continue;
        kva_buf_puts(out, "<dt>");
        kva_report_escape(out, t->col[c].label);
        kva_buf_puts(out, "</dt><dd>");
        kva_report_escape(out, t->col[c].help);
        kva_buf_puts(out, "</dd>");
    }
    kva_buf_puts(
        out,
        "<dt>\xe2\x96\xbc \xe2\x97\x8f \xe2\x96\xb2</dt><dd>significantly below dense, "
        "not "
        "distinguishable from it, significantly above it</dd>"
        "<dt>dense, blind</dt><dd>the full cache, and the question without its context: "
        "the two ends of the scale, never ranked</dd></dl>\n");
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
    kva_buf_puts(out, "<h2 id=\"leaderboard\">Leaderboard</h2>\n");
    filters(r, out);
    for (int i = 0; i < r->n_tab; i++)
        if (r->tab[i].view == KVA_VIEW_LEADERBOARD)
            table(r, &r->tab[i], out);
    KVA_TRY(figures(r, figures_dir, out, err));
    section(r, KVA_VIEW_TASKS, "tasks", "Task by task", tasks > 4, out);
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
