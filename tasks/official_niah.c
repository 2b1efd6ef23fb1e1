/* SPDX-License-Identifier: GPL-3.0-or-later */
/* official_niah.c - the eight niah tasks of RULER's official dialects.
 *
 * One call draws: for each key the key, then its values; essays: depths; lines of
 * needles: key and value each; lines: the needles' places; the queried keys. The needles
 * are shuffled with a fresh generator of the seed, so their order is the same in every
 * sample. Haystacks: the first u words of the essays, cut in sentences; u noise lines; u
 * needles.
 *
 * Sentences of the first u words are those of the whole text that begin before word u,
 * the last one cut: whether a text ends there never moves an earlier border. So the text
 * is split once. */
#include "tasks/needles.h"
#include "tasks/joined.h"
#include "tasks/official.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum haystack { ESSAY, NOISE, NEEDLE };
enum { N_DEPTHS = 40, N_NEEDLES = 4 };

static const struct {
    const char *name;
    enum haystack haystack;
    bool uuid_keys, uuid_values;
    int keys, values, queries;
} settings[] = {
    {"niah_single_1", NOISE, false, false, 1, 1, 1},
    {"niah_single_2", ESSAY, false, false, 1, 1, 1},
    {"niah_single_3", ESSAY, false, true, 1, 1, 1},
    {"niah_multikey_1", ESSAY, false, false, 4, 1, 1},
    {"niah_multikey_2", NEEDLE, false, false, 1, 1, 1},
    {"niah_multikey_3", NEEDLE, true, true, 1, 1, 1},
    {"niah_multivalue", ESSAY, false, false, 1, 4, 1},
    {"niah_multiquery", ESSAY, false, false, 4, 1, 4},
};

/* Essays as a list of words. */
struct corpus {
    struct kva_buf text;        /* all words joined by blanks, `copies` times */
    size_t *end;                /* byte behind each word */
    size_t n_words, n_own;      /* n_own: of one copy */
    size_t first;               /* byte of the first letter */
    struct kva_slice *sentence; /* of the text behind `first` */
    size_t n_sentences;
    char sha256[65];
};
struct niah {
    const char *name, *haystack_name;
    enum haystack haystack;
    bool uuid_keys, uuid_values;
    int keys, values, queries;
    struct corpus corpus;
    struct kva_lexicon lexicon;
    struct kva_joined joined;
    struct kva_needle_texts texts;
    size_t key_at, value_at; /* bytes before {key}, between {key} and {value} */
};

/* ---- essays ---- */

/* Bytes of a white space character of Python's \s; 0: none. */
static size_t space_at(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    uint32_t c;

    if (u[0] < 0x80)
        return u[0] == ' ' || (u[0] >= 9 && u[0] <= 13) || (u[0] >= 28 && u[0] <= 31);
    if (n >= 2 && u[0] == 0xc2)
        return u[1] == 0x85 || u[1] == 0xa0 ? 2 : 0;
    if (n < 3 || (u[0] & 0xf0) != 0xe0)
        return 0;
    c = (uint32_t)(u[0] & 15) << 12 | (uint32_t)(u[1] & 63) << 6 | (u[2] & 63);
    return c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
                   c == 0x202f || c == 0x205f || c == 0x3000
               ? 3
               : 0;
}

/* re.sub(r'\s+', ' ', text): runs at the ends stay, as empty words. */
static void join_words(const char *text, size_t n, struct kva_buf *out)
{
    bool gap = false;

    for (size_t i = 0, k; i < n; i += k ? k : 1) {
        k = space_at(text + i, n - i);
        if (k && !gap)
            kva_buf_putc(out, ' ');
        gap = k > 0;
        if (!k)
            kva_buf_putc(out, text[i]);
    }
}

