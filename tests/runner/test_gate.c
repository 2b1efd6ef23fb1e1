/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_gate.c - when a sweep shows nothing, on plain arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runner/gate.h"

enum { MOST = 64 };

/* n binary scores, k of them right. */
static const double *right(int k, int n, double out[MOST])
{
    for (int i = 0; i < n; i++)
        out[i] = i < k;
    return out;
}

static struct kva_gate_task task(const double *dense, int n, double floor)
{
    return (struct kva_gate_task){
        .dense = dense, .n_dense = (size_t)n, .guess_floor = floor};
}

/* small-models.md 1: 2 of 8 with four keys is the floor of 1/4 (Wilson 7 to 59), 8 of 8
 * with two keys is not (68 to 100 against 50). */
static void a_task_is_below_when_its_lower_bound_is_not_above_the_floor(void **state)
{
    double v[MOST];
    struct kva_gate_task t;

    (void)state;
    t = task(right(2, 8, v), 8, 0.25);
    assert_true(kva_gate_below(&t));
    t = task(right(8, 8, v), 8, 0.5);
    assert_false(kva_gate_below(&t));
    t = task(right(7, 8, v), 8, 0.5); /* 53 to 98: just above */
    assert_false(kva_gate_below(&t));
    t = task(right(6, 8, v), 8, 0.5); /* 41 to 93 */
    assert_true(kva_gate_below(&t));
    t = task(right(0, 12, v), 12, 0); /* nothing right: the bound is 0, the floor too */
    assert_true(kva_gate_below(&t));
    t = task(right(1, 12, v), 12, 0);
    assert_false(kva_gate_below(&t));
    t = task(v, 0, 0);
    assert_false(kva_gate_below(&t)); /* not measured */
}

/* 40 of 56 right is above a floor of 1/2 (Wilson 58 to 82). Where these are seven
 * contexts of eight questions, two of them wholly wrong, it is not: seven units say less
 * than 36 to 92. */
static void questions_of_one_context_are_no_independent_evidence(void **state)
{
    double v[MOST];
    int context[MOST];
    struct kva_gate_task t = task(v, 56, 0.5);

    (void)state;
    for (int i = 0; i < 56; i++) {
        context[i] = i / 8;
        v[i] = i >= 16;
    }
    assert_false(kva_gate_below(&t));
    t.context = context;
    assert_true(kva_gate_below(&t));
    assert_false(kva_gate_shut(&t, 1)); /* seven contexts: too few to judge */
    for (int i = 0; i < 56; i++) {
        context[i] = i / 4; /* fourteen, and none is right */
        v[i] = 0;
    }
    assert_true(kva_gate_shut(&t, 1));
    for (int i = 0; i < 56; i++) {
        context[i] = i; /* each its own: as without */
        v[i] = i >= 16;
    }
    assert_false(kva_gate_below(&t));
}

static void a_blind_run_can_raise_the_floor(void **state)
{
    double v[MOST], blind[MOST];
    struct kva_gate_task t = task(right(8, 12, v), 12, 0.25);

    (void)state;
    assert_false(kva_gate_below(&t)); /* 39 % at least */
    t.blind = right(5, 12, blind);    /* 42 % without reading */
    t.n_blind = 12;
    assert_true(kva_gate_floor(&t) > 0.41 && kva_gate_floor(&t) < 0.42);
    assert_true(kva_gate_below(&t));
    t.blind = right(1, 12, blind);
    assert_true(kva_gate_floor(&t) == 0.25);
    assert_false(kva_gate_below(&t));
}

static void scores_between_0_and_1_have_their_own_interval(void **state)
{
    double v[MOST], blind[MOST];
    struct kva_gate_task t = {.dense = v, .n_dense = 20, .blind = blind, .n_blind = 20};

    (void)state;
    for (int i = 0; i < 20; i++) {
        v[i] = 0.3 + 0.01 * i;
        blind[i] = 0.2;
    }
    assert_false(kva_gate_below(&t));
    for (int i = 0; i < 20; i++)
        blind[i] = 0.39;
    assert_true(kva_gate_below(&t));
}

