/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fit.c - the largest haystack that fits, and what follows from it.
 *
 *     largest n with tok(context(n)) + tok(question, suffix, prefix) + max_new <= L
 *
 * Every draw of the item is fixed before, so the answer depends on nothing but the
 * tokenizer. Tokenizing is what costs: a small draft tells how many tokens a byte is, a
 * second one, meant to be a little too long, tells the tokens of every unit, so that the
 * third is the right one. Its token ranges serve the spans. That n + 1 does not fit is
 * known from the units' tokens when it is clear by more than MARGIN tokens (tokens at the
 * borders may change as needles move), else it is tried. Where guesses fail, bisection
 * takes over. */
#include "tasks/internal.h"

#include <stdlib.h>
#include <string.h>

/* English text under byte-pair vocabularies of 32k to 256k entries takes 4 to 5 bytes a
 * token; used for the small draft only. */
static const double BYTES_A_TOKEN = 4.4;
/* The small draft has this share of the bytes, or this many units. */
enum { SAMPLE_SHARE = 8, SAMPLE_UNITS = 4 };
/* How much longer than needed the second draft is meant to be. */
static const double OVERSHOOT = 1.05;
enum { MARGIN = 1, GUESSES = 8 };

struct search {
    struct kva_fit *fit;
    const struct kva_tok_api *tok;
    struct kva_draft *d;
    struct kva_draft kept; /* of n_kept units, which fitted when another n was tried; 0:
                            * none */
    size_t n_kept;
    size_t lo, hi;    /* lo fits, hi does not */
    size_t n;         /* of the last probe, which the draft still holds */
    int64_t total;    /* its tokens with question and max_new */
    int64_t lo_total; /* of lo */
    /* tokens of each unit or word, from the draft of n_known units; none yet: 0 */
    double *cost;
    size_t n_costs, n_known;
};

static size_t clamp(double x, size_t lo, size_t hi)
{
    if (!(x > (double)lo))
        return lo;
    return x < (double)hi ? (size_t)x : hi;
}

static void swap_kept(struct search *s, size_t n)
{
    struct kva_draft d = *s->d;

    *s->d = s->kept;
    s->kept = d;
    s->n_kept = n;
}

static enum kva_status build(struct search *s, size_t n, struct kva_error *err)
{
    if (s->n == s->lo && s->d->begin)
        swap_kept(s, s->lo);
    kva_draft_clear(s->d);
    return s->fit->build(s->fit->ctx, n, s->d, err);
}

static enum kva_status tokenize(struct search *s, size_t n, struct kva_error *err)
{
    struct kva_fit *fit = s->fit;
    struct kva_draft *d = s->d;

    KVA_TRY(s->tok->ranges(s->tok->ctx, fit->feed, d->text.data, d->text.len, &d->ranges,
                           &d->begin, &d->end, &d->n_tokens, err));
    fit->n_counts++;
    fit->n_bytes += d->text.len;
    s->n = n;
    s->total = (int64_t)(d->n_tokens + fit->n_question) + fit->max_new_tokens;
    if (s->total <= fit->limit) {
        s->lo = n;
        s->lo_total = s->total;
    } else {
        s->hi = n;
    }
    return KVA_OK;
}

/* ---- what units cost ---- */

