/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_db.c - opening, refusing, full disks, several processes, killed writers. */
#include "tests/db/fixture.h"
#include "db/db_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

static void make_sqlite(const char *path, const char *sql)
{
    sqlite3 *h;

    assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
}

static void file_digest(const char *path, uint8_t out[32])
{
    struct kva_buf b;
    struct kva_error err = {0};

    kva_buf_init(&b, 0);
    OK(kva_read_file(path, 0, &b, &err));
    kva_sha256_of(b.data, b.len, out);
    kva_buf_release(&b);
}

/* Every way to open must refuse, say `words`, and leave bytes and neighbours as they are.
 */
static void expect_refusal(const char *dir, const char *path, const char *words)
{
    static const enum kva_db_mode MODES[] = {KVA_DB_READ, KVA_DB_WRITE,
                                             KVA_DB_WRITE_DELETE};
    uint8_t before[32], after[32];
    struct kva_error err;
    struct kva_db *db;

    (void)dir;
    file_digest(path, before);
    for (size_t i = 0; i < 3; i++) {
        FAILS(KVA_EDB, kva_db_open(path, MODES[i], &db, &err));
        assert_null(db);
        assert_int_equal(kva_status_exit(err.code), 3);
        if (!strstr(err.text, words) || !strstr(err.text, path))
            fail_msg("unclear message: %s", err.text);
    }
    file_digest(path, after);
    assert_memory_equal(before, after, 32);
}

static void a_new_file_has_the_schema_and_opens_again(void **state)
{
    struct fixture f;
    struct kva_error err = {0};

    (void)state;
    fixture_open(&f);
    assert_string_equal(kva_db_path(f.db), f.path);
    assert_true(query(f.db, "PRAGMA application_id") == KVA_DB_APP_ID);
    assert_true(query(f.db, "PRAGMA user_version") == KVA_DB_SCHEMA);
    assert_true(query(f.db, "SELECT journal_mode='wal' FROM pragma_journal_mode") == 1);
    assert_true(query(f.db, "PRAGMA synchronous") == 2);
    assert_true(query(f.db, "PRAGMA foreign_keys") == 1);
    assert_true(query(f.db, "PRAGMA busy_timeout") == 10000);
    for (const char *const *gone =
             (const char *const[]){"head_stat", "model_stat", "paired_test", "published",
                                   "baseline", "quarantine", "audit_bytes", NULL};
         *gone; gone++) {
        char sql[128];

        (void)snprintf(sql, sizeof sql,
                       "SELECT count(*) FROM sqlite_master WHERE name='%s'", *gone);
        assert_true(query(f.db, sql) == 0);
    }
    OK(kva_db_check(f.db, &err));
    OK(kva_db_checkpoint(f.db, &err));
    kva_db_close(f.db);
    OK(kva_db_open(f.path, KVA_DB_WRITE, &f.db, &err));
    assert_true(query(f.db, "SELECT count(*) FROM run") == 1);
    fixture_close(&f);
}

static void the_header_on_disk_tells_the_truth_from_the_first_moment(void **state)
{
    struct fixture f;
    uint8_t h[100];
    int fd;

    (void)state;
    fixture_open(&f); /* still open: nothing was checkpointed by closing */
    fd = open(f.path, O_RDONLY);
    assert_int_equal(read(fd, h, sizeof h), sizeof h);
    close(fd);
    assert_memory_equal(h + 68, "\x4b\x56\x41\x54", 4);
    assert_int_equal(h[63], KVA_DB_SCHEMA);
    fixture_close(&f);
}

static void a_database_of_another_program_is_refused_untouched(void **state)
{
    char dir[64], path[128];

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    make_sqlite(path, "PRAGMA application_id=42; CREATE TABLE t(x)");
    expect_refusal(dir, path, "another program");
    (void)unlink(path);
    make_sqlite(path, "CREATE TABLE t(x)"); /* one that never set its id */
    expect_refusal(dir, path, "another program");
    (void)unlink(path);
    make_sqlite(path,
                "PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1)");
    expect_refusal(dir, path, "another program");
    remove_dir(dir);
}

static void a_text_file_is_refused_untouched(void **state)
{
    char dir[64], path[128];
    struct kva_error err = {0};

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    OK(kva_write_file(path, "{\"not\": \"a database\"}\n", 22, &err));
    expect_refusal(dir, path, "not an SQLite database");
    remove_dir(dir);
}

