/* SPDX-License-Identifier: GPL-3.0-or-later */
/* watch.c - what a run says about itself.
 *
 * Scores of the full cache and of blind cells are collected by plan task while the sweep
 * runs (gate.c judges them). The summary reads the database instead, so that a resumed
 * run says the same as one in a single piece. */
#include "runner/watch.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/metric.h"
#include "runner/gate.h"

struct scores {
    double *v;
    int *context; /* each one's */
    size_t n, cap;
};
struct kva_watch {
    const struct kva_plan *plan;
    struct scores *dense, *blind; /* [plan->n_tasks] */
};

static enum kva_status push(struct scores *s, double value, int context,
                            struct kva_error *err)
{
    if (s->n == s->cap) {
        size_t cap = s->cap > 0 ? 2 * s->cap : 64;
        double *v = kva_realloc(s->v, cap, sizeof *v);
        int *c = kva_realloc(s->context, cap, sizeof *c);

        s->v = v != NULL ? v : s->v;
        s->context = c != NULL ? c : s->context;
        if (v == NULL || c == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "%zu scores", cap);
        s->cap = cap;
    }
    s->context[s->n] = context;
    s->v[s->n++] = value;
    return KVA_OK;
}

static void release(struct scores *s)
{
    free(s->v);
    free(s->context);
}

/* ---- outcomes of a cell in the database ---- */

struct answer {
    struct kva_gate_answer a;
    double score;
    bool by_length;
};
struct answers {
    struct answer *v;
    size_t n, cap;
};

static const char CELL_SQL[] =
    "SELECT s.idx, o.rep, o.gen_sha256, o.stop = 'length', o.score,"
    " coalesce(m.kv_live_bytes < m.kv_dense_bytes, 0)"
    " FROM cell c JOIN outcome o USING(cell_id) JOIN sample s USING(sample_id)"
    " LEFT JOIN memory m ON m.outcome_id = o.outcome_id AND m.exec = 'shared'"
    " WHERE c.digest = ?1 AND o.status = 'ok' AND s.idx < ?2 ORDER BY s.idx, o.rep";

static enum kva_status prepare(struct kva_db *db, const char *sql, sqlite3_stmt **q,
                               struct kva_error *err)
{
    struct sqlite3 *h = kva_db_handle(db);

    if (sqlite3_prepare_v2(h, sql, -1, q, NULL) == SQLITE_OK)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EDB, "looking back at the run: %s", sqlite3_errmsg(h));
}

static enum kva_status add_answer(struct answers *l, const struct answer *a,
                                  struct kva_error *err)
{
    if (l->n == l->cap) {
        size_t cap = l->cap > 0 ? 2 * l->cap : 64;
        struct answer *v = kva_realloc(l->v, cap, sizeof *v);

        if (v == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "%zu answers", cap);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = *a;
    return KVA_OK;
}

static enum kva_status read_cell(struct kva_db *db, sqlite3_stmt *q,
                                 const struct kva_cell *c, struct answers *l,
                                 struct kva_error *err)
{
    int rc;

    sqlite3_reset(q);
    sqlite3_bind_blob(q, 1, c->digest, sizeof c->digest, SQLITE_STATIC);
    sqlite3_bind_int(q, 2, c->n);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        struct answer a = {.a = {.idx = sqlite3_column_int(q, 0),
                                 .rep = sqlite3_column_int(q, 1),
                                 .evicted = sqlite3_column_int(q, 5) != 0},
                           .by_length = sqlite3_column_int(q, 3) != 0,
                           .score = sqlite3_column_double(q, 4)};

        if (sqlite3_column_bytes(q, 2) == (int)sizeof a.a.sha256)
            memcpy(a.a.sha256, sqlite3_column_blob(q, 2), sizeof a.a.sha256);
        KVA_TRY(add_answer(l, &a, err));
    }
    if (rc != SQLITE_DONE)
        return KVA_FAIL(err, KVA_EDB, "looking back at the run: %s",
                        sqlite3_errmsg(kva_db_handle(db)));
    return KVA_OK;
}

static bool is_base(const struct kva_cell *c)
{
    return c->method.blind || c->method.dense;
}

/* ---- while the sweep runs ---- */

enum kva_status kva_watch_new(const struct kva_plan *plan, struct kva_db *db,
                              struct kva_watch **out, struct kva_error *err)
{
    struct kva_watch *w = kva_calloc(1, sizeof *w);
    sqlite3_stmt *q = NULL;
    struct answers l = {0};
    enum kva_status rc = KVA_OK;

