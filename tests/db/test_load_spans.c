/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_load_spans.c - survival of evidence, payload, distractors (tasks-ruler.md 8.6,
 * numbers of 12.5), second metrics and marks of outcomes, as reports read them. */
#include "tests/db/fixture.h"

#include <math.h>

static void load(struct kva_db **dbs, int n, struct kva_data *d)
{
    struct kva_error err = {0};

    OK(kva_data_load(dbs, n, d, &err));
}

static int64_t sample_with(struct kva_db *db, int64_t task, int idx, const char *meta)
{
    struct kva_db_sample s = {.task_id = task,
                              .idx = idx,
                              .cluster = "c",
                              .refs_json = "[]",
                              .meta_json = meta};
    struct kva_error err = {0};
    int64_t id;

    digest_for("spans", idx, s.digest);
    OK(kva_db_put_sample(db, &s, &id, &err));
    return id;
}

static struct kva_db_span_kept span(const char *id, int n_tok, const uint16_t *kept)
{
    return (struct kva_db_span_kept){
        .span = id, .n_tok = n_tok, .layers = 1, .kv_heads = 2, .kept = kept};
}

#define SPANS                                                                            \
    "\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"queried\":true},"                        \
    "{\"id\":\"P0\",\"kind\":\"P\",\"match\":\"E0\"},"                                   \
    "{\"id\":\"D0\",\"kind\":\"D\",\"match\":\"E0\"},"                                   \
    "{\"id\":\"E1.0\",\"kind\":\"E\",\"queried\":false},"                                \
    "{\"id\":\"E1.1\",\"kind\":\"E\",\"queried\":false},"                                \
    "{\"id\":\"P1.0\",\"kind\":\"P\",\"match\":\"E1.0\"},"                               \
    "{\"id\":\"D4\",\"kind\":\"D\",\"match\":\"E1\"},"                                   \
    "{\"id\":\"X0\",\"kind\":\"X\"}]"

/* 12.5: head 0 keeps 7 of 10 evidence tokens, not the payload, no distractor; head 1
 * keeps 3, the payload and all of D. A second sample has no D. */
static void the_survival_of_section_12_5_and_only_what_was_asked_for_counts(void **state)
{
    static const uint16_t E[] = {7, 3}, P[] = {0, 1}, D[] = {0, 10}, NONE[] = {0, 0},
                          ALL[] = {10, 10}, X[] = {5, 10};
    struct kva_db_span_kept first[] = {span("E0", 10, E),    span("P0", 1, P),
                                       span("D0", 10, D),    span("E1", 10, NONE),
                                       span("P1", 10, NONE), span("D4", 10, NONE),
                                       span("K0", 10, NONE), span("X0", 10, X)};
    struct kva_db_span_kept second[] = {span("E0", 10, ALL)};
    struct fixture f;
    struct kva_data d;
    struct kva_db_outcome o;
    const struct kva_data_heads *h;
    int64_t task, cell, sample[2];

    (void)state;
    fixture_open(&f);
    task = add_task(f.db, "ruler", "vt", 512);
    cell = add_cell(f.db, f.model, add_method(f.db, "snapkv"), task, "snap 0.2", 0.2);
    sample[0] = sample_with(f.db, task, 0, "{\"depth\":0.5,\"turn\":3," SPANS "}");
    sample[1] = sample_with(f.db, task, 1, "{" SPANS "}");
    o = outcome_of(cell, sample[0], f.run, 0);
    o.spans = first;
    o.n_spans = 8;
    assert_int_equal(put(f.db, &o), 1);
    o = outcome_of(cell, sample[1], f.run, 1);
    o.spans = second;
    o.n_spans = 1;
    assert_int_equal(put(f.db, &o), 1);
    load(&f.db, 1, &d);
    assert_int_equal(d.samples[0].turn, 3);
    assert_int_equal(d.samples[1].turn, 0);
    assert_true(d.samples[1].depth == -1);
    assert_true(fabs(d.outcomes[0].span_e - 0.5) < 1e-12); /* (7/10 + 3/10) / 2 */
    assert_true(d.outcomes[0].span_payload == 0.5);
    assert_true(d.outcomes[0].span_d == 0.5);
    assert_true(d.outcomes[0].span_x == 0.75);
    assert_true(d.outcomes[1].span_e == 1 && isnan(d.outcomes[1].span_d));
    assert_true(isnan(d.outcomes[1].span_payload) && isnan(d.outcomes[1].span_x));
    assert_int_equal(d.n_heads, 1);
    h = &d.heads[0];
    assert_int_equal(h->n_layer, 1);
    assert_int_equal(h->n_kv_head, 2);
    assert_int_equal(h->n[KVA_SPAN_E], 2);
    assert_int_equal(h->n[KVA_SPAN_P], 1);
    assert_int_equal(h->n[KVA_SPAN_D], 1);
    assert_true(fabs((double)h->sum[0] / 4294967296.0 - 1.7) < 1e-9);
    assert_true(fabs((double)h->sum[1] / 4294967296.0 - 1.3) < 1e-9);
    assert_true(h->sum[2] == 0 && h->sum[3] == 4294967296u); /* payload per head */
    assert_true(h->sum[4] == 0 && h->sum[5] == 4294967296u); /* D per head */
    kva_data_release(&d);
    fixture_close(&f);
}

