/* SPDX-License-Identifier: GPL-3.0-or-later */
/* caote.c - how far the output moves when an entry alone is dropped.
 *
 *     h_j = s_j / sum of s over the entries held
 *     c_j = h_j / (1 - h_j) * || x - v_j ||_2
 *     x   = sum_j h_j v_j (caote), plain mean of v (fastcaote)
 *
 * caote's c_j is exactly the change of the output when j goes and the rest is
 * renormalised; of several entries that go at once the lowest are taken as if they did
 * not know of each other. An entry with all the weight (h = 1) stays above everything
 * finite. Scores that are all 0 weigh equally. With equal weights fastcaote is valuediff
 * / (n - 1).
 *
 * One passage of the paper squares the norm; the algebra gives the norm itself. */
#include "methods/caote.h"

#include <float.h>
#include <math.h>

const char *kva_caote_refuse(const struct kva_scorer *s, const struct kva_allocator *a)
{
    (void)a;
    return s->nonneg ? NULL
                     : "scores become weights that sum to 1, which negative ones cannot";
}

/* x[dim] of one KV head; total: sum of its scores. */
static void centre(const float *s, const float *v, size_t n, size_t dim, double total,
                   bool weighted, double *x)
{
    for (size_t i = 0; i < dim; i++)
        x[i] = 0;
    for (size_t j = 0; j < n; j++) {
        double h = weighted ? (double)s[j] / total : 1 / (double)n;

        for (size_t i = 0; isfinite(h) && i < dim; i++)
            x[i] += h * (double)v[j * dim + i];
    }
}

static void rescore_head(const float *base, const float *v, size_t n, size_t dim,
                         bool fast, double *x, float *s)
{
    double total = 0;
    bool even;

    for (size_t j = 0; j < n; j++)
        total += isfinite(base[j]) ? (double)base[j] : 0;
    even = total <= 0;
    centre(base, v, n, dim, total, !fast && !even, x);
    for (size_t j = 0; j < n; j++) {
        double h = even ? 1 : (double)base[j], rest = even ? (double)n - 1 : total - h;
        double apart = 0, c;

        if (!isfinite(base[j])) { /* stays last */
            s[j] = base[j];
            continue;
        }
        for (size_t i = 0; i < dim; i++)
            apart += (x[i] - (double)v[j * dim + i]) * (x[i] - (double)v[j * dim + i]);
        c = rest > 0 ? h / rest * sqrt(apart) : (double)FLT_MAX;
        s[j] = c < (double)FLT_MAX ? (float)c : FLT_MAX;
    }
}

enum kva_status kva_caote_rescore(const struct kva_layer_view *view, const float *base,
                                  bool fast, float *s, struct kva_error *err)
{
    size_t dim = (size_t)view->v_dim;
    double *x = kva_arena_alloc(view->scratch, dim, sizeof *x);

    if (x == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "mean output of %zu numbers", dim);
    for (int h = 0; h < view->kv_heads; h++)
        rescore_head(base + view->off[h], view->v->data + view->off[h] * dim,
                     view->off[h + 1] - view->off[h], dim, fast, x, s + view->off[h]);
    return KVA_OK;
}
