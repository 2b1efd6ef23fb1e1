/* SPDX-License-Identifier: GPL-3.0-or-later */
/* perf_rep.c - how often a cell was timed. */
#include "db/db_internal.h"

enum kva_status kva_db_perf_reps(struct kva_db *db, const uint8_t cell[32], int *n,
                                 struct kva_error *err)
{
    static const char sql[] =
        "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM perf_rep "
        "JOIN cell USING(cell_id) WHERE digest=?1 AND phase='total' GROUP BY run_id)";
    sqlite3_stmt *st = NULL;
    enum kva_status rc = KVA_OK;

    *n = 0;
    if (sqlite3_prepare_v2(db->handle, sql, -1, &st, NULL) != SQLITE_OK)
        return KVA_FAIL(err, KVA_EDB, "reading repetitions: %s",
                        sqlite3_errmsg(db->handle));
    sqlite3_bind_blob(st, 1, cell, 32, SQLITE_STATIC);
    if (sqlite3_step(st) == SQLITE_ROW)
        *n = sqlite3_column_int(st, 0);
    else
        rc =
            KVA_FAIL(err, KVA_EDB, "reading repetitions: %s", sqlite3_errmsg(db->handle));
    sqlite3_finalize(st);
    return rc;
}
