/* SPDX-License-Identifier: GPL-3.0-or-later */
/* merge.c - one file's results into another (reports.md 3.8).
 *
 * The input is attached as `src` and everything happens inside SQLite, in one
 * transaction. Ids are local to a file, so each table that has ids gets a map
 * temp.m_TABLE(src, dst): identity rows meet by digest (a run by its uuid), outcomes by
 * (cell, sample, rep). Columns and references are read from the schema: a new column or
 * instrument table needs no line here.
 *
 * What becomes of an outcome is decided before anything is written (m_outcome.fate):
 *   new       not there yet
 *   better    terminal where a failure was; of two failures the later one
 *   older     the same outcome by an earlier run: its row replaces the one there, so that
 *             the order of the inputs decides nothing
 *   same      the same outcome: measurements that lack here are added
 *   worse     a failure where a better one is, or a conflict stored as rep before
 *   conflict  two terminal outcomes that cannot both be true
 *   rep       a conflict that gets the next free rep
 * Of two measurements of the same thing (times, bytes) the larger one stays, compared
 * column by column: merging makes nobody faster. */
#include "db/db_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *table, *id, *key;
} IDENTITY[] = {
    {"env", "env_id", "digest"},       {"model", "model_id", "digest"},
    {"method", "method_id", "digest"}, {"task", "task_id", "digest"},
    {"sample", "sample_id", "digest"}, {"cell", "cell_id", "digest"},
    {"run", "run_id", "uuid"},
};
#define N_IDENTITY ((int)(sizeof IDENTITY / sizeof IDENTITY[0]))

struct merge {
    struct kva_db *db;
    const char *path; /* of the input */
    struct kva_db_merged *m;
};

#define TERMINAL(o) o ".status IN('ok','truncated','skipped')"

/* ---- running what was put together ---- */

/* Ends and empties the buffer. A text parameter goes to ?1; NULL: none. */
static enum kva_status run(struct kva_db *db, struct kva_buf *sql, const char *text,
                           struct kva_error *err)
{
    sqlite3_stmt *st = NULL;
    enum kva_status rc = kva_buf_status(sql, err);
    char what[60];
    int sq;

    if (rc != KVA_OK)
        return rc;
    (void)snprintf(what, sizeof what, "merging: %.*s", (int)strcspn(sql->data, "("),
                   sql->data);
    sq = sqlite3_prepare_v2(db->handle, sql->data, -1, &st, NULL);
    if (sq == SQLITE_OK && text)
        sq = sqlite3_bind_text(st, 1, text, -1, SQLITE_STATIC);
    if (sq == SQLITE_OK)
        sq = sqlite3_step(st);
    if (sq != SQLITE_DONE && sq != SQLITE_ROW)
        rc = kva_db_fail(db, sq, what, err);
    sqlite3_finalize(st);
    sql->len = 0;
    return rc;
}

/* Called for each row of a query; a status other than KVA_OK ends it. */
typedef enum kva_status (*row_fn)(void *ctx, sqlite3_stmt *st, struct kva_error *err);

static enum kva_status rows(struct kva_db *db, const char *sql, const char *text,
                            row_fn each, void *ctx, struct kva_error *err)
{
    sqlite3_stmt *st = NULL;
    enum kva_status rc = KVA_OK;
    int sq = sqlite3_prepare_v2(db->handle, sql, -1, &st, NULL);

    if (sq == SQLITE_OK && text)
        sq = sqlite3_bind_text(st, 1, text, -1, SQLITE_STATIC);
    while (sq == SQLITE_OK && rc == KVA_OK && (sq = sqlite3_step(st)) == SQLITE_ROW) {
        rc = each(ctx, st, err);
        sq = SQLITE_OK;
    }
    if (rc == KVA_OK && sq != SQLITE_DONE)
        rc = kva_db_fail(db, sq, "merging", err);
    sqlite3_finalize(st);
    return rc;
}

/* ---- a table's columns, with references led through the maps ---- */

struct shape {
    struct kva_buf names, values, joins; /* "a,b", "t.a,m1.dst", " LEFT JOIN ..." */
    struct kva_buf match;                /* "d.a IS t.a AND ..." */
    struct kva_buf set;                  /* "a=excluded.a,..." but for the key */
    struct kva_buf left, right;          /* "(excluded.x,...)" against what is there */
    const char *own;                     /* the table's own integer key, or "" */
    bool of_outcome;
    int n_ref, n_set;
};

