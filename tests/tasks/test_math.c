/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_math.c - prompts and references of MATH-500, AIME25 and GSM8K. */
#include "tests/tasks/data_test.h"

#include <jansson.h>

#define DIRECTIVE                                                                        \
    "Please reason step by step, and put your final answer within \\boxed{}."

static struct kva_task *open_math(const char *text, const char *profile, const char *dir)
{
    const char *at = dir ? dir : data_dir;
    struct kva_task_data data[] = {{"math500", at}, {"aime25", at}, {"gsm8k", at}};

    return open_with(
        text, &(struct kva_task_opts){.data = data, .n_data = 3, .profile = profile});
}

static void put_problem(void)
{
    put_data("test.jsonl",
             "{\"problem\":\"What is $1+1$?\\n{question}\",\"solution\":\"s\","
             "\"answer\":\"\\\\frac{4}{2}\",\"subject\":\"Algebra\",\"level\":2,"
             "\"unique_id\":\"test/algebra/1.json\"}\n");
}

static void each_profile_has_its_prompt_byte_for_byte(void **state)
{
    static const struct {
        const char *profile, *context, *question;
        bool raw;
        const char *stop;
    } row[] = {
        {"boxed", "What is $1+1$?\n{question}\n", DIRECTIVE, false, NULL},
        {"rkv",
         "You are given a math problem.\n\nProblem: What is $1+1$?\n{question}\n\n",
         " You need to solve the problem step by step. First, you need to provide the "
         "chain-of-thought, then provide the final answer.\n\n Provide the final answer "
         "in "
         "the format: Final answer:  \\boxed{}",
         true, NULL},
        {"plain", "Problem:\nWhat is $1+1$?\n{question}\n\n", "Solution:", true,
         "\nProblem:"},
    };
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    put_problem();
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct kva_task *task = open_math("math/math500", row[i].profile, NULL);
        struct kva_item it = item_of(task, 0, &kva_tok_ws, &arena);

        assert_string_equal(it.context, row[i].context);
        assert_int_equal(it.context_len, strlen(row[i].context));
        assert_string_equal(it.question, row[i].question);
        assert_string_equal(it.answer_prefix, "");
        assert_int_equal(it.feed.raw, row[i].raw);
        assert_false(it.feed.no_bos);
        assert_int_equal(it.feed.suffix != NULL, row[i].raw);
        assert_int_equal(it.n_stops, row[i].stop != NULL);
        if (row[i].stop)
            assert_string_equal(it.stops[0], row[i].stop);
        assert_string_equal(it.answers[0], "\\frac{4}{2}");
        assert_string_equal(it.gold, " \\boxed{\\frac{4}{2}}");
        assert_string_equal(it.labels,
                            "{\"unique_id\":\"test/algebra/1.json\",\"level\":2,"
                            "\"subject\":\"Algebra\"}");
        assert_string_equal(it.metric, "math500");
        assert_string_equal(it.more_metrics[0], "math500_boxed");
        assert_string_equal(it.more_metrics[3], "math500_hendrycks");
        assert_null(it.more_metrics[4]);
        assert_int_equal(it.max_total, 8192);
        assert_false(it.loop_guard);
        assert_true(it.n_context > 0 && it.n_question > 0);
        kva_task_close(task);
    }
    kva_arena_release(&arena);
}

static void parameters_are_part_of_the_name_where_they_differ(void **state)
{
    static const struct {
        const char *text, *name;
        int max_total;
        bool guard;
    } row[] = {
        {"math/math500", "math500", 8192, false},
        {"math/math500:max_total=8192,loop_guard=0", "math500", 8192, false},
        {"math/math500:max_total=2048", "math500:max_total=2048", 2048, false},
        {"math/gsm8k:max_total=2048,loop_guard=1", "gsm8k:loop_guard=1,max_total=2048",
         2048, true},
        {"math/gsm8k:loop_guard=1", "gsm8k:loop_guard=1", 8192, true},
        {"math/aime25", "aime25", 0, false},
    };
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct kva_task *task;
        struct kva_item it;

        put_problem();
        put_data("aime25.jsonl", "{\"problem\":\"p\",\"answer\":\"7\",\"id\":\"3\"}");
        if (strstr(row[i].text, "gsm8k"))
            put_data("test.jsonl", "{\"question\":\"q\",\"answer\":\"a #### 2\"}");
        task = open_math(row[i].text, NULL, NULL);
        it = item_of(task, 0, &kva_tok_by, &arena);
        assert_string_equal(kva_task_info(task)->name, row[i].name);
        assert_int_equal(kva_task_info(task)->ctx, 0);
        assert_int_equal(it.max_total, row[i].max_total);
        assert_int_equal(it.loop_guard, row[i].guard);
        for (int m = 0; it.more_metrics && it.more_metrics[m]; m++)
            assert_non_null(kva_metric_find(it.more_metrics[m]));
        assert_int_equal(it.more_metrics != NULL, strstr(row[i].text, "gsm8k") == NULL);
        assert_int_equal(it.max_new_tokens, row[i].max_total ? 8192 : 32768);
        assert_string_equal(kva_task_info(task)->profile, "boxed");
        kva_task_close(task);
    }
    kva_arena_release(&arena);
}

