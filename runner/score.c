/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score.c - one line of given predictions, read, post-processed, scored and answered. */
#include "runner/score.h"

#include "tasks/longbench.h"

#include <jansson.h>
#include <string.h>

/* ---- reading ---- */

/* The member under its name or the one that official result files use. */
static const json_t *member(const json_t *o, const char *name, const char *other)
{
    const json_t *x = json_object_get(o, name);

    x = x ? x : json_object_get(o, other);
    return json_is_null(x) ? NULL : x;
}

static enum kva_status no_nul(const json_t *text, const char *name, struct kva_error *err)
{
    if (strlen(json_string_value(text)) != json_string_length(text))
        return KVA_FAIL(err, KVA_EFORMAT, "a NUL inside \"%s\" can match nothing", name);
    return KVA_OK;
}

/* A list of texts, or one text, as an array of C strings of the arena. A null in the list
 * stays NULL. */
static enum kva_status get_texts(const json_t *x, const char *name,
                                 struct kva_arena *arena, const char *const **out, int *n,
                                 struct kva_error *err)
{
    size_t count = json_is_array(x) ? json_array_size(x) : 1;
    const char **v = kva_arena_alloc(arena, count + 1, sizeof v[0]);

    if (!v)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for \"%s\"", name);
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_array(x) ? json_array_get(x, i) : x;

        if (json_is_array(x) && json_is_null(text))
            continue;
        if (!json_is_string(text))
            return KVA_FAIL(err, KVA_EFORMAT, "\"%s\" is not a text or a list of texts",
                            name);
        KVA_TRY(no_nul(text, name, err));
        v[i] = json_string_value(text);
    }
    *out = v;
    *n = (int)count;
    return KVA_OK;
}

static enum kva_status get_classes(const json_t *o, const struct kva_metric *metric,
                                   struct kva_arena *arena, struct kva_metric_in *in,
                                   struct kva_error *err)
{
    const json_t *x = member(o, "all_classes", "classes");

    if (!x && strcmp(metric->name, "classification") == 0)
        return KVA_FAIL(err, KVA_EFORMAT, "no \"all_classes\", which %s needs",
                        metric->name);
    if (!x)
        return KVA_OK;
    KVA_TRY(get_texts(x, "all_classes", arena, &in->classes, &in->n_classes, err));
    for (int i = 0; i < in->n_classes; i++)
        if (!in->classes[i])
            return KVA_FAIL(err, KVA_EFORMAT, "a null among \"all_classes\"");
    return KVA_OK;
}

/* ---- LongBench's post-processing (tasks-longbench-math.md A.6) ---- */

static bool is_chinese(const char *set)
{
    static const char *const names[] = {"multifieldqa_zh", "dureader", "vcsum", "lsht",
                                        "passage_retrieval_zh"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], set) == 0)
            return true;
    return false;
}

static enum kva_status get_post(const json_t *o, const struct kva_score_opts *opts,
                                enum kva_post *post, struct kva_error *err)
{
    const json_t *x = member(o, "dataset", "dataset");
    const char *name = opts->dataset;
    const struct kva_longbench_set *set;
    bool e = false;

    if (x && !json_is_string(x))
        return KVA_FAIL(err, KVA_EFORMAT, "\"dataset\" is not a text");
    name = x ? json_string_value(x) : name;
    if (name && is_chinese(name))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s is Chinese: its scores need word segmentation, which is not "
                        "offered",
                        name);
    *post = opts->post < 0 ? KVA_POST_NONE : (enum kva_post)opts->post;
    if (opts->post >= 0)
        return KVA_OK;
    if (!name && opts->kvpress)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "no \"dataset\", by which kvpress post-processes");
    set = name ? kva_longbench_find(name, &e) : NULL;
    if (set && opts->kvpress && !e)
        *post = set->first_line ? KVA_POST_STRIP_FIRST_LINE : KVA_POST_STRIP;
    else if (set && set->first_line)
        *post = KVA_POST_FIRST_LINE;
    return KVA_OK;
}

static enum kva_status read_line(const json_t *o, const struct kva_score_opts *opts,
                                 struct kva_arena *arena, struct kva_metric_in *in,
                                 struct kva_error *err)
{
    const json_t *prediction = member(o, "prediction", "pred"),
                 *answers = member(o, "answers", "outputs");

