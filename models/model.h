/* SPDX-License-Identifier: GPL-3.0-or-later */
/* model.h - model files, tokenizers, prompts, and the engine that steps sessions.
 *
 * A model is read-only after opening and may be shared by forked workers. A session is
 * one timeline: a KV store, the tokens seen, the last queries. The primitive is the step
 * over rows (ruling R4): rows of many sessions are stacked, linear layers run once over
 * all of them, and attention runs per session over its own pages. A row's result never
 * depends on the other rows.
 *
 * Everything a model needs is data in `struct kva_arch` (models.md 3.2); a new family is
 * one file arch_x.c and one line in archs.def. */
#ifndef KVA_MODEL_H
#define KVA_MODEL_H

#include "kernels/kernels.h"
#include "kernels/kvstore.h"
#include "methods/method.h"

/* ---- GGUF (gguf.c) ---- */

struct kva_gguf; /* a mapped, validated file (models.md 1.3) */
struct kva_gguf_tensor {
    const char *name;
    int n_dims;
    uint64_t ne[4]; /* fastest first; absent dimensions are 1 */
    enum kva_type type;
    uint64_t n_elements, n_bytes;
    const void *data; /* inside the mapping */
};
/* Maps and validates. KVA_EFORMAT messages name the file, the record and the reason. */
enum kva_status kva_gguf_open(const char *path, struct kva_gguf **g,
                              struct kva_error *err);
/* The same over bytes in memory (borrowed, must outlive g); `name` is for messages. */
enum kva_status kva_gguf_parse(const void *bytes, size_t n, const char *name,
                               struct kva_gguf **g, struct kva_error *err);
void kva_gguf_close(struct kva_gguf *g);
size_t kva_gguf_file_bytes(const struct kva_gguf *g);
int kva_gguf_tensors(const struct kva_gguf *g);
const struct kva_gguf_tensor *kva_gguf_tensor_at(const struct kva_gguf *g, int i);
const struct kva_gguf_tensor *kva_gguf_find(const struct kva_gguf *g, const char *name);
/* Metadata. Integer widths are converted; false when absent or of another kind. */
bool kva_gguf_has(const struct kva_gguf *g, const char *key);
bool kva_gguf_i64(const struct kva_gguf *g, const char *key, int64_t *out);
bool kva_gguf_f64(const struct kva_gguf *g, const char *key, double *out);
bool kva_gguf_bool(const struct kva_gguf *g, const char *key, bool *out);
bool kva_gguf_str(const struct kva_gguf *g, const char *key, const char **s, size_t *n);
/* Arrays: element count, or -1 when absent or not an array. */
int64_t kva_gguf_array_len(const struct kva_gguf *g, const char *key);
bool kva_gguf_array_str(const struct kva_gguf *g, const char *key, int64_t i,
                        const char **s, size_t *n); /* amortised O(1) for ascending i */
bool kva_gguf_array_i64(const struct kva_gguf *g, const char *key, int64_t i,
                        int64_t *out);
bool kva_gguf_array_f64(const struct kva_gguf *g, const char *key, int64_t i,
                        double *out);
/* Non-finite block scales anywhere: KVA_EFORMAT naming the tensor. Reads the whole file.
 */
enum kva_status kva_gguf_check_tensors(const struct kva_gguf *g, struct kva_error *err);

/* Writer: builds a version 3 file in memory (tests, tiny models). */
struct kva_gguf_writer;
enum kva_status kva_gguf_writer_new(struct kva_gguf_writer **w, struct kva_error *err);
void kva_gguf_writer_free(struct kva_gguf_writer *w);
void kva_gguf_put_u32(struct kva_gguf_writer *w, const char *key, uint32_t v);
void kva_gguf_put_i32(struct kva_gguf_writer *w, const char *key, int32_t v);
void kva_gguf_put_f32(struct kva_gguf_writer *w, const char *key, float v);
void kva_gguf_put_bool(struct kva_gguf_writer *w, const char *key, bool v);
void kva_gguf_put_str(struct kva_gguf_writer *w, const char *key, const char *s,
                      size_t n);
void kva_gguf_put_strs(struct kva_gguf_writer *w, const char *key, const char *const *s,
                       const size_t *len, size_t count);
void kva_gguf_put_i32s(struct kva_gguf_writer *w, const char *key, const int32_t *v,
                       size_t count);
void kva_gguf_put_tensor(struct kva_gguf_writer *w, const char *name, enum kva_type type,
                         const uint64_t *ne, int n_dims, const void *data);
