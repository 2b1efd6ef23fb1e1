/* SPDX-License-Identifier: GPL-3.0-or-later */
/* quant.c - weight types and their exact dequantisation (models.md 2).
 *
 * Every value is a product or a product plus an offset, each operation rounded to float
 * by itself:
 *
 *     y = fl(d * q)                                Q8_0 Q4_0 Q5_0
 *     y = fl(fl(d * q) + m)                        Q4_1 Q5_1
 *     y = fl(fl(fl(d * S) * q) - fl(dmin * M))     Q4_K Q5_K
 *     y = fl(fl(d * S) * q)                        Q6_K
 *
 * This is the order of ggml's dequantize_row functions, so results are bit-equal to
 * theirs. The file is compiled with -ffp-contract=off: a fused multiply-add would round
 * once instead of twice. All fields are little-endian and unaligned. */
#include "kernels/kernels.h"

#include <string.h>

enum { BLOCK = 32, SUPER = 256 };

static const struct {
    uint32_t id;
    struct kva_type_info info;
} supported[] = {
    {KVA_F32, {"F32", 1, 4}},         {KVA_F16, {"F16", 1, 2}},
    {KVA_Q4_0, {"Q4_0", BLOCK, 18}},  {KVA_Q4_1, {"Q4_1", BLOCK, 20}},
    {KVA_Q5_0, {"Q5_0", BLOCK, 22}},  {KVA_Q5_1, {"Q5_1", BLOCK, 24}},
    {KVA_Q8_0, {"Q8_0", BLOCK, 34}},  {KVA_Q4_K, {"Q4_K", SUPER, 144}},
    {KVA_Q5_K, {"Q5_K", SUPER, 176}}, {KVA_Q6_K, {"Q6_K", SUPER, 210}},
    {KVA_BF16, {"BF16", 1, 2}},
};

const struct kva_type_info *kva_type_get(uint32_t type)
{
    for (size_t i = 0; i < sizeof supported / sizeof *supported; i++)
        if (supported[i].id == type)
            return &supported[i].info;
    return NULL;
}

const char *kva_type_name(uint32_t type)
{
    /* ids 4, 5, 31-33, 36-38 were withdrawn by the format's authors */
    static const char *const names[] = {
        [0] = "F32",      [1] = "F16",     [2] = "Q4_0",     [3] = "Q4_1",
        [6] = "Q5_0",     [7] = "Q5_1",    [8] = "Q8_0",     [9] = "Q8_1",
        [10] = "Q2_K",    [11] = "Q3_K",   [12] = "Q4_K",    [13] = "Q5_K",
        [14] = "Q6_K",    [15] = "Q8_K",   [16] = "IQ2_XXS", [17] = "IQ2_XS",
        [18] = "IQ3_XXS", [19] = "IQ1_S",  [20] = "IQ4_NL",  [21] = "IQ3_S",
        [22] = "IQ2_S",   [23] = "IQ4_XS", [24] = "I8",      [25] = "I16",
        [26] = "I32",     [27] = "I64",    [28] = "F64",     [29] = "IQ1_M",
        [30] = "BF16",    [34] = "TQ1_0",  [35] = "TQ2_0",   [39] = "MXFP4",
        [40] = "NVFP4",   [41] = "Q1_0",   [42] = "Q2_0",
    };
    if (type >= sizeof names / sizeof *names || !names[type])
        return "unknown";
    return names[type];
}

static float bits_to_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float kva_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 31, fraction = h & 1023;
    if (exponent == 0) {
        /* subnormal: fraction * 2^-24, exact in float */
        float f = (float)fraction * 0x1p-24f;
        return sign ? -f : f;
    }
    if (exponent == 31)
        return bits_to_float(sign | 0x7f800000u | fraction << 13);
    return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t kva_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint32_t sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffffu;
    if (magnitude >
        0x7f800000u) /* NaN: quiet, upper payload kept, as the hardware does */
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* below 2^-14: subnormal halves, multiples of 2^-24 */
        /* 0.5 has an ulp of 2^-24, so adding it rounds to that grid, nearest even */
        float shifted = bits_to_float(magnitude) + 0.5f;
        uint32_t s;
        memcpy(&s, &shifted, sizeof s);
        return (uint16_t)(sign | (s - 0x3f000000u));
    }
    uint32_t odd = magnitude >> 13 & 1;
    magnitude += 0xfffu + odd - (112u << 23);
    return (uint16_t)(sign | magnitude >> 13);
}

static uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static float load_half(const uint8_t *p)
{
    return kva_f16_to_f32(load_u16(p));
}

static void block_q8_0(const uint8_t *b, float *y)
{
    float d = load_half(b);
    for (int i = 0; i < BLOCK; i++)
        y[i] = d * (float)(int8_t)b[2 + i];
}

/* The 4- and 5-bit types share a body: `qh` supplies bit 4 (0: none), `bias` is
 * subtracted from the integer, `m` is added when the type has a minimum. */
static void nibbles(const uint8_t *qs, uint32_t qh, int bias, float d, float *y)
{
    for (int i = 0; i < BLOCK / 2; i++) {
        int lo = (qs[i] & 15) | (int)(qh >> i & 1) << 4;
        int hi = (qs[i] >> 4) | (int)(qh >> (i + 16) & 1) << 4;
        y[i] = d * (float)(lo - bias);
        y[i + BLOCK / 2] = d * (float)(hi - bias);
    }
}

static void add_minimum(float m, float *y)
{
    for (int i = 0; i < BLOCK; i++)
        y[i] = y[i] + m;
}

static void block_q4_0(const uint8_t *b, float *y)
{
    nibbles(b + 2, 0, 8, load_half(b), y);
}

