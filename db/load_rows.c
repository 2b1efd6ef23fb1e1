/* SPDX-License-Identifier: GPL-3.0-or-later */
/* load_rows.c - identity rows of one file: models, tasks, samples, cells, runs; each
 * found by digest among the rows of all files or added. */
#include "db/load.h"

#include <math.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void *kva_load_add(struct list *l, size_t size)
{
    void *slot;

    if (l->n == l->cap) {
        int cap = l->cap ? 2 * l->cap : 64;
        void *p = kva_realloc(l->data, (size_t)cap, size);

        if (!p)
            return NULL;
        l->data = p;
        l->cap = cap;
    }
    slot = (char *)l->data + size * (size_t)l->n++;
    memset(slot, 0, size);
    return slot;
}
enum kva_status kva_load_no_memory(struct kva_loader *ld)
{
    return KVA_FAIL(ld->err, KVA_ENOMEM, "%s: loading results: out of memory",
                    ld->db->path);
}

/* A column's text in the arena; NULL stays NULL unless `need`. */
char *kva_load_text(struct kva_loader *ld, sqlite3_stmt *st, int col, bool need)
{
    const char *s = (const char *)sqlite3_column_text(st, col);

    if (!s)
        return need ? kva_arena_strdup(&ld->d->arena, "") : NULL;
    return kva_arena_strdup(&ld->d->arena, s);
}

/* Few distinct words, many rows: one copy each. */
char *kva_load_word(struct kva_loader *ld, sqlite3_stmt *st, int col)
{
    const char *s = (const char *)sqlite3_column_text(st, col);
    int i = 0;

    if (!s)
        return NULL;
    for (; i < N_WORDS && ld->words[i]; i++)
        if (strcmp(ld->words[i], s) == 0)
            return ld->words[i];
    if (i == N_WORDS)
        return kva_load_text(ld, st, col, true);
    return ld->words[i] = kva_load_text(ld, st, col, true);
}

void kva_load_digest(sqlite3_stmt *st, int col, uint8_t out[32])
{
    if (sqlite3_column_bytes(st, col) == 32)
        memcpy(out, sqlite3_column_blob(st, col), 32);
}

int64_t kva_load_int(sqlite3_stmt *st, int col, int64_t none)
{
    return sqlite3_column_type(st, col) == SQLITE_NULL ? none
                                                       : sqlite3_column_int64(st, col);
}

/* Position of a digest among all files' rows; *is_new when it was not there. */
enum kva_status kva_load_place(struct kva_loader *ld, struct kva_map *all, int which,
                               int64_t local_id, const void *key, size_t len, int n,
                               int *pos, bool *is_new)
{
    int64_t at;

    *is_new = !kva_map_get(all, key, len, &at);
    if (*is_new) {
        at = n;
        KVA_TRY(kva_map_put(all, key, len, at, NULL, ld->err));
    }
    *pos = (int)at;
    if (which < 0)
        return KVA_OK;
    return kva_map_put(&ld->local[which], &local_id, sizeof local_id, at, NULL, ld->err);
}

int kva_load_local(struct kva_loader *ld, int which, int64_t id)
{
    int64_t at = -1;

    return kva_map_get(&ld->local[which], &id, sizeof id, &at) ? (int)at : -1;
}

enum kva_status kva_load_model(struct kva_loader *ld, sqlite3_stmt *st)
{
    struct kva_data_model *m;
    uint8_t digest[32] = {0};
    bool is_new;
    int pos;

    kva_load_digest(st, 1, digest);
    KVA_TRY(kva_load_place(ld, &ld->model_of, L_MODEL, sqlite3_column_int64(st, 0),
                           digest, 32, ld->models.n, &pos, &is_new));
    if (!is_new)
        return KVA_OK;
    if (!(m = ADD(ld->models, struct kva_data_model)))
        return kva_load_no_memory(ld);
    memcpy(m->digest, digest, 32);
    m->name = kva_load_text(ld, st, 2, true);
    m->arch = kva_load_text(ld, st, 3, true);
    m->wtype = kva_load_text(ld, st, 4, true);
    m->n_layer = sqlite3_column_int(st, 5);
    m->n_kv_head = sqlite3_column_int(st, 6);
    m->d_k = sqlite3_column_int(st, 7);
    m->d_v = sqlite3_column_int(st, 8);
    m->file_bytes = sqlite3_column_int64(st, 9);
    return m->name && m->arch && m->wtype ? KVA_OK : kva_load_no_memory(ld);
}

enum kva_status kva_load_task(struct kva_loader *ld, sqlite3_stmt *st)
{
    struct task_row *r;
    uint8_t digest[32] = {0};
    bool is_new;
    int pos;

