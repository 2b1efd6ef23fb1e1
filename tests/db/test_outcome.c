/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_outcome.c - an outcome can only improve. */
#include "tests/db/fixture.h"

#include <math.h>

struct one {
    struct fixture f;
    int64_t task, sample, cell, other;
};

static int setup(void **state)
{
    struct one *o = calloc(1, sizeof *o);

    fixture_open(&o->f);
    o->task = add_task(o->f.db, "ruler", "niah", 4096);
    o->sample = add_sample(o->f.db, o->task, "niah", 0);
    o->cell = add_cell(o->f.db, o->f.model, add_method(o->f.db, "snapkv"), o->task,
                       "snap", 0.2);
    o->other =
        add_cell(o->f.db, o->f.model, add_method(o->f.db, "dense"), o->task, "dense", 0);
    *state = o;
    return 0;
}

static int teardown(void **state)
{
    struct one *o = *state;

    fixture_close(&o->f);
    free(o);
    return 0;
}

static const struct kva_db_memory SHARED = {.exec = KVA_EXEC_SHARED,
                                            .kv_dense_bytes = 1000,
                                            .kv_budget_bytes = 200,
                                            .kv_live_bytes = 198,
                                            .kv_alloc_bytes = 208,
                                            .kv_meta_bytes = 8,
                                            .kv_peak_bytes = 250,
                                            .kv_end_bytes = 220,
                                            .kv_local_bytes = 3,
                                            .state_bytes = 4,
                                            .kv_committed_bytes = 300,
                                            .scratch_peak_bytes = -1,
                                            .weight_bytes = 77,
                                            .dev_delta_bytes = -1,
                                            .dev_peak_bytes = -1,
                                            .host_peak_bytes = 99,
                                            .entries_kept = 10,
                                            .audit = -1};
static const struct kva_db_timing ALONE_TIME = {.exec = KVA_EXEC_ALONE,
                                                .prefill_ns = 11,
                                                .score_ns = 12,
                                                .evict_ns = 13,
                                                .question_ns = 14,
                                                .ttft_ns = 15,
                                                .decode_ns = 16,
                                                .decode_p50_ns = -1,
                                                .decode_p99_ns = 18,
                                                .clock = "monotonic"};

static void everything_that_is_put_can_be_read_back(void **state)
{
    struct one *t = *state;
    struct kva_db *db = t->f.db;
    static const uint16_t KEPT[] = {2, 0, 1, 2, 300, 3};
    static const uint8_t L0[] = {0xff, 0x01, 0x0f, 0x00}, L1[] = {1, 2, 3, 4};
    const uint8_t *bits[] = {L0, L1};
    struct kva_db_score scores[] = {{"match_all", 1, 0.5, "abc"},
                                    {"gold_nll", 2, 3.25, NULL}};
    struct kva_db_span_kept span = {"E0", 400, 2, 3, KEPT};
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 0.5);
    struct kva_error err = {0};
    struct kva_buf buf;
    int heads, n_tok;

    o.scores = scores;
    o.n_scores = 2;
    o.memory = &SHARED;
    o.n_memory = 1;
    o.timing = &ALONE_TIME;
    o.n_timing = 1;
    o.spans = &span;
    o.n_spans = 1;
    o.kept_bits = bits;
    o.kept_layers = 2;
    o.kept_heads = 2;
    o.kept_tok = 9;
    assert_int_equal(put(db, &o), 1);
    assert_true(query(db, "SELECT score FROM outcome") == 0.5);
    assert_true(query(db, "SELECT n_cut FROM outcome") == 4090);
    assert_true(query(db, "SELECT kept_fnv = -81985529216486896 FROM outcome") == 1);
    assert_true(
        query(db, "SELECT token_ids = x'050000000600000007000000' FROM generation") == 1);
    assert_true(
        query(db, "SELECT value FROM score WHERE metric='gold_nll' AND version=2") ==
        3.25);
    assert_true(query(db,
                      "SELECT kv_end_bytes+kv_local_bytes+state_bytes+kv_committed_bytes "
                      "FROM memory WHERE exec='shared'") == 527);
    assert_true(query(db, "SELECT dev_peak_bytes FROM memory") == -998);
    assert_true(query(db, "SELECT audit FROM memory") == -1);
    assert_true(query(db, "SELECT decode_p50_ns FROM timing WHERE exec='alone'") == -998);
    assert_true(
        query(db, "SELECT hex(kept) = '02000000010002002C010300' FROM span_kept") == 1);
    kva_buf_init(&buf, 0);
    assert_true(kva_db_kept_bits(db, 1, 1, &heads, &n_tok, &buf));
    assert_int_equal(heads, 2);
    assert_int_equal(n_tok, 9);
    assert_int_equal(buf.len, 4);
    assert_memory_equal(buf.data, L1, 4);
    assert_false(kva_db_kept_bits(db, 1, 2, &heads, &n_tok, &buf));
    kva_buf_release(&buf);
    kva_buf_init(&buf, 0);
    OK(kva_db_generation(db, 1, &buf, &err));
    assert_string_equal(buf.data, "abc");
    FAILS(KVA_EMISSING, kva_db_generation(db, 2, &buf, &err));
    kva_buf_release(&buf);
}

