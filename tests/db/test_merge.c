/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_merge.c - files become one: in any order, cut in any way, again, in conflict. */
#include "tests/db/fixture.h"
#include "db/db_internal.h"

/* What a file says, without its ids. */
static const char *const CONTENT[] = {
    "SELECT uuid, started_ms, status, ended_ms, hex(e.digest) FROM run JOIN env e "
    "USING(env_id) ORDER BY 1",
    "SELECT hex(c.digest), slug, hex(m.digest), hex(h.digest), hex(t.digest) FROM cell c "
    "JOIN model m USING(model_id) JOIN method h USING(method_id) JOIN task t "
    "USING(task_id) ORDER BY 1",
    "SELECT hex(s.digest), hex(t.digest), idx FROM sample s JOIN task t USING(task_id) "
    "ORDER BY 1",
    "SELECT hex(c.digest), hex(s.digest), rep, r.uuid, attempt, o.status, score, stop, "
    "kept_fnv, flags, hex(gen_sha256), error, text, hex(token_ids), "
    "(SELECT group_concat(metric||version||'='||value||coalesce(extracted,'')) FROM "
    "(SELECT * FROM score x WHERE x.outcome_id=o.outcome_id ORDER BY metric, version)), "
    "(SELECT group_concat(exec||kv_peak_bytes||' '||audit) FROM (SELECT * FROM memory x "
    "WHERE x.outcome_id=o.outcome_id ORDER BY exec)), "
    "(SELECT group_concat(exec||coalesce(ttft_ns,'-')) FROM (SELECT * FROM timing x "
    "WHERE "
    "x.outcome_id=o.outcome_id ORDER BY exec)), "
    "(SELECT group_concat(span||hex(kept)) FROM (SELECT * FROM span_kept x WHERE "
    "x.outcome_id=o.outcome_id ORDER BY span)), "
    "(SELECT group_concat(layer||hex(bits)) FROM (SELECT * FROM kept x WHERE "
    "x.outcome_id=o.outcome_id ORDER BY layer)) "
    "FROM outcome o JOIN cell c USING(cell_id) JOIN sample s USING(sample_id) JOIN run r "
    "USING(run_id) LEFT JOIN generation USING(outcome_id) ORDER BY 1, 2, 3",
    "SELECT uuid, hex(c.digest), n_sample, n_rep FROM plan JOIN run USING(run_id) JOIN "
    "cell c USING(cell_id) ORDER BY 1, 2",
    "SELECT uuid, hex(m.digest), hex(t.digest), idx, ns FROM unit_time JOIN run "
    "USING(run_id) JOIN model m USING(model_id) JOIN task t USING(task_id) ORDER BY "
    "1, 2, 3, 4, 5",
    "SELECT uuid, ts_ms, msg FROM event LEFT JOIN run USING(run_id) ORDER BY 1, 2, 3",
    "SELECT uuid, hex(c.digest), phase, rep, ord, ns FROM perf_rep JOIN run "
    "USING(run_id) JOIN cell c USING(cell_id) ORDER BY 1, 2, 3, 4",
    "SELECT uuid, hex(c.digest), method, impl, claim, verdict, value FROM an_claim JOIN "
    "run USING(run_id) JOIN cell c USING(cell_id) ORDER BY 1, 2, 3, 4, 5",
    "SELECT uuid, scorer, doc_tokens, layer, kv_head, removed FROM an_profile p JOIN run "
    "USING(run_id) LEFT JOIN an_profile_cell USING(profile_id) ORDER BY 1, 2, 3, 4, 5",
    "SELECT x.scorer, y.scorer, ratio_idx, mad FROM an_transfer JOIN an_profile x ON "
    "x.profile_id=profile_x JOIN an_profile y ON y.profile_id=profile_y ORDER BY 1, 2, 3",
    "SELECT hex(cell_digest), hex(sample_digest), rep, src, score FROM merge_conflict "
    "ORDER BY 1, 2, 3, 4",
};

static int to_text(void *out, int n, char **value, char **name)
{
    (void)name;
    for (int i = 0; i < n; i++)
        kva_buf_printf(out, "%s|", value[i] ? value[i] : "NULL");
    kva_buf_putc(out, '\n');
    return 0;
}

static void content_of(struct kva_db *db, struct kva_buf *out)
{
    char *why = NULL;

    kva_buf_init(out, 0);
    for (size_t i = 0; i < sizeof CONTENT / sizeof CONTENT[0]; i++)
        if (sqlite3_exec(kva_db_handle(db), CONTENT[i], to_text, out, &why) != SQLITE_OK)
            fail_msg("%s", why);
}

