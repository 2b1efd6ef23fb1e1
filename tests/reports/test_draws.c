/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_draws.c - sampled answers from a database to the tables: the worked example of
 * tasks-longbench-math.md B.3, draws that failed, and what must not count draws as
 * samples. */
#include "tests/db/fixture.h"

#include "reports/internal.h"

#include <math.h>

#define NEAR(a, b, eps) assert_true(fabs((a) - (b)) <= (eps))

static const struct kva_tab *tab(const struct kva_report *r, const char *id_end)
{
    size_t m = strlen(id_end);

    for (int i = 0; i < r->n_tab; i++) {
        size_t n = strlen(r->tab[i].id);

        if (n >= m && strcmp(r->tab[i].id + n - m, id_end) == 0)
            return &r->tab[i];
    }
    return NULL;
}

static const struct kva_val *at(const struct kva_tab *t, int row, const char *id)
{
    assert_non_null(t);
    assert_true(row < t->n_row);
    for (int c = 0; c < t->n_col; c++)
        if (strcmp(t->col[c].id, id) == 0)
            return &t->row[row].cell[c];
    fail_msg("no column %s", id);
    return NULL;
}

static bool noted(const struct kva_tab *t, const char *what)
{
    for (int i = 0; i < t->n_note; i++)
        if (strstr(t->note[i], what))
            return true;
    return false;
}

enum { PROBLEMS = 2, K = 4 };

static const double RIGHT[PROBLEMS][K] = {{1, 1, 0, 1}, {0, 0, 0, 0}};
/* the class of 1/2 has three votes; of the second problem the earliest pair wins */
static const char *const SAID[PROBLEMS][K] = {{"\\frac{1}{2}", "0.5", "3", "1/2"},
                                              {"7", "8", "8.0", NULL}};

/* A dense and an evicting cell with these draws. failed: the last draw of the second
 * problem of the latter. */
static void fill(struct fixture *f, const char *spec_json, const char *metric,
                 bool failed)
{
    struct kva_db_task t = task_of("math", "math500", 512);
    struct kva_error err = {0};
    int64_t task, sample[PROBLEMS];

    fixture_open(f);
    t.metric = metric;
    t.binary = true;
    OK(kva_db_put_task(f->db, &t, &task, &err));
    for (int i = 0; i < PROBLEMS; i++) {
        struct kva_db_sample s = {.task_id = task,
                                  .idx = i,
                                  .cluster = "",
                                  .refs_json = "[\"1/2\"]",
                                  .meta_json = "{}"};

        digest_for("problem", i, s.digest);
        OK(kva_db_put_sample(f->db, &s, &sample[i], &err));
    }
    for (int m = 0; m < 2; m++) {
        const char *name = m ? "knorm" : "dense";
        struct kva_db_cell c = {.slug = name,
                                .model_id = f->model,
                                .method_id = add_method(f->db, name),
                                .task_id = task,
                                .budget_kind = m ? "keep" : "dense",
                                .budget = m ? 0.25 : 1,
                                .schedule = "oneshot",
                                .enforce = m ? "physical" : "dense",
                                .visibility = "agnostic",
                                .numerics = "f32",
                                .kv = "f16",
                                .spec_json = spec_json};
        int64_t cell;

        digest_for(name, 2, c.digest);
        digest_for("dense key", 0, c.dense_key);
        OK(kva_db_put_cell(f->db, &c, &cell, &err));
        OK(kva_db_put_plan(f->db, f->run, cell, PROBLEMS, K, &err));
        for (int i = 0; i < PROBLEMS; i++)
            for (int k = 0; k < K; k++) {
                bool fails = failed && m && i == 1 && k == K - 1;
                double score = m ? RIGHT[i][k] : 1;
                struct kva_db_score row = {
                    .metric = metric, .version = 1, .value = score};
                struct kva_db_outcome o =
                    fails ? failed_of(cell, sample[i], f->run, "oom")
                          : outcome_of(cell, sample[i], f->run, score);

                row.extracted = m ? SAID[i][k] : "1/2";
                o.rep = k;
                if (!fails) {
                    o.scores = &row;
                    o.n_scores = 1;
                }
                assert_int_equal(put(f->db, &o), 1);
            }
    }
}

static struct kva_report *build(struct fixture *f, const char *view)
{
    struct kva_report_opts o = {.view = view, .replicates = 200};
    struct kva_report *r;
    struct kva_data d;
    struct kva_error err = {0};

    OK(kva_data_load(&f->db, 1, &d, &err));
    OK(kva_report_build(&d, &o, &r, &err));
    kva_data_release(&d);
    return r;
}

