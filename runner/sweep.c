/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sweep.c - measures what a database lacks of a plan, and tells.
 *
 * First all shared work on the workers, then the perf jobs on one worker, so that nothing
 * else runs on the machine while time is taken. The parent is the only writer; results of
 * one step are one commit. */
#include "runner/sweep.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runner/commands.h"
#include "runner/env_row.h"
#include "runner/misfit.h"
#include "runner/pool.h"
#include "runner/progress.h"
#include "runner/watch.h"

struct writer {
    const struct kva_sweep_opts *o;
    struct kva_db *db;
    struct kva_plan *plan;
    int64_t run_id;
    int64_t **sample_id; /* [unit][question] */
    struct kva_progress *progress;
    int64_t ok, failed, truncated, perf, stored, rows;
    struct kva_watch *watch;
    bool *stopped; /* [models] units were left out because the model is at its floor */
    int broken;    /* outcomes under physical whose audit failed */
    bool alone;    /* in the second phase: perf jobs */
    int conflicts; /* cells that said other tokens alone */
    char first_error[600];
};

/* ---- events of the pool ---- */

static enum kva_status on_sample(void *ctx, const struct kva_sample_row *s,
                                 struct kva_error *err)
{
    struct writer *w = ctx;
    const struct kva_unit *u = &w->plan->units[s->unit];
    struct kva_db_sample row = {.task_id = w->plan->tasks[u->task].task_id,
                                .idx = s->idx,
                                .cluster = s->cluster,
                                .refs_json = s->refs_json,
                                .meta_json = s->meta_json};

    memcpy(row.digest, s->digest, sizeof row.digest);
    if (w->sample_id[s->unit] == NULL) {
        w->sample_id[s->unit] = kva_calloc((size_t)u->n_idx, sizeof(int64_t));
        if (w->sample_id[s->unit] == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "%d samples", u->n_idx);
    }
    return kva_db_put_sample(w->db, &row, &w->sample_id[s->unit][s->question], err);
}

struct out_parts {
    struct kva_db_score scores[KVA_RESULT_SCORES];
    struct kva_db_span_kept *spans;
    const uint8_t **bits;
};

static enum kva_status to_outcome(const struct writer *w, const struct kva_result *r,
                                  bool perf, struct kva_db_outcome *o,
                                  struct out_parts *parts, struct kva_error *err)
{
    memset(o, 0, sizeof *o);
    o->cell_id = w->plan->cells[r->cell].cell_id;
    o->sample_id = w->sample_id[r->unit][r->question];
    o->alone_only = perf;
    o->run_id = w->run_id;
    o->rep = r->rep;
    o->status = r->status;
    o->score = r->n_scores > 0 ? r->scores[0].value : 0;
    o->n_ctx = r->n_ctx;
    o->n_question = r->n_question;
    o->n_gen = r->n_gen;
    o->n_cut = r->n_cut;
    o->kept_fnv = r->kept_fnv;
    o->flags = r->flags;
    o->stop = r->stop[0] != '\0' ? r->stop : NULL;
    o->error = r->error;
    o->text = r->text;
    o->ids = r->ids;
    for (int i = 0; i < r->n_scores; i++)
        parts->scores[i] =
            (struct kva_db_score){r->scores[i].metric, r->scores[i].version,
                                  r->scores[i].value, r->scores[i].extracted};
    o->scores = parts->scores;
    o->n_scores = r->n_scores;
    o->memory = r->has_memory ? &r->memory : NULL;
    o->n_memory = r->has_memory;
    o->timing = r->has_timing ? &r->timing : NULL;
    o->n_timing = r->has_timing;
    if (perf || r->n_spans == 0)
        return KVA_OK;
    parts->spans = kva_calloc((size_t)r->n_spans, sizeof *parts->spans);
    parts->bits = kva_calloc((size_t)r->layers, sizeof(const uint8_t *));
    if (parts->spans == NULL || parts->bits == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "rows of an outcome");
    for (int i = 0; i < r->n_spans; i++)
        if (r->spans[i].n_tok > 0) /* a template may trim all of it */
            parts->spans[o->n_spans++] =
                (struct kva_db_span_kept){r->spans[i].id, r->spans[i].n_tok, r->layers,
                                          r->kv_heads, r->spans[i].kept};
    o->spans = parts->spans;
    if (r->bits != NULL) {
        size_t layer = (size_t)r->kv_heads * (((size_t)r->bits_tok + 7) / 8);

        for (int l = 0; l < r->layers; l++)
            parts->bits[l] = r->bits + (size_t)l * layer;
        o->kept_bits = parts->bits;
        o->kept_layers = r->layers;
        o->kept_heads = r->kv_heads;
        o->kept_tok = r->bits_tok;
    }
    return KVA_OK;
}