    kva_load_digest(st, 1, digest);
    KVA_TRY(kva_load_place(ld, &ld->task_of, L_TASK, sqlite3_column_int64(st, 0), digest,
                           32, ld->tasks.n, &pos, &is_new));
    if (!is_new) {
        r = AT(ld->tasks, struct task_row, pos);
        if (strcmp(r->t.metric, (const char *)sqlite3_column_text(st, 5)) != 0 ||
            r->metric_version != sqlite3_column_int(st, 6))
            return KVA_FAIL(
                ld->err, KVA_ECONFLICT,
                "%s: task %s/%s is scored with another metric than in an earlier "
                "file (%s version %d): rescore one of them",
                ld->db->path, r->t.suite, r->t.name, r->t.metric, r->metric_version);
        return KVA_OK;
    }
    if (!(r = ADD(ld->tasks, struct task_row)))
        return kva_load_no_memory(ld);
    memcpy(r->t.digest, digest, 32);
    r->t.suite = kva_load_text(ld, st, 2, true);
    r->t.name = kva_load_text(ld, st, 3, true);
    r->t.domain = kva_load_text(ld, st, 4, true);
    r->t.metric = kva_load_text(ld, st, 5, true);
    r->metric_version = sqlite3_column_int(st, 6);
    r->t.binary = sqlite3_column_int(st, 7) != 0;
    r->t.guess_floor = sqlite3_column_double(st, 8);
    r->t.gen_json = kva_load_text(ld, st, 9, true);
    r->t.ctx = (int)kva_load_int(st, 10, 0);
    return r->t.suite && r->t.name && r->t.domain && r->t.metric && r->t.gen_json
               ? KVA_OK
               : kva_load_no_memory(ld);
}

/* "D5.2" of group "D5": parts of one span are one span. */
void kva_load_group(const char *id, char out[16])
{
    size_t n = strcspn(id, ".");

    n = n < 15 ? n : 15;
    memcpy(out, id, n);
    out[n] = 0;
}

int kva_load_letter(const char *id)
{
    static const char LETTERS[] = "EPDX";
    const char *at = id[0] ? strchr(LETTERS, id[0]) : NULL;

    return at ? (int)(at - LETTERS) : KVA_SPAN_KINDS;
}

/* Is the evidence `id` asked for? Evidence that is not listed is. */
static bool is_queried(const json_t *spans, const char *id)
{
    json_t *span;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)spans, i, span)
    {
        const char *name = json_string_value(json_object_get(span, "id"));
        char group[16];

        if (!name)
            continue;
        kva_load_group(name, group);
        if (strcmp(group, id) == 0)
            return !json_is_false(json_object_get(span, "queried"));
    }
    return true;
}

static enum kva_status spans_of(struct kva_loader *ld, const json_t *spans,
                                struct sample_row *r)
{
    size_t n = json_array_size(spans);

    if (n == 0)
        return KVA_OK;
    r->span = kva_arena_alloc(&ld->scratch, n, sizeof *r->span);
    if (!r->span)
        return kva_load_no_memory(ld);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(spans, i);
        const char *id = json_string_value(json_object_get(o, "id"));
        const char *match = json_string_value(json_object_get(o, "match"));
        struct span_row *span = &r->span[r->n_span];
        char of[16];
        int k = 0;

        if (!id)
            continue;
        kva_load_group(id, span->id);
        while (k < r->n_span && strcmp(r->span[k].id, span->id) != 0)
            k++;
        if (k < r->n_span)
            continue;
        span->kind = kva_load_letter(span->id);
        kva_load_group(match && match[0] ? match : span->id, of);
        if (span->kind < KVA_SPAN_X && of[0] == 'E' && !is_queried(spans, of))
            span->kind = KVA_SPAN_KINDS;
        r->n_span++;
    }
    return KVA_OK;
}

/* Depth, turn and labelled spans of a sample. */
static enum kva_status meta_of(struct kva_loader *ld, struct sample_row *r)
{
    const char *meta = r->s.meta_json;
    json_t *v, *depth;
    json_error_t why;
    enum kva_status rc;

    r->s.depth = -1;
    /* imported samples have none of them: do not parse */
    if (!strstr(meta, "\"depth\"") && !strstr(meta, "\"spans\"") &&
        !strstr(meta, "\"turn\""))
        return KVA_OK;
    v = json_loads(meta, 0, &why);
    if (!v && kva_json_no_memory(&why))
        return kva_load_no_memory(ld);
    if (!v)
        return KVA_FAIL(ld->err, KVA_EFORMAT, "%s: meta_json of a sample: %s",
                        ld->db->path, why.text);
    depth = json_object_get(v, "depth");
    if (json_is_number(depth))
        r->s.depth = json_number_value(depth);
    r->s.turn = (int)json_integer_value(json_object_get(v, "turn"));
    rc = spans_of(ld, json_object_get(v, "spans"), r);
    json_decref(v);
    return rc;
}

