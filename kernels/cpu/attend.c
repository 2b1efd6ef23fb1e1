/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend.c - numerics f32: attention over pages, and the attention of a window of
 * queries, its mean or its largest.
 *
 *     o = sum_j exp(s_j - M) v_j / sum_j exp(s_j - M),  s_j = scale * q.k_j,  j visible
 *
 * Entries come in slot order, in tiles of 32 live ones: the pages as they are, or, of a
 * masked store, what evicting the masked entries would leave in them. A tile is converted
 * to f32 once per call; a running maximum moves per tile. Per (row, head): dots and value
 * sums have one accumulator per output, ascending, fused; the weights of a tile enter the
 * denominator as tree(p[0..15] + p[16..31]). What is not visible has weight exactly 0 and
 * a tile without a visible entry is skipped, so a row's bits depend on its own visible
 * entries and their tiles alone. A "unit" is one (row, query head) of a KV head's group.
 *
 * Where sums of weights are wanted, the weights of as many units as the scratch holds
 * stay until their maxima and denominators are known, and are then added up unit by unit,
 * ascending, so that neither that number nor the cut of rows into calls changes a bit. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define UNITS     24 /* at a time: two blocks of twelve, four of six */
#define MEAN_ROWS 64 /* of a window at a time, at most */

static int padded(int dim)
{
    return (dim + 15) / 16 * 16;
}

/* Scratch of one item, sizes in floats. */
struct tiles {
    float *kt;  /* [2][dim_k][16] */
    float *v;   /* [32][dvp] */
    float *one; /* [32][dvp]: a tile with one unit's invisible values removed */
    float *s;   /* [UNITS][32] */
    float *q;   /* [units][dim_k] */
    float *o;   /* [units][dvp] */
    float *m, *l;
    int32_t *pos;
    float *rows; /* [32][dim_k + dim_v] entries of a masked store */
    /* with sums: */
    float *w;   /* [units] */
    float *top; /* [n_tiles][units] the maxima that the weights refer to */
    float *p;   /* [n_tiles][units][32] */
};

struct attend {
    const struct kva_cpu_kernels *k;
    const struct kva_attn *a;
    int group, dvp, chunk, chunks; /* units per item, items per KV head */
};

static size_t tile_floats(int dim_k, int dvp)
{
    return (size_t)32 * ((size_t)dim_k + 2 * (size_t)dvp + UNITS);
}

static size_t unit_floats(int dim_k, int dvp, int n_tiles)
{
    return (size_t)dim_k + (size_t)dvp + 4 + 33 * (size_t)n_tiles;
}

/* Units whose state the scratch holds; n_tiles: whose weights stay, or 0. */
static int chunk_of(const struct kva_kv_view *kv, int dvp, int n_tiles)
{
    size_t room = KVA_CPU_SCRATCH / sizeof(float) - tile_floats(kv->dim_k, dvp) -
                  (size_t)32 * ((size_t)kv->dim_k + (size_t)kv->dim_v);
    size_t units = room / unit_floats(kv->dim_k, dvp, n_tiles);

    return units < INT32_MAX ? (int)units : INT32_MAX;
}

static void lay_out(struct tiles *t, float *scratch, const struct kva_kv_view *kv,
                    int dvp, int units, int n_tiles)
{
    t->kt = scratch;
    t->v = t->kt + (size_t)32 * kv->dim_k;
    t->one = t->v + (size_t)32 * dvp;
    t->s = t->one + (size_t)32 * dvp;
    t->rows = t->s + (size_t)32 * UNITS;
    t->o = t->rows + (size_t)32 * ((size_t)kv->dim_k + (size_t)kv->dim_v);
    t->q = t->o + (size_t)units * dvp;
    t->m = t->q + (size_t)units * kv->dim_k;
    t->l = t->m + units;
    t->pos = (int32_t *)(void *)(t->l + units);
    t->w = (float *)(void *)(t->pos + units);
    t->top = t->w + units;
    t->p = t->top + (size_t)units * n_tiles;
}

