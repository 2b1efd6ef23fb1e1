/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pool1d.cu - centred pooling (pool1d.h). A block holds its 256 entries and half a kernel
 * on either side in shared memory; sums run in double from left to right. */
#include "kernels/cuda/pool1d.h"
#include "kernels/cuda/shim.cuh"

#define THREADS 256

/* grid (entries / THREADS, cells) */
template <bool MAX>
KVA_KERNEL(THREADS)
pool1d(const float *x, const size_t *off, int kernel, float *y)
{
    KVA_DYN_SHARED(float, near);
    size_t c = blockIdx.y, first = off[c], n = off[c + 1] - first;
    size_t j0 = (size_t)blockIdx.x * THREADS, j = j0 + threadIdx.x;
    int half = kernel / 2;
    float best = -INFINITY;
    double sum = 0;

    if (j0 >= n) /* the whole block */
        return;
    for (int i = (int)threadIdx.x; i < THREADS + 2 * half; i += THREADS) {
        size_t at = j0 + (size_t)i;
        bool in = at >= (size_t)half && at - (size_t)half < n;

        near[i] = in ? x[first + at - (size_t)half] : MAX ? -INFINITY : 0.0f;
    }
    if (!KVA_MUT(46))
        __syncthreads();
    if (j >= n)
        return;
    for (int i = 0; i < kernel; i++) {
        float v = near[(int)threadIdx.x + i];

        if (MAX)
            best = fmaxf(best, v);
        else
            sum += (double)v;
    }
    y[first + j] = MAX ? best : (float)(sum / kernel);
}

void kva_dev_pool1d(const float *x, const size_t *off, int cells, size_t most, int kernel,
                    bool max, float *y, void *stream)
{
    dim3 grid((unsigned)((most + THREADS - 1) / THREADS), (unsigned)cells);
    size_t shared = (size_t)(THREADS + kernel - 1) * sizeof(float);

    if (most == 0 || cells == 0)
        return;
    if (max)
        KVA_LAUNCH(pool1d<true>, grid, THREADS, shared, stream, x, off, kernel, y);
    else
        KVA_LAUNCH(pool1d<false>, grid, THREADS, shared, stream, x, off, kernel, y);
}
