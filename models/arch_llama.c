/* SPDX-License-Identifier: GPL-3.0-or-later */
/* arch_llama.c - GGUF files of architecture `llama` (Llama 2 and 3.x, Mistral v0.3,
 * SmolLM2).
 *
 * Pre-norms only, SwiGLU, rotary scaling none, linear or by factors stored in the file
 * (rope_freqs.weight, Llama 3.1 and later). In these files the rows of Q and K are stored
 * for the interleaved rotation (pairs 2i, 2i+1); loading un-permutes them, row by row, so
 * that pair i is (i, i + n_rot/2) as in every other family and a K row in the cache has
 * the published order:
 *
 *     canonical row i of a head = file row 2i,  row i + n_rot/2 = file row 2i+1,  i <
 * n_rot/2
 *
 * models.md 3.1, 3.4, 3.5. A tensor nobody asked for would change the result, so it is
 * refused. */
#include "models/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loader {
    const struct kva_gguf *g;
    struct kva_ops *ops;
    struct kva_arch *a;
    struct kva_error *err;
    int n_rot;
    double theta, rope_scale, attn_factor;
    int ffn[KVA_MAX_LAYERS];
    int32_t *q_rows, *k_rows; /* un-permutation, in the arena */
    int used;                 /* tensors of the file that were loaded */
};

/* One value for all layers: the store has one shape. */
static enum kva_status same_everywhere(struct loader *ld, const char *key, int def,
                                       bool required, int *out)
{
    int v[KVA_MAX_LAYERS];

    v[0] = def;
    KVA_TRY(
        kva_arch_ints(ld->g, "llama", key, required, 1, 4096, ld->a->layers, v, ld->err));
    for (int i = 1; i < ld->a->layers; i++)
        if (v[i] != v[0])
            return KVA_FAIL(ld->err, KVA_EUNSUPPORTED,
                            "llama.%s differs between layers 0 and %d (%d, %d)", key, i,
                            v[0], v[i]);
    *out = v[0];
    return KVA_OK;
}

static enum kva_status read_shape(struct loader *ld)
{
    struct kva_arch *a = ld->a;
    struct kva_error *err = ld->err;
    int experts = 0;
    double eps = 0, scale = 0;
    const struct kva_gguf_tensor *embd = kva_gguf_find(ld->g, "token_embd.weight");

    KVA_TRY(kva_arch_int(ld->g, "llama", "block_count", true, 1, KVA_MAX_LAYERS,
                         &a->layers, err));
    KVA_TRY(
        kva_arch_int(ld->g, "llama", "embedding_length", true, 1, 1 << 20, &a->dim, err));
    KVA_TRY(kva_arch_int(ld->g, "llama", "context_length", true, 1, INT32_MAX,
                         &a->ctx_train, err));
    KVA_TRY(same_everywhere(ld, "attention.head_count", 0, true, &a->heads));
    KVA_TRY(
        same_everywhere(ld, "attention.head_count_kv", a->heads, false, &a->kv_heads));
    a->head_dim = a->dim / a->heads;
    KVA_TRY(kva_arch_int(ld->g, "llama", "attention.key_length", false, 1, 1024,
                         &a->head_dim, err));
    a->v_dim = a->dim / a->heads;
    KVA_TRY(kva_arch_int(ld->g, "llama", "attention.value_length", false, 1, 1024,
                         &a->v_dim, err));
    KVA_TRY(kva_arch_ints(ld->g, "llama", "feed_forward_length", true, 1, 1 << 22,
                          a->layers, ld->ffn, err));
    KVA_TRY(kva_arch_real(ld->g, "llama", "attention.layer_norm_rms_epsilon", true, &eps,
                          err));
    a->eps = (float)eps;
    scale = 1.0 / sqrt((double)a->head_dim);
    KVA_TRY(kva_arch_real(ld->g, "llama", "attention.scale", false, &scale, err));
    a->score_scale = (float)scale;

