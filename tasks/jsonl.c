/* SPDX-License-Identifier: GPL-3.0-or-later */
/* jsonl.c - the user's own samples, one JSON record a line (schema kvaudit.sample/1).
 *
 * Needed: answers, and context with question, or the exact token ids context_ids with
 * question_ids. Optional: answer_prefix, metric (match_all), max_new_tokens (64), gold,
 * spans, and what record.c writes beside them: more_metrics, classes, post, decoys, feed,
 * stops, labels and their like. A record with "turns" is several samples on one context:
 * each turn has its own question and answers, may set anything else that is no part of
 * the context (what it does not set is the record's), and its "spans" name the evidence
 * it asks for, by id or by the id before the full stop. The other fields of a generated
 * record are read over; a key that is no such field is an error, since it is most often a
 * misspelt one. Blank lines are skipped. The whole file is checked when it is opened; a
 * record is parsed again when its item is asked for, so that only the file's bytes stay
 * in memory. */
#include "tasks/internal.h"
#include "metrics/metric.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MAX_NEW = 64, MAX_NEW_MAX = 1 << 20, TEXTS_MAX = 100000 };

struct line {
    size_t b0, b1;
    int number; /* from 1 */
};
struct sample {
    size_t line;
    int turn;
};
struct jsonl {
    struct kva_buf path, file;
    struct line *line;
    size_t n_lines, cap;
    struct sample *sample;
    size_t n_samples, cap_samples;
    char sha256[65];
    int max_new_tokens; /* of the options; 0: the record's */
};

/* Where a complaint belongs. */
struct place {
    const struct jsonl *s;
    int line;
    int turn; /* from 1; 0: the record itself */
};
static enum kva_status complain(const struct place *at, struct kva_error *err,
                                const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static enum kva_status complain(const struct place *at, struct kva_error *err,
                                const char *format, ...)
{
    char reason[300];
    va_list ap;

    va_start(ap, format);
    vsnprintf(reason, sizeof reason, format, ap);
    va_end(ap);
    if (at->turn > 0)
        return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: turn %d: %s", at->s->path.data,
                        at->line, at->turn, reason);
    return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: %s", at->s->path.data, at->line, reason);
}

static const char *const record_keys[] = {"schema",
                                          "suite",
                                          "dialect",
                                          "task",
                                          "L",
                                          "idx",
                                          "seed",
                                          "haystack",
                                          "splitter",
                                          "words",
                                          "layout",
                                          "tokenizer",
                                          "template",
                                          "length",
                                          "fill",
                                          "underfill",
                                          "context",
                                          "question",
                                          "answer_prefix",
                                          "answers",
                                          "metric",
                                          "max_new_tokens",
                                          "spans",
                                          "turns",
                                          "gold",
                                          "context_ids",
                                          "question_ids",
                                          "more_metrics",
                                          "classes",
                                          "post",
                                          "guess_floor",
                                          "decoys",
                                          "max_total",
                                          "feed",
                                          "stops",
                                          "eos_text",
                                          "min_one",
                                          "loop_guard",
                                          "turn",
                                          "labels",
                                          "no_haystack",
                                          "was_cut",
                                          NULL};
static const char *const turn_keys[] = {
    "question",       "question_ids", "answer_prefix", "answers", "gold",
    "metric",         "more_metrics", "classes",       "post",    "guess_floor",
    "decoys",         "stops",        "eos_text",      "min_one", "loop_guard",
    "max_new_tokens", "max_total",    "labels",        "spans",   NULL};
/* what a record with turns leaves to them */
static const char *const asking_keys[] = {"question", "question_ids", "answers",
                                          "gold",     "turn",         NULL};
static const char *const span_keys[] = {"id",     "kind", "role",  "queried", "match",
                                        "level",  "byte", "tok",   "payload", "depth",
                                        "bucket", "dtok", "guard", NULL};
static const char *const feed_keys[] = {"raw", "no_bos", "suffix", NULL};
static const char *const payload_keys[] = {"what", "byte", "tok", NULL};

static enum kva_status no_memory(const struct place *at, struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "%s:%d: out of memory", at->s->path.data, at->line);
}