static void count(struct writer *w, const struct kva_result *r, bool perf)
{
    const struct kva_cell *cell = &w->plan->cells[r->cell];
    char text[512];

    if (strcmp(r->status, "ok") == 0) {
        w->ok += !perf;
        w->perf += perf;
    } else if (strcmp(r->status, "truncated") == 0) {
        w->truncated++;
    } else {
        w->failed++;
    }
    if (strcmp(r->status, "ok") != 0 && r->error != NULL) {
        if (w->first_error[0] == '\0')
            snprintf(w->first_error, sizeof w->first_error, "%s #%d: %s", cell->slug,
                     r->idx, r->error);
        kva_progress_log(w->progress, "%s #%d %s: %s", cell->slug, r->idx, r->status,
                         r->error);
    }
    if (r->has_memory && cell->enforce == KVA_PHYSICAL && r->memory.audit > 0) {
        w->broken++;
        kva_db_audit_text(r->memory.audit, text, sizeof text);
        kva_progress_log(w->progress, "%s #%d: byte audit: %s", cell->slug, r->idx, text);
    }
}

static bool has_sample(const struct writer *w, const struct kva_result *r)
{
    return w->sample_id[r->unit] != NULL && w->sample_id[r->unit][r->question] != 0;
}

/* A cell that says other tokens alone than in its wave is a conflict of that cell: it is
 * told, the others are measured all the same, and the run ends with exit code 4. */
static enum kva_status store(struct writer *w, const struct kva_db_outcome *o, int n,
                             bool perf, int *stored, struct kva_error *err)
{
    struct kva_error why = {0};
    enum kva_status rc = kva_db_put_outcomes(w->db, o, n, stored, &why);

    if (rc == KVA_ECONFLICT && perf) {
        w->conflicts++;
        kva_progress_log(w->progress, "%s", why.text);
        return kva_db_event(w->db, w->run_id, "error", why.text, err);
    }
    if (rc != KVA_OK && err->code == KVA_OK)
        *err = why;
    return rc;
}

static enum kva_status on_results(void *ctx, const struct kva_result *r, int n,
                                  struct kva_error *err)
{
    struct writer *w = ctx;
    struct kva_db_outcome *o = kva_calloc((size_t)n, sizeof *o);
    struct out_parts *parts = kva_calloc((size_t)n, sizeof *parts);
    int stored = 0, k = 0;
    enum kva_status rc = KVA_OK;

    if (o == NULL || parts == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%d outcomes", n);
        goto out;
    }
    /* a unit that failed before it named its samples has nothing to store under: it is
     * counted, and to do again in the next run */
    for (int i = 0; i < n; i++)
        if (has_sample(w, &r[i])) {
            KVA_GO(to_outcome(w, &r[i], r[i].perf, &o[k], &parts[i], err));
            k++;
        }
    if (k > 0)
        KVA_GO(store(w, o, k, n == 1 && r[0].perf, &stored, err));
    w->stored += stored;
    for (int i = 0; i < n; i++)
        KVA_GO(kva_watch_add(w->watch, &r[i], err));
    for (int i = 0; i < n; i++) {
        count(w, &r[i], r[i].perf);
        kva_progress_outcome(w->progress, r[i].status, w->plan->cells[r[i].cell].slug,
                             r[i].idx);
    }
out:
    for (int i = 0; parts != NULL && i < n; i++) {
        free(parts[i].spans);
        free(parts[i].bits);
    }
    free(parts);
    free(o);
    return rc;
}

