/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_equal.c - two answers, equal or not (tasks-longbench-math.md B.6 step 3).
 *
 * Numbers: exact where both are rational; else |p - g| <= 1e-9 max(1, |p|, |g|), relative
 * only when both are below 1e-3. A prediction that is a decimal of d >= 6 places may be a
 * rounding: |p - g| <= 0.5 10^-d and <= 1e-3 |g|.
 * Expressions with variables agree at every point where both have a value, and at
 * MATH_POINTS_LEAST points at least. */
#include "metrics/math.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

static bool close(const struct kva_math_num *p, const struct kva_math_num *g)
{
    const long double tolerance = 1e-9L, small = 1e-3L;
    long double size = fmaxl(cabsl(p->z), cabsl(g->z)), gap = cabsl(p->z - g->z);

    if (p->exact && g->exact)
        return kva_rational_same(p->r, g->r);
    if (gap <= 16 * (p->noise + g->noise))
        return true;
    return gap <= tolerance * (size < small ? size : fmaxl(1, size));
}

/* p / scale against g. */
static bool same_at(struct kva_math_num p, const struct kva_math_num *g, int scale)
{
    struct kva_rational hundredth = {1, scale};

    if (scale != 1) {
        p.exact = p.exact && kva_rational_mul(p.r, hundredth, &p.r);
        p.z /= scale;
        p.noise /= scale;
    }
    return close(&p, g);
}

/* [sign] digits without the zeros that say nothing. */
static struct kva_math_span significant(struct kva_math_span t, bool *minus)
{
    *minus = t.n && t.s[0] == '-';
    while (t.n && strchr("+- 0", t.s[0]))
        t.s++, t.n--;
    if (t.n && memchr(t.s, '.', t.n)) {
        while (t.s[t.n - 1] == '0')
            t.n--;
        t.n -= t.s[t.n - 1] == '.';
    }
    *minus = *minus && t.n; /* -0 is 0 */
    return t;
}

