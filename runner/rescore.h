/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rescore.h - `run --rescore`: stored answers scored again by this program's metrics. */
#ifndef KVA_RESCORE_H
#define KVA_RESCORE_H

#include "db/db.h"

struct kva_rescore_opts {
    const char *metric; /* only this one; NULL: all that were stored */
    bool dry_run, json, quiet;
};
/* Needs neither model nor suite: answers, references and what scoring needs beside them
 * are in the file. Each task is one transaction; old versions of a score stay beside the
 * new one. What changes is printed, with dry_run nothing else happens. A task whose
 * answers cannot be scored (texts or class names missing) is named and left as it is;
 * then KVA_EMISSING. KVA_EINVALID: no task has the metric. */
enum kva_status kva_rescore(struct kva_db *db, const struct kva_rescore_opts *opts,
                            struct kva_error *err);

#endif