/* bits of the entries in `live` with pos <= limit */
static uint32_t visible(const int32_t *pos, uint32_t live, int32_t limit)
{
    uint32_t bits = 0;

    for (int i = 0; i < KVA_PAGE; i++)
        bits |= (uint32_t)(pos[i] <= limit) << i;
    return bits & live;
}

struct page {
    const int32_t *pos; /* [32], the first n count */
    const void *k, *v, *next_k, *next_v;
    int32_t own[KVA_PAGE]; /* positions of a tile of a masked store */
    uint32_t live;
    int n;
    int32_t lo, hi; /* of positions */
    bool finite;
};

/* A value that is not finite would turn its own zero weight into NaN: such a page goes
 * unit by unit, invisible values replaced by zero. The store refuses such values, so this
 * is rare. */
static void values_apart(const struct attend *t, const struct tiles *tl,
                         const struct page *p, const float *s, const uint32_t *mask,
                         int units, float *o)
{
    for (int u = 0; u < units; u++) {
        if (!mask[u])
            continue;
        for (int j = 0; j < p->n; j++) {
            size_t bytes = (size_t)t->dvp * sizeof(float);

            if (mask[u] >> j & 1)
                memcpy(tl->one + (size_t)j * t->dvp, tl->v + (size_t)j * t->dvp, bytes);
            else
                memset(tl->one + (size_t)j * t->dvp, 0, bytes);
        }
        t->k->product(s + (size_t)32 * u, 32, 1, p->n, tl->one, (size_t)t->dvp, 16,
                      t->dvp / 16, o + (size_t)u * t->dvp, (size_t)t->dvp, 1, 16);
    }
}

/* units u .. u+n-1 against the page in the tiles; their weights go to s */
static void page_units(const struct attend *t, const struct tiles *tl,
                       const struct page *p, int u, int n, float *s)
{
    int dim = t->a->kv->dim_k;
    float *o = tl->o + (size_t)u * t->dvp;
    uint32_t mask[UNITS];

    for (int i = 0; i < n; i++) {
        int32_t pos = tl->pos[u + i];

        mask[i] = pos >= p->hi                         ? p->live
                  : i > 0 && pos == tl->pos[u + i - 1] ? mask[i - 1]
                                                       : visible(p->pos, p->live, pos);
    }
    t->k->product(tl->q + (size_t)u * dim, (size_t)dim, n, dim, tl->kt, 16,
                  (size_t)dim * 16, 2, s, 32, 0, 16);
    t->k->softmax_page(s, n, t->a->scale, mask, tl->m + u, tl->l + u, o, t->dvp);
    if (p->finite)
        t->k->product(s, 32, n, p->n, tl->v, (size_t)t->dvp, 16, t->dvp / 16, o,
                      (size_t)t->dvp, 1, 16);
    else
        values_apart(t, tl, p, s, mask, n, o);
}

static const uint8_t *page_base(const struct kva_kv_view *kv, int head, int index)
{
    return kv->base +
           (size_t)kv->table[(size_t)head * kv->table_cap + index] * kv->page_bytes;
}

/* Page `index` of a KV head as it is. */
static void take_page(const struct kva_kv_view *kv, int head, int index, struct page *p)
{
    int held = kv->len[head] - index * KVA_PAGE;
    size_t k_bytes = (size_t)KVA_PAGE * (size_t)kv->dim_k * (kv->type == KVA_F16 ? 2 : 4);
    const uint8_t *next = page_base(kv, head, held > KVA_PAGE ? index + 1 : index);

    p->n = held < KVA_PAGE ? held : KVA_PAGE;
    p->pos = kv->pos + (size_t)kv->table[(size_t)head * kv->table_cap + index] * KVA_PAGE;
    p->k = page_base(kv, head, index);
    p->v = (const uint8_t *)p->k + k_bytes;
    p->next_k = next;
    p->next_v = next + k_bytes;
}

