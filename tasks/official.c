/* SPDX-License-Identifier: GPL-3.0-or-later */
/* official.c - search, retries and samples of RULER's official dialects.
 *
 * Upstream's length of a prompt is tok(input + answer prefix) + max_new, without template
 * or special tokens. r2025 bisects the number of units between inc and three times an
 * estimate; r2024 adds inc until the text (with a tail of answers) is too long, and steps
 * back. Samples that are too long lose inc units until they fit; where upstream would
 * then try for ever, the task does not fit.
 *
 * Under the task's lock samples are made in order, once, and the random state each was
 * made from is kept (5 KB): any item is then one call of the generator. */
#include "tasks/official.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- prompts ---- */

static void prompt_init(struct kva_official_prompt *p)
{
    *p = (struct kva_official_prompt){0};
    kva_draft_init(&p->draft);
    kva_arena_init(&p->arena);
    kva_buf_init(&p->scratch, 0);
}

static void prompt_release(struct kva_official_prompt *p)
{
    kva_draft_release(&p->draft);
    kva_arena_release(&p->arena);
    kva_buf_release(&p->scratch);
}

/* Keeps what memory it has. */
static void prompt_clear(struct kva_official_prompt *p)
{
    struct kva_official_prompt kept = {
        .draft = p->draft, .arena = p->arena, .scratch = p->scratch};

    *p = kept;
    kva_draft_clear(&p->draft);
    kva_arena_reset(&p->arena);
    p->scratch.len = 0;
    p->scratch.failed = p->draft.text.failed = false; /* memory may be there again */
}

enum kva_status kva_official_no_memory(const struct kva_official *o,
                                       struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", o->label);
}

enum kva_status kva_official_order(const struct kva_official *o, size_t n,
                                   struct kva_arena *arena, uint32_t **order,
                                   struct kva_error *err)
{
    struct kva_mt fresh;

    *order = kva_arena_alloc(arena, n + 1, sizeof **order);
    if (!*order)
        return kva_official_no_memory(o, err);
    for (size_t i = 0; i < n; i++)
        (*order)[i] = (uint32_t)i;
    kva_py_seed(&fresh, o->seed);
    kva_py_shuffle(&fresh, *order, n);
    return KVA_OK;
}

void kva_official_end_context(struct kva_official_prompt *p)
{
    p->n_context = p->draft.text.len;
}

void kva_official_end_question(struct kva_official_prompt *p)
{
    p->n_question = p->draft.text.len - p->n_context;
}

/* repr() of a string: quotes, backslashes and control characters escaped; characters
 * beyond ASCII as they are (all that data sets hold are printable). */
static void add_repr(struct kva_buf *b, const char *s)
{
    char quote = strchr(s, '\'') && !strchr(s, '"') ? '"' : '\'';

    kva_buf_putc(b, quote);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '\n' || c == '\r' || c == '\t')
            kva_buf_printf(b, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 0x20 || c == 0x7f)
            kva_buf_printf(b, "\\x%02x", c);
        else if (c == '\\' || c == (unsigned char)quote)
            kva_buf_printf(b, "\\%c", c);
        else
            kva_buf_putc(b, *s);
    }
    kva_buf_putc(b, quote);
}

enum kva_status kva_official_list_tail(struct kva_official_prompt *p,
                                       struct kva_error *err)
{
    p->scratch.len = 0;
    kva_buf_puts(&p->scratch, " [");
    for (int i = 0; i < p->n_answers; i++) {
        kva_buf_puts(&p->scratch, i ? ", " : "");
        add_repr(&p->scratch, p->answers[i]);
    }
    kva_buf_puts(&p->scratch, "]");
    KVA_TRY(kva_buf_status(&p->scratch, err));
    p->tail = p->scratch.data;
    return KVA_OK;
}

/* ---- counting ---- */

enum kva_status kva_official_count(struct kva_official_run *run, const char *text,
                                   size_t n, size_t *n_tokens, struct kva_error *err)
{
    static const struct kva_feed plain = {.raw = true, .no_bos = true, .suffix = ""};
    size_t n_question;

    KVA_TRY(run->tok->count(run->tok->ctx, &plain, text, n, "", "", n_tokens, &n_question,
                            err));
    *n_tokens += n_question;
    return KVA_OK;
}

