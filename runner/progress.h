/* SPDX-License-Identifier: GPL-3.0-or-later */
/* progress.h - how far a run is, on stderr (reports.md 8.4). */
#ifndef KVA_PROGRESS_H
#define KVA_PROGRESS_H

#include "runner/plan.h"

#include <stdio.h>

struct kva_progress;

/* mode: "auto" (NULL), "bar", "plain", "json" or "none"; auto is a bar on a terminal that
 * is not dumb, with CI and NO_COLOR unset, else plain. total: outcomes and perf runs to
 * come; the plan gives the predicted cost of all units, jobs divides it. */
enum kva_status kva_progress_new(const char *mode, int64_t total,
                                 const struct kva_plan *plan, int jobs,
                                 struct kva_progress **p, struct kva_error *err);
void kva_progress_free(struct kva_progress *p); /* NULL allowed */
/* Another stream than stderr. */
void kva_progress_stream(struct kva_progress *p, FILE *to);
/* One outcome has its status: "ok", "truncated" and "skipped" count as skip, the rest as
 * err. */
void kva_progress_outcome(struct kva_progress *p, const char *status, const char *slug,
                          int idx);
/* A unit's shared jobs, or those that ran alone, took `ns` of their worker: feeds the
 * ETA. */
void kva_progress_unit(struct kva_progress *p, const struct kva_unit *u, bool alone,
                       int64_t ns);
/* Redraws when it is time. */
void kva_progress_tick(struct kva_progress *p);
/* A line above the bar. */
void kva_progress_log(struct kva_progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Last state; the bar's line is ended. */
void kva_progress_end(struct kva_progress *p);

/* "2m16s", "1h04m", "45s" */
void kva_duration_text(double seconds, char out[24]);

#endif
