/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_cpu_ops.c - exp, norms, RoPE, activations, logit statistics and the scorers' row
 * operations against double arithmetic; the same bits on every instruction set and thread
 * count. */
#include "tests/kernels/cpu_help.h"

#include <time.h>

static double ulps(float got, long double want)
{
    float w = (float)want;
    long double step =
        (long double)nextafterf(fabsf(w), INFINITY) - (long double)fabsf(w);

    return (double)fabsl(((long double)got - want) / step);
}

static void exp_is_within_two_ulp_over_its_range(void **state)
{
    double worst_ulps = 0;

    (void)state;
    for (int i = 0; i <= 2000000; i++) {
        float x = (float)(-87.0 + 175.0 * i / 2000000);
        double u = ulps(kva_expf(x), expl((long double)x));

        worst_ulps = u > worst_ulps ? u : worst_ulps;
    }
    for (int e = -20; e < 6; e++) /* close to 0 from both sides */
        for (int m = 0; m < 2000; m++) {
            float x = ldexpf(1.0f + (float)m / 2000, e);
            double a = ulps(kva_expf(x), expl((long double)x));
            double b = ulps(kva_expf(-x), expl(-(long double)x));

            worst_ulps = fmax(worst_ulps, fmax(a, b));
        }
    printf("  exp: %.3f ulp at most\n", worst_ulps);
    assert_true(worst_ulps <= 2.0);
}

static void exp_at_its_ends(void **state)
{
    (void)state;
    assert_true(kva_expf(0.0f) == 1.0f);
    assert_true(kva_expf(-0.0f) == 1.0f);
    assert_true(kva_expf(-INFINITY) == 0.0f);
    assert_true(kva_expf(-104.0f) == 0.0f);
    assert_true(kva_expf(-1e30f) == 0.0f);
    assert_true(kva_expf(INFINITY) == INFINITY);
    assert_true(kva_expf(88.72f) < INFINITY);
    assert_true(kva_expf(88.73f) == INFINITY);
    assert_true(kva_expf(1e30f) == INFINITY);
    assert_true(isnan(kva_expf(NAN)));
    /* the subnormal tail is correctly scaled, once rounded */
    assert_true(fabs((double)kva_expf(-100.0f) / exp(-100.0) - 1) < 0.02);
}

static void silu_is_exact_to_rounding_and_the_same_everywhere(void **state)
{
    const char *const *isas = kva_cpu_isas();
    enum { N = 40003 };
    float *gate = calloc(N, 4), *up = calloc(N, 4), *y = calloc(N, 4),
          *first = calloc(N, 4);
    struct kva_rng r = {1};
    struct kva_ops *ref = open_ops("ref", NULL, 1);

    (void)state;
    for (int i = 0; i < N; i++) {
        gate[i] = -100.0f + 200.0f * (float)i / N;
        up[i] = ordinary(&r);
    }
    for (int i = 0; isas[i]; i++)
        for (int threads = 1; threads <= 3; threads++) {
            struct kva_ops *ops = open_ops("f32", isas[i], threads);

            memset(y, 0, N * sizeof *y);
            ops->silu_mul(ops, gate, up, N - 1, y);
            assert_true(y[N - 1] == 0.0f);
            if (i == 0 && threads == 1)
                memcpy(first, y, N * sizeof *y);
            assert_true(same_bits(y, first, N));
            memcpy(y, gate, N * sizeof *y);
            ops->silu_mul(ops, y, up, N - 1, y); /* in place */
            assert_true(same_bits(y, first, N - 1));
            kva_ops_close(ops);
        }
    for (int i = 0; i < N - 1; i++) {
        double want = (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i];

        if (fabs(want) > 1e-30)
            assert_true(fabs((double)first[i] / want - 1) < 5e-7);
        /* the kernel's exp is the public one */
        assert_true(first[i] == gate[i] / (1.0f + kva_expf(-gate[i])) * up[i]);
    }
    ref->silu_mul(ref, gate, up, N - 1, y);
    for (int i = 0; i < N - 1; i++)
        assert_true(y[i] == (float)((double)gate[i] / (1 + exp(-(double)gate[i])) *
                                    (double)up[i]));
    kva_ops_close(ref);
    free(gate);
    free(up);
    free(y);
    free(first);
}

