/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept_alloc.c - how allocators divide, against kvpress 0.5.5 on SmolLM2.
 *
 * adakv: the reference counts the window inside the safeguard of floor(0.2 N) entries
 * (compat=1), we count it beside; both forms must agree in every layer whose KV heads all
 * keep window + safeguard entries anyway. pyramid: compat=1 rounds each layer as the
 * reference does; our own rounding moves no layer by more than one entry. */
#include "tests/oracle/kept_test.h"

/* Window beside the safeguard, against the form with the window inside it. */
static void adakv_own(struct kept_run *r, const char *name)
{
    struct kva_method m = kept_method("snapkv+adakv"),
                      compat = kept_method("snapkv+adakv:compat=1");
    struct kva_scores sc = kept_score(r, &m);
    int c = r->layers * r->heads, same = 0, free_layers = 0;

    for (int tenth = 3; tenth <= 9; tenth += 2) {
        int n = r->s * tenth / 10;
        struct kva_decision a, b;

        if (n <= KEPT_WINDOW)
            continue;
        OK(kva_method_select(&m, &sc, NULL, (uint64_t)(n * c), &a, err));
        OK(kva_method_select(&compat, &sc, NULL, (uint64_t)(n * c), &b, err));
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
    printf("%s adakv: window beside or inside the safeguard: %d layers equal (%d must "
           "be)\n",
           name, same, free_layers);
    assert_true(free_layers > 0);
    kva_scores_release(&sc);
}

static void pyramid_own(struct kept_run *r)
{
    struct kva_method m = kept_method("pyramidkv"),
                      compat = kept_method("pyramidkv:compat=1");
    struct kva_scores sc = kept_score(r, &m);
    int c = r->layers * r->heads;

    for (int tenth = 1; tenth <= 9; tenth++) {
        uint64_t total = (uint64_t)(r->s * tenth / 10) * (uint64_t)c;
        struct kva_decision a, b;

        OK(kva_method_select(&m, &sc, NULL, total, &a, err));
        OK(kva_method_select(&compat, &sc, NULL, total, &b, err));
        assert_int_equal(a.fallback, b.fallback);
        for (int i = 0; i < c; i++)
            assert_in_range(a.budget[i] + 1 - b.budget[i], 0, 2);
        kva_decision_release(&a);
        kva_decision_release(&b);
    }
    kva_scores_release(&sc);
}

static void check(const char *name)
{
    struct kva_model *m = kept_model();
    json_t *context;
    struct kept_run r;

    if (m == NULL)
        skip();
    context = kept_context_named(name);
    r = kept_prefill(m, context);
    kept_file(&r, context, "pyramidkv:compat=1", "kept/pyramidkv.jsonl", false, false);
    kept_file(&r, context, "snapkv+adakv:compat=1", "kept/adakv_snapkv.jsonl", false,
              true);
    kept_file(&r, context, "snapkv:window=32,kernel=7+adakv:compat=1",
              "kept/adakv_snapkv_w32_k7avg.jsonl", false, true);
    pyramid_own(&r);
    adakv_own(&r, name);
    kva_session_free(r.session);
    json_decref(context);
    kva_model_close(m);
}

static void divisions_of_174_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c180");
}

static void divisions_of_724_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c700");
}

static void divisions_of_1538_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c1500");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divisions_of_174_tokens_agree_with_kvpress),
        cmocka_unit_test(divisions_of_724_tokens_agree_with_kvpress),
        cmocka_unit_test(divisions_of_1538_tokens_agree_with_kvpress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
