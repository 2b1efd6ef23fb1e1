/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_choice.c - the letter of a four-choice answer. */
#include "metrics/metric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void the_letter_is_read_as_the_official_code_reads_it(void **state)
{
    static const struct {
        const char *prediction, *letter;
    } row[] = {
        {"The correct answer is (B).", "B"},
        {"The correct answer is B", "B"},
        {"**The correct answer is (C)**", "C"},
        {"The correct *answer* is (*D*)", "D"},
        {"The correct answer is A. The correct answer is (B)", "B"}, /* brackets first */
        {"The correct answer is (E). The correct answer is (A)", "A"},
        {"The correct answer is (A", ""},
        {"The correct answer is Apple", "A"},
        {"the correct answer is (A)", ""},
        {"The correct answer is  (A)", ""},
        {"The correct answer is (a)", ""},
        {"The correct answer is (insert answer here)", ""},
        {"The correct answer is ", ""},
        {"(A)", ""},
        {"", ""},
    };
    static const char *const letters[] = {"A", "B", "C", "D"};
    const struct kva_metric *m = kva_metric_find("choice");
    struct kva_buf extracted;

    (void)state;
    assert_non_null(m);
    assert_true(m->binary);
    kva_buf_init(&extracted, 0);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        for (int a = 0; a < 4; a++) {
            struct kva_metric_in in = {.prediction = row[i].prediction,
                                       .n = strlen(row[i].prediction),
                                       .answers = &letters[a],
                                       .n_answers = 1};
            struct kva_metric_out out = {.extracted = &extracted};

            extracted.len = 0;
            kva_buf_add(&extracted, "", 0);
            assert_int_equal(kva_metric_score(m, &in, &out, NULL), KVA_OK);
            if (out.score != (strcmp(letters[a], row[i].letter) == 0))
                fail_msg("%s: %g for %s", row[i].prediction, out.score, letters[a]);
            assert_int_equal(extracted.len, strlen(row[i].letter));
            assert_string_equal(out.how, row[i].letter[0] ? "phrase" : "none");
        }
    kva_buf_release(&extracted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_letter_is_read_as_the_official_code_reads_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
