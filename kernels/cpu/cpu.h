/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cpu.h - what the files of the CPU backend share: packed weights, inner kernels,
 * threads. */
#ifndef KVA_CPU_H
#define KVA_CPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernels/kernels.h"
#include "kernels/kvstore.h"

#define KVA_CPU_THREADS 64
#define KVA_CPU_GROUP   4                 /* panels of one work item */
#define KVA_CPU_SCRATCH ((size_t)4 << 20) /* of a thread; resident as far as used */
#define KVA_CPU_DIM     1024              /* largest dim_k, dim_v */

/* How a panel of sixteen output rows is stored: X(kind, bits, min, wide, block).
 *
 * bits 32, 16, -16: f32, f16, bf16 as [in][16]. bits 4, 8: a quantised value q, weight
 * fl(fl(d*q) + m), in blocks of `block` inputs: first the values, then d[16], then m[16]
 * if `min`; d and m are f16 as in the file, or f32 when `wide` (products of two scales).
 * Values: 8-bit as int8 [block][16]; 4-bit as words [block/8][16], word o holds inputs 8g
 * .. 8g+7 of output o, the first in the low nibble; without m the nibble counts from -8.
 */
#define KVA_PACK_MAP(X)                                                                  \
    X(F32, 32, 0, 0, 1)                                                                  \
    X(F16, 16, 0, 0, 1)                                                                  \
    X(BF16, -16, 0, 0, 1)                                                                \
    X(P4, 4, 0, 0, 32)   /* Q4_0 */                                                      \
    X(P4M, 4, 1, 0, 32)  /* Q4_1 */                                                      \
    X(P4MW, 4, 1, 1, 32) /* Q4_K */                                                      \
    X(P8, 8, 0, 0, 32)   /* Q8_0 Q5_0 */                                                 \
    X(P8M, 8, 1, 0, 32)  /* Q5_1 */                                                      \
    X(P8MW, 8, 1, 1, 32) /* Q5_K */                                                      \
    X(P8W, 8, 0, 1, 16)  /* Q6_K */

enum kva_pack {
#define KVA_X(kind, bits, min, wide, block) KVA_PACK_##kind,
    KVA_PACK_MAP(KVA_X)
#undef KVA_X
        KVA_PACK_KINDS
};

/* Bytes of one block of one panel. */
#define KVA_PACK_BYTES(bits, min, wide, block)                                           \
    ((size_t)((bits) < 0 ? -(bits) : (bits)) * (block)*2 +                               \
     ((bits) == 4 || (bits) == 8 ? (size_t)(1 + (min)) * ((wide) ? 64 : 32) : 0))

struct kva_weight {
    enum kva_type type;
    int out, in, panels;
    const uint8_t *data; /* the caller's rows: embed, ref */
    size_t row_bytes;
    int32_t *row_of; /* own copy, or NULL */
    enum kva_pack kind;
    uint8_t *packed; /* NULL in ref */
    size_t panel_bytes;
    size_t owned_bytes;
};

/* Fills w->kind, packed, panel_bytes. kernels/cpu/pack.c */
enum kva_status kva_cpu_pack(struct kva_weight *w, struct kva_error *err);

/* Inner kernels of one instruction set, all defined in inner.h. A "vec" is sixteen
 * floats; `last` is the number of valid lanes of the last one (1..16). */
struct kva_cpu_kernels {
    const char *name;
    /* y[r][16c..] (+)= sum_k x[r][k] * w[c*wv + k*ws ..], k ascending, fused; load:
     * continue from what y holds, else from zero */
    void (*product)(const float *x, size_t xs, int rows, int kn, const float *w,
                    size_t ws, size_t wv, int vecs, float *y, size_t ys, int load,
                    int last);
    /* the same straight from packed panels panel0 .. panel1-1, faster up to few_rows
     * rows; may be NULL */
    int few_rows;
    void (*product_few)(const struct kva_weight *w, int panel0, int panel1,
                        const float *x, size_t xs, int rows, float *y, size_t ys);
    /* inputs k0 .. k0+kn-1 of a panel as f32 [kn][16] */
    void (*unpack)(const struct kva_weight *w, int panel, int k0, int kn, float *dst);
    /* n rows of dim values -> kt[2][dim][16], lanes >= n zero. next: what will be read
     * after this, only ever prefetched */
    void (*tile_k)(const void *src, enum kva_type type, int n, int dim, float *kt,
                   const void *next);
    /* n rows -> v[32][stride], zero padded; rows without their bit in `live` become zero.
     * False when a live value is not finite. */
    bool (*tile_v)(const void *src, enum kva_type type, int n, uint32_t live, int dim,
                   int stride, float *v, const void *next);
    /* one page of the running softmax for `units` query heads: s[units][32] dots in,
     * weights exp(s*scale - m) out (0 where mask has no bit); m, l and o[units][stride]
     * move on */
    void (*softmax_page)(float *s, int units, float scale, const uint32_t *mask, float *m,
                         float *l, float *o, int stride);
    /* y[j] += sum over units of exp(s*scale - m) * w where the mask has a bit; j < 32 */
    void (*weights_sum)(const float *s, int units, float scale, const uint32_t *mask,
                        const float *m, const float *w, float *y);
    /* the same with the largest instead of the sum */
    void (*weights_max)(const float *s, int units, float scale, const uint32_t *mask,
                        const float *m, const float *w, float *y);
    /* square[x][y] += sum_r v[r][x] v[r][y] for y <= x at least, r ascending; rows of
     * `dim` doubles, dim a multiple of 8 */
    void (*products)(const double *v, int rows, int dim, double *square, int out_dim);
    void (*rmsnorm)(const float *x, const float *w, float eps, int dim, float *y);
    void (*silu_mul)(const float *gate, const float *up, size_t n, float *y);
    void (*add)(float *x, const float *y, size_t n);
    float (*dot)(const float *x, const float *y, int n); /* sixteen lanes, fused, tree */
    float (*absolute)(const float *x, int n); /* sum of |x|, lanes and tree as in dot */
    float (*distance2)(const float *x, const float *y, int n);
    double (*peak)(long loops); /* register loop; returns a number to keep it alive */
    int peak_flops;             /* floating-point operations per loop of `peak` */
};
extern const struct kva_cpu_kernels kva_cpu_scalar, kva_cpu_avx2, kva_cpu_avx512;

