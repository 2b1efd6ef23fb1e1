/* SPDX-License-Identifier: GPL-3.0-or-later */
/* db.c - opening, creating and checking a result file; statements and transactions.
 *
 * Order at open: the 100-byte header (another program's file and a newer schema are
 * refused from it, before SQLite or the lock file is involved), then under
 * flock(<path>.lock) the same two questions through SQLite, creation if the file is
 * empty or the steps from an older schema, and write-ahead logging last. The schema is
 * created with a rollback journal so that the header on disk always tells the truth.
 *
 * WAL needs memory shared by all processes using the file: network file systems are
 * refused. */
#include "db/db_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

__asm__(".pushsection .rodata\n"
        "kva_db_schema_text: .incbin \"db/schema.sql\"\n.byte 0\n"
        ".globl kva_db_views_text\n"
        "kva_db_views_text: .incbin \"db/views.sql\"\n.byte 0\n"
        ".popsection\n");
extern const char kva_db_schema_text[];

#define BUSY_MS      10000
#define HEADER_BYTES 100

static const char *const SQL[] = {
#define KVA_X(name, sql) sql,
    KVA_DB_STMT_MAP(KVA_X)
#undef KVA_X
};

enum kva_status kva_db_fail(struct kva_db *db, int sqlite_rc, const char *what,
                            struct kva_error *err)
{
    const char *words =
        db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(sqlite_rc);
    int extended = db->handle ? sqlite3_extended_errcode(db->handle) : sqlite_rc;

    switch (sqlite_rc & 0xff) {
    case SQLITE_NOMEM:
        return KVA_FAIL(err, KVA_ENOMEM, "%s: %s: out of memory", db->path, what);
    case SQLITE_FULL:
        return KVA_FAIL(err, KVA_EIO, "%s: %s: no space left (%s)", db->path, what,
                        words);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM: {
        int e = db->handle ? sqlite3_system_errno(db->handle) : 0;

        return KVA_FAIL(err, KVA_EIO, "%s: %s: %s%s%s", db->path, what, words,
                        e ? ": " : "", e ? strerror(e) : "");
    }
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return KVA_FAIL(err, KVA_EDB, "%s: %s: another process holds the file (%s)",
                        db->path, what, words);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return KVA_FAIL(err, KVA_EDAMAGED, "%s: %s: the file is damaged (%s)", db->path,
                        what, words);
    case SQLITE_CONSTRAINT:
        if (extended == SQLITE_CONSTRAINT_UNIQUE ||
            extended == SQLITE_CONSTRAINT_PRIMARYKEY)
            return KVA_FAIL(err, KVA_ECONFLICT, "%s: %s: %s", db->path, what, words);
        break;
    default:
        break;
    }
    return KVA_FAIL(err, KVA_EDB, "%s: %s: %s", db->path, what, words);
}

/* ---- statements ---- */

static int bind_value(sqlite3_stmt *st, int i, const struct kva_db_value *v)
{
    switch (v->type) {
    case KVA_DB_INT:
        return sqlite3_bind_int64(st, i, v->i);
    case KVA_DB_REAL:
        return sqlite3_bind_double(st, i, v->r);
    case KVA_DB_TEXT:
        return sqlite3_bind_text(st, i, v->p, -1, SQLITE_STATIC);
    case KVA_DB_BLOB:
        return sqlite3_bind_blob64(st, i, v->p, v->n, SQLITE_STATIC);
    case KVA_DB_NULL:
        break;
    }
    return sqlite3_bind_null(st, i);
}

int kva_db_bind_values(sqlite3_stmt *st, const struct kva_db_value *v, int n)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < n && rc == SQLITE_OK; i++)
        rc = bind_value(st, i + 1, &v[i]);
    return rc;
}

enum kva_status kva_db_bind(struct kva_db *db, enum kva_db_stmt which,
                            const struct kva_db_value *v, int n, sqlite3_stmt **st,
                            struct kva_error *err)
{
    int rc = SQLITE_OK;

    if (!db->stmt[which])
        rc = sqlite3_prepare_v3(db->handle, SQL[which], -1, SQLITE_PREPARE_PERSISTENT,
                                &db->stmt[which], NULL);
    if (rc != SQLITE_OK)
        return kva_db_fail(db, rc, SQL[which], err);
    *st = db->stmt[which];
    sqlite3_reset(*st);
    rc = kva_db_bind_values(*st, v, n);
    return rc == SQLITE_OK ? KVA_OK : kva_db_fail(db, rc, SQL[which], err);
}

