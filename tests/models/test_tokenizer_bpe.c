/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_tokenizer_bpe.c - merging, special tokens and flags on the 260-entry byte
 * vocabulary. */
#include "tests/models/reference.h"

static int warnings;

static void count_warnings(enum kva_log_level level, const char *text, void *ctx)
{
    (void)text;
    (void)ctx;
    warnings += level == KVA_LOG_WARN;
}

static void encodes(struct kva_tokenizer *t, const char *text, bool special,
                    const int32_t *want)
{
    struct kva_tokens got = {0};
    struct kva_error err = {0};
    if (kva_tokenizer_encode(t, text, strlen(text), special, &got, &err) != KVA_OK)
        fail_msg("%s", err.text);
    assert_ids(&got, want);
    kva_tokens_release(&got);
}

static void bytes_and_merges_give_the_expected_ids(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    encodes(t, "the", true, (int32_t[]){BYTES_THE, -1});
    encodes(t, "th", true, (int32_t[]){BYTES_TH, -1});
    encodes(t, "tthe", true, (int32_t[]){'t', BYTES_THE, -1});
    encodes(t, "thth", true, (int32_t[]){BYTES_TH, BYTES_TH, -1});
    encodes(t, "he", true, (int32_t[]){'h', 'e', -1});
    encodes(t, "t he", true, (int32_t[]){'t', ' ', 'h', 'e', -1});
    encodes(t, " the\n", true, (int32_t[]){' ', BYTES_THE, '\n', -1});
    encodes(t, "\xc3\xa9", true, (int32_t[]){0xc3, 0xa9, -1});
    encodes(t, "", true, (int32_t[]){-1});
    kva_tokenizer_free(t);
}

static void merges_do_not_cross_pieces(void **state)
{
    (void)state;
    /* smollm: digits stand alone, so "t1h" has three pieces */
    struct kva_tokenizer *t = byte_tokenizer("smollm");
    encodes(t, "t1he", true, (int32_t[]){'t', '1', 'h', 'e', -1});
    encodes(t, "'the", true, (int32_t[]){'\'', 't', 'h', 'e', -1}); /* 't is a piece */
    kva_tokenizer_free(t);
}

/* Reference: rescan for the lowest rank, leftmost, until nothing merges. */
static size_t merge_slowly(int32_t *id, size_t n)
{
    for (;;) {
        size_t best = n;
        int rank = 2;
        for (size_t i = 0; i + 1 < n; i++) {
            int r = id[i] == 't' && id[i + 1] == 'h'        ? 0
                    : id[i] == BYTES_TH && id[i + 1] == 'e' ? 1
                                                            : 2;
            if (r < rank) {
                rank = r;
                best = i;
            }
        }
        if (best == n)
            return n;
        id[best] = rank == 0 ? BYTES_TH : BYTES_THE;
        memmove(id + best + 1, id + best + 2, (n - best - 2) * sizeof *id);
        n--;
    }
}

static void the_heap_merges_like_a_rescan(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    struct kva_rng r = {7};
    for (int round = 0; round < 500; round++) {
        char text[64];
        int32_t want[65];
        size_t n = 1 + (size_t)kva_rng_below(&r, 60);
        for (size_t i = 0; i < n; i++) {
            text[i] = "thex"[kva_rng_below(&r, 4)];
            want[i] = text[i];
        }
        text[n] = '\0';
        want[merge_slowly(want, n)] = -1;
        encodes(t, text, true, want);
    }
    kva_tokenizer_free(t);
}

static void control_tokens_match_leftmost_longest_and_only_when_asked(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    encodes(t, "x<|a|>the", true, (int32_t[]){'x', BYTES_A, BYTES_THE, -1});
    encodes(t, "<|a|>b", true, (int32_t[]){BYTES_B, -1});
    encodes(t, "<|a|><|a|>bb", true, (int32_t[]){BYTES_A, BYTES_B, 'b', -1});
    encodes(t, "<|a|", true, (int32_t[]){'<', '|', 'a', '|', -1});
    encodes(t, "<<|a|>", true, (int32_t[]){'<', BYTES_A, -1});
    encodes(t, "<|a|>", false, (int32_t[]){'<', '|', 'a', '|', '>', -1});
    size_t count;
    assert_int_equal(kva_tokenizer_count(t, "x<|a|>the", 9, &count, NULL), KVA_OK);
    assert_int_equal(count, 3);
    kva_tokenizer_free(t);
}

