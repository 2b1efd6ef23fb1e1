/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_minerva.c - the Minerva grader (appendix D of arXiv 2206.14858) as
 * lm-evaluation-harness 0.4.9.1 has it in minerva_math: string rules, then
 * simplify(parse_latex(p) - parse_latex(g)) == 0.
 *
 * The string rules are reproduced to the byte, oddities included: \frac9{19} becomes
 * \frac{9}{{}19}. For sympy stands math_latex.c and the values at MATH_POINTS complex
 * points. Against the original (sympy 1.14, antlr 4.11) on the pairs of
 * tests/golden/metrics/math-graders.jsonl: normal forms 1,193 of 1,193; verdicts 870 of
 * 870 for vectors, golds with themselves and rewritings, 1,187 of 1,193 with odd inputs
 * of our own, such as 51!/50! or integers of 45 digits; tests name the six. 28 of the 500
 * golds of MATH-500 fail against themselves, as published; harness 0.4.13 accepts
 * identical strings and treats units otherwise: another grader. */
#include "metrics/math_public.h"

#include <math.h>
#include <string.h>

static const char *const substitutions[][2] = {
    {"an ", ""},          {"a ", ""},
    {".$", "$"},          {"\\$", ""},
    {"\\ ", ""},          {" ", ""},
    {"mbox", "text"},     {",\\text{and}", ","},
    {"\\text{and}", ","}, {"\\text{m}", "\\text{}"},
};

static const char *const removed[] = {"square",       "ways",
                                      "integers",     "dollars",
                                      "mph",          "inches",
                                      "ft",           "hours",
                                      "km",           "units",
                                      "\\ldots",      "sue",
                                      "points",       "feet",
                                      "minutes",      "digits",
                                      "cents",        "degrees",
                                      "cm",           "gm",
                                      "pounds",       "meters",
                                      "meals",        "edges",
                                      "students",     "childrentickets",
                                      "multiples",    "\\text{s}",
                                      "\\text{.}",    "\\text{\ns}",
                                      "\\text{}^2",   "\\text{}^3",
                                      "\\text{\n}",   "\\text{}",
                                      "\\mathrm{th}", "^\\circ",
                                      "^{\\circ}",    "\\;",
                                      ",\\!",         "{,}",
                                      "\"",           "\\dots"};

static bool starts(struct kva_math_span t, size_t i, const char *word)
{
    size_t n = strlen(word);

    return t.n - i >= n && memcmp(t.s + i, word, n) == 0;
}

struct kva_math_span kva_math_replace(struct kva_math *m, struct kva_math_span t,
                                      const char *from, const char *to)
{
    size_t n = strlen(from), with = strlen(to), hits = 0, at = 0;
    char *p;

    for (size_t i = 0; i < t.n; i += starts(t, i, from) ? n : 1)
        hits += starts(t, i, from);
    if (hits == 0)
        return t;
    p = kva_math_alloc(m, t.n + hits * with + 1, 1);
    if (!p)
        return (struct kva_math_span){"", 0};
    for (size_t i = 0; i < t.n;) {
        if (starts(t, i, from)) {
            memcpy(p + at, to, with);
            at += with;
            i += n;
        } else {
            p[at++] = t.s[i++];
        }
    }
    return (struct kva_math_span){p, at};
}

static size_t line_end(struct kva_math_span t, size_t i)
{
    while (i < t.n && t.s[i] != '\n')
        i++;
    return i;
}

/* (.*?)$(.*?)$(.*) -> $\2$, line by line. */
static struct kva_math_span between_dollars(struct kva_math *m, struct kva_math_span t)
{
    char *p = kva_math_alloc(m, t.n + 1, 1);
    size_t n = 0;

    if (!p)
        return (struct kva_math_span){"", 0};
    for (size_t i = 0; i <= t.n;) {
        size_t end = line_end(t, i);
        const char *a = end > i ? memchr(t.s + i, '$', end - i) : NULL;
        const char *b = a ? memchr(a + 1, '$', (size_t)(t.s + end - a - 1)) : NULL;
        const char *from = b ? a : t.s + i;
        size_t len = b ? (size_t)(b - a) + 1 : end - i;

        memcpy(p + n, from, len);
        n += len;
        if (end < t.n)
            p[n++] = '\n';
        i = end + 1;
    }
    return (struct kva_math_span){p, n};
}

