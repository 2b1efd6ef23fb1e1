/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_cur.c - keep entries that hold most of their neighbourhood's energy.
 *
 *     k2_j = ||k_j||^2 / sum of ||k||^2 over j's window of entries; v2_j alike
 *     s_j  = k2 v2 (product), k2 (key), v2 (value), (k2 + v2) / 2 (mean),
 *            divided by the sum over the KV head
 *
 * Windows are cut from the entries held, oldest first. The last one may be short: its sum
 * runs over the members it has, which favours them (methods.md 12, E22). A window without
 * energy has the share 0. */
#include "methods/method.h"

#include <math.h>

enum { RECENT, SINKS, TYPE, WINDOW };
enum { TYPE_PRODUCT, TYPE_KEY, TYPE_VALUE, TYPE_MEAN };

static const char *const type_names[] = {"product", "key", "value", "mean", NULL};

static const struct kva_param params_table[] = {
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(4),
    {.name = "type",
     .help = "energy of keys and values: their product, one of them, their mean",
     .type = KVA_PARAM_CHOICE,
     .choices = type_names},
    {.name = "window",
     .help = "entries whose energies are compared with each other",
     .type = KVA_PARAM_INT,
     .def = 16,
     .def_block = 16,
     .min = 1,
     .max = 1 << 24},
    {.name = NULL},
};

/* Norms x[n] become shares of their window's sum of squares. */
static void shares(double *x, size_t n, size_t width)
{
    for (size_t w = 0; w < n; w += width) {
        size_t end = n - w < width ? n : w + width;
        double sum = 0;

        for (size_t j = w; j < end; j++)
            sum += x[j] * x[j];
        for (size_t j = w; j < end; j++)
            x[j] = sum > 0 ? x[j] * x[j] / sum : sum; /* 0, or NaN as it came */
    }
}

static double combine(int type, double k2, double v2)
{
    switch (type) {
    case TYPE_KEY:
        return k2;
    case TYPE_VALUE:
        return v2;
    case TYPE_MEAN:
        return (k2 + v2) / 2;
    default:
        return k2 * v2;
    }
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    size_t all = view->off[view->kv_heads], width = (size_t)params->value[WINDOW];
    float *norm = kva_arena_alloc(view->scratch, 2 * all, sizeof *norm);
    double *k2 = kva_arena_alloc(view->scratch, 2 * all, sizeof *k2), *v2;

    if (norm == NULL || k2 == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "cur energies of %zu entries", all);
    v2 = k2 + all;
    view->ops->row_norm(view->ops, view->k, norm);
    view->ops->row_norm(view->ops, view->v, norm + all);
    for (size_t j = 0; j < 2 * all; j++)
        k2[j] = (double)norm[j];
    for (int h = 0; h < view->kv_heads; h++) {
        size_t begin = view->off[h], end = view->off[h + 1];
        double sum = 0;

        shares(k2 + begin, end - begin, width);
        shares(v2 + begin, end - begin, width);
        for (size_t j = begin; j < end; j++) {
            k2[j] = combine((int)params->value[TYPE], k2[j], v2[j]);
            sum += k2[j];
        }
        for (size_t j = begin; j < end; j++)
            s[j] = (float)(sum > 0 ? k2[j] / sum : sum);
    }
    return KVA_OK;
}

const struct kva_scorer kva_score_cur = {
    .name = "cur",
    .summary = "share of key and value energy within a small window",
    .source = "CurDKV, arXiv 2509.15038",
    .storage = "uniform",
    .deviates = "A window without energy has the share 0; kvpress divides "
                "by 0 there. Sinks are a class above all scores, not the "
                "score 1.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_VALUES,
    .version = 1,
    .nonneg = true,
    .params = params_table,
    .score = score,
};
