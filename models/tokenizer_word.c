/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tokenizer_word.c - the word-level tokenizer of builtin:retrieval (retrieval-model.md
 * 2).
 *
 *     id(word) = lo + (FNV1a64(word) + k) mod n      k = 0, 1, ...: the first free or own
 * bucket
 *
 * in the range [lo, lo + n) of the word's class: value, name, or word. Twenty reserved
 * words have fixed ids. The map word <-> id belongs to one unit: it starts empty and
 * grows with what is encoded, so that every answer comes back as text. When a range is
 * full, further words share the bucket of their hash and are counted. Ids serve as the
 * buckets of an open-addressing table, so the map is one array. */
#include "models/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

enum { VOCAB = 32768, BOS = 0, EOS = 1, TEXT_MAX_BYTES = 1 << 30 };

static const char *const reserved[] = {"<bos>", "<eos>", "is", "are", "?",  ":", "=",
                                       "VAR",   ".",     ",",  ";",   "!",  "(", ")",
                                       "[",     "]",     "{",  "}",   "\"", "'"};
enum { N_RESERVED = sizeof reserved / sizeof *reserved };

enum class { VALUE, NAME, WORD, CLASSES };
static const struct {
    int lo, n;
} ranges[CLASSES] = {{256, 12288 - 256}, {12288, 14336 - 12288}, {14336, VOCAB - 14336}};

struct bucket {
    uint64_t hash;
    uint32_t at, len; /* the word in `text`; len 0: free */
};

struct words {
    struct bucket bucket[VOCAB];
    struct kva_buf text;
    uint64_t *shared; /* hashes of words without a bucket of their own */
    size_t n_shared, cap_shared;
};

static void words_free(void *state)
{
    struct words *w = state;
    if (!w)
        return;
    kva_buf_release(&w->text);
    free(w->shared);
    free(w);
}

static enum kva_status words_clone(void *state, void **out, struct kva_error *err)
{
    const struct words *w = state;
    struct words *copy = kva_calloc(1, sizeof *copy);
    *out = NULL;
    if (!copy)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for a word map");
    memcpy(copy->bucket, w->bucket, sizeof copy->bucket);
    kva_buf_init(&copy->text, TEXT_MAX_BYTES);
    kva_buf_add(&copy->text, w->text.data ? w->text.data : "", w->text.len);
    if (w->n_shared > 0) {
        copy->shared = kva_calloc(w->n_shared, sizeof *copy->shared);
        if (copy->shared)
            memcpy(copy->shared, w->shared, w->n_shared * sizeof *w->shared);
        copy->n_shared = copy->cap_shared = w->n_shared;
    }
    if (copy->text.failed || (w->n_shared > 0 && !copy->shared)) {
        words_free(copy);
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for a word map");
    }
    *out = copy;
    return KVA_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_uuid(const char *s, size_t n)
{
    if (n != 36)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool hex = is_digit(s[i]) || (s[i] >= 'a' && s[i] <= 'f');
        if (dash ? s[i] != '-' : !hex)
            return false;
    }
    return true;
}

static enum class class_of(const char *s, size_t n) {
    size_t digits = 0, capitals = 0; for (size_t i = 0; i < n; i++){
        digits += is_digit(s[i]); capitals += s[i] >= 'A' && s[i] <= 'Z';}
if (digits == n || is_uuid(s, n)) return VALUE;
return capitals == n && n >= 2 ? NAME : WORD;
}

static bool count_shared(struct words *w, uint64_t hash)
{
    for (size_t i = 0; i < w->n_shared; i++)
        if (w->shared[i] == hash)
            return true;
    if (w->n_shared == w->cap_shared) {
        size_t cap = w->cap_shared ? 2 * w->cap_shared : 64;
        uint64_t *p = kva_realloc(w->shared, cap, sizeof *p);
        if (!p)
            return false;
        w->shared = p;
        w->cap_shared = cap;
    }
    w->shared[w->n_shared++] = hash;
    return true;
}

/* The id of a word, given a bucket if it is new. */
static enum kva_status id_of(struct words *w, const char *s, size_t n, int32_t *id,
                             struct kva_error *err)
{
    for (int i = 0; i < N_RESERVED; i++)
        if (strlen(reserved[i]) == n && memcmp(reserved[i], s, n) == 0) {
            *id = i;
            return KVA_OK;
        }
    enum class c = class_of(s, n);
    uint64_t hash = kva_fnv1a64(s, n);
    int lo = ranges[c].lo, size = ranges[c].n, first = (int)(hash % (uint64_t)size);
    for (int k = 0; k < size; k++) {
        int at = lo + (first + k) % size;
        struct bucket *b = &w->bucket[at];
        if (b->len > 0) {
            if (b->hash == hash && b->len == n &&
                memcmp(w->text.data + b->at, s, n) == 0) {
                *id = at;
                return KVA_OK;
            }
            continue;
        }
        size_t begin = w->text.len;
        kva_buf_add(&w->text, s, n);
        KVA_TRY(kva_buf_status(&w->text, err));
        *b = (struct bucket){hash, (uint32_t)begin, (uint32_t)n};
        *id = at;
        return KVA_OK;
    }
    *id = lo + first;
    if (!count_shared(w, hash))
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for shared words");
    return KVA_OK;
}

