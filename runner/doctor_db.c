/* SPDX-License-Identifier: GPL-3.0-or-later */
/* doctor_db.c - a result file examined.
 *
 * SQLite keeps no checksums: its integrity check finds broken pages, not flipped bits
 * inside a value. The SHA-256 of every answer's tokens does. */
#include "runner/doctor_db.h"

#include "db/db.h"
#include "runner/commands.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct exam {
    struct kva_db *db;
    sqlite3 *h;
    json_t *list; /* NULL: text */
    struct kva_buf out;
    int n_broken;
};

enum mark { FINE, TOLD, BROKEN };

static void tell(struct exam *x, enum mark mark, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void tell(struct exam *x, enum mark mark, const char *what, const char *fmt, ...)
{
    static const char *const WORD[] = {"ok", "info", "BROKEN"};
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    x->n_broken += mark == BROKEN;
    if (x->list)
        json_array_append_new(x->list, json_pack("{s:s, s:b, s:s}", "what", what, "ok",
                                                 mark != BROKEN, "text", text));
    else
        kva_buf_printf(&x->out, "  %-7s %-12s %s\n", WORD[mark], what, text);
}

/* Calls `row` for each result row; a failing query is a finding. Returns the number of
 * rows. */
static int each(struct exam *x, const char *what, const char *sql, int most,
                void (*row)(struct exam *, const char *, sqlite3_stmt *))
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(x->h, sql, -1, &st, NULL), n = 0;

    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(st);
        if (rc == SQLITE_ROW && n++ < most)
            row(x, what, st);
    }
    if (rc != SQLITE_DONE)
        tell(x, BROKEN, what, "%s", sqlite3_errmsg(x->h));
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? n : -1;
}

