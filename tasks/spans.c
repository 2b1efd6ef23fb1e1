/* SPDX-License-Identifier: GPL-3.0-or-later */
/* spans.c - where the evidence (E) stands, and distractors (D) of like length and place.
 *
 * Tokens of a span: all whose byte range meets it. Bucket: min(9, floor(10 (t0+t1) / (2
 * T))). D of an E with n tokens, first list that is not empty: 1 runs of whole haystack
 * units, |len - n| <= tau, same bucket 2 windows from word border to word border, the
 * same 3 such windows in the neighbouring buckets too      4 anywhere in the haystack A
 * candidate keeps `guard` tokens away from every E, shares no token with another D and
 * holds no key, value, answer, 7-digit number or uuid. In a needle haystack a D is whole
 * lines, which are needles themselves. Among those nearest in length, by
 * start, the stream
 * "<stream>|<E id>|<k>" picks one. With nothing left the guard is halved, down to 2:
 * scores with pooling leak importance to the neighbours of E, so it starts at 32. */
#include "tasks/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    size_t b0, b1;
    int t0, t1;
    bool opens, closes;            /* first, last word of a haystack unit */
    bool token_starts, token_ends; /* no token reaches over this border */
};
struct window {
    size_t b0, b1;
    int t0, t1, bucket, diff;
    bool run;
};
struct work {
    const struct kva_span_job *job;
    const int32_t *begin, *end;
    size_t n_tokens;
    struct word *word;
    size_t n_words;
    struct kva_slice *bad; /* occurrences of what a D must not hold, ascending by start */
    size_t n_bad, cap_bad;
    struct window *window; /* candidates of one E */
    size_t n_windows, cap_windows;
    struct kva_span *span;
    int n_spans, n_evidence; /* E spans come first */
};

static enum kva_status grow(void **list, size_t *cap, size_t need, size_t size,
                            struct kva_error *err)
{
    void *grown;

    if (need <= *cap)
        return KVA_OK;
    need = 2 * need + 16;
    grown = kva_realloc(*list, need, size);
    if (!grown)
        return KVA_FAIL(err, KVA_ENOMEM, "spans: out of memory");
    *list = grown;
    *cap = need;
    return KVA_OK;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* First token whose `edge` is above x; edges do not fall. */
static int first_above(const int32_t *edge, size_t n, size_t x)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if ((int64_t)edge[mid] > (int64_t)x)
            hi = mid;
        else
            lo = mid + 1;
    }
    return (int)lo;
}

static int bucket_of(int t0, int t1, size_t n_tokens)
{
    int64_t b = n_tokens ? (int64_t)10 * ((int64_t)t0 + t1) / (2 * (int64_t)n_tokens) : 0;

    return b > 9 ? 9 : (int)b;
}

void kva_span_locate(struct kva_span *span, const int32_t *begin, const int32_t *end,
                     size_t n_tokens)
{
    span->t0 = first_above(end, n_tokens, span->b0);
    span->t1 = span->b1 > 0 ? first_above(begin, n_tokens, span->b1 - 1) : span->t0;
    if (span->t1 < span->t0)
        span->t1 = span->t0;
    span->depth = n_tokens ? (double)span->t0 / (double)n_tokens : 0;
    span->bucket = bucket_of(span->t0, span->t1, n_tokens);
}

size_t kva_span_kept(const struct kva_span *span, const int32_t *kept, size_t n)
{
    size_t in = 0;

    for (size_t i = 0; i < n; i++)
        in += kept[i] >= span->t0 && kept[i] < span->t1;
    return in;
}

/* ---- candidates ---- */

static enum kva_status find_words(struct work *w, struct kva_error *err)
{
    const struct kva_draft *d = w->job->draft;
    const char *text = d->text.data;
    size_t cap = 0, unit = 0;

    for (size_t b = d->hay.b0, e; b < d->hay.b1; b = e) {
        struct kva_span at = {0};
        struct word *x;

        for (e = b; e < d->hay.b1 && is_space(text[e]); e++)
            ;
        b = e;
        for (; e < d->hay.b1 && !is_space(text[e]); e++)
            ;
        if (e == b)
            break;
        KVA_TRY(grow((void **)&w->word, &cap, w->n_words + 1, sizeof *w->word, err));
        at.b0 = b;
        at.b1 = e;
        kva_span_locate(&at, w->begin, w->end, w->n_tokens);
        x = &w->word[w->n_words++];
        *x = (struct word){.b0 = b, .b1 = e, .t0 = at.t0, .t1 = at.t1};
        while (unit < d->n_units && d->unit[unit].b1 <= b)
            unit++;
        x->opens = unit < d->n_units && d->unit[unit].b0 == b;
        x->closes = unit < d->n_units && d->unit[unit].b1 == e;
    }
    for (size_t i = 0; i < w->n_words; i++) {
        struct word *x = &w->word[i];

        x->token_starts = i == 0 || x[-1].t1 <= x->t0;
        x->token_ends = i + 1 == w->n_words || x->t1 <= x[1].t0;
    }
    return KVA_OK;
}

