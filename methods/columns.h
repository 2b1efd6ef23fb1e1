/* SPDX-License-Identifier: GPL-3.0-or-later */
/* columns.h - internal to methods/: scores from the attention that every query has paid
 * (methods.md 6.2). */
#ifndef KVA_METHODS_COLUMNS_H
#define KVA_METHODS_COLUMNS_H

#include "methods/method.h"

/* Mean (or sum) over the group of the column sums collected so far; `viewers`: divided by
 * the queries read since the entry's own, that one included, all of which saw it. */
enum kva_status kva_columns_score(const struct kva_layer_view *view, bool mean,
                                  bool viewers, float *s, struct kva_error *err);

enum kva_columns_reduce { KVA_COLUMNS_SUM, KVA_COLUMNS_MEAN };
extern const char *const kva_columns_reduce_names[];
#define KVA_PARAM_REDUCE(x)                                                              \
    {                                                                                    \
        .name = "reduce", .help = "sum or mean over the query heads of a group",         \
        .type = KVA_PARAM_CHOICE, .def = (x), .def_block = (x),                          \
        .choices = kva_columns_reduce_names                                              \
    }
#define KVA_PARAM_VIEWERS(x)                                                             \
    {                                                                                    \
        .name = "viewers", .help = "1: divided by the number of queries that saw it",    \
        .type = KVA_PARAM_INT, .def = (x), .def_block = (x), .max = 1                    \
    }

#endif
