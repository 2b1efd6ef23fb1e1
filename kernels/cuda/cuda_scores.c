/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuda_scores.c - the scorers of struct kva_ops on the device.
 *
 * Methods keep their arrays where they like; what is not the backend's memory is copied
 * in and out (cuda.h). Only the offsets of ragged rows are read here, to size the
 * launches. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/pool.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/project.h"
#include "kernels/cuda/window.h"

/* Ragged rows on the device. */
static struct kva_dev_rows rows_in(struct kva_cuda *cu, const struct kva_rows *x)
{
    struct kva_dev_rows d = {.heads = x->heads, .dim = x->dim};

    for (int h = 0; h < x->heads; h++)
        if (x->off[h + 1] - x->off[h] > d.most)
            d.most = x->off[h + 1] - x->off[h];
    d.off = kva_cuda_list(cu, x->off, ((size_t)x->heads + 1) * sizeof *x->off);
    d.data = kva_cuda_in(cu, x->data, x->off[x->heads] * (size_t)x->dim);
    return d;
}

/* Where a result goes of which only part may be written: what is not, stays. */
static float *result(struct kva_cuda *cu, float *y, size_t n, bool all)
{
    return all ? kva_cuda_out(cu, y, n) : kva_cuda_inout(cu, y, n);
}

/* Results of the query heads, in entries: where the last ends, and whether they leave no
 * gap. */
static size_t results(const struct kva_rows *x, int heads, const size_t *a_off, bool *all)
{
    size_t end = 0, sum = 0;

    for (int a = 0; a < heads; a++) {
        int h = a / (heads / x->heads);
        size_t n = x->off[h + 1] - x->off[h];

        sum += n;
        if (a_off[a] + n > end)
            end = a_off[a] + n;
    }
    *all = sum == end;
    return end;
}

static void measure(struct kva_ops *ops, const struct kva_rows *x, enum kva_measure what,
                    const float *c, float *s)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    struct kva_dev_rows rows;
    float *out;

    if (x->off[x->heads] == x->off[0])
        return;
    rows = rows_in(cu, x);
    if (c)
        c = kva_cuda_in(cu, c, (size_t)x->heads * (size_t)x->dim);
    out = result(cu, s, x->off[x->heads], x->off[0] == 0);
    if (!cu->failed)
        kva_dev_row_measure(&rows, what, c, out, cu->stream);
    kva_cuda_done(cu);
}

static void row_norm(struct kva_ops *ops, const struct kva_rows *x, float *s)
{
    measure(ops, x, KVA_NORM2, NULL, s);
}

static void row_abs(struct kva_ops *ops, const struct kva_rows *x, float *s)
{
    measure(ops, x, KVA_NORM1, NULL, s);
}

static void row_distance(struct kva_ops *ops, const struct kva_rows *x, const float *c,
                         float *s)
{
    measure(ops, x, KVA_DISTANCE, c, s);
}

static void row_cosine(struct kva_ops *ops, const struct kva_rows *x, const float *c,
                       float *s)
{
    measure(ops, x, KVA_COSINE, c, s);
}

static void row_mean(struct kva_ops *ops, const struct kva_rows *x, int unit, float *mean)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    struct kva_dev_rows rows = rows_in(cu, x);
    void *part = kva_cuda_scratch(cu, kva_dev_row_mean_scratch(&rows));
    float *out = kva_cuda_out(cu, mean, (size_t)x->heads * (size_t)x->dim);

    if (!cu->failed)
        kva_dev_row_mean(&rows, unit, part, out, cu->stream);
    kva_cuda_done(cu);
}

