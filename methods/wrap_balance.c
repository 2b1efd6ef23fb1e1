/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wrap_balance.c - kept sets whose output is nearer to the full one than the best masses
 * are (analysis.md 4.3). A diagnostic: how much a better choice could win.
 *
 *     a_j = s_j / sum of s       masses of the entries held
 *     u_j = a_j (v_j - mu),      mu = sum_j a_j v_j
 *     e(A) = || sum_{j in A} u_j || / sum_{j in A} a_j
 *
 * e(A) is the distance of the output over the kept set A from the full output. Start from
 * the b best masses; of all swaps of a kept entry for a dropped one take the one that
 * lowers e most (by 1e-9 of it at least, lower indices on ties), until there is none.
 * Dropped entries looked at: the 4 b with the largest masses and the 4 b with the largest
 * error alone, || u_j || / (1 - a_j); at most `candidates` of each, and as many kept ones
 * of smallest mass. At most ten swaps for each of them. Inner products come from one Gram
 * matrix, so that a swap costs O(1).
 *
 * Masses are the scorer's, one row for a KV head; protected entries stay and count. The
 * greedy walk can end above the optimum (analysis.md 4.5, s = 2). */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/rank.h"

enum { CANDIDATES };
enum { SWAPS = 10 };

static const struct kva_param params_table[] = {
    {.name = "candidates",
     .help = "kept, heavy and deviating entries looked at, of each as many",
     .type = KVA_PARAM_INT,
     .def = 128,
     .def_block = 128,
     .min = 1,
     .max = 4096},
    {.name = NULL},
};

static const char *refuse(const struct kva_scorer *s, const struct kva_allocator *a)
{
    (void)a;
    return s->nonneg ? NULL : "scores are read as masses, which are never negative";
}

/* a_j, then u_j */
static int wide(const struct kva_params *params, const struct kva_layer_view *view)
{
    (void)params;
    return 1 + view->v_dim;
}

static enum kva_status rescore(const struct kva_layer_view *view,
                               const struct kva_params *params, const float *base,
                               float *s, float *aux, struct kva_error *err)
{
    size_t dim = (size_t)view->v_dim, step = dim + 1;
    double *mu = kva_arena_alloc(view->scratch, dim, sizeof *mu);

    (void)params;
    (void)s;
    if (mu == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "mean output of %zu numbers", dim);
    for (int h = 0; h < view->kv_heads; h++) {
        size_t first = view->off[h], n = view->off[h + 1] - first;
        const float *v = view->v->data + first * dim;
        double total = 0;

        memset(mu, 0, dim * sizeof *mu);
        for (size_t j = 0; j < n; j++)
            total += isfinite(base[first + j]) ? (double)base[first + j] : 0;
        for (size_t j = 0; j < n; j++) {
            double x = (double)base[first + j];
            double a = isfinite(x) && total > 0 ? x / total : 0;

            aux[(first + j) * step] = (float)a;
            for (size_t i = 0; i < dim; i++)
                mu[i] += a * (double)v[j * dim + i];
        }
        for (size_t j = 0; j < n; j++) {
            float *u = aux + (first + j) * step;

            for (size_t i = 0; i < dim; i++)
                u[1 + i] = (float)((double)u[0] * ((double)v[j * dim + i] - mu[i]));
        }
    }
    return KVA_OK;
}

/* What the walk works on: the pool of entries that may come or go. */
struct pool {
    const struct kva_pick *in;
    bool *kept;       /* [n] */
    int *rank;        /* [size] ascending */
    int size, stride; /* entries, room */
    double *gram;     /* [size][size] u.u */
    double *dot;      /* [size] U.u */
    double uu, z;     /* |U|^2, sum of masses */
};

static double mass(const struct pool *p, int j)
{
    return (double)p->in->aux[(size_t)j * (size_t)p->in->wide];
}

