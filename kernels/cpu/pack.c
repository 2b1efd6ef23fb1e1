/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pack.c - weights in panels of sixteen output rows, so that a vector holds sixteen
 * outputs.
 *
 * Every quantised type becomes one of two forms, weight = fl(fl(d*q) + m) with q of 4 or
 * 8 bits (cpu.h). The K types multiply two scales first: fl(d*S) and -fl(dmin*M) are
 * stored in f32, which is models.md 2 to the bit, since a - b and a + (-b) round alike.
 * Outputs are padded with zeros. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static const struct form {
    int bits, min, wide, block;
    size_t bytes;
} forms[] = {
#define KVA_X(kind, bits, min, wide, block)                                              \
    {bits, min, wide, block, KVA_PACK_BYTES(bits, min, wide, block)},
    KVA_PACK_MAP(KVA_X)
#undef KVA_X
};

/* One source block taken apart: integers and, per sub-block, scale and minimum. */
struct parts {
    int8_t q[256];
    uint16_t d16, m16;  /* forms that are not wide */
    float d[16], m[16]; /* wide forms */
};

static enum kva_pack kind_of(enum kva_type type)
{
    switch (type) {
    case KVA_F32:
        return KVA_PACK_F32;
    case KVA_F16:
        return KVA_PACK_F16;
    case KVA_BF16:
        return KVA_PACK_BF16;
    case KVA_Q4_0:
        return KVA_PACK_P4;
    case KVA_Q4_1:
        return KVA_PACK_P4M;
    case KVA_Q5_0:
    case KVA_Q8_0:
        return KVA_PACK_P8;
    case KVA_Q5_1:
        return KVA_PACK_P8M;
    case KVA_Q4_K:
        return KVA_PACK_P4MW;
    case KVA_Q5_K:
        return KVA_PACK_P8MW;
    case KVA_Q6_K:
        return KVA_PACK_P8W;
    }
    return KVA_PACK_KINDS;
}

static uint16_t half_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* Q4_0 Q4_1 Q5_0 Q5_1: low nibbles are elements 0..15, high nibbles 16..31. Q4_0 keeps
 * the raw nibble, the -8 is part of the form. */
static void split_32(enum kva_type type, const uint8_t *b, struct parts *p)
{
    bool min = type == KVA_Q4_1 || type == KVA_Q5_1;
    bool five = type == KVA_Q5_0 || type == KVA_Q5_1;
    const uint8_t *qs = b + (min ? 4 : 2);
    uint32_t qh = 0;

    p->d16 = half_at(b);
    p->m16 = min ? half_at(b + 2) : 0;
    if (five) {
        memcpy(&qh, qs, 4);
        qs += 4;
    }
    for (int i = 0; i < 32; i++) {
        int v = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;

        v |= (int)(qh >> i & 1) << 4;
        p->q[i] = (int8_t)(type == KVA_Q5_0 ? v - 16 : v);
    }
}

/* Q4_K Q5_K: eight groups of 32 with 6-bit scale and minimum */
static void split_k(enum kva_type type, const uint8_t *b, struct parts *p)
{
    float d = kva_f16_to_f32(half_at(b)), dmin = kva_f16_to_f32(half_at(b + 2));
    const uint8_t *sc = b + 4, *qh = b + 16, *qs = type == KVA_Q5_K ? b + 48 : b + 16;

    for (int g = 0; g < 8; g++) {
        int s = g < 4 ? sc[g] & 63 : (sc[g + 4] & 15) | (sc[g - 4] >> 6) << 4;
        int m = g < 4 ? sc[g + 4] & 63 : sc[g + 4] >> 4 | (sc[g] >> 6) << 4;

        p->d[g] = d * (float)s;
        p->m[g] = -(dmin * (float)m);
        for (int l = 0; l < 32; l++) {
            int byte = qs[32 * (g / 2) + l], v = g % 2 ? byte >> 4 : byte & 15;

            if (type == KVA_Q5_K)
                v |= (qh[l] >> g & 1) << 4;
            p->q[32 * g + l] = (int8_t)v;
        }
    }
}

