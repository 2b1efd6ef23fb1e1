/* SPDX-License-Identifier: GPL-3.0-or-later */
/* method.h - what to keep, and where: scorers, allocators, budgets, selection.
 *
 * Two axes, two descriptors (style.md 6). A *scorer* ranks the entries of each KV head:
 * higher = keep. An *allocator* divides a total over layers and KV heads. Any scorer runs
 * under any allocator unless `kva_method_parse` refuses the pair with a reason. A method
 * sees tensors and never a model; it answers which entries stay, as a `struct kva_keep`,
 * and moves nothing.
 *
 * A method is written `scorer[:k=v,...][+allocator[:k=v,...]]`; allocator default
 * `uniform`. The canonical spec spells every parameter, sorted, in the schedule's
 * defaults, and is what is stored.
 *
 * Adding one: a file score_x.c or alloc_x.c ending in one const descriptor, one line in
 * methods.def, a test tests/methods/test_score_x.c or test_alloc_x.c. */
#ifndef KVA_METHOD_H
#define KVA_METHOD_H

#include "kernels/kernels.h"
#include "kernels/kvstore.h"

#define KVA_MAX_PARAMS 8

/* What a scorer reads; the union over all live methods is collected once, in the prefill
 * (R5). */
enum kva_needs {
    KVA_NEEDS_KEYS = 1u << 0,    /* view->k */
    KVA_NEEDS_VALUES = 1u << 1,  /* view->v */
    KVA_NEEDS_QUERIES = 1u << 2, /* view->q: the last `window` queries, post-RoPE */
};

enum kva_param_type { KVA_PARAM_INT, KVA_PARAM_REAL, KVA_PARAM_CHOICE };

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

/* Parsed values, index = row of the descriptor's table. */
struct kva_params {
    double value[KVA_MAX_PARAMS];
};

enum kva_schedule_kind { KVA_ONESHOT, KVA_BLOCK };

/* When entries are evicted (ruling R19). Text form "oneshot", "block:128", each
 * "+decode:1". */
struct kva_schedule {
    enum kva_schedule_kind kind;
    int block;  /* tokens of a block; 0 for oneshot */
    int decode; /* evict whenever `decode` entries are above the budget; 0: never while
                   decoding */
};
enum kva_status kva_schedule_parse(const char *text, struct kva_schedule *s,
                                   struct kva_error *err);
void kva_schedule_text(const struct kva_schedule *s, char out[48]);

/* One layer as a scorer sees it, at the moment of decision: live entries only, in
 * ascending position order, the same arrays in physical and in mask mode. */
struct kva_layer_view {
    struct kva_ops *ops;
    struct kva_arena *scratch; /* dies after the call; its peak is the scorer's scratch */
    int layer, layers, kv_heads, heads, head_dim, v_dim;
    const struct kva_rows *k, *v; /* post-RoPE keys, values; NULL unless needed */
    const int32_t *pos;           /* ragged like k: pos[off[h] + j] */
    const size_t *off;            /* [kv_heads + 1] */
    const float *q;       /* [nq][heads][head_dim] the last nq queries of the session */
    const int32_t *q_pos; /* [nq] */
    int nq;               /* as many as the session has, at most the joined window */
    float scale;          /* the model's score scale */
    uint64_t seed;        /* suite seed */
    int block_len;        /* tokens of the block just processed; all tokens for oneshot */
    bool is_block;        /* block schedule (or decode-time decision) */
};

/* Classes that outrank every score (methods.md 3.2): positions below `sinks`, and the
 * `recent` newest positions seen. A KV head that lost one of these positions earlier
 * protects the rest. */
struct kva_protect {
    int sinks, recent;
};

