/* SPDX-License-Identifier: GPL-3.0-or-later */
/* spec.c - methods and schedules as text.
 *
 *     method   = "dense" | "blind" | part { "+" part }
 *     part     = name [ ":" key "=" value { "," key "=" value } ]
 *     schedule = ( "oneshot" | "layerwise" | "block:" B | "chunked:" B ) [ "+decode:" E ]
 *
 * The first part of a method is its scorer or an alias; the others are a wrapper and an
 * allocator, in any order.
 *
 * The canonical text spells every parameter, sorted, and the allocator, so that a changed
 * default makes new results instead of silently joining old ones. */
#include "methods/spec.h"

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
    const char *const known[] = {"oneshot", "layerwise", "block", "chunked", NULL};
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
    } else if (starts(head, "chunked")) {
        s->kind = KVA_CHUNKED;
        KVA_TRY(count_of(head, "chunked", &s->block, err));
    } else if (strcmp(head, "layerwise") == 0) {
        s->kind = KVA_LAYERWISE;
    } else if (strcmp(head, "oneshot") != 0) {
        near = kva_nearest(head, known);
        return KVA_FAIL(
            err, KVA_EINVALID,
            "unknown schedule \"%s\"; %s%s%sknown are oneshot, layerwise, block:N and "
            "chunked:N, each with an optional +decode:N",
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

    if (s->kind == KVA_BLOCK || s->kind == KVA_CHUNKED)
        snprintf(head, sizeof head, "%s:%d", s->kind == KVA_BLOCK ? "block" : "chunked",
                 s->block);
    else if (s->kind == KVA_LAYERWISE)
        snprintf(head, sizeof head, "layerwise");
    if (s->decode > 0)
        snprintf(out, 48, "%s+decode:%d", head, s->decode);
    else
        snprintf(out, 48, "%s", head);
}

/* ---- words of the grammar ---- */

/* Aliases of ruling R17, written out. Parameters behind an alias belong to its last part.
 */
static const struct kva_method_alias aliases[] = {
    {"snapkv32", "snapkv:kernel=7,pool=max,window=32"},
    {"pyramidkv", "snapkv+pyramid"},
    {"adakv", "snapkv+adakv"},
    {"headkv", "snapkv+headkv"},
    {"criticalkv", "snapkv:kernel=7,pool=max,window=32+critical"},
    {"ada_critical", "snapkv:kernel=7,pool=max,window=32+adakv+critical"},
    {"defensivekv", "snapkv:window=32+adakv:alpha=0+defensive"},
    {"layer_defensivekv", "snapkv:window=32+global+defensive"},
    {"duo", "streaming:sinks=128+duo"},
    {"simlayerkv", "streaming+simlayerkv"},
    {"streaming_rot", "streaming:rotate=1"},
    {"compactor_kp", "compactor:beta=-1,chunk=256,compat=1,lev_chunk=0,recent=4,ridge=0."
                     "01,sinks=8,vnorm=1"},
    {NULL, NULL},
};

const struct kva_method_alias *kva_method_aliases(void)
{
    return aliases;
}

static const struct kva_method_alias *alias_named(const char *name)
{
    for (const struct kva_method_alias *a = aliases; a->name != NULL; a++) {
        if (strcmp(a->name, name) == 0)
            return a;
    }
    return NULL;
}

static const struct kva_scorer *scorer_named(const char *name)
{
    for (const struct kva_scorer *const *s = kva_scorers(); *s != NULL; s++) {
        if (strcmp((*s)->name, name) == 0)
            return *s;
    }
    return NULL;
}

static const struct kva_wrapper *wrapper_named(const char *name)
{
    for (const struct kva_wrapper *const *w = kva_wrappers(); *w != NULL; w++) {
        if (strcmp((*w)->name, name) == 0)
            return *w;
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

    if (first) {
        words[n++] = "dense";
        words[n++] = "blind";
        for (const struct kva_scorer *const *s = kva_scorers(); *s != NULL && n < 50; s++)
            words[n++] = (*s)->name;
        for (const struct kva_method_alias *a = aliases; a->name != NULL && n < MAX_WORDS;
             a++)
            words[n++] = a->name;
    } else {
        for (const struct kva_allocator *const *a = kva_allocators();
             *a != NULL && n < 50; a++)
            words[n++] = (*a)->name;
        for (const struct kva_wrapper *const *w = kva_wrappers();
             *w != NULL && n < MAX_WORDS; w++)
            words[n++] = (*w)->name;
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

/* "key=value,key=value" over what `params` holds; `list` is cut up in place. What stands
 * before a ';' is an alias's own and may be given again behind it. */
static enum kva_status set_params(const char *owner, const struct kva_param *table,
                                  char *list, struct kva_params *params, char file[256],
                                  struct kva_error *err)
{
    unsigned given = 0;

    while (list != NULL) {
        char *key = list, *comma = strpbrk(list, ",;"), *value;
        bool preset = comma != NULL && *comma == ';';
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
        if (table[i].type == KVA_PARAM_FILE) {
            if (strlen(value) >= 256 || file[0] != '\0')
                return KVA_FAIL(err, KVA_EINVALID, "%s: %s: %s", owner, key,
                                file[0] != '\0' ? "a method reads one file"
                                                : "the path is too long");
            memcpy(file, value, strlen(value) + 1);
            continue;
        }
        KVA_TRY(set_param(owner, &table[i], value, &params->value[i], err));
        given = preset ? 0 : given;
    }
    return KVA_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct kva_param *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* The shortest decimal that reads back as the same double; whole numbers without an
 * exponent. */
static void real_text(double v, char out[32])
{
    if (fabs(v) < 1e15 && floor(v) >= v) {
        snprintf(out, 32, "%.0f", v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        double back;

        snprintf(out, 32, "%.*g", digits, v);
        if (kva_parse_f64(out, &back) && back >= v && back <= v)
            return;
    }
}

/* "name:key=value,..." with every parameter, sorted; false when it does not fit. */
static bool canonical(const char *name, const struct kva_param *table,
                      const struct kva_params *params, const char *file, char *out,
                      size_t size)
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

        if (order[i]->type == KVA_PARAM_FILE) {
            at += (size_t)snprintf(out + at, size - at, "%c%s=%s", i == 0 ? ':' : ',',
                                   order[i]->name, file);
            continue;
        }
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

static enum kva_status set_allocator(struct kva_method *m, const struct kva_allocator *a,
                                     char *list, bool block, struct kva_error *err)
{
    if (m->allocator != NULL)
        return KVA_FAIL(err, KVA_EINVALID, "two allocators, %s and %s",
                        m->allocator->name, a->name);
    m->allocator = a;
    defaults(a->params, block, &m->allocator_params);
    return set_params(a->name, a->params, list, &m->allocator_params, m->file, err);
}

static enum kva_status set_wrapper(struct kva_method *m, const struct kva_wrapper *w,
                                   char *list, bool block, struct kva_error *err)
{
    if (m->wrapper != NULL)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "two wrappers, %s and %s: each decides which entries of a KV head "
            "stay, only one can",
            m->wrapper->name, w->name);
    m->wrapper = w;
    defaults(w->params, block, &m->wrapper_params);
    return set_params(w->name, w->params, list, &m->wrapper_params, m->file, err);
}

/* A part behind the first. */
static enum kva_status set_part(struct kva_method *m, const char *name, char *list,
                                bool block, struct kva_error *err)
{
    const struct kva_wrapper *w = wrapper_named(name);
    const struct kva_allocator *a = allocator_named(name);

    if (w != NULL)
        return set_wrapper(m, w, list, block, err);
    if (a != NULL)
        return set_allocator(m, a, list, block, err);
    return unknown(name, false, err);
}

static enum kva_status set_scorer(struct kva_method *m, const char *name, char *list,
                                  bool block, struct kva_error *err)
{
    m->scorer = scorer_named(name);
    if (m->scorer == NULL)
        return unknown(name, true, err);
    defaults(m->scorer->params, block, &m->scorer_params);
    return set_params(name, m->scorer->params, list, &m->scorer_params, m->file, err);
}

/* Writes an alias out: "adakv:alpha=0.5+..." becomes "snapkv+adakv:alpha=0.5+...". */
static enum kva_status expand(const char *text, char out[512], struct kva_error *err)
{
    char name[64];
    size_t n = strcspn(text, ":+");
    const struct kva_method_alias *alias;
    const char *rest, *last;
    int len;

    snprintf(name, sizeof name, "%.*s", (int)n, text);
    alias = alias_named(name);
    if (strchr(text, ';') != NULL)
        return KVA_FAIL(err, KVA_EINVALID, "method \"%.40s\": unexpected ';'", text);
    if (alias == NULL) {
        len = snprintf(out, 512, "%s", text);
    } else {
        rest = text + n;
        last = strrchr(alias->text, '+');
        last = last != NULL ? last : alias->text;
        /* the last part may have parameters of its own: the given ones come behind and
         * stand for them */
        if (rest[0] == ':' && strchr(last, ':') != NULL)
            len = snprintf(out, 512, "%s;%s", alias->text, rest + 1);
        else
            len = snprintf(out, 512, "%s%s", alias->text, rest);
    }
    if (len < 0 || len >= 512)
        return KVA_FAIL(err, KVA_EINVALID, "method \"%.40s...\" is too long", text);
    return KVA_OK;
}

/* Pairs that would compare numbers without a common unit (methods.md 7). */
static enum kva_status check_schedule(const struct kva_method *m,
                                      const struct kva_schedule *sc,
                                      struct kva_error *err)
{
    if (m->scorer->oneshot_only &&
        (sc->kind == KVA_BLOCK || sc->kind == KVA_CHUNKED || sc->decode > 0))
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s has no meaning under a schedule that evicts more than once",
                        m->scorer->name);
    if (sc->kind == KVA_LAYERWISE && kva_method_collect(m).kind == KVA_COLLECT_REPLAY)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "%s repeats the whole prompt to the model, layerwise has cut it by "
            "then; use oneshot",
            m->scorer->name);
    if (m->allocator->cross_layer && sc->kind == KVA_LAYERWISE)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s compares all layers, layerwise cuts each before the next is "
                        "read; use oneshot",
                        m->allocator->name);
    return KVA_OK;
}

static enum kva_status check_pair(const struct kva_method *m, struct kva_error *err)
{
    const struct kva_scorer *s = m->scorer;
    const struct kva_allocator *a = m->allocator;
    const char *norm = "none";
    bool nonneg = s->nonneg, comparable = s->comparable;

    for (int i = 0; a->params != NULL && a->params[i].name != NULL; i++) {
        if (strcmp(a->params[i].name, "norm") == 0)
            norm = a->params[i].choices[(int)m->allocator_params.value[i]];
    }
    if (m->wrapper != NULL && m->wrapper->refuse != NULL) {
        const char *why = m->wrapper->refuse(s, a);

        if (why != NULL)
            return KVA_FAIL(err, KVA_EINVALID, "%s+%s+%s: %s", s->name, m->wrapper->name,
                            a->name, why);
    }
    if (m->wrapper != NULL && !m->wrapper->keeps_unit) {
        nonneg = m->wrapper->nonneg;
        comparable = m->wrapper->comparable;
    }
    if (a->compares_heads && s->positional)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "%s+%s: %s keeps the same positions in every KV head, there is nothing to "
            "compare; use uniform",
            s->name, a->name, s->name);
    if (a->compares_heads && !nonneg && strcmp(norm, "cell_sum") == 0)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "%s+%s: norm=cell_sum divides by a sum of scores and %s has negative "
            "ones; use norm=z",
            s->name, a->name, s->name);
    if (a->compares_layers && !comparable && strcmp(norm, "none") == 0)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "%s+%s: scores of %s have no common unit across layers; give %s a norm "
            "(%s)",
            s->name, a->name, s->name, a->name,
            nonneg ? "norm=z or norm=cell_sum" : "norm=z");
    if (a->nonneg && !nonneg)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s+%s: %s reads scores as shares and %s has negative ones",
                        s->name, a->name, a->name, s->name);
    return KVA_OK;
}

