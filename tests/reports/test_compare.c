/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_compare.c - two selections of cells: who meets whom, how it ends, what is said. */
#include "tests/reports/fixture.h"

#include "reports/compare_internal.h"

/* Marks the cells of a method (NULL: every cell), at an enforcement (NULL: any). */
static bool *pick(const struct world *w, const char *method, const char *enforce)
{
    bool *mark = calloc((size_t)w->d.n_cells + 1, sizeof *mark);

    assert_non_null(mark);
    for (int i = 0; i < w->d.n_cells; i++)
        mark[i] = (!method || strcmp(w->cell[i].method, method) == 0) &&
                  (!enforce || strcmp(w->cell[i].enforce, enforce) == 0);
    return mark;
}

struct run {
    struct kva_report *r;
    struct kva_error err;
    enum kva_status rc;
    int valid;
};

static struct run compare_with(const struct world *wa, bool *a, const struct world *wb,
                               bool *b, const struct kva_compare_opts *o)
{
    struct kva_compare_side side[2] = {{&wa->d, a, NULL, "A side"},
                                       {&wb->d, b, NULL, "B side"}};
    struct run out = {.r = NULL};

    out.rc = kva_compare_build(side, o, &out.r, &out.valid, &out.err);
    free(a);
    free(b);
    return out;
}

static const struct kva_compare_opts METHODS = {.free = KVA_COMPARE_METHOD,
                                                .ties = KVA_TIE_STAT,
                                                .epsilon = 0.005,
                                                .replicates = 500};

static struct run methods(const struct world *w, const char *a, const char *b)
{
    return compare_with(w, pick(w, a, NULL), w, pick(w, b, NULL), &METHODS);
}

static const struct kva_tab *table(const struct kva_report *r, const char *id)
{
    for (int i = 0; i < r->n_tab; i++)
        if (strcmp(r->tab[i].id, id) == 0)
            return &r->tab[i];
    return NULL;
}

static const struct kva_val *at(const struct kva_report *r, const char *id, int row,
                                const char *col)
{
    const struct kva_tab *t = table(r, id);

    assert_non_null(t);
    assert_true(row < t->n_row);
    for (int c = 0; c < t->n_col; c++)
        if (strcmp(t->col[c].id, col) == 0)
            return &t->row[row].cell[c];
    fail_msg("no column %s", col);
    return NULL;
}

static double num(const struct kva_report *r, const char *id, int row, const char *col)
{
    return at(r, id, row, col)->v;
}

static void counts(const struct run *x, int row, int win, int tie, int loss, int invalid)
{
    if (x->rc != KVA_OK)
        print_error("%s\n", x->err.text);
    assert_int_equal(x->rc, KVA_OK);
    assert_int_equal((int)num(x->r, "tallies", row, "win"), win);
    assert_int_equal((int)num(x->r, "tallies", row, "tie"), tie);
    assert_int_equal((int)num(x->r, "tallies", row, "loss"), loss);
    assert_int_equal((int)num(x->r, "tallies", row, "invalid"), invalid);
    assert_int_equal((int)num(x->r, "tallies", row, "n"), win + tie + loss + invalid);
}

/* Ruling R13: a badge, in words for people and a column for programs. */
static void bytes_that_could_not_be_checked_are_said(void **state)
{
    struct world *w = simple_world();
    struct run x;
    char *text;

    (void)state;
    x = methods(w, "half+uniform", "good+uniform");
    assert_int_equal(x.rc, KVA_OK);
    text = rendered(x.r, kva_report_text);
    assert_null(strstr(text, "UNVERIFIED"));
    free(text);
    assert_string_equal(at(x.r, "pairs", 0, "audit_a")->text, "PHYSICAL");
    kva_report_free(x.r);
    for (int o = 0; o < w->d.n_outcomes; o++)
        if (strcmp(w->cell[w->out[o].cell].method, "half+uniform") == 0)
            w->out[o].memory.audit = -1;
    x = methods(w, "half+uniform", "good+uniform");
    text = rendered(x.r, kva_report_text);
    assert_non_null(strstr(text, "UNVERIFIED: the bytes of 1 of the 2 cells"));
    free(text);
    assert_string_equal(at(x.r, "pairs", 0, "audit_a")->text, "UNVERIFIED");
    assert_string_equal(at(x.r, "pairs", 0, "audit_b")->text, "PHYSICAL");
    text = rendered(x.r, kva_report_json);
    assert_non_null(strstr(text, "\"audit_a\":\"UNVERIFIED\""));
    free(text);
    kva_report_free(x.r);
    free(w);
}

