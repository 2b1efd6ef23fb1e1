/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_cpu_pool.c - attention of query heads made scores of KV heads: the same bits as a
 * plain loop, whatever the tiles and the threads. */
#include "tests/kernels/cpu_help.h"

enum { KV_HEADS = 3, MAX_HELD = 9001 };

/* Centred pool of x[n] around j, as struct kva_pool_heads says it. */
static double pool(const double *x, int n, int j, int kernel, bool max)
{
    double sum = 0, most = -INFINITY;

    for (int i = j - kernel / 2; i <= j + kernel / 2; i++) {
        if (i < 0 || i >= n)
            continue;
        sum += x[i];
        most = fmax(most, x[i]);
    }
    return max ? most : sum / kernel;
}

static void naive(const struct kva_pool_heads *p, float *s)
{
    int group = p->heads / p->kv_heads;
    double *x = calloc(MAX_HELD, sizeof *x), *y = calloc(MAX_HELD, sizeof *y);

    for (int h = 0; h < p->kv_heads; h++) {
        int n = (int)p->n[h];

        memset(y, 0, MAX_HELD * sizeof *y);
        for (int a = h * group; a < (h + 1) * group; a++) {
            for (int j = 0; j < n; j++)
                x[j] = (double)p->m[p->a_off[a] + (size_t)j];
            for (int j = 0; j < n; j++)
                y[j] += p->before ? x[j] : pool(x, n, j, p->kernel, p->max);
        }
        for (int j = 0; j < n; j++)
            x[j] = y[j] / group;
        for (int j = 0; j < (int)(p->off[h + 1] - p->off[h]); j++)
            s[p->off[h] + (size_t)j] = j >= n ? 0.0f
                                       : p->before
                                           ? (float)pool(x, n, j, p->kernel, p->max)
                                           : (float)x[j];
    }
    free(x);
    free(y);
}

/* Weights of `group` query heads a KV head, not in the order of the heads and with gaps.
 */
struct given {
    float *m;
    size_t a_off[KV_HEADS * 4], off[KV_HEADS + 1], n[KV_HEADS];
    struct kva_pool_heads p;
};

static void make(struct given *g, struct kva_rng *r, int group, int longest)
{
    size_t at = 5;

    for (int h = 0; h < KV_HEADS; h++) {
        size_t held = h == 1 ? 1 : (size_t)longest - (size_t)h;

        g->off[h] = h == 0 ? 0 : g->off[h];
        g->off[h + 1] = g->off[h] + held;
        g->n[h] = h == 2 ? held - held / 3 : h == 1 ? (size_t)(longest % 2) : held;
    }
    for (int a = KV_HEADS * group - 1; a >= 0; a--) {
        g->a_off[a] = at;
        at += g->off[a / group + 1] - g->off[a / group] + 3;
    }
    g->m = calloc(at, sizeof *g->m);
    for (size_t i = 0; i < at; i++)
        g->m[i] = (float)kva_rng_unit(r) * (kva_rng_below(r, 8) == 0 ? 1.0f : 1e-4f);
    g->p = (struct kva_pool_heads){.m = g->m,
                                   .a_off = g->a_off,
                                   .heads = KV_HEADS * group,
                                   .kv_heads = KV_HEADS,
                                   .off = g->off,
                                   .n = g->n};
}

static void pooled_heads_are_those_of_a_plain_loop(void **state)
{
    static const int lengths[] = {2, 5, 300, 4096, 4097, MAX_HELD};
    static const int kernels[] = {1, 3, 5, 7, 255};
    struct kva_rng r = {19};
    int compared = 0;

    (void)state;
    for (int i = 0; i < COUNT(lengths); i++)
        for (int k = 0; k < COUNT(kernels); k++)
            for (int mode = 0; mode < 4; mode++) {
                struct given g = {0};
                float *got, *want;

                make(&g, &r, 1 + (i + k) % 4, lengths[i]);
                g.p.kernel = kernels[k];
                g.p.max = mode % 2 == 1;
                g.p.before = mode > 1;
                got = calloc(g.off[KV_HEADS] + 1, sizeof *got);
                want = calloc(g.off[KV_HEADS] + 1, sizeof *want);
                naive(&g.p, want);
                want[g.off[KV_HEADS]] = 77; /* nothing is written behind the end */
                for (int threads = 1; threads <= 3; threads += 2) {
                    struct kva_ops *ops =
                        open_ops(mode == 0 && k == 0 ? "ref" : "f32", NULL, threads);

                    for (size_t j = 0; j <= g.off[KV_HEADS]; j++)
                        got[j] = 77;
                    ops->pool_heads(ops, &g.p, got);
                    assert_true(same_bits(got, want, g.off[KV_HEADS] + 1));
                    kva_ops_close(ops);
                    compared++;
                }
                free(got);
                free(want);
                free(g.m);
            }
    assert_int_equal(compared, 240);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooled_heads_are_those_of_a_plain_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