/* Tokens that begin before byte x. */
static size_t tokens_before(const struct kva_draft *d, size_t x)
{
    size_t lo = 0, hi = d->n_tokens;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if ((int64_t)d->begin[mid] < (int64_t)x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Tokens of a piece with the gap in front of it. */
static double tokens_of(const struct kva_draft *d, struct kva_slice at)
{
    return (double)(tokens_before(d, at.b1) - tokens_before(d, at.b0 - (at.b0 > 0)));
}

/* Reads the costs off the draft of the last probe. */
static enum kva_status learn(struct search *s, struct kva_error *err)
{
    const struct kva_draft *d = s->d;
    const struct kva_slice *unit = d->n_steps ? d->step : d->unit;
    size_t n = d->n_steps ? d->n_steps : d->n_units, *seen = NULL;

    free(s->cost);
    s->cost = NULL;
    s->n_costs = s->n_known = 0;
    if (s->fit->repeats)
        for (size_t i = n = 0; i < d->n_entries; i++)
            n = d->entry[i].number >= n ? d->entry[i].number + 1 : n;
    else if (n != s->n)
        return KVA_OK;
    s->cost = kva_calloc(n + 1, sizeof *s->cost);
    seen = kva_calloc(n + 1, sizeof *seen);
    if (!s->cost || !seen) {
        free(seen);
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", s->fit->task);
    }
    s->n_costs = n;
    s->n_known = s->n;
    for (size_t i = 0; s->fit->repeats && i < d->n_entries; i++) {
        s->cost[d->entry[i].number] += tokens_of(d, d->entry[i].at);
        seen[d->entry[i].number]++;
    }
    for (size_t i = 0; i < n; i++)
        if (!s->fit->repeats)
            s->cost[i] = tokens_of(d, unit[i]);
        else if (seen[i] > 0)
            s->cost[i] /= (double)seen[i];
    free(seen);
    return KVA_OK;
}

/* Tokens that n units have more than m <= n do; n <= n_known. */
static double difference(const struct search *s, size_t n, size_t m)
{
    double sum = 0;

    if (!s->fit->repeats) {
        for (size_t i = m; i < n; i++)
            sum += s->cost[i];
        return sum;
    }
    for (size_t i = 0; i < s->n_costs; i++)
        sum += s->cost[i] * (double)(s->fit->repeats(s->fit->ctx, n, i) -
                                     s->fit->repeats(s->fit->ctx, m, i));
    return sum;
}

/* Largest n of lo..hi - 1 that should fit, judged by the last probe, which was too long.
 */
static size_t predict(const struct search *s)
{
    size_t lo = s->lo, hi = s->n;

    if (s->fit->repeats) {
        while (hi - lo > 1) {
            size_t mid = lo + (hi - lo) / 2;

            if ((double)s->total - difference(s, s->n, mid) <= s->fit->limit)
                lo = mid;
            else
                hi = mid;
        }
        return lo;
    }
    for (double total = (double)s->total; hi > lo && total > s->fit->limit;)
        total -= s->cost[--hi];
    return hi;
}

/* The same where lo was shorter than predicted: at least lo + 1, at most n_known. */
static size_t advance(const struct search *s)
{
    double total = (double)s->lo_total + difference(s, s->lo + 1, s->lo);
    size_t n = s->lo + 1;

    while (n < s->n_known && total <= s->fit->limit) {
        total += difference(s, n + 1, n);
        n += total <= s->fit->limit;
    }
    return n;
}

/* ---- the search ---- */

/* n units for `factor` times the room there is, judged by the tokens a byte of the last
 * draft took. Leaves a draft of n units. */
static enum kva_status extrapolate(struct search *s, double factor, size_t *n,
                                   struct kva_error *err)
{
    const struct kva_draft *d = s->d;
    size_t first = tokens_before(d, d->hay.b0), last = tokens_before(d, d->hay.b1);
    double hay = (double)(last > first ? last - first : 1);
    double room = factor * (hay + (double)(s->fit->limit - s->total));
    double bytes = room / hay * (double)(d->hay.b1 - d->hay.b0);

    *n = s->n;
    for (int i = 0; i < 2; i++) { /* units differ in length: look at those there are */
        double have = (double)(d->hay.b1 - d->hay.b0);

        *n = clamp((double)*n * bytes / (have > 0 ? have : 1) + 1, s->lo + 1, s->hi - 1);
        KVA_TRY(build(s, *n, err));
    }
    return KVA_OK;
}

/* Tokens are counted once for one unit: how long the question is, and whether anything
 * fits. */
static enum kva_status try_one(struct search *s, struct kva_error *err)
{
    struct kva_fit *fit = s->fit;
    const struct kva_draft *d = s->d;

    KVA_TRY(build(s, 1, err));
    KVA_TRY(s->tok->count(s->tok->ctx, fit->feed, d->text.data, d->text.len,
                          fit->question, fit->answer_prefix, &fit->n_context,
                          &fit->n_question, err));
    fit->n_counts++;
    fit->n_bytes += d->text.len;
    s->n = s->lo = 1;
    s->lo_total = s->total =
        (int64_t)(fit->n_context + fit->n_question) + fit->max_new_tokens;
    if (s->total <= fit->limit)
        return KVA_OK;
    return KVA_FAIL(
        err, KVA_EINVALID,
        "task %s does not fit in %d with tokenizer %.16s (needs at least %lld)",
        fit->task, fit->limit, s->tok->id, (long long)s->total);
}

static enum kva_status sample(struct search *s, struct kva_error *err)
{
    const struct kva_draft *d = s->d;
    double fixed = (double)(d->text.len - (d->hay.b1 - d->hay.b0));
    double unit = (double)(d->hay.b1 - d->hay.b0 + 1);
    double room =
        (double)(s->fit->limit - s->fit->max_new_tokens) * BYTES_A_TOKEN - fixed;
    double units = room / SAMPLE_SHARE / unit;
    size_t n = clamp(units > SAMPLE_UNITS ? units : SAMPLE_UNITS, 1, s->fit->n_max);

    KVA_TRY(build(s, n, err));
    return tokenize(s, n, err);
}

/* Is it known that lo + 1 units are too many? */
static bool is_settled(const struct search *s)
{
    if (s->hi - s->lo <= 1)
        return true;
    return s->lo + 1 <= s->n_known &&
           (double)s->lo_total + difference(s, s->lo + 1, s->lo) >
               (double)s->fit->limit + MARGIN;
}

static enum kva_status search(struct search *s, struct kva_error *err)
{
    KVA_TRY(try_one(s, err));
    if (s->fit->n_max > 1)
        KVA_TRY(sample(s, err));
    for (int step = 0; !is_settled(s); step++) {
        bool too_long = s->n == s->hi;
        size_t n;

        if (too_long && s->n > s->n_known)
            KVA_TRY(learn(s, err));
        if (step >= GUESSES) {
            n = s->lo + (s->hi - s->lo) / 2;
            KVA_TRY(build(s, n, err));
        } else if (too_long && s->n <= s->n_known) {
            n = clamp((double)predict(s), s->lo + 1, s->hi - 1);
            KVA_TRY(build(s, n, err));
        } else if (!too_long && s->lo < s->n_known) {
            n = clamp((double)advance(s), s->lo + 1, s->hi - 1);
            KVA_TRY(build(s, n, err));
        } else {
            KVA_TRY(extrapolate(s, too_long ? 1 : OVERSHOOT, &n, err));
        }
        KVA_TRY(tokenize(s, n, err));
    }
    if (s->n == s->lo && s->d->begin)
        return KVA_OK;
    if (s->n_kept == s->lo) {
        swap_kept(s, 0);
        return KVA_OK;
    }
    KVA_TRY(build(s, s->lo, err));
    return tokenize(s, s->lo, err);
}

enum kva_status kva_fit_draft(struct kva_fit *fit, const struct kva_tok_api *tok,
                              struct kva_draft *d, struct kva_error *err)
{
    struct search s = {.fit = fit, .tok = tok, .d = d, .hi = fit->n_max + 1, .lo = 0};
    enum kva_status rc;

    fit->n_counts = 0;
    fit->n_bytes = 0;
    kva_draft_init(&s.kept);
    KVA_GO(search(&s, err));
    fit->n_units = s.lo;
    fit->n_context = d->n_tokens;
out:
    kva_draft_release(&s.kept);
    free(s.cost);
    return rc;
}

enum kva_status kva_task_finish(const struct kva_task *task,
                                const struct kva_tok_api *tok, struct kva_fit *fit,
                                struct kva_draft *d, struct kva_span_job *job,
                                struct kva_arena *arena, struct kva_item *item,
                                struct kva_error *err)
{
    struct kva_span *spans;
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
    if (!d->begin)
        KVA_TRY(tok->ranges(tok->ctx, &item->feed, item->context, item->context_len,
                            &d->ranges, &d->begin, &d->end, &d->n_tokens, err));
    job->draft = d;
    job->stream = stream;
    KVA_TRY(kva_spans_make(job, d->begin, d->end, d->n_tokens, arena, &spans,
                           &item->n_spans, err));
    item->spans = spans;
    item->depth = -1;
    for (int i = 0; i < item->n_spans; i++) {
        if (spans[i].kind != 'E' || !spans[i].queried)
            continue;
        item->depth = n_queried++ ? -1 : spans[i].depth;
    }
    return KVA_OK;
}
