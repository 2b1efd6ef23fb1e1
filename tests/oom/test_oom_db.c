/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_oom_db.c - out of memory while databases are made, read, merged, brought up to
 * date and scored again (exhaust.h says how); also with SQLite's own allocations failing.
 */
#include "tests/oom/exhaust.h"

#include "db/db_internal.h"
#include "runner/rescore.h"

#include <fcntl.h>

/* ---- database ---- */

/* Adds what is not there yet: called again after a failure it completes the file. */
static enum kva_status fill(struct kva_db *db, struct kva_error *err)
{
    static const int32_t ids[] = {5, 6, 7};
    static const uint16_t kept[4] = {1, 2, 3, 4};
    struct kva_db_env env = env_of("host");
    struct kva_db_model model = {.name = "m",
                                 .arch = "a",
                                 .wtype = "w",
                                 .detail_json = "{}",
                                 .n_layer = 2,
                                 .n_head = 2,
                                 .n_kv_head = 2,
                                 .d_k = 4,
                                 .d_v = 4,
                                 .n_ctx_train = 8};
    struct kva_db_method method = {.name = "k", .impl_version = 1, .params_json = "{}"};
    struct kva_db_task task = task_of("s", "t", 512);
    struct kva_db_sample sample = {
        .cluster = "c", .refs_json = "[\"a\"]", .meta_json = "{\"depth\":0.25}"};
    struct kva_db_cell cell = {.slug = "x",
                               .budget_kind = "keep",
                               .budget = 0.5,
                               .schedule = "oneshot",
                               .enforce = "physical",
                               .visibility = "agnostic",
                               .numerics = "f32",
                               .kv = "f16",
                               .spec_json = "{}"};
    struct kva_db_run run = {.uuid = "u",
                             .argv_json = "[]",
                             .config_json = "{}",
                             .started_ms = 1,
                             .shard_n = 1};
    struct kva_db_score score = {"match_all", 1, 1.0, "abc"};
    struct kva_db_span_kept span = {"E0", 4, 2, 2, kept};
    struct kva_db_outcome o;
    int64_t env_id, run_id;
    int stored;

    digest_for("model", 0, model.digest);
    digest_for("method", 0, method.digest);
    digest_for("sample", 0, sample.digest);
    digest_for("cell", 0, cell.digest);
    digest_for("dense", 0, cell.dense_key);
    KVA_TRY(kva_db_put_env(db, &env, &env_id, err));
    KVA_TRY(kva_db_put_model(db, &model, &cell.model_id, err));
    KVA_TRY(kva_db_put_method(db, &method, &cell.method_id, err));
    KVA_TRY(kva_db_put_task(db, &task, &cell.task_id, err));
    sample.task_id = cell.task_id;
    run.env_id = env_id;
    KVA_TRY(kva_db_start_run(db, &run, &run_id, err));
    o = outcome_of(0, 0, run_id, 1.0);
    KVA_TRY(kva_db_put_sample(db, &sample, &o.sample_id, err));
    KVA_TRY(kva_db_put_cell(db, &cell, &o.cell_id, err));
    KVA_TRY(kva_db_put_plan(db, run_id, o.cell_id, 1, 1, err));
    o.ids = ids;
    o.scores = &score;
    o.n_scores = 1;
    o.spans = &span;
    o.n_spans = 1;
    KVA_TRY(kva_db_put_outcomes(db, &o, 1, &stored, err));
    assert_int_equal(stored, 1);
    return kva_db_end_run(db, run_id, "done", 0, err);
}

/* What a dry run asks of earlier runs. */
static enum kva_status look_back(struct kva_db *db, const struct kva_data *data,
                                 struct kva_error *err)
{
    const uint8_t *model = data->models[0].digest;
    struct kva_db_time *rows = NULL;
    int64_t pairs, differ;
    double bytes;
    size_t n;
    int reps;

    KVA_TRY(kva_db_perf_reps(db, data->cells[0].digest, &reps, err));
    KVA_TRY(kva_db_discordant(db, model, data->tasks[0].digest, &pairs, &differ, err));
    KVA_TRY(kva_db_bytes_per_outcome(db, &bytes, err));
    KVA_TRY(kva_db_times(db, model, data->runs[0].perf_digest, true, &rows, &n, err));
    free(rows);
    assert_true(reps == 0 && pairs == 0 && bytes < 0 && n == 0);
    return KVA_OK;
}

