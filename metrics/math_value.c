/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_value.c - typed values (tasks-longbench-math.md B.6 step 2).
 *
 * One function per rule, in the order of the table at the end; the first that fits
 * decides:
 *
 *   \begin{matrix} .. \end{matrix}          MATRIX    enclosing ( ) or [ ] dropped
 *   .. \cup ..                              UNION     of its parts
 *   \lbrace .. \rbrace, \emptyset           SET
 *   D_B, (D)_B, D_{\text{B}}                BASE
 *   \text{..}                               TEXT      a number when it reads as one
 *   v \in S                                 S
 *   a, b; c and d                           LIST      UNION when all are pairs
 *   (a, b], [a, b]                          TUPLE
 *   v < b, a <= v < b, ..                   TUPLE     with -\infty, \infty
 *   a \approx b                             a, or b when a is missing
 *   l = .. = r                              EQUATION  r when all sides are numbers
 *   [sign] \infty                           INFINITY
 *   else, units stripped                    EXPRESSION */
#include "metrics/math_value.h"

#include <string.h>

/* Elements inside elements; each level reads its text again. */
enum { LEVELS = 16 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_letter(char c)
{
    return is_upper(c) || (c >= 'a' && c <= 'z');
}

static const struct kva_math_value unreadable = {.kind = KVA_MATH_UNREADABLE};

static const struct kva_math_value *read(struct kva_math *m, struct kva_math_span t,
                                         int level);

/* Reads every part as an element; false: too many, or no memory. */
static bool read_items(struct kva_math *m, const struct kva_math_span *part, int n,
                       int level, struct kva_math_value *v)
{
    const struct kva_math_value **items;

    if (n < 0)
        return false;
    items = kva_math_alloc(m, (size_t)n + 1, sizeof(void *));
    if (!items)
        return false;
    for (int i = 0; i < n; i++)
        items[i] = read(m, part[i], level + 1);
    v->items = items;
    v->n_items = n;
    return true;
}

static bool split_items(struct kva_math *m, struct kva_math_span t, const char *sep,
                        int level, struct kva_math_value *v)
{
    struct kva_math_span part[MATH_ITEMS];
    int separators;

    return read_items(m, part, kva_math_split(m, t, sep, part, MATH_ITEMS, &separators),
                      level, v);
}

/* ---- matrices ---- */

static bool starts(struct kva_math_span t, const char *word)
{
    return t.n >= strlen(word) && memcmp(t.s, word, strlen(word)) == 0;
}

/* The inside of an environment that is the whole text. */
static bool environment(struct kva_math *m, struct kva_math_span t,
                        struct kva_math_span *in)
{
    static const char *const name[] = {"pmatrix", "bmatrix",     "matrix", "vmatrix",
                                       "Bmatrix", "smallmatrix", "array",  "Vmatrix"};
    struct kva_math_walk w = kva_math_walk_new(m, t);
    size_t begin = 0, k = 0;

    if (!starts(t, "\\begin{"))
        return false;
    for (; k < sizeof name / sizeof *name; k++)
        if (starts((struct kva_math_span){t.s + 7, t.n - 7}, name[k]) &&
            t.n > 7 + strlen(name[k]) && t.s[7 + strlen(name[k])] == '}') {
            begin = 8 + strlen(name[k]);
            break;
        }
    (void)kva_math_step(&w);
    while (begin && kva_math_step(&w))
        if (w.depth == 0 && kva_math_span_is(w.token, "\\end")) {
            *in = (struct kva_math_span){t.s + begin, (size_t)(w.token.s - t.s) - begin};
            t = kva_math_behind(t, w.next);
            if (w.token.s < in->s || t.n != strlen(name[k]) + 2 || t.s[0] != '{')
                return false;
            if (strcmp(name[k], "array") == 0 && in->n && in->s[0] == '{') {
                const char *end = memchr(in->s, '}', in->n);

                if (end)
                    *in = kva_math_behind(*in, (size_t)(end - in->s) + 1);
            }
            return true;
        }
    return false;
}

static bool matrix(struct kva_math *m, struct kva_math_span t, int level,
                   struct kva_math_value *v)
{
    struct kva_math_span row[MATH_ITEMS], cell[MATH_ITEMS], in, bare;
    int n_rows, n_cells = 0, unused;