struct kva_scorer {
    const char *name, *summary /* at most 72 characters */, *source;
    unsigned needs;
    int version;
    bool nonneg;     /* scores are never negative */
    bool comparable; /* one unit across KV heads: may be compared over layers */
    bool positional; /* the same answer in every KV head: nothing to compare, always
                        uniform */
    const struct kva_param *params; /* ends with a NULL name; NULL: none */
    /* queries needed (0: none); NULL: 0 */
    int (*window)(const struct kva_params *);
    /* May raise what the parameters `sinks` and `recent` have put there; NULL: these
     * alone. */
    void (*protect)(const struct kva_params *, const struct kva_layer_view *,
                    struct kva_protect *);
    /* s ragged like the view: s[off[h] + j]; higher stays. */
    enum kva_status (*score)(const struct kva_layer_view *, const struct kva_params *,
                             float *s, struct kva_error *err);
};

/* Scores of a whole model for one scorer: kvhead c = layer*kv_heads + head has n_c
 * entries at off[c]. Shared by every allocator and budget that may. */
struct kva_scores {
    int layers, kv_heads;
    size_t *off;  /* [C + 1] */
    float *s;     /* higher stays; what is not finite has become -inf and is counted */
    int32_t *pos; /* positions, ascending within a kvhead */
    struct kva_protect protect;
    uint64_t nonfinite;
};
void kva_scores_release(struct kva_scores *sc);

struct kva_alloc_in {
    const struct kva_scores *scores;
    const int *base; /* [C] the uniform share of each kvhead, sums to total */
    uint64_t total;  /* entries over all kvheads, never above the sum of n */
};

struct kva_allocator {
    const char *name, *summary, *source;
    int version;
    bool compares_heads;  /* positional scorers are refused */
    bool compares_layers; /* needs comparable scores, or its parameter norm other than
                             none */
    const struct kva_param *params;
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
    const struct kva_allocator *allocator;
    struct kva_params allocator_params;
    char spec[256];        /* canonical */
    char scorer_spec[192]; /* canonical scorer part: the key under which scores are shared
                            */
};
/* KVA_EINVALID with the nearest known name, the parameter's range, or why the pair is
 * refused. The schedule decides defaults. "dense" and "blind" take nothing. */
enum kva_status kva_method_parse(const char *text, const struct kva_schedule *schedule,
                                 struct kva_method *m, struct kva_error *err);
/* Queries (window) and needs of one method. */
unsigned kva_method_needs(const struct kva_method *m, int *window);

const struct kva_scorer *const *
kva_scorers(void); /* NULL-terminated, in methods.def order */
const struct kva_allocator *const *kva_allocators(void);

/* ---- decision ---- */

/* What the engine lends for one decision: the session's store and its query window. */
struct kva_decide_in {
    struct kva_ops *ops;
    const struct kva_kvstore *store;
    int heads, head_dim, v_dim;
    float scale;
    /* queries of a layer: returns count, fills pointers; NULL when no method needs them
     */
    int (*queries)(void *ctx, int layer, const float **q, const int32_t **q_pos);
    void *queries_ctx;
    uint64_t seed;
    int block_len;
    bool is_block;
};

/* Runs the scorer over every layer. Peak scratch bytes are added to *scratch_bytes when
 * not NULL. Budget-independent: the result serves every budget and allocator of the same
 * scorer_spec. */
enum kva_status kva_method_score(const struct kva_method *m,
                                 const struct kva_decide_in *in, struct kva_scores *out,
                                 uint64_t *scratch_bytes, struct kva_error *err);

struct kva_decision {
    struct kva_keep keep;
    uint64_t total;        /* entries kept over all kvheads */
    bool nothing_to_do;    /* budget >= entries held everywhere: keep names everything */
    bool protect_overflow; /* more protected entries than budget somewhere
                              (methods.md 3.4) */
};
/* Allocates and selects. KVA_EINVALID when `total` is below one entry per KV head. Rank
 * key (class, score, position): protected first, then higher score, newer entry on ties.
 * Every total is exact or the call fails with KVA_ECONFLICT. `total` as from
 * kva_budget_total (clamped to what is held). */
enum kva_status kva_method_select(const struct kva_method *m,
                                  const struct kva_scores *scores, uint64_t total,
                                  struct kva_decision *out, struct kva_error *err);
void kva_decision_release(struct kva_decision *d);

#endif
