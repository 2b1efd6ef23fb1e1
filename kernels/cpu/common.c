/* SPDX-License-Identifier: GPL-3.0-or-later */
/* common.c - operations that are the same in every numerics. */
#include <math.h>

#include "kernels/cpu/cpu.h"

/* x[r] = scale * W[ids[r]], the row dequantised exactly */
void kva_cpu_embed(struct kva_ops *ops, const struct kva_weight *w, const int32_t *ids,
                   int rows, float scale, float *x)
{
    (void)ops;
    for (int r = 0; r < rows; r++, x += w->in) {
        size_t row = (size_t)(w->row_of ? w->row_of[ids[r]] : ids[r]);

        kva_dequant(w->type, w->data + row * w->row_bytes, (size_t)w->in, x);
        for (int i = 0; i < w->in; i++)
            x[i] = scale * x[i];
    }
}

/* models.md 4.2: angles in double, since p * inv in float loses 0.008 rad at 131,072 */
void kva_cpu_rope_table(struct kva_ops *ops, const int32_t *pos, int rows,
                        const float *inv_freq, int half, float mscale, float *cos_sin)
{
    (void)ops;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < half; i++, cos_sin += 2) {
            double a = (double)pos[r] * (double)inv_freq[i];

            cos_sin[0] = (float)((double)mscale * cos(a));
            cos_sin[1] = (float)((double)mscale * sin(a));
        }
}

void kva_cpu_rope(struct kva_ops *ops, float *x, int stride, int rows, int heads, int dim,
                  const float *cos_sin, int half)
{
    (void)ops;
    for (int r = 0; r < rows; r++, cos_sin += 2 * half)
        for (int h = 0; h < heads; h++) {
            float *u = x + (size_t)r * stride + (size_t)h * dim, *v = u + half;

            for (int i = 0; i < half; i++) {
                float c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
                float a = u[i] * c - v[i] * s, b = u[i] * s + v[i] * c;

                u[i] = a;
                v[i] = b;
            }
        }
}

/* A NaN orders as -inf (ruling R16), the lowest id wins a tie, -log softmax in double. */
static void row_stats(const float *logits, int n, int32_t target, int32_t *argmax,
                      double *nll, bool *finite)
{
    int best = 0;
    float top = -INFINITY, bad = 0.0f;
    double sum = 0;

    for (int i = 0; i < n; i++) {
        bad += logits[i] * 0.0f; /* NaN as soon as one is not finite */
        if (logits[i] > top) {
            top = logits[i];
            best = i;
        }
    }
    *argmax = best;
    *finite = bad == 0.0f;
    if (target < 0)
        return;
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)top);
    *nll = log(sum) - ((double)logits[target] - (double)top);
}

void kva_cpu_logits_stats(struct kva_ops *ops, const float *logits, int n, int rows,
                          const int32_t *target, int32_t *argmax, double *nll,
                          bool *finite)
{
    (void)ops;
    for (int r = 0; r < rows; r++)
        row_stats(logits + (size_t)r * (size_t)n, n, target && nll ? target[r] : -1,
                  &argmax[r], nll ? &nll[r] : NULL, &finite[r]);
}

/* ---- moments ---- */

#define MOMENT_ROWS 64

struct moments {
    const struct kva_cpu_kernels *k;
    const float *x;
    int stride, rows, dim;
    double *sum, *square;
};

/* Item: one head. Rows become doubles, padded with zeros to a multiple of eight. */
static void moments_item(void *ctx, int h, void *scratch)
{
    const struct moments *t = ctx;
    int dim = t->dim, wide = (dim + 7) / 8 * 8;
    double *v = scratch, *sum = t->sum + (size_t)h * dim;

    for (int r0 = 0; r0 < t->rows; r0 += MOMENT_ROWS) {
        int n = t->rows - r0 < MOMENT_ROWS ? t->rows - r0 : MOMENT_ROWS;

        for (int r = 0; r < n; r++) {
            const float *x =
                t->x + (size_t)(r0 + r) * (size_t)t->stride + (size_t)h * dim;
            double *row = v + (size_t)r * wide;

            for (int i = 0; i < dim; i++) {
                row[i] = (double)x[i];
                sum[i] += row[i];
            }
            for (int i = dim; i < wide; i++)
                row[i] = 0;
        }
        t->k->products(v, n, wide, t->square + (size_t)h * dim * dim, dim);
    }
}