static enum kva_status add_bad(struct work *w, size_t b0, size_t b1,
                               struct kva_error *err)
{
    KVA_TRY(grow((void **)&w->bad, &w->cap_bad, w->n_bad + 1, sizeof *w->bad, err));
    w->bad[w->n_bad++] = (struct kva_slice){b0, b1};
    return KVA_OK;
}

static bool same_letters(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i]))
            return false;
    return true;
}

static bool is_uuid(const char *s, size_t n)
{
    if (n < 36)
        return false;
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
            return false;
    }
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* One pass over the haystack, so that `bad` is ascending by start. */
static enum kva_status find_bad(struct work *w, struct kva_error *err)
{
    const struct kva_span_job *job = w->job;
    const char *text = job->draft->text.data;
    size_t stop = job->draft->hay.b1;
    bool starts[256] = {false};

    for (size_t f = 0; f < job->n_forbidden; f++) {
        unsigned char c = (unsigned char)job->forbidden[f][0];

        starts[tolower(c)] = starts[toupper(c)] = true;
    }
    for (size_t b = job->draft->hay.b0; b < stop; b++) {
        bool digit = is_digit(text[b]), after = b > 0 && is_digit(text[b - 1]);

        if (digit && !after && !job->whole_units) {
            size_t e = b;

            while (e < stop && is_digit(text[e]))
                e++;
            if (e - b == 7)
                KVA_TRY(add_bad(w, b, e, err));
        }
        if (!job->whole_units && isxdigit((unsigned char)text[b]) &&
            is_uuid(text + b, stop - b))
            KVA_TRY(add_bad(w, b, b + 36, err));
        if (!starts[(unsigned char)text[b]])
            continue;
        for (size_t f = 0; f < job->n_forbidden; f++) {
            size_t n = strlen(job->forbidden[f]);

            if (n > 0 && n <= stop - b && same_letters(text + b, job->forbidden[f], n))
                KVA_TRY(add_bad(w, b, b + n, err));
        }
    }
    return KVA_OK;
}

