/* SPDX-License-Identifier: GPL-3.0-or-later */
/* suite_expand.c - from lists and matrix to cells, in the order of reports.md 8.1:
 *
 * (1) patterns of `matrix` expand in declaration order; (2) product, keys in the order
 * model, method, task, budget, schedule, enforce, visibility, numerics, kv, sampling; (3)
 * `exclude`; (4) `overrides` in order, later wins; (5) `include`; (6) the dense cell and
 * the blind cell of every (model, task, numerics, kv, sampling) that occurs; (7) exact
 * duplicates drop. --only and --limit come last. */
#include "runner/suite_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const SELECTOR[] = {"model",    "method",   "task",     "ctx",
                                       "budget",   "schedule", "enforce",  "visibility",
                                       "numerics", "kv",       "sampling", NULL};

/* A list of indexes into one of the suite's lists. */
struct picks {
    int *v;
    int n;
};

/* ---- matching ---- */

static const char *method_name(const struct sx *x, const struct sx_cell *c)
{
    return c->method == SX_DENSE   ? "dense"
           : c->method == SX_BLIND ? "blind"
                                   : x->methods[c->method].id;
}

/* What a pattern under `key` is held against first; room: for numbers. */
static const char *text_of(const char *key, const struct sx *x, const struct sx_cell *c,
                           char room[32])
{
    size_t base;

    if (strcmp(key, "model") == 0)
        return x->s->models[c->model].id;
    if (strcmp(key, "method") == 0)
        return method_name(x, c);
    if (strcmp(key, "task") == 0)
        return x->s->tasks[c->task].id;
    if (strcmp(key, "ctx") == 0) {
        snprintf(room, 32, "%d", kva_sx_task_ctx(x->s->tasks[c->task].id, &base));
        return room;
    }
    if (strcmp(key, "budget") == 0) {
        kva_budget_text(&c->budget, room);
        return room;
    }
    if (strcmp(key, "schedule") == 0)
        return x->schedules.v[c->schedule];
    if (strcmp(key, "enforce") == 0)
        return kva_enforce_name(c->enforce);
    if (strcmp(key, "visibility") == 0)
        return kva_visibility_name(c->visibility);
    if (strcmp(key, "numerics") == 0)
        return x->numerics.v[c->numerics];
    if (strcmp(key, "sampling") == 0)
        return x->sampling[c->sampling].text;
    return x->kv.v[c->kv];
}

static bool match_text(const char *key, const char *pattern, const struct sx *x,
                       const struct sx_cell *c)
{
    char room[32];
    const char *text = text_of(key, x, c, room);

    if (strcmp(key, "task") == 0)
        return kva_sx_task_match(pattern, text);
    if (kva_sx_glob(pattern, text))
        return true;
    return strcmp(key, "method") == 0 && c->method >= 0 &&
           (kva_sx_glob(pattern, x->methods[c->method].text) ||
            (x->methods[c->method].spec[c->schedule] &&
             kva_sx_glob(pattern, x->methods[c->method].spec[c->schedule])));
}

static bool match_one(const char *key, json_t *v, const struct sx *x,
                      const struct sx_cell *c)
{
    if (json_is_array(v)) {
        size_t i;
        json_t *e;

        json_array_foreach(v, i, e)
        {
            if (match_one(key, e, x, c))
                return true;
        }
        return false;
    }
    if (json_is_string(v) &&
        (strcmp(key, "budget") != 0 || strpbrk(json_string_value(v), "*?") != NULL))
        return match_text(key, json_string_value(v), x, c);
    if (strcmp(key, "ctx") == 0) {
        size_t base;
        int ctx = kva_sx_task_ctx(x->s->tasks[c->task].id, &base);
        json_t *min = json_object_get(v, "min"), *max = json_object_get(v, "max");

        if (json_is_integer(v))
            return ctx == json_integer_value(v);
        return ctx && (!min || ctx >= json_integer_value(min)) &&
               (!max || ctx <= json_integer_value(max));
    }
    if (strcmp(key, "budget") == 0 && (json_is_object(v) || json_is_string(v))) {
        struct sx quiet =
            *x; /* the value was checked before: reads it without a report */
        struct kva_budget b;
        bool same;

        quiet.quiet = true;
        if (!kva_sx_budget(&quiet, v, "", &b)) /* "dense" */
            return json_is_string(v) && match_text(key, json_string_value(v), x, c);
        same = b.kind == c->budget.kind && b.value == c->budget.value;
        return same;
    }
    return false;
}