static void row_moments(struct kva_ops *ops, const float *x, int stride, int rows,
                        int heads, int dim, double *sum, double *square)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t n = (size_t)heads * (size_t)dim, each = sizeof(double) / sizeof(float);
    double *to, *products;

    if (rows < 1 || n == 0)
        return;
    x = kva_cuda_in(cu, x, (size_t)(rows - 1) * (size_t)stride + n);
    to = (double *)(void *)kva_cuda_inout(cu, (float *)(void *)sum, n * each);
    products = (double *)(void *)kva_cuda_inout(cu, (float *)(void *)square,
                                                n * (size_t)dim * each);
    if (!cu->failed)
        kva_dev_row_moments(x, (size_t)stride, rows, heads, dim, to, products,
                            cu->stream);
    kva_cuda_done(cu);
}

/* ---- weights of a window ---- */

struct window_call {
    const float *q;
    const int32_t *q_pos;
    int nq, heads;
    const struct kva_rows *k;
    const int32_t *k_pos;
    float scale;
    const float *by;
    const size_t *a_off;
};

static void window(struct kva_ops *ops, const struct window_call *c,
                   enum kva_window_what what, float *out)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t stride = (size_t)c->heads * (size_t)c->k->dim, n;
    struct kva_dev_window w = {
        .q_stride = stride, .nq = c->nq, .heads = c->heads, .scale = c->scale};
    struct kva_cuda_list l[3] = {
        {c->q_pos, (size_t)c->nq * sizeof *c->q_pos, NULL},
        {c->k_pos, c->k->off[c->k->heads] * sizeof *c->k_pos, NULL},
        {c->a_off, (size_t)c->heads * sizeof *c->a_off, NULL},
    };
    void *scratch;
    bool all;

    n = results(c->k, c->heads, c->a_off, &all);
    if (c->nq < 1 || n == 0)
        return;
    w.q = kva_cuda_in(cu, c->q, (size_t)c->nq * stride);
    w.k = rows_in(cu, c->k);
    kva_cuda_lists(cu, l, 3);
    w.q_pos = l[0].device;
    w.k_pos = l[1].device;
    w.a_off = l[2].device;
    w.by = c->by ? kva_cuda_in(cu, c->by, (size_t)c->nq) : NULL;
    scratch = kva_cuda_scratch(cu, kva_dev_window_scratch(&w));
    out = result(cu, out, n, all);
    if (!cu->failed)
        kva_dev_window(&w, what, scratch, out, NULL, cu->stream);
    kva_cuda_done(cu);
}

static void window_mean(struct kva_ops *ops, const float *q, const int32_t *q_pos, int nq,
                        int heads, const struct kva_rows *k, const int32_t *k_pos,
                        float scale, float *m, const size_t *a_off)
{
    struct window_call c = {q, q_pos, nq, heads, k, k_pos, scale, NULL, a_off};

    window(ops, &c, KVA_WINDOW_MEAN, m);
}

static void window_max(struct kva_ops *ops, const float *q, const int32_t *q_pos, int nq,
                       int heads, const struct kva_rows *k, const int32_t *k_pos,
                       float scale, const float *by, float *m, const size_t *a_off)
{
    struct window_call c = {q, q_pos, nq, heads, k, k_pos, scale, by, a_off};

    window(ops, &c, KVA_WINDOW_MAX, m);
}

