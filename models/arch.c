/* SPDX-License-Identifier: GPL-3.0-or-later */
/* arch.c - the table of model families, and what their loaders share.
 *
 * Every number taken from a file is range-checked here, before it sizes anything
 * (models.md 1.3), and every message prints both what was found and what the architecture
 * predicts. */
#include "models/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#define ARCH(name) extern const struct kva_arch_desc kva_arch_##name;
#include "models/archs.def"
#undef ARCH

static const struct kva_arch_desc *const families[] = {
#define ARCH(name) &kva_arch_##name,
#include "models/archs.def"
#undef ARCH
};

#define N_FAMILIES (sizeof families / sizeof families[0])

void kva_arch_init(struct kva_arch *a, const char *name)
{
    memset(a, 0, sizeof *a);
    kva_arena_init(&a->arena);
    snprintf(a->name, sizeof a->name, "%s", name);
    a->embd_scale = 1.0f;
}

void kva_arch_release(struct kva_arch *a, struct kva_ops *ops)
{
    for (int i = 0; a->layer && i < a->layers; i++) {
        struct kva_layer *l = &a->layer[i];
        struct kva_weight *w[] = {l->q, l->k, l->v, l->o, l->gate, l->up, l->down};

        for (size_t j = 0; j < sizeof w / sizeof w[0]; j++)
            if (w[j])
                ops->weight_free(ops, w[j]);
    }
    if (a->lm_head && a->lm_head != a->tok_embd)
        ops->weight_free(ops, a->lm_head);
    if (a->tok_embd)
        ops->weight_free(ops, a->tok_embd);
    kva_arena_release(&a->arena);
    memset(a, 0, sizeof *a);
}

uint64_t kva_arch_bytes(const struct kva_arch *a, const struct kva_ops *ops)
{
    uint64_t n = a->arena.used_bytes;

    for (int i = 0; i < a->layers; i++) {
        const struct kva_layer *l = &a->layer[i];
        const struct kva_weight *w[] = {l->q, l->k, l->v, l->o, l->gate, l->up, l->down};

        for (size_t j = 0; j < sizeof w / sizeof w[0]; j++)
            if (w[j])
                n += ops->weight_bytes(w[j]);
    }
    n += ops->weight_bytes(a->tok_embd);
    if (a->lm_head != a->tok_embd)
        n += ops->weight_bytes(a->lm_head);
    return n;
}

enum kva_status kva_arch_load(const struct kva_gguf *g, struct kva_ops *ops,
                              struct kva_arch *a, struct kva_error *err)
{
    const char *s;
    size_t n;
    char name[32], known[256] = "";
    size_t used = 0;

    if (!kva_gguf_str(g, "general.architecture", &s, &n))
        return KVA_FAIL(err, KVA_EFORMAT, "general.architecture is missing");
    snprintf(name, sizeof name, "%.*s", n < 31 ? (int)n : 31, s);
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strlen(families[i]->name) == n && memcmp(families[i]->name, s, n) == 0) {
            kva_arch_init(a, name);
            KVA_TRY(families[i]->load(g, ops, a, err));
            return kva_arch_check(a, err);
        }
        int w = snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                         families[i]->name);
        if (w > 0 && used + (size_t)w < sizeof known)
            used += (size_t)w;
    }
    return KVA_FAIL(err, KVA_EUNSUPPORTED, "architecture \"%s\" is not one of: %s", name,
                    known);
}

static enum kva_status check_layer(const struct kva_arch *a, int i, struct kva_error *err)
{
    const struct kva_layer *l = &a->layer[i];
    const char *what = NULL;

