/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ends.h - where an answer ends (tasks-longbench-math.md A.5, B.3). Internal to the
 * runner. */
#ifndef KVA_ENDS_H
#define KVA_ENDS_H

#include "models/model.h"
#include "tasks/task.h"

/* What a task asks for beside the model's own end tokens and the length. All zero but
 * eos_id = -1: nothing. */
struct kva_ends {
    const char *const *stops; /* texts, borrowed from the item */
    int n_stops;
    size_t longest_stop; /* bytes */
    int32_t eos_id;      /* one more end token, or -1 */
    bool loop_guard;
    int32_t *forbid; /* what the first token may not be; from the arena */
    int n_forbid;
};
/* `tok`: the tokenizer as it is behind the question. */
enum kva_status kva_ends_open(const struct kva_item *item,
                              const struct kva_tokenizer *tok, struct kva_arena *arena,
                              struct kva_ends *ends, struct kva_error *err);

/* Looks at an answer of n >= 1 tokens whose last one is new: *why becomes "eos", "stop",
 * "repeat", "length", or NULL when it goes on. Costs nothing but a comparison when no
 * text stops and no guard are asked for. */
enum kva_status kva_ends_check(const struct kva_ends *ends,
                               const struct kva_tokenizer *tok, const int32_t *gen, int n,
                               int max_new, const char **why, struct kva_error *err);

/* Cuts the text before the first occurrence of a stop. */
void kva_ends_cut(const struct kva_ends *ends, struct kva_buf *text);

/* The last 256 tokens repeat one period of at most 32. */
bool kva_ends_loops(const int32_t *gen, int n);

#endif
