/* SPDX-License-Identifier: GPL-3.0-or-later */
/* misfit.h - tasks that a model cannot take, said before anything runs. */
#ifndef KVA_MISFIT_H
#define KVA_MISFIT_H

#include "runner/plan.h"

/* *max_new: tokens the item may be answered with behind a prompt of n_prompt tokens.
 * KVA_ETRUNCATED when none is left of the task's L (ruling R28), or when they end behind
 * the model's context. */
enum kva_status kva_item_room(const struct kva_item *item, int ctx_train, int n_prompt,
                              int *max_new, struct kva_error *err);

/* What is wrong with a sample of a task. Samples of a generator fill the task's length,
 * and the first stands for all. Of other tasks (the user's records, data sets) each
 * sample given as token ids is tried, and of those given as text the longest: tokenising
 * them all is what a run does, where every sample that does not fit is an outcome that
 * says so. */
struct kva_misfit {
    int task;            /* of the plan */
    int sample;          /* its index */
    bool all;            /* all of the task are like it */
    int longest_of;      /* it is the longest, in bytes, of so many; 0: found otherwise */
    int64_t n_todo;      /* shared outcomes to do */
    int n_prompt, limit; /* tokens; 0: the sample could not be made */
    int max_new;
    struct kva_error why;
};
/* One for each task of the plan's cells with such a sample. Free *out. */
enum kva_status kva_misfits(const struct kva_plan *p, struct kva_misfit **out, int *n,
                            struct kva_error *err);
/* A line: task, model, the arithmetic. */
void kva_misfit_text(const struct kva_plan *p, const struct kva_misfit *m,
                     struct kva_buf *out);

#endif