static void pool_heads(struct kva_ops *ops, const struct kva_pool_heads *p, float *s)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t kv = (size_t)p->kv_heads, group = (size_t)p->heads / kv, read = 0;
    struct kva_cuda_list l[3] = {
        {p->a_off, (size_t)p->heads * sizeof *p->a_off, NULL},
        {p->off, (kv + 1) * sizeof *p->off, NULL},
        {p->n, kv * sizeof *p->n, NULL},
    };
    struct kva_dev_pool d = {.heads = p->heads,
                             .kv_heads = p->kv_heads,
                             .kernel = p->kernel,
                             .max = p->max,
                             .before = p->before};

    for (size_t h = 0; h < kv; h++) {
        size_t held = p->off[h + 1] - p->off[h];

        d.most = held > d.most ? held : d.most;
        for (size_t a = h * group; a < (h + 1) * group; a++)
            read = p->a_off[a] + p->n[h] > read ? p->a_off[a] + p->n[h] : read;
    }
    if (d.most == 0)
        return;
    if (p->kernel > KVA_POOL_WIDTH) {
        struct kva_error err = {0};

        (void)KVA_FAIL(&err, KVA_EUNSUPPORTED, "pooling over %d entries, at most %d",
                       p->kernel, KVA_POOL_WIDTH);
        kva_cuda_fail(cu, &err);
    }
    kva_cuda_lists(cu, l, 3);
    d.a_off = l[0].device;
    d.off = l[1].device;
    d.n = l[2].device;
    d.m = read > 0 ? kva_cuda_in(cu, p->m, read) : NULL;
    s = result(cu, s, p->off[kv], p->off[0] == 0);
    if (!cu->failed)
        kva_dev_pool_heads(&d, s, cu->stream);
    kva_cuda_done(cu);
}

static void attend_rows(struct kva_ops *ops, const struct kva_attend_rows *r)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    const size_t off[2] = {0, r->n}, a_off[1] = {0}, nq = (size_t)r->nq;
    struct kva_dev_window w = {.q_stride = r->q_stride,
                               .nq = r->nq,
                               .heads = 1,
                               .k = {.heads = 1, .dim = r->dim, .most = r->n},
                               .scale = r->scale};
    const float *v = NULL;
    float *weights, *z, *o = NULL;
    void *scratch, *parts = NULL;

    if (r->nq < 1 || r->n < 1)
        return;
    w.q = kva_cuda_in(cu, r->q, (nq - 1) * r->q_stride + (size_t)r->dim);
    w.k.off = kva_cuda_list(cu, off, sizeof off);
    w.k.data = kva_cuda_in(cu, r->k, r->n * (size_t)r->dim);
    w.a_off = kva_cuda_list(cu, a_off, sizeof a_off);
    if (r->k_pos) {
        w.q_pos = kva_cuda_list(cu, r->q_pos, nq * sizeof *r->q_pos);
        w.k_pos = kva_cuda_list(cu, r->k_pos, r->n * sizeof *r->k_pos);
    }
    z = r->z ? kva_cuda_out(cu, r->z, nq * r->n) : NULL;
    weights = r->w ? kva_cuda_out(cu, r->w, nq * r->n) : NULL;
    scratch = kva_cuda_scratch(cu, kva_dev_window_scratch(&w));
    if (r->o) {
        v = kva_cuda_in(cu, r->v, r->n * (size_t)r->v_dim);
        o = kva_cuda_out(cu, r->o, nq * (size_t)r->v_dim);
        parts =
            kva_cuda_scratch(cu, kva_dev_window_values_scratch(r->nq, r->n, r->v_dim));
    }
    if (!cu->failed && (weights || z))
        kva_dev_window(&w, KVA_WINDOW_ROWS, scratch, weights, z, cu->stream);
    if (!cu->failed && o)
        kva_dev_window_values(weights, r->nq, r->n, v, r->v_dim, parts, o, cu->stream);
    kva_cuda_done(cu);
}

/* ---- projected values ---- */

#define SLAB ((size_t)16 << 20) /* bytes of unpacked weights: what a cache holds */

/* Calls `each` for slabs of the rows of W as f32, in place where they are so stored. */
static void slabs(struct kva_cuda *cu, const struct kva_dev_weight *w,
                  void (*each)(struct kva_cuda *cu, void *ctx, const float *rows,
                               size_t stride, int from, int n),
                  void *ctx)
{
    size_t fit = SLAB / ((size_t)w->in * sizeof(float)) / 64 * 64;
    int slab = fit == 0 ? 64 : fit < (size_t)w->out ? (int)fit : w->out;
    float *unpacked;

    if (w->kind == KVA_DEV_F32) {
        if (!cu->failed)
            each(cu, ctx, (const float *)(const void *)w->values,
                 (size_t)w->chunks * KVA_CHUNK, 0, w->out);
        return;
    }
    unpacked = kva_cuda_scratch(cu, (size_t)slab * (size_t)w->in * sizeof(float));
    for (int o = 0; o < w->out && !cu->failed; o += slab) {
        int n = w->out - o < slab ? w->out - o : slab;

        kva_dev_dequant(w, o, n, unpacked, cu->stream);
        each(cu, ctx, unpacked, (size_t)w->in, o, n);
    }
}

