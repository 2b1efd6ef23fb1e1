/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_streaming.c - sinks and the newest entries; worked example E6. */
#include "tests/methods/methods_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    (void)f;
    for (int j = 0; j < c->n; j++)
        s[j] = c->pos[j];
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("streaming", "streaming:sinks=10", naive, (struct kva_protect){4, 0},
                 (struct kva_protect){10, 0});
}

static void four_sinks_and_the_newest_of_ten_as_in_E6(void **state)
{
    struct fixture f = fixture_new(1, 1, 1, 8, 10, 1, false, 3);
    struct kva_scores sc = score_of(&f, "streaming", ONESHOT);
    struct kva_decision d = select_of(&sc, "streaming", 5);

    (void)state;
    assert_keeps(d, 0, 0, 1, 2, 3, 9);
    assert_false(d.protect_overflow);
    kva_decision_release(&d);
    d = select_of(&sc, "streaming", 3);
    assert_keeps(d, 0, 0, 1, 2);
    assert_true(d.protect_overflow);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

/* The sets are the same, what happens to the keys is not. */
static void rotation_is_asked_for(void **state)
{
    struct kva_method plain = parse("streaming", ONESHOT);
    struct kva_method rot = parse("streaming_rot", BLOCK128);

    (void)state;
    assert_false(kva_method_rotates(&plain));
    assert_true(kva_method_rotates(&rot));
    assert_string_equal(rot.scorer_spec, "streaming:rotate=1,sinks=4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(four_sinks_and_the_newest_of_ten_as_in_E6),
        cmocka_unit_test(rotation_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
