/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rescore.c - stored answers scored again by this program's metrics (reports.md 3.7 rule
 * 4).
 *
 * A task's own metric decides outcome.score and the version the task carries; what else
 * was scored (word_match, math500_boxed, ...) gets new rows too. Answer nats and what
 * describes a failure come from the run, not from the text: they stay. */
#include "runner/rescore.h"

#include "metrics/metric.h"
#include "runner/commands.h"
#include "tasks/longbench.h"

#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_METRICS = 16 };

struct task {
    int64_t id;
    char *suite, *name, *metric, *gen_json;
    int version, ctx;
    bool binary;
};

/* One metric of one task: what was stored and what it is now. */
struct again {
    const struct kva_metric *metric;
    bool own; /* the task's */
    int old_version;
    struct kva_db_rescored *row;
    int n, cap, n_changed;
    double old_sum, new_sum;
};

struct rescore {
    struct kva_db *db;
    const struct kva_rescore_opts *opts;
    struct kva_arena arena; /* of the task at hand */
    struct task task;
    struct again again[MOST_METRICS];
    int n_again, n_tasks, n_failed;
    json_t *list;
};

static enum kva_status no_memory(struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "rescoring: out of memory");
}

/* A text that SQLite could not make room for reads as NULL. */
static bool sql_starves(struct rescore *r)
{
    return sqlite3_errcode(kva_db_handle(r->db)) == SQLITE_NOMEM;
}

static enum kva_status sql_fail(struct rescore *r, struct kva_error *err)
{
    if (sql_starves(r))
        return no_memory(err);
    return KVA_FAIL(err, KVA_EDB, "%s: reading answers: %s", kva_db_path(r->db),
                    sqlite3_errmsg(kva_db_handle(r->db)));
}

/* ---- what scoring needs beside the text ---- */

/* Files of before this was stored: LongBench alone post-processes, by set and profile. */
static enum kva_status post_of_task(const struct task *t, enum kva_post *out,
                                    struct kva_error *err)
{
    json_t *gen = json_loads(t->gen_json, 0, NULL);
    const char *name = json_string_value(json_object_get(gen, "family")),
               *profile = json_string_value(json_object_get(gen, "profile"));
    const struct kva_longbench_set *set = NULL;
    bool e = false, kvpress = profile && strcmp(profile, "kvpress") == 0;

    if (!gen)
        return no_memory(err); /* it was checked as JSON when it was stored */
    *out = KVA_POST_NONE;
    if (strncmp(t->suite, "longbench", 9) == 0)
        set = kva_longbench_find(name ? name : t->name, &e);
    if (set && kvpress && !e)
        *out = set->first_line ? KVA_POST_STRIP_FIRST_LINE : KVA_POST_STRIP;
    else if (set && set->first_line)
        *out = KVA_POST_FIRST_LINE;
    json_decref(gen);
    return KVA_OK;
}

static enum kva_status texts(struct rescore *r, const json_t *list,
                             const char *const **out, int *n, struct kva_error *err)
{
    size_t count = json_array_size(list);
    const char **v = kva_arena_alloc(&r->arena, count + 1, sizeof v[0]);

    if (!v)
        return no_memory(err);
    for (size_t i = 0; i < count; i++) {
        const char *s = json_string_value(json_array_get(list, i));

        v[i] = s ? kva_arena_strdup(&r->arena, s) : NULL;
        if (s && !v[i])
            return no_memory(err);
    }
    *out = v;
    *n = (int)count;
    return KVA_OK;
}

static enum kva_status sample_of(struct rescore *r, const char *refs_json,
                                 const char *meta_json, struct kva_metric_in *in,
                                 struct kva_error *err)
{
    json_t *refs = json_loads(refs_json, 0, NULL), *meta = json_loads(meta_json, 0, NULL);
    const char *post = json_string_value(json_object_get(meta, "post"));
    enum kva_status rc = KVA_OK;
    int p = 0;

    memset(in, 0, sizeof *in);
    if (!refs || !meta) {
        rc = no_memory(err); /* both were checked as JSON when they were stored */
        goto out;
    }
    KVA_GO(texts(r, refs, &in->answers, &in->n_answers, err));
    KVA_GO(texts(r, json_object_get(meta, "classes"), &in->classes, &in->n_classes, err));
    while (post && kva_post_names[p] && strcmp(kva_post_names[p], post) != 0)
        p++;
    if (post && !kva_post_names[p])
        rc = KVA_FAIL(err, KVA_EUNSUPPORTED, "post-processing '%s' is not known", post);
    in->post = (enum kva_post)p;
    if (!post)
        rc = post_of_task(&r->task, &in->post, err);
out:
    json_decref(refs);
    json_decref(meta);
    return rc;
}

