/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dequant.cu - rows of a weight as floats: for the large products, and the embedding.
 *
 * A thread writes four neighbouring inputs of a row; neighbouring threads, neighbouring
 * fours. Values are exact (unpack.cuh); bf16 is rounded once, to nearest even. */
#include "kernels/cuda/products.h"
#include "kernels/cuda/unpack.cuh"

enum { THREADS = 256 };

/* A NaN stays one: rounding could carry out of its fraction. */
KVA_DEVICE uint16_t bf16_of(float f)
{
    uint32_t u = kva_bits(f);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

KVA_DEVICE void store(float *to, float f)
{
    *to = f;
}

KVA_DEVICE void store(uint16_t *to, float f)
{
    *to = bf16_of(f);
}

/* Row r of `rows`: weight row ids[r], or row0 + r. */
template <int kind, typename T>
KVA_KERNEL(THREADS)
unpack_rows(kva_dev_weight w, const int32_t *ids, int row0, int rows, float scale, T *to)
{
    int fours = (w.in + 3) / 4;
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    float v[4];

    if (i >= (size_t)rows * (size_t)fours)
        return;
    int r = (int)(i / (size_t)fours), k = (int)(i % (size_t)fours) * 4;

    kva_unit_load<kind>(w, ids ? ids[r] : row0 + r, k / KVA_CHUNK, k % KVA_CHUNK / 32,
                        k % 32 / 4, v);
    to += (size_t)r * (size_t)w.in + (size_t)k;
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (k + e < w.in)
            store(to + e, kva_mul(scale, v[e]));
}

template <int kind, typename T>
static void unpack(const kva_dev_weight &w, const int32_t *ids, int row0, int rows,
                   float scale, T *to, void *stream)
{
    auto kernel = unpack_rows<kind, T>;
    size_t n = (size_t)rows * (size_t)((w.in + 3) / 4);

    if (rows > 0)
        KVA_LAUNCH(kernel, dim3((unsigned)((n + THREADS - 1) / THREADS)), THREADS, 0,
                   stream, w, ids, row0, rows, scale, to);
}

template <typename T>
static void unpack_kind(const kva_dev_weight &w, const int32_t *ids, int row0, int rows,
                        float scale, T *to, void *stream)
{
    static void (*const of_kind[])(const kva_dev_weight &, const int32_t *, int, int,
                                   float, T *, void *) = KVA_EACH_KIND(unpack);

    of_kind[w.kind](w, ids, row0, rows, scale, to, stream);
}

extern "C" void kva_dev_embed(const struct kva_dev_weight *w, const int32_t *ids,
                              int rows, float scale, float *x, void *stream)
{
    unpack_kind(*w, ids, 0, rows, scale, x, stream);
}

extern "C" void kva_dev_dequant(const struct kva_dev_weight *w, int row0, int rows,
                                float *to, void *stream)
{
    unpack_kind(*w, nullptr, row0, rows, 1.0f, to, stream);
}

extern "C" void kva_dev_dequant_bf16(const struct kva_dev_weight *w, int row0, int rows,
                                     uint16_t *to, void *stream)
{
    unpack_kind(*w, nullptr, row0, rows, 1.0f, to, stream);
}

/* y[i] = x[i], 0 from n on. */
template <typename T> KVA_DEVICE void pad(const float *x, size_t n, size_t total, T *y)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < total)
        store(y + i, i < n ? x[i] : 0.0f);
}

KVA_KERNEL(THREADS) to_bf16(const float *x, size_t n, size_t total, uint16_t *y)
{
    pad(x, n, total, y);
}

KVA_KERNEL(THREADS) pad_rows(const float *x, size_t n, size_t total, float *y)
{
    pad(x, n, total, y);
}

extern "C" void kva_dev_to_bf16(const float *x, size_t n, size_t total, uint16_t *y,
                                void *stream)
{
    if (total)
        KVA_LAUNCH(to_bf16, dim3((unsigned)((total + THREADS - 1) / THREADS)), THREADS, 0,
                   stream, x, n, total, y);
}

extern "C" void kva_dev_pad(const float *x, size_t n, size_t total, float *y,
                            void *stream)
{
    if (total)
        KVA_LAUNCH(pad_rows, dim3((unsigned)((total + THREADS - 1) / THREADS)), THREADS,
                   0, stream, x, n, total, y);
}

/* grid (rows, width / THREADS) */
KVA_KERNEL(THREADS) put_rows(const float *x, int width, int stride, float *y)
{
    int i = (int)blockIdx.y * THREADS + (int)threadIdx.x;
    size_t row = (size_t)blockIdx.x * (size_t)stride;

    if (KVA_MUT(53)) /* what lies between the rows is overwritten, too */
        width = stride;
    if (i < width)
        y[row + (size_t)i] = x[row + (size_t)i];
}

extern "C" void kva_dev_put_rows(const float *x, int rows, int width, int stride,
                                 float *y, void *stream)
{
    if (rows > 0 && width > 0)
        KVA_LAUNCH(put_rows,
                   dim3((unsigned)rows, (unsigned)((width + THREADS - 1) / THREADS)),
                   THREADS, 0, stream, x, width, stride, y);
}
