/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text.c - a report as text. */
#include "reports/report.h"

#include <stdlib.h>

struct kva_report {
    int n_cells;
};

enum kva_status kva_report_build(const struct kva_data *data,
                                 const struct kva_report_opts *opts,
                                 struct kva_report **r, struct kva_error *err)
{
    (void)opts;
    if (data->n_outcomes == 0)
        return KVA_FAIL(err, KVA_EMISSING, "the database holds no outcome");
    *r = kva_calloc(1, sizeof **r);
    if (!*r)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    (*r)->n_cells = data->n_cells;
    return KVA_OK;
}
void kva_report_free(struct kva_report *r)
{
    free(r);
}
enum kva_status kva_report_text(const struct kva_report *r, struct kva_buf *out,
                                struct kva_error *err)
{
    kva_buf_printf(out, "%d cells\n", r->n_cells);
    return kva_buf_status(out, err);
}
enum kva_status kva_report_json(const struct kva_report *r, struct kva_buf *out,
                                struct kva_error *err)
{
    return kva_report_text(r, out, err);
}
enum kva_status kva_report_csv(const struct kva_report *r, struct kva_buf *out,
                               struct kva_error *err)
{
    return kva_report_text(r, out, err);
}
enum kva_status kva_report_markdown(const struct kva_report *r, struct kva_buf *out,
                                    struct kva_error *err)
{
    return kva_report_text(r, out, err);
}
enum kva_status kva_report_html(const struct kva_report *r, const char *figures_dir,
                                struct kva_buf *out, struct kva_error *err)
{
    (void)figures_dir;
    return kva_report_text(r, out, err);
}
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
