/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stats_random.h - gsl_rng_mt19937 and gsl_rng_uniform_int, the same numbers, inline.
 *
 * A report draws some 10^9 indexes; calls through the generator's table and one division
 * a draw were most of its time. Matsumoto and Nishimura 1998, seeding of 2002.
 * test_stats_boot.c compares with GSL draw by draw. */
#ifndef KVA_STATS_RANDOM_H
#define KVA_STATS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

enum { KVA_MT_N = 624, KVA_MT_M = 397 };

struct kva_mt {
    uint32_t state[KVA_MT_N], out[KVA_MT_N];
    int at;
};

/* seed 0 is not used: GSL takes it for 4357. */
static inline void kva_mt_set(struct kva_mt *g, uint32_t seed)
{
    g->state[0] = seed;
    for (uint32_t i = 1; i < KVA_MT_N; i++)
        g->state[i] = 1812433253u * (g->state[i - 1] ^ g->state[i - 1] >> 30) + i;
    g->at = KVA_MT_N;
}

static inline uint32_t kva_mt_twist(uint32_t high, uint32_t low, uint32_t far)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);

    return far ^ y >> 1 ^ ((0u - (low & 1u)) & 0x9908b0dfu);
}

static inline void kva_mt_refill(struct kva_mt *g)
{
    uint32_t *s = g->state;
    int k = 0;

    for (; k < KVA_MT_N - KVA_MT_M; k++)
        s[k] = kva_mt_twist(s[k], s[k + 1], s[k + KVA_MT_M]);
    for (; k < KVA_MT_N - 1; k++)
        s[k] = kva_mt_twist(s[k], s[k + 1], s[k + KVA_MT_M - KVA_MT_N]);
    s[k] = kva_mt_twist(s[k], s[0], s[KVA_MT_M - 1]);
    for (k = 0; k < KVA_MT_N; k++) {
        uint32_t x = s[k];

        x ^= x >> 11;
        x ^= x << 7 & 0x9d2c5680u;
        x ^= x << 15 & 0xefc60000u;
        g->out[k] = x ^ x >> 18;
    }
    g->at = 0;
}

static inline uint32_t kva_mt_get(struct kva_mt *g)
{
    if (g->at == KVA_MT_N)
        kva_mt_refill(g);
    return g->out[g->at++];
}

/* Uniform below n: get / scale until it is below n, scale = (2^32 - 1) / n. The division
 * is a multiplication by the reciprocal, exact for 32 bits (Lemire, Kaser, Kurz 2019). */
struct kva_mt_below {
    uint32_t n;
    uint64_t reciprocal;
};

static inline struct kva_mt_below kva_mt_below(size_t n)
{
    uint32_t scale = 0xffffffffu / (uint32_t)n;

    return (struct kva_mt_below){(uint32_t)n, UINT64_MAX / scale + 1};
}

static inline uint32_t kva_mt_index(struct kva_mt *g, const struct kva_mt_below *b)
{
    uint32_t k;

    if (b->n == 1) /* the reciprocal needs a scale of 2^31 at most */
        do
            k = kva_mt_get(g) / 0xffffffffu;
        while (k);
    else
        do {
            __extension__ typedef unsigned __int128 wide;

            k = (uint32_t)((wide)b->reciprocal * kva_mt_get(g) >> 64);
        } while (k >= b->n);
    return b->n == 1 ? 0 : k;
}

#endif
