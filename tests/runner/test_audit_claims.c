/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_audit_claims.c - worked examples M1, M2, M3 and every rule of analysis.md 6.3. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runner/audit_claims.h"

#define near(got, want, eps) assert_true(fabs((double)(got) - (want)) <= (eps))

/* M1: 2 layers, 2 KV heads, 100 tokens, 64 dimensions, f16, three quarters removed; kept
 * (40, 10), (30, 20). */
static struct kva_claim_bytes m1(double held, double meta, double masked)
{
    return (struct kva_claim_bytes){.nominal = 25600,
                                    .dense = 102400,
                                    .held = held,
                                    .meta = meta,
                                    .kept = 100,
                                    .masked = masked,
                                    .row = 256,
                                    .kvheads = 4};
}

static void is(struct kva_claim_result r, enum kva_finding f, const char *reason)
{
    assert_string_equal(kva_finding_text(r.verdict), kva_finding_text(f));
    if (reason != NULL)
        assert_string_equal(r.reason, reason);
    else
        assert_null(r.reason);
}

static void bytes_of_example_m1(void **state)
{
    struct kva_claim_bytes b;
    struct kva_claim_result r;

    (void)state;
    b = m1(102400, 0, 300);
    r = kva_claim_bytes(&b);
    is(r, KVA_REFUTED, "MASK_ONLY");
    near(r.value, 4.00, 0.005);
    b = m1(35840, 0, 0);
    r = kva_claim_bytes(&b);
    is(r, KVA_UPHELD_C, "PAD_WASTE");
    near(r.value, 1.40, 0.005);
    b = m1(32768, 0, 0); /* pages of 16 */
    r = kva_claim_bytes(&b);
    is(r, KVA_UPHELD_C, "PAD_WASTE");
    near(r.value, 1.28, 0.005);
    b = m1(25600, 424, 0); /* pages of one, 424 bytes of positions and offsets */
    r = kva_claim_bytes(&b);
    is(r, KVA_UPHELD, NULL);
    near(r.value, 1.0166, 0.00005);
    near(kva_claim_packed(&b), 26024, 0);
    /* the bytes of each layout from the kept counts */
    assert_int_equal((40 + 40 + 30 + 30) * 256, 35840);
    assert_int_equal((48 + 16 + 32 + 32) * 256, 32768);
}

static void entries_above_the_budget_are_not_slack(void **state)
{
    struct kva_claim_bytes b = m1(28160, 0, 0);

    (void)state;
    b.kept = 110;
    is(kva_claim_bytes(&b), KVA_REFUTED, "BYTES_OVER");
    /* hidden entries are held, whether or not something else was freed */
    b = m1(28160, 0, 10);
    is(kva_claim_bytes(&b), KVA_REFUTED, "BYTES_OVER");
    /* metadata counts: the tolerance ends at 1.02 */
    b = m1(25600, 512, 0);
    is(kva_claim_bytes(&b), KVA_UPHELD, NULL);
    b = m1(25600, 513, 0);
    is(kva_claim_bytes(&b), KVA_UPHELD_C, "PAD_WASTE");
}

static void a_share_may_drift_by_one_point(void **state)
{
    (void)state;
    is(kva_claim_ratio(0.259, 0.25), KVA_UPHELD, NULL);
    is(kva_claim_ratio(0.24, 0.25), KVA_UPHELD, NULL);
    is(kva_claim_ratio(0.262, 0.25), KVA_REFUTED, "RATIO_DRIFT");
    is(kva_claim_ratio(0.238, 0.25), KVA_REFUTED, "RATIO_DRIFT");
    is(kva_claim_ratio((double)NAN, 0.25), KVA_UNTESTED, NULL);
}