static void same_content(struct kva_db *db, const struct kva_buf *want)
{
    struct kva_buf got;

    content_of(db, &got);
    assert_string_equal(got.data, want->data);
    kva_buf_release(&got);
}

struct place {
    char dir[64], path[10][80];
};

static void place_open(struct place *p)
{
    temp_dir(p->dir, sizeof p->dir);
    for (int i = 0; i < 10; i++)
        (void)snprintf(p->path[i], sizeof p->path[i], "%s/%d.db", p->dir, i);
}

static struct kva_db *open_db(const char *path)
{
    struct kva_db *db;
    struct kva_error err = {0};

    OK(kva_db_open(path, KVA_DB_WRITE, &db, &err));
    /* these tests are about content, not about a power cut */
    assert_int_equal(execute(db, "PRAGMA synchronous=OFF"), SQLITE_OK);
    return db;
}

static struct kva_db_merged merge(struct kva_db *db, const char *path)
{
    struct kva_db_merged m;
    struct kva_error err = {0};

    OK(kva_db_merge(db, path, KVA_DB_CONFLICT_ERROR, &m, &err));
    OK(kva_db_check(db, &err));
    return m;
}

/* ---- a made-up study: 2 tasks x 12 samples x 3 cells, one file per shard ---- */

enum { SAMPLES = 12, CELLS = 3 };

static struct kva_db_memory some_memory(enum kva_db_exec exec, int64_t peak)
{
    return (struct kva_db_memory){.exec = exec,
                                  .kv_dense_bytes = 1000,
                                  .kv_budget_bytes = 500,
                                  .kv_live_bytes = 480,
                                  .kv_alloc_bytes = 512,
                                  .kv_peak_bytes = peak,
                                  .scratch_peak_bytes = -1};
}

static struct kva_db_timing some_timing(int64_t ttft)
{
    return (struct kva_db_timing){.exec = KVA_EXEC_ALONE,
                                  .prefill_ns = 5,
                                  .score_ns = -1,
                                  .evict_ns = -1,
                                  .question_ns = -1,
                                  .ttft_ns = ttft,
                                  .decode_ns = -1,
                                  .decode_p50_ns = -1,
                                  .decode_p99_ns = -1};
}

static void put_unit(struct kva_db *db, int64_t run, const int64_t cell[CELLS],
                     int64_t sample, int i)
{
    static const uint16_t KEPT[] = {1, 2, 3, 4};
    static const uint8_t BITS[] = {0xa5, 0x0f};
    static const uint8_t *const LAYERS[] = {BITS, BITS};

    for (int c = 0; c < CELLS; c++) {
        struct kva_db_outcome o = outcome_of(cell[c], sample, run, (i + c) % 5 / 4.0);
        struct kva_db_memory m[2] = {some_memory(KVA_EXEC_SHARED, 600 + i),
                                     some_memory(KVA_EXEC_ALONE, 700 + i)};
        struct kva_db_timing t = some_timing(1000 + i);
        struct kva_db_score s[2] = {{"match_all", 1, o.score, NULL},
                                    {"gold_nll", 1, 0.25 * i, NULL}};
        struct kva_db_span_kept span = {"E0", 8, 2, 2, KEPT};

        if ((i + c) % 7 == 3)
            o = failed_of(cell[c], sample, run, "oom");
        else {
            o.scores = s;
            o.n_scores = 2;
            o.timing = &t;
            o.n_timing = i % 3 == 0;
            o.spans = &span;
            o.n_spans = 1;
            o.flags = c == 1 ? KVA_DB_FELL_BACK : 0;
            o.kept_fnv += (uint64_t)c;
            if (i == 0) {
                o.kept_bits = LAYERS;
                o.kept_layers = 2;
                o.kept_heads = 1;
                o.kept_tok = 16;
            }
        }
        o.memory = m;
        o.n_memory = i % 3 == 0 ? 2 : 1;
        assert_int_equal(put(db, &o), 1);
    }
}

