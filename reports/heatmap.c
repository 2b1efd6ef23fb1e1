/* SPDX-License-Identifier: GPL-3.0-or-later */
/* heatmap.c - scores by depth of the needle (F2).
 *
 * One context length: columns are methods, one panel per budget. Several lengths: columns
 * are lengths, one panel per method, one figure per budget. Rows are tenths of the depth,
 * the start of the context on top. Colour viridis, 0 to 100 on one scale, the number in
 * each cell; a cell without a sample is hatched and says n/a. */
#include "reports/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 10 };

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

struct panel {
    const char *title;
    const char **x;
    int n_x;
    double (*sum)[BINS]; /* [n_x] */
    int (*n)[BINS];
};

static bool panel_init(struct kva_report *r, struct panel *p, const char *title, int n_x)
{
    size_t n = (size_t)n_x + 1;

    p->title = title;
    p->n_x = n_x;
    p->x = kva_arena_alloc(&r->arena, n, sizeof *p->x);
    p->sum = kva_arena_alloc(&r->arena, n, sizeof *p->sum);
    p->n = kva_arena_alloc(&r->arena, n, sizeof *p->n);
    if (p->title && p->x && p->sum && p->n)
        return true;
    r->nomem = true;
    return false;
}

/* Adds the scores of one arm to a column; false when no sample has a depth. */
static bool add_arm(const struct kva_data *d, const struct kva_cells *c,
                    const struct kva_board *b, const struct kva_arm *a, struct panel *p,
                    int x)
{
    bool any = false;

    for (int t = 0; t < b->n_task; t++) {
        int cell = a->cell[t];

        if (cell < 0 || !b->used[t] || b->n_used == 0)
            continue;
        for (int i = c->first[cell]; i < c->first[cell + 1]; i++) {
            double depth = d->samples[c->obs[i].sample].depth;
            int bin = depth >= 1 ? BINS - 1 : (int)(depth * BINS);

            if (!(depth >= 0) || !c->obs[i].n_ok)
                continue;
            p->sum[x][bin] += c->obs[i].score;
            p->n[x][bin]++;
            any = true;
        }
    }
    return any;
}

static void heat_data(const struct panel *p, int n_panels, struct kva_buf *tsv,
                      int *points)
{
    kva_buf_puts(tsv, "# column\tdepth_tenth\trgb\tscore\tink\tn\tpanel\tx\n");
    for (int k = 0; k < n_panels; k++)
        for (int hole = 0; hole < 2; hole++) { /* two blocks a panel: values, holes */
            bool any = false;

            if (k || hole)
                kva_buf_puts(tsv, "\n\n");
            for (int x = 0; x < p[k].n_x; x++)
                for (int y = 0; y < BINS; y++) {
                    int n = p[k].n[x][y];
                    double v = n ? p[k].sum[x][y] / n : 0;
                    unsigned rgb = kva_viridis(v);

                    if ((n == 0) != (hole == 1))
                        continue;
                    any = true;
                    if (n)
                        kva_buf_printf(tsv, "%d\t%d\t%u\t%.0f\t%u\t%d\t%s\t%s\n", x, y,
                                       rgb, 100 * v, kva_ink_on(rgb), n, p[k].title,
                                       p[k].x[x]);
                    else
                        kva_buf_printf(tsv, "%d\t%d\t0\tn/a\t0\t0\t%s\t%s\n", x, y,
                                       p[k].title, p[k].x[x]);
                    (*points)++;
                }
            if (!any) /* an empty block would shift the index of the next */
                kva_buf_puts(tsv, "-9\t-9\t0\t\t0\t0\t\t\n");
        }
}

