/* SPDX-License-Identifier: GPL-3.0-or-later */
/* niah.c - needles in a haystack: RULER's niah_* tasks and the free family niah/needle.
 *
 * Dialect kva1. Draws, in this order: where the essay starts; for each key adjective,
 * noun and its values (a key or value seen before is drawn again); the order of the
 * needles; the queried keys; a place for each needle. Needle j of m stands at u = (((idx
 * + j (10 / m)) mod 10) + unit) / 10 of the haystack, before sentence floor(u n) or line
 * floor(u (n + 1)): depth deciles are balanced over idx. Templates: RULER,
 * scripts/data/synthetic/constants.py; split of the prompt as in kvpress.
 *
 * Unlike RULER (frozen order, one haystack prefix for all samples) every sample has its
 * own layout. */
#include "tasks/needles.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum haystack { EMERSON, EMBEDDED, NOISE };
static const char *const haystack_names[] = {"emerson", "embedded", "noise", NULL};

struct niah {
    int keys, values, queries, digits;
    bool uuids, needle_prefix;
    enum haystack haystack;
    struct kva_essay essay; /* not with NOISE */
    struct kva_lexicon lexicon;
    struct kva_needle_texts texts;
};

/* ---- opening ---- */

static bool singular(const struct niah *s)
{
    return s->queries * s->values == 1;
}

static enum kva_status set_haystack(struct niah *s, const struct kva_task_request *req,
                                    const char *name, bool free_choice,
                                    struct kva_error *err)
{
    int at = 0;

    while (haystack_names[at] && strcmp(haystack_names[at], name) != 0)
        at++;
    if (!haystack_names[at])
        return KVA_FAIL(
            err, KVA_EINVALID,
            "task \"%s\": unknown haystack \"%s\" (emerson, embedded or noise)",
            req->text, name);
    if (!free_choice && (at == NOISE) != (s->haystack == NOISE))
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": RULER's %s has %s as haystack, not %s", req->text,
                        req->desc->name, s->haystack == NOISE ? "noise" : "essays", name);
    s->haystack = (enum haystack)at;
    return KVA_OK;
}

static enum kva_status whole_number(const struct kva_task_request *req,
                                    const struct kva_task_param *p, int hi, int *out,
                                    struct kva_error *err)
{
    int64_t x;

    if (!kva_parse_i64(p->value, &x) || x < 1 || x > hi)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": %s is a whole number from 1 to %d", req->text,
                        p->key, hi);
    *out = (int)x;
    return KVA_OK;
}

static enum kva_status read_param(struct niah *s, const struct kva_task_request *req,
                                  const struct kva_task_param *p, bool free_choice,
                                  struct kva_error *err)
{
    static const char *const all[] = {"digits",  "haystack", "keys", "prefix",
                                      "queries", "values",   NULL};
    static const char *const ruler[] = {"haystack", NULL};

    if (strcmp(p->key, "haystack") == 0)
        return set_haystack(s, req, p->value, free_choice, err);
    if (!free_choice)
        return kva_task_bad_param(req, p->key, ruler, err);
    if (strcmp(p->key, "keys") == 0)
        return whole_number(req, p, KVA_KEYS_MAX, &s->keys, err);
    if (strcmp(p->key, "values") == 0)
        return whole_number(req, p, KVA_KEYS_MAX, &s->values, err);
    if (strcmp(p->key, "queries") == 0)
        return whole_number(req, p, KVA_KEYS_MAX, &s->queries, err);
    if (strcmp(p->key, "digits") == 0)
        return whole_number(req, p, 15, &s->digits, err);
    if (strcmp(p->key, "prefix") != 0)
        return kva_task_bad_param(req, p->key, all, err);
    s->needle_prefix = strcmp(p->value, "needle") == 0;
    if (!s->needle_prefix && strcmp(p->value, "official") != 0)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": prefix is official or needle",
                        req->text);
    return KVA_OK;
}

static enum kva_status check(struct niah *s, const struct kva_task_request *req,
                             struct kva_error *err)
{
    int needles;

    if (s->keys < s->queries) /* as RULER: as many keys as are asked for */
        s->keys = s->queries;
    needles = s->keys * s->values;
    if (needles > KVA_PLANTS_MAX)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": %d needles are more than %d",
                        req->text, needles, KVA_PLANTS_MAX);
    if (!s->uuids && (uint64_t)needles > 9 * kva_power10(s->digits - 1) / 2)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": too few %d-digit numbers for %d needles", req->text,
                        s->digits, needles);
    return KVA_OK;
}

