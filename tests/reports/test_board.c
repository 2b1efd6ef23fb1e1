/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_board.c - groups, ranks, floors, retention, audit verdicts, counts that add up. */
#include "tests/reports/tables.h"

static void ranks_are_one_plus_the_significantly_better_and_ties_are_ties(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    const struct kva_board *b = mean_board(r, "physical");

    (void)state;
    /* good 20, same 19, half 10, bad 0: good against same differs in one sample, p = 1 */
    assert_int_equal(arm(b, "good+uniform", 0.5)->rank, 1);
    assert_true(arm(b, "good+uniform", 0.5)->tied);
    assert_int_equal(arm(b, "same+uniform", 0.5)->rank, 1);
    assert_int_equal(arm(b, "half+uniform", 0.5)->rank, 3);
    assert_false(arm(b, "half+uniform", 0.5)->tied);
    assert_int_equal(arm(b, "bad+uniform", 0.5)->rank, 4);
    assert_int_equal(arm(b, "dense", 1)->rank, 0);
    assert_int_equal(arm(b, "blind", 1)->rank, 0);
    /* dense on top, blind at the bottom */
    assert_int_equal(b->arm[0].role, KVA_ARM_DENSE);
    assert_int_equal(b->arm[b->n_arm - 1].role, KVA_ARM_BLIND);
    kva_report_free(r);
    free(w);
}

/* a has the first 45 of 60 right, y 35 of these (p = 0.002), x the last 34 (p = 0.12). */
static void a_better_rank_of_a_lower_score_is_explained(void **state)
{
    char a[61] = "", x[61] = "", y[61] = "";
    struct world *w = world_new(1, 60), *simple = simple_world();
    struct kva_report *r;

    (void)state;
    for (int i = 0; i < 60; i++) {
        a[i] = i < 45 ? '1' : '0';
        x[i] = i >= 26 ? '1' : '0';
        y[i] = i < 35 ? '1' : '0';
    }
    add_cell(w, 0, "a", 0.5, "physical", a);
    add_cell(w, 0, "dense", 1, "dense", a);
    add_cell(w, 0, "x", 0.5, "physical", x);
    add_cell(w, 0, "y", 0.5, "physical", y);
    r = built(w, NULL);
    assert_int_equal(arm(mean_board(r, "physical"), "x", 0.5)->rank, 1);
    assert_int_equal(arm(mean_board(r, "physical"), "y", 0.5)->rank, 2);
    assert_true(noted(tab(r, "board1"), "at 50 %, x has 0 of them and y has 1, though it "
                                        "scores more."));
    kva_report_free(r);
    r = built(simple, NULL);
    assert_false(noted(tab(r, "board1"), "ranks count"));
    kva_report_free(r);
    free(simple);
    free(w);
}

static void retention_delta_and_nats_are_scaled_by_dense_and_blind(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    const struct kva_board *b = mean_board(r, "physical");
    const struct kva_arm *half = arm(b, "half+uniform", 0.5);

    (void)state;
    NEAR(half->score, 0.5, 1e-12);
    NEAR(half->boot.ratio, 0.5, 1e-12);
    NEAR(half->boot.diff, -0.5, 1e-12);
    /* nats: dense 0.1, blind 3, half (0.1 + 2)/2 = 1.05: (3 - 1.05)/(3 - 0.1) */
    NEAR(half->nll, 1.05, 1e-12);
    NEAR(half->nats.ratio, 1.95 / 2.9, 1e-12);
    NEAR(half->effective, 0.501, 1e-12);
    /* Wilson of 10 of 20, as metrics prove it */
    assert_true(half->score_ci.ok);
    NEAR(half->score_ci.lo, kva_stat_wilson(10, 20).lo, 1e-12);
    /* McNemar of 10 to 0, adjusted over four rows whose p are 1/512, ~2e-6, 1, 1 */
    NEAR(half->p_adj, 2 * kva_stat_mcnemar(0, 10, NULL), 1e-9);
    /* equal scores never give an interval of width zero */
    assert_true(arm(b, "good+uniform", 0.5)->boot.ratio_ci.hi >
                arm(b, "good+uniform", 0.5)->boot.ratio_ci.lo);
    assert_true(isnan(half->ttft_ms));
    kva_report_free(r);
    free(w);
}

/* Two rows that answer everything right, one of them with more doubt: the score ties,
 * the nats do not. */