/* open (.*?) } -> \2; greedy: up to the last } of the line. */
static struct kva_math_span unwrapped(struct kva_math *m, struct kva_math_span t,
                                      const char *open, bool greedy)
{
    char *p = kva_math_alloc(m, t.n + 1, 1);
    size_t n = 0;

    if (!p)
        return (struct kva_math_span){"", 0};
    for (size_t i = 0; i < t.n;) {
        size_t begin = i + strlen(open), end = line_end(t, i);
        const char *close = NULL;

        if (starts(t, i, open) && begin <= end)
            close = greedy ? memrchr(t.s + begin, '}', end - begin)
                           : memchr(t.s + begin, '}', end - begin);
        if (close) {
            size_t len = (size_t)(close - t.s) - begin;

            memcpy(p + n, t.s + begin, len);
            n += len;
            i = begin + len + 1;
        } else {
            p[n++] = t.s[i++];
        }
    }
    return (struct kva_math_span){p, n};
}

static size_t point_len(struct kva_math_span t, size_t i)
{
    int len = kva_utf8_len(t.s + i, t.n - i);

    return len > 0 ? (size_t)len : 1;
}

/* word [^{] . -> word{\1}{\2}; without the last point for one argument. */
static struct kva_math_span with_braces(struct kva_math *m, struct kva_math_span t,
                                        const char *word, int n_args)
{
    char *p = kva_math_alloc(m, 2 * t.n + 16, 1);
    size_t n = 0, len = strlen(word);

    if (!p)
        return (struct kva_math_span){"", 0};
    for (size_t i = 0; i < t.n;) {
        size_t a = i + len, b, end;

        if (!starts(t, i, word) || a >= t.n || t.s[a] == '{')
            goto copy;
        b = a + point_len(t, a);
        end = b;
        if (n_args == 2) {
            if (b >= t.n || t.s[b] == '\n')
                goto copy;
            end = b + point_len(t, b);
        }
        memcpy(p + n, word, len);
        n += len;
        for (size_t from = a, to = b; from < end; from = to, to = end) {
            p[n++] = '{';
            memcpy(p + n, t.s + from, to - from);
            n += to - from;
            p[n++] = '}';
        }
        i = end;
        continue;
    copy:
        p[n++] = t.s[i++];
    }
    return (struct kva_math_span){p, n};
}

static bool is_number_with_commas(struct kva_math_span t)
{
    bool digit = false;

    for (size_t i = 0; i < t.n; i++) {
        if (t.s[i] != ',' && (t.s[i] < '0' || t.s[i] > '9'))
            return false;
        digit |= t.s[i] != ',';
    }
    return digit;
}

struct kva_math_span kva_math_minerva_normal(struct kva_math *m,
                                             struct kva_math_span text)
{
    const char *equals = text.n ? memrchr(text.s, '=', text.n) : NULL;
    struct kva_math_span t = text;

    if (t.n > 4 * MATH_LENGTH)
        t.n = 4 * MATH_LENGTH;
    if (equals && (size_t)(equals - text.s) < t.n) {
        t.n -= (size_t)(equals - text.s) + 1;
        t.s = equals + 1;
    }
    for (size_t k = 0; k < sizeof substitutions / sizeof *substitutions; k++)
        t = kva_math_replace(m, t, substitutions[k][0], substitutions[k][1]);
    for (size_t k = 0; k < sizeof removed / sizeof *removed; k++)
        t = kva_math_replace(m, t, removed[k], "");
    t = between_dollars(m, t);
    t = unwrapped(m, t, "\\text{", false);
    t = unwrapped(m, t, "\\textbf{", false);
    t = unwrapped(m, t, "\\overline{", false);
    t = unwrapped(m, t, "\\boxed{", true);
    t = with_braces(m, t, "frac", 2);
    t = with_braces(m, t, "sqrt", 1);
    t = kva_math_replace(m, t, "$", "");
    return is_number_with_commas(t) ? kva_math_replace(m, t, ",", "") : t;
}

bool kva_math_minerva_same(struct kva_math *m, struct kva_math_span p,
                           struct kva_math_span g)
{
    const long double tolerance = 1e-15L;
    const struct kva_math_node *a = kva_math_latex_read(m, p);
    const struct kva_math_node *b = kva_math_latex_read(m, g);
    int left = 0;

    if (!a || !b)
        return false;
    /* what is the same cancels without being evaluated, but for oo - oo */
    if (p.n == g.n && memcmp(p.s, g.s, p.n) == 0 && !memmem(p.s, p.n, "\\infty", 6))
        return true;
    for (int i = 0; i < MATH_POINTS; i++) {
        struct kva_math_num x = kva_math_eval(a, 1, i), y = kva_math_eval(b, 1, i);

        if (!x.ok || !y.ok)
            continue;
        if (x.exact && y.exact
                ? !kva_rational_same(x.r, y.r)
                : cabsl(x.z - y.z) > tolerance * fmaxl(cabsl(x.z), cabsl(y.z)) +
                                         16 * (x.noise + y.noise))
            return false;
        left++;
    }
    return left >= MATH_POINTS_LEAST;
}
