/* SPDX-License-Identifier: GPL-3.0-or-later */
/* weight.h - a weight matrix on the device: the file's numbers, laid out for wide loads.
 *
 * A row is cut into chunks of 256 inputs (the last filled with zeros), a chunk into eight
 * units of 32. Eight lanes share a row: lane g of a unit j holds inputs 32j + 4g .. +3 of
 * the chunk, so that the x it needs is one 16-byte load and eight lanes' x is one line.
 *
 *   values  4 bits: one 16-byte word a lane and chunk, [row][chunk][lane]; unit j in bits
 *           16j .. 16j+15, the first input lowest
 *           8 bits: two words, [row][chunk][2][lane]; unit j is 32-bit word j % 4 of word
 *           j / 4
 *           16 and 32 bits: row-major, a row 256 * chunks long, as the large products
 *           read it
 *   scales  [row][chunk] records, unit j of it:
 *           D  f16 d                     fl(d q)                          16 bytes
 *           M  f16 d, f16 m              fl(fl(d q) + m)                  32 bytes
 *           K  u8 S, u8 M; super d, e    fl(fl(fl(d S) q) - fl(e M))      16 bytes
 *           S  2 x i8 S; super d         fl(fl(d S) q), S of 16 inputs    16 bytes
 *   super   [row][chunk] f16 d in the low half, e in the high (K, S)
 *
 * q = stored value - bias. Five- and six-bit values are stored as bytes. */
#ifndef KVA_CUDA_WEIGHT_H
#define KVA_CUDA_WEIGHT_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_CHUNK 256

/* X(name, bits, scale record, bias) */
#define KVA_DEV_KINDS(X)                                                                 \
    X(F32, 32, N, 0)                                                                     \
    X(F16, 16, N, 0)                                                                     \
    X(BF16, 16, N, 0)                                                                    \
    X(V4, 4, D, 8)    /* Q4_0 */                                                         \
    X(V4M, 4, M, 0)   /* Q4_1 */                                                         \
    X(V4K, 4, K, 0)   /* Q4_K */                                                         \
    X(V8, 8, D, 128)  /* Q8_0 Q5_0 */                                                    \
    X(V8M, 8, M, 0)   /* Q5_1 */                                                         \
    X(V8K, 8, K, 0)   /* Q5_K */                                                         \
    X(V8S, 8, S, 128) /* Q6_K */

enum kva_dev_kind {
#define KVA_X(name, bits, record, bias) KVA_DEV_##name,
    KVA_DEV_KINDS(KVA_X)
#undef KVA_X
        KVA_DEV_KIND_COUNT
};

enum kva_dev_record { KVA_REC_N, KVA_REC_D, KVA_REC_M, KVA_REC_K, KVA_REC_S };

struct kva_dev_weight { /* by value; pointers are device memory */
    int kind;           /* enum kva_dev_kind */
    int out, in, chunks;
    const uint8_t *values, *scales;
    const uint32_t *super;
};

/* Bytes of one row of each array; 0 where the kind has none. */
struct kva_dev_row_bytes {
    size_t values, scales, super;
};

/* The kind of a file type that kva_type_get knows. */
enum kva_dev_kind kva_dev_kind_of(enum kva_type type);
struct kva_dev_row_bytes kva_dev_row_size(enum kva_dev_kind kind, int chunks);
/* Lays one row of `in` elements out; the three arrays are cleared first. Host memory. */
void kva_dev_row_lay(enum kva_type type, const void *row, int in, uint8_t *values,
                     uint8_t *scales, uint32_t *super);

#ifdef __cplusplus
}
#endif
#endif
