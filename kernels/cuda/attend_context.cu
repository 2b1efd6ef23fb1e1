/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend_context.cu - attention while a context is read (kernels.md 3.4a): ragged, causal
 * by positions, f16 cache.
 *
 * A block holds 64 units of one KV head, 16 a warp, and walks over one run of its pages
 * in tiles of 64 keys (32 for D = 256), the next tile under way while this one is
 * computed. Per tile S = Q K^T and P V by m16n8k16, Q and P as hi + lo; the values of a
 * tile are summed from zero and added to O by one fused operation in f32:
 *
 *     m' = max(m, max_j s_j),  w = e^(m - m'),  p_j = e^(s_j - m')
 *     l = w l + sum_j p_j,     O = w O + sum_j p_j v_j
 *
 * P is scaled by 2^14, so that its f16 parts are normal down to 2^-28. Tiles
 * wholly visible to a warp are not tested key by key; pages beyond the last that the
 * block can see are not read. Queries stay in shared memory: in registers they would take
 * those of two blocks on a multiprocessor. */
#include "kernels/cuda/attend.cuh"

#define THREADS 128
#define UNITS   64
#define P_SCALE 16384.0f

template <int D> struct context_tile {
    static constexpr int keys = D > 128 ? 32 : 64, pitch = D + 8;
    static constexpr int part = 2; /* times 16 keys, whose P are split at once */
    static constexpr int kv = keys * pitch, q = UNITS * pitch; /* numbers */
    static constexpr size_t bytes = 2 * (size_t)(4 * kv + 2 * q);
};

/* Keys and values of the tile that starts at `page`; pages from `end` on are zero. */
template <int D>
KVA_DEVICE void fetch_tile(const struct kva_dev_view &v, int h, int page, int end,
                           int len, uint16_t *tile)
{
    using shape = context_tile<D>;

#pragma unroll
    for (int i = 0; i < shape::keys / PAGE; i++) {
        int at = page + i < end ? page + i : end - 1;
        int held = page + i < end ? len - at * PAGE : 0;
        const uint8_t *from = attend_page(v, h, at);
        uint16_t *to = tile + i * PAGE * shape::pitch;

        attend_fetch<D>(to, from, v.dim_k, held, (int)threadIdx.x, THREADS);
        attend_fetch<D>(to + shape::kv, from + (size_t)2 * PAGE * v.dim_k, v.dim_v, held,
                        (int)threadIdx.x, THREADS);
    }
}

template <int D> KVA_KERNEL(THREADS) context_kernel(const attend_item *items)
{
    using shape = context_tile<D>;
    constexpr int KEYS = shape::keys, PITCH = shape::pitch, PART = shape::part,
                  STEPS = D / 16;
    KVA_DYN_SHARED(uint16_t,
                   mem); /* [stage][K, V][KEYS][PITCH], Q [hi, lo][UNITS][PITCH] */
    KVA_SHARED(int32_t, key_pos, 2 * 64);
    KVA_SHARED(float, factors, UNITS);
    KVA_SHARED(int32_t, unit_pos, UNITS);
    const attend_item &it = items[blockIdx.z];
    const struct kva_dev_view &v = it.view;
    const int warp = (int)threadIdx.x / KVA_WARP, lane = (int)threadIdx.x % KVA_WARP;
    const int h = (int)blockIdx.y % v.kv_heads, run = (int)blockIdx.y / v.kv_heads;
    const int group = it.heads / v.kv_heads, units = it.rows * group;
    /* late rows see most and come first */
    const int unit0 = (int)(gridDim.x - 1 - blockIdx.x) * UNITS;
    const int len = v.len[h], pages = (len + PAGE - 1) / PAGE;
    const float cap = it.softcap;
    const int window = it.window;
    int first, end;

    kva_attend_run({32, 1}, run, &first, &end);
    end = first + end < pages ? first + end : pages;
    if (unit0 >= units || first >= pages)
        return;

    uint16_t *const qs = mem + 4 * shape::kv;
    const uint16_t *const my_q = qs + warp * 16 * PITCH;
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
        int u = warp * 16 + i;

        attend_query<D>(it, h, unit0 + u, qs + u * PITCH, qs + shape::q + u * PITCH,
                        factors + u, unit_pos + u);
    }
    __syncthreads();

    /* positions: of the thread's two rows, of the warp's units, newest of the block */
    const int32_t pos[2] = {unit_pos[warp * 16 + lane / 4],
                            unit_pos[warp * 16 + 8 + lane / 4]};
    const float factor[2] = {factors[warp * 16 + lane / 4],
                             factors[warp * 16 + 8 + lane / 4]};
    const int32_t mine = unit_pos[warp * 16 + lane % 16];
    const int32_t oldest = attend_warp_min(mine == INT32_MIN ? INT32_MAX : mine);
    const int32_t newest = attend_warp_max(mine < 0 ? 0 : mine);
    const int32_t a = unit_pos[lane], b = unit_pos[lane + KVA_WARP];
    end = attend_reach(v, h, first, end, attend_warp_max(a > b ? a : b));

    float o[D / 8][4], m[2] = {-INFINITY, -INFINITY}, l[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < D / 8; i++)
        o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0.0f;

    if (first < end) {
        fetch_tile<D>(v, h, first, end, len, mem);
        if (threadIdx.x < KEYS)
            key_pos[threadIdx.x] =
                attend_position(v, h, first * PAGE + (int)threadIdx.x, len);
    }
    kva_async_commit();
    for (int page = first, stage = 0; page < end; page += KEYS / PAGE, stage ^= 1) {
        const uint16_t *ks = mem + stage * 2 * shape::kv, *vs = ks + shape::kv;
        const int32_t *kp = key_pos + stage * 64;
        const int next = page + KEYS / PAGE;
        int32_t next_pos = UNSEEN;

        if (next < end) {
            fetch_tile<D>(v, h, next, end, len, mem + (stage ^ 1) * 2 * shape::kv);
            if (threadIdx.x < KEYS)
                next_pos = attend_position(v, h, next * PAGE + (int)threadIdx.x, len);
        }
        kva_async_commit();
        kva_async_wait<1>();
        if (!KVA_MUT(33))
            __syncthreads();

        float s[KEYS / 8][4];
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
            s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            uint32_t hi[4], lo[4];

            attend_frag_a<D>(hi, my_q + k * 16);
            attend_frag_a<D>(lo, my_q + shape::q + k * 16);
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                uint32_t f[4];

                attend_frag_b<D>(f, ks + n * 16 * PITCH + k * 16);
                kva_mma_f16(s[2 * n], hi, f);
                kva_mma_f16(s[2 * n + 1], hi, f + 2);
                kva_mma_f16(s[2 * n], lo, f);
                kva_mma_f16(s[2 * n + 1], lo, f + 2);
            }
        }

        bool plain = true; /* every key is seen by every unit of the warp */
        for (int i = lane; i < KEYS; i += KVA_WARP)
            plain = plain && kp[i] <= oldest && (window == 0 || newest - kp[i] < window);
        plain = __all_sync(KVA_FULL, plain);

        float top[2] = {m[0], m[1]}, w[2], sum[2] = {0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float x = kva_mul(s[i][j], factor[j / 2]);

                x = attend_cap(x, cap);
                if (!plain &&
                    !attend_sees(pos[j / 2], kp[i * 8 + lane % 4 * 2 + j % 2], window))
                    x = -INFINITY;
                s[i][j] = x;
                top[j / 2] = fmaxf(top[j / 2], x);
            }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            top[r] = attend_row_max(top[r]);
            w[r] = attend_shrink(m[r], top[r]);
            m[r] = top[r];
            top[r] = top[r] == -INFINITY ? 0.0f : top[r]; /* nothing seen yet */
        }
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                s[i][j] = P_SCALE * kva_exp(s[i][j] - top[j / 2]);
                sum[j / 2] += s[i][j];
            }
        l[0] = fmaf(l[0], w[0], sum[0]);
        l[1] = fmaf(l[1], w[1], sum[1]);

