/* SPDX-License-Identifier: GPL-3.0-or-later */
/* spec.h - internal to methods/: the canonical texts of a method. */
#ifndef KVA_METHODS_SPEC_H
#define KVA_METHODS_SPEC_H

#include "methods/method.h"

/* Writes spec, scorer_spec, wrapped_spec and allocator_spec; `file` stands for the value
 * of the parameter of type FILE. */
enum kva_status kva_method_specs(struct kva_method *m, const char *file,
                                 struct kva_error *err);

#endif
