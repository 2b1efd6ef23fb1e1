/* SPDX-License-Identifier: GPL-3.0-or-later */
/* suite_values.c - typed values of a suite file, and the report of what is wrong with
 * them. */
#include "runner/suite_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes `text`. */
static void add_error(struct sx *x, int line, int col, struct kva_buf *text)
{
    int i = x->n_errors++;

    if (!x->quiet && i == x->cap_errors) {
        int cap = i ? 2 * i : 32;
        struct sx_error *grown = kva_realloc(x->errors, (size_t)cap, sizeof grown[0]);

        if (grown) {
            x->errors = grown;
            x->cap_errors = cap;
        }
    }
    if (x->quiet || i >= x->cap_errors || text->failed) {
        x->nomem = x->nomem || !x->quiet;
        x->n_errors = x->quiet ? x->n_errors : i;
        kva_buf_release(text);
        return;
    }
    x->errors[i] = (struct sx_error){line, col, i, text->data};
}

/* Errors in a value that came from --set are placed at that argument, all others in the
 * file. */
void kva_sx_bad(struct sx *x, const char *ptr, bool at_key, const char *fmt, ...)
{
    struct kva_jsonpos_at at = kva_jsonpos_find(&x->pos, ptr);
    int line = at_key && at.key_line ? at.key_line : at.line;
    int col = at_key && at.key_line ? at.key_col : at.col;
    struct kva_buf text;
    va_list ap;

    kva_buf_init(&text, 1 << 16);
    for (int i = 0; x->set_ptr && i < x->opts->n_set; i++) {
        size_t n = strlen(x->set_ptr[i]);

        if (n && strncmp(x->set_ptr[i], ptr, n) == 0 &&
            (ptr[n] == '/' || ptr[n] == '\0')) {
            text.len = 0;
            kva_buf_printf(&text, "--set %s: ", x->opts->set[i]);
            line = col = 0;
        }
    }
    if (line)
        kva_buf_printf(&text, "%s:%d:%d: ", x->name, line, col);
    if (ptr[0])
        kva_buf_printf(&text, "%s: ", ptr);
    va_start(ap, fmt);
    kva_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    add_error(x, line, col, &text);
}

void kva_sx_bad_because(struct sx *x, const char *ptr, const struct kva_error *why)
{
    if (why->code == KVA_ENOMEM)
        x->nomem = true;
    else
        kva_sx_bad(x, ptr, false, "%s", why->text);
}

void kva_sx_bad_arg(struct sx *x, const char *option, const char *arg, const char *fmt,
                    ...)
{
    struct kva_buf text;
    va_list ap;

    kva_buf_init(&text, 1 << 16);
    kva_buf_printf(&text, "%s %s: ", option, arg);
    va_start(ap, fmt);
    kva_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    add_error(x, 0, 0, &text);
}

static int by_place(const void *va, const void *vb)
{
    const struct sx_error *a = va, *b = vb;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->col != b->col)
        return a->col < b->col ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

void kva_sx_report(struct sx *x, struct kva_buf *report)
{
    if (x->n_errors)
        qsort(x->errors, (size_t)x->n_errors, sizeof x->errors[0], by_place);
    for (int i = 0; i < x->n_errors; i++) {
        size_t start = report->len;

        kva_buf_puts(report, x->errors[i].text);
        kva_jsonpos_line(report, start);
        free(x->errors[i].text);
    }
    free(x->errors);
    x->errors = NULL;
}

void kva_sx_join(char out[SX_PTR], const char *base, const char *key)
{
    size_t n = (size_t)snprintf(out, SX_PTR, "%s/", base);

    for (; *key && n + 3 < SX_PTR; key++) {
        if (*key == '~' || *key == '/') {
            out[n++] = '~';
            out[n++] = *key == '~' ? '0' : '1';
        } else {
            out[n++] = *key;
        }
    }
    if (n < SX_PTR)
        out[n] = '\0';
}

void kva_sx_join_at(char out[SX_PTR], const char *base, size_t i)
{
    if (snprintf(out, SX_PTR, "%s/%zu", base, i) >= SX_PTR)
        out[SX_PTR - 1] = '\0';
}