static void the_four_pairs_of_the_document(void **state)
{
    static const double delta[4] = {0.04, 0, -0.002, (double)NAN};
    static const double p_adj[4] = {0.01, 1, 0.6, (double)NAN};
    static const int want[3][4] = {{1, 1, 1, 1}, {1, 2, 0, 1}, {1, 2, 0, 1}};
    struct kva_duel duel[4];
    struct kva_duels u = {.v = duel, .n = 4};
    struct kva_tally t;

    (void)state;
    memset(duel, 0, sizeof duel);
    for (int m = 0; m < 3; m++) {
        for (int i = 0; i < 4; i++)
            duel[i].verdict[m] =
                kva_stat_verdict((enum kva_tie_mode)m, delta[i], p_adj[i],
                                 m == KVA_TIE_STAT ? 0.01 : 0.005, 0.05, i < 3);
        assert_int_equal(kva_tally_count(&u, (enum kva_tie_mode)m, &t, NULL), KVA_OK);
        assert_int_equal(t.win, want[m][0]);
        assert_int_equal(t.tie, want[m][1]);
        assert_int_equal(t.loss, want[m][2]);
        assert_int_equal(t.invalid, want[m][3]);
    }
}

static void a_count_that_does_not_add_up_is_no_tally(void **state)
{
    struct kva_duel duel[2];
    struct kva_duels u = {.v = duel, .n = 2};
    struct kva_error err = {0};
    struct kva_tally t;
    int wrong = 7;

    (void)state;
    memset(duel, 0, sizeof duel);
    memcpy(&duel[1].verdict[KVA_TIE_STAT], &wrong, sizeof wrong);
    assert_int_equal(kva_tally_count(&u, KVA_TIE_STAT, &t, &err), KVA_ENO);
    assert_non_null(strstr(err.text, "do not add up"));
}

static void sign_tests_of_the_document(void **state)
{
    struct kva_duel *duel = calloc(115, sizeof *duel);
    struct kva_duels u = {.v = duel, .n = 115};
    struct kva_tally t;

    (void)state;
    for (int i = 0; i < 115; i++)
        duel[i].verdict[KVA_TIE_EXACT] = i < 93 ? KVA_WIN : KVA_LOSS;
    assert_int_equal(kva_tally_count(&u, KVA_TIE_EXACT, &t, NULL), KVA_OK);
    NEAR(t.p_sign, 1.407e-11, 1e-14);
    u.n = 90;
    for (int i = 0; i < 90; i++)
        duel[i].verdict[KVA_TIE_EXACT] = i < 88 ? KVA_WIN : KVA_LOSS;
    assert_int_equal(kva_tally_count(&u, KVA_TIE_EXACT, &t, NULL), KVA_OK);
    NEAR(t.p_sign, 6.6e-24, 5e-26);
    for (int i = 0; i < 90; i++)
        duel[i].verdict[KVA_TIE_EXACT] = i ? KVA_INVALID : KVA_TIE;
    assert_int_equal(kva_tally_count(&u, KVA_TIE_EXACT, &t, NULL), KVA_OK);
    NEAR(t.p_sign, 1, 0);
    duel[0].verdict[KVA_TIE_EXACT] = KVA_INVALID; /* nothing was judged */
    assert_int_equal(kva_tally_count(&u, KVA_TIE_EXACT, &t, NULL), KVA_OK);
    assert_true(isnan(t.p_sign));
    free(duel);
}

static void wins_and_losses_are_those_of_a(void **state)
{
    struct world *w = simple_world();
    struct run x = methods(w, "good+uniform", "bad+uniform");

    (void)state;
    counts(&x, 0, 1, 0, 0, 0);
    NEAR(num(x.r, "pairs", 0, "diff"), 1, 1e-12);
    assert_true(at(x.r, "pairs", 0, "diff")->lo < 1); /* never of width zero */
    assert_int_equal((int)num(x.r, "pairs", 0, "n_better"), 20);
    assert_string_equal(at(x.r, "pairs", 0, "verdict")->text, "win");
    NEAR(num(x.r, "pairs", 0, "p"), 2 * pow(0.5, 20), 1e-15);
    kva_report_free(x.r);
    x = methods(w, "good+uniform", "same+uniform");
    counts(&x, 0, 0, 1, 0, 0);
    kva_report_free(x.r);
    free(w);
}

