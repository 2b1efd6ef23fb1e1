/* SPDX-License-Identifier: GPL-3.0-or-later */
/* qa.c - RULER's qa_1 (SQuAD) and qa_2 (HotpotQA), dialect kva1; what all question tasks
 * share.
 *
 * RULER freezes the layout: for a given number of documents the gold one stands at the
 * same place in every sample. Here gold document j of m stands at floor(u n) of n
 * documents, u as in niah.c, and every other document has a key drawn once, by which they
 * are ordered: with one document more the others keep their order. As in RULER the others
 * are first the paragraphs of the question's own article, in drawn order, then any.
 *
 * Sample i asks question number i of a permutation that depends on task and seed alone,
 * so that few samples see many articles. Evidence of qa_1: the sentences of the paragraph
 * that hold the answer; of qa_2: the supporting sentences. */
#include "tasks/qa.h"
#include "tasks/qa_data.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char instruction[] =
    "Answer the question based on the given documents. Only give me the answer and do "
    "not output any other words.\n\nThe following are given documents.\n\n";
static const char question[] =
    "Answer the question based on the given documents. Only give me the answer and do "
    "not output any other words.\n\nQuestion: %s ";
static const char prefix[] = "Answer:";

void kva_qa_templates_sha256(char hex[65])
{
    struct kva_sha256 h;
    uint8_t digest[32];

    kva_sha256_init(&h);
    kva_sha256_add(&h, instruction, sizeof instruction);
    kva_sha256_add(&h, question, sizeof question);
    kva_sha256_add(&h, prefix, sizeof prefix);
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, hex);
}

double kva_qa_place(struct kva_rng *rng, int idx, int j, int m)
{
    return ((idx % 10 + j * (10 / m)) % 10 + kva_rng_unit(rng)) / 10;
}

static enum kva_status no_memory(int idx, struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
}

/* ---- the context ---- */

/* Keys and texts for n others. */
static enum kva_status grow(struct kva_qa_plan *p, size_t n, struct kva_error *err)
{
    if (n > p->cap_docs) {
        size_t cap = n + n / 2 + KVA_QA_GOLD_MAX;
        struct kva_qa_doc *doc = kva_realloc(p->doc, cap, sizeof *doc);

        if (!doc)
            return KVA_FAIL(err, KVA_ENOMEM, "documents: out of memory");
        p->doc = doc;
        p->cap_docs = cap;
    }
    for (; p->n_docs < n; p->n_docs++) {
        struct kva_qa_doc *x = &p->doc[p->n_docs];

        *x = (struct kva_qa_doc){.number = p->n_docs, .gold = -1};
        KVA_TRY(p->other(p->ctx, p->n_docs, &x->text, err));
        x->key = kva_rng_unit(&p->rng);
    }
    return KVA_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct kva_qa_doc *x = a, *y = b;

    if (x->key < y->key || x->key > y->key)
        return x->key < y->key ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* The first n others by key, gold documents put to their places; the caller's, free().
 */
static struct kva_qa_doc *arrange(const struct kva_qa_plan *p, size_t n)
{
    size_t total = n + (size_t)p->n_gold, next = 0;
    struct kva_qa_doc *list = kva_calloc(total, sizeof *list),
                      *others = kva_calloc(n + 1, sizeof *others);

    if (!list || !others) {
        free(list);
        free(others);
        return NULL;
    }
    memcpy(others, p->doc, n * sizeof *others);
    qsort(others, n, sizeof *others, by_key);
    for (int j = 0; j < p->n_gold; j++) { /* a place that is taken: the next free one */
        size_t at = (size_t)floor(p->u[j] * (double)total);

        while (list[at].text)
            at = (at + 1) % total;
        list[at] = (struct kva_qa_doc){.text = p->gold[j], .number = SIZE_MAX, .gold = j};
    }
    for (size_t i = 0; i < total; i++)
        if (!list[i].text)
            list[i] = others[next++];
    free(others);
    return list;
}

static enum kva_status add_facts(const struct kva_qa_plan *p, const size_t *gold_at,
                                 struct kva_draft *d, struct kva_error *err)
{
    for (int f = 0; f < p->n_facts; f++) {
        size_t at = gold_at[p->fact[f].gold];
        struct kva_slice s = {at + p->fact[f].at.b0, at + p->fact[f].at.b1};

        KVA_TRY(kva_draft_add_planted(d, s, err));
    }
    return KVA_OK;
}

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct kva_qa_plan *p = ctx;
    struct kva_qa_doc *list;
    size_t gold_at[KVA_QA_GOLD_MAX] = {0};
    enum kva_status rc;