static double product(const struct pool *p, const double *x, int j)
{
    const float *u = p->in->aux + (size_t)j * (size_t)p->in->wide + 1;
    double sum = 0;

    for (int i = 0; i < p->in->wide - 1; i++)
        sum += x[i] * (double)u[i];
    return sum;
}

/* Marks the `most` entries of largest key among those wanted. */
static void mark(const struct pool *p, uint64_t *key, uint64_t *copy, bool kept, int most,
                 bool *in_pool)
{
    const struct kva_pick *in = p->in;
    size_t left = 0;
    uint64_t least;

    for (int j = in->lead; j < in->n - in->tail; j++)
        if (p->kept[j] == kept)
            copy[left++] = key[j];
    if (left == 0 || most < 1)
        return;
    least = (size_t)most < left ? kva_rank_cut(copy, left, (size_t)most).key : 0;
    for (int j = in->lead; j < in->n - in->tail; j++)
        in_pool[j] = in_pool[j] || (p->kept[j] == kept && key[j] >= least);
}

static void choose_pool(struct pool *p, int ordinary, int cap, uint64_t *key,
                        bool *in_pool)
{
    const struct kva_pick *in = p->in;
    uint64_t *copy = key + in->n;
    int most = ordinary < cap / 4 ? 4 * ordinary : cap;

    for (int j = 0; j < in->n; j++)
        key[j] = kva_rank_key((float)-mass(p, j), in->pos[j]);
    mark(p, key, copy, true, cap, in_pool);
    for (int j = 0; j < in->n; j++)
        key[j] = kva_rank_key((float)mass(p, j), in->pos[j]);
    mark(p, key, copy, false, most, in_pool);
    for (int j = 0; j < in->n; j++) {
        const float *u = in->aux + (size_t)j * (size_t)in->wide + 1;
        double sum = 0, left = 1 - mass(p, j);

        for (int i = 0; i < in->wide - 1; i++)
            sum += (double)u[i] * (double)u[i];
        key[j] = kva_rank_key((float)(left > 0 ? sqrt(sum) / left : 0), in->pos[j]);
    }
    mark(p, key, copy, false, most, in_pool);
    for (int j = 0; j < in->n && p->size < p->stride; j++)
        if (in_pool[j])
            p->rank[p->size++] = j;
}

/* Inner products; x is scratch of wide - 1 numbers. */
static void prepare(struct pool *p, double *x)
{
    const struct kva_pick *in = p->in;
    int dim = in->wide - 1;

    memset(x, 0, (size_t)dim * sizeof *x);
    p->z = 0;
    for (int j = 0; j < in->n; j++) {
        for (int i = 0; p->kept[j] && i < dim; i++)
            x[i] += (double)in->aux[(size_t)j * (size_t)in->wide + 1 + (size_t)i];
        p->z += p->kept[j] ? mass(p, j) : 0;
    }
    p->uu = 0;
    for (int i = 0; i < dim; i++)
        p->uu += x[i] * x[i];
    for (int c = 0; c < p->size; c++)
        p->dot[c] = product(p, x, p->rank[c]);
    for (int c = 0; c < p->size; c++) {
        const float *u = in->aux + (size_t)p->rank[c] * (size_t)in->wide + 1;

        for (int i = 0; i < dim; i++)
            x[i] = (double)u[i];
        for (int d = 0; d <= c; d++)
            p->gram[c * p->size + d] = p->gram[d * p->size + c] =
                product(p, x, p->rank[d]);
    }
}

/* The best swap, of pool entry *from for *to; false when none improves. */
static bool best_swap(const struct pool *p, int *from, int *to)
{
    double now = p->uu / (p->z * p->z), best = now * (1 - 1e-9);
    bool found = false;

    for (int i = 0; i < p->size; i++) {
        const double *g = p->gram + (size_t)i * (size_t)p->size;
        double out = p->uu - 2 * p->dot[i] + g[i], z = p->z - mass(p, p->rank[i]);

        for (int j = 0; p->kept[p->rank[i]] && j < p->size; j++) {
            double zz = z + mass(p, p->rank[j]), uu;

            if (p->kept[p->rank[j]] || zz <= 0)
                continue;
            uu =
                out + 2 * p->dot[j] + p->gram[(size_t)j * (size_t)p->size + j] - 2 * g[j];
            uu = uu > 0 ? uu : 0;
            if (uu < best * (zz * zz)) {
                best = uu / (zz * zz);
                *from = i;
                *to = j;
                found = true;
            }
        }
    }
    return found;
}

