/* SPDX-License-Identifier: GPL-3.0-or-later */
/* needles.c - keys, values, templates and filler lines of the needle tasks. */
#include "tasks/needles.h"

#include <stdlib.h>
#include <string.h>

static void init(struct kva_needle_texts *t)
{
    kva_buf_init(&t->instruction, 0);
    kva_buf_init(&t->question, 0);
    kva_buf_init(&t->prefix, 0);
    kva_buf_init(&t->needle, 0);
}

static enum kva_status seal(struct kva_needle_texts *t, struct kva_error *err)
{
    const struct kva_buf *const all[] = {&t->instruction, &t->question, &t->prefix,
                                         &t->needle};
    struct kva_sha256 h;
    uint8_t digest[32];

    kva_sha256_init(&h);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        KVA_TRY(kva_buf_status(all[i], err));
        kva_sha256_add(&h, all[i]->data, all[i]->len + 1);
    }
    kva_sha256_add(&h, kva_noise_line, strlen(kva_noise_line));
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, t->sha256);
    return KVA_OK;
}

enum kva_status kva_needle_texts_set(struct kva_needle_texts *t, const char *instruction,
                                     const char *question, const char *prefix,
                                     const char *needle, struct kva_error *err)
{
    init(t);
    kva_buf_puts(&t->instruction, instruction);
    kva_buf_puts(&t->question, question);
    kva_buf_puts(&t->prefix, prefix);
    kva_buf_puts(&t->needle, needle);
    return seal(t, err);
}

enum kva_status kva_needle_texts_make(struct kva_needle_texts *t, bool uuids,
                                      bool singular, bool needle_prefix,
                                      struct kva_error *err)
{
    const char *many = uuids ? "uuids" : "numbers", *one = uuids ? "uuid" : "number";

    init(t);
    if (singular) {
        kva_buf_printf(
            &t->instruction,
            "A special magic %s is hidden within the following text. Make sure to "
            "memorize it. I will quiz you about the %s afterwards.\n",
            one, one);
        kva_buf_printf(
            &t->question,
            "What is the special magic %s for {query} mentioned in the provided "
            "text? ",
            one);
        kva_buf_printf(
            &t->prefix,
            "The special magic %s for {query} mentioned in the provided text is", one);
    } else {
        kva_buf_printf(&t->instruction,
                       "Some special magic %s are hidden within the following text. Make "
                       "sure to memorize it. I will quiz you about the %s afterwards.\n",
                       many, many);
        kva_buf_printf(&t->question,
                       "What are all the special magic %s for {query} mentioned in the "
                       "provided text? ",
                       many);
        kva_buf_printf(
            &t->prefix,
            "The special magic %s for {query} mentioned in the provided text are", many);
    }
    if (needle_prefix) {
        t->prefix.len = 0;
        kva_buf_printf(&t->prefix, "One of the special magic %s for {query} is:", many);
    }
    kva_buf_printf(&t->needle, "One of the special magic %s for {key} is: {value}.",
                   many);
    return seal(t, err);
}

void kva_needle_texts_release(struct kva_needle_texts *t)
{
    kva_buf_release(&t->instruction);
    kva_buf_release(&t->question);
    kva_buf_release(&t->prefix);
    kva_buf_release(&t->needle);
}

bool kva_needle_plant(const struct kva_needle_texts *t, const char *key,
                      const char *value, struct kva_arena *arena, struct kva_plant *plant)
{
    const char *at = strstr(t->needle.data, "{key}");
    const char *text = kva_template_fill(arena, t->needle.data, "{key}", key), *at_value;
    size_t value_at;

    at_value = text ? strstr(text, "{value}") : NULL;
    value_at = at_value ? (size_t)(at_value - text) : 0;
    text = at_value ? kva_template_fill(arena, text, "{value}", value) : NULL;
    if (!text)
        return false;
    *plant = (struct kva_plant){.text = text, .role = "needle"};
    if (at) {
        plant->key.b0 = (size_t)(at - t->needle.data);
        plant->key.b1 = plant->key.b0 + strlen(key);
    }
    plant->value.b0 = value_at;
    plant->value.b1 = value_at + strlen(value);
    return true;
}

const char *kva_template_fill(struct kva_arena *arena, const char *tmpl, const char *name,
                              const char *text)
{
    const char *at = strstr(tmpl, name);

    if (!at)
        return tmpl;
    return kva_arena_printf(arena, "%.*s%s%s", (int)(at - tmpl), tmpl, text,
                            at + strlen(name));
}

const char *kva_key_draw(const struct kva_lexicon *lexicon, struct kva_rng *rng,
                         struct kva_arena *arena)
{
    const char *adjective =
        lexicon->adjectives.word[kva_rng_below(rng, lexicon->adjectives.n)];
    const char *noun = lexicon->nouns.word[kva_rng_below(rng, lexicon->nouns.n)];

    return kva_arena_printf(arena, "%s-%s", adjective, noun);
}

const char *kva_number_draw(int digits, struct kva_rng *rng, struct kva_arena *arena)
{
    uint64_t first = kva_power10(digits - 1);

    return kva_arena_printf(arena, "%llu",
                            (unsigned long long)(first + kva_rng_below(rng, 9 * first)));
}

