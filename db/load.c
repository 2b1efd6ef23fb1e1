/* SPDX-License-Identifier: GPL-3.0-or-later */
/* load.c - everything reports need, from one or several files, joined and sorted by
 * labels.
 *
 * Ids are local to a file, so rows meet by digest: each file's ids are mapped to
 * positions in the joined arrays. The order is by labels (names, numbers, strings),
 * digests break ties, so neither the order of the files nor the order of the work changes
 * a report. Each file is read inside one read transaction; child tables are read in
 * outcome_id order and merged, never joined per row. */
#include "db/load.h"

#include <stdlib.h>
#include <string.h>

static enum kva_status each(struct kva_loader *ld, const char *sql, kva_load_fn fn)
{
    sqlite3_stmt *st = NULL;
    enum kva_status status = KVA_OK;
    int rc = sqlite3_prepare_v2(ld->db->handle, sql, -1, &st, NULL);

    if (rc != SQLITE_OK)
        return kva_db_fail(ld->db, rc, "reading results", ld->err);
    while (status == KVA_OK && (rc = sqlite3_step(st)) == SQLITE_ROW)
        status = fn(ld, st);
    if (status == KVA_OK && rc != SQLITE_DONE)
        status = kva_db_fail(ld->db, rc, "reading results", ld->err);
    sqlite3_finalize(st);
    return status;
}

static const struct {
    const char *sql;
    kva_load_fn fn;
} READS[] = {
    {"SELECT model_id,digest,name,arch,wtype,n_layer,n_kv_head,d_k,d_v,file_bytes FROM "
     "model",
     kva_load_model},
    {"SELECT task_id,digest,suite,name,domain,metric,metric_version,metric_kind='binary',"
     "guess_floor,gen_json,ctx_target FROM task",
     kva_load_task},
    {"SELECT sample_id,digest,task_id,idx,cluster,meta_json,refs_json FROM sample",
     kva_load_sample},
    {"SELECT "
     "cell_id,c.digest,dense_key,slug,model_id,task_id,h.name,h.oracle,budget_kind,"
     "budget,"
     "schedule,enforce,visibility,numerics,kv,spec_json,n_expected,"
     "CASE WHEN json_valid(spec_json) THEN json_extract(spec_json,'$.sampling') END FROM "
     "cell c "
     "JOIN method h USING(method_id) LEFT JOIN v_plan USING(cell_id)",
     kva_load_cell},
    {"SELECT "
     "uuid,status,label,config_json,started_ms,ended_ms,git_commit,git_dirty,cpu_model,"
     "cflags,compiler,config_sha256,argv_json,run_id,backend,shard_i,shard_n,perf_digest,"
     "cpu_logical,ram_bytes,gpu_name,driver,env.detail_json,"
     "cuda_runtime,gpu_bytes "
     "FROM run JOIN env USING(env_id)",
     kva_load_run},
    {"SELECT count(*) FROM outcome", kva_load_count},
    {"SELECT "
     "outcome_id,cell_id,sample_id,rep,status,score,n_ctx,n_question,n_gen,n_cut,kept_"
     "fnv,"
     "stop,gen_sha256,error,run_id,flags FROM outcome ORDER BY outcome_id",
     kva_load_outcome},
    {"SELECT outcome_id,value FROM score WHERE metric='gold_nll' ORDER BY "
     "outcome_id,version",
     kva_load_gold},
    /* votes are counted over the draws of a sampled cell */
    {"SELECT s.outcome_id,s.extracted FROM cell JOIN task t USING(task_id) "
     "JOIN outcome o USING(cell_id) JOIN score s USING(outcome_id) "
     "WHERE CASE WHEN json_valid(spec_json) THEN json_extract(spec_json,'$.sampling') "
     "END<>'greedy' AND s.metric=t.metric AND s.extracted IS NOT NULL "
     "ORDER BY s.outcome_id,s.version",
     kva_load_extracted},
    /* with max(), SQLite takes the other columns from the row of the maximum */
    {"SELECT s.outcome_id,s.metric,s.value,max(s.version) FROM score s "
     "JOIN outcome USING(outcome_id) JOIN cell USING(cell_id) JOIN task t USING(task_id) "
     "WHERE s.metric<>'gold_nll' AND s.metric<>t.metric GROUP BY s.outcome_id,s.metric",
     kva_load_second},
    {"SELECT outcome_id,exec,kv_dense_bytes,kv_budget_bytes,kv_live_bytes,kv_alloc_bytes,"
     "kv_meta_bytes,kv_peak_bytes,kv_end_bytes,kv_local_bytes,state_bytes,kv_committed_"
     "bytes,"
     "scratch_peak_bytes,weight_bytes,dev_delta_bytes,dev_peak_bytes,host_peak_bytes,"
     "entries_kept,entries_masked,audit FROM memory",
     kva_load_memory},
    {"SELECT outcome_id,prefill_ns,score_ns,evict_ns,question_ns,ttft_ns,decode_ns,"
     "decode_p50_ns,decode_p99_ns,clock FROM timing WHERE exec='alone'",
     kva_load_timing},
    {"SELECT outcome_id,span,n_tok,kept,n_layer,n_kv_head FROM span_kept "
     "ORDER BY outcome_id,span",
     kva_load_span},
    {"SELECT outcome_id,layer,n_head,n_tok,bits,(SELECT max(layer)+1 FROM kept b WHERE "
     "b.outcome_id=a.outcome_id) FROM kept a ORDER BY outcome_id,layer",
     kva_load_kept},
    {"SELECT cell_id,method,impl,claim,verdict,reason,note,value,threshold,ci_lo,ci_hi "
     "FROM an_claim a WHERE run_id=(SELECT max(run_id) FROM an_claim b WHERE "
     "b.cell_id=a.cell_id)",
     kva_load_claim},
    {"SELECT cell_id,run_id,phase,rep,ord,ns,work FROM perf_rep", kva_load_perf},
};

