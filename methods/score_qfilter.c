/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_qfilter.c - keep keys on the side the model's queries look to.
 *
 *     s_j = -(f . k_j)        f: the KV head's filter, minus the mean query direction
 *
 * Filters come from a file of the kind "qfilter", one row of head_dim numbers a KV head;
 * `kvaudit analyze qfilter` makes it (models/qfilter.c). */
#include "methods/method.h"

static const struct kva_param params_table[] = {
    {.name = "filter",
     .help = "file of filters, made by `kvaudit analyze qfilter`",
     .type = KVA_PARAM_FILE,
     .max = 1},
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = NULL},
};

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    size_t dim = (size_t)view->head_dim;

    (void)params;
    if (view->table == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "qfilter needs a file of filters");
    if (view->table->columns != view->head_dim || view->table->layers != view->layers ||
        view->table->kv_heads != view->kv_heads)
        return KVA_FAIL(err, KVA_EINVALID,
                        "qfilter: the filters have %d numbers for each of %d x %d KV "
                        "heads, the keys %d for each of %d x %d",
                        view->table->columns, view->table->layers, view->table->kv_heads,
                        view->head_dim, view->layers, view->kv_heads);
    for (int h = 0; h < view->kv_heads; h++) {
        const double *f =
            view->table->data +
            ((size_t)view->layer * (size_t)view->kv_heads + (size_t)h) * dim;

        for (size_t j = view->off[h]; j < view->off[h + 1]; j++) {
            const float *k = view->k->data + j * dim;
            double dot = 0;

            for (size_t i = 0; i < dim; i++)
                dot += f[i] * (double)k[i];
            s[j] = (float)-dot;
        }
    }
    return KVA_OK;
}

const struct kva_scorer kva_score_qfilter = {
    .name = "qfilter",
    .summary = "projection of each key on the head's mean query direction",
    .source = "Q-Filters, arXiv 2503.02812",
    .storage = "uniform",
    .deviates = "Filters are made here from the model itself: 3000 evenly "
                "spaced queries of 20 texts, through their Gram matrix; the "
                "official ones are downloaded per model.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_HOST,
    .version = 1,
    .table_kind = "qfilter",
    .params = params_table,
    .score = score,
};