    if ((kva_math_enclosed(m, t, "(", ")", &bare) ||
         kva_math_enclosed(m, t, "[", "]", &bare)) &&
        environment(m, bare, &in))
        t = bare;
    if (!environment(m, t, &in))
        return false;
    n_rows = kva_math_split(m, in, "\\\\", row, MATH_ITEMS, &unused);
    for (int i = 0; i < n_rows; i++) {
        int n =
            kva_math_split(m, row[i], "&", cell + n_cells, MATH_ITEMS - n_cells, &unused);

        if (n < 1 || (i > 0 && n_cells != n * i))
            return true; /* ragged: unreadable */
        n_cells += n;
    }
    if (n_rows > 0 && read_items(m, cell, n_cells, level, v)) {
        v->rows = n_rows;
        v->kind = KVA_MATH_MATRIX;
    }
    return true;
}

/* ---- unions, sets, numerals, texts ---- */

static bool join(struct kva_math *m, struct kva_math_span t, int level,
                 struct kva_math_value *v)
{
    size_t at;

    if (!kva_math_find(m, t, "\\cup", &at))
        return false;
    if (split_items(m, t, "\\cup", level, v))
        v->kind = KVA_MATH_UNION;
    return true;
}

static bool set(struct kva_math *m, struct kva_math_span t, int level,
                struct kva_math_value *v)
{
    struct kva_math_span in = {t.s, 0};

    if (!kva_math_span_is(t, "\\emptyset") &&
        !kva_math_enclosed(m, t, "\\lbrace", "\\rbrace", &in))
        return false;
    if (split_items(m, in, NULL, level, v))
        v->kind = KVA_MATH_SET;
    return true;
}

static int digit_value(char c)
{
    return is_digit(c) ? c - '0' : is_upper(c) ? c - 'A' + 10 : c - 'a' + 10;
}

/* Digits of a numeral; letters count as digits only below the base. */
static bool numeral(struct kva_math_span d, struct kva_math_span base)
{
    int b = 0;

    for (size_t i = 0; i < base.n && i < 3; i++)
        b = is_digit(base.s[i]) ? b * 10 + (base.s[i] - '0') : 99;
    if (d.n == 0 || !is_digit(d.s[0]))
        return false;
    for (size_t i = 0; i < d.n; i++)
        if (!is_digit(d.s[i]) &&
            (!is_letter(d.s[i]) || b > 36 || digit_value(d.s[i]) >= b))
            return false;
    return true;
}

static bool based(struct kva_math *m, struct kva_math_span t, int level,
                  struct kva_math_value *v)
{
    struct kva_math_span d, b, in;
    char *upper;
    size_t at;

    (void)level;
    if (!kva_math_find(m, t, "_", &at))
        return false;
    d = kva_math_before(t, at);
    b = kva_math_behind(t, at + 1);
    if (kva_math_enclosed(m, d, "(", ")", &in))
        d = in;
    if (kva_math_enclosed(m, b, "{", "}", &in))
        b = in;
    if (starts(b, "\\text"))
        b = kva_math_unwrap(m, b);
    for (size_t i = 0; i < b.n; i++)
        if (!is_digit(b.s[i]) && !is_letter(b.s[i]))
            return false;
    if (b.n == 0 || !numeral(d, b) || (!is_digit(b.s[0]) && b.n < 2))
        return false;
    while (d.n > 1 && d.s[0] == '0')
        d.s++, d.n--;
    upper = kva_math_alloc(m, d.n + 1, 1);
    if (!upper)
        return true;
    for (size_t i = 0; i < d.n; i++)
        upper[i] = (char)(is_letter(d.s[i]) && !is_upper(d.s[i]) ? d.s[i] - 32 : d.s[i]);
    v->kind = KVA_MATH_BASE;
    v->text = (struct kva_math_span){upper, d.n};
    v->base = b;
    return true;
}

struct kva_math_span kva_math_unwrap(struct kva_math *m, struct kva_math_span text)
{
    struct kva_math_walk w = kva_math_walk_new(m, text);
    char *p = kva_math_alloc(m, text.n + 1, 1);
    size_t n = 0;

