/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuda_rows.c - the row operations of the device backend's table: pointers become device
 * memory, then one launch. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/rows.h"

static void rmsnorm(struct kva_ops *ops, const float *x, const float *w, float eps,
                    int rows, int dim, float *y)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t n = (size_t)rows * (size_t)dim;
    const float *from = kva_cuda_in(cu, x, n), *weight = kva_cuda_in(cu, w, (size_t)dim);
    float *to = kva_cuda_out(cu, y, n);

    if (!cu->failed)
        kva_dev_rmsnorm(from, weight, eps, rows, dim, to, cu->stream);
    kva_cuda_done(cu);
}

static void rope_table(struct kva_ops *ops, const int32_t *pos, int rows,
                       const float *inv_freq, int half, float mscale, float *cos_sin)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    const int32_t *list = kva_cuda_list(cu, pos, (size_t)rows * sizeof *pos);
    const float *freq = kva_cuda_in(cu, inv_freq, (size_t)half);
    float *to = kva_cuda_out(cu, cos_sin, (size_t)rows * 2 * (size_t)half);

    if (!cu->failed)
        kva_dev_rope_table(list, rows, freq, half, mscale, to, cu->stream);
    kva_cuda_done(cu);
}

static void rope(struct kva_ops *ops, float *x, int stride, int rows, int heads, int dim,
                 const float *cos_sin, int half)
{
    struct kva_cuda *cu = kva_cuda_of(ops);

    if (rows < 1)
        return;
    float *at = kva_cuda_inout(
        cu, x, (size_t)(rows - 1) * (size_t)stride + (size_t)heads * (size_t)dim);
    const float *cs = kva_cuda_in(cu, cos_sin, (size_t)rows * 2 * (size_t)half);

    if (!cu->failed)
        kva_dev_rope(at, stride, rows, heads, dim, cs, half, cu->stream);
    kva_cuda_done(cu);
}

static void silu_mul(struct kva_ops *ops, const float *gate, const float *up, size_t n,
                     float *y)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    const float *g = kva_cuda_in(cu, gate, n), *u = kva_cuda_in(cu, up, n);
    float *to = kva_cuda_out(cu, y, n);

    if (!cu->failed)
        kva_dev_silu_mul(g, u, n, to, cu->stream);
    kva_cuda_done(cu);
}

static void add(struct kva_ops *ops, float *x, const float *y, size_t n)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    float *to = kva_cuda_inout(cu, x, n);
    const float *from = kva_cuda_in(cu, y, n);

    if (!cu->failed)
        kva_dev_add(to, from, n, cu->stream);
    kva_cuda_done(cu);
}

static void logits_stats(struct kva_ops *ops, const float *logits, int n, int rows,
                         const int32_t *target, int32_t *argmax, double *nll,
                         bool *finite)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t m = (size_t)rows;
    const float *z = kva_cuda_in(cu, logits, m * (size_t)n);
    const int32_t *want =
        target && nll ? kva_cuda_list(cu, target, m * sizeof *target) : NULL;
    int32_t *best = kva_cuda_result(cu, argmax, m * sizeof *argmax);
    uint8_t *good = kva_cuda_result(cu, finite, m);
    double *loss = want ? kva_cuda_result(cu, nll, m * sizeof *nll) : NULL;

    _Static_assert(sizeof *finite == sizeof *good, "one byte a flag");
    if (loss) /* rows without a target keep what the caller has there */
        kva_rt_upload(cu->rt, loss, nll, m * sizeof *nll);
    if (!cu->failed)
        kva_dev_logits_stats(z, n, rows, want, best, loss, good, cu->stream);
    kva_cuda_done(cu);
}

static void draw(struct kva_ops *ops, const float *logits, int n, int rows,
                 float temperature, int top_k, float top_p, const double *u, int32_t *id)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t m = (size_t)rows;
    const float *z = kva_cuda_in(cu, logits, m * (size_t)n);
    const double *at = kva_cuda_list(cu, u, m * sizeof *u);
    int32_t *to = kva_cuda_result(cu, id, m * sizeof *id);

    if (!cu->failed)
        kva_dev_sample(z, n, rows, temperature, top_k, top_p, at, to, cu->stream);
    kva_cuda_done(cu);
}

void kva_cuda_rows_table(struct kva_ops *ops)
{
    ops->rmsnorm = rmsnorm;
    ops->rope_table = rope_table;
    ops->rope = rope;
    ops->silu_mul = silu_mul;
    ops->add = add;
    ops->logits_stats = logits_stats;
    ops->draw = draw;
}