static enum kva_status check_keys(const struct place *at, json_t *o, const char *what,
                                  const char *const *known, struct kva_error *err)
{
    const char *key, *near;
    json_t *value;

    json_object_foreach(o, key, value)
    {
        size_t i = 0;

        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (known[i])
            continue;
        near = kva_nearest(key, known);
        if (near)
            return complain(at, err, "unknown field \"%.60s\"%s; did you mean %s?", key,
                            what, near);
        return complain(at, err, "unknown field \"%.60s\"%s", key, what);
    }
    return KVA_OK;
}

/* An absent or null member is NULL. */
static json_t *member(json_t *o, const char *key)
{
    json_t *x = json_object_get(o, key);

    return json_is_null(x) ? NULL : x;
}

/* Text from the arena; `otherwise` when absent (NULL: it must be there). */
static enum kva_status get_text(const struct place *at, json_t *o, const char *key,
                                const char *otherwise, struct kva_arena *arena,
                                const char **out, size_t *len, struct kva_error *err)
{
    json_t *x = member(o, key);

    if (!x && !otherwise)
        return complain(at, err, "no \"%s\"", key);
    if (x && !json_is_string(x))
        return complain(at, err, "\"%s\" is not a text", key);
    if (len)
        *len = x ? json_string_length(x) : strlen(otherwise);
    *out = kva_arena_strdup(arena, x ? json_string_value(x) : otherwise);
    return *out ? KVA_OK : no_memory(at, err);
}

static enum kva_status get_ids(const struct place *at, json_t *o, const char *key,
                               struct kva_arena *arena, const int32_t **out, size_t *n,
                               struct kva_error *err)
{
    json_t *list = member(o, key), *x;
    int32_t *ids;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) == 0)
        return complain(at, err, "\"%s\" is not a list of token ids", key);
    *n = json_array_size(list);
    ids = kva_arena_alloc(arena, *n, sizeof *ids);
    if (!ids)
        return no_memory(at, err);
    json_array_foreach(list, i, x)
    {
        json_int_t id = json_is_integer(x) ? json_integer_value(x) : -1;

        if (id < 0 || id > INT32_MAX)
            return complain(at, err, "\"%s\"[%zu] is not a token id", key, i);
        ids[i] = (int32_t)id;
    }
    *out = ids;
    return KVA_OK;
}

/* A list of texts, none of them empty, with a NULL behind it; absent: *n stays 0. */
static enum kva_status get_texts(const struct place *at, json_t *o, const char *key,
                                 struct kva_arena *arena, const char *const **out, int *n,
                                 struct kva_error *err)
{
    json_t *list = member(o, key), *x;
    const char **text;
    size_t i;

    if (!list)
        return KVA_OK;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return complain(at, err, "\"%s\" is not a list with at least one text", key);
    if (json_array_size(list) > TEXTS_MAX)
        return complain(at, err, "more than %d %s", TEXTS_MAX, key);
    text = kva_arena_alloc(arena, json_array_size(list) + 1, sizeof *text);
    if (!text)
        return no_memory(at, err);
    json_array_foreach(list, i, x)
    {
        if (!json_is_string(x) || json_string_length(x) == 0)
            return complain(at, err, "%s[%zu] is not a text, or is empty", key, i);
        text[i] = kva_arena_strdup(arena, json_string_value(x));
        if (!text[i])
            return no_memory(at, err);
    }
    text[i] = NULL;
    *out = text;
    *n = (int)json_array_size(list);
    return KVA_OK;
}

/* true or false; absent: false. */
static enum kva_status get_flag(const struct place *at, json_t *o, const char *key,
                                bool *out, struct kva_error *err)
{
    json_t *x = member(o, key);

    if (x && !json_is_boolean(x))
        return complain(at, err, "\"%s\" is not true or false", key);
    *out = json_is_true(x);
    return KVA_OK;
}

/* A whole number from lo to hi; absent: *out stays. */
static enum kva_status get_number(const struct place *at, json_t *o, const char *key,
                                  int lo, int hi, int *out, struct kva_error *err)
{
    json_t *x = member(o, key);

    if (!x)
        return KVA_OK;
    if (!json_is_integer(x) || json_integer_value(x) < lo || json_integer_value(x) > hi)
        return complain(at, err, "\"%s\" is not a whole number from %d to %d", key, lo,
                        hi);
    *out = (int)json_integer_value(x);
    return KVA_OK;
}

