/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kernels.h - the arithmetic of one backend behind one table of functions.
 *
 * A model, a method or an instrument computes only through `struct kva_ops`; the CPU
 * backend is kernels/cpu, a device backend fills the same table. "Device memory" is
 * whatever the backend says it is; on the CPU it is ordinary memory and every `float *`
 * below may be read directly.
 *
 * Numerics (ruling R1), a property of the opened table:
 *
 * - ref: plain C, every sum one double accumulator in ascending order, two-pass softmax
 *   over entries in ascending *position* order. For golden values and audits.
 * - f32: products have one float accumulator per output, inputs ascending, fused
 *   multiply-add. Attention: dots and value sums by the same rule, pages in slot order,
 *   running maximum per page. AVX2+FMA, AVX-512 and plain C give the same bits.
 *
 * In both a row's result depends only on that row and its own entries: never on the other
 * rows of the call, on their number, on the thread count or on the instruction set.
 *
 * Lines of this header parse as C++ (no restrict, no variable arrays). */
#ifndef KVA_KERNELS_H
#define KVA_KERNELS_H

#include "kva.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, numbered as in GGUF (models.md 1.1). */
enum kva_type {
    KVA_F32 = 0,
    KVA_F16 = 1,
    KVA_Q4_0 = 2,
    KVA_Q4_1 = 3,
    KVA_Q5_0 = 6,
    KVA_Q5_1 = 7,
    KVA_Q8_0 = 8,
    KVA_Q4_K = 12,
    KVA_Q5_K = 13,
    KVA_Q6_K = 14,
    KVA_BF16 = 30,
};

/* Facts of a type; NULL name when the type is not one we read. */
struct kva_type_info {
    const char *name;   /* "Q4_1" */
    int block_elements; /* 1, 32 or 256 */
    int block_bytes;
};
/* Returns NULL for a type outside the supported set. kernels/quant.c */
const struct kva_type_info *kva_type_get(uint32_t type);
/* Name of any GGUF type id, supported or not ("IQ2_S"), or "type 77". Static storage per
 * call site is not needed: unknown ids return "unknown". */
const char *kva_type_name(uint32_t type);
/* Exact dequantisation of n elements (a whole number of blocks), models.md 2: multiply,
 * round, add, round, never fused. */
void kva_dequant(enum kva_type type, const void *blocks, size_t n, float *out);
/* True when every block scale is finite (--check-tensors). */
bool kva_dequant_check(enum kva_type type, const void *blocks, size_t n);
float kva_f16_to_f32(uint16_t h);
uint16_t kva_f32_to_f16(float f); /* round to nearest even */

/* exp and tanh of the token path are our own (ruling R2): the same bits in every
 * instruction set. Maximum error about 2 ulp for exp on [-87, 88]; exp(-inf) = 0,
 * exp(NaN) = NaN. */
float kva_expf(float x);

/* A weight matrix W[out][in] in the backend's own layout. Opaque. */
struct kva_weight;

/* Ragged rows: for each of `heads` KV heads, n_h rows of `dim` floats, contiguous.
 * Row j of head h is data + (off[h] + j) * dim; n_h = off[h + 1] - off[h]. */
struct kva_rows {
    float *data;
    const size_t *off; /* [heads + 1] */
    int heads, dim;
};

struct kva_kv_view; /* kvstore.h: pages of one layer of one store */

/* One run of query rows that belong to one session. */
struct kva_attn {
    const struct kva_kv_view *kv; /* entries visible: live, and pos <= query's position */
    const float *q;     /* [rows][q_stride]; head a at q + r*q_stride + a*dim_k */
    const int32_t *pos; /* [rows] */
    int rows, heads, q_stride;
    float scale;
    float *out; /* [rows][out_stride]; head a at out + r*out_stride + a*dim_v */
    int out_stride;
    /* Sums of weights, on request: sums[i * kv_heads + h] holds an element for each live
     * entry of KV head h in slot order; added to it are the weights of every row and
     * query head of the group, one after the other in this order, so that how rows were
     * cut into calls changes no bit. At most KVA_SUM_ENTRIES entries a KV head. */
    float *const *sums;
    int n_sums;
};
#define KVA_SUM_ENTRIES (1 << 19)

/* Attention of nq rows of one query head over the n entries of its KV head, row by row:
 *   z[i][j] = scale * q_i.k_j,  w[i][j] = softmax_j(z[i]),  o[i] = sum_j w[i][j] v_j
 * over the entries with k_pos <= q_pos[i] (k_pos NULL: all), 0 for the others. What is
 * NULL is not computed; o needs v and w. */