static struct kva_db_value unless_unknown(int v)
{
    return v < 0 ? (struct kva_db_value){.type = KVA_DB_NULL} : kva_db_int(v);
}

/* A sitting is stored whole or not at all. */
static enum kva_status on_perf(void *ctx, const struct kva_perf_row *rows, int n,
                               struct kva_error *err)
{
    struct writer *w = ctx;
    enum kva_status rc;

    KVA_TRY(kva_db_begin(w->db, err));
    for (int i = 0; i < n; i++) {
        const struct kva_perf_row *r = &rows[i];
        const struct kva_db_value v[] = {kva_db_int(w->plan->cells[r->cell].cell_id),
                                         kva_db_int(w->run_id),
                                         kva_db_text(r->phase),
                                         kva_db_int(r->rep),
                                         kva_db_int(r->ord),
                                         kva_db_int(r->ns),
                                         kva_db_int(r->work),
                                         unless_unknown(r->temp_c),
                                         unless_unknown(r->clock_mhz)};

        KVA_GO(kva_db_put_row(w->db, "perf_rep",
                              "cell_id,run_id,phase,rep,ord,ns,work,temp_c,clock_mhz", v,
                              9, NULL, err));
    }
    return kva_db_commit(w->db, err);
out:
    kva_db_rollback(w->db);
    return rc;
}

static enum kva_status on_unit(void *ctx, int unit, int64_t ns, int64_t rows,
                               int n_results, struct kva_error *err)
{
    struct writer *w = ctx;
    const struct kva_unit *u = &w->plan->units[unit];

    w->rows += rows;
    kva_progress_unit(w->progress, u, w->alone, ns);
    if (w->alone) /* cells run one by one teach the estimate nothing about waves */
        return KVA_OK;
    return kva_db_put_unit_time(w->db, w->run_id, w->plan->models[u->model].model_id,
                                w->plan->tasks[u->task].task_id, u->idx[0], n_results,
                                kva_task_info(w->plan->tasks[u->task].task)->ctx,
                                (int)rows, ns, err);
}

static bool on_skip(void *ctx, int unit)
{
    struct writer *w = ctx;
    int model = w->plan->units[unit].model;

    /* a shard sees only its part of a model's scores: all of them or none go on */
    if (w->o->keep_going || w->o->limit > 0 || w->plan->suite->shard.n > 0 ||
        !kva_watch_shut(w->watch, model))
        return false;
    w->stopped[model] = true;
    return true;
}

static void on_tick(void *ctx)
{
    kva_progress_tick(((struct writer *)ctx)->progress);
}

/* ---- the run row ---- */

static enum kva_status make_uuid(char out[37], struct kva_error *err)
{
    uint8_t b[16];
    char hex[33];

    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return KVA_FAIL(err, KVA_EIO, "no random bytes for the run's id");
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    kva_hex(b, 16, hex);
    snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
             hex + 20);
    return KVA_OK;
}

/* Where relative paths of the suite start: `report --sample` makes prompts again from
 * there. */
static const char *suite_dir(const char *path, char out[PATH_MAX])
{
    char *slash;

    if (path == NULL || realpath(path, out) == NULL)
        return ".";
    slash = strrchr(out, '/');
    if (slash != NULL)
        slash[slash == out] = '\0';
    return out;
}

enum kva_status kva_sweep_backend(const char *name, struct kva_suite *s,
                                  struct kva_sweep_opts *o, struct kva_error *err)
{
    if (name != NULL && strcmp(name, "cpu") != 0 && strcmp(name, "cuda") != 0)
        return KVA_FAIL(err, KVA_EINVALID, "--backend %s: cpu or cuda", name);
    s->backend = name;
    if (name != NULL && strcmp(name, "cuda") == 0)
        o->jobs = o->threads = 1;
    return KVA_OK;
}

