/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_timing.c - numbers of timed repetitions, on rows made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "reports/timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct made {
    struct kva_data d;
    struct kva_data_perf perf[400];
    struct kva_data_run run[4];
    char uuid[4][8];
};

static void start(struct made *m)
{
    memset(m, 0, sizeof *m);
    m->d.perfs = m->perf;
    m->d.runs = m->run;
    m->d.n_runs = 4;
    for (int i = 0; i < 4; i++) {
        snprintf(m->uuid[i], sizeof m->uuid[i], "u%d", i);
        m->run[i].uuid = m->uuid[i];
        m->run[i].started_ms = 1000 * (i % 2); /* 1 and 3 are the newest */
    }
}

static void add(struct made *m, int cell, int run, char *phase, int64_t work, int n,
                const double *ms)
{
    for (int i = 0; i < n; i++) {
        assert_true(m->d.n_perfs < 400);
        m->perf[m->d.n_perfs++] = (struct kva_data_perf){.cell = cell,
                                                         .run = run,
                                                         .rep = i,
                                                         .ord = i,
                                                         .phase = phase,
                                                         .ns = (int64_t)(ms[i] * 1e6),
                                                         .work = work};
    }
}

static void near(double got, double want)
{
    if (!(fabs(got - want) < 1e-9))
        fail_msg("%.17g, not %.17g", got, want);
}

static int by_key(const void *a, const void *b)
{
    const struct kva_data_perf *x = a, *y = b;
    int c = (x->cell > y->cell) - (x->cell < y->cell);

    if (c == 0)
        c = strcmp(x->phase, y->phase);
    if (c == 0)
        c = (x->run > y->run) - (x->run < y->run);
    return c != 0 ? c : (x->rep > y->rep) - (x->rep < y->rep);
}

static struct kva_timing of(struct made *m, int cell, int base, const char *phase)
{
    struct kva_timing t;

    qsort(m->perf, (size_t)m->d.n_perfs, sizeof m->perf[0], by_key);
    assert_int_equal(kva_timing_of(&m->d, cell, base, phase, 7, 2000, &t, NULL), KVA_OK);
    return t;
}

static char TTFT[] = "ttft", DECODE[] = "decode", GEMM[] = "calib_gemm",
            COPY[] = "calib_copy";

/* reports.md 7.3: base {100,101,99,102,98,100}, new {110,111,109,112,108,110} */
static void worked_example_has_a_ratio_of_1_10(void **state)
{
    static const double base[] = {100, 101, 99, 102, 98, 100},
                        now[] = {110, 111, 109, 112, 108, 110};
    struct made m;
    struct kva_timing t;

    (void)state;
    start(&m);
    add(&m, 0, 1, TTFT, 500, 6, base);
    add(&m, 1, 1, TTFT, 500, 6, now);
    t = of(&m, 1, 0, "ttft");
    assert_int_equal(t.n, 6);
    assert_int_equal(t.run, 1);
    near(t.median, 110);
    /* sorted 108 109 110 110 111 112: h = 1.25 and 3.75 */
    near(t.q1, 109.25);
    near(t.q3, 110.75);
    near(t.ratio, 1.10);
    assert_true(t.ci.lo < 1.10 && t.ci.lo > 1.07);
    assert_true(t.ci.hi > 1.10 && t.ci.hi < 1.13);
    assert_int_equal(t.outliers, 0);
    assert_true(isnan(t.yards)); /* none were measured */
    t = of(&m, 0, 0, "ttft");
    assert_true(isnan(t.ratio)); /* to itself: no ratio */
    near(t.median, 100);
}

static void decode_is_a_token_and_yardsticks_are_their_geometric_mean(void **state)
{
    static const double steps[] = {40, 44, 48, 52, 56, 60}, g[] = {2, 2.2, 1.8},
                        c[] = {8, 8, 9};
    struct made m;
    struct kva_timing t;

    (void)state;
    start(&m);
    add(&m, 2, 3, DECODE, 4, 6, steps);
    add(&m, 0, 3, GEMM, 1, 3, g); /* under another cell of the sitting */
    add(&m, 0, 3, COPY, 1, 3, c);
    add(&m, 0, 1, GEMM, 1, 3, c); /* another run's are not this run's */
    t = of(&m, 2, -1, "decode");
    near(t.median, 12.5);
    near(t.yards, 12.5 / sqrt(2.0 * 8.0));
}

static void the_newest_run_counts_and_ratios_stay_inside_it(void **state)
{
    static const double slow[] = {200, 201, 202, 203, 204, 205},
                        fast[] = {100, 101, 102, 103, 104, 105};
    struct made m;
    struct kva_timing t;

    (void)state;
    start(&m);
    add(&m, 0, 0, TTFT, 5, 6, slow);
    add(&m, 1, 0, TTFT, 5, 6, slow);
    add(&m, 1, 3, TTFT, 5, 6, fast); /* as new as run 1, but a later uuid */
    add(&m, 1, 1, TTFT, 5, 6, fast);
    t = of(&m, 1, 0, "ttft");
    assert_int_equal(t.run, 1);
    assert_int_equal(t.n, 6);
    near(t.median, 102.5);
    assert_true(isnan(t.ratio)); /* dense was not timed in that run */
    t = of(&m, 0, 1, "ttft");
    assert_int_equal(t.run, 0);
    near(t.ratio, 1);
}

static void outliers_are_counted_and_kept(void **state)
{
    static const double x[] = {100, 101, 99, 100, 102, 98, 900};
    struct made m;
    struct kva_timing t;

    (void)state;
    start(&m);
    add(&m, 0, 1, TTFT, 5, 7, x);
    t = of(&m, 0, -1, "ttft");
    assert_int_equal(t.n, 7);
    assert_int_equal(t.outliers, 1);
    near(t.median, 100);
}

static void nothing_measured_is_nothing_and_no_zero(void **state)
{
    static const double x[] = {1};
    struct made m;
    struct kva_timing t;

    (void)state;
    start(&m);
    t = of(&m, 0, 1, "ttft");
    assert_int_equal(t.n, 0);
    assert_int_equal(t.run, -1);
    assert_true(isnan(t.median) && isnan(t.q1) && isnan(t.ratio) && isnan(t.yards));
    add(&m, 0, 0, DECODE, 0, 1, x); /* no token: no time a token */
    t = of(&m, 0, -1, "decode");
    assert_int_equal(t.n, 0);
    assert_true(isnan(t.median));
    add(&m, 1, 0, TTFT, 3, 1, x);
    t = of(&m, 1, -1, "ttft");
    near(t.q1, 1);
    near(t.q3, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example_has_a_ratio_of_1_10),
        cmocka_unit_test(decode_is_a_token_and_yardsticks_are_their_geometric_mean),
        cmocka_unit_test(the_newest_run_counts_and_ratios_stay_inside_it),
        cmocka_unit_test(outliers_are_counted_and_kept),
        cmocka_unit_test(nothing_measured_is_nothing_and_no_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