static void masked_and_physical_answers_must_agree(void **state)
{
    struct kva_claim_equal e = {.n = 8, .exact = true};

    (void)state;
    is(kva_claim_equal(&e), KVA_UPHELD, NULL);
    e.nats = 1;
    is(kva_claim_equal(&e), KVA_REFUTED, "LOGIT_DRIFT");
    e.exact = false; /* last bits may differ outside of `ref` */
    is(kva_claim_equal(&e), KVA_UPHELD, NULL);
    e.tokens = 1;
    is(kva_claim_equal(&e), KVA_UNDECIDED, NULL);
    e.tokens = 0;
    e.logits = 3;
    e.top = 20;
    e.dlogit = 0.02; /* 1e-3 of the largest */
    is(kva_claim_equal(&e), KVA_UPHELD, NULL);
    e.dlogit = 0.021;
    is(kva_claim_equal(&e), KVA_REFUTED, "LOGIT_DRIFT");
    e.dlogit = 0;
    e.positions = true;
    is(kva_claim_equal(&e), KVA_REFUTED, "POSITION_DRIFT");
    e.sets = 2;
    is(kva_claim_equal(&e), KVA_REFUTED, "LOGIT_DRIFT");
    e = (struct kva_claim_equal){0};
    is(kva_claim_equal(&e), KVA_UNTESTED, NULL);
}

static void a_sum_skips_masked_entries_without_a_trace(void **state)
{
    /* M3: order decides the last bits, a weight of nought does not */
    const volatile float w[] = {.6f, 0, .3f, 0, .1f},
                         v[] = {1.1f, 123.4f, -2.7f, 9.9f, .35f};
    volatile float all = 0, live = 0, back = 0;

    (void)state;
    for (int i = 0; i < 5; i++)
        all += w[i] * v[i];
    for (int i = 0; i < 5; i++)
        if (w[i] > 0)
            live += w[i] * v[i];
    for (int i = 4; i >= 0; i--)
        back += w[i] * v[i];
    assert_true(all == live);
    near((double)live, -0.11500003933906555, 1e-17);
    near((double)back, -0.11500000953674316, 1e-17);
}

static void a_fake_key_leaks_under_a_soft_cap_only(void **state)
{
    /* kernels.md 7: entry 0 of three is evicted */
    static const double score[] = {1, 2, 3}, value[] = {1, 2, 3};
    static const uint8_t gone[] = {1, 0, 0}, none[] = {0, 0, 0}, all[] = {1, 1, 1};
    double exact = 0, leak = kva_fakekey_leak(score, value, gone, 3, 5, &exact);

    (void)state;
    near(exact, 2.731059, 5e-7);
    near(exact + leak, 2.730634, 5e-7);
    assert_true(kva_fakekey_leak(score, value, gone, 3, 0, &exact) == 0);
    near(exact, 2.731059, 5e-7);
    assert_true(kva_fakekey_leak(score, value, none, 3, 5, NULL) == 0);
    assert_true(isnan(kva_fakekey_leak(score, value, all, 3, 5, NULL)));
    /* a wider cap hides more; that of Gemma 2 leaks under the last bit of a float */
    assert_true(fabs(kva_fakekey_leak(score, value, gone, 3, 6, NULL)) < -leak);
    near(kva_fakekey_leak(score, value, gone, 3, 50, NULL), 0, 1e-20);
}

