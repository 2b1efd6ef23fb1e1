/* SPDX-License-Identifier: GPL-3.0-or-later */
/* select.c - selectors of cells: see select.h. */
#include "runner/select.h"

#include "methods/method.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kva_select_keys[KVA_SELECT_KEYS + 1] = {
    "model",    "method", "task",     "budget", "enforce", "schedule", "visibility",
    "numerics", "kv",     "sampling", "suite",  "db",      "run",      NULL};

static bool is_glob(const char *s)
{
    return strpbrk(s, "*?[") != NULL;
}

static bool match(const char *glob, const char *s)
{
    return strcmp(glob, s) == 0 || fnmatch(glob, s, 0) == 0;
}

/* ---- parsing ---- */

/* The key that `s` starts with, its '=' included; -1: none. */
static int key_at(const char *s)
{
    for (int k = 0; k < KVA_SELECT_KEYS; k++) {
        size_t n = strlen(kva_select_keys[k]);

        if (strncmp(s, kva_select_keys[k], n) == 0 && s[n] == '=')
            return k;
    }
    return -1;
}

static enum kva_status unknown_key(const char *s, struct kva_error *err)
{
    char word[24];
    const char *near;

    (void)snprintf(word, sizeof word, "%.*s", (int)strcspn(s, "=,"), s);
    near = kva_nearest(word, kva_select_keys);
    if (near)
        return KVA_FAIL(err, KVA_EINVALID,
                        "selector: unknown key '%s'; did you mean '%s'?", word, near);
    return KVA_FAIL(
        err, KVA_EINVALID,
        "selector: unknown key '%s'; keys are model, method, task, budget, "
        "enforce, schedule, visibility, numerics, kv, sampling, suite, db, run",
        word);
}

/* A misspelt method is named at once, with the nearest known one. */
static enum kva_status check_method(const char *value, struct kva_error *err)
{
    struct kva_schedule oneshot = {0};
    struct kva_method m;
    enum kva_status rc;

    if (is_glob(value))
        return KVA_OK;
    rc = kva_method_parse(value, &oneshot, &m, err);
    if (rc == KVA_OK)
        kva_method_release(&m);
    else
        kva_context(err, "method=%.80s", value);
    return rc;
}

static enum kva_status add_term(struct kva_select *s, int key, char *value,
                                struct kva_error *err)
{
    if (s->n == KVA_SELECT_MAX)
        return KVA_FAIL(err, KVA_EINVALID, "selector: more than %d conditions",
                        KVA_SELECT_MAX);
    s->term[s->n].key = (enum kva_select_key)key;
    s->term[s->n++].value = value;
    s->named |= 1u << key;
    return KVA_OK;
}

enum kva_status kva_select_parse(const char *text, struct kva_select *s,
                                 struct kva_error *err)
{
    char *p;

    memset(s, 0, sizeof *s);
    s->text = strdup(text);
    s->copy = strdup(text);
    if (!s->text || !s->copy)
        return KVA_FAIL(err, KVA_ENOMEM, "selector: out of memory");
    if (!text[0])
        return KVA_FAIL(err, KVA_EINVALID, "selector: it is empty");
    if (!strchr(text, '='))
        return add_term(s, KVA_SELECT_DB, s->copy, err);
    for (p = s->copy; p;) {
        int key = key_at(p);
        char *value, *comma;

        if (key < 0)
            return unknown_key(p, err);
        value = p + strlen(kva_select_keys[key]) + 1;
        comma = strchr(value, ',');
        /* parameters: "snapkv:window=32,kernel=7" goes on until a key begins */
        if (key == KVA_SELECT_METHOD || key == KVA_SELECT_TASK)
            while (comma && memchr(value, ':', (size_t)(comma - value)) &&
                   key_at(comma + 1) < 0)
                comma = strchr(comma + 1, ',');
        /* so does the path of a file with commas in it */
        while (key == KVA_SELECT_DB && comma && key_at(comma + 1) < 0)
            comma = strchr(comma + 1, ',');
        p = comma ? comma + 1 : NULL;
        if (comma)
            *comma = 0;
        if (!value[0])
            return KVA_FAIL(err, KVA_EINVALID, "selector: '%s=' has no value",
                            kva_select_keys[key]);
        KVA_TRY(add_term(s, key, value, err));
    }
    for (int i = 0; i < s->n; i++)
        if (s->term[i].key == KVA_SELECT_METHOD)
            KVA_TRY(check_method(s->term[i].value, err));
    return KVA_OK;
}

