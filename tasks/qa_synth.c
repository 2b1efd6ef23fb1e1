/* SPDX-License-Identifier: GPL-3.0-or-later */
/* qa_synth.c - questions about made-up records, in RULER's QA templates; stands in for
 * qa_1 and qa_2 where their data is absent and never counts as them.
 *
 *     Amber Lantern is a town on the river Quiet Anvil. It was founded in 1613. Its
 * warden is Brisk Meadow. The Plain Thimble family owns the mill.
 *
 * Names join an adjective and a noun of RULER's word lists; no name stands for two
 * things, except that with hops=2 the warden of the gold record is the family that owns
 * the mill of a second one. A year that is asked for belongs to one record only. Draws
 * from the item's stream: gold records, attribute, places; the other records come from
 * "...|records". */
#include "tasks/needles.h"
#include "tasks/qa.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum attribute { RIVER, FOUNDED, WARDEN, MILL, ATTRIBUTES };
enum { YEAR_FIRST = 1500, YEARS = 500 };

static const char *const kinds[] = {"town",   "village", "port",  "hamlet",
                                    "parish", "borough", "abbey", "fortress"};

struct qa_synth {
    struct kva_lexicon lexicon;
    int hops;
    bool uninstructed;
    char template_sha256[65];
};

struct record {
    const char *name, *text;
    const char *value[ATTRIBUTES];
    struct kva_slice sentence[ATTRIBUTES], at[ATTRIBUTES]; /* of the value */
};

struct maker {
    const struct qa_synth *s;
    struct kva_rng rng; /* of the other records */
    struct kva_arena *arena;
    struct kva_text_set seen;
    enum attribute asked;
    const char *year; /* no other record has it; NULL: none is asked for */
    const char **decoy;
    size_t n_decoys, cap_decoys;
};

static enum kva_status no_memory(struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "records: out of memory");
}

/* "Amber Lantern", not seen before. */
static enum kva_status draw_name(struct maker *m, struct kva_rng *rng, const char **out,
                                 struct kva_error *err)
{
    const struct kva_lexicon *l = &m->s->lexicon;
    bool added = false;

    while (!added) {
        const char *a = l->adjectives.word[kva_rng_below(rng, l->adjectives.n)];
        const char *b = l->nouns.word[kva_rng_below(rng, l->nouns.n)];

        *out = kva_arena_printf(m->arena, "%c%s %c%s", toupper((unsigned char)a[0]),
                                a + 1, toupper((unsigned char)b[0]), b + 1);
        if (!*out)
            return no_memory(err);
        KVA_TRY(kva_text_set_add(&m->seen, *out, &added, err));
    }
    return KVA_OK;
}

/* Notes where the value stands in the sentence that is appended. */
static void add_sentence(struct kva_buf *b, struct record *r, enum attribute a,
                         const char *before, const char *after)
{
    if (b->len > 0)
        kva_buf_putc(b, ' ');
    r->sentence[a].b0 = b->len;
    kva_buf_puts(b, before);
    r->at[a].b0 = b->len;
    kva_buf_puts(b, r->value[a]);
    r->at[a].b1 = b->len;
    kva_buf_puts(b, after);
    r->sentence[a].b1 = b->len;
}

/* `mill`: the family of its mill; NULL: a new one. */
static enum kva_status make_record(struct maker *m, struct kva_rng *rng, const char *mill,
                                   struct record *r, struct kva_error *err)
{
    const char *kind = kinds[kva_rng_below(rng, sizeof kinds / sizeof kinds[0])];
    char head[256];
    struct kva_buf b;
    enum kva_status rc;

