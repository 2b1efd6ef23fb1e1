/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_memory.c - bytes of each method at each budget (F4). */
#include "reports/figures.h"

#include <math.h>

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
    unit = kva_fig_bytes(most, &div);
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