static void put_instruments(struct kva_db *db, int64_t run, int64_t model, int64_t cell)
{
    struct kva_error err = {0};
    struct kva_db_value claim[] = {
        kva_db_int(run),   kva_db_int(cell),      kva_db_text("m"), kva_db_text("held"),
        kva_db_text("K1"), kva_db_text("UPHELD"), kva_db_real(0.5)};
    struct kva_db_value rep[] = {kva_db_int(cell), kva_db_int(run), kva_db_text("ttft"),
                                 kva_db_int(0),    kva_db_int(3),   kva_db_int(77),
                                 kva_db_int(320)};
    int64_t id[2];

    OK(kva_db_put_row(db, "an_claim", "run_id,cell_id,method,impl,claim,verdict,value",
                      claim, 7, NULL, &err));
    OK(kva_db_put_row(db, "perf_rep", "cell_id,run_id,phase,rep,ord,ns,work", rep, 7,
                      NULL, &err));
    for (int i = 0; i < 2; i++) {
        struct kva_db_value profile[] = {
            kva_db_int(run),   kva_db_int(model),   kva_db_text(i ? "snapkv" : "tova"),
            kva_db_text("{}"), kva_db_int(4),       kva_db_int(8),
            kva_db_int(16),    kva_db_text("mean"), kva_db_blob("doc", 3),
            kva_db_int(9),     kva_db_int(2)};
        struct kva_db_value one[5];

        OK(kva_db_put_row(
            db, "an_profile",
            "run_id,model_id,scorer,params_json,sink,win,kmax,mode,doc_hash,"
            "doc_tokens,m",
            profile, 11, &id[i], &err));
        one[0] = kva_db_int(id[i]);
        for (int k = 1; k < 5; k++)
            one[k] = kva_db_int(k + i);
        OK(kva_db_put_row(db, "an_profile_cell",
                          "profile_id,ratio_idx,layer,kv_head,removed", one, 5, NULL,
                          &err));
    }
    OK(kva_db_put_row(db, "an_transfer", "profile_x,profile_y,ratio_idx,mad",
                      (struct kva_db_value[]){kva_db_int(id[0]), kva_db_int(id[1]),
                                              kva_db_int(0), kva_db_real(0.5)},
                      4, NULL, &err));
}

/* Shard k of n (unit u belongs to shard of[u]), written in an order of its own. */
static void write_shard(const char *path, int k, const int *of, unsigned *seed)
{
    static const char *const TASKS[] = {"niah", "vt"};
    struct kva_db *db = open_db(path);
    struct kva_db_env e = env_of(k % 2 ? "one" : "two");
    struct kva_error err = {0};
    int64_t env, model, run, cell[2][CELLS], task[2];
    char uuid[32];

    OK(kva_db_put_env(db, &e, &env, &err));
    model = add_model(db, "smol");
    (void)snprintf(uuid, sizeof uuid, "run-%d", k);
    run = add_run(db, env, uuid);
    for (int i = 0; i < 2; i++) {
        int t = (i + k) % 2; /* ids differ from file to file */

        task[t] = add_task(db, "ruler", TASKS[t], 4096);
        for (int c = 0; c < CELLS; c++) {
            char slug[64];

            (void)snprintf(slug, sizeof slug, "%s/%d", TASKS[t], (c + k) % CELLS);
            cell[t][(c + k) % CELLS] =
                add_cell(db, model, add_method(db, (c + k) % CELLS ? "snapkv" : "dense"),
                         task[t], slug, (c + k) % CELLS / 4.0);
            OK(kva_db_put_plan(db, run, cell[t][(c + k) % CELLS], SAMPLES, 1, &err));
        }
    }
    *seed = *seed * 1103515245u + 12345u;
    for (int u = 0; u < 2 * SAMPLES; u++) {
        int at = (u + (int)(*seed / 65536u)) % (2 * SAMPLES), t = at / SAMPLES;
        int64_t sample;

        if (of[at] != k)
            continue;
        sample = add_sample(db, task[t], TASKS[t], at % SAMPLES);
        put_unit(db, run, cell[t], sample, at % SAMPLES);
        OK(kva_db_put_unit_time(db, run, model, task[t], at % SAMPLES, CELLS, 4096, 10,
                                1000 + at, &err));
    }
    OK(kva_db_event(db, run, "info", "a note", &err));
    if (k == 0)
        put_instruments(db, run, model, cell[0][1]);
    OK(kva_db_end_run(db, run, "done", 0, &err));
    /* times of day differ from run to run of this test, not from file to file */
    assert_int_equal(execute(db,
                             "UPDATE run SET ended_ms=2000; UPDATE event SET ts_ms=7; "
                             "UPDATE outcome SET finished_ms=1000"),
                     SQLITE_OK);
    kva_db_close(db);
}

