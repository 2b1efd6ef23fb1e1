/* SPDX-License-Identifier: GPL-3.0-or-later */
/* grid.c - niah/grid: a needle at fixed depths, the heat map of depth and length
 * (tasks-ruler.md 13).
 *
 *     niah/grid:depths=10,needles=1,rounds=3,style=number@L
 *
 * depths: round(100 i / (depths - 1)) percent, so {0, 11, 22, ..., 100} for 10 and {0,
 * 25, 50, 75, 100} for 5. Sample idx belongs to round idx / depths; within a round the
 * depths follow each other in steps of about 0.618 of their number, so that any first
 * samples are spread over them. A round has its own key, value and start of the haystack,
 * the same at all its depths: what changes in a column of the map is the depth. Before
 * sentence trunc(n depth / 100) of n, so depth 0 comes first and 100 last.
 *
 * With m needles needle j stands at depth d + j (100 - d) / m
 * (LLMTest_NeedleInAHaystack), each with its own key and value; the question asks for the
 * first one.
 *
 * style: number    niah_single_2, its template, needle and metric
 *        sandwich  KVCache-Factory's needle and question; metric needle_words, the share
 *                  of the needle's 11 words that its plot shows. Not built: the ROUGE-1
 *                  score of its run, and any frame around haystack and question.
 *        city      MInference's needle and question; the number must stand in the output.
 *                  The cities are ours.
 * These two have line feeds at both ends of the needle and one needle only. We place at
 * borders of sentences; the originals cut at token ids of full stops. */
#include "tasks/needles.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum style { NUMBER, SANDWICH, CITY };
static const char *const style_names[] = {"number", "sandwich", "city", NULL};
static const char *const haystack_names[] = {"emerson", "embedded", "essays", NULL};
static const char *const cities[] = {
    "Lisbon",   "Nairobi",   "Kyoto",    "Lima",      "Oslo",   "Hanoi",   "Quito",
    "Tunis",    "Riga",      "Montreal", "Adelaide",  "Geneva", "Bogota",  "Dakar",
    "Helsinki", "Jakarta",   "Krakow",   "Marseille", "Naples", "Porto",   "Santiago",
    "Seoul",    "Tallinn",   "Utrecht",  "Valencia",  "Warsaw", "Yerevan", "Zagreb",
    "Auckland", "Baltimore", "Cusco",    "Dresden"};
enum { N_CITIES = sizeof cities / sizeof cities[0] };
static const char *const sandwich_answer[] = {
    "eat a sandwich and sit in Dolores Park on a sunny day."};
enum { DEPTHS_MAX = 101, ROUNDS_MAX = 10000, NEEDLES_MAX = 8 };

struct grid {
    int depths, rounds, needles, step; /* step: through the depths of a round */
    enum style style;
    const char *haystack;
    struct kva_needle_texts texts;
    struct kva_lexicon lexicon;
    struct kva_essay essay;
};

/* ---- opening ---- */

static int find_word(const char *const *list, const char *word)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return -1;
}

static enum kva_status set_haystack(struct grid *s, const struct kva_task_request *req,
                                    const char *name, struct kva_error *err)
{
    int at = find_word(haystack_names, name);

    if (at < 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": unknown haystack \"%s\" (emerson, embedded or "
                        "essays)",
                        req->text, name);
    s->haystack = haystack_names[at];
    return KVA_OK;
}