static void answer_nats_separate_rows_that_the_score_ties(void **state)
{
    struct world *w = world_new(1, 40);
    const char *all = A20 A20, *none = N20 N20;
    struct kva_report *r;
    const struct kva_board *b;
    const struct kva_arm *sure, *unsure, *lost;
    char *csv;

    (void)state;
    add_cell(w, 0, "blind", 1, "dense", none);
    add_cell(w, 0, "dense", 1, "dense", all);
    add_cell(w, 0, "lost", 0.5, "physical", all);
    add_cell(w, 0, "sure", 0.5, "physical", all);
    add_cell(w, 0, "unsure", 0.5, "physical", all);
    for (int i = 0; i < 40; i++) {
        w->out[80 + i].gold_nll = (double)NAN;
        w->out[120 + i].gold_nll = 0.1 + 0.002 * (i % 7 - 3);
        w->out[160 + i].gold_nll = 0.5 + 0.01 * (i % 5);
    }
    r = built(w, NULL);
    b = mean_board(r, "physical");
    sure = arm(b, "sure", 0.5);
    unsure = arm(b, "unsure", 0.5);
    lost = arm(b, "lost", 0.5);
    assert_int_equal(sure->rank, 1);
    assert_int_equal(unsure->rank, 1);
    assert_int_equal(sure->nats_rank, 1);
    assert_false(sure->nats_tied);
    assert_int_equal(unsure->nats_rank, 2);
    assert_int_equal(lost->nats_rank,
                     0); /* no nats: no rank by them, the score's stays */
    assert_int_equal(lost->rank, 1);
    assert_true(isnan(lost->nats.ratio) && isnan(lost->nats_p));
    NEAR(unsure->nats.ratio, (3 - 0.52) / 2.9, 1e-12);
    NEAR(unsure->nats.diff, -0.42, 1e-12);
    assert_true(unsure->nats.ratio_ci.lo < unsure->nats.ratio &&
                unsure->nats.ratio < unsure->nats.ratio_ci.hi);
    assert_true(unsure->nats_p_adj < 0.01);
    assert_true(sure->nats_p_adj > 0.05);
    csv = rendered(r, kva_report_csv);
    assert_non_null(strstr(csv, "nats_retention,nats_retention_lo,nats_retention_hi,"
                                "nats_p,nats_rank"));
    free(csv);
    kva_report_free(r);
    /* without a blind run there is no scale, but still a comparison of methods */
    for (int o = 0; o < 40; o++)
        w->out[o].gold_nll = (double)NAN;
    r = built(w, NULL);
    b = mean_board(r, "physical");
    assert_true(isnan(arm(b, "unsure", 0.5)->nats.ratio));
    assert_int_equal(arm(b, "unsure", 0.5)->nats_rank, 2);
    kva_report_free(r);
    free(w);
}

static void a_task_below_its_floor_is_in_no_mean(void **state)
{
    struct world *w = world_new(2, 20);
    struct kva_report *r;
    const struct kva_board *b;
    char *text;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", H20);
    add_cell(w, 0, "dense", 1, "dense", A20);
    /* dense 10 of 20: lower bound 0.299, guess floor 0.5 */
    add_cell(w, 1, "a", 0.5, "physical", A20);
    add_cell(w, 1, "dense", 1, "dense", H20);
    w->task[1].guess_floor = 0.5;
    r = built(w, NULL);
    b = mean_board(r, "physical");
    assert_int_equal(b->n_task, 2);
    assert_int_equal(b->n_used, 1);
    assert_true(b->below[1]);
    NEAR(arm(b, "a", 0.5)->score, 0.5, 1e-12);
    text = rendered(r, kva_report_text);
    assert_non_null(strstr(text, "below floor: suite/t01@512"));
    assert_non_null(strstr(text, "4 cells exist, 2 shown"));
    free(text);
    kva_report_free(r);
    free(w);
}

/* 16 of 20 right is above a floor of 1/2 (Wilson from 0.584); four contexts of five with
 * four questions each are not (Wilson of 4 in 5 from 0.376). */