    if (!p)
        return (struct kva_math_span){"", 0};
    while (kva_math_step(&w)) {
        if (kva_math_span_is(w.token, "\\text") || w.token.s[0] == '{' ||
            w.token.s[0] == '}')
            continue;
        for (size_t i = 0; i < w.token.n; i++) {
            char c = w.token.s[i];

            if (c != ' ' || (n > 0 && p[n - 1] != ' '))
                p[n++] = (char)(is_upper(c) ? c + 32 : c);
        }
    }
    return kva_math_trim((struct kva_math_span){p, n});
}

static struct kva_math_span without_marks(struct kva_math_span t)
{
    while (t.n && strchr(".,;: ", t.s[t.n - 1]))
        t.n--;
    while (t.n && strchr(".,;: ", t.s[0]))
        t.s++, t.n--;
    if (t.n == 3 && t.s[0] == '(' && t.s[2] == ')' && t.s[1] >= 'a' && t.s[1] <= 'e')
        return (struct kva_math_span){t.s + 1, 1};
    return t;
}

static bool only_text(struct kva_math *m, struct kva_math_span t)
{
    struct kva_math_walk w = kva_math_walk_new(m, t);
    bool wrapped = false;

    while (kva_math_step(&w)) {
        if (w.depth > 0 || w.token.s[0] == ' ')
            continue;
        if (!kva_math_span_is(w.token, "\\text") && w.token.s[0] != '{' &&
            w.token.s[0] != '}')
            return false;
        wrapped |= w.token.s[0] == '\\';
        if (w.token.s[0] == '{' && !wrapped)
            return false;
    }
    return wrapped;
}

static bool text(struct kva_math *m, struct kva_math_span t, int level,
                 struct kva_math_value *v)
{
    const struct kva_math_value *inner;
    struct kva_math_span in, wrapped;

    if (!only_text(m, t))
        return false;
    v->text = without_marks(kva_math_unwrap(m, t));
    v->kind = KVA_MATH_TEXT;
    if (v->text.n == 0)
        v->kind = KVA_MATH_UNREADABLE;
    /* \text{5}, \textbf{-1/2} are numbers */
    wrapped = kva_math_behind(t, 5);
    if (kva_math_enclosed(m, wrapped, "{", "}", &in) && in.n && level < LEVELS) {
        inner = read(m, in, level + 1);
        if (inner && inner->kind == KVA_MATH_EXPRESSION && !inner->expr->has_variables) {
            struct kva_math_span plain = v->plain;

            *v = *inner;
            v->plain = plain;
        }
    }
    return true;
}

/* ---- membership, lists, tuples ---- */

/* *v becomes the value of a part. */
static bool same_as(struct kva_math *m, struct kva_math_span part, int level,
                    struct kva_math_value *v)
{
    struct kva_math_span plain = v->plain;
    const struct kva_math_value *inner = read(m, part, level + 1);

    if (inner)
        *v = *inner;
    v->plain = plain;
    return true;
}

static bool member(struct kva_math *m, struct kva_math_span t, int level,
                   struct kva_math_value *v)
{
    size_t at;

    if (!kva_math_find(m, t, "\\in", &at) || at == 0)
        return false;
    return same_as(m, kva_math_behind(t, at + 3), level, v);
}

static bool is_pair(const struct kva_math_value *v)
{
    return v && v->kind == KVA_MATH_TUPLE && v->n_items == 2;
}

static bool list(struct kva_math *m, struct kva_math_span t, int level,
                 struct kva_math_value *v)
{
    struct kva_math_span part[MATH_ITEMS];
    int separators, n = kva_math_split(m, t, NULL, part, MATH_ITEMS, &separators);
    bool pairs = true;

    if (n == 0 || separators == 0)
        return n == 0;
    if (n == 1)
        return same_as(m, part[0], level, v);
    if (!read_items(m, part, n, level, v))
        return true;
    for (int i = 0; i < n; i++)
        pairs = pairs && is_pair(v->items[i]);
    v->kind = pairs ? KVA_MATH_UNION : KVA_MATH_LIST;
    return true;
}

static bool tuple(struct kva_math *m, struct kva_math_span t, int level,
                  struct kva_math_value *v)
{
    static const char *const pair[][2] = {{"(", ")"}, {"(", "]"}, {"[", ")"}, {"[", "]"}};
    struct kva_math_span in, part[MATH_ITEMS];
    int n = 0, separators;
    size_t k = 0;

