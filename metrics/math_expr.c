/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_expr.c - expressions: read by recursive descent, evaluated exactly where possible
 * (tasks-longbench-math.md B.6).
 *
 *   expr   := term { (+ | - | \pm | \mp) term }
 *   term   := [sign] power { [* | \cdot | \times | / | \div [sign]] power }
 *   power  := atom { (^ | **) exparg | ! | ^\circ }
 *   exparg := [sign] whole number | arg
 *   arg    := { expr } | one token: a digit, a letter, a command
 *   atom   := number | name | i | \pi | \frac arg arg | \sqrt[expr] arg | \binom arg arg
 *           | ( expr ) | [ expr ] | { expr } | | expr | | \text{letter}
 *           | fn [_ arg] [^ exparg] ( bracket | powers side by side )
 *   name   := (letter | Greek command) [_ arg]
 *   number := digits[.digits][e[sign]digits] | .digits |
 * [digits].[digits]\overline{digits}
 *
 * A whole number directly before \frac of two whole numbers, or before d/d, is a mixed
 * number. Side by side means product, but never for two numbers. The argument of a
 * function without brackets ends before an operator, a bracket and the next function.
 * fn^{-1} of sin, cos, tan is the inverse function; \log without a base is decimal; the
 * degree mark counts inside arguments of trigonometric functions only.
 *
 * Values: rationals as long as all is rational and fits, and complex long doubles always.
 * A variable's value at a point is a hash of its name and the point, in [0.3, 2.7], so
 * equal names have equal values in every expression. */
#include "metrics/math_expr.h"

#include <math.h>
#include <string.h>

struct parser {
    struct kva_math *m;
    const char *begin, *p, *end;
    int depth;
    long cost;  /* of one evaluation, in steps */
    int bars;   /* open | */
    int angles; /* open arguments of trigonometric functions */
    bool pm, variables;
};

/* longest first where one begins another */
static const struct {
    const char *name;
    enum kva_math_fn fn;
} functions[] = {{"arcsin", ASIN}, {"arccos", ACOS}, {"arctan", ATAN}, {"sinh", SINH},
                 {"cosh", COSH},   {"tanh", TANH},   {"sin", SIN},     {"cos", COS},
                 {"tan", TAN},     {"cot", COT},     {"sec", SEC},     {"csc", CSC},
                 {"log", LOG},     {"exp", EXP},     {"ln", LN}};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static const char *const greek[] = {
    "alpha",   "beta",     "gamma", "delta",   "epsilon", "varepsilon", "zeta", "eta",
    "theta",   "vartheta", "iota",  "kappa",   "lambda",  "mu",         "nu",   "xi",
    "rho",     "sigma",    "tau",   "upsilon", "phi",     "varphi",     "chi",  "psi",
    "omega",   "Gamma",    "Delta", "Theta",   "Lambda",  "Xi",         "Pi",   "Sigma",
    "Upsilon", "Phi",      "Psi",   "Omega",   "ell"};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- the reader's position ---- */

static char peek(struct parser *ps)
{
    while (ps->p < ps->end && *ps->p == ' ')
        ps->p++;
    return ps->p < ps->end ? *ps->p : '\0';
}

static bool take(struct parser *ps, const char *word)
{
    size_t n = strlen(word);

    (void)peek(ps);
    if ((size_t)(ps->end - ps->p) < n || memcmp(ps->p, word, n) != 0)
        return false;
    if (word[0] == '\\' && is_letter(word[n - 1]) && ps->p + n < ps->end &&
        is_letter(ps->p[n]))
        return false; /* a longer command */
    ps->p += n;
    return true;
}

/* The command's name at the position, which stays. */
static struct kva_math_span command(struct parser *ps)
{
    struct kva_math_span t = {ps->p, 0};

    if (peek(ps) != '\\')
        return t;
    t.s = ps->p + 1;
    while (t.s + t.n < ps->end && is_letter(t.s[t.n]))
        t.n++;
    return t;
}

static struct kva_math_node *node_new(struct parser *ps, enum kva_math_op op)
{
    struct kva_math_node *n = kva_math_alloc(ps->m, 1, sizeof *n);

