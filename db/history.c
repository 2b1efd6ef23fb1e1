/* SPDX-License-Identifier: GPL-3.0-or-later */
/* history.c - what earlier runs tell a plan: repetitions, times, sizes, differences. */
#include "db/db_internal.h"

#include <stdlib.h>

static enum kva_status prepare(struct kva_db *db, const char *sql, sqlite3_stmt **st,
                               struct kva_error *err)
{
    if (sqlite3_prepare_v2(db->handle, sql, -1, st, NULL) == SQLITE_OK)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EDB, "looking at earlier runs: %s",
                    sqlite3_errmsg(db->handle));
}

/* The statement's one row. */
static enum kva_status one_row(struct kva_db *db, sqlite3_stmt *st, struct kva_error *err)
{
    if (sqlite3_step(st) == SQLITE_ROW)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EDB, "looking at earlier runs: %s",
                    sqlite3_errmsg(db->handle));
}

enum kva_status kva_db_times(struct kva_db *db, const uint8_t model[32],
                             const uint8_t perf_digest[32], bool alone,
                             struct kva_db_time **rows, size_t *n, struct kva_error *err)
{
    static const char units[] =
        "SELECT u.n_ctx, u.n_rows - u.n_ctx, u.ns FROM unit_time u "
        "JOIN model m USING(model_id) JOIN run USING(run_id) JOIN env e USING(env_id) "
        "WHERE m.digest=?1 AND e.perf_digest=?2 AND u.n_ctx>0 AND u.n_rows>=u.n_ctx";
    static const char cells[] =
        "SELECT o.n_ctx + o.n_question, o.n_gen, t.ttft_ns + coalesce(t.decode_ns, 0) "
        "FROM timing t JOIN outcome o USING(outcome_id) JOIN cell c USING(cell_id) "
        "JOIN model m USING(model_id) JOIN run USING(run_id) JOIN env e USING(env_id) "
        "WHERE m.digest=?1 AND e.perf_digest=?2 AND t.exec='alone' "
        "AND t.ttft_ns IS NOT NULL";
    sqlite3_stmt *st = NULL;
    size_t cap = 0;
    int step;
    enum kva_status rc = KVA_OK;

    *rows = NULL;
    *n = 0;
    KVA_TRY(prepare(db, alone ? cells : units, &st, err));
    sqlite3_bind_blob(st, 1, model, 32, SQLITE_STATIC);
    sqlite3_bind_blob(st, 2, perf_digest, 32, SQLITE_STATIC);
    while ((step = sqlite3_step(st)) == SQLITE_ROW) {
        if (*n == cap) {
            struct kva_db_time *grown;

            cap = cap > 0 ? 2 * cap : 256;
            grown = kva_realloc(*rows, cap, sizeof *grown);
            if (grown == NULL) {
                rc = KVA_FAIL(err, KVA_ENOMEM, "%zu times", cap);
                goto out;
            }
            *rows = grown;
        }
        (*rows)[(*n)++] = (struct kva_db_time){sqlite3_column_double(st, 0),
                                               sqlite3_column_double(st, 1),
                                               sqlite3_column_double(st, 2)};
    }
    if (step != SQLITE_DONE)
        rc = KVA_FAIL(err, KVA_EDB, "looking at earlier runs: %s",
                      sqlite3_errmsg(db->handle));
out:
    sqlite3_finalize(st);
    if (rc != KVA_OK) {
        free(*rows);
        *rows = NULL;
        *n = 0;
    }
    return rc;
}

enum kva_status kva_db_discordant(struct kva_db *db, const uint8_t model[32],
                                  const uint8_t task[32], int64_t *pairs, int64_t *differ,
                                  struct kva_error *err)
{
    /* repetitions and draws of a sample are no further pairs */
    static const char sql[] =
        "SELECT count(*), coalesce(sum(a.score <> b.score), 0) FROM cell x "
        "JOIN model m USING(model_id) JOIN task t USING(task_id) "
        "JOIN cell y ON y.dense_key = x.dense_key AND y.enforce = 'dense' "
        "JOIN method d ON d.method_id = y.method_id AND d.name = 'dense' "
        "JOIN outcome a ON a.cell_id = x.cell_id AND a.status = 'ok' "
        "JOIN outcome b ON b.cell_id = y.cell_id AND b.sample_id = a.sample_id "
        "AND b.rep = a.rep AND b.status = 'ok' "
        "WHERE m.digest=?1 AND t.digest=?2 AND x.enforce <> 'dense' AND a.rep = 0";
    sqlite3_stmt *st = NULL;
    enum kva_status rc;

    *pairs = *differ = 0;
    KVA_TRY(prepare(db, sql, &st, err));
    sqlite3_bind_blob(st, 1, model, 32, SQLITE_STATIC);
    sqlite3_bind_blob(st, 2, task, 32, SQLITE_STATIC);
    rc = one_row(db, st, err);
    if (rc == KVA_OK) {
        *pairs = sqlite3_column_int64(st, 0);
        *differ = sqlite3_column_int64(st, 1);
    }
    sqlite3_finalize(st);
    return rc;
}

enum kva_status kva_db_bytes_per_outcome(struct kva_db *db, double *bytes,
                                         struct kva_error *err)
{
    static const char sql[] =
        "SELECT CAST(c.page_count AS REAL) * s.page_size, (SELECT count(*) FROM outcome) "
        "FROM pragma_page_count c, pragma_page_size s";
    sqlite3_stmt *st = NULL;
    enum kva_status rc;

    *bytes = -1;
    KVA_TRY(prepare(db, sql, &st, err));
    rc = one_row(db, st, err);
    if (rc == KVA_OK && sqlite3_column_int64(st, 1) >= 100)
        *bytes = sqlite3_column_double(st, 0) / sqlite3_column_double(st, 1);
    sqlite3_finalize(st);
    return rc;
}

enum kva_status kva_db_perf_reps(struct kva_db *db, const uint8_t cell[32], int *n,
                                 struct kva_error *err)
{
    static const char sql[] =
        "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM perf_rep "
        "JOIN cell USING(cell_id) WHERE digest=?1 AND phase='total' GROUP BY run_id)";
    sqlite3_stmt *st = NULL;
    enum kva_status rc;

    *n = 0;
    KVA_TRY(prepare(db, sql, &st, err));
    sqlite3_bind_blob(st, 1, cell, 32, SQLITE_STATIC);
    rc = one_row(db, st, err);
    if (rc == KVA_OK)
        *n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    return rc;
}