static void user_defined_tokens_are_always_cut_out(void **state)
{
    (void)state;
    struct byte_vocab v;
    struct byte_file f;
    struct kva_tokenizer *t;
    byte_vocab_fill(&v);
    v.type[BYTES_A] = 4;
    byte_file_begin(&f, &v, "gpt-2");
    assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
    encodes(t, "<|a|>b", false, (int32_t[]){BYTES_A, 'b', -1});
    encodes(t, "<|a|>b", true, (int32_t[]){BYTES_B, -1});
    struct kva_buf out;
    kva_buf_init(&out, 0);
    int32_t ids[] = {'x', BYTES_A, BYTES_B, ' ', BYTES_THE};
    assert_int_equal(kva_tokenizer_decode(t, ids, 5, &out, NULL), KVA_OK);
    /* the user-defined token as it stands, the control token not at all */
    assert_string_equal(out.data, "x<|a|> the");
    kva_buf_release(&out);
    kva_tokenizer_free(t);
}

/* Sets of special strings over a tiny alphabet, so that prefixes and repeats abound. */
static void special_matching_equals_a_plain_search(void **state)
{
    (void)state;
    enum { SPECIALS = 12, FIRST = 160 }; /* ids 160.. are bytes no ASCII text holds */
    struct kva_rng r = {11};
    for (int round = 0; round < 40; round++) {
        struct byte_vocab v;
        struct byte_file f;
        struct kva_tokenizer *t;
        byte_vocab_fill(&v);
        char name[SPECIALS][8];
        for (int i = 0; i < SPECIALS; i++) {
            size_t n = 1 + (size_t)kva_rng_below(&r, 5);
            for (size_t k = 0; k < n; k++)
                name[i][k] = "XY"[kva_rng_below(&r, 2)];
            snprintf(name[i] + n, sizeof name[i] - n, "%s", "");
            v.token[FIRST + i] = name[i];
            v.type[FIRST + i] = i % 2 ? 3 : 4;
        }
        /* of equal strings the first one counts, and "X", "Y" are ordinary tokens */
        bool repeated[SPECIALS];
        for (int i = 0; i < SPECIALS; i++) {
            repeated[i] = strlen(name[i]) == 1;
            for (int k = 0; k < i; k++)
                repeated[i] = repeated[i] || strcmp(name[i], name[k]) == 0;
        }
        byte_file_begin(&f, &v, "gpt-2");
        /* equal strings are wanted here, their warning is not */
        kva_log_set(count_warnings, NULL, KVA_LOG_WARN);
        assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
        kva_log_set(NULL, NULL, KVA_LOG_WARN);
        for (int text_round = 0; text_round < 20; text_round++) {
            char text[24];
            int32_t want[25];
            size_t n = 1 + (size_t)kva_rng_below(&r, 22), k = 0;
            bool control = kva_rng_below(&r, 2);
            for (size_t i = 0; i < n; i++)
                text[i] = "XYz"[kva_rng_below(&r, 3)];
            text[n] = '\0';
            for (size_t i = 0; i < n;) {
                int best = -1;
                size_t longest = 0;
                for (int s = 0; s < SPECIALS; s++) {
                    size_t len = strlen(name[s]);
                    if (repeated[s])
                        continue;
                    if ((control || s % 2 == 0) && len > longest && len <= n - i &&
                        memcmp(text + i, name[s], len) == 0) {
                        best = s;
                        longest = len;
                    }
                }
                want[k++] = best < 0 ? text[i] : FIRST + best;
                i += best < 0 ? 1 : longest;
            }
            want[k] = -1;
            encodes(t, text, control, want);
        }
        kva_tokenizer_free(t);
    }
}

static void special_tokens_have_byte_ranges(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    struct kva_tokens got = {0};
    assert_int_equal(kva_tokenizer_encode(t, "x<|a|>the", 9, true, &got, NULL), KVA_OK);
    assert_int_equal(got.begin[1], 1);
    assert_int_equal(got.end[1], 6);
    assert_int_equal(got.begin[2], 6);
    assert_int_equal(got.end[2], 9);
    kva_tokens_release(&got);
    kva_tokenizer_free(t);
}