/* The backend's table, of any model that is open; NULL: none is. */
static const struct kva_ops *opened(const struct kva_plan *plan)
{
    const struct kva_ops *ops = NULL;

    for (int i = 0; i < plan->n_models; i++)
        for (int k = 0; k < KVA_NUMERICS; k++)
            if (plan->models[i].open[k] != NULL)
                ops = kva_model_ops(plan->models[i].open[k]);
    return ops;
}

enum kva_status kva_sweep_start(struct kva_db *db, const struct kva_plan *plan,
                                const struct kva_sweep_opts *o, int64_t *run_id,
                                struct kva_error *err)
{
    const struct kva_suite *s = plan->suite;
    struct kva_env_row env;
    struct kva_db_run run = {.label = o->label != NULL ? o->label : s->note,
                             .started_ms = kva_wall_ms(),
                             .shard_i = s->shard.i,
                             .shard_n = s->shard.n > 0 ? s->shard.n : 1};
    char uuid[37];
    const struct kva_ops *ops = opened(plan);
    json_t *argv = json_array();
    char *argv_text = NULL, dir[PATH_MAX];
    struct kva_buf argv_shown, config_shown, label_shown; /* without tokens */
    enum kva_status rc = KVA_OK;

    kva_buf_init(&argv_shown, 0);
    kva_buf_init(&config_shown, 0);
    kva_buf_init(&label_shown, 0);

    KVA_GO(kva_env_row(s->backend, ops, o->threads, &env, err));
    KVA_GO(make_uuid(uuid, err));
    KVA_GO(kva_db_put_env(db, &env.row, &run.env_id, err));
    json_array_append_new(argv, json_string(o->command));
    json_array_append_new(argv, json_string(s->name));
    for (int i = 0; i < o->n_set; i++)
        json_array_append_new(argv, json_sprintf("--set=%s", o->set[i]));
    if (o->limit > 0)
        json_array_append_new(argv, json_sprintf("--limit=%d", o->limit));
    if (s->shard.n > 0)
        json_array_append_new(argv,
                              json_sprintf("--shard=%d/%d", s->shard.i, s->shard.n));
    if (s->shard.n > 0 && s->shard.balance != KVA_BALANCE_COST)
        json_array_append_new(
            argv, json_sprintf("--balance=%s", kva_balance_name(s->shard.balance)));
    json_array_append_new(argv, json_sprintf("--suite-dir=%s", suite_dir(s->path, dir)));
    argv_text = json_dumps(argv, JSON_COMPACT);
    run.uuid = uuid;
    kva_secret_hide(argv_text != NULL ? argv_text : "[]", &argv_shown);
    kva_secret_hide(s->text, &config_shown);
    if (run.label != NULL && run.label[0] != '\0') {
        kva_secret_hide(run.label, &label_shown);
        run.label = label_shown.data;
    }
    KVA_GO(kva_buf_status(&label_shown, err));
    KVA_GO(kva_buf_status(&argv_shown, err));
    KVA_GO(kva_buf_status(&config_shown, err));
    run.argv_json = argv_shown.data;
    run.config_json = config_shown.data;
    kva_sha256_of(run.config_json, config_shown.len, run.config_sha256);
    KVA_GO(kva_db_start_run(db, &run, run_id, err));
out:
    json_decref(argv);
    free(argv_text);
    kva_buf_release(&argv_shown);
    kva_buf_release(&config_shown);
    kva_buf_release(&label_shown);
    return rc;
}

/* Two runs of one suite at once lose nothing, but time. */
static enum kva_status tell_others(struct kva_db *db, int64_t run_id,
                                   struct kva_error *err)
{
    int64_t pid;
    int n;

    KVA_TRY(kva_db_running(db, run_id, &n, &pid, err));
    if (n > 0 && !kva_common.quiet)
        fprintf(stderr,
                "kvaudit: note: another run writes to this file (process %lld); what "
                "both of them lack is measured by both\n",
                (long long)pid);
    return KVA_OK;
}

