/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_merge.c - `kvaudit merge OUT IN...`: the files of several machines become one.
 *
 * Each input is one transaction (db/merge.c). An input in conflict adds nothing and ends
 * with exit code 4, the others are merged all the same. */
#include "db/db.h"
#include "runner/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *on_conflict, *journal;
} opt = {"error", "wal"};

const struct kva_opt *kva_cmd_merge_options(void)
{
    static const struct kva_opt table[] = {
        {"on-conflict", 0, KVA_OPT_STR, &opt.on_conflict, "error|keep|as-rep",
         "outcomes that differ: refuse the input (default), keep what OUT holds, or add "
         "them as another repetition",
         0, 0},
        {"journal", 0, KVA_OPT_STR, &opt.journal, "wal|delete",
         "delete: for one process alone on a network file system", 0, 0},
        {0},
    };

    return table;
}

static const char *const HOW[] = {"error", "keep", "as-rep"};

static int how_of(const char *text)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(text, HOW[i]) == 0)
            return i;
    return -1;
}

/* ---- what came in ---- */

static void say_input(const char *path, const struct kva_db_merged *m, json_t *list)
{
    if (list) {
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "file", path, "outcomes",
                            (json_int_t)m->n, "new", (json_int_t)m->n_new, "better",
                            (json_int_t)m->n_better, "known", (json_int_t)m->n_known,
                            "conflicts", (json_int_t)m->n_conflict));
        return;
    }
    if (kva_common.quiet)
        return;
    printf("%s: %" PRId64 " outcomes, %" PRId64 " new, %" PRId64 " known", path, m->n,
           m->n_new, m->n_known);
    if (m->n_better)
        printf(", %" PRId64 " in the place of failures", m->n_better);
    if (m->n_conflict)
        printf(", %" PRId64 " in conflict", m->n_conflict);
    putchar('\n');
}

/* Every missing input is named before anything is written. */
static enum kva_status all_there(int n, char **path, struct kva_error *err)
{
    for (int i = 0; i < n; i++)
        if (access(path[i], R_OK) != 0)
            return KVA_FAIL(err, KVA_EIO, "cannot open %s: %s; nothing was merged",
                            path[i], strerror(errno));
    return KVA_OK;
}

/* ---- coverage ---- */

static const char COVERAGE[] =
    "WITH wanted AS (SELECT r.config_sha256 AS suite, p.cell_id, max(coalesce(r.label,"
    "json_extract(r.config_json,'$.name'),'')) AS name, max(p.n_sample*p.n_rep) AS n "
    "FROM plan p JOIN run r USING(run_id) GROUP BY 1, 2), "
    "held AS (SELECT cell_id, sum(status IN('ok','truncated','skipped')) AS done, "
    "sum(status NOT IN('ok','truncated','skipped')) AS failed FROM outcome GROUP BY 1) "
    "SELECT max(name), lower(hex(substr(suite,1,4))), sum(n), "
    "sum(min(n,coalesce(done,0))), sum(coalesce(failed,0)) FROM wanted "
    "LEFT JOIN held USING(cell_id) GROUP BY suite ORDER BY 1, suite";

static enum kva_status say_coverage(struct kva_db *db, json_t *list,
                                    struct kva_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(kva_db_handle(db), COVERAGE, -1, &st, NULL);

    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 0),
                   *suite = (const char *)sqlite3_column_text(st, 1);
        int64_t n = sqlite3_column_int64(st, 2), done = sqlite3_column_int64(st, 3),
                failed = sqlite3_column_int64(st, 4);

        rc = SQLITE_OK;
        if (list)
            json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I}", "name",
                                                  name, "config", suite, "expected",
                                                  (json_int_t)n, "done", (json_int_t)done,
                                                  "failed", (json_int_t)failed));
        else if (!kva_common.quiet)
            printf("plan %s%s%s: %" PRId64 " of %" PRId64 " outcomes, %" PRId64
                   " failed, %" PRId64 " missing\n",
                   name, name[0] ? " " : "", suite, done, n, failed,
                   n - done > failed ? n - done - failed : 0);
    }
    sqlite3_finalize(st);
    if (rc == SQLITE_DONE)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EDB, "%s: reading the plans: %s", kva_db_path(db),
                    sqlite3_errmsg(kva_db_handle(db)));
}

