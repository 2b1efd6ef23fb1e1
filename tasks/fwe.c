/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fwe.c - RULER's frequent words: which three coded words appear most often.
 *
 * Dialect kva1. From the item's stream come (L - 50) / 50 distinct coded words of six
 * letters and, behind them, the order of the text; the first word is replaced by "...".
 * In a text of size n the word of rank i (from 1) stands trunc(n i^-2 / zeta(2)) times;
 * ranks 2, 3 and 4 are asked for. n is at least 100, so that rank 4 is more frequent than
 * rank 5, and as large as fits: RULER moves in steps of L / 32 instead. */
#include "tasks/needles.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 6, ANSWERS = 3, WORDS_MIN = 4, NEW_TOKENS = 50, SIZE_MIN = 100 };
static const double ZETA_2 = 1.6449340668482264;

static const char instruction[] =
    "Read the following coded text and track the frequency of each coded word. Find the "
    "three most frequently appeared coded words. ";
static const char question[] =
    "Question: Do not provide any explanation. Please ignore the dots '....'. What are "
    "the three most frequently appeared words in the above coded text? ";
static const char prefix[] =
    "Answer: According to the coded text above, the three most frequently appeared words "
    "are:";

struct fwe {
    bool uninstructed;
    size_t n_words;
    char template_sha256[65];
};

struct plan {
    const struct fwe *s;
    const char **word; /* by rank */
    struct kva_rng order;
};

static size_t size_of(size_t n)
{
    return SIZE_MIN - 1 + n;
}

/* How often word `rank` (from 0) stands in a text of n units. */
static size_t repeats(const void *ctx, size_t n, size_t rank)
{
    const struct plan *p = ctx;
    double i = (double)(rank + 1);

    if (rank >= p->s->n_words)
        return 0;
    return (size_t)((double)size_of(n) * (1 / (i * i)) / ZETA_2);
}

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    const struct plan *p = ctx;
    size_t total = 0, k = 0;
    struct kva_rng order = p->order;
    enum kva_status rc = KVA_OK;
    uint32_t *list;

    for (size_t i = 0; i < p->s->n_words; i++)
        total += repeats(p, n, i);
    list = kva_calloc(total, sizeof *list);
    if (!list)
        return KVA_FAIL(err, KVA_ENOMEM, "list: out of memory");
    for (size_t i = 0; i < p->s->n_words; i++)
        for (size_t r = repeats(p, n, i); r > 0; r--)
            list[k++] = (uint32_t)i;
    kva_task_shuffle(&order, list, total);
    if (!p->s->uninstructed)
        kva_buf_puts(&d->text, instruction);
    d->hay.b0 = d->text.len;
    for (size_t i = 0; i < total; i++) {
        const char *text = p->word[list[i]];
        bool asked = list[i] >= 1 && list[i] <= ANSWERS;
        struct kva_entry e = {.number = list[i], .answer = asked ? (int)list[i] - 1 : -1};

        if (i > 0)
            kva_buf_putc(&d->text, ' ');
        e.at = e.word = kva_draft_add(d, text, strlen(text));
        KVA_GO(kva_draft_add_entry(d, &e, err));
    }
    d->hay.b1 = d->text.len;
    kva_buf_putc(&d->text, '\n');
    rc = kva_buf_status(&d->text, err);
out:
    free(list);
    return rc;
}

static enum kva_status no_memory(int idx, struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
}

static enum kva_status draw_words(struct plan *p, struct kva_arena *arena, int idx,
                                  struct kva_error *err)
{
    struct kva_text_set seen = {0};
    enum kva_status rc = KVA_OK;

    for (size_t i = 0; i < p->s->n_words; i++) {
        bool added = false;

        while (!added) {
            char word[LETTERS + 1] = {0};

            for (int k = 0; k < LETTERS; k++)
                word[k] = (char)('a' + kva_rng_below(&p->order, 26));
            p->word[i] = kva_arena_strdup(arena, word);
            if (!p->word[i]) {
                rc = no_memory(idx, err);
                goto out;
            }
            KVA_GO(kva_text_set_add(&seen, p->word[i], &added, err));
        }
    }
    p->word[0] = "...";
out:
    kva_text_set_release(&seen);
    return rc;
}

