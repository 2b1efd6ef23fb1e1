/* SPDX-License-Identifier: GPL-3.0-or-later */
/* digest.h - identity of methods, tasks and cells. */
#ifndef KVA_DIGEST_H
#define KVA_DIGEST_H

#include "runner/plan.h"

/* params: canonical JSON {scorer: {...}, allocator: {...}}, from the arena. */
enum kva_status kva_digest_method(const struct kva_method *m, struct kva_arena *arena,
                                  char **params, uint8_t digest[32],
                                  struct kva_error *err);
/* gen_json: the task's own description with tokenizer, chat family, profile and
 * max_new_tokens. */
enum kva_status kva_digest_task(const struct kva_task *task, const struct kva_model *m,
                                struct kva_arena *arena, char **gen_json,
                                uint8_t digest[32], struct kva_error *err);
/* Sets digest, dense_key and spec_json from the other fields. */
enum kva_status kva_digest_cell(struct kva_cell *c, const uint8_t model[32],
                                const uint8_t task[32], const char *chat,
                                struct kva_arena *arena, struct kva_error *err);

#endif
