/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text.c - code points, their classes and lower case as Python's str has them.
 *
 * Categories and simple lower case are utf8proc's (2.8: Unicode 15; Python 3.11 has 14,
 * 3.12 has 15: they agree on all that 14 knows). The properties Cased and Case_Ignorable,
 * which the final-sigma rule needs, are categories plus the few code points listed here
 * (DerivedCoreProperties.txt). The golden file tests/golden/metrics/unicode.txt holds
 * what Python says of every code point. */
#include "metrics/text.h"

#include <stdlib.h>
#include <utf8proc.h>

uint32_t kva_text_decode(const char *s, size_t n, size_t *len)
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
        return 0xfffdU;
    }
}

void kva_text_encode(uint32_t c, struct kva_buf *out)
{
    utf8proc_uint8_t u[4];
    utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)c, u);

    kva_buf_add(out, u, (size_t)n);
}

/* ---- classes ---- */

static bool in(uint32_t c, uint32_t lo, uint32_t hi)
{
    return c >= lo && c <= hi;
}

bool kva_text_is_space(uint32_t c)
{
    return in(c, 0x09, 0x0d) || in(c, 0x1c, 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || in(c, 0x2000, 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool kva_text_is_alnum(uint32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return in(c, '0', '9') || in(c, 'A', 'Z') || in(c, 'a', 'z');
    k = category(c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
           (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool kva_text_is_digit(uint32_t c)
{
    return c < 0x80 ? in(c, '0', '9') : category(c) == UTF8PROC_CATEGORY_ND;
}

/* Cased, of code points that are not case-ignorable. */
static bool is_cased(uint32_t c)
{
    utf8proc_category_t k = category(c);

    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL ||
           k == UTF8PROC_CATEGORY_LT || c == 0xaa || c == 0xba || /* ordinals */
           in(c, 0x2160, 0x217f) ||                               /* Roman numerals */
           in(c, 0x24b6, 0x24e9) ||                               /* circled letters */
           in(c, 0x1f130, 0x1f149) || in(c, 0x1f150, 0x1f169) || in(c, 0x1f170, 0x1f189);
}

static bool is_case_ignorable(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        /* what may stand inside a word: apostrophe, full stop, colon, middle dot and
         * their variants */
        return c == 0x27 || c == 0x2e || c == 0x3a || c == 0xb7 || c == 0x387 ||
               c == 0x55f || c == 0x5f4 || c == 0x2018 || c == 0x2019 || c == 0x2024 ||
               c == 0x2027 || c == 0xfe13 || c == 0xfe52 || c == 0xfe55 || c == 0xff07 ||
               c == 0xff0e || c == 0xff1a;
    }
}

/* ---- texts ---- */

static enum kva_status reserve(struct kva_text *t, size_t n, struct kva_error *err)
{
    uint32_t *grown;

    t->n = 0;
    if (n <= t->cap)
        return KVA_OK;
    grown = kva_realloc(t->c, n, sizeof grown[0]);
    if (!grown)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for a text of %zu bytes", n);
    t->c = grown;
    t->cap = n;
    return KVA_OK;
}

enum kva_status kva_text_read(struct kva_text *t, const char *s, size_t n,
                              struct kva_error *err)
{
    size_t len;

    KVA_TRY(reserve(t, n, err));
    for (size_t i = 0; i < n; i += len)
        t->c[t->n++] = kva_text_decode(s + i, n - i, &len);
    return KVA_OK;
}

enum { CAPITAL_SIGMA = 0x3a3, SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2, DOTTED_I = 0x130 };

/* The next code point from i on, forwards, that is not case-ignorable, is cased. */
static bool cased_follows(const char *s, size_t n, size_t i)
{
    size_t len;

    for (; i < n; i += len) {
        uint32_t c = kva_text_decode(s + i, n - i, &len);

        if (!is_case_ignorable(c))
            return is_cased(c);
    }
    return false;
}

/* A sigma is final behind a letter and before none; what is case-ignorable does not count
 * (Unicode 3.13, Final_Sigma). Runs of case-ignorable code points are walked through once
 * for the letter in front (`after_cased` is kept while reading) and once for the one
 * behind (a sigma ends the run). */
enum kva_status kva_text_read_lower(struct kva_text *t, const char *s, size_t n,
                                    struct kva_error *err)
{
    bool after_cased = false;
    size_t len;

    /* no code point takes more bytes than its lower case has code points */
    KVA_TRY(reserve(t, n, err));
    for (size_t i = 0; i < n; i += len) {
        uint32_t c = kva_text_decode(s + i, n - i, &len), low = c;

        if (c < 0x80)
            low = in(c, 'A', 'Z') ? c + 32 : c;
        else if (c == CAPITAL_SIGMA)
            low = after_cased && !cased_follows(s, n, i + len) ? FINAL_SIGMA : SIGMA;
        else if (c == DOTTED_I)
            low = 'i';
        else
            low = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
        t->c[t->n++] = low;
        if (c == DOTTED_I)
            t->c[t->n++] = 0x307; /* combining dot above */
        if (!is_case_ignorable(c))
            after_cased = is_cased(c);
    }
    return KVA_OK;
}

void kva_text_release(struct kva_text *t)
{
    free(t->c);
    *t = (struct kva_text){0};
}
