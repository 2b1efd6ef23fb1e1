/* SPDX-License-Identifier: GPL-3.0-or-later */
/* niah.c - needles in a haystack: RULER's niah_* tasks and the free family niah/needle.
 *
 * Dialect kva1. Draws, in this order: where the essay starts; for each key adjective,
 * noun and its values (a key or value seen before is drawn again); the order of the
 * needles; the queried keys; a place for each needle. Needle j of m stands at u = (((idx
 * + j (10 / m)) mod 10) + unit) / 10 of the haystack, before sentence floor(u n) or line
 * floor(u (n + 1)): depth deciles are balanced over idx. Templates: RULER,
 * scripts/data/synthetic/constants.py; split of the prompt as in kvpress. A haystack of
 * needles comes from the stream "...|hay". With `uninstructed` the instruction stands
 * before the question, so that the context does not tell what will be asked.
 *
 * Unlike RULER (frozen order, one haystack prefix for all samples) every sample has its
 * own layout. */
#include "tasks/needles.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum haystack { EMERSON, EMBEDDED, ESSAYS, NOISE, NEEDLE };
static const char *const haystack_names[] = {"emerson", "embedded", "essays",
                                             "noise",   "needle",   NULL};
/* What a name of one kind may stand for. */
static const char *const haystack_kinds[] = {"essays", "essays", "essays", "noise",
                                             "needles"};

/* RULER's tasks: scripts/synthetic.yaml. niah_multiquery's one key is raised to four. */
static const struct preset {
    const char *name;
    enum haystack haystack;
    int keys, values, queries;
    bool uuid_keys, uuid_values;
} presets[] = {
    {"niah_single_1", NOISE, 1, 1, 1, false, false},
    {"niah_single_2", EMERSON, 1, 1, 1, false, false},
    {"niah_single_3", EMERSON, 1, 1, 1, false, true},
    {"niah_multikey_1", EMERSON, 4, 1, 1, false, false},
    {"niah_multikey_2", NEEDLE, 1, 1, 1, false, false},
    {"niah_multikey_3", NEEDLE, 1, 1, 1, true, true},
    {"niah_multivalue", EMERSON, 1, 4, 1, false, false},
    {"niah_multiquery", EMERSON, 1, 1, 4, false, false},
    {"needle", EMERSON, 1, 1, 1, false, false},
};

struct niah {
    int keys, values, queries, digits;
    bool uuid_keys, uuid_values, needle_prefix, uninstructed;
    enum haystack haystack;
    struct kva_essay essay; /* not with lines */
    struct kva_lexicon lexicon;
    struct kva_needle_texts texts;
};

/* ---- opening ---- */

static bool singular(const struct niah *s)
{
    return s->queries * s->values == 1;
}

static bool has_lines(const struct niah *s)
{
    return s->haystack >= NOISE;
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
            "task \"%s\": unknown haystack \"%s\" (emerson, embedded, essays, noise or "
            "needle)",
            req->text, name);
    if (!free_choice && strcmp(haystack_kinds[at], haystack_kinds[s->haystack]) != 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": RULER's %s has %s as haystack, not %s", req->text,
                        req->desc->name, haystack_kinds[s->haystack], name);
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
    static const char *const all[] = {"digits",  "haystack",     "keys",   "prefix",
                                      "queries", "uninstructed", "values", NULL};
    static const char *const ruler[] = {"haystack", "uninstructed", NULL};

    if (strcmp(p->key, "haystack") == 0)
        return set_haystack(s, req, p->value, free_choice, err);
    if (strcmp(p->key, "uninstructed") == 0)
        return kva_task_flag(req, p, &s->uninstructed, err);
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
    if (!s->uuid_values && (uint64_t)needles > 9 * kva_power10(s->digits - 1) / 2)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": too few %d-digit numbers for %d needles", req->text,
                        s->digits, needles);
    return KVA_OK;
}

/* Appends the parameters that differ from the defaults, sorted. Without `uninstructed`
 * for the streams: the same needles in the same text. */
