/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wave.h - sessions that advance together (ruling R7). Internal to the runner.
 *
 * A wave takes sessions whose caches are already decided and brings each through three
 * stages: question rows, gold rows (teacher-forced, then rewound), decode steps. In every
 * step the rows of all live sessions are stacked, so weights are read once. A session
 * that ends or fails leaves.
 *
 * The draws of one question are cells that follow the first of them: that one reads the
 * question and the gold answer, and when answers begin each other one goes on from a copy
 * of its session. */
#ifndef KVA_WAVE_H
#define KVA_WAVE_H

#include "runner/ends.h"
#include "runner/exec.h"
#include "runner/parts.h"

/* What decisions say beside what they keep, over all of a cell. */
struct kva_noted {
    bool fell_back;    /* an allocator's form did not fit: uniform shares */
    int staged, heavy; /* as in struct kva_decision */
};
void kva_note(struct kva_noted *n, const struct kva_decision *d);

struct kva_run_cell {
    /* in */
    /* Owned by the caller; the wave never frees it. NULL with a leader: the wave makes it
     */
    struct kva_session *session;
    const struct kva_cell *cell;
    const int32_t *ids; /* question rows still to feed */
    int n_ids;          /* 0: the whole prompt was fed before the cut */
    const int32_t *gold;
    int n_gold; /* 0: no nats wanted */
    int max_new;
    const struct kva_ends *ends; /* NULL: end tokens of the model and max_new alone */
    uint64_t state_bytes;        /* query ring and sums kept between steps: metadata */
    uint64_t scratch_bytes;      /* of the decision: what was needed and given back */
    struct kva_protect protect;  /* of the last prefill decision */
    int prompt;                  /* tokens that decision had read */
    int n_before;          /* tokens that earlier turns added behind that decision */
    uint64_t budget_total; /* entries over all KV heads, for decode-time eviction */
    const struct kva_tokenizer *tok;
    uint64_t seed;
    bool timed;              /* record step times (cells that run alone) */
    struct kva_parts *parts; /* where the question counts; NULL: not timed */
    struct kva_noted noted;  /* of the prefill; decode-time decisions add to it */
    /* NULL, or a cell before it in the wave: another draw of the same answer */
    struct kva_run_cell *leader;
    uint64_t draw_seed; /* of sampled answers, kva_draw_seed */
    /* in and out: result of the last prompt row */
    int32_t next;  /* first generated token */
    float *logits; /* [vocab] of a cell that samples and follows nobody: of that row */
    double first_nll;
    bool first_ok;
    /* out */
    int32_t *gen; /* [max_new] */
    int n_gen;
    const char *stop; /* as kva_ends_check says, or NULL while running or failed */
    double gold_sum;  /* nats over all gold tokens */
    bool has_gold;
    uint64_t peak_bytes;     /* of the store before the gold rows */
    struct kva_error failed; /* code KVA_OK unless the cell failed */
    bool done;
    uint64_t first_ns; /* kva_now_ns at the first token; timed only */
    uint64_t *step_ns; /* [max_new] duration of decode steps; timed only */
    int n_steps;
};

/* Runs every stage. `ended` is called with the cells that ended in the same step. rows
 * counts rows. */
typedef enum kva_status (*kva_wave_ended)(void *ctx, struct kva_run_cell **cells, int n,
                                          struct kva_error *err);
enum kva_status kva_wave_run(struct kva_model *m, struct kva_run_cell **cells, int n,
                             int chunk, const volatile int *stop, kva_wave_ended ended,
                             void *ctx, int64_t *rows, struct kva_error *err);

/* A decision over a session's own store: block schedules, decode-time eviction, cells
 * that run alone. */
struct kva_own {
    const struct kva_method *method;
    uint64_t total; /* entries that may stay */
    uint64_t held;  /* entries held in all layers (a layerwise cell: would be) */
    uint64_t seed;
    int block_len; /* these as in kva_decide_in */
    bool is_block;
    int question;
    int32_t prompt; /* as in kva_decide_in */
    int32_t seen;   /* 0: what the session says; else inside a step */
    int layer0, layer1;
    bool united;      /* every KV head keeps what any of its layer does (enforce union) */
    uint64_t scratch; /* out: the largest so far */
    struct kva_noted noted; /* out: of all so far */
};
/* What to keep. KVA_ENONFINITE when a score is no finite number. */
enum kva_status kva_decide_own(struct kva_session *s, struct kva_own *own,
                               struct kva_decision *d, struct kva_error *err);
/* Widens a decision about layers [layer0, layer1) (0, 0: all) to the union of each. */
enum kva_status kva_decide_unite(const struct kva_kvstore *store, int layer0, int layer1,
                                 struct kva_decision *d, struct kva_error *err);
/* `keep` of a decision over `held` entries; 0 unless the scorer reads it. */
double kva_decide_keep(const struct kva_method *m, uint64_t total, uint64_t held);

#endif
