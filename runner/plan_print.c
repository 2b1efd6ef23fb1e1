/* SPDX-License-Identifier: GPL-3.0-or-later */
/* plan_print.c - writes a plan's rows to the database, and prints the dry run
 * (reports.md 8.3). */
#include "runner/forecast.h"
#include "runner/progress.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static enum kva_status write_model(struct kva_plan_model *m, struct kva_db *db,
                                   struct kva_error *err)
{
    const struct kva_model *model = kva_plan_any_model(m);
    const struct kva_model_info *info;
    struct kva_db_model row;
    json_t *detail;
    char *text;
    enum kva_status rc;

    if (!model)
        return KVA_OK;
    info = kva_model_info(model);
    memset(&row, 0, sizeof row);
    memcpy(row.digest, m->digest, 32);
    kva_tokenizer_sha256(kva_model_tokenizer(model), row.tokenizer_sha256);
    memcpy(row.template_sha256, info->template_sha256, 32);
    row.name = m->suite->id;
    row.arch = info->arch;
    row.wtype = info->wtype;
    row.file_bytes = (int64_t)info->file_bytes;
    row.n_layer = info->layers;
    row.n_head = info->heads;
    row.n_kv_head = info->kv_heads;
    row.d_k = info->head_dim;
    row.d_v = info->v_dim;
    row.n_ctx_train = info->ctx_train;
    /* no path of this machine: the same model elsewhere is the same row */
    detail = json_pack("{s:s, s:s, s:s, s:I, s:i, s:i, s:i}", "name", info->name, "file",
                       base_name(m->suite->path), "chat", kva_model_chat(model)->family,
                       "params", (json_int_t)info->params, "dim", info->dim, "ffn",
                       info->ffn, "vocab", info->vocab);
    text = detail ? json_dumps(detail, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(detail);
    if (!text)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    row.detail_json = text;
    rc = kva_db_put_model(db, &row, &m->model_id, err);
    free(text);
    return rc;
}

static enum kva_status write_task(struct kva_plan *p, struct kva_plan_task *t,
                                  struct kva_db *db, struct kva_error *err)
{
    const struct kva_task_info *info = kva_task_info(t->task);
    struct kva_db_task row;

    memset(&row, 0, sizeof row);
    memcpy(row.digest, t->digest, 32);
    row.suite = info->suite;
    row.name = info->name;
    row.domain = info->domain ? info->domain : "";
    row.metric = info->metric;
    row.metric_version = info->metric_version;
    row.binary = info->binary;
    row.gen_json = t->gen_json;
    row.source_json = kva_task_source_json(t->task, &p->arena);
    row.ctx_target = info->ctx;
    row.n_available = info->n_available;
    row.guess_floor = info->guess_floor;
    if (!row.source_json)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    return kva_db_put_task(db, &row, &t->task_id, err);
}

static enum kva_status write_cell(struct kva_plan *p, struct kva_cell *c,
                                  struct kva_db *db, int64_t run_id,
                                  struct kva_error *err)
{
    static const char *const kinds[] = {"dense", "keep", "tokens", "bytes"};
    struct kva_db_method method;
    struct kva_db_cell row;
    char schedule[48];

    memset(&method, 0, sizeof method);
    memcpy(method.digest, c->method_digest, 32);
    method.name = c->method.spec;
    method.impl_version = c->method.scorer ? c->method.scorer->version : 1;
    method.params_json = c->params_json;
    memset(&row, 0, sizeof row);
    KVA_TRY(kva_db_put_method(db, &method, &row.method_id, err));
    memcpy(row.digest, c->digest, 32);
    memcpy(row.dense_key, c->dense_key, 32);
    row.slug = c->slug;
    row.model_id = p->models[c->model].model_id;
    row.task_id = p->tasks[c->task].task_id;
    row.budget_kind = kinds[c->budget.kind];
    row.budget = c->budget.kind == KVA_BUDGET_DENSE  ? 1
                 : c->budget.kind == KVA_BUDGET_KEEP ? (double)c->budget.value / 10000
                                                     : (double)c->budget.value;
    kva_schedule_text(&c->schedule, schedule);
    row.schedule = schedule;
    row.enforce = kva_enforce_name(c->enforce);
    row.visibility = kva_visibility_name(c->visibility);
    row.numerics = c->numerics;
    row.kv = c->kv == KVA_F32 ? "f32" : "f16";
    row.spec_json = c->spec_json;
    KVA_TRY(kva_db_put_cell(db, &row, &c->cell_id, err));
    return kva_db_put_plan(db, run_id, c->cell_id, c->n, c->reps, err);
}

enum kva_status kva_plan_write(struct kva_plan *p, struct kva_db *db, int64_t run_id,
                               struct kva_error *err)
{
    enum kva_status rc = KVA_OK;

