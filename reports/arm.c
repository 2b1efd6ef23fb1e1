/* SPDX-License-Identifier: GPL-3.0-or-later */
/* arm.c - the numbers of one row: score, nats, bytes, times, audit verdict; and the
 * paired scores of two rows.
 *
 *   score            (1/T) sum_t mean_i s_{t,i}                         reports.md 4.2
 *   effective ratio  mean of (kv_alloc + kv_meta) / kv_dense            5.2
 *   nats retention   (blind - method) / (blind - dense), each the mean of task means of
 *                    gold_nll over the samples that all three have      charter decision
 * 14 smallest effect  kva_stat_mde(pairs, share of pairs that differ), 10 % when none
 * does
 *
 * Times and peaks come from rows of cells that ran alone (ruling R12). */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_COVERAGE 0.95 /* reports.md 4.1 */
#define MIN_NATS_GAP 0.05 /* blind - dense below this scales nothing */

#define HELD_AS_DENSE 0.98 /* reports.md 5.2 */

static int cell_expected(const struct kva_data *d, const struct kva_cells *c, int cell)
{
    int n = c->first_outcome[cell + 1] - c->first_outcome[cell];

    return d->cells[cell].n_expected > n ? d->cells[cell].n_expected : n;
}

/* ---- paired scores ---- */

void kva_pairs_release(struct kva_pairs *p)
{
    free(p->s);
    free(p->values);
    free(p->clusters);
    memset(p, 0, sizeof *p);
}

static int count_ok(const struct kva_cells *c, int cell)
{
    int n = 0;

    for (int i = c->first[cell]; i < c->first[cell + 1]; i++)
        n += c->obs[i].n_ok > 0;
    return n;
}

/* Samples that are ok in both, in ascending order; returns how many. */
static int merge(const struct kva_cells *c, int x, int y, double *a, double *b,
                 int *cluster)
{
    int i = c->first[x], j = c->first[y], n = 0;

    while (i < c->first[x + 1] && j < c->first[y + 1]) {
        const struct kva_obs *p = &c->obs[i], *q = &c->obs[j];

        if (p->sample == q->sample && p->n_ok && q->n_ok) {
            a[n] = p->score;
            b[n] = q->score;
            cluster[n++] = c->cluster[p->sample];
        }
        i += p->sample <= q->sample;
        j += q->sample <= p->sample;
    }
    return n;
}

/* Samples planned for a cell: outcomes over reps. */
static int planned_samples(const struct kva_data *d, const struct kva_cells *c, int cell)
{
    int reps = 1, seen = c->first[cell + 1] - c->first[cell], want;

    for (int o = c->first_outcome[cell]; o < c->first_outcome[cell + 1]; o++)
        reps = d->outcomes[o].rep + 1 > reps ? d->outcomes[o].rep + 1 : reps;
    want = (d->cells[cell].n_expected + reps - 1) / reps;
    return want > seen ? want : seen;
}

enum kva_status kva_pairs_make(const struct kva_data *d, const struct kva_cells *c,
                               const struct kva_board *b, const struct kva_arm *x,
                               const struct kva_arm *y, struct kva_pairs *out,
                               struct kva_error *err)
{
    size_t total = 0;
    int at = 0;
    bool reps = false, whole = true;

    memset(out, 0, sizeof *out);
    for (int t = 0; t < b->n_task; t++)
        if (b->used[t] && x->cell[t] >= 0)
            total += (size_t)(c->first[x->cell[t] + 1] - c->first[x->cell[t]]);
    out->s = kva_calloc((size_t)b->n_task, sizeof *out->s);
    out->values = kva_calloc(2 * total + 1, sizeof *out->values);
    out->clusters = kva_calloc(total + 1, sizeof *out->clusters);
    if (!out->s || !out->values || !out->clusters) {
        kva_pairs_release(out);
        return KVA_FAIL(err, KVA_ENOMEM, "report: paired scores: out of memory");
    }
    out->valid = true;
    for (int t = 0; t < b->n_task; t++) {
        struct kva_stratum *s = &out->s[out->n_strata];
        double *va = out->values + at, *vb = out->values + total + at;
        int n, px, py, most;

        if (!b->used[t])
            continue;
        if (x->cell[t] < 0 || y->cell[t] < 0) {
            out->valid = false;
            continue;
        }
        n = merge(c, x->cell[t], y->cell[t], va, vb, out->clusters + at);
        *s = (struct kva_stratum){
            .name = b->task_label[t], .a = va, .b = vb, .n = (size_t)n};
        if (c->task_clustered[b->task[t]])
            s->cluster = out->clusters + at;
        px = planned_samples(d, c, x->cell[t]);
        py = planned_samples(d, c, y->cell[t]);
        most = px > py ? px : py;
        out->valid &= n > 0 && n >= MIN_COVERAGE * most;
        for (int i = 0; i < n; i++) {
            out->n_discordant += va[i] != vb[i];
            out->only_a += va[i] > vb[i];
            out->only_b += vb[i] > va[i];
            whole &= (va[i] == 0 || va[i] == 1) && (vb[i] == 0 || vb[i] == 1);
        }
        for (int k = c->first[x->cell[t]]; k < c->first[x->cell[t] + 1]; k++)
            reps |= c->obs[k].n_ok > 1;
        out->binary = d->tasks[b->task[t]].binary && !s->cluster;
        out->n_strata++;
        out->n += n;
        at += n;
    }
    out->binary &= out->n_strata == 1 && !reps && whole;
    return KVA_OK;
}

