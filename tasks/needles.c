/* SPDX-License-Identifier: GPL-3.0-or-later */
/* needles.c - keys, values, templates and filler lines of the needle tasks. */
#include "tasks/needles.h"

#include <string.h>

enum kva_status kva_needle_texts_make(struct kva_needle_texts *t, bool uuids,
                                      bool singular, bool needle_prefix,
                                      struct kva_error *err)
{
    const char *many = uuids ? "uuids" : "numbers", *one = uuids ? "uuid" : "number";
    struct kva_sha256 h;
    uint8_t digest[32];
    const struct kva_buf *const all[] = {&t->instruction, &t->question, &t->prefix,
                                         &t->needle};

    kva_buf_init(&t->instruction, 0);
    kva_buf_init(&t->question, 0);
    kva_buf_init(&t->prefix, 0);
    kva_buf_init(&t->needle, 0);
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
    const char *text = kva_template_fill(arena, t->needle.data, "{key}", key);

    text = text ? kva_template_fill(arena, text, "{value}", value) : NULL;
    if (!text)
        return false;
    *plant = (struct kva_plant){.text = text, .role = "needle"};
    plant->key.b0 = (size_t)(at - t->needle.data);
    plant->key.b1 = plant->key.b0 + strlen(key);
    plant->value.b1 = strlen(text) - 1; /* the full stop */
    plant->value.b0 = plant->value.b1 - strlen(value);
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

const char *kva_uuid_draw(struct kva_rng *rng, struct kva_arena *arena)
{
    uint64_t hi = kva_rng_next(rng), lo = kva_rng_next(rng);

    hi = (hi & ~0xf000ULL) | 0x4000ULL;
    lo = (lo & ~(0xc000ULL << 48)) | (0x8000ULL << 48);
    return kva_arena_printf(
        arena, "%08llx-%04llx-%04llx-%04llx-%012llx", (unsigned long long)(hi >> 32),
        (unsigned long long)(hi >> 16 & 0xffff), (unsigned long long)(hi & 0xffff),
        (unsigned long long)(lo >> 48), (unsigned long long)(lo & 0xffffffffffffULL));
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
