/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_unit.c - prompts, gold answers, sample identity, spans and bytes of one unit. */
#include "runner/exec_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/metric.h"

void kva_sample_row_release(struct kva_sample_row *s)
{
    free(s->refs_json);
    free(s->meta_json);
    s->refs_json = s->meta_json = NULL;
}

void kva_result_release(struct kva_result *r)
{
    free(r->error);
    free(r->text);
    free(r->ids);
    free(r->bits);
    for (int i = 0; i < r->n_spans; i++)
        free(r->spans[i].kept);
    free(r->spans);
    memset(r, 0, sizeof *r);
}

const char *kva_result_status(enum kva_status code)
{
    switch (code) {
    case KVA_ENOMEM:
        return "oom";
    case KVA_ENONFINITE:
        return "nonfinite";
    case KVA_ETRUNCATED:
        return "truncated";
    default:
        return "error";
    }
}

void kva_result_fail(struct kva_result *r, const struct kva_error *why)
{
    snprintf(r->status, sizeof r->status, "%s", kva_result_status(why->code));
    r->stop[0] = '\0';
    free(r->error);
    r->error = strdup(why->text);
    free(r->text);
    r->text = NULL;
    free(r->ids);
    r->ids = NULL;
    r->n_gen = 0;
    r->n_scores = 0;
}

/* ---- prompts
 * ------------------------------------------------------------------------------ */

static enum kva_status ids_to_tokens(const int32_t *ids, size_t n, struct kva_tokens *t,
                                     struct kva_error *err)
{
    t->id = kva_calloc(n, sizeof *t->id);
    t->begin = kva_calloc(n, sizeof *t->begin);
    t->end = kva_calloc(n, sizeof *t->end);
    if (t->id == NULL || t->begin == NULL || t->end == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%zu token ids", n);
    memcpy(t->id, ids, n * sizeof *ids);
    t->n = t->cap = n;
    return KVA_OK;
}

static enum kva_status check_ids(const struct kva_unit_run *u, const struct kva_tokens *t,
                                 const char *what, struct kva_error *err)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->id[i] < 0 || t->id[i] >= u->info->vocab)
            return KVA_FAIL(err, KVA_EINVALID,
                            "%s: id %d is outside the vocabulary of %d", what,
                            (int)t->id[i], u->info->vocab);
    return KVA_OK;
}

static enum kva_status make_context(struct kva_unit_run *u, struct kva_error *err)
{
    const struct kva_item *it = &u->items[0];

    if (it->context_ids == NULL)
        return kva_prompt_context(u->model, &it->feed, it->context, it->context_len,
                                  &u->prompt, err);
    KVA_TRY(ids_to_tokens(it->context_ids, it->n_context_ids, &u->prompt.context, err));
    KVA_TRY(check_ids(u, &u->prompt.context, "context_ids", err));
    return kva_tokenizer_clone(kva_model_tokenizer(u->model), &u->prompt.tok, err);
}

static enum kva_status make_question(struct kva_unit_run *u, const struct kva_prompt *p,
                                     int q, struct kva_question *out,
                                     struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];

    if (it->question_ids == NULL)
        return kva_prompt_question(u->model, &it->feed, p, it->question,
                                   it->answer_prefix, out, err);
    KVA_TRY(ids_to_tokens(it->question_ids, it->n_question_ids, &out->ids, err));
    KVA_TRY(check_ids(u, &out->ids, "question_ids", err));
    out->n_visible = (int)out->ids.n;
    return kva_tokenizer_clone(p->tok, &out->tok, err);
}

static enum kva_status make_gold(struct kva_unit_run *u, int q, struct kva_error *err)
{
    struct kva_tokenizer *tok = NULL;
    enum kva_status rc = KVA_OK;

    if (u->items[q].gold == NULL || u->items[q].gold[0] == '\0')
        return KVA_OK;
    KVA_GO(kva_tokenizer_clone(u->questions[q].tok, &tok, err));
    KVA_GO(kva_tokenizer_encode(tok, u->items[q].gold, strlen(u->items[q].gold), false,
                                &u->gold[q], err));
out:
    kva_tokenizer_free(tok);
    return rc;
}

