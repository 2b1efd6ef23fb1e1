/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures.c - data and gnuplot sources of retention against budget (F1) and memory (F4).
 *
 * Facts of gnuplot 5.4 this rests on: `noenhanced`, else snap_kv gets a subscript; single
 * quotes keep every character but ' itself; a comment starts at # only where a line
 * begins, so data lines begin with a number. */
#include "reports/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const kva_fig_colour[8] = {"#0072B2", "#D55E00", "#009E73", "#C46C9C",
                                       "#B57B00", "#7A7A7A", "#3390CC", "#8C6D31"};
const int kva_fig_mark[7] = {7, 5, 9, 11, 13, 4, 6};

static void quote(struct kva_buf *out, const char *s, bool format)
{
    kva_buf_putc(out, '\'');
    for (; *s; s++) {
        if (*s == '\'' || (format && *s == '%'))
            kva_buf_putc(out, *s);
        kva_buf_putc(out, *s);
    }
    kva_buf_putc(out, '\'');
}

void kva_gp_quote(struct kva_buf *out, const char *s)
{
    quote(out, s, false);
}

void kva_gp_quote_tic(struct kva_buf *out, const char *s)
{
    quote(out, s, true);
}

const char *kva_gp_script(struct kva_arena *a, const char *id, int width, int height,
                          const char *body)
{
    return kva_arena_printf(
        a,
        "# gnuplot -d %s.gp  (5.4 or newer, in this directory)\n"
        "set terminal svg noenhanced size %d,%d font '" KVA_FIG_FONT
        ",13' linewidth 1.2\n"
        "set output '%s.svg'\n%s"
        "reset\n"
        "set terminal pngcairo noenhanced size %d,%d font '" KVA_FIG_FONT
        ",13' fontscale 2 linewidth 2.4 pointscale 2\n"
        "set output '%s.png'\n%s"
        "set output\n",
        id, width, height, id, body, 2 * width, 2 * height, id, body);
}

struct kva_figure *kva_figure_add(struct kva_report *r, enum kva_figure_kind kind,
                                  const char *id, const char *title)
{
    struct kva_figure *f;

    if ((r->n_figure & (r->n_figure - 1)) == 0) {
        struct kva_figure *grown = kva_arena_alloc(
            &r->arena, (size_t)(r->n_figure ? 2 * r->n_figure : 1), sizeof *grown);

        if (!grown) {
            r->nomem = true;
            return NULL;
        }
        if (r->n_figure)
            memcpy(grown, r->figure, (size_t)r->n_figure * sizeof *grown);
        r->figure = grown;
    }
    f = &r->figure[r->n_figure++];
    *f = (struct kva_figure){.kind = kind,
                             .id = id,
                             .title = title,
                             .caption = "",
                             .tsv = "",
                             .gp = "",
                             .width = KVA_FIG_WIDTH,
                             .height = KVA_FIG_HEIGHT};
    return f;
}

bool kva_figure_close(struct kva_report *r, struct kva_figure *f, struct kva_buf *tsv,
                      struct kva_buf *body)
{
    bool ok = !tsv->failed && !body->failed;

    if (ok) {
        f->tsv = kva_arena_strdup(&r->arena, tsv->data ? tsv->data : "");
        f->gp = kva_gp_script(&r->arena, f->id, f->width, f->height,
                              body->data ? body->data : "");
        ok = f->tsv && f->gp;
    }
    if (!ok)
        r->nomem = true;
    kva_buf_release(tsv);
    kva_buf_release(body);
    return ok;
}

/* Methods of a board in order of name, each once. */
static int cmp_name(const void *p, const void *q)
{
    return strcmp(*(const char *const *)p, *(const char *const *)q);
}

static int method_names(const struct kva_board *b, const char **name)
{
    int n = 0, m = 0;

    for (int k = 0; k < b->n_arm; k++)
        if (b->arm[k].role == KVA_ARM_METHOD)
            name[n++] = b->arm[k].name;
    if (n)
        qsort(name, (size_t)n, sizeof *name, cmp_name);
    for (int i = 0; i < n; i++)
        if (m == 0 || strcmp(name[i], name[m - 1]) != 0)
            name[m++] = name[i];
    return m;
}

/* ---- F1 ---- */

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

