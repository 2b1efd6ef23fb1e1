/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_extract.c - the answer in a generated text (tasks-longbench-math.md B.4,
 * B.6.1.11).
 *
 *   1. behind the last </think> the last box; else in the whole text the last box
 *        box := (\boxed | \fbox) blanks ( { balanced } | run up to blank, $ or \ )
 *   2. no box: behind the last "answer is" or "answer:", the rest of the line
 *   3. else the last number  -?digits[,digits]*[.digits][/digits]
 *
 * A box that never closes, or holds nothing, is none. All braces are matched in one pass
 * with a stack, so 10^5 open boxes cost no more than 10^5 letters. */
#include "metrics/math.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct kva_math_span kva_math_span_of(const char *s)
{
    return (struct kva_math_span){s, strlen(s)};
}

struct kva_math_span kva_math_trim(struct kva_math_span t)
{
    while (t.n && is_blank(t.s[0]))
        t.s++, t.n--;
    while (t.n && is_blank(t.s[t.n - 1]))
        t.n--;
    return t;
}

bool kva_math_span_is(struct kva_math_span t, const char *s)
{
    return t.n == strlen(s) && memcmp(t.s, s, t.n) == 0;
}

void kva_math_init(struct kva_math *m, struct kva_arena *arena)
{
    *m = (struct kva_math){.arena = arena, .work = MATH_WORK};
}

void *kva_math_alloc(struct kva_math *m, size_t count, size_t size)
{
    void *p = kva_arena_alloc(m->arena, count, size);

    if (!p)
        m->nomem = true;
    return p;
}

enum kva_status kva_math_status(const struct kva_math *m, struct kva_error *err)
{
    if (m->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "no memory to grade an answer");
    return KVA_OK;
}

/* ---- boxes ---- */

struct box {
    size_t at;         /* of the backslash */
    size_t begin, end; /* content; end = 0: never closed */
    size_t behind;     /* first byte behind the box */
};
struct boxes {
    struct box *box;
    size_t n;
};

