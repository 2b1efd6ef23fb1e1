/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_loss.c - what a variant changes (F8): loss of a method beside that of the same
 * method with parts added, "snapkv" and "snapkv+critical", a group of bars per budget.
 *
 * Loss is 1 - retention. A base is a method whose name another begins with, up to a
 * "+". */
#include "reports/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool shown(const struct kva_arm *a)
{
    return a->role == KVA_ARM_METHOD && a->unranked == KVA_RANKED &&
           !isnan(a->boot.ratio);
}

static bool varies(const struct kva_arm *base, const struct kva_arm *a)
{
    size_t n = strlen(base->name);

    return strncmp(a->name, base->name, n) == 0 && a->name[n] == '+' &&
           kva_same_budget(a, base);
}

static void bar(struct kva_report *r, const struct kva_arm *a, bool variant, int *row,
                double *lo, double *hi, struct kva_buf *tsv, struct kva_buf *tics)
{
    const struct kva_interval *ci = &a->boot.ratio_ci;
    double loss = 100 * (1 - a->boot.ratio);
    double from = ci->ok ? 100 * (1 - ci->hi) : loss,
           to = ci->ok ? 100 * (1 - ci->lo) : loss;
    const char *label = kva_arena_printf(&r->arena, "%s %s", a->name, a->budget_text);

    kva_buf_printf(tsv, "%d\t%.4f\t%.4f\t%.4f\t%d\t%s\t%s\n", *row, loss, from, to,
                   variant, a->name, a->budget_text);
    kva_buf_puts(tics, *row ? ", " : "");
    kva_gp_quote_tic(tics, label ? label : "");
    kva_buf_printf(tics, " %d", (*row)++);
    *lo = fmin(*lo, from);
    *hi = fmax(*hi, to);
}

static void body_of(const struct kva_figure *f, int rows, double lo, double hi,
                    const struct kva_buf *tics, struct kva_buf *out)
{
    kva_gp_axes(out);
    kva_buf_printf(
        out,
        "set border 1\nset yrange [%d.6:-0.6]\nset xrange [%.6g:%.6g]\n"
        "set xlabel 'loss, %% of the dense score'\nset ytics (%s) nomirror scale 0\n"
        "set grid noytics xtics lc rgb '#999999' lw 0.4 dt 3\n"
        "set key outside top center horizontal reverse Left samplen 1.5\n"
        "set arrow 1 from 0, graph 0 to 0, graph 1 nohead lc rgb '" KVA_FIG_LINE
        "' lw 1\nset errorbars small\n",
        rows - 1, fmin(lo, 0) - 2, fmax(hi, 1) + 2, tics->data ? tics->data : "");
    for (int k = 0; k < 2; k++)
        kva_buf_printf(out,
                       "%s'%s.tsv' using (0):($5 == %d ? $1 : NaN):(0):2:($1-0.32):($1+"
                       "0.32) with boxxyerror fs solid noborder lc rgb '%s' title '%s'",
                       k ? ", \\\n  " : "plot ", f->id, k, kva_fig_colour[k ? 1 : 0],
                       k ? "variant" : "base");
    kva_buf_printf(out, ", \\\n  '' using 2:1:3:4 with xerrorbars pt 0 lc rgb 'black' "
                        "title '95 %% interval'\n");
}

void kva_figure_loss(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_figure *f;
    struct kva_buf tsv, tics, body;
    double lo = 0, hi = 0;
    int rows = 0;

    (void)d;
    (void)c;
    kva_buf_init(&tsv, 0);
    kva_buf_init(&tics, 0);
    kva_buf_init(&body, 0);
    kva_buf_puts(&tsv, "# row\tloss_pct\tlo\thi\tvariant\tmethod\tkeep\n");
    for (int i = 0; i < b->n_arm; i++) {
        bool base = false;

        for (int k = 0; shown(&b->arm[i]) && k < b->n_arm; k++) {
            if (!shown(&b->arm[k]) || !varies(&b->arm[i], &b->arm[k]))
                continue;
            if (!base)
                bar(r, &b->arm[i], false, &rows, &lo, &hi, &tsv, &tics);
            base = true;
            bar(r, &b->arm[k], true, &rows, &lo, &hi, &tsv, &tics);
        }
    }
    f = rows ? kva_figure_add(
                   r, KVA_FIG_LOSS, kva_arena_printf(&r->arena, "loss-%s", b->slug),
                   kva_arena_printf(&r->arena, "Loss of base and variant: %s", b->title))
             : NULL;
    if (f && f->id && f->title) {
        f->n_points = rows;
        f->height = 110 + 18 * (rows < 4 ? 4 : rows);
        f->caption = "Loss is 100 - retention. Each base is followed by the methods that "
                     "add something to it, at the same budget. Lines: 95 % intervals of "
                     "the paired bootstrap.";
        body_of(f, rows, lo, hi, &tics, &body);
        body.failed |= tics.failed;
        (void)kva_figure_close(r, f, &tsv, &body);
    } else {
        r->nomem |= rows > 0;
        kva_buf_release(&tsv);
        kva_buf_release(&body);
    }
    kva_buf_release(&tics);
}
