/* SPDX-License-Identifier: GPL-3.0-or-later */
/* summary.c - two numbers a method and suite, and retention over models (reports.md 4.8).
 *
 *   mean retention  trapezoid of R over log2(bytes held), over the range of bytes
 *   budget at 95 %  smallest share of the full cache's bytes with R >= 0.95, linear in
 *                   log2 between budgets; none: more than the largest one measured
 *   retention_macro unweighted mean over models of R at one method, budget and set of
 *                   tasks, with the interval of a mean of independent estimates
 *
 * Only complete, ranked rows with a retention count; means over different ranges are not
 * comparable, so the range stands beside them. */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEVEL 0.95

enum {
    S_METHOD,
    S_BUDGETS,
    S_FROM,
    S_TO,
    S_MEAN,
    S_NATS,
    S_AT95,
    S_MONOTONE,
    S_FRONT,
    S_SPEC,
    S_COLS
};
static const struct kva_col SUMMARY[S_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"budgets", "budgets", "", KVA_COL_INT, 0, false, 2, false,
     "complete rows that count"},
    {"held_from", "from", "%", KVA_COL_PERCENT, 1, false, 3, false,
     "smallest bytes held, share of the full cache"},
    {"held_to", "to", "%", KVA_COL_PERCENT, 1, false, 4, false, "largest bytes held"},
    {"mean_retention", "mean retention", "%", KVA_COL_PERCENT, 1, false, 0, false,
     "area under retention over log2 of the bytes held, divided by its range"},
    {"mean_nats_retention", "mean nats ret.", "%", KVA_COL_PERCENT, 1, false, 1, false,
     "the same of the nats retention"},
    {"budget_at_95", "95 % from", "%", KVA_COL_PERCENT, 1, false, 0, false,
     "smallest share of the full cache's bytes that retains 95 %"},
    {"monotone", "monotone", "", KVA_COL_TEXT, 0, false, 5, false,
     "no: more bytes once retained less, so the 95 % point is not the only one"},
    {"on_front", "on front", "", KVA_COL_INT, 0, false, 6, false,
     "budgets at which the method is on the Pareto front"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
};

static bool counts(const struct kva_arm *a)
{
    return a->role == KVA_ARM_METHOD && a->rank > 0 && !isnan(a->boot.ratio) &&
           a->effective > 0;
}

/* The points of a method on a board: shares held, bytes, retentions. */
struct points {
    double *x, *bytes, *r, *nats; /* room for n_arm each */
    int n, n_nats, front;
};

static void collect(const struct kva_board *b, const char *spec, struct points *p)
{
    p->n = p->n_nats = p->front = 0;
    for (int k = 0; k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];

        if (!counts(a) || strcmp(a->spec, spec) != 0)
            continue;
        p->x[p->n] = a->effective;
        p->bytes[p->n] = a->alloc + a->meta;
        p->r[p->n] = a->boot.ratio;
        p->nats[p->n++] = a->nats.ratio;
        p->n_nats += !isnan(a->nats.ratio);
        p->front += a->front;
    }
}

static void summary_row(struct kva_report *r, struct kva_tab *t, const struct kva_arm *a,
                        const struct points *p)
{
    struct kva_row *row = kva_tab_row(r, t);
    double lo = p->x[0], hi = p->x[0], at, most = p->r[0];
    bool monotone;
    struct kva_val *v;

    if (!row)
        return;
    for (int i = 0; i < p->n; i++) {
        lo = fmin(lo, p->x[i]);
        hi = fmax(hi, p->x[i]);
        most = fmax(most, p->r[i]);
    }
    v = row->cell;
    v[S_METHOD] = kva_val_text(a->name);
    v[S_METHOD].title = a->spec;
    v[S_BUDGETS] = kva_val_number(p->n);
    v[S_FROM] = kva_val_number(lo);
    v[S_TO] = kva_val_number(hi);
    v[S_MEAN] = kva_val_number(kva_stat_mean_retention(p->bytes, p->r, (size_t)p->n));
    if (p->n_nats == p->n)
        v[S_NATS] =
            kva_val_number(kva_stat_mean_retention(p->bytes, p->nats, (size_t)p->n));
    at = kva_stat_budget_at(p->x, p->r, (size_t)p->n, LEVEL, &monotone);
    v[S_AT95] = kva_val_number(at);
    if (isnan(at))
        v[S_AT95].text = kva_arena_printf(&r->arena, ">%.1f", 100 * hi);
    else if (at <= lo)
        v[S_AT95].text = kva_arena_printf(&r->arena, "\xe2\x89\xa4%.1f", 100 * lo);
    v[S_MONOTONE] = kva_val_text(monotone ? "yes" : "no");
    v[S_FRONT] = kva_val_number(p->front);
    v[S_SPEC] = kva_val_text(a->spec);
}