static int cmp_digest(const void *p, const void *q)
{
    return memcmp(p, q, 32);
}

/* One task: the cell's digest; several: SHA-256 of the sorted digests. */
static bool arm_digest(const struct kva_data *d, const struct kva_board *b,
                       const struct kva_arm *x, uint8_t out[32])
{
    uint8_t(*all)[32] = kva_calloc((size_t)b->n_task + 1, sizeof *all);
    size_t n = 0;

    if (!all)
        return false;
    for (int t = 0; t < b->n_task; t++)
        if (b->used[t] && x->cell[t] >= 0)
            memcpy(all[n++], d->cells[x->cell[t]].digest, 32);
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

    if (!arm_digest(d, b, x, dx) || !arm_digest(d, b, y, dy))
        return 0; /* the caller's next allocation reports it */
    return kva_stat_boot_seed(dx, dy, seed);
}

double kva_pair_p(const struct kva_pairs *p, uint32_t seed, int flips)
{
    if (!p->valid || p->n_strata == 0)
        return (double)NAN;
    if (p->binary)
        return kva_stat_mcnemar(p->only_a, p->only_b, NULL);
    return kva_stat_signflip(p->s, (size_t)p->n_strata, seed, flips);
}

/* ---- one arm ---- */

static enum kva_badge badge_of(const struct kva_data_cell *c,
                               const struct kva_data_outcome *o, int *bits)
{
    const struct kva_db_memory *m = &o->memory;
    int audit;

    if (strcmp(c->enforce, "dense") == 0)
        return KVA_BADGE_DENSE;
    if (!o->has_memory)
        return KVA_BADGE_UNVERIFIED;
    audit = m->audit < 0 ? 0 : m->audit;
    if (o->has_alone && o->alone.audit > 0)
        audit |= o->alone.audit;
    *bits |= audit;
    if (m->entries_masked > 0 &&
        (double)m->kv_alloc_bytes >= HELD_AS_DENSE * (double)m->kv_dense_bytes)
        return KVA_BADGE_MASKED;
    if (strcmp(c->enforce, "physical") != 0)
        return (double)m->kv_alloc_bytes >= HELD_AS_DENSE * (double)m->kv_dense_bytes ||
                       m->entries_masked > 0
                   ? KVA_BADGE_MASKED
               : m->kv_live_bytes > m->kv_budget_bytes ? KVA_BADGE_OVER
                                                       : KVA_BADGE_UNVERIFIED;
    if (audit & 3)
        return KVA_BADGE_OVER;
    if (audit)
        return KVA_BADGE_BROKEN;
    return m->audit < 0 ? KVA_BADGE_UNVERIFIED : KVA_BADGE_PHYSICAL;
}

static int cmp_double(const void *p, const void *q)
{
    double a = *(const double *)p, b = *(const double *)q;

    return a < b ? -1 : a > b;
}