enum kva_status kva_load_sample(struct kva_loader *ld, sqlite3_stmt *st)
{
    struct sample_row *r;
    struct kva_data_sample *s;
    uint8_t digest[32] = {0};
    bool is_new;
    int pos;

    kva_load_digest(st, 1, digest);
    KVA_TRY(kva_load_place(ld, &ld->sample_of, L_SAMPLE, sqlite3_column_int64(st, 0),
                           digest, 32, ld->samples.n, &pos, &is_new));
    if (!is_new)
        return KVA_OK;
    if (!(r = ADD(ld->samples, struct sample_row)))
        return kva_load_no_memory(ld);
    s = &r->s;
    memcpy(s->digest, digest, 32);
    s->task = kva_load_local(ld, L_TASK, sqlite3_column_int64(st, 2));
    s->idx = sqlite3_column_int(st, 3);
    s->cluster = kva_load_text(ld, st, 4, true);
    s->meta_json = kva_load_text(ld, st, 5, true);
    s->refs_json = kva_load_text(ld, st, 6, true);
    if (!s->cluster || !s->meta_json || !s->refs_json)
        return kva_load_no_memory(ld);
    KVA_TRY(meta_of(ld, r));
    return s->task >= 0 ? KVA_OK
                        : KVA_FAIL(ld->err, KVA_EDB, "%s: a sample without its task",
                                   ld->db->path);
}

enum kva_status kva_load_cell(struct kva_loader *ld, sqlite3_stmt *st)
{
    struct kva_data_cell *c;
    uint8_t digest[32] = {0};
    bool is_new;
    int pos, n_expected = sqlite3_column_int(st, 16);

    kva_load_digest(st, 1, digest);
    KVA_TRY(kva_load_place(ld, &ld->cell_of, L_CELL, sqlite3_column_int64(st, 0), digest,
                           32, ld->cells.n, &pos, &is_new));
    if (!is_new) {
        c = AT(ld->cells, struct kva_data_cell, pos);
        c->n_expected = n_expected > c->n_expected ? n_expected : c->n_expected;
        return KVA_OK;
    }
    if (!(c = ADD(ld->cells, struct kva_data_cell)))
        return kva_load_no_memory(ld);
    memcpy(c->digest, digest, 32);
    kva_load_digest(st, 2, c->dense_key);
    c->slug = kva_load_text(ld, st, 3, true);
    c->model = kva_load_local(ld, L_MODEL, sqlite3_column_int64(st, 4));
    c->task = kva_load_local(ld, L_TASK, sqlite3_column_int64(st, 5));
    c->method = kva_load_text(ld, st, 6, true);
    c->oracle = sqlite3_column_int(st, 7) != 0;
    c->budget_kind = kva_load_text(ld, st, 8, true);
    c->budget = sqlite3_column_double(st, 9);
    c->schedule = kva_load_text(ld, st, 10, true);
    c->enforce = kva_load_text(ld, st, 11, true);
    c->visibility = kva_load_text(ld, st, 12, true);
    c->numerics = kva_load_text(ld, st, 13, true);
    c->kv = kva_load_text(ld, st, 14, true);
    c->spec_json = kva_load_text(ld, st, 15, true);
    if (sqlite3_column_type(st, 17) == SQLITE_TEXT) {
        c->sampling = kva_load_text(ld, st, 17, true);
        if (!c->sampling)
            return kva_load_no_memory(ld);
        if (!c->sampling[0] || strcmp(c->sampling, "greedy") == 0)
            c->sampling = NULL;
    }
    c->n_expected = n_expected;
    if (!c->slug || !c->method || !c->budget_kind || !c->schedule || !c->enforce ||
        !c->visibility || !c->numerics || !c->kv || !c->spec_json)
        return kva_load_no_memory(ld);
    return c->model >= 0 && c->task >= 0
               ? KVA_OK
               : KVA_FAIL(ld->err, KVA_EDB, "%s: a cell without its model or task",
                          ld->db->path);
}

enum kva_status kva_load_run(struct kva_loader *ld, sqlite3_stmt *st)
{
    const char *uuid = (const char *)sqlite3_column_text(st, 0);
    struct kva_data_run *r;
    int64_t ended = kva_load_int(st, 5, -1);
    bool is_new;
    int pos;

