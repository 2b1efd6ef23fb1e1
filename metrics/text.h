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

/* ---- sequences ---- */

/* Longest common subsequence of x (rows) and y (columns), symbols 0 .. n_symbols - 1.
 * Room for the longest pair is made once; a pair costs n * m / 64 steps and the matches.
 */
struct kva_lcs {
    uint32_t *last, *before; /* places of a symbol in y, last one first, from 1; 0 ends */
    uint64_t *match, *row;   /* the columns of row i begin at row[i * words] */
    size_t words;            /* of 64 columns, for the pair at hand */
};
enum kva_status kva_lcs_init(struct kva_lcs *l, size_t n_symbols, size_t max_rows,
                             size_t max_columns, struct kva_error *err);
/* Fills the table; returns the length. */
size_t kva_lcs_run(struct kva_lcs *l, const uint32_t *x, size_t n, const uint32_t *y,
                   size_t m);
/* T[i][j] of the pair that ran last: the length over the first i and j symbols. */
size_t kva_lcs_at(const struct kva_lcs *l, size_t i, size_t j);
void kva_lcs_release(struct kva_lcs *l);

/* SequenceMatcher(None, a, b, autojunk).ratio() of Python's difflib; two empty texts: 1.
 * Cubic at worst: see text_difflib.c. */
enum kva_status kva_difflib_ratio(const struct kva_text *a, const struct kva_text *b,
                                  bool autojunk, double *ratio, struct kva_error *err);
/* Levenshtein.ratio() of python-Levenshtein: 1 - d / (|a| + |b|), where d counts
 * insertions and deletions; two empty texts: 1. */
enum kva_status kva_indel_ratio(const struct kva_text *a, const struct kva_text *b,
                                double *ratio, struct kva_error *err);

/* ---- */

/* Appends the post-processed text. */
enum kva_status kva_post_apply(enum kva_post post, const char *text, size_t n,
                               struct kva_buf *out, struct kva_error *err);

#endif