    KVA_TRY(grow(p, n, err));
    list = arrange(p, n);
    if (!list)
        return KVA_FAIL(err, KVA_ENOMEM, "documents: out of memory");
    if (!p->uninstructed)
        kva_buf_puts(&d->text, instruction);
    d->hay.b0 = d->text.len;
    for (size_t i = 0; i < n; i++) /* filled in by number below */
        KVA_GO(kva_draft_add_step(d, (struct kva_slice){0, 0}, err));
    for (size_t i = 0; i < n + (size_t)p->n_gold; i++) {
        struct kva_slice at = {d->text.len + (i ? 2 : 0), 0}, text;

        kva_buf_printf(&d->text, "%sDocument %zu:\n", i ? "\n\n" : "", i + 1);
        text = kva_draft_add(d, list[i].text, strlen(list[i].text));
        at.b1 = text.b1;
        /* no distractor holds the heading of a document */
        KVA_GO(kva_draft_add_keep_out(d, (struct kva_slice){at.b0, text.b0}, err));
        if (list[i].gold < 0) { /* with one of the line feeds before it: what it adds */
            d->step[list[i].number] = (struct kva_slice){at.b0 - (i > 0), at.b1};
            continue;
        }
        gold_at[list[i].gold] = text.b0;
        KVA_GO(kva_draft_add_keep_out(d, text, err));
    }
    d->hay.b1 = d->text.len;
    KVA_GO(add_facts(p, gold_at, d, err));
    kva_buf_puts(&d->text, "\n\n");
    rc = kva_buf_status(&d->text, err);
out:
    free(list);
    return rc;
}

/* Distractors are sentences of the other documents. */
static enum kva_status add_units(struct kva_draft *d, struct kva_error *err)
{
    struct kva_slice *sentence = NULL;
    size_t n = 0;

    for (size_t i = 0; i < d->n_steps; i++) {
        const char *head = d->text.data + d->step[i].b0;
        const char *text = strchr(head + (*head == '\n'), '\n') + 1; /* "Document 7:" */
        size_t b0 = (size_t)(text - d->text.data), len = d->step[i].b1 - b0;
        enum kva_status rc = KVA_OK;

        KVA_TRY(kva_split_sentences(text, len, &sentence, &n, err));
        for (size_t k = 0; k < n && rc == KVA_OK; k++)
            rc = kva_draft_add_unit(
                d, (struct kva_slice){b0 + sentence[k].b0, b0 + sentence[k].b1}, err);
        free(sentence);
        if (rc != KVA_OK)
            return rc;
    }
    return KVA_OK;
}

static int by_start(const void *a, const void *b)
{
    const struct kva_slice *x = a, *y = b;

    return (x->b0 > y->b0) - (x->b0 < y->b0);
}

