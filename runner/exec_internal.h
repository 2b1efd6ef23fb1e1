/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_internal.h - what the files of exec share. */
#ifndef KVA_EXEC_INTERNAL_H
#define KVA_EXEC_INTERNAL_H

#include "runner/exec.h"
#include "runner/parts.h"
#include "runner/wave.h"

/* The spans of a sample as they are stored: those whose ids agree up to a '.' are parts
 * of one. */
struct kva_span_groups {
    int n;
    char (*id)[16];
    int *n_tok; /* tokens of all parts */
    int *of;    /* [item.n_spans] the group of each part */
};

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
    struct kva_ends *ends;                /* [n_idx] where an answer ends */
    struct kva_span_groups *groups;       /* [n_idx] */
    struct kva_sample_row *samples;       /* [n_idx] */
    struct kva_error *bad; /* [n_idx] why a question cannot be fed, or KVA_OK */
    int chunk;
    uint64_t context_fnv; /* of the fed ids: random choices of a cell differ by context */
    int64_t *rows;
    struct kva_parts *parts; /* of the cell that reads its prompt; NULL: not timed */
    struct kva_arena arena;
};
enum kva_status kva_unit_open(struct kva_plan *plan, int unit,
                              const struct kva_exec_opts *opts,
                              const struct kva_sink *sink, struct kva_unit_run *u,
                              struct kva_error *err);
void kva_unit_close(struct kva_unit_run *u);
/* Fills u->blind and the blind question of q (in a conversation those before it, too).
 */
enum kva_status kva_unit_blind(struct kva_unit_run *u, int q, struct kva_error *err);
/* Tokens the answer to q may have behind a prompt of n_prompt tokens: the task's own
 * number, lowered to its max_total. KVA_ETRUNCATED when they do not fit into the model's
 * context (ruling R28), or max_total leaves none. */
enum kva_status kva_unit_max_new(const struct kva_unit_run *u, int q, int n_prompt,
                                 int *max_new, struct kva_error *err);
/* How many tokens of the question the eviction sees (ruling R20): of the first one in a
 * conversation, whose context is cut once. */
int kva_seen_question(const struct kva_unit_run *u, const struct kva_question *questions,
                      int q, enum kva_visibility v);
/* Seed of a cell's random choices on this context. */
uint64_t kva_unit_seed(const struct kva_unit_run *u, const struct kva_cell *cell);
/* Feeds n tokens in chunks, looking for a stop request before each. `last`, when not
 * NULL, says what the last row should give (logits, target) and receives it. Counts
 * u->rows. */
enum kva_status kva_unit_feed(const struct kva_unit_run *u, struct kva_session *s,
                              const int32_t *ids, int n, struct kva_row *last,
                              struct kva_error *err);

/* ---- exec_score.c ---- */

/* Groups the spans of q and counts their tokens; the arena is the unit's. */
enum kva_status kva_unit_group_spans(struct kva_unit_run *u, int q,
                                     struct kva_error *err);
/* What a session still holds of each span group. */
enum kva_status kva_unit_spans(const struct kva_unit_run *u, int q, struct kva_session *s,
                               struct kva_result *r, struct kva_error *err);
/* Bitmaps over the first n_tok positions. */
enum kva_status kva_unit_bits(const struct kva_unit_run *u, struct kva_session *s,
                              int n_tok, struct kva_result *r, struct kva_error *err);
/* Every token of every queried E is one that the method keeps whatever it scores: below
 * `sinks`, or among the `recent` newest of the n_cut tokens it decided over (decode-time
 * cuts let go of the latter). False without evidence. */
bool kva_unit_protected(const struct kva_unit_run *u, int q, const struct kva_cell *cell,
                        const struct kva_protect *protect, int n_cut);
/* Text, scores and end of a finished cell into r: the task's metric, gold_nll, the other
 * metrics of the item, wrong_needle (a failure that names a decoy), protected. */
enum kva_status kva_unit_score(const struct kva_unit_run *u, int q,
                               const struct kva_run_cell *c, struct kva_result *r,
                               struct kva_error *err);

/* ---- exec_memory.c ---- */

/* Bytes after a decision; `before_alloc`: pages in use before it (0: nothing was held).
 * Sets c->state_bytes. */
