/* SPDX-License-Identifier: GPL-3.0-or-later */
/* forecast.c - time, memory, disk and what can be shown at all, before anything runs.
 *
 * Time of shared work: the mean of earlier units of the same task where there are some,
 * else the fit over all units of the model on this machine (perf_digest), with n_gen the
 * rows of questions and answers. Time of cells that run alone: the fit over the rows of
 * such cells. Memory is an upper bound: local layers count as full ones. */
#include "runner/forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics/metric.h"
#include "runner/env_row.h"

/* Share of discordant pairs assumed without history (reports.md 4.7). */
#define DISCORDANT 0.10
/* Rows of a question, where a task was never run. */
#define QUESTION_ROWS 32
/* Warm-up runs of a sitting, at the least. */
#define WARM_RUNS 3

/* ---- the fit
 * --------------------------------------------------------------------------------- */

/* Solves the normal equations over the columns in `use`; false when they are singular or
 * a coefficient is negative. */
static bool solve(const struct kva_db_time *rows, size_t n, const int *use, int k,
                  double out[3])
{
    double m[3][4] = {{0}}, size[3];

    for (size_t i = 0; i < n; i++) {
        double x = rows[i].n_ctx / 1024, v[3] = {x, x * x, rows[i].n_gen / 1024};

        for (int r = 0; r < k; r++) {
            for (int c = 0; c < k; c++)
                m[r][c] += v[use[r]] * v[use[c]];
            m[r][k] += v[use[r]] * rows[i].ns;
        }
    }
    for (int p = 0; p < k; p++)
        size[p] = m[p][p];
    for (int p = 0; p < k; p++) {
        /* what the other columns leave of this one: nothing, if they explain it */
        if (!(m[p][p] > 1e-9 * size[p]))
            return false;
        for (int r = 0; r < k; r++)
            if (r != p) {
                double f = m[r][p] / m[p][p];

                for (int c = p; c <= k; c++)
                    m[r][c] -= f * m[p][c];
            }
    }
    for (int r = 0; r < k; r++) {
        double v = m[r][k] / m[r][r];

        if (!(v >= 0) || !isfinite(v))
            return false;
        out[use[r]] = v;
    }
    return true;
}

void kva_time_fit(const struct kva_db_time *rows, size_t n, struct kva_time_fit *fit)
{
    static const int terms[][3] = {{0, 1, 2}, {0, 2}, {0, 1}, {0}};
    static const int count[] = {3, 2, 2, 1};
    double x[3] = {0};

    memset(fit, 0, sizeof *fit);
    for (size_t i = 0; i < 4 && fit->n == 0; i++) {
        memset(x, 0, sizeof x);
        if (n >= (size_t)count[i] && solve(rows, n, terms[i], count[i], x))
            fit->n = (int)n;
    }
    if (fit->n == 0)
        return;
    fit->a = x[0] / 1024;
    fit->b = x[1] / 1024 / 1024;
    fit->c = x[2] / 1024;
}

double kva_time_fit_ns(const struct kva_time_fit *fit, double n_ctx, double n_gen)
{
    return fit->a * n_ctx + fit->b * n_ctx * n_ctx + fit->c * n_gen;
}

/* ---- time
 * ------------------------------------------------------------------------------------ */

struct fits {
    struct kva_time_fit shared, alone;
};

static enum kva_status fit_of(struct kva_db *db, const struct kva_plan_model *m,
                              const uint8_t perf[32], bool alone,
                              struct kva_time_fit *fit, struct kva_error *err)
{
    struct kva_db_time *rows;
    size_t n;

    KVA_TRY(kva_db_times(db, m->digest, perf, alone, &rows, &n, err));
    kva_time_fit(rows, n, fit);
    free(rows);
    return KVA_OK;
}

static enum kva_status fits_of(const struct kva_plan *p, struct kva_db *db, int threads,
                               struct fits *f, struct kva_error *err)
{
    for (int i = 0; i < p->n_models; i++) {
        const struct kva_plan_model *m = &p->models[i];
        const struct kva_model *open = kva_plan_any_model(m);
        struct kva_env_row env;

        if (open == NULL)
            continue;
        KVA_TRY(kva_env_row(kva_model_ops(open)->backend, kva_model_ops(open), threads,
                            &env, err));
        KVA_TRY(fit_of(db, m, env.row.perf_digest, false, &f[i].shared, err));
        KVA_TRY(fit_of(db, m, env.row.perf_digest, true, &f[i].alone, err));
    }
    return KVA_OK;
}

/* ns of one unit; NaN: unknown. */
static enum kva_status unit_ns(const struct kva_plan *p, struct kva_db *db,
                               const struct kva_unit *u, const struct fits *f, double *ns,
                               struct kva_error *err)
{
    const struct kva_plan_task *t = &p->tasks[u->task];
    double max_new = kva_task_info(t->task)->max_new_tokens, rate, runs = 0;
    int shared = 0;