struct kva_attend_rows {
    const float *q; /* row i at q + i * q_stride */
    size_t q_stride;
    const int32_t *q_pos; /* [nq]; NULL with k_pos NULL */
    int nq;
    const float *k;       /* [n][dim] */
    const int32_t *k_pos; /* [n] */
    size_t n;
    int dim;
    float scale;
    const float *v; /* [n][v_dim] */
    int v_dim;
    float *z, *w; /* [nq][n] */
    float *o;     /* [nq][v_dim] */
};

/* Where memory of `alloc` lies. DEVICE: read and written by the functions of the table
 * only. SHARED: by the host too, after `sync`. On the CPU both are ordinary memory. */
enum kva_mem { KVA_MEM_DEVICE, KVA_MEM_SHARED };

#define KVA_MARKS 16 /* of a table (mark, between) */

struct kva_page_ops; /* pages.h: the memory behind a store */

/* Attention of query heads made scores of KV heads, as window methods do it: of the first
 * n[h] entries of KV head h
 *   x_a[j] = m[a_off[a] + j],  s[off[h] + j] = mean over the group's a of pool(x_a)[j]
 * or, with `before`, the pool of that mean. pool: over `kernel` neighbours (odd, at most
 * 255; 1: none), their sum / kernel with zeros beyond the ends, or `max`, the largest
 * there is. Sums in double, ascending. Entries from n[h] on get 0. */
struct kva_pool_heads {
    const float *m; /* of a window: query head a has n_h numbers from a_off[a] on */
    const size_t *a_off;
    int heads, kv_heads;
    const size_t *off; /* [kv_heads + 1] */
    const size_t *n;   /* [kv_heads] */
    int kernel;
    bool max, before;
};

/* Entries that compete, in ragged lists: cell c (a KV head) has scores s[off[c] ..
 * off[c + 1]) at ascending positions. Its first lead[c] and last tail[c] stay ahead of
 * everything; of the others the larger score goes first (-0 as +0, a NaN as -inf), then
 * the larger position. Integers are host memory. */
struct kva_contest {
    const float *s;
    const int32_t *pos;
    const size_t *off; /* [cells + 1] */
    int cells;
    const int *lead, *tail;
};

/* What a backend other than the host runs on. */
struct kva_device {
    char name[128];
    int major, minor;    /* compute capability */
    int driver, runtime; /* 13000: 13.0 */
    uint64_t total_bytes;
};

struct kva_ops {
    const char *backend;  /* "cpu", "cuda" */
    const char *numerics; /* "ref", "f32"; on a device "f32", "bf16" */
    const char *isa; /* "scalar", "avx2", "avx512": what runs, never what comes out */
    int threads;
    int chunk; /* rows a context is best read in at a time; a resource: changes no bit */
    int most_dim; /* of a head's keys and values; 0: any */
    void *impl;   /* the backend's own state */
    bool host; /* all memory is the host's: pointers may be followed, nothing is late */
    const struct kva_device *device; /* NULL: the host */
    const struct kva_page_ops *pages;
    /* Set by who feeds rows: true while a context is read. Which product a backend uses
     * may depend on it, never on the number of rows (ruling R7). */
    bool context;

    /* ---- memory. Arrays of floats that the functions below read or write come from
     * `alloc`; any other pointer is host memory, which a backend with its own memory
     * copies in and out during the call (and waits). Arrays of integers are host memory.
     * Calls take effect in their order; `sync` returns when all have, with the first
     * failure of any since the table was opened: most functions cannot report one, and
     * what they leave after it is not to be used. */
    void *(*alloc)(struct kva_ops *, size_t bytes, enum kva_mem); /* NULL: no memory */
    void (*release)(struct kva_ops *, void *p, enum kva_mem);     /* NULL allowed */
    /* from and to any memory; a host destination is complete on return */
    void (*copy)(struct kva_ops *, void *to, const void *from, size_t bytes);
    /* y[j] = x[row[j]], rows of `width` floats; x and y apart. The second: y[row[j]] =
     * x[j] */
    void (*rows_get)(struct kva_ops *, const float *x, size_t width, const int32_t *row,
                     int m, float *y);
    void (*rows_put)(struct kva_ops *, const float *x, size_t width, const int32_t *row,
                     int m, float *y);
    enum kva_status (*sync)(struct kva_ops *, struct kva_error *err);
    /* NULL, or: while on, a backend may hold back what is asked of it until somebody
     * waits, so that a step like an earlier one goes out as a whole. Changes no bit. */
    void (*gather)(struct kva_ops *, bool on);
    /* NULL where the host's own counters tell. Bytes of the device in use as its driver
     * counts them, whoever holds them; *own: those of this table, pages of stores apart,
     * in the driver's granules. Waits. */
    uint64_t (*memory_used)(struct kva_ops *, uint64_t *own);
    /* NULL as above. The most there was in use since the last call; on: go on looking,
     * which is done before memory is given back and here: in between it only grows. */
    uint64_t (*memory_most)(struct kva_ops *, bool on);
    /* NULL, or what the backend chose by itself so far where it had a choice, a line each
     * ("m 4096 k 4096 bf16: algorithm 66 ..."): for the record of a run. Grows. */
    const char *(*choices)(const struct kva_ops *);
    /* Times: `mark` notes when the work asked for so far is done, under a number below
     * KVA_MARKS; `between` gives the nanoseconds from one mark to a later one and waits
     * for it. On the CPU nothing is late and the host's clock tells. */
    void (*mark)(struct kva_ops *, int mark);
    int64_t (*between)(struct kva_ops *, int from, int to);
    /* The pointer under which the functions below best read n floats that will neither
     * change nor move until the table closes (norm weights). On the CPU x itself. */
    const float *(*constant)(struct kva_ops *, const float *x, size_t n);

