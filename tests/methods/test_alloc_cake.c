/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_cake.c - layers share by entropy and variance; worked example E15. */
#include "tests/methods/alloc_test.h"

static void layers_of_E15(void **state)
{
    const double stat[] = {4, 1, 9, 4, 16, 1};
    struct kva_scores sc = flat_scores(3, 1, 200);
    struct kva_decision d = divide(&sc, "random+cake:tau1=2,tau2=2", NULL, stat, 120);

    (void)state;
    assert_budgets(d, 20, 60, 40);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void what_is_protected_stays_outside_and_full_layers_hand_on(void **state)
{
    const double stat[] = {4, 1, 9, 4, 16, 1};
    struct kva_scores sc = flat_scores(3, 2, 70);
    struct kva_decision d;

    (void)state;
    sc.protect.recent = 10;
    d = divide(&sc, "random+cake:tau1=2,tau2=2", NULL, stat, 2 * (120 + 30));
    /* 20, 60, 40 above 10 each */
    assert_budgets(d, 30, 30, 70, 70, 50, 50);
    kva_decision_release(&d);
    d = divide(&sc, "random+cake:tau1=2,tau2=2", NULL, stat, 2 * (120 + 30 + 30));
    /* 25, 75, 50 above 10: the second layer is full at 60, 15 go 2 : 4 */
    assert_budgets(d, 40, 40, 70, 70, 70, 70);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void layers_without_variance_share_equally(void **state)
{
    const double stat[] = {4, 0, 9, 0, 16, 0};
    struct kva_scores sc = flat_scores(3, 1, 200);
    struct kva_decision d = divide(&sc, "random+cake", NULL, stat, 120);

    (void)state;
    assert_budgets(d, 40, 40, 40);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

/* Entropy and variance over again from the rows themselves. */
static void naive_stat(const struct fixture *f, int layer, int rows, double *stat)
{
    int group = f->heads / f->kv_heads;

    stat[0] = stat[1] = 0;
    for (int a = 0; a < f->heads; a++) {
        struct cell c = cell_read(f, layer, a / group);
        double *p = kva_calloc((size_t)(rows * c.n), sizeof *p);

        for (int i = 0; i < rows; i++)
            naive_row(f, &c, f->nq - rows + i, a, p + i * c.n);
        for (int j = 0; j < c.n && c.pos[j] < f->q_pos[f->nq - rows]; j++) {
            double mean = 0, var = 0;

            for (int i = 0; i < rows; i++)
                mean += p[i * c.n + j] / rows;
            for (int i = 0; i < rows; i++) {
                double x = p[i * c.n + j];

                var += (x - mean) * (x - mean) / rows;
                stat[0] -= x * log(x);
            }
            stat[1] += var;
        }
        free(p);
        cell_release(&c);
    }
}

static void a_layer_is_seen_as_by_its_rows(void **state)
{
    (void)state;
    for (int ragged = 0; ragged < 2; ragged++) {
        struct fixture f = fixture_new(2, 2, 3, 16, 120, 40, ragged, 5);
        struct kva_method m = parse("random+cake:window=24", ONESHOT);
        struct kva_decide_in in = fixture_in(&f, ONESHOT);
        struct kva_arena arena;
        struct kva_scores sc;
        double *stat, want[2];
        int window;

        assert_int_equal(kva_method_needs(&m, &window),
                         KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES);
        assert_int_equal(window, 24);
        kva_arena_init(&arena);
        assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
        assert_ok(kva_method_observe(&m, &in, &sc, &arena, &stat, &test_error));
        for (int l = 0; l < 2; l++) {
            naive_stat(&f, l, 24, want);
            assert_near(stat[2 * l], want[0], 1e-4 * want[0]);
            assert_near(stat[2 * l + 1], want[1], 1e-4 * want[1]);
        }
        kva_scores_release(&sc);
        kva_arena_release(&arena);
        fixture_release(&f);
    }
}

static void layerwise_is_refused(void **state)
{
    const struct kva_schedule layerwise = {KVA_LAYERWISE, 0, 0};
    const char *const texts[] = {"random+cake", "random+lava", "random+contour",
                                 "random+global"};
    struct kva_method m;
    struct kva_error err = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(kva_method_parse(texts[i], &layerwise, &m, &err), KVA_EINVALID);
    assert_ok(kva_method_parse("pyramidkv", &layerwise, &m, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_E15),
        cmocka_unit_test(what_is_protected_stays_outside_and_full_layers_hand_on),
        cmocka_unit_test(layers_without_variance_share_equally),
        cmocka_unit_test(a_layer_is_seen_as_by_its_rows),
        cmocka_unit_test(layerwise_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
