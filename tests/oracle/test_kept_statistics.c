/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept_statistics.c - kept sets of methods that sum over the whole prompt, in
 * SmolLM2, against kvpress 0.5.5. */
#include "tests/oracle/kept_test.h"

static struct kept_run prefill(struct kva_model *m, const json_t *context,
                               const struct kva_collect *wants, int n)
{
    struct kept_run r = {.model = m,
                         .layers = kva_model_info(m)->layers,
                         .heads = kva_model_info(m)->kv_heads};
    int32_t *ids = json_ids(json_object_get(context, "context_ids"), &r.s);
    struct kva_row last;

    OK(kva_session_new(
        m,
        &(struct kva_session_opts){
            .kv = KVA_F32, .page_cap = 16384, .collect = wants, .n_collect = n},
        &r.session, err));
    OK(kva_prefill(m, r.session, ids, r.s, KVA_CHUNK, &last, err));
    free(ids);
    return r;
}

static void methods(struct kva_model *m, const char *name)
{
    json_t *context = kept_context_named(name);
    struct kva_method adakv = kept_method("expected_attention+adakv:compat=1");
    const struct kva_collect wants[] = {kva_method_collect(&adakv)};
    struct kept_run r = prefill(m, context, wants, 1);

    kept_file(&r, context, "expected_attention:eps=0", "kept/ea.jsonl", false, false);
    kept_file(&r, context, "expected_attention", "kept/ea_eps1e2.jsonl", false, false);
    kept_file(&r, context, "expected_attention+adakv:compat=1",
              "kept/adakv_ea_eps1e2.jsonl", false, true);
    kva_session_free(r.session);
    json_decref(context);
}

static void check(const char *name)
{
    struct kva_model *m = kept_model();

    if (m == NULL)
        skip();
    methods(m, name);
    kva_model_close(m);
}

static void statistics_of_174_tokens_keep_what_kvpress_keeps(void **state)
{
    (void)state;
    check("c180");
}

static void statistics_of_724_tokens_keep_what_kvpress_keeps(void **state)
{
    (void)state;
    check("c700");
}

static void statistics_of_1538_tokens_keep_what_kvpress_keeps(void **state)
{
    (void)state;
    check("c1500");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_of_174_tokens_keep_what_kvpress_keeps),
        cmocka_unit_test(statistics_of_724_tokens_keep_what_kvpress_keeps),
        cmocka_unit_test(statistics_of_1538_tokens_keep_what_kvpress_keeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
