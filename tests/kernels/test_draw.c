/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_draw.c - draws: worked ones, a plain implementation of the rule, which ids survive
 * top-k and top-p by the warpers of transformers (tests/golden/kernels/warpers.txt), and
 * how often each id comes. */
#include "tests/kernels/cpu_help.h"

struct how {
    float temperature, top_p;
    int top_k;
};

static int32_t one(struct kva_ops *ops, const float *z, int n, struct how h, double u)
{
    int32_t id = -7;

    ops->draw(ops, z, n, 1, h.temperature, h.top_k, h.top_p, &u, &id);
    return id;
}

/* ---- worked ---- */

/* probabilities 1/8, 2/8, 5/8 */
static void worked_draws(void **state)
{
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    float z[3] = {0, logf(2), logf(5)};
    static const struct {
        double u;
        int top_k;
        float top_p;
        int id;
    } w[] = {
        {0.12, 0, 1, 0},
        {0.13, 0, 1, 1},
        {0.37, 0, 1, 1},
        {0.38, 0, 1, 2},
        {0.28, 2, 1, 1},
        {0.29, 2, 1, 2}, /* of 2/7, 5/7 */
        {0, 0, 0.6f, 2}, /* 5/8 alone holds it */
        {0, 0, 0.63f, 1},
        {0, 1, 1, 2},
        {0, 0, 0.88f, 0},
        {0, 3, 1, 0},
        {0x1.fffffffffffffp-1, 0, 1, 2},
        {0.99, 0, 0.0001f, 2}, /* at least one stays */
        {0.28, 2, 0.999f, 1},  /* the share is of what top_k leaves: 5/7, then both */
        {0, 2, 0.7f, 2},
    };

    (void)state;
    for (int i = 0; i < COUNT(w); i++)
        if (one(ops, z, 3, (struct how){1, w[i].top_p, w[i].top_k}, w[i].u) != w[i].id)
            fail_msg("draw %d should be %d", i, w[i].id);
    /* temperature 1/2 squares the odds: 1/30, 4/30, 25/30 */
    assert_int_equal(one(ops, z, 3, (struct how){0.5f, 1, 0}, 0.033), 0);
    assert_int_equal(one(ops, z, 3, (struct how){0.5f, 1, 0}, 0.034), 1);
    assert_int_equal(one(ops, z, 3, (struct how){0.5f, 1, 0}, 0.166), 1);
    assert_int_equal(one(ops, z, 3, (struct how){0.5f, 1, 0}, 0.167), 2);
    kva_ops_close(ops);
}

static void of_equal_logits_the_lowest_ids_stay(void **state)
{
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    float z[6] = {1, 2, 2, -0.0f, 0.0f, 2};

    (void)state;
    for (int i = 0; i < 2000; i++) {
        double u = (i + 0.5) / 2000;
        int32_t two = one(ops, z, 6, (struct how){1, 1, 2}, u);
        int32_t half = one(ops, z, 6, (struct how){1, 0.5f, 0}, u);
        int32_t five = one(ops, z, 6, (struct how){1, 1, 5}, u);

        assert_int_equal(two, u < 0.5 ? 1 : 2);
        assert_true(half == 1 || half == 2); /* 3 of 3.64 shares: two hold half */
        assert_true(five != 4);              /* +0 and -0 are equal */
    }
    kva_ops_close(ops);
}

static void what_is_no_number_is_never_drawn(void **state)
{
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    float z[5] = {NAN, -INFINITY, 1, NAN, 0}, none[2] = {-INFINITY, NAN};

    (void)state;
    for (int k = 0; k <= 5; k++)
        for (int i = 0; i < 100; i++) {
            int32_t id = one(ops, z, 5, (struct how){1, 1, k}, (i + 0.5) / 100);

            assert_true(id == 2 || (id == 4 && k != 1));
        }
    assert_int_equal(one(ops, none, 2, (struct how){1, 0.9f, 1}, 0.5), 0);
    kva_ops_close(ops);
}