void kva_select_release(struct kva_select *s)
{
    free(s->text);
    free(s->copy);
    memset(s, 0, sizeof *s);
}

static bool names(const struct kva_select *s, enum kva_select_key key, const char *value)
{
    for (int i = 0; i < s->n; i++)
        if (s->term[i].key == key && strcmp(s->term[i].value, value) == 0)
            return true;
    return false;
}

bool kva_select_same(const struct kva_select *a, const struct kva_select *b,
                     enum kva_select_key key)
{
    for (int i = 0; i < a->n; i++)
        if (a->term[i].key == key && !names(b, key, a->term[i].value))
            return false;
    for (int i = 0; i < b->n; i++)
        if (b->term[i].key == key && !names(a, key, b->term[i].value))
            return false;
    return true;
}

/* ---- methods ---- */

/* One "name:k=v,..." of a specification. */
struct part {
    const char *at;
    size_t n;
};
enum { MAX_PARTS = 4 };

static int split(const char *spec, struct part *part)
{
    int n = 0;

    while (n < MAX_PARTS) {
        part[n].at = spec;
        part[n].n = strcspn(spec, "+");
        /* "1e+3" is a value; a part begins with a letter */
        while (spec[part[n].n] == '+' && spec[part[n].n + 1] >= '0' &&
               spec[part[n].n + 1] <= '9')
            part[n].n += 1 + strcspn(spec + part[n].n + 1, "+");
        spec += part[n].n;
        n++;
        if (*spec != '+')
            break;
        spec++;
    }
    return n;
}

static size_t name_length(const struct part *p)
{
    const char *colon = memchr(p->at, ':', p->n);

    return colon ? (size_t)(colon - p->at) : p->n;
}

/* "key=value" of a part, from the key on; its length to *n. NULL: not there. */
static const char *param(const struct part *p, const char *key, size_t key_n, size_t *n)
{
    const char *end = p->at + p->n, *s = p->at + name_length(p);

    while (s < end) {
        const char *next = memchr(s + 1, ',', (size_t)(end - s - 1));

        if (!next)
            next = end;
        s++;
        if ((size_t)(next - s) > key_n && strncmp(s, key, key_n) == 0 &&
            s[key_n] == '=') {
            *n = (size_t)(next - s);
            return s;
        }
        s = next;
    }
    return NULL;
}

/* Is `key=` written in the text, as a parameter? */
static bool written(const char *text, const char *key, size_t n)
{
    for (const char *p = text; (p = strpbrk(p, ":,;")) != NULL;) {
        p++;
        if (strncmp(p, key, n) == 0 && p[n] == '=')
            return true;
    }
    return false;
}

/* The stored part against the one meant. A parameter counts when the text writes it or
 * when its value is not the default (an alias put it there). */
static bool same_part(const struct part *want, const struct part *plain,
                      const struct part *have, const char *text)
{
    const char *end = want->at + want->n, *s = want->at + name_length(want);

    if (name_length(want) != name_length(have) ||
        memcmp(want->at, have->at, name_length(want)) != 0)
        return false;
    while (s < end) {
        const char *next = memchr(s + 1, ',', (size_t)(end - s - 1)), *mine, *def;
        size_t key_n, mine_n, def_n;

        if (!next)
            next = end;
        s++;
        key_n = (size_t)(next - s);
        if (memchr(s, '=', key_n))
            key_n = (size_t)((const char *)memchr(s, '=', key_n) - s);
        mine = param(have, s, key_n, &mine_n);
        def = param(plain, s, key_n, &def_n);
        if (written(text, s, key_n) || !def || def_n != (size_t)(next - s) ||
            memcmp(def, s, def_n) != 0)
            if (!mine || mine_n != (size_t)(next - s) || memcmp(mine, s, mine_n) != 0)
                return false;
        s = next;
    }
    return true;
}