/* The next up to 32 live entries of a masked KV head, from slot *slot on. */
static void take_live(const struct kva_kv_view *kv, int head, int *slot, float *rows,
                      struct page *p)
{
    size_t element = kv->type == KVA_F16 ? 2 : 4, kb = (size_t)kv->dim_k * element;
    size_t vb = (size_t)kv->dim_v * element;
    uint8_t *k = (uint8_t *)(void *)rows, *v = k + KVA_PAGE * kb;

    p->n = 0;
    for (; *slot < kv->len[head] && p->n < KVA_PAGE; ++*slot) {
        int at = *slot % KVA_PAGE,
            id = kv->table[(size_t)head * kv->table_cap + *slot / KVA_PAGE];
        const uint8_t *base = kv->base + (size_t)id * kv->page_bytes;

        if (!(kv->live[id] >> at & 1))
            continue;
        memcpy(k + (size_t)p->n * kb, base + (size_t)at * kb, kb);
        memcpy(v + (size_t)p->n * vb, base + KVA_PAGE * kb + (size_t)at * vb, vb);
        p->own[p->n++] = kv->pos[(size_t)id * KVA_PAGE + at];
    }
    p->pos = p->own;
    p->k = p->next_k = k;
    p->v = p->next_v = v;
}

/* All units against a tile; tile_no says where weights stay, if they do. */
static void one_page(const struct attend *t, const struct tiles *tl, struct page *p,
                     int units, int tile_no)
{
    const struct kva_kv_view *kv = t->a->kv;
    const bool keep = t->a->n_sums > 0;
    bool ready = false;

    p->live = p->n < KVA_PAGE ? (1u << p->n) - 1 : UINT32_MAX;
    p->lo = INT32_MAX;
    p->hi = INT32_MIN;
    for (int i = 0; i < p->n; i++) {
        p->lo = p->pos[i] < p->lo ? p->pos[i] : p->lo;
        p->hi = p->pos[i] > p->hi ? p->pos[i] : p->hi;
    }
    for (int u = 0; u < units;) {
        size_t at = (size_t)tile_no * (size_t)units + (size_t)u;
        int n;

        if (tl->pos[u] < p->lo) { /* sees nothing of this page */
            if (keep)
                memset(tl->p + at * 32, 0, 32 * sizeof *tl->p);
            u++;
            continue;
        }
        if (!ready) {
            t->k->tile_k(p->k, kv->type, p->n, kv->dim_k, tl->kt, p->next_k);
            p->finite = t->k->tile_v(p->v, kv->type, p->n, p->live, kv->dim_v, t->dvp,
                                     tl->v, p->next_v);
            ready = true;
        }
        n = units - u < UNITS ? units - u : UNITS;
        page_units(t, tl, p, u, n, keep ? tl->p + at * 32 : tl->s);
        u += n;
    }
    if (keep)
        memcpy(tl->top + (size_t)tile_no * (size_t)units, tl->m,
               (size_t)units * sizeof *tl->m);
}

static int live_entries(const struct kva_kv_view *kv, int head)
{
    int n = 0;

    if (!kv->live)
        return kv->len[head];
    for (int i = 0; i * KVA_PAGE < kv->len[head]; i++)
        n += __builtin_popcount(kv->live[kv->table[(size_t)head * kv->table_cap + i]]);
    return n;
}

/* Adds the weights that stayed, by now with 1 / l in tl->l, to the sums of KV head h. */
static void add_weights(const struct attend *t, const struct tiles *tl, int head,
                        int units, int n)
{
    const struct kva_attn *a = t->a;

    for (int j = 0; j < n; j += 32) {
        const float *top = tl->top + (size_t)(j / 32) * (size_t)units;
        const float *p = tl->p + (size_t)j * (size_t)units;
        size_t bytes = (size_t)(n - j < 32 ? n - j : 32) * sizeof(float);

        for (int u = 0; u < units; u++) {
            tl->w[u] = tl->l[u];
            if (top[u] < tl->m[u]) /* exp(-inf) = 0: nothing was visible yet */
                tl->w[u] *= kva_expf(top[u] - tl->m[u]);
        }
        for (int i = 0; i < a->n_sums; i++) {
            float *y = a->sums[i * a->kv->kv_heads + head] + j, sum[32] = {0};

            memcpy(sum, y, bytes);
            t->k->product(tl->w, 0, 1, units, p, 32, 16, 2, sum, 0, 1, 16);
            memcpy(y, sum, bytes);
        }
    }
}

