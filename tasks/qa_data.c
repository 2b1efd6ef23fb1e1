/* SPDX-License-Identifier: GPL-3.0-or-later */
/* qa_data.c - reading SQuAD v2 and HotpotQA (RULER, scripts/data/synthetic/qa.py).
 *
 * First pass: the texts of all documents in file order, then sorted and distinct. Second
 * pass: questions, whose documents are found again by their place in file order. */
#include "tasks/qa_data.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct kva_qa *qa;
    const char *file;
    char where[120];  /* "data[0].paragraphs[3].qas[1]" */
    const char **raw; /* document texts in file order */
    size_t n_raw, cap_raw, cap_questions;
    int *number; /* of raw[i] among the distinct */
    struct kva_error *err;
};

static enum kva_status no_memory(struct reader *r)
{
    return KVA_FAIL(r->err, KVA_ENOMEM, "%s: out of memory", r->file);
}

static enum kva_status wrong(struct reader *r, const char *what)
{
    return KVA_FAIL(r->err, KVA_EFORMAT, "%s: %s: %s", r->file, r->where, what);
}

static enum kva_status need(struct reader *r, const json_t *object, const char *key,
                            json_type type, json_t **out)
{
    static const char *const kinds[] = {"an object", "a list",        "a string",
                                        "a number",  "a real number", "true or false"};
    json_t *value = json_object_get(object, key);

    if (!json_is_object(object))
        return wrong(r, "is not an object");
    if (!value)
        return KVA_FAIL(r->err, KVA_EFORMAT, "%s: %s: \"%s\" is missing", r->file,
                        r->where, key);
    if (type == JSON_TRUE ? !json_is_boolean(value) : json_typeof(value) != type)
        return KVA_FAIL(r->err, KVA_EFORMAT, "%s: %s: \"%s\" is not %s", r->file,
                        r->where, key, kinds[type]);
    *out = value;
    return KVA_OK;
}

static enum kva_status need_text(struct reader *r, const json_t *object, const char *key,
                                 const char **out)
{
    json_t *value;

    KVA_TRY(need(r, object, key, JSON_STRING, &value));
    *out = json_string_value(value);
    return KVA_OK;
}

static enum kva_status add_raw(struct reader *r, const char *text)
{
    if (r->n_raw == INT32_MAX)
        return wrong(r, "too many documents");
    if (r->n_raw == r->cap_raw) {
        size_t cap = 2 * r->cap_raw + 64;
        const char **grown = kva_realloc(r->raw, cap, sizeof *grown);

        if (!grown)
            return no_memory(r);
        r->raw = grown;
        r->cap_raw = cap;
    }
    r->raw[r->n_raw++] = text;
    return KVA_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts, drops repetitions, copies what stays and numbers the documents of the file. */
static enum kva_status number_docs(struct reader *r)
{
    struct kva_qa *qa = r->qa;
    size_t n = 0;

    qa->doc = kva_calloc(r->n_raw + 1, sizeof *qa->doc);
    r->number = kva_calloc(r->n_raw + 1, sizeof *r->number);
    if (!qa->doc || !r->number)
        return no_memory(r);
    for (size_t i = 0; i < r->n_raw; i++)
        qa->doc[i] = r->raw[i];
    qsort(qa->doc, r->n_raw, sizeof *qa->doc, by_bytes);
    for (size_t i = 0; i < r->n_raw; i++)
        if (n == 0 || strcmp(qa->doc[n - 1], qa->doc[i]) != 0)
            qa->doc[n++] = qa->doc[i];
    qa->n_docs = n;
    for (size_t i = 0; i < n; i++) {
        qa->doc[i] = kva_arena_strdup(&qa->arena, qa->doc[i]);
        if (!qa->doc[i])
            return no_memory(r);
    }
    for (size_t i = 0; i < r->n_raw; i++) {
        const char **at = bsearch(&r->raw[i], qa->doc, n, sizeof *qa->doc, by_bytes);

        r->number[i] = (int)(at - qa->doc);
    }
    return KVA_OK;
}

static enum kva_status add_question(struct reader *r, const struct kva_qa_question *q)
{
    struct kva_qa *qa = r->qa;

