/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pairs.c - paired values of two rows: what every interval and test reads.
 *
 * A pair is a sample that is ok on both sides; a comparison holds when there are at
 * least 95 % of the samples planned for either (reports.md 4.1). Three measures, all
 * "higher is better":
 *
 *   score   the task's metric
 *   nats    -gold_nll
 *   gain    gold_nll(blind) - gold_nll: the nats per gold token that the context is
 *           worth. The ratio A(gain of a method) / A(gain of dense) is the nats
 *           retention (charter decision 14), so one bootstrap of three arms draws the
 *           same samples for all; a sample must be there in all three.
 *
 * Differences of nats and of gain are the same numbers where both exist. */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_COVERAGE 0.95

void kva_pairs_release(struct kva_pairs *p)
{
    free(p->s);
    free(p->values);
    free(p->clusters);
    memset(p, 0, sizeof *p);
}

static bool is_there(const struct kva_obs *o, enum kva_measure m)
{
    return o->n_ok > 0 && (m == KVA_MEASURE_SCORE || !isnan(o->nll));
}

/* The observation of a sample in a cell, from *at on; NULL: none. */
static const struct kva_obs *seek(const struct kva_cells *c, int cell, int sample,
                                  int *at)
{
    while (*at < c->first[cell + 1] && c->obs[*at].sample < sample)
        (*at)++;
    return *at < c->first[cell + 1] && c->obs[*at].sample == sample ? &c->obs[*at] : NULL;
}

/* Samples that all sides have, in ascending order; returns how many. blind -1: not
 * asked. */
static int merge(const struct kva_cells *c, int x, int y, int blind, enum kva_measure m,
                 double *a, double *b, int *cluster)
{
    int j = c->first[y], k = blind < 0 ? 0 : c->first[blind], n = 0;

    for (int i = c->first[x]; i < c->first[x + 1]; i++) {
        const struct kva_obs *p = &c->obs[i], *q = seek(c, y, p->sample, &j), *z = NULL;
        double base = 0;

        if (!q || !is_there(p, m) || !is_there(q, m))
            continue;
        if (m == KVA_MEASURE_GAIN) {
            z = seek(c, blind, p->sample, &k);
            if (!z || !is_there(z, m))
                continue;
            base = z->nll;
        }
        a[n] = m == KVA_MEASURE_SCORE ? p->score : base - p->nll;
        b[n] = m == KVA_MEASURE_SCORE ? q->score : base - q->nll;
        cluster[n++] = c->cluster[p->sample];
    }
    return n;
}

int kva_planned_samples(const struct kva_data *d, const int *first_outcome, int cell)
{
    int reps = 1, seen = 0, last = -1, want;

    for (int o = first_outcome[cell]; o < first_outcome[cell + 1]; o++) {
        reps = d->outcomes[o].rep + 1 > reps ? d->outcomes[o].rep + 1 : reps;
        seen += d->outcomes[o].sample != last;
        last = d->outcomes[o].sample;
    }
    want = (d->cells[cell].n_expected + reps - 1) / reps;
    return want > seen ? want : seen;
}

static void add_stratum(const struct kva_data *d, const struct kva_cells *c,
                        const struct kva_pair_cells *in, int t, size_t total,
                        struct kva_pairs *out)
{
    struct kva_stratum *s = &out->s[out->n_strata];
    double *va = out->values + out->n, *vb = out->values + total + out->n;
    int *clusters = out->clusters + out->n, x = in->x[t], y = in->y[t];
    int n = merge(c, x, y, out->measure == KVA_MEASURE_GAIN ? in->blind[t] : -1,
                  out->measure, va, vb, clusters);
    int px = kva_planned_samples(d, c->first_outcome, x);
    int py = kva_planned_samples(d, c->first_outcome, y);

    *s = (struct kva_stratum){.name = in->label[t], .a = va, .b = vb, .n = (size_t)n};
    if (c->task_clustered[d->cells[x].task])
        s->cluster = clusters;
    out->valid &= n > 0 && n >= MIN_COVERAGE * (px > py ? px : py);
    out->binary &= d->tasks[d->cells[x].task].binary && !s->cluster;
    for (int i = 0; i < n; i++) {
        out->n_discordant += va[i] != vb[i];
        out->only_a += va[i] > vb[i];
        out->only_b += vb[i] > va[i];
        out->binary &= (va[i] == 0 || va[i] == 1) && (vb[i] == 0 || vb[i] == 1);
    }
    for (int k = c->first[x]; k < c->first[x + 1]; k++)
        out->binary &= c->obs[k].n_ok <= 1;
    out->n_strata++;
    out->n += n;
}

