/* SPDX-License-Identifier: GPL-3.0-or-later */
/* project.cu - norms of projected values, blockwise (project.h).
 *
 * A block keeps a tile of ROWS values in shared memory, whole, and streams W^a past it in
 * tiles of 64 outputs by 32 dims; products, absolute values and row sums stay in
 * registers. Per tile of W a thread adds up its four outputs in f32 and the tiles in
 * double; the 16 threads of a row meet at the end. 64 rows up to 128 dims, 32 up to 256:
 * at most 45 KB of shared memory. W is read n / ROWS times, from the second-level cache:
 * ROWS / 2 FLOP a byte. */
#include "kernels/cuda/project.h"
#include "kernels/cuda/tile.cuh"

static size_t shared_bytes(int rows, int dim)
{
    size_t steps = (size_t)(dim + TILE_DEEP - 1) / TILE_DEEP;

    return (steps * (size_t)TILE_FLOATS(rows) + TILE_FLOATS(TILE_COLS)) * sizeof(float);
}

/* grid (rows / ROWS, heads) */
template <int ROWS, int NORM>
KVA_KERNEL(TILE_THREADS(ROWS))
project(struct kva_dev_project p, float *s)
{
    KVA_DYN_SHARED(float, ws);
    float *vs = ws + TILE_FLOATS(TILE_COLS);
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    int a = (int)blockIdx.y, h = a / (p.heads / p.v.heads), dim = p.v.dim;
    size_t first = p.v.off[h], n = p.v.off[h + 1] - first, j0 = (size_t)blockIdx.x * ROWS;
    int rows = n - j0 < ROWS ? (int)(n - j0) : ROWS;
    const float *w = p.w + (size_t)a * p.w_head;
    double sum[4] = {0};

    if (j0 >= n) /* the whole block */
        return;
    for (int d0 = 0; d0 < dim; d0 += TILE_DEEP)
        tile_load<ROWS, TILE_THREADS(ROWS)>(p.v.data + (first + j0) * (size_t)dim + d0,
                                            (size_t)dim, rows, dim - d0,
                                            vs + d0 / TILE_DEEP * TILE_FLOATS(ROWS));
    for (int o0 = 0; o0 < p.out; o0 += TILE_COLS) {
        int cols = p.out - o0 < TILE_COLS ? p.out - o0 : TILE_COLS;
        float acc[4][4];

        tile_zero(acc);
        for (int d0 = 0; d0 < dim; d0 += TILE_DEEP) {
            __syncthreads();
            tile_load<TILE_COLS, TILE_THREADS(ROWS)>(w + (size_t)o0 * p.w_stride + d0,
                                                     p.w_stride, cols, dim - d0, ws);
            __syncthreads();
            tile_step<ROWS>(vs + d0 / TILE_DEEP * TILE_FLOATS(ROWS), ws, acc);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float of = 0.0f; /* outputs beyond `cols` are products with 0 */

#pragma unroll
            for (int j = 0; j < 4; j++)
                of += NORM == 1 ? fabsf(acc[i][j]) : acc[i][j] * acc[i][j];
            sum[i] += (double)of;
        }
    }
#pragma unroll
    for (int x = 8; x > 0; x /= 2)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] += __shfl_down_sync(KVA_FULL, sum[i], x);
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (tx == 0 && ty * 4 + i < rows)
            s[p.a_off[a] + j0 + (size_t)(ty * 4 + i)] =
                (float)(NORM == 1 ? sum[i] : sqrt(sum[i]));
}

template <int ROWS, int NORM>
static void launch(const struct kva_dev_project *p, float *s, void *stream)
{
    auto kernel = project<ROWS, NORM>;
    dim3 grid((unsigned)((p->v.most + ROWS - 1) / ROWS), (unsigned)p->heads);

    KVA_LAUNCH(kernel, grid, TILE_THREADS(ROWS), shared_bytes(ROWS, p->v.dim), stream, *p,
               s);
}

void kva_dev_project(const struct kva_dev_project *p, int norm, float *s, void *stream)
{
    if (p->v.most == 0 || p->heads == 0)
        return;
    if (p->v.dim <= KVA_PROJECT_DIM / 2 && norm == 1)
        launch<64, 1>(p, s, stream);
    else if (p->v.dim <= KVA_PROJECT_DIM / 2)
        launch<64, 2>(p, s, stream);
    else if (norm == 1)
        launch<32, 1>(p, s, stream);
    else
        launch<32, 2>(p, s, stream);
}
