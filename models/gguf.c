/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gguf.c - reads a GGUF model file as if it had been written by an enemy (models.md 1).
 *
 *     header | key-value pairs | tensor table | padding | tensor data
 *
 * The file is mapped and stays untouched; every count and length is compared with the
 * bytes that remain before anything is allocated or skipped, so memory stays a small
 * multiple of the file. Tables grow with the records really present, never with the
 * counts the header announces. Differences from ggml's reader: tensors may lie anywhere
 * (not only back to back) as long as they do not overlap, and the padding behind the last
 * one may be missing. */
#include "models/gguf_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 24,
    KV_MIN_BYTES = 13,     /* empty key, type, one byte of value */
    TENSOR_MIN_BYTES = 24, /* empty name, no dimensions, type, offset */
    KEY_MAX_BYTES = 65535,
    NAME_MAX_BYTES = 63, /* ggml keeps names in 64 bytes, NUL included */
    ALIGN_DEFAULT = 32,
    ALIGN_MAX = 1 << 20,
    SHOWN = 72, /* bytes of a hostile name that a message repeats */
};
#define STRING_MAX_BYTES (1ull << 30)
#define ARRAY_MAX        (1ull << 30)

struct record {
    const uint8_t *key;
    size_t key_len;
    uint32_t type;      /* of the value; GGUF_ARRAY: see below */
    uint32_t elem_type; /* of an array */
    uint64_t count;     /* of an array; 1 otherwise */
    const uint8_t *value;
    uint64_t *string_at; /* string arrays: offset of each length field in the file */
};

struct kva_gguf {
    const uint8_t *bytes;
    size_t n_bytes;
    void *mapping; /* NULL when the bytes are the caller's */
    uint64_t align, data_start;
    struct record *records;
    size_t n_records, cap_records;
    struct kva_map record_of; /* key -> index */
    struct kva_gguf_tensor *tensors;
    size_t n_tensors, cap_tensors;
    struct kva_map tensor_of; /* name -> index */
    struct kva_arena names;
};

struct cursor {
    const uint8_t *bytes;
    uint64_t at, end;
    const char *file; /* for messages */
};