    ps->m->work -= 8;
    ps->cost += op == POWER || op == FUNCTION || op == ROOT ? 60 : 4;
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
static struct kva_math_node *power(struct parser *ps);
static struct kva_math_node *atom(struct parser *ps);

/* ---- numbers ---- */

/* Decimal digits taken into a mantissa and a power of ten; the long double is always
 * there, the integer as long as it fits. */
struct decimal {
    kva_math_int whole;
    bool fits;
    long double real;
    int scale, digits;
};

static void digit(struct decimal *d, char c)
{
    if (__builtin_mul_overflow(d->whole, 10, &d->whole) ||
        __builtin_add_overflow(d->whole, c - '0', &d->whole))
        d->fits = false;
    d->real = d->real * 10 + (c - '0');
    d->digits++;
}

static struct kva_math_num decimal_num(const struct decimal *d)
{
    struct kva_rational r, ten = {10, 1};

    if (d->fits && kva_rational_make(d->whole, 1, &r) &&
        kva_rational_power(ten, d->scale, &ten) && kva_rational_mul(r, ten, &r))
        return kva_math_from_rational(r);
    return kva_math_from_complex(d->real * powl(10, d->scale), 0);
}

/* 0.1\overline{6} = (16 - 1) / 90: digits with the period, less those without. */
static bool period(struct parser *ps, const struct decimal *before, int places,
                   struct kva_math_num *out)
{
    struct decimal all = *before;
    struct kva_rational r, nine = {10, 1}, scale = {10, 1};
    const char *back = ps->p;
    int n = 0;

    if (!take(ps, "\\overline") && !take(ps, "\\bar"))
        return false;
    if (!take(ps, "{"))
        goto no;
    for (; ps->p < ps->end && is_digit(*ps->p); ps->p++, n++)
        digit(&all, *ps->p);
    if (n == 0 || !take(ps, "}"))
        goto no;
    if (all.fits && kva_rational_power(nine, n, &nine) &&
        kva_rational_power(scale, places, &scale) &&
        kva_rational_make(all.whole - before->whole, nine.n - 1, &r) &&
        kva_rational_inverse(scale, &scale) && kva_rational_mul(r, scale, &r))
        *out = kva_math_from_rational(r);
    else
        *out = kva_math_from_complex(all.real * powl(10, -places - n), 0);
    return true;
no:
    ps->p = back;
    return false;
}

/* "e" or "E", an optional sign and digits directly behind a number. */
static bool exponent(struct parser *ps, int *e)
{
    const char *p = ps->p;
    bool minus;

    if (p >= ps->end || (*p != 'e' && *p != 'E'))
        return true;
    p++;
    minus = p < ps->end && *p == '-';
    p += p < ps->end && (*p == '-' || *p == '+') ? 1 : 0;
    if (p >= ps->end || !is_digit(*p))
        return true;
    for (*e = 0; p < ps->end && is_digit(*p); p++) {
        *e = *e * 10 + (*p - '0');
        if (*e > MATH_EXPONENT)
            return false;
    }
    *e = minus ? -*e : *e;
    ps->p = p;
    return true;
}

/* *whole: digits and nothing else. */
static struct kva_math_node *number(struct parser *ps, bool *whole)
{
    struct decimal d = {.fits = true};
    struct kva_math_node *n = node_new(ps, NUMBER);
    int e = 0, places = 0;

    *whole = true;
    if (!n)
        return NULL;
    for (; ps->p < ps->end && is_digit(*ps->p); ps->p++)
        digit(&d, *ps->p);
    if (ps->p < ps->end && *ps->p == '.') {
        *whole = false;
        ps->p++;
        for (; ps->p < ps->end && is_digit(*ps->p); ps->p++, places++)
            digit(&d, *ps->p);
        if (period(ps, &d, places, &n->value))
            return n;
        if (d.digits == 0)
            return NULL;
    }
    if (!exponent(ps, &e))
        return NULL;
    *whole = *whole && e == 0;
    d.scale = e - places;
    n->value = decimal_num(&d);
    n->literal = true;
    return n->value.ok ? n : NULL;
}

/* A whole number of digits only, `most` at most. */
static struct kva_math_node *digits_only(struct parser *ps, int most)
{
    struct decimal d = {.fits = true};
    struct kva_math_node *n;

    (void)peek(ps);
    for (; ps->p < ps->end && is_digit(*ps->p) && most > 0; ps->p++, most--)
        digit(&d, *ps->p);
    n = d.digits ? node_new(ps, NUMBER) : NULL;
    if (n)
        n->value = decimal_num(&d);
    return n && n->value.ok ? n : NULL;
}

static struct kva_math_node *whole_argument(struct parser *ps)
{
    struct kva_math_node *n;

