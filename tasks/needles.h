/* SPDX-License-Identifier: GPL-3.0-or-later */
/* needles.h - keys, values, templates and filler lines of the needle tasks. */
#ifndef KVA_TASKS_NEEDLES_H
#define KVA_TASKS_NEEDLES_H

#include "tasks/internal.h"

/* Templates with {query} (question, prefix), {key} and {value} (needle); RULER's are
 * those of scripts/data/synthetic/constants.py, cut as kvpress does: the question keeps
 * the blank before the answer prefix. */
struct kva_needle_texts {
    struct kva_buf instruction, question, prefix, needle;
    char sha256[65]; /* of all templates and the noise line */
};
/* Templates of any kind. Release also after a failure. */
enum kva_status kva_needle_texts_set(struct kva_needle_texts *t, const char *instruction,
                                     const char *question, const char *prefix,
                                     const char *needle, struct kva_error *err);
/* RULER's. `singular`: one answer is asked for. needle_prefix: the answer begins as the
 * needle does. Release also after a failure. */
enum kva_status kva_needle_texts_make(struct kva_needle_texts *t, bool uuids,
                                      bool singular, bool needle_prefix,
                                      struct kva_error *err);
void kva_needle_texts_release(struct kva_needle_texts *t);
/* The needle of one key and value, not queried; false: out of memory. */
bool kva_needle_plant(const struct kva_needle_texts *t, const char *key,
                      const char *value, struct kva_arena *arena,
                      struct kva_plant *plant);

/* Replaces {name} in a template. Results from the arena, NULL: out of memory. */
const char *kva_template_fill(struct kva_arena *arena, const char *tmpl, const char *name,
                              const char *text);
const char *kva_key_draw(const struct kva_lexicon *lexicon, struct kva_rng *rng,
                         struct kva_arena *arena); /* "adjective-noun" */
const char *kva_number_draw(int digits, struct kva_rng *rng, struct kva_arena *arena);
enum { KVA_UUID = 36 };
void kva_uuid_write(struct kva_rng *rng, char out[KVA_UUID]); /* two draws, no NUL */
const char *kva_uuid_draw(struct kva_rng *rng, struct kva_arena *arena); /* version 4 */
uint64_t kva_power10(int n);
/* A drawn order of 0 .. n-1; with `first`, only that many places are drawn and the rest
 * follows as it is left. */
void kva_order_draw(struct kva_rng *rng, int *order, int n);
void kva_order_pick(struct kva_rng *rng, int *order, int n, int first);
/* Place of needle j of m in [0, 1): depth deciles are balanced over idx. */
double kva_place_draw(struct kva_rng *rng, int idx, int j, int m);
bool kva_text_listed(const char *const *list, size_t n, const char *text);

/* Units for kva_draft_place: the noise line; the sentences of an essay from `start` on,
 * round and round (ctx is the struct). */
struct kva_essay_view {
    const struct kva_essay *essay;
    size_t start;
};
void kva_noise_unit(const void *ctx, size_t i, const char **text, size_t *n);
void kva_essay_unit(const void *ctx, size_t i, const char **text, size_t *n);

/* Texts seen so far, by content; they stay the caller's. */
struct kva_text_set {
    const char **slot; /* a power of two of them, NULL: free */
    size_t n, cap;
};
/* *added: it was not there before. */
enum kva_status kva_text_set_add(struct kva_text_set *set, const char *text, bool *added,
                                 struct kva_error *err);
void kva_text_set_release(struct kva_text_set *set);

/* A haystack of needles: line i has a key and a value of its own, drawn from a stream in
 * this order, so that n lines are the first of n + 1. A key or value that was seen before
 * is drawn again. */
struct kva_needle_lines {
    const struct kva_needle_texts *texts;
    const struct kva_lexicon *lexicon;
    bool uuid_keys, uuid_values;
    int digits;
    struct kva_rng rng;
    struct kva_arena *arena;  /* of the texts */
    struct kva_text_set seen; /* put in what the lines may not repeat */
    const char **line, **value;
    size_t n, cap;
};
enum kva_status kva_needle_lines_grow(struct kva_needle_lines *lines, size_t n,
                                      struct kva_error *err);
void kva_needle_lines_unit(const void *lines, size_t i, const char **text, size_t *n);
void kva_needle_lines_release(struct kva_needle_lines *lines);

#endif
