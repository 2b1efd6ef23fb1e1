/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_file.c - budgets and shares from a file. */
#include "tests/methods/alloc_test.h"

static void budgets_are_taken_as_they_are(void **state)
{
    struct kva_scores sc = flat_scores(2, 2, 20);
    struct kva_table t = table_of("budgets", 2, 2, 1, (double[]){1, 20, 7, 12});
    struct kva_decision d = divide(&sc, "random+file:profile=x", &t, NULL, 40);

    (void)state;
    assert_budgets(d, 1, 20, 7, 12);
    kva_decision_release(&d);
    d = divide(&sc, "random+file:as=shares,profile=x", &t, NULL, 40);
    assert_budgets(d, 1, 20, 7, 12);
    kva_decision_release(&d);
    d = divide(&sc, "random+file:as=shares,profile=x", &t, NULL, 20);
    assert_budgets(d, 1, 10, 3, 6); /* .5 becomes 1; 20 : 7 : 12 of the other 19 */
    kva_decision_release(&d);
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void what_a_head_cannot_hold_is_handed_on(void **state)
{
    struct kva_scores sc = flat_scores(1, 2, 10);
    struct kva_table t = table_of("budgets", 1, 2, 1, (double[]){15, 3});
    struct kva_decision d = divide(&sc, "random+file:profile=x", &t, NULL, 18);

    (void)state;
    assert_budgets(d, 10, 8);
    kva_decision_release(&d);
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void files_that_do_not_fit_are_refused(void **state)
{
    const struct {
        const char *text, *error;
        double a, b;
    } rows[] = {
        {"random+file:profile=x",
         "file: the budgets sum to 7 entries, the budget of the cell is 10; as=shares "
         "divides it in proportion",
         3, 4},
        {"random+file:profile=x",
         "file: 0 for KV head 0 of layer 0 is no number of entries", 0, 10},
        {"random+file:profile=x",
         "file: 2.5 for KV head 0 of layer 0 is no number of entries", 2.5, 7.5},
        {"random+file:as=shares,profile=x",
         "file: -1 for KV head 1 of layer 0 is no share", 1, -1},
    };
    struct kva_scores sc = flat_scores(1, 2, 10);
    struct kva_decision d;
    struct kva_error err;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kva_table t =
            table_of("budgets", 1, 2, 1, (double[]){rows[i].a, rows[i].b});

        assert_int_equal(try_divide(&sc, rows[i].text, &t, NULL, 10, &d, &err),
                         KVA_EINVALID);
        assert_string_equal(err.text, rows[i].error);
        kva_table_release(&t);
    }
    assert_int_equal(try_divide(&sc, rows[0].text, NULL, NULL, 10, &d, &err),
                     KVA_EINVALID);
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_are_taken_as_they_are),
        cmocka_unit_test(what_a_head_cannot_hold_is_handed_on),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
