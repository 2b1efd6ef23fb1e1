/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_exec_score.c - what a result says beside the answer: further metrics, wrong
 * needles, protected evidence, spans in parts, labels. */
#include <jansson.h>

#include "runner/exec_internal.h"
#include "runner/pack.h"
#include "tests/models/reference.h"
#include "tests/runner/fake_task.h"

#define SUITE                                                                            \
    "{\"schema\":1,\"name\":\"t\",\"defaults\":{\"n\":1},\"models\":["                   \
    "\"builtin:retrieval\"],\"methods\":[\"keydiff\",\"knorm:recent=40,sinks=4\","       \
    "\"streaming:sinks=60\",\"knorm:recent=40,sinks=30\"],"                              \
    "\"tasks\":[\"ruler/"                                                                \
    "niah_single_1@512\"],\"budgets\":[{\"tokens\":72},{\"tokens\":20}],"                \
    "\"schedules\":[\"oneshot\",\"block:32\",\"oneshot+decode:1\"]}"

static const int one[] = {0};

/* The item of the first needle with spans over its words; decoys are the other values. */
static void prepare(struct kva_span *spans, int n)
{
    static const char *const decoys[] = {"7300215", "1950448", "6624083"};
    static const char *const more[] = {"match_part", NULL};

    fake_needles();
    fake_info.turns = 1;
    fake_item[0].decoys = decoys;
    fake_item[0].n_decoys = 3;
    fake_item[0].more_metrics = more;
    fake_item[0].spans = spans;
    fake_item[0].n_spans = n;
}

/* Bytes of `text` in the context, from its k-th place on. */
static struct kva_span span(const char *id, const char *text)
{
    const char *at = strstr(FAKE_CONTEXT, text);
    struct kva_span s = {.kind = id[0], .queried = true, .role = "needle"};

    assert_non_null(at);
    snprintf(s.id, sizeof s.id, "%s", id);
    s.b0 = (size_t)(at - FAKE_CONTEXT);
    s.b1 = s.b0 + strlen(text);
    return s;
}

static const struct kva_result *of(const struct fake_plan *f, const struct fake_heard *h,
                                   const char *method, const char *schedule)
{
    for (int c = 0; c < f->plan.n_cells; c++) {
        char text[48];

        kva_schedule_text(&f->plan.cells[c].schedule, text);
        if (strcmp(f->plan.cells[c].method_id, method) == 0 &&
            strcmp(text, schedule) == 0)
            return fake_find(h, c, 0);
    }
    fail_msg("no cell of %s, %s", method, schedule);
    return NULL;
}

static void a_failure_that_names_a_decoy_is_told_from_an_invented_one(void **state)
{
    static const char *const wrong[][1] = {{"7300215"}, {"nowhere"}};
    static const char *const decoys[] = {"4812907"};
    static struct fake_heard h;
    struct fake_plan f;
    int told = 0;

    (void)state;
    prepare(NULL, 0);
    fake_open(&f, SUITE, one, 1, false);
    fake_run(&f, false, 0, &h);
    for (int i = 0; i < h.n; i++) {
        const struct kva_result *r = &h.r[i];
        double w = fake_score(r, "wrong_needle");
        bool has_decoy = strstr(r->text, "7300215") || strstr(r->text, "1950448") ||
                         strstr(r->text, "6624083");

        assert_string_equal(r->scores[0].metric, "match_all");
        assert_true(fake_score(r, "match_part") == r->scores[0].value);
        if (r->scores[0].value == 1)
            assert_true(isnan(w));
        else
            assert_true(w == has_decoy);
        told += !isnan(w);
    }
    assert_true(told > 0);
    fake_forget(&h);
    /* the model's right answer counts as a decoy: every dense failure names one */
    for (int k = 0; k < 2; k++) {
        fake_item[0].answers = wrong[k];
        fake_item[0].decoys = decoys;
        fake_item[0].n_decoys = 1;
        fake_run(&f, false, 0, &h);
        assert_true(fake_score(of(&f, &h, "dense", "oneshot"), "wrong_needle") == 1);
        fake_forget(&h);
    }
    fake_close(&f);
}

