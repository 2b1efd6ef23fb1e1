/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_latex.c - LaTeX as sympy's parse_latex reads it (sympy 1.14, grammar LaTeX.g4), by
 * recursive descent over the same tokens.
 *
 *   expr    := mp { (+ | -) mp }
 *   mp      := unary { (* | \times | \cdot | / | \div | :) unary }
 *   unary   := (+ | -) unary | postfix { postfix }
 *   postfix := comp { ^ (atom | { expr }) [sub] } { ! }
 *   comp    := ( expr ) | [ expr ] | { expr } | \{ expr \} | | expr | | func | atom
 *   func    := name [sub] [sup] (( expr ) | mp without functions) | symbol ( args )
 *            | \sqrt [ [expr] ] { expr } | \overline { expr }
 *   atom    := (letter | \symbol) [sub] | number | d letter
 *            | \frac (digit | { expr }) (digit | { expr }) | \binom { expr } { expr }
 *
 * What differs from a mathematician's reading is the point: every unknown command is a
 * symbol, pi and i too; side by side binds tighter than /; 1\frac45 is 4/5; a subscript
 * of a number ends the text; and the text may go on behind the longest prefix that is an
 * expression, since the grammar's start rule does not ask for the end. A character that
 * is no token is an error only when it is looked at. Symbols have complex values here, so
 * that sqrt(x^2) is not x. Left out: integrals, sums, limits, derivatives, bra and ket,
 * which no answer holds; they are errors here. */
#include "metrics/math_public.h"

#include <string.h>

enum kind { END, BAD, PLAIN, COMMAND, LETTER, DIGIT, DIFFERENTIAL };
struct token {
    enum kind kind;
    struct kva_math_span text; /* a command's name without the backslash */
};

struct parser {
    struct kva_math *m;
    const char *p, *end;
    struct token tok; /* the next one; p is behind it */
    int depth;        /* open brackets and arguments */
    int tries;        /* open brackets: above 0 a failed operand is an error */
    bool no_function;
    bool bad; /* a character that is no token was looked at */
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* ---- tokens ---- */

static bool is_skipped(struct kva_math_span name)
{
    static const char *const skipped[] = {
        "thinspace",   "medspace",      "thickspace", "quad",  "qquad", "negthinspace",
        "negmedspace", "negthickspace", "left",       "right", "vrule", "vcenter",
        "vbox",        "vskip",         "vspace",     "hfil"};

    for (size_t k = 0; k < sizeof skipped / sizeof *skipped; k++)
        if (kva_math_span_is(name, skipped[k]))
            return true;
    return false;
}

static struct token command(struct parser *ps)
{
    struct token t = {COMMAND, {ps->p + 1, 0}};

    while (t.text.s + t.text.n < ps->end && is_letter(t.text.s[t.text.n]))
        t.text.n++;
    if (t.text.n == 0 && t.text.s < ps->end && (*t.text.s == '{' || *t.text.s == '}'))
        t.text.n = 1;
    else if (t.text.n == 0)
        t.kind = BAD;
    ps->p += t.text.n + 1;
    return t;
}

/* 'd' with a letter or a command behind it. */
static size_t differential(const struct parser *ps)
{
    const char *p = ps->p + 1;
    size_t n = 0;

    while (p < ps->end && is_blank(*p))
        p++;
    if (p < ps->end && is_letter(*p))
        return (size_t)(p - ps->p) + 1;
    if (p < ps->end && *p == '\\')
        while (p + 1 + n < ps->end && is_letter(p[1 + n]))
            n++;
    return n ? (size_t)(p - ps->p) + 1 + n : 0;
}

static void next(struct parser *ps)
{
    struct token t = {END, {ps->p, 0}};

    ps->m->work--;
    for (;;) {
        while (ps->p < ps->end && is_blank(*ps->p))
            ps->p++;
        if (ps->p + 1 < ps->end && *ps->p == '\\' && strchr(",:;!*-./\"(=", ps->p[1])) {
            ps->p += 2;
            continue;
        }
        t.text = (struct kva_math_span){ps->p, 1};
        if (ps->p >= ps->end)
            t.kind = END;
        else if (*ps->p == '\\')
            t = command(ps);
        else if (*ps->p == 'd' && differential(ps))
            t = (struct token){DIFFERENTIAL, {ps->p, differential(ps)}};
        else
            t.kind = is_letter(*ps->p)                                   ? LETTER
                     : is_digit(*ps->p)                                  ? DIGIT
                     : *ps->p && strchr("+-*/(){}[]|_^:=<>!',.", *ps->p) ? PLAIN
                                                                         : BAD;
        if (t.kind == COMMAND && is_skipped(t.text))
            continue;
        break;
    }
    if (t.kind != END && t.kind != COMMAND && t.kind != BAD)
        ps->p += t.text.n;
    ps->bad |= t.kind == BAD;
    ps->tok = t;
}

static bool at(const struct parser *ps, const char *plain)
{
    return ps->tok.kind == PLAIN && ps->tok.text.s[0] == plain[0];
}

static bool at_command(const struct parser *ps, const char *name)
{
    return ps->tok.kind == COMMAND && kva_math_span_is(ps->tok.text, name);
}

static bool take(struct parser *ps, const char *plain)
{
    if (!at(ps, plain))
        return false;
    next(ps);
    return true;
}

/* ---- nodes ---- */

static struct kva_math_node *node_new(struct parser *ps, enum kva_math_op op)
{
    struct kva_math_node *n = kva_math_alloc(ps->m, 1, sizeof *n);

