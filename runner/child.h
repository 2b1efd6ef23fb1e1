/* SPDX-License-Identifier: GPL-3.0-or-later */
/* child.h - another program as a child process, without a shell. */
#ifndef KVA_CHILD_H
#define KVA_CHILD_H

#include "kva.h"

/* Runs argv (NULL-terminated, found on PATH) in directory `dir` (NULL: here) and waits.
 * Standard output is appended to `out`, at most its ceiling; NULL: goes to our standard
 * error. Standard input is empty. quiet: its standard error is dropped. *status: exit
 * code, 128 + signal when killed. KVA_ETOOL: there is no such program. */
enum kva_status kva_child_run(const char *const *argv, const char *dir,
                              struct kva_buf *out, bool quiet, int *status,
                              struct kva_error *err);

#endif