static void rmsnorm_divides_by_the_root_mean_square(void **state)
{
    const char *const *isas = kva_cpu_isas();
    const int dims[] = {1, 7, 15, 16, 17, 64, 576, 1000};
    struct kva_rng r = {2};

    (void)state;
    for (int d = 0; d < COUNT(dims); d++) {
        int dim = dims[d];
        size_t n = (size_t)3 * dim;
        float *x = floats(&r, n), *w = floats(&r, (size_t)dim), *y = calloc(n, 4);
        float *want = calloc(n, 4), *first = calloc(n, 4);
        struct kva_ops *ref = open_ops("ref", NULL, 1);

        for (int row = 0; row < 3; row++) {
            double s = 0;

            for (int i = 0; i < dim; i++)
                s += (double)x[row * dim + i] * (double)x[row * dim + i];
            for (int i = 0; i < dim; i++)
                want[row * dim + i] =
                    (float)((double)x[row * dim + i] / sqrt(s / dim + (double)1e-5f) *
                            (double)w[i]);
        }
        ref->rmsnorm(ref, x, w, 1e-5f, 3, dim, y);
        assert_true(worst(y, want, n) < 1.3e-7);
        kva_ops_close(ref);
        for (int i = 0; isas[i]; i++) {
            struct kva_ops *ops = open_ops("f32", isas[i], 1);

            ops->rmsnorm(ops, x, w, 1e-5f, 3, dim, y);
            assert_true(worst(y, want, n) < 6e-7);
            if (i == 0)
                memcpy(first, y, n * 4);
            assert_true(same_bits(y, first, n));
            memcpy(y, x, n * 4);
            ops->rmsnorm(ops, y, w, 1e-5f, 3, dim, y);
            assert_true(same_bits(y, first, n));
            ops->rmsnorm(ops, x + dim, w, 1e-5f, 1, dim, y); /* a row alone */
            assert_true(same_bits(y, first + dim, (size_t)dim));
            kva_ops_close(ops);
        }
        free(x);
        free(w);
        free(y);
        free(want);
        free(first);
    }
}

/* models.md 4.2, hd = 8, theta = 10000, x = (1,0,0,0,0,1,0,0), half-split */
static void rope_turns_the_worked_vector(void **state)
{
    const double p1[] = {0.540302, -0.099833, 0, 0, 0.841471, 0.995004, 0, 0};
    const double p2[] = {-0.416147, -0.198669, 0, 0, 0.909297, 0.980067, 0, 0};
    const char *const numerics[] = {"ref", "f32"};
    const int32_t pos[] = {1, 2};
    float inv[4], table[2 * 8];

    (void)state;
    for (int i = 0; i < 4; i++)
        inv[i] = (float)pow(10000, -2.0 * i / 8);
    for (int n = 0; n < 2; n++) {
        struct kva_ops *ops = open_ops(numerics[n], NULL, 1);
        float x[2][2][8] = {{{1, 0, 0, 0, 0, 1, 0, 0}, {1, 0, 0, 0, 0, 1, 0, 0}},
                            {{1, 0, 0, 0, 0, 1, 0, 0}, {1, 0, 0, 0, 0, 1, 0, 0}}};

        ops->rope_table(ops, pos, 2, inv, 4, 1.0f, table);
        ops->rope(ops, &x[0][0][0], 16, 2, 2, 8, table, 4);
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 8; i++) {
                assert_true(fabs((double)x[0][h][i] - p1[i]) < 1e-6);
                assert_true(fabs((double)x[1][h][i] - p2[i]) < 1e-6);
            }
        kva_ops_close(ops);
    }
}

