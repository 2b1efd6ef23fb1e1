/* SPDX-License-Identifier: GPL-3.0-or-later */
/* official_vt.c - variable tracking of RULER's official dialects.
 *
 * One call draws five names, the value (from NumPy's generator), the statements' places
 * among u noise lines. A worked example (names of three letters, at most 500 tokens) is
 * made once and stands, solved, before every sample:
 *     r2024  " " example " " names "\n\n" "\n\n" sample; always the same one
 *     r2025  example " " names "\n" "\n" sample; names and value are drawn anew and
 *            replaced wherever they occur
 * r2024 writes lines with their line feed and joins them by blanks, and lost "above." and
 * the line feeds of the example's template. */
#include "tasks/official.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOPS = 4, NAMES = HOPS + 1, NAMES_DRAWN = 64 };

static const char head[] =
    "Memorize and track the chain(s) of variable assignment hidden "
    "in the following text.";
static const char question[] =
    "Question: Find all variables that are assigned the value %s in the text";
static const char prefix[] =
    "Answer: According to the chain(s) of variable assignment in the text above, %d "
    "variables are %s the value %s, they are: ";
static const char example_value[] = "12345"; /* r2025 */

struct chain {
    char name[NAMES_DRAWN][8];
    char value[8];
    char statement[NAMES][32]; /* all but the first end with a blank */
    uint32_t place[NAMES];
};

static enum kva_status vt_open(struct kva_task *task, struct kva_official *o,
                               const struct kva_task_request *req, struct kva_error *err)
{
    static const char *const params[] = {NULL};

    if (req->n_params > 0)
        return kva_task_bad_param(req, req->param[0].key, params, err);
    if (req->opts->haystack && strcmp(req->opts->haystack, "noise") != 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": RULER's vt has noise as haystack, not %s",
                        req->text, req->opts->haystack);
    o->fit.step = !o->r2024 && req->limit < 4096 ? 5 : 10;
    task->haystack = "noise";
    return kva_official_name(task, NULL, err);
}

static int distinct(const struct chain *c, int n)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        int j = 0;

        while (j < i && strcmp(c->name[i], c->name[j]) != 0)
            j++;
        count += j == i;
    }
    return count;
}

/* False: upstream raises an exception, more than five names were needed. */
static bool draw_chain(struct chain *c, const struct kva_official *o, bool example,
                       struct kva_official_state *state)
{
    size_t letters = example ? 3 : 5;
    bool literal = example && !o->r2024;
    int n = 0;

    memset(c, 0, sizeof *c);
    while (n < NAMES || (n < NAMES_DRAWN && distinct(c, n) < NAMES))
        kva_py_choices(&state->py, 'A', 26, letters, c->name[n++]);
    memcpy(c->value, example_value, sizeof example_value);
    if (!literal)
        snprintf(c->value, sizeof c->value, "%d",
                 (int)kva_np_randint(&state->np, 10000, 99999));
    if (n > NAMES && !literal)
        kva_np_randint(&state->np, 10000, 99999); /* of the second chain it begins */
    snprintf(c->statement[0], sizeof c->statement[0], "VAR %s = %s", c->name[0],
             c->value);
    for (int j = 1; j < NAMES; j++)
        snprintf(c->statement[j], sizeof c->statement[j], "VAR %s = VAR %s ", c->name[j],
                 c->name[j - 1]);
    return n == NAMES;
}

/* ---- the text among the statements ---- */

/* What stands between statements: noise lines, or pieces of them. */
struct noise {
    size_t n; /* pieces */
    bool r2024, cut;
};

/* Piece i: r2024 ends lines with a line feed; where lines are too few it cuts them at
 * full stops, the line feed being a piece of its own. */