/* Tasks of 40, three budgets, scores from a fixed pattern. */
static struct world *grid_world(void)
{
    static char s[4][41];
    struct world *w = world_new(3, 40);
    struct kva_rng rng = {7};

    for (int t = 0; t < 3; t++) {
        static const double keep[3] = {0.2, 0.4, 0.8};
        static const char *const name[2] = {"one+uniform", "two+uniform"};

        for (int k = 0; k < 40; k++)
            s[3][k] = kva_rng_below(&rng, 10) < 9 ? '1' : '0';
        s[3][40] = 0;
        add_cell(w, t, "dense", 1, "dense", s[3]);
        for (int m = 0; m < 2; m++)
            for (int b = 0; b < 3; b++) {
                for (int k = 0; k < 40; k++)
                    s[0][k] = kva_rng_below(&rng, 10) < (uint64_t)(3 + 2 * b + 2 * m)
                                  ? '1'
                                  : '0';
                s[0][40] = 0;
                add_cell(w, t, name[m], keep[b], "physical", s[0]);
            }
    }
    return w;
}

static void exchanging_the_sides_exchanges_wins_and_losses(void **state)
{
    struct world *w = grid_world();
    struct run x = methods(w, "one+uniform", "two+uniform");
    struct run y = methods(w, "two+uniform", "one+uniform");

    (void)state;
    assert_int_equal(x.rc, KVA_OK);
    assert_int_equal(y.rc, KVA_OK);
    assert_true(num(x.r, "tallies", 0, "win") + num(x.r, "tallies", 0, "loss") > 0);
    assert_true(num(x.r, "tallies", 0, "win") == num(y.r, "tallies", 0, "loss"));
    assert_true(num(x.r, "tallies", 0, "loss") == num(y.r, "tallies", 0, "win"));
    assert_true(num(x.r, "tallies", 0, "tie") == num(y.r, "tallies", 0, "tie"));
    assert_true(num(x.r, "tallies", 0, "p") == num(y.r, "tallies", 0, "p"));
    assert_true(at(x.r, "tallies", 0, "diff")->lo == -at(y.r, "tallies", 0, "diff")->hi);
    for (int i = 0; i < 9; i++) {
        assert_true(num(x.r, "pairs", i, "diff") == -num(y.r, "pairs", i, "diff"));
        assert_true(at(x.r, "pairs", i, "diff")->hi == -at(y.r, "pairs", i, "diff")->lo);
        assert_true(num(x.r, "pairs", i, "p_adjusted") ==
                    num(y.r, "pairs", i, "p_adjusted"));
    }
    kva_report_free(x.r);
    kva_report_free(y.r);
    free(w);
}

/* A task at which three budgets agree is named once. */
static void words_name_the_tasks_of_a_verdict_once(void **state)
{
    struct world *w = grid_world();
    struct run x = methods(w, "two+uniform", "one+uniform");
    const char *ahead = NULL;
    int wins = 0, named = 0;

    (void)state;
    assert_int_equal(x.rc, KVA_OK);
    for (int i = 0; i < x.r->n_footer && !ahead; i++)
        ahead = strstr(x.r->footer[i], " A is ahead on ");
    assert_non_null(ahead);
    for (int t = 0; t < 3; t++) {
        char label[32];
        const char *at_label;
        bool win = false;

        (void)snprintf(label, sizeof label, "suite/t%02d@512", t);
        for (int i = 0; i < 9; i++) {
            bool it = strcmp(at(x.r, "pairs", i, "task")->text, label) == 0 &&
                      strcmp(at(x.r, "pairs", i, "verdict")->text, "win") == 0;

            wins += it;
            win = win || it;
        }
        at_label = strstr(ahead, label);
        assert_int_equal(at_label != NULL, win);
        assert_true(!at_label || !strstr(at_label + 1, label));
        named += win;
    }
    assert_true(wins > named && named > 1);
    kva_report_free(x.r);
    free(w);
}

/* A sample that takes part at three budgets is one unit: three equal budgets have the
 * interval of one. */
