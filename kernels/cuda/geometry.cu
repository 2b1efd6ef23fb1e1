/* SPDX-License-Identifier: GPL-3.0-or-later */
/* geometry.cu - lengths, means, distances, angles and moments of rows (geometry.h).
 *
 * A warp takes a row; lane l adds up dims l, l + 32, ... in double, so a row is read once
 * in whole sectors. These kernels are bound by memory: 2 FLOP a byte. */
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/warp.cuh"

#define ROWS_WARP 4 /* rows of a warp */
#define WARPS     8

KVA_DEVICE double square_sum(const float *x, int dim, int lane)
{
    double sum = 0;

    for (int d = lane; d < dim; d += KVA_WARP)
        sum = fma((double)x[d], (double)x[d], sum);
    return kva_warp_sum(sum);
}

/* grid (rows / (WARPS * ROWS_WARP), heads) */
template <int WHAT>
KVA_KERNEL(WARPS *KVA_WARP)
measure(struct kva_dev_rows x, const float *centre, float *s)
{
    int lane = (int)threadIdx.x % KVA_WARP, warp = (int)threadIdx.x / KVA_WARP;
    size_t h = blockIdx.y, first = x.off[h], n = x.off[h + 1] - first;
    size_t j0 = ((size_t)blockIdx.x * WARPS + (size_t)warp) * ROWS_WARP;
    const float *c =
        WHAT == KVA_DISTANCE || WHAT == KVA_COSINE ? centre + h * (size_t)x.dim : nullptr;
    double cc = 0;

    if (j0 >= n) /* the whole warp */
        return;
    if (WHAT == KVA_COSINE)
        cc = sqrt(square_sum(c, x.dim, lane));
    for (size_t j = j0; j < j0 + ROWS_WARP && j < n; j++) {
        const float *row = x.data + (first + j) * (size_t)x.dim;
        double sum = 0, with = 0;

        for (int d = lane; d < x.dim; d += KVA_WARP) {
            double v = (double)row[d];

            if (WHAT == KVA_NORM1) {
                sum += fabs(v);
            } else if (WHAT == KVA_DISTANCE) {
                v -= (double)c[d];
                sum = fma(v, v, sum);
            } else {
                sum = fma(v, v, sum);
                if (WHAT == KVA_COSINE)
                    with = fma(v, (double)c[d], with);
            }
        }
        sum = kva_warp_sum(sum);
        if (WHAT == KVA_COSINE) {
            with = kva_warp_sum(with);
            sum = sum > 0 && cc > 0 ? with / (sqrt(sum) * cc) : 0;
        } else if (WHAT != KVA_NORM1) {
            sum = sqrt(sum);
        }
        if (lane == 0)
            s[first + j] = (float)sum;
    }
}

void kva_dev_row_measure(const struct kva_dev_rows *x, enum kva_measure what,
                         const float *c, float *s, void *stream)
{
    dim3 grid((unsigned)((x->most + WARPS * ROWS_WARP - 1) / (WARPS * ROWS_WARP)),
              (unsigned)x->heads);

    if (x->most == 0 || x->heads == 0)
        return;
    if (what == KVA_NORM2)
        KVA_LAUNCH(measure<KVA_NORM2>, grid, WARPS * KVA_WARP, 0, stream, *x, c, s);
    else if (what == KVA_NORM1)
        KVA_LAUNCH(measure<KVA_NORM1>, grid, WARPS * KVA_WARP, 0, stream, *x, c, s);
    else if (what == KVA_DISTANCE)
        KVA_LAUNCH(measure<KVA_DISTANCE>, grid, WARPS * KVA_WARP, 0, stream, *x, c, s);
    else
        KVA_LAUNCH(measure<KVA_COSINE>, grid, WARPS * KVA_WARP, 0, stream, *x, c, s);
}

/* ---- means ---- */

#define MEAN_DIMS 256 /* dims of a block */
#define MEAN_REGS (MEAN_DIMS / KVA_WARP)

static size_t parts_of(const struct kva_dev_rows *x)
{
    return (x->most + KVA_MEAN_PART - 1) / KVA_MEAN_PART;
}

size_t kva_dev_row_mean_scratch(const struct kva_dev_rows *x)
{
    return parts_of(x) * (size_t)x->heads * (size_t)x->dim * sizeof(double);
}

/* part[p][h][dim]: the sum of rows KVA_MEAN_PART * p .. of head h. Warp w adds rows w, w
 * + WARPS, ...; then the warps are added in order. grid (parts, heads, dims / MEAN_DIMS)
 */
