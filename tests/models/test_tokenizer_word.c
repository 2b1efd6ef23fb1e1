/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_tokenizer_word.c - retrieval-model.md 2: worked ids, the word map, sharing,
 * decoding. */
#include "tests/models/reference.h"

static struct kva_tokenizer *word_tokenizer(void)
{
    struct kva_tokenizer *t;
    assert_int_equal(kva_tokenizer_word_new(&t, NULL), KVA_OK);
    return t;
}

static void encodes(struct kva_tokenizer *t, const char *text, const int32_t *want)
{
    struct kva_tokens got = {0};
    struct kva_error err = {0};
    if (kva_tokenizer_encode(t, text, strlen(text), true, &got, &err) != KVA_OK)
        fail_msg("%s", err.text);
    assert_ids(&got, want);
    size_t count;
    assert_int_equal(kva_tokenizer_count(t, text, strlen(text), &count, NULL), KVA_OK);
    assert_int_equal(count, got.n);
    kva_tokens_release(&got);
}

static void decodes(const struct kva_tokenizer *t, const int32_t *ids, size_t n,
                    const char *want)
{
    struct kva_buf out;
    kva_buf_init(&out, 0);
    assert_int_equal(kva_tokenizer_decode(t, ids, n, &out, NULL), KVA_OK);
    assert_string_equal(out.data ? out.data : "", want);
    kva_buf_release(&out);
}

static void worked_words_have_their_buckets(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        int32_t id;
    } want[] = {{"One", 24847},         {"of", 20744},
                {"the", 28028},         {"special", 24592},
                {"magic", 18988},       {"numbers", 15049},
                {"for", 17040},         {"amber-lantern", 25785},
                {"quiet-anvil", 19296}, {"4812907", 7056},
                {"7300215", 9165},      {"DKYRX", 12897},
                {"QHOAH", 13456},       {"54131", 10775},
                {"brisk-meadow", 30592}};
    struct kva_tokenizer *t = word_tokenizer();
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        encodes(t, want[i].word, (int32_t[]){want[i].id, -1});
        decodes(t, &want[i].id, 1, want[i].word);
    }
    assert_int_equal(kva_tokenizer_shared(t), 0);
    kva_tokenizer_free(t);
}

static void reserved_words_have_ids_0_to_19(void **state)
{
    (void)state;
    static const char *const words[] = {"<bos>", "<eos>", "is", "are", "?",  ":", "=",
                                        "VAR",   ".",     ",",  ";",   "!",  "(", ")",
                                        "[",     "]",     "{",  "}",   "\"", "'"};
    struct kva_tokenizer *t = word_tokenizer();
    for (int i = 0; i < 20; i++)
        encodes(t, words[i], (int32_t[]){i, -1});
    int32_t ids[] = {0, 7, 12, 19, 1};
    decodes(t, ids, 5, "VAR ( '"); /* control tokens are left out */
    kva_tokenizer_free(t);
}

static void the_first_golden_prompt_has_its_ids(void **state)
{
    (void)state;
    struct kva_tokenizer *t = word_tokenizer(), *q;
    encodes(t,
            "One of the special magic numbers for amber-lantern is: 4812907. One of the "
            "special magic "
            "numbers for quiet-anvil is: 7300215.",
            (int32_t[]){24847, 20744, 28028, 24592, 18988, 15049, 17040, 25785, 2,
                        5,     7056,  8,     24847, 20744, 28028, 24592, 18988, 15049,
                        17040, 19296, 2,     5,     9165,  8,     -1});
    assert_int_equal(kva_tokenizer_clone(t, &q, NULL), KVA_OK);
    encodes(
        q,
        "What is the special magic number for quiet-anvil mentioned in the provided text?"
        " The special magic number for quiet-anvil mentioned in the provided text is",
        (int32_t[]){32495, 2,     28028, 24592, 18988, 15328, 17040, 19296, 27196,
                    23486, 28028, 28230, 20606, 4,     31196, 24592, 18988, 15328,
                    17040, 19296, 27196, 23486, 28028, 28230, 20606, 2,     -1});
    int32_t answer[] = {9165, 1};
    decodes(q, answer, 2, "7300215");
    kva_tokenizer_free(q);
    kva_tokenizer_free(t);
}

static void the_second_golden_prompt_has_its_ids(void **state)
{
    (void)state;
    struct kva_tokenizer *t = word_tokenizer();
    encodes(t,
            "The grass is green. VAR DKYRX = 54131\nThe sky is blue.\nVAR QHOAH = VAR "
            "DKYRX \n"
            "Here we go.\n",
            (int32_t[]){31196, 25117, 2,     17596, 8,     7,     12897, 6,
                        10775, 31196, 22710, 2,     15949, 8,     7,     13456,
                        6,     7,     12897, 15371, 29353, 28427, 8,     -1});
    encodes(t,
            "Question: Find all variables that are assigned the value 54131 in the text "
            "above. Answer:"
            " According to the chain(s) of variable assignment in the text above, 2 "
            "variables are "
            "assigned the value 54131, they are:",
            (int32_t[]){18853, 5,     20730, 17060, 21442, 24332, 3,     27229, 28028,
                        27882, 10775, 23486, 28028, 20606, 17194, 8,     19135, 5,
                        16583, 18596, 28028, 31851, 13,    20744, 22597, 22256, 23486,
                        28028, 20606, 17194, 9,     6421,  21442, 3,     27229, 28028,
                        27882, 10775, 9,     22399, 3,     5,     -1});
    int32_t answer[] = {12897, 13456};
    decodes(t, answer, 2, "DKYRX QHOAH");
    kva_tokenizer_free(t);
}

