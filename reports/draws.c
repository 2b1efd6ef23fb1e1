/* SPDX-License-Identifier: GPL-3.0-or-later */
/* draws.c - sampled answers: scores over the k draws of a problem
 * (tasks-longbench-math.md B.3, metrics/stats_pass.c).
 *
 *   avg@k   mean of right draws over k: the score of every other table
 *   pass@j  chance that one of j draws is right, j = 1, 2, 4, .. and k
 *   maj@k   score of the most frequent answer, where answers are mathematical values
 *
 * The unit is the problem, or the context where several problems share one: intervals are
 * those of the mean over problems of a problem's own value. Problems that lack a draw,
 * since it failed, are left out and counted. */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    D_TASK,
    D_METHOD,
    D_KEEP,
    D_SAMPLING,
    D_K,
    D_AVG,
    D_J,
    D_PASS,
    D_MAJ,
    D_N,
    D_LEFT,
    D_SPEC,
    D_BUDGET_KIND,
    D_BUDGET,
    D_COLS
};
static const struct kva_col COLS[D_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"sampling", "sampling", "", KVA_COL_TEXT, 0, false, 4, false,
     "temperature, top-p, top-k"},
    {"draws", "k", "", KVA_COL_INT, 0, false, 0, false, "draws of a problem"},
    {"avg_at_k", "avg@k", "", KVA_COL_PERCENT, 2, true, 0, false,
     "mean over problems of their draws' scores, with its 95 % interval"},
    {"j", "j", "", KVA_COL_INT, 0, false, 0, false, ""},
    {"pass_at_j", "pass@j", "", KVA_COL_PERCENT, 2, true, 0, false,
     "unbiased: one of j draws is right"},
    {"maj_at_k", "maj@k", "", KVA_COL_PERCENT, 2, true, 1, false,
     "score of the most frequent answer"},
    {"n", "n", "", KVA_COL_INT, 0, false, 2, false, "problems with all draws"},
    {"n_left_out", "left out", "", KVA_COL_INT, 0, false, 3, false,
     "problems that lack a draw"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

/* The problems of a cell that have all k draws. */
struct drawn {
    int k, n, left_out;
    int *right, *draws; /* per problem; draws: k each */
    double *mean, *maj; /* per problem: score over draws, of the winner */
    double *room;       /* of one number a problem */
    int *cluster;       /* per problem: its context */
    bool clustered;     /* some context has several */
};

/* Answers whose equality votes can be counted by: those that are compared as values. */
static bool votes(const char *metric)
{
    static const char *const typed[] = {"math500", "math500_boxed", "aime", "gsm8k"};

    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++)
        if (strcmp(metric, typed[i]) == 0)
            return true;
    return false;
}

static void release(struct drawn *w)
{
    free(w->right);
    free(w->draws);
    free(w->mean);
    free(w->maj);
    free(w->room);
    free(w->cluster);
}

/* One problem from its k draws at o. false: out of memory. */
static bool add_problem(const struct kva_data_outcome *o, bool majority, struct drawn *w)
{
    const char **answer = kva_calloc((size_t)w->k + 1, sizeof *answer);
    int winner = -1, count;
    bool ok = answer != NULL;

    w->right[w->n] = 0;
    w->draws[w->n] = w->k;
    w->mean[w->n] = 0;
    for (int i = 0; ok && i < w->k; i++) {
        w->right[w->n] += o[i].score >= 1;
        w->mean[w->n] += o[i].score / w->k;
        answer[i] = o[i].extracted;
    }
    ok =
        ok && (!majority || kva_stat_vote(answer, w->k, &winner, &count, NULL) == KVA_OK);
    w->maj[w->n++] = winner >= 0 ? o[winner].score : 0;
    free(answer);
    return ok;
}

