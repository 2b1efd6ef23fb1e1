/* SPDX-License-Identifier: GPL-3.0-or-later */
/* window.cu - attention weights of a few query rows (window.h).
 *
 * Tiles of 32 rows by 64 keys. In the first pass a thread keeps the running maximum and
 * sum of its four rows over its own keys (every 64 / 4 th quadruple) and the 16 threads
 * of a row meet once at the end of a part. In the second it holds 4 x 4 weights; a mean
 * adds them by groups of four rows, ascending. */
#include "kernels/cuda/window.h"
#include "kernels/cuda/exp.cuh"
#include "kernels/cuda/tile.cuh"

#define ROWS    32
#define THREADS TILE_THREADS(ROWS)

struct peak { /* max m of logits, sum l of exp(z - m) */
    float m, l;
};

/* entry j of all rows, query row i */
KVA_DEVICE bool sees(const struct kva_dev_window &w, size_t j, int i)
{
    return w.k_pos == nullptr || w.k_pos[j] <= w.q_pos[i];
}

KVA_DEVICE struct peak meet(struct peak a, struct peak b)
{
    float m = fmaxf(a.m, b.m), l = 0.0f;

    if (a.l > 0.0f)
        l = fmaf(a.l, kva_exp(a.m - m), l);
    if (b.l > 0.0f)
        l = fmaf(b.l, kva_exp(b.m - m), l);
    return {m, l};
}

/* grid (parts, rows / ROWS, heads) */
KVA_KERNEL(THREADS) window_peaks(struct kva_dev_window w, struct peak *part)
{
    KVA_SHARED(float4, x4, TILE_FLOATS(ROWS) / 4);
    KVA_SHARED(float4, y4, TILE_FLOATS(TILE_COLS) / 4);
    float *xs = (float *)x4, *ys = (float *)y4;
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    int a = (int)blockIdx.z, h = a / (w.heads / w.k.heads), i0 = (int)blockIdx.y * ROWS;
    int rows = w.nq - i0 < ROWS ? w.nq - i0 : ROWS, dim = w.k.dim;
    size_t first = w.k.off[h], n = w.k.off[h + 1] - first;
    size_t from = (size_t)blockIdx.x * KVA_WINDOW_PART;
    size_t end = from + KVA_WINDOW_PART < n ? from + KVA_WINDOW_PART : n;
    const float *q = w.q + (size_t)i0 * w.q_stride + (size_t)a * (size_t)dim;
    struct peak top[4] = {{-INFINITY, 0}, {-INFINITY, 0}, {-INFINITY, 0}, {-INFINITY, 0}};
    float acc[4][4];

    for (size_t j0 = from; j0 < end; j0 += TILE_COLS) {
        int cols = end - j0 < TILE_COLS ? (int)(end - j0) : TILE_COLS;

        tile_product<ROWS>(q, w.q_stride, rows, w.k.data + (first + j0) * (size_t)dim,
                           (size_t)dim, cols, dim, xs, ys, acc);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            struct peak t = {-INFINITY, 0};
            bool seen[4];

#pragma unroll
            for (int j = 0; j < 4; j++) {
                seen[j] = ty * 4 + i < rows && tx * 4 + j < cols &&
                          sees(w, first + j0 + (size_t)(tx * 4 + j), i0 + ty * 4 + i);
                acc[i][j] = kva_mul(acc[i][j], w.scale);
                if (seen[j])
                    t.m = fmaxf(t.m, acc[i][j]);
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (seen[j])
                    t.l += kva_exp(kva_sub(acc[i][j], t.m));
            if (t.l > 0.0f)
                top[i] = meet(top[i], t);
        }
    }
#pragma unroll
    for (int x = 8; x > 0; x /= 2)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            struct peak b;

            b.m = __shfl_down_sync(KVA_FULL, top[i].m, x);
            b.l = __shfl_down_sync(KVA_FULL, top[i].l, x);
            top[i] = meet(top[i], b);
        }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (tx == 0 && ty * 4 + i < rows)
            part[((size_t)a * (size_t)w.nq + (size_t)(i0 + ty * 4 + i)) * gridDim.x +
                 blockIdx.x] = top[i];
}

/* (m, factor of exp(z - m)) of every row from its parts, ascending. */
KVA_KERNEL(128)
window_close(struct kva_dev_window w, int parts, const struct peak *part, struct peak *of)
{
    size_t at = (size_t)blockIdx.x * 128 + threadIdx.x;
    struct peak p = {-INFINITY, 0};

    if (at >= (size_t)w.heads * (size_t)w.nq)
        return;
    for (int i = 0; i < parts; i++)
        p = meet(p, part[at * (size_t)parts + (size_t)i]);
    p.l = p.l > 0.0f ? (w.by ? w.by[at % (size_t)w.nq] : 1.0f) / p.l : 0.0f;
    of[at] = p;
}