    KVA_TRY(kva_db_begin(db, err));
    for (int i = 0; i < p->n_models; i++)
        KVA_GO(write_model(&p->models[i], db, err));
    for (int i = 0; i < p->n_tasks; i++)
        KVA_GO(write_task(p, &p->tasks[i], db, err));
    for (int i = 0; i < p->n_cells; i++)
        KVA_GO(write_cell(p, &p->cells[i], db, run_id, err));
    return kva_db_commit(db, err);
out:
    kva_db_rollback(db);
    return rc;
}

/* ---- dry run ---- */

/* Outcomes of one cell that are still to run, and perf runs. */
static void count_jobs(const struct kva_plan *p, int *todo, int *perf)
{
    for (int u = 0; u < p->n_units; u++)
        for (int j = 0; j < p->units[u].n_jobs; j++)
            ++(p->units[u].jobs[j].perf ? perf : todo)[p->units[u].jobs[j].cell];
}

struct group { /* one line: cells of a (model, task, method) */
    int first, cells, n;
    int64_t planned, todo, perf;
    struct kva_buf budgets;
};

static bool same_line(const struct kva_cell *a, const struct kva_cell *b)
{
    return a->model == b->model && a->task == b->task &&
           strcmp(a->method_id, b->method_id) == 0;
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; p && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

static void add_to(struct group *g, const struct kva_cell *c, int todo, int perf)
{
    char budget[32];

    kva_budget_text(&c->budget, budget);
    if (c->budget.kind != KVA_BUDGET_DENSE) {
        /* the same budget under another visibility or schedule is named once */
        if (!has_word(g->budgets.data, budget))
            kva_buf_printf(&g->budgets, "%s%s", g->budgets.len ? " " : "", budget);
    }
    g->cells++;
    g->n = c->n > g->n ? c->n : g->n;
    g->planned += c->planned;
    g->todo += todo;
    g->perf += perf;
}

static void put_cell(struct kva_buf *out, const char *s, int width)
{
    kva_buf_printf(out, "%s%*s  ", s, width - kva_utf8_columns(s), "");
}

static void print_groups(const struct kva_plan *p, const struct group *g, int n,
                         struct kva_buf *out)
{
    int w_model = 5, w_task = 4, w_method = 6;

    for (int i = 0; i < n; i++) {
        const struct kva_cell *c = &p->cells[g[i].first];
        int m = kva_utf8_columns(p->models[c->model].suite->id);
        int t = kva_utf8_columns(p->tasks[c->task].suite->id);
        int h = kva_utf8_columns(c->method_id);

        w_model = m > w_model ? m : w_model;
        w_task = t > w_task ? t : w_task;
        w_method = h > w_method ? h : w_method;
    }
    kva_buf_printf(out, "%-*s  %-*s  %-*s  %5s %7s %7s  budgets\n", w_model, "model",
                   w_task, "task", w_method, "method", "cells", "planned", "to do");
    for (int i = 0; i < n; i++) {
        const struct kva_cell *c = &p->cells[g[i].first];

        put_cell(out, p->models[c->model].suite->id, w_model);
        put_cell(out, p->tasks[c->task].suite->id, w_task);
        put_cell(out, c->method_id, w_method);
        kva_buf_printf(out, "%5d %7lld %7lld  %s\n", g[i].cells, (long long)g[i].planned,
                       (long long)g[i].todo, g[i].budgets.len ? g[i].budgets.data : "-");
    }
}

/* A line for every way answers are drawn in. */
static void print_sampling(const struct kva_plan *p, struct kva_buf *out)
{
    for (int i = 0; i < p->n_cells; i++) {
        const struct kva_sampling *how = &p->cells[i].sampling;
        int cells = 0, most = 0;
        bool told = !kva_sampled(how);
        char text[KVA_SAMPLING_TEXT];

        for (int k = 0; k < p->n_cells && !told; k++) {
            if (!kva_sampling_same(how, &p->cells[k].sampling))
                continue;
            told = k < i;
            most = p->cells[k].reps > most ? p->cells[k].reps : most;
            cells++;
        }
        kva_sampling_text(how, text);
        if (!told)
            kva_buf_printf(out, "%d cell%s at sampling %s, up to %d draw%s a sample\n",
                           cells, cells == 1 ? "" : "s", text, most,
                           most == 1 ? "" : "s");
    }
}

/* The `exclude` objects of the resolved suite; NULL: none. The caller's. */
static json_t *rules_of(const struct kva_suite *s)
{
    json_t *root = json_loads(s->text, 0, NULL), *list = json_object_get(root, "exclude");

    json_incref(list);
    json_decref(root);
    return list;
}

static void print_excluded(const struct kva_suite *s, struct kva_buf *out)
{
    json_t *rules = rules_of(s);

    for (int i = 0; i < s->n_excluded; i++) {
        char *rule = json_dumps(json_array_get(rules, (size_t)i), JSON_COMPACT);

        kva_buf_printf(out, "/exclude/%d %s removed %d cell%s\n", i, rule ? rule : "",
                       s->excluded[i], s->excluded[i] == 1 ? "" : "s");
        free(rule);
    }
    json_decref(rules);
}

static void print_size(double bytes, struct kva_buf *out)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int k = 0;

    for (; bytes >= 1024 && k < 4; k++)
        bytes /= 1024;
    kva_buf_printf(out, k ? "%.1f %s" : "%.0f %s", bytes, unit[k]);
}

/* The largest cell, and every one that the machine cannot hold. */
static void print_memory(const struct kva_plan *p, const struct kva_forecast *f,
                         struct kva_buf *out)
{
    int most = 0;

