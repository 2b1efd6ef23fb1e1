/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_find.c - scores of retrieved values: SCBench's rules (tasks-ruler.md 10.1)
 * and the share of needle words (13). */
#include "metrics/metric.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double score_n(const char *metric, const char *prediction, size_t n,
                      const char *const *answers, int n_answers, struct kva_buf *found)
{
    const struct kva_metric *m = kva_metric_find(metric);
    struct kva_metric_in in = {
        .prediction = prediction, .n = n, .answers = answers, .n_answers = n_answers};
    struct kva_metric_out out = {.extracted = found};
    struct kva_error err = {0};

    assert_non_null(m);
    assert_int_equal(kva_metric_score(m, &in, &out, &err), KVA_OK);
    return out.score;
}

static double score(const char *metric, const char *prediction, const char *answer)
{
    return score_n(metric, prediction, strlen(prediction), &answer, 1, NULL);
}

static void a_value_is_found_with_its_case_or_not_at_all(void **state)
{
    static const char *const two[] = {"zzz", "abC"};

    (void)state;
    assert_true(score("substring", "the value is abC.", "abC") == 1);
    assert_true(score("substring", "the value is abc.", "abC") == 0);
    assert_true(score("substring", "", "abC") == 0);
    assert_true(score_n("substring", "xabCx", 5, two, 2, NULL) == 1);
    assert_true(score_n("substring", "x\0abC", 5, two, 2, NULL) == 1);
    assert_true(score_n("substring", "xabC", 3, two, 2, NULL) == 0);
}

static void upper_case_is_compared_and_any_label_will_do(void **state)
{
    static const char *const names[] = {"SARAH CREWE", "Stra\xc3\x9f"
                                                       "e"};

    (void)state;
    assert_true(score_n("match_upper", "  sarah crewe, I think", 22, names, 2, NULL) ==
                1);
    assert_true(score_n("match_upper", "in der STRASSE", 14, names, 2, NULL) == 1);
    assert_true(score_n("match_upper", "Sara Crewe", 10, names, 2, NULL) == 0);
    assert_true(score("match_upper", "", "a") == 0);
    assert_true(score("match_upper", "  a", " a") == 0); /* the output is stripped */
}

