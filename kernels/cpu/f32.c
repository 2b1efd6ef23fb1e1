/* SPDX-License-Identifier: GPL-3.0-or-later */
/* f32.c - numerics f32: products over packed weights, and the row operations.
 *
 * A product of many rows dequantises a pair of panels, a range of inputs at a
 * time, into scratch that stays in the second-level cache, and runs every row over it.
 * Sums continue across ranges through y, which holds them exactly, so ranges, pairs and
 * threads change no bit. Fewer rows (few_rows of the instruction set) use the weights
 * straight from registers instead. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define RANGE 768 /* inputs at a time: two panels of them are 96 KiB */

static struct kva_cpu *cpu_of(struct kva_ops *ops)
{
    return ops->impl;
}

struct product {
    const struct kva_cpu_kernels *k;
    const struct kva_weight *w;
    const float *x;
    float *y;
    int rows, y_stride;
};

static int last_lanes(const struct kva_weight *w, int panel1)
{
    return panel1 == w->panels ? w->out - 16 * (w->panels - 1) : 16;
}

/* panels c, c+1 (or only c) */
static void product_pair(const struct product *p, int c, int vecs, float *scratch)
{
    const struct kva_weight *w = p->w;
    int ranges = (w->in + RANGE - 1) / RANGE;
    int step = ((w->in + ranges - 1) / ranges + 31) / 32 * 32;
    int last = last_lanes(w, c + vecs);

    if (w->kind == KVA_PACK_F32) {
        const float *f = (const float *)(const void *)(w->packed + c * w->panel_bytes);

        p->k->product(p->x, (size_t)w->in, p->rows, w->in, f, 16, (size_t)w->in * 16,
                      vecs, p->y + 16 * c, (size_t)p->y_stride, 0, last);
        return;
    }
    for (int k0 = 0; k0 < w->in; k0 += step) {
        int kn = w->in - k0 < step ? w->in - k0 : step;

        for (int v = 0; v < vecs; v++)
            p->k->unpack(w, c + v, k0, kn, scratch + (size_t)v * (size_t)kn * 16);
        p->k->product(p->x + k0, (size_t)w->in, p->rows, kn, scratch, 16, (size_t)kn * 16,
                      vecs, p->y + 16 * c, (size_t)p->y_stride, k0 > 0, last);
    }
}

static void product_item(void *ctx, int item, void *scratch)
{
    const struct product *p = ctx;
    int c = item * KVA_CPU_GROUP, end = c + KVA_CPU_GROUP;

    if (end > p->w->panels)
        end = p->w->panels;
    if (p->rows <= p->k->few_rows && p->k->product_few) {
        p->k->product_few(p->w, c, end, p->x, (size_t)p->w->in, p->rows, p->y,
                          (size_t)p->y_stride);
        return;
    }
    for (; c < end; c += 2)
        product_pair(p, c, end - c >= 2 ? 2 : 1, scratch);
}

static void matmul(struct kva_ops *ops, const struct kva_weight *w, const float *x,
                   int rows, float *y, int y_stride)
{
    struct kva_cpu *cpu = cpu_of(ops);
    struct product p = {cpu->k, w, x, y, rows, y_stride};
    int items = (w->panels + KVA_CPU_GROUP - 1) / KVA_CPU_GROUP;

    if (rows > 0)
        kva_cpu_pool_run(&cpu->pool, items, (double)w->in * w->out * rows < 1e5,
                         product_item, &p);
}

static void rmsnorm(struct kva_ops *ops, const float *x, const float *w, float eps,
                    int rows, int dim, float *y)
{
    const struct kva_cpu_kernels *k = cpu_of(ops)->k;

    for (int r = 0; r < rows; r++)
        k->rmsnorm(x + (size_t)r * dim, w, eps, dim, y + (size_t)r * dim);
}

#define SLICE ((size_t)1 << 14)
struct elements {
    const struct kva_cpu_kernels *k;
    const float *gate, *up;
    size_t n;
    float *y;
};

static void silu_item(void *ctx, int item, void *scratch)
{
    const struct elements *e = ctx;
    size_t at = (size_t)item * SLICE, n = e->n - at < SLICE ? e->n - at : SLICE;

    (void)scratch;
    e->k->silu_mul(e->gate + at, e->up + at, n, e->y + at);
}

static void silu_mul(struct kva_ops *ops, const float *gate, const float *up, size_t n,
                     float *y)
{
    struct kva_cpu *cpu = cpu_of(ops);
    struct elements e = {cpu->k, gate, up, n, y};

    kva_cpu_pool_run(&cpu->pool, (int)((n + SLICE - 1) / SLICE), false, silu_item, &e);
}

static void add(struct kva_ops *ops, float *x, const float *y, size_t n)
{
    cpu_of(ops)->k->add(x, y, n);
}

/* ---- scorers
 * --------------------------------------------------------------------------------- */

struct rows_job {
    const struct kva_cpu_kernels *k;
    const struct kva_rows *x;
    const float *c; /* [heads][dim], or NULL */
    int unit;
    float *out;
};

static const float *row_at(const struct kva_rows *x, size_t j)
{
    return x->data + j * (size_t)x->dim;
}

