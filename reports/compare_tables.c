/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare_tables.c - a comparison as tables and as words.
 *
 * The headline is the mean difference with its interval and the sign test, never a count
 * alone: 51 wins by 0.01 beat nobody's 49 losses by 20 (reports.md 4.5). Words claim a
 * lead only when the sign flip is significant and the interval leaves zero out. */
#include "reports/compare_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const MATCH[2] = {"nominal", "bytes"};

static double unit(const struct kva_compare *x) /* scores are shown times 100 */
{
    return x->opts->nats ? 1 : 100;
}

/* "+6.0 [+1.5, +10.5]" */
static const char *signed_text(struct kva_compare *x, double v, struct kva_interval ci)
{
    int digits = x->opts->nats ? 3 : 1;
    double k = unit(x), half = 0.5 * pow(10, -digits);
    double lo = fabs(ci.lo * k) < half ? 0 : ci.lo * k;
    double hi = fabs(ci.hi * k) < half ? 0 : ci.hi * k;
    const char *s;

    if (isnan(v))
        return "n/a";
    v = fabs(v * k) < half ? 0 : v * k;
    s = ci.ok ? kva_arena_printf(&x->r->arena, "%+.*f [%+.*f, %+.*f]", digits, v, digits,
                                 lo, digits, hi)
              : kva_arena_printf(&x->r->arena, "%+.*f", digits, v);
    if (!s)
        x->r->nomem = true;
    return s;
}

static struct kva_val difference(struct kva_compare *x, double v, struct kva_interval ci)
{
    struct kva_val out = kva_val_interval(v, ci);

    out.text = signed_text(x, v, ci);
    return out;
}

/* Columns of a table with the unit of what is compared; `setting` shows when `keys` are
 * to be spelled out. */
static const struct kva_col *columns(struct kva_compare *x, const struct kva_col *from,
                                     int n, unsigned keys)
{
    struct kva_col *out = kva_arena_alloc(&x->r->arena, (size_t)n, sizeof *out);

    if (!out) {
        x->r->nomem = true;
        return from;
    }
    memcpy(out, from, (size_t)n * sizeof *out);
    for (int i = 0; i < n; i++) {
        if (keys == 0 && strcmp(out[i].id, "setting") == 0)
            out[i].keep = 99;
        if (x->opts->nats && out[i].kind == KVA_COL_PERCENT) {
            out[i].kind = KVA_COL_REAL;
            out[i].digits = 3;
            out[i].unit = "nats";
        }
    }
    return out;
}

/* ---- the tally ---- */