enum kva_status kva_official_probe(struct kva_official_run *run,
                                   const struct kva_official_call *call, bool tail,
                                   size_t *n_tokens, struct kva_error *err)
{
    struct kva_official_prompt *p = &run->last;

    prompt_clear(p);
    KVA_TRY(run->o->kind->gen(run, call, &run->now, p, err));
    *n_tokens = 0;
    if (p->too_small || p->unlucky)
        return KVA_OK;
    if (tail && p->tail && run->o->r2024)
        kva_buf_puts(&p->draft.text, p->tail);
    KVA_TRY(kva_buf_status(&p->draft.text, err));
    return kva_official_count(run, p->draft.text.data + p->count_from,
                              p->draft.text.len - p->count_from, n_tokens, err);
}

enum kva_status kva_official_too_long(const struct kva_official_run *run, bool example,
                                      size_t need, struct kva_error *err)
{
    if (example)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task %s: its worked example does not fit in %d, what it has at "
                        "any length, with tokenizer %.16s (needs at least %zu)",
                        run->o->label, KVA_OFFICIAL_EXAMPLE, run->tok->id, need);
    return KVA_FAIL(
        err, KVA_EINVALID,
        "task %s does not fit in %d with tokenizer %.16s (needs at least %zu)",
        run->o->label, run->o->ctx, run->tok->id, need);
}

/* ---- search ---- */

/* A probe that chance spoiled is drawn again; upstream's search ends there. */
static enum kva_status probe(struct kva_official_run *run,
                             const struct kva_official_fit *fit, bool example,
                             size_t units, int64_t *total, size_t *n_tokens,
                             struct kva_error *err)
{
    struct kva_official_call call = {
        .units = units, .searching = true, .example = example};

    do
        KVA_TRY(kva_official_probe(run, &call, true, n_tokens, err));
    while (run->last.unlucky);
    if (run->last.too_small)
        return kva_official_too_long(run, example, run->first_total, err);
    *total = (int64_t)*n_tokens + fit->max_new + (int64_t)run->extra;
    if (run->first_total == 0)
        run->first_total = (size_t)*total;
    return KVA_OK;
}

/* Python's x // y of positive floats. */
static double floor_quotient(double x, double y)
{
    double q = floor((x - fmod(x, y)) / y), rest = (x - fmod(x, y)) / y - q;

    return rest > 0.5 ? q + 1 : q;
}

static enum kva_status bisect(struct kva_official_run *run,
                              const struct kva_official_fit *fit, bool example,
                              size_t *units, struct kva_error *err)
{
    size_t first = fit->cwe ? 4096 : fit->step, lo = fit->step, hi, n;
    double per, bound;
    int64_t total;

    run->first_total = 0;
    KVA_TRY(probe(run, fit, example, first, &total, &n, err));
    per = (double)n / (double)first;
    bound = fit->cwe ? floor_quotient((double)fit->limit, per) * 2
                     : (double)fit->limit / per * 3;
    hi = (size_t)bound;
    if (hi < 2 * fit->step)
        hi = 2 * fit->step;
    *units = fit->step;
    while (lo <= hi) {
        size_t mid = (lo + hi) / 2;

        if (fit->cap && mid > fit->cap) { /* nothing to draw from */
            hi = mid - 1;
            continue;
        }
        KVA_TRY(probe(run, fit, example, mid, &total, &n, err));
        if (total <= fit->limit) {
            *units = mid;
            lo = mid + 1;
        } else {
            hi = mid - 1;
        }
    }
    run->capped = fit->cap && *units == fit->cap;
    return KVA_OK;
}

static enum kva_status climb(struct kva_official_run *run,
                             const struct kva_official_fit *fit, bool example,
                             size_t *units, struct kva_error *err)
{
    int64_t total = fit->max_new + (int64_t)run->extra;
    size_t n;

    run->first_total = 0;
    *units = fit->step;
    while (total < fit->limit) {
        KVA_TRY(probe(run, fit, example, *units, &total, &n, err));
        if (total > fit->limit) {
            *units -= fit->step;
            break;
        }
        if (fit->cap && fit->cap_early && *units > fit->cap) {
            *units = fit->cap;
            run->capped = true;
            break;
        }
        *units += fit->step;
        if (fit->cap && !fit->cap_early && *units > fit->cap) {
            *units = fit->cap;
            run->capped = true;
            break;
        }
    }
    return KVA_OK;
}

