/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_code.c - code_sim and code_sim_indel on the table of tasks-longbench-math.md
 * A.7.6, and their edges. */
#include "metrics/text.h"
#include "tests/metrics/text_test.h"

static void the_published_table_is_reproduced(void **state)
{
    static const struct {
        const char *prediction, *gold;
        double difflib, indel;
    } row[] = {
        {"            if e.text == language:\n  x",
         "            if e.text == language:", 1.0, 1.0},
        {"if e.text == language:", "            if e.text == language:", 0.79, 0.79},
        {"# comment\nreturn x", "return x", 1.0, 1.0},
        {"```python\nreturn y", "return x", 0.88, 0.88},
        {"\n\n    return a", "    return a", 1.0, 1.0},
        {"\n    \n    return a", "    return a", 0.5, 0.5},
        {"abcdef", "fedcba", 0.17, 0.17},
        {"axxxxxxx", "abcdefgh", 0.12, 0.12},
        {"private Calendar cal = new Calendar();",
         "private Calendar workingCalendar = DateUtils.getCalendarInstance();", 0.55,
         0.65},
        {"# only comment", "return x", 0.0, 0.0},
        {"url = \"http://x\"\nreturn 1", "return 1", 1.0, 1.0},
        {"", "", 1.0, 1.0},
        {"# only comment", "", 1.0, 1.0},
        {"", "return x", 0.0, 0.0},
        {"return x", "", 0.0, 0.0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_true(score_of("code_sim", row[i].prediction, row[i].gold) ==
                    row[i].difflib);
        assert_true(score_of("code_sim_indel", row[i].prediction, row[i].gold) ==
                    row[i].indel);
    }
}

static void popular_characters_take_no_part_in_the_search(void **state)
{
    char *b = repeat("xyz", 210), *a = malloc(400);

    (void)state;
    memset(a, 'q', 100);
    memcpy(a + 100, b, 120);
    a[220] = '\0';
    assert_true(score_of("code_sim", a, b) == 0);
    assert_true(score_of("code_sim_indel", a, b) == 0.56);
    memcpy(a + 1, b, 207);
    a[208] = '\0';
    assert_true(score_of("code_sim", a, b) == 0);
    assert_true(score_of("code_sim_indel", a, b) == 0.99);
    assert_true(score_of("code_sim", a + 7, b) == 0.98); /* starts with xyz */
    assert_true(score_of("code_sim_indel", a + 7, b) == 0.98);
    free(a);
    free(b);
}

static double ratio(const char *a, const char *b, bool autojunk)
{
    struct kva_text x = {0}, y = {0};
    double r;

    assert_int_equal(kva_text_read(&x, a, strlen(a), NULL), KVA_OK);
    assert_int_equal(kva_text_read(&y, b, strlen(b), NULL), KVA_OK);
    assert_int_equal(kva_difflib_ratio(&x, &y, autojunk, &r, NULL), KVA_OK);
    kva_text_release(&x);
    kva_text_release(&y);
    return r;
}

static void without_autojunk_they_do(void **state)
{
    char *b = repeat("xyz", 210), *c = repeat("xyz", 199);

    (void)state;
    assert_true(ratio("qxyz", b, false) == 2.0 * 3 / 214);
    assert_true(ratio("qxyz", b, true) == 0);
    assert_true(ratio("qxyz", c, true) == 2.0 * 3 / 203); /* below 200: no autojunk */
    assert_true(ratio("", "", true) == 1);
    assert_true(ratio("x", "", true) == 0);
    free(b);
    free(c);
}

static void halves_round_as_the_package_rounds_them(void **state)
{
    /* 1 of 40 + 40: 2.5 is 2.500000000000002 there; 3 of 40 + 40: 7.5
     * is 7.499999999999996
     */
    char a[41], b[41];

    (void)state;
    memset(a, 'x', 40);
    memset(b, 'y', 40);
    a[40] = b[40] = '\0';
    a[0] = b[0] = 'z';
    assert_true(score_of("code_sim", a, b) == 0.02);
    assert_true(score_of("code_sim_indel", a, b) == 0.03);
    a[1] = a[2] = b[1] = b[2] = 'z';
    assert_true(score_of("code_sim", a, b) == 0.08);
    assert_true(score_of("code_sim_indel", a, b) == 0.07);
}

static void the_line_is_told(void **state)
{
    static const char *const gold[] = {"x", "y = 1"};
    struct kva_metric_in in = {
        .prediction = "\n# no\ny = 1\nz", .n = 13, .answers = gold, .n_answers = 2};
    struct kva_metric_out out = {0};
    struct kva_buf line;

    (void)state;
    kva_buf_init(&line, 0);
    out.extracted = &line;
    assert_int_equal(kva_metric_score(kva_metric_find("code_sim"), &in, &out, NULL),
                     KVA_OK);
    assert_true(out.score == 1);
    assert_string_equal(line.data, "y = 1");
    assert_string_equal(out.how, "line");
    in.n = 5;
    line.len = 0;
    assert_int_equal(kva_metric_score(kva_metric_find("code_sim"), &in, &out, NULL),
                     KVA_OK);
    assert_int_equal(line.len, 0);
    assert_string_equal(out.how, "none");
    kva_buf_release(&line);
}

static void code_points_beyond_the_limit_are_not_compared(void **state)
{
    char *a = repeat("x \u00e9y", 3 * 4096), *b = repeat("x \u00e9y", 3 * 4096);

    (void)state; /* four code points in five bytes: the limit is at byte 5,120 */
    b[5121] = '!';
    assert_true(score_of("code_sim_indel", a, b) == 1);
    assert_true(score_of("code_sim", a, b) == 1);
    memset(b + 5120 - 300, '!', 300);
    assert_true(score_of("code_sim_indel", a, b) < 1);
    free(a);
    free(b);
}

/* The longest texts that are compared, in the ways that cost most. */
static void megabytes_take_less_than_a_second(void **state)
{
    static const char *const metrics[] = {"code_sim", "code_sim_indel"};
    static const char many[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789+-*=<>()[]{},.;:!?&|^~@$%_";
    enum { N = 1000000 };
    char *x = repeat("x", N), *y = repeat("xy", N), *few = random_text(1, N, "ab"),
         *other = random_text(2, N, "ab"), *a = random_text(3, N, many),
         *b = random_text(4, N, many), *odd = repeat("c1", N);

    (void)state;
    for (int i = 0; i < N; i += 2) { /* a peels off b from the left, one at a time */
        odd[i] = many[(size_t)(i / 2) % (sizeof many - 1)];
        b[i] = odd[i];
    }
    for (size_t i = 0; i < 2; i++) {
        timed_score(metrics[i], x, y);
        timed_score(metrics[i], x, few);
        timed_score(metrics[i], few, other);
        timed_score(metrics[i], a, b);
        timed_score(metrics[i], odd, b);
        assert_true(timed_score(metrics[i], x, x) == 1);
    }
    free(x);
    free(y);
    free(few);
    free(other);
    free(a);
    free(b);
    free(odd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_table_is_reproduced),
        cmocka_unit_test(popular_characters_take_no_part_in_the_search),
        cmocka_unit_test(without_autojunk_they_do),
        cmocka_unit_test(halves_round_as_the_package_rounds_them),
        cmocka_unit_test(the_line_is_told),
        cmocka_unit_test(code_points_beyond_the_limit_are_not_compared),
        cmocka_unit_test(megabytes_take_less_than_a_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