/* The first words of a statement say what was being done. */
static const char *purpose(enum kva_db_stmt which, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%.*s", (int)strcspn(SQL[which], "(?="), SQL[which]);
    return out;
}

enum kva_status kva_db_run(struct kva_db *db, enum kva_db_stmt which,
                           const struct kva_db_value *v, int n, bool *found, int64_t *a,
                           struct kva_error *err)
{
    sqlite3_stmt *st;
    char what[80];
    enum kva_status status = KVA_OK;
    int rc;

    KVA_TRY(kva_db_bind(db, which, v, n, &st, err));
    rc = sqlite3_step(st);
    if (found)
        *found = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW && a)
        *a = sqlite3_column_int64(st, 0);
    if (rc ==
        SQLITE_ROW) /* RETURNING: the statement is done only when it ran to its end */
        rc = sqlite3_step(st);
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        status = kva_db_fail(db, rc, purpose(which, what, sizeof what), err);
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return status;
}

/* ---- transactions ---- */

enum kva_status kva_db_enter(struct kva_db *db, struct kva_error *err)
{
    if (!db->writable)
        return KVA_FAIL(err, KVA_EINVALID, "%s is open for reading only", db->path);
    if (!db->batch)
        db->since = kva_now_ns();
    return kva_db_run(db, db->batch ? KVA_DB_SAVE : KVA_DB_BEGIN, NULL, 0, NULL, NULL,
                      err);
}

enum kva_status kva_db_leave(struct kva_db *db, enum kva_status rc, struct kva_error *err)
{
    if (rc == KVA_OK)
        rc = kva_db_run(db, db->batch ? KVA_DB_RELEASE : KVA_DB_COMMIT, NULL, 0, NULL,
                        NULL, err);
    if (rc == KVA_OK && !db->batch) {
        db->n_commit++;
        db->commit_ns += kva_now_ns() - db->since;
    }
    if (rc == KVA_OK)
        return KVA_OK;
    /* a full disk may have rolled everything back already: then there is nothing to undo
     */
    if (sqlite3_get_autocommit(db->handle)) {
        db->batch = false;
    } else if (db->batch) {
        (void)kva_db_run(db, KVA_DB_UNDO, NULL, 0, NULL, NULL, NULL);
        (void)kva_db_run(db, KVA_DB_RELEASE, NULL, 0, NULL, NULL, NULL);
    } else {
        (void)kva_db_run(db, KVA_DB_ROLLBACK, NULL, 0, NULL, NULL, NULL);
    }
    return rc;
}

enum kva_status kva_db_begin(struct kva_db *db, struct kva_error *err)
{
    if (db->batch)
        return KVA_FAIL(err, KVA_EINVALID, "%s: a batch is already open", db->path);
    KVA_TRY(kva_db_enter(db, err));
    db->batch = true;
    return KVA_OK;
}

enum kva_status kva_db_commit(struct kva_db *db, struct kva_error *err)
{
    if (!db->batch)
        return KVA_FAIL(err, KVA_EDB, "%s: no batch is open, or it was rolled back",
                        db->path);
    db->batch = false;
    return kva_db_leave(db, KVA_OK, err);
}

void kva_db_rollback(struct kva_db *db)
{
    if (db && db->batch && !sqlite3_get_autocommit(db->handle))
        (void)kva_db_run(db, KVA_DB_ROLLBACK, NULL, 0, NULL, NULL, NULL);
    if (db)
        db->batch = false;
}

/* ---- opening ---- */

const char *kva_db_network_fs(long f_type)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } FS[] = {{0x6969, "NFS"},        {0x517b, "SMB"},        {0xff534d42, "CIFS"},
              {0xfe534d42, "SMB2"},   {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
              {0x19830326, "BeeGFS"}, {0x65735546, "FUSE"}};

    for (size_t i = 0; i < sizeof FS / sizeof FS[0]; i++)
        if ((uint32_t)f_type == FS[i].magic)
            return FS[i].name;
    return NULL;
}

int (*kva_db_statfs)(const char *path, struct statfs *out) = statfs;

static enum kva_status check_fs(const char *path, struct kva_error *err)
{
    struct statfs fs;
    char dir[4096];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    const char *name;

