/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_regress_score.c - the score gate: what fails, warns, is quarantined, cannot be
 * decided. */
#include "fixture.h"

#include "reports/regress.h"

/* n samples: the first `both` right in both, then `lost` right in the base only, `won` in
 * the new run only, the rest wrong. */
static const char *scores(int n, int both, int lost, int won, bool now)
{
    static char text[8][2048];
    static int at;
    char *s = text[at = (at + 1) % 8];

    for (int i = 0; i < n; i++)
        s[i] = i < both                ? '1'
               : i < both + lost       ? (now ? '0' : '1')
               : i < both + lost + won ? (now ? '1' : '0')
                                       : '0';
    s[n] = '\0';
    return s;
}

static struct kva_regress_opts score_only(void)
{
    struct kva_regress_opts o;

    kva_regress_defaults(&o);
    o.gate[KVA_REGRESS_TIME] = o.gate[KVA_REGRESS_MEMORY] = false;
    o.replicates = 500;
    return o;
}

static void decided(struct kva_regress *r, const struct world *base,
                    const struct world *now, const struct kva_regress_opts *o,
                    struct kva_regress_quarantine *q, int n_q, int64_t ms)
{
    struct kva_error err = {0};

    kva_regress_init(r, o);
    assert_int_equal(kva_regress_add(r, &base->d, &now->d, "last-good", 1, &err), KVA_OK);
    assert_int_equal(kva_regress_decide(r, q, n_q, ms, &err), KVA_OK);
}

static const struct kva_regress_row *find(const struct kva_regress *r, const char *what)
{
    for (int i = 0; i < r->n_row; i++)
        if (strcmp(r->row[i].what, what) == 0)
            return &r->row[i];
    return NULL;
}

/* One task of n samples, one method. */
static struct world *one(int n, const char *text)
{
    struct world *w = world_new(1, n);

    add_cell(w, 0, "snapkv+uniform", 0.5, "physical", text);
    return w;
}

/* Verdict of one task; *row may be NULL. */
static enum kva_regress_verdict verdict_of(int n, int both, int lost, int won,
                                           const struct kva_regress_opts *o,
                                           struct kva_regress_row *row)
{
    struct world *a = one(n, scores(n, both, lost, won, false));
    struct world *b = one(n, scores(n, both, lost, won, true));
    struct kva_regress r;
    enum kva_regress_verdict v;

    decided(&r, a, b, o, NULL, 0, 0);
    v = find(&r, "task")->verdict;
    if (row) {
        *row = *find(&r, "task");
        row->slug = row->message = NULL;
    }
    kva_regress_release(&r);
    free(a);
    free(b);
    return v;
}

static void equal_databases_pass(void **state)
{
    struct kva_regress_opts o;
    struct world *a = simple_world(), *b = simple_world();
    struct kva_regress r;

    (void)state;
    kva_regress_defaults(&o);
    o.gate[KVA_REGRESS_TIME] = false;
    decided(&r, a, b, &o, NULL, 0, 0);
    assert_int_equal(kva_regress_exit(&r), 0);
    assert_int_equal(r.n_cells, 6);
    assert_int_equal(r.n_comparisons, 0);
    assert_int_equal(r.n_unchanged, 5); /* blind has no score to lose */
    for (int i = 0; i < r.n_row; i++)
        assert_int_equal(r.row[i].verdict, KVA_REGRESS_PASS);
    kva_regress_release(&r);
    free(a);
    free(b);
}

