/* SPDX-License-Identifier: GPL-3.0-or-later */
/* logits.cu - what is asked of a row of logits: the largest, -log p of a token, a draw.
 *
 * Statistics: a row a block. A thread looks at the ids t, t + 1024, ..; the largest logit
 * wins, of equal ones the lowest id; the mass is added in double, a thread's ids
 * ascending, then a tree of fixed shape.
 *
 * A draw (rows.h): "the first k" and "the shortest run with mass p" are the same cut on
 * different amounts, 1 or the mass of an id. The cut goes down the bits of the logit's
 * ordered key eight at a time: a histogram of amounts, and the digit in which the sum
 * from above reaches what is asked. Of the ids equal to the key it ends at, the first few
 * by id stay. Masses are whole multiples of 2^-32: integer additions in any order. */
#include "kernels/cuda/exp.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/warp.cuh"

typedef unsigned long long wide;

enum { STAT_THREADS = 1024, STAT_WARPS = STAT_THREADS / KVA_WARP };
enum { DRAW_THREADS = 256, DRAW_WARPS = DRAW_THREADS / KVA_WARP };

struct top {
    float value;
    int id; /* INT_MAX: none, every logit NaN or -inf */
    int bad;
};

KVA_DEVICE top better(top a, top b)
{
    bool other = b.value > a.value || (b.value == a.value && b.id < a.id);

    if (KVA_MUT(23)) /* the last of equal ones */
        other = b.value > a.value || (b.value == a.value && b.id > a.id);
    top t = other ? b : a;

    t.bad = a.bad | b.bad;
    return t;
}

KVA_DEVICE top warp_top(top t)
{
#pragma unroll
    for (int d = KVA_WARP / 2; d; d >>= 1) {
        top o;

        o.value = __shfl_xor_sync(KVA_FULL, t.value, d);
        o.id = __shfl_xor_sync(KVA_FULL, t.id, d);
        o.bad = __shfl_xor_sync(KVA_FULL, t.bad, d);
        t = better(t, o);
    }
    return t;
}

/* The largest of a row, known to all threads afterwards. NaN and -inf are never it. */
template <int threads>
KVA_DEVICE top row_top(const float *z, int n, float *value, int *id, int *bad)
{
    constexpr int warps = threads / KVA_WARP;
    int t = (int)threadIdx.x;
    top best = {-INFINITY, 0x7fffffff, 0};

    for (int i = t; i < n; i += threads) {
        best.bad |= !(fabsf(z[i]) <= FLT_MAX);
        if (z[i] > best.value) {
            best.value = z[i];
            best.id = i;
        }
    }
    best = warp_top(best);
    if (t % KVA_WARP == 0) {
        value[t / KVA_WARP] = best.value;
        id[t / KVA_WARP] = best.id;
        bad[t / KVA_WARP] = best.bad;
    }
    __syncthreads();
    int lane = t % KVA_WARP;

    best.value = lane < warps ? value[lane] : -INFINITY;
    best.id = lane < warps ? id[lane] : 0x7fffffff;
    best.bad = lane < warps ? bad[lane] : 0;
    best = warp_top(best);
    if (best.id == 0x7fffffff)
        best.id = 0;
    return best;
}