/* ---- a plain implementation ---- */

struct ranked {
    float z;
    int id;
};

static int by_logit(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->z > y->z || x->z < y->z)
        return x->z > y->z ? -1 : 1;
    return x->id - y->id;
}

static int32_t plain(const float *z, int n, struct how h, double u)
{
    struct ranked r[1024];
    uint64_t mass[1024] = {0}, total = 0, sum = 0, point;
    int left = h.top_k > 0 && h.top_k < n ? h.top_k : n;
    bool stays[1024] = {false};

    for (int i = 0; i < n; i++)
        r[i] = (struct ranked){isnan(z[i]) ? -INFINITY : z[i], i};
    qsort(r, (size_t)n, sizeof *r, by_logit);
    for (int i = 0; i < n; i++)
        mass[r[i].id] =
            (uint64_t)((double)kva_expf((r[i].z - r[0].z) * (1.0f / h.temperature)) *
                           0x1p32 +
                       0.5);
    for (int i = 0; i < left; i++)
        total += mass[r[i].id];
    if (h.top_p < 1) {
        uint64_t want = (uint64_t)((double)h.top_p * (double)total);
        int k = 0;

        for (want = want ? want : 1; sum < want; k++)
            sum += mass[r[k].id];
        left = k;
        total = sum;
    }
    for (int i = 0; i < left; i++)
        stays[r[i].id] = true;
    point = (uint64_t)(u * (double)total);
    point = point < total ? point : total - 1;
    sum = 0;
    for (int i = 0; i < n; i++)
        if (stays[i] && (sum += mass[i]) > point)
            return i;
    return -1;
}

static void draws_are_those_of_the_plain_rule_in_every_numerics(void **state)
{
    static const struct how how[] = {{1, 1, 0},       {0.7f, 0.9f, 0},  {1.3f, 1, 5},
                                     {1, 0.5f, 40},   {0.1f, 0.95f, 1}, {2, 0.01f, 0},
                                     {0.6f, 0.95f, 0}};
    static const int size[] = {1, 2, 31, 257, 1000};
    struct kva_ops *ops[3] = {open_ops("f32", NULL, 2), open_ops("f32", "scalar", 1),
                              open_ops("ref", NULL, 1)};
    struct kva_rng r = {20};

    (void)state;
    for (int s = 0; s < COUNT(size); s++)
        for (int h = 0; h < COUNT(how); h++)
            for (int kind = 0; kind < 3; kind++) {
                enum { ROWS = 5 };
                int n = size[s];
                float *z = floats(&r, (size_t)n * ROWS);
                double u[ROWS] = {0, kva_rng_unit(&r), kva_rng_unit(&r), kva_rng_unit(&r),
                                  0x1.fffffffffffffp-1};

                for (int i = 0; i < n * ROWS; i++)
                    z[i] = kind == 1   ? (float)kva_rng_below(&r, 4) * 0.5f - 1
                           : kind == 2 ? z[i] * 20
                                       : z[i];
                for (int k = 0; k < 3; k++) {
                    int32_t id[ROWS];

                    ops[k]->draw(ops[k], z, n, ROWS, how[h].temperature, how[h].top_k,
                                 how[h].top_p, u, id);
                    for (int i = 0; i < ROWS; i++)
                        if (id[i] != plain(z + i * n, n, how[h], u[i]))
                            fail_msg("table %d, n %d, way %d, kind %d, row %d: %d", k, n,
                                     h, kind, i, id[i]);
                }
                free(z);
            }
    for (int k = 0; k < 3; k++)
        kva_ops_close(ops[k]);
}

/* ---- against transformers ---- */

