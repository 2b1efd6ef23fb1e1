/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend.cuh - what the attention kernels share: queries and pages into shared memory,
 * visibility, fragments.
 *
 * Tiles of f16 rows have a pitch of D + 8 numbers: eight consecutive rows at one column
 * then start in eight different groups of four banks, for every D of the templates, so
 * matrix loads meet no conflict. Rows and columns that do not exist are zero. */
#ifndef KVA_CUDA_ATTEND_CUH
#define KVA_CUDA_ATTEND_CUH

#include "kernels/cuda/attend.h"
#include "kernels/cuda/exp.cuh"
#include "kernels/cuda/warp.cuh"

#define PAGE   32
#define UNSEEN INT32_MAX /* position of a key that nobody sees */

typedef struct kva_cuda_attend_item attend_item;

/* cap * tanh(s / cap), by e^(-2|x|); the error is about 1e-7 of the cap. */
KVA_DEVICE float attend_cap(float s, float cap)
{
    float t;

    if (!(cap > 0.0f))
        return s;
    t = kva_exp(-2.0f * fabsf(s / cap));
    t = kva_mul(cap, (1.0f - t) / (1.0f + t));
    return s < 0.0f ? -t : t;
}

KVA_DEVICE bool attend_sees(int32_t q, int32_t key, int window)
{
    if (KVA_MUT(31)) /* the last entry is not its own */
        return key < q;
    return key <= q && (window == 0 || q - key < window);
}

/* e^(m - top), where m may be -inf, and top with it. */
KVA_DEVICE float attend_shrink(float m, float top)
{
    return m == -INFINITY ? 0.0f : kva_exp(m - top);
}

/* Two numbers as pairs of f16: x = hi + lo up to 2^-22 of it, or of HALVES = 1 hi up to
 * 2^-11. */
template <int HALVES>
KVA_DEVICE void attend_split(float x, float y, uint32_t *hi, uint32_t *lo)
{
    uint32_t a = kva_float_half(x), b = kva_float_half(y);

    *hi = a | b << 16;
    if (HALVES == 1)
        return;
    a = kva_float_half(x - kva_half_float((uint16_t)a));
    b = kva_float_half(y - kva_half_float((uint16_t)b));
    *lo = a | b << 16;
}

/* Slot j of KV head h: the position of the entry, UNSEEN where none may be read. */
KVA_DEVICE int32_t attend_position(const struct kva_dev_view &v, int h, int j, int len)
{
    int32_t id;

    if (j >= len)
        return UNSEEN;
    id = v.table[(size_t)h * v.table_cap + j / PAGE];
    if (v.live && !(v.live[id] >> (j % PAGE) & 1u))
        return UNSEEN;
    return v.pos[(size_t)id * PAGE + j % PAGE];
}

/* Page `page` of KV head h. */
KVA_DEVICE const uint8_t *attend_page(const struct kva_dev_view &v, int h, int page)
{
    int32_t id = v.table[(size_t)h * v.table_cap + page];

    if (KVA_MUT(32)) /* 32-bit offset */
        return v.base + (int32_t)((uint32_t)id * (uint32_t)v.page_bytes);
    return v.base + (size_t)id * v.page_bytes;
}

/* The last 8 numbers of a row of a tile are free: two words for what belongs to it. */
KVA_DEVICE int32_t *attend_tail(uint16_t *row, int d)
{
    return (int32_t *)(void *)(row + d);
}

/* One warp takes unit u: its query as hi + lo, times 2^k so that the largest of it lies
 * in [2^14, 2^15); the factor that turns a product of it into a score; its position. A
 * unit that does not exist is 0 and sees nothing. */
template <int D, int HALVES>
KVA_DEVICE void attend_query(const attend_item &it, int h, int u, uint16_t *hi,
                             uint16_t *lo, float *factor, int32_t *pos)
{
    const int lane = (int)threadIdx.x % KVA_WARP;
    const int group = it.heads / it.view.kv_heads, row = u / group;
    const bool real = row < it.rows;
    /* mutant: heads of a group taken as if they lay kv_heads apart */
    const int head =
        KVA_MUT(36) ? u % group * it.view.kv_heads + h : h * group + u % group;
    const float *q =
        it.q + (size_t)(real ? row : 0) * it.q_stride + (size_t)head * it.view.dim_k;
    float x[D / KVA_WARP], top = 0.0f, up;
    int e;

#pragma unroll
    for (int i = 0; i < D / KVA_WARP; i++) {
        int d = lane + i * KVA_WARP;

        x[i] = real && d < it.view.dim_k ? q[d] : 0.0f;
        top = fmaxf(top, fabsf(x[i]));
    }
    top = kva_warp_max(top);
    e = (int)(kva_bits(top) >> 23) - 127; /* top in [2^e, 2^(e+1)) */
    e = e < -80 ? -80 : e > 100 ? 100 : e;
    up = kva_bits_float((uint32_t)(14 - e + 127) << 23);
#pragma unroll
    for (int i = 0; i < D / KVA_WARP; i++) {
        float y = x[i] * up;
        uint16_t a = kva_float_half(y);

        hi[lane + i * KVA_WARP] = a;
        if (HALVES == 2)
            lo[lane + i * KVA_WARP] = kva_float_half(y - kva_half_float(a));
    }
    if (lane == 0) {
        *factor = it.scale * kva_bits_float((uint32_t)(e - 14 + 127) << 23);
        *pos = real ? it.pos[row] : INT32_MIN;
    }
}