enum kva_status kva_gguf_finish(struct kva_gguf_writer *w, struct kva_buf *out,
                                struct kva_error *err);

/* ---- tokenizers (tokenizer.c dispatches; tokenizer_bpe.c, tokenizer_word.c) ---- */

/* Tokens of a text with the byte range each covers, so that spans can be mapped
 * (tasks-ruler 8.3). */
struct kva_tokens {
    int32_t *id;
    uint32_t *begin, *end; /* byte range in the encoded text */
    size_t n, cap;
};
void kva_tokens_release(struct kva_tokens *t);

struct kva_tokenizer;
/* Byte-level BPE from a GGUF vocabulary (models.md 6.1-6.3, 6.5). The file may be closed
 * after. */
enum kva_status kva_tokenizer_from_gguf(const struct kva_gguf *g,
                                        struct kva_tokenizer **t, struct kva_error *err);
/* retrieval-model.md 2: word level, with the map word <-> id of one unit inside. */
enum kva_status kva_tokenizer_word_new(struct kva_tokenizer **t, struct kva_error *err);
/* Own copy of the state (word map): each question is encoded on a copy
 * (retrieval-model 2.5). A tokenizer without state returns a handle that shares the
 * vocabulary. */
enum kva_status kva_tokenizer_clone(const struct kva_tokenizer *t,
                                    struct kva_tokenizer **copy, struct kva_error *err);
void kva_tokenizer_free(struct kva_tokenizer *t);
/* Appends to `out` (ranges relative to this text). parse_special: control tokens inside
 * the text are recognised (user-defined ones always are). No BOS is added. Invalid UTF-8
 * is replaced and counted by the caller beforehand (kva_utf8_clean). */
enum kva_status kva_tokenizer_encode(struct kva_tokenizer *t, const char *text, size_t n,
                                     bool parse_special, struct kva_tokens *out,
                                     struct kva_error *err);
/* Token count without touching the state. */
enum kva_status kva_tokenizer_count(const struct kva_tokenizer *t, const char *text,
                                    size_t n, size_t *count, struct kva_error *err);
/* Bytes of the ids, control tokens left out, invalid sequences replaced by U+FFFD. */
enum kva_status kva_tokenizer_decode(const struct kva_tokenizer *t, const int32_t *ids,
                                     size_t n, struct kva_buf *out,
                                     struct kva_error *err);
int kva_tokenizer_size(const struct kva_tokenizer *t);
int32_t kva_tokenizer_bos(const struct kva_tokenizer *t); /* -1: none */
bool kva_tokenizer_add_bos(const struct kva_tokenizer *t);
bool kva_tokenizer_is_eog(const struct kva_tokenizer *t,
                          int32_t id); /* ends a generation */
void kva_tokenizer_sha256(const struct kva_tokenizer *t, uint8_t out[32]);
/* Words that had to share an id (word tokenizer), 0 elsewhere. */
uint64_t kva_tokenizer_shared(const struct kva_tokenizer *t);

/* ---- chat templates and the context/question split (chat.c; models.md 7) ---- */

struct kva_chat {
    const char *family; /* "smollm2", "llama3", "none", ... */
    const char *prefix, *suffix;
    bool trim;        /* left-trim the context */
    const char *turn; /* from the end of an answer to the user's next question */
};
const struct kva_chat *kva_chat_by_name(const char *family); /* NULL: unknown */
/* By markers of the file's template text; "none" with a warning when nothing matches. */
const struct kva_chat *kva_chat_detect(const char *template_text, size_t n,
                                       const char *arch);
const char *const *kva_chat_names(void); /* NULL-terminated */

/* ---- model ---- */

struct kva_model_info {
    char name[128], arch[32], wtype[24]; /* wtype: the type that holds most elements */
    int layers, dim, heads, kv_heads, head_dim, v_dim, ffn, vocab;
    int ctx_train;
    uint64_t file_bytes, weight_bytes, params;
    uint8_t sha256[32]; /* of the file bytes; of the recipe for builtin models */
    uint8_t template_sha256[32];
};

struct kva_model;

struct kva_model_opts {
    const char *backend;  /* of kva_ops_open; NULL: "cpu" */
    const char *numerics; /* "f32" */
    int threads;          /* inside one step; 0 = 1 */
    const char *chat;     /* family, or NULL: detect */
    bool check_tensors;
};
/* `path`: a GGUF file, or "builtin:retrieval", "builtin:tiny-llama" (models.md 9.2). */
enum kva_status kva_model_open(const char *path, const struct kva_model_opts *opts,
                               struct kva_model **m, struct kva_error *err);
