/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_ruler.c - what holds for all thirteen RULER tasks of dialect kva1, at any length
 * (tasks-ruler.md 14.3, 14.4, 14.8). */
#include "tests/tasks/tasks_test.h"

#include <time.h>

static const char *const tasks[] = {
    "ruler/niah_single_1",
    "ruler/niah_single_2",
    "ruler/niah_single_3",
    "ruler/niah_multikey_1",
    "ruler/niah_multikey_2",
    "ruler/niah_multikey_3",
    "ruler/niah_multivalue",
    "ruler/niah_multiquery",
    "ruler/vt",
    "ruler/cwe",
    "ruler/fwe",
    "ruler/qa_1:data=mini",
    "ruler/qa_2:data=mini",
    "niah/qa_synth",
    "niah/qa_synth:hops=2",
    "niah/needle:haystack=needle,keys=2,queries=2,values=2",
};
#ifdef KVA_POISON /* a build with sanitizers */
enum { LIMIT = 200 };
#else
enum { LIMIT = 20 };
#endif
enum { N_TASKS = sizeof tasks / sizeof tasks[0] };

static struct kva_task *open_at(const char *name, int limit)
{
    char text[100];

    snprintf(text, sizeof text, "%s@%d", name, limit);
    return open_task(text);
}

static bool is_one_of(const struct kva_item *it, const char *text, size_t n)
{
    for (int i = 0; i < it->n_answers; i++)
        if (strlen(it->answers[i]) == n && memcmp(it->answers[i], text, n) == 0)
            return true;
    return false;
}

static void check_spans(const struct kva_item *it, const struct kva_tok_api *tok,
                        struct kva_arena *arena, const char *task)
{
    bool qa = strstr(task, "qa_") != NULL;
    struct kva_error err = {0};
    int32_t *begin, *end;
    size_t n;

    assert_int_equal(tok->ranges(tok->ctx, &it->feed, it->context, it->context_len, arena,
                                 &begin, &end, &n, &err),
                     KVA_OK);
    assert_int_equal(n, it->n_context);
    assert_true(it->n_spans > 0);
    for (int i = 0; i < it->n_spans; i++) {
        const struct kva_span *s = &it->spans[i];
        struct kva_span again = *s;

        assert_true(s->b0 < s->b1 && s->b1 <= it->context_len);
        kva_span_locate(&again, begin, end, n);
        assert_range(again.t0, again.t1, s->t0, s->t1);
        assert_int_equal(again.bucket, s->bucket);
        assert_true(s->kind != 'P' ||
                    (strcmp(s->match + 1, s->id + 1) == 0 && s->match[0] == 'E'));
        /* what must survive to answer is an answer */
        if (s->kind == 'P' && s->id[0] == 'P' && s->queried && !qa &&
            !is_one_of(it, it->context + s->b0, s->b1 - s->b0))
            fail_msg("%s: payload %.*s is no answer", task, (int)(s->b1 - s->b0),
                     it->context + s->b0);
        if (s->kind == 'D' && !strchr(s->id, '.')) /* cwe: "son" stands in "person" */
            for (int a = 0; a < it->n_answers; a++)
                assert_null(memmem(it->context + s->b0, s->b1 - s->b0, it->answers[a],
                                   strlen(it->answers[a])));
    }
    for (int a = 0; a < it->n_answers; a++)
        assert_non_null(strstr(it->context, it->answers[a]));
}

static void every_item_fills_its_length_and_marks_what_it_planted(void **state)
{
    static const int lengths[] = {1200, 4096};
    struct pairs pairs = {.lead = 9};
    const struct kva_tok_api api = pairs_api(&pairs);

    (void)state;
    for (size_t t = 0; t < N_TASKS; t++)
        for (size_t l = 0; l < 2; l++) {
            struct kva_task *task = open_at(tasks[t], lengths[l]);
            struct kva_arena arena;

            kva_arena_init(&arena);
            for (int idx = 0; idx < 4; idx++) {
                const struct kva_tok_api *tok = idx % 2 ? &api : &kva_tok_ws;
                struct kva_item it = item_of(task, idx, tok, &arena);
                size_t total = it.n_context + it.n_question + (size_t)it.max_new_tokens;

                assert_true(total <= (size_t)lengths[l]);
                assert_true(it.fill == (double)total / lengths[l]);
                assert_int_equal(it.underfill, it.fill < 0.97);
                assert_true(it.gold && it.gold[0]);
                assert_true(it.guess_floor >= 0 && it.guess_floor < 1);
                check_spans(&it, tok, &arena, tasks[t]);
                for (int d = 0; d < it.n_decoys; d++) {
                    assert_non_null(strstr(it.context, it.decoys[d]));
                    assert_false(is_one_of(&it, it.decoys[d], strlen(it.decoys[d])));
                }
                kva_arena_reset(&arena);
            }
            kva_arena_release(&arena);
            kva_task_close(task);
        }
}

static void record_of(const char *name, const int *idx, int n, int want,
                      struct kva_buf *out)
{
    struct kva_task *task = open_at(name, 1200);
    struct kva_arena arena;
    struct kva_error err = {0};