/* Plain decimals are their digits, however many there are. */
static bool same_digits(struct kva_math_span a, struct kva_math_span b)
{
    bool minus_a, minus_b;

    a = significant(a, &minus_a);
    b = significant(b, &minus_b);
    return minus_a == minus_b && a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

static bool rounded(const struct kva_math_expr *p, const struct kva_math_expr *g)
{
    const int least = 6;
    const long double relative = 1e-3L;
    const struct kva_math_num *a = &p->at[0][0], *b = &g->at[0][0];
    long double gap;

    if (p->decimals < least || p->has_variables || g->has_variables || g->has_pm ||
        !a->ok || !b->ok || (g->decimals >= 0 && g->decimals <= p->decimals))
        return false;
    gap = cabsl(a->z - b->z);
    return gap <= 0.5L * powl(10, -p->decimals) && gap <= relative * cabsl(b->z);
}

/* Row sp of the prediction against row sg of the gold. */
static bool rows_agree(struct kva_math *m, const struct kva_math_expr *p, int sp,
                       const struct kva_math_expr *g, int sg, int scale)
{
    bool variables = p->has_variables || g->has_variables;
    int points = variables ? MATH_POINTS : 1, left = 0;

    m->work -= points;
    for (int i = 0; i < points; i++) {
        const struct kva_math_num *a = &p->at[sp][p->has_variables ? i : 0];
        const struct kva_math_num *b = &g->at[sg][g->has_variables ? i : 0];

        if (!a->ok || !b->ok)
            continue;
        if (!same_at(*a, b, scale))
            return false;
        left++;
    }
    return left >= (variables ? MATH_POINTS_LEAST : 1);
}

static bool same_expression(struct kva_math *m, const struct kva_math_expr *p,
                            const struct kva_math_expr *g, int scale)
{
    if (p->has_pm != g->has_pm || m->work <= 0)
        return false;
    if (p->has_pm)
        return (rows_agree(m, p, 0, g, 0, scale) && rows_agree(m, p, 1, g, 1, scale)) ||
               (rows_agree(m, p, 0, g, 1, scale) && rows_agree(m, p, 1, g, 0, scale));
    if (p->decimals >= 0 && g->decimals >= 0 && scale == 1 &&
        !(p->at[0][0].exact && g->at[0][0].exact))
        return same_digits(p->text, g->text);
    return rows_agree(m, p, 0, g, 0, scale) || (scale == 1 && rounded(p, g));
}

static bool expressions(struct kva_math *m, const struct kva_math_value *p,
                        const struct kva_math_value *g)
{
    if (same_expression(m, p->expr, g->expr, 1))
        return true;
    if (p->percent && !g->percent)
        return same_expression(m, p->expr, g->expr, 100);
    return g->percent && !p->percent && same_expression(m, g->expr, p->expr, 100);
}

/* ---- collections ---- */

static bool equal(struct kva_math *m, const struct kva_math_value *p,
                  const struct kva_math_value *g);

/* An element, or one of the two values of an expression with \pm. */
struct element {
    const struct kva_math_value *v;
    int row; /* 0, 1; -1: the value as it is */
};
enum { ELEMENTS = 2 * MATH_ITEMS };

static bool is_group(const struct kva_math_value *v)
{
    return v->kind == KVA_MATH_LIST || v->kind == KVA_MATH_SET ||
           v->kind == KVA_MATH_UNION;
}

/* false: too many. */
static bool collect(const struct kva_math_value *v, struct element *e, int *n)
{
    bool both = v->kind == KVA_MATH_EXPRESSION && v->expr->has_pm;

    if (is_group(v)) {
        for (int i = 0; i < v->n_items; i++) {
            /* a set inside a set is an element, a set in a union is not */
            if (v->kind == KVA_MATH_SET && is_group(v->items[i])) {
                if (*n >= ELEMENTS)
                    return false;
                e[(*n)++] = (struct element){v->items[i], -1};
            } else if (!collect(v->items[i], e, n)) {
                return false;
            }
        }
        return true;
    }
    for (int row = both ? 0 : -1; row < (both ? 2 : 0); row++) {
        if (*n >= ELEMENTS)
            return false;
        e[(*n)++] = (struct element){v, row};
    }
    return true;
}

static bool same_element(struct kva_math *m, struct element p, struct element g)
{
    if (p.row < 0 && g.row < 0)
        return equal(m, p.v, g.v);
    if (p.v->kind != KVA_MATH_EXPRESSION || g.v->kind != KVA_MATH_EXPRESSION)
        return false;
    if (rows_agree(m, p.v->expr, p.row < 0 ? 0 : p.row, g.v->expr, g.row < 0 ? 0 : g.row,
                   1))
        return true;
    return false;
}

/* One to one, in any order; greedy is enough, equality is all but transitive. */
static bool same_group(struct kva_math *m, const struct kva_math_value *p,
                       const struct kva_math_value *g)
{
    struct element a[ELEMENTS], b[ELEMENTS];
    int na = 0, nb = 0;

    if (!collect(p, a, &na) || !collect(g, b, &nb) || na != nb)
        return false;
    for (int i = 0; i < na; i++) {
        int k = 0;

        while (k < nb && !same_element(m, a[i], b[k]))
            k++;
        if (k == nb || m->work <= 0)
            return false;
        b[k] = b[--nb];
    }
    return true;
}

static bool in_order(struct kva_math *m, const struct kva_math_value *p,
                     const struct kva_math_value *g)
{
    if (p->n_items != g->n_items)
        return false;
    for (int i = 0; i < g->n_items; i++)
        if (!equal(m, p->items[i], g->items[i]))
            return false;
    return true;
}

static bool is_round(const struct kva_math_value *v)
{
    return v->kind == KVA_MATH_TUPLE && v->open == '(' && v->close == ')';
}

static bool collections(struct kva_math *m, const struct kva_math_value *p,
                        const struct kva_math_value *g)
{
    struct kva_math_value list;

    if (p->kind == KVA_MATH_TUPLE && g->kind == KVA_MATH_TUPLE)
        return p->open == g->open && p->close == g->close && in_order(m, p, g);
    if (is_round(g) && p->kind == KVA_MATH_LIST)
        return in_order(m, p, g);
    if (is_round(p) && g->kind == KVA_MATH_LIST) {
        list = *p;
        list.kind = KVA_MATH_LIST;
        return same_group(m, &list, g);
    }
    return (is_group(p) || is_group(g)) && same_group(m, p, g);
}

/* ---- equations ---- */

static bool is_expression(const struct kva_math_value *v)
{
    return v->kind == KVA_MATH_EXPRESSION && !v->expr->has_pm;
}

/* left - right at a point; *noise of both. */
static bool difference(const struct kva_math_value *eq, int point,
                       struct kva_math_num *out)
{
    const struct kva_math_expr *l = eq->items[0]->expr, *r = eq->items[1]->expr;
    const struct kva_math_num *a = &l->at[0][l->has_variables ? point : 0];
    const struct kva_math_num *b = &r->at[0][r->has_variables ? point : 0];

    *out = (struct kva_math_num){.ok = a->ok && b->ok,
                                 .z = a->z - b->z,
                                 .noise = a->noise + b->noise +
                                          0x1p-60L * fmaxl(cabsl(a->z), cabsl(b->z))};
    return out->ok;
}

/* (left - right) of both have a constant ratio that is not zero. */
static bool proportional(struct kva_math *m, const struct kva_math_value *p,
                         const struct kva_math_value *g)
{
    const long double tolerance = 1e-9L;
    long double complex first = 0;
    int left = 0;

    m->work -= MATH_POINTS;
    for (int i = 0; i < MATH_POINTS; i++) {
        struct kva_math_num a, b;
        long double complex ratio;

        if (!difference(p, i, &a) || !difference(g, i, &b))
            continue;
        if (cabsl(a.z) <= 64 * a.noise || cabsl(b.z) <= 64 * b.noise)
            return false;
        ratio = a.z / b.z;
        if (left++ == 0)
            first = ratio;
        else if (!(cabsl(ratio - first) <= tolerance * cabsl(first)))
            return false;
    }
    return left >= MATH_POINTS_LEAST;
}

static bool equations(struct kva_math *m, const struct kva_math_value *p,
                      const struct kva_math_value *g)
{
    if (p->assign && g->assign &&
        kva_math_same_text(p->items[0]->plain, g->items[0]->plain, false))
        return equal(m, p->items[1], g->items[1]);
    for (int i = 0; i < 2; i++)
        if (!is_expression(p->items[i]) || !is_expression(g->items[i]))
            return false;
    return proportional(m, p, g);
}

/* ---- texts, numerals ---- */

static bool is_letter_choice(struct kva_math_span t)
{
    return t.n == 1 && t.s[0] >= 'a' && t.s[0] <= 'e';
}

/* C, (C), C., (C) 12 for the gold (C). */
static bool chooses(struct kva_math_span t, char letter)
{
    if (t.n >= 3 && t.s[0] == '(' && t.s[1] == letter && t.s[2] == ')')
        return true;
    return t.n >= 1 && t.s[0] == letter && (t.n == 1 || strchr(".):,", t.s[1]));
}

static bool texts(struct kva_math *m, const struct kva_math_value *p,
                  const struct kva_math_value *g)
{
    const struct kva_math_value *word = g->kind == KVA_MATH_TEXT ? g : p;
    struct kva_math_span bare = kva_math_unwrap(m, word == g ? p->plain : g->plain);

    if (p->kind == g->kind && kva_math_same_text(p->text, g->text, false))
        return true;
    if (is_letter_choice(word->text) && chooses(bare, word->text.s[0]))
        return true;
    return kva_math_same_text(bare, word->text, false);
}

static bool numerals(const struct kva_math_value *p, const struct kva_math_value *g)
{
    if (g->kind != KVA_MATH_BASE)
        return false;
    if (p->kind == KVA_MATH_BASE)
        return kva_math_same_text(p->text, g->text, false) &&
               kva_math_same_text(p->base, g->base, false);
    return kva_math_same_text(p->plain, g->text, false);
}

/* ---- the whole ---- */

static bool same_matrix(struct kva_math *m, const struct kva_math_value *p,
                        const struct kva_math_value *g)
{
    return p->kind == g->kind && p->rows == g->rows && in_order(m, p, g);
}

static bool equal(struct kva_math *m, const struct kva_math_value *p,
                  const struct kva_math_value *g)
{
    enum kva_math_kind a = p->kind, b = g->kind;

    if (m->work-- <= 0)
        return false;
    if (p->plain.n && kva_math_same_text(p->plain, g->plain, false))
        return true;
    if (a == KVA_MATH_TEXT || b == KVA_MATH_TEXT) {
        if (a == KVA_MATH_EQUATION && p->assign)
            return equal(m, p->items[1], g);
        if (b == KVA_MATH_EQUATION && g->assign)
            return equal(m, p, g->items[1]);
        return texts(m, p, g);
    }
    if (a == KVA_MATH_UNREADABLE || b == KVA_MATH_UNREADABLE)
        return p->plain.n && kva_math_same_text(p->plain, g->plain, true);
    if (a == KVA_MATH_EQUATION && b == KVA_MATH_EQUATION)
        return equations(m, p, g);
    if (a == KVA_MATH_EQUATION)
        return p->assign && equal(m, p->items[1], g);
    if (b == KVA_MATH_EQUATION)
        return g->assign && equal(m, p, g->items[1]);
    if (a == KVA_MATH_BASE || b == KVA_MATH_BASE)
        return numerals(p, g);
    if (a == KVA_MATH_MATRIX || b == KVA_MATH_MATRIX)
        return same_matrix(m, p, g);
    if (a == KVA_MATH_INFINITY && b == KVA_MATH_INFINITY)
        return p->sign == g->sign;
    if (a == KVA_MATH_EXPRESSION && b == KVA_MATH_EXPRESSION)
        return expressions(m, p, g);
    return collections(m, p, g);
}

bool kva_math_equal(struct kva_math *m, const struct kva_math_value *prediction,
                    const struct kva_math_value *gold)
{
    return !m->nomem && equal(m, prediction, gold);
}

bool kva_math_equal_text(struct kva_math *m, struct kva_math_span prediction,
                         struct kva_math_span gold)
{
    const struct kva_math_value *p = kva_math_read(m, prediction);
    const struct kva_math_value *g = kva_math_read(m, gold);

    return kva_math_equal(m, p, g);
}

bool kva_math_rational(struct kva_math *m, struct kva_math_span text,
                       struct kva_rational *out)
{
    const struct kva_math_value *v = kva_math_read(m, text);

    while (v->kind == KVA_MATH_EQUATION && v->assign)
        v = v->items[1];
    if (v->kind != KVA_MATH_EXPRESSION || v->expr->has_variables || v->expr->has_pm ||
        !v->expr->at[0][0].ok || !v->expr->at[0][0].exact)
        return false;
    *out = v->expr->at[0][0].r;
    return true;
}