static enum kva_status load_one(struct kva_loader *ld, struct kva_db *db, int index)
{
    enum kva_status rc = KVA_OK;
    bool own = sqlite3_get_autocommit(db->handle) != 0;

    ld->db = db;
    ld->db_index = index;
    for (int i = 0; i < L_KINDS; i++)
        kva_map_init(&ld->local[i]);
    if (own)
        KVA_GO(kva_db_run(db, KVA_DB_BEGIN_READ, NULL, 0, NULL, NULL, ld->err));
    for (size_t i = 0; i < sizeof READS / sizeof READS[0] && rc == KVA_OK; i++)
        rc = each(ld, READS[i].sql, READS[i].fn);
    if (rc == KVA_OK)
        rc = kva_load_close_spans(ld);
    if (own)
        (void)kva_db_run(db, KVA_DB_ROLLBACK, NULL, 0, NULL, NULL, NULL);
out:
    for (int i = 0; i < L_KINDS; i++)
        kva_map_release(&ld->local[i]);
    return rc;
}

/* ---- order ---- */

#define BY_TEXT(a, b)                                                                    \
    do {                                                                                 \
        int c_ = strcmp((a), (b));                                                       \
        if (c_)                                                                          \
            return c_;                                                                   \
    } while (0)
#define BY_NUMBER(a, b)                                                                  \
    do {                                                                                 \
        if ((a) != (b))                                                                  \
            return (a) < (b) ? -1 : 1;                                                   \
    } while (0)

static int cmp_model(const void *x, const void *y, void *ctx)
{
    const struct kva_data_model *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_TEXT(a->name, b->name);
    return memcmp(a->digest, b->digest, 32);
}

static int cmp_task(const void *x, const void *y, void *ctx)
{
    const struct kva_data_task *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_TEXT(a->suite, b->suite);
    BY_TEXT(a->name, b->name);
    BY_NUMBER(a->ctx, b->ctx);
    return memcmp(a->digest, b->digest, 32);
}

static int cmp_sample(const void *x, const void *y, void *ctx)
{
    const struct kva_data_sample *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_NUMBER(a->task, b->task); /* already positions in the sorted tasks */
    BY_NUMBER(a->idx, b->idx);
    return memcmp(a->digest, b->digest, 32);
}

