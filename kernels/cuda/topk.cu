/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topk.cu - radix selection over ragged scores (topk.h). Cuts of single cells take one
 * block each. Cuts over groups of cells are spread over blocks of PART entries: one
 * launch a digit, each of whose blocks first finds the digit before from the counts of
 * the launch before. Integer atomics count, so no result depends on their order. */
#include "kernels/cuda/topk.h"
#include "kernels/cuda/warp.cuh"

#define THREADS 512
#define WARPS   (THREADS / KVA_WARP)
#define EACH    4 /* entries that a thread has on the way at once */
#define BINS    KVA_SHARE_BINS
#define PART    8192

KVA_DEVICE uint64_t key_of(const struct kva_dev_contest &x, const struct kva_dev_cell &c,
                           size_t j)
{
    float s = x.s[c.first + j];
    uint32_t pos = x.pos ? (uint32_t)x.pos[c.first + j] : (uint32_t)c.pos + (uint32_t)j;
    uint32_t bits = kva_bits((isnan(s) ? -INFINITY : s) + 0.0f); /* -0 becomes +0 */

    if (KVA_MUT(47)) /* the oldest of equals stays */
        pos = ~pos;
    return (uint64_t)(bits & 0x80000000u ? ~bits : bits | 0x80000000u) << 32 | pos;
}

KVA_DEVICE bool stays(uint64_t key, const struct kva_dev_cut &cut)
{
    return key > cut.key || (key == cut.key && cut.equal > 0);
}

/* ---- digits ---- */

/* 11, 11 and 10 bits of the score, then of the position. */
KVA_DEVICE int shift_of(int pass)
{
    return (pass < 3 ? 32 : 0) + (pass % 3 == 0 ? 21 : pass % 3 == 1 ? 10 : 0);
}

KVA_DEVICE int bits_of(int pass)
{
    return pass % 3 == 2 ? 10 : 11;
}

KVA_DEVICE void clear(uint32_t *hist)
{
    for (int i = (int)threadIdx.x; i < BINS; i += THREADS)
        hist[i] = 0;
}

/* Counts, by their digit of this pass, the keys of [from, to) of the cell that begin with
 * the digits before and are not ahead. */
KVA_DEVICE void count_digits(const struct kva_dev_contest &x,
                             const struct kva_dev_cell &c, size_t from, size_t to,
                             const struct kva_dev_cut &ahead, int pass, uint64_t prefix,
                             uint32_t *hist)
{
    int shift = shift_of(pass), bits = bits_of(pass);

    for (size_t j0 = from + threadIdx.x; j0 < to; j0 += EACH * THREADS) {
        uint64_t key[EACH];

#pragma unroll
        for (int i = 0; i < EACH; i++)
            key[i] = j0 + (size_t)i * THREADS < to
                         ? key_of(x, c, j0 + (size_t)i * THREADS)
                         : 0;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (j0 + (size_t)i * THREADS < to &&
                (pass == 0 || (key[i] ^ prefix) >> (shift + bits) == 0) &&
                !stays(key[i], ahead))
                atomicAdd(&hist[key[i] >> shift & ((1u << bits) - 1)], 1u);
    }
}

/* What find_digit needs of shared memory. */
struct finding {
    uint32_t of_warp[WARPS];
    uint32_t digit, held, want; /* entries of the digit; how many of them are wanted */
};

/* The digit from the top where the count reaches cut->equal joins the key. A thread adds
 * up its own bins, the one that crosses looks closer. The whole block; it may change hist
 * and cut afterwards. */
KVA_DEVICE void find_digit(const uint32_t *hist, int pass, struct finding *f,
                           struct kva_dev_cut *cut)
{
    constexpr int OWN = BINS / THREADS;
    int t = (int)threadIdx.x, lane = t % KVA_WARP, top = BINS - 1 - OWN * t;
    uint32_t mine = 0, upto, want = cut->equal;

    for (int i = 0; i < OWN; i++)
        mine += hist[top - i];
    upto = kva_warp_upto(mine);
    if (lane == KVA_WARP - 1)
        f->of_warp[t / KVA_WARP] = upto;
    __syncthreads();
    for (int w = 0; w < t / KVA_WARP; w++)
        upto += f->of_warp[w];
    if (upto >= want && upto - mine < want) {
        want -= upto - mine;
        for (int i = 0; i < OWN; i++) {
            uint32_t n = hist[top - i];

            if (n >= want) {
                f->digit = (uint32_t)(top - i);
                f->held = n;
                f->want = want;
                break;
            }
            want -= n;
        }
    }
    __syncthreads();
    cut->key |= (uint64_t)f->digit << shift_of(pass);
    cut->equal = f->want;
    if (f->held == f->want) { /* all that begin so stay */
        cut->equal = UINT32_MAX;
        cut->found = 1;
    }
}

/* ---- one cell a block ---- */

