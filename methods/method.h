/* SPDX-License-Identifier: GPL-3.0-or-later */
/* method.h - what to keep, and where: scorers, wrappers, allocators, budgets, selection.
 *
 * Three axes, three descriptors (style.md 6). A *scorer* ranks the entries of each KV
 * head: higher = keep. A *wrapper* changes those scores, or how the entries of a KV head
 * are picked from them. An *allocator* divides a total over layers and KV heads. Any
 * scorer runs under any wrapper and any allocator unless `kva_method_parse` refuses the
 * combination with a reason. A method sees tensors and never a model; it answers which
 * entries stay, as a `struct kva_keep`, and moves nothing.
 *
 * A method is written `scorer[:k=v,...][+wrapper[:k=v,...]][+allocator[:k=v,...]]`, the
 * parts behind the scorer in any order; allocator default `uniform`. The canonical spec
 * spells every parameter, sorted, in the schedule's defaults, and is what is stored.
 *
 * What a scorer reads beyond keys, values and the last queries is *collected* while the
 * prompt is processed (struct kva_collect), once for all live methods, or *lent* by the
 * model (struct kva_lend).
 *
 * Adding one: a file score_x.c, wrap_x.c or alloc_x.c ending in one const descriptor, one
 * line in methods.def, a test tests/methods/test_score_x.c (wrap, alloc). */
#ifndef KVA_METHOD_H
#define KVA_METHOD_H

#include "kernels/kernels.h"
#include "kernels/kvstore.h"

#define KVA_MAX_PARAMS 12

/* What a scorer reads; the union over all live methods is collected once, in the prefill
 * (R5). */
enum kva_needs {
    KVA_NEEDS_KEYS = 1u << 0,   /* view->k */
    KVA_NEEDS_VALUES = 1u << 1, /* view->v */
    /* view->q: the last `window` queries, post-RoPE, in the backend's memory: functions
     * of view->ops may follow it; a method that reads a few itself asks kva_room_queries.
     */
    KVA_NEEDS_QUERIES = 1u << 2,
    KVA_NEEDS_RAW_KEYS = 1u << 3, /* view->k_raw: keys rotated back, after QK-norm */
    KVA_NEEDS_LEND = 1u << 4,     /* view->lend: projections and rotations of the model */
    /* The rows of k, v, k_raw and q are read by the method itself. Without it they lie in
     * the backend's memory: only functions of view->ops and view->lend may follow them.
     */
    KVA_NEEDS_HOST = 1u << 5,
};

/* Sums over the prompt that cannot be had afterwards. A scorer names at most one; equal
 * wants of different methods are collected once. Sums follow their entries through
 * evictions and are counted as metadata where they are kept between steps. */
enum kva_collect_kind {
    KVA_COLLECT_NONE,
    /* side[j] = sum over all queries so far and over the group's query heads of the
     * attention weight of entry j, one query after the other. `restart`: begins anew
     * after every decision. */
    KVA_COLLECT_COLUMNS,
    /* side[j] = mean over the group of the sum over the queries i of j's chunk of
     * softmax_j(q_i . k_j), keys of the chunk only, later ones included, no scale.
     * Chunks of `chunk` tokens from position `start`, begun anew after a decision; 0
     * outside. `pad`: a chunk that stays short is filled up with zero keys and zero
     * queries, as kvpress does. */
    KVA_COLLECT_CHUNKS,
    /* view->q_stats: mean and covariance of the pre-RoPE queries of every query head over
     * the tokens from position `start` on. */
    KVA_COLLECT_QUERIES,
    /* side[j] = largest weight any query of a replayed prompt gives entry j (KVzip);
     * chunks of `chunk` tokens, the first `start` entries always visible; `plus`: rows
     * divided by the norm of the attention input, entries times the norm of W_O v. -1 for
     * entries in no chunk (chat prefix). Filled by kva_replay (models/replay.h). */
    KVA_COLLECT_REPLAY,
};
struct kva_collect {
    enum kva_collect_kind kind;
    int chunk, start;
    bool restart, plus, pad;
};

/* FILE: a path, relative to the suite; the value is unused, see kva_method_bind. */
enum kva_param_type { KVA_PARAM_INT, KVA_PARAM_REAL, KVA_PARAM_CHOICE, KVA_PARAM_FILE };

