/* SPDX-License-Identifier: GPL-3.0-or-later */
/* breakdown.c - scores by what a sample's record says of it (level and subject of a
 * mathematics problem, length bucket of LongBench-E) and by turn.
 *
 * Length buckets are those of LongBench-E: below 4000, 4000 to 7999, 8000 and more; an
 * empty one is n/a (tasks-longbench-math.md A.9). A turn's score is the mean over
 * contexts; the last row is the mean of the turns (tasks-ruler.md 10.1). A sample's
 * draws are one value, samples of one context move together. */
#include "reports/internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    B_TASK,
    B_METHOD,
    B_KEEP,
    B_LABEL,
    B_VALUE,
    B_SCORE,
    B_N,
    B_SPEC,
    B_BUDGET_KIND,
    B_BUDGET,
    B_COLS
};
static const struct kva_col COLS[B_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"label", "by", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"value", "value", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"score", "score", "", KVA_COL_PERCENT, 2, true, 0, false, "with its 95 % interval"},
    {"n", "n", "", KVA_COL_INT, 0, false, 1, false, "samples"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

static const char *const KEYS[] = {"level", "subject", "length"};
enum { N_KEYS = 3, LENGTH = 2, MAX_VALUES = 32 };
static const char *const BUCKETS[] = {"0-4000", "4000-8000", "8000+"};

/* Values of one label of the samples of one task. */
struct labels {
    const char *value[MAX_VALUES];
    int n, first;    /* first: sample of the task */
    signed char *of; /* per sample from `first`: index of its value, -1 none */
    int n_sample;
};

static bool is_e_set(const struct kva_data_task *t)
{
    size_t n = strlen(t->name);

    return strcmp(t->suite, "longbench") == 0 && n > 2 &&
           strcmp(t->name + n - 2, "_e") == 0;
}

static int value_index(struct kva_report *r, struct labels *l, const char *s)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->value[i], s) == 0)
            return i;
    if (l->n == MAX_VALUES) /* an identifier, not a class */
        return -1;
    l->value[l->n] = kva_report_clean(&r->arena, s);
    r->nomem |= !l->value[l->n];
    return r->nomem ? -1 : l->n++;
}

static int label_of(struct kva_report *r, const char *meta, int key, struct labels *l)
{
    char text[32];
    json_t *v, *x;
    int at = -1;

    if (!strstr(meta, KEYS[key]))
        return -1;
    v = json_loads(meta, 0, NULL);
    x = json_object_get(v, KEYS[key]);
    if (key == LENGTH) {
        json_int_t n = json_integer_value(x);

        if (json_is_integer(x))
            at = n < 4000 ? 0 : n < 8000 ? 1 : 2;
    } else if (json_is_string(x)) {
        at = value_index(r, l, json_string_value(x));
    } else if (json_is_integer(x)) {
        (void)snprintf(text, sizeof text, "%lld", (long long)json_integer_value(x));
        at = value_index(r, l, text);
    }
    json_decref(v);
    return at;
}

static int cmp_value(const void *p, const void *q, void *ctx)
{
    const struct labels *l = ctx;

    return strcmp(l->value[*(const int *)p], l->value[*(const int *)q]);
}

/* Values in order of their text, whatever the order of the samples. */
static void sort_values(struct labels *l)
{
    int order[MAX_VALUES], inverse[MAX_VALUES];
    const char *value[MAX_VALUES];

    for (int i = 0; i < l->n; i++)
        order[i] = i;
    if (l->n)
        qsort_r(order, (size_t)l->n, sizeof *order, cmp_value, l);
    for (int i = 0; i < l->n; i++) {
        value[i] = l->value[order[i]];
        inverse[order[i]] = i;
    }
    for (int i = 0; i < l->n; i++)
        l->value[i] = value[i];
    for (int i = 0; i < l->n_sample; i++)
        if (l->of[i] >= 0)
            l->of[i] = (signed char)inverse[l->of[i]];
}

/* The samples of the task by one label; n 0: they have none. */
static bool read_labels(struct kva_report *r, const struct kva_data *d, int task, int key,
                        struct labels *l)
{
    int end;
    bool any = false;

    memset(l, 0, sizeof *l);
    if (key == LENGTH && !is_e_set(&d->tasks[task]))
        return true;
    while (l->first < d->n_samples && d->samples[l->first].task < task)
        l->first++;
    for (end = l->first; end < d->n_samples && d->samples[end].task == task; end++)
        ;
    l->n_sample = end - l->first;
    l->of = kva_calloc((size_t)l->n_sample + 1, sizeof *l->of);
    if (!l->of) {
        r->nomem = true;
        return false;
    }
    for (int i = 0; i < l->n_sample; i++) {
        l->of[i] = (signed char)label_of(r, d->samples[l->first + i].meta_json, key, l);
        any |= l->of[i] >= 0;
    }
    if (key == LENGTH && any) {
        l->n = 3;
        for (int i = 0; i < 3; i++)
            l->value[i] = BUCKETS[i];
    } else {
        sort_values(l);
    }
    return !r->nomem;
}