/* ---- spans ---- */

/* Pair [a, b] with 0 <= a < b <= limit. */
static enum kva_status get_range(const struct place *at, json_t *o, const char *key,
                                 size_t limit, size_t *a, size_t *b,
                                 struct kva_error *err)
{
    json_t *x = member(o, key), *lo = json_array_get(x, 0), *hi = json_array_get(x, 1);

    if (!json_is_array(x) || json_array_size(x) != 2 || !json_is_integer(lo) ||
        !json_is_integer(hi))
        return complain(at, err, "a span's \"%s\" is not [begin, end]", key);
    if (json_integer_value(lo) < 0 || json_integer_value(hi) <= json_integer_value(lo) ||
        (uint64_t)json_integer_value(hi) > limit)
        return complain(at, err, "a span's \"%s\" does not lie in the context (0 to %zu)",
                        key, limit);
    *a = (size_t)json_integer_value(lo);
    *b = (size_t)json_integer_value(hi);
    return KVA_OK;
}

/* Bytes of the text, or with token ids the tokens themselves. */
static enum kva_status get_extent(const struct place *at, json_t *o,
                                  const struct kva_item *item, struct kva_span *span,
                                  struct kva_error *err)
{
    size_t a, b;

    if (!item->context_ids)
        return get_range(at, o, "byte", item->context_len, &span->b0, &span->b1, err);
    KVA_TRY(get_range(at, o, "tok", item->n_context_ids, &a, &b, err));
    span->t0 = (int)a;
    span->t1 = (int)b;
    span->depth = (double)a / (double)item->n_context_ids;
    span->bucket = (int)(10 * (a + b) / (2 * item->n_context_ids));
    if (span->bucket > 9)
        span->bucket = 9;
    return KVA_OK;
}

static enum kva_status get_label(const struct place *at, json_t *o, const char *key,
                                 char out[16], struct kva_error *err)
{
    json_t *x = member(o, key);

    if (!json_is_string(x) || json_string_length(x) < 1 || json_string_length(x) > 15)
        return complain(at, err, "a span's \"%s\" is not a text of 1 to 15 bytes", key);
    memcpy(out, json_string_value(x), json_string_length(x) + 1);
    return KVA_OK;
}

static enum kva_status get_payload(const struct place *at, json_t *list,
                                   const struct kva_span *e, struct kva_item *item,
                                   struct kva_span *spans, struct kva_error *err)
{
    json_t *o;
    size_t i;

    if (!json_is_array(list))
        return complain(at, err, "a span's \"payload\" is not a list");
    json_array_foreach(list, i, o)
    {
        struct kva_span *p = &spans[item->n_spans];
        json_t *what;

        if (!json_is_object(o))
            return complain(at, err, "a payload is not an object");
        KVA_TRY(check_keys(at, o, " in a payload", payload_keys, err));
        what = member(o, "what");
        if (!json_is_string(what) || (strcmp(json_string_value(what), "value") != 0 &&
                                      strcmp(json_string_value(what), "key") != 0))
            return complain(at, err, "a payload's \"what\" is value or key");
        *p = (struct kva_span){.kind = 'P', .queried = e->queried};
        p->role = strcmp(json_string_value(what), "key") == 0 ? "key" : "value";
        memcpy(p->id, e->id, sizeof p->id);
        p->id[0] = p->role[0] == 'k' ? 'K' : 'P';
        memcpy(p->match, e->id, sizeof p->match);
        KVA_TRY(get_extent(at, o, item, p, err));
        item->n_spans++;
    }
    return KVA_OK;
}

static enum kva_status get_span(const struct place *at, json_t *o,
                                struct kva_arena *arena, struct kva_item *item,
                                struct kva_span *spans, struct kva_error *err)
{
    struct kva_span *s = &spans[item->n_spans];
    json_t *x;
    const char *kind;