/* n and share of differing samples from the table of 4.7: 200, 10 %. */
static void a_drop_fails_above_the_threshold_only(void **state)
{
    struct kva_regress_opts o = score_only();
    struct kva_regress_row row;

    (void)state;
    assert_int_equal(verdict_of(200, 100, 18, 2, &o, &row), KVA_REGRESS_FAIL);
    NEAR(row.delta, -0.08, 1e-12);
    /* P(X >= 18), X ~ Bin(20, 1/2) */
    NEAR(row.p, 0.0002012252807617, 1e-15);
    NEAR(row.p_adj, row.p, 1e-15);
    assert_true(row.lo < -0.08 && row.hi > -0.08 && row.hi < 0);
    o.task_drop = 0.08; /* at the threshold: tolerated, but told */
    assert_int_equal(verdict_of(200, 100, 18, 2, &o, NULL), KVA_REGRESS_WARN);
    o.task_drop = 0.0799;
    assert_int_equal(verdict_of(200, 100, 18, 2, &o, NULL), KVA_REGRESS_FAIL);
    o.task_drop = 0.0801;
    assert_int_equal(verdict_of(200, 100, 18, 2, &o, NULL), KVA_REGRESS_WARN);
    o.task_drop = 0.01; /* two points, nothing that chance does not do */
    assert_int_equal(verdict_of(200, 100, 12, 8, &o, NULL), KVA_REGRESS_PASS);
}

static void fewer_than_five_one_sided_losses_never_fail(void **state)
{
    struct kva_regress_opts o = score_only();
    struct kva_regress_row row;

    (void)state;
    assert_int_equal(verdict_of(50, 20, 4, 0, &o, &row), KVA_REGRESS_PASS);
    NEAR(row.p, 1.0 / 16, 1e-15);
    assert_int_equal(verdict_of(50, 20, 5, 0, &o, &row), KVA_REGRESS_FAIL);
    NEAR(row.p, 1.0 / 32, 1e-15);
}

static void improvements_are_the_mirror(void **state)
{
    struct kva_regress_opts o = score_only();
    struct kva_regress_row row;

    (void)state;
    assert_int_equal(verdict_of(200, 100, 2, 18, &o, &row), KVA_REGRESS_BETTER);
    NEAR(row.p_better, 0.0002012252807617, 1e-15);
    assert_true(row.p > 0.99);
}

static void all_comparisons_of_the_night_share_the_level(void **state)
{
    struct kva_regress_opts o = score_only();
    struct world *a = world_new(2, 50), *b = world_new(2, 50);
    struct kva_regress r;
    int fails = 0;

    (void)state;
    for (int t = 0; t < 2; t++) { /* 5 : 0 in one task, nothing in the other: no member */
        add_cell(a, t, "snapkv+uniform", 0.5, "physical",
                 scores(50, 20, t ? 0 : 5, 0, false));
        add_cell(b, t, "snapkv+uniform", 0.5, "physical",
                 scores(50, 20, t ? 0 : 5, 0, true));
    }
    decided(&r, a, b, &o, NULL, 0, 0);
    assert_int_equal(r.n_comparisons, 2); /* a task and the suite */
    assert_int_equal(r.n_unchanged, 1);
    NEAR(find(&r, "suite")->p, 1.0 / 32, 1e-12);
    NEAR(find(&r, "suite")->p_adj, 2.0 / 32, 1e-12);
    NEAR(find(&r, "suite")->delta, -0.05, 1e-12);
    for (int i = 0; i < r.n_row; i++)
        fails += r.row[i].verdict == KVA_REGRESS_FAIL;
    assert_int_equal(fails, 0);
    kva_regress_release(&r);
    free(a);
    free(b);
}

/* Dense three times, means 0.90, 0.92, 0.91: s = 0.01, floor 0.0283 (reports.md 4.6). */
static struct world *with_reps(const char *backend, int lost)
{
    static const int right[3] = {90, 92, 91};
    struct world *w = world_new(1, 100);
    struct kva_data_outcome *o;
    int n;

    w->run[0].backend = S(backend);
    add_cell(w, 0, "dense", 1, "dense", "");
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < 3; k++) {
            o = &w->out[w->d.n_outcomes++];
            *o = (struct kva_data_outcome){.cell = 0,
                                           .sample = i,
                                           .rep = k,
                                           .status = S("ok"),
                                           .score = i < right[k]};
        }
    w->cell[0].n_expected = 300;
    n = w->d.n_outcomes;
    add_cell(w, 0, "snapkv+uniform", 0.5, "physical", scores(100, 60, 0, 0, false));
    for (int i = 0; i < lost; i++)
        w->out[n + i].score = 0;
    return w;
}