    KVA_TRY(kva_db_unit_rate(db, p->models[u->model].digest, t->digest, &rate, err));
    for (int j = 0; j < u->n_jobs; j++) {
        shared += !u->jobs[j].perf;
        runs += u->jobs[j].perf;
        if (u->jobs[j].repeat)
            runs += WARM_RUNS + p->cells[u->jobs[j].cell].perf_reps;
    }
    *ns = 0;
    if (shared > 0) {
        if (rate >= 0)
            *ns = rate * shared;
        else if (f->shared.n > 0)
            *ns =
                kva_time_fit_ns(&f->shared, t->n_ctx, shared * (max_new + QUESTION_ROWS));
        else
            *ns = (double)NAN;
    }
    if (runs > 0 && f->alone.n > 0)
        *ns += runs * kva_time_fit_ns(&f->alone, t->n_ctx, max_new);
    else if (runs > 0 && rate >= 0)
        *ns += runs * rate;
    else if (runs > 0 && f->shared.n > 0)
        *ns += runs * kva_time_fit_ns(&f->shared, t->n_ctx, max_new + QUESTION_ROWS);
    else if (runs > 0)
        *ns = (double)NAN;
    return KVA_OK;
}

static enum kva_status time_of(const struct kva_plan *p, struct kva_db *db, int threads,
                               double *seconds, struct kva_error *err)
{
    struct fits *f = kva_calloc((size_t)p->n_models + 1, sizeof *f);
    double sum = 0;
    enum kva_status rc = KVA_OK;

    if (f == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    KVA_GO(fits_of(p, db, threads, f, err));
    for (int u = 0; u < p->n_units; u++) {
        double ns;

        KVA_GO(unit_ns(p, db, &p->units[u], &f[p->units[u].model], &ns, err));
        sum += ns;
    }
    *seconds = sum / 1e9;
out:
    free(f);
    return rc;
}

/* ---- memory, disk, differences
 * --------------------------------------------------------------- */

static double peak_of(const struct kva_plan *p, const struct kva_cell *c)
{
    const struct kva_plan_model *m = &p->models[c->model];
    const struct kva_model_info *i = kva_model_info(kva_plan_any_model(m));
    const struct kva_plan_task *t = &p->tasks[c->task];
    double token = (double)i->layers * i->kv_heads * (i->head_dim + i->v_dim) *
                   (c->kv == KVA_F32 ? 4 : 2);
    /* activations of one prefill step, and a row of logits */
    double scratch = 4.0 * kva_model_ops(kva_plan_any_model(m))->chunk *
                         (6.0 * i->dim + 3.0 * i->ffn) +
                     4.0 * i->vocab;

    return (double)i->weight_bytes + scratch +
           token * (t->n_ctx + kva_task_info(t->task)->max_new_tokens);
}

/* reports.md 3.5: 0.4 kB an outcome and, for long answers, 6 bytes a token. */
static double size_of(const struct kva_plan *p, const struct kva_cell *c)
{
    return 400 + 6.0 * kva_task_info(p->tasks[c->task].task)->max_new_tokens;
}

static enum kva_status compare_of(const struct kva_plan *p, struct kva_db *db,
                                  const struct kva_cell *c, struct kva_forecast_cell *f,
                                  struct kva_error *err)
{
    int64_t differ = 0;

    f->pairs = 0;
    if (db != NULL)
        KVA_TRY(kva_db_discordant(db, p->models[c->model].digest,
                                  p->tasks[c->task].digest, &f->pairs, &differ, err));
    f->discordant = f->pairs > 0 ? (double)differ / (double)f->pairs : DISCORDANT;
    f->contexts = 0;
    for (int i = 0; i < c->n; i++)
        if (p->tasks[c->task].context[i] >= f->contexts)
            f->contexts = p->tasks[c->task].context[i] + 1;
    f->mde = kva_stat_mde(f->contexts, f->discordant);
    return KVA_OK;
}

void kva_forecast_release(struct kva_forecast *f)
{
    free(f->cell);
    free(f->misfit);
    f->cell = NULL;
    f->misfit = NULL;
}

enum kva_status kva_forecast(const struct kva_plan *p, struct kva_db *db, int threads,
                             struct kva_forecast *f, struct kva_error *err)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    double each = -1;

    f->seconds = (double)NAN;
    f->machine_bytes = pages > 0 && page > 0 ? (double)pages * (double)page : 0;
    f->disk_bytes = 0;
    f->cell = kva_calloc((size_t)p->n_cells + 1, sizeof f->cell[0]);
    if (f->cell == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    KVA_TRY(kva_misfits(p, &f->misfit, &f->n_misfit, err));
    for (int i = 0; i < p->n_cells; i++) {
        f->cell[i].peak_bytes = peak_of(p, &p->cells[i]);
        KVA_TRY(compare_of(p, db, &p->cells[i], &f->cell[i], err));
    }
    if (db != NULL) {
        KVA_TRY(time_of(p, db, threads, &f->seconds, err));
        KVA_TRY(kva_db_bytes_per_outcome(db, &each, err));
    }
    for (int u = 0; u < p->n_units; u++)
        for (int j = 0; j < p->units[u].n_jobs; j++)
            if (!p->units[u].jobs[j].perf)
                f->disk_bytes +=
                    each > 0 ? each : size_of(p, &p->cells[p->units[u].jobs[j].cell]);
    return KVA_OK;
}