static void budgets_of_one_sample_are_no_further_evidence(void **state)
{
    static const char one[] = "1111111111111111111111111111110000000000";
    static const char two[] = "1111111111000000000011111111110000000000";
    struct world *w = world_new(1, 40), *v = world_new(1, 40);
    struct run x, y;

    (void)state;
    add_cell(v, 0, "one+uniform", 0.2, "physical", one);
    add_cell(v, 0, "two+uniform", 0.2, "physical", two);
    for (int b = 0; b < 3; b++)
        add_cell(w, 0, "one+uniform", 0.2 + 0.1 * b, "physical", one);
    for (int b = 0; b < 3; b++)
        add_cell(w, 0, "two+uniform", 0.2 + 0.1 * b, "physical", two);
    x = methods(w, "one+uniform", "two+uniform");
    y = methods(v, "one+uniform", "two+uniform");
    assert_int_equal((int)num(x.r, "tallies", 0, "n"), 3);
    assert_int_equal((int)num(x.r, "tallies", 0, "n_units"), 40);
    NEAR(num(x.r, "tallies", 0, "diff"), 0.25, 1e-12);
    NEAR(num(y.r, "tallies", 0, "diff"), 0.25, 1e-12);
    NEAR(at(x.r, "tallies", 0, "diff")->hi - at(x.r, "tallies", 0, "diff")->lo,
         at(y.r, "tallies", 0, "diff")->hi - at(y.r, "tallies", 0, "diff")->lo, 0.03);
    NEAR(num(x.r, "tallies", 0, "p"), num(y.r, "tallies", 0, "p"), 1e-12);
    kva_report_free(x.r);
    kva_report_free(y.r);
    free(w);
    free(v);
}

static void too_few_samples_are_invalid_and_no_tie(void **state)
{
    struct world *w = world_new(2, 20);
    struct run x;

    (void)state;
    add_cell(w, 0, "one+uniform", 0.5, "physical", A20);
    add_cell(w, 0, "two+uniform", 0.5, "physical", "111111111111111111xx");
    add_cell(w, 1, "one+uniform", 0.5, "physical", A20);
    add_cell(w, 1, "two+uniform", 0.5, "physical", "1111111111111111111x");
    x = methods(w, "one+uniform", "two+uniform");
    counts(&x, 0, 0, 1, 0, 1); /* 18 of 20 is under 95 %, 19 is not */
    assert_string_equal(at(x.r, "pairs", 0, "why")->text, "only 18 of 20 samples");
    assert_null(table(x.r, "means")); /* no mean of the one task that is left */
    assert_int_equal(x.valid, 2);     /* once nominal, once by bytes */
    kva_report_free(x.r);
    free(w);
}

static void a_failure_may_count_as_zero(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_compare_opts o = METHODS;
    struct run x;
    char *text;

    (void)state;
    add_cell(w, 0, "one+uniform", 0.5, "physical", A20);
    add_cell(w, 0, "two+uniform", 0.5, "physical", "1111111111xxxxxxxxxx");
    o.missing_zero = true;
    x = compare_with(w, pick(w, "one+uniform", NULL), w, pick(w, "two+uniform", NULL),
                     &o);
    counts(&x, 0, 1, 0, 0, 0);
    NEAR(num(x.r, "pairs", 0, "diff"), 0.5, 1e-12);
    text = rendered(x.r, kva_report_text);
    assert_non_null(strstr(text, "failures scored 0"));
    free(text);
    kva_report_free(x.r);
    o.nats = true;
    x = compare_with(w, pick(w, "one+uniform", NULL), w, pick(w, "two+uniform", NULL),
                     &o);
    assert_int_equal(x.rc, KVA_EINVALID);
    free(w);
}

static void dense_serves_every_budget(void **state)
{
    struct world *w = grid_world();
    struct run x = methods(w, "two+uniform", "dense");

    (void)state;
    assert_int_equal((int)num(x.r, "tallies", 0, "n"), 9);
    assert_int_equal(table(x.r, "pairs")->n_row, 9);
    kva_report_free(x.r);
    x = methods(w, "dense", "two+uniform");
    assert_int_equal((int)num(x.r, "tallies", 0, "n"), 9);
    kva_report_free(x.r);
    free(w);
}

static void masked_cells_meet_only_what_holds_as_much(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_compare_opts o = METHODS;
    struct run x;

    (void)state;
    add_cell(w, 0, "dense", 1, "dense", A20);
    add_cell(w, 0, "fake+uniform", 0.2, "mask", A20);
    add_cell(w, 0, "real+uniform", 0.2, "physical", H20);
    o.free = KVA_COMPARE_METHOD | KVA_COMPARE_ENFORCE;
    x = compare_with(w, pick(w, "fake+uniform", NULL), w, pick(w, "real+uniform", NULL),
                     &o);
    counts(&x, 0, 1, 0, 0, 0); /* at the nominal budget: ten more right */
    counts(&x, 1, 0, 0, 0, 1); /* at equal bytes: nothing to compare with */
    assert_string_equal(at(x.r, "tallies", 1, "match")->text, "bytes");
    kva_report_free(x.r);
    x = compare_with(w, pick(w, "fake+uniform", NULL), w, pick(w, "dense", NULL), &o);
    counts(&x, 1, 0, 1, 0, 0); /* its partner by bytes is the full cache */
    kva_report_free(x.r);
    free(w);
}