/* ---- phases ---- */

static bool any_job(const struct kva_plan *p, bool perf)
{
    for (int u = 0; u < p->n_units; u++)
        for (int j = 0; j < p->units[u].n_jobs; j++)
            if (p->units[u].jobs[j].perf == perf)
                return true;
    return false;
}

static enum kva_status measure(struct writer *w, struct kva_error *err)
{
    const struct kva_sweep_opts *o = w->o;
    struct kva_exec_opts exec = {.wave = o->wave,
                                 .jobs = o->jobs,
                                 .chunk = o->chunk,
                                 .trace_kept = o->trace_kept,
                                 .prompts = o->prompts};
    struct kva_pool_events ev = {.ctx = w,
                                 .sample = on_sample,
                                 .results = on_results,
                                 .perf = on_perf,
                                 .unit_done = on_unit,
                                 .skip = on_skip,
                                 .tick = on_tick};

    if (any_job(w->plan, false))
        KVA_TRY(kva_pool_run(w->plan, o->jobs, false, &exec, &ev, err));
    w->alone = true;
    if (any_job(w->plan, true))
        KVA_TRY(kva_pool_run(w->plan, 1, true, &exec, &ev, err));
    return KVA_OK;
}

static void tell(const struct kva_plan_verdict *v, int conflicts)
{
    if (v->failed + v->truncated > 0)
        fprintf(stderr, "kvaudit: %lld outcomes of this suite failed, %lld do not fit\n",
                (long long)v->failed, (long long)v->truncated);
    if (v->audit_failed > 0)
        fprintf(stderr,
                "kvaudit: %lld outcomes under `physical` failed their byte audit\n",
                (long long)v->audit_failed);
    if (conflicts > 0)
        fprintf(stderr, "kvaudit: %d cells said other tokens alone than in their wave\n",
                conflicts);
}

/* What looks wrong with the sweep as a whole. Costs no exit code but that of what was
 * left out. */
static void tell_watch(struct kva_plan *plan, struct kva_db *db, const bool *stopped)
{
    struct kva_error why = {0};
    struct kva_buf text;
    enum kva_status rc = KVA_OK;

    kva_buf_init(&text, 0);
    for (int m = 0; stopped != NULL && m < plan->n_models && rc == KVA_OK; m++)
        if (stopped[m])
            rc = kva_watch_tell_shut(plan, db, m, &text, &why);
    if (text.len > 0)
        fprintf(stderr, "kvaudit: %s", text.data);
    text.len = 0;
    if (rc == KVA_OK && !kva_common.quiet)
        rc = kva_watch_summary(plan, db, &text, &why);
    for (char *line = text.len > 0 ? text.data : NULL, *end;
         line != NULL && *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        fprintf(stderr, "kvaudit: note: %.*s\n", (int)(end - line), line);
    }
    if (rc != KVA_OK)
        fprintf(stderr, "kvaudit: %s\n", why.text);
    kva_buf_release(&text);
}

/* What the database says of the suite after the run, not only what this call saw. */
static int exit_of(const struct kva_plan_verdict *v, int conflicts)
{
    return conflicts > 0                              ? 4
           : v->audit_failed > 0                      ? 1
           : v->failed + v->truncated + v->absent > 0 ? 5
                                                      : 0;
}

/* The command that goes on, ready for a shell. */
static void tell_resume(const struct writer *w, const char *what, const char *does)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    kva_buf_printf(&b, "kvaudit %s ", w->o->command);
    kva_shell_quote(w->o->path, &b);
    kva_buf_puts(&b, w->o->words != NULL ? w->o->words : "");
    kva_buf_puts(&b, " --db ");
    kva_shell_quote(kva_db_path(w->db), &b);
    if (kva_buf_status(&b, NULL) == KVA_OK)
        fprintf(stderr, "kvaudit: %s; `%s` %s\n", what, b.data, does);
    kva_buf_release(&b);
}

