/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt_many_shot.c - mt/many_shot: words whose classes were assigned in the context.
 *
 *     Word: lantern. Class: amber.
 *
 * A many-shot classification in the manner of SCBench's Many-shot that no model can know
 * beforehand: `words` nouns are dealt out to `labels` adjectives, and the examples repeat
 * every word once a round, each round in a drawn order (all ours, PROJECT). A question
 * asks for the class of one word; its evidence is all the word's examples together
 * ("E0.0", "E0.1", ...), the payload the class in them. The answer stays when any of them
 * does: a set of copies, where the needle tasks have one.
 *
 * Draws, from the context's stream: the labels and the words (one seen before, or with a
 * hyphen or blank, which would hold another one, is drawn again), the dealing, the words
 * that are asked for. Round r is shuffled by the stream
 * "...|hay|<r>", so that longer contexts continue shorter ones. */
#include "tasks/mt.h"
#include "tasks/needles.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 256, LABELS_MAX = 32 };

static const char instruction[] =
    "Each word below belongs to one class. Learn the class of every word from the "
    "examples. I will quiz you about the classes afterwards.\n";
static const char question[] = "Word: %s. ";
static const char prefix[] = "Class:";
static const char entry[] = "Word: %s. Class: %s.";
static const char *const stops[] = {"\n"}; /* an example is one line */

struct state {
    struct kva_mt mt;
    int words, labels;
    struct kva_lexicon lexicon;
};

static enum kva_status many_open(struct kva_task *task,
                                 const struct kva_task_request *req,
                                 struct kva_error *err)
{
    static const char *const texts[] = {instruction, question, prefix, entry};
    struct state *s = kva_calloc(1, sizeof *s);

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    s->mt = (struct kva_mt){.param = {{"labels", &s->labels, 2, LABELS_MAX, 4},
                                      {"turns", &s->mt.turns, 1, KVA_TURNS_MAX, 5},
                                      {"words", &s->words, 2, WORDS_MAX, 16}},
                            .n_params = 3};
    KVA_TRY(kva_mt_open(task, req, &s->mt, err));
    if (s->words < s->labels || s->words < s->mt.turns)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": %d words are too few for %d labels and %d turns",
                        req->text, s->words, s->labels, s->mt.turns);
    kva_mt_hash(&s->mt, texts, 4);
    KVA_TRY(kva_lexicon_open(&s->lexicon, req->opts->words, req->opts->data_dir, err));
    task->words = s->lexicon.version;
    task->info.domain = "in-context learning";
    task->info.binary = true;
    task->info.guess_floor = 1.0 / s->labels;
    return KVA_OK;
}

static void many_close(void *state)
{
    struct state *s = state;

    kva_lexicon_release(&s->lexicon);
    free(s);
}

struct plan {
    const struct kva_task *task;
    const struct state *s;
    int context, asked;                              /* the word of this turn */
    const char *label[LABELS_MAX], *word[WORDS_MAX]; /* of the lexicon */
    int class_of[WORDS_MAX];
};

/* n different plain words of a list that are none of `taken`. */
static void draw_words(struct kva_rng *rng, const struct kva_words *from,
                       const char **word, int n, const char *const *taken, int n_taken)
{
    for (int i = 0; i < n; i++)
        do {
            word[i] = from->word[kva_rng_below(rng, from->n)];
        } while (strpbrk(word[i], "- ") || kva_text_listed(word, (size_t)i, word[i]) ||
                 kva_text_listed(taken, (size_t)n_taken, word[i]));
}

static enum kva_status draw(struct plan *p, const struct kva_item *item,
                            struct kva_item *turns, struct kva_arena *arena,
                            struct kva_error *err)
{
    const struct state *s = p->s;
    struct kva_rng rng = kva_task_stream(p->task, p->context, "");
    int order[WORDS_MAX];

