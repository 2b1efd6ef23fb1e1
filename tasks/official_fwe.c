/* SPDX-License-Identifier: GPL-3.0-or-later */
/* official_fwe.c - frequent coded words of RULER's official dialects.
 *
 * One call draws V words of six letters, sorted, then shuffled with a fresh generator of
 * the seed; the first becomes "...". Word of rank i stands trunc(n i^-2 / zeta(2)) times;
 * the list is shuffled with a fresh generator. Units are n.
 *     M = L - max_new (r2024: L), V = M / 50, inc = M / 32
 * The search grows n from M / 6 while the text has less than M tokens, with the words of
 * one draw; samples step back from there. */
#include "tasks/official.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 6, ANSWERS = 3, RANKS_MIN = ANSWERS + 1, WORDS_PER_RANK = 50 };
static const double zeta2 = 1.6449340668482264;

static const char head[] =
    "Read the following coded text and track the frequency of each coded word. Find the "
    "three most frequently appeared coded words. ";
static const char question[] =
    "Question: Do not provide any explanation. Please ignore the dots '....'. What are "
    "the "
    "three most frequently appeared words in the above coded text? ";
static const char prefix[] = "Answer: According to the coded text above, the three most "
                             "frequently appeared words are:";

/* Tokens of the text that upstream aims at. */
static size_t target(const struct kva_official *o)
{
    int64_t m = o->fit.limit - o->fit.max_new;

    return m > 0 ? (size_t)m : 0;
}

static enum kva_status fwe_open(struct kva_task *task, struct kva_official *o,
                                const struct kva_task_request *req, struct kva_error *err)
{
    static const char *const params[] = {NULL};

    if (req->n_params > 0)
        return kva_task_bad_param(req, req->param[0].key, params, err);
    if (req->opts->haystack)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": RULER's fwe has no haystack",
                        req->text);
    if (o->r2024) /* may pass L by max_new */
        o->fit.limit += o->fit.max_new;
    o->fit.step = target(o) / 32;
    o->fit.one_draw = true;
    if (target(o) / WORDS_PER_RANK > 1)
        task->info.guess_floor =
            (double)ANSWERS / (double)(target(o) / WORDS_PER_RANK - 1);
    return kva_official_name(task, NULL, err);
}