    while (k < 4 && !kva_math_enclosed(m, t, pair[k][0], pair[k][1], &in))
        k++;
    if (k < 4)
        n = kva_math_split(m, in, NULL, part, MATH_ITEMS, &separators);
    if (k == 4 || (n >= 0 && n < 2))
        return false;
    if (read_items(m, part, n, level, v)) {
        v->kind = KVA_MATH_TUPLE;
        v->open = pair[k][0][0];
        v->close = pair[k][1][0];
    }
    return true;
}

/* ---- inequalities ---- */

/* One letter with an optional subscript, or a Greek one. */
static bool is_variable(struct kva_math_span t)
{
    return t.n && kva_math_name_len(t) == t.n;
}

static const struct kva_math_value *infinity(struct kva_math *m, int sign)
{
    struct kva_math_value *v = kva_math_alloc(m, 1, sizeof *v);

    if (!v)
        return &unreadable;
    v->kind = KVA_MATH_INFINITY;
    v->sign = sign;
    return v;
}

/* How many of <, >, \le, \ge; of the first two: their places, lengths, directions. */
struct relation {
    size_t at, end;
    bool less, closed;
};

static int relations(struct kva_math *m, struct kva_math_span t, struct relation rel[2])
{
    struct kva_math_walk w = kva_math_walk_new(m, t);
    int n = 0;

    while (kva_math_step(&w)) {
        bool le = kva_math_span_is(w.token, "\\le"),
             ge = kva_math_span_is(w.token, "\\ge");
        bool lt = w.token.s[0] == '<', gt = w.token.s[0] == '>';

        if (w.depth > 0 || !(le || ge || lt || gt))
            continue;
        if (n < 2)
            rel[n] =
                (struct relation){(size_t)(w.token.s - t.s), w.next, le || lt, le || ge};
        n++;
    }
    return n;
}

static bool inequality(struct kva_math *m, struct kva_math_span t, int level,
                       struct kva_math_value *v)
{
    struct relation r[2];
    int n = relations(m, t, r);
    const struct kva_math_value **items;
    struct kva_math_span a, b;
    size_t at;
    bool less;

    if (n == 0 || kva_math_find(m, t, "=", &at))
        return false;
    items = kva_math_alloc(m, 2, sizeof(void *));
    if (n > 2 || !items)
        return true;
    a = kva_math_before(t, r[0].at);
    b = kva_math_behind(t, r[n - 1].end);
    less = r[0].less;
    if (n == 2) {
        struct kva_math_span mid = {t.s + r[0].end, r[1].at - r[0].end};

        if (r[1].less != less || !is_variable(kva_math_trim(mid)))
            return true;
        items[less ? 0 : 1] = read(m, a, level + 1);
        items[less ? 1 : 0] = read(m, b, level + 1);
        v->open = r[less ? 0 : 1].closed ? '[' : '(';
        v->close = r[less ? 1 : 0].closed ? ']' : ')';
    } else {
        bool left = is_variable(a), below = left == less; /* the variable is smaller */

        if (!left && !is_variable(b))
            return true;
        items[below ? 1 : 0] = read(m, left ? b : a, level + 1);
        items[below ? 0 : 1] = infinity(m, below ? -1 : 1);
        v->open = !below && r[0].closed ? '[' : '(';
        v->close = below && r[0].closed ? ']' : ')';
    }
    v->items = items;
    v->n_items = 2;
    v->kind = KVA_MATH_TUPLE;
    return true;
}

/* ---- equations ---- */

static bool approximation(struct kva_math *m, struct kva_math_span t, int level,
                          struct kva_math_value *v)
{
    struct kva_math_span left;
    size_t at;