static void texts_that_are_no_task_are_refused(void **state)
{
    static const char *const row[][2] = {
        {"math/math500@2048", "has no length @2048; max_total=2048 bounds prompt and "
                              "answer"},
        {"math/math500:max_total=0", "max_total is 1 to 16777216 tokens"},
        {"math/math500:max_total=2k", "max_total is 1 to 16777216 tokens"},
        {"math/math500:loop_guard=2", "loop_guard is 0 or 1"},
        {"math/math500:loopguard=1", "did you mean loop_guard?"},
        {"math/math50", "did you mean math/math500?"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (!strstr(refusal(row[i][0], NULL), row[i][1]))
            fail_msg("%s: %s", row[i][0], refusal(row[i][0], NULL));
    assert_non_null(
        strstr(refusal("math/gsm8k", &(struct kva_task_opts){.profile = "kvpress"}),
               "no profile \"kvpress\" (boxed, rkv or plain)"));
}

static void a_gsm8k_reference_stands_behind_four_hashes(void **state)
{
    static const char *const good[][2] = {{"x <<1+1=2>>\\n#### 1,234,567", "1234567"},
                                          {"#### 5 #### -3.5 \\r\\n", "-3.5"},
                                          {"####12", "12"}};
    static const char *const bad[] = {"no mark", "#### ", "12 ####\\n"};
    struct kva_arena arena;
    struct kva_task *task;
    char line[200];

    (void)state;
    kva_arena_init(&arena);
    for (size_t i = 0; i < 6; i++) {
        snprintf(line, sizeof line, "{\"question\":\"How many?\",\"answer\":\"%s\"}",
                 i < 3 ? good[i][0] : bad[i - 3]);
        put_data("test.jsonl", line);
        task = open_math("math/gsm8k", NULL, NULL);
        if (i < 3) {
            struct kva_item it = item_of(task, 0, &kva_tok_ws, &arena);

            assert_string_equal(it.answers[0], good[i][1]);
            assert_string_equal(it.context, "How many?\n");
            assert_string_equal(it.labels, "{}");
        } else {
            assert_true(ends_with(item_refusal(task, 0, &kva_tok_ws),
                                  "test.jsonl:1: \"answer\" has nothing behind ####"));
        }
        kva_task_close(task);
    }
    kva_arena_release(&arena);
}

static void an_aime_reference_is_a_whole_number_below_a_thousand(void **state)
{
    static const char *const row[][2] = {{"\"070\"", "70"},  {"999", "999"}, {"0", "0"},
                                         {"\"588 \"", NULL}, {"1000", NULL}, {"-1", NULL},
                                         {"\"\"", NULL},     {"4.5", NULL}};
    struct kva_arena arena;
    char line[200];

    (void)state;
    kva_arena_init(&arena);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct kva_task *task;

        snprintf(line, sizeof line, "{\"problem\":\"p\",\"answer\":%s,\"id\":%zu}",
                 row[i][0], i);
        put_data("aime25.jsonl", line);
        task = open_math("math/aime25", "rkv", NULL);
        if (row[i][1]) {
            struct kva_item it = item_of(task, 0, &kva_tok_ws, &arena);

            assert_string_equal(it.answers[0], row[i][1]);
            snprintf(line, sizeof line, "{\"id\":%zu}", i);
            assert_string_equal(it.labels, line);
        } else {
            assert_non_null(strstr(item_refusal(task, 0, &kva_tok_ws),
                                   "aime25.jsonl:1: \"answer\" is not a"));
        }
        kva_task_close(task);
    }
    kva_arena_release(&arena);
}

static void a_problem_without_text_or_answer_is_refused(void **state)
{
    static const char *const row[][2] = {
        {"{\"answer\":\"1\"}", "no \"problem\""},
        {"{\"problem\":\"\",\"answer\":\"1\"}", "\"problem\" is empty"},
        {"{\"problem\":3,\"answer\":\"1\"}", "\"problem\" is not a text"},
        {"{\"problem\":\"p\"}", "no \"answer\""},
        {"{\"problem\":\"p\",\"answer\":\"\"}", "\"answer\" is empty"},
        {"{\"problem\":\"p\",\"answer\":7}", "\"answer\" is not a text"},
        {"{\"problem\":\"p\",\"answer\":\"1\",\"level\":2.5}",
         "\"level\" is not a text or a whole number"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct kva_task *task;

        put_data("test.jsonl", row[i][0]);
        task = open_math("math/math500", NULL, NULL);
        if (!ends_with(item_refusal(task, 0, &kva_tok_ws), row[i][1]))
            fail_msg("%s: %s", row[i][0], item_refusal(task, 0, &kva_tok_ws));
        kva_task_close(task);
    }
}

static void every_shared_problem_becomes_an_item(void **state)
{
    const char *dir = shared_dir("math500");
    struct kva_arena arena;
    struct kva_task *task;

    (void)state;
    if (!dir)
        skip();
    kva_arena_init(&arena);
    task = open_math("math/math500", NULL, dir);
    assert_int_equal(kva_task_info(task)->n_available, 500);
    assert_non_null(strstr(kva_task_source_json(task, &arena), "\"complete\":true"));
    assert_non_null(strstr(kva_task_gen_json(task, &arena),
                           "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06"
                           "132"));
    for (int i = 0; i < 500; i++) {
        struct kva_item it = item_of(task, i, &kva_tok_ws, &arena);

        assert_in_range(it.context_len, 21, 1800);
        assert_true(ends_with(it.context, "\n"));
        assert_int_equal(it.n_answers, 1);
    }
    kva_task_close(task);
    kva_arena_release(&arena);
}

static void what_changes_an_item_changes_the_description(void **state)
{
    static const char *const row[][2] = {{"math/math500", NULL},
                                         {"math/math500", "rkv"},
                                         {"math/math500", "plain"},
                                         {"math/math500:max_total=2048", NULL},
                                         {"math/math500:loop_guard=1", NULL}};
    const char *gen[6];
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (size_t i = 0; i < 6; i++) {
        struct kva_task *task;

        put_problem();
        if (i == 5)
            put_data("test.jsonl", "{}");
        task = open_math(row[i % 5][0], row[i % 5][1], NULL);
        gen[i] = kva_task_gen_json(task, &arena);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(gen[i], gen[j]);
        kva_task_close(task);
    }
    kva_arena_release(&arena);
}

static void exhausted_memory_is_reported_and_nothing_leaks(void **state)
{
    struct kva_task_data data = {"math500", data_dir};
    const struct kva_task_opts opts = {.data = &data, .n_data = 1};

    (void)state;
    put_problem();
    for (long k = 1, done = 0; !done; k++) {
        struct kva_error err = {0};
        struct kva_task *task;
        struct kva_arena arena;
        struct kva_item it;
        enum kva_status rc;

        kva_arena_init(&arena);
        kva_alloc_fail_at(k);
        rc = kva_task_open("math/math500:loop_guard=1", &opts, &task, &err);
        if (rc == KVA_OK)
            rc = kva_task_item(task, 0, &kva_tok_by, &arena, &it, &err);
        kva_alloc_fail_at(0);
        assert_true(rc == KVA_OK || (rc == KVA_ENOMEM && err.text[0]));
        done = rc == KVA_OK;
        kva_task_close(task);
        kva_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_profile_has_its_prompt_byte_for_byte),
        TEST(parameters_are_part_of_the_name_where_they_differ),
        TEST(texts_that_are_no_task_are_refused),
        TEST(a_gsm8k_reference_stands_behind_four_hashes),
        TEST(an_aime_reference_is_a_whole_number_below_a_thousand),
        TEST(a_problem_without_text_or_answer_is_refused),
        TEST(every_shared_problem_becomes_an_item),
        TEST(what_changes_an_item_changes_the_description),
        TEST(exhausted_memory_is_reported_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make_data_dir, drop_data_dir);
}
