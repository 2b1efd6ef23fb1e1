/* SPDX-License-Identifier: GPL-3.0-or-later */
/* spec.c - methods and schedules as text.
 *
 *     method   = "dense" | "blind" | part { "+" part }
 *     part     = name [ ":" key "=" value { "," key "=" value } ]
 *     schedule = ( "oneshot" | "block:" B ) [ "+decode:" E ]
 *
 * The first part of a method is its scorer.
 *
 * The canonical text spells every parameter, sorted, and the allocator, so that a changed
 * default makes new results instead of silently joining old ones. */
#include "methods/method.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- schedules ---- */

#define MAX_BLOCK (1 << 20)

/* The whole number of "word:NUMBER" within 1..MAX_BLOCK. */
static enum kva_status count_of(const char *text, const char *word, int *out,
                                struct kva_error *err)
{
    const char *colon = strchr(text, ':');
    int64_t v;

    if (colon == NULL || !kva_parse_i64(colon + 1, &v) || v < 1 || v > MAX_BLOCK)
        return KVA_FAIL(err, KVA_EINVALID,
                        "schedule \"%s\" needs %s:N with N from 1 to %d", text, word,
                        MAX_BLOCK);
    *out = (int)v;
    return KVA_OK;
}

static bool starts(const char *text, const char *word)
{
    size_t n = strlen(word);

    return strncmp(text, word, n) == 0 && (text[n] == '\0' || text[n] == ':');
}

enum kva_status kva_schedule_parse(const char *text, struct kva_schedule *s,
                                   struct kva_error *err)
{
    const char *const known[] = {"oneshot", "block", NULL};
    char head[64];
    const char *plus = strchr(text, '+'), *near;
    size_t n = plus != NULL ? (size_t)(plus - text) : strlen(text);

    *s = (struct kva_schedule){0};
    if (n >= sizeof head)
        return KVA_FAIL(err, KVA_EINVALID, "schedule \"%.40s...\" is too long", text);
    memcpy(head, text, n);
    head[n] = '\0';
    if (starts(head, "block")) {
        s->kind = KVA_BLOCK;
        KVA_TRY(count_of(head, "block", &s->block, err));
    } else if (starts(head, "layerwise") || starts(head, "chunked")) {
        return KVA_FAIL(err, KVA_EINVALID, "schedule \"%s\" is not built yet", head);
    } else if (strcmp(head, "oneshot") != 0) {
        near = kva_nearest(head, known);
        return KVA_FAIL(
            err, KVA_EINVALID,
            "unknown schedule \"%s\"; %s%s%sknown are oneshot and block:N, each with "
            "an optional +decode:N",
            head, near != NULL ? "did you mean \"" : "", near != NULL ? near : "",
            near != NULL ? "\"? " : "");
    }
    if (plus == NULL)
        return KVA_OK;
    if (!starts(plus + 1, "decode"))
        return KVA_FAIL(err, KVA_EINVALID,
                        "schedule \"%s\": only decode:N may follow the \"+\"", text);
    return count_of(plus + 1, "decode", &s->decode, err);
}

void kva_schedule_text(const struct kva_schedule *s, char out[48])
{
    char head[24] = "oneshot";

    if (s->kind == KVA_BLOCK)
        snprintf(head, sizeof head, "block:%d", s->block);
    if (s->decode > 0)
        snprintf(out, 48, "%s+decode:%d", head, s->decode);
    else
        snprintf(out, 48, "%s", head);
}

/* ---- words of the grammar ---- */

/* Names the grammar of ruling R17 knows and this version cannot run yet. */
static const char *const wrappers[] = {"critical", "caote",     "fastcaote", "chunk",
                                       "balance",  "defensive", NULL};
static const char *const aliases_later[] = {
    "pyramidkv",     "headkv",       "criticalkv",
    "ada_critical",  "defensivekv",  "layer_defensivekv",
    "streaming_rot", "compactor_kp", NULL};

/* Aliases of ruling R17: `name` stands for `scorer` with `preset`, and with `allocator`.
 * Parameters behind the alias belong to the allocator when there is one, else they go
 * over the preset. */
static const struct alias {
    const char *name, *scorer, *preset, *allocator;
} aliases[] = {
    {"snapkv32", "snapkv", "kernel=7,pool=max,window=32", NULL},
    {"adakv", "snapkv", NULL, "adakv"},
    {NULL, NULL, NULL, NULL},
};

static bool listed(const char *name, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(name, *words) == 0)
            return true;
    }
    return false;
}

static const struct kva_scorer *scorer_named(const char *name)
{
    for (const struct kva_scorer *const *s = kva_scorers(); *s != NULL; s++) {
        if (strcmp((*s)->name, name) == 0)
            return *s;
    }
    return NULL;
}