static void rope_rounds_each_product_and_leaves_the_rest_alone(void **state)
{
    struct kva_rng r = {3};
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    enum { ROWS = 5, HEADS = 3, DIM = 20, HALF = 7, STRIDE = 66 };
    float *x = floats(&r, ROWS * STRIDE), y[ROWS * STRIDE], inv[HALF],
          cs[ROWS * 2 * HALF];
    const int32_t pos[ROWS] = {0, 1, 100, 8191, 131072};

    (void)state;
    memcpy(y, x, sizeof y);
    for (int i = 0; i < HALF; i++)
        inv[i] = powf(1e5f, -(float)i / HALF);
    ops->rope_table(ops, pos, ROWS, inv, HALF, 1.25f, cs);
    ops->rope(ops, x, STRIDE, ROWS, HEADS, DIM, cs, HALF);
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < STRIDE; c++) {
            int h = c / DIM, d = c % DIM;
            float *o = y + row * STRIDE + h * DIM;
            double a = (double)pos[row] * (double)inv[d % HALF];
            float cosine = (float)(1.25 * cos(a)), sine = (float)(1.25 * sin(a));
            volatile float p, q;

            if (h >= HEADS || d >= 2 * HALF) {
                assert_true(x[row * STRIDE + c] == y[row * STRIDE + c]);
            } else if (d < HALF) {
                p = o[d] * cosine;
                q = o[d + HALF] * sine;
                assert_true(x[row * STRIDE + c] == p - q);
            } else {
                p = o[d - HALF] * sine;
                q = o[d] * cosine;
                assert_true(x[row * STRIDE + c] == p + q);
            }
        }
    kva_ops_close(ops);
    free(x);
}

static void add_adds(void **state)
{
    const char *const *isas = kva_cpu_isas();
    struct kva_rng r = {4};
    float *x = floats(&r, 37), *y = floats(&r, 37), z[37];

    (void)state;
    for (int i = 0; isas[i]; i++) {
        struct kva_ops *ops = open_ops("f32", isas[i], 1);

        memcpy(z, x, sizeof z);
        ops->add(ops, z, y, 36);
        for (int k = 0; k < 36; k++)
            assert_true(z[k] == x[k] + y[k]);
        assert_true(z[36] == x[36]);
        kva_ops_close(ops);
    }
    free(x);
    free(y);
}

static void logits_are_summed_up(void **state)
{
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    float l[] = {1.0f, 3.0f, -2.0f, 3.0f, 0.5f};
    int32_t arg = -1;
    double nll = -1, lse = log(exp(1.0) + 2 * exp(3.0) + exp(-2.0) + exp(0.5));
    bool finite = false;

    (void)state;
    ops->logits_stats(ops, l, 5, 1, (int32_t[]){0}, &arg, &nll, &finite);
    assert_int_equal(arg, 1); /* the lower of two equal ids */
    assert_true(finite);
    assert_true(fabs(nll - (lse - 1.0)) < 1e-14);
    nll = -1;
    ops->logits_stats(ops, l, 5, 1, (int32_t[]){-1}, &arg, &nll, &finite);
    assert_true(nll == -1);
    l[1] = NAN; /* orders as -inf */
    ops->logits_stats(ops, l, 5, 1, (int32_t[]){-1}, &arg, &nll, &finite);
    assert_int_equal(arg, 3);
    assert_false(finite);
    l[1] = -INFINITY;
    ops->logits_stats(ops, l, 5, 1, (int32_t[]){-1}, &arg, &nll, &finite);
    assert_int_equal(arg, 3);
    assert_false(finite);
    for (int i = 0; i < 5; i++)
        l[i] = 3e38f; /* large, finite: no sum may overflow */
    ops->logits_stats(ops, l, 5, 1, (int32_t[]){2}, &arg, &nll, &finite);
    assert_true(finite);
    assert_int_equal(arg, 0);
    assert_true(fabs(nll - log(5.0)) < 1e-12);
    kva_ops_close(ops);
}

/* ---- scorers
 * --------------------------------------------------------------------------------- */

struct ragged {
    size_t off[4], n;
    struct kva_rows rows;
    float *data;
};

static void ragged_make(struct ragged *g, struct kva_rng *r, int dim, int a, int b, int c)
{
    g->off[0] = 0;
    g->off[1] = (size_t)a;
    g->off[2] = g->off[1] + (size_t)b;
    g->off[3] = g->off[2] + (size_t)c;
    g->n = g->off[3];
    g->data = floats(r, g->n * (size_t)dim);
    g->rows = (struct kva_rows){g->data, g->off, 3, dim};
}