static enum kva_status read_param(struct grid *s, const struct kva_task_request *req,
                                  const struct kva_task_param *p, struct kva_error *err)
{
    static const char *const known[] = {"depths", "haystack", "needles",
                                        "rounds", "style",    NULL};
    int64_t x = 0;
    bool whole = kva_parse_i64(p->value, &x);
    int at;

    if (strcmp(p->key, "haystack") == 0)
        return set_haystack(s, req, p->value, err);
    if (strcmp(p->key, "style") == 0) {
        at = find_word(style_names, p->value);
        if (at < 0)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task \"%s\": style is number, sandwich or city, not %s",
                            req->text, p->value);
        s->style = (enum style)at;
        return KVA_OK;
    }
    if (strcmp(p->key, "depths") == 0) {
        if (!whole || x < 2 || x > DEPTHS_MAX)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task \"%s\": depths is a whole number from 2 to %d",
                            req->text, DEPTHS_MAX);
        s->depths = (int)x;
        return KVA_OK;
    }
    if (strcmp(p->key, "rounds") == 0) {
        if (!whole || x < 1 || x > ROUNDS_MAX)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task \"%s\": rounds is a whole number from 1 to %d",
                            req->text, ROUNDS_MAX);
        s->rounds = (int)x;
        return KVA_OK;
    }
    if (strcmp(p->key, "needles") != 0)
        return kva_task_bad_param(req, p->key, known, err);
    if (!whole || (x != 1 && x != 4 && x != 8))
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": needles is 1, 4 or 8",
                        req->text);
    s->needles = (int)x;
    return KVA_OK;
}

static enum kva_status make_texts(struct grid *s, struct kva_error *err)
{
    switch (s->style) {
    case SANDWICH:
        return kva_needle_texts_set(
            &s->texts, "", "The best thing to do in San Francisco is: ", "",
            "\nThe best thing to do in San Francisco is {value}\n", err);
    case CITY:
        return kva_needle_texts_set(
            &s->texts, "", "What is the special magic {query} number?", "",
            "\nThe special magic {key} number is: {value}\n", err);
    default:
        return kva_needle_texts_make(&s->texts, false, true, false, err);
    }
}

static enum kva_status make_names(struct kva_task *task, const struct grid *s,
                                  struct kva_error *err)
{
    struct kva_buf b;
    char gap = ':';
    enum kva_status rc;

    kva_buf_init(&b, 0);
    kva_buf_puts(&b, "grid");
#define ADD(differs, ...)                                                                \
    if (differs) {                                                                       \
        kva_buf_putc(&b, gap);                                                           \
        kva_buf_printf(&b, __VA_ARGS__);                                                 \
        gap = ',';                                                                       \
    }
    ADD(s->depths != 10, "depths=%d", s->depths)
    ADD(s->haystack != haystack_names[0], "haystack=%s", s->haystack)
    ADD(s->needles != 1, "needles=%d", s->needles)
    ADD(s->rounds != 3, "rounds=%d", s->rounds)
    ADD(s->style != NUMBER, "style=%s", style_names[s->style])
#undef ADD
    KVA_GO(kva_buf_status(&b, err));
    /* a round is the same whatever grid it belongs to */
    rc = kva_task_set_names(task, b.data, "niah_grid", err);
out:
    kva_buf_release(&b);
    return rc;
}

static int gcd(int a, int b)
{
    return b ? gcd(b, a % b) : a;
}

static enum kva_status grid_open(struct kva_task *task,
                                 const struct kva_task_request *req,
                                 struct kva_error *err)
{
    const struct kva_task_opts *o = req->opts;
    struct grid *s = kva_calloc(1, sizeof *s);

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s; /* closed with the task, also on failure */
    s->depths = 10;
    s->rounds = 3;
    s->needles = 1;
    s->haystack = haystack_names[0];
    if (o->haystack)
        KVA_TRY(set_haystack(s, req, o->haystack, err));
    for (int i = 0; i < req->n_params; i++)
        KVA_TRY(read_param(s, req, &req->param[i], err));
    if (s->style != NUMBER && s->needles != 1)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": style %s has one needle",
                        req->text, style_names[s->style]);
    s->step = (618 * s->depths + 500) / 1000;
    while (gcd(s->step, s->depths) != 1)
        s->step++;
    KVA_TRY(make_texts(s, err));
    KVA_TRY(make_names(task, s, err));
    KVA_TRY(kva_lexicon_open(&s->lexicon, o->words, o->data_dir, err));
    KVA_TRY(kva_essay_open(&s->essay, s->haystack, o, err));
    kva_task_use_layout(task, "kva1");
    task->haystack = s->haystack;
    task->splitter = "simple-v1";
    task->words = s->lexicon.version;
    task->info.domain = "retrieval";
    task->info.has_depth = true;
    task->info.binary = s->style != SANDWICH;
    task->info.guess_floor = s->needles > 1 ? 1.0 / s->needles : 0;
    task->info.n_available = (int64_t)s->depths * s->rounds;
    if (s->style == SANDWICH)
        task->info.metric = "needle_words";
    return KVA_OK;
}

