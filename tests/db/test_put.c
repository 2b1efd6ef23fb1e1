/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_put.c - identity rows, runs that died, plans, instrument rows. */
#include "tests/db/fixture.h"

#include <math.h>
#include <sys/wait.h>

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    fixture_open(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

static void the_same_digest_is_the_same_row(void **state)
{
    struct fixture *f = *state;
    int64_t method = add_method(f->db, "snapkv"),
            task = add_task(f->db, "ruler", "vt", 4096);

    assert_int_equal(add_model(f->db, "smol"), f->model);
    assert_int_not_equal(add_model(f->db, "gemma"), f->model);
    assert_int_equal(add_method(f->db, "snapkv"), method);
    assert_int_equal(add_task(f->db, "ruler", "vt", 4096), task);
    assert_int_equal(add_sample(f->db, task, "vt", 3), add_sample(f->db, task, "vt", 3));
    assert_int_equal(add_cell(f->db, f->model, method, task, "s", 0.2),
                     add_cell(f->db, f->model, method, task, "s", 0.2));
    assert_true(query(f->db, "SELECT count(*) FROM cell") == 1);
}

static void values_that_mean_none_become_null(void **state)
{
    struct fixture *f = *state;
    struct kva_db_task t = task_of("math", "math500", 0);
    struct kva_error err = {0};
    int64_t id;

    t.n_available = 500;
    OK(kva_db_put_task(f->db, &t, &id, &err));
    (void)add_task(f->db, "ruler", "vt", 4096);
    assert_true(query(f->db, "SELECT ctx_target FROM task WHERE name='math500'") == -998);
    assert_true(query(f->db, "SELECT n_available FROM task WHERE name='math500'") == 500);
    assert_true(query(f->db, "SELECT n_available FROM task WHERE name='vt'") == -998);
}

static void another_text_for_the_same_sample_is_a_conflict(void **state)
{
    struct fixture *f = *state;
    int64_t task = add_task(f->db, "ruler", "vt", 4096), id;
    struct kva_db_sample s = {
        .task_id = task, .idx = 4, .refs_json = "[]", .meta_json = "{}"};
    struct kva_error err;

    (void)add_sample(f->db, task, "vt", 4);
    digest_for("something else", 0, s.digest);
    FAILS(KVA_ECONFLICT, kva_db_put_sample(f->db, &s, &id, &err));
    assert_non_null(strstr(err.text, "sample 4"));
    s.task_id = 99;
    FAILS(KVA_EDB, kva_db_put_sample(f->db, &s, &id, &err));
    assert_true(query(f->db, "SELECT count(*) FROM sample") == 1);
}

static void a_run_is_registered_with_its_process_and_ends(void **state)
{
    struct fixture *f = *state;
    char sql[128];
    struct kva_error err = {0};

    (void)snprintf(sql, sizeof sql,
                   "SELECT pid=%d AND pid_start>0 AND length(boot_id)=36 FROM run",
                   (int)getpid());
    assert_true(query(f->db, sql) == 1);
    assert_true(query(f->db, "SELECT status='running' FROM run") == 1);
    OK(kva_db_end_run(f->db, f->run, "interrupted", 130, &err));
    assert_true(query(f->db, "SELECT status='interrupted' AND ended_ms>0 FROM run") == 1);
    assert_true(query(f->db, "SELECT exit_code FROM run") == 130);
    /* a clock that was set back makes no run shorter than nothing */
    assert_int_equal(execute(f->db, "UPDATE run SET started_ms=9000000000000"),
                     SQLITE_OK);
    OK(kva_db_end_run(f->db, f->run, "interrupted", 130, &err));
    assert_true(query(f->db, "SELECT ended_ms=started_ms FROM run") == 1);
    FAILS(KVA_EDB, kva_db_end_run(f->db, 99, "done", 0, &err));
    FAILS(KVA_EDB, kva_db_end_run(f->db, f->run, "perfect", 0, &err));
}

static void details_of_an_environment_are_merged_and_its_digest_stays(void **state)
{
    struct fixture *f = *state;
    struct kva_error err = {0};

    OK(kva_db_note_env(f->db, f->run, "{\"products\":{\"m 8\":\"old\",\"m 9\":\"a\"}}",
                       &err));
    OK(kva_db_note_env(f->db, f->run, "{\"products\":{\"m 8\":\"b\"}}", &err));
    assert_true(query(f->db, "SELECT detail_json->>'$.products.m 8'='b' AND "
                             "detail_json->>'$.products.m 9'='a' FROM env") == 1);
    assert_true(query(f->db, "SELECT count(*) FROM env") == 1);
    FAILS(KVA_EDB, kva_db_note_env(f->db, f->run, "no object", &err));
}

static void a_run_whose_process_is_gone_becomes_killed(void **state)
{
    struct fixture *f = *state;
    int status;
    pid_t pid;

    kva_db_close(f->db);
    pid = fork();
    if (pid == 0) {
        struct kva_db *db;

        if (kva_db_open(f->path, KVA_DB_WRITE, &db, NULL) != KVA_OK)
            _exit(1);
        (void)add_run(db, f->env, "run-child");
        _exit(0); /* dies without a word */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 0);
    {
        struct kva_error err = {0};
        OK(kva_db_open(f->path, KVA_DB_WRITE, &f->db, &err));
    }
    assert_true(query(f->db, "SELECT status='running' FROM run WHERE uuid='run-child'") ==
                1);
    (void)add_run(f->db, f->env, "run-3");
    assert_true(query(f->db, "SELECT status='killed' FROM run WHERE uuid='run-child'") ==
                1);
    assert_true(query(f->db, "SELECT status='running' FROM run WHERE uuid='run-1'") == 1);
    assert_true(query(f->db, "SELECT status='running' FROM run WHERE uuid='run-3'") == 1);
}

static void other_runs_that_have_not_ended_are_counted(void **state)
{
    struct fixture *f = *state;
    struct kva_error err = {0};
    int64_t second, pid;
    int n;

    OK(kva_db_running(f->db, f->run, &n, &pid, &err));
    assert_int_equal(n, 0);
    second = add_run(f->db, f->env, "run-2");
    OK(kva_db_running(f->db, f->run, &n, &pid, &err));
    assert_int_equal(n, 1);
    assert_int_equal(pid, getpid());
    OK(kva_db_running(f->db, second + 1, &n, &pid, &err));
    assert_int_equal(n, 2);
    OK(kva_db_end_run(f->db, second, "done", 0, &err));
    OK(kva_db_running(f->db, f->run, &n, &pid, &err));
    assert_int_equal(n, 0);
}

static void a_reused_process_id_does_not_keep_a_run_alive(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(execute(f->db, "UPDATE run SET pid_start=pid_start-1"), SQLITE_OK);
    (void)add_run(f->db, f->env, "run-2");
    assert_true(query(f->db, "SELECT status='killed' FROM run WHERE uuid='run-1'") == 1);
}

static void runs_of_an_earlier_boot_are_killed_and_other_hosts_left_alone(void **state)
{
    struct fixture *f = *state;
    struct kva_db_env other = env_of("elsewhere");
    struct kva_error err = {0};
    int64_t env;

    OK(kva_db_put_env(f->db, &other, &env, &err));
    (void)add_run(f->db, env, "run-elsewhere");
    assert_int_equal(execute(f->db, "UPDATE run SET boot_id='an earlier boot'"),
                     SQLITE_OK);
    (void)add_run(f->db, f->env, "run-2");
    assert_true(query(f->db, "SELECT status='killed' FROM run WHERE uuid='run-1'") == 1);
    assert_true(
        query(f->db, "SELECT status='running' FROM run WHERE uuid='run-elsewhere'") == 1);
}

static void plans_events_and_unit_times_are_kept(void **state)
{
    struct fixture *f = *state;
    int64_t task = add_task(f->db, "ruler", "vt", 4096);
    int64_t cell =
        add_cell(f->db, f->model, add_method(f->db, "dense"), task, "dense", 0);
    struct kva_error err = {0};

    OK(kva_db_put_plan(f->db, f->run, cell, 10, 1, &err));
    OK(kva_db_put_plan(f->db, f->run, cell, 50, 2,
                       &err)); /* a later plan of the same run */
    assert_true(query(f->db, "SELECT n_expected FROM v_plan") == 100);
    OK(kva_db_event(f->db, f->run, "warn", "hot", &err));
    OK(kva_db_event(f->db, 0, "info", "no run", &err));
    FAILS(KVA_EDB, kva_db_event(f->db, f->run, "shout", "x", &err));
    memset(&err, 0, sizeof err);
    assert_true(query(f->db, "SELECT count(*) FROM event WHERE run_id IS NULL") == 1);
    OK(kva_db_put_unit_time(f->db, f->run, f->model, task, 3, 12, 4096, 24, 5000000000,
                            &err));
    assert_true(query(f->db, "SELECT ns FROM unit_time WHERE n_cells=12 AND n_rows=24") ==
                5e9);
}

static void instrument_rows_go_to_instrument_tables_only(void **state)
{
    struct fixture *f = *state;
    int64_t task = add_task(f->db, "ruler", "vt", 4096),
            sample = add_sample(f->db, task, "vt", 0);
    int64_t cell =
                add_cell(f->db, f->model, add_method(f->db, "dense"), task, "dense", 0),
            id;
    struct kva_db_value v[] = {
        kva_db_int(f->run), kva_db_int(sample), kva_db_int(cell),
        kva_db_int(2),      kva_db_int(7),      kva_db_text("first"),
        kva_db_int(64),     kva_db_real(0.25),  kva_db_real((double)NAN)};
    const char *columns = "run_id,sample_id,cell_id,layer,q_head,def,rows,alpha0,alpha1";
    struct kva_db_value p[] = {
        kva_db_int(f->run), kva_db_int(f->model), kva_db_text("snapkv"),
        kva_db_text("{}"),  kva_db_int(4),        kva_db_int(32),
        kva_db_int(64),     kva_db_text("both"),  kva_db_blob("ab", 2),
        kva_db_int(4000),   kva_db_int(30)};
    struct kva_error err = {0};

    OK(kva_db_begin(f->db, &err));
    OK(kva_db_put_row(f->db, "an_sink", columns, v, 9, NULL, &err));
    v[7] = kva_db_real(0.5);
    OK(kva_db_put_row(f->db, "an_sink", columns, v, 9, NULL, &err)); /* replaces */
    OK(kva_db_commit(f->db, &err));
    assert_true(query(f->db, "SELECT count(*) FROM an_sink") == 1);
    assert_true(query(f->db, "SELECT alpha0 FROM an_sink") == 0.5);
    assert_true(query(f->db, "SELECT alpha1 FROM an_sink") == -998);
    OK(kva_db_put_row(f->db, "an_profile",
                      "run_id,model_id,scorer,params_json,sink,win,kmax,mode,doc_hash,"
                      "doc_tokens,m",
                      p, 11, &id, &err));
    assert_int_equal(id, 1);
    FAILS(KVA_EINVALID, kva_db_put_row(f->db, "outcome", "score", v, 1, NULL, &err));
    FAILS(KVA_EINVALID, kva_db_put_row(f->db, "an_sink;", columns, v, 9, NULL, &err));
    FAILS(KVA_EINVALID,
          kva_db_put_row(f->db, "an_sink", "a) VALUES(1) --", v, 9, NULL, &err));
    FAILS(KVA_EDB, kva_db_put_row(f->db, "an_nothing", columns, v, 9, NULL, &err));
    v[0] = kva_db_int(99);
    FAILS(KVA_EDB,
          kva_db_put_row(f->db, "an_sink", columns, v, 9, NULL, &err)); /* no such run */
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_same_digest_is_the_same_row),
        T(values_that_mean_none_become_null),
        T(another_text_for_the_same_sample_is_a_conflict),
        T(a_run_is_registered_with_its_process_and_ends),
        T(details_of_an_environment_are_merged_and_its_digest_stays),
        T(a_run_whose_process_is_gone_becomes_killed),
        T(other_runs_that_have_not_ended_are_counted),
        T(a_reused_process_id_does_not_keep_a_run_alive),
        T(runs_of_an_earlier_boot_are_killed_and_other_hosts_left_alone),
        T(plans_events_and_unit_times_are_kept),
        T(instrument_rows_go_to_instrument_tables_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