    if (!take(ps, "{"))
        return digits_only(ps, 1);
    n = digits_only(ps, MATH_LENGTH);
    return n && take(ps, "}") ? n : NULL;
}

/* \frac of two whole numbers, or digits/digits behind a blank: the fraction of a mixed
 * number. The position moves only when there is one. */
static struct kva_math_node *mixed(struct parser *ps, struct kva_math_node *whole)
{
    const char *back = ps->p;
    struct kva_math_node *a = NULL, *b = NULL, *product, *sum;
    bool blank = ps->p < ps->end && *ps->p == ' ';

    if (take(ps, "\\frac")) {
        a = whole_argument(ps);
        b = a ? whole_argument(ps) : NULL;
    } else if (blank) {
        a = digits_only(ps, MATH_LENGTH);
        if (a && take(ps, "/") && is_digit(peek(ps)))
            b = digits_only(ps, MATH_LENGTH);
    }
    if (!b || peek(ps) == '^' || *ps->p == '.' ||
        (ps->end - ps->p > 1 && memcmp(ps->p, "**", 2) == 0)) {
        ps->p = back;
        return whole;
    }
    b->inverse = true;
    product = with(with(node_new(ps, PRODUCT), a), b);
    sum = with(node_new(ps, SUM), whole);
    return with(sum, product);
}

static struct kva_math_node *constant(struct parser *ps, long double complex z)
{
    struct kva_math_node *n = node_new(ps, NUMBER);

    if (n)
        n->value = kva_math_from_complex(z, 0);
    return n;
}

/* ---- names ---- */

static size_t greek_len(struct kva_math_span t)
{
    size_t n = 1;

    if (t.n < 2 || t.s[0] != '\\')
        return 0;
    while (n < t.n && is_letter(t.s[n]))
        n++;
    for (size_t k = 0; k < sizeof greek / sizeof *greek; k++)
        if (kva_math_span_is((struct kva_math_span){t.s + 1, n - 1}, greek[k]))
            return n;
    return 0;
}

size_t kva_math_name_len(struct kva_math_span t)
{
    size_t n = greek_len(t), i;

    if (n == 0 && t.n && is_letter(t.s[0]))
        n = 1;
    if (n == 0)
        return 0;
    for (i = n; i < t.n && t.s[i] == ' ';)
        i++;
    if (i >= t.n || t.s[i] != '_')
        return n;
    for (i++; i < t.n && t.s[i] == ' ';)
        i++;
    if (i < t.n && (is_letter(t.s[i]) || is_digit(t.s[i])))
        return i + 1;
    if (i < t.n && t.s[i] == '{')
        for (size_t k = i + 1; k < t.n && t.s[k] != '{'; k++)
            if (t.s[k] == '}')
                return k + 1;
    return n;
}

static struct kva_math_node *name(struct parser *ps)
{
    struct kva_math_span t = {ps->p, (size_t)(ps->end - ps->p)};
    struct kva_math_node *n;

    t.n = kva_math_name_len(t);
    if (t.n == 0)
        return NULL;
    n = node_new(ps, VARIABLE);
    if (!n)
        return NULL;
    n->name = KVA_FNV_OFFSET;
    for (size_t i = 0; i < t.n; i++)
        if (t.s[i] != ' ' && t.s[i] != '{' && t.s[i] != '}')
            n->name = kva_fnv1a64_more(n->name, t.s + i, 1);
    ps->p += t.n;
    ps->variables = true;
    return n;
}

/* ---- arguments, powers ---- */

/* Every way into itself goes through here. */
static bool enter(struct parser *ps)
{
    if (ps->depth >= MATH_NESTING || ps->m->work <= 0)
        return false;
    ps->depth++;
    return true;
}

static struct kva_math_node *bracket(struct parser *ps, const char *open,
                                     const char *close)
{
    struct kva_math_node *n;
    int bars = ps->bars;

    if (!take(ps, open) || !enter(ps))
        return NULL;
    ps->bars = 0;
    n = expr(ps);
    ps->bars = bars;
    ps->depth--;
    return n && take(ps, close) ? n : NULL;
}

static struct kva_math_node *any_bracket(struct parser *ps)
{
    switch (peek(ps)) {
    case '(':
        return bracket(ps, "(", ")");
    case '[':
        return bracket(ps, "[", "]");
    case '{':
        return bracket(ps, "{", "}");
    default:
        return NULL;
    }
}

static struct kva_math_node *arg(struct parser *ps)
{
    char c = peek(ps);