/* Units first .. first + units - 1 of KV head `head` over all its entries. */
static void attend_units(const struct attend *t, int head, int first, int units,
                         float *scratch)
{
    const struct kva_attn *a = t->a;
    const struct kva_kv_view *kv = a->kv;
    int n = live_entries(kv, head), slot = 0;
    struct tiles tl;

    lay_out(&tl, scratch, kv, t->dvp, units, a->n_sums ? (n + 31) / 32 : 0);
    for (int u = 0; u < units; u++) {
        int row = (first + u) / t->group, g = (first + u) % t->group;
        const float *q =
            a->q + (size_t)row * a->q_stride + (size_t)(head * t->group + g) * kv->dim_k;

        memcpy(tl.q + (size_t)u * kv->dim_k, q, (size_t)kv->dim_k * sizeof *q);
        tl.pos[u] = a->pos[row];
        tl.m[u] = -INFINITY;
        tl.l[u] = 0.0f;
    }
    memset(tl.o, 0, (size_t)units * t->dvp * sizeof *tl.o);
    for (int i = 0; i * KVA_PAGE < n; i++) {
        struct page p;

        if (kv->live)
            take_live(kv, head, &slot, tl.rows, &p);
        else
            take_page(kv, head, i, &p);
        one_page(t, &tl, &p, units, i);
    }
    for (int u = 0; u < units; u++) {
        int row = (first + u) / t->group, g = (first + u) % t->group;
        float *out = a->out + (size_t)row * a->out_stride +
                     (size_t)(head * t->group + g) * kv->dim_v;
        float inv = tl.l[u] = tl.l[u] == 0.0f ? 0.0f : 1.0f / tl.l[u];

        /* + 0 makes -0 and +0 one: their sign may come from a weight that underflowed */
        for (int d = 0; d < kv->dim_v; d++)
            out[d] = tl.o[(size_t)u * t->dvp + d] * inv + 0.0f;
    }
    if (a->n_sums > 0)
        add_weights(t, &tl, head, units, n);
}

static void attend_item(void *ctx, int item, void *scratch)
{
    const struct attend *t = ctx;
    int first = item % t->chunks * t->chunk, all = t->a->rows * t->group;

    attend_units(t, item / t->chunks, first,
                 all - first < t->chunk ? all - first : t->chunk, scratch);
}

/* With sums: a KV head's units one after the other, since all add to the same. */
static void attend_head(void *ctx, int head, void *scratch)
{
    const struct attend *t = ctx;
    int all = t->a->rows * t->group,
        chunk = chunk_of(t->a->kv, t->dvp, (live_entries(t->a->kv, head) + 31) / 32);

    for (int first = 0; first < all; first += chunk)
        attend_units(t, head, first, all - first < chunk ? all - first : chunk, scratch);
}

static void attend_one(struct kva_ops *ops, const struct kva_attn *a)
{
    struct kva_cpu *cpu = ops->impl;
    const struct kva_kv_view *kv = a->kv;
    struct attend t = {.k = cpu->k, .a = a, .dvp = padded(kv->dim_v)};
    int units, most = chunk_of(kv, t.dvp, 0);
    double held = 0;
    bool alone;

    t.group = a->heads / kv->kv_heads;
    units = a->rows * t.group;
    for (int h = 0; h < kv->kv_heads; h++)
        held += kv->len[h];
    if (units <= 0)
        return;
    alone = held * units * (kv->dim_k + kv->dim_v) < 2e5;
    if (a->n_sums > 0) {
        kva_cpu_pool_run(&cpu->pool, kv->kv_heads, alone, attend_head, &t);
        return;
    }
    t.chunk = units < most ? units : most;
    if (ops->threads > 1 && units >= 96 * ops->threads) {
        /* more items than threads, each still worth converting its pages */
        int share = (units + 2 * ops->threads - 1) / (2 * ops->threads);

        t.chunk = share < t.chunk ? share : t.chunk;
    }
    t.chunks = (units + t.chunk - 1) / t.chunk;
    kva_cpu_pool_run(&cpu->pool, kv->kv_heads * t.chunks, alone, attend_item, &t);
}