static bool seen_before(const struct kva_board *b, int k)
{
    for (int m = 0; m < k; m++)
        if (counts(&b->arm[m]) && strcmp(b->arm[m].spec, b->arm[k].spec) == 0)
            return true;
    return false;
}

static int by_mean(const void *x, const void *y)
{
    const struct kva_val *a = ((const struct kva_row *)x)->cell;
    const struct kva_val *b = ((const struct kva_row *)y)->cell;

    if (a[S_MEAN].v != b[S_MEAN].v)
        return a[S_MEAN].v > b[S_MEAN].v ? -1 : 1;
    return strcmp(a[S_SPEC].text, b[S_SPEC].text);
}

static bool board_summary(struct kva_report *r, const struct kva_board *b)
{
    size_t n = (size_t)b->n_arm + 1;
    double *room = kva_calloc(4 * n, sizeof *room);
    struct points p;
    struct kva_tab *t = NULL;

    if (!room)
        return false;
    p = (struct points){
        .x = room, .bytes = room + n, .r = room + 2 * n, .nats = room + 3 * n};
    for (int k = 0; k < b->n_arm; k++) {
        if (!counts(&b->arm[k]) || seen_before(b, k))
            continue;
        collect(b, b->arm[k].spec, &p);
        if (p.n < 2)
            continue; /* one budget is its own summary */
        if (!t)
            t = kva_board_tab(r, b, "summary", KVA_VIEW_LEADERBOARD, SUMMARY, S_COLS);
        summary_row(r, t, &b->arm[k], &p);
    }
    free(room);
    if (t && t->n_row) {
        qsort(t->row, (size_t)t->n_row, sizeof *t->row, by_mean);
        t->caption = kva_arena_printf(&r->arena, "Over all budgets: %s", b->title);
        kva_tab_note(r, t,
                     "mean retention compares methods over the bytes from and to; where "
                     "these differ the means do not compare. Complete rows only.");
        r->nomem |= !t->caption;
    }
    return true;
}

/* ---- over models ---- */

enum { X_METHOD, X_KEEP, X_MODELS, X_MACRO, X_NATS, X_WHICH, X_SPEC, X_COLS };
static const struct kva_col MACRO[X_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, false, "nominal budget"},
    {"models", "models", "", KVA_COL_INT, 0, false, 0, false, ""},
    {"retention_macro", "retention macro", "%", KVA_COL_PERCENT, 1, true, 0, false,
     "unweighted mean of the retention over models, 95 % interval"},
    {"nats_retention_macro", "nats ret. macro", "%", KVA_COL_PERCENT, 1, true, 1, false,
     "the same of the nats retention"},
    {"which", "models", "", KVA_COL_TEXT, 0, false, 2, false, ""},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
};

/* The same tables of another model: tasks are told apart by name, as prompts are fitted
 * with each model's own tokenizer. */
static bool same_but_model(const struct kva_board *a, const struct kva_board *b)
{
    if (a->single || b->single || !a->ranks || !b->ranks || a->ctx != b->ctx ||
        a->n_task != b->n_task || strcmp(a->mark, b->mark) != 0 ||
        strcmp(a->visibility, b->visibility) != 0 ||
        strcmp(a->schedule, b->schedule) != 0 || strcmp(a->numerics, b->numerics) != 0 ||
        strcmp(a->kv, b->kv) != 0 || strcmp(a->variant, b->variant) != 0)
        return false;
    for (int t = 0; t < a->n_task; t++)
        if (strcmp(a->task_label[t], b->task_label[t]) != 0 || a->used[t] != b->used[t])
            return false;
    return true;
}