KVA_KERNEL(STAT_THREADS)
logits_stats(const float *logits, int n, const int32_t *target, int32_t *argmax,
             double *nll, uint8_t *finite)
{
    KVA_SHARED(float, value, STAT_WARPS);
    KVA_SHARED(int, id, STAT_WARPS);
    KVA_SHARED(int, bad, STAT_WARPS);
    KVA_SHARED(double, part, STAT_WARPS);
    const float *z = logits + (size_t)blockIdx.x * (size_t)n;
    int t = (int)threadIdx.x, want = target && nll ? target[blockIdx.x] : -1;
    top best = row_top<STAT_THREADS>(z, n, value, id, bad);
    double sum = 0;

    if (t == 0) {
        argmax[blockIdx.x] = best.id;
        finite[blockIdx.x] = (uint8_t)!best.bad;
    }
    if (want < 0) /* the same for the whole block */
        return;
    for (int i = t; i < n; i += STAT_THREADS)
        sum += exp((double)z[i] - (double)best.value);
    sum = kva_warp_sum(sum);
    if (t % KVA_WARP == 0)
        part[t / KVA_WARP] = sum;
    __syncthreads();
    if (t < KVA_WARP) {
        sum = kva_warp_sum(part[t]);
        if (t == 0)
            nll[blockIdx.x] = log(sum) - ((double)z[want] - (double)best.value);
    }
}

/* ---- drawing ---- */

/* Orders as the logit does; a NaN as -inf, -0 as +0. */
KVA_DEVICE uint32_t key_of(float z)
{
    uint32_t u = kva_bits(z == z ? kva_add(z, 0.0f) : -INFINITY);

    return u >> 31 ? ~u : u | 0x80000000u;
}

/* Mass of a logit whose row's largest is `top`, in units of 2^-32. */
KVA_DEVICE wide mass_of(float z, float top, float inverse)
{
    float e = z == top ? 1.0f
              : z == z ? kva_exp(kva_mul(kva_sub(z, top), inverse))
                       : 0.0f;

    return (wide)((double)e * 4294967296.0 + 0.5);
}

/* Sums of the threads before this one, and of all. part: DRAW_WARPS. Two barriers. */
KVA_DEVICE wide sum_before(wide v, wide *part, wide *all)
{
    int lane = (int)threadIdx.x % KVA_WARP, warp = (int)threadIdx.x / KVA_WARP;
    wide up = kva_warp_upto(v), base = 0, total = 0;

    if (lane == KVA_WARP - 1)
        part[warp] = up;
    __syncthreads();
    for (int i = 0; i < DRAW_WARPS; i++) {
        base += i < warp ? part[i] : 0;
        total += part[i];
    }
    __syncthreads();
    *all = total;
    return base + up - v;
}

/* What stays: keys above `key`, and of the ids equal to it those before which less than
 * `rest` is held, `unit` by each. Of a row's first k the shortest run with a share of
 * their mass is never longer than k: a later cut replaces the one before. */
struct cut {
    uint32_t key;
    wide rest, unit;
};

/* The shortest run from above with `amount` of the masses, or of ones. hist: 256; at: 2
 */
KVA_DEVICE cut cut_at(const float *z, int n, float top, float inverse, bool masses,
                      wide amount, wide *hist, wide *at)
{
    uint32_t key = 0, known = 0; /* digits found so far, and which bits those are */
    int t = (int)threadIdx.x;

    for (int shift = 24; shift >= 0; shift -= 8) {
        hist[t] = 0;
        __syncthreads();
        for (int i = t; i < n; i += DRAW_THREADS) {
            uint32_t k = key_of(z[i]);

            wide amount_of = (k & known) != key ? 0
                             : masses           ? mass_of(z[i], top, inverse)
                                                : 1;

            if (amount_of > 0) /* most ids weigh nothing, and meet in one bin */
                atomicAdd(&hist[k >> shift & 255u], amount_of);
        }
        if (!KVA_MUT(24))
            __syncthreads();
        if (t == 0) {
            wide sum = 0;
            int d = 255;

            while (d > 0 && sum + hist[d] < amount)
                sum += hist[d--];
            at[0] = (wide)d;
            at[1] = sum;
        }
        __syncthreads();
        key |= (uint32_t)at[0] << shift;
        known |= 255u << shift;
        amount -= at[1];
        __syncthreads();
    }
    uint32_t bits = key >> 31 ? key & 0x7fffffffu : ~key;
    cut c = {key, amount, masses ? mass_of(kva_bits_float(bits), top, inverse) : (wide)1};

    return c;
}

