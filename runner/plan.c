/* SPDX-License-Identifier: GPL-3.0-or-later */
/* plan.c - from a suite to opened models and tasks, cells with digests, and units with
 * jobs.
 *
 * A unit is one (model, context, numerics, kv) and every job that wants it, in
 * sample-major order: model, task, sample index (reports.md 3.7). All methods of a sample
 * run next to each other, so an interrupted run leaves paired data. Of a sharded run the
 * plan holds the contexts of its shard (shard.h) and all cells. */
#include "runner/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kva_status no_memory(struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "out of memory while planning");
}

static int numerics_index(const char *numerics)
{
    return strcmp(numerics, "ref") == 0 ? 1 : strcmp(numerics, "bf16") == 0 ? 2 : 0;
}

struct kva_model *kva_plan_any_model(const struct kva_plan_model *m)
{
    for (int k = 0; k < KVA_NUMERICS; k++)
        if (m->open[k])
            return m->open[k];
    return NULL;
}

/* ---- models and tasks ---- */

static enum kva_status missing_models(const struct kva_plan *p, const bool *used,
                                      struct kva_error *err)
{
    int n = 0;
    const char *first = NULL;

    for (int i = 0; i < p->n_models; i++)
        if (used[i] && !p->models[i].suite->path) {
            if (!first)
                first = p->models[i].suite->why_missing;
            n++;
        }
    if (n == 0)
        return KVA_OK;
    if (n == 1)
        return KVA_FAIL(err, KVA_EIO, "%s", first);
    return KVA_FAIL(err, KVA_EIO, "%s (and %d more model%s)", first, n - 1,
                    n == 2 ? "" : "s");
}

static enum kva_status open_models(struct kva_plan *p, int threads, struct kva_error *err)
{
    struct kva_suite *s = p->suite;
    bool *used = kva_arena_alloc(&p->arena, (size_t)s->n_models + 1, sizeof used[0]);

    p->models = kva_arena_alloc(&p->arena, (size_t)s->n_models + 1, sizeof p->models[0]);
    if (!used || !p->models)
        return no_memory(err);
    p->n_models = s->n_models;
    for (int i = 0; i < s->n_models; i++)
        p->models[i].suite = &s->models[i];
    for (int i = 0; i < s->n_cells; i++)
        used[s->cells[i].model] = true;
    KVA_TRY(missing_models(p, used, err));
    for (int i = 0; i < s->n_cells; i++) {
        struct kva_plan_model *m = &p->models[s->cells[i].model];
        int k = numerics_index(s->cells[i].numerics);
        struct kva_model_opts opts = {.backend = s->backend,
                                      .numerics = s->cells[i].numerics,
                                      .threads = threads,
                                      .chat = m->suite->chat};
        bool first;

        if (m->open[k])
            continue;
        first = kva_plan_any_model(m) == NULL;
        KVA_TRY(kva_model_open(m->suite->path, &opts, &m->open[k], err));
        if (first)
            KVA_TRY(kva_model_sha256(m->open[k], m->digest, err));
    }
    return KVA_OK;
}

/* The plan's task for (model, suite task), opened at the first call; -1 on failure. */
static enum kva_status task_of(struct kva_plan *p, int model, int suite_task, int *index,
                               struct kva_error *err)
{
    struct kva_suite_task *st = &p->suite->tasks[suite_task];
    struct kva_plan_task *t;

    for (*index = 0; *index < p->n_tasks; ++*index)
        if (p->tasks[*index].model == model && p->tasks[*index].suite == st)
            return KVA_OK;
    t = &p->tasks[p->n_tasks];
    memset(t, 0, sizeof *t);
    t->suite = st;
    t->model = model;
    KVA_TRY(kva_task_open(st->id, &st->opts, &t->task, err));
    p->n_tasks++;
    return kva_digest_task(t->task, kva_plan_any_model(&p->models[model]), &p->arena,
                           &t->gen_json, t->digest, err);
}

/* ---- cells ---- */

/* Basis points without trailing zeros: 2500 -> 0.25 */
static void keep_text(int64_t bp, char out[16])
{
    int n = snprintf(out, 16, "0.%04d", (int)bp);

    while (n > 3 && out[n - 1] == '0')
        out[--n] = '\0';
}

