/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_scbench.c - SCBench's files: prompts, answers, turns, the cut, and records that
 * cannot be used. */
#include "tests/tasks/data_test.h"

static struct kva_task *open_set(const char *text, const char *profile)
{
    struct kva_task_data data[] = {{"scbench", data_dir}};

    return open_with(
        text, &(struct kva_task_opts){.data = data, .n_data = 1, .profile = profile});
}

static void every_turn_is_a_sample_with_the_official_prompt(void **state)
{
    struct kva_task *task;
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    put_data(
        "scbench_kv.jsonl",
        "{\"id\":0,\"context\":\"{\\\"a\\\": \\\"1x\\\", \\\"b\\\": \\\"2Y\\\"}\","
        "\"multi_turns\":[{\"input\":\"Key: \\\"a\\\"\\nValue: \",\"answer\":\"1x\"},"
        "{\"input\":\"Key: \\\"b\\\"\\nValue: \",\"answer\":[\"2Y\"]}]}\n"
        "{\"id\":1,\"context\":\"{}\",\"multi_turns\":[{\"input\":\"i\","
        "\"answer\":\"j\"},{\"input\":\"k\",\"answer\":\"l\"}]}\n");
    task = open_set("mt/scbench_kv", NULL);
    kva_arena_init(&arena);
    assert_int_equal(kva_task_info(task)->n_available, 4);
    assert_int_equal(kva_task_info(task)->turns, 2);
    assert_int_equal(kva_task_info(task)->ctx, 0);
    assert_string_equal(kva_task_info(task)->name, "scbench_kv");
    for (int t = 0; t < 2; t++) {
        it = item_of(task, t, &kva_tok_ws, &arena);
        assert_string_equal(it.context,
                            "Extract the value corresponding to the specified key in the "
                            "JSON object below.\n\n{\"a\": \"1x\", \"b\": \"2Y\"}");
        assert_string_equal(it.question,
                            t ? "Key: \"b\"\nValue: " : "Key: \"a\"\nValue: ");
        assert_string_equal(it.answers[0], t ? "2Y" : "1x");
        assert_string_equal(it.metric, "substring");
        assert_int_equal(it.max_new_tokens, 150);
        assert_int_equal(it.turn, t);
        assert_string_equal(it.labels, "{\"id\":0}");
    }
    it = item_of(task, 3, &kva_tok_ws, &arena);
    assert_string_equal(it.question, "k");
    kva_task_close(task);

    task = open_set("mt/scbench_kv:turns=1", NULL);
    assert_int_equal(kva_task_info(task)->n_available, 2);
    assert_string_equal(kva_task_info(task)->name, "scbench_kv:turns=1");
    assert_string_equal(item_of(task, 1, &kva_tok_ws, &arena).question, "i");
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void books_are_asked_by_question_and_answer(void **state)
{
    struct kva_task *task;
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    put_data("scbench_qa_eng.jsonl",
             "{\"id\":\"a\",\"context\":\"A book.\",\"multi_turns\":[{\"input\":\"Who?\","
             "\"answer\":[\"Sara Crewe\",\"Sara\"]}]}\n"
             "{\"id\":\"b\",\"context\":\"B.\",\"multi_turns\":[{\"input\":\"W?\","
             "\"answer\":\"Z\"},{\"input\":\"V?\",\"answer\":\"Y\"}]}\n");
    task = open_set("mt/scbench_qa_eng", NULL);
    kva_arena_init(&arena);
    assert_int_equal(kva_task_info(task)->turns, 1); /* one and two */
    assert_int_equal(kva_task_info(task)->n_available, 3);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_string_equal(it.context, "Read the book and answer the question. Be very "
                                    "concise in your answer.\n\nA book.");
    assert_string_equal(it.question, "Question: Who?\nAnswer:");
    assert_int_equal(it.n_answers, 2);
    assert_string_equal(it.metric, "match_upper");
    assert_int_equal(it.max_new_tokens, 40);
    it = item_of(task, 2, &kva_tok_ws, &arena);
    assert_string_equal(it.question, "Question: V?\nAnswer:");
    assert_string_equal(it.context + it.context_len - 4, "\n\nB.");
    assert_int_equal(it.turn, 1);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void numbers_are_printed_as_python_does_and_the_target_is_asked_for(void **state)
{
    struct kva_task *task;
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    put_data("scbench_mf.jsonl",
             "{\"id\":3,\"context\":[1,22,-3,0.5,7.0,1e-7,1e5,2e16],\"multi_turns\":["
             "{\"input\":\"You should answer with only one number, no other words. The "
             "largest number of the list is: \",\"answer\":[22]},"
             "{\"input\":\"Now. The Second is is: \",\"answer\":7.0}]}\n");
    kva_arena_init(&arena);
    task = open_set("mt/scbench_mf", NULL);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_string_equal(it.context, "[1, 22, -3, 0.5, 7.0, 1e-07, 100000.0, 2e+16]");
    assert_string_equal(it.question,
                        "What is the largest number of the list?\n\nYou should answer "
                        "with only one number, no other words. The largest number of the "
                        "list is: ");
    assert_string_equal(it.answers[0], "22");
    assert_string_equal(it.metric, "find_number");
    assert_int_equal(it.max_new_tokens, 5);
    it = item_of(task, 1, &kva_tok_ws, &arena);
    assert_string_equal(it.question, "What is the second is?\n\nNow. The Second is is: ");
    assert_string_equal(it.answers[0], "7.0");
    kva_task_close(task);

    task = open_set("mt/scbench_mf", "official");
    it = item_of(task, 1, &kva_tok_ws, &arena);
    assert_string_equal(it.context,
                        "You should answer with only one number, no other words. The "
                        "largest number of the list is: \n\n[1, 22, -3, 0.5, 7.0, "
                        "1e-07, 100000.0, 2e+16]");
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void a_long_context_loses_its_middle_on_request(void **state)
{
    struct kva_buf line;
    struct kva_task *task;
    struct kva_arena arena;
    struct kva_item it;
    struct kva_error err = {0};

    (void)state;
    kva_buf_init(&line, 0);
    kva_buf_puts(&line, "{\"context\":\"");
    for (int i = 0; i < 3000; i++)
        kva_buf_printf(&line, "w%d ", i);
    kva_buf_puts(&line,
                 "\",\"multi_turns\":[{\"input\":\"a\",\"answer\":\"b\"},{\"input\":"
                 "\"c\",\"answer\":\"d\"}]}\n");
    put_data("scbench_qa_eng.jsonl", line.data);
    kva_buf_release(&line);
    kva_arena_init(&arena);
    task = open_set("mt/scbench_qa_eng@2080", NULL); /* 2080 - 1000 - 2 * 40 = 1000 */
    it = item_of(task, 1, &kva_tok_ws, &arena);
    assert_true(it.was_cut);
    assert_in_range(it.n_context, 999, 1000); /* two halves of 500 */
    assert_non_null(strstr(it.context, "w485"));
    assert_null(strstr(it.context, "w500 "));
    assert_non_null(strstr(it.context, "w2500 "));
    assert_non_null(strstr(it.context, "w2999 "));
    kva_task_close(task);

    task = open_set("mt/scbench_qa_eng", NULL);
    it = item_of(task, 1, &kva_tok_ws, &arena);
    assert_false(it.was_cut);
    assert_int_equal(it.n_context, 3013);
    kva_task_close(task);

    task = open_set("mt/scbench_qa_eng@1000", NULL);
    assert_int_equal(kva_task_item(task, 0, &kva_tok_ws, &arena, &it, &err),
                     KVA_EINVALID);
    assert_non_null(strstr(err.text, "does not fit in 1000 (needs at least 1082)"));
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void missing_files_and_bad_records_are_named(void **state)
{
    static const struct {
        const char *set, *line, *reason;
    } row[] = {
        {"scbench_kv", "{\"context\":\"c\"}", "\"multi_turns\" is not a list"},
        {"scbench_kv", "{\"context\":\"c\",\"multi_turns\":[]}",
         "\"multi_turns\" is not a list"},
        {"scbench_kv", "[1]", "not a JSON object"},
        {"scbench_kv",
         "{\"context\":3,\"multi_turns\":[{\"input\":\"a\",\"answer\":"
         "\"b\"}]}",
         "\"context\" is not a text"},
        {"scbench_kv", "{\"context\":\"c\",\"multi_turns\":[{\"answer\":\"b\"}]}",
         "multi_turns[0]: \"input\" is not a text"},
        {"scbench_kv", "{\"context\":\"c\",\"multi_turns\":[7]}",
         "multi_turns[0]: \"input\" is not a text"},
        {"scbench_kv", "{\"context\":\"c\",\"multi_turns\":[{\"input\":\"a\"}]}",
         "multi_turns[0]: \"answer\" is not a text"},
        {"scbench_kv",
         "{\"context\":\"c\",\"multi_turns\":[{\"input\":\"a\",\"answer\":[]}]}",
         "multi_turns[0]: no answer"},
        {"scbench_kv",
         "{\"context\":\"c\",\"multi_turns\":[{\"input\":\"a\",\"answer\":\"\"}]}",
         "multi_turns[0]: no answer"},
        {"scbench_mf",
         "{\"context\":[1,\"x\"],\"multi_turns\":[{\"input\":\"The a "
         "is\",\"answer\":1}]}",
         "context[1] is not a number"},
        {"scbench_mf",
         "{\"context\":[1],\"multi_turns\":[{\"input\":\"largest\",\"answer\":1}]}",
         "multi_turns[0]: no \"The ... is\" in the input"},
    };
    struct kva_task_data data[] = {{"scbench", "/nowhere"}};
    const char *got;

    (void)state;
    got = refusal("mt/scbench_kv", &(struct kva_task_opts){.data = data, .n_data = 1});
    assert_non_null(strstr(got, "EIO: data set \"scbench\": no file /nowhere"));
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char file[40], text[40];
        struct kva_task *task;
        struct kva_error err = {0};
        struct kva_arena arena;
        struct kva_item it;

        snprintf(file, sizeof file, "%s.jsonl", row[i].set);
        snprintf(text, sizeof text, "mt/%s", row[i].set);
        put_data(file, row[i].line);
        task = open_set(text, NULL);
        assert_int_equal(kva_task_info(task)->n_available, 1); /* nothing is dropped */
        kva_arena_init(&arena);
        assert_int_equal(kva_task_item(task, 0, &kva_tok_ws, &arena, &it, &err),
                         KVA_EFORMAT);
        if (!strstr(err.text, row[i].reason) || !strstr(err.text, ".jsonl:1: "))
            fail_msg("%s: %s", row[i].line, err.text);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
    assert_non_null(strstr(refusal("mt/scbench_kv:turn=2", NULL), "did you mean turns?"));
    assert_non_null(strstr(refusal("mt/scbench_kv:turns=0", NULL),
                           "turns is a whole number from 1 to 1000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_turn_is_a_sample_with_the_official_prompt),
        TEST(books_are_asked_by_question_and_answer),
        TEST(numbers_are_printed_as_python_does_and_the_target_is_asked_for),
        TEST(a_long_context_loses_its_middle_on_request),
        TEST(missing_files_and_bad_records_are_named),
    };

    return cmocka_run_group_tests(tests, make_data_dir, drop_data_dir);
}
