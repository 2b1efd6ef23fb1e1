/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_match.c - RULER's string_match_all and string_match_part.
 *
 *     match_all  = mean over references of [lower(reference) in lower(post(prediction))]
 *     match_part = max  over references of the same
 *
 * post: strip white space, replace each control character (0x00-0x1f) by a line feed,
 * strip. The reference is lowered and nothing else. Lowering maps one code point to one:
 * ASCII, Latin-1 and Latin Extended, Greek, Cyrillic, Armenian, full-width letters;
 * Python's few others (dotted capital I, final sigma, Georgian, Cherokee and smaller
 * scripts) keep their case here. */
#include "metrics/metric.h"

#include <string.h>

/* Code point at s and its length; an invalid byte stands for itself, apart from all
 * characters. */
static uint32_t decode(const char *s, size_t n, size_t *len)
{
    const unsigned char *u = (const unsigned char *)s;
    int k = kva_utf8_len(s, n);

    *len = k > 1 ? (size_t)k : 1;
    switch (k) {
    case 1:
        return u[0];
    case 2:
        return (u[0] & 0x1fU) << 6 | (u[1] & 0x3fU);
    case 3:
        return (u[0] & 0x0fU) << 12 | (u[1] & 0x3fU) << 6 | (u[2] & 0x3fU);
    case 4:
        return (u[0] & 0x07U) << 18 | (u[1] & 0x3fU) << 12 | (u[2] & 0x3fU) << 6 |
               (u[3] & 0x3fU);
    default:
        return 0x110000U + u[0];
    }
}

static bool in(uint32_t c, uint32_t lo, uint32_t hi)
{
    return c >= lo && c <= hi;
}

static uint32_t lower(uint32_t c)
{
    if (c < 0x80)
        return in(c, 'A', 'Z') ? c + 32 : c;
    if (in(c, 0xc0, 0xde))
        return c == 0xd7 ? c : c + 32;
    /* upper case on even code points, lower case one above */
    if (in(c, 0x100, 0x12f) || in(c, 0x132, 0x137) || in(c, 0x14a, 0x177) ||
        in(c, 0x1de, 0x1ef) || in(c, 0x1f8, 0x21f) || in(c, 0x222, 0x233) ||
        in(c, 0x370, 0x373) || in(c, 0x3d8, 0x3ef) || in(c, 0x460, 0x481) ||
        in(c, 0x48a, 0x4bf) || in(c, 0x4d0, 0x52f) || in(c, 0x1e00, 0x1e95) ||
        in(c, 0x1ea0, 0x1eff))
        return c & 1 ? c : c + 1;
    /* upper case on odd code points */
    if (in(c, 0x139, 0x148) || in(c, 0x179, 0x17e) || in(c, 0x1cd, 0x1dc) ||
        in(c, 0x4c1, 0x4ce))
        return c & 1 ? c + 1 : c;
    if (c == 0x178)
        return 0xff;
    if (c == 0x386)
        return 0x3ac;
    if (in(c, 0x388, 0x38a))
        return c + 37;
    if (c == 0x38c)
        return 0x3cc;
    if (c == 0x38e || c == 0x38f)
        return c + 63;
    if (in(c, 0x391, 0x3ab))
        return c == 0x3a2 ? c : c + 32;
    if (in(c, 0x400, 0x40f))
        return c + 80;
    if (in(c, 0x410, 0x42f))
        return c + 32;
    if (c == 0x4c0)
        return 0x4cf;
    if (in(c, 0x531, 0x556))
        return c + 48;
    if (c == 0x1e9e)
        return 0xdf;
    if (in(c, 0xff21, 0xff3a))
        return c + 32;
    return c;
}

/* What Python's str.strip() removes. */
static bool is_space(uint32_t c)
{
    return in(c, 0x09, 0x0d) || in(c, 0x1c, 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || in(c, 0x2000, 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The part of a prediction that the official post-processing leaves. Control characters
 * become line feeds between two strips, so at the ends all of them go. */
static void strip(const char **s, size_t *n)
{
    size_t first = *n, last = 0, len;

    for (size_t i = 0; i < *n; i += len) {
        uint32_t c = decode(*s + i, *n - i, &len);

        if (c < 0x20 || is_space(c))
            continue;
        if (first == *n)
            first = i;
        last = i + len;
    }
    if (last <= first) {
        *n = 0;
        return;
    }
    *s += first;
    *n = last - first;
}

static bool starts_with(const char *s, size_t n, const char *word, size_t m)
{
    size_t a, b;

    for (size_t i = 0, j = 0; j < m; i += a, j += b) {
        uint32_t x, y;

        if (i >= n)
            return false;
        x = decode(s + i, n - i, &a);
        y = decode(word + j, m - j, &b);
        if (lower(x < 0x20 ? '\n' : x) != lower(y))
            return false;
    }
    return true;
}

static bool contains(const char *prediction, const char *word)
{
    size_t n, m, len;

    if (!word)
        return false;
    m = strlen(word);
    n = strlen(prediction);
    strip(&prediction, &n);
    if (m == 0)
        return true;
    for (size_t i = 0; i < n; i += len) {
        if (starts_with(prediction + i, n - i, word, m))
            return true;
        decode(prediction + i, n - i, &len);
    }
    return false;
}

static int hits(const char *prediction, const char *const *answers, int n)
{
    int found = 0;

    if (n < 1 || !answers[0]) /* nothing to find: 0, not a division by 0 */
        return 0;
    for (int i = 0; i < n; i++)
        found += contains(prediction, answers[i]);
    return found;
}

static enum kva_status match_all(const struct kva_metric_in *in,
                                 struct kva_metric_out *out, struct kva_error *err)
{
    int found = hits(in->prediction, in->answers, in->n_answers);

    (void)err;
    out->score = found ? (double)found / in->n_answers : 0;
    return KVA_OK;
}

static enum kva_status match_part(const struct kva_metric_in *in,
                                  struct kva_metric_out *out, struct kva_error *err)
{
    (void)err;
    out->score = hits(in->prediction, in->answers, in->n_answers) > 0 ? 1 : 0;
    return KVA_OK;
}

const struct kva_metric kva_text_match_all = {
    .name = "match_all",
    .summary = "share of the references that stand in the output, case ignored",
    .source = "RULER, scripts/eval/synthetic/constants.py, string_match_all",
    .version = 1,
    .binary = true,
    .score = match_all,
};

const struct kva_metric kva_text_match_part = {
    .name = "match_part",
    .summary = "1 when any reference stands in the output, case ignored",
    .source = "RULER, scripts/eval/synthetic/constants.py, string_match_part",
    .version = 1,
    .binary = true,
    .score = match_part,
};