static void a_terminal_outcome_is_never_overwritten(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 1);
    struct kva_db_outcome worse = failed_of(t->cell, t->sample, t->f.run, "oom");

    assert_int_equal(put(t->f.db, &o), 1);
    o.score = 0;
    o.text = "other";
    assert_int_equal(put(t->f.db, &o), 0);
    assert_int_equal(put(t->f.db, &worse), 0);
    assert_true(query(t->f.db, "SELECT score FROM outcome") == 1);
    assert_true(query(t->f.db, "SELECT attempt FROM outcome") == 1);
    assert_true(query(t->f.db, "SELECT text='abc' FROM generation") == 1);
}

static void truncated_and_skipped_are_terminal_too(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 1);
    struct kva_db_outcome cut = failed_of(t->cell, t->sample, t->f.run, "truncated");
    struct kva_db_outcome skip = failed_of(t->other, t->sample, t->f.run, "skipped");

    assert_int_equal(put(t->f.db, &cut), 1);
    assert_int_equal(put(t->f.db, &skip), 1);
    assert_int_equal(put(t->f.db, &o), 0);
    o.cell_id = t->other;
    assert_int_equal(put(t->f.db, &o), 0);
    assert_true(query(t->f.db, "SELECT count(*) FROM outcome WHERE score IS NULL") == 2);
}

static void a_failed_outcome_is_replaced_with_all_that_hung_on_it(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome bad = failed_of(t->cell, t->sample, t->f.run, "nonfinite");
    struct kva_db_outcome good = outcome_of(t->cell, t->sample, t->f.run, 0.25);
    struct kva_db_score score = {"match_all", 1, 0.25, NULL};

    bad.memory = &SHARED;
    bad.n_memory = 1;
    bad.scores =
        &score; /* a failed outcome has no score, whatever the caller hands over */
    bad.n_scores = 1;
    bad.text = "half";
    assert_int_equal(put(t->f.db, &bad), 1);
    assert_true(query(t->f.db, "SELECT count(*) FROM score") == 0);
    assert_true(query(t->f.db, "SELECT count(*) FROM generation") == 0);
    bad.status = "timeout";
    assert_int_equal(put(t->f.db, &bad), 1);
    assert_true(query(t->f.db, "SELECT attempt FROM outcome") == 2);
    good.scores = &score;
    good.n_scores = 1;
    assert_int_equal(put(t->f.db, &good), 1);
    assert_true(query(t->f.db, "SELECT attempt FROM outcome") == 3);
    assert_true(query(t->f.db, "SELECT error FROM outcome") == -998);
    assert_true(query(t->f.db, "SELECT count(*) FROM memory") == 0);
    assert_true(query(t->f.db, "SELECT count(*) FROM score") == 1);
    assert_true(query(t->f.db, "SELECT count(*) FROM outcome") == 1);
}

static void an_alone_measurement_joins_a_stored_outcome_of_the_same_tokens(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 0.75), perf = o;
    struct kva_db_memory both[2] = {SHARED, SHARED};

    o.memory = &SHARED;
    o.n_memory = 1;
    assert_int_equal(put(t->f.db, &o), 1);
    both[0].kv_peak_bytes = 1;
    both[1].exec = KVA_EXEC_ALONE;
    both[1].kv_peak_bytes = 900;
    perf.score = 0; /* not looked at */
    perf.memory = both;
    perf.n_memory = 2;
    perf.timing = &ALONE_TIME;
    perf.n_timing = 1;
    assert_int_equal(put(t->f.db, &perf), 1);
    assert_true(query(t->f.db, "SELECT score FROM outcome") == 0.75);
    assert_true(query(t->f.db, "SELECT kv_peak_bytes FROM memory WHERE exec='shared'") ==
                250);
    assert_true(query(t->f.db, "SELECT kv_peak_bytes FROM memory WHERE exec='alone'") ==
                900);
    assert_true(query(t->f.db, "SELECT ttft_ns FROM timing WHERE exec='alone'") == 15);
    assert_int_equal(put(t->f.db, &perf), 0); /* a second time: nothing new */
}

