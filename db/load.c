/* SPDX-License-Identifier: GPL-3.0-or-later */
/* load.c - everything reports need, from one or several files, joined and sorted by
 * labels.
 *
 * Ids are local to a file, so rows meet by digest: each file's ids are mapped to
 * positions in the joined arrays. The order is by labels (names, numbers, strings),
 * digests break ties, so neither the order of the files nor the order of the work changes
 * a report. Each file is read inside one read transaction; child tables are read in
 * outcome_id order and merged, never joined per row. */
#include "db/db_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* While loading. Arrays grow by doubling and are copied into the arena when their size is
 * known. */
struct list {
    void *data;
    int n, cap;
};

struct outcome_row {
    struct kva_data_outcome o; /* cell, sample: positions in the joined lists */
    uint8_t gen_sha256[32];
    bool has_gen, has_shared;
    double span[3]; /* sums of survival over spans E, P, D */
    int n_span[3];
};

struct task_row {
    struct kva_data_task t;
    int metric_version;
};

enum { N_WORDS = 16 };

struct loader {
    struct kva_data *d;
    struct kva_error *err;
    struct list models, tasks, samples, cells, outcomes, runs;
    struct kva_map model_of, task_of, sample_of, cell_of, outcome_of,
        run_of;              /* key -> position */
    struct kva_map local[4]; /* this file's ids: model, task, sample, cell -> position */
    int *row_of; /* per outcome of this file in id order: position in outcomes */
    int64_t *row_id;
    uint8_t *row_fate; /* what became of it */
    int n_row;
    char *words[N_WORDS]; /* statuses and stops */
    struct kva_db *db;
    int db_index;
};
enum { L_MODEL, L_TASK, L_SAMPLE, L_CELL };
/* EQUAL: another file's copy is shown, measurements it lacks are still taken from this
 * one */
enum { LOST, TAKEN, EQUAL };

static void *list_add(struct list *l, size_t size)
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
#define ADD(list, type)   ((type *)list_add(&(list), sizeof(type)))
#define AT(list, type, i) (&((type *)(list).data)[i])

static enum kva_status no_memory(struct loader *ld)
{
    return KVA_FAIL(ld->err, KVA_ENOMEM, "%s: loading results: out of memory",
                    ld->db->path);
}

/* A column's text in the arena; NULL stays NULL unless `need`. */
static char *text(struct loader *ld, sqlite3_stmt *st, int col, bool need)
{
    const char *s = (const char *)sqlite3_column_text(st, col);

    if (!s)
        return need ? kva_arena_strdup(&ld->d->arena, "") : NULL;
    return kva_arena_strdup(&ld->d->arena, s);
}

/* Few distinct words, many rows: one copy each. */
static char *word(struct loader *ld, sqlite3_stmt *st, int col)
{
    const char *s = (const char *)sqlite3_column_text(st, col);
    int i = 0;

    if (!s)
        return NULL;
    for (; i < N_WORDS && ld->words[i]; i++)
        if (strcmp(ld->words[i], s) == 0)
            return ld->words[i];
    if (i == N_WORDS)
        return text(ld, st, col, true);
    return ld->words[i] = text(ld, st, col, true);
}

static void digest_of(sqlite3_stmt *st, int col, uint8_t out[32])
{
    if (sqlite3_column_bytes(st, col) == 32)
        memcpy(out, sqlite3_column_blob(st, col), 32);
}

static int64_t int_or(sqlite3_stmt *st, int col, int64_t none)
{
    return sqlite3_column_type(st, col) == SQLITE_NULL ? none
                                                       : sqlite3_column_int64(st, col);
}

typedef enum kva_status (*row_fn)(struct loader *ld, sqlite3_stmt *st);

static enum kva_status each(struct loader *ld, const char *sql, row_fn fn)
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