/* r2025 takes the essays again from their start when there are not enough words. */
static enum kva_status corpus_open(struct corpus *c, const char *haystack,
                                   const struct kva_task_opts *opts, size_t words,
                                   struct kva_error *err)
{
    struct kva_buf own, one;
    const char *bytes;
    size_t n, used = 0;
    enum kva_status rc;

    kva_buf_init(&own, 0);
    kva_buf_init(&one, 0);
    KVA_GO(kva_essay_load(haystack, opts, &own, &bytes, &n, c->sha256, err));
    join_words(bytes, n, &one);
    KVA_GO(kva_buf_status(&one, err));
    c->n_own = 1;
    for (size_t i = 0; i < one.len; i++)
        c->n_own += one.data[i] == ' ';
    kva_buf_add(&c->text, one.data, one.len);
    for (c->n_words = c->n_own; c->n_words < words; c->n_words += c->n_own) {
        kva_buf_putc(&c->text, ' ');
        kva_buf_add(&c->text, one.data, one.len);
    }
    KVA_GO(kva_buf_status(&c->text, err));
    c->end = kva_calloc(c->n_words, sizeof *c->end);
    if (!c->end) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "essays: out of memory");
        goto out;
    }
    for (size_t i = 0; i <= c->text.len; i++)
        if (c->text.data[i] == ' ' || i == c->text.len)
            c->end[used++] = i;
    while (c->text.data[c->first] == ' ')
        c->first++;
    rc = kva_split_sentences(c->text.data + c->first, c->text.len - c->first,
                             &c->sentence, &c->n_sentences, err);
    for (size_t i = 0; rc == KVA_OK && i < c->n_sentences; i++) {
        c->sentence[i].b0 += c->first;
        c->sentence[i].b1 += c->first;
    }
out:
    kva_buf_release(&own);
    kva_buf_release(&one);
    return rc;
}

/* ---- opening ---- */

static enum kva_status set_haystack(struct niah *s, const struct kva_task_request *req,
                                    const char *name, struct kva_error *err)
{
    static const char *const essays[] = {"emerson", "embedded", "essays", NULL};
    const char *own = s->haystack == NOISE ? "noise" : "needle";

    for (int i = 0; s->haystack == ESSAY && essays[i]; i++)
        if (strcmp(name, essays[i]) == 0) {
            s->haystack_name = essays[i];
            return KVA_OK;
        }
    if (s->haystack != ESSAY && strcmp(name, own) == 0)
        return KVA_OK;
    return KVA_FAIL(
        err, KVA_EINVALID, "task \"%s\": RULER's %s has %s as haystack, not %s",
        req->text, req->desc->name,
        s->haystack == ESSAY ? "essays (emerson, embedded, essays)" : own, name);
}

static enum kva_status niah_open(struct kva_task *task, struct kva_official *o,
                                 const struct kva_task_request *req,
                                 struct kva_error *err)
{
    static const char *const params[] = {"haystack", NULL};
    const struct kva_task_opts *opts = req->opts;
    struct niah *s = kva_calloc(1, sizeof *s);
    double room = (double)(req->limit - task->info.max_new_tokens);
    char param[32];
    const char *key, *value;
    int i = 0;

