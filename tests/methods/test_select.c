/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_select.c - the selection core: classes, ties, overflow, exact totals (methods.md
 * 3). */
#include "tests/methods/methods_test.h"

static void equal_scores_keep_the_newest(void **state)
{
    const float s[] = {1, 1, 1, 1, 1, 1};
    struct kva_scores sc = scores_of(1, 1, 6, s);
    struct kva_decision d = select_of(&sc, "random", 2);

    (void)state;
    assert_keeps(d, 0, 4, 5);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* kernels.md 3.4f */
static void a_protected_entry_outranks_every_score(void **state)
{
    const float s[] = {3, 1, 3, 2, 3};
    struct kva_scores sc = scores_of(1, 1, 5, s);
    struct kva_decision d = select_of(&sc, "random", 2);

    (void)state;
    assert_keeps(d, 0, 2, 4);
    kva_decision_release(&d);
    sc.protect.sinks = 1; /* also the best there is: it must not be counted twice */
    d = select_of(&sc, "random", 2);
    assert_keeps(d, 0, 0, 4);
    kva_decision_release(&d);
    sc.s[0] = -INFINITY;
    d = select_of(&sc, "random", 2);
    assert_keeps(d, 0, 0, 4);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void recency_goes_by_position_and_not_by_rank(void **state)
{
    const float s[] = {9, 8, 7, 6, 9, 8, 7, 6};
    struct kva_scores sc = scores_of(1, 2, 4, s);
    struct kva_decision d;

    (void)state;
    /* head 0 lost the newest positions earlier: none of its entries is recent */
    sc.pos[0] = 0, sc.pos[1] = 5, sc.pos[2] = 6, sc.pos[3] = 7;
    sc.pos[4] = 0, sc.pos[5] = 8, sc.pos[6] = 9, sc.pos[7] = 10;
    sc.protect.recent = 2;
    d = select_of(&sc, "random", 6);
    assert_keeps(d, 0, 0, 1, 2);
    assert_keeps(d, 1, 0, 2, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void more_protected_than_budget_keeps_sinks_then_newest(void **state)
{
    const float s[] = {0, 0, 0, 0, 0, 9, 0, 0, 0, 0};
    struct kva_scores sc = scores_of(1, 1, 10, s);
    struct kva_decision d;

    (void)state;
    sc.protect.sinks = 3;
    sc.protect.recent = 4;
    d = select_of(&sc, "random", 5);
    assert_keeps(d, 0, 0, 1, 2, 8, 9);
    assert_true(d.protect_overflow);
    kva_decision_release(&d);
    d = select_of(&sc, "random", 2);
    assert_keeps(d, 0, 0, 1);
    assert_true(d.protect_overflow);
    kva_decision_release(&d);
    d = select_of(&sc, "random", 7);
    assert_keeps(d, 0, 0, 1, 2, 6, 7, 8, 9);
    assert_false(d.protect_overflow);
    kva_decision_release(&d);
    d = select_of(&sc, "random", 8);
    assert_keeps(d, 0, 0, 1, 2, 5, 6, 7, 8, 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void signs_and_zeros_order_as_numbers(void **state)
{
    const float s[] = {-0.0f, 0.0f, -1, -INFINITY, 1e-38f, -1e-38f, 2, -3};
    struct kva_scores sc = scores_of(1, 1, 8, s);
    struct kva_decision d = select_of(&sc, "random", 2);

    (void)state;
    assert_keeps(d, 0, 4, 6);
    kva_decision_release(&d);
    d = select_of(&sc, "random", 3); /* -0 and 0 tie: the newer */
    assert_keeps(d, 0, 1, 4, 6);
    kva_decision_release(&d);
    d = select_of(&sc, "random", 7);
    assert_keeps(d, 0, 0, 1, 2, 4, 5, 6, 7);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void a_budget_above_what_is_held_keeps_everything(void **state)
{
    const float s[] = {1, 2, 3, 4, 5, 6};
    struct kva_scores sc = scores_of(1, 2, 3, s);

    (void)state;
    for (uint64_t total = 6; total < 20; total += 5) {
        struct kva_decision d = select_of(&sc, "snapkv+adakv", total);

        assert_true(d.nothing_to_do);
        assert_int_equal(d.total, 6);
        assert_keeps(d, 0, 0, 1, 2);
        assert_keeps(d, 1, 0, 1, 2);
        kva_decision_release(&d);
    }
    kva_scores_release(&sc);
}

static void a_budget_below_one_entry_per_head_is_refused(void **state)
{
    const float s[] = {1, 2, 3, 4, 5, 6};
    struct kva_scores sc = scores_of(1, 2, 3, s);
    struct kva_method m = parse("random", ONESHOT);
    struct kva_decision d;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_method_select(&m, &sc, NULL, 1, &d, &err), KVA_EINVALID);
    assert_string_equal(err.text,
                        "a budget of 1 entries is below one for each of 2 KV heads");
    m = parse("dense", ONESHOT);
    err = (struct kva_error){0};
    assert_int_equal(kva_method_select(&m, &sc, NULL, 4, &d, &err), KVA_EINVALID);
    kva_scores_release(&sc);
}

static enum kva_status one_too_many(const struct kva_alloc_in *in,
                                    const struct kva_params *params, int *b,
                                    struct kva_error *err)
{
    (void)params, (void)err;
    memcpy(b, in->base, 2 * sizeof *b);
    b[1]++;
    return KVA_OK;
}

static enum kva_status empties_one(const struct kva_alloc_in *in,
                                   const struct kva_params *params, int *b,
                                   struct kva_error *err)
{
    (void)params, (void)err;
    b[0] = 0;
    b[1] = (int)in->total;
    return KVA_OK;
}

static void an_allocator_that_misses_its_total_is_not_believed(void **state)
{
    const float s[] = {1, 2, 3, 4, 5, 6};
    struct kva_scores sc = scores_of(1, 2, 3, s);
    struct kva_method m = parse("random", ONESHOT);
    struct kva_allocator bad = {.name = "bad", .allocate = one_too_many};
    struct kva_decision d;
    struct kva_error err = {0};

    (void)state;
    m.allocator = &bad;
    assert_int_equal(kva_method_select(&m, &sc, NULL, 3, &d, &err), KVA_ECONFLICT);
    assert_string_equal(err.text, "bad gives 4 entries instead of 3");
    assert_null(d.keep.rank);
    bad.allocate = empties_one;
    err = (struct kva_error){0};
    assert_int_equal(kva_method_select(&m, &sc, NULL, 3, &d, &err), KVA_ECONFLICT);
    assert_string_equal(err.text, "bad gives layer 0 head 0 0 of 3 entries");
    kva_scores_release(&sc);
}

static enum kva_status half_broken(const struct kva_layer_view *view,
                                   const struct kva_params *params, float *s,
                                   struct kva_error *err)
{
    (void)params, (void)err;
    for (size_t j = 0; j < view->off[view->kv_heads]; j++)
        s[j] = j % 4 == 0 ? NAN : j % 4 == 1 ? INFINITY : (float)j;
    return KVA_OK;
}

static void scores_that_are_not_finite_go_first_and_are_counted(void **state)
{
    struct fixture f = fixture_new(1, 1, 1, 8, 20, 1, false, 3);
    struct kva_method m = parse("random", ONESHOT);
    struct kva_scorer broken = *m.scorer;
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    broken.score = half_broken;
    m.scorer = &broken;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.nonfinite, 10);
    assert_ok(kva_method_select(&m, &sc, NULL, 11, &d, &test_error));
    assert_keeps(d, 0, 2, 3, 6, 7, 10, 11, 14, 15, 17, 18, 19);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static enum kva_status wants_keys_only(const struct kva_layer_view *view,
                                       const struct kva_params *params, float *s,
                                       struct kva_error *err)
{
    (void)params, (void)err;
    assert_non_null(view->k);
    assert_null(view->v);
    assert_null(view->q);
    assert_int_equal(view->k->dim, view->head_dim);
    for (size_t j = 0; j < view->off[view->kv_heads]; j++)
        s[j] = view->k->data[j * (size_t)view->head_dim];
    return KVA_OK;
}

static void only_what_a_scorer_needs_is_gathered(void **state)
{
    struct fixture f = fixture_new(2, 2, 1, 16, 100, 1, true, 3);
    struct kva_method m = parse("knorm", ONESHOT);
    struct kva_scorer keys = *m.scorer;
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    uint64_t scratch = 5;
    struct kva_scores sc;

    (void)state;
    keys.score = wants_keys_only;
    keys.each = NULL;
    m.scorer = &keys;
    assert_ok(kva_method_score(&m, &in, &sc, &scratch, &test_error));
    for (int c = 0; c < 4; c++) {
        struct cell cell = cell_read(&f, c / 2, c % 2);

        assert_int_equal(sc.off[c + 1] - sc.off[c], cell.n);
        for (int j = 0; j < cell.n; j++) {
            assert_int_equal(sc.pos[sc.off[c] + (size_t)j], cell.pos[j]);
            assert_memory_equal(&sc.s[sc.off[c] + (size_t)j], &cell.k[j * 16],
                                sizeof(float));
        }
        cell_release(&cell);
    }
    /* added to what was there: the rows of the larger layer */
    assert_true(scratch >= 5 + (sc.off[2] < sc.off[4] - sc.off[2] ? sc.off[4] - sc.off[2]
                                                                  : sc.off[2]) *
                                   16 * sizeof(float));
    assert_true(scratch < 2 * 100 * 2 * 16 * sizeof(float));
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void totals_are_exact_for_random_budgets_under_every_allocator(void **state)
{
    const char *const methods[] = {"snapkv:window=8",
                                   "snapkv:window=8+adakv",
                                   "snapkv:window=8+adakv:alpha=0,norm=z",
                                   "snapkv:window=8+global",
                                   "knorm:sinks=3+global:norm=z,floor=9",
                                   "random:recent=5+adakv:alpha=1",
                                   "streaming"};
    struct kva_rng r = {5};

    (void)state;
    for (int ragged = 0; ragged < 2; ragged++) {
        struct fixture f = fixture_new(3, 3, 2, 8, 90, 8, ragged, 21);

        for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
            struct kva_scores sc = score_of(&f, methods[i], ONESHOT);

            for (int round = 0; round < 60; round++) {
                uint64_t total = 9 + kva_rng_below(&r, sc.off[9]);
                struct kva_decision d = select_of(&sc, methods[i], total);
                uint64_t kept = total < sc.off[9] ? total : sc.off[9];

                assert_int_equal(d.total, kept);
                assert_int_equal(d.keep.off[9], kept);
                for (int c = 0; c < 9; c++) {
                    assert_true(d.keep.off[c + 1] > d.keep.off[c]);
                    for (size_t j = d.keep.off[c] + 1; j < d.keep.off[c + 1]; j++)
                        assert_true(d.keep.rank[j] > d.keep.rank[j - 1]);
                }
                kva_decision_release(&d);
            }
            kva_scores_release(&sc);
        }
        fixture_release(&f);
    }
}

/* A whole small model: 90 KV heads of 4,096 entries. */
static void ninety_heads_of_4096_entries_take_milliseconds(void **state)
{
    size_t n = (size_t)90 * 4096;
    float *s = kva_calloc(n, sizeof *s);
    struct kva_rng r = {8};
    struct kva_scores sc;
    struct kva_decision d;
    uint64_t t0, took;

    (void)state;
    for (size_t i = 0; i < n; i++)
        s[i] = (float)pow(kva_rng_unit(&r), 6);
    sc = scores_of(30, 3, 4096, s);
    t0 = kva_cpu_ns();
    d = select_of(&sc, "snapkv", n / 4);
    took = kva_cpu_ns() - t0;
    print_message("    uniform %.1f ms", (double)took / 1e6);
    assert_true(took < 500000000u);
    kva_decision_release(&d);
    t0 = kva_cpu_ns();
    d = select_of(&sc, "snapkv+global", n / 4);
    took = kva_cpu_ns() - t0;
    print_message(", global %.1f ms\n", (double)took / 1e6);
    assert_true(took < 500000000u);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_scores_keep_the_newest),
        cmocka_unit_test(a_protected_entry_outranks_every_score),
        cmocka_unit_test(recency_goes_by_position_and_not_by_rank),
        cmocka_unit_test(more_protected_than_budget_keeps_sinks_then_newest),
        cmocka_unit_test(signs_and_zeros_order_as_numbers),
        cmocka_unit_test(a_budget_above_what_is_held_keeps_everything),
        cmocka_unit_test(a_budget_below_one_entry_per_head_is_refused),
        cmocka_unit_test(an_allocator_that_misses_its_total_is_not_believed),
        cmocka_unit_test(scores_that_are_not_finite_go_first_and_are_counted),
        cmocka_unit_test(only_what_a_scorer_needs_is_gathered),
        cmocka_unit_test(totals_are_exact_for_random_budgets_under_every_allocator),
        cmocka_unit_test(ninety_heads_of_4096_entries_take_milliseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
