/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_load.c - what reports read: joined, sorted by labels, from one or several files.
 */
#include "tests/db/fixture.h"

#include <math.h>

static const struct kva_db_memory MEMORY = {.exec = KVA_EXEC_SHARED,
                                            .kv_dense_bytes = 1000,
                                            .kv_alloc_bytes = 200,
                                            .kv_peak_bytes = 250,
                                            .dev_peak_bytes = -1,
                                            .host_peak_bytes = -1,
                                            .scratch_peak_bytes = -1,
                                            .weight_bytes = -1,
                                            .dev_delta_bytes = -1};

static void load(struct kva_db **dbs, int n, struct kva_data *d)
{
    struct kva_error err = {0};

    OK(kva_data_load(dbs, n, d, &err));
}

/* Three cells of one task with two samples, written in an order that is not the labels'.
 */
static void three_cells(struct fixture *f, int64_t cell[3], int64_t sample[2],
                        int64_t *task)
{
    int64_t snap = add_method(f->db, "snapkv:window=32"),
            dense = add_method(f->db, "dense");

    *task = add_task(f->db, "ruler", "vt", 4096);
    sample[1] = add_sample(f->db, *task, "vt", 1);
    sample[0] = add_sample(f->db, *task, "vt", 0);
    cell[2] = add_cell(f->db, f->model, snap, *task, "snap 0.4", 0.4);
    cell[1] = add_cell(f->db, f->model, snap, *task, "snap 0.2", 0.2);
    cell[0] = add_cell(f->db, f->model, dense, *task, "dense", 0);
}

