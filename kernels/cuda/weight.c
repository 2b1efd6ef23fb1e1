/* SPDX-License-Identifier: GPL-3.0-or-later */
/* weight.c - lays the rows of a file out as weight.h says. Host code; each row is read
 * once, so loading runs at the speed of memory. Blocks are those of models.md 2. */
#include "kernels/cuda/weight.h"

#include <string.h>

enum { UNIT = 32, UNITS = KVA_CHUNK / UNIT };

static const struct {
    int bits, record;
} kinds[] = {
#define KVA_X(name, bits, record, bias) {bits, KVA_REC_##record},
    KVA_DEV_KINDS(KVA_X)
#undef KVA_X
};

enum kva_dev_kind kva_dev_kind_of(enum kva_type type)
{
    switch (type) {
    case KVA_F16:
        return KVA_DEV_F16;
    case KVA_BF16:
        return KVA_DEV_BF16;
    case KVA_Q4_0:
        return KVA_DEV_V4;
    case KVA_Q4_1:
        return KVA_DEV_V4M;
    case KVA_Q4_K:
        return KVA_DEV_V4K;
    case KVA_Q8_0:
    case KVA_Q5_0:
        return KVA_DEV_V8;
    case KVA_Q5_1:
        return KVA_DEV_V8M;
    case KVA_Q5_K:
        return KVA_DEV_V8K;
    case KVA_Q6_K:
        return KVA_DEV_V8S;
    case KVA_F32:
        break;
    }
    return KVA_DEV_F32;
}

struct kva_dev_row_bytes kva_dev_row_size(enum kva_dev_kind kind, int chunks)
{
    static const size_t record_bytes[] = {
        [KVA_REC_N] = 0,         [KVA_REC_D] = UNITS * 2, [KVA_REC_M] = UNITS * 4,
        [KVA_REC_K] = UNITS * 2, [KVA_REC_S] = UNITS * 2,
    };
    int record = kinds[kind].record;
    size_t n = (size_t)chunks;

    return (struct kva_dev_row_bytes){
        .values = n * KVA_CHUNK * (size_t)kinds[kind].bits / 8,
        .scales = n * record_bytes[record],
        .super = record == KVA_REC_K || record == KVA_REC_S ? n * sizeof(uint32_t) : 0,
    };
}

/* ---- 32 values as stored, from one block of the file ---- */

static void nibbles(const uint8_t *qs, const uint8_t *high, int add, uint8_t *q)
{
    for (int i = 0; i < UNIT / 2; i++) {
        int lo = qs[i] & 15, hi = qs[i] >> 4;

        if (high) {
            lo |= (high[i / 8] >> i % 8 & 1) << 4;
            hi |= (high[2 + i / 8] >> i % 8 & 1) << 4;
        }
        q[i] = (uint8_t)(lo + add);
        q[i + UNIT / 2] = (uint8_t)(hi + add);
    }
}

static void bytes(const uint8_t *qs, uint8_t *q)
{
    for (int i = 0; i < UNIT; i++)
        q[i] = qs[i] ^ 0x80; /* + 128 */
}

/* unit g of a Q4_K (high NULL) or Q5_K block */
static void unit_4_5_k(const uint8_t *qs, const uint8_t *high, int g, uint8_t *q)
{
    const uint8_t *p = qs + UNIT * (g / 2);

    for (int i = 0; i < UNIT; i++) {
        int v = g & 1 ? p[i] >> 4 : p[i] & 15;

        if (high)
            v |= (high[i] >> g & 1) << 4;
        q[i] = (uint8_t)v;
    }
}

/* unit g of a Q6_K block: half n = g / 4 of 128 values, p = g % 4 its bit plane */
static void unit_6_k(const uint8_t *b, int g, uint8_t *q)
{
    const uint8_t *ql = b + 64 * (g / 4) + 32 * (g & 1), *qh = b + 128 + 32 * (g / 4);
    int p = g % 4;

    for (int i = 0; i < UNIT; i++) {
        int lo = p < 2 ? ql[i] & 15 : ql[i] >> 4;

        q[i] = (uint8_t)((lo | (qh[i] >> (2 * p) & 3) << 4) - 32 + 128);
    }
}

