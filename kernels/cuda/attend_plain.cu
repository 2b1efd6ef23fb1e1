/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend_plain.cu - attention over an f32 cache, and the sums of its weights.
 *
 * As the CPU's numerics f32: dots and value sums have one accumulator per output,
 * ascending, fused, and the running maximum moves per page. A block has 16 units of one
 * KV head, four a warp, and one run of pages, each page in shared memory. Lane = entry
 * for the dots (K's pitch is odd, so lanes read different banks), lane = dimension for
 * the values. */
#include "kernels/cuda/attend.cuh"

#define THREADS 128
#define WARPS   4
#define MINE    4 /* units of a warp */
#define UNITS   (WARPS * MINE)

template <int D> struct plain_tile {
    static constexpr int pitch = D + 1;
    static constexpr size_t bytes =
        sizeof(float) * (size_t)(PAGE * pitch + PAGE * D + UNITS * D);
};

/* Rows of one page; what does not exist is zero. */
KVA_DEVICE void plain_fetch(float *to, int pitch, int width, const float *rows, int dim,
                            int held)
{
    for (int i = (int)threadIdx.x; i < PAGE * width; i += THREADS) {
        int r = i / width, d = i % width;

        to[r * pitch + d] = r < held && d < dim ? rows[(size_t)r * dim + d] : 0.0f;
    }
}

/* Queries of units unit0 ..: [UNITS][D]. */
template <int D>
KVA_DEVICE void plain_queries(const attend_item &it, int h, int unit0, float *q)
{
    const int group = it.heads / it.view.kv_heads, dim = it.view.dim_k;

    for (int i = (int)threadIdx.x; i < UNITS * D; i += THREADS) {
        int u = unit0 + i / D, d = i % D, row = u / group;

        q[i] = row < it.rows && d < dim ? it.q[(size_t)row * it.q_stride +
                                               (size_t)(h * group + u % group) * dim + d]
                                        : 0.0f;
    }
}

/* Scores of the warp's units against the key of this lane; -inf where it is not seen. */
template <int D>
KVA_DEVICE void plain_scores(const attend_item &it, const float *q, const float *k,
                             int32_t key, const int32_t *pos, float *s)
{
#pragma unroll
    for (int i = 0; i < MINE; i++)
        s[i] = 0.0f;
    for (int d = 0; d < D; d++) {
        float x = k[d];

#pragma unroll
        for (int i = 0; i < MINE; i++)
            s[i] = fmaf(q[i * D + d], x, s[i]);
    }
#pragma unroll
    for (int i = 0; i < MINE; i++)
        s[i] = attend_sees(pos[i], key, it.window)
                   ? attend_cap(kva_mul(s[i], it.scale), it.softcap)
                   : -INFINITY;
}

/* Position of unit u, before all others where it does not exist. */
KVA_DEVICE int32_t plain_position(const attend_item &it, int u)
{
    int row = u / (it.heads / it.view.kv_heads);

    return row < it.rows ? it.pos[row] : INT32_MIN;
}

template <int D>
KVA_KERNEL(THREADS)
plain_kernel(const attend_item *items, int unit_tiles)
{
    KVA_DYN_SHARED(float, mem); /* K [PAGE][D + 1], V [PAGE][D], Q [UNITS][D] */
    const attend_item &it = items[blockIdx.z];
    const struct kva_dev_view &v = it.view;
    const int warp = (int)threadIdx.x / KVA_WARP, lane = (int)threadIdx.x % KVA_WARP;
    const int h = (int)blockIdx.y; /* the longest runs come first */
    const int run = (int)(gridDim.x - 1 - blockIdx.x) / unit_tiles;
    const int unit0 = (int)blockIdx.x % unit_tiles * UNITS;
    const int units = it.rows * (it.heads / v.kv_heads);
    const int len = v.len[h], pages = (len + PAGE - 1) / PAGE;
    float *ks = mem, *vs = ks + PAGE * (D + 1), *qs = vs + PAGE * D;
    const float *my_q = qs + warp * MINE * D;
    float o[MINE][D / KVA_WARP], m[MINE], l[MINE];
    int32_t pos[MINE];
    int first, end;

    kva_attend_run({4, 16}, run, &first, &end);
    end = first + end < pages ? first + end : pages;
    if (unit0 >= units || first >= pages)
        return;
    plain_queries<D>(it, h, unit0, qs);
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        pos[i] = plain_position(it, unit0 + warp * MINE + i);
        m[i] = -INFINITY;
        l[i] = 0.0f;
#pragma unroll
        for (int d = 0; d < D / KVA_WARP; d++)
            o[i][d] = 0.0f;
    }
    for (int page = first; page < end; page++) {
        const float *at = (const float *)(const void *)attend_page(v, h, page);
        const int32_t key = attend_position(v, h, page * PAGE + lane, len);
        float s[MINE];

        __syncthreads();
        plain_fetch(ks, D + 1, D, at, v.dim_k, len - page * PAGE);
        plain_fetch(vs, D, D, at + (size_t)PAGE * v.dim_k, v.dim_v, len - page * PAGE);
        __syncthreads();
        plain_scores<D>(it, my_q, ks + lane * (D + 1), key, pos, s);
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            float top = fmaxf(m[i], kva_warp_max(s[i])), by = attend_shrink(m[i], top);

            m[i] = top;
            s[i] = kva_exp(s[i] - (top == -INFINITY ? 0.0f : top));
            l[i] = fmaf(l[i], by, kva_warp_sum(s[i]));
#pragma unroll
            for (int d = 0; d < D / KVA_WARP; d++)
                o[i][d] = kva_mul(o[i][d], by);
        }
        for (int j = 0; j < PAGE; j++) {
            float p[MINE];

#pragma unroll
            for (int i = 0; i < MINE; i++)
                p[i] = __shfl_sync(KVA_FULL, s[i], j);
#pragma unroll
            for (int d = 0; d < D / KVA_WARP; d++) {
                float x = vs[j * D + lane + d * KVA_WARP];

#pragma unroll
                for (int i = 0; i < MINE; i++)
                    o[i][d] = fmaf(p[i], x, o[i][d]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < MINE; i++) {
        const int u = unit0 + warp * MINE + i;

        if (u >= units)
            continue;
        size_t at = attend_part(it, h, u, run);
        if (lane == 0) {
            it.ml[2 * at] = m[i];
            it.ml[2 * at + 1] = l[i];
        }
#pragma unroll
        for (int d = 0; d < D / KVA_WARP; d++)
            if (lane + d * KVA_WARP < v.dim_v)
                it.acc[at * v.dim_v + lane + d * KVA_WARP] = o[i][d];
    }
}

/* sums[j] += e^(s - lse) of every unit, one after the other: a block has one page, all
 * units pass by, and the first warp adds. */
template <int D> KVA_KERNEL(THREADS) plain_sums_kernel(const attend_item *items)
{
    KVA_DYN_SHARED(float, mem); /* K [PAGE][D + 1], Q [UNITS][D], P [UNITS][PAGE] */
    const attend_item &it = items[blockIdx.z];
    const struct kva_dev_view &v = it.view;
    const int warp = (int)threadIdx.x / KVA_WARP, lane = (int)threadIdx.x % KVA_WARP;
    const int h = (int)blockIdx.y, page = (int)blockIdx.x;
    const int group = it.heads / v.kv_heads, units = it.rows * group, len = v.len[h];
    float *ks = mem, *qs = ks + PAGE * (D + 1), *ps = qs + UNITS * D;
    int32_t key;
    int rank;

    if (it.n_sums == 0 || page * PAGE >= len)
        return;
    key = attend_position(v, h, page * PAGE + lane, len);
    rank = attend_rank(v, h, page);
    plain_fetch(ks, D + 1, D, (const float *)(const void *)attend_page(v, h, page),
                v.dim_k, len - page * PAGE);
    for (int unit0 = 0; unit0 < units; unit0 += UNITS) {
        int32_t pos[MINE];
        float s[MINE];

        plain_queries<D>(it, h, unit0, qs);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < MINE; i++)
            pos[i] = plain_position(it, unit0 + warp * MINE + i);
        plain_scores<D>(it, qs + warp * MINE * D, ks + lane * (D + 1), key, pos, s);
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            const int u = warp * MINE + i;

            ps[u * PAGE + lane] =
                s[i] == -INFINITY ? 0.0f : kva_exp(s[i] - attend_lse(it, h, unit0 + u));
        }
        __syncthreads();
        if (warp == 0 && key != UNSEEN)
            for (int i = 0; i < it.n_sums; i++) {
                float *y = it.sums[(size_t)i * v.kv_heads + h] + rank, sum = *y;

                for (int u = 0; u < UNITS; u++) /* 0 of those that do not exist */
                    sum += ps[u * PAGE + lane];
                *y = sum;
            }
    }
}