static void block_q4_1(const uint8_t *b, float *y)
{
    nibbles(b + 4, 0, 0, load_half(b), y);
    add_minimum(load_half(b + 2), y);
}

static void block_q5_0(const uint8_t *b, float *y)
{
    nibbles(b + 6, load_u32(b + 2), 16, load_half(b), y);
}

static void block_q5_1(const uint8_t *b, float *y)
{
    nibbles(b + 8, load_u32(b + 4), 0, load_half(b), y);
    add_minimum(load_half(b + 2), y);
}

/* 6-bit scale and minimum of group g (0..7), packed in 12 bytes. */
static void group_scale(const uint8_t *sc, int g, int *scale, int *minimum)
{
    if (g < 4) {
        *scale = sc[g] & 63;
        *minimum = sc[g + 4] & 63;
    } else {
        *scale = (sc[g + 4] & 15) | (sc[g - 4] >> 6) << 4;
        *minimum = (sc[g + 4] >> 4) | (sc[g] >> 6) << 4;
    }
}

/* Q4_K and Q5_K; qh NULL for Q4_K. */
static void super_4_5(const uint8_t *b, const uint8_t *qh, const uint8_t *qs, float *y)
{
    float d = load_half(b), dmin = load_half(b + 2);
    for (int g = 0; g < 8; g++) {
        int scale, minimum;
        group_scale(b + 4, g, &scale, &minimum);
        float ds = d * (float)scale, dm = dmin * (float)minimum;
        const uint8_t *q = qs + 32 * (g / 2);
        for (int l = 0; l < 32; l++) {
            int v = g & 1 ? q[l] >> 4 : q[l] & 15;
            if (qh)
                v |= (qh[l] >> g & 1) << 4;
            float scaled = ds * (float)v;
            y[32 * g + l] = scaled - dm;
        }
    }
}

static void block_q4_k(const uint8_t *b, float *y)
{
    super_4_5(b, NULL, b + 16, y);
}

static void block_q5_k(const uint8_t *b, float *y)
{
    super_4_5(b, b + 16, b + 48, y);
}

static void block_q6_k(const uint8_t *b, float *y)
{
    const uint8_t *ql = b, *qh = b + 128, *sc = b + 192;
    float d = load_half(b + 208);
    for (int s = 0; s < 16; s++) {
        float ds = d * (float)(int8_t)sc[s];
        int n = s / 8, p = s % 8 / 2;
        for (int k = 0; k < 16; k++) {
            int l = 16 * (s & 1) + k;
            int lo = ql[64 * n + 32 * (p & 1) + l];
            lo = p < 2 ? lo & 15 : lo >> 4;
            int hi = qh[32 * n + l] >> (2 * p) & 3;
            y[16 * s + k] = ds * (float)((lo | hi << 4) - 32);
        }
    }
}

typedef void block_fn(const uint8_t *block, float *y);

static block_fn *block_of(enum kva_type type)
{
    switch (type) {
    case KVA_Q8_0:
        return block_q8_0;
    case KVA_Q4_0:
        return block_q4_0;
    case KVA_Q4_1:
        return block_q4_1;
    case KVA_Q5_0:
        return block_q5_0;
    case KVA_Q5_1:
        return block_q5_1;
    case KVA_Q4_K:
        return block_q4_k;
    case KVA_Q5_K:
        return block_q5_k;
    case KVA_Q6_K:
        return block_q6_k;
    case KVA_F32:
    case KVA_F16:
    case KVA_BF16:
        break;
    }
    return NULL;
}

void kva_dequant(enum kva_type type, const void *blocks, size_t n, float *out)
{
    const uint8_t *b = blocks;
    if (n == 0)
        return;
    if (type == KVA_F32) {
        memcpy(out, b, n * sizeof *out);
        return;
    }
    if (type == KVA_F16) {
        for (size_t i = 0; i < n; i++)
            out[i] = load_half(b + 2 * i);
        return;
    }
    if (type == KVA_BF16) {
        for (size_t i = 0; i < n; i++)
            out[i] = bits_to_float((uint32_t)load_u16(b + 2 * i) << 16);
        return;
    }
    const struct kva_type_info *info = kva_type_get(type);
    block_fn *block = block_of(type);
    if (!info || !block)
        return;
    for (size_t i = 0; i + (size_t)info->block_elements <= n;
         i += (size_t)info->block_elements) {
        block(b, out + i);
        b += info->block_bytes;
    }
}

static bool half_finite(const uint8_t *p)
{
    return (load_u16(p) & 0x7c00) != 0x7c00;
}

bool kva_dequant_check(enum kva_type type, const void *blocks, size_t n)
{
    const struct kva_type_info *info = kva_type_get(type);
    if (!info)
        return false;
    const uint8_t *b = blocks;
    for (size_t i = 0; i < n; i += (size_t)info->block_elements, b += info->block_bytes) {
        bool finite = true;
        switch (type) {
        case KVA_F32:
            finite = (load_u32(b) & 0x7f800000u) != 0x7f800000u;
            break;
        case KVA_BF16:
            finite = (load_u16(b) & 0x7f80) != 0x7f80;
            break;
        case KVA_F16:
        case KVA_Q8_0:
        case KVA_Q4_0:
        case KVA_Q5_0:
            finite = half_finite(b);
            break;
        case KVA_Q4_1:
        case KVA_Q5_1:
        case KVA_Q4_K:
        case KVA_Q5_K:
            finite = half_finite(b) && half_finite(b + 2);
            break;
        case KVA_Q6_K:
            finite = half_finite(b + 208);
            break;
        }
        if (!finite)
            return false;
    }
    return true;
}
