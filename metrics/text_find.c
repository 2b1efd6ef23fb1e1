/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_find.c - SCBench's scores of retrieved values (tasks-ruler.md 10.1), and the share
 * of needle words.
 *
 *     substring     1 if a reference stands in the output, byte for byte   (Retr.KV)
 *     match_upper   1 if a reference, upper-cased, stands in the output, stripped and
 *                   upper-cased                                             (EN.QA)
 *     find_number   1 if the first match of \d+\.\d+|\d+ in the output is the reference:
 * a whole one equals int(float(match)), another equals float(match). A minus sign is no
 * part of the match                      (Math.Find) needle_words  share of the distinct
 * words of the first reference, lower-cased and split at white space, that are words of
 * the output      (NIAH grid)
 *
 * With several references the best counts. upper and lower are Python's str.upper() and
 * str.lower(), \d any decimal digit of Unicode. */
#include "metrics/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool holds(const char *text, size_t n, const char *word, size_t m)
{
    return m == 0 || (n >= m && memmem(text, n, word, m));
}

static enum kva_status substring(const struct kva_metric_in *in,
                                 struct kva_metric_out *out, struct kva_error *err)
{
    (void)err;
    out->score = 0;
    for (int i = 0; i < in->n_answers; i++)
        if (holds(in->prediction, in->n, in->answers[i], strlen(in->answers[i])))
            out->score = 1;
    return KVA_OK;
}

/* ---- upper case ---- */

/* Code points whose upper case is several (SpecialCasing.txt, Unicode 14, without the
 * conditional ones): what Python's str.upper() makes longer. */
static const struct {
    uint32_t c, upper[3];
} longer[] = {
    {0xdf, {0x53, 0x53}},
    {0x149, {0x2bc, 0x4e}},
    {0x1f0, {0x4a, 0x30c}},
    {0x390, {0x399, 0x308, 0x301}},
    {0x3b0, {0x3a5, 0x308, 0x301}},
    {0x587, {0x535, 0x552}},
    {0x1e96, {0x48, 0x331}},
    {0x1e97, {0x54, 0x308}},
    {0x1e98, {0x57, 0x30a}},
    {0x1e99, {0x59, 0x30a}},
    {0x1e9a, {0x41, 0x2be}},
    {0x1f50, {0x3a5, 0x313}},
    {0x1f52, {0x3a5, 0x313, 0x300}},
    {0x1f54, {0x3a5, 0x313, 0x301}},
    {0x1f56, {0x3a5, 0x313, 0x342}},
    {0x1f80, {0x1f08, 0x399}},
    {0x1f81, {0x1f09, 0x399}},
    {0x1f82, {0x1f0a, 0x399}},
    {0x1f83, {0x1f0b, 0x399}},
    {0x1f84, {0x1f0c, 0x399}},
    {0x1f85, {0x1f0d, 0x399}},
    {0x1f86, {0x1f0e, 0x399}},
    {0x1f87, {0x1f0f, 0x399}},
    {0x1f88, {0x1f08, 0x399}},
    {0x1f89, {0x1f09, 0x399}},
    {0x1f8a, {0x1f0a, 0x399}},
    {0x1f8b, {0x1f0b, 0x399}},
    {0x1f8c, {0x1f0c, 0x399}},
    {0x1f8d, {0x1f0d, 0x399}},
    {0x1f8e, {0x1f0e, 0x399}},
    {0x1f8f, {0x1f0f, 0x399}},
    {0x1f90, {0x1f28, 0x399}},
    {0x1f91, {0x1f29, 0x399}},
    {0x1f92, {0x1f2a, 0x399}},
    {0x1f93, {0x1f2b, 0x399}},
    {0x1f94, {0x1f2c, 0x399}},
    {0x1f95, {0x1f2d, 0x399}},
    {0x1f96, {0x1f2e, 0x399}},
    {0x1f97, {0x1f2f, 0x399}},
    {0x1f98, {0x1f28, 0x399}},
    {0x1f99, {0x1f29, 0x399}},
    {0x1f9a, {0x1f2a, 0x399}},
    {0x1f9b, {0x1f2b, 0x399}},
    {0x1f9c, {0x1f2c, 0x399}},
    {0x1f9d, {0x1f2d, 0x399}},
    {0x1f9e, {0x1f2e, 0x399}},
    {0x1f9f, {0x1f2f, 0x399}},
    {0x1fa0, {0x1f68, 0x399}},
    {0x1fa1, {0x1f69, 0x399}},
    {0x1fa2, {0x1f6a, 0x399}},
    {0x1fa3, {0x1f6b, 0x399}},
    {0x1fa4, {0x1f6c, 0x399}},
    {0x1fa5, {0x1f6d, 0x399}},
    {0x1fa6, {0x1f6e, 0x399}},
    {0x1fa7, {0x1f6f, 0x399}},
    {0x1fa8, {0x1f68, 0x399}},
    {0x1fa9, {0x1f69, 0x399}},
    {0x1faa, {0x1f6a, 0x399}},
    {0x1fab, {0x1f6b, 0x399}},
    {0x1fac, {0x1f6c, 0x399}},
    {0x1fad, {0x1f6d, 0x399}},
    {0x1fae, {0x1f6e, 0x399}},
    {0x1faf, {0x1f6f, 0x399}},
    {0x1fb2, {0x1fba, 0x399}},
    {0x1fb3, {0x391, 0x399}},
    {0x1fb4, {0x386, 0x399}},
    {0x1fb6, {0x391, 0x342}},
    {0x1fb7, {0x391, 0x342, 0x399}},
    {0x1fbc, {0x391, 0x399}},
    {0x1fc2, {0x1fca, 0x399}},
    {0x1fc3, {0x397, 0x399}},
    {0x1fc4, {0x389, 0x399}},
    {0x1fc6, {0x397, 0x342}},
    {0x1fc7, {0x397, 0x342, 0x399}},
    {0x1fcc, {0x397, 0x399}},
    {0x1fd2, {0x399, 0x308, 0x300}},
    {0x1fd3, {0x399, 0x308, 0x301}},
    {0x1fd6, {0x399, 0x342}},
    {0x1fd7, {0x399, 0x308, 0x342}},
    {0x1fe2, {0x3a5, 0x308, 0x300}},
    {0x1fe3, {0x3a5, 0x308, 0x301}},
    {0x1fe4, {0x3a1, 0x313}},
    {0x1fe6, {0x3a5, 0x342}},
    {0x1fe7, {0x3a5, 0x308, 0x342}},
    {0x1ff2, {0x1ffa, 0x399}},
    {0x1ff3, {0x3a9, 0x399}},
    {0x1ff4, {0x38f, 0x399}},
    {0x1ff6, {0x3a9, 0x342}},
    {0x1ff7, {0x3a9, 0x342, 0x399}},
    {0x1ffc, {0x3a9, 0x399}},
    {0xfb00, {0x46, 0x46}},
    {0xfb01, {0x46, 0x49}},
    {0xfb02, {0x46, 0x4c}},
    {0xfb03, {0x46, 0x46, 0x49}},
    {0xfb04, {0x46, 0x46, 0x4c}},
    {0xfb05, {0x53, 0x54}},
    {0xfb06, {0x53, 0x54}},
    {0xfb13, {0x544, 0x546}},
    {0xfb14, {0x544, 0x535}},
    {0xfb15, {0x544, 0x53b}},
    {0xfb16, {0x54e, 0x546}},
    {0xfb17, {0x544, 0x53d}},
};

