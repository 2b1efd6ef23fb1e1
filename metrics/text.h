/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text.h - text as Python's str sees it: code points, classes, lower case, substrings;
 * and the sequence comparisons of the scorers. Internal to metrics. */
#ifndef KVA_METRICS_TEXT_H
#define KVA_METRICS_TEXT_H

#include "metrics/metric.h"

/* Code point at s (n >= 1 bytes) and its length in bytes; each invalid byte is one
 * U+FFFD. */
uint32_t kva_text_decode(const char *s, size_t n, size_t *len);
/* Appends c (not a surrogate, at most U+10FFFF) as UTF-8. */
void kva_text_encode(uint32_t c, struct kva_buf *out);

/* White space of A.7: what Python's str.split() and str.strip() take, coded by hand. */
bool kva_text_is_space(uint32_t c);
/* Python's str.isalnum(): general category L* or N*. */
bool kva_text_is_alnum(uint32_t c);
/* What \d matches in Python: general category Nd. */
bool kva_text_is_digit(uint32_t c);

/* A text as code points. The caller's: zero-initialised, used again by reading again. */
struct kva_text {
    uint32_t *c;
    size_t n, cap;
};
enum kva_status kva_text_read(struct kva_text *t, const char *s, size_t n,
                              struct kva_error *err);
/* The same in lower case: Python's str.lower(), that is the full mapping of Unicode
 * (dotted capital I becomes two code points) with the final-sigma rule. */
enum kva_status kva_text_read_lower(struct kva_text *t, const char *s, size_t n,
                                    struct kva_error *err);
void kva_text_release(struct kva_text *t);

/* Appends the post-processed text. */
enum kva_status kva_post_apply(enum kva_post post, const char *text, size_t n,
                               struct kva_buf *out, struct kva_error *err);

#endif
