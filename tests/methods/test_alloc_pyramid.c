/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_pyramid.c - lower layers keep more; worked example E7. */
#include "tests/methods/alloc_test.h"

static void layers_of_E7_at_half(void **state)
{
    struct kva_scores sc = flat_scores(4, 1, 4096);
    struct kva_decision d = divide(&sc, "snapkv+pyramid", NULL, NULL, 4 * 2048);

    (void)state;
    assert_budgets(d, 3994, 2697, 1399, 102);
    assert_false(d.fallback);
    kva_decision_release(&d);
    d = divide(&sc, "snapkv+pyramid:compat=1", NULL, NULL, 4 * 2048);
    assert_budgets(d, 3994, 2697, 1399, 102);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void a_quarter_of_E7_falls_back_and_says_so(void **state)
{
    struct kva_scores sc = flat_scores(4, 1, 4096);
    struct kva_decision d = divide(&sc, "pyramidkv", NULL, NULL, 4 * 1024);

    (void)state;
    assert_budgets(d, 1024, 1024, 1024, 1024);
    assert_true(d.fallback);
    kva_decision_release(&d);
    /* 1024 / 20 is 51.2: a window of 51 fits */
    d = divide(&sc, "pyramidkv:window=51", NULL, NULL, 4 * 1024);
    assert_false(d.fallback);
    assert_true(d.budget[0] > 1900 && d.budget[3] == 51);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void the_line_is_clipped_at_the_prompt_without_its_window(void **state)
{
    /* 724 tokens at a half: 660 .. 64 as in the reference, halves to the even */
    struct kva_scores sc = flat_scores(30, 3, 724);
    struct kva_decision d = divide(&sc, "pyramidkv:compat=1", NULL, NULL, 90 * 362);

    (void)state;
    for (int h = 0; h < 3; h++) {
        assert_int_equal(d.budget[h], 660);
        assert_int_equal(d.budget[3 + h], 639);
        assert_int_equal(d.budget[87 + h], 64);
    }
    assert_int_equal(d.total, 32580);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void heads_of_a_layer_are_equal_but_for_a_remainder(void **state)
{
    struct kva_scores sc = flat_scores(5, 3, 1000);
    struct kva_decision d = divide(&sc, "pyramidkv:window=4", NULL, NULL, 15 * 400 + 2);

    (void)state;
    for (int l = 0; l < 5; l++)
        for (int h = 1; h < 3; h++)
            assert_int_equal(d.budget[3 * l + h] + (l == 0 && h == 2), d.budget[3 * l]);
    for (int l = 1; l < 5; l++)
        assert_true(d.budget[3 * l] < d.budget[3 * l - 3]);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void the_announced_prompt_counts_not_what_was_read(void **state)
{
    struct kva_scores sc = flat_scores(4, 1, 300);
    struct kva_decision d = divide(&sc, "pyramidkv:window=8", NULL, NULL, 4 * 200);

    (void)state;
    assert_int_equal(d.budget[0], 292); /* clipped at 300 - 8 */
    kva_decision_release(&d);
    sc.prompt = 1000;
    d = divide(&sc, "pyramidkv:window=8", NULL, NULL, 4 * 200);
    /* 390, 263, 137, 10; the first cannot hold that, then the second neither */
    assert_budgets(d, 300, 300, 186, 14);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_E7_at_half),
        cmocka_unit_test(a_quarter_of_E7_falls_back_and_says_so),
        cmocka_unit_test(the_line_is_clipped_at_the_prompt_without_its_window),
        cmocka_unit_test(heads_of_a_layer_are_equal_but_for_a_remainder),
        cmocka_unit_test(the_announced_prompt_counts_not_what_was_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