/* ---- identity
 * ------------------------------------------------------------------------------ */

static void hash_part(const struct kva_item *it, const char *text, size_t n,
                      const int32_t *ids, size_t n_ids, char hex[65])
{
    uint8_t d[32];

    (void)it;
    if (ids != NULL)
        kva_sha256_of(ids, n_ids * sizeof *ids, d);
    else
        kva_sha256_of(text != NULL ? text : "", text != NULL ? n : 0, d);
    kva_hex(d, 32, hex);
}

static json_t *span_json(const struct kva_span *s)
{
    return json_pack("{s:s, s:s%, s:b, s:s, s:[i,i], s:[i,i], s:i, s:f, s:s, s:i}", "id",
                     s->id, "kind", &s->kind, (size_t)1, "queried", s->queried, "role",
                     s->role != NULL ? s->role : "", "byte", (int)s->b0, (int)s->b1,
                     "tok", s->t0, s->t1, "bucket", s->bucket, "depth", s->depth, "match",
                     s->match, "level", s->level);
}

static json_t *meta_json(const struct kva_unit_run *u, int q)
{
    const struct kva_item *it = &u->items[q];
    json_t *spans = json_array(), *gold = json_array(), *o;

    for (int i = 0; i < it->n_spans; i++)
        json_array_append_new(spans, span_json(&it->spans[i]));
    for (size_t i = 0; i < u->gold[q].n; i++)
        json_array_append_new(gold, json_integer(u->gold[q].id[i]));
    o = json_pack("{s:f, s:f, s:I, s:I, s:i, s:o, s:o}", "depth", it->depth, "fill",
                  it->fill, "n_context", (json_int_t)u->prompt.context.n, "n_question",
                  (json_int_t)u->questions[q].ids.n, "max_new_tokens", it->max_new_tokens,
                  "spans", spans, "gold_ids", gold);
    if (o != NULL && u->opts != NULL && u->opts->prompts && it->context != NULL) {
        json_object_set_new(o, "context", json_stringn(it->context, it->context_len));
        json_object_set_new(o, "question", json_string(it->question));
        json_object_set_new(o, "answer_prefix", json_string(it->answer_prefix));
    }
    return o;
}

static enum kva_status make_sample(struct kva_unit_run *u, int q, struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    struct kva_sample_row *s = &u->samples[q];
    json_t *refs = json_array(), *meta = meta_json(u, q), *id = NULL;
    char task[65], ctx[65], ques[65], prefix[65];
    char *text = NULL;
    enum kva_status rc = KVA_OK;

    for (int i = 0; i < it->n_answers; i++)
        json_array_append_new(refs, json_string(it->answers[i]));
    kva_hex(u->task->digest, 32, task);
    hash_part(it, it->context, it->context_len, it->context_ids, it->n_context_ids, ctx);
    hash_part(it, it->question, it->question ? strlen(it->question) : 0, it->question_ids,
              it->n_question_ids, ques);
    hash_part(it, it->answer_prefix, it->answer_prefix ? strlen(it->answer_prefix) : 0,
              NULL, 0, prefix);
    id = json_pack("{s:s, s:i, s:s, s:s, s:s, s:O}", "task", task, "idx", it->idx,
                   "context", ctx, "question", ques, "answer_prefix", prefix,
                   "references", refs);
    s->unit = u->unit_no;
    s->question = q;
    s->idx = it->idx;
    memcpy(s->cluster, ctx, sizeof s->cluster);
    s->refs_json = json_dumps(refs, JSON_COMPACT);
    s->meta_json = meta != NULL ? json_dumps(meta, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    text = id != NULL ? json_dumps(id, JSON_COMPACT) : NULL;
    if (s->refs_json == NULL || s->meta_json == NULL || text == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "identity of sample %d", it->idx);
        goto out;
    }
    KVA_GO(kva_json_digest(text, s->digest, err));
out:
    free(text);
    json_decref(refs);
    json_decref(meta);
    json_decref(id);
    return rc;
}

/* ---- opening
 * -------------------------------------------------------------------------------- */

