/* SPDX-License-Identifier: GPL-3.0-or-later */
/* model_impl.h - what a model and a session are made of (internal to models/).
 *
 * The model owns the weights, the mapping they may point into, and the activations of the
 * one step that can be in flight. A session owns its store and its query window; it
 * points at its model. */
#ifndef KVA_MODEL_IMPL_H
#define KVA_MODEL_IMPL_H

#include "models/arch.h"
#include "models/builtin.h"
#include "models/collect.h"

/* Rows of one session, standing together in the step. */
struct kva_step_run {
    struct kva_session *session;
    int row0, n;  /* among the live rows */
    int32_t pos0; /* position of the first row */
};

/* Activations are row-major and lie in the backend's memory. x holds the residual stream
 * of every live row; the other buffers hold one chunk of rows, so that a step over a
 * whole prompt needs no more than its hidden states. */
struct kva_step_state {
    struct kva_model *m;
    bool active;
    int next_layer;
    struct kva_row *rows;
    int live, chunk, chunk_logits;
    struct kva_step_run *run; /* [runs] dead ones are removed after each layer */
    int runs;
    int *row_of;        /* [live] index into rows */
    int32_t *pos, *ids; /* [live] */
    float *x;           /* [live][dim] */
    float *cs;          /* [live][n_rot] cos, sin pairs of cs_for */
    const struct kva_layer *cs_for;
    int32_t *sel;          /* [chunk] rows that go on behind the append */
    int32_t *at;           /* [chunk] a list of rows of one call */
    int32_t *sel_pos;      /* [chunk] */
    struct kva_attn *attn; /* [chunk] one a session with rows in the call */
    struct kva_kv_view *view;
    float *sel_cs; /* [chunk][head_dim] */
    /* [chunk][heads * max(head_dim, v_dim)] queries before the rotation, for collectors;
     * then what is kept of the rows whose logits are wanted */
    float *raw;
    float *xs, *h, *q, *k, *v, *att, *o, *gate, *up; /* [chunk][width] */
    float *logits;                                   /* [chunk_logits][vocab] */
    float *host_h, *host_q, *host_logits;            /* copies; unused when ops->host */
    uint8_t *slab, *books; /* activations; what the host reads and writes */
    size_t slab_bytes, books_bytes;
};

struct kva_model {
    struct kva_model_info info;
    struct kva_ops *ops;
    struct kva_arch arch;
    struct kva_gguf *gguf; /* the mapping; NULL for computed weights */
    struct kva_buf file;   /* a file built in memory */
    struct kva_retrieval computed;
    struct kva_tokenizer *tok;
    const struct kva_chat *chat;
    char *path;
    bool sha256_known;
    struct kva_step_state step;
    struct kva_lend lend;      /* set when the model opens */
    struct kva_slices *slices; /* of W_O, made on demand (lend.c) */
    float *angles; /* of a rotation, the backend's memory where that is not the host's */
};

/* The last q_window post-RoPE queries of one layer: entry i (0 = oldest) in slot
 * (start + i) % q_window, positions ascending. */
struct kva_query_ring {
    float *q; /* [q_window][heads * head_dim], the backend's memory */
    int start, count;
};

/* Who wants the rows of a session inside a step, layer by layer: n rows at ascending
 * positions, h the attention input [dim] (normed), q the rotated queries. */
struct kva_tap {
    void (*rows)(void *ctx, const float *h, const float *q, const int32_t *pos, int n);
    void *ctx;
};

struct kva_session {
    struct kva_model *m;
    struct kva_kvstore *store;
    int32_t seen;
    int q_window;
    float *q;                    /* what the rings lie in */
    int32_t *q_pos;              /* [layers][q_window] */
    struct kva_query_ring *ring; /* [layers] */
    /* Where the host may not follow a ring: memory of one more, in which a ring is put in
     * order, and the list for it. */
    float *spare;
    int32_t *order;                 /* [q_window] */
    struct kva_collector **collect; /* [n_collect] */
    int n_collect;
    float **sums; /* [n_collect][kv_heads], see kva_session_sums_begin */
    bool collecting;
    const struct kva_tap *tap; /* NULL: nobody (replay.c) */
    bool in_step;
    struct kva_error error;
};

void kva_step_release(struct kva_step_state *st); /* its memory */
/* A GGUF file in memory, which the model takes over on success. */
enum kva_status kva_model_from_bytes(struct kva_buf *file, const char *name,
                                     const struct kva_model_opts *opts,
                                     struct kva_model **m, struct kva_error *err);
/* builtin:retrieval with another rotary base (0: its own): broken on purpose, for tests.
 */
enum kva_status kva_model_retrieval(double theta, const struct kva_model_opts *opts,
                                    struct kva_model **m, struct kva_error *err);
/* Appends n query rows, of any memory, at ascending positions to a layer's window; the
 * oldest go when it is full. */
void kva_session_push_queries(struct kva_session *s, int layer, const int32_t *pos,
                              const float *q, int n);
/* lend.c */
void kva_lend_init(struct kva_model *m);
void kva_lend_release(struct kva_model *m);
/* Does a collector of it read rotated queries itself? */
bool kva_session_follows(const struct kva_session *s);
/* Hands n query rows at ascending positions to the session's collectors: raw in the
 * backend's memory, q in the host's if one of them follows it. */
enum kva_status kva_session_collected(struct kva_session *s, int layer, const float *raw,
                                      const float *q, const int32_t *pos, int n,
                                      struct kva_error *err);
/* Sums that attention is to add to, [n][kv_heads] in slot order, made ready by
 * kva_session_collected; n of them (0: none), the array the session's own. */
int kva_session_sums_begin(struct kva_session *s, int layer, float *const **sums);
void kva_session_sums_end(struct kva_session *s, int layer);
bool kva_session_sums(const struct kva_session *s); /* are there any now? */
/* Drops what a step that will not finish has appended from pos0 on. */
void kva_session_undo(struct kva_session *s, int32_t pos0);
/* Marks the session failed and drops the entries of the step that failed, from pos0 on.
 */
void kva_session_fail(struct kva_session *s, const struct kva_error *why, int32_t pos0);

#endif
