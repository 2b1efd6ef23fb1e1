/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem.cu - rows gathered and scattered: y[j] = x[row[j]], y[row[j]] = x[j].
 *
 * A block copies up to 1024 floats of one row; blockIdx.x is the row, since only that
 * index may exceed 65535. Rows whose width is a multiple of 4 go 16 bytes at a time: all
 * of this is bounded by memory. */
#include "kernels/cuda/mem.h"

#include "kernels/cuda/shim.cuh"

namespace
{

enum { THREADS = 256, SPAN = 4 };

template <typename V, bool gather>
KVA_KERNEL(THREADS)
rows_kernel(const V *x, size_t width, const int32_t *row, V *y)
{
    size_t j = blockIdx.x, r = (size_t)row[j];
    const V *from = x + (gather ? r : j) * width;
    V *to = y + (gather ? j : r) * width;
    size_t at = (size_t)blockIdx.y * THREADS * SPAN + threadIdx.x;

#pragma unroll
    for (int i = 0; i < SPAN; i++)
        if (at + (size_t)i * THREADS < width)
            to[at + (size_t)i * THREADS] = from[at + (size_t)i * THREADS];
}

template <typename V, bool gather>
void launch(const float *x, size_t width, const int32_t *row, int m, float *y,
            void *stream)
{
    size_t n = width * sizeof *x / sizeof(V), span = THREADS * SPAN;
    dim3 grid((unsigned)m, (unsigned)((n + span - 1) / span));
    auto k = rows_kernel<V, gather>;

    KVA_LAUNCH(k, grid, THREADS, 0, stream, (const V *)x, n, row, (V *)y);
}

template <bool gather>
void rows(const float *x, size_t width, const int32_t *row, int m, float *y, void *stream)
{
    if (m < 1 || width < 1)
        return;
    if ((width % 4 | (uintptr_t)x % 16 | (uintptr_t)y % 16) == 0)
        launch<float4, gather>(x, width, row, m, y, stream);
    else
        launch<float, gather>(x, width, row, m, y, stream);
}

} // namespace

extern "C" void kva_rows_gather(const float *x, size_t width, const int32_t *row, int m,
                                float *y, void *stream)
{
    rows<true>(x, width, row, m, y, stream);
}

extern "C" void kva_rows_scatter(const float *x, size_t width, const int32_t *row, int m,
                                 float *y, void *stream)
{
    rows<false>(x, width, row, m, y, stream);
}
