/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_qfilter.c - filters of the tiny llama against power iterations over all its
 * queries. */
#include "tests/models/engine_test.h"

#include "models/calibrate.h"

enum { SEQUENCES = 2, TOKENS = 300, SHARE = 100 };

static char text[1200];

static void write_text(void)
{
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = (char)('a' + (i * i / 7 + i / 5) % 26);
}

/* Direction of the rows of query head a at every third position of both sequences, by
 * power iteration in double; the majority looks along it. */
static void direction(const float *q, int heads, int dim, int a, double *u)
{
    int above = 0;

    for (int x = 0; x < dim; x++)
        u[x] = 1 + x % 3;
    for (int round = 0; round < 3000; round++) {
        double next[64] = {0}, length = 0;

        for (int r = 0; r < SEQUENCES * TOKENS; r += TOKENS / SHARE) {
            const float *row = q + ((size_t)r * (size_t)heads + (size_t)a) * (size_t)dim;
            double dot = 0;

            for (int x = 0; x < dim; x++)
                dot += (double)row[x] * u[x];
            for (int x = 0; x < dim; x++)
                next[x] += dot * (double)row[x];
        }
        for (int x = 0; x < dim; x++)
            length += next[x] * next[x];
        for (int x = 0; x < dim; x++)
            u[x] = next[x] / sqrt(length);
    }
    for (int r = 0; r < SEQUENCES * TOKENS; r += TOKENS / SHARE) {
        double dot = 0;

        for (int x = 0; x < dim; x++)
            dot +=
                (double)
                    q[((size_t)r * (size_t)heads + (size_t)a) * (size_t)dim + (size_t)x] *
                u[x];
        above += dot > 0 ? 1 : -1;
    }
    for (int x = 0; x < dim && above < 0; x++)
        u[x] = -u[x];
}

/* Queries of a layer over both sequences, [SEQUENCES * TOKENS][heads][dim]. */
static float *all_queries(struct kva_model *m, int layer)
{
    const struct kva_model_info *info = kva_model_info(m);
    size_t width = (size_t)(info->heads * info->head_dim);
    float *all = calloc(SEQUENCES * TOKENS * width, sizeof *all);
    int32_t *ids;

    OK(kva_calibrate_ids(m, text, sizeof text - 1, SEQUENCES, TOKENS, &ids, err));
    for (int i = 0; i < SEQUENCES; i++) {
        struct kva_session *s = open_session(m, KVA_F16, TOKENS);
        struct kva_decide_in in = {0};
        const float *q;
        const int32_t *pos;

        OK(kva_prefill(m, s, ids + i * TOKENS, TOKENS, KVA_CHUNK, NULL, err));
        kva_session_decide_in(s, &in);
        assert_int_equal(in.queries(in.queries_ctx, layer, &q, &pos), TOKENS);
        memcpy(all + (size_t)i * TOKENS * width, q, TOKENS * width * sizeof *q);
        kva_session_free(s);
    }
    free(ids);
    return all;
}

static void filters_are_minus_the_mean_direction_of_the_group(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    const struct kva_model_info *info = kva_model_info(m);
    struct kva_qfilter_opts opts = {
        .sequences = SEQUENCES, .tokens = TOKENS, .rows = SEQUENCES * SHARE};
    int group = info->heads / info->kv_heads, dim = info->head_dim;
    struct kva_table t;
    double worst = 0;

    (void)state;
    write_text();
    OK(kva_qfilter_calibrate(m, text, sizeof text - 1, &opts, &t, err));
    assert_string_equal(t.kind, "qfilter");
    assert_true(t.layers == info->layers && t.kv_heads == info->kv_heads &&
                t.columns == dim);
    for (int l = 0; l < info->layers; l++) {
        float *q = all_queries(m, l);

        for (int h = 0; h < info->kv_heads; h++) {
            double want[64] = {0}, u[64];

            for (int a = h * group; a < (h + 1) * group; a++) {
                direction(q, info->heads, dim, a, u);
                for (int x = 0; x < dim; x++)
                    want[x] -= u[x] / group;
            }
            for (int x = 0; x < dim; x++)
                worst = fmax(worst,
                             fabs(t.data[(l * info->kv_heads + h) * dim + x] - want[x]));
        }
        free(q);
    }
    if (!(worst < 1e-6))
        fail_msg("largest gap %g", worst);
    kva_table_release(&t);
    kva_model_close(m);
}

static void check_refusal(struct kva_model *m, int sequences, int tokens, int rows,
                          const char *why)
{
    struct kva_qfilter_opts opts = {
        .sequences = sequences, .tokens = tokens, .rows = rows};
    struct kva_error err = {0};
    struct kva_table t;

    assert_int_equal(kva_qfilter_calibrate(m, text, sizeof text - 1, &opts, &t, &err),
                     KVA_EINVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", err.text, why);
    assert_null(t.data);
}

static void shares_and_texts_that_do_not_fit_are_refused(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");

    (void)state;
    write_text();
    check_refusal(m, 2, 100, 101, "no equal share of 2 sequences");
    check_refusal(m, 2, 100, 400, "no equal share");
    check_refusal(m, 0, 100, 100, "no equal share");
    check_refusal(m, 20, 2048, 3000, "20 sequences of 2048 need");
    check_refusal(m, 1, 1 << 20, 1, "at least one of");
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_are_minus_the_mean_direction_of_the_group),
        cmocka_unit_test(shares_and_texts_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