/* All given keys must match; an empty object matches everything. */
static bool match(json_t *selector, const struct sx *x, const struct sx_cell *c)
{
    const char *key;
    json_t *v;

    json_object_foreach(selector, key, v)
    {
        bool known = false;

        for (int i = 0; SELECTOR[i]; i++)
            known = known || strcmp(SELECTOR[i], key) == 0;
        if (known && !match_one(key, v, x, c))
            return false;
    }
    return true;
}

/* Reports wrong keys and value types of a selector; `extra`: a key that is no selector.
 */
static void check_selector(struct sx *x, json_t *sel, const char *ptr, const char *extra)
{
    static const char *const minmax[] = {"min", "max", NULL};
    const char *known[16], *key;
    json_t *v;
    int n = 0;

    for (; SELECTOR[n]; n++)
        known[n] = SELECTOR[n];
    if (extra)
        known[n++] = extra;
    known[n] = NULL;
    kva_sx_keys(x, sel, ptr, known);
    json_object_foreach(sel, key, v)
    {
        char at[SX_PTR], sub[SX_PTR];
        size_t count = json_is_array(v) ? json_array_size(v) : 1;

        if (key[0] == '/' || (extra && strcmp(key, extra) == 0))
            continue;
        kva_sx_join(at, ptr, key);
        for (size_t i = 0; i < count; i++) {
            json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
            struct kva_budget b;

            memcpy(sub, at, sizeof sub);
            if (json_is_array(v))
                kva_sx_join_at(sub, at, i);
            if (strcmp(key, "budget") == 0) {
                if (!json_is_string(e) || !strpbrk(json_string_value(e), "*?"))
                    kva_sx_budget(x, e, sub, &b);
            } else if (strcmp(key, "ctx") == 0) {
                if (json_is_object(e)) {
                    kva_sx_keys(x, e, sub, minmax);
                    kva_sx_int(x, e, sub, "min", 1, 1 << 24, 1);
                    kva_sx_int(x, e, sub, "max", 1, 1 << 24, 1);
                } else if (!json_is_integer(e)) {
                    kva_sx_bad(x, sub, false, "must be a length or {min, max}, not %s",
                               kva_sx_type(e));
                }
            } else if (!json_is_string(e)) {
                kva_sx_bad(x, sub, false, "must be a string, not %s", kva_sx_type(e));
            }
        }
    }
}

/* ---- (1) what the matrix names ---- */

typedef const char *(*name_fn)(const struct sx *, int);

static const char *model_id(const struct sx *x, int i)
{
    return x->s->models[i].id;
}
static const char *method_id(const struct sx *x, int i)
{
    return x->methods[i].id;
}
static const char *task_id(const struct sx *x, int i)
{
    return x->s->tasks[i].id;
}
static const char *schedule_id(const struct sx *x, int i)
{
    return x->schedules.v[i];
}
static const char *enforce_id(const struct sx *x, int i)
{
    return x->enforce.v[i];
}
static const char *visibility_id(const struct sx *x, int i)
{
    return x->visibility.v[i];
}
static const char *numerics_id(const struct sx *x, int i)
{
    return x->numerics.v[i];
}
static const char *kv_id(const struct sx *x, int i)
{
    return x->kv.v[i];
}

static const char *sampling_id(const struct sx *x, int i)
{
    return x->sampling[i].text;
}

static void add_pick(struct picks *p, int i)
{
    for (int k = 0; k < p->n; k++)
        if (p->v[k] == i)
            return;
    p->v[p->n++] = i;
}

/* The declared names a pattern list stands for, in the order of the patterns, each in
 * declaration order. v NULL: all. */
