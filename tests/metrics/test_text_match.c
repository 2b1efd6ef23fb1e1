/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_match.c - RULER's scorers on the table of tasks-ruler.md 12.4, and their
 * edges. */
#include "metrics/metric.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static double score(const char *metric, const char *prediction,
                    const char *const *answers, int n)
{
    const struct kva_metric *m = kva_metric_find(metric);

    assert_non_null(m);
    struct kva_metric_in in = {.prediction = prediction,
                               .n = strlen(prediction),
                               .answers = answers,
                               .n_answers = n};
    struct kva_metric_out out = {0};
    struct kva_error err = {0};

    assert_int_equal(kva_metric_score(m, &in, &out, &err), KVA_OK);
    return out.score;
}

static void the_published_table_is_reproduced(void **state)
{
    static const struct {
        const char *answers[4];
        int n;
        const char *output;
        double all, part;
    } row[] = {
        {{"4812907"}, 1, " 4812907.", 100, 100},
        {{"2191066", "2130789", "1987737", "4694634"},
         4,
         "2191066, 2130789 and 4694634",
         75,
         100},
        {{"1800", "in 1800"}, 2, "It was built in 1800", 100, 100},
        {{"in 1800", "1800"}, 2, "1800", 50, 100},
        {{"Normandy"}, 1, "NORMANDY\x07", 100, 100},
        {{"a", "b"}, 2, "", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_true(100 * score("match_all", row[i].output, row[i].answers, row[i].n) ==
                    row[i].all);
        assert_true(100 * score("match_part", row[i].output, row[i].answers, row[i].n) ==
                    row[i].part);
    }
}

static void control_characters_become_line_feeds_not_nothing(void **state)
{
    static const char *const glued[] = {"catdog"}, *const blank[] = {"cat dog"},
                             *const feed[] = {"cat\ndog"};

    (void)state;
    assert_true(score("match_all", "cat\ndog", glued, 1) == 0);
    assert_true(score("match_all", "cat\tdog", blank, 1) == 0);
    assert_true(score("match_all", "cat\tdog", feed, 1) == 1);
    assert_true(score("match_all",
                      "cat\x1f"
                      "dog",
                      feed, 1) == 1);
}

static void the_output_is_stripped_and_the_reference_is_not(void **state)
{
    static const char *const led[] = {" x"}, *const inner[] = {"b c"};

    (void)state;
    assert_true(score("match_all", "  x", led, 1) == 0);
    assert_true(score("match_all", "a x", led, 1) == 1);
    assert_true(score("match_all", "\xc2\xa0\x01 b c\n", inner, 1) == 1);
}

static void letters_beyond_ascii_ignore_case_too(void **state)
{
    static const char
        *const pinata[] = {"PI\xc3\x91"
                           "ATA"},
               *const moscow[] = {"\xd0\x9c\xd0\xbe\xd1\x81\xd0\xba\xd0\xb2\xd0\xb0"},
               *const times[] = {"\xc3\x97"}, *const zurich[] = {"z\xc3\xbcrich"};

    (void)state;
    assert_true(score("match_all",
                      "a pi\xc3\xb1"
                      "ata",
                      pinata, 1) == 1);
    assert_true(score("match_all", "\xd0\x9c\xd0\x9e\xd0\xa1\xd0\x9a\xd0\x92\xd0\x90",
                      moscow, 1) == 1);
    assert_true(score("match_all", "Z\xc3\x9cRICH", zurich, 1) == 1);
    assert_true(score("match_all", "\xc3\xb7", times, 1) ==
                0); /* x and :, no case pair */
}

static void broken_utf8_is_the_replacement_character(void **state)
{
    static const char *const a[] = {"ok"}, *const bad[] = {"\xff"},
                             *const y[] = {"\xc3\xbf"},
                             *const mark[] = {"a\xef\xbf\xbd b"};

    (void)state;
    assert_true(score("match_all", "\xff\xc3 ok \xe2\x82", a, 1) == 1);
    assert_true(score("match_all",
                      "a\xff"
                      "b",
                      bad, 1) == 1);
    assert_true(score("match_all",
                      "a\xff"
                      "b",
                      y, 1) == 0);
    assert_true(score("match_all", "a\xe2\x82 b", mark, 1) == 1);
}

static void lower_case_is_pythons(void **state)
{
    static const char *const odos[] = {"\xce\x9f\xce\x94\xce\x9f\xce\xa3"},
                             *const izmir[] = {"i\xcc\x87zmir"},
                             *const ascii[] = {"izmir"};

    (void)state; /* final sigma; dotted capital I */
    assert_true(score("match_all", "\xce\xbf\xce\xb4\xce\xbf\xcf\x82.", odos, 1) == 1);
    assert_true(score("match_all", "\xce\xbf\xce\xb4\xce\xbf\xcf\x83.", odos, 1) == 0);
    assert_true(score("match_all", "\xc4\xb0ZMIR", izmir, 1) == 1);
    assert_true(score("match_all", "\xc4\xb0ZMIR", ascii, 1) == 0);
}

static void a_word_match_has_no_letter_or_digit_beside_it(void **state)
{
    static const char *const words[] = {"hen", "urn"}, *const bc[] = {"b\xc3\xa9"},
                             *const aba[] = {"a a"}, *const empty[] = {""};

    (void)state; /* the example of tasks-ruler.md 11.3 */
    assert_true(score("match_all", "1. then 2. return", words, 2) == 1);
    assert_true(score("word_match", "1. then 2. return", words, 2) == 0);
    assert_true(score("word_match", "1. hen 2. return", words, 2) == 0.5);
    assert_true(score("word_match", "1.HEN_(Urn)", words, 2) == 1);
    assert_true(score("word_match", "then hen urns urn", words, 2) == 1);
    assert_true(score("word_match", "2hen urn3", words, 2) == 0);
    assert_true(score("word_match", "hen\xc2\xb2 urn\xce\xb1", words, 2) == 0);
    assert_true(score("word_match", "ab\xc3\xa9, b\xc3\xa9!", bc, 1) == 1);
    assert_true(score("word_match", "a aa a", aba, 1) == 0);
    assert_true(score("word_match", "aa a a", aba, 1) == 1); /* occurrences overlap */
    assert_true(score("word_match", "", words, 2) == 0);
    assert_true(score("word_match", "x", empty, 1) == score("match_all", "x", empty, 1));
}

static void a_nul_is_a_control_character_inside_the_output(void **state)
{
    static const char *const answers[] = {"b", "a\nb"};
    struct kva_metric_in in = {
        .prediction = "\0a\0b", .n = 4, .answers = answers, .n_answers = 2};
    struct kva_metric_out out = {0};

    (void)state;
    assert_int_equal(kva_metric_score(kva_metric_find("match_all"), &in, &out, NULL),
                     KVA_OK);
    assert_true(out.score == 1);
}

/* Periodic texts, on which a search from every place would take an hour. */
static void megabytes_take_less_than_a_second(void **state)
{
    enum { N = 1000000 };
    static const char *const metrics[] = {"match_all", "match_part", "word_match"};
    char *text = malloc(N + 1), *word = malloc(N / 2);
    const char *const answers[] = {word};

    (void)state;
    for (int i = 0; i < N; i++)
        text[i] = i % 2 ? ' ' : 'a';
    text[N] = '\0';
    memcpy(word, text, N / 2 - 1);
    word[N / 2 - 1] = '\0';
    for (int last = 'a'; last <= 'b'; last++) {
        word[N / 2 - 2] = (char)last;
        for (size_t i = 0; i < 3; i++) {
            uint64_t begin = kva_cpu_ns();

            assert_true(score(metrics[i], text, answers, 1) == (last == 'a'));
            assert_true(kva_cpu_ns() - begin < 1000000000);
        }
    }
    free(word);
    free(text);
}

static void no_reference_scores_zero(void **state)
{
    static const char *const none[] = {NULL};

    (void)state;
    assert_true(score("match_all", "x", NULL, 0) == 0);
    assert_true(score("match_part", "x", NULL, 0) == 0);
    assert_true(score("match_all", "x", none, 1) == 0);
}

static void the_registry_is_well_formed(void **state)
{
    const struct kva_metric *const *m = kva_metrics();

    (void)state;
    assert_null(kva_metric_find("match_non"));
    for (size_t i = 0; m[i]; i++) {
        assert_ptr_equal(kva_metric_find(m[i]->name), m[i]);
        assert_int_equal(strspn(m[i]->name, "abcdefghijklmnopqrstuvwxyz0123456789_"),
                         strlen(m[i]->name));
        assert_in_range(strlen(m[i]->summary), 1, 72);
        assert_true(strlen(m[i]->source) > 0 && m[i]->version >= 1 && m[i]->score);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_table_is_reproduced),
        cmocka_unit_test(control_characters_become_line_feeds_not_nothing),
        cmocka_unit_test(the_output_is_stripped_and_the_reference_is_not),
        cmocka_unit_test(letters_beyond_ascii_ignore_case_too),
        cmocka_unit_test(broken_utf8_is_the_replacement_character),
        cmocka_unit_test(lower_case_is_pythons),
        cmocka_unit_test(a_word_match_has_no_letter_or_digit_beside_it),
        cmocka_unit_test(a_nul_is_a_control_character_inside_the_output),
        cmocka_unit_test(megabytes_take_less_than_a_second),
        cmocka_unit_test(no_reference_scores_zero),
        cmocka_unit_test(the_registry_is_well_formed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