static void questions_of_one_context_are_no_independent_evidence(void **state)
{
    static const char *const names[] = {"c0", "c1", "c2", "c3", "c4"};
    struct world *w = world_new(1, 20);
    struct kva_report *r;
    const struct kva_board *b;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", "01110111011101110000");
    add_cell(w, 0, "dense", 1, "dense", "11111111111111110000");
    w->task[0].guess_floor = 0.5;
    r = built(w, NULL);
    b = mean_board(r, "physical");
    NEAR(b->dense_lo[0], 0.584, 5e-4);
    assert_false(b->below[0]);
    /* 4 of 20 differ, all to one side: as if none did, 7.8489 / 27.8489 */
    NEAR(arm(b, "a", 0.5)->boot.mde, 0.281838, 1e-5);
    kva_report_free(r);
    for (int i = 0; i < 20; i++)
        w->sample[i].cluster = S(names[i / 4]);
    r = built(w, NULL);
    b = mean_board(r, "physical");
    assert_true(b->dense_lo[0] < 0.5);
    assert_true(b->below[0]);
    kva_report_free(r);
    free(w);
}

/* 40 questions on 20 contexts, 16 of them differ, all of 8 contexts: sqrt(7.8489 * 0.24 /
 * 19) with the contexts known, sqrt(7.8489 * 0.24 / 39) without. */
static void the_smallest_effect_counts_contexts(void **state)
{
    static char names[20][4];
    struct world *w = world_new(1, 40);
    struct kva_report *r;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", "0000000000000000111111111111111111111111");
    add_cell(w, 0, "dense", 1, "dense", "1111111111111111111111111111111111111111");
    r = built(w, NULL);
    NEAR(arm(mean_board(r, "physical"), "a", 0.5)->boot.mde, 0.219776, 1e-5);
    kva_report_free(r);
    for (int i = 0; i < 40; i++) {
        snprintf(names[i / 2], sizeof names[0], "c%d", i / 2);
        w->sample[i].cluster = names[i / 2];
    }
    r = built(w, NULL);
    NEAR(arm(mean_board(r, "physical"), "a", 0.5)->boot.mde, 0.314871, 2e-6);
    assert_true(noted(tab(r, "board1"), "40 samples on 20 contexts"));
    kva_report_free(r);
    free(w);
}

static void a_blind_run_raises_the_floor(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", H20);
    add_cell(w, 0, "blind", 1, "dense", "11111111000000000000"); /* 0.4 */
    add_cell(w, 0, "dense", 1, "dense", H20);                    /* lower bound 0.299 */
    r = built(w, NULL);
    assert_true(mean_board(r, "physical")->below[0]);
    assert_int_equal(arm(mean_board(r, "physical"), "a", 0.5)->unranked,
                     KVA_UNRANKED_FLOOR);
    kva_report_free(r);
    free(w);
}

static void masked_rows_have_a_table_of_their_own_and_no_rank(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;
    const struct kva_board *p, *m;

    (void)state;
    add_cell(w, 0, "a", 0.5, "mask", A20);
    add_cell(w, 0, "a", 0.5, "fakekey", A20);
    add_cell(w, 0, "a", 0.5, "physical", H20);
    add_cell(w, 0, "b", 0.5, "physical", N20);
    add_cell(w, 0, "dense", 1, "dense", A20);
    r = built(w, NULL);
    p = mean_board(r, "physical");
    m = mean_board(r, "mask");
    assert_non_null(p);
    assert_non_null(m);
    assert_int_equal(p->n_method, 2);
    assert_int_equal(m->n_method, 1);
    assert_int_equal(arm(m, "a", 0.5)->rank, 0);
    assert_int_equal(arm(m, "a", 0.5)->badge, KVA_BADGE_MASKED);
    assert_int_equal(arm(p, "a", 0.5)->badge, KVA_BADGE_PHYSICAL);
    assert_non_null(strstr(m->title, "memory not reduced"));
    m = mean_board(r, "fakekey");
    assert_non_null(m);
    assert_int_equal(m->n_method, 1);
    assert_int_equal(arm(m, "a", 0.5)->rank, 0);
    assert_non_null(strstr(m->title, "fake keys (simulation: memory not reduced)"));
    kva_report_free(r);
    free(w);
}

