/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_cpu_product.c - products and embedding for every weight type and instruction set.
 * The f32 tier is checked to the bit against its definition: one float accumulator per
 * output from +0, inputs ascending, fused. */
#include "tests/kernels/cpu_help.h"

static const enum kva_type types[] = {KVA_F32,  KVA_F16,  KVA_BF16, KVA_Q4_0,
                                      KVA_Q4_1, KVA_Q5_0, KVA_Q5_1, KVA_Q8_0,
                                      KVA_Q4_K, KVA_Q5_K, KVA_Q6_K};

struct matrix {
    uint8_t *data;
    float *w; /* dequantised, data order */
    enum kva_type type;
    int out, in;
};

static void matrix_make(struct matrix *m, struct kva_rng *r, enum kva_type type, int out,
                        int in)
{
    m->type = type;
    m->out = out;
    m->in = in;
    m->data = blocks(r, type, (size_t)out * in);
    m->w = calloc((size_t)out * in, sizeof *m->w);
    kva_dequant(type, m->data, (size_t)out * in, m->w);
}

static void matrix_free(struct matrix *m)
{
    free(m->data);
    free(m->w);
}

static struct kva_weight *weight_of(struct kva_ops *ops, const struct matrix *m,
                                    const int32_t *row_of)
{
    struct kva_weight *w = NULL;
    struct kva_error err = {0};

    if (ops->weight_new(ops, m->type, m->data, m->out, m->in, row_of, &w, &err) != KVA_OK)
        fail_msg("%s", err.text);
    return w;
}

/* the definition of the tier; rows of y are `stride` apart, what lies between stays */
static void defined(const struct matrix *m, const float *x, int rows, float *y,
                    int stride)
{
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < m->out; o++) {
            float acc = 0.0f;

            for (int i = 0; i < m->in; i++)
                acc = fmaf(x[(size_t)r * m->in + i], m->w[(size_t)o * m->in + i], acc);
            y[(size_t)r * stride + o] = acc;
        }
}

static void check(struct kva_rng *r, enum kva_type type, int out, int in, int rows,
                  int threads)
{
    const char *const *isas = kva_cpu_isas();
    int stride = out + 3;
    size_t n = (size_t)rows * stride;
    float *x = floats(r, (size_t)rows * in), *want = floats(r, n),
          *y = calloc(n, sizeof *y);
    struct matrix m;

    matrix_make(&m, r, type, out, in);
    for (int i = 0; isas[i]; i++) {
        struct kva_ops *ops = open_ops("f32", isas[i], threads);
        struct kva_weight *w = weight_of(ops, &m, NULL);

        memcpy(y, want, n * sizeof *y);
        if (i == 0)
            defined(&m, x, rows, want, stride);
        ops->matmul(ops, w, x, rows, y, stride);
        if (!same_bits(y, want, n))
            fail_msg("%s %s %dx%d, %d rows, %d threads", isas[i], kva_type_name(type),
                     out, in, rows, threads);
        ops->weight_free(ops, w);
        kva_ops_close(ops);
    }
    free(x);
    free(want);
    free(y);
    matrix_free(&m);
}

static void every_type_gives_the_defined_bits_on_every_instruction_set(void **state)
{
    const int rows[] = {1, 2, 3, 4, 5, 13};
    struct kva_rng r = {1};

    (void)state;
    for (int t = 0; t < COUNT(types); t++)
        for (int n = 0; n < COUNT(rows); n++)
            check(&r, types[t], 100, 768, rows[n], 1);
}

static void awkward_shapes_give_the_defined_bits(void **state)
{
    const int rows[] = {1, 2, 5, 6, 7, 12, 13, 64, 255}, outs[] = {1, 15, 16, 17, 65},
              ins[] = {32, 64, 576};
    struct kva_rng r = {2};

    (void)state;
    for (int a = 0; a < COUNT(rows); a++)
        for (int b = 0; b < COUNT(outs); b++)
            for (int c = 0; c < COUNT(ins); c++)
                check(&r, (a + b + c) % 2 ? KVA_Q4_1 : KVA_Q8_0, outs[b], ins[c], rows[a],
                      1 + (a + b) % 3);
    check(&r, KVA_Q4_1, 960, 576, 24, 2);
    check(&r, KVA_F32, 33, 37, 9, 1);
    check(&r, KVA_F16, 5, 1, 9, 1);
    check(&r, KVA_BF16, 31, 2049, 3, 2);
    check(&r, KVA_Q4_0, 40, 4096, 6, 3);
}

