/* SPDX-License-Identifier: GPL-3.0-or-later */
/* absent.c - stands for each program of this folder where there is no CUDA toolkit. */
#include <stdio.h>

int main(void)
{
    puts("SKIP: the headers of the CUDA toolkit are not installed: rt_cuda.c and "
         "lt_cuda.c were not tried");
    puts("[  SKIPPED ] 1 test(s).");
    return 0;
}
