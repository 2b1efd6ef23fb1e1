/* SPDX-License-Identifier: GPL-3.0-or-later */
/* entries.c - spans of evidence that stands in many places of a list (cwe, fwe).
 *
 * E<a>.<k> is the k-th entry of answer word a, P<a>.<k> the word in it. D<a>.<k> is,
 * among the entries that carry no answer and take as many tokens as the E, the nearest
 * one by position in the list (of two equally near ones the left), each used once; the E
 * are served in the order of the list (tasks-ruler.md 8.4). Where none is left there is
 * no D.
 *
 * Free entries are sorted by (tokens, position); two union-find arrays over that order
 * lead to the nearest unused one on either side: n log n for a list of any length. */
#include "tasks/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWERS_MAX = 1024 };

struct place {
    int tokens;
    size_t at; /* position in the list */
};
struct pool {
    struct place *place; /* entries that carry no answer; ascending */
    size_t n;
    size_t *left, *right; /* slot i + 1: nearest free slot at or before, after; 0 and n +
                           * 1 are ends */
};

static int compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->tokens != y->tokens)
        return x->tokens < y->tokens ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static size_t follow(size_t *link, size_t i)
{
    while (link[i] != i) {
        link[i] = link[link[i]];
        i = link[i];
    }
    return i;
}

/* Slot of the nearest free entry with as many tokens; 0: none. */
static size_t nearest(struct pool *p, int tokens, size_t at)
{
    const struct place key = {tokens, at};
    size_t lo = 0, hi = p->n, l, r;
    bool left, right;

    while (lo < hi) { /* first place behind the key */
        size_t mid = lo + (hi - lo) / 2;

        if (compare(&p->place[mid], &key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    l = follow(p->left, lo);
    r = follow(p->right, lo + 1);
    left = l > 0 && p->place[l - 1].tokens == tokens;
    right = r <= p->n && p->place[r - 1].tokens == tokens;
    if (left && right)
        return at - p->place[l - 1].at <= p->place[r - 1].at - at ? l : r;
    return left ? l : right ? r : 0;
}

static enum kva_status open_pool(struct pool *p, const struct kva_draft *d,
                                 const int32_t *begin, const int32_t *end,
                                 size_t n_tokens, struct kva_error *err)
{
    p->place = kva_calloc(d->n_entries + 1, sizeof *p->place);
    p->left = kva_calloc(d->n_entries + 2, sizeof *p->left);
    p->right = kva_calloc(d->n_entries + 2, sizeof *p->right);
    if (!p->place || !p->left || !p->right)
        return KVA_FAIL(err, KVA_ENOMEM, "spans: out of memory");
    for (size_t i = 0; i < d->n_entries; i++) {
        struct kva_span s = {.b0 = d->entry[i].at.b0, .b1 = d->entry[i].at.b1};

        if (d->entry[i].answer >= 0)
            continue;
        kva_span_locate(&s, begin, end, n_tokens);
        p->place[p->n++] = (struct place){s.t1 - s.t0, i};
    }
    qsort(p->place, p->n, sizeof *p->place, compare);
    for (size_t i = 0; i <= p->n + 1; i++)
        p->left[i] = p->right[i] = i;
    return KVA_OK;
}

enum kva_status kva_entries_spans(const struct kva_draft *d, const int32_t *begin,
                                  const int32_t *end, size_t n_tokens,
                                  struct kva_span *out, int *n_spans,
                                  struct kva_error *err)
{
    struct pool pool = {0};
    int seen[ANSWERS_MAX] = {0};
    enum kva_status rc;

    if (d->n_entries == 0)
        return KVA_OK;
    KVA_GO(open_pool(&pool, d, begin, end, n_tokens, err));
    for (size_t i = 0; i < d->n_entries; i++) {
        const struct kva_entry *x = &d->entry[i];
        struct kva_span *e = &out[*n_spans], *p = e + 1, *f = e + 2;
        size_t slot;
        int k;

        if (x->answer < 0)
            continue;
        if (x->answer >= ANSWERS_MAX) {
            rc = KVA_FAIL(err, KVA_EINVALID, "spans: more than %d answer words",
                          ANSWERS_MAX);
            goto out;
        }
        k = seen[x->answer]++;
        *e = (struct kva_span){.kind = 'E',
                               .role = "entry",
                               .queried = true,
                               .b0 = x->at.b0,
                               .b1 = x->at.b1};
        snprintf(e->id, sizeof e->id, "E%d.%d", x->answer, k);
        kva_span_locate(e, begin, end, n_tokens);
        *p = (struct kva_span){.kind = 'P',
                               .role = "value",
                               .queried = true,
                               .b0 = x->word.b0,
                               .b1 = x->word.b1};
        snprintf(p->id, sizeof p->id, "P%d.%d", x->answer, k);
        memcpy(p->match, e->id, sizeof p->match);
        kva_span_locate(p, begin, end, n_tokens);
        *n_spans += 2;
        slot = nearest(&pool, e->t1 - e->t0, i);
        if (slot == 0)
            continue;
        x = &d->entry[pool.place[slot - 1].at];
        pool.left[slot] = slot - 1;
        pool.right[slot] = slot + 1;
        *f = (struct kva_span){
            .kind = 'D', .role = "distractor", .b0 = x->at.b0, .b1 = x->at.b1};
        memcpy(f->id, e->id, sizeof f->id);
        f->id[0] = 'D';
        memcpy(f->match, e->id, sizeof f->match);
        kva_span_locate(f, begin, end, n_tokens);
        f->dtok = (f->t1 - f->t0) - (e->t1 - e->t0);
        ++*n_spans;
    }
out:
    free(pool.place);
    free(pool.left);
    free(pool.right);
    return rc;
}