    if (!prediction)
        return KVA_FAIL(err, KVA_EFORMAT, "no \"prediction\"");
    if (!json_is_string(prediction))
        return KVA_FAIL(err, KVA_EFORMAT, "\"prediction\" is not a text");
    if (!answers)
        return KVA_FAIL(err, KVA_EFORMAT, "no \"answers\"");
    in->prediction = json_string_value(prediction);
    in->n = json_string_length(prediction);
    KVA_TRY(get_texts(answers, "answers", arena, &in->answers, &in->n_answers, err));
    KVA_TRY(get_classes(o, opts->metric, arena, in, err));
    return get_post(o, opts, &in->post, err);
}

/* ---- answering ---- */

static void put(bool *bad, json_t *o, const char *key, json_t *value)
{
    *bad = json_object_set_new(o, key, value) != 0 || *bad;
}

static int add(const char *text, size_t n, void *out)
{
    kva_buf_add(out, text, n);
    return 0;
}

static void copy(bool *bad, json_t *to, const json_t *from, const char *key)
{
    json_t *x = json_object_get(from, key);

    if (x)
        put(bad, to, key, json_incref(x));
}

static enum kva_status answer(const json_t *line, long number, bool scored,
                              const struct kva_metric_out *got, bool no_answer,
                              const struct kva_error *why, struct kva_buf *out)
{
    json_t *o = json_object();
    bool bad = false;

    put(&bad, o, "line", json_integer(number));
    copy(&bad, o, line, "id");
    copy(&bad, o, line, "_id");
    if (scored)
        put(&bad, o, "score", json_real(got->score));
    else
        put(&bad, o, "error", json_string(why->text));
    if (no_answer)
        put(&bad, o, "flag", json_string("no_answer"));
    if (scored && got->how) {
        const struct kva_buf *x = got->extracted;

        put(&bad, o, "how", json_string(got->how));
        put(&bad, o, "extracted", json_stringn(x->data ? x->data : "", x->len));
    }
    bad = bad || json_dump_callback(o, add, out, JSON_COMPACT) != 0;
    json_decref(o);
    kva_buf_putc(out, '\n');
    return bad ? KVA_ENOMEM : kva_buf_status(out, NULL);
}

/* Jansson quotes the line, which may hold anything, and cuts the quotation anywhere; it
 * says nothing when memory ends. */
static void complain(const json_error_t *where, struct kva_error *err)
{
    struct kva_buf text;

    kva_buf_init(&text, 0);
    kva_utf8_clean(where->text, strlen(where->text), &text);
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.data[i] < 0x20)
            text.data[i] = ' ';
    if (!text.len || json_error_code(where) == json_error_out_of_memory)
        KVA_FAIL(err, KVA_ENOMEM, "out of memory for the line");
    else
        KVA_FAIL(err, KVA_EFORMAT, "column %d: %s", where->column, text.data);
    kva_buf_release(&text);
}

static json_t *parse(const char *line, size_t n, struct kva_error *err)
{
    json_error_t where;
    json_t *o = json_loadb(line, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &where);

    if (!o)
        complain(&where, err);
    else if (!json_is_object(o))
        KVA_FAIL(err, KVA_EFORMAT, "not a JSON object");
    return o;
}

enum kva_status kva_score_line(const struct kva_score_opts *opts, long number,
                               const char *line, size_t n, struct kva_buf *out,
                               struct kva_scored *scored, struct kva_error *err)
{
    struct kva_metric_in in = {0};
    struct kva_metric_out got = {0};
    struct kva_error why = {0};
    struct kva_arena arena;
    struct kva_buf extracted;
    enum kva_status rc, written;
    json_t *o;

    *scored = (struct kva_scored){0};
    kva_arena_init(&arena);
    kva_buf_init(&extracted, 0);
    got.extracted = &extracted;
    o = parse(line, n, &why);
    rc = why.code;
    if (rc == KVA_OK)
        rc = read_line(o, opts, &arena, &in, &why);
    if (rc == KVA_OK)
        rc = kva_metric_score(opts->metric, &in, &got, &why);
    if (rc == KVA_OK) {
        scored->score = got.score;
        scored->no_answer = in.n_answers == 0;
        for (int i = 0; i < in.n_answers; i++)
            scored->no_answer = scored->no_answer || !in.answers[i];
    }
    if (rc == KVA_OK || rc == KVA_EFORMAT) {
        written = answer(o, number, rc == KVA_OK, &got, scored->no_answer, &why, out);
        if (written != KVA_OK)
            rc = KVA_FAIL(&why, written, "out of memory for the answer");
    }
    if (rc != KVA_OK)
        rc = KVA_FAIL(err, rc, "%s", why.text);
    json_decref(o);
    kva_buf_release(&extracted);
    kva_arena_release(&arena);
    return rc;
}
