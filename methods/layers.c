/* SPDX-License-Identifier: GPL-3.0-or-later */
/* layers.c - real shares of a total become integers, over layers or KV heads. */
#include "methods/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/rank.h"

static int cells_of(const struct kva_alloc_in *in)
{
    return in->scores->layers * in->scores->kv_heads;
}

int32_t kva_alloc_tokens(const struct kva_alloc_in *in)
{
    const struct kva_scores *sc = in->scores;

    return sc->prompt > 0 ? sc->prompt : kva_rank_newest(sc) + 1;
}

int *kva_alloc_held(const struct kva_alloc_in *in)
{
    int c = cells_of(in), *n = kva_calloc((size_t)c, sizeof *n);

    for (int i = 0; n != NULL && i < c; i++)
        n[i] = (int)(in->scores->off[i + 1] - in->scores->off[i]);
    return n;
}

void kva_alloc_settle(uint64_t total, const int *n, int cells, int *b)
{
    uint64_t sum = 0;

    for (int c = 0; c < cells; c++)
        sum += (uint64_t)b[c];
    if (sum < total)
        kva_budget_fill(total - sum, n, cells, b);
    while (sum > total) {
        uint64_t before = sum;

        for (int c = cells - 1; c >= 0 && sum > total; c--) {
            sum -= b[c] > 1;
            b[c] -= b[c] > 1;
        }
        if (sum == before)
            return;
    }
}

enum kva_status kva_alloc_shares(const double *weight, uint64_t total, const int *lo,
                                 const int *hi, int n, int *b, struct kva_error *err)
{
    double *w = kva_calloc((size_t)n, sizeof *w), weights, left;
    int *least = kva_calloc((size_t)n, 2 * sizeof *least), *most = least + n;
    bool again = true;
    enum kva_status rc = KVA_OK;

    if (w == NULL || least == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "shares of %d", n);
        goto out;
    }
    for (int c = 0; c < n; c++) {
        w[c] = isfinite(weight[c]) && weight[c] > 0 ? weight[c] : 0;
        least[c] = lo[c];
        most[c] = hi[c];
    }
    while (again) {
        int live = 0;

        again = false;
        weights = 0;
        left = (double)total;
        for (int c = 0; c < n; c++) {
            left -= least[c];
            weights += most[c] > least[c] ? w[c] : 0;
            live += most[c] > least[c];
        }
        for (int c = 0; c < n; c++) {
            double share = weights > 0 ? left * w[c] / weights
                           : live > 0  ? left / live
                                       : 0;

            if (least[c] > 0 || share >= 1)
                continue;
            least[c] = most[c] = 1;
            again = true;
        }
    }
    kva_budget_shares(w, total, least, most, n, b);
    /* the others full and something left: those set to one take it after all */
    kva_alloc_settle(total, hi, n, b);
out:
    free(w);
    free(least);
    return rc;
}

/* Per KV head of each layer: m[layers] sums to total / KV heads. */
static enum kva_status layer_shares(const struct kva_alloc_in *in, const double *weight,
                                    int base, const int *n, int *m, bool *fits,
                                    struct kva_error *err)
{
    int layers = in->scores->layers, heads = in->scores->kv_heads;
    int *lo = kva_calloc((size_t)layers, 2 * sizeof *lo), *hi = lo + layers;
    uint64_t each = in->total / (uint64_t)heads, ahead = 0;
    enum kva_status rc;

    if (lo == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "shares of %d layers", layers);
    for (int l = 0; l < layers; l++) {
        for (int h = 0; h < heads; h++)
            hi[l] = n[l * heads + h] > hi[l] ? n[l * heads + h] : hi[l];
        lo[l] = base < hi[l] ? base : hi[l];
        ahead += (uint64_t)lo[l];
    }
    *fits = ahead <= each;
    rc = *fits ? kva_alloc_shares(weight, each, lo, hi, layers, m, err) : KVA_OK;
    free(lo);
    return rc;
}

enum kva_status kva_alloc_layers(const struct kva_alloc_in *in, const double *weight,
                                 int base, int *b, struct kva_error *err)
{
    int layers = in->scores->layers, heads = in->scores->kv_heads, c = cells_of(in);
    int *n = kva_alloc_held(in), *m = kva_calloc((size_t)layers, sizeof *m);
    bool fits;
    enum kva_status rc = KVA_OK;

    if (n == NULL || m == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "shares of %d layers", layers);
        goto out;
    }
    KVA_GO(layer_shares(in, weight, base, n, m, &fits, err));
    if (!fits) {
        *in->fallback = true;
        memcpy(b, in->base, (size_t)c * sizeof *b);
        goto out;
    }
    for (int l = 0; l < layers; l++) {
        const int *cap = n + l * heads;
        int *own = b + l * heads;
        uint64_t over = 0;

        for (int h = 0; h < heads; h++) {
            own[h] = m[l] < cap[h] ? m[l] : cap[h];
            over += (uint64_t)(m[l] - own[h]);
        }
        kva_budget_fill(over, cap, heads, own);
    }
    kva_alloc_settle(in->total, n, c, b);
out:
    free(n);
    free(m);
    return rc;
}
