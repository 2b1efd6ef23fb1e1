/* SPDX-License-Identifier: GPL-3.0-or-later */
/* x_avx2.c - the inner kernels as compiled for this instruction set (Makefile: by file
 * name). */
#include "kernels/cpu/inner.h"

KERNELS(avx2);