static void every_byte_comes_back(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    struct kva_buf text, back;
    kva_buf_init(&text, 0);
    kva_buf_init(&back, 0);
    /* every code point up to U+2FFF, then some of four bytes */
    for (int c = 1; c < 0x3000; c++) {
        char u[3] = {(char)c};
        int n = 1;
        if (c >= 0x800) {
            u[0] = (char)(0xe0 | c >> 12);
            u[1] = (char)(0x80 | (c >> 6 & 63));
            u[2] = (char)(0x80 | (c & 63));
            n = 3;
        } else if (c >= 0x80) {
            u[0] = (char)(0xc0 | c >> 6);
            u[1] = (char)(0x80 | (c & 63));
            n = 2;
        }
        kva_buf_add(&text, u, (size_t)n);
    }
    kva_buf_puts(&text, "\xf0\x9f\x98\x80 the \xf0\x90\x8d\x88");
    struct kva_tokens got = {0};
    assert_int_equal(kva_tokenizer_encode(t, text.data, text.len, true, &got, NULL),
                     KVA_OK);
    assert_int_equal(kva_tokenizer_decode(t, got.id, got.n, &back, NULL), KVA_OK);
    assert_int_equal(back.len, text.len);
    assert_memory_equal(back.data, text.data, text.len);
    kva_tokens_release(&got);
    kva_buf_release(&text);
    kva_buf_release(&back);
    kva_tokenizer_free(t);
}

static void half_a_character_decodes_to_the_replacement(void **state)
{
    (void)state;
    struct kva_tokenizer *t = byte_tokenizer("gpt-2");
    struct kva_buf out;
    kva_buf_init(&out, 0);
    int32_t ids[] = {'a', 0xf0, 0x9f, 'b'};
    assert_int_equal(kva_tokenizer_decode(t, ids, 4, &out, NULL), KVA_OK);
    assert_string_equal(out.data, "a\xef\xbf\xbd"
                                  "b");
    kva_buf_release(&out);
    kva_tokenizer_free(t);
}

static void
a_whole_vocabulary_entry_beats_the_merges_where_the_family_says_so(void **state)
{
    (void)state;
    /* "he" enters the vocabulary in place of byte 1, but no merge makes it */
    for (int family = 0; family < 2; family++) {
        struct byte_vocab v;
        struct byte_file f;
        struct kva_tokenizer *t;
        byte_vocab_fill(&v);
        v.token[1] = "he";
        byte_file_begin(&f, &v, family ? "llama-bpe" : "dbrx");
        assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
        if (family)
            encodes(t, "he", true, (int32_t[]){1, -1});
        else
            encodes(t, "he", true, (int32_t[]){'h', 'e', -1});
        kva_tokenizer_free(t);
    }
}

static bool bos_with(const char *pre, int flag)
{
    struct byte_vocab v;
    struct byte_file f;
    struct kva_tokenizer *t;
    byte_vocab_fill(&v);
    byte_file_begin(&f, &v, pre);
    kva_gguf_put_u32(f.w, "tokenizer.ggml.bos_token_id", BYTES_A);
    if (flag >= 0)
        kva_gguf_put_bool(f.w, "tokenizer.ggml.add_bos_token", flag);
    assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
    bool add = kva_tokenizer_add_bos(t);
    kva_tokenizer_free(t);
    return add;
}

static void bos_follows_the_family_unless_the_file_says_otherwise(void **state)
{
    (void)state;
    assert_false(bos_with("gpt-2", -1));
    assert_true(bos_with("gpt-2", 1));
    assert_true(bos_with("llama-bpe", -1));
    assert_false(bos_with("llama-bpe", 0));
    assert_true(bos_with("tekken", -1));
    assert_false(bos_with("smollm", -1));
    assert_false(bos_with("gpt-4o", -1));
}