static void heat_panel(const struct panel *p, const char *id, int k, const char *xlabel,
                       bool rotate, struct kva_buf *out)
{
    kva_buf_puts(out, "set title ");
    kva_gp_quote(out, p->title);
    kva_buf_printf(out, "\nset xrange [-0.5:%d.5]\nset xtics (", p->n_x - 1);
    for (int x = 0; x < p->n_x; x++) {
        kva_buf_puts(out, x ? ", " : "");
        kva_gp_quote_tic(out, p->x[x]);
        kva_buf_printf(out, " %d", x);
    }
    kva_buf_printf(out, ") %s scale 0\nset xlabel '%s'\n",
                   rotate ? "rotate by 40 right" : "norotate", xlabel);
    kva_buf_printf(
        out,
        "plot '%s.tsv' index %d using 1:2:(0.5):(0.5):3 with boxxyerror fs solid "
        "noborder lc rgb variable notitle, \\\n"
        "  '' index %d using 1:2:(0.46):(0.46) with boxxyerror fs pattern 4 lc rgb "
        "'" KVA_FIG_LINE "' lw 0.4 notitle, \\\n"
        "  '' index %d using 1:2:4:5 with labels font ',10' tc rgb variable notitle, "
        "\\\n"
        "  '' index %d using 1:2:4 with labels font ',9' tc rgb 'black' notitle\n",
        id, 2 * k, 2 * k + 1, 2 * k, 2 * k + 1);
}

static void heat_figure(struct kva_report *r, const char *id, const char *title,
                        const struct panel *p, int n, const char *xlabel,
                        const char *caption)
{
    struct kva_figure *f = kva_figure_add(r, KVA_FIG_DEPTH, id, title);
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
    cols = most <= 8 ? 3 : most <= 13 ? 2 : 1;
    cols = cols > n ? n : cols;
    rows = (n + cols - 1) / cols;
    /* 8 px a letter and a gap against a column; axis and margins take three tenths */
    rotate = ((int)longest * 8 + 8) * most * cols > KVA_FIG_WIDTH * 7 / 10;
    f->height = rows * (330 + (rotate ? 30 : 0)) + 10;
    f->caption = caption;
    f->series = kva_arena_alloc(&r->arena, (size_t)n + 1, sizeof *f->series);
    kva_buf_init(&tsv, 0);
    kva_buf_init(&body, 0);
    heat_data(p, n, &tsv, &f->n_points);
    kva_buf_printf(
        &body,
        "set datafile separator \"\\t\"\nset yrange [9.5:-0.5]\n"
        "set ytics ('0-10' 0, '10-20' 1, '20-30' 2, '30-40' 3, '40-50' 4, '50-60' 5, "
        "'60-70' 6, '70-80' 7, '80-90' 8, '90-100' 9) scale 0 font ',10'\n"
        "set ylabel 'depth of the needle, %%'\nunset key\nset border 0\n"
        "set multiplot layout %d,%d\n",
        rows, cols);
    for (int k = 0; k < n; k++) {
        heat_panel(&p[k], f->id, k, xlabel, rotate, &body);
        if (f->series)
            f->series[f->n_series++] = p[k].title;
    }
    kva_buf_puts(&body, "unset multiplot\n");
    if (!tsv.failed && !body.failed) {
        f->tsv = kva_arena_strdup(&r->arena, tsv.data);
        f->gp = kva_gp_script(&r->arena, f->id, f->width, f->height, body.data);
    }
    if (!f->series || !f->tsv || !f->gp || tsv.failed || body.failed)
        r->nomem = true;
    kva_buf_release(&tsv);
    kva_buf_release(&body);
}

static bool same_budget(const struct kva_arm *x, const struct kva_arm *y)
{
    return x->role == y->role && x->budget == y->budget &&
           strcmp(x->budget_kind, y->budget_kind) == 0;
}

/* All but the context length. */
static bool same_but_length(const struct kva_board *a, const struct kva_board *b)
{
    return a->model_index == b->model_index && a->ranks && b->ranks &&
           strcmp(a->visibility, b->visibility) == 0 &&
           strcmp(a->schedule, b->schedule) == 0 &&
           strcmp(a->numerics, b->numerics) == 0 && strcmp(a->kv, b->kv) == 0 &&
           strcmp(a->variant, b->variant) == 0 && a->ctx > 0 && b->ctx > 0;
}

static const char *counts(struct kva_report *r, const struct panel *p, int n)
{
    int lo = 0, hi = 0;

    for (int k = 0; k < n; k++)
        for (int x = 0; x < p[k].n_x; x++)
            for (int y = 0; y < BINS; y++)
                if (p[k].n[x][y]) {
                    lo = lo == 0 || p[k].n[x][y] < lo ? p[k].n[x][y] : lo;
                    hi = p[k].n[x][y] > hi ? p[k].n[x][y] : hi;
                }
    return kva_arena_printf(
        &r->arena,
        "Mean score (0 to 100) by where the needle stands in the context, 0 %% "
        "is its start; %d to %d samples a cell.",
        lo, hi);
}

