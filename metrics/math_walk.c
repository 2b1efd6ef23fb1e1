/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_walk.c - tokens and brackets of a normalised answer. */
#include "metrics/math_value.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct kva_math_walk kva_math_walk_new(struct kva_math *m, struct kva_math_span text)
{
    return (struct kva_math_walk){.m = m, .text = text};
}

bool kva_math_step(struct kva_math_walk *w)
{
    struct kva_math_span t = w->text, *tok = &w->token;
    bool opens, closes;

    if (w->next >= t.n || w->m->work <= 0)
        return false;
    w->m->work--;
    tok->s = t.s + w->next;
    tok->n = 1;
    if (tok->s[0] == '\\' && w->next + 1 < t.n && !is_letter(tok->s[1]))
        tok->n = 2;
    else if (tok->s[0] == '\\' || is_letter(tok->s[0]))
        while (w->next + tok->n < t.n && is_letter(tok->s[tok->n]))
            tok->n++;
    w->next += tok->n;
    opens = (tok->n == 1 && strchr("([{", tok->s[0]) != NULL && tok->s[0]) ||
            kva_math_span_is(*tok, "\\lbrace") || kva_math_span_is(*tok, "\\begin");
    closes = (tok->n == 1 && strchr(")]}", tok->s[0]) != NULL && tok->s[0]) ||
             kva_math_span_is(*tok, "\\rbrace") || kva_math_span_is(*tok, "\\end");
    if (closes && w->inside > 0)
        w->inside--;
    w->depth = w->inside;
    w->inside += opens;
    return true;
}

bool kva_math_find(struct kva_math *m, struct kva_math_span text, const char *word,
                   size_t *at)
{
    struct kva_math_walk w = kva_math_walk_new(m, text);

    while (kva_math_step(&w))
        if (w.depth == 0 && kva_math_span_is(w.token, word)) {
            *at = (size_t)(w.token.s - text.s);
            return true;
        }
    return false;
}

struct kva_math_span kva_math_before(struct kva_math_span t, size_t at)
{
    return kva_math_trim((struct kva_math_span){t.s, at});
}

struct kva_math_span kva_math_behind(struct kva_math_span t, size_t at)
{
    return kva_math_trim((struct kva_math_span){t.s + at, t.n - at});
}

bool kva_math_enclosed(struct kva_math *m, struct kva_math_span t, const char *open,
                       const char *close, struct kva_math_span *in)
{
    struct kva_math_walk w = kva_math_walk_new(m, t);
    size_t begin;

    if (!kva_math_step(&w) || !kva_math_span_is(w.token, open))
        return false;
    begin = w.next;
    while (kva_math_step(&w))
        if (w.depth == 0) {
            if (w.next != t.n || !kva_math_span_is(w.token, close))
                return false;
            *in = kva_math_trim(
                (struct kva_math_span){t.s + begin, t.n - begin - w.token.n});
            return true;
        }
    return false;
}

/* The bytes of a separator that begins with the walk's token, 0: it is none. */
static size_t separator(struct kva_math_walk *w, const char *sep)
{
    struct kva_math_span rest, in;
    size_t at = 0, end;

    if (sep)
        return kva_math_span_is(w->token, sep) ? w->token.n : 0;
    if (w->token.n == 1 && (w->token.s[0] == ',' || w->token.s[0] == ';'))
        return 1;
    if (kva_math_span_is(w->token, "and") || kva_math_span_is(w->token, "or"))
        return w->token.n;
    if (!kva_math_span_is(w->token, "\\text"))
        return 0;
    rest = (struct kva_math_span){w->text.s + w->next, w->text.n - w->next};
    while (at < rest.n && rest.s[at] == ' ')
        at++;
    if (at >= rest.n || rest.s[at] != '{')
        return 0;
    for (end = at + 1; end < rest.n && rest.s[end] != '}' && rest.s[end] != '{';)
        end++;
    if (end >= rest.n || rest.s[end] != '}')
        return 0;
    in = kva_math_trim((struct kva_math_span){rest.s + at + 1, end - at - 1});
    while (in.n && (in.s[0] == ',' || in.s[0] == ' '))
        in.s++, in.n--;
    return kva_math_span_is(in, "and") || kva_math_span_is(in, "or")
               ? w->token.n + end + 1
               : 0;
}

int kva_math_split(struct kva_math *m, struct kva_math_span t, const char *sep,
                   struct kva_math_span *part, int most, int *n_separators)
{
    struct kva_math_walk w = kva_math_walk_new(m, t);
    size_t begin = 0, len;
    int n = 0;

    *n_separators = 0;
    for (bool more = true; more;) {
        struct kva_math_span p;
        size_t end = t.n;

        len = 0;
        while ((more = kva_math_step(&w)) && len == 0)
            if (w.depth == 0 && (len = separator(&w, sep)) > 0) {
                end = (size_t)(w.token.s - t.s);
                *n_separators += 1;
                break;
            }
        p = kva_math_trim((struct kva_math_span){t.s + begin, end - begin});
        if (p.n) {
            if (n == most)
                return -1;
            part[n++] = p;
        }
        begin = end + len;
        w.next = begin > w.next ? begin : w.next;
    }
    return m->work > 0 ? n : -1;
}
