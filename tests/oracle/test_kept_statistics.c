/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept_statistics.c - kept sets of methods that sum over the whole prompt, in
 * SmolLM2, against kvpress 0.5.5. */
#include "models/replay.h"
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

/* The context as the runner would have it: the reference's prefix, then the rest. */
static struct kva_replay replay_of(struct kva_model *m, const json_t *context, int chunk)
{
    struct kva_prompt p;
    struct kva_replay replay;
    int n;
    int32_t *ids = json_ids(json_object_get(context, "context_ids"), &n);

    OK(kva_prompt_context(m, NULL, "x", 1, &p, err));
    OK(kva_replay_ids(m, NULL, &p, ids, n, chunk, &replay, err));
    assert_int_equal(replay.chunk[0].from,
                     json_integer_value(json_object_get(context, "kvzip_prefix_length")));
    kva_prompt_release(&p);
    free(ids);
    return replay;
}

/* Sets the sums that a method wants. */
static void repeat(struct kept_run *r, const json_t *context, const char *text)
{
    struct kva_method m = kept_method(text);
    struct kva_collect want = kva_method_collect(&m);
    struct kva_replay replay = replay_of(r->model, context, want.chunk);
    uint64_t scratch = 0;

    OK(kva_replay(r->model, r->session, &want, &replay, &scratch, err));
    assert_true(scratch > 0);
    kva_replay_release(&replay);
}

/* Every layer keeps the same number, whether or not that divides by its KV heads: layer
 * after layer is selected as if it were alone. */
static void layerwise(struct kept_run *r, const json_t *context, const char *text,
                      const char *file)
{
    const char *name = json_string_value(json_object_get(context, "name"));
    struct kva_method m = kept_method(text);
    struct kva_scores sc = kept_score(r, &m);
    size_t per = sc.off[r->heads];
    json_t *rows = oracle_rows(file);
    struct kept_count count = {0};
    bool *ours = calloc((size_t)r->s, sizeof *ours);

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_int_t total = json_integer_value(json_object_get(row, "total"));

        if (strcmp(json_string_value(json_object_get(row, "ctx")), name) != 0)
            continue;
        for (int l = 0; l < r->layers; l++) {
            struct kva_scores one = sc;
            struct kva_decision d;

            one.layers = 1;
            one.s = sc.s + (size_t)l * per;
            one.pos = sc.pos + (size_t)l * per;
            OK(kva_method_select(&m, &one, NULL, (uint64_t)(total / r->layers), &d, err));
            for (int h = 0; h < r->heads; h++) {
                kept_map(&d, h, ours, r->s);
                kept_compare(row, text, false, l, h, r->layers, ours, one.s + one.off[h],
                             r->s, &count);
            }
            kva_decision_release(&d);
        }
    }
    printf("%s %s: %d equal, %d equal but for ties, %d within two\n", name, text,
           count.exact, count.tied, count.near);
    assert_int_equal(count.wrong, 0);
    assert_true(count.exact > 0);
    json_decref(rows);
    free(ours);
    kva_scores_release(&sc);
}

static void methods(struct kva_model *m, const char *name)
{
    json_t *context = kept_context_named(name);
    struct kva_method adakv = kept_method("expected_attention+adakv:compat=1");
    struct kva_method chunks = kept_method("noncausal:compat=1");
    struct kva_method zip = kept_method("kvzip:chunk=2048"),
                      plus = kept_method("kvzip:chunk=2048,plus=1");
    const struct kva_collect wants[] = {
        kva_method_collect(&adakv), kva_method_collect(&zip), kva_method_collect(&plus),
        kva_method_collect(&chunks)};
    struct kept_run r = prefill(m, context, wants, 4);

    kept_file(&r, context, "expected_attention:eps=0", "kept/ea.jsonl", false, false);
    kept_file(&r, context, "expected_attention", "kept/ea_eps1e2.jsonl", false, false);
    kept_file(&r, context, "expected_attention+adakv:compat=1",
              "kept/adakv_ea_eps1e2.jsonl", false, true);
    kept_file(&r, context, "noncausal:compat=1", "kept/noncausal.jsonl", false, false);
    repeat(&r, context, "kvzip:chunk=2048");
    kept_file(&r, context, "kvzip:chunk=2048,compat=1+global", "kept/kvzip.jsonl", false,
              true);
    layerwise(&r, context, "kvzip:chunk=2048,compat=1+adakv:alpha=0",
              "kept/kvzip_layerwise.jsonl");
    if (strcmp(name, "c180") == 0) { /* the only one with a stable reference */
        repeat(&r, context, "kvzip:chunk=2048,plus=1");
        kept_file(&r, context, "kvzip:chunk=2048,compat=1,plus=1+global",
                  "kept/kvzip_plus.jsonl", false, true);
    }
    kva_session_free(r.session);
    json_decref(context);
}

static struct kva_decision compactor(struct kept_run *r, double keep, uint64_t total,
                                     uint64_t seed)
{
    struct kva_method m = kept_method("compactor_kp");
    struct kva_decide_in in = {0};
    struct kva_scores sc;
    struct kva_decision d;

    kva_session_decide_in(r->session, &in);
    in.block_len = r->s;
    in.keep = keep;
    in.seed = seed;
    OK(kva_method_score(&m, &in, &sc, NULL, err));
    assert_int_equal(sc.nonfinite, 0);
    OK(kva_method_select(&m, &sc, NULL, total, &d, err));
    kva_scores_release(&sc);
    return d;
}

/* The reference draws a new sketch at each call, so its sets cannot be compared; what two
 * of its draws share can: with beta the share removed, the lottery grows as the budget
 * shrinks. */
static void two_draws_of_compactor_share_as_much_as_two_of_kvpress(void **state)
{
    struct kva_method m = kept_method("compactor_kp");
    const struct kva_collect want = kva_method_collect(&m);
    struct kva_model *model = kept_model();
    json_t *rows, *context;
    struct kept_run r;

    (void)state;
    if (model == NULL)
        skip();
    rows = oracle_rows("kept/compactor.jsonl");
    context = kept_context_named("c180");
    r = prefill(model, context, &want, 1);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *theirs = json_object_get(row, "jaccard_between_two_seeds");
        uint64_t total = (uint64_t)json_integer_value(json_object_get(row, "total"));
        double keep = json_number_value(json_object_get(row, "keep")), mean = 0,
               all = json_number_value(json_object_get(theirs, "mean"));
        const int cells = r.layers * r.heads;
        struct kva_decision a, b;

        if (strcmp(json_string_value(json_object_get(row, "ctx")), "c180") != 0)
            continue;
        a = compactor(&r, keep, total, 1);
        b = compactor(&r, keep, total, 2);
        for (int c = 0; c < cells; c++) {
            bool *ours = calloc((size_t)r.s, sizeof *ours);
            size_t both = 0, n = a.keep.off[c + 1] - a.keep.off[c];

            kept_map(&a, c, ours, r.s);
            for (size_t j = b.keep.off[c]; j < b.keep.off[c + 1]; j++)
                both += ours[b.keep.rank[j]];
            mean += (double)both / (double)(2 * n - both) / cells;
            free(ours);
        }
        printf("compactor keep %.2f: two draws share %.3f, two of kvpress %.3f\n", keep,
               mean, all);
        assert_true(fabs(mean - all) < 0.06);
        kva_decision_release(&a);
        kva_decision_release(&b);
    }
    kva_session_free(r.session);
    json_decref(rows);
    json_decref(context);
    kva_model_close(model);
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
        cmocka_unit_test(two_draws_of_compactor_share_as_much_as_two_of_kvpress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
