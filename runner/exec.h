/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec.h - runs one unit of work: prefill once, decide per cell, advance all cells as
 * waves.
 *
 * A unit is one (model, context) with its questions and cells. One-shot cells share one
 * prefill and one score per scorer; each takes its own physical copy of what stays. Then
 * question, gold and decode rows of all cells advance together. perf jobs run alone, in
 * place. Results leave through a sink in groups: those that ended in the same step.
 * Nothing here touches the database. */
#ifndef KVA_EXEC_H
#define KVA_EXEC_H

#include "runner/plan.h"

struct kva_unit_state; /* exec_internal.h */
struct kva_exec_opts {
    int jobs;       /* workers that share the memory; 0: 1 */
    int wave;       /* most sessions of a wave; 0: 64 */
    int chunk;      /* prefill chunk, tokens; 0: the backend's */
    int trace_kept; /* bitmaps of kept entries for sample indexes below this */
    bool prompts;   /* prompt text into the sample's meta */
    const volatile int
        *stop; /* non-zero: stop after the current step with KVA_EINTERRUPTED */
    /* Called with the open unit instead of running its jobs (audit); NULL: run them. */
    enum kva_status (*probe)(void *ctx, struct kva_unit_state *st, struct kva_error *err);
    void *probe_ctx;
};

/* What identifies a sample (one question of the unit). */
struct kva_sample_row {
    int unit, question, idx;
    uint8_t digest[32];
    char cluster[65];
    char *refs_json, *meta_json;
};

/* the task's metric comes first; gold_nll, further metrics, wrong_needle, protected,
 * stage1 (share of KV heads whose first stage holds more than half of the scores) */
#define KVA_RESULT_SCORES 12
struct kva_result_score {
    char metric[32];
    int version;
    double value;
    char *extracted; /* what the metric read out of the answer; NULL: nothing */
};
struct kva_result_span {
    char id[16];
    int n_tok;
    uint16_t *kept; /* [layers * kv_heads] */
};
struct kva_result {
    int unit, question, idx, cell, rep;
    bool
        perf; /* ran alone: adds time and peak memory to a stored outcome, nothing else */
    char status[12], stop[8]; /* stop empty when failed */
    char *error, *text;       /* NULL when not applicable */
    int32_t *ids;
    int n_ctx, n_question, n_gen, n_cut;
    int flags; /* KVA_DB_FELL_BACK, ... */
    uint64_t kept_fnv;
    struct kva_result_score scores[KVA_RESULT_SCORES];
    int n_scores;
    bool has_memory, has_timing;
    struct kva_db_memory memory;
    struct kva_db_timing timing;
    struct kva_result_span *spans;
    int n_spans, layers, kv_heads;
    uint8_t *bits; /* [layers][kv_heads * ((bits_tok + 7) / 8)], or NULL */
    int bits_tok;
};
void kva_sample_row_release(struct kva_sample_row *s);
void kva_result_release(struct kva_result *r);
/* Turns a result into the failure `why`: status word, reason, no score, no text. */
void kva_result_fail(struct kva_result *r, const struct kva_error *why);

/* One phase of one timed repetition, or a yardstick (struct kva_data_perf in db.h). */
struct kva_perf_row {
    int cell, rep, ord;
    char phase[16];
    int64_t ns, work;
    int temp_c, clock_mhz; /* -1: not known */
};

struct kva_sink {
    void *ctx;
    enum kva_status (*sample)(void *ctx, const struct kva_sample_row *s,
                              struct kva_error *err);
    enum kva_status (*results)(void *ctx, const struct kva_result *r, int n,
                               struct kva_error *err);
    /* The rows of one sitting, to be stored together. NULL: none are taken. */
    enum kva_status (*perf)(void *ctx, const struct kva_perf_row *rows, int n,
                            struct kva_error *err);
};

/* Runs the unit's jobs (perf jobs only, or the others only). *rows counts the rows
 * stepped. A failing cell becomes a result with its status; the call fails only when the
 * unit as a whole cannot go on. */
enum kva_status kva_exec_unit(struct kva_plan *plan, int unit, bool perf,
                              const struct kva_exec_opts *opts,
                              const struct kva_sink *sink, int64_t *rows,
                              struct kva_error *err);

/* The prompt of one sample as the unit would feed it (report --sample, generate
 * --tokens). */
enum kva_status kva_exec_sample(struct kva_plan *plan, int unit, int question,
                                struct kva_arena *arena, struct kva_item *item,
                                struct kva_sample_row *row, struct kva_error *err);

#endif