/* grid (keys / 64, heads, ROWS: rows / ROWS, else 1). of NULL: only z. */
template <int WHAT>
KVA_KERNEL(THREADS)
window_weights(struct kva_dev_window w, const struct peak *of, float *out, float *z)
{
    KVA_SHARED(float4, x4, TILE_FLOATS(ROWS) / 4);
    KVA_SHARED(float4, y4, TILE_FLOATS(TILE_COLS) / 4);
    KVA_SHARED(float4, part4, ROWS / 4 * TILE_COLS / 4);
    float *xs = (float *)x4, *ys = (float *)y4;
    const float *part = (const float *)part4;
    int tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16, t = (int)threadIdx.x;
    int a = (int)blockIdx.y, h = a / (w.heads / w.k.heads), dim = w.k.dim;
    size_t first = w.k.off[h], n = w.k.off[h + 1] - first;
    size_t j0 = (size_t)blockIdx.x * TILE_COLS, at = w.a_off[a];
    int cols = n - j0 < TILE_COLS ? (int)(n - j0) : TILE_COLS;
    float acc[4][4], all = 0.0f;

    if (j0 >= n) /* the whole block */
        return;
    for (int i0 = (int)blockIdx.z * ROWS; i0 < w.nq; i0 += ROWS * (int)gridDim.z) {
        int rows = w.nq - i0 < ROWS ? w.nq - i0 : ROWS;
        float mine[4] = {0};

        tile_product<ROWS>(w.q + (size_t)i0 * w.q_stride + (size_t)a * (size_t)dim,
                           w.q_stride, rows, w.k.data + (first + j0) * (size_t)dim,
                           (size_t)dim, cols, dim, xs, ys, acc);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = i0 + ty * 4 + i;
            struct peak p = {0, 0};

            if (row < w.nq && of != nullptr)
                p = of[(size_t)a * (size_t)w.nq + (size_t)row];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                bool in = row < w.nq && tx * 4 + j < cols;
                size_t key = j0 + (size_t)(tx * 4 + j);
                bool seen = in && sees(w, first + key, row);
                float s = kva_mul(acc[i][j], w.scale);
                float v =
                    seen && of != nullptr ? kva_mul(kva_exp(kva_sub(s, p.m)), p.l) : 0.0f;

                if (WHAT == KVA_WINDOW_ROWS && in) {
                    size_t to = at * (size_t)w.nq + (size_t)row * n + key;

                    if (out != nullptr)
                        out[to] = v;
                    if (z != nullptr)
                        z[to] = seen ? s : 0.0f;
                }
                mine[j] = WHAT == KVA_WINDOW_MAX ? fmaxf(mine[j], v) : mine[j] + v;
            }
        }
        if constexpr (WHAT != KVA_WINDOW_ROWS) {
            part4[ty * (TILE_COLS / 4) + tx] = {mine[0], mine[1], mine[2], mine[3]};
            if (!KVA_MUT(43))
                __syncthreads();
            /* the barriers of the next product stand before the next writes */
            const float *of_column = part + t % TILE_COLS;
#pragma unroll
            for (int y = 0; y < ROWS / 4; y++) {
                float v = of_column[y * TILE_COLS];

                all = WHAT == KVA_WINDOW_MAX ? fmaxf(all, v) : all + v;
            }
        }
    }
    if (WHAT != KVA_WINDOW_ROWS && t < cols)
        out[at + j0 + (size_t)t] = WHAT == KVA_WINDOW_MEAN ? all / (float)w.nq : all;
}

static size_t parts_of(size_t n)
{
    return (n + KVA_WINDOW_PART - 1) / KVA_WINDOW_PART;
}

size_t kva_dev_window_scratch(const struct kva_dev_window *w)
{
    return (size_t)w->heads * (size_t)w->nq * (parts_of(w->k.most) + 1) *
           sizeof(struct peak);
}

