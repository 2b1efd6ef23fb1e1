/* SPDX-License-Identifier: GPL-3.0-or-later */
/* heat.c - panels of coloured cells: scores by depth (F2), survival per head (F5).
 *
 * Colour viridis, 0 to 100 on one scale over all panels; the number stands in each cell
 * while the cells are large enough, else a colour bar explains. A cell without a value is
 * hatched and says n/a; a marked one has a dot. */
#include "reports/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Nine colours of viridis, linear between them. */
unsigned kva_viridis(double v)
{
    static const unsigned stop[9] = {0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c,
                                     0x28ae80, 0x5ec962, 0xaddc30, 0xfde725};
    double at = fmin(fmax(v, 0), 1) * 8, f;
    int i = at >= 8 ? 7 : (int)at;
    unsigned out = 0;

    f = at - i;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double a = stop[i] >> shift & 255, b = stop[i + 1] >> shift & 255;

        out |= (unsigned)lround(a + f * (b - a)) << shift;
    }
    return out;
}

static double linear(unsigned byte)
{
    double c = byte / 255.0;

    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

unsigned kva_ink_on(unsigned rgb)
{
    double y = 0.2126 * linear(rgb >> 16 & 255) + 0.7152 * linear(rgb >> 8 & 255) +
               0.0722 * linear(rgb & 255);

    /* contrast with black (y + .05)/.05 against white 1.05/(y + .05) */
    return (y + 0.05) * (y + 0.05) > 0.05 * 1.05 ? 0x000000 : 0xffffff;
}

bool kva_heat_init(struct kva_report *r, struct kva_heat *p, const char *title, int n_x,
                   int n_y)
{
    size_t n = (size_t)n_x + 1, cells = (size_t)n_x * (size_t)n_y + 1;

    *p = (struct kva_heat){.title = title, .n_x = n_x, .n_y = n_y};
    p->x = kva_arena_alloc(&r->arena, n, sizeof *p->x);
    p->sum = kva_arena_alloc(&r->arena, cells, sizeof *p->sum);
    p->n = kva_arena_alloc(&r->arena, cells, sizeof *p->n);
    p->marked = kva_arena_alloc(&r->arena, cells, sizeof *p->marked);
    p->also = kva_arena_alloc(&r->arena, cells, sizeof *p->also);
    if (p->title && p->x && p->sum && p->n && p->marked && p->also)
        return true;
    r->nomem = true;
    return false;
}

void kva_heat_counts(const struct kva_heat *p, int n, int *lo, int *hi)
{
    *lo = *hi = 0;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < p[k].n_x * p[k].n_y; i++)
            if (p[k].n[i]) {
                *lo = *lo == 0 || p[k].n[i] < *lo ? p[k].n[i] : *lo;
                *hi = p[k].n[i] > *hi ? p[k].n[i] : *hi;
            }
}

static void heat_row(const struct kva_heat *p, int x, int y, const char *y_name,
                     struct kva_buf *tsv)
{
    int at = x * p->n_y + y, n = p->n[at];
    double v = n ? p->sum[at] / n : 0;
    unsigned rgb = kva_viridis(v);

    if (n)
        kva_buf_printf(tsv, "%d\t%d\t%u\t%.0f\t%u\t%d\t%s\t%s\t%s\t%d\t%.4f", x, y, rgb,
                       100 * v, kva_ink_on(rgb), n, p->title, p->x[x], y_name,
                       p->marked[at], v);
    else
        kva_buf_printf(tsv, "%d\t%d\t0\tn/a\t0\t0\t%s\t%s\t%s\t0\tnan", x, y, p->title,
                       p->x[x], y_name);
    if (p->also[at])
        kva_buf_printf(tsv, "\t%s", p->also[at]);
    kva_buf_putc(tsv, '\n');
}

static void heat_data(const struct kva_heat *p, int n_panels,
                      const struct kva_heat_axes *a, struct kva_buf *tsv, int *points)
{
    kva_buf_printf(tsv,
                   "# column\trow\trgb\tvalue\tink\tn\tpanel\tx\ty\tmarked\tmean%s%s\n",
                   a->also ? "\t" : "", a->also ? a->also : "");
    for (int k = 0; k < n_panels; k++)
        for (int hole = 0; hole < 2; hole++) { /* two blocks a panel: values, holes */
            bool any = false;

            if (k || hole)
                kva_buf_puts(tsv, "\n\n");
            for (int x = 0; x < p[k].n_x; x++)
                for (int y = 0; y < p[k].n_y; y++) {
                    if ((p[k].n[x * p[k].n_y + y] == 0) != (hole == 1))
                        continue;
                    any = true;
                    heat_row(&p[k], x, y, a->y[y], tsv);
                    (*points)++;
                }
            if (!any) /* an empty block would shift the index of the next */
                kva_buf_puts(tsv, "-9\t-9\t0\t\t0\t0\t\t\t\t0\tnan\n");
        }
}

