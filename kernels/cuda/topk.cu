/* SPDX-License-Identifier: GPL-3.0-or-later */
/* topk.cu - radix selection over ragged scores (topk.h). One block a group; integer
 * atomics in shared memory count digits, so no result depends on their order. */
#include "kernels/cuda/topk.h"
#include "kernels/cuda/shim.cuh"

#define THREADS 512
#define WARPS   (THREADS / KVA_WARP)

KVA_DEVICE uint32_t score_key(const struct kva_dev_scores &x, size_t at)
{
    int rank = x.rank ? (int)x.rank[at] : 1;
    float s = x.s[at];
    uint32_t bits;

    if (rank != 1)
        return rank == 2 ? 0xffffffffu : 0;
    if (isnan(s))
        s = -INFINITY;
    bits = kva_bits(s + 0.0f); /* -0 becomes +0 */
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* j: the entry within its cell */
KVA_DEVICE uint64_t key_of(const struct kva_dev_scores &x, size_t at, size_t j)
{
    uint32_t pos = x.pos ? (uint32_t)x.pos[at] : (uint32_t)j;

    if (KVA_MUT(47)) /* the oldest of equals stays */
        pos = ~pos;
    return (uint64_t)score_key(x, at) << 32 | pos;
}

KVA_DEVICE bool stays(uint64_t key, uint64_t cut, bool equal)
{
    return key > cut || (key == cut && equal);
}

/* The sum over the block, in every thread; `of` is one word a warp. */
KVA_DEVICE uint32_t block_sum(uint32_t v, uint32_t *of)
{
    uint32_t sum = 0;

    for (int x = 16; x > 0; x /= 2)
        v += __shfl_xor_sync(KVA_FULL, v, x);
    __syncthreads();
    if (threadIdx.x % KVA_WARP == 0)
        of[threadIdx.x / KVA_WARP] = v;
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        sum += of[w];
    return sum;
}

/* A digit from the top where the count from above reaches `want`: every lane of one warp
 * adds up eight digits, the lane that crosses looks at its own. */
struct digit {
    uint32_t digit, equal, want; /* entries of it; how many of them are wanted */
};

KVA_DEVICE void find_digit(const uint32_t *hist, size_t want, struct digit *found)
{
    int lane = (int)threadIdx.x, top = 255 - 8 * lane;
    uint32_t mine = 0, upto;

    for (int i = 0; i < 8; i++)
        mine += hist[top - i];
    upto = mine;
    for (int x = 1; x < KVA_WARP; x *= 2) {
        uint32_t below = __shfl_up_sync(KVA_FULL, upto, x);

        if (lane >= x)
            upto += below;
    }
    if (upto < want || upto - mine >= want)
        return;
    want -= upto - mine;
    for (int i = 0; i < 8; i++) {
        uint32_t n = hist[top - i];

        if (n >= want) {
            *found = {(uint32_t)(top - i), n, (uint32_t)want};
            return;
        }
        want -= n;
    }
}

/* Adds the digits at `shift` of the group's keys that begin with `prefix`. */
KVA_DEVICE void count_digits(const struct kva_dev_scores &x, int c0, int c1, int shift,
                             uint64_t prefix, uint32_t *hist)
{
    for (int c = c0; c < c1; c++) {
        size_t first = x.off[c], n = x.off[c + 1] - first;

        for (size_t j = threadIdx.x; j < n; j += THREADS) {
            uint64_t key = key_of(x, first + j, j);

            if (shift == 56 || (key ^ prefix) >> (shift + 8) == 0)
                atomicAdd(&hist[key >> shift & 255], 1u);
        }
    }
}

KVA_KERNEL(THREADS)
topk_cut(struct kva_dev_scores x, const int32_t *firsts, const size_t *m,
         struct kva_cut_at *cuts)
{
    KVA_SHARED(uint32_t, hist, 256);
    KVA_SHARED(uint32_t, of_warp, WARPS);
    KVA_SHARED(struct digit, found, 1);
    int g = (int)blockIdx.x, t = (int)threadIdx.x;
    int c0 = firsts ? firsts[g] : g, c1 = firsts ? firsts[g + 1] : g + 1;
    size_t held = x.off[c1] - x.off[c0], want = m[g];
    uint64_t cut = 0;
    uint32_t equal = UINT32_MAX; /* of keys at the cut itself */

    if (want == 0) {
        cut = UINT64_MAX;
        equal = 0;
    }
    for (int shift = 56; want > 0 && want < held && shift >= 0; shift -= 8) {
        if (t < 256)
            hist[t] = 0;
        __syncthreads();
        count_digits(x, c0, c1, shift, cut, hist);
        if (!KVA_MUT(44))
            __syncthreads();
        if (t < KVA_WARP)
            find_digit(hist, want, found);
        __syncthreads();
        cut |= (uint64_t)found->digit << shift;
        want = found->want;
        if (found->equal == found->want) /* all that begin so stay */
            break;
        if (shift == 0)
            equal = found->want;
    }
    for (int c = c0; c < c1; c++) {
        size_t first = x.off[c], n = x.off[c + 1] - first;
        uint32_t above = 0, level = 0;

        for (size_t j = (size_t)t; j < n; j += THREADS) {
            uint64_t key = key_of(x, first + j, j);

            above += key > cut;
            level += key == cut;
        }
        above = block_sum(above, of_warp);
        level = block_sum(level, of_warp);
        level = level < equal ? level : equal;
        equal -= level;
        if (t == 0)
            cuts[c] = {(uint32_t)(cut >> 32), (uint32_t)cut, level, above + level};
    }
}

void kva_dev_topk_cut(const struct kva_dev_scores *x, const int32_t *first, int groups,
                      const size_t *m, struct kva_cut_at *cut, void *stream)
{
    if (groups > 0)
        KVA_LAUNCH(topk_cut, (unsigned)groups, THREADS, 0, stream, *x, first, m, cut);
}

/* One warp: 32 cells at a time. */
KVA_KERNEL(KVA_WARP) topk_offsets(const struct kva_cut_at *cut, int cells, size_t *to)
{
    int lane = (int)threadIdx.x;
    size_t before = 0;

    for (int c0 = 0; c0 < cells; c0 += KVA_WARP) {
        int c = c0 + lane;
        size_t n = c < cells ? cut[c].count : 0, upto = n;

        for (int x = 1; x < KVA_WARP; x *= 2) {
            size_t below = __shfl_up_sync(KVA_FULL, upto, x);

            if (lane >= x)
                upto += below;
        }
        if (c < cells)
            to[c] = before + upto - n;
        before += __shfl_sync(KVA_FULL, upto, KVA_WARP - 1);
    }
    if (lane == 0)
        to[cells] = before;
}

void kva_dev_topk_offsets(const struct kva_cut_at *cut, int cells, size_t *to,
                          void *stream)
{
    KVA_LAUNCH(topk_offsets, 1, KVA_WARP, 0, stream, cut, cells, to);
}

/* One ordered sweep: THREADS slots at a time, warps counted by ballots. */
KVA_KERNEL(THREADS)
topk_list(struct kva_dev_scores x, const struct kva_cut_at *cuts, const size_t *to,
          int32_t *slot)
{
    KVA_SHARED(uint32_t, of_warp, 2 * WARPS);
    int t = (int)threadIdx.x, lane = t % KVA_WARP, warp = t / KVA_WARP;
    size_t c = blockIdx.x, first = x.off[c], n = x.off[c + 1] - first, out = to[c];
    struct kva_cut_at at = cuts[c];
    uint64_t cut = (uint64_t)at.score << 32 | at.pos;
    uint32_t *mine = of_warp; /* two lots, so that one barrier a sweep is enough */

    for (size_t j0 = 0; j0 < n; j0 += THREADS) {
        size_t j = j0 + (size_t)t;
        bool in = j < n &&
                  stays(key_of(x, first + j, j), cut, KVA_MUT(45) ? true : at.equal > 0);
        unsigned bits = __ballot_sync(KVA_FULL, in);
        uint32_t ahead = 0, all = 0;

        if (lane == 0)
            mine[warp] = (uint32_t)__popc(bits);
        __syncthreads();
        for (int w = 0; w < WARPS; w++) {
            ahead += w < warp ? mine[w] : 0;
            all += mine[w];
        }
        if (in)
            slot[out + ahead + (uint32_t)__popc(bits & ((1u << lane) - 1u))] = (int32_t)j;
        out += all;
        mine = mine == of_warp ? of_warp + WARPS : of_warp;
    }
}

void kva_dev_topk_list(const struct kva_dev_scores *x, const struct kva_cut_at *cut,
                       const size_t *to, int32_t *slot, void *stream)
{
    if (x->cells > 0)
        KVA_LAUNCH(topk_list, (unsigned)x->cells, THREADS, 0, stream, *x, cut, to, slot);
}

/* ---- the entry that goes ---- */

struct worst {
    uint64_t key;
    int32_t slot; /* -1: none */
};

KVA_DEVICE struct worst worse(struct worst a, struct worst b)
{
    return b.slot >= 0 && (a.slot < 0 || b.key < a.key) ? b : a;
}

KVA_KERNEL(THREADS) topk_victim(struct kva_dev_scores x, int32_t *victim)
{
    KVA_SHARED(struct worst, of_warp, WARPS);
    int t = (int)threadIdx.x;
    size_t c = blockIdx.x, first = x.off[c], n = x.off[c + 1] - first;
    struct worst v = {0, -1};

    for (size_t j = (size_t)t; j < n; j += THREADS)
        if (x.rank == nullptr || x.rank[first + j] < 2)
            v = worse(v, {key_of(x, first + j, j), (int32_t)j});
    for (int d = 16; d > 0; d /= 2) {
        struct worst b;

        b.key = __shfl_down_sync(KVA_FULL, v.key, d);
        b.slot = __shfl_down_sync(KVA_FULL, v.slot, d);
        v = worse(v, b);
    }
    if (t % KVA_WARP == 0)
        of_warp[t / KVA_WARP] = v;
    __syncthreads();
    if (t == 0) {
        for (int w = 1; w < WARPS; w++)
            v = worse(v, of_warp[w]);
        victim[c] = v.slot;
    }
}

void kva_dev_topk_victim(const struct kva_dev_scores *x, int32_t *victim, void *stream)
{
    if (x->cells > 0)
        KVA_LAUNCH(topk_victim, (unsigned)x->cells, THREADS, 0, stream, *x, victim);
}
