/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_public.h - graders of other suites, reproduced. Internal to metrics. */
#ifndef KVA_METRICS_MATH_PUBLIC_H
#define KVA_METRICS_MATH_PUBLIC_H

#include "metrics/math_expr.h"

/* ---- math_latex.c ---- */

/* An expression as sympy's parse_latex reads it: the longest prefix that is one. NULL: it
 * raises, or the result is no expression. */
const struct kva_math_node *kva_math_latex_read(struct kva_math *m,
                                                struct kva_math_span text);

/* ---- math_minerva.c ---- */

struct kva_math_span kva_math_minerva_normal(struct kva_math *m,
                                             struct kva_math_span text);
/* Is simplify(p - g) == 0, of two normal forms? */
bool kva_math_minerva_same(struct kva_math *m, struct kva_math_span p,
                           struct kva_math_span g);

/* ---- math_hendrycks.c ---- */

/* strip_string; false: it raises, and the strings are compared as they are. */
bool kva_math_hendrycks_normal(struct kva_math *m, struct kva_math_span text,
                               struct kva_math_span *out);

/* Copies t with every `from` replaced by `to`, left to right. */
struct kva_math_span kva_math_replace(struct kva_math *m, struct kva_math_span t,
                                      const char *from, const char *to);

#endif