static void ref_is_the_double_sum(void **state)
{
    struct kva_rng r = {3};

    (void)state;
    for (int t = 0; t < COUNT(types); t++) {
        struct kva_ops *ops = open_ops("ref", NULL, 1 + t % 3);
        struct matrix m;
        int out = 21, in = 1280, rows = 35;
        float *x = floats(&r, (size_t)rows * in),
              *y = calloc((size_t)rows * out, sizeof *y);
        struct kva_weight *w;

        matrix_make(&m, &r, types[t], out, in);
        w = weight_of(ops, &m, NULL);
        ops->matmul(ops, w, x, rows, y, out);
        for (int i = 0; i < rows; i++)
            for (int o = 0; o < out; o++) {
                double acc = 0;

                for (int k = 0; k < in; k++)
                    acc += (double)x[i * in + k] * (double)m.w[o * in + k];
                assert_true(y[i * out + o] == (float)acc);
            }
        ops->weight_free(ops, w);
        kva_ops_close(ops);
        matrix_free(&m);
        free(x);
        free(y);
    }
}

static void f32_stays_within_its_bound_of_ref(void **state)
{
    struct kva_rng r = {4};
    struct kva_ops *ref = open_ops("ref", NULL, 1), *f32 = open_ops("f32", NULL, 1);
    struct matrix m;
    struct kva_weight *a, *b;
    float *x = floats(&r, 8 * 1536), *y = calloc(8 * 64, 4), *z = calloc(8 * 64, 4);

    (void)state;
    matrix_make(&m, &r, KVA_Q4_1, 64, 1536);
    a = weight_of(ref, &m, NULL);
    b = weight_of(f32, &m, NULL);
    ref->matmul(ref, a, x, 8, y, 64);
    f32->matmul(f32, b, x, 8, z, 64);
    assert_true(worst(z, y, 8 * 64) < 1e-5);
    assert_false(memcmp(y, z, 8 * 64 * 4) == 0);
    ref->weight_free(ref, a);
    f32->weight_free(f32, b);
    kva_ops_close(ref);
    kva_ops_close(f32);
    matrix_free(&m);
    free(x);
    free(y);
    free(z);
}

static void a_row_of_the_product_does_not_know_the_others(void **state)
{
    const char *const *isas = kva_cpu_isas();
    struct kva_rng r = {5};

    (void)state;
    for (int i = 0; isas[i]; i++) {
        struct kva_ops *ops = open_ops("f32", isas[i], 1);
        struct matrix m;
        struct kva_weight *w;
        float *x = floats(&r, 64 * 576), *all = calloc(64 * 97, 4), one[97];

        matrix_make(&m, &r, KVA_Q4_1, 97, 576);
        w = weight_of(ops, &m, NULL);
        ops->matmul(ops, w, x, 64, all, 97);
        for (int row = 0; row < 64; row++) {
            ops->matmul(ops, w, x + row * 576, 1, one, 97);
            assert_true(same_bits(one, all + row * 97, 97));
        }
        ops->weight_free(ops, w);
        kva_ops_close(ops);
        matrix_free(&m);
        free(x);
        free(all);
    }
}

static void rows_are_permuted_when_packed_and_embedded(void **state)
{
    const char *const numerics[] = {"ref", "f32"};
    struct kva_rng r = {6};
    int32_t row_of[50];

    (void)state;
    for (int o = 0; o < 50; o++)
        row_of[o] = (o * 7 + 3) % 50;
    for (int n = 0; n < 2; n++)
        for (int t = 0; t < COUNT(types); t++) {
            struct kva_ops *ops = open_ops(numerics[n], NULL, 1);
            struct matrix m;
            struct kva_weight *w, *p;
            float *x = floats(&r, 2 * 512), y[100], z[100], e[2 * 512];
            const int32_t ids[] = {49, 0};

            matrix_make(&m, &r, types[t], 50, 512);
            w = weight_of(ops, &m, NULL);
            p = weight_of(ops, &m, row_of);
            ops->matmul(ops, w, x, 2, y, 50);
            ops->matmul(ops, p, x, 2, z, 50);
            for (int i = 0; i < 100; i++)
                assert_true(z[i] == y[i / 50 * 50 + row_of[i % 50]]);
            ops->embed(ops, p, ids, 2, 1.5f, e);
            for (int i = 0; i < 1024; i++)
                assert_true(e[i] == 1.5f * m.w[row_of[ids[i / 512]] * 512 + i % 512]);
            assert_true(ops->weight_bytes(p) >= ops->weight_bytes(w) + 50 * 4);
            ops->weight_free(ops, w);
            ops->weight_free(ops, p);
            ops->weight_free(ops, NULL);
            kva_ops_close(ops);
            matrix_free(&m);
            free(x);
        }
}

static void packed_q4_1_costs_what_the_file_costs(void **state)
{
    struct kva_rng r = {7};
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    struct matrix m;
    struct kva_weight *w;

    (void)state;
    matrix_make(&m, &r, KVA_Q4_1, 64, 576);
    w = weight_of(ops, &m, NULL);
    assert_true(ops->weight_bytes(w) >= 64 * 18 * 20);
    assert_true(ops->weight_bytes(w) <= 64 * 18 * 20 + 512);
    ops->weight_free(ops, w);
    kva_ops_close(ops);
    matrix_free(&m);
}