void kva_cpu_attend(struct kva_ops *ops, const struct kva_attn *a, int n)
{
    for (int i = 0; i < n; i++)
        attend_one(ops, &a[i]);
}

/* ---- mean attention of a window
 * ---------------------------------------------------------------
 *
 * Means: as many rows at a time as their weights fit the scratch. One pass over tiles of
 * 32 keys leaves exp(s - m'), m' the running maximum of the row; a second adds up rows,
 * ascending, each times exp(m' - m) / l of the tile. How many rows go at a time changes
 * no bit.
 *
 * Else, and when not even one row fits, two passes that compute the scores twice: first
 * the running maximum m and sum l of every query row, then exp(s - m) / l. */

struct window {
    const struct kva_cpu_kernels *k;
    const float *q;
    const int32_t *q_pos;
    int nq, heads, group;
    const struct kva_rows *keys;
    const int32_t *k_pos;
    float scale;
    float *out;
    const size_t *a_off;
    bool max;        /* the largest, no mean */
    const float *by; /* of `max`: factor of each row; NULL: 1 */
};

struct window_tiles {
    float *kt, *s, *q, *m, *l, *w;
    const int32_t *pos;
};

/* One pass over the keys of head h for units rows; y NULL: first pass. */
static void window_pass(const struct window *t, const struct window_tiles *tl, int h,
                        int units, float *y)
{
    int dim = t->keys->dim;
    size_t a = t->keys->off[h], n = t->keys->off[h + 1] - a;

    for (size_t j = 0; j < n; j += 32) {
        int held = n - j < 32 ? (int)(n - j) : 32;
        int32_t pos[32] = {0};
        uint32_t live = held == 32 ? UINT32_MAX : (1u << held) - 1, mask[UNITS];
        int32_t hi = INT32_MIN;
        float sum[32] = {0};

        memcpy(pos, t->k_pos + a + j, (size_t)held * sizeof *pos);
        for (int i = 0; i < held; i++)
            hi = pos[i] > hi ? pos[i] : hi;
        t->k->tile_k(t->keys->data + (a + j) * (size_t)dim, KVA_F32, held, dim, tl->kt,
                     t->keys->data + (a + j + 32) * (size_t)dim);
        if (y)
            memcpy(sum, y + j, (size_t)held * sizeof *sum);
        for (int u = 0; u < units; u += UNITS) {
            int b = units - u < UNITS ? units - u : UNITS;
            uint32_t any = 0;

            for (int i = 0; i < b; i++) {
                mask[i] =
                    tl->pos[u + i] >= hi ? live : visible(pos, live, tl->pos[u + i]);
                any |= mask[i];
            }
            if (!any) /* none of these rows sees any of these keys */
                continue;
            t->k->product(tl->q + (size_t)u * dim, (size_t)dim, b, dim, tl->kt, 16,
                          (size_t)dim * 16, 2, tl->s, 32, 0, 16);
            if (y)
                (t->max ? t->k->weights_max : t->k->weights_sum)(
                    tl->s, b, t->scale, mask, tl->m + u, tl->w + u, sum);
            else
                t->k->softmax_page(tl->s, b, t->scale, mask, tl->m + u, tl->l + u, tl->w,
                                   0);
        }
        if (y)
            memcpy(y + j, sum, (size_t)held * sizeof *sum);
    }
}

