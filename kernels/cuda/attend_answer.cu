/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend_answer.cu - attention of question and decode rows (kernels.md 3.4b): split over
 * runs, f16 cache, all cells of a wave in one launch.
 *
 * A block has one run of pages of one KV head and 8 units. Its warps take pages in turn,
 * each in tiles of its own, so that they wait for nobody: the next keys are under way
 * while values are added, the next values while scores are computed. One m16n8k16 does
 * both parts of a number at once: rows 0-7 of A hold hi of the 8 units, rows 8-15 lo, and
 * the two halves of the product lie in the same thread. At the end the warps' (m, l, O)
 * are combined in their order. Memory decides the speed: 8 units need 16 D operations a
 * byte of cache. */
#include "kernels/cuda/attend.cuh"

#define UNITS   8
#define P_SCALE 16384.0f

template <int D> struct answer_tile {
    static constexpr int warps = D > 128 ? 2 : 4, threads = warps * KVA_WARP;
    static constexpr int pitch = D + 8, tile = PAGE * pitch;    /* numbers of K or V */
    static constexpr int blocks = D > 128 ? 2 : D > 64 ? 3 : 4; /* that share 227 KiB */
    static constexpr size_t bytes = 2 * (size_t)(2 * UNITS * pitch + warps * 2 * tile);
};

/* The warps' numbers to those of the run. part: [warps][UNITS][D + 2], values, then m, l.
 */
template <int D>
KVA_DEVICE void answer_merge(const attend_item &it, int h, int unit0, int units, int run,
                             const float *part, size_t warp_floats)
{
    using shape = answer_tile<D>;

    for (int i = (int)threadIdx.x; i < UNITS * D; i += shape::threads) {
        const int u = i / D, d = i % D;
        const float *p = part + u * (D + 2);
        float top = -INFINITY, l = 0.0f, o = 0.0f;

        if (unit0 + u >= units)
            continue;
        for (int w = 0; w < shape::warps; w++)
            top = fmaxf(top, p[w * warp_floats + D]);
        for (int w = 0; w < shape::warps; w++) {
            float by = attend_shrink(p[w * warp_floats + D], top);

            l = fmaf(by, p[w * warp_floats + D + 1], l);
            o = fmaf(by, p[w * warp_floats + d], o);
        }
        size_t at = attend_part(it, h, unit0 + u, run);
        if (d == 0) {
            it.ml[2 * at] = top;
            it.ml[2 * at + 1] = l / P_SCALE;
        }
        if (d < it.view.dim_v)
            it.acc[at * it.view.dim_v + d] = o / P_SCALE;
    }
}

template <int D>
KVA_KERNEL_OF(answer_tile<D>::threads, answer_tile<D>::blocks)
answer_kernel(const attend_item *items, int unit_tiles)
{
    using shape = answer_tile<D>;
    constexpr int PITCH = shape::pitch, STEPS = D / 16;
    KVA_DYN_SHARED(uint16_t,
                   mem); /* Q [hi, lo][UNITS][PITCH], [warp][K, V][PAGE][PITCH] */
    KVA_SHARED(float, factors, UNITS);
    KVA_SHARED(int32_t, unit_pos, UNITS);
    const attend_item &it = items[blockIdx.z];
    const struct kva_dev_view &v = it.view;
    const int warp = (int)threadIdx.x / KVA_WARP, lane = (int)threadIdx.x % KVA_WARP;
    const int h = (int)blockIdx.y; /* the longest runs come first */
    const int run = (int)(gridDim.x - 1 - blockIdx.x) / unit_tiles;
    const int unit0 = (int)blockIdx.x % unit_tiles * UNITS;
    const int units = it.rows * (it.heads / v.kv_heads);
    const int len = v.len[h], pages = (len + PAGE - 1) / PAGE;
    const float cap = it.softcap;
    const int window = it.window;
    int first, end;

    kva_attend_run({4, 16}, run, &first, &end);
    end = first + end < pages ? first + end : pages;
    if (unit0 >= units || first >= pages)
        return;

    uint16_t *const ks = mem + 2 * UNITS * PITCH + warp * 2 * shape::tile;
    uint16_t *const vs = ks + shape::tile;
    for (int i = warp; i < UNITS; i += shape::warps)
        attend_query<D, 2>(it, h, unit0 + i, mem + i * PITCH, mem + (UNITS + i) * PITCH,
                           factors + i, unit_pos + i);
    __syncthreads();

    const int32_t pos = unit_pos[lane / 4], mine = unit_pos[lane % UNITS];
    const int32_t oldest = kva_warp_min(mine == INT32_MIN ? INT32_MAX : mine);
    const int32_t newest = kva_warp_max(mine < 0 ? 0 : mine);
    const float factor = factors[lane / 4];
    float o[D / 8][2], m = -INFINITY, l = 0.0f;
#pragma unroll
    for (int i = 0; i < D / 8; i++)
        o[i][0] = o[i][1] = 0.0f;

    /* my pages: first + warp, then every `warps`-th */
    int page = first + warp;
    int32_t key = UNSEEN; /* position of slot `lane` of the page */
    if (page < end) {
        const uint8_t *at = attend_page(v, h, page);

        attend_fetch<D>(ks, at, v.dim_k, v.dim_k, len - page * PAGE, lane, KVA_WARP);
        kva_async_commit();
        attend_fetch<D>(vs, at + (size_t)2 * PAGE * v.dim_k, v.dim_v, v.dim_v,
                        len - page * PAGE, lane, KVA_WARP);
        key = attend_position(v, h, page * PAGE + lane, len);
    }
    kva_async_commit();
    for (; page < end; page += shape::warps) {
        const int next = page + shape::warps;
        const uint8_t *at = attend_page(v, h, next < end ? next : page);
        int32_t next_key = UNSEEN;
        float s[4][4];

        kva_async_wait<1>(); /* the keys */
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            uint32_t q[4], f[4];

            attend_frag_a<D>(q, mem + k * 16);
            attend_frag_b<D>(f, ks + k * 16);
            kva_mma_f16(s[0], q, f);
            kva_mma_f16(s[1], q, f + 2);
            attend_frag_b<D>(f, ks + 16 * PITCH + k * 16);
            kva_mma_f16(s[2], q, f);
            kva_mma_f16(s[3], q, f + 2);
        }
        __syncwarp();
        if (next < end) {
            attend_fetch<D>(ks, at, v.dim_k, v.dim_k, len - next * PAGE, lane, KVA_WARP);
            next_key = attend_position(v, h, next * PAGE + lane, len);
        }
        kva_async_commit();

        const bool plain =
            __all_sync(KVA_FULL, key <= oldest && (window == 0 || newest - key < window));
        float top = m, by, sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float x = attend_cap(kva_mul(s[i][j] + s[i][j + 2], factor), cap);

                if (!plain &&
                    !attend_sees(pos,
                                 __shfl_sync(KVA_FULL, key, i * 8 + lane % 4 * 2 + j),
                                 window))
                    x = -INFINITY;
                s[i][j] = x;
                top = fmaxf(top, x);
            }
        top = attend_row_max(top);
        by = attend_shrink(m, top);
        m = top;
        top = top == -INFINITY ? 0.0f : top; /* nothing seen yet */
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                s[i][j] = P_SCALE * kva_exp(s[i][j] - top);
                sum += s[i][j];
            }
        l = fmaf(l, by, sum);

        uint32_t p[2][4];