    if (!json_is_object(o))
        return complain(at, err, "a span is not an object");
    KVA_TRY(check_keys(at, o, " in a span", span_keys, err));
    x = member(o, "kind");
    kind = json_is_string(x) ? json_string_value(x) : "";
    if (strcmp(kind, "E") != 0 && strcmp(kind, "D") != 0 && strcmp(kind, "X") != 0)
        return complain(at, err, "a span's \"kind\" is E, D or X");
    *s = (struct kva_span){.kind = kind[0]};
    KVA_TRY(get_label(at, o, "id", s->id, err));
    if (s->id[0] != s->kind)
        return complain(at, err, "span id \"%s\" does not begin with %c", s->id, s->kind);
    KVA_TRY(get_extent(at, o, item, s, err));
    item->n_spans++;
    if (s->kind == 'D') {
        s->role = "distractor";
        KVA_TRY(get_number(at, o, "level", 0, 9, &s->level, err));
        KVA_TRY(get_number(at, o, "dtok", INT_MIN, INT_MAX, &s->dtok, err));
        KVA_TRY(get_number(at, o, "guard", 0, INT_MAX, &s->guard, err));
        return member(o, "match") ? get_label(at, o, "match", s->match, err) : KVA_OK;
    }
    if (s->kind == 'X')
        return get_text(at, o, "role", "example", arena, &s->role, NULL, err);
    KVA_TRY(get_text(at, o, "role", "needle", arena, &s->role, NULL, err));
    x = member(o, "queried");
    if (x && !json_is_boolean(x))
        return complain(at, err, "a span's \"queried\" is true or false");
    s->queried = !x || json_is_true(x);
    x = member(o, "payload");
    return x ? get_payload(at, x, s, item, spans, err) : KVA_OK;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct kva_span *)a)->id, ((const struct kva_span *)b)->id);
}

/* Whether the id of a list is the span's or, up to its full stop, that of its parts. */
static bool names_span(const char *id, const char *of)
{
    size_t n = strlen(id);

    return strncmp(id, of, n) == 0 && (of[n] == '\0' || of[n] == '.');
}

/* The evidence that a turn asks for. */
static enum kva_status mark_queried(const struct place *at, json_t *ids,
                                    struct kva_span *spans, int n_spans,
                                    struct kva_error *err)
{
    json_t *x;
    size_t i;

    if (!ids)
        return KVA_OK;
    if (!json_is_array(ids))
        return complain(at, err, "\"spans\" is not a list of ids");
    for (int k = 0; k < n_spans; k++)
        spans[k].queried = false;
    json_array_foreach(ids, i, x)
    {
        const char *id = json_is_string(x) ? json_string_value(x) : "";
        bool found = false;

        for (int k = 0; k < n_spans; k++) {
            const char *of = spans[k].kind == 'P' ? spans[k].match : spans[k].id;

            if ((spans[k].kind != 'E' && spans[k].kind != 'P') || !names_span(id, of))
                continue;
            spans[k].queried = found = true;
        }
        if (!found)
            return complain(at, err, "spans[%zu] is no E span of the record", i);
    }
    return KVA_OK;
}

/* asked: ids of the evidence that the turn asks for, or NULL. */
static enum kva_status get_spans(const struct place *at, json_t *record, json_t *asked,
                                 struct kva_arena *arena, struct kva_item *item,
                                 struct kva_error *err)
{
    json_t *list = member(record, "spans"), *o;
    struct kva_span *spans, *sorted;
    size_t i, most = 0;

    if (!list)
        return mark_queried(at, asked, NULL, 0, err);
    if (!json_is_array(list))
        return complain(at, err, "\"spans\" is not a list");
    json_array_foreach(list, i, o) most += 1 + json_array_size(member(o, "payload"));
    spans = kva_arena_alloc(arena, most, sizeof *spans);
    sorted = kva_arena_alloc(arena, most, sizeof *sorted);
    if (!spans || !sorted)
        return no_memory(at, err);
    json_array_foreach(list, i, o) KVA_TRY(get_span(at, o, arena, item, spans, err));
    KVA_TRY(mark_queried(at, asked, spans, item->n_spans, err));
    item->spans = spans;
    memcpy(sorted, spans, (size_t)item->n_spans * sizeof *sorted);
    qsort(sorted, (size_t)item->n_spans, sizeof *sorted, compare_ids);
    for (int k = 1; k < item->n_spans; k++)
        if (strcmp(sorted[k].id, sorted[k - 1].id) == 0)
            return complain(at, err, "two spans have the id %s", sorted[k].id);
    return KVA_OK;
}

/* ---- a record ---- */

static enum kva_status get_prompt(const struct place *at, json_t *o,
                                  struct kva_arena *arena, struct kva_item *item,
                                  struct kva_error *err)
{
    bool ids = member(o, "context_ids") || member(o, "question_ids");

