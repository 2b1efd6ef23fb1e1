/* SPDX-License-Identifier: GPL-3.0-or-later */
/* joined.c - string number i of sorted(set(adjective + "-" + noun)).
 *
 * Sorted by (adjective + "-") every adjective has one run with all nouns in order, so i
 * is adjective i / nouns, noun i mod nouns. Except where one adjective continues another
 * with a hyphen (blue, blue-eyed): "blue-eyed-day" lies between "blue-exit" and
 * "blue-fan". Such runs are merged when the list is opened: five groups of the shipped
 * lists, 68 thousand strings of 6 million. */
#include "tasks/joined.h"

#include <stdlib.h>
#include <string.h>

/* Compares a "-" b "-" ... strings without joining them. */
static int compare_parts(const char *const *a, const char *const *b)
{
    const char *x = *a, *y = *b;

    for (;;) {
        while (!*x && a[1])
            x = *++a;
        while (!*y && b[1])
            y = *++b;
        if (*x != *y || !*x)
            return (int)(unsigned char)*x - (int)(unsigned char)*y;
        x++;
        y++;
    }
}

static int by_hyphen(const void *a, const void *b, void *ctx)
{
    const struct kva_lexicon *l = ctx;
    const uint32_t *x = a, *y = b;
    const char *p[] = {l->adjectives.word[*x], "-", NULL};
    const char *q[] = {l->adjectives.word[*y], "-", NULL};

    return compare_parts(p, q);
}

static int by_string(const struct kva_lexicon *l, uint32_t x, uint32_t y)
{
    size_t n = l->nouns.n;
    const char *p[] = {l->adjectives.word[x / n], "-", l->nouns.word[x % n], NULL};
    const char *q[] = {l->adjectives.word[y / n], "-", l->nouns.word[y % n], NULL};

    return compare_parts(p, q);
}

static bool continues(const char *longer, const char *base)
{
    size_t n = strlen(base);

    return strncmp(longer, base, n) == 0 && longer[n] == '-';
}

/* Merges the sorted codes of one more adjective into the list; equal strings stay once.
 */
static enum kva_status merge(const struct kva_lexicon *l, uint32_t **list, size_t *n,
                             uint32_t adjective, struct kva_error *err)
{
    size_t n_nouns = l->nouns.n, i = 0, k = 0, used = 0;
    uint32_t *out = kva_calloc(*n + n_nouns, sizeof *out);

    if (!out)
        return KVA_FAIL(err, KVA_ENOMEM, "word list: out of memory");
    while (i < *n || k < n_nouns) {
        uint32_t code = adjective * (uint32_t)n_nouns + (uint32_t)k;
        int order;

        if (i == *n)
            order = 1;
        else if (k == n_nouns)
            order = -1;
        else
            order = by_string(l, (*list)[i], code);
        out[used++] = order <= 0 ? (*list)[i] : code;
        i += order <= 0;
        k += order >= 0;
    }
    free(*list);
    *list = out;
    *n = used;
    return KVA_OK;
}

/* The group of order[0], which `count` adjectives form. */
static enum kva_status add_group(struct kva_joined *j, const uint32_t *order,
                                 size_t count, struct kva_error *err)
{
    struct kva_joined_group *g = &j->group[j->n_groups++];
    size_t n = j->lexicon->nouns.n;

    g->first = (uint32_t)j->n;
    g->adjective = order[0];
    if (count > 1) {
        n = 0;
        for (size_t i = 0; i < count; i++)
            KVA_TRY(merge(j->lexicon, &g->merged, &n, order[i], err));
    }
    j->n += n;
    return KVA_OK;
}

enum kva_status kva_joined_open(struct kva_joined *j, const struct kva_lexicon *lexicon,
                                struct kva_error *err)
{
    size_t n = lexicon->adjectives.n;
    uint32_t *order = kva_calloc(n, sizeof *order);
    enum kva_status rc = KVA_OK;

    *j = (struct kva_joined){.lexicon = lexicon};
    j->group = kva_calloc(n, sizeof *j->group);
    if (!order || !j->group) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "word list: out of memory");
        goto out;
    }
    if (n * lexicon->nouns.n > UINT32_MAX) {
        rc = KVA_FAIL(err, KVA_EUNSUPPORTED, "%zu adjectives with %zu nouns are too many",
                      n, lexicon->nouns.n);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof *order, by_hyphen, (void *)(uintptr_t)lexicon);
    for (size_t i = 0, e; i < n; i = e) {
        const char *base = lexicon->adjectives.word[order[i]];

        for (e = i + 1; e < n && continues(lexicon->adjectives.word[order[e]], base); e++)
            ;
        KVA_GO(add_group(j, order + i, e - i, err));
    }
out:
    free(order);
    if (rc != KVA_OK)
        kva_joined_release(j);
    return rc;
}

void kva_joined_release(struct kva_joined *j)
{
    for (size_t i = 0; j->group && i < j->n_groups; i++)
        free(j->group[i].merged);
    free(j->group);
    *j = (struct kva_joined){0};
}

void kva_joined_at(const struct kva_joined *j, size_t i, const char **adjective,
                   const char **noun)
{
    size_t n = j->lexicon->nouns.n, lo = 0, hi = j->n_groups;
    const struct kva_joined_group *g;
    size_t code;

    while (hi - lo > 1) { /* the last group that starts at i or before */
        size_t mid = lo + (hi - lo) / 2;

        if (j->group[mid].first <= i)
            lo = mid;
        else
            hi = mid;
    }
    g = &j->group[lo];
    code = g->merged ? g->merged[i - g->first] : g->adjective * n + (i - g->first);
    *adjective = j->lexicon->adjectives.word[code / n];
    *noun = j->lexicon->nouns.word[code % n];
}
