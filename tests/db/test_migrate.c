/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_migrate.c - files of every older schema (fixtures/vN.sql) become the present one.
 */
#include "tests/db/fixture.h"
#include "db/db_internal.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct old {
    char dir[64], path[128];
    int version;
};

static void run_sql(const char *path, const char *sql)
{
    char *why = NULL;
    sqlite3 *h;

    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    if (sqlite3_exec(h, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
}

static void old_file(struct old *f, int version)
{
    char name[64];
    struct kva_buf sql;
    struct kva_error err = {0};

    f->version = version;
    temp_dir(f->dir, sizeof f->dir);
    (void)snprintf(f->path, sizeof f->path, "%s/a.db", f->dir);
    (void)snprintf(name, sizeof name, "tests/db/fixtures/v%d.sql", version);
    kva_buf_init(&sql, 0);
    OK(kva_read_file(name, 0, &sql, &err));
    run_sql(f->path, sql.data);
    kva_buf_release(&sql);
}

static int to_text(void *out, int n, char **value, char **name)
{
    (void)name;
    for (int i = 0; i < n; i++)
        kva_buf_printf(out, "%s|", value[i] ? value[i] : "NULL");
    kva_buf_putc(out, '\n');
    return 0;
}

/* All rows of a query as text. */
static void rows(sqlite3 *h, const char *sql, struct kva_buf *out)
{
    char *why = NULL;

    kva_buf_init(out, 0);
    kva_buf_add(out, "", 0);
    if (sqlite3_exec(h, sql, to_text, out, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
}

static void rows_of_file(const char *path, const char *sql, struct kva_buf *out)
{
    sqlite3 *h;

    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    rows(h, sql, out);
    sqlite3_close(h);
}

static int version_of(const char *path)
{
    struct kva_buf b;
    int v;

    rows_of_file(path, "PRAGMA user_version", &b);
    v = (int)strtol(b.data, NULL, 10);
    kva_buf_release(&b);
    return v;
}

static const char SUITE[] =
    "SELECT * FROM v_suite ORDER BY model, method, enforce, suite",
                  OUTCOMES[] =
                      "SELECT outcome_id, cell_id, sample_id, rep, run_id, attempt, "
                      "status, score, stop, hex(gen_sha256), error, text, "
                      "hex(token_ids) FROM outcome LEFT JOIN generation "
                      "USING(outcome_id) ORDER BY 1";

static void same_text(struct kva_buf *a, struct kva_buf *b)
{
    assert_true(a->len > 10);
    assert_string_equal(a->data, b->data);
    kva_buf_release(a);
    kva_buf_release(b);
}

static void every_released_schema_is_brought_up_to_date(void **state)
{
    (void)state;
    for (int v = 1; v < KVA_DB_SCHEMA; v++) {
        struct old f;
        struct kva_buf suite[2], outcomes[2];
        struct kva_error err = {0};
        struct kva_db *db;
        char bak[160];

        old_file(&f, v);
        assert_int_equal(version_of(f.path), v);
        rows_of_file(f.path, SUITE, &suite[0]);
        rows_of_file(f.path, OUTCOMES, &outcomes[0]);
        OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
        rows(kva_db_handle(db), SUITE, &suite[1]);
        rows(kva_db_handle(db), OUTCOMES, &outcomes[1]);
        same_text(&suite[0], &suite[1]);
        same_text(&outcomes[0], &outcomes[1]);
        assert_true(query(db, "PRAGMA user_version") == KVA_DB_SCHEMA);
        assert_true(query(db, "SELECT count(*) FROM outcome WHERE flags=0") == 24);
        OK(kva_db_check(db, &err));
        kva_db_close(db);
        (void)snprintf(bak, sizeof bak, "%s.v%d.bak", f.path, v);
        assert_int_equal(version_of(bak), v);
        rows_of_file(f.path, OUTCOMES, &outcomes[0]);
        rows_of_file(bak, OUTCOMES, &outcomes[1]);
        same_text(&outcomes[0], &outcomes[1]);
        remove_dir(f.dir);
    }
}

/* Columns in order with type, default and key, and what the views are. */
static const char SHAPE[] =
    "SELECT m.type, m.name, p.cid, p.name, p.type, p.\"notnull\", p.dflt_value, p.pk "
    "FROM sqlite_master m, pragma_table_info(m.name) p ORDER BY 1, 2, 3";

static void a_migrated_file_has_the_shape_of_a_new_one(void **state)
{
    struct kva_error err = {0};
    struct kva_buf want, got;
    struct kva_db *db;
    struct old f;
    char fresh[160];

    (void)state;
    old_file(&f, 1);
    (void)snprintf(fresh, sizeof fresh, "%s/b.db", f.dir);
    OK(kva_db_open(fresh, KVA_DB_WRITE, &db, &err));
    kva_db_close(db);
    OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
    kva_db_close(db);
    rows_of_file(fresh, SHAPE, &want);
    rows_of_file(f.path, SHAPE, &got);
    same_text(&want, &got);
    rows_of_file(fresh, "SELECT sql FROM sqlite_master WHERE type='view'", &want);
    rows_of_file(f.path, "SELECT sql FROM sqlite_master WHERE type='view'", &got);
    same_text(&want, &got);
    remove_dir(f.dir);
}

static void bytes_of(const char *path, uint8_t out[32])
{
    struct kva_buf b;
    struct kva_error err = {0};

    kva_buf_init(&b, 0);
    OK(kva_read_file(path, 0, &b, &err));
    kva_sha256_of(b.data, b.len, out);
    kva_buf_release(&b);
}

static int files_in(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void a_reader_sees_the_present_schema_and_the_file_stays(void **state)
{
    static const enum kva_db_mode MODES[] = {KVA_DB_READ, KVA_DB_READ_COPY};
    uint8_t before[32], after[32];
    struct kva_error err = {0};
    struct kva_buf suite[2];
    struct kva_data data;
    struct kva_db *db;
    struct old f;

    (void)state;
    old_file(&f, 1);
    bytes_of(f.path, before);
    rows_of_file(f.path, SUITE, &suite[0]);
    for (int i = 0; i < 2; i++) {
        OK(kva_db_open(f.path, MODES[i], &db, &err));
        assert_true(query(db, "PRAGMA user_version") == KVA_DB_SCHEMA);
        assert_int_equal(execute(db, "DELETE FROM outcome"), SQLITE_READONLY);
        OK(kva_data_load(&db, 1, &data, &err));
        assert_int_equal(data.n_outcomes, 24);
        assert_int_equal(data.n_perfs, 2);
        assert_int_equal(data.n_claims, 1);
        assert_int_equal(data.outcomes[3].flags, 0);
        kva_data_release(&data);
        if (i)
            rows(kva_db_handle(db), SUITE, &suite[1]);
        kva_db_close(db);
        assert_int_equal(files_in(f.dir), 1);
    }
    same_text(&suite[0], &suite[1]);
    bytes_of(f.path, after);
    assert_memory_equal(before, after, 32);
    remove_dir(f.dir);
}

static void a_reader_sees_what_is_still_in_the_log(void **state)
{
    struct kva_error err = {0};
    struct kva_db *db;
    struct old f;
    sqlite3 *writer;

    (void)state;
    old_file(&f, 1);
    assert_int_equal(sqlite3_open(f.path, &writer), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(writer,
                     "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
                     "INSERT INTO event(run_id,ts_ms,level,msg) VALUES(1,2,'info','b')",
                     NULL, NULL, NULL),
        SQLITE_OK);
    OK(kva_db_open(f.path, KVA_DB_READ, &db, &err));
    assert_true(query(db, "SELECT count(*) FROM event") == 2);
    assert_true(query(db, "SELECT count(*) FROM outcome WHERE flags=0") == 24);
    kva_db_close(db);
    sqlite3_close(writer);
    remove_dir(f.dir);
}

static void a_step_that_fails_leaves_the_old_version(void **state)
{
    struct kva_error err = {0};
    struct kva_buf shape[2];
    struct kva_db *db;
    struct old f;

    (void)state;
    old_file(&f, 1);
    /* the step itself works; the views that follow in its transaction cannot be made */
    run_sql(f.path, "DROP VIEW v_todo; CREATE TABLE v_todo(x)");
    rows_of_file(f.path, SHAPE, &shape[0]);
    FAILS(KVA_EDB, kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
    assert_non_null(strstr(err.text, "v_todo"));
    assert_non_null(strstr(err.text, "still is version 1"));
    FAILS(KVA_EDB, kva_db_open(f.path, KVA_DB_READ, &db, &err));
    assert_int_equal(version_of(f.path), 1);
    rows_of_file(f.path, SHAPE, &shape[1]);
    same_text(&shape[0], &shape[1]);
    run_sql(f.path, "DROP TABLE v_todo");
    memset(&err, 0, sizeof err);
    OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
    OK(kva_db_check(db, &err));
    kva_db_close(db);
    assert_int_equal(version_of(f.path), KVA_DB_SCHEMA);
    remove_dir(f.dir);
}

static void an_earlier_backup_is_not_overwritten(void **state)
{
    struct kva_error err = {0};
    struct kva_buf b;
    struct kva_db *db;
    struct old f;
    char bak[160];

    (void)state;
    old_file(&f, 1);
    (void)snprintf(bak, sizeof bak, "%s.v1.bak", f.path);
    OK(kva_write_file(bak, "mine", 4, &err));
    OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
    kva_db_close(db);
    kva_buf_init(&b, 0);
    OK(kva_read_file(bak, 0, &b, &err));
    assert_int_equal(b.len, 4);
    kva_buf_release(&b);
    (void)snprintf(bak, sizeof bak, "%s.v1.bak2", f.path);
    assert_int_equal(version_of(bak), 1);
    remove_dir(f.dir);
}

static void without_room_for_the_backup_nothing_changes(void **state)
{
    struct rlimit old, tight;
    struct kva_error err = {0};
    struct kva_db *db;
    struct old f;
    char bak[160];

    (void)state;
    old_file(&f, 1);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 1 << 16;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    FAILS(KVA_EIO, kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_non_null(strstr(err.text, "copying the file aside"));
    assert_int_equal(version_of(f.path), 1);
    (void)snprintf(bak, sizeof bak, "%s.v1.bak", f.path);
    assert_int_equal(access(bak, F_OK), -1);
    (void)snprintf(bak, sizeof bak, "%s.v1.bak.part", f.path);
    assert_int_equal(access(bak, F_OK), -1);
    remove_dir(f.dir);
}

static void processes_that_migrate_at_once_make_one_backup(void **state)
{
    enum { N = 6 };
    struct kva_error err = {0};
    struct kva_db *db;
    struct old f;
    pid_t child[N];
    char bak[160];
    int code;

    (void)state;
    old_file(&f, 1);
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        if (child[i] == 0)
            _exit(kva_db_open(f.path, KVA_DB_WRITE, &db, &err) != KVA_OK);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(waitpid(child[i], &code, 0), child[i]);
        assert_int_equal(code, 0);
    }
    assert_int_equal(version_of(f.path), KVA_DB_SCHEMA);
    (void)snprintf(bak, sizeof bak, "%s.v1.bak2", f.path);
    assert_int_equal(access(bak, F_OK), -1);
    remove_dir(f.dir);
}

static void a_migration_killed_at_random_points_can_be_repeated(void **state)
{
    struct kva_error err = {0};
    unsigned seed = 7, whole = 0;
    int old_left = 0;

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct kva_buf suite[2];
        struct kva_db *db;
        struct old f;
        pid_t child;
        int v;

        uint64_t start;

        old_file(&f, 1);
        rows_of_file(f.path, SUITE, &suite[0]);
        if (round == 0) { /* how long does it take undisturbed? */
            start = kva_now_ns();
            OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
            whole = (unsigned)((kva_now_ns() - start) / 1000);
            kva_db_close(db);
            remove_dir(f.dir);
            old_file(&f, 1);
        }
        child = fork();
        if (child == 0) {
            (void)kva_db_open(f.path, KVA_DB_WRITE, &db, &err);
            _exit(0);
        }
        seed = seed * 1103515245u + 12345u;
        (void)usleep(seed / 65536 % (whole + 1));
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        v = version_of(f.path);
        assert_true(v == 1 || v == KVA_DB_SCHEMA);
        old_left += v == 1;
        OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
        OK(kva_db_check(db, &err));
        rows(kva_db_handle(db), SUITE, &suite[1]);
        same_text(&suite[0], &suite[1]);
        kva_db_close(db);
        remove_dir(f.dir);
    }
    print_message("%d of 20 kills came before the commit\n", old_left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_released_schema_is_brought_up_to_date),
        cmocka_unit_test(a_migrated_file_has_the_shape_of_a_new_one),
        cmocka_unit_test(a_reader_sees_the_present_schema_and_the_file_stays),
        cmocka_unit_test(a_reader_sees_what_is_still_in_the_log),
        cmocka_unit_test(a_step_that_fails_leaves_the_old_version),
        cmocka_unit_test(an_earlier_backup_is_not_overwritten),
        cmocka_unit_test(without_room_for_the_backup_nothing_changes),
        cmocka_unit_test(processes_that_migrate_at_once_make_one_backup),
        cmocka_unit_test(a_migration_killed_at_random_points_can_be_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