struct projecting {
    struct kva_dev_project p;
    int out; /* of all slabs */
    float *s;
    double *sum, *gram; /* [heads][dim], [heads][dim][dim] */
};

static void project_slab(struct kva_cuda *cu, void *ctx, const float *rows, size_t stride,
                         int from, int n)
{
    struct projecting *t = ctx;

    t->p.w = rows;
    t->p.w_head = (size_t)t->p.v.dim;
    t->p.w_stride = stride;
    t->p.out = n;
    t->p.more_before = from > 0;
    t->p.more_after = from + n < t->out;
    kva_dev_project(&t->p, 1, t->s, cu->stream);
}

static void gram_slab(struct kva_cuda *cu, void *ctx, const float *rows, size_t stride,
                      int from, int n)
{
    struct projecting *t = ctx;

    (void)from;
    kva_dev_row_moments(rows, stride, n, t->p.heads, t->p.v.dim, t->sum, t->gram,
                        cu->stream);
}

/* || R v || with the factor R of W^a' W^a, made in double. */
static void project_factor(struct kva_cuda *cu, const struct kva_dev_weight *w,
                           struct projecting *t)
{
    size_t dim = (size_t)t->p.v.dim, n = (size_t)t->p.heads * dim;
    float *r = kva_cuda_scratch(cu, n * dim * sizeof *r);

    t->sum = kva_cuda_scratch(cu, n * sizeof *t->sum);
    t->gram = kva_cuda_scratch(cu, n * dim * sizeof *t->gram);
    if (cu->failed)
        return;
    kva_rt_fill(cu->rt, t->sum, 0, n * sizeof *t->sum);
    kva_rt_fill(cu->rt, t->gram, 0, n * dim * sizeof *t->gram);
    slabs(cu, w, gram_slab, t);
    if (cu->failed)
        return;
    kva_dev_factor(t->gram, t->p.heads, t->p.v.dim, r, cu->stream);
    t->p.w = r;
    t->p.w_head = dim * dim;
    t->p.w_stride = dim;
    t->p.out = t->p.v.dim;
    kva_dev_project(&t->p, 2, t->s, cu->stream);
}

static void project_norm(struct kva_ops *ops, const struct kva_weight *o, int heads,
                         const struct kva_rows *v, int norm, const size_t *a_off,
                         float *s)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    const struct kva_dev_weight *w = kva_cuda_weight(o);
    struct projecting t = {.p.heads = heads, .out = w->out};
    bool all;
    size_t n = results(v, heads, a_off, &all);

    if (n == 0)
        return;
    t.p.v = rows_in(cu, v);
    t.p.a_off = kva_cuda_list(cu, a_off, (size_t)heads * sizeof *a_off);
    t.s = result(cu, s, n, all);
    if (norm == 1)
        slabs(cu, w, project_slab, &t);
    else
        project_factor(cu, w, &t);
    kva_cuda_done(cu);
}

void kva_cuda_scores_table(struct kva_ops *ops)
{
    ops->row_norm = row_norm;
    ops->row_abs = row_abs;
    ops->row_mean = row_mean;
    ops->row_distance = row_distance;
    ops->row_cosine = row_cosine;
    ops->row_moments = row_moments;
    ops->window_mean = window_mean;
    ops->window_max = window_max;
    ops->attend_rows = attend_rows;
    ops->project_norm = project_norm;
    ops->pool_heads = pool_heads;
}
