/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kva_buf.c - arena, growable bytes with a ceiling, bytes -> int64 map. */
#include "kva.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arena ---- */

struct kva_arena_block {
    struct kva_arena_block *next;
    size_t size, used;
    size_t dirty; /* bytes at the start that were handed out before a reset */
    _Alignas(16) unsigned char data[];
};

enum { ARENA_FIRST = 16 * 1024 };

void kva_arena_init(struct kva_arena *a)
{
    memset(a, 0, sizeof *a);
}

void *kva_arena_alloc(struct kva_arena *a, size_t count, size_t size)
{
    struct kva_arena_block *b = a->head;
    size_t bytes, want;
    unsigned char *p;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4)
        return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes == 0)
        bytes = 16;
    if (!b || b->size - b->used < bytes) {
        want = b ? 2 * b->size : ARENA_FIRST;
        if (want > (size_t)1 << 24)
            want = (size_t)1 << 24;
        if (want < bytes)
            want = bytes;
        b = kva_calloc(1, sizeof *b + want);
        if (!b)
            return NULL;
        b->size = want;
        b->next = a->head;
        a->head = b;
    }
    p = b->data + b->used;
    if (b->used < b->dirty)
        memset(p, 0, bytes < b->dirty - b->used ? bytes : b->dirty - b->used);
    b->used += bytes;
    a->used_bytes += bytes;
    if (a->used_bytes > a->peak_bytes)
        a->peak_bytes = a->used_bytes;
    return p;
}

char *kva_arena_strndup(struct kva_arena *a, const char *s, size_t n)
{
    char *p = kva_arena_alloc(a, n + 1, 1);

    if (p)
        memcpy(p, s, n);
    return p;
}

char *kva_arena_strdup(struct kva_arena *a, const char *s)
{
    return kva_arena_strndup(a, s, strlen(s));
}

