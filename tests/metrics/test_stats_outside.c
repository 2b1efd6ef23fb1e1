/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_stats_outside.c - the statistics against scipy and statsmodels: numbers stored by
 * tests/oracle/stats/make.py, to 1e-9 where both compute, within Monte-Carlo error where
 * one draws. */
#include "tests/metrics/stats_fixture.h"

#include <jansson.h>

#define EXACT    1e-9
#define MAX_N    512
#define DRAWS    10000 /* ours */
#define STANDARD 4     /* standard errors allowed between two draws */

static json_t *lines[512];
static size_t n_lines;

static int load(void **state)
{
    FILE *f = fopen("tests/oracle/stats/stats.jsonl", "r");
    json_error_t why;

    (void)state;
    assert_non_null(f);
    while (n_lines < sizeof lines / sizeof lines[0] &&
           (lines[n_lines] = json_loadf(f, JSON_DISABLE_EOF_CHECK, &why)))
        n_lines++;
    assert_true(feof(f));
    (void)fclose(f);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_lines; i++)
        json_decref(lines[i]);
    return 0;
}

static double num(const json_t *line, const char *key)
{
    return json_number_value(json_object_get(line, key));
}

static size_t array(const json_t *line, const char *key, double *out)
{
    const json_t *a = json_object_get(line, key);
    size_t n = json_array_size(a);

    assert_true(n <= MAX_N);
    for (size_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(a, i));
    return n;
}

static void close_to(const json_t *line, double got, double want)
{
    if (!(fabs(got - want) <= EXACT * fmax(1, fabs(want)))) {
        char *text = json_dumps(line, JSON_COMPACT);

        print_error("got %.15g, wanted %.15g: %.200s\n", got, want, text);
        free(text);
        fail();
    }
}

static void interval_is(const json_t *line, struct kva_interval ci)
{
    double want[2];

    assert_int_equal(array(line, "want", want), 2);
    assert_true(ci.ok);
    close_to(line, ci.lo, want[0]);
    close_to(line, ci.hi, want[1]);
}

/* Calls f for each line of a kind; a kind without lines is a fault of the data. */
static void each(const char *kind, void (*f)(const json_t *line))
{
    int n = 0;

    for (size_t i = 0; i < n_lines; i++)
        if (strcmp(json_string_value(json_object_get(lines[i], "kind")), kind) == 0) {
            f(lines[i]);
            n++;
        }
    assert_true(n > 0);
}

static void wilson(const json_t *l)
{
    interval_is(l, kva_stat_wilson(num(l, "k"), num(l, "n")));
}

static void student(const json_t *l)
{
    double x[MAX_N];
    size_t n = array(l, "x", x);

    interval_is(l, kva_stat_t(x, n));
}

static void welch(const json_t *l)
{
    double x[MAX_N], y[MAX_N];
    size_t nx = array(l, "x", x), ny = array(l, "y", y);

    interval_is(l, kva_stat_welch(x, nx, y, ny));
}

static void integers(const json_t *a, int *out)
{
    for (size_t i = 0; i < json_array_size(a); i++)
        out[i] = (int)json_integer_value(json_array_get(a, i));
}

static void linear_clusters(const json_t *l)
{
    double d[MAX_N], zero[MAX_N] = {0};
    int cluster[MAX_N];
    struct kva_stratum s = {"t", d, zero, cluster, array(l, "d", d)};
    struct kva_boot b;

    integers(json_object_get(l, "cluster"), cluster);
    assert_int_equal(kva_stat_linearised(&s, 1, 0, &b, NULL), KVA_OK);
    interval_is(l, b.diff_ci);
}

static void suite(const json_t *l)
{
    static double x[8][MAX_N];
    static int cluster[8][MAX_N];
    struct kva_stratum s[8];
    const json_t *all = json_object_get(l, "x"), *ids = json_object_get(l, "cluster");
    size_t n = json_array_size(all);

    assert_true(n > 0 && n <= 8);
    for (size_t t = 0; t < n; t++) {
        const json_t *xs = json_array_get(all, t);

        for (size_t i = 0; i < json_array_size(xs); i++)
            x[t][i] = json_number_value(json_array_get(xs, i));
        if (ids)
            integers(json_array_get(ids, t), cluster[t]);
        s[t] = (struct kva_stratum){"t", x[t], NULL, ids ? cluster[t] : NULL,
                                    json_array_size(xs)};
    }
    interval_is(l, kva_stat_arm(s, n));
}

static void intervals_are_those_of_scipy_and_statsmodels(void **state)
{
    (void)state;
    each("wilson", wilson);
    each("t", student);
    each("welch", welch);
    each("linear_clusters", linear_clusters);
    each("suite", suite);
}

static void mcnemar(const json_t *l)
{
    close_to(l, kva_stat_mcnemar((uint64_t)num(l, "b"), (uint64_t)num(l, "c"), NULL),
             num(l, "want"));
}

static void mcnemar_mid(const json_t *l)
{
    double mid;

    (void)kva_stat_mcnemar((uint64_t)num(l, "b"), (uint64_t)num(l, "c"), &mid);
    close_to(l, mid, num(l, "want"));
}

static void signtest(const json_t *l)
{
    close_to(l, kva_stat_signtest((uint64_t)num(l, "wins"), (uint64_t)num(l, "losses")),
             num(l, "want"));
}