struct kva_param {
    const char *name, *help;
    enum kva_param_type type;
    double def;       /* CHOICE: index into choices */
    double def_block; /* default under a block schedule; equal to def unless the method
                         says so */
    double min, max;
    const char *const *choices; /* NULL-terminated; CHOICE only */
    bool odd;                   /* INT: even values are refused */
};
/* Generic protection, read by the selection core under these names (methods.md 3.2, 15).
 */
#define KVA_PARAM_RECENT                                                                 \
    {                                                                                    \
        .name = "recent", .help = "newest entries that always stay",                     \
        .type = KVA_PARAM_INT, .max = 1 << 20                                            \
    }
#define KVA_PARAM_SINKS(n)                                                               \
    {                                                                                    \
        .name = "sinks", .help = "first positions that always stay",                     \
        .type = KVA_PARAM_INT, .def = (n), .def_block = (n), .max = 1 << 20              \
    }

#define KVA_PARAM_RECENT_SHARE(x)                                                        \
    {                                                                                    \
        .name = "recent_share", .help = "share of the budget that goes to the newest",   \
        .type = KVA_PARAM_REAL, .def = (x), .def_block = (x), .max = 1                   \
    }

/* Parsed values, index = row of the descriptor's table. */
struct kva_params {
    double value[KVA_MAX_PARAMS];
};

/* LAYERWISE: one-shot, each layer cut as soon as it has read the prompt. CHUNKED: as
 * block, against the share of the tokens read so far (methods.md 4.3). */
enum kva_schedule_kind { KVA_ONESHOT, KVA_BLOCK, KVA_LAYERWISE, KVA_CHUNKED };

/* When entries are evicted (ruling R19). Text form "oneshot", "layerwise", "block:128",
 * "chunked:4096", each with an optional "+decode:1". */
struct kva_schedule {
    enum kva_schedule_kind kind;
    int block;  /* tokens of a block or chunk; 0 for oneshot and layerwise */
    int decode; /* evict whenever `decode` entries are above the budget; 0: never while
                   decoding */
};
enum kva_status kva_schedule_parse(const char *text, struct kva_schedule *s,
                                   struct kva_error *err);
void kva_schedule_text(const struct kva_schedule *s, char out[48]);

/* What the model lends a decision. All functions are pure and thread-safe. */
struct kva_lend {
    void *ctx;
    /* norm (1: L1, 2: L2) of W_O^a v_j for every query head a over the entries of its KV
     * head: out[a_off[a] + j]. W_O^a is the [dim][v_dim] slice of query head a. */
    enum kva_status (*project_norm)(void *ctx, int layer, const struct kva_rows *v,
                                    int norm, const size_t *a_off, float *out,
                                    struct kva_error *err);
    /* Means of the rotation, as the model scales it, over positions from .. from + count
     * - 1, pairs (m, m + half): c[half], s[half]; returns half (rotated dimensions / 2).
     */
    int (*rope_mean)(void *ctx, int layer, int32_t from, int count, double *c, double *s);
    /* Rotates row j (dim floats, head h of `rows`) by delta[off[h] + j] positions. */
    void (*rotate)(void *ctx, int layer, struct kva_rows *rows, const int32_t *delta);
};
struct kva_query_stats {
    const double *mean; /* [heads][head_dim] */
    const double *cov;  /* [heads][head_dim][head_dim], divided by n */
    int64_t n;
};

/* One layer as a scorer sees it, at the moment of decision: live entries only, in
 * ascending position order, the same arrays in physical and in mask mode. */
struct kva_layer_view {
    struct kva_ops *ops;
    struct kva_arena *scratch; /* dies after the call; its peak is the scorer's scratch */
    struct kva_room *room;     /* the backend's memory (room.h); NULL: the host's */
    int layer, layers, kv_heads, heads, head_dim, v_dim;
    const struct kva_rows *k, *v; /* post-RoPE keys, values; NULL unless needed */
    const struct kva_rows *k_raw; /* NULL unless needed */
    const int32_t *pos;           /* ragged like k: pos[off[h] + j] */
    const size_t *off;            /* [kv_heads + 1] */
    const float *q;       /* [nq][heads][head_dim] the last nq queries of the session */
    const int32_t *q_pos; /* [nq] */
    int nq;               /* as many as the session has, at most the joined window */
    float scale;          /* the model's score scale */
    uint64_t seed;        /* suite seed */
    int block_len;        /* tokens of the block just processed; all tokens for oneshot */
    bool is_block;        /* block schedule (or decode-time decision) */
    int32_t seen;         /* tokens read so far: the next position */
    int question;      /* of the last queries, how many belong to the question (visibility
                          aware and full); 0: none was read */
    double keep;       /* budget over entries held; only for `budget_dependent` scorers */
    const float *side; /* what was collected, ragged like k; NULL: nothing */
    const struct kva_query_stats *q_stats; /* KVA_COLLECT_QUERIES */
    const struct kva_lend *lend;
    const struct kva_table *table; /* the method's file, NULL: none */
};