static void words_fall_into_their_class(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        int32_t lo, hi;
    } want[] = {{"0", 256, 12287},
                {"0123456789abcdef", 14336, 32767},
                {"01234567-89ab-cdef-0123-456789abcdef", 256, 12287},
                {"01234567-89AB-cdef-0123-456789abcdef", 14336, 32767},
                {"01234567-89ab-cdef-0123-456789abcdeg", 14336, 32767},
                {"0123456-789ab-cdef-0123-456789abcdef", 14336, 32767},
                {"12.5", 14336, 32767},
                {"-7", 14336, 32767},
                {"AB", 12288, 14335},
                {"A", 14336, 32767},
                {"AB1", 14336, 32767},
                {"Ab", 14336, 32767},
                {"\xc3\x84\xc3\x96", 14336, 32767}};
    struct kva_tokenizer *t = word_tokenizer();
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct kva_tokens got = {0};
        assert_int_equal(
            kva_tokenizer_encode(t, want[i].word, strlen(want[i].word), true, &got, NULL),
            KVA_OK);
        assert_int_equal(got.n, 1);
        assert_in_range(got.id[0], want[i].lo, want[i].hi);
        kva_tokens_release(&got);
    }
    kva_tokenizer_free(t);
}

static void punctuation_is_taken_off_at_both_ends(void **state)
{
    (void)state;
    struct kva_tokenizer *t = word_tokenizer();
    encodes(t, "(\"the\").", (int32_t[]){12, 18, 28028, 18, 13, 8, -1});
    encodes(t, "...", (int32_t[]){8, 8, 8, -1});
    encodes(t, "'(", (int32_t[]){19, 12, -1});
    encodes(t, "?!\"", (int32_t[]){4, 11, 18, -1});
    encodes(t, " \t\r\n\v\f", (int32_t[]){-1});
    encodes(t, "the\nof\tthe", (int32_t[]){28028, 20744, 28028, -1});
    encodes(t, "", (int32_t[]){-1});
    /* an opening bracket behind a word and a closing one before it stay part of it */
    struct kva_tokens got = {0};
    assert_int_equal(kva_tokenizer_encode(t, ")x( chain(s)", 12, true, &got, NULL),
                     KVA_OK);
    assert_int_equal(got.n, 3);
    assert_int_equal(got.begin[0], 0);
    assert_int_equal(got.end[0], 3);
    assert_int_equal(got.begin[1], 4);
    assert_int_equal(got.end[1], 11);
    assert_int_equal(got.end[2], 12);
    kva_tokens_release(&got);
    kva_tokenizer_free(t);
}

static void a_taken_bucket_gives_the_next_one(void **state)
{
    (void)state;
    /* find a word in the bucket of "the" by search */
    char rival[32] = "";
    for (int i = 0; i < 2000000; i++) {
        char w[32];
        int n = snprintf(w, sizeof w, "w%d", i);
        if (kva_fnv1a64(w, (size_t)n) % (32768 - 14336) == 28028 - 14336) {
            memcpy(rival, w, sizeof rival);
            break;
        }
    }
    assert_string_not_equal(rival, "");
    struct kva_tokenizer *t = word_tokenizer();
    encodes(t, "the", (int32_t[]){28028, -1});
    encodes(t, rival, (int32_t[]){28029, -1});
    encodes(t, "the", (int32_t[]){28028, -1});
    encodes(t, rival, (int32_t[]){28029, -1});
    kva_tokenizer_free(t);
    t = word_tokenizer(); /* the order of arrival decides */
    encodes(t, rival, (int32_t[]){28028, -1});
    encodes(t, "the", (int32_t[]){28029, -1});
    int32_t both[] = {28028, 28029};
    char want[64];
    snprintf(want, sizeof want, "%s the", rival);
    decodes(t, both, 2, want);
    kva_tokenizer_free(t);
}

