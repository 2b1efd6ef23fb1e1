/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_gguf_corpus.c - hostile model files: a stored corpus and random mutations.
 *
 * No input may crash, read past its end (each one lies at the end of its own heap block,
 * so the address sanitizer notices) or make the reader allocate much more than the file.
 * What is accepted is then used: every key and tensor is read, a vocabulary is built and
 * a text encoded. The seed of the random part is fixed. */
#include "models/model.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static const char corpus[] = "tests/fuzz/gguf";

static void quiet(enum kva_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

/* Touches everything an accepted file offers. */
static void use(const struct kva_gguf *g)
{
    static const char *const keys[] = {"general.architecture",
                                       "tokenizer.ggml.tokens",
                                       "words",
                                       "ints",
                                       "u",
                                       "f",
                                       "yes",
                                       "s"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t v;
        double d;
        bool b;
        const char *s;
        size_t n;
        volatile char sink = 0;
        kva_gguf_i64(g, keys[i], &v);
        kva_gguf_f64(g, keys[i], &d);
        kva_gguf_bool(g, keys[i], &b);
        if (kva_gguf_str(g, keys[i], &s, &n) && n > 0)
            sink = s[n - 1];
        for (int64_t k = 0; k < kva_gguf_array_len(g, keys[i]); k++) {
            if (kva_gguf_array_str(g, keys[i], k, &s, &n) && n > 0)
                sink = s[n - 1];
            kva_gguf_array_i64(g, keys[i], k, &v);
            kva_gguf_array_f64(g, keys[i], k, &d);
        }
        (void)sink;
    }
    kva_gguf_check_tensors(g, NULL);
    for (int i = 0; i < kva_gguf_tensors(g); i++) {
        const struct kva_gguf_tensor *t = kva_gguf_tensor_at(g, i);
        float y[256];
        kva_dequant(t->type, t->data, (size_t)kva_type_get(t->type)->block_elements, y);
        assert_ptr_equal(kva_gguf_find(g, t->name), t);
    }
    struct kva_tokenizer *tok;
    if (kva_tokenizer_from_gguf(g, &tok, NULL) != KVA_OK)
        return;
    struct kva_tokens ids = {0};
    struct kva_buf back;
    kva_buf_init(&back, 0);
    static const char text[] = "the <|a|>b th\xc3\xa9 12 a\xc3\xa9";
    if (kva_tokenizer_encode(tok, text, sizeof text - 1, true, &ids, NULL) == KVA_OK)
        kva_tokenizer_decode(tok, ids.id, ids.n, &back, NULL);
    kva_tokens_release(&ids);
    kva_buf_release(&back);
    kva_tokenizer_free(tok);
}

/* True when the reader accepts the bytes. */
static bool try_bytes(const void *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    struct kva_gguf *g = NULL;
    struct kva_error err = {0};
    enum kva_status rc = kva_gguf_parse(copy, n, "fuzz", &g, &err);
    if (rc == KVA_OK) {
        use(g);
        kva_gguf_close(g);
    } else {
        assert_null(g);
        /* a memory limit is set: running into it means a count was trusted */
        assert_true(rc == KVA_EFORMAT || rc == KVA_EUNSUPPORTED);
        assert_non_null(strstr(err.text, "fuzz: "));
        assert_null(strchr(err.text, '\n'));
    }
    free(copy);
    return rc == KVA_OK;
}

static void every_stored_file_is_handled(void **state)
{
    (void)state;
    DIR *d = opendir(corpus);
    assert_non_null(d);
    int files = 0, accepted = 0;
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        char path[512];
        snprintf(path, sizeof path, "%s/%s", corpus, e->d_name);
        struct kva_buf b;
        kva_buf_init(&b, 0);
        assert_int_equal(kva_read_file(path, 0, &b, NULL), KVA_OK);
        bool ok = try_bytes(b.data ? b.data : "", b.len);
        /* well-formed containers whose contents are refused later, or not at all */
        bool good = strcmp(e->d_name, "worked.gguf") == 0 ||
                    strcmp(e->d_name, "tokens-are-numbers.gguf") == 0 ||
                    strcmp(e->d_name, "special-half-character.gguf") == 0;
        if (ok != good)
            fail_msg("%s is %s", path, ok ? "accepted" : "refused");
        accepted += ok;
        files++;
        kva_buf_release(&b);
    }
    closedir(d);
    assert_true(files >= 20);
    assert_int_equal(accepted, 3);
}