    /* ---- weights. `data` is out*in elements of `type`, row-major, read during the call
     * only when the backend packs; a backend may instead keep pointing at it (the file
     * mapping stays). row_of, when not NULL, is a permutation: packed row o is data row
     * row_of[o]. */
    enum kva_status (*weight_new)(struct kva_ops *, enum kva_type type, const void *data,
                                  int out, int in, const int32_t *row_of,
                                  struct kva_weight **w, struct kva_error *err);
    void (*weight_free)(struct kva_ops *, struct kva_weight *);
    /* owned by the backend, file mapping apart */
    size_t (*weight_bytes)(const struct kva_weight *);

    /* ---- model. Activations are row-major, row r at base + r*width. */
    /* x[r] = scale * W[ids[r]] */
    void (*embed)(struct kva_ops *, const struct kva_weight *, const int32_t *ids,
                  int rows, float scale, float *x);
    /* y[r] = x[r] / sqrt(mean(x[r]^2) + eps) * w; x == y allowed */
    void (*rmsnorm)(struct kva_ops *, const float *x, const float *w, float eps, int rows,
                    int dim, float *y);
    /* y[r][o] = sum_i x[r][i] * W[o][i];  y row stride `y_stride` floats (>= out) */
    void (*matmul)(struct kva_ops *, const struct kva_weight *, const float *x, int rows,
                   float *y, int y_stride);
    /* cos_sin[r][2*i], [2*i+1] = mscale * cos, sin of pos[r] * inv_freq[i], angles in
     * double */
    void (*rope_table)(struct kva_ops *, const int32_t *pos, int rows,
                       const float *inv_freq, int half, float mscale, float *cos_sin);
    /* rotates `heads` heads of `dim` floats in each row, half-split over 2*half dims, in
     * place; x row stride `stride`. (u,v) -> (u c - v s, u s + v c), each two products,
     * one add. */
    void (*rope)(struct kva_ops *, float *x, int stride, int rows, int heads, int dim,
                 const float *cos_sin, int half);
    /* n sessions' rows; what one of them gets does not depend on the others */
    void (*attend)(struct kva_ops *, const struct kva_attn *, int n);
    /* y[i] = silu(gate[i]) * up[i]; y == gate allowed */
    void (*silu_mul)(struct kva_ops *, const float *gate, const float *up, size_t n,
                     float *y);
    /* x[i] += y[i] */
    void (*add)(struct kva_ops *, float *x, const float *y, size_t n);
    /* Of each of `rows` rows of n logits: argmax (ties: lowest id), whether all are
     * finite, and nll[r] = -log softmax(logits)[target[r]] where target[r] >= 0. target
     * and nll may be NULL. The results are host memory, complete on return. */
    void (*logits_stats)(struct kva_ops *, const float *logits, int n, int rows,
                         const int32_t *target, int32_t *argmax, double *nll,
                         bool *finite);
    /* An id of each row. Of the ids by falling logit (equal: lowest id first; a NaN as
     * -inf) stay the first top_k (0: all), of these the shortest run that holds the share
     * top_p of their mass exp((l - max) / temperature), at least one; drawn is the id at
     * which the mass of what stays, summed over ascending ids, passes u[r] * total, u in
     * [0, 1). Masses are multiples of 2^-32, so that every backend draws the same from
     * the same logits. temperature > 0, top_p > 0 (1 and more: all); u and id are host
     * memory, complete on return. */
    void (*draw)(struct kva_ops *, const float *logits, int n, int rows,
                 float temperature, int top_k, float top_p, const double *u, int32_t *id);

