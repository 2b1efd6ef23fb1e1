/* SPDX-License-Identifier: GPL-3.0-or-later */
/* weights.h - random weights of every type, as in a model file and as floats. */
#ifndef KVA_SIMT_WEIGHTS_H
#define KVA_SIMT_WEIGHTS_H

#include "kernels/kernels.h"
#include "tests/simt/parity.h"

static const kva_type all_types[] = {KVA_F32,  KVA_F16,  KVA_BF16, KVA_Q4_0,
                                     KVA_Q4_1, KVA_Q5_0, KVA_Q5_1, KVA_Q8_0,
                                     KVA_Q4_K, KVA_Q5_K, KVA_Q6_K};

struct file_weight {
    kva_type type;
    int out, in;
    std::vector<uint8_t> file; /* as in a model file */
    std::vector<float> value;  /* [out][in] by the reference */
};

static void put_half(uint8_t *p, float f)
{
    uint16_t h = kva_f32_to_f16(f);

    memcpy(p, &h, 2);
}

/* Random bits with sane scales: no value is huge or not finite. */
static file_weight random_weight(kva_type type, int out, int in)
{
    const kva_type_info *t = kva_type_get(type);
    size_t n = (size_t)out * (size_t)in, blocks = n / (size_t)t->block_elements;
    file_weight w;

    w.type = type;
    w.out = out;
    w.in = in;
    w.file.resize(blocks * (size_t)t->block_bytes);
    for (size_t b = 0; b < blocks; b++) {
        uint8_t *p = w.file.data() + b * (size_t)t->block_bytes;
        float f = random_float();

        for (int i = 0; i < t->block_bytes; i++)
            p[i] = (uint8_t)(random_bits() >> 56);
        if (type == KVA_F32)
            memcpy(p, &f, 4);
        else if (type == KVA_F16)
            put_half(p, f);
        else if (type == KVA_BF16)
            p[1] = (uint8_t)((p[1] & 0x80) | 0x3e);
        else if (type == KVA_Q6_K)
            put_half(p + 208, 0.001f * f);
        else
            put_half(p, 0.05f * f);
        if (type == KVA_Q4_1 || type == KVA_Q5_1 || type == KVA_Q4_K || type == KVA_Q5_K)
            put_half(p + 2, 0.05f * random_float());
    }
    w.value.resize(n);
    kva_dequant(type, w.file.data(), n, w.value.data());
    return w;
}

/* Row lengths worth trying: below, at and beyond a chunk, ragged where the type allows.
 */
static std::vector<int> row_lengths(kva_type type)
{
    int block = kva_type_get(type)->block_elements;

    if (block == 1)
        return {1, 33, 256, 300, 301, 1284};
    if (block == 32)
        return {32, 288, 1376};
    return {256, 1280};
}

#endif
