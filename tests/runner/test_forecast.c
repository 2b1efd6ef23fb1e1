/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_forecast.c - the time model, and what a dry run says of memory and differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/env_row.h"
#include "runner/forecast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-12))
        fail_msg("%.17g, not %.17g", got, want);
}

static void the_fit_finds_the_coefficients_it_was_made_from(void **state)
{
    struct kva_db_time rows[24];
    struct kva_time_fit fit;

    (void)state;
    for (int i = 0; i < 24; i++) {
        double n = 512 << (i % 4), g = 8 * (1 + i / 4);

        rows[i] = (struct kva_db_time){n, g, 3e5 * n + 12 * n * n + 4e6 * g};
    }
    kva_time_fit(rows, 24, &fit);
    assert_int_equal(fit.n, 24);
    near(fit.a, 3e5);
    near(fit.b, 12);
    near(fit.c, 4e6);
    near(kva_time_fit_ns(&fit, 8192, 128), 3e5 * 8192 + 12.0 * 8192 * 8192 + 4e6 * 128);
}

static void terms_that_cannot_be_told_apart_are_left_out(void **state)
{
    struct kva_db_time rows[4];
    struct kva_time_fit fit;

    (void)state;
    for (int i = 0; i < 4; i++) /* one context length: n and n^2 are the same column */
        rows[i] =
            (struct kva_db_time){1024, 10 * (i + 1), 2e5 * 1024 + 5e6 * 10 * (i + 1)};
    kva_time_fit(rows, 4, &fit);
    assert_int_equal(fit.n, 4);
    near(fit.a, 2e5);
    assert_true(fit.b == 0);
    near(fit.c, 5e6);
    for (int i = 0; i < 4; i++) /* and one answer length */
        rows[i] = (struct kva_db_time){1024, 10, 1e9};
    kva_time_fit(rows, 4, &fit);
    near(fit.a, 1e9 / 1024);
    assert_true(fit.b == 0 && fit.c == 0);
    kva_time_fit(rows, 1, &fit);
    near(kva_time_fit_ns(&fit, 2048, 50), 2e9);
    kva_time_fit(rows, 0, &fit);
    assert_int_equal(fit.n, 0);
}

static void no_coefficient_is_negative(void **state)
{
    struct kva_db_time rows[6];
    struct kva_time_fit fit;

    (void)state;
    for (int i = 0; i < 6; i++) { /* grows slower than n: b would be negative */
        double n = 256 << i;

        rows[i] = (struct kva_db_time){n, 16 + (i * 7) % 5, 1e6 * sqrt(n)};
    }
    kva_time_fit(rows, 6, &fit);
    assert_int_equal(fit.n, 6);
    assert_true(fit.a >= 0 && fit.b >= 0 && fit.c >= 0);
    assert_true(kva_time_fit_ns(&fit, 1024, 16) > 0);
}

static void memory_and_differences_of_a_plan(void **state)
{
    static const char text[] =
        "{\"schema\":1,\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"keydiff\"],"
        "\"tasks\":[\"ruler/vt@512\"],\"budgets\":[\"keep=0.5\"],"
        "\"kv\":[\"f16\",\"f32\"],\"defaults\":{\"n\":200,\"max_new_tokens\":10}}";
    struct kva_suite s;
    struct kva_plan p;
    struct kva_forecast f;
    struct kva_buf report;
    const struct kva_model_info *info;
    double token, fixed;

    (void)state;
    kva_buf_init(&report, 0);
    assert_int_equal(kva_suite_parse(text, "s", ".", NULL, &s, &report, NULL), KVA_OK);
    kva_buf_release(&report);
    assert_int_equal(kva_plan_new(&s, NULL, 1, &p, NULL), KVA_OK);
    assert_int_equal(kva_forecast(&p, NULL, 1, false, &f, NULL), KVA_OK);
    assert_true(isnan(f.seconds)); /* nothing was ever run */
    near(f.disk_bytes, (double)p.n_todo * 460);
    assert_true(f.machine_bytes > 1e8);
    info = kva_model_info(p.models[0].open[0]);
    token = 2.0 * info->layers * info->kv_heads * (info->head_dim + info->v_dim);
    fixed = (double)info->weight_bytes;
    for (int i = 0; i < p.n_cells; i++) {
        const struct kva_forecast_cell *x = &f.cell[i];
        double kv = token * 522 * (p.cells[i].kv == KVA_F32 ? 2 : 1);

        assert_true(x->peak_bytes > fixed + kv);
        assert_true(x->peak_bytes < fixed + kv + (4 << 20));
        assert_int_equal(x->pairs, 0);
        /* reports.md 4.7: sqrt(7.8489 * 0.1 / 207.8489) */
        assert_true(fabs(x->mde - 0.061451) < 1e-6);
    }
    kva_forecast_release(&f);
    kva_plan_release(&p);
    kva_suite_release(&s);
}