    /* ---- scorers. Results are ragged like the input: s[off[h] + j]. */
    void (*row_norm)(struct kva_ops *, const struct kva_rows *, float *s); /* ||x||_2 */
    void (*row_abs)(struct kva_ops *, const struct kva_rows *, float *s);  /* ||x||_1 */
    /* mean[h][dim]: mean of the rows of each head; unit != 0: of the rows divided by
     * their norm (a zero row counts as zero) */
    void (*row_mean)(struct kva_ops *, const struct kva_rows *, int unit, float *mean);
    void (*row_distance)(struct kva_ops *, const struct kva_rows *,
                         const float *c /*[heads][dim]*/, float *s); /* ||x - c_h||_2 */
    void (*row_cosine)(struct kva_ops *, const struct kva_rows *, const float *c,
                       float *s);
    /* Mean over nq query rows of softmax(scale * q.k) for each query head:
     *   m[(a * n_a) + j], laid out per query head a at m + a_off[a], n_a = entries of a's
     * KV head. q [nq][heads][dim] post-RoPE, q_pos[nq]; k_pos ragged like k: entry j is
     * visible to row i iff k_pos <= q_pos[i]. Softmax runs over all visible entries. */
    void (*window_mean)(struct kva_ops *, const float *q, const int32_t *q_pos, int nq,
                        int heads, const struct kva_rows *k, const int32_t *k_pos,
                        float scale, float *m, const size_t *a_off);
    /* The largest instead of the mean: max over the rows of by[i] * softmax, by >= 0; by
     * NULL: 1. An entry that no row sees gets 0. */
    void (*window_max)(struct kva_ops *, const float *q, const int32_t *q_pos, int nq,
                       int heads, const struct kva_rows *k, const int32_t *k_pos,
                       float scale, const float *by, float *m, const size_t *a_off);
    /* Adds rows of `heads` vectors of dim floats (row stride `stride`) to sum[heads][dim]
     * and their products to square[heads][dim][dim], of which the lower triangle counts.
     * Products of two floats are exact in double and rows ascend, so how the rows were
     * cut into calls changes no bit. */
    void (*row_moments)(struct kva_ops *, const float *x, int stride, int rows, int heads,
                        int dim, double *sum, double *square);
    void (*attend_rows)(struct kva_ops *, const struct kva_attend_rows *);
    /* || W^a v_j ||_1 or _2 (norm) for each of `heads` query heads a and each entry j of
     * its KV head, to s[a_off[a] + j]; W^a are the columns a * dim .. of the output
     * projection `o`, dim = v->dim. NULL: the caller makes it of products and norms. */
    void (*project_norm)(struct kva_ops *, const struct kva_weight *o, int heads,
                         const struct kva_rows *v, int norm, const size_t *a_off,
                         float *s);
    /* see struct kva_pool_heads */
    void (*pool_heads)(struct kva_ops *, const struct kva_pool_heads *, float *s);

    /* ---- selection. NULL: the caller's own (methods/rank.c), which gives the same. */

    /* Of cell c the b[c] that stay, lead + tail <= b <= n, as ascending indices into its
     * list: rank[to[c]] and on. 0: nobody asks for the cell, none of it is read. */
    void (*choose)(struct kva_ops *, const struct kva_contest *, const int *b,
                   const size_t *to, int32_t *rank);
    /* One ranking over the cells of each of `groups` groups, equally many after each
     * other: lead, tail and the reserve[c] best others of each cell stay ahead, then the
     * best until total[g] stay; of equal score and position the lower cell's. b[c]: how
     * many of each. Those ahead are fewer than total[g], and that is at most all there
     * are. 0: nobody asks for the group, none of it is read, b stays. */
    void (*share)(struct kva_ops *, const struct kva_contest *, const int *reserve,
                  int groups, const uint64_t *total, int *b);

    void (*close)(struct kva_ops *); /* by kva_ops_close */
};

/* backend "cpu"; numerics "ref" or "f32"; threads >= 1 (capped at 64). KVAUDIT_CPU =
 * scalar|avx2|avx512 overrides the instruction set (KVA_EINVALID when the machine lacks
 * it). Threads are started at the first product, so that a process may fork before.
 *
 * backend "cuda", in programs that carry it (`make cuda`); numerics "f32" or "bf16", one
 * thread. KVA_EUNSUPPORTED without a device. A process that has opened it must not fork.
 */
enum kva_status kva_ops_open(const char *backend, const char *numerics, int threads,
                             struct kva_ops **ops, struct kva_error *err);
void kva_ops_close(struct kva_ops *ops);
/* For who found no memory (rc KVA_ENOMEM, *err so far): a backend that has failed gives
 * none either, and then that failure is the reason. Other codes stay. Waits. */
enum kva_status kva_ops_reason(struct kva_ops *ops, enum kva_status rc,
                               struct kva_error *err);
/* Which instruction sets this machine has, best first, NULL-terminated. */
const char *const *kva_cpu_isas(void);

#ifdef __cplusplus
}
#endif
#endif