static enum kva_status draw(const struct kva_task *task, struct plan *p,
                            struct kva_arena *arena, struct kva_item *item,
                            struct kva_error *err)
{
    const struct fwe *s = task->state;

    p->s = s;
    p->order = kva_task_stream(task, item->idx, "");
    p->word = kva_arena_alloc(arena, s->n_words, sizeof *p->word);
    if (!p->word)
        return no_memory(item->idx, err);
    KVA_TRY(draw_words(p, arena, item->idx, err));
    item->answers = p->word + 1;
    item->n_answers = ANSWERS;
    item->more_metrics = kva_task_word_match;
    item->question = question;
    item->answer_prefix = prefix;
    if (s->uninstructed)
        item->question = kva_arena_printf(arena, "%s\n%s", instruction, question);
    if (!item->question)
        return no_memory(item->idx, err);
    KVA_TRY(kva_task_lay_out(task, arena, item, err));
    item->gold = kva_task_gold(arena, item->answer_prefix, item->answers, ANSWERS, ", ");
    return item->gold ? KVA_OK : no_memory(item->idx, err);
}

static enum kva_status fwe_item(const struct kva_task *task, int idx,
                                const struct kva_tok_api *tok, struct kva_arena *arena,
                                struct kva_item *item, struct kva_error *err)
{
    struct kva_span_job job = {0};
    struct kva_draft d;
    struct kva_fit fit;
    struct plan p;
    enum kva_status rc;

    (void)idx;
    kva_draft_init(&d);
    KVA_GO(draw(task, &p, arena, item, err));
    fit = (struct kva_fit){.task = task->label,
                           .question = item->question,
                           .answer_prefix = item->answer_prefix,
                           .feed = &item->feed,
                           .limit = task->info.ctx,
                           .max_new_tokens = item->max_new_tokens,
                           .n_max = 2 * (size_t)task->info.ctx,
                           .build = build,
                           .repeats = repeats,
                           .ctx = &p};
    KVA_GO(kva_fit_draft(&fit, tok, &d, err));
    rc = kva_task_finish(task, tok, &fit, &d, &job, arena, item, err);
out:
    kva_draft_release(&d);
    return rc;
}

/* ---- opening ---- */

static enum kva_status fwe_open(struct kva_task *task, const struct kva_task_request *req,
                                struct kva_error *err)
{
    static const char *const params[] = {"uninstructed", NULL};
    struct fwe *s = kva_calloc(1, sizeof *s);
    int room = (task->info.ctx - NEW_TOKENS) / NEW_TOKENS;
    struct kva_sha256 h;
    uint8_t digest[32];

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    for (int i = 0; i < req->n_params; i++) {
        if (strcmp(req->param[i].key, params[0]) != 0)
            return kva_task_bad_param(req, req->param[i].key, params, err);
        KVA_TRY(kva_task_flag(req, &req->param[i], &s->uninstructed, err));
    }
    KVA_TRY(kva_task_set_names(task, s->uninstructed ? "fwe:uninstructed=1" : "fwe",
                               "fwe", err));
    if (req->opts->haystack)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\" has no haystack to choose",
                        req->text);
    s->n_words = room > WORDS_MIN ? (size_t)room : WORDS_MIN;
    kva_sha256_init(&h);
    kva_sha256_add(&h, instruction, sizeof instruction);
    kva_sha256_add(&h, question, sizeof question);
    kva_sha256_add(&h, prefix, sizeof prefix);
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, s->template_sha256);
    kva_task_use_layout(task, "kva1");
    task->info.domain = "aggregation";
    /* three of the coded words named at random */
    task->info.guess_floor = (double)ANSWERS / (double)(s->n_words - 1);
    return KVA_OK;
}

static void fwe_close(void *state)
{
    free(state);
}

static int fwe_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct fwe *s = task->state;
    int bad = 0;

    (void)source;
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
    bad |= json_object_set_new(gen, "words", json_integer((json_int_t)s->n_words));
    return bad;
}

const struct kva_family kva_family_fwe = {fwe_open, fwe_close, fwe_item, fwe_describe};
