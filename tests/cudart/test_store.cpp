/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_store.cpp - the emulator's tests of stores, over rt_cuda.c and the stand-in. */
#include "tests/simt/test_store.cpp"
