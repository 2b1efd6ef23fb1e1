/* SPDX-License-Identifier: GPL-3.0-or-later */
/* record.c - an item as one line of JSON, schema kvaudit.sample/1.
 *
 * Reals have nine digits; members that say the usual are left out. What `jsonl:` reads is
 * what is written here (tests read it back). */
#include "tasks/internal.h"

#include <jansson.h>
#include <stdlib.h>
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

/* Payloads by the E they belong to, in the order of the spans: a list of words has a
 * quarter of a million of them at a million tokens. */
struct payloads {
    const struct kva_span **sorted;
    size_t n;
};

static int by_match(const void *a, const void *b)
{
    const struct kva_span *const *x = a, *const *y = b;
    int c = strcmp((*x)->match, (*y)->match);

    return c ? c : (*x > *y) - (*x < *y);
}

static json_t *payload_json(const struct payloads *all, const struct kva_span *e,
                            bool *bad)
{
    json_t *list = json_array();
    size_t lo = 0, hi = all->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (strcmp(all->sorted[mid]->match, e->id) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < all->n && strcmp(all->sorted[lo]->match, e->id) == 0; lo++) {
        const struct kva_span *p = all->sorted[lo];
        json_t *o;

        o = json_object();
        put(bad, o, "what", json_string(p->role));
        put(bad, o, "byte", pair((int64_t)p->b0, (int64_t)p->b1));
        put(bad, o, "tok", pair(p->t0, p->t1));
        append(bad, list, o);
    }
    return list;
}

static json_t *span_json(const struct payloads *all, const struct kva_span *s, bool *bad)
{
    json_t *o = json_object();
    bool evidence = s->kind == 'E', distractor = s->kind == 'D';

    put(bad, o, "id", json_string(s->id));
    put(bad, o, "kind", json_stringn(&s->kind, 1));
    if (!distractor)
        put(bad, o, "role", json_string(s->role));
    if (evidence)
        put(bad, o, "queried", json_boolean(s->queried));
    if (distractor) {
        put(bad, o, "match", json_string(s->match));
        put(bad, o, "level", json_integer(s->level));
    }
    put(bad, o, "byte", pair((int64_t)s->b0, (int64_t)s->b1));
    put(bad, o, "tok", pair(s->t0, s->t1));
    if (evidence) {
        put(bad, o, "payload", payload_json(all, s, bad));
        put(bad, o, "depth", json_real(s->depth));
    }
    put(bad, o, "bucket", json_integer(s->bucket));
    if (distractor) {
        put(bad, o, "dtok", json_integer(s->dtok));
        put(bad, o, "guard", json_integer(s->guard));
    }
    return o;
}

static json_t *texts_json(const char *const *text, size_t n, bool *bad)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        append(bad, list, json_string(text[i]));
    return list;
}

static void add_spans(json_t *o, const struct kva_item *item, bool *bad)
{
    json_t *spans = json_array();
    struct payloads all = {kva_calloc((size_t)item->n_spans + 1, sizeof *all.sorted), 0};

    *bad = *bad || !all.sorted;
    for (int i = 0; i < item->n_spans && all.sorted; i++)
        if (item->spans[i].kind == 'P')
            all.sorted[all.n++] = &item->spans[i];
    if (all.sorted)
        qsort(all.sorted, all.n, sizeof *all.sorted, by_match);
    for (int i = 0; i < item->n_spans && !*bad; i++)
        if (item->spans[i].kind != 'P')
            append(bad, spans, span_json(&all, &item->spans[i], bad));
    free(all.sorted);
    put(bad, o, "spans", spans);
}