    KVA_TRY(kva_arch_int(ld->g, "llama", "expert_count", false, 0, 1024, &experts, err));
    if (experts)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "llama with %d experts (a mixture) is not supported", experts);
    if (!embd)
        return KVA_FAIL(err, KVA_EFORMAT, "tensor \"token_embd.weight\" is missing");
    if (embd->ne[1] < 1 || embd->ne[1] > INT32_MAX)
        return KVA_FAIL(err, KVA_EFORMAT, "token_embd.weight has %llu rows",
                        (unsigned long long)embd->ne[1]);
    a->vocab = (int)embd->ne[1];
    return KVA_OK;
}

static enum kva_status read_rope(struct loader *ld)
{
    struct kva_error *err = ld->err;
    const char *s;
    size_t n;
    int window = 0;

    ld->n_rot = ld->a->head_dim;
    KVA_TRY(kva_arch_int(ld->g, "llama", "rope.dimension_count", false, 1, 1024,
                         &ld->n_rot, err));
    ld->theta = 10000.0;
    KVA_TRY(kva_arch_real(ld->g, "llama", "rope.freq_base", false, &ld->theta, err));
    ld->rope_scale = 1.0;
    KVA_TRY(
        kva_arch_real(ld->g, "llama", "rope.scale_linear", false, &ld->rope_scale, err));
    KVA_TRY(kva_arch_real(ld->g, "llama", "rope.scaling.factor", false, &ld->rope_scale,
                          err));
    ld->attn_factor = 1.0;
    KVA_TRY(kva_arch_real(ld->g, "llama", "rope.scaling.attn_factor", false,
                          &ld->attn_factor, err));
    if (kva_gguf_str(ld->g, "llama.rope.scaling.type", &s, &n)) {
        if (n == 4 && memcmp(s, "none", 4) == 0)
            ld->rope_scale = 1.0;
        else if (n != 6 || memcmp(s, "linear", 6) != 0)
            return KVA_FAIL(
                err, KVA_EUNSUPPORTED,
                "llama.rope.scaling.type \"%.*s\" is not supported (none, linear)",
                n < 32 ? (int)n : 32, s);
    } else if (kva_gguf_has(ld->g, "llama.rope.scaling.type")) {
        return KVA_FAIL(err, KVA_EFORMAT, "llama.rope.scaling.type is not a string");
    }
    KVA_TRY(kva_arch_int(ld->g, "llama", "attention.sliding_window", false, 0, INT32_MAX,
                         &window, err));
    if (window)
        kva_log(KVA_LOG_WARN,
                "llama.attention.sliding_window %d is ignored: the family has none",
                window);
    return KVA_OK;
}

/* row_of[canonical row] = file row, for `heads` heads. */
static int32_t *unpermute(struct kva_arch *a, int heads, int n_rot)
{
    int32_t *row_of =
        kva_arena_alloc(&a->arena, (size_t)heads * (size_t)a->head_dim, sizeof *row_of);

    if (!row_of)
        return NULL;
    for (int h = 0; h < heads; h++) {
        int32_t *r = row_of + (size_t)h * (size_t)a->head_dim;
        int32_t base = h * a->head_dim;

        for (int i = 0; i < a->head_dim; i++)
            r[i] = base + i;
        for (int i = 0; i < n_rot / 2; i++) {
            r[i] = base + 2 * i;
            r[i + n_rot / 2] = base + 2 * i + 1;
        }
    }
    return row_of;
}

/* Numbers that the host computes with. */
static enum kva_status host_vector(struct loader *ld, const char *name, int n,
                                   const float **v)
{
    const struct kva_gguf_tensor *t;

    KVA_TRY(kva_arch_tensor(ld->g, name, (uint64_t)n, 0, &t, ld->err));
    ld->used++;
    return kva_arch_vector(ld->a, t, v, ld->err);
}

