/* SPDX-License-Identifier: GPL-3.0-or-later */
/* project.cu - norms of projected values, blockwise (project.h).
 *
 * A block keeps a tile of ROWS values in shared memory, whole, and streams W^a past it in
 * tiles of 128 outputs by 32 dims; products, absolute values and row sums stay in
 * registers. Thread t has rows q * 32 + 4 * (t / 16) .. + 3, q < ROWS / 32, and outputs c
 * * 64 + 4 * (t % 16) .. + 3, c < 2: 64 products for 64 bytes of shared memory. One f32
 * accumulator a product, dims ascending, fused. Per tile of W a thread adds up its
 * outputs in f32 and the tiles in double; the 16 threads of a row meet at the end. 64
 * rows up to 128 dims, 32 beyond. W is read n / ROWS times, from the second-level cache:
 * ROWS / 2 FLOP a byte. */
#include "kernels/cuda/project.h"
#include "kernels/cuda/tile.cuh"

#define THREADS 128
#define OUTS    128

static size_t shared_bytes(int rows, int dim)
{
    size_t steps = (size_t)(dim + TILE_DEEP - 1) / TILE_DEEP;

    return (steps * (size_t)TILE_FLOATS(rows) + TILE_FLOATS(OUTS)) * sizeof(float);
}

