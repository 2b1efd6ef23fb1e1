/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wtl.c - T-WTL: every method against a reference, counted over all cells of the report
 * (reports.md 4.5, 6.7).
 *
 * A line is a method as it runs: specification, enforcement, schedule, visibility,
 * numerics, KV type and sampling. Lines that differ in more than method and enforcement
 * never meet; the full cache meets all. The references are the full cache and the best
 * method: the physical line, no oracle, with the most cells and of those the highest mean
 * score. Each pair has one tally per matching and tie mode; p-values are adjusted within
 * the pair's matching. Pairs are independent, seeded by their cells, and shared by
 * threads: neither their number nor their order changes a bit. */
#include "reports/duel.h"

#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRAWS = 2000, MAX_THREADS = 16 }; /* draws: reports.md 4.3, quick */

struct line {
    int *cell, n;
    bool dense;
};
struct job {
    int a, b; /* lines */
    struct kva_tally tally[2][3];
    bool same; /* the same cells meet under both matchings */
    int tasks, budgets, models;
};
struct work {
    struct kva_report *r;
    const struct kva_data *d;
    const struct kva_cells *c;
    struct line *line;
    int n_line;
    struct job *job;
    int n_job;
    struct kva_duel_rules rules;
    atomic_int next, failed;
};

/* ---- lines ---- */

static bool same_family(const struct kva_data_cell *x, const struct kva_data_cell *y)
{
    return strcmp(x->schedule, y->schedule) == 0 &&
           strcmp(x->visibility, y->visibility) == 0 &&
           strcmp(x->numerics, y->numerics) == 0 && strcmp(x->kv, y->kv) == 0 &&
           strcmp(kva_data_sampling(x), kva_data_sampling(y)) == 0;
}

static bool same_line(const struct kva_data_cell *x, const struct kva_data_cell *y)
{
    return strcmp(x->method, y->method) == 0 && strcmp(x->enforce, y->enforce) == 0 &&
           same_family(x, y);
}

static const struct kva_data_cell *cell_of(const struct work *w, int line)
{
    return &w->d->cells[w->line[line].cell[0]];
}

static bool lines(struct work *w)
{
    w->line = kva_calloc((size_t)w->d->n_cells + 1, sizeof *w->line);
    if (!w->line)
        return false;
    for (int i = 0; i < w->d->n_cells; i++) {
        const struct kva_data_cell *x = &w->d->cells[i];
        struct line *l;
        int k = 0;

        if (w->c->left_out[i] || strcmp(x->method, "blind") == 0)
            continue;
        while (k < w->n_line && !same_line(x, cell_of(w, k)))
            k++;
        l = &w->line[k];
        if (k == w->n_line) {
            l->cell = kva_calloc((size_t)w->d->n_cells, sizeof *l->cell);
            if (!l->cell)
                return false;
            l->dense = strcmp(x->method, "dense") == 0;
            w->n_line++;
        }
        l->cell[l->n++] = i;
    }
    return true;
}

static double mean_score(const struct work *w, const struct line *l)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < l->n; i++)
        for (int k = w->c->first[l->cell[i]]; k < w->c->first[l->cell[i] + 1]; k++)
            if (w->c->obs[k].n_ok) {
                sum += w->c->obs[k].score;
                n++;
            }
    return n ? sum / n : -1;
}

/* The best line of the family of `like`; -1: none. */
static int best_of(const struct work *w, int like)
{
    int best = -1;
    double most = -1;

    for (int k = 0; k < w->n_line; k++) {
        const struct kva_data_cell *x = cell_of(w, k);
        double score;

        if (w->line[k].dense || x->oracle || strcmp(x->enforce, "physical") != 0 ||
            !same_family(x, cell_of(w, like)))
            continue;
        score = mean_score(w, &w->line[k]);
        if (best < 0 || w->line[k].n > w->line[best].n ||
            (w->line[k].n == w->line[best].n && score > most)) {
            best = k;
            most = score;
        }
    }
    return best;
}

static bool is_named(const struct work *w, int line, const char *glob)
{
    const char *spec = cell_of(w, line)->method;
    const char *name = w->c->name[w->line[line].cell[0]];

    return strcmp(glob, spec) == 0 || strcmp(glob, name) == 0 ||
           fnmatch(glob, spec, 0) == 0 || fnmatch(glob, name, 0) == 0;
}

static bool is_reference(const struct work *w, int line, int b)
{
    const char *named = w->r->opts.reference;

    return named ? is_named(w, b, named) : w->line[b].dense || b == best_of(w, line);
}

/* Which line meets which. */
static enum kva_status jobs(struct work *w, struct kva_error *err)
{
    const char *named = w->r->opts.reference;
    bool any = false;

