/* SPDX-License-Identifier: GPL-3.0-or-later */
/* record.c - an item as one line of JSON, schema kvaudit.sample/1.
 *
 * Reals have nine digits. What `jsonl:` reads is what is written here (tests read it
 * back). */
#include "tasks/internal.h"

#include <jansson.h>
#include <string.h>

static void put(bool *bad, json_t *o, const char *key, json_t *value)
{
    *bad = json_object_set_new(o, key, value) != 0 || *bad;
}

static void append(bool *bad, json_t *list, json_t *value)
{
    *bad = json_array_append_new(list, value) != 0 || *bad;
}

static json_t *pair(int64_t a, int64_t b)
{
    return json_pack("[I,I]", (json_int_t)a, (json_int_t)b);
}

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *ids_json(const int32_t *ids, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_integer(ids[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *payload_json(const struct kva_item *item, const struct kva_span *e,
                            bool *bad)
{
    json_t *list = json_array();

    for (int i = 0; i < item->n_spans; i++) {
        const struct kva_span *p = &item->spans[i];
        json_t *o;

        if (p->kind != 'P' || strcmp(p->match, e->id) != 0)
            continue;
        o = json_object();
        put(bad, o, "what", json_string(p->role));
        put(bad, o, "byte", pair((int64_t)p->b0, (int64_t)p->b1));
        put(bad, o, "tok", pair(p->t0, p->t1));
        append(bad, list, o);
    }
    return list;
}

static json_t *span_json(const struct kva_item *item, const struct kva_span *s, bool *bad)
{
    json_t *o = json_object();
    bool evidence = s->kind == 'E';

    put(bad, o, "id", json_string(s->id));
    put(bad, o, "kind", json_string(evidence ? "E" : "D"));
    if (evidence) {
        put(bad, o, "role", json_string(s->role));
        put(bad, o, "queried", json_boolean(s->queried));
    } else {
        put(bad, o, "match", json_string(s->match));
        put(bad, o, "level", json_integer(s->level));
    }
    put(bad, o, "byte", pair((int64_t)s->b0, (int64_t)s->b1));
    put(bad, o, "tok", pair(s->t0, s->t1));
    if (evidence) {
        put(bad, o, "payload", payload_json(item, s, bad));
        put(bad, o, "depth", json_real(s->depth));
    }
    put(bad, o, "bucket", json_integer(s->bucket));
    if (!evidence) {
        put(bad, o, "dtok", json_integer(s->dtok));
        put(bad, o, "guard", json_integer(s->guard));
    }
    return o;
}

static void add_prompt(json_t *o, const struct kva_item *item, bool *bad)
{
    json_t *answers = json_array(), *spans = json_array();

    if (item->context_ids) {
        put(bad, o, "context_ids", ids_json(item->context_ids, item->n_context_ids));
        put(bad, o, "question_ids", ids_json(item->question_ids, item->n_question_ids));
    } else {
        put(bad, o, "context", json_stringn(item->context, item->context_len));
        put(bad, o, "question", json_string(item->question));
        put(bad, o, "answer_prefix", json_string(item->answer_prefix));
    }
    for (int i = 0; i < item->n_answers; i++)
        append(bad, answers, json_string(item->answers[i]));
    put(bad, o, "answers", answers);
    put(bad, o, "gold", text_or_null(item->gold));
    put(bad, o, "metric", json_string(item->metric));
    put(bad, o, "max_new_tokens", json_integer(item->max_new_tokens));
    for (int i = 0; i < item->n_spans; i++)
        if (item->spans[i].kind != 'P')
            append(bad, spans, span_json(item, &item->spans[i], bad));
    put(bad, o, "spans", spans);
    put(bad, o, "turns", json_null());
}

static int add_text(const char *s, size_t n, void *out)
{
    kva_buf_add(out, s, n);
    return 0;
}

void kva_task_dump(const void *json, size_t flags, struct kva_buf *out)
{
    if (json_dump_callback(json, add_text, out, flags) != 0)
        out->failed = true;
}

enum kva_status kva_task_record(const struct kva_task *task, const struct kva_item *item,
                                const struct kva_tok_api *tok, struct kva_buf *out,
                                struct kva_error *err)
{
    json_t *o = json_object();
    bool generated = task->info.ctx > 0, failed = false, *bad = &failed;

    put(bad, o, "schema", json_string("kvaudit.sample/1"));
    put(bad, o, "suite", json_string(task->info.suite));
    put(bad, o, "dialect", text_or_null(generated ? "kva1" : NULL));
    put(bad, o, "task", json_string(task->name));
    put(bad, o, "L", json_integer(task->info.ctx));
    put(bad, o, "idx", json_integer(item->idx));
    put(bad, o, "seed", json_integer((json_int_t)task->seed));
    put(bad, o, "haystack", text_or_null(task->haystack));
    put(bad, o, "splitter", text_or_null(task->splitter));
    put(bad, o, "words", text_or_null(task->words));
    put(bad, o, "layout", text_or_null(generated ? "kvpress" : NULL));
    put(bad, o, "tokenizer", json_pack("{s:s}", "id", tok ? tok->id : "none"));
    put(bad, o, "template", json_string("none"));
    put(bad, o, "length",
        json_integer((json_int_t)(item->n_context + item->n_question) +
                     item->max_new_tokens));
    put(bad, o, "fill", json_real(item->fill));
    if (item->underfill)
        put(bad, o, "underfill", json_true());
    add_prompt(o, item, bad);
    if (!failed)
        kva_task_dump(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9),
                      out);
    json_decref(o);
    if (failed || out->failed)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: the record cannot be written",
                        item->idx);
    return KVA_OK;
}