/* `storage` of a descriptor: what the *published code* of the method holds after it has
 * decided, as one of the words below, which say nothing about what is held here.
 *     uniform     the same number of entries in every KV head, the rest freed
 *     layer       the same in the KV heads of a layer
 *     ragged      as many as the KV head was given, the rest freed
 *     query head  one list per query head: group times the entries
 *     mask        everything; entries that left are masked in the attention
 *     ours        no published code
 * Several, when codes differ, are separated by "; ". `deviates` says where we differ from
 * a reference implementation and what that changes; NULL: nowhere known. */

/* Classes that outrank every score (methods.md 3.2): positions below `sinks`, and the
 * `recent` newest positions seen. A KV head that lost one of these positions earlier
 * protects the rest. */
struct kva_protect {
    int sinks, recent;
};

struct kva_scorer {
    const char *name, *summary /* at most 72 characters */, *source;
    const char *storage, *deviates; /* see above */
    unsigned needs;
    int version;
    bool nonneg;           /* scores are never negative */
    bool comparable;       /* one unit across KV heads: may be compared over layers */
    bool positional;       /* the same answer in every KV head: nothing to compare, always
                              uniform */
    bool question_aware;   /* reads the question: refused under visibility agnostic */
    bool budget_dependent; /* view->keep changes the scores: not shared over budgets */
    bool oneshot_only;     /* has no meaning under a block schedule */
    bool attention; /* scores are attention weights of the last queries (window method) */
    const char
        *table_kind; /* the file it reads, by a parameter of type FILE; NULL: none */
    const struct kva_param *params; /* ends with a NULL name; NULL: none */
    /* queries needed (0: none); NULL: 0 */
    int (*window)(const struct kva_params *);
    void (*collect)(const struct kva_params *, struct kva_collect *); /* NULL: nothing */
    /* 1: kept keys are rotated to contiguous positions (methods.md 8.5); NULL: 0 */
    bool (*rotates)(const struct kva_params *);
    /* May raise what the parameters `sinks` and `recent` have put there; NULL: these
     * alone. */
    void (*protect)(const struct kva_params *, const struct kva_layer_view *,
                    struct kva_protect *);
    /* s ragged like the view: s[off[h] + j]; higher stays. */
    enum kva_status (*score)(const struct kva_layer_view *, const struct kva_params *,
                             float *s, struct kva_error *err);
    /* `score` leaves s to functions of view->ops: it may lie in the backend's memory, and
     * the host waits once for all layers. */
    bool by_ops;
    /* What becomes of every number that it leaves; NULL: it stays. */
    float (*each)(float);
};
static inline float kva_negative(float x) /* an `each` */
{
    return -x;
}

/* A file of numbers a method reads: one row a KV head (filters, gates, profiles,
 * budgets).
 * {"schema": "kvaudit.table/1", "kind": "lukv", "model": SHA-256 of the model file,
 * "layers": L, "kv_heads": H, "columns": n, "data": [[...n numbers...], ... L*H rows]},
 * and "made": how it was made. */
struct kva_table {
    char kind[24], sha256[65]; /* of the file */
    int layers, kv_heads, columns;
    double *data; /* [layers * kv_heads][columns] */
};

/* Scores of a whole model for one scorer: kvhead c = layer*kv_heads + head has n_c
 * entries at off[c]. Shared by every allocator and budget that may. */
struct kva_scores {
    struct kva_ops *ops; /* that ranks them; NULL: the host */
    int layer0, layer1;  /* as in kva_decide_in: what is decided; 0, 0: all */
    int layers, kv_heads;
    size_t *off;  /* [C + 1] */
    float *s;     /* higher stays; what is not finite has become -inf and is counted */
    int32_t *pos; /* positions, ascending within a kvhead */
    struct kva_protect protect;
    /* parameter recent_share: this part of a KV head's nominal budget share[c] goes to
     * its newest entries, or `recent` when that is more. share is set while a selection
     * runs, NULL before the budget is known: then `recent` alone. */
    double recent_share;
    const int *share;
    uint64_t nonfinite;
    int32_t seen;
    int32_t prompt; /* tokens the last prefill decision will have read; 0: not known */
    /* of the wrapper: `wide` numbers an entry, wide * off[c] and so on; NULL: none */
    float *aux;
    int wide;
};
void kva_scores_release(struct kva_scores *sc);

