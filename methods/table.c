/* SPDX-License-Identifier: GPL-3.0-or-later */
/* table.c - files of numbers that methods read: filters, gates, profiles, budgets.
 *
 * One JSON object, one row a KV head (layer-major). A file names the model it was made
 * for by the SHA-256 of its bytes; "any" fits every model of the same shape. */
#include "methods/spec.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((size_t)256 << 20)

void kva_table_release(struct kva_table *t)
{
    free(t->data);
    *t = (struct kva_table){0};
}

static enum kva_status get_count(const char *path, json_t *o, const char *key, int max,
                                 int *out, struct kva_error *err)
{
    json_t *x = json_object_get(o, key);

    if (!json_is_integer(x) || json_integer_value(x) < 1 || json_integer_value(x) > max)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: \"%s\" is not a whole number from 1 to %d",
                        path, key, max);
    *out = (int)json_integer_value(x);
    return KVA_OK;
}

static enum kva_status get_data(const char *path, json_t *o, struct kva_table *t,
                                struct kva_error *err)
{
    json_t *rows = json_object_get(o, "data"), *row, *x;
    size_t i, j, n = (size_t)t->layers * (size_t)t->kv_heads;

    if (!json_is_array(rows) || json_array_size(rows) != n)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: \"data\" is not a list of %zu rows", path,
                        n);
    t->data = kva_calloc(n * (size_t)t->columns, sizeof *t->data);
    if (t->data == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", path);
    json_array_foreach(rows, i, row)
    {
        if (!json_is_array(row) || json_array_size(row) != (size_t)t->columns)
            return KVA_FAIL(err, KVA_EFORMAT, "%s: data[%zu] is not a list of %d numbers",
                            path, i, t->columns);
        json_array_foreach(row, j, x)
        {
            if (!json_is_number(x))
                return KVA_FAIL(err, KVA_EFORMAT, "%s: data[%zu][%zu] is no number", path,
                                i, j);
            t->data[i * (size_t)t->columns + j] = json_number_value(x);
        }
    }
    return KVA_OK;
}

enum kva_status kva_table_read(const char *path, struct kva_table *t,
                               char model_sha256[65], struct kva_error *err)
{
    struct kva_buf bytes;
    uint8_t digest[32];
    json_error_t why;
    json_t *o = NULL;
    const char *kind, *model, *schema;
    enum kva_status rc;

    *t = (struct kva_table){0};
    kva_buf_init(&bytes, MAX_BYTES);
    KVA_GO(kva_read_file(path, MAX_BYTES, &bytes, err));
    kva_sha256_of(bytes.data, bytes.len, digest);
    kva_hex(digest, sizeof digest, t->sha256);
    o = json_loadb(bytes.data != NULL ? bytes.data : "", bytes.len,
                   JSON_REJECT_DUPLICATES, &why);
    if (o == NULL) {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s:%d:%d: %s", path, why.line, why.column,
                      why.text);
        goto out;
    }
    schema = json_string_value(json_object_get(o, "schema"));
    kind = json_string_value(json_object_get(o, "kind"));
    model = json_string_value(json_object_get(o, "model"));
    if (schema == NULL || strcmp(schema, "kvaudit.table/1") != 0 || kind == NULL ||
        strlen(kind) >= sizeof t->kind || model == NULL || strlen(model) > 64) {
        rc = KVA_FAIL(err, KVA_EFORMAT,
                      "%s: no table of numbers (schema kvaudit.table/1, kind, model)",
                      path);
        goto out;
    }
    memcpy(t->kind, kind, strlen(kind) + 1);
    memcpy(model_sha256, model, strlen(model) + 1);
    KVA_GO(get_count(path, o, "layers", 4096, &t->layers, err));
    KVA_GO(get_count(path, o, "kv_heads", 4096, &t->kv_heads, err));
    KVA_GO(get_count(path, o, "columns", 1 << 20, &t->columns, err));
    rc = get_data(path, o, t, err);
out:
    json_decref(o);
    kva_buf_release(&bytes);
    if (rc != KVA_OK)
        kva_table_release(t);
    return rc;
}

static void put_text(struct kva_buf *b, const char *key, const char *text)
{
    json_t *x = json_string(text);
    char *dump = x != NULL ? json_dumps(x, JSON_ENCODE_ANY) : NULL;

    if (dump == NULL)
        b->failed = true;
    else
        kva_buf_printf(b, "\"%s\":%s,\n", key, dump);
    free(dump);
    json_decref(x);
}