static void audit_bits_give_the_verdicts_of_5_2(void **state)
{
    static const struct {
        int audit;
        enum kva_badge badge;
    } rows[] = {{0, KVA_BADGE_PHYSICAL}, {1, KVA_BADGE_OVER},
                {2, KVA_BADGE_OVER},     {8, KVA_BADGE_BROKEN},
                {64, KVA_BADGE_BROKEN},  {-1, KVA_BADGE_UNVERIFIED}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world *w = simple_world();
        struct kva_report *r;
        const struct kva_arm *a;
        bool bad = rows[i].badge == KVA_BADGE_OVER || rows[i].badge == KVA_BADGE_BROKEN;
        struct kva_buf page;

        for (int o = 0; o < w->d.n_outcomes; o++)
            if (strcmp(w->cell[w->out[o].cell].method, "good+uniform") == 0)
                w->out[o].memory.audit = rows[i].audit;
        r = built(w, NULL);
        a = arm(mean_board(r, "physical"), "good+uniform", 0.5);
        assert_int_equal(a->badge, rows[i].badge);
        assert_int_equal(a->unranked, bad ? KVA_UNRANKED_AUDIT : KVA_RANKED);
        assert_int_equal(a->rank > 0, !bad);
        kva_buf_init(&page, 0);
        assert_int_equal(kva_report_html(r, NULL, &page, NULL), KVA_OK);
        assert_int_equal(strstr(page.data, "failed audit: bit ") != NULL, bad);
        kva_buf_release(&page);
        kva_report_free(r);
        free(w);
    }
}

static void an_incomplete_row_has_no_rank_and_is_counted(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;
    const struct kva_arm *a;
    char *text;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", "1111111111111111111x");
    add_cell(w, 0, "b", 0.5, "physical", "1111111111..........");
    add_cell(w, 0, "c", 0.5, "physical", H20);
    add_cell(w, 0, "d", 0.5, "physical", "....................");
    add_cell(w, 0, "dense", 1, "dense", A20);
    r = built(w, NULL);
    a = arm(mean_board(r, "physical"), "a", 0.5);
    assert_int_equal(a->rank, 0);
    assert_true(a->comparable); /* 19 of 20 is 95 % */
    a = arm(mean_board(r, "physical"), "b", 0.5);
    assert_int_equal(a->rank, 0);
    assert_false(a->comparable);
    assert_true(isnan(a->boot.ratio)); /* n/a, not a guess */
    assert_int_equal(arm(mean_board(r, "physical"), "c", 0.5)->rank, 1);
    assert_int_equal(arm(mean_board(r, "physical"), "d", 0.5)->unranked,
                     KVA_UNRANKED_EMPTY);
    text = rendered(r, kva_report_text);
    assert_non_null(strstr(text, "5 cells exist, 4 shown above, 1 ranked, 2 incomplete, "
                                 "1 reference; 1"));
    free(text);
    kva_report_free(r);
    free(w);
}

static void rows_that_fell_back_to_uniform_shares_are_named(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r;
    int half = -1;

    (void)state;
    for (int i = 0; i < w->d.n_cells; i++)
        if (strcmp(w->cell[i].method, "half+uniform") == 0)
            half = i;
    for (int i = 0, n = 0; i < w->d.n_outcomes; i++)
        if (w->out[i].cell == half && n++ < 3)
            w->out[i].flags = KVA_DB_FELL_BACK;
    r = built(w, NULL);
    assert_int_equal(arm(mean_board(r, "physical"), "half+uniform", 0.5)->fell_back, 3);
    assert_int_equal(arm(mean_board(r, "physical"), "good+uniform", 0.5)->fell_back, 0);
    assert_true(noted(tab(r, "board1"), "half at 50 % in 3 of 20 samples."));
    assert_false(noted(tab(r, "board1"), "good"));
    kva_report_free(r);
    free(w);
}

static void without_dense_nothing_is_ranked_and_the_reason_is_given(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;
    char *text;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", H20);
    r = built(w, NULL);
    assert_int_equal(arm(mean_board(r, "physical"), "a", 0.5)->unranked,
                     KVA_UNRANKED_NO_DENSE);
    text = rendered(r, kva_report_text);
    assert_non_null(strstr(text, "the dense run is missing"));
    free(text);
    kva_report_free(r);
    free(w);
}

static void an_empty_database_is_missing_and_says_so(void **state)
{
    struct kva_data none = {0};
    struct kva_error err = {0};
    struct kva_report *r;

    (void)state;
    assert_int_equal(kva_report_build(&none, NULL, &r, &err), KVA_EMISSING);
    assert_null(r);
    assert_non_null(strstr(err.text, "no results"));
}

