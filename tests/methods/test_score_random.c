/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_random.c - the control draws a fixed lot per entry. */
#include "tests/methods/methods_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    (void)f;
    for (int j = 0; j < c->n; j++) {
        uint64_t h = kva_mix64(kva_mix64(kva_mix64(42) ^ 0) ^ (uint64_t)c->layer);

        h = kva_mix64(kva_mix64(h ^ (uint64_t)c->head) ^ (uint64_t)c->pos[j]);
        s[j] = (double)(h >> 40) / 16777216.0;
    }
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("random", "random", naive, (struct kva_protect){0, 0},
                 (struct kva_protect){0, 0});
    check_scorer("random:sinks=4,recent=9", "random:sinks=4,recent=9", naive,
                 (struct kva_protect){4, 9}, (struct kva_protect){4, 9});
}

static void the_lot_of_an_entry_survives_evictions_and_schedules(void **state)
{
    struct fixture f = fixture_new(2, 2, 1, 8, 60, 1, false, 3);
    struct kva_scores before = score_of(&f, "random", ONESHOT), after;
    struct kva_rng r = {9};

    (void)state;
    fixture_thin(&f, &r);
    after = score_of(&f, "random", BLOCK128);
    assert_true(after.off[4] < before.off[4]);
    for (int c = 0; c < 4; c++) {
        for (size_t j = after.off[c]; j < after.off[c + 1]; j++) {
            size_t was = before.off[c] + (size_t)after.pos[j];

            assert_true(memcmp(&after.s[j], &before.s[was], sizeof(float)) == 0);
        }
    }
    kva_scores_release(&before);
    kva_scores_release(&after);
    fixture_release(&f);
}

static void lots_are_uniform_and_differ_by_seed_layer_and_head(void **state)
{
    struct fixture f = fixture_new(2, 2, 1, 8, 500, 1, false, 3);
    struct kva_scores a = score_of(&f, "random", ONESHOT);
    struct kva_scores b = score_of(&f, "random:seed=1", ONESHOT);
    double mean = 0;
    int same = 0;

    (void)state;
    for (size_t j = 0; j < 2000; j++) {
        assert_true(a.s[j] >= 0 && a.s[j] < 1);
        mean += (double)a.s[j] / 2000;
        same += a.s[j] >= b.s[j] && a.s[j] <= b.s[j];
        same += j >= 500 && a.s[j] >= a.s[j - 500] && a.s[j] <= a.s[j - 500];
    }
    assert_near(mean, 0.5, 0.02);
    assert_true(same < 3);
    kva_scores_release(&a);
    kva_scores_release(&b);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(the_lot_of_an_entry_survives_evictions_and_schedules),
        cmocka_unit_test(lots_are_uniform_and_differ_by_seed_layer_and_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
