/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kv.cu - rows of a store on the device: append, stable compaction, moves, reads, copies.
 *
 * A warp serves one row where rows are converted (append, read, new keys): four numbers a
 * lane when dimensions and addresses allow, else one. Where rows are only moved they go
 * in 16-byte words, or in halves when a row is no multiple of that.
 *
 * Compaction in place (kernels.md 2.2): survivor i comes from slot from[i] >= i. A block
 * takes a tile of 32 survivors; thread (entry, word) reads its words of the tile, the
 * block meets, and only then they are written. A later tile reads from slots behind all
 * that earlier tiles wrote, since from[i] >= i, so one barrier per read is enough and no
 * scratch is needed. */
#include "kernels/cuda/kv.h"

#include "kernels/cuda/shim.cuh"

namespace
{

enum { P = 32, WARPS = 4, LANES = 128, MOVERS = 256, WIDE = 4 };

struct alignas(8) half4 {
    uint16_t x, y, z, w;
};

KVA_DEVICE uint8_t *page_at(const kva_dev_pages &p, int32_t id)
{
    if (KVA_MUT(11)) /* a 32-bit offset */
        return p.base + (uint32_t)((uint32_t)id * (uint32_t)p.page_bytes);
    return p.base + (size_t)id * p.page_bytes;
}

KVA_DEVICE size_t key_at(const kva_dev_pages &p, int slot)
{
    return (size_t)slot * (size_t)p.dim_k * (p.f16 ? 2 : 4);
}

KVA_DEVICE size_t value_at(const kva_dev_pages &p, int slot)
{
    return ((size_t)P * (size_t)p.dim_k + (size_t)slot * (size_t)p.dim_v) *
           (p.f16 ? 2 : 4);
}

/* Finite in the pages' type: 65520 is the first number that rounds to an infinite half.
 */
KVA_DEVICE bool fits(float x, bool f16)
{
    return fabsf(x) < (f16 ? 65520.0f : INFINITY);
}

/* One row by one warp, f32 to the pages' type. */
template <bool f16, bool quads>
KVA_DEVICE void put_row(uint8_t *to, const float *x, int dim, int lane, int *bad)
{
    bool fine = true;

    if (quads) {
        for (int i = 4 * lane; i < dim; i += 4 * KVA_WARP) {
            float4 q = *(const float4 *)(x + i);

            fine = fine && fits(q.x, f16) && fits(q.y, f16) && fits(q.z, f16) &&
                   fits(q.w, f16);
            if (f16) {
                half4 h = {kva_float_half(q.x), kva_float_half(q.y), kva_float_half(q.z),
                           kva_float_half(q.w)};

                ((half4 *)to)[i / 4] = h;
            } else
                ((float4 *)to)[i / 4] = q;
        }
    } else {
        for (int i = lane; i < dim; i += KVA_WARP) {
            fine = fine && fits(x[i], f16);
            if (f16)
                ((uint16_t *)to)[i] = kva_float_half(x[i]);
            else
                ((float *)to)[i] = x[i];
        }
    }
    if (!fine)
        *bad = 1; /* every writer writes the same */
}

template <bool f16, bool quads>
KVA_DEVICE void get_row(const uint8_t *from, float *x, int dim, int lane)
{
    if (quads) {
        for (int i = 4 * lane; i < dim; i += 4 * KVA_WARP) {
            float4 q;

            if (f16) {
                half4 h = ((const half4 *)from)[i / 4];

                q.x = kva_half_float(h.x);
                q.y = kva_half_float(h.y);
                q.z = kva_half_float(h.z);
                q.w = kva_half_float(h.w);
            } else
                q = ((const float4 *)from)[i / 4];
            *(float4 *)(x + i) = q;
        }
    } else {
        for (int i = lane; i < dim; i += KVA_WARP)
            x[i] = f16 ? kva_half_float(((const uint16_t *)from)[i])
                       : ((const float *)from)[i];
    }
}

/* Warp w of the grid writes token w / heads of KV head w % heads. */
template <bool f16, bool quads>
KVA_KERNEL(LANES)
append_kernel(kva_dev_pages to, kva_dev_append a)
{
    size_t w = (size_t)blockIdx.x * WARPS + threadIdx.x / KVA_WARP;
    int lane = (int)threadIdx.x % KVA_WARP, h = (int)(w % (size_t)a.heads);
    size_t t = w / (size_t)a.heads;

    if (t >= (size_t)a.tokens)
        return;

    int at = a.first[h] + (int)t;
    int32_t id = a.pages[(size_t)h * (size_t)a.span + (size_t)(at / P)];
    uint8_t *page = page_at(to, id);

    put_row<f16, quads>(page + key_at(to, at % P),
                        a.k + t * (size_t)a.k_stride + (size_t)h * (size_t)to.dim_k,
                        to.dim_k, lane, a.bad);
    put_row<f16, quads>(page + value_at(to, at % P),
                        a.v + t * (size_t)a.v_stride + (size_t)h * (size_t)to.dim_v,
                        to.dim_v, lane, a.bad);
    if (lane == 0)
        to.pos[(size_t)id * P + (size_t)(at % P)] = a.pos[t];
}

/* grid (entries / WARPS, KV heads) */
template <bool f16, bool quads>
KVA_KERNEL(LANES)
read_kernel(kva_dev_pages from, const kva_dev_read *read, const int32_t *list, float *k,
            float *v)
{
    int i = (int)blockIdx.x * WARPS + (int)threadIdx.x / KVA_WARP;
    int lane = (int)threadIdx.x % KVA_WARP;
    kva_dev_read r = read[blockIdx.y];

    if (i >= r.n)
        return;

    int at = r.slot >= 0 ? list[r.slot + i] : r.first + i;
    const uint8_t *page = page_at(from, list[r.pages + at / P]);
    size_t row = r.row + (size_t)i;

    if (k)
        get_row<f16, quads>(page + key_at(from, at % P), k + row * (size_t)from.dim_k,
                            from.dim_k, lane);
    if (v)
        get_row<f16, quads>(page + value_at(from, at % P), v + row * (size_t)from.dim_v,
                            from.dim_v, lane);
}

template <bool f16, bool quads>
KVA_KERNEL(LANES)
keys_kernel(kva_dev_pages to, const int32_t *pages, const int32_t *slot, int n,
            const float *k, const int32_t *pos, int *bad)
{
    int i = (int)blockIdx.x * WARPS + (int)threadIdx.x / KVA_WARP;
    int lane = (int)threadIdx.x % KVA_WARP;

    if (i >= n)
        return;

    int at = slot ? slot[i] : i;
    int32_t id = pages[at / P];

    put_row<f16, quads>(page_at(to, id) + key_at(to, at % P),
                        k + (size_t)i * (size_t)to.dim_k, to.dim_k, lane, bad);
    if (lane == 0)
        to.pos[(size_t)id * P + (size_t)(at % P)] = pos[i];
}

/* Where word w of an entry lies: keys first, then values. */
template <typename V>
KVA_DEVICE V *word_at(const kva_dev_pages &p, int32_t id, int slot, int w, int key_words)
{
    uint8_t *page = page_at(p, id);

    return w < key_words ? (V *)(page + key_at(p, slot)) + w
                         : (V *)(page + value_at(p, slot)) + (w - key_words);
}

/* blockIdx.x: the KV head; blockIdx.y: every gridDim.y-th tile of 32 entries. Thread t
 * carries words t % 8, t % 8 + 8, ... of entry t / 8 of the tile, WIDE of them at once.
 */
template <typename V>
KVA_KERNEL(MOVERS)
move_kernel(kva_dev_pages to, kva_dev_pages from, const kva_dev_move *move,
            const int32_t *list, int key_words, int words)
{
    const kva_dev_move m = move[blockIdx.x];
    const int32_t *from_pages = list + m.from_pages, *to_pages = list + m.to_pages;
    const int e = (int)threadIdx.x / 8, w0 = (int)threadIdx.x % 8;

    for (int tile = m.start + (int)blockIdx.y * P; tile < m.n;
         tile += (int)gridDim.y * P) {
        const int i = tile + e;
        const bool mine = i < m.n;
        const int a = !mine ? 0 : m.from < 0 ? i : list[m.from + i];
        const int b = !mine ? 0 : m.to < 0 ? i : list[m.to + i];
        const int32_t src = from_pages[a / P], dst = to_pages[b / P];
        int32_t pos = 0;

        if (mine && w0 == 0)
            pos = from.pos[(size_t)src * P + (size_t)(a % P)];
        for (int w = w0; w < words + w0; w += 8 * WIDE) {
            V v[WIDE];

#pragma unroll
            for (int j = 0; j < WIDE; j++)
                if (mine && w + 8 * j < words)
                    v[j] = *word_at<V>(from, src, a % P, w + 8 * j, key_words);
            if (!KVA_MUT(12)) /* the tile is written while it is read */
                __syncthreads();
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                if (mine && w + 8 * j < words)
                    *word_at<V>(to, dst, b % P, w + 8 * j, key_words) = v[j];
        }
        if (mine && w0 == 0)
            to.pos[(size_t)dst * P + (size_t)(b % P)] = pos;
    }
}

/* A page is a multiple of 16 bytes, since it has P rows. */
KVA_KERNEL(MOVERS)
copy_kernel(kva_dev_pages p, const int32_t *from, const int32_t *to)
{
    size_t a = (size_t)from[blockIdx.x], b = (size_t)to[blockIdx.x];
    const uint4 *src = (const uint4 *)page_at(p, (int32_t)a);
    uint4 *dst = (uint4 *)page_at(p, (int32_t)b);

    for (size_t i = threadIdx.x; i < p.page_bytes / sizeof *src; i += MOVERS)
        dst[i] = src[i];
    if (threadIdx.x < P)
        p.pos[b * P + threadIdx.x] = p.pos[a * P + threadIdx.x];
}

/* All bits set: NaN in both types. */
KVA_KERNEL(MOVERS) poison_kernel(kva_dev_pages p, int32_t id, int slot, int end)
{
    uint16_t *page = (uint16_t *)page_at(p, id);

    for (size_t i = key_at(p, slot) / 2 + threadIdx.x; i < key_at(p, end) / 2;
         i += MOVERS)
        page[i] = 0xffff;
    for (size_t i = value_at(p, slot) / 2 + threadIdx.x; i < value_at(p, end) / 2;
         i += MOVERS)
        page[i] = 0xffff;
}

/* Whether every row can go four numbers at a time: pages are aligned. */
bool in_quads(const kva_dev_pages &p, const float *a, size_t a_stride, const float *b,
              size_t b_stride)
{
    return ((uintptr_t)a | (uintptr_t)b) % 16 == 0 &&
           ((size_t)p.dim_k | (size_t)p.dim_v | a_stride | b_stride) % 4 == 0;
}

unsigned blocks_for(size_t warps)
{
    return (unsigned)((warps + WARPS - 1) / WARPS);
}

} // namespace