static struct picks pick(struct sx *x, json_t *v, const char *ptr, name_fn name, int n,
                         const char *what)
{
    struct picks p = {kva_sx_alloc(x, (size_t)n, sizeof(int)), 0};
    const char **names = kva_sx_alloc(x, (size_t)n + 1, sizeof names[0]);
    struct sx_axis patterns;

    if (!p.v || !names)
        return p;
    for (int i = 0; i < n; i++)
        names[i] = name(x, i);
    if (!v) {
        for (int i = 0; i < n; i++)
            p.v[p.n++] = i;
        return p;
    }
    patterns = kva_sx_strings(x, v, ptr);
    for (int k = 0; k < patterns.n; k++) {
        char at[SX_PTR];
        bool any = false;

        snprintf(at, sizeof at, "%s", ptr);
        if (json_is_array(v))
            kva_sx_join_at(at, ptr, (size_t)k);
        for (int i = 0; i < n; i++) {
            bool hit = name == task_id ? kva_sx_task_match(patterns.v[k], names[i])
                                       : kva_sx_glob(patterns.v[k], names[i]);

            any = any || hit;
            if (hit)
                add_pick(&p, i);
        }
        if (!any && n > 0) {
            const char *near = kva_nearest(patterns.v[k], names);

            kva_sx_bad(x, at, false, "'%s' matches no %s of this suite%s%s%s",
                       patterns.v[k], what, near ? "; did you mean '" : "",
                       near ? near : "", near ? "'?" : "");
        }
    }
    return p;
}

static enum kva_enforce enforce_of(const char *s)
{
    enum kva_enforce e = KVA_PHYSICAL;

    (void)kva_enforce_find(s, &e); /* the axis was checked */
    return e;
}

static enum kva_visibility visibility_of(const char *s)
{
    return strcmp(s, "aware") == 0  ? KVA_AWARE
           : strcmp(s, "full") == 0 ? KVA_FULL
                                    : KVA_AGNOSTIC;
}

/* ---- (2) the product ---- */

static void add_cell(struct sx *x, const struct sx_cell *c)
{
    if (x->n_cells == x->cap_cells) {
        int cap = x->cap_cells ? 2 * x->cap_cells : 256;
        struct sx_cell *grown = kva_realloc(x->cells, (size_t)cap, sizeof grown[0]);

        if (!grown) {
            x->nomem = true;
            return;
        }
        x->cells = grown;
        x->cap_cells = cap;
    }
    x->cells[x->n_cells] = *c;
    x->cells[x->n_cells++].kept = true;
}

/* Everything a `matrix` or an `include` object can name. */
struct choice {
    struct picks model, method, task, schedule, enforce, visibility, numerics, kv,
        sampling;
    struct sx_budget *budgets;
    int n_budgets;
};

static json_t *sub(json_t *o, const char *base, const char *key, char ptr[SX_PTR])
{
    kva_sx_join(ptr, base, key);
    return json_object_get(o, key);
}

static void read_choice(struct sx *x, json_t *o, const char *base, bool first_only,
                        struct choice *ch)
{
    char ptr[SX_PTR];
    json_t *v;
    int one = first_only ? 1 : 1 << 30;

#define AXIS(field, key, fn, count, what)                                                \
    v = sub(o, base, key, ptr);                                                          \
    ch->field = pick(x, v, ptr, fn, (count), what);                                      \
    if (!v && ch->field.n > one)                                                         \
        ch->field.n = one;
    v = sub(o, base, "model", ptr);
    ch->model = pick(x, v, ptr, model_id, x->s->n_models, "model");
    v = sub(o, base, "method", ptr);
    ch->method = pick(x, v, ptr, method_id, x->n_methods, "method");
    v = sub(o, base, "task", ptr);
    ch->task = pick(x, v, ptr, task_id, x->s->n_tasks, "task");
    AXIS(schedule, "schedule", schedule_id, x->schedules.n, "schedule")
    AXIS(enforce, "enforce", enforce_id, x->enforce.n, "enforcement")
    AXIS(visibility, "visibility", visibility_id, x->visibility.n, "visibility")
    AXIS(numerics, "numerics", numerics_id, x->numerics.n, "numerics")
    AXIS(kv, "kv", kv_id, x->kv.n, "kv type")
    AXIS(sampling, "sampling", sampling_id, x->n_sampling, "sampling")
#undef AXIS
    ch->budgets = x->budgets;
    ch->n_budgets = x->n_budgets;
    v = sub(o, base, "budget", ptr);
    if (v) {
        size_t n = json_is_array(v) ? json_array_size(v) : 1;

        ch->budgets = kva_sx_alloc(x, n, sizeof ch->budgets[0]);
        ch->n_budgets = 0;
        for (size_t i = 0; ch->budgets && i < n; i++) {
            json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
            char at[SX_PTR];

            memcpy(at, ptr, sizeof at);
            if (json_is_array(v))
                kva_sx_join_at(at, ptr, i);
            if (kva_sx_budget(x, e, at, &ch->budgets[ch->n_budgets].b))
                ch->n_budgets++;
        }
    }
}

