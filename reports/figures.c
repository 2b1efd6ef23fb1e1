/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures.c - what the figures share: colours, quoting, scripts, panels.
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
        "if (GPVAL_VERSION < 5.4) { exit error '" KVA_GNUPLOT_OLD "' }\n"
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

static int cmp_name(const void *p, const void *q)
{
    return strcmp(*(const char *const *)p, *(const char *const *)q);
}

int kva_fig_methods(const struct kva_board *b, const char **name)
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

int kva_fig_leaders(const struct kva_board *b, const char **name, int *all)
{
    int n = kva_fig_methods(b, name), m = 0;

    if (all)
        *all = n;
    if (n <= KVA_FIG_PANELS)
        return n;
    for (int k = 0; k < b->n_arm && m < KVA_FIG_PANELS; k++) {
        bool is_new = b->arm[k].role == KVA_ARM_METHOD;

        for (int i = 0; i < m && is_new; i++)
            is_new = strcmp(name[i], b->arm[k].name) != 0;
        if (is_new)
            name[m++] = b->arm[k].name;
    }
    qsort(name, (size_t)m, sizeof *name, cmp_name);
    return m;
}

const char *kva_fig_shown(struct kva_report *r, int shown, int all)
{
    const char *s =
        shown == all ? ""
                     : kva_arena_printf(&r->arena,
                                        " %d of %d methods are drawn, those that stand "
                                        "first in the leaderboard; the table has all.",
                                        shown, all);

    if (!s)
        r->nomem = true;
    return s ? s : "";
}

int kva_gp_panels(struct kva_buf *out, int n, int most, int height)
{
    int cols = n < most ? n : most, rows = (n + cols - 1) / cols;

    kva_buf_printf(out, "set multiplot layout %d,%d\n", rows, cols);
    return 20 + height * rows;
}

const char *kva_fig_bytes(double most, double *div)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;

    for (*div = 1; most / *div >= 4096 && u < 4; u++)
        *div *= 1024;
    return unit[u];
}

void kva_gp_axes(struct kva_buf *out)
{
    kva_buf_puts(out, "set datafile separator \"\\t\"\nset datafile missing 'nan'\n"
                      "set border 3 lw 0.8\nset tics nomirror out scale 0.6\n"
                      "set grid ytics lc rgb '#999999' lw 0.4 dt 3\n");
}

void kva_gp_log2_tics(struct kva_buf *out, double lo, double hi, double scale)
{
    bool any = false;

    kva_buf_printf(out, "set logscale x 2\nset xrange [%.6g:%.6g]\nset xtics (", lo, hi);
    for (double x = exp2(ceil(log2(lo))); x <= hi; x *= 2) {
        kva_buf_printf(out, "%s'%.4g' %.8g", any ? ", " : "", scale * x, x);
        any = true;
    }
    if (!any)
        kva_buf_printf(out, "'%.3g' %.8g", scale * sqrt(lo * hi), sqrt(lo * hi));
    kva_buf_puts(out, ")\n");
}