static const char *noise_piece(const struct noise *noise, size_t i, size_t *n)
{
    static const struct {
        const char *text;
        size_t n;
    } cut[] = {{"The grass is green.", 19},    {" The sky is blue.", 17},
               {" The sun is yellow.", 19},    {" Here we go.", 12},
               {" There and back again.", 22}, {"\n", 1}};

    if (noise->cut) {
        *n = cut[i % 6].n;
        return cut[i % 6].text;
    }
    *n = strlen(kva_noise_line);
    return kva_noise_line;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void add_gap(struct kva_draft *d, bool r2024, const char *next)
{
    size_t n = d->text.len;

    if (!r2024)
        kva_buf_putc(&d->text, '\n');
    else if (!(next[0] == '\n' && n > 0 && d->text.data[n - 1] == '.'))
        kva_buf_putc(&d->text, ' '); /* ". \n" becomes ".\n" */
}

/* Noise with the statements, whose places are drawn. */
static enum kva_status write_body(struct kva_draft *d, const struct noise *noise,
                                  const struct chain *c, struct kva_error *err)
{
    size_t b0 = d->text.len;
    int next = 0;

    d->hay.b0 = b0;
    for (size_t i = 0; i < noise->n; i++) {
        size_t n;
        const char *text = noise_piece(noise, i, &n);

        for (; next < NAMES && c->place[next] == i; next++) {
            struct kva_slice at;

            if (d->text.len > b0)
                add_gap(d, noise->r2024, c->statement[next]);
            at = kva_draft_add(d, c->statement[next], strlen(c->statement[next]));
            at.b1 -= next > 0; /* the blank at its end */
            KVA_TRY(kva_draft_add_planted(d, at, err));
        }
        if (d->text.len > b0)
            add_gap(d, noise->r2024, text);
        KVA_TRY(kva_draft_add_unit(d, kva_draft_add(d, text, n), err));
        if (noise->r2024 && !noise->cut)
            kva_buf_putc(&d->text, '\n');
    }
    d->hay.b1 = d->text.len;
    return KVA_OK;
}

static void write_prefix(struct kva_buf *b, const struct kva_official *o,
                         const struct chain *c)
{
    kva_buf_printf(b, prefix, NAMES, o->r2024 ? "assgined" : "assigned", c->value);
}

/* A replacement of equal length, as str.replace does it. */
static void replace(char *text, size_t n, const char *old, const char *new, size_t len)
{
    for (size_t i = 0; i + len <= n; i++)
        if (memcmp(text + i, old, len) == 0) {
            memcpy(text + i, new, len);
            i += len - 1;
        }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n';
}

/* r2025: the last five words of the example, one after the other, then the value. */
static void redraw_example(char *text, size_t n, struct kva_official_state *state)
{
    char old[NAMES][8] = {{0}}, new[8];
    size_t e = n, b;

    for (int j = NAMES - 1; j >= 0; j--) {
        while (e > 0 && is_space(text[e - 1]))
            e--;
        for (b = e; b > 0 && !is_space(text[b - 1]); b--)
            ;
        memcpy(old[j], text + b, e - b < 7 ? e - b : 7);
        e = b;
    }
    for (int j = 0; j < NAMES; j++) {
        size_t len = strlen(old[j]);

        kva_py_choices(&state->py, 'A', 26, len, new);
        replace(text, n, old[j], new, len);
    }
    snprintf(new, sizeof new, "%d", (int)kva_np_randint(&state->np, 10000, 99999));
    replace(text, n, example_value, new, 5);
}

/* ---- one call ---- */

static enum kva_status add_texts(const struct kva_official *o,
                                 struct kva_official_prompt *p, const struct chain *c,
                                 struct kva_error *err)
{
    p->answers = kva_arena_alloc(&p->arena, NAMES, sizeof *p->answers);
    p->gold = "";
    for (int j = 0; p->answers && j < NAMES; j++) {
        p->answers[p->n_answers++] = kva_arena_strdup(&p->arena, c->name[j]);
        p->gold = p->gold ? kva_arena_printf(&p->arena, "%s%s%s", p->gold, j ? " " : "",
                                             c->name[j])
                          : NULL;
        if (!p->answers[j])
            return kva_official_no_memory(o, err);
    }
    return p->answers && p->gold ? KVA_OK : kva_official_no_memory(o, err);
}

static enum kva_status add_parts(const struct kva_official *o,
                                 struct kva_official_prompt *p, const struct chain *c,
                                 struct kva_error *err)
{
    p->plants = kva_arena_alloc(&p->arena, NAMES, sizeof *p->plants);
    p->forbidden = kva_arena_alloc(&p->arena, NAMES + 1, sizeof *p->forbidden);
    if (!p->plants || !p->forbidden)
        return kva_official_no_memory(o, err);
    p->n_plants = NAMES;
    for (int j = 0; j < NAMES; j++) {
        size_t n = strlen(c->statement[j]) - (j > 0), name = strlen(c->name[j]);

        p->forbidden[p->n_forbidden++] = p->answers[j];
        p->plants[j] = (struct kva_plant){.text = p->answers[j], /* not written again */
                                          .role = "link",
                                          .queried = true,
                                          .value = {4, 4 + name},
                                          .key = {4 + name + 3, n}};
    }
    p->forbidden[p->n_forbidden] = kva_arena_strdup(&p->arena, c->value);
    return p->forbidden[p->n_forbidden++] ? KVA_OK : kva_official_no_memory(o, err);
}

static enum kva_status vt_gen(const struct kva_official_run *run,
                              const struct kva_official_call *how,
                              struct kva_official_state *state,
                              struct kva_official_prompt *p, struct kva_error *err)
{
    const struct kva_official *o = run->o;
    struct kva_draft *d = &p->draft;
    struct noise noise = {.n = how->units, .r2024 = o->r2024};
    bool short_head = how->example && o->r2024;
    struct chain c;

    if (o->r2024 && how->units <= NAMES) {
        noise.cut = true;
        noise.n *= 6;
    }
    if (noise.n < NAMES) {
        p->too_small = true;
        return KVA_OK;
    }
    if (!draw_chain(&c, o, how->example, state)) {
        p->unlucky = true;
        return KVA_OK;
    }
    KVA_TRY(kva_py_sample(&state->py, noise.n, NAMES, c.place, err));
    qsort(c.place, NAMES, sizeof c.place[0], ascending);
    if (!how->searching && !how->example) {
        size_t b0 = o->r2024 ? 1 : 0;

        kva_buf_puts(&d->text, o->r2024 ? " " : "");
        d->example = kva_draft_add(d, run->example.data, run->example.len);
        KVA_TRY(kva_buf_status(&d->text, err));
        if (!o->r2024)
            redraw_example(d->text.data + b0, d->text.len - b0, state);
        while (d->example.b1 > b0 && is_space(d->text.data[d->example.b1 - 1]))
            d->example.b1--;
        kva_buf_puts(&d->text, o->r2024 ? "\n\n" : "\n");
        p->count_from = o->r2024 ? d->text.len : 0;
    }
    kva_buf_puts(&d->text, head);
    kva_buf_puts(&d->text, short_head ? " " : "\n\n");
    KVA_TRY(write_body(d, &noise, &c, err));
    kva_buf_puts(&d->text, short_head ? " " : "\n");
    kva_official_end_context(p);
    kva_buf_printf(&d->text, question, c.value);
    kva_buf_puts(&d->text, short_head ? " " : " above. ");
    kva_official_end_question(p);
    write_prefix(&d->text, o, &c);
    KVA_TRY(add_texts(o, p, &c, err));
    if (o->r2024 && how->searching)
        KVA_TRY(kva_official_list_tail(p, err));
    return how->full ? add_parts(o, p, &c, err) : KVA_OK;
}

/* Makes the example, then finds the size. */
static enum kva_status vt_search(struct kva_official_run *run, struct kva_error *err)
{
    const struct kva_official *o = run->o;
    struct kva_official_fit small = {.limit = KVA_OFFICIAL_EXAMPLE,
                                     .max_new = o->r2024 ? o->fit.max_new : 0,
                                     .step = 5};
    struct kva_official_sample sample;
    struct kva_buf *b = &run->example;
    size_t units;

    run->extra = 0;
    KVA_TRY(kva_official_search(run, &small, true, &units, err));
    KVA_TRY(kva_official_retry(run, &small, true, 0, units, &sample, err));
    kva_buf_add(b, run->last.draft.text.data, run->last.draft.text.len);
    for (int j = 0; j < NAMES; j++)
        kva_buf_printf(b, " %s", run->last.answers[j]);
    kva_buf_puts(b, o->r2024 ? "\n\n" : "\n");
    KVA_TRY(kva_buf_status(b, err));
    KVA_TRY(kva_official_count(run, b->data, b->len, &run->extra, err));
    return kva_official_search(run, &o->fit, false, &run->units, err);
}

static int vt_describe(const struct kva_task *task, const void *data, void *gen,
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
    kva_sha256_add(&h, kva_noise_line, strlen(kva_noise_line));
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, hex);
    return json_object_set_new(gen, "template_sha256", json_string(hex));
}

const struct kva_official_kind kva_official_vt = {.domain = "tracking",
                                                  .open = vt_open,
                                                  .gen = vt_gen,
                                                  .search = vt_search,
                                                  .describe = vt_describe};
