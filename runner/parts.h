/* SPDX-License-Identifier: GPL-3.0-or-later */
/* parts.h - how long the parts of a cell took (kernels.md 6), by the marks of a backend.
 *
 * A device does later what it is asked for now, so the time of asking says nothing: a
 * part begins and ends where marks stand in the device's own order, and nobody waits for
 * them before the end. On the CPU a mark is the host's clock. A mark sends out what a
 * backend holds back, so it stands between two replayed graphs and is part of none: parts
 * of replayed steps and of plain ones are timed alike.
 *
 * Every moment from begin to end belongs to one part. One of these at a time on a table:
 *
 *     kva_parts_begin(&p, ops, KVA_PART_PREFILL);
 *     ... kva_parts_enter(&p, KVA_PART_SCORE);
 *     ... kva_parts_enter(&p, KVA_PART_NONE);
 *     ... kva_parts_end(&p);
 *     p.ns[KVA_PART_SCORE] */
#ifndef KVA_PARTS_H
#define KVA_PARTS_H

#include "kernels/kernels.h"

enum kva_part {
    KVA_PART_NONE, /* nobody's: witnesses, books */
    KVA_PART_PREFILL,
    KVA_PART_SCORE,
    KVA_PART_EVICT,
    KVA_PART_QUESTION,
    KVA_PARTS
};

struct kva_parts {
    struct kva_ops *ops;           /* NULL: not begun; the functions do nothing */
    enum kva_part part[KVA_MARKS]; /* that began at the mark */
    int first, n;                  /* marks whose part is not added up yet: a ring */
    uint64_t ns[KVA_PARTS];
};
void kva_parts_begin(struct kva_parts *p, struct kva_ops *ops, enum kva_part part);
/* p may be NULL. */
void kva_parts_enter(struct kva_parts *p, enum kva_part part);
/* Waits for the last mark. */
void kva_parts_end(struct kva_parts *p);
/* What tells the times of parts: "monotonic", the host's clock, or "events". */
const char *kva_parts_clock(const struct kva_ops *ops);
const char *kva_parts_clock_named(const char *name); /* the same, of its copy; or NULL */

#endif
