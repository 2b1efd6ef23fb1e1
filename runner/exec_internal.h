/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_internal.h - what the files of exec share. */
#ifndef KVA_EXEC_INTERNAL_H
#define KVA_EXEC_INTERNAL_H

#include "runner/exec.h"
#include "runner/wave.h"

/* A unit's prompts, ready to feed. */
struct kva_unit_run {
    struct kva_plan *plan;
    const struct kva_unit *unit;
    int unit_no;
    const struct kva_exec_opts *opts;
    const struct kva_sink *sink;
    struct kva_model *model;
    const struct kva_model_info *info;
    const struct kva_plan_task *task;
    struct kva_item *items;   /* [n_idx] */
    struct kva_prompt prompt; /* the shared context */
    struct kva_prompt blind;  /* chat prefix alone; built on demand */
    bool has_blind;
    struct kva_question *questions;       /* [n_idx] after the context */
    struct kva_question *blind_questions; /* [n_idx], on demand */
    struct kva_tokens *gold;              /* [n_idx] */
    struct kva_sample_row *samples;       /* [n_idx] */
    int chunk;
    int64_t *rows;
    struct kva_arena arena;
};
enum kva_status kva_unit_open(struct kva_plan *plan, int unit,
                              const struct kva_exec_opts *opts,
                              const struct kva_sink *sink, struct kva_unit_run *u,
                              struct kva_error *err);
void kva_unit_close(struct kva_unit_run *u);
/* Fills u->blind and the blind question of q. */
enum kva_status kva_unit_blind(struct kva_unit_run *u, int q, struct kva_error *err);
/* Span ids, token ranges and counts of what a session still holds of each span. */
enum kva_status kva_unit_spans(const struct kva_unit_run *u, int q, struct kva_session *s,
                               struct kva_result *r, struct kva_error *err);
/* Bitmaps over the first n_tok positions. */
enum kva_status kva_unit_bits(const struct kva_unit_run *u, struct kva_session *s,
                              int n_tok, struct kva_result *r, struct kva_error *err);
/* Scores of a finished cell into r. */
enum kva_status kva_unit_score(const struct kva_unit_run *u, int q,
                               const struct kva_run_cell *c, struct kva_result *r,
                               struct kva_error *err);

/* Bytes after a decision; `before_alloc`: pages in use before it (0: nothing was held);
 * `window`: queries it keeps for later decisions. */
void kva_memory_fill(const struct kva_unit_run *u, struct kva_session *s,
                     const struct kva_cell *cell, int n_cut, uint64_t budget_total,
                     uint64_t before_alloc, int window, struct kva_db_memory *m);
/* Bits that can be judged only at the end: growth while answering. */
void kva_memory_end(struct kva_session *s, const struct kva_run_cell *c,
                    struct kva_db_memory *m);

/* Page cap of a cell: sum over KV heads of ceil((held + extra) / page). held NULL: `even`
 * each. */
size_t kva_page_cap(const struct kva_model_info *info, const struct kva_keep *keep,
                    int even, int extra);
/* Entries a cell may keep over all KV heads once `tokens` were read; never above what is
 * held. */
uint64_t kva_cell_total(const struct kva_unit_run *u, const struct kva_cell *cell,
                        int tokens);
/* Hard cap of a block schedule: kept entries plus a block or the answer (kernels.md 2.6).
 */
size_t kva_block_cap(const struct kva_unit_run *u, const struct kva_cell *cell,
                     uint64_t total, int n, int extra);
int kva_extra_tokens(const struct kva_cell *cell, int n_ids, int n_gold, int max_new);

/* Prefills a block-schedule cell: every block, then a decision (methods.md 4.2). */
enum kva_status kva_block_prefill(struct kva_unit_run *u, struct kva_session *s,
                                  const struct kva_cell *cell, const int32_t *ids, int n,
                                  uint64_t total, uint64_t *score_ns, uint64_t *evict_ns,
                                  struct kva_row *last, struct kva_error *err);

enum kva_status kva_exec_alone(struct kva_unit_run *u, const struct kva_job *job,
                               struct kva_result *r, struct kva_error *err);
/* Status word of an outcome for a failure. */
const char *kva_result_status(enum kva_status code);

#endif
