/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_exec_unit.c - a unit of work under memory that runs out: a cell's outcome never
 * depends on which of its neighbours still fitted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runner/exec.h"

#define CELLS 16

struct heard {
    int n;
    char status[CELLS][12];
    uint64_t said[CELLS]; /* hash of ids, kept set and nats */
};

static enum kva_status on_sample(void *ctx, const struct kva_sample_row *s,
                                 struct kva_error *err)
{
    (void)ctx;
    (void)s;
    (void)err;
    return KVA_OK;
}

static enum kva_status on_results(void *ctx, const struct kva_result *r, int n,
                                  struct kva_error *err)
{
    struct heard *h = ctx;

    (void)err;
    for (int i = 0; i < n; i++) {
        uint64_t x = kva_fnv1a64(r[i].ids, (size_t)r[i].n_gen * sizeof(int32_t));

        assert_true(r[i].cell < CELLS);
        assert_int_equal(h->status[r[i].cell][0], 0); /* told once */
        snprintf(h->status[r[i].cell], sizeof h->status[0], "%s", r[i].status);
        x = kva_fnv1a64_more(x, &r[i].kept_fnv, sizeof r[i].kept_fnv);
        if (r[i].n_scores > 1)
            x = kva_fnv1a64_more(x, &r[i].scores[1].value, sizeof(double));
        h->said[r[i].cell] = x;
        h->n++;
    }
    return KVA_OK;
}

static const char SUITE[] =
    "{\"schema\":1,\"name\":\"t\",\"defaults\":{\"n\":1,\"max_new_tokens\":4},"
    "\"models\":[\"builtin:retrieval\"],\"methods\":[\"keydiff\",\"snapkv:window=8\","
    "\"random\"],"
    "\"tasks\":[\"ruler/"
    "niah_single_2@256\"],\"budgets\":[{\"keep\":0.5},{\"keep\":0.25}],"
    "\"schedules\":[\"oneshot\",\"block:64+decode:1\"]}";

static enum kva_status run_once(struct kva_plan *plan, struct heard *h,
                                struct kva_error *err)
{
    struct kva_exec_opts opts = {0};
    struct kva_sink sink = {h, on_sample, on_results, NULL};
    int64_t rows = 0;

    memset(h, 0, sizeof *h);
    return kva_exec_unit(plan, 0, false, &opts, &sink, &rows, err);
}

/* Of the allocations one in STEP fails, once; fewer under a sanitizer, which is slow. */
#ifdef __SANITIZE_ADDRESS__
enum { STEP = 137 };
#else
enum { STEP = 37 };
#endif

static void an_outcome_does_not_depend_on_what_ran_out_of_memory(void **state)
{
    struct kva_suite_opts none = {0};
    struct kva_suite suite = {0};
    struct kva_plan plan = {0};
    struct kva_error err = {0};
    struct kva_buf report;
    struct heard want, got;
    int whole = 0, failed = 0, oom = 0;

    (void)state;
    kva_buf_init(&report, 0);
    assert_int_equal(kva_suite_parse(SUITE, "t", ".", &none, &suite, &report, &err),
                     KVA_OK);
    assert_int_equal(kva_plan_new(&suite, NULL, 1, &plan, &err), KVA_OK);
    assert_int_equal(plan.n_units, 1);
    assert_int_equal(run_once(&plan, &want, &err), KVA_OK);
    assert_int_equal(want.n, plan.n_cells);
    for (long at = 1; at < 4000; at += STEP) {
        enum kva_status rc;

        err = (struct kva_error){0};
        kva_alloc_fail_at(at);
        rc = run_once(&plan, &got, &err);
        kva_alloc_fail_at(0);
        if (rc != KVA_OK) {
            assert_int_equal(rc, KVA_ENOMEM);
            failed++;
            continue;
        }
        assert_int_equal(got.n, plan.n_cells);
        for (int c = 0; c < plan.n_cells; c++) {
            if (strcmp(got.status[c], "ok") != 0) {
                assert_string_equal(got.status[c], "oom");
                oom++;
            } else {
                assert_true(got.said[c] == want.said[c]);
            }
        }
        whole++;
    }
    print_message("%d runs whole, %d failed as a whole, %d outcomes out of memory\n",
                  whole, failed, oom);
    assert_true(whole * STEP > 1500);
    kva_plan_release(&plan);
    kva_suite_release(&suite);
    kva_buf_release(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outcome_does_not_depend_on_what_ran_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