static double norm_of(const float *x, const float *c, int dim)
{
    double s = 0;

    for (int i = 0; i < dim; i++) {
        double d = (double)x[i] - (c ? (double)c[i] : 0.0);

        s += d * d;
    }
    return sqrt(s);
}

/* all row operations one after another into out */
static size_t row_operations(struct kva_ops *ops, const struct ragged *g, const float *c,
                             float *out)
{
    size_t n = g->n, m = 3 * (size_t)g->rows.dim;

    ops->row_norm(ops, &g->rows, out);
    ops->row_distance(ops, &g->rows, c, out + n);
    ops->row_cosine(ops, &g->rows, c, out + 2 * n);
    ops->row_mean(ops, &g->rows, 0, out + 3 * n);
    ops->row_mean(ops, &g->rows, 1, out + 3 * n + m);
    ops->row_abs(ops, &g->rows, out + 3 * n + 2 * m);
    return 4 * n + 2 * m;
}

static void naive_rows(const struct ragged *g, const float *c, float *out)
{
    int dim = g->rows.dim;
    size_t n = g->n;
    float *mean = out + 3 * n, *unit = mean + (size_t)3 * dim;
    float *absolute = unit + (size_t)3 * dim;

    for (int h = 0; h < 3; h++) {
        const float *ch = c + h * dim;
        double cn = norm_of(ch, NULL, dim);

        for (size_t j = g->off[h]; j < g->off[h + 1]; j++) {
            const float *x = g->data + j * (size_t)dim;
            double dot = 0, xn = norm_of(x, NULL, dim), sum = 0;

            for (int i = 0; i < dim; i++)
                dot += (double)x[i] * (double)ch[i];
            out[j] = (float)xn;
            for (int i = 0; i < dim; i++)
                sum += fabs((double)x[i]);
            absolute[j] = (float)sum;
            out[n + j] = (float)norm_of(x, ch, dim);
            out[2 * n + j] = xn > 0 && cn > 0 ? (float)(dot / xn / cn) : 0.0f;
        }
        for (int i = 0; i < dim; i++) {
            double a = 0, b = 0;
            size_t count = g->off[h + 1] - g->off[h];

            for (size_t j = g->off[h]; j < g->off[h + 1]; j++) {
                const float *x = g->data + j * (size_t)dim;
                double xn = norm_of(x, NULL, dim);

                a += (double)x[i];
                b += xn > 0 ? (double)x[i] / xn : 0.0;
            }
            mean[h * dim + i] = count ? (float)(a / (double)count) : 0.0f;
            unit[h * dim + i] = count ? (float)(b / (double)count) : 0.0f;
        }
    }
}

static void row_operations_match_double_and_agree_everywhere(void **state)
{
    const char *const *isas = kva_cpu_isas();
    const int dims[] = {1, 13, 16, 64, 100};
    struct kva_rng r = {5};

    (void)state;
    for (int d = 0; d < COUNT(dims); d++) {
        struct ragged g;
        struct kva_ops *ref = open_ops("ref", NULL, 1);
        size_t room, n;
        float *c = floats(&r, (size_t)3 * dims[d]), *want, *out, *first;

        ragged_make(&g, &r, dims[d], 1500, 0, 33);
        memset(g.data + (size_t)5 * dims[d], 0, (size_t)dims[d] * 4); /* a zero row */
        memset(c + 2 * dims[d], 0, (size_t)dims[d] * 4);              /* a zero centre */
        room = 4 * g.n + (size_t)6 * dims[d];
        want = calloc(room, 4);
        out = calloc(room, 4);
        first = calloc(room, 4);
        naive_rows(&g, c, want);
        n = row_operations(ref, &g, c, out);
        assert_int_equal(n, room);
        assert_true(worst(out, want, n) < 1.3e-7);
        assert_true(out[2 * g.n + 5] == 0.0f);
        assert_true(out[2 * g.n + 1500] == 0.0f);
        for (int i = 0; isas[i]; i++)
            for (int threads = 1; threads <= 3; threads++) {
                struct kva_ops *ops = open_ops("f32", isas[i], threads);

                row_operations(ops, &g, c, out);
                if (i == 0 && threads == 1)
                    memcpy(first, out, room * 4);
                assert_true(same_bits(out, first, n));
                assert_true(worst(out, want, n) < 1e-6);
                assert_true(out[2 * g.n + 5] == 0.0f);
                assert_true(out[2 * g.n + 1500] == 0.0f);
                kva_ops_close(ops);
            }
        kva_ops_close(ref);
        free(g.data);
        free(c);
        free(want);
        free(out);
        free(first);
    }
}

