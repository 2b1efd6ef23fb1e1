/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_tokenizer.c - the handle, and the real vocabulary against the reference ids. */
#include "tests/models/reference.h"

#include <jansson.h>

static void check_row(struct kva_tokenizer *t, json_t *row)
{
    struct kva_error err = {0};
    struct kva_tokens got = {0};
    const char *text = json_string_value(json_object_get(row, "text"));
    size_t n = json_string_length(json_object_get(row, "text"));
    long long id = (long long)json_integer_value(json_object_get(row, "id"));
    json_t *want = json_object_get(row, "ids");
    bool special = json_is_true(json_object_get(row, "parse_special"));
    if (kva_tokenizer_encode(t, text, n, special, &got, &err) != KVA_OK)
        fail_msg("row %lld: %s", id, err.text);
    if (got.n != json_array_size(want))
        fail_msg("row %lld: %zu tokens instead of %zu", id, got.n, json_array_size(want));
    bool control = false;
    for (size_t i = 0; i < got.n; i++) {
        if (got.id[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("row %lld: token %zu is %d", id, i, got.id[i]);
        control = control || got.id[i] < 17; /* the control tokens of this vocabulary */
    }
    /* ranges stand side by side and cover the text */
    size_t at = 0;
    for (size_t i = 0; i < got.n; i++) {
        assert_int_equal(got.begin[i], at);
        assert_true(got.end[i] > got.begin[i]);
        at = got.end[i];
    }
    assert_int_equal(at, n);
    if (!control) {
        struct kva_buf back;
        kva_buf_init(&back, 0);
        assert_int_equal(kva_tokenizer_decode(t, got.id, got.n, &back, &err), KVA_OK);
        assert_int_equal(back.len, n);
        if (n > 0)
            assert_memory_equal(back.data, text, n);
        kva_buf_release(&back);
    }
    if (special || !control) {
        size_t count;
        assert_int_equal(kva_tokenizer_count(t, text, n, &count, &err), KVA_OK);
        if (special)
            assert_int_equal(count, got.n);
    }
    kva_tokens_release(&got);
}

static void every_reference_row_gives_the_same_ids(void **state)
{
    (void)state;
    const char *path = reference_file("oracle/tokenizer-smollm2.jsonl");
    struct kva_tokenizer *t = smollm2_tokenizer();
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0;
    int rows = 0, special = 0;
    while (getline(&line, &cap, f) > 0) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        check_row(t, row);
        rows++;
        special += json_is_true(json_object_get(row, "parse_special"));
        json_decref(row);
    }
    assert_int_equal(rows, 187);
    assert_int_equal(special, 13);
    free(line);
    fclose(f);
    kva_tokenizer_free(t);
}

static void the_real_vocabulary_has_its_flags(void **state)
{
    (void)state;
    struct kva_tokenizer *t = smollm2_tokenizer();
    assert_int_equal(kva_tokenizer_size(t), 49152);
    assert_int_equal(kva_tokenizer_bos(t), 1);
    assert_false(kva_tokenizer_add_bos(t));
    assert_true(kva_tokenizer_is_eog(t, 2)); /* <|im_end|>, the eos key */
    assert_true(kva_tokenizer_is_eog(t, 0)); /* <|endoftext|>, by name */
    assert_false(kva_tokenizer_is_eog(t, 1));
    assert_false(kva_tokenizer_is_eog(t, 504));
    assert_int_equal(kva_tokenizer_shared(t), 0);
    kva_tokenizer_free(t);
}

static void prose_survives_encoding_and_decoding_quickly(void **state)
{
    (void)state;
    const char *path = reference_file("ruler/emerson_essays.txt");
    struct kva_tokenizer *t = smollm2_tokenizer();
    struct kva_buf text, back;
    kva_buf_init(&text, 0);
    kva_buf_init(&back, 0);
    struct kva_error err = {0};
    assert_int_equal(kva_read_file(path, 0, &text, &err), KVA_OK);
    size_t n = text.len < 500000 ? text.len : 500000;
    while (n > 0 && ((unsigned char)text.data[n] & 0xc0) == 0x80)
        n--;
    struct kva_tokens got = {0};
    uint64_t begin = kva_cpu_ns();
    assert_int_equal(kva_tokenizer_encode(t, text.data, n, true, &got, &err), KVA_OK);
    double ms = (double)(kva_cpu_ns() - begin) / 1e6;
    print_message("%zu bytes, %zu tokens, %.1f ms\n", n, got.n, ms);
    assert_true(ms < 1000);
    assert_int_equal(kva_tokenizer_decode(t, got.id, got.n, &back, &err), KVA_OK);
    assert_int_equal(back.len, n);
    assert_memory_equal(back.data, text.data, n);
    kva_tokens_release(&got);
    kva_buf_release(&text);
    kva_buf_release(&back);
    kva_tokenizer_free(t);
}

static void long_runs_are_not_quadratic(void **state)
{
    (void)state;
    struct kva_tokenizer *t = smollm2_tokenizer();
    enum { N = 200000 };
    char *text = malloc(N);
    static const char runs[] = "a 9\n#";
    for (int i = 0; runs[i]; i++) {
        struct kva_tokens got = {0};
        struct kva_error err = {0};
        memset(text, runs[i], N);
        uint64_t begin = kva_cpu_ns();
        if (kva_tokenizer_encode(t, text, N, true, &got, &err) != KVA_OK)
            fail_msg("%s", err.text);
        double ms = (double)(kva_cpu_ns() - begin) / 1e6;
        assert_true(ms < 2000);
        assert_int_equal(got.end[got.n - 1], N);
        if (runs[i] == '9')
            assert_int_equal(got.n, N); /* digits stand alone */
        kva_tokens_release(&got);
    }
    free(text);
    kva_tokenizer_free(t);
}

static void text_that_is_not_utf8_is_refused(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    struct kva_error err = {0};
    struct kva_tokens got = {0};
    assert_int_equal(kva_tokenizer_encode(t, "ab\xff", 3, true, &got, &err),
                     KVA_EINVALID);
    assert_string_equal(err.text, "the text is not valid UTF-8 at byte 2");
    size_t count;
    assert_int_equal(kva_tokenizer_count(t, "\xc3", 1, &count, NULL), KVA_EINVALID);
    kva_tokens_release(&got);
    kva_tokenizer_free(t);
}

static void decoding_an_id_outside_the_vocabulary_fails(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    struct kva_buf out;
    kva_buf_init(&out, 0);
    int32_t bad[] = {65, BYTES_SIZE}, negative[] = {-1};
    assert_int_equal(kva_tokenizer_decode(t, bad, 2, &out, NULL), KVA_EINVALID);
    assert_int_equal(kva_tokenizer_decode(t, negative, 1, &out, NULL), KVA_EINVALID);
    assert_false(kva_tokenizer_is_eog(t, -1));
    assert_false(kva_tokenizer_is_eog(t, BYTES_SIZE));
    kva_buf_release(&out);
    kva_tokenizer_free(t);
}

static void refused_model(const char *model, const char *want)
{
    struct byte_file f;
    struct kva_tokenizer *t;
    struct kva_error err = {0};
    assert_int_equal(kva_gguf_writer_new(&f.w, NULL), KVA_OK);
    kva_buf_init(&f.bytes, 0);
    kva_gguf_put_u32(f.w, "x", 1);
    if (model)
        kva_gguf_put_str(f.w, "tokenizer.ggml.model", model, strlen(model));
    assert_int_equal(byte_file_end(&f, &t, &err), model ? KVA_EUNSUPPORTED : KVA_EFORMAT);
    assert_null(t);
    assert_non_null(strstr(err.text, want));
}

static void other_kinds_of_vocabulary_are_refused_by_name(void **state)
{
    (void)state;
    refused_model("llama", "SentencePiece vocabularies are not supported yet");
    refused_model("bert", "tokenizer model 'bert' is not supported");
    refused_model(NULL, "tokenizer.ggml.model");
}

static void a_clone_outlives_the_original(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2"), *copy;
    assert_int_equal(kva_tokenizer_clone(t, &copy, NULL), KVA_OK);
    uint8_t a[32], b[32];
    kva_tokenizer_sha256(t, a);
    kva_tokenizer_sha256(copy, b);
    assert_memory_equal(a, b, 32);
    assert_int_equal(kva_tokenizer_bos(copy), kva_tokenizer_bos(t));
    kva_tokenizer_free(t);
    struct kva_tokens got = {0};
    assert_int_equal(kva_tokenizer_encode(copy, "the", 3, true, &got, NULL), KVA_OK);
    assert_ids(&got, (int32_t[]){BYTES_THE, -1});
    kva_tokens_release(&got);
    kva_tokenizer_free(copy);
    kva_tokenizer_free(NULL);
}

static void encoding_appends_to_the_list(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    struct kva_tokens got = {0};
    assert_int_equal(kva_tokenizer_encode(t, "a", 1, true, &got, NULL), KVA_OK);
    assert_int_equal(kva_tokenizer_encode(t, "", 0, true, &got, NULL), KVA_OK);
    assert_int_equal(kva_tokenizer_encode(t, "b", 1, true, &got, NULL), KVA_OK);
    assert_ids(&got, (int32_t[]){'a', 'b', -1});
    assert_int_equal(got.begin[1], 0);
    kva_tokens_release(&got);
    kva_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reference_row_gives_the_same_ids),
        cmocka_unit_test(the_real_vocabulary_has_its_flags),
        cmocka_unit_test(prose_survives_encoding_and_decoding_quickly),
        cmocka_unit_test(long_runs_are_not_quadratic),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(decoding_an_id_outside_the_vocabulary_fails),
        cmocka_unit_test(other_kinds_of_vocabulary_are_refused_by_name),
        cmocka_unit_test(a_clone_outlives_the_original),
        cmocka_unit_test(encoding_appends_to_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