static void how_drawn(struct sx *x, const struct choice *ch, struct sx_cell c)
{
    for (int i = 0; i < ch->sampling.n; i++) {
        c.sampling = ch->sampling.v[i];
        c.set.draws = x->sampling[c.sampling].draws;
        add_cell(x, &c);
    }
}

static void innermost(struct sx *x, const struct choice *ch, struct sx_cell c)
{
    for (int s = 0; s < ch->schedule.n; s++)
        for (int e = 0; e < ch->enforce.n; e++)
            for (int v = 0; v < ch->visibility.n; v++)
                for (int u = 0; u < ch->numerics.n; u++)
                    for (int k = 0; k < ch->kv.n; k++) {
                        c.schedule = ch->schedule.v[s];
                        c.enforce = enforce_of(x->enforce.v[ch->enforce.v[e]]);
                        c.visibility =
                            visibility_of(x->visibility.v[ch->visibility.v[v]]);
                        c.numerics = ch->numerics.v[u];
                        c.kv = ch->kv.v[k];
                        how_drawn(x, ch, c);
                    }
}

static void product(struct sx *x, const struct choice *ch, struct sx_set set)
{
    struct sx_cell c;
    double count = (double)ch->model.n * ch->method.n * ch->task.n *
                   (ch->n_budgets ? ch->n_budgets : 1) * ch->schedule.n * ch->enforce.n *
                   ch->visibility.n * ch->numerics.n * ch->kv.n * ch->sampling.n;

    if (count + x->n_cells > SX_MAX_CELLS) {
        kva_sx_bad(x, "/matrix", false, "%.0f cells are more than %d", count,
                   SX_MAX_CELLS);
        return;
    }
    memset(&c, 0, sizeof c);
    c.set = set;
    for (int m = 0; m < ch->model.n; m++)
        for (int h = 0; h < ch->method.n; h++)
            for (int t = 0; t < ch->task.n; t++) {
                const struct sx_method *method = &x->methods[ch->method.v[h]];

                c.model = ch->model.v[m];
                c.task = ch->task.v[t];
                c.method = method->dense   ? SX_DENSE
                           : method->blind ? SX_BLIND
                                           : ch->method.v[h];
                if (c.method < 0) { /* no budget, schedule or visibility */
                    struct choice one = *ch;

                    one.schedule.n = one.enforce.n = one.visibility.n = 1;
                    c.budget = (struct kva_budget){KVA_BUDGET_DENSE, 0};
                    innermost(x, &one, c);
                    continue;
                }
                for (int b = 0; b < ch->n_budgets; b++) {
                    c.budget = ch->budgets[b].b;
                    innermost(x, ch, c);
                }
            }
}

/* ---- (3), (4), (5) ---- */

static void read_set(struct sx *x, json_t *o, const char *ptr, struct sx_set *set)
{
    static const char *const keys[] = {"n",         "reps",         "perf",
                                       "perf_reps", "max_attempts", NULL};

    if (!json_is_object(o)) {
        kva_sx_bad(x, ptr, false, "must be an object, not %s", kva_sx_type(o));
        return;
    }
    kva_sx_keys(x, o, ptr, keys);
    set->n = (int)kva_sx_int(x, o, ptr, "n", 1, 1 << 24, set->n);
    set->reps = (int)kva_sx_int(x, o, ptr, "reps", 1, 1000, set->reps);
    set->perf = (int)kva_sx_int(x, o, ptr, "perf", 0, 1 << 24, set->perf);
    set->perf_reps = kva_sx_perf_reps(x, o, ptr, set->perf_reps);
    set->max_attempts =
        (int)kva_sx_int(x, o, ptr, "max_attempts", 1, 100, set->max_attempts);
}

