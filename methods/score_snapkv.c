/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_snapkv.c - keep what the last window of queries looks at, smoothed over
 * neighbours.
 *
 *     m[a][j] = mean over the W' window rows of A[a][i][j], window columns cut
 *     s_j     = mean over the query heads a of the group of pool(m[a])_j
 *
 * Softmax runs over all visible keys, window included; its columns are cut *before*
 * pooling, and the W' window entries are protected. W' = min(window, block length); a
 * context that is not longer than that uses W' = max(1, floor(S / 2)) (methods.md 3.10).
 * At a decode-time decision the block length is the number of queries the session has
 * kept. In a cache that has evicted before, pooling runs over neighbours in the KV head's
 * own list of entries.
 *
 * Published codes differ: official code keeps one ranking per query head; others reduce
 * the group before pooling (group=before). With average pooling both orders agree. */
#include "methods/method.h"

#include "methods/window.h"

enum { GROUP, KERNEL, POOL, RECENT, SINKS, WINDOW };
enum { GROUP_AFTER, GROUP_BEFORE };
enum { POOL_AVG, POOL_MAX };

static const char *const group_names[] = {"after", "before", NULL};
static const char *const pool_names[] = {"avg", "max", NULL};

static const struct kva_param params_table[] = {
    {.name = "group",
     .help = "mean over the query heads of a group: after or before pooling",
     .type = KVA_PARAM_CHOICE,
     .choices = group_names},
    {.name = "kernel",
     .help = "width of the pooling, odd",
     .type = KVA_PARAM_INT,
     .def = 5,
     .def_block = 5,
     .min = 1,
     .max = 255,
     .odd = true},
    {.name = "pool",
     .help = "pooling over neighbouring entries",
     .type = KVA_PARAM_CHOICE,
     .choices = pool_names},
    KVA_PARAM_RECENT,
    KVA_PARAM_SINKS(0),
    {.name = "window",
     .help = "last queries that vote; their entries always stay",
     .type = KVA_PARAM_INT,
     .def = 64,
     .def_block = 64,
     .min = 1,
     .max = 4096},
    {.name = NULL},
};

static int window(const struct kva_params *params)
{
    return (int)params->value[WINDOW];
}

/* W' */
static int rows_used(const struct kva_params *params, const struct kva_layer_view *view)
{
    return kva_window_rows(view, (int)params->value[WINDOW]);
}

static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    int rows = rows_used(params, view);

    if (p->recent < rows)
        p->recent = rows;
}

/* Scores of one KV head: x, y, z are scratch of n doubles. */
static void score_head(const struct kva_layer_view *view, const struct kva_params *params,
                       const struct kva_window *w, int h, double *x, double *y, double *z,
                       float *s)
{
    int group = view->heads / view->kv_heads, kernel = (int)params->value[KERNEL];
    bool max = (int)params->value[POOL] == POOL_MAX;
    bool before = (int)params->value[GROUP] == GROUP_BEFORE;
    const int32_t *pos = view->pos + view->off[h];
    size_t held = view->off[h + 1] - view->off[h], n = 0;

    while (n < held && pos[n] < w->first_pos)
        n++;
    for (size_t j = 0; j < n; j++)
        z[j] = 0;
    for (int a = h * group; a < (h + 1) * group; a++) {
        const float *m = w->m + w->off[a];

        for (size_t j = 0; j < n; j++)
            x[j] = (double)m[j];
        if (!before)
            kva_window_pool(x, n, kernel, max, y);
        for (size_t j = 0; j < n; j++)
            z[j] += before ? x[j] : y[j];
    }
    for (size_t j = 0; j < n; j++)
        x[j] = z[j] / group;
    if (before)
        kva_window_pool(x, n, kernel, max, y);
    for (size_t j = 0; j < held;
         j++) /* the window itself is protected, its score is not read */
        s[j] = j >= n ? 0.0f : (float)(before ? y[j] : x[j]);
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    size_t most = 0;
    struct kva_window w;
    double *x;

    KVA_TRY(kva_window_attend(view, rows_used(params, view), &w, err));
    for (int h = 0; h < view->kv_heads; h++) {
        if (view->off[h + 1] - view->off[h] > most)
            most = view->off[h + 1] - view->off[h];
    }
    x = kva_arena_alloc(view->scratch, 3 * most, sizeof *x);
    if (x == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "snapkv scores of %zu entries", most);
    for (int h = 0; h < view->kv_heads; h++)
        score_head(view, params, &w, h, x, x + most, x + 2 * most, s + view->off[h]);
    return KVA_OK;
}

const struct kva_scorer kva_score_snapkv = {
    .name = "snapkv",
    .summary = "attention of the last window of queries, pooled over neighbours",
    .source = "SnapKV, arXiv 2404.14469",
    .storage = "uniform; query head",
    .deviates = "Official code ranks per query head and holds group times the "
                "entries; here the group is averaged, as in kvpress, whose "
                "window and pooling are the defaults. A context that is not "
                "longer than the window uses half of it instead of failing.",
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
