/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_uniform.c - equal shares, remainder to lower KV heads. */
#include "tests/methods/methods_test.h"

static void every_head_keeps_its_own_best(void **state)
{
    const float s[] = {1, 2, 3, 4, 9, 8, 7, 6, 0, 5, 0, 5};
    struct kva_scores sc = scores_of(3, 1, 4, s);
    struct kva_decision d = select_of(&sc, "random", 7);

    (void)state;
    assert_keeps(d, 0, 1, 2, 3);
    assert_keeps(d, 1, 0, 1);
    assert_keeps(d, 2, 1, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void a_short_head_hands_its_share_on(void **state)
{
    const float s[] = {1, 2, 3, 4, 9, 8, 7, 6, 0, 5, 0, 5};
    struct kva_scores sc = scores_of(1, 3, 4, s);
    struct kva_decision d;

    (void)state;
    sc.off[1] = 1; /* head 0: one entry, head 1: seven */
    for (int i = 0; i < 7; i++)
        sc.pos[1 + i] = i;
    d = select_of(&sc, "random", 9);
    assert_int_equal(d.keep.off[1], 1);
    assert_int_equal(d.keep.off[2], 5);
    assert_int_equal(d.keep.off[3], 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_head_keeps_its_own_best),
        cmocka_unit_test(a_short_head_hands_its_share_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
