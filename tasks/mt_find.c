/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt_find.c - mt/find: facts about a whole list of numbers, as SCBench's Math.Find
 * (tasks-ruler.md 10.1, 10.2). There is no evidence to keep: every entry counts.
 *
 *     [n0, n1, ..., n2k]      0..9999, an odd count, so that the median is one of them
 *
 * Number i is below(10000) at draw i of the stream "...|hay": longer lists continue
 * shorter ones. Then numbers are drawn again, from the context's stream, until every
 * question has one answer: each later copy of the largest and of the smallest number
 * until it lies between the two; and if several numbers are the most frequent, places
 * until one holds a number that is neither extreme nor the first of these, which it then
 * becomes. A list too short for that (below seven) is never built. */
#include "tasks/mt.h"
#include "tasks/needles.h"

#include <stdlib.h>
#include <string.h>

enum { RANGE = 10000, FIRST = 7, KINDS = 6 };

static const char *const fact[KINDS] = {"largest number",        "smallest number",
                                        "second largest number", "second smallest number",
                                        "median number",         "most frequent number"};
static const char question[] =
    "You should answer with only one number, no other words. The %s of the list is: ";

struct state {
    struct kva_mt mt;
};

static enum kva_status find_open(struct kva_task *task,
                                 const struct kva_task_request *req,
                                 struct kva_error *err)
{
    const char *texts[KINDS + 1] = {question};
    struct state *s = kva_calloc(1, sizeof *s);

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    s->mt = (struct kva_mt){.param = {{"turns", &s->mt.turns, 1, KINDS, KINDS}},
                            .n_params = 1};
    KVA_TRY(kva_mt_open(task, req, &s->mt, err));
    memcpy(texts + 1, fact, sizeof fact);
    kva_mt_hash(&s->mt, texts, KINDS + 1);
    task->info.domain = "aggregation";
    task->info.binary = true;
    return KVA_OK;
}

struct plan {
    struct kva_rng rng, hay; /* of the context, at their start */
    int *number;             /* the list last built */
    size_t n, cap;
    int answer[KINDS];
};

/* Numbers between the extremes only, each of which stands once. */
static void settle_extremes(struct plan *p, struct kva_rng *rng, int *lo, int *hi)
{
    bool seen_lo = false, seen_hi = false;

    *lo = RANGE;
    *hi = -1;
    for (size_t i = 0; i < p->n; i++) {
        *lo = p->number[i] < *lo ? p->number[i] : *lo;
        *hi = p->number[i] > *hi ? p->number[i] : *hi;
    }
    if (*hi - *lo < 2) { /* next to impossible: all numbers alike */
        p->number[0] = *lo = 0;
        p->number[1] = *hi = RANGE - 1;
    }
    for (size_t i = 0; i < p->n; i++) {
        bool again = (p->number[i] == *lo && seen_lo) || (p->number[i] == *hi && seen_hi);

        seen_lo = seen_lo || p->number[i] == *lo;
        seen_hi = seen_hi || p->number[i] == *hi;
        while (again) {
            p->number[i] = (int)kva_rng_below(rng, RANGE);
            again = p->number[i] <= *lo || p->number[i] >= *hi;
        }
    }
}

/* The most frequent number, made so where several are. count: of each number. */
static int settle_mode(struct plan *p, struct kva_rng *rng, int lo, int hi, int *count)
{
    int most = 0, ties = 0, mode = -1;

    for (int v = 0; v < RANGE; v++)
        most = count[v] > most ? count[v] : most;
    for (int v = 0; v < RANGE; v++)
        ties += count[v] == most;
    for (size_t i = 0; mode < 0; i++)
        if (count[p->number[i]] == most && p->number[i] != lo && p->number[i] != hi)
            mode = p->number[i];
    while (ties > 1) {
        size_t i = (size_t)kva_rng_below(rng, p->n);
        int old = p->number[i];

        if (old == lo || old == hi || old == mode)
            continue;
        p->number[i] = mode;
        count[old]--;
        count[mode]++;
        ties = 1;
    }
    return mode;
}