    *out = w;
    if (w == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "the scores of a sweep");
    w->plan = plan;
    w->dense = kva_calloc((size_t)plan->n_tasks + 1, sizeof *w->dense);
    w->blind = kva_calloc((size_t)plan->n_tasks + 1, sizeof *w->blind);
    if (w->dense == NULL || w->blind == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "the scores of %d tasks", plan->n_tasks);
        goto out;
    }
    KVA_GO(prepare(db, CELL_SQL, &q, err));
    for (int i = 0; i < plan->n_cells; i++) {
        const struct kva_cell *c = &plan->cells[i];

        if (!is_base(c))
            continue;
        l.n = 0;
        KVA_GO(read_cell(db, q, c, &l, err));
        for (size_t k = 0; k < l.n; k++)
            KVA_GO(push(c->method.blind ? &w->blind[c->task] : &w->dense[c->task],
                        l.v[k].score, plan->tasks[c->task].context[l.v[k].a.idx], err));
    }
out:
    sqlite3_finalize(q);
    free(l.v);
    return rc;
}

void kva_watch_free(struct kva_watch *w)
{
    if (w == NULL)
        return;
    for (int t = 0; t < w->plan->n_tasks; t++) {
        if (w->dense != NULL)
            release(&w->dense[t]);
        if (w->blind != NULL)
            release(&w->blind[t]);
    }
    free(w->dense);
    free(w->blind);
    free(w);
}

enum kva_status kva_watch_add(struct kva_watch *w, const struct kva_result *r,
                              struct kva_error *err)
{
    const struct kva_cell *c = &w->plan->cells[r->cell];

    if (r->perf || r->n_scores == 0 || !is_base(c))
        return KVA_OK;
    return push(c->method.blind ? &w->blind[c->task] : &w->dense[c->task],
                r->scores[0].value, w->plan->tasks[c->task].context[r->idx], err);
}

static struct kva_gate_task gate_task(const struct kva_watch *w, int task)
{
    const struct kva_task_info *info = kva_task_info(w->plan->tasks[task].task);

    return (struct kva_gate_task){.dense = w->dense[task].v,
                                  .n_dense = w->dense[task].n,
                                  .blind = w->blind[task].v,
                                  .n_blind = w->blind[task].n,
                                  .context = w->dense[task].context,
                                  .guess_floor = info->guess_floor};
}

bool kva_watch_shut(const struct kva_watch *w, int model)
{
    bool any = false;

    for (int t = 0; t < w->plan->n_tasks; t++) {
        struct kva_gate_task g = gate_task(w, t);

        if (w->plan->tasks[t].model != model)
            continue;
        if (!kva_gate_shut(&g, 1))
            return false;
        any = true;
    }
    return any;
}

/* ---- why it stopped ---- */

enum { EXAMPLES = 3, TAIL = 240 };

/* The end of a text, one line: line feeds are shown as such. */
static void put_tail(struct kva_buf *out, const char *text, size_t n)
{
    size_t from = n > TAIL ? n - TAIL : 0;

    while (from < n && ((unsigned char)text[from] & 0xc0) == 0x80)
        from++; /* not inside a character */
    if (from > 0)
        kva_buf_puts(out, "...");
    for (; from < n; from++)
        if (text[from] == '\n')
            kva_buf_puts(out, "\\n");
        else
            kva_buf_putc(out, text[from]);
}

/* The prompt, where the plan still has a unit that makes it. */
static void put_prompt(struct kva_plan *plan, int task, int idx, struct kva_buf *out)
{
    for (int u = 0; u < plan->n_units; u++) {
        const struct kva_unit *un = &plan->units[u];

        for (int q = 0; un->task == task && q < un->n_idx; q++) {
            struct kva_sample_row row = {0};
            struct kva_item item = {0};
            struct kva_error why = {0};
            struct kva_arena arena;
            struct kva_buf text;

            if (un->idx[q] != idx)
                continue;
            kva_arena_init(&arena);
            kva_buf_init(&text, 0);
            if (kva_exec_sample(plan, u, q, &arena, &item, &row, &why) == KVA_OK &&
                item.context != NULL) {
                kva_buf_add(&text, item.context, item.context_len);
                kva_buf_puts(&text, item.question != NULL ? item.question : "");
                kva_buf_puts(&text, item.answer_prefix != NULL ? item.answer_prefix : "");
                kva_buf_puts(out, "    prompt   ");
                put_tail(out, text.data, text.len);
                kva_buf_putc(out, '\n');
            }
            kva_sample_row_release(&row);
            kva_arena_release(&arena);
            kva_buf_release(&text);
            return;
        }
    }
}