    if (c == '{' || c == '(')
        return any_bracket(ps);
    if (is_digit(c))
        return digits_only(ps, 1);
    if (c == 'i') {
        ps->p++;
        return constant(ps, I);
    }
    if (c == '\\' || is_letter(c))
        return atom(ps);
    return NULL;
}

/* Adds what the position says to a sign; false: no sign there. */
static bool take_sign(struct parser *ps, int *sign, bool *pm)
{
    bool minus = false, both = false;

    if (take(ps, "\\mp"))
        minus = both = true;
    else if (take(ps, "\\pm"))
        both = true;
    else if (take(ps, "-"))
        minus = true;
    else if (!take(ps, "+"))
        return false;
    if (minus)
        *sign = -*sign;
    *pm ^= both;
    ps->pm |= both;
    return true;
}

static struct kva_math_node *exparg(struct parser *ps)
{
    struct kva_math_node *n;
    int sign = 1;
    bool pm = false, is_signed = take_sign(ps, &sign, &pm);

    n = is_digit(peek(ps)) ? digits_only(ps, MATH_LENGTH) : arg(ps);
    if (!is_signed || !n)
        return n;
    n->sign = sign;
    n->pm = pm;
    return with(node_new(ps, SUM), n);
}

static struct kva_math_node *degrees(struct parser *ps, struct kva_math_node *n)
{
    struct kva_math_node *unit;

    if (ps->angles == 0)
        return n;
    unit = constant(ps, acosl(-1) / 180);
    return with(with(node_new(ps, PRODUCT), n), unit);
}

static bool take_degree(struct parser *ps)
{
    const char *back = ps->p;

    if (take(ps, "^")) {
        if (take(ps, "\\circ"))
            return true;
        if (take(ps, "{") && take(ps, "\\circ") && take(ps, "}"))
            return true;
    }
    ps->p = back;
    return false;
}

static struct kva_math_node *power(struct parser *ps)
{
    struct kva_math_node *n = atom(ps);

    for (int chain = 0; n; chain++) {
        struct kva_math_node *e;

        if (chain > MATH_NESTING)
            return NULL;
        if (take_degree(ps)) {
            n = degrees(ps, n);
        } else if (take(ps, "^") || take(ps, "**")) {
            e = exparg(ps);
            n = with(with(node_new(ps, POWER), n), e);
        } else if (take(ps, "!")) {
            n = with(node_new(ps, FACTORIAL), n);
        } else {
            break;
        }
    }
    return n;
}

/* ---- functions ---- */

/* Which function stands at the position; *len: its letters with the backslash. Without
 * one it must begin a run of letters, as in sinx. */
static int function_at(struct parser *ps, size_t *len)
{
    struct kva_math_span cmd = command(ps);

    if (cmd.n) {
        for (int k = 0; k < N_FUNCTIONS; k++)
            if (kva_math_span_is(cmd, functions[k].name)) {
                *len = cmd.n + 1;
                return k;
            }
        return -1;
    }
    for (int k = 0; k < N_FUNCTIONS; k++) {
        size_t n = strlen(functions[k].name);

        if ((size_t)(ps->end - ps->p) >= n && memcmp(ps->p, functions[k].name, n) == 0) {
            *len = n;
            return k;
        }
    }
    return -1;
}

static bool starts_atom(struct parser *ps)
{
    static const char *const begins[] = {"frac", "sqrt", "binom", "pi", "text"};
    struct kva_math_span cmd, rest;
    size_t len;
    char c = peek(ps);

    if (c == '|')
        return ps->bars == 0;
    if (is_digit(c) || is_letter(c) || c == '(' || c == '[' || c == '{')
        return true;
    if (c == '.')
        return ps->p + 1 < ps->end && (is_digit(ps->p[1]) || ps->p[1] == '\\');
    if (c != '\\')
        return false;
    cmd = command(ps);
    rest = (struct kva_math_span){ps->p, (size_t)(ps->end - ps->p)};
    for (size_t k = 0; k < sizeof begins / sizeof *begins; k++)
        if (kva_math_span_is(cmd, begins[k]))
            return true;
    return greek_len(rest) > 0 || function_at(ps, &len) >= 0;
}

/* Powers side by side up to an operator, a bracket or the next function. */
static struct kva_math_node *bare_argument(struct parser *ps)
{
    struct kva_math_node *n = node_new(ps, PRODUCT), *child = power(ps);
    size_t len;