    if (!s)
        return kva_official_no_memory(o, err);
    o->data = s;
    kva_buf_init(&s->corpus.text, 0);
    while (strcmp(settings[i].name, req->desc->name) != 0)
        i++;
    s->haystack = settings[i].haystack;
    s->uuid_keys = settings[i].uuid_keys;
    s->uuid_values = settings[i].uuid_values;
    s->keys = settings[i].keys;
    s->values = settings[i].values;
    s->queries = settings[i].queries;
    s->haystack_name = s->haystack == ESSAY   ? "emerson"
                       : s->haystack == NOISE ? "noise"
                                              : "needle";
    if (opts->haystack)
        KVA_TRY(set_haystack(s, req, opts->haystack, err));
    for (int k = 0; k < req->n_params; k++) {
        if (strcmp(req->param[k].key, "haystack") != 0)
            return kva_task_bad_param(req, req->param[k].key, params, err);
        KVA_TRY(set_haystack(s, req, req->param[k].value, err));
    }
    snprintf(param, sizeof param, "haystack=%s", s->haystack_name);
    KVA_TRY(kva_official_name(
        task,
        s->haystack == ESSAY && strcmp(s->haystack_name, "emerson") != 0 ? param : NULL,
        err));
    KVA_TRY(kva_needle_texts_make(&s->texts, s->uuid_values, s->queries * s->values == 1,
                                  false, err));
    key = strstr(s->texts.needle.data, "{key}");
    value = strstr(s->texts.needle.data, "{value}");
    s->key_at = (size_t)(key - s->texts.needle.data);
    s->value_at = (size_t)(value - key) - strlen("{key}");
    KVA_TRY(kva_lexicon_open(&s->lexicon, opts->words, opts->data_dir, err));
    KVA_TRY(kva_joined_open(&s->joined, &s->lexicon, err));
    o->fit.step = s->haystack == ESSAY ? 500 : req->limit < 4096 ? 5 : 25;
    if (s->haystack == ESSAY) {
        /* a word has a token at least, the search tries half of three times as many */
        size_t words = o->r2024 ? 0 : 2 * (size_t)req->limit + 2000;

        KVA_TRY(corpus_open(&s->corpus, s->haystack_name, opts, words, err));
        if (o->r2024) {
            o->fit.cap = s->corpus.n_own;
            o->fit.cap_early = true;
        }
        task->splitter = "simple-v1";
    }
    task->haystack = s->haystack_name;
    task->words = s->lexicon.version;
    task->info.binary = task->info.has_depth = s->queries * s->values == 1;
    task->info.guess_floor = s->keys > s->queries ? (double)s->queries / s->keys : 0;
    if (s->haystack == NEEDLE && room > 0) /* about; an item has its exact number */
        task->info.guess_floor = 1 / (room / (s->uuid_keys ? 82 : 25) + 1);
    return KVA_OK;
}

static void niah_close(void *data)
{
    struct niah *s = data;

    kva_buf_release(&s->corpus.text);
    free(s->corpus.end);
    free(s->corpus.sentence);
    kva_joined_release(&s->joined);
    kva_lexicon_release(&s->lexicon);
    kva_needle_texts_release(&s->texts);
    free(s);
}

/* ---- one call ---- */

struct needle {
    const char *key, *value;
    int key_number;
};
struct call {
    const struct niah *s;
    struct kva_official_state *state;
    struct kva_official_prompt *p;
    const struct kva_official_call *how;
    struct needle needle[N_NEEDLES];   /* in the order drawn */
    const char *key[N_NEEDLES];        /* each once */
    struct kva_plant plant[N_NEEDLES]; /* in the order of the text */
    int m;
    struct kva_slice *line; /* needle haystack: in p->scratch, the value behind b1 */
    const char **line_value;
    size_t end; /* essays: byte behind the last word */
};

static const char *draw_key(struct call *c)
{
    struct kva_arena *arena = &c->p->arena;
    const char *adjective, *noun;
    char *uuid;

    if (c->s->uuid_keys) {
        uuid = kva_arena_alloc(arena, 37, 1);
        if (uuid)
            kva_py_uuid4(&c->state->py, uuid);
        return uuid;
    }
    kva_joined_at(&c->s->joined, kva_py_below(&c->state->py, c->s->joined.n), &adjective,
                  &noun);
    return kva_arena_printf(arena, "%s-%s", adjective, noun);
}

static const char *draw_value(struct call *c)
{
    char *value = kva_arena_alloc(&c->p->arena, 37, 1);
    uint32_t x;

    if (!value)
        return NULL;
    if (c->s->uuid_values) {
        kva_py_uuid4(&c->state->py, value);
        return value;
    }
    x = (uint32_t)kva_py_randint(&c->state->py, 1000000, 9999999);
    for (int i = 6; i >= 0; i--, x /= 10)
        value[i] = (char)('0' + x % 10);
    return value;
}

