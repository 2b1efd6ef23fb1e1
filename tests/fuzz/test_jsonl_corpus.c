/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_jsonl_corpus.c - the user's own records: a stored corpus and seeded edits.
 *
 * A file is refused as a whole with its place and reason, or every record becomes an
 * item whose spans lie in its context and which can be written out again. */
#include "tests/fuzz/fuzz.h"

#include "tasks/task.h"

#include <fcntl.h>
#include <unistd.h>

static char dir[] = "/tmp/kva_fuzz_jsonl_XXXXXX";
static char path[64];

static const char *const words[] = {"context",
                                    "question",
                                    "answers",
                                    "answer_prefix",
                                    "metric",
                                    "match_all",
                                    "gold",
                                    "match_part",
                                    "max_new_tokens",
                                    "spans",
                                    "payload",
                                    "byte",
                                    "tok",
                                    "kind",
                                    "E",
                                    "D",
                                    "E0",
                                    "context_ids",
                                    "question_ids",
                                    "queried",
                                    "role",
                                    "match",
                                    "level",
                                    "turns",
                                    "schema",
                                    "null",
                                    "true",
                                    "[]",
                                    "{}",
                                    "\"\"",
                                    "[0,1]",
                                    "\\u0000",
                                    "\\ud800",
                                    "\\u00e9",
                                    "\xff",
                                    "\xc3\xa9",
                                    "\n",
                                    "\r\n",
                                    "\xef\xbb\xbf",
                                    "[[[[[[[[",
                                    "E1",
                                    "{\"id\":1",
                                    "\"",
                                    ",",
                                    NULL};

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/x.jsonl", dir);
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

/* Reads every record with tokenizer `ws`, twice the same. */
static void use(const struct kva_task *task)
{
    const struct kva_task_info *info = kva_task_info(task);
    struct kva_arena arena;
    struct kva_buf line, again;

    kva_arena_init(&arena);
    kva_buf_init(&line, 0);
    kva_buf_init(&again, 0);
    assert_true(info->n_available > 0);
    assert_non_null(kva_task_gen_json(task, &arena));
    assert_non_null(kva_task_source_json(task, &arena));
    for (int i = 0; i < info->n_available; i++) {
        struct kva_error err = {0};
        struct kva_item it;

        if (kva_task_item(task, i, &kva_tok_ws, &arena, &it, &err) != KVA_OK)
            fail_msg("record %d of a checked file: %s", i, err.text);
        assert_true(it.n_answers > 0 && it.max_new_tokens > 0);
        assert_true(it.context_ids ? it.n_context_ids > 0 : it.context_len > 0);
        assert_int_equal(strlen(it.context), it.context_len);
        for (int k = 0; k < it.n_spans; k++) {
            const struct kva_span *s = &it.spans[k];

            if (!it.context_ids)
                assert_true(s->b0 < s->b1 && s->b1 <= it.context_len);
            assert_true(s->t0 >= 0 && s->t0 <= s->t1 && (size_t)s->t1 <= it.n_context);
            assert_in_range(s->bucket, 0, 9);
        }
        line.len = again.len = 0;
        assert_int_equal(kva_task_record(task, &it, &kva_tok_ws, &line, &err), KVA_OK);
        if (kva_task_item(task, i, &kva_tok_ws, &arena, &it, &err) != KVA_OK)
            fail_msg("record %d, the second time: %s", i, err.text);
        assert_int_equal(kva_task_record(task, &it, &kva_tok_ws, &again, &err), KVA_OK);
        assert_int_equal(line.len, again.len);
        assert_memory_equal(line.data, again.data, line.len);
    }
    struct kva_error err = {0};
    struct kva_item it;
    enum kva_status rc =
        kva_task_item(task, (int)info->n_available, &kva_tok_ws, &arena, &it, &err);
    assert_int_not_equal(rc, KVA_OK);
    fuzz_refusal("an item behind the last", rc, &err);
    kva_buf_release(&line);
    kva_buf_release(&again);
    kva_arena_release(&arena);
}

static bool try_bytes(const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct kva_error err = {0};
    struct kva_task *task;
    enum kva_status rc;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    close(fd);
    rc = kva_task_open("jsonl:x.jsonl", &(struct kva_task_opts){.base_dir = dir}, &task,
                       &err);
    if (rc != KVA_OK) {
        assert_null(task);
        assert_int_equal(rc, KVA_EFORMAT);
        fuzz_refusal("x.jsonl", rc, &err);
        if (!strstr(err.text, "x.jsonl:"))
            fail_msg("the message names no place: %s", err.text);
        return false;
    }
    use(task);
    kva_task_close(task);
    return true;
}

static void every_stored_file_is_handled(void **state)
{
    struct fuzz_corpus c;
    int accepted = 0;

    (void)state;
    fuzz_load(&c, "tests/fuzz/jsonl");
    for (int i = 0; i < c.n; i++) {
        if (try_bytes(c.file[i].bytes.data, c.file[i].bytes.len) != c.file[i].ok)
            fail_msg("%s is %s", c.file[i].name, c.file[i].ok ? "refused" : "accepted");
        accepted += c.file[i].ok;
    }
    assert_true(accepted >= 4 && c.n - accepted >= 12);
    fuzz_free(&c);
}

static void edited_files_are_handled(void **state)
{
    struct fuzz_corpus c;
    struct kva_rng r = {20240604};
    uint64_t begin = kva_now_ns();
    long tries = 0, accepted = 0;
    uint8_t *b = malloc(FUZZ_ROOM);

    (void)state;
    fuzz_load(&c, "tests/fuzz/jsonl");
    for (; fuzz_goes_on(tries, 4000, begin); tries++) {
        const struct fuzz_file *f = fuzz_pick(&c, &r);

        memcpy(b, f->bytes.data, f->bytes.len);
        accepted += try_bytes(b, fuzz_edit(&r, b, f->bytes.len, words));
    }
    print_message("%ld files, %ld accepted\n", tries, accepted);
    assert_true(accepted > 0 && accepted < tries);
    free(b);
    fuzz_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_file_is_handled),
        cmocka_unit_test(edited_files_are_handled),
    };
    kva_log_set(fuzz_quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