static void ids_that_stay_are_those_of_transformers(void **state)
{
    FILE *f = fopen("tests/golden/kernels/warpers.txt", "re");
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    struct how h;
    char line[8192];
    int cases = 0;

    (void)state;
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f)); /* versions */
    printf("  %s", line);
    while (fscanf(f, "%f %d %f\n", &h.temperature, &h.top_k, &h.top_p) == 3) {
        float z[512], top = -INFINITY;
        double total = 0, before = 0;
        int id[512], n = 0, m = 0, used;
        uint32_t bits;

        assert_non_null(fgets(line, sizeof line, f));
        for (const char *p = line; sscanf(p, "%8x%n", &bits, &used) == 1; p += used)
            memcpy(&z[n++], &bits, sizeof bits);
        assert_non_null(fgets(line, sizeof line, f));
        for (const char *p = line; sscanf(p, "%d%n", &id[m], &used) == 1; p += used)
            m++;
        for (int i = 0; i < n; i++)
            top = z[i] > top ? z[i] : top;
        for (int i = 0; i < m; i++)
            total += exp((double)(z[id[i]] - top) / (double)h.temperature);
        /* both ends of the interval of every id that stays: one more or one fewer would
         * move all behind it */
        for (int i = 0; i < m; i++) {
            double share = exp((double)(z[id[i]] - top) / (double)h.temperature) / total;

            if (share > 1e-5) {
                assert_int_equal(one(ops, z, n, h, before + 2e-6), id[i]);
                assert_int_equal(one(ops, z, n, h, before + share - 2e-6), id[i]);
            }
            before += share;
        }
        cases++;
    }
    assert_int_equal(cases, 30);
    (void)fclose(f);
    kva_ops_close(ops);
}

/* ---- how often ---- */

static void frequencies_are_those_of_the_distribution(void **state)
{
    enum { N = 40, DRAWS = 200000 };
    static const struct how how[] = {{1, 1, 0}, {0.6f, 1, 0}, {1, 1, 10}, {1, 0.8f, 0}};
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    struct kva_rng r = {77};

    (void)state;
    for (int h = 0; h < COUNT(how); h++) {
        float *z = floats(&r, N);
        double p[N] = {0}, total = 0, chi = 0, sum = 0;
        int count[N] = {0}, order[N], kinds = 0, left = N;

        for (int i = 0; i < N; i++) {
            z[i] *= 2;
            order[i] = i;
        }
        for (int i = 0; i < N; i++) /* by falling logit */
            for (int j = i; j > 0 && z[order[j]] > z[order[j - 1]]; j--) {
                int t = order[j];

                order[j] = order[j - 1];
                order[j - 1] = t;
            }
        for (int i = 0; i < N; i++)
            total += exp((double)z[i] / (double)how[h].temperature);
        if (how[h].top_k > 0)
            left = how[h].top_k;
        for (int i = 0; i < left && sum < (double)how[h].top_p * total; i++) {
            p[order[i]] = exp((double)z[order[i]] / (double)how[h].temperature);
            sum += p[order[i]];
        }
        for (int i = 0; i < DRAWS; i++)
            count[one(ops, z, N, how[h], kva_rng_unit(&r))]++;
        for (int i = 0; i < N; i++) {
            double want = p[i] / sum * DRAWS;

            if (p[i] <= 0)
                assert_int_equal(count[i], 0);
            else {
                chi += (count[i] - want) * (count[i] - want) / want;
                kinds++;
            }
        }
        /* chi-square of kinds - 1 degrees: mean and six standard deviations */
        if (chi > kinds - 1 + 6 * sqrt(2.0 * (kinds - 1)))
            fail_msg("way %d: chi-square %g of %d ids", h, chi, kinds);
        free(z);
    }
    kva_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_draws),
        cmocka_unit_test(of_equal_logits_the_lowest_ids_stay),
        cmocka_unit_test(what_is_no_number_is_never_drawn),
        cmocka_unit_test(draws_are_those_of_the_plain_rule_in_every_numerics),
        cmocka_unit_test(ids_that_stay_are_those_of_transformers),
        cmocka_unit_test(frequencies_are_those_of_the_distribution),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