void kva_cpu_row_moments(struct kva_ops *ops, const float *x, int stride, int rows,
                         int heads, int dim, double *sum, double *square)
{
    struct kva_cpu *cpu = ops->impl;
    struct moments t = {cpu->k, x, stride, rows, dim, sum, square};

    kva_cpu_pool_run(&cpu->pool, heads, (double)rows * heads * dim * dim < 2e5,
                     moments_item, &t);
}

/* ---- pooled attention ---- */

#define POOL_TILE 4096

struct pooling {
    const struct kva_pool_heads *p;
    float *s;
    int tiles; /* of a KV head, as many as the longest has */
};

/* x[i - lo] of query head a, or their mean over the group, for lo <= i < hi */
static void pool_load(const struct kva_pool_heads *p, int a, int group, size_t lo,
                      size_t hi, double *x)
{
    for (size_t i = lo; i < hi; i++)
        x[i - lo] = 0;
    for (int g = 0; g < group; g++) {
        const float *m = p->m + p->a_off[a + g];

        for (size_t i = lo; i < hi; i++)
            x[i - lo] += (double)m[i];
    }
    for (size_t i = lo; group > 1 && i < hi; i++)
        x[i - lo] /= group;
}

/* z[j - j0] += the pool of x around j, entries lo <= i < hi at hand, those of [0, n) that
 * are near among them */
static void pool_add(const struct kva_pool_heads *p, const double *x, size_t lo,
                     size_t hi, size_t j0, size_t j1, double *z)
{
    size_t half = (size_t)p->kernel / 2;

    for (size_t j = j0; j < j1; j++) {
        size_t begin = j < half ? 0 : j - half, end = j + half < hi ? j + half + 1 : hi;
        double best = x[begin - lo], sum = 0;

        for (size_t i = begin - lo; i < end - lo; i++) {
            best = x[i] > best ? x[i] : best;
            sum += x[i];
        }
        z[j - j0] += p->max ? best : sum / p->kernel;
    }
}

/* Item: a tile of one KV head. */
static void pool_item(void *ctx, int item, void *scratch)
{
    const struct pooling *t = ctx;
    const struct kva_pool_heads *p = t->p;
    int h = item / t->tiles, group = p->heads / p->kv_heads;
    size_t held = p->off[h + 1] - p->off[h], n = p->n[h], half = (size_t)p->kernel / 2;
    size_t j0 = (size_t)(item % t->tiles) * POOL_TILE, j1 = j0 + POOL_TILE;
    double *z = scratch, *x = z + POOL_TILE;
    float *s = t->s + p->off[h];

    for (size_t j = j0 > n ? j0 : n; j < j1 && j < held; j++)
        s[j] = 0;
    j1 = j1 < n ? j1 : n;
    if (j0 >= j1)
        return;
    size_t lo = j0 < half ? 0 : j0 - half, hi = j1 + half < n ? j1 + half : n;

    for (size_t j = j0; j < j1; j++)
        z[j - j0] = 0;
    if (p->before) {
        pool_load(p, h * group, group, lo, hi, x);
        pool_add(p, x, lo, hi, j0, j1, z);
    }
    for (int a = h * group; !p->before && a < (h + 1) * group; a++) {
        pool_load(p, a, 1, lo, hi, x);
        pool_add(p, x, lo, hi, j0, j1, z);
    }
    for (size_t j = j0; j < j1; j++)
        s[j] = (float)(p->before ? z[j - j0] : z[j - j0] / group);
}

void kva_cpu_pool_heads(struct kva_ops *ops, const struct kva_pool_heads *p, float *s)
{
    struct kva_cpu *cpu = ops->impl;
    struct pooling t = {.p = p, .s = s, .tiles = 1};

    for (int h = 0; h < p->kv_heads; h++) {
        size_t tiles = (p->off[h + 1] - p->off[h] + POOL_TILE - 1) / POOL_TILE;

        t.tiles = (int)tiles > t.tiles ? (int)tiles : t.tiles;
    }
    kva_cpu_pool_run(&cpu->pool, p->kv_heads * t.tiles,
                     (double)p->off[p->kv_heads] * p->heads * p->kernel < 2e6, pool_item,
                     &t);
}