static int ascending(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* A word as a number to base 26, so that numbers sort as words do. */
static uint32_t draw_word(struct kva_mt *m)
{
    char letters[LETTERS];
    uint32_t code = 0;

    kva_py_choices(m, 'a', 26, LETTERS, letters);
    for (int i = 0; i < LETTERS; i++)
        code = code * 26 + (uint32_t)(letters[i] - 'a');
    return code;
}

static const char *spell(struct kva_arena *arena, uint32_t code)
{
    char *word = kva_arena_alloc(arena, LETTERS + 1, 1);

    for (int i = LETTERS - 1; word && i >= 0; i--, code /= 26)
        word[i] = (char)('a' + code % 26);
    return word;
}

/* v distinct words, ascending; as many draws more as there were repetitions. */
static void draw_words(struct kva_mt *m, uint32_t *code, size_t v)
{
    size_t n = 0;

    for (size_t i = 0; i < v; i++)
        code[i] = draw_word(m);
    while (n < v) {
        size_t drawn = n ? n + 1 : v;

        if (n)
            code[n] = draw_word(m);
        qsort(code, drawn, sizeof *code, ascending);
        n = 1;
        for (size_t i = 1; i < drawn; i++)
            if (code[i] != code[n - 1])
                code[n++] = code[i];
    }
}

static size_t repeats(size_t n, size_t rank)
{
    return (size_t)((double)n * pow((double)rank, -2.0) / zeta2);
}

static enum kva_status write_words(const struct kva_official *o,
                                   const struct kva_official_call *how,
                                   const uint32_t *code, const uint32_t *shuffled,
                                   size_t v, struct kva_official_prompt *p,
                                   struct kva_error *err)
{
    struct kva_draft *d = &p->draft;
    const char **word = kva_arena_alloc(&p->arena, v, sizeof *word);
    uint32_t *order, *rank;
    size_t total = 0, used = 0;

    for (size_t i = 0; i < v; i++)
        total += repeats(how->units, i + 1);
    rank = kva_arena_alloc(&p->arena, total + 1, sizeof *rank);
    if (!word || !rank)
        return kva_official_no_memory(o, err);
    for (size_t i = 0; i < v; i++) {
        size_t n = repeats(how->units, i + 1);

        if (n > 0 || i < RANKS_MIN)
            word[i] = i ? spell(&p->arena, code[shuffled[i]]) : "...";
        if ((n > 0 || i < RANKS_MIN) && !word[i])
            return kva_official_no_memory(o, err);
        while (n-- > 0)
            rank[used++] = (uint32_t)i;
    }
    KVA_TRY(kva_official_order(o, total, &p->arena, &order, err));
    d->hay.b0 = d->text.len;
    for (size_t i = 0; i < total; i++) {
        uint32_t r = rank[order[i]];
        struct kva_entry entry = {.answer = r >= 1 && r <= ANSWERS ? (int)r - 1 : -1,
                                  .number = r};

        if (i)
            kva_buf_putc(&d->text, ' ');
        entry.at = entry.word = kva_draft_add(d, word[r], r ? LETTERS : strlen(word[0]));
        if (how->full)
            KVA_TRY(kva_draft_add_entry(d, &entry, err));
    }
    d->hay.b1 = d->text.len;
    p->answers = word + 1;
    p->n_answers = ANSWERS;
    p->guess_floor = (double)ANSWERS / (double)(v - 1); /* coded words named at random */
    p->gold = kva_arena_printf(&p->arena, "%s, %s, %s", word[1], word[2], word[3]);
    return p->gold ? KVA_OK : kva_official_no_memory(o, err);
}

/* As many of the fifth word as of an answer: no right answer. */
static bool undecided(size_t n, size_t v)
{
    return repeats(n, RANKS_MIN) <= (v > RANKS_MIN ? repeats(n, 5) : 0);
}

static enum kva_status fwe_gen(const struct kva_official_run *run,
                               const struct kva_official_call *how,
                               struct kva_official_state *state,
                               struct kva_official_prompt *p, struct kva_error *err)
{
    const struct kva_official *o = run->o;
    size_t v = target(o) / WORDS_PER_RANK;
    uint32_t *code, *shuffled;

    if (v < RANKS_MIN || (!how->searching && undecided(how->units, v))) {
        p->too_small = true;
        return KVA_OK;
    }
    code = kva_arena_alloc(&p->arena, v + 1, sizeof *code);
    if (!code)
        return kva_official_no_memory(o, err);
    draw_words(&state->py, code, v);
    KVA_TRY(kva_official_order(o, v, &p->arena, &shuffled, err));
    kva_buf_puts(&p->draft.text, head);
    KVA_TRY(write_words(o, how, code, shuffled, v, p, err));
    kva_buf_putc(&p->draft.text, '\n');
    kva_official_end_context(p);
    kva_buf_puts(&p->draft.text, question);
    kva_official_end_question(p);
    kva_buf_puts(&p->draft.text, prefix);
    return KVA_OK;
}

/* What the list needs from which on all have a right answer: for refusals. */
static enum kva_status find_need(struct kva_official_run *run,
                                 const struct kva_official_state *start,
                                 struct kva_error *err)
{
    struct kva_official_state searched = run->now;
    struct kva_official_call call = {.units = 80, .searching = true};
    size_t n;

    /* from 73.1 = zeta(2) / (1/16 - 1/25) on none is undecided, below it some are */
    while (!undecided(call.units - 1, target(run->o) / WORDS_PER_RANK))
        call.units--;
    run->now = *start;
    KVA_TRY(kva_official_probe(run, &call, false, &n, err));
    run->now = searched;
    run->first_total = n + (run->o->r2024 ? 0 : (size_t)run->o->fit.max_new);
    return KVA_OK;
}

static enum kva_status fwe_search(struct kva_official_run *run, struct kva_error *err)
{
    struct kva_official_state start = run->now;
    size_t m = target(run->o), n;
    struct kva_official_call call = {.units = m / 6, .searching = true};

    run->first_total =
        RANKS_MIN * WORDS_PER_RANK + (run->o->r2024 ? 0 : (size_t)run->o->fit.max_new);
    if (m < RANKS_MIN * WORDS_PER_RANK)
        return kva_official_too_long(run, false, run->first_total, err);
    for (;; call.units += run->o->fit.step) {
        run->now = start;
        KVA_TRY(kva_official_probe(run, &call, false, &n, err));
        if (n >= m)
            break;
    }
    run->units = call.units - run->o->fit.step;
    return find_need(run, &start, err);
}

static int fwe_describe(const struct kva_task *task, const void *data, void *gen,
                        void *source)
{
    struct kva_sha256 h;
    uint8_t digest[32];
    char hex[65];

    (void)task;
    (void)data;
    (void)source;
    kva_sha256_init(&h);
    kva_sha256_add(&h, head, sizeof head);
    kva_sha256_add(&h, question, sizeof question);
    kva_sha256_add(&h, prefix, sizeof prefix);
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, hex);
    return json_object_set_new(gen, "template_sha256", json_string(hex));
}

const struct kva_official_kind kva_official_fwe = {.domain = "aggregation",
                                                   .open = fwe_open,
                                                   .gen = fwe_gen,
                                                   .search = fwe_search,
                                                   .describe = fwe_describe};
