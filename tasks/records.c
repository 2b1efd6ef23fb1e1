/* SPDX-License-Identifier: GPL-3.0-or-later */
/* records.c - the index of a data file, and its records' fields. */
#include "tasks/records.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 16, TEXTS_MAX = 100000 };

/* ---- the index ---- */

/* Fed block by block. START: blanks before the first record. */
struct scan {
    struct kva_records *r;
    enum { START, LINES, LIST, BEHIND } mode;
    uint64_t at; /* bytes fed */
    int line;
    bool open; /* inside a record */
    struct kva_record_place now;
    /* LIST */
    int depth;
    bool text, escaped, comma; /* in a string; behind a backslash; a record must follow */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static enum kva_status bad_file(const struct scan *s, struct kva_error *err,
                                const char *why)
{
    return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: %s", s->r->path.data, s->line, why);
}

static void open_record(struct scan *s, uint64_t at)
{
    s->open = true;
    s->now =
        (struct kva_record_place){.begin = at, .fnv = KVA_FNV_OFFSET, .line = s->line};
}

static void add_bytes(struct scan *s, const char *bytes, size_t n)
{
    s->now.fnv = kva_fnv1a64_more(s->now.fnv, bytes, n);
    s->now.n += n;
}

static enum kva_status close_record(struct scan *s, struct kva_error *err)
{
    struct kva_records *r = s->r;

    if (r->n == INT32_MAX)
        return bad_file(s, err, "too many records");
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct kva_record_place *grown = kva_realloc(r->place, cap, sizeof *grown);

        if (!grown)
            return KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", r->path.data);
        r->place = grown;
        r->cap = cap;
    }
    r->place[r->n++] = s->now;
    s->open = false;
    return KVA_OK;
}

static enum kva_status feed_lines(struct scan *s, const char *b, size_t n,
                                  struct kva_error *err)
{
    for (size_t i = 0, e; i < n; i = e) {
        const char *stop = memchr(b + i, '\n', n - i);

        e = stop ? (size_t)(stop - b) : n;
        while (!s->open && i < e && is_blank(b[i]))
            i++;
        if (i < e && !s->open)
            open_record(s, s->at + i);
        if (i < e)
            add_bytes(s, b + i, e - i);
        if (!stop)
            break;
        if (s->open)
            KVA_TRY(close_record(s, err));
        s->line++;
        e++;
    }
    return KVA_OK;
}

/* One byte inside the list. */
static enum kva_status feed_element(struct scan *s, char c, uint64_t at,
                                    struct kva_error *err)
{
    bool ends = !s->text && s->depth == 1 && (c == ',' || c == ']');

    if (ends) {
        if (!s->open && (c == ',' || s->comma))
            return bad_file(s, err, "a record is missing in the list");
        if (s->open)
            KVA_TRY(close_record(s, err));
        s->comma = c == ',';
        if (c == ']')
            s->mode = BEHIND;
        return KVA_OK;
    }
    if (!s->open && !is_blank(c))
        open_record(s, at);
    if (s->open)
        add_bytes(s, &c, 1);
    if (s->text) {
        s->text = c != '"' || s->escaped;
        s->escaped = c == '\\' && !s->escaped;
    } else if (c == '"') {
        s->text = true;
    } else if (c == '{' || c == '[') {
        s->depth++;
    } else if (c == '}' || c == ']') {
        if (s->depth-- == 1)
            return bad_file(s, err, "a bracket closes what was not opened");
    }
    return KVA_OK;
}

static enum kva_status feed(struct scan *s, const char *b, size_t n,
                            struct kva_error *err)
{
    size_t i = 0;

    if (s->at == 0 && n >= 3 && memcmp(b, "\xef\xbb\xbf", 3) == 0)
        i = 3;
    for (; s->mode != LINES && i < n; i++) {
        if (s->mode == LIST)
            KVA_TRY(feed_element(s, b[i], s->at + i, err));
        else if (!is_blank(b[i]) && s->mode == BEHIND)
            return bad_file(s, err, "something follows the list of records");
        else if (!is_blank(b[i]) && b[i] != '[') {
            s->mode = LINES;
            break;
        } else if (b[i] == '[') {
            s->mode = LIST;
            s->depth = 1;
        }
        s->line += b[i] == '\n' && s->line < INT32_MAX;
    }
    if (s->mode == LINES) {
        s->at += i;
        KVA_TRY(feed_lines(s, b + i, n - i, err));
        s->at -= i;
    }
    s->at += n;
    return KVA_OK;
}

