/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_summary.c - summary numbers, Pareto front, means over models; and that threads
 * change no byte. */
#include "tests/reports/tables.h"

static char rows[8][101];

/* 100 samples of which `right` are right. */
static char *share(int slot, int right)
{
    for (int i = 0; i < 100; i++)
        rows[slot][i] = i < right ? '1' : '0';
    return rows[slot];
}

/* Retention .80, .90, .97 at 10, 20, 40 %, meta bytes off: the numbers of 4.8. */
static struct world *three_budgets(void)
{
    struct world *w = world_new(1, 100);

    add_cell(w, 0, "a", 0.1, "physical", share(0, 80));
    add_cell(w, 0, "a", 0.2, "physical", share(1, 90));
    add_cell(w, 0, "a", 0.4, "physical", share(2, 97));
    add_cell(w, 0, "b", 0.4, "physical", share(3, 60));
    add_cell(w, 0, "c", 0.4, "physical", share(4, 89));
    add_cell(w, 0, "dense", 1, "dense", share(5, 100));
    for (int o = 0; o < w->d.n_outcomes; o++)
        w->out[o].memory.kv_meta_bytes = 0;
    return w;
}

static void the_worked_summary_numbers_come_out(void **state)
{
    struct world *w = three_budgets();
    struct kva_report *r = built(w, NULL);
    const struct kva_tab *t = tab(r, "-summary");

    (void)state;
    assert_int_equal(t->n_row, 1); /* the others have one budget each */
    assert_string_equal(word(t, 0, "method"), "a");
    NEAR(number(t, 0, "mean_retention"), 0.8925, 1e-9);
    NEAR(number(t, 0, "budget_at_95"), 0.328, 5e-4);
    NEAR(number(t, 0, "held_from"), 0.1, 1e-9);
    NEAR(number(t, 0, "held_to"), 0.4, 1e-9);
    assert_string_equal(word(t, 0, "monotone"), "yes");
    kva_report_free(r);
    free(w);
}

/* Prompts of unlike length, and a row that lacks a sample: it is in neither. */
static void two_tables_say_the_same_mean_retention(void **state)
{
    struct world *w = three_budgets();
    struct kva_report *r;

    (void)state;
    for (int o = 0; o < 50; o++) { /* of the smallest budget */
        w->out[o].memory.kv_dense_bytes *= 3;
        w->out[o].memory.kv_alloc_bytes *= 2;
        w->out[o].memory.kv_live_bytes *= 2;
    }
    for (int lacks = 0; lacks < 2; lacks++) {
        w->out[150].status = S(lacks ? "oom" : "ok");
        r = built(w, NULL);
        assert_int_equal(number(tab(r, "-summary"), 0, "budgets"), 3 - lacks);
        assert_string_equal(word(tab(r, "-retention"), 0, "method"), "a");
        NEAR(number(tab(r, "-retention"), 0, "mean_retention"),
             number(tab(r, "-summary"), 0, "mean_retention"), 0);
        NEAR(number(tab(r, "-retention"), 0, "budget_at_95"),
             number(tab(r, "-summary"), 0, "budget_at_95"), 0);
        kva_report_free(r);
    }
    free(w);
}

static void a_level_never_reached_says_more_than_the_largest(void **state)
{
    struct world *w = world_new(1, 100);
    struct kva_report *r;

    (void)state;
    add_cell(w, 0, "a", 0.1, "physical", share(0, 80));
    add_cell(w, 0, "a", 0.2, "physical", share(1, 70));
    add_cell(w, 0, "dense", 1, "dense", share(2, 100));
    r = built(w, NULL);
    assert_string_equal(cell(tab(r, "-summary"), 0, "budget_at_95")->text, ">20.1");
    assert_true(isnan(number(tab(r, "-summary"), 0, "budget_at_95")));
    assert_string_equal(word(tab(r, "-summary"), 0, "monotone"), "no");
    kva_report_free(r);
    free(w);
}

static void a_row_off_the_front_is_dominated_only_when_significantly_worse(void **state)
{
    struct world *w = three_budgets();
    struct kva_report *r = built(w, NULL);
    const struct kva_board *b = mean_board(r, "physical");

    (void)state;
    assert_true(arm(b, "a", 0.1)->front && arm(b, "a", 0.2)->front);
    assert_true(arm(b, "a", 0.4)->front && arm(b, "dense", 1)->front);
    /* b: 60 at 40 % against 97; c: 89 at 40 % against 97 differ in 8, p = 0.008 */
    assert_false(arm(b, "b", 0.4)->front);
    assert_true(arm(b, "b", 0.4)->dominated);
    assert_true(arm(b, "c", 0.4)->dominated);
    kva_report_free(r);
    (void)share(4, 95); /* two of a hundred: p = 0.5 */
    for (int o = 0; o < w->d.n_outcomes; o++)
        if (w->out[o].cell == 4)
            w->out[o].score = w->out[o].sample < 95;
    r = built(w, NULL);
    b = mean_board(r, "physical");
    assert_false(arm(b, "c", 0.4)->front);
    assert_false(arm(b, "c", 0.4)->dominated);
    kva_report_free(r);
    free(w);
}