static const char WRONG_SQL[] =
    "SELECT s.idx, g.text, json_extract(s.refs_json, '$[0]') FROM cell c"
    " JOIN outcome o USING(cell_id) JOIN sample s USING(sample_id)"
    " JOIN generation g USING(outcome_id) WHERE c.digest = ?1 AND o.status = 'ok'"
    " ORDER BY o.score, s.idx LIMIT ?2";

static void put_wrong(struct kva_plan *plan, sqlite3_stmt *q, const struct kva_cell *c,
                      int *left, struct kva_buf *out)
{
    const char *id = plan->tasks[c->task].suite->id;

    sqlite3_reset(q);
    sqlite3_bind_blob(q, 1, c->digest, sizeof c->digest, SQLITE_STATIC);
    sqlite3_bind_int(q, 2, *left);
    while (*left > 0 && sqlite3_step(q) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(q, 1);
        const char *ref = (const char *)sqlite3_column_text(q, 2);

        kva_buf_printf(out, "  %s#%d\n", id, sqlite3_column_int(q, 0));
        put_prompt(plan, c->task, sqlite3_column_int(q, 0), out);
        kva_buf_puts(out, "    answer   ");
        put_tail(out, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
        kva_buf_printf(out, "\n    expected %s\n", ref != NULL ? ref : "");
        --*left;
    }
}

enum kva_status kva_watch_tell_shut(struct kva_plan *plan, struct kva_db *db, int model,
                                    struct kva_buf *out, struct kva_error *err)
{
    sqlite3_stmt *q = NULL;
    int left = EXAMPLES;

    kva_buf_printf(out,
                   "the sweep of %s stopped: with the full cache no task is above its "
                   "guess floor, so no method can be told from another; --keep-going "
                   "measures on\n",
                   plan->models[model].suite->id);
    KVA_TRY(prepare(db, WRONG_SQL, &q, err));
    for (int i = 0; i < plan->n_cells && left > 0; i++)
        if (plan->cells[i].model == model && plan->cells[i].method.dense)
            put_wrong(plan, q, &plan->cells[i], &left, out);
    sqlite3_finalize(q);
    return kva_buf_status(out, err);
}

/* ---- in the end ---- */

/* Two cells that differ in nothing but the budget and the task. */
static bool same_method(const struct kva_cell *a, const struct kva_cell *b)
{
    char x[48], y[48];

    kva_schedule_text(&a->schedule, x);
    kva_schedule_text(&b->schedule, y);
    return a->model == b->model && a->enforce == b->enforce &&
           a->visibility == b->visibility && a->kv == b->kv &&
           strcmp(a->numerics, b->numerics) == 0 && strcmp(x, y) == 0 &&
           kva_sampling_same(&a->sampling, &b->sampling) &&
           memcmp(a->method_digest, b->method_digest, sizeof a->method_digest) == 0;
}

static bool same_budget(const struct kva_budget *a, const struct kva_budget *b)
{
    return a->kind == b->kind && a->value == b->value;
}

/* Answers of one method at two budgets over all tasks. */
struct pair {
    const struct kva_cell *a, *b; /* the first of each */
    struct kva_gate_same sum;
};

static enum kva_status compare(const struct kva_plan *plan, const struct answers *of,
                               struct kva_gate_answer *buf[2], int i, int j,
                               struct pair **pairs, int *n, struct kva_error *err)
{
    const struct kva_cell *a = &plan->cells[i], *b = &plan->cells[j];
    struct pair *p;
    int k = 0;

    while (k < *n && !(same_method((*pairs)[k].a, a) &&
                       ((same_budget(&(*pairs)[k].a->budget, &a->budget) &&
                         same_budget(&(*pairs)[k].b->budget, &b->budget)))))
        k++;
    if (k == *n) {
        p = kva_realloc(*pairs, (size_t)*n + 1, sizeof *p);
        if (p == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "%d pairs of budgets", *n);
        *pairs = p;
        p[(*n)++] = (struct pair){.a = a, .b = b};
    }
    for (size_t x = 0; x < of[i].n; x++)
        buf[0][x] = of[i].v[x].a;
    for (size_t x = 0; x < of[j].n; x++)
        buf[1][x] = of[j].v[x].a;
    kva_gate_compare(buf[0], of[i].n, buf[1], of[j].n, &(*pairs)[k].sum);
    return KVA_OK;
}

static enum kva_status tell_same(const struct kva_plan *plan, const struct answers *of,
                                 struct kva_buf *out, struct kva_error *err)
{
    struct kva_gate_answer *buf[2] = {NULL, NULL};
    struct pair *pairs = NULL;
    size_t most = 1;
    int n = 0;
    enum kva_status rc = KVA_OK;

    for (int i = 0; i < plan->n_cells; i++)
        most = of[i].n > most ? of[i].n : most;
    for (int k = 0; k < 2; k++) {
        buf[k] = kva_calloc(most, sizeof *buf[k]);
        if (buf[k] == NULL) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "%zu answers", most);
            goto out;
        }
    }
    for (int i = 0; i < plan->n_cells; i++)
        for (int j = i + 1; j < plan->n_cells; j++) {
            const struct kva_cell *a = &plan->cells[i], *b = &plan->cells[j];

            if (a->task == b->task && a->method.scorer != NULL && of[i].n > 0 &&
                of[j].n > 0 && same_method(a, b) && !same_budget(&a->budget, &b->budget))
                KVA_GO(compare(plan, of, buf, i, j, &pairs, &n, err));
        }
    for (int k = 0; k < n; k++) {
        char x[32], y[32];

        if (!kva_gate_suspicious(&pairs[k].sum))
            continue;
        kva_budget_text(&pairs[k].a->budget, x);
        kva_budget_text(&pairs[k].b->budget, y);
        kva_buf_printf(out,
                       "%s on %s gave the same %d answers at %s and %s although entries "
                       "were evicted: the method may do nothing\n",
                       pairs[k].a->method_id, plan->models[pairs[k].a->model].suite->id,
                       pairs[k].sum.both, x, y);
    }
