/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_normalise.c - one spelling of an answer (tasks-longbench-math.md B.6 step 1).
 *
 * A chain of passes, each reads a text once and writes the next. What they leave: ASCII
 * blanks only; \frac, \text{}, \le, \ge, \lbrace, \rbrace, ^\circ for all their other
 * names; no \left, no \right, no dollars, no thousands marks. `\\` is never touched: in
 * `\\ ` the second backslash and the blank are no `\ `.
 *
 * Beyond the rules: <= and >= become \le and \ge; a root sign takes a whole number;
 * raised 2 and 3 become powers; \text{sin} is \sin. */
#include "metrics/math.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool starts(struct kva_math_span t, size_t i, const char *word)
{
    size_t n = strlen(word);

    return t.n - i >= n && memcmp(t.s + i, word, n) == 0;
}

/* ---- outer wrappers ---- */

static struct kva_math_span unwrap(struct kva_math_span t)
{
    static const char *const pair[][2] = {
        {"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}, {"**", "**"}};
    bool more = true;

    while (more) {
        more = false;
        t = kva_math_trim(t);
        for (size_t k = 0; k < sizeof pair / sizeof *pair && !more; k++) {
            size_t a = strlen(pair[k][0]), b = strlen(pair[k][1]);

            if (t.n < a + b || !starts(t, 0, pair[k][0]) ||
                !starts(t, t.n - b, pair[k][1]) ||
                (pair[k][1][0] == '$' && t.n > b && t.s[t.n - b - 1] == '\\'))
                continue;
            t.s += a;
            t.n -= a + b;
            more = true;
        }
    }
    return t;
}

/* ---- characters ---- */

static const struct {
    const char *from, *to;
} characters[] = {
    {"\xe2\x88\x92", "-"},
    {"\xe2\x80\x93", "-"},
    {"\xc3\x97", "\\times "},
    {"\xc2\xb7", "\\cdot "},
    {"\xe2\x8b\x85", "\\cdot "},
    {"\xc3\xb7", "\\div "},
    {"\xcf\x80", "\\pi "},
    {"\xe2\x88\x9e", "\\infty "},
    {"\xc2\xb0", "^\\circ "},
    {"\xe2\x88\xaa", "\\cup "},
    {"\xe2\x89\xa4", "\\le "},
    {"\xe2\x89\xa5", "\\ge "},
    {"\xc2\xb1", "\\pm "},
    {"\xe2\x88\x93", "\\mp "},
    {"\xe2\x89\xa0", "\\ne "},
    {"\xe2\x89\x88", "\\approx "},
    {"\xe2\x88\x88", "\\in "},
    {"\xe2\x88\x85", "\\emptyset "},
    {"\xce\xb8", "\\theta "},
    {"\xc2\xb2", "^2"},
    {"\xc2\xb3", "^3"},
    {"<=", "\\le "},
    {">=", "\\ge "},
};

/* A root sign: TeX's \sqrt would take the first digit only. */
static size_t root_sign(struct kva_math_span t, size_t i, struct kva_buf *out)
{
    size_t begin = i + 3, end = begin;

    kva_buf_puts(out, "\\sqrt ");
    while (end < t.n && is_digit(t.s[end]))
        end++;
    if (end > begin) {
        kva_buf_putc(out, '{');
        kva_buf_add(out, t.s + begin, end - begin);
        kva_buf_putc(out, '}');
    }
    return end - i;
}

static size_t character(struct kva_math_span t, size_t i, struct kva_buf *out)
{
    size_t len;

    if (starts(t, i, "\xe2\x88\x9a"))
        return root_sign(t, i, out);
    for (size_t k = 0; k < sizeof characters / sizeof *characters; k++)
        if (t.s[i] == characters[k].from[0] && starts(t, i, characters[k].from)) {
            kva_buf_puts(out, characters[k].to);
            return strlen(characters[k].from);
        }
    if ((unsigned char)t.s[i] < 0x80) {
        kva_buf_putc(out, (unsigned char)t.s[i] <= ' ' || t.s[i] == 0x7f ? ' ' : t.s[i]);
        return 1;
    }
    /* other white space is a blank */
    len = (size_t)kva_utf8_len(t.s + i, t.n - i);
    if ((len == 2 && starts(t, i, "\xc2\xa0")) ||
        (len == 3 && (starts(t, i, "\xe2\x80\xaf") || starts(t, i, "\xe3\x80\x80") ||
                      (starts(t, i, "\xe2\x80") && (unsigned char)t.s[i + 2] <= 0x8b)))) {
        kva_buf_putc(out, ' ');
        return len;
    }
    kva_buf_add(out, t.s + i, len ? len : 1);
    return len ? len : 1;
}

/* ---- thousands marks: {,} and ,\! between a digit and three digits ---- */

static bool three_digits(struct kva_math_span t, size_t i)
{
    return t.n - i >= 3 && is_digit(t.s[i]) && is_digit(t.s[i + 1]) &&
           is_digit(t.s[i + 2]) && (t.n - i == 3 || !is_digit(t.s[i + 3]));
}

static size_t thousands(struct kva_math_span t, size_t i, struct kva_buf *out)
{
    size_t len = starts(t, i, "{,}") ? 3 : starts(t, i, ",\\!") ? 3 : 0;

    if (len && i > 0 && is_digit(t.s[i - 1])) {
        while (i + len < t.n && t.s[i + len] == ' ')
            len++;
        if (three_digits(t, i + len))
            return len;
    }
    kva_buf_putc(out, t.s[i]);
    return 1;
}

/* ---- commands ---- */

enum what { DROP, DELIMITER, BLANK, RENAME, WRAPPER };
static const struct {
    const char *name;
    enum what what;
    const char *to;
} commands[] = {
    {"left", DELIMITER, ""},
    {"right", DELIMITER, ""},
    {"big", DELIMITER, ""},
    {"bigl", DELIMITER, ""},
    {"bigr", DELIMITER, ""},
    {"bigm", DELIMITER, ""},
    {"Big", DELIMITER, ""},
    {"Bigl", DELIMITER, ""},
    {"Bigr", DELIMITER, ""},
    {"Bigm", DELIMITER, ""},
    {"bigg", DELIMITER, ""},
    {"biggl", DELIMITER, ""},
    {"biggr", DELIMITER, ""},
    {"biggm", DELIMITER, ""},
    {"Bigg", DELIMITER, ""},
    {"Biggl", DELIMITER, ""},
    {"Biggr", DELIMITER, ""},
    {"Biggm", DELIMITER, ""},
    {"displaystyle", DROP, ""},
    {"textstyle", DROP, ""},
    {"limits", DROP, ""},
    {"nolimits", DROP, ""},
    {"dfrac", RENAME, "\\frac"},
    {"tfrac", RENAME, "\\frac"},
    {"cfrac", RENAME, "\\frac"},
    {"dbinom", RENAME, "\\binom"},
    {"tbinom", RENAME, "\\binom"},
    {"quad", BLANK, ""},
    {"qquad", BLANK, ""},
    {"leq", RENAME, "\\le "},
    {"leqslant", RENAME, "\\le "},
    {"geq", RENAME, "\\ge "},
    {"geqslant", RENAME, "\\ge "},
    {"lt", RENAME, "<"},
    {"gt", RENAME, ">"},
    {"neq", RENAME, "\\ne "},
    {"degree", RENAME, "^\\circ "},
    {"varnothing", RENAME, "\\emptyset "},
    {"lvert", RENAME, "|"},
    {"rvert", RENAME, "|"},
    {"vert", RENAME, "|"},
    {"imath", RENAME, "i "},
    {"text", WRAPPER, ""},
    {"mbox", WRAPPER, ""},
    {"textbf", WRAPPER, ""},
    {"textit", WRAPPER, ""},
    {"textrm", WRAPPER, ""},
    {"textsf", WRAPPER, ""},
    {"texttt", WRAPPER, ""},
    {"textnormal", WRAPPER, ""},
    {"mathrm", WRAPPER, ""},
    {"mathbf", WRAPPER, ""},
    {"mathit", WRAPPER, ""},
    {"mathsf", WRAPPER, ""},
    {"mathbb", WRAPPER, ""},
    {"operatorname", WRAPPER, ""},
    {"boldsymbol", WRAPPER, ""},
    {"bm", WRAPPER, ""},
    {"emph", WRAPPER, ""},
    {"hbox", WRAPPER, ""},
};

/* What a wrapper holds is the thing itself: \mathrm{i}, \operatorname{arctan}. */
static bool is_bare(struct kva_math_span in)
{
    static const char *const name[] = {"sin",  "cos",    "tan",    "cot",    "sec",
                                       "csc",  "arcsin", "arccos", "arctan", "sinh",
                                       "cosh", "tanh",   "ln",     "log",    "exp"};

    for (size_t k = 0; k < sizeof name / sizeof *name; k++)
        if (kva_math_span_is(in, name[k]))
            return true;
    return false;
}

/* \text{...} and its kin; `i` is behind the command. Returns the end of what is done. */
static size_t wrapper(struct kva_math_span t, size_t i, struct kva_buf *out)
{
    struct kva_math_span in;
    size_t at = i;

    while (at < t.n && t.s[at] == ' ')
        at++;
    if (at >= t.n || t.s[at] != '{')
        return i; /* \bf without braces: the command goes */
    in.s = t.s + at + 1;
    for (in.n = 0; at + 1 + in.n < t.n && is_letter(in.s[in.n]);)
        in.n++;
    if (at + 1 + in.n < t.n && in.s[in.n] == '}') {
        if (kva_math_span_is(in, "i") || kva_math_span_is(in, "e")) {
            kva_buf_putc(out, in.s[0]);
            return at + in.n + 2;
        }
        if (is_bare(in)) {
            kva_buf_putc(out, '\\');
            kva_buf_add(out, in.s, in.n);
            kva_buf_putc(out, ' ');
            return at + in.n + 2;
        }
    }
    kva_buf_puts(out, "\\text{");
    return at + 1;
}

static size_t named_command(struct kva_math_span t, size_t i, struct kva_buf *out)
{
    struct kva_math_span name = {t.s + i + 1, 0};
    size_t end;

    while (i + 1 + name.n < t.n && is_letter(name.s[name.n]))
        name.n++;
    end = i + 1 + name.n;
    for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
        if (!kva_math_span_is(name, commands[k].name))
            continue;
        switch (commands[k].what) {
        case DROP:
            break;
        case DELIMITER:
            while (end < t.n && t.s[end] == ' ')
                end++;
            end += end < t.n && t.s[end] == '.' ? 1 : 0;
            break;
        case BLANK:
            kva_buf_putc(out, ' ');
            break;
        case RENAME:
            kva_buf_puts(out, commands[k].to);
            break;
        case WRAPPER:
            return wrapper(t, end, out) - i;
        }
        return end - i;
    }
    kva_buf_add(out, t.s + i, end - i);
    return end - i;
}

static size_t command(struct kva_math_span t, size_t i, struct kva_buf *out)
{
    char next = i + 1 < t.n ? t.s[i + 1] : '\0';

    if (t.s[i] == '$')
        return 1;
    if (t.s[i] == '~') {
        kva_buf_putc(out, ' ');
        return 1;
    }
    if (t.s[i] != '\\' || i + 1 >= t.n) {
        kva_buf_putc(out, t.s[i]);
        return 1;
    }
    if (is_letter(next))
        return named_command(t, i, out);
    switch (next) {
    case ',':
    case ';':
    case ':':
    case '!':
    case ' ':
        kva_buf_putc(out, ' ');
        break;
    case '$':
        break;
    case '%':
        kva_buf_puts(out, " % ");
        break;
    case '{':
        kva_buf_puts(out, "\\lbrace ");
        break;
    case '}':
        kva_buf_puts(out, "\\rbrace ");
        break;
    default:
        kva_buf_add(out, t.s + i, 2); /* the row break too */
    }
    return 2;
}

/* ---- the whole string ---- */

/* End of "[sign] 1-3 digits, groups of a separator and three digits, [.digits]", when
 * groups are there and what follows cannot belong to a list; else 0. */
static size_t grouped(struct kva_math_span t, size_t i, char separator)
{
    size_t first, end;
    bool found = false;

    while (i < t.n && t.s[i] == ' ')
        i++;
    i += i < t.n && (t.s[i] == '-' || t.s[i] == '+') ? 1 : 0;
    while (i < t.n && t.s[i] == ' ')
        i++;
    for (first = i; i < t.n && is_digit(t.s[i]);)
        i++;
    if (i == first || i - first > 3)
        return 0;
    while (i < t.n && t.s[i] == separator && three_digits(t, i + 1)) {
        i += 4;
        found = true;
    }
    if (found && i + 1 < t.n && t.s[i] == '.')
        for (i++; i < t.n && is_digit(t.s[i]);)
            i++;
    for (end = i; end < t.n && t.s[end] == ' ';)
        end++;
    if (!found || (end < t.n && (t.s[end] == ',' || t.s[end] == ';')))
        return 0;
    /* 1 234/5 and 1 234 \frac15 are something else */
    if (separator == ' ' && end < t.n &&
        (is_digit(t.s[end]) || t.s[end] == '/' || starts(t, end, "\\frac")))
        return 0;
    return i;
}

/* A trailing point goes; 58,500 and 58 500 become one number, behind a last = too. */
static void whole(struct kva_math_span t, struct kva_buf *out)
{
    size_t begin = 0, end;

    t = kva_math_trim(t);
    if (t.n && t.s[t.n - 1] == '.')
        t.n--;
    t = kva_math_trim(t);
    for (size_t i = t.n; i-- > 0 && begin == 0;)
        if (t.s[i] == '=')
            begin = i + 1;
    for (size_t i = 0; i < begin; i++)
        if (t.s[i] == '(') /* a tuple of names takes a tuple */
            begin = 0;
    end = grouped(t, begin, ',');
    if (end == 0)
        end = grouped(t, begin, ' ');
    for (size_t i = 0; i < t.n; i++)
        if (i < begin || i >= end || (t.s[i] != ',' && t.s[i] != ' '))
            kva_buf_putc(out, t.s[i]);
}

/* ---- all of it ---- */

static size_t cut(struct kva_math_span t)
{
    size_t i = 0;

    for (int points = 0; i < t.n && points < MATH_LENGTH; points++) {
        int len = kva_utf8_len(t.s + i, t.n - i);

        i += len > 0 ? (size_t)len : 1;
    }
    return i;
}

typedef size_t (*pass)(struct kva_math_span t, size_t i, struct kva_buf *out);

static void run(pass f, struct kva_math_span t, struct kva_buf *out)
{
    out->len = 0;
    for (size_t i = 0; i < t.n;)
        i += f(t, i, out);
}

struct kva_math_span kva_math_normalise(struct kva_math *m, struct kva_math_span text)
{
    static const pass passes[] = {character, thousands, command};
    struct kva_math_span out = {"", 0}, t = text;
    struct kva_buf a, b, swap;
    char *copy;