/* The first match of \d+\.\d+|\d+; int(float(x)) == label or float(x) == label. */
static void the_first_number_of_the_output_counts(void **state)
{
    static const struct {
        const char *output, *label, *found;
        double score;
    } row[] = {
        {"The largest is 9987.", "9987", "9987", 1},
        {"7.9", "7", "7.9", 1},
        {"7.9", "7.9", "7.9", 1},
        {"7", "7.0", "7", 1},
        {"7.5", "7.0", "7.5", 0},
        {"12 or 9987", "9987", "12", 0},
        {"-5", "-5", "5", 0}, /* the minus sign is not read */
        {"-5", "5", "5", 1},
        {".5", "5", "5", 1},
        {"3.", "3", "3", 1},
        {"3..5", "3", "3", 1},
        {"1,234", "1", "1", 1},
        {"007", "7", "007", 1},
        {"none", "0", "", 0},
        {"", "0", "", 0},
        {"\xd9\xa3\xd9\xa4", "34", "34", 1}, /* Arabic digits are digits */
        {"\xf0\x9d\x9f\x9a\xf0\x9d\x9f\xa2", "20", "20", 1}, /* bold 2, sans-serif 0 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct kva_buf found;
        double got;

        kva_buf_init(&found, 0);
        got = score_n("find_number", row[i].output, strlen(row[i].output), &row[i].label,
                      1, &found);
        if (got != row[i].score || strcmp(found.len ? found.data : "", row[i].found) != 0)
            fail_msg("\"%s\" for %s: %g, found \"%s\"", row[i].output, row[i].label, got,
                     found.len ? found.data : "");
        kva_buf_release(&found);
    }
}

static void a_number_of_any_length_is_no_trouble(void **state)
{
    size_t n = 1000000;
    char *text = malloc(n + 1);

    (void)state;
    assert_non_null(text);
    memset(text, '9', n);
    text[n] = '\0';
    assert_true(score("find_number", text, "9") == 0);
    assert_true(score("substring", text, "98") == 0);
    free(text);
}

static void needle_words_are_eleven(void **state)
{
    static const char needle[] = "eat a sandwich and sit in Dolores Park on a sunny day.";

    (void)state;
    assert_true(score("needle_words", needle, needle) == 1);
    assert_true(score("needle_words", "EAT A SANDWICH", needle) == 3.0 / 11);
    assert_true(score("needle_words", "a and in on", needle) == 4.0 / 11);
    assert_true(score("needle_words", "a a a a", needle) == 1.0 / 11);
    assert_true(score("needle_words", "sunny day", needle) == 1.0 / 11); /* "day." */
    assert_true(score("needle_words", "", needle) == 0);
}

static void put_utf8(struct kva_buf *b, unsigned long c)
{
    if (c < 0x80) {
        kva_buf_putc(b, (char)c);
    } else if (c < 0x800) {
        kva_buf_printf(b, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        kva_buf_printf(b, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 63)),
                       (int)(0x80 | (c & 63)));
    } else {
        kva_buf_printf(b, "%c%c%c%c", (int)(0xf0 | c >> 18), (int)(0x80 | (c >> 12 & 63)),
                       (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
    }
}

/* The label is upper-cased: found only if it becomes exactly this. Both begin with a
 * letter, since the output is stripped. */
static void check_upper(struct kva_buf *small, struct kva_buf *upper)
{
    kva_buf_putc(small, 'x');
    kva_buf_puts(upper, "X");
    if (score("match_upper", upper->data, small->data) != 1 ||
        upper->len < small->len - 2)
        fail_msg("%s is not the upper case of %s", upper->data, small->data);
    small->len = upper->len = 1;
}

/* Code points in no line of the file are their own upper case. */
static void check_unchanged(const uint8_t *changed, struct kva_buf *small,
                            struct kva_buf *upper)
{
    for (unsigned long c = 1; c < 0x110000; c++) {
        if (!changed[c] && (c < 0xd800 || c > 0xdfff)) {
            put_utf8(small, c);
            put_utf8(upper, c);
        }
        if (c % 64 == 63 && small->len > 1)
            check_upper(small, upper);
    }
}

static void upper_case_is_pythons_for_every_code_point(void **state)
{
    static uint8_t changed[0x110000];
    struct kva_buf file, small, upper;
    struct kva_error err = {0};
    int rows = 0, points = 0;

    (void)state;
    kva_buf_init(&file, 0);
    kva_buf_init(&small, 0);
    kva_buf_init(&upper, 0);
    kva_buf_putc(&small, 'X');
    kva_buf_putc(&upper, 'X');
    assert_int_equal(kva_read_file("tests/golden/metrics/upper.txt", 0, &file, &err),
                     KVA_OK);
    for (char *line = file.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        unsigned long first, last, step, u[3];
        long delta;
        int n;

        *end = '\0';
        if (line[0] == '#')
            continue;
        rows++;
        n = sscanf(line, "%lx = %lx %lx %lx", &first, &u[0], &u[1], &u[2]);
        if (n >= 2) {
            changed[first] = 1;
            put_utf8(&small, first);
            for (int i = 0; i < n - 1; i++)
                put_utf8(&upper, u[i]);
            check_upper(&small, &upper);
            points++;
            continue;
        }
        assert_int_equal(sscanf(line, "%lx %lx %lu %ld", &first, &last, &step, &delta),
                         4);
        for (unsigned long c = first; c <= last; c += step, points++) {
            changed[c] = 1;
            put_utf8(&small, c);
            put_utf8(&upper, c + (unsigned long)delta);
            check_upper(&small, &upper);
        }
    }
    assert_true(rows > 200 && points > 1400);
    check_unchanged(changed, &small, &upper);
    kva_buf_release(&file);
    kva_buf_release(&small);
    kva_buf_release(&upper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_found_with_its_case_or_not_at_all),
        cmocka_unit_test(upper_case_is_compared_and_any_label_will_do),
        cmocka_unit_test(the_first_number_of_the_output_counts),
        cmocka_unit_test(a_number_of_any_length_is_no_trouble),
        cmocka_unit_test(needle_words_are_eleven),
        cmocka_unit_test(upper_case_is_pythons_for_every_code_point),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
