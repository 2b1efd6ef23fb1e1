/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_retention.c - retention against the bytes really held (F1).
 *
 * Up to eight methods share one plot. More would hide each other: panels of six then,
 * every other method a thin grey line behind. */
#include "reports/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ONE_PLOT = 8, PER_PANEL = 6 };

struct range {
    double x0, x1, y0, y1;
};

static int cmp_x(const void *p, const void *q)
{
    const struct kva_arm *a = *(const struct kva_arm *const *)p;
    const struct kva_arm *b = *(const struct kva_arm *const *)q;

    if (a->effective != b->effective)
        return a->effective < b->effective ? -1 : 1;
    return strcmp(a->spec, b->spec);
}

static int points_of(const struct kva_board *b, const char *name,
                     const struct kva_arm **pt)
{
    int n = 0;

    for (int k = 0; k < b->n_arm; k++)
        if (b->arm[k].role == KVA_ARM_METHOD && strcmp(b->arm[k].name, name) == 0 &&
            b->arm[k].effective > 0 && !isnan(b->arm[k].boot.ratio) &&
            b->arm[k].unranked == KVA_RANKED)
            pt[n++] = &b->arm[k];
    if (n)
        qsort(pt, (size_t)n, sizeof *pt, cmp_x);
    return n;
}

static void retention_rows(const struct kva_arm **pt, int n, struct range *g,
                           struct kva_buf *tsv, bool *band)
{
    *band = n > 1;
    for (int i = 0; i < n; i++) {
        const struct kva_interval *ci = &pt[i]->boot.ratio_ci;
        double y = 100 * pt[i]->boot.ratio, lo = 100 * ci->lo, hi = 100 * ci->hi;

        *band &= ci->ok;
        if (!ci->ok)
            lo = hi = (double)NAN;
        kva_buf_printf(tsv, "%.6g\t%.4f\t%.4f\t%.4f\t%s\t%s\n", pt[i]->effective, y, lo,
                       hi, pt[i]->name, pt[i]->budget_text);
        g->x0 = fmin(g->x0, pt[i]->effective);
        g->x1 = fmax(g->x1, pt[i]->effective);
        g->y0 = fmin(g->y0, y);
        g->y1 = fmax(g->y1, y);
    }
}

/* Series of the figure: its name and whether all of its intervals exist. */
struct series {
    const char **name;
    bool *band;
    int n;
};

static void plot_series(const struct series *s, int from, int to, const char *id,
                        struct kva_buf *out)
{
    kva_buf_puts(out,
                 "plot 100 with lines lc rgb '" KVA_FIG_LINE "' dt 2 lw 0.8 notitle");
    if (s->n > to - from)
        kva_buf_printf(out,
                       ", \\\n  '%s.tsv' using 1:2 with lines lc rgb '" KVA_FIG_LINE
                       "' lw 0.3 notitle",
                       id);
    for (int i = from; i < to; i++)
        if (s->band[i])
            kva_buf_printf(out,
                           ", \\\n  '%s.tsv' index %d using 1:3:4 with filledcurves fs "
                           "transparent solid 0.08 noborder lc rgb '%s' notitle",
                           id, i, kva_fig_colour[(i - from) % 8]);
    for (int i = from; i < to; i++) {
        kva_buf_printf(
            out,
            ", \\\n  '%s.tsv' index %d using 1:2 with linespoints pt %d ps 0.9 "
            "lw 1.8 lc rgb '%s' title ",
            id, i, kva_fig_mark[(i - from) % 7], kva_fig_colour[(i - from) % 8]);
        kva_gp_quote(out, s->name[i]);
    }
    kva_buf_putc(out, '\n');
}