enum kva_status kva_official_search(struct kva_official_run *run,
                                    const struct kva_official_fit *fit, bool example,
                                    size_t *units, struct kva_error *err)
{
    return run->o->r2024 ? climb(run, fit, example, units, err)
                         : bisect(run, fit, example, units, err);
}

enum kva_status kva_official_retry(struct kva_official_run *run,
                                   const struct kva_official_fit *fit, bool example,
                                   int idx, size_t units, struct kva_official_sample *out,
                                   struct kva_error *err)
{
    struct kva_official_call call = {.units = units, .idx = idx, .example = example};

    for (;;) {
        const struct kva_official_prompt *p = &run->last;
        size_t n;

        out->before = run->now;
        KVA_TRY(kva_official_probe(run, &call, false, &n, err));
        out->units = call.units;
        out->length = n + (size_t)fit->max_new + (p->count_from ? run->extra : 0);
        if (!p->too_small && !p->unlucky && (int64_t)out->length <= fit->limit)
            return KVA_OK;
        if (call.units > fit->step)
            call.units -= fit->step;
        else if (p->too_small)
            return kva_official_too_long(run, example, run->first_total, err);
        else if (!p->unlucky)
            return kva_official_too_long(run, example, out->length, err);
        if (fit->one_draw)
            run->now = out->before;
    }
}

/* ---- runs ---- */

static void run_free(struct kva_official_run *run)
{
    prompt_release(&run->last);
    kva_buf_release(&run->example);
    free(run->tok_id);
    free(run->sample);
    free(run);
}

static enum kva_status run_find(struct kva_official *o, const struct kva_tok_api *tok,
                                struct kva_official_run **out, struct kva_error *err)
{
    size_t n = strlen(tok->id) + 1;
    struct kva_official_run *run;

    for (run = o->runs; run; run = run->next)
        if (strcmp(run->tok_id, tok->id) == 0) {
            *out = run;
            return KVA_OK;
        }
    run = kva_calloc(1, sizeof *run);
    if (!run)
        return kva_official_no_memory(o, err);
    prompt_init(&run->last);
    kva_buf_init(&run->example, 0);
    run->tok_id = kva_calloc(n, 1);
    if (!run->tok_id) {
        run_free(run);
        return kva_official_no_memory(o, err);
    }
    memcpy(run->tok_id, tok->id, n);
    run->o = o;
    run->next = o->runs;
    o->runs = run;
    *out = run;
    return KVA_OK;
}

static enum kva_status add_sample(struct kva_official_run *run, struct kva_error *err)
{
    struct kva_official_state start = run->now;
    enum kva_status rc;

    if (run->n_samples == run->cap_samples) {
        size_t cap = 2 * run->cap_samples + 16;
        struct kva_official_sample *grown = kva_realloc(run->sample, cap, sizeof *grown);

        if (!grown)
            return kva_official_no_memory(run->o, err);
        run->sample = grown;
        run->cap_samples = cap;
    }
    rc = kva_official_retry(run, &run->o->fit, false, (int)run->n_samples, run->units,
                            &run->sample[run->n_samples], err);
    if (rc == KVA_OK)
        run->n_samples++;
    else
        run->now = start;
    return rc;
}

static enum kva_status search(struct kva_official_run *run, struct kva_error *err)
{
    struct kva_official *o = run->o;

    kva_py_seed(&run->now.py, o->seed);
    kva_np_seed(&run->now.np, (uint32_t)o->seed);
    run->now.n_shuffled = 0;
    run->capped = false;
    run->extra = 0;
    run->example.len = 0;
    run->example.failed = false;
    KVA_TRY(o->kind->search ? o->kind->search(run, err)
                            : kva_official_search(run, &o->fit, false, &run->units, err));
    run->searched = true;
    return KVA_OK;
}

/* Makes samples up to idx. A refusal is kept: the next item costs nothing. */
static enum kva_status advance(struct kva_official_run *run, int idx,
                               struct kva_error *err)
{
    struct kva_error why = {0};
    enum kva_status rc = KVA_OK;

