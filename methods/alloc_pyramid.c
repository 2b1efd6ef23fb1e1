/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_pyramid.c - lower layers keep more, on a straight line over the layers.
 *
 *     N   = total / KV heads of the model
 *     min = N / beta,  max = 2 N - min
 *     max >= S - window:  max = S - window, min = 2 N - max
 *     b_l = max - l (max - min) / (layers - 1)       entries of each KV head of layer l
 *
 * S: tokens of the prompt. Unless S >= max >= min >= window every layer gets N instead
 * (`fallback`): with beta 20 and window 64 that is the case whenever N < 1280 and max is
 * not clipped, so that at 4,096 tokens and a quarter kept PyramidKV *is* its scorer. The
 * formula is that of kvpress; the official code leaves the window out of the line. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/layers.h"

enum { BETA, COMPAT, WINDOW };

static const struct kva_param params_table[] = {
    {.name = "beta",
     .help = "how much steeper: the last layer gets N / beta",
     .type = KVA_PARAM_REAL,
     .def = 20,
     .def_block = 20,
     .min = 1,
     .max = 1e6},
    {.name = "compat",
     .help = "1: each layer rounded by itself, half to even, as kvpress does",
     .type = KVA_PARAM_INT,
     .max = 1},
    {.name = "window",
     .help = "entries every layer must get, else all get the same",
     .type = KVA_PARAM_INT,
     .def = 64,
     .def_block = 64,
     .max = 1 << 20},
    {.name = NULL},
};

/* Fills want[layers]; false: the line does not fit. */
static bool line(const struct kva_params *params, double n, double tokens, int layers,
                 double *want)
{
    double window = params->value[WINDOW], min = n / params->value[BETA],
           max = 2 * n - min;

    if (max >= tokens - window) {
        max = tokens - window;
        min = 2 * n - max;
    }
    if (!(tokens >= max && max >= min && min >= window))
        return false;
    for (int l = 0; l < layers; l++)
        want[l] = layers > 1 ? max - l * ((max - min) / (layers - 1)) : max;
    return true;
}

/* Rounded half to even as nearbyint does; then the total is put right. */
static enum kva_status rounded(const struct kva_alloc_in *in, const double *want, int *b,
                               struct kva_error *err)
{
    int heads = in->scores->kv_heads, c = in->scores->layers * heads;
    int *n = kva_alloc_held(in);

    if (n == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", c);
    for (int i = 0; i < c; i++) {
        double x = nearbyint(want[i / heads]);

        b[i] = x < 1 ? 1 : x > n[i] ? n[i] : (int)x;
    }
    kva_alloc_settle(in->total, n, c, b);
    free(n);
    return KVA_OK;
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    int layers = in->scores->layers, c = layers * in->scores->kv_heads;
    double *want = kva_calloc((size_t)layers, sizeof *want);
    enum kva_status rc = KVA_OK;

    if (want == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "budgets of %d layers", layers);
    if (!line(params, (double)in->total / c, kva_alloc_tokens(in), layers, want)) {
        *in->fallback = true;
        memcpy(b, in->base, (size_t)c * sizeof *b);
    } else if (params->value[COMPAT] > 0) {
        rc = rounded(in, want, b, err);
    } else {
        rc = kva_alloc_layers(in, want, 0, b, err);
    }
    free(want);
    return rc;
}

const struct kva_allocator kva_alloc_pyramid = {
    .name = "pyramid",
    .summary = "lower layers keep more, on a line; uniform where that does not fit",
    .source = "PyramidKV, arXiv 2406.02069",
    .storage = "layer; query head",
    .deviates =
        "kvpress rounds each layer, here the largest remainders make the total exact "
        "(compat=1: rounded by layer, then the total is put right; equal sets on every "
        "oracle row). The silent fallback to uniform shares is reported. KVCache-Factory "
        "divides in integers, adds the window on top and keeps one list per query head.",
    .version = 1,
    .even = true,
    .params = params_table,
    .allocate = allocate,
};
