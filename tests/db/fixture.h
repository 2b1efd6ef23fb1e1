/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fixture.h - a fresh file in a fresh directory, and short ways to fill it. */
#ifndef KVA_TESTS_DB_FIXTURE_H
#define KVA_TESTS_DB_FIXTURE_H

#include "db/db.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#define OK(expr) assert_status((expr), KVA_OK, &err, __FILE__, __LINE__)
#define FAILS(code, expr)                                                                \
    do {                                                                                 \
        memset(&err, 0, sizeof err);                                                     \
        assert_status((expr), (code), &err, __FILE__, __LINE__);                         \
    } while (0)

static inline void assert_status(enum kva_status got, enum kva_status want,
                                 const struct kva_error *err, const char *file, int line)
{
    if (got != want)
        print_error("%s: %s (wanted %s)\n", kva_status_name(got), err->text,
                    kva_status_name(want));
    _assert_int_equal(got, want, file, line);
}

struct fixture {
    char dir[64], path[128];
    struct kva_db *db;
    int64_t env, model, run;
};

static inline void digest_for(const char *what, int64_t i, uint8_t out[32])
{
    char text[96];

    (void)snprintf(text, sizeof text, "%s %lld", what, (long long)i);
    kva_sha256_of(text, strlen(text), out);
}

static inline void temp_dir(char *dir, size_t cap)
{
    (void)snprintf(dir, cap, "/tmp/kva-test-db-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static inline void remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    char path[400];

    while (d && (e = readdir(d)) != NULL) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        (void)unlink(path); /* "." and ".." stay */
    }
    if (d)
        (void)closedir(d);
    (void)rmdir(dir);
}

static inline struct kva_db_env env_of(const char *host)
{
    struct kva_db_env e = {.backend = "cpu",
                           .host = host,
                           .cpu_model = "test cpu",
                           .compiler = "gcc 12",
                           .cflags = "-O2",
                           .git_commit = "abc",
                           .detail_json = "{}",
                           .cpu_logical = 2,
                           .ram_bytes = 1 << 30};

    digest_for(host, 0, e.digest);
    digest_for("perf", 0, e.perf_digest);
    return e;
}

static inline int64_t add_model(struct kva_db *db, const char *name)
{
    struct kva_db_model m = {.name = name,
                             .arch = "llama",
                             .wtype = "q4_1",
                             .detail_json = "{}",
                             .file_bytes = 98362432,
                             .n_layer = 30,
                             .n_head = 9,
                             .n_kv_head = 3,
                             .d_k = 64,
                             .d_v = 64,
                             .n_ctx_train = 8192};
    struct kva_error err = {0};
    int64_t id;

    digest_for(name, 0, m.digest);
    OK(kva_db_put_model(db, &m, &id, &err));
    return id;
}

static inline int64_t add_method(struct kva_db *db, const char *name)
{
    struct kva_db_method m = {.name = name, .impl_version = 1, .params_json = "{}"};
    struct kva_error err = {0};
    int64_t id;

    digest_for(name, 1, m.digest);
    OK(kva_db_put_method(db, &m, &id, &err));
    return id;
}

static inline struct kva_db_task task_of(const char *suite, const char *name, int ctx)
{
    struct kva_db_task t = {.suite = suite,
                            .name = name,
                            .domain = "retrieval",
                            .metric = "match_all",
                            .gen_json = "{}",
                            .source_json = "{}",
                            .ctx_target = ctx,
                            .n_available = -1,
                            .metric_version = 1};

    digest_for(name, ctx, t.digest);
    return t;
}

static inline int64_t add_task(struct kva_db *db, const char *suite, const char *name,
                               int ctx)
{
    struct kva_db_task t = task_of(suite, name, ctx);
    struct kva_error err = {0};
    int64_t id;

    OK(kva_db_put_task(db, &t, &id, &err));
    return id;
}

static inline int64_t add_sample(struct kva_db *db, int64_t task, const char *task_name,
                                 int idx)
{
    struct kva_db_sample s = {.task_id = task,
                              .idx = idx,
                              .cluster = "c0",
                              .refs_json = "[\"a\"]",
                              .meta_json = "{\"depth\":0.25}"};
    struct kva_error err = {0};
    int64_t id;

    digest_for(task_name, 1000 + idx, s.digest);
    OK(kva_db_put_sample(db, &s, &id, &err));
    return id;
}