static void a_hand_made_file_loads_completely(void **state)
{
    struct fixture f;
    struct kva_data d;
    int64_t cell[3], sample[2], task;
    static const uint16_t HALF[] = {2, 2, 0, 4}, ALL[] = {4, 4, 4, 4},
                          NONE[] = {0, 0, 0, 0};
    struct kva_db_span_kept spans[] = {{"E0", 4, 2, 2, HALF},
                                       {"E1", 4, 2, 2, ALL},
                                       {"P0", 4, 2, 2, HALF},
                                       {"D0", 4, 2, 2, NONE}};
    struct kva_db_score scores[] = {{"gold_nll", 1, 9, NULL}, {"gold_nll", 2, 1.5, NULL}};
    struct kva_db_timing time[] = {
        {.exec = KVA_EXEC_SHARED, .score_ns = 1, .clock = "monotonic"},
        {.exec = KVA_EXEC_ALONE,
         .ttft_ns = 55,
         .decode_p50_ns = -1,
         .clock = "monotonic"}};
    struct kva_db_memory memory[] = {MEMORY, MEMORY};
    struct kva_db_outcome o;
    struct kva_error err = {0};

    (void)state;
    fixture_open(&f);
    three_cells(&f, cell, sample, &task);
    OK(kva_db_put_plan(f.db, f.run, cell[1], 2, 1, &err));
    memory[1].exec = KVA_EXEC_ALONE;
    memory[1].kv_peak_bytes = 900;
    o = outcome_of(cell[2], sample[1], f.run, 1);
    o.spans = spans;
    o.n_spans = 4;
    o.scores = scores;
    o.n_scores = 2;
    o.memory = memory;
    o.n_memory = 2;
    o.timing = time;
    o.n_timing = 2;
    assert_int_equal(put(f.db, &o), 1);
    o = failed_of(cell[1], sample[0], f.run, "oom");
    o.memory = &memory[1];
    o.n_memory = 1;
    assert_int_equal(put(f.db, &o), 1);
    o = outcome_of(cell[0], sample[1], f.run, 0.5);
    assert_int_equal(put(f.db, &o), 1);
    o = outcome_of(cell[0], sample[0], f.run, 0.25);
    o.timing = time;
    o.n_timing = 1; /* shared times are not shown */
    assert_int_equal(put(f.db, &o), 1);

    load(&f.db, 1, &d);
    assert_string_equal(d.runs[0].argv_json, "[]");
    assert_int_equal(d.n_models, 1);
    assert_string_equal(d.models[0].name, "smol");
    assert_int_equal(d.models[0].n_kv_head, 3);
    assert_int_equal(d.models[0].file_bytes, 98362432);
    assert_int_equal(d.n_tasks, 1);
    assert_string_equal(d.tasks[0].metric, "match_all");
    assert_int_equal(d.tasks[0].ctx, 4096);
    assert_false(d.tasks[0].binary);
    assert_int_equal(d.n_samples, 2);
    assert_int_equal(d.samples[0].idx, 0);
    assert_true(d.samples[0].depth == 0.25);
    assert_string_equal(d.samples[1].cluster, "c0");
    assert_int_equal(d.n_cells, 3);
    assert_string_equal(d.cells[0].slug, "dense");
    assert_string_equal(d.cells[1].slug, "snap 0.2");
    assert_string_equal(d.cells[2].slug, "snap 0.4");
    assert_int_equal(d.cells[1].n_expected, 2);
    assert_int_equal(d.cells[0].n_expected, 0);
    assert_string_equal(d.cells[2].method, "snapkv:window=32");
    assert_memory_equal(d.cells[0].dense_key, d.cells[2].dense_key, 32);
    assert_int_equal(d.n_runs, 1);
    assert_string_equal(d.runs[0].cpu_model, "test cpu");
    assert_int_equal(d.n_outcomes, 4);
    assert_true(d.outcomes[0].score == 0.25 && d.outcomes[0].sample == 0);
    assert_true(d.outcomes[1].score == 0.5 && d.outcomes[1].sample == 1);
    assert_null(d.outcomes[0].error); /* of one that did not fail */
    assert_false(d.outcomes[0].has_timing);
    assert_false(d.outcomes[0].has_memory);
    assert_true(isnan(d.outcomes[0].gold_nll) && isnan(d.outcomes[0].span_e));
    assert_string_equal(d.outcomes[2].status, "oom");
    assert_true(isnan(d.outcomes[2].score));
    assert_null(d.outcomes[2].stop);
    assert_string_equal(d.outcomes[2].error, "it did not work");
    assert_true(d.outcomes[2].has_memory && d.outcomes[2].has_alone);
    assert_int_equal(d.outcomes[2].memory.kv_peak_bytes, 900); /* only alone exists */
    assert_int_equal(d.outcomes[3].cell, 2);
    assert_int_equal(d.outcomes[3].memory.kv_peak_bytes, 250);
    assert_int_equal(d.outcomes[3].alone.kv_peak_bytes, 900);
    assert_int_equal(d.outcomes[3].memory.dev_peak_bytes, -1);
    assert_int_equal(d.outcomes[3].timing.ttft_ns, 55);
    assert_int_equal(d.outcomes[3].timing.decode_p50_ns, -1);
    assert_int_equal(d.outcomes[3].n_cut, 4090);
    assert_true(d.outcomes[3].kept_fnv == 0xfedcba9876543210u);
    assert_true(d.outcomes[3].gold_nll == 1.5); /* the newest version */
    assert_true(d.outcomes[3].span_e == 0.75);  /* (0.5 + 1) / 2 */
    assert_true(d.outcomes[3].span_payload == 0.5);
    assert_true(d.outcomes[3].span_d == 0);
    kva_data_release(&d);
    assert_int_equal(d.n_cells, 0);
    fixture_close(&f);
}

/* The same four outcomes of two tasks and two models, ids assigned in opposite order. */
static void write_in_order(struct kva_db *db, bool backwards)
{
    static const char *const MODELS[] = {"alpha", "beta"}, *const TASKS[] = {"cwe", "vt"};
    struct kva_db_env e = env_of("host");
    struct kva_error err = {0};
    int64_t env, run;

    OK(kva_db_put_env(db, &e, &env, &err));
    run = add_run(db, env, "run-x");
    for (int k = 0; k < 8; k++) {
        int i = backwards ? 7 - k : k, m = i >> 2, t = i >> 1 & 1, s = i & 1;
        char slug[64];
        int64_t task = add_task(db, "ruler", TASKS[t], 4096), cell;
        struct kva_db_outcome o;

        (void)snprintf(slug, sizeof slug, "%s %s", MODELS[m], TASKS[t]);
        cell = add_cell(db, add_model(db, MODELS[m]), add_method(db, "dense"), task, slug,
                        0);
        o = outcome_of(cell, add_sample(db, task, TASKS[t], s), run, i / 8.0);
        assert_int_equal(put(db, &o), 1);
    }
}