/* What one KV head is picked from: n entries with scores, the first `lead` and last
 * `tail` protected, b to stay (lead + tail <= b < n). */
struct kva_pick {
    const float *s, *aux; /* aux: [n][wide] */
    const int32_t *pos;
    int n, lead, tail, b, wide;
    /* To be written by a wrapper that picks in two stages: the share of the scores of
     * what is not protected that its first stage holds. */
    double *first;
};

struct kva_allocator;
struct kva_wrapper {
    const char *name, *summary, *source, *storage, *deviates;
    unsigned needs;
    int version;
    bool nonneg, comparable; /* of the scores it leaves */
    bool keeps_unit;         /* scores stay those of the scorer */
    bool same_positions;     /* picks the same positions in all heads of a layer */
    const struct kva_param *params;
    int (*window)(const struct kva_params *);
    /* Why it has no meaning with these, or NULL. */
    const char *(*refuse)(const struct kva_scorer *, const struct kva_allocator *);
    /* Numbers an entry that `pick` wants; NULL: 0. */
    int (*wide)(const struct kva_params *, const struct kva_layer_view *);
    /* base: the scorer's scores of the layer; s: holds base, may be changed; aux:
     * [n][wide] of the layer, to be filled. Before any allocation, independent of the
     * budget. NULL: nothing to do. */
    enum kva_status (*rescore)(const struct kva_layer_view *, const struct kva_params *,
                               const float *base, float *s, float *aux,
                               struct kva_error *err);
    /* Before the allocation of a known budget: s (all KV heads, ragged as sc) may be
     * changed; share[c] is the nominal budget of kvhead c. NULL: nothing to do. */
    enum kva_status (*promote)(const struct kva_params *, const struct kva_scores *sc,
                               const int *share, float *s, struct kva_error *err);
    /* Ranks that stay, ascending, to rank[b], protected ones included. NULL: the best b.
     */
    enum kva_status (*pick)(const struct kva_params *, const struct kva_pick *,
                            int32_t *rank, struct kva_error *err);
    /* The same for a whole layer at once (same_positions); rank[h][b]. NULL: per head. */
    enum kva_status (*pick_layer)(const struct kva_params *, const struct kva_pick *pick,
                                  int kv_heads, int32_t *const *rank,
                                  struct kva_error *err);
    /* Published forms that miss their budget: what the KV heads of a layer really keep,
     * b[kv_heads], between lead + tail and n. NULL: the budget, exactly. */
    enum kva_status (*resize)(const struct kva_params *, const struct kva_pick *pick,
                              int kv_heads, int *b, struct kva_error *err);
};

struct kva_alloc_in {
    const struct kva_scores *scores;
    const int *base;         /* [C] the uniform share of each kvhead, sums to total */
    uint64_t total;          /* entries over all kvheads, never above the sum of n */
    const double *seen_stat; /* [layers][n_stat] of `observe`; NULL: none */
    const struct kva_table *table; /* the method's file; NULL: none */
    bool *fallback; /* to be set: the form of the allocator does not fit this budget, the
                       shares are uniform (pyramid_fallback, floor_cut) */
};

struct kva_allocator {
    const char *name, *summary, *source, *storage, *deviates;
    int version;
    bool even; /* KV heads of a layer get the same, but for a remainder of one */
    bool compares_heads;  /* positional scorers are refused */
    bool compares_layers; /* needs comparable scores, or its parameter norm other than
                             none */
    bool cross_layer; /* needs every layer before the first can be cut: not layerwise */
    bool nonneg;      /* needs scores that are never negative */
    unsigned needs;   /* of `observe` */
    int n_stat;       /* numbers a layer that observe writes */
    const char *table_kind; /* the file it reads, parameter `profile`; NULL: none */
    bool table_optional;    /* does without */
    const struct kva_param *params;
    int (*window)(const struct kva_params *); /* of observe; NULL: 0 */
    /* Looks at a layer before the budget is known; NULL: nothing to see. */
    enum kva_status (*observe)(const struct kva_layer_view *, const struct kva_params *,
                               double *stat, struct kva_error *err);
    /* May raise what the scorer protects, for a decision of `total` entries over `cells`
     * KV heads; NULL: nothing. */
    void (*protect)(const struct kva_params *, uint64_t total, int cells,
                    struct kva_protect *);
    /* b[C]: entries each kvhead may keep; sums to total exactly; 0 < b <= n. */
    enum kva_status (*allocate)(const struct kva_alloc_in *, const struct kva_params *,
                                int *b, struct kva_error *err);
};