static enum kva_status read_back(struct kva_db *db, struct kva_error *err)
{
    struct kva_db_states *states = NULL;
    struct kva_data data = {0};
    struct kva_buf text;
    enum kva_status rc;

    kva_buf_init(&text, 0);
    KVA_GO(kva_db_load_states(db, &states, err));
    KVA_GO(kva_data_load(&db, 1, &data, err));
    assert_int_equal(data.n_outcomes, 1);
    assert_true(data.outcomes[0].score >= 1.0 && data.samples[0].depth == 0.25);
    KVA_GO(kva_db_generation(db, data.outcomes[0].outcome_id, &text, err));
    assert_string_equal(text.data, "abc");
    KVA_GO(kva_db_check(db, err));
    KVA_GO(look_back(db, &data, err));
out:
    kva_buf_release(&text);
    kva_data_release(&data);
    kva_db_states_free(states);
    return rc;
}

struct file {
    char dir[64], path[96];
};

static void drop_files(const struct file *f)
{
    static const char *const tails[] = {"",      "-wal",    "-shm",        "-journal",
                                        ".lock", ".v1.bak", ".v1.bak.part"};

    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        char path[128];

        snprintf(path, sizeof path, "%s%s", f->path, tails[i]);
        unlink(path);
    }
}

/* A new file is made and filled. After a failure the file opens and is as it was before
 * the call that failed. */
static enum kva_status fill_new_file(void *ctx, struct kva_error *err)
{
    const struct file *f = ctx;
    struct kva_db *db = NULL;
    struct kva_error check = {0};
    enum kva_status rc;

    KVA_GO(kva_db_open(f->path, KVA_DB_WRITE, &db, err));
    KVA_GO(fill(db, err));
out:
    if (rc != KVA_OK && db) {
        kva_alloc_fail_at(0);
        assert_int_equal(kva_db_check(db, &check), KVA_OK);
    }
    kva_db_close(db);
    drop_files(f);
    return rc;
}

static enum kva_status read_file(void *ctx, struct kva_error *err)
{
    const struct file *f = ctx;
    struct kva_db *db = NULL;
    enum kva_status rc;

    KVA_GO(kva_db_open(f->path, KVA_DB_READ, &db, err));
    KVA_GO(read_back(db, err));
out:
    kva_db_close(db);
    return rc;
}

static enum kva_status canonical(void *ctx, struct kva_error *err)
{
    struct kva_buf out;
    uint8_t digest[32];
    enum kva_status rc;

    kva_buf_init(&out, 0);
    KVA_GO(kva_json_canonical(ctx, &out, err));
    KVA_GO(kva_buf_status(&out, err));
    assert_string_equal(out.data, "{\"a\":[1,\"x\"],\"b\":{\"c\":null,\"d\":2.5}}");
    KVA_GO(kva_json_digest(ctx, digest, err));
out:
    kva_buf_release(&out);
    return rc;
}

static void results_are_stored_and_read(void **state)
{
    static char json[] = "{\"b\":{\"d\":2.5,\"c\":null},\"a\":[1,\"x\"]}";
    struct file f;
    struct kva_db *db;
    struct kva_error err = {0};

    (void)state;
    temp_dir(f.dir, sizeof f.dir);
    snprintf(f.path, sizeof f.path, "%s/a.db", f.dir);
    reads_json = true;
    exhaust("canonical JSON", canonical, json);
    reads_json = false;
    exhaust("kva_db_open, put", fill_new_file, &f);
    OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
    OK(fill(db, &err));
    kva_db_close(db);
    reads_json = true;
    assert_true(exhaust("kva_db_open, load", read_file, &f) > 5);
    reads_json = false;
    drop_files(&f);
    rmdir(f.dir);
}

/* Into a database of one's own, which a failure leaves whole. */
static enum kva_status merge_file(void *ctx, struct kva_error *err)
{
    const struct file *f = ctx;
    struct kva_db *db = NULL;
    struct kva_db_merged m;
    struct kva_error check = {0};
    struct file into = *f;
    enum kva_status rc;