/* As many bytes as there are, up to n. */
static enum kva_status read_at(const struct kva_records *r, uint64_t at, char *out,
                               size_t n, size_t *got, struct kva_error *err)
{
    *got = 0;
    while (*got < n) {
        ssize_t k = pread(r->fd, out + *got, n - *got, (off_t)(at + *got));

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return KVA_FAIL(err, KVA_EIO, "%s: %s", r->path.data, strerror(errno));
        if (k == 0)
            break;
        *got += (size_t)k;
    }
    return KVA_OK;
}

static enum kva_status scan_file(struct kva_records *r, char *block,
                                 struct kva_error *err)
{
    struct scan s = {.r = r, .line = 1};
    struct kva_sha256 sha;
    uint8_t digest[32];
    size_t n;

    kva_sha256_init(&sha);
    do {
        KVA_TRY(read_at(r, s.at, block, BLOCK, &n, err));
        kva_sha256_add(&sha, block, n);
        KVA_TRY(feed(&s, block, n, err));
    } while (n == BLOCK);
    kva_sha256_end(&sha, digest);
    kva_hex(digest, sizeof digest, r->sha256);
    if (s.mode == LIST)
        return bad_file(&s, err, "the list of records does not end");
    if (s.open)
        KVA_TRY(close_record(&s, err));
    if (r->n == 0)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: no records", r->path.data);
    return KVA_OK;
}

enum kva_status kva_records_open(struct kva_records *r, const struct kva_task_opts *opts,
                                 const char *set, const char *file, struct kva_error *err)
{
    enum kva_status rc;
    char *block;

    *r = (struct kva_records){.fd = -1};
    kva_buf_init(&r->path, 0);
    KVA_TRY(kva_data_find(opts, set, file, &r->path, err));
    r->fd = open(r->path.data, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return KVA_FAIL(err, KVA_EIO, "%s: %s", r->path.data, strerror(errno));
    block = kva_calloc(BLOCK, 1);
    if (!block)
        return KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", r->path.data);
    rc = scan_file(r, block, err);
    free(block);
    return rc;
}

void kva_records_release(struct kva_records *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    kva_buf_release(&r->path);
    free(r->place);
    r->place = NULL;
}

int kva_records_describe(const struct kva_records *r, const char *file, void *source)
{
    int bad = 0;

    bad |= json_object_set_new(source, "file", json_string(file));
    bad |= json_object_set_new(source, "path", json_string(r->path.data));
    bad |= json_object_set_new(source, "records", json_integer((json_int_t)r->n));
    bad |= json_object_set_new(source, "sha256", json_string(r->sha256));
    return bad;
}

/* ---- a record ---- */

enum kva_status kva_record_fail(const struct kva_record *rec, struct kva_error *err,
                                const char *format, ...)
{
    char reason[200];
    va_list ap;

    va_start(ap, format);
    vsnprintf(reason, sizeof reason, format, ap);
    va_end(ap);
    return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: %s", rec->of->path.data, rec->line, reason);
}

static enum kva_status no_memory(const struct kva_record *rec, struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "%s:%d: out of memory", rec->of->path.data,
                    rec->line);
}

enum kva_status kva_record_read(const struct kva_records *r, size_t index,
                                struct kva_record *rec, struct kva_error *err)
{
    const struct kva_record_place *place = &r->place[index];
    size_t n = (size_t)place->n, got;
    json_error_t why;
    enum kva_status rc;
    char *text;