/* Element sizes by value type; 0: variable. */
static const uint8_t value_bytes[GGUF_VALUES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
    [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
    [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

static uint64_t load_le(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static uint64_t remaining(const struct cursor *c)
{
    return c->end - c->at;
}

static bool take_u32(struct cursor *c, uint32_t *v)
{
    if (remaining(c) < 4)
        return false;
    *v = (uint32_t)load_le(c->bytes + c->at, 4);
    c->at += 4;
    return true;
}

static bool take_u64(struct cursor *c, uint64_t *v)
{
    if (remaining(c) < 8)
        return false;
    *v = load_le(c->bytes + c->at, 8);
    c->at += 8;
    return true;
}

/* A length-prefixed string that lies wholly in the file. */
static bool take_string(struct cursor *c, const uint8_t **s, uint64_t *n)
{
    if (!take_u64(c, n) || *n > remaining(c) || *n > STRING_MAX_BYTES)
        return false;
    *s = c->bytes + c->at;
    c->at += *n;
    return true;
}

/* Names from the file go into messages with everything unprintable blanked. */
static const char *shown(const uint8_t *s, uint64_t n, char out[SHOWN + 4])
{
    size_t k = n < SHOWN ? (size_t)n : SHOWN;
    for (size_t i = 0; i < k; i++)
        out[i] = s[i] >= 32 && s[i] < 127 ? (char)s[i] : '?';
    memcpy(out + k, n > SHOWN ? "..." : "", n > SHOWN ? 4 : 1);
    return out;
}

static enum kva_status grow(void **items, size_t *cap, size_t need, size_t size,
                            struct kva_error *err)
{
    if (need <= *cap)
        return KVA_OK;
    size_t cap_new = *cap ? *cap * 2 : 16;
    void *p = kva_realloc(*items, cap_new, size);
    if (!p)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for %zu file records", cap_new);
    *items = p;
    *cap = cap_new;
    return KVA_OK;
}

/* ---- metadata ---- */

/* Why a value cannot be read, or NULL. Leaves the cursor behind the value. */
static const char *skip_scalar(struct cursor *c, uint32_t type)
{
    if (type == GGUF_STRING) {
        const uint8_t *s;
        uint64_t n;
        return take_string(c, &s, &n) ? NULL : "the string runs past the end of the file";
    }
    if (remaining(c) < value_bytes[type])
        return "the value runs past the end of the file";
    if (type == GGUF_BOOL && c->bytes[c->at] > 1)
        return "a bool is neither 0 nor 1";
    c->at += value_bytes[type];
    return NULL;
}

static const char *skip_array(struct cursor *c, struct record *r, bool *no_memory)
{
    if (!take_u32(c, &r->elem_type) || !take_u64(c, &r->count))
        return "the array header runs past the end of the file";
    if (r->elem_type == GGUF_ARRAY)
        return "arrays of arrays are not allowed";
    if (r->elem_type >= GGUF_VALUES)
        return "the array has an unknown element type";
    uint64_t least = r->elem_type == GGUF_STRING ? 8 : value_bytes[r->elem_type];
    if (r->count > remaining(c) / least)
        return "the array is longer than the file";
    if (r->count > ARRAY_MAX)
        return "the array has more than 2^30 elements";
    r->value = c->bytes + c->at;
    if (r->elem_type == GGUF_STRING) {
        /* at most one offset per eight bytes of file */
        r->string_at = kva_calloc((size_t)r->count + 1, sizeof *r->string_at);
        if (!r->string_at) {
            *no_memory = true;
            return "no memory for the string offsets";
        }
        for (uint64_t i = 0; i < r->count; i++) {
            const uint8_t *s;
            uint64_t n;
            r->string_at[i] = c->at;
            if (!take_string(c, &s, &n))
                return "a string of the array runs past the end of the file";
        }
        return NULL;
    }
    uint64_t bytes = r->count * least;
    if (r->elem_type == GGUF_BOOL)
        for (uint64_t i = 0; i < bytes; i++)
            if (r->value[i] > 1)
                return "a bool of the array is neither 0 nor 1";
    c->at += bytes;
    return NULL;
}

static enum kva_status read_record(struct kva_gguf *g, struct cursor *c, uint64_t i,
                                   struct kva_error *err)
{
    KVA_TRY(grow((void **)&g->records, &g->cap_records, g->n_records + 1,
                 sizeof *g->records, err));
    struct record *r = &g->records[g->n_records];
    memset(r, 0, sizeof *r);
    char text[SHOWN + 4];
    uint64_t n;
    if (!take_string(c, &r->key, &n))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: key %llu: the name runs past the end of the file", c->file,
                        (unsigned long long)i);
    if (n == 0)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: key %llu: the name is empty", c->file,
                        (unsigned long long)i);
    if (n > KEY_MAX_BYTES)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: key %llu: the name has %llu bytes, %d are allowed", c->file,
                        (unsigned long long)i, (unsigned long long)n, KEY_MAX_BYTES);
    r->key_len = (size_t)n;
    bool was_new = false;
    KVA_TRY(kva_map_put(&g->record_of, r->key, r->key_len, (int64_t)g->n_records,
                        &was_new, err));
    if (!was_new)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: key %llu '%s': the name occurs twice",
                        c->file, (unsigned long long)i, shown(r->key, n, text));
    if (!take_u32(c, &r->type))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: key %llu '%s': the type runs past the end of the file",
                        c->file, (unsigned long long)i, shown(r->key, n, text));
    if (r->type >= GGUF_VALUES)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: key %llu '%s': unknown value type %u",
                        c->file, (unsigned long long)i, shown(r->key, n, text), r->type);
    g->n_records++; /* from here on close() releases what the record owns */
    r->count = 1;
    r->value = c->bytes + c->at;
    bool no_memory = false;
    const char *why =
        r->type == GGUF_ARRAY ? skip_array(c, r, &no_memory) : skip_scalar(c, r->type);
    if (why)
        return KVA_FAIL(err, no_memory ? KVA_ENOMEM : KVA_EFORMAT,
                        "%s: key %llu '%s': %s", c->file, (unsigned long long)i,
                        shown(r->key, n, text), why);
    return KVA_OK;
}

static const struct record *record_get(const struct kva_gguf *g, const char *key)
{
    int64_t i;
    if (!kva_map_get(&g->record_of, key, strlen(key), &i))
        return NULL;
    return &g->records[i];
}

static enum kva_status read_alignment(struct kva_gguf *g, const char *file,
                                      struct kva_error *err)
{
    const struct record *r = record_get(g, "general.alignment");
    g->align = ALIGN_DEFAULT;
    if (!r)
        return KVA_OK;
    if (r->type != GGUF_U32)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: key 'general.alignment': the type must be u32", file);
    uint64_t a = load_le(r->value, 4);
    if (a == 0 || (a & (a - 1)) != 0)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: key 'general.alignment': %llu is not a power of two", file,
                        (unsigned long long)a);
    if (a > ALIGN_MAX)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: key 'general.alignment': %llu is larger than %d", file,
                        (unsigned long long)a, ALIGN_MAX);
    g->align = a;
    return KVA_OK;
}

