/* SPDX-License-Identifier: GPL-3.0-or-later */
/* outputs.h - internal to methods/: scores from what an entry does to the outputs of the
 * window's rows (methods.md 6.5). */
#ifndef KVA_METHODS_OUTPUTS_H
#define KVA_METHODS_OUTPUTS_H

#include "methods/method.h"

/* One entry as one row of one query head sees it: weight, scaled logit, squared norm of
 * the value, its product with the row's output, squared distance of the two. */
struct kva_output {
    double a, z, vv, vo, dd;
};

/* s_j = pool(sum over the last `rows` queries and the group's heads of term), max pooling
 * with `kernel`; entries of the window itself are cut before and get 0. */
enum kva_status kva_output_scores(const struct kva_layer_view *view, int rows, int kernel,
                                  double (*term)(const struct kva_output *), float *s,
                                  struct kva_error *err);

#endif