/* How many entries a key that must be a list has. */
static size_t objects(struct sx *x, const char *key)
{
    json_t *list = json_object_get(x->root, key);
    char ptr[SX_PTR];

    if (!list || json_is_array(list))
        return json_array_size(list);
    kva_sx_join(ptr, "", key);
    kva_sx_bad(x, ptr, false, "must be a list of objects, not %s", kva_sx_type(list));
    return 0;
}

/* Entry i of such a list; NULL when it is no object, which is reported. */
static json_t *object_at(struct sx *x, const char *key, size_t i, char ptr[SX_PTR])
{
    json_t *o = json_array_get(json_object_get(x->root, key), i);
    char base[SX_PTR];

    kva_sx_join(base, "", key);
    kva_sx_join_at(ptr, base, i);
    if (json_is_object(o))
        return o;
    kva_sx_bad(x, ptr, false, "must be an object, not %s", kva_sx_type(o));
    return NULL;
}

static void exclude(struct sx *x)
{
    size_t n = objects(x, "exclude");
    char ptr[SX_PTR];

    x->s->excluded = kva_sx_alloc(x, n, sizeof(int));
    for (size_t i = 0; x->s->excluded && i < n; i++) {
        json_t *o = object_at(x, "exclude", i, ptr);
        int kept = 0;

        if (!o)
            continue;
        check_selector(x, o, ptr, NULL);
        for (int c = 0; c < x->n_cells; c++) {
            if (match(o, x, &x->cells[c]))
                x->s->excluded[i]++;
            else
                x->cells[kept++] = x->cells[c];
        }
        x->n_cells = kept;
        x->s->n_excluded = (int)i + 1;
    }
}

static void override(struct sx *x)
{
    static const char *const keys[] = {"when", "set", NULL};
    size_t n = objects(x, "overrides");
    char ptr[SX_PTR], at[SX_PTR];

    for (size_t i = 0; i < n; i++) {
        json_t *o = object_at(x, "overrides", i, ptr), *when, *set;
        struct sx_set values = {-1, -1, -1, -1, -1, -1};

        if (!o)
            continue;
        kva_sx_keys(x, o, ptr, keys);
        when = sub(o, ptr, "when", at);
        if (!json_is_object(when)) {
            kva_sx_bad(x, when ? at : ptr, false,
                       when ? "must be an object" : "when is missing");
            continue;
        }
        check_selector(x, when, at, NULL);
        set = sub(o, ptr, "set", at);
        if (!set) {
            kva_sx_bad(x, ptr, false, "set is missing");
            continue;
        }
        read_set(x, set, at, &values);
        for (int c = 0; c < x->n_cells; c++) {
            struct sx_set *s = &x->cells[c].set;

            if (!match(when, x, &x->cells[c]))
                continue;
            s->n = values.n >= 0 ? values.n : s->n;
            s->reps = values.reps >= 0 ? values.reps : s->reps;
            s->perf = values.perf >= 0 ? values.perf : s->perf;
            s->perf_reps = values.perf_reps >= 0 ? values.perf_reps : s->perf_reps;
            s->max_attempts =
                values.max_attempts >= 0 ? values.max_attempts : s->max_attempts;
        }
    }
}