static void shape_release(struct shape *s)
{
    struct kva_buf *all[] = {&s->names, &s->values, &s->joins, &s->match,
                             &s->set,   &s->left,   &s->right};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        kva_buf_release(all[i]);
}

/* name, referenced table (or NULL), part of the key */
static enum kva_status add_column(void *ctx, sqlite3_stmt *st, struct kva_error *err)
{
    struct shape *s = ctx;
    const char *name = (const char *)sqlite3_column_text(st, 0),
               *to = (const char *)sqlite3_column_text(st, 1), *comma;
    bool key = sqlite3_column_int(st, 2) != 0;
    char value[80];

    if (strcmp(name, s->own) == 0)
        return KVA_OK;
    comma = s->names.len ? "," : "";
    if (to && strcmp(to, "outcome") == 0) {
        s->of_outcome = true;
        (void)snprintf(value, sizeof value, "m.dst");
    } else if (to) {
        int n = ++s->n_ref;

        (void)snprintf(value, sizeof value, "m%d.dst", n);
        kva_buf_printf(&s->joins, " LEFT JOIN temp.m_%s m%d ON m%d.src=t.%s", to, n, n,
                       name);
    } else { /* an outcome's rep is the decided one */
        bool rep = strcmp(s->own, "outcome_id") == 0 && strcmp(name, "rep") == 0;

        (void)snprintf(value, sizeof value, "%s.%s", rep ? "m" : "t", name);
    }
    kva_buf_printf(&s->names, "%s%s", comma, name);
    kva_buf_printf(&s->values, "%s%s", comma, value);
    kva_buf_printf(&s->match, "%sd.%s IS %s", s->match.len ? " AND " : "", name, value);
    if (!key) {
        const char *sep = s->n_set++ ? "," : "";

        kva_buf_printf(&s->set, "%s%s=excluded.%s", sep, name, name);
        kva_buf_printf(&s->left, "%scoalesce(excluded.%s,-1)", sep, name);
        kva_buf_printf(&s->right, "%scoalesce(%s,-1)", sep, name);
    }
    return kva_buf_status(&s->names, err);
}

static enum kva_status shape_of(struct kva_db *db, const char *table, const char *own,
                                struct shape *s, struct kva_error *err)
{
    struct kva_buf *all[] = {&s->names, &s->values, &s->joins, &s->match,
                             &s->set,   &s->left,   &s->right};

    memset(s, 0, sizeof *s);
    s->own = own;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        kva_buf_init(all[i], 1 << 20);
        kva_buf_add(all[i], "", 0);
    }
    KVA_TRY(rows(db,
                 "SELECT p.name, f.\"table\", p.pk FROM pragma_table_info(?1,'main') p "
                 "LEFT JOIN pragma_foreign_key_list(?1,'main') f ON f.\"from\"=p.name "
                 "ORDER BY p.cid",
                 table, add_column, s, err));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        KVA_TRY(kva_buf_status(all[i], err));
    return KVA_OK;
}

/* ---- maps and fates, before anything is written ---- */

static enum kva_status map_identity(struct kva_db *db, int i, struct kva_error *err)
{
    struct kva_buf sql;
    const char *t = IDENTITY[i].table, *id = IDENTITY[i].id;
    enum kva_status rc;

    kva_buf_init(&sql, 1 << 16);
    kva_buf_printf(&sql, "DELETE FROM temp.m_%s", t);
    KVA_GO(run(db, &sql, NULL, err));
    kva_buf_printf(&sql,
                   "INSERT INTO temp.m_%s SELECT t.%s, d.%s FROM src.%s t "
                   "JOIN main.%s d USING(%s)",
                   t, id, id, t, t, IDENTITY[i].key);
    rc = run(db, &sql, NULL, err);
out:
    kva_buf_release(&sql);
    return rc;
}

static enum kva_status make_maps(struct kva_db *db, struct kva_error *err)
{
    struct kva_buf sql;
    enum kva_status rc = KVA_OK;

