/* SPDX-License-Identifier: GPL-3.0-or-later */
/* suite.c - reads a suite file: JSON, --set, the lists of models, methods, tasks and
 * budgets.
 *
 * Form: reports.md 8.1 as ruled in R22. All errors of a file are collected with line,
 * column and JSON pointer. suite_values.c reads single values, suite_expand.c makes the
 * cells. */
#include "runner/suite_internal.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ENFORCE[] = {"dense",  "physical", "mask", "fakekey",
                                      "padded", "union",    "qhead"};

const char *kva_enforce_name(enum kva_enforce e)
{
    return ENFORCE[e];
}

bool kva_enforce_find(const char *name, enum kva_enforce *e)
{
    for (size_t i = 0; i < sizeof ENFORCE / sizeof *ENFORCE; i++)
        if (strcmp(ENFORCE[i], name) == 0) {
            *e = (enum kva_enforce)i;
            return true;
        }
    return false;
}

bool kva_enforce_hides(enum kva_enforce e)
{
    return e == KVA_MASK || e == KVA_FAKEKEY;
}

enum kva_status kva_enforce_check(enum kva_enforce e, float softcap,
                                  struct kva_error *err)
{
    if (e != KVA_FAKEKEY || softcap == 0)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EUNSUPPORTED,
                    "enforce fakekey: the model caps attention logits at %g, so an "
                    "overwritten key keeps a weight and its value leaks, which a mask "
                    "does not show; use enforce mask",
                    (double)softcap);
}

const char *kva_visibility_name(enum kva_visibility v)
{
    static const char *const names[] = {"agnostic", "aware", "full"};

    return names[v];
}

/* ---- --set KEY=VALUE ---- */

/* What a shell user means by a,b,c: a list. A piece such as "kernel=7" belongs to the
 * method or task before it; budgets are all of that form and always stand alone. */
static json_t *split_list(const char *value, bool budgets)
{
    json_t *list = json_array();
    const char *from = value;

    for (const char *p = value;; p++) {
        if (*p == ',' && !budgets) {
            size_t word = strcspn(p + 1, "=:,/@+");

            if (p[1 + word] == '=')
                continue;
        }
        if (*p == ',' || *p == '\0') {
            json_array_append_new(list, json_stringn(from, (size_t)(p - from)));
            from = p + 1;
        }
        if (*p == '\0')
            break;
    }
    if (json_array_size(list) == 1) {
        json_t *only = json_incref(json_array_get(list, 0));

        json_decref(list);
        return only;
    }
    return list;
}

