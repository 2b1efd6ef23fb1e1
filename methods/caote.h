/* SPDX-License-Identifier: GPL-3.0-or-later */
/* caote.h - internal to methods/: change of the output when an entry is dropped, shared
 * by caote and fastcaote. */
#ifndef KVA_METHODS_CAOTE_H
#define KVA_METHODS_CAOTE_H

#include "methods/method.h"

/* s from the scorer's scores; fast: against the plain mean of the values. */
enum kva_status kva_caote_rescore(const struct kva_layer_view *view, const float *base,
                                  bool fast, float *s, struct kva_error *err);
const char *kva_caote_refuse(const struct kva_scorer *s, const struct kva_allocator *a);

#endif