#pragma unroll
        for (int n = 0; n < 2; n++) {
            attend_split<2>(s[2 * n][0], s[2 * n][1], &p[n][0], &p[n][1]);
            attend_split<2>(s[2 * n + 1][0], s[2 * n + 1][1], &p[n][2], &p[n][3]);
        }
        kva_async_wait<1>(); /* the values */
        __syncwarp();
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            float x[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};

#pragma unroll
            for (int n = 0; n < 2; n++) {
                uint32_t f[4];

                attend_frag_turned<D>(f, vs + n * 16 * PITCH + d * 16);
                kva_mma_f16(x[0], p[n], f);
                kva_mma_f16(x[1], p[n], f + 2);
            }
#pragma unroll
            for (int j = 0; j < 2; j++) {
                o[2 * d][j] = fmaf(o[2 * d][j], by, x[0][j] + x[0][j + 2]);
                o[2 * d + 1][j] = fmaf(o[2 * d + 1][j], by, x[1][j] + x[1][j + 2]);
            }
        }
        __syncwarp();
        if (next < end)
            attend_fetch<D>(vs, at + (size_t)2 * PAGE * v.dim_k, v.dim_v, v.dim_v,
                            len - next * PAGE, lane, KVA_WARP);
        kva_async_commit();
        key = next_key;
    }
    kva_async_wait<0>();
    __syncwarp();

    /* my tiles take my numbers */
    constexpr size_t warp_floats = shape::tile;
    float *const part = (float *)(void *)(mem + 2 * UNITS * PITCH);
    float *const row = part + warp * warp_floats + lane / 4 * (D + 2);
    const float total = attend_row_sum(l);
#pragma unroll
    for (int i = 0; i < D / 8; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            row[i * 8 + lane % 4 * 2 + j] = o[i][j];
    if (lane % 4 == 0) {
        row[D] = m;
        row[D + 1] = total;
    }
    if (!KVA_MUT(34))
        __syncthreads();
    answer_merge<D>(it, h, unit0, units, run, part, warp_floats);
}

template <int D> static void answer_launch(const struct kva_cuda_attend *a, void *stream)
{
    auto k = answer_kernel<D>;
    int tiles = (a->rows * (a->heads / a->kv_heads) + UNITS - 1) / UNITS;
    dim3 grid(
        (unsigned)(tiles * kva_attend_runs({4, 16}, (a->entries + PAGE - 1) / PAGE)),
        (unsigned)a->kv_heads, (unsigned)a->items);

    KVA_SHARED_LIMIT(k, answer_tile<D>::bytes);
    KVA_LAUNCH(k, grid, answer_tile<D>::threads, answer_tile<D>::bytes, stream, a->item,
               tiles);
}

void kva_cuda_attend_answer(const struct kva_cuda_attend *a, void *stream)
{
    int d = a->dim_k > a->dim_v ? a->dim_k : a->dim_v;

    if (d <= 64)
        answer_launch<64>(a, stream);
    else if (d <= 96)
        answer_launch<96>(a, stream);
    else if (d <= 128)
        answer_launch<128>(a, stream);
    else
        answer_launch<256>(a, stream);
}
