/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt_needles.c - mt/niah and mt/passkey: several needles in one haystack, each question
 * asks for another one.
 *
 * niah: RULER's niah_multikey in the singular, essays, keys of two words, numbers of
 * seven digits. passkey: pass keys of five digits, each with a name, among the repeated
 * lines of InfiniteBench's Retrieve.PassKey; instruction as in SCBench, one more sentence
 * of the needle names whose key it is (PROJECT).
 *
 * Draws, from the context's stream: where the essay starts; for each key its words and
 * its value (one seen before is drawn again); the order of the needles; the order of the
 * questions; a place for each needle, at depth deciles as in niah.c, balanced over the
 * contexts. Question t marks its own needle as queried; the other values are decoys. */
#include "tasks/mt.h"
#include "tasks/needles.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const essays[] = {"emerson", "embedded", "essays", NULL};
static const char *const lines[] = {"noise", NULL};

struct state {
    struct kva_mt mt;
    int keys, digits;
    bool lines;
    struct kva_needle_texts texts;
    struct kva_lexicon lexicon;
    struct kva_essay essay; /* not with lines */
};

static enum kva_status make_texts(struct state *s, struct kva_error *err)
{
    if (!s->lines)
        return kva_needle_texts_make(&s->texts, false, true, false, err);
    return kva_needle_texts_set(
        &s->texts,
        "There is an important info hidden inside a lot of irrelevant text. Find it and "
        "memorize it. I will quiz you about the important information.\n\n",
        "What is the pass key of {query}? ", "The pass key of {query} is",
        "The pass key of {key} is {value}. Remember it.", err);
}

static enum kva_status needles_open(struct kva_task *task,
                                    const struct kva_task_request *req,
                                    struct kva_error *err)
{
    const struct kva_task_opts *o = req->opts;
    struct state *s = kva_calloc(1, sizeof *s);

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    s->lines = strcmp(req->desc->name, "passkey") == 0;
    s->mt = (struct kva_mt){
        .param = {{"digits", &s->digits, 1, 15, s->lines ? 5 : 7},
                  {"keys", &s->keys, 1, KVA_KEYS_MAX, 5},
                  {"turns", &s->mt.turns, 1, KVA_TURNS_MAX, 5}},
        .n_params = 3,
        .haystacks = s->lines ? lines : essays,
    };
    KVA_TRY(kva_mt_open(task, req, &s->mt, err));
    if (s->mt.turns > s->keys)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": %d turns ask for more than the %d keys there are",
                        req->text, s->mt.turns, s->keys);
    if ((uint64_t)s->keys > 9 * kva_power10(s->digits - 1) / 2)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": too few %d-digit numbers for %d needles", req->text,
                        s->digits, s->keys);
    KVA_TRY(make_texts(s, err));
    memcpy(s->mt.template_sha256, s->texts.sha256, sizeof s->mt.template_sha256);
    KVA_TRY(kva_lexicon_open(&s->lexicon, o->words, o->data_dir, err));
    if (!s->lines)
        KVA_TRY(kva_essay_open(&s->essay, s->mt.haystack, o, err));
    task->splitter = s->lines ? NULL : "simple-v1";
    task->words = s->lexicon.version;
    task->info.domain = "retrieval";
    task->info.binary = task->info.has_depth = true;
    task->info.guess_floor = s->keys > 1 ? 1.0 / s->keys : 0;
    return KVA_OK;
}

static void needles_close(void *state)
{
    struct state *s = state;

    kva_needle_texts_release(&s->texts);
    kva_lexicon_release(&s->lexicon);
    kva_essay_release(&s->essay);
    free(s);
}

struct plan {
    const struct state *s;
    struct kva_essay_view view;
    const char *key[KVA_KEYS_MAX], *value[KVA_KEYS_MAX];
    struct kva_plant plant[KVA_KEYS_MAX]; /* in the order they stand in */
};

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;
    const struct state *s = p->s;
    struct kva_units units = {s->lines ? kva_noise_unit : kva_essay_unit, &p->view};

    kva_plants_arrange(p->plant, (size_t)s->keys, n, s->lines);
    kva_buf_add(&d->text, s->texts.instruction.data, s->texts.instruction.len);
    KVA_TRY(
        kva_draft_place(d, &units, n, p->plant, (size_t)s->keys, s->lines, false, err));
    kva_buf_putc(&d->text, '\n');
    return kva_buf_status(&d->text, err);
}