    ps->m->work -= op == POWER || op == FUNCTION || op == ROOT ? 400 : 16;
    if (n) {
        n->op = op;
        n->sign = 1;
    }
    return n;
}

static struct kva_math_node *with(struct kva_math_node *parent,
                                  struct kva_math_node *child)
{
    if (!parent || !child)
        return NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    return parent;
}

static struct kva_math_node *expr(struct parser *ps);
static struct kva_math_node *mp(struct parser *ps);
static struct kva_math_node *atom(struct parser *ps);

static struct kva_math_node *symbol(struct parser *ps, uint64_t name)
{
    struct kva_math_node *n = node_new(ps, VARIABLE);

    if (n) {
        n->name = name;
        n->literal = true; /* complex */
    }
    return n;
}

static bool has_symbol(const struct kva_math_node *n)
{
    if (n->op == VARIABLE)
        return true;
    for (const struct kva_math_node *c = n->first; c; c = c->next)
        if (has_symbol(c))
            return true;
    return false;
}

/* ---- brackets ---- */

static struct kva_math_node *inside(struct parser *ps, const char *close)
{
    struct kva_math_node *n = NULL;
    bool no_function = ps->no_function;

    next(ps);
    ps->no_function = false;
    ps->tries++;
    if (ps->depth++ < MATH_NESTING && ps->m->work > 0)
        n = expr(ps);
    ps->depth--;
    ps->tries--;
    ps->no_function = no_function;
    return n && take(ps, close) ? n : NULL;
}

static struct kva_math_node *braced(struct parser *ps)
{
    return at(ps, "{") ? inside(ps, "}") : NULL;
}

static struct kva_math_node *group(struct parser *ps)
{
    struct kva_math_node *n;

    if (at(ps, "("))
        return inside(ps, ")");
    if (at(ps, "["))
        return inside(ps, "]");
    if (at(ps, "{"))
        return inside(ps, "}");
    if (at(ps, "|")) {
        n = inside(ps, "|");
        return with(node_new(ps, ABS), n);
    }
    return NULL;
}

/* \{ expr \} */
static struct kva_math_node *literal_group(struct parser *ps)
{
    struct kva_math_node *n;