static void leaks_are_counted_by_kv_head(void **state)
{
    /* M2: the two best of six under two questions */
    static const double mean[2][6] = {{.10, .45, .05, .10, .25, .05},
                                      {.10, .05, .425, .075, .275, .075}};
    int32_t best[2][2];
    struct kva_claim_leak l = {.variants = 3, .heads = 3};
    struct kva_claim_result r;

    (void)state;
    for (int q = 0; q < 2; q++) {
        int a = 0, b = -1;

        for (int j = 1; j < 6; j++)
            a = mean[q][j] > mean[q][a] ? j : a;
        for (int j = 0; j < 6; j++)
            if (j != a && (b < 0 || mean[q][j] > mean[q][b]))
                b = j;
        best[q][0] = a < b ? a : b;
        best[q][1] = a < b ? b : a;
    }
    assert_int_equal(best[0][0], 1);
    assert_int_equal(best[0][1], 4);
    assert_int_equal(best[1][0], 2);
    assert_int_equal(best[1][1], 4);
    l.jaccard = 2 + kva_claim_jaccard(best[0], 2, best[1], 2);
    near(l.jaccard - 2, 1.0 / 3, 1e-12);
    is(kva_claim_leak(&l), KVA_UPHELD, NULL);
    l.changed = 1;
    r = kva_claim_leak(&l);
    is(r, KVA_REFUTED, "QUERY_LEAK");
    near(r.value, 1.0 / 3, 1e-12);
    l.heads = 0;
    is(kva_claim_leak(&l), KVA_UNTESTED, NULL);
    near(kva_claim_jaccard(best[0], 0, best[1], 0), 1, 0);
    near(kva_claim_jaccard(best[0], 2, best[1], 0), 0, 0);
}

static void peaks_and_growth_have_their_tolerance(void **state)
{
    (void)state;
    is(kva_claim_peak(102, 100, 100), KVA_UPHELD, NULL);
    is(kva_claim_peak(110, 101, 100), KVA_UPHELD_C, "PAD_WASTE");
    is(kva_claim_peak(200, 198, 100), KVA_REFUTED, "PEAK_OVER");
    is(kva_claim_peak(0, 0, 100), KVA_UNTESTED, NULL);
    is(kva_claim_growth(1000, 900, 100, false), KVA_UPHELD, NULL);
    is(kva_claim_growth(1001, 900, 100, false), KVA_REFUTED, "BUDGET_GROWTH");
    is(kva_claim_growth(700, 900, 100, false), KVA_REFUTED, "BUDGET_GROWTH");
    is(kva_claim_growth(700, 900, 100, true), KVA_UPHELD, NULL);
    is(kva_claim_incremental(0, 1e-3), KVA_UPHELD, NULL);
    is(kva_claim_incremental(0.5, 1e-3), KVA_REFUTED, "DENSE_PREFILL");
}

static void the_headline_is_the_worst(void **state)
{
    struct kva_claim_result r[KVA_CLAIMS];

    (void)state;
    for (int k = 0; k < KVA_CLAIMS; k++)
        r[k] = kva_claim_note(KVA_NOT_CLAIMED, "no claim");
    assert_int_equal(kva_claims_headline(r), KVA_NOT_CLAIMED);
    r[3].verdict = KVA_UPHELD;
    assert_int_equal(kva_claims_headline(r), KVA_UPHELD);
    r[0].verdict = KVA_UPHELD_C;
    assert_int_equal(kva_claims_headline(r), KVA_UPHELD_C);
    r[5].verdict = KVA_UNTESTED;
    assert_int_equal(kva_claims_headline(r), KVA_UNTESTED);
    r[4].verdict = KVA_UNDECIDED;
    assert_int_equal(kva_claims_headline(r), KVA_UNDECIDED);
    r[7].verdict = KVA_REFUTED;
    assert_int_equal(kva_claims_headline(r), KVA_REFUTED);
}

