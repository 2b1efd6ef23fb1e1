/* SPDX-License-Identifier: GPL-3.0-or-later */
/* model.c - opening a model: file or builtin, tokenizer, chat family, facts, hash.
 *
 * Files stay mapped while the model is open, since a backend may point into them. The
 * SHA-256 is computed when somebody asks: of the file bytes, or for computed weights of
 * the weights. */
#include "models/model_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kva_status new_model(const char *path, const struct kva_model_opts *opts,
                                 struct kva_model **out, struct kva_error *err)
{
    struct kva_model *m = kva_calloc(1, sizeof *m);
    const char *backend = opts && opts->backend ? opts->backend : "cpu";
    const char *numerics = opts && opts->numerics ? opts->numerics : "f32";
    enum kva_status rc;

    if (!m)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for a model");
    kva_arch_init(&m->arch, "");
    kva_buf_init(&m->file, 0);
    m->path = kva_calloc(strlen(path) + 1, 1);
    if (!m->path) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory for a model");
        goto out;
    }
    memcpy(m->path, path, strlen(path));
    KVA_GO(kva_ops_open(backend, numerics, opts && opts->threads > 0 ? opts->threads : 1,
                        &m->ops, err));
    kva_lend_init(m);
    *out = m;
    return KVA_OK;
out:
    kva_model_close(m);
    return rc;
}

void kva_model_close(struct kva_model *m)
{
    if (!m)
        return;
    kva_lend_release(m);
    if (m->ops)
        kva_arch_release(&m->arch, m->ops);
    m->step.m = m;
    kva_step_release(&m->step);
    kva_tokenizer_free(m->tok);
    kva_gguf_close(m->gguf);
    kva_buf_release(&m->file);
    free(m->computed.block);
    if (m->ops)
        kva_ops_close(m->ops);
    free(m->path);
    free(m);
}

/* Explicit family, else by the markers of the template; `text` NULL: no template. */
static enum kva_status pick_chat(struct kva_model *m, const char *family,
                                 const char *text, size_t n, struct kva_error *err)
{
    if (family) {
        m->chat = kva_chat_by_name(family);
        if (!m->chat) {
            const char *near = kva_nearest(family, kva_chat_names());

            return KVA_FAIL(err, KVA_EINVALID, "unknown chat family \"%s\"%s%s%s", family,
                            near ? ", did you mean \"" : "", near ? near : "",
                            near ? "\"?" : "");
        }
    } else {
        m->chat = kva_chat_detect(text ? text : "", text ? n : 0, m->arch.name);
    }
    return KVA_OK;
}

static void fill_shape(struct kva_model *m)
{
    struct kva_model_info *i = &m->info;
    const struct kva_arch *a = &m->arch;

    snprintf(i->arch, sizeof i->arch, "%s", a->name);
    i->layers = a->layers;
    i->dim = a->dim;
    i->heads = a->heads;
    i->kv_heads = a->kv_heads;
    i->head_dim = a->head_dim;
    i->v_dim = a->v_dim;
    i->ffn = a->ffn;
    i->vocab = a->vocab;
    i->ctx_train = a->ctx_train;
    i->weight_bytes = kva_arch_bytes(a, m->ops);
}

/* params: all elements of the file; wtype: the type that holds most of them. */
static void fill_file_facts(struct kva_model *m)
{
    uint64_t by_type[64] = {0}, most = 0;
    const char *name;
    size_t n;
    struct kva_model_info *info = &m->info;

    for (int i = 0; i < kva_gguf_tensors(m->gguf); i++) {
        const struct kva_gguf_tensor *t = kva_gguf_tensor_at(m->gguf, i);

        info->params += t->n_elements;
        if ((unsigned)t->type < 64)
            by_type[t->type] += t->n_elements;
    }
    for (unsigned i = 0; i < 64; i++)
        if (by_type[i] > most) {
            most = by_type[i];
            snprintf(info->wtype, sizeof info->wtype, "%s", kva_type_name(i));
        }
    info->file_bytes = kva_gguf_file_bytes(m->gguf);
    if (kva_gguf_str(m->gguf, "general.name", &name, &n) && n > 0) {
        snprintf(info->name, sizeof info->name, "%.*s", n < 127 ? (int)n : 127, name);
    } else {
        name = strrchr(m->path, '/');
        snprintf(info->name, sizeof info->name, "%s", name ? name + 1 : m->path);
    }
}

/* The part that files on disk and files in memory share; m->gguf is open. */
static enum kva_status load_gguf(struct kva_model *m, const struct kva_model_opts *opts,
                                 struct kva_error *err)
{
    const char *text = NULL;
    size_t n = 0;

    if (opts && opts->check_tensors)
        KVA_TRY(kva_gguf_check_tensors(m->gguf, err));
    KVA_TRY(kva_arch_load(m->gguf, m->ops, &m->arch, err));
    KVA_TRY(kva_arch_suits(&m->arch, m->ops, err));
    KVA_TRY(kva_tokenizer_from_gguf(m->gguf, &m->tok, err));
    if (kva_tokenizer_size(m->tok) != m->arch.vocab)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%d tokens in the vocabulary, %d rows in token_embd",
                        kva_tokenizer_size(m->tok), m->arch.vocab);
    if (kva_gguf_str(m->gguf, "tokenizer.chat_template", &text, &n))
        kva_sha256_of(text, n, m->info.template_sha256);
    else
        text = NULL;
    KVA_TRY(pick_chat(m, opts ? opts->chat : NULL, text, n, err));
    fill_shape(m);
    fill_file_facts(m);
    return KVA_OK;
}

