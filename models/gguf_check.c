/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gguf_check.c - refuses model files whose numbers no architecture can mean
 * (models.md 1.3).
 *
 * Runs at open over the keys that are present, A = general.architecture:
 *     1 <= layers <= 512,  H % Hkv == 0,  head dims even and <= 1024,  n_rot even and <=
 * hd, per-layer arrays as long as the model has layers, eps / theta / factor / softcap
 * finite and positive, experts used <= experts <= 1024, vocabulary as long as the
 * embedding. A wrong layer count is a known way to overrun per-layer tables, so it stops
 * here. */
#include "models/gguf_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct check {
    const struct kva_gguf *g;
    const char *file;
    char arch[64];
    char key[160];  /* the key built last */
    int64_t layers; /* 0: unknown */
    struct kva_error *err;
};

static const char *key_of(struct check *c, const char *suffix)
{
    snprintf(c->key, sizeof c->key, "%s.%s", c->arch, suffix);
    return c->key;
}

static bool integer(struct check *c, const char *suffix, int64_t *out)
{
    return kva_gguf_i64(c->g, key_of(c, suffix), out);
}

static enum kva_status range(struct check *c, const char *suffix, int64_t lo, int64_t hi)
{
    int64_t v;
    if (integer(c, suffix, &v) && (v < lo || v > hi))
        return KVA_FAIL(c->err, KVA_EFORMAT, "%s: key '%s': %lld is outside %lld..%lld",
                        c->file, c->key, (long long)v, (long long)lo, (long long)hi);
    return KVA_OK;
}

/* Keys that are a scalar for all layers or an array with one value per layer. */
static enum kva_status per_layer(struct check *c, const char *suffix)
{
    int64_t n = kva_gguf_array_len(c->g, key_of(c, suffix));
    if (n >= 0 && c->layers > 0 && n != c->layers)
        return KVA_FAIL(c->err, KVA_EFORMAT, "%s: key '%s': %lld values for %lld layers",
                        c->file, c->key, (long long)n, (long long)c->layers);
    return KVA_OK;
}

static enum kva_status real(struct check *c, const char *suffix, bool zero_is_off)
{
    double v;
    if (!kva_gguf_f64(c->g, key_of(c, suffix), &v))
        return KVA_OK;
    if (!isfinite(v) || v < 0 || (v == 0 && !zero_is_off))
        return KVA_FAIL(c->err, KVA_EFORMAT,
                        "%s: key '%s': %g must be finite and positive", c->file, c->key,
                        v);
    return KVA_OK;
}

/* Value of a scalar-or-array key at a layer; false when the key is absent. */
static bool at_layer(struct check *c, const char *suffix, int64_t layer, int64_t *out)
{
    if (integer(c, suffix, out))
        return true;
    return kva_gguf_array_i64(c->g, key_of(c, suffix), layer, out);
}

static enum kva_status heads(struct check *c)
{
    /* hybrid models write 0 KV heads for layers without a cache */
    bool hybrid = strcmp(c->arch, "qwen35") == 0;
    int64_t layers = c->layers > 0 ? c->layers : 1;
    for (int64_t i = 0; i < layers; i++) {
        int64_t h, kv;
        if (!at_layer(c, "attention.head_count", i, &h))
            return KVA_OK;
        if (h < 1 || h > INT32_MAX)
            return KVA_FAIL(c->err, KVA_EFORMAT, "%s: key '%s': %lld heads", c->file,
                            c->key, (long long)h);
        if (!at_layer(c, "attention.head_count_kv", i, &kv) || (kv == 0 && hybrid))
            continue;
        if (kv < 1 || h % kv != 0)
            return KVA_FAIL(c->err, KVA_EFORMAT,
                            "%s: key '%s': %lld query heads cannot share %lld KV heads",
                            c->file, c->key, (long long)h, (long long)kv);
    }
    return KVA_OK;
}

static enum kva_status head_dim(struct check *c, const char *suffix, int64_t v)
{
    if (v < 1 || v > GGUF_MAX_HEAD || v % 2 != 0)
        return KVA_FAIL(c->err, KVA_EFORMAT,
                        "%s: key '%s': a head of %lld dimensions (even, at most %d)",
                        c->file, key_of(c, suffix), (long long)v, GGUF_MAX_HEAD);
    return KVA_OK;
}