    if (n >= sizeof dir)
        return KVA_FAIL(err, KVA_EIO, "%s: the path is too long", path);
    memcpy(dir, path, n);
    dir[n] = '\0';
    if (kva_db_statfs(slash ? (n ? dir : "/") : ".", &fs) != 0)
        return KVA_FAIL(err, KVA_EIO, "cannot create %s: %s", path, strerror(errno));
    name = kva_db_network_fs((long)fs.f_type);
    if (name)
        return KVA_FAIL(
            err, KVA_EIO,
            "%s is on a %s file system, where several processes cannot share a "
            "database safely; use --db /local/path and `kvaudit merge` later, or "
            "--journal delete for a single process",
            path, name);
    return KVA_OK;
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static enum kva_status check_identity(const char *path, int64_t app, int64_t version,
                                      struct kva_error *err)
{
    if (app != KVA_DB_APP_ID)
        return KVA_FAIL(
            err, KVA_EDB,
            "%s is a database of another program (application id %lld); it was not "
            "touched",
            path, (long long)app);
    if (version > KVA_DB_SCHEMA)
        return KVA_FAIL(
            err, KVA_EDB,
            "%s has schema version %lld, this program knows %d: use a newer kvaudit; "
            "it was not touched",
            path, (long long)version, KVA_DB_SCHEMA);
    if (version < 1)
        return KVA_FAIL(err, KVA_EDB, "%s has no schema version; it was not touched",
                        path);
    return KVA_OK;
}

/* Reads the header without SQLite. *size: 0 when the file is missing or empty. */
static enum kva_status check_header(const char *path, bool must_exist, off_t *size,
                                    struct kva_error *err)
{
    uint8_t h[HEADER_BYTES];
    struct stat st;
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    *size = 0;
    if (fd < 0) {
        if (errno == ENOENT && !must_exist)
            return KVA_OK;
        return KVA_FAIL(err, KVA_EIO, "cannot open %s: %s", path, strerror(errno));
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return KVA_FAIL(err, KVA_EIO, "%s is not a regular file", path);
    }
    *size = st.st_size;
    got = pread(fd, h, sizeof h, 0);
    (void)close(fd);
    if (got < 0)
        return KVA_FAIL(err, KVA_EIO, "cannot read %s: %s", path, strerror(errno));
    if (st.st_size == 0)
        return must_exist ? KVA_FAIL(err, KVA_EDB, "%s is empty, not a database", path)
                          : KVA_OK;
    if ((size_t)got < sizeof h || memcmp(h, "SQLite format 3", 16) != 0)
        return KVA_FAIL(err, KVA_EDB, "%s is not an SQLite database; it was not touched",
                        path);
    if (be32(h + 68) !=
        0) /* 0: an empty database, or one of a program that never set it */
        return check_identity(path, (int64_t)(int32_t)be32(h + 68), be32(h + 60), err);
    return KVA_OK;
}

static enum kva_status lock_file(const char *path, int *fd, struct kva_error *err)
{
    char name[4200];

    if (snprintf(name, sizeof name, "%s.lock", path) >= (int)sizeof name)
        return KVA_FAIL(err, KVA_EIO, "%s: the path is too long", path);
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0)
        return KVA_FAIL(err, KVA_EIO, "cannot create %s: %s", name, strerror(errno));
    while (flock(*fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return KVA_FAIL(err, KVA_EIO, "cannot lock %s: %s", name, strerror(errno));
    return KVA_OK;
}

enum kva_status kva_db_exec(struct kva_db *db, const char *sql, struct kva_error *err)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    char what[80];

    (void)snprintf(what, sizeof what, "%.*s", (int)strcspn(sql, "(\n"), sql);
    return rc == SQLITE_OK ? KVA_OK : kva_db_fail(db, rc, what, err);
}

/* The first value of a query. */
static enum kva_status ask(struct kva_db *db, const char *sql, int64_t *out,
                           struct kva_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return rc == SQLITE_ROW ? KVA_OK : kva_db_fail(db, rc, sql, err);
}

/* *version: of the schema; 0: nothing in it and no application id, so it may be made
 * ours. */
static enum kva_status check_content(struct kva_db *db, int *version,
                                     struct kva_error *err)
{
    int64_t app, user, objects;