KVA_KERNEL(THREADS) topk_cut(struct kva_dev_contest x, struct kva_dev_cut *cuts)
{
    KVA_SHARED(uint32_t, hist, BINS);
    KVA_SHARED(struct finding, finding, 1);
    struct kva_dev_cell c = x.cell[blockIdx.x];
    struct kva_dev_cut cut = {0, (uint32_t)c.want, 0}, none = {UINT64_MAX, 0, 1};

    if (c.want <= 0)
        cut = none;
    else if (c.want >= c.rest)
        cut = {0, UINT32_MAX, 1};
    for (int pass = 0; pass < KVA_SHARE_PASSES && !cut.found; pass++) {
        clear(hist);
        __syncthreads();
        count_digits(x, c, (size_t)c.lead, (size_t)c.lead + (size_t)c.rest, none, pass,
                     cut.key, hist);
        if (!KVA_MUT(44))
            __syncthreads();
        find_digit(hist, pass, finding, &cut);
    }
    if (threadIdx.x == 0)
        cuts[blockIdx.x] = cut;
}

void kva_dev_topk_cut(const struct kva_dev_contest *x, struct kva_dev_cut *cut,
                      void *stream)
{
    if (x->cells > 0)
        KVA_LAUNCH(topk_cut, (unsigned)x->cells, THREADS, 0, stream, *x, cut);
}

/* The least key. */
KVA_KERNEL(THREADS) topk_victim(struct kva_dev_contest x, struct kva_dev_cut *cuts)
{
    KVA_SHARED(uint64_t, of_warp, WARPS);
    struct kva_dev_cell c = x.cell[blockIdx.x];
    size_t end = (size_t)c.lead + (size_t)c.rest;
    uint64_t least = UINT64_MAX;

    if (c.want < c.rest)
        for (size_t j = (size_t)c.lead + threadIdx.x; j < end; j += THREADS) {
            uint64_t key = key_of(x, c, j);

            least = key < least ? key : least;
        }
    for (int d = KVA_WARP / 2; d > 0; d /= 2) {
        uint64_t other = __shfl_down_sync(KVA_FULL, least, d);

        least = other < least ? other : least;
    }
    if (threadIdx.x % KVA_WARP == 0)
        of_warp[threadIdx.x / KVA_WARP] = least;
    if (!KVA_MUT(51))
        __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < WARPS; w++)
            least = of_warp[w] < least ? of_warp[w] : least;
        cuts[blockIdx.x] = {c.want < c.rest ? least : 0,
                            c.want < c.rest ? 0u : UINT32_MAX, 1};
    }
}

void kva_dev_topk_victim(const struct kva_dev_contest *x, struct kva_dev_cut *cut,
                         void *stream)
{
    if (x->cells > 0)
        KVA_LAUNCH(topk_victim, (unsigned)x->cells, THREADS, 0, stream, *x, cut);
}

/* One ordered sweep, EACH * THREADS entries at a time: EACH rows of 32 a warp, counted by
 * ballots. */
KVA_KERNEL(THREADS)
topk_list(struct kva_dev_contest x, const struct kva_dev_cut *cuts, int32_t *slot)
{
    KVA_SHARED(uint32_t, of_warp, 2 * WARPS);
    int t = (int)threadIdx.x, lane = t % KVA_WARP, warp = t / KVA_WARP;
    struct kva_dev_cell c = x.cell[blockIdx.x];
    struct kva_dev_cut cut = cuts[blockIdx.x];
    size_t n = (size_t)c.n, lead = (size_t)c.lead, end = lead + (size_t)c.rest,
           out = c.to;
    uint32_t *mine = of_warp; /* two lots, so that one barrier a sweep is enough */

    if (KVA_MUT(45))
        cut.equal = UINT32_MAX;
    for (size_t j0 = 0; j0 < n; j0 += EACH * THREADS) {
        size_t j1 = j0 + (size_t)warp * EACH * KVA_WARP + (size_t)lane;
        unsigned bits[EACH];
        uint32_t count = 0, ahead = 0, all = 0;

#pragma unroll
        for (int i = 0; i < EACH; i++) {
            size_t j = j1 + (size_t)i * KVA_WARP;
            bool open = j >= lead && j < end;

            bits[i] =
                __ballot_sync(KVA_FULL, j < n && (!open || stays(key_of(x, c, j), cut)));
            count += (uint32_t)__popc(bits[i]);
        }
        if (lane == 0)
            mine[warp] = count;
        __syncthreads();
        for (int w = 0; w < WARPS; w++) {
            ahead += w < warp ? mine[w] : 0;
            all += mine[w];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (bits[i] >> lane & 1)
                slot[out + ahead + (uint32_t)__popc(bits[i] & ((1u << lane) - 1u))] =
                    (int32_t)(j1 + (size_t)i * KVA_WARP);
            ahead += (uint32_t)__popc(bits[i]);
        }
        out += all;
        mine = mine == of_warp ? of_warp + WARPS : of_warp;
    }
}

void kva_dev_topk_list(const struct kva_dev_contest *x, const struct kva_dev_cut *cut,
                       int32_t *slot, void *stream)
{
    if (x->cells > 0)
        KVA_LAUNCH(topk_list, (unsigned)x->cells, THREADS, 0, stream, *x, cut, slot);
}

/* ---- cells of a group together ---- */