    snprintf(into.path, sizeof into.path, "%s/into.db", f->dir);
    KVA_GO(kva_db_open(into.path, KVA_DB_WRITE, &db, err));
    KVA_GO(kva_db_merge(db, f->path, KVA_DB_CONFLICT_ERROR, &m, err));
    assert_true(m.n > 0 && m.n_new == m.n);
out:
    if (rc != KVA_OK && db) {
        kva_alloc_fail_at(0);
        assert_int_equal(kva_db_check(db, &check), KVA_OK);
    }
    kva_db_close(db);
    drop_files(&into);
    return rc;
}

static void databases_are_merged(void **state)
{
    struct file f;
    struct kva_db *db;
    struct kva_error err = {0};

    (void)state;
    temp_dir(f.dir, sizeof f.dir);
    snprintf(f.path, sizeof f.path, "%s/a.db", f.dir);
    OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err));
    OK(fill(db, &err));
    kva_db_close(db);
    exhaust("kva_db_merge", merge_file, &f);
    drop_files(&f);
    rmdir(f.dir);
}

/* ---- files of an older schema ---- */

static void fail_in_sqlite(bool on)
{
    const char *every = getenv("KVA_OOM_STRIDE"); /* 1: each one, in minutes */

    sqlite_fails = on;
    stride = !on ? 1 : every ? (int)strtol(every, NULL, 10) : 211;
}

/* From a file made when memory was plenty; allocates nothing. */
static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n;

    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        assert_int_equal(write(out, bytes, (size_t)n), n);
    assert_int_equal(n, 0);
    close(in);
    close(out);
}