    for (int i = 1; i < p->n_cells; i++)
        if (f->cell[i].peak_bytes > f->cell[most].peak_bytes)
            most = i;
    if (p->n_cells == 0)
        return;
    kva_buf_puts(out, "largest cell: ");
    print_size(f->cell[most].peak_bytes, out);
    kva_buf_puts(out,
                 " of weights, full cache at prefill and scratch; this machine has ");
    print_size(f->machine_bytes, out);
    kva_buf_putc(out, '\n');
    for (int i = 0; i < p->n_cells; i++)
        if (f->cell[i].peak_bytes > f->machine_bytes) {
            kva_buf_printf(out, "DOES NOT FIT: %s needs ", p->cells[i].slug);
            print_size(f->cell[i].peak_bytes, out);
            kva_buf_putc(out, '\n');
        }
}

/* Tasks whose samples cannot be made or fed. */
static void print_misfits(const struct kva_plan *p, const struct kva_forecast *f,
                          struct kva_buf *out)
{
    for (int i = 0; i < f->n_misfit; i++) {
        kva_buf_puts(out, "DOES NOT FIT: ");
        kva_misfit_text(p, &f->misfit[i], out);
    }
}

static json_t *misfits_json(const struct kva_plan *p, const struct kva_forecast *f)
{
    json_t *list = json_array();

    for (int i = 0; i < f->n_misfit; i++) {
        const struct kva_misfit *m = &f->misfit[i];
        const struct kva_plan_task *t = &p->tasks[m->task];

        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:b, s:I, s:i, s:i, s:i, s:s}", "task",
                            t->suite->id, "model", p->models[t->model].suite->id,
                            "sample", m->sample, "all", m->all, "todo",
                            (json_int_t)m->n_todo, "prompt", m->n_prompt, "max_new",
                            m->max_new, "context", m->limit, "why", m->why.text));
    }
    return list;
}

/* A line for each kind of comparison with the full cache: cells of one model and task
 * with the same n agree in it. */
