/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rank.c - one order for every decision: (class, score, position), larger stays
 * (methods.md 3).
 *
 * A finite score and its position fit one 64-bit key whose unsigned order is the wanted
 * one, so the best m of n entries are found by radix selection: exact, deterministic,
 * linear. Protection never enters the key: a sentinel score could tie with a real one. */
#include "methods/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const kva_norm_names[] = {"none", "cell_sum", "z", NULL};

uint64_t kva_rank_key(float score, int32_t pos)
{
    float x = isnan(score) ? -INFINITY : score + 0.0f; /* -0 becomes +0 */
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (uint32_t)pos;
}

struct kva_cut kva_rank_cut(uint64_t *keys, size_t n, size_t m)
{
    uint64_t prefix = 0;

    /* m counts down to the rank wanted among the keys that share the digits fixed so far
     */
    for (int shift = 56; shift >= 0; shift -= 8) {
        size_t count[256] = {0}, kept = 0;
        unsigned digit = 255;

        for (size_t i = 0; i < n; i++)
            count[keys[i] >> shift & 255]++;
        while (count[digit] < m)
            m -= count[digit--];
        prefix |= (uint64_t)digit << shift;
        if (count[digit] < n) {
            for (size_t i = 0; i < n; i++) {
                if ((keys[i] >> shift & 255) == digit)
                    keys[kept++] = keys[i];
            }
            n = kept;
        }
        if (n == 1)
            return (struct kva_cut){keys[0], 1};
    }
    return (struct kva_cut){prefix, m};
}

int32_t kva_rank_newest(const struct kva_scores *sc)
{
    int32_t newest = -1;

    for (int c = 0; c < sc->layers * sc->kv_heads; c++) {
        if (sc->off[c + 1] > sc->off[c] && sc->pos[sc->off[c + 1] - 1] > newest)
            newest = sc->pos[sc->off[c + 1] - 1];
    }
    return newest;
}

bool kva_rank_decided(const struct kva_scores *sc, int c)
{
    int layer = c / sc->kv_heads;

    return sc->layer1 == 0 || (layer >= sc->layer0 && layer < sc->layer1);
}

void kva_rank_protected(const struct kva_scores *sc, int c, int32_t newest, int *lead,
                        int *tail)
{
    const int32_t *pos = sc->pos + sc->off[c];
    int n = (int)(sc->off[c + 1] - sc->off[c]), recent = sc->protect.recent;

    if (sc->share != NULL && (int)(sc->recent_share * sc->share[c]) > recent)
        recent = (int)(sc->recent_share * sc->share[c]);
    *lead = *tail = 0;
    while (*lead < n && pos[*lead] < sc->protect.sinks)
        ++*lead;
    while (*lead + *tail < n && (int64_t)pos[n - 1 - *tail] > (int64_t)newest - recent)
        ++*tail;
}

/* s[n] brought to a common unit. Scores that were not finite (-inf) stay last and out of
 * sums. */
static void normalise(const float *s, int n, enum kva_norm norm, float *out)
{
    double sum = 0, square = 0, mean, scale;
    int count = 0;

    for (int j = 0; j < n; j++) {
        if (isfinite(s[j])) {
            sum += (double)s[j];
            count++;
        }
    }
    mean = norm == KVA_NORM_Z && count > 0 ? sum / count : 0;
    for (int j = 0; j < n; j++) {
        if (isfinite(s[j]))
            square += ((double)s[j] - mean) * ((double)s[j] - mean);
    }
    scale = norm == KVA_NORM_Z ? (count > 0 ? sqrt(square / count) : 0) : sum;
    for (int j = 0; j < n; j++) {
        if (!isfinite(s[j]))
            out[j] = s[j];
        else /* all equal, or no mass at all: nothing to prefer */
            out[j] = scale > 0 ? (float)(((double)s[j] - mean) / scale) : 0.0f;
    }
}

/* ---- the best of each cell ---- */

static int length(const struct kva_contest *in, int c)
{
    return (int)(in->off[c + 1] - in->off[c]);
}

/* Keys of the entries of cell c that are neither of its lead nor of its tail. */
static int keys_of(const struct kva_contest *in, int c, uint64_t *key)
{
    size_t first = in->off[c] + (size_t)in->lead[c];
    int rest = length(in, c) - in->lead[c] - in->tail[c];

    for (int j = 0; j < rest; j++)
        key[j] = kva_rank_key(in->s[first + (size_t)j], in->pos[first + (size_t)j]);
    return rest;
}

static void choose_cell(const struct kva_contest *in, int c, int b, uint64_t *key,
                        uint64_t *copy, int32_t *rank)
{
    int n = length(in, c), lead = in->lead[c], tail = in->tail[c];
    int rest = keys_of(in, c, key), m = b - lead - tail, out = 0;
    uint64_t least = 0;

    if (m > 0 && m < rest) {
        memcpy(copy, key, (size_t)rest * sizeof *key);
        least = kva_rank_cut(copy, (size_t)rest, (size_t)m).key;
    }
    for (int j = 0; j < n; j++)
        if (j < lead || j >= n - tail || (m > 0 && key[j - lead] >= least))
            rank[out++] = j;
}

