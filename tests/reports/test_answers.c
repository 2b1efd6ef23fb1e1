/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_answers.c - how answers end, what failures say, other metrics, labels, turns. */
#include "tests/reports/tables.h"

static struct world *two_budgets(void)
{
    struct world *w = world_new(1, 4);

    add_cell(w, 0, "dense", 1, "dense", "1111");
    add_cell(w, 0, "m", 0.25, "physical", "0001");
    add_cell(w, 0, "m", 0.5, "physical", "0001");
    for (int i = 0; i < w->d.n_outcomes; i++)
        w->out[i].gen_key = (uint64_t)(100 + i % 4); /* the same answers everywhere */
    return w;
}

static void ends_and_wrong_needles_are_shares_of_what_they_say(void **state)
{
    struct world *w = two_budgets();
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    w->out[4].stop = S("length");
    w->out[5].stop = S("repeat");
    w->out[4].wrong_needle = w->out[5].wrong_needle = 1;
    w->out[6].wrong_needle = 0;
    w->out[7].memory.kv_live_bytes = 1000000; /* a short prompt */
    w->out[8].gen_key = 7;                    /* at 50 %, one answer differs */
    r = built(w, "answers");
    t = tab(r, "-answers");
    assert_int_equal(t->n_row, 3);
    assert_string_equal(word(t, 0, "method"), "dense");
    assert_string_equal(word(t, 2, "keep"), "25 %");
    NEAR(number(t, 2, "length_stop"), 0.25, 0);
    NEAR(number(t, 2, "repeat_stop"), 0.25, 0);
    NEAR(number(t, 2, "n_failed"), 3, 0);
    NEAR(number(t, 2, "wrong_needle"), 2.0 / 3, 1e-12);
    NEAR(number(t, 2, "invented"), 1.0 / 3, 1e-12);
    NEAR(number(t, 2, "same_answer"), 0.75, 0);
    NEAR(number(t, 2, "not_evicted"), 0.25, 0);
    assert_true(isnan(number(t, 0, "not_evicted"))); /* dense evicts nothing */
    assert_true(isnan(number(t, 1, "same_answer"))); /* the largest budget */
    assert_true(isnan(number(t, 1, "n_failed")));    /* not looked at: no share */
    assert_false(noted(t, "token for token"));
    kva_report_free(r);
    free(w);
}

static void equal_answers_at_two_budgets_are_named(void **state)
{
    struct world *w = two_budgets();
    struct kva_report *r = built(w, "answers");

    (void)state;
    assert_true(
        noted(tab(r, "-answers"),
              "m on suite/t00@512 answers the same, token for token, at 25 % "
              "and 50 % in all 4 samples, and keeps the same entries: its budget has "
              "no effect."));
    kva_report_free(r);
    w->out[5].kept_fnv = 9;
    r = built(w, "answers");
    assert_true(noted(tab(r, "-answers"), "in all 4 samples."));
    kva_report_free(r);
    free(w);
}

static void other_metrics_stand_beside_the_score(void **state)
{
    static struct kva_data_second second[16];
    static const char *const metric[] = {"qa_f1", "rouge_l", "word_match", "match_part",
                                         "word_match"};
    struct world *w = two_budgets();
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    for (int i = 0; i < 5; i++) /* three of cell 0, two of cell 2, of another none */
        second[i] = (struct kva_data_second){.cell = i < 3 ? 0 : 2,
                                             .metric = S(metric[i]),
                                             .n = 4,
                                             .mean = 0.25 * i,
                                             .own = i < 3 ? 0.75 : 0.25};
    w->d.seconds = second;
    w->d.n_seconds = 5;
    r = built(w, "answers");
    t = tab(r, "-metrics");
    assert_int_equal(t->n_row, 5);
    assert_string_equal(word(t, 0, "metric"), "match_all");
    for (int i = 0; i < 5; i++) {
        assert_string_equal(word(t, i, "other_metric"), metric[i]);
        NEAR(number(t, i, "other_score"), 0.25 * i, 1e-12);
    }
    NEAR(number(t, 0, "difference"), -0.75, 1e-12);
    assert_string_equal(word(t, 3, "keep"), "50 %");
    NEAR(number(t, 3, "score"), 0.25, 1e-12);
    kva_report_free(r);
    free(w);
}