static int64_t number(struct exam *x, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = -1;

    if (sqlite3_prepare_v2(x->h, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

static void row_integrity(struct exam *x, const char *what, sqlite3_stmt *st)
{
    const char *text = (const char *)sqlite3_column_text(st, 0);

    tell(x, text && strcmp(text, "ok") == 0 ? FINE : BROKEN, what, "%s",
         text ? text : "no answer");
}

static void row_reference(struct exam *x, const char *what, sqlite3_stmt *st)
{
    tell(x, BROKEN, what, "row %lld of %s refers to a missing row of %s",
         (long long)sqlite3_column_int64(st, 1), (const char *)sqlite3_column_text(st, 0),
         (const char *)sqlite3_column_text(st, 2));
}

static void row_count(struct exam *x, const char *what, sqlite3_stmt *st)
{
    tell(x, TOLD, what, "%lld %s", (long long)sqlite3_column_int64(st, 1),
         (const char *)sqlite3_column_text(st, 0));
}

/* Answers whose digest disagrees. Without token ids the text was digested, before invalid
 * bytes were replaced: then only a valid one can be checked. */
static void check_answers(struct exam *x)
{
    sqlite3_stmt *st = NULL;
    int64_t n = 0, bad = 0, first = 0, silent = 0;
    int rc = sqlite3_prepare_v2(
        x->h,
        "SELECT outcome_id, gen_sha256, text, token_ids FROM outcome LEFT JOIN "
        "generation USING(outcome_id) WHERE status='ok'",
        -1, &st, NULL);

    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        uint8_t sha[32];
        int col;

        if ((rc = sqlite3_step(st)) != SQLITE_ROW)
            break;
        col = sqlite3_column_type(st, 3) == SQLITE_NULL ? 2 : 3;
        if (sqlite3_column_type(st, col) == SQLITE_NULL) {
            silent++;
            continue;
        }
        kva_sha256_of(sqlite3_column_blob(st, col), (size_t)sqlite3_column_bytes(st, col),
                      sha);
        n++;
        if ((sqlite3_column_bytes(st, 1) != 32 ||
             memcmp(sha, sqlite3_column_blob(st, 1), 32) != 0) &&
            (col == 3 ||
             !strstr((const char *)sqlite3_column_text(st, 2), "\xef\xbf\xbd"))) {
            bad++;
            first = first ? first : sqlite3_column_int64(st, 0);
        }
    }
    if (rc != SQLITE_DONE)
        tell(x, BROKEN, "answers", "%s", sqlite3_errmsg(x->h));
    else if (bad)
        tell(x, BROKEN, "answers",
             "%" PRId64 " of %" PRId64 " differ from their digest, outcome %" PRId64
             " first",
             bad, n, first);
    else
        tell(x, FINE, "answers", "%" PRId64 " agree with their digest", n);
    if (silent)
        tell(x, TOLD, "answers", "%" PRId64 " finished outcomes have no text", silent);
    sqlite3_finalize(st);
}

static void file_facts(struct exam *x, const char *path)
{
    struct stat st, wal;
    char name[4200];
    int version = kva_db_file_version(x->db);

    (void)snprintf(name, sizeof name, "%s-wal", path);
    tell(x, FINE, "identity", "application id %d (KVAT), schema version %d%s",
         KVA_DB_APP_ID, version,
         version < KVA_DB_SCHEMA ? ", read through a copy brought up to date" : "");
    tell(x, TOLD, "size",
         "%lld bytes, %" PRId64 " pages of %" PRId64 ", %" PRId64 " free",
         stat(path, &st) == 0 ? (long long)st.st_size : -1LL,
         number(x, "PRAGMA page_count"), number(x, "PRAGMA page_size"),
         number(x, "PRAGMA freelist_count"));
    if (stat(name, &wal) == 0)
        tell(x, TOLD, "log", "write-ahead log of %lld bytes beside it",
             (long long)wal.st_size);
    else
        tell(x, TOLD, "log", "no write-ahead log beside it");
}

static void examine(struct exam *x, const char *path)
{
    int n;

    file_facts(x, path);
    (void)each(x, "pages", "PRAGMA integrity_check(20)", 20, row_integrity);
    n = each(x, "references", "PRAGMA foreign_key_check", 20, row_reference);
    if (n == 0)
        tell(x, FINE, "references", "no row refers to a missing one");
    else if (n > 20)
        tell(x, BROKEN, "references", "and %d more", n - 20);
    check_answers(x);
    (void)each(x, "runs", "SELECT status, count(*) FROM run GROUP BY status", 9,
               row_count);
    (void)each(x, "outcomes", "SELECT status, count(*) FROM outcome GROUP BY status", 9,
               row_count);
    n = (int)number(x, "SELECT count(*) FROM merge_conflict");
    if (n > 0)
        tell(x, TOLD, "conflicts", "%d noted by merges", n);
    n = (int)number(x, "SELECT count(*) FROM sample WHERE sample_id NOT IN(SELECT "
                       "sample_id FROM outcome)");
    if (n > 0)
        tell(x, TOLD, "orphans", "%d samples without an outcome", n);
    n = (int)number(x, "SELECT count(*) FROM cell WHERE cell_id NOT IN(SELECT cell_id "
                       "FROM plan) AND cell_id NOT IN(SELECT cell_id FROM outcome)");
    if (n > 0)
        tell(x, TOLD, "orphans", "%d cells without plan or outcome", n);
}

static enum kva_status print(struct exam *x, const char *path, struct kva_error *err)
{
    char *text = NULL;
    enum kva_status rc;

    if (x->list) {
        json_t *o = json_pack("{s:s, s:s, s:b, s:O}", "schema", "kvaudit.doctor_db/1",
                              "file", path, "ok", x->n_broken == 0, "findings", x->list);

        text = o ? json_dumps(o, JSON_COMPACT) : NULL;
        json_decref(o);
        if (!text)
            return KVA_FAIL(err, KVA_ENOMEM, "the findings: out of memory");
        kva_buf_puts(&x->out, text);
        kva_buf_putc(&x->out, '\n');
        free(text);
    }
    rc = kva_buf_status(&x->out, err);
    return rc == KVA_OK ? kva_command_out(x->out.data, x->out.len, err) : rc;
}

enum kva_status kva_doctor_db(const char *path, bool json, struct kva_error *err)
{
    struct exam x = {0};
    enum kva_status rc;

    /* what is too broken to be copied is examined in place */
    if (kva_db_open(path, KVA_DB_READ_COPY, &x.db, NULL) != KVA_OK)
        KVA_TRY(kva_db_open(path, KVA_DB_READ, &x.db, err));
    x.h = kva_db_handle(x.db);
    kva_buf_init(&x.out, 0);
    if (json && !(x.list = json_array())) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "the findings: out of memory");
        goto out;
    }
    if (!json)
        kva_buf_printf(&x.out, "%s\n", path);
    examine(&x, path);
    rc = print(&x, path, err);
    if (rc == KVA_OK && x.n_broken)
        rc = KVA_FAIL(err, KVA_EDAMAGED,
                      "%s is damaged: keep a copy; what can be read may be saved with "
                      "sqlite3's .recover",
                      path);
out:
    json_decref(x.list);
    kva_buf_release(&x.out);
    kva_db_close(x.db);
    return rc;
}