static void wilcoxon(const json_t *l)
{
    double d[MAX_N];
    size_t n = array(l, "d", d);

    close_to(l, kva_stat_wilcoxon(d, n), num(l, "want"));
}

static void mannwhitney(const json_t *l)
{
    double a[MAX_N], b[MAX_N];
    size_t na = array(l, "a", a), nb = array(l, "b", b);

    close_to(l, kva_stat_mannwhitney(a, na, b, nb), num(l, "want"));
}

static double signflip_of(const json_t *l)
{
    double d[MAX_N], zero[MAX_N] = {0};
    struct kva_stratum s = {"t", d, zero, NULL, array(l, "d", d)};

    return kva_stat_signflip(&s, 1, 7, DRAWS);
}

static void signflip(const json_t *l)
{
    close_to(l, signflip_of(l), num(l, "want"));
}

static void signflip_mc(const json_t *l)
{
    double want = num(l, "want"), se = sqrt(want * (1 - want) / DRAWS);

    NEAR(signflip_of(l), want, STANDARD * hypot(se, num(l, "se")) + 1.0 / DRAWS);
}

static void tests_are_those_of_scipy_and_statsmodels(void **state)
{
    (void)state;
    each("mcnemar", mcnemar);
    each("mcnemar_mid", mcnemar_mid);
    each("signtest", signtest);
    each("wilcoxon", wilcoxon);
    each("mannwhitney", mannwhitney);
    each("signflip", signflip);
    each("signflip_mc", signflip_mc);
}

static void adjusted(const json_t *l, void (*f)(double *, size_t))
{
    double p[MAX_N], want[MAX_N];
    size_t n = array(l, "p", p);

    assert_int_equal(array(l, "want", want), n);
    f(p, n);
    for (size_t i = 0; i < n; i++)
        close_to(l, p[i], want[i]);
}

static void bh(const json_t *l)
{
    adjusted(l, kva_stat_bh);
}

static void holm(const json_t *l)
{
    adjusted(l, kva_stat_holm);
}

static void adjusted_p_are_those_of_statsmodels(void **state)
{
    (void)state;
    each("bh", bh);
    each("holm", holm);
}

/* Two percentile intervals of the same data: a quantile of 10,000 draws has a standard
 * error of sqrt(q(1-q)/B)/f; of a normal density at its 2.5 % that is 2.67 sd/sqrt(B). */
static struct kva_boot boot_of(const json_t *l, double want[2], double *slack)
{
    double a[MAX_N], b[MAX_N];
    struct kva_stratum s = {"t", a, b, NULL, array(l, "a", a)};
    struct kva_boot out;

    assert_int_equal(array(l, "b", b), s.n);
    assert_int_equal(array(l, "want", want), 2);
    *slack = STANDARD * 2.67 * num(l, "se") / sqrt(DRAWS);
    assert_int_equal(kva_stat_bootstrap(&s, 1, 11, DRAWS, true, &out, NULL), KVA_OK);
    return out;
}

static void boot_ratio(const json_t *l)
{
    double want[2], slack;
    struct kva_boot b = boot_of(l, want, &slack);

    NEAR(b.ratio_ci.lo, want[0], slack);
    NEAR(b.ratio_ci.hi, want[1], slack);
}

static void boot_diff(const json_t *l)
{
    double want[2], slack;
    struct kva_boot b = boot_of(l, want, &slack);

    NEAR(b.diff_ci.lo, want[0], slack);
    NEAR(b.diff_ci.hi, want[1], slack);
}

static void the_bootstrap_is_within_monte_carlo_error_of_scipy(void **state)
{
    (void)state;
    each("boot_ratio", boot_ratio);
    each("boot_diff", boot_diff);
}

static void required_n(const json_t *l)
{
    NEAR(kva_stat_required_n(num(l, "effect"), num(l, "discordant")),
         ceil(num(l, "want")), 0);
}

/* Their power counts the far tail, too: 1e-6 of it. */
static void mde(const json_t *l)
{
    double a[MAX_N], b[MAX_N];
    int cluster[MAX_N];
    const json_t *ids = json_object_get(l, "cluster");
    struct kva_stratum s = {"t", a, b, ids ? cluster : NULL, array(l, "a", a)};
    struct kva_boot out;

    assert_int_equal(array(l, "b", b), s.n);
    if (ids)
        integers(ids, cluster);
    assert_int_equal(kva_stat_bootstrap(&s, 1, 1, 1, false, &out, NULL), KVA_OK);
    NEAR(out.mde, num(l, "want"), 2e-6);
}

static void pareto(const json_t *l)
{
    double x[MAX_N], y[MAX_N], want[MAX_N];
    uint8_t front[MAX_N];
    size_t n = array(l, "x", x);

    assert_int_equal(array(l, "y", y), n);
    assert_int_equal(array(l, "want", want), n);
    kva_stat_pareto(x, y, n, front);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(front[i], (int)want[i]);
}

static void sample_sizes_and_fronts_agree(void **state)
{
    (void)state;
    each("required_n", required_n);
    each("mde", mde);
    each("pareto", pareto);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_are_those_of_scipy_and_statsmodels),
        cmocka_unit_test(tests_are_those_of_scipy_and_statsmodels),
        cmocka_unit_test(adjusted_p_are_those_of_statsmodels),
        cmocka_unit_test(the_bootstrap_is_within_monte_carlo_error_of_scipy),
        cmocka_unit_test(sample_sizes_and_fronts_agree),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