static void an_alone_measurement_with_other_tokens_is_a_conflict(void **state)
{
    struct one *t = *state;
    static const int32_t OTHER[] = {5, 6, 8};
    struct kva_db_outcome o[2] = {outcome_of(t->other, t->sample, t->f.run, 0.5),
                                  outcome_of(t->cell, t->sample, t->f.run, 0.5)};
    struct kva_error err;
    int stored = 7;

    assert_int_equal(put(t->f.db, &o[1]), 1);
    o[1].ids = OTHER;
    o[1].timing = &ALONE_TIME;
    o[1].n_timing = 1;
    FAILS(KVA_ECONFLICT, kva_db_put_outcomes(t->f.db, o, 2, &stored, &err));
    assert_int_equal(stored, 0);
    assert_non_null(strstr(err.text, "other tokens"));
    assert_true(query(t->f.db, "SELECT count(*) FROM timing") == 0);
    assert_true(query(t->f.db, "SELECT count(*) FROM outcome") ==
                1); /* one transaction */
}

static void outcomes_of_a_step_are_stored_together_or_not_at_all(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome o[2] = {outcome_of(t->cell, t->sample, t->f.run, 1),
                                  outcome_of(999, t->sample, t->f.run, 1)};
    struct kva_error err;
    int stored;

    FAILS(KVA_EDB, kva_db_put_outcomes(t->f.db, o, 2, &stored, &err));
    assert_non_null(strstr(err.text, "FOREIGN KEY"));
    assert_true(query(t->f.db, "SELECT count(*) FROM outcome") == 0);
    o[1].cell_id = t->other;
    memset(&err, 0, sizeof err);
    OK(kva_db_put_outcomes(t->f.db, o, 2, &stored, &err));
    assert_int_equal(stored, 2);
}

static void impossible_scores_are_refused_before_writing(void **state)
{
    struct one *t = *state;
    static const double BAD[] = {-0.1, 1.5, 100};
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 1);
    struct kva_db_score score = {"gold_nll", 1, INFINITY, NULL};
    struct kva_error err;
    int stored;

    for (size_t i = 0; i < 3; i++) {
        o.score = BAD[i];
        FAILS(KVA_EINVALID, kva_db_put_outcomes(t->f.db, &o, 1, &stored, &err));
    }
    o.score = NAN;
    FAILS(KVA_EINVALID, kva_db_put_outcomes(t->f.db, &o, 1, &stored, &err));
    o.score = 1;
    o.scores = &score;
    o.n_scores = 1;
    FAILS(KVA_EINVALID, kva_db_put_outcomes(t->f.db, &o, 1, &stored, &err));
    o.n_scores = 0;
    o.status = "fine";
    FAILS(KVA_EDB, kva_db_put_outcomes(t->f.db, &o, 1, &stored, &err));
    o.status = "ok";
    o.stop = "stopstr";
    FAILS(KVA_EDB, kva_db_put_outcomes(t->f.db, &o, 1, &stored, &err));
    assert_true(query(t->f.db, "SELECT count(*) FROM outcome") == 0);
}

static void an_empty_generation_is_ok(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 0);

    o.n_gen = 0;
    o.text = "";
    assert_int_equal(put(t->f.db, &o), 1);
    assert_true(query(t->f.db, "SELECT text='' FROM generation") == 1);
    assert_true(
        query(t->f.db, "SELECT hex(gen_sha256) LIKE 'E3B0C44298FC1C14%' FROM outcome") ==
        1);
}

static void cut_utf8_is_stored_as_replacement_characters(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 0);

    o.text = "a\xe2\x82";
    assert_int_equal(put(t->f.db, &o), 1);
    assert_true(query(t->f.db, "SELECT hex(text)='61EFBFBD' FROM generation") == 1);
}