/* Name with the parameters that differ from the defaults, sorted. */
static enum kva_status make_names(struct kva_task *task, const struct niah *s,
                                  bool free_choice, struct kva_error *err)
{
    struct kva_buf b;
    char gap = ':';
    enum kva_status rc;

    kva_buf_init(&b, 0);
    kva_buf_puts(&b, task->desc->name);
#define ADD(differs, ...)                                                                \
    if (differs) {                                                                       \
        kva_buf_putc(&b, gap);                                                           \
        kva_buf_printf(&b, __VA_ARGS__);                                                 \
        gap = ',';                                                                       \
    }
    ADD(free_choice && s->digits != 7, "digits=%d", s->digits)
    ADD(s->haystack == EMBEDDED || (free_choice && s->haystack == NOISE), "haystack=%s",
        haystack_names[s->haystack])
    ADD(free_choice && s->keys != 1, "keys=%d", s->keys)
    ADD(s->needle_prefix, "prefix=needle")
    ADD(free_choice && s->queries != 1, "queries=%d", s->queries)
    ADD(free_choice && s->values != 1, "values=%d", s->values)
#undef ADD
    KVA_GO(kva_buf_status(&b, err));
    task->name = kva_calloc(b.len + 1, 1);
    task->stream_name = kva_calloc(b.len + 1, 1);
    if (!task->name || !task->stream_name) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "task: out of memory");
        goto out;
    }
    memcpy(task->name, b.data, b.len);
    if (free_choice)
        memcpy(task->stream_name, b.data, b.len);
    else
        memcpy(task->stream_name, task->desc->name, strlen(task->desc->name));
out:
    kva_buf_release(&b);
    return rc;
}

static enum kva_status niah_open(struct kva_task *task,
                                 const struct kva_task_request *req,
                                 struct kva_error *err)
{
    bool free_choice = strcmp(req->desc->suite, "niah") == 0;
    const struct kva_task_opts *o = req->opts;
    struct niah *s = kva_calloc(1, sizeof *s);

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s; /* closed with the task, also on failure */
    s->keys = strcmp(req->desc->name, "niah_multikey_1") == 0 ? 4 : 1;
    s->values = s->queries = 1;
    s->digits = 7;
    s->uuids = strcmp(req->desc->name, "niah_single_3") == 0;
    s->haystack = strcmp(req->desc->name, "niah_single_1") == 0 ? NOISE : EMERSON;
    if (o->haystack)
        KVA_TRY(set_haystack(s, req, o->haystack, free_choice, err));
    for (int i = 0; i < req->n_params; i++)
        KVA_TRY(read_param(s, req, &req->param[i], free_choice, err));
    KVA_TRY(check(s, req, err));
    KVA_TRY(
        kva_needle_texts_make(&s->texts, s->uuids, singular(s), s->needle_prefix, err));
    KVA_TRY(make_names(task, s, free_choice, err));
    KVA_TRY(kva_lexicon_open(&s->lexicon, o->words, o->data_dir, err));
    if (s->haystack != NOISE)
        KVA_TRY(kva_essay_open(&s->essay, haystack_names[s->haystack], o, err));
    kva_task_use_layout(task, "kva1");
    task->haystack = haystack_names[s->haystack];
    task->splitter = s->haystack == NOISE ? NULL : "simple-v1";
    task->words = s->lexicon.version;
    task->info.domain = "retrieval";
    task->info.binary = task->info.has_depth = singular(s);
    task->info.guess_floor = s->keys > s->queries ? (double)s->queries / s->keys : 0;
    return KVA_OK;
}

static void niah_close(void *state)
{
    struct niah *s = state;

    kva_needle_texts_release(&s->texts);
    kva_essay_release(&s->essay);
    kva_lexicon_release(&s->lexicon);
    free(s);
}

/* ---- an item ---- */

struct plan {
    const struct niah *s;
    struct kva_essay_view view;
    const char **key, **value; /* value[key * values + i] */
    struct kva_plant plant[KVA_PLANTS_MAX];
    size_t n_plants;
};

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;
    bool lines = p->s->haystack == NOISE;
    struct kva_units units = {lines ? kva_noise_unit : kva_essay_unit, &p->view};

    kva_plants_arrange(p->plant, p->n_plants, n, lines);
    kva_buf_add(&d->text, p->s->texts.instruction.data, p->s->texts.instruction.len);
    KVA_TRY(kva_draft_place(d, &units, n, p->plant, p->n_plants, lines, false, err));
    kva_buf_putc(&d->text, '\n');
    return kva_buf_status(&d->text, err);
}

