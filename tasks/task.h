/* SPDX-License-Identifier: GPL-3.0-or-later */
/* task.h - samples with contexts, questions, references, and labelled spans.
 *
 * A task makes item `idx` from (task, L, seed, idx) alone: items never depend on each
 * other, so shards agree. It knows no model: lengths are counted and bytes mapped to
 * tokens through the callbacks of struct kva_tok_api. Items live in the arena passed in.
 * Thread-safe: an opened task is read-only.
 *
 * Written `suite/name[:k=v,...][@L]`, or `jsonl:PATH`. Adding one: tasks/x.c with a const
 * descriptor, a line in tasks.def, tests/golden/tasks/x/. */
#ifndef KVA_TASK_H
#define KVA_TASK_H

#include "kva.h"

/* How the evaluated model counts (ruling R28). */
struct kva_tok_api {
    void *ctx;
    const char *id; /* "ws", "by", or the tokenizer's hash: part of the task digest */
    /* Tokens fed for this prompt: chat prefix + context, question + suffix + prefix. */
    enum kva_status (*count)(void *ctx, const char *context, size_t n,
                             const char *question, const char *answer_prefix,
                             size_t *n_context, size_t *n_question,
                             struct kva_error *err);
    /* Byte ranges of the fed context's tokens relative to the task's context text; tokens
     * of the chat prefix have end <= 0. Arrays from the arena. */
    enum kva_status (*ranges)(void *ctx, const char *context, size_t n,
                              struct kva_arena *arena, int32_t **begin, int32_t **end,
                              size_t *n_tokens, struct kva_error *err);
};
extern const struct kva_tok_api kva_tok_ws; /* runs of non-space bytes; no template */
extern const struct kva_tok_api kva_tok_by; /* one token a byte */

struct kva_span {
    char id[8]; /* "E0"; of its payload "P0" (value), "K0" (key); its distractors
                 * "D0".."D3", those of E1 "D4".."D7" */
    char kind;  /* 'E' evidence, 'D' distractor, 'P' payload (value or key of E) */
    bool queried;
    const char *role; /* "needle", "link", "distractor", "value", "key" */
    char match[8];    /* D, P: the E it belongs to */
    int level;        /* D: candidate list 1..4 that supplied it */
    size_t b0, b1;    /* bytes in context, half-open */
    int t0, t1;       /* tokens of the fed context */
    double depth;     /* t0 / context tokens */
    int bucket;       /* min(9, floor(10 (t0+t1) / (2 T))) */
    int dtok;         /* D: its tokens minus those of the E */
    int guard;        /* D: distance to every E that was kept, in tokens */
};

struct kva_item {
    int idx;
    const char *context;
    size_t context_len;
    const char *question, *answer_prefix;
    const char *const *answers;
    int n_answers;
    const char
        *gold; /* text whose nats are measured (ruling R31), leading blank included */
    const char *metric;
    int max_new_tokens;
    double guess_floor; /* chance score, e.g. 1/k; 0 when nothing can be guessed */
    const struct kva_span *spans;
    int n_spans;
    double depth;   /* of the queried evidence, 0..1; -1: none */
    double fill;    /* (tokens + max_new_tokens) / L; 0 when the task has no L */
    bool underfill; /* fill below 0.97: a long unit did not fit, or the haystack ended */
    size_t n_context, n_question; /* counted tokens */
    /* jsonl only: exact ids in place of text; NULL otherwise */
    const int32_t *context_ids, *question_ids;
    size_t n_context_ids, n_question_ids;
};

struct kva_task_opts {
    uint64_t seed;
    const char *dialect;  /* NULL: "kva1" */
    const char *haystack; /* NULL: the task's own; "emerson", "embedded", "noise" */
    const char *words;    /* "2.2.0" (default) or "3.0.0" */
    int max_new_tokens;   /* 0: the task's own */
    const char *base_dir; /* jsonl paths are relative to it */
    const char *data_dir; /* directory with word lists and essays; NULL: what the program
                             carries */
};

struct kva_task; /* an opened task: descriptor + parameters + data */

/* KVA_EINVALID with the nearest known name; KVA_EIO/KVA_EFORMAT with file, line and
 * reason for jsonl. */
enum kva_status kva_task_open(const char *text, const struct kva_task_opts *opts,
                              struct kva_task **task, struct kva_error *err);
void kva_task_close(struct kva_task *task);

struct kva_task_info {
    const char *suite, *name; /* "ruler", "niah_single_1"; name includes parameters:
                                 "needle:digits=4,keys=2" */
    const char *domain;
    int ctx; /* L; 0: none */
    const char *metric;
    int metric_version;
    bool binary;
    int64_t n_available; /* -1: unlimited */
    int version;         /* of the generator */
    int max_new_tokens;
    double guess_floor;
    bool has_depth; /* items carry a needle depth (heat map) */
};
const struct kva_task_info *kva_task_info(const struct kva_task *task);
/* Canonical JSON of everything that can change an item, the count of samples apart:
 * generator, version, parameters, template bytes' hash, seed, source data SHA-256. From
 * the arena. */
const char *kva_task_gen_json(const struct kva_task *task, struct kva_arena *arena);
const char *kva_task_source_json(const struct kva_task *task, struct kva_arena *arena);

/* KVA_EINVALID "task T does not fit in L with tokenizer X (needs at least N)" when too
 * small. */
enum kva_status kva_task_item(const struct kva_task *task, int idx,
                              const struct kva_tok_api *tok, struct kva_arena *arena,
                              struct kva_item *item, struct kva_error *err);
/* One record of tasks-ruler.md 8.3 as a line of JSON (no newline); extra context_ids etc.
 * when set. */
enum kva_status kva_task_record(const struct kva_task *task, const struct kva_item *item,
                                const struct kva_tok_api *tok, struct kva_buf *out,
                                struct kva_error *err);

/* How many of the span's tokens are among the n kept positions (any order, no repeats).
 */
size_t kva_span_kept(const struct kva_span *span, const int32_t *kept, size_t n);

/* For `list tasks`: every descriptor. */
struct kva_task_desc {
    const char *suite, *name, *summary, *source, *metric;
    int version, max_new_tokens;
};
const struct kva_task_desc *kva_tasks(size_t *n);

#endif