static void grid_close(void *state)
{
    struct grid *s = state;

    kva_needle_texts_release(&s->texts);
    kva_essay_release(&s->essay);
    kva_lexicon_release(&s->lexicon);
    free(s);
}

/* ---- an item ---- */

struct plan {
    const struct grid *s;
    struct kva_essay_view view;
    int depth; /* percent */
    const char *key[NEEDLES_MAX], *value[NEEDLES_MAX];
    struct kva_plant plant[NEEDLES_MAX];
};

static int depth_of(const struct grid *s, int idx)
{
    int at = idx % s->depths * s->step % s->depths, last = s->depths - 1;

    return (200 * at + last) / (2 * last);
}

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;
    const struct grid *s = p->s;
    struct kva_units units = {kva_essay_unit, &p->view};
    size_t m = (size_t)s->needles, depth = (size_t)p->depth;

    for (size_t j = 0; j < m; j++)
        p->plant[j].place = n * (depth * m + j * (100 - depth)) / (100 * m);
    kva_buf_add(&d->text, s->texts.instruction.data, s->texts.instruction.len);
    KVA_TRY(kva_draft_place(d, &units, n, p->plant, m, false, false, err));
    if (s->style != NUMBER) { /* the line feeds around it are no evidence */
        d->planted[0].b0++;
        d->planted[0].b1--;
    }
    kva_buf_putc(&d->text, '\n');
    return kva_buf_status(&d->text, err);
}

static bool draw_needle(struct plan *p, size_t j, struct kva_rng *rng,
                        struct kva_arena *arena)
{
    const struct grid *s = p->s;

    if (s->style == SANDWICH) {
        p->key[j] = "";
        p->value[j] = sandwich_answer[0];
    } else {
        do {
            p->key[j] = s->style == CITY ? cities[kva_rng_below(rng, N_CITIES)]
                                         : kva_key_draw(&s->lexicon, rng, arena);
            if (!p->key[j])
                return false;
        } while (kva_text_listed(p->key, j, p->key[j]));
        do {
            p->value[j] = kva_number_draw(7, rng, arena);
            if (!p->value[j])
                return false;
        } while (kva_text_listed(p->value, j, p->value[j]));
    }
    return kva_needle_plant(&s->texts, p->key[j], p->value[j], arena, &p->plant[j]);
}

static enum kva_status draw(const struct kva_task *task, struct plan *p,
                            struct kva_arena *arena, struct kva_item *item,
                            struct kva_error *err)
{
    const struct grid *s = p->s;
    int round = item->idx / s->depths;
    struct kva_rng rng = kva_task_stream(task, round, "");
    const char **answer = kva_arena_alloc(arena, 1, sizeof *answer);
    const char **decoys = kva_arena_alloc(arena, NEEDLES_MAX, sizeof *decoys);

