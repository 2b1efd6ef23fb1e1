/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sampling.c - how answers are drawn.
 *
 *   seed of a draw   FNV-1a over seed and draw number (64 bits, little-endian) and the
 *                    sample's digest, then the SplitMix64 finaliser
 *   u of step t      first number of the SplitMix64 stream that starts at seed + t mixed,
 *                    53 bits: a step does not depend on how many came before it */
#include "runner/sampling.h"

#include <stdio.h>

void kva_sampling_text(const struct kva_sampling *s, char out[KVA_SAMPLING_TEXT])
{
    int n = snprintf(out, KVA_SAMPLING_TEXT, kva_sampled(s) ? "t%.10g" : "greedy",
                     s->temperature);

    if (!kva_sampled(s))
        return;
    if (s->top_p < 1)
        n += snprintf(out + n, (size_t)(KVA_SAMPLING_TEXT - n), "-p%.10g", s->top_p);
    if (s->top_k > 0)
        (void)snprintf(out + n, (size_t)(KVA_SAMPLING_TEXT - n), "-k%d", s->top_k);
}

static uint64_t add_number(uint64_t h, uint64_t x)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(x >> 8 * i);
    return kva_fnv1a64_more(h, bytes, sizeof bytes);
}

uint64_t kva_draw_seed(uint64_t seed, const uint8_t sample[32], int draw)
{
    uint64_t h = add_number(add_number(KVA_FNV_OFFSET, seed), (uint64_t)draw);

    return kva_mix64(kva_fnv1a64_more(h, sample, 32));
}

double kva_draw_unit(uint64_t draw_seed, int t)
{
    struct kva_rng r = {draw_seed + kva_mix64((uint64_t)t)};

    return kva_rng_unit(&r);
}
