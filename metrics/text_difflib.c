/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_difflib.c - the ratio of Python's difflib.SequenceMatcher.
 *
 *     ratio = 2 M / (|a| + |b|),  M = total size of the matching blocks:
 *
 * the longest block a[i..i+k) = b[j..j+k) of the ranges at hand (of several the one with
 * the smallest i, then the smallest j), and the same to its left and to its right.
 * Autojunk, when |b| >= 200: characters that occur more than |b| / 100 + 1 times in b are
 * popular and no part of the search; the block found is then extended on both sides over
 * equal characters, popular or not. Where nothing is found the empty block at the start
 * of both ranges is extended.
 *
 * A search costs |a| times the places of a character in b, and there are at most |b| of
 * them: callers bound the lengths (4,096 code points of a hostile text take half a
 * second, a line of code microseconds). */
#include "metrics/text.h"

#include <stdlib.h>
#include <string.h>

enum { POPULAR_FROM = 200 };

/* Places of a character in b: place[first .. first + n). */
struct places {
    uint32_t first, n;
};
/* The match that ends at b[j]: its length, and the row (place in a) it belongs to. */
struct end {
    uint64_t row;
    size_t len;
};
struct block {
    size_t i, j, n;
};
struct range {
    size_t a0, a1, b0, b1;
};
struct matcher {
    const uint32_t *a, *b;
    uint64_t *place;   /* of b: character << 32 | j, sorted */
    struct places *of; /* of a[i] */
    struct end *ends, *old;
    uint64_t row; /* counts on from search to search */
    struct range *todo;
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* First place whose character is at least c. */
static uint32_t lower_bound(const uint64_t *place, size_t m, uint64_t c)
{
    size_t lo = 0, hi = m;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (place[mid] >> 32 < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (uint32_t)lo;
}

static void find_places(struct matcher *d, size_t n, size_t m, bool autojunk)
{
    size_t most = autojunk && m >= POPULAR_FROM ? m / 100 + 1 : m;

    for (size_t j = 0; j < m; j++)
        d->place[j] = (uint64_t)d->b[j] << 32 | j;
    qsort(d->place, m, sizeof d->place[0], by_value);
    for (size_t i = 0; i < n; i++) {
        uint32_t first = lower_bound(d->place, m, d->a[i]),
                 end = lower_bound(d->place, m, (uint64_t)d->a[i] + 1);

        d->of[i] = (struct places){first, end - first > most ? 0 : end - first};
    }
}

static struct block longest(struct matcher *d, const struct range *r)
{
    struct block best = {r->a0, r->b0, 0};

    d->row++; /* nothing of the search before continues here */
    for (size_t i = r->a0; i < r->a1; i++) {
        const uint64_t *place = d->place + d->of[i].first;
        struct end *swap = d->old;

        d->old = d->ends;
        d->ends = swap;
        d->row++;
        for (uint32_t k = 0; k < d->of[i].n; k++) {
            size_t j = (uint32_t)place[k], len = 1;

            if (j < r->b0)
                continue;
            if (j >= r->b1)
                break;
            if (j > r->b0 && d->old[j - 1].row == d->row - 1)
                len += d->old[j - 1].len;
            d->ends[j] = (struct end){d->row, len};
            if (len > best.n)
                best = (struct block){i + 1 - len, j + 1 - len, len};
        }
    }
    while (best.i > r->a0 && best.j > r->b0 && d->a[best.i - 1] == d->b[best.j - 1]) {
        best.i--;
        best.j--;
        best.n++;
    }
    while (best.i + best.n < r->a1 && best.j + best.n < r->b1 &&
           d->a[best.i + best.n] == d->b[best.j + best.n])
        best.n++;
    return best;
}

/* Total size of the matching blocks. The ranges still to do are disjoint and not empty,
 * so there are never more than min(n, m) of them. */
static size_t matches(struct matcher *d, size_t n, size_t m)
{
    size_t total = 0, n_todo = 0;

    if (n && m)
        d->todo[n_todo++] = (struct range){0, n, 0, m};
    while (n_todo) {
        struct range r = d->todo[--n_todo];
        struct block k = longest(d, &r);

        if (k.n == 0)
            continue;
        total += k.n;
        if (r.a0 < k.i && r.b0 < k.j)
            d->todo[n_todo++] = (struct range){r.a0, k.i, r.b0, k.j};
        if (k.i + k.n < r.a1 && k.j + k.n < r.b1)
            d->todo[n_todo++] = (struct range){k.i + k.n, r.a1, k.j + k.n, r.b1};
    }
    return total;
}

enum kva_status kva_difflib_ratio(const struct kva_text *a, const struct kva_text *b,
                                  bool autojunk, double *ratio, struct kva_error *err)
{
    struct matcher d = {.a = a->c, .b = b->c};
    size_t n = a->n, m = b->n;
    enum kva_status rc = KVA_OK;

    *ratio = 1;
    if (n + m == 0)
        return KVA_OK;
    d.place = kva_calloc(m + 1, sizeof d.place[0]);
    d.of = kva_calloc(n + 1, sizeof d.of[0]);
    d.ends = kva_calloc(m + 1, sizeof d.ends[0]);
    d.old = kva_calloc(m + 1, sizeof d.old[0]);
    d.todo = kva_calloc((n < m ? n : m) + 1, sizeof d.todo[0]);
    if (!d.place || !d.of || !d.ends || !d.old || !d.todo) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory for a line of code");
        goto out;
    }
    find_places(&d, n, m, autojunk);
    *ratio = 2.0 * (double)matches(&d, n, m) / (double)(n + m);
out:
    free(d.place);
    free(d.of);
    free(d.ends);
    free(d.old);
    free(d.todo);
    return rc;
}
