/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gguf_test.h - files of the writer, and the assertion that bytes are refused for a
 * reason. */
#ifndef KVA_TEST_GGUF_H
#define KVA_TEST_GGUF_H

#include "models/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static inline void put(uint8_t *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

/* The bytes must be refused with `code` and a message that holds all of `want`. */
static inline void refused(const void *bytes, size_t n, enum kva_status code,
                           const char *want)
{
    struct kva_error err = {0};
    struct kva_gguf *g = (void *)1;
    /* a heap copy of exact size lets the address sanitizer see a read past the end */
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    enum kva_status rc = kva_gguf_parse(copy, n, "file.gguf", &g, &err);
    if (rc == KVA_OK || !strstr(err.text, want) || !strstr(err.text, "file.gguf"))
        fail_msg("status %s, message '%s', wanted '%s'", kva_status_name(rc), err.text,
                 want);
    assert_int_equal(rc, code);
    assert_null(g);
    free(copy);
}

struct file {
    struct kva_gguf_writer *w;
    struct kva_buf bytes;
};

static inline void file_begin(struct file *f)
{
    assert_int_equal(kva_gguf_writer_new(&f->w, NULL), KVA_OK);
    kva_buf_init(&f->bytes, 0);
    kva_gguf_put_str(f->w, "general.architecture", "llama", 5);
}

static inline void file_end(struct file *f)
{
    struct kva_error err = {0};
    if (kva_gguf_finish(f->w, &f->bytes, &err) != KVA_OK)
        fail_msg("%s", err.text);
    kva_gguf_writer_free(f->w);
    f->w = NULL;
}

static inline void file_refused(struct file *f, enum kva_status code, const char *want)
{
    file_end(f);
    refused(f->bytes.data, f->bytes.len, code, want);
    kva_buf_release(&f->bytes);
}

static inline void file_accepted(struct file *f)
{
    struct kva_error err = {0};
    struct kva_gguf *g;
    file_end(f);
    if (kva_gguf_parse(f->bytes.data, f->bytes.len, "file", &g, &err) != KVA_OK)
        fail_msg("%s", err.text);
    kva_gguf_close(g);
    kva_buf_release(&f->bytes);
}

/* One file with every kind of value and two tensors. */
static inline void build_all_kinds(struct file *f)
{
    file_begin(f);
    kva_gguf_put_u32(f->w, "u", 4000000000u);
    kva_gguf_put_i32(f->w, "i", -7);
    kva_gguf_put_f32(f->w, "f", 0.1f);
    kva_gguf_put_bool(f->w, "yes", true);
    kva_gguf_put_bool(f->w, "no", false);
    kva_gguf_put_str(f->w, "s", "a\0b", 3);
    static const char *const words[] = {"one", "", "three"};
    kva_gguf_put_strs(f->w, "words", words, NULL, 3);
    static const int32_t ints[] = {1, -1, INT32_MAX, INT32_MIN};
    kva_gguf_put_i32s(f->w, "ints", ints, 4);
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    const uint64_t ne[2] = {3, 2};
    kva_gguf_put_tensor(f->w, "matrix", KVA_F32, ne, 2, x);
    static const uint8_t q[34] = {0x00, 0x38, 1, 0xff};
    const uint64_t ne_q[1] = {32};
    kva_gguf_put_tensor(f->w, "quant", KVA_Q8_0, ne_q, 1, q);
    file_end(f);
}

#endif
