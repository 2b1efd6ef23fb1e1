/* SPDX-License-Identifier: GPL-3.0-or-later */
/* chain.h - chains of variables for variable tracking: RULER's texts, drawing and
 * planting. */
#ifndef KVA_TASKS_CHAIN_H
#define KVA_TASKS_CHAIN_H

#include "tasks/needles.h"

enum { KVA_CHAIN_NAMES = 5, KVA_CHAIN_EXAMPLE_LINES = 8 };

struct kva_chain {
    char name[KVA_CHAIN_NAMES][8];
    int value;
    char statement[KVA_CHAIN_NAMES][32];
    struct kva_plant plant[KVA_CHAIN_NAMES]; /* in order; texts are the statements */
};
extern const char kva_chain_instruction[];
/* SHA-256 of all templates. */
void kva_chain_hash(char sha256[65]);

/* Draws names of so many letters (one seen before is drawn again), the value and the
 * places, which are balanced over idx and sorted: the chain is told in order. No name or
 * value is one of the n_others chains'. Every plant is queried. */
void kva_chain_draw(struct kva_chain *c, struct kva_rng *rng, int letters, int idx,
                    const struct kva_chain *others, int n_others);
/* Appends n noise lines with the plants of one or several chains, which are sorted, and a
 * line feed. */
enum kva_status kva_chain_place(struct kva_draft *d, struct kva_plant *plants,
                                size_t n_plants, size_t n, struct kva_error *err);
/* Question and answer prefix, cut as kvpress does; from the arena, NULL: out of memory.
 */
const char *kva_chain_question(const struct kva_chain *c, struct kva_arena *arena);
const char *kva_chain_prefix(const struct kva_chain *c, struct kva_arena *arena);
/* The solved example that stands before the task, with the blank line behind it: a chain
 * of three-letter names from stream "...|hay", unlike the others. */
enum kva_status kva_chain_example(const struct kva_task *task, int idx,
                                  const struct kva_chain *others, int n_others,
                                  struct kva_arena *arena, const char **out,
                                  struct kva_error *err);
/* Appends the example and the instruction. */
void kva_chain_open(struct kva_draft *d, const char *example);

#endif