/* ---- where they go ---- */

static void put_values(int bits, const uint8_t *q, size_t unit, uint8_t *values)
{
    size_t chunk = unit / UNITS, j = unit % UNITS;

    for (size_t g = 0; g < 8; g++, q += 4) {
        if (bits == 8) {
            memcpy(values + chunk * 256 + j / 4 * 128 + g * 16 + j % 4 * 4, q, 4);
        } else {
            uint8_t *to = values + chunk * 128 + g * 16 + j * 2;

            to[0] = (uint8_t)(q[0] | q[1] << 4);
            to[1] = (uint8_t)(q[2] | q[3] << 4);
        }
    }
}

static void lay_32(enum kva_type type, const uint8_t *b, size_t unit, uint8_t *values,
                   uint8_t *scales)
{
    uint8_t q[UNIT];

    switch (type) {
    case KVA_Q8_0:
        bytes(b + 2, q);
        break;
    case KVA_Q4_0:
        nibbles(b + 2, NULL, 0, q);
        break;
    case KVA_Q4_1:
        nibbles(b + 4, NULL, 0, q);
        break;
    case KVA_Q5_0:
        nibbles(b + 6, b + 2, 128 - 16, q);
        break;
    default: /* Q5_1 */
        nibbles(b + 8, b + 4, 0, q);
        break;
    }
    put_values(kinds[kva_dev_kind_of(type)].bits, q, unit, values);
    if (type == KVA_Q4_1 || type == KVA_Q5_1)
        memcpy(scales + 4 * unit, b, 4);
    else
        memcpy(scales + 2 * unit, b, 2);
}

static void lay_256(enum kva_type type, const uint8_t *b, size_t chunk, uint8_t *values,
                    uint8_t *scales, uint32_t *super)
{
    uint8_t q[UNIT], *record = scales + 16 * chunk;
    const uint8_t *sc = b + 4; /* Q4_K, Q5_K: eight pairs of 6 bits in 12 bytes */

    for (int g = 0; g < UNITS; g++) {
        if (type == KVA_Q6_K)
            unit_6_k(b, g, q);
        else
            unit_4_5_k(b + (type == KVA_Q4_K ? 16 : 48), type == KVA_Q4_K ? NULL : b + 16,
                       g, q);
        put_values(type == KVA_Q4_K ? 4 : 8, q, chunk * UNITS + (size_t)g, values);
    }
    if (type == KVA_Q6_K) {
        memcpy(record, b + 192, 16);
        super[chunk] = (uint32_t)(b[208] | b[209] << 8);
        return;
    }
    for (int g = 0; g < 4; g++) {
        record[2 * g] = sc[g] & 63;
        record[2 * g + 1] = sc[g + 4] & 63;
        record[2 * g + 8] = (uint8_t)((sc[g + 8] & 15) | (sc[g] >> 6) << 4);
        record[2 * g + 9] = (uint8_t)((sc[g + 8] >> 4) | (sc[g + 4] >> 6) << 4);
    }
    super[chunk] = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
                   (uint32_t)b[3] << 24;
}

void kva_dev_row_lay(enum kva_type type, const void *row, int in, uint8_t *values,
                     uint8_t *scales, uint32_t *super)
{
    const struct kva_type_info *t = kva_type_get((uint32_t)type);
    int chunks = (in + KVA_CHUNK - 1) / KVA_CHUNK;
    struct kva_dev_row_bytes n = kva_dev_row_size(kva_dev_kind_of(type), chunks);
    const uint8_t *b = row;

    memset(values, 0, n.values);
    if (n.scales)
        memset(scales, 0, n.scales);
    if (n.super)
        memset(super, 0, n.super);
    if (t->block_elements == 1) {
        memcpy(values, b, (size_t)in * (size_t)t->block_bytes);
        return;
    }
    for (size_t i = 0; i < (size_t)(in / t->block_elements); i++, b += t->block_bytes) {
        if (t->block_elements == UNIT)
            lay_32(type, b, i, values, scales);
        else
            lay_256(type, b, i, values, scales, super);
    }
}