    if (qa->n_questions == INT32_MAX)
        return wrong(r, "too many questions");
    if (qa->n_questions == r->cap_questions) {
        size_t cap = 2 * r->cap_questions + 64;
        struct kva_qa_question *grown = kva_realloc(qa->question, cap, sizeof *grown);

        if (!grown)
            return no_memory(r);
        qa->question = grown;
        r->cap_questions = cap;
    }
    qa->question[qa->n_questions++] = *q;
    return KVA_OK;
}

/* ---- SQuAD ---- */

/* Byte of code point number `point`; SIZE_MAX when the text is shorter. */
static size_t byte_of_point(const char *text, json_int_t point)
{
    size_t b = 0;

    for (; point > 0 && text[b]; point--)
        do
            b++;
        while (((unsigned char)text[b] & 0xc0) == 0x80);
    return point == 0 && text[b] ? b : SIZE_MAX;
}

static enum kva_status squad_docs(struct reader *r, json_t *data)
{
    size_t i, j;
    json_t *article, *paragraph;

    json_array_foreach(data, i, article)
    {
        json_t *paragraphs;

        snprintf(r->where, sizeof r->where, "data[%zu]", i);
        KVA_TRY(need(r, article, "paragraphs", JSON_ARRAY, &paragraphs));
        json_array_foreach(paragraphs, j, paragraph)
        {
            const char *text;

            snprintf(r->where, sizeof r->where, "data[%zu].paragraphs[%zu]", i, j);
            KVA_TRY(need_text(r, paragraph, "context", &text));
            KVA_TRY(add_raw(r, text));
        }
    }
    return KVA_OK;
}

static enum kva_status squad_question(struct reader *r, const json_t *qa,
                                      struct kva_qa_question q)
{
    json_t *impossible, *answers, *answer, *start;
    const char *text, **list;
    size_t k;

    KVA_TRY(need(r, qa, "is_impossible", JSON_TRUE, &impossible));
    if (json_is_true(impossible))
        return KVA_OK;
    KVA_TRY(need_text(r, qa, "question", &text));
    KVA_TRY(need(r, qa, "answers", JSON_ARRAY, &answers));
    if (json_array_size(answers) == 0)
        return wrong(r, "\"answers\" is empty");
    list = kva_arena_alloc(&r->qa->arena, json_array_size(answers), sizeof *list);
    q.text = kva_arena_strdup(&r->qa->arena, text);
    if (!list || !q.text)
        return no_memory(r);
    json_array_foreach(answers, k, answer)
    {
        KVA_TRY(need_text(r, answer, "text", &text));
        list[k] = kva_arena_strdup(&r->qa->arena, text);
        if (!list[k])
            return no_memory(r);
    }
    KVA_TRY(need(r, json_array_get(answers, 0), "answer_start", JSON_INTEGER, &start));
    q.answer_start = byte_of_point(r->qa->doc[q.gold[0]], json_integer_value(start));
    if (q.answer_start == SIZE_MAX)
        return wrong(r, "\"answer_start\" lies outside the paragraph");
    q.answers = list;
    q.n_answers = (int)k;
    return add_question(r, &q);
}

static enum kva_status squad_paragraph(struct reader *r, size_t i, size_t j,
                                       const json_t *paragraph, size_t first, size_t n)
{
    struct kva_qa_question q = {.n_gold = 1};
    int *gold = kva_arena_alloc(&r->qa->arena, 1, sizeof *gold);
    int *more = kva_arena_alloc(&r->qa->arena, n, sizeof *more);
    json_t *list, *qa;
    size_t k;

    if (!gold || !more)
        return no_memory(r);
    gold[0] = r->number[first + j];
    for (size_t p = first; p < first + n; p++)
        if (r->number[p] != gold[0])
            more[q.n_more++] = r->number[p];
    q.gold = gold;
    q.more = more;
    snprintf(r->where, sizeof r->where, "data[%zu].paragraphs[%zu]", i, j);
    KVA_TRY(need(r, paragraph, "qas", JSON_ARRAY, &list));
    json_array_foreach(list, k, qa)
    {
        snprintf(r->where, sizeof r->where, "data[%zu].paragraphs[%zu].qas[%zu]", i, j,
                 k);
        KVA_TRY(squad_question(r, qa, q));
    }
    return KVA_OK;
}

static enum kva_status read_squad(struct reader *r, const json_t *root)
{
    json_t *data, *article, *paragraph;
    size_t i, j, first = 0;

