/* SPDX-License-Identifier: GPL-3.0-or-later */
/* put.c - identity rows, runs, plans, events, instrument rows.
 *
 * An identity row is looked up by its digest first, so a resumed run writes nothing.
 * Everything here commits by itself unless the caller opened a batch. */
#include "db/db_internal.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INT(x)    kva_db_int(x)
#define TEXT(x)   kva_db_text(x)
#define DIGEST(x) kva_db_blob((x), 32)

static struct kva_db_value int_or_null(int64_t x, int64_t none)
{
    return x == none ? (struct kva_db_value){.type = KVA_DB_NULL} : kva_db_int(x);
}

/* Finds the row of a digest or inserts it; `a` inserts, `f` finds. */
static enum kva_status find_or_add(struct kva_db *db, enum kva_db_stmt f,
                                   enum kva_db_stmt a, const struct kva_db_value *v,
                                   int n, int64_t *id, struct kva_error *err)
{
    bool found;
    enum kva_status rc;

    KVA_TRY(kva_db_run(db, f, v, 1, &found, id, err));
    if (found)
        return KVA_OK;
    KVA_TRY(kva_db_enter(db, err));
    KVA_GO(kva_db_run(db, a, v, n, NULL, NULL, err));
    /* another process may have won between the two statements: ask again */
    KVA_GO(kva_db_run(db, f, v, 1, &found, id, err));
    if (!found)
        rc = KVA_FAIL(err, KVA_EDB, "%s: a row just written cannot be found", db->path);
out:
    return kva_db_leave(db, rc, err);
}
#define FIND_OR_ADD(db, f, a, id, err, ...)                                              \
    find_or_add((db), (f), (a), (const struct kva_db_value[]){__VA_ARGS__},              \
                (int)(sizeof((const struct kva_db_value[]){__VA_ARGS__}) /               \
                      sizeof(struct kva_db_value)),                                      \
                (id), (err))

enum kva_status kva_db_put_env(struct kva_db *db, const struct kva_db_env *e, int64_t *id,
                               struct kva_error *err)
{
    return FIND_OR_ADD(db, KVA_DB_FIND_ENV, KVA_DB_ADD_ENV, id, err, DIGEST(e->digest),
                       DIGEST(e->perf_digest), TEXT(e->backend), TEXT(e->host),
                       TEXT(e->cpu_model), INT(e->cpu_logical), INT(e->ram_bytes),
                       TEXT(e->compiler), TEXT(e->cflags), TEXT(e->git_commit),
                       INT(e->git_dirty != 0), TEXT(e->detail_json), TEXT(e->gpu_name),
                       INT(e->gpu_count), int_or_null(e->gpu_bytes, 0), TEXT(e->driver),
                       TEXT(e->cuda_runtime));
}

enum kva_status kva_db_put_model(struct kva_db *db, const struct kva_db_model *m,
                                 int64_t *id, struct kva_error *err)
{
    return FIND_OR_ADD(
        db, KVA_DB_FIND_MODEL, KVA_DB_ADD_MODEL, id, err, DIGEST(m->digest),
        TEXT(m->name), TEXT(m->arch), TEXT(m->wtype), INT(m->file_bytes), INT(m->n_layer),
        INT(m->n_head), INT(m->n_kv_head), INT(m->d_k), INT(m->d_v), INT(m->n_ctx_train),
        DIGEST(m->tokenizer_sha256), DIGEST(m->template_sha256), TEXT(m->detail_json));
}

enum kva_status kva_db_put_method(struct kva_db *db, const struct kva_db_method *m,
                                  int64_t *id, struct kva_error *err)
{
    return FIND_OR_ADD(db, KVA_DB_FIND_METHOD, KVA_DB_ADD_METHOD, id, err,
                       DIGEST(m->digest), TEXT(m->name), INT(m->impl_version),
                       INT(m->oracle != 0), TEXT(m->params_json));
}

/* The metric is no part of the digest. Scores of two metrics in one column would be
 * averaged, so a file that holds the other one is refused until it is rescored. */
static enum kva_status same_metric(struct kva_db *db, const struct kva_db_task *t,
                                   struct kva_error *err)
{
    struct kva_db_value key = DIGEST(t->digest);
    sqlite3_stmt *st;
    enum kva_status rc = KVA_OK;
    const char *metric;

