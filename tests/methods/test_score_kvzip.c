/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_kvzip.c - what the replay left is read, the chat prefix is protected; worked
 * example E21. The replay itself: tests/models/test_replay.c. */
#include "tests/methods/methods_test.h"

static struct kva_collect wanted;
static float replayed[64];

static const float *side(void *ctx, const struct kva_collect *want, int layer)
{
    (void)ctx;
    (void)layer;
    wanted = *want;
    return replayed;
}

static struct kva_decide_in decide_in(struct fixture *f)
{
    struct kva_decide_in in = fixture_in(f, ONESHOT);

    in.side = side;
    return in;
}

static struct kva_scores scored(const char *text, int n)
{
    static const float rows[128];
    struct fixture f = fixture_of(rows, rows, n);
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decide_in in = decide_in(&f);
    struct kva_scores sc;

    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    fixture_release(&f);
    return sc;
}

static void the_parameters_say_what_is_to_be_replayed(void **state)
{
    struct kva_scores sc = scored("kvzip:chunk=77,plus=1,sinks=5", 4);

    (void)state;
    assert_int_equal(wanted.kind, KVA_COLLECT_REPLAY);
    assert_int_equal(wanted.chunk, 77);
    assert_int_equal(wanted.start, 5);
    assert_true(wanted.plus);
    kva_scores_release(&sc);
    sc = scored("kvzip", 4);
    assert_int_equal(wanted.chunk, 2000);
    assert_int_equal(wanted.start, 4);
    assert_false(wanted.plus);
    kva_scores_release(&sc);
}

static void the_chat_prefix_stays_or_with_compat_goes_first(void **state)
{
    const float s[] = {-1, -1, -1, -1, -1, -1, .3f, .1f, .2f, .4f};
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    memcpy(replayed, s, sizeof s);
    sc = scored("kvzip", 10);
    assert_int_equal(sc.protect.sinks, 6);
    d = select_of(&sc, "kvzip", 8);
    assert_keeps(d, 0, 0, 1, 2, 3, 4, 5, 6, 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    sc = scored("kvzip:sinks=5", 10); /* one less than the prefix, one more */
    assert_int_equal(sc.protect.sinks, 6);
    kva_scores_release(&sc);
    sc = scored("kvzip:sinks=7", 10);
    assert_int_equal(sc.protect.sinks, 7);
    kva_scores_release(&sc);
    sc = scored("kvzip:compat=1", 10);
    assert_int_equal(sc.protect.sinks, 4);
    d = select_of(&sc, "kvzip:compat=1", 8);
    assert_keeps(d, 0, 0, 1, 2, 3, 6, 7, 8, 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void equal_scores_keep_the_newest(void **state)
{
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    for (int j = 0; j < 10; j++)
        replayed[j] = 0.5f;
    sc = scored("kvzip:sinks=1", 10);
    d = select_of(&sc, "kvzip:sinks=1", 4);
    assert_keeps(d, 0, 0, 7, 8, 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* Weights .1 .3 .2 of head 0 and .05 .02 .4 of head 1 on one key beside a zero key: the
 * query ln(w / (1 - w)) gives key 1 the weight w. */
static void the_score_of_E21_is_the_maximum_over_both_heads(void **state)
{
    const double w[3][2] = {{.1, .05}, {.3, .02}, {.2, .4}};
    const char *const numerics[] = {"ref", "f32"};
    const size_t off[] = {0, 2}, a_off[] = {0, 2, 4};
    float keys[] = {0, 1}, q[3][2], m[4];
    const struct kva_rows rows = {keys, off, 1, 1};
    const int32_t k_pos[] = {0, 1}, q_pos[] = {2, 3, 4};

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < 2; a++)
            q[i][a] = (float)log(w[i][a] / (1 - w[i][a]));
    for (int n = 0; n < 2; n++) {
        struct kva_ops *ops = NULL;

        assert_ok(kva_ops_open("cpu", numerics[n], 1, &ops, &test_error));
        ops->window_max(ops, &q[0][0], q_pos, 3, 2, &rows, k_pos, 1.0f, NULL, m, a_off);
        assert_near(m[1], .3, 1e-6);
        assert_near(m[3], .4, 1e-6);
        assert_near(fmax((double)m[1], (double)m[3]), .4, 1e-6);
        kva_ops_close(ops);
    }
}

static void a_block_schedule_and_a_missing_replay_are_refused(void **state)
{
    static const float rows[8];
    struct fixture f = fixture_of(rows, rows, 4);
    struct kva_method m;
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_error e = {0};
    struct kva_scores sc;

    (void)state;
    assert_int_equal(kva_method_parse("kvzip", &BLOCK128, &m, &e), KVA_EINVALID);
    m = parse("kvzip+global", ONESHOT);
    e = (struct kva_error){0};
    assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &e), KVA_EINVALID);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parameters_say_what_is_to_be_replayed),
        cmocka_unit_test(the_chat_prefix_stays_or_with_compat_goes_first),
        cmocka_unit_test(equal_scores_keep_the_newest),
        cmocka_unit_test(the_score_of_E21_is_the_maximum_over_both_heads),
        cmocka_unit_test(a_block_schedule_and_a_missing_replay_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