    n = with(n, child);
    while (n && starts_atom(ps) && *ps->p != '(' && *ps->p != '[' && *ps->p != '|' &&
           function_at(ps, &len) < 0) {
        if (child->literal && (is_digit(*ps->p) || *ps->p == '.'))
            return NULL;
        child = power(ps);
        n = with(n, child);
    }
    return n;
}

/* ^{-1} or ^-1 behind a function's name. */
static bool take_inverse(struct parser *ps, enum kva_math_fn fn)
{
    const char *back = ps->p;

    if (fn > TAN || !take(ps, "^"))
        return false;
    if (take(ps, "{")) {
        if (take(ps, "-") && take(ps, "1") && take(ps, "}"))
            return true;
    } else if (take(ps, "-") && take(ps, "1") &&
               (ps->p >= ps->end || !is_digit(*ps->p))) {
        return true;
    }
    ps->p = back;
    return false;
}

static struct kva_math_node *function(struct parser *ps, enum kva_math_fn fn)
{
    struct kva_math_node *n = node_new(ps, FUNCTION), *e = NULL, *base = NULL, *x;
    bool angle = fn <= CSC;
    char c;

    if (n && take_inverse(ps, fn)) {
        fn = fn == SIN ? ASIN : fn == COS ? ACOS : ATAN;
        angle = false;
    }
    for (int k = 0; k < 2; k++) {
        if (!base && fn == LOG && take(ps, "_")) {
            base = arg(ps);
            if (!base)
                return NULL;
        } else if (!e && take(ps, "^")) {
            e = exparg(ps);
            if (!e)
                return NULL;
        }
    }
    ps->angles += angle;
    c = peek(ps);
    x = c == '(' || c == '[' || c == '{' ? any_bracket(ps) : bare_argument(ps);
    ps->angles -= angle;
    n = with(n, x);
    if (!n)
        return NULL;
    n->fn = fn;
    if (base)
        n = with(n, base);
    return e ? with(with(node_new(ps, POWER), n), e) : n;
}

/* ---- atoms ---- */

static struct kva_math_node *root(struct parser *ps)
{
    struct kva_math_node *n = node_new(ps, ROOT), *index = NULL;

    if (peek(ps) == '[') {
        index = bracket(ps, "[", "]");
        if (!index)
            return NULL;
    }
    n = with(n, arg(ps));
    return index ? with(n, index) : n;
}

static struct kva_math_node *quotient(struct parser *ps)
{
    struct kva_math_node *n = with(node_new(ps, PRODUCT), arg(ps)),
                         *d = n ? arg(ps) : NULL;

    if (d)
        d->inverse = true;
    return with(n, d);
}

/* A run of letters that is one word; the position moves behind it. */
static bool take_run(struct parser *ps, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(ps->end - ps->p) < n || memcmp(ps->p, word, n) != 0 ||
        (ps->p + n < ps->end && is_letter(ps->p[n])))
        return false;
    ps->p += n;
    return true;
}

/* \text{x}: a letter in another font. */
static struct kva_math_node *font_letter(struct parser *ps)
{
    const char *letter;

    if (!take(ps, "{"))
        return NULL;
    (void)peek(ps);
    letter = ps->p;
    if (ps->p >= ps->end || !is_letter(*letter))
        return NULL;
    ps->p++;
    if (!take(ps, "}"))
        return NULL;
    return name(&(struct parser){.m = ps->m, .p = letter, .end = letter + 1});
}

static struct kva_math_node *command_atom(struct parser *ps)
{
    size_t len;
    int f;

    if (take(ps, "\\frac"))
        return quotient(ps);
    if (take(ps, "\\sqrt"))
        return root(ps);
    if (take(ps, "\\pi"))
        return constant(ps, acosl(-1));
    if (take(ps, "\\binom")) {
        struct kva_math_node *n = with(node_new(ps, BINOMIAL), arg(ps));

        return n ? with(n, arg(ps)) : NULL;
    }
    if (take(ps, "\\text")) {
        ps->variables = true;
        return font_letter(ps);
    }
    f = function_at(ps, &len);
    if (f < 0)
        return name(ps);
    ps->p += len;
    return function(ps, functions[f].fn);
}

static struct kva_math_node *letter_atom(struct parser *ps)
{
    bool run_begins = ps->p == ps->begin || !is_letter(ps->p[-1]);
    size_t len;
    int f = function_at(ps, &len);

    if (run_begins && take_run(ps, "pi"))
        return constant(ps, acosl(-1));
    if (run_begins && take_run(ps, "sqrt"))
        return root(ps);
    if (f >= 0 && (run_begins || len > 2)) {
        ps->p += len;
        return function(ps, functions[f].fn);
    }
    if (*ps->p == 'i' && (ps->p + 1 >= ps->end || ps->p[1] != '_')) {
        ps->p++;
        return constant(ps, I);
    }
    return name(ps);
}

