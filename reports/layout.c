/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layout.c - "layout gap": an official dialect of RULER beside kva1
 * (tasks-ruler.md 11.1).
 *
 * In r2024 and r2025 every shuffle uses a fresh generator with the same seed, so the
 * place of the evidence is the same in all samples; kva1 draws it anew. A method with a
 * prior for some place gains or loses in all samples at once. Both dialects' samples are
 * independent, so the gap (official - kva1) is a difference of two means with Welch's
 * interval. It covers the samples, not the layout: of that r2024 and r2025 have one. */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    L_TASK,
    L_DIALECT,
    L_METHOD,
    L_KEEP,
    L_PAYLOAD,
    L_PAYLOAD_KVA1,
    L_PAYLOAD_GAP,
    L_SCORE,
    L_SCORE_KVA1,
    L_SCORE_GAP,
    L_NATS,
    L_NATS_KVA1,
    L_NATS_GAP,
    L_N,
    L_N_KVA1,
    L_MODEL,
    L_ENFORCE,
    L_SPEC,
    L_BUDGET_KIND,
    L_BUDGET,
    L_COLS
};
static const struct kva_col COLS[L_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"dialect", "dialect", "", KVA_COL_TEXT, 0, false, 0, false, "beside kva1"},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"surv_payload", "payload", "%", KVA_COL_PERCENT, 1, false, 2, false,
     "payload survival in the official dialect"},
    {"surv_payload_kva1", "in kva1", "%", KVA_COL_PERCENT, 1, false, 2, false, ""},
    {"surv_payload_gap", "payload gap", "points", KVA_COL_PERCENT, 1, true, 1, false,
     "official - kva1, Welch's 95 % interval"},
    {"score", "score", "", KVA_COL_PERCENT, 2, false, 2, false, "official"},
    {"score_kva1", "in kva1", "", KVA_COL_PERCENT, 2, false, 2, false, ""},
    {"score_gap", "score gap", "points", KVA_COL_PERCENT, 1, true, 0, false,
     "official - kva1, Welch's 95 % interval"},
    {"nats", "nats", "", KVA_COL_REAL, 2, false, 4, false, "official; lower is better"},
    {"nats_kva1", "in kva1", "", KVA_COL_REAL, 2, false, 4, false, ""},
    {"nats_gap", "nats gap", "", KVA_COL_REAL, 2, false, 3, false, "official - kva1"},
    {"n", "n", "", KVA_COL_INT, 0, false, 5, false, "samples of the official dialect"},
    {"n_kva1", "n kva1", "", KVA_COL_INT, 0, false, 5, false, ""},
    {"model", "model", "", KVA_COL_TEXT, 0, false, 6, false, ""},
    {"enforce", "enforce", "", KVA_COL_TEXT, 0, false, 7, false, ""},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

/* ---- partners ---- */

static bool is_official(const struct kva_protocol *p)
{
    return strcmp(p->dialect, "r2024") == 0 || strcmp(p->dialect, "r2025") == 0;
}

static bool same_task(const struct kva_data *d, const struct kva_cells *c, int x, int y)
{
    const struct kva_data_task *a = &d->tasks[x], *b = &d->tasks[y];

    return a->ctx == b->ctx && strcmp(a->suite, b->suite) == 0 &&
           strcmp(a->name, b->name) == 0 &&
           strcmp(c->protocol[x].profile, c->protocol[y].profile) == 0 &&
           strcmp(c->protocol[x].haystack, c->protocol[y].haystack) == 0;
}

/* Two cells that differ in the task alone. */
static bool same_cell(const struct kva_data *d, const struct kva_cells *c, int x, int y)
{
    const struct kva_data_cell *a = &d->cells[x], *b = &d->cells[y];

    return a->model == b->model && a->budget == b->budget &&
           strcmp(a->method, b->method) == 0 &&
           strcmp(a->budget_kind, b->budget_kind) == 0 &&
           strcmp(a->schedule, b->schedule) == 0 && strcmp(a->enforce, b->enforce) == 0 &&
           strcmp(a->visibility, b->visibility) == 0 &&
           strcmp(a->numerics, b->numerics) == 0 && strcmp(a->kv, b->kv) == 0 &&
           strcmp(c->variant[x], c->variant[y]) == 0;
}

static int partner(const struct kva_data *d, const struct kva_cells *c, int cell)
{
    for (int j = 0; j < d->n_cells; j++)
        if (!c->left_out[j] &&
            strcmp(c->protocol[d->cells[j].task].dialect, "kva1") == 0 &&
            same_task(d, c, d->cells[cell].task, d->cells[j].task) &&
            same_cell(d, c, cell, j))
            return j;
    return -1;
}

/* ---- values ---- */

enum { PAYLOAD, SCORE, NATS, N_VALUES };
struct side {
    double *x[N_VALUES];
    int n[N_VALUES];
};