static int cmp_cell(const void *x, const void *y, void *ctx)
{
    const struct kva_data_cell *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_NUMBER(a->model, b->model);
    BY_NUMBER(a->task, b->task);
    BY_TEXT(a->method, b->method);
    BY_TEXT(a->budget_kind, b->budget_kind);
    BY_NUMBER(a->budget, b->budget);
    BY_TEXT(a->schedule, b->schedule);
    BY_TEXT(a->enforce, b->enforce);
    BY_TEXT(a->visibility, b->visibility);
    BY_TEXT(a->numerics, b->numerics);
    BY_TEXT(a->kv, b->kv);
    return memcmp(a->digest, b->digest, 32);
}

static int cmp_run(const void *x, const void *y, void *ctx)
{
    const struct kva_data_run *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_NUMBER(a->started_ms, b->started_ms);
    BY_TEXT(a->uuid, b->uuid);
    return 0;
}

static int cmp_outcome(const void *x, const void *y, void *ctx)
{
    const struct kva_data_outcome *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_NUMBER(a->cell, b->cell);
    BY_NUMBER(a->sample, b->sample);
    BY_NUMBER(a->rep, b->rep);
    return 0;
}

static int cmp_heads(const void *x, const void *y, void *ctx)
{
    const struct kva_data_heads *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_NUMBER(a->cell, b->cell);
    return 0;
}

static int cmp_second(const void *x, const void *y, void *ctx)
{
    const struct kva_data_second *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_NUMBER(a->cell, b->cell);
    BY_TEXT(a->metric, b->metric);
    return 0;
}

static int cmp_perf(const void *x, const void *y, void *ctx)
{
    const struct kva_data_perf *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_NUMBER(a->cell, b->cell);
    BY_TEXT(a->phase, b->phase);
    BY_NUMBER(a->run, b->run);
    BY_NUMBER(a->rep, b->rep);
    return 0;
}

static int cmp_claim(const void *x, const void *y, void *ctx)
{
    const struct kva_data_claim *a = ctx, *b = a + *(const int *)y;

    a += *(const int *)x;
    BY_NUMBER(a->cell, b->cell);
    BY_TEXT(a->impl, b->impl);
    BY_TEXT(a->claim, b->claim);
    BY_TEXT(a->verdict, b->verdict);
    return 0;
}