/* keep 0: the dense cell */
static inline int64_t add_cell(struct kva_db *db, int64_t model, int64_t method,
                               int64_t task, const char *slug, double keep)
{
    struct kva_db_cell c = {.slug = slug,
                            .model_id = model,
                            .method_id = method,
                            .task_id = task,
                            .budget_kind = keep > 0 ? "keep" : "dense",
                            .budget = keep > 0 ? keep : 1,
                            .schedule = "oneshot",
                            .enforce = keep > 0 ? "physical" : "dense",
                            .visibility = "agnostic",
                            .numerics = "f32",
                            .kv = "f16",
                            .spec_json = "{}"};
    struct kva_error err = {0};
    int64_t id;

    digest_for(slug, 2, c.digest);
    digest_for("dense key", 0, c.dense_key);
    OK(kva_db_put_cell(db, &c, &id, &err));
    return id;
}

static inline int64_t add_run(struct kva_db *db, int64_t env, const char *uuid)
{
    struct kva_db_run r = {.uuid = uuid,
                           .argv_json = "[]",
                           .config_json = "{}",
                           .env_id = env,
                           .started_ms = 1000,
                           .shard_n = 1};
    struct kva_error err = {0};
    int64_t id;

    OK(kva_db_start_run(db, &r, &id, &err));
    return id;
}

/* A file with one environment, one model and one run. */
static inline void fixture_open(struct fixture *f)
{
    struct kva_db_env e = env_of("host");
    struct kva_error err = {0};

    temp_dir(f->dir, sizeof f->dir);
    (void)snprintf(f->path, sizeof f->path, "%s/a.db", f->dir);
    OK(kva_db_open(f->path, KVA_DB_WRITE, &f->db, &err));
    OK(kva_db_put_env(f->db, &e, &f->env, &err));
    f->model = add_model(f->db, "smol");
    f->run = add_run(f->db, f->env, "run-1");
}

static inline void fixture_close(struct fixture *f)
{
    kva_db_close(f->db);
    remove_dir(f->dir);
}

static const int32_t SOME_IDS[] = {5, 6, 7};
static inline struct kva_db_outcome outcome_of(int64_t cell, int64_t sample, int64_t run,
                                               double score)
{
    return (struct kva_db_outcome){.cell_id = cell,
                                   .sample_id = sample,
                                   .run_id = run,
                                   .status = "ok",
                                   .score = score,
                                   .n_ctx = 4096,
                                   .n_question = 20,
                                   .n_gen = 3,
                                   .n_cut = 4090,
                                   .kept_fnv = 0xfedcba9876543210u,
                                   .stop = "eos",
                                   .text = "abc",
                                   .ids = SOME_IDS};
}

static inline struct kva_db_outcome failed_of(int64_t cell, int64_t sample, int64_t run,
                                              const char *status)
{
    return (struct kva_db_outcome){.cell_id = cell,
                                   .sample_id = sample,
                                   .run_id = run,
                                   .status = status,
                                   .error = "it did not work"};
}

static inline int put(struct kva_db *db, const struct kva_db_outcome *o)
{
    struct kva_error err = {0};
    int stored = -1;

    OK(kva_db_put_outcomes(db, o, 1, &stored, &err));
    return stored;
}

/* First column of the first row; -999 when there is no row, -998 for NULL. */
static inline double query(struct kva_db *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    double x = -999;

    assert_int_equal(sqlite3_prepare_v2(kva_db_handle(db), sql, -1, &st, NULL),
                     SQLITE_OK);
    if (sqlite3_step(st) == SQLITE_ROW)
        x = sqlite3_column_type(st, 0) == SQLITE_NULL ? -998
                                                      : sqlite3_column_double(st, 0);
    sqlite3_finalize(st);
    return x;
}

/* SQLite's result code of a statement that should fail. */
static inline int execute(struct kva_db *db, const char *sql)
{
    return sqlite3_exec(kva_db_handle(db), sql, NULL, NULL, NULL);
}

#endif
