/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_retention.c - budget by budget, question known or not, times by context, verdicts
 * against dense, and the figures drawn from them. */
#include "tests/reports/fixture.h"

static const struct kva_tab *tab(const struct kva_report *r, const char *id)
{
    for (int i = 0; i < r->n_tab; i++)
        if (strcmp(r->tab[i].id, id) == 0)
            return &r->tab[i];
    return NULL;
}

static const struct kva_figure *fig(const struct kva_report *r, enum kva_figure_kind kind)
{
    for (int i = 0; i < r->n_figure; i++)
        if (r->figure[i].kind == kind)
            return &r->figure[i];
    return NULL;
}

static const struct kva_val *at(const struct kva_tab *t, int row, const char *id)
{
    for (int c = 0; c < t->n_col; c++)
        if (strcmp(t->col[c].id, id) == 0)
            return &t->row[row].cell[c];
    print_error("no column %s\n", id);
    return NULL;
}

static void set_held(struct world *w, int cell, int64_t bytes)
{
    for (int i = 0; i < w->d.n_outcomes; i++)
        if (w->out[i].cell == cell) {
            w->out[i].memory.kv_alloc_bytes = w->out[i].memory.kv_live_bytes = bytes;
            w->out[i].memory.kv_meta_bytes = 0;
        }
}

/* R = .80, .90, .97 at 0.1, 0.2, 0.4 of the bytes: mean 0.8925, 95 % at 0.328. */
static void a_row_has_every_budget_and_the_two_summaries(void **state)
{
    static const int ones[3] = {97, 90, 80};
    static const double keep[3] = {0.4, 0.2, 0.1};
    struct world *w = world_new(1, 100);
    char score[101];
    const struct kva_tab *t;
    struct kva_report *r;

    (void)state;
    memset(score, '1', 100);
    score[100] = 0;
    add_cell(w, 0, "dense", 1, "dense", score);
    for (int i = 0; i < 3; i++) {
        memset(score, '0', 100);
        memset(score, '1', (size_t)ones[i]);
        add_cell(w, 0, "m", keep[i], "physical", score);
        set_held(w, w->d.n_cells - 1, (int64_t)(1000000 * keep[i]));
    }
    r = built(w, "retention");
    t = tab(r, "board1-retention");
    assert_non_null(t);
    assert_int_equal(t->n_row, 1);
    for (int i = 0; i < 3; i++) {
        char id[32];

        (void)snprintf(id, sizeof id, "retention_%.0f", 100 * keep[i]);
        NEAR(at(t, 0, id)->v, ones[i] / 100.0, 1e-12);
        assert_true(at(t, 0, id)->hi > at(t, 0, id)->lo);
        (void)snprintf(id, sizeof id, "loss_%.0f", 100 * keep[i]);
        NEAR(at(t, 0, id)->v, 1 - ones[i] / 100.0, 1e-12);
    }
    NEAR(at(t, 0, "mean_retention")->v, 0.8925, 1e-12);
    NEAR(at(t, 0, "budget_at_95")->v, 0.328, 0.0005);
    kva_report_free(r);
    free(w);
}

static void the_question_known_first_is_compared_pair_by_pair(void **state)
{
    struct world *w = world_new(1, 20);
    const struct kva_tab *t = NULL;
    struct kva_report *r;

    (void)state;
    add_cell(w, 0, "dense", 1, "dense", A20);
    add_cell(w, 0, "dense", 1, "dense", A20)->visibility = S("aware");
    add_cell(w, 0, "m", 0.5, "physical", H20);
    add_cell(w, 0, "m", 0.5, "physical", A20)->visibility = S("aware");
    r = built(w, NULL);
    for (int i = 0; i < r->n_tab; i++)
        if (strstr(r->tab[i].id, "-visibility"))
            t = &r->tab[i];
    assert_non_null(t);
    assert_int_equal(t->n_row, 1);
    NEAR(at(t, 0, "score_agnostic")->v, 0.5, 0);
    NEAR(at(t, 0, "score_aware")->v, 1, 0);
    NEAR(at(t, 0, "diff")->v, 0.5, 1e-12);
    assert_true(at(t, 0, "diff")->lo > 0 && at(t, 0, "diff")->hi < 1);
    NEAR(at(t, 0, "n")->v, 20, 0);
    NEAR(at(t, 0, "p")->v, 2.0 / 1024, 1e-9); /* 10 against 0, McNemar */
    kva_report_free(r);
    free(w);
}

