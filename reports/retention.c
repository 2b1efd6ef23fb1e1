/* SPDX-License-Identifier: GPL-3.0-or-later */
/* retention.c - what each method keeps at each budget (T-RET) and what knowing the
 * question is worth (T-VIS, the only table that mixes the two visibilities).
 *
 *   retention R = score / dense score, loss = 1 - R                  reports.md 4.2
 *   mean retention: trapezoid of R over log2(bytes held) / its range            4.8
 *   budget at 95 %: smallest share of bytes held with R >= 0.95, linear in log2 */
#include "reports/internal.h"

#include <math.h>
#include <string.h>

/* ---- T-RET ---- */

enum { R_METHOD, R_MEAN, R_AT_95, R_SPEC, R_FIXED };
enum { P_SCORE, P_RETENTION, P_LOSS, PER_BUDGET };

static const struct kva_col FIXED[R_FIXED] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"mean_retention", "mean ret.", "%", KVA_COL_PERCENT, 1, false, 2, false,
     "retention over log2 of the bytes held, trapezoid over the budgets measured"},
    {"budget_at_95", "95 % at", "% held", KVA_COL_PERCENT, 1, false, 3, false,
     "smallest share of the full cache that keeps 95 % of the score, between budgets "
     "linear in log2; ? when retention does not rise with the bytes"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
};

/* The first arm of each budget, in the order of the board; how many. */
static int budgets_of(const struct kva_board *b, const struct kva_arm **first)
{
    int n = 0;

    for (int k = 0; k < b->n_arm; k++) {
        bool seen = b->arm[k].role != KVA_ARM_METHOD;

        for (int i = 0; i < n && !seen; i++)
            seen = kva_same_budget(first[i], &b->arm[k]);
        if (!seen)
            first[n++] = &b->arm[k];
    }
    return n;
}

static struct kva_col *columns(struct kva_report *r, const struct kva_arm **budget, int n)
{
    struct kva_col *col =
        kva_arena_alloc(&r->arena, (size_t)(R_FIXED + n * PER_BUDGET), sizeof *col);

    if (!col)
        return NULL;
    col[0] = FIXED[R_METHOD];
    for (int i = 0; i < n; i++) {
        static const struct kva_col one[PER_BUDGET] = {
            {"score", "score", "", KVA_COL_PERCENT, 1, false, 4, false, "at this budget"},
            {"retention", "retention", "", KVA_COL_PERCENT, 1, true, 0, false,
             "% of the dense score at this budget, 95 % interval"},
            {"loss", "loss", "", KVA_COL_PERCENT, 1, false, 5, false, "100 - retention"}};
        const char *slug = kva_report_slug(&r->arena, budget[i]->budget_text);

        for (int k = 0; k < PER_BUDGET; k++) {
            struct kva_col *c = &col[1 + i * PER_BUDGET + k];

            *c = one[k];
            c->id = kva_arena_printf(&r->arena, "%s_%s", one[k].id, slug ? slug : "");
            c->label = kva_arena_printf(&r->arena, "%s %s", one[k].label,
                                        budget[i]->budget_text);
            if (!slug || !c->id || !c->label)
                return NULL;
        }
    }
    for (int k = R_MEAN; k < R_FIXED; k++)
        col[n * PER_BUDGET + k] = FIXED[k];
    return col;
}

/* The points of a method that count: shares held, bytes, retentions. The same rows and
 * numbers as in summary.c, where boards rank. */
struct points {
    double *x, *bytes, *y;
    int n;
};

static void summaries(struct kva_report *r, const struct points *p, struct kva_val *v)
{
    double lo = INFINITY, hi = 0, at;
    bool rises = true;

    if (p->n < 2)
        return;
    for (int i = 0; i < p->n; i++) {
        lo = fmin(lo, p->x[i]);
        hi = fmax(hi, p->x[i]);
    }
    v[R_MEAN] = kva_val_number(kva_stat_mean_retention(p->bytes, p->y, (size_t)p->n));
    at = kva_stat_budget_at(p->x, p->y, (size_t)p->n, 0.95, &rises);
    v[R_AT_95] = kva_val_number(at);
    if (isnan(at))
        v[R_AT_95].text = kva_arena_printf(&r->arena, ">%.1f", 100 * hi);
    else if (at <= lo || !rises)
        v[R_AT_95].text =
            kva_arena_printf(&r->arena, "%s%.1f%s", at <= lo ? "\xe2\x89\xa4" : "",
                             100 * at, rises ? "" : " ?");
}