static enum kva_status add_spans(const struct kva_task *task, const struct kva_qa_plan *p,
                                 const char *const *forbidden, size_t n_forbidden,
                                 const struct kva_tok_api *tok, struct kva_fit *fit,
                                 struct kva_draft *d, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    struct kva_plant plant[KVA_QA_FACTS_MAX];
    struct kva_span_job job = {.plants = plant,
                               .n_plants = (size_t)p->n_facts,
                               .forbidden = forbidden,
                               .n_forbidden = n_forbidden,
                               .guard = KVA_SPAN_GUARD,
                               .tau = KVA_SPAN_TAU,
                               .n_distractors = KVA_SPAN_DISTRACTORS};

    for (int f = 0; f < p->n_facts; f++) {
        const struct kva_qa_evidence *e = &p->fact[f];

        plant[f] = (struct kva_plant){.role = "sentence", .queried = true};
        if (e->value.b1 > e->value.b0)
            plant[f].value =
                (struct kva_slice){e->value.b0 - e->at.b0, e->value.b1 - e->at.b0};
    }
    KVA_TRY(add_units(d, err));
    qsort(d->unit, d->n_units, sizeof *d->unit, by_start);
    return kva_task_finish(task, tok, fit, d, &job, arena, item, err);
}

enum kva_status kva_qa_item(const struct kva_task *task, struct kva_qa_plan *p,
                            const char *query, const char *const *forbidden,
                            size_t n_forbidden, const struct kva_tok_api *tok,
                            struct kva_arena *arena, struct kva_item *item,
                            struct kva_error *err)
{
    struct kva_draft d;
    struct kva_fit fit;
    enum kva_status rc;

    kva_draft_init(&d);
    item->question = kva_arena_printf(arena, question, query);
    item->answer_prefix = prefix;
    if (item->question && p->uninstructed)
        item->question = kva_arena_printf(arena, "%s%s", instruction, item->question);
    if (!item->question) {
        rc = no_memory(item->idx, err);
        goto out;
    }
    KVA_GO(kva_task_lay_out(task, arena, item, err));
    /* one answer is printed, however many are accepted */
    item->gold = kva_task_gold(arena, item->answer_prefix, item->answers, 1, "");
    if (!item->gold) {
        rc = no_memory(item->idx, err);
        goto out;
    }
    fit = (struct kva_fit){.task = task->label,
                           .question = item->question,
                           .answer_prefix = item->answer_prefix,
                           .feed = &item->feed,
                           .limit = task->info.ctx,
                           .max_new_tokens = item->max_new_tokens,
                           .n_max = p->n_others,
                           .build = build,
                           .ctx = p};
    KVA_GO(kva_fit_draft(&fit, tok, &d, err));
    p->n_used = fit.n_units;
    rc = add_spans(task, p, forbidden, n_forbidden, tok, &fit, &d, arena, item, err);
out:
    free(p->doc);
    p->doc = NULL;
    kva_draft_release(&d);
    return rc;
}

/* ---- SQuAD and HotpotQA ---- */

struct qa {
    struct kva_qa data;
    bool hotpot, mini, uninstructed;
    uint32_t *order; /* of the questions */
    char template_sha256[65];
};

struct others {
    const struct kva_qa *data;
    const uint32_t *doc;
};

static enum kva_status other_doc(void *ctx, size_t i, const char **text,
                                 struct kva_error *err)
{
    const struct others *o = ctx;

    (void)err;
    *text = o->data->doc[o->doc[i]];
    return KVA_OK;
}

/* First the other paragraphs of the article, then the rest, each part in drawn order. */
static uint32_t *draw_others(const struct kva_qa *data, const struct kva_qa_question *q,
                             struct kva_rng *rng, struct kva_arena *arena, size_t *n)
{
    uint32_t *list = kva_arena_alloc(arena, data->n_docs + 1, sizeof *list);
    bool *used = kva_calloc(data->n_docs + 1, sizeof *used);
    size_t near;

    *n = 0;
    if (!list || !used) {
        free(used);
        return NULL;
    }
    for (int i = 0; i < q->n_gold; i++)
        used[q->gold[i]] = true;
    for (int i = 0; i < q->n_more; i++)
        if (!used[q->more[i]]) {
            used[q->more[i]] = true;
            list[(*n)++] = (uint32_t)q->more[i];
        }
    near = *n;
    kva_task_shuffle(rng, list, near);
    for (size_t i = 0; i < data->n_docs; i++)
        if (!used[i])
            list[(*n)++] = (uint32_t)i;
    kva_task_shuffle(rng, list + near, *n - near);
    free(used);
    return list;
}

