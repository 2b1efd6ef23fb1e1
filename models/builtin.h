/* SPDX-License-Identifier: GPL-3.0-or-later */
/* builtin.h - models that need no file (internal). */
#ifndef KVA_BUILTIN_H
#define KVA_BUILTIN_H

#include "models/arch.h"

/* ---- tiny.c: the deterministic tiny llama of models.md 9.2, as the bytes of a GGUF
 * file. */
struct kva_tiny_opts {
    uint32_t ctx_train; /* 0: 8192 */
    /* Adds metadata or tensors before the ordinary ones; NULL: none. */
    void (*extra)(struct kva_gguf_writer *w, void *ctx);
    void *ctx;
    const char *skip; /* a tensor left out; NULL: none */
};
/* u(name, i) of models.md 9.2, in [-1, 1). */
double kva_tiny_unit(const char *name, uint64_t i);
/* opts may be NULL. `out` is initialised by the caller. */
enum kva_status kva_tiny_build(const struct kva_tiny_opts *opts, struct kva_buf *out,
                               struct kva_error *err);

/* ---- retrieval.c: the computed two-layer llama of retrieval-model.md. */
#define KVA_RETRIEVAL_LAYERS 2
struct kva_retrieval_layer {
    float *q, *k, *v, *o;    /* [384][256] [128][256] [128][256] [256][384] */
    float *gate, *up, *down; /* [128][256] [128][256] [256][128] */
    float *norm;             /* [256], before attention and before the FFN */
};
/* Row-major [out][in] arrays inside one block that the caller frees with free(block). */
struct kva_retrieval {
    float *block;
    size_t n;        /* floats in the block */
    float *tok_embd; /* [32768][256] */
    float *out_norm; /* [256] */
    struct kva_retrieval_layer layer[KVA_RETRIEVAL_LAYERS];
};
enum kva_status kva_retrieval_build(struct kva_retrieval *r, struct kva_error *err);
/* Packs the arrays, which must outlive `a`. `theta` 0: 2^80 (another base is for tests).
 */
enum kva_status kva_retrieval_arch(const struct kva_retrieval *r, double theta,
                                   struct kva_ops *ops, struct kva_arch *a,
                                   struct kva_error *err);

#endif