static void retention_axes(const struct range *g, struct kva_buf *out)
{
    double low = floor(fmin(g->y0 - 5, 90) / 10) * 10;
    bool any = false;

    kva_buf_printf(out,
                   "set datafile separator \"\\t\"\nset datafile missing 'nan'\n"
                   "set logscale x 2\nset xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n"
                   "set xlabel 'bytes held, %% of the full cache (log scale)'\n"
                   "set ylabel 'retention %% of the dense score'\n"
                   "set border 3 lw 0.8\nset tics nomirror out scale 0.6\n"
                   "set grid ytics lc rgb '#999999' lw 0.4 dt 3\n"
                   "set key outside right top reverse Left samplen 2 spacing 1.3\n"
                   "set xtics (",
                   g->x0 / 1.25, g->x1 * 1.15, low < 0 ? 0 : low, fmax(105, g->y1 + 3));
    for (double x = 1.0 / 128; x < 1.5; x *= 2)
        if (x >= g->x0 / 1.25 && x <= g->x1 * 1.15) {
            kva_buf_printf(out, "%s'%.3g' %.8g", any ? ", " : "", 100 * x, x);
            any = true;
        }
    if (!any || g->x1 / g->x0 < 2)
        kva_buf_printf(out, "%s'%.3g' %.8g", any ? ", " : "", 100 * g->x0, g->x0);
    kva_buf_puts(out, ")\n");
}

void kva_figure_retention(struct kva_report *r, const struct kva_data *d,
                          const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_figure *f = kva_figure_add(
        r, KVA_FIG_RETENTION, kva_arena_printf(&r->arena, "retention-%s", b->slug),
        kva_arena_printf(&r->arena, "Retention against budget: %s", b->title));
    const char **name = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *name);
    const struct kva_arm **pt =
        kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *pt);
    struct range g = {1, 1, 100, 100};
    struct kva_buf tsv, plot, body;
    int n, index = 0;

    (void)d;
    (void)c;
    if (!f || !name || !pt || !f->id || !f->title) {
        r->nomem = true;
        return;
    }
    kva_buf_init(&tsv, 0);
    kva_buf_init(&plot, 0);
    kva_buf_init(&body, 0);
    f->series = name;
    n = method_names(b, name);
    kva_buf_puts(&tsv, "# effective_ratio\tretention_pct\tlo\thi\tmethod\tkeep\n");
    for (int i = 0; i < n; i++) {
        const char *colour = kva_fig_colour[index % 8];
        int m = points_of(b, name[i], pt);
        bool band;

        if (m == 0)
            continue;
        if (index)
            kva_buf_puts(&tsv, "\n\n");
        retention_rows(pt, m, &g, &tsv, &band);
        if (band)
            kva_buf_printf(&plot,
                           ", \\\n  '%s.tsv' index %d using 1:3:4 with filledcurves fs "
                           "transparent solid 0.08 noborder lc rgb '%s' notitle",
                           f->id, index, colour);
        kva_buf_printf(
            &plot,
            ", \\\n  '%s.tsv' index %d using 1:2 with linespoints pt %d ps 0.9 "
            "lw 1.8 dt %d lc rgb '%s' title ",
            f->id, index, kva_fig_mark[index % 7], 1 + index / 8 % 4, colour);
        kva_gp_quote(&plot, name[i]);
        f->series[index++] = name[i];
        f->n_points += m;
    }
    f->n_series = index;
    if (index == 0) {
        f->empty = b->dense < 0 ? "retention is not defined: the dense run is missing"
                   : b->n_used == 0
                       ? "retention is not shown: every task is below its guess floor"
                       : "retention is not defined for any method yet";
        f->n_series = 0;
    }
    retention_axes(&g, &body);
    kva_buf_puts(&body,
                 "plot 100 with lines lc rgb '" KVA_FIG_LINE "' dt 2 lw 0.8 notitle");
    kva_buf_add(&body, plot.data ? plot.data : "", plot.len);
    kva_buf_putc(&body, '\n');
    body.failed |= plot.failed;
    kva_buf_release(&plot);
    f->caption =
        "Score over the score of the full cache against the bytes really held. Bands: "
        "95 % intervals of the paired bootstrap. The dashed line is the full cache.";
    (void)kva_figure_close(r, f, &tsv, &body);
}

/* ---- F4 ---- */

static const char *memory_unit(double most, double *div)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;

    for (*div = 1; most / *div >= 4096 && u < 4; u++)
        *div *= 1024;
    return unit[u];
}

static double peak_of(const struct kva_arm *a)
{
    return isnan(a->alone_peak) ? a->peak : a->alone_peak;
}