/* ---- one task ---- */

static enum kva_status score_one(struct rescore *r, struct again *a,
                                 const struct kva_metric_in *in, int64_t id, double old,
                                 struct kva_error *err)
{
    struct kva_buf extracted;
    struct kva_metric_out out = {.extracted = &extracted};
    struct kva_db_rescored *row;
    enum kva_status rc;

    if (strcmp(a->metric->name, "classification") == 0 && in->n_classes == 0)
        return KVA_FAIL(
            err, KVA_EMISSING,
            "the class names of a sample were not stored; run the task again");
    if (a->n == a->cap) {
        int cap = a->cap ? 2 * a->cap : 256;
        struct kva_db_rescored *grown = kva_realloc(a->row, (size_t)cap, sizeof *grown);

        if (!grown)
            return no_memory(err);
        a->row = grown;
        a->cap = cap;
    }
    kva_buf_init(&extracted, 0);
    KVA_GO(kva_metric_score(a->metric, in, &out, err));
    KVA_GO(kva_buf_status(&extracted, err));
    row = &a->row[a->n];
    *row = (struct kva_db_rescored){.outcome_id = id, .value = out.score};
    if (extracted.len > 0 &&
        !(row->extracted = kva_arena_strdup(&r->arena, extracted.data))) {
        rc = no_memory(err);
        goto out;
    }
    a->n++;
    a->n_changed += !(out.score == old);
    a->old_sum += old;
    a->new_sum += out.score;
out:
    kva_buf_release(&extracted);
    return rc;
}

/* What is stored of a metric: the newest version of each answer, in outcome order. The
 * task's own metric is every answer's. */
static enum kva_status score_metric(struct rescore *r, struct again *a,
                                    struct kva_error *err)
{
    static const char SQL[] =
        "SELECT o.outcome_id, g.text, s.refs_json, s.meta_json, coalesce((SELECT value "
        "FROM score x WHERE x.outcome_id=o.outcome_id AND x.metric=?2 ORDER BY version "
        "DESC LIMIT 1), CASE WHEN ?3 THEN o.score END) AS old "
        "FROM outcome o JOIN cell c USING(cell_id) JOIN sample s USING(sample_id) "
        "LEFT JOIN generation g USING(outcome_id) WHERE c.task_id=?1 AND o.status='ok' "
        "AND old IS NOT NULL ORDER BY o.outcome_id";
    sqlite3_stmt *st = NULL;
    enum kva_status rc = KVA_OK;
    int sq = sqlite3_prepare_v2(kva_db_handle(r->db), SQL, -1, &st, NULL);

    if (sq == SQLITE_OK && sqlite3_bind_int64(st, 1, r->task.id) == SQLITE_OK &&
        sqlite3_bind_text(st, 2, a->metric->name, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_int(st, 3, a->own) == SQLITE_OK)
        while (rc == KVA_OK && (sq = sqlite3_step(st)) == SQLITE_ROW) {
            struct kva_metric_in in;
            const char *text = (const char *)sqlite3_column_text(st, 1);

            if (!text) {
                rc = sql_starves(r)
                         ? no_memory(err)
                         : KVA_FAIL(err, KVA_EMISSING, "outcome %lld has no text",
                                    (long long)sqlite3_column_int64(st, 0));
                break;
            }
            rc = sample_of(r, (const char *)sqlite3_column_text(st, 2),
                           (const char *)sqlite3_column_text(st, 3), &in, err);
            in.prediction = text;
            in.n = (size_t)sqlite3_column_bytes(st, 1);
            if (rc == KVA_OK)
                rc = score_one(r, a, &in, sqlite3_column_int64(st, 0),
                               sqlite3_column_double(st, 4), err);
        }
    if (rc == KVA_OK && sq != SQLITE_DONE)
        rc = sql_fail(r, err);
    sqlite3_finalize(st);
    return rc;
}

static void say(struct rescore *r, const struct again *a)
{
    const struct task *t = &r->task;
    double n = a->n ? a->n : 1;
    char name[400];

    if (a->n == 0 && a->old_version == a->metric->version)
        return;
    (void)snprintf(name, sizeof name, t->ctx ? "%s/%s@%d" : "%s/%s", t->suite, t->name,
                   t->ctx);
    if (r->list)
        json_array_append_new(
            r->list,
            json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f}", "task", name, "metric",
                      a->metric->name, "old_version", a->old_version, "version",
                      a->metric->version, "answers", a->n, "changed", a->n_changed,
                      "old_mean", a->old_sum / n, "mean", a->new_sum / n));
    else if (!r->opts->quiet)
        printf("%s %s: version %d to %d, %d answers, %d scores change, mean %.4f to "
               "%.4f\n",
               name, a->metric->name, a->old_version, a->metric->version, a->n,
               a->n_changed, a->old_sum / n, a->new_sum / n);
}