/* ---- tensors ---- */

static enum kva_status read_tensor_shape(struct cursor *c, uint64_t i,
                                         struct kva_gguf_tensor *t, struct kva_error *err)
{
    unsigned long long row = i;
    uint32_t n_dims;
    if (!take_u32(c, &n_dims))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: tensor %llu '%s': the record runs past the end of the file",
                        c->file, row, t->name);
    if (n_dims == 0 || n_dims > 4)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: tensor %llu '%s': %u dimensions, 1 to 4 are allowed",
                        c->file, row, t->name, n_dims);
    t->n_dims = (int)n_dims;
    t->n_elements = 1;
    for (int k = 0; k < 4; k++)
        t->ne[k] = 1;
    for (int k = 0; k < t->n_dims; k++) {
        if (!take_u64(c, &t->ne[k]))
            return KVA_FAIL(
                err, KVA_EFORMAT,
                "%s: tensor %llu '%s': the record runs past the end of the file", c->file,
                row, t->name);
        if (t->ne[k] == 0 || t->ne[k] > INT64_MAX)
            return KVA_FAIL(err, KVA_EFORMAT,
                            "%s: tensor %llu '%s': dimension %d is %lld", c->file, row,
                            t->name, k, (long long)t->ne[k]);
        if (t->n_elements > INT64_MAX / t->ne[k])
            return KVA_FAIL(err, KVA_EFORMAT,
                            "%s: tensor %llu '%s': the number of elements overflows",
                            c->file, row, t->name);
        t->n_elements *= t->ne[k];
    }
    return KVA_OK;
}

static enum kva_status read_tensor_type(struct cursor *c, uint64_t i,
                                        struct kva_gguf_tensor *t, struct kva_error *err)
{
    unsigned long long row = i;
    uint32_t type;
    if (!take_u32(c, &type))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: tensor %llu '%s': the record runs past the end of the file",
                        c->file, row, t->name);
    const struct kva_type_info *info = kva_type_get(type);
    if (!info)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "%s: tensor %llu '%s': type %s (id %u) is not supported", c->file,
                        row, t->name, kva_type_name(type), type);
    t->type = (enum kva_type)type;
    uint64_t block = (uint64_t)info->block_elements, bytes = (uint64_t)info->block_bytes;
    if (t->ne[0] % block != 0)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: tensor %llu '%s': rows of %llu elements are no whole number "
                        "of %s blocks",
                        c->file, row, t->name, (unsigned long long)t->ne[0], info->name);
    if (t->n_elements / block > SIZE_MAX / bytes)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: tensor %llu '%s': the size overflows",
                        c->file, row, t->name);
    t->n_bytes = t->n_elements / block * bytes;
    return KVA_OK;
}

/* Reads one row of the table. The offset is returned apart: the data section starts
 * behind the whole table. */
static enum kva_status read_tensor(struct kva_gguf *g, struct cursor *c, uint64_t i,
                                   struct kva_gguf_tensor *t, uint64_t *offset,
                                   struct kva_error *err)
{
    unsigned long long row = i;
    char text[SHOWN + 4];
    const uint8_t *name;
    uint64_t n;
    memset(t, 0, sizeof *t);
    if (!take_string(c, &name, &n))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: tensor %llu: the name runs past the end of the file",
                        c->file, row);
    if (n > NAME_MAX_BYTES)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: tensor %llu '%s': the name has %llu bytes, %d are allowed",
                        c->file, row, shown(name, n, text), (unsigned long long)n,
                        NAME_MAX_BYTES);
    if (memchr(name, 0, (size_t)n))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: tensor %llu '%s': the name holds a zero byte", c->file, row,
                        shown(name, n, text));
    bool was_new = false;
    KVA_TRY(kva_map_put(&g->tensor_of, name, (size_t)n, (int64_t)i, &was_new, err));
    if (!was_new)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: tensor %llu '%s': the name occurs twice",
                        c->file, row, shown(name, n, text));
    /* messages show the printable form; the table keeps the bytes */
    t->name = shown(name, n, text);
    KVA_TRY(read_tensor_shape(c, i, t, err));
    KVA_TRY(read_tensor_type(c, i, t, err));
    if (!take_u64(c, offset))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: tensor %llu '%s': the record runs past the end of the file",
                        c->file, row, t->name);
    if (*offset % g->align != 0)
        return KVA_FAIL(
            err, KVA_EFORMAT,
            "%s: tensor %llu '%s': offset %llu is no multiple of the alignment %llu",
            c->file, row, t->name, (unsigned long long)*offset,
            (unsigned long long)g->align);
    t->name = kva_arena_strndup(&g->names, (const char *)name, (size_t)n);
    if (!t->name)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for tensor names");
    return KVA_OK;
}