static void one_sample_and_equal_scores_never_crash(void **state)
{
    struct world *w = world_new(1, 1);
    struct kva_report *r;
    char *text;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", "1");
    add_cell(w, 0, "b", 0.5, "physical", "1");
    add_cell(w, 0, "dense", 1, "dense", "1");
    r = built(w, NULL);
    assert_int_equal(arm(mean_board(r, "physical"), "a", 0.5)->rank, 1);
    assert_false(arm(mean_board(r, "physical"), "a", 0.5)->boot.ratio_ci.ok);
    assert_true(arm(mean_board(r, "physical"), "a", 0.5)->score_ci.lo <
                arm(mean_board(r, "physical"), "a", 0.5)->score_ci.hi);
    text = rendered(r, kva_report_text);
    free(text);
    kva_report_free(r);
    free(w);
}

static void only_leaves_out_counts_and_keeps_the_references(void **state)
{
    struct world *w = simple_world();
    struct kva_report_opts o = {.only = "method=g*,budget=50%", .replicates = 100};
    struct kva_report *r;
    struct kva_error err = {0};
    char *text;

    (void)state;
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_OK);
    assert_int_equal(mean_board(r, "physical")->n_method, 1);
    text = rendered(r, kva_report_text);
    assert_non_null(
        strstr(text, "6 cells in the databases: 3 in these tables, 3 left out"));
    free(text);
    kva_report_free(r);
    o.only = "methd=g*";
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_EINVALID);
    assert_non_null(strstr(err.text, "did you mean 'method'"));
    free(w);
}

static void cells_that_differ_in_hidden_identity_never_share_a_table(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;
    int boards = 0;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", H20);
    add_cell(w, 0, "b", 0.5, "physical", A20)->spec_json = S("{\"seed\":2}");
    add_cell(w, 0, "dense", 1, "dense", A20);
    r = built(w, NULL);
    for (int i = 0; i < r->n_board; i++)
        if (!r->board[i].single) {
            boards++;
            assert_int_equal(r->board[i].n_method, 1);
            assert_non_null(
                strstr(r->board[i].title, boards == 1 ? "(seed=1)" : "(seed=2)"));
        }
    assert_int_equal(boards, 2);
    kva_report_free(r);
    free(w);
}

/* References without a method: each (numerics, kv) has a board with its own pair. */
static void
lone_references_of_every_variant_are_shown_with_their_own_partner(void **state)
{
    static const char *const numerics[] = {"f32", "ref"}, *const kv[] = {"f16", "f32"};
    struct world *w = world_new(2, 20);
    struct kva_report *r;
    char *text;
    int i = 0, boards = 0;

    (void)state;
    for (int t = 0; t < 2; t++)
        for (int ref = 0; ref < 2; ref++)
            for (int v = 0; v < 4; v++, i++) {
                struct kva_data_cell *c =
                    add_cell(w, t, ref ? "dense" : "blind", 1, "dense", ref ? A20 : N20);

                c->numerics = S(numerics[v / 2]);
                c->kv = S(kv[v % 2]);
                digest("key of a variant", 10 * t + v, c->dense_key);
            }
    r = built(w, NULL);
    for (int k = 0; k < r->n_board; k++) {
        const struct kva_board *b = &r->board[k];

        boards++;
        assert_int_equal(b->n_arm, 2);
        for (int t = 0; t < 2; t++) {
            const struct kva_data_cell *x = &w->cell[b->arm[b->dense].cell[t]];
            const struct kva_data_cell *y = &w->cell[b->arm[b->blind].cell[t]];

            assert_string_equal(x->numerics, b->numerics);
            assert_string_equal(x->kv, b->kv);
            assert_memory_equal(x->dense_key, y->dense_key, 32);
        }
        NEAR(b->arm[b->dense].score, 1, 0);
    }
    assert_int_equal(boards, 4);
    text = rendered(r, kva_report_text);
    assert_non_null(strstr(text, "16 cells in the databases: 16 in these tables"));
    assert_non_null(strstr(text, "ref with f32 cache"));
    assert_non_null(strstr(text, "at 512 tokens, f32 with f32 cache: the full"));
    free(text);
    kva_report_free(r);
    /* dense alone, as `methods: ["dense"]` leaves it */
    w->d.n_cells = w->d.n_outcomes = 0;
    for (int v = 0; v < 4; v++) {
        struct kva_data_cell *c = add_cell(w, 0, "dense", 1, "dense", A20);

        c->numerics = S(numerics[v / 2]);
        c->kv = S(kv[v % 2]);
        digest("key of a variant", v, c->dense_key);
    }
    r = built(w, NULL);
    assert_int_equal(r->n_board, 4);
    kva_report_free(r);
    free(w);
}