/* Two questions on each of three contexts: a comparison has three units. */
static void questions_of_one_context_are_one_unit_of_a_plan(void **state)
{
    char path[] = "/tmp/kva-forecast-XXXXXX.jsonl", text[400];
    int fd = mkstemps(path, 6);
    struct kva_suite s;
    struct kva_plan p;
    struct kva_forecast f;
    struct kva_buf report;

    (void)state;
    assert_true(fd >= 0);
    for (int i = 0; i < 6; i++)
        dprintf(fd,
                "{\"context\": \"The number of box %d is %d. \", \"question\": \"Which "
                "number, %d?\", \"answers\": [\"%d\"]}\n",
                i / 2, 70 + i / 2, i, 70 + i / 2);
    close(fd);
    snprintf(
        text, sizeof text,
        "{\"schema\":1,\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"keydiff\"],"
        "\"tasks\":[\"jsonl:%s\"],\"budgets\":[\"keep=0.5\"],\"defaults\":{\"n\":6}}",
        path);
    kva_buf_init(&report, 0);
    assert_int_equal(kva_suite_parse(text, "s", ".", NULL, &s, &report, NULL), KVA_OK);
    kva_buf_release(&report);
    assert_int_equal(kva_plan_new(&s, NULL, 1, &p, NULL), KVA_OK);
    assert_int_equal(kva_forecast(&p, NULL, 1, false, &f, NULL), KVA_OK);
    for (int i = 0; i < p.n_cells; i++) {
        assert_int_equal(p.cells[i].n, 6);
        assert_int_equal(f.cell[i].contexts, 3);
        /* no difference is larger than the share that differs */
        assert_true(isnan(f.cell[i].mde));
    }
    kva_forecast_release(&f);
    kva_plan_release(&p);
    kva_suite_release(&s);
    unlink(path);
}

struct planned {
    struct kva_suite s;
    struct kva_plan p;
};

static void plan_of(const char *text, struct kva_db *db, struct planned *x)
{
    struct kva_buf report;

    kva_buf_init(&report, 0);
    assert_int_equal(kva_suite_parse(text, "s", ".", NULL, &x->s, &report, NULL), KVA_OK);
    kva_buf_release(&report);
    assert_int_equal(kva_plan_new(&x->s, db, 1, &x->p, NULL), KVA_OK);
}

static void drop(struct planned *x)
{
    kva_plan_release(&x->p);
    kva_suite_release(&x->s);
}

#define SUITE(task, schedule)                                                            \
    "{\"schema\":1,\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"keydiff\"],"       \
    "\"tasks\":[\"ruler/" task "\"],\"budgets\":[\"keep=0.5\"],\"dense\":false,"         \
    "\"blind\":false,\"schedules\":[\"" schedule "\"],"                                  \
    "\"defaults\":{\"n\":2,\"max_new_tokens\":10}}"

static double seconds_of(struct planned *x, struct kva_db *db, bool probe, bool *probed)
{
    struct kva_forecast f;
    double seconds;

    assert_int_equal(kva_forecast(&x->p, db, 1, probe, &f, NULL), KVA_OK);
    seconds = f.seconds;
    *probed = f.probed[0];
    kva_forecast_release(&f);
    return seconds;
}

