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

/* Sums of one entry over the rows. */
struct moments {
    double sum, square;
};

/* Adds one row: weights m of all query heads, entries before position `end`. Returns its
 * part of the entropy. */
static double add_row(const struct kva_layer_view *view, const float *m,
                      const size_t *off, int32_t end, struct moments *acc)
{
    int group = view->heads / view->kv_heads;
    double entropy = 0;

    for (int a = 0; a < view->heads; a++) {
        const int32_t *pos = view->pos + view->off[a / group];

        for (size_t j = 0; j < off[a + 1] - off[a] && pos[j] < end; j++) {
            double p = (double)m[off[a] + j];

            entropy -= p > 0 ? p * log(p) : 0;
            acc[off[a] + j].sum += p;
            acc[off[a] + j].square += p * p;
        }
    }
    return entropy;
}

/* stat: H and V of the layer */
static enum kva_status observe(const struct kva_layer_view *view,
                               const struct kva_params *params, double *stat,
                               struct kva_error *err)
{
    size_t *off = kva_arena_alloc(view->scratch, (size_t)view->heads + 1, sizeof *off);
    size_t stride = (size_t)view->heads * (size_t)view->head_dim, n = 0;
    int rows = kva_window_rows(view, (int)params->value[WINDOW]), skip = view->nq - rows;
    int group = view->heads / view->kv_heads;
    struct moments *acc;
    float *m;

    if (view->q == NULL || skip < 0)
        return KVA_FAIL(err, KVA_EINVALID, "cake needs queries and the session has none");
    if (off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "window attention");
    for (int a = 0; a < view->heads; a++)
        off[a + 1] = off[a] + view->off[a / group + 1] - view->off[a / group];
    n = off[view->heads];
    m = kva_arena_alloc(view->scratch, n, sizeof *m);
    acc = kva_arena_alloc(view->scratch, n, sizeof *acc);
    if (m == NULL || acc == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "window attention over %zu entries", n);
    for (size_t j = 0; j < n; j++)
        acc[j] = (struct moments){0, 0};
    stat[0] = stat[1] = 0;
    for (int i = 0; i < rows; i++) {
        /* the mean of one row is the row */
        view->ops->window_mean(view->ops, view->q + (size_t)(skip + i) * stride,
                               view->q_pos + skip + i, 1, view->heads, view->k, view->pos,
                               view->scale, m, off);
        stat[0] += add_row(view, m, off, view->q_pos[skip], acc);
    }
    for (size_t j = 0; j < n; j++) {
        double mean = acc[j].sum / rows, var = acc[j].square / rows - mean * mean;

        stat[1] += var > 0 ? var : 0;
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
    .version = 1,
    .even = true,
    .cross_layer = true,
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES,
    .n_stat = 2,
    .params = params_table,
    .window = window,
    .observe = observe,
    .allocate = allocate,
};