static const struct kva_allocator *allocator_named(const char *name)
{
    for (const struct kva_allocator *const *a = kva_allocators(); *a != NULL; a++) {
        if (strcmp((*a)->name, name) == 0)
            return *a;
    }
    return NULL;
}

#define MAX_WORDS 64

/* Refuses `name` with the nearest word that could stand there: scorers first, else
 * allocators. */
static enum kva_status unknown(const char *name, bool first, struct kva_error *err)
{
    const char *words[MAX_WORDS + 1];
    const char *near;
    int n = 0;

    if (listed(name, wrappers) || listed(name, aliases_later))
        return KVA_FAIL(err, KVA_EINVALID, "\"%s\" is not built yet", name);
    if (first) {
        words[n++] = "dense";
        words[n++] = "blind";
        for (const struct kva_scorer *const *s = kva_scorers(); *s != NULL && n < 50; s++)
            words[n++] = (*s)->name;
        for (const struct alias *a = aliases; a->name != NULL; a++)
            words[n++] = a->name;
    } else {
        for (const struct kva_allocator *const *a = kva_allocators();
             *a != NULL && n < 50; a++)
            words[n++] = (*a)->name;
        for (const char *const *w = wrappers; *w != NULL; w++)
            words[n++] = *w;
    }
    words[n] = NULL;
    near = kva_nearest(name, words);
    if (near != NULL)
        return KVA_FAIL(err, KVA_EINVALID, "unknown %s \"%s\"; did you mean \"%s\"?",
                        first ? "method" : "allocator or wrapper", name, near);
    return KVA_FAIL(err, KVA_EINVALID, "unknown %s \"%s\"",
                    first ? "method" : "allocator or wrapper", name);
}

/* ---- parameters ---- */

static void defaults(const struct kva_param *table, bool block, struct kva_params *params)
{
    *params = (struct kva_params){{0}};
    for (int i = 0; table != NULL && table[i].name != NULL; i++)
        params->value[i] = block ? table[i].def_block : table[i].def;
}

static enum kva_status unknown_param(const char *owner, const struct kva_param *table,
                                     const char *key, struct kva_error *err)
{
    const char *names[KVA_MAX_PARAMS + 1];
    char all[256] = "";
    const char *near;
    int n = 0;

    for (; table != NULL && table[n].name != NULL && n < KVA_MAX_PARAMS; n++) {
        size_t at = strlen(all);

        names[n] = table[n].name;
        snprintf(all + at, sizeof all - at, "%s%s", n > 0 ? ", " : "", names[n]);
    }
    names[n] = NULL;
    near = kva_nearest(key, names);
    if (n == 0)
        return KVA_FAIL(err, KVA_EINVALID, "%s has no parameters, got \"%s\"", owner,
                        key);
    if (near != NULL)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s has no parameter \"%s\"; did you mean \"%s\"?", owner, key,
                        near);
    return KVA_FAIL(err, KVA_EINVALID, "%s has no parameter \"%s\"; it has %s", owner,
                    key, all);
}

static enum kva_status choice(const char *owner, const struct kva_param *p,
                              const char *text, double *out, struct kva_error *err)
{
    char all[128] = "";

    for (int i = 0; p->choices[i] != NULL; i++) {
        size_t at = strlen(all);

        if (strcmp(p->choices[i], text) == 0) {
            *out = i;
            return KVA_OK;
        }
        snprintf(all + at, sizeof all - at, "%s%s", i > 0 ? ", " : "", p->choices[i]);
    }
    return KVA_FAIL(err, KVA_EINVALID, "%s: %s must be one of %s, got \"%s\"", owner,
                    p->name, all, text);
}

/* One parameter; its text is checked against the table. */
static enum kva_status set_param(const char *owner, const struct kva_param *p,
                                 const char *text, double *out, struct kva_error *err)
{
    int64_t whole = 0;
    double v = 0;
    bool ok;

    if (p->type == KVA_PARAM_CHOICE)
        return choice(owner, p, text, out, err);
    if (p->type == KVA_PARAM_INT) {
        ok = kva_parse_i64(text, &whole);
        v = (double)whole;
    } else {
        ok = kva_parse_f64(text, &v);
    }
    if (!ok || v < p->min || v > p->max)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s: %s must be %s from %.15g to %.15g, got \"%s\"", owner,
                        p->name, p->type == KVA_PARAM_INT ? "a whole number" : "a number",
                        p->min, p->max, text);
    if (p->odd && whole % 2 == 0)
        return KVA_FAIL(err, KVA_EINVALID, "%s: %s must be odd, got \"%s\"", owner,
                        p->name, text);
    *out = v + 0.0; /* "-0" is 0 */
    return KVA_OK;
}