    next(ps);
    ps->tries++;
    n = ps->depth++ < MATH_NESTING ? expr(ps) : NULL;
    ps->depth--;
    ps->tries--;
    if (!n || !at_command(ps, "}"))
        return NULL;
    next(ps);
    return n;
}

/* ---- atoms ---- */

static uint64_t hash_from(uint64_t h, const char *begin, const char *end)
{
    for (; begin < end; begin++)
        if (!is_blank(*begin) && *begin != '{' && *begin != '}')
            h = kva_fnv1a64_more(h, begin, 1);
    return h;
}

/* _ (atom | { expr }) takes part in the name; false: it does not end. */
static bool subscript(struct parser *ps, uint64_t *name)
{
    const char *begin = ps->tok.text.s;

    if (!at(ps, "_"))
        return true;
    next(ps);
    ps->tries++;
    if (!(at(ps, "{") ? braced(ps) : atom(ps)))
        return false;
    ps->tries--;
    *name = hash_from(*name, begin, ps->tok.text.s);
    return true;
}

struct decimal {
    struct kva_rational r;
    bool exact;
    long double real, scale;
};

/* Takes up to `most` digits; how many there were. */
static int digits(struct parser *ps, struct decimal *d, int most)
{
    const struct kva_rational ten = {10, 1};
    int n = 0;

    for (; n < most && ps->tok.kind == DIGIT; n++) {
        struct kva_rational digit = {ps->tok.text.s[0] - '0', 1};

        d->exact = d->exact && kva_rational_mul(d->r, ten, &d->r) &&
                   kva_rational_add(d->r, digit, &d->r);
        d->real = d->real * 10 + (long double)digit.n;
        d->scale *= 10;
        next(ps);
    }
    return n;
}

/* digits (, three digits)* [. digits]; a point without digits is an error. */
static struct kva_math_node *number(struct parser *ps)
{
    const long double most = 1e30L;
    struct decimal d = {.r = {0, 1}, .exact = true, .scale = 1};
    struct kva_rational tenth;
    struct kva_math_node *n = node_new(ps, NUMBER);
    bool zero = ps->tok.kind == DIGIT && ps->tok.text.s[0] == '0';
    int count = digits(ps, &d, MATH_LENGTH);

    while (at(ps, ",")) {
        struct parser back = *ps;
        struct decimal before = d;

        next(ps);
        if (digits(ps, &d, 3) < 3) {
            *ps = back;
            d = before;
            break;
        }
    }
    d.scale = 1;
    if (take(ps, ".") && digits(ps, &d, MATH_LENGTH) == 0) {
        ps->bad = true;
        return NULL;
    } else if (zero && count > 1 && d.scale == 1)
        ps->bad = true; /* 007 is no number of sympy */
    if (!n)
        return NULL;
    tenth = (struct kva_rational){1, d.scale < most ? (kva_math_int)d.scale : 1};
    if (d.exact && d.scale < most && kva_rational_mul(d.r, tenth, &d.r))
        n->value = kva_math_from_rational(d.r);
    else
        n->value = kva_math_from_complex(d.real / d.scale, 0);
    return n;
}

static struct kva_math_node *part(struct parser *ps)
{
    struct kva_math_node *n;

    if (ps->tok.kind != DIGIT)
        return braced(ps);
    n = node_new(ps, NUMBER);
    if (n)
        n->value =
            kva_math_from_rational((struct kva_rational){ps->tok.text.s[0] - '0', 1});
    next(ps);
    return n;
}

static struct kva_math_node *fraction(struct parser *ps)
{
    struct kva_math_node *a, *b;

    next(ps);
    a = part(ps);
    b = a ? part(ps) : NULL;
    if (b)
        b->inverse = true;
    return with(with(node_new(ps, PRODUCT), a), b);
}

static struct kva_math_node *name(struct parser *ps)
{
    uint64_t h =
        hash_from(KVA_FNV_OFFSET, ps->tok.text.s, ps->tok.text.s + ps->tok.text.n);
    struct kva_math_node *n;

    if (at_command(ps, "infty")) {
        n = node_new(ps, NUMBER); /* not ok: oo - oo is nan */
        next(ps);
        return n;
    }
    next(ps);
    if (!subscript(ps, &h))
        return NULL;
    while (at(ps, "'")) {
        h = kva_fnv1a64_more(h, "'", 1);
        next(ps);
    }
    return symbol(ps, h);
}

static struct kva_math_node *atom(struct parser *ps)
{
    struct kva_math_node *n;