static void axes(const struct range *g, struct kva_buf *out)
{
    double low = floor(fmin(g->y0 - 5, 90) / 10) * 10;

    kva_gp_axes(out);
    kva_gp_log2_tics(out, g->x0 / 1.25, g->x1 * 1.15, 100);
    kva_buf_printf(out,
                   "set yrange [%.6g:%.6g]\nset samples 2\n"
                   "set xlabel 'bytes held, %% of the full cache (log scale)'\n"
                   "set ylabel 'retention %% of the dense score'\n",
                   low < 0 ? 0 : low, fmax(105, g->y1 + 3));
}

/* Names below the panel in two columns, of a size that two long ones fit. */
static void panels(const struct series *s, struct kva_figure *f, struct kva_buf *body)
{
    int n = (s->n + PER_PANEL - 1) / PER_PANEL;

    kva_buf_puts(body, "set bmargin 9\nset tmargin 1\nset tics font ',11'\n"
                       "set xlabel font ',11'\nset ylabel 'retention, %' font ',11'\n"
                       "set key at graph 0.5, -0.33 top center horizontal maxcols 2 "
                       "reverse Left samplen 1.5 font ',10'\n");
    f->height = kva_gp_panels(body, n, 2, 380);
    for (int k = 0; k < n; k++)
        plot_series(s, k * PER_PANEL,
                    (k + 1) * PER_PANEL < s->n ? (k + 1) * PER_PANEL : s->n, f->id, body);
    kva_buf_puts(body, "unset multiplot\n");
}

static bool series_init(struct kva_report *r, const struct kva_board *b, struct series *s)
{
    s->name = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *s->name);
    s->band = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *s->band);
    s->n = 0;
    return s->name && s->band;
}

static const char *why_empty(const struct kva_board *b)
{
    return b->dense < 0 ? "retention is not defined: the dense run is missing"
           : b->n_used == 0
               ? "retention is not shown: every task is below its guess floor"
               : "retention is not defined for any method yet";
}

void kva_figure_retention(struct kva_report *r, const struct kva_data *d,
                          const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_figure *f = kva_figure_add(
        r, KVA_FIG_RETENTION, kva_arena_printf(&r->arena, "retention-%s", b->slug),
        kva_arena_printf(&r->arena, "Retention against budget: %s", b->title));
    const struct kva_arm **pt =
        kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *pt);
    struct range g = {1, 1, 100, 100};
    struct kva_buf tsv, body;
    struct series s;
    int n;

    (void)d;
    (void)c;
    if (!f || !pt || !series_init(r, b, &s) || !f->id || !f->title) {
        r->nomem = true;
        return;
    }
    kva_buf_init(&tsv, 0);
    kva_buf_init(&body, 0);
    n = kva_fig_methods(b, s.name);
    kva_buf_puts(&tsv, "# effective_ratio\tretention_pct\tlo\thi\tmethod\tkeep\n");
    for (int i = 0; i < n; i++) {
        int m = points_of(b, s.name[i], pt);

        if (m == 0)
            continue;
        if (s.n)
            kva_buf_puts(&tsv, "\n\n");
        retention_rows(pt, m, &g, &tsv, &s.band[s.n]);
        s.name[s.n++] = s.name[i];
        f->n_points += m;
    }
    f->series = s.name;
    f->n_series = s.n;
    f->empty = s.n ? NULL : why_empty(b);
    axes(&g, &body);
    if (s.n > ONE_PLOT) {
        panels(&s, f, &body);
    } else {
        kva_buf_puts(&body,
                     "set key outside right top reverse Left samplen 2 spacing 1.3\n");
        plot_series(&s, 0, s.n, f->id, &body);
    }
    f->caption =
        s.n > ONE_PLOT
            ? "Score over the score of the full cache against the bytes really held, six "
              "methods a panel by name, the others in grey. Bands: 95 % intervals of the "
              "paired bootstrap. The dashed line is the full cache."
            : "Score over the score of the full cache against the bytes really held. "
              "Bands: 95 % intervals of the paired bootstrap. The dashed line is the "
              "full "
              "cache.";
    (void)kva_figure_close(r, f, &tsv, &body);
}