/* "key=value,key=value" over what `params` holds; `list` is cut up in place. */
static enum kva_status set_params(const char *owner, const struct kva_param *table,
                                  char *list, struct kva_params *params,
                                  struct kva_error *err)
{
    unsigned given = 0;

    while (list != NULL) {
        char *key = list, *comma = strchr(list, ','), *value;
        int i = 0;

        if (comma != NULL)
            *comma = '\0';
        list = comma != NULL ? comma + 1 : NULL;
        value = strchr(key, '=');
        if (value == NULL || value == key || value[1] == '\0')
            return KVA_FAIL(err, KVA_EINVALID, "%s: expected parameter=value, got \"%s\"",
                            owner, key);
        *value++ = '\0';
        while (table != NULL && table[i].name != NULL && strcmp(table[i].name, key) != 0)
            i++;
        if (table == NULL || table[i].name == NULL)
            return unknown_param(owner, table, key, err);
        if (given & 1u << i)
            return KVA_FAIL(err, KVA_EINVALID, "%s: %s is given twice", owner, key);
        given |= 1u << i;
        KVA_TRY(set_param(owner, &table[i], value, &params->value[i], err));
    }
    return KVA_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct kva_param *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* The shortest decimal that reads back as the same double. */
static void real_text(double v, char out[32])
{
    for (int digits = 1; digits <= 17; digits++) {
        double back;

        snprintf(out, 32, "%.*g", digits, v);
        if (kva_parse_f64(out, &back) && back >= v && back <= v)
            return;
    }
}

/* "name:key=value,..." with every parameter, sorted; false when it does not fit. */
static bool canonical(const char *name, const struct kva_param *table,
                      const struct kva_params *params, char *out, size_t size)
{
    const struct kva_param *order[KVA_MAX_PARAMS];
    int n = 0;
    size_t at = (size_t)snprintf(out, size, "%s", name);

    for (; table != NULL && table[n].name != NULL; n++)
        order[n] = &table[n];
    if (n > 1)
        qsort(order, (size_t)n, sizeof order[0], by_name);
    for (int i = 0; i < n && at < size; i++) {
        double v = params->value[order[i] - table];
        char text[32];

        if (order[i]->type == KVA_PARAM_CHOICE)
            snprintf(text, sizeof text, "%s", order[i]->choices[(int)v]);
        else if (order[i]->type == KVA_PARAM_INT)
            snprintf(text, sizeof text, "%" PRId64, (int64_t)v);
        else
            real_text(v, text);
        at += (size_t)snprintf(out + at, size - at, "%c%s=%s", i == 0 ? ':' : ',',
                               order[i]->name, text);
    }
    return at < size;
}

/* ---- methods ---- */

/* Cuts the first part off `*rest` (NULL: none left) into its name and parameter list. */
static enum kva_status next_part(char **rest, char **name, char **list,
                                 struct kva_error *err)
{
    char *plus = strchr(*rest, '+'), *colon;

    /* "1e+3" is a number, not a new part */
    while (plus != NULL && plus > *rest && plus[-1] == 'e' && plus[1] >= '0' &&
           plus[1] <= '9')
        plus = strchr(plus + 1, '+');
    *name = *rest;
    *rest = plus != NULL ? plus + 1 : NULL;
    if (plus != NULL)
        *plus = '\0';
    colon = strchr(*name, ':');
    *list = colon != NULL ? colon + 1 : NULL;
    if (colon != NULL)
        *colon = '\0';
    if (**name == '\0')
        return KVA_FAIL(err, KVA_EINVALID,
                        "a method is scorer[:key=value,...][+allocator[...]]");
    return KVA_OK;
}

static enum kva_status set_allocator(struct kva_method *m, const char *name, char *list,
                                     bool block, struct kva_error *err)
{
    const struct kva_allocator *a = allocator_named(name);

    if (a == NULL)
        return unknown(name, false, err);
    if (m->allocator != NULL)
        return KVA_FAIL(err, KVA_EINVALID, "two allocators, %s and %s",
                        m->allocator->name, name);
    m->allocator = a;
    defaults(a->params, block, &m->allocator_params);
    return set_params(a->name, a->params, list, &m->allocator_params, err);
}

/* The first part: a scorer or an alias of one. */
static enum kva_status set_scorer(struct kva_method *m, const char *name, char *list,
                                  bool block, struct kva_error *err)
{
    const struct alias *alias = aliases;
    char preset[64];

    while (alias->name != NULL && strcmp(alias->name, name) != 0)
        alias++;
    m->scorer = scorer_named(alias->name != NULL ? alias->scorer : name);
    if (m->scorer == NULL)
        return unknown(name, true, err);
    defaults(m->scorer->params, block, &m->scorer_params);
    if (alias->name != NULL && alias->preset != NULL) {
        snprintf(preset, sizeof preset, "%s", alias->preset);
        KVA_TRY(set_params(name, m->scorer->params, preset, &m->scorer_params, err));
    }
    if (alias->name != NULL && alias->allocator != NULL)
        return set_allocator(m, alias->allocator, list, block, err);
    return set_params(name, m->scorer->params, list, &m->scorer_params, err);
}

/* Pairs that would compare numbers without a common unit (methods.md 7). */
static enum kva_status check_pair(const struct kva_method *m, struct kva_error *err)
{
    const struct kva_scorer *s = m->scorer;
    const struct kva_allocator *a = m->allocator;
    const char *norm = "none";

