/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_value.h - what math_value.c takes from its helpers. */
#ifndef KVA_METRICS_MATH_VALUE_H
#define KVA_METRICS_MATH_VALUE_H

#include "metrics/math.h"

/* ---- math_walk.c: brackets ---- */

/* Steps through a normalised text by tokens: a command with its backslash, a run of
 * letters, or one byte. depth is that of the token: brackets ( [ { \lbrace \begin and
 * their ends have the depth of what is around them. Brackets need not be of one kind, as
 * in (3,4]; one too many at the end is at depth 0. */
struct kva_math_walk {
    struct kva_math *m;
    struct kva_math_span text;
    size_t next; /* first byte behind the token */
    int inside;
    struct kva_math_span token;
    int depth;
};
struct kva_math_walk kva_math_walk_new(struct kva_math *m, struct kva_math_span text);
bool kva_math_step(struct kva_math_walk *w); /* false: the end, or no work left */
/* First token `word` at depth 0; its place, and in *len its length. */
bool kva_math_find(struct kva_math *m, struct kva_math_span text, const char *word,
                   size_t *at);
struct kva_math_span kva_math_before(struct kva_math_span t, size_t at);
struct kva_math_span kva_math_behind(struct kva_math_span t, size_t at);
/* What the bracket at the start encloses, when its end is the end of the text. */
bool kva_math_enclosed(struct kva_math *m, struct kva_math_span t, const char *open,
                       const char *close, struct kva_math_span *in);
/* Parts between separators of depth 0, empty ones dropped. Separators: the token `sep`;
 * NULL: comma, semicolon, and, or, \text{and}, \text{or}. Returns how many; *n_separators
 * as they stand; -1: more than `most`. */
int kva_math_split(struct kva_math *m, struct kva_math_span t, const char *sep,
                   struct kva_math_span *part, int most, int *n_separators);

/* ---- math_units.c ---- */

struct kva_math_span kva_math_strip_units(struct kva_math *m, struct kva_math_span t,
                                          bool *percent);

#endif