    if (ids &&
        (member(o, "context") || member(o, "question") || member(o, "answer_prefix")))
        return complain(at, err,
                        "token ids stand in place of context, question and "
                        "answer_prefix, not beside them");
    KVA_TRY(get_text(at, o, "context", ids ? "" : NULL, arena, &item->context,
                     &item->context_len, err));
    KVA_TRY(
        get_text(at, o, "question", ids ? "" : NULL, arena, &item->question, NULL, err));
    KVA_TRY(get_text(at, o, "answer_prefix", "", arena, &item->answer_prefix, NULL, err));
    if (!ids)
        return item->context_len ? KVA_OK : complain(at, err, "\"context\" is empty");
    KVA_TRY(get_ids(at, o, "context_ids", arena, &item->context_ids, &item->n_context_ids,
                    err));
    return get_ids(at, o, "question_ids", arena, &item->question_ids,
                   &item->n_question_ids, err);
}

static enum kva_status get_feed(const struct place *at, json_t *o,
                                struct kva_arena *arena, struct kva_feed *feed,
                                struct kva_error *err)
{
    json_t *x = member(o, "feed");

    if (!x)
        return KVA_OK;
    if (!json_is_object(x))
        return complain(at, err, "\"feed\" is not an object");
    KVA_TRY(check_keys(at, x, " in feed", feed_keys, err));
    KVA_TRY(get_flag(at, x, "raw", &feed->raw, err));
    KVA_TRY(get_flag(at, x, "no_bos", &feed->no_bos, err));
    if (member(x, "suffix"))
        KVA_TRY(get_text(at, x, "suffix", "", arena, &feed->suffix, NULL, err));
    return KVA_OK;
}

/* How the prompt is fed and where the answer ends. */
static enum kva_status get_ends(const struct place *at, json_t *o,
                                struct kva_arena *arena, struct kva_item *item,
                                struct kva_error *err)
{
    item->max_new_tokens = DEFAULT_MAX_NEW;
    KVA_TRY(
        get_number(at, o, "max_new_tokens", 1, MAX_NEW_MAX, &item->max_new_tokens, err));
    KVA_TRY(get_number(at, o, "max_total", 1, INT_MAX, &item->max_total, err));
    KVA_TRY(get_feed(at, o, arena, &item->feed, err));
    KVA_TRY(get_texts(at, o, "stops", arena, &item->stops, &item->n_stops, err));
    if (member(o, "eos_text"))
        KVA_TRY(get_text(at, o, "eos_text", NULL, arena, &item->eos_text, NULL, err));
    if (item->eos_text && !item->eos_text[0])
        return complain(at, err, "\"eos_text\" is empty");
    KVA_TRY(get_flag(at, o, "min_one", &item->min_one, err));
    KVA_TRY(get_flag(at, o, "loop_guard", &item->loop_guard, err));
    KVA_TRY(get_flag(at, o, "was_cut", &item->was_cut, err));
    KVA_TRY(get_flag(at, o, "no_haystack", &item->no_haystack, err));
    return get_number(at, o, "turn", 0, INT_MAX, &item->turn, err);
}

static enum kva_status get_labels(const struct place *at, json_t *o,
                                  struct kva_arena *arena, struct kva_item *item,
                                  struct kva_error *err)
{
    json_t *x = member(o, "labels");
    struct kva_buf dump;

    if (!x)
        return KVA_OK;
    if (!json_is_object(x))
        return complain(at, err, "\"labels\" is not an object");
    kva_buf_init(&dump, 0);
    kva_task_dump(x, JSON_COMPACT, &dump);
    if (!dump.failed)
        item->labels = kva_arena_strdup(arena, dump.data);
    kva_buf_release(&dump);
    return item->labels ? KVA_OK : no_memory(at, err);
}

static enum kva_status get_metrics(const struct place *at, json_t *o,
                                   struct kva_arena *arena, struct kva_item *item,
                                   struct kva_error *err)
{
    json_t *post = member(o, "post"), *floor = member(o, "guess_floor");
    int n = 0, p = 0;