/* A label for people, never parsed: model/method/budget/task/visibility and what is not
 * the usual. */
static enum kva_status make_slug(struct kva_plan *p, struct kva_cell *c,
                                 struct kva_error *err)
{
    const struct kva_plan_task *t = &p->tasks[c->task];
    const struct kva_task_info *info = kva_task_info(t->task);
    const char *model = p->models[c->model].suite->id, *slash = strrchr(model, '/');
    char budget[32], schedule[48], keep[16];
    struct kva_buf b;
    enum kva_status rc;

    if (c->budget.kind == KVA_BUDGET_KEEP) {
        keep_text(c->budget.value, keep);
        snprintf(budget, sizeof budget, "keep%s", keep);
    } else {
        kva_budget_text(&c->budget, budget);
    }
    kva_schedule_text(&c->schedule, schedule);
    kva_buf_init(&b, 1 << 16);
    kva_buf_printf(&b, "%s/%s/%s/%s.%s", slash ? slash + 1 : model, c->method_id, budget,
                   info->suite, info->name);
    if (info->ctx)
        kva_buf_printf(&b, ".%d", info->ctx);
    kva_buf_printf(&b, "/%s", kva_visibility_name(c->visibility));
    if (strcmp(schedule, "oneshot") != 0)
        kva_buf_printf(&b, "/%s", schedule);
    if (c->enforce > KVA_PHYSICAL)
        kva_buf_printf(&b, "/%s", kva_enforce_name(c->enforce));
    if (strcmp(c->numerics, "f32") != 0)
        kva_buf_printf(&b, "/%s", c->numerics);
    else if (c->kv == KVA_F32)
        kva_buf_puts(&b, "/kv-f32");
    if (kva_sampled(&c->sampling)) {
        char how[KVA_SAMPLING_TEXT];

        kva_sampling_text(&c->sampling, how);
        kva_buf_printf(&b, "/%s", how);
    }
    rc = kva_buf_status(&b, err);
    c->slug = rc == KVA_OK ? kva_arena_strdup(&p->arena, b.data) : NULL;
    kva_buf_release(&b);
    if (rc == KVA_OK && !c->slug)
        rc = no_memory(err);
    return rc;
}

static void clamp(struct kva_plan *p, struct kva_cell *c, int64_t *warned)
{
    const struct kva_plan_task *t = &p->tasks[c->task];
    int64_t have = kva_task_info(t->task)->n_available;

    if (have < 0 || c->n <= have)
        return;
    if (!warned[c->task])
        kva_log(KVA_LOG_WARN, "task %s has %lld samples, fewer than the %d asked for",
                t->suite->id, (long long)have, c->n);
    warned[c->task] = 1;
    c->n = (int)have;
    c->perf = c->perf > c->n ? c->n : c->perf;
}

/* A timed cell answers one question; in a conversation of the model's own answers it
 * would have to live through the turns before. */
static enum kva_status check_perf(const struct kva_plan *p, const struct kva_cell *c,
                                  struct kva_error *err)
{
    const struct kva_task_info *info = kva_task_info(p->tasks[c->task].task);

    if (c->perf == 0 || !info->conversation || info->golden)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EINVALID,
                    "%s: \"perf\" times single questions, not a conversation of the "
                    "model's own answers; set perf to 0 for it, or take the reference "
                    "answers",
                    p->tasks[c->task].suite->id);
}

/* What stays is renumbered once, after the prompt: nothing later may ask for the old
 * positions. */
static enum kva_status check_rotation(const struct kva_plan *p, const struct kva_cell *c,
                                      struct kva_error *err)
{
    const struct kva_task_info *info = kva_task_info(p->tasks[c->task].task);
    const char *why = NULL;

    if (kva_enforce_hides(c->enforce))
        why = "a masked cache cannot do; use enforce physical";
    else if (c->schedule.decode > 0 || c->schedule.kind == KVA_BLOCK ||
             c->schedule.kind == KVA_CHUNKED)
        why = "is done once, not under a schedule that evicts again; use oneshot or "
              "layerwise";
    else if (info->conversation && !info->golden)
        why = "loses the positions that later turns are told from";
    if (why == NULL)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EINVALID,
                    "%s moves what it keeps to contiguous positions, which %s",
                    c->method.spec, why);
}

