/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_audit.c - bytes that each implementation of a method holds, against the nominal
 * ones (analysis.md 6.4). */
#include "reports/figures.h"

#include <math.h>
#include <string.h>

/* One bar: rows of claims that share cell and implementation. */
struct bar {
    double nominal, held, meta;
};

static int read_bar(const struct kva_data *d, int at, struct bar *b)
{
    int i = at;

    *b = (struct bar){NAN, NAN, NAN};
    for (; i < d->n_claims && d->claims[i].cell == d->claims[at].cell &&
           strcmp(d->claims[i].impl, d->claims[at].impl) == 0;
         i++) {
        const struct kva_data_claim *c = &d->claims[i];

        if (strcmp(c->claim, "bytes.nominal") == 0)
            b->nominal = c->value;
        if (strcmp(c->claim, "bytes.held") == 0)
            b->held = c->value;
        if (strcmp(c->claim, "bytes.meta") == 0)
            b->meta = c->value;
    }
    return i;
}

void kva_figure_audit(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *none)
{
    struct kva_figure *f;
    struct kva_buf tsv, tics, body;
    double most = 1;
    int n = 0;

    (void)none;
    if (d->n_claims == 0)
        return;
    f = kva_figure_add(r, KVA_FIG_AUDIT, "audit-bytes", "Bytes held, nominal bytes = 1");
    if (!f)
        return;
    kva_buf_init(&tsv, 0);
    kva_buf_init(&tics, 0);
    kva_buf_init(&body, 0);
    kva_buf_puts(&tsv, "# row\theld\tmeta\tmethod\tkeep\tenforce\n");
    for (int at = 0, end; at < d->n_claims; at = end) {
        const struct kva_data_claim *one = &d->claims[at];
        const struct kva_data_cell *cell = &d->cells[one->cell];
        const char *keep = kva_report_budget(&r->arena, cell->budget_kind, cell->budget);
        const char *impl = kva_report_clean(&r->arena, one->impl), *label;
        struct bar b;

        end = read_bar(d, at, &b);
        if (c->left_out[one->cell] || isnan(b.held) || !(b.nominal > 0))
            continue;
        most = fmax(most, (b.held + b.meta) / b.nominal);
        kva_buf_printf(&tsv, "%d\t%.6g\t%.6g\t%s\t%s\t%s\n", n, b.held / b.nominal,
                       b.meta / b.nominal, c->name[one->cell], keep, impl);
        label = kva_arena_printf(&r->arena, "%s %s %s", c->name[one->cell], keep, impl);
        kva_buf_puts(&tics, n ? ", " : "");
        kva_gp_quote_tic(&tics, label ? label : "");
        kva_buf_printf(&tics, " %d", n++);
    }
    f->n_points = n;
    f->height = 110 + 18 * (n < 4 ? 4 : n);
    if (n == 0)
        f->empty = "no bytes were recorded";
    kva_buf_printf(
        &body,
        "set datafile separator \"\\t\"\nset datafile missing 'nan'\n"
        "set yrange [%d.6:-0.6]\nset xrange [0:%.6g]\n"
        "set xlabel 'bytes held / bytes claimed'\nset ytics (%s) nomirror scale 0\n"
        "set xtics nomirror out scale 0.6\nset border 1 lw 0.8\n"
        "set grid xtics lc rgb '#999999' lw 0.4 dt 3\n"
        "set key outside top center horizontal reverse Left samplen 1.5\n"
        "set arrow 1 from 1, graph 0 to 1, graph 1 nohead lc rgb '" KVA_FIG_LINE
        "' dt 2 lw 1\n"
        "plot '%s.tsv' using (0):1:(0):2:($1-0.34):($1+0.34) with boxxyerror fs solid "
        "noborder lc rgb '" KVA_FIG_ALLOC "' title 'held', \\\n"
        "  '' using 2:1:2:($2+$3):($1-0.34):($1+0.34) with boxxyerror fs solid noborder "
        "lc rgb '" KVA_FIG_META "' title 'meta', \\\n"
        "  NaN with lines lc rgb '" KVA_FIG_LINE "' dt 2 title 'claimed'\n",
        n > 0 ? n - 1 : 0, 1.06 * most, tics.data ? tics.data : "", f->id);
    f->caption =
        "Pages in use and bookkeeping after the last decision on the prompt, over "
        "the bytes the budget names: mask and fakekey as published code holds it, "
        "physical as held here, padded as a rectangular tensor would, union as one list "
        "per layer would, qhead with a copy for every query head.";
    body.failed |= tics.failed;
    kva_buf_release(&tics);
    (void)kva_figure_close(r, f, &tsv, &body);
}