/* acc += v w' over the dims of one tile. */
template <int QUADS>
KVA_DEVICE void multiply(const float *vs, const float *ws, float acc[4 * QUADS][8])
{
    const float *v = vs + (int)threadIdx.x / 16 * 4, *w = ws + (int)threadIdx.x % 16 * 4;

#pragma unroll(4 / QUADS) /* more costs registers */
    for (int d = 0; d < TILE_DEEP; d++) {
        float a[4 * QUADS], b[8];

#pragma unroll
        for (int q = 0; q < QUADS; q++)
            tile_quad(v + d * TILE_WIDE(32 * QUADS) + 32 * q, a + 4 * q);
        tile_quad(w + d * TILE_WIDE(OUTS), b);
        tile_quad(w + d * TILE_WIDE(OUTS) + 64, b + 4);
#pragma unroll
        for (int i = 0; i < 4 * QUADS; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
}

/* grid (rows / ROWS, heads) */
template <int ROWS, int NORM>
KVA_KERNEL(THREADS)
project(struct kva_dev_project p, float *s)
{
    KVA_DYN_SHARED(float, ws);
    float *vs = ws + TILE_FLOATS(OUTS);
    const int quads = ROWS / 32;
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    int a = (int)blockIdx.y, h = a / (p.heads / p.v.heads), dim = p.v.dim;
    size_t first = p.v.off[h], n = p.v.off[h + 1] - first, j0 = (size_t)blockIdx.x * ROWS;
    int rows = n - j0 < ROWS ? (int)(n - j0) : ROWS;
    const float *w = p.w + (size_t)a * p.w_head;
    double sum[4 * quads] = {0};

    if (j0 >= n) /* the whole block */
        return;
    for (int d0 = 0; d0 < dim; d0 += TILE_DEEP)
        tile_load<ROWS, THREADS>(p.v.data + (first + j0) * (size_t)dim + d0, (size_t)dim,
                                 rows, dim - d0, vs + d0 / TILE_DEEP * TILE_FLOATS(ROWS));
    for (int o0 = 0; o0 < p.out; o0 += OUTS) {
        int outs = p.out - o0 < OUTS ? p.out - o0 : OUTS;
        float acc[4 * quads][8] = {{0}};

        for (int d0 = 0; d0 < dim; d0 += TILE_DEEP) {
            __syncthreads();
            tile_load<OUTS, THREADS>(w + (size_t)o0 * p.w_stride + d0, p.w_stride, outs,
                                     dim - d0, ws);
            if (!KVA_MUT(49))
                __syncthreads();
            multiply<quads>(vs + d0 / TILE_DEEP * TILE_FLOATS(ROWS), ws, acc);
        }
#pragma unroll
        for (int i = 0; i < 4 * quads; i++) {
            float of = 0.0f; /* outputs beyond `outs` are products with 0 */

#pragma unroll
            for (int j = 0; j < 8; j++)
                of = NORM == 1 ? of + fabsf(acc[i][j]) : fmaf(acc[i][j], acc[i][j], of);
            sum[i] += (double)of;
        }
    }
#pragma unroll
    for (int x = 8; x > 0; x /= 2)
#pragma unroll
        for (int i = 0; i < 4 * quads; i++)
            sum[i] += __shfl_down_sync(KVA_FULL, sum[i], x);
#pragma unroll
    for (int i = 0; i < 4 * quads; i++) {
        int row = i / 4 * 32 + ty * 4 + i % 4;

        if (tx == 0 && row < rows) {
            float *to = s + p.a_off[a] + j0 + (size_t)row;

            if (p.more_before)
                sum[i] += (double)*to;
            *to = (float)(NORM == 1 || p.more_after ? sum[i] : sqrt(sum[i]));
        }
    }
}

template <int ROWS, int NORM>
static void launch(const struct kva_dev_project *p, float *s, void *stream)
{
    auto kernel = project<ROWS, NORM>;
    dim3 grid((unsigned)((p->v.most + ROWS - 1) / ROWS), (unsigned)p->heads);

    if (shared_bytes(ROWS, p->v.dim) > 48 << 10)
        KVA_SHARED_LIMIT(kernel, shared_bytes(ROWS, p->v.dim));
    KVA_LAUNCH(kernel, grid, THREADS, shared_bytes(ROWS, p->v.dim), stream, *p, s);
}

void kva_dev_project(const struct kva_dev_project *p, int norm, float *s, void *stream)
{
    if (p->v.most == 0 || p->heads == 0)
        return;
    if (p->v.dim <= 128 && norm == 1)
        launch<64, 1>(p, s, stream);
    else if (p->v.dim <= 128)
        launch<64, 2>(p, s, stream);
    else if (norm == 1)
        launch<32, 1>(p, s, stream);
    else
        launch<32, 2>(p, s, stream);
}

/* ---- the factor ---- */

/* One block a head; column k of L below the diagonal after column k - 1 was taken out of
 * what is right of it. A pivot that rounding alone has left counts as zero. */
KVA_KERNEL(256) factor(double *all, int dim, float *r)
{
    KVA_SHARED(double, most, 1);
    int n = dim, t = (int)threadIdx.x;
    double *g = all + (size_t)blockIdx.x * (size_t)n * (size_t)n;

    if (t == 0) {
        double m = 0;

        for (int i = 0; i < n; i++)
            m = g[i * n + i] > m ? g[i * n + i] : m;
        *most = m;
    }
    __syncthreads();
    for (int k = 0; k < n; k++) {
        double d = g[k * n + k], pivot = d > 1e-14 * *most ? sqrt(d) : 0;

        __syncthreads(); /* all have read the diagonal */
        for (int i = k + t; i < n; i += 256)
            g[i * n + k] = pivot > 0 ? g[i * n + k] / pivot : 0;
        if (!KVA_MUT(48))
            __syncthreads();
        for (int rest = n - k - 1, at = t; at < rest * rest; at += 256) {
            int i = k + 1 + at / rest, j = k + 1 + at % rest;

            if (j <= i)
                g[i * n + j] = fma(-g[i * n + k], g[j * n + k], g[i * n + j]);
        }
        __syncthreads();
    }
    r += (size_t)blockIdx.x * (size_t)n * (size_t)n;
    for (int at = t; at < n * n; at += 256) {
        int i = at / n, j = at % n;

        r[at] = j >= i ? (float)g[j * n + i] : 0.0f;
    }
}

void kva_dev_factor(double *g, int heads, int dim, float *r, void *stream)
{
    if (heads > 0 && dim > 0)
        KVA_LAUNCH(factor, (unsigned)heads, 256, 0, stream, g, dim, r);
}
