/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_pairs.c - F7: share of cells won, tied, lost and invalid, with the counts
 * (reports.md 6.4). A bar whose parts do not sum to its pairs is not drawn. */
#include "reports/duel.h"
#include "reports/figures.h"

#include <string.h>

enum { MOST = 40, REFERENCES = 4 }; /* bars of one figure; figures */

static void bar(struct kva_report *r, const struct kva_wtl *x, int row,
                struct kva_buf *tsv, struct kva_buf *tics, struct kva_buf *labels)
{
    const struct kva_tally *t = &x->tally[KVA_TIE_STAT];
    const int part[4] = {t->win, t->tie, t->loss, t->invalid};
    const char *name =
        x->bytes ? kva_arena_printf(&r->arena, "%s, equal bytes", x->method) : x->method;
    double from = 0;

    kva_buf_printf(tsv, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", row, t->win, t->tie,
                   t->loss, t->invalid, t->n, x->bytes ? "bytes" : "nominal", x->method,
                   x->reference);
    kva_buf_puts(tics, row ? ", " : "");
    kva_gp_quote_tic(tics, name ? name : "");
    kva_buf_printf(tics, " %d", row);
    for (int k = 0; k < 4; k++) {
        double share = 100.0 * part[k] / t->n;

        if (part[k])
            kva_buf_printf(labels, "set label '%d' at %.6g, %d center front\n", part[k],
                           from + share / 2, row);
        from += share;
    }
}

/* One bar a tally; none for the bytes where they tell nothing further. */
static bool drawn(const struct kva_wtl *x)
{
    const struct kva_tally *t = &x->tally[KVA_TIE_STAT];

    if (x->bytes &&
        (x->same || (t->invalid == t->n && strcmp(x->reference, "dense") == 0)))
        return false;
    return t->n > 0 && t->win + t->tie + t->loss + t->invalid == t->n;
}

static void against(struct kva_report *r, const char *reference, int number)
{
    static const char *const colour[4] = {"#0072B2", "#7A7A7A", "#D55E00", "#C46C9C"};
    static const char *const from[4] = {"0", "$2", "($2+$3)", "($2+$3+$4)"};
    static const char *const to[4] = {"$2", "($2+$3)", "($2+$3+$4)", "($2+$3+$4+$5)"};
    struct kva_buf tsv, tics, labels, body;
    int n = 0, left = 0;
    struct kva_figure *f = kva_figure_add(
        r, KVA_FIG_PAIRS, kva_arena_printf(&r->arena, "pairs-%d", number),
        kva_arena_printf(&r->arena, "Win, tie and loss against %s", reference));

    if (!f || !f->id || !f->title) {
        r->nomem = true;
        return;
    }
    kva_buf_init(&tsv, 0);
    kva_buf_init(&tics, 0);
    kva_buf_init(&labels, 0);
    kva_buf_init(&body, 0);
    kva_buf_puts(&tsv,
                 "# row\twin\ttie\tloss\tinvalid\tpairs\tmatch\tmethod\treference\n");
    for (int i = 0; i < r->n_wtl; i++)
        if (strcmp(r->wtl[i].reference, reference) == 0 && drawn(&r->wtl[i])) {
            if (n < MOST)
                bar(r, &r->wtl[i], n++, &tsv, &tics, &labels);
            else
                left++;
        }
    f->n_points = n;
    f->height = 120 + 22 * (n < 4 ? 4 : n);
    if (n == 0)
        f->empty = "no pair met";
    kva_buf_printf(&body,
                   "set datafile separator \"\\t\"\n%s"
                   "set yrange [%d.6:-0.6]\nset xrange [0:100]\n"
                   "set xlabel 'share of pairs, %%; numbers are counts'\n"
                   "set ytics (%s) nomirror scale 0\nset xtics nomirror out scale 0.6\n"
                   "set border 1 lw 0.8\n"
                   "set key outside top center horizontal reverse Left samplen 1.5\n"
                   "plot ",
                   labels.data ? labels.data : "", n > 0 ? n - 1 : 0,
                   tics.data ? tics.data : "");
    for (int k = 0; k < 4; k++) /* columns 2 to 5 stacked, in per cent of column 6 */
        kva_buf_printf(&body,
                       "%s'%s%s' using (100.0*%s/$6):1:(100.0*%s/$6):(100.0*%s/$6):"
                       "($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb "
                       "'%s' title '%s'",
                       k ? ", \\\n  " : "", k ? "" : f->id, k ? "" : ".tsv", from[k],
                       from[k], to[k], colour[k], kva_verdict_names[k]);
    kva_buf_putc(&body, '\n');
    f->caption = kva_arena_printf(
        &r->arena,
        "Cells that a test tells apart (tie rule stat). Blue: the method is ahead, "
        "orange: %s."
        "%s",
        reference, left ? " The table has the pairs that found no room here." : "");
    if (!f->caption)
        f->caption = "";
    body.failed |= tics.failed || labels.failed;
    kva_buf_release(&tics);
    kva_buf_release(&labels);
    (void)kva_figure_close(r, f, &tsv, &body);
}

void kva_figure_pairs(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *none)
{
    int n = 0;

    (void)d;
    (void)c;
    (void)none;
    for (int i = 0; i < r->n_wtl && n < REFERENCES; i++) {
        bool again = false;

        for (int k = 0; k < i && !again; k++)
            again = strcmp(r->wtl[k].reference, r->wtl[i].reference) == 0;
        if (!again)
            against(r, r->wtl[i].reference, ++n);
    }
}
