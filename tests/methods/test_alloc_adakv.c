/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_adakv.c - heads of a layer compete; worked example E8. */
#include "tests/methods/methods_test.h"

static const float E8[] = {.40f, .30f, .15f, .10f, .03f, .02f,
                           .20f, .18f, .17f, .16f, .15f, .14f};

static void sizes_and_sets_of_E8(void **state)
{
    const char *const competing[] = {"snapkv+adakv:alpha=0", "snapkv+adakv",
                                     "snapkv+adakv:alpha=0.5"};
    struct kva_scores sc = scores_of(1, 2, 6, E8);
    struct kva_decision d;

    (void)state;
    for (int i = 0; i < 3; i++) {
        d = select_of(&sc, competing[i], 6);
        assert_keeps(d, 0, 0, 1);
        assert_keeps(d, 1, 0, 1, 2, 3);
        kva_decision_release(&d);
    }
    d = select_of(&sc, "snapkv+adakv:alpha=1", 6);
    assert_keeps(d, 0, 0, 1, 2);
    assert_keeps(d, 1, 0, 1, 2);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void the_heavier_tail_of_E8_takes_three_of_four(void **state)
{
    const float s[] = {3, 4, 5, 9999, 1, 1, 1, 9998};
    struct kva_scores sc = scores_of(1, 2, 4, s);
    struct kva_decision d = select_of(&sc, "snapkv+adakv:alpha=0", 4);

    (void)state;
    assert_keeps(d, 0, 1, 2, 3);
    assert_keeps(d, 1, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void no_head_is_left_empty(void **state)
{
    const float s[] = {9, 9, 9, 9, 1, 2, 1, 1};
    struct kva_scores sc = scores_of(1, 2, 4, s);
    struct kva_decision d = select_of(&sc, "snapkv+adakv:alpha=0", 4);

    (void)state;
    assert_keeps(d, 0, 1, 2, 3);
    assert_keeps(d, 1, 1);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void layers_keep_their_totals_whatever_the_scores(void **state)
{
    float s[36];
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    for (int i = 0; i < 36; i++)
        s[i] = (float)(i < 12 ? 100 + i : i);
    sc = scores_of(3, 2, 6, s);
    d = select_of(&sc, "snapkv+adakv",
                  16); /* 2 each, the remainder 4 to KV heads 0 .. 3 */
    assert_int_equal(d.keep.off[2], 6);
    assert_int_equal(d.keep.off[4], 12);
    assert_int_equal(d.keep.off[6], 16);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void a_ragged_layer_keeps_its_total_to_itself(void **state)
{
    float s[24];
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    for (int i = 0; i < 24; i++)
        s[i] = (float)i;
    sc = scores_of(2, 2, 6, s);
    sc.off[1] = 2; /* layer 0: heads of 2 and 10; a share of 4 does not fit head 0 */
    for (int i = 0; i < 10; i++)
        sc.pos[2 + i] = i;
    d = select_of(&sc, "snapkv+adakv:alpha=0.5", 16);
    assert_int_equal(d.keep.off[2], 8);
    assert_int_equal(d.keep.off[1], 2);
    assert_int_equal(d.keep.off[4], 16);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void protected_entries_count_inside_the_total(void **state)
{
    struct kva_scores sc = scores_of(1, 2, 6, E8);
    struct kva_decision d;

    (void)state;
    sc.protect.recent = 2;
    d = select_of(&sc, "snapkv+adakv:alpha=0", 6);
    assert_keeps(d, 0, 0, 1, 4, 5);
    assert_keeps(d, 1, 4, 5);
    assert_false(d.protect_overflow);
    kva_decision_release(&d);
    /* the safeguard is for the others: floor(0.34 * 3) = 1 beside the two protected */
    d = select_of(&sc, "snapkv+adakv:alpha=0.34", 6);
    assert_keeps(d, 0, 0, 4, 5);
    assert_keeps(d, 1, 0, 4, 5);
    kva_decision_release(&d);
    /* compat: they count inside the safeguard, floor(1 * 3) = 3, which leaves one other
     */
    d = select_of(&sc, "snapkv+adakv:alpha=1,compat=1", 6);
    assert_keeps(d, 0, 0, 4, 5);
    assert_keeps(d, 1, 0, 4, 5);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+adakv:alpha=0.34,compat=1", 6);
    assert_keeps(d, 0, 0, 1, 4, 5);
    assert_keeps(d, 1, 4, 5);
    kva_decision_release(&d);
    /* more protected than the layer's total: each head its uniform share, rule 3.4 */
    sc.protect.recent = 4;
    d = select_of(&sc, "snapkv+adakv:alpha=0", 6);
    assert_keeps(d, 0, 3, 4, 5);
    assert_keeps(d, 1, 3, 4, 5);
    assert_true(d.protect_overflow);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void equal_scores_go_to_the_newest_then_to_the_lower_head(void **state)
{
    const float s[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct kva_scores sc = scores_of(1, 3, 4, s);
    struct kva_decision d = select_of(&sc, "snapkv+adakv:alpha=0", 5);

    (void)state;
    assert_keeps(d, 0, 2, 3);
    assert_keeps(d, 1, 2, 3);
    assert_keeps(d, 2, 3);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void norms_bring_heads_to_one_unit(void **state)
{
    const float s[] = {.40f, .30f, .15f, .15f,
                       20,   30,   26,   24}; /* head 1 is 100 times head 0 */
    struct kva_scores sc = scores_of(1, 2, 4, s);
    struct kva_decision d = select_of(&sc, "snapkv+adakv:alpha=0", 4);

    (void)state;
    assert_keeps(d, 0, 0);
    assert_keeps(d, 1, 1, 2, 3);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+adakv:alpha=0,norm=cell_sum", 4);
    assert_keeps(d, 0, 0, 1); /* .40 .30 against .30 .26 */
    assert_keeps(d, 1, 1, 2);
    kva_decision_release(&d);
    d = select_of(&sc, "snapkv+adakv:alpha=0,norm=z", 4);
    assert_keeps(d, 0, 0, 1); /* 1.41 .47 against 1.39 .28 */
    assert_keeps(d, 1, 1, 2);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* ---- against a plain sort over the layer
 * ---------------------------------------------------- */

/* Sizes by sorting all entries of a layer, written down again from methods.md 7. */
static void naive_sizes(const struct kva_scores *sc, int layer, int total, double alpha,
                        int32_t newest, int *b)
{
    int heads = sc->kv_heads, first = layer * heads, n = 0, nk = total / heads;
    struct ranked all[2000];

    for (int h = 0; h < heads; h++) {
        struct ranked own[500];
        int m = 0, sure = (int)floor(alpha * nk + 1e-9), prot = 0;

        for (size_t j = sc->off[first + h]; j < sc->off[first + h + 1]; j++) {
            int32_t p = sc->pos[j];
            bool cls = p < sc->protect.sinks || p > newest - sc->protect.recent;

            prot += cls;
            own[m++] = (struct ranked){
                .cls = cls, .score = (double)sc->s[j], .pos = p, .head = h};
        }
        qsort(own, (size_t)m, sizeof own[0], ranked_cmp);
        if (sure + prot == 0)
            sure = 1;
        for (int j = 0; j < m; j++) {
            own[j].cls = j < prot + sure;
            all[n++] = own[j];
        }
        b[h] = 0;
    }
    qsort(all, (size_t)n, sizeof all[0], ranked_cmp);
    for (int j = 0; j < total; j++)
        b[all[j].head]++;
}

static void sizes_agree_with_a_plain_sort(void **state)
{
    const double alphas[] = {0, 0.2, 0.7};
    const char *const texts[] = {"snapkv:window=6+adakv:alpha=0", "snapkv:window=6+adakv",
                                 "snapkv:window=6+adakv:alpha=0.7"};

    (void)state;
    for (int ragged = 0; ragged < 2; ragged++) {
        struct fixture f = fixture_new(2, 3, 2, 8, 120, 8, ragged, 31);
        struct kva_scores sc = score_of(&f, texts[0], ragged ? BLOCK128 : ONESHOT);

        for (int i = 0; i < 3; i++) {
            for (int nk = 10; nk < 60; nk += 7) {
                struct kva_decision d = select_of(&sc, texts[i], (uint64_t)(6 * nk));

                for (int l = 0; l < 2; l++) {
                    int b[3];

                    naive_sizes(&sc, l, 3 * nk, alphas[i], 119, b);
                    for (int h = 0; h < 3; h++)
                        assert_int_equal(
                            d.keep.off[l * 3 + h + 1] - d.keep.off[l * 3 + h], b[h]);
                }
                kva_decision_release(&d);
            }
        }
        kva_scores_release(&sc);
        fixture_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_sets_of_E8),
        cmocka_unit_test(the_heavier_tail_of_E8_takes_three_of_four),
        cmocka_unit_test(no_head_is_left_empty),
        cmocka_unit_test(layers_keep_their_totals_whatever_the_scores),
        cmocka_unit_test(a_ragged_layer_keeps_its_total_to_itself),
        cmocka_unit_test(protected_entries_count_inside_the_total),
        cmocka_unit_test(equal_scores_go_to_the_newest_then_to_the_lower_head),
        cmocka_unit_test(norms_bring_heads_to_one_unit),
        cmocka_unit_test(sizes_agree_with_a_plain_sort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