#define SAMPLED "{\"sampling\":\"t0.6-p0.95\",\"seed\":42}"

static void the_worked_example_of_b3_comes_out_of_a_database(void **state)
{
    static const struct {
        int j;
        double pass;
    } w[] = {{1, 0.375}, {2, 0.5}, {4, 0.5}};
    static const double mean[] = {0.75, 0}, maj[] = {1, 0};
    const struct kva_stratum avg = {"", mean, NULL, NULL, 2},
                             vote = {"", maj, NULL, NULL, 2};
    struct kva_interval avg_ci = kva_stat_arm(&avg, 1), maj_ci = kva_stat_arm(&vote, 1);
    struct fixture f;
    struct kva_report *r;
    const struct kva_tab *t;
    struct kva_buf json, csv;

    (void)state;
    fill(&f, SAMPLED, "math500", false);
    r = build(&f, "answers");
    t = tab(r, "-draws");
    assert_non_null(t);
    assert_int_equal(t->n_row, 6); /* j = 1, 2, 4 of two rows */
    for (int i = 0; i < 3; i++) {
        int row = strcmp(at(t, 0, "method_spec")->text, "dense") == 0 ? 3 + i : i;

        assert_string_equal(at(t, row, "method_spec")->text, "knorm");
        assert_string_equal(at(t, row, "sampling")->text, "t0.6-p0.95");
        NEAR(at(t, row, "draws")->v, 4, 0);
        NEAR(at(t, row, "avg_at_k")->v, 0.375, 0);
        NEAR(at(t, row, "avg_at_k")->lo, avg_ci.lo, 1e-12); /* of 2 problems, not 8 */
        NEAR(at(t, row, "avg_at_k")->hi, avg_ci.hi, 1e-12);
        NEAR(at(t, row, "j")->v, w[i].j, 0);
        NEAR(at(t, row, "pass_at_j")->v, w[i].pass, 1e-15);
        NEAR(at(t, row, "maj_at_k")->v, 0.5, 0);
        NEAR(at(t, row, "maj_at_k")->lo, maj_ci.lo, 1e-12);
        NEAR(at(t, row, "n")->v, 2, 0);
        NEAR(at(t, row, "n_left_out")->v, 0, 0);
        NEAR(at(t, (row + 3) % 6, "pass_at_j")->v, 1, 0);
    }
    kva_buf_init(&json, 0);
    kva_buf_init(&csv, 0);
    kva_json_table(t, &json);
    kva_csv_table(t, true, &csv);
    assert_non_null(strstr(json.data, "\"avg_at_k\""));
    assert_non_null(strstr(json.data, "0.375"));
    assert_non_null(strstr(csv.data, "pass_at_j_lo"));
    assert_non_null(strstr(csv.data, "0.375"));
    kva_buf_release(&json);
    kva_buf_release(&csv);
    kva_report_free(r);
    r = build(&f, NULL);
    for (int i = 0; i < r->board[0].n_arm; i++)
        if (r->board[0].arm[i].role == KVA_ARM_METHOD) {
            NEAR(r->board[0].arm[i].score, 0.375, 0);
            NEAR(r->board[0].arm[i].score_ci.lo, avg_ci.lo, 1e-12);
            assert_int_equal(r->board[0].arm[i].n_pairs, 2);
        }
    assert_non_null(strstr(r->board[0].title, "answers drawn at t0.6-p0.95"));
    t = NULL;
    for (int i = 0; i < r->n_tab && !t; i++)
        t = r->tab[i].view == KVA_VIEW_LEADERBOARD ? &r->tab[i] : NULL;
    assert_non_null(t);
    assert_true(noted(t, "avg@k"));
    assert_true(noted(t, "few samples: with n = 2,")); /* and not 8 */
    assert_int_equal(r->board[0].arm[0].n_sample, 2);
    assert_int_equal(r->board[0].arm[0].ok, 8);
    assert_non_null(strstr(r->summary[0], "answers drawn at t0.6-p0.95: the full cache"));
    assert_non_null(strstr(r->summary[0], "(n\xc2\xa0=\xc2\xa0"
                                          "2)"));
    assert_false(r->board[0].noise_known); /* draws are no repetitions */
    kva_report_free(r);
    fixture_close(&f);
}