static void print_mde(const struct kva_plan *p, const struct kva_forecast *f,
                      struct kva_buf *out)
{
    for (int i = 0; i < p->n_cells; i++) {
        const struct kva_cell *c = &p->cells[i];
        const struct kva_forecast_cell *x = &f->cell[i];
        bool told = c->method.dense || c->method.blind;

        for (int k = 0; k < i && !told; k++)
            told = !p->cells[k].method.dense && !p->cells[k].method.blind &&
                   p->cells[k].n == c->n && f->cell[k].contexts == x->contexts &&
                   f->cell[k].pairs == x->pairs &&
                   f->cell[k].discordant == x->discordant &&
                   (x->pairs == 0 || p->cells[k].task == c->task);
        if (told)
            continue;
        kva_buf_printf(out, "with n = %d ", c->n);
        if (x->contexts < c->n)
            kva_buf_printf(out, "on %d contexts ", x->contexts);
        if (isnan(x->mde))
            kva_buf_puts(out, "no difference can be shown at ");
        else
            kva_buf_printf(out, "a paired difference of %.1f points shows at ",
                           100 * x->mde);
        kva_buf_printf(out, "%.3g %% discordant samples (power 0.8)",
                       100 * x->discordant);
        if (x->pairs > 0)
            kva_buf_printf(out, ", measured on %lld pairs of %s", (long long)x->pairs,
                           p->tasks[c->task].suite->id);
        kva_buf_putc(out, '\n');
    }
}

static void print_text(const struct kva_plan *p, const struct group *g, int n,
                       const struct kva_forecast *f, struct kva_buf *out)
{
    const struct kva_suite *s = p->suite;
    char when[24];

    kva_buf_printf(out, "suite %s%s%s%s: %d cells, %lld outcomes\n", s->name,
                   s->note ? " (" : "", s->note ? s->note : "", s->note ? ")" : "",
                   p->n_cells, (long long)p->n_planned);
    if (s->shard.n > 0)
        kva_buf_printf(out, "shard %d/%d by %s: %d of %d contexts\n", s->shard.i,
                       s->shard.n, kva_balance_name(s->shard.balance), p->n_mine,
                       p->n_contexts);
    if (s->limit)
        kva_buf_printf(out, "limited to %d samples a cell\n", s->limit);
    kva_buf_putc(out, '\n');
    print_groups(p, g, n, out);
    kva_buf_printf(
        out, "\n%lld done, %lld to do (%lld of them failed before), %lld given up\n",
        (long long)p->n_done, (long long)p->n_todo, (long long)p->n_retriable,
        (long long)(p->n_planned - p->n_done - p->n_todo));
    kva_buf_printf(out, "%lld to time alone; %d units of work\n",
                   (long long)p->n_perf_todo, p->n_units);
    print_sampling(p, out);
    print_excluded(s, out);
    if (s->duplicates_dropped)
        kva_buf_printf(out, "%d duplicate cells dropped\n", s->duplicates_dropped);
    if (isnan(f->seconds)) {
        kva_buf_puts(out, "estimated time: unknown (no earlier units of these tasks: run "
                          "--limit 2 makes\n  some, run --dry-run --probe reads two "
                          "prompts instead)\n");
    } else {
        kva_duration_text(f->seconds, when);
        kva_buf_printf(out, "estimated time: %s of one worker\n", when);
    }
    for (int i = 0; i < p->n_models; i++)
        if (f->probed[i])
            kva_buf_printf(out,
                           "  (%s by two probe prompts; answers in a wave take less)\n",
                           p->models[i].suite->id);
    print_misfits(p, f, out);
    print_memory(p, f, out);
    kva_buf_puts(out, "the database grows by about ");
    print_size(f->disk_bytes, out);
    kva_buf_putc(out, '\n');
    print_mde(p, f, out);
}

static json_t *cell_json(const struct kva_plan *p, const struct kva_cell *c,
                         const struct kva_forecast *f, int todo, int perf)
{
    const struct kva_forecast_cell *x = &f->cell[c - p->cells];
    char budget[32], schedule[48], digest[65], sampling[KVA_SAMPLING_TEXT];

    kva_budget_text(&c->budget, budget);
    kva_schedule_text(&c->schedule, schedule);
    kva_sampling_text(&c->sampling, sampling);
    kva_hex(c->digest, 32, digest);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, "
        "s:i, s:f, s:b, s:f, s:I, s:i, s:o}",
        "digest", digest, "slug", c->slug, "model", p->models[c->model].suite->id, "task",
        p->tasks[c->task].suite->id, "method", c->method.spec, "budget", budget,
        "schedule", schedule, "enforce", kva_enforce_name(c->enforce), "visibility",
        kva_visibility_name(c->visibility), "numerics", c->numerics, "kv",
        c->kv == KVA_F32 ? "f32" : "f16", "sampling", sampling, "n", c->n, "reps",
        c->reps, "todo", todo, "perf_todo", perf, "peak_bytes", x->peak_bytes, "fits",
        x->peak_bytes <= f->machine_bytes, "discordant", x->discordant, "pairs",
        (json_int_t)x->pairs, "contexts", x->contexts, "mde",
        isnan(x->mde) ? json_null() : json_real(x->mde));
}

