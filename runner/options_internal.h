/* SPDX-License-Identifier: GPL-3.0-or-later */
/* options_internal.h - between parsing and printing of the option tables. */
#ifndef KVA_OPTIONS_INTERNAL_H
#define KVA_OPTIONS_INTERNAL_H

#include "runner/options.h"

/* Options every command has; ends with a NULL name. */
const struct kva_opt *kva_options_common(void);

#endif
