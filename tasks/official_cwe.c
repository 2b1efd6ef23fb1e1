/* SPDX-License-Identifier: GPL-3.0-or-later */
/* official_cwe.c - common words of RULER's official dialects.
 *
 * One call draws the words of a small solved list, then u words of the main one. The
 * first ten are the common ones: ten words a times, the others b times, shuffled with a
 * fresh generator of the seed, numbered.
 *     L < 4096  example 20 words (3, 1), main u words (6, 1)
 *     else      example 40 words (10, 3), main u words (30, 3)
 * r2025 draws a list of more words than the vocabulary holds from english_words.json, if
 * the user has it. */
#include "tasks/official.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { COMMON = 10 };

static const char head[] =
    "Below is a numbered list of words. In these words, some appear more often than "
    "others. Memorize the ones that appear most often.\n";
static const char question[] =
    "Question: What are the 10 most common words in the above list? ";
static const char prefix[] =
    "Answer: The top 10 words that appear most often in the list are:";

struct cwe {
    struct kva_words vocabulary;
    const char **word; /* shuffled once */
    json_t *english;   /* NULL: not there */
    const char **more; /* its words, in the file's order */
    size_t n_more;
    char english_sha256[65];
};

/* An object whose values are words. */
static enum kva_status read_english(struct cwe *s, const char *path,
                                    struct kva_error *err)
{
    struct kva_buf file;
    json_error_t why;
    const char *key;
    json_t *value;
    uint8_t digest[32];
    enum kva_status rc;

    kva_buf_init(&file, 0);
    KVA_GO(kva_read_file(path, (size_t)256 << 20, &file, err));
    kva_sha256_of(file.data, file.len, digest);
    kva_hex(digest, sizeof digest, s->english_sha256);
    s->english = json_loadb(file.data, file.len, 0, &why);
    if (!s->english || !json_is_object(s->english)) {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s:%d: %s", path, s->english ? 1 : why.line,
                      s->english ? "is not an object" : why.text);
        goto out;
    }
    s->more = kva_calloc(json_object_size(s->english) + 1, sizeof *s->more);
    if (!s->more) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", path);
        goto out;
    }
    json_object_foreach(s->english, key, value)
    {
        if (!json_is_string(value)) {
            rc = KVA_FAIL(err, KVA_EFORMAT, "%s: \"%s\" is not a word", path, key);
            goto out;
        }
        s->more[s->n_more++] = json_string_value(value);
    }
out:
    kva_buf_release(&file);
    return rc;
}

/* Optional, unless the user named it. */
static enum kva_status find_english(struct cwe *s, const struct kva_task_opts *opts,
                                    struct kva_error *err)
{
    struct kva_buf path;
    bool named = false;
    enum kva_status rc;

    for (int i = 0; i < opts->n_data; i++)
        named = named || strcmp(opts->data[i].name, "english_words") == 0;
    kva_buf_init(&path, 0);
    rc = kva_data_find(opts, "english_words", "english_words.json", &path,
                       named ? err : NULL);
    if (rc == KVA_OK)
        rc = read_english(s, path.data, err);
    else if (rc == KVA_EIO && !named)
        rc = KVA_OK;
    kva_buf_release(&path);
    return rc;
}

static enum kva_status cwe_open(struct kva_task *task, struct kva_official *o,
                                const struct kva_task_request *req, struct kva_error *err)
{
    static const char *const params[] = {NULL};
    const struct kva_task_opts *opts = req->opts;
    struct cwe *s = kva_calloc(1, sizeof *s);
    struct kva_arena arena;
    uint32_t *order;
    enum kva_status rc;

    if (!s)
        return kva_official_no_memory(o, err);
    o->data = s;
    if (req->n_params > 0)
        return kva_task_bad_param(req, req->param[0].key, params, err);
    if (opts->haystack)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": RULER's cwe has no haystack",
                        req->text);
    KVA_TRY(kva_vocabulary_open(&s->vocabulary, opts->words, opts->data_dir, err));
    s->word = kva_calloc(s->vocabulary.n, sizeof *s->word);
    if (!s->word)
        return kva_official_no_memory(o, err);
    kva_arena_init(&arena);
    rc = kva_official_order(o, s->vocabulary.n, &arena, &order, err);
    for (size_t i = 0; rc == KVA_OK && i < s->vocabulary.n; i++)
        s->word[i] = s->vocabulary.word[order[i]];
    kva_arena_release(&arena);
    KVA_TRY(rc);
    if (!o->r2024)
        KVA_TRY(find_english(s, opts, err));
    o->fit.cap = s->n_more > s->vocabulary.n ? s->n_more : s->vocabulary.n;
    o->fit.cwe = true;
    task->words = opts->words ? opts->words : "2.2.0";
    if (strcmp(task->words, "3.0.0") == 0)
        task->words = "3.0.0";
    return kva_official_name(task, NULL, err);
}

static void cwe_close(void *data)
{
    struct cwe *s = data;

    kva_words_release(&s->vocabulary);
    json_decref(s->english);
    free(s->word);
    free(s->more);
    free(s);
}

static void add_number(struct kva_buf *b, size_t x)
{
    char digits[24];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + x % 10);
    while ((x /= 10) > 0);
    kva_buf_add(b, digits + at, sizeof digits - at);
}

/* "37. twine" */
static void add_word(struct kva_draft *d, size_t number, const char *word,
                     struct kva_entry *entry)
{
    entry->at.b0 = d->text.len;
    add_number(&d->text, number);
    kva_buf_puts(&d->text, ". ");
    entry->word = kva_draft_add(d, word, strlen(word));
    entry->at.b1 = d->text.len;
}

struct list {
    size_t n;            /* words */
    size_t common, rare; /* how often they are repeated */
    const char **word;   /* as drawn: the common ones first */
};

