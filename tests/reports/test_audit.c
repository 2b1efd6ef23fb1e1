/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_audit.c - what `report audit` makes of stored verdicts. */
#include "tests/reports/tables.h"

static struct kva_data_claim claim(int cell, const char *impl, const char *id,
                                   const char *verdict, const char *reason, double value,
                                   const char *note)
{
    return (struct kva_data_claim){.cell = cell,
                                   .method = S("m1"),
                                   .impl = S(impl),
                                   .claim = S(id),
                                   .verdict = S(verdict),
                                   .reason = S(reason),
                                   .note = S(note),
                                   .value = value,
                                   .threshold = (double)NAN,
                                   .lo = (double)NAN,
                                   .hi = (double)NAN};
}

/* One cell, masked and physical, in the order of loading. */
static struct kva_report *audited(struct world *w, const char *view)
{
    static struct kva_data_claim rows[16];
    int n = 0;

    add_cell(w, 0, "dense", 1, "dense", "1111");
    add_cell(w, 0, "m1", 0.25, "physical", "1100");
    rows[n++] = claim(1, "mask", "K1", "REFUTED", "MASK_ONLY", 4, "4.00x nominal");
    rows[n++] = claim(1, "mask", "K4", "UNDECIDED", NULL, 0.02, "8 pairs, 400 would");
    rows[n++] = claim(1, "mask", "bytes.held", "-", NULL, 102400, NULL);
    rows[n++] = claim(1, "mask", "headline", "REFUTED", NULL, (double)NAN, NULL);
    rows[n++] = claim(1, "padded", "K1", "UNTESTED", NULL, (double)NAN, "not built");
    rows[n++] = claim(1, "padded", "K2", "UNTESTED", NULL, (double)NAN, "not built");
    rows[n++] = claim(1, "physical", "K1", "UPHELD-C", "PAD_WASTE", 1.28, "in pages");
    rows[n++] = claim(1, "physical", "K4", "UNDECIDED", NULL, 0.02, "8 pairs, 400 would");
    rows[n++] = claim(1, "physical", "bytes.held", "-", NULL, 32768, NULL);
    rows[n++] = claim(1, "physical", "nats.uniformity", "-", NULL, -0.5, NULL);
    rows[n - 1].lo = -0.75;
    rows[n - 1].hi = -0.25;
    rows[n++] = claim(1, "physical", "score.storage", "-", NULL, 0, NULL);
    rows[n++] = claim(1, "physical", "fell_back", "-", NULL, 0.5, "n = 4");
    rows[n++] = claim(1, "physical", "stage1", "-", NULL, 0.945, "n = 4");
    w->d.claims = rows;
    w->d.n_claims = n;
    return built(w, view);
}

static void every_implementation_is_a_row_of_verdicts(void **state)
{
    struct world *w = world_new(1, 4);
    struct kva_report *r = audited(w, "audit");
    const struct kva_tab *t = tab(r, "audit");

    (void)state;
    assert_non_null(t);
    assert_int_equal(t->n_row, 3);
    assert_string_equal(word(t, 0, "K1"), "REFUTED");
    assert_string_equal(word(t, 0, "reason"), "MASK_ONLY");
    assert_string_equal(word(t, 0, "verdict"), "REFUTED");
    assert_string_equal(word(t, 2, "K1"), "UPHELD-C");
    assert_string_equal(word(t, 2, "enforce"), "physical");
    kva_report_free(r);
    free(w);
}

static void reasons_are_told_once_and_open_questions_always(void **state)
{
    struct world *w = world_new(1, 4);
    struct kva_report *r = audited(w, "audit");
    const struct kva_tab *t = tab(r, "audit");
    int open = 0, untested = 0;

    (void)state;
    assert_true(noted(t, "K1 REFUTED MASK_ONLY"));
    for (int i = 0; i < t->n_note; i++) {
        open += strstr(t->note[i], "400 would") != NULL;
        untested += strstr(t->note[i], "not built") != NULL;
    }
    assert_int_equal(open, 2);
    assert_int_equal(untested, 1);
    kva_report_free(r);
    free(w);
}

