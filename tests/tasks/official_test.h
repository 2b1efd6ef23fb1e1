/* SPDX-License-Identifier: GPL-3.0-or-later */
/* official_test.h - rows of digests of official output, and items compared with them. */
#ifndef KVA_OFFICIAL_TEST_H
#define KVA_OFFICIAL_TEST_H

#include "tasks/official.h"
#include "tests/tasks/tasks_test.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

/* dialect, task, tokenizer, max_len, seed, n, size, lengths, answers0, sha256 */
struct digest_row {
    char *column[10];
};
enum { DIALECT, TASK, TOKENIZER, MAX_LEN, SEED, COUNT, SIZE, LENGTHS, ANSWERS, DIGEST };

/* The digits at s. */
static inline int64_t number(const char *s)
{
    int64_t x = 0;

    while (*s >= '0' && *s <= '9')
        x = 10 * x + *s++ - '0';
    return x;
}

static inline const struct kva_tok_api *tok_named(const char *name)
{
    return strcmp(name, "by") == 0 ? &kva_tok_by : &kva_tok_ws;
}

/* $KVAUDIT_SHARED/FILE, else ../shared/data/FILE; skips aloud when it is absent. */
static inline void read_shared(const char *file, struct kva_buf *out)
{
    const char *shared = getenv("KVAUDIT_SHARED");
    char path[600];

    kva_buf_init(out, 0);
    snprintf(path, sizeof path, "%s/%s", shared ? shared : "../shared/data", file);
    if (kva_read_file(path, 1 << 26, out, NULL) != KVA_OK) {
        print_message("SKIP: no %s\n", path);
        kva_buf_release(out);
        skip();
    }
}

/* Sets the columns of the line at *at; false at the end. */
static inline bool next_row(char **at, struct digest_row *row)
{
    char *line = *at, *end;

    if (!*line)
        return false;
    end = strchr(line, '\n');
    if (end)
        *end = '\0';
    *at = end ? end + 1 : line + strlen(line);
    for (int i = 0; i < 10; i++) {
        row->column[i] = line;
        line = strchr(line, '\t');
        if (i < 9) {
            assert_non_null(line);
            *line++ = '\0';
        }
    }
    return true;
}

/* The list of words that make_official.py gives to cwe, in a file of its own. */
static inline void write_english_words(char path[])
{
    FILE *f = fdopen(mkstemp(path), "w");

    assert_non_null(f);
    for (int i = 0; i < 30000; i++)
        fprintf(f, "%s\"%d\": \"word%d\"", i ? ", " : "{", i, i);
    fprintf(f, "}");
    assert_int_equal(fclose(f), 0);
}

static inline struct kva_task *open_dialect(const char *task, int limit,
                                            const char *dialect, uint64_t seed,
                                            const char *profile)
{
    char words[] = "/tmp/kva-test-words-XXXXXX", text[80];
    bool rare = strcmp(task, "cwe") == 0 && limit > 65535;
    struct kva_task_data data = {"english_words", words};
    struct kva_task_opts opts = {.dialect = dialect,
                                 .seed = seed,
                                 .profile = profile,
                                 .data = &data,
                                 .n_data = rare};
    struct kva_task *opened;

    snprintf(text, sizeof text, "ruler/%s%s@%d", task,
             strncmp(task, "qa_", 3) == 0 ? ":data=mini" : "", limit);
    if (rare)
        write_english_words(words);
    assert_string_equal(kva_nearest(data.name, kva_task_data_names), data.name);
    opened = open_with(text, &opts);
    if (rare)
        unlink(words);
    return opened;
}

static inline void add_prompt(struct kva_sha256 *h, const struct kva_item *it)
{
    kva_sha256_add(h, it->context, it->context_len);
    kva_sha256_add(h, it->question, strlen(it->question));
    kva_sha256_add(h, it->answer_prefix, strlen(it->answer_prefix));
    kva_sha256_add(h, "\n", 1);
}

static inline int length_of(const struct kva_task *task, const struct kva_item *it)
{
    return (int)lround(it->fill * kva_task_info(task)->ctx);
}

static inline bool has_answers(const struct kva_item *it, const char *want)
{
    json_t *list = json_loads(want, 0, NULL);
    bool same = json_array_size(list) == (size_t)it->n_answers;

    for (int i = 0; same && i < it->n_answers; i++)
        same = strcmp(json_string_value(json_array_get(list, (size_t)i)),
                      it->answers[i]) == 0;
    json_decref(list);
    return same;
}

/* Makes the row's samples and names what differs; "": nothing. */
static inline const char *row_difference(const struct digest_row *row)
{
    static char what[200];
    const struct kva_tok_api *tok = tok_named(row->column[TOKENIZER]);
    struct kva_task *task =
        open_dialect(row->column[TASK], (int)number(row->column[MAX_LEN]),
                     row->column[DIALECT], (uint64_t)number(row->column[SEED]), NULL);
    const struct kva_official *o = task->state;
    const char *length = row->column[LENGTHS];
    struct kva_arena arena;
    struct kva_sha256 h;
    uint8_t digest[32];
    char hex[65];

    what[0] = '\0';
    kva_arena_init(&arena);
    kva_sha256_init(&h);
    for (int i = 0; i < number(row->column[COUNT]); i++) {
        struct kva_item it = item_of(task, i, tok, &arena);

        add_prompt(&h, &it);
        if (length_of(task, &it) != number(length))
            snprintf(what, sizeof what, "sample %d: length %d", i, length_of(task, &it));
        length += strcspn(length, ",");
        length += *length == ',';
        if (i == 0 && !has_answers(&it, row->column[ANSWERS]))
            snprintf(what, sizeof what, "answers");
        kva_arena_reset(&arena);
    }
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, hex);
    if (o->runs->units != (size_t)number(row->column[SIZE]))
        snprintf(what, sizeof what, "size %zu", o->runs->units);
    else if (!what[0] && strcmp(hex, row->column[DIGEST]) != 0)
        snprintf(what, sizeof what, "text");
    kva_arena_release(&arena);
    kva_task_close(task);
    return what;
}

/* All rows; those that differ are named, then the test fails. */
static inline void check_rows(struct kva_buf *file, const char *name)
{
    struct digest_row row;
    char *at = file->data;
    int n = 0, bad = 0;

    assert_true(next_row(&at, &row)); /* the heading */
    while (next_row(&at, &row)) {
        const char *what = row_difference(&row);

        n++;
        if (!what[0])
            continue;
        bad++;
        print_message("%s %s %s %s seed %s: %s\n", row.column[DIALECT], row.column[TASK],
                      row.column[TOKENIZER], row.column[MAX_LEN], row.column[SEED], what);
    }
    print_message("%s: %d of %d rows equal\n", name, n - bad, n);
    assert_int_equal(bad, 0);
    assert_true(n > 0);
    kva_buf_release(file);
}

#endif
