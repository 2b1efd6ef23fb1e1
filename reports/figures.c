/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures.c - data and gnuplot sources of the figures. */
#include "reports/internal.h"

enum kva_status kva_figures_build(struct kva_report *r, const struct kva_data *d,
                                  const struct kva_cells *c, struct kva_error *err)
{
    (void)r;
    (void)d;
    (void)c;
    (void)err;
    return KVA_OK;
}