/* Copies a list into the arena in sorted order; new_of[old position] = new position. */
static void *sorted(struct kva_loader *ld, const void *rows, int n, size_t size,
                    int (*cmp)(const void *, const void *, void *), int **new_of)
{
    char *out = kva_arena_alloc(&ld->d->arena, (size_t)n + 1, size);
    int *order = kva_calloc((size_t)n + 1, sizeof *order);
    void *ctx = NULL;
    int *inverse = kva_calloc((size_t)n + 1, sizeof *inverse);

    if (!out || !order || !inverse) {
        free(order);
        free(inverse);
        (void)kva_load_no_memory(ld);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        order[i] = i;
    memcpy(&ctx, &rows, sizeof ctx); /* qsort_r's context carries no const */
    qsort_r(order, (size_t)n, sizeof *order, cmp, ctx);
    for (int i = 0; i < n; i++) {
        memcpy(out + size * (size_t)i, (const char *)rows + size * (size_t)order[i],
               size);
        inverse[order[i]] = i;
    }
    free(order);
    if (new_of)
        *new_of = inverse;
    else
        free(inverse);
    return out;
}

/* Strips what only loading needs: the rows' leading member is the public one. */
static void strip(struct list *l, size_t from, size_t to)
{
    char *p = l->data;

    for (int i = 0; i < l->n; i++)
        memmove(p + to * (size_t)i, p + from * (size_t)i, to);
}

static enum kva_status check_samples(struct kva_loader *ld)
{
    for (int i = 1; i < ld->d->n_samples; i++) {
        const struct kva_data_sample *a = &ld->d->samples[i - 1], *b = a + 1;

        if (a->task == b->task && a->idx == b->idx)
            return KVA_FAIL(ld->err, KVA_ECONFLICT,
                            "sample %d of task %s/%s is not the same text in all files",
                            b->idx, ld->d->tasks[b->task].suite,
                            ld->d->tasks[b->task].name);
    }
    return KVA_OK;
}

/* What is summed per cell, in the order of the sorted cells. */
static enum kva_status finish_cells(struct kva_loader *ld, const int *cell)
{
    struct kva_data *d = ld->d;

    for (int i = 0; i < ld->heads.n; i++) {
        struct kva_data_heads *h = AT(ld->heads, struct kva_data_heads, i);

        h->cell = cell[h->cell];
    }
    for (int i = 0; i < ld->seconds.n; i++) {
        struct second_row *s = AT(ld->seconds, struct second_row, i);

        s->s.cell = cell[s->s.cell];
        s->s.mean = (double)s->sum / UNIT / s->s.n;
        s->s.own = (double)s->own / UNIT / s->s.n;
    }
    strip(&ld->seconds, sizeof(struct second_row), sizeof(struct kva_data_second));
    d->heads = sorted(ld, ld->heads.data, ld->heads.n, sizeof *d->heads, cmp_heads, NULL);
    d->seconds =
        sorted(ld, ld->seconds.data, ld->seconds.n, sizeof *d->seconds, cmp_second, NULL);
    if (!d->heads || !d->seconds)
        return KVA_ENOMEM;
    for (int i = 0; i < ld->claims.n; i++) {
        struct kva_data_claim *c = AT(ld->claims, struct kva_data_claim, i);

        c->cell = cell[c->cell];
    }
    d->claims =
        sorted(ld, ld->claims.data, ld->claims.n, sizeof *d->claims, cmp_claim, NULL);
    if (!d->claims)
        return KVA_ENOMEM;
    /* the same audit in two files counts once */
    for (int i = 0; i < ld->claims.n; i++) {
        const struct kva_data_claim *c = &d->claims[i], *last = c;

        if (d->n_claims > 0)
            last = &d->claims[d->n_claims - 1];
        if (last == c || last->cell != c->cell || strcmp(last->impl, c->impl) != 0 ||
            strcmp(last->claim, c->claim) != 0)
            d->claims[d->n_claims++] = *c;
    }
    d->n_heads = ld->heads.n;
    d->n_seconds = ld->seconds.n;
    return KVA_OK;
}

static enum kva_status finish_perfs(struct kva_loader *ld, const int *cell,
                                    const int *run)
{
    struct kva_data *d = ld->d;

    for (int i = 0; i < ld->perfs.n; i++) {
        struct kva_data_perf *p = AT(ld->perfs, struct kva_data_perf, i);

        p->cell = cell[p->cell];
        p->run = run[p->run];
    }
    d->perfs = sorted(ld, ld->perfs.data, ld->perfs.n, sizeof *d->perfs, cmp_perf, NULL);
    if (!d->perfs)
        return KVA_ENOMEM;
    /* the same repetition in two files counts once */
    for (int i = 0; i < ld->perfs.n; i++) {
        const struct kva_data_perf *p = &d->perfs[i], *last = p;

        if (d->n_perfs > 0)
            last = &d->perfs[d->n_perfs - 1];
        if (last == p || last->cell != p->cell || last->run != p->run ||
            last->rep != p->rep || strcmp(last->phase, p->phase) != 0)
            d->perfs[d->n_perfs++] = *p;
    }
    return KVA_OK;
}

static enum kva_status finish(struct kva_loader *ld)
{
    struct kva_data *d = ld->d;
    int *model = NULL, *task = NULL, *sample = NULL, *cell = NULL, *run = NULL;
    enum kva_status rc = KVA_ENOMEM;

    for (int i = 0; i < ld->outcomes.n; i++) {
        struct outcome_row *r = AT(ld->outcomes, struct outcome_row, i);
        double *mean[KVA_SPAN_KINDS] = {&r->o.span_e, &r->o.span_payload, &r->o.span_d,
                                        &r->o.span_x};

        for (int k = 0; k < KVA_SPAN_KINDS; k++)
            if (r->n_span[k])
                *mean[k] = r->span[k] / r->n_span[k];
    }
    strip(&ld->tasks, sizeof(struct task_row), sizeof(struct kva_data_task));
    strip(&ld->samples, sizeof(struct sample_row), sizeof(struct kva_data_sample));
    strip(&ld->outcomes, sizeof(struct outcome_row), sizeof(struct kva_data_outcome));
    d->models =
        sorted(ld, ld->models.data, ld->models.n, sizeof *d->models, cmp_model, &model);
    d->tasks = sorted(ld, ld->tasks.data, ld->tasks.n, sizeof *d->tasks, cmp_task, &task);
    if (!d->models || !d->tasks)
        goto out;
    for (int i = 0; i < ld->samples.n; i++) {
        struct kva_data_sample *s = AT(ld->samples, struct kva_data_sample, i);
        s->task = task[s->task];
    }
    for (int i = 0; i < ld->cells.n; i++) {
        struct kva_data_cell *c = AT(ld->cells, struct kva_data_cell, i);
        c->model = model[c->model];
        c->task = task[c->task];
    }
    d->samples = sorted(ld, ld->samples.data, ld->samples.n, sizeof *d->samples,
                        cmp_sample, &sample);
    d->cells = sorted(ld, ld->cells.data, ld->cells.n, sizeof *d->cells, cmp_cell, &cell);
    d->runs = sorted(ld, ld->runs.data, ld->runs.n, sizeof *d->runs, cmp_run, &run);
    if (!d->samples || !d->cells || !d->runs)
        goto out;
    for (int i = 0; i < ld->outcomes.n; i++) {
        struct kva_data_outcome *o = AT(ld->outcomes, struct kva_data_outcome, i);
        o->cell = cell[o->cell];
        o->sample = sample[o->sample];
        o->run = run[o->run];
    }
    d->outcomes = sorted(ld, ld->outcomes.data, ld->outcomes.n, sizeof *d->outcomes,
                         cmp_outcome, NULL);
    if (!d->outcomes)
        goto out;
    KVA_GO(finish_cells(ld, cell));
    KVA_GO(finish_perfs(ld, cell, run));
    d->n_models = ld->models.n;
    d->n_tasks = ld->tasks.n;
    d->n_samples = ld->samples.n;
    d->n_cells = ld->cells.n;
    d->n_outcomes = ld->outcomes.n;
    d->n_runs = ld->runs.n;
    rc = check_samples(ld);
out:
    free(model);
    free(task);
    free(sample);
    free(cell);
    free(run);
    return rc;
}

enum kva_status kva_data_load(struct kva_db *const *dbs, int n, struct kva_data *out,
                              struct kva_error *err)
{
    struct kva_loader ld = {.d = out, .err = err};
    struct list *lists[] = {&ld.models,   &ld.tasks, &ld.samples, &ld.cells,
                            &ld.outcomes, &ld.runs,  &ld.heads,   &ld.seconds};
    struct kva_map *maps[] = {&ld.model_of,   &ld.task_of, &ld.sample_of, &ld.cell_of,
                              &ld.outcome_of, &ld.run_of,  &ld.heads_of,  &ld.second_of};
    enum kva_status rc = KVA_OK;

    memset(out, 0, sizeof *out);
    kva_arena_init(&out->arena);
    kva_arena_init(&ld.scratch);
    for (int i = 0; i < 8; i++)
        kva_map_init(maps[i]);
    for (int i = 0; i < n && rc == KVA_OK; i++)
        rc = load_one(&ld, dbs[i], i);
    if (rc == KVA_OK && n > 0)
        rc = finish(&ld);
    for (int i = 0; i < 8; i++) {
        kva_map_release(maps[i]);
        free(lists[i]->data);
    }
    free(ld.claims.data);
    free(ld.perfs.data);
    kva_arena_release(&ld.scratch);
    free(ld.open.acc);
    free(ld.row_of);
    free(ld.row_id);
    free(ld.row_fate);
    if (rc != KVA_OK)
        kva_data_release(out);
    return rc;
}

void kva_data_release(struct kva_data *d)
{
    kva_arena_release(&d->arena);
    memset(d, 0, sizeof *d);
}