/* Keys and values; plant k is of key k. */
static bool draw_needles(struct plan *p, struct kva_rng *rng, struct kva_arena *arena)
{
    const struct state *s = p->s;

    for (int k = 0; k < s->keys; k++) {
        do {
            p->key[k] = kva_key_draw(&s->lexicon, rng, arena);
            if (!p->key[k])
                return false;
        } while (kva_text_listed(p->key, (size_t)k, p->key[k]));
        do {
            p->value[k] = kva_number_draw(s->digits, rng, arena);
            if (!p->value[k])
                return false;
        } while (kva_text_listed(p->value, (size_t)k, p->value[k]));
        if (!kva_needle_plant(&s->texts, p->key[k], p->value[k], arena, &p->plant[k]))
            return false;
    }
    return true;
}

static enum kva_status make_turn(const struct kva_task *task, const struct plan *p,
                                 int key, struct kva_arena *arena, struct kva_item *turn,
                                 struct kva_error *err)
{
    const struct state *s = p->s;
    const char **decoys = kva_arena_alloc(arena, (size_t)s->keys, sizeof *decoys);

    if (!decoys)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", turn->idx);
    for (int k = 0; k < s->keys; k++)
        if (k != key)
            decoys[turn->n_decoys++] = p->value[k];
    turn->decoys = decoys;
    turn->more_metrics = kva_task_word_match;
    return kva_mt_ask(
        task, turn,
        kva_template_fill(arena, s->texts.question.data, "{query}", p->key[key]),
        kva_template_fill(arena, s->texts.prefix.data, "{query}", p->key[key]),
        &p->value[key], 1, "", arena, err);
}

static enum kva_status draw(const struct kva_task *task, struct plan *p,
                            const struct kva_item *item, struct kva_item *turns,
                            struct kva_arena *arena, struct kva_error *err)
{
    const struct state *s = p->s;
    int context = kva_mt_context(&s->mt, item), own = kva_mt_turn(&s->mt, item);
    struct kva_rng rng = kva_task_stream(task, context, "");
    int order[KVA_KEYS_MAX], asked[KVA_KEYS_MAX];
    struct kva_plant drawn[KVA_KEYS_MAX];

    if (!s->lines)
        p->view = (struct kva_essay_view){&s->essay, kva_rng_below(&rng, s->essay.n)};
    if (!draw_needles(p, &rng, arena))
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    kva_order_draw(&rng, order, s->keys);
    kva_order_pick(&rng, asked, s->keys, s->mt.turns);
    p->plant[asked[own]].queried = true;
    memcpy(drawn, p->plant, sizeof drawn);
    for (int j = 0; j < s->keys; j++) {
        p->plant[j] = drawn[order[j]];
        p->plant[j].u = kva_place_draw(&rng, context, j, s->keys);
    }
    for (int t = 0; t < s->mt.turns; t++)
        KVA_TRY(make_turn(task, p, asked[t], arena, &turns[t], err));
    return KVA_OK;
}

static enum kva_status needles_item(const struct kva_task *task, int idx,
                                    const struct kva_tok_api *tok,
                                    struct kva_arena *arena, struct kva_item *item,
                                    struct kva_error *err)
{
    const struct state *s = task->state;
    struct plan *p = kva_arena_alloc(arena, 1, sizeof *p);
    struct kva_item *turns = kva_mt_turns(&s->mt, item, arena);
    const char *forbidden[2 * KVA_KEYS_MAX];
    struct kva_span_job job = {.forbidden = forbidden};
    struct kva_fit fit = {.build = build, .ctx = p, .n_max = (size_t)task->info.ctx};
    struct kva_draft d;
    enum kva_status rc;

    if (!p || !turns)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
    kva_draft_init(&d);
    p->s = s;
    KVA_GO(draw(task, p, item, turns, arena, err));
    job.plants = p->plant;
    job.n_plants = (size_t)s->keys;
    for (int k = 0; k < s->keys; k++) {
        forbidden[job.n_forbidden++] = p->key[k];
        forbidden[job.n_forbidden++] = p->value[k];
    }
    rc = kva_mt_finish(task, &s->mt, turns, &fit, &d, &job, tok, arena, item, err);
out:
    kva_draft_release(&d);
    return rc;
}

static int needles_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct state *s = task->state;
    int bad = kva_mt_describe(task, &s->mt, gen);

    bad |= json_object_set_new(source, "adjectives",
                               json_string(s->lexicon.adjectives.sha256));
    bad |= json_object_set_new(source, "nouns", json_string(s->lexicon.nouns.sha256));
    if (!s->lines)
        bad |= json_object_set_new(source, "essay", json_string(s->essay.sha256));
    return bad;
}

const struct kva_family kva_family_mt_needles = {needles_open, needles_close,
                                                 needles_item, needles_describe};