/* ---- splitting ---- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool opens(char c)
{
    return c != '\0' && strchr("([{\"'", c) != NULL;
}

static bool closes(char c)
{
    return c != '\0' && strchr(".,:;!?)]}\"'", c) != NULL;
}

/* Called for each token in order. */
typedef enum kva_status token_fn(void *ctx, const char *text, size_t begin, size_t end,
                                 struct kva_error *err);

static enum kva_status each_token(const char *text, size_t n, token_fn *fn, void *ctx,
                                  struct kva_error *err)
{
    for (size_t i = 0; i < n;) {
        if (is_space(text[i])) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < n && !is_space(text[end]))
            end++;
        size_t first = i, last = end;
        while (first < last && opens(text[first]))
            first++;
        while (last > first && closes(text[last - 1]))
            last--;
        for (; i < first; i++)
            KVA_TRY(fn(ctx, text, i, i + 1, err));
        if (first < last)
            KVA_TRY(fn(ctx, text, first, last, err));
        for (i = last; i < end; i++)
            KVA_TRY(fn(ctx, text, i, i + 1, err));
    }
    return KVA_OK;
}

struct encoding {
    struct words *words;
    struct kva_tokens *out;
};

static enum kva_status encode_token(void *ctx, const char *text, size_t begin, size_t end,
                                    struct kva_error *err)
{
    struct encoding *e = ctx;
    int32_t id;
    KVA_TRY(id_of(e->words, text + begin, end - begin, &id, err));
    return kva_tokens_add(e->out, id, begin, end, err);
}

/* parse_special means nothing here: the reserved names are words like any other. */
static enum kva_status words_encode(void *state, const char *text, size_t n,
                                    bool parse_special, struct kva_tokens *out,
                                    struct kva_error *err)
{
    (void)parse_special;
    struct encoding e = {state, out};
    return each_token(text, n, encode_token, &e, err);
}

static enum kva_status count_token(void *ctx, const char *text, size_t begin, size_t end,
                                   struct kva_error *err)
{
    (void)text;
    (void)begin;
    (void)end;
    (void)err;
    ++*(size_t *)ctx;
    return KVA_OK;
}

static enum kva_status words_count(void *state, const char *text, size_t n, size_t *count,
                                   struct kva_error *err)
{
    (void)state;
    return each_token(text, n, count_token, count, err);
}

static enum kva_status words_decode(const void *state, const int32_t *ids, size_t n,
                                    struct kva_buf *out, struct kva_error *err)
{
    const struct words *w = state;
    bool first = true;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == BOS || ids[i] == EOS)
            continue; /* control tokens */
        if (!first)
            kva_buf_putc(out, ' ');
        first = false;
        const struct bucket *b = &w->bucket[ids[i]];
        if (ids[i] < N_RESERVED)
            kva_buf_puts(out, reserved[ids[i]]);
        else if (b->len > 0)
            kva_buf_add(out, w->text.data + b->at, b->len);
        else
            kva_buf_printf(out, "<%d>", ids[i]);
    }
    return KVA_OK;
}

static void words_sha256(const void *state, uint8_t out[32])
{
    static const char recipe[] =
        "kvaudit word tokenizer 1; 32768 ids; value 256 name 12288 word "
        "14336; FNV1a64, next free bucket";
    (void)state;
    kva_sha256_of(recipe, sizeof recipe - 1, out);
}

static bool words_is_eog(const void *state, int32_t id)
{
    (void)state;
    return id == EOS;
}

static uint64_t words_shared(const void *state)
{
    return ((const struct words *)state)->n_shared;
}

static const struct tokenizer_kind word_kind = {
    .clone = words_clone,
    .free = words_free,
    .encode = words_encode,
    .count = words_count,
    .decode = words_decode,
    .sha256 = words_sha256,
    .is_eog = words_is_eog,
    .shared = words_shared,
};

enum kva_status kva_tokenizer_word_new(struct kva_tokenizer **t, struct kva_error *err)
{
    struct words *w = kva_calloc(1, sizeof *w);
    *t = NULL;
    if (!w)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for a word map");
    kva_buf_init(&w->text, TEXT_MAX_BYTES);
    KVA_TRY(kva_tokenizer_wrap(&word_kind, w, t, err));
    (*t)->size = VOCAB;
    (*t)->bos = BOS;
    (*t)->add_bos = true;
    return KVA_OK;
}
