/* SPDX-License-Identifier: GPL-3.0-or-later */
/* leverage.c - approximate statistical leverage by a right Gaussian sketch.
 *
 * The two products with n rows, by Phi and by L^-1, are the backend's; the k x k matrix
 * between them is the backend's in double, too, and is factored here. */
#include "methods/leverage.h"

#include <math.h>

void kva_leverage_sketch(uint64_t seed, int layer, int head, int k, int dim, float *phi)
{
    struct kva_rng r = {
        kva_mix64(kva_mix64(kva_mix64(seed) ^ (uint64_t)layer) ^ (uint64_t)head)};

    for (int i = 0; i < k * dim; i++) {
        double u = 1 - kva_rng_unit(&r), angle = 6.283185307179586 * kva_rng_unit(&r);

        phi[i] = (float)(sqrt(-2 * log(u) / k) * cos(angle));
    }
}

/* y[n][out] = x[n][in] w', w[out][in] */
static enum kva_status product(struct kva_ops *ops, const float *w, int out, int in,
                               const float *x, size_t n, float *y, struct kva_error *err)
{
    struct kva_weight *weight = NULL;

    KVA_TRY(ops->weight_new(ops, KVA_F32, w, out, in, NULL, &weight, err));
    ops->matmul(ops, weight, x, (int)n, y, out);
    ops->weight_free(ops, weight);
    return KVA_OK;
}

/* The lower factor of g in its place; false when a pivot is not positive. */
static bool cholesky(double *g, int k)
{
    for (int i = 0; i < k; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = g[i * k + j];

            for (int c = 0; c < j; c++)
                sum -= g[i * k + c] * g[j * k + c];
            if (i == j && !(sum > 0 && isfinite(sum)))
                return false;
            g[i * k + j] = i == j ? sqrt(sum) : sum / g[j * k + j];
        }
    }
    return true;
}

/* inv[k][k] = L^-1, zero above the diagonal; `column` is scratch of k. */
static void invert(const double *l, int k, double *column, float *inv)
{
    for (int c = 0; c < k; c++) {
        for (int i = c; i < k; i++) {
            double sum = i == c ? 1 : 0;

            for (int j = c; j < i; j++)
                sum -= l[i * k + j] * column[j];
            column[i] = sum / l[i * k + i];
            inv[i * k + c] = (float)column[i];
        }
    }
}

enum kva_status kva_leverage_rows(struct kva_ops *ops, struct kva_arena *arena,
                                  const float *x, size_t n, int dim, const float *phi,
                                  int k, double ridge, float *s, struct kva_error *err)
{
    size_t kk = (size_t)k;
    const size_t off[] = {0, n};
    float *centred = kva_arena_alloc(arena, n * (size_t)dim, sizeof *centred);
    float *mean = kva_arena_alloc(arena, (size_t)dim, sizeof *mean);
    float *y = kva_arena_alloc(arena, n * kk, sizeof *y);
    float *z = kva_arena_alloc(arena, n * kk, sizeof *z);
    float *inv = kva_arena_alloc(arena, kk * kk, sizeof *inv);
    double *g = kva_arena_alloc(arena, kk * kk, sizeof *g);
    double *sum = kva_arena_alloc(arena, kk, sizeof *sum); /* of y; scratch then */
    struct kva_rows rows = {.off = off, .heads = 1, .dim = dim};

    if (centred == NULL || mean == NULL || y == NULL || z == NULL || inv == NULL ||
        g == NULL || sum == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "leverage of %zu rows", n);
    for (size_t i = 0; i < n * (size_t)dim; i++)
        centred[i] = x[i];
    rows.data = centred;
    ops->row_mean(ops, &rows, 0, mean);
    for (size_t j = 0; j < n; j++)
        for (int i = 0; i < dim; i++)
            centred[j * (size_t)dim + (size_t)i] -= mean[i];
    KVA_TRY(product(ops, phi, k, dim, centred, n, y, err));
    for (size_t i = 0; i < kk * kk; i++)
        g[i] = i % (kk + 1) == 0 ? ridge : 0;
    for (size_t i = 0; i < kk; i++)
        sum[i] = 0;
    ops->row_moments(ops, y, k, (int)n, 1, k, sum, g);
    if (!cholesky(g, k)) {
        for (size_t j = 0; j < n; j++)
            s[j] = NAN;
        return KVA_OK;
    }
    invert(g, k, sum, inv);
    KVA_TRY(product(ops, inv, k, k, y, n, z, err));
    rows = (struct kva_rows){.data = z, .off = off, .heads = 1, .dim = k};
    ops->row_norm(ops, &rows, s);
    for (size_t j = 0; j < n; j++)
        s[j] *= s[j];
    return KVA_OK;
}

void kva_leverage_standard(float *s, size_t n)
{
    double mean = 0, sum = 0, deviation;

    for (size_t j = 0; j < n; j++)
        mean += (double)s[j] / (double)n;
    for (size_t j = 0; j < n; j++)
        sum += ((double)s[j] - mean) * ((double)s[j] - mean);
    deviation = n > 1 ? sqrt(sum / (double)(n - 1)) : 0;
    deviation = deviation > 1e-6 ? deviation : 1e-6;
    for (size_t j = 0; j < n; j++)
        s[j] = (float)(((double)s[j] - mean) / deviation);
}