/* Position of a digest among all files' rows; *is_new when it was not there. */
static enum kva_status place(struct loader *ld, struct kva_map *all, int which,
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

static int local_pos(struct loader *ld, int which, int64_t id)
{
    int64_t at = -1;

    return kva_map_get(&ld->local[which], &id, sizeof id, &at) ? (int)at : -1;
}

static enum kva_status on_model(struct loader *ld, sqlite3_stmt *st)
{
    struct kva_data_model *m;
    uint8_t digest[32] = {0};
    bool is_new;
    int pos;

    digest_of(st, 1, digest);
    KVA_TRY(place(ld, &ld->model_of, L_MODEL, sqlite3_column_int64(st, 0), digest, 32,
                  ld->models.n, &pos, &is_new));
    if (!is_new)
        return KVA_OK;
    if (!(m = ADD(ld->models, struct kva_data_model)))
        return no_memory(ld);
    memcpy(m->digest, digest, 32);
    m->name = text(ld, st, 2, true);
    m->arch = text(ld, st, 3, true);
    m->wtype = text(ld, st, 4, true);
    m->n_layer = sqlite3_column_int(st, 5);
    m->n_kv_head = sqlite3_column_int(st, 6);
    m->d_k = sqlite3_column_int(st, 7);
    m->d_v = sqlite3_column_int(st, 8);
    m->file_bytes = sqlite3_column_int64(st, 9);
    return m->name && m->arch && m->wtype ? KVA_OK : no_memory(ld);
}

static enum kva_status on_task(struct loader *ld, sqlite3_stmt *st)
{
    struct task_row *r;
    uint8_t digest[32] = {0};
    bool is_new;
    int pos;

    digest_of(st, 1, digest);
    KVA_TRY(place(ld, &ld->task_of, L_TASK, sqlite3_column_int64(st, 0), digest, 32,
                  ld->tasks.n, &pos, &is_new));
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
        return no_memory(ld);
    memcpy(r->t.digest, digest, 32);
    r->t.suite = text(ld, st, 2, true);
    r->t.name = text(ld, st, 3, true);
    r->t.domain = text(ld, st, 4, true);
    r->t.metric = text(ld, st, 5, true);
    r->metric_version = sqlite3_column_int(st, 6);
    r->t.binary = sqlite3_column_int(st, 7) != 0;
    r->t.guess_floor = sqlite3_column_double(st, 8);
    r->t.gen_json = text(ld, st, 9, true);
    r->t.ctx = (int)int_or(st, 10, 0);
    return r->t.suite && r->t.name && r->t.domain && r->t.metric && r->t.gen_json
               ? KVA_OK
               : no_memory(ld);
}

/* -1 when the sample has none. */
static enum kva_status depth_of(struct loader *ld, const char *meta_json, double *depth)
{
    json_t *v;
    json_error_t why;

    *depth = -1;
    if (!strstr(meta_json, "\"depth\"")) /* most samples have none: do not parse */
        return KVA_OK;
    v = json_loads(meta_json, 0, &why);
    if (!v && kva_json_no_memory(&why))
        return no_memory(ld);
    if (!v)
        return KVA_FAIL(ld->err, KVA_EFORMAT, "%s: meta_json of a sample: %s",
                        ld->db->path, why.text);
    if (json_is_number(json_object_get(v, "depth")))
        *depth = json_number_value(json_object_get(v, "depth"));
    json_decref(v);
    return KVA_OK;
}

static enum kva_status on_sample(struct loader *ld, sqlite3_stmt *st)
{
    struct kva_data_sample *s;
    uint8_t digest[32] = {0};
    bool is_new;
    int pos;

    digest_of(st, 1, digest);
    KVA_TRY(place(ld, &ld->sample_of, L_SAMPLE, sqlite3_column_int64(st, 0), digest, 32,
                  ld->samples.n, &pos, &is_new));
    if (!is_new)
        return KVA_OK;
    if (!(s = ADD(ld->samples, struct kva_data_sample)))
        return no_memory(ld);
    memcpy(s->digest, digest, 32);
    s->task = local_pos(ld, L_TASK, sqlite3_column_int64(st, 2));
    s->idx = sqlite3_column_int(st, 3);
    s->cluster = text(ld, st, 4, true);
    s->meta_json = text(ld, st, 5, true);
    s->refs_json = text(ld, st, 6, true);
    if (!s->cluster || !s->meta_json || !s->refs_json)
        return no_memory(ld);
    KVA_TRY(depth_of(ld, s->meta_json, &s->depth));
    return s->task >= 0 ? KVA_OK
                        : KVA_FAIL(ld->err, KVA_EDB, "%s: a sample without its task",
                                   ld->db->path);
}

static enum kva_status on_cell(struct loader *ld, sqlite3_stmt *st)
{
    struct kva_data_cell *c;
    uint8_t digest[32] = {0};
    bool is_new;
    int pos, n_expected = sqlite3_column_int(st, 16);

    digest_of(st, 1, digest);
    KVA_TRY(place(ld, &ld->cell_of, L_CELL, sqlite3_column_int64(st, 0), digest, 32,
                  ld->cells.n, &pos, &is_new));
    if (!is_new) {
        c = AT(ld->cells, struct kva_data_cell, pos);
        c->n_expected = n_expected > c->n_expected ? n_expected : c->n_expected;
        return KVA_OK;
    }
    if (!(c = ADD(ld->cells, struct kva_data_cell)))
        return no_memory(ld);
    memcpy(c->digest, digest, 32);
    digest_of(st, 2, c->dense_key);
    c->slug = text(ld, st, 3, true);
    c->model = local_pos(ld, L_MODEL, sqlite3_column_int64(st, 4));
    c->task = local_pos(ld, L_TASK, sqlite3_column_int64(st, 5));
    c->method = text(ld, st, 6, true);
    c->oracle = sqlite3_column_int(st, 7) != 0;
    c->budget_kind = text(ld, st, 8, true);
    c->budget = sqlite3_column_double(st, 9);
    c->schedule = text(ld, st, 10, true);
    c->enforce = text(ld, st, 11, true);
    c->visibility = text(ld, st, 12, true);
    c->numerics = text(ld, st, 13, true);
    c->kv = text(ld, st, 14, true);
    c->spec_json = text(ld, st, 15, true);
    c->n_expected = n_expected;
    if (!c->slug || !c->method || !c->budget_kind || !c->schedule || !c->enforce ||
        !c->visibility || !c->numerics || !c->kv || !c->spec_json)
        return no_memory(ld);
    return c->model >= 0 && c->task >= 0
               ? KVA_OK
               : KVA_FAIL(ld->err, KVA_EDB, "%s: a cell without its model or task",
                          ld->db->path);
}

static enum kva_status on_run(struct loader *ld, sqlite3_stmt *st)
{
    const char *uuid = (const char *)sqlite3_column_text(st, 0);
    struct kva_data_run *r;
    int64_t ended = int_or(st, 5, -1);
    bool is_new;
    int pos;

    KVA_TRY(place(ld, &ld->run_of, -1, 0, uuid, strlen(uuid), ld->runs.n, &pos, &is_new));
    if (is_new && !ADD(ld->runs, struct kva_data_run))
        return no_memory(ld);
    r = AT(ld->runs, struct kva_data_run, pos);
    if (!is_new && ended <= r->ended_ms) /* a copy that knows the end wins */
        return KVA_OK;
    r->uuid = text(ld, st, 0, true);
    r->status = text(ld, st, 1, true);
    r->label = text(ld, st, 2, true);
    r->config_json = text(ld, st, 3, true);
    r->started_ms = sqlite3_column_int64(st, 4);
    r->ended_ms = ended;
    r->git_commit = text(ld, st, 6, true);
    r->git_dirty = sqlite3_column_int(st, 7);
    r->cpu_model = text(ld, st, 8, true);
    r->cflags = text(ld, st, 9, true);
    r->compiler = text(ld, st, 10, true);
    digest_of(st, 11, r->config_sha256);
    r->argv_json = text(ld, st, 12, true);
    return r->uuid && r->status && r->label && r->config_json && r->git_commit &&
                   r->cpu_model && r->cflags && r->compiler && r->argv_json
               ? KVA_OK
               : no_memory(ld);
}

/* ---- outcomes ---- */

static bool is_terminal(const char *status)
{
    return strcmp(status, "ok") == 0 || strcmp(status, "truncated") == 0 ||
           strcmp(status, "skipped") == 0;
}

static bool same_double(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* The same (cell, sample, rep) in two files: equal counts once, a terminal row beats a
 * failed one, two different terminal rows cannot both be true. */
static enum kva_status meet(struct loader *ld, struct outcome_row *old,
                            const struct outcome_row *neu, bool *replace)
{
    bool t_old = is_terminal(old->o.status), t_new = is_terminal(neu->o.status);

    *replace = t_new && !t_old;
    if (!t_old || !t_new)
        return KVA_OK;
    if (strcmp(old->o.status, neu->o.status) == 0 &&
        same_double(old->o.score, neu->o.score) && old->has_gen == neu->has_gen &&
        memcmp(old->gen_sha256, neu->gen_sha256, 32) == 0)
        return KVA_OK;
    return KVA_FAIL(
        ld->err, KVA_ECONFLICT,
        "%s: cell %s sample %d rep %d differs from the outcome in another file "
        "(%s %.6f against %s %.6f)",
        ld->db->path, AT(ld->cells, struct kva_data_cell, neu->o.cell)->slug,
        AT(ld->samples, struct kva_data_sample, neu->o.sample)->idx, neu->o.rep,
        neu->o.status, neu->o.score, old->o.status, old->o.score);
}

static enum kva_status on_outcome(struct loader *ld, sqlite3_stmt *st)
{
    struct outcome_row r, *slot;
    int32_t key[3];
    bool is_new, replace = false;
    int pos;

    memset(&r, 0, sizeof r);
    r.o.outcome_id = sqlite3_column_int64(st, 0);
    r.o.db = ld->db_index;
    r.o.cell = local_pos(ld, L_CELL, sqlite3_column_int64(st, 1));
    r.o.sample = local_pos(ld, L_SAMPLE, sqlite3_column_int64(st, 2));
    if (r.o.cell < 0 || r.o.sample < 0)
        return KVA_FAIL(ld->err, KVA_EDB, "%s: an outcome without its cell or sample",
                        ld->db->path);
    r.o.rep = sqlite3_column_int(st, 3);
    r.o.status = word(ld, st, 4);
    r.o.score = sqlite3_column_type(st, 5) == SQLITE_NULL ? (double)NAN
                                                          : sqlite3_column_double(st, 5);
    r.o.gold_nll = r.o.span_e = r.o.span_payload = r.o.span_d = NAN;
    r.o.n_ctx = sqlite3_column_int(st, 6);
    r.o.n_question = sqlite3_column_int(st, 7);
    r.o.n_gen = sqlite3_column_int(st, 8);
    r.o.n_cut = sqlite3_column_int(st, 9);
    r.o.kept_fnv = (uint64_t)sqlite3_column_int64(st, 10);
    r.o.stop = word(ld, st, 11);
    r.has_gen = sqlite3_column_type(st, 12) != SQLITE_NULL;
    digest_of(st, 12, r.gen_sha256);
    r.o.error = text(ld, st, 13, false);
    if (!r.o.status)
        return no_memory(ld);
    key[0] = r.o.cell;
    key[1] = r.o.sample;
    key[2] = r.o.rep;
    KVA_TRY(place(ld, &ld->outcome_of, -1, 0, key, sizeof key, ld->outcomes.n, &pos,
                  &is_new));
    if (is_new && !ADD(ld->outcomes, struct outcome_row))
        return no_memory(ld);
    slot = AT(ld->outcomes, struct outcome_row, pos);
    if (!is_new)
        KVA_TRY(meet(ld, slot, &r, &replace));
    if (is_new || replace)
        *slot = r;
    ld->row_id[ld->n_row] = r.o.outcome_id;
    ld->row_of[ld->n_row] = pos;
    if (is_new || replace)
        ld->row_fate[ld->n_row++] = TAKEN;
    else if (is_terminal(slot->o.status) && is_terminal(r.o.status))
        ld->row_fate[ld->n_row++] = EQUAL;
    else
        ld->row_fate[ld->n_row++] = LOST;
    return KVA_OK;
}

/* The row an outcome_id of this file went to; *fresh: this file's copy is the one that
 * was taken. NULL when the row lost against another file's. */
static struct outcome_row *row_of(struct loader *ld, int64_t id, bool *fresh)
{
    int lo = 0, hi = ld->n_row;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (ld->row_id[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == ld->n_row || ld->row_id[lo] != id || ld->row_fate[lo] == LOST)
        return NULL;
    *fresh = ld->row_fate[lo] == TAKEN;
    return AT(ld->outcomes, struct outcome_row, ld->row_of[lo]);
}

static enum kva_status on_gold(struct loader *ld, sqlite3_stmt *st)
{
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);

    if (r && (fresh || isnan(r->o.gold_nll))) /* versions ascend: the newest stays */
        r->o.gold_nll = sqlite3_column_double(st, 1);
    return KVA_OK;
}

static enum kva_status on_memory(struct loader *ld, sqlite3_stmt *st)
{
    bool fresh, alone = strcmp((const char *)sqlite3_column_text(st, 1), "alone") == 0;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);
    struct kva_db_memory m = {.exec = alone ? KVA_EXEC_ALONE : KVA_EXEC_SHARED};

    if (!r || (alone ? r->o.has_alone : r->has_shared))
        return KVA_OK;
    m.kv_dense_bytes = sqlite3_column_int64(st, 2);
    m.kv_budget_bytes = sqlite3_column_int64(st, 3);
    m.kv_live_bytes = sqlite3_column_int64(st, 4);
    m.kv_alloc_bytes = sqlite3_column_int64(st, 5);
    m.kv_meta_bytes = sqlite3_column_int64(st, 6);
    m.kv_peak_bytes = sqlite3_column_int64(st, 7);
    m.kv_end_bytes = sqlite3_column_int64(st, 8);
    m.kv_local_bytes = sqlite3_column_int64(st, 9);
    m.state_bytes = sqlite3_column_int64(st, 10);
    m.kv_committed_bytes = sqlite3_column_int64(st, 11);
    m.scratch_peak_bytes = int_or(st, 12, -1);
    m.weight_bytes = int_or(st, 13, -1);
    m.dev_delta_bytes = int_or(st, 14, -1);
    m.dev_peak_bytes = int_or(st, 15, -1);
    m.host_peak_bytes = int_or(st, 16, -1);
    m.entries_kept = sqlite3_column_int64(st, 17);
    m.entries_masked = sqlite3_column_int64(st, 18);
    m.audit = sqlite3_column_int(st, 19);
    if (alone) {
        r->o.alone = m;
        r->o.has_alone = true;
    } else {
        r->has_shared = true;
    }
    if (!alone || !r->has_shared)
        r->o.memory = m;
    r->o.has_memory = true;
    return KVA_OK;
}

static enum kva_status on_timing(struct loader *ld, sqlite3_stmt *st)
{
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);
    static const char MONOTONIC[] = "monotonic";
    const char *clock = (const char *)sqlite3_column_text(st, 9);

    if (!r || r->o.has_timing)
        return KVA_OK;
    r->o.has_timing = true;
    r->o.timing.exec = KVA_EXEC_ALONE;
    r->o.timing.prefill_ns = int_or(st, 1, -1);
    r->o.timing.score_ns = int_or(st, 2, -1);
    r->o.timing.evict_ns = int_or(st, 3, -1);
    r->o.timing.question_ns = int_or(st, 4, -1);
    r->o.timing.ttft_ns = int_or(st, 5, -1);
    r->o.timing.decode_ns = int_or(st, 6, -1);
    r->o.timing.decode_p50_ns = int_or(st, 7, -1);
    r->o.timing.decode_p99_ns = int_or(st, 8, -1);
    r->o.timing.clock = strcmp(clock, MONOTONIC) == 0 ? MONOTONIC : text(ld, st, 9, true);
    return r->o.timing.clock ? KVA_OK : no_memory(ld);
}

