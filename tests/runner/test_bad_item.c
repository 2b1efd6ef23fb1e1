/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_bad_item.c - a record that cannot be used: its outcomes are failures that say why,
 * and the other samples of its unit are what they are without it. */
#include "tests/runner/fake_task.h"

#define SUITE                                                                            \
    "{\"schema\":1,\"name\":\"t\",\"defaults\":{\"n\":1},\"models\":["                   \
    "\"builtin:retrieval\"],\"methods\":[\"keydiff\"],\"tasks\":[\"ruler/"               \
    "niah_single_1@512\"],\"budgets\":[{\"keep\":0.5}]}"

enum { CELLS = 3 }; /* keydiff, dense, blind */
static const int all[] = {0, 1, 2, 3};

static void run_all(bool perf, struct fake_heard *h)
{
    struct fake_plan f;

    fake_open(&f, SUITE, all, 4, perf);
    assert_int_equal(f.plan.n_cells, CELLS);
    fake_run(&f, perf, 0, h);
    fake_close(&f);
}

static void expect_failure(const struct fake_heard *h, int idx, const char *why)
{
    assert_non_null(h->meta[idx]); /* its sample is stored */
    for (int c = 0; c < CELLS; c++) {
        const struct kva_result *r = fake_find(h, c, idx);

        assert_non_null(r);
        assert_string_equal(r->status, "error");
        assert_string_equal(r->error, why);
        assert_int_equal(r->n_scores, 0);
    }
}

static void check(bool perf, const bool *broken)
{
    static struct fake_heard want, got;

    fake_needles();
    run_all(perf, &want);
    for (int i = 0; i < 4; i++)
        fake_fails[i] = broken[i] ? KVA_EFORMAT : KVA_OK;
    run_all(perf, &got);
    assert_int_equal(got.n, 4 * CELLS);
    for (int i = 0; i < 4; i++) {
        char why[64];

        snprintf(why, sizeof why, "fake.jsonl:%d: no question", i + 1);
        if (broken[i])
            expect_failure(&got, i, why);
        for (int c = 0; c < CELLS && !broken[i]; c++) {
            const struct kva_result *a = fake_find(&want, c, i);
            const struct kva_result *b = fake_find(&got, c, i);

            assert_string_equal(b->status, "ok");
            assert_string_equal(a->text, b->text);
            assert_int_equal(a->kept_fnv, b->kept_fnv);
        }
    }
    fake_forget(&want);
    fake_forget(&got);
}

static void a_bad_record_fails_its_own_outcomes_and_no_other(void **state)
{
    static const bool broken[][4] = {{false, false, true, false},
                                     {true, true, false, false},
                                     {true, true, true, true}};

    (void)state;
    for (int i = 0; i < 3; i++)
        check(i == 1, broken[i]);
}

static void a_conversation_ends_at_a_bad_record(void **state)
{
    static struct fake_heard h;

    (void)state;
    fake_needles();
    fake_info.conversation = true;
    fake_fails[1] = KVA_EFORMAT;
    run_all(false, &h);
    assert_int_equal(h.n, 4 * CELLS);
    for (int c = 0; c < CELLS; c++)
        assert_string_equal(fake_find(&h, c, 0)->status, "ok");
    for (int i = 1; i < 4; i++)
        expect_failure(&h, i, "fake.jsonl:2: no question");
    fake_forget(&h);
}

static void a_file_that_cannot_be_read_fails_the_unit(void **state)
{
    static struct fake_heard h;
    struct kva_exec_opts opts = {0};
    struct kva_sink sink = {&h, fake_sample, fake_results, NULL};
    struct kva_error err = {0};
    struct fake_plan f;
    int64_t rows = 0;

    (void)state;
    fake_needles();
    fake_fails[2] = KVA_EIO;
    fake_open(&f, SUITE, all, 4, false);
    assert_int_equal(kva_exec_unit(&f.plan, 0, false, &opts, &sink, &rows, &err),
                     KVA_EIO);
    assert_int_equal(h.n, 0);
    fake_close(&f);
    fake_forget(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_record_fails_its_own_outcomes_and_no_other),
        cmocka_unit_test(a_conversation_ends_at_a_bad_record),
        cmocka_unit_test(a_file_that_cannot_be_read_fails_the_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
