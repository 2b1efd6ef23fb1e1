/* SPDX-License-Identifier: GPL-3.0-or-later */
/* heatmap.c - scores by depth of the needle (F2).
 *
 * Tasks that place one needle at random: one context length: columns are methods, one
 * panel per budget. Several lengths: columns are lengths, one panel per method, one
 * figure per budget. Rows are tenths of the depth, the start of the context on top. Tasks
 * of the grid (niah/grid) have figures of their own, see grid.c. */
#include "reports/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 10 };

static const char *const TENTHS[BINS] = {"0-10",  "10-20", "20-30", "30-40", "40-50",
                                         "50-60", "60-70", "70-80", "80-90", "90-100"};

/* Adds the scores of one arm to the cells from at, step apart; false when no sample has a
 * depth. */
static bool add_arm_at(const struct kva_data *d, const struct kva_cells *c,
                       const struct kva_board *b, const struct kva_arm *a,
                       struct kva_heat *p, int at, int step)
{
    bool any = false;

    for (int t = 0; t < b->n_task; t++) {
        int cell = a->cell[t];

        if (cell < 0 || !b->used[t] || b->n_used == 0 ||
            kva_is_grid(&d->tasks[b->task[t]]))
            continue;
        for (int i = c->first[cell]; i < c->first[cell + 1]; i++) {
            double depth = d->samples[c->obs[i].sample].depth;
            int bin = depth >= 1 ? BINS - 1 : (int)(depth * BINS);

            if (!(depth >= 0) || !c->obs[i].n_ok)
                continue;
            p->sum[at + bin * step] += c->obs[i].score;
            p->n[at + bin * step]++;
            any = true;
        }
    }
    return any;
}

static bool add_arm(const struct kva_data *d, const struct kva_cells *c,
                    const struct kva_board *b, const struct kva_arm *a,
                    struct kva_heat *p, int x)
{
    return add_arm_at(d, c, b, a, p, x * BINS, 1);
}

static const struct kva_heat_axes *axes(bool lengths)
{
    static const struct kva_heat_axes by[2] = {{.y = TENTHS,
                                                .n_y = BINS,
                                                .xlabel = "",
                                                .ylabel = "depth of the needle, %",
                                                .numbers = true},
                                               {.y = TENTHS,
                                                .n_y = BINS,
                                                .xlabel = "context length, tokens",
                                                .ylabel = "depth of the needle, %",
                                                .numbers = true}};

    return &by[lengths];
}

static const char *caption(struct kva_report *r, const struct kva_heat *p, int n)
{
    int lo, hi;

    kva_heat_counts(p, n, &lo, &hi);
    return kva_arena_printf(
        &r->arena,
        "Mean score (0 to 100) by where the needle stands in the context, 0 %% "
        "is its start; %d to %d samples a cell.",
        lo, hi);
}

/* One length and many methods: a row each, a panel per budget. */
static void by_row(struct kva_report *r, const struct kva_data *d,
                   const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_heat *p = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *p);
    const char **name = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 2, sizeof *name);
    struct kva_heat_axes by = {.xlabel = "depth of the needle, %", .beside = true};
    int all = 0, n = 0, rows;
    bool any = false, dense = b->dense >= 0;

    if (!p || !name) {
        r->nomem = true;
        return;
    }
    rows = dense + kva_fig_leaders(b, name + dense, &all);
    name[0] = dense ? "dense" : name[0];
    for (int k = 0; k < b->n_arm; k++) {
        if (b->arm[k].role != KVA_ARM_METHOD ||
            (k > 0 && kva_same_budget(&b->arm[k - 1], &b->arm[k])))
            continue;
        if (!kva_heat_init(r, &p[n],
                           kva_arena_printf(&r->arena, "keep %s", b->arm[k].budget_text),
                           BINS, rows))
            return;
        for (int x = 0; x < BINS; x++)
            p[n].x[x] = TENTHS[x];
        if (dense)
            any |= add_arm_at(d, c, b, &b->arm[b->dense], &p[n], 0, rows);
        for (int m = k; m < b->n_arm && kva_same_budget(&b->arm[m], &b->arm[k]); m++)
            for (int y = dense; y < rows; y++)
                if (strcmp(name[y], b->arm[m].name) == 0)
                    any |= add_arm_at(d, c, b, &b->arm[m], &p[n], y, rows);
        n++;
    }
    by.y = name;
    by.n_y = rows;
    by.ylabel = "";
    by.numbers = n <= 4;
    if (any)
        kva_heat_figure(
            r, KVA_FIG_DEPTH, kva_arena_printf(&r->arena, "depth-%s", b->slug),
            kva_arena_printf(&r->arena, "Score by needle depth: %s", b->title), p, n, &by,
            kva_arena_printf(&r->arena, "%s%s", caption(r, p, n),
                             kva_fig_shown(r, rows - dense, all)));
}