static enum kva_status print_json(const struct kva_plan *p, const int *todo,
                                  const int *perf, const struct kva_forecast *f,
                                  struct kva_buf *out, struct kva_error *err)
{
    json_t *cells = json_array(), *excluded = json_array(), *probed = json_array(), *o,
           *rules = rules_of(p->suite);
    char *text;

    for (int i = 0; i < p->n_models; i++)
        if (f->probed[i])
            json_array_append_new(probed, json_string(p->models[i].suite->id));
    for (int i = 0; i < p->n_cells; i++)
        json_array_append_new(cells, cell_json(p, &p->cells[i], f, todo[i], perf[i]));
    for (int i = 0; i < p->suite->n_excluded; i++)
        json_array_append_new(excluded, json_integer(p->suite->excluded[i]));
    o = json_pack(
        "{s:s, s:s, s:s?, s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:O?, s:o, s:o, "
        "s:f, s:f, s:o, s:o, s:o}",
        "schema", "kvaudit.plan/1", "suite", p->suite->name, "label", p->suite->note,
        "limit", p->suite->limit, "planned", (json_int_t)p->n_planned, "done",
        (json_int_t)p->n_done, "retriable", (json_int_t)p->n_retriable, "todo",
        (json_int_t)p->n_todo, "perf_todo", (json_int_t)p->n_perf_todo, "units",
        p->n_units, "duplicates", p->suite->duplicates_dropped, "excluded", excluded,
        "exclude", rules, "seconds",
        isnan(f->seconds) ? json_null() : json_real(f->seconds), "probed", probed,
        "machine_bytes", f->machine_bytes, "disk_bytes", f->disk_bytes, "shard",
        p->suite->shard.n > 0
            ? json_pack("{s:i, s:i, s:s, s:i, s:i}", "i", p->suite->shard.i, "n",
                        p->suite->shard.n, "balance",
                        kva_balance_name(p->suite->shard.balance), "contexts", p->n_mine,
                        "of", p->n_contexts)
            : json_null(),
        "misfits", misfits_json(p, f), "cells", cells);
    json_decref(rules);
    text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(o);
    if (!text)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    kva_buf_puts(out, text);
    kva_buf_putc(out, '\n');
    free(text);
    return kva_buf_status(out, err);
}

enum kva_status kva_plan_print(const struct kva_plan *p, struct kva_db *db, int threads,
                               bool probe, bool json, struct kva_buf *out,
                               struct kva_error *err)
{
    int *todo = kva_calloc((size_t)p->n_cells + 1, sizeof todo[0]);
    int *perf = kva_calloc((size_t)p->n_cells + 1, sizeof perf[0]);
    struct group *g = kva_calloc((size_t)p->n_cells + 1, sizeof g[0]);
    struct kva_forecast f = {0};
    int n = 0;
    enum kva_status rc;

    if (!todo || !perf || !g) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        goto out;
    }
    count_jobs(p, todo, perf);
    KVA_GO(kva_forecast(p, db, threads, probe, &f, err));
    if (json) {
        rc = print_json(p, todo, perf, &f, out, err);
        goto out;
    }
    for (int i = 0; i < p->n_cells; i++) {
        int k = 0;

        while (k < n && !same_line(&p->cells[g[k].first], &p->cells[i]))
            k++;
        if (k == n) {
            g[n].first = i;
            kva_buf_init(&g[n++].budgets, 1 << 16);
        }
        add_to(&g[k], &p->cells[i], todo[i], perf[i]);
    }
    print_text(p, g, n, &f, out);
    rc = kva_buf_status(out, err);
out:
    for (int i = 0; i < n; i++)
        kva_buf_release(&g[i].budgets);
    free(g);
    free(todo);
    free(perf);
    kva_forecast_release(&f);
    return rc;
}