static void labels_and_length_buckets_break_a_score_down(void **state)
{
    static const char *const meta[4] = {"{\"level\":5,\"subject\":\"b\",\"length\":4000}",
                                        "{\"level\":1,\"subject\":\"a\",\"length\":3999}",
                                        "{\"level\":5,\"subject\":\"a\",\"length\":5}",
                                        "{\"spans\":[{\"level\":1}]}"};
    struct world *w = two_budgets();
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    for (int i = 0; i < 4; i++)
        w->sample[i].meta_json = S(meta[i]);
    w->out[4].score = 1; /* m at 25 %: 1 0 0 1 */
    r = built(w, "answers");
    t = tab(r, "-labels");
    assert_int_equal(t->n_row, (2 + 2) * 3); /* levels and subjects, three rows each */
    assert_string_equal(word(t, 0, "label"), "level");
    assert_string_equal(word(t, 0, "value"), "1");
    assert_string_equal(word(t, 3, "value"), "5");
    NEAR(number(t, 5, "score"), 0.5, 1e-12); /* samples 0 and 2 */
    NEAR(number(t, 5, "n"), 2, 0);
    assert_string_equal(word(t, 6, "value"), "a");
    NEAR(number(t, 8, "score"), 0, 1e-12);
    kva_report_free(r);
    w->task[0].suite = S("longbench");
    w->task[0].name = S("trec_e");
    r = built(w, "answers");
    t = tab(r, "-labels");
    assert_int_equal(t->n_row, (2 + 2 + 3) * 3);
    assert_string_equal(word(t, 12, "value"), "0-4000");
    NEAR(number(t, 14, "n"), 2, 0);
    NEAR(number(t, 17, "score"), 1, 1e-12);
    assert_string_equal(word(t, 18, "value"), "8000+"); /* empty: n/a */
    assert_true(isnan(number(t, 18, "score")));
    kva_report_free(r);
    free(w);
}

static void turns_have_a_score_each_and_a_mean_and_show_the_cache_grow(void **state)
{
    struct world *w = two_budgets();
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    assert_null(tab(r = built(w, "answers"), "-turns"));
    kva_report_free(r);
    for (int i = 0; i < 4; i++)
        w->sample[i].turn = i % 2; /* two contexts with two questions */
    for (int i = 0; i < w->d.n_outcomes; i++)
        w->out[i].memory.kv_end_bytes = 1000 * (1 + w->sample[w->out[i].sample].turn);
    r = built(w, "answers");
    t = tab(r, "-turns");
    assert_int_equal(t->n_row, 9);
    assert_string_equal(word(t, 3, "turn"), "1");
    NEAR(number(t, 3, "score"), 0, 1e-12);
    NEAR(number(t, 3, "end_bytes"), 1000, 0);
    NEAR(number(t, 4, "score"), 0.5, 1e-12);
    NEAR(number(t, 4, "end_bytes"), 2000, 0);
    assert_string_equal(word(t, 5, "turn"), "mean");
    NEAR(number(t, 5, "score"), 0.25, 1e-12);
    NEAR(number(t, 5, "n"), 4, 0);
    assert_string_equal(word(t, 3, "audit"), "PHYSICAL");
    assert_null(word(t, 5, "audit"));
    kva_report_free(r);
    free(w);
}

static void is_interval(const struct kva_tab *t, int row, struct kva_interval want)
{
    NEAR(cell(t, row, "score")->lo, want.lo, 1e-12);
    NEAR(cell(t, row, "score")->hi, want.hi, 1e-12);
}

/* Labels and turns read the scores of a problem as the leaderboard does: draws are one
 * value, questions of one context one unit. */
static void parts_of_a_cell_have_the_intervals_of_the_whole(void **state)
{
    static const int together[] = {0, 0, 1, 1};
    static const double means[] = {0.5, 0.5, 0.75, 1}, right[] = {0, 0, 0, 1};
    const struct kva_stratum drawn = {"", means, NULL, NULL, 4},
                             pairs = {"", right, NULL, together, 4};
    struct world *w = world_new(1, 4);
    const struct kva_arm *arm = NULL;
    struct kva_report *r;

    (void)state;
    for (int i = 0; i < 4; i++)
        w->sample[i].meta_json = S("{\"level\":1}");
    add_cell(w, 0, "dense", 1, "dense", "1111");
    add_cell(w, 0, "m", 0.25, "physical", "1111");
    for (int i = 3; i >= 0; i--) /* four draws of each problem */
        for (int k = 3; k >= 0; k--) {
            w->out[4 + 4 * i + k] = w->out[4 + i];
            w->out[4 + 4 * i + k].rep = k;
            w->out[4 + 4 * i + k].score = k < 4 * means[i];
        }
    w->d.n_outcomes = 20;
    w->cell[1].n_expected = 16;
    r = built(w, "answers");
    NEAR(number(tab(r, "-labels"), 1, "n"), 4, 0);
    is_interval(tab(r, "-labels"), 1, kva_stat_arm(&drawn, 1));
    for (int k = 0; k < r->board[0].n_arm; k++)
        if (r->board[0].arm[k].role == KVA_ARM_METHOD)
            arm = &r->board[0].arm[k];
    assert_non_null(arm);
    is_interval(tab(r, "-labels"), 1, arm->score_ci);
    kva_report_free(r);
    free(w);

    w = two_budgets();
    for (int i = 0; i < 4; i++) {
        w->sample[i].meta_json = S("{\"level\":1}");
        w->sample[i].cluster = S(i / 2 ? "b" : "a");
        w->sample[i].turn = i % 2;
    }
    r = built(w, "answers");
    is_interval(tab(r, "-labels"), 1, kva_stat_arm(&pairs, 1));
    assert_true(fabs(kva_stat_arm(&pairs, 1).hi - kva_stat_wilson(1, 4).hi) > 1e-3);
    is_interval(tab(r, "-turns"), 3, kva_stat_wilson(0, 2)); /* one of each context */
    is_interval(tab(r, "-turns"), 4, kva_stat_wilson(1, 2));
    is_interval(tab(r, "-turns"), 5, kva_stat_arm(&pairs, 1));
    kva_report_free(r);
    w->out[11].status = S("failed"); /* turns of unlike length: their mean alone */
    r = built(w, "answers");
    NEAR(number(tab(r, "-turns"), 4, "n"), 1, 0);
    assert_true(isnan(cell(tab(r, "-turns"), 5, "score")->lo));
    kva_report_free(r);
    free(w);
}