bool kva_select_method(const char *text, const char *stored, const char *schedule)
{
    struct kva_schedule when = {0};
    struct kva_method *m = kva_calloc(2, sizeof *m);
    struct part want[MAX_PARTS], plain[MAX_PARTS], have[MAX_PARTS];
    char names_only[256] = "";
    bool same = false;
    int n;

    if (strcmp(text, stored) == 0) {
        free(m);
        return true;
    }
    if (is_glob(text)) {
        size_t len = strlen(stored), tail = strlen("+uniform");
        char brief[960];

        free(m);
        if (match(text, stored))
            return true;
        if (len <= tail || len >= sizeof brief ||
            strcmp(stored + len - tail, "+uniform") != 0)
            return false;
        (void)snprintf(brief, sizeof brief, "%.*s", (int)(len - tail), stored);
        return match(text, brief);
    }
    if (!m || kva_schedule_parse(schedule, &when, NULL) != KVA_OK ||
        kva_method_parse(text, &when, &m[0], NULL) != KVA_OK)
        goto out;
    n = split(m[0].spec, want);
    for (int i = 0; i < n; i++) {
        size_t at = strlen(names_only);

        (void)snprintf(names_only + at, sizeof names_only - at, "%s%.*s", i ? "+" : "",
                       (int)name_length(&want[i]), want[i].at);
    }
    /* a method whose file has no default has no plain form: everything counts */
    if (kva_method_parse(names_only, &when, &m[1], NULL) != KVA_OK)
        (void)snprintf(m[1].spec, sizeof m[1].spec, "%s", names_only);
    if (split(m[1].spec, plain) != n || split(stored, have) != n)
        goto out;
    same = true;
    for (int i = 0; i < n && same; i++)
        same = same_part(&want[i], &plain[i], &have[i], text);
out:
    if (m) {
        kva_method_release(&m[0]);
        kva_method_release(&m[1]);
    }
    free(m);
    return same;
}

/* ---- applying ---- */

static bool is_digest(const char *s, const uint8_t digest[32])
{
    char hex[65];
    size_t n = strlen(s);

    kva_hex(digest, 32, hex);
    return n >= 8 && n <= 64 && strncmp(s, hex, n) == 0;
}

static bool budget_match(const char *v, const struct kva_data_cell *c)
{
    char number[40], percent[48], joined[64], written_as[64];

    (void)snprintf(number, sizeof number, "%.10g", c->budget);
    (void)snprintf(percent, sizeof percent, "%.10g%%", c->budget * 100);
    (void)snprintf(joined, sizeof joined, "%s%s", c->budget_kind, number);
    (void)snprintf(written_as, sizeof written_as, "%s=%s", c->budget_kind, number);
    if (strcmp(c->budget_kind, "dense") == 0)
        return match(v, "dense");
    return match(v, number) || match(v, joined) || match(v, written_as) ||
           (strcmp(c->budget_kind, "keep") == 0 && match(v, percent));
}

static bool task_match(const char *v, const struct kva_data_task *t)
{
    char full[600], at[640];
    const char *name;

    (void)snprintf(full, sizeof full, "%.256s/%.256s", t->suite, t->name);
    (void)snprintf(at, sizeof at, "%s@%d", full, t->ctx);
    name = at + strlen(full) - strlen(t->name);
    return match(v, full) || match(v, at) || match(v, t->name) || match(v, name) ||
           is_digest(v, t->digest);
}

