/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_logits.c - SmolLM2 against the reference implementation in float32: the negative
 * log-likelihood of every token of four texts, and the five likeliest tokens at twelve
 * places. Tolerance: 3e-4 everywhere, 3e-5 on average (the data's README, section 2). */
#include "tests/oracle/oracle_test.h"

static void check_top5(const json_t *row, const float *logits, int vocab)
{
    const json_t *top = json_object_get(row, "top5");

    for (size_t i = 0; i < json_array_size(top); i++) {
        const json_t *t = json_array_get(top, i), *ids = json_object_get(t, "ids"),
                     *want = json_object_get(t, "hf_logprob");
        const float *l = logits + (size_t)json_integer_value(json_object_get(t, "pos")) *
                                      (size_t)vocab;
        double max = (double)l[best(l, vocab)], z = 0;

        for (int j = 0; j < vocab; j++)
            z += exp((double)l[j] - max);
        for (size_t j = 0; j < json_array_size(ids); j++) {
            double p =
                (double)l[json_integer_value(json_array_get(ids, j))] - max - log(z);

            /* README: up to 1.2e-3 on logits of other engines, 5e-5 on the short rows */
            assert_true(fabs(p - json_real_value(json_array_get(want, j))) < 1e-3);
        }
        assert_int_equal(best(l, vocab), json_integer_value(json_array_get(ids, 0)));
    }
}

static void check_text(struct kva_model *m, const json_t *row)
{
    const json_t *want = json_object_get(row, "nll_hf");
    const int vocab = kva_model_info(m)->vocab;
    struct kva_session *s = open_session(m, KVA_F32, 0);
    struct kva_row rows[64];
    double worst = 0, sum = 0;
    float *logits;
    int n;
    int32_t *ids = json_ids(json_object_get(row, "ids"), &n);

    logits = malloc((size_t)n * (size_t)vocab * sizeof *logits);
    assert_non_null(logits);
    for (int at = 0; at < n; at += 64) {
        int c = n - at < 64 ? n - at : 64;

        for (int i = 0; i < c; i++)
            rows[i] = (struct kva_row){.session = s,
                                       .token = ids[at + i],
                                       .logits = true,
                                       .target = at + i + 1 < n ? ids[at + i + 1] : -1};
        OK(kva_step(m, rows, c, logits + (size_t)at * (size_t)vocab, err));
        for (int i = 0; i < c && at + i + 1 < n; i++) {
            double d = fabs(rows[i].nll -
                            json_real_value(json_array_get(want, (size_t)(at + i))));

            worst = d > worst ? d : worst;
            sum += d;
        }
    }
    printf("%s: %d tokens, NLL gap %.2g at most, %.2g on average\n",
           json_string_value(json_object_get(row, "name")), n, worst, sum / (n - 1));
    assert_true(worst <= 3e-4);
    assert_true(sum / (n - 1) <= 3e-5);
    check_top5(row, logits, vocab);
    free(logits);
    free(ids);
    kva_session_free(s);
}

/* Rows of at most max_tokens tokens. */
static void check(const char *numerics, int max_tokens)
{
    const char *path = smollm2_path();
    json_t *rows = path ? oracle_rows("logits-smollm2.jsonl") : NULL;
    struct kva_model *m;
    int done = 0;

    if (!rows)
        skip();
    m = open_model(path, numerics);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (json_integer_value(json_object_get(row, "n")) > max_tokens)
            continue;
        check_text(m, row);
        done++;
    }
    assert_true(done >= 2);
    json_decref(rows);
    kva_model_close(m);
}

static void smollm2_in_f32_agrees_with_the_reference(void **state)
{
    (void)state;
    check("f32", 2000);
}

static void smollm2_in_ref_agrees_with_the_reference(void **state)
{
    (void)state;
    check("ref", 64);
}

static void smollm2_is_described_as_published(void **state)
{
    const char *path = smollm2_path();
    const struct kva_model_info *i;
    struct kva_model *m;
    uint8_t sha[32];
    char hex[65];

    (void)state;
    if (!path)
        skip();
    m = open_model(path, "f32");
    i = kva_model_info(m);
    assert_string_equal(i->arch, "llama");
    assert_string_equal(i->wtype, "Q4_1");
    assert_int_equal(i->layers, 30);
    assert_int_equal(i->dim, 576);
    assert_int_equal(i->heads, 9);
    assert_int_equal(i->kv_heads, 3);
    assert_int_equal(i->head_dim, 64);
    assert_int_equal(i->ffn, 1536);
    assert_int_equal(i->vocab, 49152);
    assert_int_equal(i->ctx_train, 8192);
    assert_int_equal(i->file_bytes, 98362432);
    assert_string_equal(kva_model_chat(m)->family, "smollm2");
    OK(kva_model_sha256(m, sha, err));
    kva_hex(sha, 32, hex);
    assert_string_equal(
        hex, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_is_described_as_published),
        cmocka_unit_test(smollm2_in_f32_agrees_with_the_reference),
        cmocka_unit_test(smollm2_in_ref_agrees_with_the_reference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