/* A value a sample: the mean over its repetitions or draws. */
static bool side_of(const struct kva_data *d, const struct kva_cells *c, int cell,
                    struct side *s)
{
    int from = c->first_outcome[cell], to = c->first_outcome[cell + 1];

    memset(s, 0, sizeof *s);
    s->x[0] = kva_calloc((size_t)(to - from) * N_VALUES + 1, sizeof(double));
    if (!s->x[0])
        return false;
    for (int k = 1; k < N_VALUES; k++)
        s->x[k] = s->x[0] + k * (to - from);
    while (from < to) {
        int sample = d->outcomes[from].sample, n[N_VALUES] = {0};
        double sum[N_VALUES] = {0};

        for (; from < to && d->outcomes[from].sample == sample; from++) {
            const struct kva_data_outcome *o = &d->outcomes[from];
            const double v[N_VALUES] = {o->span_payload, o->score, o->gold_nll};

            for (int k = 0; strcmp(o->status, "ok") == 0 && k < N_VALUES; k++)
                if (!isnan(v[k])) {
                    sum[k] += v[k];
                    n[k]++;
                }
        }
        for (int k = 0; k < N_VALUES; k++)
            if (n[k])
                s->x[k][s->n[k]++] = sum[k] / n[k];
    }
    return true;
}

static void gap(const struct side *a, const struct side *b, int k, struct kva_val *v)
{
    double x = kva_stat_mean(a->x[k], (size_t)a->n[k]);
    double y = kva_stat_mean(b->x[k], (size_t)b->n[k]);

    v[0] = kva_val_number(x);
    v[1] = kva_val_number(y);
    v[2] = kva_val_interval(
        x - y, kva_stat_welch(a->x[k], (size_t)a->n[k], b->x[k], (size_t)b->n[k]));
}

static void layout_row(struct kva_report *r, const struct kva_data *d,
                       const struct kva_cells *c, int cell, int other, struct kva_tab *t)
{
    const struct kva_data_cell *x = &d->cells[cell];
    struct kva_row *row = kva_tab_row(r, t);
    struct side a = {0}, b = {0};
    struct kva_val *v;

    if (!row)
        return;
    v = row->cell;
    if (!side_of(d, c, cell, &a) || !side_of(d, c, other, &b)) {
        r->nomem = true;
    } else {
        gap(&a, &b, PAYLOAD, &v[L_PAYLOAD]);
        gap(&a, &b, SCORE, &v[L_SCORE]);
        gap(&a, &b, NATS, &v[L_NATS]);
        v[L_N] = kva_val_number(a.n[SCORE]);
        v[L_N_KVA1] = kva_val_number(b.n[SCORE]);
    }
    free(a.x[0]);
    free(b.x[0]);
    v[L_TASK] = kva_val_text(c->label[d->cells[other].task]);
    v[L_DIALECT] = kva_val_text(c->protocol[x->task].dialect);
    v[L_METHOD] = kva_val_text(c->name[cell]);
    v[L_KEEP] = kva_val_text(kva_report_budget(&r->arena, x->budget_kind, x->budget));
    v[L_MODEL] = kva_val_text(kva_report_clean(&r->arena, d->models[x->model].name));
    v[L_ENFORCE] = kva_val_text(kva_report_clean(&r->arena, x->enforce));
    v[L_SPEC] = kva_val_text(kva_report_clean(&r->arena, x->method));
    v[L_METHOD].title = v[L_SPEC].text;
    v[L_BUDGET_KIND] = kva_val_text(kva_report_clean(&r->arena, x->budget_kind));
    v[L_BUDGET] = kva_val_number(x->budget);
    row->role = strcmp(x->method, "dense") == 0 ? KVA_ROW_REFERENCE : KVA_ROW_PLAIN;
}

void kva_layout_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c)
{
    struct kva_tab *t = NULL;
    int last = -1;

    for (int i = 0; i < d->n_cells; i++) {
        const struct kva_data_cell *x = &d->cells[i];
        int other, n;

        if (!is_official(&c->protocol[x->task]) || c->left_out[i] ||
            strcmp(x->method, "blind") == 0)
            continue;
        other = partner(d, c, i);
        if (other < 0)
            continue;
        if (!t && !(t = kva_tab_add(r, "layout-gap", KVA_VIEW_SURVIVAL, COLS, L_COLS)))
            return;
        t->heading = t->caption = "Layout gap: the official dialect beside kva1";
        n = t->n_row;
        layout_row(r, d, c, i, other, t);
        if (n > 0 && t->n_row > n)
            t->row[n].group = x->task != last;
        last = x->task;
    }
    kva_tab_note(
        r, t,
        "gap: official minus kva1, a difference of two independent means with "
        "Welch's 95 %% interval over samples. The official dialects put the "
        "evidence of cwe, fwe, qa and multi-key needles at the same place in all "
        "samples: the interval knows nothing of other places.");
}