    if (l->window)
        what = "a sliding window";
    else if (l->attn_softcap != 0.0f)
        what = "an attention softcap";
    else if (l->q_norm || l->k_norm)
        what = "query and key norms";
    else if (l->q_bias || l->k_bias || l->v_bias || l->o_bias)
        what = "attention biases";
    else if (l->sinks)
        what = "attention sinks";
    if (what)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "%s: layer %d has %s, which is not executed yet", a->name, i,
                        what);
    if (l->n_rot < 2 || l->n_rot % 2 || l->n_rot > a->head_dim)
        return KVA_FAIL(
            err, KVA_EFORMAT,
            "%s: %d rotated dimensions; must be even and at most the head's %d", a->name,
            l->n_rot, a->head_dim);
    return KVA_OK;
}

enum kva_status kva_arch_check(const struct kva_arch *a, struct kva_error *err)
{
    if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: %d heads cannot share %d KV heads",
                        a->name, a->heads, a->kv_heads);
    if (a->head_dim < 2 || a->head_dim % 2 || a->head_dim > 1024 || a->v_dim < 1 ||
        a->v_dim > 1024)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: head dimensions %d and %d; must be even and at most 1024",
                        a->name, a->head_dim, a->v_dim);
    if (a->final_softcap != 0.0f)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "%s: a final softcap is not executed yet",
                        a->name);
    for (int i = 0; i < a->layers; i++)
        KVA_TRY(check_layer(a, i, err));
    return KVA_OK;
}

enum kva_status kva_arch_suits(const struct kva_arch *a, const struct kva_ops *ops,
                               struct kva_error *err)
{
    if (ops->most_dim > 0 && (a->head_dim > ops->most_dim || a->v_dim > ops->most_dim))
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "%s: heads of %d and %d dimensions; backend %s has attention up "
                        "to %d",
                        a->name, a->head_dim, a->v_dim, ops->backend, ops->most_dim);
    return KVA_OK;
}

enum kva_status kva_arch_int(const struct kva_gguf *g, const char *arch, const char *key,
                             bool required, int64_t min, int64_t max, int *out,
                             struct kva_error *err)
{
    char full[96];
    int64_t v;

    snprintf(full, sizeof full, "%s.%s", arch, key);
    if (!kva_gguf_i64(g, full, &v)) {
        if (required || kva_gguf_has(g, full))
            return KVA_FAIL(err, KVA_EFORMAT, "%s is missing or not an integer", full);
        return KVA_OK;
    }
    if (v < min || v > max)
        return KVA_FAIL(err, KVA_EFORMAT, "%s is %lld, must be in %lld..%lld", full,
                        (long long)v, (long long)min, (long long)max);
    *out = (int)v;
    return KVA_OK;
}

enum kva_status kva_arch_ints(const struct kva_gguf *g, const char *arch, const char *key,
                              bool required, int64_t min, int64_t max, int layers,
                              int *out, struct kva_error *err)
{
    char full[96];
    int one = out[0];
    int64_t n;

    snprintf(full, sizeof full, "%s.%s", arch, key);
    n = kva_gguf_array_len(g, full);
    if (n < 0) {
        KVA_TRY(kva_arch_int(g, arch, key, required, min, max, &one, err));
        for (int i = 0; i < layers; i++)
            out[i] = one;
        return KVA_OK;
    }
    if (n != layers)
        return KVA_FAIL(err, KVA_EFORMAT, "%s has %lld values for %d layers", full,
                        (long long)n, layers);
    for (int i = 0; i < layers; i++) {
        int64_t v;

        if (!kva_gguf_array_i64(g, full, i, &v) || v < min || v > max)
            return KVA_FAIL(err, KVA_EFORMAT, "%s[%d] must be an integer in %lld..%lld",
                            full, i, (long long)min, (long long)max);
        out[i] = (int)v;
    }
    return KVA_OK;
}

enum kva_status kva_arch_real(const struct kva_gguf *g, const char *arch, const char *key,
                              bool required, double *out, struct kva_error *err)
{
    char full[96];
    double v;

    snprintf(full, sizeof full, "%s.%s", arch, key);
    if (!kva_gguf_f64(g, full, &v)) {
        if (required || kva_gguf_has(g, full))
            return KVA_FAIL(err, KVA_EFORMAT, "%s is missing or not a number", full);
        return KVA_OK;
    }
    if (!isfinite(v) || v <= 0.0)
        return KVA_FAIL(err, KVA_EFORMAT, "%s is %g, must be finite and above zero", full,
                        v);
    *out = v;
    return KVA_OK;
}

