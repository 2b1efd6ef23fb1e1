/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_wrap_chunk.c - E20, borders in original positions, the same positions in all KV
 * heads, whole chunks as published. */
#include "tests/methods/wrap_test.h"

static const float E20[] = {1, 1, 1, 5, 0, 1, 2};

static void both_forms_give_the_worked_example(void **state)
{
    struct kva_scores sc = scores_of(1, 1, 7, E20);
    struct kva_decision d = select_of(&sc, "snapkv+chunk:chunk=3", 3);

    (void)state;
    assert_keeps(d, 0, 3, 5, 6);
    assert_int_equal(d.total, 3);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+chunk:chunk=3,exact=0", 3);
    assert_keeps(d, 0, 6);
    assert_int_equal(d.total, 1);
    assert_int_equal(d.budget[0], 1);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+chunk:chunk=3,exact=0", 5); /* floor(3 * 5 / 7) = 2 */
    assert_keeps(d, 0, 3, 4, 5, 6);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* More than the budget: 61 positions of chunk 20 are four chunks, 46 entries three of
 * them. */
static void whole_chunks_may_exceed_the_budget(void **state)
{
    float s[61];
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    for (int j = 0; j < 61; j++)
        s[j] = j < 40 ? 5 : j < 60 ? 2 : 1;
    sc = scores_of(1, 1, 61, s);
    d = select_of(&sc, "snapkv+chunk:exact=0", 46);
    assert_int_equal(d.total, 60);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+chunk", 46);
    assert_int_equal(d.total, 46);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    sc = scores_of(1, 1, 15, s + 30); /* no full chunk: entry by entry */
    d = select_of(&sc, "snapkv+chunk:exact=0", 12);
    assert_keeps(d, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void heads_decide_together(void **state)
{
    /* sums by chunk of 2: (1+0) (3+1) (4+1) -> 2, 0, 1 by mean 2.5, 2 */
    const float s[] = {0, 1, 3, 1, 0, 1, /* */ 0, 0, 0, 0, 4, 0};
    struct kva_scores sc = scores_of(1, 2, 6, s);
    struct kva_decision d = select_of(&sc, "snapkv+chunk:chunk=2", 6);

    (void)state;
    assert_keeps(d, 0, 2, 4, 5);
    assert_keeps(d, 1, 2, 4, 5);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+chunk:chunk=2", 7); /* one has one entry more */
    assert_keeps(d, 0, 2, 3, 4, 5);
    assert_keeps(d, 1, 2, 4, 5);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void borders_are_original_positions(void **state)
{
    /* of chunks 0-2, 3-5, 6-8 entries 1, 2 and 4 are gone: means 4, (1+6)/2, 2 */
    const float s[] = {4, 1, 6, 2, 2, 2};
    const int32_t pos[] = {0, 3, 5, 6, 7, 8};
    struct kva_scores sc = scores_of(1, 1, 6, s);
    struct kva_decision d;

    (void)state;
    memcpy(sc.pos, pos, sizeof pos);
    d = select_of(&sc, "snapkv+chunk:chunk=3", 3);
    assert_keeps(d, 0, 0, 1, 2);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+chunk:chunk=3", 1);
    assert_keeps(d, 0, 0);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void protected_entries_stay_ahead_of_every_chunk(void **state)
{
    const float s[] = {0, 9, 9, 1, 1, 1, 8, 8, 0, 0};
    struct kva_scores sc = scores_of(1, 1, 10, s);
    struct kva_decision d;

    (void)state;
    sc.protect = (struct kva_protect){.sinks = 1, .recent = 2};
    d = select_of(&sc, "snapkv+chunk:chunk=3", 5);
    assert_keeps(d, 0, 0, 1, 2, 8, 9);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+chunk:chunk=3", 7);
    assert_keeps(d, 0, 0, 1, 2, 6, 7, 8, 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    /* as published: 10 above all in their chunks, (10+9+9) (1+1+1) (8+8+10) 10 */
    sc = scores_of(1, 1, 10, s);
    sc.protect = (struct kva_protect){.sinks = 1, .recent = 2};
    d = select_of(&sc, "snapkv+chunk:chunk=3,exact=0", 5);
    assert_keeps(d, 0, 0, 1, 2, 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* A block schedule cuts again and again: the KV heads of a layer never part. */
static void positions_stay_the_same_in_all_heads(void **state)
{
    struct fixture f = fixture_new(2, 3, 1, 16, 100, 30, false, 31);
    struct kva_rng r = {32};

    (void)state;
    for (int round = 0; round < 3; round++) {
        struct kva_scores sc = score_of(&f, "snapkv:window=8+chunk:chunk=7", BLOCK128);
        struct kva_decision d = select_of(&sc, "snapkv:window=8+chunk:chunk=7", 6 * 40);

        for (int l = 0; l < 2; l++)
            for (int h = 1; h < 3; h++)
                for (int i = 0; i < 40; i++) {
                    size_t a = (size_t)l * 3, b = a + (size_t)h;

                    assert_int_equal(
                        sc.pos[sc.off[a] +
                               (size_t)d.keep.rank[d.keep.off[a] + (size_t)i]],
                        sc.pos[sc.off[b] +
                               (size_t)d.keep.rank[d.keep.off[b] + (size_t)i]]);
                }
        assert_ok(kva_kvstore_keep(f.store, &d.keep, &test_error));
        kva_decision_release(&d);
        kva_scores_release(&sc);
        fixture_append(&f, &r, f.tokens, 30);
        f.tokens += 30;
        for (int i = 0; i < f.nq; i++)
            f.q_pos[i] = f.tokens - f.nq + i;
    }
    fixture_release(&f);
}

static void what_has_no_meaning_is_refused(void **state)
{
    (void)state;
    refused("snapkv+chunk+adakv", "same budget; use uniform");
    refused("snapkv+global+chunk", "same budget; use uniform");
    refused("snapkv+chunk:chunk=0", "chunk");
    parse("keydiff+chunk", ONESHOT); /* any scorer */
    parse("streaming+chunk", ONESHOT);
    parse("snapkv+chunk+pyramid", ONESHOT);
}

static void counts_are_exact_whatever_the_scores(void **state)
{
    (void)state;
    check_counts("snapkv+chunk:chunk=3", 0);
    check_counts("snapkv+chunk", 0);
    check_counts("snapkv+chunk:chunk=3,exact=0", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_give_the_worked_example),
        cmocka_unit_test(whole_chunks_may_exceed_the_budget),
        cmocka_unit_test(heads_decide_together),
        cmocka_unit_test(borders_are_original_positions),
        cmocka_unit_test(protected_entries_stay_ahead_of_every_chunk),
        cmocka_unit_test(positions_stay_the_same_in_all_heads),
        cmocka_unit_test(what_has_no_meaning_is_refused),
        cmocka_unit_test(counts_are_exact_whatever_the_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