    switch (ps->tok.kind) {
    case DIGIT:
        return number(ps);
    case DIFFERENTIAL:
        n = symbol(ps, hash_from(KVA_FNV_OFFSET, ps->tok.text.s,
                                 ps->tok.text.s + ps->tok.text.n));
        next(ps);
        return n;
    case LETTER:
        return name(ps);
    case COMMAND:
        if (at_command(ps, "frac") || at_command(ps, "dfrac") || at_command(ps, "tfrac"))
            return fraction(ps);
        if (at_command(ps, "binom") || at_command(ps, "dbinom") ||
            at_command(ps, "tbinom")) {
            struct kva_math_node *a, *b;

            next(ps);
            a = braced(ps);
            b = a ? braced(ps) : NULL;
            return with(with(node_new(ps, BINOMIAL), a), b);
        }
        return name(ps);
    default:
        return NULL;
    }
}

/* ---- functions ---- */

static const struct {
    const char *name;
    enum kva_math_fn fn, inverse;
} functions[] = {{"exp", EXP, EXP},      {"log", LN, LN},        {"lg", LOG, LOG},
                 {"ln", LN, LN},         {"sin", SIN, ASIN},     {"cos", COS, ACOS},
                 {"tan", TAN, ATAN},     {"csc", CSC, CSC},      {"sec", SEC, SEC},
                 {"cot", COT, COT},      {"arcsin", ASIN, ASIN}, {"arccos", ACOS, ACOS},
                 {"arctan", ATAN, ATAN}, {"sinh", SINH, SINH},   {"cosh", COSH, COSH},
                 {"tanh", TANH, TANH}};

static int function_at(const struct parser *ps)
{
    for (size_t k = 0;
         ps->tok.kind == COMMAND && k < sizeof functions / sizeof *functions; k++)
        if (kva_math_span_is(ps->tok.text, functions[k].name))
            return (int)k;
    return -1;
}

/* A command that is neither an operator nor the beginning of another construct. */
static bool is_symbol(const struct parser *ps)
{
    static const char *const taken[] = {"times",
                                        "cdot",
                                        "div",
                                        "frac",
                                        "dfrac",
                                        "tfrac",
                                        "binom",
                                        "dbinom",
                                        "tbinom",
                                        "sqrt",
                                        "le",
                                        "leq",
                                        "leqq",
                                        "leqslant",
                                        "ge",
                                        "geq",
                                        "geqq",
                                        "geqslant",
                                        "neq",
                                        "to",
                                        "rightarrow",
                                        "Rightarrow",
                                        "longrightarrow",
                                        "Longrightarrow",
                                        "lim",
                                        "int",
                                        "sum",
                                        "prod",
                                        "lfloor",
                                        "rfloor",
                                        "lceil",
                                        "rceil",
                                        "langle",
                                        "rangle",
                                        "mathit",
                                        "overline",
                                        "arccsc",
                                        "arcsec",
                                        "arccot",
                                        "arsinh",
                                        "arcosh",
                                        "artanh",
                                        "{",
                                        "}"};

    if (ps->tok.kind == LETTER)
        return true;
    if (ps->tok.kind != COMMAND || function_at(ps) >= 0)
        return false;
    for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
        if (kva_math_span_is(ps->tok.text, taken[k]))
            return false;
    return true;
}

static struct kva_math_node *function(struct parser *ps, int k)
{
    struct kva_math_node *n = node_new(ps, FUNCTION), *e = NULL, *base = NULL, *x;
    struct kva_math_num power = {.ok = false};
    bool no_function = ps->no_function;

    next(ps);
    for (int turn = 0; turn < 2; turn++) {
        if (!base && at(ps, "_")) {
            next(ps);
            base = at(ps, "{") ? braced(ps) : atom(ps);
            if (!base)
                return NULL;
        } else if (!e && at(ps, "^")) {
            next(ps);
            e = at(ps, "{") ? braced(ps) : atom(ps);
            if (!e)
                return NULL;
        }
    }
    if (at(ps, "(")) {
        x = inside(ps, ")");
    } else {
        ps->no_function = true;
        x = ps->depth++ < MATH_NESTING ? mp(ps) : NULL;
        ps->depth--;
        ps->no_function = no_function;
    }
    n = with(n, x);
    if (!n)
        return NULL;
    n->fn = functions[k].fn;
    if (base && (n->fn == LN || n->fn == LOG)) {
        n->fn = LOG;
        n = with(n, base);
    }
    if (e && !has_symbol(e))
        power = kva_math_eval(e, 1, 0);
    if (n && functions[k].inverse != n->fn && power.exact && power.r.n == -1 &&
        power.r.d == 1) {
        n->fn = functions[k].inverse;
        return n;
    }
    return e ? with(with(node_new(ps, POWER), n), e) : n;
}

/* f(a, b): an unknown function of its arguments, s (a + t a a) + ... with s, t symbols of
 * its own. */
static struct kva_math_node *application(struct parser *ps)
{
    uint64_t h =
        hash_from(KVA_FNV_OFFSET, ps->tok.text.s, ps->tok.text.s + ps->tok.text.n);
    struct kva_math_node *sum = node_new(ps, SUM);

