/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_records_corpus.c - files of public benchmarks: a stored corpus and seeded edits.
 *
 * A file is refused as a whole with its place and reason, or each of its records becomes
 * an item whose prompt is whole, valid and the same twice, or is refused by itself. A
 * stored file is accepted when some task takes all its records. */
#include "tests/fuzz/fuzz.h"

#include "tasks/task.h"

#include <fcntl.h>
#include <unistd.h>

static char dir[] = "/tmp/kva_fuzz_records_XXXXXX";
static char path[64];

static const char *const words[] = {"context",
                                    "input",
                                    "answers",
                                    "all_classes",
                                    "length",
                                    "dataset",
                                    "language",
                                    "_id",
                                    "trec",
                                    "samsum",
                                    "trec_e",
                                    "problem",
                                    "answer",
                                    "subject",
                                    "level",
                                    "unique_id",
                                    "####",
                                    "#### -1,0",
                                    "question",
                                    "choice_A",
                                    "choice_D",
                                    "A",
                                    "id",
                                    "null",
                                    "true",
                                    "[]",
                                    "{}",
                                    "\"\"",
                                    "\\u0000",
                                    "\\ud800",
                                    "\\u00e9",
                                    "\\u3000",
                                    "\xff",
                                    "\xc3\xa9",
                                    "\n",
                                    "\r\n",
                                    "{context}",
                                    "{input}",
                                    "$Q$",
                                    "$C_A$",
                                    "Type:",
                                    "[",
                                    "]",
                                    ",",
                                    "\"",
                                    "{",
                                    "}",
                                    "\xef\xbb\xbf",
                                    "\xf0\x9f\x98\x80",
                                    "\\",
                                    NULL};

/* Every kind of reader, with and without a cut. */
static const struct {
    const char *text, *profile;
    int limit; /* bytes */
} tasks[] = {
    {"longbench/trec", "official", 0},     {"longbench/trec@151", "official", 151},
    {"longbench/trec", "kvpress", 0},      {"longbench/trec@172", "kvpress", 172},
    {"longbench/trec", "criticalkv", 0},   {"longbench/samsum@200", "criticalkv", 200},
    {"longbench/trec_e", "official", 0},   {"longbench/lcc_e@80", "kvpress", 80},
    {"longbench/v2", "official", 0},       {"longbench/v2@701", "official", 701},
    {"math/math500", "boxed", 0},          {"math/math500:max_total=99", "plain", 0},
    {"math/gsm8k:loop_guard=1", "rkv", 0}, {"math/aime25", "boxed", 0},
};
enum { N_TASKS = sizeof tasks / sizeof tasks[0] };

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

static void assert_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int k = kva_utf8_len(s + i, n - i);

        assert_true(k > 0);
        i += (size_t)k;
    }
}

/* An item with one token a byte. The cut adds at most two bytes for each of three broken
 * ones at an edge. */
static void check(const struct kva_item *it, int limit)
{
    assert_true(it->n_answers > 0 && it->max_new_tokens > 0 && it->gold && it->labels);
    assert_utf8(it->context, it->context_len);
    assert_utf8(it->question, strlen(it->question));
    assert_int_equal(it->context[it->context_len], 0);
    assert_int_equal(it->n_context, it->context_len);
    assert_true(limit > 0 || !it->was_cut);
    if (limit > 0)
        assert_true(it->n_context + it->n_question <= (size_t)limit + 12);
    if (it->was_cut)
        assert_true(it->n_context + it->n_question + 1 >= (size_t)limit);
}