    KVA_TRY(kva_db_bind(db, KVA_DB_FIND_TASK, &key, 1, &st, err));
    if (sqlite3_step(st) == SQLITE_ROW) {
        metric = (const char *)sqlite3_column_text(st, 1);
        if (strcmp(metric, t->metric) != 0 ||
            sqlite3_column_int(st, 2) != t->metric_version)
            rc = KVA_FAIL(
                err, KVA_ECONFLICT,
                "%s: task %s/%s was scored with %s version %d, this program has %s "
                "version %d: bring the file up to date with `kvaudit run --rescore`",
                db->path, t->suite, t->name, metric, sqlite3_column_int(st, 2), t->metric,
                t->metric_version);
    }
    sqlite3_reset(st);
    return rc;
}

enum kva_status kva_db_put_task(struct kva_db *db, const struct kva_db_task *t,
                                int64_t *id, struct kva_error *err)
{
    KVA_TRY(FIND_OR_ADD(
        db, KVA_DB_FIND_TASK, KVA_DB_ADD_TASK, id, err, DIGEST(t->digest), TEXT(t->suite),
        TEXT(t->name), TEXT(t->domain), int_or_null(t->ctx_target, 0),
        int_or_null(t->n_available, -1), TEXT(t->metric), INT(t->metric_version),
        TEXT(t->binary ? "binary" : "fraction"), kva_db_real(t->guess_floor),
        TEXT(t->gen_json), TEXT(t->source_json)));
    return same_metric(db, t, err);
}

enum kva_status kva_db_put_sample(struct kva_db *db, const struct kva_db_sample *s,
                                  int64_t *id, struct kva_error *err)
{
    enum kva_status rc =
        FIND_OR_ADD(db, KVA_DB_FIND_SAMPLE, KVA_DB_ADD_SAMPLE, id, err, DIGEST(s->digest),
                    INT(s->task_id), INT(s->idx), TEXT(s->cluster ? s->cluster : ""),
                    TEXT(s->refs_json), TEXT(s->meta_json));

    if (rc == KVA_ECONFLICT)
        kva_context(err, "sample %d differs from the one stored for this task", s->idx);
    return rc;
}

enum kva_status kva_db_put_cell(struct kva_db *db, const struct kva_db_cell *c,
                                int64_t *id, struct kva_error *err)
{
    return FIND_OR_ADD(db, KVA_DB_FIND_CELL, KVA_DB_ADD_CELL, id, err, DIGEST(c->digest),
                       DIGEST(c->dense_key), TEXT(c->slug), INT(c->model_id),
                       INT(c->method_id), INT(c->task_id), TEXT(c->budget_kind),
                       kva_db_real(c->budget), TEXT(c->schedule), TEXT(c->enforce),
                       TEXT(c->visibility), TEXT(c->numerics), TEXT(c->kv),
                       TEXT(c->spec_json));
}

/* ---- runs ---- */

static void boot_id(char *out, size_t cap)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (!f || !fgets(out, (int)cap, f))
        (void)snprintf(out, cap, "unknown");
    if (f)
        (void)fclose(f);
    out[strcspn(out, "\n")] = '\0';
}

/* Field 22 of /proc/PID/stat (clock ticks after boot), -1 when there is no such process.
 * The second field may contain blanks and brackets: count from the last ')'. */
static int64_t process_start(int64_t pid)
{
    char path[64], text[1024], *p;
    size_t n;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    f = fopen(path, "re");
    if (!f)
        return -1;
    n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoll(p + 1, NULL, 10) : -1;
}

/* Is this `running` row a process that no longer exists? Rows of other hosts are left
 * alone. */
static bool is_dead(sqlite3_stmt *row, const char *host, const char *boot)
{
    if (strcmp((const char *)sqlite3_column_text(row, 3), boot) != 0)
        return strcmp((const char *)sqlite3_column_text(row, 4), host) == 0;
    return process_start(sqlite3_column_int64(row, 1)) != sqlite3_column_int64(row, 2);
}

static enum kva_status bury_dead(struct kva_db *db, const char *host, const char *boot,
                                 struct kva_error *err)
{
    enum { MAX_AT_ONCE = 256 };
    int64_t dead[MAX_AT_ONCE];
    int n;

    do {
        sqlite3_stmt *st;

        int sq = SQLITE_ROW;

        n = 0;
        KVA_TRY(kva_db_bind(db, KVA_DB_RUNNING, NULL, 0, &st, err));
        while (n < MAX_AT_ONCE && (sq = sqlite3_step(st)) == SQLITE_ROW)
            if (is_dead(st, host, boot))
                dead[n++] = sqlite3_column_int64(st, 0);
        sqlite3_reset(st);
        if (sq != SQLITE_ROW && sq != SQLITE_DONE)
            return kva_db_fail(db, sq, "run", err);
        for (int i = 0; i < n; i++)
            KVA_TRY(KVA_DB_RUN(db, KVA_DB_END_RUN, NULL, NULL, err, TEXT("killed"),
                               int_or_null(0, 0), INT(kva_wall_ms()), INT(dead[i])));
    } while (n == MAX_AT_ONCE);
    return KVA_OK;
}

