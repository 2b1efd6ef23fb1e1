/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_yardstick.c - the yardsticks take time, about the same each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/yardstick.h"

static void yardsticks_measure_work(void **state)
{
    int64_t gemm, copy, least_gemm = INT64_MAX, least_copy = INT64_MAX;

    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(kva_yardstick(&gemm, &copy, NULL), KVA_OK);
        least_gemm = gemm < least_gemm ? gemm : least_gemm;
        least_copy = copy < least_copy ? copy : least_copy;
    }
    /* 14 million flop and 32 MiB of traffic: no machine needs less than 50 us */
    assert_true(least_gemm > 50000);
    assert_true(least_copy > 50000);
}

static void sensors_say_something_possible_or_nothing(void **state)
{
    int temp = kva_machine_temp(), mhz = kva_machine_clock_mhz();

    (void)state;
    assert_true(temp == -1 || (temp >= 0 && temp < 200));
    assert_true(mhz == -1 || (mhz > 0 && mhz < 100000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yardsticks_measure_work),
        cmocka_unit_test(sensors_say_something_possible_or_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
