/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_cur.c - shares of energy inside windows; worked example E22. */
#include "tests/methods/methods_test.h"

enum { PRODUCT, KEY, VALUE, MEAN };
static int type, width;

static double share(const float *rows, int dim, int n, int j)
{
    int from = j / width * width, to = from + width < n ? from + width : n;
    double sum = 0, own = 0;

    for (int i = from * dim; i < to * dim; i++)
        sum += pow((double)rows[i], 2);
    for (int i = j * dim; i < (j + 1) * dim; i++)
        own += pow((double)rows[i], 2);
    return own / sum;
}

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    double sum = 0;

    for (int j = 0; j < c->n; j++) {
        double k = share(c->k, f->dim, c->n, j), v = share(c->v, f->dim, c->n, j);

        s[j] = type == PRODUCT ? k * v
               : type == KEY   ? k
               : type == VALUE ? v
                               : (k + v) / 2;
        sum += s[j];
    }
    for (int j = 0; j < c->n; j++)
        s[j] /= sum;
}

/* 150 and the ragged numbers are no multiples of the windows */
static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    width = 16;
    type = PRODUCT;
    check_scorer("cur", "cur:recent=7,sinks=2", naive, (struct kva_protect){4, 0},
                 (struct kva_protect){2, 7});
    width = 7;
    type = KEY;
    check_scorer("cur:type=key,window=7", "cur:type=key,window=7", naive,
                 (struct kva_protect){4, 0}, (struct kva_protect){4, 0});
    type = VALUE;
    check_scorer("cur:type=value,window=7", "cur:type=value,window=7", naive,
                 (struct kva_protect){4, 0}, (struct kva_protect){4, 0});
    type = MEAN;
    check_scorer("cur:type=mean,window=7", "cur:type=mean,window=7", naive,
                 (struct kva_protect){4, 0}, (struct kva_protect){4, 0});
}

/* 16 shares of 1/16, two of 1/2; products 1/256 and 1/4, which sum to 9/16. */
static void the_short_window_of_E22_divides_by_its_members(void **state)
{
    float k[36];
    struct fixture f;
    struct kva_scores sc;

    (void)state;
    for (int i = 0; i < 36; i++)
        k[i] = i % 2 == 0;
    f = fixture_of(k, k, 18);
    sc = score_of(&f, "cur:type=key", ONESHOT);
    for (int j = 0; j < 18; j++)
        assert_near(sc.s[j], (j < 16 ? 1.0 / 16 : 1.0 / 2) / 2, 1e-7);
    kva_scores_release(&sc);
    sc = score_of(&f, "cur", ONESHOT);
    for (int j = 0; j < 18; j++)
        assert_near(sc.s[j], (j < 16 ? 1.0 / 256 : 1.0 / 4) / (9.0 / 16), 1e-7);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void a_window_of_zeros_has_the_share_zero(void **state)
{
    float k[40] = {0};
    struct fixture f;
    struct kva_scores sc;

    (void)state;
    for (int i = 32; i < 40; i++)
        k[i] = 1;
    f = fixture_of(k, k, 20);
    sc = score_of(&f, "cur", ONESHOT);
    assert_int_equal(sc.nonfinite, 0);
    assert_near(sc.s[3], 0, 0);
    assert_near(sc.s[17], 0.25, 1e-7);
    kva_scores_release(&sc);
    fixture_release(&f);
    memset(k, 0, sizeof k);
    f = fixture_of(k, k, 20);
    sc = score_of(&f, "cur", ONESHOT);
    assert_int_equal(sc.nonfinite, 0);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(the_short_window_of_E22_divides_by_its_members),
        cmocka_unit_test(a_window_of_zeros_has_the_share_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
