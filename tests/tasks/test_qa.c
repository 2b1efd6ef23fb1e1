/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_qa.c - questions among documents, dialect kva1: layout, places, evidence
 * (tasks-ruler.md 2, 6.5, 7, 8.2, 14.5). */
#include "tests/tasks/tasks_test.h"

#include <math.h>
#include <unistd.h>

static const char instruction[] =
    "Answer the question based on the given documents. Only give me the answer and do "
    "not output any other words.\n\nThe following are given documents.\n\n";

/* Document number of the byte, from 0; *n: how many there are. */
static int document_of(const struct kva_item *it, size_t byte, int *n)
{
    const char *s = it->context + strlen(instruction);
    int found = -1;

    assert_int_equal(strncmp(it->context, instruction, strlen(instruction)), 0);
    for (*n = 0; *s; ++*n) {
        char head[32];
        const char *next;

        snprintf(head, sizeof head, "Document %d:\n", *n + 1);
        assert_int_equal(strncmp(s, head, strlen(head)), 0);
        snprintf(head, sizeof head, "\n\nDocument %d:\n", *n + 2);
        next = strstr(s, head);
        if (!next)
            next = it->context + it->context_len - 2;
        if (byte >= (size_t)(s - it->context) && byte < (size_t)(next - it->context))
            found = *n;
        s = next + 2;
    }
    return found;
}

