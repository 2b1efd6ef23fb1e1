/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gguf_internal.h - shared between the container reader and the check of model keys. */
#ifndef KVA_GGUF_INTERNAL_H
#define KVA_GGUF_INTERNAL_H

#include "models/model.h"

/* Metadata value types of the format (models.md 1.1). */
enum gguf_value {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_VALUES,
};

#define GGUF_MAX_LAYERS  512
#define GGUF_MAX_EXPERTS 1024
#define GGUF_MAX_HEAD    1024

/* Ranges of the keys that every architecture shares: layer, head and expert counts,
 * positive reals, per-layer array lengths, vocabulary lengths (models.md 1.3). Absent
 * keys pass: what a family requires is the loader's business. `name` is for messages. */
enum kva_status kva_gguf_check_keys(const struct kva_gguf *g, const char *name,
                                    struct kva_error *err);

#endif