/* Numbers of the backend. */
static enum kva_status vector(struct loader *ld, const char *name, int n, const float **v)
{
    KVA_TRY(host_vector(ld, name, n, v));
    *v = ld->ops->constant(ld->ops, *v, (size_t)n);
    return KVA_OK;
}

static enum kva_status matrix(struct loader *ld, const char *name, int in, int out,
                              const int32_t *row_of, struct kva_weight **w)
{
    const struct kva_gguf_tensor *t;

    KVA_TRY(kva_arch_tensor(ld->g, name, (uint64_t)in, (uint64_t)out, &t, ld->err));
    ld->used++;
    return kva_arch_weight(ld->ops, t, 0, out, row_of, w, ld->err);
}

static enum kva_status load_qkv(struct loader *ld, int il, struct kva_layer *l)
{
    const struct kva_arch *a = ld->a;
    const int nq = a->heads * a->head_dim, nk = a->kv_heads * a->head_dim,
              nv = a->kv_heads * a->v_dim;
    const struct kva_gguf_tensor *t;
    char name[64];

    snprintf(name, sizeof name, "blk.%d.attn_qkv.weight", il);
    if (kva_gguf_find(ld->g, name)) {
        KVA_TRY(kva_arch_tensor(ld->g, name, (uint64_t)a->dim, (uint64_t)(nq + nk + nv),
                                &t, ld->err));
        ld->used++;
        KVA_TRY(kva_arch_weight(ld->ops, t, 0, nq, ld->q_rows, &l->q, ld->err));
        KVA_TRY(kva_arch_weight(ld->ops, t, nq, nk, ld->k_rows, &l->k, ld->err));
        return kva_arch_weight(ld->ops, t, nq + nk, nv, NULL, &l->v, ld->err);
    }
    snprintf(name, sizeof name, "blk.%d.attn_q.weight", il);
    KVA_TRY(matrix(ld, name, a->dim, nq, ld->q_rows, &l->q));
    snprintf(name, sizeof name, "blk.%d.attn_k.weight", il);
    KVA_TRY(matrix(ld, name, a->dim, nk, ld->k_rows, &l->k));
    snprintf(name, sizeof name, "blk.%d.attn_v.weight", il);
    return matrix(ld, name, a->dim, nv, NULL, &l->v);
}

static enum kva_status load_layer(struct loader *ld, int il, const float *inv_freq)
{
    struct kva_arch *a = ld->a;
    struct kva_layer *l = &a->layer[il];
    char name[64];

    l->ffn = ld->ffn[il];
    l->n_rot = ld->n_rot;
    l->inv_freq = inv_freq;
    l->mscale = (float)ld->attn_factor;
    if (l->ffn > a->ffn)
        a->ffn = l->ffn;
    snprintf(name, sizeof name, "blk.%d.attn_norm.weight", il);
    KVA_TRY(vector(ld, name, a->dim, &l->attn_norm));
    KVA_TRY(load_qkv(ld, il, l));
    snprintf(name, sizeof name, "blk.%d.attn_output.weight", il);
    KVA_TRY(matrix(ld, name, a->heads * a->v_dim, a->dim, NULL, &l->o));
    snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", il);
    KVA_TRY(vector(ld, name, a->dim, &l->ffn_norm));
    snprintf(name, sizeof name, "blk.%d.ffn_gate.weight", il);
    KVA_TRY(matrix(ld, name, a->dim, l->ffn, NULL, &l->gate));
    snprintf(name, sizeof name, "blk.%d.ffn_up.weight", il);
    KVA_TRY(matrix(ld, name, a->dim, l->ffn, NULL, &l->up));
    snprintf(name, sizeof name, "blk.%d.ffn_down.weight", il);
    return matrix(ld, name, l->ffn, a->dim, NULL, &l->down);
}

