/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_cake.c - layers whose attention is spread out and moves get more.
 *
 *     H_l = - sum of A log A      over query heads, window rows and entries of layer l
 *     V_l = sum over query heads and entries of the variance of A over the rows
 *     P_l = H_l^(1 / tau1) V_l^(1 / tau2)
 *
 * A: attention weights of the last `window` queries over all visible entries, those of
 * the window itself cut after the softmax. What the scorer protects is outside the
 * division; the rest of the total goes to the layers in proportion to P, the same to
 * every KV head of a layer. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>

#include "methods/layers.h"
#include "methods/window.h"

enum { TAU1, TAU2, WINDOW };

static const struct kva_param params_table[] = {
    {.name = "tau1",
     .help = "temperature of the entropy",
     .type = KVA_PARAM_REAL,
     .def = 1.6,
     .def_block = 1.6,
     .min = 1e-3,
     .max = 1e3},
    {.name = "tau2",
     .help = "temperature of the variance",
     .type = KVA_PARAM_REAL,
     .def = 0.6,
     .def_block = 0.6,
     .min = 1e-3,
     .max = 1e3},
    {.name = "window",
     .help = "last queries whose attention is looked at",
     .type = KVA_PARAM_INT,
     .def = 32,
     .def_block = 32,
     .min = 1,
     .max = 4096},
    {.name = NULL},
};

static int window(const struct kva_params *params)
{
    return (int)params->value[WINDOW];
}

/* Adds entropy and variance of the rows w[rows][stride] of one query head over its first
 * n entries; x: scratch of 3 n. Sums run down the columns: one sum over all would have to
 * wait for itself at every entry. */
static void add_head(const float *w, int rows, size_t stride, size_t n, double *x,
                     double *stat)
{
    double *sum = x, *square = x + n, *entropy = x + 2 * n;

    for (size_t j = 0; j < 3 * n; j++)
        x[j] = 0;
    for (int i = 0; i < rows; i++) {
        const float *row = w + (size_t)i * stride;

        for (size_t j = 0; j < n; j++) {
            double p = (double)row[j];

            sum[j] += p;
            square[j] += p * p;
        }
        for (size_t j = 0; j < n; j++)
            entropy[j] -= row[j] > 0 ? (double)row[j] * (double)logf(row[j]) : 0;
    }
    for (size_t j = 0; j < n; j++) {
        double mean = sum[j] / rows, var = square[j] / rows - mean * mean;

        stat[0] += entropy[j];
        stat[1] += var > 0 ? var : 0;
    }
}

/* stat: H and V of the layer */
static enum kva_status observe(const struct kva_layer_view *view,
                               const struct kva_params *params, double *stat,
                               struct kva_error *err)
{
    int rows = kva_window_rows(view, (int)params->value[WINDOW]);
    int group = view->heads / view->kv_heads;
    size_t most = 0;
    double *x;
    float *w;

    for (int h = 0; h < view->kv_heads; h++) {
        size_t n = view->off[h + 1] - view->off[h];

        most = n > most ? n : most;
    }
    w = kva_arena_alloc(view->scratch, most * (size_t)rows, sizeof *w);
    x = kva_arena_alloc(view->scratch, 3 * most, sizeof *x);
    if (w == NULL || x == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "window attention over %zu entries", most);
    stat[0] = stat[1] = 0;
    for (int a = 0; a < view->heads; a++) {
        struct kva_attend_rows r = kva_window_head(view, rows, a);

        r.w = w;
        view->ops->attend_rows(view->ops, &r);
        add_head(w, rows, r.n, kva_window_older(view, rows, a / group), x, stat);
    }
    return KVA_OK;
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    const struct kva_protect *p = &in->scores->protect;
    int layers = in->scores->layers;
    double *preference;
    enum kva_status rc;

    if (in->seen_stat == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "cake has looked at no layer");
    preference = kva_calloc((size_t)layers, sizeof *preference);
    if (preference == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "budgets of %d layers", layers);
    for (int l = 0; l < layers; l++)
        preference[l] = pow(in->seen_stat[2 * l], 1 / params->value[TAU1]) *
                        pow(in->seen_stat[2 * l + 1], 1 / params->value[TAU2]);
    rc = kva_alloc_layers(in, preference, p->recent + p->sinks, b, err);
    free(preference);
    return rc;
}

const struct kva_allocator kva_alloc_cake = {
    .name = "cake",
    .summary = "layers share by entropy and variance of their attention",
    .source = "CAKE, arXiv 2503.12491",
    .storage = "layer",
    .deviates =
        "The authors take tau1 and tau2 per model and cache size from files; here the "
        "pair of the DefensiveKV port stands for every model. Shares are rounded to the "
        "exact total by largest remainders. Contexts barely longer than the budget are "
        "compressed too. The variance is that of the population: a common factor.",
    .version = 2,
    .even = true,
    .cross_layer = true,
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES,
    .n_stat = 2,
    .params = params_table,
    .window = window,
    .observe = observe,
    .allocate = allocate,
};