static enum kva_status no_memory(int idx, struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
}

static enum kva_status draw_needles(struct plan *p, struct kva_rng *rng,
                                    struct kva_arena *arena, int idx,
                                    struct kva_error *err)
{
    const struct niah *s = p->s;
    size_t n_keys = (size_t)s->keys, n_values = (size_t)s->values;

    p->key = kva_arena_alloc(arena, n_keys, sizeof *p->key);
    p->value = kva_arena_alloc(arena, n_keys * n_values, sizeof *p->value);
    if (!p->key || !p->value)
        return no_memory(idx, err);
    for (size_t k = 0; k < n_keys; k++) {
        do {
            p->key[k] = kva_key_draw(&s->lexicon, rng, arena);
            if (!p->key[k])
                return no_memory(idx, err);
        } while (kva_text_listed(p->key, k, p->key[k]));
        for (size_t v = 0; v < n_values; v++) {
            const char **value = &p->value[k * n_values + v];

            do {
                *value = s->uuids ? kva_uuid_draw(rng, arena)
                                  : kva_number_draw(s->digits, rng, arena);
                if (!*value)
                    return no_memory(idx, err);
            } while (kva_text_listed(p->value, k * n_values + v, *value));
            if (!kva_needle_plant(&s->texts, p->key[k], *value, arena,
                                  &p->plant[p->n_plants++]))
                return no_memory(idx, err);
        }
    }
    return KVA_OK;
}

/* "a", "a, and b", "a, b, and c". */
static const char *join_queries(struct kva_arena *arena, const char *const *key,
                                const int *asked, int n)
{
    const char *out = "";

    for (int i = 0; i < n && out; i++)
        out = kva_arena_printf(arena, "%s%s%s%s", out, i ? ", " : "",
                               i && i == n - 1 ? "and " : "", key[asked[i]]);
    return out;
}

static enum kva_status draw(const struct kva_task *task, struct plan *p,
                            struct kva_arena *arena, struct kva_item *item,
                            struct kva_error *err)
{
    const struct niah *s = p->s;
    struct kva_rng rng = kva_task_stream(task, item->idx, "");
    int order[KVA_PLANTS_MAX], asked[KVA_KEYS_MAX];
    struct kva_plant plant[KVA_PLANTS_MAX];
    const char **answers, *query;
    int m, n_answers = s->queries * s->values;

    if (s->haystack != NOISE)
        p->view = (struct kva_essay_view){&s->essay, kva_rng_below(&rng, s->essay.n)};
    KVA_TRY(draw_needles(p, &rng, arena, item->idx, err));
    m = (int)p->n_plants;
    for (int i = 0; i < m; i++)
        order[i] = i;
    for (int i = m - 1; i > 0; i--) {
        int j = (int)kva_rng_below(&rng, (uint64_t)i + 1), t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < s->keys; i++)
        asked[i] = i;
    for (int i = 0; i < s->queries; i++) {
        int j = i + (int)kva_task_choose(&rng, (uint64_t)(s->keys - i)), t = asked[i];

        asked[i] = asked[j];
        asked[j] = t;
        for (int v = 0; v < s->values; v++)
            p->plant[asked[i] * s->values + v].queried = true;
    }
    for (int j = 0; j < m; j++) {
        plant[j] = p->plant[order[j]];
        plant[j].u = ((item->idx % 10 + j * (10 / m)) % 10 + kva_rng_unit(&rng)) / 10;
    }
    memcpy(p->plant, plant, (size_t)m * sizeof plant[0]);

    answers = kva_arena_alloc(arena, (size_t)n_answers, sizeof *answers);
    query = join_queries(arena, p->key, asked, s->queries);
    if (!answers || !query)
        return no_memory(item->idx, err);
    for (int i = 0; i < n_answers; i++)
        answers[i] = p->value[asked[i / s->values] * s->values + i % s->values];
    item->answers = answers;
    item->n_answers = n_answers;
    item->question = kva_template_fill(arena, s->texts.question.data, "{query}", query);
    item->answer_prefix =
        kva_template_fill(arena, s->texts.prefix.data, "{query}", query);
    if (!item->question || !item->answer_prefix)
        return no_memory(item->idx, err);
    KVA_TRY(kva_task_lay_out(task, arena, item, err));
    item->gold = kva_task_gold(arena, item->answer_prefix, answers, n_answers, ", ");
    return item->gold ? KVA_OK : no_memory(item->idx, err);
}

