/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_unit.c - prompts, gold answers, sample identity, spans and bytes of one unit. */
#include "runner/exec_internal.h"
#include "runner/misfit.h"

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

static void forget_scores(struct kva_result *r)
{
    for (int i = 0; i < r->n_scores; i++)
        free(r->scores[i].extracted);
    r->n_scores = 0;
}

void kva_result_release(struct kva_result *r)
{
    free(r->error);
    free(r->text);
    free(r->ids);
    free(r->bits);
    forget_scores(r);
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
    forget_scores(r);
}

/* ---- prompts ---- */

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

static enum kva_status make_context(struct kva_unit_run *u, const struct kva_item *it,
                                    struct kva_error *err)
{
    if (it->context_ids == NULL)
        return kva_prompt_context(u->model, &it->feed, it->context, it->context_len,
                                  &u->prompt, err);
    KVA_TRY(ids_to_tokens(it->context_ids, it->n_context_ids, &u->prompt.context, err));
    KVA_TRY(check_ids(u, &u->prompt.context, "context_ids", err));
    return kva_tokenizer_clone(kva_model_tokenizer(u->model), &u->prompt.tok, err);
}

/* The prompt of a golden turn: the history as the references tell it, then the question.
 * What the eviction may see stays the first question. */
static enum kva_status prepend_history(const struct kva_unit_run *u, int q,
                                       struct kva_question *list, struct kva_error *err)
{
    struct kva_tokens *t = &list[q].ids, all = {0};
    const struct kva_tokens *parts[3] = {&list[q - 1].ids, &u->gold[q - 1], t};

    if (u->gold[q - 1].n == 0)
        return KVA_FAIL(err, KVA_EINVALID, "turn %d has no reference to go on from",
                        q - 1);
    all.cap = parts[0]->n + parts[1]->n + parts[2]->n;
    all.id = kva_calloc(all.cap, sizeof *all.id);
    if (all.id == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a history of %zu tokens", all.cap);
    for (int i = 0; i < 3; i++) {
        memcpy(all.id + all.n, parts[i]->id, parts[i]->n * sizeof *all.id);
        all.n += parts[i]->n;
    }
    kva_tokens_release(t);
    *t = all;
    return KVA_OK;
}

/* Fills list[q], behind the context `p`. */
static enum kva_status make_question(const struct kva_unit_run *u,
                                     const struct kva_prompt *p, int q,
                                     struct kva_question *list, struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    const struct kva_task_info *info = kva_task_info(u->task->task);
    struct kva_question *out = &list[q];

    if (it->question_ids != NULL && info->conversation)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "a conversation is given as text, not as token ids");
    if (it->question_ids != NULL) {
        KVA_TRY(ids_to_tokens(it->question_ids, it->n_question_ids, &out->ids, err));
        KVA_TRY(check_ids(u, &out->ids, "question_ids", err));
        out->n_visible = (int)out->ids.n;
        return kva_tokenizer_clone(p->tok, &out->tok, err);
    }
    if (!info->conversation || q == 0)
        return kva_prompt_question(u->model, &it->feed, p, it->question,
                                   it->answer_prefix, out, err);
    KVA_TRY(kva_prompt_next(u->model, &it->feed, &list[q - 1], it->question,
                            it->answer_prefix, out, err));
    return info->golden ? prepend_history(u, q, list, err) : KVA_OK;
}

int kva_seen_question(const struct kva_unit_run *u, const struct kva_question *questions,
                      int q, enum kva_visibility v)
{
    int first = kva_task_info(u->task->task)->conversation ? 0 : q;

    if (v == KVA_AWARE)
        return questions[first].n_visible;
    return v == KVA_FULL ? (int)questions[first].ids.n : 0;
}