static void verdicts_against_dense_add_up_to_the_tasks(void **state)
{
    struct world *w = world_new(3, 20);
    const struct kva_tab *t = NULL;
    struct kva_report *r;

    (void)state;
    for (int k = 0; k < 3; k++) {
        add_cell(w, k, "dense", 1, "dense", k == 0 ? "11111111111111100000" : A20);
        add_cell(w, k, "m", 0.5, "physical", k == 0 ? A20 : k == 1 ? A20 : H20);
    }
    r = built(w, NULL);
    for (int i = 0; i < r->n_tab && !t; i++)
        if (r->tab[i].view == KVA_VIEW_LEADERBOARD)
            t = &r->tab[i];
    for (int k = 0; k < t->n_row; k++)
        if (strcmp(at(t, k, "method")->text, "m") == 0) {
            double n = at(t, k, "wins")->v + at(t, k, "ties")->v + at(t, k, "losses")->v +
                       at(t, k, "invalid")->v;

            NEAR(n, 3, 0);
            assert_string_equal(at(t, k, "wtl")->text,
                                "0/2/1"); /* p of 5 to 0 is 0.0625 */
            assert_string_equal(at(t, k, "date")->text, "2023-11-14");
            assert_string_equal(at(t, k, "commit")->text, "aa");
        }
    kva_report_free(r);
    free(w);
}

/* Dense takes 100, 102, 104 ms, the method 50 to 60; two contexts. */
static void times_are_medians_with_quartiles_by_context(void **state)
{
    struct world *w = world_new(2, 3);
    struct kva_data_perf perf[6];
    const struct kva_tab *t;
    struct kva_report *r;
    int n = 0;

    (void)state;
    w->task[1].ctx = 1024;
    for (int k = 0; k < 2; k++) {
        add_cell(w, k, "dense", 1, "dense", "111");
        add_cell(w, k, "m", 0.5, "physical", "111");
    }
    for (int i = 0; i < w->d.n_outcomes; i++) {
        bool dense = w->out[i].cell % 2 == 0;

        w->out[i].has_timing = true;
        w->out[i].timing =
            (struct kva_db_timing){.ttft_ns = (dense ? 100 + i % 3 * 2 : 50) * 1000000,
                                   .prefill_ns = 40000000,
                                   .score_ns = 3000000,
                                   .evict_ns = 2000000,
                                   .question_ns = 5000000,
                                   .decode_p50_ns = dense ? 2000000 : 1000000};
    }
    for (int i = 0; i < 6; i++) /* repetitions stand for the cell they time */
        perf[n++] = (struct kva_data_perf){.cell = 3,
                                           .rep = i % 3,
                                           .phase = S(i < 3 ? "decode" : "ttft"),
                                           .ns = i < 3 ? 30000000 : (55 + i) * 1000000,
                                           .work = i < 3 ? 10 : 1};
    w->d.perfs = perf;
    w->d.n_perfs = n;
    r = built(w, "timing");
    t = tab(r, "times");
    assert_non_null(t);
    assert_int_equal(t->n_row, 4);
    assert_string_equal(at(t, 0, "method")->text, "dense");
    NEAR(at(t, 0, "ttft_ms")->v, 102, 1e-9);
    NEAR(at(t, 0, "ttft_ms")->lo, 101, 1e-9);
    NEAR(at(t, 0, "ttft_ms")->hi, 103, 1e-9);
    NEAR(at(t, 1, "ttft_ratio")->v, 50.0 / 102, 1e-9);
    NEAR(at(t, 1, "step_ratio")->v, 0.5, 1e-9);
    NEAR(at(t, 3, "ttft_ms")->v, 59, 1e-9);
    NEAR(at(t, 3, "step_ms")->v, 3, 1e-9);
    NEAR(at(t, 3, "n_reps")->v, 3, 0);
    t = tab(r, "board1-timing");
    assert_non_null(t);
    for (int k = 0; k < t->n_row; k++) {
        NEAR(at(t, k, "prefill_ms")->v, 40, 1e-9);
        NEAR(at(t, k, "score_ms")->v, 3, 1e-9);
        NEAR(at(t, k, "evict_ms")->v, 2, 1e-9);
        NEAR(at(t, k, "question_ms")->v, 5, 1e-9);
        NEAR(at(t, k, "decode_tok_s")->v, at(t, k, "decode_ratio")->v * 500, 1e-9);
        NEAR(at(t, k, "n_alone")->v, 3, 0);
    }
    assert_int_equal(t->n_row, 2);
    NEAR(at(t, 1, "decode_ratio")->v, 2, 1e-9);
    NEAR(at(t, 1, "ttft_ratio")->v, 50.0 / 102, 1e-9);
    /* tsv: ctx, then median and quartiles of the first token and of a step */
    assert_non_null(strstr(fig(r, KVA_FIG_TIME)->gp, " index 0 using 1:2:3:4 with "));
    assert_non_null(strstr(fig(r, KVA_FIG_TIME)->gp, " index 1 using 1:5:6:7 with "));
    assert_int_equal(fig(r, KVA_FIG_TIME)->n_points, 4);
    assert_int_equal(fig(r, KVA_FIG_TIME)->n_series, 2);
    kva_report_free(r);
    free(w);
}

/* Half the bytes and the same score: on the front; few points short is not beyond chance.
 */
