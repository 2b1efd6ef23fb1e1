/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_split.c - the splitter's worked example and its count on the essays
 * (tasks-ruler.md 5.1). */
#include "tests/tasks/tasks_test.h"

static void expect(const char *text, const char *const *want, size_t n)
{
    struct kva_error err = {0};
    struct kva_slice *s;
    size_t count;

    assert_int_equal(kva_split_sentences(text, strlen(text), &s, &count, &err), KVA_OK);
    assert_int_equal(count, n);
    for (size_t i = 0; i < n; i++) {
        char got[256];

        snprintf(got, sizeof got, "%.*s", (int)(s[i].b1 - s[i].b0), text + s[i].b0);
        assert_string_equal(got, want[i]);
    }
    free(s);
}

static void the_worked_text_has_six_sentences(void **state)
{
    static const char *const want[] = {"He met Dr. Smith at 5 p.m. on Mt. Kea.",
                                       "\"Go!\" he said.",
                                       "(Yes.)",
                                       "J. R. Doe left.",
                                       "No. 5 is e.g. Fine?",
                                       "Yes...Well."};

    (void)state;
    expect(
        "He met Dr. Smith at 5 p.m. on Mt. Kea. \"Go!\" he said. (Yes.) J. R. Doe left. "
        "No. 5 is e.g. Fine? Yes...Well.",
        want, 6);
}

static void closers_openers_runs_and_digits_follow_the_rule(void **state)
{
    static const char *const closers[] = {"He said \"no.\"", "\"Why?!\"",
                                          "[Then he went.]", "3 came."};
    static const char *const abbreviation[] = {"Who is Dr.?", "The Dr.!", "Go."};
    static const char *const whole[] = {"a. b. c"};

    (void)state;
    expect("He said \"no.\" \"Why?!\" [Then he went.] 3 came.", closers, 4);
    expect("Who is Dr.? The Dr.! Go.", abbreviation, 3); /* a run is no abbreviation */
    expect("a. b. c", whole, 1);
    expect("", NULL, 0);
}

static void the_essays_have_5850_sentences(void **state)
{
    struct kva_essay e;
    struct kva_error err = {0};
    size_t words = 1;

    (void)state;
    assert_int_equal(kva_essay_open(&e, "emerson", &(struct kva_task_opts){0}, &err),
                     KVA_OK);
    assert_int_equal(e.n, 5850);
    assert_false(e.repeats);
    for (size_t i = 0; i < e.text.len; i++)
        words += e.text.data[i] == ' ';
    assert_int_equal(words, 130414);
    kva_essay_release(&e);
}

static void the_embedded_text_has_twelve_sentences(void **state)
{
    static const int words[] = {6, 6, 6, 8, 7, 7, 10, 8, 7, 7, 13, 11};
    struct kva_essay e;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_essay_open(&e, "embedded", &(struct kva_task_opts){0}, &err),
                     KVA_OK);
    assert_int_equal(e.n, 12);
    for (size_t i = 0; i < e.n; i++) {
        int n = 1;

        for (size_t b = e.sentence[i].b0; b < e.sentence[i].b1; b++)
            n += e.text.data[b] == ' ';
        assert_int_equal(n, words[i]);
    }
    kva_essay_release(&e);
}

static void white_space_becomes_single_blanks(void **state)
{
    struct kva_buf b;

    (void)state;
    kva_buf_init(&b, 0);
    kva_squeeze("  a\n\n b\tc  ", 10, &b);
    assert_string_equal(b.data, "a b c");
    kva_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_worked_text_has_six_sentences),
        TEST(closers_openers_runs_and_digits_follow_the_rule),
        TEST(the_essays_have_5850_sentences),
        TEST(the_embedded_text_has_twelve_sentences),
        TEST(white_space_becomes_single_blanks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