enum kva_status kva_unit_max_new(const struct kva_unit_run *u, int q, int n_prompt,
                                 int *max_new, struct kva_error *err)
{
    return kva_item_room(&u->items[q], u->info->ctx_train, n_prompt, max_new, err);
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

/* ---- identity ---- */

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

/* One group. A span in one place has its bytes and tokens; one in several lists them as
 * [byte, byte, token, token]. */
static json_t *group_json(const struct kva_item *it, const struct kva_span_groups *g,
                          int group)
{
    json_t *parts = json_array(), *o;
    const struct kva_span *first = NULL;
    size_t stem;

    for (int i = 0; i < it->n_spans; i++) {
        const struct kva_span *s = &it->spans[i];

        if (g->of[i] != group)
            continue;
        if (first == NULL)
            first = s;
        json_array_append_new(
            parts, json_pack("[i,i,i,i]", (int)s->b0, (int)s->b1, s->t0, s->t1));
    }
    stem = strcspn(first->match, ".");
    o = json_pack("{s:s, s:s%, s:b, s:s, s:s%, s:i}", "id", g->id[group], "kind",
                  &first->kind, (size_t)1, "queried", first->queried, "role",
                  first->role != NULL ? first->role : "", "match", first->match, stem,
                  "level", first->level);
    if (json_array_size(parts) > 1 || strchr(first->id, '.') != NULL) {
        json_object_set(o, "parts", parts);
    } else {
        json_object_set_new(o, "byte",
                            json_pack("[i,i]", (int)first->b0, (int)first->b1));
        json_object_set_new(o, "tok", json_pack("[i,i]", first->t0, first->t1));
        json_object_set_new(o, "bucket", json_integer(first->bucket));
        json_object_set_new(o, "depth", json_real(first->depth));
    }
    json_decref(parts);
    return o;
}

/* What the task marks a sample with. A name of ours is not overwritten. */
static enum kva_status add_labels(const struct kva_unit_run *u, const struct kva_item *it,
                                  json_t *meta, struct kva_error *err)
{
    static const struct {
        const char *name;
        size_t at;
    } flags[] = {{"was_cut", offsetof(struct kva_item, was_cut)},
                 {"no_haystack", offsetof(struct kva_item, no_haystack)},
                 {"underfill", offsetof(struct kva_item, underfill)}};
    json_t *labels = NULL;

    if (kva_task_info(u->task->task)->turns > 1 || it->turn > 0)
        json_object_set_new(meta, "turn", json_integer(it->turn));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (*(const bool *)((const char *)it + flags[i].at))
            json_object_set_new(meta, flags[i].name, json_true());
    if (it->labels == NULL)
        return KVA_OK;
    labels = json_loads(it->labels, 0, NULL);
    if (!json_is_object(labels)) {
        json_decref(labels);
        return KVA_FAIL(err, KVA_EINVALID, "labels of sample %d are no JSON object",
                        it->idx);
    }
    json_object_update_missing(meta, labels);
    json_decref(labels);
    return KVA_OK;
}

static json_t *meta_json(const struct kva_unit_run *u, int q, struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    json_t *spans = json_array(), *gold = json_array(), *o;

    for (int g = 0; g < u->groups[q].n; g++)
        json_array_append_new(spans, group_json(it, &u->groups[q], g));
    for (size_t i = 0; i < u->gold[q].n; i++)
        json_array_append_new(gold, json_integer(u->gold[q].id[i]));
    o = json_pack("{s:f, s:f, s:I, s:I, s:i, s:o, s:o}", "depth", it->depth, "fill",
                  it->fill, "n_context", (json_int_t)u->prompt.context.n, "n_question",
                  (json_int_t)u->questions[q].ids.n, "max_new_tokens", it->max_new_tokens,
                  "spans", spans, "gold_ids", gold);
    if (o == NULL) {
        (void)KVA_FAIL(err, KVA_ENOMEM, "description of sample %d", it->idx);
        return NULL;
    }
    /* what scoring needs beside references, for `run --rescore` */
    json_object_set_new(o, "post", json_string(kva_post_names[it->post]));
    for (int i = 0; i < it->n_classes; i++) {
        if (i == 0)
            json_object_set_new(o, "classes", json_array());
        json_array_append_new(json_object_get(o, "classes"), json_string(it->classes[i]));
    }
    if (u->opts != NULL && u->opts->prompts && it->context != NULL) {
        json_object_set_new(o, "context", json_stringn(it->context, it->context_len));
        json_object_set_new(o, "question", json_string(it->question));
        json_object_set_new(o, "answer_prefix", json_string(it->answer_prefix));
    }
    if (add_labels(u, it, o, err) == KVA_OK)
        return o;
    json_decref(o);
    return NULL;
}

static enum kva_status make_sample(struct kva_unit_run *u, int q, struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    struct kva_sample_row *s = &u->samples[q];
    json_t *refs = json_array(), *meta = meta_json(u, q, err), *id = NULL;
    char task[65], ctx[65], ques[65], prefix[65];
    char *text = NULL;
    enum kva_status rc = KVA_OK;

    if (meta == NULL) {
        rc = err != NULL && err->code != KVA_OK ? err->code : KVA_ENOMEM;
        goto out;
    }
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
    s->refs_json = json_dumps(refs, JSON_COMPACT);
    s->meta_json = json_dumps(meta, JSON_COMPACT | JSON_SORT_KEYS);
    text = id != NULL ? json_dumps(id, JSON_COMPACT) : NULL;
    if (s->refs_json == NULL || s->meta_json == NULL || text == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "identity of sample %d", it->idx);
        goto out;
    }
    KVA_GO(kva_json_digest(text, s->digest, err));
    /* what has no context shares none */
    memcpy(s->cluster, ctx, sizeof s->cluster);
    if (it->context == NULL && it->context_ids == NULL)
        kva_hex(s->digest, 32, s->cluster);
out:
    free(text);
    json_decref(refs);
    json_decref(meta);
    json_decref(id);
    return rc;
}

