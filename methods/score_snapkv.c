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

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    int rows = rows_used(params, view);
    size_t *n = kva_arena_alloc(view->scratch, (size_t)view->kv_heads, sizeof *n);
    struct kva_pool_heads pool = {.heads = view->heads,
                                  .kv_heads = view->kv_heads,
                                  .off = view->off,
                                  .n = n,
                                  .kernel = (int)params->value[KERNEL],
                                  .max = (int)params->value[POOL] == POOL_MAX,
                                  .before = (int)params->value[GROUP] == GROUP_BEFORE};
    struct kva_window w;

    if (n == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "snapkv scores");
    KVA_TRY(kva_window_attend(view, rows, false, &w, err));
    for (int h = 0; h < view->kv_heads; h++) /* the window is protected, it gets 0 */
        n[h] = kva_window_older(view, rows, h);
    pool.m = w.m;
    pool.a_off = w.off;
    view->ops->pool_heads(view->ops, &pool, s);
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
    .by_ops = true,
};
