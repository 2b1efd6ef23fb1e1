/* SPDX-License-Identifier: GPL-3.0-or-later */
/* official_qa.c - qa_1 (SQuAD) and qa_2 (HotpotQA) of RULER's official dialects.
 *
 * The list of d documents: the question's own, then others of the same article, then any;
 * shuffled with a fresh generator of the seed, so that the gold document stands at the
 * same place in every sample. From as many documents as there are on, r2025 repeats the
 * list of all; r2024 shuffles the global list itself, and from then on every document
 * number names another text: the gold document of a later sample may be missing. */
#include "tasks/official.h"
#include "tasks/qa_data.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char head[] =
    "Answer the question based on the given documents. Only give me the answer and do "
    "not "
    "output any other words.\n\nThe following are given documents.\n\n";
static const char question[] = "Answer the question based on the given documents. Only "
                               "give me the answer and do not "
                               "output any other words.\n\nQuestion: ";
static const char prefix[] = "Answer:";

struct qa {
    struct kva_qa data;
    bool hotpot, mini;
};

static enum kva_status qa_open(struct kva_task *task, struct kva_official *o,
                               const struct kva_task_request *req, struct kva_error *err)
{
    static const char *const params[] = {"data", NULL};
    struct qa *s = kva_calloc(1, sizeof *s);

    if (!s)
        return kva_official_no_memory(o, err);
    o->data = s;
    kva_arena_init(&s->data.arena);
    s->hotpot = strcmp(req->desc->name, "qa_2") == 0;
    for (int i = 0; i < req->n_params; i++) {
        if (strcmp(req->param[i].key, "data") != 0)
            return kva_task_bad_param(req, req->param[i].key, params, err);
        if (strcmp(req->param[i].value, "mini") != 0)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task \"%s\": data is mini, or left out for the user's file",
                            req->text);
        s->mini = true;
    }
    if (req->opts->haystack)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": RULER's %s has no haystack",
                        req->text, req->desc->name);
    KVA_TRY(kva_qa_open(&s->data, s->hotpot, req->opts, s->mini, err));
    o->fit.cap = o->r2024 ? s->data.n_docs : 0;
    task->info.n_available = (int64_t)s->data.n_questions;
    task->splitter = "simple-v1";
    return kva_official_name(task, s->mini ? "data=mini" : NULL, err);
}

static void qa_close(void *data)
{
    struct qa *s = data;

    kva_qa_release(&s->data);
    free(s);
}

/* ---- the list of documents ---- */

struct docs {
    uint32_t *number; /* in the order of the text */
    size_t n;
};

/* r2024: number[i] becomes the text that stands at i after so many shuffles in place:
 * the shuffle's permutation applied `times` times, by squaring. */
static enum kva_status corrupt(const struct kva_official *o, size_t n, uint32_t times,
                               struct kva_arena *arena, uint32_t **number,
                               struct kva_error *err)
{
    uint32_t *power, *next = kva_arena_alloc(arena, n + 1, sizeof *next);

    *number = kva_arena_alloc(arena, n + 1, sizeof **number);
    if (!*number || !next)
        return kva_official_no_memory(o, err);
    for (size_t i = 0; i < n; i++)
        (*number)[i] = (uint32_t)i;
    if (times == 0)
        return KVA_OK;
    KVA_TRY(kva_official_order(o, n, arena, &power, err));
    for (; times > 0; times >>= 1) {
        for (size_t i = 0; times & 1 && i < n; i++)
            next[i] = power[(*number)[i]];
        if (times & 1)
            memcpy(*number, next, n * sizeof *next);
        for (size_t i = 0; i < n; i++)
            next[i] = power[power[i]];
        memcpy(power, next, n * sizeof *next);
    }
    return KVA_OK;
}

/* Draws the list before the shuffle; d->n stays 0 where upstream fails. */
static enum kva_status draw_docs(const struct kva_official *o,
                                 const struct kva_qa_question *q, size_t n,
                                 struct kva_mt *py, struct kva_arena *arena,
                                 struct docs *d, struct kva_error *err)
{
    const struct qa *s = o->data;
    size_t n_docs = s->data.n_docs, gold = (size_t)q->n_gold, more = (size_t)q->n_more;
    size_t rest = n > gold + more ? n - gold - more : 0, n_other = 0, used = 0;
    uint32_t *drawn = kva_arena_alloc(arena, n + 1, sizeof *drawn);
    uint32_t *other = NULL;
    bool *own;