/* style.md 6: one head of dimension 2, distances from the mean */
static void the_worked_distances_come_out(void **state)
{
    float data[] = {0, 0, 3, 0, 0, 4, 1, 0}, mean[2], s[4];
    const double want[] = {1.41421, 2.23607, 3.16228, 1};
    const size_t off[] = {0, 4};
    const struct kva_rows rows = {data, off, 1, 2};
    struct kva_ops *ops = open_ops("f32", NULL, 1);

    (void)state;
    ops->row_mean(ops, &rows, 0, mean);
    assert_true(mean[0] == 1.0f && mean[1] == 1.0f);
    ops->row_distance(ops, &rows, mean, s);
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)s[i] - want[i]) < 1e-5);
    kva_ops_close(ops);
}

struct window {
    struct ragged keys;
    int nq, heads, dim;
    float *q;
    int32_t *q_pos, *k_pos;
    size_t a_off[9], out_n;
};

static void window_make(struct window *w, struct kva_rng *r, int nq, int group, int dim,
                        int a, int b, int c)
{
    w->nq = nq;
    w->heads = 3 * group;
    w->dim = dim;
    ragged_make(&w->keys, r, dim, a, b, c);
    w->q = floats(r, (size_t)nq * w->heads * dim);
    for (int i = 0; i < nq * w->heads * dim; i++)
        w->q[i] *= 4;
    w->q_pos = calloc((size_t)nq, 4);
    w->k_pos = calloc(w->keys.n + 1, 4);
    for (int i = 0; i < nq; i++)
        w->q_pos[i] = a - nq + i;
    for (int h = 0; h < 3; h++)
        for (size_t j = w->keys.off[h]; j < w->keys.off[h + 1]; j++)
            w->k_pos[j] = (int32_t)(j - w->keys.off[h]);
    w->out_n = 0;
    for (int i = 0; i < w->heads; i++) {
        w->a_off[i] = w->out_n;
        w->out_n += w->keys.off[i / group + 1] - w->keys.off[i / group];
    }
}

static void window_free(struct window *w)
{
    free(w->keys.data);
    free(w->q);
    free(w->q_pos);
    free(w->k_pos);
}

static void naive_window(const struct window *w, float scale, float *out)
{
    for (int a = 0; a < w->heads; a++) {
        int h = a / (w->heads / 3);
        size_t first = w->keys.off[h], n = w->keys.off[h + 1] - first;
        double *p = calloc(n + 1, sizeof *p), *mean = calloc(n + 1, sizeof *mean);

        for (int i = 0; i < w->nq; i++) {
            double sum = 0;

            for (size_t j = 0; j < n; j++) {
                double s = 0;

                for (int d = 0; d < w->dim; d++)
                    s += (double)w->q[(i * w->heads + a) * w->dim + d] *
                         (double)w->keys.data[(first + j) * (size_t)w->dim + (size_t)d];
                p[j] = w->k_pos[first + j] <= w->q_pos[i] ? exp(s * (double)scale) : 0;
                sum += p[j];
            }
            for (size_t j = 0; j < n && sum > 0; j++)
                mean[j] += p[j] / sum / w->nq;
        }
        for (size_t j = 0; j < n; j++)
            out[w->a_off[a] + j] = (float)mean[j];
        free(p);
        free(mean);
    }
}

