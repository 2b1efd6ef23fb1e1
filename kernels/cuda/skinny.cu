/* SPDX-License-Identifier: GPL-3.0-or-later */
/* skinny.cu - products of few rows (ruling R7): questions, answers, waves.
 *
 * A block of four warps owns 4 R outputs of a tile of MT rows: lane = 8 s + g, lane group
 * s the outputs s, s + 4, .., lane g the inputs 32j + 4g .. +3 of unit j. Warp w takes
 * the chunks w, w + 4, ... Each output of each row has one accumulator a lane, a fused
 * multiply-add for every input, inputs ascending; then the eight lanes are added as a
 * tree and the four warps in turn. Rows never meet, so a tile's height MT changes no bit,
 * and neither does R: both only say how often a weight, once unpacked, is used. Blocks of
 * the same outputs are neighbours, so that further tiles find the weights in the cache.
 *
 * A chunk that x covers to its end is read in 16-byte words; the last piece of a ragged
 * row, and all of an x whose rows are not aligned, goes unit by unit in the same order.
 */
#include "kernels/cuda/products.h"
#include "kernels/cuda/unpack.cuh"

enum { WARPS = 4 };

template <int kind> struct chunk_of { /* how a lane's part of a chunk is fetched */
    static constexpr int bits = kva_kind<kind>::bits;
    static constexpr int words = bits == 16 ? 2 : 4;      /* of one load */
    static constexpr int units = words * 32 / (bits * 4); /* it holds */
};

/* `words` (2, 4 or 8) aligned words */
template <int words> KVA_DEVICE void load_words(const uint32_t *from, uint32_t *to)
{
    if (words == 2) {
        uint2 a = *(const uint2 *)(const void *)from;

        to[0] = a.x;
        to[1] = a.y;
    } else {
#pragma unroll
        for (int i = 0; i < words / 4; i++) {
            uint4 a = ((const uint4 *)(const void *)from)[i];

            to[4 * i] = a.x;
            to[4 * i + 1] = a.y;
            to[4 * i + 2] = a.z;
            to[4 * i + 3] = a.w;
        }
    }
}

/* One lane's part of a chunk, as stored. */
template <int kind, int R> struct piece {
    static constexpr int bits = kva_kind<kind>::bits, words = kva_record<kind>::words;
    uint32_t q[R][bits], rec[R][words ? words : 1], super[R];
};

template <int kind, int R>
KVA_DEVICE void fetch(const kva_dev_weight &w, const int *row, int c, int g,
                      piece<kind, R> &p)
{
    constexpr int words = chunk_of<kind>::words, units = chunk_of<kind>::units;
    constexpr int rw = kva_record<kind>::words;

#pragma unroll
    for (int i = 0; i < R; i++) {
        size_t chunk = (size_t)row[i] * (size_t)w.chunks + (size_t)c;

#pragma unroll
        for (int j = 0; j < 8; j += units)
            load_words<words>(kva_unit_at<kind>(w, row[i], c, j, g),
                              p.q[i] + j / units * words);
        p.rec[i][0] = p.super[i] = 0;
        if (rw)
            load_words<rw ? rw : 4>((const uint32_t *)(const void *)w.scales + chunk * rw,
                                    p.rec[i]);
        if (kva_record<kind>::super)
            p.super[i] = w.super[chunk];
    }
}

template <int kind, int MT, int R>
KVA_DEVICE void whole_chunk(const piece<kind, R> &p, int g, const float *x, const int *at,
                            float acc[MT][R])
{
    constexpr int bits = kva_kind<kind>::bits, rw = kva_record<kind>::words;

#pragma unroll
    for (int j = 0; j < 8; j++) {
        float v[R][4];

#pragma unroll
        for (int i = 0; i < R; i++)
            kva_unit_values<kind>(
                p.q[i] + j * bits / 8, j,
                kva_scale_of<kind>(p.rec[i][j * rw / 8], p.super[i], j, g / 4), v[i]);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float4 a = *(const float4 *)(const void *)(x + at[m] + 32 * j);

#pragma unroll
            for (int i = 0; i < R; i++) {
                acc[m][i] = fmaf(a.x, v[i][0], acc[m][i]);
                acc[m][i] = fmaf(a.y, v[i][1], acc[m][i]);
                acc[m][i] = fmaf(a.z, v[i][2], acc[m][i]);
                acc[m][i] = fmaf(a.w, v[i][3], acc[m][i]);
            }
        }
    }
}

template <int kind, int MT, int R>
KVA_DEVICE void ragged_chunk(const kva_dev_weight &w, const int *row, int c, int g,
                             const float *x, const int *at, float acc[MT][R])
{
    int k0 = c * KVA_CHUNK + 4 * g;

#pragma unroll 1
    for (int j = 0; j < 8 && k0 + 32 * j < w.in; j++) {
        int left = w.in - k0 - 32 * j;
        float v[R][4];

#pragma unroll
        for (int i = 0; i < R; i++)
            kva_unit_load<kind>(w, row[i], c, j, g, v[i]);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (e < left) {
                    float a = x[at[m] + 32 * j + e];

#pragma unroll
                    for (int i = 0; i < R; i++)
                        acc[m][i] = fmaf(a, v[i][e], acc[m][i]);
                }
    }
}