static struct kva_tab *open_table(struct kva_report *r, const struct kva_board *b,
                                  const char *suffix, const char *title)
{
    struct kva_tab *t = kva_board_tab(r, b, suffix, KVA_VIEW_ANSWERS, COLS, B_COLS);

    if (t) {
        t->caption = kva_arena_printf(&r->arena, "%s: %s", title, b->title);
        r->nomem |= !t->caption;
    }
    return t;
}

/* Some samples of a cell. */
struct some {
    double *x;
    int *cluster, n;
};

static bool some_init(struct kva_report *r, int n, struct some *s)
{
    s->n = 0;
    s->x = kva_calloc((size_t)n + 1, sizeof *s->x);
    s->cluster = kva_calloc((size_t)n + 1, sizeof *s->cluster);
    r->nomem |= !s->x || !s->cluster;
    return s->x && s->cluster;
}

static void some_release(struct some *s)
{
    free(s->x);
    free(s->cluster);
}

static void some_add(const struct kva_cells *c, const struct kva_obs *o, struct some *s)
{
    s->cluster[s->n] = c->cluster[o->sample];
    s->x[s->n++] = o->score;
}

static struct kva_val some_mean(const struct some *s)
{
    struct kva_stratum all = {"", s->x, NULL, s->cluster, (size_t)s->n};

    return kva_val_interval(kva_stat_mean(s->x, (size_t)s->n), kva_stat_arm(&all, 1));
}

/* The samples of one cell whose class is `want`. */
static void class_row(struct kva_report *r, const struct kva_cells *c,
                      const struct kva_board *b, const struct kva_arm *a, int task,
                      const char *key, const struct labels *l, int want,
                      struct some *some, struct kva_tab *t)
{
    struct kva_row *row = kva_tab_row(r, t);
    int cell = a->cell[task];
    struct kva_val *v;

    if (!row)
        return;
    some->n = 0;
    for (int i = c->first[cell]; i < c->first[cell + 1]; i++)
        if (c->obs[i].n_ok && l->of[c->obs[i].sample - l->first] == want)
            some_add(c, &c->obs[i], some);
    v = row->cell;
    v[B_TASK] = kva_val_text(b->task_label[task]);
    kva_arm_names(a, &v[B_METHOD], &v[B_KEEP], &v[B_SPEC]);
    v[B_LABEL] = kva_val_text(key);
    v[B_VALUE] = kva_val_text(l->value[want]);
    v[B_SCORE] = some_mean(some);
    v[B_N] = kva_val_number(some->n);
    v[B_BUDGET_KIND] = kva_val_text(a->budget_kind);
    v[B_BUDGET] = kva_val_number(a->budget);
    row->role = a->role != KVA_ARM_METHOD ? KVA_ROW_REFERENCE : KVA_ROW_PLAIN;
}

void kva_label_table(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_tab *t = NULL;

    for (int i = 0; i < b->n_task; i++)
        for (int key = 0; key < N_KEYS && !r->nomem; key++) {
            struct some some;
            struct labels l;
            bool room;

            if (!read_labels(r, d, b->task[i], key, &l))
                return;
            room = some_init(r, l.n_sample, &some);
            if (l.n && !t)
                t = open_table(r, b, "labels", "Breakdown");
            for (int want = 0; t && room && want < l.n; want++)
                for (int k = 0; k < b->n_arm; k++) {
                    int n = t->n_row;

                    if (b->arm[k].cell[i] < 0)
                        continue;
                    class_row(r, c, b, &b->arm[k], i, KEYS[key], &l, want, &some, t);
                    if (t->n_row > n && k == 0 && n > 0)
                        t->row[n].group = true;
                }
            some_release(&some);
            free(l.of);
        }
}

/* ---- turns ---- */