static void bytes_meet_the_largest_not_above(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_compare_opts o = METHODS;
    struct run x;

    (void)state;
    o.match = KVA_COMPARE_BYTES;
    add_cell(w, 0, "a+uniform", 0.5, "physical", A20);
    add_cell(w, 0, "a+uniform", 0.9, "physical", A20);
    add_cell(w, 0, "b+uniform", 0.485, "physical", N20);
    add_cell(w, 0, "b+uniform", 0.495, "physical", H20);
    add_cell(w, 0, "b+uniform", 0.505, "physical", A20);
    x = compare_with(w, pick(w, "a+uniform", NULL), w, pick(w, "b+uniform", NULL), &o);
    counts(&x, 0, 1, 0, 0, 1); /* 0.9 has none within 2 % */
    NEAR(num(x.r, "pairs_bytes", 0, "budget_b"), 0.495, 1e-12);
    NEAR(num(x.r, "pairs_bytes", 0, "diff"), 0.5, 1e-12);
    kva_report_free(x.r);
    free(w);
}

static void cells_without_a_partner_are_counted_and_listed(void **state)
{
    struct world *w = world_new(2, 20);
    struct kva_compare_opts o = METHODS;
    struct run x;
    char *text;

    (void)state;
    add_cell(w, 0, "one+uniform", 0.5, "physical", A20);
    add_cell(w, 0, "one+uniform", 0.25, "physical", A20);
    add_cell(w, 0, "two+uniform", 0.5, "physical", H20);
    add_cell(w, 1, "one+uniform", 0.5, "physical", A20);
    o.list_all = true;
    x = compare_with(w, pick(w, "one+uniform", NULL), w, pick(w, "two+uniform", NULL),
                     &o);
    counts(&x, 0, 1, 0, 0, 0);
    assert_int_equal(table(x.r, "lone")->n_row, 2);
    text = rendered(x.r, kva_report_text);
    assert_non_null(strstr(text, "2 cells of A side have no partner"));
    free(text);
    kva_report_free(x.r);
    free(w);
}

static void several_partners_are_refused_with_the_key_to_name(void **state)
{
    struct world *w = simple_world();
    bool *b = pick(w, NULL, "physical");
    struct run x = compare_with(w, pick(w, "bad+uniform", NULL), w, b, &METHODS);

    (void)state;
    assert_int_equal(x.rc, KVA_EINVALID);
    assert_non_null(strstr(x.err.text, "several partners"));
    assert_non_null(strstr(x.err.text, "name method"));
    x = compare_with(w, pick(w, "bad+uniform", NULL), w, pick(w, "bad+uniform", NULL),
                     &METHODS);
    assert_int_equal(x.rc, KVA_EINVALID);
    assert_non_null(strstr(x.err.text, "itself"));
    free(w);
}

static void no_partner_at_all_says_what_differs(void **state)
{
    struct world *w = world_new(1, 20);
    struct run x;

    (void)state;
    add_cell(w, 0, "one+uniform", 0.5, "physical", A20);
    add_cell(w, 0, "two+uniform", 0.25, "physical", A20);
    w->cell[1].schedule = S("block:128");
    x = methods(w, "one+uniform", "two+uniform");
    assert_int_equal(x.rc, KVA_EMISSING);
    assert_non_null(strstr(x.err.text, "budget, schedule"));
    free(w);
}

