/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_regress_out.c - verdicts as JUnit, GitHub summary, annotations, JSON; F13. */
#include "fixture.h"

#include "reports/history.h"
#include "reports/regress.h"

#define HOSTILE "a\"><script>&'|`\xef\xbf\xbe\x01\n::error::%\r"

/* n cells of one task; the first `fails` lose everything. */
static struct world *many(int n, int fails, const char *slug)
{
    static char method[200][8];
    struct world *w = world_new(1, 20);

    for (int i = 0; i < n; i++) {
        (void)snprintf(method[i], sizeof method[i], "m%d", i);
        add_cell(w, 0, method[i], 0.5, "physical", i < fails ? N20 : A20)->slug = S(slug);
    }
    w->run[0].backend = S("cuda");
    return w;
}

static void decided(struct kva_regress *r, const struct world *a, const struct world *b)
{
    struct kva_regress_opts o;
    struct kva_error err = {0};

    kva_regress_defaults(&o);
    o.gate[KVA_REGRESS_TIME] = false;
    o.replicates = 100;
    kva_regress_init(r, &o);
    assert_int_equal(kva_regress_add(r, &a->d, &b->d, "base", 1, &err), KVA_OK);
    assert_int_equal(kva_regress_decide(r, NULL, 0, 0, &err), KVA_OK);
}

static int count(const char *s, const char *what)
{
    int n = 0;

    for (; (s = strstr(s, what)) != NULL; s += strlen(what))
        n++;
    return n;
}

static void junit_counts_agree_with_the_elements(void **state)
{
    struct world *a = many(5, 0, HOSTILE), *b = many(5, 2, HOSTILE);
    struct kva_regress r;
    struct kva_buf x;
    char want[128];

    (void)state;
    decided(&r, a, b);
    kva_buf_init(&x, 0);
    kva_regress_junit(&r, &x);
    (void)snprintf(
        want, sizeof want,
        "<testsuites name=\"kvaudit\" tests=\"%d\" failures=\"%d\" errors=\"0\" "
        "skipped=\"0\">",
        count(x.data, "<testcase "), count(x.data, "<failure "));
    assert_non_null(strstr(x.data, want));
    assert_int_equal(count(x.data, "<failure "), 2);
    assert_int_equal(count(x.data, "<testsuite "), 2);
    assert_null(strstr(x.data, "<script>"));
    assert_null(strstr(x.data, "\xef\xbf\xbe"));
    assert_null(strchr(x.data, '\x01'));
    assert_non_null(strstr(x.data, "\xef\xbf\xbd\xef\xbf\xbd")); /* one for each */
    assert_null(strstr(x.data, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"));
    kva_buf_release(&x);
    kva_regress_release(&r);
    free(a);
    free(b);
}

static void the_summary_is_cut_worst_rows_first(void **state)
{
    struct world *a = many(200, 0, "slug"), *b = many(200, 3, "slug");
    struct kva_regress r;
    struct kva_buf x;

    (void)state;
    decided(&r, a, b);
    for (size_t ceiling = 0; ceiling < 12000; ceiling += 997) {
        kva_buf_init(&x, 0);
        kva_regress_github(&r, ceiling, &x);
        assert_true(x.len <= ceiling);
        if (x.len > 1500) {
            assert_int_equal(count(x.data, "| FAIL |"), 3);
            assert_non_null(strstr(x.data, "more rows were left out"));
        }
        kva_buf_release(&x);
    }
    kva_buf_init(&x, 0);
    kva_regress_github(&r, 1 << 20, &x);
    assert_null(strstr(x.data, "left out"));
    assert_int_equal(count(x.data, "| pass |") + count(x.data, "| FAIL |"), r.n_row + 1);
    kva_buf_release(&x);
    kva_regress_release(&r);
    free(a);
    free(b);
}

static void annotations_are_ten_and_cannot_be_forged(void **state)
{
    struct world *a = many(30, 0, HOSTILE), *b = many(30, 25, HOSTILE);
    struct kva_regress r;
    struct kva_buf x;

    (void)state;
    decided(&r, a, b);
    kva_buf_init(&x, 0);
    kva_regress_annotations(&r, &x);
    assert_int_equal(count(x.data, "\n"), 10);
    assert_int_equal(count(x.data, "::error title="), 10);
    assert_int_equal(strncmp(x.data, "::error title=", 14), 0);
    assert_int_equal(count(x.data, "\n::error::"), 0);
    assert_int_equal(count(x.data, "::%25"), 10);
    assert_null(strchr(x.data, '\r'));
    kva_buf_release(&x);
    kva_regress_release(&r);
    free(a);
    free(b);
}

static void json_is_complete_and_unrounded(void **state)
{
    struct world *a = many(3, 0, "slug"), *b = many(3, 1, "slug");
    struct kva_regress r;
    json_t *o, *row;

    (void)state;
    decided(&r, a, b);
    o = kva_regress_json(&r);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "schema")),
                        "kvaudit.gate/1");
    assert_string_equal(json_string_value(json_object_get(o, "verdict")), "fail");
    assert_int_equal(json_integer_value(json_object_get(o, "exit")), 1);
    assert_int_equal(json_array_size(json_object_get(o, "rows")), r.n_row);
    row = json_array_get(json_object_get(o, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "verdict")), "fail");
    assert_true(json_real_value(json_object_get(row, "delta")) == -1);
    NEAR(json_real_value(json_object_get(row, "p")) * ldexp(1, 20), 1, 1e-9);
    assert_true(json_is_null(json_object_get(row, "noise_floor")));
    json_decref(o);
    kva_regress_release(&r);
    free(a);
    free(b);
}

