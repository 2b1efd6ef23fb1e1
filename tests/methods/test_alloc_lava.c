/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_lava.c - layers by entropy of their scores, heads compete inside. */
#include "tests/methods/alloc_test.h"

static void layers_share_by_normalised_entropy(void **state)
{
    /* two heads of four: all equal is 1; two equal and six nothing is log 2 / log 8 */
    const float s[] = {1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 0, 0, 0, 0, 0, 0};
    struct kva_scores sc = scores_of(2, 2, 4, s);
    struct kva_decision d = divide(&sc, "snapkv+lava:alpha=0", NULL, NULL, 8);

    (void)state;
    /* one for each head ahead; of the other 4, 3 : 1 */
    assert_budgets(d, 3, 2, 2, 1);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void heads_of_a_layer_compete_above_their_safeguard(void **state)
{
    const float s[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1};
    struct kva_scores sc = scores_of(1, 2, 8, s);
    struct kva_decision d = divide(&sc, "snapkv+lava:alpha=0", NULL, NULL, 8);

    (void)state;
    assert_budgets(d, 7, 1);
    kva_decision_release(&d);
    d = divide(&sc, "snapkv+lava:alpha=0.5", NULL, NULL, 8);
    assert_budgets(d, 6, 2);
    assert_keeps(d, 1, 6, 7);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void protected_entries_are_outside_entropy_and_division(void **state)
{
    const float s[] = {1, 1, 1, 99, 1, 0, 0, 99};
    struct kva_scores sc = scores_of(2, 1, 4, s);
    struct kva_decision d;

    (void)state;
    sc.protect.recent = 1;
    d = divide(&sc, "snapkv+lava", NULL, NULL, 4);
    assert_keeps(d, 0, 1, 2, 3); /* entropy 1 against 0 */
    assert_keeps(d, 1, 3);
    kva_decision_release(&d);
    /* as much protected as budget */
    sc.protect.recent = 2;
    d = divide(&sc, "snapkv+lava", NULL, NULL, 4);
    assert_keeps(d, 0, 2, 3);
    assert_keeps(d, 1, 2, 3);
    assert_false(d.fallback || d.protect_overflow);
    kva_decision_release(&d);
    /* more protected than budget: uniform, the newest */
    sc.protect.recent = 3;
    d = divide(&sc, "snapkv+lava", NULL, NULL, 4);
    assert_keeps(d, 0, 2, 3);
    assert_keeps(d, 1, 2, 3);
    assert_true(d.fallback && d.protect_overflow);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void signed_scores_are_refused(void **state)
{
    struct kva_method m;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_method_parse("knorm+lava", &ONESHOT, &m, &err), KVA_EINVALID);
    assert_string_equal(
        err.text, "knorm+lava: lava reads scores as shares and knorm has negative ones");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_share_by_normalised_entropy),
        cmocka_unit_test(heads_of_a_layer_compete_above_their_safeguard),
        cmocka_unit_test(protected_entries_are_outside_entropy_and_division),
        cmocka_unit_test(signed_scores_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