void kva_memory_fill(const struct kva_unit_run *u, struct kva_run_cell *c, int n_cut,
                     uint64_t before_alloc, struct kva_db_memory *m);
/* Sets a bit; -1, not verified, gives way. */
void kva_audit_add(struct kva_db_memory *m, int bit);
/* True when the cell's query ring and sums are kept between steps and count as its
 * metadata; else they are scratch. */
bool kva_keeps_state(const struct kva_cell *cell);
/* Both in a session, as far as the cell needs them for its decisions. */
uint64_t kva_state_bytes(const struct kva_unit_run *u, const struct kva_cell *cell,
                         const struct kva_session *s);
/* Bits that can be judged only at the end: growth while answering. */
void kva_memory_end(const struct kva_unit_run *u, struct kva_run_cell *c,
                    struct kva_db_memory *m);

/* Page cap of a cell: sum over KV heads of ceil((held + extra) / page). held NULL: `even`
 * each. */
size_t kva_page_cap(const struct kva_model_info *info, const struct kva_keep *keep,
                    int even, int extra);
/* Entries a cell may keep over all KV heads once `tokens` were read; never above what is
 * held. */
uint64_t kva_cell_total(const struct kva_unit_run *u, const struct kva_cell *cell,
                        int tokens);
/* Hard cap of a cell that evicts as it reads or answers: kept entries plus a block, a
 * layer or the answer (kernels.md 2.6). */
size_t kva_moving_cap(const struct kva_unit_run *u, const struct kva_cell *cell,
                      uint64_t total, int n, int extra);
/* True when every KV head gets the same share, whatever the scores. */
bool kva_even_shares(const struct kva_method *m);
int kva_extra_tokens(const struct kva_cell *cell, int n_ids, int n_gold, int max_new);

/* Cells that may share a wave: `most`, or fewer when the memory that is free, divided
 * among the workers, does not hold so many full caches. At least 1. Changes no result. */
int kva_wave_limit(const struct kva_unit_run *u, int most);

/* ---- exec_base.c ---- */

/* What a scorer, a wrapper or an allocator made of a base. */
struct kva_scored {
    char spec[sizeof((struct kva_method *)0)->wrapped_spec];
    uint64_t seed;
    double keep; /* 0 unless the scorer reads it */
    struct kva_scores scores;
    double *stat; /* of an allocator */
    uint64_t ns, scratch;
};
struct kva_scored_list {
    struct kva_scored **at;
    int n;
};

/* A store that nothing was evicted from, and what was seen in it. */
struct kva_base {
    struct kva_session *session;
    int n;               /* tokens processed */
    int question;        /* how many of them are the question's */
    struct kva_row last; /* result of its last row (visibility full) */
    float *logits;       /* [vocab] of that row where a cell of the unit samples */
    uint64_t alloc_bytes, held_bytes;
    struct kva_scored_list scored, wrapped, observed;
    int asked;                    /* whose question */
    struct kva_collect *replayed; /* [n_replayed] wants whose replay was run */
    int n_replayed;
};
void kva_base_release(struct kva_base *b);
struct kva_unit_state;
/* Prefills the context into st->base; nothing to do when that was done. */
enum kva_status kva_base_open(struct kva_unit_state *st, struct kva_error *err);
/* Makes b a fork of it that has also read the first n tokens of question q. */
enum kva_status kva_base_seen(struct kva_unit_state *st, int q, struct kva_base *b, int n,
                              struct kva_error *err);
/* What the parts of a decision took, whether now or for an earlier cell. */
struct kva_decide_cost {
    uint64_t score_ns, scratch;
};
/* Runs the replay that `want` asks for (nothing to do for others) on a session that has
 * read ids[n] and holds all of it. */
enum kva_status kva_unit_replay(const struct kva_unit_run *u, struct kva_session *s,
                                const struct kva_collect *want, const int32_t *ids, int n,
                                uint64_t *scratch, struct kva_error *err);
/* What the cell keeps of a base. KVA_ENONFINITE when a score is no finite number. */
enum kva_status kva_base_decide(const struct kva_unit_run *u, struct kva_base *b,
                                const struct kva_cell *cell, uint64_t total,
                                struct kva_decision *d, struct kva_decide_cost *cost,
                                struct kva_error *err);