    KVA_TRY(get_text(at, o, "metric", "match_all", arena, &item->metric, NULL, err));
    if (!kva_metric_find(item->metric))
        return complain(at, err, "unknown metric \"%.60s\"", item->metric);
    KVA_TRY(get_texts(at, o, "more_metrics", arena, &item->more_metrics, &n, err));
    for (int i = 0; i < n; i++)
        if (!kva_metric_find(item->more_metrics[i]))
            return complain(at, err, "unknown metric \"%.60s\"", item->more_metrics[i]);
    KVA_TRY(get_texts(at, o, "classes", arena, &item->classes, &item->n_classes, err));
    KVA_TRY(get_texts(at, o, "decoys", arena, &item->decoys, &item->n_decoys, err));
    while (post && kva_post_names[p] &&
           (!json_is_string(post) ||
            strcmp(kva_post_names[p], json_string_value(post)) != 0))
        p++;
    if (!kva_post_names[p])
        return complain(at, err,
                        "\"post\" is none, first_line, strip, "
                        "strip_first_line or no_control");
    item->post = (enum kva_post)p;
    if (floor && (!json_is_number(floor) || !(json_number_value(floor) >= 0) ||
                  !(json_number_value(floor) <= 1)))
        return complain(at, err, "\"guess_floor\" is not a number from 0 to 1");
    item->guess_floor = floor ? json_number_value(floor) : 0;
    return KVA_OK;
}

static enum kva_status get_rest(const struct place *at, json_t *o,
                                struct kva_arena *arena, struct kva_item *item,
                                struct kva_error *err)
{
    KVA_TRY(get_texts(at, o, "answers", arena, &item->answers, &item->n_answers, err));
    if (item->n_answers == 0)
        return complain(at, err, "\"answers\" is not a list with at least one text");
    KVA_TRY(get_metrics(at, o, arena, item, err));
    KVA_TRY(get_ends(at, o, arena, item, err));
    KVA_TRY(get_labels(at, o, arena, item, err));
    if (member(o, "gold")) {
        KVA_TRY(get_text(at, o, "gold", NULL, arena, &item->gold, NULL, err));
        if (!item->gold[0])
            return complain(at, err, "\"gold\" is empty");
        return KVA_OK;
    }
    item->gold =
        kva_task_gold(arena, item->answer_prefix, item->answers, item->n_answers, ", ");
    return item->gold ? KVA_OK : no_memory(at, err);
}

/* The record with one of its turns in place of the list, *merged to be released; the
 * record itself where it has none. */
static enum kva_status merge_turn(struct place *at, json_t *record, int turn,
                                  json_t **merged, json_t **asked, int *n_turns,
                                  struct kva_error *err)
{
    json_t *turns = member(record, "turns"), *x, *value;
    const char *key;
    int bad = 0;

    *n_turns = 1;
    *asked = NULL;
    *merged = turns ? NULL : json_incref(record);
    if (!turns)
        return KVA_OK;
    if (!json_is_array(turns) || json_array_size(turns) == 0 ||
        json_array_size(turns) > TEXTS_MAX)
        return complain(at, err, "\"turns\" is not a list with at least one turn");
    *n_turns = (int)json_array_size(turns);
    for (int i = 0; asking_keys[i]; i++)
        if (member(record, asking_keys[i]))
            return complain(at, err, "\"%s\" stands in the turns, not beside them",
                            asking_keys[i]);
    at->turn = turn + 1;
    x = json_array_get(turns, (size_t)turn);
    if (!json_is_object(x))
        return complain(at, err, "not an object");
    KVA_TRY(check_keys(at, x, "", turn_keys, err));
    *asked = member(x, "spans");
    *merged = json_object(); /* json_copy() does not notice where memory ends */
    json_object_foreach(record, key, value)
    {
        if (value != turns)
            bad |= json_object_set(*merged, key, value);
    }
    json_object_foreach(x, key, value)
    {
        if (value != *asked)
            bad |= json_object_set(*merged, key, value);
    }
    return bad ? no_memory(at, err) : KVA_OK;
}

static enum kva_status parse(const struct place *at, const struct line *line, json_t **o,
                             struct kva_error *err)
{
    json_error_t why;