    kva_buf_init(&a, 0);
    kva_buf_init(&b, 0);
    t.n = cut(t);
    t = unwrap(t);
    for (size_t k = 0; k < sizeof passes / sizeof *passes; k++) {
        run(passes[k], t, &a);
        t = (struct kva_math_span){a.data ? a.data : "", a.len};
        swap = a;
        a = b;
        b = swap;
    }
    a.len = 0;
    whole(t, &a);
    if (a.failed || b.failed) {
        m->nomem = true;
    } else {
        copy = kva_math_alloc(m, a.len + 1, 1);
        if (copy) {
            if (a.len)
                memcpy(copy, a.data, a.len);
            out = kva_math_trim((struct kva_math_span){copy, a.len});
        }
    }
    kva_buf_release(&a);
    kva_buf_release(&b);
    return out;
}

/* ---- comparison of spellings ---- */

static bool ignored(char c, bool fold)
{
    return c == ' ' || (fold && (c == '\\' || c == '$'));
}

static char folded(char c, bool fold)
{
    return (char)(fold && c >= 'A' && c <= 'Z' ? c + 32 : c);
}

bool kva_math_same_text(struct kva_math_span a, struct kva_math_span b, bool fold)
{
    size_t i = 0, j = 0;

    for (;;) {
        size_t i0 = i, j0 = j;

        while (i < a.n && ignored(a.s[i], fold))
            i++;
        while (j < b.n && ignored(b.s[j], fold))
            j++;
        if (i == a.n || j == b.n)
            return i == a.n && j == b.n;
        if (folded(a.s[i], fold) != folded(b.s[j], fold))
            return false;
        /* a gap between two digits counts on either side */
        if (is_digit(a.s[i]) && i0 > 0 && j0 > 0 && is_digit(a.s[i0 - 1]) &&
            (i > i0) != (j > j0))
            return false;
        i++;
        j++;
    }
}
