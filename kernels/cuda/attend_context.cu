/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend_context.cu - attention while a context is read (kernels.md 3.4a): ragged, causal
 * by positions, f16 cache.
 *
 * A block holds 64 units of one KV head (32 and half of the values for D = 256), 16 a
 * warp, and walks over one run of its pages in tiles of 64 keys (32 for D = 128 and 256),
 * the next tile under way while this one is computed. Per tile S = Q K^T and P V by
 * m16n8k16; the values of at most 32 keys are summed from zero and added to O by one
 * fused operation in f32:
 *
 *     m' = max(m, max_j s_j),  w = e^(m - m'),  p_j = e^(s_j - m')
 *     l = w l + sum_j p_j,     O = w O + sum_j p_j v_j
 *
 * Q and P are HALVES f16 numbers: hi + lo, or hi alone at half the work (attend.h). P is
 * scaled by 2^14, so that its f16 parts are normal down to 2^-28. Tiles wholly visible to
 * a warp are not tested key by key; pages beyond the last that the block can see are not
 * read. Queries stay in shared memory: in registers they would take those of two blocks
 * on a multiprocessor. Factors and positions stand in the padding of the rows they belong
 * to, so that D = 256 fits into 99 KiB (KVA_SHARED_MOST). The longest runs come first: no
 * multiprocessor is left with one at the end. */
#include "kernels/cuda/attend.cuh"

#define P_SCALE 16384.0f

template <int D, int HALVES> struct context_tile {
    static constexpr int units = D > 128 ? 32 : 64, threads = 2 * units;
    static constexpr int keys = D > 96 ? 32 : 64, pitch = D + 8;
    /* value dims of a block: registers hold no more, so D = 256 takes two blocks */
    static constexpr int wide = D > 128 ? 128 : D;
    static constexpr int k = keys * pitch, v = keys * (wide + 8); /* numbers */
    static constexpr int stage = k + v, q = units * pitch;
    static constexpr size_t bytes = 2 * (size_t)(2 * stage + HALVES * q);
    /* where the compiler keeps its registers without spills (make cuda-report): blocks of
     * a multiprocessor (0: as it likes), and how far the steps of a score are unrolled */
    static constexpr int blocks = D > 128      ? 4
                                  : HALVES > 1 ? (D > 96 ? 2 : 0)
                                  : D == 64    ? 3
                                               : 0;
    static constexpr int unroll = D > 96 || HALVES == 1 ? 2 : D / 16;
};

/* Keys and values, from dim `dim0` on, of the tile that starts at `page`; pages from
 * `end` on are zero. */
template <int D>
KVA_DEVICE void fetch_tile(const struct kva_dev_view &v, int h, int page, int end,
                           int len, int dim0, uint16_t *tile)
{
    using shape = context_tile<D, 1>;

#pragma unroll
    for (int i = 0; i < shape::keys / PAGE; i++) {
        int at = page + i < end ? page + i : end - 1;
        int held = page + i < end ? len - at * PAGE : 0;
        const uint8_t *from = attend_page(v, h, at);

        attend_fetch<D>(tile + i * PAGE * shape::pitch, from, v.dim_k, v.dim_k, held,
                        (int)threadIdx.x, shape::threads);
        attend_fetch<shape::wide>(tile + shape::k + i * PAGE * (shape::wide + 8),
                                  from + (size_t)2 * (PAGE * v.dim_k + dim0),
                                  v.dim_v - dim0, v.dim_v, held, (int)threadIdx.x,
                                  shape::threads);
    }
}

template <int D, int HALVES>
KVA_KERNEL_OF((context_tile<D, HALVES>::threads), (context_tile<D, HALVES>::blocks))
context_kernel(const attend_item *items)
{
    using shape = context_tile<D, HALVES>;
    constexpr int KEYS = shape::keys, PITCH = shape::pitch, UNITS = shape::units,
                  WIDE = shape::wide, PART = 2,
                  /* times 16 keys, whose P are split at once */ STEPS = D / 16;
    KVA_DYN_SHARED(uint16_t,
                   mem); /* [stage][K, V][KEYS][PITCH], Q [HALVES][UNITS][PITCH] */
    const attend_item &it = items[blockIdx.z];
    const struct kva_dev_view &v = it.view;
    const int warp = (int)threadIdx.x / KVA_WARP, lane = (int)threadIdx.x % KVA_WARP;
    const int h = (int)blockIdx.y % v.kv_heads;
    const int run = (int)(gridDim.y - 1 - blockIdx.y) / v.kv_heads;
    const int group = it.heads / v.kv_heads, units = it.rows * group;
    /* late rows see most and come first */
    const int tile = (int)(gridDim.x - 1 - blockIdx.x);
    const int unit0 = tile / (D / WIDE) * UNITS, dim0 = tile % (D / WIDE) * WIDE;
    const int len = v.len[h], pages = (len + PAGE - 1) / PAGE;
    const float cap = it.softcap;
    const int window = it.window;
    int first, end;

    kva_attend_run({32, 1}, run, &first, &end);
    end = first + end < pages ? first + end : pages;
    if (unit0 >= units || first >= pages)
        return;

    uint16_t *const qs = mem + 2 * shape::stage;
    uint16_t *const my_q = qs + warp * 16 * PITCH;
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
        uint16_t *q = my_q + i * PITCH;
        int32_t *tail = attend_tail(q, D); /* factor, position */

        attend_query<D, HALVES>(it, h, unit0 + warp * 16 + i, q, q + shape::q,
                                (float *)(void *)tail, tail + 1);
    }
    __syncthreads();

    /* of the thread's two rows; then of the warp's units, and the newest of the block */
    int32_t pos[2];
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int32_t *tail = attend_tail(my_q + (r * 8 + lane / 4) * PITCH, D);

        factor[r] = kva_bits_float((uint32_t)tail[0]);
        pos[r] = tail[1];
    }
    const int32_t mine = attend_tail(my_q + lane % 16 * PITCH, D)[1];
    const int32_t oldest = kva_warp_min(mine == INT32_MIN ? INT32_MAX : mine);
    const int32_t newest = kva_warp_max(mine < 0 ? 0 : mine);
    int32_t latest = attend_tail(qs + lane * PITCH, D)[1];
    for (int i = lane + KVA_WARP; i < UNITS; i += KVA_WARP) {
        int32_t p = attend_tail(qs + i * PITCH, D)[1];

        latest = p > latest ? p : latest;
    }
    end = attend_reach(v, h, first, end, kva_warp_max(latest));

    float o[WIDE / 8][4], m[2] = {-INFINITY, -INFINITY}, l[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < WIDE / 8; i++)
        o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0.0f;

    if (first < end) {
        fetch_tile<D>(v, h, first, end, len, dim0, mem);
        if (threadIdx.x < KEYS)
            *attend_tail(mem + (int)threadIdx.x * PITCH, D) =
                attend_position(v, h, first * PAGE + (int)threadIdx.x, len);
    }
    kva_async_commit();
    for (int page = first, stage = 0; page < end; page += KEYS / PAGE, stage ^= 1) {
        uint16_t *const ks = mem + stage * shape::stage, *const vs = ks + shape::k;
        uint16_t *const other = mem + (stage ^ 1) * shape::stage;
        const int next = page + KEYS / PAGE;
        int32_t next_pos =
            UNSEEN; /* of key threadIdx.x, kept in the padding of its row */

        if (next < end) {
            fetch_tile<D>(v, h, next, end, len, dim0, other);
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
#pragma unroll(shape::unroll)
        for (int k = 0; k < STEPS; k++) {
            uint32_t q[HALVES][4];

#pragma unroll
            for (int i = 0; i < HALVES; i++)
                attend_frag_a<D>(q[i], my_q + i * shape::q + k * 16);
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                uint32_t f[4];

                attend_frag_b<D>(f, ks + n * 16 * PITCH + k * 16);
#pragma unroll
                for (int i = 0; i < HALVES; i++) {
                    kva_mma_f16(s[2 * n], q[i], f);
                    kva_mma_f16(s[2 * n + 1], q[i], f + 2);
                }
            }
        }

        bool plain = true; /* every key is seen by every unit of the warp */
        for (int i = lane; i < KEYS; i += KVA_WARP) {
            int32_t key = *attend_tail(ks + i * PITCH, D);

            plain = plain && key <= oldest && (window == 0 || newest - key < window);
        }
        plain = __all_sync(KVA_FULL, plain);

        float top[2] = {m[0], m[1]}, w[2], sum[2] = {0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float x = kva_mul(s[i][j], factor[j / 2]);

                x = attend_cap(x, cap);
                if (!plain &&
                    !attend_sees(
                        pos[j / 2],
                        *attend_tail(ks + (i * 8 + lane % 4 * 2 + j % 2) * PITCH, D),
                        window))
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
            uint32_t half[HALVES][PART][4];

#pragma unroll
            for (int n = 0; n < PART; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float *p = s[2 * (n0 + n) + i];

#pragma unroll
                    for (int r = 0; r < 2; r++)
                        attend_split<HALVES>(p[2 * r], p[2 * r + 1],
                                             &half[0][n][2 * i + r],
                                             &half[HALVES - 1][n][2 * i + r]);
                }
#pragma unroll
            for (int d = 0; d < WIDE / 16; d++) {
                float x[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};

#pragma unroll
                for (int n = 0; n < PART; n++) {
                    uint32_t f[4];

                    attend_frag_turned<WIDE>(f, vs + (n0 + n) * 16 * (WIDE + 8) + d * 16);
#pragma unroll
                    for (int i = 0; i < HALVES; i++) {
                        kva_mma_f16(x[0], half[i][n], f);
                        kva_mma_f16(x[1], half[i][n], f + 2);
                    }
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
            *attend_tail(other + (int)threadIdx.x * PITCH, D) = next_pos;
        if (!KVA_MUT(37)) /* the next fetch lands in what others still read */
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
        if (lane % 4 == 0 && dim0 == 0) {
            it.ml[2 * at] = m[r];
            it.ml[2 * at + 1] = sum / P_SCALE;
        }
#pragma unroll
        for (int i = 0; i < WIDE / 8; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int d = dim0 + i * 8 + lane % 4 * 2 + j;

                if (d < v.dim_v)
                    it.acc[at * v.dim_v + d] = o[i][2 * r + j] / P_SCALE;
            }
    }
}

template <int D, int HALVES>
static void context_launch(const struct kva_cuda_attend *a, void *stream)
{
    using shape = context_tile<D, HALVES>;
    auto k = context_kernel<D, HALVES>;
    int units = a->rows * (a->heads / a->kv_heads);
    dim3 grid((unsigned)((units + shape::units - 1) / shape::units * (D / shape::wide)),
              (unsigned)(a->kv_heads *
                         kva_attend_runs({32, 1}, (a->entries + PAGE - 1) / PAGE)),
              (unsigned)a->items);

    KVA_SHARED_LIMIT(k, shape::bytes);
    KVA_LAUNCH(k, grid, shape::threads, shape::bytes, stream, a->item);
}

template <int HALVES>
static void context_of(const struct kva_cuda_attend *a, void *stream)
{
    int d = a->dim_k > a->dim_v ? a->dim_k : a->dim_v;

    if (d <= 64)
        context_launch<64, HALVES>(a, stream);
    else if (d <= 96)
        context_launch<96, HALVES>(a, stream);
    else if (d <= 128)
        context_launch<128, HALVES>(a, stream);
    else
        context_launch<256, HALVES>(a, stream);
}

void kva_cuda_attend_context(const struct kva_cuda_attend *a, void *stream)
{
    (a->halves == 1 ? context_of<1> : context_of<2>)(a, stream);
}