enum kva_status kva_pairs_of(const struct kva_data *d, const struct kva_cells *c,
                             const struct kva_pair_cells *in, enum kva_measure measure,
                             struct kva_pairs *out, struct kva_error *err)
{
    size_t total = 0;

    memset(out, 0, sizeof *out);
    for (int t = 0; t < in->n_task; t++)
        if (in->used[t] && in->x[t] >= 0)
            total += (size_t)(c->first[in->x[t] + 1] - c->first[in->x[t]]);
    out->measure = measure;
    out->s = kva_calloc((size_t)in->n_task + 1, sizeof *out->s);
    out->values = kva_calloc(2 * total + 1, sizeof *out->values);
    out->clusters = kva_calloc(total + 1, sizeof *out->clusters);
    if (!out->s || !out->values || !out->clusters) {
        kva_pairs_release(out);
        return KVA_FAIL(err, KVA_ENOMEM, "report: paired values: out of memory");
    }
    out->valid = true;
    out->binary = measure == KVA_MEASURE_SCORE;
    for (int t = 0; t < in->n_task; t++) {
        if (!in->used[t])
            continue;
        if (in->x[t] < 0 || in->y[t] < 0 ||
            (measure == KVA_MEASURE_GAIN && (!in->blind || in->blind[t] < 0)))
            out->valid = false;
        else
            add_stratum(d, c, in, t, total, out);
    }
    out->binary &= out->n_strata == 1;
    return KVA_OK;
}

enum kva_status kva_pairs_make(const struct kva_data *d, const struct kva_cells *c,
                               const struct kva_board *b, const struct kva_arm *x,
                               const struct kva_arm *y, enum kva_measure measure,
                               struct kva_pairs *out, struct kva_error *err)
{
    struct kva_pair_cells in = {.x = x->cell,
                                .y = y->cell,
                                .blind = b->blind < 0 ? NULL : b->arm[b->blind].cell,
                                .used = b->used,
                                .label = b->task_label,
                                .n_task = b->n_task};

    return kva_pairs_of(d, c, &in, measure, out, err);
}

double kva_pairs_delta(const struct kva_pairs *p)
{
    double sum = 0;

    for (int t = 0; t < p->n_strata; t++)
        sum += kva_stat_mean(p->s[t].a, p->s[t].n) - kva_stat_mean(p->s[t].b, p->s[t].n);
    return p->n_strata ? sum / p->n_strata : (double)NAN;
}

double kva_pair_p(const struct kva_pairs *p, uint32_t seed, int flips)
{
    if (!p->valid || p->n_strata == 0)
        return (double)NAN;
    if (p->binary)
        return kva_stat_mcnemar(p->only_a, p->only_b, NULL);
    return kva_stat_signflip(p->s, (size_t)p->n_strata, seed, flips);
}

/* ---- seeds ---- */

static int cmp_digest(const void *p, const void *q)
{
    return memcmp(p, q, 32);
}

/* One task: the cell's digest; several: SHA-256 of the sorted digests. */
static bool side_digest(const struct kva_data *d, const bool *used, const int *cell,
                        int n_task, uint8_t out[32])
{
    uint8_t(*all)[32] = kva_calloc((size_t)n_task + 1, sizeof *all);
    size_t n = 0;

    if (!all)
        return false;
    for (int t = 0; t < n_task; t++)
        if (used[t] && cell[t] >= 0)
            memcpy(all[n++], d->cells[cell[t]].digest, 32);
    if (n == 1) {
        memcpy(out, all[0], 32);
    } else {
        qsort(all, n, 32, cmp_digest);
        kva_sha256_of(all, 32 * n, out);
    }
    free(all);
    return true;
}

uint32_t kva_pair_seed(const struct kva_data *d, const struct kva_board *b,
                       const struct kva_arm *x, const struct kva_arm *y, uint64_t seed)
{
    uint8_t dx[32], dy[32];

    if (!side_digest(d, b->used, x->cell, b->n_task, dx) ||
        !side_digest(d, b->used, y->cell, b->n_task, dy))
        return 0; /* the caller's next allocation reports it */
    return kva_stat_boot_seed(dx, dy, seed);
}