/* The largest over rows of by[i] times the weight. */
static void naive_largest(struct window *w, float scale, const float *by, float *out)
{
    struct window one = *w;
    float *row = calloc(w->out_n + 1, sizeof *row);

    memset(out, 0, w->out_n * sizeof *out);
    one.nq = 1;
    for (int i = 0; i < w->nq; i++) {
        one.q = w->q + (size_t)i * (size_t)(w->heads * w->dim);
        one.q_pos = w->q_pos + i;
        naive_window(&one, scale, row);
        for (size_t j = 0; j < w->out_n; j++)
            out[j] = row[j] * by[i] > out[j] ? row[j] * by[i] : out[j];
    }
    free(row);
}

static void the_largest_weight_of_a_window_is_found(void **state)
{
    const char *const *isas = kva_cpu_isas();
    const int shapes[][6] = {
        {1, 1, 64, 1, 5, 32},
        {16, 3, 64, 300, 33, 20},
        {30, 2, 13, 77, 64, 1},
        {5, 1, 1, 40, 40, 40},
        {1000, 1, 1024, 40, 0, 40}}; /* more than one scratch holds */
    struct kva_rng r = {16};

    (void)state;
    for (int k = 0; k < COUNT(shapes); k++) {
        struct window w;
        const int *s = shapes[k];
        float scale = 1 / sqrtf((float)s[2]), by[1000];
        float *out, *first, *want;

        window_make(&w, &r, s[0], s[1], s[2], s[3], s[4], s[5]);
        for (int i = 0; i < w.nq && w.nq > s[3]; i++)
            w.q_pos[i] = i % s[3];
        for (int i = 0; i < w.nq; i++)
            by[i] = 0.25f + (float)(i % 5);
        want = calloc(w.out_n, 4);
        out = calloc(w.out_n, 4);
        first = calloc(w.out_n, 4);
        naive_largest(&w, scale, by, want);
        for (int i = -1; i < 0 || isas[i]; i++) {
            struct kva_ops *ops =
                i < 0 ? open_ops("ref", NULL, 2) : open_ops("f32", isas[i], 1 + i);

            ops->window_max(ops, w.q, w.q_pos, w.nq, w.heads, &w.keys.rows, w.k_pos,
                            scale, by, out, w.a_off);
            if (i == 0)
                memcpy(first, out, w.out_n * 4);
            assert_true(i < 0 || same_bits(out, first, w.out_n));
            for (size_t j = 0; j < w.out_n; j++)
                assert_true(fabs((double)out[j] - (double)want[j]) <=
                            (s[2] > 100 ? 1e-4 : 2e-6) * (double)want[j] + 1e-12);
            kva_ops_close(ops);
        }
        free(want);
        free(out);
        free(first);
        window_free(&w);
    }
}

static void moments_are_the_same_bits_however_rows_are_cut(void **state)
{
    enum { ROWS = 150, N_HEADS = 3 };
    const int dims[] = {1, 13, 64};
    const char *const *isas = kva_cpu_isas();
    struct kva_rng r = {17};

    (void)state;
    for (int k = 0; k < 3; k++) {
        const int d = dims[k], width = N_HEADS * d + 2;
        size_t n2 = (size_t)(N_HEADS * d * d);
        float *x = calloc((size_t)(ROWS * width), sizeof *x);
        double *want = calloc(n2, sizeof *want);

        for (int i = 0; i < ROWS * width; i++)
            x[i] = (float)(kva_rng_unit(&r) * 4 - 1);
        for (int i = 0; i < ROWS; i++)
            for (int h = 0; h < N_HEADS; h++)
                for (int a = 0; a < d; a++)
                    for (int b = 0; b <= a; b++)
                        want[(h * d + a) * d + b] += (double)x[i * width + h * d + a] *
                                                     (double)x[i * width + h * d + b];
        for (int i = -1; i < 0 || isas[i]; i++)
            for (int cut = 1; cut <= ROWS; cut += 71) {
                struct kva_ops *ops =
                    i < 0 ? open_ops("ref", NULL, 1) : open_ops("f32", isas[i], 2);
                double *square = calloc(n2, sizeof *square);
                double sum[N_HEADS * 64] = {0}, all = 0;

                for (int at = 0; at < ROWS; at += cut)
                    ops->row_moments(ops, x + at * width, width,
                                     ROWS - at < cut ? ROWS - at : cut, N_HEADS, d, sum,
                                     square);
                for (int h = 0; h < N_HEADS; h++)
                    for (int a = 0; a < d; a++)
                        assert_memory_equal(square + (h * d + a) * d,
                                            want + (h * d + a) * d,
                                            (size_t)(a + 1) * sizeof *square);
                for (int j = 0; j < ROWS; j++)
                    all += (double)x[j * width + (N_HEADS - 1) * d];
                assert_true(memcmp(&sum[(N_HEADS - 1) * d], &all, sizeof all) == 0);
                free(square);
                kva_ops_close(ops);
            }
        free(x);
        free(want);
    }
}

