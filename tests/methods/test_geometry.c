/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_geometry.c - what holds for every scorer that reads keys and values alone. */
#include "tests/methods/methods_test.h"

static const char *const geometry[] = {
    "knorm",
    "keydiff",
    "keydiff_raw",
    "manifoldkv",
    "valuediff",
    "manifoldkv:centroid_window=7",
    "valuediff_dir",
    "valuediff_norm",
    "valuediff_attn",
    "lagkv:lag=5",
    "lagkv:cross=1,lag=5",
    "lagkv:compat=1",
    "leverage",
    "cur",
    "cur:type=mean,window=5",
};
#define N_GEOMETRY (sizeof geometry / sizeof geometry[0])

static struct kva_decision decide(struct fixture *f, const char *text, uint64_t total)
{
    struct kva_method m = parse(text, ONESHOT);
    struct kva_scores sc = score_of(f, text, ONESHOT);
    struct kva_decision d;

    assert_int_equal(sc.nonfinite, 0);
    assert_ok(kva_method_select(&m, &sc, NULL, total, &d, &test_error));
    kva_scores_release(&sc);
    return d;
}

static void lengths_1_to_64_keep_exactly_what_was_asked(void **state)
{
    (void)state;
    for (int n = 1; n <= 64; n++) {
        struct fixture f = fixture_new(1, 2, 2, 8, n, n, false, (uint64_t)n);

        for (size_t i = 0; i < N_GEOMETRY; i++) {
            struct kva_scores sc = score_of(&f, geometry[i], ONESHOT);
            struct kva_method m = parse(geometry[i], ONESHOT);

            assert_int_equal(sc.nonfinite, 0);
            for (int keep = 1; keep <= n; keep++) {
                struct kva_decision d;

                assert_ok(kva_method_select(&m, &sc, NULL, (uint64_t)(2 * keep), &d,
                                            &test_error));
                assert_int_equal(d.keep.off[1], keep);
                assert_int_equal(d.keep.off[2], 2 * keep);
                kva_decision_release(&d);
            }
            kva_scores_release(&sc);
        }
        fixture_release(&f);
    }
}

static void equal_entries_keep_the_newest(void **state)
{
    float rows[128];
    struct fixture f;

    (void)state;
    for (int i = 0; i < 128; i++)
        rows[i] = i % 2 ? 0.3f : -1.7f;
    f = fixture_of(rows, rows, 64);
    for (size_t i = 0; i < N_GEOMETRY; i++) {
        /* lags tie as wholes, windows of another width leave a short one, equal keys
         * turned back differ */
        bool skip = strstr(geometry[i], "lag=5") || strstr(geometry[i], "window") ||
                    strstr(geometry[i], "attn") || strstr(geometry[i], "leverage");
        const char *text = strcmp(geometry[i], "cur") == 0 ? "cur:sinks=0" : geometry[i];
        struct kva_decision d;

        if (skip || strstr(text, "compat") != NULL)
            continue;
        d = decide(&f, text, 11);
        for (int j = 0; j < 11; j++)
            assert_int_equal(d.keep.rank[j], 53 + j);
        kva_decision_release(&d);
    }
    fixture_release(&f);
}

static void zeros_of_either_sign_are_no_trouble(void **state)
{
    float rows[128];
    struct fixture f;

    (void)state;
    for (int i = 0; i < 128; i++)
        rows[i] = i % 3 ? 0.0f : -0.0f;
    f = fixture_of(rows, rows, 64);
    for (size_t i = 0; i < N_GEOMETRY; i++) {
        struct kva_decision d;

        if (strstr(geometry[i], "attn") != NULL)
            continue;
        d = decide(&f, geometry[i], 20);
        assert_int_equal(d.keep.off[1], 20);
        kva_decision_release(&d);
    }
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_1_to_64_keep_exactly_what_was_asked),
        cmocka_unit_test(equal_entries_keep_the_newest),
        cmocka_unit_test(zeros_of_either_sign_are_no_trouble),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