    KVA_TRY(need(r, root, "data", JSON_ARRAY, &data));
    KVA_TRY(squad_docs(r, data));
    KVA_TRY(number_docs(r));
    json_array_foreach(data, i, article)
    {
        const json_t *paragraphs = json_object_get(article, "paragraphs");
        size_t n = json_array_size(paragraphs);

        json_array_foreach(paragraphs, j, paragraph)
            KVA_TRY(squad_paragraph(r, i, j, paragraph, first, n));
        first += n;
    }
    return KVA_OK;
}

/* ---- HotpotQA ---- */

/* [title, [sentence, ...]] */
static enum kva_status hotpot_entry(struct reader *r, const json_t *entry,
                                    const char **title, json_t **sentences)
{
    json_t *sentence;
    size_t k;

    *title = json_string_value(json_array_get(entry, 0));
    *sentences = json_array_get(entry, 1);
    if (!*title || !json_is_array(*sentences) || json_array_size(entry) != 2)
        return wrong(r, "is not [title, [sentences]]");
    json_array_foreach(*sentences, k, sentence) if (
        !json_is_string(sentence)) return wrong(r, "a sentence is not a string");
    return KVA_OK;
}

static enum kva_status hotpot_docs(struct reader *r, const json_t *root)
{
    json_t *question, *context, *entry, *sentences, *sentence;
    struct kva_buf text;
    size_t i, j, k;
    enum kva_status rc = KVA_OK;

    kva_buf_init(&text, 0);
    json_array_foreach(root, i, question)
    {
        snprintf(r->where, sizeof r->where, "[%zu]", i);
        KVA_GO(need(r, question, "context", JSON_ARRAY, &context));
        if (json_array_size(context) == 0)
            KVA_GO(wrong(r, "\"context\" is empty"));
        json_array_foreach(context, j, entry)
        {
            const char *title, *copy;

            snprintf(r->where, sizeof r->where, "[%zu].context[%zu]", i, j);
            KVA_GO(hotpot_entry(r, entry, &title, &sentences));
            text.len = 0;
            kva_buf_printf(&text, "%s\n", title);
            json_array_foreach(sentences, k, sentence)
                kva_buf_puts(&text, json_string_value(sentence));
            KVA_GO(kva_buf_status(&text, r->err));
            copy = kva_arena_strndup(&r->qa->arena, text.data, text.len);
            if (!copy)
                KVA_GO(no_memory(r));
            KVA_GO(add_raw(r, copy));
        }
    }
out:
    kva_buf_release(&text);
    return rc;
}

/* Bytes of sentence `want` of the document; false: it has none. */
static bool hotpot_sentence(const json_t *entry, json_int_t want, struct kva_slice *at)
{
    const json_t *sentences = json_array_get(entry, 1);
    size_t b = json_string_length(json_array_get(entry, 0)) + 1;
    const char *s;

    if (want < 0 || (size_t)want >= json_array_size(sentences))
        return false;
    for (size_t k = 0; k < (size_t)want; k++)
        b += json_string_length(json_array_get(sentences, k));
    s = json_string_value(json_array_get(sentences, (size_t)want));
    at->b0 = b;
    at->b1 = b + strlen(s);
    while (at->b1 > at->b0 && strchr(" \t\n", s[at->b1 - b - 1]))
        at->b1--;
    while (at->b0 < at->b1 && strchr(" \t\n", s[at->b0 - b]))
        at->b0++;
    return at->b1 > at->b0;
}

static enum kva_status hotpot_facts(struct reader *r, const json_t *object,
                                    struct kva_qa_question *q)
{
    const json_t *context = json_object_get(object, "context");
    struct kva_qa_fact *facts;
    json_t *list, *fact;
    size_t k;

    KVA_TRY(need(r, object, "supporting_facts", JSON_ARRAY, &list));
    facts = kva_arena_alloc(&r->qa->arena, json_array_size(list), sizeof *facts);
    if (!facts)
        return no_memory(r);
    json_array_foreach(list, k, fact)
    {
        const char *title = json_string_value(json_array_get(fact, 0));
        const json_t *number = json_array_get(fact, 1);
        bool found = false;

        if (!title || !json_is_integer(number))
            return wrong(r, "\"supporting_facts\" is not a list of [title, number]");
        for (int g = 0; g < q->n_gold && !found; g++) {
            const json_t *entry = json_array_get(context, (size_t)g);

            if (strcmp(title, json_string_value(json_array_get(entry, 0))) != 0)
                continue;
            facts[q->n_facts].gold = g;
            found =
                hotpot_sentence(entry, json_integer_value(number), &facts[q->n_facts].at);
        }
        q->n_facts += found;
        r->qa->n_bad_facts += !found;
    }
    q->facts = facts;
    return KVA_OK;
}

static enum kva_status read_hotpot(struct reader *r, const json_t *root)
{
    size_t i, at = 0;
    json_t *object;