static bool holds_bad(const struct work *w, size_t b0, size_t b1)
{
    size_t lo = 0, hi = w->n_bad;

    while (lo < hi) { /* first that starts at b0 or later */
        size_t mid = lo + (hi - lo) / 2;

        if (w->bad[mid].b0 < b0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < w->n_bad && w->bad[lo].b0 < b1; lo++)
        if (w->bad[lo].b1 <= b1)
            return true;
    return false;
}

static bool is_kept_out(const struct kva_draft *d, size_t b0, size_t b1)
{
    size_t lo = 0, hi = d->n_keep_out;

    while (lo < hi) { /* first that ends behind b0 */
        size_t mid = lo + (hi - lo) / 2;

        if (d->keep_out[mid].b1 > b0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo < d->n_keep_out && d->keep_out[lo].b0 < b1;
}

/* All windows of about n tokens, ascending by start. */
static enum kva_status find_windows(struct work *w, int n, struct kva_error *err)
{
    int tau = w->job->tau;

    w->n_windows = 0;
    for (size_t i = 0; i < w->n_words; i++) {
        const struct word *a = &w->word[i];

        if (!a->token_starts || (w->job->whole_units && !a->opens))
            continue;
        for (size_t j = i; j < w->n_words; j++) {
            const struct word *z = &w->word[j];
            int len = z->t1 - a->t0;

            if (len > n + tau)
                break;
            if (len < n - tau || len < 1 || !z->token_ends ||
                (w->job->whole_units && !z->closes) || holds_bad(w, a->b0, z->b1) ||
                is_kept_out(w->job->draft, a->b0, z->b1))
                continue;
            KVA_TRY(grow((void **)&w->window, &w->cap_windows, w->n_windows + 1,
                         sizeof *w->window, err));
            w->window[w->n_windows++] =
                (struct window){.b0 = a->b0,
                                .b1 = z->b1,
                                .t0 = a->t0,
                                .t1 = z->t1,
                                .bucket = bucket_of(a->t0, z->t1, w->n_tokens),
                                .diff = abs(len - n),
                                .run = a->opens && z->closes};
        }
    }
    return KVA_OK;
}

static bool is_clear(const struct work *w, const struct window *x, int guard)
{
    for (int i = 0; i < w->n_spans; i++) {
        const struct kva_span *s = &w->span[i];
        int gap = s->kind == 'E' ? guard : 0;

        if (s->kind != 'P' && x->t1 + gap > s->t0 && x->t0 < s->t1 + gap)
            return false;
    }
    return true;
}

static bool in_list(const struct window *x, int list, int bucket)
{
    switch (list) {
    case 1:
        return x->run && x->bucket == bucket;
    case 2:
        return x->bucket == bucket;
    case 3:
        return abs(x->bucket - bucket) <= 1;
    default:
        return true;
    }
}

/* The candidate number `pick` of one list among those nearest in length; *count says how
 * many. */
static const struct window *scan(const struct work *w, int list, int bucket, int guard,
                                 uint64_t pick, uint64_t *count)
{
    const struct window *found = NULL;
    int best = w->job->tau + 1;
    uint64_t n = 0;

    for (size_t i = 0; i < w->n_windows; i++) {
        const struct window *x = &w->window[i];

        if (x->diff < best && in_list(x, list, bucket) && is_clear(w, x, guard))
            best = x->diff;
    }
    for (size_t i = 0; i < w->n_windows; i++) {
        const struct window *x = &w->window[i];

        if (x->diff != best || !in_list(x, list, bucket) || !is_clear(w, x, guard))
            continue;
        if (n++ == pick)
            found = x;
    }
    *count = n;
    return found;
}

/* At most 128 needles with 4 distractors each: three digits. */
static void name_span(char id[16], char letter, int number)
{
    snprintf(id, 8, "%c%u", letter, (unsigned)number % 100000);
}

static void choose(struct work *w, int e, int k)
{
    const struct kva_span *ev = &w->span[e];
    struct kva_rng rng;
    char tail[32];

    snprintf(tail, sizeof tail, "|%s|%d", ev->id, k);
    rng.x = kva_fnv1a64_more(kva_fnv1a64_str(w->job->stream), tail, strlen(tail));
    for (int guard = w->job->guard; guard >= 2; guard /= 2) {
        for (int list = 1; list <= 4; list++) {
            const struct window *x;
            struct kva_span *d = &w->span[w->n_spans];
            uint64_t count;

            scan(w, list, ev->bucket, guard, 0, &count);
            if (count == 0)
                continue;
            x = scan(w, list, ev->bucket, guard, kva_rng_below(&rng, count), &count);
            *d = (struct kva_span){.kind = 'D', .role = "distractor", .level = list};
            name_span(d->id, 'D', e * w->job->n_distractors + k);
            memcpy(d->match, ev->id, sizeof d->match);
            d->b0 = x->b0;
            d->b1 = x->b1;
            kva_span_locate(d, w->begin, w->end, w->n_tokens);
            d->dtok = (d->t1 - d->t0) - (ev->t1 - ev->t0);
            d->guard = guard;
            w->n_spans++;
            return;
        }
    }
}

static void add_payload(struct work *w, int e, const struct kva_plant *p,
                        const struct kva_slice *part, char letter, const char *role)
{
    struct kva_span *s = &w->span[w->n_spans];
    const struct kva_span *ev = &w->span[e];

    if (part->b0 == part->b1)
        return;
    *s = (struct kva_span){.kind = 'P', .role = role, .queried = p->queried};
    name_span(s->id, letter, e);
    memcpy(s->match, ev->id, sizeof s->match);
    s->b0 = ev->b0 + part->b0;
    s->b1 = ev->b0 + part->b1;
    kva_span_locate(s, w->begin, w->end, w->n_tokens);
    w->n_spans++;
}

enum kva_status kva_spans_make(const struct kva_span_job *job, const int32_t *begin,
                               const int32_t *end, size_t n_tokens,
                               struct kva_arena *arena, struct kva_span **spans,
                               int *n_spans, struct kva_error *err)
{
    struct work w = {.job = job, .begin = begin, .end = end, .n_tokens = n_tokens};
    const struct kva_draft *d = job->draft;
    enum kva_status rc = KVA_OK;

    w.span = kva_arena_alloc(
        arena, job->n_plants * (size_t)(3 + job->n_distractors) + 3 * d->n_entries + 1,
        sizeof *w.span);
    if (!w.span)
        return KVA_FAIL(err, KVA_ENOMEM, "spans: out of memory");
    for (size_t i = 0; i < job->n_plants; i++) {
        struct kva_span *s = &w.span[w.n_spans++];

        *s = (struct kva_span){.kind = 'E',
                               .queried = job->plants[i].queried,
                               .role = job->plants[i].role,
                               .b0 = d->planted[i].b0,
                               .b1 = d->planted[i].b1};
        name_span(s->id, 'E', (int)i);
        kva_span_locate(s, begin, end, n_tokens);
    }
    w.n_evidence = w.n_spans;
    for (int e = 0; e < w.n_evidence; e++) {
        add_payload(&w, e, &job->plants[e], &job->plants[e].value, 'P', "value");
        add_payload(&w, e, &job->plants[e], &job->plants[e].key, 'K', "key");
    }
    if (w.n_evidence > 0) {
        KVA_GO(find_words(&w, err));
        KVA_GO(find_bad(&w, err));
    }
    for (int e = 0; e < w.n_evidence; e++) {
        KVA_GO(find_windows(&w, w.span[e].t1 - w.span[e].t0, err));
        for (int k = 0; k < job->n_distractors; k++)
            choose(&w, e, k);
    }
    KVA_GO(kva_entries_spans(d, begin, end, n_tokens, w.span, &w.n_spans, err));
    if (d->example.b1 > d->example.b0) {
        struct kva_span *x = &w.span[w.n_spans++];

        *x = (struct kva_span){
            .kind = 'X', .role = "example", .b0 = d->example.b0, .b1 = d->example.b1};
        name_span(x->id, 'X', 0);
        kva_span_locate(x, begin, end, n_tokens);
    }
    *spans = w.span;
    *n_spans = w.n_spans;
out:
    free(w.word);
    free(w.bad);
    free(w.window);
    return rc;
}
