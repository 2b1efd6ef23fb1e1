/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_plan.c - cells, digests, units and what is left to do, on builtin models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/plan.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plan {
    struct kva_suite s;
    struct kva_plan p;
};

static void make(const char *text, const char *dir, struct kva_db *db, struct plan *x)
{
    struct kva_buf report;
    struct kva_error err = {0};

    kva_buf_init(&report, 0);
    if (kva_suite_parse(text, "suite.json", dir, NULL, &x->s, &report, &err) != KVA_OK)
        fail_msg("%s%s", report.data ? report.data : "", err.text);
    kva_buf_release(&report);
    if (kva_plan_new(&x->s, db, 1, &x->p, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

static void drop(struct plan *x)
{
    kva_plan_release(&x->p);
    kva_suite_release(&x->s);
}

#define HEAD "{\"schema\":1,\"models\":[\"builtin:retrieval\"],"
#define TWO_BY_TWO                                                                       \
    HEAD "\"methods\":[\"keydiff\",\"knorm\"],"                                          \
         "\"tasks\":[\"ruler/niah_single_1@256\",\"ruler/vt@256\"],"                     \
         "\"budgets\":[\"keep=0.5\"],\"defaults\":{\"n\":3,\"perf\":1}}"

static void units_are_sample_major_and_hold_every_cell(void **state)
{
    struct plan x;

    (void)state;
    make(TWO_BY_TWO, ".", NULL, &x);
    assert_int_equal(x.p.n_cells, 4 + 2 + 2);
    assert_int_equal(x.p.n_units, 6);
    assert_int_equal(x.p.n_planned, 8 * 3);
    assert_int_equal(x.p.n_todo, 24);
    assert_int_equal(x.p.n_done, 0);
    /* blind cells are never timed */
    assert_int_equal(x.p.n_perf_todo, 6);
    for (int u = 0; u < 6; u++) {
        const struct kva_unit *unit = &x.p.units[u];
        double n_ctx = 256, max_new = u < 3 ? 128 : 30;

        assert_int_equal(unit->task, u / 3);
        assert_int_equal(unit->n_idx, 1);
        assert_int_equal(unit->idx[0], u % 3);
        assert_int_equal(unit->n_jobs, 4 + (u % 3 == 0 ? 3 : 0));
        for (int j = 0; j < unit->n_jobs; j++) {
            const struct kva_cell *c = &x.p.cells[unit->jobs[j].cell];

            assert_int_equal(unit->jobs[j].perf, j >= 4);
            assert_int_equal(c->task, unit->task);
            assert_false(j >= 4 && c->method.blind);
        }
        assert_true(unit->cost ==
                    unit->n_jobs * (n_ctx * (1 + n_ctx / 32768) + 40 * max_new));
    }
    drop(&x);
}

static void digests_cover_what_changes_a_token_and_nothing_else(void **state)
{
    struct plan a, b, c;

    (void)state;
    make(TWO_BY_TWO, ".", NULL, &a);
    /* the same cells: more samples, parameters written out, timing asked for */
    make(HEAD "\"methods\":[{\"id\":\"x\",\"spec\":\"keydiff:sinks=0,recent=0+uniform\"},"
              "\"knorm\"],"
              "\"tasks\":[\"ruler/niah_single_1@256\",\"ruler/vt@256\"],"
              "\"budgets\":[\"keep=0.5000\"],\"defaults\":{\"n\":9}}",
         ".", NULL, &b);
    for (int i = 0; i < 8; i++) {
        assert_memory_equal(a.p.cells[i].digest, b.p.cells[i].digest, 32);
        assert_memory_equal(a.p.cells[i].dense_key, b.p.cells[i].dense_key, 32);
    }
    /* other cells: another seed */
    make(HEAD "\"methods\":[\"keydiff\",\"knorm\"],"
              "\"tasks\":[\"ruler/niah_single_1@256\",\"ruler/vt@256\"],"
              "\"budgets\":[\"keep=0.5\"],\"defaults\":{\"n\":3,\"seed\":43}}",
         ".", NULL, &c);
    for (int i = 0; i < 8; i++)
        assert_memory_not_equal(a.p.cells[i].digest, c.p.cells[i].digest, 32);
    assert_memory_not_equal(a.p.tasks[0].digest, c.p.tasks[0].digest, 32);
    drop(&a);
    drop(&b);
    drop(&c);
}

static void each_key_of_a_cell_gives_another_digest(void **state)
{
    struct plan x;

    (void)state;
    make(HEAD "\"methods\":[\"snapkv\",\"snapkv:kernel=3\"],\"tasks\":[\"ruler/vt@256\"],"
              "\"budgets\":[\"keep=0.5\",\"keep=0.25\",\"tokens=64\",\"bytes=64\"],"
              "\"schedules\":[\"oneshot\",\"block:64\"],\"visibility\":[\"agnostic\","
              "\"aware\"],"
              "\"enforce\":[\"physical\",\"mask\"],\"numerics\":[\"f32\",\"ref\"],"
              "\"kv\":[\"f16\",\"f32\"],\"defaults\":{\"n\":1}}",
         ".", NULL, &x);
    /* (2 methods * 4 budgets * 2 * 2 * 2 + dense + blind) * {f32 f16, f32 f32, ref f32}
     */
    assert_int_equal(x.p.n_cells, (64 + 2) * 3);
    for (int i = 0; i < x.p.n_cells; i++)
        for (int j = i + 1; j < x.p.n_cells; j++) {
            const struct kva_cell *a = &x.p.cells[i], *b = &x.p.cells[j];
            bool same = strcmp(a->numerics, b->numerics) == 0 && a->kv == b->kv;

            assert_memory_not_equal(a->digest, b->digest, 32);
            /* partners of one dense run agree in numerics and cache type */
            assert_int_equal(memcmp(a->dense_key, b->dense_key, 32) == 0, same);
        }
    assert_int_equal(x.p.n_units, 3);
    drop(&x);
}

static void spec_json_has_the_ruled_keys_and_is_what_was_hashed(void **state)
{
    static const char *const keys[] = {
        "budget",   "budget_ref", "chat",      "date",  "enforce",  "harmony_final",
        "kv",       "literal",    "method",    "model", "numerics", "sampling",
        "schedule", "seed",       "semantics", "task",  "thinking", "visibility"};
    struct plan x;
    json_t *o;
    uint8_t sha[32];

    (void)state;
    make(TWO_BY_TWO, ".", NULL, &x);
    o = json_loads(x.p.cells[0].spec_json, 0, NULL);
    assert_int_equal(json_object_size(o), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_non_null(json_object_get(o, keys[i]));
    json_decref(o);
    kva_sha256_of(x.p.cells[0].spec_json, strlen(x.p.cells[0].spec_json), sha);
    assert_memory_equal(sha, x.p.cells[0].digest, 32);
    assert_string_equal(
        x.p.cells[0].slug,
        "builtin:retrieval/keydiff/keep0.5/ruler.niah_single_1.256/agnostic");
    drop(&x);
}

static void a_task_counts_exactly_what_the_model_is_fed(void **state)
{
    struct plan x;
    struct kva_tok_model tm;
    struct kva_tok_api api;
    struct kva_arena arena;
    struct kva_item item;
    struct kva_prompt p;
    struct kva_question q;
    struct kva_error err = {0};
    int32_t *begin, *end;
    size_t n;

    (void)state;
    make(TWO_BY_TWO, ".", NULL, &x);
    kva_arena_init(&arena);
    memset(&item, 0, sizeof item);
    kva_tok_api_model(&tm, x.p.models[0].open[0], &api);
    assert_int_equal(strlen(api.id), 64);
    assert_int_equal(kva_task_item(x.p.tasks[0].task, 2, &api, &arena, &item, &err),
                     KVA_OK);
    assert_int_equal(
        kva_prompt_context(tm.model, NULL, item.context, item.context_len, &p, &err),
        KVA_OK);
    assert_int_equal(kva_prompt_question(tm.model, NULL, &p, item.question,
                                         item.answer_prefix, &q, &err),
                     KVA_OK);
    assert_int_equal(item.n_context, p.context.n);
    assert_int_equal(item.n_question, q.ids.n);
    assert_true(item.n_context + item.n_question + 128 <= 256);
    assert_int_equal(api.ranges(api.ctx, NULL, item.context, item.context_len, &arena,
                                &begin, &end, &n, &err),
                     KVA_OK);
    assert_int_equal(n, p.context.n);
    /* BOS stands before the text, the last token ends it */
    assert_true(end[0] <= 0);
    assert_int_equal(begin[1], 0);
    assert_int_equal(end[n - 1] + strspn(item.context + end[n - 1], " \n"),
                     item.context_len);
    for (size_t i = 2; i < n; i++)
        assert_true(begin[i] >= end[i - 1] && end[i] > begin[i]);
    kva_question_release(&q);
    kva_prompt_release(&p);
    kva_arena_release(&arena);
    drop(&x);
}

static void template_bytes_stand_before_the_context(void **state)
{
    struct plan x;
    struct kva_tok_model tm;
    struct kva_tok_api api;
    struct kva_arena arena;
    struct kva_error err = {0};
    const char *text = "\n  abc";
    int32_t *begin, *end;
    size_t n, n_context, n_question;
    int before = 0;

    (void)state;
    make("{\"schema\":1,\"models\":[{\"id\":\"builtin:tiny-llama\",\"chat\":\"llama3\"}],"
         "\"methods\":[\"keydiff\"],\"tasks\":[\"ruler/niah_single_1@2048\"],"
         "\"budgets\":[\"keep=0.5\"],\"defaults\":{\"n\":1}}",
         ".", NULL, &x);
    kva_arena_init(&arena);
    kva_tok_api_model(&tm, x.p.models[0].open[0], &api);
    assert_string_equal(kva_model_chat(tm.model)->family, "llama3");
    assert_int_equal(
        api.ranges(api.ctx, NULL, text, strlen(text), &arena, &begin, &end, &n, &err),
        KVA_OK);
    for (size_t i = 0; i < n; i++)
        before += end[i] <= 0;
    assert_true(before > 3);
    /* llama3 trims: the first token of the text is its first letter */
    assert_int_equal(begin[before], kva_model_chat(tm.model)->trim ? 3 : 0);
    assert_int_equal(end[n - 1], 6);
    assert_int_equal(api.count(api.ctx, NULL, text, strlen(text), "q", "a", &n_context,
                               &n_question, &err),
                     KVA_OK);
    assert_int_equal(n_context, n);
    assert_true(n_question > strlen(kva_model_chat(tm.model)->suffix) / 8);
    kva_arena_release(&arena);
    drop(&x);
}

static void write_file(const char *path, const char *text)
{
    assert_int_equal(kva_write_file(path, text, strlen(text), NULL), KVA_OK);
}

static void samples_of_one_context_share_a_unit(void **state)
{
    char dir[] = "/tmp/kva-test-plan-XXXXXX", path[64];
    struct plan x;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/own.jsonl", dir);
    write_file(path,
               "{\"context\":\"one two\",\"question\":\"q1\",\"answers\":[\"a\"]}\n"
               "{\"context\":\"three\",\"question\":\"q2\",\"answers\":[\"b\"]}\n"
               "{\"context\":\"one two\",\"question\":\"q3\",\"answers\":[\"c\"]}\n"
               "{\"context_ids\":[5,6],\"question_ids\":[7],\"answers\":[\"d\"]}\n"
               "{\"context_ids\":[5,6],\"question_ids\":[8],\"answers\":[\"d\"]}\n");
    /* five samples are there, seven wanted */
    kva_log_set(NULL, NULL, KVA_LOG_ERROR);
    make(HEAD "\"methods\":[\"keydiff\"],\"tasks\":[\"jsonl:own.jsonl\"],\"blind\":false,"
              "\"budgets\":[\"keep=0.5\"],\"defaults\":{\"n\":7}}",
         dir, NULL, &x);
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_int_equal(x.p.cells[0].n, 5);
    assert_int_equal(x.p.n_planned, 10);
    assert_int_equal(x.p.n_units, 3);
    assert_int_equal(x.p.units[0].n_idx, 2);
    assert_int_equal(x.p.units[0].idx[0], 0);
    assert_int_equal(x.p.units[0].idx[1], 2);
    assert_int_equal(x.p.units[0].n_jobs, 4);
    assert_int_equal(x.p.units[0].jobs[3].question, 1);
    assert_int_equal(x.p.units[1].n_idx, 1);
    assert_int_equal(x.p.units[2].n_idx, 2);
    assert_int_equal(x.p.units[2].idx[1], 4);
    drop(&x);
    unlink(path);
    rmdir(dir);
}

/* ---- with a database
 * ------------------------------------------------------------------------------ */

struct file {
    char dir[64], path[96];
    struct kva_db *db;
    int64_t run;
};

static void open_file(struct file *f)
{
    struct kva_error err = {0};
    struct kva_db_env env = {.backend = "cpu",
                             .host = "h",
                             .cpu_model = "c",
                             .compiler = "gcc",
                             .cflags = "-O2",
                             .git_commit = "abc",
                             .detail_json = "{}",
                             .cpu_logical = 2,
                             .ram_bytes = 1};
    struct kva_db_run run = {.uuid = "11111111-1111-4111-8111-111111111111",
                             .argv_json = "[]",
                             .config_json = "{}",
                             .started_ms = 1,
                             .shard_n = 1};

    snprintf(f->dir, sizeof f->dir, "/tmp/kva-test-plan-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/a.db", f->dir);
    if (kva_db_open(f->path, KVA_DB_WRITE, &f->db, &err) != KVA_OK ||
        kva_db_put_env(f->db, &env, &run.env_id, &err) != KVA_OK ||
        kva_db_start_run(f->db, &run, &f->run, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

static void close_file(struct file *f)
{
    static const char *const tails[] = {"", "-wal", "-shm", ".lock"};

    kva_db_close(f->db);
    for (int i = 0; i < 4; i++) {
        char path[128];

        snprintf(path, sizeof path, "%s%s", f->path, tails[i]);
        unlink(path);
    }
    rmdir(f->dir);
}

/* A row for (cell, sample) with this status; alone: with a timing row. */
static void put(struct file *f, struct plan *x, int cell, int idx, const char *status,
                bool alone)
{
    const struct kva_cell *c = &x->p.cells[cell];
    struct kva_db_sample s = {.task_id = x->p.tasks[c->task].task_id,
                              .idx = idx,
                              .cluster = "c",
                              .refs_json = "[]",
                              .meta_json = "{}"};
    struct kva_db_timing t = {
        .exec = KVA_EXEC_ALONE, .clock = "monotonic", .prefill_ns = 5};
    struct kva_db_memory m = {.exec = KVA_EXEC_ALONE};
    bool ok = strcmp(status, "ok") == 0;
    struct kva_db_score score = {.metric = "match_all", .version = 1, .value = 1};
    struct kva_db_outcome o = {.cell_id = c->cell_id,
                               .run_id = f->run,
                               .status = status,
                               .score = 1,
                               .stop = ok ? "eos" : NULL,
                               .error = ok ? NULL : "why",
                               .text = ok ? "7" : NULL,
                               .scores = ok ? &score : NULL,
                               .n_scores = ok};
    char name[64];
    struct kva_error err = {0};
    int stored;

    snprintf(name, sizeof name, "sample %d %d", c->task, idx);
    kva_sha256_of(name, strlen(name), s.digest);
    if (alone) {
        o.timing = &t;
        o.n_timing = 1;
        o.memory = &m;
        o.n_memory = 1;
    }
    if (kva_db_put_sample(f->db, &s, &o.sample_id, &err) != KVA_OK ||
        kva_db_put_outcomes(f->db, &o, 1, &stored, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

#define RESUME(attempts)                                                                 \
    HEAD "\"methods\":[\"keydiff\",\"knorm\"],\"tasks\":[\"ruler/"                       \
         "vt@256\"],\"dense\":false,"                                                    \
         "\"blind\":false,\"budgets\":[\"keep=0.5\"],"                                   \
         "\"defaults\":{\"n\":3,\"max_attempts\":" attempts "}}"

static void what_is_stored_is_not_planned_again(void **state)
{
    struct file f;
    struct plan x;
    struct kva_error err = {0};

    (void)state;
    open_file(&f);
    make(RESUME("2"), ".", f.db, &x);
    assert_int_equal(x.p.n_todo, 6);
    if (kva_plan_write(&x.p, f.db, f.run, &err) != KVA_OK)
        fail_msg("%s", err.text);
    put(&f, &x, 0, 0, "ok", false);
    put(&f, &x, 0, 1, "oom", false);
    put(&f, &x, 1, 0, "ok", false);
    put(&f, &x, 1, 2, "truncated", false);
    drop(&x);
    /* reports 3.7: c1s1, c2s1, c1s2 are left, in this order */
    make(RESUME("2"), ".", f.db, &x);
    assert_int_equal(x.p.n_planned, 6);
    assert_int_equal(x.p.n_done, 3);
    assert_int_equal(x.p.n_retriable, 1);
    assert_int_equal(x.p.n_todo, 3);
    assert_int_equal(x.p.n_units, 2);
    assert_int_equal(x.p.units[0].idx[0], 1);
    assert_int_equal(x.p.units[0].n_jobs, 2);
    assert_int_equal(x.p.units[0].jobs[0].cell, 0);
    assert_int_equal(x.p.units[0].jobs[1].cell, 1);
    assert_int_equal(x.p.units[1].idx[0], 2);
    assert_int_equal(x.p.units[1].n_jobs, 1);
    assert_int_equal(x.p.units[1].jobs[0].cell, 0);
    drop(&x);
    /* an attempt that was the last one is given up */
    make(RESUME("1"), ".", f.db, &x);
    assert_int_equal(x.p.n_retriable, 0);
    assert_int_equal(x.p.n_todo, 2);
    assert_int_equal(x.p.n_planned - x.p.n_done - x.p.n_todo, 1);
    drop(&x);
    close_file(&f);
}

#define PERF(n)                                                                          \
    HEAD "\"methods\":[\"keydiff\"],\"tasks\":[\"ruler/"                                 \
         "vt@256\"],\"dense\":false,\"blind\":false,"                                    \
         "\"budgets\":[\"keep=0.5\"],\"perf\":" n ",\"defaults\":{\"n\":3}}"

static void timing_alone_is_asked_for_until_it_is_there(void **state)
{
    struct file f;
    struct plan x;
    struct kva_error err = {0};

    (void)state;
    open_file(&f);
    make(PERF("2"), ".", f.db, &x);
    assert_int_equal(x.p.n_perf_todo, 2);
    if (kva_plan_write(&x.p, f.db, f.run, &err) != KVA_OK)
        fail_msg("%s", err.text);
    put(&f, &x, 0, 0, "ok", true);
    put(&f, &x, 0, 1, "ok", false);
    put(&f, &x, 0, 2, "ok", false);
    drop(&x);
    make(PERF("2"), ".", f.db, &x);
    assert_int_equal(x.p.n_todo, 0);
    assert_int_equal(x.p.n_perf_todo, 1);
    assert_int_equal(x.p.n_units, 1);
    assert_int_equal(x.p.units[0].idx[0], 1);
    assert_true(x.p.units[0].jobs[0].perf);
    drop(&x);
    close_file(&f);
}

static void writing_twice_finds_the_same_rows(void **state)
{
    struct file f;
    struct plan x, y;
    struct kva_error err = {0};

    (void)state;
    open_file(&f);
    make(TWO_BY_TWO, ".", f.db, &x);
    make(TWO_BY_TWO, ".", f.db, &y);
    if (kva_plan_write(&x.p, f.db, f.run, &err) != KVA_OK ||
        kva_plan_write(&y.p, f.db, f.run, &err) != KVA_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < x.p.n_cells; i++) {
        assert_true(x.p.cells[i].cell_id > 0);
        assert_int_equal(x.p.cells[i].cell_id, y.p.cells[i].cell_id);
    }
    drop(&x);
    drop(&y);
    close_file(&f);
}

static void the_dry_run_counts_and_estimates(void **state)
{
    struct file f;
    struct plan x;
    struct kva_buf out;
    struct kva_error err = {0};
    json_t *o;

    (void)state;
    open_file(&f);
    make(TWO_BY_TWO, ".", f.db, &x);
    kva_buf_init(&out, 0);
    assert_int_equal(kva_plan_print(&x.p, f.db, 1, false, false, &out, &err), KVA_OK);
    assert_non_null(strstr(out.data, "8 cells, 24 outcomes"));
    assert_non_null(strstr(out.data, "estimated time: unknown"));
    out.len = 0;
    if (kva_plan_write(&x.p, f.db, f.run, &err) != KVA_OK)
        fail_msg("%s", err.text);
    /* 8 cells in 2 s: 0.25 s a job, on both tasks; 24 + 6 jobs are left */
    for (int t = 0; t < 2; t++)
        assert_int_equal(kva_db_put_unit_time(f.db, f.run, x.p.models[0].model_id,
                                              x.p.tasks[t].task_id, 0, 8, 256, 100,
                                              2000000000, &err),
                         KVA_OK);
    assert_int_equal(kva_plan_print(&x.p, f.db, 1, false, true, &out, &err), KVA_OK);
    o = json_loads(out.data, 0, NULL);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "schema")),
                        "kvaudit.plan/1");
    assert_true(json_real_value(json_object_get(o, "seconds")) == 7.5);
    assert_int_equal(json_array_size(json_object_get(o, "cells")), 8);
    json_decref(o);
    kva_buf_release(&out);
    drop(&x);
    close_file(&f);
}

static void a_missing_model_file_is_named_with_the_command_that_brings_it(void **state)
{
    struct kva_suite s;
    struct kva_plan p;
    struct kva_buf report;
    struct kva_error err = {0};

    (void)state;
    setenv("KVAUDIT_CACHE", "/nowhere", 1);
    kva_buf_init(&report, 0);
    assert_int_equal(kva_suite_load("configs/smoke.json", NULL, &s, &report, &err),
                     KVA_OK);
    assert_int_equal(kva_plan_new(&s, NULL, 1, &p, &err), KVA_EIO);
    assert_non_null(strstr(err.text, "'kvaudit fetch smollm2-135m' brings it"));
    unsetenv("KVAUDIT_CACHE");
    kva_suite_release(&s);
    kva_buf_release(&report);
}

static void fake_keys_are_refused_under_a_soft_cap(void **state)
{
    struct kva_error err = {0};
    enum kva_enforce e = KVA_DENSE;

    (void)state;
    assert_true(kva_enforce_find("fakekey", &e) && e == KVA_FAKEKEY);
    assert_string_equal(kva_enforce_name(e), "fakekey");
    assert_true(kva_enforce_hides(e) && kva_enforce_hides(KVA_MASK));
    assert_false(kva_enforce_hides(KVA_QHEAD) || kva_enforce_hides(KVA_PHYSICAL));
    assert_int_equal(kva_enforce_check(e, 0, &err), KVA_OK);
    assert_int_equal(kva_enforce_check(KVA_MASK, 50, &err), KVA_OK);
    assert_int_equal(kva_enforce_check(e, 50, &err), KVA_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "caps attention logits at 50"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_sample_major_and_hold_every_cell),
        cmocka_unit_test(digests_cover_what_changes_a_token_and_nothing_else),
        cmocka_unit_test(each_key_of_a_cell_gives_another_digest),
        cmocka_unit_test(spec_json_has_the_ruled_keys_and_is_what_was_hashed),
        cmocka_unit_test(a_task_counts_exactly_what_the_model_is_fed),
        cmocka_unit_test(template_bytes_stand_before_the_context),
        cmocka_unit_test(samples_of_one_context_share_a_unit),
        cmocka_unit_test(what_is_stored_is_not_planned_again),
        cmocka_unit_test(timing_alone_is_asked_for_until_it_is_there),
        cmocka_unit_test(writing_twice_finds_the_same_rows),
        cmocka_unit_test(the_dry_run_counts_and_estimates),
        cmocka_unit_test(fake_keys_are_refused_under_a_soft_cap),
        cmocka_unit_test(a_missing_model_file_is_named_with_the_command_that_brings_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