/* Calls `with(f16, quads)` of the four forms the pages and rows ask for. */
#define KVA_FORM(pages, quads, with)                                                     \
    do {                                                                                 \
        if ((pages).f16) {                                                               \
            if (quads)                                                                   \
                with(true, true);                                                        \
            else                                                                         \
                with(true, false);                                                       \
        } else if (quads)                                                                \
            with(false, true);                                                           \
        else                                                                             \
            with(false, false);                                                          \
    } while (0)

extern "C" void kva_kv_append(struct kva_dev_pages to, struct kva_dev_append a,
                              void *stream)
{
    const unsigned grid = blocks_for((size_t)a.heads * (size_t)a.tokens);

#define KVA_APPEND(f16, quads)                                                           \
    do {                                                                                 \
        auto k = append_kernel<f16, quads>;                                              \
        KVA_LAUNCH(k, grid, LANES, 0, stream, to, a);                                    \
    } while (0)
    if (grid > 0)
        KVA_FORM(to, in_quads(to, a.k, (size_t)a.k_stride, a.v, (size_t)a.v_stride),
                 KVA_APPEND);
#undef KVA_APPEND
}

extern "C" void kva_kv_read(struct kva_dev_pages from, const struct kva_dev_read *read,
                            const int32_t *list, int heads, int longest, float *k,
                            float *v, void *stream)
{
    const dim3 grid(blocks_for((size_t)longest), (unsigned)heads);

#define KVA_READ(f16, quads)                                                             \
    do {                                                                                 \
        auto f = read_kernel<f16, quads>;                                                \
        KVA_LAUNCH(f, grid, LANES, 0, stream, from, read, list, k, v);                   \
    } while (0)
    if (longest > 0)
        KVA_FORM(from, in_quads(from, k, 0, v, 0), KVA_READ);
#undef KVA_READ
}

