/* SPDX-License-Identifier: GPL-3.0-or-later */
/* migrate.c - files of older schemas: one function per step, one transaction per step.
 *
 * A file opened for writing is copied to PATH.vN.bak, then changed in place; a step that
 * fails leaves its version and its content as they were (user_version is part of the
 * transaction). A file opened for reading is never changed: it is copied into a private
 * database, which SQLite deletes when it is closed, and the copy takes the steps.
 *
 * Views hold no data: the last step replaces them by those of this program. */
#include "db/db_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 2: outcomes say what happened on the way to them. */
static enum kva_status from_1(struct kva_db *db, struct kva_error *err)
{
    return kva_db_exec(db,
                       "ALTER TABLE outcome ADD COLUMN flags INTEGER NOT NULL DEFAULT 0 "
                       "CHECK(flags>=0)",
                       err);
}

static enum kva_status (*const STEPS[])(struct kva_db *, struct kva_error *) = {from_1};

_Static_assert(sizeof STEPS / sizeof STEPS[0] == KVA_DB_SCHEMA - 1,
               "every version needs the step to the next one");

static enum kva_status drop_views(struct kva_db *db, struct kva_error *err)
{
    for (;;) {
        sqlite3_stmt *st = NULL;
        char sql[256] = "";
        int rc = sqlite3_prepare_v2(
            db->handle,
            "SELECT format('DROP VIEW \"%w\"', name) FROM sqlite_master "
            "WHERE type='view' LIMIT 1",
            -1, &st, NULL);

        if (rc == SQLITE_OK)
            rc = sqlite3_step(st);
        if (rc == SQLITE_ROW) {
            const char *text = (const char *)sqlite3_column_text(st, 0);

            if (text)
                (void)snprintf(sql, sizeof sql, "%s", text);
            else
                rc = SQLITE_NOMEM; /* a name is never NULL */
        }
        sqlite3_finalize(st);
        if (rc == SQLITE_DONE)
            return KVA_OK;
        if (rc != SQLITE_ROW)
            return kva_db_fail(db, rc, "listing the views", err);
        KVA_TRY(kva_db_exec(db, sql, err));
    }
}

static enum kva_status step(struct kva_db *db, int from, struct kva_error *err)
{
    char sql[64];
    enum kva_status rc;

    KVA_TRY(kva_db_exec(db, "BEGIN IMMEDIATE", err));
    KVA_GO(STEPS[from - 1](db, err));
    (void)snprintf(sql, sizeof sql, "PRAGMA user_version=%d", from + 1);
    KVA_GO(kva_db_exec(db, sql, err));
    if (from + 1 == KVA_DB_SCHEMA) {
        KVA_GO(drop_views(db, err));
        KVA_GO(kva_db_exec(db, kva_db_views_text, err));
    }
    KVA_GO(kva_db_exec(db, "COMMIT", err));
out:
    if (rc != KVA_OK && !sqlite3_get_autocommit(db->handle))
        (void)sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    if (rc != KVA_OK)
        kva_context(err, "from schema version %d to %d; the file still is version %d",
                    from, from + 1, from);
    return rc;
}

static enum kva_status all_steps(struct kva_db *db, int version, struct kva_error *err)
{
    for (; version < KVA_DB_SCHEMA; version++)
        KVA_TRY(step(db, version, err));
    return KVA_OK;
}

/* ---- in place ---- */

static void sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

/* PATH.vN.bak, or PATH.vN.bak2 and so on when an earlier one is there. It appears under
 * its name only when it is whole. */
static enum kva_status back_up(struct kva_db *db, int version, char *name, size_t cap,
                               struct kva_error *err)
{
    struct kva_db_value to;
    struct kva_buf uri;
    char part[4200];
    sqlite3_stmt *st = NULL;
    enum kva_status status;
    int n = 1, rc;

    if (snprintf(part, sizeof part, "%s.v%d.bak.part", db->path, version) >=
        (int)sizeof part)
        return KVA_FAIL(err, KVA_EIO, "%s: the path is too long", db->path);
    (void)unlink(part); /* of an attempt that was killed */
    kva_buf_init(&uri, 1 << 16);
    status = kva_db_uri(part, "", &uri, err);
    to = kva_db_text(uri.data);
    rc = sqlite3_prepare_v2(db->handle, "VACUUM INTO ?", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = kva_db_bind_values(st, &to, 1);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    sqlite3_finalize(st);
    kva_buf_release(&uri);
    if (status == KVA_OK && rc != SQLITE_DONE)
        status = kva_db_fail(db, rc, "copying the file aside", err);
    if (status != KVA_OK) {
        (void)unlink(part);
        return status;
    }
    sync_file(part);
    (void)snprintf(name, cap, "%s.v%d.bak", db->path, version);
    while (access(name, F_OK) == 0)
        (void)snprintf(name, cap, "%s.v%d.bak%d", db->path, version, ++n);
    if (rename(part, name) != 0)
        return KVA_FAIL(err, KVA_EIO, "cannot rename %s to %s: %s", part, name,
                        strerror(errno));
    return KVA_OK;
}

enum kva_status kva_db_migrate(struct kva_db *db, int version, struct kva_error *err)
{
    char backup[4224];

    KVA_TRY(back_up(db, version, backup, sizeof backup, err));
    KVA_TRY(all_steps(db, version, err));
    kva_log(KVA_LOG_INFO, "%s: schema version %d became %d; the file as it was is %s",
            db->path, version, KVA_DB_SCHEMA, backup);
    return KVA_OK;
}

/* ---- for readers ---- */

enum kva_status kva_db_copy(struct kva_db *db, sqlite3 *to, const char *schema,
                            struct kva_error *err)
{
    sqlite3_backup *b = sqlite3_backup_init(to, schema, db->handle, "main");
    int rc;

    if (!b) {
        rc = sqlite3_errcode(to);
        return rc == SQLITE_NOMEM ? KVA_FAIL(err, KVA_ENOMEM, "%s: copying", db->path)
                                  : KVA_FAIL(err, KVA_EDB, "%s: cannot be copied: %s",
                                             db->path, sqlite3_errmsg(to));
    }
    (void)sqlite3_backup_step(b, -1);
    rc = sqlite3_backup_finish(b);
    if (rc == SQLITE_NOMEM)
        return KVA_FAIL(err, KVA_ENOMEM, "%s: copying: out of memory", db->path);
    if (rc != SQLITE_OK)
        return KVA_FAIL(err, rc == SQLITE_FULL || rc == SQLITE_IOERR ? KVA_EIO : KVA_EDB,
                        "%s: copying into a temporary file: %s", db->path,
                        sqlite3_errstr(rc));
    return KVA_OK;
}

enum kva_status kva_db_migrate_copy(struct kva_db *db, int version, struct kva_error *err)
{
    sqlite3 *file = db->handle, *copy = NULL;
    enum kva_status rc;
    int sq = sqlite3_open_v2(
        "", &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
        NULL);

    if (sq != SQLITE_OK) {
        (void)sqlite3_close(copy);
        return KVA_FAIL(err, sq == SQLITE_NOMEM ? KVA_ENOMEM : KVA_EIO,
                        "%s: a temporary copy: %s", db->path, sqlite3_errstr(sq));
    }
    rc = kva_db_copy(db, copy, "main", err);
    if (rc == KVA_OK) {
        db->handle = copy;
        db->migrated = true;
        copy = file;
        KVA_GO(all_steps(db, version, err));
        rc = kva_db_exec(db, "PRAGMA query_only=ON", err);
    }
out:
    (void)sqlite3_close(copy);
    return rc;
}