static enum kva_status host_of_env(struct kva_db *db, int64_t env_id, char *host,
                                   size_t cap, struct kva_error *err)
{
    struct kva_db_value key = INT(env_id);
    sqlite3_stmt *st;

    KVA_TRY(kva_db_bind(db, KVA_DB_HOST_OF_ENV, &key, 1, &st, err));
    host[0] = '\0';
    if (sqlite3_step(st) == SQLITE_ROW)
        (void)snprintf(host, cap, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_reset(st);
    return KVA_OK;
}

enum kva_status kva_db_start_run(struct kva_db *db, const struct kva_db_run *r,
                                 int64_t *id, struct kva_error *err)
{
    char boot[64], host[256];
    enum kva_status rc;

    boot_id(boot, sizeof boot);
    KVA_TRY(kva_db_enter(db, err));
    KVA_GO(host_of_env(db, r->env_id, host, sizeof host, err));
    KVA_GO(bury_dead(db, host, boot, err));
    KVA_GO(KVA_DB_RUN(
        db, KVA_DB_ADD_RUN, NULL, NULL, err, TEXT(r->uuid), INT(r->env_id),
        INT(r->started_ms), INT(r->shard_i), INT(r->shard_n > 0 ? r->shard_n : 1),
        INT(getpid()), INT(process_start(getpid())), TEXT(boot), TEXT(r->label),
        TEXT(r->argv_json), TEXT(r->config_json), DIGEST(r->config_sha256)));
    *id = sqlite3_last_insert_rowid(db->handle);
out:
    return kva_db_leave(db, rc, err);
}

enum kva_status kva_db_running(struct kva_db *db, int64_t run_id, int *n, int64_t *pid,
                               struct kva_error *err)
{
    sqlite3_stmt *st;
    int sq;

    *n = 0;
    *pid = 0;
    KVA_TRY(kva_db_bind(db, KVA_DB_RUNNING, NULL, 0, &st, err));
    while ((sq = sqlite3_step(st)) == SQLITE_ROW)
        if (sqlite3_column_int64(st, 0) != run_id) {
            *pid = sqlite3_column_int64(st, 1);
            ++*n;
        }
    sqlite3_reset(st);
    return sq == SQLITE_DONE ? KVA_OK : kva_db_fail(db, sq, "run", err);
}

enum kva_status kva_db_end_run(struct kva_db *db, int64_t run_id, const char *status,
                               int exit_code, struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(kva_db_enter(db, err));
    rc = KVA_DB_RUN(db, KVA_DB_END_RUN, NULL, NULL, err, TEXT(status), INT(exit_code),
                    INT(kva_wall_ms()), INT(run_id));
    if (rc == KVA_OK && sqlite3_changes(db->handle) != 1)
        rc = KVA_FAIL(err, KVA_EDB, "%s: there is no run %lld", db->path,
                      (long long)run_id);
    return kva_db_leave(db, rc, err);
}

enum kva_status kva_db_note_env(struct kva_db *db, int64_t run_id, const char *json,
                                struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(kva_db_enter(db, err));
    rc = KVA_DB_RUN(db, KVA_DB_NOTE_ENV, NULL, NULL, err, TEXT(json), INT(run_id));
    return kva_db_leave(db, rc, err);
}

enum kva_status kva_db_put_plan(struct kva_db *db, int64_t run_id, int64_t cell_id,
                                int n_sample, int n_rep, struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(kva_db_enter(db, err));
    rc = KVA_DB_RUN(db, KVA_DB_PUT_PLAN, NULL, NULL, err, INT(run_id), INT(cell_id),
                    INT(n_sample), INT(n_rep));
    return kva_db_leave(db, rc, err);
}

enum kva_status kva_db_event(struct kva_db *db, int64_t run_id, const char *level,
                             const char *msg, struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(kva_db_enter(db, err));
    rc = KVA_DB_RUN(db, KVA_DB_EVENT, NULL, NULL, err, int_or_null(run_id, 0),
                    INT(kva_wall_ms()), TEXT(level), TEXT(msg));
    return kva_db_leave(db, rc, err);
}

enum kva_status kva_db_put_unit_time(struct kva_db *db, int64_t run_id, int64_t model_id,
                                     int64_t task_id, int idx, int n_cells, int n_ctx,
                                     int n_rows, int64_t ns, struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(kva_db_enter(db, err));
    rc = KVA_DB_RUN(db, KVA_DB_UNIT_TIME, NULL, NULL, err, INT(run_id), INT(model_id),
                    INT(task_id), INT(idx), INT(n_cells), INT(n_ctx), INT(n_rows),
                    INT(ns));
    return kva_db_leave(db, rc, err);
}

/* ---- rescoring ---- */

static enum kva_status put_score(struct kva_db *db, const char *metric, int version,
                                 const struct kva_db_rescored *r, struct kva_error *err)
{
    return KVA_DB_RUN(db, KVA_DB_SCORE, NULL, NULL, err, INT(r->outcome_id), TEXT(metric),
                      INT(version), kva_db_real(r->value), TEXT(r->extracted));
}

enum kva_status kva_db_put_scores(struct kva_db *db, const char *metric, int version,
                                  const struct kva_db_rescored *r, int n,
                                  struct kva_error *err)
{
    enum kva_status rc = KVA_OK;

    KVA_TRY(kva_db_enter(db, err));
    for (int i = 0; i < n && rc == KVA_OK; i++)
        rc = put_score(db, metric, version, &r[i], err);
    return kva_db_leave(db, rc, err);
}

enum kva_status kva_db_rescore(struct kva_db *db, int64_t task_id, const char *metric,
                               int version, bool binary, const struct kva_db_rescored *r,
                               int n, struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(kva_db_enter(db, err));
    KVA_GO(KVA_DB_RUN(db, KVA_DB_TASK_METRIC, NULL, NULL, err, TEXT(metric), INT(version),
                      TEXT(binary ? "binary" : "fraction"), INT(task_id)));
    for (int i = 0; i < n; i++) {
        KVA_GO(KVA_DB_RUN(db, KVA_DB_RESCORE, NULL, NULL, err, kva_db_real(r[i].value),
                          INT(r[i].outcome_id)));
        if (sqlite3_changes(db->handle) != 1) {
            rc = KVA_FAIL(err, KVA_EDB, "%s: outcome %lld has no score to replace",
                          db->path, (long long)r[i].outcome_id);
            goto out;
        }
        KVA_GO(put_score(db, metric, version, &r[i], err));
    }
out:
    return kva_db_leave(db, rc, err);
}

/* ---- instruments ---- */

static bool is_plain(const char *s, bool comma)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_' && !(comma && *s == ','))
            return false;
    return true;
}