/* Names the first tensor that was not loaded. */
static enum kva_status refuse_others(const struct loader *ld)
{
    static const char *const per_layer[] = {
        "attn_norm.weight", "attn_q.weight",   "attn_k.weight",        "attn_v.weight",
        "attn_qkv.weight",  "ffn_up.weight",   "attn_output.weight",   "ffn_norm.weight",
        "ffn_gate.weight",  "ffn_down.weight", "attn_rot_embd.weight",
    };
    static const char *const global[] = {"token_embd.weight", "output_norm.weight",
                                         "output.weight", "rope_freqs.weight"};
    int n = kva_gguf_tensors(ld->g);

    if (n == ld->used)
        return KVA_OK;
    for (int i = 0; i < n; i++) {
        const char *name = kva_gguf_tensor_at(ld->g, i)->name;
        int il = -1, at = 0;
        bool known = false;

        for (size_t j = 0; j < sizeof global / sizeof global[0]; j++)
            known |= strcmp(name, global[j]) == 0;
        if (sscanf(name, "blk.%6d.%n", &il, &at) == 1 && at > 0 && il >= 0 &&
            il < ld->a->layers)
            for (size_t j = 0; j < sizeof per_layer / sizeof per_layer[0]; j++)
                known |= strcmp(name + at, per_layer[j]) == 0;
        if (!known)
            return KVA_FAIL(ld->err, KVA_EUNSUPPORTED,
                            "tensor \"%s\" is not part of a llama model we execute",
                            name);
    }
    return KVA_OK;
}

static enum kva_status load_rope_freqs(struct loader *ld, const float **inv_freq)
{
    const float *factors = NULL;

    if (kva_gguf_find(ld->g, "rope_freqs.weight")) {
        KVA_TRY(host_vector(ld, "rope_freqs.weight", ld->n_rot / 2, &factors));
        for (int i = 0; i < ld->n_rot / 2; i++)
            if (!isfinite(factors[i]) || factors[i] <= 0.0f)
                return KVA_FAIL(
                    ld->err, KVA_EFORMAT,
                    "rope_freqs.weight[%d] is %g, must be finite and above zero", i,
                    (double)factors[i]);
    }
    return kva_arch_inv_freq(ld->a, ld->theta, ld->n_rot, ld->rope_scale, factors,
                             inv_freq, ld->err);
}

static enum kva_status load(const struct kva_gguf *g, struct kva_ops *ops,
                            struct kva_arch *a, struct kva_error *err)
{
    struct loader ld = {.g = g, .ops = ops, .a = a, .err = err};
    const float *inv_freq;

    KVA_TRY(read_shape(&ld));
    KVA_TRY(read_rope(&ld));
    a->layer = kva_arena_alloc(&a->arena, (size_t)a->layers, sizeof *a->layer);
    if (!a->layer)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for %d layers", a->layers);
    for (int i = 0; i < a->layers; i++)
        a->layer[i].n_rot = ld.n_rot;
    KVA_TRY(kva_arch_check(a, err)); /* the shape, before it sizes anything */
    ld.q_rows = unpermute(a, a->heads, ld.n_rot);
    ld.k_rows = unpermute(a, a->kv_heads, ld.n_rot);
    if (!ld.q_rows || !ld.k_rows)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for the row order of Q and K");
    KVA_TRY(load_rope_freqs(&ld, &inv_freq));
    for (int i = 0; i < a->layers; i++)
        KVA_TRY(load_layer(&ld, i, inv_freq));
    KVA_TRY(vector(&ld, "output_norm.weight", a->dim, &a->out_norm));
    KVA_TRY(matrix(&ld, "token_embd.weight", a->dim, a->vocab, NULL, &a->tok_embd));
    a->lm_head = a->tok_embd;
    if (kva_gguf_find(g, "output.weight")) {
        a->lm_head = NULL;
        KVA_TRY(matrix(&ld, "output.weight", a->dim, a->vocab, NULL, &a->lm_head));
    }
    return refuse_others(&ld);
}

const struct kva_arch_desc kva_arch_llama = {.name = "llama", .load = load};