enum kva_status kva_table_write(const char *path, const struct kva_table *t,
                                const char *model_sha256, const char *made,
                                struct kva_error *err)
{
    size_t rows = (size_t)t->layers * (size_t)t->kv_heads;
    struct kva_buf b;
    enum kva_status rc;

    kva_buf_init(&b, MAX_BYTES);
    kva_buf_puts(&b, "{\"schema\":\"kvaudit.table/1\",\n");
    put_text(&b, "kind", t->kind);
    put_text(&b, "model", model_sha256);
    put_text(&b, "made", made);
    kva_buf_printf(&b, "\"layers\":%d,\"kv_heads\":%d,\"columns\":%d,\n\"data\":[\n",
                   t->layers, t->kv_heads, t->columns);
    for (size_t i = 0; i < rows; i++) {
        kva_buf_putc(&b, '[');
        for (int j = 0; j < t->columns; j++)
            kva_buf_printf(&b, "%s%.9g", j ? "," : "",
                           t->data[i * (size_t)t->columns + (size_t)j]);
        kva_buf_printf(&b, "]%s\n", i + 1 < rows ? "," : "");
    }
    kva_buf_puts(&b, "]}\n");
    KVA_GO(kva_buf_status(&b, err));
    rc = kva_write_file(path, b.data, b.len, err);
out:
    kva_buf_release(&b);
    return rc;
}

/* The kind of file the method's parts ask for; NULL: none. */
static const char *wanted_kind(const struct kva_method *m)
{
    if (m->allocator != NULL && m->allocator->table_kind != NULL)
        return m->allocator->table_kind;
    return m->scorer != NULL ? m->scorer->table_kind : NULL;
}

static enum kva_status check(const struct kva_method *m, const struct kva_table *t,
                             const char *kind, const char *made_for,
                             const uint8_t model_sha256[32], int layers, int kv_heads,
                             struct kva_error *err)
{
    char model[65];

    kva_hex(model_sha256, 32, model);
    if (strcmp(t->kind, kind) != 0)
        return KVA_FAIL(err, KVA_EINVALID, "%s: holds \"%s\", wanted is \"%s\"", m->file,
                        t->kind, kind);
    if (t->layers != layers || t->kv_heads != kv_heads)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s: made for %d layers of %d KV heads, the model has %d of %d",
                        m->file, t->layers, t->kv_heads, layers, kv_heads);
    if (strcmp(made_for, "any") != 0 && strcmp(made_for, model) != 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s: made for the model file %.12s, this one is %.12s", m->file,
                        made_for, model);
    return KVA_OK;
}

enum kva_status kva_method_bind(struct kva_method *m, const char *base_dir,
                                const uint8_t model_sha256[32], int layers, int kv_heads,
                                struct kva_error *err)
{
    const char *kind = wanted_kind(m);
    struct kva_table *t = NULL;
    char made_for[65];
    struct kva_buf path;
    enum kva_status rc = KVA_OK;

    if (kind == NULL || m->table != NULL)
        return KVA_OK;
    if (m->file[0] == '\0' && m->allocator != NULL && m->allocator->table_optional)
        return KVA_OK;
    kva_buf_init(&path, 0);
    if (m->file[0] == '\0') {
        rc = KVA_FAIL(err, KVA_EINVALID, "%s needs a file of the kind \"%s\"", m->spec,
                      kind);
        goto out;
    }
    if (base_dir != NULL && m->file[0] != '/')
        kva_buf_printf(&path, "%s/", base_dir);
    kva_buf_puts(&path, m->file);
    KVA_GO(kva_buf_status(&path, err));
    t = kva_calloc(1, sizeof *t);
    if (t == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", m->file);
        goto out;
    }
    KVA_GO(kva_table_read(path.data, t, made_for, err));
    KVA_GO(check(m, t, kind, made_for, model_sha256, layers, kv_heads, err));
    snprintf(made_for, sizeof made_for, "%.12s", t->sha256);
    KVA_GO(kva_method_specs(m, made_for, err));
    m->table = t;
    t = NULL;
out:
    kva_buf_release(&path);
    if (t != NULL)
        kva_table_release(t);
    free(t);
    return rc;
}

void kva_method_release(struct kva_method *m)
{
    if (m->table == NULL)
        return;
    kva_table_release(m->table);
    free(m->table);
    m->table = NULL;
}
