/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_h2o_block.c - heavy hitters of the block alone. */
#include "tests/methods/columns_test.h"

static void sums_begin_anew_after_each_decision(void **state)
{
    const float last[] = {0.7f, 0.3f, 0.6f, 0.4f}; /* of E18's second block alone */
    struct columns c = {.sum = last};
    struct kva_scores sc = columns_scores("h2o_block", BLOCK128, 1, 1, 4, 4, &c);
    struct kva_decision d = select_of(&sc, "h2o_block", 3);

    (void)state;
    assert_int_equal(c.want.kind, KVA_COLLECT_COLUMNS);
    assert_true(c.want.restart);
    assert_keeps(d, 0, 0, 2, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_begin_anew_after_each_decision),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