char *kva_sx_str(struct sx *x, const char *s)
{
    static char empty[1];
    char *copy = kva_arena_strdup(&x->s->arena, s);

    if (!copy) {
        x->nomem = true;
        return empty;
    }
    return copy;
}

void *kva_sx_alloc(struct sx *x, size_t count, size_t size)
{
    void *p = kva_arena_alloc(&x->s->arena, count ? count : 1, size);

    if (!p)
        x->nomem = true;
    return p;
}

const char *kva_sx_type(json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

void kva_sx_keys(struct sx *x, json_t *o, const char *ptr, const char *const *known)
{
    const char *key;
    json_t *v;

    json_object_foreach(o, key, v)
    {
        const char *near;
        char at[SX_PTR];
        int i = 0;

        (void)v;
        if (key[0] == '/' && key[1] == '/')
            continue;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (known[i])
            continue;
        kva_sx_join(at, ptr, key);
        near = kva_nearest(key, known);
        if (near && kva_edit_distance(near, key) <= 2)
            kva_sx_bad(x, at, true, "unknown key; did you mean '%s'?", near);
        else
            kva_sx_bad(x, at, true, "unknown key");
    }
}

int64_t kva_sx_int(struct sx *x, json_t *o, const char *ptr, const char *key, int64_t min,
                   int64_t max, int64_t def)
{
    json_t *v = json_object_get(o, key);
    char at[SX_PTR];
    double d;

    if (!v)
        return def;
    kva_sx_join(at, ptr, key);
    d = json_number_value(v);
    if (!json_is_number(v) || d != floor(d)) {
        kva_sx_bad(x, at, false, "must be a whole number, not %s",
                   json_is_number(v) ? "a fraction" : kva_sx_type(v));
        return def;
    }
    if (d < (double)min || d > (double)max) {
        kva_sx_bad(x, at, false, "%.17g is not in %lld..%lld", d, (long long)min,
                   (long long)max);
        return def;
    }
    return json_is_integer(v) ? json_integer_value(v) : (int64_t)d;
}

int kva_sx_perf_reps(struct sx *x, json_t *o, const char *ptr, int def)
{
    int n = (int)kva_sx_int(x, o, ptr, "perf_reps", 0, 1000, def);
    char at[SX_PTR];

    if (n <= 0 || n >= KVA_PERF_REPS_LEAST)
        return n;
    kva_sx_join(at, ptr, "perf_reps");
    kva_sx_bad(x, at, false, "%d is too few to compare times; 0, or at least %d", n,
               KVA_PERF_REPS_LEAST);
    return 0;
}

char *kva_sx_string(struct sx *x, json_t *o, const char *ptr, const char *key)
{
    json_t *v = json_object_get(o, key);
    char at[SX_PTR];

    if (!v || json_is_null(v))
        return NULL;
    kva_sx_join(at, ptr, key);
    if (!json_is_string(v)) {
        kva_sx_bad(x, at, false, "must be a string, not %s", kva_sx_type(v));
        return NULL;
    }
    if (!json_string_length(v)) {
        kva_sx_bad(x, at, false, "is empty");
        return NULL;
    }
    return kva_sx_str(x, json_string_value(v));
}

bool kva_sx_flag(struct sx *x, json_t *o, const char *ptr, const char *key, bool def)
{
    json_t *v = json_object_get(o, key);
    char at[SX_PTR];

    if (!v)
        return def;
    if (json_is_boolean(v))
        return json_is_true(v);
    kva_sx_join(at, ptr, key);
    kva_sx_bad(x, at, false, "must be true or false, not %s", kva_sx_type(v));
    return def;
}

struct sx_axis kva_sx_strings(struct sx *x, json_t *v, const char *ptr)
{
    struct sx_axis a = {NULL, 0};
    size_t n = json_is_array(v) ? json_array_size(v) : 1;

    a.v = kva_sx_alloc(x, n, sizeof a.v[0]);
    if (!a.v)
        return a;
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
        char at[SX_PTR];

        snprintf(at, sizeof at, "%s", ptr);
        if (json_is_array(v))
            kva_sx_join_at(at, ptr, i);
        if (json_is_string(e) && json_string_length(e))
            a.v[a.n++] = kva_sx_str(x, json_string_value(e));
        else
            kva_sx_bad(x, at, false, "must be a string, not %s",
                       json_is_string(e) ? "an empty one" : kva_sx_type(e));
    }
    if (json_is_array(v) && n == 0)
        kva_sx_bad(x, ptr, false, "the list is empty");
    return a;
}

