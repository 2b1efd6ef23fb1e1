/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fit.c - the largest haystack that fits, and what follows from it.
 *
 *     largest n with tok(context(n)) + tok(question, suffix, prefix) + max_new <= L
 *
 * Every draw of the item is fixed before, so the answer depends on nothing but the
 * tokenizer. The search keeps a bracket (lo fits, hi does not) and guesses from the bytes
 * a token took so far: four or five counts instead of the dozen of plain bisection, which
 * takes over when guesses fail. */
#include "tasks/internal.h"

#include <stdlib.h>
#include <string.h>

/* English text under byte-pair vocabularies of 32k to 256k entries takes 4 to 5 bytes a
 * token. */
static const double BYTES_A_TOKEN = 4.4;
enum { GUESSES = 6 };

struct probe {
    size_t n, bytes, n_context, n_question;
    int64_t total; /* tokens with max_new */
};

static enum kva_status count(struct kva_fit *fit, const struct kva_tok_api *tok,
                             struct kva_draft *d, size_t n, struct probe *out,
                             struct kva_error *err)
{
    kva_draft_clear(d);
    KVA_TRY(fit->build(fit->ctx, n, d, err));
    KVA_TRY(tok->count(tok->ctx, fit->feed, d->text.data, d->text.len, fit->question,
                       fit->answer_prefix, &out->n_context, &out->n_question, err));
    fit->n_counts++;
    out->n = n;
    out->bytes = d->text.len;
    out->total = (int64_t)out->n_context + (int64_t)out->n_question + fit->max_new_tokens;
    return KVA_OK;
}

static size_t clamp(double x, size_t lo, size_t hi)
{
    if (!(x > (double)lo))
        return lo;
    return x < (double)hi ? (size_t)x : hi;
}

/* Units that would use up the limit, judged by the last probe and the draft it left. */
static double estimate(const struct kva_fit *fit, const struct probe *p,
                       const struct kva_draft *d)
{
    double bytes_a_token = (double)p->bytes / (double)(p->n_context ? p->n_context : 1);
    double spare = (double)(fit->limit - p->total) * bytes_a_token;
    double a_unit = (double)(d->hay.b1 - d->hay.b0) / (double)p->n;
    size_t n = p->n;

    if (spare >= 0)
        return (double)n + spare / a_unit;
    /* too long: the lengths of the units at the end are known */
    while (n > 1 && spare < 0) {
        const struct kva_slice *u = &d->unit[n - 1];

        spare += (double)(u->b1 - u->b0 + 1);
        n--;
    }
    return (double)n;
}

enum kva_status kva_fit_draft(struct kva_fit *fit, const struct kva_tok_api *tok,
                              struct kva_draft *d, struct kva_error *err)
{
    size_t lo = 0, hi = fit->n_max + 1, n;
    struct probe p = {0}, best = {0};
    double guess;

    fit->n_counts = 0;
    kva_draft_clear(d);
    KVA_TRY(fit->build(fit->ctx, 1, d, err));
    guess = ((double)(fit->limit - fit->max_new_tokens) * BYTES_A_TOKEN -
             (double)d->text.len) /
            (double)(d->unit[0].b1 - d->unit[0].b0 + 1);
    if (fit->n_max > 8 && guess > 8) { /* one sentence says little about the next ones */
        size_t some = clamp(guess / 2, 8, fit->n_max < 64 ? fit->n_max : 64);

        kva_draft_clear(d);
        KVA_TRY(fit->build(fit->ctx, some, d, err));
        guess = ((double)(fit->limit - fit->max_new_tokens) * BYTES_A_TOKEN -
                 (double)(d->text.len - (d->hay.b1 - d->hay.b0))) *
                (double)some / (double)(d->hay.b1 - d->hay.b0);
    }
    for (int step = 0; hi - lo > 1; step++) {
        if (step >= GUESSES)
            guess = (double)lo + (double)(hi - lo) / 2;
        n = clamp(guess, lo + 1, hi - 1);
        KVA_TRY(count(fit, tok, d, n, &p, err));
        guess = estimate(fit, &p, d);
        if (p.total <= fit->limit) {
            lo = n;
            best = p;
        } else {
            hi = n;
        }
    }
    if (lo == 0)
        return KVA_FAIL(
            err, KVA_EINVALID,
            "task %s does not fit in %d with tokenizer %s (needs at least %lld)",
            fit->task, fit->limit, tok->id, (long long)p.total);
    if (p.n != lo) { /* the draft holds the last probe */
        kva_draft_clear(d);
        KVA_TRY(fit->build(fit->ctx, lo, d, err));
    }
    fit->n_units = lo;
    fit->n_context = best.n_context;
    fit->n_question = best.n_question;
    return KVA_OK;
}

enum kva_status kva_task_finish(const struct kva_task *task,
                                const struct kva_tok_api *tok, struct kva_fit *fit,
                                struct kva_draft *d, struct kva_span_job *job,
                                struct kva_arena *arena, struct kva_item *item,
                                struct kva_error *err)
{
    struct kva_span *spans;
    int32_t *begin, *end;
    size_t n_tokens;
    char *text, *stream;
    int n_queried = 0;

    text = kva_arena_strndup(arena, d->text.data, d->text.len);
    stream = kva_arena_printf(arena, "kvaudit-D|%s|%s|%d|%llu|%d", task->info.dialect,
                              task->stream_name, task->info.ctx,
                              (unsigned long long)task->seed, item->idx);
    if (!text || !stream)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    item->context = text;
    item->context_len = d->text.len;
    item->n_context = fit->n_context;
    item->n_question = fit->n_question;
    item->fill =
        (double)(fit->n_context + fit->n_question + (size_t)item->max_new_tokens) /
        (double)task->info.ctx;
    item->underfill = item->fill < 0.97;
    KVA_TRY(tok->ranges(tok->ctx, &item->feed, item->context, item->context_len, arena,
                        &begin, &end, &n_tokens, err));
    job->draft = d;
    job->stream = stream;
    KVA_TRY(
        kva_spans_make(job, begin, end, n_tokens, arena, &spans, &item->n_spans, err));
    item->spans = spans;
    item->depth = -1;
    for (int i = 0; i < item->n_spans; i++) {
        if (spans[i].kind != 'E' || !spans[i].queried)
            continue;
        item->depth = n_queried++ ? -1 : spans[i].depth;
    }
    return KVA_OK;
}
