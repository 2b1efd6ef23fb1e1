/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_contour.c - KV heads whose mass is spread out get more (analysis.md 4.6).
 *
 * In each KV head: p = scores over their sum (all zero: equal parts); keep order: the
 * protected entries, among them the r newest, then the others by p; drop(b) = 1 - the sum
 * of p over the first b. With B entries in all,
 *
 *     r = min(floor, max(1, B / (4 * KV heads)))      raised to the scorer's own window
 *
 *     level    one entry after another to the KV head with the largest drop: all end on
 *              one contour, the smallest lambda with drop_c(b_c) <= lambda everywhere
 *     sum      one after another to the KV head with the largest next p: the best B of
 *              the normalised scores, the least mean drop (`marginal`)
 *     propmass what is left of B in proportion to drop(B / KV heads)
 *     fixed    KV heads with drop(B / KV heads) >= theta are flat; the others get what
 *              brings them to theta, the flat ones share the rest equally; none flat: as
 *              propmass
 *
 * Ties: the lower layer, the lower head. No formula is published: these readings are
 * ours. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/layers.h"
#include "methods/rank.h"

enum { FLOOR, RULE, THETA };
enum { RULE_LEVEL, RULE_FIXED, RULE_SUM, RULE_PROPMASS };

static const char *const rule_names[] = {"level", "fixed", "sum", "propmass", NULL};

static const struct kva_param params_table[] = {
    {.name = "floor",
     .help = "newest entries that always stay, at most, and a quarter of the budget",
     .type = KVA_PARAM_INT,
     .def = 32,
     .def_block = 32,
     .min = 1,
     .max = 1 << 20},
    {.name = "rule",
     .help = "how the total is divided",
     .type = KVA_PARAM_CHOICE,
     .choices = rule_names},
    {.name = "theta",
     .help = "rule fixed: dropped mass from which a KV head is flat",
     .type = KVA_PARAM_REAL,
     .def = 0.1,
     .def_block = 0.1,
     .max = 1},
    {.name = NULL},
};

static void protect(const struct kva_params *params, uint64_t total, int cells,
                    struct kva_protect *p)
{
    uint64_t quarter = total / (4 * (uint64_t)cells);
    int most = (int)params->value[FLOOR];
    int r = quarter < 1 ? 1 : quarter < (uint64_t)most ? (int)quarter : most;

    if (p->recent < r)
        p->recent = r;
}

/* The KV heads in keep order. drop[off[c] + c + b] for b = 0 .. n_c; a kvhead has n + 1
 * of them. */
struct contour {
    int cells;
    const size_t *off;
    int *n, *floor; /* held, protected */
    double *p, *drop;
    int *heap, live; /* kvheads that may get more, the most wanting on top */
    bool sum;
};

static const double *drops(const struct contour *k, int c)
{
    return k->drop + k->off[c] + c;
}