static void a_batch_holds_puts_until_it_is_committed(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 1);
    struct kva_db_outcome bad = outcome_of(999, t->sample, t->f.run, 1);
    struct kva_error err = {0};
    int stored;

    OK(kva_db_begin(t->f.db, &err));
    FAILS(KVA_EINVALID, kva_db_begin(t->f.db, &err));
    assert_int_equal(put(t->f.db, &o), 1);
    kva_db_rollback(t->f.db);
    assert_true(query(t->f.db, "SELECT count(*) FROM outcome") == 0);
    memset(&err, 0, sizeof err);
    OK(kva_db_begin(t->f.db, &err));
    assert_int_equal(put(t->f.db, &o), 1);
    FAILS(KVA_EDB,
          kva_db_put_outcomes(t->f.db, &bad, 1, &stored, &err)); /* undoes itself only */
    memset(&err, 0, sizeof err);
    OK(kva_db_commit(t->f.db, &err));
    assert_true(query(t->f.db, "SELECT count(*) FROM outcome") == 1);
}

static void rescoring_replaces_scores_and_keeps_generations(void **state)
{
    struct one *t = *state;
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 1);
    struct kva_db_score score = {"match_all", 1, 1, NULL};
    struct kva_db_rescored r = {1, 0.5, "b"};
    struct kva_db_task task = task_of("ruler", "niah", 4096);
    struct kva_error err = {0};
    int64_t id;

    o.scores = &score;
    o.n_scores = 1;
    assert_int_equal(put(t->f.db, &o), 1);
    task.metric_version = 2;
    FAILS(KVA_ECONFLICT, kva_db_put_task(t->f.db, &task, &id, &err));
    assert_non_null(strstr(err.text, "rescore"));
    memset(&err, 0, sizeof err);
    OK(kva_db_rescore(t->f.db, t->task, "match_all", 2, false, &r, 1, &err));
    assert_true(query(t->f.db, "SELECT score FROM outcome") == 0.5);
    assert_true(query(t->f.db, "SELECT count(*) FROM score") == 2);
    assert_true(query(t->f.db, "SELECT count(*) FROM generation") == 1);
    OK(kva_db_put_task(t->f.db, &task, &id, &err));
    assert_int_equal(id, t->task);
    r.outcome_id = 55;
    FAILS(KVA_EDB, kva_db_rescore(t->f.db, t->task, "match_all", 3, false, &r, 1, &err));
    assert_true(query(t->f.db, "SELECT metric_version FROM task") == 2);
}

static void the_work_list_is_what_is_not_terminal_in_sample_order(void **state)
{
    struct one *t = *state;
    struct kva_db *db = t->f.db;
    int64_t sample[3] = {t->sample, add_sample(db, t->task, "niah", 1),
                         add_sample(db, t->task, "niah", 2)};
    struct kva_db_outcome rows[] = {
        outcome_of(t->cell, sample[0], t->f.run, 1),
        failed_of(t->cell, sample[1], t->f.run, "oom"),
        outcome_of(t->other, sample[0], t->f.run, 1),
        failed_of(t->other, sample[2], t->f.run, "truncated")};
    struct kva_db_states *states;
    uint8_t cell[2][32], task[32];
    char list[64] = "";
    struct kva_error err = {0};
    int stored;

    rows[0].timing = &ALONE_TIME;
    rows[0].n_timing = 1;
    OK(kva_db_put_outcomes(db, rows, 4, &stored, &err));
    digest_for("snap", 2, cell[0]);
    digest_for("dense", 2, cell[1]);
    digest_for("niah", 4096, task);
    OK(kva_db_load_states(db, &states, &err));
    for (int s = 0; s < 3; s++)
        for (int c = 0; c < 2; c++) {
            struct kva_db_state st = kva_db_state_of(states, cell[c], task, s, 0);

            if (st.state == 0 || (st.state == 2 && st.attempts < 2)) {
                size_t n = strlen(list);

                (void)snprintf(list + n, sizeof list - n, "c%ds%d ", c + 1, s);
            }
        }
    assert_string_equal(list, "c1s1 c2s1 c1s2 ");
    assert_true(kva_db_state_of(states, cell[0], task, 0, 0).has_perf);
    assert_false(kva_db_state_of(states, cell[1], task, 0, 0).has_perf);
    assert_int_equal(kva_db_state_of(states, cell[0], task, 1, 0).attempts, 1);
    assert_int_equal(kva_db_state_of(states, cell[0], task, 0, 1).state,
                     0); /* another rep */
    kva_db_states_free(states);
    assert_int_equal(put(db, &rows[1]), 1); /* attempt 2 of 2: off the list */
    OK(kva_db_load_states(db, &states, &err));
    assert_int_equal(kva_db_state_of(states, cell[0], task, 1, 0).attempts, 2);
    assert_int_equal(kva_db_state_of(states, cell[0], task, 1, 0).state, 2);
    kva_db_states_free(states);
}