/* ---- budgets (ruling R15) ---- */

static bool keep_value(struct sx *x, double v, const char *ptr, struct kva_budget *b)
{
    double bp = v * 10000;

    if (!(v > 0) || v >= 1) {
        if (v > 1 && v < 100)
            kva_sx_bad(x, ptr, false, "%.6g is not in (0,1); did you mean %.6g?", v,
                       v / 100);
        else if (v == 1)
            kva_sx_bad(x, ptr, false,
                       "1 is not in (0,1); the full cache is the method dense");
        else
            kva_sx_bad(x, ptr, false, "%.6g is not in (0,1)", v);
        return false;
    }
    if (fabs(bp - round(bp)) > 1e-7 || round(bp) < 1) {
        kva_sx_bad(x, ptr, false, "%.10g has more than 4 decimals", v);
        return false;
    }
    *b = (struct kva_budget){KVA_BUDGET_KEEP, (int64_t)round(bp)};
    return true;
}

static bool count_value(struct sx *x, double v, const char *ptr,
                        enum kva_budget_kind kind, struct kva_budget *b)
{
    if (v != floor(v) || v < 1 || v > 9007199254740992.0) {
        kva_sx_bad(x, ptr, false, "%.10g is not a whole number of at least 1", v);
        return false;
    }
    *b = (struct kva_budget){kind, (int64_t)v};
    return true;
}

static bool budget_of(struct sx *x, const char *kind, double v, const char *ptr,
                      struct kva_budget *b)
{
    if (strcmp(kind, "keep") == 0)
        return keep_value(x, v, ptr, b);
    return count_value(
        x, v, ptr, strcmp(kind, "tokens") == 0 ? KVA_BUDGET_TOKENS : KVA_BUDGET_BYTES, b);
}

static const char *const KINDS[] = {"keep", "tokens", "bytes", NULL};

static bool known_kind(const char *kind)
{
    for (int i = 0; KINDS[i]; i++)
        if (strcmp(KINDS[i], kind) == 0)
            return true;
    return false;
}

static bool budget_text(struct sx *x, const char *s, const char *ptr,
                        struct kva_budget *b)
{
    const char *eq = strchr(s, '='), *near;
    char kind[32];
    double v;

    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(s, "="), s);
    if (!known_kind(kind)) {
        near = kva_nearest(kind, KINDS);
        if (near)
            kva_sx_bad(x, ptr, false, "'%s' is no budget; did you mean '%s=...'?", s,
                       near);
        else
            kva_sx_bad(x, ptr, false,
                       "'%s' is no budget; write keep=0.25, tokens=256 or bytes=1000000",
                       s);
        return false;
    }
    if (!eq || !kva_parse_f64(eq + 1, &v)) {
        kva_sx_bad(x, ptr, false, "'%s' has no number", s);
        return false;
    }
    return budget_of(x, kind, v, ptr, b);
}

bool kva_sx_budget(struct sx *x, json_t *v, const char *ptr, struct kva_budget *b)
{
    const char *kind = NULL, *key;
    json_t *e, *value = NULL;
    char at[SX_PTR];
    int errors = x->n_errors;

    if (json_is_string(v))
        return budget_text(x, json_string_value(v), ptr, b);
    if (!json_is_object(v)) {
        kva_sx_bad(x, ptr, false, "must be a budget such as {\"keep\": 0.25}, not %s",
                   kva_sx_type(v));
        return false;
    }
    kva_sx_keys(x, v, ptr, KINDS);
    if (x->n_errors > errors)
        return false;
    json_object_foreach(v, key, e)
    {
        if (key[0] == '/' && key[1] == '/')
            continue;
        if (kind) {
            kva_sx_bad(x, ptr, false, "has both %s and %s; a budget has one", kind, key);
            return false;
        }
        kind = key;
        value = e;
    }
    if (!kind) {
        kva_sx_bad(x, ptr, false, "must have one of keep, tokens, bytes");
        return false;
    }
    kva_sx_join(at, ptr, kind);
    if (!json_is_number(value)) {
        kva_sx_bad(x, at, false, "must be a number, not %s", kva_sx_type(value));
        return false;
    }
    return budget_of(x, kind, json_number_value(value), at, b);
}