static void method_row(struct kva_report *r, const struct kva_board *b, const char *spec,
                       const struct kva_arm **budget, int n, struct points *p,
                       struct kva_val *v)
{
    p->n = 0;
    for (int k = 0; k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];
        struct kva_val *at;
        int i = 0;

        if (a->role != KVA_ARM_METHOD || strcmp(a->spec, spec) != 0)
            continue;
        while (i < n && !kva_same_budget(budget[i], a))
            i++;
        if (i == n)
            continue;
        v[0] = kva_val_text(a->name);
        v[0].title = a->spec;
        at = v + 1 + i * PER_BUDGET;
        at[P_SCORE] = kva_val_number(a->score);
        at[P_RETENTION] = kva_val_interval(a->boot.ratio, a->boot.ratio_ci);
        at[P_LOSS] = kva_val_number(1 - a->boot.ratio);
        if (!isnan(a->boot.ratio) && a->effective > 0 &&
            (b->ranks ? a->rank > 0 : a->ok >= a->expected)) {
            p->x[p->n] = a->effective;
            p->bytes[p->n] = a->alloc + a->meta;
            p->y[p->n++] = a->boot.ratio;
        }
    }
    v[n * PER_BUDGET + R_SPEC] = kva_val_text(spec);
    summaries(r, p, v + n * PER_BUDGET);
}

void kva_retention_table(struct kva_report *r, const struct kva_board *b)
{
    size_t most = (size_t)b->n_arm + 1;
    const struct kva_arm **budget = kva_arena_alloc(&r->arena, most, sizeof *budget);
    double *x = kva_arena_alloc(&r->arena, 3 * most, sizeof *x);
    struct points p = {.x = x, .bytes = x + most, .y = x + 2 * most};
    struct kva_col *col = NULL;
    struct kva_tab *t;
    int n;

    if (!budget || !x || !(col = columns(r, budget, n = budgets_of(b, budget)))) {
        r->nomem = true;
        return;
    }
    t = kva_board_tab(r, b, "retention", KVA_VIEW_RETENTION, col,
                      R_FIXED + n * PER_BUDGET);
    for (int k = 0; t && k < b->n_arm; k++) {
        bool seen = b->arm[k].role != KVA_ARM_METHOD;
        struct kva_row *row;

        for (int i = 0; i < k && !seen; i++)
            seen = strcmp(b->arm[i].spec, b->arm[k].spec) == 0;
        if (seen || !(row = kva_tab_row(r, t)))
            continue;
        method_row(r, b, b->arm[k].spec, budget, n, &p, row->cell);
    }
    kva_tab_note(
        r, t,
        "Retention: score over the dense score, paired bootstrap. Mean retention "
        "and the 95 %% point use the bytes held, not the nominal budget; complete rows "
        "only.");
}

/* ---- T-VIS ---- */

