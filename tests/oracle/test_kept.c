/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept.c - the first methods' kept sets in SmolLM2, against kvpress 0.5.5.
 *
 * adakv: the reference counts the window inside the safeguard of floor(0.2 N) entries, we
 * count it beside (methods.md 7). So the reference is compared with the scores of the
 * window raised above all others and nothing protected, which is what it does; and our
 * own form must give the same sets in every layer whose KV heads all keep window +
 * safeguard entries anyway. */
#include "tests/oracle/kept_test.h"

/* Our adakv, window beside the safeguard, against the form with the window inside it. */
static void kept_adakv_own(struct kept_run *r, const json_t *context)
{
    struct kva_method m = kept_method("snapkv+adakv");
    struct kva_scores own = kept_score(r, &m), raised = kept_score(r, &m);
    int c = r->layers * r->heads, same = 0, free_layers = 0;

    raised.protect.recent = 0;
    for (int i = 0; i < c; i++)
        for (size_t j = raised.off[i + 1] - KEPT_WINDOW; j < raised.off[i + 1]; j++)
            raised.s[j] = 1e30f;
    for (int tenth = 3; tenth <= 9; tenth += 2) {
        int n = r->s * tenth / 10;
        struct kva_decision a, b;

        if (n <= KEPT_WINDOW)
            continue;
        OK(kva_method_select(&m, &own, NULL, (uint64_t)(n * c), &a, err));
        OK(kva_method_select(&m, &raised, NULL, (uint64_t)(n * c), &b, err));
        for (int l = 0; l < r->layers; l++) {
            bool unbound = true, equal = true;

            for (int i = l * r->heads; i < (l + 1) * r->heads; i++) {
                size_t na = a.keep.off[i + 1] - a.keep.off[i];
                size_t nb = b.keep.off[i + 1] - b.keep.off[i];

                unbound = unbound && nb >= (size_t)(KEPT_WINDOW + n / 5);
                equal = equal && na == nb &&
                        memcmp(a.keep.rank + a.keep.off[i], b.keep.rank + b.keep.off[i],
                               na * sizeof *a.keep.rank) == 0;
            }
            assert_true(equal || !unbound);
            same += equal;
            free_layers += unbound;
        }
        kva_decision_release(&a);
        kva_decision_release(&b);
    }
    printf(
        "%s adakv: window beside or inside the safeguard: %d layers equal (%d must be)\n",
        json_string_value(json_object_get(context, "name")), same, free_layers);
    assert_true(free_layers > 0);
    kva_scores_release(&own);
    kva_scores_release(&raised);
}

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
    kept_file(&r, context, "snapkv+adakv", "kept/adakv_snapkv.jsonl", false, true);
    kept_adakv_own(&r, context);
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