static void what_cannot_be_a_weight_is_refused(void **state)
{
    struct kva_ops *ops = open_ops("f32", NULL, 1);
    struct kva_weight *w = (struct kva_weight *)ops;
    struct kva_error err = {0};
    const int32_t bad[] = {0, 2};
    uint8_t data[80] = {0};

    (void)state;
    assert_int_equal(ops->weight_new(ops, KVA_Q4_1, data, 2, 33, NULL, &w, &err),
                     KVA_EINVALID);
    assert_null(w);
    assert_int_equal(ops->weight_new(ops, KVA_Q4_1, data, 0, 32, NULL, &w, NULL),
                     KVA_EINVALID);
    assert_int_equal(ops->weight_new(ops, KVA_Q4_1, data, 2, 32, bad, &w, NULL),
                     KVA_EINVALID);
    assert_int_equal(ops->weight_new(ops, (enum kva_type)77, data, 2, 32, NULL, &w, NULL),
                     KVA_EUNSUPPORTED);
    for (int n = 1; n < 4; n++) {
        const int32_t swap[] = {1, 0};

        kva_alloc_fail_at(n);
        assert_int_equal(ops->weight_new(ops, KVA_Q4_1, data, 2, 32, swap, &w, NULL),
                         KVA_ENOMEM);
        assert_null(w);
    }
    kva_alloc_fail_at(0);
    kva_ops_close(ops);
}

static void the_table_says_what_it_is_and_refuses_what_it_lacks(void **state)
{
    struct kva_ops *ops = NULL;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_ops_open("tpu", "f32", 1, &ops, &err), KVA_EINVALID);
    assert_string_equal(err.text, "backend tpu: expected cpu or cuda");
    assert_int_equal(kva_ops_open("cpu", "f16", 1, &ops, NULL), KVA_EINVALID);
    assert_int_equal(kva_ops_open("cpu", "f32", 0, &ops, NULL), KVA_EINVALID);
    setenv("KVAUDIT_CPU", "mmx", 1);
    memset(&err, 0, sizeof err);
    assert_int_equal(kva_ops_open("cpu", "f32", 1, &ops, &err), KVA_EINVALID);
    assert_string_equal(err.text, "KVAUDIT_CPU=mmx: expected scalar, avx2 or avx512");
    unsetenv("KVAUDIT_CPU");
    assert_null(ops);
    kva_alloc_fail_at(1);
    assert_int_equal(kva_ops_open("cpu", "f32", 1, &ops, NULL), KVA_ENOMEM);
    kva_alloc_fail_at(2);
    assert_int_equal(kva_ops_open("cpu", "f32", 1, &ops, NULL), KVA_ENOMEM);
    kva_alloc_fail_at(0);
    ops = open_ops("f32", "scalar", 100);
    assert_string_equal(ops->isa, "scalar");
    assert_string_equal(ops->backend, "cpu");
    assert_int_equal(ops->threads, 64);
    kva_ops_close(ops);
    kva_ops_close(NULL);
    ops = open_ops("f32", NULL, 1);
    assert_string_equal(ops->isa, kva_cpu_isas()[0]);
    kva_ops_close(ops);
}

static void helpers_that_cannot_start_are_missed_by_nobody(void **state)
{
    struct kva_rng r = {8};
    struct kva_ops *ops = open_ops("f32", NULL, 3);
    struct matrix m;
    struct kva_weight *w;
    float *x = floats(&r, 6 * 576), *y = calloc(6 * 200, 4), *z = calloc(6 * 200, 4);

    (void)state;
    matrix_make(&m, &r, KVA_Q4_1, 200, 576);
    w = weight_of(ops, &m, NULL);
    kva_alloc_fail_at(2);
    ops->matmul(ops, w, x, 6, y, 200);
    kva_alloc_fail_at(0);
    defined(&m, x, 6, z, 200);
    assert_true(same_bits(y, z, 6 * 200));
    ops->weight_free(ops, w);
    kva_ops_close(ops);
    matrix_free(&m);
    free(x);
    free(y);
    free(z);
}

/* groups of 12, 8 and up to 4 rows, overlapping where a remainder is left */
static void every_number_of_rows_gives_the_defined_sums(void **state)
{
    struct kva_rng r = {2};

    (void)state;
    for (int rows = 1; rows <= 50; rows++)
        check(&r, rows % 2 != 0 ? KVA_Q4_1 : KVA_Q8_0, 49, 64, rows, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_rows_gives_the_defined_sums),
        cmocka_unit_test(every_type_gives_the_defined_bits_on_every_instruction_set),
        cmocka_unit_test(awkward_shapes_give_the_defined_bits),
        cmocka_unit_test(ref_is_the_double_sum),
        cmocka_unit_test(f32_stays_within_its_bound_of_ref),
        cmocka_unit_test(a_row_of_the_product_does_not_know_the_others),
        cmocka_unit_test(rows_are_permuted_when_packed_and_embedded),
        cmocka_unit_test(packed_q4_1_costs_what_the_file_costs),
        cmocka_unit_test(what_cannot_be_a_weight_is_refused),
        cmocka_unit_test(the_table_says_what_it_is_and_refuses_what_it_lacks),
        cmocka_unit_test(helpers_that_cannot_start_are_missed_by_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