    for (int b = 0; b < w->n_line; b++)
        any |= named && is_named(w, b, named);
    if (named && !any)
        return KVA_FAIL(err, KVA_EINVALID,
                        "--reference %s: no method of this report is called so "
                        "(`kvaudit report` shows their names)",
                        named);
    w->job = kva_calloc((size_t)w->n_line * (size_t)w->n_line + 1, sizeof *w->job);
    if (!w->job)
        return KVA_FAIL(err, KVA_ENOMEM, "report: pairs: out of memory");
    for (int dense = 1; dense >= 0; dense--)
        for (int b = 0; b < w->n_line; b++)
            for (int a = 0; w->line[b].dense == (dense == 1) && a < w->n_line; a++)
                if (a != b && !w->line[a].dense &&
                    (dense || same_family(cell_of(w, a), cell_of(w, b))) &&
                    is_reference(w, a, b))
                    w->job[w->n_job++] = (struct job){.a = a, .b = b};
    return KVA_OK;
}

/* ---- tallies ---- */

static bool seen_before(const struct work *w, const struct kva_duels *u, int i, int key)
{
    const struct kva_data_cell *x = &w->d->cells[u->v[i].a];

    for (int k = 0; k < i; k++) {
        const struct kva_data_cell *y = &w->d->cells[u->v[k].a];

        if (key == 0 ? y->task == x->task
            : key == 1
                ? y->budget == x->budget && strcmp(y->budget_kind, x->budget_kind) == 0
                : y->model == x->model)
            return true;
    }
    return false;
}

static bool equal_pairs(const struct kva_duels *u, const struct kva_duels *v)
{
    bool same = u->n == v->n;

    for (int i = 0; i < u->n && same; i++)
        same = u->v[i].a == v->v[i].a && u->v[i].b == v->v[i].b;
    return same;
}

static enum kva_status meet(struct work *w, const struct job *j, bool bytes,
                            struct kva_duels *u)
{
    const struct line *a = &w->line[j->a], *b = &w->line[j->b];
    enum kva_status rc =
        kva_duels_pair(w->d, w->c, a->cell, a->n, b->cell, b->n,
                       KVA_COMPARE_METHOD | KVA_COMPARE_ENFORCE, bytes, u, NULL);

    if (rc != KVA_EINVALID)
        return rc;
    /* several partners: the settings of two suites overlap, and there is no tally */
    kva_duels_release(u);
    return KVA_OK;
}

static enum kva_status count(struct work *w, struct job *j, bool bytes,
                             struct kva_duels *v)
{
    struct kva_duels u = *v;
    enum kva_status rc = KVA_OK;

    KVA_GO(kva_duels_judge(w->r, w->d, w->c, &u, &w->rules, NULL));
    for (int m = 0; m < 3; m++)
        KVA_GO(kva_tally_count(&u, (enum kva_tie_mode)m, &j->tally[bytes][m], NULL));
    KVA_GO(kva_tally_mean(w->d, w->c, &u, NULL, 0, &w->rules, &j->tally[bytes][0], NULL));
    for (int m = 1; m < 3; m++) {
        struct kva_tally *t = &j->tally[bytes][m], *from = &j->tally[bytes][0];

        t->boot = from->boot;
        t->p = from->p;
        t->strata = from->strata;
        t->units = from->units;
    }
    for (int i = 0; i < u.n && !bytes; i++) {
        j->tasks += !seen_before(w, &u, i, 0);
        j->budgets += !seen_before(w, &u, i, 1);
        j->models += !seen_before(w, &u, i, 2);
    }
out:
    return rc;
}

static enum kva_status one_pair(struct work *w, struct job *j)
{
    struct kva_duels u[2] = {{.n = 0}, {.n = 0}};
    enum kva_status rc;

    KVA_GO(meet(w, j, false, &u[0]));
    KVA_GO(meet(w, j, true, &u[1]));
    j->same = equal_pairs(&u[0], &u[1]);
    KVA_GO(count(w, j, false, &u[0]));
    if (j->same)
        memcpy(j->tally[1], j->tally[0], sizeof j->tally[1]);
    else
        KVA_GO(count(w, j, true, &u[1]));
out:
    kva_duels_release(&u[0]);
    kva_duels_release(&u[1]);
    return rc;
}

static void *worker(void *arg)
{
    struct work *w = arg;

    for (;;) {
        int i = atomic_fetch_add(&w->next, 1);

        if (i >= w->n_job)
            return NULL;
        if (one_pair(w, &w->job[i]) != KVA_OK)
            atomic_store(&w->failed, 1);
    }
}

