/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_duo.c - retrieval heads keep everything, streaming heads the newest. */
#include "tests/methods/alloc_test.h"

static void the_largest_gates_keep_everything(void **state)
{
    const double gate[] = {0.1, 0.9, 0.5, 0.2};
    struct kva_table t = table_of("duo", 2, 2, 1, gate);
    struct kva_scores sc = flat_scores(2, 2, 100);
    struct kva_decision d;

    (void)state;
    sc.protect.sinks = 4;
    /* 10 each, 90 more to head 1, then to head 2 */
    d = divide(&sc, "streaming+duo:profile=x,recent=6", &t, NULL, 40 + 90);
    assert_budgets(d, 10, 100, 10, 10);
    kva_decision_release(&d);
    d = divide(&sc, "streaming+duo:profile=x,recent=6", &t, NULL, 40 + 90 + 30);
    assert_budgets(d, 10, 100, 40, 10);
    assert_false(d.fallback);
    kva_decision_release(&d);
    /* what every head has to have, and one less */
    for (int less = 0; less < 2; less++) {
        d = divide(&sc, "streaming+duo:profile=x,recent=6", &t, NULL,
                   40 - (uint64_t)less);
        assert_budgets(d, 10, 10, 10, 10 - less);
        assert_int_equal(d.fallback, less);
        kva_decision_release(&d);
    }
    kva_scores_release(&sc);
    kva_table_release(&t);
}

static void streaming_heads_hold_sinks_and_the_newest(void **state)
{
    const double gate[] = {0, 1};
    struct kva_table t = table_of("duo", 1, 2, 1, gate);
    float s[2 * 50];
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    for (int j = 0; j < 100; j++)
        s[j] = (float)(j % 50);
    sc = scores_of(1, 2, 50, s);
    sc.protect.sinks = 2;
    d = divide(&sc, "streaming+duo:profile=x,recent=3", &t, NULL, 55);
    assert_keeps(d, 0, 0, 1, 47, 48, 49);
    assert_budgets(d, 5, 50);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    kva_table_release(&t);
}

/* A context no longer than sinks and recent entries (methods.md 11, 11). */
static void short_contexts_share_equally(void **state)
{
    const double gate[] = {0, 1};
    struct kva_table t = table_of("duo", 1, 2, 1, gate);
    struct kva_scores sc = flat_scores(1, 2, 50);
    struct kva_decision d;

    (void)state;
    sc.protect.sinks = 128;
    for (int total = 2; total < 100; total += 7) {
        d = divide(&sc, "streaming:sinks=128+duo:profile=x", &t, NULL, (uint64_t)total);
        assert_budgets(d, (total + 1) / 2, total / 2);
        assert_true(d.fallback);
        kva_decision_release(&d);
    }
    d = divide(&sc, "streaming:sinks=128+duo:profile=x", &t, NULL, 100);
    assert_true(d.nothing_to_do);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    kva_table_release(&t);
}

static void equal_gates_prefer_the_lower_head(void **state)
{
    const double gate[] = {0.5, 0.5, 0.5};
    struct kva_table t = table_of("duo", 3, 1, 1, gate);
    struct kva_scores sc = flat_scores(3, 1, 20);
    struct kva_decision d = divide(&sc, "streaming+duo:profile=x,recent=5", &t, NULL, 32);

    (void)state;
    assert_budgets(d, 20, 7, 5);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    kva_table_release(&t);
}

/* Turns x[16] by `by` positions, as fixture_rotate does. */
static void turn(const double *x, int by, int layer, double *out)
{
    for (int i = 0; i < 8; i++) {
        double angle = by * 0.5 / (i + 1 + layer), c = cos(angle), s = sin(angle);

        out[i] = x[i] * c - x[i + 8] * s;
        out[i + 8] = x[i] * s + x[i + 8] * c;
    }
}

static double naive_gate(const struct fixture *f, int layer, int h, int rows)
{
    struct cell c = cell_read(f, layer, h);
    double k[16] = {0}, sum = 0;
    int group = f->heads / f->kv_heads;

    for (int j = 0; j < c.n; j++) {
        double raw[16], x[16];

        for (int i = 0; i < 16; i++)
            x[i] = (double)c.k[j * 16 + i];
        turn(x, -c.pos[j], layer, raw);
        for (int i = 0; i < 16; i++)
            k[i] += raw[i] / c.n;
    }
    for (int a = h * group; a < (h + 1) * group; a++) {
        double q[16] = {0}, last[16], z[500], all = 0, run = 0, area = 0;

        for (int r = f->nq - rows; r < f->nq; r++) {
            const float *from =
                f->q + (((size_t)layer * (size_t)f->nq + (size_t)r) * (size_t)f->heads +
                        (size_t)a) *
                           16;
            double raw[16], x[16];

            for (int i = 0; i < 16; i++)
                x[i] = (double)from[i];
            turn(x, -f->q_pos[r], layer, raw);
            for (int i = 0; i < 16; i++)
                q[i] += raw[i] / rows;
        }
        turn(q, 499, layer, last);
        for (int t = 0; t < 500; t++) {
            double there[16], dot = 0;

            turn(k, t, layer, there);
            for (int i = 0; i < 16; i++)
                dot += last[i] * there[i];
            z[t] = exp(dot / 4);
            all += z[t];
        }
        for (int t = 0; t < 500; t++) {
            run += z[t] / all;
            area += run / 500;
        }
        sum += area;
    }
    cell_release(&c);
    return sum / group;
}

static void gates_without_a_file_are_those_of_mean_query_and_key(void **state)
{
    struct fixture f = fixture_new(2, 2, 2, 16, 80, 40, false, 41);
    struct kva_method m = parse("duo", ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;
    struct kva_arena arena;
    double *stat;

    (void)state;
    assert_ok(kva_method_bind(&m, NULL, (const uint8_t[32]){0}, 2, 2, &test_error));
    kva_arena_init(&arena);
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_ok(kva_method_observe(&m, &in, &sc, &arena, &stat, &test_error));
    for (int l = 0; l < 2; l++)
        for (int h = 0; h < 2; h++)
            assert_near(stat[l * 64 + h], naive_gate(&f, l, h, 40), 1e-4);
    kva_scores_release(&sc);
    kva_arena_release(&arena);
    fixture_release(&f);
}

static void the_alias_is_streaming_with_the_papers_sinks(void **state)
{
    struct kva_method m = parse("duo:recent=200", ONESHOT);

    (void)state;
    assert_string_equal(m.scorer_spec, "streaming:rotate=0,sinks=128");
    assert_string_equal(m.allocator->name, "duo");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_gates_keep_everything),
        cmocka_unit_test(streaming_heads_hold_sinks_and_the_newest),
        cmocka_unit_test(short_contexts_share_equally),
        cmocka_unit_test(equal_gates_prefer_the_lower_head),
        cmocka_unit_test(gates_without_a_file_are_those_of_mean_query_and_key),
        cmocka_unit_test(the_alias_is_streaming_with_the_papers_sinks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