enum {
    V_METHOD,
    V_KEEP,
    V_AGNOSTIC,
    V_AWARE,
    V_DIFF,
    V_P,
    V_N,
    V_SPEC,
    V_BUDGET,
    V_COLS
};
static const struct kva_col VISIBILITY[V_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"score_agnostic", "agnostic", "", KVA_COL_PERCENT, 2, true, 1, false,
     "score when the method evicts before the question is known"},
    {"score_aware", "aware", "", KVA_COL_PERCENT, 2, true, 1, false,
     "score when it sees the question first"},
    {"diff", "aware \xe2\x88\x92 agnostic", "points", KVA_COL_PERCENT, 1, true, 0, false,
     "over the same samples, paired bootstrap, 95 % interval"},
    {"p", "p", "", KVA_COL_P, 3, false, 2, false, "of that difference, paired"},
    {"n", "n", "", KVA_COL_INT, 0, false, 3, false, "samples compared"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

static bool but_for_visibility(const struct kva_board *a, const struct kva_board *b)
{
    bool same = a->model_index == b->model_index && a->n_task == b->n_task &&
                strcmp(a->enforce, b->enforce) == 0 && a->oracle == b->oracle &&
                strcmp(a->schedule, b->schedule) == 0 &&
                strcmp(a->numerics, b->numerics) == 0 && strcmp(a->kv, b->kv) == 0 &&
                strcmp(a->variant, b->variant) == 0;

    for (int t = 0; same && t < a->n_task; t++)
        same = a->task[t] == b->task[t];
    return same;
}

static bool compare(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c, const struct kva_board *b,
                    const struct kva_arm *agnostic, const struct kva_arm *aware,
                    struct kva_val *v)
{
    uint32_t seed = kva_pair_seed(d, b, aware, agnostic, r->opts.seed);
    struct kva_pairs p;
    struct kva_boot boot = {0};
    bool ok;

    if (kva_pairs_make(d, c, b, aware, agnostic, KVA_MEASURE_SCORE, &p, NULL) != KVA_OK)
        return false;
    ok = !p.valid || p.n_strata == 0 ||
         kva_stat_bootstrap(p.s, (size_t)p.n_strata, seed, r->opts.replicates, false,
                            &boot, NULL) == KVA_OK;
    v[V_N] = kva_val_number(p.n);
    if (ok && p.valid && p.n_strata) {
        v[V_DIFF] = kva_val_interval(boot.diff, boot.diff_ci);
        v[V_P] = kva_val_number(kva_pair_p(&p, seed, r->opts.replicates));
    }
    kva_pairs_release(&p);
    return ok;
}

static void visibility_table(struct kva_report *r, const struct kva_data *d,
                             const struct kva_cells *c, const struct kva_board *b,
                             const struct kva_board *aware)
{
    struct kva_tab *t =
        kva_board_tab(r, b, "visibility", KVA_VIEW_RETENTION, VISIBILITY, V_COLS);

    if (t) {
        t->caption = kva_arena_printf(&r->arena, "Question %s against %s: %s",
                                      aware->visibility, b->visibility, b->title);
        r->nomem |= !t->caption;
    }
    for (int k = 0; t && k < b->n_arm; k++)
        for (int i = 0; i < aware->n_arm; i++) {
            const struct kva_arm *x = &b->arm[k], *y = &aware->arm[i];
            struct kva_row *row;

            if (x->role != KVA_ARM_METHOD || !kva_same_budget(x, y) ||
                strcmp(x->spec, y->spec) != 0 || !(row = kva_tab_row(r, t)))
                continue;
            kva_arm_names(x, &row->cell[V_METHOD], &row->cell[V_KEEP],
                          &row->cell[V_SPEC]);
            row->cell[V_AGNOSTIC] = kva_val_interval(x->score, x->score_ci);
            row->cell[V_AWARE] = kva_val_interval(y->score, y->score_ci);
            row->cell[V_BUDGET] = kva_val_number(x->budget);
            row->group = k > 0 && !kva_same_budget(&b->arm[k - 1], x);
            r->nomem |= !compare(r, d, c, b, x, y, row->cell);
        }
}

void kva_visibility_tables(struct kva_report *r, const struct kva_data *d,
                           const struct kva_cells *c)
{
    for (int i = 0; i < r->n_board; i++)
        for (int k = 0; k < r->n_board; k++) {
            const struct kva_board *b = &r->board[i], *o = &r->board[k];

            if (!b->single && !o->single && b->n_method && o->n_method &&
                strcmp(b->visibility, "agnostic") == 0 &&
                strcmp(o->visibility, "aware") == 0 && but_for_visibility(b, o))
                visibility_table(r, d, c, b, o);
        }
}
