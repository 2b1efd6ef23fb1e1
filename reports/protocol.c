/* SPDX-License-Identifier: GPL-3.0-or-later */
/* protocol.c - how a task's prompts are made, read from its generator's description, and
 * the names that tell tasks apart.
 *
 * The dialect (kva1, r2024, r2025) and the profile (the published pipeline that a prompt
 * follows) are no part of a task's name, but scores of two of them are never comparable
 * (tasks-ruler.md 0.1, charter decision 13): a name says what differs from the default,
 * "ruler/vt@4096 [r2025, official]", and boards are split by it. */
#include "reports/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *suite, *profile;
} DEFAULTS[] = {{"ruler", "kvpress"},      {"niah", "kvpress"}, {"mt", "kvpress"},
                {"longbench", "official"}, {"math", "boxed"},   {"jsonl", "own"}};

static bool is_default(const char *suite, const char *profile)
{
    for (size_t i = 0; i < sizeof DEFAULTS / sizeof DEFAULTS[0]; i++)
        if (strcmp(DEFAULTS[i].suite, suite) == 0)
            return strcmp(DEFAULTS[i].profile, profile) == 0;
    return false;
}

static const char *member(struct kva_arena *a, const json_t *gen, const char *key)
{
    const char *s = json_string_value(json_object_get(gen, key));

    return kva_report_clean(a, s ? s : "");
}

static enum kva_status protocol_of(struct kva_arena *a, const struct kva_data_task *t,
                                   struct kva_protocol *p)
{
    json_error_t why;
    json_t *gen = json_loads(t->gen_json && t->gen_json[0] ? t->gen_json : "{}", 0, &why);
    const char *dialect, *profile;

    if (!gen && json_error_code(&why) == json_error_out_of_memory)
        return KVA_ENOMEM;
    p->dialect = dialect = member(a, gen, "dialect");
    p->profile = profile = member(a, gen, "profile");
    p->haystack = member(a, gen, "haystack");
    p->max_new = (int)json_integer_value(json_object_get(gen, "max_new_tokens"));
    json_decref(gen);
    if (!p->dialect || !p->profile || !p->haystack)
        return KVA_ENOMEM;
    if (strcmp(dialect, "kva1") == 0)
        dialect = "";
    if (profile[0] && is_default(t->suite, profile))
        profile = "";
    p->mark = kva_arena_printf(a, "%s%s%s", dialect, dialect[0] && profile[0] ? ", " : "",
                               profile);
    return p->mark ? KVA_OK : KVA_ENOMEM;
}

enum kva_status kva_protocols_read(struct kva_report *r, const struct kva_data *d,
                                   struct kva_cells *c, struct kva_error *err)
{
    for (int i = 0; i < d->n_tasks; i++)
        if (protocol_of(&r->arena, &d->tasks[i], &c->protocol[i]) != KVA_OK)
            return KVA_FAIL(err, KVA_ENOMEM, "task protocols: out of memory");
    return KVA_OK;
}

/* Has some model cells of both? Prompts are fitted with a model's own tokenizer, so the
 * same task is another one for another model, and stands in that model's tables alone. */
static bool share_a_model(const struct kva_data *d, int i, int j)
{
    for (int x = 0; x < d->n_cells; x++)
        for (int y = 0; y < d->n_cells && d->cells[x].task == i; y++)
            if (d->cells[y].task == j && d->cells[y].model == d->cells[x].model)
                return true;
    return false;
}

/* Same suite, name, length and mark: only the digest tells them apart. */
static bool are_twins(const struct kva_data *d, const struct kva_cells *c, int i, int j)
{
    const struct kva_data_task *a = &d->tasks[i], *b = &d->tasks[j];

    return a->ctx == b->ctx && strcmp(a->suite, b->suite) == 0 &&
           strcmp(a->name, b->name) == 0 &&
           strcmp(c->protocol[i].mark, c->protocol[j].mark) == 0 &&
           share_a_model(d, i, j);
}