    if (!json_is_array(root))
        return wrong(r, "is not a list of questions");
    KVA_TRY(hotpot_docs(r, root));
    KVA_TRY(number_docs(r));
    json_array_foreach(root, i, object)
    {
        size_t n = json_array_size(json_object_get(object, "context"));
        struct kva_qa_question q = {.n_gold = (int)n, .n_answers = 1};
        int *gold = kva_arena_alloc(&r->qa->arena, n, sizeof *gold);
        const char **answers = kva_arena_alloc(&r->qa->arena, 1, sizeof *answers);
        const char *text;

        if (!gold || !answers)
            return no_memory(r);
        memcpy(gold, r->number + at, n * sizeof *gold);
        at += n;
        snprintf(r->where, sizeof r->where, "[%zu]", i);
        KVA_TRY(need_text(r, object, "question", &text));
        q.text = kva_arena_strdup(&r->qa->arena, text);
        KVA_TRY(need_text(r, object, "answer", &text));
        answers[0] = kva_arena_strdup(&r->qa->arena, text);
        if (!q.text || !answers[0])
            return no_memory(r);
        q.answers = answers;
        q.gold = gold;
        q.answer_start = SIZE_MAX;
        KVA_TRY(hotpot_facts(r, object, &q));
        KVA_TRY(add_question(r, &q));
    }
    return KVA_OK;
}

/* ---- opening ---- */

static enum kva_status load(struct kva_qa *qa, bool hotpot,
                            const struct kva_task_opts *opts, bool mini,
                            struct kva_buf *own, struct kva_buf *path, const char **bytes,
                            size_t *n, struct kva_error *err)
{
    uint8_t digest[32];

    if (mini) {
        kva_buf_puts(path, hotpot ? "qa_mini_hotpot.json" : "qa_mini_squad.json");
        KVA_TRY(kva_buf_status(path, err));
        return kva_carried_load(opts->data_dir, path->data, own, bytes, n, qa->sha256,
                                err);
    }
    KVA_TRY(kva_data_find(opts, hotpot ? "hotpot" : "squad",
                          hotpot ? "hotpot_dev_distractor_v1.json" : "dev-v2.0.json",
                          path, err));
    KVA_TRY(kva_read_file(path->data, (size_t)1 << 30, own, err));
    kva_sha256_of(own->data, own->len, digest);
    kva_hex(digest, sizeof digest, qa->sha256);
    *bytes = own->data;
    *n = own->len;
    return KVA_OK;
}

enum kva_status kva_qa_open(struct kva_qa *qa, bool hotpot,
                            const struct kva_task_opts *opts, bool mini,
                            struct kva_error *err)
{
    struct reader r = {.qa = qa, .where = "the file", .err = err};
    struct kva_buf own, path;
    const char *bytes;
    json_t *root = NULL;
    json_error_t why;
    size_t n;
    enum kva_status rc;

    *qa = (struct kva_qa){0};
    kva_arena_init(&qa->arena);
    kva_buf_init(&own, 0);
    kva_buf_init(&path, 0);
    KVA_GO(load(qa, hotpot, opts, mini, &own, &path, &bytes, &n, err));
    r.file = path.data;
    root = json_loadb(bytes, n, 0, &why);
    /* Jansson leaves no message when its allocations fail */
    if (!root && (!why.text[0] || json_error_code(&why) == json_error_out_of_memory)) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", path.data);
        goto out;
    }
    if (!root) {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s:%d: %s", path.data, why.line, why.text);
        goto out;
    }
    KVA_GO(hotpot ? read_hotpot(&r, root) : read_squad(&r, root));
    if (qa->n_questions == 0)
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s: no question with an answer", path.data);
out:
    json_decref(root);
    free(r.raw);
    free(r.number);
    kva_buf_release(&own);
    kva_buf_release(&path);
    if (rc != KVA_OK)
        kva_qa_release(qa);
    return rc;
}

void kva_qa_release(struct kva_qa *qa)
{
    free(qa->doc);
    free(qa->question);
    kva_arena_release(&qa->arena);
    *qa = (struct kva_qa){0};
}
