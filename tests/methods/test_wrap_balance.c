/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_wrap_balance.c - E12, example C1 of analysis.md, the greedy walk written down
 * again. */
#include "tests/methods/wrap_test.h"

/* aux of masses a[n] and values v[n][dim], masses summing to 1. */
static void make_aux(const float *a, const double *v, int n, int dim, float *aux)
{
    for (int j = 0; j < n; j++) {
        aux[j * (1 + dim)] = a[j];
        for (int i = 0; i < dim; i++) {
            double mu = 0;

            for (int k = 0; k < n; k++)
                mu += (double)a[k] * v[k * dim + i];
            aux[j * (1 + dim) + 1 + i] = (float)((double)a[j] * (v[j * dim + i] - mu));
        }
    }
}

/* e(A) of analysis.md 4.1 */
static double error_of(const float *aux, int n, int dim, const bool *kept)
{
    double u[8] = {0}, z = 0, sum = 0;

    for (int j = 0; j < n; j++)
        for (int i = 0; kept[j] && i <= dim; i++) {
            if (i == 0)
                z += (double)aux[j * (1 + dim)];
            else
                u[i] += (double)aux[j * (1 + dim) + i];
        }
    for (int i = 1; i <= dim; i++)
        sum += u[i] * u[i];
    return sqrt(sum) / z;
}

static double error_at(const float *aux, int n, int dim, const int32_t *rank, int b)
{
    bool kept[64] = {false};

    for (int i = 0; i < b; i++)
        kept[rank[i]] = true;
    return error_of(aux, n, dim, kept);
}

static void one_dimension_gives_the_worked_example(void **state)
{
    const float a[] = {0.4f, 0.3f, 0.2f, 0.1f};
    const double v[] = {2, 1.8, -3, -.2};
    float aux[8];
    struct kva_pick in = {.s = a, .aux = aux, .n = 4, .b = 2, .wide = 2};
    const int32_t top[] = {0, 1}, swaps[][2] = {{1, 2}, {1, 3}, {0, 2}, {0, 3}};
    static const double want[] = {.84, .58, .3867, .84};
    int32_t rank[2];

    (void)state;
    make_aux(a, v, 4, 1, aux);
    assert_near(error_at(aux, 4, 1, top, 2), 1.1943, 1e-4);
    for (int i = 0; i < 4; i++)
        assert_near(error_at(aux, 4, 1, swaps[i], 2), want[i], 1e-4);
    pick_of("snapkv+balance", in, rank);
    assert_ranks(rank, 0, 2);
}

static void two_dimensions_give_example_c1(void **state)
{
    const float a[] = {.35f, .25f, .15f, .12f, .08f, .05f};
    const double v[] = {2, 0, 0, 2, 1, 1, -1, 0, 0, -1, -3, 3};
    static const double alone[] = {.857288, .468425, .089078, .236771, .157840, .223389};
    float aux[18];
    struct kva_pick in = {.s = a, .aux = aux, .n = 6, .b = 2, .wide = 3};
    const int32_t two[] = {2, 4}, three[] = {0, 1, 2};
    int32_t rank[3];

    (void)state;
    make_aux(a, v, 6, 2, aux);
    for (int j = 0; j < 6; j++)
        assert_near(hypot((double)aux[3 * j + 1], (double)aux[3 * j + 2]) /
                        (1 - (double)a[j]),
                    alone[j], 1e-5);
    assert_near(error_at(aux, 6, 2, two, 2), .42187179, 1e-6);
    assert_near(error_at(aux, 6, 2, three, 3), .57244117, 1e-6);
    pick_of("snapkv+balance", in, rank); /* no single swap helps, the optimum needs two */
    assert_ranks(rank, 0, 1);
    assert_near(error_at(aux, 6, 2, rank, 2), .59751337, 1e-6);
    in.b = 3;
    pick_of("snapkv+balance", in, rank);
    assert_ranks(rank, 0, 1, 3);
    assert_near(error_at(aux, 6, 2, rank, 3), .22699867, 1e-6);
}

/* All swaps, each error from scratch. */
static void naive(const float *aux, const struct kva_pick *in, int dim, bool *kept)
{
    for (;;) {
        double best = error_of(aux, in->n, dim, kept);
        int from = -1, to = -1;

        best = best * best * (1 - 1e-9);
        for (int i = in->lead; i < in->n - in->tail; i++)
            for (int j = in->lead; kept[i] && j < in->n - in->tail; j++) {
                double e;

                if (kept[j])
                    continue;
                kept[i] = false;
                kept[j] = true;
                e = error_of(aux, in->n, dim, kept);
                kept[i] = true;
                kept[j] = false;
                if (e * e < best) {
                    best = e * e;
                    from = i;
                    to = j;
                }
            }
        if (from < 0)
            return;
        kept[from] = false;
        kept[to] = true;
    }
}