static void shuffle(int *v, int n, unsigned *seed)
{
    for (int i = n - 1; i > 0; i--) {
        int j, x = v[i];

        *seed = *seed * 1103515245u + 12345u;
        j = (int)(*seed / 65536u % (unsigned)(i + 1));
        v[i] = v[j];
        v[j] = x;
    }
}

static void shards_merged_in_any_order_hold_the_same(void **state)
{
    static const int CUTS[] = {1, 2, 3, 7};
    unsigned seed = 11;

    (void)state;
    for (size_t c = 0; c < sizeof CUTS / sizeof CUTS[0]; c++) {
        int n = CUTS[c], of[2 * SAMPLES], order[7];
        struct kva_buf want;
        struct place p;

        place_open(&p);
        for (int u = 0; u < 2 * SAMPLES; u++) {
            seed = seed * 1103515245u + 12345u;
            of[u] = (int)(seed / 65536u % (unsigned)n);
        }
        for (int k = 0; k < n; k++) {
            order[k] = k;
            write_shard(p.path[k], k, of, &seed);
        }
        for (int round = 0; round < 4; round++) {
            struct kva_db *db = open_db(p.path[8]);
            int64_t total = 0;

            for (int k = 0; k < n; k++)
                total += merge(db, p.path[order[k]]).n_new;
            assert_int_equal(total, 2 * SAMPLES * CELLS);
            if (round == 0) {
                content_of(db, &want);
                assert_non_null(strstr(want.data, "gold_nll"));
                assert_non_null(strstr(want.data, "UPHELD"));
            } else {
                same_content(db, &want);
            }
            for (int k = 0; k < n; k++) { /* again: nothing changes */
                struct kva_db_merged m = merge(db, p.path[order[k]]);

                assert_int_equal(m.n, m.n_known);
            }
            same_content(db, &want);
            assert_true(query(db, "SELECT count(*) FROM v_todo WHERE n_todo<0") == 0);
            kva_db_close(db);
            (void)unlink(p.path[8]);
            shuffle(order, n, &seed);
        }
        kva_buf_release(&want);
        remove_dir(p.dir);
    }
}

static void merged_files_merge_like_their_parts(void **state)
{
    int of[2 * SAMPLES];
    unsigned seed = 5;
    struct kva_buf want;
    struct kva_db *db;
    struct place p;

    (void)state;
    place_open(&p);
    for (int u = 0; u < 2 * SAMPLES; u++)
        of[u] = u % 3;
    for (int k = 0; k < 3; k++)
        write_shard(p.path[k], k, of, &seed);
    db = open_db(p.path[5]); /* (0 1) */
    (void)merge(db, p.path[0]);
    (void)merge(db, p.path[1]);
    kva_db_close(db);
    db = open_db(p.path[6]); /* (2 (0 1)) */
    (void)merge(db, p.path[2]);
    (void)merge(db, p.path[5]);
    content_of(db, &want);
    kva_db_close(db);
    db = open_db(p.path[7]); /* (((0 1) 1) 2) */
    (void)merge(db, p.path[5]);
    (void)merge(db, p.path[1]);
    (void)merge(db, p.path[2]);
    same_content(db, &want);
    kva_db_close(db);
    kva_buf_release(&want);
    remove_dir(p.dir);
}

/* ---- one outcome in several files ---- */

/* A file with one cell and sample; what it holds is the caller's. */
struct one {
    struct kva_db *db;
    int64_t run, cell, sample;
};

static struct one one_open(const char *path, const char *uuid, int64_t started)
{
    struct kva_db_env e = env_of(uuid);
    struct kva_error err = {0};
    struct one f = {.db = open_db(path)};
    int64_t env, task, model;
    char sql[80];

    OK(kva_db_put_env(f.db, &e, &env, &err));
    model = add_model(f.db, "smol");
    f.run = add_run(f.db, env, uuid);
    (void)snprintf(sql, sizeof sql, "UPDATE run SET started_ms=%lld", (long long)started);
    assert_int_equal(execute(f.db, sql), SQLITE_OK);
    task = add_task(f.db, "ruler", "niah", 4096);
    f.cell = add_cell(f.db, model, add_method(f.db, "snapkv"), task, "cell", 0.5);
    f.sample = add_sample(f.db, task, "niah", 0);
    return f;
}