    *rec = (struct kva_record){.of = r, .line = place->line};
    text = kva_calloc(n, 1);
    if (!text)
        return no_memory(rec, err);
    KVA_GO(read_at(r, place->begin, text, n, &got, err));
    if (got != n || kva_fnv1a64(text, n) != place->fnv) {
        rc = kva_record_fail(rec, err, "the file changed since it was opened");
        goto out;
    }
    rec->json = json_loadb(
        text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    /* Jansson leaves no message when its allocations fail */
    if (!rec->json &&
        (!why.text[0] || json_error_code(&why) == json_error_out_of_memory)) {
        rc = no_memory(rec, err);
    } else if (!rec->json) {
        rec->line += why.line > 1 ? why.line - 1 : 0;
        rc = kva_record_fail(rec, err, "%s (byte %d)", why.text, why.position);
    } else if (!json_is_object((json_t *)rec->json)) {
        rc = kva_record_fail(rec, err, "not a JSON object");
    }
out:
    free(text);
    return rc;
}

void kva_record_release(struct kva_record *rec)
{
    json_decref(rec->json);
    rec->json = NULL;
}

/* ---- fields ---- */

static enum kva_status find(const struct kva_record *rec, const char *key, bool needed,
                            json_t **out, struct kva_error *err)
{
    *out = json_object_get(rec->json, key);
    if (json_is_null(*out))
        *out = NULL;
    return *out || !needed ? KVA_OK : kva_record_fail(rec, err, "no \"%s\"", key);
}

static bool holds_nul(const json_t *text)
{
    return strlen(json_string_value(text)) != json_string_length(text);
}

enum kva_status kva_record_text(const struct kva_record *rec, const char *key,
                                bool needed, struct kva_arena *arena, const char **out,
                                size_t *n, struct kva_error *err)
{
    json_t *x;

    *out = NULL;
    if (n)
        *n = 0;
    KVA_TRY(find(rec, key, needed, &x, err));
    if (!x)
        return KVA_OK;
    if (!json_is_string(x))
        return kva_record_fail(rec, err, "\"%s\" is not a text", key);
    if (!n && holds_nul(x))
        return kva_record_fail(rec, err, "\"%s\" holds a NUL", key);
    if (n)
        *n = json_string_length(x);
    *out = kva_arena_strndup(arena, json_string_value(x), json_string_length(x));
    return *out ? KVA_OK : no_memory(rec, err);
}

enum kva_status kva_record_texts(const struct kva_record *rec, const char *key,
                                 bool needed, struct kva_arena *arena,
                                 const char *const **out, int *n, struct kva_error *err)
{
    json_t *list, *x;
    const char **texts;
    size_t i;

    *out = NULL;
    *n = 0;
    KVA_TRY(find(rec, key, needed, &list, err));
    if (!list)
        return KVA_OK;
    if (!json_is_array(list) || json_array_size(list) > TEXTS_MAX)
        return kva_record_fail(rec, err, "\"%s\" is not a list of at most %d texts", key,
                               TEXTS_MAX);
    texts = kva_arena_alloc(arena, json_array_size(list) + 1, sizeof *texts);
    if (!texts)
        return no_memory(rec, err);
    json_array_foreach(list, i, x)
    {
        if (!json_is_string(x) || holds_nul(x))
            return kva_record_fail(rec, err, "%s[%zu] is not a text without NULs", key,
                                   i);
        texts[i] = kva_arena_strdup(arena, json_string_value(x));
        if (!texts[i])
            return no_memory(rec, err);
    }
    *out = texts;
    *n = (int)json_array_size(list);
    return KVA_OK;
}

enum kva_status kva_record_whole(const struct kva_record *rec, const char *key,
                                 int64_t *out, struct kva_error *err)
{
    json_t *x;

    KVA_TRY(find(rec, key, true, &x, err));
    if (!json_is_integer(x))
        return kva_record_fail(rec, err, "\"%s\" is not a whole number", key);
    *out = json_integer_value(x);
    return KVA_OK;
}

enum kva_status kva_record_labels(const struct kva_record *rec, const char *const *keys,
                                  const char *bucket, struct kva_arena *arena,
                                  const char **out, struct kva_error *err)
{
    json_t *labels = json_object(), *x;
    enum kva_status rc = KVA_OK;
    struct kva_buf text;
    int bad = 0;

    kva_buf_init(&text, 0);
    for (; *keys; keys++) {
        KVA_GO(find(rec, *keys, false, &x, err));
        if (x && !json_is_string(x) && !json_is_integer(x)) {
            rc = kva_record_fail(rec, err, "\"%s\" is not a text or a whole number",
                                 *keys);
            goto out;
        }
        if (x)
            bad |= json_object_set(labels, *keys, x);
    }
    if (bucket)
        bad |= json_object_set_new(labels, "bucket", json_string(bucket));
    if (!bad && labels)
        kva_task_dump(labels, JSON_COMPACT | JSON_PRESERVE_ORDER, &text);
    *out = text.data && !text.failed ? kva_arena_strdup(arena, text.data) : NULL;
    if (bad || !*out)
        rc = no_memory(rec, err);
out:
    kva_buf_release(&text);
    json_decref(labels);
    return rc;
}
