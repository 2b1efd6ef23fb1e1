/* SPDX-License-Identifier: GPL-3.0-or-later */
/* watch.h - the sanity checks of `run`: a sweep that shows nothing is stopped, and what
 * looks wrong in the end is said. Internal to cmd_run.c. */
#ifndef KVA_WATCH_H
#define KVA_WATCH_H

#include "runner/exec.h"

struct kva_watch;
/* Takes what the database already holds of the plan's dense and blind cells. */
enum kva_status kva_watch_new(const struct kva_plan *plan, struct kva_db *db,
                              struct kva_watch **watch, struct kva_error *err);
void kva_watch_free(struct kva_watch *watch);
/* A result that was stored. */
enum kva_status kva_watch_add(struct kva_watch *watch, const struct kva_result *r,
                              struct kva_error *err);
/* Every task of the model has been judged and is below its floor. */
bool kva_watch_shut(const struct kva_watch *watch, int model);

/* Why the model was stopped, with three of its wrong answers and how their prompts end.
 */
enum kva_status kva_watch_tell_shut(struct kva_plan *plan, struct kva_db *db, int model,
                                    struct kva_buf *out, struct kva_error *err);
/* From the database, whichever run measured it: tasks below their floor, methods whose
 * answers do not change with the budget, tasks whose answers mostly end by length. A
 * line each. */
enum kva_status kva_watch_summary(const struct kva_plan *plan, struct kva_db *db,
                                  struct kva_buf *out, struct kva_error *err);

#endif
