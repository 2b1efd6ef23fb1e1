/* SPDX-License-Identifier: GPL-3.0-or-later */
/* warp.cuh - what a warp does together: sums, the largest, the smallest, running sums.
 *
 * Sums are trees of fixed shape, lanes 16 apart first, and stand in every lane. */
#ifndef KVA_CUDA_WARP_CUH
#define KVA_CUDA_WARP_CUH

#include "kernels/cuda/shim.cuh"

KVA_DEVICE float kva_larger(float a, float b)
{
    return fmaxf(a, b); /* a NaN is never the larger */
}
KVA_DEVICE int32_t kva_larger(int32_t a, int32_t b)
{
    return b > a ? b : a;
}

template <typename T> KVA_DEVICE T kva_warp_sum(T x)
{
#pragma unroll
    for (int o = KVA_WARP / 2; o; o >>= 1)
        x += __shfl_xor_sync(KVA_FULL, x, o);
    return x;
}

template <typename T> KVA_DEVICE T kva_warp_max(T x)
{
#pragma unroll
    for (int o = KVA_WARP / 2; o; o >>= 1)
        x = kva_larger(x, __shfl_xor_sync(KVA_FULL, x, o));
    return x;
}

/* Of numbers above INT32_MIN. */
KVA_DEVICE int32_t kva_warp_min(int32_t x)
{
    return -kva_warp_max(-x);
}

/* The sum of the lanes up to this one. */
template <typename T> KVA_DEVICE T kva_warp_upto(T x)
{
    const int lane = (int)threadIdx.x % KVA_WARP;

#pragma unroll
    for (int d = 1; d < KVA_WARP; d <<= 1) {
        T below = __shfl_up_sync(KVA_FULL, x, d);

        if (lane >= d)
            x += below;
    }
    return x;
}

#endif
