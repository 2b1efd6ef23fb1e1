/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_units.c - units at the right end of an answer (tasks-longbench-math.md B.6).
 *
 * Repeated until nothing changes: a percent sign; a degree mark, with C or F; \text{...}
 * with an optional power when something stands before it; a bare word of the list with an
 * optional power when a digit stands somewhere before it. Words of one letter never
 * count, so 2m keeps its variable. */
#include "metrics/math_value.h"

#include <string.h>
#include <strings.h>

static const char *const units[] = {
    "cent",    "cents",   "centimeter", "centimeters", "cm",          "coin",
    "coins",   "cubic",   "day",        "days",        "deg",         "degree",
    "degrees", "digit",   "digits",     "dollar",      "dollars",     "feet",
    "foot",    "ft",      "gallon",     "gallons",     "gram",        "grams",
    "hour",    "hours",   "hr",         "hrs",         "in",          "inch",
    "inches",  "integer", "integers",   "kg",          "kilometer",   "kilometers",
    "km",      "lb",      "lbs",        "liter",       "liters",      "litre",
    "litres",  "marble",  "marbles",    "meter",       "meters",      "metre",
    "metres",  "mile",    "miles",      "millimeter",  "millimeters", "min",
    "minute",  "minutes", "mm",         "month",       "months",      "mph",
    "number",  "ounce",   "ounces",     "oz",          "page",        "pages",
    "people",  "percent", "percentage", "person",      "point",       "points",
    "pound",   "pounds",  "radian",     "radians",     "sec",         "second",
    "seconds", "sq",      "square",     "student",     "students",    "ticket",
    "tickets", "unit",    "units",      "way",         "ways",        "week",
    "weeks",   "yard",    "yards",      "year",        "years"};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool ends(struct kva_math_span t, const char *word)
{
    size_t n = strlen(word);

    return t.n >= n && memcmp(t.s + t.n - n, word, n) == 0;
}

static struct kva_math_span less(struct kva_math_span t, size_t n)
{
    t.n -= n;
    return kva_math_trim(t);
}

/* The mark of sin 30^\circ belongs to the angle. */
static bool has_angle(struct kva_math_span t)
{
    static const char *const name[] = {"sin", "cos", "tan", "cot", "sec", "csc"};

    for (size_t k = 0; k < sizeof name / sizeof *name; k++)
        if (memmem(t.s, t.n, name[k], 3))
            return true;
    return false;
}

static bool strip_degree(struct kva_math_span *t)
{
    static const char *const mark[] = {"^\\circ", "^{\\circ}", "^ \\circ", "^{\\circ }"};
    struct kva_math_span u = *t;

    if (ends(u, "C") || ends(u, "F"))
        u = less(u, 1);
    if (!ends(u, "}") && !ends(u, "\\circ"))
        return false;
    for (size_t k = 0; k < sizeof mark / sizeof *mark; k++)
        if (ends(u, mark[k]) && !has_angle(u)) {
            *t = less(u, strlen(mark[k]));
            return true;
        }
    return false;
}

/* ^2, ^{3} and blanks off the end. */
static struct kva_math_span without_power(struct kva_math_span t)
{
    static const char *const power[] = {"^2", "^3", "^{2}", "^{3}"};

    for (size_t k = 0; k < sizeof power / sizeof *power; k++)
        if (ends(t, power[k]))
            return less(t, strlen(power[k]));
    return t;
}

static bool strip_text(struct kva_math_span *t)
{
    struct kva_math_span u = without_power(*t), rest;
    int depth = 0;

    if (!ends(u, "}"))
        return false;
    rest = u;
    do {
        rest.n--;
        depth += rest.s[rest.n] == '}';
        depth -= rest.s[rest.n] == '{';
    } while (depth > 0 && rest.n > 0);
    rest = kva_math_trim(rest);
    if (depth != 0 || !ends(rest, "\\text"))
        return false;
    rest = less(rest, 5);
    if (rest.n == 0)
        return false;
    *t = rest;
    return true;
}

static bool strip_word(struct kva_math_span *t)
{
    struct kva_math_span u = without_power(*t), word;
    size_t begin = u.n;
    bool digit = false;

    while (begin > 0 && is_letter(u.s[begin - 1]))
        begin--;
    word = (struct kva_math_span){u.s + begin, u.n - begin};
    if (word.n < 2 || (begin > 0 && u.s[begin - 1] == '\\'))
        return false;
    for (size_t i = 0; i < begin; i++)
        digit |= is_digit(u.s[i]);
    if (!digit)
        return false;
    for (size_t k = 0; k < sizeof units / sizeof *units; k++)
        if (word.n == strlen(units[k]) && strncasecmp(word.s, units[k], word.n) == 0) {
            *t = less(u, word.n);
            return true;
        }
    return false;
}

struct kva_math_span kva_math_strip_units(struct kva_math *m, struct kva_math_span t,
                                          bool *percent)
{
    bool more = true;

    t = kva_math_trim(t);
    *percent = false;
    while (more && m->work > 0) {
        m->work -= (long)t.n / 8 + 1;
        more = false;
        if (ends(t, "%")) {
            t = less(t, 1);
            *percent = more = true;
        }
        more |= strip_degree(&t) || strip_text(&t) || strip_word(&t);
    }
    return t;
}
