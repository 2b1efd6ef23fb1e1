/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuda.h - the inside of the device backend: what the functions of its table share.
 *
 * A function of the table turns every pointer it is given into device memory, launches,
 * and ends with kva_cuda_done:
 *
 *     const float *x = kva_cuda_in(cu, host_or_device, n);
 *     const int32_t *ids = kva_cuda_list(cu, host_ids, rows * sizeof *ids);
 *     float *part = kva_cuda_scratch(cu, bytes), *y = kva_cuda_out(cu, host_or_device,
 * m); if (!cu->failed) kva_x(x, ids, part, y, ..., cu->stream); kva_cuda_done(cu);
 *
 * Memory of `alloc` is used in place; other pointers are the host's and are copied in
 * before and out after, which waits. Lists always come from the host and never wait.
 * Scratch lives until `done`. Calls of one table are not thread-safe.
 *
 * Files named *_cuda.c and *_cuda.cu need CUDA itself and have a stand-in under
 * tests/simt; all others are compiled for the emulator as they are. */
#ifndef KVA_CUDA_CUDA_H
#define KVA_CUDA_CUDA_H

#include "kernels/cuda/rt.h"
#include "kernels/cuda/view.h"
#include "kernels/kernels.h"
#include "kernels/kvstore.h"
#include "kernels/pages.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kva_cuda_span { /* one allocation of ours */
    uint8_t *base;
    size_t bytes;
};

struct kva_cuda_out { /* a host array that awaits a result */
    void *host;
    const void *device;
    size_t bytes;
};

struct kva_cuda_moves; /* store.c: rows to be moved, collected over KV heads */
struct kva_lt;         /* the library of large products, owned by cuda_products.c */

struct kva_cuda {
    struct kva_ops ops; /* first */
    struct kva_rt *rt;
    void *stream;
    bool failed; /* nothing is launched any more; ops.sync says why */
    struct kva_error fault;
    struct kva_cuda_span *span; /* ascending */
    size_t n_spans, cap_spans;
    /* scratch: blocks of device memory handed out from the first on; when several were
     * needed, `done` replaces them by one that holds all */
    struct kva_cuda_span block[32];
    int n_blocks;
    size_t used;     /* of the last block */
    uint8_t *packed; /* host: lists on their way */
    size_t cap_packed;
    struct kva_cuda_out out[16];
    int n_out;
    struct kva_cuda_moves *moves;
    struct kva_lt *lt;
    struct kva_rt_event *mark[KVA_MARKS];
    struct kva_device device;
    size_t scratch_peak_bytes;
    size_t
        taken; /* bytes of `take` and of mirrored positions, in the driver's granules */
    size_t pages; /* committed bytes of stores */
    bool watching;
    size_t watched;      /* taken and pages when the driver was last asked */
    uint64_t most_bytes; /* that it counted since the watch began */
};

static inline struct kva_cuda *kva_cuda_of(const struct kva_ops *ops)
{
    return (struct kva_cuda *)ops->impl;
}

/* numerics "f32" or "bf16". Without a device: KVA_EUNSUPPORTED. */
enum kva_status kva_cuda_open(const char *numerics, struct kva_ops **ops,
                              struct kva_error *err);
/* Keeps the first failure. */
void kva_cuda_fail(struct kva_cuda *cu, const struct kva_error *why);
/* Device memory that is counted (kva_ops.memory_used). NULL: refused. */
void *kva_cuda_take(struct kva_cuda *cu, size_t bytes, bool shared);
void kva_cuda_give(struct kva_cuda *cu, void *p, size_t bytes); /* NULL allowed */
/* Memory is about to be given back: were there never so many bytes in use? */
void kva_cuda_watch(struct kva_cuda *cu);
/* Whether p points into memory of `alloc` or `constant`. */
bool kva_cuda_owns(const struct kva_cuda *cu, const void *p);

/* NULL after a failure, or for 0 bytes. */
void *kva_cuda_scratch(struct kva_cuda *cu, size_t bytes);
const void *kva_cuda_list(struct kva_cuda *cu, const void *host, size_t bytes);
/* Several lists in one upload; host NULL: none. */
struct kva_cuda_list {
    const void *host;
    size_t bytes;
    const void *device; /* the result */
};
void kva_cuda_lists(struct kva_cuda *cu, struct kva_cuda_list *list, int n);
const float *kva_cuda_in(struct kva_cuda *cu, const float *x, size_t n);
float *kva_cuda_out(struct kva_cuda *cu, float *y, size_t n);
float *kva_cuda_inout(struct kva_cuda *cu, float *y, size_t n); /* read, then written */
/* A result that is always the host's: device memory that `done` copies to it. */
void *kva_cuda_result(struct kva_cuda *cu, void *host, size_t bytes);
void kva_cuda_done(struct kva_cuda *cu);

/* The layer on the device; uploads what the host changed since the last time. */
struct kva_dev_view kva_cuda_view(struct kva_cuda *cu, const struct kva_kv_view *v);

extern const struct kva_page_ops kva_cuda_pages; /* store.c */
void kva_cuda_moves_free(struct kva_cuda *cu);
/* Rows that were to be moved so far are on their way. */
void kva_cuda_moves_flush(struct kva_cuda *cu);

/* Each fills its part of the table. */
void kva_cuda_memory_table(struct kva_ops *ops); /* cuda.c */
/* cuda_products.c: weights, matmul, embed */
void kva_cuda_products_table(struct kva_ops *ops);
/* cuda_rows.c: norms, rope, silu, add, logits_stats */
void kva_cuda_rows_table(struct kva_ops *ops);
/* cuda_attend.c */
void kva_cuda_attend_table(struct kva_ops *ops);
/* cuda_scores.c: the scorers */
void kva_cuda_scores_table(struct kva_ops *ops);
/* cuda_select.c: choose, share */
void kva_cuda_select_table(struct kva_ops *ops);
/* What they hold in cu beyond its memory, for kva_ops_close. */
void kva_cuda_products_close(struct kva_cuda *cu);

#ifdef __cplusplus
}
#endif
#endif