/* What one row sees of a tile, for `b` rows from tl->pos on. */
static void tile_masks(const struct window *t, const struct window_tiles *tl, size_t at,
                       int held, int b, uint32_t *mask)
{
    uint32_t live = held == 32 ? UINT32_MAX : (1u << held) - 1;
    int32_t pos[32] = {0}, hi = INT32_MIN;

    memcpy(pos, t->k_pos + at, (size_t)held * sizeof *pos);
    for (int i = 0; i < held; i++)
        hi = pos[i] > hi ? pos[i] : hi;
    for (int i = 0; i < b; i++)
        mask[i] = tl->pos[i] >= hi ? live : visible(pos, live, tl->pos[i]);
}

/* Adds the weights of `rows` rows to y[n]. Weights of a tile stand in tl->s as
 * [rows][32], tile after tile; the maxima they refer to in `top`, [tiles][rows]. */
static void add_rows(const struct window *t, const struct window_tiles *tl, int h,
                     int rows, float *top, float *y)
{
    int dim = t->keys->dim;
    size_t a = t->keys->off[h], n = t->keys->off[h + 1] - a;
    uint32_t mask[MEAN_ROWS];
    int32_t newest = tl->pos[0];

    for (int u = 1; u < rows; u++)
        newest = tl->pos[u] > newest ? tl->pos[u] : newest;
    while (n > 0 && t->k_pos[a + n - 1] > newest) /* seen by none of these rows */
        n--;
    for (size_t j = 0; j < n; j += 32) {
        int held = n - j < 32 ? (int)(n - j) : 32;
        float *s = tl->s + j * (size_t)rows;

        tile_masks(t, tl, a + j, held, rows, mask);
        t->k->tile_k(t->keys->data + (a + j) * (size_t)dim, KVA_F32, held, dim, tl->kt,
                     t->keys->data + (a + j + 32) * (size_t)dim);
        t->k->product(tl->q, (size_t)dim, rows, dim, tl->kt, 16, (size_t)dim * 16, 2, s,
                      32, 0, 16);
        t->k->softmax_page(s, rows, t->scale, mask, tl->m, tl->l, tl->w, 0);
        memcpy(top + j / 32 * (size_t)rows, tl->m, (size_t)rows * sizeof *top);
    }
    for (int u = 0; u < rows; u++)
        tl->l[u] = tl->l[u] == 0.0f ? 0.0f : 1.0f / tl->l[u];
    for (size_t j = 0; j < n; j += 32) {
        int held = n - j < 32 ? (int)(n - j) : 32;
        const float *m = top + j / 32 * (size_t)rows;
        float sum[32] = {0};

        for (int u = 0; u < rows; u++) {
            tl->w[u] = tl->l[u];
            if (m[u] < tl->m[u]) /* exp(-inf) = 0: nothing was visible yet */
                tl->w[u] *= kva_expf(m[u] - tl->m[u]);
        }
        memcpy(sum, y + j, (size_t)held * sizeof *sum);
        t->k->product(tl->w, 0, 1, rows, tl->s + j * (size_t)rows, 32, 16, 2, sum, 0, 1,
                      16);
        memcpy(y + j, sum, (size_t)held * sizeof *sum);
    }
}

/* Means of query head a; false when the scratch does not hold the weights of a row. */
static bool window_means(const struct window *t, int a, void *scratch)
{
    int h = a / t->group, dim = t->keys->dim;
    size_t n = t->keys->off[h + 1] - t->keys->off[h], tiles = (n + 31) / 32;
    size_t room = KVA_CPU_SCRATCH / sizeof(float) - (size_t)32 * dim;
    size_t most = room / ((size_t)dim + 3 + 33 * tiles);
    float *y = t->out + t->a_off[a], *top;
    struct window_tiles tl;

    if (most == 0)
        return false;
    most = most < MEAN_ROWS ? most : MEAN_ROWS;
    memset(y, 0, n * sizeof *y);
    tl.kt = scratch;
    tl.s = tl.kt + (size_t)32 * dim;
    tl.q = tl.s + 32 * tiles * most;
    tl.m = tl.q + most * (size_t)dim;
    tl.l = tl.m + most;
    tl.w = tl.l + most;
    top = tl.w + most;
    for (int i = 0; i < t->nq; i += (int)most) {
        int rows = t->nq - i < (int)most ? t->nq - i : (int)most;

        tl.pos = t->q_pos + i;
        for (int u = 0; u < rows; u++) {
            memcpy(tl.q + (size_t)u * dim,
                   t->q + ((size_t)(i + u) * t->heads + (size_t)a) * dim,
                   (size_t)dim * sizeof *tl.q);
            tl.m[u] = -INFINITY;
            tl.l[u] = 0.0f;
        }
        add_rows(t, &tl, h, rows, top, y);
    }
    for (size_t j = 0; j < n; j++)
        y[j] = y[j] / (float)t->nq;
    return true;
}