/* aligned: rows of x start at multiples of 16 bytes */
template <int kind, int MT, int R>
KVA_KERNEL(32 * WARPS)
skinny(kva_dev_weight w, const float *x, int rows, int tiles, int aligned, float *y,
       int y_stride)
{
    KVA_SHARED(float, part, WARPS *MT * 4 * R);
    int lane = (int)threadIdx.x % KVA_WARP, warp = (int)threadIdx.x / KVA_WARP;
    int g = lane % 8, s = lane / 8, o0 = (int)blockIdx.x / tiles * 4 * R;
    int tile = (int)blockIdx.x % tiles * MT, held = rows - tile < MT ? rows - tile : MT;
    int whole = aligned ? w.in / KVA_CHUNK : 0, c = warp;
    int row[R], at[MT];
    float acc[MT][R];
    piece<kind, R> p;

    x += (size_t)tile * (size_t)w.in;
#pragma unroll
    for (int i = 0; i < R; i++) { /* outputs and rows beyond the end repeat the last */
        int o = o0 + 4 * i + s;

        row[i] = o < w.out ? o : w.out - 1;
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < R; i++)
            acc[m][i] = 0.0f;
#pragma unroll
    for (int m = 0; m < MT; m++)
        at[m] = (m < held ? m : held - 1) * w.in + warp * KVA_CHUNK + 4 * g;
    /* few rows wait for memory: the next chunk is on its way while one is used */
    if (MT <= 4 && c < whole)
        fetch<kind, R>(w, row, c, g, p);
#pragma unroll 1
    for (; c < whole; c += WARPS, x += WARPS * KVA_CHUNK) {
        if (MT <= 4) {
            piece<kind, R> next = p;

            if (c + WARPS < whole)
                fetch<kind, R>(w, row, c + WARPS, g, next);
            whole_chunk<kind, MT, R>(p, g, x, at, acc);
            p = next;
        } else {
            fetch<kind, R>(w, row, c, g, p);
            whole_chunk<kind, MT, R>(p, g, x, at, acc);
        }
    }
#pragma unroll 1
    for (; c < w.chunks; c += WARPS, x += WARPS * KVA_CHUNK)
        ragged_chunk<kind, MT, R>(w, row, c, g, x, at, acc);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < R; i++) {
#pragma unroll
            for (int d = 4; d; d >>= 1)
                acc[m][i] = kva_add(acc[m][i], __shfl_xor_sync(KVA_FULL, acc[m][i], d));
            if (g == 0)
                part[(warp * MT + m) * 4 * R + 4 * i + s] = acc[m][i];
        }
    if (!KVA_MUT(21))
        __syncthreads();
    for (int e = (int)threadIdx.x; e < MT * 4 * R; e += 32 * WARPS) {
        int m = e / (4 * R), o = o0 + e % (4 * R);
        float sum = part[e];

#pragma unroll
        for (int i = 1; i < WARPS; i++)
            sum = kva_add(sum, part[i * MT * 4 * R + e]);
        if (m < held && o < w.out) {
            size_t to = (size_t)(tile + m) * (size_t)y_stride;

            if (KVA_MUT(22)) /* a 32-bit offset */
                to = (size_t)((unsigned)(tile + m) * (unsigned)y_stride);
            y[to + (size_t)o] = sum;
        }
    }
}

template <int kind, int MT, int R>
static void launch(const kva_dev_weight &w, const float *x, int rows, float *y,
                   int y_stride, void *stream)
{
    auto kernel = skinny<kind, MT, R>;
    int aligned = w.in % 4 == 0 && (uintptr_t)x % 16 == 0, tiles = (rows + MT - 1) / MT;
    unsigned blocks = (unsigned)((w.out + 4 * R - 1) / (4 * R)) * (unsigned)tiles;

    KVA_LAUNCH(kernel, dim3(blocks), 32 * WARPS, 0, stream, w, x, rows, tiles, aligned, y,
               y_stride);
}

/* Few outputs: while twice the blocks still have a processor each, of the 132 of the card
 * this is tuned for, a block takes half as many. It changes no bit. */
template <int kind, int MT, int R>
static void spread(const kva_dev_weight &w, const float *x, int rows, float *y,
                   int y_stride, void *stream)
{
    int64_t groups = (w.out + 4 * R - 1) / (4 * R), tiles = (rows + MT - 1) / MT;

    if (2 * groups * tiles <= 132)
        launch<kind, MT, R / 2>(w, x, rows, y, y_stride, stream);
    else
        launch<kind, MT, R>(w, x, rows, y, y_stride, stream);
}

template <int kind>
static void product(const kva_dev_weight &w, const float *x, int rows, float *y,
                    int y_stride, void *stream)
{
    if (rows > 4)
        spread<kind, 8, 4>(w, x, rows, y, y_stride, stream);
    else if (rows > 1)
        spread<kind, 4, 2>(w, x, rows, y, y_stride, stream);
    else if (rows == 1)
        spread<kind, 1, 2>(w, x, rows, y, y_stride, stream);
}

extern "C" void kva_dev_skinny(const struct kva_dev_weight *w, const float *x, int rows,
                               float *y, int y_stride, void *stream)
{
    static void (*const of_kind[])(const kva_dev_weight &, const float *, int, float *,
                                   int, void *) = KVA_EACH_KIND(product);

    of_kind[w->kind](*w, x, rows, y, y_stride, stream);
}