struct range {
    uint64_t begin, end;
    size_t tensor;
};

static int range_order(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Places the tensors behind the table and refuses what leaves the file or overlaps. */
static enum kva_status place_tensors(struct kva_gguf *g, const uint64_t *offset,
                                     const char *file, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    char text[SHOWN + 4], other[SHOWN + 4];
    struct range *ranges = kva_calloc(g->n_tensors, sizeof *ranges);
    if (!ranges)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for %zu tensor ranges", g->n_tensors);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct kva_gguf_tensor *t = &g->tensors[i];
        uint64_t room = g->n_bytes > g->data_start ? g->n_bytes - g->data_start : 0;
        if (offset[i] > room || t->n_bytes > room - offset[i]) {
            rc = KVA_FAIL(
                err, KVA_EFORMAT,
                "%s: tensor %zu '%s': the data (%llu bytes at offset %llu) runs past the "
                "end of the file",
                file, i, shown((const uint8_t *)t->name, strlen(t->name), text),
                (unsigned long long)t->n_bytes, (unsigned long long)offset[i]);
            goto out;
        }
        t->data = g->bytes + g->data_start + offset[i];
        ranges[i] = (struct range){offset[i], offset[i] + t->n_bytes, i};
    }
    qsort(ranges, g->n_tensors, sizeof *ranges, range_order);
    for (size_t i = 1; i < g->n_tensors; i++) {
        if (ranges[i].begin >= ranges[i - 1].end)
            continue;
        const char *a = g->tensors[ranges[i].tensor].name,
                   *b = g->tensors[ranges[i - 1].tensor].name;
        rc = KVA_FAIL(err, KVA_EFORMAT,
                      "%s: tensor %zu '%s': the data overlaps tensor %zu '%s'", file,
                      ranges[i].tensor, shown((const uint8_t *)a, strlen(a), text),
                      ranges[i - 1].tensor, shown((const uint8_t *)b, strlen(b), other));
        goto out;
    }
out:
    free(ranges);
    return rc;
}

static enum kva_status read_tensors(struct kva_gguf *g, struct cursor *c, uint64_t count,
                                    struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    uint64_t *offset = NULL;
    size_t cap_offset = 0;
    for (uint64_t i = 0; i < count; i++) {
        KVA_GO(grow((void **)&g->tensors, &g->cap_tensors, (size_t)i + 1,
                    sizeof *g->tensors, err));
        KVA_GO(grow((void **)&offset, &cap_offset, (size_t)i + 1, sizeof *offset, err));
        KVA_GO(read_tensor(g, c, i, &g->tensors[i], &offset[i], err));
        g->n_tensors++;
    }
    if (count == 0)
        goto out;
    /* cannot overflow: c->at is at most the file size, align at most 1 MiB */
    g->data_start = (c->at + g->align - 1) / g->align * g->align;
    KVA_GO(place_tensors(g, offset, c->file, err));
out:
    free(offset);
    return rc;
}

/* ---- open and close ---- */

static enum kva_status read_header(struct cursor *c, uint64_t *n_tensors, uint64_t *n_kv,
                                   struct kva_error *err)
{
    if (remaining(c) < HEADER_BYTES)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: header: %llu bytes are too few for a GGUF file", c->file,
                        (unsigned long long)remaining(c));
    if (memcmp(c->bytes, "GGUF", 4) != 0)
        return KVA_FAIL(
            err, KVA_EFORMAT,
            "%s: header: not a GGUF file (it starts with %02x %02x %02x %02x)", c->file,
            c->bytes[0], c->bytes[1], c->bytes[2], c->bytes[3]);
    c->at = 4;
    uint32_t version = 0;
    take_u32(c, &version);
    if ((version & 0xffff) == 0)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "%s: header: big-endian files are not supported", c->file);
    if (version != 2 && version != 3)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "%s: header: version %u is not supported (2 and 3 are)", c->file,
                        version);
    take_u64(c, n_tensors);
    take_u64(c, n_kv);
    if (*n_kv > remaining(c) / KV_MIN_BYTES)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: header: %llu keys do not fit into the file", c->file,
                        (unsigned long long)*n_kv);
    if (*n_tensors > remaining(c) / TENSOR_MIN_BYTES || *n_tensors > INT_MAX)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: header: %llu tensors do not fit into the file", c->file,
                        (unsigned long long)*n_tensors);
    return KVA_OK;
}