static void the_order_of_writing_does_not_show(void **state)
{
    struct kva_db *a, *b;
    struct kva_data x, y;
    char dir[64], path[128];
    struct kva_error err = {0};

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    OK(kva_db_open(path, KVA_DB_WRITE, &a, &err));
    (void)snprintf(path, sizeof path, "%s/b.db", dir);
    OK(kva_db_open(path, KVA_DB_WRITE, &b, &err));
    write_in_order(a, false);
    write_in_order(b, true);
    load(&a, 1, &x);
    load(&b, 1, &y);
    assert_int_equal(x.n_outcomes, 8);
    assert_int_equal(y.n_outcomes, 8);
    for (int i = 0; i < 8; i++) {
        assert_true(x.outcomes[i].score == i / 8.0);
        assert_true(y.outcomes[i].score == i / 8.0);
        assert_int_equal(x.outcomes[i].cell, y.outcomes[i].cell);
        assert_int_equal(x.outcomes[i].sample, y.outcomes[i].sample);
    }
    for (int i = 0; i < 4; i++)
        assert_string_equal(x.cells[i].slug, y.cells[i].slug);
    assert_string_equal(x.cells[0].slug, "alpha cwe");
    assert_string_equal(x.cells[3].slug, "beta vt");
    kva_data_release(&x);
    kva_data_release(&y);
    /* both at once: the same outcomes count once */
    load((struct kva_db *[]){b, a}, 2, &x);
    assert_int_equal(x.n_outcomes, 8);
    assert_int_equal(x.n_cells, 4);
    assert_int_equal(x.n_samples, 4);
    assert_int_equal(x.n_runs, 1);
    assert_true(x.outcomes[3].score == 3 / 8.0);
    kva_data_release(&x);
    kva_db_close(a);
    kva_db_close(b);
    remove_dir(dir);
}

struct two {
    struct fixture f;
    struct kva_db *b;
    int64_t cell[3], sample[2], task, run_b, cell_b[3], sample_b[2], task_b;
};

static int setup(void **state)
{
    struct two *t = calloc(1, sizeof *t);
    struct fixture other = {0};
    struct kva_db_env e = env_of("host");
    char path[160];
    struct kva_error err = {0};

    fixture_open(&t->f);
    three_cells(&t->f, t->cell, t->sample, &t->task);
    (void)snprintf(path, sizeof path, "%s/b.db", t->f.dir);
    OK(kva_db_open(path, KVA_DB_WRITE, &t->b, &err));
    other.db = t->b;
    OK(kva_db_put_env(t->b, &e, &other.env, &err));
    (void)add_model(t->b, "another"); /* so that ids differ */
    other.model = add_model(t->b, "smol");
    t->run_b = add_run(t->b, other.env, "run-b");
    three_cells(&other, t->cell_b, t->sample_b, &t->task_b);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct two *t = *state;

    kva_db_close(t->b);
    fixture_close(&t->f);
    free(t);
    return 0;
}

static void shards_join_into_one_matrix(void **state)
{
    struct two *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell[1], t->sample[0], t->f.run, 1);
    struct kva_db_outcome p = outcome_of(t->cell_b[1], t->sample_b[1], t->run_b, 0);
    struct kva_data d;

    assert_int_equal(put(t->f.db, &o), 1);
    assert_int_equal(put(t->b, &p), 1);
    load((struct kva_db *[]){t->f.db, t->b}, 2, &d);
    assert_int_equal(d.n_models, 2);
    assert_int_equal(d.n_cells, 3);
    assert_int_equal(d.n_runs, 2);
    assert_int_equal(d.n_outcomes, 2);
    assert_int_equal(d.outcomes[0].cell, d.outcomes[1].cell);
    assert_int_equal(d.outcomes[0].db, 0);
    assert_int_equal(d.outcomes[1].db, 1);
    kva_data_release(&d);
}

