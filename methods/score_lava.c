/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_lava.c - attention of the window, weighed by how large the values of a KV head
 * get.
 *
 *     s_j = max over the query heads a of the group of pool(m[a])_j * max_i ||v_i||_1
 *
 * m[a] is the mean over the W' window rows, pooled by maximum; the factor is one number a
 * KV head, over all entries it holds, and makes scores comparable across heads
 * (methods.md 6.7). The window's entries are protected. */
#include "methods/method.h"

#include <math.h>

#include "methods/room.h"
#include "methods/window.h"

enum { KERNEL, RECENT, SINKS, WINDOW };

static const struct kva_param params_table[] = {
    KVA_PARAM_KERNEL(7),  KVA_PARAM_RECENT, KVA_PARAM_SINKS(0),
    KVA_PARAM_WINDOW(32), {.name = NULL},
};

static int window(const struct kva_params *params)
{
    return (int)params->value[WINDOW];
}

static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    kva_window_protect(kva_window_rows(view, window(params)), p);
}

/* max_i ||v_i||_1 of KV head h */
static double largest_value(const struct kva_layer_view *view, const float *values, int h)
{
    size_t dim = (size_t)view->v_dim;
    double best = 0;

    for (size_t j = view->off[h]; j < view->off[h + 1]; j++) {
        const float *v = values + j * dim;
        double sum = 0;

        for (size_t x = 0; x < dim; x++)
            sum += fabs((double)v[x]);
        best = sum > best ? sum : best;
    }
    return best;
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    int rows = kva_window_rows(view, window(params)),
        group = view->heads / view->kv_heads;
    size_t most = kva_window_most(view);
    double *x = kva_arena_alloc(view->scratch, 2 * most, sizeof *x), *y = x + most;
    const float *v = kva_room_read(view, view->v);
    struct kva_window w;

    if (x == NULL || v == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "lava scores of %zu entries", most);
    KVA_TRY(kva_window_attend(view, rows, true, &w, err));
    for (int h = 0; h < view->kv_heads; h++) {
        size_t held = view->off[h + 1] - view->off[h];
        size_t n = kva_window_older(view, rows, h);
        double factor = largest_value(view, v, h);
        float *to = s + view->off[h];

        for (size_t j = 0; j < held; j++)
            to[j] = 0;
        for (int a = h * group; a < (h + 1) * group; a++) {
            for (size_t j = 0; j < n; j++)
                x[j] = (double)w.m[w.off[a] + j];
            kva_window_pool(x, n, (int)params->value[KERNEL], true, y);
            for (size_t j = 0; j < n; j++)
                to[j] = (float)(y[j] * factor) > to[j] ? (float)(y[j] * factor) : to[j];
        }
    }
    return KVA_OK;
}

const struct kva_scorer kva_score_lava = {
    .name = "lava",
    .summary = "attention of the window times the largest value of its KV head",
    .source = "LAVa, arXiv 2509.09754",
    .storage = "ragged",
    .deviates = "The published method is this scorer under the allocator lava; alone it "
                "runs under any.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_VALUES | KVA_NEEDS_QUERIES,
    .version = 1,
    .attention = true,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .window = window,
    .protect = protect,
    .score = score,
};