    draw_words(&rng, &s->lexicon.adjectives, p->label, s->labels, NULL, 0);
    draw_words(&rng, &s->lexicon.nouns, p->word, s->words, p->label, s->labels);
    kva_order_draw(&rng, order, s->words);
    for (int i = 0; i < s->words; i++)
        p->class_of[order[i]] = i % s->labels;
    kva_order_pick(&rng, order, s->words, s->mt.turns);
    p->asked = order[kva_mt_turn(&s->mt, item)];
    for (int t = 0; t < s->mt.turns; t++) {
        const char **answer = kva_arena_alloc(arena, 1, sizeof *answer);
        const char **decoys = kva_arena_alloc(arena, (size_t)s->labels, sizeof *decoys);
        int right = p->class_of[order[t]];

        if (!answer || !decoys)
            return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
        *answer = p->label[right];
        for (int c = 0; c < s->labels; c++)
            if (c != right)
                decoys[turns[t].n_decoys++] = p->label[c];
        turns[t].decoys = decoys;
        turns[t].stops = stops;
        turns[t].n_stops = 1;
        KVA_TRY(kva_mt_ask(p->task, &turns[t],
                           kva_arena_printf(arena, question, p->word[order[t]]), prefix,
                           answer, 1, "", arena, err));
    }
    return KVA_OK;
}

/* All words once and n - 1 examples more. */
static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;
    size_t n_words = (size_t)p->s->words, n_entries = n_words + n - 1;
    int order[WORDS_MAX];

    kva_buf_puts(&d->text, instruction);
    d->hay.b0 = d->text.len;
    for (size_t i = 0, first = d->text.len; i < n_entries; i++) {
        size_t b0 = d->text.len;
        const char *label;
        int w;

        if (i % n_words == 0) {
            struct kva_rng rng;
            char suffix[32];

            snprintf(suffix, sizeof suffix, "|hay|%zu", i / n_words);
            rng = kva_task_stream(p->task, p->context, suffix);
            kva_order_draw(&rng, order, p->s->words);
        }
        w = order[i % n_words];
        label = p->label[p->class_of[w]];
        kva_buf_printf(&d->text, entry, p->word[w], label);
        d->hay.b1 = d->text.len;
        KVA_TRY(kva_draft_add_entry(
            d,
            &(struct kva_entry){
                .at = {b0, d->text.len},
                .word = {d->text.len - 1 - strlen(label), d->text.len - 1},
                .answer = w == p->asked ? 0 : -1},
            err));
        if (i + 1 >= n_words) {
            KVA_TRY(kva_draft_add_unit(d, (struct kva_slice){first, d->text.len}, err));
            first = d->text.len + 1;
        }
        kva_buf_putc(&d->text, '\n');
    }
    return kva_buf_status(&d->text, err);
}

static enum kva_status many_item(const struct kva_task *task, int idx,
                                 const struct kva_tok_api *tok, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    const struct state *s = task->state;
    struct plan p = {.task = task, .s = s, .context = kva_mt_context(&s->mt, item)};
    struct kva_item *turns = kva_mt_turns(&s->mt, item, arena);
    struct kva_fit fit = {.build = build, .ctx = &p, .n_max = (size_t)task->info.ctx};
    struct kva_span_job job = {0};
    struct kva_draft d;
    enum kva_status rc;

    if (!turns)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
    kva_draft_init(&d);
    KVA_GO(draw(&p, item, turns, arena, err));
    rc = kva_mt_finish(task, &s->mt, turns, &fit, &d, &job, tok, arena, item, err);
out:
    kva_draft_release(&d);
    return rc;
}

static int many_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct state *s = task->state;
    int bad = kva_mt_describe(task, &s->mt, gen);

    bad |= json_object_set_new(source, "adjectives",
                               json_string(s->lexicon.adjectives.sha256));
    bad |= json_object_set_new(source, "nouns", json_string(s->lexicon.nouns.sha256));
    return bad;
}

const struct kva_family kva_family_mt_many_shot = {many_open, many_close, many_item,
                                                   many_describe};