static json_t *set_value(const char *key, const char *value)
{
    static const char *const lists[] = {
        "models",        "methods",     "tasks",         "budgets", "schedules",
        "enforce",       "visibility",  "numerics",      "kv",      "matrix.model",
        "matrix.method", "matrix.task", "matrix.budget", NULL};
    json_t *v = json_loads(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

    if (v)
        return v;
    for (int i = 0; lists[i]; i++)
        if (strcmp(lists[i], key) == 0)
            return split_list(value, strstr(key, "budget") != NULL);
    return json_string(value);
}

/* Puts `value` (taken) where the dotted path says, making objects on the way. */
static bool set_path(json_t *root, const char *path, json_t *value, char ptr[SX_PTR])
{
    json_t *at = root;
    char name[64], base[SX_PTR] = "";
    int64_t index;

    for (;;) {
        size_t n = strcspn(path, ".");
        bool last = path[n] == '\0';
        json_t *next;

        if (n == 0 || n >= sizeof name)
            break;
        memcpy(name, path, n);
        name[n] = '\0';
        kva_sx_join(ptr, base, name);
        memcpy(base, ptr, SX_PTR);
        if (json_is_array(at)) {
            if (!kva_parse_i64(name, &index) || index < 0 ||
                (size_t)index >= json_array_size(at))
                break;
            if (last)
                return json_array_set_new(at, (size_t)index, value) == 0;
            next = json_array_get(at, (size_t)index);
        } else {
            if (!json_is_object(at))
                break;
            if (last)
                return json_object_set_new(at, name, value) == 0;
            next = json_object_get(at, name);
            if (!next) {
                json_object_set_new(at, name, json_object());
                next = json_object_get(at, name);
            }
        }
        at = next;
        path += n + 1;
    }
    json_decref(value);
    return false;
}

static void apply_sets(struct sx *x)
{
    x->set_ptr = kva_calloc((size_t)x->opts->n_set + 1, SX_PTR);
    if (!x->set_ptr) {
        x->nomem = true;
        return;
    }
    for (int i = 0; i < x->opts->n_set; i++) {
        const char *arg = x->opts->set[i], *eq = strchr(arg, '=');
        char key[SX_PTR];

        if (!eq || eq == arg || (size_t)(eq - arg) >= sizeof key) {
            kva_sx_bad_arg(x, "--set", arg, "is not KEY=VALUE");
            continue;
        }
        memcpy(key, arg, (size_t)(eq - arg));
        key[eq - arg] = '\0';
        if (!set_path(x->root, key, set_value(key, eq + 1), x->set_ptr[i])) {
            x->set_ptr[i][0] = '\0';
            kva_sx_bad_arg(x, "--set", arg, "the suite has no place '%s'", key);
        }
    }
}

/* ---- lists ---- */

/* Elements of a key that may hold one value or a list. */
static size_t list_size(json_t *v)
{
    return json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
}

static json_t *list_at(json_t *v, size_t i, const char *base, char ptr[SX_PTR])
{
    if (!json_is_array(v)) {
        snprintf(ptr, SX_PTR, "%s", base);
        return v;
    }
    kva_sx_join_at(ptr, base, i);
    return json_array_get(v, i);
}

static json_t *required_list(struct sx *x, const char *key, char ptr[SX_PTR])
{
    json_t *v = json_object_get(x->root, key);

    kva_sx_join(ptr, "", key);
    if (!v)
        kva_sx_bad(x, "", false, "%s is missing", key);
    else if (json_is_array(v) && json_array_size(v) == 0)
        kva_sx_bad(x, ptr, false, "the list is empty");
    return v;
}

/* "fetch": an entry as in a manifest. Where its file is here, m->path is that; nothing is
 * downloaded by reading a suite. */
static void read_source(struct sx *x, const json_t *v, const char *ptr,
                        struct kva_suite_model *m)
{
    struct kva_fetch_opts offline = KVA_FETCH_OPTS;
    struct kva_error err = {0};
    struct kva_buf path;
    const char *key, *status;
    char at[SX_PTR], inner[SX_PTR];

    kva_sx_join(at, ptr, "fetch");
    m->source = kva_arena_alloc(&x->s->arena, 1, sizeof *m->source);
    if (!m->source ||
        kva_fetch_entry(v, false, &x->s->arena, m->source, &key, &err) != KVA_OK) {
        if (m->source && key)
            kva_sx_join(inner, at, key);
        kva_sx_bad(x, m->source && key ? inner : at, false, "%s",
                   m->source ? err.text : "out of memory");
        return;
    }
    offline.offline = true;
    kva_buf_init(&path, 1 << 14);
    if (kva_fetch_file(m->source, &offline, &path, &status, &err) == KVA_OK) {
        m->path = kva_sx_str(x, path.data);
    } else {
        kva_context(&err, "model %s", m->id);
        path.len = 0;
        kva_buf_printf(&path, "%s; 'kvaudit run --fetch' brings it", err.text);
        m->why_missing = kva_sx_str(x, path.data ? path.data : err.text);
    }
    kva_buf_release(&path);
}

static void read_model(struct sx *x, json_t *v, const char *ptr)
{
    static const char *const keys[] = {"id", "path", "chat", "fetch", NULL};
    struct kva_suite_model *m = &x->s->models[x->s->n_models];
    const char *where;
    struct kva_error err = {0};
    enum kva_status rc;
    char at[SX_PTR];

    snprintf(at, sizeof at, "%s", ptr);
    if (json_is_object(v)) {
        char *path = kva_sx_string(x, v, ptr, "path");

        kva_sx_keys(x, v, ptr, keys);
        m->id = kva_sx_string(x, v, ptr, "id");
        m->chat = kva_sx_string(x, v, ptr, "chat");
        if (!m->id && !json_object_get(v, "id"))
            kva_sx_bad(x, ptr, false, "id is missing");
        where = path ? path : m->id;
        kva_sx_join(at, ptr, path ? "path" : "id");
    } else if (json_is_string(v)) {
        where = m->id = kva_sx_str(x, json_string_value(v));
    } else {
        kva_sx_bad(x, ptr, false, "must be a model name or an object, not %s",
                   kva_sx_type(v));
        return;
    }
    if (!m->id || !where)
        return;
    for (int i = 0; i < x->s->n_models; i++)
        if (strcmp(x->s->models[i].id, m->id) == 0)
            kva_sx_bad(x, at, false, "model '%s' is listed twice", m->id);
    m->by_name = where == m->id;
    if (json_object_get(v, "fetch")) {
        if (json_object_get(v, "path"))
            kva_sx_bad(x, at, false, "path and fetch exclude each other");
        read_source(x, json_object_get(v, "fetch"), ptr, m);
        rc = KVA_OK;
    } else {
        rc = kva_models_resolve(where, x->dir, &m->path, m->chat ? NULL : &m->chat,
                                &x->s->arena, &err);
    }
    if (rc == KVA_EIO)
        m->why_missing = kva_sx_str(x, err.text);
    else if (rc != KVA_OK)
        kva_sx_bad_because(x, at, &err);
    if (m->chat && !kva_chat_by_name(m->chat)) {
        const char *near = kva_nearest(m->chat, kva_chat_names());

        kva_sx_join(at, ptr, "chat");
        kva_sx_bad(x, at, false, "unknown chat family '%s'%s%s%s", m->chat,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    x->s->n_models++;
}

static void read_method(struct sx *x, json_t *v, const char *ptr)
{
    static const char *const keys[] = {"id", "spec", NULL};
    struct sx_method *m = &x->methods[x->n_methods];
    char at[SX_PTR];

    snprintf(at, sizeof at, "%s", ptr);
    if (json_is_object(v)) {
        kva_sx_keys(x, v, ptr, keys);
        m->id = kva_sx_string(x, v, ptr, "id");
        m->text = kva_sx_string(x, v, ptr, "spec");
        kva_sx_join(at, ptr, m->text ? "spec" : "id");
        if (!m->id && !m->text) {
            if (!json_object_get(v, "id") && !json_object_get(v, "spec"))
                kva_sx_bad(x, ptr, false, "id is missing");
            return;
        }
        if (!m->text)
            m->text = m->id;
        if (!m->id)
            m->id = m->text;
    } else if (json_is_string(v) && json_string_length(v)) {
        m->id = m->text = kva_sx_str(x, json_string_value(v));
    } else {
        kva_sx_bad(x, ptr, false, "must be a method or an object {id, spec}, not %s",
                   json_is_string(v) ? "an empty string" : kva_sx_type(v));
        return;
    }
    for (int i = 0; i < x->n_methods; i++)
        if (strcmp(x->methods[i].id, m->id) == 0)
            kva_sx_bad(x, at, false, "method '%s' is listed twice", m->id);
    m->ptr = kva_sx_str(x, at);
    m->dense = strcmp(m->text, "dense") == 0;
    m->blind = strcmp(m->text, "blind") == 0;
    m->spec = kva_sx_alloc(x, (size_t)x->schedules.n, sizeof m->spec[0]);
    if (!m->spec)
        return;
    for (int i = 0; i < x->schedules.n; i++) {
        struct kva_schedule sched;
        struct kva_method parsed;
        struct kva_error err = {0};

        /* a schedule that was reported: the method is still checked */
        if (kva_schedule_parse(x->schedules.v[i], &sched, NULL) != KVA_OK &&
            kva_schedule_parse("oneshot", &sched, &err) != KVA_OK)
            continue;
        if (kva_method_parse(m->text, &sched, &parsed, &err) != KVA_OK) {
            if (x->schedules.n > 1)
                kva_context(&err, "schedule %s", x->schedules.v[i]);
            kva_sx_bad_because(x, at, &err);
            break;
        }
        m->spec[i] = kva_sx_str(x, parsed.spec);
    }
    x->n_methods++;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Tasks of one name may stand beside each other in two dialects, profiles or seeds. */
static bool same_task(const struct kva_suite_task *a, const struct kva_suite_task *b)
{
    return strcmp(a->id, b->id) == 0 && same_text(a->opts.dialect, b->opts.dialect) &&
           same_text(a->opts.profile, b->opts.profile) &&
           same_text(a->opts.haystack, b->opts.haystack) &&
           same_text(a->opts.words, b->opts.words) && a->opts.seed == b->opts.seed &&
           a->opts.max_new_tokens == b->opts.max_new_tokens;
}

/* One task at one length. The task is opened to find errors in it, then closed. A data
 * file that is not there is no error of the suite: whoever plans will miss it. */
static void add_task(struct sx *x, const char *id, const struct kva_suite_task *like,
                     const char *ptr)
{
    struct kva_suite_task *t = &x->s->tasks[x->s->n_tasks];
    struct kva_task *opened;
    struct kva_error err = {0};
    enum kva_status rc;

    *t = *like;
    t->id = kva_sx_str(x, id);
    for (int i = 0; i < x->s->n_tasks; i++)
        if (same_task(&x->s->tasks[i], t)) {
            kva_sx_bad(x, ptr, false, "task '%s' is listed twice", id);
            return;
        }
    rc = kva_task_open(id, &t->opts, &opened, &err);
    if (rc == KVA_OK)
        kva_task_close(opened);
    else if (rc != KVA_EIO)
        kva_sx_bad_because(x, ptr, &err);
    x->s->n_tasks++;
}

static void read_task(struct sx *x, json_t *v, const char *ptr)
{
    static const char *const keys[] = {"id",       "ctx",   "profile",        "dialect",
                                       "haystack", "words", "max_new_tokens", "seed",
                                       NULL};
    struct kva_suite_task t;
    json_t *ctx;
    char *id, at[SX_PTR], base[SX_PTR];
    const char *own;

    memset(&t, 0, sizeof t);
    t.opts.seed = x->seed;
    t.opts.dialect = x->dialect;
    t.opts.haystack = x->haystack;
    t.opts.words = x->words;
    t.opts.max_new_tokens = x->max_new_tokens;
    t.opts.base_dir = kva_sx_str(x, x->dir);
    t.opts.profile = x->profile;
    t.opts.data = x->data;
    t.opts.n_data = x->n_data;
    if (json_is_string(v)) {
        add_task(x, json_string_value(v), &t, ptr);
        return;
    }
    if (!json_is_object(v)) {
        kva_sx_bad(x, ptr, false, "must be a task or an object, not %s", kva_sx_type(v));
        return;
    }
    kva_sx_keys(x, v, ptr, keys);
    id = kva_sx_string(x, v, ptr, "id");
    if ((own = kva_sx_string(x, v, ptr, "profile")))
        t.opts.profile = own;
    if ((own = kva_sx_string(x, v, ptr, "dialect")))
        t.opts.dialect = own;
    if ((own = kva_sx_string(x, v, ptr, "haystack")))
        t.opts.haystack = own;
    if ((own = kva_sx_string(x, v, ptr, "words")))
        t.opts.words = own;
    t.opts.max_new_tokens =
        (int)kva_sx_int(x, v, ptr, "max_new_tokens", 1, 1 << 20, t.opts.max_new_tokens);
    t.opts.seed =
        (uint64_t)kva_sx_int(x, v, ptr, "seed", 0, KVA_SEED_MAX, (int64_t)t.opts.seed);
    if (!id) {
        if (!json_object_get(v, "id"))
            kva_sx_bad(x, ptr, false, "id is missing");
        return;
    }
    ctx = json_object_get(v, "ctx");
    if (!ctx) {
        kva_sx_join(at, ptr, "id");
        add_task(x, id, &t, at);
        return;
    }
    kva_sx_join(base, ptr, "ctx");
    if (strchr(id, '@')) {
        kva_sx_bad(x, base, true, "the id '%s' already names a length", id);
        return;
    }
    if (list_size(ctx) == 0)
        kva_sx_bad(x, base, false, "an empty list of lengths leaves no task");
    for (size_t i = 0; i < list_size(ctx); i++) {
        json_t *e = list_at(ctx, i, base, at);
        char full[1024];

        if (!json_is_integer(e) || json_integer_value(e) < 1 ||
            json_integer_value(e) > 1 << 24) {
            kva_sx_bad(x, at, false,
                       "must be a length in tokens, a whole number of at least 1");
            continue;
        }
        snprintf(full, sizeof full, "%s@%lld", id, (long long)json_integer_value(e));
        add_task(x, full, &t, at);
    }
}

static size_t count_tasks(json_t *tasks)
{
    size_t n = 0;

    for (size_t i = 0; i < list_size(tasks); i++) {
        json_t *t = json_is_array(tasks) ? json_array_get(tasks, i) : tasks;
        size_t k = list_size(json_object_get(t, "ctx"));

        n += k ? k : 1;
    }
    return n;
}

static void read_lists(struct sx *x)
{
    json_t *models, *methods, *tasks, *budgets;
    char base[SX_PTR], ptr[SX_PTR];

    models = required_list(x, "models", base);
    x->s->models = kva_sx_alloc(x, list_size(models), sizeof x->s->models[0]);
    for (size_t i = 0; i < list_size(models) && !x->nomem; i++) {
        json_t *e = list_at(models, i, base, ptr);

        read_model(x, e, ptr);
    }
    methods = required_list(x, "methods", base);
    x->methods = kva_sx_alloc(x, list_size(methods), sizeof x->methods[0]);
    for (size_t i = 0; i < list_size(methods) && !x->nomem; i++) {
        json_t *e = list_at(methods, i, base, ptr);

        read_method(x, e, ptr);
    }
    tasks = required_list(x, "tasks", base);
    x->s->tasks = kva_sx_alloc(x, count_tasks(tasks), sizeof x->s->tasks[0]);
    for (size_t i = 0; i < list_size(tasks) && !x->nomem; i++) {
        json_t *e = list_at(tasks, i, base, ptr);

        read_task(x, e, ptr);
    }
    budgets = json_object_get(x->root, "budgets");
    x->budgets = kva_sx_alloc(x, list_size(budgets), sizeof x->budgets[0]);
    for (size_t i = 0; i < list_size(budgets) && !x->nomem; i++) {
        json_t *e = list_at(budgets, i, "/budgets", ptr);

        if (kva_sx_budget(x, e, ptr, &x->budgets[x->n_budgets].b)) {
            kva_budget_text(&x->budgets[x->n_budgets].b, x->budgets[x->n_budgets].text);
            x->n_budgets++;
        }
    }
}

/* ---- axes and defaults ---- */

static struct sx_axis read_axis(struct sx *x, const char *key, const char *def,
                                const char *const *known, const char *const *later)
{
    json_t *v = json_object_get(x->root, key);
    struct sx_axis a;
    char base[SX_PTR], ptr[SX_PTR];
    const char *near;

    kva_sx_join(base, "", key);
    if (!v) {
        a.v = kva_sx_alloc(x, 1, sizeof a.v[0]);
        a.n = 1;
        if (a.v)
            a.v[0] = kva_sx_str(x, def);
        return a;
    }
    a = kva_sx_strings(x, v, base);
    for (int i = 0; i < a.n; i++) {
        bool found = false;

        if (json_is_array(v))
            kva_sx_join_at(ptr, base, (size_t)i);
        else
            snprintf(ptr, sizeof ptr, "%s", base);
        if (!known) {
            struct kva_schedule s;
            struct kva_error err = {0};

            if (kva_schedule_parse(a.v[i], &s, &err) != KVA_OK)
                kva_sx_bad_because(x, ptr, &err);
            continue;
        }
        for (int k = 0; known[k]; k++)
            found = found || strcmp(known[k], a.v[i]) == 0;
        for (int k = 0; !found && later[k]; k++)
            if (strcmp(later[k], a.v[i]) == 0) {
                kva_sx_bad(x, ptr, false, "%s '%s' is not built yet", key, a.v[i]);
                found = true;
            }
        if (found)
            continue;
        near = kva_nearest(a.v[i], known);
        kva_sx_bad(x, ptr, false, "unknown %s '%s'%s%s%s", key, a.v[i],
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return a;
}

/* Two entries that differ in nothing but their number of draws are one cell. */
static void read_sampling(struct sx *x)
{
    json_t *v = json_object_get(x->root, "sampling");
    size_t n = list_size(v);
    char ptr[SX_PTR];

    x->sampling = kva_sx_alloc(x, n + 1, sizeof x->sampling[0]);
    if (!x->sampling)
        return;
    if (v && n == 0)
        kva_sx_bad(x, "/sampling", false, "the list is empty");
    for (size_t i = 0; i < n; i++) {
        json_t *e = list_at(v, i, "/sampling", ptr);

        kva_sx_sampling(x, e, ptr, &x->sampling[x->n_sampling++]);
    }
    if (n == 0) {
        x->sampling[0] = (struct sx_sampling){.draws = 1};
        kva_sampling_text(&x->sampling[0].s, x->sampling[0].text);
        x->n_sampling = 1;
    }
}

static void read_defaults(struct sx *x)
{
    static const char *const keys[] = {"seed",         "reps",    "n",
                                       "max_attempts", "perf",    "perf_reps",
                                       "profile",      "dialect", "max_new_tokens",
                                       "haystack",     "words",   NULL};
    json_t *d = json_object_get(x->root, "defaults");

    x->seed = 42;
    x->def = (struct sx_set){.n = 50, .reps = 1, .perf = 0, .max_attempts = 2};
    if (d && !json_is_object(d)) {
        kva_sx_bad(x, "/defaults", false, "must be an object, not %s", kva_sx_type(d));
        return;
    }
    if (d) {
        kva_sx_keys(x, d, "/defaults", keys);
        x->seed = (uint64_t)kva_sx_int(x, d, "/defaults", "seed", 0, KVA_SEED_MAX, 42);
        x->def.n = (int)kva_sx_int(x, d, "/defaults", "n", 1, 1 << 24, 50);
        x->def.reps = (int)kva_sx_int(x, d, "/defaults", "reps", 1, 1000, 1);
        x->def.perf = (int)kva_sx_int(x, d, "/defaults", "perf", 0, 1 << 24, 0);
        x->def.perf_reps = kva_sx_perf_reps(x, d, "/defaults", 0);
        x->def.max_attempts =
            (int)kva_sx_int(x, d, "/defaults", "max_attempts", 1, 100, 2);
        x->max_new_tokens =
            (int)kva_sx_int(x, d, "/defaults", "max_new_tokens", 1, 1 << 20, 0);
        x->profile = kva_sx_string(x, d, "/defaults", "profile");
        x->dialect = kva_sx_string(x, d, "/defaults", "dialect");
        x->haystack = kva_sx_string(x, d, "/defaults", "haystack");
        x->words = kva_sx_string(x, d, "/defaults", "words");
    }
    x->def.perf = (int)kva_sx_int(x, x->root, "", "perf", 0, 1 << 24, x->def.perf);
    x->def.perf_reps = kva_sx_perf_reps(x, x->root, "", x->def.perf_reps);
}

/* "data": {"squad": "PATH"}, paths relative to the suite file; --data has the last word
 * and becomes part of the suite's text. */
static void read_data(struct sx *x)
{
    json_t *o = json_object_get(x->root, "data"), *v;
    const char *name;
    int n = 0;

    if (o == NULL && x->opts->n_data > 0) {
        o = json_object();
        json_object_set_new(x->root, "data", o);
    }
    if (o != NULL && !json_is_object(o)) {
        kva_sx_bad(x, "/data", false, "must be an object, not %s", kva_sx_type(o));
        return;
    }
    for (int i = 0; i < x->opts->n_data; i++)
        json_object_set_new(o, x->opts->data[i].name, json_string(x->opts->data[i].path));
    if (o == NULL)
        return;
    kva_sx_keys(x, o, "/data", kva_task_data_names);
    x->data = kva_sx_alloc(x, json_object_size(o), sizeof *x->data);
    json_object_foreach(o, name, v)
    {
        char ptr[SX_PTR];

        if (name[0] == '/' && name[1] == '/')
            continue;
        kva_sx_join(ptr, "/data", name);
        if (!json_is_string(v) || json_string_length(v) == 0)
            kva_sx_bad(x, ptr, false, "must be the path of a file or directory, not %s",
                       json_is_string(v) ? "an empty string" : kva_sx_type(v));
        else if (!x->nomem)
            x->data[n++] = (struct kva_task_data){kva_sx_str(x, name),
                                                  kva_sx_str(x, json_string_value(v))};
    }
    x->n_data = n;
}

static void read_top(struct sx *x)
{
    static const char *const keys[] = {
        "schema", "name",     "label",     "defaults",  "models",     "methods",
        "tasks",  "budgets",  "matrix",    "exclude",   "include",    "overrides",
        "dense",  "blind",    "schedules", "enforce",   "visibility", "numerics",
        "kv",     "sampling", "perf",      "perf_reps", "data",       NULL};
    static const char *const enforce[] = {"physical", "mask",  "fakekey", "padded",
                                          "union",    "qhead", NULL};
    static const char *const visibility[] = {"agnostic", "aware", "full", NULL};
    static const char *const numerics[] = {"f32", "ref", "bf16", NULL};
    static const char *const numerics_later[] = {"bf16x3", NULL};
    static const char *const kv[] = {"f16", "f32", NULL};
    static const char *const none[] = {NULL};

    kva_sx_keys(x, x->root, "", keys);
    if (!json_object_get(x->root, "schema"))
        kva_sx_bad(x, "", false, "schema is missing; this program reads \"schema\": 1");
    else
        kva_sx_int(x, x->root, "", "schema", 1, 1, 1);
    x->s->name = kva_sx_string(x, x->root, "", "name");
    x->s->note = kva_sx_string(x, x->root, "", "label");
    x->dense = kva_sx_flag(x, x->root, "", "dense", true);
    x->blind = kva_sx_flag(x, x->root, "", "blind", true);
    x->schedules = read_axis(x, "schedules", "oneshot", NULL, none);
    x->enforce = read_axis(x, "enforce", "physical", enforce, none);
    x->visibility = read_axis(x, "visibility", "agnostic", visibility, none);
    x->numerics = read_axis(x, "numerics", "f32", numerics, numerics_later);
    x->kv = read_axis(x, "kv", "f16", kv, none);
    read_sampling(x);
    read_defaults(x);
    read_data(x);
}

/* ---- entry ---- */

static void report_dups(struct sx *x)
{
    for (size_t i = 0; i < x->pos.n_dups; i++)
        kva_sx_bad(x, x->pos.dups[i].pointer, true,
                   "key is there twice, here and in line %d", x->pos.dups[i].line);
}

static enum kva_status resolve_text(struct sx *x, struct kva_error *err)
{
    char *dump = json_dumps(x->root, JSON_COMPACT);
    struct kva_buf canon;
    enum kva_status rc;

    if (!dump)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    kva_buf_init(&canon, 0);
    rc = kva_json_canonical(dump, &canon, err);
    free(dump);
    if (rc == KVA_OK)
        rc = kva_buf_status(&canon, err);
    if (rc == KVA_OK)
        x->s->text = kva_sx_str(x, canon.data);
    kva_buf_release(&canon);
    return rc;
}

static const char *suite_name(const char *path, char out[128])
{
    const char *slash = strrchr(path, '/');
    size_t n;

    path = slash ? slash + 1 : path;
    n = strlen(path);
    if (n > 5 && strcmp(path + n - 5, ".json") == 0)
        n -= 5;
    snprintf(out, 128, "%.*s", (int)n, path);
    return out;
}

enum kva_status kva_suite_parse(const char *text, const char *name, const char *dir,
                                const struct kva_suite_opts *opts, struct kva_suite *s,
                                struct kva_buf *report, struct kva_error *err)
{
    static const struct kva_suite_opts no_opts;
    struct sx x;
    json_error_t je;
    char base[128];
    enum kva_status rc = KVA_OK;

    memset(&x, 0, sizeof x);
    memset(s, 0, sizeof *s);
    kva_arena_init(&s->arena);
    x.name = name;
    x.dir = dir;
    x.opts = opts ? opts : &no_opts;
    x.s = s;
    x.root = json_loads(text, 0, &je);
    if (!x.root) {
        size_t start = report->len;

        kva_buf_printf(report, "%s:%d:%d: %s", name, je.line, je.column, je.text);
        kva_jsonpos_line(report, start);
        return KVA_FAIL(err, KVA_EINVALID, "%s: 1 error", name);
    }
    KVA_GO(kva_jsonpos_scan(text, strlen(text), &x.pos, err));
    if (!json_is_object(x.root)) {
        kva_sx_bad(&x, "", false, "must be an object, not %s", kva_sx_type(x.root));
    } else {
        report_dups(&x);
        apply_sets(&x);
        if (!x.nomem)
            read_top(&x);
        if (!x.nomem)
            read_lists(&x);
        if (!x.nomem)
            kva_sx_expand(&x);
    }
    s->path = kva_sx_str(&x, name);
    s->dir = dir != NULL ? kva_sx_str(&x, dir) : NULL;
    if (!s->name)
        s->name = kva_sx_str(&x, suite_name(name, base));
    s->limit = x.opts->limit;
    if (x.nomem)
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory while reading %s", name);
    else if (x.n_errors)
        rc = KVA_FAIL(err, KVA_EINVALID, "%s: %d error%s", name, x.n_errors,
                      x.n_errors == 1 ? "" : "s");
    else
        rc = resolve_text(&x, err);
    if (rc == KVA_OK && x.nomem)
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory while reading %s", name);
out:
    kva_sx_report(&x, report);
    json_decref(x.root);
    kva_jsonpos_release(&x.pos);
    free(x.set_ptr);
    free(x.cells);
    return rc;
}

enum kva_status kva_suite_load(const char *path, const struct kva_suite_opts *opts,
                               struct kva_suite *s, struct kva_buf *report,
                               struct kva_error *err)
{
    struct kva_buf text;
    char *copy = NULL;
    enum kva_status rc;

    memset(s, 0, sizeof *s);
    kva_buf_init(&text, 0);
    KVA_GO(kva_read_file(path, 64 << 20, &text, err));
    if (memchr(text.data, '\0', text.len)) {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s: is not a text file", path);
        goto out;
    }
    copy = strdup(path);
    if (!copy) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        goto out;
    }
    rc = kva_suite_parse(text.data ? text.data : "", path, dirname(copy), opts, s, report,
                         err);
out:
    free(copy);
    kva_buf_release(&text);
    return rc;
}

void kva_suite_release(struct kva_suite *s)
{
    kva_arena_release(&s->arena);
    memset(s, 0, sizeof *s);
}