/* Merges 0, 1, ... n-1 in every order into fresh files; all must say the same. */
static void every_order(struct place *p, int n, enum kva_db_on_conflict how,
                        struct kva_buf *content)
{
    int order[3] = {0, 1, 2}, rounds = n == 3 ? 6 : 2;

    for (int round = 0; round < rounds; round++) {
        struct kva_db *db = open_db(p->path[9]);
        struct kva_error err = {0};
        struct kva_db_merged m;

        if (n == 3 && round) {
            static const int ALL[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

            memcpy(order, ALL[round], sizeof order);
        } else if (round) {
            order[0] = 1;
            order[1] = 0;
        }
        for (int i = 0; i < n; i++)
            OK(kva_db_merge(db, p->path[order[i]], how, &m, &err));
        OK(kva_db_check(db, &err));
        if (round == 0)
            content_of(db, content);
        else
            same_content(db, content);
        kva_db_close(db);
        (void)unlink(p->path[9]);
    }
}

static void a_finished_outcome_beats_a_failed_one(void **state)
{
    struct kva_buf content;
    struct kva_db_outcome o;
    struct place p;

    (void)state;
    place_open(&p);
    for (int i = 0; i < 3; i++) {
        struct kva_db_memory m = some_memory(KVA_EXEC_SHARED, i);
        char uuid[16];
        struct one f;

        (void)snprintf(uuid, sizeof uuid, "run-%d", i);
        f = one_open(p.path[i], uuid, 1000 + i);
        o = i == 1 ? outcome_of(f.cell, f.sample, f.run, 0.75)
                   : failed_of(f.cell, f.sample, f.run, i ? "timeout" : "oom");
        o.memory = &m;
        o.n_memory = 1;
        (void)put(f.db, &o);
        if (i == 0) /* a second attempt */
            (void)put(f.db, &o);
        kva_db_close(f.db);
    }
    every_order(&p, 3, KVA_DB_CONFLICT_ERROR, &content);
    assert_non_null(strstr(content.data, "|0|run-1|1|ok|0.75|eos|"));
    assert_non_null(strstr(content.data, "|shared1 0|"));
    assert_null(strstr(content.data, "oom"));
    kva_buf_release(&content);
    remove_dir(p.dir);
}

static void of_two_failures_the_later_one_stays(void **state)
{
    struct kva_buf content;
    struct place p;

    (void)state;
    place_open(&p);
    for (int i = 0; i < 2; i++) {
        struct one f = one_open(p.path[i], i ? "run-b" : "run-a", 1000);
        struct kva_db_outcome o =
            failed_of(f.cell, f.sample, f.run, i ? "oom" : "timeout");

        (void)put(f.db, &o);
        assert_int_equal(execute(f.db, i ? "UPDATE outcome SET finished_ms=5"
                                         : "UPDATE outcome SET finished_ms=9"),
                         SQLITE_OK);
        kva_db_close(f.db);
    }
    every_order(&p, 2, KVA_DB_CONFLICT_ERROR, &content);
    assert_non_null(strstr(content.data, "timeout"));
    assert_null(strstr(content.data, "oom"));
    kva_buf_release(&content);
    remove_dir(p.dir);
}

/* Equal tokens by three runs: the earliest run is named, measurements are joined, and of
 * two the larger stays. */
static void measurements_of_the_same_outcome_are_joined(void **state)
{
    struct kva_buf content;
    struct place p;

    (void)state;
    place_open(&p);
    for (int i = 0; i < 3; i++) {
        char uuid[16];
        struct one f;
        struct kva_db_outcome o;
        struct kva_db_memory m[2] = {some_memory(KVA_EXEC_SHARED, 600),
                                     some_memory(KVA_EXEC_ALONE, 700 + i)};
        struct kva_db_timing t = some_timing(i == 1 ? 2000 : 1500);

        (void)snprintf(uuid, sizeof uuid, "run-%d", i);
        f = one_open(p.path[i], uuid, 1003 - i);
        o = outcome_of(f.cell, f.sample, f.run, 1);
        o.memory = m;
        o.n_memory = i ? 2 : 1;
        o.timing = &t;
        o.n_timing = i ? 1 : 0;
        (void)put(f.db, &o);
        kva_db_close(f.db);
    }
    every_order(&p, 3, KVA_DB_CONFLICT_ERROR, &content);
    assert_non_null(strstr(content.data, "|0|run-2|1|ok|"));
    assert_non_null(strstr(content.data, "|alone702 0,shared600 0|alone2000|"));
    kva_buf_release(&content);
    remove_dir(p.dir);
}

/* ---- conflicts ---- */

static void two_answers(struct place *p)
{
    place_open(p);
    for (int i = 0; i < 2; i++) {
        struct one f = one_open(p->path[i], i ? "run-b" : "run-a", 1000 + i);
        struct kva_db_outcome o = outcome_of(f.cell, f.sample, f.run, i ? 0 : 1);
        static const int32_t OTHER[] = {9, 9, 9};

        if (i)
            o.ids = OTHER;
        (void)put(f.db, &o);
        kva_db_close(f.db);
    }
}

static void a_conflict_refuses_the_input_and_is_noted(void **state)
{
    struct kva_error err;
    struct kva_db_merged m;
    struct kva_buf before;
    struct kva_db *db;
    struct place p;

    (void)state;
    two_answers(&p);
    db = open_db(p.path[9]);
    (void)merge(db, p.path[0]);
    content_of(db, &before);
    for (int i = 0; i < 2; i++) { /* twice: one note */
        FAILS(KVA_ECONFLICT,
              kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_ERROR, &m, &err));
        assert_int_equal(kva_status_exit(err.code), 4);
        assert_int_equal(m.n_conflict, 1);
        assert_non_null(strstr(err.text, "cell cell sample 0 rep 0 (ok 0 against ok 1)"));
        assert_non_null(strstr(err.text, p.path[1]));
        assert_true(query(db, "SELECT count(*) FROM merge_conflict WHERE src='run-b' AND "
                              "score=0") == 1);
        assert_true(query(db, "SELECT json_extract(detail_json,'$.stored_score') FROM "
                              "merge_conflict") == 1);
    }
    assert_true(query(db, "SELECT count(*) FROM run") == 1);
    assert_int_equal(execute(db, "DELETE FROM merge_conflict"), SQLITE_OK);
    same_content(db, &before);
    kva_buf_release(&before);
    kva_db_close(db);
    remove_dir(p.dir);
}