static void special_ids_outside_the_vocabulary_are_ignored_aloud(void **state)
{
    (void)state;
    struct byte_vocab v;
    struct byte_file f;
    struct kva_tokenizer *t;
    byte_vocab_fill(&v);
    byte_file_begin(&f, &v, "gpt-2");
    kva_gguf_put_u32(f.w, "tokenizer.ggml.bos_token_id", BYTES_SIZE);
    kva_gguf_put_i32(f.w, "tokenizer.ggml.eos_token_id", -1);
    kva_gguf_put_bool(f.w, "tokenizer.ggml.add_bos_token", true);
    warnings = 0;
    kva_log_set(count_warnings, NULL, KVA_LOG_WARN);
    assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_int_equal(warnings, 2);
    assert_int_equal(kva_tokenizer_bos(t), -1);
    assert_false(kva_tokenizer_add_bos(t));
    for (int i = 0; i < BYTES_SIZE; i++)
        assert_false(kva_tokenizer_is_eog(t, i));
    kva_tokenizer_free(t);
}

static void ends_are_found_by_name(void **state)
{
    (void)state;
    struct byte_vocab v;
    struct byte_file f;
    struct kva_tokenizer *t;
    byte_vocab_fill(&v);
    v.token[0] = "<|eot_id|>";
    v.token[1] = "<|end|>";
    v.token[2] = "</s>"; /* an ordinary token here */
    v.token[3] = "<|return|>";
    byte_file_begin(&f, &v, "gpt-2");
    assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
    assert_true(kva_tokenizer_is_eog(t, 0));
    assert_true(kva_tokenizer_is_eog(t, 1));
    assert_false(kva_tokenizer_is_eog(t, 2));
    assert_true(kva_tokenizer_is_eog(t, 3));
    kva_tokenizer_free(t);

    /* harmony: with <|return|> and <|call|>, <|end|> only ends a message */
    v.token[4] = "<|call|>";
    v.type[2] = 3;
    byte_file_begin(&f, &v, "gpt-2");
    assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
    assert_false(kva_tokenizer_is_eog(t, 1));
    assert_true(kva_tokenizer_is_eog(t, 2));
    assert_true(kva_tokenizer_is_eog(t, 4));
    kva_tokenizer_free(t);
}

static void the_digest_sees_every_part(void **state)
{
    (void)state;
    uint8_t digest[6][32];
    for (int change = 0; change < 6; change++) {
        struct byte_vocab v;
        struct byte_file f;
        struct kva_tokenizer *t;
        byte_vocab_fill(&v);
        if (change == 1)
            v.token[BYTES_A] = "<|z|>";
        if (change == 2)
            v.type[BYTES_A] = 4;
        byte_file_begin(&f, &v, change == 3 ? "dbrx" : "gpt-2");
        if (change == 4)
            kva_gguf_put_u32(f.w, "tokenizer.ggml.eos_token_id", 5);
        kva_gguf_put_u32(f.w, "tokenizer.ggml.bos_token_id", change == 5 ? 6 : 7);
        assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
        kva_tokenizer_sha256(t, digest[change]);
        kva_tokenizer_free(t);
        for (int other = 0; other < change; other++)
            assert_memory_not_equal(digest[change], digest[other], 32);
    }
}

static void refused_merges(const char *const *merges, size_t n, const char *want)
{
    struct byte_vocab v;
    struct byte_file f;
    struct kva_tokenizer *t;
    struct kva_error err = {0};
    byte_vocab_fill(&v);
    assert_int_equal(kva_gguf_writer_new(&f.w, NULL), KVA_OK);
    kva_buf_init(&f.bytes, 0);
    kva_gguf_put_str(f.w, "tokenizer.ggml.model", "gpt2", 4);
    kva_gguf_put_str(f.w, "tokenizer.ggml.pre", "gpt-2", 5);
    kva_gguf_put_strs(f.w, "tokenizer.ggml.tokens", v.token, NULL, BYTES_SIZE);
    if (merges)
        kva_gguf_put_strs(f.w, "tokenizer.ggml.merges", merges, NULL, n);
    assert_int_equal(byte_file_end(&f, &t, &err), KVA_EFORMAT);
    assert_null(t);
    if (!strstr(err.text, want))
        fail_msg("%s", err.text);
}

