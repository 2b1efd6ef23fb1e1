/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_lava.c - a second opinion, and the factor of a KV head. */
#include "tests/methods/rows_test.h"

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    int n = c->n, d = f->dim, group = f->heads / f->kv_heads, rows = 32, older = 0;
    double *w = kva_calloc((size_t)(rows * n), sizeof *w), factor = 0;
    double *x = kva_calloc((size_t)n, sizeof *x);

    memset(s, 0, (size_t)n * sizeof *s);
    for (int j = 0; j < n; j++) {
        double norm = 0;

        for (int y = 0; y < d; y++)
            norm += fabs((double)c->v[j * d + y]);
        factor = norm > factor ? norm : factor;
    }
    for (int a = c->head * group; a < (c->head + 1) * group; a++) {
        older = naive_rows(f, c, rows, a, w);
        for (int j = 0; j < n; j++) {
            x[j] = 0;
            for (int i = 0; i < rows; i++)
                x[j] += w[i * n + j] / rows;
        }
        for (int j = 0; j < older; j++) {
            double y = naive_pool(x, older, j, 7, true) * factor;

            s[j] = y > s[j] ? y : s[j];
        }
    }
    free(w);
    free(x);
}

static void kept_sets_agree_with_a_second_opinion(void **state)
{
    const struct kva_protect window = {.recent = 32};

    (void)state;
    check_scorer("lava", "lava", naive, window, window);
}

/* Same queries and keys, values ten times as large in head 1: scores times ten. */
static void values_scale_the_whole_head(void **state)
{
    struct kva_rng r = {6};
    struct fixture f = {.layers = 1, .kv_heads = 2, .heads = 2, .dim = 4, .tokens = 40};
    struct kva_kvshape shape = {1, 2, 4, 4, KVA_F32};
    float k[40 * 8], v[40 * 8];
    int32_t pos[40], q_pos[2] = {38, 39};
    float q[16];
    struct kva_scores sc;

    (void)state;
    for (int t = 0; t < 40; t++) {
        pos[t] = t;
        for (int x = 0; x < 4; x++) {
            k[t * 8 + x] = k[t * 8 + 4 + x] = normal(&r);
            v[t * 8 + x] = normal(&r);
            v[t * 8 + 4 + x] = 10 * v[t * 8 + x];
        }
    }
    for (int i = 0; i < 2; i++)
        for (int x = 0; x < 4; x++)
            q[i * 8 + x] = q[i * 8 + 4 + x] = normal(&r);
    assert_ok(kva_ops_open("cpu", "f32", 1, &f.ops, &test_error));
    assert_ok(kva_kvstore_new(f.ops, &shape, 8, KVA_KV_PHYSICAL, &f.store, &test_error));
    assert_ok(kva_kvstore_append(f.store, 0, k, 8, v, 8, pos, 40, &test_error));
    f.nq = 2;
    f.q = kva_calloc(16, sizeof *f.q);
    f.q_pos = kva_calloc(2, sizeof *f.q_pos);
    memcpy(f.q, q, sizeof q);
    memcpy(f.q_pos, q_pos, sizeof q_pos);
    sc = score_of(&f, "lava:window=2", ONESHOT);
    for (int j = 0; j < 38; j++)
        assert_near(sc.s[40 + j], 10 * (double)sc.s[j], 1e-5 * (double)sc.s[40 + j]);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_agree_with_a_second_opinion),
        cmocka_unit_test(values_scale_the_whole_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
