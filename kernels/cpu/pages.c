/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pages.c - pages of a store in ordinary memory: rows are converted and copied in place.
 */
#include "kernels/pages.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { P = KVA_PAGE };

static size_t granule(struct kva_ops *ops)
{
    (void)ops;
    return kva_mem_granule();
}

static enum kva_status create(struct kva_ops *ops, const struct kva_kvshape *shape,
                              size_t page_cap, size_t reserved_bytes, size_t chunk_bytes,
                              struct kva_pages **pages, struct kva_error *err)
{
    size_t element = shape->type == KVA_F16 ? 2 : 4;
    struct kva_pages *p = kva_calloc(1, sizeof *p);

    if (p == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "pages of a KV store");
    (void)chunk_bytes;
    p->ops = ops;
    p->resident = true;
    p->shape = *shape;
    p->k_bytes = (size_t)shape->dim_k * element;
    p->v_bytes = (size_t)shape->dim_v * element;
    p->page_bytes = P * (p->k_bytes + p->v_bytes);
    p->page_cap = page_cap;
    p->reserved_bytes = reserved_bytes;
    p->base = kva_mem_reserve(reserved_bytes);
    if (p->base == NULL) {
        free(p);
        return KVA_FAIL(err, KVA_ENOMEM, "KV store: %zu bytes cannot be reserved",
                        reserved_bytes);
    }
    *pages = p;
    return KVA_OK;
}

static void destroy(struct kva_pages *p)
{
    if (p != NULL)
        kva_mem_release(p->base, p->reserved_bytes);
    free(p);
}

static enum kva_status commit(struct kva_pages *p, size_t from, size_t bytes,
                              struct kva_error *err)
{
    if (kva_mem_commit(p->base + from, bytes) != 0)
        return KVA_FAIL(err, KVA_ENOMEM, "KV store: %zu bytes cannot be committed",
                        from + bytes);
    return KVA_OK;
}

static void decommit(struct kva_pages *p, size_t from, size_t bytes)
{
    kva_mem_decommit(p->base + from, bytes);
}

/* V rows begin behind all K rows of the page. */
static uint8_t *k_row(const struct kva_pages *p, int32_t page, int slot)
{
    return p->base + (size_t)page * p->page_bytes + (size_t)slot * p->k_bytes;
}

static uint8_t *v_row(const struct kva_pages *p, int32_t page, int slot)
{
    return p->base + (size_t)page * p->page_bytes + P * p->k_bytes +
           (size_t)slot * p->v_bytes;
}

static bool rows_fit(const struct kva_pages *p, const float *x, int stride, int width,
                     int rows)
{
    float limit = kva_pages_limit(p);

    for (int t = 0; t < rows; t++)
        if (!kva_all_below(x + (size_t)t * (size_t)stride, (size_t)width, limit))
            return false;
    return true;
}

static bool fits(const struct kva_pages *p, const struct kva_page_write *w)
{
    return rows_fit(p, w->k, w->k_stride, w->heads * p->shape.dim_k, w->tokens) &&
           (w->v == NULL ||
            rows_fit(p, w->v, w->v_stride, w->heads * p->shape.dim_v, w->tokens));
}

static void put_row(const struct kva_pages *p, uint8_t *to, const float *x, int dim)
{
    if (p->shape.type == KVA_F16)
        kva_half_from_float(x, (size_t)dim, (uint16_t *)(void *)to);
    else
        memcpy(to, x, (size_t)dim * sizeof *x);
}

/* `n` rows that follow each other in one page. */
static void get_rows(const struct kva_pages *p, const uint8_t *from, int n, int dim,
                     float *out)
{
    size_t count = (size_t)n * (size_t)dim;

    if (p->shape.type == KVA_F16)
        kva_half_to_float((const uint16_t *)(const void *)from, count, out);
    else
        memcpy(out, from, count * sizeof *out);
}

static void write_rows(struct kva_pages *p, const struct kva_page_write *w)
{
    for (int h = 0; h < w->heads; h++) {
        const int32_t *table = w->table + (size_t)h * (size_t)w->table_cap;
        const float *k = w->k + (size_t)h * (size_t)p->shape.dim_k,
                    *v = w->v + (size_t)h * (size_t)p->shape.dim_v;

        for (int t = 0; t < w->tokens; t++) {
            int at = w->len[h] + t;
            int32_t page = table[at / P];

            put_row(p, k_row(p, page, at % P), k + (size_t)t * (size_t)w->k_stride,
                    p->shape.dim_k);
            put_row(p, v_row(p, page, at % P), v + (size_t)t * (size_t)w->v_stride,
                    p->shape.dim_v);
        }
    }
}

