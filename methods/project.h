/* SPDX-License-Identifier: GPL-3.0-or-later */
/* project.h - internal to methods/: values as the output projection sees them. */
#ifndef KVA_METHODS_PROJECT_H
#define KVA_METHODS_PROJECT_H

#include "methods/method.h"

/* w[off[h] + j] = mean over the query heads a of the group of || W_O^a v_j ||, norm 1 or
 * 2. Needs KVA_NEEDS_VALUES | KVA_NEEDS_LEND; memory from view->scratch. */
enum kva_status kva_project_mean(const struct kva_layer_view *view, int norm, float *w,
                                 struct kva_error *err);

#endif
