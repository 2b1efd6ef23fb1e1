/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_observed.c - observed in worked example E18, and the mean over a group. */
#include "tests/methods/columns_test.h"

static void observed_of_E18_divides_by_the_viewers(void **state)
{
    const float sum[] = {2.3f, 0.7f, 0.6f, 0.4f};
    const float want[] = {0.575f, 0.2333333f, 0.3f, 0.4f};
    struct columns c = {.sum = sum};
    struct kva_scores sc = columns_scores("observed", BLOCK128, 1, 1, 4, 4, &c);
    struct kva_decision d = select_of(&sc, "observed", 2);

    (void)state;
    assert_int_equal(c.want.kind, KVA_COLLECT_COLUMNS);
    for (int j = 0; j < 4; j++)
        assert_near(sc.s[j], want[j], 1e-6);
    assert_keeps(d, 0, 0, 3);
    assert_int_equal(d.protect.recent, 0);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void a_group_is_averaged(void **state)
{
    const float sum[] = {3, 6, 9, 3, 3, 3};
    const float want[] = {1.0f / 3, 1, 3, 1.0f / 3, 0.5f, 1};
    struct columns c = {.sum = sum};
    struct kva_scores sc = columns_scores("observed", ONESHOT, 2, 3, 3, 3, &c);

    (void)state;
    for (int j = 0; j < 6; j++)
        assert_near(sc.s[j], want[j], 1e-6);
    kva_scores_release(&sc);
}

static void an_entry_nobody_can_have_seen_is_an_error(void **state)
{
    const float sum[] = {1, 1, 1};
    struct columns c = {.sum = sum};
    struct fixture f = fixture_new(1, 1, 1, 8, 3, 1, false, 3);
    struct kva_method m = parse("observed", ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;
    struct kva_error e = {0};

    (void)state;
    in.seen = 2;
    in.side = columns_side;
    in.side_ctx = &c;
    assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &e), KVA_EINVALID);
    in.side = NULL;
    e = (struct kva_error){0};
    assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &e), KVA_EINVALID);
    assert_non_null(strstr(e.text, "collects none"));
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(observed_of_E18_divides_by_the_viewers),
        cmocka_unit_test(a_group_is_averaged),
        cmocka_unit_test(an_entry_nobody_can_have_seen_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