char *kva_arena_printf(struct kva_arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return NULL;
    p = kva_arena_alloc(a, (size_t)n + 1, 1);
    if (!p)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

void kva_arena_reset(struct kva_arena *a)
{
    struct kva_arena_block *b, *next, *keep = NULL;

    for (b = a->head; b; b = b->next)
        if (!keep || b->size > keep->size)
            keep = b;
    for (b = a->head; b; b = next) {
        next = b->next;
        if (b != keep)
            free(b);
    }
    if (keep) {
        keep->next = NULL;
        if (keep->used > keep->dirty)
            keep->dirty = keep->used;
        keep->used = 0;
    }
    a->head = keep;
    a->used_bytes = 0;
}

void kva_arena_release(struct kva_arena *a)
{
    struct kva_arena_block *b, *next;

    for (b = a->head; b; b = next) {
        next = b->next;
        free(b);
    }
    memset(a, 0, sizeof *a);
}

/* ---- growable bytes ---- */

/* Never written: lets an untouched buffer be read as "". cap == 0 tells it from heap
 * memory. */
static char empty_text[1];

void kva_buf_init(struct kva_buf *b, size_t ceiling_bytes)
{
    b->data = empty_text;
    b->len = b->cap = 0;
    b->ceiling = ceiling_bytes ? ceiling_bytes : (size_t)1 << 30;
    b->failed = false;
}

/* Room for n more bytes and the NUL. The ceiling counts content, not the NUL. */
static bool buf_grow(struct kva_buf *b, size_t n)
{
    size_t cap, need;
    char *p;

    if (b->failed)
        return false;
    if (b->ceiling == 0)
        b->ceiling = (size_t)1 << 30;
    if (b->len > b->ceiling || n > b->ceiling - b->len)
        goto fail;
    need = b->len + n + 1;
    if (need <= b->cap)
        return true;
    cap = b->cap ? b->cap + b->cap / 2 : 64;
    if (cap < need)
        cap = need;
    if (cap > b->ceiling + 1 && b->ceiling + 1 >= need)
        cap = b->ceiling + 1;
    p = kva_realloc(b->cap ? b->data : NULL, cap, 1);
    if (!p)
        goto fail;
    if (!b->cap)
        p[0] = '\0';
    b->data = p;
    b->cap = cap;
    return true;
fail:
    b->failed = true;
    return false;
}

void kva_buf_add(struct kva_buf *b, const void *bytes, size_t n)
{
    if (!buf_grow(b, n))
        return;
    if (n)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void kva_buf_puts(struct kva_buf *b, const char *s)
{
    kva_buf_add(b, s, strlen(s));
}

void kva_buf_putc(struct kva_buf *b, char c)
{
    kva_buf_add(b, &c, 1);
}

void kva_buf_vprintf(struct kva_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        b->failed = true;
    else if (buf_grow(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void kva_buf_printf(struct kva_buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    kva_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void kva_buf_release(struct kva_buf *b)
{
    if (b->cap)
        free(b->data);
    kva_buf_init(b, b->ceiling);
}

enum kva_status kva_buf_status(const struct kva_buf *b, struct kva_error *err)
{
    if (!b->failed)
        return KVA_OK;
    return KVA_FAIL(err, KVA_ENOMEM, "text of %zu bytes cannot grow (ceiling %zu)",
                    b->len, b->ceiling);
}

/* ---- map: open addressing, linear probing, at most 2/3 full; nothing is ever removed
 * ---- */

struct kva_map_slot {
    unsigned char *key; /* NULL: free slot */
    size_t len;
    uint64_t hash;
    int64_t value;
};

void kva_map_init(struct kva_map *m)
{
    memset(m, 0, sizeof *m);
}

void kva_map_release(struct kva_map *m)
{
    for (size_t i = 0; i < m->cap; i++)
        free(m->slots[i].key);
    free(m->slots);
    memset(m, 0, sizeof *m);
}

/* The slot that holds the key, or the free one where it belongs. cap is a power of two.
 * FNV's low bits are weak on short keys, hence the mixer. */
static struct kva_map_slot *map_find(struct kva_map_slot *slots, size_t cap,
                                     uint64_t hash, const void *key, size_t len)
{
    size_t i = (size_t)kva_mix64(hash) & (cap - 1);

    for (;; i = (i + 1) & (cap - 1)) {
        struct kva_map_slot *s = &slots[i];

        if (!s->key)
            return s;
        if (s->hash == hash && s->len == len &&
            (len == 0 || memcmp(s->key, key, len) == 0))
            return s;
    }
}

static enum kva_status map_grow(struct kva_map *m, struct kva_error *err)
{
    size_t cap = m->cap ? 2 * m->cap : 16;
    struct kva_map_slot *slots = kva_calloc(cap, sizeof *slots);

    if (!slots)
        return KVA_FAIL(err, KVA_ENOMEM, "map of %zu slots", cap);
    for (size_t i = 0; i < m->cap; i++) {
        const struct kva_map_slot *s = &m->slots[i];

        if (s->key)
            *map_find(slots, cap, s->hash, s->key, s->len) = *s;
    }
    free(m->slots);
    m->slots = slots;
    m->cap = cap;
    return KVA_OK;
}

enum kva_status kva_map_put(struct kva_map *m, const void *key, size_t len, int64_t value,
                            bool *was_new, struct kva_error *err)
{
    uint64_t hash = kva_fnv1a64(key, len);
    struct kva_map_slot *s;
    bool fresh;

    if (3 * (m->count + 1) > 2 * m->cap)
        KVA_TRY(map_grow(m, err));
    s = map_find(m->slots, m->cap, hash, key, len);
    fresh = !s->key;
    if (fresh) {
        unsigned char *copy = kva_calloc(len + 1, 1);

        if (!copy)
            return KVA_FAIL(err, KVA_ENOMEM, "map key of %zu bytes", len);
        if (len)
            memcpy(copy, key, len);
        s->key = copy;
        s->len = len;
        s->hash = hash;
        m->count++;
    }
    s->value = value;
    if (was_new)
        *was_new = fresh;
    return KVA_OK;
}

bool kva_map_get(const struct kva_map *m, const void *key, size_t len, int64_t *value)
{
    const struct kva_map_slot *s;

    if (!m->cap)
        return false;
    s = map_find(m->slots, m->cap, kva_fnv1a64(key, len), key, len);
    if (!s->key)
        return false;
    if (value)
        *value = s->value;
    return true;
}