out:
    free(buf[0]);
    free(buf[1]);
    free(pairs);
    return rc;
}

static enum kva_status tell_task(const struct kva_plan *plan, const struct answers *of,
                                 int task, struct kva_buf *out, struct kva_error *err)
{
    const struct kva_plan_task *t = &plan->tasks[task];
    const struct kva_task_info *info = kva_task_info(t->task);
    struct scores dense = {0}, blind = {0};
    struct kva_gate_task g;
    size_t all = 0, by_length = 0, samples = 0;
    enum kva_status rc = KVA_OK;

    for (int i = 0; i < plan->n_cells; i++) {
        const struct kva_cell *c = &plan->cells[i];
        size_t asked = 0; /* samples, whatever their repetitions and draws */

        for (size_t k = 0; c->task == task && k < of[i].n; k++) {
            asked += k == 0 || of[i].v[k].a.idx != of[i].v[k - 1].a.idx;
            if (is_base(c))
                KVA_GO(push(c->method.blind ? &blind : &dense, of[i].v[k].score,
                            t->context[of[i].v[k].a.idx], err));
            all += !c->method.blind;
            by_length += !c->method.blind && of[i].v[k].by_length;
        }
        if (c->method.dense && asked > samples)
            samples = asked;
    }
    g = (struct kva_gate_task){.dense = dense.v,
                               .blind = blind.v,
                               .n_dense = dense.n,
                               .n_blind = blind.n,
                               .context = dense.context,
                               .guess_floor = info->guess_floor};
    if (kva_gate_below(&g))
        kva_buf_printf(out,
                       "%s on %s is below its floor: %.1f %% with the full cache (%zu "
                       "samples), %.1f %% without reading; it says nothing about "
                       "methods\n",
                       t->suite->id, plan->models[t->model].suite->id,
                       100 * kva_stat_mean(dense.v, dense.n), samples,
                       100 * kva_gate_floor(&g));
    if (2 * by_length > all)
        kva_buf_printf(out, "%s on %s: %.0f %% of the answers ended by length\n",
                       t->suite->id, plan->models[t->model].suite->id,
                       100.0 * (double)by_length / (double)all);
out:
    release(&dense);
    release(&blind);
    return rc;
}

enum kva_status kva_watch_summary(const struct kva_plan *plan, struct kva_db *db,
                                  struct kva_buf *out, struct kva_error *err)
{
    struct answers *of = kva_calloc((size_t)plan->n_cells + 1, sizeof *of);
    sqlite3_stmt *q = NULL;
    enum kva_status rc = KVA_OK;

    if (of == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "the answers of %d cells", plan->n_cells);
    KVA_GO(prepare(db, CELL_SQL, &q, err));
    for (int i = 0; i < plan->n_cells; i++)
        KVA_GO(read_cell(db, q, &plan->cells[i], &of[i], err));
    for (int t = 0; t < plan->n_tasks; t++)
        KVA_GO(tell_task(plan, of, t, out, err));
    KVA_GO(tell_same(plan, of, out, err));
    rc = kva_buf_status(out, err);
out:
    sqlite3_finalize(q);
    for (int i = 0; i < plan->n_cells; i++)
        free(of[i].v);
    free(of);
    return rc;
}