/* Q6_K: sixteen groups of 16 */
static void split_q6(const uint8_t *b, struct parts *p)
{
    const uint8_t *ql = b, *qh = b + 128, *sc = b + 192;
    float d = kva_f16_to_f32(half_at(b + 208));

    for (int s = 0; s < 16; s++)
        p->d[s] = d * (float)(int8_t)sc[s];
    for (int i = 0; i < 256; i++) {
        int n = i / 128, part = i % 128 / 32, l = i % 32;
        int lo = ql[64 * n + 32 * (part & 1) + l], hi;

        lo = part < 2 ? lo & 15 : lo >> 4;
        hi = qh[32 * n + l] >> 2 * part & 3;
        p->q[i] = (int8_t)((lo | hi << 4) - 32);
    }
}

static void split(enum kva_type type, const uint8_t *b, struct parts *p)
{
    switch (type) {
    case KVA_Q8_0:
        p->d16 = half_at(b);
        memcpy(p->q, b + 2, 32);
        break;
    case KVA_Q4_K:
    case KVA_Q5_K:
        split_k(type, b, p);
        break;
    case KVA_Q6_K:
        split_q6(b, p);
        break;
    default:
        split_32(type, b, p);
        break;
    }
}

/* Puts sub-block `sub` of one row into lane `lane` of a packed block. */
static void place(const struct form *f, const struct parts *p, int sub, int lane,
                  uint8_t *dst)
{
    const int8_t *q = p->q + sub * f->block;
    uint8_t *scale = dst + (size_t)f->bits * (size_t)f->block * 2;

    if (f->bits == 8) {
        for (int i = 0; i < f->block; i++)
            dst[16 * i + lane] = (uint8_t)q[i];
    } else {
        for (int g = 0; g < f->block / 8; g++) {
            uint32_t word = 0;

            for (int i = 0; i < 8; i++)
                word |= (uint32_t)(q[8 * g + i] & 15) << 4 * i;
            memcpy(dst + 64 * g + 4 * lane, &word, 4);
        }
    }
    if (f->wide) {
        memcpy(scale + 4 * lane, &p->d[sub], 4);
        if (f->min)
            memcpy(scale + 64 + 4 * lane, &p->m[sub], 4);
    } else {
        memcpy(scale + 2 * lane, &p->d16, 2);
        if (f->min)
            memcpy(scale + 32 + 2 * lane, &p->m16, 2);
    }
}

static void pack_row(const struct kva_weight *w, const uint8_t *row, int lane,
                     uint8_t *dst)
{
    const struct form *f = &forms[w->kind];
    const struct kva_type_info *t = kva_type_get(w->type);
    struct parts p;

    if (f->block == 1) {
        size_t e = (size_t)t->block_bytes;

        for (int i = 0; i < w->in; i++)
            memcpy(dst + ((size_t)i * 16 + (size_t)lane) * e, row + (size_t)i * e, e);
        return;
    }
    for (int b = 0; b < w->in / t->block_elements; b++) {
        split(w->type, row + (size_t)b * (size_t)t->block_bytes, &p);
        for (int s = 0; s < t->block_elements / f->block; s++, dst += f->bytes)
            place(f, &p, s, lane, dst);
    }
}

enum kva_status kva_cpu_pack(struct kva_weight *w, struct kva_error *err)
{
    const struct form *f;
    size_t bytes;

    w->kind = kind_of(w->type);
    f = &forms[w->kind];
    w->panel_bytes = (size_t)(w->in / f->block) * f->bytes;
    /* the padding lets a prefetch or a vector run past the last block */
    bytes = (size_t)w->panels * w->panel_bytes + 64;
    w->packed = kva_aligned(bytes);
    if (!w->packed)
        return KVA_FAIL(err, KVA_ENOMEM, "packed weight of %d x %d", w->out, w->in);
    w->owned_bytes += bytes;
    for (int o = 0; o < w->out; o++) {
        size_t row = (size_t)(w->row_of ? w->row_of[o] : o);

        pack_row(w, w->data + row * w->row_bytes, o % 16,
                 w->packed + (size_t)(o / 16) * w->panel_bytes);
    }
    return KVA_OK;
}
