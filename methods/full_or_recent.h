/* SPDX-License-Identifier: GPL-3.0-or-later */
/* full_or_recent.h - internal to methods/: some keep everything, the others the first and
 * the newest entries (methods.md 9). */
#ifndef KVA_METHODS_FULL_OR_RECENT_H
#define KVA_METHODS_FULL_OR_RECENT_H

#include "methods/method.h"

/* Every kvhead gets the scorer's sinks and `recent` entries (all it holds, if that is
 * less); then one after another, the largest want[units] first, lower units on ties, is
 * raised to everything it holds until the total is used up; the last one takes what is
 * left. A unit is `heads` kvheads, which share equally. When the first step alone exceeds
 * the total every kvhead gets its uniform share and *in->fallback is set. */
enum kva_status kva_full_or_recent(const struct kva_alloc_in *in, const double *want,
                                   int units, int heads, int recent, int *b,
                                   struct kva_error *err);

#endif
