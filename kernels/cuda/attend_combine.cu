/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend_combine.cu - from runs to results (kernels.md 3.4c):
 *
 *     M = max(m_i, sink), L = sum_i e^(m_i - M) l_i + e^(sink - M)
 *     o = sum_i e^(m_i - M) acc_i / L, lse = M + ln L
 *
 * Runs ascend; those in which nothing was seen (l = 0) are skipped. A unit that sees
 * nothing at all: o = 0, lse = -inf (of the sink, where there is one). One warp a unit.
 */
#include "kernels/cuda/attend.cuh"

#define THREADS 128
#define WARPS   (THREADS / KVA_WARP)

void kva_cuda_attend_launch(const struct kva_cuda_attend *a, int context, void *stream)
{
    if (a->entries > 0) /* a device refuses a grid of no blocks */
        (!a->f16   ? kva_cuda_attend_plain
         : context ? kva_cuda_attend_context
                   : kva_cuda_attend_answer)(a, stream);
    kva_cuda_attend_combine(a, kva_cuda_attend_cut(a, context), stream);
}

KVA_KERNEL(THREADS) combine_kernel(const attend_item *items, struct kva_attend_cut cut)
{
    const attend_item &it = items[blockIdx.y];
    const int lane = (int)threadIdx.x % KVA_WARP;
    const int at = (int)blockIdx.x * WARPS + (int)threadIdx.x / KVA_WARP;
    const int row = at / it.heads, head = at % it.heads, dim = it.view.dim_v;
    float o[KVA_ATTEND_DIM / KVA_WARP], top = -INFINITY, sum = 0.0f;
    int runs;

    if (row >= it.rows)
        return;
    runs = kva_attend_runs(
        cut, (it.view.len[head / (it.heads / it.view.kv_heads)] + PAGE - 1) / PAGE);
    if (it.sink)
        top = it.sink[head];
    for (int i = 0; i < runs; i++) {
        const size_t p = ((size_t)i * it.rows + row) * it.heads + head;

        top = fmaxf(top, it.ml[2 * p]); /* -inf of a run in which nothing was seen */
    }
#pragma unroll
    for (int d = 0; d < KVA_ATTEND_DIM / KVA_WARP; d++)
        o[d] = 0.0f;
    for (int i = 0; i < runs; i++) {
        const size_t p = ((size_t)i * it.rows + row) * it.heads + head;
        const float *acc = it.acc + p * dim;
        float by;

        if (it.ml[2 * p + 1] == 0.0f)
            continue;
        by = attend_shrink(it.ml[2 * p], top);
        sum = fmaf(by, it.ml[2 * p + 1], sum);
#pragma unroll
        for (int d = 0; d < KVA_ATTEND_DIM / KVA_WARP; d++)
            if (lane + d * KVA_WARP < dim)
                o[d] = fmaf(by, acc[lane + d * KVA_WARP], o[d]);
    }
    if (it.sink)
        sum += attend_shrink(it.sink[head], top);
    float *out = it.out + (size_t)row * it.out_stride + (size_t)head * dim;
#pragma unroll
    for (int d = 0; d < KVA_ATTEND_DIM / KVA_WARP; d++)
        if (lane + d * KVA_WARP < dim)
            out[lane + d * KVA_WARP] = sum == 0.0f ? 0.0f : o[d] / sum;
    if (it.lse && lane == 0)
        it.lse[(size_t)row * it.heads + head] = sum == 0.0f ? -INFINITY : top + logf(sum);
}

void kva_cuda_attend_combine(const struct kva_cuda_attend *a, struct kva_attend_cut cut,
                             void *stream)
{
    dim3 grid((unsigned)((a->rows * a->heads + WARPS - 1) / WARPS), (unsigned)a->items);

    KVA_LAUNCH(combine_kernel, grid, THREADS, 0, stream, a->item, cut);
}