enum kva_status kva_unit_open(struct kva_plan *plan, int unit,
                              const struct kva_exec_opts *opts,
                              const struct kva_sink *sink, struct kva_unit_run *u,
                              struct kva_error *err)
{
    const struct kva_unit *un = &plan->units[unit];
    struct kva_tok_model tm;
    struct kva_tok_api api;

    memset(u, 0, sizeof *u);
    kva_arena_init(&u->arena);
    u->plan = plan;
    u->unit = un;
    u->unit_no = unit;
    u->opts = opts;
    u->sink = sink;
    u->model = plan->models[un->model].open[un->numerics];
    u->info = kva_model_info(u->model);
    u->task = &plan->tasks[un->task];
    u->chunk = opts != NULL && opts->chunk > 0 ? opts->chunk : KVA_CHUNK;
    u->items = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->items);
    u->questions = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->questions);
    u->blind_questions =
        kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->questions);
    u->gold = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->gold);
    u->samples = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->samples);
    u->bad = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->bad);
    if (u->items == NULL || u->questions == NULL || u->blind_questions == NULL ||
        u->gold == NULL || u->samples == NULL || u->bad == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a unit of %d questions", un->n_idx);
    kva_tok_api_model(&tm, u->model, &api);
    for (int q = 0; q < un->n_idx; q++)
        KVA_TRY(
            kva_task_item(u->task->task, un->idx[q], &api, &u->arena, &u->items[q], err));
    (void)make_context(u, &u->bad[0]);
    u->context_fnv =
        kva_fnv1a64(u->prompt.context.id, u->prompt.context.n * sizeof(int32_t));
    for (int q = 0; q < un->n_idx; q++) {
        struct kva_item *it = &u->items[q];
        struct kva_span *spans;

        /* a prompt that cannot be fed fails its own jobs, and its sample is stored with
         * them */
        if (q > 0 && u->prompt.tok == NULL)
            u->bad[q] = u->bad[0];
        if (u->bad[q].code == KVA_OK &&
            make_question(u, &u->prompt, q, &u->questions[q], &u->bad[q]) == KVA_OK)
            (void)make_gold(u, q, &u->bad[q]);
        if (u->bad[q].code == KVA_ENOMEM)
            return KVA_FAIL(err, KVA_ENOMEM, "%s", u->bad[q].text);
        spans = kva_arena_alloc(&u->arena, (size_t)it->n_spans + 1, sizeof *spans);
        if (spans == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "spans");
        /* token ranges of the sequence as fed, whatever the generator counted with */
        for (int i = 0; i < it->n_spans; i++) {
            spans[i] = it->spans[i];
            if (it->context_ids == NULL)
                kva_prompt_span(&u->prompt, spans[i].b0, spans[i].b1, &spans[i].t0,
                                &spans[i].t1);
        }
        it->spans = spans;
        KVA_TRY(make_sample(u, q, err));
    }
    return KVA_OK;
}

uint64_t kva_unit_seed(const struct kva_unit_run *u, const struct kva_cell *cell)
{
    return kva_mix64(cell->seed ^ u->context_fnv);
}

enum kva_status kva_unit_feed(const struct kva_unit_run *u, struct kva_session *s,
                              const int32_t *ids, int n, struct kva_row *last,
                              struct kva_error *err)
{
    struct kva_row *rows = kva_calloc((size_t)u->chunk, sizeof *rows);
    enum kva_status rc = KVA_OK;