    *o = json_loadb(at->s->file.data + line->b0, line->b1 - line->b0,
                    JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    /* Jansson leaves no message when its allocations fail */
    if (!*o && (!why.text[0] || json_error_code(&why) == json_error_out_of_memory))
        return no_memory(at, err);
    if (!*o)
        return complain(at, err, "%s (byte %d)", why.text, why.position);
    return json_is_object(*o) ? KVA_OK : complain(at, err, "not a JSON object");
}

/* *n_turns: how many samples the record is. */
static enum kva_status read_record(const struct jsonl *s, struct sample sample,
                                   struct kva_arena *arena, struct kva_item *item,
                                   int *n_turns, struct kva_error *err)
{
    const struct line *line = &s->line[sample.line];
    struct place at = {.s = s, .line = line->number};
    json_t *record = NULL, *o = NULL, *asked;
    enum kva_status rc;

    KVA_GO(parse(&at, line, &record, err));
    KVA_GO(check_keys(&at, record, "", record_keys, err));
    KVA_GO(merge_turn(&at, record, sample.turn, &o, &asked, n_turns, err));
    KVA_GO(get_prompt(&at, o, arena, item, err));
    KVA_GO(get_rest(&at, o, arena, item, err));
    KVA_GO(get_spans(&at, o, asked, arena, item, err));
    if (at.turn > 0)
        item->turn = sample.turn;
    if (s->max_new_tokens)
        item->max_new_tokens = s->max_new_tokens;
out:
    json_decref(o);
    json_decref(record);
    return rc;
}

/* ---- the file ---- */

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\v\f", s[i]) || !s[i])
            return false;
    return true;
}

static enum kva_status find_lines(struct jsonl *s, struct kva_error *err)
{
    const char *text = s->file.data;
    size_t n = s->file.len, b = 0;
    int number = 0;

    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        b = 3;
    while (b < n) {
        const char *stop = memchr(text + b, '\n', n - b);
        size_t e = stop ? (size_t)(stop - text) : n;

        number++;
        if (!is_blank(text + b, e - b)) {
            if (s->n_lines == s->cap) {
                size_t cap = s->cap ? 2 * s->cap : 64;
                struct line *grown = kva_realloc(s->line, cap, sizeof *grown);

                if (!grown)
                    return KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", s->path.data);
                s->line = grown;
                s->cap = cap;
            }
            s->line[s->n_lines++] = (struct line){b, e, number};
        }
        b = e + 1;
    }
    if (s->n_lines == 0)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: no records", s->path.data);
    return KVA_OK;
}

/* Depth in the context of the only queried evidence, else -1. */
static double needle_depth(const struct kva_item *item)
{
    double depth = -1;
    int n = 0;

    for (int i = 0; i < item->n_spans; i++)
        if (item->spans[i].kind == 'E' && item->spans[i].queried) {
            depth = item->spans[i].depth;
            n++;
        }
    return n == 1 ? depth : -1;
}

static enum kva_status add_sample(struct jsonl *s, struct sample sample,
                                  struct kva_error *err)
{
    if (s->n_samples == s->cap_samples) {
        size_t cap = s->cap_samples ? 2 * s->cap_samples : 64;
        struct sample *grown = kva_realloc(s->sample, cap, sizeof *grown);

        if (!grown)
            return KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", s->path.data);
        s->sample = grown;
        s->cap_samples = cap;
    }
    s->sample[s->n_samples++] = sample;
    return KVA_OK;
}

/* What holds for all samples goes into the task's description. */
static enum kva_status check_sample(struct kva_task_info *info, const struct place *at,
                                    bool first, const struct kva_item *item,
                                    struct kva_error *err)
{
    if (first)
        info->metric = kva_metric_find(item->metric)->name;
    if (strcmp(info->metric, item->metric) != 0)
        return complain(at, err, "metric %s, but the first record has %s", item->metric,
                        info->metric);
    if (item->n_answers > 1 && strcmp(item->metric, "match_part") != 0)
        info->binary = false;
    if (needle_depth(item) < 0)
        info->has_depth = false;
    if (item->max_new_tokens > info->max_new_tokens)
        info->max_new_tokens = item->max_new_tokens;
    return KVA_OK;
}

/* Reads every record once, with all its turns. */
static enum kva_status check_records(struct kva_task *task, struct jsonl *s,
                                     struct kva_error *err)
{
    struct kva_arena arena;
    enum kva_status rc = KVA_OK;
    int n_turns;