static void heat_panel(const struct kva_heat *p, const char *id, int k,
                       const struct kva_heat_axes *a, bool rotate, struct kva_buf *out)
{
    int step = p->n_x > 16 ? (p->n_x + 7) / 8 : 1,
        font = a->beside || p->n_x > 11 ? 9 : 10;

    kva_buf_puts(out, "set title ");
    kva_gp_quote(out, p->title);
    kva_buf_printf(out, " font ',11'\nset xrange [-0.5:%d.5]\nset xtics (", p->n_x - 1);
    for (int x = 0; x < p->n_x; x += step) {
        kva_buf_puts(out, x ? ", " : "");
        kva_gp_quote_tic(out, p->x[x]);
        kva_buf_printf(out, " %d", x);
    }
    kva_buf_printf(out, ") %s scale 0%s\nset xlabel '%s'\n",
                   rotate ? "rotate by 40 right" : "norotate",
                   a->beside ? " font ',10'" : "", a->xlabel);
    kva_buf_printf(
        out,
        "plot '%s.tsv' index %d using 1:2:(0.5):(0.5):%d with boxxyerror fs solid "
        "noborder lc %s notitle, \\\n"
        "  '' index %d using 1:2:(0.46):(0.46) with boxxyerror fs pattern 4 lc rgb "
        "'" KVA_FIG_LINE "' lw 0.4 notitle",
        id, 2 * k, a->numbers ? 3 : 4, a->numbers ? "rgb variable" : "palette",
        2 * k + 1);
    if (a->numbers)
        kva_buf_printf(out,
                       ", \\\n  '' index %d using 1:2:4:5 with labels font ',%d' tc rgb "
                       "variable notitle, \\\n"
                       "  '' index %d using 1:2:4 with labels font ',9' tc rgb 'black' "
                       "notitle",
                       2 * k, font, 2 * k + 1);
    if (a->marks)
        kva_buf_printf(out,
                       ", \\\n  '' index %d using ($10 == 1 ? $1 - 0.38 : NaN):($2 - "
                       "0.3):5 with points pt 7 ps 0.45 lc rgb variable notitle",
                       2 * k);
    kva_buf_putc(out, '\n');
}

static void heat_axes(const struct kva_heat_axes *a, struct kva_buf *out)
{
    int step = a->n_y > 16 && !a->beside ? (a->n_y + 7) / 8 : 1;

    kva_buf_printf(out,
                   "set datafile separator \"\\t\"\nset yrange [%d.5:-0.5]\nset ytics (",
                   a->n_y - 1);
    for (int y = 0; y < a->n_y; y += step) {
        kva_buf_puts(out, y ? ", " : "");
        kva_gp_quote_tic(out, a->y[y]);
        kva_buf_printf(out, " %d", y);
    }
    kva_buf_printf(out,
                   ") scale 0 font ',10'\nset ylabel '%s'\nunset key\nset border 0\n",
                   a->ylabel);
    if (a->numbers)
        return;
    kva_buf_puts(out, "set palette defined (");
    for (int i = 0; i <= 8; i++)
        kva_buf_printf(out, "%s%d '#%06x'", i ? ", " : "", i, kva_viridis(i / 8.0));
    kva_buf_puts(out, ")\nset cbrange [0:100]\nset cbtics 25 scale 0 font ',10'\n");
}

static size_t widest(const struct kva_heat_axes *a)
{
    size_t n = 0;

    for (int y = 0; y < a->n_y; y++)
        n = strlen(a->y[y]) > n ? strlen(a->y[y]) : n;
    return n;
}

void kva_heat_figure(struct kva_report *r, enum kva_figure_kind kind, const char *id,
                     const char *title, const struct kva_heat *p, int n,
                     const struct kva_heat_axes *axes, const char *caption)
{
    struct kva_figure *f = kva_figure_add(r, kind, id, title);
    struct kva_buf tsv, body;
    int most = 0, cols, rows;
    size_t longest = 0;
    bool rotate;

    if (!f || !id || !title || !caption) {
        r->nomem = true;
        return;
    }
    for (int k = 0; k < n; k++) {
        most = p[k].n_x > most ? p[k].n_x : most;
        for (int x = 0; x < p[k].n_x; x++)
            longest = strlen(p[k].x[x]) > longest ? strlen(p[k].x[x]) : longest;
    }
    cols = !axes->numbers ? 3 : most <= 8 ? 3 : most <= 13 ? 2 : 1;
    cols = axes->beside || cols > n ? n : cols;
    rows = (n + cols - 1) / cols;
    /* 8 px a letter and a gap against a column; axis and margins take three tenths */
    rotate = axes->beside || (axes->numbers && ((int)longest * 8 + 8) * most * cols >
                                                   KVA_FIG_WIDTH * 7 / 10);
    f->height =
        axes->beside ? 140 + 18 * axes->n_y : rows * (330 + (rotate ? 30 : 0)) + 10;
    f->caption = caption;
    f->series = kva_arena_alloc(&r->arena, (size_t)n + 1, sizeof *f->series);
    kva_buf_init(&tsv, 0);
    kva_buf_init(&body, 0);
    heat_data(p, n, axes, &tsv, &f->n_points);
    heat_axes(axes, &body);
    kva_buf_printf(&body, "set multiplot layout %d,%d", rows, cols);
    if (axes->beside) /* names of at most 40 letters on the left */
        kva_buf_printf(&body, " margins %.3f,0.99,%.4f,%.4f spacing 0.015,0",
                       fmin(0.3, 0.05 + 0.0075 * (double)widest(axes)), 80.0 / f->height,
                       1 - 30.0 / f->height);
    else if (axes->numbers) /* rotated names must not narrow a panel */
        kva_buf_printf(&body, "\nset lmargin %zu\nset rmargin 1", 5 + widest(axes));
    kva_buf_putc(&body, '\n');
    for (int k = 0; k < n; k++) {
        if (!axes->numbers && k == 1)
            kva_buf_puts(&body, "unset colorbox\n");
        if (axes->beside && k == 1)
            kva_buf_puts(&body, "unset ytics\nunset ylabel\n");
        heat_panel(&p[k], f->id, k, axes, rotate, &body);
        if (f->series)
            f->series[f->n_series++] = p[k].title;
    }
    kva_buf_puts(&body, "unset multiplot\n");
    if (!f->series)
        r->nomem = true;
    (void)kva_figure_close(r, f, &tsv, &body);
}