static void what_decisions_said_is_a_note(void **state)
{
    struct world *w = world_new(1, 4);
    struct kva_report *r = audited(w, "audit");
    const struct kva_tab *t = tab(r, "audit");
    int fell = 0, stage = 0;

    (void)state;
    for (int i = 0; i < t->n_note; i++) {
        fell += strstr(t->note[i], "fell back to uniform shares in 50 % of") != NULL;
        stage += strstr(t->note[i], "more than half of the attention in 94.5 %") != NULL;
    }
    assert_int_equal(fell, 1);
    assert_int_equal(stage, 1);
    kva_report_free(r);
    free(w);
}

static void nats_are_not_multiplied_by_a_hundred(void **state)
{
    struct world *w = world_new(1, 4);
    struct kva_report *r = audited(w, "audit");
    char *text = rendered(r, kva_report_text);

    (void)state;
    assert_int_equal(tab(r, "audit-bytes")->n_row, 2);
    NEAR(number(tab(r, "audit-bytes"), 1, "held_bytes"), 32768, 0);
    assert_non_null(strstr(text, "-0.500 [-0.750, -0.250]"));
    free(text);
    kva_report_free(r);
    free(w);
}

static void bars_are_shares_of_the_bytes_claimed(void **state)
{
    static struct kva_data_claim rows[8];
    struct world *w = world_new(1, 4);
    struct kva_report *r;
    const struct kva_figure *f = NULL;
    int n = 0;

    (void)state;
    add_cell(w, 0, "dense", 1, "dense", "1111");
    add_cell(w, 0, "m1", 0.25, "physical", "1100");
    rows[n++] = claim(1, "mask", "bytes.nominal", "-", NULL, 25600, NULL);
    rows[n++] = claim(1, "mask", "bytes.held", "-", NULL, 102400, NULL);
    rows[n++] = claim(1, "mask", "bytes.meta", "-", NULL, 3200, NULL);
    rows[n++] = claim(1, "padded", "bytes.nominal", "-", NULL, 25600, NULL);
    rows[n++] = claim(1, "physical", "bytes.nominal", "-", NULL, 25600, NULL);
    rows[n++] = claim(1, "physical", "bytes.held", "-", NULL, 32768, NULL);
    rows[n++] = claim(1, "physical", "bytes.meta", "-", NULL, 256, NULL);
    w->d.claims = rows;
    w->d.n_claims = n;
    r = built(w, "audit");
    for (int i = 0; i < r->n_figure; i++)
        if (strcmp(r->figure[i].id, "audit-bytes") == 0)
            f = &r->figure[i];
    assert_non_null(f);
    assert_int_equal(f->n_points, 2); /* nothing is known of padded */
    assert_string_equal(f->tsv, "# row\theld\tmeta\tmethod\tkeep\tenforce\n"
                                "0\t4\t0.125\tm1\t25 %\tmask\n"
                                "1\t1.28\t0.01\tm1\t25 %\tphysical\n");
    assert_non_null(strstr(f->gp, "set xrange [0:4.3725]"));
    kva_report_free(r);
    free(w);
}

static void without_an_audit_there_is_no_table(void **state)
{
    struct world *w = world_new(1, 4);
    struct kva_report *r;

    (void)state;
    add_cell(w, 0, "dense", 1, "dense", "1111");
    add_cell(w, 0, "m1", 0.25, "physical", "1100");
    r = built(w, "audit");
    assert_null(tab(r, "audit"));
    kva_report_free(r);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_implementation_is_a_row_of_verdicts),
        cmocka_unit_test(reasons_are_told_once_and_open_questions_always),
        cmocka_unit_test(what_decisions_said_is_a_note),
        cmocka_unit_test(nats_are_not_multiplied_by_a_hundred),
        cmocka_unit_test(bars_are_shares_of_the_bytes_claimed),
        cmocka_unit_test(without_an_audit_there_is_no_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