static void a_newer_schema_is_refused_untouched(void **state)
{
    char dir[64], path[128];

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    make_sqlite(
        path,
        "PRAGMA application_id=1263944020; PRAGMA user_version=3; CREATE TABLE t(x)");
    expect_refusal(dir, path, "schema version 3");
    remove_dir(dir);
}

static void an_empty_file_becomes_ours_only_for_writing(void **state)
{
    char dir[64], path[128];
    struct kva_error err = {0};
    struct kva_db *db;

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    OK(kva_write_file(path, "", 0, &err));
    FAILS(KVA_EDB, kva_db_open(path, KVA_DB_READ, &db, &err));
    memset(&err, 0, sizeof err);
    OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
    OK(kva_db_check(db, &err));
    kva_db_close(db);
    remove_dir(dir);
}

static void missing_files_and_directories_are_named(void **state)
{
    char dir[64], path[128];
    struct kva_error err;
    struct kva_db *db;

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    FAILS(KVA_EIO, kva_db_open(path, KVA_DB_READ, &db, &err));
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(access(path, F_OK), -1);
    (void)snprintf(path, sizeof path, "%s/none/a.db", dir);
    FAILS(KVA_EIO, kva_db_open(path, KVA_DB_WRITE, &db, &err));
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "No such file or directory"));
    FAILS(KVA_EIO, kva_db_open(dir, KVA_DB_WRITE, &db, &err));
    assert_non_null(strstr(err.text, "not a regular file"));
    remove_dir(dir);
}

static void a_path_that_cannot_be_written_is_named(void **state)
{
    char dir[64], path[128];
    struct kva_error err;
    struct kva_db *db;

    (void)state;
    /* permissions do not stop root: a read-only kernel file system does */
    FAILS(KVA_EIO, kva_db_open("/proc/sys/a.db", KVA_DB_WRITE, &db, &err));
    assert_non_null(strstr(err.text, "/proc/sys/a.db"));
    if (geteuid() == 0)
        return;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    chmod(dir, 0500);
    FAILS(KVA_EIO, kva_db_open(path, KVA_DB_WRITE, &db, &err));
    assert_non_null(strstr(err.text, "Permission denied"));
    chmod(dir, 0700);
    remove_dir(dir);
}

static void reading_writes_nothing_and_refuses_to_put(void **state)
{
    struct fixture f;
    struct kva_db *db;
    struct kva_error err = {0};
    struct kva_db_env e = env_of("other");
    int64_t id;
    uint8_t before[32], after[32];

    (void)state;
    fixture_open(&f);
    kva_db_close(f.db);
    file_digest(f.path, before);
    OK(kva_db_open(f.path, KVA_DB_READ, &db, &err));
    assert_true(query(db, "SELECT count(*) FROM run") == 1);
    FAILS(KVA_EINVALID, kva_db_put_env(db, &e, &id, &err));
    kva_db_close(db);
    file_digest(f.path, after);
    assert_memory_equal(before, after, 32);
    f.db = NULL;
    fixture_close(&f);
}

static void a_reader_sees_what_a_writer_committed(void **state)
{
    struct fixture f;
    struct kva_db *db;
    struct kva_error err = {0};

    (void)state;
    fixture_open(&f);
    OK(kva_db_open(f.path, KVA_DB_READ, &db, &err));
    assert_true(query(db, "SELECT count(*) FROM model") == 1);
    (void)add_model(f.db, "gemma");
    assert_true(query(db, "SELECT count(*) FROM model") == 2);
    kva_db_close(db);
    fixture_close(&f);
}

static void a_path_with_uri_characters_is_the_same_file_for_both_modes(void **state)
{
    char dir[64], path[128];
    struct kva_error err = {0};
    struct kva_db *db;

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/x?y#z%%20.db", dir);
    OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
    (void)add_model(db, "m");
    kva_db_close(db);
    OK(kva_db_open(path, KVA_DB_READ, &db, &err));
    assert_true(query(db, "SELECT count(*) FROM model") == 1);
    kva_db_close(db);
    remove_dir(dir);
}

static void network_file_systems_are_known_by_type(void **state)
{
    (void)state;
    assert_string_equal(kva_db_network_fs(0x6969), "NFS");
    assert_string_equal(kva_db_network_fs((long)0xff534d42), "CIFS");
    assert_string_equal(kva_db_network_fs((long)(int32_t)0xfe534d42), "SMB2");
    assert_string_equal(kva_db_network_fs(0x0bd00bd0), "Lustre");
    assert_string_equal(kva_db_network_fs(0x47504653), "GPFS");
    assert_string_equal(kva_db_network_fs(0x19830326), "BeeGFS");
    assert_string_equal(kva_db_network_fs(0x65735546), "FUSE");
    assert_null(kva_db_network_fs(0xef53));     /* ext4 */
    assert_null(kva_db_network_fs(0x01021994)); /* tmpfs */
}