/* Reads the file of the method, and looks whether the cell shows it what it asks for. */
static enum kva_status bind_method(const struct kva_plan *p, struct kva_cell *c,
                                   struct kva_error *err)
{
    const struct kva_plan_model *m = &p->models[c->model];
    const struct kva_model_info *info = kva_model_info(kva_plan_any_model(m));

    if (c->method.scorer != NULL && c->method.scorer->question_aware &&
        c->visibility == KVA_AGNOSTIC)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s scores with the question, which visibility agnostic does not "
                        "show it; use aware or full",
                        c->method.scorer->name);
    if (kva_method_rotates(&c->method))
        KVA_TRY(check_rotation(p, c, err));
    return kva_method_bind(&c->method, p->suite->dir, m->digest, info->layers,
                           info->kv_heads, err);
}

static enum kva_status make_cells(struct kva_plan *p, struct kva_error *err)
{
    struct kva_suite *s = p->suite;
    size_t tasks = (size_t)s->n_models * s->n_tasks + 1;
    int64_t *warned = kva_arena_alloc(&p->arena, tasks, sizeof warned[0]);
    struct kva_map seen;
    enum kva_status rc = KVA_OK;

    kva_map_init(&seen);
    p->cells = kva_arena_alloc(&p->arena, (size_t)s->n_cells + 1, sizeof p->cells[0]);
    if (!warned || !p->cells) {
        rc = no_memory(err);
        goto out;
    }
    for (int i = 0; i < s->n_cells; i++) {
        const struct kva_suite_cell *from = &s->cells[i];
        struct kva_cell *c = &p->cells[p->n_cells];
        const struct kva_model *m = kva_plan_any_model(&p->models[from->model]);
        bool is_new;

        rc = kva_enforce_check(from->enforce, kva_model_attn_softcap(m), err);
        if (rc != KVA_OK && from->arm != 0) {
            rc = KVA_OK; /* an arm that this model cannot have */
            continue;
        }
        KVA_GO(rc);
        c->model = from->model;
        c->method_id = from->method_id;
        c->budget = from->budget;
        c->enforce = from->enforce;
        c->visibility = from->visibility;
        c->numerics = from->numerics;
        c->kv = strcmp(from->kv, "f32") == 0 ? KVA_F32 : KVA_F16;
        c->sampling = from->sampling;
        c->n = from->n;
        c->reps = from->reps;
        c->perf = from->perf;
        c->perf_reps = from->perf_reps;
        c->max_attempts = from->max_attempts;
        c->seed = from->seed;
        c->arm = from->arm;
        KVA_GO(task_of(p, from->model, from->task, &c->task, err));
        KVA_GO(kva_schedule_parse(from->schedule, &c->schedule, err));
        KVA_GO(kva_method_parse(from->method_text, &c->schedule, &c->method, err));
        KVA_GO(bind_method(p, c, err));
        KVA_GO(kva_digest_method(&c->method, &p->arena, &c->params_json, c->method_digest,
                                 err));
        KVA_GO(kva_digest_cell(c, p->models[c->model].digest, p->tasks[c->task].digest,
                               kva_model_chat(m)->family, &p->arena, err));
        KVA_GO(make_slug(p, c, err));
        clamp(p, c, warned);
        KVA_GO(check_perf(p, c, err));
        KVA_GO(kva_map_put(&seen, c->digest, 32, i, &is_new, err));
        if (is_new)
            p->n_cells++;
        else {
            kva_method_release(&c->method);
            s->duplicates_dropped++;
        }
    }
out:
    kva_map_release(&seen);
    return rc;
}

/* ---- units ---- */

/* Contexts of one task: sample indexes that share their context stand together. */
struct contexts {
    int *order; /* sample indexes, grouped */
    int *first; /* [n + 1] where each group starts in `order` */
    int *group; /* [sample index] */
    double *n_ctx;
    int n;
};

static double known_length(const struct kva_task_info *info)
{
    return info->ctx > 0 ? info->ctx : 2048;
}

/* Every sample of a jsonl task is made once, to see which contexts are the same; the
 * others say how many questions a context has (tasks-ruler.md 10.3). */