/* `held` rows of `dim` f16 numbers, `apart` from each other, to a tile of 32 rows, four
 * threads a row; asynchronous where rows start at multiples of 16 bytes. */
template <int D>
KVA_DEVICE void attend_fetch(uint16_t *tile, const uint8_t *from, int dim, int apart,
                             int held, int thread, int threads)
{
    const uint16_t *rows = (const uint16_t *)(const void *)from;

    for (int r = thread / 4; r < PAGE; r += threads / 4) {
        const uint16_t *row = rows + (size_t)r * apart;
        uint16_t *to = tile + r * (D + 8);

        if (apart % 8 == 0) {
#pragma unroll
            for (int i = 0; i < D / 32; i++) {
                int c = thread % 4 * 8 + i * 32;

                if (r < held && c < dim)
                    kva_async16(to + c, row + c);
                else
                    *(uint4 *)(void *)(to + c) = {0, 0, 0, 0};
            }
            continue;
        }
#pragma unroll 1
        for (int c = thread % 4; c < D; c += 4)
            to[c] = r < held && c < dim ? row[c] : (uint16_t)0;
    }
}

/* Fragments of 16 x 16 numbers at `tile`, pitch D + 8. A: m16 x k16 of mma.m16n8k16. B:
 * rows are the n, two blocks of 8: r[0], r[1] and r[2], r[3]. Turned B: rows are the k.
 */
template <int D> KVA_DEVICE void attend_frag_a(uint32_t r[4], const uint16_t *tile)
{
    const int lane = (int)threadIdx.x % KVA_WARP;

    kva_load_matrix(r, tile + (lane / 8 % 2 * 8 + lane % 8) * (D + 8) + lane / 16 * 8);
}
template <int D> KVA_DEVICE void attend_frag_b(uint32_t r[4], const uint16_t *tile)
{
    const int lane = (int)threadIdx.x % KVA_WARP;

    kva_load_matrix(r, tile + (lane / 16 * 8 + lane % 8) * (D + 8) + lane / 8 % 2 * 8);
}
template <int D> KVA_DEVICE void attend_frag_turned(uint32_t r[4], const uint16_t *tile)
{
    const int lane = (int)threadIdx.x % KVA_WARP;

    kva_load_matrix_turned(r, tile + (lane / 8 % 2 * 8 + lane % 8) * (D + 8) +
                                  lane / 16 * 8);
}

/* Over the four lanes of a row. */
KVA_DEVICE float attend_row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(KVA_FULL, x, 1));
    return fmaxf(x, __shfl_xor_sync(KVA_FULL, x, 2));
}
KVA_DEVICE float attend_row_sum(float x)
{
    x += __shfl_xor_sync(KVA_FULL, x, 1);
    return x + __shfl_xor_sync(KVA_FULL, x, 2);
}

/* Pages [first, end) of a KV head whose first entry is at or before position `limit`: a
 * prefix where positions ascend, so it is looked for from the end, 32 pages at a time. */
KVA_DEVICE int attend_reach(const struct kva_dev_view &v, int h, int first, int end,
                            int32_t limit)
{
    const int lane = (int)threadIdx.x % KVA_WARP;

    if (!v.sorted[h])
        return end;
    while (end > first) {
        int page = end - 1 - lane;
        bool reached = false;
        unsigned bits;

        if (page >= first)
            reached =
                v.pos[(size_t)v.table[(size_t)h * v.table_cap + page] * PAGE] <= limit;
        bits = __ballot_sync(KVA_FULL, reached);
        if (bits)
            return end - (__ffs((int)bits) - 1);
        end -= KVA_WARP;
    }
    return first;
}

/* Where run `run` of unit u keeps its numbers. */
KVA_DEVICE size_t attend_part(const attend_item &it, int h, int u, int run)
{
    const int group = it.heads / it.view.kv_heads;

    return ((size_t)run * it.rows + u / group) * it.heads + h * group + u % group;
}

/* lse of unit u of a KV head. */
KVA_DEVICE float attend_lse(const attend_item &it, int h, int u)
{
    const int group = it.heads / it.view.kv_heads, row = u / group;

    return row < it.rows ? it.lse[(size_t)row * it.heads + h * group + u % group] : 0.0f;
}

/* The number, among the live entries in slot order, of slot `lane` of a page; of no
 * meaning where that is not live. A whole warp. */
KVA_DEVICE int attend_rank(const struct kva_dev_view &v, int h, int page)
{
    const int lane = (int)threadIdx.x % KVA_WARP;
    const int32_t *table = v.table + (size_t)h * v.table_cap;
    int n = 0;

    if (!v.live)
        return page * PAGE + lane;
    for (int i = lane; i < page; i += KVA_WARP)
        n += __popc(v.live[table[i]]);
    n = kva_warp_sum(n);
    if (page * PAGE < v.len[h])
        n += __popc(v.live[table[page]] & ((1u << lane) - 1u));
    return n;
}

#endif