static void one_sample_and_equal_scores_have_no_verdict_but_a_tie(void **state)
{
    struct world *w = world_new(1, 1);
    struct run x;

    (void)state;
    add_cell(w, 0, "one+uniform", 0.5, "physical", "1");
    add_cell(w, 0, "two+uniform", 0.5, "physical", "0");
    x = methods(w, "one+uniform", "two+uniform");
    counts(&x, 0, 0, 1, 0, 0);
    assert_true(isnan(at(x.r, "pairs", 0, "diff")->lo));
    NEAR(num(x.r, "pairs", 0, "p"), 1, 0);
    kva_report_free(x.r);
    free(w);
    w = world_new(1, 20);
    add_cell(w, 0, "one+uniform", 0.5, "physical", A20);
    add_cell(w, 0, "two+uniform", 0.5, "physical", A20);
    x = methods(w, "one+uniform", "two+uniform");
    counts(&x, 0, 0, 1, 0, 0);
    assert_true(at(x.r, "pairs", 0, "diff")->lo < 0 &&
                at(x.r, "pairs", 0, "diff")->hi > 0);
    kva_report_free(x.r);
    free(w);
}

static void answer_nats_are_better_when_lower(void **state)
{
    struct world *w = simple_world();
    struct kva_compare_opts o = METHODS;
    struct run x;

    (void)state;
    o.nats = true;
    x = compare_with(w, pick(w, "good+uniform", NULL), w, pick(w, "half+uniform", NULL),
                     &o);
    counts(&x, 0, 1, 0, 0, 0);
    NEAR(num(x.r, "pairs", 0, "diff"), 0.95, 1e-9);
    NEAR(num(x.r, "pairs", 0, "score_a"), 0.1, 1e-9);
    NEAR(num(x.r, "pairs", 0, "score_b"), 1.05, 1e-9);
    kva_report_free(x.r);
    free(w);
}

static void two_databases_are_paired_by_digest(void **state)
{
    struct world *w = world_new(2, 20), *v = world_new(3, 20);
    struct kva_compare_opts o = METHODS;
    struct run x;

    (void)state;
    add_cell(w, 0, "one+uniform", 0.5, "physical", A20);
    add_cell(w, 1, "one+uniform", 0.5, "physical", H20);
    add_cell(v, 0, "one+uniform", 0.5, "physical", H20);
    add_cell(v, 1, "one+uniform", 0.5, "physical", H20);
    add_cell(v, 2, "one+uniform", 0.5, "physical", H20);
    o.free = 0;
    x = compare_with(w, pick(w, NULL, NULL), v, pick(v, NULL, NULL), &o);
    counts(&x, 0, 1, 1, 0, 0);
    assert_null(table(x.r, "pairs_bytes")); /* nothing that bytes could tell apart */
    kva_report_free(x.r);
    /* another text of sample 3 in the second file: no pair, and 19 of 20 are enough */
    v->sample[3].digest[0] ^= 1;
    x = compare_with(w, pick(w, NULL, NULL), v, pick(v, NULL, NULL), &o);
    assert_int_equal((int)num(x.r, "pairs", 0, "n"), 19);
    kva_report_free(x.r);
    v->sample[4].digest[0] ^= 1;
    x = compare_with(w, pick(w, NULL, NULL), v, pick(v, NULL, NULL), &o);
    counts(&x, 0, 0, 1, 0, 1);
    kva_report_free(x.r);
    free(w);
    free(v);
}

static void only_outcomes_of_the_named_runs_count(void **state)
{
    struct world *w = simple_world();
    bool none[1] = {false}, *a = pick(w, "good+uniform", NULL);
    bool *b = pick(w, "bad+uniform", NULL);
    struct kva_compare_side side[2] = {{&w->d, a, none, "A"}, {&w->d, b, NULL, "B"}};
    struct kva_error err = {0};
    struct kva_report *r = NULL;
    int valid = -1;

    (void)state;
    assert_int_equal(kva_compare_build(side, &METHODS, &r, &valid, &err), KVA_OK);
    assert_int_equal(valid, 0);
    assert_int_equal((int)num(r, "tallies", 0, "invalid"), 1);
    kva_report_free(r);
    free(a);
    free(b);
    free(w);
}

static void all_eleven_and_the_mean_of_the_shown_tasks(void **state)
{
    static const char *const ruler[13] = {"niah_single_1",
                                          "niah_single_2",
                                          "niah_single_3",
                                          "niah_multikey_1",
                                          "niah_multikey_2",
                                          "niah_multikey_3",
                                          "niah_multivalue",
                                          "niah_multiquery",
                                          "vt",
                                          "cwe",
                                          "fwe",
                                          "qa_1",
                                          "qa_2"};
    struct world *w = world_new(13, 20);
    struct run x;
    const struct kva_tab *t;

    (void)state;
    for (int k = 0; k < 13; k++) {
        w->task[k].suite = S("ruler");
        w->task[k].name = S(ruler[k]);
        add_cell(w, k, "one+uniform", 0.5, "physical", A20);
        add_cell(w, k, "two+uniform", 0.5, "physical", k < 11 ? H20 : A20);
    }
    x = methods(w, "one+uniform", "two+uniform");
    t = table(x.r, "means");
    assert_non_null(t);
    assert_int_equal(t->n_row, 4); /* all 13, ruler13, ruler11, niah8 */
    assert_string_equal(at(x.r, "means", 1, "name")->text, "ruler13");
    NEAR(num(x.r, "means", 1, "diff"), 0.5 * 11 / 13, 1e-12);
    assert_string_equal(at(x.r, "means", 2, "name")->text, "ruler11");
    NEAR(num(x.r, "means", 2, "diff"), 0.5, 1e-12);
    kva_report_free(x.r);
    free(w);
}

