/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_headkv.c - importances from a file; worked example E15. */
#include "tests/methods/alloc_test.h"

static void heads_of_E15(void **state)
{
    struct kva_scores sc = flat_scores(2, 2, 400);
    struct kva_table t = table_of("headkv", 2, 2, 1, (double[]){.1, .2, .3, .4});
    struct kva_decision d =
        divide(&sc, "random+headkv:beta=2,window=32,profile=x", &t, NULL, 4 * 132);

    (void)state;
    assert_budgets(d, 70 + 32, 90 + 32, 110 + 32, 130 + 32);
    kva_decision_release(&d);
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void what_the_scorer_protects_is_outside_the_division(void **state)
{
    struct kva_scores sc = flat_scores(2, 2, 400);
    struct kva_table t = table_of("headkv", 2, 2, 1, (double[]){0, 0, 0, 1});
    struct kva_decision d;

    (void)state;
    sc.protect.recent = 60;
    sc.protect.sinks = 4;
    d = divide(&sc, "random+headkv:beta=1,window=32,profile=x", &t, NULL, 4 * 80);
    assert_budgets(d, 64, 64, 64, 64 + 4 * 16);
    assert_false(d.protect_overflow);
    kva_decision_release(&d);
    /* nothing to divide: uniform, and said */
    d = divide(&sc, "random+headkv:profile=x", &t, NULL, 4 * 64);
    assert_budgets(d, 64, 64, 64, 64);
    assert_true(d.fallback);
    kva_decision_release(&d);
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void a_full_head_hands_on(void **state)
{
    struct kva_scores sc = flat_scores(1, 3, 50);
    struct kva_table t = table_of("headkv", 1, 3, 1, (double[]){8, 1, 1});
    struct kva_decision d =
        divide(&sc, "random+headkv:beta=1,window=0,profile=x", &t, NULL, 90);

    (void)state;
    assert_budgets(d, 50, 20, 20);
    kva_decision_release(&d);
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void bad_files_are_refused(void **state)
{
    struct kva_scores sc = flat_scores(1, 2, 50);
    struct kva_table wide = table_of("headkv", 1, 2, 2, (double[]){1, 1, 1, 1});
    struct kva_table neg = table_of("headkv", 1, 2, 1, (double[]){1, -1});
    struct kva_decision d;
    struct kva_error err;
    const char *text = "random+headkv:profile=x";

    (void)state;
    assert_int_equal(try_divide(&sc, text, NULL, NULL, 90, &d, &err), KVA_EINVALID);
    assert_string_equal(err.text, "headkv needs a file: profile=PATH");
    assert_int_equal(try_divide(&sc, text, &wide, NULL, 90, &d, &err), KVA_EINVALID);
    assert_string_equal(err.text,
                        "headkv: the file has 2 columns instead of one importance");
    assert_int_equal(try_divide(&sc, text, &neg, NULL, 90, &d, &err), KVA_EINVALID);
    assert_string_equal(err.text, "headkv: importance -1 of KV head 1 of layer 0");
    kva_table_release(&wide);
    kva_table_release(&neg);
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_of_E15),
        cmocka_unit_test(what_the_scorer_protects_is_outside_the_division),
        cmocka_unit_test(a_full_head_hands_on),
        cmocka_unit_test(bad_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
