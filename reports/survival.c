/* SPDX-License-Identifier: GPL-3.0-or-later */
/* survival.c - how much of the evidence, of its payload and of matched distractors a
 * method keeps (tasks-ruler.md 8.6).
 *
 *   surv(X)  = tokens of X still held / tokens of X, mean over layers and KV heads, then
 *              over the spans of a sample, then over samples
 *   rho      = entries kept / entries of the full cache
 *   lift     = surv(E) / surv(D) over the samples that have a D; random eviction gives 1
 *   E - rho  = what the method does better than a random choice of as many entries
 *
 * E is the evidence that is asked for, D pieces of the same haystack matched to it in
 * length and place. A sample without a matched D is in no E-against-D number. */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values of one kind of span, one per sample, and the samples' contexts. */
struct values {
    double *x;
    int *cluster, n;
};

static void add(struct values *v, double x, int cluster)
{
    v->cluster[v->n] = cluster;
    v->x[v->n++] = x;
}

static double mean(const struct values *v)
{
    return kva_stat_mean(v->x, (size_t)v->n);
}

static struct kva_interval interval(const struct values *v)
{
    struct kva_stratum s = {"", v->x, NULL, v->cluster, (size_t)v->n};

    return kva_stat_arm(&s, 1);
}

bool kva_survival_of(const struct kva_data *d, const struct kva_cells *c, int cell,
                     struct kva_survival *s)
{
    enum { E, P, D, X, RHO, BESIDE, N };
    int first = c->first_outcome[cell], all = c->first_outcome[cell + 1] - first;
    double *room = kva_calloc((size_t)all * N + 1, sizeof *room);
    int *context = kva_calloc((size_t)all * N + 1, sizeof *context), last = -1;
    struct kva_stratum beside = {.name = ""};
    struct kva_boot gap = {0};
    struct values v[N];
    bool ok = room && context;

    memset(s, 0, sizeof *s);
    if (!ok)
        goto out;
    for (int k = 0; k < N; k++)
        v[k] = (struct values){room + k * all, context + k * all, 0};
    for (int i = first; i < first + all; i++) {
        const struct kva_data_outcome *o = &d->outcomes[i];
        const struct kva_db_memory *m = &o->memory;
        int in;

        /* repetitions and draws of a sample share its decision: they count once */
        if (strcmp(o->status, "ok") != 0 || o->sample == last)
            continue;
        last = o->sample;
        in = c->cluster[o->sample];
        if (!isnan(o->span_x))
            add(&v[X], o->span_x, in);
        if (isnan(o->span_e))
            continue;
        add(&v[E], o->span_e, in);
        if (o->has_memory && m->kv_dense_bytes > 0)
            add(&v[RHO], (double)m->kv_live_bytes / (double)m->kv_dense_bytes, in);
        if (!isnan(o->span_payload))
            add(&v[P], o->span_payload, in);
        if (isnan(o->span_d))
            continue;
        add(&v[D], o->span_d, in);
        add(&v[BESIDE], o->span_e, in);
    }
    s->n = v[E].n;
    s->n_p = v[P].n;
    s->n_d = v[D].n;
    s->n_x = v[X].n;
    s->e = mean(&v[E]);
    s->p = mean(&v[P]);
    s->d = mean(&v[D]);
    s->x = mean(&v[X]);
    s->rho = mean(&v[RHO]);
    s->e_beside_d = mean(&v[BESIDE]);
    s->e_ci = interval(&v[E]);
    s->p_ci = interval(&v[P]);
    s->d_ci = interval(&v[D]);
    beside.a = v[BESIDE].x;
    beside.b = v[D].x;
    beside.cluster = v[D].cluster;
    beside.n = (size_t)v[D].n;
    ok = kva_stat_linearised(&beside, 1, 0, &gap, NULL) == KVA_OK;
    s->gap_ci = gap.diff_ci;
out:
    free(room);
    free(context);
    return ok;
}

