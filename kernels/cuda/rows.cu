/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rows.cu - what a layer does to its rows between products: norms, RoPE, activation.
 *
 * No row's result depends on another row or on their number. Apart from the order of a
 * norm's sum every operation is that of the CPU, rounded where it rounds. */
#include "kernels/cuda/exp.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/warp.cuh"

enum { THREADS = 256, WARPS = THREADS / KVA_WARP };

/* y = x / sqrt(mean(x^2) + eps) * w, a row a block. A thread's squares are added in
 * ascending order, a warp's as a tree, the warps in turn. y == x allowed: what a thread
 * writes it alone has read. */
KVA_KERNEL(THREADS) rmsnorm(const float *x, const float *w, float eps, int dim, float *y)
{
    KVA_SHARED(float, part, WARPS);
    size_t row = (size_t)blockIdx.x * (size_t)dim;
    int t = (int)threadIdx.x;
    float sum = 0.0f, scale;

    for (int i = t; i < dim; i += THREADS)
        sum = fmaf(x[row + (size_t)i], x[row + (size_t)i], sum);
    sum = kva_warp_sum(sum);
    if (t % KVA_WARP == 0)
        part[t / KVA_WARP] = sum;
    if (!KVA_MUT(20))
        __syncthreads();
    sum = part[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++)
        sum = kva_add(sum, part[i]);
    scale = 1.0f / sqrtf(kva_add(sum / (float)dim, eps));
    for (int i = t; i < dim; i += THREADS)
        y[row + (size_t)i] = kva_mul(kva_mul(x[row + (size_t)i], scale), w[i]);
}

/* cos and sin of a >= 0, both good to about 2^-52: a = n pi/2 + r with pi/2 in two parts
 * (n < 2^31: the first difference is exact, fused), |r| <= pi/4, then the series to r^18
 * and r^17, whose rests are below 1e-19. The library's functions keep tables in local
 * memory for huge arguments, which positions never are. */
KVA_DEVICE void cos_sin_of(double a, double *c, double *s)
{
    double n = rint(a * 0.63661977236758134308), r = fma(-n, 1.57079632679489655800, a);
    double x, sine, cosine;
    int quarter = (int)((long long)n & 3);

    r = fma(-n, 6.12323399573676603587e-17, r);
    x = r * r;
    sine = 1.0 / 355687428096000.0;
    sine = fma(sine, x, -1.0 / 1307674368000.0);
    sine = fma(sine, x, 1.0 / 6227020800.0);
    sine = fma(sine, x, -1.0 / 39916800.0);
    sine = fma(sine, x, 1.0 / 362880.0);
    sine = fma(sine, x, -1.0 / 5040.0);
    sine = fma(sine, x, 1.0 / 120.0);
    sine = fma(sine, x, -1.0 / 6.0);
    sine = fma(sine * x, r, r);
    cosine = -1.0 / 6402373705728000.0;
    cosine = fma(cosine, x, 1.0 / 20922789888000.0);
    cosine = fma(cosine, x, -1.0 / 87178291200.0);
    cosine = fma(cosine, x, 1.0 / 479001600.0);
    cosine = fma(cosine, x, -1.0 / 3628800.0);
    cosine = fma(cosine, x, 1.0 / 40320.0);
    cosine = fma(cosine, x, -1.0 / 720.0);
    cosine = fma(cosine, x, 1.0 / 24.0);
    cosine = fma(cosine, x, -0.5);
    cosine = fma(cosine, x, 1.0);
    *c = quarter & 1 ? sine : cosine;
    *s = quarter & 1 ? cosine : sine;
    if (quarter == 1 || quarter == 2)
        *c = -*c;
    if (quarter >= 2)
        *s = -*s;
}

/* angles in double: in float position * frequency loses 0.008 rad at 131,072 */
KVA_KERNEL(THREADS)
rope_table(const int32_t *pos, int rows, const float *inv_freq, int half, float mscale,
           float *cos_sin)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    double a, c, s;

    if (i >= (size_t)rows * (size_t)half)
        return;
    a = (double)pos[i / (size_t)half] * (double)inv_freq[i % (size_t)half];
    cos_sin_of(fabs(a), &c, &s);
    cos_sin[2 * i] = (float)((double)mscale * c);
    cos_sin[2 * i + 1] = (float)((double)mscale * (a < 0 ? -s : s));
}

/* (u, v) -> (u c - v s, u s + v c), v half a head behind u */
KVA_KERNEL(THREADS)
rope(float *x, int stride, int rows, int heads, int dim, const float *cos_sin, int half)
{
    size_t n = (size_t)blockIdx.x * THREADS + threadIdx.x;
    int i = (int)(n % (size_t)half), h = (int)(n / (size_t)half % (size_t)heads);
    size_t r = n / (size_t)half / (size_t)heads;

    if (r >= (size_t)rows)
        return;
    float *at = x + r * (size_t)stride + (size_t)h * (size_t)dim + (size_t)i;
    const float *cs = cos_sin + 2 * (r * (size_t)half + (size_t)i);
    float u = at[0], v = at[half];

    at[0] = kva_sub(kva_mul(u, cs[0]), kva_mul(v, cs[1]));
    at[half] = kva_add(kva_mul(u, cs[1]), kva_mul(v, cs[0]));
}

KVA_KERNEL(THREADS) silu_mul(const float *gate, const float *up, size_t n, float *y)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        y[i] = kva_mul(gate[i] / kva_add(1.0f, kva_exp(kva_sub(0.0f, gate[i]))), up[i]);
}

KVA_KERNEL(THREADS) add_to(float *x, const float *y, size_t n)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < n)
        x[i] = kva_add(x[i], y[i]);
}

static dim3 blocks_of(size_t n)
{
    return dim3((unsigned)((n + THREADS - 1) / THREADS));
}

extern "C" void kva_dev_rmsnorm(const float *x, const float *w, float eps, int rows,
                                int dim, float *y, void *stream)
{
    if (rows > 0)
        KVA_LAUNCH(rmsnorm, dim3((unsigned)rows), THREADS, 0, stream, x, w, eps, dim, y);
}

extern "C" void kva_dev_rope_table(const int32_t *pos, int rows, const float *inv_freq,
                                   int half, float mscale, float *cos_sin, void *stream)
{
    size_t n = (size_t)rows * (size_t)half;

    if (n)
        KVA_LAUNCH(rope_table, blocks_of(n), THREADS, 0, stream, pos, rows, inv_freq,
                   half, mscale, cos_sin);
}

extern "C" void kva_dev_rope(float *x, int stride, int rows, int heads, int dim,
                             const float *cos_sin, int half, void *stream)
{
    size_t n = (size_t)rows * (size_t)heads * (size_t)half;

    if (n)
        KVA_LAUNCH(rope, blocks_of(n), THREADS, 0, stream, x, stride, rows, heads, dim,
                   cos_sin, half);
}

extern "C" void kva_dev_silu_mul(const float *gate, const float *up, size_t n, float *y,
                                 void *stream)
{
    if (n)
        KVA_LAUNCH(silu_mul, blocks_of(n), THREADS, 0, stream, gate, up, n, y);
}

extern "C" void kva_dev_add(float *x, const float *y, size_t n, void *stream)
{
    if (n)
        KVA_LAUNCH(add_to, blocks_of(n), THREADS, 0, stream, x, y, n);
}
