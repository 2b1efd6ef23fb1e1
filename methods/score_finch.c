/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score_finch.c - keep what the question looks at.
 *
 *     s_j = mean over the question's rows i and the query heads a of the group of
 *           A[a][i][j] * (entries that row i sees)
 *
 * The factor (normalise=1) undoes that later rows share their attention among more keys.
 * No pooling. The question's entries are protected; kept keys are rotated to contiguous
 * positions (rotate=1, methods.md 8.5). The question is what the view says belongs to it,
 * at most its last `window` tokens. */
#include "methods/method.h"

#include "methods/window.h"

enum { NORMALISE, RECENT, ROTATE, SINKS, WINDOW };

static const struct kva_param params_table[] = {
    {.name = "normalise",
     .help = "1: weights times the number of entries their row sees",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .max = 1},
    KVA_PARAM_RECENT,
    {.name = "rotate",
     .help = "1: kept keys are rotated to contiguous positions",
     .type = KVA_PARAM_INT,
     .def = 1,
     .def_block = 1,
     .max = 1},
    KVA_PARAM_SINKS(0),
    {.name = "window",
     .help = "most tokens of the question that vote, the last ones",
     .type = KVA_PARAM_INT,
     .def = 512,
     .def_block = 512,
     .min = 1,
     .max = 4096},
    {.name = NULL},
};

static int window(const struct kva_params *params)
{
    return (int)params->value[WINDOW];
}

static bool rotates(const struct kva_params *params)
{
    return params->value[ROTATE] > 0;
}

static int rows_used(const struct kva_params *params, const struct kva_layer_view *view)
{
    int most = window(params);

    return kva_window_rows(view, view->question < most ? view->question : most);
}

static void protect(const struct kva_params *params, const struct kva_layer_view *view,
                    struct kva_protect *p)
{
    if (view->question > 0)
        kva_window_protect(rows_used(params, view), p);
}

/* seen[i] = entries of KV head h that row i of the window sees */
static void count_seen(const struct kva_layer_view *view, int rows, int h, bool normalise,
                       double *seen)
{
    size_t j = view->off[h];

    for (int i = 0; i < rows; i++) { /* both ascend */
        while (j < view->off[h + 1] && view->pos[j] <= view->q_pos[view->nq - rows + i])
            j++;
        seen[i] = normalise ? (double)(j - view->off[h]) : 1;
    }
}

static enum kva_status score(const struct kva_layer_view *view,
                             const struct kva_params *params, float *s,
                             struct kva_error *err)
{
    int rows = rows_used(params, view), group = view->heads / view->kv_heads;
    size_t most = kva_window_most(view);
    float *w = kva_arena_alloc(view->scratch, most * (size_t)rows, sizeof *w);
    double *z = kva_arena_alloc(view->scratch, most + (size_t)rows, sizeof *z);
    double *seen = z + most;

    if (view->question < 1)
        return KVA_FAIL(err, KVA_EINVALID,
                        "finch ranks by the question and none was read (visibility)");
    if (w == NULL || z == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "finch scores of %zu entries", most);
    for (int h = 0; h < view->kv_heads; h++) {
        size_t held = view->off[h + 1] - view->off[h];
        size_t n = kva_window_older(view, rows, h);

        count_seen(view, rows, h, params->value[NORMALISE] > 0, seen);
        for (size_t j = 0; j < n; j++)
            z[j] = 0;
        for (int a = h * group; a < (h + 1) * group; a++) {
            struct kva_attend_rows r = kva_window_head(view, rows, a);

            r.w = w;
            view->ops->attend_rows(view->ops, &r);
            for (int i = 0; i < rows; i++)
                for (size_t j = 0; j < n; j++)
                    z[j] += (double)w[(size_t)i * held + j] * seen[i];
        }
        for (size_t j = 0; j < held; j++)
            s[view->off[h] + j] = j < n ? (float)(z[j] / rows / group) : 0.0f;
    }
    return KVA_OK;
}

const struct kva_scorer kva_score_finch = {
    .name = "finch",
    .summary = "attention of the question; kept keys move to contiguous positions",
    .source = "FINCH, TACL 2024",
    .storage = "uniform",
    .deviates =
        "kvpress counts the keys a row sees one too low and finds the question "
        "by a marker token. The document is not cut into chunks that the question "
        "follows one by one.",
    .needs = KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES,
    .version = 1,
    .attention = true,
    .nonneg = true,
    .comparable = true,
    .question_aware = true,
    .oneshot_only = true,
    .params = params_table,
    .window = window,
    .rotates = rotates,
    .protect = protect,
    .score = score,
};
