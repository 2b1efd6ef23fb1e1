/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_qa_data.c - SQuAD and HotpotQA files: order of documents, gold, evidence,
 * refusals. */
#include "tasks/qa_data.h"
#include "tests/tasks/tasks_test.h"

#include <unistd.h>

static struct kva_qa open_mini(bool hotpot)
{
    struct kva_error err = {0};
    struct kva_qa qa;

    if (kva_qa_open(&qa, hotpot, &(struct kva_task_opts){0}, true, &err) != KVA_OK)
        fail_msg("%s", err.text);
    return qa;
}

static void documents_are_distinct_and_sorted(void **state)
{
    (void)state;
    for (int hotpot = 0; hotpot < 2; hotpot++) {
        struct kva_qa qa = open_mini(hotpot);

        assert_int_equal(qa.n_docs, hotpot ? 120 : 48);
        for (size_t i = 1; i < qa.n_docs; i++)
            assert_true(strcmp(qa.doc[i - 1], qa.doc[i]) < 0);
        kva_qa_release(&qa);
    }
}

static void a_squad_question_has_its_paragraph_and_those_of_its_article(void **state)
{
    struct kva_qa qa = open_mini(false);
    const struct kva_qa_question *q = &qa.question[0];

    (void)state;
    assert_string_equal(q->text, "When was the lighthouse of Harbor 0-0 built?");
    assert_int_equal(q->n_answers, 2);
    assert_string_equal(q->answers[0], "1800");
    assert_string_equal(q->answers[1], "in 1800");
    assert_int_equal(q->n_gold, 1);
    assert_true(q->n_more > 0);
    for (int i = 0; i < q->n_more; i++) {
        assert_int_not_equal(q->more[i], q->gold[0]);
        assert_memory_equal(qa.doc[q->more[i]], "Harbor 0-", 9);
    }
    for (size_t i = 0; i < qa.n_questions; i++) {
        q = &qa.question[i];
        assert_memory_equal(qa.doc[q->gold[0]] + q->answer_start, q->answers[0],
                            strlen(q->answers[0]));
    }
    kva_qa_release(&qa);
}

static void a_hotpot_question_has_ten_documents_and_its_facts(void **state)
{
    struct kva_qa qa = open_mini(true);
    const struct kva_qa_question *q = &qa.question[0];
    const char *want[] = {"Its mayor was born in Town 0-3.", "Town 0-3 has 6 mills."};

    (void)state;
    assert_int_equal(q->n_gold, 10);
    assert_int_equal(q->n_more, 0);
    assert_true(q->answer_start == SIZE_MAX);
    assert_string_equal(
        qa.doc[q->gold[0]],
        "Town 0-0\nTown 0-0 has 3 mills. Its mayor was born in Town 0-1.");
    assert_int_equal(q->n_facts, 2);
    assert_int_equal(qa.n_bad_facts, 0);
    for (int i = 0; i < 2; i++) {
        const struct kva_qa_fact *f = &q->facts[i];

        assert_int_equal(f->gold, 2 + i);
        assert_int_equal(f->at.b1 - f->at.b0, strlen(want[i]));
        assert_memory_equal(qa.doc[q->gold[f->gold]] + f->at.b0, want[i],
                            strlen(want[i]));
    }
    kva_qa_release(&qa);
}

/* Opens `text` as the user's file; the message after the file's name, or "". */
static const char *verdict(const char *text, bool hotpot, struct kva_qa *qa)
{
    static char message[600];
    char path[] = "/tmp/kva-test-qa-XXXXXX";
    int fd = mkstemp(path);
    struct kva_task_data data = {hotpot ? "hotpot" : "squad", path};
    struct kva_task_opts opts = {.data = &data, .n_data = 1};
    struct kva_error err = {0};
    enum kva_status rc;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    rc = kva_qa_open(qa, hotpot, &opts, false, &err);
    unlink(path);
    message[0] = '\0';
    if (rc != KVA_OK) {
        assert_int_equal(rc, KVA_EFORMAT);
        assert_memory_equal(err.text, path, strlen(path));
        snprintf(message, sizeof message, "%s", err.text + strlen(path));
    }
    return message;
}

