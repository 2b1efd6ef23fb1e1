/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_engine.c - the whole path over rt_cuda.c, lt_cuda.c and the stand-in: one pair of
 * method and schedule in every 29. */
#define EVERY         29
#define RANGES_ALWAYS 1
#include "tests/simt/test_engine.c"