static void keep_leaves_what_is_stored(void **state)
{
    struct kva_error err = {0};
    struct kva_db_merged m;
    struct kva_buf once;
    struct kva_db *db;
    struct place p;

    (void)state;
    two_answers(&p);
    db = open_db(p.path[9]);
    (void)merge(db, p.path[0]);
    OK(kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_KEEP, &m, &err));
    assert_int_equal(m.n_conflict, 1);
    assert_true(query(db, "SELECT score FROM outcome") == 1);
    assert_true(query(db, "SELECT count(*) FROM run") == 2);
    assert_true(query(db, "SELECT count(*) FROM merge_conflict") == 1);
    content_of(db, &once);
    OK(kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_KEEP, &m, &err));
    same_content(db, &once);
    kva_buf_release(&once);
    kva_db_close(db);
    remove_dir(p.dir);
}

static void as_rep_stores_the_other_answer_once(void **state)
{
    struct kva_error err = {0};
    struct kva_db_merged m;
    struct kva_buf once;
    struct kva_db *db;
    struct place p;

    (void)state;
    two_answers(&p);
    db = open_db(p.path[9]);
    (void)merge(db, p.path[0]);
    FAILS(KVA_ECONFLICT, kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_ERROR, &m, &err));
    memset(&err, 0, sizeof err);
    OK(kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_AS_REP, &m, &err));
    assert_int_equal(m.n_conflict, 1);
    assert_true(query(db, "SELECT score FROM outcome WHERE rep=0") == 1);
    assert_true(query(db, "SELECT score FROM outcome WHERE rep=1") == 0);
    assert_true(query(db, "SELECT count(*) FROM generation") == 2);
    assert_true(query(db, "SELECT count(*) FROM merge_conflict WHERE "
                          "json_extract(detail_json,'$.stored_as')=1") == 1);
    OK(kva_db_check(db, &err));
    content_of(db, &once);
    for (int how = 0; how < 3; how++) { /* it is known now, whatever is asked for */
        OK(kva_db_merge(db, p.path[1], (enum kva_db_on_conflict)how, &m, &err));
        assert_int_equal(m.n_conflict, 0);
        same_content(db, &once);
    }
    kva_buf_release(&once);
    kva_db_close(db);
    remove_dir(p.dir);
}