/* A few threads that split items; the caller is one of them. kernels/cpu/pool.c */
struct kva_cpu_pool {
    int threads; /* wanted, the caller included */
    int started; /* helpers that run; -1: not tried yet */
    void *scratch[KVA_CPU_THREADS];
    pthread_t id[KVA_CPU_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    atomic_uint round;
    atomic_int next, busy, quit;
    int items;
    void (*fn)(void *ctx, int item, void *scratch);
    void *ctx;
};
enum kva_status kva_cpu_pool_init(struct kva_cpu_pool *pool, int threads,
                                  struct kva_error *err);
void kva_cpu_pool_release(struct kva_cpu_pool *pool);
/* Calls fn(ctx, 0 .. items-1), each once, in any order and thread; scratch:
 * KVA_CPU_SCRATCH bytes, 64-byte aligned, content unspecified. `alone` keeps it on the
 * caller. */
void kva_cpu_pool_run(struct kva_cpu_pool *pool, int items, bool alone,
                      void (*fn)(void *ctx, int item, void *scratch), void *ctx);

struct kva_cpu {
    struct kva_ops ops;
    const struct kva_cpu_kernels *k;
    struct kva_cpu_pool pool;
    uint64_t mark_ns[KVA_MARKS];
};

/* Fill the table: kernels/cpu/memory.c, f32.c, attend.c, ref.c */
void kva_cpu_memory_table(struct kva_ops *ops);
void kva_cpu_f32_table(struct kva_ops *ops);
void kva_cpu_ref_table(struct kva_ops *ops);
void kva_cpu_attend(struct kva_ops *ops, const struct kva_attn *a, int n);
void kva_cpu_window_mean(struct kva_ops *ops, const float *q, const int32_t *q_pos,
                         int nq, int heads, const struct kva_rows *k,
                         const int32_t *k_pos, float scale, float *m,
                         const size_t *a_off);
void kva_cpu_window_max(struct kva_ops *ops, const float *q, const int32_t *q_pos, int nq,
                        int heads, const struct kva_rows *k, const int32_t *k_pos,
                        float scale, const float *by, float *m, const size_t *a_off);
void kva_cpu_attend_rows(struct kva_ops *ops, const struct kva_attend_rows *r);
/* Shared by both tables: exact rows, angles, statistics. kernels/cpu/common.c */
void kva_cpu_embed(struct kva_ops *ops, const struct kva_weight *w, const int32_t *ids,
                   int rows, float scale, float *x);
void kva_cpu_rope_table(struct kva_ops *ops, const int32_t *pos, int rows,
                        const float *inv_freq, int half, float mscale, float *cos_sin);
void kva_cpu_rope(struct kva_ops *ops, float *x, int stride, int rows, int heads, int dim,
                  const float *cos_sin, int half);
void kva_cpu_row_moments(struct kva_ops *ops, const float *x, int stride, int rows,
                         int heads, int dim, double *sum, double *square);
void kva_cpu_pool_heads(struct kva_ops *ops, const struct kva_pool_heads *p, float *s);
void kva_cpu_logits_stats(struct kva_ops *ops, const float *logits, int n, int rows,
                          const int32_t *target, int32_t *argmax, double *nll,
                          bool *finite);
/* kernels/cpu/draw.c */
void kva_cpu_draw(struct kva_ops *ops, const float *logits, int n, int rows,
                  float temperature, int top_k, float top_p, const double *u,
                  int32_t *id);

#endif
