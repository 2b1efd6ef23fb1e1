/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend_sums.cu - sums of attention weights over rows, without the matrix
 * (kernels.md 3.4d):
 *
 *     sums[j] += e^(s_j - lse) of every row and query head of the group, in this order
 *
 * once lse is known. A block has 64 entries of one KV head (32 for D = 256), all units
 * pass by in ascending order, 64 at a time: a warp computes the weights of 16 by m16n8k16
 * exactly as attend_context.cu does, of HALVES f16 numbers a query, then one thread an
 * entry adds them one after the other. So each entry has one accumulator and no cut of
 * rows into calls changes a bit; blocks share nothing. Units wholly before the block's
 * entries are passed over: their weights are 0. */
#include "kernels/cuda/attend.cuh"

#define THREADS 128
#define UNITS   64

template <int D, int HALVES> struct sums_tile {
    static constexpr int keys = D > 128 ? 32 : 64, pitch = D + 8;
    static constexpr int wide = keys + 4; /* of a row of weights: stores meet in pairs */
    static constexpr int numbers = (keys + HALVES * UNITS) * pitch; /* f16: K, Q */
    static constexpr size_t bytes =
        sizeof(uint16_t) * (size_t)numbers + sizeof(float) * UNITS * wide;
};

template <int D, int HALVES>
KVA_KERNEL_OF(THREADS, 3)
sums_kernel(const attend_item *items)
{
    using shape = sums_tile<D, HALVES>;
    constexpr int KEYS = shape::keys, PITCH = shape::pitch;
    KVA_DYN_SHARED(uint16_t, mem); /* K [KEYS][PITCH], Q [HALVES][UNITS][PITCH], then P */
    KVA_SHARED(int32_t, key_pos, 64);
    KVA_SHARED(float, factors, UNITS);
    KVA_SHARED(int32_t, unit_pos, UNITS);
    const attend_item &it = items[blockIdx.z];
    const struct kva_dev_view &v = it.view;
    const int warp = (int)threadIdx.x / KVA_WARP, lane = (int)threadIdx.x % KVA_WARP;
    const int h = (int)blockIdx.y, page = (int)blockIdx.x * (KEYS / PAGE);
    const int units = it.rows * (it.heads / v.kv_heads), len = v.len[h];
    uint16_t *const qs = mem + KEYS * PITCH;
    float *const ps = (float *)(void *)(mem + shape::numbers); /* [UNITS][wide] */
    const int t = (int)threadIdx.x;

    if (it.n_sums == 0 || page * PAGE >= len)
        return;
#pragma unroll
    for (int i = 0; i < KEYS / PAGE; i++) {
        int held = len - (page + i) * PAGE;

        attend_fetch<D>(mem + i * PAGE * PITCH,
                        attend_page(v, h, held > 0 ? page + i : page), v.dim_k, v.dim_k,
                        held, t, THREADS);
    }
    kva_async_commit();
    if (t < KEYS)
        key_pos[t] = attend_position(v, h, page * PAGE + t, len);
    const int rank0 = attend_rank(v, h, page + t / PAGE % (KEYS / PAGE));
    kva_async_wait<0>();
    __syncthreads();
    int32_t nearest = key_pos[lane];
    for (int i = lane; i < KEYS; i += KVA_WARP)
        nearest = key_pos[i] < nearest ? key_pos[i] : nearest;
    nearest = kva_warp_min(nearest);

    for (int unit0 = 0; unit0 < units; unit0 += UNITS) {
        const int group = it.heads / v.kv_heads;
        int32_t newest = INT32_MIN;
        float s[KEYS / 8][4];

        for (int i = lane; i < UNITS && unit0 + i < units; i += KVA_WARP) {
            int32_t p = it.pos[(unit0 + i) / group];

            newest = p > newest ? p : newest;
        }
        if (kva_warp_max(newest) < nearest) /* the same in every warp */
            continue;
#pragma unroll 1
        for (int i = 0; i < 16; i++) {
            int u = warp * 16 + i;

            attend_query<D, HALVES>(it, h, unit0 + u, qs + u * PITCH,
                                    qs + (UNITS + u) * PITCH, factors + u, unit_pos + u);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < KEYS / 8; i++)
            s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
#pragma unroll 4
        for (int k = 0; k < D / 16; k++) {
            uint32_t q[HALVES][4];

#pragma unroll
            for (int i = 0; i < HALVES; i++)
                attend_frag_a<D>(q[i], qs + (i * UNITS + warp * 16) * PITCH + k * 16);
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                uint32_t f[4];

                attend_frag_b<D>(f, mem + n * 16 * PITCH + k * 16);
#pragma unroll
                for (int i = 0; i < HALVES; i++) {
                    kva_mma_f16(s[2 * n], q[i], f);
                    kva_mma_f16(s[2 * n + 1], q[i], f + 2);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int u = warp * 16 + r * 8 + lane / 4;
            const float lse = attend_lse(it, h, unit0 + u), factor = factors[u];
            const int32_t pos = unit_pos[u];

#pragma unroll
            for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const int key = i * 8 + lane % 4 * 2 + j;
                    float x = attend_cap(kva_mul(s[i][2 * r + j], factor), it.softcap);

                    ps[u * shape::wide + key] = attend_sees(pos, key_pos[key], it.window)
                                                    ? kva_exp(x - lse)
                                                    : 0.0f;
                }
        }
        __syncthreads();
        if (t < KEYS && key_pos[t] != UNSEEN)
            for (int i = 0; i < it.n_sums; i++) {
                float *y = it.sums[(size_t)i * v.kv_heads + h] + rank0, sum = *y;

                for (int u = 0; u < UNITS; u++)
                    sum += ps[u * shape::wide + t];
                *y = sum;
            }
        if (!KVA_MUT(35))
            __syncthreads();
    }
}

template <int D, int HALVES>
static void sums_launch(const struct kva_cuda_attend *a, void *stream)
{
    using shape = sums_tile<D, HALVES>;
    auto k = sums_kernel<D, HALVES>;
    const int keys = shape::keys;
    dim3 grid((unsigned)((a->entries + keys - 1) / keys), (unsigned)a->kv_heads,
              (unsigned)a->items);

    KVA_SHARED_LIMIT(k, shape::bytes);
    KVA_LAUNCH(k, grid, THREADS, shape::bytes, stream, a->item);
}

template <int HALVES> static void sums_of(const struct kva_cuda_attend *a, void *stream)
{
    if (a->dim_k <= 64)
        sums_launch<64, HALVES>(a, stream);
    else if (a->dim_k <= 96)
        sums_launch<96, HALVES>(a, stream);
    else if (a->dim_k <= 128)
        sums_launch<128, HALVES>(a, stream);
    else
        sums_launch<256, HALVES>(a, stream);
}

void kva_cuda_attend_sums(const struct kva_cuda_attend *a, void *stream)
{
    if (a->entries < 1)
        return;
    if (!a->f16)
        kva_cuda_attend_plain_sums(a, stream);
    else
        (a->halves == 1 ? sums_of<1> : sums_of<2>)(a, stream);
}