struct draw {
    const float *z;
    int n, from, to; /* ids of this thread: from .. to-1 */
    float top, inverse;
    cut c;
    wide rank; /* ids equal to the key before `from` */
};

/* Mass of the thread's ids that stay; or, with `find`, the first id at which `find` is
 * passed, -1 if none does. */
KVA_DEVICE wide walk(const struct draw &d, bool search, wide find, int *id)
{
    wide sum = 0, rank = d.rank;

    for (int i = d.from; i < d.to; i++) {
        uint32_t k = key_of(d.z[i]);
        bool stays = k > d.c.key || (k == d.c.key && rank * d.c.unit < d.c.rest);

        rank += k == d.c.key;
        if (!stays)
            continue;
        sum += mass_of(d.z[i], d.top, d.inverse);
        if (search && sum > find) {
            *id = i;
            return sum;
        }
    }
    return sum;
}

KVA_KERNEL(DRAW_THREADS)
sample(const float *logits, int n, float inverse, int top_k, float top_p, const double *u,
       int32_t *id)
{
    KVA_SHARED(float, value, DRAW_WARPS);
    KVA_SHARED(int, ids, DRAW_WARPS);
    KVA_SHARED(int, bad, DRAW_WARPS);
    KVA_SHARED(wide, hist, 256);
    KVA_SHARED(wide, part, DRAW_WARPS);
    KVA_SHARED(wide, at, 2);
    int t = (int)threadIdx.x, each = (n + DRAW_THREADS - 1) / DRAW_THREADS, found = -1;
    struct draw d = {logits + (size_t)blockIdx.x * (size_t)n,
                     n,
                     t * each,
                     0,
                     0.0f,
                     inverse,
                     {0, 1, 0},
                     0};
    top best = row_top<DRAW_THREADS>(d.z, n, value, ids, bad);
    wide total, before, own, equal, point;

    d.from = d.from < n ? d.from : n;
    d.to = d.from + each < n ? d.from + each : n;
    d.top = best.value;
    if (best.value == -INFINITY) { /* nothing to choose from */
        if (t == 0)
            id[blockIdx.x] = 0;
        return;
    }
    /* once for top_k, once for top_p of what that leaves */
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 0 ? top_k > 0 && top_k < n : top_p < 1.0f) {
            wide amount = (wide)top_k;

            if (pass == 1) {
                sum_before(walk(d, false, 0, &found), part, &total);
                amount = (wide)((double)top_p * (double)total);
                amount = amount ? amount : 1;
            }
            d.c = cut_at(d.z, n, d.top, inverse, pass == 1, amount, hist, at);
        }
        equal = 0;
        for (int i = d.from; i < d.to; i++)
            equal += key_of(d.z[i]) == d.c.key;
        d.rank = sum_before(equal, part, &total);
    }
    own = walk(d, false, 0, &found);
    before = sum_before(own, part, &total);
    point = (wide)(u[blockIdx.x] * (double)total);
    point = point < total ? point : total - 1;
    if (point >= before && point < before + own) {
        walk(d, true, point - before, &found);
        id[blockIdx.x] = found;
    }
}

extern "C" void kva_dev_logits_stats(const float *logits, int n, int rows,
                                     const int32_t *target, int32_t *argmax, double *nll,
                                     uint8_t *finite, void *stream)
{
    if (rows > 0)
        KVA_LAUNCH(logits_stats, dim3((unsigned)rows), STAT_THREADS, 0, stream, logits, n,
                   target, argmax, nll, finite);
}

extern "C" void kva_dev_sample(const float *logits, int n, int rows, float temperature,
                               int top_k, float top_p, const double *u, int32_t *id,
                               void *stream)
{
    if (rows > 0)
        KVA_LAUNCH(sample, dim3((unsigned)rows), DRAW_THREADS, 0, stream, logits, n,
                   1.0f / temperature, top_k, top_p, u, id);
}