static void guard_rails_hold_against_plain_sql(void **state)
{
    struct one *t = *state;
    static const char *const BAD[] = {
        "INSERT INTO plan VALUES(1,1,'many',1)", /* STRICT */
        "INSERT INTO outcome(cell_id,sample_id,run_id,status,score,finished_ms) "
        "VALUES(1,1,1,'oom',0.5,1)", /* only ok has a score */
        "INSERT INTO outcome(cell_id,sample_id,run_id,status,finished_ms) "
        "VALUES(1,1,1,'ok',1)",
        "INSERT INTO outcome(cell_id,sample_id,run_id,status,score,finished_ms) "
        "VALUES(1,1,1,'ok',1.01,1)",
        "INSERT INTO outcome(cell_id,sample_id,run_id,status,score,finished_ms) "
        "VALUES(1,77,1,'ok',1,1)", /* no such sample */
        "UPDATE cell SET budget=1.5 WHERE budget_kind='keep'",
        "UPDATE cell SET enforce='oracle'",
        "UPDATE cell SET enforce='dense' WHERE budget_kind='keep'",
        "UPDATE cell SET visibility='blind'",
        "UPDATE cell SET budget_kind='ratio' WHERE budget_kind='keep'",
        "UPDATE task SET gen_json='{'",
        "UPDATE model SET digest=x'00'",
        "DELETE FROM model",
        "INSERT INTO kept VALUES(1,0,2,9,x'00')",
        "INSERT INTO span_kept VALUES(1,'E0',3,2,2,x'00')",
    };
    struct kva_db_outcome o = outcome_of(t->cell, t->sample, t->f.run, 1);

    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        if (execute(t->f.db, BAD[i]) != SQLITE_CONSTRAINT)
            fail_msg("accepted: %s", BAD[i]);
    assert_int_equal(put(t->f.db, &o), 1);
    assert_int_equal(execute(t->f.db, "DELETE FROM outcome"), SQLITE_OK);
    assert_true(query(t->f.db, "SELECT count(*) FROM generation") == 0); /* cascades */
    /* STRICT turns the real 1.0 into the integer 1 silently: the rails do not rest on it
     */
    assert_int_equal(execute(t->f.db, "UPDATE task SET metric_version=1.0"), SQLITE_OK);
}

static void bits_of_an_audit_are_told_in_words(void **state)
{
    char text[512], little[10];

    (void)state;
    kva_db_audit_text(2 | 16, text, sizeof text);
    assert_string_equal(
        text, "bit 2: pages beyond those of the kept entries, bit 16: a device's "
              "driver or the process's resident set counts more than the account");
    kva_db_audit_text(127, text, sizeof text);
    assert_non_null(strstr(text, "bit 64: the cache grew while answering"));
    kva_db_audit_text(0, text, sizeof text);
    assert_string_equal(text, "");
    kva_db_audit_text(-1, text, sizeof text);
    assert_string_equal(text, "");
    kva_db_audit_text(127, little, sizeof little); /* cut short */
    assert_string_equal(little, "bit 1: mo");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(everything_that_is_put_can_be_read_back),
        T(a_terminal_outcome_is_never_overwritten),
        T(truncated_and_skipped_are_terminal_too),
        T(a_failed_outcome_is_replaced_with_all_that_hung_on_it),
        T(an_alone_measurement_joins_a_stored_outcome_of_the_same_tokens),
        T(an_alone_measurement_with_other_tokens_is_a_conflict),
        T(outcomes_of_a_step_are_stored_together_or_not_at_all),
        T(impossible_scores_are_refused_before_writing),
        T(an_empty_generation_is_ok),
        T(cut_utf8_is_stored_as_replacement_characters),
        T(a_batch_holds_puts_until_it_is_committed),
        T(rescoring_replaces_scores_and_keeps_generations),
        T(the_work_list_is_what_is_not_terminal_in_sample_order),
        T(guard_rails_hold_against_plain_sql),
        cmocka_unit_test(bits_of_an_audit_are_told_in_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