static enum kva_status draw_list(const struct kva_official *o, struct list *l,
                                 struct kva_official_state *state,
                                 struct kva_official_prompt *p, struct kva_error *err)
{
    const struct cwe *s = o->data;
    bool more = l->n > s->vocabulary.n;
    uint32_t *drawn = kva_arena_alloc(&p->arena, l->n, sizeof *drawn);

    l->word = kva_arena_alloc(&p->arena, l->n, sizeof *l->word);
    if (!drawn || !l->word)
        return kva_official_no_memory(o, err);
    KVA_TRY(
        kva_py_sample(&state->py, more ? s->n_more : s->vocabulary.n, l->n, drawn, err));
    for (size_t i = 0; i < l->n; i++)
        l->word[i] = more ? s->more[drawn[i]] : s->word[drawn[i]];
    return KVA_OK;
}

static enum kva_status write_list(const struct kva_official *o, const struct list *l,
                                  bool entries, struct kva_official_prompt *p,
                                  struct kva_error *err)
{
    struct kva_draft *d = &p->draft;
    size_t n_common = l->n < COMMON ? l->n : COMMON;
    size_t first_rare = n_common * l->common;
    size_t total = first_rare + (l->n - n_common) * l->rare;
    uint32_t *order;

    KVA_TRY(kva_official_order(o, total, &p->arena, &order, err));
    for (size_t i = 0; i < total; i++) {
        size_t at = order[i];
        size_t w = at < first_rare ? at % n_common
                                   : n_common + (at - first_rare) % (l->n - n_common);
        struct kva_entry entry = {.answer = w < n_common ? (int)w : -1, .number = w};

        if (i)
            kva_buf_putc(&d->text, ' ');
        add_word(d, i + 1, l->word[w], &entry);
        if (entries)
            KVA_TRY(kva_draft_add_entry(d, &entry, err));
    }
    return KVA_OK;
}

/* "1. a 2. b": the answer as the example prints it. */
static const char *solve(struct kva_official_prompt *p, const struct list *l)
{
    struct kva_entry ignored;
    struct kva_draft d;
    const char *text;

    kva_draft_init(&d);
    for (size_t i = 0; i < l->n && i < COMMON; i++) {
        if (i)
            kva_buf_putc(&d.text, ' ');
        add_word(&d, i + 1, l->word[i], &ignored);
    }
    text = d.text.failed ? NULL : kva_arena_strndup(&p->arena, d.text.data, d.text.len);
    kva_draft_release(&d);
    return text;
}

static enum kva_status cwe_gen(const struct kva_official_run *run,
                               const struct kva_official_call *how,
                               struct kva_official_state *state,
                               struct kva_official_prompt *p, struct kva_error *err)
{
    const struct kva_official *o = run->o;
    bool small = o->ctx < 4096;
    struct list shot = {small ? 20 : 40, small ? 3 : 10, small ? 1 : 3, NULL};
    struct list list = {how->units, small ? 6 : 30, small ? 1 : 3, NULL};
    struct kva_draft *d = &p->draft;
    const char *solved;

    if (how->units == 0) { /* r2024 would write a list without words */
        p->too_small = true;
        return KVA_OK;
    }
    KVA_TRY(draw_list(o, &shot, state, p, err));
    KVA_TRY(draw_list(o, &list, state, p, err));
    solved = solve(p, &shot);
    p->gold = solve(p, &list);
    if (!solved || !p->gold)
        return kva_official_no_memory(o, err);
    kva_buf_puts(&d->text, head);
    KVA_TRY(write_list(o, &shot, false, p, err));
    kva_buf_putc(&d->text, '\n');
    kva_buf_puts(&d->text, question);
    kva_buf_puts(&d->text, prefix);
    kva_buf_puts(&d->text, o->r2024 ? "" : " ");
    kva_buf_puts(&d->text, solved);
    d->example = (struct kva_slice){0, d->text.len};
    kva_buf_putc(&d->text, '\n');
    kva_buf_puts(&d->text, head);
    d->hay.b0 = d->text.len;
    KVA_TRY(write_list(o, &list, how->full, p, err));
    d->hay.b1 = d->text.len;
    kva_buf_putc(&d->text, '\n');
    kva_official_end_context(p);
    kva_buf_puts(&d->text, question);
    kva_official_end_question(p);
    kva_buf_puts(&d->text, prefix);
    p->answers = list.word;
    p->n_answers = list.n < COMMON ? (int)list.n : COMMON;
    p->guess_floor = (double)p->n_answers / (double)list.n; /* of the list's words */
    p->tail = kva_arena_printf(&p->arena, " %s", p->gold);
    return p->tail ? KVA_OK : kva_official_no_memory(o, err);
}

static int cwe_describe(const struct kva_task *task, const void *data, void *gen,
                        void *source)
{
    const struct cwe *s = data;
    struct kva_sha256 h;
    uint8_t digest[32];
    char hex[65];
    int bad = 0;

    (void)task;
    kva_sha256_init(&h);
    kva_sha256_add(&h, head, sizeof head);
    kva_sha256_add(&h, question, sizeof question);
    kva_sha256_add(&h, prefix, sizeof prefix);
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, hex);
    bad |= json_object_set_new(gen, "template_sha256", json_string(hex));
    bad |= json_object_set_new(source, "vocabulary", json_string(s->vocabulary.sha256));
    if (s->english)
        bad |=
            json_object_set_new(source, "english_words", json_string(s->english_sha256));
    return bad;
}

const struct kva_official_kind kva_official_cwe = {.domain = "aggregation",
                                                   .open = cwe_open,
                                                   .close = cwe_close,
                                                   .gen = cwe_gen,
                                                   .describe = cwe_describe};
