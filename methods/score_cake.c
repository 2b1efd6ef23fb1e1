/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_cake.c - keep what the window looks at, and what only some of it looks at.
 *
 *     x[a][j] = mean_i A[a][i][j] + gamma * var_i A[a][i][j]   over the W' window rows
 *     s_j     = mean over the query heads a of the group of pool(x[a])_j
 *
 * The variance is unbiased; one row has none. Window columns are cut before pooling and
 * the window's entries are protected, as in snapkv (methods.md 6.7). */
#include "methods/method.h"

#include "methods/window.h"

enum { GAMMA, KERNEL, RECENT, SINKS, WINDOW };

static const struct kva_param params_table[] = {
    {.name = "gamma",
     .help = "weight of the variance over the window",
     .type = KVA_PARAM_REAL,
     .def = 200,
     .def_block = 200,
     .max = 1e9},
    KVA_PARAM_KERNEL(5),
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    KVA_PARAM_WINDOW(32),
    {.name = NULL},
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

/* x[j] of the rows w[rows][n], the first `older` entries */
static void spread(const float *w, int rows, size_t n, size_t older, double gamma,
                   double *x)
{
    for (size_t j = 0; j < older; j++) {
        double mean = 0, square = 0;

        for (int i = 0; i < rows; i++)
            mean += (double)w[(size_t)i * n + j];
        mean /= rows;
        for (int i = 0; i < rows; i++) {
            double d = (double)w[(size_t)i * n + j] - mean;

            square += d * d;
        }
        x[j] = mean + (rows > 1 ? gamma * square / (rows - 1) : 0);
    }
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    int rows = kva_window_rows(view, window(params)),
        group = view->heads / view->kv_heads;
    size_t most = kva_window_most(view);
    float *w = kva_arena_alloc(view->scratch, most * (size_t)rows, sizeof *w);
    double *x = kva_arena_alloc(view->scratch, 3 * most, sizeof *x);
    double *y = x + most, *z = y + most;

    if (w == NULL || x == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "cake scores of %zu entries", most);
    for (int h = 0; h < view->kv_heads; h++) {
        size_t held = view->off[h + 1] - view->off[h];
        size_t n = kva_window_older(view, rows, h);

        for (size_t j = 0; j < n; j++)
            z[j] = 0;
        for (int a = h * group; a < (h + 1) * group; a++) {
            struct kva_attend_rows r = kva_window_head(view, rows, a);

            r.w = w;
            view->ops->attend_rows(view->ops, &r);
            spread(w, rows, held, n, params->value[GAMMA], x);
            kva_window_pool(x, n, (int)params->value[KERNEL], false, y);
            for (size_t j = 0; j < n; j++)
                z[j] += y[j] / group;
        }
        for (size_t j = 0; j < held; j++)
            s[view->off[h] + j] = j < n ? (float)z[j] : 0.0f;
    }
    return KVA_OK;
}

const struct kva_scorer kva_score_cake = {
    .name = "cake",
    .summary = "mean and variance of the window's attention, pooled",
    .source = "CAKE, arXiv 2503.12491",
    .storage = "layer",
    .deviates = "The published method is this scorer under the allocator cake; alone it "
                "runs under any.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES,
    .version = 1,
    .attention = true,
    .nonneg = true,
    .comparable = true,
    .params = params_table,
    .window = window,
    .protect = protect,
    .score = score,
};