static enum kva_status group_contexts(struct kva_plan *p, const struct kva_plan_task *t,
                                      int n, struct contexts *out, struct kva_error *err)
{
    bool user = strncmp(t->suite->id, "jsonl:", 6) == 0;
    int turns = kva_task_info(t->task)->turns > 1 ? kva_task_info(t->task)->turns : 1;
    struct kva_tok_model tm;
    struct kva_tok_api api;
    struct kva_arena items;
    struct kva_map seen;
    int *group;
    enum kva_status rc = KVA_OK;

    memset(out, 0, sizeof *out);
    kva_arena_init(&items);
    kva_map_init(&seen);
    out->group = group = kva_arena_alloc(&p->arena, (size_t)n + 1, sizeof group[0]);
    out->order = kva_arena_alloc(&p->arena, (size_t)n + 1, sizeof out->order[0]);
    out->first = kva_arena_alloc(&p->arena, (size_t)n + 2, sizeof out->first[0]);
    out->n_ctx = kva_arena_alloc(&p->arena, (size_t)n + 1, sizeof out->n_ctx[0]);
    if (!group || !out->order || !out->first || !out->n_ctx) {
        rc = no_memory(err);
        goto out;
    }
    kva_tok_api_model(&tm, kva_plan_any_model(&p->models[t->model]), &api);
    for (int i = 0; i < n; i++) {
        double n_ctx = known_length(kva_task_info(t->task));
        int64_t g = i / turns;

        if (user) {
            struct kva_item item;
            uint8_t key[33] = {0};
            bool is_new;

            memset(&item, 0, sizeof item);
            kva_arena_reset(&items);
            KVA_GO(kva_task_item(t->task, i, &api, &items, &item, err));
            if (item.context_ids) {
                key[32] = 1;
                kva_sha256_of(item.context_ids,
                              item.n_context_ids * sizeof item.context_ids[0], key);
            } else {
                kva_sha256_of(item.context, item.context_len, key);
            }
            n_ctx =
                item.context_ids ? (double)item.n_context_ids : (double)item.n_context;
            g = out->n;
            if (!kva_map_get(&seen, key, sizeof key, &g))
                KVA_GO(kva_map_put(&seen, key, sizeof key, g, &is_new, err));
        }
        group[i] = (int)g;
        if (g == out->n)
            out->n_ctx[out->n++] = n_ctx;
    }
    /* counting sort: groups in the order of their first sample, samples ascending inside
     */
    for (int i = 0; i < n; i++)
        out->first[group[i] + 1]++;
    for (int g = 0; g < out->n; g++)
        out->first[g + 1] += out->first[g];
    for (int i = 0; i < n; i++)
        out->order[out->first[group[i]]++] = i;
    for (int g = out->n; g > 0; g--)
        out->first[g] = out->first[g - 1];
    out->first[0] = 0;
out:
    kva_map_release(&seen);
    kva_arena_release(&items);
    return rc;
}

/* Cells of one (model, task, numerics, kv) in plan order. */
struct family {
    int *cells;
    int n, n_max; /* largest n of its cells */
    int numerics;
    enum kva_type kv;
};

static bool same_family(const struct kva_cell *a, const struct kva_cell *b)
{
    return a->model == b->model && a->task == b->task && a->kv == b->kv &&
           numerics_index(a->numerics) == numerics_index(b->numerics);
}

static enum kva_status find_families(struct kva_plan *p, int task, struct family **out,
                                     int *n_out, struct kva_error *err)
{
    struct family *f = kva_arena_alloc(&p->arena, (size_t)KVA_NUMERICS * 2, sizeof f[0]);
    int n = 0;

    if (!f)
        return no_memory(err);
    for (int i = 0; i < p->n_cells; i++) {
        struct kva_cell *c = &p->cells[i];
        int k = 0;

        if (c->task != task)
            continue;
        while (k < n && !same_family(&p->cells[f[k].cells[0]], c))
            k++;
        if (k == n) { /* numerics times two cache types at most */
            f[k].cells =
                kva_arena_alloc(&p->arena, (size_t)p->n_cells, sizeof f[k].cells[0]);
            if (!f[k].cells)
                return no_memory(err);
            f[k].numerics = numerics_index(c->numerics);
            f[k].kv = c->kv;
            n++;
        }
        f[k].cells[f[k].n++] = i;
        f[k].n_max = c->n > f[k].n_max ? c->n : f[k].n_max;
    }
    *out = f;
    *n_out = n;
    return KVA_OK;
}