enum kva_status kva_task_labels(struct kva_report *r, const struct kva_data *d,
                                struct kva_cells *c, struct kva_error *err)
{
    for (int i = 0; i < d->n_tasks; i++) {
        const struct kva_data_task *t = &d->tasks[i];
        const char *mark = c->protocol[i].mark;
        bool twin = false;
        char hex[65] = "";
        char *s;

        /* tasks are sorted by suite and name: twins are near */
        for (int j = i - 1; j >= 0 && strcmp(d->tasks[j].name, t->name) == 0; j--)
            twin |= are_twins(d, c, i, j);
        for (int j = i + 1; j < d->n_tasks && strcmp(d->tasks[j].name, t->name) == 0; j++)
            twin |= are_twins(d, c, i, j);
        if (twin)
            kva_hex(t->digest, 4, hex);
        s = t->ctx > 0
                ? kva_arena_printf(&r->arena, "%s/%s@%d", t->suite, t->name, t->ctx)
                : kva_arena_printf(&r->arena, "%s/%s", t->suite, t->name);
        if (s && (mark[0] || twin))
            s = kva_arena_printf(&r->arena, "%s [%s%s%s]", s, mark,
                                 mark[0] && twin ? ", " : "", hex);
        c->label[i] = s ? kva_report_clean(&r->arena, s) : NULL;
        if (!c->label[i])
            return KVA_FAIL(err, KVA_ENOMEM, "task names: out of memory");
    }
    return KVA_OK;
}

/* ---- the table of tasks ---- */

enum {
    P_TASK,
    P_DIALECT,
    P_PROFILE,
    P_HAYSTACK,
    P_METRIC,
    P_MAX_NEW,
    P_FLOOR,
    P_CELLS,
    P_COLS
};
static const struct kva_col COLS[P_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"dialect", "dialect", "", KVA_COL_TEXT, 0, false, 0, false,
     "kva1: a layout of its own for every sample; r2024, r2025: the official generator"},
    {"profile", "profile", "", KVA_COL_TEXT, 0, false, 0, false,
     "the published pipeline whose prompt this is"},
    {"haystack", "haystack", "", KVA_COL_TEXT, 0, false, 1, false, ""},
    {"metric", "metric", "", KVA_COL_TEXT, 0, false, 0, false, "of the score"},
    {"max_new_tokens", "at most", "tokens", KVA_COL_INT, 0, false, 3, false,
     "length limit of an answer"},
    {"guess_floor", "guess floor", "%", KVA_COL_PERCENT, 1, false, 2, false,
     "score of guessing"},
    {"n_cells", "cells", "", KVA_COL_INT, 0, false, 4, false, ""},
};

void kva_protocol_table(struct kva_report *r, const struct kva_data *d,
                        const struct kva_cells *c)
{
    struct kva_tab *t = kva_tab_add(r, "protocols", KVA_VIEW_TASKS, COLS, P_COLS);

    if (!t)
        return;
    t->heading = t->caption = "Protocol of every task";
    for (int i = 0; i < d->n_tasks; i++) {
        const struct kva_protocol *p = &c->protocol[i];
        int n = 0;
        struct kva_row *row;

        for (int k = 0; k < d->n_cells; k++)
            n += d->cells[k].task == i && !c->left_out[k];
        if (n == 0)
            continue;
        row = kva_tab_row(r, t);
        if (!row)
            return;
        row->cell[P_TASK] = kva_val_text(c->label[i]);
        row->cell[P_DIALECT] = kva_val_text(p->dialect);
        row->cell[P_PROFILE] = kva_val_text(p->profile);
        row->cell[P_HAYSTACK] = kva_val_text(p->haystack);
        row->cell[P_METRIC] =
            kva_val_text(kva_report_clean(&r->arena, d->tasks[i].metric));
        if (p->max_new > 0)
            row->cell[P_MAX_NEW] = kva_val_number(p->max_new);
        row->cell[P_FLOOR] = kva_val_number(d->tasks[i].guess_floor);
        row->cell[P_CELLS] = kva_val_number(n);
    }
    kva_tab_note(r, t,
                 "Scores of two dialects or profiles are never averaged and never ranked "
                 "side by side.");
}

void kva_protocol_note(struct kva_report *r, struct kva_tab *t, const struct kva_cells *c,
                       int task)
{
    const struct kva_protocol *p = &c->protocol[task];

    if (p->dialect[0] || p->profile[0] || p->haystack[0])
        kva_tab_note(r, t, "protocol: %s%s%s%s%s%s%s%s.", p->dialect[0] ? "dialect " : "",
                     p->dialect,
                     p->dialect[0] && (p->profile[0] || p->haystack[0]) ? ", " : "",
                     p->profile[0] ? "profile " : "", p->profile,
                     p->profile[0] && p->haystack[0] ? ", " : "",
                     p->haystack[0] ? "haystack " : "", p->haystack);
}