/* The sentences from the one where the answer starts to the one where it ends. */
static enum kva_status squad_fact(const char *doc, size_t at, size_t n,
                                  struct kva_qa_evidence *out, struct kva_error *err)
{
    struct kva_slice *sentence;
    size_t count;

    KVA_TRY(kva_split_sentences(doc, strlen(doc), &sentence, &count, err));
    *out = (struct kva_qa_evidence){.at = {at, at + n}, .value = {at, at + n}};
    for (size_t i = 0; i < count; i++) {
        if (sentence[i].b0 < at + n && at < sentence[i].b1) {
            if (sentence[i].b0 < out->at.b0)
                out->at.b0 = sentence[i].b0;
            if (sentence[i].b1 > out->at.b1)
                out->at.b1 = sentence[i].b1;
        }
    }
    free(sentence);
    return KVA_OK;
}

static enum kva_status find_facts(const struct qa *s, const struct kva_qa_question *q,
                                  struct kva_qa_plan *p, struct kva_error *err)
{
    const char *answer = q->answers[0];

    if (!s->hotpot && q->answer_start != SIZE_MAX) {
        KVA_TRY(
            squad_fact(p->gold[0], q->answer_start, strlen(answer), &p->fact[0], err));
        p->n_facts = 1;
    }
    for (int f = 0; s->hotpot && f < q->n_facts && f < KVA_QA_FACTS_MAX; f++) {
        struct kva_qa_evidence *e = &p->fact[p->n_facts];
        const char *doc = p->gold[q->facts[f].gold];
        size_t n = strlen(answer);

        *e = (struct kva_qa_evidence){q->facts[f].gold, q->facts[f].at, {0, 0}};
        if (e->at.b1 <= e->at.b0)
            continue;
        p->n_facts++;
        if (strcmp(answer, "yes") == 0 || strcmp(answer, "no") == 0)
            continue;
        for (size_t b = e->at.b0; n > 0 && b + n <= e->at.b1; b++)
            if (memcmp(doc + b, answer, n) == 0) {
                e->value = (struct kva_slice){b, b + n};
                break;
            }
    }
    return KVA_OK;
}

static enum kva_status qa_item(const struct kva_task *task, int idx,
                               const struct kva_tok_api *tok, struct kva_arena *arena,
                               struct kva_item *item, struct kva_error *err)
{
    const struct qa *s = task->state;
    const struct kva_qa_question *q = &s->data.question[s->order[idx]];
    struct kva_rng rng = kva_task_stream(task, idx, "");
    struct others others = {.data = &s->data};
    struct kva_qa_plan *p = kva_arena_alloc(arena, 1, sizeof *p);
    bool closed = strcmp(q->answers[0], "yes") == 0 || strcmp(q->answers[0], "no") == 0;

    if (!p)
        return no_memory(idx, err);
    if (q->n_gold > KVA_QA_GOLD_MAX)
        return KVA_FAIL(err, KVA_EFORMAT, "task %s: question %u has %d documents",
                        task->label, (unsigned)s->order[idx], q->n_gold);
    *p = (struct kva_qa_plan){.n_gold = q->n_gold,
                              .other = other_doc,
                              .ctx = &others,
                              .uninstructed = s->uninstructed,
                              .rng = kva_task_stream(task, idx, "|hay")};
    for (int j = 0; j < q->n_gold; j++) {
        p->gold[j] = s->data.doc[q->gold[j]];
        p->u[j] = kva_qa_place(&rng, idx, j, q->n_gold);
    }
    KVA_TRY(find_facts(s, q, p, err));
    others.doc = draw_others(&s->data, q, &rng, arena, &p->n_others);
    if (!others.doc)
        return no_memory(idx, err);
    if (p->n_others == 0)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "task %s: no document beside those of question %u", task->label,
                        (unsigned)s->order[idx]);
    item->answers = q->answers;
    item->n_answers = q->n_answers;
    if (q->n_answers == 1) /* the mean over several spellings would say little */
        item->more_metrics = kva_task_word_match;
    item->labels = kva_arena_printf(arena, "{\"question\":%u}", (unsigned)s->order[idx]);
    if (!item->labels)
        return no_memory(idx, err);
    return kva_qa_item(task, p, q->text, q->answers, closed ? 0 : (size_t)q->n_answers,
                       tok, arena, item, err);
}

