/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_records.c - data files as numbered records, and how each mistake is named. */
#include "tests/tasks/data_test.h"

#include "tasks/records.h"

static enum kva_status open_file(struct kva_records *r, const char *file,
                                 struct kva_error *err)
{
    struct kva_task_data data = {"set", data_dir};

    return kva_records_open(r, &(struct kva_task_opts){.data = &data, .n_data = 1}, "set",
                            file, err);
}

static struct kva_records opened(const char *text)
{
    struct kva_records r;
    struct kva_error err = {0};

    put_data("x.jsonl", text);
    if (open_file(&r, "x.jsonl", &err) != KVA_OK)
        fail_msg("%s", err.text);
    return r;
}

static const char *open_refusal(const void *text, size_t n)
{
    static struct kva_error err;
    struct kva_records r;

    err = (struct kva_error){0};
    put_data_n("x.jsonl", text, n);
    assert_int_not_equal(open_file(&r, "x.jsonl", &err), KVA_OK);
    kva_records_release(&r);
    return strstr(err.text, "x.jsonl");
}

/* The text field "a" of record i; its line. */
static int line_of(const struct kva_records *r, size_t i, const char *want)
{
    struct kva_error err = {0};
    struct kva_record rec;
    struct kva_arena arena;
    const char *text;
    int line;

    kva_arena_init(&arena);
    if (kva_record_read(r, i, &rec, &err) != KVA_OK ||
        kva_record_text(&rec, "a", true, &arena, &text, NULL, &err) != KVA_OK)
        fail_msg("record %zu: %s", i, err.text);
    assert_string_equal(text, want);
    line = rec.line;
    kva_record_release(&rec);
    kva_arena_release(&arena);
    return line;
}

static void records_are_lines_and_blank_lines_none(void **state)
{
    struct kva_records r = opened(
        "\xef\xbb\xbf\n{\"a\":\"1\"}\r\n \t\r\n  {\"a\":\"2\\r\\n\"} \n\n{\"a\":\"3\"}");

    (void)state;
    assert_int_equal(r.n, 3);
    assert_int_equal(line_of(&r, 0, "1"), 2);
    assert_int_equal(line_of(&r, 1, "2\r\n"), 4);
    assert_int_equal(line_of(&r, 2, "3"), 6);
    kva_records_release(&r);
}

static void records_are_the_elements_of_a_list(void **state)
{
    struct kva_records r =
        opened("\n [ {\"a\":\"x]},[\\\"\"},\n{\n\"a\":\"2\",\"b\":[{}]} "
               ", {\"a\":\"\\\\\"}\n]\n");

    (void)state;
    assert_int_equal(r.n, 3);
    assert_int_equal(line_of(&r, 0, "x]},[\""), 2);
    assert_int_equal(line_of(&r, 1, "2"), 3);
    assert_int_equal(line_of(&r, 2, "\\"), 4);
    kva_records_release(&r);
}

static void the_hash_is_that_of_the_file(void **state)
{
    struct kva_records r = opened("{\"a\":\"1\"}\n");

    (void)state;
    assert_string_equal(
        r.sha256, "128900eb9f368b9063eb1958cc0d40da254c25645f1c9456260817aed103de21");
    kva_records_release(&r);
}

/* Records that lie across the blocks in which a file is read. */
static void long_files_and_fields_of_a_megabyte_are_read(void **state)
{
    struct kva_records r;
    struct kva_buf text, big;

    (void)state;
    kva_buf_init(&text, 0);
    kva_buf_init(&big, 0);
    for (int i = 0; i < 1 << 20; i++)
        kva_buf_putc(&big, (char)('a' + i % 23));
    for (int list = 0; list < 2; list++) {
        text.len = 0;
        if (list)
            kva_buf_putc(&text, '[');
        for (int i = 0; i < 9000; i++)
            kva_buf_printf(&text, "{\"a\":\"%d\"}%s\n", i, list ? "," : "");
        kva_buf_printf(&text, "{\"a\":\"%s\"}%s", big.data, list ? "]" : "");
        r = opened(text.data);
        assert_int_equal(r.n, 9001);
        for (int i = 0; i < 9000; i += 7) {
            char want[16];

            snprintf(want, sizeof want, "%d", i);
            assert_int_equal(line_of(&r, (size_t)i, want), i + 1);
        }
        line_of(&r, 9000, big.data);
        kva_records_release(&r);
    }
    kva_buf_release(&text);
    kva_buf_release(&big);
}

static void a_file_without_records_is_refused(void **state)
{
    static const char *const row[][2] = {
        {"", "x.jsonl: no records"},
        {" \n\r\n", "x.jsonl: no records"},
        {"[]", "x.jsonl: no records"},
        {"\n[{}\n", "x.jsonl:3: the list of records does not end"},
        {"[{\"a\":\"]", "x.jsonl:1: the list of records does not end"},
        {"[{},]", "x.jsonl:1: a record is missing in the list"},
        {"[,{}]", "x.jsonl:1: a record is missing in the list"},
        {"[{}]\n{}", "x.jsonl:2: something follows the list of records"},
        {"[{}}]", "x.jsonl:1: a bracket closes what was not opened"},
    };
    struct kva_error err = {0};
    struct kva_records r;

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        assert_string_equal(open_refusal(row[i][0], strlen(row[i][0])), row[i][1]);
    assert_int_equal(open_file(&r, "none.jsonl", &err), KVA_EIO);
    assert_non_null(strstr(err.text, "none.jsonl; name it with --data set=PATH"));
    kva_records_release(&r);
}