    next(ps);
    if (!subscript(ps, &h) || !at(ps, "("))
        return NULL;
    do {
        struct kva_math_node *a, *square, *both;

        next(ps);
        ps->tries++;
        a = ps->depth++ < MATH_NESTING ? expr(ps) : NULL;
        ps->depth--;
        ps->tries--;
        if (!a)
            return NULL;
        h = kva_mix64(h);
        square = with(node_new(ps, POWER), a);
        both = node_new(ps, NUMBER);
        if (both)
            both->value = kva_math_from_rational((struct kva_rational){2, 1});
        square = with(square, both);
        sum = with(sum, with(with(node_new(ps, PRODUCT), symbol(ps, h)), square));
        h = kva_mix64(h);
        sum = with(sum, symbol(ps, h));
    } while (at(ps, ","));
    return sum && take(ps, ")") ? sum : NULL;
}

static struct kva_math_node *root(struct parser *ps)
{
    struct kva_math_node *index = NULL, *x;

    next(ps);
    if (at(ps, "[")) {
        index = inside(ps, "]");
        if (!index)
            return NULL;
    }
    x = with(node_new(ps, ROOT), braced(ps));
    if (!index)
        return x;
    /* sympy's root is the principal one: x^(1/n) */
    index->inverse = true;
    return x ? with(with(node_new(ps, POWER), x->first),
                    with(node_new(ps, PRODUCT), index))
             : NULL;
}

static struct kva_math_node *comp(struct parser *ps)
{
    struct parser back = *ps;
    struct kva_math_node *n;
    int k = function_at(ps);

    if (ps->m->work <= 0)
        return NULL;
    if (ps->no_function &&
        (k >= 0 || at_command(ps, "sqrt") || at_command(ps, "overline")))
        return NULL;
    if (k >= 0)
        return function(ps, k);
    if (at_command(ps, "sqrt"))
        return root(ps);
    if (at_command(ps, "{"))
        return literal_group(ps);
    if (at_command(ps, "overline")) {
        uint64_t h = kva_fnv1a64_str("overline");
        const char *begin;

        next(ps);
        begin = ps->tok.text.s;
        if (!braced(ps))
            return NULL;
        return symbol(ps, hash_from(h, begin, ps->tok.text.s));
    }
    if (ps->tok.kind == PLAIN)
        return group(ps);
    if (!ps->no_function && is_symbol(ps)) {
        n = application(ps);
        if (n)
            return n;
        *ps = back;
    }
    return is_symbol(ps) || ps->tok.kind == DIGIT || ps->tok.kind == DIFFERENTIAL ||
                   at_command(ps, "frac") || at_command(ps, "dfrac") ||
                   at_command(ps, "tfrac") || at_command(ps, "binom") ||
                   at_command(ps, "dbinom") || at_command(ps, "tbinom")
               ? atom(ps)
               : NULL;
}

/* ---- operators ---- */

/* Behind a whole operand: an operand that fails ends the text there, outside brackets. */
static bool give_up(struct parser *ps, const struct parser *back)
{
    bool bad = ps->bad;

    if (ps->tries > 0)
        return false;
    *ps = *back;
    ps->bad = bad;
    return true;
}

static struct kva_math_node *postfix(struct parser *ps)
{
    struct kva_math_node *n = comp(ps), *e;
    uint64_t unused = 0;
    int chain = 0;