static void a_window_spreads_its_attention_over_what_it_sees(void **state)
{
    const char *const *isas = kva_cpu_isas();
    const int shapes[][6] = {{1, 1, 64, 1, 5, 32},   {16, 3, 64, 300, 33, 20},
                             {64, 3, 64, 130, 0, 7}, {30, 2, 13, 77, 64, 1},
                             {5, 1, 1, 40, 40, 40},  {600, 1, 1024, 700, 2, 3}};
    struct kva_rng r = {6};

    (void)state;
    for (int k = 0; k < COUNT(shapes); k++) {
        const int *s = shapes[k];
        struct window w;
        float *want, *out, *first, scale = 1.0f / sqrtf((float)s[2]);

        window_make(&w, &r, s[0], s[1], s[2], s[3], s[4], s[5]);
        want = calloc(w.out_n, 4);
        out = calloc(w.out_n, 4);
        first = calloc(w.out_n, 4);
        if (k < 5) {
            struct kva_ops *ref = open_ops("ref", NULL, 2);

            naive_window(&w, scale, want);
            ref->window_mean(ref, w.q, w.q_pos, w.nq, w.heads, &w.keys.rows, w.k_pos,
                             scale, out, w.a_off);
            assert_true(worst(out, want, w.out_n) < 1e-7);
            kva_ops_close(ref);
        }
        for (int i = 0; isas[i]; i++)
            for (int threads = 1; threads <= 3; threads += k < 5 ? 1 : 3) {
                struct kva_ops *ops = open_ops("f32", isas[i], threads);

                ops->window_mean(ops, w.q, w.q_pos, w.nq, w.heads, &w.keys.rows, w.k_pos,
                                 scale, out, w.a_off);
                if (i == 0 && threads == 1)
                    memcpy(first, out, w.out_n * 4);
                assert_true(same_bits(out, first, w.out_n));
                if (k < 5) {
                    for (size_t j = 0; j < w.out_n; j++)
                        assert_true(fabs((double)out[j] - (double)want[j]) <
                                    2e-6 * (double)want[j] + 1e-12);
                } else {
                    /* more queries than one scratch holds: shares still sum to one */
                    double sum = 0;

                    for (size_t j = 0; j < 700; j++)
                        sum += (double)out[j];
                    assert_true(fabs(sum - 1) < 1e-5);
                }
                kva_ops_close(ops);
            }
        free(want);
        free(out);
        free(first);
        window_free(&w);
    }
}

/* Weights of nq rows from row u on, all query heads: row i of head a at
 * w + nq * a_off[a] + i * n. */
static void rows_of(struct kva_ops *ops, const struct window *w, int u, int nq,
                    float *rows)
{
    for (int a = 0; a < 9; a++) {
        struct kva_attend_rows r = {
            .q = w->q + ((size_t)u * 9 + (size_t)a) * 64,
            .q_stride = 9 * 64,
            .q_pos = w->q_pos + u,
            .nq = nq,
            .k = w->keys.rows.data + w->keys.off[a / 3] * 64,
            .k_pos = w->k_pos + w->keys.off[a / 3],
            .n = w->keys.off[a / 3 + 1] - w->keys.off[a / 3],
            .dim = 64,
            .scale = 0.125f,
            .w = rows + (size_t)nq * w->a_off[a],
        };

        ops->attend_rows(ops, &r);
    }
}