static const struct kva_arm *partner(const struct kva_board *b, const struct kva_arm *a)
{
    for (int k = 0; k < b->n_arm; k++)
        if (counts(&b->arm[k]) && strcmp(b->arm[k].spec, a->spec) == 0 &&
            kva_same_budget(&b->arm[k], a))
            return &b->arm[k];
    return NULL;
}

/* One row of a group: the arm in every board of it, or nothing. */
static bool macro_row(struct kva_report *r, struct kva_tab *t, const int *board, int n,
                      const struct kva_arm *a)
{
    double *x = kva_calloc(2 * (size_t)n, sizeof *x), *nats = x ? x + n : NULL;
    struct kva_interval *ci = kva_calloc(2 * (size_t)n, sizeof *ci);
    struct kva_row *row = NULL;
    struct kva_buf which;
    bool all = x && ci;

    kva_buf_init(&which, 0);
    for (int i = 0; i < n && all; i++) {
        const struct kva_arm *p = partner(&r->board[board[i]], a);

        all = p != NULL;
        if (!p)
            break;
        x[i] = p->boot.ratio;
        ci[i] = p->boot.ratio_ci;
        nats[i] = p->nats.ratio;
        ci[n + i] = p->nats.ratio_ci;
        kva_buf_printf(&which, "%s%s", i ? ", " : "", r->board[board[i]].model);
    }
    if (all && !which.failed)
        row = kva_tab_row(r, t);
    if (row) {
        size_t m = (size_t)n;

        kva_arm_names(a, &row->cell[X_METHOD], &row->cell[X_KEEP], &row->cell[X_SPEC]);
        row->cell[X_MODELS] = kva_val_number(n);
        row->cell[X_MACRO] =
            kva_val_interval(kva_stat_mean(x, m), kva_stat_mean_interval(x, ci, m));
        row->cell[X_NATS] = kva_val_interval(kva_stat_mean(nats, m),
                                             kva_stat_mean_interval(nats, ci + n, m));
        row->cell[X_WHICH] = kva_val_text(kva_arena_strdup(&r->arena, which.data));
    }
    r->nomem |= which.failed;
    kva_buf_release(&which);
    free(ci);
    free(x);
    return x && ci;
}

static bool macro_table(struct kva_report *r, const int *board, int n)
{
    const struct kva_board *b = &r->board[board[0]];
    struct kva_tab *t = kva_tab_add(r, kva_arena_printf(&r->arena, "%s-macro", b->slug),
                                    KVA_VIEW_LEADERBOARD, MACRO, X_COLS);

    if (!t)
        return false;
    t->heading = "Over models";
    t->klass = b->enforce;
    t->caption = kva_arena_printf(
        &r->arena, "Over %d models: mean of %d task%s%s, %s, %s", n,
        b->n_used ? b->n_used : b->n_task,
        (b->n_used ? b->n_used : b->n_task) == 1 ? "" : "s",
        b->ctx ? kva_arena_printf(&r->arena, " at %d tokens", b->ctx) : "", b->enforce,
        b->schedule);
    for (int k = 0; k < b->n_arm; k++)
        if (counts(&b->arm[k]) && !macro_row(r, t, board, n, &b->arm[k]))
            return false;
    kva_tab_note(
        r, t, "rows that all %d models have, complete; models count as independent.", n);
    return t->caption != NULL;
}

enum kva_status kva_summary_tables(struct kva_report *r, struct kva_error *err)
{
    bool *done = kva_calloc((size_t)r->n_board + 1, sizeof *done);
    int *group = kva_calloc((size_t)r->n_board + 1, sizeof *group);
    bool ok = done && group;

    for (int i = 0; i < r->n_board && ok; i++)
        if (!r->board[i].single && r->board[i].ranks)
            ok = board_summary(r, &r->board[i]);
    for (int i = 0; i < r->n_board && ok; i++) {
        int n = 0;

        if (done[i] || r->board[i].single)
            continue;
        for (int k = i; k < r->n_board; k++)
            if (!done[k] && same_but_model(&r->board[i], &r->board[k])) {
                group[n++] = k;
                done[k] = true;
            }
        if (n > 1)
            ok = macro_table(r, group, n);
    }
    free(done);
    free(group);
    if (!ok || r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "report: summaries: out of memory");
    return KVA_OK;
}