enum {
    U_TASK,
    U_METHOD,
    U_KEEP,
    U_TURN,
    U_SCORE,
    U_END,
    U_AUDIT,
    U_N,
    U_SPEC,
    U_BUDGET_KIND,
    U_BUDGET,
    U_COLS
};
static const struct kva_col TURNS[U_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"turn", "turn", "", KVA_COL_TEXT, 0, false, 0, false,
     "question on the same context, from 1; mean: of the turns"},
    {"score", "score", "", KVA_COL_PERCENT, 2, true, 0, false,
     "mean over contexts with its 95 % interval"},
    {"end_bytes", "cache at the end", "", KVA_COL_BYTES, 0, false, 1, false,
     "bytes held after the answer, mean; grows from turn to turn in a conversation"},
    {"audit", "audit", "", KVA_COL_TEXT, 0, false, 0, false, "what the bytes prove"},
    {"n", "n", "", KVA_COL_INT, 0, false, 2, false, "answers"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

static int turns_of(const struct kva_data *d, int task)
{
    int n = 0;

    for (int i = 0; i < d->n_samples; i++)
        if (d->samples[i].task == task && d->samples[i].turn >= n)
            n = d->samples[i].turn + 1;
    return n;
}

/* Mean bytes after the answers of one turn, NaN: not recorded; and what they prove. */
static double end_bytes(const struct kva_data *d, const struct kva_cells *c, int cell,
                        int turn, enum kva_badge *worst)
{
    double sum = 0;
    int bits = 0;
    int n = 0;

    for (int i = c->first_outcome[cell]; i < c->first_outcome[cell + 1]; i++) {
        const struct kva_data_outcome *o = &d->outcomes[i];
        enum kva_badge badge;

        if (strcmp(o->status, "ok") != 0 || !o->has_memory ||
            d->samples[o->sample].turn != turn)
            continue;
        badge = kva_badge_of(&d->cells[cell], o, &bits);
        if (*worst == KVA_BADGE_NONE || badge > *worst)
            *worst = badge;
        sum += (double)o->memory.kv_end_bytes;
        n++;
    }
    return n ? sum / n : (double)NAN;
}

static void turn_row(struct kva_report *r, const struct kva_board *b,
                     const struct kva_arm *a, int task, const char *turn,
                     struct kva_val score, double end, enum kva_badge badge, int n,
                     struct kva_tab *t)
{
    struct kva_row *row = kva_tab_row(r, t);
    struct kva_val *v;

    if (!row || !turn) {
        r->nomem = true;
        return;
    }
    v = row->cell;
    v[U_TASK] = kva_val_text(b->task_label[task]);
    kva_arm_names(a, &v[U_METHOD], &v[U_KEEP], &v[U_SPEC]);
    v[U_TURN] = kva_val_text(turn);
    v[U_SCORE] = score;
    v[U_END] = kva_val_number(end);
    v[U_AUDIT] =
        kva_val_text(badge == KVA_BADGE_NONE ? NULL : kva_arm_badge_text(a, badge));
    v[U_N] = kva_val_number(n);
    v[U_BUDGET_KIND] = kva_val_text(a->budget_kind);
    v[U_BUDGET] = kva_val_number(a->budget);
    row->role = a->role != KVA_ARM_METHOD ? KVA_ROW_REFERENCE : KVA_ROW_PLAIN;
}

/* The turns of one arm and their mean. */
static void turn_rows(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b,
                      const struct kva_arm *a, int task, int turns, struct kva_tab *t)
{
    int cell = a->cell[task], all = c->first[cell + 1] - c->first[cell], start = t->n_row;
    int total = 0, first = 0;
    struct kva_val mean = kva_val_number((double)NAN);
    struct some some;
    double sum = 0;
    bool room = some_init(r, all, &some), alike = true;

    for (int k = 0; room && k < turns; k++) {
        enum kva_badge badge = KVA_BADGE_NONE;
        double end = end_bytes(d, c, cell, k, &badge);

        some.n = 0;
        for (int i = c->first[cell]; i < c->first[cell + 1]; i++)
            if (c->obs[i].n_ok && d->samples[c->obs[i].sample].turn == k)
                some_add(c, &c->obs[i], &some);
        first = k ? first : some.n;
        alike &= some.n == first;
        total += some.n;
        sum += kva_stat_mean(some.x, (size_t)some.n);
        turn_row(r, b, a, task, kva_arena_printf(&r->arena, "%d", k + 1),
                 some_mean(&some), end, badge, some.n, t);
    }
    some.n = 0;
    for (int i = c->first[cell]; room && i < c->first[cell + 1]; i++)
        if (c->obs[i].n_ok)
            some_add(c, &c->obs[i], &some);
    if (room) /* as many answers in all turns: also the mean of the answers */
        mean = alike ? some_mean(&some) : kva_val_number(sum / turns);
    some_release(&some);
    turn_row(r, b, a, task, "mean", mean, (double)NAN, KVA_BADGE_NONE, total, t);
    if (start > 0 && t->n_row > start)
        t->row[start].group = true;
}

void kva_turn_table(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_tab *t = NULL;

    for (int i = 0; i < b->n_task; i++) {
        int turns = turns_of(d, b->task[i]);

        if (turns < 2)
            continue;
        if (!t) {
            t = kva_board_tab(r, b, "turns", KVA_VIEW_ANSWERS, TURNS, U_COLS);
            if (!t)
                return;
            t->caption = kva_arena_printf(&r->arena, "Turn by turn: %s", b->title);
            r->nomem |= !t->caption;
        }
        for (int k = 0; k < b->n_arm && !r->nomem; k++)
            if (b->arm[k].cell[i] >= 0)
                turn_rows(r, d, c, b, &b->arm[k], i, turns, t);
    }
}
