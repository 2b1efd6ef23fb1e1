/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_engine_slow.c - test_engine.c with every method in every schedule: 1e9 switches.
 */
#define EVERY 1
#include "tests/simt/test_engine.c"