/* ---- exec_prefill.c ---- */

/* True when the cell evicts before its prompt is read, and so reads it by itself. */
bool kva_prefills_own(const struct kva_cell *cell);
/* What such a cell reads: context, and what visibility adds. */
struct kva_stream {
    const struct kva_cell *cell;
    const int32_t *ids;
    int n, n_question; /* the last n_question tokens are the question's */
    uint64_t total;    /* entries that stay of all of it */
};
/* What a prefill tells beside the cache it leaves. */
struct kva_prefill_out {
    uint64_t scratch;
    uint64_t decided;           /* entries that were to stay after the last decision */
    struct kva_protect protect; /* of the last decision */
    struct kva_noted noted;     /* of all */
};
/* Into a fresh session; `last` as in kva_unit_feed. */
enum kva_status kva_prefill_own(struct kva_unit_run *u, struct kva_session *s,
                                const struct kva_stream *in, struct kva_prefill_out *out,
                                struct kva_row *last, struct kva_error *err);

/* ---- exec_cut.c ---- */

/* A job on its way to a result. */
struct kva_live {
    const struct kva_job *job;
    struct kva_run_cell rc;
    struct kva_result result;
    struct kva_error why; /* it could not be opened */
    int later;            /* tokens that further turns of its conversation may add */
    int most_gold;        /* tokens of the longest reference among them */
    bool sent;
};

struct kva_unit_state {
    struct kva_unit_run u;
    struct kva_base base, aware, full; /* the last two per question */
    /* joined over all methods that share a prefill (ruling R5) */
    int window;
    struct kva_collect *want; /* [n_want] distinct */
    int n_want;
    bool sampled; /* by any of its cells */
};

/* Names the result and takes the question; `later` is the caller's to set before the
 * session is opened. Both record a failure in `err`; kva_live_release undoes either. */
enum kva_status kva_live_begin(struct kva_unit_state *st, const struct kva_job *job,
                               struct kva_live *l, struct kva_error *err);
enum kva_status kva_live_open(struct kva_unit_state *st, struct kva_live *l,
                              struct kva_error *err);
/* Instead of opening it: another draw of a question that `lead` was opened for. */
enum kva_status kva_live_follow(struct kva_live *l, struct kva_live *lead,
                                struct kva_error *err);
/* A cell that ended becomes a result: scored, or failed. */
void kva_live_finish(struct kva_unit_state *st, struct kva_live *l);
void kva_live_release(struct kva_live *l);

/* A session of the cell's own; *want is what it collects and must live as long as the
 * call that takes the options. */
struct kva_session_opts kva_cell_opts(const struct kva_unit_run *u,
                                      const struct kva_cell *cell, size_t cap, int window,
                                      struct kva_collect *want);

/* Counts its bytes as the cell's enforcement lays them out. */
enum kva_status kva_cell_layout(const struct kva_unit_run *u, const struct kva_cell *cell,
                                struct kva_session *s, struct kva_error *err);

/* ---- exec_turns.c ---- */

/* Questions that follow each other in one cache, the model's own answers between them.
 * With the reference answers (`golden`) a question is fed behind the whole history, and
 * its job is like any other. */
bool kva_unit_talks(const struct kva_unit_run *u);
/* Runs the unit's jobs turn by turn, `limit` cells at a time. Turns that are stored
 * already are run again, since later ones stand on them, and not reported. */
enum kva_status kva_run_turns(struct kva_unit_state *st, int limit,
                              struct kva_error *err);

/* ---- exec_alone.c ---- */

enum kva_status kva_exec_alone(struct kva_unit_run *u, const struct kva_job *job,
                               struct kva_result *r, struct kva_error *err);
/* ---- exec_perf.c ---- */

/* Times the unit's jobs that ask for repetitions. */
enum kva_status kva_exec_sitting(struct kva_unit_state *st, struct kva_error *err);

/* Bits of an outcome (KVA_DB_FELL_BACK, ...). */
int kva_noted_flags(const struct kva_noted *n);
/* Status word of an outcome for a failure. */
const char *kva_result_status(enum kva_status code);

#endif