static void the_front_and_what_chance_leaves_open(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    const struct kva_figure *f = fig(r, KVA_FIG_PARETO);

    (void)state;
    assert_non_null(f);
    assert_int_equal(f->n_points, 5);
    assert_non_null(strstr(f->tsv, "\tgood\t50 %\t0\n"));
    assert_non_null(strstr(f->tsv, "\thalf\t50 %\t1\n"));
    assert_non_null(strstr(f->tsv, "\tbad\t50 %\t1\n"));
    assert_non_null(strstr(f->tsv, "\tsame\t50 %\t2\n")); /* 1 of 20 less */
    assert_non_null(strstr(f->tsv, "\tdense\tall\t2\n"));
    kva_report_free(r);
    free(w);
}

/* Bytes in the unit that the axis and the head of the file name. */
static void bytes_are_drawn_in_one_unit(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r;
    const struct kva_figure *f;

    (void)state;
    for (int i = 0; i < w->d.n_outcomes; i++) {
        bool dense = strcmp(w->cell[w->out[i].cell].method, "dense") == 0;

        w->out[i].memory.kv_alloc_bytes = dense ? 8 << 20 : 2 << 20;
        w->out[i].memory.kv_meta_bytes = 1 << 19;
        w->out[i].memory.kv_peak_bytes = 6 << 20;
    }
    r = built(w, NULL);
    f = fig(r, KVA_FIG_MEMORY);
    assert_non_null(f);
    assert_non_null(
        strstr(f->tsv, "# row\talloc_MiB\tmeta_MiB\tpeak_MiB\tmethod\tkeep\n"));
    assert_non_null(strstr(f->tsv, "\t8\t0.5\t6\tdense\tall\n"));
    assert_non_null(strstr(f->tsv, "\t2\t0.5\t6\tgood\t50 %\n"));
    assert_non_null(strstr(f->gp, "set xrange [0:9.01]"));
    assert_non_null(strstr(f->gp, "'KV cache of one sample, MiB'"));
    kva_report_free(r);
    free(w);
}

static void a_variant_stands_beside_its_base(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;
    const struct kva_figure *f;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", H20);
    add_cell(w, 0, "a+critical", 0.5, "physical", A20);
    add_cell(w, 0, "ab", 0.5, "physical", A20);
    add_cell(w, 0, "dense", 1, "dense", A20);
    r = built(w, NULL);
    f = fig(r, KVA_FIG_LOSS);
    assert_non_null(f);
    assert_int_equal(f->n_points, 2);
    assert_non_null(strstr(f->tsv, "0\t50.0000\t"));
    assert_non_null(strstr(f->tsv, "1\t0.0000\t"));
    assert_null(strstr(f->tsv, "\tab\t"));
    /* what nobody has measured says what would measure it */
    assert_true(r->n_absent >= 4);
    for (int i = 0; i < 7; i++) {
        static const char *const no[7] = {"F6,",   "F9,",    "F10,",   "F11,",
                                          "F13, ", "T-GEO,", "T-CEIL,"};
        bool found = false;

        for (int k = 0; k < r->n_absent; k++)
            found |= strncmp(r->absent[k], no[i], strlen(no[i])) == 0;
        assert_true(found);
    }
    kva_report_free(r);
    free(w);
}

static int tables_of(const struct kva_report *r, const char *id_end)
{
    int n = 0;

    for (int i = 0; i < r->n_tab; i++)
        n += strlen(r->tab[i].id) > strlen(id_end) &&
             strcmp(r->tab[i].id + strlen(r->tab[i].id) - strlen(id_end), id_end) == 0;
    return n;
}

static void retention_is_shown_task_by_task_on_request(void **state)
{
    struct world *w = world_new(2, 20);
    struct kva_report_opts o = {
        .view = "retention", .replicates = 100, .by_task = true, .one_view = true};
    struct kva_error err = {0};
    struct kva_report *r;
    int drawn = 0;

    (void)state;
    for (int t = 0; t < 2; t++) {
        add_cell(w, t, "dense", 1, "dense", A20);
        add_cell(w, t, "m", 0.5, "physical", t ? H20 : A20);
    }
    r = built(w, "retention");
    assert_int_equal(tables_of(r, "-retention"), 1);
    kva_report_free(r);
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_OK);
    assert_int_equal(tables_of(r, "-retention"), 3);
    kva_report_free(r);
    o.one_view = false;
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_OK);
    for (int i = 0; i < r->n_figure; i++)
        drawn += r->figure[i].kind == KVA_FIG_RETENTION;
    assert_int_equal(drawn, 3);
    kva_report_free(r);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_every_budget_and_the_two_summaries),
        cmocka_unit_test(the_question_known_first_is_compared_pair_by_pair),
        cmocka_unit_test(verdicts_against_dense_add_up_to_the_tasks),
        cmocka_unit_test(times_are_medians_with_quartiles_by_context),
        cmocka_unit_test(the_front_and_what_chance_leaves_open),
        cmocka_unit_test(bytes_are_drawn_in_one_unit),
        cmocka_unit_test(retention_is_shown_task_by_task_on_request),
        cmocka_unit_test(a_variant_stands_beside_its_base),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