/* The rows of a window against its mean, and one after another against all at once. */
static void the_rows_of_a_window_average_to_its_mean(void **state)
{
    const char *const *isas = kva_cpu_isas();
    struct kva_rng r = {16};
    struct window w;
    float *mean, *rows, *first, *one;

    (void)state;
    window_make(&w, &r, 20, 3, 64, 130, 33, 7);
    mean = calloc(w.out_n, 4);
    one = calloc(w.out_n, 4);
    rows = calloc(w.out_n * 20, 4);
    first = calloc(w.out_n * 20, 4);
    for (int i = -1; i < 0 || isas[i]; i++) {
        struct kva_ops *ops = open_ops(i < 0 ? "ref" : "f32", i < 0 ? NULL : isas[i], 2);

        ops->window_mean(ops, w.q, w.q_pos, 20, 9, &w.keys.rows, w.k_pos, 0.125f, mean,
                         w.a_off);
        rows_of(ops, &w, 0, 20, rows);
        for (int a = 0; a < 9; a++) {
            size_t n = w.keys.off[a / 3 + 1] - w.keys.off[a / 3];

            for (size_t j = 0; j < n; j++) {
                double sum = 0;

                for (size_t u = 0; u < 20; u++)
                    sum += (double)rows[20 * w.a_off[a] + u * n + j];
                assert_true(fabs(sum / 20 - (double)mean[w.a_off[a] + j]) < 1e-6);
            }
        }
        if (i <= 0)
            memcpy(first, rows, w.out_n * 80);
        assert_true(same_bits(rows, first, w.out_n * 20));
        for (int u = 0; u < 20; u++) { /* a row does not depend on the others */
            rows_of(ops, &w, u, 1, one);
            for (int a = 0; a < 9; a++) {
                size_t n = w.keys.off[a / 3 + 1] - w.keys.off[a / 3];

                assert_true(same_bits(one + w.a_off[a],
                                      rows + 20 * w.a_off[a] + (size_t)u * n, n));
            }
        }
        kva_ops_close(ops);
    }
    free(mean);
    free(one);
    free(rows);
    free(first);
    window_free(&w);
}

static void marks_tell_the_time_between_them(void **state)
{
    const struct timespec nap = {0, 2000000};
    struct kva_ops *ops = open_ops("ref", NULL, 1);

    (void)state;
    ops->mark(ops, 0);
    nanosleep(&nap, NULL);
    ops->mark(ops, KVA_MARKS - 1);
    ops->mark(ops, 1);
    assert_true(ops->between(ops, 0, KVA_MARKS - 1) >= 2000000);
    assert_true(ops->between(ops, KVA_MARKS - 1, 1) >= 0);
    assert_int_equal(ops->between(ops, 0, 1), ops->between(ops, 0, KVA_MARKS - 1) +
                                                  ops->between(ops, KVA_MARKS - 1, 1));
    assert_null(ops->device);
    kva_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulp_over_its_range),
        cmocka_unit_test(exp_at_its_ends),
        cmocka_unit_test(silu_is_exact_to_rounding_and_the_same_everywhere),
        cmocka_unit_test(rmsnorm_divides_by_the_root_mean_square),
        cmocka_unit_test(rope_turns_the_worked_vector),
        cmocka_unit_test(rope_rounds_each_product_and_leaves_the_rest_alone),
        cmocka_unit_test(add_adds),
        cmocka_unit_test(logits_are_summed_up),
        cmocka_unit_test(row_operations_match_double_and_agree_everywhere),
        cmocka_unit_test(the_worked_distances_come_out),
        cmocka_unit_test(a_window_spreads_its_attention_over_what_it_sees),
        cmocka_unit_test(the_rows_of_a_window_average_to_its_mean),
        cmocka_unit_test(the_largest_weight_of_a_window_is_found),
        cmocka_unit_test(moments_are_the_same_bits_however_rows_are_cut),
        cmocka_unit_test(marks_tell_the_time_between_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
