/* SPDX-License-Identifier: GPL-3.0-or-later */
/* unit_rate.c - how long units took, for the estimate of a dry run and the first ETA. */
#include "db/db_internal.h"

enum kva_status kva_db_unit_rate(struct kva_db *db, const uint8_t model[32],
                                 const uint8_t *task, double *ns, struct kva_error *err)
{
    static const char *const by_task =
        "SELECT sum(ns), sum(CAST(n_cells AS REAL)) FROM unit_time JOIN model "
        "USING(model_id) "
        "JOIN task USING(task_id) WHERE model.digest=?1 AND task.digest=?2 AND n_cells>0";
    static const char *const by_model =
        "SELECT sum(ns), sum(n_cells*n_ctx*(1+n_ctx/32768.0)) FROM unit_time "
        "JOIN model USING(model_id) WHERE model.digest=?1 AND n_cells>0";
    sqlite3 *handle = db->handle;
    sqlite3_stmt *st = NULL;
    enum kva_status rc = KVA_OK;

    *ns = -1;
    if (sqlite3_prepare_v2(handle, task ? by_task : by_model, -1, &st, NULL) != SQLITE_OK)
        return KVA_FAIL(err, KVA_EDB, "reading unit times: %s", sqlite3_errmsg(handle));
    sqlite3_bind_blob(st, 1, model, 32, SQLITE_STATIC);
    if (task)
        sqlite3_bind_blob(st, 2, task, 32, SQLITE_STATIC);
    if (sqlite3_step(st) != SQLITE_ROW)
        rc = KVA_FAIL(err, KVA_EDB, "reading unit times: %s", sqlite3_errmsg(handle));
    else if (sqlite3_column_type(st, 0) != SQLITE_NULL &&
             sqlite3_column_double(st, 1) > 0)
        *ns = sqlite3_column_double(st, 0) / sqlite3_column_double(st, 1);
    sqlite3_finalize(st);
    return rc;
}
