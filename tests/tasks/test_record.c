/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_record.c - golden prompts: whole records of every task against tests/golden/tasks,
 * byte for byte. KVA_GOLDEN=1 rewrites them; a change of one raises the task's version.
 */
#include "tests/tasks/tasks_test.h"

static const struct {
    const char *dir, *task;
} golden[] = {
    {"niah_single_1", "ruler/niah_single_1@512"},
    {"niah_single_2", "ruler/niah_single_2@512"},
    {"niah_single_3", "ruler/niah_single_3@512"},
    {"niah_multikey_1", "ruler/niah_multikey_1@512"},
    {"niah_multikey_2", "ruler/niah_multikey_2@512"},
    {"niah_multikey_3", "ruler/niah_multikey_3@512"},
    {"niah_multivalue", "ruler/niah_multivalue@512"},
    {"niah_multiquery", "ruler/niah_multiquery@600"},
    {"vt", "ruler/vt@700"},
    {"vt_uninstructed", "ruler/vt:uninstructed=1@700"},
    {"cwe", "ruler/cwe@700"},
    {"fwe", "ruler/fwe@512"},
    {"qa_1", "ruler/qa_1:data=mini@600"},
    {"qa_2", "ruler/qa_2:data=mini@1024"},
    {"qa_synth", "niah/qa_synth@512"},
    {"qa_synth_hops2", "niah/qa_synth:hops=2@512"},
    {"needle", "niah/needle:digits=4,keys=4,prefix=needle@512"},
    {"needle_mv2_mq2", "niah/needle:queries=2,values=2@512"},
    {"grid", "niah/grid@512"},
    {"mt_niah", "mt/niah@512"},
    {"mt_passkey", "mt/passkey@300"},
    {"mt_kv", "mt/kv@200"},
    {"mt_find", "mt/find@200"},
    {"mt_vt", "mt/vt@500"},
    {"mt_many_shot", "mt/many_shot@300"},
};

static void records_equal_the_golden_files(void **state)
{
    const char *rewrite = getenv("KVA_GOLDEN");

    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct kva_task *task = open_task(golden[i].task);
        struct kva_error err = {0};
        struct kva_arena arena;
        struct kva_buf made, kept;
        char path[200];

        kva_arena_init(&arena);
        kva_buf_init(&made, 0);
        kva_buf_init(&kept, 0);
        for (int idx = 0; idx < 2; idx++) {
            struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);

            assert_int_equal(kva_task_record(task, &it, &kva_tok_ws, &made, &err),
                             KVA_OK);
            kva_buf_putc(&made, '\n');
        }
        snprintf(path, sizeof path, "tests/golden/tasks/%s", golden[i].dir);
        if (rewrite && strcmp(rewrite, "1") == 0)
            assert_int_equal(kva_mkdirs(path, &err), KVA_OK);
        snprintf(path, sizeof path, "tests/golden/tasks/%s/expected.jsonl",
                 golden[i].dir);
        if (rewrite && strcmp(rewrite, "1") == 0)
            assert_int_equal(kva_write_file(path, made.data, made.len, &err), KVA_OK);
        if (kva_read_file(path, 0, &kept, &err) != KVA_OK)
            fail_msg("%s", err.text);
        if (made.len != kept.len || memcmp(made.data, kept.data, made.len) != 0)
            fail_msg("%s differs from what %s gives now", path, golden[i].task);
        kva_buf_release(&made);
        kva_buf_release(&kept);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

/* What the digest of a task is made of: when it changes, outcomes that were measured are
 * no longer found. */
static void descriptions_equal_the_golden_file(void **state)
{
    static const char path[] = "tests/golden/tasks/descriptions.txt";
    static const char *const dialect[] = {"kva1", "r2024", "r2025"};
    const char *rewrite = getenv("KVA_GOLDEN");
    struct kva_buf made, kept;
    struct kva_error err = {0};

    (void)state;
    kva_buf_init(&made, 0);
    kva_buf_init(&kept, 0);
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
        for (int k = 0; k < (strncmp(golden[i].task, "ruler/", 6) == 0 ? 3 : 1); k++) {
            struct kva_task_opts opts = {.seed = 42, .dialect = dialect[k]};
            struct kva_task *task;
            struct kva_arena arena;

            if (k > 0 && strstr(golden[i].task, "uninstructed"))
                continue; /* a parameter of ours */
            task = open_with(golden[i].task, &opts);
            kva_arena_init(&arena);
            kva_buf_printf(&made, "%s %s\n%s\n", golden[i].task, dialect[k],
                           kva_task_gen_json(task, &arena));
            kva_arena_release(&arena);
            kva_task_close(task);
        }
    if (rewrite && strcmp(rewrite, "1") == 0)
        assert_int_equal(kva_write_file(path, made.data, made.len, &err), KVA_OK);
    if (kva_read_file(path, 0, &kept, &err) != KVA_OK)
        fail_msg("%s", err.text);
    if (strcmp(made.data, kept.data) != 0)
        fail_msg("%s differs from what tasks say now", path);
    kva_buf_release(&made);
    kva_buf_release(&kept);
}

static void every_generated_task_has_a_golden_record(void **state)
{
    size_t n;
    const struct kva_task_desc *d = kva_tasks(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        char want[64];
        size_t g = 0;

        snprintf(want, sizeof want, "%s%s", strcmp(d[i].suite, "mt") == 0 ? "mt_" : "",
                 d[i].name);
        while (g < sizeof golden / sizeof golden[0] && strcmp(golden[g].dir, want) != 0)
            g++;
        /* those suites read the user's files */
        assert_true(
            g < sizeof golden / sizeof golden[0] || strcmp(d[i].suite, "jsonl") == 0 ||
            strcmp(d[i].suite, "longbench") == 0 || strcmp(d[i].suite, "math") == 0 ||
            strncmp(d[i].name, "scbench_", 8) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_equal_the_golden_files),
        TEST(descriptions_equal_the_golden_file),
        TEST(every_generated_task_has_a_golden_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