    kva_buf_init(&b, 0);
    KVA_GO(draw_name(m, rng, &r->name, err));
    KVA_GO(draw_name(m, rng, &r->value[RIVER], err));
    do {
        r->value[FOUNDED] =
            kva_arena_printf(m->arena, "%d", YEAR_FIRST + (int)kva_rng_below(rng, YEARS));
    } while (r->value[FOUNDED] && m->year && strcmp(m->year, r->value[FOUNDED]) == 0);
    KVA_GO(draw_name(m, rng, &r->value[WARDEN], err));
    r->value[MILL] = mill;
    if (!mill)
        KVA_GO(draw_name(m, rng, &r->value[MILL], err));
    if (!r->value[FOUNDED]) {
        rc = no_memory(err);
        goto out;
    }
    snprintf(head, sizeof head, "%s is %s %s on the river ", r->name,
             strchr("aeiou", kind[0]) ? "an" : "a", kind);
    add_sentence(&b, r, RIVER, head, ".");
    add_sentence(&b, r, FOUNDED, "It was founded in ", ".");
    add_sentence(&b, r, WARDEN, "Its warden is ", ".");
    add_sentence(&b, r, MILL, "The ", " family owns the mill.");
    KVA_GO(kva_buf_status(&b, err));
    r->text = kva_arena_strndup(m->arena, b.data, b.len);
    if (!r->text)
        rc = no_memory(err);
out:
    kva_buf_release(&b);
    return rc;
}

static enum kva_status other_record(void *ctx, size_t i, const char **text,
                                    struct kva_error *err)
{
    struct maker *m = ctx;
    struct record r = {0};

    (void)i;
    KVA_TRY(make_record(m, &m->rng, NULL, &r, err));
    *text = r.text;
    if (m->n_decoys == m->cap_decoys) {
        size_t cap = m->cap_decoys ? 2 * m->cap_decoys : 64;
        const char **grown = kva_realloc((void *)m->decoy, cap, sizeof *grown);

        if (!grown)
            return no_memory(err);
        m->decoy = grown;
        m->cap_decoys = cap;
    }
    m->decoy[m->n_decoys++] = r.value[m->asked];
    return KVA_OK;
}

static const char *ask(struct kva_arena *arena, int hops, enum attribute a,
                       const char *name)
{
    static const char *const one[ATTRIBUTES] = {
        "On which river is %s?", "In which year was %s founded?",
        "Who is the warden of %s?", "Which family owns the mill of %s?"};
    static const char *const two[ATTRIBUTES] = {
        "On which river is the place whose mill is owned by the family of the warden of "
        "%s?",
        "In which year was the place founded whose mill is owned by the family of the "
        "warden of %s?",
        "Who is the warden of the place whose mill is owned by the family of the warden "
        "of %s?",
        NULL};
    const char *form = hops == 1 ? one[a] : two[a], *gap = strstr(form, "%s");

    return kva_arena_printf(arena, "%.*s%s%s", (int)(gap - form), form, name, gap + 2);
}

static void add_fact(struct kva_qa_plan *p, const struct record *r, int gold,
                     enum attribute a)
{
    p->fact[p->n_facts++] = (struct kva_qa_evidence){gold, r->sentence[a], r->at[a]};
}

/* ---- an item ---- */

static enum kva_status synth_item(const struct kva_task *task, int idx,
                                  const struct kva_tok_api *tok, struct kva_arena *arena,
                                  struct kva_item *item, struct kva_error *err)
{
    const struct qa_synth *s = task->state;
    struct kva_rng rng = kva_task_stream(task, idx, "");
    struct maker m = {
        .s = s, .rng = kva_task_stream(task, idx, "|records"), .arena = arena};
    struct kva_qa_plan *p = kva_arena_alloc(arena, 1, sizeof *p);
    const char **texts = kva_arena_alloc(arena, 4, sizeof *texts), *query, **decoys;
    struct record gold[2] = {{0}};
    enum kva_status rc;