    KVA_TRY(ask(db, "PRAGMA application_id", &app, err));
    KVA_TRY(ask(db, "PRAGMA user_version", &user, err));
    KVA_TRY(ask(db, "SELECT count(*) FROM sqlite_master", &objects, err));
    *version = db->version = (int)user;
    if (app == 0 && objects == 0 && user == 0)
        return KVA_OK;
    return check_identity(db->path, app, user, err);
}

static enum kva_status create_schema(struct kva_db *db, struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(kva_db_exec(db, "PRAGMA journal_mode=DELETE", err));
    KVA_TRY(kva_db_exec(db, "BEGIN IMMEDIATE", err));
    rc = kva_db_exec(db, kva_db_schema_text, err);
    if (rc == KVA_OK)
        rc = kva_db_exec(db, kva_db_views_text, err);
    if (rc == KVA_OK)
        rc = kva_db_exec(
            db, "INSERT INTO meta VALUES('created_by','kvaudit " KVA_VERSION "')", err);
    if (rc == KVA_OK)
        rc = kva_db_exec(db, "COMMIT", err);
    if (rc != KVA_OK && !sqlite3_get_autocommit(db->handle))
        (void)sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

enum kva_status kva_db_uri(const char *path, const char *query, struct kva_buf *out,
                           struct kva_error *err)
{
    kva_buf_puts(out, "file:");
    for (const char *p = path; *p; p++)
        if (*p == '%' || *p == '?' || *p == '#')
            kva_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*p);
        else
            kva_buf_putc(out, *p);
    kva_buf_puts(out, query);
    return kva_buf_status(out, err);
}

static enum kva_status open_handle(struct kva_db *db, const char *query, int flags,
                                   struct kva_error *err)
{
    struct kva_buf uri;
    enum kva_status rc;
    int sq;

    kva_buf_init(&uri, 1 << 16);
    KVA_GO(kva_db_uri(db->path, query, &uri, err));
    sq = sqlite3_open_v2(uri.data, &db->handle,
                         flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    if (sq != SQLITE_OK)
        rc = kva_db_fail(db, sq, "opening", err);
    else
        sqlite3_busy_timeout(db->handle, BUSY_MS);
out:
    kva_buf_release(&uri);
    return rc;
}

const char *kva_db_read_query(const char *path)
{
    static const char *const logs[] = {"-wal", "-journal"};
    char file[PATH_MAX], name[PATH_MAX + 10];
    size_t n;

    if (!realpath(path, file)) /* its log lies where the file is, not where a link is */
        return "?mode=ro";
    n = (size_t)(strrchr(file, '/') - file) + 1;
    (void)snprintf(name, sizeof name, "%.*s", (int)n, file);
    if (access(name, W_OK) == 0)
        return "?mode=ro";
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", file, logs[i]);
        if (access(name, F_OK) == 0)
            return "?mode=ro";
    }
    return "?mode=ro&immutable=1";
}

static enum kva_status open_read(struct kva_db *db, struct kva_error *err)
{
    off_t size;
    int version;

    KVA_TRY(check_header(db->path, true, &size, err));
    KVA_TRY(open_handle(db, kva_db_read_query(db->path), SQLITE_OPEN_READONLY, err));
    KVA_TRY(check_content(db, &version, err));
    if (version == 0)
        return KVA_FAIL(err, KVA_EDB, "%s is empty, not a result file", db->path);
    return version < KVA_DB_SCHEMA ? kva_db_migrate_copy(db, version, err) : KVA_OK;
}

static enum kva_status open_write(struct kva_db *db, bool wal, struct kva_error *err)
{
    enum kva_status rc;
    off_t size;
    int lock = -1, version;

    db->made = access(db->path, F_OK) != 0;
    KVA_TRY(check_header(db->path, false, &size, err));
    if (wal)
        KVA_TRY(check_fs(db->path, err));
    if (size > 0 && access(db->path, W_OK) != 0)
        return KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", db->path, strerror(errno));
    KVA_GO(lock_file(db->path, &lock, err));
    KVA_GO(open_handle(db, "", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err));
    /* until the file is known to be ours, closing must not move its log into it */
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    KVA_GO(check_content(db, &version, err));
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    KVA_GO(kva_db_exec(db, "PRAGMA synchronous=FULL", err));
    KVA_GO(kva_db_exec(db, "PRAGMA foreign_keys=ON", err));
    if (version == 0)
        KVA_GO(create_schema(db, err));
    else if (version < KVA_DB_SCHEMA)
        KVA_GO(kva_db_migrate(db, version, err));
    KVA_GO(kva_db_exec(db, wal ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=DELETE",
                       err));
    db->writable = true;
out:
    if (lock >= 0)
        (void)close(lock);
    return rc;
}

enum kva_status kva_db_open(const char *path, enum kva_db_mode mode, struct kva_db **out,
                            struct kva_error *err)
{
    struct kva_db *db = kva_calloc(1, sizeof *db);
    enum kva_status rc;

