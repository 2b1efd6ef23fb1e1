/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_registry.c - task texts, the table of tasks, streams, descriptions. */
#include "tests/tasks/tasks_test.h"
#include "metrics/metric.h"

#include <jansson.h>

static void every_task_is_well_formed_and_opens(void **state)
{
    size_t n;
    const struct kva_task_desc *d = kva_tasks(&n);

    (void)state;
    assert_true(n >= 7);
    for (size_t i = 0; i < n; i++) {
        char text[64];
        struct kva_task *task;

        assert_int_equal(strspn(d[i].name, "abcdefghijklmnopqrstuvwxyz0123456789_-"),
                         strlen(d[i].name));
        assert_in_range(strlen(d[i].summary), 1, 72);
        assert_true(strlen(d[i].source) > 0);
        assert_non_null(kva_metric_find(d[i].metric));
        assert_true(d[i].version >= 1 && d[i].max_new_tokens >= 1);
        for (size_t j = 0; j < i; j++)
            assert_true(strcmp(d[i].name, d[j].name) != 0 ||
                        strcmp(d[i].suite, d[j].suite) != 0);
        if (strcmp(d[i].suite, "jsonl") == 0 || strcmp(d[i].suite, "longbench") == 0 ||
            strcmp(d[i].suite, "math") == 0 || strncmp(d[i].name, "scbench_", 8) == 0 ||
            strcmp(d[i].name, "qa_1") == 0 || strcmp(d[i].name, "qa_2") == 0)
            continue; /* they need the user's files */
        snprintf(text, sizeof text, "%s/%s", d[i].suite, d[i].name);
        task = open_task(text);
        assert_string_equal(kva_task_info(task)->suite, d[i].suite);
        assert_string_equal(kva_task_info(task)->name, d[i].name);
        assert_int_equal(kva_task_info(task)->ctx, 4096);
        assert_int_equal(kva_task_info(task)->max_new_tokens, d[i].max_new_tokens);
        assert_int_equal(kva_task_info(task)->n_available,
                         strcmp(d[i].name, "grid") == 0 ? 30 : -1);
        kva_task_close(task);
    }
}

static void refusals_name_the_nearest_word_or_the_reason(void **state)
{
    static const char *const row[][2] = {
        {"ruler/niah_singel_1", "unknown task \"ruler/niah_singel_1\"; did you mean "
                                "ruler/niah_single_1?"},
        {"something", "unknown task \"something\" (suite/name[:key=value,...][@L] or "
                      "jsonl:PATH)"},
        {"", "unknown task \"\""},
        {"jsonl/path", "unknown task \"jsonl/path\""},
        {"jsonl:", "names no file"},
        {"ruler/vt@", "\"\" is not a length in tokens"},
        {"ruler/vt@4k", "\"4k\" is not a length in tokens"},
        {"ruler/vt@0", "\"0\" is not a length in tokens"},
        {"ruler/vt@-5", "\"-5\" is not a length in tokens"},
        {"niah/needle:", "\"\" is not key=value"},
        {"niah/needle:keys", "\"keys\" is not key=value"},
        {"niah/needle:keys=", "\"keys=\" is not key=value"},
        {"niah/needle:keys=2,", "\"\" is not key=value"},
        {"niah/needle:keys=2,keys=3", "keys is given twice"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *got = refusal(row[i][0], NULL);

        if (strncmp(got, "EINVALID: ", 10) != 0 || !strstr(got, row[i][1]))
            fail_msg("\"%s\": %s", row[i][0], got);
    }
}

static void options_that_are_not_built_or_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_string_equal(
        refusal("ruler/vt", &(struct kva_task_opts){.dialect = "r2026"}),
        "EINVALID: unknown dialect \"r2026\" (known: kva1, r2024, r2025)");
    assert_string_equal(refusal("ruler/vt", &(struct kva_task_opts){.seed = 1ULL << 63}),
                        "EINVALID: seed 9223372036854775808 is above 2^63 - 1");
    assert_string_equal(
        refusal("ruler/vt", &(struct kva_task_opts){.max_new_tokens = -1}),
        "EINVALID: max_new_tokens -1 is negative");
    assert_string_equal(refusal("ruler/vt", &(struct kva_task_opts){.words = "1"}),
                        "EINVALID: word lists \"1\": known are 2.2.0 and 3.0.0");
}

static void streams_follow_the_published_vectors(void **state)
{
    static const uint64_t zero[] = {0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4,
                                    0x06C45D188009454F};
    static const int ten[] = {7, 1, 2, 3, 0, 8, 2, 8};
    struct kva_rng r = {0};
    struct kva_task *task = open_task("ruler/vt@256");
    char text[64];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(kva_rng_next(&r) == zero[i]);
    r.x = 42;
    for (int i = 0; i < 8; i++)
        assert_int_equal(kva_rng_below(&r, 10), ten[i]);
    assert_true(kva_fnv1a64_str("") == 0xcbf29ce484222325);
    assert_true(kva_fnv1a64_str("a") == 0xaf63dc4c8601ec8c);
    snprintf(text, sizeof text, "kva1|vt|256|42|17|hay");
    assert_true(kva_task_stream(task, 17, "|hay").x == kva_fnv1a64_str(text));
    r.x = 5;
    assert_int_equal(kva_task_choose(&r, 1), 0); /* the only choice costs no draw */
    assert_true(r.x == 5);
    kva_task_close(task);
}

