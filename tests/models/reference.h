/* SPDX-License-Identifier: GPL-3.0-or-later */
/* reference.h - finds the optional inputs of the model tests: reference data and the real
 * file. */
#ifndef KVA_TEST_REFERENCE_H
#define KVA_TEST_REFERENCE_H

#include "models/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SMOLLM2_FILE "SmolLM2-135M-Instruct.Q4_1.gguf"

/* Path of a file of the shared data, or skips the test aloud. */
static inline const char *reference_file(const char *name)
{
    static char path[4096];
    const char *dir = getenv("KVAUDIT_SHARED");
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "../shared/data", name);
    if (access(path, R_OK) != 0) {
        print_message("SKIP: %s is absent (set KVAUDIT_SHARED)\n", path);
        skip();
    }
    return path;
}

/* Path of the real model, or NULL. */
static inline const char *smollm2_path(void)
{
    static char path[4096];
    struct kva_buf dir;
    kva_buf_init(&dir, 0);
    if (kva_cache_dir(&dir, NULL) != KVA_OK)
        return NULL;
    snprintf(path, sizeof path, "%s/models/" SMOLLM2_FILE, dir.data);
    kva_buf_release(&dir);
    return access(path, R_OK) == 0 ? path : NULL;
}

/* The tokenizer of the real model, or skips the test aloud. */
static inline struct kva_tokenizer *smollm2_tokenizer(void)
{
    const char *path = smollm2_path();
    if (!path) {
        print_message("SKIP: models/" SMOLLM2_FILE " is not in the cache directory\n");
        skip();
    }
    struct kva_error err = {0};
    struct kva_gguf *g = NULL;
    struct kva_tokenizer *t = NULL;
    if (kva_gguf_open(path, &g, &err) != KVA_OK ||
        kva_tokenizer_from_gguf(g, &t, &err) != KVA_OK)
        fail_msg("%s", err.text);
    kva_gguf_close(g);
    return t;
}

/* ---- the 260-entry vocabulary of models.md 6.7: 256 bytes, two control tokens, "th",
 * "the" ---- */

enum { BYTES_A = 256, BYTES_B = 257, BYTES_TH = 258, BYTES_THE = 259, BYTES_SIZE = 260 };

struct byte_vocab {
    char text[BYTES_SIZE][16];
    const char *token[BYTES_SIZE];
    int32_t type[BYTES_SIZE];
};

/* ids 0..255: the byte of that value, in the printable alphabet */
static inline void byte_vocab_fill(struct byte_vocab *v)
{
    int next = 256;
    for (int b = 0; b < 256; b++) {
        int own = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        int c = own ? b : next++;
        if (c < 128)
            snprintf(v->text[b], sizeof v->text[b], "%c", c);
        else
            snprintf(v->text[b], sizeof v->text[b], "%c%c", 0xc0 | c >> 6,
                     0x80 | (c & 63));
    }
    snprintf(v->text[BYTES_A], sizeof v->text[0], "<|a|>");
    snprintf(v->text[BYTES_B], sizeof v->text[0], "<|a|>b");
    snprintf(v->text[BYTES_TH], sizeof v->text[0], "th");
    snprintf(v->text[BYTES_THE], sizeof v->text[0], "the");
    for (int i = 0; i < BYTES_SIZE; i++) {
        v->token[i] = v->text[i];
        v->type[i] = i == BYTES_A || i == BYTES_B ? 3 : 1;
    }
}

struct byte_file {
    struct kva_gguf_writer *w;
    struct kva_buf bytes;
    struct kva_gguf *g;
};

/* Begins a file that holds the vocabulary with merges "t h", "th e"; the test may add
 * keys. */
static inline void byte_file_begin(struct byte_file *f, struct byte_vocab *v,
                                   const char *pre)
{
    static const char *const merges[] = {"t h", "th e"};
    assert_int_equal(kva_gguf_writer_new(&f->w, NULL), KVA_OK);
    kva_buf_init(&f->bytes, 0);
    kva_gguf_put_str(f->w, "tokenizer.ggml.model", "gpt2", 4);
    if (pre)
        kva_gguf_put_str(f->w, "tokenizer.ggml.pre", pre, strlen(pre));
    kva_gguf_put_strs(f->w, "tokenizer.ggml.tokens", v->token, NULL, BYTES_SIZE);
    kva_gguf_put_i32s(f->w, "tokenizer.ggml.token_type", v->type, BYTES_SIZE);
    kva_gguf_put_strs(f->w, "tokenizer.ggml.merges", merges, NULL, 2);
}

static inline enum kva_status byte_file_end(struct byte_file *f, struct kva_tokenizer **t,
                                            struct kva_error *err)
{
    *t = NULL;
    assert_int_equal(kva_gguf_finish(f->w, &f->bytes, NULL), KVA_OK);
    kva_gguf_writer_free(f->w);
    assert_int_equal(
        kva_gguf_parse(f->bytes.data, f->bytes.len, "bytes.gguf", &f->g, err), KVA_OK);
    enum kva_status rc = kva_tokenizer_from_gguf(f->g, t, err);
    kva_gguf_close(f->g);
    kva_buf_release(&f->bytes);
    return rc;
}

static inline struct kva_tokenizer *byte_tokenizer(const char *pre)
{
    struct byte_vocab v;
    struct byte_file f;
    struct kva_tokenizer *t;
    struct kva_error err = {0};
    byte_vocab_fill(&v);
    byte_file_begin(&f, &v, pre);
    kva_gguf_put_u32(f.w, "tokenizer.ggml.bos_token_id", BYTES_A);
    kva_gguf_put_u32(f.w, "tokenizer.ggml.eos_token_id", BYTES_B);
    if (byte_file_end(&f, &t, &err) != KVA_OK)
        fail_msg("%s", err.text);
    return t;
}

/* Compares ids with an array that ends in -1. */
static inline void assert_ids(const struct kva_tokens *t, const int32_t *want)
{
    size_t n = 0;
    while (want[n] >= 0)
        n++;
    if (t->n != n)
        fail_msg("%zu tokens instead of %zu", t->n, n);
    for (size_t i = 0; i < n; i++)
        if (t->id[i] != want[i])
            fail_msg("token %zu is %d instead of %d", i, t->id[i], want[i]);
}

#endif
