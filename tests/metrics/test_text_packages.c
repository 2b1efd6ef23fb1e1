/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_packages.c - random pairs as the packages rouge, fuzzywuzzy (on difflib and
 * on python-Levenshtein) and Python itself score them: tests/golden/metrics/compare.py.
 */
#include "tests/metrics/text_test.h"

#include <jansson.h>

static void check_row(const json_t *row, int line)
{
    const json_t *prediction = json_object_get(row, "prediction"), *want;
    const char *answer = json_string_value(json_object_get(row, "answer")), *metric;
    json_t *scores = json_object_get(row, "scores");
    struct kva_metric_in in = {.prediction = json_string_value(prediction),
                               .n = json_string_length(prediction),
                               .answers = &answer,
                               .n_answers = 1};

    json_object_foreach(scores, metric, want)
    {
        double got = score_in(metric, &in);

        if (got != json_real_value(want))
            fail_msg("line %d, %s: %.17g, not %.17g", line, metric, got,
                     json_real_value(want));
    }
}

/* Rows after the one on versions, as many as were written and scores that differ. */
static void check_file(const char *path, int rows)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    int n = 0;

    if (!f)
        fail_msg("no %s", path);
    for (; getline(&line, &room, f) > 0; n++) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);

        assert_non_null(row);
        if (n > 0)
            check_row(row, n + 1);
        json_decref(row);
    }
    assert_int_equal(n, rows + 1);
    free(line);
    fclose(f);
}

static void rouge_difflib_and_python_agree_to_the_last_bit(void **state)
{
    (void)state;
    check_file("tests/golden/metrics/pairs.jsonl", 240);
}

static void levenshtein_agrees_to_the_last_bit(void **state)
{
    (void)state;
    check_file("tests/golden/metrics/pairs-indel.jsonl", 240);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rouge_difflib_and_python_agree_to_the_last_bit),
        cmocka_unit_test(levenshtein_agrees_to_the_last_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