void kva_dev_window(const struct kva_dev_window *given, enum kva_window_what what,
                    void *scratch, float *out, float *z, void *stream)
{
    struct kva_dev_window own = *given, *w = &own;
    size_t rows = (size_t)w->heads * (size_t)w->nq, parts = parts_of(w->k.most);
    unsigned tiles = (unsigned)((w->nq + ROWS - 1) / ROWS), heads = (unsigned)w->heads;
    dim3 keys((unsigned)((w->k.most + TILE_COLS - 1) / TILE_COLS), heads,
              what == KVA_WINDOW_ROWS ? tiles : 1);
    struct peak *of = out ? (struct peak *)scratch : nullptr, *part = of + rows;

    if (rows == 0 || parts == 0)
        return;
    if (what != KVA_WINDOW_MAX)
        own.by = nullptr;
    if (out) {
        KVA_LAUNCH(window_peaks, dim3((unsigned)parts, tiles, heads), THREADS, 0, stream,
                   *w, part);
        KVA_LAUNCH(window_close, (unsigned)((rows + 127) / 128), 128, 0, stream, *w,
                   (int)parts, (const struct peak *)part, of);
    }
    if (what == KVA_WINDOW_MEAN)
        KVA_LAUNCH(window_weights<KVA_WINDOW_MEAN>, keys, THREADS, 0, stream, *w,
                   (const struct peak *)of, out, z);
    else if (what == KVA_WINDOW_MAX)
        KVA_LAUNCH(window_weights<KVA_WINDOW_MAX>, keys, THREADS, 0, stream, *w,
                   (const struct peak *)of, out, z);
    else
        KVA_LAUNCH(window_weights<KVA_WINDOW_ROWS>, keys, THREADS, 0, stream, *w,
                   (const struct peak *)of, out, z);
}

/* ---- values ---- */

/* part[p][nq][v_dim]; grid (v_dim / 64, nq / ROWS, parts) */
KVA_KERNEL(THREADS)
value_parts(const float *w, int nq, size_t n, const float *v, int v_dim, float *part)
{
    KVA_SHARED(float4, x4, TILE_FLOATS(ROWS) / 4);
    KVA_SHARED(float4, y4, TILE_FLOATS(TILE_COLS) / 4);
    float *xs = (float *)x4, *ys = (float *)y4;
    int x0 = (int)blockIdx.x * TILE_COLS, i0 = (int)blockIdx.y * ROWS;
    int rows = nq - i0 < ROWS ? nq - i0 : ROWS;
    int cols = v_dim - x0 < TILE_COLS ? v_dim - x0 : TILE_COLS;
    size_t from = (size_t)blockIdx.z * KVA_WINDOW_PART;
    size_t end = from + KVA_WINDOW_PART < n ? from + KVA_WINDOW_PART : n;
    float acc[4][4];

    tile_zero(acc);
    for (size_t j = from; j < end; j += TILE_DEEP) {
        int deep = end - j < TILE_DEEP ? (int)(end - j) : TILE_DEEP;

        __syncthreads();
        tile_load<ROWS, THREADS>(w + (size_t)i0 * n + j, n, rows, deep, xs);
        tile_load_down<TILE_COLS, THREADS>(v + j * (size_t)v_dim + (size_t)x0,
                                           (size_t)v_dim, cols, deep, ys);
        __syncthreads();
        tile_step<ROWS>(xs, ys, acc);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int row = (int)threadIdx.x / 16 * 4 + i, x = (int)threadIdx.x % 16 * 4 + j;

            if (row < rows && x < cols)
                part[((size_t)blockIdx.z * (size_t)nq + (size_t)(i0 + row)) *
                         (size_t)v_dim +
                     (size_t)(x0 + x)] = acc[i][j];
        }
}

KVA_KERNEL(256) value_close(const float *part, int parts, size_t width, float *o)
{
    size_t at = (size_t)blockIdx.x * 256 + threadIdx.x;
    float sum = 0.0f;

    if (at >= width)
        return;
    for (int p = 0; p < parts; p++)
        sum += part[(size_t)p * width + at];
    o[at] = sum;
}

size_t kva_dev_window_values_scratch(int nq, size_t n, int v_dim)
{
    return parts_of(n) * (size_t)nq * (size_t)v_dim * sizeof(float);
}

void kva_dev_window_values(const float *w, int nq, size_t n, const float *v, int v_dim,
                           void *scratch, float *o, void *stream)
{
    size_t width = (size_t)nq * (size_t)v_dim, parts = parts_of(n);
    float *part = (float *)scratch;

    if (width == 0)
        return;
    if (parts > 0)
        KVA_LAUNCH(value_parts,
                   dim3((unsigned)((v_dim + TILE_COLS - 1) / TILE_COLS),
                        (unsigned)((nq + ROWS - 1) / ROWS), (unsigned)parts),
                   THREADS, 0, stream, w, nq, n, v, v_dim, part);
    KVA_LAUNCH(value_close, (unsigned)((width + 255) / 256), 256, 0, stream,
               (const float *)part, (int)parts, width, o);
}
