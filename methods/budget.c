/* SPDX-License-Identifier: GPL-3.0-or-later */
/* budget.c - how many entries a budget is, in integers only (ruling R15, methods.md 3).
 *
 *     N = max(1, floor(S * keep_bp / 10000))        entries per KV head
 *
 * Floating ratios are avoided on purpose: int(1000 * (1 - 0.8)) is 199 in binary floating
 * point. */
#include "methods/method.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "methods/rank.h"

int64_t kva_budget_keep(int64_t tokens, int64_t keep_bp)
{
    /* tokens * keep_bp without overflow for any token count */
    int64_t n = tokens / 10000 * keep_bp + tokens % 10000 * keep_bp / 10000;

    return n < 1 ? 1 : n;
}

uint64_t kva_budget_total(const struct kva_budget *b, int64_t tokens, int kvheads,
                          uint64_t row_bytes)
{
    uint64_t c = (uint64_t)kvheads;

    switch (b->kind) {
    case KVA_BUDGET_DENSE:
        return (uint64_t)tokens * c;
    case KVA_BUDGET_KEEP:
        return (uint64_t)kva_budget_keep(tokens, b->value) * c;
    case KVA_BUDGET_TOKENS:
        return (uint64_t)b->value * c;
    case KVA_BUDGET_BYTES:
        /* exact: a byte budget is never exceeded, so nothing is rounded up to one per
         * head */
        return row_bytes == 0 ? 0 : (uint64_t)b->value / row_bytes;
    }
    return 0;
}

void kva_budget_text(const struct kva_budget *b, char out[32])
{
    int n, whole, part;

    switch (b->kind) {
    case KVA_BUDGET_DENSE:
        snprintf(out, 32, "dense");
        return;
    case KVA_BUDGET_KEEP:
        whole = (int)(b->value / 10000);
        part = (int)(b->value % 10000);
        n = snprintf(out, 32, "keep=%d.%04d", whole, part);
        while (n > 0 && out[n - 1] == '0')
            out[--n] = '\0';
        if (n > 0 && out[n - 1] == '.')
            out[--n] = '\0';
        return;
    case KVA_BUDGET_TOKENS:
        snprintf(out, 32, "tokens=%" PRId64, b->value);
        return;
    case KVA_BUDGET_BYTES:
        snprintf(out, 32, "bytes=%" PRId64, b->value);
        return;
    }
    out[0] = '\0';
}

void kva_budget_fill(uint64_t left, const int *cap, int n, int *b)
{
    while (left > 0) {
        uint64_t live = 0, share, rest;

        for (int c = 0; c < n; c++)
            live += b[c] < cap[c];
        if (live == 0)
            return;
        share = left / live;
        rest = left % live;
        /* gives everything away or fills at least one */
        for (int c = 0; c < n; c++) {
            uint64_t room, give = share;

            if (b[c] >= cap[c])
                continue;
            room = (uint64_t)(cap[c] - b[c]);
            if (rest > 0) {
                give++;
                rest--;
            }
            if (give > room)
                give = room;
            b[c] += (int)give;
            left -= give;
        }
    }
}

void kva_budget_uniform(uint64_t total, const int *n, int kvheads, int *b)
{
    uint64_t q, r, given = 0;

    if (kvheads <= 0)
        return;
    q = total / (uint64_t)kvheads;
    r = total % (uint64_t)kvheads;
    for (int c = 0; c < kvheads; c++) {
        uint64_t want = q + ((uint64_t)c < r);

        b[c] = want > (uint64_t)n[c] ? n[c] : (int)want;
        given += (uint64_t)b[c];
    }
    kva_budget_fill(total - given, n, kvheads, b);
}

/* A weight that is not a positive number counts as nothing. */
static double usable(double w)
{
    return isfinite(w) && w > 0 ? w : 0;
}

/* What an entry with room left would get of `left`; all weights zero: equal parts. */
static double ideal(const double *weight, double weights, int live, double left, int c)
{
    return weights > 0 ? left * usable(weight[c]) / weights : left / live;
}

/* Last step of the shares, when nobody saturates any more: whole parts, then one each to
 * the largest fractions, ties to the lower index. The order (fraction, index) is walked
 * by remembering the last one served, so nothing is allocated; n is a few thousand KV
 * heads at most. */
static void share_rest(const double *weight, double weights, int live, uint64_t left,
                       const int *lo, const int *hi, int n, int *b)
{
    double all = (double)left, last = 2;
    int last_at = -1;

    for (int c = 0; c < n; c++) {
        uint64_t part;

        if (b[c] >= hi[c])
            continue;
        part = (uint64_t)floor(ideal(weight, weights, live, all, c));
        part = part > left ? left : part;
        b[c] += (int)part;
        left -= part;
    }
    while (left > 0) {
        int best = -1;
        double best_part = -1;

        for (int c = 0; c < n; c++) {
            double x, part;

            if (lo[c] >= hi[c] || b[c] >= hi[c])
                continue;
            x = ideal(weight, weights, live, all, c);
            part = x - floor(x);
            if (part > last || (part >= last && c <= last_at))
                continue; /* served */
            if (part > best_part) {
                best = c;
                best_part = part;
            }
        }
        if (best < 0) { /* only after rounding of the ideals: start over */
            last = 2;
            last_at = -1;
            continue;
        }
        b[best]++;
        left--;
        last = best_part;
        last_at = best;
    }
}

uint64_t kva_budget_shares(const double *weight, uint64_t total, const int *lo,
                           const int *hi, int n, int *b)
{
    uint64_t floor_sum = 0, hi_sum = 0, left;

    for (int c = 0; c < n; c++) {
        b[c] = lo[c];
        floor_sum += (uint64_t)lo[c];
        hi_sum += (uint64_t)(hi[c] > lo[c] ? hi[c] : lo[c]);
    }
    total = total < floor_sum ? floor_sum : total > hi_sum ? hi_sum : total;
    left = total - floor_sum;
    while (left > 0) {
        double weights = 0, all = (double)left;
        int live = 0, full = 0;

        for (int c = 0; c < n; c++) {
            if (b[c] < hi[c]) {
                weights += usable(weight[c]);
                live++;
            }
        }
        for (int c = 0; c < n; c++) {
            uint64_t room;

            if (b[c] >= hi[c])
                continue;
            room = (uint64_t)(hi[c] - b[c]);
            if (ideal(weight, weights, live, all, c) < (double)room)
                continue;
            full++;
            room = room > left ? left : room;
            b[c] += (int)room;
            left -= room;
        }
        if (full > 0)
            continue;
        share_rest(weight, weights, live, left, lo, hi, n, b);
        left = 0;
    }
    return total;
}
