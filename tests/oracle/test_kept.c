/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept.c - the first methods' kept sets in SmolLM2, against kvpress 0.5.5. */
#include "tests/oracle/kept_test.h"

/* Every method on one context. */
static void kept_methods(struct kva_model *m, const char *name)
{
    json_t *context = kept_context_named(name);
    struct kept_run r = kept_prefill(m, context);

    kept_file(&r, context, "streaming", "kept/streaming.jsonl", true, false);
    kept_file(&r, context, "knorm", "kept/knorm.jsonl", true, false);
    kept_file(&r, context, "keydiff", "kept/keydiff.jsonl", true, false);
    kept_file(&r, context, "tova", "kept/tova.jsonl", false, false);
    kept_file(&r, context, "snapkv", "kept/snapkv.jsonl", false, false);
    kept_file(&r, context, "snapkv:window=32,kernel=7", "kept/snapkv_w32_k7avg.jsonl",
              false, false);
    kva_session_free(r.session);
    json_decref(context);
}

static void check(const char *name)
{
    struct kva_model *m = kept_model();

    if (m == NULL)
        skip();
    kept_methods(m, name);
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

static void kept_sets_of_1538_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c1500");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_of_174_tokens_agree_with_kvpress),
        cmocka_unit_test(kept_sets_of_724_tokens_agree_with_kvpress),
        cmocka_unit_test(kept_sets_of_1538_tokens_agree_with_kvpress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