static enum kva_status run(struct work *w, struct kva_error *err)
{
    pthread_t thread[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;

    atomic_store(&w->next, 0);
    while (started < MAX_THREADS && started < cores - 1 && started < w->n_job - 1 &&
           pthread_create(&thread[started], NULL, worker, w) == 0)
        started++;
    (void)worker(w);
    for (int i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
    if (atomic_load(&w->failed))
        return KVA_FAIL(err, KVA_ENOMEM, "report: pairs: out of memory");
    return KVA_OK;
}

/* ---- the table ---- */

enum {
    W_METHOD,
    W_REFERENCE,
    W_MATCH,
    W_TIES,
    W_WIN,
    W_TIE,
    W_LOSS,
    W_INVALID,
    W_N,
    W_DIFF,
    W_SIGN,
    W_P,
    W_GRID,
    W_SPEC,
    W_SPEC_B,
    W_ENFORCE,
    W_SCHEDULE,
    W_VISIBLE,
    W_EPSILON,
    W_ALPHA,
    W_COLS
};
static const struct kva_col COLS[W_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"reference", "against", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"match", "match", "", KVA_COL_TEXT, 0, false, 0, false,
     "nominal: equal budgets; bytes: equal measured bytes; both: the same cells meet"},
    {"ties", "ties", "", KVA_COL_TEXT, 0, false, 0, false,
     "exact: only equal means tie; epsilon: up to half a point; stat: what no test tells "
     "apart; any: no pair can be judged"},
    {"win", "win", "", KVA_COL_INT, 0, false, 0, false,
     "cells where the method is ahead"},
    {"tie", "tie", "", KVA_COL_INT, 0, false, 0, false, ""},
    {"loss", "loss", "", KVA_COL_INT, 0, false, 0, false,
     "cells where the reference is ahead"},
    {"invalid", "invalid", "", KVA_COL_INT, 0, false, 0, false,
     "under 95 % of the samples in common, or no partner of equal bytes; no ties"},
    {"n", "pairs", "", KVA_COL_INT, 0, false, 0, false, "win + tie + loss + invalid"},
    {"diff", "mean diff", "points", KVA_COL_PERCENT, 1, true, 0, false,
     "mean of tasks with its 95 % interval over samples"},
    {"p_sign", "p sign", "", KVA_COL_P, 0, false, 1, false,
     "sign test of win against loss"},
    {"p", "p mean", "", KVA_COL_P, 0, false, 2, false,
     "sign flip of the mean difference"},
    {"grid", "grid", "", KVA_COL_TEXT, 0, false, 3, false, "what was counted"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"reference_spec", "reference", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"enforce", "enforce", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"schedule", "schedule", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"visibility", "visibility", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"epsilon", "epsilon", "", KVA_COL_REAL, 4, false, 99, false, ""},
    {"alpha", "alpha", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

/* "snapkv", "snapkv (mask)", "snapkv (aware, block:128)", "dense (t0.6)" */
static const char *line_name(const struct work *w, int line)
{
    const struct kva_data_cell *x = cell_of(w, line);
    const char *name = w->c->name[w->line[line].cell[0]];
    const char *part[4] = {x->sampling,
                           strcmp(x->enforce, "physical") != 0 ? x->enforce : NULL,
                           strcmp(x->visibility, "agnostic") != 0 ? x->visibility : NULL,
                           strcmp(x->schedule, "oneshot") != 0 ? x->schedule : NULL};
    const char *list = "";

    for (int i = 0; i < (w->line[line].dense ? 1 : 4) && list; i++) {
        const char *text = part[i] ? kva_report_clean(&w->r->arena, part[i]) : NULL;

        if (part[i])
            list = text ? kva_arena_printf(&w->r->arena, "%s%s%s", list,
                                           *list ? ", " : "", text)
                        : NULL;
    }
    if (list && *list)
        name = kva_arena_printf(&w->r->arena, "%s (%s)", name, list);
    return list ? name : NULL;
}

static void row_of(struct work *w, const struct job *j, int bytes, int mode,
                   const struct kva_wtl *x, struct kva_tab *t)
{
    const struct kva_tally *y = &j->tally[bytes][mode];
    const struct kva_data_cell *a = cell_of(w, j->a);
    struct kva_row *row = kva_tab_row(w->r, t);

    if (!row)
        return;
    row->group = bytes == 0 && mode == 0;
    row->cell[W_METHOD] = kva_val_text(x->method);
    row->cell[W_REFERENCE] = kva_val_text(x->reference);
    row->cell[W_MATCH] = kva_val_text(j->same ? "both" : bytes ? "bytes" : "nominal");
    row->cell[W_TIES] = kva_val_text(y->invalid == y->n ? "any" : kva_tie_names[mode]);
    row->cell[W_WIN] = kva_val_number(y->win);
    row->cell[W_TIE] = kva_val_number(y->tie);
    row->cell[W_LOSS] = kva_val_number(y->loss);
    row->cell[W_INVALID] = kva_val_number(y->invalid);
    row->cell[W_N] = kva_val_number(y->n);
    row->cell[W_DIFF] = kva_val_interval(y->boot.diff, y->boot.diff_ci);
    row->cell[W_SIGN] = kva_val_number(y->p_sign);
    row->cell[W_P] = kva_val_number(y->p);
    row->cell[W_GRID] = kva_val_text(
        kva_arena_printf(&w->r->arena, "%d task%s, %d budget%s, %d model%s", j->tasks,
                         j->tasks == 1 ? "" : "s", j->budgets, j->budgets == 1 ? "" : "s",
                         j->models, j->models == 1 ? "" : "s"));
    row->cell[W_SPEC] = kva_val_text(a->method);
    row->cell[W_SPEC_B] = kva_val_text(cell_of(w, j->b)->method);
    row->cell[W_ENFORCE] = kva_val_text(a->enforce);
    row->cell[W_SCHEDULE] = kva_val_text(a->schedule);
    row->cell[W_VISIBLE] = kva_val_text(a->visibility);
    if (mode == KVA_TIE_EPSILON)
        row->cell[W_EPSILON] = kva_val_number(KVA_EPSILON);
    if (mode == KVA_TIE_STAT)
        row->cell[W_ALPHA] = kva_val_number(w->rules.alpha);
}

static void table(struct work *w)
{
    struct kva_report *r = w->r;
    struct kva_wtl *list =
        kva_arena_alloc(&r->arena, 2 * (size_t)w->n_job + 1, sizeof *list);
    struct kva_tab *t = kva_tab_add(r, "wtl", KVA_VIEW_PAIRS, COLS, W_COLS);

    if (!t || !list) {
        r->nomem = true;
        return;
    }
    t->heading = t->caption = "Win, tie and loss of every method against a reference";
    for (int i = 0; i < w->n_job; i++) {
        const struct job *j = &w->job[i];
        const char *a = line_name(w, j->a), *b = line_name(w, j->b);

        for (int bytes = 0; bytes < 2; bytes++) {
            struct kva_wtl *x = &list[r->n_wtl];

            if (j->tally[bytes][0].n == 0)
                continue;
            *x = (struct kva_wtl){
                .method = a, .reference = b, .bytes = bytes == 1, .same = j->same};
            memcpy(x->tally, j->tally[bytes], sizeof x->tally);
            r->n_wtl++;
            /* the same rows are not printed twice */
            for (int m = 0; m < (x->tally[0].invalid == x->tally[0].n ? 1 : 3); m++)
                if (!bytes || !j->same)
                    row_of(w, j, bytes, m, x, t);
        }
    }
    r->wtl = list;
    kva_tab_note(r, t,
                 "a pair is a cell of the method and the reference's cell of the same "
                 "model, task and settings; win + tie + loss + invalid = pairs.");
    kva_tab_note(
        r, t,
        "exact: only equal means tie. epsilon: differences up to %.1f points "
        "tie. stat: p under %.10g after Benjamini-Hochberg over the pairs, above "
        "the noise floor where one was measured, else a tie.",
        100 * KVA_EPSILON, w->rules.alpha);
    kva_tab_note(r, t,
                 "bytes: the reference's budget that holds most without holding more, at "
                 "least 98 %%; a masked cell costs the full cache.");
    kva_tab_note(r, t,
                 "with fewer than six wins and losses a sign test cannot be significant; "
                 "%d draws.",
                 w->rules.replicates);
}

enum kva_status kva_wtl_table(struct kva_report *r, const struct kva_data *d,
                              const struct kva_cells *c, struct kva_error *err)
{
    struct work w = {.r = r, .d = d, .c = c};
    enum kva_status rc;

    w.rules = (struct kva_duel_rules){
        .free = KVA_COMPARE_METHOD | KVA_COMPARE_ENFORCE,
        .measure = KVA_MEASURE_SCORE,
        .epsilon = KVA_EPSILON,
        .alpha = r->opts.alpha,
        .seed = r->opts.seed,
        .replicates = r->opts.replicates < DRAWS ? r->opts.replicates : DRAWS,
        .quick = true};
    if (!lines(&w)) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "report: pairs: out of memory");
        goto out;
    }
    KVA_GO(jobs(&w, err));
    KVA_GO(run(&w, err));
    if (w.n_job)
        table(&w);
out:
    for (int k = 0; w.line && k < w.n_line; k++)
        free(w.line[k].cell);
    free(w.line);
    free(w.job);
    return rc;
}