static void write_name(const struct niah *s, bool free_choice, bool uninstructed,
                       struct kva_buf *b)
{
    char gap = ':';

#define ADD(differs, ...)                                                                \
    if (differs) {                                                                       \
        kva_buf_putc(b, gap);                                                            \
        kva_buf_printf(b, __VA_ARGS__);                                                  \
        gap = ',';                                                                       \
    }
    ADD(free_choice && s->digits != 7, "digits=%d", s->digits)
    ADD(s->haystack == EMBEDDED || s->haystack == ESSAYS || (free_choice && has_lines(s)),
        "haystack=%s", haystack_names[s->haystack])
    ADD(free_choice && s->keys != 1, "keys=%d", s->keys)
    ADD(s->needle_prefix, "prefix=needle")
    ADD(free_choice && s->queries != 1, "queries=%d", s->queries)
    ADD(uninstructed, "uninstructed=1")
    ADD(free_choice && s->values != 1, "values=%d", s->values)
#undef ADD
}

static enum kva_status make_names(struct kva_task *task, const struct niah *s,
                                  bool free_choice, struct kva_error *err)
{
    struct kva_buf name, stream;
    enum kva_status rc;

    kva_buf_init(&name, 0);
    kva_buf_init(&stream, 0);
    kva_buf_puts(&name, task->desc->name);
    kva_buf_puts(&stream, task->desc->name);
    write_name(s, free_choice, s->uninstructed, &name);
    if (free_choice)
        write_name(s, free_choice, false, &stream);
    KVA_GO(kva_buf_status(&name, err));
    KVA_GO(kva_buf_status(&stream, err));
    rc = kva_task_set_names(task, name.data, stream.data, err);
out:
    kva_buf_release(&name);
    kva_buf_release(&stream);
    return rc;
}

/* Chance score: the share of all values that is asked for, where some are not. Of a
 * needle haystack the task knows about how many lines it has (20 tokens a line, with
 * uuids 80), an item exactly. */
static double guess_floor(const struct niah *s, size_t lines)
{
    size_t all = (size_t)s->keys + lines / (size_t)s->values;

    return all > (size_t)s->queries ? (double)s->queries / (double)all : 0;
}