/* ---- budgets (rulings R15) ---- */
enum kva_budget_kind {
    KVA_BUDGET_DENSE,
    KVA_BUDGET_KEEP,
    KVA_BUDGET_TOKENS,
    KVA_BUDGET_BYTES
};
struct kva_budget {
    enum kva_budget_kind kind;
    int64_t value; /* keep: basis points 1..9999; tokens: entries a head; bytes */
};
/* Entries over all kvheads for S tokens; `row_bytes` of one entry. */
uint64_t kva_budget_total(const struct kva_budget *b, int64_t tokens, int kvheads,
                          uint64_t row_bytes);
/* "dense", "keep=0.25", "tokens=256", "bytes=1048576" */
void kva_budget_text(const struct kva_budget *b, char out[32]);
/* floor(S*keep_bp/10000), at least 1 */
int64_t kva_budget_keep(int64_t tokens, int64_t keep_bp);
/* total/C each, the remainder one each to the lower kvheads, capped at n with the
 * overflow handed on; sums to min(total, sum n). */
void kva_budget_uniform(uint64_t total, const int *n, int kvheads, int *b);
/* methods.md 3, `shares`: proportional integers between lo and hi that sum to total
 * exactly (total is clamped to [sum lo, sum hi]; returns the total used). */
uint64_t kva_budget_shares(const double *weight, uint64_t total, const int *lo,
                           const int *hi, int n, int *b);

/* ---- a method ---- */
struct kva_method {
    bool dense; /* the full cache: no scorer */
    bool blind; /* question without context: no scorer, never ranked */
    const struct kva_scorer *scorer;
    struct kva_params scorer_params;
    const struct kva_wrapper *wrapper; /* NULL: none */
    struct kva_params wrapper_params;
    const struct kva_allocator *allocator;
    struct kva_params allocator_params;
    char file[256];          /* of the parameter of type FILE; empty: none */
    struct kva_table *table; /* bound by kva_method_bind; the method owns it */
    /* Canonical; a file stands as its path until it is bound, then as the start of its
     * SHA-256. */
    char spec[960];
    char scorer_spec[448];    /* scorer part: the key under which scores are shared */
    char wrapped_spec[576];   /* scorer and wrapper: the key of what `rescore` leaves */
    char allocator_spec[384]; /* the key of what `observe` saw */
};
/* KVA_EINVALID with the nearest known name, the parameter's range, or why the pair is
 * refused. The schedule decides defaults. "dense" and "blind" take nothing. */
enum kva_status kva_method_parse(const char *text, const struct kva_schedule *schedule,
                                 struct kva_method *m, struct kva_error *err);
/* Queries (window) and needs of one method: scorer, wrapper and allocator joined. */
unsigned kva_method_needs(const struct kva_method *m, int *window);
/* What the method wants collected (kind NONE: nothing). */
struct kva_collect kva_method_collect(const struct kva_method *m);
bool kva_method_rotates(const struct kva_method *m);
/* Reads the method's file, checks kind, model and shape, completes the specs. Nothing to
 * do without one. base_dir NULL: the working directory. KVA_EINVALID when the file was
 * made for another model. */
enum kva_status kva_method_bind(struct kva_method *m, const char *base_dir,
                                const uint8_t model_sha256[32], int layers, int kv_heads,
                                struct kva_error *err);
void kva_method_release(struct kva_method *m); /* the table */
/* Reads and writes table files. */
enum kva_status kva_table_read(const char *path, struct kva_table *t,
                               char model_sha256[65], struct kva_error *err);
enum kva_status kva_table_write(const char *path, const struct kva_table *t,
                                const char *model_sha256, const char *made,
                                struct kva_error *err);
void kva_table_release(struct kva_table *t);

