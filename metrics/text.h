/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text.h - code points, white space and lower case as the official scorers see them.
 * Internal to metrics. */
#ifndef KVA_METRICS_TEXT_H
#define KVA_METRICS_TEXT_H

#include "metrics/metric.h"

/* Code point at s (n >= 1 bytes) and its length in bytes; each invalid byte is one
 * U+FFFD. */
uint32_t kva_text_decode(const char *s, size_t n, size_t *len);
/* White space of A.7: what Python's str.split() and str.strip() take, coded by hand. */
bool kva_text_is_space(uint32_t c);

/* Appends the post-processed text. */
enum kva_status kva_post_apply(enum kva_post post, const char *text, size_t n,
                               struct kva_buf *out, struct kva_error *err);

#endif