/* Does the database hold the very method the text means, every default included? Then a
 * short form means that one and no other with other parameters. */
static bool has_plain(const char *text, const struct kva_data *d)
{
    struct kva_method *m = kva_calloc(1, sizeof *m);
    const char *when = "";
    bool found = false, ok = false;

    for (int i = 0; m && i < d->n_cells && !found && !is_glob(text); i++) {
        struct kva_schedule s;

        if (strcmp(when, d->cells[i].schedule) != 0) {
            when = d->cells[i].schedule;
            kva_method_release(m);
            memset(m, 0, sizeof *m);
            ok = kva_schedule_parse(when, &s, NULL) == KVA_OK &&
                 kva_method_parse(text, &s, m, NULL) == KVA_OK;
        }
        found = ok && strcmp(m->spec, d->cells[i].method) == 0;
    }
    if (m)
        kva_method_release(m);
    free(m);
    return found;
}

static bool plain_match(const char *text, const struct kva_data_cell *c)
{
    struct kva_method *m = kva_calloc(1, sizeof *m);
    struct kva_schedule s;
    bool same = m && kva_schedule_parse(c->schedule, &s, NULL) == KVA_OK &&
                kva_method_parse(text, &s, m, NULL) == KVA_OK &&
                strcmp(m->spec, c->method) == 0;

    if (m)
        kva_method_release(m);
    free(m);
    return same;
}

static bool cell_match(enum kva_select_key key, const char *v, const struct kva_data *d,
                       const struct kva_data_cell *c)
{
    switch (key) {
    case KVA_SELECT_MODEL:
        return match(v, d->models[c->model].name) ||
               is_digest(v, d->models[c->model].digest);
    case KVA_SELECT_METHOD:
        return kva_select_method(v, c->method, c->schedule);
    case KVA_SELECT_TASK:
        return task_match(v, &d->tasks[c->task]);
    case KVA_SELECT_BUDGET:
        return budget_match(v, c);
    case KVA_SELECT_ENFORCE:
        return match(v, c->enforce);
    case KVA_SELECT_SCHEDULE:
        return match(v, c->schedule);
    case KVA_SELECT_VISIBILITY:
        return match(v, c->visibility);
    case KVA_SELECT_NUMERICS:
        return match(v, c->numerics);
    case KVA_SELECT_KV:
        return match(v, c->kv);
    case KVA_SELECT_SAMPLING:
        return match(v, kva_data_sampling(c));
    case KVA_SELECT_SUITE:
        return match(v, d->tasks[c->task].suite);
    default:
        return true;
    }
}

static bool run_match(const char *v, const struct kva_data *d, int i)
{
    const struct kva_data_run *r = &d->runs[i];

    if (strcmp(v, "last") == 0) {
        for (int k = 0; k < d->n_runs; k++)
            if (d->runs[k].started_ms > r->started_ms ||
                (d->runs[k].started_ms == r->started_ms && k > i))
                return false;
        return true;
    }
    return (r->label && match(v, r->label)) || match(v, r->uuid) ||
           strncmp(v, r->uuid, strlen(v)) == 0;
}

/* The text of a cell under a key, for messages. */
static const char *cell_text(enum kva_select_key key, const struct kva_data *d,
                             const struct kva_data_cell *c, char room[64])
{
    switch (key) {
    case KVA_SELECT_MODEL:
        return d->models[c->model].name;
    case KVA_SELECT_METHOD:
        return c->method;
    case KVA_SELECT_TASK:
        return d->tasks[c->task].name;
    case KVA_SELECT_BUDGET:
        if (strcmp(c->budget_kind, "dense") == 0)
            return "dense";
        (void)snprintf(room, 64, "%s=%.10g", c->budget_kind, c->budget);
        return room;
    case KVA_SELECT_ENFORCE:
        return c->enforce;
    case KVA_SELECT_SCHEDULE:
        return c->schedule;
    case KVA_SELECT_VISIBILITY:
        return c->visibility;
    case KVA_SELECT_NUMERICS:
        return c->numerics;
    case KVA_SELECT_KV:
        return c->kv;
    case KVA_SELECT_SAMPLING:
        return kva_data_sampling(c);
    default:
        return d->tasks[c->task].suite;
    }
}

