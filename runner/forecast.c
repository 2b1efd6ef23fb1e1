/* SPDX-License-Identifier: GPL-3.0-or-later */
/* forecast.c - time, memory, disk and what can be shown at all, before anything runs.
 *
 * Time of shared work: the mean of earlier units of the same task where there are some,
 * else the fit over all units of the model on this machine (perf_digest), with n_gen the
 * rows of questions and answers, else, when asked for, the fit over two probe prompts. A
 * cell that evicts while it reads its prompt reads it by itself. Time of cells that run
 * alone: the fit over the rows of such cells. Memory is an upper bound: local layers
 * count as full ones. */
#include "runner/forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics/metric.h"
#include "runner/env_row.h"
#include "runner/exec_internal.h"

/* Share of discordant pairs assumed without history (reports.md 4.7). */
#define DISCORDANT 0.10
/* Rows of a question, where a task was never run. */
#define QUESTION_ROWS 32
/* Warm-up runs of a sitting, at the least. */
#define WARM_RUNS 3
/* Tokens of the longer probe prompt (the other has a quarter) and answered behind each.
 */
#define PROBE_TOKENS 1024
#define PROBE_STEPS  8

/* ---- the fit ---- */

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

/* ---- probes ---- */

/* rows[2]: a prompt of n tokens without and with an answer behind it. Which tokens they
 * are changes no time. */
static enum kva_status probe_prompt(struct kva_model *m, int n, enum kva_type kv,
                                    struct kva_db_time *rows, struct kva_error *err)
{
    const struct kva_model_info *info = kva_model_info(m);
    struct kva_session_opts o = {.kv = kv,
                                 .mode = KVA_KV_PHYSICAL,
                                 .page_cap = kva_page_cap(info, NULL, n, PROBE_STEPS)};
    int32_t *ids = kva_calloc((size_t)n, sizeof ids[0]);
    int chunk = kva_model_ops(m)->chunk;
    struct kva_session *s = NULL;
    struct kva_row row = {0};
    uint64_t start;
    enum kva_status rc;

    if (ids == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a prompt of %d tokens", n);
    for (int i = 0; i < n; i++)
        ids[i] = i % info->vocab;
    KVA_GO(kva_session_new(m, &o, &s, err));
    start = kva_now_ns();
    for (int at = 0; at < n; at += chunk) {
        if (kva_interrupted) {
            rc = KVA_FAIL(err, KVA_EINTERRUPTED, "stopped while probing");
            goto out;
        }
        KVA_GO(
            kva_prefill(m, s, ids + at, n - at < chunk ? n - at : chunk, 0, &row, err));
    }
    rows[0] = (struct kva_db_time){n, 0, (double)(kva_now_ns() - start)};
    for (int i = 0; i < PROBE_STEPS; i++) {
        row = (struct kva_row){
            .session = s, .token = row.argmax, .logits = true, .target = -1};
        KVA_GO(kva_step(m, &row, 1, NULL, err));
    }
    rows[1] = (struct kva_db_time){n, PROBE_STEPS, (double)(kva_now_ns() - start)};
out:
    kva_session_free(s);
    free(ids);
    return rc;
}

static enum kva_status probe_model(struct kva_model *m, enum kva_type kv,
                                   struct kva_time_fit *fit, struct kva_error *err)
{
    int room = kva_model_info(m)->ctx_train - PROBE_STEPS;
    int n = room < PROBE_TOKENS ? room : PROBE_TOKENS;
    struct kva_db_time rows[4];

    if (n < 4) /* a model that reads next to nothing */
        return KVA_OK;
    /* the first prompt finds weights that nobody has touched yet: it counts for nothing
     */
    KVA_TRY(probe_prompt(m, n / 4, kv, rows, err));
    KVA_TRY(probe_prompt(m, n / 4, kv, rows, err));
    KVA_TRY(probe_prompt(m, n, kv, rows + 2, err));
    kva_time_fit(rows, 4, fit);
    return KVA_OK;
}

/* ---- time ---- */

/* Of a model in one of its numerics. */
struct fits {
    bool known;
    struct kva_time_fit shared, alone;
};
struct clock {
    const struct kva_plan *plan;
    struct kva_db *db; /* NULL: nothing was ever run */
    int threads;
    bool probe;
    bool *probed;      /* [models] */
    struct fits *fits; /* [models][KVA_NUMERICS] */
};

static enum kva_status fit_of(struct kva_db *db, const uint8_t model[32],
                              const uint8_t perf[32], bool alone,
                              struct kva_time_fit *fit, struct kva_error *err)
{
    struct kva_db_time *rows;
    size_t n;

    KVA_TRY(kva_db_times(db, model, perf, alone, &rows, &n, err));
    kva_time_fit(rows, n, fit);
    free(rows);
    return KVA_OK;
}

/* What earlier runs on this machine tell. */
static enum kva_status look_back(const struct clock *k, const struct kva_unit *u,
                                 struct fits *f, struct kva_error *err)
{
    const struct kva_plan_model *m = &k->plan->models[u->model];
    struct kva_ops *ops = kva_model_ops(m->open[u->numerics]);
    struct kva_env_row env;