static struct kva_math_node *absolute(struct parser *ps)
{
    struct kva_math_node *n;

    ps->p++;
    ps->bars++;
    n = expr(ps);
    ps->bars--;
    return n && take(ps, "|") ? with(node_new(ps, ABS), n) : NULL;
}

static struct kva_math_node *atom(struct parser *ps)
{
    struct kva_math_node *n = NULL;
    bool whole;
    char c = peek(ps);

    if (is_digit(c) || c == '.') {
        n = number(ps, &whole);
        return n && whole ? mixed(ps, n) : n;
    }
    if (c == '(' || c == '[' || c == '{')
        return any_bracket(ps);
    if (!enter(ps))
        return NULL;
    if (c == '\\')
        n = command_atom(ps);
    else if (is_letter(c))
        n = letter_atom(ps);
    else if (c == '|') /* an operand is due: it opens */
        n = absolute(ps);
    ps->depth--;
    return n;
}

/* ---- products and sums ---- */

static bool take_operator(struct parser *ps, bool *inverse)
{
    *inverse = false;
    if (take(ps, "\\cdot") || take(ps, "\\times") || take(ps, "*"))
        return true;
    *inverse = true;
    return take(ps, "/") || take(ps, "\\div");
}

static struct kva_math_node *product(struct parser *ps)
{
    struct kva_math_node *n = node_new(ps, PRODUCT), *child = NULL;
    bool inverse = false, pm = false, side_by_side = false;
    int sign = 1;

    while (n) {
        if (side_by_side && child->literal && (is_digit(*ps->p) || *ps->p == '.'))
            return NULL; /* 1 2 is no product */
        child = power(ps);
        n = with(n, child);
        if (!n)
            return NULL;
        child->inverse = inverse;
        child->sign = sign;
        child->pm = pm;
        sign = 1;
        pm = false;
        side_by_side = false;
        if (take_operator(ps, &inverse)) {
            (void)take_sign(ps, &sign, &pm);
        } else if (starts_atom(ps)) {
            side_by_side = true;
            inverse = false;
        } else {
            break;
        }
    }
    return n;
}

static struct kva_math_node *expr(struct parser *ps)
{
    struct kva_math_node *n = node_new(ps, SUM), *child;
    int sign = 1;
    bool pm = false;

    do {
        (void)take_sign(ps, &sign, &pm);
        child = product(ps);
        n = with(n, child);
        if (!n)
            return NULL;
        child->sign = sign;
        child->pm = pm;
        sign = 1;
        pm = false;
    } while (take_sign(ps, &sign, &pm));
    return n;
}

/* ---- the whole ---- */

/* Digits behind the point of [sign] digits [. digits]; -1: something else. */
static int plain_decimals(struct kva_math_span t)
{
    size_t i = t.n && (t.s[0] == '-' || t.s[0] == '+') ? 1 : 0, first, point = t.n;

    while (i < t.n && t.s[i] == ' ')
        i++;
    for (first = i; i < t.n; i++) {
        if (t.s[i] == '.' && point == t.n)
            point = i;
        else if (!is_digit(t.s[i]))
            return -1;
    }
    if (i == first || (i == first + 1 && point == first))
        return -1;
    return point < t.n ? (int)(t.n - point - 1) : 0;
}

const struct kva_math_expr *kva_math_expr_read(struct kva_math *m,
                                               struct kva_math_span text)
{
    struct kva_math_expr *e;
    struct kva_math_node *n;
    struct parser ps = {.m = m};
    int rows, points;

    text = kva_math_trim(text);
    ps.begin = ps.p = text.s;
    ps.end = text.s + text.n;
    if (text.n == 0 || m->work <= 0)
        return NULL;
    n = expr(&ps);
    if (!n || peek(&ps) != '\0' || ps.p != ps.end)
        return NULL;
    rows = ps.pm ? 2 : 1;
    points = ps.variables ? MATH_POINTS : 1;
    if (ps.cost * rows * points > m->work)
        return NULL;
    m->work -= ps.cost * rows * points;
    e = kva_math_alloc(m, 1, sizeof *e);
    if (!e)
        return NULL;
    e->has_pm = ps.pm;
    e->has_variables = ps.variables;
    e->decimals = plain_decimals(text);
    e->text = text;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < points; i++)
            e->at[row][i] = kva_math_eval(n, row ? -1 : 1, i);
    return e;
}
