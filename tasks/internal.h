/* SPDX-License-Identifier: GPL-3.0-or-later */
/* internal.h - what the files of tasks/ share: data, word lists, drafts of a context, the
 * fit.
 *
 * A draft is a context under construction: the text together with the byte ranges of what
 * was planted and of the haystack's own units (sentences or lines). A generator fixes
 * every random draw of an item first and then writes drafts of any number of units, so
 * that the search for the length (fit.c) changes nothing else. */
#ifndef KVA_TASKS_INTERNAL_H
#define KVA_TASKS_INTERNAL_H

#include "tasks/task.h"

/* ---- data.c: files that the program carries ---- */

struct kva_carried {
    const char *file; /* its name in configs/data and in a data_dir */
    const char *sha256;
    const char *bytes;
    size_t n;
};
size_t kva_carried_count(void);
struct kva_carried kva_carried_file(size_t i);
/* Where a data set of the user is: opts->data by name (a file, or a directory that holds
 * `file`), else <cache>/data/NAME/FILE. KVA_EIO saying both ways when it is nowhere. */
enum kva_status kva_data_find(const struct kva_task_opts *opts, const char *name,
                              const char *file, struct kva_buf *path,
                              struct kva_error *err);

/* ---- words.c: adjectives and nouns ---- */

struct kva_words {
    char *text;        /* the list's bytes with NULs */
    const char **word; /* distinct, stripped, sorted by byte */
    size_t n;
    char sha256[65]; /* of the file, or of several behind each other */
};
struct kva_lexicon {
    const char *version; /* "2.2.0", "3.0.0" */
    struct kva_words adjectives, nouns;
};
enum kva_status kva_lexicon_open(struct kva_lexicon *lex, const char *version,
                                 const char *data_dir, struct kva_error *err);
void kva_lexicon_release(struct kva_lexicon *lex);
/* The words of cwe: nouns, adjectives and verbs in one list. */
enum kva_status kva_vocabulary_open(struct kva_words *w, const char *version,
                                    const char *data_dir, struct kva_error *err);
void kva_words_release(struct kva_words *w);

/* ---- split.c: sentences ---- */

struct kva_slice {
    size_t b0, b1; /* bytes, half-open */
};
/* Runs of white space become one blank, none at the ends. */
void kva_squeeze(const char *text, size_t n, struct kva_buf *out);
/* Splitter `simple-v1`; the text has single blanks. *out is the caller's, free(). */
enum kva_status kva_split_sentences(const char *text, size_t n, struct kva_slice **out,
                                    size_t *count, struct kva_error *err);

/* A haystack of sentences. */
struct kva_essay {
    struct kva_buf text;
    struct kva_slice *sentence;
    size_t n;
    bool repeats; /* a short text that may be repeated */
    char sha256[65];
};
/* "emerson", "embedded", or "essays": the user's file, plain text or {"text": "..."}. */
enum kva_status kva_essay_open(struct kva_essay *essay, const char *haystack,
                               const struct kva_task_opts *opts, struct kva_error *err);
void kva_essay_release(struct kva_essay *essay);
/* Its text as it is in the file; *bytes may point into *own (the caller's). */
enum kva_status kva_essay_load(const char *haystack, const struct kva_task_opts *opts,
                               struct kva_buf *own, const char **bytes, size_t *n,
                               char sha256[65], struct kva_error *err);
extern const char kva_embedded_essay[]; /* twelve sentences of our own */
extern const char kva_noise_line[];

/* ---- draft.c: a context under construction ---- */

/* What is planted: a needle or a statement. Offsets are relative to `text`. */
struct kva_plant {
    const char *text;
    struct kva_slice value, key; /* payload; empty (b0 == b1) when there is none */
    bool queried;
    const char *role; /* "needle", "link" */
    double u;         /* place in [0, 1) */
    size_t place;     /* unit it stands before; set by kva_draft_place */
};
/* One entry of a list of words (cwe, fwe): "37. twine". */
struct kva_entry {
    struct kva_slice at, word; /* bytes in the context: the whole entry, the word in it */
    int answer;                /* number of the answer word it carries, or -1 */
    size_t number; /* of its word, in the order in which words are drawn: for the fit */
};
struct kva_draft {
    struct kva_buf text;
    struct kva_slice hay;   /* from the first to the last byte of haystack and plants */
    struct kva_slice *unit; /* haystack units in the context */
    struct kva_slice *planted; /* one for each plant, in the plants' order */
    size_t n_units, cap_units, n_planted, cap_planted;
    struct kva_entry *entry; /* cwe, fwe: evidence in many places */
    size_t n_entries, cap_entries;
    struct kva_slice *keep_out; /* parts of the haystack no distractor may touch (the gold
                                 * document beside its evidence); ascending, disjoint */
    size_t n_keep_out, cap_keep_out;
    struct kva_slice *step; /* what one more unit of the fit adds, where that is not
                             * `unit` (a document beside its sentences); else none */
    size_t n_steps, cap_steps;
    struct kva_slice
        example; /* the worked example in the context (span X0); empty: none */
    /* byte ranges of the text's tokens where the fit has left them; NULL: not known */
    int32_t *begin, *end;
    size_t n_tokens;
    struct kva_arena ranges; /* their memory */
};
void kva_draft_init(struct kva_draft *d);
void kva_draft_release(struct kva_draft *d);
void kva_draft_clear(struct kva_draft *d); /* keeps the memory */
/* Appends text and says where it stands. The buffer's status is checked once at the end.
 */