    KVA_TRY(kva_load_place(ld, &ld->run_of, L_RUN, sqlite3_column_int64(st, 13), uuid,
                           strlen(uuid), ld->runs.n, &pos, &is_new));
    if (is_new && !ADD(ld->runs, struct kva_data_run))
        return kva_load_no_memory(ld);
    r = AT(ld->runs, struct kva_data_run, pos);
    if (!is_new && ended <= r->ended_ms) /* a copy that knows the end wins */
        return KVA_OK;
    r->uuid = kva_load_text(ld, st, 0, true);
    r->status = kva_load_text(ld, st, 1, true);
    r->label = kva_load_text(ld, st, 2, true);
    r->config_json = kva_load_text(ld, st, 3, true);
    r->started_ms = sqlite3_column_int64(st, 4);
    r->ended_ms = ended;
    r->git_commit = kva_load_text(ld, st, 6, true);
    r->git_dirty = sqlite3_column_int(st, 7);
    r->cpu_model = kva_load_text(ld, st, 8, true);
    r->cflags = kva_load_text(ld, st, 9, true);
    r->compiler = kva_load_text(ld, st, 10, true);
    kva_load_digest(st, 11, r->config_sha256);
    r->argv_json = kva_load_text(ld, st, 12, true);
    r->backend = kva_load_text(ld, st, 14, true);
    r->shard_i = sqlite3_column_int(st, 15);
    r->shard_n = sqlite3_column_int(st, 16);
    kva_load_digest(st, 17, r->perf_digest);
    r->cpu_logical = sqlite3_column_int(st, 18);
    r->ram_bytes = sqlite3_column_int64(st, 19);
    r->gpu_name = kva_load_text(ld, st, 20, false);
    r->driver = kva_load_text(ld, st, 21, false);
    r->env_json = kva_load_text(ld, st, 22, true);
    r->cuda_runtime = kva_load_text(ld, st, 23, false);
    r->gpu_bytes = sqlite3_column_int64(st, 24);
    return r->uuid && r->status && r->label && r->config_json && r->git_commit &&
                   r->cpu_model && r->cflags && r->compiler && r->argv_json &&
                   r->backend && r->env_json
               ? KVA_OK
               : kva_load_no_memory(ld);
}

static double real_or_nan(sqlite3_stmt *st, int col)
{
    return sqlite3_column_type(st, col) == SQLITE_NULL ? (double)NAN
                                                       : sqlite3_column_double(st, col);
}

enum kva_status kva_load_claim(struct kva_loader *ld, sqlite3_stmt *st)
{
    int cell = kva_load_local(ld, L_CELL, sqlite3_column_int64(st, 0));
    struct kva_data_claim *c;

    if (cell < 0)
        return KVA_FAIL(ld->err, KVA_EDB, "%s: a claim without its cell", ld->db->path);
    c = ADD(ld->claims, struct kva_data_claim);
    if (!c)
        return kva_load_no_memory(ld);
    c->cell = cell;
    c->method = kva_load_text(ld, st, 1, true);
    c->impl = kva_load_text(ld, st, 2, true);
    c->claim = kva_load_text(ld, st, 3, true);
    c->verdict = kva_load_text(ld, st, 4, true);
    c->reason = kva_load_text(ld, st, 5, false);
    c->note = kva_load_text(ld, st, 6, false);
    c->value = real_or_nan(st, 7);
    c->threshold = real_or_nan(st, 8);
    c->lo = real_or_nan(st, 9);
    c->hi = real_or_nan(st, 10);
    if (!c->method || !c->impl || !c->claim || !c->verdict)
        return kva_load_no_memory(ld);
    return KVA_OK;
}

enum kva_status kva_load_perf(struct kva_loader *ld, sqlite3_stmt *st)
{
    struct kva_data_perf p = {
        .cell = kva_load_local(ld, L_CELL, sqlite3_column_int64(st, 0)),
        .run = kva_load_local(ld, L_RUN, sqlite3_column_int64(st, 1)),
        .phase = kva_load_text(ld, st, 2, true),
        .rep = sqlite3_column_int(st, 3),
        .ord = sqlite3_column_int(st, 4),
        .ns = sqlite3_column_int64(st, 5),
        .work = sqlite3_column_int64(st, 6)};
    struct kva_data_perf *row;

    if (p.cell < 0 || p.run < 0)
        return KVA_FAIL(ld->err, KVA_EDB, "%s: a repetition without its cell or run",
                        ld->db->path);
    row = ADD(ld->perfs, struct kva_data_perf);
    if (!p.phase || !row)
        return kva_load_no_memory(ld);
    *row = p;
    return KVA_OK;
}