/* "method=x holds for none of 12 cells; there are: a, b, c, ..." */
static enum kva_status none_of(enum kva_select_key key, const char *value,
                               const struct kva_data *d, struct kva_error *err)
{
    struct kva_map seen;
    struct kva_buf list;
    enum kva_status rc;
    int n = 0;

    kva_map_init(&seen);
    kva_buf_init(&list, 4096);
    for (int i = 0; i < d->n_cells && n < 12; i++) {
        char room[64];
        const char *s = cell_text(key, d, &d->cells[i], room);
        bool fresh;
        size_t len = key == KVA_SELECT_METHOD ? strcspn(s, ":") : strlen(s);

        len = len < 60 ? len : 60;
        if (kva_map_put(&seen, s, len, 0, &fresh, NULL) != KVA_OK)
            break;
        if (fresh)
            kva_buf_printf(&list, n++ ? ", %.*s" : "%.*s", (int)len, s);
    }
    rc = KVA_FAIL(err, KVA_EMISSING,
                  "%s=%.80s holds for none of %d cells; there %s: %.240s%s",
                  kva_select_keys[key], value, d->n_cells, n == 1 ? "is" : "are",
                  list.data ? list.data : "nothing", n >= 12 ? ", ..." : "");
    kva_buf_release(&list);
    kva_map_release(&seen);
    return rc;
}

static enum kva_status select_runs(const struct kva_select *s, const struct kva_data *d,
                                   bool *run, struct kva_error *err)
{
    for (int i = 0; i < d->n_runs; i++)
        run[i] = !(s->named & 1u << KVA_SELECT_RUN);
    for (int k = 0; k < s->n; k++) {
        bool any = false;

        if (s->term[k].key != KVA_SELECT_RUN)
            continue;
        for (int i = 0; i < d->n_runs; i++)
            if (run_match(s->term[k].value, d, i))
                any = run[i] = true;
        if (!any)
            return KVA_FAIL(err, KVA_EMISSING,
                            "run=%.80s: none of %d runs has this label or a UUID that "
                            "starts so (`kvaudit list runs` shows them)",
                            s->term[k].value, d->n_runs);
    }
    return KVA_OK;
}

enum kva_status kva_select_apply(const struct kva_select *s, const struct kva_data *d,
                                 bool *cell, bool *run, struct kva_error *err)
{
    bool hit[KVA_SELECT_MAX] = {false}, plain[KVA_SELECT_MAX] = {false}, any = false;

    for (int k = 0; k < s->n; k++)
        plain[k] = s->term[k].key == KVA_SELECT_METHOD && has_plain(s->term[k].value, d);
    for (int i = 0; i < d->n_cells; i++) {
        unsigned holds = 0;

        for (int k = 0; k < s->n; k++)
            if (plain[k]
                    ? plain_match(s->term[k].value, &d->cells[i])
                    : cell_match(s->term[k].key, s->term[k].value, d, &d->cells[i])) {
                hit[k] = true;
                holds |= 1u << s->term[k].key;
            }
        cell[i] =
            (holds & s->named) == s->named && (strcmp(d->cells[i].method, "blind") != 0 ||
                                               names(s, KVA_SELECT_METHOD, "blind"));
        any |= cell[i];
    }
    for (int k = 0; k < s->n; k++)
        if (!hit[k] && d->n_cells && s->term[k].key < KVA_SELECT_DB)
            return none_of(s->term[k].key, s->term[k].value, d, err);
    KVA_TRY(select_runs(s, d, run, err));
    if (!any)
        return KVA_FAIL(err, KVA_EMISSING, "'%.200s' selects none of %d cells", s->text,
                        d->n_cells);
    return KVA_OK;
}