static void the_walk_is_the_greedy_one(void **state)
{
    struct kva_rng r = {41};
    int moved = 0;

    (void)state;
    for (int trial = 0; trial < 40; trial++) {
        int n = 8 + trial % 20, dim = 1 + trial % 4, b = n / 4 + 2 + trial % (n / 2);
        float a[32], aux[32 * 5];
        double v[32 * 4], sum = 0;
        struct kva_pick in = {
            .s = a, .aux = aux, .n = n, .b = b, .wide = dim + 1, .tail = trial % 3 == 0};
        int32_t rank[32];
        bool kept[32] = {false};

        for (int j = 0; j < n; j++)
            sum += (double)(a[j] = expf(normal(&r)));
        for (int j = 0; j < n; j++)
            a[j] = (float)((double)a[j] / sum);
        for (int i = 0; i < n * dim; i++)
            v[i] = (double)normal(&r);
        make_aux(a, v, n, dim, aux);
        if (in.tail)
            kept[n - 1] = true;
        for (int left = b - in.tail; left > 0; left--) {
            int top = -1;

            for (int j = 0; j < n - in.tail; j++)
                if (!kept[j] && (top < 0 || a[j] >= a[top]))
                    top = j;
            kept[top] = true;
        }
        {
            bool before[32];

            memcpy(before, kept, sizeof kept);
            naive(aux, &in, dim, kept);
            moved += memcmp(before, kept, sizeof kept) != 0;
        }
        pick_of("snapkv+balance", in, rank);
        for (int i = 0; i < b; i++)
            if (!kept[rank[i]])
                fail_msg("trial %d: entry %d is kept", trial, (int)rank[i]);
    }
    assert_true(moved > 20);
}

/* A few candidates find less, but never something worse than the start. */
static void few_candidates_never_worsen_the_start(void **state)
{
    struct kva_rng r = {43};
    float a[60], aux[60 * 4], sum = 0;
    double v[180];
    struct kva_pick in = {.s = a, .aux = aux, .n = 60, .b = 20, .wide = 4};
    int32_t rank[20];
    double last = INFINITY;
    static const char *const text[] = {"snapkv+balance:candidates=1",
                                       "snapkv+balance:candidates=8", "snapkv+balance"};

    (void)state;
    for (int j = 0; j < 60; j++)
        sum += a[j] = expf(normal(&r)) + (float)(60 - j); /* the first are the best */
    for (int j = 0; j < 60; j++)
        a[j] /= sum;
    for (int i = 0; i < 180; i++)
        v[i] = (double)normal(&r);
    make_aux(a, v, 60, 3, aux);
    for (int j = 0; j < 20; j++)
        rank[j] = j;
    last = error_at(aux, 60, 3, rank, 20);
    for (int i = 0; i < 3; i++) {
        pick_of(text[i], in, rank);
        assert_true(error_at(aux, 60, 3, rank, 20) < last);
        if (i == 0)
            continue;
        last = error_at(aux, 60, 3, rank, 20);
    }
}

static void masses_and_errors_come_from_the_cache(void **state)
{
    struct fixture f = fixture_new(2, 2, 2, 16, 80, 20, true, 45);
    struct wrapped w = wrap_of(&f, NULL, "tova+balance", BLOCK128);

    (void)state;
    assert_int_equal(w.out.wide, 17);
    for (int c = 0; c < 4; c++) {
        struct cell cell = cell_read(&f, c / 2, c % 2);
        const float *aux = w.out.aux + w.out.off[c] * 17, *s = w.base.s + w.base.off[c];
        double sum = 0, mu[16] = {0};

        for (int j = 0; j < cell.n; j++)
            sum += (double)s[j];
        for (int j = 0; j < cell.n; j++)
            for (int i = 0; i < 16; i++)
                mu[i] += (double)s[j] / sum * (double)cell.v[j * 16 + i];
        for (int j = 0; j < cell.n; j++) {
            assert_near(aux[j * 17], (double)s[j] / sum, 1e-7);
            for (int i = 0; i < 16; i++)
                assert_near(aux[j * 17 + 1 + i],
                            (double)s[j] / sum * ((double)cell.v[j * 16 + i] - mu[i]),
                            1e-6);
        }
        cell_release(&cell);
    }
    wrapped_release(&w);
    fixture_release(&f);
}

static void what_has_no_meaning_is_refused(void **state)
{
    (void)state;
    refused("keydiff+balance", "never negative");
    refused("snapkv+balance+critical", "two wrappers, balance and critical");
}

static void counts_are_exact_whatever_the_scores(void **state)
{
    (void)state;
    check_counts("snapkv+balance", 4);
    check_counts("snapkv+balance:candidates=2", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_dimension_gives_the_worked_example),
        cmocka_unit_test(two_dimensions_give_example_c1),
        cmocka_unit_test(the_walk_is_the_greedy_one),
        cmocka_unit_test(few_candidates_never_worsen_the_start),
        cmocka_unit_test(masses_and_errors_come_from_the_cache),
        cmocka_unit_test(what_has_no_meaning_is_refused),
        cmocka_unit_test(counts_are_exact_whatever_the_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