static int down(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

static double mass(float s)
{
    return s > 0 && isfinite(s) ? (double)s : 0;
}

/* Fills p, drop and floor of kvhead c. Sums run over the scores themselves, smallest
 * first, so that equal masses give equal drops. */
static void order(struct contour *k, const struct kva_scores *sc, int c, int32_t newest)
{
    const float *s = sc->s + sc->off[c];
    double *p = k->p + k->off[c], *drop = k->drop + k->off[c] + c, left = 0;
    int n = k->n[c], lead, tail, at = 0;

    kva_rank_protected(sc, c, newest, &lead, &tail);
    for (int j = 0; j < lead; j++)
        p[at++] = mass(s[j]);
    for (int j = n - tail; j < n; j++)
        p[at++] = mass(s[j]);
    for (int j = lead; j < n - tail; j++)
        p[at++] = mass(s[j]);
    k->floor[c] = lead + tail;
    qsort(p + lead + tail, (size_t)(n - lead - tail), sizeof *p, down);
    drop[n] = 0;
    for (int b = n; b-- > 0;) {
        left += p[b];
        drop[b] = left;
    }
    for (int b = 0; b < n; b++) {
        p[b] = left > 0 ? p[b] / left : 1.0 / n;
        drop[b] = left > 0 ? drop[b] / left : 1 - (double)b / n;
    }
}

/* What kvhead c gains or lacks, standing at b. */
static double want(const struct contour *k, int c, const int *b)
{
    return k->sum ? k->p[k->off[c] + (size_t)b[c]] : drops(k, c)[b[c]];
}

static bool before(const struct contour *k, int x, int y, const int *b)
{
    double wx = want(k, x, b), wy = want(k, y, b);

    return wx > wy || (wx >= wy && x < y);
}

static void sink(struct contour *k, int at, const int *b)
{
    for (;;) {
        int child = 2 * at + 1, c = k->heap[at];

        if (child >= k->live)
            return;
        if (child + 1 < k->live && before(k, k->heap[child + 1], k->heap[child], b))
            child++;
        if (!before(k, k->heap[child], c, b))
            return;
        k->heap[at] = k->heap[child];
        k->heap[child] = c;
        at = child;
    }
}

/* One entry after another to whoever stands on top; b starts at the floors. */
static void one_by_one(struct contour *k, uint64_t left, int *b)
{
    k->live = 0;
    for (int c = 0; c < k->cells; c++)
        if (b[c] < k->n[c])
            k->heap[k->live++] = c;
    for (int i = k->live / 2; i-- > 0;)
        sink(k, i, b);
    for (; left > 0 && k->live > 0; left--) {
        int c = k->heap[0];

        if (++b[c] == k->n[c])
            k->heap[0] = k->heap[--k->live];
        sink(k, 0, b);
    }
}

static double drop_at(const struct contour *k, int c, uint64_t s)
{
    return drops(k, c)[s < (uint64_t)k->n[c] ? s : (uint64_t)k->n[c]];
}

/* in proportion to the drop at the mean budget */
static enum kva_status propmass(const struct contour *k, uint64_t total, int *b,
                                struct kva_error *err)
{
    double *w = kva_calloc((size_t)k->cells, sizeof *w);
    enum kva_status rc;

    if (w == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", k->cells);
    for (int c = 0; c < k->cells; c++)
        w[c] = drop_at(k, c, total / (uint64_t)k->cells);
    rc = kva_alloc_shares(w, total, k->floor, k->n, k->cells, b, err);
    free(w);
    return rc;
}

static enum kva_status fixed(const struct contour *k, double theta, uint64_t total,
                             int *b, struct kva_error *err)
{
    uint64_t s = total / (uint64_t)k->cells, flat = 0;
    int64_t left = (int64_t)total;
    int *cap = kva_calloc((size_t)k->cells, sizeof *cap);

    if (cap == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", k->cells);
    for (int c = 0; c < k->cells; c++) {
        bool is_flat = drop_at(k, c, s) >= theta;

        b[c] = k->floor[c] > 0 ? k->floor[c] : 1;
        while (!is_flat && b[c] < k->n[c] && drops(k, c)[b[c]] > theta)
            b[c]++;
        cap[c] = is_flat ? k->n[c] : b[c];
        flat += is_flat;
        left -= b[c];
    }
    if (flat == 0) {
        free(cap);
        return propmass(k, total, b, err);
    }
    if (left > 0)
        kva_budget_fill((uint64_t)left, cap, k->cells, b);
    free(cap);
    kva_alloc_settle(total, k->n, k->cells, b);
    return KVA_OK;
}

static enum kva_status contour_new(struct contour *k, const struct kva_alloc_in *in,
                                   struct kva_error *err)
{
    const struct kva_scores *sc = in->scores;
    size_t c = (size_t)sc->layers * (size_t)sc->kv_heads, n = sc->off[c];

    k->cells = (int)c;
    k->off = sc->off;
    k->n = kva_alloc_held(in);
    k->floor = kva_calloc(c, sizeof *k->floor);
    k->heap = kva_calloc(c, sizeof *k->heap);
    k->p = kva_calloc(n, sizeof *k->p);
    k->drop = kva_calloc(n + c, sizeof *k->drop);
    if (k->n == NULL || k->floor == NULL || k->heap == NULL || k->p == NULL ||
        k->drop == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "dropped mass of %zu entries", n);
    return KVA_OK;
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    const struct kva_scores *sc = in->scores;
    int32_t newest = kva_rank_newest(sc);
    int rule = (int)params->value[RULE];
    struct contour k = {.sum = rule == RULE_SUM};
    uint64_t ahead = 0;
    enum kva_status rc;

    KVA_GO(contour_new(&k, in, err));
    for (int c = 0; c < k.cells; c++) {
        order(&k, sc, c, newest);
        b[c] = k.floor[c] > 0 ? k.floor[c] : 1;
        ahead += (uint64_t)b[c];
    }
    if (ahead > in->total) { /* floor_cut */
        *in->fallback = true;
        memcpy(b, in->base, (size_t)k.cells * sizeof *b);
    } else if (rule == RULE_FIXED) {
        rc = fixed(&k, params->value[THETA], in->total, b, err);
    } else if (rule == RULE_PROPMASS) {
        rc = propmass(&k, in->total, b, err);
    } else {
        one_by_one(&k, in->total - ahead, b);
    }
out:
    free(k.n);
    free(k.floor);
    free(k.heap);
    free(k.p);
    free(k.drop);
    return rc;
}

const struct kva_allocator kva_alloc_contour = {
    .name = "contour",
    .summary = "all KV heads drop the same share of their mass",
    .source = "after ContourKV, arXiv 2608.25230; the rules are ours",
    .storage = "ragged",
    .deviates =
        "No formula or code of the paper was available. What is known (dropped mass per "
        "KV head, more for flat ones, a floor of recent entries, exact ragged storage) "
        "is "
        "kept; the rules are readings of it and never the authors' numbers.",
    .version = 1,
    .compares_heads = true,
    .cross_layer = true,
    .nonneg = true,
    .params = params_table,
    .protect = protect,
    .allocate = allocate,
};
