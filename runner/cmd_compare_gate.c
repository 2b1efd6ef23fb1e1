/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_compare_gate.c - `kvaudit compare --gate FILE`: the nightly regression. */
#include "runner/cmd_compare.h"

int kva_cmd_compare_gate(const struct kva_compare_args *args)
{
    return kva_command_usage("compare", "--gate %s is not built yet", args->gate);
}