#define SQUAD(answer)                                                                    \
    "{\"data\":[{\"paragraphs\":[{\"context\":\"\xc3\xa9 was here.\",\"qas\":[{"         \
    "\"question\":\"Who?\",\"is_impossible\":false,\"answers\":[" answer "]}]}]}]}"

static void malformed_files_are_refused_with_their_place(void **state)
{
    static const struct {
        bool hotpot;
        const char *text, *message;
    } cases[] = {
        {false, "{", ":1: string or '}' expected near end of file"},
        {false, "[]", ": the file: is not an object"},
        {false, "{}", ": the file: \"data\" is missing"},
        {false, "{\"data\":[{}]}", ": data[0]: \"paragraphs\" is missing"},
        {false, "{\"data\":[{\"paragraphs\":[{\"context\":3}]}]}",
         ": data[0].paragraphs[0]: \"context\" is not a string"},
        {false, "{\"data\":[{\"paragraphs\":[{\"context\":\"a\"}]}]}",
         ": data[0].paragraphs[0]: \"qas\" is missing"},
        {false, SQUAD(""), ": data[0].paragraphs[0].qas[0]: \"answers\" is empty"},
        {false, SQUAD("{\"text\":\"x\",\"answer_start\":99}"),
         ": data[0].paragraphs[0].qas[0]: \"answer_start\" lies outside the paragraph"},
        {false, "{\"data\":[]}", ": no question with an answer"},
        {true, "{}", ": the file: is not a list of questions"},
        {true, "[{\"context\":[[\"t\"]]}]",
         ": [0].context[0]: is not [title, [sentences]]"},
        {true, "[{\"context\":[[\"t\",[\"s\"]]]}]", ": [0]: \"question\" is missing"},
        {true,
         "[{\"context\":[[\"t\",[\"s\"]]],\"question\":\"q\",\"answer\":\"a\","
         "\"supporting_facts\":[[\"t\"]]}]",
         ": [0]: \"supporting_facts\" is not a list of [title, number]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kva_qa qa;

        assert_string_equal(verdict(cases[i].text, cases[i].hotpot, &qa),
                            cases[i].message);
    }
}

static void answer_start_counts_characters(void **state)
{
    struct kva_qa qa;

    (void)state;
    assert_string_equal(
        verdict(SQUAD("{\"text\":\"was\",\"answer_start\":2}"), false, &qa), "");
    assert_int_equal(qa.question[0].answer_start, 3);
    kva_qa_release(&qa);
}

static void a_fact_the_documents_do_not_have_is_counted(void **state)
{
    struct kva_qa qa;

    (void)state;
    assert_string_equal(
        verdict("[{\"context\":[[\"t\",[\"s.\",\" z. \"]]],\"question\":\"q\","
                "\"answer\":\"a\",\"supporting_facts\":[[\"t\",7],[\"t\",1]]}]",
                true, &qa),
        "");
    assert_int_equal(qa.n_bad_facts, 1);
    assert_int_equal(qa.question[0].n_facts, 1);
    assert_range(qa.question[0].facts[0].at.b0, qa.question[0].facts[0].at.b1, 5, 7);
    kva_qa_release(&qa);
}

static void without_the_file_the_message_says_where_it_belongs(void **state)
{
    struct kva_task_data data = {"squad", "/nowhere/dev.json"};
    struct kva_task_opts opts = {.data = &data, .n_data = 1};
    struct kva_error err = {0};
    struct kva_qa qa;

    (void)state;
    assert_int_equal(kva_qa_open(&qa, false, &opts, false, &err), KVA_EIO);
    assert_non_null(strstr(err.text, "/nowhere/dev.json"));
    assert_non_null(strstr(err.text, "--data squad=PATH"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(documents_are_distinct_and_sorted),
        TEST(a_squad_question_has_its_paragraph_and_those_of_its_article),
        TEST(a_hotpot_question_has_ten_documents_and_its_facts),
        TEST(malformed_files_are_refused_with_their_place),
        TEST(answer_start_counts_characters),
        TEST(a_fact_the_documents_do_not_have_is_counted),
        TEST(without_the_file_the_message_says_where_it_belongs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
