/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tokenizer_internal.h - what the kinds of tokenizers share: the handle, the token list,
 * the splitter. */
#ifndef KVA_TOKENIZER_INTERNAL_H
#define KVA_TOKENIZER_INTERNAL_H

#include "models/model.h"

/* A kind of tokenizer; `state` is its own. */
struct tokenizer_kind {
    enum kva_status (*clone)(void *state, void **copy, struct kva_error *err);
    void (*free)(void *state);
    /* text is valid UTF-8 and shorter than 4 GiB */
    enum kva_status (*encode)(void *state, const char *text, size_t n, bool parse_special,
                              struct kva_tokens *out, struct kva_error *err);
    enum kva_status (*count)(void *state, const char *text, size_t n, size_t *count,
                             struct kva_error *err);
    /* raw bytes, not yet cleaned */
    enum kva_status (*decode)(const void *state, const int32_t *ids, size_t n,
                              struct kva_buf *out, struct kva_error *err);
    void (*sha256)(const void *state, uint8_t out[32]);
    bool (*is_eog)(const void *state, int32_t id);
    uint64_t (*shared)(const void *state); /* NULL: always 0 */
};

struct kva_tokenizer {
    const struct tokenizer_kind *kind;
    void *state;
    int size;
    int32_t bos; /* -1: none */
    bool add_bos;
};

/* Takes over `state`, also on failure. */
enum kva_status kva_tokenizer_wrap(const struct tokenizer_kind *kind, void *state,
                                   struct kva_tokenizer **t, struct kva_error *err);
enum kva_status kva_tokens_add(struct kva_tokens *t, int32_t id, size_t begin, size_t end,
                               struct kva_error *err);

enum kva_status kva_tokenizer_bpe_new(const struct kva_gguf *g, struct kva_tokenizer **t,
                                      struct kva_error *err);

/* ---- pre-tokenizer (tokenizer_pre.c) ---- */

struct pre_facts {
    bool ignore_merges; /* a piece that is a whole vocabulary entry is not merged */
    bool add_bos;       /* when the file does not say */
};

struct presplit; /* compiled expressions */

/* `name` is tokenizer.ggml.pre, NULL when the file has none. Unknown names and those that
 * need a normaliser are refused. */
enum kva_status kva_presplit_new(const char *name, size_t n, struct presplit **p,
                                 struct pre_facts *facts, struct kva_error *err);
void kva_presplit_free(struct presplit *p);

struct pieces {
    size_t *begin, *end; /* byte ranges in the text given to kva_presplit_run */
    size_t n, cap;
};
void kva_pieces_release(struct pieces *p);
/* Replaces `out` by the pieces of text[0, n), valid UTF-8; `spare` is scratch of the
 * caller. */
enum kva_status kva_presplit_run(const struct presplit *p, const char *text, size_t n,
                                 struct pieces *out, struct pieces *spare,
                                 struct kva_error *err);

#endif