enum kva_status kva_method_specs(struct kva_method *m, const char *file,
                                 struct kva_error *err)
{
    char wrapper[384] = "";
    int n, w;
    bool ok;

    ok = canonical(m->scorer->name, m->scorer->params, &m->scorer_params, file,
                   m->scorer_spec, sizeof m->scorer_spec) &&
         canonical(m->allocator->name, m->allocator->params, &m->allocator_params, file,
                   m->allocator_spec, sizeof m->allocator_spec) &&
         (m->wrapper == NULL ||
          canonical(m->wrapper->name, m->wrapper->params, &m->wrapper_params, file,
                    wrapper, sizeof wrapper));
    w = snprintf(m->wrapped_spec, sizeof m->wrapped_spec, "%s%s%s", m->scorer_spec,
                 m->wrapper != NULL ? "+" : "", wrapper);
    n = snprintf(m->spec, sizeof m->spec, "%s+%s", m->wrapped_spec, m->allocator_spec);
    if (!ok || n < 0 || (size_t)n >= sizeof m->spec || w < 0 ||
        (size_t)w >= sizeof m->wrapped_spec)
        return KVA_FAIL(err, KVA_EINVALID, "the canonical text of %s is too long",
                        m->scorer->name);
    return KVA_OK;
}

enum kva_status kva_method_parse(const char *text, const struct kva_schedule *schedule,
                                 struct kva_method *m, struct kva_error *err)
{
    bool block = schedule->kind == KVA_BLOCK || schedule->kind == KVA_CHUNKED;
    char copy[512], *rest = copy, *name, *list;