static void traced_bitmaps_become_shares_kept_per_head(void **state)
{
    static const uint16_t E[] = {7, 3, 7, 3};
    /* 2 heads of 10 tokens, 2 bytes each */
    static const uint8_t layer0[] = {0x0f, 0, 0xff, 0x03}, layer1[] = {1, 0, 0, 0x02};
    const uint8_t *both[] = {layer0, layer1}, *one[] = {layer1, NULL};
    struct kva_db_span_kept e = {
        .span = "E0", .n_tok = 10, .layers = 2, .kv_heads = 2, .kept = E};
    struct fixture f;
    struct kva_data d;
    struct kva_db_outcome o;
    const struct kva_data_heads *h;
    int64_t task, cell;

    (void)state;
    fixture_open(&f);
    task = add_task(f.db, "ruler", "vt", 512);
    cell = add_cell(f.db, f.model, add_method(f.db, "snapkv"), task, "snap 0.2", 0.2);
    for (int i = 0; i < 3; i++) {
        o = outcome_of(cell, sample_with(f.db, task, i, "{" SPANS "}"), f.run, 1);
        o.spans = &e;
        o.n_spans = 1;
        if (i < 2) {
            o.kept_bits = both;
            o.kept_layers = o.kept_heads = 2;
            o.kept_tok = 10;
        }
        assert_int_equal(put(f.db, &o), 1);
    }
    load(&f.db, 1, &d);
    assert_int_equal(d.n_heads, 1);
    h = &d.heads[0];
    assert_int_equal(h->n[KVA_SPAN_E], 3);
    assert_int_equal(h->n[KVA_HEAD_ALL], 2);
    for (int i = 0; i < 4; i++) {
        static const double share[4] = {0.4, 1, 0.1, 0.1};

        assert_true(fabs((double)h->sum[4 * KVA_HEAD_ALL + i] / 4294967296.0 -
                         2 * share[i]) < 1e-9);
    }
    kva_data_release(&d);
    /* spans of one layer beside bitmaps of two */
    e.layers = 1;
    o = outcome_of(cell, sample_with(f.db, task, 3, "{" SPANS "}"), f.run, 1);
    o.kept_bits = one;
    o.kept_layers = 1;
    o.kept_heads = 2;
    o.kept_tok = 10;
    assert_int_equal(put(f.db, &o), 1);
    {
        struct kva_error err = {0};

        assert_int_equal(kva_data_load(&f.db, 1, &d, &err), KVA_EDB);
        assert_non_null(strstr(err.text, "2 x 2 and 1 x 2 heads"));
    }
    fixture_close(&f);
}

static void other_metrics_are_summed_per_cell_and_marks_reach_their_outcome(void **state)
{
    struct kva_db_score a[] = {{"match_all", 1, 1, NULL},
                               {"word_match", 1, 0, NULL},
                               {"word_match", 2, 0.5, NULL},
                               {"gold_nll", 1, 2, NULL},
                               {"protected", 1, 1, NULL}};
    struct kva_db_score b[] = {{"word_match", 2, 0, NULL}, {"wrong_needle", 1, 1, NULL}};
    struct fixture f;
    struct kva_data d;
    struct kva_db_outcome o;
    int64_t task, cell, sample[3];

    (void)state;
    fixture_open(&f);
    task = add_task(f.db, "ruler", "cwe", 512);
    cell = add_cell(f.db, f.model, add_method(f.db, "snapkv"), task, "snap 0.2", 0.2);
    for (int i = 0; i < 3; i++)
        sample[i] = sample_with(f.db, task, i, "{}");
    o = outcome_of(cell, sample[0], f.run, 1);
    o.scores = a;
    o.n_scores = 5;
    assert_int_equal(put(f.db, &o), 1);
    o = outcome_of(cell, sample[1], f.run, 0);
    o.scores = b;
    o.n_scores = 2;
    assert_int_equal(put(f.db, &o), 1);
    o = outcome_of(cell, sample[2], f.run, 0);
    assert_int_equal(put(f.db, &o), 1);
    load(&f.db, 1, &d);
    assert_int_equal(d.n_seconds, 1); /* the task's own, nats and marks are none */
    assert_string_equal(d.seconds[0].metric, "word_match");
    assert_int_equal(d.seconds[0].n, 2);
    assert_true(d.seconds[0].mean == 0.25); /* the newest version of each */
    assert_true(d.seconds[0].own == 0.5);
    assert_true(d.outcomes[0].is_protected && !d.outcomes[1].is_protected);
    assert_int_equal(d.outcomes[0].wrong_needle, -1);
    assert_int_equal(d.outcomes[1].wrong_needle, 1);
    assert_int_equal(d.outcomes[2].wrong_needle, -1);
    assert_true(d.outcomes[0].gen_key != 0);
    kva_data_release(&d);
    /* the same file twice changes nothing */
    {
        struct kva_db *twice[] = {f.db, f.db};

        load(twice, 2, &d);
        assert_int_equal(d.n_seconds, 1);
        assert_int_equal(d.seconds[0].n, 2);
        kva_data_release(&d);
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_survival_of_section_12_5_and_only_what_was_asked_for_counts),
        cmocka_unit_test(traced_bitmaps_become_shares_kept_per_head),
        cmocka_unit_test(other_metrics_are_summed_per_cell_and_marks_reach_their_outcome),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