    kva_buf_init(&sql, 1 << 16);
    for (int i = 0; i <= N_IDENTITY && rc == KVA_OK; i++) {
        const char *t = i < N_IDENTITY ? IDENTITY[i].table : "an_profile";

        kva_buf_printf(&sql, "DROP TABLE IF EXISTS temp.m_%s", t);
        KVA_GO(run(db, &sql, NULL, err));
        kva_buf_printf(&sql,
                       "CREATE TEMP TABLE m_%s(src INTEGER PRIMARY KEY, "
                       "dst INTEGER NOT NULL)",
                       t);
        KVA_GO(run(db, &sql, NULL, err));
        if (i < N_IDENTITY)
            rc = map_identity(db, i, err);
    }
out:
    kva_buf_release(&sql);
    return rc;
}

static enum kva_status other_metric(void *ctx, sqlite3_stmt *st, struct kva_error *err)
{
    const struct merge *in = ctx;

    return KVA_FAIL(err, KVA_ECONFLICT,
                    "%s: task %s/%s is scored with %s version %d, there with %s version "
                    "%d: bring both up to date with `kvaudit run --rescore`",
                    in->path, (const char *)sqlite3_column_text(st, 0),
                    (const char *)sqlite3_column_text(st, 1),
                    (const char *)sqlite3_column_text(st, 2), sqlite3_column_int(st, 3),
                    (const char *)sqlite3_column_text(st, 4), sqlite3_column_int(st, 5));
}

static enum kva_status other_text(void *ctx, sqlite3_stmt *st, struct kva_error *err)
{
    const struct merge *in = ctx;

    return KVA_FAIL(err, KVA_ECONFLICT,
                    "%s: sample %d of task %s/%s is not the text it is there", in->path,
                    sqlite3_column_int(st, 2), (const char *)sqlite3_column_text(st, 0),
                    (const char *)sqlite3_column_text(st, 1));
}

/* Rows that share a key must mean the same. */
static enum kva_status check_identity(struct merge *in, struct kva_error *err)
{
    KVA_TRY(rows(in->db,
                 "SELECT t.suite, t.name, t.metric, t.metric_version, d.metric, "
                 "d.metric_version FROM src.task t JOIN main.task d USING(digest) "
                 "WHERE (t.metric, t.metric_version) IS NOT (d.metric, d.metric_version) "
                 "LIMIT 1",
                 NULL, other_metric, in, err));
    return rows(in->db,
                "SELECT t.suite, t.name, s.idx FROM src.sample s JOIN src.task t "
                "USING(task_id) JOIN temp.m_task m ON m.src=s.task_id JOIN main.sample d "
                "ON d.task_id=m.dst AND d.idx=s.idx WHERE d.digest<>s.digest LIMIT 1",
                NULL, other_text, in, err);
}

static enum kva_status decide_fates(struct kva_db *db, struct kva_error *err)
{
    KVA_TRY(kva_db_exec(db,
                        "DROP TABLE IF EXISTS temp.m_outcome;"
                        "CREATE TEMP TABLE m_outcome(src INTEGER PRIMARY KEY, "
                        "dst INTEGER NOT NULL, rep INTEGER NOT NULL, fate TEXT NOT NULL)",
                        err));
    KVA_TRY(kva_db_exec(
        db,
        "INSERT INTO temp.m_outcome SELECT o.outcome_id, coalesce(d.outcome_id, "
        "(SELECT coalesce(max(outcome_id),0) FROM main.outcome)+o.outcome_id), o.rep, "
        "CASE WHEN d.outcome_id IS NULL THEN 'new' "
        "WHEN " TERMINAL("o") " AND " TERMINAL(
            "d") " THEN "
                 "CASE WHEN (o.status, o.score, o.gen_sha256) IS NOT "
                 "(d.status, d.score, d.gen_sha256) THEN 'conflict' "
                 "WHEN (x.started_ms, x.uuid) < (y.started_ms, y.uuid) THEN 'older' "
                 "ELSE 'same' END "
                 "WHEN " TERMINAL("o") " THEN 'better' WHEN " TERMINAL(
                     "d") " THEN 'worse' "
                          "WHEN (o.finished_ms, o.attempt, o.status, "
                          "coalesce(o.error,''), x.uuid) > "
                          "(d.finished_ms, d.attempt, d.status, coalesce(d.error,''), "
                          "y.uuid) "
                          "THEN 'better' ELSE 'worse' END "
                          "FROM src.outcome o LEFT JOIN src.run x USING(run_id) "
                          "LEFT JOIN temp.m_cell c ON c.src=o.cell_id "
                          "LEFT JOIN temp.m_sample s ON s.src=o.sample_id "
                          "LEFT JOIN main.outcome d ON d.cell_id=c.dst AND "
                          "d.sample_id=s.dst AND "
                          "d.rep=o.rep LEFT JOIN main.run y ON y.run_id=d.run_id",
        err));
    /* an earlier merge may have stored it under another rep */
    return kva_db_exec(
        db,
        "UPDATE temp.m_outcome SET fate='worse' WHERE fate='conflict' AND EXISTS("
        "SELECT 1 FROM src.outcome o JOIN src.cell c USING(cell_id) JOIN src.sample s "
        "USING(sample_id) JOIN src.run r ON r.run_id=o.run_id JOIN main.merge_conflict k "
        "ON k.cell_digest=c.digest AND k.sample_digest=s.digest AND k.rep=o.rep AND "
        "k.src=r.uuid WHERE o.outcome_id=m_outcome.src AND "
        "json_extract(k.detail_json,'$.stored_as') IS NOT NULL)",
        err);
}

