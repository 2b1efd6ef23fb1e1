/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_stats_coverage.c - the small version of `make simulate`: averages over p of what
 * intervals and tests hold, with room for the error of few trials. metrics/coverage.md
 * has the whole table. */
#include "tests/metrics/stats_fixture.h"
#include "tests/sim/sim.h"

enum { TRIALS = 200, REPLICATES = 300, SEED = 7 };

struct held {
    double single, ratio, diff, p_below;
};

/* Averages over p = 0.15, 0.35, ... 0.95: 1,000 trials, standard error 0.7 %. */
static struct held average(enum sim_shape shape, int tasks, int n, int questions,
                           bool pairs, bool test)
{
    struct held h = {0, 0, 0, 0};
    int m = 0;

    for (int p = 15; p <= 95; p += 20, m++) {
        struct sim_case c = {
            shape, tasks, n, questions, p / 100.0, test ? 1 : SIM_LOWER, SIM_KEEP};
        struct sim_result r =
            sim_run(&c, TRIALS, REPLICATES, pairs, test, SEED + (uint32_t)p);

        h.single += r.single;
        h.ratio += r.ratio;
        h.diff += r.diff;
        h.p_below += r.p_below;
    }
    return (struct held){h.single / m, h.ratio / m, h.diff / m, h.p_below / m};
}

static void holds(const char *what, int n, double share)
{
    if (!(share > 0.92 && share < 0.993)) {
        print_error("%s, n = %d: %.1f %%\n", what, n, 100 * share);
        fail();
    }
}

static void one_arm_is_held_by_its_interval(void **state)
{
    (void)state;
    for (int s = 0; s < SIM_SHAPES; s++)
        for (int n = 20; n <= 200; n = n == 20 ? 50 : n * 4)
            holds(sim_names[s], n, average(s, 1, n, 1, false, false).single);
}

static void ratio_and_difference_are_held_by_theirs(void **state)
{
    (void)state;
    for (int s = 0; s < SIM_SHAPES; s++)
        for (int n = 20; n <= 50; n += 30) {
            struct held h = average(s, 1, n, 1, true, false);

            holds(sim_names[s], n, h.ratio);
            holds(sim_names[s], n, h.diff);
        }
}

static void suites_and_clusters_are_held_too(void **state)
{
    (void)state;
    for (int s = 0; s < SIM_SHAPES; s += 4) {
        struct held suite = average(s, 5, 20, 1, true, false),
                    many = average(s, 1, 20, 4, true, false);

        holds("suite", 20, suite.single);
        holds("suite, difference", 20, suite.diff);
        holds("clusters", 20, many.single);
        holds("clusters, difference", 20, many.diff);
    }
}

/* What ignoring the contexts would do: the test must see it. */
static void without_clusters_the_interval_would_be_too_narrow(void **state)
{
    struct sim_case c = {SIM_RIDGE, 1, 50, 4, 0.5, SIM_LOWER, SIM_KEEP};
    static struct sim_data d;
    gsl_rng *g = gsl_rng_alloc(gsl_rng_mt19937);
    int held = 0;

    (void)state;
    gsl_rng_set(g, SEED);
    for (int i = 0; i < TRIALS; i++) {
        sim_fill(g, &c, &d);
        d.s[0].a = d.b[0];
        d.s[0].cluster = NULL;
        held += sim_holds(kva_stat_arm(d.s, 1), c.p);
    }
    gsl_rng_free(g);
    assert_true(held < 0.88 * TRIALS);
}

/* Two-sided tests at 0.05 on equal arms: at most 5 % plus three standard errors. */
static void chance_is_called_a_win_at_most_as_often_as_stated(void **state)
{
    (void)state;
    for (int s = 0; s < SIM_SHAPES; s++) {
        assert_true(average(s, 1, 50, 1, false, true).p_below < 0.072);
        assert_true(average(s, 5, 20, 1, false, true).p_below < 0.072);
        assert_true(average(s, 1, 20, 4, false, true).p_below < 0.072);
        assert_true(sim_ranks(s, 50, 100, REPLICATES, SEED) <= 0.10);
    }
}

/* 80 % less what McNemar's exact test wastes at 50 samples; standard error 2. */
static void a_difference_called_visible_is_found(void **state)
{
    (void)state;
    for (int s = 0; s < SIM_SHAPES; s++)
        for (int kind = 0; kind < 3; kind++) {
            struct sim_case c = {s,  kind == 1 ? 5 : 1, 50, kind == 2 ? 4 : 1, 0.6, 1,
                                 0.5};
            struct sim_power r = sim_power(&c, false, 400, REPLICATES, SEED);

            assert_true(r.found > 0.65 && r.found < 0.88);
            assert_true(fabs(r.mde - 1) < 0.03);
            if (kind == 2)
                assert_true(sim_power(&c, true, 100, REPLICATES, SEED).found > 0.9);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_arm_is_held_by_its_interval),
        cmocka_unit_test(ratio_and_difference_are_held_by_theirs),
        cmocka_unit_test(suites_and_clusters_are_held_too),
        cmocka_unit_test(without_clusters_the_interval_would_be_too_narrow),
        cmocka_unit_test(chance_is_called_a_win_at_most_as_often_as_stated),
        cmocka_unit_test(a_difference_called_visible_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