/* ---- sampling ---- */

/* Value of `key` in [min, max], at most 4 decimals, so that equal words are equal
 * numbers. */
static double share_of(struct sx *x, json_t *o, const char *ptr, const char *key,
                       double min, double max, double def)
{
    json_t *v = json_object_get(o, key);
    double d = json_number_value(v);
    char at[SX_PTR];

    if (!v)
        return def;
    kva_sx_join(at, ptr, key);
    if (!json_is_number(v))
        kva_sx_bad(x, at, false, "must be a number, not %s", kva_sx_type(v));
    else if (!(d >= min && d <= max))
        kva_sx_bad(x, at, false, "%.10g is not in %.10g..%.10g", d, min, max);
    else if (fabs(d * 10000 - round(d * 10000)) > 1e-7)
        kva_sx_bad(x, at, false, "%.10g has more than 4 decimals", d);
    else
        return round(d * 10000) / 10000;
    return def;
}

void kva_sx_sampling(struct sx *x, json_t *v, const char *ptr, struct sx_sampling *s)
{
    static const char *const keys[] = {"temperature", "top_p", "top_k", "samples", NULL};
    json_t *t = json_object_get(v, "temperature");
    char at[SX_PTR];

    memset(s, 0, sizeof *s);
    s->draws = 1;
    snprintf(s->ptr, sizeof s->ptr, "%s", ptr);
    if (json_is_object(v)) {
        kva_sx_keys(x, v, ptr, keys);
        kva_sx_join(at, ptr, "temperature");
        if (!t)
            kva_sx_bad(x, ptr, false, "temperature is missing");
        if (json_is_number(t) && json_number_value(t) == 0)
            kva_sx_bad(x, at, false, "0 is the largest logit: write \"greedy\"");
        else
            s->s.temperature = share_of(x, v, ptr, "temperature", 0.01, 100, 1);
        s->s.top_p = share_of(x, v, ptr, "top_p", 0.0001, 1, 1);
        s->s.top_k = (int)kva_sx_int(x, v, ptr, "top_k", 0, 1 << 24, 0);
        s->draws = (int)kva_sx_int(x, v, ptr, "samples", 1, 1000, 1);
    } else if (!json_is_string(v) || strcmp(json_string_value(v), "greedy") != 0) {
        kva_sx_bad(x, ptr, false,
                   "must be \"greedy\" or {\"temperature\": 0.6, \"top_p\": 0.95, "
                   "\"samples\": 4}, not %s%s%s",
                   json_is_string(v) ? "'" : kva_sx_type(v),
                   json_is_string(v) ? json_string_value(v) : "",
                   json_is_string(v) ? "'" : "");
    }
    kva_sampling_text(&s->s, s->text);
}

/* ---- patterns ---- */

bool kva_sx_glob(const char *p, const char *s)
{
    const char *star = NULL, *back = NULL;

    while (*s) {
        if (*p == '*') {
            star = ++p;
            back = s;
        } else if (*p == '?' || *p == *s) {
            p++;
            s++;
        } else if (star) {
            p = star;
            s = ++back;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return *p == '\0';
}

int kva_sx_task_ctx(const char *id, size_t *base_len)
{
    const char *at = strrchr(id, '@');
    int64_t ctx;

    *base_len = strlen(id);
    if (!at || !kva_parse_i64(at + 1, &ctx) || ctx < 1 || ctx > INT32_MAX)
        return 0;
    *base_len = (size_t)(at - id);
    return (int)ctx;
}

bool kva_sx_task_match(const char *pattern, const char *id)
{
    size_t n;
    char base[256];

    if (kva_sx_glob(pattern, id))
        return true;
    kva_sx_task_ctx(id, &n);
    if (strchr(pattern, '@') || n >= sizeof base)
        return false;
    memcpy(base, id, n);
    base[n] = '\0';
    return kva_sx_glob(pattern, base);
}
