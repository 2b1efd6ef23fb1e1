/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tokenizer.c - one handle over the kinds of tokenizers, and the list of tokens they
 * fill.
 *
 * The kind is chosen by the file's tokenizer.ggml.model. Text is checked to be valid
 * UTF-8 here once, since the regular expressions run without checks of their own. */
#include "models/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

enum kva_status kva_tokens_add(struct kva_tokens *t, int32_t id, size_t begin, size_t end,
                               struct kva_error *err)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        int32_t *ids = kva_realloc(t->id, cap, sizeof *ids);
        if (ids)
            t->id = ids;
        uint32_t *begins = ids ? kva_realloc(t->begin, cap, sizeof *begins) : NULL;
        if (begins)
            t->begin = begins;
        uint32_t *ends = begins ? kva_realloc(t->end, cap, sizeof *ends) : NULL;
        if (!ends)
            return KVA_FAIL(err, KVA_ENOMEM, "no memory for %zu tokens", cap);
        t->end = ends;
        t->cap = cap;
    }
    t->id[t->n] = id;
    t->begin[t->n] = (uint32_t)begin;
    t->end[t->n] = (uint32_t)end;
    t->n++;
    return KVA_OK;
}

void kva_tokens_release(struct kva_tokens *t)
{
    if (!t)
        return;
    free(t->id);
    free(t->begin);
    free(t->end);
    memset(t, 0, sizeof *t);
}

enum kva_status kva_tokenizer_wrap(const struct tokenizer_kind *kind, void *state,
                                   struct kva_tokenizer **out, struct kva_error *err)
{
    struct kva_tokenizer *t = kva_calloc(1, sizeof *t);
    *out = t;
    if (!t) {
        kind->free(state);
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for a tokenizer");
    }
    t->kind = kind;
    t->state = state;
    t->bos = -1;
    return KVA_OK;
}

enum kva_status kva_tokenizer_from_gguf(const struct kva_gguf *g,
                                        struct kva_tokenizer **t, struct kva_error *err)
{
    const char *model;
    size_t n;
    *t = NULL;
    if (!kva_gguf_str(g, "tokenizer.ggml.model", &model, &n))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "the file has no tokenizer (key tokenizer.ggml.model)");
    if (n == 4 && memcmp(model, "gpt2", 4) == 0)
        return kva_tokenizer_bpe_new(g, t, err);
    if (n == 5 && memcmp(model, "llama", 5) == 0)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "SentencePiece vocabularies are not supported yet");
    return KVA_FAIL(err, KVA_EUNSUPPORTED, "tokenizer model '%.*s' is not supported",
                    (int)(n < 40 ? n : 40), model);
}

enum kva_status kva_tokenizer_clone(const struct kva_tokenizer *t,
                                    struct kva_tokenizer **copy, struct kva_error *err)
{
    void *state;
    *copy = NULL;
    KVA_TRY(t->kind->clone(t->state, &state, err));
    KVA_TRY(kva_tokenizer_wrap(t->kind, state, copy, err));
    (*copy)->size = t->size;
    (*copy)->bos = t->bos;
    (*copy)->add_bos = t->add_bos;
    return KVA_OK;
}

void kva_tokenizer_free(struct kva_tokenizer *t)
{
    if (!t)
        return;
    t->kind->free(t->state);
    free(t);
}

static enum kva_status check_text(const char *text, size_t n, struct kva_error *err)
{
    if (n > UINT32_MAX)
        return KVA_FAIL(err, KVA_EINVALID, "a text of %zu bytes is too long to tokenise",
                        n);
    for (size_t i = 0; i < n;) {
        if ((signed char)text[i] >= 0) {
            i++;
            continue;
        }
        int len = kva_utf8_len(text + i, n - i);
        if (len == 0)
            return KVA_FAIL(err, KVA_EINVALID, "the text is not valid UTF-8 at byte %zu",
                            i);
        i += (size_t)len;
    }
    return KVA_OK;
}

enum kva_status kva_tokenizer_encode(struct kva_tokenizer *t, const char *text, size_t n,
                                     bool parse_special, struct kva_tokens *out,
                                     struct kva_error *err)
{
    KVA_TRY(check_text(text, n, err));
    return t->kind->encode(t->state, text, n, parse_special, out, err);
}

enum kva_status kva_tokenizer_count(const struct kva_tokenizer *t, const char *text,
                                    size_t n, size_t *count, struct kva_error *err)
{
    *count = 0;
    KVA_TRY(check_text(text, n, err));
    return t->kind->count(t->state, text, n, count, err);
}

enum kva_status kva_tokenizer_decode(const struct kva_tokenizer *t, const int32_t *ids,
                                     size_t n, struct kva_buf *out, struct kva_error *err)
{
    enum kva_status rc;
    struct kva_buf raw;
    kva_buf_init(&raw, 0);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->size) {
            rc = KVA_FAIL(err, KVA_EINVALID,
                          "token id %d is outside the vocabulary of %d", ids[i], t->size);
            goto out;
        }
    KVA_GO(t->kind->decode(t->state, ids, n, &raw, err));
    KVA_GO(kva_buf_status(&raw, err));
    /* characters may span tokens, so only the whole is cleaned */
    kva_utf8_clean(raw.data ? raw.data : "", raw.len, out);
    KVA_GO(kva_buf_status(out, err));
out:
    kva_buf_release(&raw);
    return rc;
}

int kva_tokenizer_size(const struct kva_tokenizer *t)
{
    return t->size;
}

int32_t kva_tokenizer_bos(const struct kva_tokenizer *t)
{
    return t->bos;
}

bool kva_tokenizer_add_bos(const struct kva_tokenizer *t)
{
    return t->add_bos;
}

bool kva_tokenizer_is_eog(const struct kva_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->size && t->kind->is_eog(t->state, id);
}

void kva_tokenizer_sha256(const struct kva_tokenizer *t, uint8_t out[32])
{
    t->kind->sha256(t->state, out);
}

uint64_t kva_tokenizer_shared(const struct kva_tokenizer *t)
{
    return t->kind->shared ? t->kind->shared(t->state) : 0;
}