/* A third answer would be counted as a draw. */
static void a_conflict_of_draws_never_becomes_another_draw(void **state)
{
    struct kva_error err = {0};
    struct kva_db_merged m;
    struct kva_db *db;
    struct place p;

    (void)state;
    two_answers(&p);
    for (int i = 0; i < 2; i++) {
        db = open_db(p.path[i]);
        assert_int_equal(
            execute(db, "UPDATE cell SET spec_json='{\"sampling\":\"t0.6\"}'"),
            SQLITE_OK);
        kva_db_close(db);
    }
    db = open_db(p.path[9]);
    (void)merge(db, p.path[0]);
    OK(kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_AS_REP, &m, &err));
    assert_int_equal(m.n_conflict, 1);
    assert_true(query(db, "SELECT count(*) FROM outcome") == 1);
    assert_true(query(db, "SELECT score FROM outcome") == 1);
    assert_true(query(db, "SELECT count(*) FROM merge_conflict") == 1);
    kva_db_close(db);
    remove_dir(p.dir);
}

static void another_text_under_the_same_number_is_refused(void **state)
{
    struct kva_error err;
    struct kva_db_merged m;
    struct kva_db *db;
    struct place p;
    struct one f;

    (void)state;
    place_open(&p);
    f = one_open(p.path[0], "run-a", 1);
    kva_db_close(f.db);
    f = one_open(p.path[1], "run-b", 1);
    assert_int_equal(execute(f.db, "UPDATE sample SET digest=zeroblob(32)"), SQLITE_OK);
    kva_db_close(f.db);
    db = open_db(p.path[0]);
    FAILS(KVA_ECONFLICT, kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_KEEP, &m, &err));
    assert_non_null(strstr(err.text, "sample 0 of task ruler/niah is not the text"));
    assert_true(query(db, "SELECT count(*) FROM run") == 1);
    kva_db_close(db);
    remove_dir(p.dir);
}

static void another_version_of_a_metric_names_the_way_out(void **state)
{
    struct kva_error err;
    struct kva_db_merged m;
    struct kva_db *db;
    struct place p;
    struct one f;

    (void)state;
    place_open(&p);
    f = one_open(p.path[0], "run-a", 1);
    kva_db_close(f.db);
    f = one_open(p.path[1], "run-b", 1);
    assert_int_equal(execute(f.db, "UPDATE task SET metric_version=2"), SQLITE_OK);
    kva_db_close(f.db);
    db = open_db(p.path[0]);
    FAILS(KVA_ECONFLICT, kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_ERROR, &m, &err));
    assert_non_null(strstr(err.text, "match_all version 2, there with match_all version "
                                     "1"));
    assert_non_null(strstr(err.text, "run --rescore"));
    kva_db_close(db);
    remove_dir(p.dir);
}

/* ---- inputs ---- */