    if (f->known || k->db == NULL)
        return KVA_OK;
    KVA_TRY(kva_env_row(ops->backend, ops, k->threads, &env, err));
    KVA_TRY(fit_of(k->db, m->digest, env.row.perf_digest, false, &f->shared, err));
    KVA_TRY(fit_of(k->db, m->digest, env.row.perf_digest, true, &f->alone, err));
    f->known = true;
    return KVA_OK;
}

/* ns of one unit; NaN: unknown. */
static enum kva_status unit_ns(const struct clock *k, const struct kva_unit *u,
                               double *ns, struct kva_error *err)
{
    const struct kva_plan *p = k->plan;
    const struct kva_plan_task *t = &p->tasks[u->task];
    struct fits *f = &k->fits[u->model * KVA_NUMERICS + u->numerics];
    double max_new = kva_task_info(t->task)->max_new_tokens, rate = -1, runs = 0;
    int shared = 0, own = 0;

    KVA_TRY(look_back(k, u, f, err));
    if (k->db != NULL)
        KVA_TRY(
            kva_db_unit_rate(k->db, p->models[u->model].digest, t->digest, &rate, err));
    for (int j = 0; j < u->n_jobs; j++) {
        const struct kva_cell *c = &p->cells[u->jobs[j].cell];

        shared += !u->jobs[j].perf;
        own += !u->jobs[j].perf && kva_prefills_own(c);
        runs += u->jobs[j].perf;
        if (u->jobs[j].repeat)
            runs += WARM_RUNS + c->perf_reps;
    }
    if (k->probe && rate < 0 && f->shared.n == 0 && (shared > 0 || f->alone.n == 0)) {
        KVA_TRY(
            probe_model(p->models[u->model].open[u->numerics], u->kv, &f->shared, err));
        k->probed[u->model] |= f->shared.n > 0;
    }
    *ns = 0;
    if (shared > 0 && rate >= 0)
        *ns = rate * shared;
    else if (shared > 0 && f->shared.n > 0)
        *ns = (own + (own < shared)) * kva_time_fit_ns(&f->shared, t->n_ctx, 0) +
              shared * kva_time_fit_ns(&f->shared, 0, max_new + QUESTION_ROWS);
    else if (shared > 0)
        *ns = (double)NAN;
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

static enum kva_status time_of(struct clock *k, double *seconds, struct kva_error *err)
{
    const struct kva_plan *p = k->plan;
    double sum = 0;
    enum kva_status rc = KVA_OK;

    k->fits = kva_calloc((size_t)p->n_models * KVA_NUMERICS + 1, sizeof k->fits[0]);
    if (k->fits == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    for (int u = 0; u < p->n_units; u++) {
        double ns;

        KVA_GO(unit_ns(k, &p->units[u], &ns, err));
        sum += ns;
    }
    *seconds = sum / 1e9;
out:
    free(k->fits);
    return rc;
}

/* ---- memory, disk, differences ---- */

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
    free(f->probed);
    f->cell = NULL;
    f->misfit = NULL;
    f->probed = NULL;
}

enum kva_status kva_forecast(const struct kva_plan *p, struct kva_db *db, int threads,
                             bool probe, struct kva_forecast *f, struct kva_error *err)
{
    struct clock clock = {.plan = p, .db = db, .threads = threads, .probe = probe};
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    double each = -1;

    f->seconds = (double)NAN;
    f->machine_bytes = pages > 0 && page > 0 ? (double)pages * (double)page : 0;
    f->disk_bytes = 0;
    f->cell = kva_calloc((size_t)p->n_cells + 1, sizeof f->cell[0]);
    f->probed = clock.probed = kva_calloc((size_t)p->n_models + 1, sizeof f->probed[0]);
    if (f->cell == NULL || f->probed == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    KVA_TRY(kva_misfits(p, &f->misfit, &f->n_misfit, err));
    for (int i = 0; i < p->n_cells; i++) {
        f->cell[i].peak_bytes = peak_of(p, &p->cells[i]);
        KVA_TRY(compare_of(p, db, &p->cells[i], &f->cell[i], err));
    }
    if (db != NULL || probe)
        KVA_TRY(time_of(&clock, &f->seconds, err));
    if (db != NULL)
        KVA_TRY(kva_db_bytes_per_outcome(db, &each, err));
    for (int u = 0; u < p->n_units; u++)
        for (int j = 0; j < p->units[u].n_jobs; j++)
            if (!p->units[u].jobs[j].perf)
                f->disk_bytes +=
                    each > 0 ? each : size_of(p, &p->cells[p->units[u].jobs[j].cell]);
    return KVA_OK;
}