static int nth(const int *count, size_t n)
{
    int v = 0;

    for (; n >= (size_t)count[v]; v++)
        n -= (size_t)count[v];
    return v;
}

static void make_list(struct plan *p, size_t n)
{
    struct kva_rng rng = p->rng;
    int count[RANGE] = {0}, lo, hi;

    p->n = n;
    for (size_t i = 0; i < n; i++) {
        struct kva_rng at = {p->hay.x + i * 0x9e3779b97f4a7c15ULL};

        p->number[i] = (int)kva_rng_below(&at, RANGE);
    }
    settle_extremes(p, &rng, &lo, &hi);
    for (size_t i = 0; i < n; i++)
        count[p->number[i]]++;
    p->answer[5] = settle_mode(p, &rng, lo, hi, count);
    p->answer[0] = hi;
    p->answer[1] = lo;
    p->answer[2] = nth(count, n - 2);
    p->answer[3] = nth(count, 1);
    p->answer[4] = nth(count, n / 2);
}

/* A unit is two numbers; the first one holds seven. */
static size_t numbers_of(size_t n_units)
{
    return FIRST + 2 * (n_units - 1);
}

static enum kva_status build(void *ctx, size_t n_units, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;
    size_t n = numbers_of(n_units);

    if (n > p->cap) {
        int *grown = kva_realloc(p->number, n + n / 4, sizeof *grown);

        if (!grown)
            return KVA_FAIL(err, KVA_ENOMEM, "a list of %zu numbers: out of memory", n);
        p->number = grown;
        p->cap = n + n / 4;
    }
    make_list(p, n);
    kva_buf_putc(&d->text, '[');
    d->hay.b0 = d->text.len;
    for (size_t i = 0, b0 = d->text.len; i < n; i++) {
        kva_buf_printf(&d->text, "%s%d", i ? ", " : "", p->number[i]);
        if (i + 1 < FIRST || i % 2)
            continue;
        KVA_TRY(kva_draft_add_unit(d, (struct kva_slice){b0, d->text.len}, err));
        b0 = d->text.len + 2;
    }
    d->hay.b1 = d->text.len;
    kva_buf_putc(&d->text, ']');
    return kva_buf_status(&d->text, err);
}

static enum kva_status find_item(const struct kva_task *task, int idx,
                                 const struct kva_tok_api *tok, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    const struct state *s = task->state;
    int context = kva_mt_context(&s->mt, item), own = kva_mt_turn(&s->mt, item);
    struct plan p = {.rng = kva_task_stream(task, context, ""),
                     .hay = kva_task_stream(task, context, "|hay")};
    struct kva_item *turns = kva_mt_turns(&s->mt, item, arena);
    struct kva_fit fit = {.build = build, .ctx = &p, .n_max = (size_t)task->info.ctx};
    struct kva_span_job job = {0};
    const char **answer = kva_arena_alloc(arena, 1, sizeof *answer);
    struct kva_draft d;
    enum kva_status rc = KVA_OK;

    if (!turns || !answer)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
    kva_draft_init(&d);
    *answer = ""; /* known when the list is */
    for (int t = 0; t < s->mt.turns; t++)
        KVA_GO(kva_mt_ask(task, &turns[t], kva_arena_printf(arena, question, fact[t]), "",
                          answer, 1, "", arena, err));
    KVA_GO(kva_mt_finish(task, &s->mt, turns, &fit, &d, &job, tok, arena, item, err));
    make_list(&p, numbers_of(fit.n_units)); /* the last one built may be longer */
    *answer = kva_arena_printf(arena, "%d", p.answer[own]);
    item->gold =
        *answer ? kva_task_gold(arena, item->answer_prefix, answer, 1, "") : NULL;
    if (!item->gold)
        rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
out:
    kva_draft_release(&d);
    free(p.number);
    return rc;
}

static int find_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct state *s = task->state;

    (void)source;
    return kva_mt_describe(task, &s->mt, gen);
}

const struct kva_family kva_family_mt_find = {find_open, free, find_item, find_describe};
