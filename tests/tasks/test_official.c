/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_official.c - official output of RULER's generators, byte for byte. */
#include "tests/tasks/official_test.h"

static void all_rows_of_the_reference_are_equal(void **state)
{
    struct kva_buf file;

    (void)state;
    read_shared("ruler/golden_digests.tsv", &file);
    check_rows(&file, "golden_digests.tsv");
}

/* Made by RULER's scripts with tests/golden/tasks/make_official.py. */
static void our_own_rows_of_upstream_are_equal(void **state)
{
    struct kva_buf file;

    (void)state;
    kva_buf_init(&file, 0);
    assert_int_equal(
        kva_read_file("tests/golden/tasks/official.tsv", 1 << 20, &file, NULL), KVA_OK);
    check_rows(&file, "official.tsv");
}

/* Two bytes a token, as a stand-in for the vocabulary the published file was made with.
 */
static enum kva_status halves_count(void *ctx, const struct kva_feed *feed,
                                    const char *context, size_t n, const char *question,
                                    const char *answer_prefix, size_t *n_context,
                                    size_t *n_question, struct kva_error *err)
{
    (void)ctx;
    (void)feed;
    (void)context;
    (void)err;
    *n_context = (n + 1) / 2;
    *n_question = (strlen(question) + strlen(answer_prefix) + 1) / 2;
    return KVA_OK;
}

/* KVCache-Factory's niah_multikey_3 at 4096 (tasks-ruler.md 12.1): the digest of all 500
 * samples. */
static void a_published_file_is_reproduced(void **state)
{
    const struct kva_tok_api halves = {
        .id = "halves", .count = halves_count, .ranges = kva_tok_ws.ranges};
    struct kva_task *task = open_dialect("niah_multikey_3", 4096, "r2024", 42, NULL);
    struct kva_arena arena;
    struct kva_sha256 h;
    uint8_t digest[32];
    char hex[65];

    (void)state;
    kva_arena_init(&arena);
    kva_sha256_init(&h);
    for (int i = 0; i < 500; i++) {
        struct kva_item it = item_of(task, i, &halves, &arena);

        add_prompt(&h, &it);
        assert_int_equal(it.context_len + strlen(it.question) + strlen(it.answer_prefix),
                         6142);
        if (i == 0) {
            assert_string_equal(it.answers[0], "1ee34dc4-3b04-4a8b-805b-fdc94e7ed827");
            assert_non_null(strstr(it.question, "455ac762-7428-4656-b3ee-4d3b5a104129"));
        }
        kva_arena_reset(&arena);
    }
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, hex);
    assert_string_equal(
        hex, "e3c669597a0eba8ea9119c4b2598dd0a2645238d889251ca9d1b972bad618bcc");
    kva_arena_release(&arena);
    kva_task_close(task);
}

/* The first eight as they were published. */
static void the_published_samples_are_reproduced(void **state)
{
    const struct kva_tok_api halves = {
        .id = "halves", .count = halves_count, .ranges = kva_tok_ws.ranges};
    struct kva_task *task;
    struct kva_arena arena;
    struct kva_buf file;
    char *line;

    (void)state;
    read_shared("ruler/niah_multikey_3.4096.first8.jsonl", &file);
    task = open_dialect("niah_multikey_3", 4096, "r2024", 42, NULL);
    kva_arena_init(&arena);
    line = file.data;
    for (int i = 0; i < 8; i++) {
        struct kva_item it = item_of(task, i, &halves, &arena);
        char *end = strchr(line, '\n');
        json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
        const char *input = json_string_value(json_object_get(row, "input"));
        size_t n = it.context_len, q = strlen(it.question);

        assert_non_null(input);
        assert_memory_equal(input, it.context, n);
        assert_memory_equal(input + n, it.question, q);
        assert_string_equal(input + n + q, it.answer_prefix);
        json_decref(row);
        line = end + 1;
        kva_arena_reset(&arena);
    }
    kva_buf_release(&file);
    kva_arena_release(&arena);
    kva_task_close(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_rows_of_the_reference_are_equal),
        TEST(our_own_rows_of_upstream_are_equal),
        TEST(a_published_file_is_reproduced),
        TEST(the_published_samples_are_reproduced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
