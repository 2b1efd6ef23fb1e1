/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pool.cu - pooling over neighbours and over the query heads of a group (pool.h).
 *
 * A block makes 256 entries of one KV head. It holds them and half a kernel on either
 * side in shared memory, as doubles: one query head after the other, or, where pooling
 * comes last, the mean of all. A thread's sums ascend, first over neighbours, then over
 * query heads, and leave out what lies beyond the ends: the order of kernels/cpu. */
#include "kernels/cuda/pool.h"
#include "kernels/cuda/shim.cuh"

#define THREADS 256
#define WIDE    (THREADS + KVA_POOL_WIDTH - 1)

/* Entry j of the pool; entry i of the list is near[i - begin], the list has n. */
template <bool MAX>
KVA_DEVICE double pooled(const double *near, int begin, int j, int n, int kernel)
{
    int half = kernel / 2, from = (j < half ? 0 : j - half) - begin,
        to = (j + half < n ? j + half + 1 : n) - begin;
    double best = near[from], sum = 0;

    for (int i = from; i < to; i++) {
        double x = near[i];

        if (MAX)
            best = x > best ? x : best;
        else
            sum += x;
    }
    return MAX ? best : sum / kernel;
}

/* Entry `at` of the mean of `group` query heads from `first` on. */
KVA_DEVICE double mean_at(const struct kva_dev_pool &p, int first, int group, int at)
{
    double sum = 0;

    for (int a = first; a < first + group; a++)
        sum += (double)p.m[p.a_off[a] + (size_t)at];
    return sum / group;
}

/* grid (entries / THREADS, KV heads) */
template <bool MAX, bool BEFORE>
KVA_KERNEL_OF(THREADS, 4)
pool_heads(struct kva_dev_pool p, float *s)
{
    KVA_SHARED(double, near, WIDE);
    int h = (int)blockIdx.y, t = (int)threadIdx.x, group = p.heads / p.kv_heads;
    int held = (int)(p.off[h + 1] - p.off[h]), n = (int)p.n[h];
    int j0 = (int)(blockIdx.x * THREADS), j = j0 + t, begin = j0 - p.kernel / 2;
    int first = KVA_MUT(50) ? h : h * group;
    double sum = 0;

    if (j0 >= held) /* the whole block */
        return;
    for (int a = 0; j0 < n && a < (BEFORE ? 1 : group); a++) {
        for (int i = t; i < THREADS + p.kernel - 1; i += THREADS) {
            int at = begin + i;

            near[i] = at < 0 || at >= n ? 0
                      : BEFORE          ? mean_at(p, first, group, at)
                                        : (double)p.m[p.a_off[first + a] + (size_t)at];
        }
        if (!KVA_MUT(46))
            __syncthreads();
        if (j < n)
            sum += pooled<MAX>(near, begin, j, n, p.kernel);
        __syncthreads();
    }
    if (j < held) /* 0 from n on */
        s[p.off[h] + (size_t)j] = (float)(BEFORE ? sum : sum / group);
}

void kva_dev_pool_heads(const struct kva_dev_pool *p, float *s, void *stream)
{
    auto kernel = p->max
                      ? (p->before ? pool_heads<true, true> : pool_heads<true, false>)
                      : (p->before ? pool_heads<false, true> : pool_heads<false, false>);

    if (p->most > 0 && p->kv_heads > 0)
        KVA_LAUNCH(
            kernel,
            dim3((unsigned)((p->most + THREADS - 1) / THREADS), (unsigned)p->kv_heads),
            THREADS, 0, stream, *p, s);
}
