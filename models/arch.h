/* SPDX-License-Identifier: GPL-3.0-or-later */
/* arch.h - the canonical layer description every model file is turned into (internal).
 *
 * Everything a forward pass needs is data here; the engine has no function per family. A
 * generic layer is (models.md 3.2)
 *
 *     h  = x if no pre-attention norm else RMS(x; attn_norm)
 *     a  = Wo attention(h)
 *     x1 = x + (a if no post-attention norm else RMS(a; post_attn_norm))
 *     h2 = x1 if no pre-FFN norm else RMS(x1; ffn_norm)
 *     f  = down(silu(gate h2) * up h2)
 *     x2 = x1 + (f if no post-FFN norm else RMS(f; post_ffn_norm))
 *
 * Positions are folded into inv_freq and mscale at load time, per layer; rotation is
 * half-split everywhere (rows un-permuted at load). A NULL pointer, a zero window and a
 * zero softcap mean "this layer has none". The engine refuses what it does not execute
 * (kva_arch_check), so that a family can be described before all of it runs.
 *
 * A new family: models/arch_x.c with one `kva_arch_x` descriptor, one line in archs.def.
 */
#ifndef KVA_ARCH_H
#define KVA_ARCH_H

#include "models/model.h"

#define KVA_MAX_LAYERS 512

/* W[out][in] in the backend's layout and how many elements it has. */
struct kva_layer {
    int ffn;               /* width of the FFN */
    int window;            /* tokens visible including the own position; 0: all */
    float attn_softcap;    /* c in c * tanh(s / c); 0: none */
    int n_rot;             /* rotated dimensions of a head, even */
    const float *inv_freq; /* [n_rot / 2] computed in double */
    float mscale;          /* multiplies cos and sin */

    /* norm weights; NULL: no such norm. [dim], q_norm and k_norm [head_dim] or the whole
     * row */
    const float *attn_norm, *post_attn_norm, *ffn_norm, *post_ffn_norm;
    const float *q_norm, *k_norm;
    bool qk_norm_row; /* q_norm and k_norm run over the whole row, not per head */
    const float *q_bias, *k_bias, *v_bias, *o_bias; /* NULL: none */
    const float *sinks;                             /* [heads] or NULL */

    struct kva_weight *q, *k, *v, *o; /* [heads*head_dim][dim], ..., [dim][heads*v_dim] */
    struct kva_weight *gate, *up, *down; /* [ffn][dim] twice, [dim][ffn] */
};

struct kva_arch {
    char name[32];
    int layers, dim, heads, kv_heads, head_dim, v_dim, ffn /* widest */, vocab, ctx_train;
    float eps;
    float embd_scale, score_scale, final_softcap;
    struct kva_weight *tok_embd, *lm_head; /* lm_head == tok_embd when tied */
    const float *out_norm;                 /* [dim] */
    struct kva_layer *layer;               /* [layers], in the arena */
    struct kva_arena arena;                /* norms, frequencies, the layer table */
};

struct kva_arch_desc {
    const char *name; /* general.architecture */
    /* Fills `a` (initialised, name set). On failure the caller frees what was made. */
    enum kva_status (*load)(const struct kva_gguf *g, struct kva_ops *ops,
                            struct kva_arch *a, struct kva_error *err);
};

/* Loads by general.architecture; KVA_EUNSUPPORTED prints the known ones. */
enum kva_status kva_arch_load(const struct kva_gguf *g, struct kva_ops *ops,
                              struct kva_arch *a, struct kva_error *err);
void kva_arch_init(struct kva_arch *a, const char *name);
void kva_arch_release(struct kva_arch *a, struct kva_ops *ops);
/* KVA_EUNSUPPORTED, naming it, when a layer needs something the engine does not execute;
 * shapes and numbers outside models.md 1.3 are KVA_EFORMAT. */
enum kva_status kva_arch_check(const struct kva_arch *a, struct kva_error *err);
/* Refuses what this backend cannot execute. */
enum kva_status kva_arch_suits(const struct kva_arch *a, const struct kva_ops *ops,
                               struct kva_error *err);
/* Bytes the backend owns for the weights, plus norms and tables. */
uint64_t kva_arch_bytes(const struct kva_arch *a, const struct kva_ops *ops);

/* ---- helpers of the loaders ---- */

/* "<arch>.<key>" as an integer within [min, max]. *out keeps its value (the default) when
 * the key is absent and `required` is false. */
enum kva_status kva_arch_int(const struct kva_gguf *g, const char *arch, const char *key,
                             bool required, int64_t min, int64_t max, int *out,
                             struct kva_error *err);
/* The same key as a scalar, or as an array of one value a layer: out[layers]. */
enum kva_status kva_arch_ints(const struct kva_gguf *g, const char *arch, const char *key,
                              bool required, int64_t min, int64_t max, int layers,
                              int *out, struct kva_error *err);
/* A finite number above zero. */
enum kva_status kva_arch_real(const struct kva_gguf *g, const char *arch, const char *key,
                              bool required, double *out, struct kva_error *err);
/* The tensor, whose shape must be {ne0, ne1} (ne1 = 0: one dimension). Absent:
 * KVA_EFORMAT. */
enum kva_status kva_arch_tensor(const struct kva_gguf *g, const char *name, uint64_t ne0,
                                uint64_t ne1, const struct kva_gguf_tensor **t,
                                struct kva_error *err);
/* Rows row0 .. row0+out-1 of a matrix as a weight. */
enum kva_status kva_arch_weight(struct kva_ops *ops, const struct kva_gguf_tensor *t,
                                int row0, int out, const int32_t *row_of,
                                struct kva_weight **w, struct kva_error *err);
/* A vector in f32, in the arena. */
enum kva_status kva_arch_vector(struct kva_arch *a, const struct kva_gguf_tensor *t,
                                const float **v, struct kva_error *err);
/* inv[i] = theta^(-2i/n_rot) / scale / (factors[i] or 1), i < n_rot/2 */
enum kva_status kva_arch_inv_freq(struct kva_arch *a, double theta, int n_rot,
                                  double scale, const float *factors, const float **inv,
                                  struct kva_error *err);

#endif