static int on_nfs(const char *path, struct statfs *out)
{
    (void)path;
    memset(out, 0, sizeof *out);
    out->f_type = 0x6969;
    return 0;
}

static void a_network_file_system_is_refused_unless_one_process_is_promised(void **state)
{
    char dir[64], path[128], lock[140];
    int (*real)(const char *, struct statfs *) = kva_db_statfs;
    struct kva_error err;
    struct kva_db *db;

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    (void)snprintf(lock, sizeof lock, "%s.lock", path);
    kva_db_statfs = on_nfs;
    FAILS(KVA_EIO, kva_db_open(path, KVA_DB_WRITE, &db, &err));
    assert_non_null(strstr(err.text, "NFS file system"));
    assert_non_null(strstr(err.text, "--db /local/path"));
    assert_non_null(strstr(err.text, "kvaudit merge"));
    assert_non_null(strstr(err.text, "--journal delete"));
    assert_int_equal(kva_status_exit(err.code), 3);
    assert_int_equal(access(path, F_OK), -1); /* nothing was made */
    assert_int_equal(access(lock, F_OK), -1);
    memset(&err, 0, sizeof err);
    OK(kva_db_open(path, KVA_DB_WRITE_DELETE, &db, &err));
    (void)add_model(db, "m");
    kva_db_close(db);
    OK(kva_db_open(path, KVA_DB_READ, &db, &err));
    assert_true(query(db, "SELECT count(*) FROM model") == 1);
    kva_db_close(db);
    kva_db_statfs = real;
    remove_dir(dir);
}

static void
two_processes_that_start_at_once_on_a_new_file_wait_for_each_other(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        char dir[64], path[128];
        struct kva_error err = {0};
        struct kva_db *db;
        pid_t child[2];
        int code;

        temp_dir(dir, sizeof dir);
        (void)snprintf(path, sizeof path, "%s/a.db", dir);
        for (int i = 0; i < 2; i++) {
            child[i] = fork();
            if (child[i] == 0) {
                struct kva_db_env e = env_of(i ? "one" : "two");
                struct kva_db_run r = {.uuid = i ? "run-1" : "run-2",
                                       .argv_json = "[]",
                                       .config_json = "{}",
                                       .started_ms = 1};
                int64_t id;

                if (kva_db_open(path, KVA_DB_WRITE, &db, &err) != KVA_OK ||
                    kva_db_put_env(db, &e, &r.env_id, &err) != KVA_OK ||
                    kva_db_start_run(db, &r, &id, &err) != KVA_OK)
                    print_error("%s\n", err.text);
                else
                    kva_db_close(db);
                _exit(err.code != KVA_OK);
            }
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(waitpid(child[i], &code, 0), child[i]);
            assert_int_equal(code, 0);
        }
        OK(kva_db_open(path, KVA_DB_READ, &db, &err));
        assert_true(query(db, "SELECT count(*) FROM run") == 2);
        assert_true(query(db, "SELECT count(*) FROM env") == 2);
        OK(kva_db_check(db, &err));
        kva_db_close(db);
        remove_dir(dir);
    }
}

static void the_rollback_journal_mode_works_without_shared_memory(void **state)
{
    char dir[64], path[128], shm[140];
    struct kva_error err = {0};
    struct kva_db *db;

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    (void)snprintf(shm, sizeof shm, "%s-shm", path);
    OK(kva_db_open(path, KVA_DB_WRITE_DELETE, &db, &err));
    (void)add_model(db, "m");
    assert_int_equal(access(shm, F_OK), -1);
    kva_db_close(db);
    remove_dir(dir);
}

static void damage_is_reported(void **state)
{
    struct fixture f;
    struct kva_error err = {0};

    (void)state;
    fixture_open(&f);
    OK(kva_db_check(f.db, &err));
    assert_int_equal(
        execute(f.db, "PRAGMA foreign_keys=OFF; INSERT INTO plan VALUES(77,88,1,1)"),
        SQLITE_OK);
    FAILS(KVA_EDAMAGED, kva_db_check(f.db, &err));
    assert_int_equal(kva_status_exit(err.code), 4);
    assert_non_null(strstr(err.text, "plan"));
    fixture_close(&f);
}

