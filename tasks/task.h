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
#include "metrics/metric.h"

/* How the evaluated model counts (ruling R28). */
struct kva_tok_api {
    void *ctx;
    const char *id; /* "ws", "by", or the tokenizer's hash: part of the task digest */
    /* Tokens fed for this prompt: chat prefix + context, question + suffix + prefix. */
    enum kva_status (*count)(void *ctx, const struct kva_feed *feed, const char *context,
                             size_t n, const char *question, const char *answer_prefix,
                             size_t *n_context, size_t *n_question,
                             struct kva_error *err);
    /* Byte ranges of the fed context's tokens relative to the task's context text; tokens
     * of the chat prefix have end <= 0. Arrays from the arena. */
    enum kva_status (*ranges)(void *ctx, const struct kva_feed *feed, const char *context,
                              size_t n, struct kva_arena *arena, int32_t **begin,
                              int32_t **end, size_t *n_tokens, struct kva_error *err);
};
extern const struct kva_tok_api kva_tok_ws; /* runs of non-space bytes; no template */
extern const struct kva_tok_api kva_tok_by; /* one token a byte */

/* Evidence that stands in many places (an answer word of cwe or fwe) is one span with
 * parts: all spans whose ids agree up to a '.' ("E0.0", "E0.1", ...) are counted together
 * as "E0" in span_kept; their payload and distractors likewise ("P0.3", "D0.3"). */
struct kva_span {
    char id[16]; /* "E0"; of its payload "P0" (value), "K0" (key); its distractors
                  * "D0".."D3", those of E1 "D4".."D7"; "X0": the worked example */
    char kind;   /* 'E' evidence, 'D' distractor, 'P' payload (value or key of E), 'X'
                  * worked example inside the context */
    bool queried;
    const char *role; /* "needle", "link", "entry", "sentence", "pair", "distractor",
                       * "value", "key", "example" */
    char match[16];   /* D, P: the E it belongs to */
    int level;        /* D: candidate list 1..4 that supplied it; 0: nearest entry */
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
    const char *const *more_metrics; /* NULL-terminated, scored beside it; NULL: none */
    const char *const *classes;      /* for the metric `classification` */
    int n_classes;
    enum kva_post post; /* what is done to the output before it is scored */
    int max_new_tokens;
    int max_total; /* prompt + answer, tokens; lowers max_new_tokens; 0: no such limit */
    double guess_floor; /* chance score, e.g. 1/k; 0 when nothing can be guessed */
    /* texts in the context that a confused answer would give instead (the values of
     * needles nobody asked for): tells a wrong needle from an invented answer */
    const char *const *decoys;
    int n_decoys;
    /* ---- how it is fed and how the answer ends ---- */
    struct kva_feed feed;
    const char *const *stops; /* texts that end the answer and are cut off it */
    int n_stops;
    const char
        *eos_text;   /* the last token of this text ends the answer like EOS; or NULL */
    bool min_one;    /* neither EOS nor eos_text's token may be the first token */
    bool loop_guard; /* end when the last 256 tokens repeat one period of at most 32 */
    int turn;        /* number of the question on its context, from 0 */
    /* JSON object with what reports break down by or need to pair records ("_id",
     * "level", "subject", "length"), merged into the stored meta; NULL: none */
    const char *labels;
    const struct kva_span *spans;
    int n_spans;
    double depth;   /* of the queried evidence, 0..1; -1: none */
    double fill;    /* (tokens + max_new_tokens) / L; 0 when the task has no L */
    bool underfill; /* fill below 0.97: a long unit did not fit, or the haystack ended */
    bool no_haystack;             /* r2024 at small L: nothing but the needles is left */
    bool was_cut;                 /* the middle of the prompt was cut to the task's L */
    size_t n_context, n_question; /* counted tokens */
    /* jsonl only: exact ids in place of text; NULL otherwise */
    const int32_t *context_ids, *question_ids;
    size_t n_context_ids, n_question_ids;
};

/* Names that data sets of the user can have. NULL-terminated. */
extern const char *const kva_task_data_names[];
/* A data file or directory of the user, by the name a task asks for: "squad", "hotpot",
 * "essays", "english_words", "longbench", "longbench_v2", "scbench", "math500", "aime25",
 * "gsm8k". */
struct kva_task_data {
    const char *name, *path;
};

#define KVA_SEED_MAX (INT64_MAX / 2)

struct kva_task_opts {
    uint64_t seed;        /* 0..KVA_SEED_MAX */
    const char *dialect;  /* NULL: "kva1"; "r2024", "r2025" (suite ruler) */
    const char *profile;  /* NULL: the task's own, see kva_task_info.profile */
    const char *haystack; /* NULL: the task's own; "emerson", "embedded", "noise",
                           * "essays" (the user's data `essays`) */
    const struct kva_task_data *data; /* relative paths are relative to base_dir; what is
                                       * not named is looked for in the cache */
    int n_data;
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
    /* Which published pipeline the prompt follows (charter decision 13): ruler, niah, mt:
     * "kvpress" (default), "official", "criticalkv"; longbench: "official", "kvpress",
     * "criticalkv"; math500 and its like: "boxed", "rkv", "plain"; jsonl: "own". */
    const char *profile;
    const char *dialect; /* "kva1", "r2024", "r2025"; NULL where there is no generator */
    /* Questions a context has: samples turns*i .. turns*i + turns-1 share one (10.3). */
    int turns;
    /* The questions follow each other in one cache: question t is fed behind question t-1
     * and its answer, the model's own, or with `golden` the reference. */
    bool conversation, golden;
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

/* The carried bytes of `file`, or those of data_dir/file (kept in *own, which the caller
 * releases). */
enum kva_status kva_carried_load(const char *data_dir, const char *file,
                                 struct kva_buf *own, const char **bytes, size_t *n,
                                 char sha256[65], struct kva_error *err);

#endif
