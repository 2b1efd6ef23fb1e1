/* SPDX-License-Identifier: GPL-3.0-or-later */
/* write.c - a report as a directory. */
#include "reports/internal.h"

enum kva_status kva_report_figures(const struct kva_report *r, const char *dir,
                                   struct kva_error *err)
{
    (void)r;
    return KVA_FAIL(err, KVA_ETOOL, "no figures in %s", dir);
}
enum kva_status kva_report_write(const struct kva_report *r, const char *dir, bool force,
                                 struct kva_error *err)
{
    (void)r;
    (void)force;
    return KVA_FAIL(err, KVA_EUNSUPPORTED, "cannot write %s", dir);
}
