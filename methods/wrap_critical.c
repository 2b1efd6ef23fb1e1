/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wrap_critical.c - half of the budget by the scorer, half by what an entry can do to the
 * output of the layer.
 *
 *     w_j = mean over the query heads a of the group of || W_O^a v_j ||_1
 *     stage 1: the best b1 = floor(alpha b) by s_j
 *     stage 2: the best b - b1 of the others by (s_j + eps) w_j
 *
 * b counts what is left after protection; b1 is at least 1 unless alpha = 0. Neither w
 * nor the scores are pooled or normalised again. Under an allocator that compares KV
 * heads the budgets come from s alone, both stages run inside each. norm=l2 takes the
 * Euclidean norm.
 *
 * compat=1 is kvpress 0.5.5: protected entries are ordinary ones with a score of 1 above
 * all of the layer, they count in b, and stage 2 may drop them. Its own choice among
 * equal window entries is arbitrary; here the newest come first. */
#include "methods/method.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/project.h"
#include "methods/rank.h"

enum { ALPHA, COMPAT, EPS, NORM };

static const char *const norm_names[] = {"l1", "l2", NULL};

static const struct kva_param params_table[] = {
    {.name = "alpha",
     .help = "share of the budget that the scorer alone decides",
     .type = KVA_PARAM_REAL,
     .def = 0.5,
     .def_block = 0.5,
     .max = 1},
    {.name = "compat",
     .help = "1: stages as in kvpress 0.5.5, protected entries among the others",
     .type = KVA_PARAM_INT,
     .max = 1},
    {.name = "eps",
     .help = "added to the score before the norm multiplies it",
     .type = KVA_PARAM_REAL,
     .def = 1e-4,
     .def_block = 1e-4,
     .max = 1},
    {.name = "norm",
     .help = "norm of the projected value",
     .type = KVA_PARAM_CHOICE,
     .choices = norm_names},
    {.name = NULL},
};

static const char *refuse(const struct kva_scorer *s, const struct kva_allocator *a)
{
    (void)a;
    return s->nonneg ? NULL
                     : "stage 2 multiplies scores by a norm, which turns the order of "
                       "negative scores around; critical needs a scorer without them";
}

/* w_j, and for compat the largest score of the layer */
static int wide(const struct kva_params *params, const struct kva_layer_view *view)
{
    (void)view;
    return params->value[COMPAT] > 0 ? 2 : 1;
}

static enum kva_status rescore(const struct kva_layer_view *view,
                               const struct kva_params *params, const float *base,
                               float *s, float *aux, struct kva_error *err)
{
    size_t n = view->off[view->kv_heads];
    float *w = kva_arena_alloc(view->scratch, n, sizeof *w), top = 0;
    int step = wide(params, view);

    (void)s;
    if (w == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "projected norms of %zu entries", n);
    KVA_TRY(kva_project_mean(view, (int)params->value[NORM] + 1, w, err));
    for (size_t j = 0; j < n; j++)
        top = base[j] > top ? base[j] : top;
    for (size_t j = 0; j < n; j++) {
        aux[j * (size_t)step] = w[j];
        if (step > 1)
            aux[j * (size_t)step + 1] = top;
    }
    return KVA_OK;
}

/* Moves the `best` of the free entries by x to the kept ones; key is scratch of 2n. */
static void take(const struct kva_pick *in, const float *x, int best, bool *kept,
                 uint64_t *key)
{
    uint64_t *copy = key + in->n, least;
    size_t left = 0;

    for (int j = 0; j < in->n; j++) {
        key[j] = kva_rank_key(x[j], in->pos[j]);
        if (!kept[j])
            copy[left++] = key[j];
    }
    if (best < 1)
        return;
    least = (size_t)best < left ? kva_rank_cut(copy, left, (size_t)best).key : 0;
    for (int j = 0; j < in->n; j++)
        kept[j] = kept[j] || key[j] >= least;
}

/* Of the scores of what is not protected, the share that is kept. */
static double held(const struct kva_pick *in, const bool *kept)
{
    double all = 0, some = 0;

    for (int j = in->lead; j < in->n - in->tail; j++)
        if (isfinite(in->s[j])) {
            all += (double)in->s[j];
            some += kept[j] ? (double)in->s[j] : 0.0;
        }
    return all > 0 ? some / all : (double)NAN;
}

static enum kva_status pick(const struct kva_params *params, const struct kva_pick *in,
                            int32_t *rank, struct kva_error *err)
{
    bool compat = params->value[COMPAT] > 0;
    int b = compat ? in->b : in->b - in->lead - in->tail, first, out = 0;
    size_t n = (size_t)in->n;
    float *x = kva_calloc(n, sizeof *x);
    bool *kept = kva_calloc(n, sizeof *kept);
    uint64_t *key = kva_calloc(2 * n, sizeof *key);
    enum kva_status rc = KVA_OK;

    if (x == NULL || kept == NULL || key == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "critical over %d entries", in->n);
        goto out;
    }
    /* alpha is a decimal number: 0.29 of 100 is 29, although the product is a hair less
     */
    first = (int)floor(params->value[ALPHA] * b + 1e-9);
    if (first < 1 && params->value[ALPHA] > 0)
        first = 1;
    for (int j = 0; j < in->n; j++) {
        bool sure = j < in->lead || j >= in->n - in->tail;

        kept[j] = sure && !compat;
        x[j] = sure && compat ? in->aux[j * in->wide + 1] + 1 : in->s[j];
    }
    take(in, x, first, kept, key);
    if (in->first != NULL)
        *in->first = held(in, kept);
    for (int j = 0; j < in->n; j++) {
        double y = ((double)x[j] + params->value[EPS]) * (double)in->aux[j * in->wide];

        if (isfinite(x[j])) /* what was not a number stays last */
            x[j] = y < (double)FLT_MAX ? (float)y : FLT_MAX;
    }
    take(in, x, b - first, kept, key);
    for (int j = 0; j < in->n && out < in->b; j++)
        if (kept[j])
            rank[out++] = j;
out:
    free(x);
    free(kept);
    free(key);
    return rc;
}

const struct kva_wrapper kva_wrap_critical = {
    .name = "critical",
    .summary = "second half of the budget by score times projected value norm",
    .source = "CriticalKV, arXiv 2502.03805",
    .storage = "uniform; mask; ragged",
    .deviates =
        "kvpress 0.5.5 spends stage 1 on the window first and may drop window entries in "
        "stage 2; here the window stands outside both stages. compat=1 restores it.",
    .needs = KVA_NEEDS_VALUES | KVA_NEEDS_LEND,
    .version = 1,
    .keeps_unit = true,
    .params = params_table,
    .refuse = refuse,
    .wide = wide,
    .rescore = rescore,
    .pick = pick,
};
