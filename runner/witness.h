/* SPDX-License-Identifier: GPL-3.0-or-later */
/* witness.h - bytes of a cell as counters see them that the engine does not keep
 * (kernels.md 2.4, 6; bit 16 of reports.md 5.2).
 *
 * On the CPU the resident set of the process. On a device what its driver counts as in
 * use, whoever holds it, and the resident set beside it: what was evicted from the device
 * may not lie on the host.
 *
 * The driver counts other programs, too. When a cell is gone, counter and account must be
 * where they were; if they are not, somebody else moved the counter and nothing is
 * verified. A first use may load what stays (kernels, libraries): then the cell is looked
 * at once more before anything is said. */
#ifndef KVA_WITNESS_H
#define KVA_WITNESS_H

#include "runner/exec_internal.h"

struct kva_witness {
    struct kva_ops *ops;
    int64_t counted;    /* before the cell; -1: nobody counts */
    uint64_t own;       /* bytes that are no pages, by our own account */
    int64_t host;       /* on a device: resident bytes of the host; -1: not known */
    int64_t surplus;    /* counted beyond the account after the cut */
    int64_t slack;      /* max(2 MiB, 2 %) */
    bool claims, hides; /* the cell says it evicts; the host holds more than it may */
};

/* Before the cell's session is made. */
void kva_witness_begin(struct kva_witness *w, const struct kva_unit_run *u);
/* After the last prefill decision and trim. */
void kva_witness_look(struct kva_witness *w, const struct kva_unit_run *u,
                      const struct kva_run_cell *c, struct kva_db_memory *m);
/* When its session is gone. True: look once more (never with `last`). */
bool kva_witness_end(struct kva_witness *w, bool last, struct kva_db_memory *m);
/* VmHWM of the process; -1: not known. */
int64_t kva_witness_host_peak(void);

#endif
