/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_longbench.c - the 419 scored predictions of the shared data over all 16
 * LongBench sets: each record, and the means of tasks-longbench-math.md A.7.7. */
#include "tests/metrics/text_test.h"

#include <jansson.h>

enum { RECORDS = 32, CLASSES = 64 };

static const struct set {
    const char *name, *metric;
    bool first_line; /* A.6 */
    int rows;
    double official, kvpress, indel; /* A.7.7 */
} SETS[] = {
    {"narrativeqa", "qa_f1", false, 25, 49.56, 49.56, -1},
    {"qasper", "qa_f1", false, 25, 58.08, 58.08, -1},
    {"multifieldqa_en", "qa_f1", false, 25, 62.29, 62.29, -1},
    {"hotpotqa", "qa_f1", false, 25, 52.03, 52.03, -1},
    {"2wikimqa", "qa_f1", false, 25, 53.02, 53.02, -1},
    {"musique", "qa_f1", false, 25, 55.80, 55.80, -1},
    {"gov_report", "rouge_l", false, 25, 52.49, 52.49, -1},
    {"qmsum", "rouge_l", false, 25, 62.06, 62.06, -1},
    {"multi_news", "rouge_l", false, 25, 54.46, 54.46, -1},
    {"trec", "classification", true, 30, 68.33, 68.33, -1},
    {"triviaqa", "qa_f1", true, 25, 65.78, 65.78, -1},
    {"samsum", "rouge_l", true, 25, 60.31, 60.31, -1},
    {"passage_count", "count", false, 24, 75.00, 75.00, -1},
    {"passage_retrieval_en", "retrieval", false, 30, 58.33, 58.33, -1},
    {"lcc", "code_sim", false, 30, 72.57, 68.20, 73.00},
    {"repobench-p", "code_sim", false, 30, 69.80, 67.07, 70.03},
};
enum { N_SETS = sizeof SETS / sizeof SETS[0] };

static const char *shared(void)
{
    const char *dir = getenv("KVAUDIT_SHARED");

    return dir ? dir : "../shared/data";
}

/* The lines of a file as JSON values; NULL when there is none. */
static json_t *load_lines(const char *name)
{
    json_t *rows = json_array();
    struct kva_buf file;
    char path[512];

    kva_buf_init(&file, 0);
    snprintf(path, sizeof path, "%s/longbench/%s.jsonl", shared(), name);
    if (kva_read_file(path, 0, &file, NULL) != KVA_OK) {
        json_decref(rows);
        return NULL;
    }
    for (char *line = file.data; *line;) {
        char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        json_t *row = json_loadb(line, n, 0, NULL);

        assert_non_null(row);
        json_array_append_new(rows, row);
        line += n + (end != NULL);
    }
    kva_buf_release(&file);
    return rows;
}

static int strings(const json_t *array, const char **out, int room)
{
    int n = (int)json_array_size(array);

    assert_true(n <= room);
    for (int i = 0; i < n; i++)
        out[i] = json_string_value(json_array_get(array, (size_t)i));
    return n;
}

static const json_t *record(const json_t *records, const char *id)
{
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *r = json_array_get(records, i);

        if (strcmp(json_string_value(json_object_get(r, "_id")), id) == 0)
            return r;
    }
    fail_msg("no record %s", id);
    return NULL;
}

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static void near(double got, double want, const char *what, const json_t *row)
{
    if (fabs(got - want) > 1e-9)
        fail_msg("%s of %s, %s: %.17g, not %.17g", what,
                 json_string_value(json_object_get(row, "_id")),
                 json_string_value(json_object_get(row, "variant")), got, want);
}

static void check_set(const struct set *set, const json_t *fixtures)
{
    json_t *records = load_lines(set->name);
    double official = 0, kvpress = 0, indel = 0;
    int n = 0;

    assert_non_null(records);
    for (size_t i = 0; i < json_array_size(fixtures); i++) {
        const json_t *row = json_array_get(fixtures, i);
        const json_t *pred = json_object_get(row, "pred"), *r;
        const char *answers[RECORDS], *classes[CLASSES];
        struct kva_metric_in in = {.answers = answers, .classes = classes};
        double score;

        if (strcmp(json_string_value(json_object_get(row, "dataset")), set->name) != 0)
            continue;
        r = record(records, json_string_value(json_object_get(row, "_id")));
        in.prediction = json_string_value(pred);
        in.n = json_string_length(pred);
        in.n_answers = strings(json_object_get(r, "answers"), answers, RECORDS);
        in.n_classes = strings(json_object_get(r, "all_classes"), classes, CLASSES);
        in.post = set->first_line ? KVA_POST_FIRST_LINE : KVA_POST_NONE;
        score = score_in(set->metric, &in);
        near(score, number(row, "official"), "official", row);
        official += score;
        if (set->indel >= 0) {
            score = score_in("code_sim_indel", &in);
            near(score, number(row, "indel"), "indel", row);
            indel += score;
        }
        in.post = set->first_line ? KVA_POST_STRIP_FIRST_LINE : KVA_POST_STRIP;
        score = score_in(set->metric, &in);
        near(score, number(row, "kvpress"), "kvpress", row);
        kvpress += score;
        n++;
    }
    assert_int_equal(n, set->rows);
    assert_true(fabs(100 * official / n - set->official) < 0.005);
    assert_true(fabs(100 * kvpress / n - set->kvpress) < 0.005);
    if (set->indel >= 0)
        assert_true(fabs(100 * indel / n - set->indel) < 0.005);
    json_decref(records);
}

static void every_scored_prediction_is_reproduced(void **state)
{
    json_t *fixtures = load_lines("metric-fixtures");

    (void)state;
    if (!fixtures) {
        print_message("SKIP: no %s/longbench/metric-fixtures.jsonl\n", shared());
        skip();
    }
    assert_int_equal(json_array_size(fixtures), 419);
    for (size_t i = 0; i < N_SETS; i++)
        check_set(&SETS[i], fixtures);
    json_decref(fixtures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scored_prediction_is_reproduced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