static enum kva_status store(struct rescore *r, struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(kva_db_begin(r->db, err));
    rc = KVA_OK;
    for (int i = 0; i < r->n_again && rc == KVA_OK; i++) {
        struct again *a = &r->again[i];

        if (a->own)
            rc = kva_db_rescore(r->db, r->task.id, a->metric->name, a->metric->version,
                                r->task.binary, a->row, a->n, err);
        else
            rc = kva_db_put_scores(r->db, a->metric->name, a->metric->version, a->row,
                                   a->n, err);
    }
    if (rc == KVA_OK)
        return kva_db_commit(r->db, err);
    kva_db_rollback(r->db);
    return rc;
}

/* The metrics a task's answers were scored by and this program has. */
static enum kva_status metrics_of(struct rescore *r, struct kva_error *err)
{
    static const char SQL[] =
        "SELECT ?2 AS metric, 1, ?3 UNION ALL SELECT metric, 0, max(version) FROM score "
        "JOIN outcome USING(outcome_id) JOIN cell USING(cell_id) WHERE task_id=?1 AND "
        "metric<>?2 GROUP BY metric ORDER BY 2 DESC, 1";
    sqlite3_stmt *st = NULL;
    int sq = sqlite3_prepare_v2(kva_db_handle(r->db), SQL, -1, &st, NULL);

    r->n_again = 0;
    if (sq == SQLITE_OK && sqlite3_bind_int64(st, 1, r->task.id) == SQLITE_OK &&
        sqlite3_bind_text(st, 2, r->task.metric, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_int(st, 3, r->task.version) == SQLITE_OK)
        while ((sq = sqlite3_step(st)) == SQLITE_ROW && r->n_again < MOST_METRICS) {
            const char *name = (const char *)sqlite3_column_text(st, 0);
            const struct kva_metric *m = name ? kva_metric_find(name) : NULL;

            if (!name) {
                sq = SQLITE_NOMEM;
                break;
            }
            if (m && (!r->opts->metric || strcmp(m->name, r->opts->metric) == 0))
                r->again[r->n_again++] =
                    (struct again){.metric = m,
                                   .own = sqlite3_column_int(st, 1) != 0,
                                   .old_version = sqlite3_column_int(st, 2)};
        }
    sqlite3_finalize(st);
    return sq == SQLITE_DONE || sq == SQLITE_ROW ? KVA_OK : sql_fail(r, err);
}

static enum kva_status rescore_task(struct rescore *r, struct kva_error *err)
{
    enum kva_status rc;

    KVA_TRY(metrics_of(r, err));
    if (r->n_again == 0 && !r->opts->metric)
        return KVA_FAIL(err, KVA_EMISSING, "this program has no metric %s",
                        r->task.metric);
    r->n_tasks += r->n_again > 0;
    rc = KVA_OK;
    for (int i = 0; i < r->n_again && rc == KVA_OK; i++)
        rc = score_metric(r, &r->again[i], err);
    if (rc == KVA_OK && r->n_again > 0 && !r->opts->dry_run)
        rc = store(r, err);
    for (int i = 0; i < r->n_again; i++) {
        if (rc == KVA_OK)
            say(r, &r->again[i]);
        free(r->again[i].row);
    }
    return rc;
}

/* ---- all tasks ---- */

static enum kva_status next_task(struct rescore *r, int64_t after, bool *found,
                                 struct kva_error *err)
{
    static const char SQL[] =
        "SELECT task_id, suite, name, metric, gen_json, metric_version, "
        "coalesce(ctx_target,0), metric_kind='binary' FROM task WHERE task_id>? ORDER BY "
        "task_id LIMIT 1";
    struct task *t = &r->task;
    sqlite3_stmt *st = NULL;
    int sq = sqlite3_prepare_v2(kva_db_handle(r->db), SQL, -1, &st, NULL);