    if (rows == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a step of %d rows", u->chunk);
    for (int at = 0; at < n; at += u->chunk) {
        int c = n - at < u->chunk ? n - at : u->chunk;
        const struct kva_error *why;

        if (u->opts->stop != NULL && *u->opts->stop != 0) {
            rc = KVA_FAIL(err, KVA_EINTERRUPTED, "stopped while reading the prompt");
            goto out;
        }
        for (int i = 0; i < c; i++)
            rows[i] = (struct kva_row){.session = s, .token = ids[at + i], .target = -1};
        if (last != NULL && at + c == n) {
            rows[c - 1].logits = last->logits;
            rows[c - 1].target = last->target;
        }
        KVA_GO(kva_step(u->model, rows, c, NULL, err));
        *u->rows += c;
        why = kva_session_error(s);
        if (why->code != KVA_OK) {
            rc = KVA_FAIL(err, why->code, "%s", why->text);
            goto out;
        }
        if (last != NULL && at + c == n)
            *last = rows[c - 1];
    }
out:
    free(rows);
    return rc;
}

void kva_unit_close(struct kva_unit_run *u)
{
    for (int q = 0; u->unit != NULL && q < u->unit->n_idx; q++) {
        if (u->questions != NULL)
            kva_question_release(&u->questions[q]);
        if (u->blind_questions != NULL)
            kva_question_release(&u->blind_questions[q]);
        if (u->gold != NULL)
            kva_tokens_release(&u->gold[q]);
        if (u->samples != NULL)
            kva_sample_row_release(&u->samples[q]);
    }
    kva_prompt_release(&u->prompt);
    kva_prompt_release(&u->blind);
    kva_arena_release(&u->arena);
}

enum kva_status kva_unit_blind(struct kva_unit_run *u, int q, struct kva_error *err)
{
    if (!u->has_blind) {
        KVA_TRY(kva_prompt_context(u->model, &u->items[0].feed, NULL, 0, &u->blind, err));
        u->has_blind = true;
    }
    if (u->blind_questions[q].ids.n == 0)
        KVA_TRY(make_question(u, &u->blind, q, &u->blind_questions[q], err));
    return KVA_OK;
}

enum kva_status kva_exec_sample(struct kva_plan *plan, int unit, int question,
                                struct kva_arena *arena, struct kva_item *item,
                                struct kva_sample_row *row, struct kva_error *err)
{
    struct kva_unit_run u;
    enum kva_status rc = kva_unit_open(plan, unit, NULL, NULL, &u, err);