/* What a database has, for planning; all NULL without one. */
struct known {
    struct kva_db_states *states;
    int *perf_reps; /* [n_cells] timed repetitions */
};

/* Counts go to the plan. */
static bool rep_left(struct kva_plan *p, const struct kva_db_state *s, struct kva_cell *c)
{
    c->planned++;
    p->n_planned++;
    if (s->state == 1) {
        p->n_done++;
        return false;
    }
    if (s->state == 2 && s->attempts >= c->max_attempts)
        return false;
    if (s->state == 2)
        p->n_retriable++;
    p->n_todo++;
    return true;
}

/* The first sample of a cell is timed again and again, unless that was done or there is
 * nothing to time. */
static bool repeats_left(const struct kva_cell *c, int idx, const struct kva_db_state *s,
                         const struct known *db, int cell)
{
    if (idx > 0 || (s->state == 1 && !s->ok))
        return false;
    return c->perf_reps > (db->perf_reps ? db->perf_reps[cell] : 0);
}

static enum kva_status add_unit(struct kva_plan *p, int task, const struct family *f,
                                const struct contexts *cx, int g, const struct known *db,
                                struct kva_error *err)
{
    const struct kva_plan_task *t = &p->tasks[task];
    struct kva_unit *u = &p->units[p->n_units];
    int n_idx = cx->first[g + 1] - cx->first[g], most = 0, n_perf = 0;
    const int *idx = &cx->order[cx->first[g]];
    struct kva_job *perf;
    double n_ctx = cx->n_ctx[g];

    for (int c = 0; c < f->n; c++)
        most += n_idx * (p->cells[f->cells[c]].reps + 1);
    memset(u, 0, sizeof *u);
    u->jobs = kva_calloc((size_t)most + 1, sizeof u->jobs[0]);
    perf = kva_calloc((size_t)most + 1, sizeof perf[0]);
    if (!u->jobs || !perf) {
        free(u->jobs);
        free(perf);
        return no_memory(err);
    }
    for (int q = 0; q < n_idx; q++)
        for (int k = 0; k < f->n; k++) {
            struct kva_cell *c = &p->cells[f->cells[k]];

            if (idx[q] >= c->n)
                continue;
            for (int r = 0; r < c->reps; r++) {
                struct kva_job job = {f->cells[k], q, r, false, false};
                struct kva_db_state s = {0};

                if (db->states)
                    s = kva_db_state_of(db->states, c->digest, t->digest, idx[q], r);
                if (rep_left(p, &s, c))
                    u->jobs[u->n_jobs++] = job;
                if (r > 0 || idx[q] >= c->perf)
                    continue;
                job.repeat = repeats_left(c, idx[q], &s, db, f->cells[k]);
                job.perf = !s.has_perf || job.repeat;
                if (job.perf)
                    perf[n_perf++] = job;
            }
        }
    memcpy(u->jobs + u->n_jobs, perf, (size_t)n_perf * sizeof perf[0]);
    free(perf);
    u->n_jobs += n_perf;
    p->n_perf_todo += n_perf;
    if (u->n_jobs == 0) {
        free(u->jobs);
        return KVA_OK;
    }
    u->model = t->model;
    u->task = task;
    u->numerics = f->numerics;
    u->kv = f->kv;
    u->n_idx = n_idx;
    p->n_units++; /* from here the plan releases it */
    u->idx = kva_calloc((size_t)n_idx, sizeof u->idx[0]);
    if (!u->idx)
        return no_memory(err);
    memcpy(u->idx, idx, (size_t)n_idx * sizeof idx[0]);
    u->cost = kva_shard_cost(u->n_jobs, n_ctx, kva_task_info(t->task)->max_new_tokens);
    return KVA_OK;
}

static enum kva_status grow_units(struct kva_plan *p, int more, int *cap,
                                  struct kva_error *err)
{
    struct kva_unit *grown;

    if (p->n_units + more <= *cap)
        return KVA_OK;
    grown = kva_realloc(p->units, (size_t)p->n_units + more, sizeof grown[0]);
    if (!grown)
        return no_memory(err);
    p->units = grown;
    *cap = p->n_units + more;
    return KVA_OK;
}