/* Survival of a span: tokens held over tokens, mean over layers and KV heads; then mean
 * over the spans of one letter. */
static enum kva_status on_span(struct loader *ld, sqlite3_stmt *st)
{
    static const char LETTERS[] = "EPD";
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);
    const char *name = (const char *)sqlite3_column_text(st, 1);
    const char *letter = name[0] ? strchr(LETTERS, name[0]) : NULL;
    const uint8_t *kept = sqlite3_column_blob(st, 3);
    int n = sqlite3_column_bytes(st, 3) / 2, k = letter ? (int)(letter - LETTERS) : -1;
    double sum = 0;

    if (!r || !fresh || k < 0 || n == 0)
        return KVA_OK;
    for (int i = 0; i < n; i++)
        sum += kept[2 * i] + 256 * kept[2 * i + 1];
    r->span[k] += sum / (n * sqlite3_column_double(st, 2));
    r->n_span[k]++;
    return KVA_OK;
}

static enum kva_status on_count(struct loader *ld, sqlite3_stmt *st)
{
    size_t n = (size_t)sqlite3_column_int64(st, 0);

    free(ld->row_of);
    free(ld->row_id);
    free(ld->row_fate);
    ld->row_of = kva_calloc(n, sizeof *ld->row_of);
    ld->row_id = kva_calloc(n, sizeof *ld->row_id);
    ld->row_fate = kva_calloc(n, 1);
    ld->n_row = 0;
    return ld->row_of && ld->row_id && ld->row_fate ? KVA_OK : no_memory(ld);
}