static void include(struct sx *x)
{
    static const char *const required[] = {"model", "method", "task", NULL};
    size_t count = objects(x, "include");
    char ptr[SX_PTR], at[SX_PTR];

    for (size_t i = 0; i < count; i++) {
        json_t *o = object_at(x, "include", i, ptr);
        struct sx_set set = x->def;
        struct choice ch;
        bool complete = true, dense = true;
        const char *known[16];
        int n = 0;

        if (!o)
            continue;
        for (int k = 0; SELECTOR[k]; k++)
            if (strcmp(SELECTOR[k], "ctx") != 0)
                known[n++] = SELECTOR[k];
        known[n++] = "set";
        known[n] = NULL;
        kva_sx_keys(x, o, ptr, known);
        if (json_object_get(o, "set"))
            read_set(x, sub(o, ptr, "set", at), at, &set);
        memset(&ch, 0, sizeof ch);
        read_choice(x, o, ptr, true, &ch);
        for (int k = 0; required[k]; k++)
            if (!json_object_get(o, required[k])) {
                kva_sx_bad(x, ptr, false, "%s is missing", required[k]);
                complete = false;
            }
        for (int k = 0; k < ch.method.n; k++)
            dense = dense && (x->methods[ch.method.v[k]].dense ||
                              x->methods[ch.method.v[k]].blind);
        if (!dense && !json_object_get(o, "budget")) {
            kva_sx_bad(x, ptr, false, "budget is missing");
            complete = false;
        }
        if (complete)
            product(x, &ch, set);
    }
}

/* ---- (6) dense and blind, (7) duplicates ---- */

/* numerics ref keeps its cache in f32 (ruling R2), whatever the suite's kv says. */
static const char *cell_kv(const struct sx *x, const struct sx_cell *c)
{
    return strcmp(x->numerics.v[c->numerics], "ref") == 0 ? "f32" : x->kv.v[c->kv];
}

static bool same_group(const struct sx *x, const struct sx_cell *a,
                       const struct sx_cell *b)
{
    return a->model == b->model && a->task == b->task &&
           strcmp(x->numerics.v[a->numerics], x->numerics.v[b->numerics]) == 0 &&
           strcmp(cell_kv(x, a), cell_kv(x, b)) == 0 &&
           strcmp(x->sampling[a->sampling].text, x->sampling[b->sampling].text) == 0;
}

static int max_of(int a, int b)
{
    return a > b ? a : b;
}

static void raise(struct sx_set *a, const struct sx_set *b)
{
    a->n = max_of(a->n, b->n);
    a->reps = max_of(a->reps, b->reps);
    a->perf = max_of(a->perf, b->perf);
    a->perf_reps = max_of(a->perf_reps, b->perf_reps);
    a->max_attempts = max_of(a->max_attempts, b->max_attempts);
    a->draws = max_of(a->draws, b->draws);
}

/* One cell of `method` per group, as large as the largest cell of its group. */
static void add_reference(struct sx *x, int method)
{
    int n = x->n_cells;

    for (int i = 0; i < n && !x->nomem; i++) {
        struct sx_cell c = x->cells[i];
        bool there = false;

        if (c.method == SX_DENSE || c.method == SX_BLIND)
            continue;
        for (int k = n; k < x->n_cells && !there; k++)
            if (same_group(x, &x->cells[k], &c)) {
                raise(&x->cells[k].set, &c.set);
                there = true;
            }
        if (there)
            continue;
        c.method = method;
        c.budget = (struct kva_budget){KVA_BUDGET_DENSE, 0};
        add_cell(x, &c);
    }
}

/* Duplicates are found by a key text; the first stays and is as large as the largest. */
static void cell_key(const struct sx *x, const struct sx_cell *c, char out[700])
{
    char budget[32];
    bool ref = c->method < 0;

    kva_budget_text(&c->budget, budget);
    snprintf(out, 700, "%d|%d|%s|%s|%s|%s|%s|%s|%s|%s", c->model, c->task,
             x->numerics.v[c->numerics], cell_kv(x, c), x->sampling[c->sampling].text,
             ref ? method_name(x, c) : x->methods[c->method].spec[c->schedule],
             ref ? "" : budget, ref ? "" : x->schedules.v[c->schedule],
             ref ? "" : kva_enforce_name(c->enforce),
             ref ? "" : kva_visibility_name(c->visibility));
}

