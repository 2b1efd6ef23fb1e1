/* SPDX-License-Identifier: GPL-3.0-or-later */
/* html.c - one self-contained page. */
#include "reports/internal.h"

enum kva_status kva_report_html(const struct kva_report *r, const char *figures_dir,
                                struct kva_buf *out, struct kva_error *err)
{
    (void)r;
    (void)out;
    (void)figures_dir;
    return KVA_FAIL(err, KVA_EUNSUPPORTED, "no page");
}
