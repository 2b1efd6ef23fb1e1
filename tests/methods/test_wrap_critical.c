/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_wrap_critical.c - E9, both stages against a plain sort, protection, refusals. */
#include "tests/methods/wrap_test.h"

/* E9 */
static const float E9_A[] = {0.40f, 0.25f, 0.15f, 0.10f, 0.06f, 0.04f};
static const float E9_W[] = {1, 1, 2, 5, 9, 4};

static void both_stages_give_the_worked_example(void **state)
{
    struct kva_pick in = {.s = E9_A, .aux = E9_W, .n = 6, .b = 4, .wide = 1};
    int32_t rank[4];

    (void)state;
    for (int j = 0; j < 6; j++) {
        static const double want[] = {.4001, .2501, .3002, .5005, .5409, .1604};

        assert_near(((double)E9_A[j] + 1e-4) * (double)E9_W[j], want[j], 1e-4);
    }
    pick_of("snapkv+critical:alpha=0", in, rank);
    assert_ranks(rank, 0, 2, 3, 4);
    pick_of("snapkv+critical:alpha=0.25", in, rank);
    assert_ranks(rank, 0, 2, 3, 4);
    pick_of("snapkv+critical", in, rank);
    assert_ranks(rank, 0, 1, 3, 4);
    pick_of("snapkv+critical:alpha=0.75", in, rank);
    assert_ranks(rank, 0, 1, 2, 4);
    pick_of("snapkv+critical:alpha=1", in, rank);
    assert_ranks(rank, 0, 1, 2, 3);
}

/* E9: stage 1 holds .40, .65, .80 of the attention; with .15 of protected entries none of
 * it counts. */
static void the_share_of_stage_one_is_told(void **state)
{
    static const struct {
        const char *text;
        double share;
    } rows[] = {{"snapkv+critical:alpha=0.25", .40},
                {"snapkv+critical", .65},
                {"snapkv+critical:alpha=0.75", .80},
                {"snapkv+critical:alpha=0", 0}};
    float a[8] = {9}, w[8] = {1};
    double first;
    struct kva_pick in = {.s = a,
                          .aux = w,
                          .n = 8,
                          .b = 6,
                          .lead = 1,
                          .tail = 1,
                          .wide = 1,
                          .first = &first};
    int32_t rank[6];

    (void)state;
    memcpy(a + 1, E9_A, sizeof E9_A);
    memcpy(w + 1, E9_W, sizeof E9_W);
    for (int i = 0; i < 4; i++) {
        first = NAN;
        pick_of(rows[i].text, in, rank);
        assert_near(first, rows[i].share, 1e-6);
    }
}

static void the_first_stage_has_at_least_one_entry(void **state)
{
    const float a[] = {0.5f, 0.1f, 0.4f}, w[] = {1, 90, 2};
    struct kva_pick in = {.s = a, .aux = w, .n = 3, .b = 1, .wide = 1};
    int32_t rank[2];

    (void)state;
    pick_of("snapkv+critical", in, rank); /* floor(0.5) = 0 becomes 1 */
    assert_ranks(rank, 0);
    pick_of("snapkv+critical:alpha=0", in, rank);
    assert_ranks(rank, 1);
    in.b = 2;
    pick_of("snapkv+critical:alpha=0.1", in, rank);
    assert_ranks(rank, 0, 1);
}

static void protected_entries_stay_and_do_not_count(void **state)
{
    /* the window scores 0 and has no norm, yet stays; 4 are left for two stages */
    float a[9] = {0}, w[9] = {0};
    struct kva_pick in = {
        .s = a, .aux = w, .n = 9, .b = 7, .lead = 1, .tail = 2, .wide = 1};
    int32_t rank[7];

    (void)state;
    memcpy(a + 1, E9_A, sizeof E9_A);
    memcpy(w + 1, E9_W, sizeof E9_W);
    pick_of("snapkv+critical", in, rank);
    assert_ranks(rank, 0, 1, 2, 4, 5, 7, 8);
}

static void compat_counts_the_window_and_may_drop_it(void **state)
{
    /* b = 4: stage 1 takes the two newest of the window (score 0.5 + 1), stage 2 the two
     * largest products: 1.5 * 0.1 of position 3 loses against both of 0 and 1 */
    const float a[] = {0.5f, 0.4f, 0.1f, 0, 0, 0};
    const float w[] = {1, .5f, 0.5f, 0.5f, 0.5f, 0.5f, .1f, .5f, .1f, .5f, 1, .5f};
    struct kva_pick in = {.s = a, .aux = w, .n = 6, .b = 4, .tail = 3, .wide = 2};
    int32_t rank[4];

    (void)state;
    pick_of("snapkv+critical:compat=1", in, rank);
    assert_ranks(rank, 0, 1, 4, 5);
    in.aux = E9_W;
    in.wide = 1;
    pick_of("snapkv+critical", in, rank);
    assert_ranks(rank, 0, 3, 4, 5);
}