/* They are records all the same: nothing is dropped. */
static void a_record_that_cannot_be_parsed_is_refused_when_it_is_read(void **state)
{
    static const char *const row[][2] = {
        {"{\"a\":\"\xff\"}", "unable to decode byte 0xff"},
        {"{\"a\":\"\\ud800\"}", "invalid Unicode '\\uD800"},
        {"{\"a\":1,\"a\":2}", "duplicate object key"},
        {"{\"a\":\"cut of", "premature end of input"},
        {"\"text\"", "not a JSON object"},
        {"[1]", "not a JSON object"},
        {"12", "not a JSON object"},
        {"{\"a\":1} {}", "end of file expected"},
        {"nonsense", "invalid token"},
    };
    struct kva_buf text;

    (void)state;
    kva_buf_init(&text, 0);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct kva_error err = {0};
        struct kva_records r;
        struct kva_record rec;

        text.len = 0;
        kva_buf_printf(&text, "{\"a\":\"1\"}\n%s\n{\"a\":\"3\"}", row[i][0]);
        r = opened(text.data);
        assert_int_equal(r.n, 3);
        line_of(&r, 2, "3");
        assert_int_equal(kva_record_read(&r, 1, &rec, &err), KVA_EFORMAT);
        if (!strstr(err.text, "x.jsonl:2: ") || !strstr(err.text, row[i][1]))
            fail_msg("%s: %s", row[i][0], err.text);
        kva_record_release(&rec);
        kva_records_release(&r);
    }
    kva_buf_release(&text);
}

static void fields_of_a_wrong_kind_are_named(void **state)
{
    struct kva_records r =
        opened("{\"n\":1.5,\"t\":\"a\\u0000b\",\"l\":[\"x\",3],\"z\":null,\"o\":{}}");
    struct kva_record rec;
    struct kva_arena arena;
    const char *const *texts, *text;
    int n_texts;
    size_t n;
    int64_t whole;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(kva_record_read(&r, 0, &rec, NULL), KVA_OK);
    assert_int_equal(kva_record_text(&rec, "t", true, &arena, &text, &n, NULL), KVA_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "a\0b", 4);
    assert_int_equal(kva_record_text(&rec, "z", false, &arena, &text, &n, NULL), KVA_OK);
    assert_null(text);
#define REFUSED(call, why)                                                               \
    do {                                                                                 \
        struct kva_error err = {0};                                                      \
        assert_int_equal(call, KVA_EFORMAT);                                             \
        if (!ends_with(err.text, "x.jsonl:1: " why))                                     \
            fail_msg("%s", err.text);                                                    \
    } while (0)
    REFUSED(kva_record_text(&rec, "t", true, &arena, &text, NULL, &err),
            "\"t\" holds a NUL");
    REFUSED(kva_record_text(&rec, "z", true, &arena, &text, &n, &err), "no \"z\"");
    REFUSED(kva_record_text(&rec, "n", true, &arena, &text, &n, &err),
            "\"n\" is not a text");
    REFUSED(kva_record_whole(&rec, "n", &whole, &err), "\"n\" is not a whole number");
    REFUSED(kva_record_texts(&rec, "t", true, &arena, &texts, &n_texts, &err),
            "\"t\" is not a list of at most 100000 texts");
    REFUSED(kva_record_texts(&rec, "l", true, &arena, &texts, &n_texts, &err),
            "l[1] is not a text without NULs");
    REFUSED(kva_record_labels(&rec, (const char *const[]){"o", NULL}, NULL, &arena, &text,
                              &err),
            "\"o\" is not a text or a whole number");
    kva_record_release(&rec);
    kva_records_release(&r);
    kva_arena_release(&arena);
}

static void labels_are_the_fields_that_are_there(void **state)
{
    static const char *const keys[] = {"_id", "missing", "level", "null", NULL};
    struct kva_records r = opened("{\"level\":3,\"_id\":\"q\\\"1\",\"null\":null}");
    struct kva_record rec;
    struct kva_arena arena;
    const char *labels;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(kva_record_read(&r, 0, &rec, NULL), KVA_OK);
    assert_int_equal(kva_record_labels(&rec, keys, "8k+", &arena, &labels, NULL), KVA_OK);
    assert_string_equal(labels, "{\"_id\":\"q\\\"1\",\"level\":3,\"bucket\":\"8k+\"}");
    kva_record_release(&rec);
    kva_records_release(&r);
    kva_arena_release(&arena);
}

static void a_file_that_changes_while_it_is_open_is_noticed(void **state)
{
    struct kva_records r = opened("{\"a\":\"1\"}\n{\"a\":\"2\"}\n");
    struct kva_record rec;
    struct kva_error err = {0};
    char path[128];
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/x.jsonl", data_dir);
    f = fopen(path, "r+");
    assert_non_null(f);
    fputs("{\"a\":\"9\"}\n{\"a", f);
    assert_int_equal(ftruncate(fileno(f), 13), 0);
    fclose(f);
    for (size_t i = 0; i < 2; i++) {
        err = (struct kva_error){0};
        assert_int_equal(kva_record_read(&r, i, &rec, &err), KVA_EFORMAT);
        assert_true(ends_with(err.text, "the file changed since it was opened"));
        kva_record_release(&rec);
    }
    kva_records_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_are_lines_and_blank_lines_none),
        TEST(records_are_the_elements_of_a_list),
        TEST(the_hash_is_that_of_the_file),
        TEST(long_files_and_fields_of_a_megabyte_are_read),
        TEST(a_file_without_records_is_refused),
        TEST(a_record_that_cannot_be_parsed_is_refused_when_it_is_read),
        TEST(fields_of_a_wrong_kind_are_named),
        TEST(labels_are_the_fields_that_are_there),
        TEST(a_file_that_changes_while_it_is_open_is_noticed),
    };

    return cmocka_run_group_tests(tests, make_data_dir, drop_data_dir);
}
