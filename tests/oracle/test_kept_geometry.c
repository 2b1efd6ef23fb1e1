/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept_geometry.c - lagkv, cur and leverage in SmolLM2, against kvpress 0.5.5.
 *
 * lagkv with compat=1: in contexts too short for two lags the reference keeps its sinks.
 * Ranks repeat in every lag, so nearly every cut of a longer context ties. Leverage draws
 * its sketch at random: scores are compared under the reference's own draw, kept sets are
 * not. */
#include "tests/oracle/kept_test.h"

#include "methods/leverage.h"

static void kept_geometry(const char *name)
{
    struct kva_model *m = kept_model();
    struct kept_run r;
    json_t *context;

    if (m == NULL)
        skip();
    context = kept_context_named(name);
    r = kept_prefill(m, context);
    kept_file(&r, context, "lagkv:compat=1", "kept/lagkv.jsonl", true, false);
    kept_file(&r, context, "cur", "kept/cur.jsonl", false, false);
    kva_session_free(r.session);
    json_decref(context);
    kva_model_close(m);
}

static void kept_sets_of_174_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    kept_geometry("c180");
}

static void kept_sets_of_724_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    kept_geometry("c700");
}

static void kept_sets_of_1538_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    kept_geometry("c1500");
}

/* phi[k][dim] from the hexadecimal floats of [dim][k] */
static void read_sketch(const char *hex, int dim, int k, float *phi)
{
    assert_int_equal(strlen(hex), (size_t)(8 * dim * k));
    for (int x = 0; x < dim; x++)
        for (int i = 0; i < k; i++) {
            uint32_t bits = 0;

            for (int byte = 0; byte < 4; byte++) {
                char two[3] = {hex[8 * (x * k + i) + 2 * byte],
                               hex[8 * (x * k + i) + 2 * byte + 1], '\0'};

                bits |= (uint32_t)strtoul(two, NULL, 16) << 8 * byte;
            }
            memcpy(&phi[i * dim + x], &bits, sizeof bits);
        }
}

/* Keys of one KV head turned back to position 0. */
static float *raw_keys(struct kept_run *r, int layer, int head, int dim)
{
    struct kva_decide_in in = {0};
    size_t off[] = {0, (size_t)r->s};
    float *k = calloc(off[1] * (size_t)dim, sizeof *k);
    int32_t *back = calloc(off[1], sizeof *back);
    struct kva_rows rows = {.data = k, .off = off, .heads = 1, .dim = dim};

    kva_session_decide_in(r->session, &in);
    assert_int_equal(kva_kvstore_gather(in.store, layer, head, k, NULL, NULL), KVA_OK);
    for (int j = 0; j < r->s; j++)
        back[j] = -j;
    in.lend->rotate(in.lend->ctx, layer, &rows, back);
    free(back);
    return k;
}