    if (run->failed.code == KVA_OK) {
        if (!run->searched)
            rc = search(run, &why);
        while (rc == KVA_OK && run->n_samples <= (size_t)idx)
            rc = add_sample(run, &why);
        if (rc == KVA_OK)
            return KVA_OK;
        if (rc == KVA_EINVALID)
            run->failed = why;
    } else if (run->n_samples > (size_t)idx) {
        return KVA_OK;
    } else {
        why = run->failed;
    }
    return KVA_FAIL(err, why.code, "%s", why.text);
}

/* ---- the family ---- */

enum kva_status kva_official_name(struct kva_task *task, const char *param,
                                  struct kva_error *err)
{
    const char *name = task->desc->name;
    size_t n = strlen(name), m = param ? strlen(param) + 1 : 0;

    task->name = kva_calloc(n + m + 1, 1);
    task->stream_name = kva_calloc(n + 1, 1);
    if (!task->name || !task->stream_name)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", name);
    memcpy(task->name, name, n);
    memcpy(task->stream_name, name, n);
    if (param) {
        task->name[n] = ':';
        memcpy(task->name + n + 1, param, m - 1);
    }
    return KVA_OK;
}

static const struct kva_official_kind *kind_of(const char *name)
{
    if (strncmp(name, "niah_", 5) == 0)
        return &kva_official_niah;
    if (strcmp(name, "vt") == 0)
        return &kva_official_vt;
    if (strcmp(name, "cwe") == 0)
        return &kva_official_cwe;
    if (strcmp(name, "fwe") == 0)
        return &kva_official_fwe;
    if (strcmp(name, "qa_1") == 0 || strcmp(name, "qa_2") == 0)
        return &kva_official_qa;
    return NULL;
}

static enum kva_status official_open(struct kva_task *task,
                                     const struct kva_task_request *req,
                                     struct kva_error *err)
{
    struct kva_official *o = kva_calloc(1, sizeof *o);
    const char *dialect = req->opts->dialect;

    if (!o)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    pthread_mutex_init(&o->lock, NULL);
    task->state = o;
    o->kind = kind_of(req->desc->name);
    if (!o->kind)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": dialect %s has no task %s, kva1 has", req->text,
                        dialect, req->desc->name);
    if (task->seed > UINT32_MAX)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": seed %llu is above 2^32 - 1, the largest that "
                        "RULER's generators take",
                        req->text, (unsigned long long)task->seed);
    o->r2024 = strcmp(dialect, "r2024") == 0;
    o->seed = task->seed;
    o->label = req->desc->name;
    o->ctx = req->limit;
    o->fit = (struct kva_official_fit){
        .limit = req->limit, .max_new = task->info.max_new_tokens, .step = 10};
    kva_task_use_layout(task, o->r2024 ? "r2024" : "r2025");
    task->info.domain = o->kind->domain;
    return o->kind->open(task, o, req, err);
}