static void a_drop_within_the_noise_of_dense_does_not_fail(void **state)
{
    struct kva_regress_opts o = score_only();

    (void)state;
    o.alpha = 0.9; /* let the floor alone decide */
    for (int lost = 2; lost <= 3; lost++) {
        struct world *a = with_reps("cuda", 0), *b = with_reps("cuda", lost);
        struct kva_regress r;
        const struct kva_regress_row *row = NULL;

        decided(&r, a, b, &o, NULL, 0, 0);
        for (int i = 0; i < r.n_row; i++)
            if (strcmp(r.row[i].what, "task") == 0 && r.row[i].delta < 0)
                row = &r.row[i];
        assert_non_null(row);
        assert_true(row->floor_known);
        NEAR(row->floor, 0.0283, 5e-5);
        assert_int_equal(row->verdict == KVA_REGRESS_FAIL, lost == 3);
        kva_regress_release(&r);
        free(a);
        free(b);
    }
}

static void changed_tokens_warn_and_fail_when_asked(void **state)
{
    struct kva_regress_opts o = score_only();

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct world *a = one(20, A20), *b = one(20, A20);
        struct kva_regress r;

        for (int i = 0; i < 20; i++)
            a->out[i].gen_key = b->out[i].gen_key = 7;
        b->out[3].gen_key = 8;
        o.exact = k == 1;
        if (k == 2)
            b->run[0].backend = S("cuda");
        decided(&r, a, b, &o, NULL, 0, 0);
        assert_int_equal(kva_regress_exit(&r), k == 1);
        if (k == 2) {
            assert_null(find(&r, "tokens"));
            assert_int_equal(r.n_tokens, 0);
        } else {
            assert_int_equal(find(&r, "tokens")->verdict,
                             k ? KVA_REGRESS_FAIL : KVA_REGRESS_WARN);
            assert_int_equal(r.n_tokens, 20);
            assert_int_equal(r.n_tokens_changed, 1);
        }
        kva_regress_release(&r);
        free(a);
        free(b);
    }
}

static void a_removed_cell_fails_unless_allowed_an_added_one_never(void **state)
{
    struct kva_regress_opts o = score_only();
    struct world *a = world_new(1, 20), *b = world_new(1, 20);
    struct kva_regress r;

    (void)state;
    add_cell(a, 0, "dense", 1, "dense", A20);
    add_cell(b, 0, "dense", 1, "dense", A20);
    add_cell(a, 0, "snapkv+uniform", 0.5, "physical", A20);
    decided(&r, a, b, &o, NULL, 0, 0);
    assert_int_equal(kva_regress_exit(&r), 1);
    assert_non_null(strstr(find(&r, "cell")->message, "removed"));
    kva_regress_release(&r);
    o.allow_removed = true;
    decided(&r, a, b, &o, NULL, 0, 0);
    assert_int_equal(kva_regress_exit(&r), 0);
    kva_regress_release(&r);
    o.allow_removed = false;
    decided(&r, b, a, &o, NULL, 0, 0);
    assert_int_equal(kva_regress_exit(&r), 0);
    assert_non_null(strstr(find(&r, "cell")->message, "added"));
    kva_regress_release(&r);
    free(a);
    free(b);
}