static int compare_longer(const void *key, const void *row)
{
    uint32_t a = *(const uint32_t *)key, b = *(const uint32_t *)row;

    return (a > b) - (a < b);
}

static enum kva_status add_upper(const char *s, size_t n, struct kva_buf *out,
                                 struct kva_error *err)
{
    size_t len;

    for (size_t i = 0; i < n; i += len) {
        uint32_t c = kva_text_decode(s + i, n - i, &len);
        size_t row = sizeof longer / sizeof longer[0];

        if (c >= longer[0].c) {
            const char *at = bsearch(&c, longer, row, sizeof longer[0], compare_longer);

            row = at ? (size_t)(at - (const char *)longer) / sizeof longer[0] : row;
        }
        if (row == sizeof longer / sizeof longer[0]) {
            kva_text_encode((uint32_t)utf8proc_toupper((utf8proc_int32_t)c), out);
            continue;
        }
        for (int k = 0; k < 3 && longer[row].upper[k]; k++)
            kva_text_encode(longer[row].upper[k], out);
    }
    return kva_buf_status(out, err);
}

static void strip(const char **s, size_t *n)
{
    size_t first = *n, last = 0, len;

    for (size_t i = 0; i < *n; i += len) {
        if (kva_text_is_space(kva_text_decode(*s + i, *n - i, &len)))
            continue;
        first = first == *n ? i : first;
        last = i + len;
    }
    *s += last > first ? first : 0;
    *n = last > first ? last - first : 0;
}

static enum kva_status match_upper(const struct kva_metric_in *in,
                                   struct kva_metric_out *out, struct kva_error *err)
{
    const char *s = in->prediction;
    size_t n = in->n;
    struct kva_buf text, word;
    enum kva_status rc;

    out->score = 0;
    kva_buf_init(&text, 0);
    kva_buf_init(&word, 0);
    strip(&s, &n);
    KVA_GO(add_upper(s, n, &text, err));
    for (int i = 0; i < in->n_answers; i++) {
        word.len = 0;
        KVA_GO(add_upper(in->answers[i], strlen(in->answers[i]), &word, err));
        if (holds(text.data, text.len, word.data, word.len))
            out->score = 1;
    }
out:
    kva_buf_release(&text);
    kva_buf_release(&word);
    return rc;
}

/* ---- numbers ---- */

/* Value of a decimal digit at s, or -1. Their code points come in runs of ten. */
static int digit_at(const char *s, size_t n, size_t *len)
{
    uint32_t c, first;

    if (n == 0)
        return -1;
    first = c = kva_text_decode(s, n, len);
    if (!kva_text_is_digit(c))
        return -1;
    while (first > 0 && kva_text_is_digit(first - 1))
        first--;
    return (int)((c - first) % 10);
}

