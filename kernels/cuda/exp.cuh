/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exp.cuh - the exponential of the token path, bit for bit that of the CPU (ruling R2).
 *
 * exp(x) = 2^n e^r, n = rint(x log2 e), r = x - n ln 2 with ln 2 in two parts, e^r by its
 * series to degree 7 (kernels/cpu/simd.h). exp(-inf) = 0, exp(NaN) = NaN. */
#ifndef KVA_CUDA_EXP_CUH
#define KVA_CUDA_EXP_CUH

#include "kernels/cuda/shim.cuh"

KVA_DEVICE float kva_exp(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    float n, r, s;
    int i, h;

    x = -110.0f > x ? -110.0f : x;
    x = 90.0f < x ? 90.0f : x;
    n = kva_sub(fmaf(x, 1.44269504f, magic), magic);
    r = fmaf(n, -0.693145751953125f, x);
    r = fmaf(n, -1.42860682e-6f, r);
    s = fmaf(1.0f / 5040, r, 1.0f / 720);
    s = fmaf(s, r, 1.0f / 120);
    s = fmaf(s, r, 1.0f / 24);
    s = fmaf(s, r, 1.0f / 6);
    s = fmaf(s, r, 0.5f);
    s = fmaf(s, r, 1.0f);
    s = fmaf(s, r, 1.0f);
    i = n == n ? (int)n : 0;
    h = i >> 1; /* in two factors: n reaches beyond the exponents of one float */
    return kva_mul(kva_mul(s, kva_bits_float((uint32_t)(h + 127) << 23)),
                   kva_bits_float((uint32_t)(i - h + 127) << 23));
}

#endif