static void drop_duplicates(struct sx *x)
{
    struct kva_map map;
    int kept = 0;

    kva_map_init(&map);
    for (int i = 0; i < x->n_cells; i++) {
        char key[700];
        int64_t first;

        cell_key(x, &x->cells[i], key);
        if (kva_map_get(&map, key, strlen(key), &first)) {
            raise(&x->cells[first].set, &x->cells[i].set);
            x->s->duplicates_dropped++;
            continue;
        }
        if (kva_map_put(&map, key, strlen(key), kept, NULL, NULL) != KVA_OK)
            x->nomem = true;
        x->cells[kept++] = x->cells[i];
    }
    x->n_cells = kept;
    kva_map_release(&map);
}

/* ---- --only and the result ---- */

/* "model=smol*,method=snap*" as a selector object; NULL when it was reported. */
static json_t *only_selector(struct sx *x, const char *text)
{
    json_t *o = json_object();
    const char *p = text;

    while (*p) {
        size_t n = strcspn(p, ","), k = strcspn(p, "=,");
        char key[32];
        bool known = false;

        snprintf(key, sizeof key, "%.*s", (int)k, p);
        for (int i = 0; SELECTOR[i]; i++)
            known = known || strcmp(SELECTOR[i], key) == 0;
        if (!known || p[k] != '=') {
            const char *near = kva_nearest(key, SELECTOR);

            kva_sx_bad_arg(x, "--only", text, "'%s' is no key of a cell%s%s%s", key,
                           near ? "; did you mean '" : "", near ? near : "",
                           near ? "'?" : "");
            json_decref(o);
            return NULL;
        }
        json_object_set_new(o, key, json_stringn(p + k + 1, n - k - 1));
        p += n;
        p += *p == ',';
    }
    return o;
}

/* Which word of a selector that matches nothing is to blame: the first that no cell has,
 * with the nearest one that some cell has. Numbers have no nearest word. */
static void no_match(struct sx *x, const char *text, json_t *selector)
{
    const char **names = kva_sx_alloc(x, (size_t)x->n_cells + 1, sizeof names[0]);
    const char *key, *near = NULL;
    json_t *v;

    if (!names)
        return;
    json_object_foreach(selector, key, v)
    {
        bool number = strcmp(key, "budget") == 0 || strcmp(key, "ctx") == 0, any = false;
        char room[32];

        for (int i = 0; i < x->n_cells; i++) {
            any = any || match_one(key, v, x, &x->cells[i]);
            names[i] = number ? "" : text_of(key, x, &x->cells[i], room);
        }
        if (any)
            continue;
        near = number ? NULL : kva_nearest(json_string_value(v), names);
        break;
    }
    kva_sx_bad_arg(x, "--only", text, "matches no cell of the suite%s%s%s%s%s",
                   near ? "; did you mean '" : "", near ? key : "", near ? "=" : "",
                   near ? near : "", near ? "'?" : "");
}

static void apply_only(struct sx *x)
{
    bool *hit;

    if (!x->opts->n_only)
        return;
    hit = kva_sx_alloc(x, (size_t)x->n_cells, sizeof hit[0]);
    if (!hit)
        return;
    for (int k = 0; k < x->opts->n_only; k++) {
        json_t *sel = only_selector(x, x->opts->only[k]);
        int n = 0;

        if (!sel)
            continue;
        for (int i = 0; i < x->n_cells; i++)
            if (match(sel, x, &x->cells[i])) {
                hit[i] = true;
                n++;
            }
        if (n == 0)
            no_match(x, x->opts->only[k], sel);
        json_decref(sel);
    }
    /* the references of what stays stay as well: results need their dense partner */
    for (int i = 0; i < x->n_cells; i++) {
        x->cells[i].kept = hit[i];
        if (x->cells[i].method < 0)
            for (int j = 0; j < x->n_cells && !x->cells[i].kept; j++)
                x->cells[i].kept = hit[j] && same_group(x, &x->cells[i], &x->cells[j]);
    }
}

/* A sampled answer is drawn `samples` times; how long it takes depends on what was said.
 */