static enum kva_status count_fate(void *ctx, sqlite3_stmt *st, struct kva_error *err)
{
    struct kva_db_merged *m = ((struct merge *)ctx)->m;
    const char *fate = (const char *)sqlite3_column_text(st, 0);
    int64_t n = sqlite3_column_int64(st, 1);

    (void)err;
    m->n += n;
    if (strcmp(fate, "new") == 0)
        m->n_new += n;
    else if (strcmp(fate, "better") == 0)
        m->n_better += n;
    else if (strcmp(fate, "conflict") == 0)
        m->n_conflict += n;
    else
        m->n_known += n;
    return KVA_OK;
}

/* ---- conflicts ---- */

/* Of a sampled cell a rep is the number of a draw, and no answer may take another one's:
 * there the stored one stays. */
static enum kva_status number_reps(struct kva_db *db, struct kva_error *err)
{
    return kva_db_exec(
        db,
        "WITH k AS (SELECT m.src, row_number() OVER (PARTITION BY o.cell_id, o.sample_id "
        "ORDER BY o.rep) + max((SELECT max(rep) FROM src.outcome p WHERE "
        "p.cell_id=o.cell_id AND p.sample_id=o.sample_id), (SELECT max(rep) FROM "
        "main.outcome d WHERE d.cell_id=c.dst AND d.sample_id=s.dst)) AS rep "
        "FROM temp.m_outcome m JOIN src.outcome o ON o.outcome_id=m.src "
        "JOIN temp.m_cell c ON c.src=o.cell_id JOIN temp.m_sample s ON s.src=o.sample_id "
        "JOIN src.cell x ON x.cell_id=o.cell_id WHERE m.fate='conflict' AND "
        "coalesce(json_extract(x.spec_json,'$.sampling'),'greedy')='greedy') "
        "UPDATE temp.m_outcome SET fate='rep', "
        "dst=src+(SELECT max(outcome_id) FROM main.outcome), "
        "rep=(SELECT rep FROM k WHERE k.src=m_outcome.src) WHERE src IN(SELECT src FROM "
        "k)",
        err);
}

/* One row per conflict; `src` is the run whose outcome was not stored as it is. */
static enum kva_status note_conflicts(struct merge *in, struct kva_error *err)
{
    struct kva_buf sql;
    enum kva_status rc;

    kva_buf_init(&sql, 1 << 16);
    kva_buf_puts(
        &sql,
        "INSERT OR REPLACE INTO main.merge_conflict SELECT c.digest, s.digest, o.rep, "
        "r.uuid, o.score, o.gen_sha256, json_object('file',?1,'status',o.status,"
        "'stored_run',x.uuid,'stored_status',d.status,'stored_score',d.score,"
        "'stored_gen_sha256',lower(hex(d.gen_sha256)),"
        "'stored_as',CASE m.fate WHEN 'rep' THEN m.rep END) "
        "FROM temp.m_outcome m JOIN src.outcome o ON o.outcome_id=m.src "
        "JOIN src.cell c USING(cell_id) JOIN src.sample s USING(sample_id) "
        "JOIN src.run r ON r.run_id=o.run_id "
        "JOIN temp.m_cell mc ON mc.src=o.cell_id "
        "JOIN temp.m_sample ms ON ms.src=o.sample_id "
        "JOIN main.outcome d ON d.cell_id=mc.dst AND d.sample_id=ms.dst AND d.rep=o.rep "
        "JOIN main.run x ON x.run_id=d.run_id WHERE m.fate IN('conflict','rep')");
    rc = run(in->db, &sql, in->path, err);
    kva_buf_release(&sql);
    return rc;
}

