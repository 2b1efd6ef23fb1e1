/* SPDX-License-Identifier: GPL-3.0-or-later */
/* slurm.h - a sweep as a Slurm job array and a merge that waits for it
 * (reports.md 9.3). */
#ifndef KVA_SLURM_H
#define KVA_SLURM_H

#include "kva.h"

struct kva_slurm {
    const char *program; /* absolute */
    const char *cwd;     /* absolute; relative paths below stand on it */
    const char *suite;   /* as given */
    const char *dir;     /* databases, scripts and logs */
    const char *words;   /* further options of `run`, quoted, each after a blank */
    int shards;
    bool gpu; /* the build has a CUDA backend */
};
/* Appends a bash script that writes DIR/shard.sh and DIR/merge.sh and submits both; its
 * own arguments go to the sbatch of the array. */
void kva_slurm_script(const struct kva_slurm *s, struct kva_buf *out);

#endif