    *out = NULL;
    if (!db || !(db->path = strdup(path))) {
        free(db);
        return KVA_FAIL(err, KVA_ENOMEM, "opening %s: out of memory", path);
    }
    if (mode == KVA_DB_WRITE || mode == KVA_DB_WRITE_DELETE)
        rc = open_write(db, mode == KVA_DB_WRITE, err);
    else
        rc = open_read(db, err);
    if (rc == KVA_OK && mode == KVA_DB_READ_COPY && !db->migrated)
        rc = kva_db_migrate_copy(db, KVA_DB_SCHEMA, err);
    if (rc != KVA_OK) {
        kva_db_close(db);
        return rc;
    }
    *out = db;
    return KVA_OK;
}

void kva_db_close(struct kva_db *db)
{
    if (!db)
        return;
    kva_db_rollback(db);
    if (db->n_commit > 0)
        kva_log(KVA_LOG_INFO, "%s: %lld commits took %.4f s", db->path,
                (long long)db->n_commit, (double)db->commit_ns / 1e9);
    for (int i = 0; i < KVA_DB_N_STMT; i++)
        sqlite3_finalize(db->stmt[i]);
    sqlite3_finalize(db->row);
    (void)sqlite3_close(db->handle);
    free(db->row_sql);
    free(db->path);
    free(db);
}

/* The first text of a query is `want`. */
static bool says(struct kva_db *db, const char *sql, const char *want)
{
    sqlite3_stmt *st = NULL;
    const char *text = NULL;
    bool same = false;

    if (sqlite3_prepare_v2(db->handle, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(st, 0);
    same = text && strcmp(text, want) == 0;
    sqlite3_finalize(st);
    return same;
}

void kva_db_drop_unused(struct kva_db *db)
{
    static const char *const beside[] = {"", "-wal", "-shm", "-journal", ".lock"};
    char path[PATH_MAX] = "", name[PATH_MAX + 16];
    int lock = -1; /* who opens the file now waits, and makes another one */

    /* out of WAL mode leads no way while another process has the file open */
    if (db && db->made && lock_file(db->path, &lock, NULL) == KVA_OK &&
        says(db, "SELECT count(*) FROM run", "0") &&
        says(db, "PRAGMA journal_mode=DELETE", "delete"))
        (void)snprintf(path, sizeof path, "%s", db->path);
    kva_db_close(db);
    for (size_t i = 0; path[0] && i < sizeof beside / sizeof beside[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, beside[i]);
        (void)unlink(name);
    }
    if (lock >= 0)
        (void)close(lock);
}

int kva_db_file_version(const struct kva_db *db)
{
    return db->version;
}

const char *kva_db_path(const struct kva_db *db)
{
    return db->path;
}

struct sqlite3 *kva_db_handle(struct kva_db *db)
{
    return db->handle;
}

/* ---- checking ---- */

enum kva_status kva_db_check(struct kva_db *db, struct kva_error *err)
{
    sqlite3_stmt *st = NULL;
    enum kva_status status = KVA_OK;
    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA integrity_check(1)", -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc != SQLITE_ROW)
        status = kva_db_fail(db, rc, "integrity_check", err);
    else if (strcmp((const char *)sqlite3_column_text(st, 0), "ok") != 0)
        status = KVA_FAIL(err, KVA_EDAMAGED, "%s is damaged: %s", db->path,
                          (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    KVA_TRY(status);
    st = NULL;
    rc = sqlite3_prepare_v2(db->handle, "PRAGMA foreign_key_check", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        status =
            KVA_FAIL(err, KVA_EDAMAGED, "%s: a row of %s refers to a missing row of %s",
                     db->path, (const char *)sqlite3_column_text(st, 0),
                     (const char *)sqlite3_column_text(st, 2));
    else if (rc != SQLITE_DONE)
        status = kva_db_fail(db, rc, "foreign_key_check", err);
    sqlite3_finalize(st);
    return status;
}

enum kva_status kva_db_checkpoint(struct kva_db *db, struct kva_error *err)
{
    int rc = sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                       NULL);

    /* a reader may hold the log: it shrinks when that reader is gone */
    if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
        return KVA_OK;
    return kva_db_fail(db, rc, "checkpoint", err);
}
