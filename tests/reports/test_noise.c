/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_noise.c - repetitions of the full cache: T-NOISE and the floor under ties. */
#include "tests/reports/tables.h"

/* Cell of n samples x 3 reps; right[k] samples are right in rep k; tokens differ where
 * scores do. */
static struct kva_data_cell *repeated(struct world *w, int task, int n, const int *right)
{
    struct kva_data_cell *c;
    char none[1] = "";

    c = add_cell(w, task, "dense", 1, "dense", none);
    c->n_expected = 3 * n;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            struct kva_data_outcome *o = &w->out[w->d.n_outcomes++];

            *o = (struct kva_data_outcome){.cell = w->d.n_cells - 1,
                                           .sample = task * w->per_task + i,
                                           .rep = k,
                                           .status = S("ok"),
                                           .stop = S("eos"),
                                           .score = i < right[k],
                                           .gold_nll = (double)NAN,
                                           .span_e = (double)NAN,
                                           .span_payload = (double)NAN,
                                           .span_d = (double)NAN,
                                           .span_x = (double)NAN,
                                           .gen_key = i < right[k] ? 7 : 8,
                                           .wrong_needle = -1};
        }
    return c;
}

static void the_worked_example_gives_its_floor(void **state)
{
    static const int right[] = {90, 92, 91};
    struct world *w = world_new(1, 100);
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    (void)repeated(w, 0, 100, right);
    w->run[0].backend = S("cuda");
    r = built(w, "noise");
    t = tab(r, "noise");
    assert_int_equal(t->n_row, 1);
    NEAR(number(t, 0, "reps"), 3, 0);
    NEAR(number(t, 0, "n"), 100, 0);
    NEAR(number(t, 0, "s"), 0.01, 1e-12);
    NEAR(number(t, 0, "floor"), 0.0283, 5e-5);
    /* 90|92, 90|91, 91|92 differ in 2, 1, 1 of 100 */
    NEAR(number(t, 0, "flip"), 4.0 / 300, 1e-12);
    NEAR(number(t, 0, "regen"), 4.0 / 300, 1e-12);
    assert_string_equal(word(t, 0, "verdict"), "measured");
    assert_true(r->board[0].noise_known);
    NEAR(r->board[0].noise, 0.0283, 5e-5);
    kva_report_free(r);
    /* tokens that differ on the CPU are a fault, and it is told */
    w->run[0].backend = S("cpu");
    r = built(w, "noise");
    assert_string_equal(word(tab(r, "noise"), 0, "verdict"),
                        "NOT EXACT: the CPU backend must be");
    kva_report_free(r);
    free(w);
}

static void two_repetitions_are_shown_but_are_no_floor(void **state)
{
    static const int right[] = {90, 92, 91};
    struct world *w = world_new(1, 100);
    struct kva_report *r;

    (void)state;
    (void)repeated(w, 0, 100, right);
    for (int o = 0; o < w->d.n_outcomes; o++)
        if (w->out[o].rep == 2)
            w->out[o].status = S("oom"); /* the third one failed */
    r = built(w, "noise");
    assert_int_equal(tab(r, "noise")->n_row, 1);
    NEAR(number(tab(r, "noise"), 0, "reps"), 2, 0);
    assert_true(isnan(number(tab(r, "noise"), 0, "floor")));
    assert_false(r->board[0].noise_known);
    kva_report_free(r);
    free(w);
}

static void machines_of_two_kinds_are_never_repetitions_of_each_other(void **state)
{
    static const int right[] = {50, 50, 90};
    struct world *w = world_new(1, 100);
    struct kva_data_run runs[2];
    struct kva_report *r;

    (void)state;
    (void)repeated(w, 0, 100, right);
    runs[0] = runs[1] = w->run[0];
    memset(runs[1].perf_digest, 9, 32);
    w->d.runs = runs;
    w->d.n_runs = 2;
    for (int o = 0; o < w->d.n_outcomes; o++)
        w->out[o].run = w->out[o].rep == 2;
    r = built(w, "noise");
    assert_int_equal(tab(r, "noise")->n_row, 1); /* one repetition alone has no row */
    NEAR(number(tab(r, "noise"), 0, "flip"), 0, 0);
    assert_false(r->board[0].noise_known);
    kva_report_free(r);
    free(w);
}

static void nothing_repeated_says_not_measured(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r = built(w, "noise");
    char *text = rendered(r, kva_report_text);

    (void)state;
    assert_int_equal(tab(r, "noise")->n_row, 0);
    assert_non_null(strstr(text, "noise floor not measured"));
    assert_non_null(strstr(text, "Noise floor not measured"));
    free(text);
    kva_report_free(r);
    free(w);
}

/* 70 and 95 of 100 differ beyond chance, but not beyond repetitions that themselves move
 * by 10 points. */
static void a_difference_within_the_floor_is_a_tie(void **state)
{
    static const int steady[] = {95, 95, 95}, restless[] = {100, 80, 90};
    char good[101], worse[101];

    (void)state;
    for (int i = 0; i < 100; i++) {
        good[i] = i < 95 ? '1' : '0';
        worse[i] = i < 70 ? '1' : '0';
    }
    good[100] = worse[100] = 0;
    for (int k = 0; k < 2; k++) {
        struct world *w = world_new(1, 100);
        struct kva_report *r;
        const struct kva_board *b;

        (void)repeated(w, 0, 100, k ? restless : steady);
        add_cell(w, 0, "good", 0.5, "physical", good);
        add_cell(w, 0, "worse", 0.5, "physical", worse);
        r = built(w, NULL);
        b = mean_board(r, "physical");
        assert_int_equal(arm(b, "good", 0.5)->rank, 1);
        assert_int_equal(arm(b, "worse", 0.5)->rank, k ? 1 : 2);
        assert_true(b->noise_known && (b->noise > 0.25) == (k == 1));
        kva_report_free(r);
        free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_gives_its_floor),
        cmocka_unit_test(two_repetitions_are_shown_but_are_no_floor),
        cmocka_unit_test(machines_of_two_kinds_are_never_repetitions_of_each_other),
        cmocka_unit_test(nothing_repeated_says_not_measured),
        cmocka_unit_test(a_difference_within_the_floor_is_a_tie),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