    kva_arena_init(&arena);
    for (int i = 0; i < n; i++) {
        struct kva_item it = item_of(task, idx[i], &kva_tok_ws, &arena);

        if (idx[i] == want)
            assert_int_equal(kva_task_record(task, &it, &kva_tok_ws, out, &err), KVA_OK);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void a_sample_alone_is_the_sample_of_a_run(void **state)
{
    (void)state;
    for (size_t t = 0; t < N_TASKS; t++) {
        struct kva_buf alone, run;

        kva_buf_init(&alone, 0);
        kva_buf_init(&run, 0);
        record_of(tasks[t], (const int[]){3}, 1, 3, &alone);
        record_of(tasks[t], (const int[]){0, 5, 1, 3, 2}, 5, 3, &run);
        assert_string_equal(alone.data, run.data);
        kva_buf_release(&alone);
        kva_buf_release(&run);
    }
}

/* Either an item, or at once the length that is needed, which is right: one token less is
 * refused, exactly so many are enough. */
static void a_length_too_small_names_the_smallest_that_works(void **state)
{
    (void)state;
    for (size_t t = 0; t < N_TASKS; t++) {
        struct kva_task *task = open_at(tasks[t], 64);
        struct kva_arena arena;
        struct kva_error err = {0};
        struct kva_item it;
        uint64_t start = kva_cpu_ns();
        const char *at;
        int need;

        kva_arena_init(&arena);
        assert_int_equal(kva_task_item(task, 0, &kva_tok_ws, &arena, &it, &err),
                         KVA_EINVALID);
        assert_true(kva_cpu_ns() - start < 1000000000);
        at = strstr(err.text, "does not fit in 64 with tokenizer ws (needs at least ");
        assert_non_null(at);
        need = (int)strtol(strrchr(err.text, ' '), NULL, 10);
        assert_in_range(need, 65, 600);
        kva_task_close(task);
        /* draws depend on the length, so the need may move by some tokens */
        task = open_at(tasks[t], need + 60);
        item_of(task, 0, &kva_tok_ws, &arena);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void a_million_tokens_take_seconds(void **state)
{
    (void)state;
    for (size_t t = 0; t < N_TASKS; t++) {
        struct kva_task *task = open_at(tasks[t], 1 << 20);
        struct kva_arena arena;
        clock_t start = clock();
        struct kva_item it;
        double seconds;

        if (strstr(tasks[t], "keys=2")) { /* eight needles: the same code, much longer */
            kva_task_close(task);
            continue;
        }
        kva_arena_init(&arena);
        it = item_of(task, 0, &kva_tok_ws, &arena);
        seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (seconds > LIMIT)
            fail_msg("%s took %.1f s", tasks[t], seconds);
        assert_true(it.fill > 0.99 || it.underfill);
        /* only what has no more words or documents may end early */
        assert_true(it.fill > 0.99 || strstr(tasks[t], "cwe") ||
                    strstr(tasks[t], "mini"));
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void uninstructed_moves_what_tells_the_question_behind_the_context(void **state)
{
    static const char *const text[][2] = {
        {"ruler/niah_single_2", "ruler/niah_single_2:uninstructed=1"},
        {"ruler/niah_multikey_2", "ruler/niah_multikey_2:uninstructed=1"},
        {"niah/needle:values=2", "niah/needle:uninstructed=1,values=2"},
        {"ruler/vt", "ruler/vt:uninstructed=1"},
        {"ruler/cwe", "ruler/cwe:uninstructed=1"},
        {"ruler/fwe", "ruler/fwe:uninstructed=1"},
        {"ruler/qa_1:data=mini", "ruler/qa_1:data=mini,uninstructed=1"},
        {"niah/qa_synth", "niah/qa_synth:uninstructed=1"},
    };

    (void)state;
    for (size_t t = 0; t < sizeof text / sizeof text[0]; t++) {
        struct kva_task *a = open_at(text[t][0], 1200), *b = open_at(text[t][1], 1200);
        struct kva_arena arena;
        struct kva_item x, y;
        size_t moved;

        kva_arena_init(&arena);
        x = item_of(a, 2, &kva_tok_ws, &arena);
        y = item_of(b, 2, &kva_tok_ws, &arena);
        assert_non_null(strstr(kva_task_info(b)->name, "uninstructed=1"));
        assert_string_equal(x.answers[0], y.answers[0]);
        assert_string_equal(x.gold, y.gold);
        assert_string_equal(x.answer_prefix, y.answer_prefix);
        /* the question is the moved text and the old question */
        assert_true(strlen(y.question) > strlen(x.question));
        moved = strlen(y.question) - strlen(x.question);
        assert_string_equal(y.question + moved, x.question);
        assert_int_equal(strncmp(y.question, x.context, moved - 1), 0);
        assert_null(strstr(y.context, "Memorize"));
        assert_null(strstr(y.context, "emorize it"));
        assert_null(strstr(y.context, "Answer"));
        assert_null(strstr(y.context, "track the frequency"));
        kva_arena_release(&arena);
        kva_task_close(a);
        kva_task_close(b);
    }
    assert_non_null(strstr(refusal("ruler/vt:uninstructed=2", NULL), "is 0 or 1"));
    assert_non_null(strstr(refusal("ruler/cwe:uninstruct=1", NULL), "did you mean"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_item_fills_its_length_and_marks_what_it_planted),
        TEST(a_sample_alone_is_the_sample_of_a_run),
        TEST(a_length_too_small_names_the_smallest_that_works),
        TEST(a_million_tokens_take_seconds),
        TEST(uninstructed_moves_what_tells_the_question_behind_the_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
