/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_queue.cpp - the emulator's tests of replays, over the graphs of rt_cuda.c. */
#include "tests/simt/test_queue.cpp"