/* ---- entry ---- */

/* `worst`: the first conflict, which does not stop the others. */
static enum kva_status merge_all(struct kva_db *db, int n, char **path,
                                 enum kva_db_on_conflict how, json_t *list,
                                 struct kva_error *worst, struct kva_error *err)
{
    for (int i = 0; i < n; i++) {
        struct kva_db_merged m;
        struct kva_error here = {0};
        enum kva_status rc;

        if (kva_interrupted)
            return KVA_FAIL(err, KVA_EINTERRUPTED,
                            "interrupted before %s; the same command goes on", path[i]);
        rc = kva_db_merge(db, path[i], how, &m, &here);
        if (rc != KVA_OK && rc != KVA_ECONFLICT) {
            *err = here;
            return rc;
        }
        if (rc == KVA_ECONFLICT) {
            fprintf(stderr, "kvaudit: %s\n", here.text);
            *worst = worst->code == KVA_OK ? here : *worst;
        }
        say_input(path[i], &m, list);
    }
    return KVA_OK;
}

static enum kva_status say_json(json_t *o, struct kva_error *err)
{
    char *text = json_dumps(o, JSON_COMPACT);
    enum kva_status rc = KVA_OK;

    if (!text)
        return KVA_FAIL(err, KVA_ENOMEM, "the summary: out of memory");
    rc = kva_command_out(text, strlen(text), err);
    if (rc == KVA_OK)
        rc = kva_command_out("\n", 1, err);
    free(text);
    return rc;
}

int kva_cmd_merge(int argc, char **argv)
{
    struct kva_error err = {0}, worst = {0};
    int how = how_of(opt.on_conflict), code = 0;
    bool plain = strcmp(opt.journal, "delete") == 0;
    struct kva_db *db = NULL;
    json_t *o = kva_common.json ? json_object() : NULL, *inputs = NULL, *plans = NULL;
    enum kva_status rc;

    if (argc < 2)
        code = kva_command_usage("merge", "OUT and at least one IN are expected");
    else if (how < 0)
        code = kva_command_usage("merge", "--on-conflict is error, keep or as-rep");
    else if (!plain && strcmp(opt.journal, "wal") != 0)
        code = kva_command_usage("merge", "--journal is wal or delete");
    else if (kva_common.db.n)
        code = kva_command_usage("merge", "the databases are arguments, not --db");
    if (code) {
        json_decref(o);
        return code;
    }
    if (o) {
        json_object_set_new(o, "schema", json_string("kvaudit.merge/1"));
        json_object_set_new(o, "inputs", inputs = json_array());
        json_object_set_new(o, "plans", plans = json_array());
    }
    kva_command_signals();
    KVA_GO(all_there(argc - 1, argv + 1, &err));
    KVA_GO(kva_db_open(argv[0], plain ? KVA_DB_WRITE_DELETE : KVA_DB_WRITE, &db, &err));
    KVA_GO(merge_all(db, argc - 1, argv + 1, (enum kva_db_on_conflict)how, inputs, &worst,
                     &err));
    KVA_GO(kva_db_check(db, &err));
    KVA_GO(say_coverage(db, plans, &err));
    KVA_GO(kva_db_checkpoint(db, &err));
    if (o)
        rc = say_json(o, &err);
out:
    if (rc != KVA_OK)
        kva_db_drop_unused(db);
    else
        kva_db_close(db);
    json_decref(o);
    if (rc != KVA_OK)
        return kva_command_fail(&err);
    return kva_status_exit(worst.code);
}