/* One length: methods side by side, a panel per budget. */
static void by_method(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b)
{
    struct panel *p = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *p);
    int n = 0;
    bool any = false;

    for (int k = 0; p && k < b->n_arm; k++) {
        int n_x = b->dense >= 0, x = 0;

        if (b->arm[k].role != KVA_ARM_METHOD ||
            (k > 0 && same_budget(&b->arm[k - 1], &b->arm[k])))
            continue;
        for (int m = k; m < b->n_arm && same_budget(&b->arm[m], &b->arm[k]); m++)
            n_x++;
        if (!panel_init(r, &p[n],
                        kva_arena_printf(&r->arena, "keep %s", b->arm[k].budget_text),
                        n_x))
            return;
        if (b->dense >= 0) {
            p[n].x[x] = "dense";
            any |= add_arm(d, c, b, &b->arm[b->dense], &p[n], x++);
        }
        for (int m = k; m < b->n_arm && same_budget(&b->arm[m], &b->arm[k]); m++) {
            p[n].x[x] = b->arm[m].name;
            any |= add_arm(d, c, b, &b->arm[m], &p[n], x++);
        }
        n++;
    }
    if (any)
        heat_figure(r, kva_arena_printf(&r->arena, "depth-%s", b->slug),
                    kva_arena_printf(&r->arena, "Score by needle depth: %s", b->title), p,
                    n, "", counts(r, p, n));
}

/* Several lengths: one figure a budget, one panel a method. */
static void by_length(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board **b, int n_b)
{
    const struct kva_board *first = b[0];

    for (int k = 0; k < first->n_arm; k++) {
        struct panel *p = kva_arena_alloc(&r->arena, (size_t)first->n_arm + 1, sizeof *p);
        int n = 0;
        bool any = false;

        if (!p) {
            r->nomem = true;
            return;
        }
        if (first->arm[k].role != KVA_ARM_METHOD ||
            (k > 0 && same_budget(&first->arm[k - 1], &first->arm[k])))
            continue;
        for (int m = k; m < first->n_arm && same_budget(&first->arm[m], &first->arm[k]);
             m++) {
            if (!panel_init(r, &p[n], first->arm[m].name, n_b))
                return;
            for (int x = 0; x < n_b; x++) {
                p[n].x[x] = kva_arena_printf(&r->arena, "%d", b[x]->ctx);
                if (!p[n].x[x]) {
                    r->nomem = true;
                    return;
                }
                for (int j = 0; j < b[x]->n_arm; j++)
                    if (same_budget(&b[x]->arm[j], &first->arm[k]) &&
                        strcmp(b[x]->arm[j].spec, first->arm[m].spec) == 0)
                        any |= add_arm(d, c, b[x], &b[x]->arm[j], &p[n], x);
            }
            n++;
        }
        if (any)
            heat_figure(
                r, kva_arena_printf(&r->arena, "depth-%s-%d", first->slug, k),
                kva_arena_printf(&r->arena,
                                 "Score by needle depth and context length: %s, keep %s",
                                 first->model, first->arm[k].budget_text),
                p, n, "context length, tokens", counts(r, p, n));
    }
}

void kva_figure_depth(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c)
{
    const struct kva_board **group =
        kva_arena_alloc(&r->arena, (size_t)r->n_board + 1, sizeof *group);
    bool *done = kva_arena_alloc(&r->arena, (size_t)r->n_board + 1, sizeof *done);

    if (!group || !done) {
        r->nomem = true;
        return;
    }
    for (int i = 0; i < r->n_board; i++) {
        int n = 0;

        if (r->board[i].single || !r->board[i].ranks || done[i] || !r->board[i].n_method)
            continue;
        for (int j = i; j < r->n_board; j++)
            if (!r->board[j].single && !done[j] && r->board[j].n_method &&
                same_but_length(&r->board[i], &r->board[j]) &&
                (n == 0 || group[n - 1]->ctx != r->board[j].ctx)) {
                group[n++] = &r->board[j];
                done[j] = true;
            }
        if (n > 1)
            by_length(r, d, c, group, n);
        else
            by_method(r, d, c, &r->board[i]);
    }
}
