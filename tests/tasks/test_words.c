/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_words.c - sizes, order and ends of the word lists (tasks-ruler.md 5). */
#include "tests/tasks/tasks_test.h"

static void lists_have_the_published_sizes(void **state)
{
    struct kva_lexicon a, b;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_lexicon_open(&a, NULL, NULL, &err), KVA_OK);
    assert_string_equal(a.version, "2.2.0");
    assert_int_equal(a.adjectives.n, 910);
    assert_int_equal(a.nouns.n, 6786);
    assert_int_equal(a.adjectives.n * a.nouns.n, 6175260);
    assert_int_equal(kva_lexicon_open(&b, "3.0.0", NULL, &err), KVA_OK);
    assert_int_equal(b.adjectives.n, 910);
    assert_int_equal(b.nouns.n, 6782);
    assert_int_equal(b.adjectives.n * b.nouns.n, 6171620);
    kva_lexicon_release(&a);
    kva_lexicon_release(&b);
}

static void words_are_sorted_distinct_and_stripped(void **state)
{
    struct kva_lexicon lex;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_lexicon_open(&lex, "2.2.0", NULL, &err), KVA_OK);
    assert_string_equal(lex.adjectives.word[159], "curious");
    assert_string_equal(lex.adjectives.word[121], "cheerful");
    assert_string_equal(lex.adjectives.word[622], "puzzled");
    assert_string_equal(lex.nouns.word[1081], "chow");
    assert_string_equal(lex.nouns.word[5837], "string");
    assert_string_equal(lex.nouns.word[2180], "examination");
    assert_string_equal(lex.nouns.word[0], "ATM");
    assert_string_equal(lex.nouns.word[lex.nouns.n - 1], "zucchini");
    assert_string_equal(lex.adjectives.word[0], "Early");
    assert_string_equal(lex.adjectives.word[lex.adjectives.n - 1], "zonked");
    for (int which = 0; which < 2; which++) {
        const struct kva_words *w = which ? &lex.nouns : &lex.adjectives;

        for (size_t i = 0; i < w->n; i++) {
            size_t n = strlen(w->word[i]);

            assert_true(n > 0 && w->word[i][0] != ' ' && w->word[i][n - 1] != ' ');
            assert_true(i == 0 || strcmp(w->word[i - 1], w->word[i]) < 0);
        }
    }
    kva_lexicon_release(&lex);
}

static void another_version_is_refused_by_name(void **state)
{
    (void)state;
    assert_string_equal(
        refusal("ruler/niah_single_1", &(struct kva_task_opts){.words = "2.3.0"}),
        "EINVALID: word lists \"2.3.0\": known are 2.2.0 and 3.0.0");
}

static void the_vocabulary_joins_three_lists(void **state)
{
    struct kva_words w;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_vocabulary_open(&w, "2.2.0", NULL, &err), KVA_OK);
    assert_int_equal(w.n, 8169);
    for (size_t i = 1; i < w.n; i++)
        assert_true(strcmp(w.word[i - 1], w.word[i]) < 0);
    kva_words_release(&w);
    assert_int_equal(kva_vocabulary_open(&w, "3.0.0", NULL, &err), KVA_OK);
    assert_int_equal(w.n, 8166);
    kva_words_release(&w);
    assert_int_equal(kva_vocabulary_open(&w, "1", NULL, &err), KVA_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lists_have_the_published_sizes),
        TEST(words_are_sorted_distinct_and_stripped),
        TEST(the_vocabulary_joins_three_lists),
        TEST(another_version_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