static enum kva_status parse(struct kva_gguf *g, const char *name, struct kva_error *err)
{
    struct cursor c = {g->bytes, 0, g->n_bytes, name};
    uint64_t n_tensors = 0, n_kv = 0;
    KVA_TRY(read_header(&c, &n_tensors, &n_kv, err));
    for (uint64_t i = 0; i < n_kv; i++)
        KVA_TRY(read_record(g, &c, i, err));
    KVA_TRY(read_alignment(g, name, err));
    KVA_TRY(read_tensors(g, &c, n_tensors, err));
    return kva_gguf_check_keys(g, name, err);
}

static struct kva_gguf *gguf_new(const void *bytes, size_t n, void *mapping)
{
    struct kva_gguf *g = kva_calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->bytes = bytes;
    g->n_bytes = n;
    g->mapping = mapping;
    kva_map_init(&g->record_of);
    kva_map_init(&g->tensor_of);
    kva_arena_init(&g->names);
    return g;
}

enum kva_status kva_gguf_parse(const void *bytes, size_t n, const char *name,
                               struct kva_gguf **out, struct kva_error *err)
{
    *out = NULL;
    struct kva_gguf *g = gguf_new(bytes, n, NULL);
    if (!g)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory to read %s", name);
    enum kva_status rc = parse(g, name, err);
    if (rc != KVA_OK) {
        kva_gguf_close(g);
        return rc;
    }
    *out = g;
    return KVA_OK;
}

enum kva_status kva_gguf_open(const char *path, struct kva_gguf **out,
                              struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    struct kva_gguf *g = NULL;
    void *mapping = NULL;
    size_t n = 0;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0) {
        rc = KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        rc = KVA_FAIL(err, KVA_EIO, "%s: not a regular file", path);
        goto out;
    }
    n = (size_t)st.st_size;
    if (n < HEADER_BYTES) {
        rc = KVA_FAIL(err, KVA_EFORMAT,
                      "%s: header: %zu bytes are too few for a GGUF file", path, n);
        goto out;
    }
    mapping = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping == MAP_FAILED) {
        mapping = NULL;
        rc = KVA_FAIL(err, KVA_EIO, "%s: cannot map: %s", path, strerror(errno));
        goto out;
    }
    g = gguf_new(mapping, n, mapping);
    if (!g) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "no memory to read %s", path);
        goto out;
    }
    mapping = NULL; /* the handle owns it */
    KVA_GO(parse(g, path, err));
    *out = g;
    g = NULL;
out:
    kva_gguf_close(g);
    if (mapping)
        munmap(mapping, n);
    close(fd);
    return rc;
}

void kva_gguf_close(struct kva_gguf *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_records; i++)
        free(g->records[i].string_at);
    free(g->records);
    free(g->tensors);
    kva_map_release(&g->record_of);
    kva_map_release(&g->tensor_of);
    kva_arena_release(&g->names);
    if (g->mapping)
        munmap(g->mapping, g->n_bytes);
    free(g);
}

/* ---- queries ---- */

size_t kva_gguf_file_bytes(const struct kva_gguf *g)
{
    return g->n_bytes;
}

int kva_gguf_tensors(const struct kva_gguf *g)
{
    return (int)g->n_tensors;
}

const struct kva_gguf_tensor *kva_gguf_tensor_at(const struct kva_gguf *g, int i)
{
    return i >= 0 && (size_t)i < g->n_tensors ? &g->tensors[i] : NULL;
}

const struct kva_gguf_tensor *kva_gguf_find(const struct kva_gguf *g, const char *name)
{
    int64_t i;
    if (!kva_map_get(&g->tensor_of, name, strlen(name), &i))
        return NULL;
    return &g->tensors[i];
}

