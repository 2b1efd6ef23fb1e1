/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_sql.c - reads tests/db/NAME.test: statements, queries and their expected rows.
 *
 * A block starts with `statement`, `query` or `error` and ends at an empty line; # starts
 * a comment line. Below ---- a query has its rows (columns joined by |, NULL, reals with
 * %.6g) and an error the beginning of SQLite's message. Every file starts from a fresh
 * database. */
#include "tests/db/fixture.h"

struct block {
    char kind[16];
    struct kva_buf sql, want;
    int line;
};

/* The next line without its end; false at the end of the text. */
static bool next_line(const char **at, const char **line, size_t *len, int *number)
{
    const char *end;

    if (!**at)
        return false;
    end = strchr(*at, '\n');
    *line = *at;
    *len = end ? (size_t)(end - *at) : strlen(*at);
    *at = end ? end + 1 : *at + *len;
    ++*number;
    return true;
}

static bool next_block(const char **at, struct block *b, int *number)
{
    const char *line;
    size_t len;
    bool below = false;

    b->kind[0] = '\0';
    while (next_line(at, &line, &len, number)) {
        if (!b->kind[0]) {
            if (len == 0 || line[0] == '#')
                continue;
            assert_true(len < sizeof b->kind);
            memcpy(b->kind, line, len);
            b->kind[len] = '\0';
            b->line = *number;
            kva_buf_init(&b->sql, 0);
            kva_buf_init(&b->want, 0);
            kva_buf_add(&b->sql, "", 0);
            kva_buf_add(&b->want, "", 0);
        } else if (len == 0) {
            return true;
        } else if (!below && len == 4 && memcmp(line, "----", 4) == 0) {
            below = true;
        } else {
            struct kva_buf *to = below ? &b->want : &b->sql;

            kva_buf_add(to, line, len);
            kva_buf_putc(to, '\n');
        }
    }
    return b->kind[0] != '\0';
}

static void print_column(sqlite3_stmt *st, int i, struct kva_buf *out)
{
    const uint8_t *bytes;

    switch (sqlite3_column_type(st, i)) {
    case SQLITE_NULL:
        kva_buf_puts(out, "NULL");
        break;
    case SQLITE_FLOAT:
        kva_buf_printf(out, "%.6g", sqlite3_column_double(st, i));
        break;
    case SQLITE_BLOB:
        bytes = sqlite3_column_blob(st, i);
        for (int k = 0; k < sqlite3_column_bytes(st, i); k++)
            kva_buf_printf(out, "%02x", (unsigned)bytes[k]);
        break;
    default:
        kva_buf_puts(out, (const char *)sqlite3_column_text(st, i));
        break;
    }
}

static void run_query(sqlite3 *h, const struct block *b, const char *file)
{
    struct kva_buf got;
    sqlite3_stmt *st;
    int rc;

    kva_buf_init(&got, 0);
    kva_buf_add(&got, "", 0);
    if (sqlite3_prepare_v2(h, b->sql.data, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s:%d: %s", file, b->line, sqlite3_errmsg(h));
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(st); i++) {
            if (i)
                kva_buf_putc(&got, '|');
            print_column(st, i, &got);
        }
        kva_buf_putc(&got, '\n');
    }
    if (rc != SQLITE_DONE)
        fail_msg("%s:%d: %s", file, b->line, sqlite3_errmsg(h));
    sqlite3_finalize(st);
    if (strcmp(got.data, b->want.data) != 0)
        fail_msg("%s:%d:\n--- wanted\n%s--- got\n%s", file, b->line, b->want.data,
                 got.data);
    kva_buf_release(&got);
}

static void run_block(sqlite3 *h, struct block *b, const char *file)
{
    if (strcmp(b->kind, "query") == 0) {
        run_query(h, b, file);
    } else if (strcmp(b->kind, "statement") == 0) {
        if (sqlite3_exec(h, b->sql.data, NULL, NULL, NULL) != SQLITE_OK)
            fail_msg("%s:%d: %s", file, b->line, sqlite3_errmsg(h));
    } else if (strcmp(b->kind, "error") == 0) {
        size_t n = b->want.len ? b->want.len - 1 : 0; /* without the line's end */

        if (sqlite3_exec(h, b->sql.data, NULL, NULL, NULL) == SQLITE_OK)
            fail_msg("%s:%d: was accepted", file, b->line);
        if (n == 0 || strncmp(sqlite3_errmsg(h), b->want.data, n) != 0)
            fail_msg("%s:%d: wanted %sgot %s", file, b->line, b->want.data,
                     sqlite3_errmsg(h));
    } else {
        fail_msg("%s:%d: unknown block %s", file, b->line, b->kind);
    }
    kva_buf_release(&b->sql);
    kva_buf_release(&b->want);
}

static void run_file(const char *file, int at_least)
{
    struct kva_error err = {0};
    struct kva_buf text;
    struct block b;
    struct kva_db *db;
    char dir[64], path[128];
    const char *at;
    int number = 0, blocks = 0;

    kva_buf_init(&text, 0);
    OK(kva_read_file(file, 0, &text, &err));
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
    for (at = text.data; next_block(&at, &b, &number); blocks++)
        run_block(kva_db_handle(db), &b, file);
    assert_true(blocks >= at_least);
    OK(kva_db_check(db, &err));
    kva_db_close(db);
    kva_buf_release(&text);
    remove_dir(dir);
}

static void views_show_the_six_cells(void **state)
{
    (void)state;
    run_file("tests/db/views.test", 12);
}

static void the_schema_has_its_rails(void **state)
{
    (void)state;
    run_file("tests/db/rails.test", 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_show_the_six_cells),
        cmocka_unit_test(the_schema_has_its_rails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
