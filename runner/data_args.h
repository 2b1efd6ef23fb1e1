/* SPDX-License-Identifier: GPL-3.0-or-later */
/* data_args.h - `--data NAME=PATH`: where data sets of the user are. */
#ifndef KVA_DATA_ARGS_H
#define KVA_DATA_ARGS_H

#include "runner/options.h"
#include "tasks/task.h"

/* One entry an argument, paths made absolute (they are the shell's), from the arena; of a
 * name given twice the last one counts. KVA_EINVALID naming the argument. */
enum kva_status kva_data_args(const struct kva_opt_list *args, struct kva_arena *arena,
                              const struct kva_task_data **data, int *n,
                              struct kva_error *err);

#endif
