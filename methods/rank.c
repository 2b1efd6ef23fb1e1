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
    float x = score + 0.0f; /* -0 becomes +0 */
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

    if (norm == KVA_NORM_NONE) {
        memcpy(out, s, (size_t)n * sizeof *s);
        return;
    }
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

/* Working memory of one flat ranking: keys of the entries that compete, by kvhead. */
struct pool {
    uint64_t *key, *copy;
    float *norm;
    size_t *off;
};

static enum kva_status pool_new(struct pool *p, size_t n, int heads,
                                struct kva_error *err)
{
    p->key = kva_calloc(n, sizeof *p->key);
    p->copy = kva_calloc(n, sizeof *p->copy);
    p->norm = kva_calloc(n, sizeof *p->norm);
    p->off = kva_calloc((size_t)heads + 1, sizeof *p->off);
    if (p->key == NULL || p->copy == NULL || p->norm == NULL || p->off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "ranking of %zu entries", n);
    return KVA_OK;
}

static void pool_release(struct pool *p)
{
    free(p->key);
    free(p->copy);
    free(p->norm);
    free(p->off);
}

/* Puts the keys of kvhead c's ordinary entries behind those of the kvheads before it,
 * leaving out the `reserve` best; returns how many stay ahead of the competition. */
static int enter(struct pool *p, const struct kva_scores *sc, int c, int i,
                 int32_t newest, int reserve, enum kva_norm norm)
{
    const float *s = sc->s + sc->off[c];
    const int32_t *pos = sc->pos + sc->off[c];
    int n = (int)(sc->off[c + 1] - sc->off[c]), lead, tail, rest;
    uint64_t *key = p->key + p->off[i], first = UINT64_MAX;
    size_t m = 0;

    kva_rank_protected(sc, c, newest, &lead, &tail);
    rest = n - lead - tail;
    reserve = reserve < 0 ? 0 : reserve > rest ? rest : reserve;
    normalise(s + lead, rest, norm, p->norm);
    for (int j = 0; j < rest; j++)
        key[j] = kva_rank_key(p->norm[j], pos[lead + j]);
    if (reserve > 0) {
        memcpy(p->copy, key, (size_t)rest * sizeof *key);
        first = kva_rank_cut(p->copy, (size_t)rest, (size_t)reserve).key;
    }
    for (int j = 0; j < rest; j++) {
        if (reserve == 0 || key[j] < first)
            key[m++] = key[j];
    }
    p->off[i + 1] = p->off[i] + m;
    return lead + tail + reserve;
}

enum kva_status kva_rank_flat(const struct kva_scores *sc, int c0, int c1, uint64_t total,
                              const int *reserve, enum kva_norm norm, int *b,
                              struct kva_error *err)
{
    int heads = c1 - c0;
    int32_t newest = kva_rank_newest(sc);
    struct pool p = {0};
    uint64_t ahead = 0;
    enum kva_status rc;

    KVA_GO(pool_new(&p, sc->off[c1] - sc->off[c0], heads, err));
    for (int i = 0; i < heads; i++) {
        b[i] = enter(&p, sc, c0 + i, i, newest, reserve[i], norm);
        ahead += (uint64_t)b[i];
    }
    if (ahead > total) { /* rule 3.4, per head */
        int *n = kva_calloc((size_t)heads, sizeof *n);

        if (n == NULL) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "ranking of %d KV heads", heads);
            goto out;
        }
        for (int i = 0; i < heads; i++)
            n[i] = (int)(sc->off[c0 + i + 1] - sc->off[c0 + i]);
        kva_budget_uniform(total, n, heads, b);
        free(n);
    } else if (ahead < total && p.off[heads] > 0) {
        size_t m = total - ahead > p.off[heads] ? p.off[heads] : (size_t)(total - ahead);
        struct kva_cut cut;

        memcpy(p.copy, p.key, p.off[heads] * sizeof *p.key);
        cut = kva_rank_cut(p.copy, p.off[heads], m);
        for (int i = 0; i < heads; i++) {
            for (size_t j = p.off[i]; j < p.off[i + 1]; j++) {
                bool level = p.key[j] == cut.key && cut.equal > 0;

                cut.equal -= level;
                b[i] += p.key[j] > cut.key || level;
            }
        }
    }
out:
    pool_release(&p);
    return rc;
}