    if (rc == KVA_OK) {
        const struct kva_item *it = &u.items[question];
        const char **answers =
            kva_arena_alloc(arena, (size_t)it->n_answers + 1, sizeof *answers);

        *item = *it;
        for (int i = 0; answers != NULL && i < it->n_answers; i++)
            answers[i] = kva_arena_strdup(arena, it->answers[i]);
        item->answers = answers;
        item->context = it->context != NULL
                            ? kva_arena_strndup(arena, it->context, it->context_len)
                            : NULL;
        item->question =
            it->question != NULL ? kva_arena_strdup(arena, it->question) : NULL;
        item->answer_prefix =
            it->answer_prefix != NULL ? kva_arena_strdup(arena, it->answer_prefix) : NULL;
        item->gold = it->gold != NULL ? kva_arena_strdup(arena, it->gold) : NULL;
        item->metric = it->metric != NULL ? kva_arena_strdup(arena, it->metric) : NULL;
        item->spans = NULL; /* token and byte ranges are in the row's meta */
        item->n_spans = 0;
        item->context_ids = item->question_ids = NULL;
        item->n_context = u.prompt.context.n;
        item->n_question = u.questions[question].ids.n;
        *row = u.samples[question];
        memset(&u.samples[question], 0, sizeof u.samples[question]);
    }
    kva_unit_close(&u);
    return rc;
}

/* ---- what is left of a span
 * ------------------------------------------------------------------- */

static int count_between(const int32_t *pos, int n, int32_t lo, int32_t hi)
{
    int k = 0;

    for (int i = 0; i < n; i++)
        k += pos[i] >= lo && pos[i] < hi;
    return k;
}

enum kva_status kva_unit_spans(const struct kva_unit_run *u, int q, struct kva_session *s,
                               struct kva_result *r, struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    struct kva_kvstore *store = kva_session_store(s);
    int L = u->info->layers, H = u->info->kv_heads;
    int32_t *pos = kva_calloc((size_t)kva_session_seen(s) + 1, sizeof *pos);

    r->layers = L;
    r->kv_heads = H;
    r->spans = kva_calloc((size_t)it->n_spans + 1, sizeof *r->spans);
    if (pos == NULL || r->spans == NULL) {
        free(pos);
        return KVA_FAIL(err, KVA_ENOMEM, "span survival");
    }
    for (int i = 0; i < it->n_spans; i++) {
        struct kva_result_span *rs = &r->spans[i];

        snprintf(rs->id, sizeof rs->id, "%s", it->spans[i].id);
        rs->n_tok = it->spans[i].t1 - it->spans[i].t0;
        rs->kept = kva_calloc((size_t)(L * H), sizeof *rs->kept);
        r->n_spans = i + 1;
        if (rs->kept == NULL) {
            free(pos);
            return KVA_FAIL(err, KVA_ENOMEM, "span survival");
        }
    }
    for (int c = 0; c < L * H; c++) {
        int n = kva_kvstore_live(store, c / H, c % H);

        kva_kvstore_positions(store, c / H, c % H, pos);
        for (int i = 0; i < it->n_spans; i++)
            r->spans[i].kept[c] =
                (uint16_t)count_between(pos, n, it->spans[i].t0, it->spans[i].t1);
    }
    free(pos);
    return KVA_OK;
}

enum kva_status kva_unit_bits(const struct kva_unit_run *u, struct kva_session *s,
                              int n_tok, struct kva_result *r, struct kva_error *err)
{
    struct kva_kvstore *store = kva_session_store(s);
    int L = u->info->layers, H = u->info->kv_heads;
    size_t row = (size_t)(n_tok + 7) / 8;
    int32_t *pos = kva_calloc((size_t)kva_session_seen(s) + 1, sizeof *pos);

    r->bits = kva_calloc((size_t)(L * H), row);
    if (pos == NULL || r->bits == NULL) {
        free(pos);
        return KVA_FAIL(err, KVA_ENOMEM, "kept bitmaps");
    }
    r->layers = L;
    r->kv_heads = H;
    r->bits_tok = n_tok;
    for (int c = 0; c < L * H; c++) {
        int n = kva_kvstore_live(store, c / H, c % H);

        kva_kvstore_positions(store, c / H, c % H, pos);
        for (int i = 0; i < n; i++)
            if (pos[i] < n_tok)
                r->bits[(size_t)c * row + (size_t)pos[i] / 8] |=
                    (uint8_t)(1u << (pos[i] % 8));
    }
    free(pos);
    return KVA_OK;
}

enum kva_status kva_unit_score(const struct kva_unit_run *u, int q,
                               const struct kva_run_cell *c, struct kva_result *r,
                               struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    const struct kva_metric *metric = kva_metric_find(it->metric);
    struct kva_metric_in in;
    struct kva_metric_out scored = {0};
    struct kva_buf text;
    enum kva_status rc;

    kva_buf_init(&text, 0);
    if (metric == NULL) {
        rc = KVA_FAIL(err, KVA_EINVALID, "unknown metric %s", it->metric);
        goto out;
    }
    r->n_gen = c->n_gen;
    r->ids = kva_calloc((size_t)c->n_gen + 1, sizeof *r->ids);
    if (r->ids == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "generation");
        goto out;
    }
    memcpy(r->ids, c->gen, (size_t)c->n_gen * sizeof *r->ids);
    KVA_GO(kva_tokenizer_decode(c->tok, c->gen, (size_t)c->n_gen, &text, err));
    KVA_GO(kva_buf_status(&text, err));
    r->text = strdup(text.data != NULL ? text.data : "");
    snprintf(r->status, sizeof r->status, "ok");
    snprintf(r->stop, sizeof r->stop, "%s", c->stop);
    snprintf(r->scores[0].metric, sizeof r->scores[0].metric, "%s", metric->name);
    r->scores[0].version = metric->version;
    in = (struct kva_metric_in){.prediction = r->text,
                                .n = strlen(r->text),
                                .answers = it->answers,
                                .n_answers = it->n_answers,
                                .classes = it->classes,
                                .n_classes = it->n_classes,
                                .post = it->post};
    KVA_GO(kva_metric_score(metric, &in, &scored, err));
    r->scores[0].value = scored.score;
    r->n_scores = 1;
    if (c->has_gold) {
        snprintf(r->scores[1].metric, sizeof r->scores[1].metric, "gold_nll");
        r->scores[1].version = 1;
        r->scores[1].value = c->gold_sum / c->n_gold;
        r->n_scores = 2;
    }
out:
    kva_buf_release(&text);
    return rc;
}
