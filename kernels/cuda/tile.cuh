/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tile.cuh - a tile of a product in f32: ROWS x 64 outputs by ROWS * 4 threads.
 *
 *     acc[i][j] += sum_d x[row + i][d] * y[column + j][d]
 *
 * One accumulator for each output, d ascending, fused: the logits are those of the CPU's
 * numerics f32, bit for bit. Operands stand in shared memory as [d][row], so that a
 * thread reads its four rows and its four columns with 16 bytes each; a row of it is
 * padded by four floats and a warp stores eight dims of four rows at a time, whose banks
 * 4 d + r all differ; each row gives a whole sector of 32 bytes. Thread t has
 * rows 4 * (t / 16) .. + 3 and columns 4 * (t % 16) .. + 3. */
#ifndef KVA_CUDA_TILE_CUH
#define KVA_CUDA_TILE_CUH

#include "kernels/cuda/shim.cuh"

#define TILE_COLS          64
#define TILE_DEEP          32 /* inner dims at a time */
#define TILE_WIDE(n)       ((n) + 4)
#define TILE_FLOATS(n)     (TILE_DEEP * TILE_WIDE(n))
#define TILE_THREADS(rows) ((rows)*4)

/* to[d][r] = x[r * stride + d] for N rows and TILE_DEEP dims, 0 beyond `rows` and `dims`.
 */
template <int N, int THREADS>
KVA_DEVICE void tile_load(const float *x, size_t stride, int rows, int dims, float *to)
{
    for (int at = (int)threadIdx.x; at < N * TILE_DEEP; at += THREADS) {
        int r = at / 128 * 4 + at / 8 % 4, d = at / 32 % 4 * 8 + at % 8;

        to[d * TILE_WIDE(N) + r] =
            r < rows && d < dims ? x[(size_t)r * stride + (size_t)d] : 0.0f;
    }
}

/* The same from rows that run along d: to[d][r] = x[d * stride + r]. */
template <int N, int THREADS>
KVA_DEVICE void tile_load_down(const float *x, size_t stride, int rows, int dims,
                               float *to)
{
    for (int at = (int)threadIdx.x; at < N * TILE_DEEP; at += THREADS) {
        int d = at / N, r = at % N;

        to[d * TILE_WIDE(N) + r] =
            r < rows && d < dims ? x[(size_t)d * stride + (size_t)r] : 0.0f;
    }
}

/* Four consecutive floats of shared memory. */
KVA_DEVICE void tile_quad(const float *x, float to[4])
{
    float4 v = *(const float4 *)(const void *)x;

    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
}

template <int ROWS>
KVA_DEVICE void tile_step(const float *xs, const float *ys, float acc[4][4])
{
    const float *x = xs + (int)threadIdx.x / 16 * 4, *y = ys + (int)threadIdx.x % 16 * 4;

    for (int d = 0; d < TILE_DEEP; d++) {
        float u[4], v[4];

        tile_quad(x + d * TILE_WIDE(ROWS), u);
        tile_quad(y + d * TILE_WIDE(TILE_COLS), v);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                acc[i][j] = fmaf(u[i], v[j], acc[i][j]);
    }
}

KVA_DEVICE void tile_zero(float acc[4][4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            acc[i][j] = 0.0f;
}

/* acc = x y' over `dim` dims; both operands go through xs and ys. Ends without a barrier:
 * xs and ys may be overwritten after the caller's next one. */
template <int ROWS>
KVA_DEVICE void tile_product(const float *x, size_t x_stride, int rows, const float *y,
                             size_t y_stride, int cols, int dim, float *xs, float *ys,
                             float acc[4][4])
{
    tile_zero(acc);
    for (int d0 = 0; d0 < dim; d0 += TILE_DEEP) {
        __syncthreads();
        tile_load<ROWS, TILE_THREADS(ROWS)>(x + d0, x_stride, rows, dim - d0, xs);
        tile_load<TILE_COLS, TILE_THREADS(ROWS)>(y + d0, y_stride, cols, dim - d0, ys);
        __syncthreads();
        tile_step<ROWS>(xs, ys, acc);
    }
}

#endif