/* A task's cells by family, and its contexts. */
struct shared_task {
    struct family *f;
    int n, n_max;
    struct contexts cx;
};

/* Outcomes that the suite wants of a context, timed ones counted again: what the database
 * has of them must not move a context to another shard. */
static int jobs_of_context(const struct kva_plan *p, const struct shared_task *s, int g)
{
    int jobs = 0;

    for (int q = s->cx.first[g]; q < s->cx.first[g + 1]; q++)
        for (int k = 0; k < s->n; k++)
            for (int i = 0; i < s->f[k].n; i++) {
                const struct kva_cell *c = &p->cells[s->f[k].cells[i]];
                int idx = s->cx.order[q];

                jobs += idx < c->n ? c->reps + (idx < c->perf) : 0;
            }
    return jobs;
}

/* Marks the samples of each task that belong to this shard. */
static enum kva_status take_share(struct kva_plan *p, const struct shared_task *s,
                                  struct kva_error *err)
{
    const struct kva_shard *shard = &p->suite->shard;
    struct kva_shard_item *items = kva_calloc((size_t)p->n_contexts + 1, sizeof *items);
    int at = 0;
    enum kva_status rc = KVA_OK;

    if (items == NULL)
        return no_memory(err);
    for (int t = 0; t < p->n_tasks; t++)
        for (int g = 0; g < s[t].cx.n; g++) {
            struct kva_shard_item *it = &items[at++];

            memcpy(it->model, p->models[p->tasks[t].model].digest, sizeof it->model);
            memcpy(it->task, p->tasks[t].digest, sizeof it->task);
            it->idx = s[t].cx.order[s[t].cx.first[g]];
            it->cost = kva_shard_cost(jobs_of_context(p, &s[t], g), s[t].cx.n_ctx[g],
                                      kva_task_info(p->tasks[t].task)->max_new_tokens);
        }
    KVA_GO(kva_shard_assign(items, (size_t)p->n_contexts, shard->n, shard->balance, err));
    p->n_mine = at = 0;
    for (int t = 0; t < p->n_tasks; t++) {
        bool *mine = kva_arena_alloc(&p->arena, (size_t)s[t].n_max + 1, sizeof mine[0]);

        if (mine == NULL) {
            rc = no_memory(err);
            goto out;
        }
        for (int g = 0; g < s[t].cx.n; g++) {
            bool is_mine = items[at++].shard == shard->i;

            p->n_mine += is_mine;
            for (int q = s[t].cx.first[g]; q < s[t].cx.first[g + 1]; q++)
                mine[s[t].cx.order[q]] = is_mine;
        }
        p->tasks[t].mine = mine;
    }
out:
    free(items);
    return rc;
}

static enum kva_status make_units(struct kva_plan *p, const struct known *db,
                                  struct kva_error *err)
{
    struct shared_task *s =
        kva_arena_alloc(&p->arena, (size_t)p->n_tasks + 1, sizeof s[0]);
    int cap = 0;

    if (s == NULL)
        return no_memory(err);
    for (int t = 0; t < p->n_tasks; t++) {
        KVA_TRY(find_families(p, t, &s[t].f, &s[t].n, err));
        for (int k = 0; k < s[t].n; k++)
            s[t].n_max = s[t].f[k].n_max > s[t].n_max ? s[t].f[k].n_max : s[t].n_max;
        KVA_TRY(group_contexts(p, &p->tasks[t], s[t].n_max, &s[t].cx, err));
        p->tasks[t].context = s[t].cx.group;
        p->n_contexts += s[t].cx.n;
        for (int g = 0; g < s[t].cx.n; g++)
            if (s[t].cx.n_ctx[g] > p->tasks[t].n_ctx)
                p->tasks[t].n_ctx = s[t].cx.n_ctx[g];
    }
    p->n_mine = p->n_contexts;
    if (p->suite->shard.n > 0)
        KVA_TRY(take_share(p, s, err));
    for (int t = 0; t < p->n_tasks; t++) {
        const struct contexts *cx = &s[t].cx;
        const bool *mine = p->tasks[t].mine;

        KVA_TRY(grow_units(p, cx->n * s[t].n, &cap, err));
        for (int g = 0; g < cx->n; g++)
            for (int k = 0; k < s[t].n; k++)
                if (mine == NULL || mine[cx->order[cx->first[g]]])
                    KVA_TRY(add_unit(p, t, &s[t].f[k], cx, g, db, err));
    }
    return KVA_OK;
}