static void shape_text(const struct kva_gguf_tensor *t, char *out, size_t n)
{
    size_t used = 0;

    out[0] = 0;
    for (int i = 0; i < t->n_dims; i++) {
        int w = snprintf(out + used, n - used, "%s%llu", i ? ", " : "",
                         (unsigned long long)t->ne[i]);
        if (w < 0 || used + (size_t)w >= n)
            return;
        used += (size_t)w;
    }
}

enum kva_status kva_arch_tensor(const struct kva_gguf *g, const char *name, uint64_t ne0,
                                uint64_t ne1, const struct kva_gguf_tensor **t,
                                struct kva_error *err)
{
    const struct kva_gguf_tensor *f = kva_gguf_find(g, name);
    char have[96];

    if (!f)
        return KVA_FAIL(err, KVA_EFORMAT, "tensor \"%s\" is missing", name);
    /* trailing dimensions of one are the same shape */
    if (f->ne[0] != ne0 || f->ne[1] != (ne1 ? ne1 : 1) || f->ne[2] != 1 ||
        f->ne[3] != 1) {
        shape_text(f, have, sizeof have);
        if (ne1)
            return KVA_FAIL(err, KVA_EFORMAT,
                            "tensor \"%s\" has shape {%s}, expected {%llu, %llu}", name,
                            have, (unsigned long long)ne0, (unsigned long long)ne1);
        return KVA_FAIL(err, KVA_EFORMAT, "tensor \"%s\" has shape {%s}, expected {%llu}",
                        name, have, (unsigned long long)ne0);
    }
    *t = f;
    return KVA_OK;
}

enum kva_status kva_arch_weight(struct kva_ops *ops, const struct kva_gguf_tensor *t,
                                int row0, int out, const int32_t *row_of,
                                struct kva_weight **w, struct kva_error *err)
{
    const struct kva_type_info *info = kva_type_get((uint32_t)t->type);
    size_t row_bytes;

    if (!info)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "tensor \"%s\": type %s", t->name,
                        kva_type_name((uint32_t)t->type));
    row_bytes =
        (size_t)t->ne[0] / (size_t)info->block_elements * (size_t)info->block_bytes;
    enum kva_status rc =
        ops->weight_new(ops, t->type, (const uint8_t *)t->data + (size_t)row0 * row_bytes,
                        out, (int)t->ne[0], row_of, w, err);
    if (rc != KVA_OK)
        kva_context(err, "tensor \"%s\"", t->name);
    return rc;
}

enum kva_status kva_arch_vector(struct kva_arch *a, const struct kva_gguf_tensor *t,
                                const float **v, struct kva_error *err)
{
    float *f = kva_arena_alloc(&a->arena, (size_t)t->n_elements, sizeof *f);

    if (!f)
        return KVA_FAIL(err, KVA_ENOMEM, "tensor \"%s\": out of memory", t->name);
    kva_dequant(t->type, t->data, (size_t)t->n_elements, f);
    *v = f;
    return KVA_OK;
}

enum kva_status kva_arch_inv_freq(struct kva_arch *a, double theta, int n_rot,
                                  double scale, const float *factors, const float **inv,
                                  struct kva_error *err)
{
    float *f = kva_arena_alloc(&a->arena, (size_t)n_rot / 2, sizeof *f);

    if (!f)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for rotary frequencies");
    for (int i = 0; i < n_rot / 2; i++) {
        double x = pow(theta, -2.0 * i / n_rot) / scale;

        f[i] = (float)(factors ? x / (double)factors[i] : x);
    }
    *inv = f;
    return KVA_OK;
}
