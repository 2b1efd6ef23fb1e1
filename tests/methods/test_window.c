/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_window.c - centred pooling at the borders. */
#include "tests/methods/methods_test.h"

#include "methods/window.h"

static void averages_count_zeros_beyond_the_ends(void **state)
{
    const double x[] = {3, 6, 9, 12};
    const double want3[] = {3, 6, 9, 7}, want5[] = {3.6, 6, 6, 5.4};
    double y[4];

    (void)state;
    kva_window_pool(x, 4, 3, false, y);
    for (int j = 0; j < 4; j++)
        assert_near(y[j], want3[j], 1e-12);
    kva_window_pool(x, 4, 5, false, y);
    for (int j = 0; j < 4; j++)
        assert_near(y[j], want5[j], 1e-12);
    kva_window_pool(x, 4, 1, false, y);
    assert_memory_equal(x, y, sizeof x);
    kva_window_pool(x, 1, 255, false, y);
    assert_near(y[0], 3.0 / 255, 1e-12);
}

static void maxima_see_nothing_beyond_the_ends(void **state)
{
    const double x[] = {-3, -6, -1, -9};
    const double want[] = {-3, -1, -1, -1};
    double y[4];

    (void)state;
    kva_window_pool(x, 4, 3, true, y);
    assert_memory_equal(y, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_count_zeros_beyond_the_ends),
        cmocka_unit_test(maxima_see_nothing_beyond_the_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