/* The group of the block's cell, of as many cells as the others. */
struct group {
    int g, groups;
    bool leads; /* this is its first block */
};

KVA_DEVICE struct group group_of(int groups)
{
    int each = (int)gridDim.x / groups, c = (int)blockIdx.x;

    return {c / each, groups, c % each == 0 && blockIdx.y == 0};
}

/* The cut as of before `pass`. The first block leaves it for the launches behind. */
KVA_DEVICE struct kva_dev_cut cut_before(int pass, const struct group &of,
                                         struct kva_dev_cut *state,
                                         const uint32_t *counts, struct finding *f)
{
    struct kva_dev_cut cut = state[(pass > 0 ? pass - 1 : 0) * of.groups + of.g];

    if (pass > 0 && !cut.found)
        find_digit(counts + (size_t)(of.g * KVA_SHARE_PASSES + pass - 1) * BINS, pass - 1,
                   f, &cut);
    if (pass > 0 && of.leads && threadIdx.x == 0)
        state[pass * of.groups + of.g] = cut;
    return cut;
}

/* The block's entries of its cell; false: none, and none to work for. */
KVA_DEVICE bool part_of(const struct kva_dev_cell &c, const struct group &of,
                        size_t *from, size_t *to)
{
    size_t first = (size_t)blockIdx.y * PART, rest = (size_t)c.rest;

    *from = (size_t)c.lead + (first < rest ? first : rest);
    *to = (size_t)c.lead + (first + PART < rest ? first + PART : rest);
    return *from < *to || of.leads;
}

KVA_DEVICE struct kva_dev_cut ahead_of(const struct kva_dev_cut *ahead)
{
    return ahead ? ahead[blockIdx.x] : kva_dev_cut{UINT64_MAX, 0, 1};
}

/* grid (cells, rest / PART) */
KVA_KERNEL(THREADS)
share_digits(struct kva_dev_contest x, int groups, const struct kva_dev_cut *ahead,
             int pass, struct kva_dev_cut *state, uint32_t *counts)
{
    KVA_SHARED(uint32_t, hist, BINS);
    KVA_SHARED(struct finding, finding, 1);
    struct kva_dev_cell c = x.cell[blockIdx.x];
    struct group of = group_of(groups);
    struct kva_dev_cut cut;
    size_t from, to;

    if (!part_of(c, of, &from, &to))
        return;
    cut = cut_before(pass, of, state, counts, finding);
    if (cut.found)
        return;
    clear(hist);
    __syncthreads();
    count_digits(x, c, from, to, ahead_of(ahead), pass, cut.key, hist);
    if (!KVA_MUT(52))
        __syncthreads();
    for (int i = (int)threadIdx.x; i < BINS; i += THREADS)
        if (hist[i] > 0)
            atomicAdd(
                &counts[(size_t)(of.g * KVA_SHARE_PASSES + pass) * BINS + (size_t)i],
                hist[i]);
}

/* grid (cells, rest / PART) */
KVA_KERNEL(THREADS)
share_counts(struct kva_dev_contest x, int groups, const struct kva_dev_cut *ahead,
             struct kva_dev_cut *state, uint32_t *counts)
{
    KVA_SHARED(struct finding, finding, 1);
    struct kva_dev_cell c = x.cell[blockIdx.x];
    struct group of = group_of(groups);
    struct kva_dev_cut cut, before = ahead_of(ahead);
    uint32_t above = 0, level = 0, *out = counts + KVA_SHARE_ABOVE(groups);
    size_t from, to;

    if (!part_of(c, of, &from, &to))
        return;
    cut = cut_before(KVA_SHARE_PASSES, of, state, counts, finding);
    for (size_t j0 = from + threadIdx.x; j0 < to; j0 += EACH * THREADS) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            size_t j = j0 + (size_t)i * THREADS;
            uint64_t key = j < to ? key_of(x, c, j) : 0;
            bool in = j < to && !stays(key, before);

            above += in && key > cut.key;
            level += in && key == cut.key;
        }
    }
    above = kva_warp_sum(above);
    level = kva_warp_sum(level);
    if (threadIdx.x % KVA_WARP == 0 && above > 0)
        atomicAdd(&out[blockIdx.x], above);
    if (threadIdx.x % KVA_WARP == 0 && level > 0)
        atomicAdd(&out[gridDim.x + blockIdx.x], level);
    if (of.leads && threadIdx.x == 0)
        out[2 * gridDim.x + (unsigned)of.g] = cut.equal;
}

void kva_dev_share(const struct kva_dev_contest *x, int groups,
                   const struct kva_dev_cut *ahead, struct kva_dev_cut *state,
                   uint32_t *counts, void *stream)
{
    dim3 grid((unsigned)x->cells, (unsigned)((x->most + PART - 1) / PART));

    if (x->cells < 1 || x->most < 1)
        return;
    for (int pass = 0; pass < KVA_SHARE_PASSES; pass++)
        KVA_LAUNCH(share_digits, grid, THREADS, 0, stream, *x, groups, ahead, pass, state,
                   counts);
    KVA_LAUNCH(share_counts, grid, THREADS, 0, stream, *x, groups, ahead, state, counts);
}