static size_t add_digits(const char *s, size_t n, struct kva_buf *out)
{
    size_t i = 0, len = 0;
    int d;

    for (; (d = digit_at(s + i, n - i, &len)) >= 0; i += len)
        kva_buf_putc(out, (char)('0' + d));
    return i;
}

/* The first number in the text, in ASCII. */
static enum kva_status find_first(const char *s, size_t n, struct kva_buf *out,
                                  struct kva_error *err)
{
    size_t len, at = 0;
    int d = -1;

    while (at < n && (d = digit_at(s + at, n - at, &len)) < 0)
        at += len;
    if (d < 0)
        return KVA_OK;
    at += add_digits(s + at, n - at, out);
    if (at < n && s[at] == '.' && digit_at(s + at + 1, n - at - 1, &len) >= 0) {
        kva_buf_putc(out, '.');
        add_digits(s + at + 1, n - at - 1, out);
    }
    return kva_buf_status(out, err);
}

static bool equals(const char *label, double x)
{
    int64_t whole;
    double real;

    if (kva_parse_i64(label, &whole))
        return x < 0x1p63 && (int64_t)x == whole;
    return kva_parse_f64(label, &real) && real == x;
}

static enum kva_status find_number(const struct kva_metric_in *in,
                                   struct kva_metric_out *out, struct kva_error *err)
{
    struct kva_buf number;
    double x;
    enum kva_status rc;

    out->score = 0;
    out->how = "none";
    kva_buf_init(&number, 0);
    KVA_GO(find_first(in->prediction, in->n, &number, err));
    if (number.len == 0)
        goto out;
    out->how = "number";
    if (out->extracted)
        kva_buf_add(out->extracted, number.data, number.len);
    if (kva_parse_f64(number.data, &x))
        for (int i = 0; i < in->n_answers; i++)
            if (equals(in->answers[i], x))
                out->score = 1;
    if (out->extracted)
        rc = kva_buf_status(out->extracted, err);
out:
    kva_buf_release(&number);
    return rc;
}

/* ---- words ---- */

/* The next word from *at on; false: none is left. */
static bool next_word(const struct kva_text *t, size_t *at, size_t *b, size_t *n)
{
    while (*at < t->n && kva_text_is_space(t->c[*at]))
        ++*at;
    *b = *at;
    while (*at < t->n && !kva_text_is_space(t->c[*at]))
        ++*at;
    *n = *at - *b;
    return *n > 0;
}

static enum kva_status needle_words(const struct kva_metric_in *in,
                                    struct kva_metric_out *out, struct kva_error *err)
{
    struct kva_text text = {0}, want = {0};
    struct kva_map seen, needed;
    size_t at = 0, b, n;
    int found = 0;
    enum kva_status rc;

    out->score = 0;
    kva_map_init(&seen);
    kva_map_init(&needed);
    KVA_GO(kva_text_read_lower(&text, in->prediction, in->n, err));
    KVA_GO(kva_text_read_lower(&want, in->answers[0], strlen(in->answers[0]), err));
    while (next_word(&text, &at, &b, &n))
        KVA_GO(kva_map_put(&seen, text.c + b, n * sizeof text.c[0], 1, NULL, err));
    for (at = 0; next_word(&want, &at, &b, &n);) {
        bool is_new;
        int64_t one;

        KVA_GO(kva_map_put(&needed, want.c + b, n * sizeof want.c[0], 1, &is_new, err));
        found += is_new && kva_map_get(&seen, want.c + b, n * sizeof want.c[0], &one);
    }
    if (needed.count > 0)
        out->score = (double)found / (double)needed.count;
out:
    kva_map_release(&seen);
    kva_map_release(&needed);
    kva_text_release(&text);
    kva_text_release(&want);
    return rc;
}

const struct kva_metric kva_text_substring = {
    .name = "substring",
    .summary = "1 when any reference stands in the output, case and all",
    .source = "SCBench (arXiv:2412.10319), scbench/compute_scores.py, kv retrieval",
    .version = 1,
    .binary = true,
    .score = substring,
};

const struct kva_metric kva_text_match_upper = {
    .name = "match_upper",
    .summary = "1 when any reference, upper-cased, stands in the upper-cased output",
    .source = "SCBench (arXiv:2412.10319), scbench/compute_scores.py, EN.QA",
    .version = 1,
    .binary = true,
    .score = match_upper,
};

const struct kva_metric kva_text_find_number = {
    .name = "find_number",
    .summary = "1 when the first number of the output is the reference",
    .source = "SCBench (arXiv:2412.10319), scbench/compute_scores.py, Math.Find",
    .version = 1,
    .binary = true,
    .score = find_number,
};

const struct kva_metric kva_text_needle_words = {
    .name = "needle_words",
    .summary = "share of the reference's distinct words that the output has",
    .source = "KVCache-Factory's plot of its needle test",
    .version = 1,
    .binary = false,
    .score = needle_words,
};
