/* SPDX-License-Identifier: GPL-3.0-or-later */
/* joined.h - the sorted list of all "adjective-noun", which nobody writes down.
 *
 * RULER builds the 6 million strings, removes repetitions, sorts and picks by index. */
#ifndef KVA_TASKS_JOINED_H
#define KVA_TASKS_JOINED_H

#include "tasks/internal.h"

/* Strings that begin with one adjective and a hyphen, and those of adjectives that
 * continue it: "blue-" and "blue-eyed-". */
struct kva_joined_group {
    uint32_t first;     /* index of its first string */
    uint32_t adjective; /* number in the lexicon, where the group has only one */
    uint32_t *merged;   /* else: adjective * nouns + noun of every string; NULL */
};
struct kva_joined {
    const struct kva_lexicon *lexicon; /* the caller's */
    struct kva_joined_group *group;
    size_t n_groups;
    size_t n; /* strings */
};
enum kva_status kva_joined_open(struct kva_joined *j, const struct kva_lexicon *lexicon,
                                struct kva_error *err);
void kva_joined_release(struct kva_joined *j);
/* String number i < n, its parts. */
void kva_joined_at(const struct kva_joined *j, size_t i, const char **adjective,
                   const char **noun);

#endif