/* A small file with every kind of value, two tensors and a vocabulary. */
static void build(struct kva_buf *out)
{
    static const char *const tokens[] = {"t",     "h",      "e",        "th", "the",
                                         "<|a|>", "<|a|>b", "\xc4\xa0", "a"};
    static const int32_t types[] = {1, 1, 1, 1, 1, 3, 3, 1, 1};
    static const char *const merges[] = {"t h", "th e"};
    static const int32_t ints[] = {1, 2, 3};
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    static const uint8_t q[20] = {0, 0x38};
    struct kva_gguf_writer *w;
    assert_int_equal(kva_gguf_writer_new(&w, NULL), KVA_OK);
    kva_gguf_put_str(w, "general.architecture", "llama", 5);
    kva_gguf_put_u32(w, "llama.block_count", 3);
    kva_gguf_put_u32(w, "llama.embedding_length", 64);
    kva_gguf_put_u32(w, "llama.attention.head_count", 4);
    kva_gguf_put_u32(w, "llama.attention.head_count_kv", 2);
    kva_gguf_put_i32s(w, "llama.feed_forward_length", ints, 3);
    kva_gguf_put_f32(w, "llama.rope.freq_base", 1e4f);
    kva_gguf_put_u32(w, "u", 7);
    kva_gguf_put_f32(w, "f", 0.5f);
    kva_gguf_put_bool(w, "yes", true);
    kva_gguf_put_str(w, "s", "text", 4);
    kva_gguf_put_i32s(w, "ints", ints, 3);
    kva_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    kva_gguf_put_str(w, "tokenizer.ggml.pre", "smollm", 6);
    kva_gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, NULL, 9);
    kva_gguf_put_i32s(w, "tokenizer.ggml.token_type", types, 9);
    kva_gguf_put_strs(w, "tokenizer.ggml.merges", merges, NULL, 2);
    kva_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 5);
    const uint64_t ne[2] = {3, 2}, ne_q[1] = {32};
    kva_gguf_put_tensor(w, "matrix", KVA_F32, ne, 2, x);
    kva_gguf_put_tensor(w, "quant", KVA_Q4_1, ne_q, 1, q);
    assert_int_equal(kva_gguf_finish(w, out, NULL), KVA_OK);
    kva_gguf_writer_free(w);
}

/* One to four random edits; returns the new length. `b` has room for n + 64 bytes. */
static size_t mutate(struct kva_rng *r, uint8_t *b, size_t n)
{
    static const uint64_t numbers[] = {0,          1,          2,
                                       7,          8,          9,
                                       13,         31,         32,
                                       64,         255,        256,
                                       65535,      1u << 20,   INT32_MAX,
                                       UINT32_MAX, 1ull << 32, 1ull << 61,
                                       INT64_MAX,  1ull << 63, UINT64_MAX - 31,
                                       UINT64_MAX};
    for (uint64_t edits = 1 + kva_rng_below(r, 4); edits > 0 && n > 0; edits--) {
        size_t at = (size_t)kva_rng_below(r, n);
        uint64_t v = numbers[kva_rng_below(r, sizeof numbers / sizeof *numbers)];
        size_t width = kva_rng_below(r, 2) ? 8 : 4;
        switch (kva_rng_below(r, 6)) {
        case 0:
            b[at] ^= (uint8_t)(1u << kva_rng_below(r, 8));
            break;
        case 1:
            b[at] = (uint8_t)kva_rng_next(r);
            break;
        case 2:
        case 3:
            for (size_t i = 0; i < width && at + i < n; i++)
                b[at + i] = (uint8_t)(v >> (8 * i));
            break;
        case 4: /* cut */
            n = kva_rng_below(r, 8) == 0 ? at : n;
            break;
        default: /* take out or repeat a few bytes */
            if (kva_rng_below(r, 2) && at + width <= n) {
                memmove(b + at, b + at + width, n - at - width);
                n -= width;
            } else if (at + width <= n) {
                memmove(b + at + width, b + at, n - at);
                n += width;
            }
        }
    }
    return n;
}

static void random_mutations_are_handled(void **state)
{
    (void)state;
    struct kva_buf files[2];
    kva_buf_init(&files[0], 0);
    kva_buf_init(&files[1], 0);
    assert_int_equal(kva_read_file("tests/fuzz/gguf/worked.gguf", 0, &files[0], NULL),
                     KVA_OK);
    build(&files[1]);
    assert_true(try_bytes(files[0].data, files[0].len));
    assert_true(try_bytes(files[1].data, files[1].len));
    struct kva_rng r = {20240601};
    uint64_t begin = kva_now_ns();
    long tries = 0, accepted = 0;
    uint8_t *b = malloc(files[1].len + 64);
    for (; fuzz_goes_on(tries, 100000, begin); tries++) {
        const struct kva_buf *f = &files[kva_rng_below(&r, 4) > 0];
        memcpy(b, f->data, f->len);
        accepted += try_bytes(b, mutate(&r, b, f->len));
    }
    print_message("%ld mutations, %ld accepted\n", tries, accepted);
    assert_true(accepted > 0 && accepted < tries);
    free(b);
    kva_buf_release(&files[0]);
    kva_buf_release(&files[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_file_is_handled),
        cmocka_unit_test(random_mutations_are_handled),
    };
    kva_log_set(quiet, NULL, KVA_LOG_ERROR);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit memory = {256u << 20, 256u << 20};
    setrlimit(RLIMIT_AS, &memory);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