enum kva_status kva_rank_choose(struct kva_ops *ops, const struct kva_contest *in,
                                const int *b, const size_t *to, int32_t *rank,
                                struct kva_error *err)
{
    size_t most = 0;
    uint64_t *key;

    if (ops != NULL && ops->choose != NULL) {
        ops->choose(ops, in, b, to, rank);
        return ops->sync(ops, err);
    }
    for (int c = 0; c < in->cells; c++)
        most = in->off[c + 1] - in->off[c] > most ? in->off[c + 1] - in->off[c] : most;
    key = kva_calloc(2 * most, sizeof *key);
    if (key == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "ranking of %zu entries", most);
    for (int c = 0; c < in->cells; c++)
        if (b[c] > 0)
            choose_cell(in, c, b[c], key, key + most, rank + to[c]);
    free(key);
    return KVA_OK;
}

/* ---- one ranking over all ---- */

/* Keys of the entries that compete, by cell. */
struct pool {
    uint64_t *key, *copy;
    size_t *off;
};

static enum kva_status pool_new(struct pool *p, size_t n, int cells,
                                struct kva_error *err)
{
    p->key = kva_calloc(n, sizeof *p->key);
    p->copy = kva_calloc(n, sizeof *p->copy);
    p->off = kva_calloc((size_t)cells + 1, sizeof *p->off);
    if (p->key == NULL || p->copy == NULL || p->off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "ranking of %zu entries", n);
    return KVA_OK;
}

static void pool_release(struct pool *p)
{
    free(p->key);
    free(p->copy);
    free(p->off);
}

/* Puts the keys of cell c's ordinary entries behind those of the cells before it, leaving
 * out the `reserve` best; returns how many stay ahead of the competition. */
static int enter(struct pool *p, const struct kva_contest *in, int c, int reserve)
{
    uint64_t *key = p->key + p->off[c], first = UINT64_MAX;
    int rest = keys_of(in, c, key);
    size_t m = 0;

    if (reserve > 0) {
        memcpy(p->copy, key, (size_t)rest * sizeof *key);
        first = kva_rank_cut(p->copy, (size_t)rest, (size_t)reserve).key;
    }
    for (int j = 0; j < rest; j++) {
        if (reserve == 0 || key[j] < first)
            key[m++] = key[j];
    }
    p->off[c + 1] = p->off[c] + m;
    return in->lead[c] + in->tail[c] + reserve;
}

/* What a backend says of its groups; one that failed says why when it is asked. */
static enum kva_status check_shares(struct kva_ops *ops, const struct kva_contest *in,
                                    int groups, const uint64_t *total, const int *b,
                                    struct kva_error *err)
{
    int each = in->cells / groups;

    for (int g = 0; g < groups; g++) {
        uint64_t sum = 0;
        bool good = true;

        for (int c = g * each; c < (g + 1) * each; c++) {
            good = good && b[c] >= in->lead[c] + in->tail[c] && b[c] <= length(in, c);
            sum += (uint64_t)b[c];
        }
        if (total[g] == 0 || (good && sum == total[g]))
            continue;
        KVA_TRY(ops->sync(ops, err));
        return KVA_FAIL(err, KVA_ECONFLICT, "%s shares %llu entries otherwise",
                        ops->backend, (unsigned long long)total[g]);
    }
    return KVA_OK;
}

static enum kva_status share_group(const struct kva_contest *in, const int *reserve,
                                   uint64_t total, int *b, struct kva_error *err)
{
    struct pool p = {0};
    struct kva_cut cut;
    enum kva_status rc;

    KVA_GO(pool_new(&p, in->off[in->cells] - in->off[0], in->cells, err));
    for (int c = 0; c < in->cells; c++) {
        b[c] = enter(&p, in, c, reserve[c]);
        total -= (uint64_t)b[c];
    }
    memcpy(p.copy, p.key, p.off[in->cells] * sizeof *p.key);
    cut = kva_rank_cut(p.copy, p.off[in->cells], (size_t)total);
    for (int c = 0; c < in->cells; c++) {
        for (size_t j = p.off[c]; j < p.off[c + 1]; j++) {
            bool level = p.key[j] == cut.key && cut.equal > 0;

            cut.equal -= level;
            b[c] += p.key[j] > cut.key || level;
        }
    }
out:
    pool_release(&p);
    return rc;
}

/* Cells c0 .. c0 + cells - 1 alone. */
static struct kva_contest part_of(const struct kva_contest *in, int c0, int cells)
{
    struct kva_contest part = *in;

    part.off += c0;
    part.lead += c0;
    part.tail += c0;
    part.cells = cells;
    return part;
}

enum kva_status kva_rank_share(struct kva_ops *ops, const struct kva_contest *in,
                               const int *reserve, int groups, const uint64_t *total,
                               int *b, struct kva_error *err)
{
    int each = in->cells / groups;

    if (ops != NULL && ops->share != NULL) {
        ops->share(ops, in, reserve, groups, total, b);
        return check_shares(ops, in, groups, total, b, err);
    }
    for (int g = 0; g < groups; g++) {
        struct kva_contest group = part_of(in, g * each, each);

        if (total[g] > 0)
            KVA_TRY(share_group(&group, reserve + g * each, total[g], b + g * each, err));
    }
    return KVA_OK;
}