/* How many records become items. */
static int64_t use(const struct kva_task *task, int limit)
{
    int64_t n = kva_task_info(task)->n_available, made = 0;
    struct kva_arena arena;
    struct kva_buf line, again;

    kva_arena_init(&arena);
    kva_buf_init(&line, 0);
    kva_buf_init(&again, 0);
    assert_true(n > 0);
    assert_non_null(kva_task_gen_json(task, &arena));
    for (int i = 0; i < n; i++) {
        struct kva_error err = {0};
        struct kva_item it;
        enum kva_status rc = kva_task_item(task, i, &kva_tok_by, &arena, &it, &err);

        if (rc != KVA_OK) {
            fuzz_refusal("a record", rc, &err);
            assert_true(rc == KVA_EFORMAT || rc == KVA_EINVALID);
            if (!strstr(err.text, rc == KVA_EFORMAT ? "x.jsonl:" : "question_longer"))
                fail_msg("the message names no place: %s", err.text);
            continue;
        }
        check(&it, limit);
        line.len = again.len = 0;
        assert_int_equal(kva_task_record(task, &it, &kva_tok_by, &line, &err), KVA_OK);
        assert_int_equal(kva_task_item(task, i, &kva_tok_by, &arena, &it, &err), KVA_OK);
        assert_int_equal(kva_task_record(task, &it, &kva_tok_by, &again, &err), KVA_OK);
        assert_int_equal(line.len, again.len);
        assert_memory_equal(line.data, again.data, line.len);
        made++;
    }
    kva_buf_release(&line);
    kva_buf_release(&again);
    kva_arena_release(&arena);
    return made;
}

/* Cut behind the writing: some file systems flush a file that was emptied first. */
static void put_bytes(const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    close(fd);
}

/* Items of the file under task t; `all` when every record became one. */
static int64_t try_task(size_t t, bool *all)
{
    const struct kva_task_data data[] = {{"longbench", path},
                                         {"longbench_v2", path},
                                         {"math500", path},
                                         {"gsm8k", path},
                                         {"aime25", path}};
    const struct kva_task_opts opts = {
        .data = data, .n_data = 5, .profile = tasks[t].profile};
    struct kva_error err = {0};
    struct kva_task *task;
    int64_t made;
    enum kva_status rc = kva_task_open(tasks[t].text, &opts, &task, &err);

    *all = false;
    if (rc != KVA_OK) {
        assert_null(task);
        assert_int_equal(rc, KVA_EFORMAT);
        fuzz_refusal("x.jsonl", rc, &err);
        if (!strstr(err.text, "x.jsonl:"))
            fail_msg("the message names no place: %s", err.text);
        return 0;
    }
    made = use(task, tasks[t].limit);
    *all = made == kva_task_info(task)->n_available;
    kva_task_close(task);
    return made;
}

static void every_stored_file_is_handled(void **state)
{
    struct fuzz_corpus c;
    int accepted = 0;

    (void)state;
    fuzz_load(&c, "tests/fuzz/records");
    for (int i = 0; i < c.n; i++) {
        bool ok = false, all;

        put_bytes(c.file[i].bytes.data, c.file[i].bytes.len);
        for (size_t t = 0; t < N_TASKS; t++) {
            (void)try_task(t, &all);
            ok = ok || all;
        }
        if (ok != c.file[i].ok)
            fail_msg("%s is %s", c.file[i].name, c.file[i].ok ? "refused" : "accepted");
        accepted += ok;
    }
    assert_true(accepted >= 8 && c.n - accepted >= 24);
    fuzz_free(&c);
}

/* A task that may take the file, going by its name; one time in eight any. */
static size_t draw_task(const char *name, struct kva_rng *r)
{
    static const char *const kinds[] = {"trec",    "longbench", "v2",
                                        "math500", "gsm8k",     "aime25"};
    const char *kind = "/";
    size_t t;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strstr(name, kinds[i]) && kva_rng_below(r, 8) > 0)
            kind = kinds[i];
    do
        t = (size_t)kva_rng_below(r, N_TASKS);
    while (!strstr(tasks[t].text, kind));
    return t;
}

static void edited_files_are_handled(void **state)
{
    struct fuzz_corpus c;
    struct kva_rng r = {20240611};
    uint64_t begin = kva_now_ns();
    long tries = 0, items = 0, whole = 0;
    uint8_t *b = malloc(FUZZ_ROOM);

    (void)state;
    fuzz_load(&c, "tests/fuzz/records");
    for (; fuzz_goes_on(tries, 16000, begin); tries++) {
        const struct fuzz_file *f = fuzz_pick(&c, &r);
        bool all;

        memcpy(b, f->bytes.data, f->bytes.len);
        put_bytes(b, fuzz_edit(&r, b, f->bytes.len, words));
        items += try_task(draw_task(f->name, &r), &all);
        whole += all;
    }
    print_message("%ld files, %ld taken whole, %ld items\n", tries, whole, items);
    assert_true(items > 0 && whole < tries);
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
