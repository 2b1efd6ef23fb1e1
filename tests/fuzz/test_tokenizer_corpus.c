/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_tokenizer_corpus.c - awkward texts through every tokenizer: a stored corpus and
 * random ones.
 *
 * For each text, after invalid bytes were replaced: the byte-level tokenizers cover every
 * byte once, in order, and decode to the same text; the count equals the number of
 * tokens; the word tokenizer covers everything but white space. Encoding invalid bytes is
 * refused. The seed of the random part is fixed. */
#include "tests/fuzz/fuzz.h"
#include "tests/models/reference.h"

#include <dirent.h>

static const char *const pre[] = {"llama-bpe", "dbrx",  "gpt-4o", "tekken",
                                  "smollm",    "gpt-2", "default"};
enum { PRES = sizeof pre / sizeof *pre };

static struct kva_tokenizer *byte_level[PRES], *words;

static void quiet(enum kva_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < PRES; i++)
        byte_level[i] = byte_tokenizer(pre[i]);
    return kva_tokenizer_word_new(&words, NULL) == KVA_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < PRES; i++)
        kva_tokenizer_free(byte_level[i]);
    kva_tokenizer_free(words);
    return 0;
}

static void check_bytes(struct kva_tokenizer *t, const char *name, const char *text,
                        size_t n)
{
    for (int special = 0; special < 2; special++) {
        struct kva_tokens got = {0};
        struct kva_error err = {0};
        struct kva_buf back;
        if (kva_tokenizer_encode(t, text, n, special, &got, &err) != KVA_OK)
            fail_msg("%s: %s", name, err.text);
        size_t at = 0, control = 0, count;
        for (size_t i = 0; i < got.n; i++) {
            assert_int_equal(got.begin[i], at);
            assert_true(got.end[i] > at);
            at = got.end[i];
            control += got.id[i] == BYTES_A || got.id[i] == BYTES_B;
        }
        assert_int_equal(at, n);
        assert_true(special || control == 0);
        kva_buf_init(&back, 0);
        assert_int_equal(kva_tokenizer_decode(t, got.id, got.n, &back, &err), KVA_OK);
        if (control == 0) {
            assert_int_equal(back.len, n);
            if (n > 0)
                assert_memory_equal(back.data, text, n);
        }
        assert_int_equal(kva_tokenizer_count(t, text, n, &count, &err), KVA_OK);
        if (special)
            assert_int_equal(count, got.n);
        kva_buf_release(&back);
        kva_tokens_release(&got);
    }
}

static bool blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && (s[i] < '\t' || s[i] > '\r'))
            return false;
    return true;
}

static void check_words(const char *text, size_t n)
{
    struct kva_tokens got = {0};
    struct kva_tokenizer *t;
    assert_int_equal(kva_tokenizer_clone(words, &t, NULL), KVA_OK);
    assert_int_equal(kva_tokenizer_encode(t, text, n, true, &got, NULL), KVA_OK);
    size_t at = 0, count;
    for (size_t i = 0; i < got.n; i++) {
        assert_in_range(got.id[i], 0, 32767);
        assert_true(got.begin[i] >= at && got.end[i] > got.begin[i]);
        assert_true(blank(text + at, got.begin[i] - at));
        at = got.end[i];
    }
    assert_true(at <= n && blank(text + at, n - at));
    assert_int_equal(kva_tokenizer_count(t, text, n, &count, NULL), KVA_OK);
    assert_int_equal(count, got.n);
    kva_tokens_release(&got);
    kva_tokenizer_free(t);
}

static void check(const char *text, size_t n)
{
    struct kva_buf clean;
    kva_buf_init(&clean, 0);
    if (kva_utf8_clean(text, n, &clean) > 0) {
        struct kva_tokens got = {0};
        assert_int_equal(kva_tokenizer_encode(words, text, n, true, &got, NULL),
                         KVA_EINVALID);
        assert_int_equal(got.n, 0);
    }
    /* an exact block lets the address sanitizer see a read past the end */
    char *s = malloc(clean.len ? clean.len : 1);
    assert_non_null(s);
    if (clean.len > 0)
        memcpy(s, clean.data, clean.len);
    for (int i = 0; i < PRES; i++)
        check_bytes(byte_level[i], pre[i], s, clean.len);
    check_words(s, clean.len);
    free(s);
    kva_buf_release(&clean);
}

static void every_stored_text_is_handled(void **state)
{
    (void)state;
    DIR *d = opendir("tests/fuzz/tokenizer");
    assert_non_null(d);
    int files = 0;
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        char path[512];
        snprintf(path, sizeof path, "tests/fuzz/tokenizer/%s", e->d_name);
        struct kva_buf b;
        kva_buf_init(&b, 0);
        assert_int_equal(kva_read_file(path, 0, &b, NULL), KVA_OK);
        check(b.data, b.len);
        kva_buf_release(&b);
        files++;
    }
    closedir(d);
    assert_true(files >= 8);
    check("", 0);
}

static void random_texts_are_handled(void **state)
{
    (void)state;
    static const char *const parts[] = {"the",
                                        "t",
                                        "h",
                                        "e",
                                        " ",
                                        "  ",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        "<|a|>",
                                        "<|a|>b",
                                        "<",
                                        "'s",
                                        "'S",
                                        "9",
                                        "12",
                                        "AB",
                                        "Ab",
                                        "a",
                                        "\xc3\xa9",
                                        "\xcc\x81",
                                        "\xc2\xa0",
                                        "\xe3\x80\x80",
                                        "!?",
                                        "(",
                                        "]",
                                        "/",
                                        "$",
                                        "\xff",
                                        "\xe2",
                                        "\xf0\x9f\x98\x80",
                                        "\xe0\xa4\xb9",
                                        "\xd9\xa3",
                                        "."};
    struct kva_rng r = {20240602};
    uint64_t begin = kva_now_ns();
    long tries = 0;
    for (; fuzz_goes_on(tries, 5000, begin); tries++) {
        struct kva_buf text;
        kva_buf_init(&text, 0);
        for (uint64_t n = kva_rng_below(&r, 40); n > 0; n--) {
            if (kva_rng_below(&r, 12) == 0)
                kva_buf_putc(&text, (char)kva_rng_next(&r));
            else
                kva_buf_puts(&text,
                             parts[kva_rng_below(&r, sizeof parts / sizeof *parts)]);
        }
        check(text.data ? text.data : "", text.len);
        kva_buf_release(&text);
    }
    print_message("%ld texts\n", tries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_text_is_handled),
        cmocka_unit_test(random_texts_are_handled),
    };
    kva_log_set(quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