    while (n && (at(ps, "^") || at(ps, "!"))) {
        struct parser back = *ps;

        if (++chain > MATH_NESTING)
            return NULL;
        if (take(ps, "!")) {
            n = with(node_new(ps, FACTORIAL), n);
            continue;
        }
        next(ps);
        e = at(ps, "{") ? braced(ps) : atom(ps);
        if (!e || !subscript(ps, &unused))
            return give_up(ps, &back) ? n : NULL;
        n = with(with(node_new(ps, POWER), n), e);
    }
    return n;
}

/* Side by side. A symbol x between two operands without symbols is a times sign. */
static struct kva_math_node *side_by_side(struct parser *ps)
{
    static const char x[] = "x";
    uint64_t x_name = kva_fnv1a64_str(x);
    struct kva_math_node *first = postfix(ps), *n = with(node_new(ps, PRODUCT), first);

    while (n) {
        struct parser back = *ps;
        struct kva_math_node *c;

        if (ps->tries > 0 && at(ps, "|")) /* it closes */
            break;
        c = ps->tok.kind == END || ps->tok.kind == BAD ? NULL : postfix(ps);
        if (!c) {
            bool begins = back.tok.kind == LETTER || back.tok.kind == DIGIT ||
                          at(&back, "(") || at(&back, "[") || at(&back, "{");
            bool bad = ps->bad;

            if (begins && ps->tries > 0)
                return NULL;
            *ps = back;
            ps->bad = bad;
            break;
        }
        n = with(n, c);
    }
    for (struct kva_math_node *a = first; n && a && a->next && a->next->next; a = a->next)
        if (a->next->op == VARIABLE && a->next->name == x_name && !has_symbol(a) &&
            !has_symbol(a->next->next))
            a->next = a->next->next;
    return n;
}

static struct kva_math_node *unary(struct parser *ps)
{
    struct kva_math_node *n;
    bool minus = false;
    int signs = 0;

    while (at(ps, "+") || at(ps, "-")) {
        minus ^= at(ps, "-");
        if (++signs > MATH_NESTING)
            return NULL;
        next(ps);
    }
    n = side_by_side(ps);
    if (!n || !minus)
        return n;
    n->sign = -1;
    return with(node_new(ps, SUM), n);
}

static bool take_operator(struct parser *ps, bool *inverse)
{
    *inverse = at(ps, "/") || at(ps, ":") || at_command(ps, "div");
    if (!*inverse && !at(ps, "*") && !at_command(ps, "times") && !at_command(ps, "cdot"))
        return false;
    next(ps);
    return true;
}

static struct kva_math_node *mp(struct parser *ps)
{
    struct kva_math_node *n = with(node_new(ps, PRODUCT), unary(ps)), *c;
    struct parser back = *ps;
    bool inverse;

    while (n && take_operator(ps, &inverse)) {
        c = unary(ps);
        if (!c)
            return give_up(ps, &back) ? n : NULL;
        c->inverse = inverse;
        n = with(n, c);
        back = *ps;
    }
    return n;
}

static struct kva_math_node *expr(struct parser *ps)
{
    struct kva_math_node *n = with(node_new(ps, SUM), mp(ps)), *c;
    struct parser back = *ps;

    while (n && (at(ps, "+") || at(ps, "-"))) {
        int sign = at(ps, "-") ? -1 : 1;

        next(ps);
        c = mp(ps);
        if (!c)
            return give_up(ps, &back) ? n : NULL;
        c->sign = sign;
        n = with(n, c);
        back = *ps;
    }
    return n;
}

static bool at_relation(const struct parser *ps)
{
    static const char *const name[] = {"leq", "le",   "leqq",     "leqslant", "geq",
                                       "ge",  "geqq", "geqslant", "neq"};

    for (size_t k = 0; k < sizeof name / sizeof *name; k++)
        if (at_command(ps, name[k]))
            return true;
    return at(ps, "=") || at(ps, "<") || at(ps, ">");
}

const struct kva_math_node *kva_math_latex_read(struct kva_math *m,
                                                struct kva_math_span text)
{
    struct parser ps = {.m = m};
    struct kva_math_node *n;

    text = kva_math_trim(text);
    ps.p = text.s;
    ps.end = text.s + text.n;
    next(&ps);
    n = expr(&ps);
    if (!n || ps.bad || at_relation(&ps) || m->work <= 0)
        return NULL;
    return n;
}
