/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cpu_help.h - what the tests of the CPU backend share: ordinary random numbers, tables
 * opened for one instruction set, weights of every type, a cache laid out by hand. */
#ifndef CPU_HELP_H
#define CPU_HELP_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/kvstore.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* in (-1, 1), never near the subnormals */
static inline float ordinary(struct kva_rng *r)
{
    float f = (float)(kva_rng_unit(r) * 2.0 - 1.0);

    return fabsf(f) < 1e-4f ? 0.25f : f;
}

static inline float *floats(struct kva_rng *r, size_t n)
{
    float *x = calloc(n ? n : 1, sizeof *x);

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = ordinary(r);
    return x;
}

static inline struct kva_ops *open_ops(const char *numerics, const char *isa, int threads)
{
    struct kva_ops *ops = NULL;
    struct kva_error err = {0};

    if (isa)
        setenv("KVAUDIT_CPU", isa, 1);
    else
        unsetenv("KVAUDIT_CPU");
    if (kva_ops_open("cpu", numerics, threads, &ops, &err) != KVA_OK)
        fail_msg("%s", err.text);
    unsetenv("KVAUDIT_CPU");
    return ops;
}

static inline void put_half(uint8_t *p, float f)
{
    uint16_t h = kva_f32_to_f16(f);

    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* n elements of any type with sane scales; the rest of a block is random bits */
static inline uint8_t *blocks(struct kva_rng *r, enum kva_type type, size_t n)
{
    const struct kva_type_info *t = kva_type_get(type);
    size_t count = n / (size_t)t->block_elements, bytes = (size_t)t->block_bytes;
    uint8_t *data = calloc(count, bytes);

    assert_non_null(data);
    for (size_t b = 0; b < count; b++) {
        uint8_t *p = data + b * bytes;
        float f = ordinary(r);

        for (size_t i = 0; i < bytes; i++)
            p[i] = (uint8_t)kva_rng_next(r);
        if (type == KVA_F32)
            memcpy(p, &f, 4);
        else if (type == KVA_F16)
            put_half(p, f);
        else if (type == KVA_BF16)
            p[1] = (uint8_t)((p[1] & 0x80) | 0x3e);
        else if (type == KVA_Q6_K)
            put_half(p + 208, 0.01f * f);
        else
            put_half(p, 0.05f * f);
        if (type == KVA_Q4_1 || type == KVA_Q5_1 || type == KVA_Q4_K || type == KVA_Q5_K)
            put_half(p + 2, 0.05f * ordinary(r));
    }
    return data;
}

static inline bool same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, 4) != 0) {
            printf("  at %zu: %a and %a\n", i, (double)a[i], (double)b[i]);
            return false;
        }
    return true;
}

/* largest |a - b| / max(1, |b|) */
static inline double worst(const float *a, const float *b, size_t n)
{
    double w = 0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]) / fmax(1.0, fabs((double)b[i]));

        w = d > w || d != d ? d : w;
    }
    return w;
}

/* A layer of a cache: `len[h]` entries in head h, entry j of head h at position at[h][j],
 * pages in scattered order, free slots full of NaN. */
struct cache {
    struct kva_kv_view view;
    int32_t *pos, *table, *len;
    uint8_t *sorted;
    uint32_t *live;
    int pages;
};

static inline void cache_set(struct cache *c, bool value, int head, int entry, int d,
                             float f)
{
    struct kva_kv_view *v = &c->view;
    int id = v->table[head * v->table_cap + entry / KVA_PAGE], slot = entry % KVA_PAGE;
    size_t i = value ? (size_t)KVA_PAGE * v->dim_k + (size_t)slot * v->dim_v + d
                     : (size_t)slot * v->dim_k + d;
    uint8_t *page = v->base + (size_t)id * v->page_bytes;

    if (v->type == KVA_F16) {
        uint16_t h = kva_f32_to_f16(f);

        memcpy(page + 2 * i, &h, 2);
    } else {
        memcpy(page + 4 * i, &f, 4);
    }
}

