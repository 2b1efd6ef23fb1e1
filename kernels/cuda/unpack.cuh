/* SPDX-License-Identifier: GPL-3.0-or-later */
/* unpack.cuh - weights from their stored form (weight.h) to the exact floats of the file.
 *
 * Every product and sum is rounded by itself, as in kernels/quant.c, so values are
 * bit-equal to kva_dequant's. A small whole number v becomes a float by putting it into
 * the low bits of 2^23 and taking 2^23 away, which is exact and cheaper than a
 * conversion; the bias goes with it. */
#ifndef KVA_CUDA_UNPACK_CUH
#define KVA_CUDA_UNPACK_CUH

#include "kernels/cuda/shim.cuh"
#include "kernels/cuda/weight.h"

template <int kind> struct kva_kind;
#define KVA_X(name, b, r, s)                                                             \
    template <> struct kva_kind<KVA_DEV_##name> {                                        \
        static constexpr int bits = b, record = KVA_REC_##r, bias = s;                   \
    };
KVA_DEV_KINDS(KVA_X)
#undef KVA_X

/* Words of a scale record. */
template <int kind> struct kva_record {
    static constexpr int words = kva_kind<kind>::record == KVA_REC_N   ? 0
                                 : kva_kind<kind>::record == KVA_REC_M ? 8
                                                                       : 4;
    static constexpr bool super =
        kva_kind<kind>::record == KVA_REC_K || kva_kind<kind>::record == KVA_REC_S;
};

struct kva_unit_scale {
    float d, m;
};

/* Scale and offset of unit j, of which `half` (0: inputs 0..15) is asked. rec: the word
 * of the record that holds them: 2 bytes a unit in words of two units, or 4 bytes. */
template <int kind>
KVA_DEVICE kva_unit_scale kva_scale_of(uint32_t rec, uint32_t super, int j, int half)
{
    constexpr int r = kva_kind<kind>::record;
    kva_unit_scale s = {0.0f, 0.0f};

    if (r == KVA_REC_M) {
        s.d = kva_half_float((uint16_t)rec);
        s.m = kva_half_float((uint16_t)(rec >> 16));
    } else if (r != KVA_REC_N) {
        uint32_t two = rec >> 16 * (j & 1) & 0xffffu;

        if (r == KVA_REC_D) {
            s.d = kva_half_float((uint16_t)two);
        } else if (r == KVA_REC_K) {
            s.d = kva_mul(kva_half_float((uint16_t)super), (float)(two & 0xffu));
            s.m = kva_mul(kva_half_float((uint16_t)(super >> 16)), (float)(two >> 8));
        } else {
            s.d = kva_mul(kva_half_float((uint16_t)super),
                          (float)(int8_t)(two >> 8 * half));
        }
    }
    return s;
}

template <int kind> KVA_DEVICE float kva_value_of(uint32_t v, kva_unit_scale s)
{
    constexpr int r = kva_kind<kind>::record;
    const float zero = 8388608.0f + (float)kva_kind<kind>::bias;
    float q = kva_mul(s.d, kva_sub(kva_bits_float(0x4b000000u | v), zero));

    return r == KVA_REC_M ? kva_add(q, s.m) : r == KVA_REC_K ? kva_sub(q, s.m) : q;
}

/* The four weights of a lane. w: the unit's words; 4 bits: the word of two units. */
template <int kind>
KVA_DEVICE void kva_unit_values(const uint32_t *w, int j, kva_unit_scale s, float v[4])
{
    constexpr int bits = kva_kind<kind>::bits;

#pragma unroll
    for (int e = 0; e < 4; e++) {
        if (bits == 32) {
            v[e] = kva_bits_float(w[e]);
        } else if (bits == 16) {
            uint32_t h = w[e / 2] >> 16 * (e & 1) & 0xffffu;

            v[e] = kind == KVA_DEV_BF16 ? kva_bits_float(h << 16)
                                        : kva_half_float((uint16_t)h);
        } else if (bits == 8) {
            v[e] = kva_value_of<kind>(w[0] >> 8 * e & 0xffu, s);
        } else {
            v[e] = kva_value_of<kind>(w[0] >> (16 * (j & 1) + 4 * e) & 0xfu, s);
        }
    }
}

/* Address of the first word of a lane's unit. */
template <int kind>
KVA_DEVICE const uint32_t *kva_unit_at(const kva_dev_weight &w, int row, int c, int j,
                                       int g)
{
    constexpr int bits = kva_kind<kind>::bits;
    size_t chunk = (size_t)row * (size_t)w.chunks + (size_t)c;
    const uint32_t *v = (const uint32_t *)(const void *)w.values + chunk * (bits * 8);

    return bits == 4   ? v + g * 4 + j / 2
           : bits == 8 ? v + j / 4 * 32 + g * 4 + j % 4
                       : v + (j * 8 + g) * (bits / 8);
}

/* The same from memory, one unit at a time: where speed does not count. */
template <int kind>
KVA_DEVICE void kva_unit_load(const kva_dev_weight &w, int row, int c, int j, int g,
                              float v[4])
{
    constexpr int n = kva_kind<kind>::bits / 8 < 1 ? 1 : kva_kind<kind>::bits / 8;
    constexpr int rw = kva_record<kind>::words;
    const uint32_t *from = kva_unit_at<kind>(w, row, c, j, g);
    size_t chunk = (size_t)row * (size_t)w.chunks + (size_t)c;
    uint32_t word[n], rec = 0, super = 0;

#pragma unroll
    for (int i = 0; i < n; i++)
        word[i] = from[i];
    if (rw)
        rec = ((const uint32_t *)(const void *)w.scales)[chunk * rw + j * rw / 8];
    if (kva_record<kind>::super)
        super = w.super[chunk];
    kva_unit_values<kind>(word, j, kva_scale_of<kind>(rec, super, j, g / 4), v);
}

/* The functions f<kind>, in the order of the kinds. */
#define KVA_EACH_KIND(f)                                                                 \
    {                                                                                    \
        f<KVA_DEV_F32>, f<KVA_DEV_F16>, f<KVA_DEV_BF16>, f<KVA_DEV_V4>, f<KVA_DEV_V4M>,  \
            f<KVA_DEV_V4K>, f<KVA_DEV_V8>, f<KVA_DEV_V8M>, f<KVA_DEV_V8K>,               \
            f<KVA_DEV_V8S>                                                               \
    }

#endif
