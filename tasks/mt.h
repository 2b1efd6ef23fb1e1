/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt.h - what the multi-turn tasks share: several questions on one context.
 *
 * Sample i is question i % turns of context i / turns. Everything drawn comes from the
 * stream of the context's number, so all turns of a context have the same bytes and no
 * sample needs another one. The context is fitted once for all its questions: to the
 * longest of them, and in conversation mode to all questions and answers together, since
 * those stay in the cache. */
#ifndef KVA_TASKS_MT_H
#define KVA_TASKS_MT_H

#include "tasks/internal.h"

enum { KVA_TURNS_MAX = 64 };

/* A parameter that is a whole number. */
struct kva_mt_param {
    const char *key;
    int *value;
    int lo, hi, standard;
};
enum { KVA_MT_PARAMS_MAX = 8 };

struct kva_mt {
    /* set by the family before kva_mt_open */
    struct kva_mt_param param[KVA_MT_PARAMS_MAX];
    size_t n_params;
    const char *const *haystacks; /* allowed, NULL-terminated, the first is the default;
                                   * NULL: the task has none */
    /* out */
    int turns; /* itself one of the parameters */
    bool conversation, golden;
    const char *haystack;
    char template_sha256[65];
};

/* Reads the family's parameters, `haystack`, `mode=independent|conversation` and
 * `history=own|golden`; sets the task's turns, layout, name (what differs from the
 * defaults, sorted) and stream name ("mt_<name>"; mode and history change no draw). */
enum kva_status kva_mt_open(struct kva_task *task, const struct kva_task_request *req,
                            struct kva_mt *mt, struct kva_error *err);
/* SHA-256 of the texts and their NULs, in order. */
void kva_mt_hash(struct kva_mt *mt, const char *const *texts, size_t n);
int kva_mt_describe(const struct kva_task *task, const struct kva_mt *mt, void *gen);

/* The context that the item belongs to, and which of its questions it is. */
int kva_mt_context(const struct kva_mt *mt, const struct kva_item *item);
int kva_mt_turn(const struct kva_mt *mt, const struct kva_item *item);
/* mt->turns copies of *item, whose questions, answers and decoys the family sets. */
struct kva_item *kva_mt_turns(const struct kva_mt *mt, const struct kva_item *item,
                              struct kva_arena *arena);
/* One question: layout and gold follow; a question or prefix NULL is KVA_ENOMEM. */
enum kva_status kva_mt_ask(const struct kva_task *task, struct kva_item *turn,
                           const char *question, const char *answer_prefix,
                           const char *const *answers, int n_answers, const char *joint,
                           struct kva_arena *arena, struct kva_error *err);
/* Fits the context (fit: build, ctx and n_max are the family's, the rest is set here) and
 * finishes the item as its own turn, job as for kva_task_finish. */
enum kva_status kva_mt_finish(const struct kva_task *task, const struct kva_mt *mt,
                              const struct kva_item *turns, struct kva_fit *fit,
                              struct kva_draft *d, struct kva_span_job *job,
                              const struct kva_tok_api *tok, struct kva_arena *arena,
                              struct kva_item *item, struct kva_error *err);

#endif