/* Every new table in every format, twice, byte for byte. */
static void all_formats_carry_the_tables_and_are_the_same_twice(void **state)
{
    static enum kva_status (*const format[])(const struct kva_report *, struct kva_buf *,
                                             struct kva_error *) = {
        kva_report_text, kva_report_json, kva_report_csv, kva_report_markdown};
    struct world *w = two_budgets();

    (void)state;
    for (int i = 0; i < 4; i++)
        w->sample[i].turn = i % 2;
    for (int i = 0; i < 4; i++) {
        struct kva_report *r = built(w, "answers"), *q = built(w, "answers");
        char *a = rendered(r, format[i]), *b = rendered(q, format[i]);

        assert_string_equal(a, b);
        assert_non_null(strstr(a, "Turn by turn"));
        assert_non_null(strstr(a, "How answers end"));
        free(a);
        free(b);
        kva_report_free(r);
        kva_report_free(q);
    }
    {
        struct kva_report *r = built(w, NULL);
        struct kva_error err = {0};
        struct kva_buf page;

        kva_buf_init(&page, 0);
        assert_int_equal(kva_report_html(r, NULL, &page, &err), KVA_OK);
        assert_non_null(strstr(page.data, "<h2 id=\"answers\">"));
        assert_non_null(strstr(page.data, "href=\"#answers\""));
        kva_buf_release(&page);
        kva_report_free(r);
    }
    free(w);
}

/* The n-th allocation fails, for every n: a message, nothing lost, no crash. */
static void running_out_of_memory_anywhere_is_said(void **state)
{
    static struct kva_data_second second = {
        .cell = 1, .n = 4, .mean = 0.25, .own = 0.5, .metric = NULL};
    static uint64_t sum[KVA_SPAN_KINDS * 4];
    static struct kva_data_heads heads = {
        .cell = 1, .n_layer = 2, .n_kv_head = 2, .n = {4, 4, 4, 4}, .sum = sum};
    struct world *w = two_budgets();
    struct kva_report_opts o = {.replicates = 20};
    enum kva_status rc = KVA_ENOMEM;
    long n = 0;

    (void)state;
    second.metric = S("word_match");
    w->d.seconds = &second;
    w->d.n_seconds = 1;
    w->d.heads = &heads;
    w->d.n_heads = 1;
    w->task[0].suite = S("niah");
    w->task[0].name = S("grid");
    for (int i = 0; i < 4; i++) {
        w->sample[i].turn = i % 2;
        w->sample[i].meta_json = S("{\"level\":1}");
    }
    for (int i = 0; i < w->d.n_outcomes; i++)
        w->out[i].span_e = w->out[i].span_d = 0.5;
    while (rc != KVA_OK && n < 5000) {
        struct kva_error err = {0};
        struct kva_report *r = NULL;

        kva_alloc_fail_at(++n);
        rc = kva_report_build(&w->d, &o, &r, &err);
        kva_alloc_fail_at(0);
        if (rc == KVA_OK) {
            assert_non_null(tab(r, "-turns"));
            assert_non_null(tab(r, "-labels"));
            assert_int_equal(tab(r, "grid")->n_row, 12);
        } else {
            assert_int_equal(rc, KVA_ENOMEM);
            assert_true(err.text[0]);
        }
        kva_report_free(r);
    }
    assert_int_equal(rc, KVA_OK);
    assert_true(n > 100);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_and_wrong_needles_are_shares_of_what_they_say),
        cmocka_unit_test(equal_answers_at_two_budgets_are_named),
        cmocka_unit_test(other_metrics_stand_beside_the_score),
        cmocka_unit_test(labels_and_length_buckets_break_a_score_down),
        cmocka_unit_test(turns_have_a_score_each_and_a_mean_and_show_the_cache_grow),
        cmocka_unit_test(parts_of_a_cell_have_the_intervals_of_the_whole),
        cmocka_unit_test(running_out_of_memory_anywhere_is_said),
        cmocka_unit_test(all_formats_carry_the_tables_and_are_the_same_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