    p->depth = depth_of(s, item->idx);
    p->view = (struct kva_essay_view){&s->essay, kva_rng_below(&rng, s->essay.n)};
    for (int j = 0; j < s->needles; j++)
        if (!draw_needle(p, (size_t)j, &rng, arena))
            return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    p->plant[0].queried = true;
    if (s->style != NUMBER) { /* relative to the evidence without its line feed */
        struct kva_slice *part[] = {&p->plant[0].value, &p->plant[0].key};

        for (int i = 0; i < 2 && part[i]->b1 > 0; i++) {
            part[i]->b0--;
            part[i]->b1--;
        }
    }
    item->question =
        kva_template_fill(arena, s->texts.question.data, "{query}", p->key[0]);
    item->answer_prefix =
        kva_template_fill(arena, s->texts.prefix.data, "{query}", p->key[0]);
    if (s->style != SANDWICH)
        item->more_metrics = kva_task_word_match;
    item->labels =
        kva_arena_printf(arena, "{\"grid_depth\":%d,\"grid_round\":%d}", p->depth, round);
    if (!answer || !decoys || !item->question || !item->answer_prefix || !item->labels)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    KVA_TRY(kva_task_lay_out(task, arena, item, err));
    *answer = p->value[0];
    item->answers = answer;
    item->n_answers = 1;
    for (int j = 1; j < s->needles; j++)
        decoys[item->n_decoys++] = p->value[j];
    item->decoys = decoys;
    item->gold = kva_task_gold(arena, item->answer_prefix, answer, 1, "");
    return item->gold ? KVA_OK
                      : KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
}

static enum kva_status grid_item(const struct kva_task *task, int idx,
                                 const struct kva_tok_api *tok, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    const struct grid *s = task->state;
    struct plan *p = kva_arena_alloc(arena, 1, sizeof *p);
    const char *forbidden[2 * NEEDLES_MAX];
    struct kva_span_job job = {.forbidden = forbidden,
                               .guard = KVA_SPAN_GUARD,
                               .tau = KVA_SPAN_TAU,
                               .n_distractors = KVA_SPAN_DISTRACTORS};
    struct kva_fit fit = {.task = task->label,
                          .feed = &item->feed,
                          .limit = task->info.ctx,
                          .max_new_tokens = item->max_new_tokens,
                          .build = build,
                          .ctx = p};
    struct kva_draft d;
    enum kva_status rc;

    if (!p)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
    kva_draft_init(&d);
    p->s = s;
    KVA_GO(draw(task, p, arena, item, err));
    fit.question = item->question;
    fit.answer_prefix = item->answer_prefix;
    fit.n_max = (size_t)task->info.ctx; /* the essay goes round and round */
    KVA_GO(kva_fit_draft(&fit, tok, &d, err));
    job.plants = p->plant;
    job.n_plants = (size_t)s->needles;
    for (int j = 0; j < s->needles; j++) {
        forbidden[job.n_forbidden++] = p->value[j];
        if (p->key[j][0])
            forbidden[job.n_forbidden++] = p->key[j];
    }
    KVA_GO(kva_task_finish(task, tok, &fit, &d, &job, arena, item, err));
    item->depth = p->depth / 100.0; /* the row of the map, not the measured place */
out:
    kva_draft_release(&d);
    return rc;
}

static int grid_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct grid *s = task->state;
    int bad = 0;

    bad |= json_object_set_new(gen, "dialect", json_string(task->info.dialect));
    bad |= json_object_set_new(gen, "L", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "depths", json_integer(s->depths));
    bad |= json_object_set_new(gen, "haystack", json_string(s->haystack));
    bad |= json_object_set_new(gen, "layout", json_string(task->layout));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "needles", json_integer(s->needles));
    bad |= json_object_set_new(gen, "seed", json_integer((json_int_t)task->seed));
    bad |= json_object_set_new(gen, "splitter", json_string(task->splitter));
    bad |= json_object_set_new(gen, "style", json_string(style_names[s->style]));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->texts.sha256));
    bad |= json_object_set_new(gen, "words", json_string(task->words));
    bad |= json_object_set_new(source, "adjectives",
                               json_string(s->lexicon.adjectives.sha256));
    bad |= json_object_set_new(source, "nouns", json_string(s->lexicon.nouns.sha256));
    bad |= json_object_set_new(source, "essay", json_string(s->essay.sha256));
    return bad;
}

const struct kva_family kva_family_grid = {grid_open, grid_close, grid_item,
                                           grid_describe};