enum {
    S_TASK,
    S_METHOD,
    S_KEEP,
    S_RHO,
    S_E,
    S_P,
    S_D,
    S_LIFT,
    S_OVER,
    S_GAP,
    S_X,
    S_N,
    S_N_D,
    S_SPEC,
    S_BUDGET_KIND,
    S_BUDGET,
    S_COLS
};
static const struct kva_col COLS[S_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"rho", "kept", "%", KVA_COL_PERCENT, 1, false, 1, false,
     "rho: share of the entries that is kept"},
    {"surv_E", "evidence", "%", KVA_COL_PERCENT, 1, true, 0, false,
     "surv(E): tokens of the evidence still held, mean over layers, KV heads, samples"},
    {"surv_payload", "payload", "%", KVA_COL_PERCENT, 1, true, 0, false,
     "surv(payload): of the value that must be read to answer"},
    {"surv_D", "distractor", "%", KVA_COL_PERCENT, 1, true, 2, false,
     "surv(D): of pieces of the haystack matched in length and place"},
    {"lift", "lift", "", KVA_COL_REAL, 2, false, 3, false,
     "surv(E) / surv(D) over samples with D; random eviction gives 1"},
    {"surv_E_minus_rho", "E \xe2\x88\x92 kept", "points", KVA_COL_PERCENT, 1, false, 4,
     false, "surv(E) - rho: better than a random choice of as many entries"},
    {"surv_E_minus_D", "E \xe2\x88\x92 D", "points", KVA_COL_PERCENT, 1, true, 5, false,
     "over samples with D, with the paired 95 % interval"},
    {"surv_X", "example", "%", KVA_COL_PERCENT, 1, false, 6, false,
     "surv(X): of the worked example inside the context"},
    {"n", "n", "", KVA_COL_INT, 0, false, 2, false, "samples with evidence"},
    {"n_d", "n with D", "", KVA_COL_INT, 0, false, 7, false, ""},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

static void fill(const struct kva_arm *a, const struct kva_survival *s, const char *label,
                 struct kva_row *row)
{
    struct kva_val *v = row->cell;

    v[S_TASK] = kva_val_text(label);
    kva_arm_names(a, &v[S_METHOD], &v[S_KEEP], &v[S_SPEC]);
    v[S_RHO] = kva_val_number(s->rho);
    v[S_E] = kva_val_interval(s->e, s->e_ci);
    v[S_P] = kva_val_interval(s->p, s->p_ci);
    v[S_D] = kva_val_interval(s->d, s->d_ci);
    if (s->d > 0)
        v[S_LIFT] = kva_val_number(s->e_beside_d / s->d);
    v[S_OVER] = kva_val_number(s->e - s->rho);
    v[S_GAP] = kva_val_interval(s->e_beside_d - s->d, s->gap_ci);
    v[S_X] = kva_val_number(s->x);
    v[S_N] = kva_val_number(s->n);
    v[S_N_D] = kva_val_number(s->n_d);
    v[S_BUDGET_KIND] = kva_val_text(a->budget_kind);
    v[S_BUDGET] = kva_val_number(a->budget);
}

static void notes(struct kva_report *r, struct kva_tab *t, const struct kva_cells *c,
                  const struct kva_board *b, int outcomes, int without)
{
    struct kva_buf noise;

    if (without)
        kva_tab_note(r, t,
                     "%d of %d outcomes have no distractor that matches their evidence: "
                     "they are left out of distractor, lift and E \xe2\x88\x92 D.",
                     without, outcomes);
    kva_buf_init(&noise, 0);
    for (int i = 0; i < b->n_task; i++)
        if (strcmp(c->protocol[b->task[i]].haystack, "noise") == 0)
            kva_buf_printf(&noise, "%s%s", noise.len ? ", " : "", b->task_label[i]);
    r->nomem |= noise.failed;
    if (!noise.failed && noise.len)
        kva_tab_note(r, t,
                     "repeated text: the distractors of %s say the same as their "
                     "surroundings; read these rows apart.",
                     noise.data);
    kva_buf_release(&noise);
    kva_tab_note(r, t,
                 "Only evidence that the question asks for counts. The unit of intervals "
                 "is the context.");
}

void kva_survival_table(struct kva_report *r, const struct kva_data *d,
                        const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_tab *t = NULL;
    int outcomes = 0, without = 0;

    for (int i = 0; i < b->n_task; i++) {
        bool first = true;

        for (int k = 0; k < b->n_arm; k++) {
            const struct kva_arm *a = &b->arm[k];
            struct kva_survival s;
            struct kva_row *row;

            if (a->role != KVA_ARM_METHOD || a->cell[i] < 0)
                continue;
            if (!kva_survival_of(d, c, a->cell[i], &s)) {
                r->nomem = true;
                return;
            }
            if (s.n == 0)
                continue;
            if (!t) {
                t = kva_board_tab(r, b, "survival", KVA_VIEW_SURVIVAL, COLS, S_COLS);
                if (!t)
                    return;
            }
            row = kva_tab_row(r, t);
            if (!row)
                return;
            fill(a, &s, b->task_label[i], row);
            row->role = a->ok < a->expected ? KVA_ROW_INCOMPLETE : KVA_ROW_PLAIN;
            row->group = first && t->n_row > 1;
            first = false;
            outcomes += s.n;
            without += s.n - s.n_d;
        }
    }
    if (t)
        notes(r, t, c, b, outcomes, without);
}