static void swap(struct pool *p, int from, int to)
{
    const double *gi = p->gram + (size_t)from * (size_t)p->size;
    const double *gj = p->gram + (size_t)to * (size_t)p->size;

    p->uu += gi[from] + gj[to] - 2 * p->dot[from] + 2 * p->dot[to] - 2 * gi[to];
    p->uu = p->uu > 0 ? p->uu : 0;
    for (int c = 0; c < p->size; c++)
        p->dot[c] += gj[c] - gi[c];
    p->z += mass(p, p->rank[to]) - mass(p, p->rank[from]);
    p->kept[p->rank[from]] = false;
    p->kept[p->rank[to]] = true;
}

/* The protected and the best of the others by score. */
static void start(struct pool *p, int ordinary, uint64_t *key, bool *chosen)
{
    const struct kva_pick *in = p->in;

    for (int j = in->lead; j < in->n - in->tail; j++)
        key[j] = kva_rank_key(in->s[j], in->pos[j]);
    mark(p, key, key + in->n, false, ordinary, chosen);
    for (int j = 0; j < in->n; j++) {
        p->kept[j] = chosen[j] || j < in->lead || j >= in->n - in->tail;
        chosen[j] = false;
    }
}

static enum kva_status pick(const struct kva_params *params, const struct kva_pick *in,
                            int32_t *rank, struct kva_error *err)
{
    int ordinary = in->b - in->lead - in->tail, cap = (int)params->value[CANDIDATES];
    int out = 0, from = 0, to = 0, most = ordinary < cap ? ordinary : cap;
    size_t n = (size_t)in->n, room = 3 * (size_t)cap < n ? 3 * (size_t)cap : n;
    struct pool p = {.in = in, .stride = (int)room};
    uint64_t *key = kva_calloc(2 * n, sizeof *key);
    bool *flag = kva_calloc(2 * n, sizeof *flag);
    double *x = kva_calloc((size_t)in->wide + room, sizeof *x);
    enum kva_status rc = KVA_OK;

    p.rank = kva_calloc(room, sizeof *p.rank);
    if (key == NULL || flag == NULL || x == NULL || p.rank == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "balance over %d entries", in->n);
        goto out;
    }
    p.kept = flag;
    p.dot = x + in->wide;
    start(&p, ordinary, key, flag + n);
    choose_pool(&p, ordinary, cap, key, flag + n);
    p.gram = kva_calloc((size_t)p.size * (size_t)p.size, sizeof *p.gram);
    if (p.gram == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "balance over %d candidates", p.size);
        goto out;
    }
    prepare(&p, x);
    for (int k = 0; k < SWAPS * most && p.z > 0 && best_swap(&p, &from, &to); k++)
        swap(&p, from, to);
    for (int j = 0; j < in->n && out < in->b; j++)
        if (p.kept[j])
            rank[out++] = j;
out:
    free(key);
    free(flag);
    free(x);
    free(p.rank);
    free(p.gram);
    return rc;
}

const struct kva_wrapper kva_wrap_balance = {
    .name = "balance",
    .summary = "swaps entries while the kept output nears the full one; diagnostic",
    .source = "balancing selector of ContourKV, arXiv 2608.25230",
    .storage = "ours",
    .deviates =
        "Masses are the scores of a KV head as one row; the paper works on single rows.",
    .needs = KVA_NEEDS_VALUES | KVA_NEEDS_HOST,
    .version = 1,
    .keeps_unit = true,
    .params = params_table,
    .refuse = refuse,
    .wide = wide,
    .rescore = rescore,
    .pick = pick,
};