/* tests/db/fixtures/v1.sql as a file. */
static void old_file(struct file *f)
{
    struct kva_error err = {0};
    struct kva_buf sql;
    char *why = NULL;
    sqlite3 *h;

    temp_dir(f->dir, sizeof f->dir);
    snprintf(f->path, sizeof f->path, "%s/v1.db", f->dir);
    kva_buf_init(&sql, 0);
    OK(kva_read_file("tests/db/fixtures/v1.sql", 0, &sql, &err));
    assert_int_equal(sqlite3_open(f->path, &h), SQLITE_OK);
    if (sqlite3_exec(h, sql.data, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    assert_int_equal(sqlite3_close(h), SQLITE_OK);
    kva_buf_release(&sql);
}

/* Written to: after a failure the file still is the old one, or already the new one. */
static enum kva_status bring_up_to_date(void *ctx, struct kva_error *err)
{
    const struct file *old = ctx;
    struct file f = *old;
    struct kva_db *db = NULL;
    struct kva_error after = {0};
    enum kva_status rc;

    snprintf(f.path, sizeof f.path, "%s/a.db", old->dir);
    copy_file(old->path, f.path);
    KVA_GO(kva_db_open(f.path, KVA_DB_WRITE, &db, err));
    KVA_GO(kva_db_exec(db, "SELECT flags FROM outcome", err));
out:
    kva_db_close(db);
    if (rc != KVA_OK) {
        kva_alloc_fail_at(0);
        assert_int_equal(kva_db_open(f.path, KVA_DB_READ_COPY, &db, &after), KVA_OK);
        assert_int_equal(kva_db_check(db, &after), KVA_OK);
        kva_db_close(db);
    }
    drop_files(&f);
    return rc;
}

static enum kva_status read_old(void *ctx, struct kva_error *err)
{
    const struct file *f = ctx;
    struct kva_db *db = NULL;
    enum kva_status rc;

    KVA_GO(kva_db_open(f->path, KVA_DB_READ, &db, err));
    assert_int_equal(kva_db_file_version(db), 1);
    KVA_GO(kva_db_exec(db, "SELECT flags FROM outcome", err));
out:
    kva_db_close(db);
    return rc;
}

static void old_files_are_brought_up_to_date(void **state)
{
    struct file f;

    (void)state;
    old_file(&f);
    for (int i = 0; i < 2; i++) {
        fail_in_sqlite(i == 1);
        assert_true(exhaust(i ? "kva_db_migrate, SQLite" : "kva_db_migrate",
                            bring_up_to_date, &f) > 2);
        assert_true(exhaust(i ? "kva_db_migrate_copy, SQLite" : "kva_db_migrate_copy",
                            read_old, &f) > 1);
    }
    fail_in_sqlite(false);
    drop_files(&f);
    rmdir(f.dir);
}

/* ---- answers scored again ---- */

/* Short texts stand in the place of long JSON: without memory Jansson reads the last
 * digit of a real number wrong and says nothing, and its lexer ends the program in the
 * middle of an escaped string that outgrows its buffer.
 *
 * Of a metric's version 1: a task's scores are those of the new version or of the old. */
static enum kva_status score_again(void *ctx, struct kva_error *err)
{
    static const char *const AGED =
        "UPDATE sample SET meta_json = '{}'; "
        "UPDATE task SET metric_version = 1, gen_json = '{\"family\":\"niah\"}'; "
        "UPDATE score SET version = 1, value = 0.5 "
        "WHERE metric = 'match_all'; UPDATE outcome SET score = 0.5 WHERE status = 'ok'";
    static const char *const HALF =
        "SELECT 1 / (SELECT count(*) = 0 FROM outcome o JOIN cell USING(cell_id) JOIN "
        "task t USING(task_id) WHERE o.status = 'ok' AND (o.score = 0.5) <> "
        "(t.metric_version = 1))";
    const struct file *old = ctx;
    const struct kva_rescore_opts o = {.quiet = true};
    struct file f = *old;
    struct kva_db *db = NULL;
    struct kva_error after = {0};
    enum kva_status rc;

    snprintf(f.path, sizeof f.path, "%s/a.db", old->dir);
    copy_file(old->path, f.path);
    KVA_GO(kva_db_open(f.path, KVA_DB_WRITE, &db, err));
    KVA_GO(kva_db_exec(db, AGED, err));
    KVA_GO(kva_rescore(db, &o, err));
    KVA_GO(kva_db_exec(db, HALF, err));
out:
    if (rc != KVA_OK && db) {
        kva_alloc_fail_at(0);
        assert_int_equal(kva_db_check(db, &after), KVA_OK);
        assert_int_equal(kva_db_exec(db, HALF, &after), KVA_OK);
    }
    kva_db_close(db);
    drop_files(&f);
    return rc;
}

static void answers_are_scored_again(void **state)
{
    struct kva_error err = {0};
    struct kva_db *db;
    struct file f;

    (void)state;
    old_file(&f);
    OK(kva_db_open(f.path, KVA_DB_WRITE, &db, &err)); /* is brought up to date */
    kva_db_close(db);
    assert_true(exhaust("kva_rescore", score_again, &f) > 10);
    fail_in_sqlite(true);
    assert_true(exhaust("kva_rescore, SQLite", score_again, &f) > 10);
    fail_in_sqlite(false);
    drop_files(&f);
    rmdir(f.dir);
}

/* ---- SQLite's memory ---- */

static void *sql_malloc(int n)
{
    return sqlite_fails ? kva_calloc(1, (size_t)n) : malloc((size_t)n);
}

static void *sql_realloc(void *p, int n)
{
    return sqlite_fails ? kva_realloc(p, 1, (size_t)n) : realloc(p, (size_t)n);
}

static int sql_size(void *p)
{
    return (int)malloc_usable_size(p);
}

static int sql_roundup(int n)
{
    return (n + 7) & ~7;
}

static int sql_init(void *ctx)
{
    (void)ctx;
    return SQLITE_OK;
}

static void sql_shutdown(void *ctx)
{
    (void)ctx;
}

int main(int argc, char **argv)
{
    static const sqlite3_mem_methods memory = {sql_malloc,   free,        sql_realloc,
                                               sql_size,     sql_roundup, sql_init,
                                               sql_shutdown, NULL};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_stored_and_read),
        cmocka_unit_test(databases_are_merged),
        cmocka_unit_test(old_files_are_brought_up_to_date),
        cmocka_unit_test(answers_are_scored_again),
    };

    (void)argc;
    without_cache(argv);
    json_set_alloc_funcs(json_bytes, free);
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) != SQLITE_OK)
        return 1;
    kva_log_set(quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