/* All kvheads as cells of a contest. */
struct flat {
    struct kva_contest in;
    int each;                   /* cells of a group */
    uint64_t *total;            /* [groups] 0: there is nothing to ask */
    int *lead, *tail, *reserve; /* one array */
    float *norm;
};

static enum kva_status flat_new(struct flat *f, const struct kva_scores *sc, int groups,
                                enum kva_norm norm, struct kva_error *err)
{
    size_t cells = (size_t)sc->layers * (size_t)sc->kv_heads, n = sc->off[cells];

    f->each = (int)cells / groups;
    f->total = kva_calloc((size_t)groups, sizeof *f->total);
    f->lead = kva_calloc(3 * cells, sizeof *f->lead);
    f->norm = norm != KVA_NORM_NONE ? kva_calloc(n, sizeof *f->norm) : NULL;
    if (f->total == NULL || f->lead == NULL || (norm != KVA_NORM_NONE && f->norm == NULL))
        return KVA_FAIL(err, KVA_ENOMEM, "ranking of %zu entries", n);
    f->tail = f->lead + cells;
    f->reserve = f->tail + cells;
    f->in = (struct kva_contest){.s = f->norm != NULL ? f->norm : sc->s,
                                 .pos = sc->pos,
                                 .off = sc->off,
                                 .cells = (int)cells,
                                 .lead = f->lead,
                                 .tail = f->tail};
    return KVA_OK;
}

static void flat_release(struct flat *f)
{
    free(f->total);
    free(f->lead);
    free(f->norm);
}

/* What the cells from c0 on have without a ranking: rule 3.4, per head. */
static enum kva_status even(const struct flat *f, int c0, uint64_t total, int *b,
                            struct kva_error *err)
{
    int *n = kva_calloc((size_t)f->each, sizeof *n);

    if (n == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "ranking of %d KV heads", f->each);
    for (int i = 0; i < f->each; i++)
        n[i] = length(&f->in, c0 + i);
    kva_budget_uniform(total, n, f->each, b + c0);
    free(n);
    return KVA_OK;
}

/* What stays ahead in group g, or all the group has; and whether a ranking is needed. */
static enum kva_status enter_group(struct flat *f, const struct kva_scores *sc, int g,
                                   int32_t newest, const int *reserve, uint64_t total,
                                   int *b, struct kva_error *err)
{
    int c0 = g * f->each;
    uint64_t ahead = 0, all = sc->off[c0 + f->each] - sc->off[c0];
    bool decided = false;

    for (int c = c0; c < c0 + f->each; c++) {
        int rest;

        decided = decided || kva_rank_decided(sc, c);
        kva_rank_protected(sc, c, newest, &f->lead[c], &f->tail[c]);
        rest = length(&f->in, c) - f->lead[c] - f->tail[c];
        f->reserve[c] = reserve[c] < 0 ? 0 : reserve[c] > rest ? rest : reserve[c];
        b[c] = f->lead[c] + f->tail[c] + f->reserve[c];
        ahead += (uint64_t)b[c];
    }
    if (ahead > total || !decided)
        return even(f, c0, total, b, err);
    if (ahead < total && ahead < all)
        f->total[g] = total < all ? total : all;
    return KVA_OK;
}

static void normalise_group(struct flat *f, const struct kva_scores *sc, int g,
                            enum kva_norm norm)
{
    for (int c = g * f->each; c < (g + 1) * f->each; c++) {
        size_t first = sc->off[c] + (size_t)f->lead[c];

        normalise(sc->s + first, length(&f->in, c) - f->lead[c] - f->tail[c], norm,
                  f->norm + first);
    }
}

enum kva_status kva_rank_flat(const struct kva_scores *sc, int groups,
                              const uint64_t *total, const int *reserve,
                              enum kva_norm norm, int *b, struct kva_error *err)
{
    int32_t newest = kva_rank_newest(sc);
    struct flat f = {0};
    int g0 = groups, g1 = 0; /* groups that are ranked lie in [g0, g1) */
    enum kva_status rc;

    KVA_GO(flat_new(&f, sc, groups, norm, err));
    for (int g = 0; g < groups; g++) {
        KVA_GO(enter_group(&f, sc, g, newest, reserve, total[g], b, err));
        if (f.total[g] == 0)
            continue;
        if (f.norm != NULL)
            normalise_group(&f, sc, g, norm);
        g0 = g0 < g ? g0 : g;
        g1 = g + 1;
    }
    if (g0 < g1) {
        struct kva_contest in = part_of(&f.in, g0 * f.each, (g1 - g0) * f.each);

        rc = kva_rank_share(sc->ops, &in, f.reserve + g0 * f.each, g1 - g0, f.total + g0,
                            b + g0 * f.each, err);
    }
out:
    flat_release(&f);
    return rc;
}