static void the_order_of_nights_does_not_change_the_history(void **state)
{
    static const int order[2][3] = {{0, 1, 2}, {2, 0, 1}};
    struct kva_error err = {0};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct world *base = many(2, 0, "slug");
        struct kva_history h;

        kva_history_init(&h);
        for (int i = 0; i < 3; i++) {
            int night = order[k][i];
            struct world *w = many(2, night == 1 ? 1 : 0, "slug");
            struct kva_regress r;

            w->run[0].started_ms = 1700000000000 + night * 86400000LL;
            decided(&r, base, w);
            assert_int_equal(kva_history_add(&h, &r, &w->d, &err), KVA_OK);
            kva_regress_release(&r);
            free(w);
        }
        assert_int_equal(kva_history_close(&h, &err), KVA_OK);
        assert_int_equal(h.n_night, 3);
        assert_true(h.night[0].ms < h.night[1].ms && h.night[1].ms < h.night[2].ms);
        assert_int_equal(h.n_series, 1); /* both cells have one slug */
        assert_int_equal(h.series[0].n, 6);
        assert_int_equal(h.series[0].n_fail, 1);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(h.series[0].point[i].night, i / 2);
            if (h.series[0].point[i].fail)
                assert_int_equal(h.series[0].point[i].night, 1);
        }
        kva_history_release(&h);
        free(base);
    }
}

static void the_history_is_drawn_with_every_point(void **state)
{
    struct world *base = many(2, 0, "it's 100 % | #1"),
                 *w = many(2, 1, "it's 100 % | #1");
    struct kva_report r = {0};
    struct kva_error err = {0};
    struct kva_history h;
    struct kva_regress g;
    int lines = 0;

    (void)state;
    kva_history_init(&h);
    decided(&g, base, w);
    assert_int_equal(kva_history_add(&h, &g, &w->d, &err), KVA_OK);
    assert_int_equal(kva_history_close(&h, &err), KVA_OK);
    kva_arena_init(&r.arena);
    kva_figure_history(&r, &h);
    assert_false(r.nomem);
    assert_int_equal(r.n_figure, 1);
    assert_null(r.figure[0].empty);
    for (const char *s = r.figure[0].tsv; *s; s = strchr(s, '\n') + 1)
        lines += *s >= '0' && *s <= '9';
    assert_int_equal(lines, r.figure[0].n_points);
    assert_int_equal(lines, 2);
    assert_non_null(strstr(r.figure[0].gp, "'it''s 100 % | #1'"));
    kva_arena_release(&r.arena);
    kva_history_release(&h);
    kva_regress_release(&g);
    free(base);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junit_counts_agree_with_the_elements),
        cmocka_unit_test(the_summary_is_cut_worst_rows_first),
        cmocka_unit_test(annotations_are_ten_and_cannot_be_forged),
        cmocka_unit_test(json_is_complete_and_unrounded),
        cmocka_unit_test(the_order_of_nights_does_not_change_the_history),
        cmocka_unit_test(the_history_is_drawn_with_every_point),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