static void hostile_names_stay_text(void **state)
{
    static const char evil[] = "\"><script>|`=cmd\n\x1b[31m";
    struct world *w = simple_world();
    struct run x;
    json_t *root;
    char *s;

    (void)state;
    w->task[0].name = S(evil);
    x = methods(w, "good+uniform", "bad+uniform");
    assert_int_equal(x.rc, KVA_OK);
    s = rendered(x.r, kva_compare_json);
    root = json_loads(s, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "schema")),
                        "kvaudit.compare/1");
    json_decref(root);
    free(s);
    s = rendered(x.r, kva_report_text);
    assert_null(strchr(s, '\x1b'));
    free(s);
    s = rendered(x.r, kva_report_markdown);
    assert_null(strstr(s, "<script>"));
    free(s);
    kva_report_free(x.r);
    free(w);
}

static void the_same_data_give_the_same_bytes(void **state)
{
    struct world *w = grid_world();
    struct run x = methods(w, "one+uniform", "two+uniform");
    struct run y = methods(w, "one+uniform", "two+uniform");
    char *s = rendered(x.r, kva_compare_json), *t = rendered(y.r, kva_compare_json);

    (void)state;
    assert_string_equal(s, t);
    free(s);
    free(t);
    kva_report_free(x.r);
    kva_report_free(y.r);
    free(w);
}

static void every_allocation_may_fail(void **state)
{
    struct world *w = world_new(2, 8);
    struct kva_compare_opts o = METHODS;
    long n = 1, failed = 0;
    struct run x;
    char *whole, *again;

    (void)state;
    for (int t = 0; t < 2; t++) {
        add_cell(w, t, "dense", 1, "dense", "11111111");
        add_cell(w, t, "one+uniform", 0.5, "physical", "11110000");
        add_cell(w, t, "two+uniform", 0.5, "physical", "11000000");
    }
    o.replicates = 20;
    o.list_all = true;
    x = compare_with(w, pick(w, "one+uniform", NULL), w, pick(w, "two+uniform", NULL),
                     &o);
    assert_int_equal(x.rc, KVA_OK);
    whole = rendered(x.r, kva_compare_json);
    kva_report_free(x.r);
    for (;; n++) {
        bool *a = pick(w, "one+uniform", NULL), *b = pick(w, "two+uniform", NULL);

        kva_alloc_fail_at(n);
        x = compare_with(w, a, w, b, &o);
        if (x.rc != KVA_OK) {
            assert_int_equal(x.rc, KVA_ENOMEM);
            assert_null(x.r);
            failed++;
            continue;
        }
        kva_alloc_fail_at(0);
        again = rendered(x.r, kva_compare_json);
        assert_string_equal(whole, again);
        free(again);
        kva_report_free(x.r);
        if (n > failed + 40)
            break;
    }
    assert_true(failed > 100);
    free(whole);
    free(w);
}

/* Every method against the full cache and the best one, both matchings, three tie modes.
 */
static void the_view_counts_every_method_against_its_references(void **state)
{
    struct world *w = grid_world();
    struct kva_report *r;
    const struct kva_tab *t;
    int rows[2] = {0, 0};

    (void)state;
    r = built(w, "pairs");
    t = table(r, "wtl");
    assert_non_null(t);
    for (int i = 0; i < t->n_row; i++) {
        bool dense = strcmp(at(r, "wtl", i, "reference")->text, "dense") == 0;

        rows[dense]++;
        assert_true(num(r, "wtl", i, "win") + num(r, "wtl", i, "tie") +
                        num(r, "wtl", i, "loss") + num(r, "wtl", i, "invalid") ==
                    num(r, "wtl", i, "n"));
        if (!dense) { /* two is the better one, and equal budgets hold equal bytes */
            assert_string_equal(at(r, "wtl", i, "method")->text, "one");
            assert_string_equal(at(r, "wtl", i, "reference")->text, "two");
            assert_string_equal(at(r, "wtl", i, "match")->text, "both");
            assert_string_equal(at(r, "wtl", i, "grid")->text,
                                "3 tasks, 3 budgets, 1 model");
            assert_int_equal((int)num(r, "wtl", i, "n"), 9);
        }
    }
    /* dense: two methods, three modes at nominal budgets, one row by bytes: none meets */
    assert_int_equal(rows[1], 8);
    assert_int_equal(rows[0], 3);
    kva_report_free(r);
    free(w);
}