#pragma unroll
        for (int n0 = 0; n0 < KEYS / 16; n0 += PART) {
            uint32_t hi[PART][4], lo[PART][4];

#pragma unroll
            for (int n = 0; n < PART; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float *p = s[2 * (n0 + n) + i];

                    attend_split(p[0], p[1], &hi[n][2 * i], &lo[n][2 * i]);
                    attend_split(p[2], p[3], &hi[n][2 * i + 1], &lo[n][2 * i + 1]);
                }
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                float x[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};

#pragma unroll
                for (int n = 0; n < PART; n++) {
                    uint32_t f[4];

                    attend_frag_turned<D>(f, vs + (n0 + n) * 16 * PITCH + d * 16);
                    kva_mma_f16(x[0], hi[n], f);
                    kva_mma_f16(x[1], hi[n], f + 2);
                    kva_mma_f16(x[0], lo[n], f);
                    kva_mma_f16(x[1], lo[n], f + 2);
                }
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    o[2 * d][j] = fmaf(o[2 * d][j], w[j / 2], x[0][j]);
                    o[2 * d + 1][j] = fmaf(o[2 * d + 1][j], w[j / 2], x[1][j]);
                }
            }
            w[0] = w[1] = 1.0f;
        }
        if (threadIdx.x < KEYS)
            key_pos[(stage ^ 1) * 64 + threadIdx.x] = next_pos;
        __syncthreads();
    }
    kva_async_wait<0>();

#pragma unroll
    for (int r = 0; r < 2; r++) {
        int u = unit0 + warp * 16 + r * 8 + lane / 4;
        float sum = attend_row_sum(l[r]);

        if (u >= units)
            continue;
        size_t at = attend_part(it, h, u, run);
        if (lane % 4 == 0) {
            it.ml[2 * at] = m[r];
            it.ml[2 * at + 1] = sum / P_SCALE;
        }
#pragma unroll
        for (int i = 0; i < D / 8; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int d = i * 8 + lane % 4 * 2 + j;

                if (d < v.dim_v)
                    it.acc[at * v.dim_v + d] = o[i][2 * r + j] / P_SCALE;
            }
    }
}

template <int D> static void context_launch(const struct kva_cuda_attend *a, void *stream)
{
    auto k = context_kernel<D>;
    int units = a->rows * (a->heads / a->kv_heads);
    dim3 grid((unsigned)((units + UNITS - 1) / UNITS),
              (unsigned)(a->kv_heads *
                         kva_attend_runs({32, 1}, (a->entries + PAGE - 1) / PAGE)),
              (unsigned)a->items);

    KVA_SHARED_LIMIT(k, context_tile<D>::bytes);
    KVA_LAUNCH(k, grid, THREADS, context_tile<D>::bytes, stream, a->item);
}

void kva_cuda_attend_context(const struct kva_cuda_attend *a, void *stream)
{
    int d = a->dim_k > a->dim_v ? a->dim_k : a->dim_v;

    if (d <= 64)
        context_launch<64>(a, stream);
    else if (d <= 96)
        context_launch<96>(a, stream);
    else if (d <= 128)
        context_launch<128>(a, stream);
    else
        context_launch<256>(a, stream);
}