static enum kva_status draw_needles(struct call *c, const struct kva_official *o,
                                    struct kva_error *err)
{
    const struct niah *s = c->s;
    struct kva_plant plant;
    uint32_t *order;

    for (int k = 0; k < s->keys; k++) {
        c->key[k] = draw_key(c);
        for (int v = 0; v < s->values; v++) {
            struct needle *needle = &c->needle[c->m++];

            *needle = (struct needle){c->key[k], draw_value(c), k};
            if (!needle->key || !needle->value)
                return kva_official_no_memory(o, err);
        }
    }
    KVA_TRY(kva_official_order(o, (size_t)c->m, &c->p->arena, &order, err));
    for (int j = 0; j < c->m; j++) {
        const struct needle *needle = &c->needle[order[j]];

        if (!kva_needle_plant(&s->texts, needle->key, needle->value, &c->p->arena,
                              &plant))
            return kva_official_no_memory(o, err);
        c->plant[j] = plant;
    }
    for (int j = 0; j < c->m; j++) /* remembered until the queries are drawn */
        c->plant[j].u = c->needle[order[j]].key_number;
    return KVA_OK;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Sentences: needle j stands before the j-th of the sorted positions. */
static enum kva_status place_in_essay(struct call *c, const struct kva_official *o,
                                      size_t *n, struct kva_error *err)
{
    const struct corpus *k = &c->s->corpus;
    size_t words = c->how->units, lo = 0, hi = k->n_sentences;
    uint32_t drawn[N_NEEDLES], place[N_NEEDLES];

    if (words > k->n_words && o->r2024)
        words = k->n_words;
    if (words > k->n_words)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "task %s: a tokenizer with less than a token a word", o->label);
    c->end = words ? k->end[words - 1] : 0;
    while (c->end > k->first && k->text.data[c->end - 1] == ' ')
        c->end--;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (k->sentence[mid].b0 < c->end)
            lo = mid + 1;
        else
            hi = mid;
    }
    *n = lo;
    KVA_TRY(kva_py_sample(&c->state->py, N_DEPTHS, (size_t)c->m, drawn, err));
    for (int j = 0; j < c->m; j++) {
        /* numpy.round(linspace(0, 100, 40)) of number j; no half occurs */
        double depth = (double)((200 * drawn[j] + N_DEPTHS - 1) / (2 * (N_DEPTHS - 1)));

        place[j] = (uint32_t)((double)*n * (depth / 100));
    }
    qsort(place, (size_t)c->m, sizeof *place, ascending);
    for (int j = 0; j < c->m; j++)
        c->plant[j].place = place[j];
    c->p->no_haystack = *n == 0;
    return KVA_OK;
}

/* Lines: needle i goes to the i-th largest of the drawn indices. */
static enum kva_status place_in_lines(struct call *c, struct kva_error *err)
{
    size_t n = c->how->units, m = (size_t)c->m;
    uint32_t place[N_NEEDLES];

    KVA_TRY(kva_py_sample(&c->state->py, n, m, place, err));
    qsort(place, m, sizeof *place, ascending);
    for (size_t j = 0; j < m / 2; j++) {
        struct kva_plant t = c->plant[j];

        c->plant[j] = c->plant[m - 1 - j];
        c->plant[m - 1 - j] = t;
    }
    for (size_t j = 0; j < m; j++)
        c->plant[j].place = place[j];
    return KVA_OK;
}

static enum kva_status draw_lines(struct call *c, const struct kva_official *o,
                                  struct kva_error *err)
{
    const struct niah *s = c->s;
    const char *needle = s->texts.needle.data;
    struct kva_buf *b = &c->p->scratch;
    size_t n = c->how->units;

