/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wrap_caote.c - caote on top of a scorer: the exact change of the output. */
#include "methods/caote.h"

static enum kva_status rescore(const struct kva_layer_view *view,
                               const struct kva_params *params, const float *base,
                               float *s, float *aux, struct kva_error *err)
{
    (void)params;
    (void)aux;
    return kva_caote_rescore(view, base, false, s, err);
}

const struct kva_wrapper kva_wrap_caote = {
    .name = "caote",
    .summary = "exact change of the output when an entry alone is dropped",
    .source = "CAOTE, arXiv 2504.14051",
    .storage = "uniform",
    .needs = KVA_NEEDS_VALUES | KVA_NEEDS_HOST,
    .version = 1,
    .nonneg = true,
    .refuse = kva_caote_refuse,
    .rescore = rescore,
};