static const struct {
    const char *sql;
    row_fn fn;
} READS[] = {
    {"SELECT model_id,digest,name,arch,wtype,n_layer,n_kv_head,d_k,d_v,file_bytes FROM "
     "model",
     on_model},
    {"SELECT task_id,digest,suite,name,domain,metric,metric_version,metric_kind='binary',"
     "guess_floor,gen_json,ctx_target FROM task",
     on_task},
    {"SELECT sample_id,digest,task_id,idx,cluster,meta_json,refs_json FROM sample",
     on_sample},
    {"SELECT "
     "cell_id,c.digest,dense_key,slug,model_id,task_id,h.name,h.oracle,budget_kind,"
     "budget,"
     "schedule,enforce,visibility,numerics,kv,spec_json,n_expected FROM cell c "
     "JOIN method h USING(method_id) LEFT JOIN v_plan USING(cell_id)",
     on_cell},
    {"SELECT "
     "uuid,status,label,config_json,started_ms,ended_ms,git_commit,git_dirty,cpu_model,"
     "cflags,compiler,config_sha256,argv_json FROM run JOIN env USING(env_id)",
     on_run},
    {"SELECT count(*) FROM outcome", on_count},
    {"SELECT "
     "outcome_id,cell_id,sample_id,rep,status,score,n_ctx,n_question,n_gen,n_cut,kept_"
     "fnv,"
     "stop,gen_sha256,error FROM outcome ORDER BY outcome_id",
     on_outcome},
    {"SELECT outcome_id,value FROM score WHERE metric='gold_nll' ORDER BY "
     "outcome_id,version",
     on_gold},
    {"SELECT outcome_id,exec,kv_dense_bytes,kv_budget_bytes,kv_live_bytes,kv_alloc_bytes,"
     "kv_meta_bytes,kv_peak_bytes,kv_end_bytes,kv_local_bytes,state_bytes,kv_committed_"
     "bytes,"
     "scratch_peak_bytes,weight_bytes,dev_delta_bytes,dev_peak_bytes,host_peak_bytes,"
     "entries_kept,entries_masked,audit FROM memory",
     on_memory},
    {"SELECT outcome_id,prefill_ns,score_ns,evict_ns,question_ns,ttft_ns,decode_ns,"
     "decode_p50_ns,decode_p99_ns,clock FROM timing WHERE exec='alone'",
     on_timing},
    {"SELECT outcome_id,span,n_tok,kept FROM span_kept", on_span},
};