    c->line = kva_arena_alloc(&c->p->arena, n, sizeof *c->line);
    c->line_value = kva_arena_alloc(&c->p->arena, n, sizeof *c->line_value);
    if (!c->line || !c->line_value)
        return kva_official_no_memory(o, err);
    for (size_t i = 0; i < n; i++) {
        const char *key = draw_key(c), *value = draw_value(c);

        if (!key || !value)
            return kva_official_no_memory(o, err);
        c->line[i].b0 = b->len;
        kva_buf_add(b, needle, s->key_at);
        kva_buf_puts(b, key);
        kva_buf_add(b, needle + s->key_at + strlen("{key}"), s->value_at);
        kva_buf_puts(b, value);
        kva_buf_putc(b, '.');
        c->line[i].b1 = b->len;
        c->line_value[i] = value;
    }
    return kva_buf_status(b, err);
}

static void essay_unit(const void *ctx, size_t i, const char **text, size_t *n)
{
    const struct call *c = ctx;
    const struct kva_slice *at = &c->s->corpus.sentence[i];

    *text = c->s->corpus.text.data + at->b0;
    *n = (at->b1 < c->end ? at->b1 : c->end) - at->b0;
}

static void line_unit(const void *ctx, size_t i, const char **text, size_t *n)
{
    const struct call *c = ctx;

    *text = c->p->scratch.data + c->line[i].b0;
    *n = c->line[i].b1 - c->line[i].b0;
}

/* The queried keys, what is asked and answered. */
static enum kva_status draw_queries(struct call *c, const struct kva_official *o,
                                    const char **query, struct kva_error *err)
{
    const struct niah *s = c->s;
    struct kva_official_prompt *p = c->p;
    uint32_t asked[N_NEEDLES];
    int q = s->queries;

    KVA_TRY(kva_py_sample(&c->state->py, (size_t)s->keys, (size_t)q, asked, err));
    p->answers = kva_arena_alloc(&p->arena, (size_t)c->m, sizeof *p->answers);
    if (!p->answers)
        return kva_official_no_memory(o, err);
    *query = p->gold = p->tail = "";
    for (int i = 0; i < q && *query; i++) {
        *query = kva_arena_printf(&p->arena, "%s%s%s%s", *query, i ? ", " : "",
                                  i && i == q - 1 ? "and " : "", c->key[asked[i]]);
        for (int v = 0; v < s->values; v++) {
            const char *value =
                c->needle[asked[i] * (uint32_t)s->values + (uint32_t)v].value;
            const char *gap = p->n_answers ? " " : "";

            p->answers[p->n_answers] = value;
            p->gold = p->gold ? kva_arena_printf(&p->arena, "%s%s%s", p->gold,
                                                 p->n_answers ? ", " : "", value)
                              : NULL;
            p->tail = p->tail ? kva_arena_printf(&p->arena, "%s%s%s", p->tail, gap, value)
                              : NULL;
            p->n_answers++;
        }
        for (int j = 0; j < c->m; j++)
            if (c->plant[j].u == asked[i])
                c->plant[j].queried = true;
    }
    return *query && p->gold && p->tail ? KVA_OK : kva_official_no_memory(o, err);
}

/* What an item needs beside the text. */
static enum kva_status add_parts(struct call *c, const struct kva_official *o,
                                 struct kva_error *err)
{
    const struct niah *s = c->s;
    struct kva_official_prompt *p = c->p;
    size_t m = (size_t)c->m, lines = s->haystack == NEEDLE ? c->how->units : 0;