static enum kva_status make(const struct kva_task *task, int idx, size_t n_units,
                            int guard, const struct kva_tok_api *tok,
                            struct kva_arena *arena, struct kva_item *item,
                            struct kva_error *err)
{
    const struct niah *s = task->state;
    struct plan *p = kva_arena_alloc(arena, 1, sizeof *p);
    struct kva_draft d;
    struct kva_fit fit;
    struct kva_span_job job;
    const char **forbidden;
    enum kva_status rc;

    if (!p)
        return no_memory(idx, err);
    kva_draft_init(&d);
    p->s = s;
    KVA_GO(draw(task, p, arena, item, err));
    fit = (struct kva_fit){.task = task->label,
                           .question = item->question,
                           .answer_prefix = item->answer_prefix,
                           .feed = &item->feed,
                           .limit = task->info.ctx,
                           .max_new_tokens = item->max_new_tokens,
                           .build = build,
                           .ctx = p};
    fit.n_max = s->haystack == EMERSON ? s->essay.n : (size_t)task->info.ctx;
    if (n_units > 0) {
        KVA_GO(build(p, n_units, &d, err));
        KVA_GO(tok->count(tok->ctx, &item->feed, d.text.data, d.text.len, item->question,
                          item->answer_prefix, &fit.n_context, &fit.n_question, err));
    } else {
        KVA_GO(kva_fit_draft(&fit, tok, &d, err));
    }
    forbidden = kva_arena_alloc(arena, (size_t)s->keys * (size_t)(1 + s->values),
                                sizeof *forbidden);
    if (!forbidden) {
        rc = no_memory(idx, err);
        goto out;
    }
    job = (struct kva_span_job){.plants = p->plant,
                                .n_plants = p->n_plants,
                                .forbidden = forbidden,
                                .guard = guard,
                                .tau = KVA_SPAN_TAU,
                                .n_distractors = KVA_SPAN_DISTRACTORS};
    for (int i = 0; i < s->keys; i++)
        forbidden[job.n_forbidden++] = p->key[i];
    for (int i = 0; i < s->keys * s->values; i++)
        forbidden[job.n_forbidden++] = p->value[i];
    rc = kva_task_finish(task, tok, &fit, &d, &job, arena, item, err);
out:
    kva_draft_release(&d);
    return rc;
}

static enum kva_status niah_item(const struct kva_task *task, int idx,
                                 const struct kva_tok_api *tok, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    return make(task, idx, 0, KVA_SPAN_GUARD, tok, arena, item, err);
}

enum kva_status kva_niah_item_fixed(const struct kva_task *task, int idx, size_t n_units,
                                    int guard, const struct kva_tok_api *tok,
                                    struct kva_arena *arena, struct kva_item *item,
                                    struct kva_error *err)
{
    *item = (struct kva_item){.idx = idx, .max_new_tokens = task->info.max_new_tokens};
    return make(task, idx, n_units, guard, tok, arena, item, err);
}

static int niah_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct niah *s = task->state;
    int bad = 0;

    bad |= json_object_set_new(gen, "dialect", json_string(task->info.dialect));
    bad |= json_object_set_new(gen, "L", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "digits", json_integer(s->digits));
    bad |= json_object_set_new(gen, "haystack", json_string(task->haystack));
    bad |= json_object_set_new(gen, "keys", json_integer(s->keys));
    bad |= json_object_set_new(gen, "layout", json_string(task->layout));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "prefix",
                               json_string(s->needle_prefix ? "needle" : "official"));
    bad |= json_object_set_new(gen, "queries", json_integer(s->queries));
    bad |= json_object_set_new(gen, "seed", json_integer((json_int_t)task->seed));
    if (task->splitter)
        bad |= json_object_set_new(gen, "splitter", json_string(task->splitter));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->texts.sha256));
    bad |= json_object_set_new(gen, "type", json_string(s->uuids ? "uuids" : "numbers"));
    bad |= json_object_set_new(gen, "values", json_integer(s->values));
    bad |= json_object_set_new(gen, "words", json_string(task->words));
    bad |= json_object_set_new(source, "adjectives",
                               json_string(s->lexicon.adjectives.sha256));
    bad |= json_object_set_new(source, "nouns", json_string(s->lexicon.nouns.sha256));
    if (s->haystack != NOISE)
        bad |= json_object_set_new(source, "essay", json_string(s->essay.sha256));
    return bad;
}

const struct kva_family kva_family_niah = {niah_open, niah_close, niah_item,
                                           niah_describe};