/* Length of "\boxed" or "\fbox" with the blanks behind it, 0: none here. */
static size_t box_command(const char *s, size_t n)
{
    size_t i = 0;

    if (n >= 6 && memcmp(s, "\\boxed", 6) == 0)
        i = 6;
    else if (n >= 5 && memcmp(s, "\\fbox", 5) == 0)
        i = 5;
    if (i == 0 ||
        (i < n && ((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z'))))
        return 0;
    while (i < n && is_blank(s[i]))
        i++;
    return i;
}

static size_t count_char(const char *s, size_t n, char c)
{
    size_t count = 0;

    for (const char *p = s; (p = memchr(p, c, n - (size_t)(p - s))); p++)
        count++;
    return count;
}

static void add_bare(struct boxes *b, const char *s, size_t n, size_t at, size_t i)
{
    size_t end = i;

    while (end < n && !is_blank(s[end]) && s[end] != '$' && s[end] != '\\' &&
           s[end] != '}')
        end++;
    if (end > i)
        b->box[b->n++] = (struct box){at, i, end, end};
}

/* Closed boxes that hold something, in the order in which they begin. */
static struct boxes find_boxes(struct kva_math *m, const char *s, size_t n)
{
    enum { NO_BOX = -1 };
    struct boxes b = {0};
    size_t braces = count_char(s, n, '{'), open = 0, kept = 0;
    ptrdiff_t *owner = kva_math_alloc(m, braces + 1, sizeof *owner);

    b.box = kva_math_alloc(m, count_char(s, n, '\\') + 1, sizeof *b.box);
    if (!owner || !b.box)
        return (struct boxes){0};
    for (size_t i = 0; i < n; i++) {
        size_t skip = s[i] == '\\' ? box_command(s + i, n - i) : 0;

        if (skip && i + skip < n && s[i + skip] == '{') {
            owner[open++] = (ptrdiff_t)b.n;
            b.box[b.n++] = (struct box){i, i + skip + 1, 0, 0};
            i += skip;
        } else if (skip) {
            add_bare(&b, s, n, i, i + skip);
        } else if (s[i] == '\\') {
            i += i + 1 < n && box_command(s + i + 1, n - i - 1) == 0;
        } else if (s[i] == '{') {
            owner[open++] = NO_BOX;
        } else if (s[i] == '}' && open > 0 && owner[--open] != NO_BOX) {
            b.box[owner[open]].end = i;
            b.box[owner[open]].behind = i + 1;
        }
    }
    for (size_t i = 0; i < b.n; i++) {
        struct kva_math_span in = {s + b.box[i].begin, b.box[i].end - b.box[i].begin};

        if (b.box[i].end && kva_math_trim(in).n)
            b.box[kept++] = b.box[i];
    }
    b.n = kept;
    return b;
}

/* Is the text between two boxes that of one list? Only blanks, dollars, \( \) , ;
 * \quad, \text{ } and the word "and"; a comma, a semicolon or "and" at least. Never
 * "or": two boxes with "or" are two forms of one answer. */
static bool joins(const char *s, size_t n)
{
    static const char *const glue[] = {"\\(", "\\)", "\\quad", "\\text{"};
    bool separated = false;

    for (size_t i = 0; i < n;) {
        size_t k = 0, len = 0;

        for (; k < sizeof glue / sizeof *glue && len == 0; k++)
            if (n - i >= strlen(glue[k]) && memcmp(s + i, glue[k], strlen(glue[k])) == 0)
                len = strlen(glue[k]);
        if (len == 0 && n - i >= 3 && memcmp(s + i, "and", 3) == 0) {
            len = 3;
            separated = true;
        } else if (len == 0 && (s[i] == ',' || s[i] == ';')) {
            len = 1;
            separated = true;
        } else if (len == 0 && (is_blank(s[i]) || s[i] == '$' || s[i] == '}')) {
            len = 1;
        }
        if (len == 0)
            return false;
        i += len;
    }
    return separated;
}

static struct kva_math_span join_boxes(struct kva_math *m, const char *s,
                                       const struct boxes *b)
{
    struct kva_math_span out = {NULL, 0};
    size_t first = b->n - 1, room = 0, at = 0;
    char *p;

    while (
        first > 0 && b->box[first - 1].behind <= b->box[first].at &&
        joins(s + b->box[first - 1].behind, b->box[first].at - b->box[first - 1].behind))
        first--;
    if (first == b->n - 1)
        return out;
    for (size_t i = first; i < b->n; i++)
        room += b->box[i].end - b->box[i].begin + 1;
    p = kva_math_alloc(m, room + 1, 1);
    if (!p)
        return out;
    for (size_t i = first; i < b->n; i++) {
        size_t len = b->box[i].end - b->box[i].begin;

        if (i > first)
            p[at++] = ',';
        memcpy(p + at, s + b->box[i].begin, len);
        at += len;
    }
    return (struct kva_math_span){p, at};
}

static bool boxed(struct kva_math *m, const char *s, size_t n,
                  struct kva_math_answer *out)
{
    struct boxes b = find_boxes(m, s, n);

    if (b.n == 0)
        return false;
    out->how = KVA_MATH_BOXED;
    out->answer.s = s + b.box[b.n - 1].begin;
    out->answer.n = b.box[b.n - 1].end - b.box[b.n - 1].begin;
    out->joined = join_boxes(m, s, &b);
    return true;
}

/* ---- no box ---- */

static bool same_word(const char *s, const char *lower, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]) != lower[i])
            return false;
    return true;
}

/* "final answer is", "final answer:" end where these end. */
static bool phrase(const char *s, size_t n, struct kva_math_answer *out)
{
    static const char is[] = "answer is", colon[] = "answer:";

    for (size_t i = n; i-- > 0;) {
        struct kva_math_span t = {s, 0};

        if (n - i >= sizeof is - 1 && same_word(s + i, is, sizeof is - 1))
            t.s = s + i + sizeof is - 1;
        else if (n - i >= sizeof colon - 1 && same_word(s + i, colon, sizeof colon - 1))
            t.s = s + i + sizeof colon - 1;
        else
            continue;
        while (t.s + t.n < s + n && t.s[t.n] != '\n')
            t.n++;
        while (t.n && (is_blank(t.s[0]) || t.s[0] == ':' || t.s[0] == '*'))
            t.s++, t.n--;
        while (t.n &&
               (is_blank(t.s[t.n - 1]) || t.s[t.n - 1] == '.' || t.s[t.n - 1] == '*'))
            t.n--;
        if (t.n == 0)
            return false;
        out->answer = t;
        out->how = KVA_MATH_PHRASE;
        return true;
    }
    return false;
}

static size_t digits(const char *s, size_t n, size_t i)
{
    while (i < n && is_digit(s[i]))
        i++;
    return i;
}

/* A separator with digits behind it. */
static bool more_digits(const char *s, size_t n, size_t *i, char separator)
{
    if (*i + 1 >= n || s[*i] != separator || !is_digit(s[*i + 1]))
        return false;
    *i = digits(s, n, *i + 1);
    return true;
}

static bool number(const char *s, size_t n, struct kva_math_answer *out)
{
    for (size_t i = 0, end; i < n; i = end) {
        size_t begin = i;

        end = i + 1;
        if (s[i] == '-' && i + 1 < n && is_digit(s[i + 1]))
            i++;
        if (!is_digit(s[i]))
            continue;
        end = digits(s, n, i);
        while (more_digits(s, n, &end, ','))
            ;
        (void)more_digits(s, n, &end, '.');
        (void)more_digits(s, n, &end, '/');
        out->answer = (struct kva_math_span){s + begin, end - begin};
        out->how = KVA_MATH_NUMBER;
    }
    return out->how == KVA_MATH_NUMBER;
}

struct kva_math_answer kva_math_extract(struct kva_math *m, const char *text, size_t n)
{
    static const char think[] = "</think>";
    struct kva_math_answer out = {{text, 0}, KVA_MATH_NONE, {NULL, 0}};
    size_t at = n;

    for (size_t i = n; at == n && i-- > 0;)
        if (n - i >= sizeof think - 1 && memcmp(text + i, think, sizeof think - 1) == 0)
            at = i + sizeof think - 1;
    if (at < n && boxed(m, text + at, n - at, &out))
        return out;
    if (!boxed(m, text, n, &out) && !phrase(text, n, &out))
        (void)number(text, n, &out);
    return out;
}

const char *kva_math_how_name(enum kva_math_how how)
{
    static const char *const name[] = {"none", "number", "phrase", "boxed"};

    return name[how];
}
