/* SPDX-License-Identifier: GPL-3.0-or-later */
/* registry.c - the table of text metrics, and what is done before one scores. */
#include "metrics/text.h"

#include <string.h>

#define METRIC(name) extern const struct kva_metric kva_text_##name;
#include "metrics/metrics.def"
#undef METRIC

static const struct kva_metric *const table[] = {
#define METRIC(name) &kva_text_##name,
#include "metrics/metrics.def"
#undef METRIC
    NULL};

const struct kva_metric *const *kva_metrics(void)
{
    return table;
}

const struct kva_metric *kva_metric_find(const char *name)
{
    for (size_t i = 0; table[i]; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

enum kva_status kva_metric_score(const struct kva_metric *m,
                                 const struct kva_metric_in *in,
                                 struct kva_metric_out *out, struct kva_error *err)
{
    struct kva_metric_in own = *in;
    struct kva_buf clean, text;
    enum kva_status rc = KVA_OK;

    out->score = 0;
    out->how = NULL;
    kva_buf_init(&clean, 0);
    kva_buf_init(&text, 0);
    for (int i = 0; i < in->n_answers; i++)
        if (!in->answers[i])
            goto out;
    if (in->n_answers < 1)
        goto out;
    /* as Python decodes with errors="replace" */
    kva_utf8_clean(in->prediction, in->n, &clean);
    KVA_GO(kva_buf_status(&clean, err));
    KVA_GO(kva_post_apply(in->post, clean.data, clean.len, &text, err));
    own.prediction = text.data ? text.data : "";
    own.n = text.len;
    own.post = KVA_POST_NONE;
    rc = m->score(&own, out, err);
out:
    kva_buf_release(&text);
    kva_buf_release(&clean);
    return rc;
}