static enum kva_status row_statement(struct kva_db *db, const char *table,
                                     const char *columns, int n, struct kva_error *err)
{
    struct kva_buf sql;
    int rc;

    kva_buf_init(&sql, 1 << 16);
    kva_buf_printf(&sql, "INSERT OR REPLACE INTO %s(%s) VALUES(", table, columns);
    for (int i = 0; i < n; i++)
        kva_buf_puts(&sql, i ? ",?" : "?");
    kva_buf_putc(&sql, ')');
    if (kva_buf_status(&sql, err) != KVA_OK) {
        kva_buf_release(&sql);
        return KVA_ENOMEM;
    }
    if (db->row_sql && strcmp(db->row_sql, sql.data) == 0) {
        kva_buf_release(&sql);
        return KVA_OK;
    }
    sqlite3_finalize(db->row);
    free(db->row_sql);
    db->row = NULL;
    db->row_sql = sql.data; /* the buffer's memory changes hands */
    rc = sqlite3_prepare_v3(db->handle, db->row_sql, -1, SQLITE_PREPARE_PERSISTENT,
                            &db->row, NULL);
    if (rc != SQLITE_OK) {
        free(db->row_sql);
        db->row_sql = NULL;
        return kva_db_fail(db, rc, table, err);
    }
    return KVA_OK;
}

enum kva_status kva_db_put_row(struct kva_db *db, const char *table, const char *columns,
                               const struct kva_db_value *v, int n, int64_t *id,
                               struct kva_error *err)
{
    enum kva_status rc;
    int sq;

    if ((strncmp(table, "an_", 3) != 0 && strcmp(table, "perf_rep") != 0) ||
        !is_plain(table, false) || !is_plain(columns, true))
        return KVA_FAIL(err, KVA_EINVALID, "%s(%s) is not an instrument's table", table,
                        columns);
    KVA_TRY(kva_db_enter(db, err));
    KVA_GO(row_statement(db, table, columns, n, err));
    sq = kva_db_bind_values(db->row, v, n);
    if (sq == SQLITE_OK)
        sq = sqlite3_step(db->row);
    if (sq != SQLITE_DONE)
        rc = kva_db_fail(db, sq, table, err);
    else if (id)
        *id = sqlite3_last_insert_rowid(db->handle);
    sqlite3_reset(db->row);
    sqlite3_clear_bindings(db->row);
out:
    return kva_db_leave(db, rc, err);
}
