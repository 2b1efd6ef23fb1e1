/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_nights.c - a small version of tests/sim/nights.c: false alarms of the nightly gate
 * and the drops it finds. */
#include "tests/sim/nights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_hundred_nights_of_noise_give_at_most_five_alarms(void **state)
{
    struct nights_count c = nights_run(100, 200, 0.1, 0, 1);

    (void)state;
    assert_int_equal(c.comparisons, CELLS + METHODS);
    assert_true(c.failing <= 5);
}

static void the_smallest_drop_is_found_in_three_of_four_nights(void **state)
{
    double mde = kva_regress_mde(200, 0.1, 0.05, CELLS + METHODS);
    struct nights_count c = nights_run(200, 200, 0.1, mde, 2);

    (void)state;
    assert_true(mde > 0.06 && mde < 0.1);
    assert_true(c.found >= 150);
    /* and not because the gate cries at everything: half of it is mostly missed */
    c = nights_run(100, 200, 0.1, mde / 2, 3);
    assert_true(c.found < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_nights_of_noise_give_at_most_five_alarms),
        cmocka_unit_test(the_smallest_drop_is_found_in_three_of_four_nights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
