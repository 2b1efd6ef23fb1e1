/* SPDX-License-Identifier: GPL-3.0-or-later */
/* arm.c - the numbers of one row: score, nats, bytes, times, audit verdict.
 *
 *   score            (1/T) sum_t mean_i s_{t,i}                         reports.md 4.2
 *   effective ratio  mean of (kv_alloc + kv_meta) / kv_dense            5.2
 *
 * What needs a second row (retention, tests) is in rank.c. Times and peaks come from
 * rows of cells that ran alone (ruling R12). */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELD_AS_DENSE 0.98 /* reports.md 5.2 */

static int cell_expected(const struct kva_data *d, const struct kva_cells *c, int cell)
{
    int n = c->first_outcome[cell + 1] - c->first_outcome[cell];

    return d->cells[cell].n_expected > n ? d->cells[cell].n_expected : n;
}

static int count_ok(const struct kva_cells *c, int cell)
{
    int n = 0;

    for (int i = c->first[cell]; i < c->first[cell + 1]; i++)
        n += c->obs[i].n_ok > 0;
    return n;
}

enum kva_badge kva_badge_of(const struct kva_data_cell *c,
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

enum kva_badge kva_badge_of_cell(const struct kva_data *d, const struct kva_cells *c,
                                 int cell)
{
    enum kva_badge worst = KVA_BADGE_NONE;
    int bits = 0;

    for (int i = c->first_outcome[cell]; i < c->first_outcome[cell + 1]; i++)
        if (strcmp(d->outcomes[i].status, "ok") == 0) {
            enum kva_badge badge = kva_badge_of(&d->cells[cell], &d->outcomes[i], &bits);

            if (worst == KVA_BADGE_NONE || badge > worst)
                worst = badge;
        }
    return worst;
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
        arm->n_sample += count_ok(c, cell);
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
            arm->fell_back += (o->flags & KVA_DB_FELL_BACK) != 0;
            length += o->stop && strcmp(o->stop, "length") == 0;
            badge = kva_badge_of(&d->cells[cell], o, &arm->audit);
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
    arm->ttft_ms = kva_stat_median(times + T_TTFT * cap, (size_t)n[T_TTFT]);
    arm->prefill_ms = kva_stat_median(times + T_PREFILL * cap, (size_t)n[T_PREFILL]);
    arm->scoring_ms = kva_stat_median(times + T_SCORE * cap, (size_t)n[T_SCORE]);
    arm->evict_ms = kva_stat_median(times + T_EVICT * cap, (size_t)n[T_EVICT]);
    arm->question_ms = kva_stat_median(times + T_QUESTION * cap, (size_t)n[T_QUESTION]);
    arm->token_s = 1000 / kva_stat_median(times + T_STEP * cap, (size_t)n[T_STEP]);
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
    if (kva_pairs_make(d, c, b, arm, arm, KVA_MEASURE_SCORE, &p, NULL) != KVA_OK)
        return;
    for (int t = 0; t < p.n_strata; t++)
        sum += kva_stat_mean(p.s[t].a, p.s[t].n);
    if (p.n_strata > 0) {
        arm->score = sum / p.n_strata;
        arm->score_ci = kva_stat_arm(p.s, (size_t)p.n_strata);
        arm->n_unit = (int)kva_stat_units(p.s, (size_t)p.n_strata);
        arm->n_scored = p.n;
    }
    kva_pairs_release(&p);
}

/* Mean of task means of gold_nll. */
static void nats_of_arm(const struct kva_cells *c, const struct kva_board *b,
                        struct kva_arm *arm)
{
    double sum = 0;
    int tasks = 0;

    for (int t = 0; t < b->n_task; t++) {
        double part = 0;
        int n = 0;

        if (!b->used[t])
            continue;
        if (arm->cell[t] < 0)
            return;
        for (int i = c->first[arm->cell[t]]; i < c->first[arm->cell[t] + 1]; i++)
            if (!isnan(c->obs[i].nll)) {
                part += c->obs[i].nll;
                n++;
            }
        if (n == 0)
            return;
        sum += part / n;
        tasks++;
    }
    if (tasks)
        arm->nll = sum / tasks;
}

void kva_arm_measure(const struct kva_data *d, const struct kva_cells *c,
                     const struct kva_board *b, struct kva_arm *arm)
{
    double *times;
    int cap = 1;

    arm->score = arm->effective = arm->nll = (double)NAN;
    arm->length_stop = arm->boot.mde = arm->p = arm->p_adj = (double)NAN;
    arm->nats_p = arm->nats_p_adj = arm->nats.ratio = arm->nats.diff = (double)NAN;
    arm->alloc = arm->meta = arm->live = arm->dense_bytes = arm->peak = (double)NAN;
    arm->end = arm->kept_share = arm->alone_peak = (double)NAN;
    arm->boot.ratio = arm->boot.diff = arm->rival_p = (double)NAN;
    arm->rival = -1;
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