/* What the backends chose by themselves, "what: how" a line, beside the environment. */
static enum kva_status note_choices(const struct writer *w, struct kva_error *err)
{
    json_t *chosen = json_object(), *note = json_pack("{s:O}", "products", chosen);
    enum kva_status rc = KVA_OK;
    char *text = NULL;

    for (int i = 0; i < w->plan->n_models * KVA_NUMERICS; i++) {
        const struct kva_model *m =
            w->plan->models[i / KVA_NUMERICS].open[i % KVA_NUMERICS];
        const struct kva_ops *ops = m != NULL ? kva_model_ops(m) : NULL;
        const char *at = ops != NULL && ops->choices != NULL ? ops->choices(ops) : "";

        while (*at != '\0') {
            size_t line = strcspn(at, "\n"), what = strcspn(at, ":\n");
            size_t how = what + strspn(at + what, ": ");

            json_object_setn_new(chosen, at, what,
                                 json_stringn(at + how, line > how ? line - how : 0));
            at += line + (at[line] == '\n');
        }
    }
    if (json_object_size(chosen) > 0) {
        text = json_dumps(note, JSON_COMPACT);
        rc = text != NULL ? kva_db_note_env(w->db, w->run_id, text, err)
                          : KVA_FAIL(err, KVA_ENOMEM, "the environment row");
    }
    free(text);
    json_decref(note);
    json_decref(chosen);
    return rc;
}

static int finish(struct writer *w, enum kva_status rc, const struct kva_error *why,
                  double secs)
{
    const char *status = rc == KVA_OK             ? "done"
                         : rc == KVA_EINTERRUPTED ? "interrupted"
                                                  : "failed";
    struct kva_plan_verdict v = {0};
    struct kva_error later = {0};
    int code = rc == KVA_EINTERRUPTED ? 128 + (kva_interrupted != 0 ? kva_interrupted : 2)
                                      : kva_status_exit(rc);

    if (rc == KVA_OK && kva_plan_verdict(w->plan, w->db, &v, &later) == KVA_OK)
        code = exit_of(&v, w->conflicts);
    kva_progress_end(w->progress);
    if (later.code != KVA_OK || note_choices(w, &later) != KVA_OK ||
        kva_db_end_run(w->db, w->run_id, status, code, &later) != KVA_OK ||
        kva_db_checkpoint(w->db, &later) != KVA_OK) {
        fprintf(stderr, "kvaudit: %s\n", later.text);
        code = kva_status_exit(later.code);
    }
    if (w->o->json) {
        json_t *sum = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:i, s:f, s:I, s:i}",
                                "schema", "kvaudit.run/1", "status", status, "ok",
                                (json_int_t)w->ok, "failed", (json_int_t)w->failed,
                                "truncated", (json_int_t)w->truncated, "perf",
                                (json_int_t)w->perf, "audit_failed", w->broken, "seconds",
                                secs, "rows", (json_int_t)w->rows, "exit", code);
        char *text = json_dumps(sum, 0);

        printf("%s\n", text != NULL ? text : "{}");
        free(text);
        json_decref(sum);
    } else if (!kva_common.quiet) {
        fprintf(stderr,
                "%lld ok, %lld failed, %lld truncated, %lld timed alone in %.1f s\n",
                (long long)w->ok, (long long)w->failed, (long long)w->truncated,
                (long long)w->perf, secs);
    }
    if (w->first_error[0] != '\0')
        fprintf(stderr, "kvaudit: first failure: %s\n", w->first_error);
    tell(&v, w->conflicts);
    if (rc == KVA_OK)
        tell_watch(w->plan, w->db, w->stopped);
    if (rc == KVA_EINTERRUPTED)
        tell_resume(w, "interrupted", "resumes");
    else if (rc != KVA_OK)
        (void)kva_command_fail(why);
    else if (v.retriable > 0)
        tell_resume(w, "some are left", "tries them again");
    return code;
}