static void a_success_elsewhere_beats_a_failure_here(void **state)
{
    struct two *t = *state;
    struct kva_db_outcome o = failed_of(t->cell[1], t->sample[0], t->f.run, "timeout");
    struct kva_db_outcome p = outcome_of(t->cell_b[1], t->sample_b[0], t->run_b, 0.5);
    struct kva_db_memory m = MEMORY;
    struct kva_data d;

    o.memory = &m;
    o.n_memory = 1;
    assert_int_equal(put(t->f.db, &o), 1);
    assert_int_equal(put(t->b, &p), 1);
    for (int order = 0; order < 2; order++) {
        struct kva_db *dbs[] = {order ? t->b : t->f.db, order ? t->f.db : t->b};

        load(dbs, 2, &d);
        assert_int_equal(d.n_outcomes, 1);
        assert_string_equal(d.outcomes[0].status, "ok");
        assert_true(d.outcomes[0].score == 0.5);
        assert_false(d.outcomes[0].has_memory); /* nothing of the failed row leaks in */
        assert_int_equal(d.outcomes[0].db, order ? 0 : 1);
        kva_data_release(&d);
    }
}

static void alone_measurements_of_an_equal_outcome_are_taken_over(void **state)
{
    struct two *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell[1], t->sample[0], t->f.run, 0.5);
    struct kva_db_outcome p = outcome_of(t->cell_b[1], t->sample_b[0], t->run_b, 0.5);
    struct kva_db_timing time = {
        .exec = KVA_EXEC_ALONE, .ttft_ns = 5, .clock = "monotonic"};
    struct kva_data d;

    p.timing = &time;
    p.n_timing = 1;
    assert_int_equal(put(t->f.db, &o), 1);
    assert_int_equal(put(t->b, &p), 1);
    load((struct kva_db *[]){t->f.db, t->b}, 2, &d);
    assert_int_equal(d.n_outcomes, 1);
    assert_true(d.outcomes[0].has_timing);
    assert_int_equal(d.outcomes[0].timing.ttft_ns, 5);
    kva_data_release(&d);
}

static void two_different_successes_are_a_conflict(void **state)
{
    struct two *t = *state;
    static const int32_t OTHER[] = {1, 2, 3};
    struct kva_db_outcome o = outcome_of(t->cell[1], t->sample[0], t->f.run, 0.5);
    struct kva_db_outcome p = outcome_of(t->cell_b[1], t->sample_b[0], t->run_b, 0.5);
    struct kva_error err;
    struct kva_data d;

    p.ids = OTHER; /* equal scores, other tokens */
    assert_int_equal(put(t->f.db, &o), 1);
    assert_int_equal(put(t->b, &p), 1);
    FAILS(KVA_ECONFLICT, kva_data_load((struct kva_db *[]){t->f.db, t->b}, 2, &d, &err));
    assert_non_null(strstr(err.text, "snap 0.2"));
    assert_int_equal(kva_status_exit(err.code), 4);
}

static void other_metrics_and_other_samples_are_conflicts(void **state)
{
    struct two *t = *state;
    struct kva_error err;
    struct kva_data d;

    assert_int_equal(execute(t->b, "UPDATE task SET metric_version=2"), SQLITE_OK);
    FAILS(KVA_ECONFLICT, kva_data_load((struct kva_db *[]){t->f.db, t->b}, 2, &d, &err));
    assert_non_null(strstr(err.text, "rescore"));
    assert_int_equal(execute(t->b, "UPDATE task SET metric_version=1; UPDATE sample SET "
                                   "digest=randomblob(32) WHERE idx=1"),
                     SQLITE_OK);
    FAILS(KVA_ECONFLICT, kva_data_load((struct kva_db *[]){t->f.db, t->b}, 2, &d, &err));
    assert_non_null(strstr(err.text, "sample 1"));
}

