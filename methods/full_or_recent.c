/* SPDX-License-Identifier: GPL-3.0-or-later */
/* full_or_recent.c - full caches for whom they matter most, as far as the budget goes. */
#include "methods/full_or_recent.h"

#include <stdlib.h>
#include <string.h>

#include "methods/layers.h"
#include "methods/rank.h"

enum kva_status kva_full_or_recent(const struct kva_alloc_in *in, const double *want,
                                   int units, int heads, int recent, int *b,
                                   struct kva_error *err)
{
    const struct kva_scores *sc = in->scores;
    int cells = units * heads, *n = kva_alloc_held(in);
    bool *done = kva_calloc((size_t)units, sizeof *done);
    uint64_t left = in->total;
    enum kva_status rc = KVA_OK;

    if (n == NULL || done == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", cells);
        goto out;
    }
    for (int c = 0; c < cells; c++) {
        b[c] = sc->protect.sinks + recent < n[c] ? sc->protect.sinks + recent : n[c];
        b[c] = b[c] < 1 ? 1 : b[c];
    }
    for (int c = 0; c < cells; c++) {
        if ((uint64_t)b[c] > left) {
            memcpy(b, in->base, (size_t)cells * sizeof *b);
            *in->fallback = true;
            goto out;
        }
        left -= (uint64_t)b[c];
    }
    for (int k = 0; k < units && left > 0; k++) {
        uint64_t room = 0;
        int best = -1;

        for (int u = 0; u < units; u++)
            if (!done[u] && (best < 0 || want[u] > want[best]))
                best = u;
        done[best] = true;
        for (int c = best * heads; c < (best + 1) * heads; c++)
            room += (uint64_t)(n[c] - b[c]);
        room = room < left ? room : left;
        kva_budget_fill(room, n + best * heads, heads, b + best * heads);
        left -= room;
    }
out:
    free(n);
    free(done);
    return rc;
}