static void a_full_range_shares_and_counts(void **state)
{
    (void)state;
    struct kva_tokenizer *t = word_tokenizer();
    struct kva_buf text;
    kva_buf_init(&text, 0);
    enum { NAMES = 14336 - 12288, EXTRA = 10 };
    for (int i = 0; i < NAMES + EXTRA; i++)
        kva_buf_printf(&text, "A%c%c%c ", 'A' + i / 676 % 26, 'A' + i / 26 % 26,
                       'A' + i % 26);
    struct kva_tokens got = {0};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(kva_tokenizer_encode(t, text.data, text.len, true, &got, NULL),
                         KVA_OK);
        assert_int_equal(kva_tokenizer_shared(t), EXTRA); /* words, not occurrences */
    }
    static bool seen[32768];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < NAMES; i++) {
        assert_false(seen[got.id[i]]);
        seen[got.id[i]] = true;
    }
    for (int i = NAMES; i < NAMES + EXTRA; i++) {
        const char *w = text.data + 5 * i;
        assert_int_equal(got.id[i], 12288 + (int)(kva_fnv1a64(w, 4) % NAMES));
        assert_int_equal(got.id[i], got.id[NAMES + EXTRA + i]);
    }
    struct kva_tokenizer *copy;
    assert_int_equal(kva_tokenizer_clone(t, &copy, NULL), KVA_OK);
    assert_int_equal(kva_tokenizer_shared(copy), EXTRA);
    kva_tokenizer_free(copy);
    kva_tokens_release(&got);
    kva_buf_release(&text);
    kva_tokenizer_free(t);
}

static void questions_do_not_see_each_other(void **state)
{
    (void)state;
    struct kva_tokenizer *t = word_tokenizer(), *a, *b;
    encodes(t, "the", (int32_t[]){28028, -1});
    assert_int_equal(kva_tokenizer_clone(t, &a, NULL), KVA_OK);
    assert_int_equal(kva_tokenizer_clone(t, &b, NULL), KVA_OK);
    encodes(a, "magic", (int32_t[]){18988, -1});
    int32_t ids[] = {28028, 18988};
    decodes(a, ids, 2, "the magic");
    decodes(b, ids, 2, "the <18988>");
    decodes(t, ids, 2, "the <18988>");
    kva_tokenizer_free(t); /* copies stand alone */
    decodes(a, ids, 2, "the magic");
    kva_tokenizer_free(a);
    kva_tokenizer_free(b);
}

static void an_id_without_a_word_prints_as_a_number(void **state)
{
    (void)state;
    struct kva_tokenizer *t = word_tokenizer();
    int32_t ids[] = {20, 300, 32767};
    decodes(t, ids, 3, "<20> <300> <32767>");
    decodes(t, NULL, 0, "");
    kva_tokenizer_free(t);
}

static void counting_leaves_the_map_alone(void **state)
{
    (void)state;
    struct kva_tokenizer *t = word_tokenizer();
    size_t count;
    assert_int_equal(kva_tokenizer_count(t, "magic (words).", 14, &count, NULL), KVA_OK);
    assert_int_equal(count, 5);
    int32_t id = 18988;
    decodes(t, &id, 1, "<18988>");
    kva_tokenizer_free(t);
}

static void the_handle_has_the_flags_of_the_model(void **state)
{
    (void)state;
    struct kva_tokenizer *t = word_tokenizer(), *copy;
    assert_int_equal(kva_tokenizer_clone(t, &copy, NULL), KVA_OK);
    assert_int_equal(kva_tokenizer_size(copy), 32768);
    assert_int_equal(kva_tokenizer_bos(copy), 0);
    assert_true(kva_tokenizer_add_bos(copy));
    assert_true(kva_tokenizer_is_eog(copy, 1));
    assert_false(kva_tokenizer_is_eog(copy, 0));
    uint8_t a[32], b[32];
    kva_tokenizer_sha256(t, a);
    encodes(copy, "the", (int32_t[]){28028, -1});
    kva_tokenizer_sha256(copy, b); /* state is no part of the identity */
    assert_memory_equal(a, b, 32);
    kva_tokenizer_free(copy);
    kva_tokenizer_free(t);
}

static void running_out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct kva_tokenizer *t = NULL, *copy = NULL;
        struct kva_tokens got = {0};
        kva_alloc_fail_at(n);
        enum kva_status rc = kva_tokenizer_word_new(&t, NULL);
        if (rc == KVA_OK)
            rc = kva_tokenizer_encode(t, "a b c", 5, true, &got, NULL);
        if (rc == KVA_OK)
            rc = kva_tokenizer_clone(t, &copy, NULL);
        kva_alloc_fail_at(0);
        kva_tokens_release(&got);
        kva_tokenizer_free(t);
        kva_tokenizer_free(copy);
        if (rc == KVA_OK)
            break;
        assert_int_equal(rc, KVA_ENOMEM);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_words_have_their_buckets),
        cmocka_unit_test(reserved_words_have_ids_0_to_19),
        cmocka_unit_test(the_first_golden_prompt_has_its_ids),
        cmocka_unit_test(the_second_golden_prompt_has_its_ids),
        cmocka_unit_test(words_fall_into_their_class),
        cmocka_unit_test(punctuation_is_taken_off_at_both_ends),
        cmocka_unit_test(a_taken_bucket_gives_the_next_one),
        cmocka_unit_test(a_full_range_shares_and_counts),
        cmocka_unit_test(questions_do_not_see_each_other),
        cmocka_unit_test(an_id_without_a_word_prints_as_a_number),
        cmocka_unit_test(counting_leaves_the_map_alone),
        cmocka_unit_test(the_handle_has_the_flags_of_the_model),
        cmocka_unit_test(running_out_of_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
