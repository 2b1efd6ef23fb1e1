/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cwe.c - RULER's common words: which ten words appear most often in a numbered list.
 *
 * Dialect kva1. Words are RULER's vocabulary: all nouns, adjectives and verbs. From the
 * item's stream come the ten common words and, behind them, the order of the list; from
 * "...|example" the words and the order of the worked example, from "...|hay" the words
 * that are not common, so that a list of n words holds the words of n - 1. No word of an
 * example is a common word of the list. Common words stand 30 times in the list and the
 * others 3 times, in the example 10 and 3 times among 40 words; below 4096 tokens 6 and
 * 1, 3 and 1 among 20. The example stands, answer included, in the compressible context,
 * joined by one line feed as RULER does since 2025. */
#include "tasks/internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMON = 10, SMALL = 4096 };

static const char instruction[] =
    "Below is a numbered list of words. In these words, some appear more often than "
    "others. Memorize the ones that appear most often.\n";
static const char question[] =
    "Question: What are the 10 most common words in the above list? ";
static const char prefix[] =
    "Answer: The top 10 words that appear most often in the list are:";

struct cwe {
    struct kva_words vocabulary;
    bool uninstructed;
    size_t often, seldom;                              /* in the list */
    size_t example_often, example_seldom, example_all; /* the last: its words */
    char template_sha256[65];
};

struct plan {
    const struct cwe *s;
    const char *example;
    const uint32_t
        *word; /* numbers in the vocabulary: ten common ones, then the others */
    struct kva_rng order;
};

static enum kva_status no_memory(int idx, struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
}

/* The list of the first n words of `word`, shuffled by `order`. */
static enum kva_status write_list(struct kva_draft *d, const struct kva_words *vocabulary,
                                  const uint32_t *word, size_t n, size_t often,
                                  size_t seldom, struct kva_rng order,
                                  struct kva_error *err)
{
    size_t total = COMMON * often + (n - COMMON) * seldom, k = 0;
    uint32_t *list = kva_calloc(total, sizeof *list);
    enum kva_status rc = KVA_OK;

    if (!list)
        return KVA_FAIL(err, KVA_ENOMEM, "list: out of memory");
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < (i < COMMON ? often : seldom); r++)
            list[k++] = (uint32_t)i;
    kva_task_shuffle(&order, list, total);
    d->hay.b0 = d->text.len;
    for (size_t i = 0; i < total; i++) {
        const char *text = vocabulary->word[word[list[i]]];
        struct kva_entry e = {.number = list[i],
                              .answer = list[i] < COMMON ? (int)list[i] : -1};

        if (i > 0)
            kva_buf_putc(&d->text, ' ');
        e.at.b0 = d->text.len;
        kva_buf_printf(&d->text, "%zu. ", i + 1);
        e.word = kva_draft_add(d, text, strlen(text));
        e.at.b1 = e.word.b1;
        KVA_GO(kva_draft_add_entry(d, &e, err));
    }
    d->hay.b1 = d->text.len;
    kva_buf_putc(&d->text, '\n');
out:
    free(list);
    return rc;
}

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    const struct plan *p = ctx;

    if (!p->s->uninstructed) {
        d->example = kva_draft_add(d, p->example, strlen(p->example));
        d->example.b1--; /* the line feed */
        kva_buf_puts(&d->text, instruction);
    }
    KVA_TRY(write_list(d, &p->s->vocabulary, p->word, COMMON + n, p->s->often,
                       p->s->seldom, p->order, err));
    return kva_buf_status(&d->text, err);
}

static size_t repeats(const void *ctx, size_t n, size_t number)
{
    const struct plan *p = ctx;

    if (number < COMMON)
        return p->s->often;
    return number < COMMON + n ? p->s->seldom : 0;
}

/* ---- an item ---- */

/* "1. a 2. b ..." of the first ten words. */
static const char *numbered(const struct kva_words *vocabulary, const uint32_t *word,
                            struct kva_arena *arena)
{
    const char *out = "";

    for (int i = 0; i < COMMON && out; i++)
        out = kva_arena_printf(arena, "%s%s%d. %s", out, i ? " " : "", i + 1,
                               vocabulary->word[word[i]]);
    return out;
}

static bool listed(const uint32_t *list, size_t n, uint32_t x)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return false;
}

/* n words more, none of them among the n_taken ones before `word[n_taken]`. */
static void draw_distinct(struct kva_rng *rng, size_t vocabulary, uint32_t *word,
                          size_t n_taken, size_t n)
{
    for (size_t i = n_taken; i < n_taken + n; i++)
        do {
            word[i] = (uint32_t)kva_rng_below(rng, vocabulary);
        } while (listed(word, i, word[i]));
}

static enum kva_status make_example(const struct kva_task *task, int idx,
                                    const uint32_t *common, struct kva_arena *arena,
                                    const char **out, struct kva_error *err)
{
    const struct cwe *s = task->state;
    struct kva_rng rng = kva_task_stream(task, idx, "|example");
    uint32_t *word = kva_arena_alloc(arena, COMMON + s->example_all, sizeof *word);
    const char *answer;
    struct kva_draft d;
    enum kva_status rc;

    if (!word)
        return no_memory(idx, err);
    kva_draft_init(&d);
    memcpy(word, common, COMMON * sizeof *word);
    draw_distinct(&rng, s->vocabulary.n, word, COMMON, s->example_all);
    answer = numbered(&s->vocabulary, word + COMMON, arena);
    kva_buf_puts(&d.text, instruction);
    KVA_GO(write_list(&d, &s->vocabulary, word + COMMON, s->example_all, s->example_often,
                      s->example_seldom, rng, err));
    kva_buf_printf(&d.text, "%s%s %s\n", question, prefix, answer ? answer : "");
    KVA_GO(kva_buf_status(&d.text, err));
    *out = kva_arena_strndup(arena, d.text.data, d.text.len);
    if (!*out || !answer)
        rc = no_memory(idx, err);
out:
    kva_draft_release(&d);
    return rc;
}