    kva_arena_init(&arena);
    task->info.binary = task->info.has_depth = true;
    task->info.max_new_tokens = 1;
    for (size_t i = 0; i < s->n_lines; i++) {
        for (int t = n_turns = 0; t == 0 || t < n_turns; t++) {
            struct place at = {.s = s, .line = s->line[i].number};
            struct sample sample = {i, t};
            struct kva_item item = {0};

            KVA_GO(read_record(s, sample, &arena, &item, &n_turns, err));
            at.turn = n_turns > 1 ? t + 1 : 0;
            KVA_GO(check_sample(&task->info, &at, s->n_samples == 0, &item, err));
            KVA_GO(add_sample(s, sample, err));
            kva_arena_reset(&arena);
        }
        task->info.turns = i == 0 || n_turns == task->info.turns ? n_turns : 1;
    }
out:
    kva_arena_release(&arena);
    return rc;
}

static enum kva_status jsonl_open(struct kva_task *task,
                                  const struct kva_task_request *req,
                                  struct kva_error *err)
{
    struct jsonl *s = kva_calloc(1, sizeof *s);
    uint8_t digest[32];

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    kva_buf_init(&s->path, 0);
    kva_buf_init(&s->file, 0);
    s->max_new_tokens = req->opts->max_new_tokens;
    if (req->opts->base_dir && req->path[0] != '/')
        kva_buf_printf(&s->path, "%s/", req->opts->base_dir);
    kva_buf_puts(&s->path, req->path);
    KVA_TRY(kva_buf_status(&s->path, err));
    task->name = kva_calloc(strlen(req->path) + 1, 1);
    task->stream_name = kva_calloc(1, 1);
    if (!task->name || !task->stream_name)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    memcpy(task->name, req->path, strlen(req->path));
    KVA_TRY(kva_read_file(s->path.data, 0, &s->file, err));
    kva_sha256_of(s->file.data, s->file.len, digest);
    kva_hex(digest, sizeof digest, s->sha256);
    KVA_TRY(find_lines(s, err));
    KVA_TRY(check_records(task, s, err));
    task->info.domain = "user";
    task->info.n_available = (int64_t)s->n_samples;
    return KVA_OK;
}

static void jsonl_close(void *state)
{
    struct jsonl *s = state;

    kva_buf_release(&s->path);
    kva_buf_release(&s->file);
    free(s->line);
    free(s->sample);
    free(s);
}

static enum kva_status jsonl_item(const struct kva_task *task, int idx,
                                  const struct kva_tok_api *tok, struct kva_arena *arena,
                                  struct kva_item *item, struct kva_error *err)
{
    const struct jsonl *s = task->state;
    int n_turns;

    KVA_TRY(read_record(s, s->sample[idx], arena, item, &n_turns, err));
    if (item->context_ids) {
        item->n_context = item->n_context_ids;
        item->n_question = item->n_question_ids;
    } else {
        struct kva_span *spans;
        int32_t *begin, *end;
        size_t n_tokens;

        KVA_TRY(tok->count(tok->ctx, &item->feed, item->context, item->context_len,
                           item->question, item->answer_prefix, &item->n_context,
                           &item->n_question, err));
        if (item->n_spans > 0) {
            KVA_TRY(tok->ranges(tok->ctx, &item->feed, item->context, item->context_len,
                                arena, &begin, &end, &n_tokens, err));
            spans = kva_arena_alloc(arena, (size_t)item->n_spans, sizeof *spans);
            if (!spans)
                return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
            memcpy(spans, item->spans, (size_t)item->n_spans * sizeof *spans);
            for (int i = 0; i < item->n_spans; i++)
                kva_span_locate(&spans[i], begin, end, n_tokens);
            item->spans = spans;
        }
    }
    item->depth = needle_depth(item);
    return KVA_OK;
}

static int jsonl_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct jsonl *s = task->state;
    int bad = 0;

    if (s->max_new_tokens)
        bad |=
            json_object_set_new(gen, "max_new_tokens", json_integer(s->max_new_tokens));
    bad |= json_object_set_new(source, "path", json_string(task->name));
    bad |= json_object_set_new(source, "sha256", json_string(s->sha256));
    return bad;
}

const struct kva_family kva_family_jsonl = {jsonl_open, jsonl_close, jsonl_item,
                                            jsonl_describe};
