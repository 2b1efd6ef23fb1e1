/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept_attention.c - kept sets of the methods that read attention beyond a window of
 * queries, against kvpress 0.5.5. */
#include "tests/oracle/kept_test.h"

static void check(const char *name)
{
    const struct kva_collect want = {.kind = KVA_COLLECT_COLUMNS};
    struct kva_model *m = kept_model();
    struct kva_row last;
    struct kept_run r;
    json_t *context;
    int32_t *ids;

    if (m == NULL)
        skip();
    context = kept_context_named(name);
    r = (struct kept_run){.model = m,
                          .layers = kva_model_info(m)->layers,
                          .heads = kva_model_info(m)->kv_heads};
    ids = json_ids(json_object_get(context, "context_ids"), &r.s);
    OK(kva_session_new(m,
                       &(struct kva_session_opts){.kv = KVA_F32,
                                                  .page_cap = 1 << 16,
                                                  .q_window = KEPT_WINDOW,
                                                  .collect = &want,
                                                  .n_collect = 1},
                       &r.session, err));
    OK(kva_prefill(m, r.session, ids, r.s, KVA_CHUNK, &last, err));
    kept_file(&r, context, "observed", "kept/observed.jsonl", false, false);
    free(ids);
    kva_session_free(r.session);
    json_decref(context);
    kva_model_close(m);
}

static void kept_sets_of_174_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c180");
}

static void kept_sets_of_724_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c700");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_of_174_tokens_agree_with_kvpress),
        cmocka_unit_test(kept_sets_of_724_tokens_agree_with_kvpress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