const struct kva_scorer *const *
kva_scorers(void); /* NULL-terminated, in methods.def order */
const struct kva_wrapper *const *kva_wrappers(void);
const struct kva_allocator *const *kva_allocators(void);
/* Words that stand for a whole method (ruling R17); ends with a NULL name. */
struct kva_method_alias {
    const char *name, *text;
};
const struct kva_method_alias *kva_method_aliases(void);

/* ---- decision ---- */

/* What the engine lends for one decision: the session's store and its query window. */
struct kva_decide_in {
    struct kva_ops *ops;
    const struct kva_kvstore *store;
    int heads, head_dim, v_dim;
    float scale;
    /* Queries of a layer: returns count, fills pointers, q in the backend's memory, good
     * until the session reads on; NULL when no method needs them. */
    int (*queries)(void *ctx, int layer, const float **q, const int32_t **q_pos);
    void *queries_ctx;
    uint64_t seed;
    int block_len;
    bool is_block;
    int32_t seen;
    int32_t prompt; /* tokens the last prefill decision will have read; 0: not known */
    int question;
    double keep; /* for budget_dependent scorers: total / entries held */
    /* Sums collected for `want`, of one layer: ragged, in rank order; NULL when the
     * session does not collect it. */
    const float *(*side)(void *ctx, const struct kva_collect *want, int layer);
    const struct kva_query_stats *(*query_stats)(void *ctx,
                                                 const struct kva_collect *want,
                                                 int layer);
    void *side_ctx;
    const struct kva_lend *lend;
    /* layers [layer0, layer1) only; 0, 0: all (layerwise schedule). The others count as
     * if they held what layer0 does; the lists that a decision has of them mean nothing.
     */
    int layer0, layer1;
};

/* Runs the scorer over every layer. Peak scratch bytes are added to *scratch_bytes when
 * not NULL. Budget-independent: the result serves every budget and allocator of the same
 * scorer_spec. */
enum kva_status kva_method_score(const struct kva_method *m,
                                 const struct kva_decide_in *in, struct kva_scores *out,
                                 uint64_t *scratch_bytes, struct kva_error *err);

/* What the wrapper makes of a scorer's scores; `base` stays. With no wrapper, or one that
 * rescores nothing, *out is left empty and `base` is to be used. */
enum kva_status kva_method_wrap(const struct kva_method *m,
                                const struct kva_decide_in *in,
                                const struct kva_scores *base, struct kva_scores *out,
                                uint64_t *scratch_bytes, struct kva_error *err);
/* What the allocator sees of the layers: stat[layers][n_stat], from the caller's arena;
 * NULL when it looks at nothing. */
enum kva_status kva_method_observe(const struct kva_method *m,
                                   const struct kva_decide_in *in,
                                   const struct kva_scores *sc, struct kva_arena *arena,
                                   double **stat, struct kva_error *err);

struct kva_decision {
    struct kva_keep keep;
    uint64_t total;     /* entries kept over all kvheads */
    bool nothing_to_do; /* budget >= entries held everywhere: keep names everything */
    struct kva_protect protect; /* classes that outranked the scores */
    bool protect_overflow;      /* more protected entries than budget somewhere
                                   (methods.md 3.4) */
    bool fallback;              /* the allocator fell back to uniform shares */
    /* KV heads picked in two stages, and of them those whose first stage holds more than
     * half of the scores (assumption 3.4 of CriticalKV) */
    int staged, heavy;
    int *budget; /* [C] entries each kvhead was given */
};
/* Allocates and selects. KVA_EINVALID when `total` is below one entry per KV head. Rank
 * key (class, score, position): protected first, then higher score, newer entry on ties.
 * Every total is exact or the call fails with KVA_ECONFLICT, but for wrappers that
 * resize: then out->total says what stays. `total` as from kva_budget_total (clamped to
 * what is held). */
enum kva_status kva_method_select(const struct kva_method *m,
                                  const struct kva_scores *scores, const double *stat,
                                  uint64_t total, struct kva_decision *out,
                                  struct kva_error *err);
/* Wraps, observes and selects from a scorer's scores. */
enum kva_status kva_method_decide(const struct kva_method *m,
                                  const struct kva_decide_in *in,
                                  const struct kva_scores *base, uint64_t total,
                                  struct kva_decision *out, uint64_t *scratch_bytes,
                                  struct kva_error *err);
void kva_decision_release(struct kva_decision *d);

#endif