static void add_scoring(json_t *o, const struct kva_item *item, bool *bad)
{
    size_t n = 0;

    put(bad, o, "answers", texts_json(item->answers, (size_t)item->n_answers, bad));
    put(bad, o, "gold", text_or_null(item->gold));
    put(bad, o, "metric", json_string(item->metric));
    while (item->more_metrics && item->more_metrics[n])
        n++;
    if (n > 0)
        put(bad, o, "more_metrics", texts_json(item->more_metrics, n, bad));
    if (item->n_classes > 0)
        put(bad, o, "classes", texts_json(item->classes, (size_t)item->n_classes, bad));
    if (item->post != KVA_POST_NONE)
        put(bad, o, "post", json_string(kva_post_names[item->post]));
    if (item->guess_floor > 0)
        put(bad, o, "guess_floor", json_real(item->guess_floor));
    if (item->n_decoys > 0)
        put(bad, o, "decoys", texts_json(item->decoys, (size_t)item->n_decoys, bad));
}

static json_t *feed_json(const struct kva_feed *feed, bool *bad)
{
    json_t *o = json_object();

    if (feed->raw)
        put(bad, o, "raw", json_true());
    if (feed->no_bos)
        put(bad, o, "no_bos", json_true());
    if (feed->suffix)
        put(bad, o, "suffix", json_string(feed->suffix));
    return o;
}

/* How it is fed and how the answer ends; what is as usual is left out. */
static void add_ends(json_t *o, const struct kva_item *item, bool *bad)
{
    put(bad, o, "max_new_tokens", json_integer(item->max_new_tokens));
    if (item->max_total > 0)
        put(bad, o, "max_total", json_integer(item->max_total));
    if (item->feed.raw || item->feed.no_bos || item->feed.suffix)
        put(bad, o, "feed", feed_json(&item->feed, bad));
    if (item->n_stops > 0)
        put(bad, o, "stops", texts_json(item->stops, (size_t)item->n_stops, bad));
    if (item->eos_text)
        put(bad, o, "eos_text", json_string(item->eos_text));
    if (item->min_one)
        put(bad, o, "min_one", json_true());
    if (item->loop_guard)
        put(bad, o, "loop_guard", json_true());
}

static void add_prompt(json_t *o, const struct kva_item *item, bool *bad)
{
    if (item->context_ids) {
        put(bad, o, "context_ids", ids_json(item->context_ids, item->n_context_ids));
        put(bad, o, "question_ids", ids_json(item->question_ids, item->n_question_ids));
    } else {
        put(bad, o, "context", json_stringn(item->context, item->context_len));
        put(bad, o, "question", json_string(item->question));
        put(bad, o, "answer_prefix", json_string(item->answer_prefix));
    }
    add_scoring(o, item, bad);
    add_ends(o, item, bad);
    if (item->labels) {
        json_error_t why;

        put(bad, o, "labels", json_loads(item->labels, JSON_ALLOW_NUL, &why));
    }
    add_spans(o, item, bad);
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
    bool failed = false, *bad = &failed;

    put(bad, o, "schema", json_string("kvaudit.sample/1"));
    put(bad, o, "suite", json_string(task->info.suite));
    put(bad, o, "dialect", text_or_null(task->info.dialect));
    put(bad, o, "task", json_string(task->name));
    put(bad, o, "L", json_integer(task->info.ctx));
    put(bad, o, "idx", json_integer(item->idx));
    put(bad, o, "seed", json_integer((json_int_t)task->seed));
    put(bad, o, "haystack", text_or_null(task->haystack));
    put(bad, o, "splitter", text_or_null(task->splitter));
    put(bad, o, "words", text_or_null(task->words));
    put(bad, o, "layout", text_or_null(task->layout));
    put(bad, o, "tokenizer", json_pack("{s:s}", "id", tok ? tok->id : "none"));
    put(bad, o, "template", json_string("none"));
    put(bad, o, "length",
        json_integer((json_int_t)(item->n_context + item->n_question) +
                     item->max_new_tokens));
    put(bad, o, "fill", json_real(item->fill));
    if (item->underfill)
        put(bad, o, "underfill", json_true());
    if (item->no_haystack)
        put(bad, o, "no_haystack", json_true());
    if (item->was_cut)
        put(bad, o, "was_cut", json_true());
    if (task->info.turns > 1)
        put(bad, o, "turn", json_integer(item->turn));
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