static void evidence_in_a_protected_place_marks_its_outcomes(void **state)
{
    static struct fake_heard h;
    struct kva_span spans[3];
    struct fake_plan f;

    (void)state;
    /* the needle stands at the beginning: tokens 5 to 16 or so */
    spans[0] =
        span("E0", "One of the special magic numbers for amber-lantern is: 4812907.");
    spans[1] = span("P0", "4812907");
    spans[2] = span("E1", "brisk-meadow is: 1950448");
    spans[2].queried = false;
    prepare(spans, 3);
    fake_open(&f, SUITE, one, 1, false);
    fake_run(&f, false, 0, &h);
    for (int i = 0; i < h.n; i++) {
        const struct kva_cell *cell = &f.plan.cells[h.r[i].cell];
        bool marked = !isnan(fake_score(&h.r[i], "protected"));

        assert_int_equal(
            marked, strncmp(cell->method_id, "streaming:sinks=60", 18) == 0 ||
                        strncmp(cell->method_id, "knorm:recent=40,sinks=30", 24) == 0);
    }
    fake_forget(&h);
    /* recent ones are protected until decoding begins to evict */
    spans[0] = span("E0", "plain-thimble is: 6624083");
    fake_run(&f, false, 0, &h);
    for (int i = 0; i < h.n; i++) {
        const struct kva_cell *cell = &f.plan.cells[h.r[i].cell];
        bool marked = !isnan(fake_score(&h.r[i], "protected"));

        assert_int_equal(marked, strstr(cell->method_id, "recent=40") != NULL &&
                                     cell->schedule.decode == 0);
    }
    fake_close(&f);
    fake_forget(&h);
}

static void parts_of_a_span_are_counted_together(void **state)
{
    static struct fake_heard whole, parts;
    struct kva_span spans[6];
    struct fake_plan f;
    json_t *meta, *list, *o;

    (void)state;
    spans[0] = span("E0", "amber-lantern is: 4812907");
    spans[1] = span("E1", "The sky is blue.");
    spans[2] = span("E2", "Here we go.");
    prepare(spans, 3);
    fake_open(&f, SUITE, one, 1, false);
    fake_run(&f, false, 0, &whole);
    fake_close(&f);
    snprintf(spans[0].id, sizeof spans[0].id, "E0.0");
    snprintf(spans[1].id, sizeof spans[1].id, "E0.1");
    snprintf(spans[2].id, sizeof spans[2].id, "E0.2");
    spans[3] = span("D0.0", "The sun is yellow.");
    spans[3].queried = false;
    snprintf(spans[3].match, sizeof spans[3].match, "E0.0");
    prepare(spans, 4);
    fake_open(&f, SUITE, one, 1, false);
    fake_run(&f, false, 0, &parts);
    for (int c = 0; c < f.plan.n_cells; c++) {
        const struct kva_result *a = fake_find(&whole, c, 0),
                                *b = fake_find(&parts, c, 0);

        if (f.plan.cells[c].method.blind)
            continue;
        assert_int_equal(a->n_spans, 3);
        assert_int_equal(b->n_spans, 2);
        assert_string_equal(b->spans[0].id, "E0");
        assert_string_equal(b->spans[1].id, "D0");
        assert_int_equal(b->spans[0].n_tok,
                         a->spans[0].n_tok + a->spans[1].n_tok + a->spans[2].n_tok);
        for (int h = 0; h < a->layers * a->kv_heads; h++)
            assert_int_equal(b->spans[0].kept[h], a->spans[0].kept[h] +
                                                      a->spans[1].kept[h] +
                                                      a->spans[2].kept[h]);
        if (f.plan.cells[c].method.dense)
            assert_int_equal(b->spans[0].kept[0], b->spans[0].n_tok);
    }
    meta = json_loads(parts.meta[0], 0, NULL);
    list = json_object_get(meta, "spans");
    assert_int_equal(json_array_size(list), 2);
    o = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(o, "id")), "E0");
    assert_int_equal(json_array_size(json_object_get(o, "parts")), 3);
    assert_int_equal(json_integer_value(json_array_get(
                         json_array_get(json_object_get(o, "parts"), 1), 0)),
                     spans[1].b0);
    o = json_array_get(list, 1);
    assert_string_equal(json_string_value(json_object_get(o, "match")), "E0");
    assert_int_equal(json_array_size(json_object_get(o, "parts")), 1);
    json_decref(meta);
    fake_close(&f);
    fake_forget(&whole);
    fake_forget(&parts);
}