static enum kva_status draw(const struct kva_task *task, struct plan *p,
                            struct kva_arena *arena, struct kva_item *item,
                            struct kva_error *err)
{
    const struct cwe *s = task->state;
    size_t n = s->vocabulary.n, used = COMMON;
    struct kva_rng hay = kva_task_stream(task, item->idx, "|hay");
    uint32_t *word = kva_arena_alloc(arena, n, sizeof *word);
    const char **answers = kva_arena_alloc(arena, COMMON, sizeof *answers), *gold;

    if (!word || !answers)
        return no_memory(item->idx, err);
    p->s = s;
    p->order = kva_task_stream(task, item->idx, "");
    draw_distinct(&p->order, n, word, 0, COMMON);
    for (uint32_t i = 0; i < n; i++)
        if (!listed(word, COMMON, i))
            word[used++] = i;
    kva_task_shuffle(&hay, word + COMMON, n - COMMON);
    p->word = word;
    KVA_TRY(make_example(task, item->idx, word, arena, &p->example, err));
    for (int i = 0; i < COMMON; i++)
        answers[i] = s->vocabulary.word[word[i]];
    item->answers = answers;
    item->n_answers = COMMON;
    item->more_metrics = kva_task_word_match;
    item->question = question;
    item->answer_prefix = prefix;
    if (s->uninstructed)
        item->question =
            kva_arena_printf(arena, "%s%s%s", p->example, instruction, question);
    if (!item->question)
        return no_memory(item->idx, err);
    KVA_TRY(kva_task_lay_out(task, arena, item, err));
    gold = numbered(&s->vocabulary, word, arena);
    item->gold = gold ? kva_task_gold(arena, item->answer_prefix, &gold, 1, "") : NULL;
    return item->gold ? KVA_OK : no_memory(item->idx, err);
}

static enum kva_status cwe_item(const struct kva_task *task, int idx,
                                const struct kva_tok_api *tok, struct kva_arena *arena,
                                struct kva_item *item, struct kva_error *err)
{
    const struct cwe *s = task->state;
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
                           .n_max = s->vocabulary.n - COMMON,
                           .build = build,
                           .repeats = repeats,
                           .ctx = &p};
    KVA_GO(kva_fit_draft(&fit, tok, &d, err));
    /* ten words named at random */
    item->guess_floor = (double)COMMON / (double)(COMMON + fit.n_units);
    rc = kva_task_finish(task, tok, &fit, &d, &job, arena, item, err);
out:
    kva_draft_release(&d);
    return rc;
}

/* ---- opening ---- */

static enum kva_status cwe_open(struct kva_task *task, const struct kva_task_request *req,
                                struct kva_error *err)
{
    static const char *const params[] = {"uninstructed", NULL};
    const struct kva_task_opts *o = req->opts;
    struct cwe *s = kva_calloc(1, sizeof *s);
    bool small = task->info.ctx < SMALL;
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
    KVA_TRY(kva_task_set_names(task, s->uninstructed ? "cwe:uninstructed=1" : "cwe",
                               "cwe", err));
    if (o->haystack)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\" has no haystack to choose",
                        req->text);
    KVA_TRY(kva_vocabulary_open(&s->vocabulary, o->words, o->data_dir, err));
    if (s->vocabulary.n < 2 * COMMON + 40)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": %zu words are too few",
                        req->text, s->vocabulary.n);
    s->often = small ? 6 : 30;
    s->seldom = small ? 1 : 3;
    s->example_often = small ? 3 : 10;
    s->example_seldom = small ? 1 : 3;
    s->example_all = small ? 20 : 40;
    kva_sha256_init(&h);
    kva_sha256_add(&h, instruction, sizeof instruction);
    kva_sha256_add(&h, question, sizeof question);
    kva_sha256_add(&h, prefix, sizeof prefix);
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, s->template_sha256);
    kva_task_use_layout(task, "kva1");
    task->words = o->words ? o->words : "2.2.0";
    task->info.domain = "aggregation";
    return KVA_OK;
}

static void cwe_close(void *state)
{
    struct cwe *s = state;

    kva_words_release(&s->vocabulary);
    free(s);
}

static int cwe_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct cwe *s = task->state;
    int bad = 0;

    bad |= json_object_set_new(gen, "dialect", json_string(task->info.dialect));
    bad |= json_object_set_new(gen, "L", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "layout", json_string(task->layout));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "often", json_integer((json_int_t)s->often));
    bad |= json_object_set_new(gen, "seed", json_integer((json_int_t)task->seed));
    bad |= json_object_set_new(gen, "seldom", json_integer((json_int_t)s->seldom));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->template_sha256));
    if (s->uninstructed)
        bad |= json_object_set_new(gen, "uninstructed", json_true());
    bad |= json_object_set_new(gen, "words", json_string(task->words));
    bad |= json_object_set_new(source, "vocabulary", json_string(s->vocabulary.sha256));
    return bad;
}

const struct kva_family kva_family_cwe = {cwe_open, cwe_close, cwe_item, cwe_describe};