static void missing_samples_are_no_verdict(void **state)
{
    struct kva_regress_opts o = score_only();
    struct world *a = one(20, A20), *b = one(20, "1111111111111111111x");
    struct world *c = one(20, "111111111111111111x."), *none = world_new(1, 20);
    struct kva_regress r;

    (void)state;
    decided(&r, a, b, &o, NULL, 0, 0); /* 19 of 20: 95 % */
    assert_int_equal(kva_regress_exit(&r), 0);
    kva_regress_release(&r);
    decided(&r, a, c, &o, NULL, 0, 0);
    assert_int_equal(kva_regress_exit(&r), 5);
    assert_int_equal(find(&r, "task")->verdict, KVA_REGRESS_MISSING);
    kva_regress_release(&r);
    decided(&r, none, none, &o, NULL, 0, 0);
    assert_int_equal(kva_regress_exit(&r), 5);
    kva_regress_release(&r);
    free(a);
    free(b);
    free(c);
    free(none);
}

static void quarantine_holds_until_it_expires_and_never_for_exact_cells(void **state)
{
    struct kva_regress_opts o = score_only();
    struct kva_regress_quarantine q = {.cell = "slug",
                                       .gate = KVA_REGRESS_SCORE,
                                       .expires_ms = 1000,
                                       .owner = "me",
                                       .reason = "flaky <driver>"};

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct world *a = one(200, scores(200, 100, 18, 2, false));
        struct world *b = one(200, scores(200, 100, 18, 2, true));
        struct kva_regress r;

        a->run[0].backend = b->run[0].backend = S(k == 2 ? "cpu" : "cuda");
        q.refused = q.matched = q.expired = false;
        q.reason = "flaky <driver>";
        decided(&r, a, b, &o, &q, 1, k == 1 ? 1000 : 999);
        assert_true(q.matched);
        assert_int_equal(q.expired, k == 1);
        assert_int_equal(q.refused, k == 2);
        assert_int_equal(kva_regress_exit(&r), k != 0);
        if (k == 0) {
            struct kva_buf x;

            kva_buf_init(&x, 0);
            kva_regress_junit(&r, &x);
            assert_non_null(strstr(x.data, "<skipped message=\"quarantined: flaky "
                                           "&lt;driver&gt;; "));
            assert_non_null(strstr(x.data, "failures=\"0\" errors=\"0\" skipped=\"1\""));
            kva_buf_release(&x);
        }
        kva_regress_release(&r);
        free(a);
        free(b);
    }
}

static void the_anchor_has_twice_the_thresholds_and_joins_the_family(void **state)
{
    struct kva_regress_opts o = score_only();
    struct world *a = one(200, scores(200, 100, 18, 2, false));
    struct world *b = one(200, scores(200, 100, 18, 2, true));
    struct kva_error err = {0};
    struct kva_regress r;

    (void)state;
    o.task_drop = 0.05; /* 8 points: above it, below twice of it */
    kva_regress_init(&r, &o);
    assert_int_equal(kva_regress_add(&r, &a->d, &b->d, "last-good", 1, &err), KVA_OK);
    assert_int_equal(kva_regress_add(&r, &a->d, &b->d, "release", 2, &err), KVA_OK);
    assert_int_equal(kva_regress_decide(&r, NULL, 0, 0, &err), KVA_OK);
    assert_int_equal(r.n_comparisons, 2);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_FAIL);
    assert_string_equal(r.row[0].against, "last-good");
    assert_int_equal(r.row[1].verdict, KVA_REGRESS_WARN);
    assert_string_equal(r.row[1].against, "release");
    NEAR(r.row[0].p_adj, 2 * r.row[0].p, 1e-15);
    kva_regress_release(&r);
    free(a);
    free(b);
}

static void non_inferiority_turns_the_question_round(void **state)
{
    struct kva_regress_opts o = score_only();

    (void)state;
    o.non_inferiority = 0.05;
    assert_int_equal(verdict_of(200, 150, 0, 0, &o, NULL), KVA_REGRESS_PASS);
    assert_int_equal(verdict_of(200, 150, 8, 0, &o, NULL), KVA_REGRESS_INCOMPARABLE);
    assert_int_equal(verdict_of(200, 100, 60, 0, &o, NULL), KVA_REGRESS_FAIL);
}