    d->number = kva_arena_alloc(arena, n + gold + more + 1, sizeof *d->number);
    if (!drawn || !d->number)
        return kva_official_no_memory(o, err);
    if (n < gold)
        return KVA_OK;
    for (size_t i = 0; i < gold; i++)
        d->number[used++] = (uint32_t)q->gold[i];
    if (n - gold <= more) {
        KVA_TRY(kva_py_sample(py, more, n - gold, drawn, err));
        for (size_t i = 0; i < n - gold; i++)
            d->number[used++] = (uint32_t)q->more[drawn[i]];
        d->n = used;
        return KVA_OK;
    }
    other = kva_arena_alloc(arena, n_docs, sizeof *other);
    own = kva_arena_alloc(arena, n_docs, sizeof *own);
    if (!other || !own)
        return kva_official_no_memory(o, err);
    for (size_t i = 0; i < more; i++)
        d->number[used++] = (uint32_t)q->more[i];
    for (size_t i = 0; i < used; i++)
        own[d->number[i]] = true;
    for (size_t i = 0; i < n_docs; i++)
        if (!own[i])
            other[n_other++] = (uint32_t)i;
    if (rest > n_other)
        return KVA_OK;
    KVA_TRY(kva_py_sample(py, n_other, rest, drawn, err));
    for (size_t i = 0; i < rest; i++)
        d->number[used++] = other[drawn[i]];
    d->n = used;
    return KVA_OK;
}

static enum kva_status list_docs(const struct kva_official *o,
                                 const struct kva_qa_question *q, size_t n,
                                 struct kva_official_state *state,
                                 struct kva_arena *arena, struct docs *d,
                                 struct kva_error *err)
{
    const struct qa *s = o->data;
    size_t n_docs = s->data.n_docs;
    uint32_t *order, *name, *listed;

    d->n = 0;
    if (n < n_docs) {
        KVA_TRY(draw_docs(o, q, n, &state->py, arena, d, err));
    } else {
        d->n = o->r2024 ? n_docs : n;
        d->number = kva_arena_alloc(arena, d->n, sizeof *d->number);
        if (!d->number)
            return kva_official_no_memory(o, err);
        for (size_t i = 0; i < d->n; i++)
            d->number[i] = (uint32_t)(i % n_docs);
    }
    if (d->n == 0)
        return KVA_OK;
    KVA_TRY(kva_official_order(o, d->n, arena, &order, err));
    KVA_TRY(corrupt(o, n_docs, state->n_shuffled, arena, &name, err));
    listed = kva_arena_alloc(arena, d->n, sizeof *listed);
    if (!listed)
        return kva_official_no_memory(o, err);
    for (size_t i = 0; i < d->n; i++)
        listed[i] = name[d->number[order[i]]];
    d->number = listed;
    state->n_shuffled += o->r2024 && n >= n_docs;
    return KVA_OK;
}

/* ---- evidence ---- */

struct evidence {
    const struct kva_official *o;
    const struct kva_qa_question *q;
    struct kva_official_prompt *p;
    const struct docs *docs;
    size_t *begin; /* byte of each document's text in the context */
};

/* Plants bytes `at` of document `doc` (its first copy); in ascending order of the text.
 */
static enum kva_status plant(struct evidence *e, uint32_t doc, struct kva_slice at,
                             const char *answer, size_t answer_at, struct kva_error *err)
{
    const struct qa *s = e->o->data;
    struct kva_official_prompt *p = e->p;
    struct kva_draft *d = &p->draft;
    const char *text = s->data.doc[doc], *found = NULL;
    struct kva_plant plant = {.text = text, .role = "sentence", .queried = true};
    size_t i = 0, n = answer ? strlen(answer) : 0, to;
    struct kva_slice planted;

    while (i < e->docs->n && e->docs->number[i] != doc)
        i++;
    if (i == e->docs->n) /* r2024, corrupted */
        return KVA_OK;
    if (n && answer_at != SIZE_MAX)
        found = strncmp(text + answer_at, answer, n) == 0 ? text + answer_at : NULL;
    else if (n)
        found = strstr(text + at.b0, answer);
    if (found && (size_t)(found - text) + n <= at.b1) {
        plant.value.b0 = (size_t)(found - text) - at.b0;
        plant.value.b1 = plant.value.b0 + n;
    }
    planted = (struct kva_slice){e->begin[i] + at.b0, e->begin[i] + at.b1};
    KVA_TRY(kva_draft_add_planted(d, planted, err));
    for (to = p->n_plants; to > 0 && d->planted[to - 1].b0 > planted.b0; to--) {
        d->planted[to] = d->planted[to - 1];
        p->plants[to] = p->plants[to - 1];
    }
    d->planted[to] = planted;
    p->plants[to] = plant;
    p->n_plants++;
    return KVA_OK;
}

/* Documents with evidence, all copies of them, are no distractors; of the others the
 * sentences are. */
static enum kva_status add_units(struct evidence *e, const bool *holds,
                                 struct kva_error *err)
{
    const struct qa *s = e->o->data;
    struct kva_draft *d = &e->p->draft;
    enum kva_status rc = KVA_OK;

    for (size_t i = 0; i < e->docs->n && rc == KVA_OK; i++) {
        const char *text = s->data.doc[e->docs->number[i]];
        size_t n = strlen(text), b0 = e->begin[i], count = 0;
        struct kva_slice *sentence = NULL;

        if (holds[e->docs->number[i]]) {
            rc = kva_draft_add_keep_out(d, (struct kva_slice){b0, b0 + n}, err);
            continue;
        }
        rc = kva_split_sentences(text, n, &sentence, &count, err);
        for (size_t k = 0; rc == KVA_OK && k < count; k++)
            rc = kva_draft_add_unit(
                d, (struct kva_slice){b0 + sentence[k].b0, b0 + sentence[k].b1}, err);
        free(sentence);
    }
    return rc;
}