struct kva_slice kva_draft_add(struct kva_draft *d, const char *text, size_t n);
enum kva_status kva_draft_add_unit(struct kva_draft *d, struct kva_slice at,
                                   struct kva_error *err);
enum kva_status kva_draft_add_planted(struct kva_draft *d, struct kva_slice at,
                                      struct kva_error *err);
enum kva_status kva_draft_add_keep_out(struct kva_draft *d, struct kva_slice at,
                                       struct kva_error *err);
enum kva_status kva_draft_add_step(struct kva_draft *d, struct kva_slice at,
                                   struct kva_error *err);
/* Entries are added in the order of the list. */
enum kva_status kva_draft_add_entry(struct kva_draft *d, const struct kva_entry *entry,
                                    struct kva_error *err);

/* unit(ctx, i) is the i-th haystack unit. */
struct kva_units {
    void (*unit)(const void *ctx, size_t i, const char **text, size_t *n);
    const void *ctx;
};
/* Appends n units with the plants (ascending by place) put before their unit. Sentences:
 * pieces are joined by single blanks; keep_empty joins empty pieces too, as RULER's
 * official generator does (a blank at the ends, double blanks between). Lines: joined by
 * line feeds. */
enum kva_status kva_draft_place(struct kva_draft *d, const struct kva_units *units,
                                size_t n, const struct kva_plant *plants, size_t n_plants,
                                bool lines, bool keep_empty, struct kva_error *err);
/* The plants' places for n units from their u, then sorted by u: sentences floor(u n),
 * lines floor(u (n + 1)). */
void kva_plants_arrange(struct kva_plant *plants, size_t n_plants, size_t n, bool lines);

/* ---- fit.c: the largest haystack that fits ---- */

struct kva_fit {
    const char *task, *question, *answer_prefix;
    const struct kva_feed *feed; /* NULL: the model's template */
    int limit, max_new_tokens;   /* tokens */
    size_t n_max;                /* units; at least 1 */
    /* Writes the whole context with n >= 1 units into d (cleared before). The more units
     * the more tokens. */
    enum kva_status (*build)(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err);
    /* Lists of words: how many entries word `number` has in a list of n units. NULL:
     * unit i (d->step or d->unit) is there when i < n. */
    size_t (*repeats)(const void *ctx, size_t n, size_t number);
    void *ctx;
    /* out */
    size_t n_units, n_context, n_question;
    int n_counts;   /* calls of the tokenizer */
    size_t n_bytes; /* of contexts it was given */
};
/* The draft comes back with the ranges of its tokens. KVA_EINVALID when one unit is too
 * much. */
enum kva_status kva_fit_draft(struct kva_fit *fit, const struct kva_tok_api *tok,
                              struct kva_draft *d, struct kva_error *err);

/* ---- spans.c: evidence and matched distractors ---- */

struct kva_span_job {
    const struct kva_draft *draft;
    const struct kva_plant *plants;
    size_t n_plants;
    const char *const *forbidden; /* keys, values, answers */
    size_t n_forbidden;
    bool whole_units; /* needle haystack: D is one or more whole lines, numbers and uuids
                       * in them allowed */
    const char *stream;            /* "kvaudit-D|<dialect>|<task>|<L>|<seed>|<idx>" */
    int guard, tau, n_distractors; /* 32, 1, 4 */
};
enum { KVA_SPAN_GUARD = 32, KVA_SPAN_TAU = 1, KVA_SPAN_DISTRACTORS = 4 };
/* E, P, K and D spans over a context whose tokens have the byte ranges begin/end: of the
 * plants, of the draft's entries that carry an answer, and X0 of its worked example. */
enum kva_status kva_spans_make(const struct kva_span_job *job, const int32_t *begin,
                               const int32_t *end, size_t n_tokens,
                               struct kva_arena *arena, struct kva_span **spans,
                               int *n_spans, struct kva_error *err);
/* entries.c: appends E<a>.<k>, P<a>.<k> and, where one is left, D<a>.<k> for the k-th
 * entry of answer word a. out has room for three spans an entry. */
enum kva_status kva_entries_spans(const struct kva_draft *d, const int32_t *begin,
                                  const int32_t *end, size_t n_tokens,
                                  struct kva_span *out, int *n_spans,
                                  struct kva_error *err);
/* Sets t0, t1, depth and bucket from b0 and b1: every token that overlaps the span. */
void kva_span_locate(struct kva_span *span, const int32_t *begin, const int32_t *end,
                     size_t n_tokens);