/* c ran on other samples than a and b: it is no tie, it has no rank. */
static void rows_on_other_samples_are_never_called_tied(void **state)
{
    struct world *w = world_new(1, 40);
    struct kva_report *r;
    const struct kva_board *b;
    char *text;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", A20);
    add_cell(w, 0, "b", 0.5, "physical", A20);
    add_cell(w, 0, "c", 0.5, "physical", A20);
    for (int o = w->d.n_outcomes - 20; o < w->d.n_outcomes; o++)
        w->out[o].sample += 20;
    add_cell(w, 0, "dense", 1, "dense", A20 A20);
    r = built(w, NULL);
    b = mean_board(r, "physical");
    assert_int_equal(arm(b, "a", 0.5)->rank, 1);
    assert_true(arm(b, "a", 0.5)->tied);
    assert_int_equal(arm(b, "c", 0.5)->rank, 0);
    assert_false(arm(b, "c", 0.5)->tied);
    assert_int_equal(arm(b, "c", 0.5)->unranked, KVA_UNRANKED_SAMPLES);
    text = rendered(r, kva_report_text);
    assert_non_null(strstr(text, "all 2 ranked methods are tied, 1 without a rank"));
    assert_non_null(strstr(text, "4 cells exist, 3 shown above, 2 ranked, 1 reference; 1 "
                                 "not shown, 1 not"));
    assert_non_null(strstr(text, "1 row not ranked: not comparable (samples differ)."));
    free(text);
    kva_report_free(r);
    /* two rows that share nothing: neither is better, neither is tied */
    w->cell[1].method = S("dense");
    w->cell[1].budget_kind = w->cell[1].enforce = S("dense");
    w->cell[1].budget = 1;
    w->d.n_cells = 3;
    w->d.n_outcomes = 60;
    r = built(w, NULL);
    b = mean_board(r, "physical");
    assert_int_equal(arm(b, "a", 0.5)->rank, 0);
    assert_int_equal(arm(b, "c", 0.5)->rank, 0);
    text = rendered(r, kva_report_text);
    assert_non_null(strstr(text, "nothing is ranked: the samples differ"));
    assert_null(strstr(text, "1="));
    free(text);
    kva_report_free(r);
    free(w);
}

static void
the_usual_schedule_comes_first_and_bytes_beside_the_budget_are_named(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;
    char *text;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", H20)->schedule = S("block:64");
    add_cell(w, 0, "dense", 1, "dense", A20)->schedule = S("block:64");
    add_cell(w, 0, "a", 0.5, "physical", H20);
    add_cell(w, 0, "dense", 1, "dense", A20);
    digest("key of oneshot", 0, w->cell[2].dense_key);
    digest("key of oneshot", 0, w->cell[3].dense_key);
    r = built(w, NULL);
    assert_string_equal(r->board[0].schedule, "oneshot");
    text = rendered(r, kva_report_text);
    assert_null(strstr(text, "attention can read"));
    free(text);
    kva_report_free(r);
    for (int o = 0; o < 20; o++) /* 0.12 of the full cache in bookkeeping */
        w->out[o].memory.kv_meta_bytes = 120000;
    r = built(w, NULL);
    text = rendered(r, kva_report_text);
    assert_non_null(
        strstr(text, "1 row holds at least 10 % of the full cache more than"));
    free(text);
    kva_report_free(r);
    free(w);
}

static void short_names_drop_what_all_share_and_never_collide(void **state)
{
    static const char *const spec[] = {
        "snapkv:kernel=5,window=64+uniform", "snapkv:kernel=5,window=32+uniform",
        "knorm:recent=0+uniform", "knorm:recent=0+adakv", "uniform"};
    static const char *const want[] = {"snapkv:window=64", "snapkv:window=32", "knorm",
                                       "knorm+adakv", "uniform"};
    const char *out[5];
    struct kva_arena a;
    struct kva_error err = {0};

    (void)state;
    kva_arena_init(&a);
    assert_int_equal(kva_report_short_names(&a, spec, 5, out, &err), KVA_OK);
    for (int i = 0; i < 5; i++)
        assert_string_equal(out[i], want[i]);
    kva_arena_release(&a);
}