static void check_sampled(struct sx *x)
{
    for (int i = 0; i < x->n_cells; i++) {
        const struct sx_cell *c = &x->cells[i];
        const struct sx_sampling *s = &x->sampling[c->sampling];
        const char *wrong = c->set.reps > 1    ? "reps"
                            : c->set.perf > 0  ? "perf"
                            : c->set.perf_reps ? "perf_reps"
                                               : NULL;

        if (!c->kept || !kva_sampled(&s->s) || !wrong)
            continue;
        kva_sx_bad(x, s->ptr, false,
                   "%s goes with greedy answers: %s; 'overrides' can set it for "
                   "{\"sampling\": \"greedy\"} alone",
                   wrong,
                   wrong[0] == 'r' ? "of others, samples is the number of draws"
                                   : "how long others take depends on what was drawn");
        return;
    }
}

static void finish(struct sx *x)
{
    struct kva_suite_cell *out = kva_sx_alloc(x, (size_t)x->n_cells, sizeof out[0]);

    x->s->cells = out;
    for (int i = 0; out && i < x->n_cells; i++) {
        const struct sx_cell *c = &x->cells[i];
        struct kva_suite_cell *d = &out[x->s->n_cells];
        bool ref = c->method < 0;

        if (!c->kept)
            continue;
        d->model = c->model;
        d->task = c->task;
        d->method_id = kva_sx_str(x, method_name(x, c));
        d->method_text = ref ? d->method_id : x->methods[c->method].text;
        d->budget = c->budget;
        d->schedule = kva_sx_str(x, ref ? "oneshot" : x->schedules.v[c->schedule]);
        d->enforce = ref ? KVA_DENSE : c->enforce;
        d->visibility = ref ? KVA_AGNOSTIC : c->visibility;
        d->numerics = x->numerics.v[c->numerics];
        d->kv = kva_sx_str(x, cell_kv(x, c));
        d->sampling = x->sampling[c->sampling].s;
        d->n = c->set.n;
        if (x->opts->limit > 0 && d->n > x->opts->limit)
            d->n = x->opts->limit;
        d->reps = kva_sampled(&d->sampling) ? c->set.draws : c->set.reps;
        d->perf = c->method == SX_BLIND ? 0 : c->set.perf;
        d->perf_reps = c->method == SX_BLIND ? 0 : c->set.perf_reps;
        if (d->perf == 0 && d->perf_reps > 0) /* they time the first sample */
            d->perf = 1;
        if (d->perf > d->n)
            d->perf = d->n;
        d->max_attempts = c->set.max_attempts;
        d->seed = x->seed;
        x->s->n_cells++;
    }
}

void kva_sx_expand(struct sx *x)
{
    static const char *const keys[] = {"model",    "method",   "task",       "budget",
                                       "schedule", "enforce",  "visibility", "numerics",
                                       "kv",       "sampling", NULL};
    json_t *matrix = json_object_get(x->root, "matrix");
    struct choice ch;
    bool compressing = false;

    memset(&ch, 0, sizeof ch);
    if (matrix && !json_is_object(matrix)) {
        kva_sx_bad(x, "/matrix", false, "must be an object, not %s", kva_sx_type(matrix));
        matrix = NULL;
    }
    if (matrix)
        kva_sx_keys(x, matrix, "/matrix", keys);
    read_choice(x, matrix, "/matrix", false, &ch);
    for (int i = 0; i < ch.method.n; i++)
        compressing = compressing || (!x->methods[ch.method.v[i]].dense &&
                                      !x->methods[ch.method.v[i]].blind);
    if (compressing && !json_object_get(x->root, "budgets") &&
        !json_object_get(matrix, "budget"))
        kva_sx_bad(x, "", false, "budgets is missing");
    /* a wrong list would make wrong cells: only the selectors are still checked */
    if (x->n_errors == 0 && !x->nomem)
        product(x, &ch, x->def);
    exclude(x);
    override(x);
    if (x->s->n_models && x->n_methods && x->s->n_tasks && !x->nomem)
        include(x);
    if (x->n_errors || x->nomem)
        return;
    if (x->dense)
        add_reference(x, SX_DENSE);
    if (x->blind)
        add_reference(x, SX_BLIND);
    drop_duplicates(x);
    apply_only(x);
    if (x->n_cells == 0)
        kva_sx_bad(x, "", false, "no cell is left");
    else
        check_sampled(x);
    if (x->n_errors == 0 && !x->nomem)
        finish(x);
}