void kva_uuid_write(struct kva_rng *rng, char out[KVA_UUID])
{
    static const char hex[] = "0123456789abcdef";
    uint64_t half[2];
    int n = 0;

    half[0] = (kva_rng_next(rng) & ~0xf000ULL) | 0x4000ULL;
    half[1] = (kva_rng_next(rng) & ~(0xc000ULL << 48)) | (0x8000ULL << 48);
    for (int i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20)
            out[n++] = '-';
        out[n++] = hex[half[i / 16] >> (60 - 4 * (i % 16)) & 15];
    }
}

const char *kva_uuid_draw(struct kva_rng *rng, struct kva_arena *arena)
{
    char text[KVA_UUID];

    kva_uuid_write(rng, text);
    return kva_arena_strndup(arena, text, sizeof text);
}

void kva_order_pick(struct kva_rng *rng, int *order, int n, int first)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = 0; i < first; i++) {
        int j = i + (int)kva_task_choose(rng, (uint64_t)(n - i)), t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
}

void kva_order_draw(struct kva_rng *rng, int *order, int n)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)kva_rng_below(rng, (uint64_t)i + 1), t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
}

double kva_place_draw(struct kva_rng *rng, int idx, int j, int m)
{
    return ((idx % 10 + j * (10 / m)) % 10 + kva_rng_unit(rng)) / 10;
}

uint64_t kva_power10(int n)
{
    uint64_t x = 1;

    while (n-- > 0)
        x *= 10;
    return x;
}

bool kva_text_listed(const char *const *list, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0)
            return true;
    return false;
}

void kva_noise_unit(const void *ctx, size_t i, const char **text, size_t *n)
{
    (void)ctx;
    (void)i;
    *text = kva_noise_line;
    *n = strlen(kva_noise_line);
}

void kva_essay_unit(const void *ctx, size_t i, const char **text, size_t *n)
{
    const struct kva_essay_view *v = ctx;
    const struct kva_slice *at = &v->essay->sentence[(v->start + i) % v->essay->n];

    *text = v->essay->text.data + at->b0;
    *n = at->b1 - at->b0;
}

/* ---- a haystack of needles ---- */

/* The slot of the text, or the free one where it belongs. */
static const char **slot_of(const struct kva_text_set *set, const char *text)
{
    size_t i = (size_t)kva_fnv1a64_str(text) & (set->cap - 1);

    while (set->slot[i] && strcmp(set->slot[i], text) != 0)
        i = (i + 1) & (set->cap - 1);
    return &set->slot[i];
}

enum kva_status kva_text_set_add(struct kva_text_set *set, const char *text, bool *added,
                                 struct kva_error *err)
{
    const char **slot;

    if (2 * (set->n + 1) > set->cap) {
        struct kva_text_set grown = {.n = set->n, .cap = set->cap ? 2 * set->cap : 64};

        grown.slot = kva_calloc(grown.cap, sizeof *grown.slot);
        if (!grown.slot)
            return KVA_FAIL(err, KVA_ENOMEM, "texts: out of memory");
        for (size_t i = 0; i < set->cap; i++)
            if (set->slot[i])
                *slot_of(&grown, set->slot[i]) = set->slot[i];
        kva_text_set_release(set);
        *set = grown;
    }
    slot = slot_of(set, text);
    *added = *slot == NULL;
    if (*added) {
        *slot = text;
        set->n++;
    }
    return KVA_OK;
}

void kva_text_set_release(struct kva_text_set *set)
{
    free((void *)set->slot);
    *set = (struct kva_text_set){0};
}

static enum kva_status draw_unseen(struct kva_needle_lines *l, bool key, const char **out,
                                   struct kva_error *err)
{
    bool uuid = key ? l->uuid_keys : l->uuid_values, added = false;

    while (!added) {
        *out = uuid  ? kva_uuid_draw(&l->rng, l->arena)
               : key ? kva_key_draw(l->lexicon, &l->rng, l->arena)
                     : kva_number_draw(l->digits, &l->rng, l->arena);
        if (!*out)
            return KVA_FAIL(err, KVA_ENOMEM, "needles: out of memory");
        KVA_TRY(kva_text_set_add(&l->seen, *out, &added, err));
    }
    return KVA_OK;
}

enum kva_status kva_needle_lines_grow(struct kva_needle_lines *l, size_t n,
                                      struct kva_error *err)
{
    if (n > l->cap) {
        size_t cap = n + n / 2;
        const char **line = kva_realloc((void *)l->line, cap, sizeof *line), **value;

        if (!line)
            return KVA_FAIL(err, KVA_ENOMEM, "needles: out of memory");
        l->line = line;
        value = kva_realloc((void *)l->value, cap, sizeof *value);
        if (!value)
            return KVA_FAIL(err, KVA_ENOMEM, "needles: out of memory");
        l->value = value;
        l->cap = cap;
    }
    while (l->n < n) {
        struct kva_plant plant;
        const char *key;

        KVA_TRY(draw_unseen(l, true, &key, err));
        KVA_TRY(draw_unseen(l, false, &l->value[l->n], err));
        if (!kva_needle_plant(l->texts, key, l->value[l->n], l->arena, &plant))
            return KVA_FAIL(err, KVA_ENOMEM, "needles: out of memory");
        l->line[l->n++] = plant.text;
    }
    return KVA_OK;
}

void kva_needle_lines_unit(const void *lines, size_t i, const char **text, size_t *n)
{
    const struct kva_needle_lines *l = lines;

    *text = l->line[i];
    *n = strlen(*text);
}

void kva_needle_lines_release(struct kva_needle_lines *l)
{
    kva_text_set_release(&l->seen);
    free((void *)l->line);
    free((void *)l->value);
    l->line = l->value = NULL;
    l->n = l->cap = 0;
}