static enum kva_status head_dims(struct check *c)
{
    int64_t k, v, dim, h, rot;
    bool known = integer(c, "attention.key_length", &k);
    if (known)
        KVA_TRY(head_dim(c, "attention.key_length", k));
    if (integer(c, "attention.value_length", &v))
        KVA_TRY(head_dim(c, "attention.value_length", v));
    if (!known && integer(c, "embedding_length", &dim) &&
        at_layer(c, "attention.head_count", 0, &h)) {
        known = true;
        k = dim / h; /* heads() has refused h < 1 */
        KVA_TRY(head_dim(c, "embedding_length", k));
    }
    if (integer(c, "rope.dimension_count", &rot) &&
        (rot < 0 || rot % 2 != 0 || (known && rot > k)))
        return KVA_FAIL(c->err, KVA_EFORMAT,
                        "%s: key '%s': %lld rotated dimensions in a head of %lld",
                        c->file, c->key, (long long)rot, known ? (long long)k : -1LL);
    return KVA_OK;
}

static enum kva_status experts(struct check *c)
{
    int64_t used, count = 0;
    KVA_TRY(range(c, "expert_count", 0, GGUF_MAX_EXPERTS));
    integer(c, "expert_count", &count);
    if (integer(c, "expert_used_count", &used) && (used < 0 || used > count))
        return KVA_FAIL(c->err, KVA_EFORMAT, "%s: key '%s': %lld of %lld experts used",
                        c->file, c->key, (long long)used, (long long)count);
    return KVA_OK;
}

static enum kva_status vocabulary(struct check *c)
{
    int64_t tokens = kva_gguf_array_len(c->g, "tokenizer.ggml.tokens");
    if (tokens < 0)
        return KVA_OK;
    const struct kva_gguf_tensor *embd = kva_gguf_find(c->g, "token_embd.weight");
    if (embd && embd->ne[1] != (uint64_t)tokens)
        return KVA_FAIL(c->err, KVA_EFORMAT,
                        "%s: key 'tokenizer.ggml.tokens': %lld tokens, token_embd.weight "
                        "has %llu rows",
                        c->file, (long long)tokens, (unsigned long long)embd->ne[1]);
    static const char *const parallel[] = {"tokenizer.ggml.scores",
                                           "tokenizer.ggml.token_type"};
    for (size_t i = 0; i < 2; i++) {
        int64_t n = kva_gguf_array_len(c->g, parallel[i]);
        if (n >= 0 && n < tokens)
            return KVA_FAIL(c->err, KVA_EFORMAT,
                            "%s: key '%s': %lld values for %lld tokens", c->file,
                            parallel[i], (long long)n, (long long)tokens);
    }
    return KVA_OK;
}

enum kva_status kva_gguf_check_keys(const struct kva_gguf *g, const char *name,
                                    struct kva_error *err)
{
    struct check c = {.g = g, .file = name, .err = err};
    int64_t parts;
    if (kva_gguf_i64(g, "split.count", &parts) && parts > 1)
        return KVA_FAIL(
            err, KVA_EUNSUPPORTED,
            "%s: key 'split.count': one of %lld parts; merge them into one file first",
            name, (long long)parts);
    KVA_TRY(vocabulary(&c));
    const char *arch;
    size_t n;
    if (!kva_gguf_str(g, "general.architecture", &arch, &n))
        return KVA_OK; /* the loader asks for it; bare tensor files are fine for tests */
    if (n >= sizeof c.arch || memchr(arch, 0, n))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: key 'general.architecture': no usable name", name);
    memcpy(c.arch, arch, n);
    KVA_TRY(range(&c, "block_count", 1, GGUF_MAX_LAYERS));
    integer(&c, "block_count", &c.layers);
    static const char *const layered[] = {
        "feed_forward_length", "attention.head_count", "attention.head_count_kv",
        "attention.sliding_window_pattern", "attention.recurrent_layers"};
    for (size_t i = 0; i < sizeof layered / sizeof *layered; i++)
        KVA_TRY(per_layer(&c, layered[i]));
    KVA_TRY(heads(&c));
    KVA_TRY(head_dims(&c));
    KVA_TRY(experts(&c));
    static const char *const positive[] = {"attention.layer_norm_rms_epsilon",
                                           "rope.freq_base", "rope.freq_base_swa",
                                           "rope.scaling.factor", "rope.scale_linear"};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        KVA_TRY(real(&c, positive[i], false));
    KVA_TRY(real(&c, "attn_logit_softcapping", true));
    return real(&c, "final_logit_softcapping", true);
}
