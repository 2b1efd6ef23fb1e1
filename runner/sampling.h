/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sampling.h - how answers are drawn: the words for it, and the numbers behind it
 * (tasks-longbench-math.md B.3).
 *
 * A draw is a function of the suite's seed, the sample, its number and the step alone:
 * no thread, shard, wave or resumed run changes a token, and all methods see the same
 * numbers. */
#ifndef KVA_SAMPLING_H
#define KVA_SAMPLING_H

#include "models/model.h"

#define KVA_SAMPLING_TEXT 64

static inline bool kva_sampled(const struct kva_sampling *s)
{
    return s->temperature > 0;
}

static inline bool kva_sampling_same(const struct kva_sampling *a,
                                     const struct kva_sampling *b)
{
    if (!kva_sampled(a) || !kva_sampled(b))
        return kva_sampled(a) == kva_sampled(b);
    return a->temperature == b->temperature && a->top_p == b->top_p &&
           a->top_k == b->top_k;
}

/* "greedy", or "t0.6-p0.95-k20"; p where it is below 1, k where it is above 0. The number
 * of draws is no part of it, as the number of samples is none of a task. */
void kva_sampling_text(const struct kva_sampling *s, char out[KVA_SAMPLING_TEXT]);

/* Where step t of a draw points, [0, 1); t = 0 is the first token of the answer. */
uint64_t kva_draw_seed(uint64_t seed, const uint8_t sample[32], int draw);
double kva_draw_unit(uint64_t draw_seed, int t);

#endif