/* Integers of any width; a u64 above the signed range is "another kind". */
static bool integer_at(const uint8_t *p, uint32_t type, int64_t *out)
{
    switch (type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
        *out = (int64_t)load_le(p, value_bytes[type]);
        return true;
    case GGUF_I8:
        *out = (int8_t)p[0];
        return true;
    case GGUF_I16:
        *out = (int16_t)load_le(p, 2);
        return true;
    case GGUF_I32:
        *out = (int32_t)load_le(p, 4);
        return true;
    case GGUF_I64:
        *out = (int64_t)load_le(p, 8);
        return true;
    case GGUF_U64:
        if (load_le(p, 8) > INT64_MAX)
            return false;
        *out = (int64_t)load_le(p, 8);
        return true;
    default:
        return false;
    }
}

static bool real_at(const uint8_t *p, uint32_t type, double *out)
{
    if (type == GGUF_F32) {
        uint32_t u = (uint32_t)load_le(p, 4);
        float f;
        memcpy(&f, &u, sizeof f);
        *out = (double)f;
        return true;
    }
    if (type == GGUF_F64) {
        uint64_t u = load_le(p, 8);
        memcpy(out, &u, sizeof *out);
        return true;
    }
    int64_t i;
    if (!integer_at(p, type, &i))
        return false;
    *out = (double)i;
    return true;
}

bool kva_gguf_has(const struct kva_gguf *g, const char *key)
{
    return record_get(g, key) != NULL;
}

bool kva_gguf_i64(const struct kva_gguf *g, const char *key, int64_t *out)
{
    const struct record *r = record_get(g, key);
    return r && integer_at(r->value, r->type, out);
}

bool kva_gguf_f64(const struct kva_gguf *g, const char *key, double *out)
{
    const struct record *r = record_get(g, key);
    return r && real_at(r->value, r->type, out);
}

bool kva_gguf_bool(const struct kva_gguf *g, const char *key, bool *out)
{
    const struct record *r = record_get(g, key);
    if (!r || r->type != GGUF_BOOL)
        return false;
    *out = r->value[0] != 0;
    return true;
}

bool kva_gguf_str(const struct kva_gguf *g, const char *key, const char **s, size_t *n)
{
    const struct record *r = record_get(g, key);
    if (!r || r->type != GGUF_STRING)
        return false;
    *n = (size_t)load_le(r->value, 8);
    *s = (const char *)r->value + 8;
    return true;
}

static const struct record *array_get(const struct kva_gguf *g, const char *key)
{
    const struct record *r = record_get(g, key);
    return r && r->type == GGUF_ARRAY ? r : NULL;
}

int64_t kva_gguf_array_len(const struct kva_gguf *g, const char *key)
{
    const struct record *r = array_get(g, key);
    return r ? (int64_t)r->count : -1;
}

bool kva_gguf_array_str(const struct kva_gguf *g, const char *key, int64_t i,
                        const char **s, size_t *n)
{
    const struct record *r = array_get(g, key);
    if (!r || r->elem_type != GGUF_STRING || i < 0 || (uint64_t)i >= r->count)
        return false;
    const uint8_t *p = g->bytes + r->string_at[i];
    *n = (size_t)load_le(p, 8);
    *s = (const char *)p + 8;
    return true;
}

/* Booleans count as 0 and 1 here, since per-layer flags come as either. */
bool kva_gguf_array_i64(const struct kva_gguf *g, const char *key, int64_t i,
                        int64_t *out)
{
    const struct record *r = array_get(g, key);
    if (!r || r->elem_type == GGUF_STRING || i < 0 || (uint64_t)i >= r->count)
        return false;
    const uint8_t *p = r->value + (uint64_t)i * value_bytes[r->elem_type];
    if (r->elem_type == GGUF_BOOL) {
        *out = p[0];
        return true;
    }
    return integer_at(p, r->elem_type, out);
}

bool kva_gguf_array_f64(const struct kva_gguf *g, const char *key, int64_t i, double *out)
{
    const struct record *r = array_get(g, key);
    if (!r || r->elem_type == GGUF_STRING || i < 0 || (uint64_t)i >= r->count)
        return false;
    return real_at(r->value + (uint64_t)i * value_bytes[r->elem_type], r->elem_type, out);
}

enum kva_status kva_gguf_check_tensors(const struct kva_gguf *g, struct kva_error *err)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct kva_gguf_tensor *t = &g->tensors[i];
        char text[SHOWN + 4];
        if (!kva_dequant_check(t->type, t->data, (size_t)t->n_elements))
            return KVA_FAIL(err, KVA_EFORMAT, "tensor %zu '%s': a %s that is not finite",
                            i, shown((const uint8_t *)t->name, strlen(t->name), text),
                            kva_type_get(t->type)->block_elements == 1 ? "value"
                                                                       : "block scale");
    }
    return KVA_OK;
}