static void window_item(void *ctx, int a, void *scratch)
{
    const struct window *t = ctx;
    int h = a / t->group, dim = t->keys->dim;
    size_t n = t->keys->off[h + 1] - t->keys->off[h];
    float *y = t->out + t->a_off[a];
    struct window_tiles tl;
    int most = (int)((KVA_CPU_SCRATCH / sizeof(float) - tile_floats(dim, 0)) /
                     ((size_t)dim + 3));

    if (!t->max && window_means(t, a, scratch))
        return;
    memset(y, 0, n * sizeof *y);
    tl.kt = scratch;
    tl.s = tl.kt + (size_t)32 * dim;
    tl.m = tl.s + 32 * UNITS;
    tl.l = tl.m + most;
    tl.w = tl.l + most;
    tl.q = tl.w + most;
    for (int i0 = 0; i0 < t->nq; i0 += most) {
        int units = t->nq - i0 < most ? t->nq - i0 : most;

        tl.pos = t->q_pos + i0;
        for (int u = 0; u < units; u++) {
            memcpy(tl.q + (size_t)u * dim,
                   t->q + ((size_t)(i0 + u) * t->heads + (size_t)a) * dim,
                   (size_t)dim * sizeof *tl.q);
            tl.m[u] = -INFINITY;
            tl.l[u] = 0.0f;
        }
        window_pass(t, &tl, h, units, NULL);
        for (int u = 0; u < units; u++)
            tl.w[u] = tl.l[u] == 0.0f ? 0.0f : (t->by ? t->by[i0 + u] : 1.0f) / tl.l[u];
        window_pass(t, &tl, h, units, y);
    }
    for (size_t j = 0; !t->max && j < n; j++)
        y[j] = y[j] / (float)t->nq;
}

static void window_run(struct kva_ops *ops, struct window *t)
{
    struct kva_cpu *cpu = ops->impl;

    t->k = cpu->k;
    t->group = t->heads / t->keys->heads;
    kva_cpu_pool_run(&cpu->pool, t->heads,
                     (double)t->keys->off[t->keys->heads] * t->nq * t->keys->dim < 2e5,
                     window_item, t);
}

void kva_cpu_window_mean(struct kva_ops *ops, const float *q, const int32_t *q_pos,
                         int nq, int heads, const struct kva_rows *k,
                         const int32_t *k_pos, float scale, float *m, const size_t *a_off)
{
    window_run(ops, &(struct window){.q = q,
                                     .q_pos = q_pos,
                                     .nq = nq,
                                     .heads = heads,
                                     .keys = k,
                                     .k_pos = k_pos,
                                     .scale = scale,
                                     .out = m,
                                     .a_off = a_off});
}

void kva_cpu_window_max(struct kva_ops *ops, const float *q, const int32_t *q_pos, int nq,
                        int heads, const struct kva_rows *k, const int32_t *k_pos,
                        float scale, const float *by, float *m, const size_t *a_off)
{
    window_run(ops, &(struct window){.q = q,
                                     .q_pos = q_pos,
                                     .nq = nq,
                                     .heads = heads,
                                     .keys = k,
                                     .k_pos = k_pos,
                                     .scale = scale,
                                     .out = m,
                                     .a_off = a_off,
                                     .max = true,
                                     .by = by});
}