static void the_reference_of_the_view_may_be_named(void **state)
{
    struct world *w = grid_world();
    struct kva_report_opts o = {
        .view = "pairs", .replicates = 200, .reference = "one", .one_view = true};
    struct kva_error err = {0};
    struct kva_report *r = NULL;
    const struct kva_tab *t;

    (void)state;
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_OK);
    t = table(r, "wtl");
    assert_non_null(t);
    for (int i = 0; i < t->n_row; i++)
        assert_string_equal(at(r, "wtl", i, "reference")->text, "one");
    assert_int_equal(t->n_row, 3);
    kva_report_free(r);
    o.reference = "three";
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_EINVALID);
    assert_non_null(strstr(err.text, "three"));
    free(w);
}

/* What is masked keeps its counts at the nominal budget and meets nothing by bytes. */
static void the_view_shows_masked_methods_beside_physical_ones(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;
    const struct kva_tab *t;
    bool nominal = false, bytes = false;

    (void)state;
    add_cell(w, 0, "dense", 1, "dense", A20);
    add_cell(w, 0, "fake+uniform", 0.2, "mask", A20);
    add_cell(w, 0, "real+uniform", 0.2, "physical", H20);
    r = built(w, "pairs");
    t = table(r, "wtl");
    assert_non_null(t);
    for (int i = 0; i < t->n_row; i++) {
        if (strcmp(at(r, "wtl", i, "method")->text, "fake (mask)") != 0 ||
            strcmp(at(r, "wtl", i, "reference")->text, "real") != 0)
            continue;
        if (strcmp(at(r, "wtl", i, "match")->text, "nominal") == 0)
            nominal |= num(r, "wtl", i, "win") == 1;
        else
            bytes |= num(r, "wtl", i, "invalid") == 1;
    }
    assert_true(nominal && bytes);
    kva_report_free(r);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_could_not_be_checked_are_said),
        cmocka_unit_test(the_four_pairs_of_the_document),
        cmocka_unit_test(a_count_that_does_not_add_up_is_no_tally),
        cmocka_unit_test(sign_tests_of_the_document),
        cmocka_unit_test(wins_and_losses_are_those_of_a),
        cmocka_unit_test(exchanging_the_sides_exchanges_wins_and_losses),
        cmocka_unit_test(words_name_the_tasks_of_a_verdict_once),
        cmocka_unit_test(budgets_of_one_sample_are_no_further_evidence),
        cmocka_unit_test(too_few_samples_are_invalid_and_no_tie),
        cmocka_unit_test(a_failure_may_count_as_zero),
        cmocka_unit_test(dense_serves_every_budget),
        cmocka_unit_test(masked_cells_meet_only_what_holds_as_much),
        cmocka_unit_test(bytes_meet_the_largest_not_above),
        cmocka_unit_test(cells_without_a_partner_are_counted_and_listed),
        cmocka_unit_test(several_partners_are_refused_with_the_key_to_name),
        cmocka_unit_test(no_partner_at_all_says_what_differs),
        cmocka_unit_test(one_sample_and_equal_scores_have_no_verdict_but_a_tie),
        cmocka_unit_test(answer_nats_are_better_when_lower),
        cmocka_unit_test(two_databases_are_paired_by_digest),
        cmocka_unit_test(only_outcomes_of_the_named_runs_count),
        cmocka_unit_test(all_eleven_and_the_mean_of_the_shown_tasks),
        cmocka_unit_test(hostile_names_stay_text),
        cmocka_unit_test(the_same_data_give_the_same_bytes),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_view_counts_every_method_against_its_references),
        cmocka_unit_test(the_reference_of_the_view_may_be_named),
        cmocka_unit_test(the_view_shows_masked_methods_beside_physical_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
