/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_lukv.c - budgets from a profile; the rounding of worked example E10. */
#include "tests/methods/alloc_test.h"

#include <unistd.h>

#include "methods/lukv.h"

/* The same share removed in every column. */
static struct kva_table profile_of(int layers, int heads, const double *share)
{
    double data[8 * KVA_LUKV_COLUMNS];

    for (int c = 0; c < layers * heads; c++)
        for (int i = 0; i < KVA_LUKV_COLUMNS; i++)
            data[c * KVA_LUKV_COLUMNS + i] = share[c];
    return table_of("lukv", layers, heads, KVA_LUKV_COLUMNS, data);
}

static const char *const BARE = "random+lukv:profile=x,sinks=0,window=0";
static const char *const COMPAT = "random+lukv:compat=1,profile=x,sinks=0,window=0";

static void rounding_of_E10(void **state)
{
    struct kva_scores sc = flat_scores(1, 3, 10);
    struct kva_table t = profile_of(1, 3, (double[]){.50, .5004, .2501});

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kva_decision d = divide(&sc, i == 0 ? BARE : COMPAT, &t, NULL, 17);

        assert_budgets(d, 5, 5, 7);
        kva_decision_release(&d);
    }
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void rounding_as_published(void **state)
{
    /* ideals 2.5, 3.8, 1.3; floors 2, 3, 1; the two extras go to heads 1 and 0 */
    struct kva_scores sc = flat_scores(1, 3, 10);
    struct kva_table t = profile_of(1, 3, (double[]){.75, .62, .87});

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kva_decision d = divide(&sc, i == 0 ? BARE : COMPAT, &t, NULL, 8);

        assert_budgets(d, 3, 4, 1);
        kva_decision_release(&d);
    }
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void the_column_is_that_of_the_budget(void **state)
{
    double data[2 * KVA_LUKV_COLUMNS];
    struct kva_scores sc = flat_scores(1, 2, 1000);
    struct kva_table t;

    (void)state;
    /* head 0 keeps what head 1 loses, by an amount that names the column */
    for (int i = 0; i < KVA_LUKV_COLUMNS; i++) {
        data[i] = (i + 1) / 100.0 - (i + 1) / 10000.0;
        data[KVA_LUKV_COLUMNS + i] = (i + 1) / 100.0 + (i + 1) / 10000.0;
    }
    t = table_of("lukv", 1, 2, KVA_LUKV_COLUMNS, data);
    for (int percent = 1; percent <= 99; percent++) {
        uint64_t total = (uint64_t)(2000 - 20 * percent);
        struct kva_decision d = divide(&sc, BARE, &t, NULL, total);

        assert_near(d.budget[0], 1000 - 10 * percent + percent / 10.0, 1);
        kva_decision_release(&d);
    }
    /* 0.2 % and 99.9 % take the first and the last */
    {
        struct kva_decision d = divide(&sc, BARE, &t, NULL, 1996);

        assert_budgets(d, 998, 998);
        kva_decision_release(&d);
        d = divide(&sc, BARE, &t, NULL, 2);
        assert_budgets(d, 1, 1);
        kva_decision_release(&d);
    }
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void sinks_and_window_stay_in_every_head(void **state)
{
    float s[2 * 20];
    struct kva_scores sc;
    struct kva_table t = profile_of(1, 2, (double[]){.5, .7});
    struct kva_decision d;

    (void)state;
    for (int i = 0; i < 40; i++)
        s[i] = i % 20 == 10 ? 2 : 1;
    sc = scores_of(1, 2, 20, s);
    d = divide(&sc, "random+lukv:profile=x", &t, NULL, 16);
    assert_keeps(d, 0, 0, 1, 2, 3, 10, 15, 16, 17, 18, 19);
    assert_keeps(d, 1, 0, 1, 2, 3, 10, 19);
    assert_int_equal(d.protect.sinks, 4);
    kva_decision_release(&d);
    /* the scorer's own protection is not lowered */
    sc.protect.recent = 5;
    d = divide(&sc, "random+lukv:profile=x,window=2", &t, NULL, 16);
    assert_keeps(d, 1, 0, 1, 2, 3, 18, 19);
    assert_int_equal(d.protect.recent, 5);
    assert_true(d.protect_overflow); /* 9 protected, 6 stay */
    kva_decision_release(&d);
    kva_table_release(&t);
    kva_scores_release(&sc);
}

static void bad_profiles_are_refused(void **state)
{
    struct kva_scores sc = flat_scores(1, 2, 20);
    struct kva_table t = profile_of(1, 2, (double[]){.5, 1.5});
    struct kva_table narrow = table_of("lukv", 1, 2, 1, (double[]){.5, .5});
    struct kva_decision d;
    struct kva_error err;

    (void)state;
    assert_int_equal(try_divide(&sc, BARE, NULL, NULL, 16, &d, &err), KVA_EINVALID);
    assert_string_equal(err.text, "lukv needs a file: profile=PATH");
    assert_int_equal(try_divide(&sc, BARE, &narrow, NULL, 16, &d, &err), KVA_EINVALID);
    assert_string_equal(err.text, "lukv: the file has 1 columns instead of 99");
    assert_int_equal(try_divide(&sc, BARE, &t, NULL, 16, &d, &err), KVA_EINVALID);
    assert_string_equal(err.text, "lukv: share removed 1.5 of KV head 1 of layer 0");
    kva_table_release(&t);
    kva_table_release(&narrow);
    kva_scores_release(&sc);
}

/* From gains to a file to budgets. */
static void a_profile_made_by_hand_goes_through_a_file(void **state)
{
    enum { N = 101 };
    float score[2 * N], gain[2 * N];
    struct kva_lukv_question q = {2, 1, N, score, gain, 4, 1};
    struct kva_scores sc = flat_scores(2, 1, N);
    uint8_t model[32] = {7};
    char path[64], hex[65], text[128];
    struct kva_table t;
    struct kva_method m;
    struct kva_decision d;

    (void)state;
    for (int i = 0; i < 2 * N; i++) {
        score[i] = (float)(i % N);
        gain[i] = (float)(i % N) * (i < N ? 3 : 1);
    }
    snprintf(path, sizeof path, "build/lukv-%ld.json", (long)getpid());
    kva_hex(model, 32, hex);
    assert_ok(kva_lukv_profile(&q, 1, &t, &test_error));
    assert_ok(kva_table_write(path, &t, hex, "by hand, for a test", &test_error));
    kva_table_release(&t);
    snprintf(text, sizeof text, "random+lukv:profile=%s", path);
    m = parse(text, ONESHOT);
    assert_ok(kva_method_bind(&m, NULL, model, 2, 1, &test_error));
    assert_null(strstr(m.spec, path)); /* the start of its digest instead */
    assert_ok(kva_method_select(&m, &sc, NULL, N, &d, &test_error));
    assert_int_equal(d.budget[0] + d.budget[1], N);
    assert_true(d.budget[0] > d.budget[1] + 20);
    kva_decision_release(&d);
    kva_method_release(&m);
    /* another model, another shape */
    m = parse(text, ONESHOT);
    assert_int_equal(kva_method_bind(&m, NULL, model, 1, 2, &test_error), KVA_EINVALID);
    model[0] = 8;
    assert_int_equal(kva_method_bind(&m, NULL, model, 2, 1, &test_error), KVA_EINVALID);
    remove(path);
    kva_scores_release(&sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_of_E10),
        cmocka_unit_test(rounding_as_published),
        cmocka_unit_test(the_column_is_that_of_the_budget),
        cmocka_unit_test(sinks_and_window_stay_in_every_head),
        cmocka_unit_test(bad_profiles_are_refused),
        cmocka_unit_test(a_profile_made_by_hand_goes_through_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