static void tell_device(const struct writer *w)
{
    const struct kva_ops *ops = opened(w->plan);
    char text[256];

    if (kva_common.quiet || ops == NULL || ops->device == NULL)
        return;
    kva_device_text(ops->device, text, sizeof text);
    kva_progress_log(w->progress, "device: %s", text);
}

/* Tasks with samples that will fail: said once, before hours are spent. */
static enum kva_status tell_misfits(const struct kva_plan *plan, struct kva_error *err)
{
    struct kva_misfit *m = NULL;
    struct kva_buf text;
    int n = 0;
    enum kva_status rc;

    kva_buf_init(&text, 0);
    rc = kva_misfits(plan, &m, &n, err);
    for (int i = 0; rc == KVA_OK && i < n; i++) {
        if (m[i].n_todo == 0)
            continue;
        kva_buf_puts(&text, "kvaudit: does not fit: ");
        kva_misfit_text(plan, &m[i], &text);
    }
    if (text.len > 0)
        fputs(text.data, stderr);
    kva_buf_release(&text);
    free(m);
    return rc;
}

int kva_sweep(struct kva_plan *plan, struct kva_db *db, const struct kva_sweep_opts *o)
{
    struct writer w = {.o = o, .db = db, .plan = plan};
    struct kva_error err = {0};
    uint64_t t0 = kva_now_ns();
    enum kva_status rc;
    int code;

    if (!kva_common.quiet)
        fprintf(stderr,
                "%s: %lld outcomes planned, %lld done, %lld to do, %lld to time alone\n",
                plan->suite->name, (long long)plan->n_planned, (long long)plan->n_done,
                (long long)plan->n_todo, (long long)plan->n_perf_todo);
    /* an empty shard leaves its row all the same */
    if (plan->n_todo + plan->n_perf_todo == 0 && plan->n_planned > 0) {
        struct kva_plan_verdict v = {0};

        if (kva_plan_verdict(plan, db, &v, &err) != KVA_OK)
            return kva_command_fail(&err);
        tell(&v, 0);
        tell_watch(plan, db, NULL);
        code = exit_of(&v, 0);
        if (o->json)
            printf("{\"schema\": \"kvaudit.run/1\", \"status\": \"done\", \"ok\": 0, "
                   "\"exit\": %d}\n",
                   code);
        return code;
    }
    w.sample_id = kva_calloc((size_t)plan->n_units + 1, sizeof *w.sample_id);
    rc = w.sample_id == NULL ? KVA_FAIL(&err, KVA_ENOMEM, "%d units", plan->n_units)
                             : KVA_OK;
    if (rc == KVA_OK)
        rc = kva_progress_new(
            o->progress == NULL && kva_common.quiet ? "none" : o->progress,
            plan->n_todo + plan->n_perf_todo, plan, o->jobs, &w.progress, &err);
    if (rc == KVA_OK)
        rc = kva_sweep_start(db, plan, o, &w.run_id, &err);
    if (rc != KVA_OK) {
        code = kva_command_fail(&err);
        goto out;
    }
    tell_device(&w);
    rc = tell_others(db, w.run_id, &err);
    if (rc == KVA_OK)
        rc = kva_plan_write(plan, db, w.run_id, &err);
    if (rc == KVA_OK && !kva_common.quiet)
        rc = tell_misfits(plan, &err);
    if (rc == KVA_OK)
        rc = kva_watch_new(plan, db, &w.watch, &err);
    w.stopped = kva_calloc((size_t)plan->n_models + 1, sizeof *w.stopped);
    if (rc == KVA_OK && w.stopped == NULL)
        rc = KVA_FAIL(&err, KVA_ENOMEM, "%d models", plan->n_models);
    if (rc == KVA_OK)
        rc = measure(&w, &err);
    code = finish(&w, rc, &err, (double)(kva_now_ns() - t0) / 1e9);
out:
    for (int u = 0; w.sample_id != NULL && u < plan->n_units; u++)
        free(w.sample_id[u]);
    free(w.sample_id);
    free(w.stopped);
    kva_watch_free(w.watch);
    kva_progress_free(w.progress);
    return code;
}
