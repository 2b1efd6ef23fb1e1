/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_hendrycks.c - the string normalisation of hendrycks/math (arXiv 2103.03874) as
 * lm-evaluation-harness 0.4.9.1 has it in hendrycks_math, byte for byte.
 *
 * Where the original raises - two \text{ , a \sqrt or \frac at the end, a/b of no
 * integers - the result is "no normal form", and the strings are compared as they are. */
#include "metrics/math_public.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t count(struct kva_math_span t, const char *word)
{
    size_t n = 0;

    for (const char *p = t.s;
         t.n && (p = memmem(p, (size_t)(t.s + t.n - p), word, strlen(word)));
         p += strlen(word))
        n++;
    return n;
}

static struct kva_math_span prefixed(struct kva_math *m, const char *prefix,
                                     struct kva_math_span t)
{
    size_t n = strlen(prefix);
    char *p = kva_math_alloc(m, n + t.n + 1, 1);

    if (!p)
        return (struct kva_math_span){"", 0};
    memcpy(p, prefix, n);
    memcpy(p + n, t.s, t.n);
    return (struct kva_math_span){p, n + t.n};
}

static size_t point_len(struct kva_math_span t, size_t i)
{
    int len = kva_utf8_len(t.s + i, t.n - i);

    return len > 0 ? (size_t)len : 1;
}

/* Bytes of one piece behind `word` that get braces: a point not in braces, or two. */
static size_t put(char *p, const char *s, size_t n, bool braces)
{
    size_t at = 0;

    if (braces)
        p[at++] = '{';
    memcpy(p + at, s, n);
    at += n;
    if (braces)
        p[at++] = '}';
    return at;
}

/* \sqrt3 -> \sqrt{3}; false: nothing stands behind a \sqrt. */
static bool fix_sqrt(struct kva_math *m, struct kva_math_span *t)
{
    static const char word[] = "\\sqrt";
    const size_t len = sizeof word - 1;
    char *p = kva_math_alloc(m, 2 * t->n + 16, 1);
    size_t n = 0;

    if (!p)
        return false;
    for (size_t i = 0; i < t->n;) {
        if (t->n - i < len || memcmp(t->s + i, word, len) != 0) {
            p[n++] = t->s[i++];
            continue;
        }
        memcpy(p + n, word, len);
        n += len;
        i += len;
        if (i == t->n || (t->n - i >= len && memcmp(t->s + i, word, len) == 0))
            return false;
        if (t->s[i] != '{') {
            size_t a = point_len(*t, i);

            n += put(p + n, t->s + i, a, true);
            i += a;
        }
    }
    *t = (struct kva_math_span){p, n};
    return true;
}

/* \frac12 -> \frac{1}{2}, \frac1{72} -> \frac{1}{72}. */
static bool fix_fracs(struct kva_math *m, struct kva_math_span *t)
{
    static const char word[] = "\\frac";
    const size_t len = sizeof word - 1;
    char *p = kva_math_alloc(m, 2 * t->n + 16, 1);
    size_t n = 0;

    if (!p)
        return false;
    for (size_t i = 0; i < t->n;) {
        const char *stop;
        size_t end, a, b;

        if (t->n - i < len || memcmp(t->s + i, word, len) != 0) {
            p[n++] = t->s[i++];
            continue;
        }
        memcpy(p + n, word, len);
        n += len;
        i += len;
        stop = memmem(t->s + i, t->n - i, word, len);
        end = stop ? (size_t)(stop - t->s) : t->n; /* of this piece */
        if (i == end)
            return false;
        if (t->s[i] == '{')
            continue;
        a = point_len(*t, i);
        if (i + a >= end)
            return true; /* one point only: everything stays as it was */
        b = point_len(*t, i + a);
        n += put(p + n, t->s + i, a, true);
        n += put(p + n, t->s + i + a, b, t->s[i + a] != '{');
        i += a + b;
    }
    *t = (struct kva_math_span){p, n};
    return true;
}

/* What Python's int() takes; *plain: printing it gives the same text. */
static bool is_int(struct kva_math_span t, bool *plain)
{
    size_t sign = t.n && (t.s[0] == '-' || t.s[0] == '+') ? 1 : 0;

    *plain = t.n > sign && t.s[0] != '+' && (t.s[sign] != '0' || (t.n == 1 && sign == 0));
    if (t.n == sign || !is_digit(t.s[t.n - 1]))
        return false;
    for (size_t i = sign; i < t.n; i++) {
        if (t.s[i] == '_' && i > sign && t.s[i - 1] != '_')
            *plain = false;
        else if (!is_digit(t.s[i]))
            return false;
    }
    return true;
}

static bool fix_a_slash_b(struct kva_math *m, struct kva_math_span *t)
{
    const char *slash = t->n ? memchr(t->s, '/', t->n) : NULL;
    struct kva_math_span a, b;
    bool plain_a, plain_b;
    char *p;
    size_t n = 0;

    if (count(*t, "/") != 1)
        return true;
    a = (struct kva_math_span){t->s, (size_t)(slash - t->s)};
    b = (struct kva_math_span){slash + 1, t->n - a.n - 1};
    if (!is_int(a, &plain_a) || !is_int(b, &plain_b))
        return false;
    if (!plain_a || !plain_b)
        return true;
    p = kva_math_alloc(m, t->n + 16, 1);
    if (!p)
        return false;
    memcpy(p, "\\frac", 5);
    n = 5;
    n += put(p + n, a.s, a.n, true);
    n += put(p + n, b.s, b.n, true);
    *t = (struct kva_math_span){p, n};
    return true;
}

/* "k = " of two code points at most goes. */
static struct kva_math_span without_name(struct kva_math_span t)
{
    const char *equals = t.n ? memchr(t.s, '=', t.n) : NULL;
    size_t points = 0;

    if (count(t, "=") != 1)
        return t;
    for (size_t i = 0; t.s + i < equals; i += point_len(t, i))
        points++;
    return points <= 2
               ? (struct kva_math_span){equals + 1, t.n - (size_t)(equals - t.s) - 1}
               : t;
}

bool kva_math_hendrycks_normal(struct kva_math *m, struct kva_math_span text,
                               struct kva_math_span *out)
{
    static const char *const replaced[][2] = {
        {"\n", ""},        {"\\!", ""},    {"\\\\", "\\"},  {"tfrac", "frac"},
        {"dfrac", "frac"}, {"\\left", ""}, {"\\right", ""}, {"^{\\circ}", ""},
        {"^\\circ", ""},   {"\\$", ""}};
    static const char unit[] = "\\text{ ", half[] = "\\frac{1}{2}";
    struct kva_math_span t = text;

    for (size_t k = 0; k < sizeof replaced / sizeof *replaced; k++)
        t = kva_math_replace(m, t, replaced[k][0], replaced[k][1]);
    if (count(t, unit) > 1)
        return false;
    if (count(t, unit) == 1)
        t.n = (size_t)((const char *)memmem(t.s, t.n, unit, sizeof unit - 1) - t.s);
    t = kva_math_replace(m, t, "\\%", "");
    t = kva_math_replace(m, t, " .", " 0.");
    t = kva_math_replace(m, t, "{.", "{0.");
    if (t.n && t.s[0] == '.')
        t = prefixed(m, "0", t);
    t = without_name(t);
    if (t.n && !fix_sqrt(m, &t))
        return false;
    t = kva_math_replace(m, t, " ", "");
    if (t.n && !fix_fracs(m, &t))
        return false;
    if (kva_math_span_is(t, "0.5"))
        t = kva_math_span_of(half);
    if (!fix_a_slash_b(m, &t))
        return false;
    *out = t;
    return true;
}
