/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid.c - the needle grid niah/grid (tasks-ruler.md 13): context length by nominal
 * depth.
 *
 * The figure has one panel a method, one figure a budget; numbers are mean scores over
 * the rounds. A dot marks cells whose evidence lies wholly where the method never evicts
 * (sinks, recent window, floor) in every round: they measure the method's floor, not its
 * scores. The table has a row a sample, columns as in section 13; the round is the count
 * of earlier samples at the same depth. */
#include "reports/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool kva_is_grid(const struct kva_data_task *t)
{
    return strcmp(t->suite, "niah") == 0 && strncmp(t->name, "grid", 4) == 0 &&
           (t->name[4] == 0 || t->name[4] == ':');
}

/* ---- the table ---- */

enum {
    R_LENGTH,
    R_DEPTH,
    R_ROUND,
    R_ACC,
    R_PAYLOAD,
    R_E,
    R_D,
    R_NLL,
    R_PROTECTED,
    R_TASK,
    R_MODEL,
    R_METHOD,
    R_KEEP,
    R_ENFORCE,
    R_VISIBILITY,
    R_SCHEDULE,
    R_SPEC,
    R_BUDGET_KIND,
    R_BUDGET,
    R_COLS
};
static const struct kva_col COLS[R_COLS] = {
    {"length", "length", "tokens", KVA_COL_INT, 0, false, 0, false, "context length L"},
    {"depth", "depth", "%", KVA_COL_PERCENT, 0, false, 0, false, "nominal"},
    {"round", "round", "", KVA_COL_INT, 0, false, 0, false, "from 0"},
    {"acc", "score", "", KVA_COL_PERCENT, 0, false, 0, false, ""},
    {"surv_payload", "payload", "%", KVA_COL_PERCENT, 1, false, 1, false, ""},
    {"surv_E", "evidence", "%", KVA_COL_PERCENT, 1, false, 2, false, ""},
    {"surv_D", "distractor", "%", KVA_COL_PERCENT, 1, false, 3, false, ""},
    {"nll", "nats", "", KVA_COL_REAL, 2, false, 2, false, "of a gold token"},
    {"protected", "protected", "", KVA_COL_INT, 0, false, 1, false,
     "1: the evidence lies wholly where the method never evicts"},
    {"task", "task", "", KVA_COL_TEXT, 0, false, 4, false, ""},
    {"model", "model", "", KVA_COL_TEXT, 0, false, 5, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"enforce", "enforce", "", KVA_COL_TEXT, 0, false, 6, false, ""},
    {"visibility", "visibility", "", KVA_COL_TEXT, 0, false, 4, false, ""},
    {"schedule", "schedule", "", KVA_COL_TEXT, 0, false, 4, false, ""},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

/* Earlier samples of the same task at the same depth. */
static int round_of(const struct kva_data *d, int sample)
{
    const struct kva_data_sample *s = &d->samples[sample];
    int n = 0;

    for (int i = sample - 1; i >= 0 && d->samples[i].task == s->task; i--)
        n += d->samples[i].depth == s->depth;
    return n;
}

static void sample_row(struct kva_report *r, const struct kva_data *d,
                       const struct kva_cells *c, const struct kva_data_outcome *o,
                       struct kva_row *row)
{
    const struct kva_data_cell *x = &d->cells[o->cell];
    struct kva_val *v = row->cell;

    v[R_LENGTH] = kva_val_number(d->tasks[x->task].ctx);
    v[R_DEPTH] = kva_val_number(d->samples[o->sample].depth);
    v[R_ROUND] = kva_val_number(round_of(d, o->sample));
    v[R_ACC] = kva_val_number(o->score);
    v[R_PAYLOAD] = kva_val_number(o->span_payload);
    v[R_E] = kva_val_number(o->span_e);
    v[R_D] = kva_val_number(o->span_d);
    v[R_NLL] = kva_val_number(o->gold_nll);
    v[R_PROTECTED] = kva_val_number(o->is_protected);
    v[R_TASK] = kva_val_text(c->label[x->task]);
    v[R_MODEL] = kva_val_text(kva_report_clean(&r->arena, d->models[x->model].name));
    v[R_METHOD] = kva_val_text(c->name[o->cell]);
    v[R_KEEP] = kva_val_text(kva_report_budget(&r->arena, x->budget_kind, x->budget));
    v[R_ENFORCE] = kva_val_text(kva_report_clean(&r->arena, x->enforce));
    v[R_VISIBILITY] = kva_val_text(kva_report_clean(&r->arena, x->visibility));
    v[R_SCHEDULE] = kva_val_text(kva_report_clean(&r->arena, x->schedule));
    v[R_SPEC] = kva_val_text(kva_report_clean(&r->arena, x->method));
    v[R_BUDGET_KIND] = kva_val_text(kva_report_clean(&r->arena, x->budget_kind));
    v[R_BUDGET] = kva_val_number(x->budget);
}

void kva_grid_table(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c)
{
    struct kva_tab *t = NULL;

    for (int i = 0; i < d->n_outcomes; i++) {
        const struct kva_data_outcome *o = &d->outcomes[i];
        const struct kva_data_cell *x = &d->cells[o->cell];
        struct kva_row *row;

        if (!kva_is_grid(&d->tasks[x->task]) || c->left_out[o->cell] ||
            strcmp(o->status, "ok") != 0 || strcmp(x->method, "blind") == 0)
            continue;
        if (!t && !(t = kva_tab_add(r, "grid", KVA_VIEW_GRID, COLS, R_COLS)))
            return;
        t->heading = t->caption = "Needle grid, sample by sample";
        row = kva_tab_row(r, t);
        if (!row)
            return;
        sample_row(r, d, c, o, row);
        row->role = strcmp(x->method, "dense") == 0 ? KVA_ROW_REFERENCE : KVA_ROW_PLAIN;
        row->group = t->n_row > 1 && d->outcomes[i - 1].cell != o->cell;
    }
}

/* ---- the figure ---- */

enum { MAX_DEPTHS = 101 };

struct depths {
    double at[MAX_DEPTHS];
    const char *name[MAX_DEPTHS];
    int n;
};

static int depth_index(const struct depths *x, double depth)
{
    for (int i = 0; i < x->n; i++)
        if (x->at[i] == depth)
            return i;
    return -1;
}

static int cmp_double(const void *p, const void *q)
{
    double a = *(const double *)p, b = *(const double *)q;

    return a < b ? -1 : a > b;
}

/* Nominal depths of the samples of these boards' tasks, from the start down. */
static void collect(struct kva_report *r, const struct kva_data *d,
                    const struct kva_board *const *b, int n_b, struct depths *x)
{
    x->n = 0;
    for (int k = 0; k < n_b; k++)
        for (int i = 0; i < d->n_samples; i++)
            if (d->samples[i].task == b[k]->task[0] && d->samples[i].depth >= 0 &&
                depth_index(x, d->samples[i].depth) < 0 && x->n < MAX_DEPTHS)
                x->at[x->n++] = d->samples[i].depth;
    qsort(x->at, (size_t)x->n, sizeof *x->at, cmp_double);
    for (int i = 0; i < x->n; i++) {
        x->name[i] = kva_arena_printf(&r->arena, "%.4g", 100 * x->at[i]);
        r->nomem |= !x->name[i];
    }
}

static bool add_cell(const struct kva_data *d, const struct kva_cells *c, int cell,
                     const struct depths *by, struct kva_heat *p, int x)
{
    int protect[MAX_DEPTHS] = {0};
    bool any = false;

    for (int i = cell < 0 ? 0 : c->first_outcome[cell];
         cell >= 0 && i < c->first_outcome[cell + 1]; i++) {
        const struct kva_data_outcome *o = &d->outcomes[i];
        int y = depth_index(by, d->samples[o->sample].depth);

        if (y < 0 || strcmp(o->status, "ok") != 0)
            continue;
        p->sum[x * by->n + y] += o->score;
        p->n[x * by->n + y]++;
        protect[y] += o->is_protected;
        any = true;
    }
    for (int y = 0; y < by->n; y++)
        p->marked[x * by->n + y] = protect[y] > 0 && protect[y] == p->n[x * by->n + y];
    return any;
}

static const struct kva_arm *like(const struct kva_board *b, const struct kva_arm *a)
{
    for (int j = 0; j < b->n_arm; j++)
        if (kva_same_budget(&b->arm[j], a) && strcmp(b->arm[j].spec, a->spec) == 0)
            return &b->arm[j];
    return NULL;
}

/* One panel: the arm of every board that is the same method at the same budget. */
static bool panel(struct kva_report *r, const struct kva_data *d,
                  const struct kva_cells *c, const struct kva_board *const *b, int n_b,
                  const struct kva_arm *a, const struct depths *by, struct kva_heat *p)
{
    bool any = false;

    if (!kva_heat_init(r, p, a->name, n_b, by->n))
        return false;
    for (int x = 0; x < n_b; x++) {
        const struct kva_arm *m = like(b[x], a);

        p->x[x] = kva_arena_printf(&r->arena, "%d", b[x]->ctx);
        if (!p->x[x]) {
            r->nomem = true;
            return false;
        }
        any |= m && add_cell(d, c, m->cell[0], by, p, x);
    }
    return any;
}

static void grid_figures(struct kva_report *r, const struct kva_data *d,
                         const struct kva_cells *c, const struct kva_board *const *b,
                         int n_b)
{
    const struct kva_board *first = b[0];
    struct depths *by = kva_arena_alloc(&r->arena, 1, sizeof *by);
    struct kva_heat_axes axes = {.xlabel = "context length, tokens",
                                 .ylabel = "depth of the needle, %",
                                 .marks = true};

    if (!by) {
        r->nomem = true;
        return;
    }
    collect(r, d, b, n_b, by);
    axes.y = by->name;
    axes.n_y = by->n;
    axes.numbers = by->n <= 14;
    for (int k = 0; k < first->n_arm && by->n && !r->nomem; k++) {
        struct kva_heat *p =
            kva_arena_alloc(&r->arena, (size_t)first->n_arm + 1, sizeof *p);
        int n = 0, lo, hi;

        if (first->arm[k].role != KVA_ARM_METHOD ||
            (k > 0 && kva_same_budget(&first->arm[k - 1], &first->arm[k])))
            continue;
        if (!p) {
            r->nomem = true;
            return;
        }
        if (first->dense >= 0)
            n += panel(r, d, c, b, n_b, &first->arm[first->dense], by, &p[n]);
        for (int m = k;
             m < first->n_arm && kva_same_budget(&first->arm[m], &first->arm[k]); m++)
            n += panel(r, d, c, b, n_b, &first->arm[m], by, &p[n]);
        if (n == 0)
            continue;
        kva_heat_counts(p, n, &lo, &hi);
        kva_heat_figure(
            r, KVA_FIG_DEPTH, kva_arena_printf(&r->arena, "grid-%s-%d", first->slug, k),
            kva_arena_printf(&r->arena, "Needle grid: %s, %s, keep %s", first->model,
                             first->task_label[0], first->arm[k].budget_text),
            p, n, &axes,
            kva_arena_printf(&r->arena,
                             "Mean score (0 to 100) by context length and nominal depth, "
                             "%d to %d samples a cell. A dot: the evidence lies wholly "
                             "where the method never evicts, so the cell measures its "
                             "floor and not its scores.",
                             lo, hi));
    }
}

void kva_figure_grid(struct kva_report *r, const struct kva_data *d,
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
        const struct kva_board *b = &r->board[i];
        int n = 0;

        if (!b->single || !b->ranks || done[i] || !b->n_method ||
            !kva_is_grid(&d->tasks[b->task[0]]))
            continue;
        for (int j = i; j < r->n_board; j++) {
            const struct kva_board *o = &r->board[j];

            if (o->single && !done[j] && o->n_method && kva_same_but_length(b, o) &&
                strcmp(d->tasks[b->task[0]].name, d->tasks[o->task[0]].name) == 0 &&
                strcmp(d->tasks[b->task[0]].suite, d->tasks[o->task[0]].suite) == 0 &&
                (n == 0 || group[n - 1]->ctx != o->ctx)) {
                group[n++] = o;
                done[j] = true;
            }
        }
        if (n) /* a board without a length stands alone */
            grid_figures(r, d, c, group, n);
    }
}