void kva_model_close(struct kva_model *m);
const struct kva_model_info *kva_model_info(const struct kva_model *m);
struct kva_ops *kva_model_ops(const struct kva_model *m);
const struct kva_tokenizer *
kva_model_tokenizer(const struct kva_model *m); /* pristine state */
const struct kva_chat *kva_model_chat(const struct kva_model *m);
float kva_model_score_scale(const struct kva_model *m);
/* Largest soft-cap of attention logits over the layers; 0: no layer has one. */
float kva_model_attn_softcap(const struct kva_model *m);
/* The SHA-256 of the file is computed at the first call (98 MB: 0.3 s), then remembered.
 */
enum kva_status kva_model_sha256(struct kva_model *m, uint8_t out[32],
                                 struct kva_error *err);

/* ---- prompts (prompt.c) ---- */

/* One context and its questions as token ids. The tokenizer handle carries the unit's
 * word map. */
struct kva_prompt {
    struct kva_tokens
        context; /* chat prefix (or BOS) + context; ranges relative to context_text */
    char *context_text; /* the encoded text; the task's context starts at context_at */
    size_t context_len, context_at,
        context_trimmed;       /* bytes of the task's context trimmed left */
    struct kva_tokenizer *tok; /* state after the context */
};
struct kva_question {
    struct kva_tokens
        ids;       /* question + template suffix + answer prefix, encoded together */
    int n_visible; /* how many of them cover the question text (visibility aware) */
    struct kva_tokenizer *tok; /* state after the question: decodes the answer */
};
/* feed NULL: the model's template. context NULL: chat prefix only (blind runs). */
enum kva_status kva_prompt_context(const struct kva_model *m, const struct kva_feed *feed,
                                   const char *context, size_t n, struct kva_prompt *p,
                                   struct kva_error *err);
enum kva_status kva_prompt_question(const struct kva_model *m,
                                    const struct kva_feed *feed,
                                    const struct kva_prompt *p, const char *question,
                                    const char *answer_prefix, struct kva_question *q,
                                    struct kva_error *err);
/* The next question of a conversation: stands behind the answer to `before`, whose last
 * token ends it (an end token of the model is fed as part of the template, never as part
 * of the answer). n_visible counts up to the end of the question text. */
enum kva_status kva_prompt_next(const struct kva_model *m, const struct kva_feed *feed,
                                const struct kva_question *before, const char *question,
                                const char *answer_prefix, struct kva_question *q,
                                struct kva_error *err);
/* Tokens [*t0, *t1) of the fed context that overlap bytes [b0, b1) of the task's context.
 */
void kva_prompt_span(const struct kva_prompt *p, size_t b0, size_t b1, int *t0, int *t1);
void kva_prompt_release(struct kva_prompt *p);
void kva_question_release(struct kva_question *q);

/* ---- sessions and steps (engine.c) ---- */

struct kva_session_opts {
    enum kva_type
        kv; /* KVA_F16; KVA_F32 with the key kv=f32 and always in numerics ref */
    enum kva_kv_mode mode;
    size_t page_cap;
    int q_window; /* last queries kept per layer for scorers; 0: none */
    const struct kva_collect *collect; /* [n_collect] distinct sums to be kept up */
    int n_collect;
};
struct kva_session;
enum kva_status kva_session_new(struct kva_model *m, const struct kva_session_opts *opts,
                                struct kva_session **s, struct kva_error *err);
/* A session with its own copy of what stays; tokens seen and the query window are copied.
 */
enum kva_status kva_session_fork(const struct kva_session *src,
                                 const struct kva_keep *keep,
                                 const struct kva_session_opts *opts,
                                 struct kva_session **dst, struct kva_error *err);
/* A second session like src, to go on from here by itself. */
enum kva_status kva_session_copy(const struct kva_session *src, struct kva_session **dst,
                                 struct kva_error *err);
void kva_session_free(struct kva_session *s);
struct kva_kvstore *kva_session_store(struct kva_session *s);
int32_t
kva_session_seen(const struct kva_session *s); /* tokens processed = next position */
/* Back to `seen` tokens: entries and queries at later positions go. KVA_EINVALID when
 * sums over the prompt hold later queries for good (a full tile, a decision). */
enum kva_status kva_session_rewind(struct kva_session *s, int32_t seen,
                                   struct kva_error *err);
/* Evicts in the store and in whatever follows its entries: use these, not the store's
 * own.
 */
enum kva_status kva_session_keep(struct kva_session *s, const struct kva_keep *keep,
                                 struct kva_error *err);