static inline float cache_get(const struct cache *c, bool value, int head, int entry,
                              int d)
{
    const struct kva_kv_view *v = &c->view;
    int id = v->table[head * v->table_cap + entry / KVA_PAGE], slot = entry % KVA_PAGE;
    size_t i = value ? (size_t)KVA_PAGE * v->dim_k + (size_t)slot * v->dim_v + d
                     : (size_t)slot * v->dim_k + d;
    const uint8_t *page = v->base + (size_t)id * v->page_bytes;
    uint16_t h;
    float f;

    if (v->type == KVA_F16) {
        memcpy(&h, page + 2 * i, 2);
        return kva_f16_to_f32(h);
    }
    memcpy(&f, page + 4 * i, 4);
    return f;
}

static inline int32_t *cache_pos(const struct cache *c, int head, int entry)
{
    int id = c->table[head * c->view.table_cap + entry / KVA_PAGE];

    return c->pos + id * KVA_PAGE + entry % KVA_PAGE;
}

/* Entry j gets position j * gap; random keys and values; `room` pages per head. */
static inline void cache_make(struct cache *c, struct kva_rng *r, int heads, int dim_k,
                              int dim_v, enum kva_type type, const int *len, int gap)
{
    int longest = 1;

    memset(c, 0, sizeof *c);
    for (int h = 0; h < heads; h++)
        longest = len[h] > longest ? len[h] : longest;
    c->view.table_cap = (longest + KVA_PAGE - 1) / KVA_PAGE + 1;
    c->pages = heads * c->view.table_cap;
    c->view.kv_heads = heads;
    c->view.dim_k = dim_k;
    c->view.dim_v = dim_v;
    c->view.type = type;
    c->view.page_bytes = (size_t)KVA_PAGE * (dim_k + dim_v) * (type == KVA_F16 ? 2 : 4);
    c->view.base = malloc((size_t)c->pages * c->view.page_bytes);
    memset(c->view.base, 0xff,
           (size_t)c->pages * c->view.page_bytes); /* NaN in both types */
    c->view.pos = c->pos = malloc((size_t)c->pages * KVA_PAGE * sizeof *c->pos);
    c->view.table = c->table = malloc((size_t)c->pages * sizeof *c->table);
    c->view.len = c->len = malloc((size_t)heads * sizeof *c->len);
    c->view.sorted = c->sorted = malloc((size_t)heads);
    memset(c->pos, 0xff, (size_t)c->pages * KVA_PAGE * sizeof *c->pos);
    for (int i = 0; i < c->pages; i++) /* not the order of the slots */
        c->table[i] = c->pages - 1 - i;
    for (int h = 0; h < heads; h++) {
        c->len[h] = len[h];
        c->sorted[h] = 1;
        for (int j = 0; j < len[h]; j++) {
            *cache_pos(c, h, j) = j * gap;
            for (int d = 0; d < dim_k; d++)
                cache_set(c, false, h, j, d, ordinary(r));
            for (int d = 0; d < dim_v; d++)
                cache_set(c, true, h, j, d, ordinary(r));
        }
    }
}

static inline void cache_swap(struct cache *c, int head, int i, int j)
{
    int32_t p = *cache_pos(c, head, i);

    *cache_pos(c, head, i) = *cache_pos(c, head, j);
    *cache_pos(c, head, j) = p;
    for (int v = 0; v < 2; v++)
        for (int d = 0; d < (v ? c->view.dim_v : c->view.dim_k); d++) {
            float f = cache_get(c, v, head, i, d), g = cache_get(c, v, head, j, d);

            cache_set(c, v, head, i, d, g);
            cache_set(c, v, head, j, d, f);
        }
    c->sorted[head] = 0;
}

static inline void cache_masked(struct cache *c)
{
    c->view.live = c->live = malloc((size_t)c->pages * sizeof *c->live);
    memset(c->live, 0xff, (size_t)c->pages * sizeof *c->live);
}

static inline void cache_kill(struct cache *c, int head, int entry)
{
    c->live[c->table[head * c->view.table_cap + entry / KVA_PAGE]] &=
        ~(1u << entry % KVA_PAGE);
}

static inline bool cache_live(const struct cache *c, int head, int entry)
{
    return !c->live || c->live[c->table[head * c->view.table_cap + entry / KVA_PAGE]] >>
                               entry % KVA_PAGE &
                           1;
}

static inline void cache_free(struct cache *c)
{
    free(c->view.base);
    free(c->pos);
    free(c->table);
    free(c->len);
    free(c->sorted);
    free(c->live);
}
#endif
