/* SPDX-License-Identifier: GPL-3.0-or-later */
/* x_scalar.c - the inner kernels as compiled for this instruction set (Makefile: by file
 * name). */
#include "kernels/cpu/inner.h"

KERNELS(scalar);

float kva_expf(float x)
{
    return exp_one(x);
}