static void the_parts_of_a_loss_add_up(void **state)
{
    static const double a[] = {1, 1, 1, 0, 1, 1, 0, 1}, b[] = {1, 1, 1, 0, 1, 1, 0, 1},
                        c[] = {0, 1, 0, 0, 1, 0, 0, 1}, d[] = {1, 1, 0, 0, 1, 1, 0, 1};
    struct kva_split_task t[2] = {{.name = "x", .arm = {a, b, c, d}, .n = 8},
                                  {.name = "y", .arm = {a, b, d, d}, .n = 8}};
    struct kva_difference p[KVA_SPLITS];

    (void)state;
    assert_int_equal(kva_claim_split(t, 2, false, 7, p, NULL), KVA_OK);
    near(p[KVA_SPLIT_TOTAL].mean, (0.375 + 0.125) / 2, 1e-12);
    near(p[KVA_SPLIT_STORAGE].mean, 0, 0);
    assert_true(p[KVA_SPLIT_STORAGE].same);
    near(p[KVA_SPLIT_OVERSHOOT].mean, 0.125, 1e-12);
    near(p[KVA_SPLIT_UNIFORMITY].mean, 0.125, 1e-12);
    near(p[KVA_SPLIT_TOTAL].mean,
         p[KVA_SPLIT_STORAGE].mean + p[KVA_SPLIT_OVERSHOOT].mean +
             p[KVA_SPLIT_UNIFORMITY].mean,
         1e-12);
    assert_true(p[KVA_SPLIT_CLAIM].ci.ok && p[KVA_SPLIT_CLAIM].ci.lo <= 0.125 &&
                p[KVA_SPLIT_CLAIM].ci.hi >= 0.125);
    /* nats: differences of all pairs, Student's t */
    assert_int_equal(kva_claim_split(t, 2, true, 7, p, NULL), KVA_OK);
    near(p[KVA_SPLIT_OVERSHOOT].mean, 2.0 / 16, 1e-12);
    /* a missing arm leaves the parts it is not in */
    t[0].arm[2] = t[1].arm[2] = NULL;
    assert_int_equal(kva_claim_split(t, 2, false, 7, p, NULL), KVA_OK);
    assert_true(isnan(p[KVA_SPLIT_TOTAL].mean) && isnan(p[KVA_SPLIT_UNIFORMITY].mean));
    assert_false(isnan(p[KVA_SPLIT_CLAIM].mean));
}

static void an_undecided_score_names_the_samples_it_needs(void **state)
{
    struct kva_difference d = {.mean = 0, .ci = {-0.02, 0.02, true}, .n = 100};
    struct kva_claim_result r;

    (void)state;
    r = kva_claim_score(&d, false);
    is(r, KVA_UNDECIDED, NULL);
    assert_non_null(strstr(r.note, "about 400 would"));
    near(kva_claim_needed(0, 0.02, 100, 0.01), 400, 0);
    near(kva_claim_needed(0.05, 0.08, 100, 0.01), 400, 0);
    assert_true(isnan(kva_claim_needed(0.01, 0.02, 100, 0.01)));
    d.ci = (struct kva_interval){-0.01, 0.01, true};
    is(kva_claim_score(&d, false), KVA_UPHELD, NULL);
    d = (struct kva_difference){.mean = 0.3, .ci = {0.011, 0.6, true}, .n = 20};
    is(kva_claim_score(&d, false), KVA_REFUTED, "SCORE_DROP");
    /* equal sets are no matter of estimation */
    d = (struct kva_difference){.mean = 0, .ci = {-0.2, 0.2, true}, .n = 4, .same = true};
    is(kva_claim_score(&d, true), KVA_UPHELD, NULL);
    is(kva_claim_score(&d, false), KVA_UNDECIDED, NULL);
    d.mean = (double)NAN;
    is(kva_claim_score(&d, true), KVA_UNTESTED, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_example_m1),
        cmocka_unit_test(entries_above_the_budget_are_not_slack),
        cmocka_unit_test(a_share_may_drift_by_one_point),
        cmocka_unit_test(masked_and_physical_answers_must_agree),
        cmocka_unit_test(a_sum_skips_masked_entries_without_a_trace),
        cmocka_unit_test(a_fake_key_leaks_under_a_soft_cap_only),
        cmocka_unit_test(leaks_are_counted_by_kv_head),
        cmocka_unit_test(peaks_and_growth_have_their_tolerance),
        cmocka_unit_test(the_headline_is_the_worst),
        cmocka_unit_test(the_parts_of_a_loss_add_up),
        cmocka_unit_test(an_undecided_score_names_the_samples_it_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