/* Scores too large for a product stay first, no number stays last. */
static void products_do_not_overflow(void **state)
{
    const float a[] = {3e38f, 1, -INFINITY, 2, 5}, w[] = {100, 1, 1e6f, 1, 1};
    struct kva_pick in = {.s = a, .aux = w, .n = 5, .b = 4, .wide = 1};
    int32_t rank[4];

    (void)state;
    pick_of("snapkv+critical:alpha=0", in, rank);
    assert_ranks(rank, 0, 1, 3, 4);
}

static void equal_products_keep_the_newest(void **state)
{
    const float a[] = {1, 1, 1, 1, 1}, w[] = {2, 2, 2, 2, 2};
    struct kva_pick in = {.s = a, .aux = w, .n = 5, .b = 3, .wide = 1};
    int32_t rank[3];

    (void)state;
    pick_of("snapkv+critical", in, rank);
    assert_ranks(rank, 2, 3, 4);
}

/* aux of every entry against the definition. */
static void norms_are_means_over_the_group(void **state)
{
    struct fixture f = fixture_new(2, 2, 3, 16, 60, 30, true, 3);
    struct projection p = projection_new(&f, 20, 4);

    (void)state;
    for (int norm = 1; norm <= 2; norm++) {
        struct wrapped w = wrap_of(&f, &p,
                                   norm == 1 ? "snapkv:window=8+critical"
                                             : "snapkv:window=8+critical:norm=l2",
                                   BLOCK128);

        for (int c = 0; c < 4; c++) {
            struct cell cell = cell_read(&f, c / 2, c % 2);

            for (int j = 0; j < cell.n; j++) {
                double want = 0;

                for (int a = c % 2 * 3; a < c % 2 * 3 + 3; a++)
                    want += projected_norm(&p, a, cell.v + j * 16, norm) / 3;
                assert_near(w.out.aux[w.out.off[c] + (size_t)j], want, 1e-5 * want);
            }
            cell_release(&cell);
        }
        /* the scores that allocators compare stay the scorer's */
        assert_memory_equal(w.out.s, w.base.s, w.base.off[4] * sizeof *w.base.s);
        wrapped_release(&w);
    }
    free(p.w);
    fixture_release(&f);
}

/* Under adakv the budgets are those without the wrapper. */
static void budgets_come_from_the_scorer_alone(void **state)
{
    struct fixture f = fixture_new(2, 3, 2, 16, 120, 30, false, 8);
    struct projection p = projection_new(&f, 24, 9);
    struct wrapped w = wrap_of(&f, &p, "snapkv:window=8+adakv+critical", ONESHOT);
    struct kva_method plain = parse("snapkv:window=8+adakv", ONESHOT);
    struct kva_decision a, b;
    bool moved = false;

    (void)state;
    assert_ok(kva_method_select(&w.m, &w.out, NULL, 6 * 30, &a, &test_error));
    assert_ok(kva_method_select(&plain, &w.base, NULL, 6 * 30, &b, &test_error));
    assert_memory_equal(a.budget, b.budget, 6 * sizeof *a.budget);
    assert_int_equal(a.total, 180);
    for (size_t i = 0; i < 180; i++)
        moved = moved || a.keep.rank[i] != b.keep.rank[i];
    assert_true(moved);
    for (int c = 0; c < 6; c++) /* the window stays */
        for (int i = 0; i < 8; i++)
            assert_int_equal(a.keep.rank[a.keep.off[c + 1] - 1 - (size_t)i], 119 - i);
    kva_decision_release(&a);
    kva_decision_release(&b);
    wrapped_release(&w);
    free(p.w);
    fixture_release(&f);
}

static void what_has_no_meaning_is_refused(void **state)
{
    (void)state;
    refused("keydiff+critical", "negative scores");
    refused("knorm+adakv+critical", "negative scores");
    refused("snapkv+critical+chunk", "two wrappers, critical and chunk");
    refused("snapkv+critical:alpha=1.5", "alpha");
    refused("snapkv+critical:norm=l3", "l1, l2");
}

static void counts_are_exact_whatever_the_scores(void **state)
{
    (void)state;
    check_counts("snapkv+critical", 1);
    check_counts("snapkv+critical:compat=1", 2);
    check_counts("snapkv+critical+adakv", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_stages_give_the_worked_example),
        cmocka_unit_test(the_share_of_stage_one_is_told),
        cmocka_unit_test(the_first_stage_has_at_least_one_entry),
        cmocka_unit_test(protected_entries_stay_and_do_not_count),
        cmocka_unit_test(compat_counts_the_window_and_may_drop_it),
        cmocka_unit_test(products_do_not_overflow),
        cmocka_unit_test(equal_products_keep_the_newest),
        cmocka_unit_test(norms_are_means_over_the_group),
        cmocka_unit_test(budgets_come_from_the_scorer_alone),
        cmocka_unit_test(what_has_no_meaning_is_refused),
        cmocka_unit_test(counts_are_exact_whatever_the_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
