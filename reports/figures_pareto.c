/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_pareto.c - score against the bytes held (F12, reports.md 4.8).
 *
 * x is what was measured, K, V and bookkeeping, not the nominal budget. The line is the
 * front: no other point holds as little and scores as high. A filled point is dominated
 * also when chance is counted: a point of the front holds no more and is significantly
 * better (paired, not adjusted). A hollow one is not. */
#include "reports/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLIPS 2000

struct field {
    const struct kva_arm **arm;
    double *x, *y;
    uint8_t *front;
    bool *dominated;
    int n;
};

static int cmp_x(const void *p, const void *q)
{
    const struct kva_arm *a = *(const struct kva_arm *const *)p;
    const struct kva_arm *b = *(const struct kva_arm *const *)q;
    double x = a->alloc + a->meta, y = b->alloc + b->meta;

    if (x != y)
        return x < y ? -1 : 1;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return strcmp(a->spec, b->spec);
}

static bool collect(struct kva_report *r, const struct kva_board *b, struct field *f)
{
    size_t most = (size_t)b->n_arm + 1;

    f->arm = kva_arena_alloc(&r->arena, most, sizeof *f->arm);
    f->x = kva_arena_alloc(&r->arena, most, sizeof *f->x);
    f->y = kva_arena_alloc(&r->arena, most, sizeof *f->y);
    f->front = kva_arena_alloc(&r->arena, most, sizeof *f->front);
    f->dominated = kva_arena_alloc(&r->arena, most, sizeof *f->dominated);
    if (!f->arm || !f->x || !f->y || !f->front || !f->dominated)
        return false;
    f->n = 0;
    for (int k = 0; k < b->n_arm; k++)
        if (b->arm[k].role != KVA_ARM_BLIND && b->arm[k].unranked == KVA_RANKED &&
            b->arm[k].alloc > 0 && !isnan(b->arm[k].score))
            f->arm[f->n++] = &b->arm[k];
    if (f->n)
        qsort(f->arm, (size_t)f->n, sizeof *f->arm, cmp_x);
    for (int i = 0; i < f->n; i++) {
        f->x[i] = f->arm[i]->alloc + f->arm[i]->meta;
        f->y[i] = f->arm[i]->score;
    }
    kva_stat_pareto(f->x, f->y, (size_t)f->n, f->front);
    return true;
}

/* Is x significantly better than y? */
static bool better(struct kva_report *r, const struct kva_data *d,
                   const struct kva_cells *c, const struct kva_board *b,
                   const struct kva_arm *x, const struct kva_arm *y)
{
    struct kva_pairs p;
    double v;

    if (kva_pairs_make(d, c, b, x, y, KVA_MEASURE_SCORE, &p, NULL) != KVA_OK) {
        r->nomem = true;
        return false;
    }
    v = kva_pair_p(&p, kva_pair_seed(d, b, x, y, r->opts.seed), FLIPS);
    kva_pairs_release(&p);
    return v < r->opts.alpha && x->score - y->score > b->noise;
}

static void judge(struct kva_report *r, const struct kva_data *d,
                  const struct kva_cells *c, const struct kva_board *b, struct field *f)
{
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->n && !f->front[i] && !f->dominated[i]; k++)
            f->dominated[i] = f->front[k] && f->x[k] <= f->x[i] && f->y[k] > f->y[i] &&
                              better(r, d, c, b, f->arm[k], f->arm[i]);
}

/* Three blocks: the front, what is dominated, what is not; each named by label. */
static void block(const struct field *f, int which, double div, struct kva_buf *tsv)
{
    bool any = false;

    for (int i = 0; i < f->n; i++) {
        int kind = f->front[i] ? 0 : f->dominated[i] ? 1 : 2;

        if (kind != which)
            continue;
        any = true;
        kva_buf_printf(tsv, "%.6g\t%.4f\t%s\t%s\t%d\n", f->x[i] / div, 100 * f->y[i],
                       f->arm[i]->name, f->arm[i]->budget_text, which);
    }
    if (!any)
        kva_buf_puts(tsv, "nan\tnan\t\t\t-1\n");
}

static void plot(const struct kva_figure *f, const char *unit, double lo, double hi,
                 struct kva_buf *out)
{
    static const char *const title[3] = {"on the front", "significantly dominated",
                                         "not significantly dominated"};
    static const int mark[3] = {7, 7, 6};
    static const char *const colour[3] = {"#0072B2", "#7A7A7A", "#D55E00"};

    kva_gp_axes(out);
    kva_gp_log2_tics(out, lo / 1.15, hi * 1.4, 1);
    kva_buf_printf(
        out,
        "set yrange [0:105]\nset ylabel 'score'\n"
        "set xlabel 'KV cache held, mean of a sample, %s (log scale)'\n"
        "set key outside top center horizontal reverse Left samplen 1.5\n"
        "plot '%s.tsv' index 0 using 1:2 with steps lc rgb '%s' lw 1.2 notitle",
        unit, f->id, colour[0]);
    for (int k = 0; k < 3; k++)
        kva_buf_printf(out,
                       ", \\\n  '%s.tsv' index %d using 1:2 with points pt %d ps 0.9 lc "
                       "rgb '%s' title '%s'",
                       f->id, k, mark[k], colour[k], title[k]);
    kva_buf_printf(out,
                   ", \\\n  '%s.tsv' index 0 using 1:2:(sprintf('%%s %%s', "
                   "strcol(3), strcol(4))) with labels offset 0.6,-0.6 left font ',10' "
                   "notitle\n",
                   f->id);
}

void kva_figure_pareto(struct kva_report *r, const struct kva_data *d,
                       const struct kva_cells *c, const struct kva_board *b)
{
    static const char *const name[3] = {"on the front", "significantly dominated",
                                        "not significantly dominated"};
    struct kva_figure *f;
    struct kva_buf tsv, body;
    struct field all;
    const char *unit;
    double div;

    if (!collect(r, b, &all)) {
        r->nomem = true;
        return;
    }
    if (all.n < 3)
        return;
    judge(r, d, c, b, &all);
    f = kva_figure_add(r, KVA_FIG_PARETO,
                       kva_arena_printf(&r->arena, "pareto-%s", b->slug),
                       kva_arena_printf(&r->arena, "Score against bytes: %s", b->title));
    if (!f || !f->id || !f->title) {
        r->nomem = true;
        return;
    }
    f->series = kva_arena_alloc(&r->arena, 3, sizeof *f->series);
    if (!f->series) {
        r->nomem = true;
        return;
    }
    memcpy(f->series, name, sizeof name);
    f->n_series = 3;
    f->n_points = all.n;
    kva_buf_init(&tsv, 0);
    kva_buf_init(&body, 0);
    unit = kva_fig_bytes(all.x[all.n - 1], &div);
    kva_buf_printf(&tsv, "# held_%s\tscore\tmethod\tkeep\tkind\n", unit);
    for (int k = 0; k < 3; k++) {
        kva_buf_puts(&tsv, k ? "\n\n" : "");
        block(&all, k, div, &tsv);
    }
    plot(f, unit, all.x[0] / div, all.x[all.n - 1] / div, &body);
    f->caption =
        "The line is the front: nothing measured here holds as few bytes and scores as "
        "high. Filled grey points are dominated beyond chance, hollow ones are not: a "
        "point of the front holds no more, but is not significantly better.";
    (void)kva_figure_close(r, f, &tsv, &body);
}