void kva_figure_memory(struct kva_report *r, const struct kva_data *d,
                       const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_figure *f = kva_figure_add(
        r, KVA_FIG_MEMORY, kva_arena_printf(&r->arena, "memory-%s", b->slug),
        kva_arena_printf(&r->arena, "Memory: %s", b->title));
    struct kva_buf tsv, tics, body;
    double most = 0, div, dense = (double)NAN;
    const char *unit;
    int n = 0;

    (void)d;
    (void)c;
    if (!f || !f->id || !f->title) {
        r->nomem = true;
        return;
    }
    kva_buf_init(&tsv, 0);
    kva_buf_init(&tics, 0);
    kva_buf_init(&body, 0);
    for (int k = 0; k < b->n_arm; k++) {
        most = fmax(most, isnan(b->arm[k].alloc) ? 0 : b->arm[k].alloc + b->arm[k].meta);
        most = fmax(most, isnan(peak_of(&b->arm[k])) ? 0 : peak_of(&b->arm[k]));
        if (b->arm[k].role == KVA_ARM_METHOD && !isnan(b->arm[k].dense_bytes))
            dense = b->arm[k].dense_bytes;
    }
    unit = memory_unit(most, &div);
    kva_buf_printf(&tsv, "# row\talloc_%s\tmeta_%s\tpeak_%s\tmethod\tkeep\n", unit, unit,
                   unit);
    for (int k = 0; k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];
        const char *label;

        if (a->role == KVA_ARM_BLIND || isnan(a->alloc))
            continue;
        kva_buf_printf(&tsv, "%d\t%.6g\t%.6g\t%.6g\t%s\t%s\n", n, a->alloc / div,
                       a->meta / div, peak_of(a) / div, a->name, a->budget_text);
        label = a->role == KVA_ARM_DENSE
                    ? a->name
                    : kva_arena_printf(&r->arena, "%s %s", a->name, a->budget_text);
        kva_buf_puts(&tics, n ? ", " : "");
        kva_gp_quote_tic(&tics, label ? label : "");
        kva_buf_printf(&tics, " %d", n);
        n++;
    }
    f->n_points = n;
    f->height = 110 + 20 * (n < 4 ? 4 : n);
    if (n == 0)
        f->empty = "no memory was recorded";
    kva_buf_printf(
        &body,
        "set datafile separator \"\\t\"\nset datafile missing 'nan'\n"
        "set yrange [%d.6:-0.6]\nset xrange [0:%.6g]\n"
        "set xlabel 'KV cache of one sample, %s'\nset ytics (%s) nomirror scale 0\n"
        "set xtics nomirror out scale 0.6\nset border 1 lw 0.8\n"
        "set grid xtics lc rgb '#999999' lw 0.4 dt 3\n"
        "set key outside top center horizontal reverse Left samplen 1.5\n",
        n > 0 ? n - 1 : 0, most > 0 ? 1.06 * most / div : 1, unit,
        tics.data ? tics.data : "");
    if (!isnan(dense))
        kva_buf_printf(
            &body,
            "set arrow 1 from %.6g, graph 0 to %.6g, graph 1 nohead lc rgb '" KVA_FIG_LINE
            "' "
            "dt 2 lw 1\n",
            dense / div, dense / div);
    kva_buf_printf(
        &body,
        "plot '%s.tsv' using (0):1:(0):2:($1-0.34):($1+0.34) with boxxyerror fs "
        "solid noborder lc rgb '" KVA_FIG_ALLOC "' title 'allocated', \\\n"
        "  '' using 2:1:2:($2+$3):($1-0.34):($1+0.34) with boxxyerror fs solid "
        "noborder lc rgb '" KVA_FIG_META "' title 'meta', \\\n"
        "  '' using 4:1 with points pt 7 ps 0.7 lc rgb '" KVA_FIG_PEAK
        "' title 'peak', \\\n"
        "  NaN with lines lc rgb '" KVA_FIG_LINE "' dt 2 title 'full cache'\n",
        f->id);
    f->caption =
        "Bytes allocated for K and V after eviction, bookkeeping beside them, and the "
        "largest sum at any time. One-shot prefill holds the whole cache once, so the "
        "peak "
        "stays near the full cache.";
    body.failed |= tics.failed;
    kva_buf_release(&tics);
    (void)kva_figure_close(r, f, &tsv, &body);
}
