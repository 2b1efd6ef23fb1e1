/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stats_fixture.h - comparison to printed digits. */
#ifndef KVA_TESTS_STATS_FIXTURE_H
#define KVA_TESTS_STATS_FIXTURE_H

#include "metrics/metric.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline void near_at(double got, double want, double tolerance, const char *file,
                           int line)
{
    if (!(fabs(got - want) <= tolerance)) {
        print_error("got %.12g, wanted %.12g +- %g\n", got, want, tolerance);
        _fail(file, line);
    }
}
#define NEAR(got, want, tolerance) near_at((got), (want), (tolerance), __FILE__, __LINE__)

#endif