extern "C" void kva_kv_keys(struct kva_dev_pages to, const int32_t *pages,
                            const int32_t *slot, int n, const float *k,
                            const int32_t *pos, int *bad, void *stream)
{
    const unsigned grid = blocks_for((size_t)n);

#define KVA_KEYS(f16, quads)                                                             \
    do {                                                                                 \
        auto f = keys_kernel<f16, quads>;                                                \
        KVA_LAUNCH(f, grid, LANES, 0, stream, to, pages, slot, n, k, pos, bad);          \
    } while (0)
    if (grid > 0)
        KVA_FORM(to, in_quads(to, k, 0, k, 0), KVA_KEYS);
#undef KVA_KEYS
}

template <typename V>
static void move_as(const kva_dev_pages &to, const kva_dev_pages &from,
                    const kva_dev_move *move, const int32_t *list, dim3 grid,
                    void *stream)
{
    const int unit = (int)sizeof(V), e = to.f16 ? 2 : 4;
    auto k = move_kernel<V>;

    KVA_LAUNCH(k, grid, MOVERS, 0, stream, to, from, move, list, to.dim_k * e / unit,
               (to.dim_k + to.dim_v) * e / unit);
}

extern "C" void kva_kv_move(struct kva_dev_pages to, struct kva_dev_pages from,
                            const struct kva_dev_move *move, const int32_t *list,
                            int heads, int longest, bool together, void *stream)
{
    const int e = to.f16 ? 2 : 4, tiles = (longest + P - 1) / P, most = 64;
    const bool whole = to.dim_k * e % 16 == 0 && to.dim_v * e % 16 == 0;
    const dim3 grid((unsigned)heads,
                    together ? 1u : (unsigned)(tiles < most ? tiles : most));

    if (heads < 1 || longest < 1)
        return;
    if (whole)
        move_as<uint4>(to, from, move, list, grid, stream);
    else
        move_as<uint16_t>(to, from, move, list, grid, stream);
}

extern "C" void kva_kv_copy(struct kva_dev_pages pages, const int32_t *from,
                            const int32_t *to, size_t n, void *stream)
{
    if (n > 0)
        KVA_LAUNCH(copy_kernel, (unsigned)n, MOVERS, 0, stream, pages, from, to);
}

extern "C" void kva_kv_poison(struct kva_dev_pages pages, int32_t page, int slot, int end,
                              void *stream)
{
    if (end > slot)
        KVA_LAUNCH(poison_kernel, 1, MOVERS, 0, stream, pages, page, slot, end);
}