static double median(double *x, int n)
{
    if (n == 0)
        return (double)NAN;
    qsort(x, (size_t)n, sizeof *x, cmp_double);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Medians of times over the outcomes that ran alone. */
enum { T_TTFT, T_PREFILL, T_SCORE, T_EVICT, T_QUESTION, T_STEP, N_TIMES };

struct bytes_sum {
    double ratio, alloc, meta, live, dense, end, kept;
    int n;
};

static void add_memory(struct kva_arm *arm, const struct kva_data_outcome *o,
                       struct bytes_sum *s)
{
    const struct kva_db_memory *m = &o->memory;

    if (!o->has_memory)
        return;
    s->alloc += (double)m->kv_alloc_bytes;
    s->meta += (double)m->kv_meta_bytes;
    s->live += (double)m->kv_live_bytes;
    s->dense += (double)m->kv_dense_bytes;
    s->end += (double)m->kv_end_bytes;
    if (m->kv_dense_bytes > 0) {
        s->ratio +=
            (double)(m->kv_alloc_bytes + m->kv_meta_bytes) / (double)m->kv_dense_bytes;
        s->kept += (double)m->kv_live_bytes / (double)m->kv_dense_bytes;
    }
    s->n++;
    if (isnan(arm->peak) || (double)m->kv_peak_bytes > arm->peak)
        arm->peak = (double)m->kv_peak_bytes;
    if (o->has_alone &&
        (isnan(arm->alone_peak) || (double)o->alone.kv_peak_bytes > arm->alone_peak))
        arm->alone_peak = (double)o->alone.kv_peak_bytes;
}

static void outcomes_of_arm(const struct kva_data *d, const struct kva_cells *c,
                            const struct kva_board *b, struct kva_arm *arm, double *times,
                            int cap)
{
    struct bytes_sum s = {0};
    int n[N_TIMES] = {0}, length = 0;

    arm->badge = KVA_BADGE_NONE;
    for (int t = 0; t < b->n_task; t++) {
        int cell = arm->cell[t];

        if (cell < 0 || !b->used[t])
            continue;
        arm->expected += cell_expected(d, c, cell);
        for (int i = c->first_outcome[cell]; i < c->first_outcome[cell + 1]; i++) {
            const struct kva_data_outcome *o = &d->outcomes[i];
            const struct kva_db_timing *tm = &o->timing;
            const int64_t ns[N_TIMES] = {tm->ttft_ns,     tm->prefill_ns,
                                         tm->score_ns,    tm->evict_ns,
                                         tm->question_ns, tm->decode_p50_ns};
            enum kva_badge badge;

            if (strcmp(o->status, "ok") != 0) {
                arm->truncated += strcmp(o->status, "truncated") == 0;
                arm->failed += strcmp(o->status, "truncated") != 0;
                continue;
            }
            arm->ok++;
            length += o->stop && strcmp(o->stop, "length") == 0;
            badge = badge_of(&d->cells[cell], o, &arm->audit);
            if (arm->badge == KVA_BADGE_NONE || badge > arm->badge)
                arm->badge = badge;
            add_memory(arm, o, &s);
            if (!o->has_timing)
                continue;
            arm->n_alone++;
            for (int k = 0; k < N_TIMES; k++)
                if (ns[k] >= 0)
                    times[k * cap + n[k]++] = (double)ns[k] / 1e6;
        }
    }
    if (arm->ok)
        arm->length_stop = (double)length / arm->ok;
    if (s.n) {
        arm->effective = s.ratio / s.n;
        arm->alloc = s.alloc / s.n;
        arm->meta = s.meta / s.n;
        arm->live = s.live / s.n;
        arm->dense_bytes = s.dense / s.n;
        arm->end = s.end / s.n;
        arm->kept_share = s.kept / s.n;
    }
    arm->ttft_ms = median(times + T_TTFT * cap, n[T_TTFT]);
    arm->prefill_ms = median(times + T_PREFILL * cap, n[T_PREFILL]);
    arm->scoring_ms = median(times + T_SCORE * cap, n[T_SCORE]);
    arm->evict_ms = median(times + T_EVICT * cap, n[T_EVICT]);
    arm->question_ms = median(times + T_QUESTION * cap, n[T_QUESTION]);
    arm->token_s = 1000 / median(times + T_STEP * cap, n[T_STEP]);
}

/* Score with its interval: the arm paired with itself gives its strata. */
static void score_of_arm(const struct kva_data *d, const struct kva_cells *c,
                         const struct kva_board *b, struct kva_arm *arm)
{
    struct kva_pairs p;
    double sum = 0;

    for (int t = 0; t < b->n_task; t++)
        if (b->used[t] && (arm->cell[t] < 0 || count_ok(c, arm->cell[t]) == 0))
            return; /* a task without a score: the mean is not defined */
    if (kva_pairs_make(d, c, b, arm, arm, &p, NULL) != KVA_OK)
        return;
    for (int t = 0; t < p.n_strata; t++)
        sum += kva_stat_mean(p.s[t].a, p.s[t].n);
    if (p.n_strata > 0) {
        arm->score = sum / p.n_strata;
        if (p.n_strata == 1 && !p.s[0].cluster)
            arm->score_ci = kva_stat_single(p.s[0].a, p.s[0].n, p.binary);
        else
            arm->score_ci = kva_stat_suite(p.s, (size_t)p.n_strata);
    }
    kva_pairs_release(&p);
}

/* Mean of task means of gold_nll; with `with` and `scale` only the samples they have too.
 */
static double nats(const struct kva_cells *c, const struct kva_board *b, const int *cell,
                   const int *with, const int *scale)
{
    double sum = 0;
    int tasks = 0;

    for (int t = 0; t < b->n_task; t++) {
        const int *other[2] = {with, scale};
        double part = 0;
        int n = 0, at[2];

        if (!b->used[t])
            continue;
        for (int k = 0; k < 2; k++) {
            if (other[k] && other[k][t] < 0)
                return (double)NAN;
            at[k] = other[k] ? c->first[other[k][t]] : 0;
        }
        if (cell[t] < 0)
            return (double)NAN;
        for (int i = c->first[cell[t]]; i < c->first[cell[t] + 1]; i++) {
            bool all = !isnan(c->obs[i].nll);

            for (int k = 0; k < 2 && all; k++) {
                if (!other[k])
                    continue;
                while (at[k] < c->first[other[k][t] + 1] &&
                       c->obs[at[k]].sample < c->obs[i].sample)
                    at[k]++;
                all = at[k] < c->first[other[k][t] + 1] &&
                      c->obs[at[k]].sample == c->obs[i].sample &&
                      !isnan(c->obs[at[k]].nll);
            }
            if (all) {
                part += c->obs[i].nll;
                n++;
            }
        }
        if (n == 0)
            return (double)NAN;
        sum += part / n;
        tasks++;
    }
    return tasks ? sum / tasks : (double)NAN;
}

static void nats_of_arm(const struct kva_cells *c, const struct kva_board *b,
                        struct kva_arm *arm)
{
    double mine, dense, blind;
    const int *dc, *bc;

    arm->nll = nats(c, b, arm->cell, NULL, NULL);
    if (b->dense < 0 || b->blind < 0)
        return;
    dc = b->arm[b->dense].cell;
    bc = b->arm[b->blind].cell;
    mine = nats(c, b, arm->cell, dc, bc);
    dense = nats(c, b, dc, arm->cell, bc);
    blind = nats(c, b, bc, arm->cell, dc);
    if (blind - dense >= MIN_NATS_GAP)
        arm->nll_retention = (blind - mine) / (blind - dense);
}

void kva_arm_measure(const struct kva_data *d, const struct kva_cells *c,
                     const struct kva_board *b, struct kva_arm *arm)
{
    double *times;
    int cap = 1;

    arm->score = arm->effective = arm->nll = arm->nll_retention = (double)NAN;
    arm->length_stop = arm->mde = arm->p = arm->p_adj = (double)NAN;
    arm->alloc = arm->meta = arm->live = arm->dense_bytes = arm->peak = (double)NAN;
    arm->end = arm->kept_share = arm->alone_peak = (double)NAN;
    arm->boot.ratio = arm->boot.diff = (double)NAN;
    for (int t = 0; t < b->n_task; t++)
        if (arm->cell[t] >= 0)
            cap += c->first_outcome[arm->cell[t] + 1] - c->first_outcome[arm->cell[t]];
    times = kva_calloc((size_t)cap * N_TIMES, sizeof *times);
    if (!times)
        return;
    outcomes_of_arm(d, c, b, arm, times, cap);
    free(times);
    score_of_arm(d, c, b, arm);
    nats_of_arm(c, b, arm);
    if (arm->role != KVA_ARM_METHOD || !b->ranks)
        return;
    for (int t = 0; t < b->n_task; t++)
        if (b->used[t] && b->no_dense[t])
            arm->unranked = KVA_UNRANKED_NO_DENSE;
    if (b->n_used == 0)
        arm->unranked = KVA_UNRANKED_FLOOR;
    if (arm->badge >= KVA_BADGE_MASKED && arm->badge != KVA_BADGE_NONE)
        arm->unranked = KVA_UNRANKED_AUDIT;
    if (2 * arm->truncated > arm->ok + arm->truncated + arm->failed)
        arm->unranked = KVA_UNRANKED_TRUNCATED;
    else if (arm->ok == 0)
        arm->unranked = KVA_UNRANKED_EMPTY;
}