static enum kva_status niah_open(struct kva_task *task,
                                 const struct kva_task_request *req,
                                 struct kva_error *err)
{
    bool free_choice = strcmp(req->desc->suite, "niah") == 0;
    const struct kva_task_opts *o = req->opts;
    struct niah *s = kva_calloc(1, sizeof *s);
    const struct preset *set = presets;
    int room = task->info.ctx - task->info.max_new_tokens - 100;

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s; /* closed with the task, also on failure */
    while (strcmp(set->name, req->desc->name) != 0)
        set++;
    s->haystack = set->haystack;
    s->keys = set->keys;
    s->values = set->values;
    s->queries = set->queries;
    s->uuid_keys = set->uuid_keys;
    s->uuid_values = set->uuid_values;
    s->digits = 7;
    if (o->haystack)
        KVA_TRY(set_haystack(s, req, o->haystack, free_choice, err));
    for (int i = 0; i < req->n_params; i++)
        KVA_TRY(read_param(s, req, &req->param[i], free_choice, err));
    KVA_TRY(check(s, req, err));
    KVA_TRY(kva_needle_texts_make(&s->texts, s->uuid_values, singular(s),
                                  s->needle_prefix, err));
    KVA_TRY(make_names(task, s, free_choice, err));
    KVA_TRY(kva_lexicon_open(&s->lexicon, o->words, o->data_dir, err));
    if (!has_lines(s))
        KVA_TRY(kva_essay_open(&s->essay, haystack_names[s->haystack], o, err));
    kva_task_use_layout(task, "kva1");
    task->haystack = haystack_names[s->haystack];
    task->splitter = has_lines(s) ? NULL : "simple-v1";
    task->words = s->lexicon.version;
    task->info.domain = "retrieval";
    task->info.binary = task->info.has_depth = singular(s);
    task->info.guess_floor = guess_floor(s, s->haystack == NEEDLE && room > 0
                                                ? (size_t)room / (s->uuid_keys ? 82 : 25)
                                                : 0);
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
    struct kva_needle_lines lines;
    const char **key, **value; /* value[key * values + i] */
    struct kva_plant plant[KVA_PLANTS_MAX];
    size_t n_plants;
};

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;
    const struct niah *s = p->s;
    struct kva_units units = {kva_essay_unit, &p->view};

    if (s->haystack == NOISE)
        units.unit = kva_noise_unit;
    if (s->haystack == NEEDLE) {
        KVA_TRY(kva_needle_lines_grow(&p->lines, n, err));
        units = (struct kva_units){kva_needle_lines_unit, &p->lines};
    }
    kva_plants_arrange(p->plant, p->n_plants, n, has_lines(s));
    if (!s->uninstructed)
        kva_buf_add(&d->text, s->texts.instruction.data, s->texts.instruction.len);
    KVA_TRY(
        kva_draft_place(d, &units, n, p->plant, p->n_plants, has_lines(s), false, err));
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
            p->key[k] = s->uuid_keys ? kva_uuid_draw(rng, arena)
                                     : kva_key_draw(&s->lexicon, rng, arena);
            if (!p->key[k])
                return no_memory(idx, err);
        } while (kva_text_listed(p->key, k, p->key[k]));
        for (size_t v = 0; v < n_values; v++) {
            const char **value = &p->value[k * n_values + v];

            do {
                *value = s->uuid_values ? kva_uuid_draw(rng, arena)
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

    if (!has_lines(s))
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
    if (item->question && s->uninstructed)
        item->question =
            kva_arena_printf(arena, "%s%s", s->texts.instruction.data, item->question);
    item->answer_prefix =
        kva_template_fill(arena, s->texts.prefix.data, "{query}", query);
    if (!item->question || !item->answer_prefix)
        return no_memory(item->idx, err);
    KVA_TRY(kva_task_lay_out(task, arena, item, err));
    item->gold = kva_task_gold(arena, item->answer_prefix, answers, n_answers, ", ");
    return item->gold ? KVA_OK : no_memory(item->idx, err);
}

/* The lines' own stream, and what they may not repeat. */
static enum kva_status open_lines(const struct kva_task *task, int idx, struct plan *p,
                                  struct kva_arena *arena, struct kva_error *err)
{
    const struct niah *s = p->s;
    bool added;

    p->lines = (struct kva_needle_lines){.texts = &s->texts,
                                         .lexicon = &s->lexicon,
                                         .uuid_keys = s->uuid_keys,
                                         .uuid_values = s->uuid_values,
                                         .digits = s->digits,
                                         .rng = kva_task_stream(task, idx, "|hay"),
                                         .arena = arena};
    for (int k = 0; k < s->keys; k++)
        KVA_TRY(kva_text_set_add(&p->lines.seen, p->key[k], &added, err));
    for (int v = 0; v < s->keys * s->values; v++)
        KVA_TRY(kva_text_set_add(&p->lines.seen, p->value[v], &added, err));
    return KVA_OK;
}

/* Values that nobody asked for. */
static enum kva_status add_decoys(const struct plan *p, size_t n_lines,
                                  struct kva_arena *arena, struct kva_item *item,
                                  struct kva_error *err)
{
    size_t n_values = (size_t)(p->s->keys * p->s->values);
    const char **decoys = kva_arena_alloc(arena, n_values + n_lines, sizeof *decoys);
    int n = 0;

    if (!decoys)
        return no_memory(item->idx, err);
    for (size_t i = 0; i < n_values; i++)
        if (!kva_text_listed(item->answers, (size_t)item->n_answers, p->value[i]))
            decoys[n++] = p->value[i];
    for (size_t i = 0; i < n_lines; i++)
        decoys[n++] = p->lines.value[i];
    item->decoys = decoys;
    item->n_decoys = n;
    return KVA_OK;
}

static enum kva_status add_spans(const struct kva_task *task, const struct plan *p,
                                 int guard, const struct kva_tok_api *tok,
                                 struct kva_fit *fit, struct kva_draft *d,
                                 struct kva_arena *arena, struct kva_item *item,
                                 struct kva_error *err)
{
    const struct niah *s = p->s;
    const char **forbidden = kva_arena_alloc(
        arena, (size_t)s->keys * (size_t)(1 + s->values), sizeof *forbidden);
    struct kva_span_job job = {.plants = p->plant,
                               .n_plants = p->n_plants,
                               .forbidden = forbidden,
                               .whole_units = s->haystack == NEEDLE,
                               .guard = guard,
                               .tau = KVA_SPAN_TAU,
                               .n_distractors = KVA_SPAN_DISTRACTORS};

    if (!forbidden)
        return no_memory(item->idx, err);
    for (int i = 0; i < s->keys; i++)
        forbidden[job.n_forbidden++] = p->key[i];
    for (int i = 0; i < s->keys * s->values; i++)
        forbidden[job.n_forbidden++] = p->value[i];
    return kva_task_finish(task, tok, fit, d, &job, arena, item, err);
}

/* Most units: one for every token there is room for, and what the numbers suffice for. */
static size_t most_units(const struct kva_task *task)
{
    const struct niah *s = task->state;
    size_t n = (size_t)task->info.ctx;
    uint64_t numbers = s->uuid_values ? UINT64_MAX : 9 * kva_power10(s->digits - 1) / 2;
    uint64_t needles = (uint64_t)(s->keys * s->values);

    if (s->haystack != NEEDLE || numbers - needles >= n)
        return n;
    return numbers - needles > 1 ? (size_t)(numbers - needles) : 1;
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
    enum kva_status rc;

    if (!p)
        return no_memory(idx, err);
    kva_draft_init(&d);
    p->s = s;
    KVA_GO(draw(task, p, arena, item, err));
    if (s->haystack == NEEDLE)
        KVA_GO(open_lines(task, idx, p, arena, err));
    fit = (struct kva_fit){.task = task->label,
                           .question = item->question,
                           .answer_prefix = item->answer_prefix,
                           .feed = &item->feed,
                           .limit = task->info.ctx,
                           .max_new_tokens = item->max_new_tokens,
                           .n_max = most_units(task),
                           .build = build,
                           .ctx = p};
    if (n_units > 0) {
        KVA_GO(build(p, n_units, &d, err));
        KVA_GO(tok->count(tok->ctx, &item->feed, d.text.data, d.text.len, item->question,
                          item->answer_prefix, &fit.n_context, &fit.n_question, err));
        fit.n_units = n_units;
    } else {
        KVA_GO(kva_fit_draft(&fit, tok, &d, err));
    }
    n_units = s->haystack == NEEDLE ? fit.n_units : 0;
    item->guess_floor = guess_floor(s, n_units);
    item->more_metrics = kva_task_word_match;
    KVA_GO(add_decoys(p, n_units, arena, item, err));
    rc = add_spans(task, p, guard, tok, &fit, &d, arena, item, err);
out:
    kva_needle_lines_release(&p->lines);
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
    bad |= json_object_set_new(gen, "type",
                               json_string(s->uuid_values ? "uuids" : "numbers"));
    if (s->uninstructed)
        bad |= json_object_set_new(gen, "uninstructed", json_true());
    bad |= json_object_set_new(gen, "values", json_integer(s->values));
    bad |= json_object_set_new(gen, "words", json_string(task->words));
    bad |= json_object_set_new(source, "adjectives",
                               json_string(s->lexicon.adjectives.sha256));
    bad |= json_object_set_new(source, "nouns", json_string(s->lexicon.nouns.sha256));
    if (!has_lines(s))
        bad |= json_object_set_new(source, "essay", json_string(s->essay.sha256));
    return bad;
}

const struct kva_family kva_family_niah = {niah_open, niah_close, niah_item,
                                           niah_describe};