    for (int i = 0; a->params != NULL && a->params[i].name != NULL; i++) {
        if (strcmp(a->params[i].name, "norm") == 0)
            norm = a->params[i].choices[(int)m->allocator_params.value[i]];
    }
    if (a->compares_heads && s->positional)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "%s+%s: %s keeps the same positions in every KV head, there is nothing to "
            "compare; use uniform",
            s->name, a->name, s->name);
    if (a->compares_heads && !s->nonneg && strcmp(norm, "cell_sum") == 0)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "%s+%s: norm=cell_sum divides by a sum of scores and %s has negative "
            "ones; use norm=z",
            s->name, a->name, s->name);
    if (a->compares_layers && !s->comparable && strcmp(norm, "none") == 0)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "%s+%s: scores of %s have no common unit across layers; give %s a norm "
            "(%s)",
            s->name, a->name, s->name, a->name,
            s->nonneg ? "norm=z or norm=cell_sum" : "norm=z");
    return KVA_OK;
}

static enum kva_status write_specs(struct kva_method *m, struct kva_error *err)
{
    char allocator[128];
    int n;

    if (!canonical(m->scorer->name, m->scorer->params, &m->scorer_params, m->scorer_spec,
                   sizeof m->scorer_spec) ||
        !canonical(m->allocator->name, m->allocator->params, &m->allocator_params,
                   allocator, sizeof allocator))
        return KVA_FAIL(err, KVA_EINVALID, "the canonical text of %s is too long",
                        m->scorer->name);
    n = snprintf(m->spec, sizeof m->spec, "%s+%s", m->scorer_spec, allocator);
    if (n < 0 || (size_t)n >= sizeof m->spec)
        return KVA_FAIL(err, KVA_EINVALID, "the canonical text of %s is too long",
                        m->scorer->name);
    return KVA_OK;
}

enum kva_status kva_method_parse(const char *text, const struct kva_schedule *schedule,
                                 struct kva_method *m, struct kva_error *err)
{
    bool block = schedule->kind == KVA_BLOCK;
    char copy[512], *rest = copy, *name, *list;

    *m = (struct kva_method){0};
    if (strlen(text) >= sizeof copy)
        return KVA_FAIL(err, KVA_EINVALID, "method \"%.40s...\" is too long", text);
    snprintf(copy, sizeof copy, "%s", text);
    KVA_TRY(next_part(&rest, &name, &list, err));
    if (strcmp(name, "dense") == 0 || strcmp(name, "blind") == 0) {
        if (rest != NULL || list != NULL)
            return KVA_FAIL(err, KVA_EINVALID,
                            "\"%s\" takes no parameters and no allocator", name);
        m->dense = name[0] == 'd';
        m->blind = !m->dense;
        snprintf(m->spec, sizeof m->spec, "%s", name);
        snprintf(m->scorer_spec, sizeof m->scorer_spec, "%s", name);
        return KVA_OK;
    }
    KVA_TRY(set_scorer(m, name, list, block, err));
    while (rest != NULL) {
        KVA_TRY(next_part(&rest, &name, &list, err));
        KVA_TRY(set_allocator(m, name, list, block, err));
    }
    if (m->allocator == NULL) {
        char uniform[] = "uniform";

        KVA_TRY(set_allocator(m, uniform, NULL, block, err));
    }
    KVA_TRY(check_pair(m, err));
    return write_specs(m, err);
}

unsigned kva_method_needs(const struct kva_method *m, int *window)
{
    if (window != NULL)
        *window = m->scorer != NULL && m->scorer->window != NULL
                      ? m->scorer->window(&m->scorer_params)
                      : 0;
    return m->scorer != NULL ? m->scorer->needs : 0;
}