static void probes_tell_the_time_where_nothing_was_run(void **state)
{
    struct planned x;
    bool probed;

    (void)state;
    plan_of(SUITE("vt@512", "oneshot"), NULL, &x);
    assert_true(isnan(seconds_of(&x, NULL, false, &probed)));
    assert_false(probed);
    assert_true(seconds_of(&x, NULL, true, &probed) > 0);
    assert_true(probed);
    drop(&x);
}

/* A database of one run on this machine, as the model of `x` sees it. */
static struct kva_db *history(struct planned *x, char dir[], int64_t *run_id)
{
    struct kva_db_run run = {.uuid = "11111111-1111-4111-8111-111111111111",
                             .argv_json = "[]",
                             .config_json = "{}",
                             .started_ms = 1,
                             .shard_n = 1};
    struct kva_ops *ops = kva_model_ops(kva_plan_any_model(&x->p.models[0]));
    struct kva_env_row env;
    struct kva_db *db;
    char path[80];

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a.db", dir);
    assert_int_equal(kva_db_open(path, KVA_DB_WRITE, &db, NULL), KVA_OK);
    assert_int_equal(kva_env_row(ops->backend, ops, 1, &env, NULL), KVA_OK);
    assert_int_equal(kva_db_put_env(db, &env.row, &run.env_id, NULL), KVA_OK);
    assert_int_equal(kva_db_start_run(db, &run, run_id, NULL), KVA_OK);
    assert_int_equal(kva_plan_write(&x->p, db, *run_id, NULL), KVA_OK);
    return db;
}

static void earlier_runs_tell_it_without_probes(void **state)
{
    static const int n[] = {512, 1024, 1024, 2048}, rows[] = {100, 100, 300, 50};
    static const char *const tails[] = {"a.db", "a.db-wal", "a.db-shm", "a.db.lock"};
    const double context = 3e5 * 1024 + 12.0 * 1024 * 1024, answer = 4e6 * (10 + 32);
    char dir[] = "/tmp/kva-forecast-XXXXXX", path[80];
    struct planned x, y;
    struct kva_db *db;
    int64_t run;
    bool probed;

    (void)state;
    plan_of(SUITE("vt@512", "oneshot"), NULL, &x);
    db = history(&x, dir, &run);
    for (int i = 0; i < 4; i++)
        assert_int_equal(kva_db_put_unit_time(
                             db, run, x.p.models[0].model_id, x.p.tasks[0].task_id, i, 4,
                             n[i], n[i] + rows[i],
                             (int64_t)(3e5 * n[i] + 12.0 * n[i] * n[i] + 4e6 * rows[i]),
                             NULL),
                         KVA_OK);
    plan_of(SUITE("niah_single_1@1024", "oneshot"), db, &y);
    near(seconds_of(&y, db, true, &probed), 2 * (context + answer) / 1e9);
    assert_false(probed);
    drop(&y);
    /* cells that evict as they read share no prefill */
    plan_of(SUITE("niah_single_1@1024", "block:64\",\"block:128\",\"oneshot"), db, &y);
    near(seconds_of(&y, db, true, &probed), 2 * 3 * (context + answer) / 1e9);
    assert_false(probed);
    drop(&y);
    drop(&x);
    kva_db_close(db);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, tails[i]);
        unlink(path);
    }
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fit_finds_the_coefficients_it_was_made_from),
        cmocka_unit_test(terms_that_cannot_be_told_apart_are_left_out),
        cmocka_unit_test(no_coefficient_is_negative),
        cmocka_unit_test(memory_and_differences_of_a_plan),
        cmocka_unit_test(questions_of_one_context_are_one_unit_of_a_plan),
        cmocka_unit_test(probes_tell_the_time_where_nothing_was_run),
        cmocka_unit_test(earlier_runs_tell_it_without_probes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