static void leverage_under_the_reference_s_sketch_is_its_own(void **state)
{
    struct kva_model *m = kept_model();
    json_t *file = m != NULL ? oracle_rows("kept/leverage-c180.json") : NULL, *o,
           *context;
    struct kept_run r;
    struct kva_arena arena;
    float *phi = calloc(48 * 64, sizeof *phi), *s;
    double worst = 0, worst_z = 0;
    int layer, k, dim;

    (void)state;
    if (file == NULL)
        skip();
    kva_arena_init(&arena);
    o = json_array_get(file, 0);
    context = kept_context_named("c180");
    r = kept_prefill(m, context);
    s = calloc((size_t)(r.s * r.heads), sizeof *s);
    layer = (int)json_integer_value(json_object_get(o, "layer"));
    k = (int)json_integer_value(json_object_get(o, "sketch"));
    dim = kva_model_info(m)->head_dim;
    assert_true(k == 48 && dim == 64);
    for (int h = 0; h < r.heads; h++) {
        const json_t *raw = json_array_get(json_object_get(o, "raw"), (size_t)h);
        float *keys = raw_keys(&r, layer, h, dim);

        read_sketch(json_string_value(
                        json_array_get(json_object_get(o, "phi_f32_hex"), (size_t)h)),
                    dim, k, phi);
        OK(kva_leverage_rows(kva_model_ops(m), &arena, keys, (size_t)r.s, dim, phi, k,
                             0.01, s + h * r.s, err));
        for (int j = 0; j < r.s; j++) {
            double want = json_number_value(json_array_get(raw, (size_t)j));

            worst = fmax(worst, fabs((double)s[h * r.s + j] - want));
        }
        free(keys);
    }
    kva_leverage_standard(s, (size_t)(r.s * r.heads));
    for (int i = 0; i < r.s * r.heads; i++) {
        const json_t *z = json_array_get(json_object_get(o, "z"), (size_t)(i / r.s));
        double want = json_number_value(json_array_get(z, (size_t)(i % r.s)));

        worst_z = fmax(worst_z, fabs((double)s[i] - want));
    }
    printf("leverage: largest gap %.2g, of z-scores %.2g\n", worst, worst_z);
    assert_true(worst < 1e-4 && worst_z < 1e-3);
    free(s);
    free(phi);
    json_decref(file);
    json_decref(context);
    kva_arena_release(&arena);
    kva_session_free(r.session);
    kva_model_close(m);
}

/* Two draws of the reference share this much of what they keep (leverage.jsonl); a draw
 * of ours and the next one, alike. */
static void two_sketches_share_as_much_as_two_of_the_reference(void **state)
{
    struct kva_model *m = kept_model();
    json_t *rows = m != NULL ? oracle_rows("kept/leverage.jsonl") : NULL, *context;
    struct kva_method a = kept_method("leverage"), b = kept_method("leverage:seed=1");
    struct kept_run r;
    struct kva_scores sa, sb;

    (void)state;
    if (rows == NULL)
        skip();
    context = kept_context_named("c180");
    r = kept_prefill(m, context);
    sa = kept_score(&r, &a);
    sb = kept_score(&r, &b);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *theirs = json_object_get(row, "jaccard_between_two_seeds");
        uint64_t total = (uint64_t)json_integer_value(json_object_get(row, "total"));
        double mean = 0, want = json_number_value(json_object_get(theirs, "mean"));
        int cells = r.layers * r.heads;
        struct kva_decision da, db;

        if (strcmp(json_string_value(json_object_get(row, "ctx")), "c180") != 0)
            continue;
        OK(kva_method_select(&a, &sa, NULL, total, &da, err));
        OK(kva_method_select(&b, &sb, NULL, total, &db, err));
        for (int c = 0; c < cells; c++) {
            bool *ours = calloc((size_t)r.s, sizeof *ours);
            size_t both = 0, n = da.keep.off[c + 1] - da.keep.off[c];

            kept_map(&da, c, ours, r.s);
            for (size_t j = db.keep.off[c]; j < db.keep.off[c + 1]; j++)
                both += ours[db.keep.rank[j]];
            mean += (double)both / (double)(2 * n - both) / cells;
            free(ours);
        }
        printf("leverage keep %.2f: two draws share %.3f, two of the reference %.3f\n",
               json_number_value(json_object_get(row, "keep")), mean, want);
        assert_true(fabs(mean - want) < 0.06);
        kva_decision_release(&da);
        kva_decision_release(&db);
    }
    kva_scores_release(&sa);
    kva_scores_release(&sb);
    json_decref(rows);
    json_decref(context);
    kva_session_free(r.session);
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_of_174_tokens_agree_with_kvpress),
        cmocka_unit_test(kept_sets_of_724_tokens_agree_with_kvpress),
        cmocka_unit_test(kept_sets_of_1538_tokens_agree_with_kvpress),
        cmocka_unit_test(leverage_under_the_reference_s_sketch_is_its_own),
        cmocka_unit_test(two_sketches_share_as_much_as_two_of_the_reference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