    if (!kva_math_find(m, t, "\\approx", &at))
        return false;
    left = kva_math_before(t, at);
    return same_as(m, left.n ? left : kva_math_behind(t, at + 7), level, v);
}

/* f(x), f^{-1}(x), P(x,y): a name and names in brackets. */
static bool is_application(struct kva_math *m, struct kva_math_span t)
{
    size_t n = kva_math_name_len(t);
    struct kva_math_span in, part[MATH_ITEMS];
    int count, unused;

    if (n == 0)
        return false;
    t = kva_math_behind(t, n);
    if (starts(t, "^{-1}"))
        t = kva_math_behind(t, 5);
    if (!kva_math_enclosed(m, t, "(", ")", &in))
        return false;
    count = kva_math_split(m, in, NULL, part, MATH_ITEMS, &unused);
    for (int i = 0; i < count; i++)
        if (!is_variable(part[i]))
            return false;
    return count > 0;
}

/* (x, y) */
static bool is_names(const struct kva_math_value *v)
{
    if (v->kind != KVA_MATH_TUPLE)
        return false;
    for (int i = 0; i < v->n_items; i++)
        if (!is_variable(v->items[i]->plain))
            return false;
    return true;
}

/* AB, PQR, \angle PQR: up to three capital letters name a length or an angle. */
static bool is_capitals(struct kva_math_span t)
{
    size_t n = 0;

    if (starts(t, "\\angle"))
        t = kva_math_behind(t, 6);
    for (size_t i = 0; i < t.n; i++) {
        if (t.s[i] != ' ' && !is_upper(t.s[i]))
            return false;
        n += t.s[i] != ' ';
    }
    return n >= 1 && n <= 3;
}

static bool is_name(struct kva_math *m, const struct kva_math_value *v)
{
    return is_variable(v->plain) || is_application(m, v->plain) || is_names(v) ||
           is_capitals(v->plain) || v->kind == KVA_MATH_TEXT;
}

static bool is_number(const struct kva_math_value *v)
{
    return v->kind == KVA_MATH_EXPRESSION && !v->expr->has_variables;
}

static bool equation(struct kva_math *m, struct kva_math_span t, int level,
                     struct kva_math_value *v)
{
    struct kva_math_span part[MATH_ITEMS];
    const struct kva_math_value **side;
    int separators, n = kva_math_split(m, t, "=", part, MATH_ITEMS, &separators);
    bool numbers = true;

    if (separators == 0)
        return false;
    if (n == 1) /* = 5 */
        return same_as(m, part[0], level, v);
    side = kva_math_alloc(m, (size_t)(n > 1 ? n : 1), sizeof(void *));
    if (n < 2 || !side)
        return true;
    for (int i = 0; i < n; i++) {
        side[i] = read(m, part[i], level + 1);
        numbers = numbers && is_number(side[i]);
    }
    if (numbers)
        return same_as(m, part[n - 1], level, v);
    v->kind = KVA_MATH_EQUATION;
    v->assign = is_name(m, side[0]);
    side[1] = side[n - 1];
    if (!v->assign && is_name(m, side[1])) { /* 5 = x */
        side[1] = side[0];
        side[0] = side[n - 1] == side[0] ? read(m, part[n - 1], level + 1) : side[n - 1];
        v->assign = true;
    }
    v->items = side;
    v->n_items = 2;
    return true;
}

/* ---- expressions ---- */

static bool expression(struct kva_math *m, struct kva_math_span t, int level,
                       struct kva_math_value *v)
{
    struct kva_math_span bare = t;

    (void)level;
    if (t.n && (t.s[0] == '-' || t.s[0] == '+'))
        bare = kva_math_behind(t, 1);
    if (kva_math_span_is(bare, "\\infty")) {
        v->kind = KVA_MATH_INFINITY;
        v->sign = t.s[0] == '-' ? -1 : 1;
        return true;
    }
    t = kva_math_strip_units(m, t, &v->percent);
    v->expr = kva_math_expr_read(m, t);
    if (v->expr)
        v->kind = KVA_MATH_EXPRESSION;
    return true;
}

static const struct kva_math_value *read(struct kva_math *m, struct kva_math_span t,
                                         int level)
{
    static bool (*const rules[])(struct kva_math *, struct kva_math_span, int,
                                 struct kva_math_value *) = {
        matrix, join,  set,        based,         text,     member,
        list,   tuple, inequality, approximation, equation, expression};
    struct kva_math_value *v;
    bool done = false;

    if (level > LEVELS || m->work <= 0)
        return &unreadable;
    v = kva_math_alloc(m, 1, sizeof *v);
    if (!v)
        return &unreadable;
    t = kva_math_trim(t);
    v->plain = t;
    for (size_t k = 0; t.n && !done && k < sizeof rules / sizeof *rules; k++)
        done = rules[k](m, t, level, v);
    return v;
}

const struct kva_math_value *kva_math_read(struct kva_math *m, struct kva_math_span text)
{
    return read(m, kva_math_normalise(m, text), 0);
}