static enum kva_status name_conflict(void *ctx, sqlite3_stmt *st, struct kva_error *err)
{
    const struct merge *in = ctx;

    return KVA_FAIL(err, KVA_ECONFLICT,
                    "%lld outcomes differ from those stored; the first: cell %s sample "
                    "%d rep %d (%s against %s). Nothing of the file was merged; table "
                    "merge_conflict names them; --on-conflict keep or as-rep goes on",
                    (long long)in->m->n_conflict,
                    (const char *)sqlite3_column_text(st, 0), sqlite3_column_int(st, 1),
                    sqlite3_column_int(st, 2), (const char *)sqlite3_column_text(st, 3),
                    (const char *)sqlite3_column_text(st, 4));
}

static enum kva_status tell_conflict(struct merge *in, struct kva_error *err)
{
    return rows(
        in->db,
        "SELECT c.slug, s.idx, o.rep, o.status||coalesce(format(' %.6g',o.score),''), "
        "d.status||coalesce(format(' %.6g',d.score),'') FROM temp.m_outcome m "
        "JOIN src.outcome o ON o.outcome_id=m.src JOIN src.cell c USING(cell_id) "
        "JOIN src.sample s USING(sample_id) JOIN main.outcome d ON d.outcome_id=m.dst "
        "WHERE m.fate='conflict' ORDER BY c.digest, s.digest, o.rep LIMIT 1",
        NULL, name_conflict, in, err);
}

/* ---- rows ---- */

static enum kva_status put_identity(struct kva_db *db, int i, const struct shape *s,
                                    struct kva_error *err)
{
    struct kva_buf sql;
    enum kva_status rc;

    kva_buf_init(&sql, 1 << 16);
    kva_buf_printf(&sql,
                   "INSERT INTO main.%s(%s) SELECT %s FROM src.%s t%s WHERE true "
                   "ON CONFLICT(%s) DO NOTHING",
                   IDENTITY[i].table, s->names.data, s->values.data, IDENTITY[i].table,
                   s->joins.data, IDENTITY[i].key);
    KVA_GO(run(db, &sql, NULL, err));
    rc = map_identity(db, i, err);
    if (rc == KVA_OK && strcmp(IDENTITY[i].table, "run") == 0)
        /* a copy of a run that knows more of its end */
        rc = kva_db_exec(
            db,
            "UPDATE main.run AS r SET (status,ended_ms,exit_code)=(s.status,s.ended_ms,"
            "s.exit_code) FROM src.run s WHERE s.uuid=r.uuid AND "
            "(s.status='done',coalesce(s.ended_ms,-1)) > "
            "(r.status='done',coalesce(r.ended_ms,-1))",
            err);
out:
    kva_buf_release(&sql);
    return rc;
}

static enum kva_status put_outcomes(struct kva_db *db, const struct shape *s,
                                    struct kva_error *err)
{
    struct kva_buf sql;
    enum kva_status rc;

    kva_buf_init(&sql, 1 << 16);
    kva_buf_printf(&sql,
                   "INSERT INTO main.outcome(outcome_id,%s) SELECT m.dst,%s "
                   "FROM src.outcome t JOIN temp.m_outcome m ON m.src=t.outcome_id AND "
                   "m.fate IN('new','better','older','rep')%s WHERE true "
                   "ON CONFLICT(outcome_id) DO UPDATE SET %s",
                   s->names.data, s->values.data, s->joins.data, s->set.data);
    rc = run(db, &sql, NULL, err);
    kva_buf_release(&sql);
    return rc;
}