static void an_item_that_does_not_exist_is_refused(void **state)
{
    struct kva_task *task = open_task("ruler/niah_single_1");
    struct kva_error err = {0};
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(kva_task_item(task, -1, &kva_tok_ws, &arena, &it, &err),
                     KVA_EINVALID);
    assert_string_equal(err.text, "task ruler/niah_single_1 has no item -1");
    kva_arena_release(&arena);
    kva_task_close(task);
}

/* Everything that changes an item changes the description; nothing else does. */
static void the_description_is_canonical_and_tells_tasks_apart(void **state)
{
    static const char *const text[] = {"ruler/niah_single_1",
                                       "ruler/niah_single_2",
                                       "ruler/niah_single_2@512",
                                       "ruler/niah_single_2:haystack=embedded",
                                       "ruler/niah_single_3",
                                       "ruler/niah_multikey_1",
                                       "ruler/vt",
                                       "niah/needle",
                                       "niah/needle:digits=4",
                                       "niah/needle:prefix=needle",
                                       "niah/needle:keys=4",
                                       "niah/needle:values=4"};
    static const struct kva_task_opts opts[] = {{.seed = 42},
                                                {.seed = 43},
                                                {.seed = 42, .words = "3.0.0"},
                                                {.seed = 42, .max_new_tokens = 9}};
    enum { N = sizeof text / sizeof text[0], M = sizeof opts / sizeof opts[0] };
    const char *gen[N + M];
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (size_t i = 0; i < N + M; i++) {
        struct kva_task *task = i < N ? open_task(text[i])
                                      : open_with("ruler/niah_single_1@64", &opts[i - N]);
        struct kva_task *again = i < N
                                     ? open_task(text[i])
                                     : open_with("ruler/niah_single_1@64", &opts[i - N]);
        json_t *o;
        char *dump;

        gen[i] = kva_task_gen_json(task, &arena);
        assert_string_equal(gen[i], kva_task_gen_json(again, &arena));
        o = json_loads(gen[i], 0, NULL);
        assert_non_null(o);
        dump = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
        assert_string_equal(dump, gen[i]);
        free(dump);
        json_decref(o);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(gen[i], gen[j]);
        kva_task_close(task);
        kva_task_close(again);
    }
    assert_non_null(strstr(gen[1],
                           "\"essay\":\"1d3e5462bd714d419471ff9d18d0c2e86ea71ecd43159fc01"
                           "89e70c8f0b3eb9b\""));
    kva_arena_release(&arena);
}

static void spelling_the_defaults_out_changes_no_description(void **state)
{
    struct kva_task *a = open_task("niah/needle@4096");
    struct kva_task *b = open_task("niah/needle:values=1,keys=1,haystack=emerson");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    assert_string_equal(kva_task_gen_json(a, &arena), kva_task_gen_json(b, &arena));
    assert_string_equal(item_of(a, 3, &kva_tok_by, &arena).context,
                        item_of(b, 3, &kva_tok_by, &arena).context);
    kva_arena_release(&arena);
    kva_task_close(a);
    kva_task_close(b);
}

static void exhausted_memory_is_reported_and_nothing_leaks(void **state)
{
    static const char *const text[] = {"niah/needle:keys=2@700", "ruler/vt@900"};

    (void)state;
    for (int t = 0; t < 2; t++)
        for (long k = 1, done = 0; !done; k += 1 + k / 8) {
            struct kva_error err = {0};
            struct kva_task *task;
            struct kva_arena arena;
            struct kva_item it;
            enum kva_status rc;

            kva_arena_init(&arena);
            kva_alloc_fail_at(k);
            rc = kva_task_open(text[t], NULL, &task, &err);
            if (rc == KVA_OK)
                rc = kva_task_item(task, 1, &kva_tok_ws, &arena, &it, &err);
            else
                assert_null(task);
            kva_alloc_fail_at(0);
            assert_true(rc == KVA_OK || rc == KVA_ENOMEM);
            assert_true(rc == KVA_OK || err.text[0]);
            done = rc == KVA_OK;
            kva_task_close(task);
            kva_arena_release(&arena);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_task_is_well_formed_and_opens),
        TEST(refusals_name_the_nearest_word_or_the_reason),
        TEST(options_that_are_not_built_or_out_of_range_are_refused),
        TEST(streams_follow_the_published_vectors),
        TEST(an_item_that_does_not_exist_is_refused),
        TEST(the_description_is_canonical_and_tells_tasks_apart),
        TEST(spelling_the_defaults_out_changes_no_description),
        TEST(exhausted_memory_is_reported_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