/* A reader's SQLite does not know the CHECK constraints of the file. */
static void impossible_scores_and_repetitions_are_damage(void **state)
{
    static const char *const set[] = {"score=-7", "score=9e999", "rep=-5",
                                      "rep=4294967296", "rep=2147483647"};

    (void)state;
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        struct fixture f;
        int64_t cell[3], sample[2], task;
        struct kva_db_outcome o;
        struct kva_error err;
        struct kva_data d;
        char sql[128];

        fixture_open(&f);
        three_cells(&f, cell, sample, &task);
        o = outcome_of(cell[0], sample[0], f.run, 0.5);
        assert_int_equal(put(f.db, &o), 1);
        (void)snprintf(sql, sizeof sql,
                       "PRAGMA ignore_check_constraints=ON; UPDATE outcome SET %s",
                       set[i]);
        (void)execute(f.db, sql);
        FAILS(KVA_EDAMAGED, kva_data_load(&f.db, 1, &d, &err));
        assert_non_null(strstr(err.text, "doctor --db"));
        fixture_close(&f);
    }
}

/* Votes are read of sampled cells alone; what is no JSON says nothing about sampling. */
static void how_answers_are_drawn_is_read_from_the_specification(void **state)
{
    static const struct {
        const char *spec, *sampling;
        bool votes;
    } w[] = {{"{\"sampling\":\"t0.6-p0.95\"}", "t0.6-p0.95", true},
             {"{\"sampling\":\"greedy\"}", "greedy", false},
             {"{\"sampling\":7}", "greedy", true},
             {"{\"sampling\":\"\"}", "greedy", true},
             {"{}", "greedy", false},
             {"not json", "greedy", false}};

    (void)state;
    for (size_t i = 0; i < sizeof w / sizeof w[0]; i++) {
        struct fixture f;
        int64_t cell[3], sample[2], task;
        struct kva_db_outcome o;
        struct kva_db_score score = {"match_all", 1, 0.5, "12"};
        struct kva_data d;
        char sql[160];

        fixture_open(&f);
        three_cells(&f, cell, sample, &task);
        o = outcome_of(cell[0], sample[0], f.run, 0.5);
        o.scores = &score;
        o.n_scores = 1;
        assert_int_equal(put(f.db, &o), 1);
        (void)snprintf(sql, sizeof sql,
                       "PRAGMA ignore_check_constraints=ON; UPDATE cell SET "
                       "spec_json='%s'",
                       w[i].spec);
        (void)execute(f.db, sql);
        load(&f.db, 1, &d);
        assert_string_equal(kva_data_sampling(&d.cells[0]), w[i].sampling);
        assert_int_equal(d.outcomes[0].extracted != NULL, w[i].votes);
        kva_data_release(&d);
        fixture_close(&f);
    }
}

/* What a plan assumes to differ counts samples, and no draw of one twice. */
static void draws_of_a_sample_are_one_pair_of_the_forecast(void **state)
{
    struct fixture f;
    int64_t cell[3], sample[2], task, pairs, differ;
    struct kva_db_outcome o;
    struct kva_error err = {0};
    uint8_t digest[32];

    (void)state;
    fixture_open(&f);
    three_cells(&f, cell, sample, &task);
    (void)execute(f.db, "UPDATE cell SET enforce='dense' WHERE slug='dense'; "
                        "UPDATE cell SET dense_key=(SELECT dense_key FROM cell WHERE "
                        "slug='dense')");
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            for (int c = 0; c < 2; c++) {
                o = outcome_of(cell[c], sample[i], f.run, c && i ? 0.5 : 1);
                o.rep = k;
                assert_int_equal(put(f.db, &o), 1);
            }
    (void)execute(f.db, "UPDATE model SET digest=zeroblob(32); UPDATE task SET "
                        "digest=zeroblob(32)");
    memset(digest, 0, sizeof digest);
    OK(kva_db_discordant(f.db, digest, digest, &pairs, &differ, &err));
    assert_int_equal(pairs, 2);
    assert_int_equal(differ, 1);
    fixture_close(&f);
}

