/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wrap_fastcaote.c - caote against the plain mean of the values (caote.c). */
#include "methods/caote.h"

static enum kva_status rescore(const struct kva_layer_view *view,
                               const struct kva_params *params, const float *base,
                               float *s, float *aux, struct kva_error *err)
{
    (void)params;
    (void)aux;
    return kva_caote_rescore(view, base, true, s, err);
}

const struct kva_wrapper kva_wrap_fastcaote = {
    .name = "fastcaote",
    .summary = "caote with the plain mean of the values as output",
    .source = "CAOTE, arXiv 2504.14051",
    .storage = "uniform",
    .needs = KVA_NEEDS_VALUES | KVA_NEEDS_HOST,
    .version = 1,
    .nonneg = true,
    .refuse = kva_caote_refuse,
    .rescore = rescore,
};