static void forty_thousand_outcomes_take_seconds(void **state)
{
    enum { TASKS = 10, METHODS = 8, BUDGETS = 5, N = 98 };
    struct world *w = world_new(TASKS, N);
    static char names[METHODS][8];
    struct kva_report *r;
    struct kva_error err = {0};
    struct kva_report_opts o = {.replicates = 10000, .one_view = true};
    uint64_t t0 = kva_cpu_ns();

    (void)state;
    for (int t = 0; t < TASKS; t++) {
        char row[N + 1];

        memset(row, '1', N);
        row[N] = 0;
        add_cell(w, t, "dense", 1, "dense", row);
        for (int m = 0; m < METHODS; m++)
            for (int k = 0; k < BUDGETS; k++) {
                struct kva_rng rng = {(uint64_t)(t * 100 + m * 10 + k)};

                (void)snprintf(names[m], sizeof names[m], "m%d", m);
                for (int i = 0; i < N; i++)
                    row[i] = kva_rng_below(&rng, 10) < 5 + (uint64_t)m % 5 ? '1' : '0';
                add_cell(w, t, names[m], 0.1 * (k + 1), "physical", row);
            }
    }
    assert_true(w->d.n_outcomes > 39000);
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_OK);
    assert_true(kva_cpu_ns() - t0 < 60000000000ULL);
    print_message("%d outcomes: %.2f s\n", w->d.n_outcomes,
                  (double)(kva_cpu_ns() - t0) / 1e9);
    assert_int_equal(mean_board(r, "physical")->n_method, METHODS * BUDGETS);
    kva_report_free(r);
    free(w);
}

static void budgets_are_named_in_full(void **state)
{
    struct kva_arena a;

    (void)state;
    kva_arena_init(&a);
    assert_string_equal(kva_report_budget(&a, "keep", 0.0625), "6.25 %");
    assert_string_equal(kva_report_budget(&a, "tokens", 1e9), "1000000000 tokens");
    assert_string_equal(kva_report_budget(&a, "bytes", 1e12), "1000000000000 bytes");
    assert_string_equal(kva_report_budget(&a, "dense", 1), "all");
    kva_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_are_named_in_full),
        cmocka_unit_test(ranks_are_one_plus_the_significantly_better_and_ties_are_ties),
        cmocka_unit_test(a_better_rank_of_a_lower_score_is_explained),
        cmocka_unit_test(retention_delta_and_nats_are_scaled_by_dense_and_blind),
        cmocka_unit_test(answer_nats_separate_rows_that_the_score_ties),
        cmocka_unit_test(a_task_below_its_floor_is_in_no_mean),
        cmocka_unit_test(questions_of_one_context_are_no_independent_evidence),
        cmocka_unit_test(the_smallest_effect_counts_contexts),
        cmocka_unit_test(a_blind_run_raises_the_floor),
        cmocka_unit_test(masked_rows_have_a_table_of_their_own_and_no_rank),
        cmocka_unit_test(audit_bits_give_the_verdicts_of_5_2),
        cmocka_unit_test(an_incomplete_row_has_no_rank_and_is_counted),
        cmocka_unit_test(rows_that_fell_back_to_uniform_shares_are_named),
        cmocka_unit_test(without_dense_nothing_is_ranked_and_the_reason_is_given),
        cmocka_unit_test(an_empty_database_is_missing_and_says_so),
        cmocka_unit_test(one_sample_and_equal_scores_never_crash),
        cmocka_unit_test(only_leaves_out_counts_and_keeps_the_references),
        cmocka_unit_test(cells_that_differ_in_hidden_identity_never_share_a_table),
        cmocka_unit_test(
            lone_references_of_every_variant_are_shown_with_their_own_partner),
        cmocka_unit_test(rows_on_other_samples_are_never_called_tied),
        cmocka_unit_test(
            the_usual_schedule_comes_first_and_bytes_beside_the_budget_are_named),
        cmocka_unit_test(short_names_drop_what_all_share_and_never_collide),
        cmocka_unit_test(forty_thousand_outcomes_take_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
