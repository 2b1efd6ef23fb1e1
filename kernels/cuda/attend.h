/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attend.h - attention over pages on the device (kernels.md 3.3 #4-#7).
 *
 *     s_j = cap(scale * q.k_j),  o = sum_j e^(s_j - lse) v_j,
 *     lse = ln(sum_j e^s_j + e^sink)                        over the visible entries j:
 *     live, pos_j <= pos_q and, with a window W, pos_q - pos_j < W   (2.5)
 *
 * A "unit" is one (row, query head) of a KV head's group of G: unit = row * G + g. Work
 * is cut three ways: over units, over KV heads, and over *runs* of an entry list. Runs
 * start at fixed slots, the same for every cell: short at first and doubling with the
 * length, so that a long cell has some dozens of them. What a run gives - largest score
 * m, sum of weights l, weighted values - is combined in ascending order of runs. No cut
 * depends on the number of rows, units, cells, or on the device, and an entry that a unit
 * does not see leaves its (m, l, acc) as they are, bit by bit. So a unit's result depends
 * on its own query and on the entries it sees: alone or in a wave, in chunks or at once
 * (rulings R4, R7).
 *
 * Three kernels: context (f16 cache, 64 units share every tile of keys), answer (f16, 8
 * units, each warp its own pages) and plain (f32 cache, fused multiply-add). The first
 * two take a query or a weight x as the sum of two f16 numbers, hi = f16(x), lo = f16(x -
 * hi), after scaling by a power of two that keeps both normal: 22 bits, against a cache
 * that is f16 anyway. Relative error of a score about 2^-22 of sum |q_i k_i|. In numerics
 * bf16 the context kernel and the sums take hi alone, which halves their work: 2^-11 of
 * that sum, and 2^-11 of each weight. The answer kernel keeps both: it costs nothing
 * there (a product has 16 rows for 8 units), and memory decides its time. */
#ifndef KVA_CUDA_ATTEND_H
#define KVA_CUDA_ATTEND_H

#include "kernels/cuda/view.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __CUDACC__
#define KVA_BOTH static __host__ __device__ inline
#else
#define KVA_BOTH static inline
#endif

/* The rows of one session. All pointers are device memory. */
struct kva_cuda_attend_item {
    struct kva_dev_view view;
    const float *q;     /* [rows][q_stride]; head a at q + r*q_stride + a*dim_k */
    const int32_t *pos; /* [rows], 0 or more */
    int rows, heads, q_stride, out_stride;
    float scale;
    float softcap;     /* cap(s) = softcap * tanh(s / softcap); 0: s */
    int window;        /* 0: none */
    const float *sink; /* [heads] logits that take weight and have no value; NULL: none */
    float *out;        /* [rows][out_stride]; head a at out + r*out_stride + a*dim_v */
    float *lse;        /* [rows][heads]; -inf where nothing is seen; NULL: not wanted */
    /* Scratch for the runs: (m, l) of run i at ml[2 * ((i*rows + r)*heads + a)], its
     * values at acc[((i*rows + r)*heads + a) * dim_v]. */
    float *acc, *ml;
    /* Sums of weights as struct kva_attn has them: [n_sums * kv_heads] arrays. Needs lse.
     */
    float *const *sums;
    int n_sums;
};

/* Items of one model: heads, KV heads, dimensions and type are the same in all. */
struct kva_cuda_attend {
    const struct kva_cuda_attend_item *item; /* device memory */
    int items;
    int heads, kv_heads, dim_k, dim_v, f16; /* dims at most KVA_ATTEND_DIM */
    int halves;  /* f16 numbers of a query or weight: 2, or 1 in numerics bf16 */
    int rows;    /* most of an item */
    int entries; /* most of a KV head */
};
#define KVA_ATTEND_DIM 256

/* Runs of a kernel: the first `octave` have `unit` pages each, then every doubling of the
 * length is cut into `octave` runs. */
struct kva_attend_cut {
    int unit, octave;
};

KVA_BOTH void kva_attend_run(struct kva_attend_cut c, int run, int *first, int *pages)
{
    int k = run / c.octave - 1;

    *pages = k < 0 ? c.unit : c.unit << k;
    *first = k < 0 ? run * c.unit : ((c.unit * c.octave) << k) + run % c.octave * *pages;
}

KVA_BOTH int kva_attend_runs(struct kva_attend_cut c, int pages)
{
    int n = 0, first, held;

    for (;; n += c.octave) {
        kva_attend_run(c, n + c.octave, &first, &held);
        if (pages <= first) /* the rest lies in this octave */
            break;
    }
    kva_attend_run(c, n, &first, &held);
    return n + (pages - first + held - 1) / held;
}

/* Which cut the launch below uses. */
static inline struct kva_attend_cut kva_cuda_attend_cut(const struct kva_cuda_attend *a,
                                                        int context)
{
    const struct kva_attend_cut longer = {32, 1}, shorter = {4, 16};

    return context && a->f16 ? longer : shorter;
}

/* Runs, combines: out and lse. */
void kva_cuda_attend_launch(const struct kva_cuda_attend *a, int context, void *stream);
/* After that: adds to the sums of items that have some. */
void kva_cuda_attend_sums(const struct kva_cuda_attend *a, void *stream);

/* Parts of the launch. */
void kva_cuda_attend_context(const struct kva_cuda_attend *a, void *stream);
void kva_cuda_attend_answer(const struct kva_cuda_attend *a, void *stream);
void kva_cuda_attend_plain(const struct kva_cuda_attend *a, void *stream);
void kva_cuda_attend_combine(const struct kva_cuda_attend *a, struct kva_attend_cut cut,
                             void *stream);
void kva_cuda_attend_plain_sums(const struct kva_cuda_attend *a, void *stream);

#ifdef __cplusplus
}
#endif
#endif