    p->plants = kva_arena_alloc(&p->arena, m, sizeof *p->plants);
    p->forbidden = kva_arena_alloc(&p->arena, 2 * m, sizeof *p->forbidden);
    p->decoys = kva_arena_alloc(&p->arena, m + lines, sizeof *p->decoys);
    if (!p->plants || !p->forbidden || !p->decoys)
        return kva_official_no_memory(o, err);
    memcpy(p->plants, c->plant, m * sizeof *p->plants);
    p->n_plants = m;
    for (int k = 0; k < s->keys; k++)
        p->forbidden[p->n_forbidden++] = c->key[k];
    for (size_t j = 0; j < m; j++) {
        const struct needle *needle = &c->needle[j];
        bool answer = kva_text_listed(p->answers, (size_t)p->n_answers, needle->value);

        p->forbidden[p->n_forbidden++] = needle->value;
        if (!answer)
            p->decoys[p->n_decoys++] = needle->value;
    }
    for (size_t i = 0; i < lines; i++)
        p->decoys[p->n_decoys++] = c->line_value[i];
    p->whole_units = s->haystack == NEEDLE;
    p->guess_floor = s->haystack == NEEDLE  ? 1.0 / (double)(lines + 1)
                     : s->keys > s->queries ? (double)s->queries / s->keys
                                            : 0;
    return KVA_OK;
}

static enum kva_status niah_gen(const struct kva_official_run *run,
                                const struct kva_official_call *how,
                                struct kva_official_state *state,
                                struct kva_official_prompt *p, struct kva_error *err)
{
    const struct kva_official *o = run->o;
    const struct niah *s = o->data;
    struct call c = {.s = s, .state = state, .p = p, .how = how};
    struct kva_units units = {kva_noise_unit, &c};
    size_t n = how->units;
    const char *query = NULL;

    if (s->haystack != ESSAY && n < (size_t)(s->keys * s->values)) {
        p->too_small = true; /* upstream fails after some draws, and for ever */
        return KVA_OK;
    }
    KVA_TRY(draw_needles(&c, o, err));
    if (s->haystack == ESSAY) {
        units.unit = essay_unit;
        KVA_TRY(place_in_essay(&c, o, &n, err));
    } else {
        if (s->haystack == NEEDLE) {
            units.unit = line_unit;
            KVA_TRY(draw_lines(&c, o, err));
        }
        KVA_TRY(place_in_lines(&c, err));
    }
    KVA_TRY(draw_queries(&c, o, &query, err));
    kva_buf_add(&p->draft.text, s->texts.instruction.data, s->texts.instruction.len);
    KVA_TRY(kva_draft_place(&p->draft, &units, n, c.plant, (size_t)c.m,
                            s->haystack != ESSAY, true, err));
    kva_buf_putc(&p->draft.text, '\n');
    kva_official_end_context(p);
    for (int part = 0; part < 2; part++) {
        const char *text = kva_template_fill(
            &p->arena, part ? s->texts.prefix.data : s->texts.question.data, "{query}",
            query);

        if (!text)
            return kva_official_no_memory(o, err);
        kva_buf_puts(&p->draft.text, text);
        if (!part)
            kva_official_end_question(p);
    }
    return how->full ? add_parts(&c, o, err) : KVA_OK;
}

static int niah_describe(const struct kva_task *task, const void *data, void *gen,
                         void *source)
{
    const struct niah *s = data;
    int bad = 0;

    (void)task;
    bad |= json_object_set_new(gen, "keys", json_integer(s->keys));
    bad |= json_object_set_new(gen, "queries", json_integer(s->queries));
    bad |= json_object_set_new(gen, "values", json_integer(s->values));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->texts.sha256));
    bad |= json_object_set_new(source, "adjectives",
                               json_string(s->lexicon.adjectives.sha256));
    bad |= json_object_set_new(source, "nouns", json_string(s->lexicon.nouns.sha256));
    if (s->haystack == ESSAY)
        bad |= json_object_set_new(source, "essay", json_string(s->corpus.sha256));
    return bad;
}

const struct kva_official_kind kva_official_niah = {.domain = "retrieval",
                                                    .open = niah_open,
                                                    .close = niah_close,
                                                    .gen = niah_gen,
                                                    .describe = niah_describe};