/* ---- entry ---- */

/* Tasks in the order model, then the suite's: units then come out sample-major. */
static enum kva_status order_tasks(struct kva_plan *p, struct kva_error *err)
{
    struct kva_suite *s = p->suite;

    for (int m = 0; m < s->n_models; m++)
        for (int t = 0; t < s->n_tasks; t++)
            for (int c = 0; c < s->n_cells; c++)
                if (s->cells[c].model == m && s->cells[c].task == t) {
                    int index;

                    KVA_TRY(task_of(p, m, t, &index, err));
                    break;
                }
    return KVA_OK;
}

static enum kva_status look_up(struct kva_plan *p, struct kva_db *db, struct known *known,
                               struct kva_error *err)
{
    known->perf_reps =
        kva_arena_alloc(&p->arena, (size_t)p->n_cells + 1, sizeof known->perf_reps[0]);
    if (!known->perf_reps)
        return no_memory(err);
    for (int i = 0; i < p->n_cells; i++)
        if (p->cells[i].perf_reps > 0)
            KVA_TRY(kva_db_perf_reps(db, p->cells[i].digest, &known->perf_reps[i], err));
    return kva_db_load_states(db, &known->states, err);
}

enum kva_status kva_plan_new(struct kva_suite *s, struct kva_db *db, int threads,
                             struct kva_plan *p, struct kva_error *err)
{
    struct known known = {0};
    enum kva_status rc;

    memset(p, 0, sizeof *p);
    kva_arena_init(&p->arena);
    p->suite = s;
    KVA_GO(open_models(p, threads, err));
    p->tasks = kva_arena_alloc(&p->arena, (size_t)s->n_models * s->n_tasks + 1,
                               sizeof p->tasks[0]);
    if (!p->tasks) {
        rc = no_memory(err);
        goto out;
    }
    KVA_GO(order_tasks(p, err));
    KVA_GO(make_cells(p, err));
    if (db)
        KVA_GO(look_up(p, db, &known, err));
    KVA_GO(make_units(p, &known, err));
out:
    kva_db_states_free(known.states);
    if (rc != KVA_OK)
        kva_plan_release(p);
    return rc;
}

void kva_plan_release(struct kva_plan *p)
{
    for (int i = 0; i < p->n_units; i++) {
        free(p->units[i].jobs);
        free(p->units[i].idx);
    }
    free(p->units);
    /* the last one was not counted if it failed */
    for (int i = 0; p->cells && i <= p->n_cells; i++)
        kva_method_release(&p->cells[i].method);
    for (int i = 0; i < p->n_tasks; i++)
        kva_task_close(p->tasks[i].task);
    for (int i = 0; i < p->n_models; i++)
        for (int k = 0; k < KVA_NUMERICS; k++)
            if (p->models[i].open[k])
                kva_model_close(p->models[i].open[k]);
    kva_arena_release(&p->arena);
    memset(p, 0, sizeof *p);
}

enum kva_status kva_plan_verdict(const struct kva_plan *p, struct kva_db *db,
                                 struct kva_plan_verdict *v, struct kva_error *err)
{
    struct kva_db_states *st;

    memset(v, 0, sizeof *v);
    KVA_TRY(kva_db_load_states(db, &st, err));
    for (int i = 0; i < p->n_cells; i++) {
        const struct kva_cell *c = &p->cells[i];
        const bool *mine = p->tasks[c->task].mine;

        for (int idx = 0; idx < c->n; idx++)
            for (int r = 0; r < c->reps && (mine == NULL || mine[idx]); r++) {
                struct kva_db_state s =
                    kva_db_state_of(st, c->digest, p->tasks[c->task].digest, idx, r);

                v->absent += s.state == 0;
                v->truncated += s.truncated;
                v->failed += s.state != 0 && !s.ok && !s.truncated;
                v->retriable +=
                    s.state == 0 || (s.state == 2 && s.attempts < c->max_attempts);
                v->audit_failed += s.audit_bad;
            }
    }
    kva_db_states_free(st);
    return KVA_OK;
}
