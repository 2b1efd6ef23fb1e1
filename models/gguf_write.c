/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gguf_write.c - builds a version 3 GGUF file in memory (models.md 1.1), for tests and
 * tiny models.
 *
 * Tensors lie back to back in table order, each padded to the alignment, as ggml's reader
 * demands. Calls record the first misuse or failed allocation; kva_gguf_finish reports
 * it. */
#include "models/gguf_internal.h"

#include <stdlib.h>
#include <string.h>

struct kva_gguf_writer {
    struct kva_buf kv, table, data;
    uint64_t n_kv, n_tensors;
    uint64_t align;
    const char *misuse; /* NULL: none */
};

enum kva_status kva_gguf_writer_new(struct kva_gguf_writer **out, struct kva_error *err)
{
    struct kva_gguf_writer *w = kva_calloc(1, sizeof *w);
    *out = w;
    if (!w)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for a GGUF writer");
    kva_buf_init(&w->kv, 0);
    kva_buf_init(&w->table, 0);
    kva_buf_init(&w->data, 0);
    w->align = 32;
    return KVA_OK;
}

void kva_gguf_writer_free(struct kva_gguf_writer *w)
{
    if (!w)
        return;
    kva_buf_release(&w->kv);
    kva_buf_release(&w->table);
    kva_buf_release(&w->data);
    free(w);
}

static void put_le(struct kva_buf *b, uint64_t v, int n)
{
    uint8_t p[8];
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i));
    kva_buf_add(b, p, (size_t)n);
}

static void put_string(struct kva_buf *b, const char *s, size_t n)
{
    put_le(b, n, 8);
    kva_buf_add(b, s, n);
}

static void pad(struct kva_buf *b, uint64_t align)
{
    static const uint8_t zeros[64];
    size_t missing = (size_t)((align - b->len % align) % align);
    while (missing > 0 && !b->failed) {
        size_t n = missing < sizeof zeros ? missing : sizeof zeros;
        kva_buf_add(b, zeros, n);
        missing -= n;
    }
}

static void put_key(struct kva_gguf_writer *w, const char *key, enum gguf_value type)
{
    put_string(&w->kv, key, strlen(key));
    put_le(&w->kv, type, 4);
    w->n_kv++;
}

void kva_gguf_put_u32(struct kva_gguf_writer *w, const char *key, uint32_t v)
{
    if (strcmp(key, "general.alignment") == 0) {
        if (v == 0 || (v & (v - 1)) != 0 || w->n_tensors > 0)
            w->misuse =
                "general.alignment must be a power of two and stand before the tensors";
        else
            w->align = v;
    }
    put_key(w, key, GGUF_U32);
    put_le(&w->kv, v, 4);
}

void kva_gguf_put_i32(struct kva_gguf_writer *w, const char *key, int32_t v)
{
    put_key(w, key, GGUF_I32);
    put_le(&w->kv, (uint32_t)v, 4);
}

void kva_gguf_put_f32(struct kva_gguf_writer *w, const char *key, float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    put_key(w, key, GGUF_F32);
    put_le(&w->kv, u, 4);
}

void kva_gguf_put_bool(struct kva_gguf_writer *w, const char *key, bool v)
{
    put_key(w, key, GGUF_BOOL);
    put_le(&w->kv, v, 1);
}

void kva_gguf_put_str(struct kva_gguf_writer *w, const char *key, const char *s, size_t n)
{
    put_key(w, key, GGUF_STRING);
    put_string(&w->kv, s, n);
}

static void put_array(struct kva_gguf_writer *w, const char *key, enum gguf_value type,
                      size_t count)
{
    put_key(w, key, GGUF_ARRAY);
    put_le(&w->kv, type, 4);
    put_le(&w->kv, count, 8);
}

void kva_gguf_put_strs(struct kva_gguf_writer *w, const char *key, const char *const *s,
                       const size_t *len, size_t count)
{
    put_array(w, key, GGUF_STRING, count);
    for (size_t i = 0; i < count; i++)
        put_string(&w->kv, s[i], len ? len[i] : strlen(s[i]));
}

void kva_gguf_put_i32s(struct kva_gguf_writer *w, const char *key, const int32_t *v,
                       size_t count)
{
    put_array(w, key, GGUF_I32, count);
    for (size_t i = 0; i < count; i++)
        put_le(&w->kv, (uint32_t)v[i], 4);
}

void kva_gguf_put_tensor(struct kva_gguf_writer *w, const char *name, enum kva_type type,
                         const uint64_t *ne, int n_dims, const void *data)
{
    const struct kva_type_info *info = kva_type_get(type);
    if (!info || n_dims < 1 || n_dims > 4 || strlen(name) > 63 ||
        ne[0] % (uint64_t)info->block_elements != 0) {
        w->misuse = "a tensor has a bad type, name or shape";
        return;
    }
    put_string(&w->table, name, strlen(name));
    put_le(&w->table, (uint64_t)n_dims, 4);
    uint64_t n = 1;
    for (int i = 0; i < n_dims; i++) {
        put_le(&w->table, ne[i], 8);
        n *= ne[i];
    }
    put_le(&w->table, type, 4);
    put_le(&w->table, w->data.len, 8);
    kva_buf_add(
        &w->data, data,
        (size_t)(n / (uint64_t)info->block_elements * (uint64_t)info->block_bytes));
    pad(&w->data, w->align);
    w->n_tensors++;
}

enum kva_status kva_gguf_finish(struct kva_gguf_writer *w, struct kva_buf *out,
                                struct kva_error *err)
{
    if (w->misuse)
        return KVA_FAIL(err, KVA_EINVALID, "GGUF writer: %s", w->misuse);
    KVA_TRY(kva_buf_status(&w->kv, err));
    KVA_TRY(kva_buf_status(&w->table, err));
    KVA_TRY(kva_buf_status(&w->data, err));
    kva_buf_add(out, "GGUF", 4);
    put_le(out, 3, 4);
    put_le(out, w->n_tensors, 8);
    put_le(out, w->n_kv, 8);
    kva_buf_add(out, w->kv.data, w->kv.len);
    if (w->n_tensors > 0) {
        kva_buf_add(out, w->table.data, w->table.len);
        pad(out, w->align);
        kva_buf_add(out, w->data.data, w->data.len);
    }
    return kva_buf_status(out, err);
}
