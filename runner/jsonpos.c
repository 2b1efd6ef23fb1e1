/* SPDX-License-Identifier: GPL-3.0-or-later */
/* jsonpos.c - scanner that notes line and column of every value of a JSON text.
 *
 * Jansson reports positions of syntax errors only; its values carry none. This walks the
 * same text once, after Jansson has accepted it, and therefore checks no syntax. */
#include "runner/jsonpos.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    const char *s, *end;
    int line, col;
    struct kva_buf ptr; /* pointer of the value at hand */
    struct kva_jsonpos *out;
    struct kva_error *err;
};

static void step(struct scan *sc)
{
    unsigned char c = (unsigned char)*sc->s++;

    if (c == '\n') {
        sc->line++;
        sc->col = 1;
    } else if ((c & 0xc0) != 0x80) {
        sc->col++;
    }
}

static void blanks(struct scan *sc)
{
    while (sc->s < sc->end && strchr(" \t\r\n", *sc->s) && *sc->s)
        step(sc);
}

static void skip_string(struct scan *sc)
{
    step(sc);
    while (sc->s < sc->end && *sc->s != '"') {
        if (*sc->s == '\\' && sc->s + 1 < sc->end)
            step(sc);
        step(sc);
    }
    if (sc->s < sc->end)
        step(sc);
}

/* "/" and the key, unescaped as JSON and escaped as a pointer. */
static enum kva_status push_key(struct scan *sc, const char *quoted, size_t n)
{
    json_t *key = json_loadb(quoted, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const char *s = key ? json_string_value(key) : NULL;

    if (!s) {
        json_decref(key);
        return KVA_FAIL(sc->err, KVA_ENOMEM, "out of memory");
    }
    kva_buf_putc(&sc->ptr, '/');
    for (; *s; s++) {
        if (*s == '~')
            kva_buf_puts(&sc->ptr, "~0");
        else if (*s == '/')
            kva_buf_puts(&sc->ptr, "~1");
        else
            kva_buf_putc(&sc->ptr, *s);
    }
    json_decref(key);
    return kva_buf_status(&sc->ptr, sc->err);
}

static void pop(struct scan *sc, size_t len)
{
    sc->ptr.len = len;
    if (sc->ptr.data)
        sc->ptr.data[len] = '\0';
}

static enum kva_status note_dup(struct scan *sc, int line, int col, int first_line)
{
    struct kva_jsonpos *p = sc->out;
    struct kva_jsonpos_dup *grown;

    /* everything inside the second value is there twice as well: said once */
    if (p->n_dups) {
        const char *last = p->dups[p->n_dups - 1].pointer;
        size_t n = strlen(last);

        if (strncmp(sc->ptr.data, last, n) == 0 && sc->ptr.data[n] == '/')
            return KVA_OK;
    }
    grown = kva_realloc(p->dups, p->n_dups + 1, sizeof grown[0]);
    if (!grown)
        return KVA_FAIL(sc->err, KVA_ENOMEM, "out of memory");
    p->dups = grown;
    grown[p->n_dups].pointer = strdup(sc->ptr.data ? sc->ptr.data : "");
    if (!grown[p->n_dups].pointer)
        return KVA_FAIL(sc->err, KVA_ENOMEM, "out of memory");
    grown[p->n_dups].line = line;
    grown[p->n_dups].col = col;
    grown[p->n_dups++].first_line = first_line;
    return KVA_OK;
}

static enum kva_status note(struct scan *sc, int key_line, int key_col)
{
    struct kva_jsonpos *p = sc->out;
    int64_t old;

    if (kva_map_get(&p->map, sc->ptr.data ? sc->ptr.data : "", sc->ptr.len, &old))
        return note_dup(sc, key_line, key_col, p->at[old].key_line);
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        struct kva_jsonpos_at *grown = kva_realloc(p->at, cap, sizeof grown[0]);

        if (!grown)
            return KVA_FAIL(sc->err, KVA_ENOMEM, "out of memory");
        p->at = grown;
        p->cap = cap;
    }
    p->at[p->n] = (struct kva_jsonpos_at){sc->line, sc->col, key_line, key_col};
    return kva_map_put(&p->map, sc->ptr.data ? sc->ptr.data : "", sc->ptr.len,
                       (int64_t)p->n++, NULL, sc->err);
}

static enum kva_status value(struct scan *sc, int key_line, int key_col);

static enum kva_status container(struct scan *sc, bool object)
{
    char close = object ? '}' : ']';
    size_t len = sc->ptr.len;
    int i = 0;

    step(sc);
    blanks(sc);
    while (sc->s < sc->end && *sc->s != close) {
        int line = 0, col = 0;

        if (object) {
            const char *from = sc->s;

            line = sc->line;
            col = sc->col;
            skip_string(sc);
            KVA_TRY(push_key(sc, from, (size_t)(sc->s - from)));
            blanks(sc);
            if (sc->s < sc->end)
                step(sc); /* the colon */
        } else {
            kva_buf_printf(&sc->ptr, "/%d", i++);
        }
        KVA_TRY(value(sc, line, col));
        pop(sc, len);
        blanks(sc);
        if (sc->s < sc->end && *sc->s == ',')
            step(sc);
        blanks(sc);
    }
    if (sc->s < sc->end)
        step(sc);
    return KVA_OK;
}

static enum kva_status value(struct scan *sc, int key_line, int key_col)
{
    blanks(sc);
    KVA_TRY(note(sc, key_line, key_col));
    if (sc->s >= sc->end)
        return KVA_OK;
    if (*sc->s == '{' || *sc->s == '[')
        return container(sc, *sc->s == '{');
    if (*sc->s == '"') {
        skip_string(sc);
        return KVA_OK;
    }
    while (sc->s < sc->end && *sc->s && !strchr(" \t\r\n,]}", *sc->s))
        step(sc);
    return KVA_OK;
}

enum kva_status kva_jsonpos_scan(const char *text, size_t n, struct kva_jsonpos *p,
                                 struct kva_error *err)
{
    struct scan sc = {
        .s = text, .end = text + n, .line = 1, .col = 1, .out = p, .err = err};
    enum kva_status rc;

    memset(p, 0, sizeof *p);
    kva_map_init(&p->map);
    kva_buf_init(&sc.ptr, 1 << 20);
    rc = value(&sc, 0, 0);
    if (rc == KVA_OK)
        rc = kva_buf_status(&sc.ptr, err);
    kva_buf_release(&sc.ptr);
    return rc;
}

struct kva_jsonpos_at kva_jsonpos_find(const struct kva_jsonpos *p, const char *pointer)
{
    size_t n = strlen(pointer);
    int64_t i;

    for (;;) {
        if (kva_map_get(&p->map, pointer, n, &i))
            return p->at[i];
        if (n == 0)
            return (struct kva_jsonpos_at){1, 1, 0, 0};
        while (n > 0 && pointer[--n] != '/')
            ;
    }
}

void kva_jsonpos_release(struct kva_jsonpos *p)
{
    kva_map_release(&p->map);
    free(p->at);
    for (size_t i = 0; i < p->n_dups; i++)
        free(p->dups[i].pointer);
    free(p->dups);
    memset(p, 0, sizeof *p);
}

void kva_jsonpos_line(struct kva_buf *report, size_t start)
{
    for (size_t i = start; i < report->len; i++)
        if ((unsigned char)report->data[i] < 0x20)
            report->data[i] = ' ';
    kva_buf_putc(report, '\n');
}