enum {
    T_MATCH,
    T_TIES,
    T_WIN,
    T_TIE,
    T_LOSS,
    T_INVALID,
    T_N,
    T_DIFF,
    T_SIGN,
    T_P,
    T_MDE,
    T_STRATA,
    T_UNITS,
    T_EPSILON,
    T_ALPHA,
    T_COLS
};
static const struct kva_col TALLY[T_COLS] = {
    {"match", "matched by", "", KVA_COL_TEXT, 0, false, 0, false,
     "nominal: the budgets asked for; bytes: equal measured bytes"},
    {"ties", "ties", "", KVA_COL_TEXT, 0, false, 0, false, "rule that makes a tie"},
    {"win", "win", "", KVA_COL_INT, 0, false, 0, false, "cells where A is ahead"},
    {"tie", "tie", "", KVA_COL_INT, 0, false, 0, false, ""},
    {"loss", "loss", "", KVA_COL_INT, 0, false, 0, false, "cells where B is ahead"},
    {"invalid", "invalid", "", KVA_COL_INT, 0, false, 0, false,
     "pairs that cannot be judged; no ties"},
    {"n", "pairs", "", KVA_COL_INT, 0, false, 0, false, "win + tie + loss + invalid"},
    {"diff", "mean difference", "points", KVA_COL_PERCENT, 1, true, 0, false,
     "A - B, mean of tasks, 95 % interval over samples"},
    {"p_sign", "p (sign test)", "", KVA_COL_P, 0, false, 1, false,
     "of win against loss, exact"},
    {"p", "p (mean)", "", KVA_COL_P, 0, false, 2, false,
     "paired sign flip of the mean difference"},
    {"mde", "smallest effect", "points", KVA_COL_PERCENT, 1, false, 99, false,
     "difference that so many samples show with power 0.8"},
    {"n_strata", "tasks", "", KVA_COL_INT, 0, false, 99, false, "tasks of models"},
    {"n_units", "samples", "", KVA_COL_INT, 0, false, 99, false, "different samples"},
    {"epsilon", "epsilon", "", KVA_COL_REAL, 4, false, 99, false, ""},
    {"alpha", "alpha", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

static const char *ties_text(struct kva_compare *x)
{
    const struct kva_compare_opts *o = x->opts;
    const char *s = o->ties == KVA_TIE_EXACT ? "exact"
                    : o->ties == KVA_TIE_EPSILON
                        ? kva_arena_printf(&x->r->arena, "epsilon %.10g", o->epsilon)
                        : kva_arena_printf(&x->r->arena, "stat %.10g", o->alpha);

    if (!s)
        x->r->nomem = true;
    return s;
}

static void tally_table(struct kva_compare *x)
{
    struct kva_tab *t = kva_tab_add(x->r, "tallies", KVA_VIEW_PAIRS,
                                    columns(x, TALLY, T_COLS, 0), T_COLS);

    if (!t)
        return;
    t->heading = t->caption = kva_arena_printf(
        &x->r->arena, "A: %s, B: %s, A - B%s%s", x->label[0], x->label[1],
        x->opts->nats ? ", answer nats (positive: A needs fewer)" : "",
        x->opts->missing_zero ? ", failures scored 0" : "");
    if (!t->caption)
        x->r->nomem = true;
    for (int m = 0; m < 2; m++) {
        const struct kva_tally *y = &x->tally[m];
        struct kva_row *row = x->done[m] ? kva_tab_row(x->r, t) : NULL;

        if (!row)
            continue;
        row->cell[T_MATCH] = kva_val_text(MATCH[m]);
        row->cell[T_TIES] = kva_val_text(ties_text(x));
        row->cell[T_WIN] = kva_val_number(y->win);
        row->cell[T_TIE] = kva_val_number(y->tie);
        row->cell[T_LOSS] = kva_val_number(y->loss);
        row->cell[T_INVALID] = kva_val_number(y->invalid);
        row->cell[T_N] = kva_val_number(y->n);
        row->cell[T_DIFF] = difference(x, y->boot.diff, y->boot.diff_ci);
        row->cell[T_SIGN] = kva_val_number(y->p_sign);
        row->cell[T_P] = kva_val_number(y->p);
        row->cell[T_MDE] = kva_val_number(y->boot.mde);
        row->cell[T_STRATA] = kva_val_number(y->strata);
        row->cell[T_UNITS] = kva_val_number(y->units);
        row->cell[T_EPSILON] = kva_val_number(x->opts->epsilon);
        row->cell[T_ALPHA] = kva_val_number(x->opts->alpha);
    }
}

/* ---- the cells ---- */

enum {
    P_MATCH,
    P_TASK,
    P_SETTING,
    P_BUDGET,
    P_N,
    P_WTL,
    P_BETTER,
    P_EQUAL,
    P_WORSE,
    P_A,
    P_B,
    P_DIFF,
    P_P,
    P_ADJ,
    P_VERDICT,
    P_MDE,
    P_WHY,
    P_MODEL,
    P_METHOD_A,
    P_METHOD_B,
    P_KIND_A,
    P_KEEP_A,
    P_KIND_B,
    P_KEEP_B,
    P_ENFORCE_A,
    P_ENFORCE_B,
    P_SCHEDULE_A,
    P_SCHEDULE_B,
    P_VISIBLE_A,
    P_VISIBLE_B,
    P_BYTES_A,
    P_AUDIT_A,
    P_BYTES_B,
    P_AUDIT_B,
    P_NOISE,
    P_COLS
};
static const struct kva_col PAIRS[P_COLS] = {
    {"match", "match", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"setting", "setting", "", KVA_COL_TEXT, 0, false, 0, true,
     "what else varies among the pairs, A's | B's where they differ"},
    {"budget", "keep", "", KVA_COL_TEXT, 0, false, 0, true,
     "A's | B's where they differ"},
    {"n", "pairs", "", KVA_COL_INT, 0, false, 0, false, "samples in common"},
    {"wtl", "w/t/l", "", KVA_COL_TEXT, 0, false, 3, true,
     "samples where A is better, equal, worse"},
    {"n_better", "better", "", KVA_COL_INT, 0, false, 99, false,
     "samples where A is better"},
    {"n_equal", "equal", "", KVA_COL_INT, 0, false, 99, false,
     "samples with equal scores"},
    {"n_worse", "worse", "", KVA_COL_INT, 0, false, 99, false,
     "samples where B is better"},
    {"score_a", "A", "%", KVA_COL_PERCENT, 1, false, 1, false, "mean over the pairs"},
    {"score_b", "B", "%", KVA_COL_PERCENT, 1, false, 1, false, "mean over the pairs"},
    {"diff", "diff [95 %]", "points", KVA_COL_PERCENT, 1, true, 0, false,
     "A - B with its paired interval"},
    {"p", "p", "", KVA_COL_P, 0, false, 99, false,
     "McNemar where answers are right or wrong, else paired sign flip"},
    {"p_adjusted", "p adj", "", KVA_COL_P, 0, false, 2, false,
     "Benjamini-Hochberg over the pairs of this table"},
    {"verdict", "verdict", "", KVA_COL_TEXT, 0, false, 0, false, "for A"},
    {"mde", "smallest effect", "points", KVA_COL_PERCENT, 1, false, 99, false,
     "difference that so many samples show with power 0.8"},
    {"why", "why", "", KVA_COL_TEXT, 0, false, 99, false, "a pair is invalid"},
    {"model", "model", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"method_a", "method A", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"method_b", "method B", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind_a", "kind A", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget_a", "budget A", "", KVA_COL_REAL, 4, false, 99, false, ""},
    {"budget_kind_b", "kind B", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget_b", "budget B", "", KVA_COL_REAL, 4, false, 99, false, ""},
    {"enforce_a", "enforce A", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"enforce_b", "enforce B", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"schedule_a", "schedule A", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"schedule_b", "schedule B", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"visibility_a", "visibility A", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"visibility_b", "visibility B", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"bytes_a", "bytes A", "", KVA_COL_BYTES, 0, false, 99, false,
     "mean cost: of the full cache where a cell masks"},
    {"audit_a", "audit A", "", KVA_COL_TEXT, 0, false, 99, false, "what they prove"},
    {"bytes_b", "bytes B", "", KVA_COL_BYTES, 0, false, 99, false, ""},
    {"audit_b", "audit B", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"noise", "noise floor", "points", KVA_COL_PERCENT, 1, false, 99, false,
     "missing: not measured"},
};

/* Text of a cell under one of the keys a row may have to spell out. */
enum { N_SPELLED = 8 };
static const char *spelled(const struct kva_compare *x, int cell, int key)
{
    const struct kva_data_cell *y = &x->d->cells[cell];

    switch (key) {
    case 0:
        return kva_report_clean(&x->r->arena, x->d->models[y->model].name);
    case 1:
        return x->c->name[cell];
    case 2:
        return y->enforce;
    case 3:
        return y->schedule;
    case 4:
        return y->visibility;
    case 5:
        return y->numerics;
    case 6:
        return y->kv;
    default:
        return kva_report_clean(&x->r->arena, kva_data_sampling(y));
    }
}

static bool is_dense(const struct kva_compare *x, int cell)
{
    return cell >= 0 && strcmp(x->d->cells[cell].enforce, "dense") == 0;
}

/* Keys in which some row differs from the first one. What all rows share is in the
 * caption's selectors, or is the same everywhere. A reference's own enforcement is no
 * news. */
static unsigned varying(const struct kva_compare *x, const struct kva_duels *u)
{
    unsigned out = 0;

    for (int i = 1; i < u->n; i++)
        for (int k = 0; k < N_SPELLED; k++) {
            const char *a = spelled(x, u->v[i].a, k), *a0 = spelled(x, u->v[0].a, k);
            const char *b = u->v[i].b < 0 ? a : spelled(x, u->v[i].b, k);
            const char *b0 =
                u->v[i].b < 0 || u->v[0].b < 0 ? b : spelled(x, u->v[0].b, k);

            if (k == 2 && (is_dense(x, u->v[i].a) || is_dense(x, u->v[0].a) ||
                           is_dense(x, u->v[i].b) || is_dense(x, u->v[0].b)))
                continue;
            if (a && a0 && b && b0 && (strcmp(a, a0) != 0 || strcmp(b, b0) != 0))
                out |= 1u << k;
        }
    return out;
}

static const char *either(struct kva_compare *x, const char *a, const char *b)
{
    const char *s = !a || !b            ? NULL
                    : strcmp(a, b) == 0 ? a
                                        : kva_arena_printf(&x->r->arena, "%s | %s", a, b);

    if (!s)
        x->r->nomem = true;
    return s ? s : "";
}

static const char *setting(struct kva_compare *x, const struct kva_duel *y, unsigned keys)
{
    const char *out = "";

    for (int k = 0; k < N_SPELLED; k++)
        if (keys & 1u << k) {
            const char *one =
                either(x, spelled(x, y->a, k), spelled(x, y->b < 0 ? y->a : y->b, k));

            out = out[0] ? kva_arena_printf(&x->r->arena, "%s, %s", out, one) : one;
            if (!out) {
                x->r->nomem = true;
                return "";
            }
        }
    return out;
}

static const char *budget(struct kva_compare *x, int cell)
{
    return kva_report_budget(&x->r->arena, x->d->cells[cell].budget_kind,
                             x->d->cells[cell].budget);
}

/* The verdict on a cell's bytes; counts those that could not be checked. */
static struct kva_val audit(const struct kva_compare *x, int cell, int *unverified)
{
    enum kva_badge badge =
        cell < 0 ? KVA_BADGE_NONE : kva_badge_of_cell(x->d, x->c, cell);

    *unverified += badge == KVA_BADGE_UNVERIFIED;
    return kva_val_text(badge == KVA_BADGE_NONE ? NULL : kva_badge_text(badge));
}

static void fill_identity(struct kva_compare *x, const struct kva_duel *y,
                          struct kva_row *row, int *unverified)
{
    const struct kva_data_cell *a = &x->d->cells[y->a];
    const struct kva_data_cell *b = y->b < 0 ? NULL : &x->d->cells[y->b];

    row->cell[P_MODEL] = kva_val_text(
        either(x, spelled(x, y->a, 0), spelled(x, y->b < 0 ? y->a : y->b, 0)));
    row->cell[P_METHOD_A] = kva_val_text(a->method);
    row->cell[P_KIND_A] = kva_val_text(a->budget_kind);
    row->cell[P_KEEP_A] = kva_val_number(a->budget);
    row->cell[P_ENFORCE_A] = kva_val_text(a->enforce);
    row->cell[P_SCHEDULE_A] = kva_val_text(a->schedule);
    row->cell[P_VISIBLE_A] = kva_val_text(a->visibility);
    row->cell[P_BYTES_A] = kva_val_number(y->bytes_a);
    row->cell[P_AUDIT_A] = audit(x, y->a, unverified);
    row->cell[P_METHOD_B] = kva_val_text(b ? b->method : NULL);
    row->cell[P_KIND_B] = kva_val_text(b ? b->budget_kind : NULL);
    row->cell[P_KEEP_B] = kva_val_number(b ? b->budget : (double)NAN);
    row->cell[P_ENFORCE_B] = kva_val_text(b ? b->enforce : NULL);
    row->cell[P_SCHEDULE_B] = kva_val_text(b ? b->schedule : NULL);
    row->cell[P_VISIBLE_B] = kva_val_text(b ? b->visibility : NULL);
    row->cell[P_BYTES_B] = kva_val_number(y->bytes_b);
    row->cell[P_AUDIT_B] = audit(x, y->b, unverified);
}

static void pair_row(struct kva_compare *x, int match, const struct kva_duel *y,
                     unsigned keys, struct kva_tab *t, int *unverified)
{
    struct kva_row *row = kva_tab_row(x->r, t);
    double k = x->opts->nats ? -1 : 1; /* nats are shown as they are stored */
    const char *verdict = kva_verdict_names[y->verdict[x->opts->ties]];

    if (!row)
        return;
    row->cell[P_MATCH] = kva_val_text(MATCH[match]);
    row->cell[P_TASK] = kva_val_text(x->c->label[x->d->cells[y->a].task]);
    row->cell[P_SETTING] = kva_val_text(setting(x, y, keys));
    row->cell[P_BUDGET] = kva_val_text(
        y->b < 0 ? budget(x, y->a) : either(x, budget(x, y->a), budget(x, y->b)));
    row->cell[P_N] = kva_val_number(y->n);
    row->cell[P_WTL] = kva_val_text(
        kva_arena_printf(&x->r->arena, "%d/%d/%d", y->better, y->equal, y->worse));
    row->cell[P_BETTER] = kva_val_number(y->better);
    row->cell[P_EQUAL] = kva_val_number(y->equal);
    row->cell[P_WORSE] = kva_val_number(y->worse);
    row->cell[P_A] = kva_val_number(k * y->mean_a);
    row->cell[P_B] = kva_val_number(k * y->mean_b);
    row->cell[P_DIFF] = difference(x, y->boot.diff, y->boot.diff_ci);
    row->cell[P_P] = kva_val_number(y->p);
    row->cell[P_ADJ] = kva_val_number(y->p_adj);
    row->cell[P_MDE] = kva_val_number(y->boot.mde);
    row->cell[P_NOISE] = kva_val_number(y->noise_known ? y->noise : (double)NAN);
    if (y->valid) {
        row->cell[P_VERDICT] = kva_val_text(verdict);
        row->cell[P_VERDICT].strong = y->verdict[x->opts->ties] != KVA_TIE;
    } else {
        row->role = KVA_ROW_INCOMPLETE;
        row->cell[P_VERDICT] = kva_val_text(
            kva_arena_printf(&x->r->arena, "%s: %s", verdict, y->why ? y->why : ""));
        row->cell[P_WHY] = kva_val_text(y->why);
    }
    fill_identity(x, y, row, unverified);
}

/* People get the table of one matching, exports that of both. */
static void pairs_table(struct kva_compare *x)
{
    unsigned keys = varying(x, &x->duels[0]) | varying(x, &x->duels[1]);
    const struct kva_col *col = columns(x, PAIRS, P_COLS, keys);

    for (int m = 0; m < 2; m++) {
        struct kva_tab *t;
        int unverified = 0;

        if (!x->done[m] || (m && x->done[0] && !x->opts->list_all))
            continue;
        t = kva_tab_add(x->r, m ? "pairs_bytes" : "pairs", KVA_VIEW_PAIRS, col, P_COLS);
        if (!t)
            return;
        t->heading = t->caption =
            m ? "Cell by cell, equal bytes" : "Cell by cell, nominal budgets";
        for (int i = 0; i < x->duels[m].n; i++)
            pair_row(x, m, &x->duels[m].v[i], keys, t, &unverified);
        if (unverified)
            kva_tab_note(x->r, t,
                         "UNVERIFIED: the bytes of %d of the %d cells compared here "
                         "could not be checked.",
                         unverified, 2 * x->duels[m].n);
    }
}

/* ---- named means ---- */

enum {
    M_MATCH,
    M_NAME,
    M_SETTING,
    M_BUDGET,
    M_TASKS,
    M_N,
    M_A,
    M_B,
    M_DIFF,
    M_P,
    M_ADJ,
    M_VERDICT,
    M_MDE,
    M_METHOD_A,
    M_METHOD_B,
    M_COLS
};
static const struct kva_col MEANS[M_COLS] = {
    {"match", "match", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"name", "mean", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"setting", "setting", "", KVA_COL_TEXT, 0, false, 0, true, ""},
    {"budget", "keep", "", KVA_COL_TEXT, 0, false, 0, true, ""},
    {"n_tasks", "tasks", "", KVA_COL_INT, 0, false, 0, false, ""},
    {"n", "samples", "", KVA_COL_INT, 0, false, 1, false, ""},
    {"score_a", "A", "%", KVA_COL_PERCENT, 1, false, 2, false, "mean of task means"},
    {"score_b", "B", "%", KVA_COL_PERCENT, 1, false, 2, false, "mean of task means"},
    {"diff", "diff [95 %]", "points", KVA_COL_PERCENT, 1, true, 0, false,
     "A - B with its paired interval, samples drawn within tasks"},
    {"p", "p", "", KVA_COL_P, 0, false, 99, false, "paired sign flip"},
    {"p_adjusted", "p adj", "", KVA_COL_P, 0, false, 4, false,
     "Benjamini-Hochberg over the means of this table"},
    {"verdict", "verdict", "", KVA_COL_TEXT, 0, false, 0, false, "for A"},
    {"mde", "smallest effect", "points", KVA_COL_PERCENT, 1, false, 99, false, ""},
    {"method_a", "method A", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"method_b", "method B", "", KVA_COL_TEXT, 0, false, 99, false, ""},
};

/* Duels that differ in nothing but the task belong to one mean. */
static bool same_mean(const struct kva_compare *x, const struct kva_duel *p,
                      const struct kva_duel *q)
{
    int pa[2] = {p->a, p->b}, qa[2] = {q->a, q->b};

    for (int s = 0; s < 2; s++) {
        const struct kva_data_cell *y, *z;

        if ((pa[s] < 0) != (qa[s] < 0))
            return false;
        if (pa[s] < 0)
            continue;
        y = &x->d->cells[pa[s]];
        z = &x->d->cells[qa[s]];
        if (y->model != z->model || strcmp(y->method, z->method) != 0 ||
            y->budget != z->budget || strcmp(y->budget_kind, z->budget_kind) != 0 ||
            strcmp(y->enforce, z->enforce) != 0 ||
            strcmp(y->schedule, z->schedule) != 0 ||
            strcmp(y->visibility, z->visibility) != 0 ||
            strcmp(y->numerics, z->numerics) != 0 || strcmp(y->kv, z->kv) != 0 ||
            x->d->tasks[y->task].ctx != x->d->tasks[z->task].ctx ||
            strcmp(x->c->protocol[y->task].mark, x->c->protocol[z->task].mark) != 0 ||
            strcmp(x->c->variant[pa[s]], x->c->variant[qa[s]]) != 0)
            return false;
    }
    return true;
}

struct mean {
    const char *name;
    const struct kva_duel *first;
    struct kva_tally t;
    double a, b, diff;
    int n_tasks;
};

static void mean_row(struct kva_compare *x, int match, struct mean *y, double p_adj,
                     unsigned keys, struct kva_tab *t)
{
    struct kva_row *row = kva_tab_row(x->r, t);
    double k = x->opts->nats ? -1 : 1;
    enum kva_verdict v =
        kva_stat_verdict(x->opts->ties, y->diff, p_adj,
                         x->opts->ties == KVA_TIE_STAT ? 0 : x->opts->epsilon,
                         x->opts->alpha, !isnan(y->diff));

    if (!row)
        return;
    row->cell[M_MATCH] = kva_val_text(MATCH[match]);
    row->cell[M_NAME] = kva_val_text(y->name);
    row->cell[M_SETTING] = kva_val_text(setting(x, y->first, keys));
    row->cell[M_BUDGET] =
        kva_val_text(either(x, budget(x, y->first->a), budget(x, y->first->b)));
    row->cell[M_TASKS] = kva_val_number(y->n_tasks);
    row->cell[M_N] = kva_val_number(y->t.units);
    row->cell[M_A] = kva_val_number(k * y->a);
    row->cell[M_B] = kva_val_number(k * y->b);
    row->cell[M_DIFF] = difference(x, y->diff, y->t.boot.diff_ci);
    row->cell[M_P] = kva_val_number(y->t.p);
    row->cell[M_ADJ] = kva_val_number(p_adj);
    /* a mean whose tasks weigh unlike has no test */
    row->cell[M_VERDICT] =
        kva_val_text(v == KVA_INVALID ? "no test" : kva_verdict_names[v]);
    row->cell[M_VERDICT].strong = v == KVA_WIN || v == KVA_LOSS;
    row->cell[M_MDE] = kva_val_number(y->t.boot.mde);
    row->cell[M_METHOD_A] = kva_val_text(x->d->cells[y->first->a].method);
    row->cell[M_METHOD_B] = kva_val_text(x->d->cells[y->first->b].method);
}

/* The duels at[0..n) as one mean; a named one only when every task of it is there. */
static enum kva_status one_mean(struct kva_compare *x, const struct kva_duels *u,
                                const int *at, int n, const struct kva_group *g,
                                struct mean *out, bool *there, struct kva_error *err)
{
    double a[16] = {0}, b[16] = {0}, sum_a = 0, sum_b = 0;
    int take[16] = {0}, m = 0;

    *there = false;
    memset(out, 0, sizeof *out);
    out->first = &u->v[at[0]];
    if (g) {
        for (int k = 0; k < g->n; k++) {
            int hit = -1;

            for (int i = 0; i < n && hit < 0; i++)
                if (kva_group_at(g, &x->d->tasks[x->d->cells[u->v[at[i]].a].task]) == k)
                    hit = at[i];
            if (hit < 0)
                return KVA_OK;
            take[m++] = hit;
            a[k] = u->v[hit].mean_a;
            b[k] = u->v[hit].mean_b;
        }
        at = take;
        n = m;
    }
    KVA_TRY(kva_tally_mean(x->d, x->c, u, at, n, &x->rules, &out->t, err));
    for (int i = 0; i < n; i++) {
        sum_a += u->v[at[i]].mean_a / n;
        sum_b += u->v[at[i]].mean_b / n;
    }
    out->name = g ? g->name : kva_arena_printf(&x->r->arena, "all %d tasks", n);
    out->a = g && g->domain ? kva_group_mean(g, a, false) : sum_a;
    out->b = g && g->domain ? kva_group_mean(g, b, false) : sum_b;
    out->diff = out->a - out->b;
    out->n_tasks = n;
    if (g && g->domain) { /* tasks weigh unlike: the interval would be another mean's */
        out->t.boot.diff_ci.ok = false;
        out->t.p = out->t.boot.mde = (double)NAN;
    }
    *there = true;
    return KVA_OK;
}

static enum kva_status means_of(struct kva_compare *x, int match, struct kva_tab *t,
                                struct kva_error *err)
{
    const struct kva_duels *u = &x->duels[match];
    size_t room = (size_t)u->n * (KVA_N_GROUPS + 1) + 1;
    struct mean *mean = kva_calloc(room, sizeof *mean);
    double *p = kva_calloc(room, sizeof *p);
    int *at = kva_calloc((size_t)u->n + 1, sizeof *at), n = 0;
    bool *seen = kva_calloc((size_t)u->n + 1, sizeof *seen);
    unsigned keys = varying(x, u);
    enum kva_status rc = KVA_OK;

    if (!mean || !p || !at || !seen) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
        goto out;
    }
    for (int i = 0; i < u->n; i++) {
        int m = 0;
        bool whole = true;

        for (int k = i; k < u->n && !seen[i]; k++)
            if (same_mean(x, &u->v[i], &u->v[k])) {
                at[m++] = k;
                whole &= u->v[k].valid;
                if (k > i)
                    seen[k] = true;
            }
        /* a task that cannot be judged leaves no mean of the others in its place */
        for (int g = -1; m > 1 && whole && g < KVA_N_GROUPS; g++) {
            bool there;

            KVA_GO(one_mean(x, u, at, m, g < 0 ? NULL : &kva_groups[g], &mean[n], &there,
                            err));
            if (there) {
                p[n] = mean[n].t.p;
                n++;
            }
        }
    }
    kva_stat_bh(p, (size_t)n);
    for (int i = 0; i < n; i++)
        if (isnan(p[i]) && !isnan(mean[i].t.p)) { /* how it says so */
            rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
            goto out;
        }
    for (int i = 0; i < n; i++)
        mean_row(x, match, &mean[i], p[i], keys, t);
out:
    free(mean);
    free(p);
    free(at);
    free(seen);
    return rc;
}

/* ---- cells without a partner ---- */

enum { L_SIDE, L_TASK, L_METHOD, L_BUDGET, L_MODEL, L_SETTING, L_SPEC, L_COLS };
static const struct kva_col LONE[L_COLS] = {
    {"side", "side", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"budget", "keep", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"model", "model", "", KVA_COL_TEXT, 0, false, 1, false, ""},
    {"setting", "setting", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, ""},
};

static void lone_table(struct kva_compare *x)
{
    const struct kva_duels *u = &x->duels[x->done[0] ? 0 : 1];
    struct kva_tab *t = kva_tab_add(x->r, "lone", KVA_VIEW_PAIRS, LONE, L_COLS);

    if (!t)
        return;
    t->heading = t->caption = "Cells without a partner";
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < u->n_lone[s]; i++) {
            int cell = u->lone[s][i];
            const struct kva_data_cell *y = &x->d->cells[cell];
            struct kva_row *row = kva_tab_row(x->r, t);

            if (!row)
                return;
            row->cell[L_SIDE] = kva_val_text(s ? "B" : "A");
            row->cell[L_TASK] = kva_val_text(x->c->label[y->task]);
            row->cell[L_METHOD] = kva_val_text(x->c->name[cell]);
            row->cell[L_BUDGET] = kva_val_text(budget(x, cell));
            row->cell[L_MODEL] = kva_val_text(spelled(x, cell, 0));
            row->cell[L_SETTING] = kva_val_text(kva_arena_printf(
                &x->r->arena, "%s, %s, %s", y->enforce, y->schedule, y->visibility));
            row->cell[L_SPEC] = kva_val_text(y->method);
        }
}

/* ---- all ---- */

enum kva_status kva_compare_tables(struct kva_compare *x, struct kva_error *err)
{
    struct kva_tab *t;
    int at;

    tally_table(x);
    pairs_table(x);
    t = kva_tab_add(x->r, "means", KVA_VIEW_PAIRS,
                    columns(x, MEANS, M_COLS, varying(x, &x->duels[x->done[0] ? 0 : 1])),
                    M_COLS);
    at = x->r->n_tab - 1;
    if (t)
        t->heading = t->caption = "Means of tasks";
    for (int m = 0; m < 2 && t; m++)
        if (x->done[m] && (m == 0 || !x->done[0]))
            KVA_TRY(means_of(x, m, &x->r->tab[at], err));
    if (t && x->r->tab[at].n_row == 0)
        x->r->n_tab--;
    if (x->opts->list_all)
        lone_table(x);
    return kva_compare_words(x, err);
}
