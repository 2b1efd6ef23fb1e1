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
    struct kva_error *bad; /* [n_idx] why a question cannot be fed, or KVA_OK */
    int chunk;
    uint64_t context_fnv; /* of the fed ids: random choices of a cell differ by context */
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
/* Seed of a cell's random choices on this context. */
uint64_t kva_unit_seed(const struct kva_unit_run *u, const struct kva_cell *cell);
/* Feeds n tokens in chunks, looking for a stop request before each. `last`, when not
 * NULL, says what the last row should give (logits, target) and receives it. Counts
 * u->rows. */
enum kva_status kva_unit_feed(const struct kva_unit_run *u, struct kva_session *s,
                              const int32_t *ids, int n, struct kva_row *last,
                              struct kva_error *err);
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

/* Bytes after a decision; `before_alloc`: pages in use before it (0: nothing was held).
 * Sets c->window_bytes. */
void kva_memory_fill(const struct kva_unit_run *u, struct kva_run_cell *c, int n_cut,
                     uint64_t before_alloc, struct kva_db_memory *m);
/* True when the cell's query ring is kept between steps and counts as its metadata. */
bool kva_keeps_window(const struct kva_cell *cell);
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

/* Cells that may share a wave: `most`, or fewer when the memory that is free, divided
 * among the workers, does not hold so many full caches. At least 1. Changes no result. */
int kva_wave_limit(const struct kva_unit_run *u, int most);

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