static void an_empty_file_loads_as_nothing(void **state)
{
    char dir[64], path[128];
    struct kva_error err = {0};
    struct kva_data d;
    struct kva_db *db;

    (void)state;
    temp_dir(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
    load(&db, 1, &d);
    assert_int_equal(d.n_models + d.n_tasks + d.n_cells + d.n_outcomes + d.n_runs, 0);
    kva_data_release(&d);
    kva_db_close(db);
    remove_dir(dir);
}

static void running_out_of_memory_while_loading_leaks_nothing(void **state)
{
    struct two *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell[1], t->sample[0], t->f.run, 0.5);
    struct kva_error err;
    struct kva_data d;
    int failures = 0;

    assert_int_equal(put(t->f.db, &o), 1);
    for (long n = 1; n < 10000; n++) {
        enum kva_status rc;

        memset(&err, 0, sizeof err);
        kva_alloc_fail_at(n);
        rc = kva_data_load(&t->f.db, 1, &d, &err);
        kva_alloc_fail_at(0);
        if (rc == KVA_OK) {
            assert_int_equal(d.n_outcomes, 1);
            kva_data_release(&d);
            break;
        }
        assert_int_equal(rc, KVA_ENOMEM);
        assert_int_equal(err.code, KVA_ENOMEM);
        failures++;
    }
    assert_in_range(failures, 10, 9000);
}

/* 100,000 outcomes with everything that hangs on them. */
static void a_hundred_thousand_outcomes_load_in_seconds(void **state)
{
    enum { CELLS = 100, SAMPLES = 1000 };
    struct fixture f;
    struct kva_data d;
    struct kva_error err = {0};
    static struct kva_db_outcome o[CELLS];
    int64_t cell[CELLS], task;
    struct kva_db_memory m = MEMORY;
    struct kva_db_score score[2] = {{"match_all", 1, 0.5, NULL},
                                    {"gold_nll", 1, 1.25, NULL}};
    static const uint16_t KEPT[90] = {1, 1};
    struct kva_db_span_kept span = {"E0", 4, 30, 3, KEPT};
    uint64_t start;
    double seconds;

    (void)state;
    fixture_open(&f);
    assert_int_equal(execute(f.db, "PRAGMA synchronous=OFF"), SQLITE_OK);
    OK(kva_db_begin(f.db, &err));
    task = add_task(f.db, "ruler", "vt", 4096);
    for (int c = 0; c < CELLS; c++) {
        char slug[32];

        (void)snprintf(slug, sizeof slug, "m%d", c);
        cell[c] = add_cell(f.db, f.model, add_method(f.db, slug), task, slug, 0.2);
    }
    for (int s = 0; s < SAMPLES; s++) {
        int64_t sample = add_sample(f.db, task, "vt", s);
        int stored;

        for (int c = 0; c < CELLS; c++) {
            o[c] = outcome_of(cell[c], sample, f.run, (c + s) % 2);
            o[c].memory = &m;
            o[c].n_memory = 1;
            o[c].scores = score;
            o[c].n_scores = 2;
            o[c].spans = &span;
            o[c].n_spans = s % 4 == 0;
        }
        OK(kva_db_put_outcomes(f.db, o, CELLS, &stored, &err));
        assert_int_equal(stored, CELLS);
    }
    OK(kva_db_commit(f.db, &err));
    start = kva_cpu_ns();
    load(&f.db, 1, &d);
    seconds = (double)(kva_cpu_ns() - start) / 1e9;
    print_message("loaded %d outcomes in %.2f s\n", d.n_outcomes, seconds);
    assert_int_equal(d.n_outcomes, CELLS * SAMPLES);
    assert_true(d.outcomes[CELLS * SAMPLES - 1].has_memory);
    assert_true(d.outcomes[777].gold_nll == 1.25);
    assert_true(seconds < 6); /* "a couple of seconds", of processor time */
    kva_data_release(&d);
    fixture_close(&f);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hand_made_file_loads_completely),
        cmocka_unit_test(the_order_of_writing_does_not_show),
        T(shards_join_into_one_matrix),
        T(a_success_elsewhere_beats_a_failure_here),
        T(alone_measurements_of_an_equal_outcome_are_taken_over),
        T(two_different_successes_are_a_conflict),
        T(other_metrics_and_other_samples_are_conflicts),
        cmocka_unit_test(impossible_scores_and_repetitions_are_damage),
        cmocka_unit_test(how_answers_are_drawn_is_read_from_the_specification),
        cmocka_unit_test(draws_of_a_sample_are_one_pair_of_the_forecast),
        cmocka_unit_test(an_empty_file_loads_as_nothing),
        T(running_out_of_memory_while_loading_leaks_nothing),
        cmocka_unit_test(a_hundred_thousand_outcomes_load_in_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
