/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_joined.c - the sorted list of all "adjective-noun" by index. */
#include "tasks/joined.h"
#include "tests/tasks/tasks_test.h"

static void open_list(const char *version, struct kva_lexicon *l, struct kva_joined *j)
{
    struct kva_error err = {0};

    if (kva_lexicon_open(l, version, NULL, &err) != KVA_OK ||
        kva_joined_open(j, l, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

static const char *at(const struct kva_joined *j, size_t i, char out[128])
{
    const char *adjective, *noun;

    kva_joined_at(j, i, &adjective, &noun);
    snprintf(out, 128, "%s-%s", adjective, noun);
    return out;
}

static void known_keys_stand_at_their_index(void **state)
{
    struct kva_lexicon l;
    struct kva_joined j;
    char text[128];

    (void)state;
    open_list("2.2.0", &l, &j);
    assert_int_equal(j.n, 6175260);
    assert_string_equal(at(&j, 0, text), "Early-ATM");
    assert_string_equal(at(&j, 3087630, text), "level-ATM");
    assert_string_equal(at(&j, j.n - 1, text), "zonked-zucchini");
    kva_joined_release(&j);
    kva_lexicon_release(&l);
    open_list("3.0.0", &l, &j);
    assert_int_equal(j.n, 6171620);
    kva_joined_release(&j);
    kva_lexicon_release(&l);
}

static void the_whole_list_ascends(void **state)
{
    struct kva_lexicon l;
    struct kva_joined j;
    char text[2][128];

    (void)state;
    open_list("2.2.0", &l, &j);
    at(&j, 0, text[0]);
    for (size_t i = 1; i < j.n; i++)
        if (strcmp(text[(i - 1) % 2], at(&j, i, text[i % 2])) >= 0)
            fail_msg("%zu: %s does not follow %s", i, text[i % 2], text[(i - 1) % 2]);
    kva_joined_release(&j);
    kva_lexicon_release(&l);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Brute force: every string of both adjectives, sorted. */
static void continued_adjectives_interleave(void **state)
{
    static const char *const pairs[][2] = {{"blue", "blue-eyed"},
                                           {"high", "high-pitched"},
                                           {"old", "old-fashioned"},
                                           {"teeny", "teeny-tiny"},
                                           {"wide", "wide-eyed"}};
    struct kva_lexicon l;
    struct kva_joined j;
    size_t n_merged = 0;

    (void)state;
    open_list("2.2.0", &l, &j);
    for (size_t g = 0; g < j.n_groups; g++) {
        const char *base = l.adjectives.word[j.group[g].adjective];
        size_t n = l.nouns.n;
        char(*all)[64], text[128];

        if (!j.group[g].merged)
            continue;
        assert_string_equal(base, pairs[n_merged][0]);
        all = calloc(2 * n, sizeof *all);
        assert_non_null(all);
        for (size_t k = 0; k < 2 * n; k++)
            snprintf(all[k], sizeof all[k], "%s-%s", pairs[n_merged][k / n],
                     l.nouns.word[k % n]);
        qsort(all, 2 * n, sizeof *all, by_text);
        for (size_t k = 0; k < 2 * n; k++)
            assert_string_equal(at(&j, j.group[g].first + k, text), all[k]);
        free(all);
        n_merged++;
    }
    assert_int_equal(n_merged, 5);
    kva_joined_release(&j);
    kva_lexicon_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(known_keys_stand_at_their_index),
        TEST(the_whole_list_ascends),
        TEST(continued_adjectives_interleave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