static void labels_and_flags_are_in_the_sample(void **state)
{
    static struct fake_heard h;
    struct fake_plan f;
    json_t *meta;

    (void)state;
    prepare(NULL, 0);
    fake_item[0].labels = "{\"level\":5,\"subject\":\"Algebra\",\"depth\":\"no\"}";
    fake_item[0].was_cut = true;
    fake_open(&f, SUITE, one, 1, false);
    fake_run(&f, false, 0, &h);
    meta = json_loads(h.meta[0], 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(meta, "level")), 5);
    assert_string_equal(json_string_value(json_object_get(meta, "subject")), "Algebra");
    assert_true(json_is_real(json_object_get(meta, "depth"))); /* ours stays */
    assert_true(json_is_true(json_object_get(meta, "was_cut")));
    assert_null(json_object_get(meta, "underfill"));
    assert_null(json_object_get(meta, "no_haystack"));
    assert_null(json_object_get(meta, "turn"));
    json_decref(meta);
    fake_close(&f);
    fake_forget(&h);
}

static void labels_that_are_no_object_are_an_error(void **state)
{
    struct kva_exec_opts opts = {0};
    struct kva_sink sink = {0};
    struct kva_error err = {0};
    struct fake_plan f;
    int64_t rows = 0;

    (void)state;
    prepare(NULL, 0);
    fake_item[0].labels = "[1]";
    fake_open(&f, SUITE, one, 1, false);
    assert_int_equal(kva_exec_unit(&f.plan, 0, false, &opts, &sink, &rows, &err),
                     KVA_EINVALID);
    assert_non_null(strstr(err.text, "labels"));
    fake_close(&f);
}

static void what_was_extracted_travels_between_processes(void **state)
{
    struct kva_result r = {.n_scores = 2}, got;
    struct kva_buf bytes;
    const char *at;
    char text[] = "1/2", clock[] = "events"; /* the other process has other addresses */

    (void)state;
    r.timing.clock = clock;
    r.scores[0] = (struct kva_result_score){"a", 1, 0.5, text};
    r.scores[1] = (struct kva_result_score){"b", 2, 1, NULL};
    kva_buf_init(&bytes, 0);
    kva_result_pack(&r, &bytes);
    at = bytes.data;
    assert_true(kva_result_unpack(&at, bytes.data + bytes.len, &got));
    assert_int_equal(got.n_scores, 2);
    assert_string_equal(got.scores[0].extracted, "1/2");
    assert_null(got.scores[1].extracted);
    clock[0] = '?';
    assert_string_equal(got.timing.clock, "events");
    kva_result_release(&got);
    for (size_t n = 0; n < bytes.len; n += 7) { /* cut short: refused, nothing leaks */
        at = bytes.data;
        assert_false(kva_result_unpack(&at, bytes.data + n, &got));
        if (n >= sizeof r)
            kva_result_release(&got);
    }
    kva_buf_release(&bytes);
}

static void a_zero_byte_ends_no_answer(void **state)
{
    static const char *const answers[] = {"cd"};
    struct kva_item item = {.metric = "match_all", .answers = answers, .n_answers = 1};
    struct kva_unit_run u = {.items = &item};
    struct kva_tokenizer *tok = byte_tokenizer("gpt-2");
    int32_t said[] = {'c', 0, 0, 'c', 'd', 0};
    struct kva_cell dense = {0};
    struct kva_run_cell c = {
        .cell = &dense, .tok = tok, .gen = said, .n_gen = 6, .stop = "length"};
    struct kva_result r = {0};
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_unit_score(&u, 0, &c, &r, &err), KVA_OK);
    assert_string_equal(r.text, "c\xef\xbf\xbd\xef\xbf\xbd"
                                "cd\xef\xbf\xbd");
    assert_true(fake_score(&r, "match_all") == 1); /* it stands behind the zeros */
    kva_result_release(&r);
    kva_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_that_names_a_decoy_is_told_from_an_invented_one),
        cmocka_unit_test(evidence_in_a_protected_place_marks_its_outcomes),
        cmocka_unit_test(parts_of_a_span_are_counted_together),
        cmocka_unit_test(labels_and_flags_are_in_the_sample),
        cmocka_unit_test(labels_that_are_no_object_are_an_error),
        cmocka_unit_test(what_was_extracted_travels_between_processes),
        cmocka_unit_test(a_zero_byte_ends_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