static void gold_documents_stand_anywhere_evenly(void **state)
{
    double depth[100], most = 0;
    int n = 0;

    (void)state;
    for (int seed = 1; n < 100; seed++) {
        struct kva_task *task = open_with(
            "ruler/qa_1:data=mini@900", &(struct kva_task_opts){.seed = (uint64_t)seed});
        struct kva_arena arena;

        kva_arena_init(&arena);
        for (int idx = 0; idx < 20 && n < 100; idx++) {
            struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
            int docs, at = document_of(&it, span_named(&it, "E0")->b0, &docs);

            assert_true(at >= 0 && docs > 15);
            depth[n++] = (at + 0.5) / docs;
            kva_arena_reset(&arena);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
    /* Kolmogorov-Smirnov: p > 0.01 when D < 1.628 / sqrt(n) */
    for (int i = 0; i < 100; i++) {
        int below = 0, up_to = 0;

        for (int k = 0; k < 100; k++) {
            below += depth[k] < depth[i];
            up_to += depth[k] <= depth[i];
        }
        most = fmax(most,
                    fmax(fabs(depth[i] - below / 100.0), fabs(up_to / 100.0 - depth[i])));
    }
    assert_true(most < 1.628 / 10);
}

static void evidence_of_qa_1_is_the_sentence_that_holds_the_answer(void **state)
{
    struct kva_task *task = open_task("ruler/qa_1:data=mini@700");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 12; idx++) {
        struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
        const struct kva_span *e = span_named(&it, "E0"), *p = span_named(&it, "P0");
        int docs, gold = document_of(&it, e->b0, &docs), other;

        assert_int_equal(p->b1 - p->b0, strlen(it.answers[0]));
        assert_memory_equal(it.context + p->b0, it.answers[0], p->b1 - p->b0);
        assert_true(p->b0 >= e->b0 && p->b1 <= e->b1);
        assert_int_equal(it.context[e->b1 - 1], '.');
        assert_string_equal(e->role, "sentence");
        for (int i = 0; i < it.n_spans; i++) {
            if (it.spans[i].kind != 'D')
                continue;
            other = document_of(&it, it.spans[i].b0, &docs);
            assert_true(other >= 0 && other != gold);
            assert_null(memmem(it.context + it.spans[i].b0,
                               it.spans[i].b1 - it.spans[i].b0, "Document", 8));
        }
        assert_int_equal(
            strncmp(it.question,
                    "Answer the question based on the given documents. Only give me the "
                    "answer and do not output any other words.\n\nQuestion: ",
                    120),
            0);
        assert_int_equal(it.question[strlen(it.question) - 1], ' ');
        assert_string_equal(it.answer_prefix, "Answer:");
        assert_string_equal(it.gold + 1, it.answers[0]);
        kva_arena_reset(&arena);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static char dir[] = "/tmp/kva_qa_XXXXXX";

static struct kva_task *open_file(const char *task, const char *name, const char *text)
{
    struct kva_error err = {0};
    char path[64];
    struct kva_task_data data = {name, path};

    if (!strstr(dir, "XXXXXX") || mkdtemp(dir)) {
        snprintf(path, sizeof path, "%s/%s.json", dir, name);
        assert_int_equal(kva_write_file(path, text, strlen(text), &err), KVA_OK);
        return open_with(task,
                         &(struct kva_task_opts){.seed = 1, .data = &data, .n_data = 1});
    }
    fail();
    return NULL;
}

static int drop_dir(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof path, "%s/squad.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/hotpot.json", dir);
    unlink(path);
    rmdir(dir);
    return 0;
}

static void distractors_come_from_the_articles_own_paragraphs_first(void **state)
{
    struct kva_task *task = open_file(
        "ruler/qa_1@160", "squad",
        "{\"data\":[{\"title\":\"A\",\"paragraphs\":["
        "{\"context\":\"Gold is red. Ask a man.\",\"qas\":[{\"question\":\"Q?\",\"id\":"
        "\"1\",\"is_impossible\":false,\"answers\":[{\"text\":\"red\",\"answer_start\":8}"
        "]"
        "}]},{\"context\":\"Own one here now.\",\"qas\":[]},"
        "{\"context\":\"Own two here now.\",\"qas\":[]}]},"
        "{\"title\":\"B\",\"paragraphs\":[{\"context\":\"Other one and more words that "
        "fill a longer line of text so that it is seen.\",\"qas\":[]}]}]}");
    struct kva_arena arena;
    struct kva_item it;
    int partly = 0;

    (void)state;
    kva_arena_init(&arena);
    /* room for all: 4 documents; then for fewer */
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_non_null(strstr(it.context, "Other one"));
    assert_int_equal(span_named(&it, "P0")->b1 - span_named(&it, "P0")->b0, 3);
    assert_true(it.underfill || it.fill >= 0.97);
    kva_task_close(task);
    for (int limit = 100; limit < 125; limit++) {
        struct kva_error err = {0};
        char text[40], path[64];
        struct kva_task_data data = {"squad", path};

        snprintf(path, sizeof path, "%s/squad.json", dir);
        snprintf(text, sizeof text, "ruler/qa_1@%d", limit);
        task = open_with(text,
                         &(struct kva_task_opts){.seed = 1, .data = &data, .n_data = 1});
        if (kva_task_item(task, 0, &kva_tok_ws, &arena, &it, &err) == KVA_OK) {
            assert_non_null(strstr(it.context, "Own "));
            partly += !strstr(it.context, "Other one");
            assert_true(!strstr(it.context, "Other one") ||
                        (strstr(it.context, "Own one") && strstr(it.context, "Own two")));
        }
        kva_task_close(task);
    }
    assert_true(partly > 0);
    kva_arena_release(&arena);
}

static void a_yes_or_no_answer_has_evidence_without_payload(void **state)
{
    struct kva_task *task = open_file(
        "ruler/qa_2@400", "hotpot",
        "[{\"_id\":\"1\",\"question\":\"Is it?\",\"answer\":\"no\",\"supporting_facts\":"
        "[[\"T\",1]],\"context\":[[\"T\",[\"First none.\",\" Second know.\"]],"
        "[\"U\",[\"Third not.\"]]]},"
        "{\"_id\":\"2\",\"question\":\"Who?\",\"answer\":\"Bob\",\"supporting_facts\":"
        "[[\"V\",0]],\"context\":[[\"V\",[\"It was Bob.\",\" And so on.\"]]]}]");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 2; idx++) {
        struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
        const struct kva_span *e = span_named(&it, "E0");
        bool closed = strcmp(it.answers[0], "no") == 0;
        int payload = 0;

        for (int i = 0; i < it.n_spans; i++)
            payload += it.spans[i].kind == 'P';
        assert_int_equal(payload, closed ? 0 : 1);
        assert_int_equal(strncmp(it.context + e->b0,
                                 closed ? "Second know." : "It was Bob.", e->b1 - e->b0),
                         0);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void made_up_records_answer_one_question_only(void **state)
{
    (void)state;
    for (int hops = 1; hops <= 2; hops++) {
        struct kva_task *task =
            open_task(hops == 1 ? "niah/qa_synth@800" : "niah/qa_synth:hops=2@800");
        struct kva_arena arena;

        kva_arena_init(&arena);
        for (int idx = 0; idx < 20; idx++) {
            struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
            const char *at = strstr(it.context, it.answers[0]);
            char last[8];
            const struct kva_span *e, *p;

            assert_non_null(at); /* it stands once: no second record has it */
            assert_null(strstr(at + 1, it.answers[0]));
            snprintf(last, sizeof last, "P%d", hops == 1 ? 0 : 2);
            p = span_named(&it, last);
            assert_int_equal(p->b0, at - it.context);
            last[0] = 'E';
            e = span_named(&it, last);
            assert_int_equal(it.context[e->b1 - 1], '.');
            if (hops == 2) { /* the warden of one is the family of the other */
                const struct kva_span *a = span_named(&it, "P0"),
                                      *b = span_named(&it, "P1");

                assert_int_equal(a->b1 - a->b0, b->b1 - b->b0);
                assert_memory_equal(it.context + a->b0, it.context + b->b0,
                                    a->b1 - a->b0);
            }
            assert_true(it.n_decoys > 5);
            kva_arena_reset(&arena);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
    assert_non_null(strstr(refusal("niah/qa_synth:hops=3", NULL), "hops is 1 or 2"));
    assert_non_null(strstr(refusal("ruler/qa_1:data=big", NULL), "data is mini"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gold_documents_stand_anywhere_evenly),
        TEST(evidence_of_qa_1_is_the_sentence_that_holds_the_answer),
        TEST(distractors_come_from_the_articles_own_paragraphs_first),
        TEST(a_yes_or_no_answer_has_evidence_without_payload),
        TEST(made_up_records_answer_one_question_only),
    };

    return cmocka_run_group_tests(tests, NULL, drop_dir);
}
