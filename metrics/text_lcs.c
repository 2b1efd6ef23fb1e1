/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_lcs.c - longest common subsequences, 64 columns at a time.
 *
 * Neighbours in a row of the table T differ by 0 or 1. Bit j of row i is 0 where
 * T[i][j+1] = T[i][j] + 1; with M the columns that hold symbol x[i] (Crochemore et al.,
 * "A fast and practical bit-vector algorithm for the longest common subsequence problem",
 * 2001):
 *
 *     row[0] = all ones,   row[i+1] = (row[i] + (row[i] & M)) | (row[i] & ~M)
 *
 * The rows stay, so that a caller can trace the subsequence back. */
#include "metrics/text.h"

#include <stdlib.h>
#include <string.h>

enum { BITS = 64 };

enum kva_status kva_lcs_init(struct kva_lcs *l, size_t n_symbols, size_t max_rows,
                             size_t max_columns, struct kva_error *err)
{
    size_t words = max_columns / BITS + 1;

    memset(l, 0, sizeof *l);
    l->last = kva_calloc(n_symbols + 1, sizeof l->last[0]);
    l->before = kva_calloc(max_columns + 1, sizeof l->before[0]);
    l->match = kva_calloc(words, sizeof l->match[0]);
    l->row = kva_calloc((max_rows + 1) * words, sizeof l->row[0]);
    if (!l->last || !l->before || !l->match || !l->row) {
        kva_lcs_release(l);
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory to compare %zu with %zu symbols",
                        max_rows, max_columns);
    }
    return KVA_OK;
}

void kva_lcs_release(struct kva_lcs *l)
{
    free(l->last);
    free(l->before);
    free(l->match);
    free(l->row);
    memset(l, 0, sizeof *l);
}

static void step(const uint64_t *v, const uint64_t *match, uint64_t *next, size_t words)
{
    uint64_t carry = 0;

    for (size_t w = 0; w < words; w++) {
        uint64_t hit = v[w] & match[w], sum = v[w] + hit, with = sum + carry;

        carry = (sum < hit) | (with < sum);
        next[w] = with | (v[w] & ~match[w]);
    }
}

size_t kva_lcs_run(struct kva_lcs *l, const uint32_t *x, size_t n, const uint32_t *y,
                   size_t m)
{
    size_t words = m / BITS + 1;

    l->words = words;
    for (size_t j = 0; j < m; j++) {
        l->before[j + 1] = l->last[y[j]];
        l->last[y[j]] = (uint32_t)j + 1;
    }
    memset(l->row, 0xff, words * sizeof l->row[0]);
    for (size_t i = 0; i < n; i++) {
        memset(l->match, 0, words * sizeof l->match[0]);
        for (uint32_t j = l->last[x[i]]; j; j = l->before[j])
            l->match[(j - 1) / BITS] |= (uint64_t)1 << (j - 1) % BITS;
        step(l->row + i * words, l->match, l->row + (i + 1) * words, words);
    }
    for (size_t j = 0; j < m; j++)
        l->last[y[j]] = 0;
    return kva_lcs_at(l, n, m);
}

size_t kva_lcs_at(const struct kva_lcs *l, size_t i, size_t j)
{
    const uint64_t *v = l->row + i * l->words;
    size_t sum = 0;

    for (; j >= BITS; j -= BITS)
        sum += (size_t)__builtin_popcountll(~*v++);
    return sum + (size_t)__builtin_popcountll(~*v & (((uint64_t)1 << j) - 1));
}

/* ---- the indel ratio ---- */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Symbols of a text: places in the sorted code points of `of`, n for what is not there.
 */
static void number(const struct kva_text *t, const uint32_t *sorted, size_t n,
                   uint32_t *out)
{
    for (size_t i = 0; i < t->n; i++) {
        size_t lo = 0, hi = n;

        while (lo < hi) {
            size_t mid = (lo + hi) / 2;

            if (sorted[mid] < t->c[i])
                lo = mid + 1;
            else
                hi = mid;
        }
        out[i] = lo < n && sorted[lo] == t->c[i] ? (uint32_t)lo : (uint32_t)n;
    }
}

enum kva_status kva_indel_ratio(const struct kva_text *a, const struct kva_text *b,
                                double *ratio, struct kva_error *err)
{
    size_t n = a->n, m = b->n, len;
    struct kva_lcs l = {0};
    uint32_t *sorted, *x, *y;
    enum kva_status rc;

    *ratio = 1;
    if (n + m == 0)
        return KVA_OK;
    sorted = kva_calloc(n + 2 * m, sizeof sorted[0]);
    if (!sorted)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for a line of code");
    x = sorted + m;
    y = x + n;
    if (m)
        memcpy(sorted, b->c, m * sizeof sorted[0]);
    qsort(sorted, m, sizeof sorted[0], by_value);
    number(a, sorted, m, x);
    number(b, sorted, m, y);
    KVA_GO(kva_lcs_init(&l, m + 1, n, m, err));
    len = kva_lcs_run(&l, x, n, y, m);
    /* in this order, as the package does it: 100 times it rounds differently from
     * 2 * len / (n + m) near the halves */
    *ratio = 1.0 - (double)(n + m - 2 * len) / (double)(n + m);
out:
    kva_lcs_release(&l);
    free(sorted);
    return rc;
}