static enum kva_status load_one(struct loader *ld, struct kva_db *db, int index)
{
    enum kva_status rc = KVA_OK;
    bool own = sqlite3_get_autocommit(db->handle) != 0;

    ld->db = db;
    ld->db_index = index;
    for (int i = 0; i < 4; i++)
        kva_map_init(&ld->local[i]);
    if (own)
        KVA_GO(kva_db_run(db, KVA_DB_BEGIN_READ, NULL, 0, NULL, NULL, ld->err));
    for (size_t i = 0; i < sizeof READS / sizeof READS[0] && rc == KVA_OK; i++)
        rc = each(ld, READS[i].sql, READS[i].fn);
    if (own)
        (void)kva_db_run(db, KVA_DB_ROLLBACK, NULL, 0, NULL, NULL, NULL);
out:
    for (int i = 0; i < 4; i++)
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

/* Copies a list into the arena in sorted order; new_of[old position] = new position. */
static void *sorted(struct loader *ld, const void *rows, int n, size_t size,
                    int (*cmp)(const void *, const void *, void *), int **new_of)
{
    char *out = kva_arena_alloc(&ld->d->arena, (size_t)n + 1, size);
    int *order = kva_calloc((size_t)n + 1, sizeof *order);
    void *ctx = NULL;
    int *inverse = kva_calloc((size_t)n + 1, sizeof *inverse);

    if (!out || !order || !inverse) {
        free(order);
        free(inverse);
        (void)no_memory(ld);
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

static enum kva_status check_samples(struct loader *ld)
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

static enum kva_status finish(struct loader *ld)
{
    struct kva_data *d = ld->d;
    int *model = NULL, *task = NULL, *sample = NULL, *cell = NULL;
    enum kva_status rc = KVA_ENOMEM;

    for (int i = 0; i < ld->outcomes.n; i++) {
        struct outcome_row *r = AT(ld->outcomes, struct outcome_row, i);
        double *mean[3] = {&r->o.span_e, &r->o.span_payload, &r->o.span_d};

        for (int k = 0; k < 3; k++)
            if (r->n_span[k])
                *mean[k] = r->span[k] / r->n_span[k];
    }
    strip(&ld->tasks, sizeof(struct task_row), sizeof(struct kva_data_task));
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
    if (!d->samples || !d->cells)
        goto out;
    for (int i = 0; i < ld->outcomes.n; i++) {
        struct kva_data_outcome *o = AT(ld->outcomes, struct kva_data_outcome, i);
        o->cell = cell[o->cell];
        o->sample = sample[o->sample];
    }
    d->outcomes = sorted(ld, ld->outcomes.data, ld->outcomes.n, sizeof *d->outcomes,
                         cmp_outcome, NULL);
    d->runs = sorted(ld, ld->runs.data, ld->runs.n, sizeof *d->runs, cmp_run, NULL);
    if (!d->outcomes || !d->runs)
        goto out;
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
    return rc;
}

enum kva_status kva_data_load(struct kva_db *const *dbs, int n, struct kva_data *out,
                              struct kva_error *err)
{
    struct loader ld = {.d = out, .err = err};
    struct list *lists[] = {&ld.models, &ld.tasks,    &ld.samples,
                            &ld.cells,  &ld.outcomes, &ld.runs};
    struct kva_map *maps[] = {&ld.model_of, &ld.task_of,    &ld.sample_of,
                              &ld.cell_of,  &ld.outcome_of, &ld.run_of};
    enum kva_status rc = KVA_OK;

    memset(out, 0, sizeof *out);
    kva_arena_init(&out->arena);
    for (int i = 0; i < 6; i++)
        kva_map_init(maps[i]);
    for (int i = 0; i < n && rc == KVA_OK; i++)
        rc = load_one(&ld, dbs[i], i);
    if (rc == KVA_OK && n > 0)
        rc = finish(&ld);
    for (int i = 0; i < 6; i++) {
        kva_map_release(maps[i]);
        free(lists[i]->data);
    }
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