    if (!p || !texts)
        return no_memory(err);
    *p = (struct kva_qa_plan){.n_gold = s->hops,
                              .other = other_record,
                              .ctx = &m,
                              .n_others = (size_t)task->info.ctx,
                              .uninstructed = s->uninstructed,
                              .rng = kva_task_stream(task, idx, "|hay")};
    m.asked = (enum attribute)kva_rng_below(&rng, s->hops == 1 ? ATTRIBUTES : MILL);
    for (int j = 0; j < s->hops; j++) {
        m.year = j ? gold[0].value[FOUNDED] : NULL;
        KVA_GO(make_record(&m, &rng, j ? gold[0].value[WARDEN] : NULL, &gold[j], err));
        p->gold[j] = gold[j].text;
    }
    for (int j = 0; j < s->hops; j++)
        p->u[j] = kva_qa_place(&rng, idx, j, s->hops);
    if (s->hops == 2) {
        add_fact(p, &gold[0], 0, WARDEN);
        add_fact(p, &gold[1], 1, MILL);
    }
    add_fact(p, &gold[s->hops - 1], s->hops - 1, m.asked);
    m.year = gold[s->hops - 1].value[FOUNDED];
    texts[0] = gold[s->hops - 1].value[m.asked];
    texts[1] = gold[0].name;
    texts[2] = gold[0].value[WARDEN];
    item->answers = texts;
    item->n_answers = 1;
    item->more_metrics = kva_task_word_match;
    query = ask(arena, s->hops, m.asked, gold[0].name);
    if (!query) {
        rc = no_memory(err);
        goto out;
    }
    KVA_GO(kva_qa_item(task, p, query, texts, 3, tok, arena, item, err));
    decoys = kva_arena_alloc(arena, p->n_used, sizeof *decoys);
    if (!decoys) {
        rc = no_memory(err);
        goto out;
    }
    memcpy(decoys, m.decoy, p->n_used * sizeof *decoys);
    item->decoys = decoys;
    item->n_decoys = (int)p->n_used;
out:
    kva_text_set_release(&m.seen);
    free((void *)m.decoy);
    return rc;
}

/* ---- opening ---- */

static enum kva_status synth_open(struct kva_task *task,
                                  const struct kva_task_request *req,
                                  struct kva_error *err)
{
    static const char *const params[] = {"hops", "uninstructed", NULL};
    struct qa_synth *s = kva_calloc(1, sizeof *s);
    char name[64], stream[32];

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    s->hops = 1;
    for (int i = 0; i < req->n_params; i++) {
        const struct kva_task_param *p = &req->param[i];

        if (strcmp(p->key, "uninstructed") == 0)
            KVA_TRY(kva_task_flag(req, p, &s->uninstructed, err));
        else if (strcmp(p->key, "hops") != 0)
            return kva_task_bad_param(req, p->key, params, err);
        else if (strcmp(p->value, "1") != 0 && strcmp(p->value, "2") != 0)
            return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": hops is 1 or 2", req->text);
        else
            s->hops = p->value[0] - '0';
    }
    if (req->opts->haystack)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\" has no haystack to choose",
                        req->text);
    snprintf(stream, sizeof stream, "qa_synth%s", s->hops == 2 ? ":hops=2" : "");
    snprintf(name, sizeof name, "%s%s", stream,
             !s->uninstructed ? ""
             : s->hops == 2   ? ",uninstructed=1"
                              : ":uninstructed=1");
    KVA_TRY(kva_task_set_names(task, name, stream, err));
    KVA_TRY(kva_lexicon_open(&s->lexicon, req->opts->words, req->opts->data_dir, err));
    kva_qa_templates_sha256(s->template_sha256);
    kva_task_use_layout(task, "kva1");
    task->words = s->lexicon.version;
    task->info.domain = "qa";
    task->info.binary = true;
    task->info.has_depth = s->hops == 1;
    return KVA_OK;
}

static void synth_close(void *state)
{
    struct qa_synth *s = state;

    kva_lexicon_release(&s->lexicon);
    free(s);
}

static int synth_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct qa_synth *s = task->state;
    int bad = 0;

    bad |= json_object_set_new(gen, "dialect", json_string(task->info.dialect));
    bad |= json_object_set_new(gen, "L", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "hops", json_integer(s->hops));
    bad |= json_object_set_new(gen, "layout", json_string(task->layout));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "seed", json_integer((json_int_t)task->seed));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->template_sha256));
    if (s->uninstructed)
        bad |= json_object_set_new(gen, "uninstructed", json_true());
    bad |= json_object_set_new(gen, "words", json_string(task->words));
    bad |= json_object_set_new(source, "adjectives",
                               json_string(s->lexicon.adjectives.sha256));
    bad |= json_object_set_new(source, "nouns", json_string(s->lexicon.nouns.sha256));
    return bad;
}

const struct kva_family kva_family_qa_synth = {synth_open, synth_close, synth_item,
                                               synth_describe};