static void incomplete_rows_are_on_no_front_and_in_no_summary(void **state)
{
    struct world *w = three_budgets();
    struct kva_report *r;

    (void)state;
    w->cell[1].n_expected = 101; /* a at 20 %: one outcome is missing */
    r = built(w, NULL);
    assert_false(arm(mean_board(r, "physical"), "a", 0.2)->front);
    NEAR(number(tab(r, "-summary"), 0, "budgets"), 2, 0);
    kva_report_free(r);
    free(w);
}

static void retention_macro_is_the_mean_over_models_with_its_own_interval(void **state)
{
    struct world *w = world_new(2, 100);
    struct kva_report *r;
    const struct kva_tab *t;
    struct kva_interval ci[2], want;
    double x[2] = {0.8, 0.6};
    int n = 0;

    (void)state;
    /* the second model's prompts are another task of the same name */
    w->task[1] = w->task[0];
    digest("task", 1, w->task[1].digest);
    w->model[1] = w->model[0];
    w->model[1].name = S("toy2");
    w->d.n_models = 2;
    add_cell(w, 0, "a", 0.5, "physical", share(0, 80));
    add_cell(w, 0, "dense", 1, "dense", share(1, 100));
    add_cell(w, 1, "a", 0.5, "physical", share(2, 60))->model = 1;
    add_cell(w, 1, "dense", 1, "dense", share(3, 100))->model = 1;
    r = built(w, NULL);
    for (int i = 0; i < r->n_board; i++)
        if (!r->board[i].single)
            ci[n++] = arm(&r->board[i], "a", 0.5)->boot.ratio_ci;
    t = tab(r, "-macro");
    assert_non_null(t);
    assert_int_equal(n, 2);
    assert_int_equal(t->n_row, 1);
    NEAR(number(t, 0, "retention_macro"), 0.7, 1e-12);
    want = kva_stat_mean_interval(x, ci, 2);
    assert_true(want.ok && want.lo < 0.7 && want.hi > 0.7);
    NEAR(cell(t, 0, "retention_macro")->lo, want.lo, 1e-12);
    /* narrower than either alone */
    assert_true(want.hi - want.lo < ci[0].hi - ci[0].lo);
    kva_report_free(r);
    free(w);
}

static void the_interval_of_a_mean_adds_squares_of_each_side(void **state)
{
    const double x[2] = {0.5, 0.7};
    struct kva_interval ci[2] = {{0.4, 0.7, true}, {0.7, 0.9, true}};
    struct kva_interval m = kva_stat_mean_interval(x, ci, 2);

    (void)state;
    NEAR(m.lo, 0.6 - 0.1 / 2, 1e-12);
    NEAR(m.hi, 0.6 + sqrt(0.04 + 0.04) / 2, 1e-12);
    ci[1].ok = false;
    assert_false(kva_stat_mean_interval(x, ci, 2).ok);
}

static void no_number_of_threads_changes_a_byte(void **state)
{
    struct world *w = world_new(3, 60);
    char *first = NULL;
    char row[61];

    (void)state;
    row[60] = 0;
    for (int t = 0; t < 3; t++)
        for (int m = 0; m < 5; m++) {
            static const char *const name[] = {"a", "b", "blind", "c", "dense"};
            struct kva_rng rng = {(uint64_t)(10 * t + m)};

            for (int i = 0; i < 60; i++)
                row[i] = (m == 4 && i < 58) ||
                                 (m != 2 && m != 4 && kva_rng_below(&rng, 10) < 7)
                             ? '1'
                             : '0';
            add_cell(w, t, name[m], 0.5, "physical", row);
        }
    for (int threads = 1; threads <= 3; threads++) {
        struct kva_report_opts o = {.replicates = 300, .threads = threads};
        struct kva_report *r;
        struct kva_buf all;
        struct kva_error err = {0};

        assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_OK);
        kva_buf_init(&all, 0);
        assert_int_equal(kva_json_tables(r, true, &all, &err), KVA_OK);
        if (first)
            assert_string_equal(first, all.data);
        else
            first = strdup(all.data);
        kva_buf_release(&all);
        kva_report_free(r);
    }
    free(first);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_summary_numbers_come_out),
        cmocka_unit_test(two_tables_say_the_same_mean_retention),
        cmocka_unit_test(a_level_never_reached_says_more_than_the_largest),
        cmocka_unit_test(a_row_off_the_front_is_dominated_only_when_significantly_worse),
        cmocka_unit_test(incomplete_rows_are_on_no_front_and_in_no_summary),
        cmocka_unit_test(retention_macro_is_the_mean_over_models_with_its_own_interval),
        cmocka_unit_test(the_interval_of_a_mean_adds_squares_of_each_side),
        cmocka_unit_test(no_number_of_threads_changes_a_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