static bool sound(const struct kva_pages *p)
{
    (void)p;
    return true; /* `fits` has seen every value */
}

/* Runs inside a page are moved at once. */
static void move_head(struct kva_pages *to, const struct kva_pages *from,
                      const struct kva_page_move *m)
{
    for (int i = 0, run; i < m->n; i += run) {
        int a = m->from ? m->from[i] : i, b = m->to ? m->to[i] : i;
        int most = P - (b % P > a % P ? b % P : a % P);
        int32_t pa = m->from_table[a / P], pb = m->to_table[b / P];

        most = most < m->n - i ? most : m->n - i;
        for (run = 1; run < most && (!m->from || m->from[i + run] == a + run) &&
                      (!m->to || m->to[i + run] == b + run);
             run++)
            continue;
        if (to == from && pa == pb && a % P == b % P)
            continue;
        memmove(k_row(to, pb, b % P), k_row(from, pa, a % P), (size_t)run * to->k_bytes);
        memmove(v_row(to, pb, b % P), v_row(from, pa, a % P), (size_t)run * to->v_bytes);
    }
}

static void move_rows(struct kva_pages *to, const struct kva_pages *from,
                      const struct kva_page_move *m, int heads)
{
    for (int h = 0; h < heads; h++)
        move_head(to, from, &m[h]);
}

static void read_head(const struct kva_pages *p, const struct kva_page_read *r, float *k,
                      float *v)
{
    for (int i = 0, run; i < r->n; i += run) {
        int at = r->slot ? r->slot[i] : r->first + i, most = P - at % P;
        int32_t page = r->table[at / P];

        most = most < r->n - i ? most : r->n - i;
        for (run = 1; run < most && (!r->slot || r->slot[i + run] == at + run); run++)
            continue;
        if (k)
            get_rows(p, k_row(p, page, at % P), run, p->shape.dim_k,
                     k + (size_t)i * (size_t)p->shape.dim_k);
        if (v)
            get_rows(p, v_row(p, page, at % P), run, p->shape.dim_v,
                     v + (size_t)i * (size_t)p->shape.dim_v);
    }
}

static void read_rows(const struct kva_pages *p, const struct kva_page_read *r, int heads,
                      float *k, float *v)
{
    size_t row = 0;

    for (int h = 0; h < heads; h++) {
        read_head(p, &r[h], k ? k + row * (size_t)p->shape.dim_k : NULL,
                  v ? v + row * (size_t)p->shape.dim_v : NULL);
        row += (size_t)r[h].n;
    }
}

static void write_keys(struct kva_pages *p, const int32_t *table, const int32_t *slot,
                       int n, const float *k, const int32_t *pos)
{
    (void)pos;
    for (int i = 0; i < n; i++) {
        int at = slot ? slot[i] : i;

        put_row(p, k_row(p, table[at / P], at % P),
                k + (size_t)i * (size_t)p->shape.dim_k, p->shape.dim_k);
    }
}

static void copy_pages(struct kva_pages *p, const int32_t *from, const int32_t *to,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(k_row(p, to[i], 0), k_row(p, from[i], 0), p->page_bytes);
}

/* NaN in both element types. */
static void poison(struct kva_pages *p, int32_t page, int slot, int end)
{
    if (end > slot) {
        memset(k_row(p, page, slot), 0xff, (size_t)(end - slot) * p->k_bytes);
        memset(v_row(p, page, slot), 0xff, (size_t)(end - slot) * p->v_bytes);
    }
}

const struct kva_page_ops kva_cpu_pages = {
    .granule = granule,
    .create = create,
    .destroy = destroy,
    .commit = commit,
    .decommit = decommit,
    .fits = fits,
    .write = write_rows,
    .sound = sound,
    .move = move_rows,
    .read = read_rows,
    .write_keys = write_keys,
    .copy = copy_pages,
    .poison = poison,
};

float kva_pages_limit(const struct kva_pages *p)
{
    return p->shape.type == KVA_F16 ? 65520.0f : INFINITY;
}