/* ---- families ---- */

enum { KVA_TASK_PARAMS_MAX = 16, KVA_KEYS_MAX = 64, KVA_PLANTS_MAX = 128 };

struct kva_task_param {
    char *key, *value;
};
/* A parsed task text and what the caller asked for. */
struct kva_task_request {
    const struct kva_task_desc *desc;
    const char *text; /* as given, for messages */
    struct kva_task_param param[KVA_TASK_PARAMS_MAX];
    int n_params;
    const char *path; /* jsonl */
    int limit;        /* L */
    const struct kva_task_opts *opts;
};

struct kva_family {
    enum kva_status (*open)(struct kva_task *task, const struct kva_task_request *req,
                            struct kva_error *err);
    void (*close)(void *state);
    enum kva_status (*item)(const struct kva_task *task, int idx,
                            const struct kva_tok_api *tok, struct kva_arena *arena,
                            struct kva_item *item, struct kva_error *err);
    /* Adds the family's keys to the object of kva_task_gen_json / kva_task_source_json
     * (json_t *). */
    int (*describe)(const struct kva_task *task, void *gen, void *source);
};
extern const struct kva_family kva_family_niah, kva_family_vt, kva_family_jsonl;
extern const struct kva_family kva_family_cwe, kva_family_fwe, kva_family_qa,
    kva_family_qa_synth;
extern const struct kva_family kva_family_official; /* dialects r2024, r2025 of ruler */
extern const struct kva_family kva_family_grid, kva_family_mt_needles, kva_family_mt_kv,
    kva_family_mt_find, kva_family_mt_many_shot, kva_family_mt_vt, kva_family_scbench;
extern const struct kva_family kva_family_longbench, kva_family_longbench_v2,
    kva_family_math;

struct kva_task {
    const struct kva_task_desc *desc;
    const struct kva_family *family;
    struct kva_task_info info;
    char *name;  /* info.name */
    char *label; /* suite/name, for messages */
    char *
        stream_name; /* of the random streams: the name without a RULER task's haystack */
    uint64_t seed;
    const char *haystack, *splitter, *words; /* for the record; NULL: none */
    const char *layout; /* where question and prefix are cut: "kvpress",
                         * "official"; NULL: not generated (kva_task_use_layout) */
    void *state;
};

/* Random stream of an item: FNV-1a of "kva1|<task>|<L>|<seed>|<idx><suffix>". */
struct kva_rng kva_task_stream(const struct kva_task *task, int idx, const char *suffix);
/* Fisher-Yates from the end, with kva_rng_below. */
void kva_task_shuffle(struct kva_rng *rng, uint32_t *x, size_t n);
/* A draw as in kva_rng_below, but the only choice costs no draw. */
uint64_t kva_task_choose(struct kva_rng *rng, uint64_t n);
/* Sets task->name and task->stream_name (copied). */
enum kva_status kva_task_set_names(struct kva_task *task, const char *name,
                                   const char *stream_name, struct kva_error *err);
/* A parameter that is 0 or 1. */
enum kva_status kva_task_flag(const struct kva_task_request *req,
                              const struct kva_task_param *param, bool *out,
                              struct kva_error *err);
/* Second metric of the tasks that are scored by match_all: word_match. */
extern const char *const kva_task_word_match[];
/* Sets task->layout from the profile and info.dialect to `dialect`. */
void kva_task_use_layout(struct kva_task *task, const char *dialect);
/* Turns question "...? " and prefix "The ..." (as kvpress cuts them) into the task's
 * layout: officially the blank belongs to the prefix, and without a chat template nothing
 * stands between the two. */
enum kva_status kva_task_lay_out(const struct kva_task *task, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err);
/* " a, b": what gold_nll measures (ruling R31). From the arena. */
const char *kva_task_gold(struct kva_arena *arena, const char *answer_prefix,
                          const char *const *answers, int n, const char *joint);
/* Fits, tokenizes, makes the spans and fills context, counts, spans, depth and fill of an
 * item whose question, prefix, answers and max_new_tokens are set. */
enum kva_status kva_task_finish(const struct kva_task *task,
                                const struct kva_tok_api *tok, struct kva_fit *fit,
                                struct kva_draft *d, struct kva_span_job *job,
                                struct kva_arena *arena, struct kva_item *item,
                                struct kva_error *err);
enum kva_status kva_task_bad_param(const struct kva_task_request *req, const char *key,
                                   const char *const *known, struct kva_error *err);

/* A value of Jansson (json_t) as text, appended; check the buffer's status. json_dumps()
 * is not used: where memory ends while it writes, it leaves out a key and succeeds. */
void kva_task_dump(const void *json, size_t flags, struct kva_buf *out);

/* One niah item on fixed units: the worked examples name no length (niah.c). */
enum kva_status kva_niah_item_fixed(const struct kva_task *task, int idx, size_t n_units,
                                    int guard, const struct kva_tok_api *tok,
                                    struct kva_arena *arena, struct kva_item *item,
                                    struct kva_error *err);

#endif
