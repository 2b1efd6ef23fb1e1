/* SPDX-License-Identifier: GPL-3.0-or-later */
/* keydiff.h - internal to methods/: keys that point away from the others
 * (score_keydiff.c). */
#ifndef KVA_METHODS_KEYDIFF_H
#define KVA_METHODS_KEYDIFF_H

#include "methods/method.h"

/* s = cos(k, anchor), anchor the mean of the keys of a KV head; unit != 0: of the keys
 * divided by their norm. The score is its negative. */
enum kva_status kva_keydiff_score(const struct kva_layer_view *view, int unit, float *s,
                                  struct kva_error *err);

#endif