/* What hangs on outcomes. */
static enum kva_status put_children(struct kva_db *db, const char *table,
                                    const struct shape *s, struct kva_error *err)
{
    bool measured = strcmp(table, "memory") == 0 || strcmp(table, "timing") == 0;
    struct kva_buf sql;
    enum kva_status rc;

    kva_buf_init(&sql, 1 << 20);
    kva_buf_printf(&sql,
                   "DELETE FROM main.%s WHERE outcome_id IN(SELECT dst FROM "
                   "temp.m_outcome WHERE fate='better')",
                   table);
    KVA_GO(run(db, &sql, NULL, err));
    if (!measured) {
        kva_buf_printf(&sql,
                       "INSERT OR REPLACE INTO main.%s(%s) SELECT %s FROM "
                       "temp.m_outcome m JOIN src.%s t ON t.outcome_id=m.src%s "
                       "WHERE m.fate='older'",
                       table, s->names.data, s->values.data, table, s->joins.data);
        KVA_GO(run(db, &sql, NULL, err));
    }
    kva_buf_printf(
        &sql,
        "INSERT INTO main.%s(%s) SELECT %s FROM src.%s t JOIN temp.m_outcome m "
        "ON m.src=t.outcome_id AND m.fate IN('new','better','same','older',"
        "'rep')%s WHERE true ON CONFLICT DO ",
        table, s->names.data, s->values.data, table, s->joins.data);
    if (measured)
        kva_buf_printf(&sql, "UPDATE SET %s WHERE (%s) > (%s)", s->set.data, s->left.data,
                       s->right.data);
    else
        kva_buf_puts(&sql, "NOTHING");
    rc = run(db, &sql, NULL, err);
out:
    kva_buf_release(&sql);
    return rc;
}

/* Rows without a key of their own are the same when all their columns are. */
static enum kva_status put_keyless(struct kva_db *db, const char *table, const char *id,
                                   const struct shape *s, struct kva_error *err)
{
    struct kva_buf sql;
    enum kva_status rc;

    kva_buf_init(&sql, 1 << 16);
    kva_buf_printf(&sql,
                   "INSERT INTO main.%s(%s) SELECT %s FROM src.%s t%s EXCEPT SELECT %s "
                   "FROM main.%s WHERE run_id IS NULL OR run_id IN(SELECT dst FROM "
                   "temp.m_run)",
                   table, s->names.data, s->values.data, table, s->joins.data,
                   s->names.data, table);
    KVA_GO(run(db, &sql, NULL, err));
    if (strcmp(table, "an_profile") == 0) {
        kva_buf_printf(
            &sql,
            "INSERT OR IGNORE INTO temp.m_%s SELECT t.%s, d.%s FROM src.%s t%s "
            "JOIN main.%s d ON %s",
            table, id, id, table, s->joins.data, table, s->match.data);
        rc = run(db, &sql, NULL, err);
    }
out:
    kva_buf_release(&sql);
    return rc;
}

static enum kva_status put_rest(struct kva_db *db, const char *table,
                                const struct shape *s, struct kva_error *err)
{
    struct kva_buf sql;
    enum kva_status rc;

    kva_buf_init(&sql, 1 << 16);
    kva_buf_printf(&sql,
                   "INSERT INTO main.%s(%s) SELECT %s FROM src.%s t%s WHERE true "
                   "ON CONFLICT DO NOTHING",
                   table, s->names.data, s->values.data, table, s->joins.data);
    rc = run(db, &sql, NULL, err);
    kva_buf_release(&sql);
    return rc;
}

/* The table's own integer key when its rows are found by something else. */
static const char *own_key(const char *table)
{
    static const char *const OTHERS[][2] = {{"outcome", "outcome_id"},
                                            {"event", "event_id"},
                                            {"unit_time", ""},
                                            {"an_profile", "profile_id"}};

    for (int i = 0; i < N_IDENTITY; i++)
        if (strcmp(table, IDENTITY[i].table) == 0)
            return IDENTITY[i].id;
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
        if (strcmp(table, OTHERS[i][0]) == 0)
            return OTHERS[i][1];
    return NULL;
}

static enum kva_status put_table(void *ctx, sqlite3_stmt *st, struct kva_error *err)
{
    struct kva_db *db = ((struct merge *)ctx)->db;
    const char *table = (const char *)sqlite3_column_text(st, 0), *own = own_key(table);
    struct shape s;
    enum kva_status rc;
    int i = 0;