static void samples_are_paired_by_digest_not_by_place(void **state)
{
    struct kva_regress_opts o = score_only();
    struct world *a = one(20, "10000000000000000000");
    struct world *b = one(20, "00000000000000000001");
    struct kva_data_sample swap = b->sample[0];
    struct kva_regress r;

    (void)state;
    b->sample[0] = b->sample[19]; /* the one right answer is to the same sample */
    b->sample[19] = swap;
    decided(&r, a, b, &o, NULL, 0, 0);
    assert_true(find(&r, "task")->p == 1 && find(&r, "task")->delta == 0);
    assert_int_equal(find(&r, "task")->n, 20);
    kva_regress_release(&r);
    free(a);
    free(b);
}

static void the_smallest_drop_found_grows_with_the_family(void **state)
{
    double alone = kva_regress_mde(200, 0.1, 0.025, 1);

    (void)state;
    NEAR(alone, 0.062, 0.012); /* 4.7: 6.2 points by the normal approximation */
    assert_true(kva_regress_mde(200, 0.1, 0.05, 60) > alone);
    assert_true(kva_regress_mde(1300, 0.1, 0.025, 1) < alone);
    NEAR(kva_regress_mde(1300, 0.1, 0.025, 1), 0.025, 0.003);
    assert_true(isnan(kva_regress_mde(20, 0.1, 0.05, 60)));
    assert_true(isnan(kva_regress_mde(0, 0.1, 0.05, 1)));
}

static void a_score_gate_survives_every_failed_allocation(void **state)
{
    struct world *a = world_new(2, 20), *b = world_new(2, 20);
    struct kva_regress_opts o;
    int refused = 0;

    (void)state;
    for (int t = 0; t < 2; t++) { /* the suite's test flips signs */
        add_cell(a, t, "snapkv+uniform", 0.5, "physical", scores(20, 12, 6, 2, false));
        add_cell(b, t, "snapkv+uniform", 0.5, "physical", scores(20, 12, 6, 2, true));
    }
    kva_regress_defaults(&o);
    o.gate[KVA_REGRESS_TIME] = o.gate[KVA_REGRESS_MEMORY] = false;
    o.replicates = 100;
    for (int n = 1; n <= 1000; n++) {
        struct kva_error err = {0};
        struct kva_regress r;
        enum kva_status rc;

        kva_regress_init(&r, &o);
        kva_alloc_fail_at(n);
        rc = kva_regress_add(&r, &a->d, &b->d, "base", 1, &err);
        kva_alloc_fail_at(0);
        assert_true(rc == KVA_OK || rc == KVA_ENOMEM);
        refused += rc == KVA_ENOMEM;
        for (int i = 0; i < r.n_row && rc == KVA_OK; i++)
            assert_true(!isnan(r.row[i].p)); /* a row without its test would hold */
        kva_regress_release(&r);
    }
    assert_in_range(refused, 15, 990);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_databases_pass),
        cmocka_unit_test(a_drop_fails_above_the_threshold_only),
        cmocka_unit_test(fewer_than_five_one_sided_losses_never_fail),
        cmocka_unit_test(improvements_are_the_mirror),
        cmocka_unit_test(all_comparisons_of_the_night_share_the_level),
        cmocka_unit_test(a_drop_within_the_noise_of_dense_does_not_fail),
        cmocka_unit_test(changed_tokens_warn_and_fail_when_asked),
        cmocka_unit_test(a_removed_cell_fails_unless_allowed_an_added_one_never),
        cmocka_unit_test(missing_samples_are_no_verdict),
        cmocka_unit_test(quarantine_holds_until_it_expires_and_never_for_exact_cells),
        cmocka_unit_test(the_anchor_has_twice_the_thresholds_and_joins_the_family),
        cmocka_unit_test(non_inferiority_turns_the_question_round),
        cmocka_unit_test(samples_are_paired_by_digest_not_by_place),
        cmocka_unit_test(the_smallest_drop_found_grows_with_the_family),
        cmocka_unit_test(a_score_gate_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