/* ---- full disks ---- */

/* Puts outcomes until one fails; returns how many were acknowledged. */
static int fill(struct fixture *f, int64_t cell, int64_t task, const char *task_name,
                int limit, struct kva_error *err)
{
    static char text[3000];
    int done = 0;

    memset(text, 'x', sizeof text - 1);
    for (; done < limit; done++) {
        struct kva_db_sample s = {
            .task_id = task, .idx = done, .refs_json = "[]", .meta_json = "{}"};
        struct kva_db_outcome o;
        int64_t id;
        int stored;

        digest_for(task_name, 5000 + done, s.digest);
        if (kva_db_put_sample(f->db, &s, &id, err) != KVA_OK)
            break;
        o = outcome_of(cell, id, f->run, 1);
        o.text = text;
        if (kva_db_put_outcomes(f->db, &o, 1, &stored, err) != KVA_OK)
            break;
        assert_int_equal(stored, 1);
    }
    return done;
}

static void a_full_database_loses_nothing_that_was_stored(void **state)
{
    struct fixture f;
    struct kva_error err = {0};
    int64_t task, cell;
    int done;

    (void)state;
    fixture_open(&f);
    task = add_task(f.db, "ruler", "niah", 4096);
    cell = add_cell(f.db, f.model, add_method(f.db, "dense"), task, "dense", 0);
    assert_int_equal(execute(f.db, "PRAGMA max_page_count=120"), SQLITE_OK);
    done = fill(&f, cell, task, "niah", 1000, &err);
    assert_in_range(done, 1, 500);
    assert_int_equal(err.code, KVA_EIO);
    assert_non_null(strstr(err.text, "no space left"));
    assert_non_null(strstr(err.text, f.path));
    assert_true(query(f.db, "SELECT count(*) FROM outcome") == done);
    assert_int_equal(execute(f.db, "PRAGMA max_page_count=100000"), SQLITE_OK);
    memset(&err, 0, sizeof err);
    OK(kva_db_check(f.db, &err));
    assert_int_equal(fill(&f, cell, task, "more", 0, &err), 0);
    (void)add_model(f.db, "after");
    fixture_close(&f);
}

