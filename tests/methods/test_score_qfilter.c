/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_qfilter.c - projection on filters from a file; worked example E19. */
#include "tests/methods/methods_test.h"

#include <unistd.h>

/* A table of random or given numbers, written and bound as a user's file is. */
static enum kva_status bind(struct kva_method *m, const char *kind, int layers, int heads,
                            int columns, const double *data, int model_layers,
                            struct kva_error *err)
{
    char path[] = "/tmp/kva-qfilter-XXXXXX", text[128];
    int fd = mkstemp(path);
    size_t n = (size_t)(layers * heads * columns);
    struct kva_table t = {.layers = layers, .kv_heads = heads, .columns = columns};
    const uint8_t sha[32] = {0};
    enum kva_status rc;

    assert_true(fd >= 0);
    close(fd);
    snprintf(t.kind, sizeof t.kind, "%s", kind);
    t.data = calloc(n, sizeof *t.data);
    memcpy(t.data, data, n * sizeof *t.data);
    assert_ok(kva_table_write(path, &t, "any", "by hand", &test_error));
    kva_table_release(&t);
    snprintf(text, sizeof text, "qfilter:filter=%s", path);
    *m = parse(text, ONESHOT);
    rc = kva_method_bind(m, NULL, sha, model_layers, heads, err);
    unlink(path);
    return rc;
}

static struct kva_scores scores_with(struct fixture *f, const struct kva_method *m)
{
    struct kva_decide_in in = fixture_in(f, ONESHOT);
    struct kva_scores sc;

    assert_ok(kva_method_score(m, &in, &sc, NULL, &test_error));
    return sc;
}

static void the_sign_of_E19_keeps_what_the_queries_look_at(void **state)
{
    const float k[] = {2, 0, -1, 0, 0, 5};
    const double filter[] = {-1, 0}; /* minus the mean query direction (1, 0) */
    const double want[] = {2, -1, 0};
    struct fixture f = fixture_of(k, k, 3);
    struct kva_method m;
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    assert_ok(bind(&m, "qfilter", 1, 1, 2, filter, 1, &test_error));
    sc = scores_with(&f, &m);
    for (int j = 0; j < 3; j++)
        assert_near(sc.s[j], want[j], 0);
    assert_ok(kva_method_select(&m, &sc, NULL, 2, &d, &test_error));
    assert_keeps(d, 0, 0, 2);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    kva_method_release(&m);
    fixture_release(&f);
}

static void every_head_has_its_own_filter(void **state)
{
    struct fixture f = fixture_new(3, 2, 1, 16, 90, 1, true, 7);
    struct kva_rng r = {5};
    struct kva_method m;
    struct kva_scores sc;
    double filter[6 * 16];

    (void)state;
    for (int i = 0; i < 6 * 16; i++)
        filter[i] = (double)normal(&r);
    assert_ok(bind(&m, "qfilter", 3, 2, 16, filter, 3, &test_error));
    sc = scores_with(&f, &m);
    for (int i = 0; i < 6; i++) {
        struct cell c = cell_read(&f, i / 2, i % 2);

        for (int j = 0; j < c.n; j++) {
            double want = 0;

            for (int x = 0; x < 16; x++)
                want -= filter[i * 16 + x] * (double)c.k[j * 16 + x];
            assert_near(sc.s[sc.off[i] + (size_t)j], want, 1e-5);
        }
        cell_release(&c);
    }
    kva_scores_release(&sc);
    kva_method_release(&m);
    fixture_release(&f);
}

/* -(f . 0) is -0: a tie with 0, which the newest wins. */
static void zero_and_minus_zero_are_equal(void **state)
{
    const float k[] = {0, 1, 0, 0, 0, -1};
    const double filter[] = {1, 0};
    struct fixture f = fixture_of(k, k, 3);
    struct kva_method m;
    struct kva_scores sc;
    struct kva_decision d;

    (void)state;
    assert_ok(bind(&m, "qfilter", 1, 1, 2, filter, 1, &test_error));
    sc = scores_with(&f, &m);
    assert_ok(kva_method_select(&m, &sc, NULL, 1, &d, &test_error));
    assert_keeps(d, 0, 2);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    kva_method_release(&m);
    fixture_release(&f);
}

static void filters_of_another_kind_or_shape_are_refused(void **state)
{
    const double filter[16] = {0};
    struct fixture f = fixture_new(1, 1, 1, 8, 10, 1, false, 3);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_error err = {0};
    struct kva_method m;
    struct kva_scores sc;

    (void)state;
    assert_int_equal(bind(&m, "duo", 1, 1, 8, filter, 1, &err), KVA_EINVALID);
    assert_non_null(strstr(err.text, "\"duo\", wanted is \"qfilter\""));
    err = (struct kva_error){0};
    assert_int_equal(bind(&m, "qfilter", 2, 1, 8, filter, 1, &err), KVA_EINVALID);
    assert_non_null(strstr(err.text, "2 layers of 1 KV heads, the model has 1 of 1"));
    assert_ok(bind(&m, "qfilter", 1, 1, 6, filter, 1, &test_error));
    err = (struct kva_error){0};
    assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &err), KVA_EINVALID);
    assert_non_null(strstr(err.text, "6 numbers"));
    kva_method_release(&m);
    m = parse("qfilter", ONESHOT);
    err = (struct kva_error){0};
    assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &err), KVA_EINVALID);
    assert_non_null(strstr(err.text, "needs a file"));
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sign_of_E19_keeps_what_the_queries_look_at),
        cmocka_unit_test(every_head_has_its_own_filter),
        cmocka_unit_test(zero_and_minus_zero_are_equal),
        cmocka_unit_test(filters_of_another_kind_or_shape_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