    if (sq == SQLITE_OK && (sq = sqlite3_bind_int64(st, 1, after)) == SQLITE_OK)
        sq = sqlite3_step(st);
    *found = sq == SQLITE_ROW;
    if (*found) {
        char **text[] = {&t->suite, &t->name, &t->metric, &t->gen_json};

        t->id = sqlite3_column_int64(st, 0);
        for (int i = 0; i < 4; i++)
            *text[i] =
                kva_arena_strdup(&r->arena, (const char *)sqlite3_column_text(st, i + 1));
        t->version = sqlite3_column_int(st, 5);
        t->ctx = sqlite3_column_int(st, 6);
        t->binary = sqlite3_column_int(st, 7) != 0;
    }
    sqlite3_finalize(st);
    if (*found && (!t->suite || !t->name || !t->metric || !t->gen_json))
        return no_memory(err);
    return *found || sq == SQLITE_DONE ? KVA_OK : sql_fail(r, err);
}

static enum kva_status all_tasks(struct rescore *r, struct kva_error *err)
{
    bool found = true;
    int64_t id = 0;

    while (found) {
        struct kva_error why = {0};
        enum kva_status rc;

        if (kva_interrupted)
            return KVA_FAIL(err, KVA_EINTERRUPTED,
                            "interrupted after %d tasks; the same command goes on",
                            r->n_tasks);
        kva_arena_init(&r->arena);
        rc = next_task(r, id, &found, &why);
        if (rc == KVA_OK && found) {
            id = r->task.id;
            rc = rescore_task(r, &why);
            if (rc == KVA_EMISSING || rc == KVA_EUNSUPPORTED) {
                fprintf(stderr, "kvaudit: %s/%s is left as it is: %s\n", r->task.suite,
                        r->task.name, why.text);
                r->n_failed++;
                rc = KVA_OK;
            }
        }
        kva_arena_release(&r->arena);
        if (rc != KVA_OK)
            return KVA_FAIL(err, rc, "%s", why.text);
    }
    return KVA_OK;
}

static enum kva_status finish(struct rescore *r, struct kva_error *err)
{
    const char *path = kva_db_path(r->db);

    if (r->n_failed)
        return KVA_FAIL(err, KVA_EMISSING, "%s: %d tasks were not scored again", path,
                        r->n_failed);
    if (r->n_tasks == 0 && r->opts->metric)
        return KVA_FAIL(err, KVA_EINVALID, "%s: no answer was scored by '%s'", path,
                        r->opts->metric);
    if (r->opts->dry_run || r->n_tasks == 0)
        return KVA_OK;
    return kva_db_event(r->db, 0, "info",
                        "answers were scored again by kvaudit " KVA_VERSION, err);
}

static enum kva_status say_json(struct rescore *r, struct kva_error *err)
{
    json_t *o = json_pack("{s:s, s:b, s:O}", "schema", "kvaudit.rescore/1", "dry_run",
                          r->opts->dry_run, "scores", r->list);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    enum kva_status rc = KVA_OK;

    json_decref(o);
    if (!text)
        return no_memory(err);
    rc = kva_command_out(text, strlen(text), err);
    if (rc == KVA_OK)
        rc = kva_command_out("\n", 1, err);
    free(text);
    return rc;
}

enum kva_status kva_rescore(struct kva_db *db, const struct kva_rescore_opts *opts,
                            struct kva_error *err)
{
    struct rescore r = {.db = db, .opts = opts};
    enum kva_status rc;

    if (opts->metric && !kva_metric_find(opts->metric))
        return KVA_FAIL(err, KVA_EINVALID,
                        "unknown metric '%s'; `kvaudit list metrics` names them",
                        opts->metric);
    if (opts->json && !(r.list = json_array()))
        return no_memory(err);
    KVA_GO(all_tasks(&r, err));
    if (r.list)
        KVA_GO(say_json(&r, err));
    rc = finish(&r, err);
out:
    json_decref(r.list);
    return rc;
}