static bool drawn_of(const struct kva_data *d, const struct kva_cells *c, int cell,
                     bool majority, struct drawn *w)
{
    int from = c->first_outcome[cell], to = c->first_outcome[cell + 1];
    size_t most = (size_t)(c->first[cell + 1] - c->first[cell]) + 1;
    bool ok;

    memset(w, 0, sizeof *w);
    w->right = kva_calloc(most, sizeof *w->right);
    w->draws = kva_calloc(most, sizeof *w->draws);
    w->mean = kva_calloc(most, sizeof *w->mean);
    w->maj = kva_calloc(most, sizeof *w->maj);
    w->room = kva_calloc(most, sizeof *w->room);
    w->cluster = kva_calloc(most, sizeof *w->cluster);
    w->clustered = c->task_clustered[d->cells[cell].task];
    ok = w->right && w->draws && w->mean && w->maj && w->room && w->cluster;
    for (int i = from; i < to; i++)
        w->k = d->outcomes[i].rep + 1 > w->k ? d->outcomes[i].rep + 1 : w->k;
    for (int end; ok && from < to; from = end) {
        int n_ok = 0;

        for (end = from; end < to && d->outcomes[end].sample == d->outcomes[from].sample;
             end++)
            n_ok += strcmp(d->outcomes[end].status, "ok") == 0;
        if (n_ok < w->k) {
            w->left_out++;
            continue;
        }
        w->cluster[w->n] = c->cluster[d->outcomes[from].sample];
        ok = add_problem(&d->outcomes[from], majority, w);
    }
    return ok;
}

/* Of a number a problem. */
static struct kva_val with_interval(double v, const double *x, const struct drawn *w)
{
    struct kva_stratum s = {"", x, NULL, w->clustered ? w->cluster : NULL, (size_t)w->n};
    struct kva_interval none = {0, 1, false};

    return kva_val_interval(v, w->n > 0 ? kva_stat_arm(&s, 1) : none);
}

static void draw_row(struct kva_report *r, const struct kva_data_task *task,
                     const char *label, const struct kva_arm *a, const char *sampling,
                     const struct drawn *w, int j, struct kva_tab *t)
{
    struct kva_row *row = kva_tab_row(r, t);
    size_t n = (size_t)w->n;
    struct kva_val *v;

    if (!row)
        return;
    v = row->cell;
    v[D_TASK] = kva_val_text(label);
    kva_arm_names(a, &v[D_METHOD], &v[D_KEEP], &v[D_SPEC]);
    v[D_SAMPLING] = kva_val_text(sampling);
    v[D_K] = kva_val_number(w->k);
    v[D_AVG] = with_interval(task->binary ? kva_stat_avg_at(w->right, w->draws, n)
                                          : kva_stat_mean(w->mean, n),
                             w->mean, w);
    if (task->binary) {
        v[D_J] = kva_val_number(j);
        for (int i = 0; i < w->n; i++)
            w->room[i] = kva_stat_pass_at(&w->right[i], &w->draws[i], 1, j);
        v[D_PASS] = with_interval(kva_stat_pass_at(w->right, w->draws, n, j), w->room, w);
    }
    if (votes(task->metric))
        v[D_MAJ] = with_interval(kva_stat_mean(w->maj, n), w->maj, w);
    v[D_N] = kva_val_number(w->n);
    v[D_LEFT] = kva_val_number(w->left_out);
    v[D_BUDGET_KIND] = kva_val_text(a->budget_kind);
    v[D_BUDGET] = kva_val_number(a->budget);
    row->role = a->role != KVA_ARM_METHOD ? KVA_ROW_REFERENCE
                : a->ok < a->expected     ? KVA_ROW_INCOMPLETE
                                          : KVA_ROW_PLAIN;
    row->group = j == 1 && t->n_row > 1;
}

/* j = 1, 2, 4, .. and k; of a score that is no yes or no one row. */
static void draw_rows(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b,
                      const struct kva_arm *a, int task, struct kva_tab *t)
{
    const struct kva_data_task *x = &d->tasks[b->task[task]];
    struct drawn w;

    if (!drawn_of(d, c, a->cell[task], votes(x->metric), &w))
        r->nomem = true;
    for (int j = x->binary ? 1 : w.k; !r->nomem && j > 0; j = j == w.k      ? 0
                                                              : 2 * j < w.k ? 2 * j
                                                                            : w.k)
        draw_row(r, x, b->task_label[task], a, b->sampling, &w, j, t);
    release(&w);
}

void kva_draw_table(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_tab *t;

    if (!b->sampling[0])
        return;
    t = kva_board_tab(r, b, "draws", KVA_VIEW_ANSWERS, COLS, D_COLS);
    if (!t)
        return;
    t->caption = kva_arena_printf(&r->arena, "Draws of a problem: %s", b->title);
    r->nomem |= !t->caption;
    for (int i = 0; i < b->n_task; i++)
        for (int k = 0; k < b->n_arm && !r->nomem; k++)
            if (b->arm[k].cell[i] >= 0)
                draw_rows(r, d, c, b, &b->arm[k], i, t);
}