/* ---- opening ---- */

/* A record that cannot be used, or a sample that does not fit, fails its own jobs: it
 * stays in the count (u->bad) with nothing but its index. */
static enum kva_status make_items(struct kva_unit_run *u, struct kva_error *err)
{
    struct kva_tok_model tm;
    struct kva_tok_api api;

    kva_tok_api_model(&tm, u->model, &api);
    for (int q = 0; q < u->unit->n_idx; q++) {
        int idx = u->unit->idx[q];
        enum kva_status rc =
            kva_task_item(u->task->task, idx, &api, &u->arena, &u->items[q], &u->bad[q]);

        if (rc == KVA_ENOMEM || rc == KVA_EIO || rc == KVA_EINTERRUPTED)
            return KVA_FAIL(err, rc, "%s", u->bad[q].text);
        if (rc != KVA_OK)
            u->items[q] = (struct kva_item){.idx = idx, .depth = -1};
    }
    return KVA_OK;
}

enum kva_status kva_unit_open(struct kva_plan *plan, int unit,
                              const struct kva_exec_opts *opts,
                              const struct kva_sink *sink, struct kva_unit_run *u,
                              struct kva_error *err)
{
    const struct kva_unit *un = &plan->units[unit];
    const bool talk = kva_task_info(plan->tasks[un->task].task)->conversation;
    int first = 0; /* the first item that could be made has the unit's context */

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
    u->chunk =
        opts != NULL && opts->chunk > 0 ? opts->chunk : kva_model_ops(u->model)->chunk;
    u->items = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->items);
    u->questions = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->questions);
    u->blind_questions =
        kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->questions);
    u->gold = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->gold);
    u->ends = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->ends);
    u->groups = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->groups);
    u->samples = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->samples);
    u->bad = kva_arena_alloc(&u->arena, (size_t)un->n_idx, sizeof *u->bad);
    if (u->items == NULL || u->questions == NULL || u->blind_questions == NULL ||
        u->gold == NULL || u->ends == NULL || u->groups == NULL || u->samples == NULL ||
        u->bad == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a unit of %d questions", un->n_idx);
    KVA_TRY(make_items(u, err));
    while (first < un->n_idx && u->bad[first].code != KVA_OK)
        first++;
    if (first < un->n_idx)
        (void)make_context(u, &u->items[first], &u->bad[first]);
    u->context_fnv =
        kva_fnv1a64(u->prompt.context.id, u->prompt.context.n * sizeof(int32_t));
    for (int q = 0; q < un->n_idx; q++) {
        struct kva_item *it = &u->items[q];
        struct kva_span *spans;

        /* a prompt that cannot be fed fails its own jobs, and its sample is stored with
         * them */
        if (u->bad[q].code == KVA_OK && (u->prompt.tok == NULL || (talk && q > 0)))
            u->bad[q] = u->bad[u->prompt.tok == NULL ? first : q - 1];
        if (u->bad[q].code == KVA_OK &&
            make_question(u, &u->prompt, q, u->questions, &u->bad[q]) == KVA_OK &&
            make_gold(u, q, &u->bad[q]) == KVA_OK)
            (void)kva_ends_open(it, u->questions[q].tok, &u->arena, &u->ends[q],
                                &u->bad[q]);
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
        KVA_TRY(kva_unit_group_spans(u, q, err));
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
    kva_model_ops(u->model)->context = true;
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
            rows[c - 1].forbid = last->forbid;
            rows[c - 1].n_forbid = last->n_forbid;
            rows[c - 1].keep_logits = last->keep_logits;
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
    kva_model_ops(u->model)->context = false;
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
        KVA_TRY(kva_prompt_context(u->model, &u->items[q].feed, NULL, 0, &u->blind, err));
        u->has_blind = true;
    }
    if (u->blind_questions[q].tok != NULL)
        return KVA_OK;
    if (q > 0 && kva_task_info(u->task->task)->conversation)
        KVA_TRY(kva_unit_blind(u, q - 1, err));
    return make_question(u, &u->blind, q, u->blind_questions, err);
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
        item->more_metrics = item->classes = item->decoys = item->stops = NULL;
        item->n_classes = item->n_decoys = item->n_stops = 0;
        item->eos_text = item->labels = item->feed.suffix = NULL;
        item->n_context = u.prompt.context.n;
        item->n_question = u.questions[question].ids.n;
        *row = u.samples[question];
        memset(&u.samples[question], 0, sizeof u.samples[question]);
    }
    kva_unit_close(&u);
    return rc;
}