static void a_file_size_limit_fails_clearly_and_loses_nothing(void **state)
{
    struct fixture f;
    struct kva_error err = {0};
    int64_t task, cell;
    struct rlimit old, tight;
    int done;

    (void)state;
    fixture_open(&f);
    task = add_task(f.db, "ruler", "niah", 4096);
    cell = add_cell(f.db, f.model, add_method(f.db, "dense"), task, "dense", 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    done = fill(&f, cell, task, "niah", 3000, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_in_range(done, 1, 2999);
    assert_int_equal(err.code, KVA_EIO);
    assert_non_null(strstr(err.text, f.path));
    kva_db_close(f.db);
    memset(&err, 0, sizeof err);
    OK(kva_db_open(f.path, KVA_DB_WRITE, &f.db, &err));
    OK(kva_db_check(f.db, &err));
    assert_true(query(f.db, "SELECT count(*) FROM outcome") == done);
    fixture_close(&f);
}

static void a_creation_that_finds_no_space_leaves_no_half_schema(void **state)
{
    char dir[64], path[128];
    struct kva_error err;
    struct rlimit old, tight;
    struct kva_db *db;

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 20000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    FAILS(KVA_EIO, kva_db_open(path, KVA_DB_WRITE, &db, &err));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    memset(&err, 0, sizeof err);
    OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
    OK(kva_db_check(db, &err));
    assert_true(query(db, "SELECT count(*) FROM v_cell") == 0);
    kva_db_close(db);
    remove_dir(dir);
}

/* ---- several processes ---- */

static void processes_that_create_the_same_file_at_once_all_succeed(void **state)
{
    enum { N = 4 };
    char dir[64], path[128];
    struct kva_error err = {0};
    struct kva_db *db;

    (void)state;
    for (int round = 0; round < 5; round++) {
        int gate[2], status;
        pid_t pid[N];

        temp_dir(dir, sizeof dir);
        (void)snprintf(path, sizeof path, "%s/a.db", dir);
        assert_int_equal(pipe(gate), 0);
        for (int i = 0; i < N; i++) {
            pid[i] = fork();
            if (pid[i] == 0) {
                struct kva_db_env e;
                char c, host[16];
                int64_t id;

                close(gate[1]);
                (void)!read(gate[0], &c,
                            1); /* all start when the parent closes the pipe */
                (void)snprintf(host, sizeof host, "host%d", i);
                e = env_of(host);
                _exit(kva_db_open(path, KVA_DB_WRITE, &db, NULL) == KVA_OK &&
                              kva_db_put_env(db, &e, &id, NULL) == KVA_OK
                          ? 0
                          : 1);
            }
        }
        close(gate[0]);
        close(gate[1]);
        for (int i = 0; i < N; i++) {
            assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        OK(kva_db_open(path, KVA_DB_READ, &db, &err));
        OK(kva_db_check(db, &err));
        assert_true(query(db, "SELECT count(*) FROM env") == N);
        assert_true(query(db, "SELECT count(*) FROM meta") == 1);
        kva_db_close(db);
        remove_dir(dir);
    }
}

/* Writes outcomes for ever and reports each acknowledged index on `fd`. */
static void write_for_ever(const char *path, int64_t cell, int64_t run, int first, int fd)
{
    struct kva_error err = {0};
    struct kva_db *db;

    if (kva_db_open(path, KVA_DB_WRITE, &db, &err) != KVA_OK)
        _exit(9);
    for (int i = first; i < 100000; i++) {
        struct kva_db_sample s = {
            .task_id = 1, .idx = i, .refs_json = "[]", .meta_json = "{}"};
        struct kva_db_outcome o;
        int64_t id;
        int stored;

        digest_for("kill", i, s.digest);
        if (kva_db_put_sample(db, &s, &id, &err) != KVA_OK)
            _exit(8);
        o = outcome_of(cell, id, run, 1);
        if (kva_db_put_outcomes(db, &o, 1, &stored, &err) != KVA_OK)
            _exit(7);
        if (write(fd, &i, sizeof i) != sizeof i)
            _exit(6);
    }
}

static void a_killed_writer_loses_no_acknowledged_outcome(void **state)
{
    struct fixture f;
    struct kva_error err = {0};
    struct kva_rng rng = {20260801};
    int64_t cell;
    int next = 0, total = 0;

    (void)state;
    fixture_open(&f);
    cell = add_cell(f.db, f.model, add_method(f.db, "dense"),
                    add_task(f.db, "ruler", "niah", 0), "dense", 0);
    kva_db_close(f.db);
    for (int round = 0; round < 20; round++) {
        struct timespec nap = {0, (long)kva_rng_below(&rng, 2000000)};
        int wait_for = (int)kva_rng_below(&rng, 20), out[2], index, acked = 0, status;
        pid_t pid;

        assert_int_equal(pipe(out), 0);
        pid = fork();
        if (pid == 0) {
            close(out[0]);
            write_for_ever(f.path, cell, f.run, next, out[1]);
            _exit(0);
        }
        close(out[1]);
        while (acked < wait_for && read(out[0], &index, sizeof index) == sizeof index)
            acked = index + 1 - next;
        nanosleep(&nap, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        while (read(out[0], &index, sizeof index) == sizeof index)
            acked = index + 1 - next;
        close(out[0]);
        total += acked;
        OK(kva_db_open(f.path, KVA_DB_READ, &f.db, &err));
        OK(kva_db_check(f.db, &err));
        /* at most one outcome may be there without having been acknowledged */
        assert_in_range((int)query(f.db, "SELECT count(*) FROM outcome"), next + acked,
                        next + acked + 1);
        assert_true(query(f.db, "SELECT count(*) FROM outcome o LEFT JOIN generation g "
                                "USING(outcome_id) WHERE g.text IS NULL") == 0);
        next = (int)query(f.db, "SELECT coalesce(max(idx)+1,0) FROM sample");
        if ((int)query(f.db, "SELECT count(*) FROM outcome") < next) {
            /* killed between a sample and its outcome: the next round stores it */
            next--;
        }
        kva_db_close(f.db);
    }
    assert_true(total > 100); /* 20 rounds of 10 on average, and what was on its way */
    f.db = NULL;
    fixture_close(&f);
}

static void a_creation_killed_at_random_points_can_be_repeated(void **state)
{
    char dir[64], path[128];
    struct kva_error err = {0};
    struct kva_rng rng = {7};
    struct kva_db *db;

    (void)state;
    for (int round = 0; round < 20; round++) {
        struct timespec nap = {0, (long)kva_rng_below(&rng, 15) * 1000000 + 200000};
        int status;
        pid_t pid;

        temp_dir(dir, sizeof dir);
        (void)snprintf(path, sizeof path, "%s/a.db", dir);
        pid = fork();
        if (pid == 0)
            _exit(kva_db_open(path, KVA_DB_WRITE, &db, NULL) == KVA_OK ? 0 : 1);
        nanosleep(&nap, NULL);
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
        OK(kva_db_check(db, &err));
        assert_true(query(db, "SELECT count(*) FROM v_todo") == 0);
        kva_db_close(db);
        remove_dir(dir);
    }
}

static void an_unused_file_goes_unless_someone_else_has_it_open(void **state)
{
    struct kva_error err = {0};
    struct kva_db *db, *other;
    char dir[64], path[128];
    DIR *d;
    int left = 0;

    (void)state;
    temp_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/a.db", dir);
    OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
    OK(kva_db_open(path, KVA_DB_WRITE, &other, &err));
    kva_db_drop_unused(other); /* it did not make the file */
    OK(kva_db_open(path, KVA_DB_WRITE, &other, &err));
    kva_db_drop_unused(db);
    assert_int_equal(access(path, F_OK), 0);
    kva_db_close(other);
    unlink(path);
    for (int i = 0; i < 2; i++) {
        OK(kva_db_open(path, i ? KVA_DB_WRITE_DELETE : KVA_DB_WRITE, &db, &err));
        kva_db_drop_unused(db);
    }
    unlink(path); /* makes nothing of a missing file */
    kva_db_drop_unused(NULL);
    d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        left += e->d_name[0] != '.';
    closedir(d);
    assert_int_equal(left, 0);
    remove_dir(dir);
}

/* Who opens the file while it goes would write into nothing. */
static void a_file_that_goes_waits_for_those_who_open_it(void **state)
{
    char dir[64], path[128], lock[144], go = 0;
    struct kva_db *db;
    struct kva_error err = {0};
    int pipe_fd[2], status;
    pid_t child;

    (void)state;
    temp_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/a.db", dir);
    snprintf(lock, sizeof lock, "%s.lock", path);
    OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
    assert_int_equal(pipe(pipe_fd), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct timespec pause = {.tv_nsec = 100000000};
        int fd = open(lock, O_RDWR | O_CREAT, 0666);

        if (fd < 0 || flock(fd, LOCK_EX) != 0 || write(pipe_fd[1], &go, 1) != 1)
            _exit(2);
        (void)nanosleep(&pause, NULL);
        _exit(access(path, F_OK) == 0 ? 0 : 1);
    }
    assert_int_equal(read(pipe_fd[0], &go, 1), 1);
    kva_db_drop_unused(db);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_has_the_schema_and_opens_again),
        cmocka_unit_test(the_header_on_disk_tells_the_truth_from_the_first_moment),
        cmocka_unit_test(a_database_of_another_program_is_refused_untouched),
        cmocka_unit_test(a_text_file_is_refused_untouched),
        cmocka_unit_test(a_newer_schema_is_refused_untouched),
        cmocka_unit_test(an_empty_file_becomes_ours_only_for_writing),
        cmocka_unit_test(missing_files_and_directories_are_named),
        cmocka_unit_test(a_path_that_cannot_be_written_is_named),
        cmocka_unit_test(reading_writes_nothing_and_refuses_to_put),
        cmocka_unit_test(a_reader_sees_what_a_writer_committed),
        cmocka_unit_test(a_path_with_uri_characters_is_the_same_file_for_both_modes),
        cmocka_unit_test(network_file_systems_are_known_by_type),
        cmocka_unit_test(a_network_file_system_is_refused_unless_one_process_is_promised),
        cmocka_unit_test(
            two_processes_that_start_at_once_on_a_new_file_wait_for_each_other),
        cmocka_unit_test(the_rollback_journal_mode_works_without_shared_memory),
        cmocka_unit_test(damage_is_reported),
        cmocka_unit_test(a_full_database_loses_nothing_that_was_stored),
        cmocka_unit_test(a_file_size_limit_fails_clearly_and_loses_nothing),
        cmocka_unit_test(a_creation_that_finds_no_space_leaves_no_half_schema),
        cmocka_unit_test(processes_that_create_the_same_file_at_once_all_succeed),
        cmocka_unit_test(a_killed_writer_loses_no_acknowledged_outcome),
        cmocka_unit_test(a_creation_killed_at_random_points_can_be_repeated),
        cmocka_unit_test(a_file_that_goes_waits_for_those_who_open_it),
        cmocka_unit_test(an_unused_file_goes_unless_someone_else_has_it_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