template <bool UNIT>
KVA_KERNEL(WARPS *KVA_WARP)
mean_parts(struct kva_dev_rows x, double *part)
{
    KVA_SHARED(double, of_warp, WARPS *MEAN_DIMS);
    int lane = (int)threadIdx.x % KVA_WARP, warp = (int)threadIdx.x / KVA_WARP;
    int d0 = (int)blockIdx.z * MEAN_DIMS, d = d0 + (int)threadIdx.x;
    size_t h = blockIdx.y, first = x.off[h], n = x.off[h + 1] - first;
    size_t j0 = (size_t)blockIdx.x * KVA_MEAN_PART;
    size_t end = j0 + KVA_MEAN_PART < n ? j0 + KVA_MEAN_PART : n;
    double sum[MEAN_REGS] = {0}, all = 0;

    for (size_t j = j0 + (size_t)warp; j < end; j += WARPS) {
        const float *row = x.data + (first + j) * (size_t)x.dim;
        double norm = UNIT ? sqrt(square_sum(row, x.dim, lane)) : 1;

        if (norm == 0)
            continue;
#pragma unroll
        for (int i = 0; i < MEAN_REGS; i++) {
            int at = d0 + lane + i * KVA_WARP;

            if (at < x.dim)
                sum[i] += UNIT ? (double)row[at] / norm : (double)row[at];
        }
    }
#pragma unroll
    for (int i = 0; i < MEAN_REGS; i++)
        of_warp[warp * MEAN_DIMS + lane + i * KVA_WARP] = sum[i];
    if (!KVA_MUT(41))
        __syncthreads();
    for (int w = 0; w < WARPS; w++)
        all += of_warp[w * MEAN_DIMS + (int)threadIdx.x];
    if (d < x.dim)
        part[((size_t)blockIdx.x * gridDim.y + h) * (size_t)x.dim + (size_t)d] = all;
}

KVA_KERNEL(256) mean_close(struct kva_dev_rows x, const double *part, float *mean)
{
    size_t width = (size_t)x.heads * (size_t)x.dim;
    size_t at = (size_t)blockIdx.x * 256 + threadIdx.x, h = at / (size_t)x.dim;
    double sum = 0;

    if (at >= width)
        return;
    size_t n = x.off[h + 1] - x.off[h];
    for (size_t p = 0; p * KVA_MEAN_PART < n; p++)
        sum += part[p * width + at];
    mean[at] = n > 0 ? (float)(sum / (double)n) : 0.0f;
}

void kva_dev_row_mean(const struct kva_dev_rows *x, int unit, void *part, float *mean,
                      void *stream)
{
    unsigned dims = (unsigned)((x->dim + MEAN_DIMS - 1) / MEAN_DIMS);
    dim3 grid((unsigned)parts_of(x), (unsigned)x->heads, dims);
    size_t width = (size_t)x->heads * (size_t)x->dim;
    double *to = (double *)part;

    if (width == 0)
        return;
    if (x->most > 0 && unit)
        KVA_LAUNCH(mean_parts<true>, grid, WARPS * KVA_WARP, 0, stream, *x, to);
    else if (x->most > 0)
        KVA_LAUNCH(mean_parts<false>, grid, WARPS * KVA_WARP, 0, stream, *x, to);
    KVA_LAUNCH(mean_close, (unsigned)((width + 255) / 256), 256, 0, stream, *x,
               (const double *)to, mean);
}

/* ---- moments ---- */

#define SIDE 16 /* a block holds SIDE x SIDE products */
#define DEEP 32 /* rows at a time */

/* grid (dim / SIDE, dim / SIDE, heads), of which the lower triangle works */
KVA_KERNEL(SIDE *SIDE)
moments(const float *x, size_t stride, int rows, int dim, double *sum, double *square)
{
    KVA_SHARED(float, down, DEEP *SIDE);
    KVA_SHARED(float, across, DEEP *SIDE);
    int t = (int)threadIdx.x, i0 = (int)blockIdx.y * SIDE, j0 = (int)blockIdx.x * SIDE;
    int i = i0 + t / SIDE, j = j0 + t % SIDE;
    size_t h = blockIdx.z;
    bool product = i < dim && j <= i, one = blockIdx.x == 0 && t % SIDE == 0 && i < dim;
    double *to = square + (h * (size_t)dim + (size_t)(product ? i : 0)) * (size_t)dim +
                 (product ? j : 0);
    double of = product ? *to : 0, add = one ? sum[h * (size_t)dim + (size_t)i] : 0;

    if (blockIdx.x > blockIdx.y)
        return;
    x += h * (size_t)dim;
    for (int r0 = 0; r0 < rows; r0 += DEEP) {
        int n = rows - r0 < DEEP ? rows - r0 : DEEP;

        for (int at = t; at < DEEP * SIDE; at += SIDE * SIDE) {
            int r = at / SIDE, d = at % SIDE;
            const float *row = x + (size_t)(r0 + r) * stride;

            down[at] = r < n && i0 + d < dim ? row[i0 + d] : 0.0f;
            across[at] = r < n && j0 + d < dim ? row[j0 + d] : 0.0f;
        }
        __syncthreads();
        for (int r = 0; r < n; r++) {
            double a = (double)down[r * SIDE + t / SIDE];

            of = fma(a, (double)across[r * SIDE + t % SIDE], of);
            add += a;
        }
        if (!KVA_MUT(42))
            __syncthreads();
    }
    if (product)
        *to = of;
    if (one)
        sum[h * (size_t)dim + (size_t)i] = add;
}

void kva_dev_row_moments(const float *x, size_t stride, int rows, int heads, int dim,
                         double *sum, double *square, void *stream)
{
    unsigned side = (unsigned)((dim + SIDE - 1) / SIDE);

    if (rows > 0 && heads > 0 && dim > 0)
        KVA_LAUNCH(moments, dim3(side, side, (unsigned)heads), SIDE * SIDE, 0, stream, x,
                   stride, rows, dim, sum, square);
}