static void the_gate_shuts_when_every_task_was_judged_and_is_below(void **state)
{
    double a[MOST], b[MOST], c[MOST];
    struct kva_gate_task t[3];

    (void)state;
    t[0] = task(right(0, 10, a), 10, 0);
    t[1] = task(right(3, 10, b), 10, 0.25);
    t[2] = task(right(0, 9, c), 9, 0);
    assert_true(kva_gate_shut(t, 2));
    assert_false(kva_gate_shut(t, 3)); /* one has nine samples yet */
    t[2] = task(right(0, 10, c), 10, 0);
    assert_true(kva_gate_shut(t, 3));
    t[1] = task(right(8, 10, b), 10, 0.25); /* one task that works keeps it open */
    assert_false(kva_gate_shut(t, 3));
    assert_false(kva_gate_shut(t, 0));
}

static void answers_that_do_not_follow_the_budget_are_suspicious(void **state)
{
    struct kva_gate_answer a[12], b[12];
    struct kva_gate_same sum = {0};

    (void)state;
    memset(a, 0, sizeof a);
    for (int i = 0; i < 12; i++) {
        a[i] = (struct kva_gate_answer){.idx = i, .evicted = true};
        a[i].sha256[5] = (uint8_t)i;
    }
    memcpy(b, a, sizeof a);
    kva_gate_compare(a, 12, b, 12, &sum);
    assert_int_equal(sum.both, 12);
    assert_int_equal(sum.same, 12);
    assert_true(kva_gate_suspicious(&sum));
    b[7].sha256[31] = 1; /* one answer differs */
    sum = (struct kva_gate_same){0};
    kva_gate_compare(a, 12, b, 12, &sum);
    assert_int_equal(sum.same, 11);
    assert_false(kva_gate_suspicious(&sum));
    b[7].sha256[31] = 0;
    b[3].evicted = false; /* a prompt that fits whole says nothing */
    sum = (struct kva_gate_same){0};
    kva_gate_compare(a, 12, b, 12, &sum);
    assert_false(kva_gate_suspicious(&sum));
    b[3].evicted = true;
    sum = (struct kva_gate_same){0}; /* samples that one of them lacks are passed over */
    kva_gate_compare(a, 12, b + 1, 11, &sum);
    assert_int_equal(sum.both, 11);
    assert_int_equal(sum.same, 11);
    kva_gate_compare(a + 3, 9, b, 2, &sum);
    assert_int_equal(sum.both, 11);
    sum = (struct kva_gate_same){0};
    kva_gate_compare(a, 9, b, 12, &sum);
    assert_int_equal(sum.same, 9);
    assert_false(kva_gate_suspicious(&sum)); /* too few to say */
    for (int i = 0; i < 12; i++) {
        a[i].idx = b[i].idx = i / 3;
        a[i].rep = b[i].rep = i % 3;
    }
    sum = (struct kva_gate_same){0}; /* twelve draws of four samples */
    kva_gate_compare(a, 12, b, 12, &sum);
    assert_int_equal(sum.both, 4);
    assert_int_equal(sum.same, 4);
    b[4].sha256[31] = 1;
    sum = (struct kva_gate_same){0};
    kva_gate_compare(a, 12, b, 12, &sum);
    assert_int_equal(sum.both, 4);
    assert_int_equal(sum.same, 3); /* the sample differs that has a draw that does */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_below_when_its_lower_bound_is_not_above_the_floor),
        cmocka_unit_test(questions_of_one_context_are_no_independent_evidence),
        cmocka_unit_test(a_blind_run_can_raise_the_floor),
        cmocka_unit_test(scores_between_0_and_1_have_their_own_interval),
        cmocka_unit_test(the_gate_shuts_when_every_task_was_judged_and_is_below),
        cmocka_unit_test(answers_that_do_not_follow_the_budget_are_suspicious),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