    *m = (struct kva_method){0};
    KVA_TRY(expand(text, copy, err));
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
        KVA_TRY(set_part(m, name, list, block, err));
    }
    if (m->allocator == NULL)
        KVA_TRY(set_allocator(m, allocator_named("uniform"), NULL, block, err));
    KVA_TRY(check_pair(m, err));
    KVA_TRY(check_schedule(m, schedule, err));
    return kva_method_specs(m, m->file, err);
}

unsigned kva_method_needs(const struct kva_method *m, int *window)
{
    int w = 0, own;

    if (m->scorer == NULL) {
        if (window != NULL)
            *window = 0;
        return 0;
    }
    if (m->scorer->window != NULL)
        w = m->scorer->window(&m->scorer_params);
    if (m->wrapper != NULL && m->wrapper->window != NULL) {
        own = m->wrapper->window(&m->wrapper_params);
        w = own > w ? own : w;
    }
    if (m->allocator->window != NULL) {
        own = m->allocator->window(&m->allocator_params);
        w = own > w ? own : w;
    }
    if (window != NULL)
        *window = w;
    return m->scorer->needs | (m->wrapper != NULL ? m->wrapper->needs : 0u) |
           m->allocator->needs;
}

struct kva_collect kva_method_collect(const struct kva_method *m)
{
    struct kva_collect want = {.kind = KVA_COLLECT_NONE};

    if (m->scorer != NULL && m->scorer->collect != NULL)
        m->scorer->collect(&m->scorer_params, &want);
    return want;
}

bool kva_method_rotates(const struct kva_method *m)
{
    return m->scorer != NULL && m->scorer->rotates != NULL &&
           m->scorer->rotates(&m->scorer_params);
}