template <int D> static void plain_launch(const struct kva_cuda_attend *a, void *stream)
{
    auto k = plain_kernel<D>;
    int tiles = (a->rows * (a->heads / a->kv_heads) + UNITS - 1) / UNITS;
    dim3 grid(
        (unsigned)(tiles * kva_attend_runs({4, 16}, (a->entries + PAGE - 1) / PAGE)),
        (unsigned)a->kv_heads, (unsigned)a->items);

    KVA_SHARED_LIMIT(k, plain_tile<D>::bytes);
    KVA_LAUNCH(k, grid, THREADS, plain_tile<D>::bytes, stream, a->item, tiles);
}

template <int D> static void plain_sums(const struct kva_cuda_attend *a, void *stream)
{
    auto k = plain_sums_kernel<D>;
    size_t bytes = sizeof(float) * (size_t)(PAGE * (D + 1) + UNITS * D + UNITS * PAGE);
    dim3 grid((unsigned)((a->entries + PAGE - 1) / PAGE), (unsigned)a->kv_heads,
              (unsigned)a->items);

    KVA_SHARED_LIMIT(k, bytes);
    KVA_LAUNCH(k, grid, THREADS, bytes, stream, a->item);
}

void kva_cuda_attend_plain(const struct kva_cuda_attend *a, void *stream)
{
    int d = a->dim_k > a->dim_v ? a->dim_k : a->dim_v;

    if (d <= 64)
        plain_launch<64>(a, stream);
    else if (d <= 128)
        plain_launch<128>(a, stream);
    else
        plain_launch<256>(a, stream);
}

void kva_cuda_attend_plain_sums(const struct kva_cuda_attend *a, void *stream)
{
    if (a->dim_k <= 64)
        plain_sums<64>(a, stream);
    else if (a->dim_k <= 128)
        plain_sums<128>(a, stream);
    else
        plain_sums<256>(a, stream);
}