enum kva_status kva_model_from_bytes(struct kva_buf *file, const char *name,
                                     const struct kva_model_opts *opts,
                                     struct kva_model **out, struct kva_error *err)
{
    struct kva_model *m = NULL;
    enum kva_status rc;

    KVA_GO(new_model(name, opts, &m, err));
    KVA_GO(
        kva_gguf_parse(file->data, file->len, name, &m->gguf, err)); /* names the file */
    rc = load_gguf(m, opts, err);
    if (rc != KVA_OK) {
        kva_context(err, "%s", name);
        goto out;
    }
    m->file = *file;
    kva_buf_init(file, 0);
    *out = m;
    return KVA_OK;
out:
    kva_model_close(m);
    return rc;
}

enum kva_status kva_model_retrieval(double theta, const struct kva_model_opts *opts,
                                    struct kva_model **out, struct kva_error *err)
{
    struct kva_model *m = NULL;
    enum kva_status rc;

    KVA_GO(new_model("builtin:retrieval", opts, &m, err));
    KVA_GO(kva_retrieval_build(&m->computed, err));
    KVA_GO(kva_retrieval_arch(&m->computed, theta, m->ops, &m->arch, err));
    KVA_GO(kva_arch_suits(&m->arch, m->ops, err));
    KVA_GO(kva_tokenizer_word_new(&m->tok, err));
    KVA_GO(pick_chat(m, opts && opts->chat ? opts->chat : "none", NULL, 0, err));
    fill_shape(m);
    snprintf(m->info.name, sizeof m->info.name, "builtin:retrieval");
    snprintf(m->info.wtype, sizeof m->info.wtype, "F32");
    m->info.params = m->computed.n;
    *out = m;
    return KVA_OK;
out:
    kva_context(err, "builtin:retrieval");
    kva_model_close(m);
    return rc;
}

static enum kva_status open_tiny(const struct kva_model_opts *opts,
                                 struct kva_model **out, struct kva_error *err)
{
    struct kva_model_opts o = opts ? *opts : (struct kva_model_opts){0};
    struct kva_buf file;
    enum kva_status rc;

    if (!o.chat)
        o.chat = "none"; /* no template to look at, and no reason to warn about it */
    kva_buf_init(&file, 0);
    KVA_GO(kva_tiny_build(NULL, &file, err));
    KVA_GO(kva_model_from_bytes(&file, "builtin:tiny-llama", &o, out, err));
    snprintf((*out)->info.name, sizeof(*out)->info.name, "builtin:tiny-llama");
out:
    kva_buf_release(&file);
    return rc;
}

enum kva_status kva_model_open(const char *path, const struct kva_model_opts *opts,
                               struct kva_model **out, struct kva_error *err)
{
    struct kva_model *m = NULL;
    enum kva_status rc;

    if (strcmp(path, "builtin:retrieval") == 0)
        return kva_model_retrieval(0.0, opts, out, err);
    if (strcmp(path, "builtin:tiny-llama") == 0)
        return open_tiny(opts, out, err);
    if (strncmp(path, "builtin:", 8) == 0)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "no model \"%s\"; there are builtin:retrieval and builtin:tiny-llama", path);
    KVA_GO(new_model(path, opts, &m, err));
    KVA_GO(kva_gguf_open(path, &m->gguf, err)); /* its messages name the file */
    rc = load_gguf(m, opts, err);
    if (rc != KVA_OK) {
        kva_context(err, "%s", path);
        goto out;
    }
    *out = m;
    return KVA_OK;
out:
    kva_model_close(m);
    return rc;
}

const struct kva_model_info *kva_model_info(const struct kva_model *m)
{
    return &m->info;
}

struct kva_ops *kva_model_ops(const struct kva_model *m)
{
    return m->ops;
}

const struct kva_tokenizer *kva_model_tokenizer(const struct kva_model *m)
{
    return m->tok;
}

const struct kva_chat *kva_model_chat(const struct kva_model *m)
{
    return m->chat;
}

float kva_model_score_scale(const struct kva_model *m)
{
    return m->arch.score_scale;
}

float kva_model_attn_softcap(const struct kva_model *m)
{
    float most = 0;

    for (int l = 0; l < m->arch.layers; l++)
        most =
            m->arch.layer[l].attn_softcap > most ? m->arch.layer[l].attn_softcap : most;
    return most;
}

enum kva_status kva_model_sha256(struct kva_model *m, uint8_t out[32],
                                 struct kva_error *err)
{
    struct kva_sha256 h;

    if (!m->sha256_known) {
        if (m->computed.block) {
            kva_sha256_of(m->computed.block, m->computed.n * sizeof(float),
                          m->info.sha256);
        } else if (m->file.len) {
            kva_sha256_of(m->file.data, m->file.len, m->info.sha256);
        } else {
            static const size_t step = 1 << 20;
            FILE *f = fopen(m->path, "rb");
            uint8_t *part = kva_calloc(step, 1);
            size_t n;
            bool bad = !f || !part;

            kva_sha256_init(&h);
            while (!bad && (n = fread(part, 1, step, f)) > 0)
                kva_sha256_add(&h, part, n);
            bad = bad || ferror(f);
            if (f)
                fclose(f);
            free(part);
            if (bad)
                return KVA_FAIL(err, KVA_EIO, "cannot read %s", m->path);
            kva_sha256_end(&h, m->info.sha256);
        }
        m->sha256_known = true;
    }
    memcpy(out, m->info.sha256, 32);
    return KVA_OK;
}

uint64_t kva_model_scratch_bytes(const struct kva_model *m)
{
    return m->step.slab_bytes + m->step.books_bytes;
}