/* ---- opening ---- */

static enum kva_status read_param(struct qa *s, const struct kva_task_request *req,
                                  const struct kva_task_param *p, struct kva_error *err)
{
    static const char *const params[] = {"data", "uninstructed", NULL};

    if (strcmp(p->key, "uninstructed") == 0)
        return kva_task_flag(req, p, &s->uninstructed, err);
    if (strcmp(p->key, "data") != 0)
        return kva_task_bad_param(req, p->key, params, err);
    if (strcmp(p->value, "mini") != 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": data is mini (a carried set for tests); the user's "
                        "own is named beside the tasks",
                        req->text);
    s->mini = true;
    return KVA_OK;
}

static enum kva_status shuffle_questions(const struct kva_task *task, struct qa *s,
                                         struct kva_error *err)
{
    struct kva_rng rng = {kva_fnv1a64_str("kva1|questions|")};
    char tail[64];

    snprintf(tail, sizeof tail, "%s|%llu", task->desc->name,
             (unsigned long long)task->seed);
    rng.x = kva_fnv1a64_more(rng.x, tail, strlen(tail));
    s->order = kva_calloc(s->data.n_questions + 1, sizeof *s->order);
    if (!s->order)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", task->name);
    for (size_t i = 0; i < s->data.n_questions; i++)
        s->order[i] = (uint32_t)i;
    kva_task_shuffle(&rng, s->order, s->data.n_questions);
    return KVA_OK;
}

static enum kva_status qa_open(struct kva_task *task, const struct kva_task_request *req,
                               struct kva_error *err)
{
    struct qa *s = kva_calloc(1, sizeof *s);
    char name[64], stream[32];

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    kva_arena_init(&s->data.arena);
    s->hotpot = strcmp(req->desc->name, "qa_2") == 0;
    for (int i = 0; i < req->n_params; i++)
        KVA_TRY(read_param(s, req, &req->param[i], err));
    if (req->opts->haystack)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\" has no haystack to choose",
                        req->text);
    snprintf(stream, sizeof stream, "%s%s", req->desc->name, s->mini ? ":data=mini" : "");
    snprintf(name, sizeof name, "%s%s", stream,
             !s->uninstructed ? ""
             : s->mini        ? ",uninstructed=1"
                              : ":uninstructed=1");
    KVA_TRY(kva_task_set_names(task, name, stream, err));
    KVA_TRY(kva_qa_open(&s->data, s->hotpot, req->opts, s->mini, err));
    KVA_TRY(shuffle_questions(task, s, err));
    kva_qa_templates_sha256(s->template_sha256);
    kva_task_use_layout(task, "kva1");
    task->info.domain = "qa";
    task->info.binary = true;
    task->info.has_depth = !s->hotpot;
    task->info.n_available = (int64_t)s->data.n_questions;
    return KVA_OK;
}

static void qa_close(void *state)
{
    struct qa *s = state;

    kva_qa_release(&s->data);
    free(s->order);
    free(s);
}

static int qa_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct qa *s = task->state;
    int bad = 0;

    bad |= json_object_set_new(gen, "dialect", json_string(task->info.dialect));
    bad |= json_object_set_new(gen, "L", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "layout", json_string(task->layout));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "seed", json_integer((json_int_t)task->seed));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->template_sha256));
    if (s->uninstructed)
        bad |= json_object_set_new(gen, "uninstructed", json_true());
    bad |= json_object_set_new(source, s->hotpot ? "hotpot" : "squad",
                               json_string(s->data.sha256));
    return bad;
}

const struct kva_family kva_family_qa = {qa_open, qa_close, qa_item, qa_describe};
