/* SPDX-License-Identifier: GPL-3.0-or-later */
/* longbench.h - the data sets of LongBench (arXiv:2308.14508) as a table. */
#ifndef KVA_TASKS_LONGBENCH_H
#define KVA_TASKS_LONGBENCH_H

#include "tasks/internal.h"

enum { KVA_LONGBENCH_SETS = 16 };

/* The official prompt is ctx + mid + q + pre. "{context}" stands once in ctx, "{input}"
 * at most once in q. */
struct kva_longbench_set {
    const char *name, *domain;
    const char *ctx, *mid, *q, *pre;
    const char *cue; /* kvpress: taken off the end of `input`, put behind the chat
                      * suffix; "": `pre` is */
    int n, n_e;      /* records of the benchmark and of its -E set; n_e 0: it has none */
    bool first_line; /* only the first line of an answer is scored */
    bool plain;      /* no chat template in the official pipeline */
    double guess_floor; /* of a choice among the classes, or the paragraphs */
};
extern const struct kva_longbench_set kva_longbench_sets[KVA_LONGBENCH_SETS];
/* "trec", or with `_e` behind it and *e set; NULL: no such set. */
const struct kva_longbench_set *kva_longbench_find(const char *name, bool *e);

/* LongBench v2 (arXiv:2412.15204), prompts/0shot.txt: head, document, tail with the
 * question and choices in place of $Q$, $C_A$ to $C_D$. */
extern const char kva_longbench_v2_head[], kva_longbench_v2_tail[];

/* The official middle cut of a prompt of n bytes to max_length tokens, counted without a
 * template and with BOS: half = max_length / 2 tokens stay at each end, so an odd
 * max_length loses one. What stays are the bytes [0, *head) and [*tail, n); a prompt
 * that is short enough has *head == *tail. A cut through a character is left to the
 * caller.
 *
 * Where L bounds all that is fed and the new tokens for RULER, for LongBench it is this
 * max_length: of the prompt alone, before the chat template, without new tokens. */
enum kva_status kva_longbench_cut(const struct kva_tok_api *tok, const char *prompt,
                                  size_t n, int max_length, struct kva_arena *arena,
                                  size_t *head, size_t *tail, struct kva_error *err);
/* Gives the item the prompt's bytes: the first n_context are the context, the rest is
 * item->question and item->answer_prefix, which are set. With info.ctx the middle is cut
 * out; each piece of a character at the inner edges becomes U+FFFD, as the official
 * decoding does it. Question and prefix are never cut: KVA_EINVALID
 * "question_longer_than_half_window". Counts tokens. */
enum kva_status kva_longbench_finish(const struct kva_task *task,
                                     const struct kva_tok_api *tok,
                                     const struct kva_buf *prompt, size_t n_context,
                                     struct kva_arena *arena, struct kva_item *item,
                                     struct kva_error *err);
/* "TEMPLATE" with the first `mark` in it replaced, appended. */
void kva_longbench_fill(struct kva_buf *out, const char *template, const char *mark,
                        const char *text, size_t n);

#endif