static enum kva_status add_parts(struct evidence *e, struct kva_error *err)
{
    const struct qa *s = e->o->data;
    const struct kva_qa_question *q = e->q;
    struct kva_official_prompt *p = e->p;
    bool *holds = kva_arena_alloc(&p->arena, s->data.n_docs, sizeof *holds);
    bool yes_no = strcmp(q->answers[0], "yes") == 0 || strcmp(q->answers[0], "no") == 0;

    p->plants = kva_arena_alloc(&p->arena, (size_t)q->n_facts + 1, sizeof *p->plants);
    p->forbidden = kva_arena_alloc(&p->arena, (size_t)q->n_answers, sizeof *p->forbidden);
    if (!holds || !p->plants || !p->forbidden)
        return kva_official_no_memory(e->o, err);
    for (int i = 0; i < q->n_answers && !(s->hotpot && yes_no); i++)
        p->forbidden[p->n_forbidden++] = q->answers[i];
    for (int i = 0; i < q->n_facts; i++) {
        const struct kva_qa_fact *f = &q->facts[i];

        holds[q->gold[f->gold]] = true;
        KVA_TRY(plant(e, (uint32_t)q->gold[f->gold], f->at, yes_no ? NULL : q->answers[0],
                      SIZE_MAX, err));
    }
    if (!s->hotpot) {
        const char *text = s->data.doc[q->gold[0]];
        struct kva_slice *sentence;
        struct kva_slice at;
        size_t count, k = 0;

        holds[q->gold[0]] = true;
        KVA_TRY(kva_split_sentences(text, strlen(text), &sentence, &count, err));
        while (k + 1 < count && sentence[k].b1 <= q->answer_start)
            k++;
        at = sentence[k];
        free(sentence);
        KVA_TRY(plant(e, (uint32_t)q->gold[0], at, q->answers[0], q->answer_start, err));
    }
    return add_units(e, holds, err);
}

static enum kva_status qa_gen(const struct kva_official_run *run,
                              const struct kva_official_call *how,
                              struct kva_official_state *state,
                              struct kva_official_prompt *p, struct kva_error *err)
{
    const struct kva_official *o = run->o;
    const struct qa *s = o->data;
    const struct kva_qa_question *q = &s->data.question[how->idx];
    struct kva_draft *d = &p->draft;
    struct docs docs;
    struct evidence e = {.o = o, .q = q, .p = p, .docs = &docs};

    KVA_TRY(list_docs(o, q, how->units, state, &p->arena, &docs, err));
    if (docs.n == 0) {
        p->too_small = true;
        return KVA_OK;
    }
    e.begin = kva_arena_alloc(&p->arena, docs.n, sizeof *e.begin);
    p->answers = kva_arena_alloc(&p->arena, (size_t)q->n_answers, sizeof *p->answers);
    if (!e.begin || !p->answers)
        return kva_official_no_memory(o, err);
    kva_buf_puts(&d->text, head);
    d->hay.b0 = d->text.len;
    for (size_t i = 0; i < docs.n; i++) {
        kva_buf_printf(&d->text, "%sDocument %zu:\n", i ? "\n\n" : "", i + 1);
        e.begin[i] = d->text.len;
        kva_buf_puts(&d->text, s->data.doc[docs.number[i]]);
    }
    d->hay.b1 = d->text.len;
    kva_buf_puts(&d->text, "\n\n");
    kva_official_end_context(p);
    kva_buf_puts(&d->text, question);
    kva_buf_puts(&d->text, q->text);
    kva_buf_putc(&d->text, ' ');
    kva_official_end_question(p);
    kva_buf_puts(&d->text, prefix);
    for (int i = 0; i < q->n_answers; i++)
        p->answers[p->n_answers++] = q->answers[i];
    p->gold = q->answers[0];
    if (o->r2024 && how->searching)
        KVA_TRY(kva_official_list_tail(p, err));
    return how->full ? add_parts(&e, err) : KVA_OK;
}

static int qa_describe(const struct kva_task *task, const void *data, void *gen,
                       void *source)
{
    const struct qa *s = data;
    struct kva_sha256 h;
    uint8_t digest[32];
    char hex[65];
    int bad = 0;

    (void)task;
    kva_sha256_init(&h);
    kva_sha256_add(&h, head, sizeof head);
    kva_sha256_add(&h, question, sizeof question);
    kva_sha256_add(&h, prefix, sizeof prefix);
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, hex);
    bad |= json_object_set_new(gen, "template_sha256", json_string(hex));
    bad |= json_object_set_new(source, s->hotpot ? "hotpot" : "squad",
                               json_string(s->data.sha256));
    return bad;
}

const struct kva_official_kind kva_official_qa = {.domain = "qa",
                                                  .open = qa_open,
                                                  .close = qa_close,
                                                  .gen = qa_gen,
                                                  .describe = qa_describe};
