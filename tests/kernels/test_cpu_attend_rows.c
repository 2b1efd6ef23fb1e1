/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_cpu_attend_rows.c - attention row by row: weights, logits and outputs. */
#include "cpu_help.h"

struct problem {
    struct kva_attend_rows r;
    float *q, *k, *v;
    int32_t *q_pos, *k_pos;
    size_t rows, outs;
    double *z, *w, *o; /* wanted */
};

static float *numbers(struct kva_rng *r, size_t n)
{
    float *x = calloc(n + 1, sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)(kva_rng_unit(r) * 2 - 1);
    return x;
}

/* Keys at even positions 0, 2, ..; queries end behind the last key; stride 3 dims. */
static struct problem make(struct kva_rng *rng, int nq, size_t n, int dim, int v_dim)
{
    struct problem p = {.q = numbers(rng, (size_t)nq * 3 * (size_t)dim),
                        .k = numbers(rng, n * (size_t)dim),
                        .v = numbers(rng, n * (size_t)v_dim),
                        .rows = (size_t)nq * n,
                        .outs = (size_t)nq * (size_t)v_dim};

    p.q_pos = calloc((size_t)nq, sizeof *p.q_pos);
    p.k_pos = calloc(n, sizeof *p.k_pos);
    for (int i = 0; i < nq; i++)
        p.q_pos[i] = (int32_t)(2 * n) - nq + i;
    for (size_t j = 0; j < n; j++)
        p.k_pos[j] = (int32_t)(2 * j);
    p.r = (struct kva_attend_rows){.q = p.q,
                                   .q_stride = 3 * (size_t)dim,
                                   .q_pos = p.q_pos,
                                   .nq = nq,
                                   .k = p.k,
                                   .k_pos = p.k_pos,
                                   .n = n,
                                   .dim = dim,
                                   .scale = 0.7f,
                                   .v = p.v,
                                   .v_dim = v_dim};
    p.z = calloc(p.rows, sizeof *p.z);
    p.w = calloc(p.rows, sizeof *p.w);
    p.o = calloc(p.outs, sizeof *p.o);
    for (int i = 0; i < nq; i++) {
        double sum = 0;

        for (size_t j = 0; j < n; j++) {
            size_t at = (size_t)i * n + j;

            if (p.k_pos[j] > p.q_pos[i])
                continue;
            for (int x = 0; x < dim; x++)
                p.z[at] += (double)p.q[(size_t)i * 3 * (size_t)dim + (size_t)x] *
                           (double)p.k[j * (size_t)dim + (size_t)x];
            p.z[at] *= (double)0.7f;
            p.w[at] = exp(p.z[at]);
            sum += p.w[at];
        }
        for (size_t j = 0; j < n && sum > 0; j++) {
            p.w[(size_t)i * n + j] /= sum;
            for (int x = 0; x < v_dim; x++)
                p.o[i * v_dim + x] +=
                    p.w[(size_t)i * n + j] * (double)p.v[j * (size_t)v_dim + (size_t)x];
        }
    }
    return p;
}

static void release(struct problem *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->q_pos);
    free(p->k_pos);
    free(p->z);
    free(p->w);
    free(p->o);
}

static void close_to(const float *got, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 4e-6 * (1 + fabs(want[i]))))
            fail_msg("number %zu is %.9g instead of %.9g", i, (double)got[i], want[i]);
}

static const int shapes[][4] = {{1, 1, 64, 64},   {3, 70, 64, 64}, {24, 32, 16, 16},
                                {25, 33, 13, 20}, {64, 200, 8, 5}, {40, 12, 32, 48},
                                {2, 31, 256, 256}};

static void rows_are_those_of_double_precision_in_every_instruction_set(void **state)
{
    const char *const *isas = kva_cpu_isas();
    struct kva_rng rng = {8};

    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct problem p =
            make(&rng, shapes[s][0], (size_t)shapes[s][1], shapes[s][2], shapes[s][3]);
        float *z = calloc(p.rows, 4), *w = calloc(p.rows, 4), *o = calloc(p.outs, 4);
        float *z0 = calloc(p.rows, 4), *w0 = calloc(p.rows, 4), *o0 = calloc(p.outs, 4);
        struct kva_ops *ref = open_ops("ref", NULL, 2);

        p.r.z = z;
        p.r.w = w;
        p.r.o = o;
        ref->attend_rows(ref, &p.r);
        close_to(z, p.z, p.rows);
        close_to(w, p.w, p.rows);
        close_to(o, p.o, p.outs);
        kva_ops_close(ref);
        for (int i = 0; isas[i]; i++)
            for (int threads = 1; threads <= 3; threads += 2) {
                struct kva_ops *ops = open_ops("f32", isas[i], threads);
                bool first = i == 0 && threads == 1;

                ops->attend_rows(ops, &p.r);
                close_to(z, p.z, p.rows);
                close_to(w, p.w, p.rows);
                close_to(o, p.o, p.outs);
                if (first) {
                    memcpy(z0, z, p.rows * 4);
                    memcpy(w0, w, p.rows * 4);
                    memcpy(o0, o, p.outs * 4);
                }
                assert_true(same_bits(z, z0, p.rows));
                assert_true(same_bits(w, w0, p.rows));
                assert_true(same_bits(o, o0, p.outs));
                kva_ops_close(ops);
            }
        free(z);
        free(w);
        free(o);
        free(z0);
        free(w0);
        free(o0);
        release(&p);
    }
}

/* Weights alone equal weights with everything, and logits alone see everything. */
static void what_is_not_wanted_changes_nothing(void **state)
{
    struct kva_rng rng = {9};
    struct problem p = make(&rng, 30, 75, 16, 16);
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    float *a = calloc(p.rows, 4), *b = calloc(p.rows, 4), *o = calloc(p.outs, 4);

    (void)state;
    p.r.w = a;
    ops->attend_rows(ops, &p.r);
    p.r.w = b;
    p.r.o = o;
    ops->attend_rows(ops, &p.r);
    assert_true(same_bits(a, b, p.rows));
    p.r.w = p.r.o = NULL;
    p.r.k_pos = p.r.q_pos = NULL;
    p.r.z = b;
    ops->attend_rows(ops, &p.r);
    for (size_t j = 0; j < 75; j++) {
        double want = 0;

        for (int x = 0; x < 16; x++)
            want += (double)p.q[x] * (double)p.k[j * 16 + (size_t)x];
        assert_true(fabs((double)b[j] - want * (double)0.7f) < 1e-5);
    }
    free(a);
    free(b);
    free(o);
    release(&p);
    kva_ops_close(ops);
}

/* The same rows as the window's mean is made of. */
static void one_row_is_the_mean_of_one_row(void **state)
{
    struct kva_rng rng = {10};
    struct problem p = make(&rng, 1, 100, 32, 32);
    const size_t off[] = {0, 100};
    const struct kva_rows keys = {p.k, off, 1, 32};
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    float w[100], m[100];

    (void)state;
    p.r.w = w;
    ops->attend_rows(ops, &p.r);
    ops->window_mean(ops, p.q, p.q_pos, 1, 1, &keys, p.k_pos, 0.7f, m, off);
    assert_true(same_bits(w, m, 100));
    release(&p);
    kva_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_double_precision_in_every_instruction_set),
        cmocka_unit_test(what_is_not_wanted_changes_nothing),
        cmocka_unit_test(one_row_is_the_mean_of_one_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