static void a_problem_that_lacks_a_draw_is_left_out_and_counted(void **state)
{
    struct fixture f;
    struct kva_report *r;
    const struct kva_tab *t;
    int row;

    (void)state;
    fill(&f, SAMPLED, "math500", true);
    r = build(&f, "answers");
    t = tab(r, "-draws");
    row = strcmp(at(t, 0, "method_spec")->text, "dense") == 0 ? 3 : 0;
    NEAR(at(t, row, "avg_at_k")->v, 0.75, 0);
    NEAR(at(t, row, "pass_at_j")->v, 0.75, 1e-15);
    NEAR(at(t, row + 1, "pass_at_j")->v, 1, 1e-15);
    NEAR(at(t, row, "maj_at_k")->v, 1, 0);
    NEAR(at(t, row, "n")->v, 1, 0);
    NEAR(at(t, row, "n_left_out")->v, 1, 0);
    kva_report_free(r);
    fixture_close(&f);
}

/* Two problems of one context are one piece of evidence. */
static void problems_of_one_context_are_one_unit(void **state)
{
    struct fixture f;
    struct kva_report *r;
    const struct kva_tab *t;
    static const double mean[] = {0.75, 0};
    static const int one[] = {0, 0};
    struct kva_stratum s = {"", mean, NULL, one, 2};
    struct kva_interval ci = kva_stat_arm(&s, 1);
    int row;

    (void)state;
    fill(&f, SAMPLED, "math500", false);
    (void)execute(f.db, "UPDATE sample SET cluster='book'");
    r = build(&f, "answers");
    t = tab(r, "-draws");
    row = strcmp(at(t, 0, "method_spec")->text, "dense") == 0 ? 3 : 0;
    NEAR(at(t, row, "avg_at_k")->lo, ci.lo, 1e-12);
    NEAR(at(t, row, "avg_at_k")->hi, ci.hi, 1e-12);
    kva_report_free(r);
    fixture_close(&f);
}

/* A run that was interrupted before later draws: every problem has all that are there. */
static void a_row_that_lacks_outcomes_is_shown_as_incomplete(void **state)
{
    struct fixture f;
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    fill(&f, SAMPLED, "math500", false);
    (void)execute(f.db, "PRAGMA foreign_keys=OFF; DELETE FROM outcome WHERE rep > 0");
    r = build(&f, "answers");
    t = tab(r, "-draws");
    assert_int_equal(t->n_row, 2);
    for (int i = 0; i < 2; i++)
        if (strcmp(at(t, i, "method_spec")->text, "dense") != 0)
            assert_int_equal(t->row[i].role, KVA_ROW_INCOMPLETE);
    kva_report_free(r);
    fixture_close(&f);
}

static void answers_that_are_no_values_have_no_majority(void **state)
{
    struct fixture f;
    struct kva_report *r;

    (void)state;
    fill(&f, SAMPLED, "match_all", false);
    r = build(&f, "answers");
    assert_true(isnan(at(tab(r, "-draws"), 0, "maj_at_k")->v));
    assert_false(isnan(at(tab(r, "-draws"), 0, "pass_at_j")->v));
    kva_report_free(r);
    fixture_close(&f);
}

static void repetitions_of_greedy_answers_are_no_draws(void **state)
{
    struct fixture f;
    struct kva_report *r;

    (void)state;
    fill(&f, "{\"sampling\":\"greedy\",\"seed\":42}", "math500", false);
    r = build(&f, NULL);
    assert_null(tab(r, "-draws"));
    assert_null(strstr(r->board[0].title, "drawn"));
    assert_true(r->board[0].noise_known);
    kva_report_free(r);
    fixture_close(&f);
}

static void the_table_may_run_out_of_memory(void **state)
{
    struct kva_report_opts o = {.view = "answers", .replicates = 10};
    struct kva_report *r = NULL;
    struct kva_error err = {0};
    struct kva_data d;
    struct fixture f;
    enum kva_status rc = KVA_ENOMEM;

    (void)state;
    fill(&f, SAMPLED, "math500", false);
    for (long n = 1; rc != KVA_OK && n < 3000; n++) {
        OK(kva_data_load(&f.db, 1, &d, &err));
        kva_alloc_fail_at(n);
        rc = kva_report_build(&d, &o, &r, &err);
        kva_alloc_fail_at(0);
        assert_true(rc == KVA_OK || rc == KVA_ENOMEM);
        kva_data_release(&d);
        memset(&err, 0, sizeof err);
    }
    assert_int_equal(rc, KVA_OK);
    kva_report_free(r);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_of_b3_comes_out_of_a_database),
        cmocka_unit_test(a_problem_that_lacks_a_draw_is_left_out_and_counted),
        cmocka_unit_test(problems_of_one_context_are_one_unit),
        cmocka_unit_test(a_row_that_lacks_outcomes_is_shown_as_incomplete),
        cmocka_unit_test(answers_that_are_no_values_have_no_majority),
        cmocka_unit_test(repetitions_of_greedy_answers_are_no_draws),
        cmocka_unit_test(the_table_may_run_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