/* One length and few methods: side by side, a panel per budget. */
static void by_method(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_heat *p = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *p);
    int n = 0;
    bool any = false;

    for (int k = 0; p && k < b->n_arm; k++) {
        int n_x = b->dense >= 0, x = 0;

        if (b->arm[k].role != KVA_ARM_METHOD ||
            (k > 0 && kva_same_budget(&b->arm[k - 1], &b->arm[k])))
            continue;
        for (int m = k; m < b->n_arm && kva_same_budget(&b->arm[m], &b->arm[k]); m++)
            n_x++;
        if (!kva_heat_init(r, &p[n],
                           kva_arena_printf(&r->arena, "keep %s", b->arm[k].budget_text),
                           n_x, BINS))
            return;
        if (b->dense >= 0) {
            p[n].x[x] = "dense";
            any |= add_arm(d, c, b, &b->arm[b->dense], &p[n], x++);
        }
        for (int m = k; m < b->n_arm && kva_same_budget(&b->arm[m], &b->arm[k]); m++) {
            p[n].x[x] = b->arm[m].name;
            any |= add_arm(d, c, b, &b->arm[m], &p[n], x++);
        }
        n++;
    }
    if (any)
        kva_heat_figure(
            r, KVA_FIG_DEPTH, kva_arena_printf(&r->arena, "depth-%s", b->slug),
            kva_arena_printf(&r->arena, "Score by needle depth: %s", b->title), p, n,
            axes(false), caption(r, p, n));
}

/* Several lengths: one figure a budget, one panel a method. */
static void by_length(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board **b, int n_b)
{
    const struct kva_board *first = b[0];

    for (int k = 0; k < first->n_arm; k++) {
        struct kva_heat *p =
            kva_arena_alloc(&r->arena, (size_t)first->n_arm + 1, sizeof *p);
        int n = 0;
        bool any = false;

        if (!p) {
            r->nomem = true;
            return;
        }
        if (first->arm[k].role != KVA_ARM_METHOD ||
            (k > 0 && kva_same_budget(&first->arm[k - 1], &first->arm[k])))
            continue;
        for (int m = k;
             m < first->n_arm && kva_same_budget(&first->arm[m], &first->arm[k]); m++) {
            if (!kva_heat_init(r, &p[n], first->arm[m].name, n_b, BINS))
                return;
            for (int x = 0; x < n_b; x++) {
                p[n].x[x] = kva_arena_printf(&r->arena, "%d", b[x]->ctx);
                if (!p[n].x[x]) {
                    r->nomem = true;
                    return;
                }
                for (int j = 0; j < b[x]->n_arm; j++)
                    if (kva_same_budget(&b[x]->arm[j], &first->arm[k]) &&
                        strcmp(b[x]->arm[j].spec, first->arm[m].spec) == 0)
                        any |= add_arm(d, c, b[x], &b[x]->arm[j], &p[n], x);
            }
            n++;
        }
        if (any)
            kva_heat_figure(
                r, KVA_FIG_DEPTH,
                kva_arena_printf(&r->arena, "depth-%s-%d", first->slug, k),
                kva_arena_printf(&r->arena,
                                 "Score by needle depth and context length: %s, keep %s",
                                 first->model, first->arm[k].budget_text),
                p, n, axes(true), caption(r, p, n));
    }
}

/* A board of nothing but the grid: drawn in grid.c. */
static bool only_grid(const struct kva_data *d, const struct kva_board *b)
{
    for (int t = 0; t < b->n_task; t++)
        if (!kva_is_grid(&d->tasks[b->task[t]]))
            return false;
    return true;
}

/* Most methods at one budget. */
static int methods_at_most(const struct kva_board *b)
{
    int most = 0, n = 0;

    for (int k = 0; k < b->n_arm; k++) {
        n = k > 0 && kva_same_budget(&b->arm[k - 1], &b->arm[k]) ? n + 1 : 1;
        most = b->arm[k].role == KVA_ARM_METHOD && n > most ? n : most;
    }
    return most;
}

void kva_figure_depth(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *none)
{
    const struct kva_board **group =
        kva_arena_alloc(&r->arena, (size_t)r->n_board + 1, sizeof *group);
    bool *done = kva_arena_alloc(&r->arena, (size_t)r->n_board + 1, sizeof *done);

    (void)none;
    if (!group || !done) {
        r->nomem = true;
        return;
    }
    for (int i = 0; i < r->n_board; i++) {
        int n = 0;

        if (r->board[i].single || !r->board[i].ranks || done[i] ||
            !r->board[i].n_method || only_grid(d, &r->board[i]))
            continue;
        for (int j = i; j < r->n_board; j++)
            if (!r->board[j].single && !done[j] && r->board[j].n_method &&
                !only_grid(d, &r->board[j]) &&
                kva_same_but_length(&r->board[i], &r->board[j]) &&
                (n == 0 || group[n - 1]->ctx != r->board[j].ctx)) {
                group[n++] = &r->board[j];
                done[j] = true;
            }
        if (n > 1)
            by_length(r, d, c, group, n);
        else if (methods_at_most(&r->board[i]) > 12)
            by_row(r, d, c, &r->board[i]);
        else
            by_method(r, d, c, &r->board[i]);
    }
}