static void official_close(void *state)
{
    struct kva_official *o = state;

    for (struct kva_official_run *run = o->runs, *next; run; run = next) {
        next = run->next;
        run_free(run);
    }
    if (o->kind && o->data)
        o->kind->close(o->data);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* The item's copies of what the prompt's arena holds. */
static enum kva_status take_texts(const struct kva_task *task,
                                  const struct kva_official_prompt *p,
                                  struct kva_arena *arena, struct kva_item *item,
                                  struct kva_error *err)
{
    const struct kva_official *o = task->state;
    const char *text = p->draft.text.data;
    const char **answers = kva_arena_alloc(arena, (size_t)p->n_answers, sizeof *answers);
    const char **decoys = kva_arena_alloc(arena, (size_t)p->n_decoys, sizeof *decoys);
    bool bad = !answers || !decoys;

    for (int i = 0; i < p->n_answers && !bad; i++)
        bad = !(answers[i] = kva_arena_strdup(arena, p->answers[i]));
    for (int i = 0; i < p->n_decoys && !bad; i++)
        bad = !(decoys[i] = kva_arena_strdup(arena, p->decoys[i]));
    item->question = kva_arena_strndup(arena, text + p->n_context, p->n_question);
    item->answer_prefix = kva_arena_strdup(arena, text + p->n_context + p->n_question);
    if (bad || !item->question || !item->answer_prefix)
        return kva_official_no_memory(o, err);
    item->answers = answers;
    item->n_answers = p->n_answers;
    item->decoys = p->n_decoys ? decoys : NULL;
    item->n_decoys = p->n_decoys;
    item->guess_floor = p->guess_floor;
    item->no_haystack = p->no_haystack;
    KVA_TRY(kva_task_lay_out(task, arena, item, err));
    item->gold = kva_task_gold(arena, item->answer_prefix, &p->gold, 1, "");
    return item->gold ? KVA_OK : kva_official_no_memory(o, err);
}

static enum kva_status make_item(const struct kva_task *task,
                                 const struct kva_official_run *run,
                                 const struct kva_official_sample *sample,
                                 const struct kva_tok_api *tok, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    struct kva_official_call call = {
        .units = sample->units, .idx = item->idx, .full = true};
    struct kva_official_state state = sample->before;
    struct kva_official_prompt p;
    struct kva_draft *d = &p.draft;
    struct kva_fit fit = {0};
    struct kva_span_job job;
    size_t none;
    enum kva_status rc;

    prompt_init(&p);
    KVA_GO(run->o->kind->gen(run, &call, &state, &p, err));
    KVA_GO(kva_buf_status(&d->text, err));
    KVA_GO(take_texts(task, &p, arena, item, err));
    if (strcmp(item->metric, "match_all") == 0 || item->n_answers == 1)
        item->more_metrics = kva_task_word_match;
    d->text.len = p.n_context;
    d->text.data[d->text.len] = '\0';
    KVA_GO(tok->ranges(tok->ctx, &item->feed, d->text.data, d->text.len, &d->ranges,
                       &d->begin, &d->end, &d->n_tokens, err));
    fit.n_context = d->n_tokens;
    KVA_GO(tok->count(tok->ctx, &item->feed, "", 0, item->question, item->answer_prefix,
                      &none, &fit.n_question, err));
    job = (struct kva_span_job){.plants = p.plants,
                                .n_plants = p.n_plants,
                                .forbidden = p.forbidden,
                                .n_forbidden = p.n_forbidden,
                                .whole_units = p.whole_units,
                                .guard = KVA_SPAN_GUARD,
                                .tau = KVA_SPAN_TAU,
                                .n_distractors = KVA_SPAN_DISTRACTORS};
    KVA_GO(kva_task_finish(task, tok, &fit, d, &job, arena, item, err));
    /* upstream's length, without template; r2024's fwe may be above L */
    item->fill = (double)sample->length / (double)task->info.ctx;
    item->underfill = item->fill < 0.97 || run->capped;
out:
    prompt_release(&p);
    return rc;
}

static enum kva_status official_item(const struct kva_task *task, int idx,
                                     const struct kva_tok_api *tok,
                                     struct kva_arena *arena, struct kva_item *item,
                                     struct kva_error *err)
{
    struct kva_official *o = task->state;
    struct kva_official_run *run = NULL;
    struct kva_official_sample sample;
    enum kva_status rc;

    pthread_mutex_lock(&o->lock);
    rc = run_find(o, tok, &run, err);
    if (rc == KVA_OK) {
        run->tok = tok;
        rc = advance(run, idx, err);
    }
    if (rc == KVA_OK)
        sample = run->sample[idx];
    pthread_mutex_unlock(&o->lock);
    if (rc != KVA_OK)
        return rc;
    return make_item(task, run, &sample, tok, arena, item, err);
}

static int official_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct kva_official *o = task->state;
    int bad = 0;

    bad |= json_object_set_new(gen, "dialect", json_string(task->info.dialect));
    bad |= json_object_set_new(gen, "L", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "layout", json_string(task->layout));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "seed", json_integer((json_int_t)task->seed));
    if (task->haystack)
        bad |= json_object_set_new(gen, "haystack", json_string(task->haystack));
    if (task->splitter)
        bad |= json_object_set_new(gen, "splitter", json_string(task->splitter));
    if (task->words)
        bad |= json_object_set_new(gen, "words", json_string(task->words));
    return bad | o->kind->describe(task, o->data, gen, source);
}

const struct kva_family kva_family_official = {official_open, official_close,
                                               official_item, official_describe};
