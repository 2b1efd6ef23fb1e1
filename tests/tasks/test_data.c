/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_data.c - the files that the program carries are the published ones. */
#include "tests/tasks/tasks_test.h"

#include <unistd.h>

static void carried_bytes_have_the_stated_sha256(void **state)
{
    (void)state;
    assert_int_equal(kva_carried_count(), 9);
    for (size_t i = 0; i < kva_carried_count(); i++) {
        struct kva_carried c = kva_carried_file(i);
        uint8_t digest[32];
        char hex[65];

        kva_sha256_of(c.bytes, c.n, digest);
        kva_hex(digest, sizeof digest, hex);
        assert_string_equal(hex, c.sha256);
    }
}

static void the_shared_copies_are_the_same(void **state)
{
    static const char *const from[][2] = {
        {"adjectivelist-2.2.0.txt", "wordlists-2.2.0/adjectivelist.txt"},
        {"nounlist-2.2.0.txt", "wordlists-2.2.0/nounlist.txt"},
        {"adjectivelist-3.0.0.txt", "wordlists-3.0.0/adjectivelist.txt"},
        {"nounlist-3.0.0.txt", "wordlists-3.0.0/nounlist.txt"},
        {"verblist-2.2.0.txt", "wordlists-2.2.0/verblist.txt"},
        {"verblist-3.0.0.txt", "wordlists-3.0.0/verblist.txt"},
        {"qa_mini_squad.json", "qa_mini_squad.json"},
        {"qa_mini_hotpot.json", "qa_mini_hotpot.json"},
        {"emerson_essays.txt", "emerson_essays.txt"},
    };
    const char *dir = getenv("KVAUDIT_SHARED");

    (void)state;
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        struct kva_error err = {0};
        struct kva_buf file, own;
        char path[512], sha256[65];
        const char *bytes;
        size_t n;

        snprintf(path, sizeof path, "%s/ruler/%s", dir ? dir : "../shared/data",
                 from[i][1]);
        kva_buf_init(&file, 0);
        kva_buf_init(&own, 0);
        if (kva_read_file(path, 0, &file, &err) != KVA_OK) {
            print_message("SKIP: %s\n", err.text);
            kva_buf_release(&file);
            skip();
        }
        assert_int_equal(
            kva_carried_load(NULL, from[i][0], &own, &bytes, &n, sha256, &err), KVA_OK);
        assert_int_equal(n, file.len);
        assert_memory_equal(bytes, file.data, n);
        kva_buf_release(&file);
        kva_buf_release(&own);
    }
}

static void a_data_directory_replaces_what_is_carried(void **state)
{
    struct kva_task_opts opts = {.seed = 42, .data_dir = "configs/data"};
    struct kva_task *carried = open_task("ruler/niah_single_2@512");
    struct kva_task *read = open_with("ruler/niah_single_2@512", &opts);
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    assert_string_equal(kva_task_gen_json(carried, &arena),
                        kva_task_gen_json(read, &arena));
    assert_string_equal(item_of(carried, 7, &kva_tok_ws, &arena).context,
                        item_of(read, 7, &kva_tok_ws, &arena).context);
    opts.data_dir = "no/such/directory";
    assert_non_null(strstr(refusal("ruler/niah_single_2", &opts),
                           "EIO: no/such/directory/adjectivelist-2.2.0.txt"));
    kva_arena_release(&arena);
    kva_task_close(carried);
    kva_task_close(read);
}

/* Every name that a task asks for can be given (`--data`, the suite's "data"). */
static void a_data_set_is_found_by_its_name(void **state)
{
    char dir[] = "/tmp/kva-test-data-XXXXXX", file[64];
    struct kva_buf path;

    (void)state;
    kva_buf_init(&path, 0);
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/x.json", dir);
    assert_int_equal(kva_write_file(file, "{}", 2, NULL), KVA_OK);
    for (const char *const *name = kva_task_data_names; *name; name++) {
        /* as it is given: a directory, a file of any name, relative to the suite */
        const struct {
            const char *given, *base;
        } WAY[] = {{dir, NULL},
                   {dir, "/no/such/place"},
                   {file, "/no/such/place"},
                   {"x.json", dir},
                   {".", dir}};

        for (size_t i = 0; i < sizeof WAY / sizeof WAY[0]; i++) {
            struct kva_task_data data[] = {{"other", "/no/such/file"},
                                           {*name, WAY[i].given}};
            struct kva_task_opts opts = {
                .data = data, .n_data = 2, .base_dir = WAY[i].base};

            assert_int_equal(kva_data_find(&opts, *name, "x.json", &path, NULL), KVA_OK);
            assert_non_null(strstr(path.data, dir));
        }
    }
    unlink(file);
    rmdir(dir);
    kva_buf_release(&path);
}

static void what_is_nowhere_says_how_to_name_it(void **state)
{
    struct kva_task_opts opts = {.base_dir = "/no/such/place"};
    struct kva_error err = {0};
    struct kva_buf path;

    (void)state;
    kva_buf_init(&path, 0);
    assert_int_equal(kva_data_find(&opts, "squad", "x.json", &path, &err), KVA_EIO);
    assert_non_null(strstr(err.text, "/data/squad/x.json; name it with --data squad="));
    kva_buf_release(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(carried_bytes_have_the_stated_sha256),
        TEST(the_shared_copies_are_the_same),
        TEST(a_data_directory_replaces_what_is_carried),
        TEST(a_data_set_is_found_by_its_name),
        TEST(what_is_nowhere_says_how_to_name_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