static void merges_of_unknown_parts_are_refused(void **state)
{
    (void)state;
    refused_merges((const char *const[]){"t h", "th"}, 2, "merge 1 is no pair");
    refused_merges((const char *const[]){"t x"}, 1, "merge 0 is no vocabulary entry");
    refused_merges((const char *const[]){" h"}, 1, "merge 0 is no pair");
    refused_merges(NULL, 0, "no merges");
}

static void a_byte_without_token_is_left_out_aloud(void **state)
{
    (void)state;
    struct byte_vocab v;
    struct byte_file f;
    struct kva_tokenizer *t;
    byte_vocab_fill(&v);
    v.token['q'] = "qq";
    byte_file_begin(&f, &v, "gpt-2");
    assert_int_equal(byte_file_end(&f, &t, NULL), KVA_OK);
    warnings = 0;
    kva_log_set(count_warnings, NULL, KVA_LOG_WARN);
    encodes(t, "aqb", true, (int32_t[]){'a', 'b', -1});
    encodes(t, "q", true, (int32_t[]){-1});
    /* the neighbours meet, as in the reference tokenizer */
    struct kva_tokens got = {0};
    assert_int_equal(kva_tokenizer_encode(t, "tqhqeq", 6, true, &got, NULL), KVA_OK);
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_int_equal(warnings, 1);
    assert_ids(&got, (int32_t[]){BYTES_THE, -1});
    assert_int_equal(got.begin[0], 0);
    assert_int_equal(got.end[0], 5);
    kva_tokens_release(&got);
    kva_tokenizer_free(t);
}

static void running_out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    static char text[3000];
    memset(text, 't', sizeof text);
    struct kva_tokenizer *t = byte_tokenizer("llama-bpe");
    for (long n = 1;; n++) {
        struct kva_tokens got = {0};
        kva_alloc_fail_at(n);
        enum kva_status rc = kva_tokenizer_encode(t, text, sizeof text, true, &got, NULL);
        kva_alloc_fail_at(0);
        kva_tokens_release(&got);
        if (rc == KVA_OK)
            break;
        assert_int_equal(rc, KVA_ENOMEM);
        assert_true(n < 1000);
    }
    kva_tokenizer_free(t);

    struct byte_vocab v;
    struct byte_file f;
    byte_vocab_fill(&v);
    byte_file_begin(&f, &v, "smollm");
    assert_int_equal(kva_gguf_finish(f.w, &f.bytes, NULL), KVA_OK);
    kva_gguf_writer_free(f.w);
    assert_int_equal(kva_gguf_parse(f.bytes.data, f.bytes.len, "f", &f.g, NULL), KVA_OK);
    for (long n = 1;; n++) {
        struct kva_tokenizer *made = NULL;
        kva_alloc_fail_at(n);
        enum kva_status rc = kva_tokenizer_from_gguf(f.g, &made, NULL);
        kva_alloc_fail_at(0);
        kva_tokenizer_free(made);
        if (rc == KVA_OK)
            break;
        assert_int_equal(rc, KVA_ENOMEM);
        assert_null(made);
        assert_true(n < 5000);
    }
    kva_gguf_close(f.g);
    kva_buf_release(&f.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_merges_give_the_expected_ids),
        cmocka_unit_test(merges_do_not_cross_pieces),
        cmocka_unit_test(the_heap_merges_like_a_rescan),
        cmocka_unit_test(control_tokens_match_leftmost_longest_and_only_when_asked),
        cmocka_unit_test(user_defined_tokens_are_always_cut_out),
        cmocka_unit_test(special_matching_equals_a_plain_search),
        cmocka_unit_test(special_tokens_have_byte_ranges),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(half_a_character_decodes_to_the_replacement),
        cmocka_unit_test(
            a_whole_vocabulary_entry_beats_the_merges_where_the_family_says_so),
        cmocka_unit_test(bos_follows_the_family_unless_the_file_says_otherwise),
        cmocka_unit_test(special_ids_outside_the_vocabulary_are_ignored_aloud),
        cmocka_unit_test(ends_are_found_by_name),
        cmocka_unit_test(the_digest_sees_every_part),
        cmocka_unit_test(merges_of_unknown_parts_are_refused),
        cmocka_unit_test(a_byte_without_token_is_left_out_aloud),
        cmocka_unit_test(running_out_of_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