    KVA_GO(shape_of(db, table, own ? own : "", &s, err));
    while (i < N_IDENTITY && strcmp(table, IDENTITY[i].table) != 0)
        i++;
    if (i < N_IDENTITY)
        rc = put_identity(db, i, &s, err);
    else if (strcmp(table, "outcome") == 0)
        rc = put_outcomes(db, &s, err);
    else if (s.of_outcome)
        rc = put_children(db, table, &s, err);
    else if (own)
        rc = put_keyless(db, table, own, &s, err);
    else
        rc = put_rest(db, table, &s, err);
out:
    shape_release(&s);
    return rc;
}

/* ---- one input ---- */

static enum kva_status merge_attached(struct merge *in, enum kva_db_on_conflict how,
                                      struct kva_error *err)
{
    struct kva_db *db = in->db;

    KVA_TRY(make_maps(db, err));
    KVA_TRY(check_identity(in, err));
    KVA_TRY(decide_fates(db, err));
    KVA_TRY(rows(db, "SELECT fate, count(*) FROM temp.m_outcome GROUP BY fate", NULL,
                 count_fate, in, err));
    if (in->m->n_conflict > 0) {
        if (how == KVA_DB_CONFLICT_AS_REP)
            KVA_TRY(number_reps(db, err));
        KVA_TRY(note_conflicts(in, err));
        if (how == KVA_DB_CONFLICT_ERROR)
            return KVA_OK; /* the notes are all that stays */
    }
    /* the order of creation: what a row refers to comes before it */
    return rows(db,
                "SELECT name FROM main.sqlite_master WHERE type='table' AND name NOT "
                "LIKE 'sqlite_%' ORDER BY rowid",
                NULL, put_table, in, err);
}

static enum kva_status attach(struct kva_db *db, const char *path, struct kva_error *err)
{
    struct kva_db *in = NULL;
    struct kva_buf uri;
    struct kva_db_value name;
    struct stat a, b;
    sqlite3_stmt *st = NULL;
    enum kva_status rc;
    int sq;

    kva_buf_init(&uri, 1 << 16);
    KVA_GO(kva_db_uri(path, kva_db_read_query(path), &uri, err));
    KVA_GO(kva_db_open(path, KVA_DB_READ, &in, err)); /* refuses what is not ours */
    if (stat(path, &a) == 0 && stat(db->path, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino) {
        rc = KVA_FAIL(err, KVA_EINVALID, "%s cannot be merged into itself", path);
        goto out;
    }
    name = kva_db_text(in->migrated ? "" : uri.data);
    sq = sqlite3_prepare_v2(db->handle, "ATTACH ? AS src", -1, &st, NULL);
    if (sq == SQLITE_OK)
        sq = kva_db_bind_values(st, &name, 1);
    if (sq == SQLITE_OK)
        sq = sqlite3_step(st);
    sqlite3_finalize(st);
    if (sq != SQLITE_DONE) {
        rc = kva_db_fail(db, sq, path, err);
        goto out;
    }
    if (in->migrated && (rc = kva_db_copy(in, db->handle, "src", err)) != KVA_OK)
        (void)sqlite3_exec(db->handle, "DETACH src", NULL, NULL, NULL);
out:
    kva_db_close(in);
    kva_buf_release(&uri);
    return rc;
}

enum kva_status kva_db_merge(struct kva_db *db, const char *path,
                             enum kva_db_on_conflict how, struct kva_db_merged *m,
                             struct kva_error *err)
{
    struct merge in = {.db = db, .path = path, .m = m};
    enum kva_status rc;

    memset(m, 0, sizeof *m);
    /* the inputs are still there should the power fail: what counts is the checkpoint at
     * the end */
    KVA_TRY(kva_db_exec(db,
                        "PRAGMA temp_store=MEMORY; PRAGMA synchronous=NORMAL;"
                        "PRAGMA cache_size=-65536; PRAGMA wal_autocheckpoint=16384; "
                        "PRAGMA foreign_keys=OFF",
                        err));
    KVA_TRY(attach(db, path, err));
    rc = kva_db_enter(db, err);
    if (rc == KVA_OK)
        rc = kva_db_leave(db, merge_attached(&in, how, err), err);
    if (rc == KVA_OK && m->n_conflict > 0 && how == KVA_DB_CONFLICT_ERROR)
        rc = tell_conflict(&in, err);
    if (rc != KVA_OK)
        kva_context(err, "merging %s", path);
    (void)sqlite3_exec(db->handle, "DETACH src", NULL, NULL, NULL);
    return rc;
}