enum kva_status kva_session_replace(struct kva_session *s, const struct kva_keep *victims,
                                    struct kva_error *err);
/* Moves every entry to its rank: keys are turned to the new positions 0, 1, 2, ..., and
 * the next token stands behind the longest KV head, whatever was seen (methods.md 8.5).
 * The query window turns along. To be called after an eviction by a method that rotates
 * (kva_method_rotates). KVA_EINVALID in mask mode. A cache of f16 rounds each key anew.
 */
enum kva_status kva_session_rerotate(struct kva_session *s, struct kva_error *err);
/* Rows fed from now on count (true, the default) or do not (gold rows) in the sums. */
void kva_session_collecting(struct kva_session *s, bool on);
/* Bytes of the sums (part of the cell's meta bytes where they are kept between steps). */
uint64_t kva_session_collect_bytes(const struct kva_session *s);
/* Of one of them; 0 when the session does not collect it. */
uint64_t kva_session_want_bytes(const struct kva_session *s,
                                const struct kva_collect *want);
/* Sets collected sums of one KV head, rank order (replayed scores). KVA_EINVALID when the
 * session does not collect `want`. */
enum kva_status kva_session_collect_set(struct kva_session *s,
                                        const struct kva_collect *want, int layer,
                                        int head, const float *sum,
                                        struct kva_error *err);
/* Equal wants are collected once. */
bool kva_collect_same(const struct kva_collect *a, const struct kva_collect *b);
/* Query-window bytes (part of the cell's meta bytes when the schedule needs them). */
uint64_t kva_session_window_bytes(const struct kva_session *s);
/* Fills the model's half of a decision for this session. */
void kva_session_decide_in(struct kva_session *s, struct kva_decide_in *in);
/* A failure inside a step belongs to the session, not to the wave: KVA_OK or what went
 * wrong. */
const struct kva_error *kva_session_error(const struct kva_session *s);

/* How an answer is drawn, see kva_ops.draw; temperature 0: the largest logit is taken. */
struct kva_sampling {
    double temperature, top_p;
    int top_k;
};
struct kva_row {
    struct kva_session *session;
    int32_t token;
    bool logits;
    int32_t target; /* with logits: the id whose nll is wanted, or -1 */
    /* results, when `logits` */
    int32_t argmax;
    double nll;
    bool finite;
    /* with logits: ids that neither argmax nor a draw may be (answers that must not end
     * at once) */
    const int32_t *forbid;
    int n_forbid;
    /* with logits; NULL: nothing is drawn. Else `drawn` is the id at u, and -1 where the
     * row failed. */
    const struct kva_sampling *sampling;
    double u;
    int32_t drawn;
    float *keep_logits; /* [vocab]: receives them, what is forbidden at -inf; or NULL */
};
/* One step: each row is the next token of its session (rows of one session stand
 * together, in order; positions are assigned). A session that fails (cap, non-finite) is
 * marked; its rows get no results and the others are untouched. Fails as a whole only on
 * misuse or out of memory. raw_logits, when not NULL, receives [number of rows with
 * logits][vocab]. */
enum kva_status kva_step(struct kva_model *m, struct kva_row *rows, int n,
                         float *raw_logits, struct kva_error *err);

/* The same, layer by layer (layer-major schedules, replay): begin embeds and takes the
 * rows, each `layer` call runs one layer, `end` runs the head and fills the rows. */
struct kva_step_state;
enum kva_status kva_step_begin(struct kva_model *m, struct kva_row *rows, int n,
                               struct kva_step_state **st, struct kva_error *err);
enum kva_status kva_step_layer(struct kva_step_state *st, int layer,
                               struct kva_error *err);
enum kva_status kva_step_end(struct kva_step_state *st, float *raw_logits,
                             struct kva_error *err);
/* Gives up a step between begin and end; the sessions are as before it, their overwritten
 * queries apart. One step of a model can be in flight. */
void kva_step_cancel(struct kva_step_state *st);

/* Feeds n tokens in chunks of at most `chunk` rows (0: as the backend likes); `last`,
 * when not NULL, receives the result of the last token (no nll). The chunk length changes
 * no bit. A failure of the session is returned, too. */
enum kva_status kva_prefill(struct kva_model *m, struct kva_session *s,
                            const int32_t *ids, int n, int chunk, struct kva_row *last,
                            struct kva_error *err);
#define KVA_CHUNK 256
/* Largest activation scratch of the model so far, bytes. */
uint64_t kva_model_scratch_bytes(const struct kva_model *m);

#endif