static void norm_item(void *ctx, int h, void *scratch)
{
    const struct rows_job *t = ctx;

    (void)scratch;
    for (size_t j = t->x->off[h]; j < t->x->off[h + 1]; j++)
        t->out[j] = sqrtf(t->k->dot(row_at(t->x, j), row_at(t->x, j), t->x->dim));
}

static void absolute_item(void *ctx, int h, void *scratch)
{
    const struct rows_job *t = ctx;

    (void)scratch;
    for (size_t j = t->x->off[h]; j < t->x->off[h + 1]; j++)
        t->out[j] = t->k->absolute(row_at(t->x, j), t->x->dim);
}

static void distance_item(void *ctx, int h, void *scratch)
{
    const struct rows_job *t = ctx;
    const float *c = t->c + (size_t)h * t->x->dim;

    (void)scratch;
    for (size_t j = t->x->off[h]; j < t->x->off[h + 1]; j++)
        t->out[j] = sqrtf(t->k->distance2(row_at(t->x, j), c, t->x->dim));
}

static void cosine_item(void *ctx, int h, void *scratch)
{
    const struct rows_job *t = ctx;
    int dim = t->x->dim;
    const float *c = t->c + (size_t)h * dim;
    float cn = sqrtf(t->k->dot(c, c, dim));

    (void)scratch;
    for (size_t j = t->x->off[h]; j < t->x->off[h + 1]; j++) {
        const float *x = row_at(t->x, j);
        float xn = sqrtf(t->k->dot(x, x, dim));

        t->out[j] = xn == 0.0f || cn == 0.0f ? 0.0f : t->k->dot(x, c, dim) / (xn * cn);
    }
}

/* The sum over rows runs in double, ascending: 32,768 rows lose nothing. */
static void mean_item(void *ctx, int h, void *scratch)
{
    const struct rows_job *t = ctx;
    int dim = t->x->dim;
    float *mean = t->out + (size_t)h * dim;
    double *sum = scratch;
    size_t a = t->x->off[h], b = t->x->off[h + 1];

    for (int d0 = 0; d0 < dim; d0 += KVA_CPU_DIM) {
        int n = dim - d0 < KVA_CPU_DIM ? dim - d0 : KVA_CPU_DIM;

        memset(sum, 0, (size_t)n * sizeof *sum);
        for (size_t j = a; j < b; j++) {
            const float *x = row_at(t->x, j);
            float norm = t->unit ? sqrtf(t->k->dot(x, x, dim)) : 1.0f;

            if (norm == 0.0f)
                continue;
            for (int d = 0; d < n; d++)
                sum[d] += (double)(x[d0 + d] / norm);
        }
        for (int d = 0; d < n; d++)
            mean[d0 + d] = b > a ? (float)(sum[d] / (double)(b - a)) : 0.0f;
    }
}

static void run_rows(struct kva_ops *ops, const struct kva_rows *x, const float *c,
                     int unit, float *out, void (*item)(void *, int, void *))
{
    struct kva_cpu *cpu = cpu_of(ops);
    struct rows_job t = {cpu->k, x, c, unit, out};

    kva_cpu_pool_run(&cpu->pool, x->heads, x->off[x->heads] * (size_t)x->dim < 100000,
                     item, &t);
}

static void row_norm(struct kva_ops *ops, const struct kva_rows *x, float *s)
{
    run_rows(ops, x, NULL, 0, s, norm_item);
}

static void row_abs(struct kva_ops *ops, const struct kva_rows *x, float *s)
{
    run_rows(ops, x, NULL, 0, s, absolute_item);
}

static void row_mean(struct kva_ops *ops, const struct kva_rows *x, int unit, float *mean)
{
    run_rows(ops, x, NULL, unit, mean, mean_item);
}

static void row_distance(struct kva_ops *ops, const struct kva_rows *x, const float *c,
                         float *s)
{
    run_rows(ops, x, c, 0, s, distance_item);
}

static void row_cosine(struct kva_ops *ops, const struct kva_rows *x, const float *c,
                       float *s)
{
    run_rows(ops, x, c, 0, s, cosine_item);
}

void kva_cpu_f32_table(struct kva_ops *ops)
{
    ops->embed = kva_cpu_embed;
    ops->rmsnorm = rmsnorm;
    ops->matmul = matmul;
    ops->rope_table = kva_cpu_rope_table;
    ops->rope = kva_cpu_rope;
    ops->attend = kva_cpu_attend;
    ops->silu_mul = silu_mul;
    ops->add = add;
    ops->logits_stats = kva_cpu_logits_stats;
    ops->draw = kva_cpu_draw;
    ops->row_norm = row_norm;
    ops->row_abs = row_abs;
    ops->row_mean = row_mean;
    ops->row_distance = row_distance;
    ops->row_cosine = row_cosine;
    ops->window_mean = kva_cpu_window_mean;
    ops->window_max = kva_cpu_window_max;
    ops->row_moments = kva_cpu_row_moments;
    ops->pool_heads = kva_cpu_pool_heads;
    ops->attend_rows = kva_cpu_attend_rows;
}