static void what_is_no_result_file_is_refused(void **state)
{
    struct kva_error err;
    struct kva_db_merged m;
    struct kva_buf before;
    struct kva_db *db;
    struct place p;
    struct one f;
    sqlite3 *h;
    char link_path[100];

    (void)state;
    place_open(&p);
    f = one_open(p.path[0], "run-a", 1);
    kva_db_close(f.db);
    db = open_db(p.path[0]);
    content_of(db, &before);
    FAILS(KVA_EINVALID, kva_db_merge(db, p.path[0], KVA_DB_CONFLICT_KEEP, &m, &err));
    assert_non_null(strstr(err.text, "into itself"));
    (void)snprintf(link_path, sizeof link_path, "%s/link.db", p.dir);
    assert_int_equal(symlink(p.path[0], link_path), 0);
    FAILS(KVA_EINVALID, kva_db_merge(db, link_path, KVA_DB_CONFLICT_KEEP, &m, &err));
    FAILS(KVA_EIO, kva_db_merge(db, p.path[1], KVA_DB_CONFLICT_KEEP, &m, &err));
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(access(p.path[1], F_OK), -1);
    assert_int_equal(sqlite3_open(p.path[2], &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, "CREATE TABLE songs(x)", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(h);
    FAILS(KVA_EDB, kva_db_merge(db, p.path[2], KVA_DB_CONFLICT_KEEP, &m, &err));
    assert_non_null(strstr(err.text, "another program"));
    f = one_open(p.path[3], "run-b", 1);
    assert_int_equal(execute(f.db, "PRAGMA user_version=99"), SQLITE_OK);
    kva_db_close(f.db);
    FAILS(KVA_EDB, kva_db_merge(db, p.path[3], KVA_DB_CONFLICT_KEEP, &m, &err));
    assert_non_null(strstr(err.text, "schema version 99"));
    same_content(db, &before);
    kva_buf_release(&before);
    kva_db_close(db);
    remove_dir(p.dir);
}

static void an_older_file_is_merged_through_a_copy(void **state)
{
    struct kva_error err = {0};
    struct kva_db_merged m;
    struct kva_buf sql, want;
    struct kva_db *db;
    struct place p;
    sqlite3 *h;

    (void)state;
    place_open(&p);
    kva_buf_init(&sql, 0);
    OK(kva_read_file("tests/db/fixtures/v1.sql", 0, &sql, &err));
    assert_int_equal(sqlite3_open(p.path[0], &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, sql.data, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
    kva_buf_release(&sql);
    OK(kva_db_open(p.path[0], KVA_DB_READ, &db, &err));
    content_of(db, &want);
    kva_db_close(db);
    db = open_db(p.path[1]);
    m = merge(db, p.path[0]);
    assert_int_equal(m.n_new, 24);
    same_content(db, &want);
    kva_db_close(db);
    assert_int_equal(sqlite3_open(p.path[0], &h), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h, "SELECT flags FROM outcome", NULL, NULL, NULL),
                     SQLITE_ERROR);
    sqlite3_close(h);
    kva_buf_release(&want);
    remove_dir(p.dir);
}

/* A row that refers to nothing cannot be placed: the input is refused, not thinned out.
 */
static void an_input_with_loose_ends_is_refused(void **state)
{
    struct kva_error err;
    struct kva_db_merged m;
    struct kva_db *db;
    struct place p;
    struct one f;
    struct kva_db_outcome o;

    (void)state;
    place_open(&p);
    f = one_open(p.path[0], "run-a", 1);
    o = outcome_of(f.cell, f.sample, f.run, 1);
    (void)put(f.db, &o);
    assert_int_equal(execute(f.db, "PRAGMA foreign_keys=OFF; UPDATE outcome SET "
                                   "cell_id=77"),
                     SQLITE_OK);
    kva_db_close(f.db);
    db = open_db(p.path[1]);
    FAILS(KVA_EDB, kva_db_merge(db, p.path[0], KVA_DB_CONFLICT_KEEP, &m, &err));
    assert_non_null(strstr(err.text, "outcome.cell_id"));
    assert_true(query(db, "SELECT count(*) FROM run") == 0);
    OK(kva_db_check(db, memset(&err, 0, sizeof err)));
    kva_db_close(db);
    remove_dir(p.dir);
}

static void a_run_that_ended_since_the_first_merge_is_known_to_have(void **state)
{
    struct kva_error err = {0};
    struct kva_db *db;
    struct place p;
    struct one f;

    (void)state;
    place_open(&p);
    f = one_open(p.path[0], "run-a", 1);
    db = open_db(p.path[1]);
    (void)merge(db, p.path[0]); /* while it is written */
    assert_true(query(db, "SELECT status='running' FROM run") == 1);
    OK(kva_db_end_run(f.db, f.run, "done", 0, &err));
    (void)merge(db, p.path[0]);
    assert_true(query(db, "SELECT status='done' AND ended_ms>0 FROM run") == 1);
    kva_db_close(f.db);
    kva_db_close(db);
    remove_dir(p.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_merged_in_any_order_hold_the_same),
        cmocka_unit_test(merged_files_merge_like_their_parts),
        cmocka_unit_test(a_finished_outcome_beats_a_failed_one),
        cmocka_unit_test(of_two_failures_the_later_one_stays),
        cmocka_unit_test(measurements_of_the_same_outcome_are_joined),
        cmocka_unit_test(a_conflict_refuses_the_input_and_is_noted),
        cmocka_unit_test(keep_leaves_what_is_stored),
        cmocka_unit_test(as_rep_stores_the_other_answer_once),
        cmocka_unit_test(a_conflict_of_draws_never_becomes_another_draw),
        cmocka_unit_test(another_text_under_the_same_number_is_refused),
        cmocka_unit_test(another_version_of_a_metric_names_the_way_out),
        cmocka_unit_test(what_is_no_result_file_is_refused),
        cmocka_unit_test(an_older_file_is_merged_through_a_copy),
        cmocka_unit_test(an_input_with_loose_ends_is_refused),
        cmocka_unit_test(a_run_that_ended_since_the_first_merge_is_known_to_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
